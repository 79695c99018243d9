"""GA reader (Dhingra et al. 2017) on passages whose marked phrases are single tokens:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/ga_ent.py           # demo, 2.8 min on 2 busy cores
  python -m mednli_jax.train --config=configs/ga_ent.py:clicr
  python -m mednli_jax.train --config=configs/ga_ent.py:biomrc

Expected test exact match: demo 87.0; CliCR 22.2 in the paper (F1 30.2), not measured here.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.cloze("ga_reader", variant, setup="ent")
