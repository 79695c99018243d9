"""Files of sentence pairs: MedNLI's and SNLI's layout, a user's own, and rows for tests of
readers."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mednli_jax.data.examples import LABELS
from support.files import Content, as_bytes, lines, write

Row = dict[str, Any]

VERBS = {"entailment": "has", "neutral": "may have", "contradiction": "lacks"}
CONDITIONS = ("asthma", "gout", "pneumonia", "anemia", "stroke", "sepsis")
SECRET = "zyzzyva"  # occurs in every premise and passage, and must occur in no output
COMMON = "gout"  # occurs in every premise that `write_shared_premises` writes


# ---- corpora ----


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes JSON lines and makes the folder."""
    write(path, lines(*rows))


def official(
    uid: str, label: str | None, premise: str, hypothesis: str, parsed: bool = True
) -> Row:
    """A row with the fields of MedNLI's and SNLI's files. parsed: whether it has parses."""
    row = {"pairID": uid, "gold_label": label, "sentence1": premise, "sentence2": hypothesis}
    if parsed:
        row["sentence1_binary_parse"] = f"( {premise} )"
        row["sentence2_binary_parse"] = f"( {hypothesis} )"
    return row


def own_pair(split: str, number: int, conditions: Sequence[str]) -> tuple[str, str, str]:
    """(label, premise, hypothesis); the verb decides the label."""
    label = LABELS[number % 3]
    condition = conditions[number % len(conditions)]
    premise = f"{condition} in {split} {number // 3} ."
    return label, premise, f"patient {VERBS[label]} {condition}"


def write_pairs(
    folder: Path,
    sizes: Iterable[tuple[str, int]] = (
        ("train", 48),
        ("dev", 18),
        ("test", 17),
    ),
) -> None:
    """Writes `own_pair`s in MedNLI's official layout; premises have SECRET."""
    for split, size in sizes:
        rows = []
        for number in range(size):
            label, premise, hypothesis = own_pair(split, number, CONDITIONS)
            rows.append(official(f"{split}-{number}", label, f"{SECRET} {premise}", hypothesis))
        write_rows(folder / f"mli_{split}_v1.jsonl", rows)


def write_own_pairs(
    folder: Path,
    conditions: Sequence[str] = CONDITIONS,
    sizes: Iterable[tuple[str, int]] = (
        ("train", 36),
        ("dev", 12),
        ("test", 9),
    ),
) -> set[str]:
    """Writes `own_pair`s as a user's train.jsonl and so on. Returns their words."""
    words: set[str] = set()
    for split, size in sizes:
        rows = []
        for number in range(size):
            label, premise, hypothesis = own_pair(split, number, conditions)
            rows.append({"label": label, "premise": premise, "hypothesis": hypothesis})
            words.update(premise.split(), hypothesis.split())
        write_rows(folder / f"{split}.jsonl", rows)
    return words


def write_own(folder: Path, **splits: Iterable[tuple[str, ...]]) -> None:
    """Writes a user's own corpus: train=((premise, hypothesis[, label]), ...). The uids are train0,
    train1, ..."""
    for split, pairs in splits.items():
        rows = []
        for number, (premise, hypothesis, *label) in enumerate(pairs):
            texts = {"premise": premise, "hypothesis": hypothesis}
            rows.append({**texts, "label": (*label, "neutral")[0], "uid": f"{split}{number}"})
        write_rows(folder / f"{split}.jsonl", rows)


def write_shared_premises(path: Path) -> None:
    """Writes one pair of each label for each of twelve premises; hypotheses of eight premises have
    SECRET, those of all COMMON."""
    rows = []
    for n in range(12):
        denied = SECRET if n < 8 else "joint pain"
        claims = ("has brain injury", f"may have {COMMON}", f"no {denied}")
        for label, claim in zip(LABELS, claims, strict=True):
            uid = f"{path.stem}-{n}-{label}"
            premise = f"{COMMON} of patient {n} ."
            rows.append(official(uid, label, premise, f"patient {claim}", parsed=False))
    write_rows(path, rows)


# ---- rows for tests of readers ----

# occur in these sentences, and must occur in no message
WORDS = ("zebrafish", "quokka", "axolotl", "narwhal", "wombat")
PREMISE = "zebrafish met quokka ."
HYPOTHESIS = "an axolotl ."


def assert_no_words(text: str) -> None:
    assert not [word for word in WORDS if word in text.casefold()]


def pair(n: int, **more: Any) -> Row:
    """A row with the official fields; a field that is ... is left out."""
    row = official(f"p{n}", "neutral", f"{PREMISE[:-1]}{n} .", HYPOTHESIS)
    row |= {"genre": "slate", **more}
    return {name: value for name, value in row.items() if value is not ...}


def pairs(first: int, *rows: Row | Content) -> bytes:
    """JSON lines of a good pair with the number `first`, then of the rows; text and bytes are
    written as they are."""
    lines = (
        row if isinstance(row, bytes | str) else json.dumps(row) for row in (pair(first), *rows)
    )
    return b"".join(as_bytes(line) + b"\n" for line in lines)
