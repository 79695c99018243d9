"""Pretrained weights in Hugging Face's layout."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from mednli_jax.data.pieces import PieceVocabulary
from support.diskne_paper import premise


def write_weights(folder: Path, seed: int) -> None:
    """Writes a random BERT with one layer of eight units."""
    pieces = PieceVocabulary.of_texts(map(premise, range(60)), 300).words
    sizes = {
        "vocab_size": len(pieces),
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "max_position_embeddings": 512,
    }
    embeddings = {"word": len(pieces), "position": 512, "token_type": 2}
    projections = (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
        "attention.output.LayerNorm",
        "output.LayerNorm",
    )
    shapes: dict[str, tuple[int, ...]] = {}
    for name, rows in embeddings.items():
        shapes[f"embeddings.{name}_embeddings.weight"] = (rows, 8)
    layers = [f"encoder.layer.0.{name}" for name in projections]
    for layer in (*layers, "pooler.dense", "embeddings.LayerNorm"):
        shapes[f"{layer}.weight"] = (8,) if "Norm" in layer else (8, 8)
        shapes[f"{layer}.bias"] = (8,)
    rng = np.random.default_rng(seed)
    tensors = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(sizes))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
