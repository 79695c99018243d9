"""A DisKnE benchmark built from sentence pairs and a terminology, and its files."""

import json
from collections import defaultdict
from dataclasses import replace

import build_diskne
import pytest
from diskne_from_pairs import build, category_of, read_vectors, select, vectors_of_ancestors
from support.cases import cases
from support.commands import refused, succeeds
from support.diskne import (
    CONCEPTS,
    ROWS,
    claim,
    ontology,
    pair,
    seven_diseases,
    write_annotations,
    write_mednli,
)
from support.files import assert_private
from support.tables import table_rows

from mednli_jax.diskne.corpus import read_benchmark, write_benchmark
from mednli_jax.diskne.data import disease_names
from mednli_jax.diskne.folds import folds
from mednli_jax.diskne.negatives import Kinship, negatives_of, rank_randomly, similar
from mednli_jax.errors import UserError
from mednli_jax.knowledge.linking import Linker

VECTORS = {
    "C01": (1, 0, 0),
    "C02": (1, 0.1, 0),
    "C03": (1, 0.2, 0),
    "C04": (1, 0.3, 0),
    "C05": (0, 1, 0),
    "C06": (0.2, 1, 0.1),
    "C07": (0, 0, 1),
}
RANDOM = rank_randomly(0)


def false_claims(positives, ranking=RANDOM, **options):
    """disease -> the diseases that are falsely claimed for its patients, best first."""
    claimed = defaultdict(list)
    kinship = Kinship(ontology())
    for positive, disease in negatives_of(positives, ranking, kinship, **options):
        claimed[positive.disease].append(disease)
    return claimed


def test_negatives_are_the_most_similar_diseases_that_are_not_related():
    """The ancestor of myocardial infarction, C02, is heart diseases, and its descendant STEMI."""
    positives = [claim(row[0], f"Finding {row[0]}", row[0]) for row in CONCEPTS[:7]]

    negatives = false_claims(positives, similar(VECTORS), count=2)

    assert negatives["C02"] == ["C04", "C06"]
    assert negatives["C01"] == ["C06", "C05"]
    assert negatives["C04"] == ["C03", "C02"]
    assert negatives["C07"] == ["C06", "C01"]  # C01 to C05 are equally distant


def test_negatives_are_of_the_group_and_not_claimed_on_the_premise():
    positives = [
        claim("s1", "One finding", "C07"),
        claim("s2", "one  finding", "C03"),
        claim("s3", "Another", "C06", "terminological"),
        claim("s4", "Third", "C02"),  # is related to C03
    ]
    assert false_claims(positives) == {"C02": ["C07"]}


def test_a_disease_that_the_premise_names_is_no_negative():
    positives = [
        claim("n1", "Long known UTI, wheezing.", "C07"),
        claim("n2", "MI", "C03"),
        claim("c", "x", "C05"),
        claim("a", "y", "C02"),
    ]
    synonyms = disease_names(ontology(), ["C02", "C03", "C05", "C07"]).synonyms
    assert set(false_claims(positives)["C07"]) == {"C02", "C03", "C05"}
    assert set(false_claims(positives, synonyms=synonyms)["C07"]) == {"C02", "C03"}


def test_vectors_are_read_from_cui2vecs_table_for_the_diseases_alone(tmp_path):
    """The first row of a concept counts."""
    path = tmp_path / "cui2vec.csv"
    path.write_text('"","V1","V2"\n"C02",1,0.1\n"C03",5,5\n"C05",0,1\n"C02",9,9\n')
    vectors = read_vectors(path, ["C02", "C05", "C99"])
    assert {disease: list(vector) for disease, vector in vectors.items()} == {
        "C02": [1, 0.1],
        "C05": [0, 1],
    }


def test_diseases_without_any_vector_are_refused():
    with pytest.raises(UserError):
        similar({})


def test_vectors_of_ancestors_are_nearer_for_closer_kin():
    """No is-a edge links the urinary tract infection, C05, to the others."""
    vectors = vectors_of_ancestors(ontology(), ["C02", "C03", "C04", "C05"])
    assert set(vectors) == {"C02", "C03", "C04"}
    assert vectors["C02"] @ vectors["C03"] > vectors["C04"] @ vectors["C03"]


UTI = "Pt has a UTI."


@pytest.mark.parametrize(
    "premise, category",
    table_rows("""
        # the most frequent type
        EKG done, stent placed, stent patent. | procedures
        # of equally frequent types the first
        Cough, on aspirin. | treatments
        # the disease itself, and another
        Stent placed for a UTI. | terminological
        Known MI. |
        Feels fine. |
    """),
)
def test_the_category_of_a_premise_is_that_of_its_concepts(premise, category):
    assert category_of(pair("u", premise, UTI), "C05", Linker(ontology())) == category


@pytest.mark.parametrize(
    "premise, category",
    [
        ("Known UTI.", "terminological"),
        ("Cough.", ""),
    ],
)
def test_without_types_the_disease_alone_gives_a_category(premise, category):
    untyped = Linker(replace(ontology(), types=()))
    assert category_of(pair("u", premise, UTI), "C05", untyped) == category


@pytest.mark.parametrize(
    "premise, hypothesis, outcome",
    table_rows(f"""
        On aspirin. | The patient has angina. | C04 treatments angina
        Stent patent. | Pt has a heart attack. | C02 procedures heart attack
        Known UTI, on aspirin. | {UTI} | C05 terminological UTI
        Cough. | The patient does not have pneumonia. | not_stated
        Cough. | The patient's mother has asthma. | not_stated
        Cough. | The patient has pneumonia or asthma. | several_diseases
        On aspirin. | The patient has angina/pneumonia. | several_diseases
        Cough. | The patient is ill. | no_disease
        Feels fine. | The patient has pneumonia. | no_category
        On aspirin. | The patient is angina-free. | not_found
    """),
)
def test_a_positive_says_that_the_patient_has_one_disease(premise, hypothesis, outcome):
    selected, left_out = select([pair("1", premise, hypothesis)], Linker(ontology()))
    positives = [
        f"{positive.disease} {positive.category} {positive.mention}" for positive in selected
    ]
    assert [*positives, *left_out] == [outcome]


def test_a_positive_is_an_entailed_pair():
    neutral = pair("1", "Cough.", "The patient has pneumonia.", "neutral")
    assert select([neutral], Linker(ontology())) == ([], {"not_entailed": 1})


def built(pairs, ranking, order=None):
    """A benchmark with two negatives of each positive. order: of the concepts."""
    linker = Linker(ontology(order))
    return build(
        "t",
        pairs,
        linker,
        lambda _: ranking,
        wording="full",
        count=2,
    )


SENTENCES = [
    pair(f"{name}{days}", f"Cough for {days} days, {name}.", f"The patient has a {name}.")
    for name in ("heart attack", "pneumonia", "UTI", "angina")
    for days in (1, 2)
]


@cases(
    "ranking",
    {
        "random": rank_randomly(1),
        "similar": similar(VECTORS),
    },
)
def test_a_benchmark_does_not_depend_on_the_order_of_pairs_and_concepts(ranking):
    backward = built(SENTENCES[::-1], ranking, order=range(len(CONCEPTS))[::-1])
    assert built(SENTENCES, ranking).examples == backward.examples


def test_the_claims_of_a_fold_are_its_disease_and_the_negatives():
    examples = built(SENTENCES, similar(VECTORS)).examples
    claims = {example.pair.hypothesis for example in examples if example.target == "C02"}
    assert claims == {
        "The patient has a heart attack.",
        "The patient has an angina pectoris.",
        "The patient has a pneumonia.",
    }


def test_pairs_without_a_positive_make_no_benchmark():
    with pytest.raises(UserError, match=r"t: no pair is a positive example \(1 no_disease\)"):
        built([pair("x", "Cough.", "Pt is ill.")], RANDOM)


@pytest.fixture(scope="module")
def benchmark():
    return seven_diseases(wording="full")


@pytest.fixture(scope="module")
def folder(benchmark, tmp_path_factory):
    """The benchmark's folder."""
    divided = folds(benchmark, least=1)
    return write_benchmark(benchmark, divided, tmp_path_factory.mktemp("benchmark") / "out")


def without_tags(example):
    return replace(example, pair=replace(example.pair, tags=()))


def test_a_written_benchmark_of_diskne_reads_back(benchmark, folder):
    again = read_benchmark(folder)
    assert again.description() == benchmark.description()
    assert list(map(without_tags, again.examples)) == list(map(without_tags, benchmark.examples))


def test_every_dropped_example_is_written_with_its_reason(benchmark, folder):
    header, *rows = (folder / "dropped.tsv").read_text().splitlines()
    dropped = [len(row) for fold in folds(benchmark, least=1) for row in fold.dropped.values()]
    assert header.split("\t") == ["group", "disease", "uid", "reason"]
    assert len(rows) == sum(dropped)


def test_a_written_benchmark_of_diskne_is_private(folder):
    assert_private(folder)


@pytest.fixture
def flags(tmp_path):
    """Flags with which launch/data/build_diskne.py reads two files and writes the folder out."""
    first = write_annotations(tmp_path / "1.csv", ROWS[:6])
    second = write_annotations(tmp_path / "2.csv", ROWS[6:])
    places = (f"--data={write_mednli(tmp_path / 'data')}", f"--out={tmp_path / 'out'}")
    return (f"--annotations={first},{second}", *places, "--ontology=none")


def test_the_script_builds_a_benchmark_of_diskne_from_annotations(flags):
    """Angina has no positive example, and without a terminology no name."""
    facts = json.loads(succeeds(build_diskne, *flags)[0])
    assert set(facts["annotations"]) == {"1.csv", "2.csv"}
    assert facts["folds"] == 2
    assert not facts["mediqa_nli"]
    assert facts["left_out"]["unnamed"] == 1


def test_the_script_refuses_a_folder_with_files_in_one_line(flags, tmp_path):
    succeeds(build_diskne, *flags)
    (line,) = refused(build_diskne, *flags).splitlines()
    assert line.startswith(f"error: {tmp_path / 'out'}: ")
