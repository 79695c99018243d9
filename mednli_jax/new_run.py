"""Trains an experiment into a run directory with its result."""

import contextlib
import os
from pathlib import Path

import jax

from mednli_jax import cli, kinds
from mednli_jax.errors import UserError, summary
from mednli_jax.experiment import Experiment, use_compile_cache
from mednli_jax.finished_run import source_run
from mednli_jax.io import write_atomic
from mednli_jax.prepared_lines import copied_pairs
from mednli_jax.report import html
from mednli_jax.report.runs import RunDirectory
from mednli_jax.report.sections import lines as lines_of
from mednli_jax.training import hosts, precision
from mednli_jax.training.loop import Interrupted
from mednli_jax.training.session import Fitted, Session


def train(
    experiment: Experiment,
    folder: Path,
    config: dict,
    *,
    name: str = "run",
    resume: bool = False,
    force: bool = False,
    profile: bool = False,
    command: str = "train --resume",
) -> int:
    """Trains an experiment into a run directory and returns the exit code of cli.

    Args:
      config: the content of the directory's config.json.
      name: of the config, as tables show it.
      resume: continue the run in the folder.
      force: delete the run in the folder and start over.
      profile: trace some steps.
      command: the shell command that resumes the run, printed when it is interrupted.

    Raises: RunError, DataError(s) for a corpus or a folder that cannot be used; then the folder is not changed.
    """
    here = hosts.here()
    RunDirectory.check(folder, resume=resume, force=force)
    prepared, hit = _prepared(experiment, here)  # before the directory is created, so that bad data leaves none
    source = source_run(experiment, prepared) if experiment.transfer.init_from else None  # likewise for a bad source
    directory = RunDirectory.create(folder, config, resume=resume, force=force)
    session = Session(directory, resume=resume, profile=profile, source=source)
    if resume and directory.status() == "complete":
        session.say(f"{folder}: the run is complete already; nothing to do.")
        return cli.OK
    if resume:  # checked before anything is written, so that a refusal does not change the run
        directory.check_data(prepared.manifest)
        directory.metrics()
        session.count_earlier_sessions()

    session.write_status("running")
    session.say(f"corpus {experiment.corpus.name}: {'found prepared' if hit else 'prepared'} in {prepared.folder}")
    for line in copied_pairs(prepared.manifest):
        session.say(f"warning: {line}")
    use_compile_cache()
    if experiment.precision != "default" and (line := precision.remark(experiment.precision, jax.default_backend())):
        session.say(line)
    try:
        _finish(experiment, name, prepared, experiment.fit(prepared, session), session)
        return cli.OK
    except (Interrupted, KeyboardInterrupt):
        session.write_status("interrupted")
        session.say(f"interrupted. To continue: {command}")
        return cli.INTERRUPTED
    except BaseException as error:
        here.await_loss(error)
        with contextlib.suppress(UserError):  # this also fails on a full disk, and the first error must be reported
            session.write_status("failed")
            reason = error if isinstance(error, UserError) else summary(error)  # the message of a bug may quote text
            directory.log(f"failed: {reason}")
        raise
    finally:
        directory.close_scalars()


def _finish(experiment: Experiment, name: str, prepared, fitted: Fitted, session: Session) -> None:
    """Scores dev and test, writes the result and its page, prints the summary."""
    directory, task = session.directory, experiment.task
    result = {
        "corpus": experiment.corpus.title,
        "task": task.name,
        "model": experiment.model.name,
        "config": name,
        "seeds": list(experiment.seeds),
        **fitted.facts,
        "notes": sorted({s["note"] for s in prepared.manifest["splits"].values() if "note" in s}) + fitted.notes,
        "prepared": prepared.folder.name,
    }
    if "shared" in prepared.manifest:
        result["shared"] = prepared.manifest["shared"]
    lines = []
    for split in ("dev", "test") if fitted.logits else ():
        rows, result[split] = prepared.splits.get(split), None
        if rows:
            logits = fitted.logits(split)
            result[split] = task.score(rows, logits)
            directory.write_predictions(split, task.predictions(rows, logits))
            lines.append(task.summary(split, result[split]))
    session.write_status("complete", result)
    kind = kinds.of_run(directory)
    write_atomic(directory.folder / "report.html", html.run_page(directory, kind.run_sections, kind.units))
    closing = [line for section in kind.closing_sections(directory, result) for line in lines_of(section)]
    notes = [f"warning: {note}" if note in fitted.notes else note for note in result["notes"]]
    for line in (*lines, *closing, *notes, *fitted.lines):
        session.say(line)
    session.say(f"run: {directory.folder}")
    session.say(f"page: {directory.folder / 'report.html'}")
    print(directory.folder / "result.json")


def train_along(experiment: Experiment) -> int:
    """Runs in every process except the first: trains with the others, without output and without writing files."""
    here = hosts.here()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        prepared, _ = _prepared(experiment, here)
        use_compile_cache()
        try:
            fitted = experiment.fit(prepared, Session(None))
        except (Interrupted, KeyboardInterrupt):
            return cli.INTERRUPTED
        except BaseException as error:
            here.await_loss(error)
            raise
        for split in ("dev", "test"):
            if prepared.splits.get(split):
                fitted.logits(split)
        return cli.OK


def _prepared(experiment, here):
    """(prepared corpus, whether it was on disk). The first process prepares it, the others wait and read it."""
    if not here.leads:
        here.meet()
    prepared, hit = experiment.prepare()
    if here.leads:
        here.meet()
    here.check_same("corpus", prepared.manifest["files"])
    return prepared, hit
