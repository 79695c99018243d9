"""Tables of millions of rows (RRF of the UMLS, RF2 of SNOMED CT), read by Arrow, a block of rows at
a time."""

import codecs
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mednli_jax.errors import MAX_PROBLEMS, DataError, Problems
from mednli_jax.files import MARK, empty_file, opened, text_lines

WHOLE = "take a fresh, whole copy of the release"
_BLOCK_BYTES = 1 << 24


def all_there(files: Mapping[str, Path | None], folder: Path, fix: str) -> dict[str, Path]:
    """The files by name; all that are missing are reported at once."""
    missing = [name for name, path in files.items() if path is None]
    if missing:
        problem = f"no such file in {folder}" + (
            f", nor {' and '.join(missing[1:])}" if missing[1:] else ""
        )
        raise DataError(problem, file=missing[0], fix=fix)
    return dict(files)


@dataclass(frozen=True)
class Table:
    """A file of rows with these columns: RRF, with | after each column, or RF2, with tabs and a
    header."""

    path: Path
    columns: tuple[str, ...]
    is_rrf: bool

    def fault(
        self, problem: str, line: int | None = None, field: str | None = None, fix: str = WHOLE
    ) -> DataError:
        return DataError(problem, file=self.path.name, line=line, field=field, fix=fix)

    def blocks(self, digest, *wanted: str) -> Iterator["Block"]:
        """The wanted columns of the rows, in blocks. digest: gets the hash of the content at the
        end."""
        problems, line = Problems(), 1 if self.is_rrf else 2
        if (
            line == 2
            and tuple(next((text for _, text in text_lines(self.path)), "").split("\t"))
            != self.columns
        ):
            fix = f"the first line must name, between tabs: {', '.join(self.columns)}"
            raise self.fault("the header is not that of this table", 1, fix=fix)
        with opened(self.path) as stream:
            try:
                for batch in self._batches(_checked_text(stream), wanted, problems, line - 1):
                    problems.raise_if_any()
                    block = Block(self, batch, np.arange(line, line + len(batch)))
                    for column in wanted:
                        block.refuse(
                            block.holds(column, "\0"),
                            f"field '{column}' holds a NUL character",
                            column,
                        )
                    yield block
                    line += len(batch)
            except (pa.ArrowInvalid, UnicodeDecodeError):  # their messages quote the row
                for _ in text_lines(self.path):  # raises for a line that is not text
                    pass
                raise empty_file(self.path, "no rows") from None
        problems.raise_if_any()
        if line < 2 + (not self.is_rrf):
            raise empty_file(self.path, "no rows")
        with opened(self.path) as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())

    def _batches(self, stream, wanted, problems, skipped):
        form = "| after each" if self.is_rrf else "a tab between them"
        fix = f"{WHOLE}: {len(self.columns)} columns, {form}"

        def fault(row):
            found = f"{row.actual_columns} fields where {row.expected_columns} are due"
            problems.add(self.fault(found, row.number, fix=fix))
            return "skip"

        names = [*self.columns, *([""] if self.is_rrf else [])]  # after the last | there is nothing
        form = {
            "delimiter": "|" if self.is_rrf else "\t",
            "quote_char": False,
            "ignore_empty_lines": False,
        }
        types = {
            "column_types": dict.fromkeys(wanted, pa.string()),
            "include_columns": wanted,
            "check_utf8": False,
        }
        return csv.open_csv(
            stream,
            csv.ReadOptions(
                column_names=names, skip_rows=skipped, block_size=_BLOCK_BYTES, use_threads=False
            ),
            csv.ParseOptions(invalid_row_handler=fault, **form),
            csv.ConvertOptions(**types),
        )


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

    def is_set(self, column: str, yes: str, *no: str) -> np.ndarray:
        """bool [R]: which fields are `yes`. Other values than these are a sign of shifted
        columns."""
        problem = f"field '{column}' is none of {', '.join((yes, *no))}"
        self.refuse(~self.is_any(column, yes, *no), problem, column)
        return self.is_any(column, yes)

    def is_blank(self, column: str) -> np.ndarray:
        return _numpy(pc.equal(pc.utf8_trim_whitespace(self.columns[column]), ""))

    def holds(self, column: str, part: str) -> np.ndarray:
        """bool [R]: which fields have `part` in them."""
        return _numpy(pc.match_substring(self.columns[column], part))

    def texts(self, column: str) -> list[str]:
        return self.columns[column].to_pylist()

    def numbers(self, column: str, prefix: str = "", digits: int = 0) -> np.ndarray:
        """int64 [R]: fields of `prefix` and digits (as many as `digits`, 0 for 1 to 18), as
        numbers."""
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


def _checked_text(stream: BinaryIO) -> codecs.StreamRecoder:
    """The bytes of a stream, which must be UTF-8, without U+FEFF."""

    def encode(text: str, errors: str) -> tuple[bytes, int]:
        return text.replace(MARK, "").encode(errors=errors), len(text)

    utf_8 = codecs.lookup("utf-8")
    return codecs.StreamRecoder(
        stream, encode, utf_8.decode, utf_8.streamreader, utf_8.streamwriter
    )


def _numpy(array: pa.Array) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)
