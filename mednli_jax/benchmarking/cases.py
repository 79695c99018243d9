"""The cases of the benchmark, one for each line of its result, made from the command's flags."""

import difflib
import itertools
from dataclasses import asdict, dataclass
from pathlib import Path

from mednli_jax.benchmarking import families, workload
from mednli_jax.errors import UsageError


@dataclass(frozen=True)
class Case:
    """One line of the result.

    model, batch, seeds: its name, rows of a batch, seeds trained in one program.
    mode: train, predict or epoch. grouping: off, or premise.
    pairs: training rows, which for readers are queries. prepared: folder of a corpus, or "".
    hidden, vectors: sizes of the model and of the synthetic word vectors.
    tokens: of a passage, on average (readers). length: of a pair in word pieces, 0 = as many as its words give (BERT).
    precision: of the matrix products of both sides, as config.train.precision.
    against: "torch" or "none". rounds: how often each side is measured.
    """

    model: str
    batch: int
    seeds: int
    mode: str
    grouping: str
    pairs: int
    prepared: str = ""
    hidden: int = 300
    vectors: int = 300
    tokens: int = 1500
    length: int = 64
    precision: str = "float32"
    against: str = "torch"
    rounds: int = 3

    def spec(self, **changes) -> dict:
        """The message to a worker: this case, with these changes."""
        return {**asdict(self), **changes}


def from_flags(values) -> list[Case]:
    """The cases that the flags ask for. Raises UsageError for a bad flag."""
    _chosen(values, "against", ("torch", "none"))
    _chosen(values, "precision", families.PRECISIONS)
    models, modes = _chosen(values, "models", families.MODELS), _chosen(values, "mode", families.MODES)
    groupings, seeds = _chosen(values, "grouping", families.GROUPINGS), _numbers(values, "seeds")
    if values.prepared:
        workload.from_prepared(Path(values.prepared))  # fails here, not in a worker
    return [case for model in models for case in _of_model(values, model, modes, groupings, seeds)]


def _of_model(values, model, modes, groupings, seeds):
    family = families.MODELS[model]
    for word in groupings:
        if word not in family.groupings:
            fix = f"give one of {', '.join(family.groupings)}, or leave the model out"
            raise UsageError(f"--grouping={word} cannot be measured of {model}. Fix: {fix}.")
    if values.prepared and not family.prepared:
        known = ", ".join(name for name, family in families.MODELS.items() if family.prepared)
        raise UsageError(f"--prepared: {model} reads synthetic rows only. Fix: give models among {known}.")
    hidden, size, least = values.hidden or family.hidden, family.hidden_multiple, family.least_length
    if hidden % size:
        raise UsageError(f"--hidden={hidden}: {model}'s heads have {size} numbers. Fix: give a multiple of {size}.")
    if 0 < values.length < least:
        raise UsageError(f"--length={values.length}: too short for a pair. Fix: give at least {least}, or 0.")
    names = ("prepared", "tokens", "length", "precision", "against", "rounds")
    shared = {name: getattr(values, name) for name in names}
    shared |= {"hidden": hidden, "vectors": values.vectors or family.vectors}
    pairs = [1] if values.prepared else _numbers(values, "pairs", (family.rows,))
    batches = _numbers(values, "batch", family.batch)
    return [
        Case(model, batch, count, mode, grouping, rows, **shared)
        for rows, mode, batch, grouping, count in itertools.product(pairs, modes, batches, groupings, seeds)
    ]


def _chosen(values, name, known) -> list[str]:
    """The words of a flag. Raises UsageError for one that is not known."""
    words = [word.strip() for word in values[name].value.split(",")]
    for word in words:
        if word not in known:
            near = "".join(f" Did you mean '{each}'?" for each in difflib.get_close_matches(word, known, n=1))
            raise UsageError(f"--{name}: '{word}' is not known.{near} Fix: give one of {', '.join(known)}.")
    return words


def _numbers(values, name, default=()) -> list[int]:
    """The numbers of a flag, each at least 1, or the default of an empty flag. Raises UsageError."""
    text = values[name].value
    try:
        result = [int(word) for word in text.split(",")] if text else list(default)
    except ValueError:
        result = [0]
    if min(result, default=0) < 1:
        raise UsageError(f"--{name}={text}: expected numbers from 1 up. Fix: --{name}=64,512")
    return result
