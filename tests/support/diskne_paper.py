"""The data folder that the runs of the DisKnE paper read, in the official layouts, made of the words
of canaries.py."""

import csv
from pathlib import Path

from mednli_jax.diskne.data import CATEGORIES, COLUMNS, PUBLISHED_CATEGORIES
from mednli_jax.nli.corpora import CORPORA
from support.canaries import WORDS
from support.ontology_files import umls_name, umls_relation, umls_type
from support.pair_files import official, write_rows

# All of the paper's tables but one list the first two diseases; none lists the last.
DISEASES = ("heart failure", "coronary atherosclerosis", "pneumonia", "anemia", "asthma")
EACH = 3  # positive examples of each disease in each category
NEGATIVES = {"similar": (1, 2), "random": (2, 3)}  # steps from a disease to its negatives
NAMES = {ours: named for named, ours in reversed(PUBLISHED_CATEGORIES.items())}


def cui(number):
    return f"C{number % len(DISEASES) + 1:07}"


def premise(number):
    return " ".join(WORDS[(5 * number + k) % len(WORDS)] for k in range(5)) + "."


def write_published(data: Path) -> None:
    """Writes mednli/, mediqa_nli/, diskne/, umls/ and vectors/.

    Each disease has positive examples in every category, each with two negatives. The files
    "similar" and "random" of a group have different negatives.
    """
    for folder in ("diskne", "umls", "vectors"):
        (data / folder).mkdir()
    pairs, rows = [], {"medical": [], "terminological": []}
    for category in CATEGORIES:
        for disease in range(len(DISEASES)):
            for _ in range(EACH):
                rows[category if category in rows else "medical"].append(
                    (len(pairs), disease, category)
                )
                text = f"The patient has {DISEASES[disease]}."
                pairs.append(official(f"p-{len(pairs)}", "entailment", premise(len(pairs)), text))
    for group, found in rows.items():
        for kind, steps in NEGATIVES.items():
            write_annotations(data / "diskne" / f"{group}_{kind}_negatives.csv", found, steps)
    tail = pairs[-6:]  # these annotated pairs come from the shared task's test split
    mediqa = CORPORA["mediqa_nli"]
    write_rows(
        data / "mediqa_nli" / mediqa.files["test"], [{**pair, "gold_label": None} for pair in tail]
    )
    truth = "".join(f"{pair['pairID']},entailment\n" for pair in tail)
    (data / "mediqa_nli" / mediqa.ground_truth).write_text("pair_id,label\n" + truth)
    for place, file in enumerate(CORPORA["mednli"].files.values()):
        write_rows(data / "mednli" / file, pairs[:-6][place::3])
    names = (
        umls_name(cui(n), name, preferred=True, CODE=str(n)) for n, name in enumerate(DISEASES)
    )
    (data / "umls" / "MRCONSO.RRF").write_text("".join(names))
    (data / "umls" / "MRSTY.RRF").write_text("".join(umls_type(cui(n), "T047") for n in range(5)))
    (data / "umls" / "MRREL.RRF").write_text(umls_relation(cui(4), "PAR", cui(2), "inverse_isa"))
    vectors = (f"{word}{f' {n % 7 / 7}' * 8}\n" for n, word in enumerate((*WORDS, "heart")))
    (data / "vectors" / "glove.840B.300d.txt").write_text("".join(vectors))


def write_annotations(path, examples, steps):
    """Writes a file of the published annotations. examples: (number of the pair, disease, category)."""
    rows = [(*COLUMNS, "category")]
    start = len("The patient has ")
    for number, disease, category in examples:
        own, kind = cui(disease), NAMES.get(category, "")
        end = start + len(DISEASES[disease])
        rows.append((f"p-{number}", own, "entailment", own, start, end, kind))
        rows += [
            (f"p-{number},ng", cui(disease + step), "non-entailment", own, "", "", kind)
            for step in steps
        ]
    width = len(COLUMNS) + ("medical" in path.name)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(row[:width] for row in rows)
