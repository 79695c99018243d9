"""Train a model, keep the best dev epoch of each seed, score it on test.

  python -m mednli_jax.train --config=configs/esim_kd.py
  python -m mednli_jax.train --config=configs/esim_kd.py:mednli --config.seeds=0,1,2 --workdir=runs/kd

{config}
  --workdir=DIR                the run directory (default: runs/<config>-<variant>, numbered if taken)
  --resume                     continue the interrupted run in --workdir
  --force                      delete the run in --workdir and start over
  --dry-run                    print shapes, parameters, memory and the time of an epoch; do not train
  --wait=SECONDS               how long to wait where another process trains in --workdir (default: 0)
  --profile                    write a profiler trace of some steps to <workdir>/profile
  --coordinator=HOST:PORT --processes=N --process=I   this is process I of N; process 0 is the coordinator
  --distributed                the same, for processes that a TPU pod, Slurm or MPI started

Corpora are read from $MEDNLI_JAX_DATA/<corpus>/. Prepared data is kept in $MEDNLI_JAX_CACHE. The
run directory holds result.json, metrics.jsonl, log.txt and the checkpoints. Exit codes: 0 done, 2
bad input or usage, 3 interrupted, or another process trains in --workdir, 134 another process of
this run was lost (3, 134: go on with --resume).
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from mednli_jax import cli, tasks
from mednli_jax.errors import RunError, UsageError
from mednli_jax.files import next_free
from mednli_jax.terminal import say, warn


def define(values: cli.Flags) -> None:
    cli.define(values, config=None, resume=False, force=False, dry_run=False, profile=False)
    cli.define_paths(values, "workdir")
    cli.define(values, coordinator=None, distributed=False)
    cli.define_numbers(values, least=None, processes=None, process=None)
    cli.define_numbers(values, least=0, wait=0)


def main(values: cli.Flags) -> int:
    config = cli.config(values)
    if values.resume and values.force:
        raise UsageError("--resume continues a run, --force deletes it", fix="give one of the two")
    from mednli_jax import run  # imports jax, so it follows the check of the flags
    from mednli_jax.training import hosts
    from mednli_jax.training.loop import Interrupted

    spec = run.experiment_of(config)
    if values.dry_run:
        return _describe(spec)
    here = hosts.join(
        values.coordinator, values.processes, values.process, automatic=values.distributed
    )
    if here.count > 1 and spec.trained_by:
        raise RunError(
            "several processes can only train networks on one corpus", fix="start one process"
        )
    name = cli.config_name()
    folder = values.workdir or Path("runs") / name
    if not (values.workdir or values.resume):
        folder = next_free(folder)

    resumed = [*_kept_flags(cli.arguments()), f"--workdir={folder}", "--resume"]

    def work():
        if here.count > 1:
            here.check_same("config", config.to_dict())
        try:
            if not here.leads:
                run.train_along(spec)
            elif directory := run.train(
                spec,
                folder,
                {**config.to_dict(), "model": spec.model.fields},
                name=name,
                resume=values.resume,
                force=values.force,
                wait=values.wait,
                profile=values.profile,
                resume_command=f"{cli.typed('train')} {shlex.join(resumed)}",
                command_line=cli.command_line(),
            ):
                say(f"page: {run.write_page(directory, spec.task)}")
                print(directory.folder / "result.json")
        except Interrupted:
            return cli.INTERRUPTED

    return work() if here.count == 1 else here.run(lambda: cli.script(work))


def _kept_flags(arguments: Sequence[str]) -> list[str]:
    """The arguments but --workdir and its value, --resume and --force."""
    kept, is_value = [], False
    for argument in arguments:
        name, equals, _ = argument.lstrip("-").partition("=")
        if not is_value and name not in ("workdir", "resume", "force"):
            kept.append(argument)
        is_value = not is_value and name == "workdir" and not equals
    return kept


def _describe(spec) -> int:
    if spec.trained_by:
        raise UsageError(
            "--dry-run is for a network on one corpus, not for features or folds",
            fix="leave it out",
        )
    from mednli_jax import run
    from mednli_jax.training.gradient import describe
    from mednli_jax.training.loop import Trainer

    run.start_jax()
    prepared, _ = spec.prepare()
    for line in tasks.warnings(spec.task, prepared):
        warn(line)
    program, batches = spec.program(prepared)
    for line in describe(Trainer(program, spec.settings, prepared.splits, batches, spec.seeds)):
        print(line, flush=True)  # shown at once, because each line takes seconds to measure
    return cli.OK


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
