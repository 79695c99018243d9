"""Random search for the GA reader: Suster & Daelemans 2018, appendix A.

  python -m mednli_jax.sweep --config=configs/search_ga.py:demo/ent
  for setup in anonym ent noent; do mednli-jax sweep --config=search_ga:clicr/$setup --workers=1; done

The variant is CORPUS/SETUP; each set-up is a separate study, and demo means demo/ent. The paper
searches hidden size, dropout and the feature that marks passage words which occur in the query, and
finds 64 and 0.5. The ranges are those of its published code: hidden size 50 to 160 and dropout 0.1
to 0.6, both on a logarithmic scale. The number of configurations, 20, is the paper's for the SA
reader. The table is sorted by exact match on dev, best first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mednli_jax.cli import read_config

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.sweeps import Sweep


def get_config(variant: str = "demo") -> ConfigDict:
    return read_config(f"ga:{variant}")


def get_sweep() -> Sweep:
    from optuna.distributions import FloatDistribution, IntDistribution

    from mednli_jax.sweeps import Sweep

    return Sweep(
        {
            "model.hidden_size": IntDistribution(50, 160, log=True),
            "model.dropout": FloatDistribution(0.1, 0.6, log=True),
            "model.query_feature": (True, False),
        },
        trials=20,
        metric="dev.exact_match.mean",
    )
