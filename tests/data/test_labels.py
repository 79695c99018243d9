"""The labels of a corpus: what a config.data.labels and the labels of a training file decide."""

import pytest
from support.tables import table_rows

from mednli_jax.data.labels import NLI_LABELS, Labels, cell_text


@pytest.mark.parametrize(
    "labels, names",
    table_rows("""
        no/Yes/YES | no/Yes
        10/9/1 | 1/9/10
        1.5/-2 | -2/1.5
        b/A/c | A/b/c
        ENTAILMENT/Neutral/contradiction | entailment/neutral/contradiction
        contradiction/entailment | entailment/contradiction
        # no label
        1/0/-1/-/ | 0/1
        1/-1 | -1/1
        0/2/-1 | -1/0/2
        yes, a bit/a:b | a:b/yes, a bit
        -/ |
    """),
)
def test_a_training_file_decides_the_names_and_their_order(labels, names):
    decided = Labels.of("").with_training_labels(labels.split("/"))

    assert "/".join(decided.names) == names
    assert Labels.of(decided.setting) == decided  # what config.json keeps says the same


@pytest.mark.parametrize(
    "setting, names",
    table_rows(r"""
        c,a,b | c/a/b
        yes:entailment,no:contradiction,?:- | entailment/contradiction
        2:x,1:y,0:x | x/y
        contradiction,neutral,entailment | entailment/neutral/contradiction
        unsure:- |
        a\,b,c\:d | a,b/c:d
    """),
)
def test_a_setting_names_the_labels_in_its_order(setting, names):
    assert "/".join(Labels.of(setting).names) == names


def test_a_setting_that_leaves_labels_out_keeps_the_names_of_the_training_file():
    decided = Labels.of("unsure:-").with_training_labels(["b", "unsure", "a"])

    assert decided.names == ("a", "b")
    assert decided.name_of["unsure"] == "-"
    assert decided.may_be_mostly_unlabelled


def test_names_are_read_as_labels_too_where_old_labels_have_another_name():
    name_of = Labels.of("yes:entailment,no:contradiction").name_of

    assert name_of["yes"] == "entailment"
    assert name_of["entailment"] == "entailment"
    assert Labels.of("0:1,1:0").name_of["1"] == "0"


@pytest.mark.parametrize("number", [-1, 0, 12])
def test_a_whole_number_with_a_point_is_that_number(number):
    assert (
        cell_text(float(number)) == cell_text(f" {number}.00 ") == cell_text(number) == str(number)
    )


def test_minus_one_is_no_label_only_beside_the_names_from_0_up():
    assert Labels.of("0,1,2").name_of["-1"] == "-"
    assert "-1" not in Labels.of("1,2").name_of
    assert Labels.of("-1,0,1").name_of["-1"] == "-1"


def test_an_empty_label_of_a_published_corpus_is_a_fault():
    assert "" not in NLI_LABELS.name_of
    assert Labels.of("a,b").name_of[""] == "-"
