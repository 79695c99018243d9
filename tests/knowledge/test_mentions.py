"""Concepts found by other programs, in a table or in MetaMap's output, are placed on the right
tokens or refused."""

import stat
import subprocess
from itertools import pairwise

import pytest
from support import files, mention_files

from mednli_jax.data.examples import Mention, NLIExample
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge import metamap as of_metamap
from mednli_jax.knowledge.mentions import Recognised, read_mentions
from mednli_jax.knowledge.metamap import ascii_of
from mednli_jax.knowledge.placing import sentence_of, token_offsets

HEADER = mention_files.SPANS_HEADER
PREMISE = mention_files.SPAN_PAIRS[0].premise


def read(folder, text, name="s.tsv", **options):
    return read_mentions(files.write(folder / name, text), mention_files.SPAN_PAIRS, **options)


def spans(found, uid="p1", side="premise"):
    return [(mention.start, mention.end, mention.concept) for mention in found.get((uid, side), ())]


def test_a_table_becomes_mentions(tmp_path):
    """Columns may stand in any order; lines may end as on Windows, and files may be gzipped."""
    table = "concept\tend\tstart\tside\tuid\tscore\tnegated\r\n"
    table += "C3\t10\t9\tpremise\tp1\t\t0\r\nC1\t5\t3\tpremise\tp1\t2e0\t1\r\nC2\t2\t1\thypothesis\tp2\t\t\r\n"
    found, facts = read(tmp_path, table, "s.tsv.gz")
    assert found == {
        ("p1", "premise"): (Mention(3, 5, "C1"), Mention(9, 10, "C3")),
        ("p2", "hypothesis"): (Mention(1, 2, "C2"),),
    }
    assert facts == {"file": "s.tsv.gz", "spans": 3, "mentions": 3, "negated": 1, "outscored": 0}
    assert [len(Recognised(None, found).mentions(uid, "premise")) for uid in ("p1", "p9")] == [2, 0]


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("Quokka fever", (3, 5)),
        ("axolotl", (9, 10)),
        ("(axolotl)", (8, 11)),
        ("wombat", (7, 8)),  # a part of a token
        ("narwhals.", (11, 13)),
        (" ", None),  # characters between tokens are counted
    ],
)
def test_characters_become_the_tokens_they_touch(tmp_path, words, tokens):
    """The tokens are in lower case and spell quotes and brackets in another way."""
    start = PREMISE.index(words)
    row = f"p1\tpremise\t{start}\t{start + len(words)}\tC1\n"
    found, facts = read(tmp_path, f"uid\tside\tstart_char\tend_char\tconcept\n{row}")
    assert spans(found) == ([(*tokens, "C1")] if tokens else [])
    assert facts.get("unplaced", 0) == (tokens is None)


def test_overlaps_go_to_the_best_score_then_the_longest_then_the_first(tmp_path):
    long, short, better, beside = (
        (0, 3, "long", 0),
        (1, 2, "short", 0),
        (2, 4, "better", 1),
        (3, 5, "beside", 0),
    )
    for rows, kept in (
        ([short, long], [long]),
        ([short, long, better], [short, better]),
        ([(0, 3, "twin", 0), long], [(0, 3, "twin", 0)]),
        ([beside, long], [long, beside]),
    ):
        lines = ["\t".join(map(str, ("p1", "premise", *row))) for row in rows]
        table = "\n".join((f"{HEADER}\tscore", *lines, ""))
        assert spans(read(tmp_path, table)[0]) == [row[:3] for row in kept]
        every, facts = read(tmp_path, table, candidates="all")
        assert (len(spans(every)), facts["outscored"]) == (len(rows), 0)


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("Chest pain.", ("chest", "pain", "."), ["Chest", "pain", "."]),
        ("A “quote” here", ("A", "``", "quote", "''", "here"), ["A", "“", "quote", "”", "here"]),
        ("pt’s 1/2 — ok", ("pt", "'s", "1\\/2", "--", "ok"), ["pt", "’s", "1/2", "—", "ok"]),
        ("wait… so", ("wait", "...", "so"), ["wait", "…", "so"]),
        (
            "colour of gold",
            ("color", "of", "gold"),
            ["", "of", "gold"],
        ),  # the tokeniser changed the spelling
        (
            "İstanbul fever",
            ("i̇stanbul", "fever"),
            ["", "fever"],
        ),  # in lower case the text is longer
        (
            "the pain, the pain",
            ("the", "pain", ",", "the", "pain"),
            ["the", "pain", ",", "the", "pain"],
        ),
        ("x", ("y", "z"), ["", ""]),
    ],
)
def test_token_offsets(text, tokens, expected):
    offsets = token_offsets(text, tokens)
    assert [text[max(start, 0) : max(end, 0)] for start, end in offsets] == expected
    placed = [offset for offset in offsets if offset[0] >= 0]
    assert placed == sorted(placed)
    assert all(one[1] <= other[0] for one, other in pairwise(placed))


LINE, AT = mention_files.mmi_line, mention_files.place


def metamap(folder, *lines, name="m.mmi", **options):
    path = files.write(folder / name, "".join(f"{text}\n" for text in lines))
    return read_mentions(path, mention_files.MMI_PAIRS, **options)


@pytest.mark.parametrize(
    ("ident", "sentence"),
    [
        ("p1-p", ("p1", "premise")),
        ("p1.premise", ("p1", "premise")),
        ("'p1-p'", ("p1", "premise")),  # a wrapper writes quotes
        ("a.jpg#1r-h", ("a.jpg#1r", "hypothesis")),
    ],
)
def test_ids_say_pair_and_side(ident, sentence, tmp_path):
    (pair,) = (pair for pair in mention_files.MMI_PAIRS if pair.uid == sentence[0])
    text = sentence_of(pair, sentence[1]).text
    positions = AT("ain", text).replace("/3", "/1")  # a position inside the word suffices
    found, _ = metamap(
        tmp_path, LINE(ident, triggers='["Pain"-tx-1-"pain"-noun-0]', positions=positions)
    )
    assert list(found) == [sentence]


HEART = '["Heart attack"-tx-1-"heart attack"-noun-0]'
FAILURE = f"{AT('heart')},{AT('failure')}"  # in two pieces: "and renal" stands between them
PLACES = f"{AT('chest pain')};{AT('heart')};{AT('renal')}"
TWO = '["Pain"-tx-1-"pain"-noun-1,"Heart"-tx-1-"heart"-noun-%d]'
NESTED = LINE(cui="C4", score="1", triggers='["Pain"-tx-1-"pain"-noun-0]', positions=AT("pain"))
CANDIDATES = [LINE(cui="C1", score="3.5"), LINE(cui="C2", score="7"), LINE(cui="C3", score="7.00")]
OLD = {
    "triggers": '["Chest Pain"-tx-1-"chest pain"]',
    "positions": AT("chest pain").replace("/", ":"),
}
QUOTED = '["Pain, \\"chest\\", NOS"-tx-1-"chest pain"-noun-0,"A-B, C"-tx-2-"heart"-noun-1]'
ONE = [(1, 3, "C1")]


@pytest.mark.parametrize(
    ("lines", "expected", "negated"),
    [
        # Semicolons separate triggers, and brackets hold the places of one trigger. Each trigger
        # has its own negation.
        ([LINE(triggers='["Heart"-tx-1-"heart"-noun-0,"Chest, NOS"-tx-1-"chest"-noun-1]',
               positions=f"[{AT('heart')}],[50/5];{AT('chest')}")], [(1, 2, "C1"), (5, 6, "C1"), (10, 11, "C1")], 1),
        ([LINE(triggers='["Heart failure"-tx-1-"heart failure"-noun-0]', positions=FAILURE)],
         [(5, 6, "C1"), (8, 9, "C1")], 0),
        # Parts on neighbouring tokens become one mention.
        ([LINE(triggers='["Heart failure"-tx-1-"heart failure"-noun-0]',
               positions=f"[{FAILURE}],[{AT('chest')},{AT('pain')}]")], [*ONE, (5, 6, "C1"), (8, 9, "C1")], 0),
        (CANDIDATES, [(1, 3, "C2")], 1),
        ([*CANDIDATES, NESTED], [(1, 3, "C2"), (2, 3, "C4")], 1),
        # MetaMap Lite, old releases, no tree codes.
        ([f'p1-p|MMI|0.52|Chest pain|C1|[sosy]|"Chest Pain"-text-0-"chest pain"-NN-0|{AT("chest pain")}|'], ONE, 0),
        ([LINE(**OLD)], ONE, 0),
        ([LINE(positions=FAILURE.replace("/", ":").replace(",", "^"))], [(5, 6, "C1"), (8, 9, "C1")], 2),
        ([LINE(trees="")], ONE, 1),
        # MetaMap Lite since 3.6.2rc4 ends a line with a bar.
        ([LINE() + "|"], ONE, 1),
        ([LINE(trees="") + "|"], ONE, 1),
        ([f'p1-p|MMI|0.52|Chest pain|C1|[sosy]|"Pain|Ache"-text-0-"chest pain"-NN-0|{AT("chest pain")}||'], ONE, 0),
        # Quotes, commas and bars inside a trigger.
        ([LINE(triggers=QUOTED, positions=f"{AT('chest pain')};{AT('heart')}")], [*ONE, (5, 6, "C1")], 1),
        ([LINE(triggers='["Pain|Ache"-tx-1-"chest pain"-noun-1]')], ONE, 1),
        # Without a trigger for each place only unanimous negation counts.
        ([LINE(triggers=TWO % 0, positions=PLACES)], [*ONE, (5, 6, "C1"), (7, 8, "C1")], 0),
        ([LINE(triggers=TWO % 1, positions=PLACES)], [*ONE, (5, 6, "C1"), (7, 8, "C1")], 3),
        # Positions from one are seen from the triggers.
        ([LINE(positions=AT("chest pain", first=1)),
          LINE(cui="C2", triggers=HEART, positions=AT("heart attack", first=1))], [*ONE, (10, 12, "C2")], 1),
    ],
)  # fmt: skip
def test_layouts_of_lines(tmp_path, lines, expected, negated):
    found, facts = metamap(tmp_path, *lines)
    assert spans(found) == expected
    assert facts["negated"] == negated


def test_acronyms_and_pairs_the_corpus_leaves_out_are_skipped(tmp_path):
    one, two = (f"p1-p|{kind}|MI|myocardial infarction|1|2|3|21|33:2" for kind in ("AA", "UA"))
    found, facts = metamap(
        tmp_path, one, LINE(), "", two, one, LINE("p9-p", positions="900/3"), partial=True
    )
    assert spans(found) == ONE
    assert (facts["mentions"], facts["other_pairs"]) == (1, 1)


SAID = """Pt's wife said "he's in pain", 'no' fever, can't say if pain is Crohn's disease"""
SAID_PAIR = NLIExample("p1", SAID, "Pain", "neutral", tuple(SAID.split()), ("Pain",))


@pytest.mark.parametrize(
    ("text", "number", "tokens"),
    [
        ("fever", 0, (7, 8)),
        ("pain", 0, (5, 6)),
        ("pain", 1, (11, 12)),
        ("disease", 0, (14, 15)),  # ends behind the end of the sentence
        ("Crohn\\'s disease", 0, (13, 15)),
    ],
)
def test_a_trigger_is_found_where_a_wrapper_escaped_the_quotes_before_it(
    text, number, tokens, tmp_path
):
    """pymetamap passes the repr of a sentence. In the hypothesis, the trigger shows that positions
    count from 1."""
    passed = repr(SAID)
    starts = [start for start in range(len(passed)) if passed.startswith(text, start)]
    lines = [
        LINE(
            "'p1-p'",
            triggers=f'["X"-tx-1-"{text}"-noun-0]',
            positions=f"{starts[number]}/{len(text)}",
        ),
        LINE("'p1-h'", triggers='["Pain"-tx-1-"pain"-noun-0]', positions="1/4"),
    ]
    path = files.write(tmp_path / "m.mmi", "".join(f"{line}\n" for line in lines))
    found, _ = read_mentions(path, [SAID_PAIR])
    assert spans(found) == [(*tokens, "C1")]


def test_the_fix_for_the_line_that_metamap_prints_first_makes_a_good_file(tmp_path):
    """It prints its command line on stdout, with --silent, too."""
    printed = (
        "/opt/bin/SKRrun.20 /opt/bin/metamap20.BINARY.Linux --lexicon db -Z 2020AA -N --silent"
    )
    with pytest.raises(DataError) as caught:
        metamap(tmp_path, printed, LINE())
    assert caught.value.line == 1
    command = caught.value.fix.partition("(")[2].rpartition(");")[0]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    found, _ = read_mentions(tmp_path / "lines.mmi", mention_files.MMI_PAIRS)
    assert spans(found) == ONE


@pytest.mark.parametrize("elsewhere", [10, 11])
def test_a_file_of_the_same_pairs_with_other_sentences_is_refused_with_counts(
    elsewhere, tmp_path, capsys
):
    """Up to half of 20 triggers may stand elsewhere, counted from 0 or from 1 but not from both."""
    lines = [LINE()] * (20 - elsewhere) + [LINE(positions=AT("chest pain", first=1))] * 2
    lines += [LINE(positions=AT("heart attack"))] * (elsewhere - 2)
    if elsewhere == 10:
        assert metamap(tmp_path, *lines)[1]["texts_elsewhere"] == 10
        assert "10 of 20" in capsys.readouterr().err
        # too few triggers to tell; counting from 1 finds two of them
        assert metamap(tmp_path, *lines[10:])[1]["texts_elsewhere"] == 8
        return
    with pytest.raises(DataError, match=r"^m\.mmi: 11 of 20"):
        metamap(tmp_path, *lines)


def test_a_file_of_another_corpus_is_refused_with_counts(tmp_path):
    for lines, partial in (
        ([LINE(), LINE("p7-p"), LINE("p8-h")], False),
        ([LINE("p7-p"), LINE("p8-h")], True),
    ):
        with pytest.raises(DataError, match=r"^m\.mmi:.* among the corpus's 2\b"):
            metamap(tmp_path, *lines, partial=partial)


FOREIGN = "Naïve T ½ of 38 °C – Ménière’s disease 日本"
FOREIGN_PAIRS = (NLIExample("p1", FOREIGN, "Plain", "neutral", tuple(FOREIGN.split()), ("Plain",)),)


def test_metamaps_input_has_an_ascii_character_for_each_original_one(tmp_path):
    written = ascii_of(FOREIGN)
    assert written == "Naive T 1 of 38  C - Meniere's disease   "
    assert (len(written), written.isascii()) == (len(FOREIGN), True)
    assert ascii_of("plain | ~ text") == "plain | ~ text"
    folder = tmp_path / "out"
    assert of_metamap.write_metamap_input(FOREIGN_PAIRS, folder) == (2, 9)
    assert (folder / of_metamap.LINES).read_text() == f"p1-p|{written}\np1-h|Plain\n"
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    # Positions in the output are those of the original sentence.
    text = "Meniere's disease"
    line = LINE(triggers=f'["{text}"-tx-1-"{text}"-noun-0]', positions=AT(text, written))
    found, _ = read_mentions(files.write(tmp_path / "out.mmi", line + "\n"), FOREIGN_PAIRS)
    (mention,) = found["p1", "premise"]
    assert FOREIGN.split()[mention.start : mention.end] == ["Ménière’s", "disease"]
    with pytest.raises(UsageError):
        of_metamap.write_metamap_input(
            [NLIExample("a|b", "x", "y", "neutral", ("x",), ("y",))], tmp_path
        )
