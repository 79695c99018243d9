"""MetaMap's input is ASCII with one character for each original one, so positions fit the original sentence."""

import stat

import pytest

from mednli_jax.corpora.nli import metamap_input
from mednli_jax.errors import UsageError
from mednli_jax.examples import NLIExample
from mednli_jax.knowledge.readers.metamap import read_metamap

PREMISE = "Naïve T ½ of 38 °C – Ménière’s disease 日本"
EXAMPLES = (NLIExample("p1", PREMISE, "Plain", "neutral", tuple(PREMISE.split()), ("Plain",)),)


def test_every_character_becomes_one_ascii_character():
    written = metamap_input.ascii_of(PREMISE)
    assert written == "Naive T 1 of 38  C - Meniere's disease   "
    assert (len(written), written.isascii()) == (len(PREMISE), True)
    assert metamap_input.ascii_of("plain | ~ text") == "plain | ~ text"


def test_lines_and_changes_are_written_for_their_owner(tmp_path):
    folder = tmp_path / "out"
    assert metamap_input.write(EXAMPLES, folder) == {"sentences": 2, "changed_characters": 9}
    lines = (folder / metamap_input.LINES).read_text().splitlines()
    assert lines == [f"p1-p|{metamap_input.ascii_of(PREMISE)}", "p1-h|Plain"]
    header, *changes = (folder / metamap_input.CHANGES).read_text().splitlines()
    assert header == metamap_input.HEADER.strip()
    assert changes[0] == "p1\tpremise\t2\tU+00EF\ti"
    for change in changes:
        _, side, place, original, written = change.split("\t")
        assert (side, PREMISE[int(place)]) == ("premise", chr(int(original[2:], 16)))
        assert metamap_input.ascii_of(PREMISE)[int(place)] == written
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_positions_in_the_output_are_those_of_the_original(tmp_path):
    text = "Meniere's disease"
    start = metamap_input.ascii_of(PREMISE).index(text)
    trigger = f'["{text}"-tx-1-"{text}"-noun-0]'
    (tmp_path / "out.mmi").write_text(f"p1-p|MMI|5|Name|C1|[dsyn]|{trigger}|TX|{start}/{len(text)}|\n")
    found, _ = read_metamap(tmp_path / "out.mmi", EXAMPLES)
    (span,) = found["p1", "premise"]
    assert PREMISE.split()[span.start : span.end] == ["Ménière’s", "disease"]


def test_an_id_that_metamap_cannot_take_is_refused(tmp_path):
    with pytest.raises(UsageError):
        metamap_input.write([NLIExample("a|b", "x", "y", "neutral", ("x",), ("y",))], tmp_path)
