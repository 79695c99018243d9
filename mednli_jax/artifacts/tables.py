"""The analyses of Herlihy & Rudinger 2021 (MedNLI Is Not Immune) of sentence pairs, and its Tables
1 to 6 beside our figures.

The tables read a folder that `reproduce artifacts` filled.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from mednli_jax.artifacts.aflite import difficulty, features_text
from mednli_jax.artifacts.heuristics import heuristics, tested_cells
from mednli_jax.artifacts.hypotheses import hypothesis_lengths, tokens
from mednli_jax.artifacts.runs import (
    FILTERED,
    HYPOTHESIS,
    INPUTS,
    NAME,
    PARTITIONS,
    RUNS,
    SPLITS,
    PartitionScores,
)
from mednli_jax.data.examples import LABELS
from mednli_jax.errors import RunError
from mednli_jax.report.metrics import majority_share
from mednli_jax.report.options import PaperAnalyses, PaperTable, Read, TableOptions
from mednli_jax.report.sections import Grid, Report, Section
from mednli_jax.report.tables import (
    check_folder,
    differences_from_paper,
    heading,
    published_figures,
)
from mednli_jax.rundir import RunDirectory, RunResult, read_json
from mednli_jax.types import Json

PAPER = published_figures(NAME)
FIGURES = PAPER["tables"]
CLASSIFIERS = ("majority", "fastText")


class Filled(NamedTuple):
    """A filled table, with the corpus of our figures. The grid's caption is its title without its
    number."""

    corpus: str
    grid: Grid


def fill_tables(folder: Path, options: TableOptions) -> Report:
    """Fills the tables whose runs and analyses are in the folder; names the others."""
    folder = check_folder(folder)
    grids, words = [], []
    for number, fill in enumerate(TABLES, start=1):
        try:
            corpus, grid = fill(folder)
        except RunError as error:
            words.append(f"Table {number}: {error}")
        else:
            elsewhere = "" if corpus == PAPER["corpus"] else corpus
            caption = heading(number, grid.caption, elsewhere, "MedNLI")
            grids.append(replace(grid, caption=caption))
    words += _remarks(folder, options.read)
    figures = {grid.caption: [grid.header, *grid.rows] for grid in grids}
    title = f"Artefacts of annotation ({PAPER['source']}); the paper's figures in brackets"
    runs = [folder / name for name in RUNS]
    section = Section(title, words, grids, lead=_summary(folder))
    return Report(figures, [section], runs=runs)


def _summary(folder: Path) -> str:
    """A sentence with the test accuracy of the hypothesis alone, beside the paper's; "" without its
    run."""
    if not (folder / HYPOTHESIS.name / "result.json").is_file():
        return ""
    shares = _shares(_result(folder)["test"])
    majority, fasttext = (row["test"] for row in FIGURES["1"].values())
    return (
        f"On test the hypothesis alone gives {shares['fastText']:.1f} %, the most frequent class "
        f"{shares['majority']:.1f} % (in the paper {fasttext} and {majority})"
    )


def _remarks(folder: Path, read: Read) -> Iterator[str]:
    """Yields remarks: the features of the filterings, and the differences of the runs from the
    paper's."""
    for name, file in FILTERED.items():
        if (folder / file).is_file():
            values = read_json(folder / file, "features", "merged_by")
            features = features_text(values["features"], values["merged_by"])
            yield f"Filtering, {INPUTS[name]}: {features}."
    for name, run in RUNS.items():
        is_run = (folder / name / "config.json").is_file()
        if is_run and (remarks := differences_from_paper(folder / name, read, run)):
            yield f"The run `{name}` is unlike the paper's: {'; '.join(remarks)}."


# -- Tables 1, 2 and 6: the classifiers ------------------------------------------------------------


def _result(folder: Path) -> RunResult:
    return RunDirectory(folder / HYPOTHESIS.name).result()


def _shares(scores: Mapping[str, Json]) -> dict[str, float]:
    """The share of the most frequent class, and the accuracy, in %."""
    majority, accuracy = majority_share(scores["per_class"]), scores["accuracy"]["mean"]
    return {"majority": 100 * majority, "fastText": 100 * accuracy}


def _accuracies(folder: Path) -> Filled:
    """Table 1."""
    result = _result(folder)
    rows: list[tuple[str, ...]] = []
    for classifier, row in zip(CLASSIFIERS, FIGURES["1"], strict=True):
        cells = []
        for split in SPLITS:
            share = _shares(result[split])[classifier]
            cells.append(f"{share:.1f} ({FIGURES['1'][row][split]})")
        rows.append((row, *cells))
    caption = "hypothesis only, accuracy (micro F1) in %"
    return Filled(result["corpus"], Grid(caption, ("", *SPLITS), rows))


def _confusion(folder: Path) -> Filled:
    """Table 2."""
    result = _result(folder)
    scores = result["test"]
    seeds = len(scores["accuracy"]["per_seed"])
    rows: list[tuple[str, ...]] = []
    for gold, ours, paper in zip(LABELS, scores["confusion"], FIGURES["2"], strict=True):
        cells = [f"{n / seeds:.0f} ({theirs})" for n, theirs in zip(ours, paper, strict=True)]
        rows.append((gold, *cells))
    caption = "its confusion on test; rows are gold, columns predicted; mean of the seeds"
    return Filled(result["corpus"], Grid(caption, ("", *LABELS), rows))


def _partitions(folder: Path) -> Filled:
    """Table 6."""
    scores_of = {}
    for name, file in PARTITIONS.items():
        scores_of[name] = read_json(folder / file, "partitions", "accuracy", "corpus")
    rows: list[tuple[str, ...]] = []
    for input_name, title in INPUTS.items():
        for classifier in CLASSIFIERS:
            for split in SPLITS:
                scores = scores_of[PartitionScores(input_name, split)]
                partitions = scores["partitions"]
                scores_of_cells = (scores, partitions["easy"], partitions["difficult"])
                ours = [_accuracy_cell(cell, classifier) for cell in scores_of_cells]
                paper = map(str, FIGURES["6"][input_name][classifier][split])
                rows.append((title, classifier, split, *ours, *paper))
    texts = sorted({scores.get("merged_by", "") for scores in scores_of.values()})
    text = " and ".join(f"entities of {by} merged" if by else "raw text" for by in texts)
    caption = (
        f"the same and with the premise, by partition, %, {text}; majority: the most frequent "
        "class of each"
    )
    columns = ("full (pairs)", "easy (pairs)", "difficult (pairs)")
    paper_columns = ("paper, full", "paper, easy", "paper, difficult")
    header = ("input", "model", "split", *columns, *paper_columns)
    grid = Grid(caption, header, rows, left=3)
    return Filled(next(iter(scores_of.values()))["corpus"], grid)


def _accuracy_cell(scores: Mapping[str, Json], classifier: str) -> str:
    if not scores["examples"]:
        return "- (0)"
    return f"{_shares(scores)[classifier]:.1f} ({scores['examples']:,})"


# -- Tables 3 to 5: the analyses -------------------------------------------------------------------


def _tokens(folder: Path) -> Filled:
    """Table 3. The tokens of a corpus that is not open are in the private file alone."""
    path = folder / "analysis" / "lexical.json"
    values = read_json(path, "corpus")
    if "top" not in values:
        private = path.parent / "private" / "lexical.txt"
        raise RunError(
            f"the tokens of a corpus that is not open are in {private} alone",
            fix="analyze lexical --public shows those of at least 10 premises",
        )
    is_papers = values["corpus"] == PAPER["corpus"]
    columns: list[list[str]] = []
    header = ["rank"]
    for label, rows in values["top"].items():
        header.append(f"{label} (% of its pairs)")
        columns.append([f"{row['token']} {100 * row['share']:.2f}" for row in rows])
        if is_papers:
            header.append("paper")
            columns.append([f"{token} {share:.2f}" for token, share in FIGURES["3"][label]])
    ranked = enumerate(zip_longest(*columns, fillvalue=""), start=1)
    cells = [(str(rank), *row) for rank, row in ranked]
    caption = "tokens of the highest PMI with a class"
    return Filled(values["corpus"], Grid(caption, tuple(header), cells, left=len(header)))


def _lengths(folder: Path) -> Filled:
    """Table 4."""
    values = read_json(folder / "analysis" / "lengths.json", "corpus", "separate", "merged")
    rows: list[tuple[str, ...]] = []
    for kind in ("separate", "merged"):
        cells = []
        for label, lengths in values[kind]["classes"].items():
            mean, median = FIGURES["4"][kind][label]
            cells += [f"{lengths['mean']:.1f} ({mean})", f"{lengths['median']:.1f} ({median})"]
        rows.append((f"entities {kind}", *cells))
    header = [""]
    for label in values["separate"]["classes"]:
        header += [f"{label}, mean", "median"]
    caption = "length of hypotheses in tokens"
    return Filled(values["corpus"], Grid(caption, tuple(header), rows))


def _heuristics(folder: Path) -> Filled:
    """Table 5."""
    values = read_json(folder / "analysis" / "heuristics.json", "corpus", "heuristics")
    rows = []
    for name, ours in values["heuristics"].items():
        tested = tested_cells(ours) if ours["top"] else ("-",) * 4
        rows.append((name, *map("{} ({})".format, tested, tested_cells(FIGURES["5"][name]))))
    header = ("heuristic", "chi-square", "p", "top class", "% of it")
    return Filled(values["corpus"], Grid("heuristics of annotators", header, rows))


TABLES = (_accuracies, _confusion, _tokens, _lengths, _heuristics, _partitions)


# -- for the commands ------------------------------------------------------------------------------


ANALYSES = PaperAnalyses(
    analyses={
        "lexical": tokens,
        "lengths": hypothesis_lengths,
        "heuristics": heuristics,
        "aflite": difficulty,
    },
    # Table 2 counts single pairs, and Table 6 small partitions.
    tables={NAME: PaperTable(fill_tables, PAPER["source"], shareable=False)},
)
