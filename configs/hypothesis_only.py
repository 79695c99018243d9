"""fastText on hypotheses alone: Herlihy & Rudinger 2021, section 3, Table 1; section 6, Table 6 (no premise).

  python -m mednli_jax.train --config=configs/hypothesis_only.py          # demo, TODO s on 2 cores
  python -m mednli_jax.train --config=configs/hypothesis_only.py:mednli

Expected test accuracy: demo TODO; MedNLI 62.6 in the paper (dev 64.8; majority class 33.3), not measured here.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    config = defaults.nli("fasttext", variant)
    config.data.hypothesis_only = True
    return config
