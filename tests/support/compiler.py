"""Compiler flags that make compilation cheaper: most of the suite compiles small programs that run
once or twice.

The flags leave the compiler's expensive passes out. jaxlib 0.10 also goes back to the code
generation before its fusion emitters, which takes half the time; later versions cannot.
MEDNLI_JAX_TESTS_OPTIMIZED=1 compiles as users do. conftest.py imports this module before it sets
variables that jax reads at its import, so that this module does not import jax.
"""

import os
from collections.abc import Callable
from importlib.metadata import version

import pytest

FLAGS = [
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",  # each further part of a program costs as much
]
if version("jaxlib").startswith("0.10."):  # jaxlib ends the process at a flag that it lacks
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
FAST = "" if os.environ.get("MEDNLI_JAX_TESTS_OPTIMIZED") else " ".join(FLAGS)


def compiled(caplog: pytest.LogCaptureFixture, call: Callable[[], object]) -> int:
    """The number of programs that are compiled in a call."""
    import jax

    caplog.clear()
    with jax.log_compiles():
        call()
    messages = [record.getMessage() for record in caplog.records]
    return len([text for text in messages if text.startswith("Compiling ")])
