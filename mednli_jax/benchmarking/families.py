"""The models of the benchmark and the cases that the command's flags ask for, one for each row of its table.

Imports no array library but NumPy.
"""

import itertools
from dataclasses import asdict, dataclass
from typing import NamedTuple

from mednli_jax import defaults
from mednli_jax.benchmarking import workload
from mednli_jax.benchmarking.workload import Workload
from mednli_jax.data.batching import MAX_BUCKETS
from mednli_jax.errors import UsageError

MODES, GROUPINGS = ("train", "predict", "epoch"), ("off", "premise")
PRECISIONS = ("float32", "tf32", "bfloat16")
LEAST_LENGTH = 8  # pieces of a pair


class Setting(NamedTuple):
    """One way to run a model in PyTorch: a layout of text in matrix products, with torch.compile or without.

    style: of the modules torch_models, torch_readers, torch_bert, or PLAIN.
    """

    style: str
    compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.style}{', torch.compile' if self.compiled else ''}"


PLAIN = Setting("plain script")  # the script that one would write first, for whole epochs


class Family(NamedTuple):
    """What the models of a kind share.

    settings: of PyTorch, of which the fastest counts. packages: what it needs.
    hidden, vectors: default sizes of the model and of its word vectors.
    batch: default batch sizes, in rows. rows: default number of training rows.
    rows_per_premise: rows of the corpus that share a premise or passage.
    predict_buckets: length buckets of what is predicted.
    """

    settings: tuple[Setting, ...]
    hidden: int = 300
    vectors: int = 300
    batch: tuple[int, ...] = (64, 512)
    rows: int = 11_232
    rows_per_premise: int = workload.PAIRS_PER_PREMISE
    predict_buckets: int = MAX_BUCKETS
    packages: tuple[str, ...] = ("torch",)


RECURRENT = Family(
    tuple(Setting(style, compiled) for compiled in (False, True) for style in ("bucketed", "chunked")),
    predict_buckets=1,
)
READER = Family((Setting("bucketed"),), 64, 200, (32,), 4_096, workload.QUERIES_PER_PASSAGE)
MODELS = {
    "bow": Family((Setting("distinct"),), predict_buckets=1),
    "infersent": RECURRENT,
    "esim": RECURRENT,
    "ga_reader": READER,
    "sa_reader": READER,
    "bert": Family((Setting("eager"), Setting("sdpa", True)), 384, 1, (16, 32), packages=("torch", "transformers")),
}


def workload_of(spec: dict) -> Workload:
    """The corpus of a case."""
    if spec["model"] == "bert":
        return workload.made_up_pieces(spec["pairs"], length=spec["length"])
    if MODELS[spec["model"]] is READER:
        return workload.made_up_passages(spec["pairs"], tokens=spec["tokens"], dim=spec["vectors"])
    return workload.made_up_pairs(spec["pairs"], dim=spec["vectors"])


def config_of(spec: dict):
    """The published config of a case's model, in the case's sizes."""
    family, hidden = MODELS[spec["model"]], spec["hidden"]
    config = defaults.cloze(spec["model"], "clicr") if family is READER else defaults.nli(spec["model"], "mednli")
    if spec["model"] == "bert":
        config.model.update(layers=workload.BERT_LAYERS, attention_heads=hidden // workload.BERT_HEAD_SIZE)
        config.model.intermediate_size = workload.BERT_INNER * hidden
        config.train.schedule = "constant"  # the first steps of a warm-up would hardly change the weights
    config.seeds = tuple(range(spec["seeds"]))
    config.model.hidden_size = hidden
    config.train.batch_size = spec["batch"]
    config.train.precision = spec.get("precision", "float32")
    config.train.group = family.rows_per_premise if spec["grouping"] == "premise" else 1
    return config


def in_pytorch(spec: dict, work: Workload):
    """The PyTorch side of a case in the spec's setting."""
    if spec["model"] == "bert":
        from mednli_jax.benchmarking import torch_bert as sides
    elif MODELS[spec["model"]] is READER:
        from mednli_jax.benchmarking import torch_readers as sides
    else:
        from mednli_jax.benchmarking import torch_side as sides
    return (sides.PlainScript if spec["style"] == PLAIN.style else sides.TorchSide)(spec, work)


@dataclass(frozen=True)
class Case:
    """One row of the table.

    model, batch, seeds: its name, rows of a batch, seeds trained in one program.
    mode: train, predict or epoch. grouping: off, or premise.
    pairs: training rows, which for readers are queries.
    hidden, vectors: sizes of the model and of the word vectors.
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
    hidden: int = 300
    vectors: int = 300
    tokens: int = 1500
    length: int = 64
    precision: str = "float32"
    against: str = "torch"
    rounds: int = 3

    @property
    def family(self) -> Family:
        return MODELS[self.model]

    def spec(self, **changes) -> dict:
        """This case for a side, with these changes."""
        return {**asdict(self), **changes}


def cases_of(values) -> list[Case]:
    """The cases that the flags ask for. Raises UsageError for a bad flag."""
    _chosen(values, "against", ("torch", "none"))
    _chosen(values, "precision", PRECISIONS)
    modes, groupings = _chosen(values, "mode", MODES), _chosen(values, "grouping", GROUPINGS)
    found = []
    for model in _chosen(values, "models", MODELS):
        family, names = MODELS[model], ("tokens", "length", "precision", "against", "rounds")
        shared = {name: values[name].value for name in names}
        shared |= {"hidden": values.hidden or family.hidden, "vectors": values.vectors or family.vectors}
        if model == "bert" and groupings != ["off"]:
            raise UsageError(f"--grouping={values.grouping}: bert reads both sentences together. Fix: leave it out.")
        if model == "bert" and (shared["hidden"] % workload.BERT_HEAD_SIZE or 0 < values.length < LEAST_LENGTH):
            fix = f"give a multiple of {workload.BERT_HEAD_SIZE}, and at least {LEAST_LENGTH} pieces"
            raise UsageError(f"--hidden={shared['hidden']} --length={values.length}: no sizes of bert. Fix: {fix}.")
        chosen = itertools.product(
            _numbers(values, "pairs", (family.rows,)), modes, _numbers(values, "batch", family.batch),
            groupings, _numbers(values, "seeds", (1,)),
        )  # fmt: skip
        found += [Case(model, batch, seeds, mode, group, rows, **shared) for rows, mode, batch, group, seeds in chosen]
    return found


def _chosen(values, name, known) -> list[str]:
    """The words of a flag. Raises UsageError for one that is not known."""
    words = [word.strip() for word in values[name].value.split(",")]
    for word in words:
        if word not in known:
            hint = defaults.did_you_mean(word, known)
            raise UsageError(f"--{name}: '{word}' is not known.{hint} Fix: give one of {', '.join(known)}.")
    return words


def _numbers(values, name, default) -> list[int]:
    """The numbers of a flag, or the default of an empty flag. Raises UsageError."""
    words = values[name].value.split(",") if values[name].value else default
    if not all(str(word).isdigit() and int(word) > 0 for word in words):
        raise UsageError(f"--{name}={values[name].value}: expected numbers from 1 up. Fix: --{name}=64,512")
    return [int(word) for word in words]
