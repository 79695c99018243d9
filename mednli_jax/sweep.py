"""Train the trials of a sweep: all combinations of some choices, a random search, or TPE. The same
command joins in from another machine, and goes on after Ctrl-C or a crash.

  python -m mednli_jax.sweep --config=sweep_esim_kd --study=kd --workers=2
  python -m mednli_jax.sweep --config=search_ga:clicr --study=ga --storage=postgresql://USER@HOST/DB

  --config=FILE[:VARIANT]  a file with a get_sweep() beside its get_config();
                           --config.FIELD=VALUE: for all trials
  --study=NAME             name in the database, and of the folder runs/NAME (default: FILE-VARIANT)
  --storage=URL            the database (default sqlite:///runs/NAME/study.db; several machines need
                           a server)
  --workers=N              trials at the same time on this machine (default 1); each of several sees
                           one GPU or TPU chip
  --trials=N               number of trials, with the finished ones (default: that of get_sweep)
  --table                  only print the table of finished trials
  --test                   the table shows the scores on test, too
  --grace=SECONDS          time after which an interrupted trial, or one whose worker is silent, is
                           taken up again (default 60)
  --command=COMMAND        the command of a trial (default: python -m mednli_jax.train), e.g.
                           preceded by srun or nice

Each trial is a run, runs/NAME/trial-K, with its output in trial-K.log; runs/NAME/table.md has the
results. Trials that failed are tried again when the command is given again. Exit codes: 0 done, 2
bad input, or some trials failed, 3 interrupted. Needs pip install 'mednli_jax[sweep]'.
"""

import shlex
import sys

from mednli_jax import cli
from mednli_jax.errors import RunError


def define(values: cli.Flags) -> None:
    cli.define(values, config=None, study=None, storage=None, table=False, test=False)
    cli.define(values, command=shlex.join([sys.executable, "-m", "mednli_jax.train"]))
    cli.define_numbers(values, workers=1)
    cli.define_numbers(values, least=0, trials=0)
    cli.define_numbers(values, least=4, grace=60)


def main(values: cli.Flags) -> None:
    try:
        from mednli_jax import sweeps
    except ImportError:
        raise RunError("optuna is not installed", fix="pip install 'mednli_jax[sweep]'") from None
    sweeps.main(values)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
