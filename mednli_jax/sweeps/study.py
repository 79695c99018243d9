"""The trials of a sweep in a database that any number of workers on any number of machines share.

A trial may be attempted several times: an attempt is what optuna calls a trial, and is found by the user attribute
"trial". Attempts end COMPLETE, or FAIL with one of the attributes "error" (the training refused; not tried again unless
asked for), "killed", "interrupted", "twice", or none (the worker died and its heartbeat with it).
"""

import contextlib
import hashlib
import itertools
import json
import warnings
from dataclasses import dataclass

from mednli_jax.errors import RunError
from mednli_jax.sweeps import database
from mednli_jax.sweeps.spaces import Sweep, Whole

MOST_KILLED = 5  # attempts of one trial whose training was killed, say for memory, while its worker lived on


@dataclass(frozen=True)
class Attempt:
    """A trial that is this worker's to train: its number, its values, and the attempt's number in the study."""

    trial: int
    values: dict
    number: int
    key: int  # the attempt's, in the database


@dataclass(frozen=True)
class TrialResult:
    """How a trial ended: its metric and test score, or the error that it was given up with."""

    trial: int
    values: dict
    metric: float | None
    test: float | None
    seconds: float | None
    attempts: int
    error: str = ""


class Study:
    """The trials of a sweep in a database. Open it with `open`; several workers may have it open at once.

    A worker that is killed at any point leaves either what was before or what is after: an attempt is waiting,
    running with a heartbeat, or ended. What is missing is put right by `fill`, whoever calls it next. optuna's
    callback for the purpose adds the retry after it has marked the failure: a kill between the two loses a trial.
    """

    def __init__(self, storage, name, lock):
        self._optuna = database.optuna()
        self._storage, self._lock = storage, lock
        try:
            self._study = self._optuna.load_study(study_name=name, storage=storage)
        except KeyError:
            raise RunError(f"there is no study '{name}' in the database. Fix: check --study and --storage.") from None
        self._id = storage.get_study_id_from_name(name)
        self._states = self._optuna.trial.TrialState

    @classmethod
    def open(cls, url: str, name: str, sweep: Sweep | None, config: dict, *, grace: int) -> "Study":
        """The study of that name, made where there is none; with no sweep, one that is there already, to be read.

        url: of any database that SQLAlchemy knows. grace: seconds without a heartbeat after which a worker counts as
        dead. Raises UserError for a database that cannot be used, and a study of another sweep or config.
        """
        lock = database.lock_of(url, must_exist=sweep is None)
        storage = database.storage(url, grace, lock)
        if sweep is None:
            return cls(storage, name, lock)
        optuna, description = database.optuna(), sweep.description(config)
        with database.held(lock), contextlib.suppress(optuna.exceptions.DuplicatedStudyError):
            optuna.create_study(
                storage=storage, study_name=name, direction="maximize" if sweep.maximize else "minimize"
            )
        study = cls(storage, name, lock)
        with database.held(lock):
            study._agree(description, name)
        return study

    def _agree(self, description, name):
        """Refuses a study of another sweep; a new one is marked as this sweep's."""
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
        known = self._study.user_attrs
        if "digest" not in known and not self._study.get_trials(deepcopy=False):
            self._study.set_user_attr("sweep", description)
            self._study.set_user_attr("digest", digest)  # last: a study that has it has both
            known = self._study.user_attrs
        if known.get("digest") == digest:
            return
        old, new = _flat(known.get("sweep", {})), _flat(description)
        names = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        raise RunError(
            f"study '{name}' was begun with other values of {', '.join(names[:5]) or 'its sweep'}. "
            "Fix: give the same flags, or another --study."
        )

    @property
    def no_answer(self) -> tuple[type[Exception], ...]:
        """What is raised while the database does not answer; everything here may be called again after it."""
        return database.no_answer()

    @property
    def sweep(self) -> dict:
        """The part of `Sweep.description` that is of the sweep. Raises UserError."""
        known = self._study.user_attrs
        if "sweep" not in known:
            raise RunError("the study is none of a sweep. Fix: check --study and --storage.")
        return known["sweep"]["sweep"]

    def _attempts(self):
        """Trial -> its attempts in the order in which they were made."""
        attempts = [a for a in self._study.get_trials(deepcopy=False) if "trial" in a.user_attrs]
        attempts.sort(key=lambda a: (a.user_attrs["trial"], a.number))
        return {k: list(group) for k, group in itertools.groupby(attempts, lambda a: a.user_attrs["trial"])}

    def _ended(self, attempts):
        """The attempt that settled the trial: a complete one, or the last where it was given up. Else None."""
        for attempt in attempts:
            if attempt.state == self._states.COMPLETE:
                return attempt
        last = [attempt for attempt in attempts if "twice" not in attempt.user_attrs][-1:]
        return last[0] if last and last[0].state == self._states.FAIL and "error" in last[0].user_attrs else None

    def fill(self, sweep: Sweep, total: int, *, retry: bool = False) -> None:
        """Sees to it that each of the first `total` trials is settled, running or waiting.

        Attempts without a heartbeat are ended first. retry: trials that were given up wait once more.
        """
        with database.held(self._lock):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # optuna calls the function experimental
                self._optuna.storages.fail_stale_trials(self._study)
            found = self._attempts()
            for trial in range(total):
                attempts = found.get(trial, [])
                live = any(not attempt.state.is_finished() for attempt in attempts)
                ended = self._ended(attempts)
                again = retry and ended is not None and ended.state == self._states.FAIL
                if not live and (ended is None or again):
                    self._study.add_trial(self._waiting(sweep, trial, attempts))

    def _waiting(self, sweep, trial, attempts):
        """An attempt in waiting, with the values of those before it."""
        kinds = self._optuna.distributions
        spaces = {}
        for field, space in sweep.fields.items():
            if isinstance(space, tuple):
                spaces[field] = kinds.CategoricalDistribution(space)
            else:
                kind = kinds.IntDistribution if isinstance(space, Whole) else kinds.FloatDistribution
                spaces[field] = kind(space.low, space.high, log=space.log)
        return self._optuna.trial.create_trial(
            state=self._states.WAITING,
            params=attempts[0].params if attempts else sweep.values(trial),
            distributions=spaces,
            user_attrs={"trial": trial},
        )

    def claim(self, total: int) -> Attempt | None:
        """A waiting attempt of the first `total` trials, from now on this worker's; None where none waits."""
        with database.held(self._lock):
            for trial, attempts in self._attempts().items():
                for attempt in attempts if trial < total else ():
                    if attempt.state != self._states.WAITING:
                        continue
                    key = self._storage.get_trial_id_from_study_id_trial_number(self._id, attempt.number)
                    self._storage.record_heartbeat(key)  # first: an attempt that runs without one is never given up
                    if not self._taken(key):
                        continue
                    if self._twice(attempt, attempts):
                        self._end(key, twice=True)
                        continue
                    return Attempt(trial, dict(attempt.params), attempt.number, key)
        return None

    def _taken(self, key):
        """Whether the attempt is now ours: where two workers want it, a server's row lock lets one of them have it."""
        try:
            return self._storage.set_trial_state_values(key, self._states.RUNNING)
        except RuntimeError:  # what older versions of optuna raise for an attempt that has ended
            return False

    def _twice(self, attempt, attempts):
        """Whether the trial is done or another's: of attempts that two workers made at once, the first is the one."""
        return any(
            other.state == self._states.COMPLETE or (other.number < attempt.number and not other.state.is_finished())
            for other in attempts
        )

    def _end(self, key, values=None, **facts) -> bool:
        """Ends an attempt; False where it was given up in the meantime."""
        try:
            for name, fact in facts.items():
                self._storage.set_trial_user_attr(key, name, fact)
            state = self._states.FAIL if values is None else self._states.COMPLETE
            return self._storage.set_trial_state_values(key, state, values)
        except RuntimeError:
            return False

    def beat(self, attempts: list[Attempt]) -> list[Attempt]:
        """Says that the attempts are being trained; returns those that are not this worker's any more."""
        with database.held(self._lock):
            running = {a.number for a in self._study.get_trials(deepcopy=False, states=(self._states.RUNNING,))}
            for attempt in attempts:
                if attempt.number in running:
                    self._storage.record_heartbeat(attempt.key)
        return [attempt for attempt in attempts if attempt.number not in running]

    def finish(self, attempt: Attempt, metric: float, **facts) -> bool:
        """Settles a trial. False where the worker was taken for dead and the attempt counts no more."""
        with database.held(self._lock):
            return self._end(attempt.key, [metric], **facts)

    def fail(self, attempt: Attempt, reason: str, text: str) -> str:
        """Ends an attempt without a score. reason: "interrupted", "killed" or "error"; returns what it came to.

        A trial that was killed MOST_KILLED times counts as one with an error.
        """
        with database.held(self._lock):
            before = sum("killed" in a.user_attrs for a in self._attempts().get(attempt.trial, []))
            if reason == "killed" and before + 1 >= MOST_KILLED:
                reason, text = "error", f"{text}, for the {MOST_KILLED}th time"
            self._end(attempt.key, **{reason: text})
        return reason

    def rows(self, total: int | None = None) -> list[TrialResult]:
        """The settled trials, the best first and those without a score last. total: of the first trials alone."""
        rows = []
        for trial, attempts in self._attempts().items():
            ended = self._ended(attempts) if total is None or trial < total else None
            if ended is not None:
                facts = {"error": "", "test": None, "seconds": None, **ended.user_attrs}
                if ended.state == self._states.COMPLETE:
                    facts["error"] = ""
                tried = sum("twice" not in a.user_attrs for a in attempts)
                rows.append(
                    TrialResult(
                        trial, ended.params, ended.value, facts["test"], facts["seconds"], tried, facts["error"]
                    )
                )
        sign = -1 if self._study.direction.name == "MAXIMIZE" else 1
        return sorted(rows, key=lambda row: (row.metric is None, sign * (row.metric or 0.0), row.trial))


def _flat(tree, prefix=""):
    flat = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
