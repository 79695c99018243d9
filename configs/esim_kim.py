"""ESIM with typed relations (KIM): Chen et al. 2018, on the corpora of Romanov & Shivade 2018.

  python -m mednli_jax.train --config=configs/esim_kim.py        # demo
  python -m mednli_jax.train --config=configs/esim_kim.py:snli   # WordNet
  python -m mednli_jax.train --config=configs/esim_kim.py:mednli # the UMLS in $MEDNLI_JAX_DATA/umls

Test accuracies are in docs/results-typed.md. Named relations in addition to the six types:
--config.knowledge.relations=may_treat,has_finding_site
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.nli("esim", variant, knowledge="typed")
