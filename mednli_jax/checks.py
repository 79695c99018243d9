"""The rules for configs that absl and ConfigDict do not check. They apply to configs that have the
named field."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ml_collections import ConfigDict

from mednli_jax import tasks
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.distances import DIRECTIONS
from mednli_jax.knowledge.ontology import GRAPHS
from mednli_jax.models.table import Entry, entry
from mednli_jax.training import optim
from mednli_jax.training.transfer import PRIVATE
from mednli_jax.types import Json

SIZE = (1 << 15) - 1  # largest length or dimension; they are stored in 16 bits
# largest number of rows, steps or epochs; they are counted in 32 bits
COUNT = 10**9
CHOICES = {
    "train.select": ("loss", "accuracy", "last"),
    "train.precision": ("default", "float32", "tf32", "bfloat16"),
    "train.optimizer": optim.OPTIMIZERS,
    "train.schedule": optim.SCHEDULES,
    "train.shuffle": ("even", "random", "binned"),
    "train.debias": ("", "hypothesis"),
    "data.builder": ("direct", "tfds"),
    "data.tokens": ("words", "pieces", "blanks"),
    "data.keep": ("first", "last"),
    "vectors.unknown": ("mean", "random"),
    "knowledge.direction": DIRECTIONS,
    "knowledge.graph": GRAPHS,
    "knowledge.candidates": ("best", "all"),
    "model.weighting": ("auto", "paper", "exp", "learned"),
    "model.masking": ("masked", "paper"),
    "model.cell": ("lstm", "gru"),
    "model.pooling": ("max", "mean", "last"),
    "model.matching": ("full", "concat"),
    "model.pointer": ("sum", "share", "mean", "span"),
}

NUMBERS = {
    (1, SIZE): """data.max_length vectors.dim knowledge.max_links model.dim
        model.hidden_size model.intermediate_size model.positions
        model.attention_heads model.layers model.hops""",
    (0, SIZE): "knowledge.max_path",
    (1, COUNT): """data.limit data.pieces
        train.batch_size train.epochs train.patience
        train.checkpoint_epochs train.halve_from train.group
        model.buckets model.trees""",
    (0, COUNT): """data.max_passage data.max_words diskne.at_once
        train.evaluate_every train.least_epochs vectors.retrofit_rounds""",
    (0, 2**32 - 1): "vectors.seed knowledge.permute_seed data.augment_seed",
    (1, 4): "train.max_buckets",
    (0, 1e30): """train.learning_rate train.weight_decay train.clip
        train.checkpoint_minutes vectors.random_sd
        data.augment""",
    (-1e30, 1e30): "model.knowledge_scale",
    (0, 0.999): "train.warmup model.dropout",
}

# Fields that must be 0, "", "none", None, False or () where the function holds for the config, and
# the reason.
EMPTY: Sequence[tasks.EmptyFields] = (
    (
        "transfer.private",
        lambda config: not config.transfer.init_from,
        "needs config.transfer.init_from",
    ),
    (
        "transfer.private",
        lambda config: config.model.name not in PRIVATE,
        "this model has no layers of a domain",
    ),
)


def check(config: ConfigDict) -> tuple[tasks.Task, Entry]:
    """Checks a config and returns its task and model. Raises ConfigError for the first rule that
    the config breaks."""
    task, model = tasks.task_of(config), entry(config.model.name)
    _check_choices(config, {**CHOICES, **task.choices})
    _check_numbers(config)
    _check_empty(config, (*EMPTY, *task.empty))
    for field, problem, fix in chain(_broken_rules(config, task, model), task.rules(config)):
        raise ConfigError(problem, field=field, fix=fix)
    return task, model


def _value(config: ConfigDict, field: str) -> Json:
    """The value of `section.field`; None if the config lacks it."""
    section, _, name = field.partition(".")
    return config[section].get(name) if section in config else None


def _check_choices(config: ConfigDict, choices: Mapping[str, Sequence[str]]) -> None:
    for field, allowed in choices.items():
        value = _value(config, field)
        if value is not None and value not in allowed:
            fix = f"give one of {', '.join(filter(None, allowed))}"
            raise ConfigError(f"unknown value '{value}'", field=field, fix=fix)


def _check_numbers(config: ConfigDict) -> None:
    for (least, most), fields in NUMBERS.items():
        for field in fields.split():
            value = _value(config, field)
            if value is not None and not least <= value <= most:
                fix = f"give {least} to {most}"
                raise ConfigError(f"is {value}", field=field, fix=fix)


def _check_empty(config: ConfigDict, rules: Sequence[tasks.EmptyFields]) -> None:
    for fields, applies, reason in rules:
        for field in fields.split():
            is_set = _value(config, field) not in (None, "", "none", 0, ())
            if is_set and applies(config):
                raise ConfigError(reason, field=field, fix="leave it out")


def _broken_rules(config: ConfigDict, task: tasks.Task, model: Entry) -> Iterator[tasks.BrokenRule]:
    """Yields the other rules that a config breaks."""
    if not task.accepts(model.name, model.module):
        problem = "is not a model for the config's task"
        yield "model.name", problem, f"give e.g. {task.models[-1]}"
    seeds = config.seeds
    are_numbers = all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds)
    if not seeds or len(set(seeds)) < len(seeds) or not are_numbers:
        yield "seeds", "expected distinct numbers from 0 up", "give e.g. 0,1,2"
