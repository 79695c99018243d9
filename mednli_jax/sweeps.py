"""Studies of many runs by optuna: their trials, the workers that train them, and the table of results."""

import fcntl
import json
import math
import runpy
import shlex
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import optuna
import sqlalchemy
from optuna.distributions import CategoricalDistribution, distribution_to_json

from mednli_jax import cli
from mednli_jax.errors import ConfigError, RunError, UserError
from mednli_jax.io import private_folder, say, write_atomic
from mednli_jax.report.runs import RunDirectory, differing

# On Linux a training ends with its worker, by SIGTERM. Elsewhere it trains on, and the next attempt waits for it.
TIE = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
TIED = [sys.executable, "-c", TIE] if sys.platform == "linux" else []


@dataclass(frozen=True)
class Sweep:
    """The varied fields of a config. The values of a trial follow from the sweep and the number of the trial alone.

    Args:
      fields: config field -> a tuple of choices, or one of optuna's distributions.
      trials: number of random draws (Bergstra & Bengio 2012); 0 for every combination of the choices.
      metric: name in result.json, with dots between levels.
      tpe: the values of a trial also follow from the results before it (Bergstra et al. 2011).
    """

    fields: dict
    trials: int = 0
    metric: str = "dev.accuracy.mean"
    seed: int = 0
    tpe: bool = False

    def distributions(self) -> dict:
        """{field: optuna's distribution}."""
        choices = {name: space for name, space in self.fields.items() if type(space) is tuple}
        return self.fields | {name: CategoricalDistribution(space) for name, space in choices.items()}

    def values(self, trials: int = 0) -> list[dict]:
        """{field: value} of each trial; empty where `after` gives them."""
        number = trials or self.trials or math.prod(map(len, self.fields.values()))
        if self.tpe:
            return [{}] * number
        draw, grid = optuna.samplers.RandomSampler, optuna.samplers.GridSampler
        drawn = optuna.create_study(sampler=draw(self.seed) if self.trials else grid(self.fields, self.seed))
        return [drawn.ask(self.distributions()).params for _ in range(number)]

    def after(self, trial: int, done: list) -> dict:
        """{field: value} of a trial by TPE, after these attempts, which are complete."""
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=self.seed + trial))
        study.add_trials(sorted(done, key=lambda attempt: attempt.user_attrs["trial"]))
        return study.ask(self.distributions()).params


def main(values: cli.Flags) -> None:
    """Trains the remaining trials of the study, and prints its table."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)  # heartbeats
    folder = Path("runs") / (values.study or cli.config_name())
    url = values.storage or f"sqlite:///{folder / 'study.db'}"
    try:
        if values.table:
            study = optuna.load_study(study_name=folder.name, storage=url)
        else:
            config = cli.config(values)
            named = [a for a in sys.argv if a.startswith("--config=")]
            file = cli.config_file(named[-1].removeprefix("--config="))
            found = runpy.run_path(str(file))
            if "get_sweep" not in found:
                raise ConfigError(f"{file}: it defines no get_sweep. Fix: see configs/sweep_esim_kd.py.")
            sweep = found["get_sweep"]()
            with open(private_folder(folder) / "study.lock", "w") as lock:  # one worker creates the tables
                fcntl.flock(lock, fcntl.LOCK_EX)
                study = _study(url, folder.name, sweep, config, values.grace)
            Worker(study, sweep, folder, values).run()
            write_atomic(folder / "table.md", "\n".join(table(study)) + "\n")
        print("\n".join(table(study)))
        last = {trial: attempts[-1] for trial, attempts in attempts_of(study).items()}
        failed = [str(trial) for trial in last if "error" in last[trial].user_attrs]
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError, ImportError, KeyError) as error:
        problem = f"--storage: no study '{folder.name}' can be used there ({type(error).__name__})"
        raise RunError(f"{problem}. Fix: check --study, the URL, its driver and its database.") from None
    if failed and not values.table:
        raise RunError(f"trials {', '.join(failed)} failed. Fix: see their logs, then --retry.")


def _study(url, name, sweep, config, grace):
    """The study of this name, which is created if there is none."""
    options = {"timeout": 60, "isolation_level": None} if url.startswith("sqlite") else {}
    storage = optuna.storages.RDBStorage(
        url,
        {"pool_pre_ping": True, "connect_args": options},
        heartbeat_interval=max(1, grace // 4),
        grace_period=grace,
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(),
    )
    if storage.engine.name == "sqlite":

        def begin(opened):  # without a lock from its begin a transaction lets two workers take one trial
            opened.exec_driver_sql("BEGIN IMMEDIATE")

        sqlalchemy.event.listen(storage.engine, "begin", begin)
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    fields = {field: distribution_to_json(space) for field, space in sweep.distributions().items()}
    new = {"fields": fields, "metric": sweep.metric, "seed": sweep.seed}
    new["config"] = json.loads(config.to_json())
    new |= {"tpe": True} if sweep.tpe else {}
    known = study.user_attrs.get("sweep", new)
    if known != new:
        problem = f"study '{name}' was begun with other values of {', '.join(differing(known, new)[:5])}"
        raise RunError(f"{problem}. Fix: give the same flags, or another --study.")
    study.set_user_attr("sweep", new)
    return study


class Worker:
    """Trains the trials of a study on this machine.

    Trial K may have several attempts, optuna's trials with the user attribute "trial" = K. An attempt ends COMPLETE;
    FAIL, with the attribute "error" where training failed and without it where its worker ended or died; PRUNED where
    it was not needed.
    """

    def __init__(self, study, sweep: Sweep, folder: Path, values: cli.Flags):
        self.study, self.sweep, self.folder, self.values = study, sweep, folder, values
        command = shlex.split(values.command or "") or [sys.executable, "-m", "mednli_jax.train"]
        self.command = [*TIED, *command, *(a for a in sys.argv[1:] if a.startswith("--config"))]
        self.stopped, self.processes = False, set()

    def run(self) -> None:
        """Ends when all trials are finished. Raises: KeyboardInterrupt after SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        drawn, retry = self.sweep.values(self.values.trials), self.values.retry
        waiting = {"state": optuna.trial.TrialState.WAITING, "distributions": self.sweep.distributions()}
        seen, states = set(), {"RUNNING"}
        while states & {"RUNNING", "WAITING"} and not self.stopped:
            optuna.storages.fail_stale_trials(self.study)
            known, added = attempts_of(self.study), 0
            for trial, params in enumerate(drawn):
                attempts = known.get(trial, [])
                failed = any("error" in attempt.user_attrs for attempt in attempts[-1:])
                if all(attempt.state.name == "FAIL" for attempt in attempts) and (retry or not failed):
                    if self.sweep.tpe and added == self.values.workers:  # later trials learn from these
                        break
                    params = self._values(trial, attempts) if self.sweep.tpe else params
                    new = optuna.create_trial(params=params, user_attrs={"trial": trial}, **waiting)
                    self.study.add_trial(new)
                    added += 1
            found = self.study.get_trials(deepcopy=False)
            retry, states = False, {attempt.state.name for attempt in found}
            running = {attempt._trial_id for attempt in found if attempt.state.name == "RUNNING"}
            for trial_id in running - seen:  # a worker may have died before its first heartbeat
                self.study._storage.record_heartbeat(trial_id)
            seen |= running
            if "WAITING" in states:
                try:
                    self.study.optimize(self._train, n_jobs=self.values.workers, catch=(UserError,))
                except (AssertionError, ValueError):  # optuna takes no result of an attempt that counts as ended
                    raise RunError("the worker was silent for too long. Fix: repeat the command.") from None
            time.sleep(1)  # others train, and may die
        if self.stopped:
            raise KeyboardInterrupt

    def _values(self, trial, attempts):
        if attempts:  # a trial that was begun keeps its values
            return attempts[0].params
        found = self.study.get_trials(deepcopy=False)
        return self.sweep.after(trial, [attempt for attempt in found if attempt.state.name == "COMPLETE"])

    def _stop(self, number, frame):  # lets the trainings save
        self.stopped = True
        for process in list(self.processes):
            process.terminate()

    def _train(self, attempt) -> float:
        """Trains the trial of an attempt, or continues it: optuna's objective."""
        trial, metric = attempt.user_attrs.get("trial"), self.sweep.metric
        if trial is None:  # optuna made a new trial, because none was waiting
            self.study.stop()
        # Two workers may have added an attempt each: the one that is done counts, else the older one.
        every = [other for other in attempts_of(self.study).get(trial, []) if other.state.name != "FAIL"]
        every.sort(key=lambda other: (not other.state.is_finished(), other.number))
        if [other.number for other in every[:1]] != [attempt.number]:
            raise optuna.TrialPruned
        run = RunDirectory(self.folder / f"trial-{trial}")
        while run.in_training() and not self.stopped:  # by the process of a worker that died
            time.sleep(1)
        try:
            if run.status() != "complete":
                self._call(run.folder, attempt.params)
            if (score := _number_at(run.result(), metric)) is None:
                raise RunError(f"result.json has no number '{metric}'. Fix: correct get_sweep.")
        except UserError as error:
            say(f"trial {trial}: {error}")
            attempt.set_user_attr("error", str(error))
            raise
        attempt.set_user_attr("test", _number_at(run.result(), metric.replace("dev", "test", 1)))
        say(f"trial {trial}: {metric} {score:.4f}")
        return score

    def _call(self, folder, values) -> None:
        """Trains in a folder, or continues there. Raises: RunError with what the command says."""
        swept = [f"--config.{field}={value}" for field, value in values.items()]
        command = [*self.command, *swept, f"--workdir={folder}", *["--resume"] * folder.exists()]
        file = folder.with_suffix(".log")
        with open(file, "w") as log:
            how = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
            with subprocess.Popen(command, **how) as process:
                self.processes.add(process)
                if self.stopped:  # the signal came before the process
                    process.terminate()
            self.processes.discard(process)
        if process.returncode in (cli.INTERRUPTED, -signal.SIGTERM):
            raise KeyboardInterrupt
        if process.returncode:
            last = file.read_text(errors="replace").strip().rpartition("\n")[2]
            _, told, problem = last.partition("error: ")
            raise RunError(problem if told and last.startswith(told) else f"it failed. Fix: see {file}.")


def _number_at(result, path) -> float | None:
    for name in path.split("."):
        result = result.get(name) if isinstance(result, dict) else None
    return float(result) if isinstance(result, int | float) else None


def attempts_of(study) -> dict[int, list]:
    """{trial: its attempts, oldest first}, without those that were not needed."""
    attempts = {}
    for attempt in study.get_trials(deepcopy=False):
        if "trial" in attempt.user_attrs and attempt.state.name != "PRUNED":
            attempts.setdefault(attempt.user_attrs["trial"], []).append(attempt)
    return attempts


def table(study) -> list[str]:
    """The finished trials as a table in Markdown, the best first."""
    metric, fields = (study.user_attrs["sweep"][name] for name in ("metric", "fields"))
    done = [attempt for attempt in study.get_trials(deepcopy=False) if attempt.state.name == "COMPLETE"]
    lines = [["trial", *fields, metric, metric.replace("dev", "test", 1)], ["---"] * (len(fields) + 3)]
    for attempt in sorted(done, key=lambda attempt: attempt.value, reverse=True):
        found = attempt.user_attrs
        numbers = [found["trial"], *attempt.params.values(), attempt.value, found["test"]]
        lines.append([f"{number:.4g}" if isinstance(number, float) else str(number) for number in numbers])
    return [f"| {' | '.join(line)} |" for line in lines]
