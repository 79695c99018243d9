"""Trains the seeds of a run in several processes, each on a device of its own, and joins them to
one run.

  python launch/cluster/train_seeds_apart.py --config=infersent:mednli --workdir=runs/infersent \\
      --config.seeds=0,1,2,3,4,5 --workers=6

{config}
  --workdir=DIR                the run; DIR.parts/K is the run of process K, with its output in
                               DIR.parts/K.log
  --workers=N                  processes, which share the seeds (default 1); process K sees GPU K
                               or TPU chip K alone

Seeds need nothing of each other, so no device waits for another one. DIR is a run like one of a
single process, with the same scores. The same command continues after an interruption; DIR.parts
may be deleted at the end. Exit codes: 0 done, 2 bad input, or a run failed, 3 interrupted.
"""

import collections
import functools
import itertools
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from mednli_jax import cli
from mednli_jax.data.arrays import Prepared
from mednli_jax.errors import RunError
from mednli_jax.experiment import Experiment, experiment_of
from mednli_jax.files.writing import private_folder
from mednli_jax.report.outcomes import read_metrics
from mednli_jax.run import train, write_page
from mednli_jax.rundir import RunDirectory
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.session import Fitted, Session
from mednli_jax.types import Json
from mednli_jax.workers import one_device

SUMMED = ("train_examples_per_second", "examples_per_second")
GREATEST = ("epochs", "passes", "compile_seconds", "seconds")
# What a fit writes to result.json.
FACTS = (
    "transfer",
    "best_epoch",
    "parameters",
    "width",
    "train_examples_per_second",
    "epochs",
    "passes",
    "compile_seconds",
)


def start(seeds: Sequence[int], folder: Path, device: int) -> subprocess.Popen:
    """Starts the process that trains these seeds into a folder, or continues there."""
    fields = [word for word in cli.arguments() if word.startswith("--config")]
    command = [
        sys.executable,
        "-m",
        "mednli_jax.train",
        *(word for word in fields if not word.startswith("--config.seeds")),
        f"--config.seeds={','.join(map(str, seeds))},",
        f"--workdir={folder}",
        "--wait=120",
        "--resume" if (folder / "checkpoints").exists() else "--force",
    ]
    with open(folder.with_suffix(".log"), "w") as log:
        return subprocess.Popen(
            command,
            env={**os.environ, **one_device(device)},
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches it once, from this process
        )


def joined(rows: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Joins rows of metrics, or facts of results, of the runs to one. Lists with a value for each
    seed are joined."""
    whole = dict(rows[0])
    for name, value in rows[0].items():
        values = [row[name] for row in rows]
        if name in SUMMED:
            whole[name] = round(sum(values), 2)
        elif name in GREATEST:
            whole[name] = max(values)
        elif isinstance(value, list) and name != "width":
            whole[name] = list(itertools.chain(*values))
    return whole


def fit(
    runs: Sequence[RunDirectory], experiment: Experiment, prepared: Prepared, session: Session
) -> Fitted:
    """A fit (see docs/architecture.md) that takes the best weights of each seed from the finished
    runs."""
    directory = session.directory
    assert directory  # this process alone writes the run
    program, batches = experiment.program(prepared)
    session.write_facts(prepared.manifest, program.devices.all)
    experiment.save_for_prediction(directory, prepared)
    of_epoch = collections.defaultdict(list)
    for run in runs:
        run.check_data(prepared.manifest)
        for row in read_metrics(run):
            of_epoch[row["epoch"]].append(row)
    for epoch in sorted(of_epoch):
        row = joined(of_epoch[epoch])
        directory.append_metrics(row)
        directory.write_scalars(row)
    best_of_runs = []
    for run in runs:
        checkpoint = Checkpoints(run.checkpoints).load()
        assert checkpoint  # the run is finished
        best_of_runs.append(checkpoint[0]["best"])
    best = jax.tree.map(lambda *leaves: np.concatenate(leaves), *best_of_runs)
    Checkpoints(directory.checkpoints).save({"best": best}, {})
    weights = program.devices.replicate(
        {name: best.get(name, {}) for name in ("params", "batch_stats")}
    )
    facts, notes = [], []
    for run in runs:
        result = run.result()
        facts.append({name: result.values[name] for name in FACTS if name in result.values})
        notes += [note for note in result.notes if note.startswith("seed ")]
    return Fitted(joined(facts), lambda split: program.logits(weights, batches[split]), notes)


def shares(seeds: Sequence[int], count: int) -> list[Sequence[int]]:
    """The seeds in `count` runs of about equal size."""
    first = [len(seeds) * k // count for k in range(count + 1)]
    return [seeds[start:end] for start, end in itertools.pairwise(first)]


def wait(processes: Sequence[subprocess.Popen]) -> list[int]:
    """Waits for the processes; returns their exit codes. Ctrl-C ends the processes, which save
    first."""
    try:
        return [process.wait() for process in processes]
    except KeyboardInterrupt:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        raise


def main(values: cli.Flags) -> None:
    """Trains the runs that are not finished, and joins them."""
    config = cli.config(values)
    folder = Path(cli.required_path(values, "workdir", "--workdir=DIR"))
    experiment = experiment_of(config)
    if experiment.trained_by:
        problem = "only seeds of networks on one corpus can be shared out"
        raise RunError(problem, fix="python -m mednli_jax.train")
    RunDirectory.check(folder)
    experiment.prepare()  # once, before the runs read it
    root = private_folder(Path(f"{folder}.parts"))
    seeds = shares(config.seeds, min(values.workers, len(config.seeds)))
    folders = [root / str(k) for k in range(len(seeds))]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    processes = [start(seeds[k], run, k) for k, run in enumerate(folders)]
    for code, run in zip(wait(processes), folders, strict=True):
        if code == cli.INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise RunError(f"training in {run} failed", fix=f"see {run}.log")
    runs = [RunDirectory.existing(run) for run in folders]
    together = replace(experiment, trained_by=functools.partial(fit, runs))
    content = {**config.to_dict(), "model": experiment.model.fields}
    again = shlex.join(cli.command_line())
    directory = train(together, folder, content, name=cli.config_name(), resume_command=again)
    assert directory  # this process alone writes the run
    write_page(directory, experiment.task)
    print(directory.folder / "result.json")


def define(values: cli.Flags) -> None:
    cli.define(values, config=None)
    cli.define_paths(values, "workdir")
    cli.define_numbers(values, workers=1)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
