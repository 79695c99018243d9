"""Train a model, keep the best dev epoch of each seed, score it on test.

  python -m mednli_jax.train --config=configs/esim_kd.py
  python -m mednli_jax.train --config=esim_kd:mednli --config.seeds=0,1,2 --workdir=runs/kd

{config}
  --workdir=DIR                the run directory (default: runs/CONFIG-VARIANT, numbered if taken)
  --resume                     continue the interrupted run in --workdir, with the same --config
  --force                      delete the run in --workdir and start over
  --dry-run                    print shapes and memory; do not train
  --wait=SECONDS               how long to wait for another process in --workdir (default: 0)
  --profile                    write a profiler trace of some steps to <workdir>/profile
  --coordinator=HOST:PORT --processes=N --process=I   this is process I of N; 0 coordinates
  --distributed                the same, for processes that a TPU pod, Slurm or MPI started

Corpora are read from $MEDNLI_JAX_DATA/<corpus>/. Prepared data is cached in $MEDNLI_JAX_CACHE. The
run directory holds result.json, metrics.jsonl, log.txt and the checkpoints. Exit codes: 0 done, 2
bad input or usage, 3 interrupted, or another process trains in --workdir, 134 another process of
this run was lost (3, 134: go on with --resume).
"""

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mednli_jax import cli, tasks
from mednli_jax.errors import RunError, UsageError
from mednli_jax.files.paths import next_free
from mednli_jax.terminal import say, warn

if TYPE_CHECKING:
    from mednli_jax.experiment import Experiment


def define(values: cli.Flags) -> None:
    cli.define(values, config=None, resume=False, force=False, profile=False, dry_run=False)
    cli.define_paths(values, "workdir")
    cli.define(values, coordinator=None, distributed=False)
    cli.define_numbers(values, least=None, processes=None, process=None)
    cli.define_numbers(values, least=0, wait=0)


def main(values: cli.Flags) -> int:
    config = tasks.with_labels(cli.config(values))
    if values.resume and values.force:
        raise UsageError("--resume continues a run, --force deletes it", fix="give one of the two")
    from mednli_jax import run  # imports jax, so it follows the check of the flags
    from mednli_jax.experiment import experiment_of
    from mednli_jax.training import hosts
    from mednli_jax.training.loop import Interrupted

    # As Ctrl-C, until the training itself catches it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    experiment = experiment_of(config)
    if values.dry_run:
        _describe(experiment)
        return cli.OK
    process = hosts.join(
        values.coordinator, values.processes, values.process, automatic=values.distributed
    )
    if process.count > 1 and experiment.trained_by:
        raise RunError(
            "several processes can only train networks on one corpus", fix="start one process"
        )
    name = cli.config_name(experiment.model.entry.plugin_class)
    folder = values.workdir or Path("runs") / name
    if not (values.workdir or values.resume):
        folder = next_free(folder)

    resumed = [*_flags_to_repeat(cli.arguments()), f"--workdir={folder}", "--resume"]

    def work() -> int:
        if process.count > 1:
            process.check_same("config", config.to_dict())
        try:
            if not process.leads:
                run.train_along(experiment)
            elif directory := run.train(
                experiment,
                folder,
                {**config.to_dict(), "model": experiment.model.fields},
                name=name,
                resume=values.resume,
                force=values.force,
                wait=values.wait,
                profile=values.profile,
                resume_command=f"{cli.typed_command('train')} {shlex.join(resumed)}",
                command_line=cli.command_line(),
            ):
                say(f"page: {run.write_page(directory, experiment.task)}")
                print(directory.folder / "result.json")
        except Interrupted:
            return cli.INTERRUPTED
        return cli.OK

    return work() if process.count == 1 else process.run(lambda: cli.script(work))


def _flags_to_repeat(arguments: Sequence[str]) -> list[str]:
    """The arguments without --workdir and its value, --resume and --force."""
    words, is_value = [], False
    for argument in arguments:
        name, equals, _ = argument.lstrip("-").partition("=")
        if not is_value and name not in ("workdir", "resume", "force"):
            words.append(argument)
        is_value = not is_value and name == "workdir" and not equals
    return words


def _describe(experiment: "Experiment") -> None:
    if experiment.trained_by:
        raise UsageError(
            "--dry-run is for a network on one corpus, not for features or folds",
            fix="leave it out",
        )
    from mednli_jax.experiment import start_jax
    from mednli_jax.training import gradient

    start_jax()
    prepared, _ = experiment.prepare()
    for line in experiment.task.warnings(prepared):
        warn(line)
    program, batches = experiment.program(prepared)
    # Each line is shown at once, because the next one may take seconds.
    for line in gradient.describe(program, batches, experiment.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
