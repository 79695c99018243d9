"""Classify premise-hypothesis pairs, or answer queries about passages, with a finished run (mean of its seeds).

  printf 'No history of CHF.\\tPatient has heart disease.\\n' | python -m mednli_jax.predict --run=runs/esim_kd-demo
  python -m mednli_jax.predict --run=runs/esim_kd-demo < pairs.jsonl > probabilities.tsv
  printf 'BEG__Fever__END and cough .\\tHe had @placeholder .\\n' | python -m mednli_jax.predict --run=runs/ga_ent-demo

  --run=DIR       the run directory
  --attention     also write attention maps, JSON and a picture or page for each line, to DIR/private/attention-N/
  stdin, pairs    one per line: premise TAB hypothesis, or JSON {"premise": ..., "hypothesis": ...}
                  (the names sentence1 and sentence2 also work); tokenised as the run's corpus (data.json, "tokeniser");
                  a first line with these names is a header and is skipped
  stdin, queries  one per line: passage TAB query, or JSON {"passage": ..., "query": ...}; spaces separate tokens;
                  the candidates are the phrases marked as BEG__w1 w2__END in the passage; @placeholder is the query's
                  blank; for a run of clicr the passage begins with its title, as in training
Output: a header, then a tab-separated line for each line of the input; a line that is no input (a blank line, too)
ends the command with its number. Input of any length, 8,192 lines at a time.
  pairs           label, probability of each class
  queries         answer (empty without a candidate), its probability, number of candidates, the best five as JSON
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from mednli_jax import cli, tasks
from mednli_jax.data.arrays import PLURAL
from mednli_jax.data.inputs import Form
from mednli_jax.errors import DataError, Problems
from mednli_jax.io import Bar, say, warn

CHUNK = 8192  # number of lines in memory at once


def define(values: cli.Flags) -> None:
    cli.define(values, run=None, attention=False)


def main(values: cli.Flags) -> None:
    folder = Path(cli.required(values, "run", "--run=runs/esim_kd-demo")).expanduser()
    # Opening the run is slow, so the first lines are read before.
    form = tasks.task_of_run(folder).form
    if sys.stdin.isatty():
        first, second = form.names
        say(f"reading lines from the terminal, {first} TAB {second}; end with Ctrl-D")
    size = None if values.attention else CHUNK  # attention maps are numbered over all lines
    chunks = read_chunks(sys.stdin.buffer, form, size)
    first = next(chunks, [])
    from mednli_jax.run import load_run, use_compile_cache

    use_compile_cache()
    run = load_run(folder)
    # Maps come before predictions, because some models have no attention.
    maps = run.kind.write_attention(run, first) if values.attention and first else None
    unknown, cut = Counter(), Counter()
    for line in run.kind.prediction_lines(predictions(run, chain([first], chunks), unknown, cut)):
        print(line)
    if maps:
        say(f"attention maps: {maps}")
    places = ", ".join(f"{unknown[side]} in {PLURAL[side]}" for side in run.task.sides)
    say(f"{unknown['lines']} {run.task.units}; words without a vector: {places}")
    if cut:
        warn(f"texts cut to the run's length: {', '.join(f'{count} {what}' for what, count in cut.items())}")
    for note in run.result["notes"]:
        say(f"trained on: {note}")


def predictions(run, chunks: Iterable[list], unknown: Counter, cut: Counter) -> Iterator[dict]:
    """The predictions for inputs that come in lists; counts lines, unknown tokens of each side, and cut texts."""
    with Bar("predict", None, unit=run.task.units) as bar:
        for chunk in chunks:
            yield from run.predict(chunk)
            unknown.update({**run.unknown_words, "lines": len(chunk)})
            cut.update(run.truncated)
            bar.advance(len(chunk))


def read_chunks(stream, form: Form, size: int | None = None) -> Iterator[list[tuple[str, str]]]:
    """The two texts of each line of a binary stream, in lists of a size, or in one. A header in line 1 is skipped."""
    problems, pairs = Problems(), []
    for number, raw in enumerate(stream, 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            item = _json(line) if line.lstrip().startswith("{") else line.split("\t")
            if number == 1 and form.is_header(item):
                warn("line 1 is a header and is skipped")
            else:
                pairs.append(form.pair(item, "stdin", number))
        except UnicodeDecodeError:
            problems.add(DataError("is not UTF-8", file="stdin", line=number, fix="convert the input"))
        except DataError as error:
            problems.add(error)
        if len(pairs) == size:
            problems.raise_if_any()
            yield pairs
            pairs = []
    problems.raise_if_any()
    if pairs:
        yield pairs


def _json(line):
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
