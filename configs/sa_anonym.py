"""SA reader (Chen et al. 2016) on passages whose marked phrases are numbered and nameless:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/sa_anonym.py           # demo
  python -m mednli_jax.train --config=configs/sa_anonym.py:clicr
  python -m mednli_jax.train --config=configs/sa_anonym.py:biomrc
  python -m mednli_jax.train --config=configs/sa_anonym.py:file --config.data.dir=FOLDER

Appendix A of the paper has hidden size 70 and dropout .57; its code has --config.model.hidden_size=72
--config.model.dropout=.61. :clicr follows the code's protocol: SGD .1, dev every 100 steps, up to 100 epochs, the end
past epoch 25 when three brought no new best; words without a vector are drawn as widely as its U(-.01, .01).
:file, for smaller corpora, has Adam 1e-3, since SGD would take too few steps, dev once an epoch, and the end after 30
epochs or 3 without a new best. The demo, smaller still, has a smaller reader at a higher rate. Both draw longer
vectors, N(0, .4^2), since all of their vectors are drawn unless --config.vectors.path names a file.

Expected test exact match: demo 12.0 (most frequent phrase: 7.3); CliCR 19.6 in the paper (F1 27.2), not measured here.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.cloze("sa_reader", variant, setup="anonym")
