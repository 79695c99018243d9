"""A masked language model (Devlin et al. 2019) that pretrains BERT on text, as for ClinicalBERT.

  pip install -e '.[bert]'
  python -m mednli_jax.train --config=configs/mlm.py                       # the demo's facts, from scratch
  python -m mednli_jax.train --config=configs/mlm.py:file --config.data.dir=FOLDER --config.model.weights=BERT

FOLDER holds train.txt and optionally dev.txt; an empty line ends a document. The weights of the best epoch are written
to private/weights-SEED of the run in Hugging Face's layout. Give this folder to configs/bert.py with
--config.model.weights.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.mlm("masked_lm", variant)
