"""The options of commands as values: what analyses, tables and TASKs take in place of a command's
flags.

`--help` of the command says what each option is for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax.data.partitions import Partition
from mednli_jax.report.sections import Report
from mednli_jax.report.tables import Read

# (features [N, D], labels [N], rows of each model's training subset [n, m]) -> (the class that each
# model gives to each row [n, N], facts of the training as JSON values).
FitPredict = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, dict]]


@dataclass(frozen=True)
class AnalysisOptions:
    """Options of `analyze`, and the functions of higher layers that an analysis calls.

    Args:
      corpus: the value of --corpus; "" without it.
      fit_predict: numbers of pairs and classes -> the function that trains the linear models of a
        filtering.
      outputs: folder of a finished run -> {uid: logits [S * C]}.
    """

    corpus: str = ""
    spans: Path | None = None
    features: Path | None = None
    vectors: Path | None = None
    skills: Path | None = None
    scores: tuple[str, ...] = ()
    out: Path | None = None
    stop_words: bool = False
    public: bool = False
    resume: bool = False
    lengths: str = "all"
    input: str = "hypothesis"
    entities: str = "none"
    unknown: str = "zero"
    top: int = 15
    min_count: int = 5
    smoothing: float = 50.0
    count: int = 200
    m: int | None = None
    n: int = 64
    k: int | None = None
    tau: float = 0.75
    seed: int = 0
    fit_predict: Callable[[int, int], FitPredict] | None = None
    outputs: Callable[[Path], dict[str, np.ndarray]] | None = None


@dataclass(frozen=True)
class EvaluationOptions:
    """Options of `evaluate`. item_scores: whether those of single items are wanted."""

    split: str = "test"
    partitions: Sequence[Partition] = ()
    vectors: Path | None = None
    skills: Path | None = None
    item_scores: bool = False


@dataclass(frozen=True)
class ReportOptions:
    """Options of `report` on runs. config_of: folder of a run -> its config."""

    config_of: Callable[[Path], object]
    split: str = "test"
    categories: bool = False
    categories_file: Path | None = None
    paths: Path | None = None


@dataclass(frozen=True)
class TableOptions:
    """Options of `report --table`.

    Args:
      read: name of a config -> the config.
      config_of: folder of a run -> its config, for a table that reads the corpus.
      systems: name -> the run of a system of the user's own, for a table that takes them.
    """

    read: Read
    config_of: Callable[[Path], object] | None = None
    split: str = "test"
    skills: Path | None = None
    public: bool = False
    systems: Mapping[str, Path] = field(default_factory=dict)


class PaperTable(NamedTuple):
    """A table of a paper, as --table names it.

    Args:
      fill: (folder of runs, options) -> the table beside the runs' figures.
      source: the paper, for the title of a page.
      shareable: whether --public may show it.
      systems: whether --with may add systems.
    """

    fill: Callable[[Path, TableOptions], Report]
    source: str
    shareable: bool = True
    systems: bool = False
