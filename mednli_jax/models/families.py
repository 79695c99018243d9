"""The families of pretrained encoders: what their config.json means for models.encoder.Encoder, and
what the Transformers library calls their weights."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mednli_jax.errors import DataError

CONFIG = "config.json"
Config = dict[str, Any]  # the content of a config.json
Fields = dict[str, Any]  # fields of Encoder

# Field of the library's config -> our field. The values are positive integers.
SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "attention_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "positions",
}
# Field -> (required value, default of a file without the field).
REQUIRED = {
    "hidden_act": ("gelu", "gelu"),
    "position_embedding_type": ("absolute", "absolute"),
    "is_decoder": (False, False),
    "add_cross_attention": (False, False),
}
TWO_TEXTS = {"type_vocab_size": (2, 2)}

# Our module -> theirs. # is the number of a layer; {a,b} are tensors that are one array of ours.
_EMBEDDINGS = {
    "embeddings/words": "embeddings.word_embeddings",
    "embeddings/positions": "embeddings.position_embeddings",
    "embeddings/texts": "embeddings.token_type_embeddings",
}
_LAYER = {
    "layer_#/qkv": "encoder.layer.#.attention.self.{query,key,value}",
    "layer_#/attended": "encoder.layer.#.attention.output.dense",
    "layer_#/inner": "encoder.layer.#.intermediate.dense",
    "layer_#/outer": "encoder.layer.#.output.dense",
}
_NORMS_AFTER = {
    "embeddings/norm": "embeddings.LayerNorm",
    "layer_#/norm_attended": "encoder.layer.#.attention.output.LayerNorm",
    "layer_#/norm_outer": "encoder.layer.#.output.LayerNorm",
}
_NORMS_BEFORE = {
    "layer_#/norm_attended": "encoder.layer.#.attention.ln",
    "layer_#/norm_outer": "encoder.layer.#.ln",
    "norm": "encoder.ln",
}
_MODERN = {
    "embeddings/words": "embeddings.tok_embeddings",
    "embeddings/norm": "embeddings.norm",
    "layer_#/norm_attended": "layers.#.attn_norm",
    "layer_#/qkv": "layers.#.attn.Wqkv",
    "layer_#/attended": "layers.#.attn.Wo",
    "layer_#/norm_outer": "layers.#.mlp_norm",
    "layer_#/inner": "layers.#.mlp.Wi",
    "layer_#/outer": "layers.#.mlp.Wo",
    "norm": "final_norm",
}
_DISENTANGLED = {
    "layer_#/qkv": "encoder.layer.#.attention.self.{query_proj,key_proj,value_proj}",
    "layer_#/relative_query": "encoder.layer.#.attention.self.pos_query_proj",
    "layer_#/relative_key": "encoder.layer.#.attention.self.pos_key_proj",
    "relative": "encoder.rel_embeddings",
    "relative_norm": "encoder.LayerNorm",
    "convolution": "encoder.conv.conv",
    "convolution_norm": "encoder.conv.LayerNorm",
}
_POOLER = {"pooler": "pooler.dense"}
_LINEAR_HEAD = {"logits": "classifier"}
_DENSE_HEAD = {"pooler": "classifier.dense", "logits": "classifier.out_proj"}


MODERN, DEBERTA, GLOBAL, LOCAL = "modernbert", "deberta-v2", "full_attention", "sliding_attention"
POOLINGS = {"cls": "first", "mean": "mean"}
BIASES = {
    "attention_bias": "attention_bias",
    "mlp_bias": "mlp_bias",
    "norm_bias": "norm_bias",
    "classifier_bias": "head_bias",
}
TERMS = ("c2p", "p2c")  # of disentangled attention


def _modern_fields(config: Config, faults: list[str]) -> Fields:
    """ModernBERT's own fields, in the spelling of Transformers 5 or an older one."""
    layers = range(config.get("num_hidden_layers", 0))
    every = config.get("global_attn_every_n_layers", 3)
    kinds = config.get("layer_types") or [LOCAL if i % every else GLOBAL for i in layers]
    rope = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or {}
    by_kind = {kind: (rope.get(kind) or {}) | scaling for kind in (GLOBAL, LOCAL)}
    for kind, parameters in by_kind.items():
        for name in ("rope_type", "type"):
            rope_type = parameters.get(name, "default")
            if rope_type != "default":
                faults.append(f"'{name}' of {kind} is {json.dumps(rope_type)}, not \"default\"")
    pooling = config.get("classifier_pooling", "cls")
    if pooling not in POOLINGS:
        faults.append(f"'classifier_pooling' is {json.dumps(pooling)}")
    base = config.get("global_rope_theta", 160_000.0)
    local_base = config.get("local_rope_theta", 10_000.0) or base
    local_layers = [layer for layer, kind in enumerate(kinds) if kind == LOCAL]
    fields = {
        "rotary_base": by_kind[GLOBAL].get("rope_theta", base),
        "local_rotary_base": by_kind[LOCAL].get("rope_theta", local_base),
        "local_attention": config.get("local_attention", 128),
        "local_layers": tuple(local_layers),
        "head_input": POOLINGS.get(pooling, "first"),
    }
    for name, ours in BIASES.items():
        fields[ours] = config.get(name, False)
    return fields


def _modern_config(fields: Fields) -> Config:
    """The entries of _modern_fields, in the spelling of Transformers 5."""
    local_layers = fields["local_layers"]
    kinds = [LOCAL if i in local_layers else GLOBAL for i in range(fields["layers"])]
    poolings = {ours: name for name, ours in POOLINGS.items()}
    config: Config = {
        "rope_parameters": {
            GLOBAL: {"rope_type": "default", "rope_theta": fields["rotary_base"]},
            LOCAL: {"rope_type": "default", "rope_theta": fields["local_rotary_base"]},
        },
        "local_attention": fields["local_attention"],
        "layer_types": kinds,
        "classifier_pooling": poolings[fields["head_input"]],
    }
    for name, ours in BIASES.items():
        config[name] = fields[ours]
    return config


def _disentangled_fields(config: Config, faults: list[str]) -> Fields:
    """DeBERTa's own fields."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    sizes = {
        "embedding_size": hidden,
        "pooler_hidden_size": hidden,
        "attention_head_size": hidden // heads,
    }
    for name, size in sizes.items():
        if config.get(name, size) != size:
            faults.append(f"'{name}' is {json.dumps(config[name])}, not {size}")
    asked = config.get("pos_att_type") or []
    terms = asked.split("|") if isinstance(asked, str) else asked
    terms = [term.strip().lower() for term in terms]
    norms = (config.get("norm_rel_ebd") or "none").lower().split("|")
    if unknown := set(terms) - set(TERMS):
        faults.append(f"'pos_att_type' has {', '.join(sorted(unknown))}")
    types = config.get("type_vocab_size", 0)
    if types not in (0, 2):
        faults.append(f"'type_vocab_size' is {json.dumps(types)}, not 0 or 2")
    width, activation = config.get("conv_kernel_size", 0), config.get("conv_act", "tanh")
    if width and activation != "gelu":
        faults.append(f"'conv_act' is {json.dumps(activation)}, not \"gelu\"")
    longest = config.get("max_relative_positions", -1)
    relative_terms = [term for term in TERMS if term in terms]
    return {
        "token_types": types,
        "absolute_positions": config.get("position_biased_input", True),
        "relative_positions": longest if longest > 0 else config["max_position_embeddings"],
        "relative_buckets": max(config.get("position_buckets", -1), 0),
        "relative_terms": tuple(relative_terms),
        "relative_shared": config.get("share_att_key", False),
        "relative_norm": "layer_norm" in map(str.strip, norms),
        "convolution": width,
    }


def _disentangled_config(fields: Fields) -> Config:
    """The entries of _disentangled_fields."""
    return {
        "type_vocab_size": fields["token_types"],
        "position_biased_input": fields["absolute_positions"],
        "max_relative_positions": fields["relative_positions"],
        "position_buckets": fields["relative_buckets"] or -1,
        "pos_att_type": "|".join(fields["relative_terms"]),
        "share_att_key": fields["relative_shared"],
        "norm_rel_ebd": "layer_norm" if fields["relative_norm"] else "none",
        "conv_kernel_size": fields["convolution"],
        "conv_act": "gelu",
    }


@dataclass(frozen=True)
class Family:
    """A model_type of the Transformers library.

    Args:
      prefix: of the encoder's weights in a model with a head.
      class_name: the library's class of a classifier.
      encoder, head: our modules -> theirs, inside and outside of the prefix.
      constants: fields of Encoder that differ from BERT's.
      sizes: of config.json -> fields of Encoder, with their values without the field; None: needed.
      required: of config.json -> (the only value that is read, the value without the field).
      outside: like `encoder`, for parts of pretrained weights that are outside of the prefix.
      epsilon: the name of that of layer norms.
      after_padding: whether positions count from the number of the padding piece + 1 on.
      read: fields of Encoder from the family's own entries of a config.json. It is given a list of
        faults, to which it adds.
      write: the entries that `read` reads, from fields of Encoder.
    """

    model_type: str
    prefix: str
    class_name: str
    encoder: Mapping[str, str]
    head: Mapping[str, str]
    constants: Fields = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=lambda: SIZES)
    required: Mapping[str, tuple[Any, Any]] = field(default_factory=lambda: REQUIRED | TWO_TEXTS)
    after_padding: bool = False
    outside: Mapping[str, str] = field(default_factory=dict)
    epsilon: str = "layer_norm_eps"
    read: Callable[[Config, list[str]], Fields] | None = None
    write: Callable[[Fields], Config] | None = None


FAMILIES = {
    family.model_type: family
    for family in (
        Family(
            model_type="bert",
            prefix="bert.",
            class_name="BertForSequenceClassification",
            encoder=_EMBEDDINGS | _LAYER | _NORMS_AFTER | _POOLER,
            head=_LINEAR_HEAD,
        ),
        Family(
            model_type="roberta",
            prefix="roberta.",
            class_name="RobertaForSequenceClassification",
            encoder=_EMBEDDINGS | _LAYER | _NORMS_AFTER,
            head=_DENSE_HEAD,
            constants={"head": "tanh"},
            sizes=SIZES | {"type_vocab_size": "token_types"},
            required=REQUIRED,
            after_padding=True,
        ),
        Family(
            model_type="electra",
            prefix="electra.",
            class_name="ElectraForSequenceClassification",
            encoder=_EMBEDDINGS | _LAYER | _NORMS_AFTER | {"projection": "embeddings_project"},
            head=_DENSE_HEAD,
            constants={"head": "gelu"},
            sizes=SIZES | {"embedding_size": "embedding_size"},
        ),
        Family(
            model_type="megatron-bert",
            prefix="bert.",
            class_name="MegatronBertForSequenceClassification",
            encoder=_EMBEDDINGS | _LAYER | _NORMS_BEFORE | _POOLER,
            head=_LINEAR_HEAD,
            constants={"norm_first": True, "embedding_norm": False},
        ),
        Family(
            model_type=MODERN,
            prefix="model.",
            class_name="ModernBertForSequenceClassification",
            encoder=_MODERN,
            outside={"pooler": "head.dense", "head_norm": "head.norm"},
            head=_LINEAR_HEAD,
            constants={
                "norm_first": True,
                "first_norm": False,
                "token_types": 0,
                "gated": True,
                "head": "gelu_norm",
            },
            required={
                "hidden_activation": ("gelu", "gelu"),
                "classifier_activation": ("gelu", "gelu"),
            },
            epsilon="norm_eps",
            read=_modern_fields,
            write=_modern_config,
        ),
        Family(
            model_type=DEBERTA,
            prefix="deberta.",
            class_name="DebertaV2ForSequenceClassification",
            encoder=_EMBEDDINGS | _LAYER | _NORMS_AFTER | _DISENTANGLED,
            outside=_POOLER,
            head=_LINEAR_HEAD,
            constants={"head": "context"},
            required={
                "hidden_act": ("gelu", "gelu"),
                "pooler_hidden_act": ("gelu", "gelu"),
                "relative_attention": (True, False),
                "conv_groups": (1, 1),
            },
            read=_disentangled_fields,
            write=_disentangled_config,
        ),
    )
}
PADDING = 1  # number of RoBERTa's padding piece in a config without it


def family_of(fields: Fields) -> Family:
    """The family of an Encoder's fields: of those that have its constants the one with most."""
    families = (
        family for family in FAMILIES.values() if family.constants.items() <= fields.items()
    )
    return max(families, key=lambda family: len(family.constants))


def named_family(config: Config) -> Family:
    """The family that a config.json names; BERT's where it names none."""
    model_type = config.get("model_type", "bert")
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    fix = f"give weights of {', '.join(FAMILIES)}"
    raise DataError(
        f"another architecture: 'model_type' is {json.dumps(model_type)}", file=CONFIG, fix=fix
    )


def fields_of(config: Config) -> Fields:
    """The fields of Encoder that pretrained weights set. Raises DataError that names every entry
    which asks for what Encoder lacks."""
    family = named_family(config)
    faults = []
    for name, (value, default) in family.required.items():
        asked = config.get(name, default)
        if asked != value:
            faults.append(f"'{name}' is {json.dumps(asked)}, not {json.dumps(value)}")
    for name in family.sizes:
        if type(config.get(name)) is not int or config[name] < 1:
            faults.append(f"'{name}' is not a whole number over 0")
    epsilon = config.get(family.epsilon, 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        faults.append(f"'{family.epsilon}' is not a small number")
    own = family.read(config, faults) if family.read and not faults else {}
    if faults:
        fix = f"give other weights of {', '.join(FAMILIES)}"
        raise DataError(f"another architecture: {'; '.join(faults)}", file=CONFIG, fix=fix)
    fields = {ours: config[name] for name, ours in family.sizes.items()}
    if family.after_padding:
        fields["first_position"] = config.get("pad_token_id", PADDING) + 1
    return fields | family.constants | own | {"epsilon": epsilon}


def config_of(fields: Fields, labels: Sequence[str]) -> Config:
    """The config.json of an Encoder with these fields."""
    family = family_of(fields)
    number_of = {label: number for number, label in enumerate(labels)}
    config: Config = {
        "model_type": family.model_type,
        "architectures": [family.class_name],
        family.epsilon: fields["epsilon"],
        "hidden_dropout_prob": fields["dropout"],
        "attention_probs_dropout_prob": fields["dropout"],
        "id2label": {str(number): label for label, number in number_of.items()},
        "label2id": number_of,
        "pad_token_id": fields["first_position"] - 1 if family.after_padding else 0,
    }
    config |= {name: value for name, (value, _) in family.required.items()}
    if family.write:
        config |= family.write(fields)
    return config | {name: fields[ours] for name, ours in family.sizes.items()}
