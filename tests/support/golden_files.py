"""The golden files, which independent references made, and their weights in our layout."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PyTree = Any
Arrays = Mapping[str, np.ndarray]
Facts = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "golden"
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}


def golden(name: str) -> tuple[Facts, Arrays]:
    """(facts, arrays) of a golden file; no facts where it has none."""
    facts = FOLDER / f"{name}.json"
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        arrays = dict(file)
    return json.loads(facts.read_text()) if facts.exists() else {}, arrays


def cast(tree: PyTree, dtype: str) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree)


def assert_close(ours: Any, golden: np.ndarray, dtype: str, name: str = "") -> None:
    ours = np.asarray(ours)
    assert ours.dtype == dtype
    assert ours.shape == golden.shape, name
    np.testing.assert_allclose(ours, golden, rtol=0, atol=TOLERANCE[dtype], err_msg=name)


def assert_trees_close(ours: PyTree, golden: PyTree, dtype: str) -> None:
    assert jax.tree.structure(ours) == jax.tree.structure(golden)
    named = jax.tree_util.tree_leaves_with_path(ours)
    for (path, leaf), expected in zip(named, jax.tree.leaves(golden), strict=True):
        assert_close(leaf, expected, dtype, jax.tree_util.keystr(path))


# From the reference's layout to ours. `weights` holds the reference's arrays by name: weights, or
# gradients of weights.


def unflatten(flat: np.ndarray, shapes: Sequence[tuple[str, Sequence[int]]]) -> Arrays:
    """The arrays of the shapes (name, shape), which `flat` holds one after the other, in float64:
    biases are added below, and a sum rounded to float32 would differ."""
    ends = np.cumsum([np.prod(shape, dtype=int) for _, shape in shapes])
    assert ends[-1] == len(flat)
    arrays = {}
    pieces = np.split(flat.astype(np.float64), ends[:-1])
    for (name, shape), piece in zip(shapes, pieces, strict=True):
        arrays[name] = piece.reshape(shape)
    return arrays


def linear(weights: Arrays, name: str) -> PyTree:
    return {"kernel": weights[f"{name}.weight"].T, "bias": weights[f"{name}.bias"]}


def lstm(weights: Arrays, name: str, bias: str = "both") -> PyTree:
    """Gates i, f, g, o as in PyTorch, with both directions side by side. PyTorch's two biases are
    only ever added.

    bias "both": their sum (for weights). "ih" or "hh": one of them (for gradients, where each
    equals that of the sum).
    """
    kernels = []
    recurrent = []
    biases = []
    for direction in ("l0", "l0_reverse"):
        kernels.append(weights[f"{name}.rnn.weight_ih_{direction}"].T)
        recurrent.append(weights[f"{name}.rnn.weight_hh_{direction}"].T)
        parts = {kind: weights[f"{name}.rnn.bias_{kind}_{direction}"] for kind in ("ih", "hh")}
        biases.append(sum(parts.values()) if bias == "both" else parts[bias])
    return _both_directions(kernels, recurrent, biases)


def gru(weights: Arrays, name: str) -> PyTree:
    kernels = []
    recurrent = []
    biases = []
    for direction in ("onward", "backward"):
        gates = [f"{name}.{direction}.{gate}" for gate in ("reset", "update", "candidate")]
        kernels += [weights[f"{gate}_input.weight"].T for gate in gates]
        biases += [weights[f"{gate}_input.bias"] for gate in gates]
        states = [weights[f"{gate}_state.weight"] for gate in gates]
        recurrent.append(np.concatenate(states).T)
    return _both_directions(kernels, recurrent, biases)


def _both_directions(
    kernels: Sequence[np.ndarray], recurrent: Sequence[np.ndarray], biases: Sequence[np.ndarray]
) -> PyTree:
    return {
        "kernel": np.concatenate(kernels, axis=1),
        "recurrent": np.stack(recurrent),
        "bias": np.concatenate(biases),
    }


def tree_of(weights: Arrays, bias: str = "both") -> PyTree:
    """The parameter tree of any model."""
    tree = {}
    for name in dict.fromkeys(key.split(".")[0] for key in weights):
        if name == "embedding":
            tree[name] = {"vectors": weights["embedding.weight"]}
        elif name == "path_weight":
            tree["knowledge"] = {"path_weight": weights[name]}
        elif f"{name}.rnn.weight_ih_l0" in weights:
            tree[name] = lstm(weights, name, bias)
        elif f"{name}.onward.reset_input.weight" in weights:
            tree[name] = gru(weights, name)
        else:
            tree[name] = linear(weights, name)
    return tree
