"""A sweep's trials as an optuna study in a database that workers on several machines can share.

Trial K of the sweep may have several attempts: where a worker dies, another one continues in the same run directory.
An attempt is a trial of optuna with the user attribute "trial" = K. It ends COMPLETE, or FAIL with the user attribute
"error" where training failed. Trial K is settled when one of its attempts is COMPLETE or its last one has an error.
"""

import contextlib
import fcntl
import os
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.errors import RunError, UsageError
from mednli_jax.runs import differing
from mednli_jax.sweeps.spaces import Sweep, Whole

ADVISORY_LOCK = 0x6D65646E  # any number that other programs do not use in the same database


@dataclass(frozen=True)
class TrialResult:
    """A settled trial: its metric and test score, or the error of its last attempt."""

    trial: int
    values: dict
    metric: float | None
    test: float | None
    seconds: float | None
    attempts: int
    error: str = ""


class Study:
    """An optuna study of a sweep's trials.

    A killed worker leaves an attempt that is waiting, running (until its heartbeat is too old) or ended. The next call
    of `fill`, by any worker, enqueues the trials that are neither settled, nor waiting, nor running.

    Args:
      url: SQLAlchemy's URL of an SQLite file (sqlite:///FILE) or a PostgreSQL database.
      name: of the study.
      sweep: the sweep of the study; None opens an existing study for reading.
      config: the config to which the sweep is applied.
      grace: seconds without a heartbeat after which a worker counts as dead.

    Raises:
      UsageError: a wrong URL. RunError: optuna is missing, the database cannot be used, or it holds another sweep.
    """

    def __init__(self, url: str, name: str, sweep: Sweep | None = None, config: dict | None = None, *, grace: int = 60):
        try:
            import optuna
        except ImportError:
            raise RunError("optuna is not installed. Fix: pip install 'mednli_jax[sweep]'.") from None
        from sqlalchemy import exc

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)  # heartbeats, metric names
        warnings.filterwarnings("ignore", message="Heartbeat of storage")  # `ask` in a loop of our own, with heartbeats
        self._optuna, self._states, self.sweep = optuna, optuna.trial.TrialState, sweep
        self._lock = _lock_file(url, must_exist=sweep is None)
        options = {"connect_args": {"timeout": 60}} if self._lock else {"pool_pre_ping": True}
        try:
            with _flock(self._lock):
                self._storage = optuna.storages.RDBStorage(
                    url, engine_kwargs=options, heartbeat_interval=max(1, grace // 4), grace_period=grace
                )
            if sweep is None:
                self._study = optuna.load_study(study_name=name, storage=self._storage)
            else:
                self._create(name, sweep, config)
        except KeyError:
            raise RunError(f"there is no study '{name}' in the database. Fix: check --study and --storage.") from None
        except (exc.SQLAlchemyError, optuna.exceptions.OptunaError, ImportError, RuntimeError) as error:
            reason = f"--storage: the database cannot be opened ({type(error).__name__})"
            raise RunError(f"{reason}. Fix: check the URL, its driver, and that the database exists.") from None

    def _create(self, name, sweep, config):
        """Creates the study, or checks that the existing study of this name has the same sweep and config."""
        direction = "maximize" if sweep.maximize else "minimize"
        new = sweep.description(config or {})
        with self._turn():
            self._study = self._optuna.create_study(
                storage=self._storage, study_name=name, direction=direction, load_if_exists=True
            )
            if "sweep" not in self._study.user_attrs:
                self._study.set_metric_names([sweep.metric])
                self._study.set_user_attr("sweep", new)
        known = self._study.user_attrs["sweep"]
        if known != new:
            problem = f"study '{name}' was begun with other values of {', '.join(differing(known, new)[:5])}"
            raise RunError(f"{problem}. Fix: give the same flags, or another --study.")

    @contextlib.contextmanager
    def _turn(self):
        """Locks the study for one worker at a time. The system releases the lock of a process that ends."""
        from sqlalchemy import exc, text

        try:
            if self._lock:
                with _flock(self._lock):
                    yield
            else:
                with self._storage.engine.begin() as connection:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
                    yield
        except (exc.SQLAlchemyError, self._optuna.exceptions.StorageInternalError) as error:
            problem = f"--storage: the database does not answer ({type(error).__name__})"
            raise RunError(f"{problem}. Fix: check the database, and give the same command again.") from None

    @property
    def description(self) -> dict:
        """The sweep as JSON: its fields, metric, direction and seed. Raises: RunError for a study without a sweep."""
        if "sweep" not in self._study.user_attrs:
            raise RunError("the study has no sweep of this package. Fix: check --study and --storage.")
        return self._study.user_attrs["sweep"]["sweep"]

    def _attempts(self) -> dict[int, list]:
        """{trial: its attempts as optuna's FrozenTrial, oldest first}."""
        attempts = defaultdict(list)
        for attempt in self._study.get_trials(deepcopy=False):
            if "trial" in attempt.user_attrs:
                attempts[attempt.user_attrs["trial"]].append(attempt)
        return attempts

    def _settled(self, attempts):
        """The attempt that settles the trial, or None."""
        complete = [attempt for attempt in attempts if attempt.state == self._states.COMPLETE]
        failed = [attempt for attempt in attempts[-1:] if "error" in attempt.user_attrs]
        return next(iter(complete or failed), None)

    def fill(self, total: int, *, retry: bool = False) -> None:
        """Enqueues those of the first `total` trials that are not settled, waiting or running.

        Attempts whose heartbeat is too old are first marked as failed. retry: also enqueue trials with an error.
        """
        with self._turn():
            self._optuna.storages.fail_stale_trials(self._study)
            found = self._attempts()
            for trial in range(total):
                attempts = found[trial]
                settled = self._settled(attempts)
                again = settled is None or (retry and settled.state == self._states.FAIL)
                if again and all(attempt.state.is_finished() for attempt in attempts):
                    self._study.add_trial(self._waiting(trial))

    def _waiting(self, trial):
        """A new attempt with the values of the trial, as optuna's FrozenTrial."""
        kinds, spaces = self._optuna.distributions, {}
        for field, space in self.sweep.fields.items():
            if isinstance(space, tuple):
                spaces[field] = kinds.CategoricalDistribution(space)
            else:
                kind = kinds.IntDistribution if isinstance(space, Whole) else kinds.FloatDistribution
                spaces[field] = kind(space.low, space.high, log=space.log)
        return self._optuna.trial.create_trial(
            state=self._states.WAITING,
            params=self.sweep.values(trial),
            distributions=spaces,
            user_attrs={"trial": trial},
        )

    def claim(self):
        """Takes the next waiting attempt for this worker; returns it as an optuna Trial, None where none waits."""
        with self._turn():
            waiting = self._study.get_trials(deepcopy=False, states=(self._states.WAITING,))
            if not waiting:
                return None
            # The heartbeat is recorded first, because optuna never fails a running trial without one.
            self._beat(min(attempt.number for attempt in waiting))
            return self._study.ask()

    def _beat(self, number):
        study = self._storage.get_study_id_from_name(self._study.study_name)
        self._storage.record_heartbeat(self._storage.get_trial_id_from_study_id_trial_number(study, number))

    def beat(self, attempts: list) -> list:
        """Records heartbeats of the attempts; returns those that no longer belong to this worker."""
        with self._turn():
            running = {a.number for a in self._study.get_trials(deepcopy=False, states=(self._states.RUNNING,))}
            for attempt in attempts:
                if attempt.number in running:
                    self._beat(attempt.number)
        return [attempt for attempt in attempts if attempt.number not in running]

    def tell(self, attempt, metric: float | None = None, **facts) -> bool:
        """Ends an attempt: COMPLETE with a metric, otherwise FAIL. facts: stored as user attributes.

        Returns False where the attempt no longer belongs to this worker; then its end does not count.
        """
        with self._turn():
            try:
                for name, fact in facts.items():
                    attempt.set_user_attr(name, fact)
                self._study.tell(attempt, metric, None if metric is not None else self._states.FAIL)
            except (RuntimeError, ValueError):  # the attempt has already ended
                return False
        return True

    def rows(self, total: int | None = None) -> list[TrialResult]:
        """The settled trials, best first, those without a metric last. total: only of the first `total` trials."""
        rows = []
        with self._turn():
            found = self._attempts()
        for trial, attempts in found.items():
            end = self._settled(attempts) if total is None or trial < total else None
            if end is not None:
                facts = (end.value, end.user_attrs.get("test"), end.user_attrs.get("seconds"), len(attempts))
                rows.append(TrialResult(trial, end.params, *facts, end.user_attrs.get("error", "")))
        sign = -1 if self._study.direction.name == "MAXIMIZE" else 1
        return sorted(rows, key=lambda row: (row.metric is None, sign * (row.metric or 0.0), row.trial))


@contextlib.contextmanager
def _flock(path: Path | None):
    """Locks a file. SQLite has no row locks, so without this two workers could take the same attempt."""
    if path is None:
        yield
        return
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock_file(url: str, *, must_exist: bool) -> Path | None:
    """The lock file beside an SQLite database; None for PostgreSQL. Messages omit the URL: it may have a password."""
    from sqlalchemy import exc
    from sqlalchemy.engine import make_url

    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (exc.ArgumentError, ValueError):
        backend = ""
    if backend not in ("sqlite", "postgresql"):
        raise UsageError(
            "--storage is not the URL of a database. Fix: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME."
        )
    if backend == "postgresql":
        return None
    if parsed.database in (None, "", ":memory:"):
        raise UsageError("--storage names no file. Fix: sqlite:///FILE.")
    path = Path(parsed.database)
    if must_exist and not path.is_file():
        raise RunError(f"{path}: there is no such database. Fix: check --study and --storage.")
    if not path.parent.is_dir():
        raise RunError(f"{path}: there is no such folder. Fix: make it, or check --storage.")
    return path.with_name(f"{path.name}.lock")
