"""The rules for configs: one table of fields, ranges and conditions, checked before any file is read.

Each rule names one field and applies to configs that have it. A rule with `when` applies to some of these configs.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ml_collections import config_dict

from mednli_jax.corpora.cloze.clicr import STRAY_MARKS
from mednli_jax.corpora.cloze.views import SETUPS
from mednli_jax.corpora.demo.facts import CONTENTS
from mednli_jax.corpora.diskne.benchmark import CATEGORIES, WORDINGS
from mednli_jax.corpora.diskne.fold_batches import MOST_SEED
from mednli_jax.corpora.nli.concepts import MENTION_READERS, ending
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.distances import DIRECTIONS
from mednli_jax.knowledge.ontology import CYCLES, GRAPHS, RELATIONS
from mednli_jax.models.table import entry
from mednli_jax.training.transfer import PRIVATE

MOST = (1 << 15) - 1  # largest length or dimension; they are stored in 16 bits
COUNT = 10**9  # largest number of rows, steps or epochs; they are counted in 32 bits
LARGE = 1e30  # largest number that is computed with in 32-bit floating point
SHOWN = 200  # most characters of a value in a message
NAME = 4096  # bytes of the longest path that Linux opens


@dataclass(frozen=True)
class Rule:
    """One condition on one field.

    Args:
      field: dotted name without `config.`.
      good: (value, config) -> whether the value is allowed.
      fix: the text after "Fix: "; it may contain other fields of the config, as {config.train.epochs}.
      problem: what is wrong; "" where field and value are enough.
      when: config -> whether the rule applies.
    """

    field: str
    good: Callable[[Any, Any], bool]
    fix: str
    problem: str = ""
    when: Callable[[Any], bool] = lambda config: True

    def check(self, config) -> None:
        """Raises ConfigError where the config has the field with a value that is not allowed."""
        section, value = config, None
        for part in self.field.split("."):
            if part not in section:
                return
            section = value = section[part]
        if not self.when(config) or self.good(value, config):
            return
        shown = repr(value) if len(repr(value)) <= SHOWN else f"{repr(value)[:SHOWN]} ..."
        problem = f": {self.problem.format(shown)}" if self.problem else f" is {shown}"
        raise ConfigError(f"config.{self.field}{problem}. Fix: {self.fix.format(config=config)}.")


def between(field: str, least: float, most: float, zero: str | None = "", **when) -> Rule:
    """least <= value <= most, which excludes nan.

    zero: the meaning of 0 where 0 is also allowed; None where the field may be left out.
    """
    fix = f"give {least} to {most}" + (f", or 0 for {zero}" if zero else ", or leave it out" if zero is None else "")

    def good(value, _):
        return value is None or least <= value <= most or (value == 0 and bool(zero))

    return Rule(field, good, fix, **when)


def one_of(field: str, known: Sequence[str], **when) -> Rule:
    return Rule(field, lambda value, _: value in known, f"give one of {', '.join(known)}", "unknown value {}", **when)


def left_out(fields: str, problem: str, when: Callable, fix: str = "leave it out") -> list[Rule]:
    """Rules that fields (names separated by spaces) have their empty value (0, "", None, False) where `when` holds."""
    return [Rule(field, lambda value, _: not value, fix, problem, when) for field in fields.split()]


def _pattern(text, _):
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _paths(value, _):
    """Whether the system accepts each path of a field: short names, and no ~USER of an unknown user."""
    for path in value.split("+") if isinstance(value, str) else several(value or ()):
        names = [len(os.fsencode(name)) for name in path.split("/")]
        if max(names) > 255 or sum(names) + len(names) > NAME or os.path.expanduser(path).startswith("~"):
            return False
    return True


def _seeds(seeds, _):
    whole = all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in seeds)
    return bool(seeds) and whole and len(set(seeds)) == len(seeds)


def several(values: Sequence[str]) -> list[str]:
    """The names in a tuple of a config. The command line sets an empty tuple as one string with commas."""
    return [name for value in values for name in str(value).split(",") if name]


def kind(config) -> str:
    """The task for which a config was made."""
    if "diskne" in config:
        return "diskne"
    return "cloze" if "setup" in config.data else "mlm" if "content" in config.data else "nli"


def of_pieces(config):
    return "tokens" in config.data and config.data.tokens == "pieces"


def of_blanks(config):
    return "tokens" in config.data and config.data.tokens == "blanks"


def of_blanks_and_concepts(config):
    return of_blanks(config) and config.vectors.retrofit == "concepts"


def of_folds(config):
    return config.task == "diskne"


def of_features(config):
    return config.model.name == "features"


def takes_knowledge(config):
    return "knowledge" in config and config.model.knowledge != "none"


def of_types(config):
    return takes_knowledge(config) and config.model.knowledge == "typed"


def named_relations(value: str) -> tuple[str, ...]:
    """The names in a config's knowledge.relations; () where it is one of RELATIONS."""
    names = () if value in RELATIONS else (name.strip() for name in value.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def has_mentions(config):
    """Whether the concepts of a config come from a file."""
    return takes_knowledge(config) and bool(config.knowledge.mentions)


CHOICES = {
    "train.select": ("loss", "accuracy", "last"),
    "train.precision": ("default", "float32", "tf32", "bfloat16"),
    "train.optimizer": ("adam", "amsgrad", "sgd", "adamw"),
    "train.schedule": ("constant", "plateau", "halving", "cyclical", "linear", "warmup_linear"),
    "data.setup": SETUPS,
    "data.stray_marks": STRAY_MARKS,
    "data.builder": ("direct", "tfds"),
    "data.tokens": ("words", "pieces", "blanks"),
    "data.keep": ("first", "last"),
    "data.content": CONTENTS,
    "vectors.unknown": ("mean", "random"),
    "train.shuffle": ("even", "random", "binned"),
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
    "diskne.pool": ("group", "all"),
    "diskne.wording": ("", *WORDINGS),
}
NUMBERS = (  # fields, least, most, meaning of 0 (see `between`)
    ("data.max_length vectors.dim model.hidden_size model.intermediate_size model.positions", 1, MOST, ""),
    ("knowledge.max_links knowledge.min_length model.dim model.attention_heads diskne.least", 1, MOST, ""),
    ("train.batch_size", 1, 1 << 16, ""),
    ("train.patience train.checkpoint_epochs train.halve_from train.accumulate", 1, COUNT, ""),
    ("train.epochs", 1, 10_000, ""),
    ("train.group model.layers model.hops model.depth model.heads", 1, 64, ""),  # each is compiled separately
    ("train.max_buckets", 1, 4, ""),
    ("model.buckets", 1, 1 << 30, ""),
    ("model.trees", 1, 100_000, ""),
    ("data.pieces", 1, 1 << 20, ""),
    ("model.vocab_size", 1, 1 << 24, "that of the corpus"),
    ("model.characters", 1, MOST, "none"),
    ("data.limit data.sample", 1, COUNT, None),
    ("data.max_passage data.max_query data.max_words", 1, COUNT, "no limit"),
    ("knowledge.max_path", 1, MOST, "no limit"),
    ("diskne.at_once", 1, COUNT, "as many as fit"),
    ("train.average_every train.evaluate_every", 1, COUNT, "the steps of an epoch"),
    ("train.cycle", 2, COUNT, "the steps of an epoch"),
    ("train.least_epochs", 0, COUNT, ""),
    ("vectors.retrofit_rounds", 0, 1000, ""),
    ("vectors.seed knowledge.permute_seed diskne.negatives_seed", 0, 2**32 - 1, ""),
    ("train.floor", 0, 1, ""),
    ("model.epsilon", 1e-30, 1, ""),
    ("train.learning_rate train.weight_decay train.clip vectors.random_sd", 0, LARGE, ""),
    ("train.checkpoint_minutes", 0, LARGE, ""),
    ("model.knowledge_scale", -LARGE, LARGE, ""),
    ("model.learning_rate", 1e-30, LARGE, ""),
)
PATHS = """data.dir data.answer_vectors vectors.path vectors.retrofit knowledge.ontology knowledge.mentions
    knowledge.abbreviations knowledge.stop model.weights transfer.init_from diskne.annotations"""
# Fields whose values the training of fasttext fixes.
BY_ROWS = {
    **{"train.optimizer": "sgd", "train.momentum": 0, "train.weight_decay": 0, "train.clip": 0},
    **{"model.train_vectors": True, "vectors.path": "", "vectors.retrofit": "", "data.features": False},
}
_SHARE = (lambda value, _: 0 <= value < 1, "give 0 or more, under 1")
_PART = (lambda value, _: 0 < value <= 1, "give a number over 0, at most 1")
_NO_SOURCE = "also give config.transfer.init_from"
_OTHER_FILES = "leave it out, or build other files"

RULES = (
    Rule("task", lambda task, c: task == kind(c), "leave it as in the config file"),
    Rule(
        "model.name",
        lambda name, c: entry(name).task == {"diskne": "nli"}.get(c.task, c.task),
        "give a model of the config's task, e.g. esim for nli, ga_reader for cloze",
        "{} is not a model for the config's task",
    ),
    Rule("seeds", _seeds, "--config.seeds=0,1,2", "expected distinct numbers from 0 up"),
    *(one_of(field, known) for field, known in CHOICES.items()),
    *(between(field, *limits) for fields, *limits in NUMBERS for field in fields.split()),
    *(Rule(field, _paths, "give a path", "is not a path that can be opened") for field in PATHS.split()),
    *(Rule(field, *_SHARE) for field in ("train.momentum", "train.warmup", "model.dropout")),
    *(Rule(field, *_PART) for field in ("train.decay", "model.subsample")),
    # A row has three special pieces and at least one piece of the text.
    between("data.max_length", 4, MOST, when=lambda c: c.task == "mlm"),
    # -- training
    Rule(
        "train.average_from",
        lambda value, c: 0 <= value <= c.train.epochs,
        "give an epoch, 1 to {config.train.epochs}, or 0 for none",
    ),
    *left_out(
        "train.momentum",
        "{}: this optimizer has no such setting",
        lambda c: c.train.optimizer != "sgd",
        "leave it out, or give optimizer sgd",
    ),
    *left_out(
        "train.average_every",
        "nothing is averaged",
        lambda c: not c.train.average_from,
        "give config.train.average_from as well, or leave it out",
    ),
    *left_out(
        "train.average_from",  # the plateau would replace the weights by their average
        "cannot be combined with schedule 'plateau'",
        lambda c: c.train.schedule == "plateau",
        "leave one of them out",
    ),
    *left_out(
        "train.select",  # with 'last' every epoch counts as the best, so the rate would never change
        "'last' cannot be combined with schedule 'plateau'",
        lambda c: c.train.select == "last" and c.train.schedule == "plateau",
        "leave one of them out",
    ),
    one_of("train.shuffle", ("even", "random"), when=lambda c: c.task != "cloze"),
    # -- corpus
    *left_out(
        "data.tokens",
        "this model reads words",
        lambda c: (c.data.tokens == "pieces") > ("weights" in c.model),
        "leave it out, or give model bert",
    ),
    *left_out("data.builder", "DisKnE has no TFDS builder", lambda c: of_folds(c) and c.data.builder != "direct"),
    *left_out(
        "data.builder",
        "the demo corpora and your own files have no TFDS builder",
        lambda c: c.data.builder == "tfds" and c.data.name in ("demo", "demo_full", "file"),
        "leave the builder out",
    ),
    *left_out("vectors.path vectors.retrofit data.features knowledge.mentions", "not for word pieces", of_pieces),
    *left_out("data.features", "model 'features' always has them", of_features),
    # -- knowledge
    Rule(
        "knowledge.mentions",
        lambda path, _: not path or ending(path) in MENTION_READERS,
        f"give a file that ends in {', '.join(MENTION_READERS)} (.gz may follow)",
        "{}: unknown file ending",
        takes_knowledge,
    ),
    Rule(
        "knowledge.permute_seed",  # it gives names to other concepts, but a file of mentions does not use names
        lambda seed, _: seed is None,
        "leave one of them out",
        "has no effect on the concepts of config.knowledge.mentions",
        has_mentions,
    ),
    *left_out(
        "knowledge.types knowledge.abbreviations knowledge.stop",
        "is for the linker, which config.knowledge.mentions replaces",
        has_mentions,
        "leave one of them out",
    ),
    Rule(
        "model.knowledge",  # the positions of concepts refer to the tokens of the corpus
        lambda knowledge, _: knowledge == "none",
        "leave one of them out",
        "concepts are not found in config.data.tokens 'blanks'",
        of_blanks,
    ),
    *left_out("vectors.retrofit", "'concepts' are not found in config.data.tokens 'blanks'", of_blanks_and_concepts),
    # -- models
    one_of("model.knowledge", ("none", "paths"), when=of_features),
    one_of("model.knowledge", ("none", "replace", "bias", "typed"), when=lambda c: c.model.name == "esim"),
    one_of("model.knowledge", ("none", "replace", "bias"), when=lambda c: c.model.name not in ("esim", "features")),
    Rule(
        "knowledge.relations",
        lambda value, c: value in RELATIONS or (of_types(c) and bool(named_relations(value))),
        f"give one of {', '.join(RELATIONS)}; with knowledge 'typed' also names of relations separated by commas",
    ),
    *left_out(
        "model.masking",
        "'paper' cannot be combined with knowledge 'typed'",
        lambda c: of_types(c) and c.model.masking == "paper",
        "give masked",
    ),
    Rule(
        "model.weighting",
        lambda value, _: value == "auto",
        "leave it out",
        "{}: typed relations have no weights of path lengths",
        lambda c: of_types(c),
    ),
    *left_out(
        "model.pooling",  # attended states are appended along the time axis, where they have no last state
        "'last' cannot pool knowledge-directed attention",
        lambda c: c.model.pooling == "last" and c.model.knowledge != "none",
        "use max or mean, or knowledge none",
    ),
    *left_out(
        "model.pointer",
        "{}: outside the set-up 'noent' a phrase is one token",
        lambda c: c.model.pointer != "sum" and c.data.setup != "noent",
        "give sum, or --config.data.setup=noent",
    ),
    *left_out(
        "data.renumber",
        "phrases have numbers only in the set-up 'anonym'",
        lambda c: c.data.setup != "anonym",
        "leave it out, or give --config.data.setup=anonym",
    ),
    *left_out(
        "model.heads",
        "a single corpus has one domain",
        lambda c: c.model.heads > 1 and not c.data.mix,
        "give config.data.mix, or leave it out",
    ),
    *(
        Rule(
            field,
            lambda value, _, fixed=fixed: (value or "") == (fixed or ""),
            f"give {fixed or repr(fixed)}",
            "model 'fasttext' only trains single rows of its table by plain SGD",
            lambda c: c.model.name == "fasttext",
        )
        for field, fixed in BY_ROWS.items()
    ),
    # -- transfer
    *(
        Rule(f"transfer.{name}", _pattern, "e.g. 'logits|layer_1'", "{} is not a regular expression")
        for name in ("skip", "freeze")
    ),
    *left_out(
        "transfer.private transfer.skip", "there is no source run", lambda c: not c.transfer.init_from, _NO_SOURCE
    ),
    *left_out("transfer.init_from transfer.freeze data.mix", "features have no weights to transfer", of_features),
    *left_out(
        "transfer.private", "this model has no separate layers for each domain", lambda c: c.model.name not in PRIVATE
    ),
    # -- DisKnE
    *left_out("data.genre data.limit data.sample data.mix data.features", "DisKnE has no such setting", of_folds),
    Rule(
        "seeds",
        lambda seeds, _: max(seeds) <= MOST_SEED,
        "--config.seeds=0,1,2",
        f"with folds a seed is at most {MOST_SEED}",
        of_folds,
    ),
    *left_out(
        "model.name", "features have no folds", lambda c: of_folds(c) and of_features(c), "give a network, such as esim"
    ),
    *left_out("transfer.init_from", "folds cannot start from a run", of_folds),
    Rule("diskne.dev", lambda value, _: 0 < value < 1, "give a share over 0 and under 1"),
    Rule(
        "diskne.categories",
        lambda names, _: set(several(names)) <= set(CATEGORIES),
        f"give some of {', '.join(CATEGORIES)}",
        "a category is unknown",
    ),
    *left_out("diskne.wording", "the files fix the wording", lambda c: c.data.name == "file", _OTHER_FILES),
    *left_out("diskne.negatives", "the files fix the negatives", lambda c: c.data.name == "file", _OTHER_FILES),
)


def check(config) -> None:
    """Raises ConfigError for the first rule that a config breaks."""
    _check_strings(config, "config")
    for rule in RULES:
        rule.check(config)


def _check_strings(value, field) -> None:
    """Raises ConfigError for a string that is not one line of valid text, because messages and file names need that."""
    if isinstance(value, config_dict.ConfigDict):
        for name in value:
            _check_strings(value[name], f"{field}.{name}")
        return
    for text in value if isinstance(value, tuple) else (value,):
        try:
            lines = os.fsdecode(os.fsencode(text)).splitlines() if isinstance(text, str) else ()
        except UnicodeEncodeError:  # half a surrogate
            lines = ("", "")
        if len(lines) > 1 or (lines and lines[0] != text):
            raise ConfigError(f"{field} is not a line of text. Fix: leave out line breaks and broken characters.")
