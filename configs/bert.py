"""BERT (Devlin et al. 2019), the classifier of Alghanmi et al. 2021, for sentence pairs.

  python -m mednli_jax.train --config=configs/bert.py                     # demo, from scratch
  python -m mednli_jax.train --config=configs/bert.py:mednli --config.model.weights=FOLDER   # Hugging Face's layout
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.nli("bert", variant)
