"""ESIM with knowledge-directed attention: Romanov & Shivade 2018, section 4.2.2, Table 7.

  python -m mednli_jax.train --config=configs/esim_kd.py        # demo, less than 1 min on 2 cores
  python -m mednli_jax.train --config=configs/esim_kd.py:mednli          # the UMLS in $MEDNLI_JAX_DATA/umls

Expected test accuracy: demo 90.2 (three seeds); MedNLI 73.1 in the paper (SNOMED CT, GloVe 840B),
not measured here. Learned weights instead of the paper's: --config.model.knowledge=bias.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="esim",
        hidden_size=pick(300, demo=64),  # of each direction
        dropout=0.0,  # as the published MedNLI code; 0.5 in Chen et al. 2017
        train_vectors=False,
        masking=pick("masked", code="paper"),
        knowledge="replace",  # section 4.2.2
        weighting="auto",  # the paper's attention decreases with the length of the path
        knowledge_scale=pick(1.0, demo=16.0),  # demo: a model learns to use 16 A from 3,000 pairs
    )
    config.vectors.update(
        path=pick(defaults.GLOVE, demo=None, file=None),  # None: random vectors
        dim=pick(300, demo=100),
    )
    config.knowledge.update(
        ontology=pick("mesh", mednli="umls"),  # section 4.2: SNOMED CT
        relations=pick("is_a", mednli="all"),
        direction=pick("either", mednli="all"),  # one concept is an ancestor of the other
        graph=pick("whole", mednli="mentioned"),  # code: paths through mentioned concepts alone
        candidates=pick("best", mednli="all"),
    )
    config.train.update(
        optimizer="adam",  # section 5
        learning_rate=pick(1e-3, demo=4e-3),
        weight_decay=1e-6,
        batch_size=pick(64, demo=32, mednli=512, code=512),
        epochs=pick(40, demo=5),
        patience=5,  # section 5: ends after 5 epochs without a lower dev loss
        select="loss",  # section 5: the epoch with the lowest dev loss is tested
    )
    return config
