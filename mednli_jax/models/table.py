"""The models by name, and the one place where typed fields become a linen module."""

import dataclasses
import difflib
import os
import pkgutil
from collections.abc import Callable
from types import ModuleType

import flax.linen as nn

from mednli_jax.errors import ConfigError
from mednli_jax.models import bert_import
from mednli_jax.models.bert import BERT
from mednli_jax.models.bow import BOW
from mednli_jax.models.esim import ESIM
from mednli_jax.models.fasttext import FastText
from mednli_jax.models.ga_reader import GAReader
from mednli_jax.models.infersent import InferSent
from mednli_jax.models.masked_lm import MaskedLM
from mednli_jax.models.sa_reader import SAReader


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model of the registry.

    module: a linen class; None for a model that is no network. task: "nli" for pairs of sentences, "cloze" for queries
    over passages, "mlm" for running text. fitter: what trains it, a key of experiment.FITTERS. pretrained: what reads
    weights of the model (read_architecture, load_weights), None where there are none to read. writer: what writes
    weights for other models to begin from, (params, fields) -> {file name: content}, None where that is no use.
    """

    module: type | None
    task: str = "nli"
    fitter: str = "gradient"
    pretrained: ModuleType | None = None
    writer: Callable | None = None

    def has_field(self, name: str) -> bool:
        return self.module is not None and name in {field.name for field in dataclasses.fields(self.module)}


MODELS = {
    "features": Entry(None, fitter="boosting"),
    "bow": Entry(BOW),
    "infersent": Entry(InferSent),
    "esim": Entry(ESIM),
    "fasttext": Entry(FastText),
    "bert": Entry(BERT, pretrained=bert_import),
    "masked_lm": Entry(MaskedLM, task="mlm", pretrained=bert_import, writer=bert_import.weight_files),
    "ga_reader": Entry(GAReader, task="cloze"),
    "sa_reader": Entry(SAReader, task="cloze"),
}


PLUGINS = "MEDNLI_JAX_PLUGINS"  # packages whose code may be imported as models, with commas between them


def entry(name: str) -> Entry:
    """The model `name`: a key of MODELS, or "package.module:Class" for a linen class of the user, whose class
    attribute `task` ("nli" where it has none) says what it is a model of.

    A config, and so a run directory of somebody else, may name any code: only packages in $MEDNLI_JAX_PLUGINS are
    imported. Raises: ConfigError for an unknown name, another package, or code that is no linen class.
    """
    if ":" not in name:
        if name in MODELS:
            return MODELS[name]
        hint = difflib.get_close_matches(name, MODELS, n=1)
        near = f" Did you mean '{hint[0]}'?" if hint else ""
        fix = "give a model of the config's task, e.g. esim for nli, ga_reader for cloze, or package.module:Class"
        raise ConfigError(f"config.model.name: unknown model '{name}'.{near} Fix: {fix}.")
    package = name.partition(":")[0].partition(".")[0]
    if package not in os.environ.get(PLUGINS, "").split(","):
        problem = f"config.model.name: '{name}' is code of the package '{package}', which is not allowed to run"
        raise ConfigError(f"{problem}. Fix: if you trust it, export {PLUGINS}={package}.")
    try:
        module = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"config.model.name: '{name}' cannot be imported ({reason}). Fix: install it.") from None
    if not (isinstance(module, type) and issubclass(module, nn.Module)):
        raise ConfigError(f"config.model.name: '{name}' is no class of flax.linen.Module. Fix: name one.")
    return Entry(module, task=getattr(module, "task", "nli"))


# Values of fields that every config of sentence pairs has, with which a module need not have the field.
UNUSED = {"name": None, "weights": None, "knowledge": "none", "masking": "masked", "weighting": "auto", "heads": 1}


def build(name: str, fields: dict, *, axis_name: str | None = None, platform: str = "cpu", half=False, **facts: int):
    """A linen module from typed fields.

    Args:
      name: see `entry`.
      fields: the module's fields by name; a field the module lacks is an error unless its value changes nothing.
      axis_name: the mapped device axis, for models that normalise over the global batch.
      platform: of the devices, "cpu", "gpu" or "tpu", for models that have a form of their own for it.
      half: whether states are kept in 16 bits, for models that can.
      facts: of the corpus, for models that have such a field and no value of their own: longest_path of its links
        (edges); num_types of candidates that occur in training; vocab_size, cls_id, sep_id, mask_id of its pieces and
        room for them.
    Raises: UserError naming the field.
    """
    module = entry(name).module
    known = {field.name for field in dataclasses.fields(module)}
    extras = {**facts, "axis_name": axis_name, "platform": platform, "half": half}
    arguments = {key: value for key, value in extras.items() if key in known}
    for key, value in fields.items():
        if key == "vocab_size" and not value:  # without weights of its own: as many as the corpus has
            continue
        if key in known:
            arguments[key] = value
        elif key == "knowledge_scale" and "knowledge" not in known:  # of knowledge that the module does not take
            continue
        elif key not in UNUSED or UNUSED[key] not in (None, value):
            raise ConfigError(f"config.model.{key}: model '{name}' has no such setting. Fix: leave it out.")
    return module(**arguments)
