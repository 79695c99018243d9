"""Random search for the SA reader: Suster & Daelemans 2018, appendix A.

  python -m mednli_jax.sweep --config=configs/search_sa.py:demo/ent
  for setup in anonym ent; do python -m mednli_jax.sweep --config=configs/search_sa.py:clicr/$setup --workers=1; done

The variant is CORPUS/SETUP; each set-up is a separate study, and demo means demo/ent. The paper
does not use the set-up noent, because the reader scores whole phrases. It searches hidden size and
dropout with 20 configurations and finds 70 and 0.57. The ranges are those of its published code:
hidden size 50 to 160 on a logarithmic scale, dropout 0.1 to 0.7. The table is sorted by exact match
on dev, best first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mednli_jax.cli import read_config

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.sweeps import Sweep


def get_config(variant: str = "demo") -> ConfigDict:
    return read_config(f"sa:{variant}")


def get_sweep() -> Sweep:
    from optuna.distributions import FloatDistribution, IntDistribution

    from mednli_jax.sweeps import Sweep

    return Sweep(
        {
            "model.hidden_size": IntDistribution(50, 160, log=True),
            "model.dropout": FloatDistribution(0.1, 0.7),
        },
        trials=20,
        metric="dev.exact_match.mean",
    )
