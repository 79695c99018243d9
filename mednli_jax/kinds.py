"""Report functions for each task: the one place in the analysis that chooses by task."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mednli_jax.cloze import tables as cloze_tables
from mednli_jax.diskne import runs as diskne_runs
from mednli_jax.errors import RunError, UsageError
from mednli_jax.nli import page
from mednli_jax.report.runs import RunDirectory
from mednli_jax.report.sections import Comparison, Evaluation, Options, Section

NLI, CLOZE, DISKNE = "nli", "cloze", "diskne"


@dataclass(frozen=True)
class Kind:
    """The functions and names that reports and commands use for the runs of one task.

    Args:
      corpus: name of its corpora in messages.
      units: name of the rows of its corpora.
      inputs: the type of new inputs that its runs take, a key of inputs.FORMS; "" if they take none.
      run_sections: (RunDirectory, result) -> sections of the page before and after the learning curves.
      closing_sections: the same arguments -> what `train` prints besides the scores of the splits.
      compare: (folders, split, prepared_of) -> the first run compared with each of the others. prepared_of gives the
        prepared corpus that the run in a folder was trained on.
      evaluate: (finished_run.FinishedRun, evaluation.Options) -> the Evaluation.
      prediction_lines: predictions -> the lines that `predict` prints.
      write_attention: (finished run, new inputs) -> the folder under the run's private/ that holds the attention maps.
    """

    corpus: str
    units: str
    inputs: str
    run_sections: Callable[[RunDirectory, dict], tuple[Sequence[Section], Sequence[Section]]]
    closing_sections: Callable[[RunDirectory, dict], Sequence[Section]]
    compare: Callable[..., Comparison]
    evaluate: Callable[[object, Options], Evaluation]
    prediction_lines: Callable[[Sequence[dict]], Iterable[str]]
    write_attention: Callable[..., Path]


PAIRS = Kind(
    corpus="sentence pairs",
    units="pairs",
    inputs="nli",
    run_sections=lambda _, result: page.run_sections(result),
    closing_sections=lambda *_: (),
    compare=page.compare,
    evaluate=page.evaluate,
    prediction_lines=page.prediction_lines,
    write_attention=page.write_attention,
)
QUERIES = Kind(
    corpus="cloze queries",
    units="queries",
    inputs="cloze",
    run_sections=lambda _, result: cloze_tables.run_sections(result),
    closing_sections=lambda *_: (),
    compare=cloze_tables.compare,
    evaluate=cloze_tables.evaluate,
    prediction_lines=cloze_tables.prediction_lines,
    write_attention=cloze_tables.write_attention,
)
FOLDS = replace(
    PAIRS,
    corpus="diseases",
    compare=partial(page.compare, read=diskne_runs.outcomes),
    run_sections=lambda directory, _: diskne_runs.run_sections(directory.folder),
    closing_sections=lambda directory, _: diskne_runs.run_sections(directory.folder)[0],
)
KINDS = {NLI: PAIRS, CLOZE: QUERIES, DISKNE: FOLDS}
# (command, flags that only runs of some tasks take, these tasks, the message for runs of others)
FLAGS = (
    ("report", ("categories", "categories_file", "paths"), (NLI, DISKNE),
     "--{} is for sentence pairs. Fix: leave it out for other runs."),
    ("evaluate", ("vectors", "skills", "scores"), (CLOZE,),
     "--{} is for cloze queries. Fix: leave it out for other runs."),
    ("evaluate", ("config", "workdir"), (NLI, DISKNE),
     "--{} asks for another corpus, but this run can only be scored on its own. Fix: leave it out."),
    ("evaluate", ("probe",), (NLI,),
     "--{} is of sentence pairs with three classes. Fix: leave it out for other runs."),
    ("evaluate", ("partition", "merged"), (NLI, DISKNE),
     "--{} is for sentence pairs. Fix: leave it out for other runs."),
)  # fmt: skip


def task_of(directory: RunDirectory | Path) -> str:
    """The task of a run. Raises RunError where it is no run, or names none of KINDS."""
    run = RunDirectory.existing(getattr(directory, "folder", directory))
    if run.task not in list(KINDS):  # which takes a value of any type
        problem = f"{run.folder / 'config.json'}: its 'task' is none of {', '.join(KINDS)}"
        raise RunError(f"{problem}. Fix: restore the file, or train again with this version.")
    return run.task


def of_run(directory: RunDirectory | Path) -> Kind:
    """The kind of a run. Raises RunError where it is no run."""
    return KINDS[task_of(directory)]


def compare(folders: Sequence[Path], split: str, prepared_of) -> Comparison:
    """Compares the first run with each of the others. Raises: RunError for runs of several tasks; as Kind.compare."""
    task = task_of(folders[0])
    for folder in folders[1:]:
        if task_of(folder) != task:
            raise RunError(f"{folder}: is no run on {KINDS[task].corpus}. Fix: name runs of one task.")
    return KINDS[task].compare(folders, split, prepared_of)


def check_flags(command: str, task: str, given) -> None:
    """Refuses flags that a command does not use with a run of this task. given: the flags, by name. Raises
    UsageError."""
    for of_command, names, tasks, message in FLAGS:
        if of_command == command and task not in tasks:
            for name in names:
                if given[name].value:
                    raise UsageError(message.format(name))


def check_corpus(task: str, other: str) -> None:
    """Refuses to score a run of a task on a corpus of the task `other`. Raises UsageError."""
    if other != task:
        problem = f"--config is of {KINDS[other].corpus}, and the run of {KINDS[task].corpus}"
        raise UsageError(f"{problem}. Fix: give another.")
