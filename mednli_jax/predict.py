"""Classify premise-hypothesis pairs, or answer queries about passages, with a finished run (mean of
its seeds).

  printf 'No heart disease.\\tPatient has CHF.\\n' | python -m mednli_jax.predict --run=runs/a
  python -m mednli_jax.predict --run=runs/a --input=pairs.csv --output=predicted.jsonl
  python -m mednli_jax.predict --run=runs/a < pairs.jsonl > probabilities.tsv

  --run=DIR       the run directory
  --input=FILE    .csv, .tsv, .jsonl (may be gzipped) or .parquet in place of stdin; columns are
                  named as in training
  --output=FILE   write .csv, .tsv, .jsonl or .parquet in place of stdout: all columns of the input
                  except the texts, then `predicted` and the probabilities
  --attention     also write attention maps of each line to DIR/private/attention-N/
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
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from mednli_jax import cli, files, tasks, terminal
from mednli_jax.data.arrays import PLURAL
from mednli_jax.data.inputs import Form, Texts
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.terminal import Bar, say, warn

if TYPE_CHECKING:
    from mednli_jax.run import FinishedRun

JsonValue = Any
Row = dict[str, JsonValue]  # column -> value

CHUNK = 8192  # number of lines in memory at once
OUTPUTS = (".csv", ".tsv", ".jsonl", ".parquet")
INPUTS = (*OUTPUTS, ".txt")


def define(values: cli.Flags) -> None:
    cli.define(values, attention=False)
    cli.define_paths(values, "run", "input", "output")


def main(values: cli.Flags) -> None:
    folder = cli.required(values, "run", "--run=runs/esim_kd-demo")
    source, target = _file("input", values.input, INPUTS), _file("output", values.output, OUTPUTS)
    if source and target and target.exists() and target.samefile(source):
        raise UsageError("--output is the file of --input", fix="give another name")
    # Opening the run is slow, so the first lines are read before.
    form = tasks.form_of_run(folder)
    if not source and sys.stdin.isatty():
        say(f"reading lines from the terminal, {form.line}; end with Ctrl-D")
    size = None if values.attention else CHUNK  # attention maps are numbered over all lines
    with contextlib.ExitStack() as open_files:
        stream = open_files.enter_context(files.opened(source)) if source else sys.stdin.buffer
        chunks = read_chunks(stream, form, size, source)
        first_chunk = next(chunks, [])
        if source and not first_chunk:
            raise files.empty_file(source, "no input")
        output = open_files.enter_context(files.atomic_file(target)) if target else None
        run = _opened(folder)
        # Maps come before predictions, because some models have no attention.
        if values.attention and first_chunk:
            say(f"attention maps: {_write_maps(run, first_chunk)}")
        _predict(run, chain([first_chunk], chunks), target, output)
    if target:
        say(f"predictions: {target}")


def _file(flag: str, path: Path | None, endings: tuple[str, ...]) -> Path | None:
    if path and not path.name.removesuffix(".gz" if flag == "input" else "").endswith(endings):
        fix = f"give a file that ends in {', '.join(endings)}"
        raise UsageError(f"--{flag}={path}: unknown file ending", fix=fix)
    return path


def _opened(folder: Path) -> FinishedRun:
    from mednli_jax.run import load_run, start_jax

    start_jax()
    return load_run(folder)


def _write_maps(run: FinishedRun, chunk: Sequence[Input]) -> Path:
    """Writes the attention maps of inputs and returns their folder."""
    return run.task.write_attention(run, [line.texts for line in chunk])


def _predict(
    run: FinishedRun,
    chunks: Iterable[Sequence[Input]],
    target: Path | None,
    output: BinaryIO | None,
) -> None:
    """Predicts the inputs of all chunks, to a file or stdout. target: the file's path."""
    counts = Counts(Counter(), Counter())
    predicted = predictions(run, chunks, counts)
    if output and target:
        rows = ({**columns, **run.task.prediction(row)} for row, columns in predicted)
        _write_records(rows, output, target.suffix)
    else:
        for line in run.task.prediction_lines(row for row, _ in predicted):
            print(line)
            if not terminal.output_is_read():  # the end of `predict ... | head`
                return
    places = [f"{counts.unknown[side]} in {PLURAL.get(side, side)}" for side in run.scorer.sides]
    lines = f"{counts.unknown['lines']} {run.scorer.units}"
    say(f"{lines}; words without a vector: {', '.join(places)}")
    if counts.cut:
        texts = ", ".join(f"{count} {name}" for name, count in counts.cut.items())
        warn(f"texts cut to the run's length: {texts}")
    for note in run.result.notes:
        say(f"note on the run: {note}")


class Input(NamedTuple):
    """A line of the input: its texts, and its further columns."""

    texts: Texts
    columns: Row


class Counts(NamedTuple):
    """unknown: side -> words without a vector, and "lines"; cut: name of texts -> how many were
    cut."""

    unknown: Counter[str]
    cut: Counter[str]


def predictions(
    run: FinishedRun, chunks: Iterable[Sequence[Input]], counts: Counts
) -> Iterator[tuple[Row, Row]]:
    """(prediction, further columns) of inputs that come in chunks. Adds to `counts`."""
    with Bar("predict", None, unit=run.scorer.units) as bar:
        for chunk in chunks:
            predicted = run.predict([line.texts for line in chunk])
            for row, line in zip(predicted, chunk, strict=True):
                yield row, line.columns
            counts.unknown.update(predicted.unknown_words)
            counts.unknown["lines"] += len(chunk)
            counts.cut.update(predicted.truncated)
            bar.advance(len(chunk))


def read_chunks(
    stream: BinaryIO, form: Form, size: int | None = None, source: Path | None = None
) -> Iterator[list[Input]]:
    """The lines of a binary stream, in lists of a size, or in one.

    A header in line 1 names the columns. source: the file of the stream; None for standard input.
    """
    problems, header = Problems(), None
    chunk: list[Input] = []
    file = source.name if source else "stdin"
    ending = Path(file.removesuffix(".gz")).suffix
    records: Iterator[tuple[int, JsonValue]]
    if source and ending == ".csv":
        records = files.csv_records(source, problems)
    elif source and ending == ".parquet":
        records = files.column_records(source)
    else:
        records = _records(stream, ending, file, problems)
    for number, record in records:
        try:
            if header is None:
                header = form.header(record, file, number)
                if header:
                    if not source:
                        warn("line 1 is a header and is skipped")
                    continue
                if source and ending != ".jsonl" and isinstance(record, list):
                    problem = f"the first line does not name {' and '.join(form.names)}"
                    fix = "name the columns, or give lines without a header on standard input"
                    raise DataError(problem, file=file, line=number, fix=fix)
            chunk.append(Input(*form.named(record, header, file, number)))
        except DataError as error:
            problems.add(error)
        if len(chunk) == size:
            problems.raise_if_any()
            yield chunk
            chunk = []
    problems.raise_if_any()
    if chunk:
        yield chunk


def _records(
    stream: BinaryIO, ending: str, file: str, problems: Problems
) -> Iterator[tuple[int, JsonValue]]:
    """(line number, its object or cells) of JSON lines or lines with TABs; of both on standard
    input.

    At the end it warns of quoted cells.
    """
    quoted = []
    for number, raw in files.raw_lines(stream):
        try:
            line = files.decoded(raw)
        except UnicodeDecodeError:
            problems.add(DataError("is not UTF-8", file=file, line=number, fix="convert the input"))
            continue
        if ending and not line.strip():
            continue
        if ending == ".jsonl" or (not ending and line.lstrip().startswith("{")):
            values = _json(line)
            if isinstance(values, files.RepeatedField):
                problem = f"the line {values.problem}"
                problems.add(DataError(problem, file=file, line=number, fix=files.KEEP_ONE))
                continue
            yield number, values
        else:
            cells = line.split("\t")
            quoted += [number for cell in cells if files.is_quoted_cell(cell)]
            yield number, cells
    if quoted:
        warn(files.quoted_cells(file, quoted[0], len(quoted)))


def _json(line: str) -> JsonValue:
    try:
        return json.loads(files.json_text(line), object_pairs_hook=files.json_object)
    except (ValueError, RecursionError):
        return None


# -- formats of --output ---------------------------------------------------------------------------


def _write_records(records: Iterable[Row], stream: BinaryIO, ending: str) -> None:
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


def _write_parquet(records: Iterable[Row], stream: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        parquet.write_table(pa.Table.from_pylist(list(records)), stream)
    except pa.ArrowException:  # its message may quote a text
        problem = "a column of the input holds values of several types"
        raise UsageError(problem, fix="write .jsonl in place of .parquet") from None


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
