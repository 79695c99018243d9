"""The rows of the benchmark: models, settings of PyTorch, sizes, and the config and the corpus of a
row."""

import itertools
from dataclasses import asdict, dataclass
from typing import NamedTuple

from mednli_jax import defaults
from mednli_jax.benchmarking import workload
from mednli_jax.benchmarking.workload import Workload
from mednli_jax.data.batching import MAX_BUCKETS
from mednli_jax.errors import UsageError


class Setting(NamedTuple):
    """One way to run a model in PyTorch: a layout of text in matrix products, with torch.compile or
    without.

    style: of the module torch_models, or PLAIN.
    """

    style: str
    compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.style}{', torch.compile' if self.compiled else ''}"


PLAIN = Setting("plain script")  # the script that one would write first, for whole epochs


class Family(NamedTuple):
    """What the models of a kind share: settings of PyTorch, and defaults of the command's flags."""

    settings: tuple[Setting, ...]  # of which the fastest counts
    hidden: int = 300
    vectors: int = 300
    batch: tuple[int, ...] = (64, 512)
    rows: int = 11_232  # of training
    rows_per_premise: int = workload.PAIRS_PER_PREMISE  # or of a passage
    predict_buckets: int = MAX_BUCKETS  # length buckets of what is predicted
    packages: tuple[str, ...] = ("torch",)


RECURRENT = Family(
    tuple(
        Setting(style, compiled) for compiled in (False, True) for style in ("bucketed", "chunked")
    ),
    predict_buckets=1,
)
READER = Family((Setting("bucketed"),), 64, 200, (32,), 4_096, workload.QUERIES_PER_PASSAGE)
MODELS = {
    "bow": Family((Setting("distinct"),), predict_buckets=1),
    "infersent": RECURRENT,
    "esim": RECURRENT,
    "ga_reader": READER,
    "sa_reader": READER,
    "bert": Family(
        (Setting("eager"), Setting("sdpa", True)),
        384,
        1,
        (16, 32),
        packages=("torch", "transformers"),
    ),
}


@dataclass(frozen=True)
class Case:
    """One row of the table, by the command's flags."""

    model: str
    batch: int
    seeds: int  # trained in one program
    mode: str
    grouping: str
    pairs: int  # training rows, which for readers are queries
    hidden: int = 300
    vectors: int = 300
    tokens: int = 1500
    length: int = 64
    precision: str = "float32"
    against: str = "torch"
    rounds: int = 3

    def spec(self, **changes) -> dict:
        """This case for a side, with these changes."""
        return {**asdict(self), **changes}


def cases_of(values) -> list[Case]:
    """The cases that the command's flags ask for."""
    found = []
    for model in values.models:
        family = MODELS[model]
        if model == "bert" and values.grouping != ["off"]:
            raise UsageError(
                "--grouping=premise: bert reads both sentences together", fix="leave it out"
            )
        shared = {
            name: values[name].value
            for name in ("tokens", "length", "precision", "against", "rounds")
        }
        shared |= {
            "hidden": values.hidden or family.hidden,
            "vectors": values.vectors or family.vectors,
        }
        of_rows, batches = values.pairs or [family.rows], values.batch or family.batch
        found += [
            Case(model, int(batch), int(seeds), mode, grouping, int(rows), **shared)
            for rows, mode, batch, grouping, seeds in itertools.product(
                of_rows, values.mode, batches, values.grouping, values.seeds
            )
        ]
    return found


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
    config = (
        defaults.cloze(spec["model"], "clicr")
        if family is READER
        else defaults.nli(spec["model"], "mednli")
    )
    if spec["model"] == "bert":
        config.model.update(
            layers=workload.BERT_LAYERS, attention_heads=hidden // workload.BERT_HEAD_SIZE
        )
        config.model.intermediate_size = workload.BERT_INNER * hidden
        config.train.schedule = (
            "constant"  # the first steps of a warm-up would hardly change the weights
        )
    config.seeds = tuple(range(spec["seeds"]))
    config.model.hidden_size = hidden
    config.train.batch_size = spec["batch"]
    config.train.precision = spec.get("precision", "float32")
    config.train.group = family.rows_per_premise if spec["grouping"] == "premise" else 1
    return config
