"""launch/data/mentions.py: files of other programs become a table whose mentions are at the right
tokens, or are refused."""

import json
import runpy
import sys

import pytest
from mentions import convert
from support.cases import cases
from support.commands import ROOT
from support.files import assert_private, write
from support.mention_files import MMI_PAIRS, mmi_line, place, split_of, triggers
from support.pair_files import write_own

from mednli_jax.data.examples import NLIExample
from mednli_jax.errors import DataError
from mednli_jax.knowledge.mentions import FIELDS, read_mentions
from mednli_jax.nli.read.readers import load_nli

NOTE = MMI_PAIRS[0].premise
CHEST = place("chest pain")
START, END = NOTE.index("chest pain"), NOTE.index(", but")


def convert_lines(folder, *lines, form="mmi", pairs=MMI_PAIRS, name="input"):
    path = write(folder / name, "".join(f"{line}\n" for line in lines))
    return convert(form, path, split_of(*pairs))


def concepts_at_words(folder, table, pairs=MMI_PAIRS):
    """{the words of a mention: its concept} of the premise p1, as the package reads the table."""
    lines = ["\t".join(map(str, row)) for row in (FIELDS, *table.rows)]
    path = write(folder / "mentions.tsv", "".join(f"{line}\n" for line in lines))
    mentions, _ = read_mentions(path, split_of(*pairs))
    tokens = pairs[0].premise_tokens
    return {" ".join(tokens[m.start : m.end]): m.concept for m in mentions["p1", "premise"]}


# -- MMI --

LITE = f'p1-p|MMI|0.52|Chest pain|C1|[sosy]|"Chest Pain"-text-0-"chest pain"-NN-0|{CHEST}|'


@cases(
    "text",
    {
        "without a location": LITE,
        "without a location, a bar in a trigger": LITE.replace("Chest Pain", "Pain|Ache") + "|",
        "with a bar at the end": f"{mmi_line()}|",
        "with a bar at the end, without codes": f"{mmi_line(trees='')}|",
        "with colons": LITE.replace(CHEST, CHEST.replace("/", ":")),
    },
)
def test_lines_of_metamap_lite_are_converted(tmp_path, text):
    table = convert_lines(tmp_path, text)
    assert table.rows == [("train", "p1", "premise", START, END, "C1")]


def test_positions_of_a_wrapper_count_from_one(tmp_path):
    heart_attack = mmi_line(
        "'p1-p'", "7", "C2", triggers("heart attack"), place("heart attack", first=1)
    )
    table = convert_lines(tmp_path, mmi_line(positions=place("chest pain", first=1)), heart_attack)

    concepts = {"chest pain": "C1", "heart attack": "C2"}
    assert concepts_at_words(tmp_path, table) == concepts


QUOTES = """Pt's wife said "he's in pain", 'no' fever, can't say if pain is Crohn's disease"""


@pytest.mark.parametrize(
    "phrase, number, words",
    [
        ("fever", 0, "fever,"),
        ("pain", 0, 'pain",'),
        ("pain", 1, "pain"),
        ("disease", 0, "disease"),  # ends behind the end of the sentence
        ("Crohn\\'s disease", 0, "Crohn's disease"),
    ],
)
def test_a_trigger_is_placed_where_a_wrapper_escaped_the_quotes_before_it(
    tmp_path, phrase, number, words
):
    """pymetamap passes the repr of a sentence."""
    pairs = [NLIExample("p1", QUOTES, "Pain", "neutral", tuple(QUOTES.split()), ("Pain",))]
    before = repr(QUOTES).split(phrase)[: number + 1]
    positions = f"{len(phrase.join(before))}/{len(phrase)}"
    line = mmi_line("'p1-p'", triggers=triggers(phrase), positions=positions)

    table = convert_lines(tmp_path, line, pairs=pairs)

    assert concepts_at_words(tmp_path, table, pairs) == {words: "C1"}


# -- other forms --

BRAT = f"""T1\tMMLite {START} {END}\tchest pain
N1\tReference T1 Score:5.18\t5.18
N2\tReference T1 ConceptId:C1\tChest Pain
T2\tDisease 19 24;35 42\theart failure
N3\tReference T2 UMLS:C2\tHeart failure
T3\tSign 0 2\tNo
#1\tAnnotatorNotes T1\tis ignored
"""
BIOC = f"""<collection><document><id>p1-p</id><passage><offset>0</offset>
<annotation id="0"><infon key="type">Sign</infon><infon key="CUI">C1</infon>
<location offset="{START}" length="10"/><text>chest pain</text></annotation>
<annotation id="1"><infon key="identifier">C2</infon>
<location offset="19" length="5"/><location offset="35" length="7"/><text>heart failure</text>
</annotation>
<annotation id="2"><infon key="type">Sign</infon><location offset="0" length="2"/>
<text>no</text></annotation></passage></document></collection>
"""
QUICKUMLS = {
    "id": "p1-p",
    "matches": [
        [
            {"start": START, "end": END, "ngram": "chest pain", "cui": "C9", "similarity": 0.8},
            {"start": START, "end": END, "ngram": "chest pain", "cui": "C1", "similarity": 1.0},
        ],
        [{"start": 19, "end": 24, "ngram": "heart", "cui": "C2", "similarity": 1.0}],
    ],
}
SCISPACY = {
    "id": "p1-p",
    "text": NOTE.lower(),
    "ents": [
        {"start": START, "end": END, "label": "ENTITY", "kb_id": "C1"},
        {"start": 19, "end": 24, "label": "ENTITY"},
    ],
}


@cases(
    "form, name, content, concepts",
    {
        "brat": ("brat", "in/p1-p.ann", BRAT, "C1 C2 C2 Sign"),
        "bioc": ("bioc", "in.xml", BIOC, "C1 C2 C2 Sign"),
        "quickumls": ("quickumls", "in.jsonl", json.dumps(QUICKUMLS), "C1 C2"),
        "scispacy": ("scispacy", "in.jsonl", json.dumps(SCISPACY), "C1 ENTITY"),
    },
)
def test_files_of_other_programs_are_converted(tmp_path, form, name, content, concepts):
    path = write(tmp_path / name, content)

    table = convert(form, path.parent if form == "brat" else path, split_of(*MMI_PAIRS))

    words = ("chest pain", "heart", "failure", "No")
    expected = dict(zip(words, concepts.split(), strict=False))
    assert concepts_at_words(tmp_path, table) == expected


# -- what is refused --


@cases(
    "form, name, content, message",
    {
        "no lines": ("mmi", "in", "", "of 0 entities"),
        "malformed positions": ("mmi", "in", f"{mmi_line(positions='x')}\n", "in:1: .*positions"),
        "an unknown sentence": ("mmi", "in", f"{mmi_line('p9-p')}\n", "sentence"),
        "another text": ("scispacy", "in", json.dumps(SCISPACY | {"text": "x" * 60}), "of 2 .* 0 "),
        "no annotations": ("brat", "in/p1-p.ann", "T1\tSign\n", "form brat"),
        "no folder of annotations": ("brat", "in/p1-p.txt", "", r"^in: is no folder .* \.ann"),
        "no XML": ("bioc", "in", "x", "form bioc"),
        "other fields": ("quickumls", "in", '{"id": "p1-p"}', "form quickumls"),
    },
)
def test_an_input_of_another_form_or_of_other_sentences_is_refused(
    tmp_path, form, name, content, message
):
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=message):
        convert(form, path.parent if form == "brat" else path, split_of(*MMI_PAIRS))


def test_entities_at_another_place_are_left_out(tmp_path):
    ents = [*SCISPACY["ents"], {"start": 29, "end": 34, "label": "ENTITY"}]
    text = NOTE.replace("renal", "other")
    row = json.dumps(SCISPACY | {"ents": ents, "text": text})

    table = convert_lines(tmp_path, row, form="scispacy")

    assert (len(table.rows), table.left_out) == (2, 1)


# -- the command --


SENTENCES = ("The patient has heart failure and chest pain.", "The patient has heart disease.")
REAL = (
    'train0-p|MMI|3.60|heart failure|C0018801|[dsyn]|"heart failure"-text-0-"heart failure"-NN-0|'
    "text|16/13|C14.280|\n"
    'train0-p|MMI|3.60|chest pain|C0008031|[dsyn]|"chest pain"-text-0-"chest pain"-NN-0|'
    "text|34/10|C14.280|\n"
    'train0-h|MMI|3.60|heart disease|C0018799|[dsyn]|"heart disease"-text-0-"heart disease"-NN-0|'
    "text|16/13|C14.280|\n"
)


def test_the_script_converts_a_real_file_of_metamap_lite_for_its_owner(
    tmp_path, monkeypatch, capsys
):
    """The package reads the lines without the bar at their end as MetaMap's."""
    pairs = [(*SENTENCES, label) for label in ("entailment", "neutral")]
    write_own(tmp_path / "pairs", train=pairs, dev=pairs, test=pairs)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mml.mmi", REAL)
    flags = ("--config=esim_kd:file", "--config.data.dir=pairs", "--form=mmi", "--input=mml.mmi")
    monkeypatch.setattr(sys, "argv", ["script", *flags, "--out=mentions.tsv"])
    script = ROOT / "launch" / "data" / "mentions.py"

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")

    assert ended.value.code == 0, capsys.readouterr().err
    assert "3 mentions, 0 left out: mentions.tsv" in capsys.readouterr().out
    assert_private(tmp_path / "mentions.tsv")
    splits = load_nli("file", tmp_path / "pairs")
    without_bar = write(tmp_path / "without_bar.mmi", REAL.replace("|\n", "\n"))
    expected = read_mentions(without_bar, splits).mentions
    assert read_mentions(tmp_path / "mentions.tsv", splits).mentions == expected
