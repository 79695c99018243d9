"""BERT on DisKnE, a fold for each disease: Alghanmi et al. 2021, section 4, Tables 2 to 8.

  pip install -e '.[bert]'
  python -m mednli_jax.train --config=configs/diskne_bert.py              # demo, a small BERT from scratch
  python -m mednli_jax.train --config=configs/diskne_bert.py:mednli --config.model.weights=FOLDER

The protocol is the paper's: rate 2e-5, batch 8, at most 8 epochs with early stopping, 256 pieces, three runs;
`:mednli_code` is that of the published scripts (docs/results-diskne.md). Each slot (a fold with a seed) starts from the
pretrained weights; as many slots as fit into memory are trained at once. On the demo with weights:
--config.train.learning_rate=2e-5. BERT in the paper, macro F1: symptoms 46.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.diskne("bert", variant)
