"""InferSent (Conneau et al. 2017): Romanov & Shivade 2018, section 3, Table 3.

  python -m mednli_jax.train --config=configs/infersent.py      # demo, 47 s on 2 cores
  python -m mednli_jax.train --config=configs/infersent.py:mednli
  python -m mednli_jax.train --config=configs/infersent.py:mednli_code  # as the published code: docs/settings.md

Expected test accuracy: demo 54.9 (three seeds); MedNLI 73.5 in the paper (six seeds, GloVe 840B),
not measured here. A plain BiLSTM: --config.model.pooling=last --config.model.matching=concat. A
GRU: --config.model.cell=gru.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.nli("infersent", variant)
