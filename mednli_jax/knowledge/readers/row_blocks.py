"""Large tables of terminologies (RRF of the UMLS, RF2 of SNOMED CT), read in blocks of rows instead of row by row.

A block keeps the bytes of some 100,000 rows and the places of their delimiters; columns are compared and turned into
numbers as arrays, and only the rows that are requested become Python strings.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.errors import MAX_PROBLEMS, DataError, Problems
from mednli_jax.knowledge.ontology import OntologyOptions, Relations
from mednli_jax.knowledge.readers.terminologies import is_a_graph
from mednli_jax.textfiles import decoded, empty_file, opened

BLOCK_BYTES = 1 << 24
MAX_DIGITS = 18  # what an int64 holds, and the longest SNOMED CT identifier
WHOLE = "take a fresh, whole copy of the release"
_NEWLINE, _RETURN, _BLANK, _ZERO = b"\n\r 0"


@dataclass(frozen=True)
class RowFile:
    """A file and the layout of its rows.

    columns: their names, in order. delimiter: one byte. closed: it also follows the last column (RRF).
    header: the first line names the columns (RF2).
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: bytes
    closed: bool = False
    header: bool = False

    @property
    def width(self) -> int:
        """Delimiters of a row, its line break among them."""
        return len(self.columns) + self.closed

    def fault(self, problem: str, line: int | None = None, field: str | None = None, fix: str = WHOLE) -> DataError:
        return DataError(problem, file=self.path.name, line=line, field=field, fix=fix)

    def blocks(self, digest) -> Iterator["Block"]:
        """The rows, in blocks; the contents' hash goes into `digest` at the end of the file.

        Raises: DataError, or DataErrors with the first 20 faulty rows of the first block that has any.
        """
        content, line, rows = hashlib.sha256(), 1, 0
        for data in _pieces(self.path, content):
            if not data.isascii():
                decoded(self.path.name, line, data)  # raises where the bytes are not text
            if line == 1:
                data = data.removeprefix(b"\xef\xbb\xbf")
                if self.header:
                    data, line = self._without_header(data), 2
            if data:
                block = Block(self, line, data)
                line, rows = line + len(block), rows + len(block)
                yield block
        if not rows:
            raise empty_file(self.path, "no rows")
        digest.update(content.digest())

    def _without_header(self, data):
        first, _, rest = data.partition(b"\n")
        if tuple(first.decode().rstrip("\r").split(self.delimiter.decode())) != self.columns:
            problem = "the header is not that of this table"
            fix = f"the first line must name, between tabs: {', '.join(self.columns)}"
            raise self.fault(problem, 1, fix=fix)
        return rest


class Block:
    """R rows of a table, all with the right number of columns; rows are requested by index (int [N], None for all)."""

    def __init__(self, table: RowFile, first_line: int, data: bytes):
        self.table, self.first_line, self.data = table, first_line, data
        self._bytes = np.frombuffer(data, np.uint8)
        delimiter = table.delimiter[0]
        marks = np.flatnonzero((self._bytes == delimiter) | (self._bytes == _NEWLINE))
        if not self._is_regular(marks):
            self._raise_faults()
        self._marks = marks.reshape(-1, table.width)
        self._begins = np.concatenate(([0], self._marks[:-1, -1] + 1))

    def __len__(self) -> int:
        return len(self._marks)

    def _is_regular(self, marks):
        width = self.table.width
        if len(marks) % width or len(marks) // width != self.data.count(b"\n"):
            return False
        ends = marks[width - 1 :: width]
        regular = (self._bytes[ends] == _NEWLINE).all()
        if regular and self.table.closed:  # nothing but a carriage return may follow the last delimiter
            gap = ends - marks[width - 2 :: width]
            regular = ((gap == 1) | ((gap == 2) & (self._bytes[ends - 1] == _RETURN))).all()
        return regular

    def _raise_faults(self):
        table, problems = self.table, Problems()
        due = len(table.columns)
        fix = f"{WHOLE}: {due} columns, {'| after each' if table.closed else 'a tab between them'}"
        for line, row in enumerate(self.data.split(b"\n")[:-1], self.first_line):
            found = row.removesuffix(b"\r").split(table.delimiter)
            closed = table.closed and found[-1] == b""
            count = len(found) - closed
            if problems.total >= MAX_PROBLEMS and (count != due or closed != table.closed):
                problems.total += 1  # a block may hold millions
            elif count != due:
                problems.add(table.fault(f"{count} columns where {due} are due", line, fix=fix))
            elif closed != table.closed:
                problems.add(table.fault("the last column is not closed by |", line, fix=fix))
        problems.raise_if_any()

    def lines(self, rows: np.ndarray | None = None) -> np.ndarray:
        """int64 [N], line numbers in the file, from 1."""
        return self.first_line + (np.arange(len(self)) if rows is None else np.asarray(rows, np.int64))

    def _bounds(self, column, rows):
        """(place of each field's first byte, place after its last), int64 [N] each."""
        place = self.table.columns.index(column)
        rows = slice(None) if rows is None else rows
        starts = self._marks[rows, place - 1] + 1 if place else self._begins[rows]
        ends = self._marks[rows, place]
        if place == self.table.width - 1:  # ends at the line break, before which Windows has another character
            ends = ends - ((ends > starts) & (self._bytes[ends - 1] == _RETURN))
        return starts, ends

    def is_any(self, column: str, values: Iterable[bytes], rows: np.ndarray | None = None) -> np.ndarray:
        """bool [N]: which fields are one of `values`."""
        starts, ends = self._bounds(column, rows)
        lengths, found = ends - starts, np.zeros(len(starts), bool)
        for value in values:
            same = np.flatnonzero(lengths == len(value))
            for place, byte in enumerate(value):
                same = same[self._bytes[starts[same] + place] == byte]
            found[same] = True
        return found

    def is_empty(self, column: str, rows: np.ndarray | None = None) -> np.ndarray:
        """bool [N]: which fields hold nothing but blanks."""
        starts, ends = self._bounds(column, rows)
        empty = ends == starts
        # Every field ends before a delimiter, so that its start is a place in the block. Few begin with a blank.
        for row in np.flatnonzero(~empty & (self._bytes[starts] <= _BLANK)).tolist():
            empty[row] = not self.data[starts[row] : ends[row]].strip()
        return empty

    def texts(self, column: str, rows: np.ndarray | None = None) -> list[str]:
        """The fields as strings."""
        data, (starts, ends) = self.data, self._bounds(column, rows)
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        return [data[start:end].decode() for start, end in pairs]

    def numbers(
        self, column: str, rows: np.ndarray | None = None, *, prefix: bytes = b"", digits: int = 0
    ) -> np.ndarray:
        """int64 [N]: fields of `prefix` and digits (as many as `digits`, 0 for 1 to 18), as numbers.

        Raises DataError or DataErrors for other fields.
        """
        starts, ends = self._bounds(column, rows)
        lengths = ends - starts - len(prefix)
        wrong = (lengths != digits) if digits else ((lengths < 1) | (lengths > MAX_DIGITS))
        last, numbers = len(self._bytes) - 1, np.zeros(len(starts), np.int64)
        for place, byte in enumerate(prefix):
            wrong |= self._bytes[np.minimum(starts + place, last)] != byte
        for place in range(digits or int(min(lengths.max(initial=1), MAX_DIGITS))):
            digit = self._bytes[np.minimum(starts + len(prefix) + place, last)].astype(np.int64) - _ZERO
            inside = place < lengths
            wrong |= inside & ((digit < 0) | (digit > 9))
            numbers = np.where(inside, numbers * 10 + digit, numbers)
        form = f"'{prefix.decode()}' and {digits} digits" if digits else f"a number of 1 to {MAX_DIGITS} digits"
        self.refuse(wrong, f"field '{column}' is not {form}", column, rows)
        return numbers

    def refuse(
        self, wrong: np.ndarray, problem: str, column: str, rows: np.ndarray | None = None, fix: str = WHOLE
    ) -> None:
        """Raises DataError or DataErrors where any of `wrong` (bool [N], over `rows`) is true."""
        found = np.flatnonzero(wrong)
        if len(found):
            problems = Problems()
            for line in self.lines(found if rows is None else np.asarray(rows)[found])[:MAX_PROBLEMS].tolist():
                problems.add(self.table.fault(problem, line, column, fix))
            problems.total = len(found)
            problems.raise_if_any()


class Edges:
    """Relations between concepts by index, gathered block by block."""

    def __init__(self):
        self._parts = []

    def add(self, source: np.ndarray, target: np.ndarray, lines: np.ndarray, kind: np.ndarray | int = 0) -> None:
        """source, target, lines: integers [E]; kind: one number, or [E], that distinguishes relations."""
        kind = np.broadcast_to(np.asarray(kind, np.int32), len(source))
        self._parts.append(tuple(np.asarray(part, np.int32) for part in (kind, source, target, lines)))

    @cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """(kind, source, target, line), int32 [E] each, of everything added."""
        parts, self._parts = self._parts, []
        return tuple(np.concatenate([part[n] for part in parts] or [np.zeros(0, np.int32)]) for n in range(4))

    def is_a_graph(
        self, ids: Sequence[str], table: RowFile, options: OntologyOptions
    ) -> tuple[csr_array, dict[str, np.ndarray]]:
        """The is-a graph [C, C] bool of these edges from child to parent, and those on cycles, see
        `terminologies.is_a_graph`."""
        _, child, parent, lines = self.arrays
        about = {"place": lambda edge: (table.path.name, int(lines[edge])), "name": ids.__getitem__, "order": lines}
        return is_a_graph(child, parent, len(ids), options, **about)

    def by_name(self, names: Sequence[str], size: int, further: Mapping[str, np.ndarray]) -> Relations:
        """The relation of each kind that occurs among `size` concepts; `names` [K] belong to the kinds 0 to K - 1.

        Kinds of the same name are one relation. further: edges [2, E] of more relations.
        """
        kind, source, target, _ = self.arrays
        order = np.argsort(kind, kind="stable")
        kinds, begins = np.unique(kind[order], return_index=True)
        parts = {}
        for code, edges_of in zip(kinds.tolist(), np.split(order, begins)[1:], strict=True):
            keys = parts.setdefault(names[code], [])
            keys.append(source[edges_of].astype(np.int64) * size + target[edges_of])
        for name, (source, target) in further.items():
            parts.setdefault(name, []).append(source.astype(np.int64) * size + target)
        edges = {}
        for name in sorted(parts):
            keys = np.unique(np.concatenate(parts.pop(name)))
            edges[name] = np.stack([keys // size, keys % size]).astype(np.int32)
        return Relations(edges, size)


def _pieces(path, digest):
    """Whole lines of the file, BLOCK_BYTES at a time; a last line without its break gets one."""
    rest = b""
    with opened(path) as stream:
        while chunk := stream.read(BLOCK_BYTES):
            digest.update(chunk)
            data = rest + chunk
            cut = data.rfind(b"\n") + 1
            rest = data[cut:]
            if cut:
                yield data[:cut]
    if rest:
        yield rest + b"\n"
