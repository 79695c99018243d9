"""Trains an experiment into a run directory."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax import tasks
from mednli_jax.data.arrays import Prepared
from mednli_jax.errors import ConfigError, DataError, ResumableError, RunError, UserError, summary
from mednli_jax.experiment import Experiment, start_jax
from mednli_jax.files.writing import write_atomic
from mednli_jax.finished import Run, write_scores
from mednli_jax.report import html, sections
from mednli_jax.rundir import SPLITS, RunDirectory
from mednli_jax.training import hosts, loop, transfer
from mednli_jax.training import settings as jax_settings
from mednli_jax.training.session import Fitted, Session
from mednli_jax.types import Json, JsonObject


def train(
    experiment: Experiment,
    folder: Path,
    config: Mapping[str, Json],
    *,
    name: str = "run",
    resume: bool = False,
    force: bool = False,
    wait: float = 0,
    profile: bool = False,
    resume_command: str,
    command_line: Sequence[str] = (),
    on_epoch: Callable[[JsonObject], None] = lambda row: None,
) -> RunDirectory | None:
    """Trains an experiment into a run directory, with its result.

    Returns the directory, whose page the caller writes; None if run and page are complete already.

    If the corpus or the folder cannot be used, the folder is not changed. loop.Interrupted is
    raised if a signal ended the training, after the run has been saved.

    Args:
      config: the content of the directory's config.json.
      name: of the config, as tables show it.
      wait: seconds to wait for another process that trains in the folder.
      resume_command: resumes the run, for the message of an interruption.
      command_line: of this process, for env.json.
      on_epoch: called with a copy of each row of metrics, after it was written.
    """
    process = hosts.here()
    start_jax()
    RunDirectory.check(folder, resume=resume, force=force)
    # Before the directory is created, so that bad data or a bad source leaves none.
    data = _training_data(experiment, process)
    warnings = list(experiment.task.warnings(data.prepared))
    with contextlib.closing(
        RunDirectory.create(folder, config, resume=resume, force=force, wait=wait)
    ) as directory:
        began = directory.environment()  # empty for a new run
        settings_of_machine = experiment.numeric_settings()
        # A resumed run keeps the options with which it began.
        options = jax_settings.recorded_options(began.settings)
        experiment = replace(experiment, recorded_options=options)
        session = Session(
            directory,
            resume=resume,
            profile=profile,
            source=data.source,
            command_line=command_line,
            on_epoch=on_epoch,
            settings=experiment.numeric_settings(),
            cpus=began.cpus_of_sessions,
        )
        if resume and directory.status() == "complete":
            has_page = (folder / "report.html").is_file()
            left = "nothing to do" if has_page else "its page is written now"
            session.say(f"{folder}: the run is complete already; {left}.")
            return None if has_page else directory
        if resume:  # checked before anything is written, so that a refusal does not change the run
            directory.check_data(data.prepared.manifest)
            directory.check_settings(session.settings)
            directory.metrics()
            session.count_earlier_sessions()
        session.write_status("running")
        state = "found prepared" if data.was_cached else "prepared"
        session.say(f"corpus {experiment.corpus.name}: {state} in {data.prepared.folder}")
        if session.settings != settings_of_machine:
            option = f"{jax_settings.YNNPACK}={session.settings[jax_settings.YNNPACK]}"
            warnings.append(f"the run keeps the option of its first processor, {option}")
        for line in (*session.notes, *warnings):
            session.say(f"warning: {line}")
        try:
            fitted = experiment.fit(data.prepared, session)
            _finish(experiment, name, data.prepared, fitted, directory, session)
            return directory
        except (loop.Interrupted, KeyboardInterrupt, ResumableError):
            session.write_status("interrupted")
            session.say(f"interrupted. To continue: {resume_command}")
            raise loop.Interrupted from None
        except BaseException as error:
            process.await_loss(error)
            _note_failure(error, directory, session)
            raise


def _note_failure(error: BaseException, directory: RunDirectory, session: Session) -> None:
    """Writes the failure to result.json and the log. A full disk refuses that, too, and the first
    error must be reported."""
    with contextlib.suppress(UserError):
        session.write_failure(resumable=not isinstance(error, ConfigError | DataError))
        # The message of a bug may quote text.
        reason = error if isinstance(error, UserError) else summary(error)
        directory.log(f"failed: {reason}")


def _finish(
    experiment: Experiment,
    name: str,
    prepared: Prepared,
    fitted: Fitted,
    directory: RunDirectory,
    session: Session,
) -> None:
    """Scores dev and test, writes the result, prints the summary."""
    scorer = experiment.scorer
    notes = prepared.notes + fitted.notes + session.notes
    result = {
        "corpus": experiment.corpus.title,
        "task": scorer.name,
        "model": experiment.model.name,
        "config": name,
        "seeds": list(experiment.seeds),
        **fitted.facts,
        "notes": notes,
        "prepared": prepared.folder_in_cache.name,
    }
    if "shared" in prepared.manifest:
        result["shared"] = prepared.manifest["shared"]
    lines = []
    if fitted.logits:
        scores_of = write_scores(directory, scorer, prepared.splits, fitted.logits)
        lines = [scorer.summary(split, scores) for split, scores in scores_of.items() if scores]
        result |= scores_of
    session.write_complete(result)
    for section in experiment.task.closing_sections(directory, directory.result()):
        lines += sections.lines(section)
    lines += [f"warning: {note}" if note in fitted.notes else note for note in notes]
    for line in (*lines, f"run: {directory.folder}"):
        session.say(line)


def write_page(directory: RunDirectory, task: tasks.Task) -> Path:
    """Writes the report.html of a run and returns its path."""
    path = directory.folder / "report.html"
    write_atomic(path, html.run_page(directory, task.run_sections, task.row_noun).html())
    return path


def train_along(experiment: Experiment) -> None:
    """Runs in every process except the first: trains with the others, without output and without
    writing files."""
    process = hosts.here()
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        start_jax()
        data = _training_data(experiment, process)
        try:
            fitted = experiment.fit(data.prepared, Session(None))
        except KeyboardInterrupt:
            raise loop.Interrupted from None
        except BaseException as error:
            process.await_loss(error)
            raise
        for split in SPLITS:  # `write_scores` of the first process needs all processes
            if fitted.logits and data.prepared.splits.get(split):
                fitted.logits(split)


class TrainingData(NamedTuple):
    """The corpus of a training.

    Attributes:
      was_cached: whether the cache had it.
      source: the run whose weights are taken; None in all processes except the first.
    """

    prepared: Prepared
    was_cached: bool
    source: Run | None = None


def _training_data(experiment: Experiment, process: hosts.Hosts) -> TrainingData:
    """Prepares the corpus in the first process; the others wait and read it.

    Only the first process opens the source run, and sends its vectors to the others.
    """
    if not process.leads:
        process.meet()  # waits until the corpus is in the cache
    prepared, was_cached = experiment.prepare()
    if process.leads:
        process.meet()  # it is there: the others go on
    process.check_same("corpus", prepared.manifest["files"])
    experiment.task.check_prepared(experiment, prepared)
    if not experiment.transfer.init_from:
        return TrainingData(prepared, was_cached)
    source, vectors = None, np.asarray(prepared.vectors)
    if process.leads:
        try:
            source = Run(experiment.transfer.init_from)
        except RunError as error:
            raise ConfigError(error.problem, field="transfer.init_from", fix=error.fix) from None
        transfer.check_source(source, experiment, prepared)
        vectors = source.vectors_for(prepared)
    prepared = prepared.with_vectors(process.broadcast(vectors))
    prepared = experiment.scorer.with_rows(prepared, experiment.corpus)
    return TrainingData(prepared, was_cached, source)
