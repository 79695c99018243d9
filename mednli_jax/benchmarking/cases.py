"""The rows of the benchmark: models, settings of PyTorch, sizes, and the config and the corpus of a
row."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ml_collections import ConfigDict

from mednli_jax import defaults
from mednli_jax.benchmarking import workload
from mednli_jax.benchmarking.workload import Workload
from mednli_jax.data.batching import MAX_BUCKETS
from mednli_jax.errors import UsageError
from mednli_jax.models import families
from mednli_jax.models.families import FAMILIES


class Setting(NamedTuple):
    """One way to run a model in PyTorch.

    Args:
      style: the layout of text in matrix products, see torch_models; or that of PLAIN.
      compiled: by torch.compile.
    """

    style: str
    compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.style}, torch.compile" if self.compiled else self.style


PLAIN = Setting("plain script")  # the script that one would write first, for whole epochs


class Family(NamedTuple):
    """The settings of PyTorch for some models, and defaults of the command's flags.

    Args:
      settings: the fastest of them counts.
      batch: sizes of batches.
      rows: of training.
      rows_per_premise: or for each passage.
      predict_buckets: number of length buckets in prediction.
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
    (
        Setting("bucketed"),
        Setting("chunked"),
        Setting("bucketed", compiled=True),
        Setting("chunked", compiled=True),
    ),
    predict_buckets=1,
)
READER = Family(
    (Setting("bucketed"),),
    hidden=64,
    vectors=200,
    batch=(32,),
    rows=4_096,
    rows_per_premise=workload.QUERIES_PER_PASSAGE,
)
ENCODER = Family(
    (Setting("eager"), Setting("sdpa", compiled=True)),
    hidden=384,
    vectors=1,
    batch=(16, 32),
    packages=("torch", "transformers"),
)
# The library has no fused kernel for disentangled attention.
DISENTANGLED = ENCODER._replace(settings=(Setting("eager"), Setting("eager", compiled=True)))
ENCODERS = dict.fromkeys(FAMILIES, ENCODER) | {families.DEBERTA: DISENTANGLED}
MODELS = {
    "bow": Family((Setting("distinct"),), predict_buckets=1),
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
    against: str = "torch"
    rounds: int = 3


@dataclass(frozen=True)
class Choices:
    """The cases that a command asks for: one for each model, size and mode. Where a size is None or
    empty, that of the model's family holds."""

    models: Sequence[str]
    modes: Sequence[str]
    groupings: Sequence[str]
    seeds: Sequence[int]
    batches: Sequence[int]
    pairs: Sequence[int]
    hidden: int | None
    vectors: int | None
    tokens: int
    length: int
    precision: str
    against: str
    rounds: int


def cases_of(choices: Choices) -> list[Case]:
    cases = []
    for model in choices.models:
        family = MODELS[model]
        if model in ENCODERS and list(choices.groupings) != ["off"]:
            problem = f"--grouping=premise: {model} reads both sentences together"
            raise UsageError(problem, fix="leave it out")
        combinations = itertools.product(
            choices.pairs or (family.rows,),
            choices.modes,
            choices.batches or family.batch,
            choices.groupings,
            choices.seeds,
        )
        for pairs, mode, batch, grouping, seeds in combinations:
            case = Case(
                model,
                batch,
                seeds,
                mode,
                grouping,
                pairs,
                hidden=choices.hidden or family.hidden,
                vectors=choices.vectors or family.vectors,
                tokens=choices.tokens,
                length=choices.length,
                precision=choices.precision,
                against=choices.against,
                rounds=choices.rounds,
            )
            cases.append(case)
    return cases


def workload_of(case: Case) -> Workload:
    """The corpus of a case."""
    if case.model in ENCODERS:
        return workload.made_up_pieces(case.pairs, length=case.length)
    if MODELS[case.model] is READER:
        return workload.made_up_passages(case.pairs, tokens=case.tokens, dim=case.vectors)
    return workload.made_up_pairs(case.pairs, dim=case.vectors)


def library_config(model: str, hidden: int) -> families.Config:
    """The config.json of a family's model in the benchmark's sizes."""
    config: families.Config = {
        "model_type": model,
        "vocab_size": workload.PIECES,
        "hidden_size": hidden,
        "num_hidden_layers": workload.BERT_LAYERS,
        "num_attention_heads": hidden // workload.BERT_HEAD_SIZE,
        "intermediate_size": workload.BERT_INNER * hidden,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        FAMILIES[model].epsilon: 1e-12,
    }
    if model == "electra":
        config["embedding_size"] = hidden
    if model == families.MODERN:  # the numbers of its own vocabulary are larger
        pieces = dict.fromkeys(("bos_token_id", "cls_token_id"), workload.CLS)
        pieces |= dict.fromkeys(("eos_token_id", "sep_token_id"), workload.SEP)
        config |= {"pad_token_id": 0, **pieces}
    if model == families.DEBERTA:  # as the published models of version 3
        config |= {
            "type_vocab_size": 0,
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
        config = defaults.cloze(case.model, "clicr")
    elif case.model in ENCODERS:
        config = defaults.nli("encoder", "mednli")
        config.model.update(families.fields_of(library_config(case.model, case.hidden)))
        # The first steps of a warm-up would hardly change the weights.
        config.train.schedule = "constant"
    else:
        config = defaults.nli(case.model, "mednli")
    config.seeds = tuple(range(case.seeds))
    config.model.hidden_size = case.hidden
    config.train.batch_size = case.batch
    config.train.precision = case.precision
    config.train.group = family.rows_per_premise if case.grouping == "premise" else 1
    return config
