"""A prepared corpus in memory: arrays over the rows of all splits, and what each split holds.

Dimension letters: N rows, T tokens, V words, D numbers per word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SIDES = ("premise", "hypothesis")


@dataclass(frozen=True)
class Rows:
    """One split of a prepared corpus.

    first: its first row in the arrays; label [N] int (index into LABELS, -1 = unlabelled);
    length: (premise [N], hypothesis [N]); uids, tags: one entry per row.
    """

    name: str
    first: int
    label: np.ndarray
    length: tuple[np.ndarray, np.ndarray]
    uids: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class Prepared:
    """A prepared corpus: arrays [N, ...] over all splits, word vectors [V, D], and what made them (manifest)."""

    folder: Path
    manifest: dict
    arrays: dict[str, np.ndarray]
    vectors: np.ndarray
    splits: dict[str, Rows]

    @property
    def longest_path(self) -> int:
        return self.manifest["knowledge"]["longest_path"]


def pad(sequences: Sequence[Sequence[int]], width: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers [N, width] int32 padded with 0, lengths [N] int32)."""
    length = np.array([len(sequence) for sequence in sequences], np.int32)
    numbers = np.zeros((len(sequences), width), np.int32)
    for row, sequence in zip(numbers, sequences, strict=True):
        row[: len(sequence)] = sequence
    return numbers, length
