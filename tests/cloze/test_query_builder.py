"""Queries from case reports, against a report worked out by hand."""

import json
import runpy
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.ontologies import is_a_matrix

from mednli_jax.cloze.clicr import load
from mednli_jax.cloze.query_builder import (
    Mark,
    Sentence,
    build_queries,
    cleaned,
    divided,
    read_reports,
    repeats_passage,
    semantic_type,
)
from mednli_jax.data.examples import PLACEHOLDER, Answer, Entity
from mednli_jax.errors import UserError
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import read_mesh

SCRIPT = Path(__file__).parents[2] / "launch" / "build_queries.py"
REPORT = {
    "id": "r1",
    "title": "A case of BEG__heart failure__END",
    "specialty": "cardiology",
    "sentences": [
        "He had BEG__his dropsy__END and BEG__heart failure ( HF )__END .",
        {"text": "An echocardiogram proved it .", "entities": [{"start": 0, "end": 2}]},
        "Give BEG__digoxin__END early in the course .",
    ],
    "learning_points": [
        "BEG__The dropsy__END may point to BEG__heart failure__END .",
        {
            "text": "Give furosemide early in the course , with digoxin .",
            "entities": [
                {"start": 8, "end": 9, "type": "treatment"},
                {"start": 1, "end": 2, "id": "D2", "type": "treatment"},
            ],
        },
    ],
}


@pytest.fixture
def ontology():
    names = (
        ("Heart Failure", 0),
        ("Cardiac Failure", 0),
        ("heart failure", 0),
        ("Furosemide", 1),
        ("Frusemide", 1),
    )
    types, labels = ("C14.280.434", "D02.065|E02"), ("Heart Failure", "Furosemide")
    return Ontology(
        "toy", "1", ("D1", "D2"), labels, names, is_a_matrix([], 2), "0" * 64, types=types
    )


def written(path, *rows):
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8"
    )
    return path


def reports(tmp_path, *rows):
    return read_reports(written(tmp_path / "reports.jsonl", *rows))


def sentence(text, *marks):
    return Sentence(tuple(text.split()), tuple(Mark(*mark) for mark in marks))


@pytest.mark.parametrize(
    ("text", "mark", "expected"),
    [
        ("she had the fever today", (2, 4), "fever"),
        ("He had His Own dropsy", (2, 5), "Own dropsy"),
        ("heart failure ( HF ) came", (0, 5), "heart failure"),
        ("heart failure -LRB- HF -RRB- came", (0, 5), "heart failure"),
        ("heart failure ( NYHA ( III ) ) ( HF )", (0, 11), "heart failure"),
        (
            "heart failure ( HF ) crisis",
            (0, 6),
            "heart failure ( HF ) crisis",
        ),  # the bracket is not at the end
        ("( HF )", (0, 3), "( HF )"),  # a name that is all bracket stays
        ("skin cancer(s) came", (0, 2), "skin cancer(s)"),
        ("failure ) came", (0, 2), "failure )"),  # the bracket has no beginning
        ("those of them", (0, 1), None),  # a phrase of pronouns is no longer marked
    ],
)
def test_boundaries(text, mark, expected):
    found = cleaned(sentence(text, mark), Counter())
    assert found.tokens == tuple(text.split())
    assert [found.phrase(mark) for mark in found.marks] == [expected] * bool(expected)


@pytest.mark.parametrize(
    ("query", "passage", "expected"),
    [
        (
            "a @placeholder can lead to shock .",
            "this can lead to shock at night",
            True,
        ),  # the right side is longer
        ("a @placeholder can lead to shock .", "this can lead to a shock", False),
        ("early shock follows @placeholder .", "EARLY Shock follows sepsis", True),
        (
            "early shock follows @placeholder .",
            "nearly shock follows sepsis",
            False,
        ),  # only whole tokens match
        # the passage holds the shorter side only
        ("shock follows @placeholder after days of rest", "shock follows it", False),
        # both sides are equally long, and either counts
        ("early shock @placeholder late sepsis", "in late sepsis", True),
        ("early shock @placeholder late sepsis", "of early shock", True),
        ("@placeholder .", "anything", True),
    ],
)
def test_repetition(query, passage, expected):
    words = query.split()
    assert repeats_passage(words, words.index(PLACEHOLDER), f" {passage.lower()} ") is expected


def test_a_report_by_hand(tmp_path, ontology):
    split = build_queries(reports(tmp_path, REPORT), ontology)
    dropsy, failure, furosemide, digoxin = split.examples
    assert [example.uid for example in split.examples] == ["r1.1", "r1.2", "r1.3", "r1.4"]
    passage = dropsy.passage
    assert all(example.passage is passage for example in split.examples)
    assert (passage.uid, passage.specialty, " ".join(passage.title)) == (
        "r1",
        "cardiology",
        "A case of heart failure",
    )
    assert passage.title_entities == (Entity(3, 5),)
    assert passage.sentences == (11, 16, 23)
    phrases = [" ".join(passage.tokens[e.start : e.end]) for e in passage.entities]
    assert phrases == ["dropsy", "heart failure", "echocardiogram", "digoxin"]
    assert dropsy.query == ("The", PLACEHOLDER, "may", "point", "to", "heart", "failure", ".")
    assert (dropsy.blank, dropsy.query_entities) == (1, (Entity(5, 7),))
    assert dropsy.answers == (Answer("dropsy"),)  # the ontology has no such name
    assert failure.query == ("The", "dropsy", "may", "point", "to", PLACEHOLDER, ".")
    assert (failure.blank, failure.query_entities) == (5, (Entity(1, 2),))
    assert failure.answers[1:] == (Answer("Cardiac Failure", "D1", "problem", "UMLS"),)
    assert " ".join(furosemide.query) == f"Give {PLACEHOLDER} early in the course , with digoxin ."
    assert furosemide.answers[1:] == (Answer("Frusemide", "D2", "treatment", "UMLS"),)
    assert digoxin.query[digoxin.blank] == PLACEHOLDER
    assert digoxin.answers == (Answer("digoxin", "", "treatment"),)
    assert split.facts["concepts"] == {"by_id": 1, "by_name": 1, "none": 2}
    alone = build_queries(reports(tmp_path, REPORT))  # without an ontology
    assert {len(example.answers) for example in alone.examples} == {1}
    point = {
        "text": "Try heart failure in two weeks , then stop .",
        "entities": [{"start": 1, "end": 3, "id": "D2"}],
    }
    (example,) = build_queries(
        reports(tmp_path, {**REPORT, "learning_points": [point]}), ontology
    ).examples
    assert [answer.text for answer in example.answers] == [
        "heart failure",
        "Furosemide",
        "Frusemide",
    ]  # id before name
    point = {
        "text": "Give furosemide-like drugs in two weeks , then stop .",
        "entities": [{"start": 1, "end": 2}],
    }
    (example,) = build_queries(
        reports(tmp_path, {**REPORT, "learning_points": [point]}), ontology
    ).examples
    assert example.answers == (Answer("furosemide-like"),)  # a part of a token names no answer


def test_by_hand_what_was_left_out(tmp_path, ontology):
    points = [
        "Give BEG__furosemide__END early in the course .",  # the passage holds the text on the right of the blank
        "BEG__Dropsy__END is often BEG__dropsy__END and nothing else .",  # the query shows its answer
        "Use BEG__digoxin__END , BEG__furosemide__END or BEG__rest__END for that .",
    ]
    split = build_queries(reports(tmp_path, {**REPORT, "learning_points": points}), ontology)
    assert [example.uid for example in split.examples] == ["r1.4", "r1.5", "r1.6"]
    assert split.facts["dropped"] == {"repeats_passage": 1, "shows_answer": 2}
    assert split.facts["mended"] == {
        "function_words": 2,
        "parentheticals": 1,
        "no_longer_marked": 0,
    }
    assert split.facts["concepts"] == {"by_id": 0, "by_name": 1, "none": 2}


def test_semantic_types_of_mesh():
    ontology = read_mesh()
    names = {
        "Heart Failure": "problem",
        "Furosemide": "treatment",
        "Electrocardiography": "test",
        "Kenya": "",
    }
    assert {name: semantic_type(ontology, ontology.labels.index(name)) for name in names} == names


def test_splits_are_by_report_and_stable(tmp_path, ontology):
    rows = [{**REPORT, "id": f"r{n}"} for n in range(60)]
    split = build_queries(reports(tmp_path, *rows), ontology)
    parts = divided(split, 0.2, 0.3)
    of = {name: {example.passage.uid for example in part.examples} for name, part in parts.items()}
    assert sum(map(len, of.values())) == 60  # no report is in two splits
    assert min(map(len, of.values())) > 4
    fewer = divided(build_queries(reports(tmp_path, *rows[::2]), ontology), 0.2, 0.3)
    for name, part in fewer.items():
        assert {example.passage.uid for example in part.examples} <= of[name]
    with pytest.raises(UserError):
        divided(split, 0.5, 0.5)


def test_the_script_writes_a_corpus(tmp_path, monkeypatch, capsys):
    def run_script(*flags):
        monkeypatch.setattr(sys, "argv", ["build_queries.py", *map(str, flags)])
        return runpy.run_path(str(SCRIPT))["main"](), *capsys.readouterr()

    path = written(tmp_path / "reports.jsonl", *({**REPORT, "id": f"r{n}"} for n in range(20)))
    code, out, err = run_script(
        f"--reports={path}",
        f"--out={tmp_path / 'corpus'}",
        "--ontology=none",
        "--dev=0.2",
        "--test=0.2",
    )
    assert code == 0, err
    counts = json.loads(out)
    splits = load(tmp_path / "corpus")
    assert {name: len(split) for name, split in splits.items()} == counts["queries"]
    path.write_text("zebrafish\n")
    for out, file in (
        ("corpus", f"{tmp_path}/corpus/train1.0.json: "),
        ("other", "reports.jsonl:1: "),
    ):
        code, printed, err = run_script(f"--reports={path}", f"--out={tmp_path / out}")
        assert (code, printed, err.startswith(f"error: {file}")) == (2, "", True)
    assert {name: len(split) for name, split in load(tmp_path / "corpus").items()} == counts[
        "queries"
    ]
