"""The models of the benchmark: their sizes, what can be measured of them, the corpus they read, their PyTorch side.

Imports no array library but NumPy, since the command reads it for its flags.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mednli_jax import defaults
from mednli_jax.benchmarking import workload
from mednli_jax.benchmarking.workload import Workload
from mednli_jax.corpora.batching import MAX_BUCKETS

MODES, GROUPINGS = ("train", "predict", "epoch", "until"), ("off", "premise")


@dataclass(frozen=True)
class Styles:
    """The ways in which a model is written in PyTorch, by name.

    tried: all of them; the fastest is measured.
    until: those of the mode "until". Batches of about one length would change what a step teaches the model.
    plain: the one of the plain script.
    """

    tried: tuple[str, ...]
    until: tuple[str, ...] = ()
    plain: str = "packed"


@dataclass(frozen=True)
class Family:
    """Models that read the same kind of corpus.

    models: name -> styles of its PyTorch side.
    hidden, vectors: default sizes of the model and of its word vectors.
    batch: default batch sizes, in rows. rows: default number of training rows.
    rows_per_premise: rows of the made-up corpus that share a premise or passage.
    workload: spec -> the corpus. config: spec -> the published config of the model.
    torch_sides: imports the PyTorch side, and gives its classes by side, "torch" and "idiomatic".
    modes, groupings: those that can be measured. prepared: whether --prepared can replace the made-up corpus.
    predict_buckets: length buckets of what is predicted.
    packages: what the PyTorch side needs. compile_each: whether torch.compile is tried on every style, not only on the
      fastest: models without loops over time gain more from it.
    hidden_multiple: what the hidden size must be a multiple of. least_length: least pieces of a pair.
    """

    models: dict[str, Styles]
    hidden: int
    vectors: int
    batch: tuple[int, ...]
    rows: int
    rows_per_premise: int
    workload: Callable[[dict], Workload]
    config: Callable
    torch_sides: Callable[[], dict[str, type]]
    modes: tuple[str, ...] = MODES
    groupings: tuple[str, ...] = GROUPINGS
    prepared: bool = False
    predict_buckets: int = MAX_BUCKETS
    packages: tuple[str, ...] = ("torch",)
    compile_each: bool = False
    hidden_multiple: int = 1
    least_length: int = 0


# ---- sentence pairs ----


def _pairs(spec):
    if spec["prepared"]:
        return workload.from_prepared(Path(spec["prepared"]))
    return workload.made_up_pairs(spec["pairs"], dim=spec["vectors"])


def _pairs_torch():
    from mednli_jax.benchmarking.torch_side import PlainScript, TorchSide

    return {"torch": TorchSide, "idiomatic": PlainScript}


RECURRENT = Styles(("packed", "packed stacked", "bucketed", "chunked", "chunked stacked"), until=("packed", "chunked"))
PAIRS = Family(
    # The plain BOW pads its batches, which a DataLoader shuffles.
    {
        "bow": Styles(("flat", "distinct", "bucketed"), until=("flat", "distinct"), plain="bucketed"),
        "infersent": RECURRENT,
        "esim": RECURRENT,
    },
    hidden=300, vectors=300, batch=(64, 512), rows=11_232, rows_per_premise=workload.PAIRS_PER_PREMISE,
    workload=_pairs, config=lambda spec: defaults.nli(spec["model"], "mednli"), torch_sides=_pairs_torch,
    prepared=True, predict_buckets=1,
)  # fmt: skip


# ---- readers ----


def _readers_torch():
    from mednli_jax.benchmarking.torch_readers import TorchReader

    return {"torch": TorchReader}


READERS = Family(
    dict.fromkeys(("ga_reader", "sa_reader"), Styles(("packed", "bucketed"))),
    hidden=64, vectors=200, batch=(32,), rows=4_096, rows_per_premise=workload.QUERIES_PER_PASSAGE,
    workload=lambda spec: workload.made_up_passages(spec["pairs"], tokens=spec["tokens"], dim=spec["vectors"]),
    config=lambda spec: defaults.cloze(spec["model"], "clicr"), torch_sides=_readers_torch, modes=("train", "predict"),
)  # fmt: skip


# ---- BERT ----


def _bert_config(spec):
    config, hidden = defaults.nli(spec["model"], "mednli"), spec["hidden"]
    config.model.update(layers=workload.BERT_LAYERS, attention_heads=hidden // workload.BERT_HEAD_SIZE)
    config.model.intermediate_size = workload.BERT_INNER * hidden
    config.train.schedule = "constant"  # a warm-up's first steps would hardly move
    return config


def _bert_torch():
    from mednli_jax.benchmarking.torch_bert import TorchBERT

    return {"torch": TorchBERT}


BERT = Family(
    {"bert": Styles(("eager", "sdpa"))},
    hidden=384, vectors=1, batch=(16, 32), rows=11_232, rows_per_premise=workload.PAIRS_PER_PREMISE,
    workload=lambda spec: workload.made_up_pieces(spec["pairs"], length=spec["length"]), config=_bert_config,
    torch_sides=_bert_torch, modes=("train", "predict"), groupings=("off",),
    packages=("torch", "transformers"), compile_each=True, hidden_multiple=workload.BERT_HEAD_SIZE, least_length=8,
)  # fmt: skip

FAMILIES = (PAIRS, READERS, BERT)
MODELS = {model: styles for family in FAMILIES for model, styles in family.models.items()}


def of(model: str) -> Family:
    return next(family for family in FAMILIES if model in family.models)


def workload_of(spec: dict) -> Workload:
    """The corpus of a case.

    spec: `model` and `pairs` (training rows); for pairs `prepared` (a folder, or "") and `vectors` (numbers per word);
      for readers `tokens` of a passage and `vectors`; for BERT `length` of a pair in pieces, 0 = as words give.
    Raises: UserError, where `prepared` holds no corpus.
    """
    return of(spec["model"]).workload(spec)
