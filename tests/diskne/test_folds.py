"""DisKnE's folds: the disease that is tested is neither claimed nor named in training."""

import numpy as np
import pytest
from support.cases import cases
from support.diskne import ROWS, assemble, claim, read, seven_diseases, write_annotations
from support.tables import table_rows

from mednli_jax.diskne.data import GROUPS
from mednli_jax.diskne.folds import concepts_in_texts, folds
from mednli_jax.errors import UserError


def uids(benchmark, rows):
    return {benchmark.examples[row].uid for row in rows}


@pytest.fixture
def read_rows(tmp_path):
    return lambda rows=ROWS: read(write_annotations(tmp_path / "m.csv", rows))


def test_the_rows_of_a_fold_are_those_worked_out_by_hand(read_rows):
    """The premise of e names the disease ("MI in the past"). "Family" in d has the letters, but is
    not a mention."""
    benchmark = read_rows()
    fold = next(fold for fold in folds(benchmark, dev=0) if fold.disease == "C02")

    assert fold.group == "medical"
    assert fold.categories == ("symptoms",)
    assert uids(benchmark, fold.test) == {
        "a.symptoms.C02",
        "a.symptoms.C02.C04",
        "a.symptoms.C02.C06",
        "b.symptoms.C02",
        "b.symptoms.C02.C06",
    }
    assert uids(benchmark, fold.train) == {
        "c.symptoms.C05",
        "d.symptoms.C05",
        "d.symptoms.C05.C06",
        "f.treatments.C06",
        "f.treatments.C06.C05",
    }
    dropped = {reason: uids(benchmark, rows) for reason, rows in fold.dropped.items()}
    assert dropped == {
        "own": {"b.tests.C02.C06"},
        "hypothesis": {"c.symptoms.C05.C02"},
        "premise": {"e.symptoms.C06", "e.symptoms.C06.C05"},
        "repeated": set(),
    }


def test_a_disease_with_one_positive_in_a_category_has_no_fold(read_rows):
    assert {fold.disease for fold in folds(read_rows())} == {"C02", "C05"}


@cases(
    "rows, categories",
    {
        "with a negative of treatments": (ROWS, ("symptoms", "treatments")),
        "without": (ROWS[:-1], ("symptoms",)),
    },
)
def test_a_category_without_a_negative_is_not_reported(read_rows, rows, categories):
    categories_of = {fold.disease: fold.categories for fold in folds(read_rows(rows), least=1)}
    assert categories_of["C06"] == categories


def test_a_benchmark_without_enough_positives_has_no_folds():
    with pytest.raises(UserError, match="no disease has 100 positive examples"):
        folds(seven_diseases(), least=100)


@pytest.fixture(scope="module", params=["name", "full"])
def benchmark(request):
    return seven_diseases(wording=request.param)


@pytest.fixture(scope="module")
def all_folds(benchmark):
    """Two groups of seven diseases."""
    divided = folds(benchmark, least=1)
    assert len(divided) == 14
    return divided


def test_no_fold_leaks_a_claim_or_a_name_of_its_disease_into_training_or_dev(benchmark, all_folds):
    for fold in all_folds:
        rows = [*fold.train, *fold.dev]
        assert rows
        for row in rows:
            example = benchmark.examples[row]
            assert fold.disease not in (example.disease, example.target)
            text = f"{example.pair.premise} {example.pair.hypothesis}"
            words = f" {text.lower().replace('.', ' ')} "
            for name in benchmark.synonyms[fold.disease]:
                assert f" {name.lower()} " not in words


def test_a_premise_of_test_may_be_in_training_with_the_claim_of_another_disease(
    benchmark, all_folds
):
    premise = np.array([example.pair.premise for example in benchmark.examples])
    assert any(set(premise[fold.test]) & set(premise[fold.train]) for fold in all_folds)


def test_a_fold_tests_its_disease_alone(benchmark, all_folds):
    for fold in all_folds:
        targets = {benchmark.examples[row].target for row in fold.test}
        assert targets == {fold.disease}


def test_train_dev_test_and_dropped_rows_of_a_fold_share_no_row_and_are_all_of_its_group(
    benchmark, all_folds
):
    categories = np.array([example.category for example in benchmark.examples])
    for fold in all_folds:
        rows = np.concatenate([fold.train, fold.dev, fold.test, *fold.dropped.values()])
        of_group = np.flatnonzero(np.isin(categories, GROUPS[fold.group]))
        assert sorted(rows) == of_group.tolist()


def test_dev_is_a_tenth_of_the_training_rows_and_shares_no_premise_with_them(benchmark, all_folds):
    """A premise of dev is not in train; up to six examples share one."""
    premise = np.array([example.pair.group for example in benchmark.examples])
    for fold in all_folds:
        assert not set(premise[fold.train]) & set(premise[fold.dev])
        tenth = (len(fold.train) + len(fold.dev)) / 10
        assert tenth <= len(fold.dev) < tenth + 6


def test_a_premise_and_claim_that_repeat_are_used_once_in_a_fold():
    """The three examples of asthma count as one, which is too few for a fold."""
    asthma = [claim(f"t{number}", "Same finding", "C07") for number in range(3)]
    pneumonia = [claim(f"u{number}", f"Other {number}", "C06") for number in range(2)]
    benchmark = assemble([*asthma, *pneumonia])

    (fold,) = folds(benchmark, dev=0)

    assert fold.disease == "C06"
    assert uids(benchmark, fold.train) == {"t0.tests.C07"}
    assert {reason for reason, rows in fold.dropped.items() if len(rows)} == {
        "hypothesis",
        "repeated",
    }


NAMES = {
    "mi": ("MI",),
    "uti": ("UTI",),
    "crohn": ("Crohn's disease",),
    "or": ("OR",),
    "stone": ("kidney stones",),
    "ha": ("HA",),
    "as": ("aortic stenosis", "AS"),
    "it": ("IT",),
    "as given": ("as", "As"),
    "more": ("More",),
}


@pytest.mark.parametrize(
    "text, expected",
    table_rows("""
        Family of amir |
        h/o MI. | mi
        two acute MIs | mi
        recurrent mis | mi
        frequent utis | uti
        UTIs in the past | uti
        uti | uti
        Utis | uti
        crohn disease | crohn
        or not |
        a kidney-stone, small | stone
        # HA is a short form of headache
        has gas |
        severe AS, AS-related syncope | as
        as before. As per the family |
        old MI or IT band pain | mi it
    """),
)
def test_names_of_diseases_are_found_on_word_boundaries_whatever_their_case_and_number(
    text, expected
):
    assert concepts_in_texts([text], NAMES)[text] == set(expected.split())


def is_named(name, text):
    return concepts_in_texts([text], {"C": (name,)})[text] == {"C"}


@pytest.mark.parametrize(
    "numbers",
    [
        "pulmonary embolus, pulmonary emboli",
        "pulmonary embolism, pulmonary emboli",
        "brain metastasis, brain metastases",
        "diverticulum of colon, diverticula of colon",
        "bursa, bursae",
        "carcinoma, carcinomata",
        "varix, varices",
        "vertex, vertices",
        "arthritis, arthritides",
        "ganglion, ganglia",
        "pneumothorax, pneumothoraces",
        "phalanx fracture, phalanges fracture",
        "nevus, nevi",
        "virus infection, viruses infections",
        "calyx, calyces",
        # an English plural
        "triglyceride, triglycerides",
        "infection, infections",
        "fistula, fistulas",
        "disease, diseases",
        "abscess, abscesses",
        "biopsy, biopsies",
    ],
)
def test_singular_and_plural_are_one_name_of_a_disease(numbers):
    singular, plural = numbers.split(", ")
    assert is_named(singular, f"h/o {plural.capitalize()}, stable")
    assert is_named(plural, f"h/o {singular.capitalize()}, stable")


@pytest.mark.parametrize(
    "words", ["ileus, ileum", "colon, coli", "CA, cause", "tests, testis", "angina, angi"]
)
def test_words_with_similar_endings_are_no_plurals(words):
    assert not is_named(*words.split(", "))
