"""ESIM with knowledge-directed attention: Romanov & Shivade 2018, section 4.2.2, Table 7.

  python -m mednli_jax.train --config=configs/esim_kd.py        # demo, 1.5 min on 2 cores
  python -m mednli_jax.train --config=configs/esim_kd.py:mednli          # the UMLS in $MEDNLI_JAX_DATA/umls

Expected test accuracy: demo 89.1 (three seeds); MedNLI 73.1 in the paper (SNOMED CT, GloVe 840B),
not measured here. Learned weights instead of the paper's: --config.model.knowledge=bias.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.nli("esim", variant, knowledge="replace")
