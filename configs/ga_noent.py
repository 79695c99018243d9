"""GA reader (Dhingra et al. 2017) on plain passages, where a candidate has the mass of all its words:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/ga_noent.py           # demo
  python -m mednli_jax.train --config=configs/ga_noent.py:clicr
  python -m mednli_jax.train --config=configs/ga_noent.py:biomrc

Expected test exact match: demo not measured; CliCR 14.9 in the paper (F1 33.9), not measured here.
The paper's mass is not divided by length, which favours long candidates (its section 7.1); others:
--config.model.pointer=mean, or span, the mass of the marked places alone.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.cloze("ga_reader", variant, setup="noent")
