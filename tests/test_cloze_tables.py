"""Files with answers, read whole or refused by line, and the tables that stand beside the paper's."""

import gzip
import json
import runpy
import sys
from pathlib import Path

import pytest
from test_answers import cloze

from mednli_jax.analysis.cloze_tables import PAPER, corpus, lines, markdown, read_answers, split_of, write_answers
from mednli_jax.answers import score
from mednli_jax.data import clicr
from mednli_jax.data.demo_cloze import load_demo_cloze
from mednli_jax.errors import UserError
from mednli_jax.knowledge.vectors_files import read_head

LAUNCH = Path(__file__).parent.parent / "launch"
EXAMPLES = [cloze(f"p.{i}", "x [fever]", "_", "fever", tags=("seen",)) for i in range(30)]
SECRET = "quokka"


def test_both_forms_of_a_file_say_the_same(tmp_path):
    said = {"p.0": "Fever", "p.2": "", "p.1": "é 50 %"}
    write_answers(tmp_path / "a.jsonl", said)
    (tmp_path / "b.json").write_text(json.dumps(said))
    (tmp_path / "c.json").write_text(json.dumps(said, indent=1))
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(json.dumps(said).encode()))
    rows = [json.dumps({"answer": text, "uid": uid, "score": 3}) for uid, text in said.items()]
    (tmp_path / "e.txt").write_text("\ufeff\n" + "\r\n\n".join(rows) + "\n")
    for name in ("a.jsonl", "b.json", "c.json", "d.json.gz", "e.txt"):
        assert read_answers(tmp_path / name, EXAMPLES) == said, name
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o077 == 0


def row(uid, answer):
    return json.dumps({"uid": uid, "answer": answer})


GOOD = row("p.0", "fever")
FAULTS = {
    "no answers": ("a.jsonl", "\n\n", "E-CLZ-057 a.jsonl: "),
    "an empty object": ("a.json", "{}", "E-CLZ-057 a.json: "),
    "no JSON": ("a.json", SECRET, "E-CLZ-052 a.json: "),
    "cut short": ("a.json", '{"p.0": "quokka', "E-CLZ-052 a.json: "),
    "a list": ("a.json", '["quokka"]', "E-CLZ-053 a.json: "),
    "a number": ("a.json", "3", "E-CLZ-053 a.json: "),
    "a line of no JSON": ("a.jsonl", f"{GOOD}\n{SECRET}\n", "E-CLZ-052 a.jsonl:2: "),
    "a line of text": ("a.jsonl", f'{GOOD}\n"quokka"\n', "E-CLZ-053 a.jsonl:2: "),
    "no answer": ("a.jsonl", f'{GOOD}\n{{"uid": "p.1"}}\n', "E-CLZ-053 a.jsonl:2: "),
    "another name": ("a.jsonl", '{"id": "p.1", "answer": "quokka"}\n', "E-CLZ-053 a.jsonl:1: "),
    "a number for an answer": ("a.jsonl", f"{GOOD}\n{row('p.1', 3)}\n", "E-CLZ-054 a.jsonl:2: answer is not text"),
    "a number for a uid": ("a.jsonl", row(3, SECRET), "E-CLZ-054 a.jsonl:1: uid is not text"),
    "a list for an answer": ("a.json", '{"p.0": ["quokka"]}', "E-CLZ-054 a.json: entry 1: answer is not text"),
    "an object for an answer": ("a.json", '{"p.0": {"text": "quokka"}}', "E-CLZ-054 a.json: entry 1: "),
    "null for an answer": ("a.json", '{"p.0": null}', "E-CLZ-054 a.json: entry 1: "),
    "a uid twice": ("a.jsonl", f"{GOOD}\n\n{row('p.0', SECRET)}", "E-CLZ-055 a.jsonl:3: uid repeats that of line 1"),
    "a key twice": ("a.json", '{"p.0": "a", "p.0": "b"}', "E-CLZ-055 a.json: entry 2: uid repeats that of entry 1"),
    "an unknown uid": ("a.jsonl", f"{GOOD}\n{row('quokka', 'a')}", "E-CLZ-056 a.jsonl:2: "),
    "an unknown key": ("a.json", '{"p.0": "a", "quokka": "b"}', "E-CLZ-056 a.json: entry 2: "),
    "no UTF-8": ("a.jsonl", b'{"uid": "\xff"}', "E-CLZ-051 a.jsonl: "),
    "a damaged gzip": ("a.json.gz", gzip.compress(b'{"p.0": "a"}' * 9)[:-9], "E-CLZ-051 a.json.gz: "),
    "deep": ("a.json", "[" * 100_000, "E-CLZ-052 a.json: "),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_are_told_by_place_and_never_quoted(case, tmp_path):
    name, content, expected = FAULTS[case]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as caught:
        read_answers(tmp_path / name, EXAMPLES)
    told = str(caught.value)
    assert told.startswith(expected)
    assert " Fix: " in told
    assert SECRET not in told
    assert "\n" not in told


def test_the_first_20_faults_are_told_together(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(row("p.0", "a") + "\n" for _ in range(31)))
    with pytest.raises(UserError) as caught:
        read_answers(tmp_path / "a.jsonl", EXAMPLES)
    told = str(caught.value).splitlines()
    assert len(told) == 21
    assert told[-1] == "... and 10 more problems of this kind."


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"^E-CLZ-050 none\.json: there is no such file\. Fix: "):
        read_answers(tmp_path / "none.json", EXAMPLES)
    with pytest.raises(UserError, match="E-CLZ-051"):
        read_answers(tmp_path, EXAMPLES)


def test_the_text_of_scores():
    scores = score(EXAMPLES, {"p.0": "fever", "p.1": "the fever of unknown origin"})
    told = list(lines("mine on demo, test", scores))
    assert told[0] == "mine on demo, test: 30 queries, 28 without an answer"
    assert told[1].startswith("exact match 3.3 (95 % interval ")
    assert any("--vectors" in line for line in told)
    table = [line.split() for line in told]
    # F1 of "fever of unknown origin" against one word: 2/5.
    assert ["all", "30", "3.3", "4.7", "0.00", "0.00", "-", "2.5", "28"] in table
    assert ["seen", "30", "3.3", "4.7", "0.00", "0.00", "-", "2.5", "28"] in table


def test_a_table_has_the_papers_figures_beside_ours():
    ours = {"exact_match": 0.246, "f1": 0.3, "bleu2": 0.2, "bleu4": 0.1, "embedding": None, "predicted_length": 1.54}
    table = list(markdown([("maxfreq-entity", ours), ("own", {"exact_match": 0.5})]))
    assert len({line.count("|") for line in table}) == 1
    assert table[2] == "| maxfreq-entity | 24.6 | 30.0 | 0.20 | 0.10 |  | 1.5 | 8.5 | 12.6 | 0.10 | 0.05 | 0.31 |"
    assert table[3] == "| own | 50.0 |  |  |  |  |  |  |  |  |  |  |"
    rest = [line.split("|")[1].strip() for line in table[4:]]
    assert rest == [system for system in PAPER if system != "maxfreq-entity"]
    assert table[-2] == "| human-expert |  |  |  |  |  |  | 35.0 | 53.7 | 0.46 | 0.23 | 0.67 |"
    assert len(list(markdown([("own", {})], paper=False))) == 3


def test_the_papers_figures_are_whole():
    assert len(PAPER) == 11
    for figures in PAPER.values():
        assert figures["exact_match"] <= figures["f1"]
        assert figures["bleu4"] <= figures["bleu2"] <= 1
    # Section 7: the expert has 7 points of F1 (here 8.6) over the novice, and 20 over the best machine.
    best = max(figures["f1"] for system, figures in PAPER.items() if not system.startswith("human"))
    assert PAPER["human-expert"]["f1"] - best == pytest.approx(0.198, abs=1e-3)


def write_corpus(folder):
    """Files in CliCR's layout: the answer of the first query of dev stands in train, that of the second does not."""
    folder.mkdir(parents=True, exist_ok=True)
    answers = {"train": ("fever", "cough"), "dev": ("Fever", "rash"), "test": ("cough", "fever")}
    for split, own in answers.items():
        context = "BEG__Fever__END and BEG__rash__END .\nMore BEG__cough__END , BEG__rash__END and fever ."
        queries = [
            {
                "id": f"{split}.{number}",
                "query": f"Beside BEG__rash__END there was @placeholder {number} .",
                "answers": [{"text": text, "cui": "C1", "sem_type": "problem", "origin": "dataset"}],
            }
            for number, text in enumerate(own)
        ]
        document = {"title": "A case", "context": context, "qas": queries}
        whole = {"version": "1.0", "data": [{"source": split, "document": document}]}
        (folder / f"{split}1.0.json").write_text(json.dumps(whole))
    return folder


def test_a_corpus_by_name_or_folder(tmp_path, monkeypatch):
    write_corpus(tmp_path / "clicr")
    for name in (str(tmp_path / "clicr"), "clicr"):
        monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path))
        splits = corpus(name)
        assert [example.uid for example in splits["dev"].examples] == ["dev.0", "dev.1"]
        assert [example.tags for example in split_of(splits, "dev").examples] == [("seen",), ("unseen",)]
    with pytest.raises(UserError, match=r"E-CLZ-059 --split=valid: .* Fix: give one of train, dev, test"):
        split_of(splits, "valid")
    with pytest.raises(UserError, match=r"E-CLZ-058 .*none: is no folder\. Fix: "):
        corpus(str(tmp_path / "none"))
    monkeypatch.delenv("MEDNLI_JAX_DATA")
    with pytest.raises(UserError, match=r"E-CLZ-058 .*\$MEDNLI_JAX_DATA is not set"):
        corpus("clicr")


# ---- scripts ----


@pytest.fixture
def launch(tmp_path, monkeypatch, capsys):
    """launch(script, *flags) -> (exit code, stdout, stderr), in a folder with a corpus in own/."""
    write_corpus(tmp_path / "own")
    monkeypatch.chdir(tmp_path)

    def call(script, *flags):
        monkeypatch.setattr(sys, "argv", [script, *flags])
        code = runpy.run_path(str(LAUNCH / script))["main"]()
        return code, *capsys.readouterr()

    return call


def test_the_baselines_of_a_corpus_in_a_table(launch, tmp_path):
    (tmp_path / "v.txt").write_text("and 1 0\nmore 0 1\nbeside 1 1\n")
    code, out, _ = launch("cloze_baselines.py", "--corpus=own", "--vectors=v.txt", "--out=runs")
    assert code == 0
    rows = {cells[1].strip(): [c.strip() for c in cells[2:]] for cells in (r.split("|") for r in out.splitlines()[4:])}
    # Rash is the most frequent, and the query's own; of the others fever comes first, the answer of one query of two.
    assert rows["maxfreq-entity"][0] == "0.0"
    assert rows["maxfreq-entity, not in the query"][0] == "50.0"
    assert rows["upper bound"][0] == "100.0"
    assert rows["rand-entity, mean of all draws"][0] == "25.0"
    assert set(PAPER) < set(rows)
    assert rows["human-expert"][6] == "35.0"
    result = json.loads((tmp_path / "runs" / "baselines.test.json").read_text())
    assert 1 <= result["facts"]["sim-entity"]["window"] <= 10
    said = tmp_path / "runs" / "private" / "maxfreq-entity-not_in_the_query.test.jsonl"
    examples = split_of(corpus("own"), "test").examples
    assert read_answers(said, examples) == {"test.0": "fever", "test.1": "fever"}
    scores = score(examples, read_answers(said, examples))
    assert scores["f1"] == result["rows"]["maxfreq-entity, not in the query"]["f1"]
    assert SECRET not in out
    code, out, err = launch("cloze_baselines.py", "--corpus=none")
    assert (code, out) == (2, "")
    assert err.startswith("E-CLZ-058 none: ")


def test_a_search_for_vectors_goes_on_where_it_was(launch, tmp_path):
    flags = ("cloze_vectors.py", "--corpus=own", "--out=vectors", "--dims=4,6", "--min_counts=1", "--epochs=1")
    assert launch(*flags, "--trials=1")[0] == 0
    (first,) = (tmp_path / "vectors" / "trials.jsonl").read_text().splitlines()
    assert launch(*flags, "--trials=2")[0] == 0
    again, second = (tmp_path / "vectors" / "trials.jsonl").read_text().splitlines()
    assert again == first
    assert json.loads(second)["trial"] == 1
    code, out, _ = launch(*flags, "--trials=2")
    assert (code, len(out.splitlines())) == (0, 4)
    left = sorted(path.name for path in (tmp_path / "vectors").iterdir())
    assert left == ["best.vec", "best.vec.json", "trials.jsonl"]
    assert read_head(tmp_path / "vectors" / "best.vec").dim in (4, 6)
    (tmp_path / "vectors" / "trials.jsonl").write_text(first + "\nquokka\n")
    code, _, err = launch(*flags)
    assert (code, err.split(":")[1]) == (2, "2")
    assert err.startswith("E-CLZ-070 ")


def test_clicrs_passages_begin_with_their_titles_and_a_folders_do_not(tmp_path, monkeypatch):
    folder = tmp_path / "clicr"
    demo = load_demo_cloze()
    for split, file in (("train", "train1.0.json"), ("dev", "dev1.0.json"), ("test", "test1.0.json")):
        folder.mkdir(exist_ok=True)
        clicr.write_clicr(demo[split].examples[:3], folder / file)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path))
    plain, whole = (corpus(name)["dev"].examples[0].passage for name in (str(folder), "clicr"))
    assert len(plain.title) > 0
    assert whole.tokens == plain.title + plain.tokens
