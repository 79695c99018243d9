"""The models by name, and the one place where a config's `model` section becomes a linen module."""

import dataclasses

from mednli_jax.errors import UserError
from mednli_jax.models.bow import BOW
from mednli_jax.models.esim import ESIM
from mednli_jax.models.fasttext import FastText
from mednli_jax.models.infersent import InferSent

MODELS = {"bow": BOW, "infersent": InferSent, "esim": ESIM, "fasttext": FastText}
CHOICES = {
    "knowledge": ("none", "replace", "bias"),
    "weighting": ("auto", "paper", "exp", "learned"),
    "masking": ("masked", "paper"),
    "cell": ("lstm", "gru"),
    "pooling": ("max", "mean", "last"),
    "matching": ("full", "concat"),
}


def build(name: str, fields: dict, *, longest_path: int = 0, axis_name: str | None = None):
    """A linen module from typed fields.

    Args:
      name: key of MODELS.
      fields: the module's fields by name; a field the module lacks is an error unless it is switched off ("none").
      longest_path: longest path length of the corpus's links (edges); used by the knowledge modes.
      axis_name: the mapped device axis, for models that normalise over the global batch.
    Raises: UserError naming the field and the known values.
    """
    if name not in MODELS:
        raise UserError(f"E-CONF-004 config.model.name: unknown model '{name}'. Fix: give one of {', '.join(MODELS)}.")
    module = MODELS[name]
    known = {field.name for field in dataclasses.fields(module)}
    extras = {"longest_path": longest_path, "axis_name": axis_name}
    arguments = {key: value for key, value in extras.items() if key in known}
    for key, value in fields.items():
        if key in CHOICES and value not in CHOICES[key]:
            choices = ", ".join(CHOICES[key])
            raise UserError(f"E-CONF-004 config.model.{key}: unknown value '{value}'. Fix: give one of {choices}.")
        if key in known:
            arguments[key] = value
        elif key != "name" and value not in ("none", "masked"):
            raise UserError(f"E-CONF-005 config.model.{key}: model '{name}' has no such setting. Fix: leave it out.")
    if arguments.get("pooling") == "last" and arguments.get("knowledge", "none") != "none":
        # The attended states are appended along time: they have no last state of either direction.
        raise UserError(
            "E-CONF-005 config.model.pooling: 'last' cannot pool knowledge-directed attention. "
            "Fix: use max or mean, or knowledge none."
        )
    return module(**arguments)
