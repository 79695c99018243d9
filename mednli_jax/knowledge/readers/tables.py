"""What the readers of terminologies share: files that belong together, tables of millions of rows, is-a graphs.

Tables (RRF of the UMLS, RF2 of SNOMED CT) are read by Arrow, a block of rows at a time.
"""

import hashlib
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from scipy.sparse import csr_array

from mednli_jax.errors import MAX_PROBLEMS, DataError, Problems
from mednli_jax.io import empty_file, opened, text_lines
from mednli_jax.knowledge.ontology import OntologyOptions, Relations, is_a_graph

WHOLE = "take a fresh, whole copy of the release"
_BLOCK_BYTES = 1 << 24


def all_there(files: Mapping[str, Path | None], folder: Path, fix: str) -> dict[str, Path]:
    """The files by name."""
    missing = [name for name, path in files.items() if path is None]
    if missing:
        problem = f"no such file in {folder}" + (f", nor {' and '.join(missing[1:])}" if missing[1:] else "")
        raise DataError(problem, file=missing[0], fix=fix)
    return dict(files)


@dataclass(frozen=True)
class Table:
    """A file of rows and its layout: RRF, with | after each column, or RF2, with tabs and a header.

    columns: their names, in order.
    """

    path: Path
    columns: tuple[str, ...]
    is_rrf: bool

    def fault(self, problem: str, line: int | None = None, field: str | None = None, fix: str = WHOLE) -> DataError:
        return DataError(problem, file=self.path.name, line=line, field=field, fix=fix)

    def blocks(self, digest, *wanted: str) -> Iterator["Block"]:
        """The rows in blocks, of their columns those that are wanted.

        digest: gets the hash of the content at the end of the file.
        """
        problems, content, line = Problems(), hashlib.sha256(), 1
        if not self.is_rrf:
            self._check_header()
            line = 2
        with opened(self.path) as stream:
            try:
                for batch in self._batches(_Text(stream, content), wanted, problems, line - 1):
                    problems.raise_if_any()
                    yield Block(self, batch, np.arange(line, line + len(batch)))
                    line += len(batch)
            except (pa.ArrowInvalid, UnicodeDecodeError):  # their messages quote the row
                for _ in text_lines(self.path):  # raises for a line that is not text
                    pass
                raise empty_file(self.path, "no rows") from None
        problems.raise_if_any()
        if line < 2 + (not self.is_rrf):
            raise empty_file(self.path, "no rows")
        digest.update(content.digest())

    def _check_header(self):
        first = next((text for _, text in text_lines(self.path)), "")
        if tuple(first.split("\t")) != self.columns:
            fix = f"the first line must name, between tabs: {', '.join(self.columns)}"
            raise self.fault("the header is not that of this table", 1, fix=fix)

    def _batches(self, stream, wanted, problems, skipped):
        form = "| after each" if self.is_rrf else "a tab between them"
        fix = f"{WHOLE}: {len(self.columns)} columns, {form}"

        def fault(row):
            found = f"{row.actual_columns} fields where {row.expected_columns} are due"
            problems.add(self.fault(found, row.number, fix=fix))
            return "skip"

        names = [*self.columns, *([""] if self.is_rrf else [])]  # after the last | there is nothing
        yield from csv.open_csv(
            stream,
            csv.ReadOptions(column_names=names, skip_rows=skipped, block_size=_BLOCK_BYTES, use_threads=False),
            csv.ParseOptions(
                delimiter="|" if self.is_rrf else "\t",
                quote_char=False,
                ignore_empty_lines=False,
                invalid_row_handler=fault,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, check_utf8=False
            ),
        )


class _Text:
    """A stream for Arrow whose bytes are hashed as they are read. Raises UnicodeDecodeError for other than UTF-8."""

    closed = False

    def __init__(self, stream, digest):
        self._stream, self._digest, self._decoder = stream, digest, getincrementaldecoder("utf-8")()

    def read(self, size):
        data = self._stream.read(size)
        self._digest.update(data)
        self._decoder.decode(data, final=not data)
        return data


class Block:
    """R rows of a table. columns: Arrow arrays of strings; lines: int64 [R], from 1."""

    def __init__(self, table: Table, columns: pa.RecordBatch, lines: np.ndarray):
        self.table, self.columns, self.lines = table, columns, lines

    def __len__(self) -> int:
        return len(self.lines)

    def only(self, rows: np.ndarray) -> "Block":
        """The rows for which `rows`, bool [R], is true."""
        return Block(self.table, self.columns.filter(pa.array(rows)), self.lines[rows])

    def is_any(self, column: str, *values: str) -> np.ndarray:
        """bool [R]: which fields are one of `values`."""
        return _numpy(pc.is_in(self.columns[column], value_set=pa.array(values, pa.string())))

    def is_blank(self, column: str) -> np.ndarray:
        return _numpy(pc.equal(pc.utf8_trim_whitespace(self.columns[column]), ""))

    def texts(self, column: str) -> list[str]:
        return self.columns[column].to_pylist()

    def numbers(self, column: str, prefix: str = "", digits: int = 0) -> np.ndarray:
        """int64 [R]: fields of `prefix` and digits (as many as `digits`, 0 for 1 to 18), as numbers."""
        texts = self.columns[column]
        rest = pc.utf8_slice_codeunits(texts, len(prefix)) if prefix else texts
        fits = pc.and_(pc.starts_with(texts, prefix), pc.ascii_is_decimal(rest))
        size = pc.binary_length(rest)
        fits = pc.and_(fits, pc.equal(size, digits) if digits else pc.less_equal(size, 18))
        form = f"'{prefix}' and {digits} digits" if digits else "a number of 1 to 18 digits"
        self.refuse(~_numpy(fits), f"field '{column}' is not {form}", column)
        return _numpy(rest.cast(pa.int64()))

    def refuse(self, wrong: np.ndarray, problem: str, column: str, fix: str = WHOLE) -> None:
        """Raises DataError or DataErrors where any of `wrong`, bool [R], is true."""
        lines, problems = self.lines[wrong], Problems()
        for line in lines[:MAX_PROBLEMS].tolist():
            problems.add(self.table.fault(problem, line, column, fix))
        problems.total = len(lines)
        problems.raise_if_any()


def _numpy(array: pa.Array) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)


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
        self, ids: Sequence[str], table: Table, options: OntologyOptions
    ) -> tuple[csr_array, dict[str, np.ndarray]]:
        """The is-a graph [C, C] bool of these edges from child to parent, and those on cycles, see `is_a_graph`."""
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
