"""The models of the benchmark and the cases that the command's flags ask for, one for each row of its table.

Imports no array library but NumPy.
"""

import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from mednli_jax import defaults
from mednli_jax.benchmarking import workload
from mednli_jax.benchmarking.workload import Workload
from mednli_jax.corpora.batching import MAX_BUCKETS
from mednli_jax.errors import UsageError

MODES, GROUPINGS = ("train", "predict", "epoch"), ("off", "premise")
PRECISIONS = ("float32", "tf32", "bfloat16")


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


@dataclass(frozen=True)
class Family:
    """A model, as the benchmark measures it.

    settings: of PyTorch, of which the fastest counts.
    workload: spec -> the corpus. config: spec -> the published config of the model.
    pytorch: (spec, corpus) -> the PyTorch side. packages: what it needs.
    hidden, vectors: default sizes of the model and of its word vectors.
    batch: default batch sizes, in rows. rows: default number of training rows.
    rows_per_premise: rows of the corpus that share a premise or passage.
    groupings: those that can be measured.
    predict_buckets: length buckets of what is predicted.
    hidden_multiple: what the hidden size must be a multiple of. least_length: least pieces of a pair.
    """

    settings: tuple[Setting, ...]
    workload: Callable[[dict], Workload]
    config: Callable
    pytorch: Callable[[dict, Workload], Any]
    hidden: int = 300
    vectors: int = 300
    batch: tuple[int, ...] = (64, 512)
    rows: int = 11_232
    rows_per_premise: int = workload.PAIRS_PER_PREMISE
    groupings: tuple[str, ...] = GROUPINGS
    predict_buckets: int = MAX_BUCKETS
    packages: tuple[str, ...] = ("torch",)
    hidden_multiple: int = 1
    least_length: int = 0


def _nli(spec):
    return defaults.nli(spec["model"], "mednli")


def _pairs_in_pytorch(spec, work):
    from mednli_jax.benchmarking.torch_side import PlainScript, TorchSide

    return (PlainScript if spec["style"] == PLAIN.style else TorchSide)(spec, work)


def _pair_model(*settings):
    def pairs(spec):
        return workload.made_up_pairs(spec["pairs"], dim=spec["vectors"])

    return Family(settings, pairs, _nli, _pairs_in_pytorch, predict_buckets=1)


def _readers_in_pytorch(spec, work):
    from mednli_jax.benchmarking.torch_readers import PlainScript, TorchReader

    return (PlainScript if spec["style"] == PLAIN.style else TorchReader)(spec, work)


READER = Family(
    (Setting("bucketed"),),
    lambda spec: workload.made_up_passages(spec["pairs"], tokens=spec["tokens"], dim=spec["vectors"]),
    lambda spec: defaults.cloze(spec["model"], "clicr"),
    _readers_in_pytorch,
    hidden=64, vectors=200, batch=(32,), rows=4_096, rows_per_premise=workload.QUERIES_PER_PASSAGE,
)  # fmt: skip


def _bert_config(spec):
    config, hidden = _nli(spec), spec["hidden"]
    config.model.update(layers=workload.BERT_LAYERS, attention_heads=hidden // workload.BERT_HEAD_SIZE)
    config.model.intermediate_size = workload.BERT_INNER * hidden
    config.train.schedule = "constant"  # the first steps of a warm-up would hardly change the weights
    return config


def _bert_in_pytorch(spec, work):
    from mednli_jax.benchmarking.torch_bert import PlainScript, TorchBERT

    return (PlainScript if spec["style"] == PLAIN.style else TorchBERT)(spec, work)


BERT = Family(
    (Setting("eager"), Setting("sdpa", True)),
    lambda spec: workload.made_up_pieces(spec["pairs"], length=spec["length"]),
    _bert_config,
    _bert_in_pytorch,
    hidden=384, vectors=1, batch=(16, 32), groupings=("off",),
    packages=("torch", "transformers"), hidden_multiple=workload.BERT_HEAD_SIZE, least_length=8,
)  # fmt: skip

RECURRENT = (Setting("bucketed"), Setting("chunked"), Setting("bucketed", True), Setting("chunked", True))
MODELS = {
    "bow": _pair_model(Setting("distinct")),
    "infersent": _pair_model(*RECURRENT),
    "esim": _pair_model(*RECURRENT),
    "ga_reader": READER,
    "sa_reader": READER,
    "bert": BERT,
}


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
        if unknown := set(groupings) - set(family.groupings):
            raise UsageError(f"--grouping={unknown.pop()} cannot be measured of {model}. Fix: leave it out.")
        if shared["hidden"] % family.hidden_multiple:
            fix = f"give a multiple of {family.hidden_multiple}"
            raise UsageError(f"--hidden={shared['hidden']} is no size of {model}. Fix: {fix}.")
        if 0 < values.length < family.least_length:
            raise UsageError(f"--length={values.length}: too short. Fix: give at least {family.least_length}, or 0.")
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
