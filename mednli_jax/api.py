"""The Python interface, for notebooks and scripts.

from mednli_jax import load_run, train_model

run = train_model("esim_kd:demo", "runs/kd")
run.predict([("Pt with h/o CHF, denies chest pain.", "The patient has heart failure.")])
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from mednli_jax import cli, run
from mednli_jax.data.arrays import pad
from mednli_jax.experiment import experiment_of, named_config
from mednli_jax.files.paths import local_path
from mednli_jax.finished import Run
from mednli_jax.models.batch import PairBatch
from mednli_jax.rundir import Scores
from mednli_jax.training.loop import Interrupted
from mednli_jax.types import JsonObject


def get_config(name: str) -> ConfigDict:
    """The config `name`, as on the command line: "esim_kd", "esim_kd:mednli" or
    "configs/esim_kd.py:mednli"."""
    return cli.read_config(name)


def train_model(
    config: str | ConfigDict,
    workdir: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    on_epoch: Callable[[JsonObject], None] = lambda row: None,
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
    config = named_config(config)
    experiment = experiment_of(config)
    entry = experiment.model.entry
    with _restored_signals():
        directory = run.train(
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
            run.write_page(directory, experiment.task)
    return Run(workdir)


def load_run(folder: str | Path) -> Run:
    """The run in a folder."""
    return Run(folder)


def evaluate_run(
    folder: str | Path, split: str = "test", config: str | ConfigDict | None = None
) -> Scores:
    """Calls Run.evaluate for the run in a folder."""
    return Run(folder).evaluate(split, config)


def pair_batch(
    premises: Sequence[str], hypotheses: Sequence[str], encode: Callable[[str], Sequence[int]]
) -> PairBatch:
    """The batch of pairs of texts, for a model in a loop of your own.

    encode: text -> the numbers of its words or pieces, above 0.
    """
    sides: list[jax.Array] = []
    for texts in (premises, hypotheses):
        numbers = list(map(encode, texts))
        sides += map(jnp.asarray, pad(numbers, max(map(len, numbers))))
    premise, premise_length, hypothesis, hypothesis_length = sides
    mask = jnp.ones(len(premises))
    return PairBatch(premise, premise_length, hypothesis, hypothesis_length, mask)


@contextlib.contextmanager
def _restored_signals() -> Iterator[None]:
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
