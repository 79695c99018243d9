"""Outcomes of runs against counts worked out by hand."""

import json

import pytest
from support.pairs import mentions, pair
from support.runs import GOLD, edit, rows, write_run

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import DataError, RunError
from mednli_jax.nli import categories
from mednli_jax.report import outcomes


def opened(folder, *seeds, **settings):
    return outcomes.finished(write_run(folder, *seeds, **settings))


def test_the_vote_is_the_majority_and_a_tie_goes_to_the_likelier_class(tmp_path):
    folder = write_run(tmp_path / "run", "en", "en", "nn", "nc", gold="ee")
    path = folder / "private" / "predictions.test.jsonl"
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    # Two seeds vote for entailment and two for neutral; the mean probabilities, .4 and .5, decide
    # for neutral.
    first["probabilities"] = [[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.2, 0.7, 0.1]]
    path.write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    assert outcomes.finished(folder).outcomes.voted.tolist() == [1, 1]


BROKEN = {
    "no JSON": "{",
    "unknown label": '{"uid": "x", "label": "maybe", "predicted": ["neutral"], "probabilities": [[0, 1, 0]]}',
    "a uid twice": json.dumps(rows("e", ("e",), ["u0"])[0]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_damaged_predictions_are_named(tmp_path, case):
    folder = write_run(tmp_path / "run", GOLD)
    path = folder / "private" / "predictions.test.jsonl"
    path.write_text(path.read_text() + BROKEN[case] + "\n")
    with pytest.raises(DataError, match=rf"^{path.name}:10: ") as caught:
        outcomes.finished(folder)
    assert "u0" not in str(caught.value)


def test_a_run_without_its_files_or_fields_is_refused(tmp_path):
    folder = write_run(tmp_path / "run", GOLD)
    (folder / "private" / "predictions.test.jsonl").unlink()
    with pytest.raises(RunError, match=r"predictions\.test\.jsonl"):
        outcomes.finished(folder)
    edit(folder / "result.json", corpus=None)
    with pytest.raises(RunError, match=r"result\.json: has no field 'corpus'"):
        outcomes.finished(folder)


# -- two systems -------------------------------------------------------------------------------------------------------


def test_pairs_are_joined_by_uid_not_by_place(tmp_path):
    first = opened(tmp_path / "a", "eeenenccc")
    uids = [f"u{i}" for i in reversed(range(9))]
    second = opened(tmp_path / "b", "eeenenccc"[::-1], gold=GOLD[::-1], uids=uids)
    moved = outcomes.aligned(first, second).outcomes
    assert moved.uids == first.outcomes.uids
    assert moved.predicted.tolist() == first.outcomes.predicted.tolist()
    assert moved.voted.tolist() == first.outcomes.voted.tolist()
    assert outcomes.comparison(first, second).flips["neutral"].changed == 0


OTHERS = {
    "another corpus": {"corpus": "mednli"},
    "other uids": {"uids": [f"v{i}" for i in range(9)]},
    "another label": {"gold": "neennnccc"},
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_corpora_and_other_pairs_are_refused(tmp_path, case):
    other = opened(tmp_path / "b", GOLD, **OTHERS[case])
    with pytest.raises(RunError, match="a and b: "):
        outcomes.aligned(opened(tmp_path / "a", GOLD), other)


def test_training_pairs_may_differ_and_are_noted(tmp_path):
    mixed = opened(tmp_path / "b", GOLD, corpus="mednli+multinli/slate", train={"rows": 300})
    alone = opened(tmp_path / "a", GOLD, corpus="mednli")
    assert outcomes.aligned(alone, mixed).corpus == "mednli"
    assert outcomes.comparison(alone, mixed).other_training
    assert not outcomes.comparison(alone, alone).other_training


def test_a_file_of_other_content_is_refused(tmp_path):
    runs = [write_run(tmp_path / name, GOLD) for name in "ab"]
    for folder in runs:
        edit(
            folder / "data.json",
            splits={"test": {"rows": 9, "file": "x.jsonl", "sha256": folder.name * 64}},
        )
    with pytest.raises(RunError, match="a and b: "):
        outcomes.aligned(*map(outcomes.finished, runs))


def test_comparison_by_hand(tmp_path):
    """Right are 6 of 9 and 7 of 9: the last e in the first run alone, two pairs in the second run
    alone."""
    first, second = opened(tmp_path / "a", "eeeccnccn"), opened(tmp_path / "b", "eennnnccn")
    (row,) = outcomes.comparisons([first, second])
    assert row.accuracy == pytest.approx((6 / 9, 7 / 9))
    assert row.difference == pytest.approx(1 / 9)
    assert row.low < row.difference < row.high
    assert vars(row.mcnemar) == {"only_first": 1, "only_second": 2, "p_value": 1.0}
    assert (row.p_holm, row.pairs, row.seeds) == (1.0, 9, (1, 1))
    assert vars(row.flips["entailment"]) == {
        "pairs": 3, "changed": 1, "gained": 0, "lost": 1, "wrong_to_wrong": 0,
        "gained_from": {"neutral": 0, "contradiction": 0}, "lost_to": {"neutral": 1, "contradiction": 0},
    }  # fmt: skip
    assert vars(row.flips["neutral"]) == {
        "pairs": 3, "changed": 2, "gained": 2, "lost": 0, "wrong_to_wrong": 0,
        "gained_from": {"entailment": 0, "contradiction": 2}, "lost_to": {"entailment": 0, "contradiction": 0},
    }  # fmt: skip
    assert row.flips["contradiction"].changed == 0
    gains = row.class_gains
    assert gains["entailment"].recall == pytest.approx((1, 2 / 3))
    assert gains["neutral"].difference == pytest.approx(2 / 3)
    assert (gains["contradiction"].low, gains["contradiction"].high) == (0.0, 0.0)


def test_votes_are_tested_and_accuracies_are_means_over_seeds(tmp_path):
    """Seeds of a and b differ in single pairs, but their votes are equal; McNemar's test compares
    votes."""
    first = opened(tmp_path / "a", GOLD, GOLD, GOLD)
    second = opened(tmp_path / "b", "n" + GOLD[1:], "eeeennccc", GOLD[:-1] + "e")
    row = outcomes.comparison(first, second)
    assert vars(row.mcnemar) == {"only_first": 0, "only_second": 0, "p_value": 1.0}
    assert row.difference == pytest.approx(-1 / 9)


def test_a_wrong_answer_that_turns_into_another_is_neither_gained_nor_lost(tmp_path):
    row = outcomes.comparison(
        opened(tmp_path / "a", "nnn", gold="eee"), opened(tmp_path / "b", "cnn", gold="eee")
    )
    found = vars(row.flips["entailment"])
    assert [found[name] for name in ("changed", "gained", "lost", "wrong_to_wrong")] == [1, 0, 0, 1]
    assert list(row.class_gains) == ["entailment"]  # the other classes have no pair


# -- categories --------------------------------------------------------------------------------------------------------


# The pairs of the paper's Table 8, with the concepts that a reader finds in them.
TABLE_8 = (
    ("WBC 12 , Hct 41 .", "WBC slightly elevated", ("wbc", "hct"), ("wbc",)),
    ("No known sick contacts", "No recent travel", (), ()),
    ("No CP or fevers .", "Patient has no angina", ("fever",), ("angina",)),
    (
        "EKG showed T-wave depression in V3-5 , with no prior EKG .",
        "Patient has a normal EKG",
        ("depression",),
        ("ekg",),
    ),
    (
        "Head CT was negative for bleed .",
        "The patient has intracranial hemorrhage",
        ("ct", "bleed"),
        ("hemorrhage",),
    ),
)


def by_rules(*cases):
    """The categories of each (premise, hypothesis, concepts of the premise, concepts of the
    hypothesis)."""
    examples = [pair(*case[:2], uid=str(number)) for number, case in enumerate(cases)]
    found = ([mentions(*case[side]) for case in cases] for side in (2, 3))
    return [*categories.categories(examples, *found, ("WBC", "ct", "ekg", "cp", "or")).values()]


def test_rules_by_hand():
    assert by_rules(*TABLE_8) == [
        (
            "numerical reasoning",
            "abbreviations",
        ),  # the hypothesis names no concept that the premise lacks
        ("world knowledge",),  # both sides are negated, so negation does not decide
        ("abbreviations", "medical knowledge"),
        ("abbreviations", "medical knowledge", "negations"),  # V3-5 is an ECG lead, not a number
        ("abbreviations", "medical knowledge", "negations"),
    ]
    plain = by_rules(
        *((premise, "he is well", (), ()) for premise in ("pain or fever", "went to OR"))
    )
    assert plain == [("world knowledge",), ("abbreviations",)]
    for token in ("3.5", "120/80", "98%", "325mg", "twenty", ">100", "V3", "B12", "-", "T4-5"):
        kind = "world knowledge" if token in ("V3", "B12", "-", "T4-5") else "numerical reasoning"
        assert by_rules((f"x {token}", "y", (), ())) == [(kind,)], token


def test_scores_of_categories_by_hand(tmp_path):
    """u0 and u1 are right in both seeds, u2 in neither. u3 and the pairs after it have no
    category."""
    run = opened(tmp_path / "run", "eecnnnccc", "eennnnccc")
    given = {
        "u0": ("negations",),
        "u1": ("negations", "abbreviations"),
        "u2": ("negations",),
        "u99": ("negations",),
    }
    found = categories.category_scores(run.outcomes, given)
    assert (found["annotated"], found["errors"]) == (3, 1)
    assert found["categories"]["negations"] == {
        "pairs": 3, "accuracy": pytest.approx(4 / 6), "errors": 1,
        "confusions": {f"{LABELS[0]} > {LABELS[run.outcomes.voted[2]]}": 1},
    }  # fmt: skip
    assert found["categories"]["abbreviations"]["accuracy"] == 1.0
    assert found["categories"]["world knowledge"] == {
        "pairs": 0,
        "accuracy": None,
        "errors": 0,
        "confusions": {},
    }
    with pytest.raises(RunError):
        categories.category_scores(run.outcomes, {"other": ("negations",)})


def test_annotations_may_be_abbreviated_and_several(tmp_path):
    (tmp_path / "kinds.tsv").write_text(
        "uid\tcategory\nu0\tNegation\nu1\tnumbers\n\nu0\tmedical knowledge\n"
    )
    found = categories.read_annotations(tmp_path / "kinds.tsv")
    assert found == {"u0": ("negations", "medical knowledge"), "u1": ("numerical reasoning",)}
