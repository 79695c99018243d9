"""A sweep over ESIM with knowledge-directed attention: learning rate, batch size and weighting of
paths.

  mednli-jax sweep --config=sweep_esim_kd     # demo, 12 trials of less than 1 min on 2 cores
  mednli-jax sweep --config=sweep_esim_kd:mednli --study=kd --workers=2
  mednli-jax sweep --study=sweep_esim_kd-demo --table

The trials are the product of all choices. Each trial is a run like those of configs/esim_kd.py. The
table is sorted by dev accuracy, best first. configs/search_ga.py has ranges and a random search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mednli_jax.cli import read_config

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.sweeps import Sweep


def get_config(variant: str = "demo") -> ConfigDict:
    return read_config(f"esim_kd:{variant}")


def get_sweep() -> Sweep:
    from mednli_jax.sweeps import Sweep

    return Sweep({
        "model.weighting": ("paper", "exp"),
        "train.batch_size": (32, 64),
        "train.learning_rate": (1e-3, 2e-3, 4e-3),
    })  # fmt: skip
