"""A pretrained encoder as the classifier of sentence pairs: BERT, RoBERTa, ELECTRA, Megatron-BERT
(GatorTron), ModernBERT, DeBERTa-v2 or v3, as its config.json says, fine-tuned as in Devlin et al. 2019, appendix A.3.

  pip install -e '.[bert]'
  python -m mednli_jax.train --config=configs/encoder.py                  # demo, a small BERT from scratch
  python -m mednli_jax.train --config=configs/encoder.py:mednli --config.model.weights=FOLDER
  python -m mednli_jax.train --config=configs/encoder.py:mednli_large --config.model.weights=FOLDER
  python -m mednli_jax.train --config=configs/encoder.py:file --config.data.dir=PAIRS --config.model.weights=FOLDER

:snli and :multinli/GENRE train on these corpora; --config.transfer.init_from=RUN continues from
such a run with the same weights. :mednli_large is for models of 24 layers: products of bfloat16,
layers computed again in the backward pass, rate 1e-5. docs/encoders.md lists published weights,
their files, and their accuracy on MedNLI (78 to 86). Expected here: 79.3 on SNLI with its first
20,000 training pairs, as configs/bert.py. Demo: not measured.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults

LARGE = "mednli_large"


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli("encoder", "mednli" if variant == LARGE else variant)
    if variant == LARGE:
        config.model.rematerialise = True
        config.train.update(precision="bfloat16", learning_rate=1e-5)
    return config
