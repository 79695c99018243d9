"""Queries from case reports, against a report worked out by hand."""

import json
from collections import Counter

import build_queries as script
import pytest
from build_queries import (
    Mark,
    Sentence,
    build_queries,
    cleaned,
    divided,
    read_reports,
    repeats_passage,
    semantic_type,
)
from support.cloze import mark, marked
from support.commands import refused, succeeds
from support.files import contents, lines, write
from support.ontologies import small
from support.tables import table_rows

from mednli_jax.cloze.clicr import load
from mednli_jax.data.examples import PLACEHOLDER, Answer, Entity
from mednli_jax.errors import UserError
from mednli_jax.knowledge.load import load_ontology

FUROSEMIDE = {"start": 1, "end": 2, "id": "D2", "type": "treatment"}
DIGOXIN = {"start": 8, "end": 9, "type": "treatment"}
REPORT = {
    "id": "r1",
    "title": f"A case of {mark('heart failure')}",
    "specialty": "cardiology",
    "sentences": [
        f"He had {mark('his dropsy')} and {mark('heart failure ( HF )')} .",
        {"text": "An echocardiogram proved it .", "entities": [{"start": 0, "end": 2}]},
        f"Give {mark('digoxin')} early in the course .",
    ],
    "learning_points": [
        f"{mark('The dropsy')} may point to {mark('heart failure')} .",
        {
            "text": "Give furosemide early in the course , with digoxin .",
            "entities": [DIGOXIN, FUROSEMIDE],
        },
    ],
}
ONTOLOGY = small(
    (),
    ("Heart Failure", "Furosemide"),
    ids=("D1", "D2"),
    names=(
        ("Heart Failure", 0),
        ("Cardiac Failure", 0),
        ("heart failure", 0),
        ("Furosemide", 1),
        ("Frusemide", 1),
    ),
    types=("C14.280.434", "D02.065|E02"),
)


@pytest.fixture
def build(tmp_path):
    """Builds the queries of a report with these learning points, or with its own."""

    def build_report(*points, ontology=ONTOLOGY):
        report = {**REPORT, "learning_points": points} if points else REPORT
        path = write(tmp_path / "reports.jsonl", lines(report))
        return build_queries(read_reports(path), ontology)

    return build_report


@pytest.mark.parametrize(
    "text, phrase",
    table_rows("""
        she had [the fever] today | fever
        He had [His Own dropsy] | Own dropsy
        [heart failure ( HF )] came | heart failure
        [heart failure -LRB- HF -RRB-] came | heart failure
        [heart failure ( NYHA ( III ) ) ( HF )] | heart failure
        # the bracket is not at the end
        [heart failure ( HF ) crisis] | heart failure ( HF ) crisis
        # a name that is all bracket stays
        [( HF )] | ( HF )
        [skin cancer(s)] came | skin cancer(s)
        # the bracket has no beginning
        [failure )] came | failure )
    """),
)
def test_a_phrase_loses_words_of_grammar_before_and_brackets_behind_it(text, phrase):
    tokens, (span,) = marked(text)

    sentence = cleaned(Sentence(tokens, (Mark(span.start, span.end),)), Counter())

    assert sentence.tokens == tokens
    assert [sentence.phrase(of_phrase) for of_phrase in sentence.marks] == [phrase]


def test_a_phrase_of_pronouns_is_no_longer_marked():
    sentence = Sentence(("those", "of", "them"), (Mark(0, 1),))

    assert cleaned(sentence, Counter()).marks == ()


@pytest.mark.parametrize(
    "query, passage, repeats",
    table_rows("""
        # the right side is longer
        a @placeholder can lead to shock . | this can lead to shock at night | yes
        a @placeholder can lead to shock . | this can lead to a shock | no
        early shock follows @placeholder . | EARLY Shock follows sepsis | yes
        # only whole tokens match
        early shock follows @placeholder . | nearly shock follows sepsis | no
        # the passage holds the shorter side only
        shock follows @placeholder after days of rest | shock follows it | no
        # both sides are equally long, and either counts
        early shock @placeholder late sepsis | in late sepsis | yes
        early shock @placeholder late sepsis | of early shock | yes
        @placeholder . | anything | yes
    """),
)
def test_a_query_repeats_the_passage_where_it_holds_the_longer_side(query, passage, repeats):
    words = query.split()
    blank = words.index(PLACEHOLDER)

    assert repeats_passage(words, blank, f" {passage.lower()} ") == (repeats == "yes")


def test_the_passage_of_a_case_report_is_that_worked_out_by_hand(build):
    examples = build().examples

    passage = examples[0].passage
    assert all(example.passage is passage for example in examples)
    assert passage.uid == "r1"
    assert passage.specialty == "cardiology"
    assert " ".join(passage.title) == "A case of heart failure"
    assert passage.title_entities == (Entity(3, 5),)
    assert passage.sentence_ends == (11, 16, 23)
    phrases = [" ".join(passage.tokens[span.start : span.end]) for span in passage.entities]
    assert phrases == ["dropsy", "heart failure", "echocardiogram", "digoxin"]


def test_the_queries_of_a_case_report_are_those_worked_out_by_hand(build):
    split = build()

    assert [f"{example.uid} {' '.join(example.query)}" for example in split.examples] == [
        "r1.1 The @placeholder may point to heart failure .",
        "r1.2 The dropsy may point to @placeholder .",
        "r1.3 Give @placeholder early in the course , with digoxin .",
        "r1.4 Give furosemide early in the course , with @placeholder .",
    ]
    dropsy, failure, furosemide, digoxin = split.examples
    assert [example.blank for example in split.examples] == [1, 5, 1, 8]
    assert dropsy.query_entities == (Entity(5, 7),)
    assert failure.query_entities == (Entity(1, 2),)
    assert dropsy.answers == (Answer("dropsy"),)  # the ontology has no such name
    assert failure.answers[1:] == (Answer("Cardiac Failure", "D1", "problem", "UMLS"),)
    assert furosemide.answers[1:] == (Answer("Frusemide", "D2", "treatment", "UMLS"),)
    assert digoxin.answers == (Answer("digoxin", "", "treatment"),)
    assert split.facts["concepts"] == {"by_id": 1, "by_name": 1, "none": 2}


def test_without_an_ontology_a_query_has_its_own_answer_alone(build):
    split = build(ontology=None)

    assert {len(example.answers) for example in split.examples} == {1}


@pytest.mark.parametrize(
    "text, entity, answers",
    [
        (
            "Try heart failure in two weeks , then stop .",
            {"start": 1, "end": 3, "id": "D2"},
            "heart failure/Furosemide/Frusemide",
        ),
        # a part of a token names no answer
        (
            "Give furosemide-like drugs in two weeks , then stop .",
            {"start": 1, "end": 2},
            "furosemide-like",
        ),
    ],
    ids=["id-before-name", "part-of-a-token"],
)
def test_synonyms_are_those_of_the_id_then_of_the_whole_name(build, text, entity, answers):
    (example,) = build({"text": text, "entities": [entity]}).examples

    assert "/".join(answer.text for answer in example.answers) == answers


def test_queries_that_repeat_the_passage_or_show_their_answer_are_dropped_and_counted(build):
    split = build(
        f"Give {mark('furosemide')} early in the course .",  # repeats the passage
        f"{mark('Dropsy')} is often {mark('dropsy')} and nothing else .",  # shows its answer
        f"Use {mark('digoxin')} , {mark('furosemide')} or {mark('rest')} for that .",
    )

    facts = split.facts
    assert [example.uid for example in split.examples] == ["r1.4", "r1.5", "r1.6"]
    assert facts["dropped"] == {"repeats_passage": 1, "shows_answer": 2}
    assert facts["mended"] == {"function_words": 2, "parentheticals": 1, "no_longer_marked": 0}
    assert facts["concepts"] == {"by_id": 0, "by_name": 1, "none": 2}


@pytest.mark.parametrize(
    "name, kind",
    table_rows("""
        Heart Failure | problem
        Furosemide | treatment
        Electrocardiography | test
        Kenya |
    """),
)
def test_the_semantic_type_follows_the_tree_of_mesh(name, kind):
    mesh = load_ontology("mesh")

    assert semantic_type(mesh, mesh.labels.index(name)) == kind


def write_reports(folder, numbers):
    reports = [{**REPORT, "id": f"r{number}"} for number in numbers]
    return write(folder / "reports.jsonl", lines(*reports))


def reports_of_splits(folder, numbers):
    split = build_queries(read_reports(write_reports(folder, numbers)), ONTOLOGY)
    reports = {}
    for name, part in divided(split, 0.2, 0.3).items():
        reports[name] = {example.passage.uid for example in part.examples}
    return reports


def test_a_report_is_in_one_split_which_other_reports_do_not_change(tmp_path):
    reports = reports_of_splits(tmp_path, range(60))
    fewer = reports_of_splits(tmp_path, range(0, 60, 2))

    assert sum(map(len, reports.values())) == 60
    assert min(map(len, reports.values())) > 4
    for name, of_split in fewer.items():
        assert of_split <= reports[name]


def test_shares_that_leave_no_training_queries_are_refused(build):
    with pytest.raises(UserError):
        divided(build(), 0.5, 0.5)


def flags_of(reports, out):
    return f"--reports={reports}", f"--out={out}", "--ontology=none", "--dev=.2", "--test=.2"


def test_the_script_writes_a_corpus_in_the_layout_of_clicr(tmp_path):
    flags = flags_of(write_reports(tmp_path, range(20)), tmp_path / "corpus")
    out, _ = succeeds(script, *flags)

    sizes = {name: len(split) for name, split in load(tmp_path / "corpus").items()}
    assert json.loads(out)["queries"] == sizes


def test_the_script_of_queries_overwrites_no_corpus(tmp_path):
    flags = flags_of(write_reports(tmp_path, range(20)), tmp_path)
    succeeds(script, *flags)
    before = contents(tmp_path)

    err = refused(script, *flags)

    assert err.startswith(f"error: {tmp_path}/train1.0.json: ")
    assert contents(tmp_path) == before


def test_the_script_names_the_line_of_a_bad_report(tmp_path):
    reports = write(tmp_path / "reports.jsonl", "zebrafish\n")

    err = refused(script, *flags_of(reports, tmp_path / "corpus"))

    assert err.startswith("error: reports.jsonl:1: ")
