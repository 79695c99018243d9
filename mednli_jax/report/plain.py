"""Reports of a TASK without functions of its own for them (see tasks): scores and predictions as
they are."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mednli_jax.report.options import EvaluationOptions
from mednli_jax.report.public import measure_rows
from mednli_jax.report.sections import Grid, Report, RunSections, Section, seeds_named
from mednli_jax.rundir import Json, RunDirectory, RunResult, Scores

Run = Any  # a run.FinishedRun, of a higher layer


def run_sections(directory: RunDirectory, result: RunResult) -> RunSections:
    """The scores of dev and test, before the learning curves; nothing after them."""
    return RunSections([_section(split, scores) for split, scores in result.scored().items()])


def evaluate(run: Run, options: EvaluationOptions) -> Report:
    """The scores of a split."""
    corpus, split, result = run.experiment.corpus.title, options.split, run.result
    scores, _ = run.scores(split)
    figures = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "trained_on": result.corpus,
        "split": split,
        "seeds": result.seeds,
        **scores,
    }
    title = f"{result.model} on {corpus}, {split}, {seeds_named(result.seeds)}"
    return Report(figures, [_section(split, scores)], title=title, notes=list(result.notes))


def _section(split: str, scores: Scores) -> Section:
    grid = Grid("", ("", "mean", "sd", "per seed"), measure_rows(scores))
    return Section(f"Scores, {split}", [f"{scores['examples']:,} examples"], [grid])


class PlainPredictions:
    """Rows of Scorer.described as they are (see tasks.Predictions)."""

    def prediction(self, row: Mapping[str, Json]) -> dict[str, Json]:
        return dict(row)

    def prediction_lines(self, rows: Iterable[Mapping[str, Json]]) -> Iterator[str]:
        for number, row in enumerate(rows):
            if number == 0:
                yield "\t".join(row)
            yield "\t".join(map(_cell, row.values()))


def _cell(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, str):
        return " ".join(value.split())
    return json.dumps(value, ensure_ascii=False)
