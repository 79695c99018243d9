"""Compiler flags that make compilation cheaper: most of the suite's time compiles small programs that
run once or twice.

The flags leave the compiler's expensive passes out. jaxlib 0.10 also goes back to the code
generation before its fusion emitters, which takes half the time; later versions cannot.
MEDNLI_JAX_TESTS_OPTIMIZED=1 compiles as users do.
"""

import os
from importlib.metadata import version

FLAGS = ["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
FLAGS.append(
    "--xla_cpu_parallel_codegen_split_count=1"
)  # each further part of a program costs as much again
if version("jaxlib").startswith("0.10."):
    FLAGS.append(
        "--xla_cpu_use_fusion_emitters=false"
    )  # jaxlib ends the process at a flag that it does not know
if os.environ.get("MEDNLI_JAX_TESTS_OPTIMIZED"):
    FLAGS = []
FAST = " ".join(FLAGS)
