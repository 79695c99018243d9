"""The reproduction check of MedNLI: the paper's figures beside ours.

The check judges every figure that Romanov & Shivade 2018 print; report/tables.py makes their Tables
3 to 7. It may be published: it holds averages, counts of at least public.LEAST and the paper's
names of rows; no text, no uid, no name of a file or a folder.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import RunError, UserError
from mednli_jax.nli import corpus_stats
from mednli_jax.nli.categories import RULES
from mednli_jax.report import outcomes, tables
from mednli_jax.report.public import LEAST
from mednli_jax.report.sections import Grid, Section, figure, points
from mednli_jax.rundir import environment, read_json

NAME = "mednli"
STATS, KINDS = "corpus/stats.json", "categories.json"
PATHS = {
    "figure 3": ("corpus/paths.json", "Figure 3: lengths of the shortest paths between concepts"),
    "section 5.4.1": (
        "snli/paths.json",
        "Section 5.4.1: the same paths of SNLI, which in the paper are short",
    ),
}
PASS, FAIL, NOT_JUDGED, MISSING, NO_FIGURE = "pass", "FAIL", "not judged", "missing", "-"
# points: another framework, other random numbers, a figure of one decimal
SLACK = 1.0
SEEDS = 6  # of the paper
USUAL_SD = 1.0  # points, assumed for seeds without a known deviation
CERTAIN = 1.96  # deviations of 95 % of a normal distribution
JUDGED_BY = (
    f"Expected: the paper's figure, {SLACK:.1f} points and the seeds' 95 % interval to either side. The interval is "
    f"{CERTAIN} times the deviation of the difference of two means, sqrt(sum of sd^2 (1/n + 1/6)): sd is that of our n "
    "seeds, in a gain of the run and of its baseline, and the paper's means are of 6 runs with the same sd. The pairs "
    "are the same on both sides and add nothing. "
    f"Where a run is missing, has one seed, or its seeds agree, sd is {USUAL_SD:.1f}. "
    "Table 2 is expected to the last decimal that the paper prints.",
    f"{PASS}: our mean lies in that range. {FAIL}: it does not. {NOT_JUDGED}: a run differs from the paper's in "
    "any field of its config, in corpus, pairs, vectors, seeds or linker; the remark says in what. "
    f"{MISSING}: there is no figure; the remark says why. {NO_FIGURE}: the paper has no figure. "
    "A gain within its range is not contradicted; one that is smaller than its range is wide is not confirmed either.",
)
_STATISTICS = (
    *((f"{split} pairs", "size", 0, (split, "pairs")) for split in ("train", "dev", "test")),
    ("distinct premises", "size", 0, ("all", "premises")),
    *((side, "mean tokens", 1, ("all", side, "mean")) for side in ("premise", "hypothesis")),
    *((side, "longest", 0, ("all", side, "longest")) for side in ("premise", "hypothesis")),
)
_ONTOLOGIES = ("mesh", "umls", "snomed", "wordnet")
_KNOWN_VARIANTS = ("mednli", "mednli_code", "demo", "demo_full")
_SYSTEMS = {"bow": "BOW", "infersent": "InferSent", "esim": "ESIM"}
# Section 6: what gains predictions -> (names of its runs, of their baselines) without the model.
_GAINING = {
    "MIMIC-III vectors": ("vectors-fasttext-mimic-", ""),
    "attention": ("replace-", ""),
    "attention, MIMIC-III vectors": ("mimic-replace-", "vectors-fasttext-mimic-"),
}


def expected(paper: float, deviations: Sequence[float | None], seeds: Sequence[int]) -> list[float]:
    """[low, high] in points, see JUDGED_BY. deviations, seeds: of the run and its baseline."""
    pairs = zip(deviations, seeds, strict=True)
    variance = sum((sd or USUAL_SD) ** 2 * (1 / n + 1 / SEEDS) for sd, n in pairs)
    half = SLACK + CERTAIN * math.sqrt(variance)
    return [paper - half, paper + half]


def checked(folder: Path, read: tables.Read) -> dict:
    """The check of a folder that launch/mednli.sh filled, as JSON values.

    tables: number -> its cells, see _cell: low and high are ours (95 %), expected is [low, high];
    figure 3, section
    5.4.1: occurrences {length: concept pairs}, and table 8: {kind of error: {"pairs", "accuracy" {model: share}}}, or
    why there is none; section 6: see _changes; verdicts: {verdict: number of cells of Tables 2 to 7}; variants: of
    MedNLI, of the runs' configs.
    """
    folder = tables.check_folder(folder)
    found = {2: _statistics(folder)}
    found |= {number: _gains(table, folder, read) for number, table in tables.TABLES.items()}
    verdicts = Counter(cell["verdict"] for cells in found.values() for cell in cells)
    here = environment()
    results = [_read(path, "config") for path in folder.glob("*/result.json")]
    configs = {
        str(result["config"]).rpartition("-")[2]
        for result in results
        if not isinstance(result, str)
    }
    return {
        "source": tables.published(NAME)["source"],
        "variants": sorted(configs & set(_KNOWN_VARIANTS)),
        "versions": {"mednli_jax": here.mednli_jax, "commit": here.commit},
        "verdicts": {name: verdicts[name] for name in (PASS, FAIL, NOT_JUDGED, MISSING, NO_FIGURE)},
        "rule": list(JUDGED_BY),
        "tables": {str(number): cells for number, cells in found.items()},
        **{name: _paths(folder / file) for name, (file, _) in PATHS.items()},
        "section 6": list(_changes(folder)),
        "table 8": _kinds(folder),
    }


def _cell(row, column, paper, **known) -> dict:
    empty = {
        "ours": None,
        "low": None,
        "high": None,
        "expected": None,
        "verdict": MISSING,
        "remark": "",
    }
    return {"row": row, "column": column, "paper": paper, **empty, **known}


def _read(path: Path, *fields: str) -> dict | str:
    """The values of a file, or why there are none."""
    if not path.is_file():
        return f"no {path.name}"
    try:
        return read_json(path, *fields)
    except UserError:
        return f"{path.name} is damaged"


def _statistics(folder) -> list[dict]:
    read, paper = _read(folder / STATS, "corpus", "splits", "all"), tables.published(NAME)
    cells = []
    for row, column, decimals, way in _STATISTICS:
        printed = _at(paper["statistics"], way)
        half = 0.5 * 10**-decimals if decimals else 0
        known = {"expected": [printed - half, printed + half]}
        if isinstance(read, str):
            known["remark"] = read
        else:
            known["ours"] = ours = _at({**read["splits"], "all": read["all"]}, way)
            known["verdict"] = (
                PASS if ours is not None and round(ours, decimals) == printed else FAIL
            )
            if read["corpus"] != paper["corpus"]:
                known |= {"verdict": NOT_JUDGED, "remark": f"of {read['corpus']}"}
        cells.append(_cell(row, column, printed, **known))
    return cells


def _at(values, way):
    for name in way:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _gains(table: tables.Table, folder: Path, read: tables.Read) -> list[dict]:
    """The paper's cells of a table, and the further cells that are shown."""
    filled, cells = tables.filled(table, folder, read), []
    found = {(cell["run"], cell["split"]): cell for cell in filled["cells"]}
    for cell in table.cells:
        ours = found.get((cell.run, cell.split), {"state": "missing"})
        if cell.paper is not None or "ours" in ours:
            cells.append(_judged(cell, ours, filled))
    return cells


def _judged(cell, ours, filled) -> dict:
    there, systems = "ours" in ours, 2 if cell.baseline else 1
    deviations = ours["sd"] if there else [None] * systems
    seeds = [ours["seeds"]] * systems if there else [SEEDS] * systems
    found = _cell(cell.row, cell.column, cell.paper, run=cell.run, remark=ours["state"])
    if cell.paper is not None:
        found["expected"] = expected(cell.paper, deviations, seeds)
    if not there:
        return found
    remarks = [*[f"of {filled['corpus']}"] * (not filled["comparable"]), *ours["unlike"]]
    found |= {name: ours[name] for name in ("ours", "low", "high")} | {"remark": "; ".join(remarks)}
    if cell.paper is None:
        return {**found, "verdict": NO_FIGURE}
    low, high = found["expected"]
    inside = PASS if low <= ours["ours"] <= high else FAIL
    return {**found, "verdict": NOT_JUDGED if remarks else inside}


def _changes(folder) -> Iterator[dict]:
    """Predictions that became right, by the seeds' majority votes: shares of the classes among
    them, and the share of the neutral ones that were taken for entailment before; of at least LEAST
    neutral ones."""
    for by, (run, baseline) in _GAINING.items():
        for model, title in _SYSTEMS.items():
            folders = [folder / f"{name}{model}" for name in (baseline, run)]
            if not all(tables.state(path) == "complete" for path in folders):
                continue
            first, second = map(outcomes.finished, folders)
            try:
                flips = outcomes.flips(first.outcomes, outcomes.aligned(first, second).outcomes)
            except RunError:  # runs of other pairs, which Table 7 names
                continue
            gained = {label: flip["gained"] for label, flip in flips.items()}
            if gained["neutral"] >= LEAST:
                shares = {label: count / sum(gained.values()) for label, count in gained.items()}
                before = flips["neutral"]["gained_from"]["entailment"] / gained["neutral"]
                yield {"by": by, "model": title, "shares": shares, "entailment before": before}


def _paths(path) -> dict | str:
    """Pairs of concepts by the length of the path between them; few pairs are left out."""
    read = _read(path, "corpus", "ontology", "version", "occurrences")
    if isinstance(read, str):
        return read
    counts = {length: n for length, n in read["occurrences"].items() if n >= LEAST}
    ontology = read["ontology"] if read["ontology"] in _ONTOLOGIES else "another ontology"
    left_out = len(read["occurrences"]) - len(counts)
    split = "training" if read.get("split") == "train" else "all"
    about = {"corpus": read["corpus"], "split": split, "ontology": ontology}
    return {**about, "occurrences": counts, "left out": left_out}


def _kinds(folder) -> dict | str:
    """Categories of errors of the systems of Table 3; a category with few pairs has no figures."""
    read = _read(folder / KINDS, "categories")
    if isinstance(read, str):
        return read
    given = read["categories"]
    runs = {title: given[run]["categories"] for run, title in _SYSTEMS.items() if run in given}
    if not runs:
        return f"{KINDS} names none of {', '.join(_SYSTEMS)}"
    found = {}
    for kind in RULES:
        pairs = next(iter(runs.values()))[kind]["pairs"]
        accuracy = {title: kinds[kind]["accuracy"] for title, kinds in runs.items()}
        found[kind] = {"pairs": pairs, "accuracy": accuracy} if pairs >= LEAST else None
    return found


def sections(found: dict) -> list[Section]:
    """The check for a page, a terminal and Markdown. found: of `checked`."""
    counts = ", ".join(f"{count} {name}" for name, count in found["verdicts"].items() if count)
    version = " ".join(filter(None, found["versions"].values()))
    variants = f"configs :{', :'.join(found['variants'])}; " if found["variants"] else ""
    cells = f"cells of Tables 2 to 7: {counts}; {variants}by mednli_jax {version}"
    shown = [Section("Reproduction check", [cells, *found["rule"]])]
    for number, cells in found["tables"].items():
        title = (
            "key statistics of the corpus" if number == "2" else tables.TABLES[int(number)].title
        )
        shown.append(Section(f"Table {number}: {title}", grids=[_grid(number, cells)]))
    paths = (_paths_section(title, found[name]) for name, (_, title) in PATHS.items())
    return [*shown, *paths, _changes_section(found["section 6"]), _kinds_section(found["table 8"])]


def _grid(number, cells) -> Grid:
    signed = "+" if int(number) > 3 else ""

    def show(value):
        if value is None:
            return NO_FIGURE
        if number == "2":
            return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
        return figure(value, signed)

    def between(low, high):
        return NO_FIGURE if low is None else f"{show(low)} to {show(high)}"

    rows = []
    for cell in cells:
        figures = show(cell["paper"]), show(cell["ours"]), between(cell["low"], cell["high"])
        judged = (
            between(*(cell["expected"] or (None, None))),
            cell["verdict"],
            cell["remark"] or NO_FIGURE,
        )
        rows.append((cell["row"], cell["column"], *figures, *judged))
    return Grid(
        "", ("", "", "paper", "ours", "95 %", "expected", "verdict", "remark"), rows, left=2
    )


def _paths_section(title, found) -> Section:
    if isinstance(found, str):
        return Section(title, [f"{MISSING}: {found}"])
    words = [
        f"{found['corpus']}, {found['split']} pairs, {found['ontology']}; the paper prints no figures"
    ]
    if found["left out"]:
        words.append(
            f"{found['left out']} lengths of fewer than {LEAST} pairs of concepts are left out"
        )
    figures = {**found, "version": "", "nearest": {}}
    rows = [
        (length, f"{found['occurrences'][length]:,}")
        for length in corpus_stats.ordered_keys(figures)
    ]
    drawn = corpus_stats.path_chart(found["corpus"], figures)
    grid = Grid("", ("path", "pairs of concepts"), rows)
    return Section(title, words, [grid], [(drawn.title if drawn else "", drawn)])


def _changes_section(found) -> Section:
    words = [
        "Of the predictions that are right by majority vote and were wrong before, the share of each gold class, and "
        "the share of the neutral ones that were taken for entailment before, in %. In the paper MIMIC-III vectors "
        "gain the same in each class; of the gains by attention 60 % are neutral, 87 % of which were entailment. "
        f"Rows of fewer than {LEAST} neutral ones are left out",
    ]
    rows = []
    for of in found:
        shares = *of["shares"].values(), of["entailment before"]
        rows.append((of["by"], of["model"], *(f"{100 * share:.0f}" for share in shares)))
    header = ("gain by", "", *LABELS, "entailment before")
    grids = [Grid("", header, rows, left=2)] * bool(rows)
    return Section("Section 6: classes of the gained predictions", words, grids)


def _kinds_section(found) -> Section:
    title = "Table 8: kinds of error"
    if isinstance(found, str):
        return Section(title, [f"{MISSING}: {found}"])
    models = next((list(kind["accuracy"]) for kind in found.values() if kind), [])
    rows = []
    for name, kind in found.items():
        figures = [points(kind["accuracy"][model]) if kind else NO_FIGURE for model in models]
        rows.append((name, f"{kind['pairs']:,}" if kind else f"under {LEAST}", *figures))
    words = "kinds by rules over the words of a pair, which may be of several; the paper prints examples and no figure"
    return Section(
        title,
        [words],
        [Grid("", ("kind", "pairs", *(f"accuracy, {model}" for model in models)), rows)],
    )
