"""Random search for the GA reader: Suster & Daelemans 2018, appendix A.

  python launch/sweep.py --config=configs/search_ga.py
  python launch/sweep.py --config=configs/search_ga.py:clicr --study=ga --workers=1

The paper searches over the hidden size, the dropout rate and the feature that marks the words of the passage which
occur in the query, and finds 64 and .5; 20 configurations were its number for the SA reader. The ranges here hold all
its best values. 30 trials, the best exact match on dev first.
"""

from mednli_jax import defaults
from mednli_jax.sweeps.spaces import Real, Whole, search


def get_config(variant="demo"):
    return defaults.cloze("ga_reader", setup="ent", variant=variant)


def get_sweep():
    fields = {
        "model.hidden_size": Whole(32, 96),
        "model.dropout": Real(0.2, 0.7),
        "model.query_feature": (True, False),
    }
    return search(fields, trials=30, metric="dev.exact_match.mean")
