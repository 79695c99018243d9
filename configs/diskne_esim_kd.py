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
    return defaults.diskne("esim", variant, knowledge="replace")
