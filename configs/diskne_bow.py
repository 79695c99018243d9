"""Sums of words on DisKnE, a fold for each disease: a baseline that is not in Alghanmi et al. 2021.

  python -m mednli_jax.train --config=configs/diskne_bow.py --config.vectors.path=VECTORS --config.vectors.dim=100

The two sides are matched by difference and product. A fold never trains on the name of its disease,
so that only the frozen vectors have information about it. docs/results.md has scores with
vectors trained on facts.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.diskne("bow", variant)
    config.model.matching = "full"
    if variant == "demo":
        config.model.update(hidden_size=64, dropout=0.2)
        config.train.update(epochs=40, patience=40)
    return config
