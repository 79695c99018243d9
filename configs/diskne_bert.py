"""BERT on DisKnE, a fold for each disease: Alghanmi et al. 2021, section 4, Tables 2 to 8.

  pip install -e '.[bert]'
  python -m mednli_jax.train --config=configs/diskne_bert.py              # demo, a small BERT from scratch
  python -m mednli_jax.train --config=configs/diskne_bert.py:mednli --config.model.weights=FOLDER

The protocol of :mednli is the paper's: rate 2e-5, batch 8, at most 8 epochs with early stopping,
three runs. 256 pieces are the scripts'. That of :mednli_code is the published scripts'
(docs/settings.md). Each slot (a fold and a seed) starts from the pretrained weights, and as
many slots as fit into memory train at the same time. For the demo with weights give
--config.train.learning_rate=2e-5. Macro F1 of BERT in the paper: symptoms 46.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.diskne("bert", variant)
