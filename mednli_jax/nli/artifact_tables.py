"""Tables 1, 2 and 6 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune) in Markdown: the paper's figures beside ours.

Ours come from a folder as launch/artifacts.sh fills it: the runs `hypothesis` and `pair`, and what `evaluate
--json` says of them by partition, as partition-INPUT-SPLIT.json.
"""

from collections.abc import Iterator
from pathlib import Path

from mednli_jax.data.examples import LABELS
from mednli_jax.report.departures import unlike
from mednli_jax.report.metrics import majority_share
from mednli_jax.report.runs import read_json
from mednli_jax.report.sections import Grid, markdown
from mednli_jax.report.tables import fill, published

SPLITS = ("dev", "test")
INPUTS = {"hypothesis": "no premise", "pair": "with premise"}
PARTS = ("full", "easy", "difficult")


def lines(folder: Path) -> Iterator[str]:
    """The three tables. Raises: RunError where a file of the folder is missing or damaged."""
    folder, paper = Path(folder), published("artifacts")["tables"]
    result = read_json(folder / "hypothesis" / "result.json", "corpus", *SPLITS)
    for number, grid in enumerate((_accuracies(result, paper["1"]), _confusion(result, paper["2"]))):
        yield from [""] * bool(number)
        yield from markdown(grid)
    yield ""
    yield from markdown(_partitions(folder, paper["6"]))
    yield from ("", _averages(published("artifacts")))
    for name in INPUTS:
        if (folder / name / "config.json").is_file() and (words := unlike(folder / name, published("artifacts"))):
            yield f"The run `{name}` is unlike the paper's: {'; '.join(words)}."


def _averages(paper) -> str:
    """That the paper's parts, weighted by their pairs, do not average to its full sets."""
    sizes, given = paper["partition_splits"]["hypothesis"], paper["tables"]["6"]["hypothesis"]["fastText"]
    each = []
    for split, (easy, difficult) in sizes.items():
        full, *parts = given[split]
        mean = (parts[0] * easy + parts[1] * difficult) / (easy + difficult)
        each.append(f"{split} {mean:.0f}, not {full}")
    figures = f"({INPUTS['hypothesis']}, fastText: {'; '.join(each)})"
    return (
        f"The paper's parts do not average to its full sets {figures}: the parts are of merged text, the full sets of "
        "raw text."
    )


def _accuracies(result, paper) -> Grid:
    ours = {"majority class": _majority, "fastText": _accuracy}
    columns = [
        (split, {row: f"{share(result[split]):.1f} ({paper[row][split]})" for row, share in ours.items()})
        for split in SPLITS
    ]
    caption = f"Table 1: hypothesis only, accuracy (micro F1) in %, {result['corpus']}; the paper's MedNLI in brackets"
    return fill(caption, ("",), {row: (row,) for row in ours}, columns)


def _confusion(result, paper) -> Grid:
    counts, seeds = result["test"]["confusion"], len(result["test"]["accuracy"]["per_seed"])
    columns = [
        (predicted, {gold: f"{counts[g][s] / seeds:.0f} ({paper[g][s]})" for g, gold in enumerate(LABELS)})
        for s, predicted in enumerate(LABELS)
    ]
    caption = "Table 2: its confusion on test; rows are gold, columns predicted; mean of the seeds"
    return fill(caption, ("",), {label: (label,) for label in LABELS}, columns)


def _partitions(folder, paper) -> Grid:
    rows, ours, theirs, texts = {}, {part: {} for part in PARTS}, {part: {} for part in PARTS}, set()
    shares = {"majority": _majority, "fastText": _accuracy}
    for name, title in INPUTS.items():
        read = {s: read_json(folder / f"partition-{name}-{s}.json", "partitions", "accuracy") for s in SPLITS}
        texts |= {found.get("merged_by", "") for found in read.values()}
        for row, share in shares.items():
            for split, found in read.items():
                rows[key := (name, row, split)] = (title, row, split)
                for number, part in enumerate(PARTS):
                    ours[part][key] = _cell(share, found["partitions"][part] if number else found)
                    theirs[part][key] = str(paper[name][row][split][number])
    columns = [(f"{part} (pairs)", of) for part, of in ours.items()]
    columns += [(f"paper, {part}", of) for part, of in theirs.items()]
    text = " and ".join(f"entities of {by} merged" if by else "raw text" for by in sorted(texts))
    caption = (
        f"Table 6: the same and with the premise, by partition, %, {text}; majority: the most frequent class of each"
    )
    return fill(caption, ("input", "model", "split"), rows, columns)


def _cell(share, scores):
    return f"{share(scores):.1f} ({scores['examples']:,})" if scores["examples"] else "- (0)"


def _majority(scores):
    return 100 * majority_share(scores["per_class"])


def _accuracy(scores):
    return 100 * scores["accuracy"]["mean"]
