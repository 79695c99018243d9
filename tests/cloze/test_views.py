"""The three set-ups by hand and their common properties; the training filter; the split into seen
and unseen."""

from dataclasses import replace

import pytest
from support.cloze import clicr_passage, split
from support.tables import table_rows

from mednli_jax.cloze.clicr import parse_marked
from mednli_jax.cloze.setups import (
    SETUPS,
    loose_positions,
    passage_in_setup,
    query_in_setup,
    right_candidate,
    tag_seen,
    with_titles,
)
from mednli_jax.data.examples import Answer, ClozeExample, Split

TEXT = (
    "The BEG__Heart Failure__END and BEG__pain__END .\n"
    "No heart BEG__Pain__END or BEG__heart failure__END of BEG__MRI__END ."
)


def example(query="@placeholder", *answers, title="On BEG__gout__END", uid="q"):
    passage = clicr_passage("r", title, TEXT)
    marked = parse_marked(query)
    texts = []
    for text in answers:
        texts.append(Answer(text, origin="UMLS" if texts else "dataset"))
    blank = marked.blanks[0]
    return ClozeExample(
        uid,
        passage,
        marked.tokens,
        marked.entities,
        blank,
        tuple(texts),
    )


BY_HAND = example("BEG__MRI__END of BEG__Chest Wall__END shows @placeholder .", "pain")


def texts_of(view):
    return " ".join(view.passage.tokens), " ".join(view.query)


def test_in_the_set_up_noent_entities_are_plain_text():
    view = query_in_setup(BY_HAND, "noent")

    assert texts_of(view) == (
        "the heart failure and pain . no heart pain or heart failure of mri .",
        "mri of chest wall shows @placeholder .",
    )
    assert view.blank == 5
    assert view.names == {}
    assert view.passage.positions == (((1, 3), (10, 12)), ((4, 5), (8, 9)), ((13, 14),))


def test_loose_positions_are_the_words_of_a_candidate_anywhere_in_the_passage():
    view = passage_in_setup(BY_HAND.passage, "noent")

    heart_failure = loose_positions(view.tokens, view.candidates)[0]

    assert heart_failure == ((1, 2), (2, 3), (7, 8), (10, 11), (11, 12))


def test_in_the_set_up_ent_an_entity_is_a_token():
    view = query_in_setup(BY_HAND, "ent")

    assert texts_of(view) == (
        "the @entityheart_failure and @entitypain . no heart @entitypain or @entityheart_failure"
        " of @entitymri .",
        "@entitymri of @entitychest_wall shows @placeholder .",
    )
    assert view.blank == 4
    assert view.gold == 1
    assert view.passage.candidates == ("heart failure", "pain", "mri")
    assert view.passage.positions == (((1, 2), (9, 10)), ((3, 4), (7, 8)), ((11, 12),))


def test_in_the_set_up_anonym_entities_are_numbered_in_passage_then_query():
    view = query_in_setup(replace(BY_HAND, answers=(Answer("new thing"),)), "anonym")

    assert texts_of(view) == (
        "the @entity0 and @entity1 . no heart @entity1 or @entity0 of @entity2 .",
        "@entity2 of @entity3 shows @placeholder .",
    )
    assert view.names == {
        "heart failure": "@entity0",
        "pain": "@entity1",
        "mri": "@entity2",
        "chest wall": "@entity3",
    }
    assert view.gold == -1


def test_the_title_may_become_the_first_sentence():
    examples = (BY_HAND, replace(BY_HAND, uid="second"), example(title=""))

    titled, second, untitled = with_titles(Split("dev", examples, {"file": "f"})).examples

    view = query_in_setup(titled, "ent").passage
    assert view.candidates == ("gout", "heart failure", "pain", "mri")
    assert " ".join(view.tokens[:5]) == "on @entitygout the @entityheart_failure and"
    assert titled.passage.title == ()
    assert titled.passage.sentence_ends == (2, 8, 17)
    assert titled.passage is second.passage
    assert untitled.passage is examples[2].passage


@pytest.mark.parametrize(
    "answers, gold, kind",
    table_rows("""
        MRI/pain | 2 | exact
        x/ Heart  FAILURE/pain | 0 | synonym
        x | -1 | none
    """),
)
def test_the_datasets_answer_comes_before_synonyms_and_case_and_blanks_do_not_count(
    answers, gold, kind
):
    asked = example("@placeholder", *answers.split("/"))
    number_of = passage_in_setup(asked.passage, "noent").number_of

    assert right_candidate(asked, number_of) == (int(gold), kind)
    assert query_in_setup(asked, "noent").gold == int(gold)


@pytest.mark.parametrize("setup", SETUPS)
def test_truncation_drops_mentions_that_are_not_whole(setup):
    for passage in {case.passage for case in split("x", 4).examples}:
        whole = passage_in_setup(passage, setup)
        for size in range(1, len(whole.tokens) + 2):
            part = passage_in_setup(passage, setup, max_tokens=size)

            positions = {}
            for phrase, spans in zip(whole.candidates, whole.positions, strict=True):
                if inside := tuple(span for span in spans if span[1] <= size):
                    positions[phrase] = inside
            assert dict(zip(part.candidates, part.positions, strict=True)) == positions
            assert part.tokens == whole.tokens[:size]
            assert part.num_cut_tokens == max(len(whole.tokens) - size, 0)
            assert part.cut_candidates == set(whole.candidates) - positions.keys()
            assert list(part.number_of) == list(part.candidates)


def test_seen_answers_are_those_of_training_in_any_case():
    asked = "@placeholder"
    train = Split("train", (example(asked, "Heart  failure", "syn"), example(asked, "absent")))
    answers = ("heart failure", "Absent", "syn", "pain")
    test = Split("test", tuple(example(asked, answer, "absent") for answer in answers))

    tagged = tag_seen({"train": train, "test": test})

    tags = [tag for case in tagged["test"].examples for tag in case.tags]
    assert tags == ["seen", "seen", "unseen", "unseen"]
    assert tagged["train"] is train
