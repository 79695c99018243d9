"""Pieces of words as pretrained encoders read them, and where pretrained weights are.

The tokenizers library makes the pieces: by tokenizer.json (any model, such as the unigrams of
SentencePiece, Kudo & Richardson 2018), else WordPiece (Wu et al. 2016) by vocab.txt, a piece a
line, or byte-level BPE (Radford et al. 2019) by vocab.json and merges.txt.
`tokenizer_config.json` beside vocab.txt says whether text is lower-cased. Where no file says so the
pieces do: a vocabulary without a capital letter is for lower-cased text (there are clinical models
without that file, and what was learnt of "Na" is lost on "na").
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from mednli_jax.errors import ConfigError, DataError, RunError
from mednli_jax.files import opened_text, write_atomic
from mednli_jax.terminal import say

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.normalizers import Normalizer

FORMAT = 6  # when to raise it: tests/data/test_prepared_content.py
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
TOKENIZER, WORD_PIECES, BPE, MERGES = "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"
SENTENCE_PIECES = ("spm.model", "spiece.model", "sentencepiece.bpe.model")
CONFIG = "tokenizer_config.json"
ADDED = "added_tokens.json"
WEIGHT_CONFIGS = ("config.json", "bert_config.json")
WEIGHTS = "model.safetensors"
LONGEST_WORD = 100  # characters; a longer word is unknown
# The table of weights may have more rows than there are pieces, to make its size a multiple of a
# power of two up to this one. These rows are a small part of a real vocabulary.
ROUND_SIZE = 128
_PADDED_SHARE = 0.01
_BRACKETED = re.compile(r"\[[A-Za-z0-9_]+\]|<[^ ]+>")
_COPY = "copy the file again from where the weights came from"

Json = dict[str, Any]


class PairForm(NamedTuple):
    """The special pieces of a pair: cls premise sep ... sep hypothesis sep, with so many
    `separators` between the texts; unknown: that of text which no pieces compose; padding: after
    the end of a row."""

    cls: str = "[CLS]"
    sep: str = "[SEP]"
    unknown: str = "[UNK]"
    separators: int = 1
    padding: str = "[PAD]"


FORMS = {"roberta": PairForm("<s>", "</s>", "<unk>", 2, "<pad>")}  # by model_type


@dataclass(frozen=True)
class Pieces:
    """A text as pieces. numbers: of the pieces. words: of the text, in its own case, split at
    spaces and punctuation. word_of_piece: for each piece, the position of its word in words."""

    numbers: tuple[int, ...]
    words: tuple[str, ...]
    word_of_piece: tuple[int, ...]


@dataclass(frozen=True)
class PieceVocabulary:
    """Pieces by their numbers, and how a text becomes pieces.

    The names of special pieces in a text are words, no special pieces.

    settings: {"pieces", "lowercase", "strip_accents"} of WordPiece, and "added" if there are pieces
      that are found in the text first; or {"tokenizer"}, the content of a tokenizer.json, and
      "form", a PairForm.
    file: for messages.
    """

    settings: Json
    file: str = field(default="vocabulary", compare=False)
    form: PairForm = field(init=False, compare=False)
    words: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _tokenizer: "Tokenizer" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settings = self.settings
        if "pieces" in settings:
            self._check_pieces(settings["pieces"])
            tokenizer, form = _word_piece_tokenizer(settings), PairForm()
        else:
            tokenizer = _tokenizers().Tokenizer.from_str(json.dumps(settings["tokenizer"]))
            form = PairForm(*settings["form"])
            for special in (form.cls, form.sep):
                if tokenizer.token_to_id(special) is None:
                    problem = f"the special piece {special} is missing"
                    raise DataError(
                        problem, file=self.file, fix="give the tokenizer of the weights"
                    )
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        number_of = tokenizer.get_vocab(with_added_tokens=True)
        words = [""] * (1 + max(number_of.values()))
        for word, number in number_of.items():
            words[number] = word
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "words", tuple(words))
        object.__setattr__(self, "_tokenizer", tokenizer)

    def _check_pieces(self, pieces: Sequence[str]) -> None:
        place_of = {piece: place for place, piece in enumerate(pieces)}
        for place, piece in enumerate(pieces):
            if place_of[piece] != place:
                problem = f"the piece of number {place} comes again"
                raise DataError(problem, file=self.file, fix=_COPY)
        for special in SPECIALS:
            if special not in place_of:
                problem = f"the special piece {special} is missing"
                raise DataError(problem, file=self.file, fix="give a vocabulary of BERT's")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def cls(self) -> int:
        return self.words.index(self.form.cls)

    @property
    def sep(self) -> int:
        return self.words.index(self.form.sep)

    @property
    def unk(self) -> int:
        """-1 where there is no such piece."""
        number = self._tokenizer.token_to_id(self.form.unknown)
        return -1 if number is None else int(number)

    @property
    def specials(self) -> int:
        """The special pieces of a pair."""
        return 2 + self.form.separators

    def encode(self, text: str) -> Pieces:
        """The pieces of a text, without special ones. A word that no pieces compose is one unknown
        piece."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        word_of_piece: list[int] = []
        spans: list[list[int]] = []
        last_word, splits_at_spaces = None, self._splits_at_spaces
        for word, (first, last) in zip(encoded.word_ids, encoded.offsets, strict=True):
            is_border = splits_at_spaces and _has_punctuation(text[max(first - 1, 0) : first + 1])
            if word != last_word or word is None or is_border:
                spans.append([first, last])
                last_word = word
            spans[-1][1] = max(last, spans[-1][1])
            word_of_piece.append(len(spans) - 1)
        words = tuple(text[first:last].strip() for first, last in spans)
        return Pieces(tuple(encoded.ids), words, tuple(word_of_piece))

    @property
    def _splits_at_spaces(self) -> bool:
        """Whether punctuation belongs to the tokenizer's words, as in SentencePiece."""
        model = self.settings.get("tokenizer", {}).get("model", {})
        return bool(model.get("type") == "Unigram")

    def check_size(self, rows: int) -> None:
        """Raises DataError if weights with `rows` embeddings cannot belong to this vocabulary."""
        size = len(self)
        most = min(-(-size // ROUND_SIZE) * ROUND_SIZE, int(size * (1 + _PADDED_SHARE)))
        if not size <= rows <= max(most, size):
            problem = f"the vocabulary has {size} pieces, the weights are for {rows}"
            fix = "give the weights and the vocabulary of one model"
            raise DataError(problem, file=self.file, fix=fix)
        if rows > size:
            say(f"{self.file}: {size:,} pieces; {rows - size} rows of the weights are padding")

    @classmethod
    def load(cls, path: Path | str) -> "PieceVocabulary":
        """The vocabulary of a folder of weights, or of one of its files."""
        file = _vocabulary_file(Path(path))
        if file.name == TOKENIZER:
            return cls(_settings_of_tokenizer(file), file.name)
        if file.name == BPE:
            return cls(_settings_of_bpe(file), file.name)
        lines = re.sub(r"\n\s*\Z", "", _text(file)).split("\n")
        pieces = [line.removesuffix("\r") for line in lines]
        options = _json(file.with_name(CONFIG)) if file.with_name(CONFIG).is_file() else {}
        settings = _word_piece_settings(pieces, options)
        if added := _added(file):
            settings["added"] = added
            settings["pieces"] = _with_added(pieces, added, file.with_name(ADDED))
        return cls(settings, file.name)

    @classmethod
    def of_texts(
        cls, texts: Iterable[str], size: int, *, lowercase: bool = True
    ) -> "PieceVocabulary":
        """A WordPiece vocabulary of at most `size` pieces: the special pieces, every character of
        the texts (at the start of a word and inside it), then the most frequent words.

        (The trainer of `tokenizers` 0.23.3 gave 17 sets of 3,000 pieces of the same texts in 20
        runs.)
        """
        bare, split = _normalizer(lowercase, lowercase), _tokenizers().pre_tokenizers
        splitter = split.BertPreTokenizer()
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(word for word, _ in splitter.pre_tokenize_str(bare.normalize_str(text)))
        characters = sorted(set("".join(counts)))
        pieces = [*SPECIALS, *characters, *(f"##{character}" for character in characters)]
        if len(pieces) > size:
            problem = (
                f"the texts have {len(characters)} characters, which take {len(pieces)} of "
                f"{size} pieces"
            )
            fix = f"make room for {2 * len(pieces)} pieces"
            raise DataError(problem, file="vocabulary", fix=fix)
        words = counts.keys() - set(pieces)
        frequent = sorted(words, key=lambda word: (-counts[word], word))
        pieces += frequent[: size - len(pieces)]
        return cls({"lowercase": lowercase, "strip_accents": lowercase, "pieces": pieces})

    def save(self, path: Path | str) -> None:
        """Writes the settings as JSON."""
        write_atomic(Path(path), json.dumps(self.settings, ensure_ascii=False) + "\n")

    @classmethod
    def restore(cls, path: Path | str) -> "PieceVocabulary":
        """Reads a file that `save` wrote; the manifest beside it has its digest."""
        return cls(json.loads(Path(path).read_bytes()))

    def save_for_transformers(self, folder: Path, length: int, *, has_types: bool) -> None:
        """Writes tokenizer.json, which makes a pair's row as well, and tokenizer_config.json.

        length: most pieces of a row. has_types: whether the pieces of the second text have type 1.
        """
        library, form = _tokenizers(), self.form
        tokenizer = library.Tokenizer.from_str(self._tokenizer.to_str())
        tokenizer.add_special_tokens([form.cls, form.sep])
        between = " ".join([f"{form.sep}:0"] * form.separators)
        second = int(has_types)
        tokenizer.post_processor = library.processors.TemplateProcessing(
            single=f"{form.cls}:0 $A:0 {form.sep}:0",
            pair=f"{form.cls}:0 $A:0 {between} $B:{second} {form.sep}:{second}",
            special_tokens=[(form.cls, self.cls), (form.sep, self.sep)],
        )
        tokenizer.save(str(folder / TOKENIZER))
        inputs = ["input_ids", "attention_mask", *["token_type_ids"] * has_types]
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "cls_token": form.cls,
            "sep_token": form.sep,
            "unk_token": form.unknown,
            "pad_token": form.padding,
            "model_max_length": length,
            "model_input_names": inputs,
        }
        write_atomic(folder / CONFIG, json.dumps(config, indent=1) + "\n")


def vocabulary_files(path: Path | str) -> list[Path]:
    """The files that `PieceVocabulary.load` reads for the folder or file of some weights."""
    file = _vocabulary_file(Path(path))
    names = [CONFIG, ADDED] if file.name == WORD_PIECES else [*WEIGHT_CONFIGS, MERGES, ADDED]
    return [file, *(file.with_name(name) for name in names if file.with_name(name).is_file())]


def room_for(premise: int, hypothesis: int, size: int) -> tuple[int, int]:
    """(premise pieces, hypothesis pieces) that are kept of these if both may have `size`: the
    longer is cut first, as the tokenizers library does."""
    longer, shorter = max(premise, hypothesis), min(premise, hypothesis)
    if premise + hypothesis > size:
        shorter = min(shorter, size // 2)
        longer = size - shorter
    return (longer, shorter) if premise > hypothesis else (shorter, longer)


def _has_punctuation(text: str) -> bool:
    """Whether there is a character of Unicode's classes of punctuation and symbols."""
    return any(unicodedata.category(character)[0] in "PS" for character in text)


def _tokenizers() -> ModuleType:
    try:
        import tokenizers  # an extra: it brings ten packages, and encoders alone need it
    except ImportError:
        problem = "the tokenizers library, which encoders' pieces need, is missing"
        raise RunError(problem, fix="pip install 'mednli_jax[bert]'") from None
    return tokenizers


def _normalizer(lowercase: bool, strip_accents: bool) -> "Normalizer":
    normalizer: Normalizer = _tokenizers().normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip_accents, lowercase=lowercase
    )
    return normalizer


def _word_piece_tokenizer(settings: Json) -> "Tokenizer":
    library = _tokenizers()
    number_of = {piece: number for number, piece in enumerate(settings["pieces"])}
    model = library.models.WordPiece(
        number_of, unk_token=PairForm().unknown, max_input_chars_per_word=LONGEST_WORD
    )
    tokenizer: Tokenizer = library.Tokenizer(model)
    tokenizer.normalizer = _normalizer(settings["lowercase"], settings["strip_accents"])
    tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    _add(tokenizer, settings.get("added", ()))
    return tokenizer


def _add(tokenizer: "Tokenizer", pieces: Sequence[str]) -> None:
    """Pieces that are found in the text as it stands, before it is split."""
    added_token = _tokenizers().AddedToken
    tokenizer.add_tokens([added_token(piece, normalized=False) for piece in pieces])


def _word_piece_settings(pieces: Sequence[str], options: Json) -> Json:
    lowercase, strip_accents = options.get("do_lower_case"), options.get("strip_accents")
    if not isinstance(lowercase, bool):
        lowercase = all(piece == piece.lower() or _BRACKETED.fullmatch(piece) for piece in pieces)
    if not isinstance(strip_accents, bool):
        strip_accents = lowercase
    return {"lowercase": lowercase, "strip_accents": strip_accents, "pieces": list(pieces)}


def _settings_of_tokenizer(file: Path) -> Json:
    """Those of WordPiece where BERT's own tokenizer makes the same pieces."""
    content = _json(file)
    model, normalizer = content.get("model") or {}, content.get("normalizer") or {}
    number_of: dict[str, int] = model.get("vocab", {})
    is_plain = (
        model.get("type") == "WordPiece"
        and model.get("continuing_subword_prefix") == "##"
        and normalizer.get("type") == "BertNormalizer"
        and all(piece["special"] for piece in content.get("added_tokens", ()))
        and set(SPECIALS) <= number_of.keys()
        and sorted(number_of.values()) == list(range(len(number_of)))
    )
    if is_plain:
        options = {
            "do_lower_case": normalizer.get("lowercase"),
            "strip_accents": normalizer.get("strip_accents"),
        }
        return _word_piece_settings(sorted(number_of, key=number_of.__getitem__), options)
    try:
        _tokenizers().Tokenizer.from_str(json.dumps(content))
    except Exception:  # the library has no class of its own for what it cannot read
        problem = "the tokenizers library cannot read it"
        raise DataError(problem, file=file.name, fix=f"{_COPY}, or upgrade tokenizers") from None
    return {"tokenizer": content, "form": list(_form_beside(file))}


def _settings_of_bpe(file: Path) -> Json:
    library = _tokenizers()
    number_of = _json(file)
    lines = _text(file.with_name(MERGES)).splitlines()
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    try:
        tokenizer = library.Tokenizer(library.models.BPE(number_of, merges))
    except Exception:  # see above
        problem = f"it does not fit {BPE}"
        raise DataError(problem, file=MERGES, fix=_COPY) from None
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    _add(tokenizer, _added(file))
    return {"tokenizer": json.loads(tokenizer.to_str()), "form": list(_form_beside(file))}


def _form_beside(file: Path) -> PairForm:
    """The form of pairs of the model whose config.json is beside the file."""
    for name in WEIGHT_CONFIGS:
        if file.with_name(name).is_file():
            return FORMS.get(_json(file.with_name(name)).get("model_type", ""), PairForm())
    return PairForm()


def _added(file: Path) -> list[str]:
    """The pieces of added_tokens.json beside the file, in the order of their numbers."""
    path = file.with_name(ADDED)
    number_of = _json(path) if path.is_file() else {}
    return sorted(number_of, key=number_of.__getitem__)


def _with_added(pieces: Sequence[str], added: Sequence[str], file: Path) -> list[str]:
    """All pieces by their numbers. Raises DataError where a number lies beyond the next one."""
    number_of, every = _json(file), list(pieces)
    for piece in added:
        if number_of[piece] == len(every):
            every.append(piece)
        elif number_of[piece] > len(every) or every[number_of[piece]] != piece:
            problem = f"its numbers do not continue the {len(pieces)} pieces of {WORD_PIECES}"
            raise DataError(problem, file=file.name, fix=_COPY)
    return every


def _vocabulary_file(path: Path) -> Path:
    if path.suffix == ".safetensors":
        path = path.parent
    if path.is_file():
        return path
    for name in (TOKENIZER, WORD_PIECES, BPE):
        if (path / name).is_file():
            return path / name
    problem = f"there is no vocabulary ({TOKENIZER}, {WORD_PIECES} or {BPE})"
    fix = "name the folder that the weights came in"
    for name in SENTENCE_PIECES:
        if (path / name).is_file():
            problem = f"the only vocabulary is a SentencePiece model ({name})"
            fix = (
                f"make {TOKENIZER}: pip install 'transformers<5' sentencepiece protobuf; "
                'python -c "from transformers import AutoTokenizer as T; '
                "T.from_pretrained('FOLDER').save_pretrained('FOLDER')\""
            )
    raise DataError(problem, file=path.name, fix=fix)


def _json(path: Path) -> Json:
    try:
        return dict(json.loads(_text(path)))
    except (TypeError, ValueError):
        raise DataError("not a JSON object", file=path.name, fix=_COPY) from None


def _text(path: Path) -> str:
    with opened_text(path) as stream:
        return stream.read()


def find_weights(name: str | Path) -> Path:
    """The folder or file of some weights: a path, or the name of an installed package that contains
    them."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    try:
        distribution = metadata.distribution(str(name))
    except (metadata.PackageNotFoundError, ValueError):
        problem = f"{path.name}: no such folder or file, and no such package is installed."
        fix = f"name the folder of an encoder ({WEIGHT_CONFIGS[0]}, {WEIGHTS}, {TOKENIZER})"
        raise ConfigError(problem, fix=fix) from None
    folders = set()
    for file in distribution.files or ():
        folder = Path(str(distribution.locate_file(file))).parent
        if file.name.endswith(WEIGHTS) and any(
            (folder / name).is_file() for name in WEIGHT_CONFIGS
        ):
            folders.add(folder)
    if len(folders) != 1:
        problem = (
            f"package {name}: it contains {len(folders) or 'no'} folders with "
            f"{WEIGHT_CONFIGS[0]} and {WEIGHTS}"
        )
        raise ConfigError(problem, fix="name the folder of the weights")
    return folders.pop()
