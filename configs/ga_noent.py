"""GA reader (Dhingra et al. 2017) on plain passages, where a candidate has the mass of all its words:
Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/ga_noent.py           # demo
  python -m mednli_jax.train --config=configs/ga_noent.py:clicr
  python -m mednli_jax.train --config=configs/ga_noent.py:biomrc
  python -m mednli_jax.train --config=configs/ga_noent.py:file --config.data.dir=FOLDER

:clicr has hidden size and dropout of the paper's appendix A (64, .5; its code has
--config.model.hidden_size=67 --config.model.dropout=.4) and the code's protocol: Adam 5e-4, dev every 100 steps, the
rate halved with each epoch from the fourth on (in the PyTorch port of the reader from the third), the end after 10
epochs or the first without a new best; words without a vector are drawn from N(0, 1).
:file, for smaller corpora, has Adam 1e-3 throughout, dev once an epoch, and the end after 30 epochs or 3 without a new
best.
The demo, smaller still, has a smaller reader at a higher rate. Both draw shorter vectors, N(0, .4^2), since all of
their vectors are drawn unless --config.vectors.path names a file.

Expected test exact match: demo 77.0 (dev 78.0); CliCR 14.9 in the paper (F1 33.9), not measured here.
The published mass is neither divided by length nor, in the loss, by that of the other candidates, which favours long
candidates (section 7.1); others: --config.model.pointer=share, divided by the mass of all candidates, mean, by length,
or span, the mass of the marked places alone.
"""

from mednli_jax import defaults


def get_config(variant="demo"):
    return defaults.cloze("ga_reader", variant, setup="noent")
