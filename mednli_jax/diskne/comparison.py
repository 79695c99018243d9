"""Two runs of DisKnE compared by F1 of the positive class, over diseases and runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mednli_jax.diskne.scores import TITLES
from mednli_jax.errors import RunError
from mednli_jax.report.metrics import Difference, paired_bootstrap
from mednli_jax.report.outcomes import (
    SAME_FILES,
    Judged,
    check_corpora,
    complete,
    differences,
    names_of,
    verdict,
)
from mednli_jax.report.sections import Grid, Report, Section, interval, points

ALL = "all categories"


@dataclass(frozen=True)
class System:
    """A finished run. f1: category -> disease -> F1 of the positive class in each seed."""

    name: str
    corpus: str
    f1: Mapping[str, Mapping[str, Sequence[float]]]

    @classmethod
    def from_folder(cls, folder: Path, name: str) -> "System":
        _, result = complete(folder)
        f1 = {}
        for category, of_category in result.values["categories"].items():
            diseases = of_category["diseases"]
            f1[category] = {disease: diseases[disease]["per_run"] for disease in diseases}
        return cls(name, result.corpus, f1)

    def f1_of(self, category: str) -> np.ndarray:
        """F1 float64 [S, D] of the diseases of a category, or of ALL, in the order of their
        names."""
        categories = list(self.f1) if category == ALL else [category]
        columns = []
        for name in categories:
            columns += [self.f1[name][disease] for disease in sorted(self.f1[name])]
        return np.array(columns, float).T


@dataclass(frozen=True, kw_only=True)
class Gain(Difference):
    """The second system's macro F1 less the first's in a category.

    macro_f1: of both systems, mean over seeds.
    """

    diseases: int
    macro_f1: tuple[float, float]


def compare(folders: Sequence[Path], split: str) -> Report:
    """Compares the first run with each of the others. Intervals are drawn over diseases and
    seeds."""
    if split != "test":
        problem = f"{folders[0]}: folds have no predictions of the {split} split"
        raise RunError(problem, fix="give --split=test")
    names = names_of(folders)
    systems = [System.from_folder(*pair) for pair in zip(folders, names, strict=True)]
    first, rows, judged, grids = systems[0], [], [], []
    for second in systems[1:]:
        gains = gains_of(first, second)
        in_all = gains[ALL]
        judged.append(Judged(first.name, second.name, in_all.difference, in_all.low, in_all.high))
        rows.append(
            {
                "first": first.name,
                "second": second.name,
                "split": split,
                "macro_f1": {category: asdict(gain) for category, gain in gains.items()},
            }
        )
        grids.append(_grid(first, second, gains))
    words = [
        "F1 of the positive class in points, mean over diseases and seeds; each disease is tested "
        "by its own fold",
        "difference: the second less the first, 95 % interval by paired bootstrap over diseases "
        "and seeds",
    ]
    sections = [
        verdict(judged),
        differences(names, folders),
        Section("Macro F1 by category", words, grids),
    ]
    return Report({"comparisons": rows}, sections, title=f"{' and '.join(names)}: {split}")


def gains_of(first: System, second: System) -> dict[str, Gain]:
    """The gain in each category and in ALL. Raises RunError for runs that tested other diseases."""
    check_corpora(first, second)
    diseases_of_first = {category: set(diseases) for category, diseases in first.f1.items()}
    if diseases_of_first != {category: set(diseases) for category, diseases in second.f1.items()}:
        problem = f"{first.name} and {second.name}: they were tested on other diseases"
        raise RunError(problem, fix=SAME_FILES)
    gains = {}
    for category in (*first.f1, ALL):
        ours, theirs = first.f1_of(category), second.f1_of(category)
        gains[category] = Gain(
            diseases=ours.shape[1],
            macro_f1=(float(ours.mean()), float(theirs.mean())),
            **asdict(paired_bootstrap(ours, theirs)),
        )
    return gains


def _grid(first: System, second: System, gains: Mapping[str, Gain]) -> Grid:
    rows = []
    for category, gain in gains.items():
        rows.append(
            (
                TITLES.get(category, category),
                str(gain.diseases),
                *map(points, gain.macro_f1),
                points(gain.difference, "+"),
                interval(gain.low, gain.high),
            )
        )
    header = ("category", "diseases", first.name, second.name, "difference", "95 %")
    return Grid("", header, rows)
