"""The models by name, and the one place where a config's `model` section becomes a linen module."""

import dataclasses

from mednli_jax.errors import UserError
from mednli_jax.models.bert import BERT
from mednli_jax.models.bow import BOW
from mednli_jax.models.esim import ESIM
from mednli_jax.models.fasttext import FastText
from mednli_jax.models.ga_reader import GAReader
from mednli_jax.models.infersent import InferSent
from mednli_jax.models.sa_reader import SAReader

MODELS = {
    "bow": BOW,
    "infersent": InferSent,
    "esim": ESIM,
    "fasttext": FastText,
    "bert": BERT,
    "ga_reader": GAReader,
    "sa_reader": SAReader,
}
CHOICES = {
    "knowledge": ("none", "replace", "bias"),
    "weighting": ("auto", "paper", "exp", "learned"),
    "masking": ("masked", "paper"),
    "cell": ("lstm", "gru"),
    "pooling": ("max", "mean", "last"),
    "matching": ("full", "concat"),
    "attention": ("bilinear", "dot", "mlp", "average", "last"),
    "gate": ("mul", "sum", "concat"),
    "pointer": ("sum", "mean", "span"),
}


def build(name: str, fields: dict, *, axis_name: str | None = None, **facts: int):
    """A linen module from typed fields.

    Args:
      name: key of MODELS.
      fields: the module's fields by name; a field the module lacks is an error unless it is switched off ("none").
      axis_name: the mapped device axis, for models that normalise over the global batch.
      facts: what the task says of the corpus, for models that have such a field and no value of their own: longest_path
        of its links (edges); num_types of candidates that occur in training; vocab_size, cls_id, sep_id of its pieces
        and room for them.
    Raises: UserError naming the field and the known values.
    """
    if name not in MODELS:
        raise UserError(f"E-CONF-004 config.model.name: unknown model '{name}'. Fix: give one of {', '.join(MODELS)}.")
    module = MODELS[name]
    known = {field.name for field in dataclasses.fields(module)}
    extras = {**facts, "axis_name": axis_name}
    arguments = {key: value for key, value in extras.items() if key in known}
    for key, value in fields.items():
        if key in CHOICES and value not in CHOICES[key]:
            choices = ", ".join(CHOICES[key])
            raise UserError(f"E-CONF-004 config.model.{key}: unknown value '{value}'. Fix: give one of {choices}.")
        if key == "vocab_size" and not value:  # without weights of its own: as many as the corpus has
            continue
        if key in known:
            arguments[key] = value
        elif key not in ("name", "weights") and value not in ("none", "masked"):
            raise UserError(f"E-CONF-005 config.model.{key}: model '{name}' has no such setting. Fix: leave it out.")
    if arguments.get("hops", 1) < 1:
        raise UserError(f"E-CONF-003 config.model.hops is {arguments['hops']}. Fix: give at least 1.")
    if arguments.get("pooling") == "last" and arguments.get("knowledge", "none") != "none":
        # The attended states are appended along time: they have no last state of either direction.
        raise UserError(
            "E-CONF-005 config.model.pooling: 'last' cannot pool knowledge-directed attention. "
            "Fix: use max or mean, or knowledge none."
        )
    return module(**arguments)
