"""Small pretrained encoders as the Transformers library writes them.

Their weights are large and random.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

from mednli_jax.models import weights
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.encoder import Encoder
from support.golden_files import golden

PyTree = Any
Arrays = Mapping[str, np.ndarray]
Facts = dict[str, Any]

NAMES = (
    "bert",
    "roberta",
    "electra",
    "megatron-bert",
    "modernbert",
    "modernbert-mean",
    "deberta-v2",
    "deberta-v2-own",
)
SIDES = ("premise", "hypothesis")
ROOM = 64  # pieces of the longest rows


@functools.cache
def reference(name: str) -> tuple[Facts, Arrays]:
    """(config.json and settings, pairs of pieces and what the library computes for them)."""
    return golden(f"golden_{name}_small")


def labels_of(name: str) -> tuple[str, ...]:
    """The labels of an encoder, in the order of its logits."""
    facts, _ = reference(name)
    return tuple(facts["config"]["id2label"].values())


def tensors_of(name: str, kind: str = "weight") -> dict[str, np.ndarray]:
    """The library's weights, or their gradients, by its names."""
    _, arrays = reference(name)
    start = f"{kind}/"
    return {key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)}


def write_encoder(name: str, folder: Path, tensors: Arrays | None = None, **config: Any) -> Path:
    """Writes an encoder. tensors: in place of its weights. config: fields of config.json."""
    facts, _ = reference(name)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors_of(name) if tensors is None else tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(facts["config"] | config))
    return folder


def write_in_two_files(name: str, folder: Path) -> Path:
    """Writes an encoder whose weights are in two files, with a further prefix."""
    folder = write_encoder(name, folder)
    (folder / "model.safetensors").unlink()
    tensors = {f"module.{key}": array for key, array in tensors_of(name).items()}
    weight_map = {}
    for number in (0, 1):
        keys = sorted(tensors)[number::2]
        file = f"part-{number}.safetensors"
        save_file({key: tensors[key] for key in keys}, folder / file)
        weight_map |= dict.fromkeys(keys, file)
    index = {"weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def write_pieces(folder: Path, pieces: int, **added: int) -> None:
    """Writes a vocabulary of so many pieces, and the numbers of added ones."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"piece{n}" for n in range(5, pieces))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "added_tokens.json").write_text(json.dumps(added))


def batch_of(name: str, rows: slice = slice(None)) -> PairBatch:
    """The golden pairs of an encoder."""
    _, arrays = reference(name)
    fields = {}
    for side in SIDES:
        fields[side] = jnp.asarray(arrays[side][rows])
        fields[f"{side}_length"] = jnp.asarray(arrays[f"{side}_length"][rows])
    label = jnp.asarray(arrays["label"][rows])
    return PairBatch(**fields, label=label, mask=jnp.ones(len(label)))


def row_of(
    name: str, row: int, model: Encoder, tensor: Callable[[list[list[int]]], Any]
) -> dict[str, Any]:
    """A golden pair of an encoder as inputs of the library's model."""
    facts, arrays = reference(name)
    before, between, after = facts["specials"]
    premise, hypothesis = (arrays[side][row, : arrays[f"{side}_length"][row]] for side in SIDES)
    first, second = [*before, *premise, *between], [*hypothesis, *after]
    inputs = {"input_ids": tensor([first + second])}
    if model.second_type:
        inputs["token_type_ids"] = tensor([[0] * len(first) + [1] * len(second)])
    return inputs


def model_of(name: str, folder: Path, **changes: Any) -> Encoder:
    """The model of the weights in a folder. changes: of its fields."""
    facts, _ = reference(name)
    before, between, _ = facts["specials"]
    return Encoder(
        **{
            "dropout": 0.0,
            "room": ROOM,
            "cls_id": before[0],
            "sep_id": between[0],
            "separators": len(between),
            "second_type": int(facts["config"]["model_type"] != "roberta"),
            **weights.read_architecture(folder),
            **changes,
        }
    )


@functools.cache
def drawn_params(name: str, model: Encoder) -> PyTree:
    """New parameters."""
    batch = batch_of(name, slice(2))
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), batch, train=False)["params"])
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(leaf.dtype), shapes)
