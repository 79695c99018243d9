"""Random search for the GA reader: Suster & Daelemans 2018, appendix A.

  python launch/sweep.py --config=configs/search_ga.py:demo/ent
  for setup in anonym ent noent; do python launch/sweep.py --config=configs/search_ga.py:clicr/$setup --workers=1; done

CORPUS/SETUP names what is searched, each set-up as its own study; demo alone is demo/ent. The paper searches
hidden size, dropout and the feature that marks words of the passage which occur in the query, and finds 64 and 0.5. The
ranges are those of its published code: hidden size 50 to 160 and dropout 0.1 to 0.6, both on a logarithmic scale. 20
configurations, the paper's number for the SA reader. The table has the best exact match on dev first.
"""

from mednli_jax import defaults
from mednli_jax.sweeps.spaces import Real, Whole, search


def get_config(variant="demo"):
    corpus, _, setup = variant.partition("/")
    return defaults.cloze("ga_reader", corpus, setup or "ent")


def get_sweep():
    fields = {
        "model.hidden_size": Whole(50, 160, log=True),
        "model.dropout": Real(0.1, 0.6, log=True),
        "model.query_feature": (True, False),
    }
    return search(fields, trials=20, metric="dev.exact_match.mean")
