"""The runs of Herlihy & Rudinger 2021 (artefacts of MedNLI)."""

from collections.abc import Mapping
from types import MappingProxyType

from mednli_jax.report.paper import PaperRun, Settings

# The classifiers train their own vectors.
OWN_VECTORS: Settings = MappingProxyType({"vectors.path": "", "vectors.dim": 1})
HYPOTHESIS = PaperRun("hypothesis", "hypothesis_only", OWN_VECTORS)
PAIR = PaperRun("pair", "premise_hypothesis_fasttext", OWN_VECTORS)
RUNS: Mapping[str, PaperRun] = MappingProxyType({run.name: run for run in (HYPOTHESIS, PAIR)})
