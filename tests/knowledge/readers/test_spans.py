"""Concepts found by other programs: read, placed on the right tokens, and refused with file and line."""

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest

from mednli_jax.errors import DataErrors, UserError
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
WORDS = ("zebrafish", "quokka", "axolotl", "narwhal", "wombat")


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
    """Each span is given by its words; the tokens were lower-cased, and quotes and brackets spelled another way."""
    wanted = {
        "Quokka fever": (3, 5),
        '"Quokka': (2, 4),
        "axolotl": (9, 10),
        "(axolotl)": (8, 11),
        "wombat": (7, 8),  # part of a token
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
        ("colour of gold", ("color", "of", "gold"), ["", "of", "gold"]),  # a tokeniser's own spelling
        ("a-b c", ("a", "b", "c"), ["a", "b", "c"]),
        ("İstanbul fever", ("i̇stanbul", "fever"), ["", "fever"]),  # longer in lower case than in the text
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
    "no header": ("p1\tpremise\t3\t5\tC1\n", "E-LINK-007", 1, "uid, side, start"),
    "a typo in the header": (HEADER + "\tnegatd\n", "E-LINK-007", 1, "negated"),
    "both kinds of positions": (HEADER + "\tstart_char\tend_char\n", "E-LINK-007", 1, "start_char"),
    "a column twice": (HEADER + "\tuid\n", "E-LINK-007", 1, "once"),
    "four cells": (f"{HEADER}\np1\tpremise\t3\t5\n", "E-LINK-008", 2, "one tab"),
    "no concept": (f"{HEADER}\np1\tpremise\t3\t5\t\n", "E-LINK-009", 2, "fill it in"),
    "no uid": (f"{HEADER}\n\tpremise\t3\t5\tC1\n", "E-LINK-009", 2, "fill it in"),
    "nothing": ("", "E-LINK-010", None, "write the file again"),
    "a header alone": (f"{HEADER}\n", "E-LINK-010", None, "write the file again"),
    "a position of letters": (f"{HEADER}\np1\tpremise\tquokka\t5\tC1\n", "E-LINK-012", 2, "count from 0"),
    "a position with a point": (f"{HEADER}\np1\tpremise\t3\t5.0\tC1\n", "E-LINK-012", 2, "count from 0"),
    "a position of 5000 digits": (f"{HEADER}\np1\tpremise\t3\t{'9' * 5000}\tC1\n", "E-LINK-012", 2, "count from 0"),
    "an unknown uid": (f"{HEADER}\np1\tpremise\t3\t5\tC1\np9\tpremise\t3\t5\tC1\n", "E-LINK-014", 3, "pairIDs"),
    "an unknown side": (f"{HEADER}\np1\tquokka\t3\t5\tC1\n", "E-LINK-015", 2, "premise or hypothesis"),
    "start after end": (f"{HEADER}\np1\tpremise\t5\t3\tC1\n", "E-LINK-016", 2, "after the span"),
    "an empty span": (f"{HEADER}\np1\tpremise\t3\t3\tC1\n", "E-LINK-016", 2, "after the span"),
    "a negative start": (f"{HEADER}\np1\tpremise\t-1\t3\tC1\n", "E-LINK-016", 2, "from 0"),
    "beyond the sentence": (f"{HEADER}\np1\thypothesis\t2\t4\tC1\n", "E-LINK-017", 2, "count tokens"),
    "a score of letters": (f"{HEADER}\tscore\np1\tpremise\t3\t5\tC1\tquokka\n", "E-LINK-018", 2, "number"),
    "an infinite score": (f"{HEADER}\tscore\np1\tpremise\t3\t5\tC1\tinf\n", "E-LINK-018", 2, "number"),
    "a negation of letters": (f"{HEADER}\tnegated\np1\tpremise\t3\t5\tC1\tquokka\n", "E-LINK-019", 2, "write 0, 1"),
    "Latin-1": (HEADER.encode() + b"\np1\tpremise\t3\t5\tC\xe9\n", "E-LINK-004", 2, "UTF-8"),
    "a NUL": (f"{HEADER}\np1\tpremise\t3\t5\tC\0\n", "E-LINK-005", 2, "UTF-8"),
    "a huge line": (f"{HEADER}\n" + "quokka" * (1 << 18), "E-LINK-006", 2, "what the file is"),
}
OBJECT = {"uid": "p1", "side": "premise", "start": 3, "end": 5, "concept": "C1"}
BAD_JSON = {
    "broken": ('{"uid": "quokka', "E-LINK-011"),
    "a list": ('["quokka"]', "E-LINK-011"),
    "too deep": ("[" * 100_000, "E-LINK-011"),
    "no end": (json.dumps({k: v for k, v in OBJECT.items() if k != "end"}), "E-LINK-013"),
    "a uid that is a number": (json.dumps(OBJECT | {"uid": 7}), "E-LINK-009"),
    "a side that is null": (json.dumps(OBJECT | {"side": None}), "E-LINK-009"),
    "a start that is true": (json.dumps(OBJECT | {"start": True}), "E-LINK-012"),
    "a start with a point": (json.dumps(OBJECT | {"start": 3.0}), "E-LINK-012"),
    "a list for a score": (json.dumps(OBJECT | {"score": ["quokka"]}), "E-LINK-018"),
    "an empty list for a score": (json.dumps(OBJECT | {"score": []}), "E-LINK-018"),
    "a score of 400 digits": (json.dumps(OBJECT | {"score": 10**400}), "E-LINK-018"),
    "a score that is true": (json.dumps(OBJECT | {"score": True}), "E-LINK-018"),
    "a list for a negation": (json.dumps(OBJECT | {"negated": ["quokka"]}), "E-LINK-019"),
}


def assert_no_words(text):
    assert not [word for word in WORDS if word in text.casefold()]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_told_by_file_and_line(name, tmp_path):
    text, code, line, fix = BAD[name]
    with pytest.raises(UserError) as error:
        read(tmp_path, text)
    told = str(error.value)
    assert told.startswith(f"{code} s.tsv{'' if line is None else f':{line}'}: ")
    assert fix in told.partition("Fix: ")[2]
    assert_no_words(told)


@pytest.mark.parametrize("name", BAD_JSON)
def test_a_bad_object_is_told_by_file_and_line(name, tmp_path):
    text, code = BAD_JSON[name]
    with pytest.raises(UserError) as error:
        read(tmp_path, f"{json.dumps(OBJECT)}\n{text}\n", "s.jsonl")
    assert str(error.value).startswith(f"{code} s.jsonl:2: ")
    assert "Fix: " in str(error.value)
    assert_no_words(str(error.value))


def test_a_missing_a_damaged_and_a_foreign_file(tmp_path):
    with pytest.raises(UserError, match=r"absent.tsv"):
        read_spans(tmp_path / "absent.tsv", EXAMPLES)
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(UserError, match=r"folder.tsv"):
        read_spans(tmp_path / "folder.tsv", EXAMPLES)
    with pytest.raises(UserError, match=r"s.tsv.gz"):
        read(tmp_path, gzip.compress(HEADER.encode() * 1000)[:-9], "s.tsv.gz")
    with pytest.raises(UserError, match=r"s.tsv.gz"):
        read(tmp_path, HEADER, "s.tsv.gz")


def test_thirty_faults_are_the_first_twenty_and_a_count(tmp_path):
    rows = "".join(f"p1\tpremise\t3\t{100 + n}\tC1\n" for n in range(30))
    with pytest.raises(DataErrors) as error:
        read(tmp_path, f"{HEADER}\n{rows}")
    *faults, last = str(error.value).splitlines()
    assert [line.split()[1] for line in faults] == [f"s.tsv:{number}:" for number in range(2, 22)]
    assert last == "... and 10 more problems of this kind."


ROWS = (f"{HEADER}\tscore", *(f"p1\tpremise\t{n}\t{n + 1}\tC1\t{n}" for n in (3, 5)))
GOOD = {"s.tsv": "".join(f"{row}\n" for row in ROWS), "s.jsonl": f"{json.dumps(OBJECT)}\n" * 3}
SPLINTERS = (b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b'"', b"{", b"]", b"NaN", b"\\ud800", b"1e999", b"-")


@pytest.mark.parametrize("name", GOOD)
def test_accidents_are_told_or_harmless(name, tmp_path):
    rng, told, content = np.random.default_rng(1), [], GOOD[name].encode()
    for _ in range(150):
        start = int(rng.integers(len(content) + 1))
        end = start + int(rng.integers(1, 30))
        damaged = (
            content[:start] + SPLINTERS[rng.integers(len(SPLINTERS))] + content[start:],
            content[:start] + content[end:],
            content[:start],
            content[:end] + content[start:],
        )[rng.integers(4)]
        try:
            found, _ = read(tmp_path, damaged, name)
            for spans in found.values():
                assert all(0 <= span.start < span.end <= len(TOKENS) for span in spans)
        except UserError as error:
            told.append(str(error))
    assert len(told) > 60
    assert all("Fix: " in text for text in told)
    assert_no_words("".join(told))
