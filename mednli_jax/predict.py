"""`python -m mednli_jax.predict`: class probabilities of new premise-hypothesis pairs."""

import json
import sys

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import LABELS
from mednli_jax.progress import say
from mednli_jax.text import MAX_LINE_BYTES

USAGE = """Classify premise-hypothesis pairs with a finished run; the mean probabilities of its seeds go to stdout.

  printf 'No history of CHF.\\tPatient has heart disease.\\n' | python -m mednli_jax.predict --run=runs/esim_kd-demo
  python -m mednli_jax.predict --run=runs/esim_kd-demo < pairs.jsonl > probabilities.tsv

  --run=DIR       the run directory
  --attention     also what each token attends to: JSON and a picture per pair in DIR/private/attention-N/
  stdin           one pair a line: premise TAB hypothesis, or JSON {"premise": ..., "hypothesis": ...}
                  (sentence1 and sentence2 are read too)
Output: a header, then label and probabilities, tab-separated, in the order of the input."""

NAMES = (("premise", "sentence1"), ("hypothesis", "sentence2"))


def define(values: cli.Flags) -> None:
    flags.DEFINE_string("run", None, "run directory", flag_values=values)
    flags.DEFINE_bool("attention", False, "export attention maps", flag_values=values)


def main(values: cli.Flags) -> None:
    folder = cli.required(values, "run", "--run=runs/esim_kd-demo")
    if sys.stdin.isatty():
        say("reading pairs from the terminal, premise TAB hypothesis; end with Ctrl-D")
    pairs = read_pairs(sys.stdin.buffer)
    from mednli_jax import experiment, trained

    experiment.use_compile_cache()
    run = trained.load_run(folder)
    rows = run.predict(pairs)
    print("\t".join(("label", *LABELS)))
    for row in rows:
        print("\t".join((max(row, key=row.__getitem__), *(f"{row[label]:.6f}" for label in LABELS))))
    unknown = run.unknown_words
    if values.attention and pairs:
        say(f"attention maps: {write_attention(run, pairs)}")
    say(
        f"{len(pairs)} pairs; words without a vector: {unknown['premise']} in premises, "
        f"{unknown['hypothesis']} in hypotheses"
    )
    for note in run.result["notes"]:
        say(f"trained on: {note}")


def write_attention(run, pairs):
    """The attention maps of all pairs in a new folder under the run's private/; returns the folder.

    Holds pair-1.json (tokens and maps of every seed) and pair-1.png (means over the seeds) and so on, for the owner's
    eyes alone: they quote the sentences.
    """
    from mednli_jax.analysis import figures
    from mednli_jax.runs import next_free, private_folder, write_atomic

    found = run.attention(pairs)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, pair in enumerate(found, start=1):
        maps = {name: {side: both[side].round(6).tolist() for side in both} for name, both in pair["maps"].items()}
        write_atomic(folder / f"pair-{number}.json", json.dumps({**pair, "maps": maps}) + "\n")
        shown = {}
        for name, both in pair["maps"].items():
            shown[f"{name}: premise to hypothesis"] = both["premise"].mean(axis=0)
            shown[f"{name}: hypothesis to premise"] = both["hypothesis"].mean(axis=0).T
        write_atomic(folder / f"pair-{number}.png", figures.heat_maps(shown, pair["premise"], pair["hypothesis"]))
    return folder


def read_pairs(stream) -> list[tuple[str, str]]:
    """(premise, hypothesis) of each line of a binary stream; empty lines are passed over.

    Raises: DataError(s) with the line and what to change: E-PRED-001 not UTF-8, 002 no pair of sentences, 003 a NUL
    or half a surrogate pair, 004 line too long.
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
        pair = _json_pair(line) if line.lstrip().startswith("{") else tuple(line.split("\t"))
        if pair is None or len(pair) != 2 or not all(isinstance(s, str) and s.strip() for s in pair):
            fix = "write premise TAB hypothesis, or JSON with the fields premise and hypothesis"
            problems.add(_fault("E-PRED-002", number, "is not a pair of sentences", fix))
        elif not all(map(_is_text, pair)):
            problems.add(_fault("E-PRED-003", number, "holds what is no text (a NUL, half a character)", "remove it"))
        else:
            pairs.append(pair)
    problems.raise_if_any()
    return pairs


def _json_pair(line):
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return tuple(next((row[name] for name in names if name in row), None) for names in NAMES)


def _is_text(sentence):
    return "\0" not in sentence and not any("\ud800" <= character <= "\udfff" for character in sentence)


def _fault(code, number, problem, fix):
    return DataError(code, problem, file="stdin", line=number, fix=fix)


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
