"""How the suite compiles, which is most of its time: many small programs, each run once or twice.

The compiler's expensive passes are left out, and jaxlib 0.10 is told to generate code as it did before its fusion
emitters, which takes half the time; later ones can no longer. MEDNLI_JAX_TESTS_OPTIMIZED=1 compiles as users do.
"""

import os
from importlib.metadata import version

FLAGS = ["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
FLAGS.append("--xla_cpu_parallel_codegen_split_count=1")  # parts of a program, each of which costs as much again
if version("jaxlib").startswith("0.10."):
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")  # an unknown flag ends the process
if os.environ.get("MEDNLI_JAX_TESTS_OPTIMIZED"):
    FLAGS = []
FAST = " ".join(FLAGS)
