"""ESIM (Chen et al. 2017): Romanov & Shivade 2018, section 3, Table 3.

  python -m mednli_jax.train --config=configs/esim.py           # demo, 1.5 min on 2 cores
  python -m mednli_jax.train --config=configs/esim.py:mednli
  python -m mednli_jax.train --config=configs/esim.py:mednli_code  # as the published code: docs/settings.md

Expected test accuracy: demo 55.5 (three seeds); MedNLI 73.1 in the paper (six seeds, GloVe 840B),
not measured here. The published MedNLI code has no dropout in ESIM; the original has 0.5:
--config.model.dropout=0.5.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.nli("esim", variant)
