"""The reproduction check of MedNLI: judges our figures by the paper's.

The check judges every figure that Romanov & Shivade 2018 print; tables_3_to_7.py fills their Tables
3 to 7. It may be published: it holds averages, counts of at least public.LEAST and the paper's
names of rows; no text, no uid, no name of a file or a folder.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import RunError
from mednli_jax.nli import analyses
from mednli_jax.nli.tables import tables_3_to_7
from mednli_jax.nli.tables.categories import CategoryTable, category_section, read_category_table
from mednli_jax.nli.tables.runs import (
    CORPUS,
    MODELS,
    NAMES,
    PAPER,
    PATHS,
    SNLI_PATHS,
    STATS,
    TABLES,
    Cell,
    Table,
)
from mednli_jax.nli.tables.tables_3_to_7 import FilledCell
from mednli_jax.report import outcomes
from mednli_jax.report.options import TableOptions
from mednli_jax.report.public import LEAST
from mednli_jax.report.sections import Grid, Section, at_path, figure
from mednli_jax.report.tables import COMPLETE, MISSING, check_folder, figures_in, heading, state
from mednli_jax.rundir import environment
from mednli_jax.types import Json

PASS, FAIL, NOT_JUDGED, NO_FIGURE = "pass", "FAIL", "not judged", "-"
PASS_LIKE_ZERO = "pass, but so would a gain of 0"
VERDICTS = (PASS, PASS_LIKE_ZERO, FAIL, NOT_JUDGED, MISSING, NO_FIGURE)
# Points that we allow for another framework, other random numbers and the paper's rounding to one
# decimal.
SLACK = 1.0
SEEDS = 6  # of the paper
USUAL_SD = 1.0  # points, assumed for seeds without a known deviation
CERTAIN = 1.96  # deviations of 95 % of a normal distribution
JUDGED_BY = (
    f"Expected: the paper's figure, {SLACK:.1f} points and the seeds' 95 % interval to either "
    f"side. The interval is {CERTAIN} times the deviation of the difference of two means, "
    "sqrt(sum of sd^2 (1/n + 1/6)). sd is measured over our n seeds. A gain has two terms in the "
    "sum, of the run and of its baseline. The paper's means are taken to be of 6 runs with the "
    "same sd. The pairs are the same on both sides and add nothing. If a run is missing, has one "
    f"seed, or its seeds agree, sd is {USUAL_SD:.1f}. Table 2 is expected to the last decimal that "
    "the paper prints.",
    f"{PASS}: our mean lies in the range, and a gain of 0 does not. {PASS_LIKE_ZERO}: our mean and "
    "a gain of 0 both lie in the range: the figure is neither contradicted nor confirmed. "
    f"{FAIL}: our mean lies outside of the range. {NOT_JUDGED}: a run differs from the paper's in "
    "any field of its config, in corpus, pairs, vectors, seeds or the program that found the "
    f"concepts; the remark says in what. {MISSING}: there is no figure; the remark says why. "
    f"{NO_FIGURE}: the paper has no figure.",
)


@dataclass(frozen=True)
class Statistic:
    """A figure of Table 2. path: of names in the figures."""

    row: str
    column: str
    decimals: int
    path: tuple[str, ...]


_SIDES = ("premise", "hypothesis")
STATISTICS = (
    *(
        Statistic(f"{split} pairs", "size", 0, (split, "pairs"))
        for split in ("train", "dev", "test")
    ),
    Statistic("distinct premises", "size", 0, ("all", "premises")),
    *(Statistic(side, "mean tokens", 1, ("all", side, "mean")) for side in _SIDES),
    *(Statistic(side, "longest", 0, ("all", side, "longest")) for side in _SIDES),
)


@dataclass(frozen=True)
class PathFigure:
    """A figure of path lengths. name: in the JSON of the check."""

    name: str
    file: str
    title: str


FIGURES = (
    PathFigure("figure 3", PATHS, "Figure 3: lengths of the shortest paths between concepts"),
    PathFigure(
        "section 5.4.1",
        SNLI_PATHS,
        "Section 5.4.1: the same paths of SNLI, which in the paper are short",
    ),
)
_ONTOLOGIES = ("mesh", "umls", "snomed", "wordnet")
_RELEASE = re.compile(r"[\d.]{1,10}[A-Z]{0,2}")  # of an ontology: 2017AA, 3.1
# Section 6: what was added -> (beginning of the run's name, beginning of its baseline's name). The
# model's name is appended to each.
_GAINING = {
    "MIMIC-III vectors": ("vectors-fasttext-mimic-", ""),
    "attention": ("replace-", ""),
    "attention, MIMIC-III vectors": ("mimic-replace-", "vectors-fasttext-mimic-"),
}


@dataclass(frozen=True)
class JudgedCell:
    """A figure of the paper beside ours.

    ours, low, high: our figure and its 95 % interval. expected: [low, high] of the range.
    """

    row: str
    column: str
    paper: float | None
    run: str = ""
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    expected: list[float] | None = None
    verdict: str = MISSING
    remark: str = ""


@dataclass(frozen=True)
class PathCounts:
    """Pairs of concepts by the length of the path between them.

    Args:
      version: the release of the ontology; "" for a name that is no release.
      concepts: the program that found the concepts.
      occurrences: length -> pairs of concepts; lengths of few pairs are left out.
    """

    corpus: str
    split: str
    ontology: str
    version: str
    concepts: str
    occurrences: dict[str, int]
    left_out: int


@dataclass(frozen=True)
class GainedPredictions:
    """The predictions that became right: shares of the classes among them.

    entailment_before: among the neutral ones, the share that was taken for entailment before.
    """

    by: str
    model: str
    shares: dict[str, float]
    entailment_before: float


@dataclass(frozen=True)
class Check:
    """The check of a folder.

    Args:
      tables: number -> its cells.
      paths: name of a PathFigure -> its counts, or the reason why there are none.
      kinds: of Table 8, or the reason why there are none.
    """

    version: str
    commit: str
    tables: dict[int, list[JudgedCell]]
    paths: dict[str, PathCounts | str]
    gained: list[GainedPredictions]
    kinds: CategoryTable | str

    @property
    def verdicts(self) -> dict[str, int]:
        """The number of cells of Tables 2 to 7 by verdict."""
        counts = Counter(cell.verdict for cells in self.tables.values() for cell in cells)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    def to_json(self) -> dict[str, Json]:
        judged = {}
        for number, cells in self.tables.items():
            judged[str(number)] = list(map(asdict, cells))
        counts: dict[str, Json] = {}
        for name, paths in self.paths.items():
            counts[name] = paths if isinstance(paths, str) else _with_spaces(paths)
        return {
            "source": PAPER["source"],
            "versions": {"mednli_jax": self.version, "commit": self.commit},
            "verdicts": self.verdicts,
            "rule": list(JUDGED_BY),
            "tables": judged,
            **counts,
            "section 6": list(map(_with_spaces, self.gained)),
            "table 8": self.kinds if isinstance(self.kinds, str) else asdict(self.kinds),
        }


def _with_spaces(values: PathCounts | GainedPredictions) -> dict[str, Json]:
    """The fields as JSON; their names have spaces in place of underscores."""
    return {name.replace("_", " "): value for name, value in asdict(values).items()}


# -- judging ---------------------------------------------------------------------------------------


def expected_range(
    paper: float, deviations: Sequence[float | None], seeds: Sequence[int]
) -> list[float]:
    """[low, high] in points, see JUDGED_BY. deviations, seeds: of the run and its baseline."""
    variance = 0.0
    for sd, n in zip(deviations, seeds, strict=True):
        variance += (sd or USUAL_SD) ** 2 * (1 / n + 1 / SEEDS)
    half = SLACK + CERTAIN * math.sqrt(variance)
    return [paper - half, paper + half]


def check_reproduction(folder: Path, options: TableOptions) -> Check:
    """The check of a folder that `reproduce mednli` filled."""
    folder = check_folder(folder)
    judged = {2: _statistics(folder)}
    for number, table in TABLES.items():
        judged[number] = _judged_cells(table, folder, options)
    program = environment()
    return Check(
        version=program.mednli_jax,
        commit=program.commit,
        tables=judged,
        paths={figure.name: _paths(folder / figure.file) for figure in FIGURES},
        gained=list(_gained_predictions(folder)),
        kinds=read_category_table(folder),
    )


def _statistics(folder: Path) -> list[JudgedCell]:
    """The cells of Table 2."""
    values = figures_in(folder / STATS, "corpus", "splits", "all")
    cells = []
    for statistic in STATISTICS:
        paper = at_path(PAPER["statistics"], statistic.path)
        half = 0.5 * 10**-statistic.decimals if statistic.decimals else 0
        unmeasured = JudgedCell(
            statistic.row, statistic.column, paper, expected=[paper - half, paper + half]
        )
        if isinstance(values, str):
            cells.append(replace(unmeasured, remark=values))
            continue
        ours = at_path({**values["splits"], "all": values["all"]}, statistic.path)
        verdict, remark = FAIL, ""
        if values["corpus"] != CORPUS:
            verdict, remark = NOT_JUDGED, f"of {values['corpus']}"
        elif ours is not None and round(ours, statistic.decimals) == paper:
            verdict = PASS
        cells.append(replace(unmeasured, ours=ours, verdict=verdict, remark=remark))
    return cells


def _judged_cells(table: Table, folder: Path, options: TableOptions) -> list[JudgedCell]:
    """The cells of a table with a figure of the paper, or of ours."""
    filled_table = tables_3_to_7.fill_table(table, folder, options)
    filled_of = {filled.cell: filled for filled in filled_table.cells}
    elsewhere = "" if filled_table.comparable else filled_table.corpus
    cells = []
    for cell in table.cells:
        filled = filled_of.get(cell, FilledCell(cell, MISSING))
        if cell.paper is not None or filled.measured:
            cells.append(_judge(filled, elsewhere))
    return cells


def _judge(filled: FilledCell, elsewhere: str) -> JudgedCell:
    """A cell with its verdict. elsewhere: another corpus than the paper's, or ""."""
    cell, measured = filled.cell, filled.measured
    systems = len(cell.keys)
    sd = measured.sd if measured else [None] * systems
    seeds = measured.seeds if measured else SEEDS
    bounds = None if cell.paper is None else expected_range(cell.paper, sd, [seeds] * systems)
    unmeasured = JudgedCell(
        cell.row, cell.column, cell.paper, cell.run, expected=bounds, remark=filled.state
    )
    if measured is None:
        return unmeasured
    remarks = [f"of {elsewhere}", *measured.unlike] if elsewhere else measured.unlike
    return replace(
        unmeasured,
        ours=measured.ours,
        low=measured.low,
        high=measured.high,
        verdict=_verdict(cell, measured.ours, bounds, remarks),
        remark="; ".join(remarks),
    )


def _verdict(cell: Cell, ours: float, bounds: list[float] | None, remarks: Sequence[str]) -> str:
    if bounds is None:
        return NO_FIGURE
    if remarks:
        return NOT_JUDGED
    low, high = bounds
    if not low <= ours <= high:
        return FAIL
    return PASS_LIKE_ZERO if cell.baseline and low <= 0 <= high else PASS


def _gained_predictions(folder: Path) -> Iterator[GainedPredictions]:
    """Yields section 6, by the seeds' majority votes. Gains of fewer than LEAST neutral predictions
    are left out."""
    for by, (run, baseline) in _GAINING.items():
        for model in MODELS:
            folders = [folder / f"{name}{model}" for name in (baseline, run)]
            if any(state(path) != COMPLETE for path in folders):
                continue
            first, second = map(outcomes.read_finished, folders)
            try:
                flips = outcomes.flips(first.outcomes, outcomes.align(first, second).outcomes)
            except RunError:  # the runs are of different pairs; the cells of Table 7 say so
                continue
            gained = {label: flip.gained for label, flip in flips.items()}
            neutral, total = gained["neutral"], sum(gained.values())
            if neutral >= LEAST:
                shares = {label: count / total for label, count in gained.items()}
                before = flips["neutral"].gained_from["entailment"] / neutral
                yield GainedPredictions(by, NAMES[model], shares, before)


def _paths(path: Path) -> PathCounts | str:
    """Reads the path lengths from a file of `analyze paths`, or returns the reason why there are
    none."""
    values = figures_in(path, "corpus", "ontology", "version", "occurrences")
    if isinstance(values, str):
        return values
    counts = {length: n for length, n in values["occurrences"].items() if n >= LEAST}
    is_known = values["ontology"] in _ONTOLOGIES
    is_release = is_known and _RELEASE.fullmatch(str(values["version"]))
    mentions = values.get("mentions", "")
    return PathCounts(
        corpus=values["corpus"],
        split="training" if values.get("split") == "train" else "all",
        ontology=values["ontology"] if is_known else "another ontology",
        version=values["version"] if is_release else "",
        concepts=f"a file of mentions, {mentions}" if mentions else "this package's linker",
        occurrences=counts,
        left_out=len(values["occurrences"]) - len(counts),
    )


# -- for a reader ----------------------------------------------------------------------------------


def sections(check: Check) -> list[Section]:
    """The check as sections, for a page, a terminal and Markdown."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in check.verdicts.items() if count)
    version = " ".join(filter(None, (check.version, check.commit)))
    cells = f"cells of Tables 2 to 7: {counts}; by mednli_jax {version}"
    shown = [Section("Reproduction check", [cells, *JUDGED_BY])]
    for number, judged in check.tables.items():
        title = "key statistics of the corpus" if number == 2 else TABLES[number].title
        shown.append(Section(heading(number, title), grids=[_grid(number, judged)]))
    for path_figure in FIGURES:
        shown.append(_paths_section(path_figure.title, check.paths[path_figure.name]))
    return [*shown, _gained_section(check.gained), category_section(check.kinds)]


def _grid(number: int, cells: Sequence[JudgedCell]) -> Grid:
    signed = "+" if number > 3 else ""  # Tables 4 to 7 are of gains

    def show(value: float | None) -> str:
        if value is None:
            return NO_FIGURE
        if number == 2:
            return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
        return figure(value, signed)

    def between(low: float | None, high: float | None) -> str:
        return NO_FIGURE if low is None else f"{show(low)} to {show(high)}"

    rows: list[tuple[str, ...]] = []
    for cell in cells:
        bounds = cell.expected or (None, None)
        rows.append(
            (
                cell.row,
                cell.column,
                show(cell.paper),
                show(cell.ours),
                between(cell.low, cell.high),
                between(*bounds),
                cell.verdict,
                cell.remark or NO_FIGURE,
            )
        )
    header = ("", "", "paper", "ours", "95 %", "expected", "verdict", "remark")
    return Grid("", header, rows, left=2)


def _paths_section(title: str, counts: PathCounts | str) -> Section:
    if isinstance(counts, str):
        return Section(title, [f"{MISSING}: {counts}"])
    release = f" {counts.version}" if counts.version else ""
    words = [
        f"{counts.corpus}, {counts.split} pairs, {counts.ontology}{release}; concepts of "
        f"{counts.concepts}; the paper prints no figures"
    ]
    if counts.left_out:
        rare = f"lengths of fewer than {LEAST} pairs of concepts"
        words.append(f"{counts.left_out} {rare} are left out")
    figures = {
        "ontology": counts.ontology,
        "version": counts.version,
        "occurrences": counts.occurrences,
        "nearest": {},
    }
    rows: list[tuple[str, ...]] = []
    for length in analyses.ordered_keys(figures):
        rows.append((length, f"{counts.occurrences[length]:,}"))
    drawn = analyses.path_chart(counts.corpus, figures)
    grid = Grid("", ("path", "pairs of concepts"), rows)
    return Section(title, words, [grid], [(drawn.title if drawn else "", drawn)])


def _gained_section(gained: Sequence[GainedPredictions]) -> Section:
    words = [
        "Of the predictions that are right by majority vote and were wrong before, the share of "
        "each gold class, and the share of the neutral ones that were taken for entailment before, "
        "in %. In the paper MIMIC-III vectors gain the same in each class; of the gains by "
        "attention 60 % are neutral, 87 % of which were entailment. "
        f"Rows of fewer than {LEAST} neutral ones are left out",
    ]
    rows = []
    for row in gained:
        shares = (*row.shares.values(), row.entailment_before)
        rows.append((row.by, row.model, *(f"{100 * share:.0f}" for share in shares)))
    header = ("gain by", "", *LABELS, "entailment before")
    grids = [Grid("", header, rows, left=2)] if rows else []
    return Section("Section 6: classes of the gained predictions", words, grids)
