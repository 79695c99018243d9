"""Pieces of words as pretrained encoders read them, and where pretrained weights are."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from mednli_jax.data.tokenizer_files import (
    CONFIG,
    TOKENIZER,
    WEIGHT_CONFIGS,
    PairForm,
    find_tokenizer,
    library,
    pair_form,
    read_tokenizer,
    tokenizer_content,
    word_piece_tokenizer,
)
from mednli_jax.errors import ConfigError, DataError
from mednli_jax.files.writing import write_atomic
from mednli_jax.terminal import say, warn
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = 7  # when to raise it: tests/data/test_prepared_content.py
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.json"  # of a prepared corpus and of a run
# The table of weights may have more rows than there are pieces. They are a small part of it.
SPARE_SHARE = 0.1
_NAME = re.compile(r"\[[A-Za-z0-9_]+\]|<[^ ]+>")


@dataclass(frozen=True)
class Pieces:
    """A text as pieces.

    Args:
      numbers: of the pieces.
      words: of the text, in its own case, split at spaces and punctuation.
      word_of_piece: for each piece, the position of its word in `words`.
    """

    numbers: tuple[int, ...]
    words: tuple[str, ...]
    word_of_piece: tuple[int, ...]


@dataclass(frozen=True)
class PieceVocabulary:
    """The pieces by number, and the tokenizer that splits a text into pieces.

    A text that contains the name of a special piece has ordinary words there.

    Args:
      content: of a tokenizer.json, as tokenizer_files.read_tokenizer returns it.
      file: for messages.
    """

    content: JsonObject
    file: str = field(default="vocabulary", compare=False)
    form: PairForm = field(init=False, compare=False)
    words: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _tokenizer: "Tokenizer" = field(init=False, repr=False, compare=False)
    _borders: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tokenizer = library().Tokenizer.from_str(json.dumps(self.content))
        tokenizer.encode_special_tokens = True
        tokenizer.no_padding()
        number_of = tokenizer.get_vocab(with_added_tokens=True)
        words = [""] * (1 + max(number_of.values()))
        for word, number in number_of.items():
            words[number] = word
        object.__setattr__(self, "form", pair_form(tokenizer))
        object.__setattr__(self, "words", tuple(words))
        object.__setattr__(self, "_tokenizer", tokenizer)
        object.__setattr__(self, "_borders", _borders(tokenizer))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def unk(self) -> int:
        """The number of the unknown piece, for text that no pieces compose; -1 if there is none."""
        model = self.content["model"]
        number = self._tokenizer.token_to_id(model.get("unk_token") or "")
        return model.get("unk_id", -1) if number is None else number

    @property
    def specials(self) -> int:
        """The number of special pieces in a pair."""
        return 2 + self.form.separators

    def encode(self, text: str) -> Pieces:
        """Splits a text into pieces, without special ones. A word that no pieces compose is one
        unknown piece."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        word_of_piece: list[int] = []
        spans: list[list[int]] = []
        last_word = None
        for word, (first, last) in zip(encoded.word_ids, encoded.offsets, strict=True):
            around = map(unicodedata.category, text[max(first - 1, 0) : first + 1])
            is_border = any(category[0] in self._borders for category in around)
            if word != last_word or word is None or is_border:
                spans.append([first, last])
                last_word = word
            spans[-1][1] = max(last, spans[-1][1])
            word_of_piece.append(len(spans) - 1)
        words = tuple(text[first:last].strip() for first, last in spans)
        return Pieces(tuple(encoded.ids), words, tuple(word_of_piece))

    def check_weights(self, rows: int, types: int) -> None:
        """Raises DataError if weights with `rows` embeddings of pieces and `types` embeddings of
        text types cannot belong to this vocabulary."""
        size = len(self)
        if types and self.form.second_type >= types:
            problem = (
                f"gives the second text type {self.form.second_type}, the weights have {types}"
            )
            fix = f'add "model_input_names": ["input_ids", "attention_mask"] to {CONFIG}'
            raise DataError(problem, file=self.file, fix=fix)
        if not size <= rows <= size * (1 + SPARE_SHARE):
            problem = f"the vocabulary has {size} pieces, the weights are for {rows}"
            fix = "give the weights and the vocabulary of one model"
            raise DataError(problem, file=self.file, fix=fix)
        if rows > size:
            say(f"{self.file}: {size:,} pieces; {rows - size} rows of the weights are padding")
        added = {piece["content"] for piece in self.content["added_tokens"]}
        pieces = [word for word in self.words if not _NAME.fullmatch(word) and word not in added]
        has_capitals = any(piece != piece.lower() for piece in pieces)
        if has_capitals and (self.content["normalizer"] or {}).get("lowercase"):
            unless = f'unless {CONFIG} has "do_lower_case": false'
            warn(f"{self.file}: has capital letters, and text is lower-cased, {unless}")

    @classmethod
    def load(cls, path: Path | str) -> "PieceVocabulary":
        """Loads the vocabulary of a folder of weights, of a file in it, or of a run."""
        path = Path(path)
        if path.name == VOCABULARY:
            return cls.restore(path)
        files = find_tokenizer(path)
        return cls(read_tokenizer(files), files.file.name)

    @classmethod
    def of_texts(
        cls, texts: Iterable[str], size: int, *, lowercase: bool = True
    ) -> "PieceVocabulary":
        """A WordPiece vocabulary of at most `size` pieces: the special pieces, every character of
        the texts (at the start of a word and inside it), then the most frequent words.

        (The trainer of `tokenizers` 0.23.3 gave 17 sets of 3,000 pieces of the same texts in 20
        runs.)
        """
        empty = word_piece_tokenizer({}, lowercase=lowercase)
        counts: Counter[str] = Counter()
        for text in texts:
            bare = empty.normalizer.normalize_str(text)
            counts.update(word for word, _ in empty.pre_tokenizer.pre_tokenize_str(bare))
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
        number_of = {piece: number for number, piece in enumerate(pieces)}
        form = PairForm(number_of["[CLS]"], number_of["[SEP]"], separators=1, second_type=1)
        tokenizer = word_piece_tokenizer(number_of, lowercase=lowercase)
        return cls(tokenizer_content(tokenizer, form))

    def save(self, path: Path | str) -> None:
        """Writes the content as JSON."""
        write_atomic(Path(path), json.dumps(self.content, ensure_ascii=False) + "\n")

    @classmethod
    def restore(cls, path: Path | str) -> "PieceVocabulary":
        """Reads a file that `save` wrote; the manifest beside it has its digest."""
        return cls(json.loads(Path(path).read_bytes()))

    def save_for_transformers(self, folder: Path, length: int) -> None:
        """Writes tokenizer.json and tokenizer_config.json. length: most pieces of a row."""
        self.save(folder / TOKENIZER)
        form, splitter = self.form, self.content["pre_tokenizer"] or {}
        inputs = ["input_ids", "attention_mask", *["token_type_ids"] * form.second_type]
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "cls_token": self.words[form.cls],
            "sep_token": self.words[form.sep],
            "model_max_length": length,
            "model_input_names": inputs,
            "add_prefix_space": splitter.get("add_prefix_space", False),
            "split_special_tokens": True,
        }
        if self.unk >= 0:
            config["unk_token"] = self.words[self.unk]
        write_atomic(folder / CONFIG, json.dumps(config, indent=1) + "\n")


def room_for(premise: int, hypothesis: int, size: int) -> tuple[int, int]:
    """The numbers of (premise pieces, hypothesis pieces) that fit into `size`. The longer text is
    cut first, as the tokenizers library does."""
    longer, shorter = max(premise, hypothesis), min(premise, hypothesis)
    if premise + hypothesis > size:
        shorter = min(shorter, size // 2)
        longer = size - shorter
    return (longer, shorter) if premise > hypothesis else (shorter, longer)


def _borders(tokenizer: "Tokenizer") -> str:
    """The Unicode classes (P punctuation, S symbols, Z spaces) at whose characters words end inside
    the tokenizer's own words."""
    splitter = tokenizer.pre_tokenizer
    if splitter is None:
        return "PSZ"
    return "" if len(splitter.pre_tokenize_str("a,b")) > 1 else "PS"


def find_weights(name: str | Path) -> Path:
    """The folder or file of pretrained weights: a path, or the name of an installed package that
    contains them."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    try:
        distribution = metadata.distribution(str(name))
    except (metadata.PackageNotFoundError, ValueError):
        problem = f"{path.name}: no such folder or file, and no such package is installed."
        fix = f"name the folder of an encoder ({WEIGHT_CONFIGS[0]}, {WEIGHTS}, {TOKENIZER})"
        raise ConfigError(problem, field="model.weights", fix=fix) from None
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
        raise ConfigError(problem, field="model.weights", fix="name the folder of the weights")
    return folders.pop()
