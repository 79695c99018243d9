"""Studies of many runs by optuna: their trials, the workers that train them, and the table of
results."""

import contextlib
import functools
import json
import math
import runpy
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import optuna
import sqlalchemy
from absl import flags
from ml_collections import config_flags
from ml_collections.config_dict import ConfigDict
from optuna.distributions import BaseDistribution, CategoricalDistribution, distribution_to_json
from optuna.trial import FrozenTrial, TrialState

from mednli_jax import cli
from mednli_jax.defaults import did_you_mean
from mednli_jax.errors import ConfigError, RunError, UserError
from mednli_jax.files import lock_file, private_folder, write_atomic
from mednli_jax.rundir import RunDirectory, differing
from mednli_jax.terminal import say, warn
from mednli_jax.workers import Commands, failure

OUTAGE_SECONDS = 3600  # in which a database must answer again
Result = TypeVar("Result")
Space = Any  # a tuple of choices, or a BaseDistribution
Values = dict[str, Any]  # field -> value


@dataclass(frozen=True)
class Sweep:
    """The varied fields of a config. The values of a trial follow from the sweep and the number of
    the trial alone.

    Args:
      fields: config field -> a tuple of choices, or one of optuna's distributions.
      trials: number of random draws (Bergstra & Bengio 2012); 0 for every combination of the
        choices.
      metric: name in result.json, with dots between levels.
      tpe: the values of a trial also follow from the results before it (Bergstra et al. 2011).
    """

    fields: Mapping[str, Space]
    trials: int = 0
    metric: str = "dev.accuracy.mean"
    seed: int = 0
    tpe: bool = False

    def distributions(self) -> dict[str, BaseDistribution]:
        """{field: optuna's distribution}."""
        distributions = {}
        for name, space in self.fields.items():
            is_choice = isinstance(space, tuple)
            distributions[name] = CategoricalDistribution(space) if is_choice else space
        return distributions

    def values(self, trials: int = 0) -> list[Values]:
        """{field: value} of each trial; empty where `after` gives them."""
        number = trials or self.trials or math.prod(map(len, self.fields.values()))
        if self.tpe:
            return [{}] * number
        sampler: optuna.samplers.BaseSampler
        if self.trials:
            sampler = optuna.samplers.RandomSampler(self.seed)
        else:
            sampler = optuna.samplers.GridSampler(self.fields, self.seed)
        study = optuna.create_study(sampler=sampler)
        return [study.ask(self.distributions()).params for _ in range(number)]

    def after(self, trial: int, done: Sequence[FrozenTrial]) -> Values:
        """{field: value} of a trial by TPE, after these attempts, which are complete."""
        sampler = optuna.samplers.TPESampler(seed=self.seed + trial)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials(sorted(done, key=lambda attempt: attempt.user_attrs["trial"]))
        return study.ask(self.distributions()).params


def main(values: cli.Flags) -> None:
    """Trains the remaining trials of the study, and prints its table."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)  # heartbeats
    warnings.filterwarnings(
        "ignore", message="Heartbeat of storage"
    )  # the worker records them, not optuna
    folder = Path("runs") / (values.study or cli.config_name())
    url = values.storage or f"sqlite:///{folder / 'study.db'}"
    try:
        if values.table:
            study = optuna.load_study(study_name=folder.name, storage=_storage(url, values.grace))
            lines, failed = table(study, values.test), []
        else:
            config = cli.config(values)
            sweep = _sweep_of_config_file(config)
            with open(
                private_folder(folder) / "study.lock", "w"
            ) as lock:  # one worker creates the tables
                if not lock_file(lock, wait=True):
                    _without_locks(folder, values.workers)
                study = _study(_storage(url, values.grace), folder.name, sweep, config)
            worker = Worker(study, sweep, folder, values)
            worker.run()
            lines = worker.repeated(lambda: table(study, values.test))
            failed = worker.repeated(lambda: _failed(study))
            write_atomic(folder / "table.md", "\n".join(lines) + "\n")
        print("\n".join(lines))
    except (
        sqlalchemy.exc.SQLAlchemyError,
        optuna.exceptions.OptunaError,
        ImportError,
        KeyError,
    ) as error:
        problem = f"--storage: no study '{folder.name}' can be used there ({type(error).__name__})"
        raise RunError(problem, fix="check --study, the URL, its driver and its database") from None
    if failed:
        raise RunError(f"trials {', '.join(failed)} failed", fix="see their logs, then --retry")


def _failed(study: optuna.Study) -> list[str]:
    """The trials whose last attempt failed."""
    last = {trial: attempts[-1] for trial, attempts in attempts_of(study).items()}
    return [str(trial) for trial, attempt in last.items() if "error" in attempt.user_attrs]


def _sweep_of_config_file(config: ConfigDict) -> Sweep:
    """What get_sweep of the file in --config returns. Raises ConfigError where a trial could not
    set its fields."""
    names = [word for word in cli.arguments() if word.startswith("--config=")]
    file = cli.config_file(names[-1].removeprefix("--config="))
    definitions = runpy.run_path(str(file))
    if "get_sweep" not in definitions:
        raise ConfigError(f"{file}: it defines no get_sweep", fix="see configs/sweep_esim_kd.py")
    sweep: Sweep = definitions["get_sweep"]()
    type_names = {field.name: field.type_name for field in cli.fields(config)}
    for field, space in sweep.fields.items():
        place = f"{file}: get_sweep: '{field}'"
        if field not in type_names:
            problem = f"{place} is no field of the config.{did_you_mean(field, type_names)}"
            raise ConfigError(problem, fix="see --fields")
        if space == () or not isinstance(space, tuple | BaseDistribution):
            fix = "give a tuple of values, or a distribution of optuna"
            raise ConfigError(f"{place} has no choices", fix=fix)
    for field, distribution in sweep.distributions().items():
        place = f"{file}: get_sweep: '{field}'"
        for value in _extremes(distribution):
            if not _fits(config, field, value):
                problem = f"{place} has the type {type_names[field]}, and {value!r} does not fit"
                raise ConfigError(problem, fix="give values of this type")
    return sweep


def _extremes(space: Space) -> Sequence[Any]:
    """All choices, or the bounds of a range."""
    if isinstance(space, CategoricalDistribution):
        return space.choices
    return (space.low, space.high)


def _fits(config: ConfigDict, field: str, value: object) -> bool:
    """Whether a training takes --config.FIELD=VALUE."""
    argv, parsed = ["train", f"--config.{field}={value}"], flags.FlagValues()
    try:
        config_flags.DEFINE_config_dict(
            "config", config.copy_and_resolve_references(), flag_values=parsed, sys_argv=argv
        )
        parsed(argv)
    except (flags.Error, TypeError, ValueError):
        return False
    return True


def _without_locks(folder: Path, workers: int) -> None:
    """Refuses several workers on a file system without locks, and warns a single one."""
    problem = f"{folder}: the file system has no locks"
    if workers > 1:
        raise RunError(
            f"{problem}, which several workers need", fix="choose another folder, or --workers=1"
        )
    warn(f"{problem}. Start no second worker of this study.")


# -- the database ----------------------------------------------------------------------------------


def _storage(address: str, grace: int) -> optuna.storages.RDBStorage:
    """The database of a URL. Raises RunError where its tables are those of another version of
    optuna."""
    url = sqlalchemy.make_url(address)
    if url.drivername == "postgresql":  # its driver is another one in each version of SQLAlchemy
        url = url.set(drivername=f"postgresql+{_driver()}")
    options = {"timeout": 60, "isolation_level": None} if url.get_backend_name() == "sqlite" else {}
    storage = optuna.storages.RDBStorage(
        url.render_as_string(hide_password=False),
        {"pool_pre_ping": True, "connect_args": options},
        skip_compatibility_check=True,
        heartbeat_interval=max(1, grace // 4),
        grace_period=grace,
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(),
    )
    schema, newest = storage.get_current_version(), storage.get_head_version()
    if schema != newest:
        fix = "install the optuna that made them: pip install --upgrade optuna"
        if schema in storage.get_all_versions():
            fix = f"run `optuna storage upgrade --storage {shlex.quote(url.render_as_string())}`"
        problem = f"--storage: its tables have optuna's schema {schema}, not {newest}"
        raise RunError(problem, fix=fix)
    if storage.engine.name == "sqlite":

        def begin(connection: sqlalchemy.Connection) -> None:
            # without a lock from its begin a transaction lets two workers take one trial
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        sqlalchemy.event.listen(storage.engine, "begin", begin)
    return storage


def _driver() -> str:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg2"
    return "psycopg"


def _study(
    storage: optuna.storages.RDBStorage, name: str, sweep: Sweep, config: ConfigDict
) -> optuna.Study:
    """The study of this name, which is created if there is none."""
    study = optuna.create_study(
        storage=storage, study_name=name, direction="maximize", load_if_exists=True
    )
    fields = {field: distribution_to_json(space) for field, space in sweep.distributions().items()}
    new = {"fields": fields, "metric": sweep.metric, "seed": sweep.seed}
    new["config"] = json.loads(config.to_json())
    new |= {"tpe": True} if sweep.tpe else {}
    before = study.user_attrs.get("sweep", new)
    if before != new:
        problem = (
            f"study '{name}' was begun with other values of {', '.join(differing(before, new)[:5])}"
        )
        raise RunError(problem, fix="give the same flags, or another --study")
    study.set_user_attr("sweep", new)
    return study


def _is_outage(error: BaseException | None) -> bool:
    """Whether the database did not answer. optuna wraps most errors of SQLAlchemy."""
    error = error.__cause__ if isinstance(error, optuna.exceptions.StorageInternalError) else error
    if isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated:
        return True
    # the last one where optuna goes on with a session that has lost its connection
    kinds = (
        sqlalchemy.exc.OperationalError,
        sqlalchemy.exc.InterfaceError,
        sqlalchemy.exc.PendingRollbackError,
    )
    return isinstance(error, kinds)


DATABASE_ERRORS = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError)


# -- the trainings ---------------------------------------------------------------------------------


class Worker:
    """Trains the trials of a study on this machine.

    Trial K may have several attempts, optuna's trials with the user attribute "trial" = K. An
    attempt ends COMPLETE; FAIL, with the attribute "error" where training failed and without it
    where its worker ended or died; PRUNED where it was not needed. An attempt whose worker was
    silent for too long counts as dead even where it is not: it trains on, and the next attempt of
    its trial takes the result from the run.
    """

    def __init__(self, study: optuna.Study, sweep: Sweep, folder: Path, values: cli.Flags) -> None:
        self.study, self.sweep, self.folder, self.values = study, sweep, folder, values
        self.storage = cast(optuna.storages.RDBStorage, study._storage)
        command = shlex.split(values.command or "") or [sys.executable, "-m", "mednli_jax.train"]
        self.command = [*command, *(a for a in cli.arguments() if a.startswith("--config"))]
        self.stopped = False  # by a signal
        self.ending = False  # no attempt begins any more
        self.commands = Commands()
        self.last_outage = -math.inf

    def run(self) -> None:
        """Ends when all trials are finished. Raises: KeyboardInterrupt after SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        drawn = self.sweep.values(self.values.trials)
        retry: set[int] = set()
        if self.values.retry:
            retry = self.repeated(lambda: failed_trials(attempts_of(self.study)))
        seen: set[int] = set()
        states = {"RUNNING"}
        while states & {"RUNNING", "WAITING"} and not self.stopped:
            states = self.repeated(functools.partial(self._plan, drawn, retry, seen))
            if "WAITING" in states:
                with ThreadPoolExecutor(self.values.workers) as pool:
                    slots = [
                        pool.submit(self._work, device) for device in range(self.values.workers)
                    ]
                for slot in slots:
                    slot.result()
            elif "RUNNING" in states:  # only other processes train, and they may die
                time.sleep(1)
        if self.stopped:
            raise KeyboardInterrupt

    def repeated(self, operation: Callable[[], Result]) -> Result:
        """The result of an operation on the database. It is tried again each second while the
        database is away."""
        deadline = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                return operation()
            except DATABASE_ERRORS as error:
                if self.stopped:
                    raise KeyboardInterrupt from None
                if not _is_outage(error) or time.monotonic() > deadline:
                    raise
                self._note_outage()
            time.sleep(1)

    def _note_outage(self) -> None:
        now = time.monotonic()
        if now - self.last_outage > 60:
            say("the database does not answer: trainings go on, and it is asked again each second")
        self.last_outage = now

    def _plan(self, drawn: list[dict], retry: set[int], seen: set[int]) -> set[str]:
        """Adds the attempts that are needed. Returns the states that all attempts had before, and
        WAITING where one was added.

        Args:
          drawn: the values of each trial.
          retry: failed trials that are tried again. Those whose attempt is added leave it.
          seen: ids of attempts that have run. Those that run now are added.
        """
        self._fail_dead_attempts()
        # Read before the trials are looked at: one that fails from here on counts as running, so
        # that it is looked at again.
        earlier = self.study.get_trials(deepcopy=False)
        distributions = self.sweep.distributions()
        attempts_by_trial, added = attempts_of(self.study), 0
        failed = failed_trials(attempts_by_trial)
        for trial, params in enumerate(drawn):
            attempts = attempts_by_trial.get(trial, [])
            is_wanted = trial in retry or trial not in failed
            if is_wanted and all(attempt.state.name == "FAIL" for attempt in attempts):
                if self.sweep.tpe and added == self.values.workers:  # later trials learn from these
                    break
                params = self._values(trial, attempts) if self.sweep.tpe else params
                new = optuna.create_trial(
                    state=TrialState.WAITING,
                    params=params,
                    distributions=distributions,
                    user_attrs={"trial": trial},
                )
                self.study.add_trial(new)
                retry.discard(trial)
                added += 1
        running = {attempt._trial_id for attempt in earlier if attempt.state.name == "RUNNING"}
        for trial_id in running - seen:  # a worker may have died before its first heartbeat
            self.storage.record_heartbeat(trial_id)
        seen |= running
        states = {attempt.state.name for attempt in earlier}
        return states | {"WAITING"} if added else states

    def _fail_dead_attempts(self) -> None:
        """After an outage all workers have been silent, and have time to report again."""
        if time.monotonic() - self.last_outage > self.values.grace:
            optuna.storages.fail_stale_trials(self.study)

    def _values(self, trial: int, attempts: Sequence[FrozenTrial]) -> Values:
        if attempts:  # a trial that was begun keeps its values
            return attempts[0].params
        return self.sweep.after(trial, _complete(self.study))

    def _stop(self, number: int, frame: object) -> None:  # lets the trainings save
        self.stopped = self.ending = True
        self.commands.stop()

    def _work(self, device: int) -> None:
        """Trains the waiting attempts one after the other, on this device where there are several
        workers."""
        try:
            while not self.ending and self._take(device):
                pass
        except BaseException:
            self.ending = True
            raise

    def _take(self, device: int) -> bool:
        """Trains the next attempt. Returns whether one was waiting."""
        self.repeated(self._fail_dead_attempts)
        attempt = self.repeated(self.study.ask)
        if "trial" not in attempt.user_attrs:  # optuna made a new trial, because none was waiting
            self._end(attempt, TrialState.PRUNED)
            return False
        state, score = TrialState.FAIL, None
        try:
            with self._heartbeats(attempt._trial_id):
                score = self._train(attempt, device)
            state = TrialState.COMPLETE
        except optuna.TrialPruned:
            state = TrialState.PRUNED
        except UserError as error:
            say(f"trial {attempt.user_attrs['trial']}: {error}")
            self._set(attempt, "error", str(error))
        finally:
            self._end(attempt, state, score)
        return True

    def _set(self, attempt: optuna.Trial, name: str, value: object) -> None:
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):  # it counts as dead
            self.repeated(lambda: attempt.set_user_attr(name, value))

    def _end(self, attempt: optuna.Trial, state: TrialState, score: float | None = None) -> None:
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
            self.repeated(lambda: self.study.tell(attempt, score, state, skip_if_finished=True))

    @contextlib.contextmanager
    def _heartbeats(self, trial_id: int) -> Iterator[None]:
        """Says that an attempt is alive, from another thread, until the block ends."""
        ended = threading.Event()

        def beat() -> None:
            pause = 0
            while not ended.wait(pause):
                try:
                    self.storage.record_heartbeat(trial_id)
                    pause = max(1, self.values.grace // 4)
                except DATABASE_ERRORS:
                    self._note_outage()
                    pause = 1

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _train(self, attempt: optuna.Trial, device: int) -> float:
        """The score of the trial of an attempt, which is trained or continued."""
        trial, metric = attempt.user_attrs["trial"], self.sweep.metric
        # Two workers may have added an attempt each: the one that is done counts, else the older
        # one.
        attempts = self.repeated(lambda: attempts_of(self.study)).get(trial, [])
        rivals = [rival for rival in attempts if rival.state.name != "FAIL"]
        rivals.sort(key=lambda rival: (not rival.state.is_finished(), rival.number))
        if [rival.number for rival in rivals[:1]] != [attempt.number]:
            raise optuna.TrialPruned
        run = RunDirectory(self.folder / f"trial-{trial}")
        while run.in_training() and not self.stopped:  # by the process of a worker that died
            time.sleep(1)
        if run.status() != "complete":
            self._call(run.folder, attempt.params, device)
        result = run.result().values
        if (score := _number_at(result, metric)) is None:
            raise RunError(f"result.json has no number '{metric}'", fix="correct get_sweep")
        self._set(attempt, "test", _number_at(result, metric.replace("dev", "test", 1)))
        say(f"trial {trial}: {metric} {score:.4f}")
        return score

    def _call(self, folder: Path, values: dict, device: int) -> None:
        """Trains in a folder, or continues there. Raises: RunError with what the command says."""
        swept = [f"--config.{field}={value}" for field, value in values.items()]
        command = [*self.command, *swept, f"--workdir={folder}", *["--resume"] * folder.exists()]
        log = folder.with_suffix(".log")
        one_of_several = device if self.values.workers > 1 else None
        code = self.commands.call(command, log, device=one_of_several)
        if code in (cli.INTERRUPTED, -signal.SIGTERM):
            raise KeyboardInterrupt
        if code:
            raise failure(log)


def _number_at(tree: object, path: str) -> float | None:
    """The number at `dev.accuracy.mean` in a tree of JSON values; None where there is none."""
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return float(tree) if isinstance(tree, int | float) else None


def _complete(study: optuna.Study) -> list[FrozenTrial]:
    attempts = study.get_trials(deepcopy=False)
    return [attempt for attempt in attempts if attempt.state.name == "COMPLETE"]


def attempts_of(study: optuna.Study) -> dict[int, list[FrozenTrial]]:
    """{trial: its attempts, oldest first}, without those that were not needed."""
    attempts: dict[int, list[FrozenTrial]] = {}
    for attempt in study.get_trials(deepcopy=False):
        if "trial" in attempt.user_attrs and attempt.state.name != "PRUNED":
            attempts.setdefault(attempt.user_attrs["trial"], []).append(attempt)
    return attempts


def failed_trials(attempts_by_trial: dict[int, list[FrozenTrial]]) -> set[int]:
    """The trials whose last attempt failed."""
    trials = attempts_by_trial.items()
    return {trial for trial, attempts in trials if "error" in attempts[-1].user_attrs}


def table(study: optuna.Study, with_test: bool = False) -> list[str]:
    """The finished trials as a table in Markdown, the best on dev first."""
    metric, fields = study.user_attrs["sweep"]["metric"], study.user_attrs["sweep"]["fields"]
    titles = ["trial", *fields, metric]
    if with_test:
        titles.append(metric.replace("dev", "test", 1))
    rows = [titles, ["---"] * len(titles)]
    for attempt in sorted(_complete(study), key=_score, reverse=True):
        numbers = [attempt.user_attrs["trial"], *attempt.params.values(), attempt.value]
        if with_test:
            numbers.append(attempt.user_attrs["test"])
        rows.append(list(map(_cell, numbers)))
    return [f"| {' | '.join(row)} |" for row in rows]


def _score(attempt: FrozenTrial) -> float:
    return attempt.value or 0.0


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
