"""The runs and files of Herlihy & Rudinger 2021 (artefacts of MedNLI)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from mednli_jax.report.paper import PaperRun, Settings

NAME = "artifacts"
SPLITS = ("dev", "test")
# The classifiers train their own vectors.
OWN_VECTORS: Settings = MappingProxyType({"vectors.path": "", "vectors.dim": 1})
HYPOTHESIS = PaperRun("hypothesis", "hypothesis_only", OWN_VECTORS)
PAIR = PaperRun("pair", "premise_hypothesis_fasttext", OWN_VECTORS)
RUNS: Mapping[str, PaperRun] = MappingProxyType({run.name: run for run in (HYPOTHESIS, PAIR)})
INPUTS = {HYPOTHESIS.name: "no premise", PAIR.name: "with premise"}
REPORT = "analysis/report.html"
FILTERED = {HYPOTHESIS.name: "analysis/aflite.json", PAIR.name: "analysis-pair/aflite.json"}


class PartitionScores(NamedTuple):
    """The scores of a run on the parts of a split."""

    input: str
    split: str


PARTITIONS = {
    PartitionScores(name, split): f"partition-{name}-{split}.json"
    for split in SPLITS
    for name in RUNS
}
