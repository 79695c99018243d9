"""Tables 1, 2 and 6 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune), beside our figures.

They read a folder that launch/artifacts.sh filled.
"""

from collections.abc import Iterator
from pathlib import Path

from mednli_jax.artifacts.aflite import features_text
from mednli_jax.artifacts.runs import RUNS
from mednli_jax.data.examples import LABELS
from mednli_jax.report.metrics import majority_share
from mednli_jax.report.options import TableOptions
from mednli_jax.report.sections import Grid, Report, Section, markdown
from mednli_jax.report.tables import Read, check_folder, published, unlike
from mednli_jax.rundir import read_json

NAME = "artifacts"
SPLITS = ("dev", "test")
INPUTS = {"hypothesis": "no premise", "pair": "with premise"}
PARTS = ("full", "easy", "difficult")
FILTERED = {"hypothesis": "analysis/aflite.json", "pair": "analysis-pair/aflite.json"}


def filled(folder: Path, options: TableOptions) -> Report:
    """The three tables, for `report --table`."""
    folder = check_folder(folder)
    grids = _grids(folder)
    words = [*_remarks(folder, options.read)]
    figures = {grid.caption: [grid.header, *grid.rows] for grid in grids}
    section = Section(f"Tables 1, 2 and 6 ({published(NAME)['source']})", words, grids)
    return Report(figures, [section], runs=[folder / name for name in RUNS])


def artifact_lines(folder: Path, read: Read) -> Iterator[str]:
    """The three tables in Markdown."""
    folder = Path(folder)
    for grid in _grids(folder):
        yield from markdown(grid)
        yield ""
    yield from _remarks(folder, read)


def _grids(folder: Path) -> list[Grid]:
    paper = published(NAME)["tables"]
    result = read_json(folder / "hypothesis" / "result.json", "corpus", *SPLITS)
    return [
        _accuracies(result, paper["1"]),
        _confusion(result["test"], paper["2"]),
        _partitions(folder, paper["6"]),
    ]


def _remarks(folder: Path, read: Read) -> Iterator[str]:
    """The features of the filterings, and how the runs differ from the paper's."""
    for name, place in FILTERED.items():
        if (folder / place).is_file():
            given = read_json(folder / place, "features", "merged_by")
            yield f"Filtering, {INPUTS[name]}: {features_text(given['features'], given['merged_by'])}."
    for name in INPUTS:
        if (folder / name / "config.json").is_file() and (
            words := unlike(folder / name, read, RUNS[name])
        ):
            yield f"The run `{name}` is unlike the paper's: {'; '.join(words)}."


def _shares(scores) -> tuple[float, float]:
    """The share of the most frequent class, and the accuracy, in %."""
    return 100 * majority_share(scores["per_class"]), 100 * scores["accuracy"]["mean"]


def _accuracies(result, paper) -> Grid:
    rows = [
        (row, *(f"{_shares(result[split])[place]:.1f} ({paper[row][split]})" for split in SPLITS))
        for place, row in enumerate(("majority class", "fastText"))
    ]
    caption = f"Table 1: hypothesis only, accuracy (micro F1) in %, {result['corpus']}; the paper's MedNLI in brackets"
    return Grid(caption, ("", *SPLITS), rows)


def _confusion(scores, paper) -> Grid:
    seeds, rows = len(scores["accuracy"]["per_seed"]), []
    for gold, ours, theirs in zip(LABELS, scores["confusion"], paper, strict=True):
        rows.append(
            (
                gold,
                *(
                    f"{n / seeds:.0f} ({published})"
                    for n, published in zip(ours, theirs, strict=True)
                ),
            )
        )
    caption = "Table 2: its confusion on test; rows are gold, columns predicted; mean of the seeds"
    return Grid(caption, ("", *LABELS), rows)


def _partitions(folder, paper) -> Grid:
    rows, texts = [], set()
    for name, title in INPUTS.items():
        read = {
            s: read_json(folder / f"partition-{name}-{s}.json", "partitions", "accuracy")
            for s in SPLITS
        }
        texts |= {found.get("merged_by", "") for found in read.values()}
        for place, row in enumerate(("majority", "fastText")):
            for split, found in read.items():
                parts = found, *(found["partitions"][part] for part in PARTS[1:])
                ours = (
                    f"{_shares(of)[place]:.1f} ({of['examples']:,})" if of["examples"] else "- (0)"
                    for of in parts
                )
                rows.append((title, row, split, *ours, *map(str, paper[name][row][split])))
    text = " and ".join(f"entities of {by} merged" if by else "raw text" for by in sorted(texts))
    caption = f"Table 6: the same and with the premise, by partition, %, {text}; majority: the most frequent class of each"
    columns = *(f"{part} (pairs)" for part in PARTS), *(f"paper, {part}" for part in PARTS)
    return Grid(caption, ("input", "model", "split", *columns), rows, left=3)
