"""Records of tables: read from files whose TABs separate cells, from Parquet and from Arrow files;
written as JSON lines, CSV, TABs or Parquet."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from mednli_jax import files
from mednli_jax.errors import DataError, Problems, UsageError

JsonValue = Any
Record = Mapping[str, JsonValue]  # column -> value


def tab_records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of each line that is not blank."""
    for number, line in files.text_lines(path, problems):
        if line.strip():
            yield number, line.split("\t")


def column_records(path: Path) -> Iterator[tuple[int, Record]]:
    """(number from 1, values by column) of each row of a Parquet file, or of an Arrow file that
    save_to_disk of the datasets library wrote."""
    import pyarrow as pa
    from pyarrow import parquet

    number = 0
    try:
        with open(path, "rb") as file:
            if path.suffix == ".parquet":
                batches: Iterable[pa.RecordBatch] = parquet.ParquetFile(file).iter_batches()
            else:
                batches = pa.ipc.open_stream(file)
            for batch in batches:
                for values in batch.to_pylist():
                    number += 1
                    yield number, values
    except pa.ArrowException:  # its message may quote the text
        raise DataError("is damaged or cut short", file=path.name, fix=files.FRESH_COPY) from None


def write_records(records: Iterable[Record], stream: BinaryIO, ending: str) -> None:
    """Writes records in the format of an ending. A table has the columns of its first record; its
    values that are no texts are JSON. TABs and line breaks of texts in .tsv become blanks."""
    if ending == ".parquet":
        _write_parquet(records, stream)
        return
    text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
    table, names = csv.writer(text), None
    for record in records:
        if ending == ".jsonl":
            text.write(f"{json.dumps(record, ensure_ascii=False)}\n")
            continue
        rows = [[_cell(record.get(name, "")) for name in names or record]]
        if names is None:
            names = list(record)
            rows.insert(0, names)
        if ending == ".csv":
            table.writerows(rows)
        else:
            for row in rows:
                text.write("\t".join(" ".join(cell.split()) for cell in row) + "\n")
    text.detach()


def _cell(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_parquet(records: Iterable[Record], stream: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        parquet.write_table(pa.Table.from_pylist(list(records)), stream)
    except pa.ArrowException:  # its message may quote a text
        problem = "a column of the input holds values of several types"
        raise UsageError(problem, fix="write .jsonl in place of .parquet") from None
