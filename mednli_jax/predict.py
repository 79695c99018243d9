"""Classify premise-hypothesis pairs, or answer queries about passages, with a finished run (mean of
its seeds).

  printf 'No heart disease.\\tPatient has CHF.\\n' | python -m mednli_jax.predict --run=runs/a
  python -m mednli_jax.predict --run=runs/a --input=pairs.csv --output=predicted.jsonl
  python -m mednli_jax.predict --run=runs/a < pairs.jsonl > probabilities.tsv

  --run=DIR       the run directory
  --input=FILE    .csv, .tsv, .jsonl, .parquet, .arrow or .feather, plain or gzipped, or a named
                  pipe, in place of stdin; columns are named as in training
  --output=FILE   write .csv, .tsv, .jsonl or .parquet in place of stdout: all columns of the input
                  except the texts, then `predicted` and the probabilities. In .csv, .tsv and
                  .jsonl times, decimals and inf are texts, and NaN is empty
  --attention     also write attention maps of each line to a new folder in DIR/private/
  stdin, pairs    one per line: premise TAB hypothesis, or JSON {"premise": ..., "hypothesis": ...}
                  (or sentence1 and sentence2), tokenised as the run's corpus (data.json,
                  "tokeniser"); a first line with these names, and perhaps others, is a header
  stdin, queries  one per line: passage TAB query, or JSON {"passage": ..., "query": ...}; spaces
                  separate tokens; candidates are marked as BEG__w1 w2__END in the passage;
                  @placeholder is the query's blank; for a run of clicr the title comes first
Output: a header, then a tab-separated line for each line of the input; a line that is no input (a
blank line, too) ends the command with its number. Input of any length, 8,192 lines at a time.
  pairs           label, probability of each class
  queries         answer (empty without a candidate), its probability, number of candidates, the
                  best five as JSON
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO

from mednli_jax import cli, tasks, terminal
from mednli_jax.data.arrays import PLURAL
from mednli_jax.data.inputs import InputForm, TextPair
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files import reading, writing
from mednli_jax.terminal import Bar, say, warn
from mednli_jax.types import Json, JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

    from mednli_jax.finished import Run

Row = JsonObject  # column -> value

CHUNK = 8192  # number of lines in memory at once
OUTPUTS = (".csv", ".tsv", ".jsonl", ".parquet")
INPUTS = (*OUTPUTS, ".txt", *reading.COLUMNAR)


def define(values: cli.Flags) -> None:
    cli.define(values, attention=False)
    cli.define_paths(values, "run", "input", "output")


def main(values: cli.Flags) -> None:
    folder = cli.required_path(values, "run", "--run=runs/esim_kd-demo")
    source, target = _file("input", values.input, INPUTS), _file("output", values.output, OUTPUTS)
    if source and target and target.exists() and target.samefile(source):
        raise UsageError("--output is the file of --input", fix="give another name")
    from mednli_jax.finished import Run

    # Opening the run is slow, so the first lines are read before.
    form = tasks.form_of_run(folder)
    if not source and sys.stdin.isatty():
        say(f"reading lines from the terminal, {form.line_format}; end with Ctrl-D")
    size = None if values.attention else CHUNK  # attention maps are numbered over all lines
    chunks = with_even_end(read_chunks(sys.stdin.buffer, form, size, source))
    first_chunk = next(chunks, [])
    if source and not first_chunk:
        raise reading.empty_file(source, "no input")
    with contextlib.ExitStack() as open_files:
        output = open_files.enter_context(writing.atomic_file(target)) if target else None
        run = Run(folder)
        # Maps come before predictions, because some models have no attention.
        if values.attention and first_chunk:
            texts = [line.texts for line in first_chunk]
            say(f"attention maps: {run.task.write_attention(run, texts)}")
        _predict(run, chain([first_chunk], chunks), target, output)
    if target:
        say(f"predictions: {target}")


def _file(flag: str, path: Path | None, endings: tuple[str, ...]) -> Path | None:
    is_pipe = flag == "input" and path is not None and path.is_fifo()
    if path is None or is_pipe:
        return path
    if not path.name.removesuffix(".gz" if flag == "input" else "").endswith(endings):
        fix = f"give a file that ends in {', '.join(endings)}"
        raise UsageError(f"--{flag}={path}: unknown file ending", fix=fix)
    return path


def _predict(
    run: Run,
    chunks: Iterable[Sequence[Input]],
    target: Path | None,
    output: BinaryIO | None,
) -> None:
    """Predicts the inputs of all chunks, to a file or stdout. target: the file's path."""
    counts = Counts(Counter(), Counter())
    if output and target:
        ending = target.suffix
        converted = (convert_columns(chunk, ending) for chunk in chunks)
        predicted = predictions(run, converted, counts)
        rows = ((columns, run.task.prediction(row)) for row, columns in predicted)
        write_rows(map(_check_names, rows), output, target)
    else:
        predicted = predictions(run, chunks, counts)
        for line in run.task.prediction_lines(row for row, _ in predicted):
            print(line)
            if not terminal.output_is_read():  # the end of `predict ... | head`
                return
    places = [f"{counts.unknown[side]} in {PLURAL.get(side, side)}" for side in run.scorer.sides]
    lines = f"{counts.unknown['lines']} {run.scorer.row_noun}"
    say(f"{lines}; words without a vector: {', '.join(places)}")
    if counts.cut:
        texts = ", ".join(f"{count} {name}" for name, count in counts.cut.items())
        warn(f"texts cut to the run's length: {texts}")
    for note in run.result.notes:
        say(f"note on the run: {note}")


class Input(NamedTuple):
    """A line of the input: its texts, and its further columns."""

    texts: TextPair
    columns: Row


class Counts(NamedTuple):
    """Counts over all inputs. unknown: side -> words without a vector, and "lines"; cut: name of
    texts -> number of those that were cut."""

    unknown: Counter[str]
    cut: Counter[str]


def predictions(
    run: Run, chunks: Iterable[Sequence[Input]], counts: Counts
) -> Iterator[tuple[Row, Row]]:
    """Yields (prediction, further columns) of inputs that come in chunks. Adds to `counts`."""
    in_work: deque[Sequence[Input]] = deque()

    def parts() -> Iterator[list[TextPair]]:
        for chunk in chunks:
            in_work.append(chunk)
            yield [line.texts for line in chunk]

    with Bar("predict", None, noun=run.scorer.row_noun) as bar:
        for predicted in run.predictions_by_part(parts()):
            chunk = in_work.popleft()
            for row, line in zip(predicted, chunk, strict=True):
                yield row, line.columns
            counts.unknown.update(predicted.unknown_words)
            counts.unknown["lines"] += len(chunk)
            counts.cut.update(predicted.truncated)
            bar.advance(len(chunk))


def read_chunks(
    stream: BinaryIO, form: InputForm, size: int | None = None, source: Path | None = None
) -> Iterator[list[Input]]:
    """Yields lists of the lines of a file, or of a binary stream if there is no file. size: of each
    list; None makes one list.

    A header in line 1 names the columns.
    """
    problems, header = Problems(), None
    chunk: list[Input] = []
    file = source.name if source else "stdin"
    ending = Path(file.removesuffix(".gz")).suffix if source else ""
    if source and ending not in INPUTS:  # a pipe, such as /dev/fd/63
        file, ending = f"--input={source}", ""
    records: Iterator[tuple[int, Json]]
    if source and ending == ".csv":
        records = reading.csv_records(source, problems)
    elif source and ending in reading.COLUMNAR:
        records = reading.column_records(source, list, set(chain(*form.fields)))
    else:
        lines = reading.numbered_lines(source) if source else reading.raw_lines(stream)
        records = _records(lines, ending, file, problems)
    for number, record in records:
        if header is None:
            header = form.header(record, file, number)
            if header:
                if not source:
                    warn("line 1 is a header and is skipped")
                continue
            if ending not in ("", ".jsonl") and isinstance(record, list):
                problem = f"the first line does not name {' and '.join(form.names)}"
                fix = "name the columns, or give lines without a header on standard input"
                raise DataError(problem, file=file, line=number, fix=fix)
        try:
            chunk.append(Input(*form.texts_and_rest(record, header, file, number)))
        except DataError as error:
            problems.add(error)
        if len(chunk) == size:
            problems.raise_if_any()
            yield chunk
            chunk = []
    problems.raise_if_any()
    if chunk:
        yield chunk


def with_even_end(chunks: Iterable[list[Input]]) -> Iterator[list[Input]]:
    """The chunks, of which the last two are made equally long, so that the last one needs no
    programs of its own."""
    last: list[Input] = []
    for chunk in chunks:
        if last and len(chunk) < len(last):
            chunk = last + chunk
            half = len(chunk) // 2
            last, chunk = chunk[:half], chunk[half:]
        if last:
            yield last
        last = chunk
    if last:
        yield last


def _records(
    lines: Iterable[tuple[int, bytes]], ending: str, file: str, problems: Problems
) -> Iterator[tuple[int, Json]]:
    """Yields (line number, its object or cells) of JSON lines or lines with TABs; standard input
    may have both.

    At the end it warns of quoted cells.
    """
    quoted = []
    for number, raw in lines:
        try:
            line = reading.decode(raw)
        except UnicodeDecodeError:
            problems.add(DataError("is not UTF-8", file=file, line=number, fix="convert the input"))
            continue
        if ending and not line.strip():
            continue
        if ending == ".jsonl" or (not ending and line.lstrip().startswith("{")):
            values = _json(line)
            if isinstance(values, reading.RepeatedField):
                problem = f"the line {values.problem}"
                problems.add(DataError(problem, file=file, line=number, fix=reading.KEEP_ONE))
            else:
                yield number, values
        else:
            cells = line.split("\t")
            quoted += [number for cell in cells if reading.is_quoted_cell(cell)]
            yield number, cells
    if quoted:
        warn(reading.quoted_cells(file, quoted[0], len(quoted)))


def _json(line: str) -> Json:
    try:
        return json.loads(reading.json_text(line), object_pairs_hook=reading.json_object)
    except (ValueError, RecursionError):
        return None


# -- formats of --output ---------------------------------------------------------------------------


OutputRow = tuple[Row, Row]  # (further columns of an input, columns of its prediction)


def convert_columns(chunk: Sequence[Input], ending: str) -> list[Input]:
    """Converts further columns of inputs to values that the format of an ending can hold."""
    if ending == ".parquet":  # refuses a column without a type before anything is computed
        _write_parquet([(line.columns, {}) for line in chunk], io.BytesIO())
        return list(chunk)
    converted = []
    for line in chunk:
        columns = {}
        for name, value in line.columns.items():
            try:
                columns[name] = _json_value(value)
            except (ValueError, OverflowError):
                problem = f"the column{reading.shown_name(name)} holds bytes or a time"
                fix = "write .parquet, or leave out the column"
                raise UsageError(f"{problem} that {ending} cannot hold", fix=fix) from None
        converted.append(Input(line.texts, columns))
    return converted


def _json_value(value: object) -> Json:
    """Converts a value to JSON: times, decimals and inf become texts, NaN becomes null. Raises
    ValueError or OverflowError for a value that JSON cannot hold."""
    text_of = {"Infinity": "inf", "-Infinity": "-inf"}
    return json.loads(json.dumps(value, default=_plain_value), parse_constant=text_of.get)


def _plain_value(value: Json | pa.Array) -> object:
    """Converts a value of a type that JSON lacks to a plainer type. Nanoseconds, which Python
    lacks, become texts."""
    import pyarrow as pa

    if isinstance(value, bytes):
        raise ValueError
    if not isinstance(value, pa.Array):
        return str(value)
    if str(value.type).startswith(("timestamp[ns", "time64[ns")):
        value = value.cast(pa.string())
    return value.to_pylist()[0]


def _check_names(row: OutputRow) -> OutputRow:
    """Returns the row. Raises UsageError for an input that already has a column of a prediction."""
    columns, prediction = row
    for name in columns:
        if name.casefold() in map(str.casefold, prediction):
            shown = reading.shown_name(name)
            problem = f"the input has a column{shown} already, which --output gives to a prediction"
            raise UsageError(problem, fix="rename that column")
    return row


def write_rows(rows: Iterable[OutputRow], stream: BinaryIO, target: Path) -> None:
    """Writes rows in the format of the target's ending."""
    if target.suffix == ".parquet":
        _write_parquet(rows, stream, target.parent)
        return
    # Half a surrogate pair is written as its escape in JSON.
    text = io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="", write_through=True)
    if target.suffix == ".jsonl":
        for columns, prediction in rows:
            text.write(f"{json.dumps({**columns, **prediction}, ensure_ascii=False)}\n")
    else:
        _write_table(rows, text, target)
    text.detach()


def _write_table(rows: Iterable[OutputRow], text: TextIO, target: Path) -> None:
    """Writes a table with the columns of all rows. Values that are no texts are JSON; TABs and line
    breaks of texts in .tsv become blanks.

    Rows wait in a file without a name, because a line of JSON may have fields that all lines before
    it lack.
    """
    names: dict[str, None] = {}
    names_of_prediction: dict[str, None] = {}
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=target.parent) as waiting:
        for columns, prediction in rows:
            names |= dict.fromkeys(columns)
            names_of_prediction |= dict.fromkeys(prediction)
            waiting.write(f"{json.dumps({**columns, **prediction})}\n")
        waiting.seek(0)
        header = [*names, *names_of_prediction]
        table = csv.writer(text)
        for record in chain([dict(zip(header, header, strict=True))], map(json.loads, waiting)):
            cells = [_cell(record.get(name)) for name in header]
            if target.suffix == ".csv":
                table.writerow(cells)
            else:
                text.write("\t".join(re.sub(r"[\t\r\n]", " ", cell) for cell in cells) + "\n")


def _cell(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_parquet(rows: Iterable[OutputRow], stream: BinaryIO, folder: Path | None = None) -> None:
    """Writes a table with the columns of all rows, which wait in a file without a name in `folder`
    because a later row may have another column or type."""
    import pyarrow as pa
    from pyarrow import parquet

    names_of_prediction: set[str] = set()
    schemas, remaining = [pa.schema([])], iter(rows)
    with tempfile.TemporaryFile(dir=folder) as waiting:
        while chunk := list(islice(remaining, CHUNK)):
            table = _table([{**columns, **prediction} for columns, prediction in chunk])
            with pa.ipc.new_stream(waiting, table.schema) as writer:
                writer.write_table(table)
            schemas.append(table.schema)
            names_of_prediction.update(chunk[0][1])
        waiting.seek(0)
        try:
            schema = pa.unify_schemas(schemas, promote_options="permissive")
            names = sorted(schema.names, key=names_of_prediction.__contains__)
            schema = pa.schema([schema.field(name) for name in names])
            with parquet.ParquetWriter(stream, schema) as parquet_file:
                for _ in schemas[1:]:
                    table = pa.ipc.open_stream(waiting).read_all()
                    tables = [schema.empty_table(), table]
                    parquet_file.write_table(pa.concat_tables(tables, promote_options="permissive"))
        except pa.ArrowException:  # its message may quote a text
            raise _no_type() from None


def _table(rows: Sequence[Row]) -> pa.Table:
    """A table with the columns of all rows."""
    import pyarrow as pa

    columns: dict[str, pa.Array] = {}
    for name in dict.fromkeys(chain.from_iterable(rows)):
        values = [row.get(name) for row in rows]
        to_array = pa.concat_arrays if isinstance(values[0], pa.Array) else pa.array
        try:
            columns[name] = to_array(values)
        except (pa.ArrowException, OverflowError):  # its message may quote a text
            raise _no_type(name) from None
    return pa.table(columns)


def _no_type(name: str = "") -> UsageError:
    problem = f"a column{reading.shown_name(name)} of the input fits no one type of Parquet"
    return UsageError(problem, fix="write .jsonl in place of .parquet")


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
