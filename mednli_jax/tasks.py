"""The tasks by name. Each task folder exports TASK in its plug.py, and only this module imports the task folders.

A TASK has what is not the same for every task:
  name, base        its name in configs; the function of `defaults` that makes its configs
  corpora, units    names of its corpora and of their rows in messages
  models            the models that it trains
  form              the form of new inputs (data.inputs.Form)
  flags             command -> flags of the command that only some tasks take, and this one does
  choices, empty, rules(config)     what `checks` checks besides
  corpus(config)    the corpus (data.corpus.Corpus)
  scorer(config)    to_batch, loss and score (training.task.Task)
  fit(config)       the function that trains, if that is not the loop; keep(...) writes what its reports need
  predictor(run)    what gives logits for a model that is no network
  pairs(config)     the corpus as sentence pairs, for analyses
  prepared_lines(prepared), warnings(prepared)       what `prepare` prints
  check_prepared(experiment, prepared, excerpt=0)    refuses what cannot be trained on, for `prepare` and `train`
  run_sections, closing_sections, tables             its part of reports
  compare(folders, split)    (title, sections, sections of the page alone, first run against each other as JSON)
  evaluate, prediction, prediction_lines, write_attention   its part of `evaluate` and `predict`
  answers(path, rows, config)       logits of the answers of any system, or evaluate_answers(flags)
  sources, licensed                                  what `doctor` looks for
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from mednli_jax.errors import ConfigError, RunError, UsageError
from mednli_jax.plugins import imported

NLI, CLOZE, DISKNE = "nli", "cloze", "diskne"


@cache
def tasks() -> Mapping:
    """{name: TASK}. The folders are imported at the first call, because they are not needed for `--help`."""
    from mednli_jax.cloze import plug as cloze
    from mednli_jax.diskne import plug as diskne
    from mednli_jax.nli import plug as nli

    return {NLI: nli.TASK, CLOZE: cloze.TASK, DISKNE: diskne.TASK}


def named(name: str):
    """The TASK of this name, or at an import path `package.module:name` of the user's (see plugins.imported)."""
    if isinstance(name, str) and ":" in name:
        return imported(name, "task")
    if name not in list(tasks()):  # which takes a value of any type
        raise ConfigError(f"config.task: unknown task '{name}'. Fix: give one of {', '.join(tasks())}.")
    return tasks()[name]


def task_of(config):
    """The TASK of a config."""
    return named(config.task)


def task_of_run(folder: Path):
    """The TASK of the run in a folder."""
    from mednli_jax.rundir import RunDirectory

    run = RunDirectory.existing(folder)
    try:
        return named(run.task)
    except ConfigError:
        problem = f"{run.folder / 'config.json'}: its 'task' is none of {', '.join(tasks())}"
        raise RunError(f"{problem}. Fix: restore the file, or train again with this version.") from None


def same_task(folders: Sequence[Path]):
    """The TASK of several runs."""
    first = task_of_run(folders[0])
    for folder in folders[1:]:
        if task_of_run(folder) is not first:
            raise RunError(f"{folder}: is no run on {first.corpora}. Fix: name runs of one task.")
    return first


def check_flags(command: str, task, given) -> None:
    """Refuses the flags of a command that only runs of other tasks take. given: the flags, by name."""
    others = {name for other in tasks().values() for name in other.flags.get(command, ())}
    for name in sorted(others - set(task.flags.get(command, ()))):
        if given[name].value:
            raise UsageError(f"--{name} is not for runs on {task.corpora}. Fix: leave it out.")


def with_analysis(name: str):
    """The TASK that has an analysis of its corpora, or all of them ("all")."""
    known = {"all": tasks()[NLI]}
    known |= {analysis: task for task in tasks().values() for analysis in task.analyses(alone=True)}
    if name not in known:
        raise UsageError(f"unknown analysis '{name}'. Known: {', '.join(known)}. Fix: analyze stats --config=FILE")
    return known[name]


def with_table(name: str):
    """The TASK that has the papers' table `name`, as --table takes it."""
    known = {table: task for task in tasks().values() for table in task.tables}
    if name not in known:
        raise UsageError(f"--table={name}: no such table. Fix: give one of {', '.join(known)}.")
    return known[name]
