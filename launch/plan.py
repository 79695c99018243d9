"""Prints the plan of a dry run: its runs, and estimated hours of those that are not done. See
launch/runs.sh.

  bash launch/mednli.sh --dry-run runs/mednli mednli

Reads lines of three columns: run, "done" or "to do", flags; tabs separate them. The argument is the
folder of the runs. Speed and epochs of a model are taken from its largest finished run there.
Without such a run the speed is that of 2 cores of an AMD EPYC at hidden size 300
(docs/benchmarks.md), with 12 epochs. Only models of sentence pairs are estimated.
"""

import json
import re
import sys
from pathlib import Path

PAIRS_PER_SECOND = {"bow": 13_850, "infersent": 1_147, "esim": 463, "features": 100}
EPOCHS = 12  # of at most 40, because patience is 5
GENRE = 78_540  # of MultiNLI, on average
PAIRS = {"mednli": 11_232, "snli": 549_367, "multinli": GENRE, "demo": 3_000, "demo_full": 11_232}


def done_runs(folder: Path) -> dict[str, tuple[int, float, int]]:
    """model -> (pairs, pairs per second, epochs) of its finished run with the most pairs."""
    found = {}
    for path in sorted(folder.glob("*/result.json")):
        try:
            result = json.loads(path.read_text())
            pairs = json.loads((path.parent / "data.json").read_text())["splits"]["train"]["rows"]
            epochs = result.get("epochs", 1)
            work = pairs * len(result["seeds"]) * epochs
            speed = (
                result.get("train_examples_per_second") or work / result["seconds"]
            )  # of all seeds together
            if (
                result["status"] == "complete"
                and result.get("transfer", {}).get("mode") != "direct"
            ):
                found[result["model"]] = max(
                    found.get(result["model"], (0,)), (pairs, speed, epochs)
                )
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            continue  # an unfinished run
    return found


def flag(flags: str, name: str, otherwise: str) -> str:
    """The last value of a flag."""
    return (re.findall(rf"--config\.{re.escape(name)}=(\S+)", flags) or [otherwise])[-1]


def seconds(flags: str, known: dict) -> float:
    """How long a run takes with these flags; 0 for one that only scores, and for a model without a
    known speed."""
    model, corpus = re.search(r"--config=\S*/(\w+)\.py:(\w+)", flags).groups()
    if "--run=" in flags or model not in PAIRS_PER_SECOND:
        return 0.0
    _, speed, epochs = known.get(model) or (
        0,
        PAIRS_PER_SECOND[model],
        1 if model == "features" else EPOCHS,
    )
    pairs = min(
        PAIRS.get(corpus.removesuffix("_code"), PAIRS["mednli"]),
        float(flag(flags, "data.limit", "inf")),
    )
    seeds = flag(flags, "seeds", "0").count(",") + 1
    return pairs * seeds * min(epochs, int(flag(flags, "train.epochs", "40"))) / speed


def main(folder: str) -> None:
    known = done_runs(Path(folder))
    lines = [line.rstrip("\n").split("\t") for line in sys.stdin]
    runs = {
        name: (state, seconds(flags, known) / 3600 if state != "done" else 0.0)
        for name, state, flags in lines
    }
    for name, (state, hours) in runs.items():
        print(f"{state:6} {f'{hours:.1f} h' if hours else '':>8}  {name}")
    done = sum(state == "done" for state, _ in runs.values())
    total = sum(hours for _, hours in runs.values())
    print(
        f"\n{len(runs)} runs, {done} done"
        + (f"; about {total:,.1f} hours for the others" if total else "")
    )
    measured, rest = (
        ", ".join(sorted(known)),
        ", ".join(model for model in PAIRS_PER_SECOND if model not in known),
    )
    if total and measured:
        print(f"speed and epochs of the largest finished run: {measured}")
    if total and rest:
        print(f"measured on 2 cores of an AMD EPYC at hidden 300, {EPOCHS} epochs: {rest}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
