"""Statistics of cloze corpora, against counts made by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
from support.cloze import cloze, passage
from support.commands import call_command, read_json
from support.files import write
from support.tables import table_rows

from mednli_jax.cloze import clicr
from mednli_jax.cloze.stats import (
    read_skills,
    sizes_section,
    skill_section,
    skill_statistics,
    statistics,
)
from mednli_jax.data.examples import Split
from mednli_jax.errors import RunError
from mednli_jax.report.sections import lines

SURGERY = passage("[Dropsy] met the [heart failure] and the [dropsy] .", "a")
FIRST = replace(SURGERY, specialty="surgery; Oncology")
SECOND = passage("No [fever] , [dropsy] .", "b")
THIRD = replace(passage("He had [DROPSY] .", "c"), specialty="surgery")
TRAIN = (
    cloze("a.1", FIRST, "_ came", "dropsy", "Edema", "edema"),
    cloze("a.2", FIRST, "_ came", "cardiac failure", "Heart Failure"),
    cloze("b.1", SECOND, "_ came", "digoxin", kind="treatment"),
)
TEST = (
    cloze("c.1", THIRD, "_ came", "Dropsy", kind="test"),
    cloze("c.2", THIRD, "_ came", "heart failure", kind="Other"),
)
SPLITS = {"train": Split("train", TRAIN), "test": Split("test", TEST)}


@pytest.fixture(scope="module")
def figures():
    return statistics(SPLITS)


@pytest.mark.parametrize(
    "name, train, test, both",
    table_rows("""
        cases | 2 | 1 | 3
        queries | 3 | 2 | 5
        # the tokens of a passage count once
        tokens | 14 | 4 | 18
        queries_of_passage | 3/2 | 2 | 5/3
        mean_tokens | 7 | 4 | 6
        # 9, 9, 5; 4, 4: a passage once for each of its queries
        mean_tokens_of_query | 23/3 | 4 | 31/5
        longest | 9 | 4 | 9
        # dropsy met the heart failure and . no fever , he had
        word_types | 10 | 4 | 12
        entity_types | 3 | 1 | 3
        answers | 3 | 2 | 4
        answers_extended | 5 | 2 | 5
        # edema; heart failure
        synonyms | 2/3 | 0 | 2/5
        verbatim | 1/3 | 1/2 | 2/5
        verbatim_or_synonym | 2/3 | 1/2 | 3/5
        candidates | 2 | 1 | 8/5
        candidates_of_passage | 2 | 1 | 5/3
        fewest_candidates | 2 | 1 | 1
    """),
)
def test_sizes_of_cloze_splits_are_those_counted_by_hand(figures, name, train, test, both):
    splits = (figures["splits"]["train"], figures["splits"]["test"], figures["all"])

    sizes = [of_split[name] for of_split in splits]
    assert sizes == [float(Fraction(size)) for size in (train, test, both)]


def test_shares_of_semantic_types_and_answer_lengths_are_those_counted_by_hand(figures):
    kinds = {
        "problem": 2 / 5,
        "treatment": 1 / 5,
        "test": 1 / 5,
        "other": 1 / 5,
    }
    assert figures["all"]["semantic_types"] == kinds
    assert figures["answer_lengths"] == {"1": 3 / 5, "2": 2 / 5}


def test_each_specialty_of_a_case_is_counted(figures):
    assert figures["specialties"] == {"surgery": 2 / 3, "oncology": 1 / 3}
    assert figures["specialty_names"] == 1  # three names in three cases
    shares = "surgery 66.7, oncology 33.3"  # of all names
    assert any(shares in words for words in sizes_section("x", figures).words)


def test_a_corpus_without_specialties_says_so():
    figures = statistics({"train": Split("train", TRAIN[2:])})

    assert "specialties: the corpus names none" in sizes_section("x", figures).words


def test_the_table_has_the_paper_beside_our_figures(figures):
    rows = [" ".join(line.split()) for line in lines(sizes_section("mine", figures))]

    assert "train test all CliCR, paper" in rows
    assert "distinct answers 3 2 4 56,093" in rows
    assert "mean of a query's passage 7.7 4.0 6.2 1,466.0" in rows
    assert "% problem 66.7 0.0 40.0 67.0" in rows


def test_skills_are_read_by_the_names_of_the_paper_or_short_ones(tmp_path):
    rows = (
        "uid\tskill\na.1\tbridging\na.1\tObject tracking\na.1\ttracking\nb.1\tnone\nz.9\tmeta\n\n"
    )

    assert read_skills(write(tmp_path / "skills.tsv", rows)) == {
        "a.1": ("bridging", "object tracking"),
        "b.1": ("none",),
        "z.9": ("meta-knowledge",),
    }


SKILLS = {"a.1": ("bridging", "object tracking"), "b.1": ("none",), "z.9": ("meta-knowledge",)}


def test_shares_and_f1_of_skills_are_those_worked_out_by_hand():
    figures = skill_statistics(SKILLS, TRAIN, {"ours": {"a.1": 0.5}})

    assert figures["queries"] == 2
    assert figures["unknown"] == 1
    assert figures["mean"] == 1.0
    shares = figures["shares"]
    f1 = figures["f1"]["ours"]
    assert shares["bridging"] == 0.5
    assert shares["object tracking"] == 0.5
    assert shares["none"] == 0.5
    assert shares["meta-knowledge"] == 0
    # a query without a score counts as wrong
    assert f1["bridging"] == 0.5
    assert f1["none"] == 0
    assert f1["analogy"] is None
    rows = skill_section(figures).grids[0].rows
    assert ("bridging", "50.0", "50.0") in rows
    assert ("analogy", "0.0", "-") in rows


def test_skills_of_no_query_are_refused():
    with pytest.raises(RunError):
        skill_statistics({"z.9": ("bridging",)}, TRAIN)


def test_the_command_prints_and_writes_figures_and_pictures(tmp_path):
    folder = tmp_path / "corpus"
    out = tmp_path / "out"
    folder.mkdir()
    dev = [cloze("d.1", passage("He had [asthma] .", "d"), "_", "asthma")]
    for split, examples in {"train": TRAIN, "dev": dev, "test": TEST}.items():
        clicr.write_clicr(examples, folder / clicr.FILES[split])
    flags = {
        "corpus": folder,
        "skills": write(tmp_path / "skills.tsv", "a.1\tbridging\nc.1\tmeta\n"),
        "out": out,
    }

    code, printed, errors = call_command(
        "analyze cloze-stats", *(f"--{name}={value}" for name, value in flags.items())
    )

    assert code == 0, errors
    assert "cases" in printed
    assert "F1" not in printed  # there is no system
    pictures = {"passage_lengths.png", "answer_lengths.png", "specialties.png"}
    assert {path.name for path in out.iterdir()} == pictures | {".gitignore", "cloze-stats.json"}
    figures = read_json(out, "cloze-stats.json")
    assert figures["skills"]["shares"]["bridging"] == 0.5
    assert figures["all"]["cases"] == 4
