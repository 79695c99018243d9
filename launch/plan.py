"""Prints the plan of launch/mednli_all.sh --dry-run: its runs, and estimated hours of those that are not done.

  DRY_RUN=1 bash launch/mednli_table3.sh runs/table3 mednli | python launch/plan.py [FOLDER]

Reads lines of three columns: run, "done" or "to do", flags; tabs separate them. Speed and epochs of a model are taken
from its largest finished run in FOLDER. Without such a run the speed is that of 2 cores of an AMD EPYC at hidden size
300 (docs/benchmarks.md), with 12 epochs.
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
    for path in sorted(folder.glob("**/result.json")):
        try:
            result = json.loads(path.read_text())
            pairs = json.loads((path.parent / "data.json").read_text())["splits"]["train"]["rows"]
            epochs = result.get("epochs", 1)
            work = pairs * len(result["seeds"]) * epochs
            speed = result.get("train_examples_per_second") or work / result["seconds"]  # of all seeds together
            if result["status"] == "complete" and result.get("transfer", {}).get("mode") != "direct":
                found[result["model"]] = max(found.get(result["model"], (0,)), (pairs, speed, epochs))
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            continue  # an unfinished run
    return found


def flag(flags: str, name: str, otherwise: str) -> str:
    """The last value of a flag."""
    return (re.findall(rf"--config\.{re.escape(name)}=(\S+)", flags) or [otherwise])[-1]


def seconds(flags: str, known: dict) -> float:
    """How long a run takes with these flags."""
    config = re.search(r"--config=\S*/(\w+?)(?:_kd)?\.py:(\w+)", flags)
    if config is None or "--run=" in flags:  # evaluate
        return 0.0
    model, corpus = config.groups()
    _, speed, epochs = known.get(model) or (0, PAIRS_PER_SECOND[model], 1 if model == "features" else EPOCHS)
    pairs = min(PAIRS.get(corpus.removesuffix("_code"), PAIRS["mednli"]), float(flag(flags, "data.limit", "inf")))
    seeds = flag(flags, "seeds", "0").count(",") + 1
    return pairs * seeds * min(epochs, int(flag(flags, "train.epochs", "40"))) / speed


def main(folder: str = ".") -> None:
    known = done_runs(Path(folder))
    rows = [line.rstrip("\n").split("\t") for line in sys.stdin]
    hours = {name: 0.0 if state == "done" else seconds(flags, known) / 3600 for name, state, flags in rows}
    for name, state, _ in rows:
        print(f"{state:6} {f'{hours[name]:.1f} h' if state != 'done' else '':>8}  {name}")
    done = sum(state == "done" for _, state, _ in rows)
    print(f"\n{len(rows)} runs, {done} done; about {sum(hours.values()):,.1f} hours for the others")
    if measured := ", ".join(sorted(known)):
        print(f"speed and epochs of the largest finished run: {measured}")
    if rest := [model for model in PAIRS_PER_SECOND if model not in known]:
        print(f"measured on 2 cores of an AMD EPYC at hidden 300, {EPOCHS} epochs: {', '.join(rest)}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
