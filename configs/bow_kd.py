"""BOW with knowledge-directed attention, which the paper does not test: Romanov & Shivade 2018,
section 4.2.2.

  python -m mednli_jax.train --config=configs/bow_kd.py         # demo, 15 s on 2 cores
  python -m mednli_jax.train --config=configs/bow_kd.py:mednli          # the UMLS in $MEDNLI_JAX_DATA/umls

Learned weights instead of the paper's: --config.model.knowledge=bias.
Expected test accuracy: demo 52.8 (three seeds).
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.nli("bow", variant, knowledge="replace")
