"""ESIM with typed relations (KIM): Chen et al. 2018, on the corpora of Romanov & Shivade 2018.

  python -m mednli_jax.train --config=configs/esim_kim.py        # demo
  python -m mednli_jax.train --config=configs/esim_kim.py:snli   # WordNet
  python -m mednli_jax.train --config=configs/esim_kim.py:mednli # the UMLS in $MEDNLI_JAX_DATA/umls

Expected test accuracy: demo 91.7 (three seeds); docs/results-typed.md has SNLI. Named relations in
addition to the six types: --config.knowledge.relations=may_treat,has_finding_site
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="esim",
        hidden_size=pick(300, demo=128),  # of each direction
        dropout=0.0,  # as the published MedNLI code; 0.5 in Chen et al. 2017
        train_vectors=False,
        masking="masked",
        knowledge="typed",  # Chen et al. 2018, section 3
        same_words=True,  # equal words are a relation, too
        weighting="auto",
        knowledge_scale=1.0,
    )
    config.knowledge.update(
        ontology=pick("mesh", mednli="umls", snli="wordnet", multinli="wordnet"),
        relations="all",  # also antonyms
        max_path=8,  # section 3.1: is-a paths of at most 8 edges
        max_links=96,
        graph="whole",  # the common parent of two siblings may not be mentioned in the corpus
    )
    config.vectors.update(
        path=pick(defaults.GLOVE, demo=None, file=None),  # None: random vectors
        dim=pick(300, demo=100),
    )
    config.train.update(
        optimizer="adam",  # section 5
        learning_rate=pick(1e-3, demo=2e-3),
        weight_decay=1e-6,
        batch_size=pick(64, demo=32, mednli=512, code=512),
        epochs=pick(40, demo=8),
        patience=5,  # section 5: ends after 5 epochs without a lower dev loss
        select="loss",  # section 5: the epoch with the lowest dev loss is tested
    )
    return config
