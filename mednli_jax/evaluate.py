"""`python -m mednli_jax.evaluate`: scores of a finished run. From Python: `load_run(dir).predict([(p, h), ...])`."""

import json
import sys
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS

USAGE = """Score a finished run on a split of its corpus with the best parameters of each seed.

  python -m mednli_jax.evaluate --run=runs/esim_kd-demo --split=test
  python -m mednli_jax.evaluate --run=runs/esim_kd-demo --split=dev --json
  python -m mednli_jax.evaluate --run=runs/esim-snli --config=configs/esim.py:mednli

  --run=DIR       the run directory
  --config=FILE[:VARIANT]   another corpus: of this config the data section counts (direct transfer)
  --workdir=DIR   with --config: keep scores and predictions there, as a run that `report` reads
  --split=NAME    train, dev or test (default: test)
  --json          all scores as one JSON object"""


def define(values: cli.Flags) -> None:
    flags.DEFINE_string("run", None, "run directory", flag_values=values)
    cli.define_config(values)
    flags.DEFINE_string("split", "test", "split to score", flag_values=values)
    flags.DEFINE_string("workdir", None, "run directory to write", flag_values=values)
    flags.DEFINE_bool("json", False, "print JSON", flag_values=values)


def load_run(folder):
    """Opens a finished run (trained.TrainedRun): `.predict(pairs)`, `.scores(split)`, `.result`, `.config`."""
    from mednli_jax import trained

    return trained.load_run(folder)


def main(values: cli.Flags) -> None:
    folder = cli.required(values, "run", "--run=runs/esim_kd-demo")
    elsewhere = cli.config(values) if values.config is not None else None
    if values.workdir and elsewhere is None:
        raise UserError("E-USE-016 --workdir keeps what --config asks for. Fix: give --config too, or leave it out.")
    from mednli_jax import experiment, trained

    experiment.use_compile_cache()
    run = trained.load_run(folder)
    if elsewhere is None:
        corpus, (scores, _) = run.result["corpus"], run.scores(values.split)
    else:
        corpus, there = cli.corpus_name(elsewhere), run.on(elsewhere.data)
        if values.workdir:
            there.write(Path(values.workdir).expanduser(), corpus)
        scores, _ = there.scores(values.split)
    if values.json:
        print(
            json.dumps(
                {
                    "run": str(folder),
                    "corpus": corpus,
                    "trained_on": run.result["corpus"],
                    "split": values.split,
                    "seeds": run.result["seeds"],
                    **scores,
                },
                indent=2,
            )
        )
        return
    print("\n".join(_table(scores, run.result, corpus, values.split)))


def _table(scores, result, corpus, split):
    from mednli_jax.metrics import wilson_interval

    accuracy, pairs = scores["accuracy"], scores["examples"]
    low, high = wilson_interval(round(accuracy["mean"] * pairs), pairs)
    several = len(result["seeds"]) > 1
    seeds = ("seeds " if several else "seed ") + ", ".join(map(str, result["seeds"]))
    trained = "" if corpus == result["corpus"] else f", trained on {result['corpus']}"
    yield f"{result['model']}{trained} on {corpus}, {split}: {pairs:,} pairs, {seeds}"
    sd = f"sd {accuracy['sd']:.4f}; " if several else ""  # of one seed it says nothing
    yield f"accuracy {accuracy['mean']:.4f} ({sd}95 % interval of one run {low:.4f}-{high:.4f})"
    text = f"macro F1 {scores['macro_f1']['mean']:.4f}, loss {scores['loss']['mean']:.4f}, "
    yield text + f"expected calibration error {scores['calibration']['ece']['mean']:.4f}"
    yield f"{'':14} {'precision':>9} {'recall':>7} {'F1':>7}   predicted " + " ".join(f"{n[:7]:>8}" for n in LABELS)
    for label, row in zip(LABELS, scores["confusion"], strict=True):
        s = scores["per_class"][label]
        counts = " ".join(f"{n:>8}" for n in row)
        yield f"{label:14} {s['precision']:>9.4f} {s['recall']:>7.4f} {s['f1']:>7.4f}   {'':9} {counts}"
    if several:
        yield f"predicted: pairs summed over the {len(result['seeds'])} seeds"
    if "slices" in scores:
        for name, s in scores["slices"].items():
            yield f"{name}: accuracy {s['accuracy']['mean']:.4f} ({s['examples']:,} pairs)"
    yield from result["notes"]


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
