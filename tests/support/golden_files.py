"""The golden files, which independent references made, and their weights in our layout."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

FOLDER = Path(__file__).parents[1] / "golden"
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}


def golden(name):
    """(facts, arrays) of a golden file; no facts where it has none."""
    facts = FOLDER / f"{name}.json"
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return json.loads(facts.read_text()) if facts.exists() else {}, {
            key: file[key] for key in file.files
        }


def cast(tree, dtype):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), tree)


def assert_close(ours, golden, dtype, what=""):
    ours = np.asarray(ours)
    assert ours.dtype == dtype
    assert ours.shape == golden.shape, what
    np.testing.assert_allclose(ours, golden, rtol=0, atol=TOLERANCE[dtype], err_msg=what)


def assert_trees_close(ours, golden, dtype):
    assert jax.tree.structure(ours) == jax.tree.structure(golden)
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(golden), strict=True
    ):
        assert_close(a, b, dtype, jax.tree_util.keystr(path))


# From the reference's layout to ours. `w` holds the reference's arrays by name: weights, or
# gradients of weights.


def unflatten(flat, shapes):
    flat = flat.astype(
        np.float64
    )  # biases are added below, and a sum rounded to float32 would differ
    ends = np.cumsum([np.prod(shape, dtype=int) for _, shape in shapes])
    parts = np.split(flat, ends[:-1])
    assert ends[-1] == len(flat)
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)}


def linear(w, name):
    return {"kernel": w[f"{name}.weight"].T, "bias": w[f"{name}.bias"]}


def lstm(w, name, bias="both"):
    """Gates i, f, g, o as in PyTorch, with both directions side by side. PyTorch's two biases are
    only ever added.

    bias "both": their sum (for weights). "ih" or "hh": one of them (for gradients, where each
    equals that of the sum).
    """
    biases = ("ih", "hh") if bias == "both" else (bias,)
    ends = ("l0", "l0_reverse")
    return {
        "kernel": np.concatenate([w[f"{name}.rnn.weight_ih_{end}"].T for end in ends], axis=1),
        "recurrent": np.stack([w[f"{name}.rnn.weight_hh_{end}"].T for end in ends]),
        "bias": np.concatenate(
            [sum(w[f"{name}.rnn.bias_{one}_{end}"] for one in biases) for end in ends]
        ),
    }


def gru(w, name):
    def gates(direction, what):
        return [w[f"{name}.{direction}.{gate}_{what}"] for gate in ("reset", "update", "candidate")]

    directions = ("onward", "backward")
    return {
        "kernel": np.concatenate(
            [g.T for d in directions for g in gates(d, "input.weight")], axis=1
        ),
        "recurrent": np.stack([np.concatenate(gates(d, "state.weight")).T for d in directions]),
        "bias": np.concatenate([g for d in directions for g in gates(d, "input.bias")]),
    }


def tree_of(w, bias="both"):
    """The parameter tree of any model; `w` holds the reference's arrays by name."""
    tree = {}
    for name in dict.fromkeys(key.split(".")[0] for key in w):
        if name == "embedding":
            tree[name] = {"vectors": w["embedding.weight"]}
        elif name == "path_weight":
            tree["knowledge"] = {"path_weight": w[name]}
        elif f"{name}.rnn.weight_ih_l0" in w:
            tree[name] = lstm(w, name, bias)
        elif f"{name}.onward.reset_input.weight" in w:
            tree[name] = gru(w, name)
        else:
            tree[name] = linear(w, name)
    return tree
