"""Running text as rows of pieces for masked language models: the demo's fact text, or the user's own text files.

A row holds as many consecutive sentences of one document as fit. The first half is its `premise`, the second half its
`hypothesis`, so that a row looks like the pairs that the encoder is fine-tuned on. The only sentence of a row is a
premise without a hypothesis.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from mednli_jax.corpora.arrays import SIDES, Prepared
from mednli_jax.corpora.base import cache_folder, required_folder
from mednli_jax.corpora.cache import Cache
from mednli_jax.corpora.demo import facts
from mednli_jax.corpora.demo.words import demo_files
from mednli_jax.corpora.nli.pieces import SPECIAL_PIECES, PieceEncoding
from mednli_jax.corpora.nli.wordpiece import MASK, SPECIALS, WordPieces, vocabulary_files
from mednli_jax.errors import DataError
from mednli_jax.examples import Split
from mednli_jax.files import sha256
from mednli_jax.knowledge.sentences import lines, split_sentences
from mednli_jax.textfiles import either_name, no_such_file

DEMO, FILE = "demo", "file"
NAMES = (DEMO, FILE)
FORMAT = 1  # of the arrays; tests/corpora/test_prepared_content.py says when to raise it
DEV = 20  # every 20th document goes to dev if there is no file for it


@dataclass(frozen=True)
class Row:
    """What the cache keeps for a row besides its arrays."""

    uid: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TextCorpus:
    """A corpus of documents (see base.Corpus).

    name: demo, the fact text (facts.fact_text); or file, train.txt and perhaps dev.txt in a folder: UTF-8, plain or
    gzipped, a line of text is one sentence or more, an empty line ends a document. folder: of the files.
    pieces: the vocabulary, and the pieces of a row. lowercase: of a vocabulary made here. content, withhold: of the
    demo. limit: first documents of train.
    """

    name: str
    pieces: PieceEncoding
    folder: Path | None = None
    lowercase: bool = True
    limit: int | None = None
    content: str = "both"
    withhold: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.name

    def splits(self) -> Mapping[str, Split]:
        """No examples, because documents are not scored."""
        return {}

    def read_vocabulary(self, path: Path) -> WordPieces:
        return WordPieces.restore(path)

    def prepare(self) -> tuple[Prepared, bool]:
        """See base.Corpus. Raises DataError for files without text, and for a vocabulary without [MASK]."""
        cache = Cache(cache_folder())
        return cache.get(f"text-{self.name}", self.key(cache), self.build)

    def key(self, cache: Cache) -> dict:
        """Everything that shapes the arrays, as JSON: settings, sources by content, the numbers of formats."""
        weights = vocabulary_files(self.pieces.file) if self.pieces.file else []
        sources = demo_files() if self.name == DEMO else list(self._files().values())
        return {
            "corpus": self.name,
            "limit": self.limit or 0,
            "lowercase": self.lowercase,
            "pieces": [self.pieces.size, self.pieces.room, bool(weights)],
            "formats": {"texts": FORMAT, **({"facts": facts.FORMAT} if self.name == DEMO else {})},
            "sources": cache.digests([*sources, *weights]),
            **({"content": self.content, "withhold": sorted(self.withhold)} if self.name == DEMO else {}),
        }

    def _files(self) -> dict[str, Path]:
        folder = required_folder(self.name, self.folder)
        found = {name: either_name(folder / f"{name}.txt") for name in ("train", "dev")}
        if found["train"] is None:
            raise no_such_file(folder / "train.txt", "put train.txt (.gz may follow) into config.data.dir")
        return {name: path for name, path in found.items() if path}

    def documents(self) -> Iterator[tuple[str, list[str]]]:
        """(split, sentences) of each document. Raises: DataError."""
        if self.name == DEMO:
            for split, documents in facts.fact_text(self.content, self.withhold).items():
                yield from ((split, document) for document in self._first(split, documents))
            return
        files = self._files()
        for split, path in files.items():
            number = 0
            for number, document in enumerate(self._first(split, _documents(lines(path))), start=1):
                yield split if "dev" in files or number % DEV else "dev", document
            if not number:
                raise DataError("holds no text", file=path.name, fix="give text, a sentence or more a line")

    def _first(self, split, documents):
        """The documents of a split, at most `limit`."""
        return islice(documents, self.limit if split == "train" else None)

    def _source(self, split) -> dict:
        """The source of a split's text, for the key."""
        if self.name == DEMO:
            return {"note": facts.NOTE, "seed": facts.SEED}
        files = self._files()
        path = files.get(split, files["train"])
        return {"file": path.name, "sha256": sha256(path)}

    def build(self) -> tuple:
        """What the cache writes: (splits, arrays, vocabulary, no vectors [V, 1], facts)."""
        vocabulary = self._vocabulary()
        rows = {split: PackedRows(len(vocabulary)) for split in ("train", "dev")}
        room = self.pieces.room - SPECIAL_PIECES
        for split, document in self.documents():
            for first, second in pairs_of((vocabulary.encode(text).numbers for text in document), room):
                rows[split].add(first, second)
        if not len(rows["train"]):
            raise DataError("no piece of the text is left", file="train.txt", fix="give text of letters or digits")
        if not len(rows["dev"]):
            fix = f"give dev.txt, or {DEV} documents" + f"; config.data.limit is {self.limit}" * bool(self.limit)
            raise DataError("no document is left for dev", file="dev.txt", fix=fix)
        splits, facts_of, first = {}, {}, 0
        for split, kept in rows.items():
            splits[split] = Split(split, tuple(Row(f"{split}-{number}") for number in range(len(kept))))
            facts_of[split] = {"first": first, "rows": len(kept), "pieces": kept.total, **self._source(split)}
            first += len(kept)
        arrays = joined(rows.values())
        arrays["label"] = np.zeros(first, np.int8)
        words, source = len(vocabulary), self.pieces.file.name if self.pieces.file else "these texts"
        about = {
            "splits": facts_of,
            "pieces": {
                **{"size": words, "cls": vocabulary.cls, "sep": vocabulary.sep, "unknown": vocabulary.unk},
                **{"mask": vocabulary.words.index(MASK), "room": self.pieces.room},
            },
            "vocabulary": {"words": words, "with_vector": 0, "source": f"pieces of {source}", "sha256": ""},
        }
        return splits, arrays, vocabulary, np.zeros((words, 1), np.float32), about

    def _vocabulary(self) -> WordPieces:
        if self.pieces.file is None:
            texts = (text for split, document in self.documents() if split == "train" for text in document)
            return WordPieces.of_texts(texts, self.pieces.size, lowercase=self.lowercase, specials=(*SPECIALS, MASK))
        vocabulary = WordPieces.load(self.pieces.file)
        if MASK not in vocabulary.words:
            raise DataError(f"the special piece {MASK} is missing", file=vocabulary.file, fix="give BERT's vocabulary")
        return vocabulary


def _documents(texts: Iterable[str]) -> Iterator[list[str]]:
    """The sentences of each document; an empty line ends one."""
    document = []
    for line in texts:
        if line.strip():
            document += split_sentences(line.strip())
        elif document:
            yield document
            document = []
    if document:
        yield document


def pairs_of(sentences: Iterable[tuple[int, ...]], room: int) -> Iterator[tuple[list[int], list[int]]]:
    """The rows of a document: (first half, second half) of as many sentences as `room` pieces hold.

    A sentence that is longer is cut into rows of its own.
    """
    held, size = [], 0
    for sentence in sentences:
        for start in range(0, len(sentence), room):
            part = sentence[start : start + room]
            if size + len(part) > room:
                yield _halves(held)
                held, size = [], 0
            held.append(part)
            size += len(part)
    if held:
        yield _halves(held)


def _halves(sentences):
    middle = (len(sentences) + 1) // 2
    return tuple(
        [piece for sentence in part for piece in sentence] for part in (sentences[:middle], sentences[middle:])
    )


class PackedRows:
    """The rows of a split one after the other, in two or four bytes a piece: notes have billions of them."""

    def __init__(self, words: int):
        self._pieces = {side: array("H" if words <= 1 << 16 else "i") for side in SIDES}
        self._length = {side: array("i") for side in SIDES}

    def __len__(self) -> int:
        return len(self._length[SIDES[0]])

    def add(self, *sides) -> None:
        for side, numbers in zip(SIDES, sides, strict=True):
            self._pieces[side].extend(numbers)
            self._length[side].append(len(numbers))

    @property
    def total(self) -> int:
        return sum(map(len, self._pieces.values()))

    def side(self, side: str) -> tuple[np.ndarray, np.ndarray]:
        """(pieces one after the other, length of each row)."""
        pieces = self._pieces[side]
        return np.frombuffer(pieces, pieces.typecode), np.frombuffer(self._length[side], np.int32)


def joined(splits: Iterable[PackedRows]) -> dict[str, np.ndarray]:
    """premise, hypothesis [N, T] of all splits, padded with 0, and their lengths [N]."""
    arrays, splits = {}, tuple(splits)
    for side in SIDES:
        pieces, length = (np.concatenate(parts) for parts in zip(*(kept.side(side) for kept in splits), strict=True))
        arrays[side] = np.zeros((len(length), max(length.max(initial=1), 1)), pieces.dtype)
        arrays[side][np.arange(arrays[side].shape[1]) < length[:, None]] = pieces
        arrays[f"{side}_length"] = length
    return arrays
