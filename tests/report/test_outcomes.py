"""Outcomes of runs, and comparisons of two, against counts worked out by hand."""

import pytest
from support.cases import cases
from support.commands import json_lines
from support.files import lines
from support.pairs import mentions, pair
from support.runs import GOLD, edit, rows, write_run
from support.tables import table_rows

from mednli_jax.errors import DataError, RunError
from mednli_jax.nli.tables import categories
from mednli_jax.report import outcomes


def opened(folder, *seeds, **settings):
    return outcomes.read_finished(write_run(folder, *seeds, **settings))


@pytest.fixture
def compared(tmp_path):
    """Compares two runs of one seed each, given the words of their predictions."""

    def compare(first, second, gold=GOLD):
        first_run = opened(tmp_path / "a", first, gold=gold)
        return outcomes.comparison(first_run, opened(tmp_path / "b", second, gold=gold))

    return compare


def test_a_tie_of_votes_goes_to_the_likelier_class(tmp_path):
    """Two seeds vote for entailment and two for neutral, with mean probabilities of .4 and .5."""
    folder = write_run(
        tmp_path / "run",
        "en",
        "en",
        "nn",
        "nc",
        gold="ee",
    )
    path = folder / "private" / "predictions.test.jsonl"
    tied, clear = json_lines(path)
    tied["probabilities"] = [[0.6, 0.3, 0.1]] * 2 + [[0.2, 0.7, 0.1]] * 2
    path.write_text(lines(tied, clear))

    assert outcomes.read_finished(folder).outcomes.voted.tolist() == [1, 1]


@cases(
    "line",
    {
        "no JSON": "{",
        "unknown label": {**rows("e", "e")[0], "label": "maybe"},
        "a uid twice": rows("e", "e")[0],
    },
)
def test_damaged_predictions_are_named_by_line(tmp_path, line):
    path = write_run(tmp_path / "run", GOLD) / "private" / "predictions.test.jsonl"
    path.write_text(path.read_text() + lines(line))

    with pytest.raises(DataError, match=rf"^{path.name}:10: ") as caught:
        outcomes.read_finished(tmp_path / "run")

    assert "u0" not in str(caught.value)


def test_a_run_without_predictions_is_refused(tmp_path):
    folder = write_run(tmp_path / "run", GOLD)
    (folder / "private" / "predictions.test.jsonl").unlink()

    with pytest.raises(RunError, match=r"predictions\.test\.jsonl"):
        outcomes.read_finished(folder)


# -- two systems -----------------------------------------------------------------------------------


def test_pairs_are_joined_by_uid_not_by_place(tmp_path):
    first = opened(tmp_path / "a", "eeenenccc")
    uids = [f"u{i}" for i in reversed(range(9))]
    second = opened(tmp_path / "b", "eeenenccc"[::-1], gold=GOLD[::-1], uids=uids)

    moved = outcomes.align(first, second).outcomes

    assert moved.uids == first.outcomes.uids
    assert moved.predicted.tolist() == first.outcomes.predicted.tolist()
    assert moved.voted.tolist() == first.outcomes.voted.tolist()


@cases(
    "difference",
    {
        "corpus": {"corpus": "mednli"},
        "uids": {"uids": [f"v{i}" for i in range(9)]},
        "label": {"gold": "neennnccc"},
    },
)
def test_runs_on_different_pairs_are_not_compared(tmp_path, difference):
    first = opened(tmp_path / "a", GOLD)
    second = opened(tmp_path / "b", GOLD, **difference)

    with pytest.raises(RunError, match="a and b: "):
        outcomes.align(first, second)


def test_runs_on_files_of_different_content_are_not_compared(tmp_path):
    runs = []
    for name in ("a", "b"):
        folder = write_run(tmp_path / name, GOLD)
        test = {"rows": 9, "file": "x.jsonl", "sha256": name * 64}
        edit(folder / "data.json", splits={"test": test})
        runs.append(outcomes.read_finished(folder))

    with pytest.raises(RunError, match="a and b: "):
        outcomes.align(*runs)


def test_training_pairs_may_differ_and_are_noted(tmp_path):
    more = opened(tmp_path / "b", GOLD, train={"rows": 300})
    usual = opened(tmp_path / "a", GOLD)

    assert outcomes.comparison(usual, more).other_training
    assert not outcomes.comparison(usual, usual).other_training


def test_accuracies_mcnemar_and_flips_of_a_comparison_are_those_worked_out_by_hand(compared):
    """Right are 6 of 9 and 7 of 9: the last e in the first run alone, two n in the second alone."""
    row = compared("eeeccnccn", "eennnnccn")

    assert row.accuracy == pytest.approx((6 / 9, 7 / 9))
    assert row.difference == pytest.approx(1 / 9)
    assert row.low < row.difference < row.high
    assert vars(row.mcnemar) == {"only_first": 1, "only_second": 2, "p_value": 1.0}
    assert row.pairs == 9
    assert row.seeds == (1, 1)
    lost, gained, same = (row.flips[label] for label in ("entailment", "neutral", "contradiction"))
    assert lost.pairs == 3
    assert lost.changed == 1
    assert lost.gained == 0
    assert lost.lost == 1
    assert lost.lost_to == {"neutral": 1, "contradiction": 0}
    assert gained.pairs == 3
    assert gained.changed == 2
    assert gained.gained == 2
    assert gained.lost == 0
    assert gained.gained_from == {"entailment": 0, "contradiction": 2}
    assert same.changed == 0
    assert row.class_gains["entailment"].recall == pytest.approx((1, 2 / 3))
    assert row.class_gains["neutral"].difference == pytest.approx(2 / 3)
    unchanged = row.class_gains["contradiction"]
    assert unchanged.low == 0.0
    assert unchanged.high == 0.0


def test_p_values_of_several_comparisons_are_adjusted(tmp_path):
    """McNemar's p is 2 / 2^6 for each of two comparisons."""
    first = opened(tmp_path / "a", "nnnccc", gold="eeennn")
    second = opened(tmp_path / "b", "eeennn", gold="eeennn")

    rows = outcomes.comparisons([first, second, second])

    assert [(row.mcnemar.p_value, row.p_holm) for row in rows] == [(1 / 32, 1 / 16)] * 2


def test_votes_are_tested_and_accuracies_are_means_over_seeds(tmp_path):
    """Seeds of a and b differ in single pairs, but their votes are equal."""
    first = opened(tmp_path / "a", GOLD, GOLD, GOLD)
    second = opened(tmp_path / "b", "n" + GOLD[1:], "eeeennccc", GOLD[:-1] + "e")

    row = outcomes.comparison(first, second)

    assert vars(row.mcnemar) == {"only_first": 0, "only_second": 0, "p_value": 1.0}
    assert row.difference == pytest.approx(-1 / 9)


def test_a_wrong_answer_that_turns_into_another_is_neither_gained_nor_lost(compared):
    row = compared("nnn", "cnn", gold="eee")

    flips = row.flips["entailment"]
    assert flips.changed == 1
    assert flips.gained == 0
    assert flips.lost == 0
    assert flips.wrong_to_wrong == 1
    assert list(row.class_gains) == ["entailment"]  # the other classes have no pair


# -- categories ------------------------------------------------------------------------------------

NUMBERS = "numerical reasoning"
ABBREVIATIONS = "abbreviations"
NEGATIONS = "negations"
WORLD = "world knowledge"
MEDICAL = "medical knowledge"
# The pairs of the paper's Table 8, the concepts that a reader finds in them, and the categories.
TABLE_8 = table_rows(f"""
    # The hypothesis names no concept that the premise lacks.
    WBC 12 , Hct 41 . | WBC slightly elevated | wbc hct | wbc | {NUMBERS}, {ABBREVIATIONS}
    # Both sides are negated, so negation does not decide.
    No known sick contacts | No recent travel | | | {WORLD}
    No CP or fevers . | Patient has no angina | fever | angina | {ABBREVIATIONS}, {MEDICAL}
    # V3-5 is an ECG lead, not a number.
    EKG showed T-wave depression in V3-5 , with no prior EKG . | Patient has a normal EKG | \
        depression | ekg | {ABBREVIATIONS}, {MEDICAL}, {NEGATIONS}
    Head CT was negative for bleed . | The patient has intracranial hemorrhage | \
        ct bleed | hemorrhage | {ABBREVIATIONS}, {MEDICAL}, {NEGATIONS}
    pain or fever | he is well | | | {WORLD}
    went to OR | he is well | | | {ABBREVIATIONS}
""")


def category_by_rule(premise, hypothesis, premise_concepts="", hypothesis_concepts=""):
    """The categories of a pair. Concepts are separated by blanks."""
    premise_mentions = [mentions(*premise_concepts.split())]
    hypothesis_mentions = [mentions(*hypothesis_concepts.split())]
    of_uid = categories.categories(
        [pair(premise, hypothesis)],
        premise_mentions,
        hypothesis_mentions,
        ("WBC", "ct", "ekg", "cp", "or"),
    )
    return of_uid["u"]


@pytest.mark.parametrize(
    "premise, hypothesis, premise_concepts, hypothesis_concepts, expected", TABLE_8
)
def test_the_rules_give_the_pairs_of_table_8_the_papers_categories(
    premise, hypothesis, premise_concepts, hypothesis_concepts, expected
):
    of_pair = category_by_rule(premise, hypothesis, premise_concepts, hypothesis_concepts)

    assert ", ".join(of_pair) == expected


@pytest.mark.parametrize("token", ["3.5", "120/80", "98%", "325mg", "twenty", ">100"])
def test_a_pair_with_a_number_is_of_numerical_reasoning(token):
    assert category_by_rule(f"x {token}", "y") == (NUMBERS,)


@pytest.mark.parametrize("token", ["V3", "B12", "-", "T4-5"])
def test_a_name_with_digits_is_no_number_of_numerical_reasoning(token):
    assert category_by_rule(f"x {token}", "y") == (WORLD,)


def test_scores_of_categories_are_those_worked_out_by_hand(tmp_path):
    """u0 is right in three seeds, u1 in two, u2 in none. Pairs from u3 on have no category."""
    run = opened(tmp_path / "run", "eecnnnccc", "eecnnnccc", "encnnnccc")
    category_of = {
        "u0": (NEGATIONS,),
        "u1": (NEGATIONS, ABBREVIATIONS),
        "u2": (NEGATIONS,),
        "u99": (NEGATIONS,),
    }

    scores = categories.category_scores(run.outcomes, category_of)

    assert scores["annotated"] == 3
    assert scores["errors"] == 1
    negations = scores["categories"][NEGATIONS]
    assert negations["pairs"] == 3
    assert negations["errors"] == 1
    assert negations["accuracy"] == pytest.approx(5 / 9)
    assert negations["confusions"] == {"entailment > contradiction": 1}
    assert scores["categories"][ABBREVIATIONS]["accuracy"] == pytest.approx(2 / 3)
    assert scores["categories"][WORLD]["accuracy"] is None


def test_categories_of_another_corpus_are_refused(tmp_path):
    run = opened(tmp_path / "run", GOLD)

    with pytest.raises(RunError):
        categories.category_scores(run.outcomes, {"other": (NEGATIONS,)})


def test_categories_in_a_file_may_be_abbreviated_and_several_for_a_pair(tmp_path):
    path = tmp_path / "kinds.tsv"
    path.write_text("uid\tcategory\nu0\tNegation\nu1\tnumbers\n\nu0\tmedical knowledge\n")

    assert categories.read_categories(path) == {"u0": (NEGATIONS, MEDICAL), "u1": (NUMBERS,)}
