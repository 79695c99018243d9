"""Pieces of words as pretrained encoders read them, and the folder of pretrained weights."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from mednli_jax.data.tokenizer_files import (
    CONFIG_FILE,
    TOKENIZER_FILE,
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
SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.json"  # of a prepared corpus and of a run
# Embedding tables are often padded: they have up to this share more rows than there are pieces.
SPARE_SHARE = 0.1
_SPECIAL_NAME = re.compile(r"\[[A-Za-z0-9_]+\]|<[^ ]+>")


@dataclass(frozen=True)
class Pieces:
    """A text as pieces.

    Args:
      numbers: the numbers of the pieces.
      words: the words of the text in its own case, split at spaces and punctuation.
      word_of_piece: for each piece, the position of its word in `words`.
    """

    numbers: tuple[int, ...]
    words: tuple[str, ...]
    word_of_piece: tuple[int, ...]


@dataclass(frozen=True)
class PieceVocabulary:
    """The pieces by number, and the tokenizer that splits a text into pieces.

    A text that contains the name of a special piece, as "[SEP]", is split like any other; it never
    yields the special piece.

    Args:
      content: a tokenizer.json, as tokenizer_files.read_tokenizer gives it.
      file: the file that messages name.
    """

    content: JsonObject
    file: str = field(default="vocabulary", compare=False)

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        tokenizer: Tokenizer = library().Tokenizer.from_str(json.dumps(self.content))
        tokenizer.encode_special_tokens = True
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _border_categories(self) -> str:
        return _border_categories(self._tokenizer)

    @cached_property
    def form(self) -> PairForm:
        return pair_form(self._tokenizer)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The pieces in the order of their numbers."""
        number_of = self._tokenizer.get_vocab(with_added_tokens=True)
        words = [""] * (1 + max(number_of.values()))
        for word, number in number_of.items():
            words[number] = word
        return tuple(words)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def unk(self) -> int:
        """The number of the unknown piece, which stands for what no pieces can spell; -1 if the
        vocabulary has none."""
        model = self.content["model"]
        number = self._tokenizer.token_to_id(model.get("unk_token") or "")
        return model.get("unk_id", -1) if number is None else number

    @property
    def specials_per_pair(self) -> int:
        """How many special pieces a pair has: cls, the separators and the last sep."""
        return 2 + self.form.separators

    def encode(self, text: str) -> Pieces:
        """The pieces of a text, without special ones. A word that no pieces can spell is one
        unknown piece."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        word_of_piece: list[int] = []
        spans: list[list[int]] = []  # [first character, last + 1] of each word
        last_id = None
        # A word begins where the tokenizer's word id changes, at each piece without a word id, and
        # at each border at which the tokenizer does not cut (see `_border_categories`). Any other
        # piece continues the last word.
        for word_id, (first, end) in zip(encoded.word_ids, encoded.offsets, strict=True):
            if word_id is None or word_id != last_id or self._is_border(text, first):
                spans.append([first, end])
                last_id = word_id
            spans[-1][1] = max(end, spans[-1][1])
            word_of_piece.append(len(spans) - 1)
        words = tuple(text[first:end].strip() for first, end in spans)
        return Pieces(tuple(encoded.ids), words, tuple(word_of_piece))

    def _is_border(self, text: str, place: int) -> bool:
        """True if a word begins at this place of a text because the character there, or the one
        before it, is punctuation or the like (see `_border_categories`)."""
        categories = map(unicodedata.category, text[max(place - 1, 0) : place + 1])
        return any(category[0] in self._border_categories for category in categories)

    def check_weights(self, piece_rows: int, type_rows: int) -> None:
        """Checks that weights belong to this vocabulary, and raises DataError if they cannot. Warns
        if pieces have capital letters and texts are lower-cased. Says how many rows are padding.

        piece_rows: rows of the embedding table of pieces. type_rows: rows of that of type ids; 0 =
        the weights have none.
        """
        size = len(self)
        if type_rows and self.form.second_type >= type_rows:
            problem = "gives the second text the type id 1, and the weights have only the id 0"
            fix = f'add "model_input_names": ["input_ids", "attention_mask"] to {CONFIG_FILE}'
            raise DataError(problem, file=self.file, fix=fix)
        if not size <= piece_rows <= size * (1 + SPARE_SHARE):
            problem = f"the vocabulary has {size} pieces, the weights are for {piece_rows}"
            fix = "give the weights and the vocabulary of one model"
            raise DataError(problem, file=self.file, fix=fix)
        if piece_rows > size:
            say(
                f"{self.file}: {size:,} pieces; {piece_rows - size} rows of the weights are padding"
            )
        self._warn_of_capitals()

    def _warn_of_capitals(self) -> None:
        """Warns if pieces have capital letters and texts are lower-cased, so that those pieces are
        never used."""
        added = {piece["content"] for piece in self.content["added_tokens"]}
        has_capitals = False
        for word in self.words:
            is_special = word in added or _SPECIAL_NAME.fullmatch(word)
            has_capitals |= not is_special and word != word.lower()
        if has_capitals and (self.content["normalizer"] or {}).get("lowercase"):
            unless = f'unless {CONFIG_FILE} has "do_lower_case": false'
            warn(f"{self.file}: has capital letters, and text is lower-cased, {unless}")

    @classmethod
    def of_weights(cls, path: Path | str) -> "PieceVocabulary":
        """The vocabulary of pretrained weights. path: their folder or one of its files, or the
        vocabulary.json of a run."""
        path = Path(path)
        if path.name == VOCABULARY:
            return cls.load(path)
        files = find_tokenizer(path)
        return cls(read_tokenizer(files), files.file.name)

    @classmethod
    def of_texts(
        cls, texts: Iterable[str], size: int, *, lowercase: bool = True
    ) -> "PieceVocabulary":
        """A WordPiece vocabulary of at most `size` pieces: the special pieces, every character of
        the texts (at the start of a word and inside it), then the most frequent words.

        The trainer of the tokenizers library is not used, because its results vary: version 0.23.3
        made 17 different vocabularies of 3,000 pieces in 20 runs on the same texts.
        """
        empty = word_piece_tokenizer({}, lowercase=lowercase)
        counts: Counter[str] = Counter()
        for text in texts:
            bare = empty.normalizer.normalize_str(text)
            counts.update(word for word, _ in empty.pre_tokenizer.pre_tokenize_str(bare))
        characters = sorted(set("".join(counts)))
        pieces = [*SPECIAL_PIECES, *characters, *(f"##{character}" for character in characters)]
        if len(pieces) > size:
            problem = (
                f"the texts have {len(characters)} different characters, which alone need"
                f" {len(pieces)} pieces; the limit is {size}"
            )
            fix = f"set config.data.pieces={2 * len(pieces)}"
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
    def load(cls, path: Path | str) -> "PieceVocabulary":
        """Reads a file that `save` wrote. The manifest beside the file has its digest."""
        return cls(json.loads(Path(path).read_bytes()))

    def save_for_transformers(self, folder: Path, length: int) -> None:
        """Writes tokenizer.json and tokenizer_config.json. length: the most pieces of a pair."""
        self.save(folder / TOKENIZER_FILE)
        form, splitter = self.form, self.content["pre_tokenizer"] or {}
        inputs = ["input_ids", "attention_mask"]
        if form.second_type:
            inputs.append("token_type_ids")
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
        write_atomic(folder / CONFIG_FILE, json.dumps(config, indent=1) + "\n")


def truncated_sizes(premise: int, hypothesis: int, room: int) -> tuple[int, int]:
    """The numbers of pieces of (premise, hypothesis) after the longer text is cut until both
    together have at most `room` pieces, as the tokenizers library does.

    premise, hypothesis: their numbers of pieces.
    """
    longer, shorter = max(premise, hypothesis), min(premise, hypothesis)
    if premise + hypothesis > room:
        shorter = min(shorter, room // 2)
        longer = room - shorter
    return (longer, shorter) if premise > hypothesis else (shorter, longer)


def _border_categories(tokenizer: "Tokenizer") -> str:
    """The Unicode categories (their first letters) at which `encode` cuts words, because the
    tokenizer does not: "PSZ" (punctuation, symbols, spaces) if it cuts nowhere, "PS" if it cuts at
    spaces alone, "" if it cuts at punctuation, too."""
    splitter = tokenizer.pre_tokenizer
    if splitter is None:
        return "PSZ"
    return "" if len(splitter.pre_tokenize_str("a,b")) > 1 else "PS"


def find_weights(name: str | Path) -> Path:
    """The folder or file of pretrained weights. name: a path, or the name of an installed package
    that contains the folder."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    try:
        distribution = metadata.distribution(str(name))
    except (metadata.PackageNotFoundError, ValueError):
        problem = f"{path.name}: no such folder or file, and no such package is installed."
        fix = f"name the folder of an encoder ({WEIGHT_CONFIGS[0]}, {WEIGHTS}, {TOKENIZER_FILE})"
        raise ConfigError(problem, field="model.weights", fix=fix) from None
    folders = set()
    for file in distribution.files or ():
        folder = Path(str(distribution.locate_file(file))).parent
        has_config = any((folder / config).is_file() for config in WEIGHT_CONFIGS)
        if has_config and file.name.endswith(WEIGHTS):
            folders.add(folder)
    if len(folders) != 1:
        problem = (
            f"package {name}: it contains {len(folders) or 'no'} folders with "
            f"{WEIGHT_CONFIGS[0]} and {WEIGHTS}"
        )
        raise ConfigError(problem, field="model.weights", fix="name the folder of the weights")
    return folders.pop()
