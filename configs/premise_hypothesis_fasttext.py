"""fastText on premise and hypothesis as one text: Herlihy & Rudinger 2021, section 6, Table 6 (with
premise).

  python -m mednli_jax.train --config=configs/premise_hypothesis_fasttext.py          # demo, 12 s on 2 cores
  python -m mednli_jax.train --config=configs/premise_hypothesis_fasttext.py:mednli

Expected test accuracy: demo 42.8 (the library 45.8, majority class 33.3); MedNLI 51 in the paper
(dev 53), not measured here. The texts are whole raw texts; blanks separate words.
docs/settings.md lists the differences to the published code.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.nli("fasttext", variant)
