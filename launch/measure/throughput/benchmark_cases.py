"""The rows of the benchmark: models, settings of PyTorch, and the corpus and config of a row."""

import os
from dataclasses import dataclass
from typing import NamedTuple

from ml_collections import ConfigDict
from synthetic_corpora import (
    CLS,
    PAIRS_PER_PREMISE,
    PIECES,
    QUERIES_PER_PASSAGE,
    SEP,
    Workload,
    made_up_pairs,
    made_up_passages,
    made_up_pieces,
)

from mednli_jax.cli import read_config
from mednli_jax.models import families
from mednli_jax.models.families import FAMILIES

# Sizes of BERT: 6 layers of 384 with 12 heads is the smallest model with published weights.
BERT_LAYERS = 6
BERT_HEAD_SIZE = 32
BERT_INNER = 4  # the inner size over the hidden size


class TorchSetting(NamedTuple):
    """One way to run a model in PyTorch.

    Args:
      style: the layout of text in matrix products, see torch_models.
      compiled: whether torch.compile is used.
    """

    style: str
    compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.style}, torch.compile" if self.compiled else self.style


class Family(NamedTuple):
    """The settings of PyTorch for some models, and defaults of the flags.

    Args:
      settings: of PyTorch; the fastest counts.
      batch: sizes of batches.
      rows: of training.
      rows_per_premise: number of rows of each premise or passage.
    """

    settings: tuple[TorchSetting, ...]
    hidden: int = 300
    vectors: int = 300
    batch: tuple[int, ...] = (64, 512)
    rows: int = 11_232
    rows_per_premise: int = PAIRS_PER_PREMISE


RECURRENT = Family(
    (
        TorchSetting("bucketed"),
        TorchSetting("chunked"),
        TorchSetting("bucketed", compiled=True),
        TorchSetting("chunked", compiled=True),
    )
)
READER = Family(
    (TorchSetting("bucketed"),),
    hidden=64,
    vectors=200,
    batch=(32,),
    rows=4_096,
    rows_per_premise=QUERIES_PER_PASSAGE,
)
ENCODER = Family(
    (TorchSetting("eager"), TorchSetting("sdpa", compiled=True)),
    hidden=384,
    vectors=1,
    batch=(16, 32),
)
# The library has no fused kernel for disentangled attention.
DISENTANGLED = ENCODER._replace(
    settings=(TorchSetting("eager"), TorchSetting("eager", compiled=True))
)
ENCODERS = dict.fromkeys(FAMILIES, ENCODER) | {families.DEBERTA: DISENTANGLED}
MODELS = {
    "bow": Family((TorchSetting("distinct"),)),
    "infersent": RECURRENT,
    "esim": RECURRENT,
    "ga_reader": READER,
    "sa_reader": READER,
    **ENCODERS,
}


@dataclass(frozen=True)
class Case:
    """One row of the table, in terms of the command's flags.

    Args:
      seeds: trained in one program.
      pairs: training rows, which for readers are queries.
      buckets: of training (train.max_buckets); None = those of the model's config.
      against: "torch" or "none".
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
    buckets: int | None = None
    against: str = "torch"
    rounds: int = 3


def workload_of(case: Case) -> Workload:
    """The corpus of a case."""
    if case.model in ENCODERS:
        return made_up_pieces(case.pairs, length=case.length)
    if MODELS[case.model] is READER:
        return made_up_passages(case.pairs, tokens=case.tokens, dim=case.vectors)
    return made_up_pairs(case.pairs, dim=case.vectors)


def library_config(model: str, hidden: int) -> families.Config:
    """The config.json of a family's model in the benchmark's sizes."""
    config: families.Config = {
        "model_type": model,
        "vocab_size": PIECES,
        "hidden_size": hidden,
        "num_hidden_layers": BERT_LAYERS,
        "num_attention_heads": hidden // BERT_HEAD_SIZE,
        "intermediate_size": BERT_INNER * hidden,
        "max_position_embeddings": 512,
    }
    if model == "electra":
        config["embedding_size"] = hidden
    if model == families.MODERN:  # the numbers of its own vocabulary are larger
        pieces = dict.fromkeys(("bos_token_id", "cls_token_id"), CLS)
        pieces |= dict.fromkeys(("eos_token_id", "sep_token_id"), SEP)
        config |= {"pad_token_id": 0, **pieces}
    if model == families.DEBERTA:  # as the published models of version 3
        config |= {
            "relative_attention": True,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": "p2c|c2p",
            "position_biased_input": False,
        }
    return config


def config_of(case: Case) -> ConfigDict:
    """The published config of a case's model, in the case's sizes."""
    family = MODELS[case.model]
    if family is READER:
        config = read_config(f"{case.model.removesuffix('_reader')}:clicr")
    elif case.model in ENCODERS:
        config = read_config("encoder:mednli")
        with config.unlocked():
            config.model.update(families.fields_of(library_config(case.model, case.hidden)))
        # The first steps of a warm-up would hardly change the weights.
        config.train.schedule = "constant"
    else:
        config = read_config(f"{case.model}:mednli")
    config.seeds = tuple(range(case.seeds))
    config.model.hidden_size = case.hidden
    config.train.batch_size = case.batch
    config.train.precision = case.precision
    if case.buckets:
        config.train.max_buckets = case.buckets
    config.train.group = family.rows_per_premise if case.grouping == "premise" else 1
    return config


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
