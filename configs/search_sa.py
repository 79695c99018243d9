"""Random search for the SA reader: Suster & Daelemans 2018, appendix A.

  python launch/sweep.py --config=configs/search_sa.py
  python launch/sweep.py --config=configs/search_sa.py:clicr --study=sa --workers=1

The paper searches over the hidden size and the dropout rate by 20 configurations, and finds 70 and .57; how the passage
is attended to is searched as well here, which makes it 30. The best exact match on dev comes first.
"""

from mednli_jax import defaults
from mednli_jax.sweeps.spaces import Real, Whole, search


def get_config(variant="demo"):
    return defaults.cloze("sa_reader", setup="ent", variant=variant)


def get_sweep():
    fields = {
        "model.hidden_size": Whole(32, 96),
        "model.dropout": Real(0.2, 0.7),
        "model.attention": ("bilinear", "dot", "mlp", "average", "last"),
    }
    return search(fields, trials=30, metric="dev.exact_match.mean")
