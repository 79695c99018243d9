"""CliCR's reader on small made-up files: what it reads, what it refuses and where, and how little memory it takes."""

import copy
import gzip
import io
import json

import pytest

from mednli_jax.corpora.cloze import clicr
from mednli_jax.corpora.cloze import files as cloze_files
from mednli_jax.corpora.cloze.clicr import check_disjoint, count_queries, load, read_clicr, source_files, write_clicr
from mednli_jax.corpora.cloze.files import BrokenJSON, Scanner, marked_text, parse_marked
from mednli_jax.errors import ConfigError, DataError, DataErrors, UserError
from mednli_jax.examples import Answer, Entity

SECRET = "Zzyzx"  # stands for clinical text and must never occur in a message


def answer(text, origin="dataset", cui="C1", kind="problem"):
    return {"text": text, "cui": cui, "sem_type": kind, "origin": origin}


def query(uid, text="He avoided @placeholder .", answers=None):
    return {"id": uid, "query": text, "answers": answers or [answer("relapse")]}


def article(source="r1", queries=None, **document):
    values = {
        "title": "A BEG__rare tumour__END",
        "context": f"The BEG__rare Tumour__END was treated {SECRET} .\nNo BEG__relapse__END .",
        "qas": queries if queries is not None else [query(f"{source}.1")],
    }
    return {"source": source, "document": values | document}


def corpus(*articles, **top):
    return {"version": "1.0", "data": list(articles)} | top


def write(path, value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def faults(read, *arguments, **options):
    """(place, field) of each fault that reading raises. Checks that no message holds a word of the texts."""
    with pytest.raises(UserError) as caught:
        read(*arguments, **options)
    assert SECRET not in str(caught.value)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    assert all(error.fix for error in errors)
    return [(error.line, error.field) for error in errors]


# ---- what is read ----


def test_an_article_by_hand(tmp_path):
    answers = [answer("return", "UMLS"), answer("Relapse", kind="Problem"), answer("recurrence", "UMLS", "C2", "")]
    text = "A BEG__rare Tumour__END\nneeds @placeholder ."
    value = corpus(article(queries=[query("r1.1", text, answers), query("r1.2")], specialty="oncology"))
    split = read_clicr(write(tmp_path / "dev1.0.json", value))
    first, second = split.examples
    assert split.name == "dev"
    assert (first.uid, first.passage.uid, first.passage.specialty) == ("r1.1", "r1", "oncology")
    assert first.passage is second.passage
    assert first.passage.tokens == ("The", "rare", "Tumour", "was", "treated", SECRET, ".", "No", "relapse", ".")
    assert first.passage.entities == (Entity(1, 3), Entity(8, 9))
    assert first.passage.sentences == (7, 10)
    assert (first.passage.title, first.passage.title_entities) == (("A", "rare", "tumour"), (Entity(1, 3),))
    assert first.query == ("A", "rare", "Tumour", "needs", "@placeholder", ".")
    assert (first.query_entities, first.blank) == ((Entity(1, 3),), 4)
    # the dataset's answer comes first, its semantic type in lower case, then synonyms in their order
    assert first.answers == (
        Answer("Relapse", "C1", "problem", "dataset"),
        Answer("return", "C1", "problem", "UMLS"),
        Answer("recurrence", "C2", "", "UMLS"),
    )
    assert split.facts["queries"] == 2
    assert split.facts["answers"] == {"dataset": 2, "UMLS": 2}
    assert split.facts["semantic_types"] == {"problem": 2, "treatment": 0, "test": 0, "other": 0}


def test_marks_are_token_boundaries_and_may_span_a_line_break():
    marked = parse_marked("anti-BEG__tumour\n necrosis factor__ENDs and\n\n \nBEG__x_y___ENDBEG__z__END")
    assert marked.tokens == ("anti-", "tumour", "necrosis", "factor", "s", "and", "x_y_", "z")
    assert marked.entities == (Entity(1, 4), Entity(6, 7), Entity(7, 8))
    assert marked.sentences == (6, 8)
    assert (marked.stray, marked.blanks) == (0, ())


@pytest.mark.parametrize(
    ("text", "entities", "stray"),
    [
        ("BEG__a b", (), 1),
        ("a b__END", (), 1),
        ("BEG__a BEG__b__END c__END", (Entity(1, 2),), 2),
        ("a BEG____END b", (), 1),
        ("BEG__a @placeholder__END b", (), 2),
        ("BEG__a__END b", (Entity(0, 1),), 0),
    ],
)
def test_marks_without_a_partner_are_counted(text, entities, stray):
    marked = parse_marked(text)
    assert (marked.entities, marked.stray) == (entities, stray)
    assert not any(part in token for token in marked.tokens for part in ("BEG__", "__END"))


def test_a_mark_without_a_partner_joins_no_sentences():
    marked = parse_marked("a BEG__b .\nc BEG__d\ne__END .\n@placeholder f\nBEG__g\nh")
    assert marked.entities == (Entity(4, 6),)  # the entity spans a line break
    assert marked.sentences == (3, 7, 9, 10, 11)
    assert (marked.stray, marked.marks) == (2, 4)


@pytest.mark.parametrize("text", ["to @placeholder, x", "to @ placeholder , x", "to @\nplaceholder , x"])
def test_a_placeholder_is_found_where_the_tokeniser_touched_it(tmp_path, text):
    split = read_clicr(write(tmp_path / "x.json", corpus(article(queries=[query("r1.1", text)]))))
    assert split.examples[0].query in (("to", "@placeholder", ",", "x"), ("to", "@placeholder", ",", "x"))
    assert split.facts["joined_placeholders"] == (0 if "@p" in text else 1)


def big(articles=40):
    values = [
        article(f"r{n}", [query(f"r{n}.{q}", f'say "\\ é \U0001f600 {n} @placeholder') for q in range(n % 4)])
        for n in range(articles)
    ]
    return corpus(*values, note={"data": [1, "]", {}], "e": 1.5e3})


@pytest.mark.parametrize("piece", [1, 13, 1000, 1 << 20])
@pytest.mark.parametrize("indent", [None, 1])
def test_any_piece_size_gives_the_same(tmp_path, monkeypatch, piece, indent):
    value = big(10)
    path = write(tmp_path / "train1.0.json", json.dumps(value, indent=indent, ensure_ascii=False).encode())
    whole = read_clicr(path)
    monkeypatch.setattr(cloze_files, "PIECE", piece)
    assert read_clicr(path) == whole
    assert len(whole) == sum(n % 4 for n in range(10))


def test_plain_and_gzipped_with_and_without_its_ending(tmp_path):
    plain = read_clicr(write(tmp_path / "a" / "dev1.0.json", big()))
    zipped = read_clicr(write(tmp_path / "b" / "dev1.0.json.gz", big()).with_suffix(""))
    assert zipped.examples == plain.examples
    assert zipped.facts["file"] == "dev1.0.json.gz"


def test_the_order_of_keys_does_not_matter_nor_a_byte_order_mark(tmp_path):
    value = big()
    turned = dict(reversed(value.items()))
    assert next(iter(turned)) != "version"
    path = write(tmp_path / "x.json", b"\xef\xbb\xbf" + json.dumps(turned).encode() + b"\n")
    assert read_clicr(path).examples == read_clicr(write(tmp_path / "y.json", value)).examples


class Counting(io.StringIO):
    taken = 0

    def read(self, size=-1):
        piece = super().read(size)
        self.taken += len(piece)
        return piece


def test_an_article_is_given_before_the_next_piece_is_read(monkeypatch):
    monkeypatch.setattr(cloze_files, "PIECE", 500)
    stream = Counting(json.dumps([{"n": n, "text": "x" * 200} for n in range(200)]))
    scanner = Scanner(stream)
    for number in scanner.items():
        assert scanner.value()["n"] == number
        assert stream.taken <= 230 * (number + 1) + 3 * 500
    assert number == 199


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', '{"a": 1,}', '{"a": [1 2]}', "[]", '{"a": 1} x', "{a: 1}", "{1: 2}"]
)
def test_what_is_no_json_object_is_broken(text):
    def whole(scanner):
        for _ in scanner.fields():
            scanner.value()
        scanner.end()

    with pytest.raises(BrokenJSON):
        whole(Scanner(io.StringIO(text)))


def test_a_limit_takes_the_first_queries(tmp_path):
    path = write(tmp_path / "train1.0.json", big())
    whole = read_clicr(path).examples
    for limit in (1, 2, 3, 7):
        assert read_clicr(path, limit=limit).examples == whole[:limit]
    with pytest.raises(ConfigError):
        read_clicr(path, limit=0)


# ---- what is refused ----


def changed(place, value=None):
    """A corpus of two articles in which one thing is changed or removed."""
    document = corpus(
        article("r1", [query("r1.1"), query("r1.2", answers=[answer("a"), answer("b", "UMLS")])]), article("r2")
    )
    *way, last = place
    node = document
    for step in way:
        node = node[step]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return document


DOCUMENT = ("data", 0, "document")
QUERY = (*DOCUMENT, "qas", 1)
WHERE = "data[0].document.qas[1]"
BROKEN = {
    "another version": (changed(("version",), "2.0"), "version"),
    "an article that is a string": (changed(("data", 0), SECRET), "data[0]"),
    "a source twice": (changed(("data", 1, "source"), "r1"), "data[1].source"),
    "a document that is a list": (changed(DOCUMENT, [SECRET]), "data[0].document"),
    "half a pair": (changed((*DOCUMENT, "title"), f"{SECRET}\ud800"), "data[0].document.title"),
    "END without BEG": (changed((*DOCUMENT, "title"), f"{SECRET}__END"), "data[0].document.title"),
    "queries that are no list": (changed((*DOCUMENT, "qas"), {}), "data[0].document.qas"),
    "a query that is a string": (changed(QUERY, SECRET), WHERE),
    "an id twice": (changed((*QUERY, "id"), "r1.1"), f"{WHERE}.id"),
    "an id twice over articles": (
        changed(("data", 1, "document", "qas", 0, "id"), "r1.2"),
        "data[1].document.qas[0].id",
    ),
    "a marked placeholder": (changed((*QUERY, "query"), f"{SECRET} BEG__@placeholder__END"), f"{WHERE}.query"),
    "synonyms only": (changed((*QUERY, "answers", 0)), f"{WHERE}.answers"),
    "an answer without text": (changed((*QUERY, "answers", 1, "text")), f"{WHERE}.answers[1].text"),
    "an answer of blanks": (changed((*QUERY, "answers", 1, "text"), " "), f"{WHERE}.answers[1].text"),
    "a number for a concept": (changed((*QUERY, "answers", 0, "cui"), 7), f"{WHERE}.answers[0].cui"),
    "nothing marked": (corpus(article(context=f"No {SECRET} ."), article("r2", [])), None),
    "no query at all": (corpus(article(queries=[])), None),
    "data that is an object": (corpus(data={SECRET: 1}), None),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_fault_is_named_by_its_path(tmp_path, case):
    value, place = BROKEN[case]
    ((found, field),) = faults(read_clicr, write(tmp_path / "dev1.0.json.gz", value))
    assert found == place
    assert field is None or place.endswith(field)


def test_the_first_twenty_faults_come_together(tmp_path):
    value = corpus(*(article(f"r{n}", [query(f"r{n}.1", SECRET)]) for n in range(25)))
    with pytest.raises(DataErrors) as caught:
        read_clicr(write(tmp_path / "x.json", value))
    assert [error.line for error in caught.value.errors] == [f"data[{n}].document.qas[0].query" for n in range(20)]


def test_faults_of_a_passage_and_of_its_queries_come_together(tmp_path):
    value = changed((*QUERY, "query"), SECRET)
    value["data"][0]["document"]["context"] = "BEG__a"
    found = faults(read_clicr, write(tmp_path / "x.json", value), stray_marks="refuse")
    assert found == [("data[0].document.context", "context"), (f"{WHERE}.query", "query")]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_cut_short_says_behind_which_article(tmp_path, share):
    whole = json.dumps(big()).encode()
    path = write(tmp_path / "x.json", whole[: int(share * len(whole))])
    with pytest.raises(DataError, match=r"article \d+") as caught:
        read_clicr(path)
    assert (caught.value.file, caught.value.line) == ("x.json", None)
    assert SECRET not in str(caught.value)


def test_a_stray_brace_is_broken_json(tmp_path):
    text = json.dumps(big())
    half = text.index('"qas"', len(text) // 2)
    path = write(tmp_path / "x.json", (text[:half] + "}" + text[half:]).encode())
    assert faults(read_clicr, path) == [(None, None)]


NESTED = "The BEG__big BEG__tumour__END mass__END grew ."  # two of its four marks have no partner


def with_marks(good, bad):
    """`good` articles have eight marks each, and `bad` ones have four more, two of them without a partner."""
    many = "\n".join(["BEG__a__END ."] * 3)
    articles = [article(f"r{n}", context=f"{many}\n{NESTED}" if n < bad else many) for n in range(good + bad)]
    return corpus(*articles)


@pytest.mark.parametrize(("good", "refused"), [(49, False), (45, True)])
def test_few_marks_without_a_partner_are_text_and_many_another_format(tmp_path, capsys, good, refused):
    # Two bad articles have 4 stray marks of 8 (good + 2) + 8: less than 1 % for 49 good ones, and more for 45.
    path = write(tmp_path / "dev1.0.json", with_marks(good, 2))
    if refused:
        assert faults(read_clicr, path) == [("data[0].document.context", "context")]
        split = read_clicr(path, stray_marks="ignore")
    else:
        split = read_clicr(path)
        shown = capsys.readouterr().err
        assert shown.startswith("warning: dev1.0.json:data[0].document.context: ")
        assert shown.count("\n") == 1
    assert split.facts["stray_marks"] == 4
    passage = split.examples[0].passage
    assert passage.tokens[6:] == ("The", "big", "tumour", "mass", "grew", ".")
    assert passage.entities[3:] == (Entity(8, 9),)


def test_stray_marks_can_be_ignored_or_refused(tmp_path):
    value = corpus(article(context="The BEG__tumour and BEG__relapse__END x__END .", title="a__END"))
    path = write(tmp_path / "x.json", value)
    for how in ({}, {"stray_marks": "refuse"}):
        assert faults(read_clicr, path, **how) == [("data[0].document.title", "title")]
    split = read_clicr(path, stray_marks="ignore")
    assert split.examples[0].passage.tokens == ("The", "tumour", "and", "relapse", "x", ".")
    assert split.examples[0].passage.entities == (Entity(3, 4),)
    assert split.facts["stray_marks"] == 3
    with pytest.raises(ConfigError):
        read_clicr(path, stray_marks="maybe")
    with pytest.raises(DataError):
        read_clicr(write(tmp_path / "y.json", with_marks(1000, 1)), stray_marks="refuse")


def test_a_report_may_have_several_specialties(tmp_path):
    several = article("r1", specialty=["surgery", "oncology"])
    path = write(tmp_path / "x.json", corpus(several, article("r2", specialty=[]), article("r3", specialty="urology")))
    examples = read_clicr(path).examples
    assert [example.passage.specialty for example in examples] == ["surgery; oncology", "", "urology"]
    write_clicr(examples, tmp_path / "y.json")
    written = [one["document"].get("specialty") for one in json.loads((tmp_path / "y.json").read_text())["data"]]
    assert written == [["surgery", "oncology"], None, "urology"]
    for bad in (["surgery", 3], [" "], {"a": 1}):
        value = corpus(article("r1", specialty=bad))
        assert faults(read_clicr, write(tmp_path / "z.json", value)) == [("data[0].document.specialty", "specialty")]


def test_passages_without_candidates_are_reported_not_refused(tmp_path, capsys):
    path = write(tmp_path / "test1.0.json", corpus(article("r1"), article("r2", context=f"No {SECRET} .")))
    split = read_clicr(path)
    assert len(split) == 2
    assert (split.facts["passages_without_candidates"], split.facts["queries_without_candidates"]) == (1, 1)
    shown = capsys.readouterr().err
    assert shown.startswith("warning: test1.0.json:data[1].document.context: 1 passages have no marked phrase")
    assert SECRET not in shown


# ---- a corpus ----


def write_corpus(folder, ending="", **articles):
    for split, file in clicr.FILES.items():
        write(folder / (file + ending), corpus(*articles.get(split, [article(split, [query(f"{split}.1")])])))
    return folder


def test_a_corpus_is_found_in_its_own_folder_and_in_the_data_folder(tmp_path):
    write_corpus(tmp_path / "clicr", ".gz")
    splits = load(tmp_path)
    assert list(splits) == ["train", "dev", "test"]
    assert [split.examples[0].uid for split in splits.values()] == ["train.1", "dev.1", "test.1"]
    assert load(tmp_path / "clicr") == splits
    (tmp_path / "clicr" / "dev1.0.json.gz").unlink()
    with pytest.raises(DataError) as caught:
        source_files(tmp_path)
    assert caught.value.file == "dev1.0.json"


def test_the_limit_of_a_corpus_is_that_of_its_training_queries(tmp_path):
    many = [article(f"{split}{n}") for split in "ab" for n in range(3)]
    splits = load(write_corpus(tmp_path, train=many[:3], dev=many[3:]), limit=2)
    assert [len(split) for split in splits.values()] == [2, 3, 1]


def test_a_query_in_two_splits_is_refused_and_shared_passages_are_counted(tmp_path):
    both = article("r1", [query("r1.1")])
    other = copy.deepcopy(both)
    other["document"]["qas"][0]["id"] = "r1.2"
    splits = load(write_corpus(tmp_path / "a", train=[both], dev=[other]))
    assert splits["dev"].facts["shared_passages"] == {"train": 1}
    assert splits["test"].facts["shared_passages"] == {"train": 0, "dev": 0}
    assert faults(load, write_corpus(tmp_path / "b", train=[both], test=[both])) == [(None, "id")]
    assert check_disjoint(splits) == splits


@pytest.mark.parametrize("name", ["train1.0.json", "train1.0.json.gz"])
def test_what_is_written_is_read_back(tmp_path, name):
    value = big()
    value["data"][3]["document"]["specialty"] = "surgery"
    value["data"][2]["document"]["qas"][0]["answers"].append(answer("é  x", "UMLS", "", ""))
    split = read_clicr(write(tmp_path / "in" / name, value))
    (tmp_path / "out").mkdir()
    write_clicr(split.examples, tmp_path / "out" / name)
    again = read_clicr(tmp_path / "out" / name)
    assert again.examples == split.examples
    before = (tmp_path / "out" / name).read_bytes()
    write_clicr(again.examples, tmp_path / "out" / name)
    assert (tmp_path / "out" / name).read_bytes() == before  # the file holds no time


def test_marked_text_undoes_parse_marked():
    text = "a BEG__b c__END d\nBEG__e__END BEG__f__END"
    marked = parse_marked(text)
    assert marked_text(marked.tokens, marked.entities, marked.sentences) == text
    assert marked_text((), ()) == ""


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_queries_are_counted_without_parsing(tmp_path, monkeypatch, ending):
    value = big(200)
    value["data"][3]["document"]["context"] = 'he said "query": and \\"query": BEG__x__END'
    path = write(tmp_path / f"x.json{ending}", value)
    expected = len(read_clicr(path))
    assert count_queries(path) == expected > 100
    path = write(tmp_path / f"y.json{ending}", json.dumps(value, indent=2).replace('"query":', '"query" :').encode())
    assert count_queries(path) == expected
