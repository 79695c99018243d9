"""Tables 1, 2 and 6 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune) in Markdown: the paper's figures beside ours.

Ours come from a folder as launch/artifacts_tables.sh fills it: the runs `hypothesis` and `pair`, and what `evaluate
--json` says of them by partition, as partition-INPUT-SPLIT.json.
"""

from collections.abc import Iterator
from pathlib import Path

from mednli_jax.examples import LABELS
from mednli_jax.metrics import majority_share
from mednli_jax.runs import read_json

SPLITS = ("dev", "test")
INPUTS = {"hypothesis": "no premise", "pair": "with premise"}
PARTS = ("full", "easy", "difficult")
PAPER_MAJORITY = {"dev": 33.3, "test": 33.3}
PAPER_FASTTEXT = {"dev": 64.8, "test": 62.6}
PAPER_CONFUSION = ((255, 151, 68), (126, 290, 58), (69, 60, 345))
# Input, row, split -> full, easy, difficult, in per cent.
PAPER_PARTITIONS = {
    ("hypothesis", "majority", "dev"): (33, 34, 35),
    ("hypothesis", "majority", "test"): (33, 35, 37),
    ("hypothesis", "fastText", "dev"): (65, 67, 46),
    ("hypothesis", "fastText", "test"): (63, 65, 40),
    ("pair", "majority", "dev"): (33, 45, 36),
    ("pair", "majority", "test"): (33, 48, 37),
    ("pair", "fastText", "dev"): (53, 60, 43),
    ("pair", "fastText", "test"): (51, 55, 40),
}


def lines(folder: Path) -> Iterator[str]:
    """The three tables. Raises: UserError where a file of the folder is missing or damaged."""
    folder = Path(folder)
    result = read_json(folder / "hypothesis" / "result.json", "corpus", *SPLITS)
    yield f"Table 1: hypothesis only, accuracy (micro F1) in %, {result['corpus']}; the paper's MedNLI in brackets"
    yield ""
    yield from _rows(
        ("", *SPLITS),
        [
            ("majority class", *(f"{_majority(result[s]):.1f} ({PAPER_MAJORITY[s]})" for s in SPLITS)),
            ("fastText", *(f"{_accuracy(result[s]):.1f} ({PAPER_FASTTEXT[s]})" for s in SPLITS)),
        ],
    )
    yield ""
    yield "Table 2: its confusion on test; rows are gold, columns predicted; mean of the seeds"
    yield ""
    counts, seeds = result["test"]["confusion"], len(result["test"]["accuracy"]["per_seed"])
    yield from _rows(
        ("", *LABELS),
        [
            (label, *(f"{n / seeds:.0f} ({theirs})" for n, theirs in zip(row, paper, strict=True)))
            for label, row, paper in zip(LABELS, counts, PAPER_CONFUSION, strict=True)
        ],
    )
    yield ""
    yield "Table 6: the same and with the premise, by partition, %; majority: the partition's most frequent class"
    yield ""
    header = ("input", "model", "split", *(f"{part} (pairs)" for part in PARTS), *(f"paper, {part}" for part in PARTS))
    yield from _rows(header, list(_partition_rows(folder)))


def _partition_rows(folder):
    for name, title in INPUTS.items():
        for row in ("majority", "fastText"):
            for split in SPLITS:
                found = read_json(folder / f"partition-{name}-{split}.json", "partitions", "accuracy")
                cells = [_cell(row, found), *(_cell(row, found["partitions"][part]) for part in PARTS[1:])]
                paper = map(str, PAPER_PARTITIONS[name, row, split])
                yield (title, row, split, *cells, *paper)


def _cell(row, scores):
    if not scores["examples"]:
        return "- (0)"
    share = _majority(scores) if row == "majority" else _accuracy(scores)
    return f"{share:.1f} ({scores['examples']:,})"


def _majority(scores):
    return 100 * majority_share(scores["per_class"])


def _accuracy(scores):
    return 100 * scores["accuracy"]["mean"]


def _rows(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|" + " --- |" * len(header)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
