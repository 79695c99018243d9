"""Other readers' formats: what is written is read back, official-looking files are read, broken ones are refused."""

import json
import random

import pytest

from mednli_jax.corpora.cloze.biomrc import read_biomrc, write_biomrc
from mednli_jax.corpora.cloze.files import parse_marked
from mednli_jax.corpora.cloze.formats import read_book_test, read_questions, write_book_test, write_questions
from mednli_jax.corpora.cloze.views import all_views, views
from mednli_jax.errors import DataErrors, UserError
from mednli_jax.examples import Answer, ClozeExample, Passage

SECRET = "zzyzx"


def examples(seed=0, passages=5, queries=3, most=30):
    """Lower-cased, with a title that no format keeps, sentences of several lengths, colons and quotes in phrases."""
    rng, made = random.Random(seed), []
    phrases = ["heart failure", "t4:t8 ratio", "crohn 's disease", 'the "x"', "mri", "pain"]
    for number in range(passages):
        lines = [
            " ".join(rng.choice([f"BEG__{rng.choice(phrases)}__END", "w", "é"]) for _ in range(rng.randint(1, 6)))
            for _ in range(rng.randint(1, most))
        ]
        context = parse_marked("\n".join(["BEG__pain__END .", *lines]))
        passage = Passage(f"r{number}", ("t",), context.tokens, context.entities, context.sentences)
        for query in range(queries):
            marked = parse_marked(f"u BEG__{rng.choice([*phrases, 'lung'])}__END {'v ' * query}@placeholder .")
            answers = (Answer(rng.choice([*phrases, "new thing"]), "C1", "test"), Answer("pain", "C1", "test", "UMLS"))
            uid = f"r{number}.{query}"
            made.append(ClozeExample(uid, passage, marked.tokens, marked.entities, marked.blanks[0], answers))
    return made


def answer_of(case):
    view = views(case, "ent")
    return view.candidates[view.gold] if view.gold >= 0 else case.answers[0].text


def same(read, written):
    """The parts that every format keeps."""
    assert len(read) == len(written)
    for one, other in zip(read, written, strict=True):
        assert (one.passage.tokens, one.passage.entities) == (other.passage.tokens, other.passage.entities)
        assert (one.query, one.query_entities, one.blank) == (other.query, other.query_entities, other.blank)
        assert one.answers[0].text == answer_of(other)
    assert len({id(case.passage) for case in read}) == len({id(case.passage) for case in written})


def faults(read, *arguments, **options):
    with pytest.raises(UserError) as caught:
        read(*arguments, **options)
    assert SECRET not in str(caught.value)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    assert all(error.fix for error in errors)
    return [(error.code, error.file, error.line) for error in errors]


# ---- CNN / Daily Mail ----


@pytest.mark.parametrize("setup", ["ent", "anonym"])
def test_questions_are_read_back(tmp_path, setup):
    cases = examples()
    write_questions(cases, tmp_path / "train", setup)
    read = read_questions(tmp_path / "train")
    same(read, cases)
    assert [case.uid for case in read] == [case.uid for case in cases]
    with pytest.raises(UserError, match="E-CLZ-026"):
        write_questions(cases[:1], tmp_path / "train", setup)


def test_questions_without_marks_hold_their_candidates(tmp_path):
    cases = examples()
    write_questions(cases, tmp_path, "noent")
    for number, (case, _, view) in enumerate(all_views(cases, "noent")):
        lines = (tmp_path / f"{number:06}.question").read_text().split("\n")
        assert [lines[n] for n in (1, 3, 5, 7)] == [""] * 4
        assert lines[2].split() == list(case.passage.tokens)
        assert lines[6] == answer_of(case)
        assert tuple(lines[8:-1]) == view.candidates
    for one, other in zip(read_questions(tmp_path), cases, strict=True):
        assert (one.passage.tokens, one.query) == (other.passage.tokens, other.query)
        assert set(other.passage.entities) <= set(one.passage.entities)  # these phrases never stand unmarked
        assert views(one, "noent").candidates == views(other, "noent").candidates


def test_a_question_file_by_hand(tmp_path):
    write_questions([examples()[0]], tmp_path / "a", "anonym")
    text = (tmp_path / "a" / "000000.question").read_text()
    assert text.startswith("r0.0\n\n@entity0 .")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "0a.question").write_text(
        "http://x/y\n\n( @entity1 ) met @entity7 , @entity1 said\n\nit was @placeholder who met @entity7\n\n"
        "@entity1\n\n@entity1:Ann B. Lee\n@entity7:Rome\n@entity9:not there\n"
    )
    (case,) = read_questions(tmp_path / "b")
    assert case.passage.tokens == ("(", "Ann", "B.", "Lee", ")", "met", "Rome", ",", "Ann", "B.", "Lee", "said")
    assert views(case, "ent").candidates == ("ann b. lee", "rome")
    assert (case.uid, case.blank, case.answers) == ("http://x/y", 2, (Answer("Ann B. Lee"),))
    assert views(case, "ent").gold == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("\n\n@entity1\n\n", "\n@entity1\n\n"), ("E-CLZ-021", None)),
        (("@placeholder", SECRET), ("E-CLZ-022", 5)),
        (("was", "@placeholder"), ("E-CLZ-022", 5)),
        (("@entity1:", "@entity3:"), ("E-CLZ-025", 3)),
        (("it was", "@entity44 was"), ("E-CLZ-025", 5)),
        (("\n\n@entity1\n", "\n\n@entity55\n"), ("E-CLZ-025", 7)),
        (("u\n", "\n"), ("E-CLZ-021", None)),
    ],
)
def test_broken_question_files_are_named_by_line(tmp_path, change, expected):
    text = f"u\n\n{SECRET} @entity1 x\n\nit was @placeholder\n\n@entity1\n\n@entity1:{SECRET}\n"
    (tmp_path / "a.question").write_text(text)
    assert len(read_questions(tmp_path)) == 1
    (tmp_path / "b.question").write_text(text.replace(*change))
    assert faults(read_questions, tmp_path) == [(expected[0], "b.question", expected[1])]
    assert faults(read_questions, tmp_path / "none") == [("E-CLZ-024", "none", None)]


# ---- the Children's Book Test ----


def test_a_book_test_is_read_back_with_its_lines(tmp_path):
    cases = examples(most=60)
    write_book_test(cases, tmp_path / "cbt.txt")
    read = read_book_test(tmp_path / "cbt.txt")
    same(read, cases)
    lines = (tmp_path / "cbt.txt").read_text().split("\n")
    assert {len(case.passage.sentences) for case in read} == {min(len(case.passage.sentences), 20) for case in cases}
    for one, other in zip(read, cases, strict=True):
        assert set(one.passage.sentences) <= set(other.passage.sentences)
        number = int(one.uid.removeprefix("cbt:"))
        assert lines[number - 1].startswith("21 ")
        assert lines[number - 1].count("\t") == 3


def test_a_book_test_by_hand(tmp_path):
    context = "".join(f"{n} line {n} of Mr. Fox\n" for n in range(1, 21))
    query = "21 `` Oh '' , said XXXXX to him\tFox\t\tFox|Bear|line\n\n"
    (tmp_path / "x.txt").write_text((context + query) * 2)
    one, other = read_book_test(tmp_path / "x.txt")
    assert (one.uid, other.uid) == ("x:21", "x:43")
    assert one.passage is other.passage
    assert len(one.passage.sentences) == 20
    assert views(one, "noent").candidates == ("line", "fox")
    assert len(views(one, "noent").positions[1]) == 20
    assert (one.query[one.blank], one.blank, one.answers) == ("@placeholder", 5, (Answer("Fox"),))


def test_a_query_without_candidates_is_left_out_of_the_book_test(tmp_path):
    (bare,) = examples(passages=1, queries=1)
    bare = ClozeExample(bare.uid, Passage("r", (), ("a",), (), (1,)), ("@placeholder",), (), 0, bare.answers)
    write_book_test([bare, *examples()], tmp_path / "cbt.txt")
    same(read_book_test(tmp_path / "cbt.txt"), examples())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("2 ", "3 "), [("E-CLZ-021", 2), ("E-CLZ-021", 3)]),
        (("XXXXX", SECRET), [("E-CLZ-022", 3)]),
        (("\t\t", "\t"), [("E-CLZ-021", 3)]),
        (("b|c", " "), [("E-CLZ-021", 3)]),
        (("21 q", f"x {SECRET}"), [("E-CLZ-021", 3)]),
        (("b|c\n", "b|c\n1 x\n"), [("E-CLZ-021", None)]),
    ],
)
def test_broken_book_tests_are_named_by_line(tmp_path, change, expected):
    text = f"1 {SECRET}\n2 b\n21 q XXXXX\tb\t\tb|c\n"
    path = tmp_path / "x.txt"
    path.write_text(text)
    assert len(read_book_test(path)) == 1
    path.write_text(text.replace(*change))
    assert faults(read_book_test, path) == [(code, "x.txt", line) for code, line in expected]


# ---- BIOMRC ----


def test_biomrc_is_read_back_with_its_synonyms(tmp_path):
    cases = examples()
    write_biomrc(cases, tmp_path / "b.json")
    read = read_biomrc(tmp_path / "b.json", tokenised=True)
    same(read, cases)
    for one, other in zip(read, cases, strict=True):
        assert one.uid == other.uid
        assert {answer.text for answer in one.answers} == {answer.text for answer in other.answers} | {answer_of(other)}
        assert (one.answers[0].concept, one.answers[0].semantic_type) == ("C1", "test")
    lists = json.loads((tmp_path / "b.json").read_text())
    assert {"abstracts", "titles", "entities_list", "answers"} <= set(lists)
    assert all(title.count("XXXX") == 1 for title in lists["titles"])
    assert "@entity0" in lists["abstracts"][0]


BIOMRC = {
    "abstracts": ["BACKGROUND: In @entity1, @entity22 (2.5 mg) failed. We saw @entity1.", "No @entity1."],
    "titles": ["Does.XXXX help @entity1?", "XXXX or not"],
    "entities_list": [
        ["@entity1 :: ('9606', 'Species') :: ['patients', 'men']", "@entity22 :: ('D1', 'Chemical') :: ['vitamin D']"],
        ["@entity1"],
    ],
    "answers": ["@entity22 :: ('D1', 'Chemical') :: ['vitamin D', 'calciferol']", "@entity1"],
}


def biomrc(path, **changes):
    path.write_text(json.dumps(BIOMRC | changes))
    return path


def test_a_biomrc_file_by_hand(tmp_path):
    one, other = read_biomrc(biomrc(tmp_path / "dev.json"))
    assert one.passage.tokens[:9] == ("BACKGROUND", ":", "In", "patients", ",", "vitamin", "D", "(", "2.5")
    assert len(one.passage.sentences) == 2
    assert views(one, "ent").candidates == ("patients", "vitamin d")
    assert (one.query, one.blank) == (("Does", ".", "@placeholder", "help", "patients", "?"), 2)
    assert one.answers == (
        Answer("vitamin D", "D1", "Chemical", "dataset"),
        Answer("calciferol", "D1", "Chemical", "UMLS"),
    )
    assert (one.uid, other.uid) == ("dev:0", "dev:1")
    assert (other.passage.tokens, other.answers[0].text) == (("No", "@entity1", "."), "@entity1")
    assert views(one, "ent").gold == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"titles": [f"XXXX {SECRET} XXXX", "XXXX"]}, ("E-CLZ-022", "titles[0]")),
        ({"titles": ["XXXX", SECRET]}, ("E-CLZ-022", "titles[1]")),
        ({"titles": ["XXXX"]}, ("E-CLZ-023", None)),
        ({"abstracts": [f"{SECRET} @entity5", "x"]}, ("E-CLZ-025", "abstracts[0]")),
        ({"abstracts": [" ", "x"]}, ("E-CLZ-010", "abstracts[0]")),
        ({"abstracts": [3, "x"]}, ("E-CLZ-009", "abstracts[0]")),
        ({"entities_list": [[f"@entity1 :: {SECRET}("], ["@entity1"]]}, ("E-CLZ-025", "entities_list[0]")),
        ({"entities_list": [[], [3]]}, ("E-CLZ-009", "entities_list[1]")),
        ({"answers": "x"}, ("E-CLZ-005", None)),
    ],
)
def test_broken_biomrc_files_are_named_by_list_and_number(tmp_path, changes, expected):
    path = biomrc(tmp_path / "dev.json", **changes)
    found = faults(read_biomrc, path)
    assert (expected[0], "dev.json", expected[1]) in found
    (tmp_path / "cut.json").write_text(json.dumps(BIOMRC)[:-9])
    assert faults(read_biomrc, tmp_path / "cut.json") == [("E-CLZ-005", "cut.json", None)]
