"""Sums of words on DisKnE, a fold for each disease: a baseline that Alghanmi et al. 2021 do not have.

  python -m mednli_jax.train --config=configs/diskne_bow.py --config.vectors.path=VECTORS --config.vectors.dim=100

Frozen vectors are all that it can know a disease by, whose name no fold has in training: both sides are matched by
difference and product. docs/results-diskne.md has its figures with vectors of fact text.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    config = defaults.diskne("bow", variant)
    config.model.matching = "full"
    if variant == "demo":
        config.model.update(hidden_size=64, dropout=0.2)
        config.train.update(epochs=40, patience=40)
    return config
