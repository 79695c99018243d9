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
    config = defaults.diskne(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="encoder",
        weights="",  # a folder; the weights set the sizes
        **defaults.SMALL_BERT,
        dropout=0.1,
        knowledge="none",
        weighting="auto",
        knowledge_scale=pick(1.0, demo=4.0),
    )
    config.data.update(tokens="pieces", max_length=pick(256, demo=128))
    config.vectors.update(path="", dim=1)  # not used: the model has embeddings of pieces
    config.train.update(
        optimizer=pick("adamw", code="adam"),
        learning_rate=pick(2e-5, demo=5e-4),  # section 4.1; the demo starts from scratch
        schedule=pick("warmup_linear", code="linear"),
        weight_decay=pick(0.01, code=0.0),
        clip=1.0,
        batch_size=pick(8, demo=32),  # section 4.1
        max_buckets=4,
        epochs=8,  # section 4.1: at most 8, with early stopping
        patience=3,
        select=pick("loss", code="last"),
        checkpoint_epochs=8,  # a checkpoint has the state of all folds and seeds: many GB
        checkpoint_minutes=20.0,
    )
    if variant == "mednli_code":
        config.model.num_classes = 2
    return config
