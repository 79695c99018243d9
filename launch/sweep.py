"""Runs a sweep over fields of a config by optuna, see USAGE. Workers that open the same study share its trials."""

import re
import runpy
import shlex
import sys
import traceback
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import ConfigError, UsageError, UserError
from mednli_jax.files import private_folder, write_atomic, write_json
from mednli_jax.progress import say
from mednli_jax.sweeps.spaces import Sweep
from mednli_jax.sweeps.study import Study
from mednli_jax.sweeps.worker import Worker

USAGE = """Train the trials of a sweep: the product of some choices, or a random search.

  python launch/sweep.py --config=configs/sweep_esim_kd.py --workers=2
  python launch/sweep.py --config=configs/search_ga.py:clicr --study=ga --storage=postgresql://USER@HOST/DB
  python launch/sweep.py --study=ga --table

  --config=FILE[:VARIANT]  a file of configs/ with a get_sweep() beside its get_config()
  --config.FIELD=VALUE     a value for all trials; only for fields that are not swept
  --study=NAME             name in the database, and of the folder runs/NAME (default: FILE-VARIANT)
  --storage=URL            the database (default sqlite:///runs/NAME/study.db; several machines need a server)
  --workers=N              trials at the same time on this machine (default 1; one for each accelerator)
  --trials=N               number of trials, with the finished ones (default: that of get_sweep)
  --retry                  run failed trials again
  --table                  only print the table of finished trials
  --grace=SECONDS          time after which a silent worker counts as dead (default 60)
  --command=COMMAND        the command of a trial (default: python -m mednli_jax.train), e.g. preceded by srun or nice

The same command on another machine joins the sweep; after Ctrl-C or a crash it continues. Each trial is a separate run,
runs/NAME/trial-K, with its output in trial-K.log. At the end runs/NAME holds table.md, trials.json and study.png.
Exit codes: 0 done, 2 bad input, or some trials failed, 3 interrupted. Needs pip install 'mednli_jax[sweep]'."""


def define(values: cli.Flags) -> None:
    """The flags of the script besides those of the config."""
    cli.define_config(values)
    for name, default in (("study", None), ("storage", None), ("command", None)):
        flags.DEFINE_string(name, default, name, flag_values=values)
    for name, default in (("workers", 1), ("trials", None), ("grace", 60)):
        flags.DEFINE_integer(name, default, name, flag_values=values)
    for name in ("retry", "table"):
        flags.DEFINE_bool(name, False, name, flag_values=values)


def main(values: cli.Flags) -> int:
    """Trains the remaining trials of the study, or prints its table. Returns the exit code."""
    name = values.study if values.study is not None else cli.config_name()
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError("--study names a folder of runs/. Fix: give letters, digits, '-', '_' and '.'.")
    for flag, least in (("workers", 1), ("trials", 1), ("grace", 3)):
        if values[flag].value is not None and values[flag].value < least:
            raise UsageError(f"--{flag} is {values[flag].value}. Fix: give at least {least}.")
    folder = Path("runs") / name
    url = values.storage or f"sqlite:///{folder / 'study.db'}"
    if values.table:
        from mednli_jax.sweeps import summary  # a slow import that --help does not need

        study = Study(url, name)
        print("\n".join(summary.table(study.rows(), study.description)))
        return cli.OK
    return _train(values, name, folder, url)


def _train(values, name, folder, url):
    config, given = cli.config(values), [a for a in sys.argv[1:] if re.match(r"--?config[.=]", a)]
    sweep = sweep_of(Path(_file(given)))
    if not _accepted(sweep, given):
        return cli.USAGE
    total = values.trials or sweep.trials
    if sweep.most is not None and total > sweep.most:
        raise UsageError(f"--trials is {total}: the product has {sweep.most}. Fix: give at most so many.")
    try:
        command = shlex.split(values.command or "")
    except ValueError as error:
        raise UsageError(f"--command: {error}. Fix: close the quote.") from None
    private_folder(folder)
    study = Study(url, name, sweep, config.to_dict(), grace=values.grace)
    command = command or [sys.executable, "-m", "mednli_jax.train"]
    worker = Worker(study, folder, command, given, slots=values.workers, total=total, grace=values.grace)
    if not worker.run(retry=values.retry):
        say("interrupted. The same command continues with the study.")
        return cli.INTERRUPTED
    return _report(study, total, folder)


def _file(given):
    """The config file of --config=FILE:VARIANT."""
    return next(a.partition("=")[2].split(":", 1)[0] for a in given if a.lstrip("-").startswith("config="))


def sweep_of(path: Path) -> Sweep:
    """The result of get_sweep of a config file. Raises UserError where it is missing or fails."""
    fix = "write one as in configs/sweep_esim_kd.py"
    make = runpy.run_path(str(path)).get("get_sweep")
    if make is None:
        raise ConfigError(f"{path}: it defines no get_sweep. Fix: {fix}.")
    try:
        sweep = make()
    except UserError:
        raise
    except Exception as error:  # a config file is code and may raise any exception
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name]
        where = f"{path}:{frames[-1]}" if frames else path
        raise ConfigError(f"{where}: {type(error).__name__} in get_sweep. Fix: correct the line.") from None
    if not isinstance(sweep, Sweep):
        raise ConfigError(f"{path}: its get_sweep returns no Sweep. Fix: {fix}.")
    return sweep


def _accepted(sweep, given) -> bool:
    """Whether the config has all swept fields and accepts all values, as flags of train. Prints a line where not."""
    twice = sorted(set(sweep.fields) & {a.lstrip("-").removeprefix("config.").partition("=")[0] for a in given})
    if twice:
        raise UsageError(f"--config.{twice[0]}: the sweep sets this field. Fix: leave it out.")
    typed = sys.argv
    sys.argv = [typed[0], *given, *sweep.flags()]
    try:
        return cli.run(lambda values: cli.OK, USAGE, cli.define_config) == cli.OK
    finally:
        sys.argv = typed


def _report(study, total, folder):
    from mednli_jax.sweeps import summary

    rows, sweep = study.rows(total), study.description
    lines = list(summary.table(rows, sweep))
    write_atomic(folder / "table.md", "\n".join(lines) + "\n")
    write_json(folder / "trials.json", {"sweep": sweep, "trials": [vars(row) for row in rows]})
    write_atomic(folder / "study.png", summary.picture(rows, sweep))
    print("\n".join(lines))
    say(f"{folder / 'table.md'}, {folder / 'trials.json'}, {folder / 'study.png'}")
    failed = sorted(row.trial for row in rows if row.metric is None)
    if failed:
        numbers = ", ".join(map(str, failed[:10])) + (", ..." if len(failed) > 10 else "")
        say(f"{len(failed)} of {total} trials failed: {numbers}. Fix: see their logs, then --retry.")
    return cli.USAGE if failed else cli.OK


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
