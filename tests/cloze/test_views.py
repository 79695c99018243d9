"""The three set-ups by hand and their common properties; the training filter; the split into seen
and unseen."""

from dataclasses import replace

import pytest
from support.cloze import split

from mednli_jax.cloze.clicr import parse_marked
from mednli_jax.cloze.encoding import (
    SETUPS,
    loose_positions,
    passage_view,
    query_view,
    right_candidate,
    tag_seen,
    with_titles,
)
from mednli_jax.data.examples import Answer, ClozeExample, Passage, Split

CONTEXT = (
    "The BEG__Heart Failure__END and BEG__pain__END .\n"
    "No heart BEG__Pain__END or BEG__heart failure__END of BEG__MRI__END ."
)


def example(query, *answers, context=CONTEXT, title="On BEG__gout__END", uid="q"):
    title, body, marked = parse_marked(title), parse_marked(context), parse_marked(query)
    passage = Passage(
        "r", title.tokens, body.tokens, body.entities, body.sentences, "", title.entities
    )
    texts = tuple(
        Answer(text, origin="UMLS" if number else "dataset") for number, text in enumerate(answers)
    )
    return ClozeExample(uid, passage, marked.tokens, marked.entities, marked.blanks[0], texts)


HAND = example("BEG__MRI__END of BEG__Chest Wall__END shows @placeholder .", "pain")


def test_ent_and_noent_by_hand():
    view = query_view(HAND, "noent")
    assert (
        " ".join(view.passage.tokens)
        == "the heart failure and pain . no heart pain or heart failure of mri ."
    )
    assert " ".join(view.query) == "mri of chest wall shows @placeholder ."
    assert (view.blank, view.names) == (5, {})
    assert view.passage.positions == (((1, 3), (10, 12)), ((4, 5), (8, 9)), ((13, 14),))
    loose = loose_positions(view.passage.tokens, view.passage.candidates)[0]
    assert loose == tuple((p, p + 1) for p in (1, 2, 7, 10, 11))
    view = query_view(HAND, "ent")
    assert " ".join(view.passage.tokens) == (
        "the @entityheart_failure and @entitypain . no heart @entitypain or @entityheart_failure of @entitymri ."
    )
    assert " ".join(view.query) == "@entitymri of @entitychest_wall shows @placeholder ."
    assert (view.blank, view.query[view.blank]) == (4, "@placeholder")
    assert view.passage.candidates == ("heart failure", "pain", "mri")
    assert view.passage.positions == (((1, 2), (9, 10)), ((3, 4), (7, 8)), ((11, 12),))
    assert view.gold == 1


def test_anonym_by_hand():
    """Phrases are numbered by their first occurrence in the passage, then the query, then the
    answer."""
    view = query_view(replace(HAND, answers=(Answer("new thing"),)), "anonym")
    assert (
        " ".join(view.passage.tokens)
        == "the @entity0 and @entity1 . no heart @entity1 or @entity0 of @entity2 ."
    )
    assert " ".join(view.query) == "@entity2 of @entity3 shows @placeholder ."
    names = {"heart failure": "@entity0", "pain": "@entity1", "mri": "@entity2"}
    assert view.names == names | {"chest wall": "@entity3", "new thing": "@entity4"}
    assert view.gold == -1


def test_the_title_may_become_the_first_sentence():
    cases = (HAND, replace(HAND, uid="other"), example("@placeholder", "x", title=""))
    split = with_titles(Split("dev", cases, {"file": "f"}))
    one, other, bare = split.examples
    assert query_view(one, "ent").passage.candidates == ("gout", "heart failure", "pain", "mri")
    assert " ".join(query_view(one, "ent").passage.tokens).startswith(
        "on @entitygout the @entityheart_failure and"
    )
    assert (one.passage.title, one.passage.sentences) == ((), (2, 8, 17))
    assert one.passage is other.passage
    assert bare.passage is cases[2].passage


def test_the_dataset_answer_comes_before_synonyms_and_case_and_blanks_do_not_count():
    number_of = passage_view(HAND.passage, "noent").number_of
    table = (
        (("MRI", "pain"), 2, "exact"),
        (("x", " Heart  FAILURE", "pain"), 0, "synonym"),
        (("x",), -1, "none"),
    )
    for answers, gold, kind in table:
        case = example("@placeholder", *answers)
        assert right_candidate(case, number_of) == (gold, kind)
        assert query_view(case, "noent").gold == gold


@pytest.mark.parametrize("setup", SETUPS)
def test_truncation_drops_what_is_not_kept_whole(setup):
    for case in split("x", 4).examples:
        whole = passage_view(case.passage, setup)
        for size in range(1, len(whole.tokens) + 2):
            part = passage_view(case.passage, setup, max_tokens=size)
            assert part.tokens == whole.tokens[:size]
            assert part.dropped == max(len(whole.tokens) - size, 0)
            kept = {}
            for phrase, spans in zip(whole.candidates, whole.positions, strict=True):
                if found := tuple(span for span in spans if span[1] <= size):
                    kept[phrase] = found
            assert dict(zip(part.candidates, part.positions, strict=True)) == kept
            assert part.cut == set(whole.candidates) - set(kept)
            assert list(part.number_of) == list(part.candidates)


def test_seen_answers_are_those_of_training_whatever_their_case():
    train = Split(
        "train",
        (example("@placeholder", "Heart  failure", "syn"), example("@placeholder", "absent")),
    )
    answers = ("heart failure", "Absent", "syn", "pain")
    test = Split("test", tuple(example("@placeholder", text, "absent") for text in answers))
    tagged = tag_seen({"train": train, "test": test})
    assert [case.tags for case in tagged["test"].examples] == [
        ("seen",),
        ("seen",),
        ("unseen",),
        ("unseen",),
    ]
    assert tagged["test"].facts["answers_of_train"] == {"seen": 2, "unseen": 2}
    assert tagged["train"] is train
