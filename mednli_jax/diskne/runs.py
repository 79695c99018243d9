"""The runs of Alghanmi et al. 2021 (DisKnE)."""

from collections.abc import Sequence
from types import MappingProxyType

from mednli_jax.report.paper import Settings
from mednli_jax.report.tables import published

MODELS: Sequence[str] = published("diskne")["models"]
STRONGEST = "ClinicalBERT"  # of Table 7
BERT_BASE: Settings = MappingProxyType(published("diskne")["sizes"])
MAIN, WORDINGS, RANDOM = "main", "table7", "table8"  # folders of runs
