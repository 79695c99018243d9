"""The rows to look out for in a file of vectors, the numbers found so far, and the faults all formats share.

Files can be gigabytes, vocabularies are small: a reader looks at every row, and only rows requested become numbers.
"""

import numpy as np

from mednli_jax.errors import DataError
from mednli_jax.textfiles import line_fault

# How a word came by its vector: not at all, as it is, lower-cased, or put together from its character n-grams.
ROUTES = ("missing", "exact", "lowered", "subwords")
MISSING, EXACT, LOWERED, SUBWORDS = range(len(ROUTES))
TOO_LARGE = 1 << 15  # numbers a word: what no file of vectors has
FORMATS = (
    "a text file of word and numbers (.txt, .vec) or a .bin of word2vec, both also gzipped, a .bin of fastText, "
    "NAME.npy with NAME.vocab.txt, or a folder with types.txt and vectors.txt"
)


def encoded(word: str) -> bytes:
    """A word as files hold it."""
    return word.encode("utf-8", "surrogatepass")


class Wanted:
    """Rows to look out for, by the bytes of their word: each word as it is and, where `lowered`, lower-cased.

    places: bytes of a form -> its row in `numbers` float32 [F, D]. filled, composed: bool [F], whether the form has
    numbers, and whether these come from character n-grams alone. duplicates: rows that repeat a form found before.
    """

    def __init__(self, words, dim: int, lowered: bool = True):
        self.words, self.lowered = tuple(words), lowered
        forms = dict.fromkeys(form for word in self.words for form, _ in self._forms(word))
        self.places = {encoded(form): place for place, form in enumerate(forms)}
        self.numbers = np.zeros((len(forms), dim), np.float32)
        self.filled = np.zeros(len(forms), bool)
        self.composed = np.zeros(len(forms), bool)
        self.dim, self.duplicates = dim, 0

    def place(self, word: bytes) -> int | None:
        """Where the word's numbers belong; None for a word that was not requested or is there already."""
        place = self.places.get(word)
        if place is not None and self.filled[place]:
            self.duplicates += 1
            return None
        return place

    def fill(self, place: int, numbers) -> bool:
        """False where a number is not finite in float32."""
        with np.errstate(over="ignore"):
            self.numbers[place] = numbers
        self.filled[place] = True
        return bool(np.isfinite(self.numbers[place]).all())

    def _forms(self, word):
        return ((word, EXACT), (word.lower(), LOWERED))[: 1 + self.lowered]

    def find(self, word: str) -> tuple[int, int]:
        """(row of `numbers`, route) of a word: as it is, else lower-cased, else from its n-grams; (-1, MISSING)."""
        found = -1, MISSING
        for form, route in self._forms(word):
            place = self.places[encoded(form)]
            if self.filled[place] and not self.composed[place]:
                return place, route
            if self.filled[place] and found[0] < 0:
                found = place, SUBWORDS
        return found


def check_dim(path, columns: int, dim: int, line: int | None) -> None:
    """Raises DataError where the file has not `dim` numbers a word."""
    if columns != dim:
        raise _wrong_dim(path.name, f"holds {columns}", columns, dim, line)


def check_dims(paths, columns: list[int], dim: int) -> None:
    """The same of files side by side, whose numbers a word add up."""
    if sum(columns) != dim:
        problem = f"hold {' + '.join(map(str, columns))} = {sum(columns)}"
        raise _wrong_dim("+".join(path.name for path in paths), problem, sum(columns), dim, None)


def _wrong_dim(names, problem, columns, dim, line):
    fix = f"set the vectors' dimension to {columns} or use another file"
    return DataError(f"{problem} numbers a word, expected {dim}", file=names, line=line, fix=fix)


def not_finite(path, line: int | None, where: str = "the row", fix: str = "correct or remove the row") -> DataError:
    return line_fault(path.name, line, f"{where} holds something that is not a finite number", fix)


def unreadable_format(path, problem: str, line: int | None = None, fix: str = f"use {FORMATS}") -> DataError:
    return line_fault(path.name, line, problem, fix)


def wrong_count(path, promised: int, found: str, line: int | None = 1) -> DataError:
    """The error for another number of rows than the file's header says."""
    problem = f"the header promises {promised} rows, there are {found}"
    return line_fault(path.name, line, problem, "copy the file again, it may be cut short")


def disagreeing(path, problem: str) -> DataError:
    """The error for two files, of words and of numbers, that differ in their number of rows."""
    return line_fault(path.name, None, problem, "take both files from the same vectors")
