"""The registry of models, and how a linen module is built from typed fields."""

import dataclasses
from collections.abc import Mapping
from types import ModuleType

import flax.linen as nn
from jax.typing import DTypeLike

from mednli_jax.errors import ConfigError
from mednli_jax.models import weights
from mednli_jax.models.bow import BOW
from mednli_jax.models.cloze_readers import GAReader, SAReader
from mednli_jax.models.encoder import Encoder
from mednli_jax.models.esim import ESIM
from mednli_jax.models.fasttext import FastText
from mednli_jax.models.infersent import InferSent
from mednli_jax.plugins import import_object
from mednli_jax.types import FieldValue

# Fields that all configs of sentence pairs have. A module may lack one whose value is as in this
# table (None: any value).
UNUSED = {
    "name": None,
    "weights": None,
    "knowledge": "none",
    "masking": "masked",
    "weighting": "auto",
}
# fields of bow and infersent, whose configs may name a class of the user
OF_CONFIGS = ("matching", "cell", "pooling")


@dataclasses.dataclass(frozen=True)
class Traits:
    """The facts about a model that batches and steps need. A linen class declares those that differ
    from these defaults.

    Args:
      shares_words: whether it projects each distinct word once (`PairBatch.distinct_words`).
      trains_rows: whether it reads a trained table with sparse_rows.trained_rows.
      platform: for which its loops are made; "cpu" for a model without code for a platform.
    """

    shares_words: bool = False
    trains_rows: bool = False
    platform: str = "cpu"


_TRAITS = tuple(field.name for field in dataclasses.fields(Traits))


def traits(model: nn.Module) -> Traits:
    """The traits of a model. The class may be the user's and needs no base class, so an attribute
    may be absent."""
    return Traits(**{name: getattr(model, name) for name in _TRAITS if hasattr(model, name)})


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model of the registry."""

    name: str
    module: type[nn.Module] | None  # None for a model that is not a network
    pretrained: ModuleType | None = None  # with the functions read_architecture and load_weights

    @property
    def is_plugin(self) -> bool:
        return ":" in self.name

    @property
    def plugin_class(self) -> str:
        """The name of the user's class; "" for a model of this package."""
        return self.name.partition(":")[2]

    def has_field(self, field_name: str) -> bool:
        """Whether the model is a network whose module has this field."""
        if self.module is None:
            return False
        return field_name in {field.name for field in dataclasses.fields(self.module)}

    def build(
        self,
        fields: Mapping[str, FieldValue],
        *,
        axis_name: str | None = None,
        platform: str = "cpu",
        product_dtype: DTypeLike | None = None,
        transposes: bool = False,
        **facts: int,
    ) -> nn.Module:
        """Builds a linen module from typed fields.

        Args:
          fields: the module's fields by name. A field that the module lacks is an error, unless its
            value has no effect.
          axis_name: the mapped device axis, for models that normalise over the global batch.
          platform: of the devices, "cpu", "gpu" or "tpu", for models with code for a platform.
          product_dtype: of the operands of matrix products, see models.products.
          transposes: see layers.BiRNN.
          facts: of the corpus, for fields of the module that `fields` does not set: longest_path of
            its links (edges); num_types of candidates that occur in training; vocab_size, cls_id,
            sep_id, room of its pieces.
        """
        assert self.module is not None
        if product_dtype is not None and not self.has_field("product_dtype"):
            problem = f"model '{self.name}' has no field `product_dtype`"
            raise ConfigError(problem, field="train.precision", fix="give another precision")
        of_run = {
            **facts,
            "axis_name": axis_name,
            "platform": platform,
            "product_dtype": product_dtype,
            "transposes": transposes,
        }
        arguments: dict[str, object] = {
            name: value for name, value in of_run.items() if self.has_field(name)
        }
        for name, value in fields.items():
            if name == "vocab_size" and not value:  # 0: as many as the corpus has
                continue
            if self.has_field(name):
                arguments[name] = value
            elif not self._has_no_effect(name, value):
                fix = f"give the class a field `{name}`" if self.is_plugin else "leave it out"
                problem = f"model '{self.name}' has no such setting"
                raise ConfigError(problem, field=f"model.{name}", fix=fix)
        return self.module(**arguments)

    def _has_no_effect(self, field_name: str, value: FieldValue) -> bool:
        """Whether a config may give this field to a model without it."""
        if field_name == "knowledge_scale":
            return not self.has_field("knowledge")
        if self.is_plugin and field_name in OF_CONFIGS:
            return True
        return field_name in UNUSED and UNUSED[field_name] in (None, value)


MODELS = {
    entry.name: entry
    for entry in (
        Entry("features", None),
        Entry("bow", BOW),
        Entry("infersent", InferSent),
        Entry("esim", ESIM),
        Entry("fasttext", FastText),
        Entry("encoder", Encoder, pretrained=weights),
        Entry("ga_reader", GAReader),
        Entry("sa_reader", SAReader),
    )
}


def entry(name: str) -> Entry:
    """The model `name`: a key of MODELS, or "package.module:Class" for a linen class of the user.

    The class attribute `task` of such a class names its task; plugins.import_object says what may
    be imported.
    """
    if ":" not in name:
        if name in MODELS:
            return MODELS[name]
        fix = f"give one of {', '.join(MODELS)}, or package.module:Class"
        raise ConfigError(f"unknown model '{name}'", field="model.name", fix=fix)
    module = import_object(name, "model.name")
    if not (isinstance(module, type) and issubclass(module, nn.Module)):
        problem = f"'{name}' is not a subclass of flax.linen.Module"
        raise ConfigError(problem, field="model.name", fix="name one")
    return Entry(name, module)
