"""Reads weights of BERT in the format of the Transformers library: config.json and
model.safetensors.

Other formats are not read, because they hold programs (pickle) that reading would run. Every weight
is checked: one error lists all weights that are missing, have another shape or are unknown to BERT.
"""

import json
import re
from pathlib import Path

import numpy as np
from flax import traverse_util
from safetensors import SafetensorError, safe_open

from mednli_jax.errors import DataError, UserError

CONFIGS = ("config.json", "bert_config.json")
WEIGHTS = "model.safetensors"
NAMED = 8  # most weights that an error lists
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
FIXED = {
    "model_type": ("bert", "bert"),
    "hidden_act": ("gelu", "gelu"),
    "position_embedding_type": ("absolute", "absolute"),
    "type_vocab_size": (2, 2),
    "is_decoder": (False, False),
    "add_cross_attention": (False, False),
}
_ENCODER = ("embeddings.", "encoder.", "pooler.")
_IGNORED = re.compile(r"embeddings\.(position|token_type)_ids")
_OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def read_architecture(path: str | Path) -> dict:
    """The fields of models.bert.BERT that pretrained weights set: sizes and epsilon.

    path: a folder, or a safetensors file with its config.json beside it.
    """
    file = _weights_file(path)
    config = next(
        (file.with_name(name) for name in CONFIGS if file.with_name(name).is_file()), None
    )
    if config is None:
        raise DataError("no such file", file=CONFIGS[0], fix=f"put it beside {file.name}")
    try:
        values = dict(json.loads(config.read_bytes()))
    except (TypeError, ValueError):
        fix = "copy the file again from where the weights came from"
        raise DataError("not a JSON object", file=config.name, fix=fix) from None
    wrong = [
        f"'{name}' is {json.dumps(given)}, not {json.dumps(value)}"
        for name, (value, default) in FIXED.items()
        if (given := values.get(name, default)) != value
    ]
    for name in SIZES:
        if type(values.get(name)) is not int or values[name] < 1:
            wrong.append(f"'{name}' is not a whole number over 0")
    epsilon = values.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        wrong.append("'layer_norm_eps' is not a small number")
    if wrong:
        fix = "give weights of BERT (Devlin et al. 2019), or of a model trained further from it"
        raise DataError(f"another architecture: {'; '.join(wrong)}", file=config.name, fix=fix)
    return {ours: values[name] for name, ours in SIZES.items()} | {"epsilon": epsilon}


def load_weights(
    path: str | Path, params: dict, *, stacked: bool = False
) -> tuple[dict, list[str], list[str]]:
    """The parameters of a BERT with pretrained weights. The classifier and the links keep their
    random values.

    params: nested parameters of models.bert.BERT. stacked: whether leaves have a leading axis [S,
    ...] of seeds, which all start from the same weights.

    Returns (params, names of unused weights in the file, which belong to other heads, parts of the
    model that the file lacks: masked language models have no pooler, which keeps its random
    values).
    """
    file = _weights_file(path)
    found, leaves = _tensors(file), traverse_util.flatten_dict(params)
    expected, drawn = _sources(params), []
    pooler = {place: names for place, names in expected.items() if place[0] == "pooler"}
    if pooler and not any(name in found for names in pooler.values() for name in names):
        drawn.append("pooler")
        expected = {place: names for place, names in expected.items() if place not in pooler}
    merged, missing, wrong, used = dict(leaves), [], [], set()
    for place, names in expected.items():
        shape, parts = leaves[place].shape[1 if stacked else 0 :], []
        for name in names:
            used.add(name)
            due = (*shape[:-1], shape[-1] // len(names))  # parts of one array are separate tensors
            due = due[::-1] if place[-1] == "kernel" else due
            if name not in found:
                missing.append(name)
            elif found[name].shape != due:
                theirs, ours = ("x".join(map(str, size)) for size in (found[name].shape, due))
                wrong.append(f"{name} ({theirs} in the file, {ours} in the model)")
            else:
                parts.append(found[name].T if place[-1] == "kernel" else found[name])
        if len(parts) == len(names):
            array = np.broadcast_to(np.concatenate(parts, axis=-1), leaves[place].shape)
            merged[place] = np.ascontiguousarray(array).astype(leaves[place].dtype)
    ours = tuple(part for part in _ENCODER if part != "pooler." or "pooler" in params)
    unused = sorted(name for name in found if name not in used and not _IGNORED.match(name))
    unknown = [name for name in found if name in unused and name.startswith(ours)]
    faults = (("missing", missing), ("of another shape", wrong), ("unknown to BERT", unknown))
    problems = [f"{len(names)} {kind}: {_listed(names)}" for kind, names in faults if names]
    if problems:
        fix = "give the model the sizes of the config.json beside the weights, or other weights"
        raise UserError(
            f"{file.name}: its weights do not fit the model; {'. '.join(problems)}", fix=fix
        )
    return traverse_util.unflatten_dict(merged), unused, drawn


def _weights_file(path) -> Path:
    """The safetensors file of a path, which is this file or a folder."""
    path = Path(path)
    if path.is_dir():
        here = sorted(path.glob("*.safetensors"))
        if (path / WEIGHTS).is_file():
            return path / WEIGHTS
        if len(here) == 1:
            return here[0]
        holds = f"{len(here)} files .safetensors" if here else f"no {WEIGHTS}"
        fix = "name the one file of the weights; transformers' save_pretrained converts others"
        raise UserError(f"{path.name}: the folder holds {holds}", fix=fix)
    if path.suffix != ".safetensors":
        fix = "convert them by transformers' save_pretrained"
        raise UserError(
            f"{path.name}: only safetensors are read, other formats can run programs", fix=fix
        )
    return path


def _tensors(file: Path) -> dict[str, np.ndarray]:
    """{name in BertModel: float32 array}. Integer tensors (positions) keep their type."""
    fix = "copy the file again from where it came from"
    found, not_finite = {}, []
    try:
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - not a mapping
                array = tensors.get_tensor(name)
                if not np.issubdtype(array.dtype, np.integer):
                    array = array.astype(np.float32)
                    if not np.isfinite(array).all():
                        not_finite.append(name)
                name = name.removeprefix("bert.")
                for old, new in _OLD.items():
                    name = name.replace(old, new)
                found[name] = array
    except (OSError, SafetensorError):  # the library's message may quote bytes of the file
        raise DataError("the weights are damaged or cut short", file=file.name, fix=fix) from None
    if not_finite:
        raise DataError(
            f"{_listed(not_finite)}: not all numbers are finite", file=file.name, fix=fix
        )
    return found


def _sources(params) -> dict[tuple[str, ...], list[str]]:
    """{path of a parameter: names of its tensors in the file}, for all parameters that pretrained
    weights have."""
    parts = {
        "attended": "attention.output.dense",
        "norm_attended": "attention.output.LayerNorm",
        "inner": "intermediate.dense",
        "outer": "output.dense",
        "norm_outer": "output.LayerNorm",
    }
    tables = {
        "words": "word_embeddings",
        "positions": "position_embeddings",
        "texts": "token_type_embeddings",
    }
    ends = {"kernel": "weight", "scale": "weight", "bias": "bias"}
    sources = {
        ("embeddings", ours): [f"embeddings.{theirs}.weight"] for ours, theirs in tables.items()
    }
    for which in ("scale", "bias"):
        sources["embeddings", "norm", which] = [f"embeddings.LayerNorm.{ends[which]}"]
    for module in params:
        if not module.startswith("layer_"):
            continue
        layer = f"encoder.layer.{module.removeprefix('layer_')}"
        for which in ("kernel", "bias"):
            of_heads = [
                f"{layer}.attention.self.{x}.{ends[which]}" for x in ("query", "key", "value")
            ]
            sources[module, "qkv", which] = of_heads
        for ours, theirs in parts.items():
            for which in ("scale" if "norm" in ours else "kernel", "bias"):
                sources[module, ours, which] = [f"{layer}.{theirs}.{ends[which]}"]
    if "pooler" in params:
        sources |= {
            ("pooler", which): [f"pooler.dense.{ends[which]}"] for which in ("kernel", "bias")
        }
    return sources


def _listed(names):
    return ", ".join(names[:NAMED]) + (
        f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    )
