"""SA reader (Chen et al. 2016) on passages whose marked phrases are single tokens:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/sa_ent.py           # demo
  python -m mednli_jax.train --config=configs/sa_ent.py:clicr
  python -m mednli_jax.train --config=configs/sa_ent.py:biomrc

Expected test exact match: demo not measured; CliCR 6.1 in the paper (F1 11.4), not measured here.
A phrase that training never shows cannot be predicted; `prepare` says of how many queries it is the answer.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.cloze("sa_reader", variant, setup="ent")
