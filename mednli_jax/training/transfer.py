"""Transfer: training starts from the weights of a finished run (Romanov & Shivade 2018, section
4.1).

The merge is strict: every weight of the new model is taken from the best epoch of the source, or
its name matches `skip`. Otherwise the merge is refused with the names that do not fit.
"""

import re
from collections.abc import Sequence
from functools import partial

import numpy as np
from flax import traverse_util

from mednli_jax.errors import RunError, config_field

NAMED = 8  # most weights that an error lists
# Weights that each domain has separately, as in the published code: ESIM shares all layers up to
# the pooled vector, InferSent its encoder and the first layer, BOW the first block.
PRIVATE = {
    "bow": r"(layer|norm)_[12]|logits",
    "infersent": r"layer_1|logits",
    "esim": r"layer|logits",
}


flat = partial(traverse_util.flatten_dict, sep="/")  # {"params/encoder/kernel": array, ...}


def drawn_anew(model: str) -> re.Pattern:
    """A pattern of the model's PRIVATE weights, which are not taken from a source."""
    return re.compile(f"^({PRIVATE[model]})(_|/)")


def seed_rows(source: Sequence[int], target: Sequence[int]) -> np.ndarray:
    """For each target seed the index of the same seed in the source, or of its only seed."""
    if len(source) == 1:
        return np.zeros(len(target), np.int64)
    if missing := [seed for seed in target if seed not in source]:
        problem = f"the source run has no seed {', '.join(map(str, missing))}"
        wanted, known = (", ".join(map(str, seeds)) for seeds in (target, source))
        fix = (f"train its seeds {wanted}, or give ", config_field("seeds"), f" among {known}")
        raise RunError(problem, fix=fix)
    return np.array([list(source).index(seed) for seed in target])


def merge(variables, source, *, rows, skip: re.Pattern | None = None):
    """Takes the source's weights: (the new variables, names that were taken, names that keep random
    values).

    Weights that only the source has are ignored, such as those of a replaced head.

    Args:
      variables: {"params", "batch_stats"} of the new model, leaves [S, ...]; source: likewise, of its best epoch.
      rows: [S], the row of the source for each seed.
      skip: pattern of names (without the collection) that keep their random values; None: every weight is taken.
    """

    def shape(leaf):
        return "x".join(map(str, leaf.shape[1:])) or "one number"

    drawn, of_source = flat(variables), flat(source)
    taken, kept, wrong = {}, [], []
    for name, leaf in drawn.items():
        if skip is not None and skip.search(name.partition("/")[2]):
            kept.append(name)
        elif name not in of_source:
            wrong.append(f"{name} (not in the source)")
        elif of_source[name].shape[1:] != leaf.shape[1:]:
            wrong.append(f"{name} ({shape(of_source[name])} in the source, {shape(leaf)} here)")
        else:
            taken[name] = np.asarray(of_source[name])[rows].astype(leaf.dtype)
    if wrong:
        shown = "; ".join(wrong[:NAMED]) + (
            f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        )
        problem = f"{len(wrong)} of {len(drawn)} weights do not fit the source run: {shown}"
        raise RunError(problem, fix="give the source's config.model")
    return traverse_util.unflatten_dict({**drawn, **taken}, sep="/"), sorted(taken), sorted(kept)
