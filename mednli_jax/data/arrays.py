"""A prepared corpus in memory: arrays over the rows of all splits, and what each split holds.

Dimension letters: N rows, T tokens, V words, D numbers per word.
"""

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mednli_jax.data.examples import Split
from mednli_jax.types import JsonObject

SIDES = ("premise", "hypothesis")
PLURAL = {
    "premise": "premises",
    "hypothesis": "hypotheses",
    "passage": "passages",
    "query": "queries",
}
NEW = "new"  # name of the split of inputs that belong to no corpus
# Key of a manifest: the sha256 of a run's own vectors, if they replace those of the corpus.
VECTORS_OF_RUN = "vectors_of_run"
# The least padded sizes of arrays of new inputs: number of rows, and tokens of a row.
LEAST_ROWS, LEAST_WIDTH = 64, 32
PADDING = {"link_distance": -1}  # the value of padding, where it is not 0


@dataclass(frozen=True)
class Rows:
    """One split of a prepared corpus.

    Args:
      first: number of the split's first row in the arrays, which hold all splits.
      label: [N], index into LABELS; -1 = no label.
      length: token counts of (premise [N], hypothesis [N]).
      original: [N], the row of the split whose pair a row changes, negative for none; None for a
        corpus without such pairs.
    """

    name: str
    first: int
    label: np.ndarray
    length: tuple[np.ndarray, np.ndarray]
    uids: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]
    original: np.ndarray | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.label)

    @property
    def place(self) -> slice:
        """The slice of the arrays that holds the split; the arrays hold all splits."""
        return slice(self.first, self.first + len(self))


def rows_of(
    name: str,
    arrays: Mapping[str, np.ndarray],
    facts: JsonObject,
    uids: Iterable[str],
    tags: Iterable[Iterable[str]],
) -> Rows:
    """The rows of one split. facts: the split's entry in a manifest, with `first` and `rows`."""
    first = facts["first"]
    rows = slice(first, first + facts["rows"])
    premise = np.array(arrays["premise_length"][rows])
    hypothesis = np.array(arrays["hypothesis_length"][rows])
    label = np.array(arrays["label"][rows])
    return Rows(
        name,
        first,
        label,
        (premise, hypothesis),
        tuple(uids),
        tuple(map(tuple, tags)),
        original=arrays["original"][rows] - first if "original" in arrays else None,
    )


def rows_of_splits(
    splits: Mapping[str, Split], arrays: Mapping[str, np.ndarray], manifest: JsonObject
) -> dict[str, Rows]:
    """The rows of splits that were encoded in memory. manifest: its "splits" have an entry for each
    split, as `rows_of` takes it."""
    rows = {}
    for name, split in splits.items():
        uids = [example.uid for example in split.examples]
        tags = [example.tags for example in split.examples]
        rows[name] = rows_of(name, arrays, manifest["splits"][name], uids, tags)
    return rows


@dataclass(frozen=True)
class Prepared:
    """A prepared corpus: arrays [N, ...] over all splits, word vectors [V, D], and the manifest,
    which describes both.

    folder: the folder in the cache; None for texts that were encoded in memory.
    """

    folder: Path | None
    manifest: JsonObject
    arrays: dict[str, np.ndarray]
    vectors: np.ndarray
    splits: dict[str, Rows]

    @property
    def folder_in_cache(self) -> Path:
        """The folder, of a corpus that has one."""
        assert self.folder is not None
        return self.folder

    @property
    def notes(self) -> list[str]:
        """The notes on the splits in the manifest, each once."""
        splits = self.manifest["splits"].values()
        return sorted({facts["note"] for facts in splits if "note" in facts})

    def with_vectors(self, vectors: np.ndarray) -> "Prepared":
        """This corpus with the vectors [V, D] of a run. The manifest gets their digest as
        VECTORS_OF_RUN."""
        sha256 = hashlib.sha256(npy(vectors)).hexdigest()
        return replace(self, vectors=vectors, manifest={**self.manifest, VECTORS_OF_RUN: sha256})


def npy(array: np.ndarray) -> bytes:
    """The bytes of an .npy file that holds the array."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def power_of_two(number: int, least: int = 1) -> int:
    """The smallest power of two that is at least `number` and at least `least`, which is a power of
    two itself."""
    return max(least, 1 << max(number - 1, 0).bit_length())


def pad_to_powers_of_two(
    arrays: Mapping[str, np.ndarray], width: tuple[int, int] | None
) -> dict[str, np.ndarray]:
    """Pads arrays of new inputs to powers of two, so that inputs of similar size, and lists of up
    to LEAST_ROWS, share compiled programs. Added rows and passages are empty.

    width: padded tokens of the two sides, for models whose results depend on the padding; None for
    all others. A longer text keeps its length.
    """
    padded = {}
    for name, array in arrays.items():
        # An array NAME_start has N + 1 offsets into another array. The last one is repeated, so
        # that each added passage ends where it begins.
        is_start = name.endswith("_start")
        sizes = [power_of_two(size, LEAST_WIDTH) for size in array.shape[1:]]
        shape = [power_of_two(len(array) - is_start, LEAST_ROWS) + is_start, *sizes]
        if width and name in SIDES:
            shape[1] = max(array.shape[1], width[SIDES.index(name)])
        extra = [(0, most - size) for most, size in zip(shape, array.shape, strict=True)]
        if is_start:
            padded[name] = np.pad(array, extra, mode="edge")
        else:
            padded[name] = np.pad(array, extra, constant_values=PADDING.get(name, 0))
    return padded


def lengths_of_programs(longest: int) -> list[int]:
    """Lengths of new texts that together need every padded length (32, 64, 128, ...) up to that of
    `longest` tokens.

    They are the shortest length for each padded length (1, 33, 65, ...), and `longest` itself.
    """
    lengths, padded = [1], LEAST_WIDTH
    while padded < longest:
        lengths.append(padded + 1)
        padded *= 2
    return [*lengths, longest]


def pad(sequences: Sequence[Sequence[int]], width: int) -> tuple[np.ndarray, np.ndarray]:
    """Pads sequences to one array: (numbers [N, width] int32, padded with 0; lengths [N] int32)."""
    length = np.array(list(map(len, sequences)), np.int32)
    numbers = np.zeros((len(sequences), width), np.int32)
    for row, sequence in zip(numbers, sequences, strict=True):
        row[: len(sequence)] = sequence
    return numbers, length
