"""Compares one program for all folds of DisKnE with one process for each fold, on the demo: seconds and their ratio.

    python launch/diskne_speed.py                                     ESIM, hidden size 32, one seed, two epochs
    python launch/diskne_speed.py --processes=4 --flag=--config.model.hidden_size=16 --flag=--config.train.epochs=1
    python launch/diskne_speed.py --slots=1,4,8                       BERT's steps with 1, 4 and 8 slots, in turn

"Together" is one `train` of all folds. "Apart" is one `train` for each of some folds (--processes, spread over the
groups). The mean of each group times its number of folds is an extrapolation, as the output says. Each process compiles
its own programs; with --shared-cache later processes find the programs of the first. Epochs, batches and results are
the same in both ways. Wall time is meaningful on an idle machine only; processor time is printed, too.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import jax

from mednli_jax import cli, defaults, experiment
from mednli_jax.corpora.diskne.benchmark import GROUPS
from mednli_jax.corpora.diskne.corpus import folds_of
from mednli_jax.corpora.diskne.fold_batches import slot_code
from mednli_jax.progress import say

CONFIG = Path(__file__).parent.parent / "configs" / "diskne_esim.py"
FLAGS = ("--config.seeds=0", "--config.train.epochs=2")


def timed(flags: list[str], folder: Path, cache: Path) -> dict[str, float]:
    """Wall and processor seconds of one `train`. Raises: CalledProcessError where it fails."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "mednli_jax.train", f"--config={CONFIG}", *flags, f"--workdir={folder}"]
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment["MEDNLI_JAX_CACHE"] = str(cache)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": round(time.monotonic() - begun, 1), "processor": round(processor, 1)}


def fresh_cache(place: Path, prepared: Path) -> Path:
    """A new cache with the prepared corpus and without compiled programs."""
    (place / "prepared").mkdir(parents=True)
    (place / "prepared" / prepared.name).symlink_to(prepared)
    return place


def measure(processes: int, flags: list[str], shared: bool) -> dict:
    """The seconds of both ways, by kind of time."""
    prepared, _ = experiment.of(defaults.diskne("esim")).prepare()
    by_group = defaultdict(list)
    for fold in folds_of(prepared):
        by_group[fold.group].append(fold.disease)
    apart = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        together = timed(flags, place / "together", fresh_cache(place / "cache", prepared.folder))
        say(f"together: {together}")
        for group in (group for group in GROUPS if group in by_group):
            for disease in by_group[group][: max(1, processes // len(by_group))]:
                name = "shared" if shared else f"{group}-{disease}"
                cache = place / f"cache-{name}"
                for_fold = [*flags, f"--config.diskne.diseases={disease}", f"--config.diskne.categories={_of(group)}"]
                cache = cache if cache.exists() else fresh_cache(cache, prepared.folder)
                apart[group].append(timed(for_fold, place / f"{group}-{disease}", cache))
                say(f"{group}, a process for one fold: {apart[group][-1]}")
    result = {"together": together, "folds": {group: len(folds) for group, folds in by_group.items()}, "apart": apart}
    for kind in together:
        # With a shared cache only the first process of a group compiles, so it counts once.
        total = sum(_total([one[kind] for one in apart[group]], len(by_group[group]), shared) for group in apart)
        result[f"{kind}_apart_extrapolated"] = round(total, 1)
        result[f"{kind}_ratio"] = round(total / together[kind], 2)
    return result


def _of(group):
    return ",".join(GROUPS[group])


def _total(seconds, folds, shared):
    if shared and len(seconds) > 1:
        return seconds[0] + (folds - 1) * sum(seconds[1:]) / (len(seconds) - 1)
    return folds * sum(seconds) / len(seconds)


def steps(counts: list[int], rounds: int = 5) -> dict[int, list[float]]:
    """Examples per second in training steps of BERT on the demo, for each number of slots, measured in turn."""
    asked = experiment.of(defaults.diskne("bert"))
    prepared, _ = asked.prepare()
    program, batches = asked.program(prepared, ["medical/train"])
    batches = batches["medical/train"]
    program.optimizer = asked.optimizer_for(batches)
    layout, learners, plans, speeds = batches.layouts[-1], {}, {}, {count: [] for count in counts}
    for turn in range(rounds + 1):
        for count in counts:
            if turn == 0:
                codes = [slot_code(fold, 0) for fold in batches.of_group[:count]]
                learners[count] = program.draw(layout, codes)
                plan = [index for other, index in batches.epoch(1, codes) if other == layout]
                plans[count] = plan[: max(4, 32 // count)]
            begun = time.monotonic()
            for index in plans[count]:
                learners[count], sums = program.train(layout, learners[count], index)
            jax.block_until_ready(sums)
            examples = sum(int((index >= 0).sum()) for index in plans[count])
            if turn:  # the first step compiles
                speeds[count].append(round(examples / (time.monotonic() - begun), 1))
    return speeds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4, help="number of folds that get a process of their own")
    parser.add_argument(
        "--flag",
        action="append",
        default=[],
        help="a flag of train, of model or train, for both ways",
    )
    parser.add_argument("--slots", help="time only steps, with these numbers of slots")
    parser.add_argument("--shared-cache", action="store_true", help="processes share compiled programs")
    arguments = parser.parse_args()

    def work():
        if arguments.slots:
            found = steps([int(count) for count in arguments.slots.split(",")])
        else:
            found = measure(arguments.processes, [*FLAGS, *arguments.flag], arguments.shared_cache)
        print(json.dumps(found, indent=2))

    return cli.script(work)


if __name__ == "__main__":
    sys.exit(main())
