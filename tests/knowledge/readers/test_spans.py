"""Concepts found by other programs are read, placed on the right tokens, or refused with file and line."""

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest
from made_up_files import assert_no_words

from mednli_jax.errors import DataError, DataErrors
from mednli_jax.examples import Mention, NLIExample
from mednli_jax.knowledge.readers.spans import Recognised, Span, read_spans, token_offsets, without_overlaps

PREMISE = 'He said "Quokka fever"; wombat-like (axolotl) narwhals.'
TOKENS = ("he", "said", "``", "quokka", "fever", "''", ";", "wombat-like", "(", "axolotl", ")", "narwhals", ".")
HYPOTHESIS = "Zebrafish fever."
EXAMPLES = (
    NLIExample("p1", PREMISE, HYPOTHESIS, "neutral", TOKENS, ("Zebrafish", "fever", ".")),
    NLIExample("p2", PREMISE, "No fever", "neutral", TOKENS, ("No", "fever")),
)
HEADER = "uid\tside\tstart\tend\tconcept"


def spans_file(folder, text, name="s.tsv"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(folder, text, name="s.tsv", **options):
    return read_spans(spans_file(folder, text, name), EXAMPLES, **options)


def mentions(found, uid="p1", side="premise"):
    return [(span.start, span.end, span.concept) for span in found.get((uid, side), ())]


# ---- reading ----


def test_token_positions_score_and_negation(tmp_path):
    rows = ["p1\tpremise\t3\t5\tC1\t0.5\t", "p2\thypothesis\t1\t2\tC2\t\t1", "p1\tpremise\t9\t10\tC3\t-2e1\t0"]
    found, facts = read(tmp_path, "\n".join([HEADER + "\tscore\tnegated", *rows]) + "\n")
    assert found == {
        ("p1", "premise"): (Span(3, 5, "C1", 0.5), Span(9, 10, "C3", -20.0)),
        ("p2", "hypothesis"): (Span(1, 2, "C2", 0.0, True),),
    }
    assert facts == {"file": "s.tsv", "spans": 3, "mentions": 3, "negated": 1, "outscored": 0}


def test_columns_may_stand_in_any_order(tmp_path):
    found, _ = read(tmp_path, "concept\tend\tstart\tside\tuid\r\nC1\t5\t3\tpremise\tp1\r\n")
    assert mentions(found) == [(3, 5, "C1")]


def test_json_lines_and_gzip_say_the_same(tmp_path):
    rows = [
        {"uid": "p1", "side": "premise", "start": 3, "end": 5, "concept": "C1", "score": 2, "negated": True},
        {"uid": "p2", "side": "hypothesis", "start": 0, "end": 2, "concept": "C2", "score": None, "negated": 0},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    expected = {("p1", "premise"): (Span(3, 5, "C1", 2.0, True),), ("p2", "hypothesis"): (Span(0, 2, "C2"),)}
    assert read(tmp_path, lines, "s.jsonl")[0] == expected
    assert read(tmp_path, gzip.compress(lines.encode()), "s.jsonl.gz")[0] == expected
    table = f"{HEADER}\tscore\tnegated\np1\tpremise\t3\t5\tC1\t2\ttrue\np2\thypothesis\t0\t2\tC2\t\t\n"
    assert read(tmp_path, gzip.compress(table.encode()), "s.tsv.gz")[0] == expected


def test_characters_become_the_tokens_they_touch(tmp_path):
    """Each span is given by its words. The tokens are in lower case and spell quotes and brackets in another way."""
    wanted = {
        "Quokka fever": (3, 5),
        '"Quokka': (2, 4),
        "axolotl": (9, 10),
        "(axolotl)": (8, 11),
        "wombat": (7, 8),  # a part of a token
        "narwhals.": (11, 13),
        "He": (0, 1),
    }
    rows = []
    for number, words in enumerate(wanted):
        start = PREMISE.index(words)
        rows.append(f"p1\tpremise\t{start}\t{start + len(words)}\tC{number}\t{number}")
    for number, (row, tokens) in enumerate(zip(rows, wanted.values(), strict=True)):
        found, facts = read(tmp_path, f"uid\tside\tstart_char\tend_char\tconcept\tscore\n{row}\n")
        assert mentions(found) == [(*tokens, f"C{number}")]
        assert "unplaced" not in facts


def test_characters_between_tokens_are_counted_and_left_out(tmp_path):
    blank = PREMISE.index(" ")
    found, facts = read(tmp_path, f"uid\tside\tstart_char\tend_char\tconcept\np1\tpremise\t{blank}\t{blank + 1}\tC1\n")
    assert found == {}
    assert (facts["unplaced"], facts["mentions"]) == (1, 0)


def test_negated_spans_are_kept_and_counted(tmp_path):
    text = f"{HEADER}\tnegated\np1\tpremise\t3\t5\tC1\t1\np1\tpremise\t0\t1\tC2\t0\n"
    found, facts = read(tmp_path, text)
    assert mentions(found) == [(0, 1, "C2"), (3, 5, "C1")]
    assert (facts["negated"], facts["mentions"]) == (1, 2)


def test_overlaps_go_to_the_best_score_then_the_longest_then_the_first():
    long, short, better = Span(0, 3, "long"), Span(1, 2, "short"), Span(2, 4, "better", 1.0)
    assert without_overlaps([short, long]) == [long]
    assert without_overlaps([short, long, better]) == [better, short]
    twin = Span(0, 3, "twin")
    assert without_overlaps([twin, long]) == [twin]
    assert without_overlaps([long, twin]) == [long]
    beside = Span(3, 5, "beside")
    assert set(without_overlaps([beside, long])) == {long, beside}


def test_random_spans_never_overlap_and_none_is_left_out_without_a_better_one():
    rng = np.random.default_rng(0)
    for _ in range(200):
        spans = []
        for number in range(rng.integers(1, 12)):
            start = int(rng.integers(0, 15))
            score = float(rng.integers(0, 3))
            spans.append(Span(start, start + int(rng.integers(1, 5)), f"C{number}", score))
        chosen = without_overlaps(spans)
        cover = np.zeros(20, int)
        for span in chosen:
            cover[span.start : span.end] += 1
        assert cover.max() == 1
        for span in set(spans) - set(chosen):
            rivals = [c for c in chosen if c.start < span.end and span.start < c.end]
            assert any((c.score, c.end - c.start) >= (span.score, span.end - span.start) for c in rivals)


def test_recognised_gives_mentions_in_order(tmp_path):
    text = f"{HEADER}\np1\tpremise\t9\t10\tC3\np1\tpremise\t3\t5\tC1\n"
    found = Recognised(None, *read(tmp_path, text))
    assert found.mentions("p1", "premise") == [Mention(3, 5, "C1"), Mention(9, 10, "C3")]
    assert found.mentions("p1", "hypothesis") == found.mentions("p9", "premise") == []


def test_pairs_the_corpus_leaves_out_are_counted(tmp_path):
    text = f"{HEADER}\np1\tpremise\t3\t5\tC1\np9\tpremise\t300\t500\tC1\np9\thypothesis\t0\t1\tC1\n"
    found, facts = read(tmp_path, text, partial=True)
    assert mentions(found) == [(3, 5, "C1")]
    assert facts["other_pairs"] == 2


# ---- tokens in their sentence ----


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("Chest pain.", ("chest", "pain", "."), ["Chest", "pain", "."]),
        ("  two   spaces ", ("two", "spaces"), ["two", "spaces"]),
        ("A “quote” here", ("A", "``", "quote", "''", "here"), ["A", "“", "quote", "”", "here"]),
        ("pt’s 1/2 — ok", ("pt", "'s", "1\\/2", "--", "ok"), ["pt", "’s", "1/2", "—", "ok"]),
        ("wait... so", ("wait", "...", "so"), ["wait", "...", "so"]),
        ("wait… so", ("wait", "...", "so"), ["wait", "…", "so"]),
        ("colour of gold", ("color", "of", "gold"), ["", "of", "gold"]),  # the tokeniser changed the spelling
        ("a-b c", ("a", "b", "c"), ["a", "b", "c"]),
        ("İstanbul fever", ("i̇stanbul", "fever"), ["", "fever"]),  # in lower case the text is longer
        ("the pain, the pain", ("the", "pain", ",", "the", "pain"), ["the", "pain", ",", "the", "pain"]),
        ("", (), []),
        ("x", ("y", "z"), ["", ""]),
    ],
)
def test_token_offsets(text, tokens, expected):
    offsets = token_offsets(text, tokens)
    assert [text[max(start, 0) : max(end, 0)] for start, end in offsets] == expected
    placed = [offset for offset in offsets if offset[0] >= 0]
    assert placed == sorted(placed)
    assert all(one[1] <= other[0] for one, other in pairwise(placed))


# ---- what is wrong ----

BAD = {
    "a typo in the header": (HEADER + "\tnegatd\n", 1),
    "both kinds of positions": (HEADER + "\tstart_char\tend_char\n", 1),
    "a column twice": (HEADER + "\tuid\n", 1),
    "no uid": (f"{HEADER}\n\tpremise\t3\t5\tC1\n", 2),
    "a header alone": (f"{HEADER}\n", None),
    "a position with a point": (f"{HEADER}\np1\tpremise\t3\t5.0\tC1\n", 2),
    "a position of 5000 digits": (f"{HEADER}\np1\tpremise\t3\t{'9' * 5000}\tC1\n", 2),
    "an unknown uid": (f"{HEADER}\np1\tpremise\t3\t5\tC1\np9\tpremise\t3\t5\tC1\n", 3),
    "an empty span": (f"{HEADER}\np1\tpremise\t3\t3\tC1\n", 2),
    "a negative start": (f"{HEADER}\np1\tpremise\t-1\t3\tC1\n", 2),
    "an infinite score": (f"{HEADER}\tscore\np1\tpremise\t3\t5\tC1\tinf\n", 2),
}
OBJECT = {"uid": "p1", "side": "premise", "start": 3, "end": 5, "concept": "C1"}
BAD_JSON = {
    "a list": '["quokka"]',
    "a uid that is a number": json.dumps(OBJECT | {"uid": 7}),
    "a side that is null": json.dumps(OBJECT | {"side": None}),
    "a start that is true": json.dumps(OBJECT | {"start": True}),
    "a start with a point": json.dumps(OBJECT | {"start": 3.0}),
    "a list for a score": json.dumps(OBJECT | {"score": ["quokka"]}),
    "an empty list for a score": json.dumps(OBJECT | {"score": []}),
    "a score of 400 digits": json.dumps(OBJECT | {"score": 10**400}),
    "a score that is true": json.dumps(OBJECT | {"score": True}),
    "a list for a negation": json.dumps(OBJECT | {"negated": ["quokka"]}),
}


def assert_refused(folder, text, name, line):
    with pytest.raises(DataError) as caught:
        read(folder, text, name)
    assert (caught.value.file, caught.value.line) == (name, line)
    assert caught.value.fix
    assert_no_words(str(caught.value))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_named_by_file_and_line(name, tmp_path):
    text, line = BAD[name]
    assert_refused(tmp_path, text, "s.tsv", line)


@pytest.mark.parametrize("name", BAD_JSON)
def test_a_bad_object_is_named_by_file_and_line(name, tmp_path):
    assert_refused(tmp_path, f"{json.dumps(OBJECT)}\n{BAD_JSON[name]}\n", "s.jsonl", 2)


def test_thirty_faults_are_the_first_twenty_and_a_count(tmp_path):
    rows = "".join(f"p1\tpremise\t3\t{100 + n}\tC1\n" for n in range(30))
    with pytest.raises(DataErrors) as caught:
        read(tmp_path, f"{HEADER}\n{rows}")
    assert [(error.line, error.field) for error in caught.value.errors] == [(n, "end") for n in range(2, 22)]
    assert len(str(caught.value).splitlines()) == 21
