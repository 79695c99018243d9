"""ESIM (Chen et al. 2017): Romanov & Shivade 2018, section 3, Table 3.

  python -m mednli_jax.train --config=configs/esim.py           # demo, less than 1 min on 2 cores
  python -m mednli_jax.train --config=configs/esim.py:mednli
  python -m mednli_jax.train --config=configs/esim.py:mednli_code  # as the published code: docs/settings.md

Expected test accuracy: demo 57.9 (three seeds); MedNLI 73.1 in the paper (six seeds, GloVe 840B),
not measured here. The published MedNLI code has no dropout in ESIM; the original has 0.5:
--config.model.dropout=0.5.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="esim",
        hidden_size=pick(300, demo=64),  # of each direction
        dropout=0.0,  # as the published MedNLI code; 0.5 in Chen et al. 2017
        train_vectors=False,
        masking=pick("masked", code="paper"),
        knowledge="none",
        weighting="auto",
        knowledge_scale=pick(1.0, demo=16.0),
    )
    config.vectors.update(
        path=pick(defaults.GLOVE, demo=None, file=None),  # None: random vectors
        dim=pick(300, demo=100),
    )
    config.train.update(
        optimizer="adam",  # section 5
        learning_rate=pick(1e-3, demo=4e-3),
        weight_decay=1e-6,
        batch_size=pick(64, demo=32, mednli=512, code=512),
        epochs=pick(40, demo=5),
        patience=5,  # section 5: ends after 5 epochs without a lower dev loss
        select="loss",  # section 5: the epoch with the lowest dev loss is tested
    )
    return config
