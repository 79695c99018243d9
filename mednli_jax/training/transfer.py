"""Transfer: training starts from the weights of a finished run (Romanov & Shivade 2018, section
4.1).

The merge is strict: every weight of the new model is taken from the best epoch of the source, or
its name matches `skip`. Otherwise the merge is refused with the names that do not fit.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from flax import traverse_util

from mednli_jax.errors import RunError

PyTree = Any
NAMED = 8  # most weights that an error lists
# Weights that each domain has separately, as in the published code: ESIM shares all layers up to
# the pooled vector, InferSent its encoder and the first layer, BOW the first block.
PRIVATE = {
    "bow": r"(layer|norm)_[12]|logits",
    "infersent": r"layer_1|logits",
    "esim": r"layer|logits",
}

# {"params/encoder/kernel": array, ...}
flat = partial(traverse_util.flatten_dict, sep="/")


def drawn_anew(model: str) -> re.Pattern[str]:
    """A pattern of the model's PRIVATE weights, which are not taken from a source."""
    return re.compile(f"^({PRIVATE[model]})(_|/)")


def seed_rows(source: Sequence[int], target: Sequence[int]) -> np.ndarray:
    """[S], the row of the source for each target seed: that of the same seed, or its only row."""
    if len(source) == 1:
        return np.zeros(len(target), np.int64)
    missing = [seed for seed in target if seed not in source]
    if missing:
        problem = f"the source run has no seed {_joined(missing)}"
        wanted, possible = _joined(target), _joined(source)
        fix = f"train its seeds {wanted}, or give config.seeds among {possible}"
        raise RunError(problem, fix=fix)
    return np.array(list(map(list(source).index, target)))


def _joined(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


class Merged(NamedTuple):
    """The result of `merge`."""

    variables: PyTree
    from_source: list[str]  # names of weights that were taken
    drawn: list[str]  # names of weights that keep their random values


def merge(
    variables: PyTree, source: PyTree, *, rows: np.ndarray, skip: re.Pattern[str] | None = None
) -> Merged:
    """Takes the source's weights. Weights that only the source has are ignored, such as those of a
    replaced head.

    Args:
      variables: {"params", "batch_stats"} of the new model, leaves [S, ...]; source: likewise, of
        its best epoch.
      rows: [S], the source's row for each seed of the new model.
      skip: pattern of names (without the collection) that keep their random values; None: every
        weight is taken.
    """
    merged, of_source = flat(variables), flat(source)
    from_source, drawn, misfits = [], [], []
    for name, leaf in merged.items():
        if skip is not None and skip.search(name.partition("/")[2]):
            drawn.append(name)
        elif name not in of_source:
            misfits.append(f"{name} (not in the source)")
        elif of_source[name].shape[1:] != leaf.shape[1:]:
            shapes = f"{_shape(of_source[name])} in the source, {_shape(leaf)} here"
            misfits.append(f"{name} ({shapes})")
        else:
            from_source.append(name)
            merged[name] = np.asarray(of_source[name])[rows].astype(leaf.dtype)
    if misfits:
        names = "; ".join(misfits[:NAMED])
        if len(misfits) > NAMED:
            names += f"; and {len(misfits) - NAMED} more"
        problem = f"{len(misfits)} of {len(merged)} weights do not fit the source run: {names}"
        raise RunError(problem, fix="give the source's config.model")
    nested = traverse_util.unflatten_dict(merged, sep="/")
    return Merged(nested, sorted(from_source), sorted(drawn))


def _shape(leaf: np.ndarray) -> str:
    """The shape of a weight without the seed axis, e.g. 300x600."""
    return "x".join(map(str, leaf.shape[1:])) or "one number"
