"""Values that commands and papers exchange.

Analyses, tables and TASKs take the options of a command in place of its flags; `--help` of the
command explains them. `report` and `reproduce` take the tables and runs of a paper. The folder of a
paper has its runs and its plan in `runs.py`: `reproduce` trains them, tables read them, and
verdicts compare runs with them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from mednli_jax.data.corpus import corpora_folder
from mednli_jax.data.partitions import Partition
from mednli_jax.report.sections import Report

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.data.examples import Split

ENDINGS = ("", ".vec", ".txt", ".bin", ".vec.gz", ".txt.gz", ".bin.gz")  # of files of vectors
Read = Callable[[str], "ConfigDict"]  # cli.read_config
# (features [N, D], labels [N], rows of each model's training subset [n, m]) -> (the class that each
# model gives to each row [n, N], facts of the training as JSON values).
FitPredict = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, dict]]
Setting = str | int | float | bool | tuple[int, ...]
Settings = Mapping[str, Setting]


# -- options of commands ---------------------------------------------------------------------------


@dataclass(frozen=True)
class AnalysisOptions:
    """Options of `analyze`, and the functions of higher layers that an analysis calls.

    Args:
      corpus: the value of --corpus; "" without it.
      fit_predict: numbers of pairs and classes -> the function that trains the linear models of a
        filtering.
    """

    corpus: str = ""
    spans: Path | None = None
    vectors: Path | None = None
    skills: Path | None = None
    out: Path | None = None
    stop_words: bool = False
    public: bool = False
    train_only: bool = False
    lengths: str = "all"
    input: str = "hypothesis"
    entities: str = "none"
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


@dataclass(frozen=True)
class EvaluationOptions:
    """Options of `evaluate`.

    Args:
      probe: a file of labelled pairs that are scored in place of the split.
      merged: whether entities are one token: those of the file of spans, else the concepts.
    """

    split: str = "test"
    partitions: Sequence[Partition] = ()
    probe: Path | None = None
    merged: bool = False
    spans: Path | None = None
    vectors: Path | None = None
    skills: Path | None = None


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
      command: of `reproduce`, which prints the table and makes what is missing when it is repeated.
    """

    read: Read
    config_of: Callable[[Path], object] | None = None
    split: str = "test"
    skills: Path | None = None
    public: bool = False
    systems: Mapping[str, Path] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True)
class Request:
    """The arguments of `reproduce`.

    Args:
      folder: of the paper's runs.
      corpus: the variant of the configs.
      place: the corpus as --corpus of `analyze` takes it: its name, or the folder of own files.
      tables: numbers of the tables to fill.
      weights: name -> folder of pretrained weights.
      fields: config field -> value as text, for all runs.
      mentions: file of concepts or entities that another program found.
      lexicon: file of related words.
      entities: --entities of `analyze`.
    """

    folder: Path
    corpus: str
    place: str
    tables: tuple[int, ...]
    weights: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    mentions: Path | None = None
    lexicon: Path | None = None
    entities: str = "none"

    def vectors(self, names: Sequence[str]) -> Path | None:
        """The first file of vectors with one of these names and a usual ending, in the folder of
        the runs or in $MEDNLI_JAX_DATA. Text comes first: the papers read words alone."""
        for folder in filter(None, (self.folder, corpora_folder(None))):
            for name in names:
                for ending in ENDINGS:
                    path = folder / "vectors" / f"{name}{ending}"
                    if path.is_file():
                        return path
        return None


# -- tables and runs of a paper -------------------------------------------------------------------


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


@dataclass
class AnalysedCorpus:
    """A corpus for analyses, as Task.analysed_corpus returns it. A corpus without splits has no
    page.

    Args:
      notes: remarks on the splits.
      knowledge: the ontology of its concepts; "" without concepts.
    """

    name: str
    notes: Sequence[str] = ()
    splits: "Mapping[str, Split] | None" = None
    knowledge: str = ""


AnalysedT = TypeVar("AnalysedT", bound=AnalysedCorpus)
Analysis = Callable[[AnalysedT, AnalysisOptions], Report]


class PaperAnalyses(NamedTuple):
    """A paper on the corpora of another paper's TASK.

    Args:
      analyses: name -> analysis, for `analyze`.
      tables: name, as --table takes it -> the table.
    """

    analyses: Mapping[str, Analysis]
    tables: Mapping[str, PaperTable]


@dataclass(frozen=True)
class PaperRun:
    """A run of a paper.

    Args:
      name: of its folder, below the folder of the paper's runs.
      config: name of a config in configs/, without its variant.
      settings: config field -> value, where the run differs from its config.
      corpus: the variant of its config; "" for the corpus that `reproduce` is given.
      init_from: name of the run whose weights training starts from.
      direct: whether the run `init_from` is scored on the corpus, without training.
      vectors: names of its file of word vectors, the first of which is the name in our tables; ()
        for the vectors of the config.
      weights: name of its pretrained weights.
      optional: whether it is trained only where --only names it.
    """

    name: str
    config: str
    settings: Settings = field(default_factory=dict)
    corpus: str = ""
    init_from: str = ""
    direct: bool = False
    vectors: tuple[str, ...] = ()
    weights: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Step:
    """A command besides the trainings, which writes a file that tables read.

    Args:
      file: that the command writes, below the folder of the paper's runs. It exists once the step
        is done.
      words: the command and its arguments, without "python -m mednli_jax.".
      tables: numbers of the tables that need it.
      after: names of the runs, and files of the steps, that it reads.
      config: of its --config; "" for a command without one.
      corpus, settings: as of a PaperRun.
      prints: whether the file is the output of the command.
      ontology: whether the ontology of the config is read. With other files of it the step is done
        again.
    """

    file: str
    words: tuple[str, ...]
    tables: tuple[int, ...]
    after: tuple[str, ...] = ()
    config: str = ""
    corpus: str = ""
    settings: Settings = field(default_factory=dict)
    prints: bool = False
    ontology: bool = False


class ReproductionPlan(Protocol):
    """The plan by which `reproduce` repeats a paper: its runs, the commands besides them, its
    tables.

    Attributes:
      name: as `reproduce` takes it.
      numbers: of the tables that can be asked for.
      seeds: of all runs without --seeds; () for those of the configs.
    """

    @property
    def name(self) -> str: ...
    @property
    def numbers(self) -> Sequence[int]: ...
    @property
    def seeds(self) -> tuple[int, ...]: ...

    def runs(self, request: Request) -> Sequence[PaperRun]:
        """The runs of the tables in the order of training, optional ones too."""

    def steps(self, request: Request) -> Sequence[Step]:
        """The commands besides the trainings."""

    def tables(self, request: Request) -> Sequence[str]:
        """Names of the tables to print, as `report --table` takes them."""

    def notes(self, request: Request) -> Sequence[str]:
        """Remarks before the first run, such as missing word vectors."""
