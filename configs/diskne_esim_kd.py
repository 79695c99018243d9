"""ESIM with knowledge-directed attention on DisKnE: Alghanmi et al. 2021, sections 3.3 and 4.1;
attention as in Romanov & Shivade 2018, section 4.2.2.

  python -m mednli_jax.train --config=configs/diskne_esim_kd.py          # demo: 44 folds, three seeds
  python -m mednli_jax.train --config=configs/diskne_esim_kd.py:mednli --config.knowledge.ontology=umls

The difference to the scores of configs/diskne_esim.py is the effect of the ontology. Learned
weights instead of the paper's: --config.model.knowledge=bias.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.diskne(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="esim",
        hidden_size=pick(300, demo=32),  # of each direction
        dropout=0.0,
        train_vectors=False,
        knowledge="replace",
        weighting="auto",
        knowledge_scale=pick(1.0, demo=4.0),
    )
    config.vectors.update(
        path=pick(None, mednli=defaults.GLOVE),  # None: random vectors
        dim=pick(300, demo=64),
    )
    config.knowledge.update(ontology="mesh", relations="is_a", direction="either")
    # A fold of the demo has 1,600 examples: a small model and a high rate. For about ten epochs its dev
    # loss stays at that of the class frequencies, so patience must not end the run.
    config.train.update(
        optimizer="adam",
        learning_rate=pick(1e-3, demo=2e-3),
        weight_decay=1e-6,
        batch_size=32,
        epochs=pick(40, demo=20),
        patience=pick(5, demo=20),
        select="loss",
    )
    return config
