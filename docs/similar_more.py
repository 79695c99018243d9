"""The same task with an analysis, a table, and a flag of `evaluate`."""

from pathlib import Path
from typing import NamedTuple

from similar import LABELS, Similar

from mednli_jax.report import plain
from mednli_jax.report.options import PaperTable
from mednli_jax.report.sections import Grid, Report, Section, points
from mednli_jax.rundir import read_json


class Pairs(NamedTuple):
    """The corpus as the analyses take it. Without `splits` no page is written."""

    name: str
    examples: tuple
    notes: tuple[str, ...] = ()  # remarks on the corpus
    splits: None = None


def overlap(pairs, options):
    """The share of the words of a first sentence that the second has, by label."""
    shares = {label: [] for label in LABELS}
    for example in pairs.examples:
        words = set(example.premise)
        shares[LABELS[example.label]].append(len(words & set(example.hypothesis)) / len(words))
    means = {label: sum(found) / len(found) for label, found in shares.items() if found}
    grid = Grid(
        "", ("label", "shared words, %"), [(label, points(mean)) for label, mean in means.items()]
    )
    return Report({"shared": means}, [Section("Shared words", grids=[grid])])


def accuracies(folder, options):
    """The accuracy of each run in a folder."""
    runs = {path.parent: read_json(path) for path in sorted(Path(folder).glob("*/result.json"))}
    found = {run.name: result[options.split]["accuracy"]["mean"] for run, result in runs.items()}
    grid = Grid(
        "", ("run", "accuracy"), [(name, points(accuracy)) for name, accuracy in found.items()]
    )
    return Report(found, [Section("Accuracies", grids=[grid])], runs=list(runs))


class More(Similar):
    flags = {"evaluate": ("skills",)}
    analyses = {"overlap": overlap}
    alone = ()  # the names that `analyze all` leaves out
    tables = {"similar": PaperTable(accuracies, "Our own figures")}

    def base(self, model):
        config = super().base(model)
        config.task = "similar_more:TASK"
        return config

    def analysed(self, config, options):
        splits = self.corpus(config).splits()
        return Pairs("similar", splits["train"].examples)

    def evaluate(self, run, options):
        report = plain.evaluate(run, options)
        note = f"skills: {options.skills}" if options.skills else "no skills"
        return Report(report.figures, report.sections, title=report.title, notes=[note])


TASK = More()
