"""Classify premise-hypothesis pairs, or answer queries about passages, with a finished run (mean of
its seeds).

  printf 'No CHF.\\tPatient has heart disease.\\n' | python -m mednli_jax.predict --run=runs/a
  python -m mednli_jax.predict --run=runs/a --input=pairs.csv --output=predicted.jsonl
  python -m mednli_jax.predict --run=runs/a < pairs.jsonl > probabilities.tsv

  --run=DIR       the run directory
  --input=FILE    .jsonl, .tsv or .csv (may be gzipped) in place of stdin. The header names the
                  columns, as in training; a file without a header has the columns of stdin
  --output=FILE   write JSON lines (.jsonl) or a table (.tsv) in place of stdout: all columns of the
                  input except the texts, then `predicted` and the probabilities
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

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from mednli_jax import cli, files, tasks, terminal
from mednli_jax.data.arrays import PLURAL
from mednli_jax.data.inputs import Form
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.terminal import Bar, say, warn

CHUNK = 8192  # number of lines in memory at once
INPUTS, OUTPUTS = (".jsonl", ".tsv", ".txt", ".csv"), (".jsonl", ".tsv")


def define(values: cli.Flags) -> None:
    cli.define(values, attention=False)
    cli.define_paths(values, "run", "input", "output")


def main(values: cli.Flags) -> None:
    folder = cli.required(values, "run", "--run=runs/esim_kd-demo")
    source, target = _file("input", values.input, INPUTS), _file("output", values.output, OUTPUTS)
    if source and target and target.exists() and target.samefile(source):
        raise UsageError("--output is the file of --input", fix="give another name")
    # Opening the run is slow, so the first lines are read before.
    form = tasks.task_of_run(folder).form
    if not source and sys.stdin.isatty():
        first, second = form.names
        say(f"reading lines from the terminal, {first} TAB {second}; end with Ctrl-D")
    size = None if values.attention else CHUNK  # attention maps are numbered over all lines
    with contextlib.ExitStack() as open_files:
        stream = open_files.enter_context(files.opened(source)) if source else sys.stdin.buffer
        chunks = read_chunks(stream, form, size, source)
        first = next(chunks, [])
        if source and not first:
            raise files.empty_file(source, "no input")
        out = open_files.enter_context(files.atomic_file(target)) if target else None
        _predict(folder, chain([first], chunks), first if values.attention else [], target, out)
    if target:
        say(f"predictions: {target}")


def _file(flag, path, endings):
    if path and not path.name.removesuffix(".gz" if flag == "input" else "").endswith(endings):
        raise UsageError(
            f"--{flag}={path}: unknown file ending",
            fix=f"give a file that ends in {', '.join(endings)}",
        )
    return path


def _predict(folder, chunks, mapped, target, out):
    """Predicts the inputs of all chunks, to a file or stdout. mapped: inputs whose attention maps
    are written."""
    from mednli_jax.run import load_run, start_jax

    start_jax()
    run = load_run(folder)
    # Maps come before predictions, because some models have no attention.
    maps = None
    if mapped:
        attention = tasks.part(run.task, tasks.Attention, "--attention")
        maps = attention.write_attention(run, [pair for pair, _ in mapped])
    unknown, cut = Counter(), Counter()
    rows = predictions(run, chunks, unknown, cut)
    shown = tasks.predictions(run.task)
    if out:
        for line in _lines(
            ({**more, **shown.prediction(row)} for row, more in rows), target.suffix
        ):
            out.write(f"{line}\n".encode())
    else:
        for line in shown.prediction_lines(row for row, _ in rows):
            print(line)
            if not terminal.output_is_read():  # the end of `predict ... | head`
                return
    if maps:
        say(f"attention maps: {maps}")
    places = ", ".join(f"{unknown[side]} in {PLURAL.get(side, side)}" for side in run.scorer.sides)
    say(f"{unknown['lines']} {run.scorer.units}; words without a vector: {places}")
    if cut:
        warn(
            f"texts cut to the run's length: {', '.join(f'{count} {what}' for what, count in cut.items())}"
        )
    for note in run.result.notes:
        say(f"note on the run: {note}")


def predictions(
    run, chunks: Iterable[list], unknown: Counter, cut: Counter
) -> Iterator[tuple[dict, dict]]:
    """(prediction, further columns) of inputs that come in lists; counts lines, unknown tokens and
    cut texts."""
    with Bar("predict", None, unit=run.scorer.units) as bar:
        for chunk in chunks:
            predicted = run.predict([pair for pair, _ in chunk])
            yield from zip(predicted, (further for _, further in chunk), strict=True)
            unknown.update(predicted.unknown_words)
            unknown["lines"] += len(chunk)
            cut.update(predicted.truncated)
            bar.advance(len(chunk))


def read_chunks(
    stream, form: Form, size: int | None = None, source: Path | None = None
) -> Iterator[list[tuple]]:
    """(the two texts, further columns) of each line of a binary stream, in lists of a size, or in
    one.

    A header in line 1 names the columns. source: the file of the stream; None for standard input.
    """
    problems, pairs, header, file = Problems(), [], None, source.name if source else "stdin"
    kind = Path(file.removesuffix(".gz")).suffix
    records = (
        files.csv_records(source, problems)
        if kind == ".csv"
        else _records(stream, kind, file, problems)
    )
    for number, item in records:
        try:
            if header is None:
                header = form.header(item, file, number)
                if header:
                    if not source:
                        warn("line 1 is a header and is skipped")
                    continue
                if source and isinstance(item, list):
                    warn(
                        f"{file}: line 1 does not name the columns {' and '.join(form.names)}, and is read as a pair"
                    )
            pairs.append(form.named(item, header, file, number))
        except DataError as error:
            problems.add(error)
        if len(pairs) == size:
            problems.raise_if_any()
            yield pairs
            pairs = []
    problems.raise_if_any()
    if pairs:
        yield pairs


def _records(stream, kind, file, problems):
    """(line number, its object or cells) of JSON lines or lines with TABs; of both on standard
    input.

    At the end it warns of quoted cells.
    """
    quoted = []
    for number, raw in enumerate(stream, 1):
        try:
            line = files.decoded(raw).rstrip("\r\n")
        except UnicodeDecodeError:
            problems.add(DataError("is not UTF-8", file=file, line=number, fix="convert the input"))
            continue
        is_json = kind == ".jsonl" or (not kind and line.lstrip().startswith("{"))
        item = _json(line) if is_json else line.split("\t")
        if isinstance(item, files.RepeatedField):
            problems.add(
                DataError(f"the line {item.problem}", file=file, line=number, fix=files.KEEP_ONE)
            )
            continue
        if not is_json:
            quoted += [number for cell in item if files.is_quoted_cell(cell)]
        yield number, item
    if quoted:
        warn(files.quoted_cells(file, quoted[0], len(quoted)))


def _json(line):
    try:
        return json.loads(files.json_text(line), object_pairs_hook=files.json_object)
    except (ValueError, RecursionError):
        return None


def _lines(rows: Iterable[dict], ending: str) -> Iterator[str]:
    """The lines of --output. A table has the columns of its first row."""
    names = None
    for row in rows:
        if ending == ".jsonl":
            yield json.dumps(row, ensure_ascii=False)
            continue
        if names is None:
            names = list(row)
            yield "\t".join(map(_cell, names))
        yield "\t".join(_cell(row.get(name, "")) for name in names)


def _cell(value):
    """A value in a table: TABs and line breaks become blanks."""
    return (
        " ".join(value.split()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
