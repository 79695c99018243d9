"""Studies of many runs by optuna: their trials, the workers that train them, and the table of
results.

The trials of a sweep wait in optuna's queue, each with its number as the user attribute "trial". A
trial may have several attempts there: if its worker died, or a signal ended its training, optuna
enters it again after a time of silence, and it goes on in the folder of the first attempt.
"""

import functools
import itertools
import json
import shlex
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, cast

import optuna
import sqlalchemy
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import TrialState

from mednli_jax import cli
from mednli_jax.errors import ResumableError, RunError, UserError
from mednli_jax.files.writing import lock_file, private_folder, write_atomic
from mednli_jax.report.sections import Grid, markdown, number_of, points
from mednli_jax.rundir import RunDirectory, differing, flat
from mednli_jax.terminal import Bar, say
from mednli_jax.workers import Commands

DATABASE_ERRORS = (sqlalchemy.exc.SQLAlchemyError, StorageInternalError)
OUTAGE = "the database does not answer: trainings go on, and it is asked again"
OUTAGE_SECONDS = 3600  # in which it must answer again
say_once = functools.cache(say)


@dataclass
class Sweep:
    """The varied fields of a config.

    Args:
      fields: config field -> a tuple of choices, or one of optuna's distributions.
      trials: number of random draws (Bergstra & Bengio 2012); 0 for every combination of the
        choices.
      metric: name in result.json, with dots between levels. The lowest loss is the best; of other
        metrics the highest.
      tpe: the values of a trial also follow from the results before it (Bergstra et al. 2011).
    """

    fields: dict[str, tuple | optuna.distributions.BaseDistribution]
    trials: int = 0
    metric: str = "dev.accuracy.mean"
    seed: int = 0
    tpe: bool = False

    def __post_init__(self) -> None:
        for name, space in self.fields.items():
            if isinstance(space, tuple):  # a database has texts, but no tuples
                texts = list(map(str, space))
                self.fields[name] = optuna.distributions.CategoricalDistribution(texts)
        self.draws()  # an error names the line of get_sweep

    def draws(self, trials: int = 0) -> list[dict[str, optuna.distributions.CategoricalChoiceType]]:
        """The values {field: value} of each trial.

        trials: their number, in place of that of the sweep; for a grid, the most.
        """
        if self.trials:
            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(self.seed))
            ranges = cast("dict[str, optuna.distributions.BaseDistribution]", self.fields)
            return [study.ask(ranges).params for _ in range(trials or self.trials)]
        lists = cast("dict[str, optuna.distributions.CategoricalDistribution]", self.fields)
        grid = itertools.product(*(values.choices for values in lists.values()))
        return [dict(zip(self.fields, values, strict=True)) for values in grid][: trials or None]


def main(values: cli.Flags) -> None:
    """Trains the trials of the study that are left, and prints its table."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # heartbeats
    name = values.study or cli.config_name()
    folder = Path("runs") / name
    if (folder / "config.json").exists():
        raise RunError(f"{folder}: holds a run", fix="give another --study")
    url = values.storage or f"sqlite:///{folder}/study.db?timeout=60"
    sweep: Sweep | None = None if values.table else cli.read_sweep(values)
    try:
        if sweep:
            enter_trials(name, url, folder, sweep, values)
        storage = Storage(url, values.grace)
        open_study = functools.partial(optuna.load_study, study_name=name, storage=storage)
        study = open_study()
    except (ImportError, KeyError, RuntimeError, *DATABASE_ERRORS) as error:
        cause = error.__cause__ or error
        problem = f"--storage: study '{name}' cannot be used ({str(cause).splitlines()[0]})"
        raise RunError(problem, fix="check --study, the URL and its database") from None
    if sweep:
        commands = Commands(values.workers)
        trials = len(attempts_in(study))
        done = len(attempts_in(study, TrialState.COMPLETE))
        workers = number_of(values.workers, "worker")
        say(f"{number_of(trials, 'trial')}, {done} of them complete; {workers}")
        with Bar(name, trials, noun="trials", first=done) as bar:
            trainer = Workers(open_study, sweep, folder, values.command, commands, bar)
            commands.run_workers(trainer.work)
    lines = table(study, values.test)
    print(lines)
    if sweep:
        write_atomic(folder / "table.md", f"{lines}\n")
        say(f"written: {folder / 'table.md'}")
        failed = [attempt.user_attrs["trial"] for attempt in attempts_in(study, TrialState.FAIL)]
        if failed:
            raise RunError(f"trials {failed} failed", fix="see their logs, and try again")


def enter_trials(name: str, url: str, folder: Path, sweep: Sweep, values: cli.Flags) -> None:
    """Creates the study if there is none. Enters the trials that it lacks, and again those that
    failed."""
    config, draws = cli.config(values), sweep.draws(values.trials)
    for draw in draws:
        cli.with_fields(config, draw)
    settings = vars(sweep) | {"trials": 0, "config": config.to_dict()}
    settings = json.loads(json.dumps(settings, default=str))  # as the database gives them back
    with (
        open(private_folder(folder) / "study.lock", "w") as lock,
        sqlalchemy.create_engine(url).connect() as connection,
    ):
        # One process at a time makes tables, a study and its trials.
        lock_file(lock, wait=True)
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(80)")  # any number
        study = optuna.create_study(
            storage=Storage(url, values.grace),
            study_name=name,
            direction="minimize" if "loss" in sweep.metric else "maximize",
            load_if_exists=True,
        )
        if changed := differing(study.user_attrs.get("sweep", settings), settings):
            problem = f"study '{name}' was begun with other values of {', '.join(changed[:5])}"
            raise RunError(problem, fix="give the same flags, or another --study")
        study.set_user_attr("sweep", settings)
        for trial in range(len(attempts_in(study)), len(draws)):
            study.enqueue_trial({} if sweep.tpe else draws[trial], {"trial": trial})
        for attempt in attempts_in(study, TrialState.FAIL):
            study.enqueue_trial(attempt.params, attempt.user_attrs)


# -- the database ----------------------------------------------------------------------------------


class Storage(optuna.storages.RDBStorage):
    """A database in which a worker reports as long as it lives."""

    def __init__(self, url: str, grace: int) -> None:
        super().__init__(
            url,
            {"pool_pre_ping": True},
            heartbeat_interval=grace // 4,
            grace_period=grace,
            heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(20),
        )
        if self.engine.name == "sqlite":
            # Without a lock from its begin a transaction lets two workers take one trial.
            sqlalchemy.event.listen(
                self.engine, "begin", lambda session: session.exec_driver_sql("BEGIN IMMEDIATE")
            )

    def record_heartbeat(self, trial_id: int) -> None:
        try:
            super().record_heartbeat(trial_id)
        except DATABASE_ERRORS:  # optuna would report no more
            say_once(OUTAGE)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        self.record_heartbeat(trial_id)  # else a worker that dies at once would never count as dead
        return super().set_trial_state_values(trial_id, state, values)


def attempts_in(
    study: optuna.Study, state: TrialState | None = None
) -> list[optuna.trial.FrozenTrial]:
    """The last attempt of each trial, if it is in this state."""
    last = {
        attempt.user_attrs["trial"]: attempt
        for attempt in study.trials
        if "trial" in attempt.user_attrs
    }
    return [attempt for attempt in last.values() if state in (None, attempt.state)]


def table(study: optuna.Study, with_test: bool = False) -> str:
    """Formats the complete trials as a table in Markdown, the best on dev first."""
    sweep, rows = study.user_attrs["sweep"], []
    unit = "" if is_loss(study) else "points, "
    score = f"{sweep['metric']} ({unit}{study.direction.name.lower()}d, best first)"
    header = ("trial", *sweep["fields"], score, *["test"] * with_test)
    attempts = attempts_in(study, TrialState.COMPLETE)
    attempts.sort(
        key=lambda attempt: attempt.value or 0.0, reverse=study.direction.name == "MAXIMIZE"
    )
    for attempt in attempts:
        cells = (
            attempt.user_attrs["trial"],
            *attempt.params.values(),
            score_text(study, attempt.value),
            score_text(study, attempt.user_attrs["test"]),
        )
        rows.append(tuple(map(str, cells))[: len(header)])
    return "\n".join(markdown(Grid("", header, rows)))


def is_loss(study: optuna.Study) -> bool:
    """Whether the metric of a study is a loss, which is no share."""
    return study.direction.name == "MINIMIZE"


def score_text(study: optuna.Study, score: float | None) -> str:
    """A score in points, or a loss; a dash where a run has none."""
    return f"{score:.4f}" if is_loss(study) and score is not None else points(score)


# -- the trainings ---------------------------------------------------------------------------------


class Ended(BaseException):
    """Raised when the training of an attempt has ended. If an attempt counts as dead meanwhile,
    `optimize` refuses the value that its objective returns. The objective therefore tells the score
    itself and raises this, which `optimize` does not catch."""


@dataclass
class Workers:
    """The workers of this process, each on a device of its own if there are several."""

    open_study: Callable[[], optuna.Study]
    sweep: Sweep
    folder: Path
    command: str
    commands: Commands
    bar: Bar
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def work(self, worker: int) -> None:
        """Trains one trial after the other. Ends when no trial waits or runs."""
        study, patience = self.open_study(), OUTAGE_SECONDS
        while not self.commands.stopped:
            try:
                states = [attempt.state for attempt in attempts_in(study)]
                self._show(states)
                if TrialState.WAITING in states:
                    study.optimize(lambda attempt: self._train(study, worker, attempt), n_trials=1)
                elif TrialState.RUNNING in states:
                    time.sleep(1)
                    optuna.storages.fail_stale_trials(study)
                else:
                    return
                patience = OUTAGE_SECONDS
            except Ended:
                patience = OUTAGE_SECONDS
            except (*DATABASE_ERRORS, UnboundLocalError):  # optuna's, where it cannot tell an end
                patience -= 1
                if not patience:
                    raise ResumableError("the database did not answer for an hour") from None
                say_once(OUTAGE)
                time.sleep(1)

    def _show(self, states: Sequence[TrialState]) -> None:
        """Shows how many trials have ended, those of other processes and hosts among them."""
        ended = sum(state.is_finished() for state in states)
        with self.mutex:
            if ended > self.bar.done:
                self.bar.reach(ended, len(states))

    def _train(self, study: optuna.Study, worker: int, attempt: optuna.Trial) -> NoReturn:
        """Trains or continues the trial of an attempt.

        After a signal, or if the database does not answer, the end of the attempt is not recorded.
        It soon counts as failed, because its heartbeat stops, and another attempt continues the
        trial.
        """
        seed, metric = self.sweep.seed + attempt.number, self.sweep.metric
        study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        words = self._command(attempt)
        if "trial" not in attempt.user_attrs:  # another worker took the last one that waited
            raise optuna.TrialPruned
        trial = f"trial-{attempt.user_attrs['trial']}"
        folder = private_folder(self.folder / trial)  # so that --resume is right for a new run, too
        words += [f"--workdir={folder}", "--resume", "--wait=604800"]  # a week
        try:
            self.commands.call(words, Path(f"{folder}.log"), worker=worker)
            scores = flat(RunDirectory(folder).result().values)
            score = scores.get(metric)
            if not isinstance(score, float):
                raise RunError(f"result.json has no number '{metric}'", fix="correct get_sweep")
            attempt.set_user_attr("test", scores.get(metric.replace("dev", "test", 1)))
            study.tell(attempt, score, skip_if_finished=True)
            say(f"{trial}: {metric} {score_text(study, score)}")
        except DATABASE_ERRORS:
            pass
        except (KeyboardInterrupt, ResumableError, UpdateFinishedTrialError) as error:
            say(f"{trial}: {error}")
        except UserError as error:
            say(f"{trial}: {error}")
            study.tell(attempt, state=TrialState.FAIL, skip_if_finished=True)
        raise Ended

    def _command(self, attempt: optuna.Trial) -> list[str]:
        """The words of a training. optuna draws the values that the attempt lacks."""
        words = shlex.split(self.command)
        words += [word for word in cli.arguments() if word.startswith("--config")]
        for name, space in self.sweep.fields.items():
            kind = type(space).__name__.removesuffix("Distribution").lower()
            value = getattr(attempt, f"suggest_{kind}")(name, **vars(space))
            words.append(f"--config.{name}={value}")
        return words
