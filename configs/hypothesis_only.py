"""fastText on hypotheses only: Herlihy & Rudinger 2021, section 3, Table 1; section 6, Table 6 (no
premise).

  python -m mednli_jax.train --config=configs/hypothesis_only.py          # demo, 12 s on 2 cores
  python -m mednli_jax.train --config=configs/hypothesis_only.py:mednli

Expected test accuracy: demo 50.0 (the library 50.7, majority class 33.3); MedNLI 62.6 in the paper
(dev 64.8), not measured here. The texts are whole raw texts; blanks separate words.
docs/settings.md lists the differences to the published code.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli("fasttext", variant)
    config.data.hypothesis_only = True
    return config
