"""CliCR's reader on small made-up files: its examples, and the faults that it refuses."""

import json

import pytest
from support.cloze import clicr_query, mark
from support.files import write
from support.tables import table_rows

from mednli_jax.cloze.clicr import FILES, load, parse_marked, read_clicr, source_files, write_clicr
from mednli_jax.cloze.corpus import read_splits
from mednli_jax.data.examples import Answer, Entity
from mednli_jax.errors import DataError, UsageError

SECRET = "Zzyzx"  # stands for clinical text and must never occur in a message
TUMOUR = f"The {mark('rare Tumour')} was treated {SECRET} .\nNo {mark('relapse')} ."


def query(uid, text="He avoided @placeholder ."):
    return clicr_query(uid, text, "relapse")


def article(source="r1", *queries, title="A case", context=TUMOUR, **document):
    qas = [*queries] or [query(f"{source}.1")]
    return {
        "source": source,
        "document": {"title": title, "context": context, "qas": qas, **document},
    }


def write_corpus(path, *articles, **fields):
    """Writes a file of a corpus."""
    return write(path, json.dumps({"version": "1.0", "data": articles, **fields}))


@pytest.fixture
def read(tmp_path):
    """Reads a file with these articles."""
    return lambda *articles: read_clicr(write_corpus(tmp_path / "dev1.0.json", *articles))


def test_an_article_has_its_text_title_and_specialty(read):
    queries = (query("r1.1"), query("r1.2"))
    of_title = article("r1", *queries, title=f"A {mark('rare tumour')}", specialty="oncology")

    first, second = read(of_title).examples

    passage = first.passage
    assert first.uid == "r1.1"
    assert passage.uid == "r1"
    assert passage.specialty == "oncology"
    assert passage is second.passage
    assert " ".join(passage.tokens) == f"The rare Tumour was treated {SECRET} . No relapse ."
    assert passage.entities == (Entity(1, 3), Entity(8, 9))
    assert passage.sentence_ends == (7, 10)
    assert " ".join(passage.title) == "A rare tumour"
    assert passage.title_entities == (Entity(1, 3),)


def test_a_query_has_its_entities_and_the_datasets_answer_before_synonyms(read):
    asked = query("r1.1", f"A {mark('rare Tumour')}\nneeds @placeholder .")
    names = ("text", "sem_type", "origin", "cui")
    rows = table_rows("""
        return | problem | UMLS | C1
        Relapse | Problem | dataset | C1
        recurrence | | UMLS | C2
    """)
    asked["answers"] = [dict(zip(names, row, strict=True)) for row in rows]

    split = read(article("r1", asked))

    (example,) = split.examples
    assert " ".join(example.query) == "A rare Tumour needs @placeholder ."
    assert example.query_entities == (Entity(1, 3),)
    assert example.blank == 4
    assert example.answers == (
        Answer("Relapse", "C1", "problem", "dataset"),
        Answer("return", "C1", "problem", "UMLS"),
        Answer("recurrence", "C2", "", "UMLS"),
    )


@pytest.mark.parametrize(
    "text, tokens, entities, sentences, stray",
    table_rows(r"""
        anti-BEG__a\n b c__ENDs x | anti- a b c s x | 1:4 | 6 | 0
        x\n\n \nBEG__d_e___ENDBEG__f__END | x d_e_ f | 1:2 2:3 | 1 3 | 0
        BEG__a b | a b | | 2 | 1
        a b__END | a b | | 2 | 1
        BEG__a BEG__b__END c__END | a b c | 1:2 | 3 | 2
        a BEG____END b | a b | | 2 | 1
        BEG__a @placeholder__END b | a @placeholder b | | 3 | 2
        a BEG__@placeholder__END b | a @placeholder b | | 3 | 0
        a BEG__@ placeholder__END b | a @placeholder b | | 3 | 0
        # a mark without a partner joins no sentences, an entity does
        a BEG__b .\nc BEG__d\ne__END . | a b . c d e . | 4:6 | 3 7 | 1
        @placeholder f\nBEG__g\nh | @placeholder f g h | | 2 3 4 | 1
    """),
)
def test_marks_are_token_boundaries_and_those_without_a_partner_are_counted(
    text, tokens, entities, sentences, stray
):
    marked = parse_marked(text.replace(r"\n", "\n"))

    assert " ".join(marked.tokens) == tokens
    assert " ".join(f"{span.start}:{span.end}" for span in marked.entities) == entities
    assert " ".join(map(str, marked.sentences)) == sentences
    assert marked.stray == int(stray)


@pytest.mark.parametrize(
    "text, joined",
    [
        ("to @placeholder, x", 0),
        ("to @ placeholder , x", 1),
        ("to @\nplaceholder , x", 1),
    ],
)
def test_a_placeholder_is_joined_where_the_tokeniser_divided_it(read, text, joined):
    split = read(article("r1", query("r1.1", text)))

    assert split.examples[0].query == ("to", "@placeholder", ",", "x")
    assert split.facts["joined_placeholders"] == joined


@pytest.mark.parametrize(
    "specialty, text",
    table_rows("""
        ["surgery", "oncology"] | surgery; oncology
        [] |
        "urology" | urology
    """),
)
def test_a_specialty_is_a_text_or_a_list(read, specialty, text):
    split = read(article(specialty=json.loads(specialty)))

    assert split.examples[0].passage.specialty == text


def test_a_written_corpus_of_clicr_is_read_back(tmp_path):
    quoted = query("r2.1", 'say "\\ é @placeholder')
    quoted["answers"].append(
        {
            "text": "é  x",
            "cui": "",
            "sem_type": "",
            "origin": "UMLS",
        }
    )
    articles = (article("r1"), article("r2", quoted, query("r2.2"), specialty=["a", "b"]))
    path = write_corpus(tmp_path / "train1.0.json", *articles, note={"data": [1, "]", {}]})
    examples = read_clicr(path).examples

    write_clicr(examples, tmp_path / "copy.json")

    assert read_clicr(tmp_path / "copy.json").examples == examples


def corpus_with_stray_marks(path, articles):
    """Of the first article's six marks two have no partner; the others have four each."""
    nested = article("r0", context=f"The BEG__big BEG__tumour__END mass__END of {SECRET}")
    titled = {"title": mark("a"), "context": f"{mark('b')} ."}
    good = [article(f"r{number}", **titled) for number in range(1, articles + 1)]
    return write_corpus(path, nested, *good)


def test_few_marks_without_a_partner_are_text(tmp_path, capsys):
    split = read_clicr(corpus_with_stray_marks(tmp_path / "dev1.0.json", 49))  # 2 of 200

    warning = capsys.readouterr().err
    assert warning.startswith("warning: dev1.0.json:data[0].document.context: ")
    assert split.facts["stray_marks"] == 2
    passage = split.examples[0].passage
    assert " ".join(passage.tokens) == f"The big tumour mass of {SECRET}"
    assert passage.entities == (Entity(2, 3),)


def test_a_file_with_many_marks_without_a_partner_is_refused(tmp_path):
    with pytest.raises(DataError) as caught:
        read_clicr(corpus_with_stray_marks(tmp_path / "dev1.0.json", 48))  # 2 of 196

    assert caught.value.line == "data[0].document.context"
    assert SECRET not in str(caught.value)


def test_passages_without_candidates_are_counted_and_named(read, capsys):
    bare = article("r2", context=f"No {SECRET} .")
    split = read(article("r1"), bare)

    facts = split.facts
    warning = capsys.readouterr().err
    assert facts["passages_without_candidates"] == facts["queries_without_candidates"] == 1
    problem = "1 passages have no marked phrase"
    assert warning.startswith(f"warning: dev1.0.json:data[1].document.context: {problem}")
    assert SECRET not in warning


TITLED = article("r2", title=f"A {mark('case')}", context=f"No {SECRET} .")


@pytest.mark.parametrize("titles, without, first", [(True, 1, 2), (False, 2, 1)])
def test_a_marked_phrase_of_a_title_is_a_candidate_where_passages_begin_with_titles(
    tmp_path, capsys, titles, without, first
):
    articles = (article("r1"), TITLED, article("r3", context="No mark ."))
    path = write_corpus(tmp_path / "test1.0.json", *articles)

    facts = read_clicr(path, titles=titles).facts

    assert facts["passages_without_candidates"] == without
    assert facts["queries_without_candidates"] == without
    warning = f"data[{first}].document.context: {without} passages"
    assert warning in capsys.readouterr().err


def test_a_file_may_have_its_candidates_in_titles_alone(tmp_path, capsys):
    path = write_corpus(tmp_path / "dev1.0.json", TITLED)

    assert len(read_clicr(path, titles=True)) == 1
    assert capsys.readouterr().err == ""


def write_splits(folder, ending="", **articles):
    for split, file in FILES.items():
        write_corpus(folder / (file + ending), articles.get(split, article(split)))
    return folder


def test_a_corpus_is_found_in_its_own_folder_and_in_the_data_folder(tmp_path):
    folder = write_splits(tmp_path / "clicr", ".gz")

    assert load(tmp_path) == load(folder)
    (folder / "dev1.0.json.gz").unlink()
    with pytest.raises(DataError, match=r"dev1\.0\.json"):
        source_files(tmp_path)


def test_a_limit_bounds_the_training_queries(tmp_path):
    train = article("train", query("train.1"), query("train.2"))
    folder = write_splits(tmp_path, train=train)

    assert [len(split) for split in load(folder).values()] == [2, 1, 1]
    assert [len(split) for split in load(folder, limit=1).values()] == [1, 1, 1]


def test_a_query_in_two_splits_is_refused(tmp_path):
    folder = write_splits(tmp_path, train=article("r1"), test=article("r1"))

    with pytest.raises(DataError, match="1 queries are in train as well as in test"):
        load(folder)


def test_the_name_clicr_is_refused_where_the_variable_is_not_set():
    with pytest.raises(UsageError, match=r"^clicr: \$MEDNLI_JAX_DATA is not set"):
        read_splits("clicr")
