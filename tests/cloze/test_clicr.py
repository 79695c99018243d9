"""CliCR's reader on small made-up files: what it reads, what it refuses and where."""

import gzip
import json

import pytest

from mednli_jax.cloze import clicr
from mednli_jax.cloze.clicr import load, parse_marked, read_clicr, source_files, write_clicr
from mednli_jax.data.examples import Answer, Entity
from mednli_jax.errors import DataError

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
    data = json.dumps(value).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_an_article_by_hand(tmp_path):
    answers = [
        answer("return", "UMLS"),
        answer("Relapse", kind="Problem"),
        answer("recurrence", "UMLS", "C2", ""),
    ]
    text = "A BEG__rare Tumour__END\nneeds @placeholder ."
    value = corpus(
        article(queries=[query("r1.1", text, answers), query("r1.2")], specialty="oncology")
    )
    split = read_clicr(write(tmp_path / "dev1.0.json", value))
    first, second = split.examples
    assert (first.uid, first.passage.uid, first.passage.specialty) == ("r1.1", "r1", "oncology")
    assert first.passage is second.passage
    assert first.passage.tokens == (
        "The",
        "rare",
        "Tumour",
        "was",
        "treated",
        SECRET,
        ".",
        "No",
        "relapse",
        ".",
    )
    assert first.passage.entities == (Entity(1, 3), Entity(8, 9))
    assert first.passage.sentences == (7, 10)
    assert (first.passage.title, first.passage.title_entities) == (
        ("A", "rare", "tumour"),
        (Entity(1, 3),),
    )
    assert first.query == ("A", "rare", "Tumour", "needs", "@placeholder", ".")
    assert (first.query_entities, first.blank) == ((Entity(1, 3),), 4)
    # the dataset's answer comes first, its semantic type in lower case, then synonyms in their
    # order
    assert first.answers == (
        Answer("Relapse", "C1", "problem", "dataset"),
        Answer("return", "C1", "problem", "UMLS"),
        Answer("recurrence", "C2", "", "UMLS"),
    )
    assert split.facts["queries"] == 2
    assert split.facts["answers"] == {"dataset": 2, "UMLS": 2}
    assert split.facts["semantic_types"] == {"problem": 2, "treatment": 0, "test": 0, "other": 0}


@pytest.mark.parametrize(
    ("text", "tokens", "entities", "sentences", "stray"),
    [
        ("anti-BEG__a\n b c__ENDs x\n\n \nBEG__d_e___ENDBEG__f__END", "anti- a b c s x d_e_ f",
         [(1, 4), (6, 7), (7, 8)], (6, 8), 0),
        ("BEG__a b", "a b", [], (2,), 1),
        ("a b__END", "a b", [], (2,), 1),
        ("BEG__a BEG__b__END c__END", "a b c", [(1, 2)], (3,), 2),
        ("a BEG____END b", "a b", [], (2,), 1),
        ("BEG__a @placeholder__END b", "a @placeholder b", [], (3,), 2),
        # a mark without a partner joins no sentences, an entity does
        ("a BEG__b .\nc BEG__d\ne__END .\n@placeholder f\nBEG__g\nh", "a b . c d e . @placeholder f g h", [(4, 6)],
         (3, 7, 9, 10, 11), 2),
    ],
)  # fmt: skip
def test_marks_are_token_boundaries_and_those_without_a_partner_are_counted(
    text, tokens, entities, sentences, stray
):
    marked = parse_marked(text)
    assert (marked.tokens, marked.entities) == (
        tuple(tokens.split()),
        tuple(Entity(*span) for span in entities),
    )
    assert (marked.sentences, marked.stray) == (sentences, stray)


@pytest.mark.parametrize(
    "text", ["to @placeholder, x", "to @ placeholder , x", "to @\nplaceholder , x"]
)
def test_a_placeholder_is_found_where_the_tokeniser_touched_it(tmp_path, text):
    split = read_clicr(write(tmp_path / "x.json", corpus(article(queries=[query("r1.1", text)]))))
    assert split.examples[0].query == ("to", "@placeholder", ",", "x")
    assert split.facts["joined_placeholders"] == (0 if "@p" in text else 1)


@pytest.mark.parametrize("name", ["train1.0.json", "train1.0.json.gz"])
def test_what_is_written_is_read_back(tmp_path, name):
    articles = (
        article(f"r{n}", [query(f"r{n}.{q}", f'say "\\ é {n} @placeholder') for q in range(n)])
        for n in range(4)
    )
    value = corpus(*articles, note={"data": [1, "]", {}]})
    value["data"][1]["document"]["specialty"] = ["surgery", "oncology"]
    value["data"][2]["document"]["specialty"] = []
    value["data"][3]["document"]["specialty"] = "urology"
    value["data"][2]["document"]["qas"][0]["answers"].append(answer("é  x", "UMLS", "", ""))
    split = read_clicr(write(tmp_path / "in" / name, value))
    specialties = {example.passage.uid: example.passage.specialty for example in split.examples}
    assert specialties == {"r1": "surgery; oncology", "r2": "", "r3": "urology"}
    (tmp_path / "out").mkdir()
    write_clicr(split.examples, tmp_path / "out" / name)
    assert read_clicr(tmp_path / "out" / name).examples == split.examples


NESTED = "The BEG__big BEG__tumour__END mass__END grew ."  # two of its four marks have no partner


@pytest.mark.parametrize(("good", "refused"), [(49, False), (48, True)])
def test_few_marks_without_a_partner_are_text_and_many_another_format(
    tmp_path, capsys, good, refused
):
    # Good articles have four marks, the other has six, two of them without a partner: 2 of 202, or
    # of 198.
    value = corpus(
        *(article(f"r{n}", context=NESTED if n == 0 else "BEG__a__END .") for n in range(good + 1))
    )
    path = write(tmp_path / "dev1.0.json", value)
    if refused:
        with pytest.raises(DataError) as caught:
            read_clicr(path)
        assert (caught.value.line, SECRET in str(caught.value)) == (
            "data[0].document.context",
            False,
        )
        return
    split = read_clicr(path)
    shown = capsys.readouterr().err
    assert shown.startswith("warning: dev1.0.json:data[0].document.context: ")
    assert split.facts["stray_marks"] == 2
    passage = split.examples[0].passage
    assert (passage.tokens, passage.entities) == (
        ("The", "big", "tumour", "mass", "grew", "."),
        (Entity(2, 3),),
    )


def test_passages_without_candidates_are_reported_not_refused(tmp_path, capsys):
    path = write(
        tmp_path / "test1.0.json", corpus(article("r1"), article("r2", context=f"No {SECRET} ."))
    )
    split = read_clicr(path)
    assert (
        split.facts["passages_without_candidates"],
        split.facts["queries_without_candidates"],
    ) == (1, 1)
    shown = capsys.readouterr().err
    assert shown.startswith(
        "warning: test1.0.json:data[1].document.context: 1 passages have no marked phrase"
    )
    assert SECRET not in shown


def test_a_marked_phrase_of_a_title_is_a_candidate_where_passages_begin_with_titles(
    tmp_path, capsys
):
    titled = article("r2", title="A BEG__case__END", context=f"No {SECRET} .")
    bare = article("r3", title="A case", context="No mark .")
    path = write(tmp_path / "test1.0.json", corpus(article("r1"), titled, bare))
    counts, warnings = [], []
    for titles in (True, False):
        facts = read_clicr(path, titles=titles).facts
        counts.append((facts["passages_without_candidates"], facts["queries_without_candidates"]))
        warnings.append(capsys.readouterr().err)
    assert counts == [(1, 1), (2, 2)]
    assert "test1.0.json:data[2].document.context: 1 passages" in warnings[0]
    assert "test1.0.json:data[1].document.context: 2 passages" in warnings[1]
    alone = write(tmp_path / "dev1.0.json", corpus(titled))
    assert len(read_clicr(alone, titles=True)) == 1
    assert capsys.readouterr().err == ""
    with pytest.raises(DataError, match=r"dev1\.0\.json"):
        read_clicr(alone)


def write_corpus(folder, ending="", **articles):
    for split, file in clicr.FILES.items():
        write(
            folder / (file + ending),
            corpus(*articles.get(split, [article(split, [query(f"{split}.1")])])),
        )
    return folder


def test_a_corpus_is_found_in_its_own_folder_and_in_the_data_folder_and_limited_in_train(tmp_path):
    train = [article("train", [query("train.1"), query("train.2")])]
    write_corpus(tmp_path / "clicr", ".gz", train=train)
    splits = load(tmp_path)
    assert [len(split) for split in splits.values()] == [2, 1, 1]
    assert load(tmp_path / "clicr") == splits
    assert [len(split) for split in load(tmp_path, limit=1).values()] == [1, 1, 1]
    (tmp_path / "clicr" / "dev1.0.json.gz").unlink()
    with pytest.raises(DataError, match=r"dev1\.0\.json"):
        source_files(tmp_path)


def test_a_query_in_two_splits_is_refused_and_shared_passages_are_counted(tmp_path):
    both, other = (article("r1", [query(uid)]) for uid in ("r1.1", "r1.2"))
    splits = load(write_corpus(tmp_path / "a", train=[both], dev=[other]))
    assert splits["dev"].facts["shared_passages"] == {"train": 1}
    assert splits["test"].facts["shared_passages"] == {"train": 0, "dev": 0}
    with pytest.raises(DataError, match="1 queries are in train as well as in test"):
        load(write_corpus(tmp_path / "b", train=[both], test=[both]))
