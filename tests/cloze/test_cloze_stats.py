"""Statistics of cloze corpora, against counts made by hand."""

import json
from dataclasses import replace

import pytest
from support.cloze import cloze, passage
from support.commands import call_command

from mednli_jax import analyze
from mednli_jax.cloze import clicr
from mednli_jax.cloze import stats as cloze_stats
from mednli_jax.data.examples import Split
from mednli_jax.errors import RunError
from mednli_jax.report.sections import lines

A = replace(
    passage("[Dropsy] met the [heart failure] and the [dropsy] .", "a"),
    specialty="surgery; Oncology",
)
B = passage("No [fever] , [dropsy] .", "b")
C = replace(passage("He had [DROPSY] .", "c"), specialty="surgery")
TRAIN = (
    cloze("a.1", A, "_ came", "dropsy", "Edema", "edema"),
    cloze("a.2", A, "_ came", "cardiac failure", "Heart Failure"),
    cloze("b.1", B, "_ came", "digoxin", kind="treatment"),
)
TEST = (
    cloze("c.1", C, "_ came", "Dropsy", kind="test"),
    cloze("c.2", C, "_ came", "heart failure", kind="Other"),
)
SPLITS = {"train": Split("train", TRAIN), "test": Split("test", TEST)}


@pytest.fixture(scope="module")
def found():
    return cloze_stats.statistics(SPLITS)


def test_sizes_by_hand(found):
    expected = {
        "cases": (2, 1, 3),
        "queries": (3, 2, 5),
        "tokens": (14, 4, 18),  # the tokens of a passage count once
        "queries_of_passage": (3 / 2, 2, 5 / 3),
        "mean_tokens": (7, 4, 6),
        "mean_tokens_of_query": (
            (9 + 9 + 5) / 3,
            4,
            (9 + 9 + 5 + 4 + 4) / 5,
        ),  # a passage once for each of its queries
        "longest": (9, 4, 9),
        "word_types": (10, 4, 12),  # dropsy met the heart failure and . no fever , he had
        "entity_types": (3, 1, 3),
        "answers": (3, 2, 4),
        "answers_extended": (5, 2, 5),
        "synonyms": (2 / 3, 0, 2 / 5),  # edema; heart failure
        "verbatim": (1 / 3, 1 / 2, 2 / 5),
        "verbatim_or_synonym": (2 / 3, 1 / 2, 3 / 5),
        "candidates": (2, 1, 8 / 5),
        "candidates_of_passage": (2, 1, 5 / 3),
        "fewest_candidates": (2, 1, 1),
    }
    parts = (found["splits"]["train"], found["splits"]["test"], found["all"])
    assert {name: tuple(figures[name] for figures in parts) for name in expected} == expected
    kinds = {"problem": 2 / 5, "treatment": 1 / 5, "test": 1 / 5, "other": 1 / 5}
    assert found["all"]["semantic_types"] == kinds
    assert found["answer_lengths"] == {"1": 3 / 5, "2": 2 / 5}


def test_each_specialty_of_a_case_is_counted(found):
    assert found["specialties"] == {"surgery": 2 / 3, "oncology": 1 / 3}
    assert found["specialty_names"] == 1  # three names in three cases
    (words,) = [words for words in cloze_stats.section("x", found).words if "surgery" in words]
    assert "surgery 66.7, oncology 33.3" in words  # shares of all names
    none = cloze_stats.statistics({"train": Split("train", TRAIN[2:])})
    assert "specialties: the corpus names none" in cloze_stats.section("x", none).words


def test_the_table_has_the_paper_beside_ours(found):
    rows = [line.split() for line in lines(cloze_stats.section("mine", found))]
    assert ["train", "test", "all", "CliCR,", "paper"] in rows
    assert ["distinct", "answers", "3", "2", "4", "56,093"] in rows
    assert ["mean", "of", "a", "query's", "passage", "7.7", "4.0", "6.2", "1,466.0"] in rows
    assert ["%", "problem", "66.7", "0.0", "40.0", "67.0"] in rows


def written(path, text):
    path.write_text(text, "utf-8")
    return path


def test_skills_by_hand(tmp_path):
    rows = (
        "uid\tskill\na.1\tbridging\na.1\tObject tracking\na.1\ttracking\nb.1\tnone\nz.9\tmeta\n\n"
    )
    skills = cloze_stats.read_skills(written(tmp_path / "skills.tsv", rows))
    assert skills == {
        "a.1": ("bridging", "object tracking"),
        "b.1": ("none",),
        "z.9": ("meta-knowledge",),
    }
    examples = SPLITS["train"].examples
    found = cloze_stats.skill_statistics(skills, examples, {"ours": {"a.1": 0.5}})
    assert (found["queries"], found["unknown"], found["mean"]) == (2, 1, 1.0)
    assert (
        found["shares"]["bridging"]
        == found["shares"]["object tracking"]
        == found["shares"]["none"]
        == 0.5
    )
    assert found["shares"]["meta-knowledge"] == 0
    assert found["f1"]["ours"]["bridging"] == 0.5
    assert found["f1"]["ours"]["none"] == 0  # a query without a score counts as wrong
    assert found["f1"]["ours"]["analogy"] is None
    rows = cloze_stats.skill_section(found).grids[0].rows
    assert ("bridging", "50.0", "50.0") in rows
    assert ("analogy", "0.0", "-") in rows
    with pytest.raises(RunError):
        cloze_stats.skill_statistics({"z.9": ("bridging",)}, examples)


@pytest.fixture
def corpus(tmp_path):
    """A folder of files in the layout of CliCR."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    dev = (cloze("d.1", passage("He had [asthma] .", "d"), "_", "asthma"),)
    examples = {"train": SPLITS["train"].examples, "dev": dev, "test": SPLITS["test"].examples}
    for name, file in clicr.FILES.items():
        clicr.write_clicr(examples[name], folder / file)
    return folder


def test_the_door_prints_and_writes(tmp_path, corpus):
    skills = written(tmp_path / "skills.tsv", "a.1\tbridging\nc.1\tmeta\n")
    scores = written(tmp_path / "ours.jsonl", '{"uid": "a.1", "f1": 1.0}\n')
    flags = (
        f"--corpus={corpus}",
        f"--skills={skills}",
        f"--scores={scores}",
        f"--out={tmp_path / 'out'}",
    )
    code, out, err = call_command(analyze, "cloze-stats", *flags, words=1)
    assert code == 0, err
    assert "cases" in out
    assert "F1 ours" in out
    files = {path.name for path in (tmp_path / "out").iterdir()}
    pictures = "passage_lengths.png answer_lengths.png specialties.png"
    assert files == {".gitignore", "cloze-stats.json", *pictures.split()}
    found = json.loads((tmp_path / "out" / "cloze-stats.json").read_text())
    assert found["skills"]["f1"]["ours"]["bridging"] == 1
    assert found["all"]["cases"] == 4
