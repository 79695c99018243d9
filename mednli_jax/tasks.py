"""The contract of a task as Protocols, and the one table of the tasks: name -> TASK.

Each task folder exports TASK in its plug.py, and only this module imports the task folders. A TASK
of the user's own code is named by its import path (docs/extending.md). It needs
  Task                      for a config: names, models, the form of new inputs, defaults, rules,
                            corpus and scorer;
  training.task.Scorer      for training: batches, loss, scores; `Task.scorer` makes it.
All other Protocols are optional. A TASK has one if it has all of its members, and `isinstance`
tells:
  Limits, Training, Inspection      more rules; training without the loop; faults of a corpus
  Sources                           where data come from
  Flags, Reports, Evaluation, Predictions, Attention, Analyses, Tables
                                    what reports and commands show
  PairTask, QueryAnswers            what only sentence pairs, and only cloze queries have
The functions below the Protocols answer for a TASK that lacks a part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from mednli_jax.errors import ConfigError, RunError, Text, UsageError
from mednli_jax.plugins import imported

if TYPE_CHECKING:  # `--help` needs none of them
    import numpy as np

    from mednli_jax.data.arrays import Prepared, Rows
    from mednli_jax.data.corpus import Corpus
    from mednli_jax.data.inputs import Form
    from mednli_jax.report.options import (
        AnalysisOptions,
        EvaluationOptions,
        PaperTable,
        Plan,
        ReportOptions,
    )
    from mednli_jax.report.sections import Report, RunSections, Section
    from mednli_jax.rundir import RunDirectory, RunResult
    from mednli_jax.training.task import Scorer

NLI, CLOZE, DISKNE = "nli", "cloze", "diskne"
ALL = "all"  # in place of the name of an analysis
Config = Any  # a ConfigDict; this layer does not know configs
Run = Any  # a run.FinishedRun, which imports jax
Experiment = Any  # a run.Experiment
Module = Any  # a linen class, or None
Own = Any  # of the types of a TASK: its corpora, their examples and vocabularies
PartT = TypeVar("PartT")
BrokenRule = tuple[str, str, Text]  # field, what is wrong, the fix
# Names of fields with blanks between them, a function of a config, a reason: the fields must be
# empty where the function holds.
EmptyFields = tuple[str, Callable[[Config], bool], str]


# -- what a config needs ---------------------------------------------------------------------------


@runtime_checkable
class Task(Protocol):
    """What every TASK has.

    Attributes:
      name: in config.task of this package's configs, and in result.json.
      base: makes a config with all fields and their defaults from the name of a model, or is a name
        of defaults.BASES. The fields of older runs are compared with it.
      corpora, units: names of its corpora and of their rows in messages.
      models: names of models that it trains, as config.model.name gives them; messages suggest the
        last.
      form: of new inputs.
    """

    @property
    def name(self) -> str: ...
    @property
    def base(self) -> str | Callable[[str], Config]: ...
    @property
    def corpora(self) -> str: ...
    @property
    def units(self) -> str: ...
    @property
    def models(self) -> Sequence[str]: ...
    @property
    def form(self) -> Form: ...

    def accepts(self, name: str, module: Module) -> bool:
        """Whether the task trains a model. module: its linen class, None for a model that is no
        network."""

    def rules(self, config: Config) -> Iterable[BrokenRule]:
        """Each rule that a config breaks."""

    def corpus(self, config: Config) -> Corpus:
        """The corpus of a config."""

    def scorer(self, config: Config) -> Scorer:
        """What makes batches of the corpus, and losses and scores of logits."""


@runtime_checkable
class Limits(Protocol):
    """More rules for the fields of a config.

    Attributes:
      choices: field -> the values that it may have.
      empty: fields that must be empty, see EmptyFields.
    """

    @property
    def choices(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def empty(self) -> Sequence[EmptyFields]: ...


# -- what training needs, besides training.task.Scorer ---------------------------------------------


class Predictor(Protocol):
    """A trained model that is no network: gives the logits [S, N, C] of a finished run."""

    def logits(self, corpus: Own, prepared: Prepared, rows: Rows) -> np.ndarray:
        """Of a split of a prepared corpus."""

    def of_new(
        self, corpus: Own, examples: Own, vocabulary: Own, vectors: np.ndarray, /
    ) -> np.ndarray:
        """Of new examples."""


@runtime_checkable
class Training(Protocol):
    """Training that is not the loop over one network, and files that reports need of a run."""

    def fit(self, config: Config) -> Callable[..., Any] | None:
        """`fit(experiment, prepared, session) -> Fitted`; None for the loop."""

    def predictor(self, run: Run) -> Predictor | None:
        """What gives the logits of a finished run without weights; None for a network."""

    def keep(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Writes files of the corpus to private/ of a run."""


@runtime_checkable
class Inspection(Protocol):
    """What `prepare` and `train` check of a prepared corpus."""

    def warnings(self, prepared: Prepared) -> Iterator[str]:
        """What may be wrong with a prepared corpus."""

    def check_prepared(
        self, experiment: Experiment, prepared: Prepared, *, excerpt: int = 0
    ) -> None:
        """Raises ConfigError for a corpus that cannot be trained on; a warning is enough below
        `excerpt` rows."""


# -- where data come from --------------------------------------------------------------------------


@runtime_checkable
class Sources(Protocol):
    """What `doctor` looks for.

    Attributes:
      sources: corpus -> (folder of data -> its files, where to get it).
      licensed: folders and files of the data folder that others must not read.
    """

    @property
    def sources(self) -> Mapping[str, tuple[Callable[[Path], Iterable[Path]], str]]: ...
    @property
    def licensed(self) -> Sequence[str]: ...


# -- what reports and commands show ----------------------------------------------------------------


@runtime_checkable
class Flags(Protocol):
    """flags: command -> its flags that only some tasks take, and this one does."""

    @property
    def flags(self) -> Mapping[str, Collection[str]]: ...


@runtime_checkable
class Reports(Protocol):
    """The page of a run, the end of `train`, and `report` on several runs."""

    def run_sections(self, directory: RunDirectory, result: RunResult) -> RunSections:
        """The sections of a run's page that are shown before and after the learning curves."""

    def closing_sections(self, directory: RunDirectory, result: RunResult) -> Sequence[Section]:
        """What `train` prints besides the scores of the splits."""

    def compare(self, folders: Sequence[Path], split: str) -> Report:
        """The first run against each other; figures: {"comparisons": [a row for each other
        run]}."""

    def more_sections(self, folders: Sequence[Path], options: ReportOptions) -> Report:
        """What options of `report` ask for."""


@runtime_checkable
class Evaluation(Protocol):
    def evaluate(self, run: Run, options: EvaluationOptions) -> Report:
        """The scores of a split."""


@runtime_checkable
class Predictions(Protocol):
    """How `predict` prints the predictions, which are rows of Scorer.described."""

    def prediction(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a row of --output."""

    def prediction_lines(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """A header, then a line for each row."""


@runtime_checkable
class Attention(Protocol):
    def write_attention(self, run: Run, inputs: Sequence[tuple[str, str]]) -> Path:
        """Writes the attention of the inputs to a new folder under private/ and returns it."""


Analysis = Callable[[Any, "AnalysisOptions"], "Report"]  # of a corpus, as `analysed` gives it


@runtime_checkable
class Analyses(Protocol):
    """Analyses of a corpus, for `analyze`.

    Attributes:
      analyses: name -> analysis.
      alone: the names that `analyze all` leaves out.
    """

    @property
    def corpora(self) -> str: ...
    @property
    def analyses(self) -> Mapping[str, Analysis]: ...
    @property
    def alone(self) -> Collection[str]: ...

    def analysed(self, config: Config | None, options: AnalysisOptions) -> Own:
        """The corpus, with `name`, `notes` [str] and `splits`; without splits no page is
        written."""


@runtime_checkable
class Tables(Protocol):
    """tables: name, as --table takes it -> the table."""

    @property
    def tables(self) -> Mapping[str, PaperTable]: ...


@runtime_checkable
class PairTask(Protocol):
    """What only sentence pairs have."""

    def pairs(self, config: Config) -> Own:
        """The corpus as sentence pairs, for callers that need no model."""

    def probe(self, run: Run, path: Path) -> Report:
        """The scores of the labelled pairs of a file."""

    def merged(self, run: Run, spans: Path | None) -> Run:
        """The run on its own corpus, with entities as one token. spans: their file, None for
        concepts."""

    def with_labels(self, config: Config) -> Config:
        """The config that names the labels of the user's own files."""

    def answers(self, path: Path, rows: Rows, config: Config) -> np.ndarray:
        """Logits [1, N, C] of any system's answers."""


@runtime_checkable
class QueryAnswers(Protocol):
    """What only cloze queries have."""

    def evaluate_answers(
        self, corpus: str, predictions: Path, options: EvaluationOptions
    ) -> Report:
        """The scores of any system's answers to the queries of a corpus."""


class Part(Analyses, Tables, Protocol):
    """Analyses and tables of a paper on the corpora of another folder's TASK."""


class Whole(
    Task,
    Limits,
    Training,
    Inspection,
    Sources,
    Flags,
    Reports,
    Evaluation,
    Predictions,
    Attention,
    Part,
    Protocol,
):
    """All parts. The TASKs of this package have them."""


# -- the tasks -------------------------------------------------------------------------------------


def _nli() -> Whole:
    from mednli_jax.nli.plug import TASK

    return TASK


def _cloze() -> Whole:
    from mednli_jax.cloze.plug import TASK

    return TASK


def _diskne() -> Whole:
    from mednli_jax.diskne.plug import TASK

    return TASK


# Functions, so that a command imports only the folder of its task.
_TASKS: Mapping[str, Callable[[], Whole]] = {NLI: _nli, CLOZE: _cloze, DISKNE: _diskne}


def tasks() -> dict[str, Whole]:
    """{name: TASK} of all tasks."""
    return {name: task() for name, task in _TASKS.items()}


@cache
def papers() -> Mapping[str, Sequence[Part]]:
    """{name of a task: the papers on its corpora that have no TASK of their own}."""
    from mednli_jax.artifacts.tables import PART

    return {NLI: (PART,)}


@cache
def plans() -> Mapping[str, Plan]:
    """{name of a paper: its Plan for `reproduce`}."""
    from mednli_jax.artifacts.runs import PLAN as artifacts
    from mednli_jax.cloze.runs import PLAN as cloze
    from mednli_jax.diskne.runs import PLAN as diskne
    from mednli_jax.nli.runs import PLAN as nli

    every_plan: Sequence[Plan] = (nli, artifacts, cloze, diskne)
    return {plan.name: plan for plan in every_plan}


def named(name: str) -> Task:
    """The TASK of this name, or at an import path `package.module:name` of the user's (see
    plugins.imported)."""
    if isinstance(name, str) and ":" in name:
        task = imported(name, "task")
        if not isinstance(task, Task):
            lacking = [member for member in MEMBERS if not hasattr(task, member)]
            problem = f"'{name}' is no TASK, it has no {', '.join(lacking)}"
            fix = "give the object what docs/extending.md lists"
            raise ConfigError(problem, field="task", fix=fix)
        return task
    if name not in list(_TASKS):  # which takes a value of any type
        fix = f"give one of {', '.join(_TASKS)}"
        raise ConfigError(f"unknown task '{name}'", field="task", fix=fix)
    return _TASKS[name]()


MEMBERS = (
    "name",
    "base",
    "corpora",
    "units",
    "models",
    "form",
    "accepts",
    "rules",
    "corpus",
    "scorer",
)


def task_of(config: Config) -> Task:
    """The TASK of a config."""
    return named(config.task)


def task_of_run(folder: Path) -> Task:
    """The TASK of the run in a folder."""
    from mednli_jax.rundir import RunDirectory

    run = RunDirectory.existing(folder)
    if ":" in str(run.task):
        return named(run.task)
    try:
        return named(run.task)
    except ConfigError:
        problem = f"{run.folder / 'config.json'}: its 'task' is none of {', '.join(_TASKS)}"
        raise RunError(problem, fix="restore the file, or train again with this version") from None


def form_of_run(folder: Path) -> Form:
    """The form of new inputs of the run in a folder, with the columns of its own files."""
    from mednli_jax.rundir import RunDirectory

    task, config = task_of_run(folder), RunDirectory.existing(folder).config
    return task.form.with_columns(config["data"].get("columns", ""))


def same_task(folders: Sequence[Path]) -> Task:
    """The TASK of several runs."""
    first = task_of_run(folders[0])
    for folder in folders[1:]:
        if task_of_run(folder) is not first:
            raise RunError(
                f"{folder}: is no run on {first.corpora}", fix="name runs of one config.task"
            )
    return first


# -- parts that a TASK may lack --------------------------------------------------------------------


def part(task: Task, protocol: type[PartT], request: str) -> PartT:
    """The TASK as one that has a part. request: what asks for the part, for the message."""
    if not isinstance(task, protocol):
        raise UsageError(f"{request} is not for runs on {task.corpora}", fix="leave it out")
    return task


def with_labels(config: Config) -> Config:
    """The config that names the labels of the user's own files, where it is of sentence pairs."""
    task = task_of(config)
    return task.with_labels(config) if isinstance(task, PairTask) else config


def warnings(task: Task, prepared: Prepared) -> list[str]:
    """What may be wrong with a prepared corpus."""
    return list(task.warnings(prepared)) if isinstance(task, Inspection) else []


def check_prepared(
    task: Task, experiment: Experiment, prepared: Prepared, *, excerpt: int = 0
) -> None:
    """Raises ConfigError for a corpus that cannot be trained on."""
    if isinstance(task, Inspection):
        task.check_prepared(experiment, prepared, excerpt=excerpt)


def more_sections(task: Task, folders: Sequence[Path], options: ReportOptions) -> Report:
    """What options of `report` ask for."""
    from mednli_jax.report.sections import Report

    return task.more_sections(folders, options) if isinstance(task, Reports) else Report({})


def run_sections(task: Task) -> Callable[[RunDirectory, RunResult], RunSections]:
    """(run directory, result) -> the sections of a run's page."""
    from mednli_jax.report import plain

    return task.run_sections if isinstance(task, Reports) else plain.run_sections


def closing_sections(task: Task, directory: RunDirectory) -> Sequence[Section]:
    """What `train` prints besides the scores of the splits."""
    return task.closing_sections(directory, directory.result()) if isinstance(task, Reports) else ()


def evaluate(task: Task, run: Run, options: EvaluationOptions) -> Report:
    """The scores of a split."""
    from mednli_jax.report import plain

    return (
        task.evaluate(run, options)
        if isinstance(task, Evaluation)
        else plain.evaluate(run, options)
    )


def predictions(task: Task) -> Predictions:
    """How the predictions of a task are printed."""
    from mednli_jax.report import plain

    return task if isinstance(task, Predictions) else plain.PlainPredictions()


def flags_of(task: Task, command: str) -> Collection[str]:
    """The flags of a command that only some tasks take, and this one does."""
    return task.flags.get(command, ()) if isinstance(task, Flags) else ()


def check_flags(command: str, task: Task, values: Mapping[str, Any]) -> None:
    """Refuses the flags of a command that only runs of other tasks take. values: of the flags, by
    name."""
    names: set[str] = set()
    for own_task in tasks().values():
        names |= set(flags_of(own_task, command))
    for name in sorted(names - set(flags_of(task, command))):
        if values[name]:
            raise UsageError(f"--{name} is not for runs on {task.corpora}", fix="leave it out")


def analyses_of(task: Own) -> dict[str, Analysis]:
    """name -> analysis of the corpora of a task, those of other papers, too."""
    analyses: dict[str, Analysis] = {}
    for side in (task, *papers().get(task.name, ())):
        if isinstance(side, Analyses):
            analyses |= side.analyses
    return analyses


def in_all(task: Analyses) -> list[str]:
    """The analyses that `analyze all` runs."""
    return [name for name in analyses_of(task) if name not in task.alone]


def with_analysis(name: str, config: Config | None) -> Analyses:
    """The TASK that has an analysis of its corpora, or all of them (ALL). That of a config may be
    the user's own."""
    plugin = None if config is None else task_of(config)
    own_names: Sequence[str] = ()
    if isinstance(plugin, Analyses) and plugin not in tasks().values():
        own_names = (ALL, *analyses_of(plugin))
        if name in own_names:
            return plugin
    task_with: dict[str, Analyses] = {ALL: tasks()[NLI]}
    for task in tasks().values():
        task_with |= dict.fromkeys(analyses_of(task), task)
    if name not in task_with:
        if own_names:
            fix = f"give one of {', '.join(own_names)}"
        else:
            fix = f"give one of {', '.join(task_with)}, e.g. analyze stats"
        raise UsageError(f"unknown analysis '{name}'", fix=fix)
    return task_with[name]


def with_table(name: str, runs: Path | None = None) -> PaperTable:
    """The papers' table `name`, as --table takes it. The runs of a folder may be of a TASK of the
    user's own."""
    tables: dict[str, PaperTable] = {}
    for side in (*tasks().values(), *_papers()):
        tables |= side.tables
    if name not in tables and runs is not None:
        for path in sorted(runs.glob("*/config.json")):
            task = task_of_run(path.parent)
            if isinstance(task, Tables):
                tables |= task.tables
    if name not in tables:
        raise UsageError(f"--table={name}: no such table", fix=f"give one of {', '.join(tables)}")
    return tables[name]


def _papers() -> Iterator[Part]:
    for of_task in papers().values():
        yield from of_task


if TYPE_CHECKING:  # what `tasks` and `papers` do not hold of the TASKs
    from mednli_jax.cloze.plug import TASK as _CLOZE
    from mednli_jax.diskne.plug import TASK as _DISKNE
    from mednli_jax.nli.plug import TASK as _NLI

    _of_pairs: tuple[PairTask, PairTask] = (_NLI, _DISKNE)
    _of_queries: QueryAnswers = _CLOZE
