"""Herlihy & Rudinger 2021 as the commands see it: analyses and tables of corpora of sentence
pairs."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from mednli_jax.artifacts import tables
from mednli_jax.artifacts.aflite import difficulty
from mednli_jax.artifacts.heuristics import heuristics
from mednli_jax.artifacts.hypotheses import hypothesis_lengths, tokens
from mednli_jax.nli.analyses import Pairs
from mednli_jax.nli.config import Config
from mednli_jax.nli.plug import TASK as PAIRS
from mednli_jax.report.options import AnalysisOptions, PaperTable
from mednli_jax.report.sections import Report
from mednli_jax.report.tables import published


class Artifacts:
    """Analyses and tables, without a task of its own (see tasks.Part)."""

    corpora = PAIRS.corpora
    analyses: Mapping[str, Callable[[Pairs, AnalysisOptions], Report]] = MappingProxyType(
        {
            "lexical": tokens,
            "lengths": hypothesis_lengths,
            "heuristics": heuristics,
            "aflite": difficulty,
        }
    )
    alone: Sequence[str] = ()

    def analysed(self, config: Config, options: AnalysisOptions) -> Pairs:
        return PAIRS.analysed(config, options)

    @property
    def tables(self) -> Mapping[str, PaperTable]:
        """Table 2 counts single pairs, and Table 6 small partitions."""
        source = published(tables.NAME)["source"]
        return {tables.NAME: PaperTable(tables.filled, source, shareable=False)}


PART = Artifacts()
