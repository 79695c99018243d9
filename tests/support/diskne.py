"""A small DisKnE: a terminology, sentence pairs, annotation files, and a benchmark of seven
diseases."""

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mednli_jax.data.examples import NLIExample
from mednli_jax.data.text import treebank_tokens
from mednli_jax.diskne import data as files
from mednli_jax.diskne.data import Benchmark, Positive
from mednli_jax.diskne.negatives import Kinship, negatives_of, rank_randomly
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.nli.read.corpora import CORPORA
from support.ontologies import is_a_matrix
from support.pair_files import official, write_rows

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
NAME_OF = {concept: name.lower() for concept, name, _, _ in CONCEPTS}


def ontology(order: Iterable[int] | None = None) -> Ontology:
    """The terminology of CONCEPTS. order: of its concepts, if it is another."""
    order = list(order or range(len(CONCEPTS)))
    rows = [CONCEPTS[index] for index in order]
    ids, labels, synonyms, types = zip(*rows, strict=True)
    names = []
    for index, label in enumerate(labels):
        names += [(name, index) for name in (label, *synonyms[index])]
    edges = [(order.index(child), order.index(parent)) for child, parent in EDGES]
    return Ontology(
        "umls",
        "made up",
        ids,
        labels,
        tuple(names),
        is_a_matrix(edges, len(rows)),
        "digest",
        types=types,
        abbreviations=frozenset({"MI", "UTI"}),
    )


def pair(uid: str, premise: str, hypothesis: str, label: str = "entailment") -> NLIExample:
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


# ---- files ----

MEDICAL = ("pair_id", "CUI", "label", "category", "original_cui", "start_index", "end_index")
_ANNOTATIONS = """
a;C02;entailment;symptoms_diseases;C02;18;30
a,ng;C04;non-entailment;symptoms_diseases;C02;;
a,ng;C06;non-entailment;symptoms_diseases;C02;;
b;C02;entailment;symptoms_diseases;C02;15;17
b,ng;C06;non-entailment;symptoms_diseases;C02;;
b,ng;C06;non-entailment;tests_diseases;C02;;
c;C05;entailment;symptoms_diseases;C05;18;21
c,ng;C02;non-entailment;symptoms_diseases;C05;;
d;C05;entailment;symptoms_diseases;C05;0;23
d,ng;C06;non-entailment;symptoms_diseases;C05;;
e;C06;entailment;symptoms_diseases;C06;16;25
e,ng;C05;non-entailment;symptoms_diseases;C06;;
f;C06;entailment;treatments_diseases;C06;18;32
f,ng;C05;non-entailment;treatments_diseases;C06;;
"""
ROWS = tuple(tuple(line.split(";")) for line in _ANNOTATIONS.split())


def write_annotations(
    path: Path, rows: Iterable[Sequence[str]] = ROWS, header: Sequence[str] = MEDICAL
) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return path


def write_mednli(folder: Path) -> Path:
    """Writes PAIRS as a data folder's mednli/."""
    for number, file in enumerate(CORPORA["mednli"].files.values()):
        rows = []
        for example in PAIRS[number::3]:
            texts = example.premise, example.hypothesis
            rows.append(official(example.uid, example.label, *texts, parsed=False))
        write_rows(folder / "mednli" / file, rows)
    return folder


def read(path: Path, pairs: Sequence[NLIExample] = PAIRS, **options: Any) -> Benchmark:
    """The benchmark of a file of annotations. options: of `read_published`."""
    return files.read_published([path], pairs, **{"ontology": ontology(), **options})


# ---- a benchmark from scratch ----


def positive(uid: str, concept: str, words: str) -> Positive:
    """The positive example in which these words of a pair of PAIRS name the concept."""
    (example,) = (example for example in PAIRS if example.uid == uid)
    start = example.hypothesis.index(words)
    return Positive(example, concept, "symptoms", start, start + len(words))


def claim(uid: str, premise: str, concept: str, category: str = "tests") -> Positive:
    """A positive example whose hypothesis is "Patient has NAME."."""
    name = NAME_OF[concept]
    start = len("Patient has ")
    example = pair(uid, premise, f"Patient has {name}.")
    return Positive(example, concept, category, start, start + len(name))


def seven_diseases(wording: str = "name") -> Benchmark:
    """A benchmark of 7 diseases with 6 positives each; some premises are shared, and some name
    other diseases."""
    rng = random.Random(0)
    diseases = list(NAME_OF)[:7]
    positives = []
    for number in range(42):
        premise = f"finding {number if number % 4 else number + 1} today"
        if number % 5 == 0:
            premise += f" {NAME_OF[rng.choice(diseases)]} before"
        category = ("symptoms", "tests", "terminological")[number % 3]
        positives.append(claim(f"p{number:02}", premise, diseases[number % 7], category))
    return assemble(positives, wording)


def assemble(positives: Sequence[Positive], wording: str = "name") -> Benchmark:
    """The benchmark of positive examples, each with up to four negatives."""
    diseases = sorted({example.disease for example in positives})
    kinship = Kinship(ontology())
    negatives = negatives_of(positives, rank_randomly(3), kinship, 4)
    names, synonyms = files.disease_names(ontology(), diseases)
    return files.assemble(
        "made up",
        positives,
        negatives,
        names,
        synonyms,
        wording,
        {},
    )
