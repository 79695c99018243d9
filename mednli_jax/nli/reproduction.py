"""The reproduction check: every figure that Romanov & Shivade 2018 print beside ours, and whether the two agree.

It may be published: it holds averages, counts of at least public.LEAST, and the paper's own names of rows; no
sentence, no word, no uid, no name of a file or a folder.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mednli_jax.errors import UserError
from mednli_jax.nli import paths
from mednli_jax.nli.categories import CATEGORIES
from mednli_jax.report import tables
from mednli_jax.report.public import LEAST
from mednli_jax.report.runs import environment, read_json
from mednli_jax.report.sections import Grid, Section, figure, points

NAME = "mednli"  # of --table
STATS, PATHS, KINDS = "corpus/stats.json", "corpus/paths.json", "categories.json"
PASS, FAIL, NOT_JUDGED, MISSING, NO_FIGURE = "pass", "FAIL", "not judged", "missing", "-"
SLACK = 1.0  # points: another framework, other random numbers, a figure of one decimal
USUAL_SD = 1.0  # points, assumed for seeds without a known deviation
CERTAIN = 1.96  # deviations of 95 % of a normal distribution
RULE = (
    f"Expected: the paper's figure, {SLACK:.1f} points and the seeds' 95 % interval to either side. The interval is "
    f"{CERTAIN} times the deviation of the difference of two means, sqrt(sum of sd^2 (1/n + 1/6)): sd is that of our n "
    "seeds, in a gain of the run and of its baseline, and the paper's means are of 6 runs with the same sd. The pairs "
    f"are the same on both sides and add nothing. Where a run has one seed or is missing, sd is {USUAL_SD:.1f}. "
    "Table 2 is expected to the last decimal that the paper prints.",
    f"{PASS}: our mean lies in that range. {FAIL}: it does not. {NOT_JUDGED}: a run differs from the paper's in "
    "corpus, pairs, size, epochs, vectors or seeds; the remark says in what. "
    f"{MISSING}: there is no figure; the remark says why. {NO_FIGURE}: the paper has no figure. "
    "A gain within its range is not contradicted; one that is smaller than its range is wide is not confirmed either.",
)
_STATISTICS = (  # row, column, decimals that the paper prints, names that lead to the figure
    *((f"{split} pairs", "size", 0, (split, "pairs")) for split in ("train", "dev", "test")),
    ("distinct premises", "size", 0, ("all", "premises")),
    *((side, "mean tokens", 1, ("all", side, "mean")) for side in ("premise", "hypothesis")),
    *((side, "longest", 0, ("all", side, "longest")) for side in ("premise", "hypothesis")),
)
_ONTOLOGIES = ("mesh", "umls", "snomed", "wordnet")  # others are named after files
_KNOWN_VARIANTS = ("mednli", "mednli_code", "demo", "demo_full")
_SYSTEMS = {"bow": "BOW", "infersent": "InferSent", "esim": "ESIM"}


def expected(paper: float, deviations: Sequence[float | None], seeds: Sequence[int], paper_seeds: int) -> list[float]:
    """[low, high] in points, see RULE. deviations, seeds: of the run and, in a gain, of its baseline."""
    pairs = zip(deviations, seeds, strict=True)
    variance = sum((USUAL_SD if sd is None else sd) ** 2 * (1 / n + 1 / paper_seeds) for sd, n in pairs)
    half = SLACK + CERTAIN * math.sqrt(variance)
    return [paper - half, paper + half]


def checked(folder: Path) -> dict:
    """The check of a folder that launch/mednli.sh filled, as JSON values.

    Returns
      tables: number -> its cells: row, column, run (its name), paper, ours, low and high (95 %), expected [low, high],
        verdict, remark;
      figure 3: ontology and occurrences {length: concept pairs}, or why there is none;
      table 8: {kind of error: {"pairs", "accuracy" {model: share}}}, or why there is none;
      verdicts: {verdict: number of cells of Tables 2 to 7}; rule; versions; variants: of the configs of the runs.
    Raises: UserError where there is no such folder, or a run is damaged.
    """
    folder = tables.check_folder(folder)
    found = {2: _statistics(folder)}
    found |= {number: _gains(table, folder) for number, table in tables.TABLES.items()}
    verdicts = Counter(cell["verdict"] for cells in found.values() for cell in cells)
    here = environment()
    return {
        "source": tables.published(NAME)["source"],
        "variants": _variants(folder),
        "versions": {"mednli_jax": here["mednli_jax"], "commit": here["commit"]},
        "verdicts": {name: verdicts[name] for name in (PASS, FAIL, NOT_JUDGED, MISSING, NO_FIGURE)},
        "rule": list(RULE),
        "tables": {str(number): cells for number, cells in found.items()},
        "figure 3": _paths(folder),
        "table 8": _kinds(folder),
    }


def _variants(folder) -> list[str]:
    """The variants of MedNLI of a folder's runs. Other names are left out, because they may be those of files."""
    found = {str(read["config"]).rpartition("-")[2] for path in sorted(folder.glob("*/result.json"))
             if not isinstance(read := _read(path, "config"), str)}  # fmt: skip
    return sorted(found & set(_KNOWN_VARIANTS))


def _cell(row, column, paper, **known):
    empty = {"ours": None, "low": None, "high": None, "expected": None, "verdict": MISSING, "remark": ""}
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
        cell = _cell(row, column, printed, expected=[printed - half, printed + half])
        if isinstance(read, str):
            cell["remark"] = read
        else:
            ours = _at({**read["splits"], "all": read["all"]}, way)
            if read["corpus"] != paper["corpus"]:
                verdict, remark = NOT_JUDGED, f"of {read['corpus']}"
            else:
                verdict, remark = PASS if ours is not None and round(ours, decimals) == printed else FAIL, ""
            cell |= {"ours": ours, "verdict": verdict, "remark": remark}
        cells.append(cell)
    return cells


def _at(values, way):
    for name in way:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _gains(table: tables.Table, folder: Path) -> list[dict]:
    """The paper's cells of a table, and the further cells that are shown."""
    known, filled, cells = {cell.run for cell in table.cells}, tables.filled(table, folder), []
    found = {(cell["run"], cell["split"]): cell for cell in filled["cells"] if cell["run"] in known}
    for cell in table.cells:
        ours = found.get((cell.run, cell.split), {"state": "missing"})
        if cell.paper is not None or "ours" in ours:
            cells.append(_judged(cell, ours, filled))
    return cells


def _judged(cell, ours, filled) -> dict:
    paper_seeds = tables.published(NAME)["settings"]["seeds"]
    there, systems = "ours" in ours, 2 if cell.baseline else 1
    deviations = ours["sd"] if there else [None] * systems
    seeds = [ours["seeds"]] * systems if there else [paper_seeds] * systems
    found = _cell(cell.row, cell.column, cell.paper, run=cell.run, remark=ours["state"])
    if cell.paper is not None:
        found["expected"] = expected(cell.paper, deviations, seeds, paper_seeds)
    if not there:
        return found
    remarks = [*[f"of {filled['corpus']}"] * (not filled["comparable"]), *ours["unlike"]]
    found |= {name: ours[name] for name in ("ours", "low", "high")} | {"remark": "; ".join(remarks)}
    if cell.paper is None:
        return {**found, "verdict": NO_FIGURE}
    low, high = found["expected"]
    inside = PASS if low <= ours["ours"] <= high else FAIL
    return {**found, "verdict": NOT_JUDGED if remarks else inside}


def _paths(folder) -> dict | str:
    """Pairs of concepts by the length of the path between them; few pairs are left out."""
    read = _read(folder / PATHS, "corpus", "ontology", "version", "occurrences")
    if isinstance(read, str):
        return read
    counts = {length: n for length, n in read["occurrences"].items() if n >= LEAST}
    ontology = read["ontology"] if read["ontology"] in _ONTOLOGIES else "another ontology"
    return {"corpus": read["corpus"], "ontology": ontology, "occurrences": counts,
            "left out": len(read["occurrences"]) - len(counts)}  # fmt: skip


def _kinds(folder) -> dict | str:
    """Categories of errors of the systems of Table 3; a category with few pairs has no figures."""
    read = _read(folder / KINDS, "categories")
    if isinstance(read, str):
        return read
    runs = {
        title: read["categories"][run]["categories"] for run, title in _SYSTEMS.items() if run in read["categories"]
    }
    if not runs:
        return f"{KINDS} names none of {', '.join(_SYSTEMS)}"
    found = {}
    for kind in CATEGORIES:
        pairs = next(iter(runs.values()))[kind]["pairs"]
        accuracy = {title: kinds[kind]["accuracy"] for title, kinds in runs.items()}
        found[kind] = {"pairs": pairs, "accuracy": accuracy} if pairs >= LEAST else None
    return found


# -- for a reader ------------------------------------------------------------------------------------------------------


def sections(found: dict) -> list[Section]:
    """The check for a page, a terminal and Markdown. found: of `checked`."""
    counts = ", ".join(f"{count} {name}" for name, count in found["verdicts"].items() if count)
    version = " ".join(filter(None, found["versions"].values()))
    variants = f"configs :{', :'.join(found['variants'])}; " if found["variants"] else ""
    shown = [
        Section(
            "Reproduction check",
            [f"cells of Tables 2 to 7: {counts}; {variants}by mednli_jax {version}", *found["rule"]],
        )
    ]
    for number, cells in found["tables"].items():
        title = "key statistics of the corpus" if number == "2" else tables.TABLES[int(number)].title
        shown.append(Section(f"Table {number}: {title}", grids=[_grid(number, cells)]))
    return [*shown, _paths_section(found["figure 3"]), _kinds_section(found["table 8"])]


def _grid(number, cells) -> Grid:
    signed = "+" if int(number) > 3 else ""
    show = _plain if number == "2" else lambda value: figure(value, signed)
    numbered = dict(enumerate(cells))

    def column(words):
        return {n: words(cell) for n, cell in numbered.items()}

    def between(low, high):
        return NO_FIGURE if low is None else f"{show(low)} to {show(high)}"

    columns = (
        ("paper", column(lambda cell: NO_FIGURE if cell["paper"] is None else show(cell["paper"]))),
        ("ours", column(lambda cell: NO_FIGURE if cell["ours"] is None else show(cell["ours"]))),
        ("95 %", column(lambda cell: between(cell["low"], cell["high"]))),
        ("expected", column(lambda cell: between(*(cell["expected"] or (None, None))))),
        ("verdict", column(lambda cell: cell["verdict"])),
        ("remark", column(lambda cell: cell["remark"] or NO_FIGURE)),
    )
    return tables.fill("", ("", ""), {n: (cell["row"], cell["column"]) for n, cell in numbered.items()}, columns)


def _plain(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _paths_section(found) -> Section:
    title = "Figure 3: lengths of the shortest paths between concepts"
    if isinstance(found, str):
        return Section(title, [f"{MISSING}: {found}"])
    lengths = [*sorted(filter(str.isdigit, found["occurrences"]), key=int)]
    lengths += [paths.NO_PATH] * (paths.NO_PATH in found["occurrences"])
    words = [f"{found['corpus']}, {found['ontology']}; the paper prints a picture without figures"]
    if found["left out"]:
        words.append(f"{found['left out']} lengths of fewer than {LEAST} pairs of concepts are left out")
    rows = {length: (length,) for length in lengths}
    counts = {length: f"{found['occurrences'][length]:,}" for length in lengths}
    drawn = paths.chart(found["corpus"], {**found, "version": "", "nearest": {}})
    grid = tables.fill("", ("path",), rows, [("pairs of concepts", counts)])
    return Section(title, words, [grid], [(drawn.title if drawn else "", drawn)])


def _kinds_section(found) -> Section:
    title = "Table 8: kinds of error"
    if isinstance(found, str):
        return Section(title, [f"{MISSING}: {found}"])
    few = f"under {LEAST}"
    models = next((list(kind["accuracy"]) for kind in found.values() if kind), [])
    columns = [("pairs", {name: f"{kind['pairs']:,}" if kind else few for name, kind in found.items()})]
    for model in models:
        cells = {name: points(kind["accuracy"][model]) if kind else NO_FIGURE for name, kind in found.items()}
        columns.append((f"accuracy, {model}", cells))
    words = [
        "kinds by rules over the words of a pair, which may be of several; the paper prints examples and no figure"
    ]
    return Section(title, words, [tables.fill("", ("kind",), {name: (name,) for name in found}, columns)])
