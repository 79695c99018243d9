"""Clinical natural language inference and reading comprehension in JAX.

The Python interface is `train_model`, `load_run`, `evaluate_run`, `get_config`, `pair_batch` and
`Run`, see mednli_jax.api. These names are imported at first use, so that `import mednli_jax` does
not import jax.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mednli_jax.api import Run, evaluate_run, get_config, load_run, pair_batch, train_model

__version__ = "1.0.0.dev0"
__all__ = ("Run", "evaluate_run", "get_config", "load_run", "pair_batch", "train_model")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mednli_jax import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
