"""Score a finished run on a split of its corpus, with the best weights of each seed, or any
system's answers.

python -m mednli_jax.evaluate --run=runs/esim_kd-demo --split=dev --json
python -m mednli_jax.evaluate --run=runs/esim-snli --config=configs/esim.py:mednli
python -m mednli_jax.evaluate --run=runs/esim-mednli --partition=easy.txt,difficult.npy
python -m mednli_jax.evaluate --predictions=answers.jsonl --corpus=clicr --vectors=glove.txt
python -m mednli_jax.evaluate --predictions=answers.csv --config=configs/esim.py:mednli

--run=DIR       the run directory
--config=NAME[:VARIANT]   another corpus (direct transfer): only the data section of the config is
                          used, and the files of other splits may be missing
--workdir=DIR   with --config: write scores and predictions there, as a run that `report` reads
--split=NAME    train, dev or test (default: test)
--partition=FILE[,FILE]   also score the pairs that each file lists: ids, or an .npy of strings
--probe=FILE    score the labelled pairs of FILE instead, by their field `genre`
--merged        join the words of each entity before scoring; for runs that read words only
--spans=FILE    with --merged: the entities of any tagger (.tsv), not the ontology's concepts
--predictions=FILE        answers of any system, without --run. With --config: to all pairs of its
                          corpus's split, .jsonl, .csv or .tsv with uid (or pairID) and label.
                          With --corpus: to cloze queries, lines {"uid": ..., "answer": ...}, or
                          {uid: text}; a query without an answer counts as wrong
--corpus=NAME|FOLDER      with --predictions: demo_cloze, clicr, or a folder in CliCR's layout
--vectors=FILE            cloze: word vectors for the embedding score
--skills=FILE             cloze: lines of uid TAB skill, for scores by skill
--json          all scores as one JSON object
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mednli_jax import cli, tasks
from mednli_jax.data.corpus import ORDER
from mednli_jax.data.partitions import Partition, read_partitions
from mednli_jax.defaults import did_you_mean
from mednli_jax.errors import UsageError
from mednli_jax.report.options import EvaluationOptions
from mednli_jax.report.sections import Report, lines
from mednli_jax.rundir import RunDirectory

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.finished import Run


def define(values: cli.Flags) -> None:
    cli.define(
        values, config=None, split="test", partition=[], merged=False, corpus=None, json=False
    )
    cli.define_paths(values, "run", "workdir", "probe", "spans", "predictions", "vectors", "skills")


def main(values: cli.Flags) -> None:
    report = answers(values) if values.predictions is not None else scores(values)
    if values.json:
        print(json.dumps(report.figures, indent=2))
        return
    shown = [report.title] if report.title else []
    for section in report.sections:
        shown += lines(section)
    print("\n".join([*shown, *report.notes]))


def _options(values: cli.Flags, partitions: Sequence[Partition] = ()) -> EvaluationOptions:
    return EvaluationOptions(
        split=values.split,
        partitions=partitions,
        probe=values.probe,
        merged=values.merged,
        spans=values.spans,
        vectors=values.vectors,
        skills=values.skills,
    )


def scores(values: cli.Flags) -> Report:
    """Reports the scores of a finished run: on its own corpus, on that of --config, or on the pairs
    of --probe."""
    folder = cli.required_path(values, "run", "--run=runs/esim_kd-demo")
    if values.probe and (values.config is not None or values.merged or values.partition):
        raise UsageError(
            "--probe replaces the corpus", fix="leave --config, --merged and --partition out"
        )
    elsewhere = tasks.with_labels(cli.config(values)) if values.config is not None else None
    if values.workdir and elsewhere is None:
        raise UsageError(
            "--workdir needs --config", fix="give --config too, or leave --workdir out"
        )
    if (values.merged and elsewhere is not None) or (values.spans and not values.merged):
        raise UsageError(
            "--spans needs --merged, and --config takes neither", fix="leave one of them out"
        )
    # Before the run is opened, which is slow.
    partitions = read_partitions(values.partition)
    _check_split(folder, values.split)
    run = _open_run(folder, values)
    if elsewhere is not None:
        run.check_task(elsewhere)
        run = run.on_corpus(elsewhere.data)
    if values.workdir:
        run.write(values.workdir, cli.command_line())
    return run.task.evaluate(run, _options(values, partitions))


def _check_split(folder: Path, split: str) -> None:
    """Raises UsageError for a split that neither the run nor any official corpus has."""
    names = dict.fromkeys([*RunDirectory.existing(folder).data().splits, *ORDER])
    if split not in names:
        problem = f"--split={split}: there is no such split.{did_you_mean(split, names)}"
        raise UsageError(problem, fix=f"give one of {', '.join(names)}")


def answers(values: cli.Flags) -> Report:
    """Reports the scores of any system's answers to the pairs of --config or the queries of
    --corpus."""
    names = ["run", "probe", "merged", "spans"]
    if values.config is None:
        names += ["workdir", "partition"]
    for name in names:
        if values[name].value:
            problem = f"--{name} has no meaning beside --predictions"
            raise UsageError(problem, fix="leave one of them out")
    if values.config is not None:
        return _answers_to_pairs(values, tasks.with_labels(cli.config(values)), values.predictions)
    cli.required_path(
        values, "corpus", "--corpus=demo_cloze, clicr or a folder; for pairs --config=esim:mednli"
    )
    task = tasks.with_flag("evaluate", "corpus")
    return task.evaluate_answers(values.corpus, values.predictions, _options(values))


def _answers_to_pairs(values: cli.Flags, config: "ConfigDict", file: Path) -> Report:
    from mednli_jax.finished import Answered

    tasks.check_flags("evaluate", tasks.task_of(config), values.flag_values_dict())
    config.vectors.path = ""  # answers need none
    run, partitions = Answered(config, file, values.split), read_partitions(values.partition)
    # Without --probe and --merged any System has what is asked of a run.
    report = run.task.evaluate(cast("Run", run), _options(values, partitions))
    if values.workdir:
        run.write(values.workdir, cli.command_line())
    of_run = ("run", "trained_on", "seeds")
    figures = {name: value for name, value in report.figures.items() if name not in of_run}
    title = f"{file.name} on {figures['corpus']}, {values.split}: {figures['examples']:,} pairs"
    return replace(report, figures={"predictions": str(file), **figures}, title=title)


def _open_run(folder: Path, values: cli.Flags) -> "Run":
    from mednli_jax.finished import Run

    run = Run(folder)
    tasks.check_flags("evaluate", run.task, values.flag_values_dict())
    return run


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
