"""What a config may say: one table of fields, ranges and conditions, checked before anything is read or trained.

Each rule names one field. It holds for configs that have the field; a rule with `when` holds for some of those.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from mednli_jax.corpora.cloze.clicr import STRAY_MARKS
from mednli_jax.corpora.cloze.views import SETUPS
from mednli_jax.corpora.diskne.benchmark import CATEGORIES, WORDINGS
from mednli_jax.corpora.diskne.fold_batches import MOST_SEED
from mednli_jax.corpora.nli.concepts import MENTION_READERS, ending
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.distances import DIRECTIONS
from mednli_jax.knowledge.ontology import CYCLES, RELATIONS
from mednli_jax.models.table import MODELS
from mednli_jax.training.transfer import PRIVATE

MOST = (1 << 15) - 1  # of a length or a dimension that is kept in 16 bits


def always(config) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """One condition on one field.

    field: dotted, below the config. good: whether a value may stand, given the whole config. fix: what to give instead,
    after "Fix: "; it may name other fields of the config, as {config.train.epochs}. problem: what is wrong, "" = the
    field and its value say it. code: the kind of fault.
    """

    field: str
    good: Callable[[Any, Any], bool]
    fix: str
    problem: str = ""
    when: Callable[[Any], bool] = always

    def check(self, config) -> None:
        """Raises ConfigError where the config has the field with a value that may not stand."""
        section, value = config, None
        for part in self.field.split("."):
            if part not in section:
                return
            section = value = section[part]
        if not self.when(config) or self.good(value, config):
            return
        shown = f"'{value}'" if isinstance(value, str) else value
        problem = f": {self.problem.format(shown)}" if self.problem else f" is {shown}"
        raise ConfigError(f"config.{self.field}{problem}. Fix: {self.fix.format(config=config)}.")


def at_least(field: str, least: float, fix: str = "", **how) -> Rule:
    return Rule(field, lambda value, _: value is None or value >= least, fix or f"give at least {least}", **how)


def between(field: str, least: float, most: float, fix: str = "", **how) -> Rule:
    """least <= value <= most; nan is outside."""
    return Rule(field, lambda value, _: least <= value <= most, fix or f"give {least} to {most}", **how)


def one_of(field: str, known: Sequence[str], **how) -> Rule:
    fix = f"give one of {', '.join(known)}"
    return Rule(field, lambda value, _: value in known, fix, "unknown value {}", **how)


def left_out(field: str, problem: str, when: Callable, fix: str = "leave it out") -> Rule:
    """The field stays at its empty value (0, "", None, False) where `when` holds."""
    return Rule(field, lambda value, _: not value, fix, problem, when)


def conflict(field: str, problem: str, when: Callable, fix: str = "leave one of them out") -> Rule:
    """The field is refused, whatever it says, where `when` holds."""
    return Rule(field, lambda *_: False, fix, problem, when)


def _pattern(text, _):
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _seeds(seeds, _):
    whole = all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in seeds)
    return bool(seeds) and whole and len(set(seeds)) == len(seeds)


def several(values: Sequence[str]) -> list[str]:
    """The names of a config's tuple; a command line gives those of an empty one as one string, with commas."""
    return [name for value in values for name in str(value).split(",") if name]


def kind(config) -> str:
    """The task that a config was made for."""
    return "diskne" if "diskne" in config else "cloze" if "setup" in config.data else "nli"


def of_pieces(config):
    return config.task != "cloze" and config.data.tokens == "pieces"


def of_folds(config):
    return config.task == "diskne"


def of_features(config):
    return config.model.name == "features"


def sparse_rows(config):
    """A model whose table of words is trained row by row, by plain SGD."""
    return config.model.name == "fasttext"


def takes_knowledge(config):
    return config.model.knowledge != "none"


def has_mentions(config):
    """Whether the concepts of a config come from a file."""
    return config.task != "cloze" and takes_knowledge(config) and bool(config.knowledge.mentions)


_TRAINS_ROWS = "model 'fasttext' trains rows of its own by plain SGD, and nothing else"
_FOLDS = "DisKnE has no such setting"
_FROM_0 = "give a number from 0 up"

RULES = (
    Rule("task", lambda task, config: task == kind(config), "leave it as the config file has it"),
    Rule(
        "model.name",
        lambda name, config: name in MODELS and (MODELS[name].task == "cloze") == (config.task == "cloze"),
        "give a model of the config's task, e.g. esim for nli, ga_reader for cloze",
        "{} is no model of the config's task",
    ),
    Rule("seeds", _seeds, "--config.seeds=0,1,2", "expected distinct numbers from 0 up"),
    # -- training
    *(at_least(f"train.{name}", 1) for name in ("epochs", "batch_size", "patience", "checkpoint_epochs", "group")),
    *(
        between(f"train.{name}", 0, 1e300, _FROM_0)
        for name in ("learning_rate", "weight_decay", "clip", "checkpoint_minutes")
    ),
    between("train.max_buckets", 1, 4),
    one_of("train.select", ("loss", "accuracy", "last")),
    one_of("train.precision", ("default", "bfloat16")),
    one_of("train.optimizer", ("adam", "amsgrad", "sgd", "adamw")),
    one_of("train.schedule", ("constant", "plateau", "halving", "cyclical", "linear", "warmup_linear")),
    Rule("train.momentum", lambda value, _: 0 <= value < 1, "give 0 or more, under 1"),
    Rule("train.decay", lambda value, _: 0 < value <= 1, "give a number over 0, at most 1"),
    at_least("train.halve_from", 1),
    between("train.floor", 0, 1),
    Rule("train.cycle", lambda value, _: value == 0 or value >= 2, "give at least 2, or 0 for an epoch"),
    Rule(
        "train.average_from",
        lambda value, config: 0 <= value <= config.train.epochs,
        "give an epoch, 1 to {config.train.epochs}, or 0 for none",
    ),
    Rule("train.warmup", lambda value, _: 0 <= value < 1, "give 0 or more, under 1"),
    at_least("train.accumulate", 1),
    at_least("train.average_every", 0, "give a number of steps, or 0 for the end of each epoch"),
    left_out(
        "train.momentum",
        "{}: this optimizer has no such setting",
        lambda config: config.train.optimizer != "sgd",
        "leave it out, or give optimizer sgd",
    ),
    left_out(
        "train.average_every",
        "nothing is averaged",
        lambda config: not config.train.average_from,
        "give config.train.average_from as well, or leave it out",
    ),
    left_out(
        "train.average_from",  # the plateau would put the average in the place of its samples
        "does not go with schedule 'plateau'",
        lambda config: config.train.schedule == "plateau",
        "leave one of them out",
    ),
    conflict(
        "train.select",  # every epoch is the best then
        "'last' does not go with schedule 'plateau'",
        lambda config: config.train.select == "last" and config.train.schedule == "plateau",
    ),
    # -- corpus
    one_of("data.setup", SETUPS),
    one_of("data.stray_marks", STRAY_MARKS),
    one_of("data.builder", ("direct", "tfds")),
    one_of("data.tokens", ("words", "pieces")),
    conflict(
        "data.tokens",
        "this model reads words",
        lambda config: (config.data.tokens == "pieces") > ("weights" in config.model),
        "leave it out, or give model bert",
    ),
    at_least("data.limit", 1, "give at least 1, or leave it out for all"),
    at_least("data.sample", 1, "give at least 1, or leave it out for all"),
    between("data.max_length", 1, MOST),
    *(
        at_least(f"data.{name}", 0, "give a number, or 0 for no limit")
        for name in ("max_passage", "max_query", "max_words")
    ),
    between("vectors.dim", 1, MOST),
    between("vectors.seed", 0, 2**32 - 1),
    at_least("vectors.retrofit_rounds", 0),
    left_out(
        "data.builder",
        "DisKnE has no TFDS builder",
        lambda config: of_folds(config) and config.data.builder != "direct",
    ),
    conflict(
        "data.builder",
        "a demo and files of your own have no TFDS builder",
        lambda config: config.data.builder == "tfds" and config.data.name in ("demo", "demo_full", "file"),
        "leave the builder out",
    ),
    *(
        left_out(field, "not of word pieces", of_pieces)
        for field in ("vectors.path", "vectors.retrofit", "data.features", "knowledge.mentions")
    ),
    left_out("data.features", "model 'features' has them already", of_features),
    # -- knowledge
    one_of("knowledge.direction", DIRECTIONS),
    one_of("knowledge.relations", RELATIONS),
    one_of("knowledge.cycles", CYCLES),
    at_least("knowledge.max_path", 0, "give a length, or 0 for no limit"),
    between("knowledge.max_links", 1, MOST),
    between("knowledge.min_length", 1, MOST, when=takes_knowledge),
    Rule(
        "knowledge.mentions",
        lambda path, _: not path or ending(path) in MENTION_READERS,
        f"give a file that ends in {', '.join(MENTION_READERS)} (.gz may follow)",
        "{}: the ending names no format",
        when=takes_knowledge,
    ),
    conflict(
        "knowledge.permute_seed",  # it moves names to other concepts, and a file of mentions names concepts themselves
        "has no effect on the concepts of config.knowledge.mentions",
        lambda config: has_mentions(config) and config.knowledge.permute_seed is not None,
    ),
    *(
        left_out(
            f"knowledge.{field}",
            "is for the linker, which config.knowledge.mentions replaces",
            has_mentions,
            "leave one of them out",
        )
        for field in ("types", "abbreviations", "stop")
    ),
    # -- models
    one_of("model.knowledge", ("none", "paths"), when=of_features),
    one_of("model.knowledge", ("none", "replace", "bias"), when=lambda config: not of_features(config)),
    one_of("model.weighting", ("auto", "paper", "exp", "learned")),
    one_of("model.masking", ("masked", "paper")),
    one_of("model.cell", ("lstm", "gru")),
    one_of("model.pooling", ("max", "mean", "last")),
    one_of("model.matching", ("full", "concat")),
    one_of("model.attention", ("bilinear", "dot", "mlp", "average", "last")),
    one_of("model.gate", ("mul", "sum", "concat")),
    one_of("model.pointer", ("sum", "mean", "span")),
    *(at_least(f"model.{name}", 1) for name in ("hidden_size", "dim", "buckets", "hops", "trees", "depth", "heads")),
    Rule("model.knowledge_scale", lambda value, _: isfinite(value), "give a finite number"),
    Rule("model.dropout", lambda value, _: 0 <= value < 1, "give 0 or more, under 1"),
    Rule("model.learning_rate", lambda value, _: 0 < value < inf, "give a number over 0"),
    Rule("model.subsample", lambda value, _: 0 < value <= 1, "give a number over 0, at most 1"),
    conflict(
        "model.pooling",  # the attended states are appended along time: they have no last state of either direction
        "'last' cannot pool knowledge-directed attention",
        lambda config: config.model.pooling == "last" and config.model.knowledge != "none",
        "use max or mean, or knowledge none",
    ),
    conflict(
        "model.pointer",
        "{}: outside the set-up 'noent' a phrase is one token",
        lambda config: config.model.pointer != "sum" and config.data.setup != "noent",
        "give sum, or --config.data.setup=noent",
    ),
    conflict(
        "model.heads",
        "a corpus alone has one domain",
        lambda config: config.model.heads > 1 and not config.data.mix,
        "give config.data.mix, or leave it out",
    ),
    *(
        Rule(field, good, f"give {value}", _TRAINS_ROWS, sparse_rows)
        for field, good, value in (
            ("train.optimizer", lambda value, _: value == "sgd", "sgd"),
            ("train.momentum", lambda value, _: value == 0, "0"),
            ("train.weight_decay", lambda value, _: value == 0, "0"),
            ("train.clip", lambda value, _: value == 0, "0"),
            ("model.train_vectors", lambda value, _: value, "True"),
            ("vectors.path", lambda value, _: not value, "''"),
            ("vectors.retrofit", lambda value, _: not value, "''"),
            ("data.features", lambda value, _: not value, "False"),
        )
    ),
    # -- transfer
    *(
        Rule(field, _pattern, "e.g. 'logits|layer_1'", "{} is no regular expression")
        for field in ("transfer.skip", "transfer.freeze")
    ),
    *(
        left_out(
            f"transfer.{field}",
            "there is no source run",
            lambda config: not config.transfer.init_from,
            "give config.transfer.init_from, too",
        )
        for field in ("private", "skip")
    ),
    *(
        left_out(field, "features have no weights to transfer", of_features)
        for field in ("transfer.init_from", "transfer.freeze", "data.mix")
    ),
    left_out(
        "transfer.private",
        "this model has no layers of its own for each domain",
        lambda config: config.model.name not in PRIVATE,
    ),
    # -- DisKnE
    *(left_out(f"data.{field}", _FOLDS, of_folds) for field in ("genre", "limit", "sample", "mix", "features")),
    Rule(
        "seeds",
        lambda seeds, _: max(seeds) <= MOST_SEED,
        "--config.seeds=0,1,2",
        f"of folds a seed is at most {MOST_SEED}",
        of_folds,
    ),
    conflict(
        "model.name",
        "features have no folds",
        lambda config: of_folds(config) and of_features(config),
        "give a network, such as esim",
    ),
    left_out("transfer.init_from", "folds start anew", of_folds),
    at_least("diskne.at_once", 0, "give a number, or 0 for all"),
    at_least("diskne.least", 1),
    Rule("diskne.dev", lambda value, _: 0 < value < 1, "give a share over 0 and under 1"),
    one_of("diskne.pool", ("group", "all")),
    one_of("diskne.wording", ("", *WORDINGS)),
    Rule(
        "diskne.categories",
        lambda names, _: set(several(names)) <= set(CATEGORIES),
        f"give some of {', '.join(CATEGORIES)}",
        "a category is unknown",
    ),
    left_out(
        "diskne.wording",
        "the files have it",
        lambda config: config.data.name == "file",
        "leave it out, or build other files",
    ),
    left_out(
        "diskne.negatives",
        "the files have them",
        lambda config: config.data.name in ("file", "mednli"),
        "leave it out, or build other files",
    ),
)


def check(config) -> None:
    """Raises ConfigError for the first rule that a config breaks."""
    for rule in RULES:
        rule.check(config)
