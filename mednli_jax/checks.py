"""The rules for configs that absl and ConfigDict do not check. They are checked before any file is read.

A rule names a field and applies to the configs that have it.
"""

import re
from collections.abc import Iterator, Sequence

from mednli_jax.cloze.encoding import SETUPS
from mednli_jax.diskne.benchmark import CATEGORIES, WORDINGS
from mednli_jax.diskne.folds import MOST_SEED
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.distances import DIRECTIONS
from mednli_jax.knowledge.mentions import ENDINGS
from mednli_jax.knowledge.ontology import CYCLES, GRAPHS, RELATIONS
from mednli_jax.models.table import entry
from mednli_jax.nli.concepts import ending
from mednli_jax.training.transfer import PRIVATE

SIZE = (1 << 15) - 1  # largest length or dimension; they are stored in 16 bits
LEAVE = "leave it out"
COUNT = 10**9  # largest number of rows, steps or epochs; they are counted in 32 bits


def several(values: Sequence[str]) -> list[str]:
    """The names in a tuple of a config. The command line sets an empty tuple as one string with commas."""
    return [name for value in values for name in str(value).split(",") if name]


def named_relations(value: str) -> tuple[str, ...]:
    """The names in a config's knowledge.relations; () where it is one of RELATIONS."""
    names = () if value in RELATIONS else (name.strip() for name in value.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def of_pieces(config):
    return "tokens" in config.data and config.data.tokens == "pieces"


def of_blanks(config):
    return "tokens" in config.data and config.data.tokens == "blanks"


def of_folds(config):
    return config.task == "diskne"


def of_features(config):
    return config.model.name == "features"


def of_rows(config):
    """Whether the model trains only single rows of its table, by plain SGD."""
    return config.model.name == "fasttext"


def of_types(config):
    return config.model.knowledge == "typed"


def has_mentions(config):
    """Whether the concepts of a config come from a file."""
    return config.model.knowledge != "none" and bool(config.knowledge.mentions)


KNOWLEDGE = {"esim": ("none", "replace", "bias", "typed"), "features": ("none", "paths")}  # other models: no "typed"
CHOICES = {
    "train.select": ("loss", "accuracy", "last"),
    "train.precision": ("default", "float32", "tf32", "bfloat16"),
    "train.optimizer": ("adam", "amsgrad", "sgd", "adamw"),
    "train.schedule": ("constant", "plateau", "halving", "linear", "warmup_linear"),
    "train.shuffle": ("even", "random", "binned"),
    "data.setup": SETUPS,
    "data.builder": ("direct", "tfds"),
    "data.tokens": ("words", "pieces", "blanks"),
    "data.keep": ("first", "last"),
    "vectors.unknown": ("mean", "random"),
    "knowledge.direction": DIRECTIONS,
    "knowledge.cycles": CYCLES,
    "knowledge.graph": GRAPHS,
    "knowledge.candidates": ("best", "all"),
    "model.weighting": ("auto", "paper", "exp", "learned"),
    "model.masking": ("masked", "paper"),
    "model.cell": ("lstm", "gru"),
    "model.pooling": ("max", "mean", "last"),
    "model.matching": ("full", "concat"),
    "model.attention": ("bilinear", "dot", "mlp", "average", "last"),
    "model.gate": ("mul", "sum", "concat"),
    "model.pointer": ("sum", "share", "mean", "span"),
    "diskne.wording": ("", *WORDINGS),
}

NUMBERS = {
    (1, SIZE): """data.max_length vectors.dim knowledge.max_links model.dim
        model.hidden_size model.intermediate_size model.positions
        model.attention_heads model.layers model.hops model.heads""",
    (0, SIZE): "model.characters knowledge.max_path",
    (1, COUNT): """data.limit data.sample data.pieces diskne.least
        train.batch_size train.epochs train.patience
        train.checkpoint_epochs train.halve_from train.group
        model.buckets model.trees""",
    (0, COUNT): """data.max_passage data.max_words diskne.at_once
        train.average_every train.average_from train.evaluate_every
        train.least_epochs vectors.retrofit_rounds""",
    (0, 2**32 - 1): "vectors.seed knowledge.permute_seed",
    (1, 4): "train.max_buckets",
    (0, 1e30): """train.learning_rate train.weight_decay train.clip
        train.checkpoint_minutes vectors.random_sd""",
    (-1e30, 1e30): "model.knowledge_scale",
    (0, 0.999): "train.warmup model.dropout",
}

# Fields that must be 0, "", "none", None, False or () where the function holds for the config, and the reason.
EMPTY = (
    ("train.average_every", lambda c: not c.train.average_from, "needs config.train.average_from"),
    ("train.average_from", lambda c: c.train.schedule == "plateau", "is not for schedule 'plateau'"),
    (
        "vectors.path vectors.retrofit data.features knowledge.mentions",
        of_pieces,
        "word pieces do not use it",
    ),
    ("data.genre data.limit data.sample data.mix data.features", of_folds, "DisKnE has no such setting"),
    ("data.renumber", lambda c: c.data.setup != "anonym", "is for config.data.setup 'anonym'"),
    ("model.knowledge", of_blanks, "concepts are not found in config.data.tokens 'blanks'"),
    (
        "knowledge.types knowledge.abbreviations knowledge.stop",
        has_mentions,
        "is for the linker, which config.knowledge.mentions replaces",
    ),
    ("transfer.private", lambda c: not c.transfer.init_from, "needs config.transfer.init_from"),
    ("transfer.private", lambda c: c.model.name not in PRIVATE, "this model has no layers of a domain"),
    ("transfer.init_from transfer.freeze data.mix", of_features, "features have no weights to transfer"),
    ("transfer.init_from", of_folds, "folds cannot start from a run"),
    ("diskne.wording diskne.negatives", lambda c: c.data.name == "file", "the files decide it"),
    (
        "train.weight_decay train.clip vectors.path vectors.retrofit data.features",
        of_rows,
        "model 'fasttext' has no such setting",
    ),
)


def check(config) -> None:
    """Raises ConfigError for the first rule that a config breaks."""
    for field, known in CHOICES.items():
        if (value := _value(config, field)) is not None and value not in known:
            raise ConfigError(f"config.{field}: unknown value '{value}'. Fix: give one of {', '.join(known)}.")
    for (least, most), fields in NUMBERS.items():
        for field in fields.split():
            if (value := _value(config, field)) is not None and not least <= value <= most:
                raise ConfigError(f"config.{field} is {value}. Fix: give {least} to {most}.")
    for fields, where, reason in EMPTY:
        for field in fields.split():
            if _value(config, field) not in (None, "", "none", 0, ()) and where(config):
                raise ConfigError(f"config.{field}: {reason}. Fix: leave it out.")
    for field, problem, fix in _broken(config):
        raise ConfigError(f"config.{field}: {problem}. Fix: {fix}.")


def _value(config, field):
    """The value of `section.field`; None where the config lacks it."""
    section, _, name = field.partition(".")
    return config[section].get(name) if section in config else None


def _broken(config) -> Iterator[tuple[str, str, str]]:
    """(field, what is wrong, the fix) of each other rule that a config breaks."""
    task = "nli" if of_folds(config) else config.task
    if entry(config.model.name).task != task:
        fix = "give e.g. esim for nli, ga_reader for cloze"
        yield "model.name", "is not a model for the config's task", fix
    seeds = config.seeds
    whole = all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds)
    if not seeds or len(set(seeds)) < len(seeds) or not whole:
        yield "seeds", "expected distinct numbers from 0 up", "--config.seeds=0,1,2"
    if config.train.average_from > config.train.epochs:
        yield "train.average_from", "is over config.train.epochs", "give a lower epoch, or leave it out"
    if config.train.select == "last" and config.train.schedule == "plateau":
        # Every epoch counts as the best, so the rate would never change.
        yield "train.select", "'last' is not for 'plateau'", "give loss or accuracy"
    if not _is_pattern(_value(config, "transfer.freeze") or ""):
        yield "transfer.freeze", "is not a regular expression", "e.g. 'logits|layer_1'"
    if config.train.shuffle == "binned" and config.task != "cloze":
        yield "train.shuffle", "'binned' is for passages", "give even or random"
    if config.task in ("nli", "diskne"):
        yield from _of_pairs(config)
    elif config.model.get("pointer", "sum") != "sum" and config.data.setup != "noent":
        yield "model.pointer", "a phrase is one token", "give sum, or --config.data.setup=noent"


def _is_pattern(text):
    try:
        return bool(re.compile(text))
    except re.error:
        return False


def _of_pairs(config):
    data, model, knowledge = config.data, config.model, config.knowledge
    folds, types = of_folds(config), of_types(config)
    if folds and max(config.seeds) > MOST_SEED:
        yield "seeds", f"with folds a seed is at most {MOST_SEED}", "--config.seeds=0,1,2"
    if of_rows(config) and config.train.optimizer != "sgd":
        yield "train.optimizer", "model 'fasttext' is trained by sgd alone", "give sgd"
    if of_pieces(config) and "weights" not in model:
        yield "data.tokens", "this model reads words", "leave it out, or give model bert"
    without = folds or data.name in ("demo", "demo_full", "file")
    if data.builder == "tfds" and without:
        yield "data.builder", "this corpus has no TFDS builder", LEAVE
    if of_blanks(config) and config.vectors.retrofit == "concepts":
        yield "vectors.retrofit", "tokens 'blanks' have no concepts", LEAVE
    if knowledge.mentions and ending(knowledge.mentions) not in ENDINGS:
        known = ", ".join(ENDINGS)
        yield "knowledge.mentions", "unknown file ending", f"give a file that ends in {known} (.gz may follow)"
    if has_mentions(config) and knowledge.permute_seed is not None:
        # It gives names to other concepts, but a file of mentions does not use names.
        yield "knowledge.permute_seed", "has no effect on config.knowledge.mentions", LEAVE
    forms = KNOWLEDGE.get(model.name, ("none", "replace", "bias"))
    if model.knowledge not in forms:
        yield "model.knowledge", f"unknown value '{model.knowledge}'", f"give one of {', '.join(forms)}"
    named = types and named_relations(knowledge.relations)
    if knowledge.relations not in RELATIONS and not named:
        also = "with knowledge 'typed' also names of relations"
        known = ", ".join(RELATIONS)
        yield "knowledge.relations", "unknown value", f"give one of {known}; {also}"
    if types and model.masking == "paper":
        yield "model.masking", "'paper' is not for knowledge 'typed'", "give masked"
    if types and model.weighting != "auto":
        yield "model.weighting", "typed relations have no such weights", LEAVE
    if model.knowledge != "none" and model.get("pooling") == "last":
        # Attended states are appended along the time axis, where they have no last state.
        yield "model.pooling", "'last' cannot pool attention over links", "give max or mean"
    if model.get("heads", 1) > 1 and not data.mix:
        yield "model.heads", "a single corpus has one domain", "give config.data.mix, or leave it out"
    if folds and set(several(config.diskne.categories)) - set(CATEGORIES):
        yield "diskne.categories", "a category is unknown", f"give some of {', '.join(CATEGORIES)}"
