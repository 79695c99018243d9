"""Runs on sentence pairs against each other, as a Comparison."""

from collections.abc import Sequence
from pathlib import Path

from mednli_jax.analysis import outcomes
from mednli_jax.analysis.sections import Comparison, comparison_sections, confusions


def compare(folders: Sequence[Path], split: str, prepared_of) -> Comparison:
    """The first run against each other on the pairs of a split. prepared_of: see kinds.Kind.

    Raises: UserError, DataError(s) where a run is unfinished or damaged, or the runs are of different pairs.
    """
    runs = [outcomes.finished(folder, split) for folder in folders]
    compared = outcomes.comparisons(runs)
    title = f"{' and '.join(run.name for run in runs)}: {split} of {runs[0].corpus}"
    return Comparison(title, comparison_sections(runs, compared), [confusions(runs)], compared)
