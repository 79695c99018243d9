"""Concepts found by other programs, in a table or in MetaMap's output, are placed on the right
tokens or refused."""

import json
import stat
import subprocess
from dataclasses import replace
from itertools import pairwise

import pytest
from support.cases import cases
from support.files import write
from support.mention_files import (
    HEADER,
    MMI_PAIRS,
    SPAN_PAIRS,
    mention_row,
    place,
    split_of,
    triggers,
)
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


# -- tables and JSON lines --

P1, P2 = SPAN_PAIRS
SPLITS = split_of(P1) | split_of(P2, name="dev")
ROWS = (
    mention_row("train", P1, "axolotl", "C3"),
    mention_row("train", P1, "Quokka fever", "C1"),
    mention_row("dev", P2, "fever", "C2", "hypothesis"),
)


def read_table(folder, *rows, name="s.tsv", splits=SPLITS, **options):
    path = write(folder / name, "".join(f"{row}\n" for row in rows))
    return read_mentions(path, splits, **options)


def as_json(row):
    """The row as a JSON line, with numbers as numbers."""
    fields = dict(zip(HEADER.split(), row.split("\t"), strict=True))
    return json.dumps(fields | {"start": int(fields["start"]), "note": "is ignored"})


REVERSED = ("\t".join([*reversed(row.split("\t")), "ignored\r"]) for row in (HEADER, *ROWS))


@cases(
    "name, lines",
    {
        "in any order, with line ends of Windows": ("s.tsv.gz", tuple(REVERSED)),
        "JSON lines": ("s.jsonl", tuple(map(as_json, ROWS))),
    },
)
def test_a_table_and_json_lines_name_pairs_characters_and_concepts(tmp_path, name, lines):
    mentions, facts = read_table(tmp_path, *lines, name=name)

    assert spans(mentions) == "3:5 C1, 9:10 C3"
    assert spans(mentions, "p2", "hypothesis") == "1:2 C2"
    assert facts == {"file": name, "spans": 3, "mentions": 3}
    recognised = Recognised(None, mentions)
    assert len(recognised.mentions("p1", "premise")) == 2
    assert len(recognised.mentions("p9", "premise")) == 0


def test_the_split_of_a_row_tells_pairs_apart_whose_ids_count_from_0_in_each(tmp_path):
    first, second = (replace(P1, uid=f"{split}:0") for split in ("train", "dev"))
    splits = split_of(first) | split_of(second, name="dev")
    rows = [mention_row("train", replace(P1, uid="0"), "axolotl", "C1")]
    rows.append(mention_row("dev", replace(P1, uid="0"), "Quokka", "C2"))
    rows.append(mention_row("dev", second, "narwhals", "C3"))

    mentions, _ = read_table(tmp_path, HEADER, *rows, splits=splits)

    assert spans(mentions, "train:0") == "9:10 C1"
    assert spans(mentions, "dev:0") == "3:4 C2, 11:12 C3"


def test_a_pair_of_another_split_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"^s\.tsv:3: 1 of the pairs"):
        read_table(tmp_path, HEADER, ROWS[0], mention_row("dev", P1, "axolotl", "C1"))


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
    mentions, _ = read_table(tmp_path, HEADER, mention_row("train", P1, words, "C1"))
    assert spans(mentions) == tokens


def test_characters_between_tokens_are_counted(tmp_path):
    mentions, facts = read_table(tmp_path, HEADER, mention_row("train", P1, " ", "C1"))

    assert mentions == {}
    assert facts["unplaced"] == 1


def test_of_concepts_of_the_same_words_the_first_counts_beside_those_of_other_words(tmp_path):
    concepts = {"C1": "fever", "C2": "fever", "C3": "Quokka fever"}
    rows = [mention_row("train", P1, words, concept) for concept, words in concepts.items()]

    assert spans(read_table(tmp_path, HEADER, *rows)[0]) == "3:5 C3, 4:5 C1"
    mentions, _ = read_table(tmp_path, HEADER, *rows, candidates="all")
    assert spans(mentions) == "3:5 C3, 4:5 C1, 4:5 C2"


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
    return read_mentions(path, split_of(*pairs), **options)


@pytest.mark.parametrize(
    "ident, uid, side",
    table_rows("""
        p1-p | p1 | premise
        a.jpg#1r-h | a.jpg#1r | hypothesis
    """),
)
def test_the_id_of_a_line_of_metamap_says_pair_and_side(tmp_path, ident, uid, side):
    (pair,) = (pair for pair in MMI_PAIRS if pair.uid == uid)
    positions = place("ain", sentence_of(pair, side).text)

    mentions, _ = read_metamap(tmp_path, line(ident, triggers=triggers("Ain"), positions=positions))

    assert list(mentions) == [(uid, side)]


CHEST = place("chest pain")
HEART = place("heart")
RENAL = place("renal")
FAILURE = f"{HEART},{place('failure')}"  # in two pieces: "and renal" stands between them


@pytest.mark.parametrize(
    "phrases, positions, placed",
    table_rows(f"""
        # Semicolons separate triggers, and brackets hold the places of one trigger.
        Heart/Chest | [{HEART}],[50/5];{place("chest")} | 1:2 C1, 5:6 C1, 10:11 C1
        Heart failure | {FAILURE} | 5:6 C1, 8:9 C1
        # Pieces on neighbouring tokens become one mention.
        Chest pain | {place("chest")},{place("pain")} | 1:3 C1
        Chest pain | [{FAILURE}],[{place("chest")},{place("pain")}] | 1:3 C1, 5:6 C1, 8:9 C1
        # without a trigger for each place
        Pain/Heart | {CHEST};{HEART};{RENAL} | 1:3 C1, 5:6 C1, 7:8 C1
    """),
)
def test_pieces_and_places_of_triggers_become_mentions(tmp_path, phrases, positions, placed):
    of_line = line(triggers=triggers(*phrases.split("/")), positions=positions)

    assert spans(read_metamap(tmp_path, of_line)[0]) == placed


OLD = line(triggers='["Chest Pain"-tx-1-"chest pain"]').replace(CHEST, CHEST.replace("/", ":"))
OLD_PIECES = line(positions=FAILURE.replace("/", ":").replace(",", "^"))
BAR = line(triggers='["Pain|Ache"-tx-1-"chest pain"-noun-1]')
NOS = '["Pain, \\"chest\\", NOS"-tx-1-"chest pain"-noun-0,"A-B, C"-tx-2-"heart"-noun-1]'


@pytest.mark.parametrize(
    "text, placed",
    table_rows(f"""
        {line(trees="")} | 1:3 C1
        {OLD} | 1:3 C1
        {OLD_PIECES} | 5:6 C1, 8:9 C1
        # quotes, commas and bars in a trigger
        {line(triggers=NOS, positions=f"{CHEST};{HEART}")} | 1:3 C1, 5:6 C1
        {BAR} | 1:3 C1
    """),
)
def test_lines_of_every_release_of_metamap_are_read(tmp_path, text, placed):
    assert spans(read_metamap(tmp_path, text)[0]) == placed


@pytest.mark.parametrize("text", [f"{line()}|", line().replace("|TX|", "|")])
def test_lines_of_metamap_lite_are_refused_with_the_script_that_converts_them(tmp_path, text):
    with pytest.raises(DataError, match=r"^m\.mmi:1: .*launch/data/mentions\.py"):
        read_metamap(tmp_path, text)


def test_of_concepts_in_one_place_the_best_scored_counts_beside_those_in_its_parts(tmp_path):
    candidates = [line(cui=cui, score=score) for cui, score in {"C1": "3.5", "C2": "7"}.items()]
    twin = line(cui="C3", score="7.00")
    pain = line(cui="C4", score="1", triggers=triggers("Pain"), positions=place("pain"))

    mentions, _ = read_metamap(tmp_path, *candidates, twin, pain)

    assert spans(mentions) == "1:3 C2, 2:3 C4"


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


def test_the_fix_for_the_line_that_metamap_prints_first_makes_a_good_file(tmp_path):
    """It prints its command line on stdout, with --silent, too."""
    printed = "/opt/bin/SKRrun.20 /opt/bin/metamap20.BINARY.Linux --lexicon db -Z 2020AA -N"

    with pytest.raises(DataError) as caught:
        read_metamap(tmp_path, printed, line())

    assert caught.value.line == 1
    command = caught.value.fix.partition("(")[2].rpartition(");")[0]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    mentions, _ = read_mentions(tmp_path / "lines.mmi", split_of(*MMI_PAIRS))
    assert spans(mentions) == CHEST_PAIN


def lines_of_other_sentences(elsewhere):
    """20 lines, of which so many have a trigger that stands elsewhere."""
    good = [line()] * (20 - elsewhere)
    return good + [line(positions=place("heart attack"))] * elsewhere


def test_up_to_half_of_the_triggers_may_stand_elsewhere(tmp_path, capsys):
    _, facts = read_metamap(tmp_path, *lines_of_other_sentences(10))

    assert facts["texts_elsewhere"] == 10
    assert "10 of 20" in capsys.readouterr().err


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
