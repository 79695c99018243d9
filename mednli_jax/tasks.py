"""The contract of a task as one Protocol, and the one table of the tasks: name -> TASK.

Each task folder exports TASK in its task.py, and only this module imports the task folders. `mypy`
checks that each TASK satisfies Task, by the return types of the functions below.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mednli_jax.errors import ConfigError, RunError, UsageError

if TYPE_CHECKING:  # `--help` needs none of them
    import numpy as np
    from ml_collections import ConfigDict

    from mednli_jax.data.arrays import Prepared, Rows
    from mednli_jax.data.corpus import Corpus
    from mednli_jax.data.examples import Split
    from mednli_jax.data.inputs import InputForm
    from mednli_jax.experiment import Experiment, Fit
    from mednli_jax.finished import Run
    from mednli_jax.nli.corpus import NLICorpus
    from mednli_jax.report.options import (
        AnalysedCorpus,
        Analysis,
        AnalysisOptions,
        EvaluationOptions,
        PaperAnalyses,
        PaperTable,
        ReportOptions,
        ReproductionPlan,
    )
    from mednli_jax.report.sections import Report, RunSections, Section
    from mednli_jax.rundir import RunDirectory, RunResult
    from mednli_jax.training.scorer import Scorer
    from mednli_jax.types import Json, JsonObject

NLI, CLOZE, DISKNE = "nli", "cloze", "diskne"
ALL = "all"  # in place of the name of an analysis
BrokenRule = tuple[str, str, str]  # field, what is wrong, the fix
# Names of fields with blanks between them, a function of a config, a reason: the fields must be
# empty where the function holds.
EmptyFields = tuple[str, Callable[["ConfigDict"], bool], str]


class Predictor(Protocol):
    """A trained model that is no network. It computes the logits [S, N, C] of a finished run."""

    def logits(self, prepared: Prepared, rows: Rows) -> np.ndarray:
        """Computes the logits of a split of a prepared corpus."""

    def logits_of_new(self, split: Split, /) -> np.ndarray:
        """Computes the logits of new examples."""


class Task(Protocol):
    """The contract of a TASK. A request that makes no sense for a task is a UsageError of its
    method.

    Attributes:
      name: in config.task and in result.json.
      corpora, row_noun: names of its corpora and of their rows in messages.
      models: names of models that it trains, as config.model.name gives them; messages suggest the
        last.
      form: of new inputs.
      choices: field of a config -> the values that it may have.
      empty: fields that must be empty, see EmptyFields.
      sources: corpus -> (folder of data -> its files, where to get it), for `doctor`.
      licensed: folders and files of the data folder that others must not read.
      flags: command -> its flags that only some tasks take, and this one does.
      analyses: name -> analysis, for `analyze`.
      alone: the names that `analyze all` leaves out.
      tables: name, as --table takes it -> the table.
    """

    @property
    def name(self) -> str: ...
    @property
    def corpora(self) -> str: ...
    @property
    def row_noun(self) -> str: ...
    @property
    def models(self) -> Sequence[str]: ...
    @property
    def form(self) -> InputForm: ...
    @property
    def choices(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def empty(self) -> Sequence[EmptyFields]: ...
    @property
    def sources(self) -> Mapping[str, tuple[Callable[[Path], Iterable[Path]], str]]: ...
    @property
    def licensed(self) -> Sequence[str]: ...
    @property
    def flags(self) -> Mapping[str, Collection[str]]: ...
    @property
    def analyses(self) -> Mapping[str, Analysis]: ...
    @property
    def alone(self) -> Collection[str]: ...
    @property
    def tables(self) -> Mapping[str, PaperTable]: ...

    # -- a config --

    def accepts(self, name: str, module: type | None) -> bool:
        """Whether the task trains a model. module: its linen class, None for a model that is no
        network."""

    def rules(self, config: ConfigDict) -> Iterable[BrokenRule]:
        """Yields the rules that a config breaks."""

    def with_labels(self, config: ConfigDict) -> ConfigDict:
        """The config that names the labels of the user's own files."""

    def corpus(self, config: ConfigDict) -> Corpus:
        """The corpus of a config."""

    def pairs(self, config: ConfigDict) -> NLICorpus:
        """The corpus as sentence pairs, for callers that need no model."""

    def scorer(self, config: ConfigDict) -> Scorer:
        """The scorer of a config, which makes batches of the corpus, and losses and scores of
        logits."""

    # -- training --

    def warnings(self, prepared: Prepared) -> Iterator[str]:
        """Yields warnings of faults that a prepared corpus may have."""

    def check_prepared(
        self, experiment: Experiment, prepared: Prepared, *, warn_below: int = 0
    ) -> None:
        """Raises ConfigError for a corpus that cannot be trained on.

        warn_below: a corpus of fewer rows is taken for an excerpt, and only warned about.
        """

    def fit(self, config: ConfigDict) -> Fit | None:
        """The function `fit(experiment, prepared, session) -> Fitted` of a config; None for the
        loop over one network."""

    def predictor(self, run: Run) -> Predictor | None:
        """The Predictor of a finished run without weights; None for a network."""

    def save_for_report(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Writes files of the corpus, which reports need, to private/ of a run."""

    # -- what commands show --

    def run_sections(self, directory: RunDirectory, result: RunResult) -> RunSections:
        """The sections of a run's page that are shown before and after the learning curves."""

    def closing_sections(self, directory: RunDirectory, result: RunResult) -> Sequence[Section]:
        """The sections that `train` prints besides the scores of the splits."""

    def compare(self, folders: Sequence[Path], split: str) -> Report:
        """Compares the first run with each of the others; figures: {"comparisons": [a row for each
        other run]}."""

    def optional_sections(self, folders: Sequence[Path], options: ReportOptions) -> Report:
        """Reports the sections that options of `report` ask for."""

    def evaluate(self, run: Run, options: EvaluationOptions) -> Report:
        """Reports the scores of a split, or of the pairs that the options name."""

    def answers(self, path: Path, rows: Rows, config: ConfigDict) -> np.ndarray:
        """The logits [1, N, C] of any system's answers to the rows of a split."""

    def evaluate_answers(
        self, corpus: str, predictions: Path, options: EvaluationOptions
    ) -> Report:
        """Reports the scores of any system's answers to a corpus that --corpus names."""

    def prediction(self, row: JsonObject) -> JsonObject:
        """The columns of a row of `predict --output`. row: of Scorer.describe."""

    def prediction_lines(self, rows: Iterable[JsonObject]) -> Iterator[str]:
        """Yields the lines that `predict` prints: a header, then a line for each row."""

    def write_attention(self, run: Run, inputs: Sequence[tuple[str, str]]) -> Path:
        """Writes the attention of the inputs to a new folder under private/ and returns it."""

    def analysed_corpus(
        self, config: ConfigDict | None, options: AnalysisOptions
    ) -> AnalysedCorpus:
        """The corpus of a config or of the options, for the analyses."""


# -- the tasks -------------------------------------------------------------------------------------


def _nli() -> Task:
    from mednli_jax.nli.task import TASK

    return TASK


def _cloze() -> Task:
    from mednli_jax.cloze.task import TASK

    return TASK


def _diskne() -> Task:
    from mednli_jax.diskne.task import TASK

    return TASK


# Functions, so that a command imports only the folder of its task.
_TASKS: Mapping[str, Callable[[], Task]] = {NLI: _nli, CLOZE: _cloze, DISKNE: _diskne}


def tasks() -> dict[str, Task]:
    """The TASKs of all tasks, by name."""
    return {name: task() for name, task in _TASKS.items()}


def papers() -> Mapping[str, Sequence[PaperAnalyses]]:
    """The papers on the corpora of a task that have no TASK of their own, by the task's name."""
    from mednli_jax.artifacts.tables import ANALYSES

    return {NLI: (ANALYSES,)}


def plans() -> Mapping[str, ReproductionPlan]:
    """The reproduction plan of each paper, by name."""
    from mednli_jax.artifacts.runs import PLAN as artifacts
    from mednli_jax.cloze.runs import PLAN as cloze
    from mednli_jax.diskne.runs import PLAN as diskne
    from mednli_jax.nli.tables.runs import PLAN as nli

    every_plan: Sequence[ReproductionPlan] = (nli, artifacts, cloze, diskne)
    return {plan.name: plan for plan in every_plan}


def task_named(name: str) -> Task:
    """The TASK of this name."""
    if name not in list(_TASKS):  # which takes a value of any type
        fix = f"give one of {', '.join(_TASKS)}"
        raise ConfigError(f"unknown task '{name}'", field="task", fix=fix)
    return _TASKS[name]()


def task_of(config: ConfigDict) -> Task:
    """The TASK of a config."""
    return task_named(config.task)


def with_labels(config: ConfigDict) -> ConfigDict:
    """The config that names the labels of the user's own files."""
    return task_of(config).with_labels(config)


def task_of_run(folder: Path) -> Task:
    """The TASK of the run in a folder."""
    from mednli_jax.rundir import RunDirectory

    return task_named(RunDirectory.existing(folder).task)


def form_of_run(folder: Path) -> InputForm:
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


# -- flags, analyses and tables of all tasks -------------------------------------------------------


def check_flags(command: str, task: Task, values: Mapping[str, Json]) -> None:
    """Raises UsageError for flags of a command that only runs of other tasks take. values: of the
    flags, by name."""
    names: set[str] = set()
    for own_task in tasks().values():
        names.update(own_task.flags.get(command, ()))
    for name in sorted(names.difference(task.flags.get(command, ()))):
        if values[name]:
            raise UsageError(f"--{name} is not for runs on {task.corpora}", fix="leave it out")


def with_flag(command: str, flag: str) -> Task:
    """The TASK that alone takes a flag of a command."""
    (task,) = (task for task in tasks().values() if flag in task.flags.get(command, ()))
    return task


def analyses_of(task: Task) -> dict[str, Analysis]:
    """The analyses of the corpora of a task by name, also those of other papers."""
    analyses = dict(task.analyses)
    for paper in papers().get(task.name, ()):
        analyses |= paper.analyses
    return analyses


def with_analysis(name: str) -> Task:
    """The TASK whose corpora an analysis is for; sentence pairs for all analyses (ALL)."""
    task_with = {ALL: _nli()}
    for task in tasks().values():
        task_with |= dict.fromkeys(analyses_of(task), task)
    if name not in task_with:
        fix = f"give one of {', '.join(task_with)}, e.g. analyze stats"
        raise UsageError(f"unknown analysis '{name}'", fix=fix)
    return task_with[name]


def with_table(name: str) -> PaperTable:
    """The papers' table `name`, as --table takes it."""
    tables: dict[str, PaperTable] = {}
    for task in tasks().values():
        tables |= task.tables
    for papers_of_task in papers().values():
        for paper in papers_of_task:
            tables |= paper.tables
    if name not in tables:
        raise UsageError(f"--table={name}: no such table", fix=f"give one of {', '.join(tables)}")
    return tables[name]
