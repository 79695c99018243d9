"""The models of the benchmark: their sizes, possible measurements, corpus and PyTorch side.

Imports no array library but NumPy, since the command reads it for its flags.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mednli_jax import defaults
from mednli_jax.benchmarking import workload
from mednli_jax.benchmarking.workload import Workload
from mednli_jax.corpora.batching import MAX_BUCKETS

MODES, GROUPINGS = ("train", "predict", "epoch"), ("off", "premise")
PLAIN = "plain script"  # style of PyTorch's side in the mode "epoch"
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


@dataclass(frozen=True)
class Family:
    """A model, as the benchmark measures it.

    settings: of PyTorch, four at most, of which the fastest is measured; the one expected to be it comes first.
    hidden, vectors: default sizes of the model and of its word vectors.
    batch: default batch sizes, in rows. rows: default number of training rows.
    rows_per_premise: rows of the synthetic corpus that share a premise or passage.
    workload: spec -> the corpus. config: spec -> the published config of the model.
    pytorch: (spec, corpus) -> the PyTorch side. packages: what it needs.
    groupings: those that can be measured. prepared: whether --prepared can replace the synthetic corpus.
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
    prepared: bool = False
    predict_buckets: int = MAX_BUCKETS
    packages: tuple[str, ...] = ("torch",)
    hidden_multiple: int = 1
    least_length: int = 0


def _pairs(spec):
    if spec["prepared"]:
        return workload.from_prepared(Path(spec["prepared"]))
    return workload.made_up_pairs(spec["pairs"], dim=spec["vectors"])


def _nli(spec):
    return defaults.nli(spec["model"], "mednli")


def _pairs_in_pytorch(spec, work):
    from mednli_jax.benchmarking.torch_side import PlainScript, TorchSide

    return (PlainScript if spec["style"] == PLAIN else TorchSide)(spec, work)


def _pair_model(*settings):
    return Family(settings, _pairs, _nli, _pairs_in_pytorch, prepared=True, predict_buckets=1)


def _readers_in_pytorch(spec, work):
    from mednli_jax.benchmarking.torch_readers import PlainScript, TorchReader

    return (PlainScript if spec["style"] == PLAIN else TorchReader)(spec, work)


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

    return (PlainScript if spec["style"] == PLAIN else TorchBERT)(spec, work)


BERT = Family(
    (Setting("sdpa"), Setting("eager"), Setting("sdpa", True), Setting("eager", True)),
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


def workload_of(spec: dict) -> Workload:
    """The corpus of a case.

    spec: `model` and `pairs` (training rows); for pairs `prepared` (a folder, or "") and `vectors` (numbers per word);
      for readers `tokens` of a passage and `vectors`; for BERT `length` of a pair in pieces, 0 = as its words give.
    Raises: UsageError, where `prepared` holds no corpus.
    """
    return MODELS[spec["model"]].workload(spec)
