"""GA reader (Dhingra et al. 2017) on passages whose marked phrases are numbered and nameless:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/ga_anonym.py           # demo
  python -m mednli_jax.train --config=configs/ga_anonym.py:clicr
  python -m mednli_jax.train --config=configs/ga_anonym.py:biomrc

Expected test exact match: demo not measured; CliCR 24.5 in the paper (F1 33.2), not measured here.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.cloze("ga_reader", variant, setup="anonym")
