"""Files of answers are read whole or refused with a line number; tables show our figures beside the
paper's."""

import json
from dataclasses import replace

import pretrain_vectors
import pytest
from support.cloze import cloze, passage
from support.commands import refused, succeeds
from support.files import write

from mednli_jax.cloze import baselines
from mednli_jax.cloze.clicr import write_clicr
from mednli_jax.cloze.corpus import read_splits, split_of
from mednli_jax.cloze.scores import (
    answer_lines,
    query_scores,
    read_answers,
    seed_scores,
)
from mednli_jax.cloze.tables import PAPER
from mednli_jax.data.vector_formats import read_head
from mednli_jax.files.writing import write_atomic

EXAMPLES = [cloze(f"p.{i}", "x [fever]", "_", "fever", tags=("seen",)) for i in range(30)]


def test_a_file_of_answers_reads_the_same_as_json_and_as_json_lines(tmp_path):
    said = {"p.0": "Fever", "p.2": "", "p.1": "é 50 %"}
    rows = [json.dumps({"answer": text, "uid": uid, "score": 3}) for uid, text in said.items()]
    write_atomic(tmp_path / "a.jsonl", answer_lines(said))
    write(tmp_path / "c.json", json.dumps(said, indent=1))
    write(tmp_path / "d.json.gz", json.dumps(said))
    write(tmp_path / "e.txt", "\ufeff\n" + "\r\n\n".join(rows) + "\n")

    for name in ("a.jsonl", "c.json", "d.json.gz", "e.txt"):
        assert read_answers(tmp_path / name, EXAMPLES) == said, name
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o077 == 0


@pytest.fixture
def seeds():
    """Two seeds on 30 queries. The first answers three right; the second answers one right and
    gives "fever of unknown" to another: one word of three, so F1 is .5."""
    first = {f"p.{i}": "fever" for i in range(3)}
    second = {"p.0": "fever", "p.1": "fever of unknown"}
    return [query_scores(EXAMPLES, answers) for answers in (first, second)]


def test_cloze_scores_of_several_seeds_are_means(seeds):
    whole = seed_scores(seeds)
    part = seed_scores(seeds, [0, 1])

    assert whole["accuracy"]["per_seed"] == pytest.approx([3 / 30, 1 / 30])
    assert part["examples"] == 2
    assert part["accuracy"]["mean"] == 0.75
    assert part["f1"]["per_seed"] == pytest.approx([1, 0.75])


def write_corpus(folder):
    """Files in the layout of CliCR. The first answer of dev occurs in train, the second does
    not."""
    folder.mkdir(parents=True, exist_ok=True)
    about = passage("[Fever] and [rash] . | More [cough] , [rash] and fever .")
    answers = {"train": ("fever", "cough"), "dev": ("Fever", "rash"), "test": ("cough", "fever")}
    for split, own in answers.items():
        case = replace(about, uid=split, title=("A", "case"))
        texts = [f"Beside [rash] there was _ {number} ." for number in range(2)]
        queries = [cloze(f"{split}.{n}", case, text, own[n]) for n, text in enumerate(texts)]
        write_clicr(queries, folder / f"{split}1.0.json")
    return folder


@pytest.mark.parametrize("name", ["clicr", "folder"])
def test_a_cloze_corpus_is_read_by_its_name_with_titles_and_by_its_folder_without(
    tmp_path, monkeypatch, name
):
    """CliCR's passages begin with their titles, those of a folder do not."""
    folder = write_corpus(tmp_path / "clicr")
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path))

    splits = read_splits("clicr" if name == "clicr" else str(folder))

    first, second = splits["dev"].examples
    assert (first.uid, second.uid) == ("dev.0", "dev.1")
    start = "A case" if name == "clicr" else "Fever and"
    assert " ".join(first.passage.tokens[:2]) == start
    tags = [tag for example in split_of(splits, "dev").examples for tag in example.tags]
    assert tags == ["seen", "unseen"]


@pytest.fixture
def _at_corpus(tmp_path, monkeypatch):
    """A working folder that has a corpus in own/."""
    write_corpus(tmp_path / "own")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_at_corpus")
def test_the_table_of_baselines_has_their_scores_beside_the_papers(tmp_path):
    (tmp_path / "v.txt").write_text("and 1 0\nmore 0 1\nbeside 1 1\n")
    flags = ("--corpus=own", "--vectors=v.txt", "--out=runs")
    out, _ = succeeds("analyze cloze-baselines", *flags)
    (rows,) = (
        section.grids[0].rows for section in baselines.analysis("own", tmp_path / "v.txt").sections
    )
    cells = {row[0]: row[1:] for row in rows}
    # Rash is the most frequent entity, but it occurs in the query. Fever answers one query of two.
    assert cells["maxfreq-entity"][0] == "0.0"
    assert cells["upper bound"][0] == "100.0"
    assert cells["rand-entity, expected"][0] == "25.0"
    assert set(PAPER) < set(cells)
    assert cells["human-expert"][6] == "35.0"
    assert "human-expert" in out
    result = json.loads((tmp_path / "runs" / "cloze-baselines.json").read_text())
    assert 1 <= result["facts"]["sim-entity"]["window"] <= 10
    said = tmp_path / "runs" / "private" / "maxfreq-entity.test.jsonl"
    examples = split_of(read_splits("own"), "test").examples
    assert read_answers(said, examples) == {"test.0": "rash", "test.1": "rash"}
    err = refused("analyze cloze-baselines --corpus=none")
    assert err.startswith("error: none: ")


@pytest.mark.usefixtures("_at_corpus")
def test_a_search_for_vectors_goes_on_with_the_trial_where_it_was(tmp_path):
    flags = (
        "--search=own",
        "--out=vectors",
        "--dims=4,6",
        "--min_count=1",
        "--epochs=1",
    )
    succeeds(pretrain_vectors, *flags, "--trials=1")
    (first,) = (tmp_path / "vectors" / "trials.jsonl").read_text().splitlines()
    succeeds(pretrain_vectors, *flags, "--trials=2")
    again, second = (tmp_path / "vectors" / "trials.jsonl").read_text().splitlines()
    assert again == first
    assert json.loads(second)["trial"] == 1
    assert succeeds(pretrain_vectors, *flags, "--trials=2") == ("", "")
    left = sorted(path.name for path in (tmp_path / "vectors").iterdir())
    assert left == [".gitignore", "best.vec", "trials.jsonl"]
    assert read_head(tmp_path / "vectors" / "best.vec").dim in (4, 6)
