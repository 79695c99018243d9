"""Pretrained weights in Hugging Face's layout."""

import json

import numpy as np
from safetensors.numpy import save_file

from mednli_jax.data.pieces import PieceVocabulary
from support.diskne_paper import premise


def write_weights(folder, seed):
    """Writes a random BERT with one layer of eight units, in Hugging Face's layout."""
    pieces = PieceVocabulary.of_texts(map(premise, range(60)), 300).words
    embeddings = {"word": len(pieces), "position": 512, "token_type": 2}
    shapes = {
        f"embeddings.{name}_embeddings.weight": (size, 8) for name, size in embeddings.items()
    }
    parts = [f"attention.self.{name}" for name in ("query", "key", "value")]
    dense = [*parts, "attention.output.dense", "intermediate.dense", "output.dense"]
    norms = ["attention.output.LayerNorm", "output.LayerNorm"]
    layer = [f"encoder.layer.0.{name}" for name in (*dense, *norms)]
    for name in (*layer, "pooler.dense", "embeddings.LayerNorm"):
        shapes |= {f"{name}.weight": (8,) if "Norm" in name else (8, 8), f"{name}.bias": (8,)}
    rng = np.random.default_rng(seed)
    folder.mkdir()
    tensors = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors")
    sizes = {"vocab_size": len(pieces), "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
             "intermediate_size": 8, "max_position_embeddings": 512}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(sizes))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
