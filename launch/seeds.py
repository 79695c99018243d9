"""Trains the seeds of a run in several processes, each on a device of its own, and joins them to
one run.

  python launch/seeds.py --config=configs/infersent.py:mednli --config.seeds=0,1,2,3,4,5 --workdir=runs/is --workers=6

  --config=FILE[:VARIANT]  a config, with --config.FIELD=VALUE, as for train; its seeds are shared out
  --workdir=DIR            the run; DIR.parts/K is the run of process K, with its output in DIR.parts/K.log
  --workers=N              processes (default 1); process K sees GPU K or TPU chip K alone

Seeds need nothing of each other, so no device waits for another one. DIR is a run like one of a
single process, with the same scores. The same command continues after an interruption; DIR.parts
may be deleted at the end. Exit codes: 0 done, 2 bad input, or a part failed, 3 interrupted.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mednli_jax import cli
from mednli_jax.errors import RunError
from mednli_jax.files import private_folder
from mednli_jax.report.outcomes import read_metrics
from mednli_jax.rundir import RunDirectory
from mednli_jax.training.visible import one_device

SUMMED, MOST = (
    ("train_examples_per_second", "examples_per_second"),
    ("epochs", "passes", "compile_seconds", "seconds"),
)
FACTS = (
    "transfer",
    "best_epoch",
    "parameters",
    "width",
    SUMMED[0],
    *MOST[:3],
)  # what a fit says in result.json


def trained(seeds: Sequence[int], folder: Path, device: int) -> subprocess.Popen:
    """The process that trains these seeds into a folder, or continues there."""
    kept = [
        a for a in sys.argv[1:] if a.startswith("--config") and not a.startswith("--config.seeds")
    ]
    command = [
        sys.executable,
        "-m",
        "mednli_jax.train",
        *kept,
        f"--config.seeds={','.join(map(str, seeds))},",
    ]
    command += [
        f"--workdir={folder}",
        "--wait=120",
        "--resume" if (folder / "checkpoints").exists() else "--force",
    ]
    with open(folder.with_suffix(".log"), "w") as log:
        how = {
            "stdout": log,
            "stderr": log,
            "start_new_session": True,
        }  # Ctrl-C reaches it once, from this process
        return subprocess.Popen(command, env={**os.environ, **one_device(device)}, **how)


def joined(rows: list[dict]) -> dict:
    """One row of metrics, or the facts of one result, from those of the parts. Lists with a value a
    seed are joined."""
    found = dict(rows[0])
    for name, value in rows[0].items():
        values = [row[name] for row in rows]
        if name in SUMMED or name in MOST:
            found[name] = round(sum(values), 2) if name in SUMMED else max(values)
        elif isinstance(value, list) and name != "width":
            found[name] = [each for of_part in values for each in of_part]
    return found


def fit(parts: list[RunDirectory], experiment, prepared, session):
    """A fit (see docs/architecture.md) that takes the best weights of each seed from the finished
    parts."""
    import jax
    import numpy as np

    from mednli_jax.training.checkpoint import Checkpoints
    from mednli_jax.training.session import Fitted

    program, batches = experiment.program(prepared)
    session.write_facts(prepared.manifest, program.devices.all)
    experiment.keep_for_prediction(session.directory, prepared)
    of_epoch = {}
    for part in parts:
        part.check_data(prepared.manifest)
        for row in read_metrics(part):
            of_epoch.setdefault(row["epoch"], []).append(row)
    for epoch in sorted(of_epoch):
        row = joined(of_epoch[epoch])
        session.directory.append_metrics(row)
        session.directory.write_scalars(row)
    loaded = [Checkpoints(part.checkpoints).load()[0]["best"] for part in parts]
    best = jax.tree.map(lambda *leaves: np.concatenate(leaves), *loaded)
    Checkpoints(session.checkpoints).save({"best": best}, {})
    weights = program.devices.replicate(
        {name: best.get(name, {}) for name in ("params", "batch_stats")}
    )
    results = [part.result().values for part in parts]
    facts = joined([{name: result[name] for name in FACTS if name in result} for result in results])
    notes = [note for result in results for note in result["notes"] if note.startswith("seed ")]
    return Fitted(facts, lambda split: program.logits(weights, batches[split]), notes)


def main(values: cli.Flags) -> None:
    """Trains the parts that are not finished, and joins them."""
    config, folder = cli.config(values), cli.required(values, "workdir", "--workdir=DIR")
    from mednli_jax import run

    experiment, seeds = run.experiment_of(config), list(config.seeds)
    if experiment.trained_by:
        raise RunError(
            "only seeds of networks on one corpus can be shared out",
            fix="python -m mednli_jax.train",
        )
    RunDirectory.check(folder)
    experiment.prepare()  # once, before the parts read it
    count, parts = min(values.workers, len(seeds)), private_folder(Path(f"{folder}.parts"))
    first = [len(seeds) * k // count for k in range(count + 1)]
    folders = [parts / str(k) for k in range(count)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    running = [trained(seeds[first[k] : first[k + 1]], folders[k], k) for k in range(count)]
    try:
        codes = [process.wait() for process in running]
    except KeyboardInterrupt:  # the parts save and end
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
        raise
    for code, part in zip(codes, folders, strict=True):
        if code == cli.INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise RunError(f"training in {part} failed", fix=f"see {part}.log")
    found = [RunDirectory.existing(part) for part in folders]
    together = replace(experiment, trained_by=lambda *given: fit(found, *given))
    content = {**config.to_dict(), "model": experiment.model.fields}
    again = shlex.join(cli.command_line())
    directory = run.train(together, folder, content, name=cli.config_name(), resume_command=again)
    run.write_page(directory, experiment.task)
    print(directory.folder / "result.json")


def define(values: cli.Flags) -> None:
    cli.define(values, config=None)
    cli.define_paths(values, "workdir")
    cli.define_numbers(values, workers=1)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
