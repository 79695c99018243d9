"""`python -m mednli_jax.predict`: predictions of a finished run for new pairs, or for passages and queries."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from absl import flags

from mednli_jax import cli, inputs
from mednli_jax.data.arrays import PLURAL
from mednli_jax.errors import DataError, Problems
from mednli_jax.io import Bar, say, warn

USAGE = """Classify premise-hypothesis pairs, or answer queries about passages, with a finished run (mean of its seeds).

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
  queries         answer (empty without a candidate), its probability, number of candidates, the best five as JSON"""

CHUNK = 8192  # number of lines in memory at once


def define(values: cli.Flags) -> None:
    flags.DEFINE_string("run", None, "run directory", flag_values=values)
    flags.DEFINE_bool("attention", False, "export attention maps", flag_values=values)


def main(values: cli.Flags) -> None:
    folder = Path(cli.required(values, "run", "--run=runs/esim_kd-demo")).expanduser()
    from mednli_jax import kinds

    # Opening the run is slow, so the lines are read first. A folder without a run is refused when it is opened.
    kind = kinds.of_run(folder) if (folder / "config.json").is_file() else kinds.KINDS[kinds.NLI]
    if kind.inputs and sys.stdin.isatty():
        first, second = inputs.FORMS[kind.inputs].names
        say(f"reading lines from the terminal, {first} TAB {second}; end with Ctrl-D")
    size = None if values.attention else CHUNK  # attention maps are numbered over all lines
    chunks = iter(())
    if kind.inputs:  # otherwise the run raises an error with the reason
        chunks = read_chunks(sys.stdin.buffer, kind.inputs, size)
    first = next(chunks, [])
    from mednli_jax import experiment, finished_run

    experiment.use_compile_cache()
    run = finished_run.load_run(folder)
    # The maps are written before the predictions, because some models have no attention.
    maps = kind.write_attention(run, first) if values.attention and first else None
    lines, unknown, cut = 0, Counter(), Counter()

    def predictions():
        nonlocal lines
        with Bar("predict", None, unit=run.task.units) as bar:
            for chunk in chain([first], chunks):
                yield from run.predict(chunk)
                lines += len(chunk)
                unknown.update(run.unknown_words)
                cut.update(run.truncated)
                bar.advance(len(chunk))

    for line in kind.prediction_lines(predictions()):
        print(line)
    if maps:
        say(f"attention maps: {maps}")
    places = ", ".join(f"{unknown[side]} in {PLURAL[side]}" for side in run.unknown_words)
    say(f"{lines} {run.task.units}; words without a vector: {places}")
    if cut:
        warn(f"texts cut to the run's length: {', '.join(f'{count} {what}' for what, count in cut.items())}")
    for note in run.result["notes"]:
        say(f"trained on: {note}")


def read_chunks(stream, task: str = "nli", size: int | None = None) -> Iterator[list[tuple[str, str]]]:
    """The two texts of each line of a binary stream, in lists. A header in line 1 is skipped.

    Args:
      task: a key of inputs.FORMS.
      size: pairs in a list; None = all in one list.

    Raises: DataError(s) of all lines of a list: not UTF-8, and those of inputs.text_pair.
    """
    problems, pairs = Problems(), []
    for number, raw in enumerate(stream, 1):
        try:
            item = _item(raw, number)
            if number == 1 and inputs.is_header(item, task):
                warn("line 1 is a header and is skipped")
            else:
                pairs.append(inputs.text_pair(item, task, "stdin", number))
        except DataError as error:
            problems.add(error)
        if len(pairs) == size:
            problems.raise_if_any()
            yield pairs
            pairs = []
    problems.raise_if_any()
    if pairs:
        yield pairs


def _item(raw, number):
    """The JSON value of a line that begins with { (None where it is damaged), else its cells."""
    try:
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError("is not UTF-8", file="stdin", line=number, fix="convert the input") from None
    if not line.lstrip().startswith("{"):
        return line.split("\t")
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
