"""fastText on premise and hypothesis as one text: Herlihy & Rudinger 2021, section 6, Table 6 (with premise).

  python -m mednli_jax.train --config=configs/premise_hypothesis_fasttext.py          # demo, TODO s on 2 cores
  python -m mednli_jax.train --config=configs/premise_hypothesis_fasttext.py:mednli

Expected test accuracy: demo TODO; MedNLI 51 in the paper (dev 53), not measured here.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.nli("fasttext", variant)
