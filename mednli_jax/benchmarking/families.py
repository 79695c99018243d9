"""What the models of the benchmark have in common within a family: sizes, what can be measured, the corpus they read.

Imports no array library: the door reads it for its flags.
"""

from dataclasses import dataclass
from pathlib import Path

from mednli_jax.benchmarking import cloze_workload as workload_cloze
from mednli_jax.benchmarking import workload

MODES, GROUPINGS = ("train", "predict", "epoch", "until"), ("off", "premise")


@dataclass(frozen=True)
class Family:
    """Models that read the same kind of corpus; the values are defaults of the door's flags.

    hidden, vectors: sizes of the model and of its word vectors. batch: rows of a batch. rows: training rows of the
    made-up corpus. modes, groupings: those that can be measured. prepared: whether a prepared corpus can take the
    made-up one's place.
    """

    models: tuple[str, ...]
    hidden: int
    vectors: int
    batch: tuple[int, ...]
    rows: int
    modes: tuple[str, ...] = MODES
    groupings: tuple[str, ...] = GROUPINGS
    prepared: bool = True


SAMPLED = ("train", "predict")
PAIRS = Family(("bow", "infersent", "esim"), hidden=300, vectors=300, batch=(64, 512), rows=11_232)
READERS = Family(
    ("ga_reader", "sa_reader"), hidden=64, vectors=200, batch=(32,), rows=4_096, modes=SAMPLED, prepared=False
)
# 6 layers of 384 with 12 heads: the smallest size of which there are published weights.
BERT = Family(
    ("bert",), hidden=384, vectors=1, batch=(16, 32), rows=11_232, modes=SAMPLED, groupings=("off",), prepared=False
)
FAMILIES = (PAIRS, READERS, BERT)
MODELS = tuple(model for family in FAMILIES for model in family.models)
LAYERS, HEAD_SIZE, WIDER = 6, 32, 4  # BERT's layers, numbers of a head, and how much wider its inner layer is


def of(model: str) -> Family:
    return next(family for family in FAMILIES if model in family.models)


def workload_of(spec: dict) -> workload.Workload:
    """The workload of a row: `model`, `pairs` (training rows) and what its family's corpus takes.

    `prepared` (a folder, or "" for a made-up corpus) and `vectors` (numbers per word) for pairs; `tokens` of a passage
    and `vectors` for readers; `length` of a pair in pieces, 0 = as they come, for BERT. Raises UserError.
    """
    family = of(spec["model"])
    if family is READERS:
        return workload_cloze.made_up_cloze(spec["pairs"], tokens=spec["tokens"], dim=spec["vectors"])
    if family is BERT:
        return workload.word_pieces(spec["pairs"], length=spec["length"])
    if spec["prepared"]:
        return workload.from_prepared(Path(spec["prepared"]))
    return workload.made_up(spec["pairs"], dim=spec["vectors"])
