"""MetaMap's fielded output on made-up sentences, in the official layout."""

import gzip
import time

import pytest

from mednli_jax.corpora.demo import load_demo
from mednli_jax.errors import DataError
from mednli_jax.examples import NLIExample
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.knowledge.readers.metamap import best_per_tokens, read_metamap
from mednli_jax.knowledge.readers.spans import SENTENCE, Span, read_spans, token_offsets

PREMISE = "No chest pain, but heart and renal failure since heart attack."
TOKENS = tuple(PREMISE.replace(",", " ,").replace(".", " .").split())
EXAMPLES = (
    NLIExample("p1", PREMISE, "Has pain", "neutral", TOKENS, ("Has", "pain")),
    NLIExample("a.jpg#1r", "Heart attack", "Pain", "neutral", ("Heart", "attack"), ("Pain",)),
)
PAIN = '["Chest Pain"-tx-1-"chest pain"-noun-1]'


def at(words, text=PREMISE, first=0):
    return f"{text.index(words) + first}/{len(words)}"


def line(ident="p1-p", score="5.18", cui="C1", triggers=PAIN, positions=None, location="TX", trees="C01;C02.5"):
    positions = at("chest pain") if positions is None else positions
    return "|".join([ident, "MMI", score, "Some Name", cui, "[sosy,fndg]", triggers, location, positions, trees])


def read(folder, *lines, name="m.mmi", **options):
    path = folder / name
    content = "".join(f"{text}\n" for text in lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return read_metamap(path, EXAMPLES, **options)


def spans(found, uid="p1", side="premise"):
    return [(span.start, span.end, span.concept) for span in found.get((uid, side), ())]


def test_a_line_becomes_a_span_with_its_score_and_negation(tmp_path):
    found, facts = read(tmp_path, line())
    assert found == {("p1", "premise"): (Span(1, 3, "C1", 5.18, True),)}
    assert facts == {"file": "m.mmi", "spans": 1, "mentions": 1, "negated": 1, "outscored": 0, "first_position": 0}
    assert read(tmp_path, line(), name="m.txt.gz")[0] == found


@pytest.mark.parametrize(
    ("ident", "uid", "side"),
    [
        ("p1-p", "p1", "premise"),
        ("p1-h", "p1", "hypothesis"),
        ("p1.premise", "p1", "premise"),
        ("p1-hypothesis", "p1", "hypothesis"),
        ("'p1-p'", "p1", "premise"),  # a wrapper writes quotes
        ("a.jpg#1r-h", "a.jpg#1r", "hypothesis"),
    ],
)
def test_ids_say_pair_and_side(ident, uid, side, tmp_path):
    triggers = '["Pain"-tx-1-"pain"-noun-0]'
    text = {"p1": {"premise": PREMISE, "hypothesis": "Has pain"}, "a.jpg#1r": {"hypothesis": "Pain"}}[uid][side]
    positions = at("ain", text).replace("/3", "/1")  # a position inside the word suffices
    found, _ = read(tmp_path, line(ident, triggers=triggers, positions=positions))
    assert list(found) == [(uid, side)]
    ((span,),) = found.values()
    tokens = {"premise": TOKENS, "hypothesis": ["Has", "pain"] if uid == "p1" else ["Pain"]}[side]
    assert tokens[span.start].casefold() == "pain"


def test_one_line_names_several_places(tmp_path):
    """Semicolons separate triggers, and brackets hold the places of one trigger. Each trigger has its own negation."""
    first, second = PREMISE.index("heart"), PREMISE.rindex("heart")
    triggers = '["Heart"-tx-1-"heart"-noun-0,"Chest, NOS"-tx-1-"chest"-noun-1]'
    found, facts = read(tmp_path, line(triggers=triggers, positions=f"[{first}/5],[{second}/5];{at('chest')}"))
    assert [(s.start, s.end, s.negated) for s in found["p1", "premise"]] == [
        (1, 2, True),
        (5, 6, False),
        (10, 11, False),
    ]
    assert (facts["spans"], facts["negated"]) == (3, 1)


def test_a_text_in_pieces_covers_its_pieces_alone(tmp_path):
    """The parts of "heart ... failure" stand on both sides of "and renal"."""
    triggers = '["Heart failure"-tx-1-"heart failure"-noun-0]'
    parts = f"{at('heart')},{at('failure')}"
    assert spans(read(tmp_path, line(triggers=triggers, positions=parts))[0]) == [(5, 6, "C1"), (8, 9, "C1")]
    twice = f"[{parts}],[{at('chest')},{at('pain')}]"
    assert spans(read(tmp_path, line(triggers=triggers, positions=twice))[0]) == [
        (1, 3, "C1"),  # parts on neighbouring tokens become one span
        (5, 6, "C1"),
        (8, 9, "C1"),
    ]


def test_the_best_candidate_of_the_same_tokens(tmp_path):
    lines = [line(cui="C1", score="3.5"), line(cui="C2", score="7"), line(cui="C3", score="7.00")]
    found, facts = read(tmp_path, *lines)
    assert spans(found) == [(1, 3, "C2")]
    assert facts["outscored"] == 2
    nested = line(cui="C4", score="1", triggers='["Pain"-tx-1-"pain"-noun-0]', positions=at("pain"))
    assert spans(read(tmp_path, *lines, nested)[0]) == [(1, 3, "C2"), (2, 3, "C4")]
    assert best_per_tokens([Span(0, 1, "a", -2.0), Span(0, 1, "b", -1.0)]) == [Span(0, 1, "b", -1.0)]


def test_all_candidates_of_the_same_tokens_are_kept_where_asked_for(tmp_path):
    lines = [line(cui="C1", score="3.5"), line(cui="C2", score="7"), line(cui="C3", score="7.00")]
    found, facts = read(tmp_path, *lines, candidates="all")
    assert spans(found) == [(1, 3, "C1"), (1, 3, "C2"), (1, 3, "C3")]
    assert facts["outscored"] == 0


def test_a_file_of_another_corpus_is_refused_with_counts(tmp_path):
    for lines, partial in (([line(), line("p7-p"), line("p8-h")], False), ([line("p7-p"), line("p8-h")], True)):
        with pytest.raises(DataError, match=r"among the corpus's 2\b") as fault:
            read(tmp_path, *lines, partial=partial)
        assert (fault.value.file, fault.value.field) == ("m.mmi", "uid")


@pytest.mark.parametrize("elsewhere", [10, 11])
def test_a_file_of_the_same_pairs_with_other_sentences_is_refused_with_counts(elsewhere, tmp_path, capsys):
    """Up to half of 20 triggers may stand elsewhere, counted from 0 or from 1 but not from both."""
    lines = [line()] * (20 - elsewhere) + [line(positions=at("chest pain", first=1))] * 2
    lines += [line(positions=at("heart attack"))] * (elsewhere - 2)
    if elsewhere == 10:
        assert read(tmp_path, *lines)[1]["texts_elsewhere"] == 10
        assert "10 of 20" in capsys.readouterr().err
        # too few triggers to tell; counting from 1 finds two of them
        assert read(tmp_path, *lines[10:])[1]["texts_elsewhere"] == 8
        return
    with pytest.raises(DataError, match="11 of 20") as fault:
        read(tmp_path, *lines)
    assert (fault.value.file, fault.value.line, fault.value.field) == ("m.mmi", None, "triggers")
    assert "chest" not in str(fault.value)


def test_positions_from_one_are_seen_from_the_triggers(tmp_path):
    heart = '["Heart attack"-tx-1-"heart attack"-noun-0]'
    shifted = [
        line(positions=at("chest pain", first=1)),
        line(cui="C2", triggers=heart, positions=at("heart attack", first=1)),
    ]
    found, facts = read(tmp_path, *shifted)
    assert spans(found) == [(1, 3, "C1"), (10, 12, "C2")]
    assert facts["first_position"] == 1
    start = line("a.jpg#1r-p", triggers=heart, positions="1/12")  # counted from 0 it would end behind the sentence
    assert spans(read(tmp_path, start)[0], "a.jpg#1r") == [(0, 2, "C1")]


def test_other_layouts_of_the_line(tmp_path):
    expected = [(1, 3, "C1")]
    lite = f'p1-p|MMI|0.52|Chest pain|C1|[sosy]|"Chest Pain"-text-0-"chest pain"-NN-0|{at("chest pain")}|'
    assert spans(read(tmp_path, lite)[0]) == expected
    old = line(triggers='["Chest Pain"-tx-1-"chest pain"]', positions=at("chest pain").replace("/", ":"))
    assert spans(read(tmp_path, old)[0]) == expected
    parts = f"{at('heart')}^{at('failure')}".replace("/", ":")
    assert spans(read(tmp_path, line(positions=parts))[0]) == [(5, 6, "C1"), (8, 9, "C1")]
    assert spans(read(tmp_path, line(trees=""))[0]) == expected


def test_quotes_commas_and_bars_inside_a_trigger(tmp_path):
    odd = '["Pain, \\"chest\\", NOS"-tx-1-"chest pain"-noun-0,"A-B, C"-tx-2-"heart"-noun-1]'
    found, _ = read(tmp_path, line(triggers=odd, positions=f"{at('chest pain')};{at('heart')}"))
    assert [(s.start, s.negated) for s in found["p1", "premise"]] == [(1, False), (5, True)]
    bar = line(triggers='["Pain|Ache"-tx-1-"chest pain"-noun-1]')
    assert spans(read(tmp_path, bar)[0]) == [(1, 3, "C1")]


def test_without_a_trigger_for_each_place_only_unanimous_negation_counts(tmp_path):
    places = f"{at('chest pain')};{at('heart')};{at('renal')}"
    two = '["Pain"-tx-1-"pain"-noun-1,"Heart"-tx-1-"heart"-noun-%d]'
    for last, negated in ((0, False), (1, True)):
        found, _ = read(tmp_path, line(triggers=two % last, positions=places))
        assert {span.negated for span in found["p1", "premise"]} == {negated}


def test_acronym_lines_are_counted(tmp_path):
    acronym = "p1-p|{}|MI|myocardial infarction|1|2|3|21|33:2"
    found, facts = read(tmp_path, acronym.format("AA"), line(), "", acronym.format("UA"), acronym.format("AA"))
    assert spans(found) == [(1, 3, "C1")]
    assert (facts["lines_AA"], facts["lines_UA"]) == (2, 1)


def test_pairs_the_corpus_leaves_out_are_counted(tmp_path):
    _, facts = read(tmp_path, line(), line("p9-p", positions="900/3"), partial=True)
    assert (facts["mentions"], facts["other_pairs"]) == (1, 1)


BAD = {
    "a banner": "Processing 00000000.tx.1: quokka",
    "no CUI": line(cui=""),
    "no positions": line(positions=""),
    "half a bracket": line(positions="[3/5"),
    "an unknown pair": line("p9-p"),
    "past the sentence": line(positions="50/40"),
    "no length": line(positions="5/0"),
    "a score of letters": line(score="quokka"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_by_file_and_line(name, tmp_path):
    with pytest.raises(DataError) as caught:
        read(tmp_path, line(), BAD[name])
    assert (caught.value.file, caught.value.line) == ("m.mmi", 2)
    assert caught.value.fix
    assert "quokka" not in str(caught.value)
    assert "pain" not in str(caught.value)


@pytest.mark.parametrize("piece", ['"', '","', '"-tx-1-"', '"-noun-0,"', "["])
def test_a_line_made_to_be_slow_is_not(piece, tmp_path):
    begun = time.process_time()
    read(tmp_path, line(triggers=piece * (300_000 // len(piece))))
    assert time.process_time() - begun < 5


def test_tokens_characters_and_metamap_say_the_same_of_a_corpus(tmp_path):
    """The linker's mentions of the demo corpus are written in three formats and read back unchanged."""
    linker = Linker(read_mesh())
    splits = load_demo()
    examples = [example for split in splits.values() for example in split.examples][::7]
    expected, rows = {}, {"tokens.tsv": [], "characters.tsv": [], "out.mmi": []}
    for example in examples:
        for side, sentence in SENTENCE.items():
            text, tokens = sentence(example)
            offsets = token_offsets(text, tokens)
            assert all(first >= 0 for first, _ in offsets)
            for mention in linker.link(tokens):
                first, last = offsets[mention.start][0], offsets[mention.end - 1][1]
                given = (mention.start, mention.end, mention.concept)
                expected.setdefault((example.uid, side), []).append(given)
                rows["tokens.tsv"].append(f"{example.uid}\t{side}\t{given[0]}\t{given[1]}\t{given[2]}")
                rows["characters.tsv"].append(f"{example.uid}\t{side}\t{first}\t{last}\t{given[2]}")
                triggers = f'["X"-tx-1-"{text[first:last]}"-noun-0]'
                name, place = f"{example.uid}-{side[0]}", f"{first}/{last - first}"
                rows["out.mmi"].append(line(name, cui=given[2], triggers=triggers, positions=place))
    assert len(rows["out.mmi"]) > 1000
    rows["tokens.tsv"].insert(0, "uid\tside\tstart\tend\tconcept")
    rows["characters.tsv"].insert(0, "uid\tside\tstart_char\tend_char\tconcept")
    for name, content in rows.items():
        (tmp_path / name).write_text("\n".join(content) + "\n")
        found, _ = (read_metamap if name == "out.mmi" else read_spans)(tmp_path / name, examples)
        assert {key: [(s.start, s.end, s.concept) for s in spans] for key, spans in found.items()} == expected
