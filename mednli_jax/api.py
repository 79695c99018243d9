"""The Python interface, for notebooks and scripts.

from mednli_jax import load_run, train_model

run = train_model("esim_kd:demo", "runs/kd")
run.predict([("Pt with h/o CHF, denies chest pain.", "The patient has heart failure.")])
"""

import contextlib
import html
import itertools
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from mednli_jax import cli, tasks
from mednli_jax import run as runs
from mednli_jax.files import local_path
from mednli_jax.rundir import SPLITS, RunDirectory, Scores
from mednli_jax.training.loop import Interrupted

Config = Any  # a ConfigDict
Inputs = Any  # see Run.predict
Prediction = dict[str, Any]  # of one input
Row = dict[str, Any]  # of metrics.jsonl


class Run:
    """A run directory (folder): its result (the content of result.json), and its predictions on new
    inputs."""

    def __init__(self, folder: str | Path) -> None:
        directory = RunDirectory.existing(local_path(folder, "the folder of a run"))
        self.folder, self.result = directory.folder, directory.result().values

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """{split: {metric: mean over the seeds}}, from 0 to 1."""
        means: dict[str, dict[str, float]] = {}
        for split in SPLITS:
            if self.result.get(split):
                means[split] = {}
                for name, score in self.result[split].items():
                    if isinstance(score, dict) and "mean" in score:
                        means[split][name] = score["mean"]
        return means

    @property
    def report(self) -> Path:
        """The page with learning curves and scores by class and slice."""
        return self.folder / "report.html"

    @cached_property
    def finished(self) -> runs.FinishedRun:
        """The run with its weights, opened at first use."""
        runs.start_jax()
        return runs.load_run(self.folder)

    def predict(self, inputs: Inputs) -> runs.Predictions | Prediction:
        """Predictions for new inputs, in their order: the label, and means over the seeds.

        inputs: a list of (premise, hypothesis) or {"premise": ..., "hypothesis": ...}; for a
        reader, passage and query.
          One of them without a list gives its prediction without a list.
        """
        is_pair = isinstance(inputs, tuple) and all(isinstance(text, str) for text in inputs)
        is_alone = is_pair or isinstance(inputs, Mapping)
        predicted = self.finished.predict([inputs] if is_alone else inputs)
        rows = list(map(_labelled, predicted))
        if is_alone:
            return rows[0]
        return runs.Predictions(rows, predicted.unknown_words, predicted.truncated)

    def warm_up(self, lengths: Iterable[Sequence[int]]) -> None:
        """Compiles ahead, so that later calls of `predict` only compute.

        lengths: of the inputs to come, the tokens of each text: [(20, 10), (50, 20)]. A program
        serves all lengths up to the next power of two, from 32 on; one is for an input alone, one
        for lists of up to 64.
        """
        self.finished.warm_up(lengths)

    def evaluate(self, split: str = "test", config: str | Config | None = None) -> Scores:
        """Scores of a split, in the form of result.json. config: names another corpus (see
        `get_config`)."""
        run = self.finished
        if config is not None:
            other_config = _config(config)
            run.check_task(other_config)
            run = run.on(other_config.data, split)
        return run.scores(split).scores

    def __repr__(self) -> str:
        lines = [f"Run({str(self.folder)!r}): {self.result['status']}"]
        for split, scores in self.scores.items():
            figures = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
            lines.append(f"  {split}: {figures}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(itertools.chain.from_iterable(self.scores.values())))
        rows = [["", *names]] if self.scores else []
        for split, scores in self.scores.items():
            rows.append([split])
            for name in names:
                rows[-1].append(f"{scores[name]:.4f}" if name in scores else "")
        table = ""
        for row in rows:
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
            table += f"<tr>{cells}</tr>"
        title = html.escape(f"{self.folder.name}: {self.result['status']}")
        return f"<b>{title}</b><table>{table}</table>"


def _labelled(row: Prediction) -> Prediction:
    """A prediction of probabilities alone, with the most probable class before them."""
    of_classes = all(isinstance(value, float) for value in row.values())
    return {"label": max(row, key=row.__getitem__), **row} if of_classes else row


def get_config(name: str) -> Config:
    """The config `name`, as on the command line: "esim_kd", "esim_kd:mednli" or
    "configs/esim_kd.py:mednli"."""
    return cli.read_config(name)


def train_model(
    config: str | Config,
    workdir: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    on_epoch: Callable[[Row], None] = lambda row: None,
) -> Run:
    """Trains a model into a run directory, as `python -m mednli_jax.train` does.

    Args:
      config: a ConfigDict, or the name of one (see get_config).
      resume: continue the run that `workdir` holds, after a KeyboardInterrupt for example.
      force: delete the run that `workdir` holds and start over.
      on_epoch: called after each epoch with its row of metrics.jsonl, in which the measures are
        lists of a number for each seed that is still trained (None: not finite).

    The flags --workdir, --resume and --force of a message are these arguments.
    """
    name = config if isinstance(config, str) else ""
    config = _config(config)
    experiment = runs.experiment_of(config)
    entry = experiment.model.entry
    with _signals_kept():
        directory = runs.train(
            experiment,
            local_path(workdir, "workdir"),
            {**config.to_dict(), "model": experiment.model.fields},
            name=Path(name.partition(":")[0]).stem or entry.plugin_class or entry.name,
            resume=resume,
            force=force,
            resume_command=f"train_model(..., {str(workdir)!r}, resume=True)",
            command_line=cli.command_line(),
            on_epoch=on_epoch,
        )
        if directory:
            runs.write_page(directory, experiment.task)
    return Run(workdir)


def load_run(folder: str | Path) -> Run:
    """The run in a folder."""
    return Run(folder)


def evaluate_run(
    folder: str | Path, split: str = "test", config: str | Config | None = None
) -> Scores:
    """Calls Run.evaluate for the run in a folder."""
    return Run(folder).evaluate(split, config)


def _config(config: str | Config) -> Config:
    return tasks.with_labels(get_config(config) if isinstance(config, str) else config)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Restores the signal handlers, which a training replaces. An interrupted training is a
    KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except Interrupted:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
