"""Tables of millions of rows (RRF of the UMLS, RF2 of SNOMED CT), read by Arrow, a block of rows at
a time."""

import codecs
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mednli_jax.errors import MAX_PROBLEMS, DataError, Problems
from mednli_jax.files.reading import MARK, empty_file, open_binary, text_lines
from mednli_jax.files.writing import Digest

WHOLE = "take a fresh, whole copy of the release"
_BLOCK_BYTES = 1 << 24


def all_there(files: Mapping[str, Path | None], folder: Path, fix: str) -> dict[str, Path]:
    """The files by name. Raises one error that names all missing files (those that are None)."""
    missing = [name for name, path in files.items() if path is None]
    if missing:
        problem = f"no such file in {folder}"
        if len(missing) > 1:
            problem += f", nor {' and '.join(missing[1:])}"
        raise DataError(problem, file=missing[0], fix=fix)
    return {name: path for name, path in files.items() if path is not None}


@dataclass(frozen=True)
class Table:
    """A file of rows with the given columns: RRF, with | after each column, or RF2, with tabs and a
    header."""

    path: Path
    columns: tuple[str, ...]
    is_rrf: bool

    def fault(
        self, problem: str, line: int | None = None, field: str | None = None, fix: str = WHOLE
    ) -> DataError:
        return DataError(problem, file=self.path.name, line=line, field=field, fix=fix)

    def blocks(self, digest: Digest, *columns: str) -> Iterator["Block"]:
        """Yields the rows in blocks, with the given columns. digest: gets the hash of the content
        at the end."""
        if not self.is_rrf:
            self._check_header()
        first_line = 1 if self.is_rrf else 2
        line, problems = first_line, Problems()
        with open_binary(self.path) as stream:
            try:
                for batch in self._batches(stream, columns, problems):
                    problems.raise_if_any()
                    block = Block(self, batch, np.arange(line, line + len(batch)))
                    for column in columns:
                        problem = f"field '{column}' holds a NUL character"
                        has_nul = pc.match_substring(batch[column], "\0")
                        block.refuse(_numpy(has_nul), problem, column)
                    yield block
                    line += len(batch)
            except (pa.ArrowInvalid, UnicodeDecodeError):  # their messages quote the row
                # The file is empty, or a line is not text: text_lines raises for that line.
                for _ in text_lines(self.path):
                    pass
                raise empty_file(self.path, "no rows") from None
        problems.raise_if_any()
        if line == first_line:
            raise empty_file(self.path, "no rows")
        digest.update(_sha256_of_content(self.path))

    def _check_header(self) -> None:
        _, header = next(text_lines(self.path), (1, ""))
        if tuple(header.split("\t")) != self.columns:
            fix = f"the first line must name, between tabs: {', '.join(self.columns)}"
            raise self.fault("the header is not that of this table", 1, fix=fix)

    def _batches(
        self, stream: BinaryIO, columns: Sequence[str], problems: Problems
    ) -> csv.CSVStreamingReader:
        form = "| after each" if self.is_rrf else "a tab between them"
        fix = f"{WHOLE}: {len(self.columns)} columns, {form}"

        def fault(row: csv.InvalidRow) -> str:
            problem = f"{row.actual_columns} fields where {row.expected_columns} are due"
            problems.add(self.fault(problem, row.number, fix=fix))
            return "skip"

        return csv.open_csv(
            _checked_text(stream),
            csv.ReadOptions(
                # After the last | there is an empty cell.
                column_names=[*self.columns, ""] if self.is_rrf else self.columns,
                skip_rows=0 if self.is_rrf else 1,
                block_size=_BLOCK_BYTES,
                use_threads=False,
            ),
            csv.ParseOptions(
                delimiter="|" if self.is_rrf else "\t",
                quote_char=False,
                ignore_empty_lines=False,
                invalid_row_handler=fault,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=columns,
                check_utf8=False,
            ),
        )


class Block:
    """A block of R rows of a table. columns: Arrow arrays of strings. lines: int64 [R], line
    numbers from 1."""

    def __init__(self, table: Table, columns: pa.RecordBatch, lines: np.ndarray) -> None:
        self.table, self.columns, self.lines = table, columns, lines

    def __len__(self) -> int:
        return len(self.lines)

    def only(self, rows: np.ndarray) -> "Block":
        """The rows of the block for which `rows`, bool [R], is true."""
        return Block(self.table, self.columns.filter(pa.array(rows)), self.lines[rows])

    def is_any(self, column: str, *values: str) -> np.ndarray:
        """bool [R], whether each field is one of `values`."""
        return _numpy(pc.is_in(self.columns[column], value_set=pa.array(values, pa.string())))

    def is_set(self, column: str, yes: str, *no: str) -> np.ndarray:
        """bool [R], whether each field is `yes`. A field that is neither `yes` nor one of `no` is
        refused, because it shows that columns are shifted."""
        problem = f"field '{column}' is none of {', '.join((yes, *no))}"
        self.refuse(~self.is_any(column, yes, *no), problem, column)
        return self.is_any(column, yes)

    def is_blank(self, column: str) -> np.ndarray:
        return _numpy(pc.equal(pc.utf8_trim_whitespace(self.columns[column]), ""))

    def texts(self, column: str) -> list[str]:
        return list(self.columns[column].to_pylist())

    def numbers(self, column: str, prefix: str = "", digits: int = 0) -> np.ndarray:
        """int64 [R], the number after `prefix` in each field. digits: of each number; 0 allows 1 to
        18."""
        texts = self.columns[column]
        rest = pc.utf8_slice_codeunits(texts, len(prefix)) if prefix else texts
        size = pc.binary_length(rest)
        is_number = pc.and_(pc.starts_with(texts, prefix), pc.ascii_is_decimal(rest))
        has_size = pc.equal(size, digits) if digits else pc.less_equal(size, 18)
        form = f"'{prefix}' and {digits} digits" if digits else "a number of 1 to 18 digits"
        fits = _numpy(pc.and_(is_number, has_size))
        self.refuse(~fits, f"field '{column}' is not {form}", column)
        return _numpy(rest.cast(pa.int64()))

    def refuse(self, is_wrong: np.ndarray, problem: str, column: str, fix: str = WHOLE) -> None:
        """Raises DataError or DataErrors if any of `is_wrong`, bool [R], is true."""
        lines, problems = self.lines[is_wrong], Problems()
        for line in lines[:MAX_PROBLEMS].tolist():
            problems.add(self.table.fault(problem, line, column, fix))
        problems.total = len(lines)
        problems.raise_if_any()


def _sha256_of_content(path: Path) -> bytes:
    content = hashlib.sha256()
    with open_binary(path) as stream:
        while block := stream.read(_BLOCK_BYTES):
            content.update(block)
    return content.digest()


def _checked_text(stream: BinaryIO) -> codecs.StreamRecoder:
    """Wraps a stream: its bytes are checked to be UTF-8, and U+FEFF is removed."""

    def encode(text: str, errors: str = "strict", /) -> tuple[bytes, int]:
        return text.replace(MARK, "").encode(errors=errors), len(text)

    utf_8 = codecs.lookup("utf-8")
    return codecs.StreamRecoder(
        stream, encode, utf_8.decode, utf_8.streamreader, utf_8.streamwriter
    )


def _numpy(array: pa.Array) -> np.ndarray:
    return np.asarray(array.to_numpy(zero_copy_only=False))
