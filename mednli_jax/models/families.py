"""The families of pretrained encoders: their entries of config.json as fields of
models.encoder.Encoder, and the names of their weights in the Transformers library."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mednli_jax.errors import DataError
from mednli_jax.types import Json, JsonObject

CONFIG = "config.json"
Config = JsonObject  # the content of a config.json
Fields = JsonObject  # fields of Encoder

# Entry of a config.json -> field of Encoder.
FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "attention_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "positions",
    "type_vocab_size": "token_types",
    "embedding_size": "embedding_size",
    "layer_norm_eps": "epsilon",
    "norm_eps": "epsilon",
    "attention_bias": "attention_bias",
    "mlp_bias": "mlp_bias",
    "norm_bias": "norm_bias",
    "classifier_bias": "head_bias",
    "local_attention": "local_attention",
    "position_biased_input": "absolute_positions",
    "share_att_key": "relative_shared",
    "conv_kernel_size": "convolution",
}
# Their values in a file without these entries.
BERT = {
    "vocab_size": 30_522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
MAY_BE_0 = ("type_vocab_size", "pad_token_id", "local_attention", "conv_kernel_size")
GELU = ("gelu", "gelu_python")
# Entry -> the values that are read; the first is that of a file without it.
REQUIRED = {
    "hidden_act": GELU,
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}

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
TERMS = ("c2p", "p2c")  # of disentangled attention


def _modern_fields(config: Config, faults: list[str]) -> Fields:
    """The fields of ModernBERT alone, from a config in the spelling of Transformers 5 or an older
    version."""
    layers, every = range(config["num_hidden_layers"]), config["global_attn_every_n_layers"]
    kinds = config.get("layer_types")
    if kinds is None:
        kinds = [LOCAL if layer % every else GLOBAL for layer in layers]
    if len(kinds) != len(layers) or not {GLOBAL, LOCAL}.issuperset(kinds):
        faults.append(f"'layer_types' is not {len(layers)} times {GLOBAL} or {LOCAL}")
    rope = config.get("rope_parameters") or {}
    if not {GLOBAL, LOCAL}.issuperset(rope):
        faults.append(f"'rope_parameters' is not of {GLOBAL} and {LOCAL}")
        rope = {}
    scaling = config.get("rope_scaling") or {}
    by_kind = {kind: (rope.get(kind) or {}) | scaling for kind in (GLOBAL, LOCAL)}
    for kind, parameters in by_kind.items():
        for name in ("rope_type", "type"):
            rope_type = parameters.get(name, "default")
            if rope_type != "default":
                faults.append(f"'{name}' of {kind} is {json.dumps(rope_type)}, not \"default\"")
    base = config.get("global_rope_theta", 160_000.0)
    local_base = config.get("local_rope_theta", 10_000.0) or base
    local_layers = [layer for layer, kind in enumerate(kinds) if kind == LOCAL]
    return {
        "rotary_base": by_kind[GLOBAL].get("rope_theta", base),
        "local_rotary_base": by_kind[LOCAL].get("rope_theta", local_base),
        "local_layers": tuple(local_layers),
        "head_input": POOLINGS[config.get("classifier_pooling", "cls")],
    }


def _modern_config(fields: Fields) -> Config:
    """The entries of a config that `_modern_fields` reads, in the spelling of Transformers 5."""
    local_layers = fields["local_layers"]
    kinds = [LOCAL if i in local_layers else GLOBAL for i in range(fields["layers"])]
    poolings = {ours: name for name, ours in POOLINGS.items()}
    return {
        "rope_parameters": {
            GLOBAL: {"rope_type": "default", "rope_theta": fields["rotary_base"]},
            LOCAL: {"rope_type": "default", "rope_theta": fields["local_rotary_base"]},
        },
        "layer_types": kinds,
        "classifier_pooling": poolings[fields["head_input"]],
    }


def _disentangled_fields(config: Config, faults: list[str]) -> Fields:
    """The fields of DeBERTa alone."""
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
    activation = config.get("conv_act", "tanh")
    if config["conv_kernel_size"] and activation not in GELU:
        faults.append(f"'conv_act' is {json.dumps(activation)}, not \"gelu\"")
    longest = config.get("max_relative_positions", -1)
    relative_terms = [term for term in TERMS if term in terms]
    return {
        "relative_positions": longest if longest > 0 else config["max_position_embeddings"],
        "relative_buckets": max(config.get("position_buckets", -1), 0),
        "relative_terms": tuple(relative_terms),
        "relative_norm": "layer_norm" in map(str.strip, norms),
    }


def _disentangled_config(fields: Fields) -> Config:
    """The entries of a config that `_disentangled_fields` reads."""
    return {
        "max_relative_positions": fields["relative_positions"],
        "position_buckets": fields["relative_buckets"] or -1,
        "pos_att_type": "|".join(fields["relative_terms"]),
        "norm_rel_ebd": "layer_norm" if fields["relative_norm"] else "none",
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
      defaults: entries of config.json and the values that a file without them means.
      required: entries -> the values that are read; a file without the entry means the first value.
      outside: our modules -> theirs, for parts of pretrained weights that are outside of the
        prefix.
      read: makes fields of Encoder from the family's own entries of a config.json. It is given a
        list of faults, to which it adds.
      write: makes the entries that `read` reads, from fields of Encoder.
    """

    model_type: str
    prefix: str
    class_name: str
    encoder: Mapping[str, str]
    head: Mapping[str, str]
    constants: Fields = field(default_factory=dict)
    defaults: Config = field(default_factory=lambda: BERT)
    required: Mapping[str, tuple[Json, ...]] = field(default_factory=lambda: REQUIRED)
    outside: Mapping[str, str] = field(default_factory=dict)
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
            defaults=BERT | {"vocab_size": 50_265, "pad_token_id": 1},
        ),
        Family(
            model_type="electra",
            prefix="electra.",
            class_name="ElectraForSequenceClassification",
            encoder=_EMBEDDINGS | _LAYER | _NORMS_AFTER | {"projection": "embeddings_project"},
            head=_DENSE_HEAD,
            constants={"head": "gelu"},
            defaults={
                **BERT,
                "embedding_size": 128,
                "hidden_size": 256,
                "num_attention_heads": 4,
                "intermediate_size": 1024,
            },
        ),
        Family(
            model_type="megatron-bert",
            prefix="bert.",
            class_name="MegatronBertForSequenceClassification",
            encoder=_EMBEDDINGS | _LAYER | _NORMS_BEFORE | _POOLER,
            head=_LINEAR_HEAD,
            constants={"norm_first": True, "embedding_norm": False},
            defaults={
                **BERT,
                "vocab_size": 29_056,
                "hidden_size": 1024,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "intermediate_size": 4096,
            },
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
            defaults={
                "vocab_size": 50_368,
                "hidden_size": 768,
                "num_hidden_layers": 22,
                "num_attention_heads": 12,
                "intermediate_size": 1152,
                "max_position_embeddings": 8192,
                "norm_eps": 1e-5,
                "local_attention": 128,
                "global_attn_every_n_layers": 3,
                "attention_bias": False,
                "mlp_bias": False,
                "norm_bias": False,
                "classifier_bias": False,
            },
            required={
                "hidden_activation": GELU,
                "classifier_activation": GELU,
                "classifier_pooling": tuple(POOLINGS),
            },
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
            defaults={
                "vocab_size": 128_100,
                "hidden_size": 1536,
                "num_hidden_layers": 24,
                "num_attention_heads": 24,
                "intermediate_size": 6144,
                "max_position_embeddings": 512,
                "type_vocab_size": 0,
                "layer_norm_eps": 1e-7,
                "position_biased_input": True,
                "share_att_key": False,
                "conv_kernel_size": 0,
                "relative_attention": False,
            },
            required={
                "hidden_act": GELU,
                "pooler_hidden_act": GELU,
                "relative_attention": (True,),
                "conv_groups": (1,),
            },
            read=_disentangled_fields,
            write=_disentangled_config,
        ),
    )
}


def family_of(fields: Fields) -> Family:
    """The family of an Encoder's fields. Of the families whose constants the fields have, it is the
    one with most constants."""
    families = (
        family for family in FAMILIES.values() if family.constants.items() <= fields.items()
    )
    return max(families, key=lambda family: len(family.constants))


def named_family(config: Config) -> Family:
    """The family that a config.json names; BERT if the file has sizes and names no family."""
    model_type = config.get("model_type", "bert" if "num_hidden_layers" in config else None)
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    fix = f"give weights of {', '.join(FAMILIES)}"
    raise DataError(
        f"another architecture: 'model_type' is {json.dumps(model_type)}", file=CONFIG, fix=fix
    )


def fields_of(config: Config) -> Fields:
    """The fields of Encoder that pretrained weights set. Raises one DataError that names every
    entry which Encoder does not support."""
    family, faults = named_family(config), []
    config = family.defaults | config
    for name, values in family.required.items():
        asked = config.get(name, values[0])
        if asked not in values:
            faults.append(f"'{name}' is {json.dumps(asked)}, not {json.dumps(values[0])}")
    for name, default in family.defaults.items():
        value = config[name]
        is_small = type(value) is int and value < (name not in MAY_BE_0)
        if is_small or type(value) is not type(default):
            faults.append(f"'{name}' is {json.dumps(value)}")
    own = family.read(config, faults) if family.read and not faults else {}
    if faults:
        fix = f"give other weights of {', '.join(FAMILIES)}"
        raise DataError(f"another architecture: {'; '.join(faults)}", file=CONFIG, fix=fix)
    fields = {FIELDS[name]: config[name] for name in family.defaults if name in FIELDS}
    if "pad_token_id" in family.defaults:  # positions count from the padding's number on
        fields["first_position"] = config["pad_token_id"] + 1
    return fields | family.constants | own


def config_of(fields: Fields, labels: Sequence[str]) -> Config:
    """The config.json of an Encoder with these fields."""
    family = family_of(fields)
    number_of = {label: number for number, label in enumerate(labels)}
    config: Config = {
        "model_type": family.model_type,
        "architectures": [family.class_name],
        "hidden_dropout_prob": fields["dropout"],
        "attention_probs_dropout_prob": fields["dropout"],
        "id2label": {str(number): label for label, number in number_of.items()},
        "label2id": number_of,
        "pad_token_id": max(fields["first_position"] - 1, 0),
    }
    config |= {name: values[0] for name, values in family.required.items()}
    config |= {name: fields[FIELDS[name]] for name in family.defaults if name in FIELDS}
    return config | (family.write(fields) if family.write else {})
