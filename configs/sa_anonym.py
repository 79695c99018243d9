"""SA reader (Chen et al. 2016) on passages whose marked phrases are numbered and nameless:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/sa_anonym.py           # demo
  python -m mednli_jax.train --config=configs/sa_anonym.py:clicr
  python -m mednli_jax.train --config=configs/sa_anonym.py:biomrc

Expected test exact match: demo not measured; CliCR 19.6 in the paper (F1 27.2), not measured here.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.cloze("sa_reader", variant, setup="anonym")
