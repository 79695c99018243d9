"""`python -m mednli_jax.predict`: what a finished run says of new premise-hypothesis pairs, or passages and queries."""

import json
import sys
from pathlib import Path

from absl import flags

from mednli_jax import cli, inputs
from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import LABELS
from mednli_jax.progress import say
from mednli_jax.text import MAX_LINE_BYTES

USAGE = """Classify premise-hypothesis pairs, or answer queries on passages, with a finished run; means over its seeds.

  printf 'No history of CHF.\\tPatient has heart disease.\\n' | python -m mednli_jax.predict --run=runs/esim_kd-demo
  python -m mednli_jax.predict --run=runs/esim_kd-demo < pairs.jsonl > probabilities.tsv
  printf 'BEG__Fever__END and cough .\\tHe had @placeholder .\\n' | python -m mednli_jax.predict --run=runs/ga_ent-demo

  --run=DIR       the run directory
  --attention     also where the model looks: JSON and a picture or page of each line in DIR/private/attention-N/
  stdin, pairs    one a line: premise TAB hypothesis, or JSON {"premise": ..., "hypothesis": ...}
                  (sentence1 and sentence2 are read too); tokenised as the run's corpus (data.json, "tokeniser")
  stdin, queries  one a line: passage TAB query, or JSON {"passage": ..., "query": ...}; tokens between spaces, phrases
                  of the passage marked as BEG__w1 w2__END: these are the candidates; @placeholder is the query's blank;
                  for a run of clicr the passage begins with its title, as in training
Output: a header, then lines in the order of the input, tab-separated.
  pairs           label, probability of each class
  queries         answer (empty without a candidate), its probability, number of candidates, the best five as JSON"""

PLURAL = {"premise": "premises", "hypothesis": "hypotheses", "passage": "passages", "query": "queries"}


def define(values: cli.Flags) -> None:
    flags.DEFINE_string("run", None, "run directory", flag_values=values)
    flags.DEFINE_bool("attention", False, "export attention maps", flag_values=values)


def main(values: cli.Flags) -> None:
    folder = Path(cli.required(values, "run", "--run=runs/esim_kd-demo")).expanduser()
    from mednli_jax.analysis.cloze.outcomes import is_cloze

    # The lines are read before the run is opened, which takes a while; a folder that is no run is told then.
    task = "cloze" if (folder / "config.json").is_file() and is_cloze(folder) else "nli"
    if sys.stdin.isatty():
        first, second = (names[0] for names in inputs.FIELDS[task])
        say(f"reading lines from the terminal, {first} TAB {second}; end with Ctrl-D")
    pairs = read_pairs(sys.stdin.buffer, task)
    from mednli_jax import experiment, trained

    experiment.use_compile_cache()
    run = trained.load_run(folder)
    rows = run.predict(pairs)
    print("\n".join(_answers(rows) if task == "cloze" else _labels(rows)))
    unknown = run.unknown_words
    if values.attention and pairs:
        say(f"attention maps: {(write_views if task == 'cloze' else write_attention)(run, pairs)}")
    places = ", ".join(f"{count} in {PLURAL[side]}" for side, count in unknown.items())
    say(f"{len(pairs)} {run.task.units}; words without a vector: {places}")
    for note in run.result["notes"]:
        say(f"trained on: {note}")


def _labels(rows):
    yield "\t".join(("label", *LABELS))
    for row in rows:
        yield "\t".join((max(row, key=row.__getitem__), *(f"{row[label]:.6f}" for label in LABELS)))


def _answers(rows):
    yield "\t".join(("answer", "probability", "candidates", "best"))
    for row in rows:
        probability = row["best"][0]["probability"] if row["answer"] else 0.0
        best = json.dumps(row["best"], ensure_ascii=False)
        yield "\t".join((row["answer"], f"{probability:.6f}", str(row["candidates"]), best))


def _new_folder(run):
    """For attention maps, under the run's private/: they quote what was given."""
    from mednli_jax.files import next_free, private_folder

    return private_folder(next_free(run.directory.private / "attention"))


def write_attention(run, pairs):
    """The attention maps of all pairs in a new private folder, which is returned.

    Holds pair-1.json (tokens and maps of every seed) and pair-1.png (means over the seeds) and so on.
    """
    from mednli_jax.analysis import figures
    from mednli_jax.files import write_atomic

    found = run.attention(pairs)
    folder = _new_folder(run)
    for number, pair in enumerate(found, start=1):
        maps = {name: {side: both[side].round(6).tolist() for side in both} for name, both in pair["maps"].items()}
        write_atomic(folder / f"pair-{number}.json", json.dumps({**pair, "maps": maps}) + "\n")
        shown = {}
        for name, both in pair["maps"].items():
            shown[f"{name}: premise to hypothesis"] = both["premise"].mean(axis=0)
            shown[f"{name}: hypothesis to premise"] = both["hypothesis"].mean(axis=0).T
        write_atomic(folder / f"pair-{number}.png", figures.heat_maps(shown, pair["premise"], pair["hypothesis"]))
    return folder


def write_views(run, pairs):
    """Where a reader looked in each passage, in a new private folder, which is returned.

    Holds passage-1.json (tokens, candidates and weights of every seed) and passage-1.html (means over the seeds) etc.
    """
    from mednli_jax.analysis.cloze.sections import attention_page
    from mednli_jax.files import write_atomic

    found, said = run.attention(pairs), run.predict(pairs)
    folder = _new_folder(run)
    for number, (seen, answered) in enumerate(zip(found, said, strict=True), start=1):
        page = attention_page(seen, answered["answer"])
        values = {**seen, "weights": seen["weights"].astype(float).round(6).tolist(), "answer": answered["answer"]}
        write_atomic(folder / f"passage-{number}.json", json.dumps(values) + "\n")
        write_atomic(folder / f"passage-{number}.html", page)
    return folder


def read_pairs(stream, task: str = "nli") -> list[tuple[str, str]]:
    """(premise, hypothesis), or of the task "cloze" (passage, query), of each line of a binary stream; empty lines are
    passed over.

    Raises: DataError(s) with the line and what to change: E-PRED-001 not UTF-8, 004 line too long, others as
    inputs.text_pair.
    """
    problems, pairs = Problems(), []
    for number, raw in enumerate(stream, 1):
        if len(raw) > MAX_LINE_BYTES:
            problems.add(_fault("E-PRED-004", number, f"is longer than {MAX_LINE_BYTES} bytes", "shorten the texts"))
            continue
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            problems.add(_fault("E-PRED-001", number, "is not UTF-8", "convert the input"))
            continue
        if not line.strip():
            continue
        try:
            item = _json(line) if line.lstrip().startswith("{") else line.split("\t")
            pairs.append(inputs.text_pair(item, task, "stdin", number))
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    return pairs


def _json(line):
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _fault(code, number, problem, fix):
    return DataError(code, problem, file="stdin", line=number, fix=fix)


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
