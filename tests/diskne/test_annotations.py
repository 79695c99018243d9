"""DisKnE's annotation files: the published rows, joined to the sentence pairs that they name."""

import json

import pytest
from support.diskne import (
    MEDICAL,
    PAIRS,
    ROWS,
    ontology,
    pair,
    positive,
    read,
    write_annotations,
)

from mednli_jax.diskne import data
from mednli_jax.diskne.data import hypothesis_of
from mednli_jax.diskne.folds import folds
from mednli_jax.errors import DataError, UserError

SYMPTOMS = "symptoms_diseases"
HEART_ATTACK = positive("a", "C02", "heart attack")


@pytest.fixture
def read_rows(tmp_path):
    """Reads rows of annotations from the file m.csv."""

    def read_file(rows=ROWS, **options):
        return read(write_annotations(tmp_path / "m.csv", rows), **options)

    return read_file


@pytest.mark.parametrize(
    "wording, hypothesis",
    [
        ("name", "myocardial infarction"),
        ("mention", "heart attack"),
        ("full", "The patient has a heart attack."),
    ],
)
def test_a_positive_claims_the_name_the_mention_or_the_whole_sentence(wording, hypothesis):
    assert hypothesis_of(HEART_ATTACK, "C02", "myocardial infarction", wording) == hypothesis


@pytest.mark.parametrize("wording", ["name", "mention"])
def test_a_negative_claims_the_name_of_the_other_disease(wording):
    assert hypothesis_of(HEART_ATTACK, "C04", "angina pectoris", wording) == "angina pectoris"


@pytest.mark.parametrize(
    "phrase", ["an angina pectoris", "an ulcer", "an MI", "a urinary tract infection", "a UTI"]
)
def test_a_negative_sentence_has_the_article_of_its_disease(phrase):
    name = phrase.split(" ", 1)[1]
    assert hypothesis_of(HEART_ATTACK, "C04", name, "full") == f"The patient has {phrase}."


def test_a_negative_begins_with_a_capital_as_its_positive_does():
    """A capital at the start would mark positives."""
    infection = positive("d", "C05", "Urinary tract infection")
    assert hypothesis_of(infection, "C07", "asthma", "full") == "Asthma"


def test_files_with_the_same_positive_examples_are_never_merged(tmp_path):
    positives = [row for row in ROWS if row[2] == "entailment"]
    first = write_annotations(tmp_path / "m_similar.csv")
    second = write_annotations(tmp_path / "m_random.csv", positives)

    with pytest.raises(DataError) as caught:
        data.read_published([first, second], PAIRS, ontology())

    assert caught.value.file == "m_random.csv"


def test_the_kind_of_negatives_selects_the_annotation_files(tmp_path):
    (tmp_path / "diskne").mkdir()
    write_annotations(tmp_path / "diskne" / "m_similar.csv")
    random = write_annotations(tmp_path / "diskne" / "m_random.csv")

    assert data.annotation_files(tmp_path, "random") == [random]
    assert len(data.annotation_files(tmp_path)) == 2


def test_a_row_of_the_published_annotations_joins_the_mednli_pair_of_its_id(read_rows):
    examples = {example.uid: example for example in read_rows(wording="mention").examples}
    true = examples["a.symptoms.C02"]
    false = examples["a.symptoms.C02.C04"]

    assert len(examples) == len(ROWS)
    assert true.pair.premise == false.pair.premise == PAIRS[0].premise
    assert true.disease == "C02"
    assert true.pair.label == "entailment"
    assert false.disease == "C04"
    assert false.pair.label == "neutral"
    assert false.target == "C02"
    assert false.category == "symptoms"


def test_a_negative_keeps_a_category_in_which_its_pair_has_no_positive(read_rows):
    categories = {example.uid: example.category for example in read_rows().examples}
    assert categories["b.tests.C02.C06"] == "tests"


def test_examples_are_counted_by_category(read_rows):
    facts = read_rows().facts
    none = {"procedures": 0, "terminological": 0}
    assert facts["positives"] == {
        "symptoms": 5,
        "treatments": 1,
        "tests": 0,
        **none,
    }
    assert facts["negatives"] == {
        "symptoms": 6,
        "treatments": 1,
        "tests": 1,
        **none,
    }


def test_a_file_without_categories_is_terminological_and_joins_the_others(tmp_path):
    rows = [(*row[:3], *row[4:]) for row in ROWS[:5]]
    header = [name for name in MEDICAL if name != "category"]
    terminological = write_annotations(tmp_path / "t.csv", rows, header)
    medical = write_annotations(tmp_path / "m.csv")

    benchmark = data.read_published([medical, terminological], PAIRS, ontology())

    assert len(benchmark) == len(ROWS) + len(rows)
    groups = {fold.group for fold in folds(benchmark) if fold.disease == "C02"}
    assert groups == {"medical", "terminological"}


@pytest.mark.parametrize("span", ["18 31", "18 27", "17 30", "20 30.0"])
def test_a_span_that_is_too_long_or_too_short_gives_whole_words(read_rows, span):
    rows = [("a", "C02", "entailment", SYMPTOMS, "C02", *span.split())]
    (example,) = read_rows(rows, wording="mention").examples
    assert example.pair.hypothesis.rstrip(".") == "heart attack"


UNNAMED = [
    ("g,ng", "C99", "non-entailment", SYMPTOMS, "C02", "", ""),
    ("a,ng", "C98", "non-entailment", SYMPTOMS, "C02", "", ""),
]


def test_without_a_terminology_a_disease_has_its_longest_most_frequent_mention(read_rows):
    assert read_rows(ontology=None).names["C05"] == "urinary tract infection"


def test_rows_without_a_name_or_a_positive_are_left_out_and_counted(read_rows):
    """C04 and C98 have no mention; no positive example belongs to the first row of UNNAMED."""
    benchmark = read_rows([*ROWS, *UNNAMED], ontology=None)
    assert benchmark.facts["left_out"] == {
        "of_unknown_pairs": 0,
        "without_positive": 1,
        "unnamed": 2,
        "contradicted": 0,
    }


def test_a_disease_that_another_pair_of_the_premise_claims_is_no_negative(read_rows):
    twin = pair("z", PAIRS[0].premise.upper(), "The patient has angina.")
    claim = ("z", "C04", "entailment", "tests_diseases", "C04", "16", "22")
    benchmark = read_rows([*ROWS, claim], pairs=(*PAIRS, twin), ontology=None)
    assert benchmark.facts["left_out"]["contradicted"] == 1


@pytest.fixture
def asthma_rows():
    """Annotations of twenty pairs, and of one that is in no corpus, and the twenty pairs."""
    rows = []
    pairs = []
    for number in range(20):
        rows.append((f"n{number}", "C07", "entailment", SYMPTOMS, "C07", "16", "22"))
        pairs.append(pair(f"n{number}", f"Premise {number}", "The patient has asthma."))
    return [*rows, ("lost", "C07", "entailment", SYMPTOMS, "C07", "0", "2")], pairs


def test_ids_of_no_pair_are_reported_by_their_lines(read_rows, asthma_rows, capsys):
    """Some published ids are parts of sentences, so no message holds one."""
    rows, pairs = asthma_rows

    benchmark = read_rows(rows, pairs=pairs)

    warning = capsys.readouterr().err
    unknown = "m.csv: 1 of 21 annotated pairs are in no corpus (lines 22); they are left out"
    assert unknown in warning
    assert benchmark.facts["unknown_pairs"] == 1
    assert "lost" not in warning + json.dumps(benchmark.description())


def test_too_many_ids_of_no_pair_are_refused(read_rows, asthma_rows):
    rows, pairs = asthma_rows
    message = r"m.csv:2: 12 of 21 .* \(lines 2, 3, 4, 5, 6, \.\.\.\)"
    with pytest.raises(UserError, match=message) as caught:
        read_rows(rows, pairs=pairs[11:])
    assert "lost" not in str(caught.value)
