"""The data folder that the runs of the DisKnE paper read, in the official layouts, made of the
words of canaries.py."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mednli_jax.diskne.data import CATEGORIES, COLUMNS, PUBLISHED_CATEGORIES
from mednli_jax.nli.read.corpora import CORPORA
from support.canaries import WORDS, phrase
from support.files import lay_out
from support.ontology_files import umls_name, umls_relation, umls_type
from support.pair_files import Row, official, write_rows

# All of the paper's tables but one list the first two diseases; none lists the last.
DISEASES = ("heart failure", "coronary atherosclerosis", "pneumonia", "anemia", "asthma")
EACH = 3  # positive examples of each disease in each category
NEGATIVES = {"similar": (1, 2), "random": (2, 3)}  # steps from a disease to its negatives
NAMES = {ours: named for named, ours in reversed(PUBLISHED_CATEGORIES.items())}
START = "The patient has "  # of each hypothesis


class Positive(NamedTuple):
    uid: str
    disease: int
    category: str


def cui(number: int) -> str:
    return f"C{number % len(DISEASES) + 1:07}"


def premise(number: int) -> str:
    return f"{phrase(WORDS, 5 * number, 5)}."


def write_published(data: Path) -> None:
    """Writes mednli/, mediqa_nli/, diskne/, umls/ and vectors/.

    Each disease has positive examples in every category, each with two negatives. The files
    "similar" and "random" of a group have different negatives.
    """
    pairs: list[Row] = []
    groups: dict[str, list[Positive]] = {"medical": [], "terminological": []}
    for category in CATEGORIES:
        group = category if category in groups else "medical"
        for disease, name in enumerate(DISEASES):
            for _ in range(EACH):
                uid = f"p-{len(pairs)}"
                groups[group].append(Positive(uid, disease, category))
                texts = premise(len(pairs)), f"{START}{name}."
                pairs.append(official(uid, "entailment", *texts))
    (data / "diskne").mkdir()
    for group, positives in groups.items():
        for kind, steps in NEGATIVES.items():
            path = data / "diskne" / f"{group}_{kind}_negatives.csv"
            write_annotations(path, positives, steps)
    write_sentence_pairs(data, pairs)
    write_knowledge(data)


def write_annotations(path: Path, positives: Sequence[Positive], steps: Sequence[int]) -> None:
    """Writes a file of the published annotations. steps: from a disease to its negatives."""
    rows: list[tuple[object, ...]] = [(*COLUMNS, "category")]
    for uid, disease, category in positives:
        own = cui(disease)
        kind = NAMES.get(category, "")
        end = len(START) + len(DISEASES[disease])
        rows.append((uid, own, "entailment", own, len(START), end, kind))
        for step in steps:
            rows.append((f"{uid},ng", cui(disease + step), "non-entailment", own, "", "", kind))
    width = len(COLUMNS) + ("medical" in path.name)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(row[:width] for row in rows)


def write_sentence_pairs(data: Path, pairs: Sequence[Row]) -> None:
    """Writes the pairs as MedNLI; the last six come from the shared task's test split."""
    mediqa = CORPORA["mediqa_nli"]
    folder = data / "mediqa_nli"
    shared = [{**pair, "gold_label": None} for pair in pairs[-6:]]
    write_rows(folder / mediqa.files["test"], shared)
    truth = [f"{pair['pairID']},entailment\n" for pair in shared]
    (folder / mediqa.ground_truth).write_text("".join(["pair_id,label\n", *truth]))
    for number, file in enumerate(CORPORA["mednli"].files.values()):
        write_rows(data / "mednli" / file, pairs[:-6][number::3])


def write_knowledge(data: Path) -> None:
    """Writes umls/ and vectors/."""
    names = ""
    types = ""
    vectors = ""
    for n, name in enumerate(DISEASES):
        names += umls_name(cui(n), name, preferred=True, CODE=str(n))
        types += umls_type(cui(n), "T047")
    relations = umls_relation(cui(4), "PAR", cui(2), "inverse_isa")
    lay_out(data / "umls", {"MRCONSO.RRF": names, "MRSTY.RRF": types, "MRREL.RRF": relations})
    for n, word in enumerate((*WORDS, "heart")):
        vectors += f"{word}{f' {n % 7 / 7}' * 8}\n"
    lay_out(data / "vectors", {"glove.840B.300d.txt": vectors})
