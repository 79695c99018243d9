"""GA reader (Dhingra et al. 2017) on passages whose marked phrases are single tokens:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/ga_ent.py           # demo
  python -m mednli_jax.train --config=configs/ga_ent.py:clicr
  python -m mednli_jax.train --config=configs/ga_ent.py:file --config.data.dir=FOLDER

:clicr has the hidden size and dropout of the paper's appendix A (64, 0.5; the published code has
--config.model.hidden_size=67 --config.model.dropout=0.4) and the protocol of the code: Adam with rate 5e-4; the
passages of a batch have one length up to the next power of two; dev is scored every 100 steps; the rate is halved at
each epoch from the fourth on (in the PyTorch port of the reader from the third); training ends after 10 epochs or after
the first without a new best. Words without a vector get random ones from N(0, 1).
:file, for smaller corpora, has Adam with the constant rate 1e-3, scores dev once per epoch, and ends after 30 epochs or
after 3 without a new best. The demo is smaller and has a smaller reader and a higher rate. Without
--config.vectors.path both have random vectors for all words, from N(0, 0.4^2).

Expected test exact match: demo 83.7 (dev 90.7); CliCR 22.2 in the paper (F1 30.2), not measured
here.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.cloze("ga_reader", variant, setup="ent")
