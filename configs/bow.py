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
    return defaults.nli("bow", variant)
