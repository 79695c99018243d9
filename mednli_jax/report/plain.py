"""What is shown of a TASK without parts of its own for it (see tasks): scores and predictions as
they are."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mednli_jax.report.options import EvaluationOptions
from mednli_jax.report.public import measure_rows
from mednli_jax.report.sections import Grid, Report, RunSections, Section, seeds_named
from mednli_jax.rundir import RunDirectory, RunResult


def run_sections(directory: RunDirectory, result: RunResult) -> RunSections:
    """The scores of dev and test, before the learning curves; nothing after them."""
    return RunSections([_section(split, scores) for split, scores in result.scored().items()])


def evaluate(run, options: EvaluationOptions) -> Report:
    """The scores of a split. run: a FinishedRun."""
    corpus, split, seeds = run.experiment.corpus.title, options.split, run.result.seeds
    scores, _ = run.scores(split)
    figures = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "trained_on": run.result.corpus,
        "split": split,
        "seeds": seeds,
        **scores,
    }
    title = f"{run.result.model} on {corpus}, {split}, {seeds_named(seeds)}"
    return Report(figures, [_section(split, scores)], title=title, notes=list(run.result.notes))


def _section(split: str, scores: Mapping[str, Any]) -> Section:
    grid = Grid("", ("", "mean", "sd", "per seed"), measure_rows(scores))
    return Section(f"Scores, {split}", [f"{scores['examples']:,} examples"], [grid])


class PlainPredictions:
    """Rows of Scorer.described as they are (see tasks.Predictions)."""

    def prediction(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return dict(row)

    def prediction_lines(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        for number, row in enumerate(rows):
            if number == 0:
                yield "\t".join(row)
            yield "\t".join(map(_cell, row.values()))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    return (
        " ".join(value.split()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )
