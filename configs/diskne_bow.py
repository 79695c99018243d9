"""Sums of words on DisKnE, a fold for each disease: a baseline that is not in Alghanmi et al. 2021.

  python -m mednli_jax.train --config=configs/diskne_bow.py --config.vectors.path=VECTORS --config.vectors.dim=100

The two sides are matched by difference and product. A fold never trains on the name of its disease,
so that only the frozen vectors have information about it. docs/results.md has scores with
vectors trained on facts.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.diskne(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="bow",
        hidden_size=pick(300, demo=64),
        dropout=pick(0.5, demo=0.2),
        matching="full",
        train_vectors=False,
        knowledge="none",
        weighting="auto",
        knowledge_scale=pick(1.0, demo=4.0),
    )
    config.vectors.update(
        path=pick(None, mednli=defaults.GLOVE),  # None: random vectors
        dim=pick(300, demo=64),
    )
    # A fold of the demo has 1,600 examples: a small model and a high rate. For about ten epochs its dev
    # loss stays at that of the class frequencies, so patience must not end the run.
    config.train.update(
        optimizer="adam",
        learning_rate=pick(1e-3, demo=2e-3),
        weight_decay=1e-6,
        batch_size=32,
        epochs=pick(40, demo=40),
        patience=pick(5, demo=40),
        select="loss",
    )
    return config
