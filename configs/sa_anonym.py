"""SA reader (Chen et al. 2016) on passages whose marked phrases are anonymous numbered tokens:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/sa_anonym.py           # demo
  python -m mednli_jax.train --config=configs/sa_anonym.py:clicr
  python -m mednli_jax.train --config=configs/sa_anonym.py:file --config.data.dir=FOLDER

Appendix A of the paper has hidden size 70 and dropout 0.57; the published code has
--config.model.hidden_size=72
--config.model.dropout=0.61. :clicr follows the protocol of the code: SGD with rate 0.1; the passages of a batch have
one length up to the next power of two; dev is scored every 100 steps; up to 100 epochs; after epoch 25 training ends
after three epochs without a new best. Words without a vector get random ones with the standard deviation of
U(-0.01, 0.01).
:file, for smaller corpora, has Adam with rate 1e-3, because SGD would take too few steps. It scores dev once per epoch
and ends after 30 epochs or after 3 without a new best. The demo is smaller and has a smaller reader and a higher rate.
Without --config.vectors.path both have random vectors for all words, from N(0, 0.4^2).

Expected test exact match: demo 12.0 (most frequent phrase: 7.3); CliCR 19.6 in the paper (F1 27.2),
not measured here.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    return defaults.cloze("sa_reader", variant, setup="anonym")
