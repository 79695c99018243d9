"""What a report says, as words, grids of cells and charts: a page and a terminal show the same sections."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from mednli_jax.analysis import svg
from mednli_jax.analysis.categories import RULES
from mednli_jax.analysis.outcomes import Finished
from mednli_jax.examples import LABELS

WIDTH = 110  # of a terminal's lines
CONFUSION = {"rows": "gold", "columns": "predicted"}


@dataclass(frozen=True)
class Grid:
    """Cells under a header, as strings; the first `left` columns are words, the others figures."""

    caption: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    left: int = 1


@dataclass(frozen=True)
class Section:
    """charts: (caption, SVG of analysis.svg); commands: (what for, a line for a shell). No corpus text is in them."""

    title: str
    words: list[str] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    charts: list[tuple[str, str]] = field(default_factory=list)
    commands: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """Runs against each other.

    title: of the page. sections: what is printed, and stands on the page. more_of_page: what stands on the page alone.
    rows: the first run against each other, as JSON values.
    """

    title: str
    sections: list[Section]
    more_of_page: list[Section]
    rows: list[dict]


def lines(section: Section) -> list[str]:
    """The section for a terminal: all but its charts."""
    found = [section.title, *(line for words in section.words for line in textwrap.wrap(words, WIDTH))]
    for grid in section.grids:
        found += [grid.caption] * bool(grid.caption) + _columns([grid.header, *grid.rows], grid.left)
    for what, command in section.commands:
        found += [f"  {what}", f"    {command}"]
    return found


def text(sections: Sequence[Section]) -> str:
    """Several sections for a terminal."""
    return "\n\n".join("\n".join(lines(section)) for section in sections)


def _columns(rows: Sequence[Sequence[str]], left) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    cells = [
        [f"{c:<{w}}" if i < left else f"{c:>{w}}" for i, (c, w) in enumerate(zip(r, widths, strict=True))] for r in rows
    ]
    return ["  ".join(row).rstrip() for row in cells]


def figure(value: float, signed: str = "") -> str:
    """A figure of one decimal; zero has no sign, whichever side of it the value lies on."""
    value = round(value, 1) or 0.0
    return f"{value:{signed if value else ''}.1f}"


def points(share: float, signed: str = "") -> str:
    """A share in points: .731 is 73.1."""
    return figure(100 * share, signed)


def interval(low: float, high: float, signed: str = "+") -> str:
    """An interval of points."""
    return f"[{figure(low, signed)}, {figure(high, signed)}]"


# -- a table of the paper ----------------------------------------------------------------------------------------------


def table_section(found: dict) -> Section:
    """A table of the paper as `tables.filled` gives it, the paper's figures beside ours."""
    words = ["points of accuracy, mean over the seeds; 95 % intervals by bootstrap over pairs and seeds"]
    if found["corpus"]:
        sizes = ", ".join(f"{n:,} {split} pairs" for split, n in found["pairs"].items())
        words.append(f"ours on {found['corpus']} ({sizes})")
    else:
        words.append("no run of this table is finished yet")
    if found["corpus"] and not found["comparable"]:
        words.append(f"the paper's figures are of MedNLI: they are NOT COMPARABLE with ours on {found['corpus']}")
    if any("_VECTORS" in command for command in found["lacking"]):
        words.append("names in capitals stand for files of your own")
    signed = "+" if any(cell["baseline"] for cell in found["cells"]) else ""
    header = ("", "", "paper", "ours", "95 %", "difference", "95 %", "seeds")
    grid = Grid("", header, [_table_row(cell, signed) for cell in found["cells"]], left=2)
    lacking = [(f"not there yet: {', '.join(names)}", command) for command, names in found["lacking"].items()]
    return Section(f"Table {found['table']}: {found['title']}", words + found["notes"], [grid], commands=lacking)


def _table_row(cell, signed):
    paper = "-" if cell["paper"] is None else figure(cell["paper"], signed)
    if cell["state"] != "complete":
        return cell["row"], cell["column"], paper, cell["state"], "", "", "", ""
    difference = "", ""
    if cell["difference"] is not None:
        value, low, high = cell["difference"]
        difference = figure(value, "+"), interval(low, high)
    ours = figure(cell["ours"], signed), interval(cell["low"], cell["high"], signed)
    return cell["row"], cell["column"], paper, *ours, *difference, str(cell["seeds"])


# -- runs against each other -------------------------------------------------------------------------------------------


def comparison_sections(runs: Sequence[Finished], compared: Sequence[dict]) -> list[Section]:
    """The first run against each other: `compared` is outcomes.comparisons(runs)."""
    words = [
        f"{compared[0]['pairs']:,} {compared[0]['split']} pairs of {runs[0].corpus}; points of accuracy, mean over the "
        "seeds",
        "difference: the run less the first, 95 % interval by paired bootstrap over pairs and seeds; McNemar's exact "
        "test is of the seeds' majority votes, Holm's correction over the rows; detectable: the smallest true "
        "difference that the test finds in 80 % of experiments that disagree as often as these",
        "pairs of one premise are counted as independent, so that intervals are a little too narrow",
    ]
    header = (
        "run",
        "seeds",
        "accuracy",
        "difference",
        "95 %",
        "only first",
        "only run",
        "McNemar p",
        "Holm p",
        "detectable",
    )
    first = compared[0]
    rows = [(first["first"], str(first["seeds"][0]), points(first["accuracy"][0]), *[""] * 7)]
    for row in compared:
        effect = row["minimum_detectable_effect"]
        rows.append(
            (
                row["second"],
                str(row["seeds"][1]),
                points(row["accuracy"][1]),
                points(row["difference"], "+"),
                interval(100 * row["low"], 100 * row["high"]),
                str(row["mcnemar"]["only_first"]),
                str(row["mcnemar"]["only_second"]),
                p_value(row["mcnemar"]["p_value"]),
                p_value(row["p_holm"]),
                "-" if effect is None else points(effect),
            )
        )
        if row["mcnemar_per_seed"]:
            values = sorted(row["mcnemar_per_seed"])
            ends = f"{p_value(values[0])} to {p_value(values[-1])}"
            words.append(f"{row['second']}, McNemar of seed against the same seed: p from {ends}")
        if row["other_training"]:
            words.append(f"{row['second']} was trained on other pairs than {row['first']}")
    sections = [Section("Comparison", words, [Grid("", header, rows)])]
    return sections + [_changes(row) for row in compared]


def p_value(p: float) -> str:
    return f"{p:.4f}" if p >= 1e-4 else f"{p:.0e}"


def _changes(row) -> Section:
    gains, flips = row["class_gains"], row["flips"]
    grids = [
        Grid(
            "recall of each class, mean over seeds",
            ("gold", "pairs", row["first"], row["second"], "difference", "95 %"),
            [
                (
                    label,
                    str(gain["pairs"]),
                    *(points(value) for value in gain["recall"]),
                    points(gain["difference"], "+"),
                    interval(100 * gain["low"], 100 * gain["high"]),
                )
                for label, gain in gains.items()
            ],
        ),
        Grid(
            "predictions that changed, by the majority votes",
            ("gold", "pairs", "changed", "gained", "these were", "lost", "these are now", "wrong to wrong"),
            [
                (
                    label,
                    *(str(flip[name]) for name in ("pairs", "changed", "gained")),
                    _each(flip["gained_from"]),
                    str(flip["lost"]),
                    _each(flip["lost_to"]),
                    str(flip["wrong_to_wrong"]),
                )
                for label, flip in flips.items()
            ],
        ),
    ]
    chart = svg.bars(
        {"difference": [100 * gain["difference"] for gain in gains.values()]},
        list(gains),
        title=f"Gain by class, {row['second']} over {row['first']}",
        x="gold class",
        y="points of recall",
        intervals={"difference": [(100 * gain["low"], 100 * gain["high"]) for gain in gains.values()]},
    )
    title = f"{row['second']} against {row['first']}"
    return Section(title, _gains_in_words(flips), grids, [("Gain by class, 95 % intervals", chart)])


def _each(counts):
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count) or "-"


def _gains_in_words(flips):
    """What was gained, beside what section 6 of the paper says of knowledge-directed attention."""
    total = sum(flip["gained"] for flip in flips.values())
    if not total:
        return ["no prediction was gained"]
    label = max(LABELS, key=lambda name: flips[name]["gained"])
    flip = flips[label]
    source = max(flip["gained_from"], key=flip["gained_from"].get)
    share, of_these = flip["gained"] / total, flip["gained_from"][source] / flip["gained"]
    return [
        f"of {total} predictions gained, {share:.0%} are of {label}; {of_these:.0%} of these were {source} before "
        "(the paper, knowledge-directed attention on MedNLI: 60% of neutral, 87% of these entailment before)"
    ]


def confusions(runs: Sequence[Finished]) -> Section:
    """A heat map of each run."""
    charts = []
    for run in runs:
        title = f"{run.name}, {run.split}: confusion"
        seeds = len(run.outcomes.predicted)
        caption = title + (f", summed over {seeds} seeds" if seeds > 1 else "")
        charts.append((caption, svg.heat_map(run.outcomes.confusion().tolist(), LABELS, title=title, **CONFUSION)))
    return Section("Confusion", charts=charts)


# -- categories of error -----------------------------------------------------------------------------------------------


def category_section(found: dict[str, dict], source: str) -> Section:
    """Kinds of error of each run: {name of the run: categories.category_scores(...)}. source: what gave the kinds."""
    grids = []
    for name, scores in found.items():
        rows = []
        for category, score in scores["categories"].items():
            accuracy = "-" if score["accuracy"] is None else points(score["accuracy"])
            share = f"{score['errors'] / scores['errors']:.0%}" if scores["errors"] else "-"
            most = ", ".join(f"{n} {pair}" for pair, n in list(score["confusions"].items())[:2])
            rows.append((category, str(score["pairs"]), accuracy, str(score["errors"]), share, most or "-"))
        header = ("category", "pairs", "accuracy", "errors", "of all errors", "most frequent (gold > said)")
        grids.append(
            Grid(f"{name}: {scores['annotated']:,} pairs with a category, {scores['errors']:,} errors", header, rows)
        )
    words = [f"the kinds of Table 8, {source}; a pair may be of several; errors are those of the seeds' majority vote"]
    if source == BY_RULES:
        words += [f"{category}: {rule}" for category, rule in RULES.items()]
    return Section("Categories of error", words, grids)


BY_RULES = "by rules over the words of each pair"
