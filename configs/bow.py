"""Sum of words (Bowman et al. 2015, with ReLU): Romanov & Shivade 2018, section 3, Table 3.

  python -m mednli_jax.train --config=configs/bow.py            # demo, 17 s on 2 cores
  python -m mednli_jax.train --config=configs/bow.py:mednli
  python -m mednli_jax.train --config=configs/bow.py:mednli_code  # as the published code: docs/settings.md

Expected test accuracy: demo 52.4 (three seeds); MedNLI 70.2 in the paper (six seeds, GloVe 840B),
not measured here.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="bow",
        hidden_size=pick(300, demo=128),
        dropout=0.5,
        matching="concat",  # or "full": also difference and product of the sides
        train_vectors=False,
        masking=pick("masked", code="paper"),
        knowledge="none",
        weighting="auto",
        knowledge_scale=pick(1.0, demo=4.0),
    )
    config.vectors.update(
        path=pick(defaults.GLOVE, demo=None, file=None),  # None: random vectors
        dim=pick(300, demo=100),
    )
    config.train.update(
        optimizer="adam",  # section 5
        learning_rate=pick(1e-3, demo=2e-3),
        weight_decay=1e-6,
        batch_size=pick(64, demo=32, mednli=512, code=512),
        epochs=pick(40, demo=8),
        patience=5,  # section 5: ends after 5 epochs without a lower dev loss
        select="loss",  # section 5: the epoch with the lowest dev loss is tested
    )
    return config
