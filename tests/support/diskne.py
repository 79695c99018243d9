"""A small DisKnE: a terminology, sentence pairs, annotation files, and a benchmark of seven
diseases.
"""

import csv
import random

from mednli_jax.data.examples import NLIExample
from mednli_jax.data.text import treebank_tokens
from mednli_jax.diskne import builder
from mednli_jax.diskne import data as files
from mednli_jax.diskne.data import Positive
from mednli_jax.knowledge.ontology import Ontology
from support.ontologies import is_a_matrix
from support.pair_files import official, write_rows

SECRET = "quokka"
# Each row: id, preferred name, synonyms, type. In the is-a graph MI and angina are heart diseases,
# and STEMI is an MI.
CONCEPTS = (
    ("C01", "Heart Diseases", ("cardiac disease",), "T047"),
    ("C02", "Myocardial Infarction", ("heart attack", "MI"), "T047"),
    ("C03", "STEMI", ("ST elevation myocardial infarction",), "T047"),
    ("C04", "Angina Pectoris", ("angina",), "T047"),
    ("C05", "Urinary Tract Infection", ("UTI",), "T047"),
    ("C06", "Pneumonia", ("lung infection",), "T047"),
    ("C07", "Asthma", (), "T047"),
    ("S01", "Cough", (), "T184"),
    ("D01", "Aspirin", (), "T121"),
    ("P01", "Coronary Stent", ("stent",), "T061"),
    ("X01", "Electrocardiogram", ("EKG",), "T060"),
)
EDGES = ((1, 0), (2, 1), (3, 0))


def ontology(order=None):
    order = list(order or range(len(CONCEPTS)))
    place = {old: new for new, old in enumerate(order)}
    rows = [CONCEPTS[at] for at in order]
    return Ontology(
        "umls",
        "made up",
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        tuple((name, at) for at, row in enumerate(rows) for name in (row[1], *row[2])),
        is_a_matrix([(place[child], place[parent]) for child, parent in EDGES], len(rows)),
        "digest",
        types=tuple(row[3] for row in rows),
        abbreviations=frozenset({"MI", "UTI"}),
    )


def pair(uid, premise, hypothesis, label="entailment"):
    tokens = treebank_tokens(premise), treebank_tokens(hypothesis)
    return NLIExample(uid, premise, hypothesis, label, *tokens)


PAIRS = (
    pair("a", "Pt w/ crushing chest pain.", "The patient has a heart attack."),
    pair("b", "Tropl 6.8, ST segments up.", "Patient has an MI"),
    pair("c", "Dysuria today.", "The patient has a UTI."),
    pair("d", "Family history taken; burning on voiding.", "Urinary tract infection"),
    pair("e", "Cough, MI in the past.", "The patient has pneumonia"),
    pair("f", "Fever and consolidation.", "The patient has a lung infection."),
    pair("g", "Wheezing.", "The patient has asthma."),
    pair("h", "Feels well.", "The patient has pneumonia.", "neutral"),
)


def positive(uid, concept, words, category="symptoms", pairs=PAIRS):
    found = next(one for one in pairs if one.uid == uid)
    start = found.hypothesis.index(words)
    return Positive(found, concept, category, start, start + len(words))


def claim(uid, premise, concept, category="tests"):
    """A positive example whose hypothesis is "Patient has NAME."."""
    name = next(row[1] for row in CONCEPTS if row[0] == concept).lower()
    start = len("Patient has ")
    return Positive(
        pair(uid, premise, f"Patient has {name}."), concept, category, start, start + len(name)
    )


MEDICAL = ("pair_id", "CUI", "label", "category", "original_cui", "start_index", "end_index")
ROWS = (
    ("a", "C02", "entailment", "symptoms_diseases", "C02", "18", "30"),
    ("a,ng", "C04", "non-entailment", "symptoms_diseases", "C02", "", ""),
    ("a,ng", "C06", "non-entailment", "symptoms_diseases", "C02", "", ""),
    ("b", "C02", "entailment", "symptoms_diseases", "C02", "15", "17"),
    ("b,ng", "C06", "non-entailment", "symptoms_diseases", "C02", "", ""),
    ("b,ng", "C06", "non-entailment", "tests_diseases", "C02", "", ""),
    ("c", "C05", "entailment", "symptoms_diseases", "C05", "18", "21"),
    ("c,ng", "C02", "non-entailment", "symptoms_diseases", "C05", "", ""),
    ("d", "C05", "entailment", "symptoms_diseases", "C05", "0", "23"),
    ("d,ng", "C06", "non-entailment", "symptoms_diseases", "C05", "", ""),
    ("e", "C06", "entailment", "symptoms_diseases", "C06", "16", "25"),
    ("e,ng", "C05", "non-entailment", "symptoms_diseases", "C06", "", ""),
    ("f", "C06", "entailment", "treatments_diseases", "C06", "18", "32"),
    ("f,ng", "C05", "non-entailment", "treatments_diseases", "C06", "", ""),
)


def write_annotations(path, rows=ROWS, header=MEDICAL):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return path


def write_mednli(folder):
    """Writes PAIRS as a data folder's mednli/."""
    for number, split in enumerate(("train", "dev", "test")):
        rows = (
            official(one.uid, one.label, one.premise, one.hypothesis, parsed=False)
            for one in PAIRS[number::3]
        )
        write_rows(folder / "mednli" / f"mli_{split}_v1.jsonl", rows)
    return folder


def read(path, pairs=PAIRS, **options):
    return files.read_published([path], pairs, options.pop("ontology", ontology()), **options)


def seven_diseases(seed=0, wording="name"):
    """A benchmark of 7 diseases with 6 positives each; some premises are shared, and some name
    other diseases."""
    rng = random.Random(seed)
    names = [row[1].lower() for row in CONCEPTS[:7]]
    positives = []
    for number in range(42):
        mention = f" {rng.choice(names)} before" if number % 5 == 0 else ""
        text = f"finding {number if number % 4 else number + 1} today{mention}"
        category = ("symptoms", "tests", "terminological")[number % 3]
        positives.append(claim(f"p{number:02}", text, CONCEPTS[number % 7][0], category))
    return assemble(positives, wording)


def assemble(positives, wording="name"):
    diseases = sorted({one.disease for one in positives})
    kinship = builder.Kinship(ontology())
    made_up = builder.negatives(positives, builder.shuffled(3), kinship, 4)
    return files.assembled(
        "made up", positives, made_up, *files.disease_names(ontology(), diseases), wording, {}
    )
