"""35 hand-made features and gradient boosting: Romanov & Shivade 2018, section 3, Table 3.

  python -m mednli_jax.train --config=configs/features.py       # demo, half a minute on 2 cores
  python -m mednli_jax.train --config=configs/features.py:mednli          # the UMLS in $MEDNLI_JAX_DATA/umls

Expected test accuracy: demo 48.2 (seed 0); MedNLI 51.9 in the paper (SNOMED CT), not measured here.
Without the ontology's three features: --config.model.knowledge=none.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(name="features", trees=300, knowledge="paths")
    config.vectors.update(
        path=pick(defaults.GLOVE, demo=None, file=None),  # None: random vectors
        dim=pick(300, demo=100),
    )
    config.knowledge.update(
        ontology=pick("mesh", mednli="umls"),
        relations="is_a",
        direction="undirected",  # through a common ancestor, as in UMLS::Similarity
        graph="whole",
    )
    config.train.group = 1
    return config
