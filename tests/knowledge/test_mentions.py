"""Concepts found by other programs, in a table or in MetaMap's output, are placed on the right
tokens or refused."""

import stat
import subprocess
from itertools import pairwise

import pytest
from support.files import write
from support.mention_files import MMI_PAIRS, SPAN_PAIRS, SPANS_HEADER, place
from support.mention_files import mmi_line as line
from support.tables import table_rows

from mednli_jax.data.examples import NLIExample
from mednli_jax.data.text import token_offsets
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge.mentions import (
    LINES,
    Recognised,
    ascii_of,
    read_mentions,
    sentence_of,
    write_metamap_input,
)


def spans(mentions, uid="p1", side="premise"):
    """The mentions of a sentence as "start:end CONCEPT, start:end CONCEPT"."""
    of_sentence = mentions.get((uid, side), ())
    return ", ".join(f"{m.start}:{m.end} {m.concept}" for m in of_sentence)


# -- tables --


def read_table(folder, *rows, name="s.tsv", **options):
    path = write(folder / name, "".join(f"{row}\n" for row in rows))
    return read_mentions(path, SPAN_PAIRS, **options)


def test_a_table_has_its_columns_in_any_order_and_may_be_gzipped_with_line_ends_of_windows(
    tmp_path,
):
    mentions, facts = read_table(
        tmp_path,
        "concept\tend\tstart\tside\tuid\tscore\tnegated\r",
        "C3\t10\t9\tpremise\tp1\t\t0\r",
        "C1\t5\t3\tpremise\tp1\t2e0\t1\r",
        "C2\t2\t1\thypothesis\tp2\t\t\r",
        name="s.tsv.gz",
    )

    assert spans(mentions) == "3:5 C1, 9:10 C3"
    assert spans(mentions, "p2", "hypothesis") == "1:2 C2"
    assert facts == {"file": "s.tsv.gz", "spans": 3, "mentions": 3, "negated": 1, "outscored": 0}
    recognised = Recognised(None, mentions)
    assert len(recognised.mentions("p1", "premise")) == 2
    assert len(recognised.mentions("p9", "premise")) == 0


def place_characters(folder, words):
    """The result for a mention of these words, given by its characters."""
    start = SPAN_PAIRS[0].premise.index(words)
    header = "uid\tside\tstart_char\tend_char\tconcept"
    return read_table(folder, header, f"p1\tpremise\t{start}\t{start + len(words)}\tC1")


@pytest.mark.parametrize(
    "words, tokens",
    table_rows("""
        Quokka fever | 3:5 C1
        axolotl | 9:10 C1
        (axolotl) | 8:11 C1
        # a part of a token
        wombat | 7:8 C1
        narwhals. | 11:13 C1
    """),
)
def test_characters_become_the_tokens_they_touch(tmp_path, words, tokens):
    """The tokens are in lower case and spell quotes and brackets in another way."""
    assert spans(place_characters(tmp_path, words)[0]) == tokens


def test_characters_between_tokens_are_counted(tmp_path):
    mentions, facts = place_characters(tmp_path, " ")

    assert mentions == {}
    assert facts["unplaced"] == 1


@pytest.mark.parametrize(
    "rows, best",
    table_rows("""
        1:2:short:0 0:3:long:0 | 0:3 long
        1:2:short:0 0:3:long:0 2:4:better:1 | 1:2 short, 2:4 better
        0:3:twin:0 0:3:long:0 | 0:3 twin
        3:5:beside:0 0:3:long:0 | 0:3 long, 3:5 beside
    """),
)
def test_overlaps_go_to_the_best_score_then_the_longest_then_the_first(tmp_path, rows, best):
    lines = [f"p1\tpremise\t{row}".replace(":", "\t") for row in rows.split()]
    table = (f"{SPANS_HEADER}\tscore", *lines)

    assert spans(read_table(tmp_path, *table)[0]) == best
    mentions, facts = read_table(tmp_path, *table, candidates="all")
    assert len(mentions["p1", "premise"]) == len(lines)
    assert facts["outscored"] == 0


@pytest.mark.parametrize(
    "text, tokens, places",
    table_rows(r"""
        Chest pain. | chest pain . | Chest pain .
        A “quote” here | A `` quote '' here | A “ quote ” here
        pt’s 1/2 — ok | pt 's 1\/2 -- ok | pt ’s 1/2 — ok
        wait… so | wait ... so | wait … so
        the pain, the pain | the pain , the pain | the pain , the pain
        # "_" is a token without a place: the tokeniser changed its spelling or its length.
        colour of gold | color of gold | _ of gold
        İstanbul fever | i̇stanbul fever | _ fever
        x | y z | _ _
    """),
)
def test_tokens_are_placed_in_the_text_in_their_order(text, tokens, places):
    offsets = token_offsets(text, tokens.split())

    placed = [offset for offset in offsets if offset[0] >= 0]
    assert " ".join(text[start:end] if start >= 0 else "_" for start, end in offsets) == places
    assert all(before[1] <= after[0] for before, after in pairwise(placed))


# -- MetaMap's output --

CHEST_PAIN = "1:3 C1"  # the mention of mmi_line


def read_metamap(folder, *lines, pairs=MMI_PAIRS, **options):
    path = write(folder / "m.mmi", "".join(f"{text}\n" for text in lines))
    return read_mentions(path, pairs, **options)


def triggers(*phrases):
    """MetaMap's triggers; "-" before a phrase negates it."""
    texts = []
    for phrase in phrases:
        text = phrase.lstrip("-")
        texts.append(f'"{text}"-tx-1-"{text}"-noun-{int(text != phrase)}')
    return f"[{','.join(texts)}]"


@pytest.mark.parametrize(
    "ident, uid, side",
    table_rows("""
        p1-p | p1 | premise
        p1.premise | p1 | premise
        # a wrapper writes quotes
        'p1-p' | p1 | premise
        a.jpg#1r-h | a.jpg#1r | hypothesis
    """),
)
def test_the_id_of_a_line_of_metamap_says_pair_and_side(tmp_path, ident, uid, side):
    (pair,) = (pair for pair in MMI_PAIRS if pair.uid == uid)
    positions = place("ain", sentence_of(pair, side).text)
    inside_the_word = positions.replace("/3", "/1")

    mentions, _ = read_metamap(
        tmp_path, line(ident, triggers=triggers("Pain"), positions=inside_the_word)
    )

    assert list(mentions) == [(uid, side)]


CHEST = place("chest pain")
HEART = place("heart")
RENAL = place("renal")
FAILURE = f"{HEART},{place('failure')}"  # in two pieces: "and renal" stands between them


@pytest.mark.parametrize(
    "phrases, positions, placed, negated",
    table_rows(f"""
        # Semicolons separate triggers, and brackets hold the places of one trigger. Each trigger
        # has its own negation.
        Heart/-Chest | [{HEART}],[50/5];{place("chest")} | 1:2 C1, 5:6 C1, 10:11 C1 | 1
        Heart failure | {FAILURE} | 5:6 C1, 8:9 C1 | 0
        # Pieces on neighbouring tokens become one mention.
        Chest pain | {place("chest")},{place("pain")} | 1:3 C1 | 0
        Chest pain | [{FAILURE}],[{place("chest")},{place("pain")}] | 1:3 C1, 5:6 C1, 8:9 C1 | 0
        # Without a trigger for each place only unanimous negation counts.
        -Pain/Heart | {CHEST};{HEART};{RENAL} | 1:3 C1, 5:6 C1, 7:8 C1 | 0
        -Pain/-Heart | {CHEST};{HEART};{RENAL} | 1:3 C1, 5:6 C1, 7:8 C1 | 3
    """),
)
def test_places_and_negations_belong_to_triggers(tmp_path, phrases, positions, placed, negated):
    of_line = line(triggers=triggers(*phrases.split("/")), positions=positions)

    mentions, facts = read_metamap(tmp_path, of_line)

    assert spans(mentions) == placed
    assert facts["negated"] == int(negated)


OLD = line(triggers='["Chest Pain"-tx-1-"chest pain"]').replace(CHEST, CHEST.replace("/", ":"))
OLD_PIECES = line(positions=FAILURE.replace("/", ":").replace(",", "^"))
LITE = f'p1-p|MMI|0.52|Chest pain|C1|[sosy]|"Chest Pain"-text-0-"chest pain"-NN-0|{CHEST}|'
BAR = line(triggers='["Pain|Ache"-tx-1-"chest pain"-noun-1]')
NOS = '["Pain, \\"chest\\", NOS"-tx-1-"chest pain"-noun-0,"A-B, C"-tx-2-"heart"-noun-1]'


@pytest.mark.parametrize(
    "text, placed, negated",
    table_rows(f"""
        {line(trees="")} | 1:3 C1 | 1
        {OLD} | 1:3 C1 | 0
        {OLD_PIECES} | 5:6 C1, 8:9 C1 | 2
        {LITE} | 1:3 C1 | 0
        # MetaMap Lite since 3.6.2rc4 ends a line with a bar.
        {line()}| | 1:3 C1 | 1
        {line(trees="")}| | 1:3 C1 | 1
        # quotes, commas and bars in a trigger
        {line(triggers=NOS, positions=f"{CHEST};{HEART}")} | 1:3 C1, 5:6 C1 | 1
        {BAR} | 1:3 C1 | 1
        {LITE.replace("Chest Pain", "Pain|Ache")}| | 1:3 C1 | 0
    """),
)
def test_lines_of_every_release_of_metamap_are_read(tmp_path, text, placed, negated):
    mentions, facts = read_metamap(tmp_path, text)

    assert spans(mentions) == placed
    assert facts["negated"] == int(negated)


def test_of_concepts_in_one_place_the_best_scored_counts_beside_those_in_its_parts(tmp_path):
    candidates = [line(cui=cui, score=score) for cui, score in {"C1": "3.5", "C2": "7"}.items()]
    twin = line(cui="C3", score="7.00")
    pain = line(cui="C4", score="1", triggers=triggers("Pain"), positions=place("pain"))

    mentions, facts = read_metamap(tmp_path, *candidates, twin, pain)

    assert spans(mentions) == "1:3 C2, 2:3 C4"
    assert facts["negated"] == 1


def test_positions_from_one_are_seen_from_the_triggers(tmp_path):
    positions = place("heart attack", first=1)
    heart_attack = line(cui="C2", triggers=triggers("heart attack"), positions=positions)

    mentions, _ = read_metamap(tmp_path, line(positions=place("chest pain", first=1)), heart_attack)

    assert spans(mentions) == "1:3 C1, 10:12 C2"


def test_acronyms_and_pairs_that_the_corpus_leaves_out_are_skipped(tmp_path):
    acronym = "p1-p|AA|MI|myocardial infarction|1|2|3|21|33:2"

    mentions, facts = read_metamap(
        tmp_path,
        acronym,
        line(),
        "",
        acronym.replace("AA", "UA"),
        line("p9-p", positions="900/3"),
        partial=True,
    )

    assert spans(mentions) == CHEST_PAIN
    assert facts["mentions"] == 1
    assert facts["other_pairs"] == 1


QUOTES = """Pt's wife said "he's in pain", 'no' fever, can't say if pain is Crohn's disease"""


@pytest.mark.parametrize(
    "phrase, number, tokens",
    [
        ("fever", 0, "7:8 C1"),
        ("pain", 0, "5:6 C1"),
        ("pain", 1, "11:12 C1"),
        ("disease", 0, "14:15 C1"),  # ends behind the end of the sentence
        ("Crohn\\'s disease", 0, "13:15 C1"),
    ],
)
def test_a_trigger_is_placed_where_a_wrapper_escaped_the_quotes_before_it(
    tmp_path, phrase, number, tokens
):
    """pymetamap passes the repr of a sentence. In the hypothesis, the trigger shows that positions
    count from 1."""
    pair = NLIExample("p1", QUOTES, "Pain", "neutral", tuple(QUOTES.split()), ("Pain",))
    before = repr(QUOTES).split(phrase)[: number + 1]
    start = len(phrase.join(before))
    lines = [
        line("'p1-p'", triggers=triggers(phrase), positions=f"{start}/{len(phrase)}"),
        line("'p1-h'", triggers=triggers("Pain"), positions="1/4"),
    ]

    mentions, _ = read_metamap(tmp_path, *lines, pairs=[pair])

    assert spans(mentions) == tokens


def test_the_fix_for_the_line_that_metamap_prints_first_makes_a_good_file(tmp_path):
    """It prints its command line on stdout, with --silent, too."""
    printed = "/opt/bin/SKRrun.20 /opt/bin/metamap20.BINARY.Linux --lexicon db -Z 2020AA -N"

    with pytest.raises(DataError) as caught:
        read_metamap(tmp_path, printed, line())

    assert caught.value.line == 1
    command = caught.value.fix.partition("(")[2].rpartition(");")[0]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    mentions, _ = read_mentions(tmp_path / "lines.mmi", MMI_PAIRS)
    assert spans(mentions) == CHEST_PAIN


def lines_of_other_sentences(elsewhere):
    """20 lines, of which so many have a trigger that stands elsewhere, and 2 of these from 1."""
    good = [line()] * (20 - elsewhere)
    from_one = [line(positions=place("chest pain", first=1))] * 2
    return good + from_one + [line(positions=place("heart attack"))] * (elsewhere - 2)


def test_up_to_half_of_the_triggers_may_stand_elsewhere(tmp_path, capsys):
    lines = lines_of_other_sentences(10)

    assert read_metamap(tmp_path, *lines)[1]["texts_elsewhere"] == 10
    assert "10 of 20" in capsys.readouterr().err
    # too few triggers to tell; counting from 1 finds two of them
    assert read_metamap(tmp_path, *lines[10:])[1]["texts_elsewhere"] == 8


def test_a_file_of_the_same_pairs_with_other_sentences_is_refused_with_counts(tmp_path):
    with pytest.raises(DataError, match=r"^m\.mmi: 11 of 20"):
        read_metamap(tmp_path, *lines_of_other_sentences(11))


@pytest.mark.parametrize(
    "idents, partial", [("p1-p p7-p p8-h", False), ("p7-p p8-h", True)], ids=["whole", "part"]
)
def test_a_file_of_another_corpus_is_refused_with_counts(tmp_path, idents, partial):
    with pytest.raises(DataError, match=r"^m\.mmi:.* among the corpus's 2\b"):
        read_metamap(tmp_path, *map(line, idents.split()), partial=partial)


# -- MetaMap's input --

FOREIGN = "Naïve T ½ of 38 °C – Ménière’s disease 日本"
FOREIGN_PAIRS = (NLIExample("p1", FOREIGN, "Plain", "neutral", tuple(FOREIGN.split()), ("Plain",)),)


@pytest.mark.parametrize(
    "text, ascii_text",
    [
        (FOREIGN, "Naive T 1 of 38  C - Meniere's disease   "),
        ("plain | ~ text", "plain | ~ text"),
    ],
)
def test_metamaps_input_has_an_ascii_character_for_each_original_one(text, ascii_text):
    assert ascii_of(text) == ascii_text
    assert len(ascii_text) == len(text)


def test_metamaps_input_is_private_and_has_a_line_for_each_sentence(tmp_path):
    folder = tmp_path / "out"

    assert write_metamap_input(FOREIGN_PAIRS, folder) == (2, 9)

    assert (folder / LINES).read_text() == f"p1-p|{ascii_of(FOREIGN)}\np1-h|Plain\n"
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_positions_in_metamaps_output_are_those_of_the_original_sentence(tmp_path):
    phrase = "Meniere's disease"
    positions = place(phrase, ascii_of(FOREIGN))

    mentions, _ = read_metamap(
        tmp_path, line(triggers=triggers(phrase), positions=positions), pairs=FOREIGN_PAIRS
    )

    (mention,) = mentions["p1", "premise"]
    assert FOREIGN.split()[mention.start : mention.end] == ["Ménière’s", "disease"]


def test_a_uid_with_a_bar_is_refused_for_metamaps_input(tmp_path):
    with pytest.raises(UsageError):
        write_metamap_input([NLIExample("a|b", "x", "y", "neutral", ("x",), ("y",))], tmp_path)
