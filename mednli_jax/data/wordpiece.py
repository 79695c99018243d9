"""Pieces of words (Wu et al. 2016) as BERT's vocabularies have them, and where pretrained weights
are.

A vocabulary is `vocab.txt` (a piece a line) or `tokenizer.json`; `tokenizer_config.json` beside it
says whether text is lower-cased. Where no file says so the pieces do: a vocabulary without a
capital letter is for lower-cased text (there are clinical models without that file, and what was
learnt of "Na" is lost on "na").
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from mednli_jax.errors import ConfigError, DataError, RunError
from mednli_jax.files import opened_text, write_atomic

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
FILES = ("vocab.txt", "tokenizer.json")
CONFIG = "tokenizer_config.json"
WEIGHT_CONFIGS = ("config.json", "bert_config.json")
WEIGHTS = "model.safetensors"
LONGEST_WORD = 100  # characters; a longer word is unknown
# rows that a table of weights may have beyond the pieces, to make its size a round number
_PADDING_ROWS = 128
_BRACKETED = re.compile(r"\[[A-Za-z0-9_]+\]|<[^ ]+>")
_COPY = "copy the file again from where the weights came from"


@dataclass(frozen=True)
class Pieces:
    """A text as pieces. numbers: of the pieces. words: of the text, in its own case, split at
    spaces and punctuation. word_of_piece: for each piece, the position of its word in words."""

    numbers: tuple[int, ...]
    words: tuple[str, ...]
    word_of_piece: tuple[int, ...]


@dataclass(frozen=True)
class WordPieces:
    """Pieces in order of their numbers, and how text is prepared for them.

    words: the pieces; one that starts with ## continues a word. "[SEP]" in a text is three words,
    no special piece.
    """

    words: tuple[str, ...]
    lowercase: bool
    strip_accents: bool
    file: str = field(default="vocabulary", repr=False, compare=False)
    _tokenizer: "Tokenizer" = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        number = {word: i for i, word in enumerate(self.words)}
        if len(number) < len(self.words):
            again = next(i for i, word in enumerate(self.words) if number[word] != i)
            raise DataError(f"the piece of number {again} comes again", file=self.file, fix=_COPY)
        for special in SPECIALS:
            if special not in number:
                fault = f"the special piece {special} is missing"
                raise DataError(fault, file=self.file, fix="give a vocabulary of BERT's")
        library = _tokenizers()
        model = library.models.WordPiece(
            number, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD
        )
        tokenizer = library.Tokenizer(model)
        tokenizer.normalizer = _normalizer(self.lowercase, self.strip_accents)
        tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
        object.__setattr__(self, "_tokenizer", tokenizer)

    def __len__(self) -> int:
        return len(self.words)

    pad, unk, cls, sep = (
        property(lambda self, piece=piece: self.words.index(piece)) for piece in SPECIALS
    )

    def encode(self, text: str) -> Pieces:
        """The pieces of a text, without special ones. A word that no pieces compose is one unknown
        piece."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        word_of_piece = tuple(encoded.word_ids)
        spans: list[list[int]] = []
        for word, (first, last) in zip(word_of_piece, encoded.offsets, strict=True):
            if word == len(spans):
                spans.append([first, last])
            spans[word][1] = last
        return Pieces(
            tuple(encoded.ids), tuple(text[first:last] for first, last in spans), word_of_piece
        )

    def check_size(self, vocab_size: int) -> None:
        """Raises DataError if weights for `vocab_size` pieces cannot belong to this vocabulary."""
        if not 0 <= vocab_size - len(self) < _PADDING_ROWS:
            fault = f"the vocabulary has {len(self)} pieces, the weights are for {vocab_size}"
            raise DataError(
                fault, file=self.file, fix="give the weights and the vocabulary of one model"
            )

    @classmethod
    def load(cls, path: Path | str) -> "WordPieces":
        """The vocabulary of a folder, or of a file vocab.txt or tokenizer.json."""
        path = _vocabulary_file(Path(path))
        options = _json(path.with_name(CONFIG)) if path.with_name(CONFIG).is_file() else {}
        if path.suffix == ".json":
            words, read = _of_tokenizer(path)
            options = read | {key: value for key, value in options.items() if value is not None}
        else:
            words = tuple(
                line.removesuffix("\r") for line in re.sub(r"\n\s*\Z", "", _text(path)).split("\n")
            )
        lowercase = options.get("do_lower_case")
        if not isinstance(lowercase, bool):
            lowercase = all(word == word.lower() or _BRACKETED.fullmatch(word) for word in words)
        strip = options.get("strip_accents")
        return cls(
            words, lowercase, strip if isinstance(strip, bool) else lowercase, file=path.name
        )

    @classmethod
    def of_texts(cls, texts: Iterable[str], size: int, *, lowercase: bool = True) -> "WordPieces":
        """A vocabulary of at most `size` pieces: the special pieces, every character of the texts
        at the head of a word and (##) within one, then the most frequent words; equally frequent
        ones by code point. (The trainer of `tokenizers` 0.23.3 gave 17 sets of 3,000 pieces of the
        same texts in 20 runs.)
        """
        bare, split = (
            _normalizer(lowercase, lowercase),
            _tokenizers().pre_tokenizers.BertPreTokenizer(),
        )
        counts = Counter(
            word for text in texts for word, _ in split.pre_tokenize_str(bare.normalize_str(text))
        )
        characters = sorted({character for word in counts for character in word})
        words = [*SPECIALS, *characters, *(f"##{character}" for character in characters)]
        if len(words) > size:
            fault = f"the texts have {len(characters)} characters, which take {len(words)} of {size} pieces"
            raise DataError(fault, file="vocabulary", fix=f"make room for {2 * len(words)} pieces")
        known = set(words)
        frequent = sorted(
            (word for word in counts if word not in known), key=lambda word: (-counts[word], word)
        )
        return cls((*words, *frequent[: size - len(words)]), lowercase, lowercase)

    def save(self, path: Path | str) -> None:
        """Writes the pieces and how text is prepared for them, as JSON."""
        content = {
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "pieces": self.words,
        }
        write_atomic(Path(path), json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def restore(cls, path: Path | str) -> "WordPieces":
        """Reads a file that `save` wrote; the manifest beside it has its digest."""
        content = json.loads(Path(path).read_bytes())
        return cls(tuple(content["pieces"]), content["lowercase"], content["strip_accents"])


def vocabulary_files(path: Path | str) -> list[Path]:
    """The files that `WordPieces.load` reads for the folder or file of some weights."""
    found = _vocabulary_file(Path(path))
    return [found, *(file for file in [found.with_name(CONFIG)] if file.is_file())]


def room_for(premise: int, hypothesis: int, size: int) -> tuple[int, int]:
    """(premise pieces, hypothesis pieces) that are kept of these if both may have `size`; the
    longer is cut first."""
    premise = min(premise, max(size - hypothesis, size - size // 2))
    return premise, min(hypothesis, size - premise)


def _tokenizers():
    try:
        import tokenizers  # an extra: it brings ten packages, and BERT alone needs it
    except ImportError:
        problem = "the tokenizers library, which BERT's word pieces need, is missing"
        raise RunError(problem, fix="pip install 'mednli_jax[bert]'") from None
    return tokenizers


def _normalizer(lowercase, strip_accents):
    return _tokenizers().normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip_accents, lowercase=lowercase
    )


def _vocabulary_file(path: Path) -> Path:
    if path.suffix == ".safetensors":
        path = path.parent
    if path.is_file():
        return path
    for name in FILES:
        if (path / name).is_file():
            return path / name
    fault = f"there is no vocabulary ({' or '.join(FILES)})"
    raise DataError(fault, file=path.name, fix="name the folder that the weights came in")


def _of_tokenizer(path: Path) -> tuple[tuple[str, ...], dict]:
    """(pieces, how text is prepared) of a tokenizer.json."""
    content, problem = _json(path), ""
    model, normalizer = (content.get(name) or {} for name in ("model", "normalizer"))
    numbers = model.get("vocab", {})
    if (
        model.get("type", "WordPiece") != "WordPiece"
        or model.get("continuing_subword_prefix", "##") != "##"
    ):
        problem = "its model is not WordPiece with ##"
    elif normalizer.get("type") != "BertNormalizer":
        problem = "text is not prepared as for BERT"
    elif sorted(numbers.values()) != list(range(len(numbers))):
        problem = "its pieces are not numbered from 0 on, each once"
    if problem:
        raise DataError(
            f"not a vocabulary of BERT's: {problem}", file=path.name, fix="give a BERT model"
        )
    options = {
        "do_lower_case": normalizer.get("lowercase"),
        "strip_accents": normalizer.get("strip_accents"),
    }
    return tuple(sorted(numbers, key=numbers.get)), options


def _json(path: Path) -> dict:
    try:
        return json.loads(_text(path))
    except ValueError:
        raise DataError("the file is no JSON", file=path.name, fix=_COPY) from None


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
        fix = f"name the folder of a BERT model ({WEIGHT_CONFIGS[0]}, {WEIGHTS}, vocab.txt)"
        raise ConfigError(problem, fix=fix) from None
    files = (
        Path(distribution.locate_file(file))
        for file in distribution.files or ()
        if file.name.endswith(WEIGHTS)
    )
    folders = sorted(
        {
            file.parent
            for file in files
            if any((file.parent / name).is_file() for name in WEIGHT_CONFIGS)
        }
    )
    if len(folders) != 1:
        problem = f"package {name}: it contains {len(folders) or 'no'} folders with {WEIGHT_CONFIGS[0]} and {WEIGHTS}"
        raise ConfigError(problem, fix="name the folder of the weights")
    return folders[0]
