"""The runs of Šuster & Daelemans 2018 (CliCR)."""

from collections.abc import Mapping
from types import MappingProxyType

from mednli_jax.report.paper import PaperRun

TABLE = "clicr4"
CLICR = "clicr"
READERS = ("sa_anonym", "sa_ent", "ga_anonym", "ga_ent", "ga_noent")
SEEDS = (0, 1, 2)
# Vectors of a search as in Appendix A, or those of 200 numbers of PubMed and MIMIC-III.
VECTORS = ("clicr", "pubmed_mimic_200d")
RUNS: Mapping[str, PaperRun] = MappingProxyType(
    {name: PaperRun(name, name, vectors=VECTORS) for name in READERS}
)
BASELINES = "baselines/cloze-baselines.json"


def answers_file(name: str, split: str) -> str:
    """The private file with the answers of a baseline."""
    return f"{name.replace(', ', '-').replace(' ', '_')}.{split}.jsonl"
