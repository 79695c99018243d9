"""Runs on cloze queries at the doors: prepare, train, evaluate, predict, report on a few made-up articles."""

import json
import random
import re
import shutil
import stat
import sys

import pytest
from made_up_runs import GOLD, write_run
from test_commands import ROOT, door, places
from test_report import check_offline

from mednli_jax import answers, cli, evaluate, finished_run, prepare, report
from mednli_jax.analysis.cloze import outcomes as cloze_outcomes
from mednli_jax.analysis.cloze import tables as cloze_tables

SECRET = "zyzzyva"  # stands in every passage, must stand in no output
PHRASES = ("fever", "dry cough", "skin rash", "gout", "chest pain")
SMALL = (
    "--config.model.hidden_size=4",
    "--config.model.hops=2",
    "--config.vectors.dim=8",
    "--config.train.batch_size=4",
    "--config.train.epochs=1",
    "--config.train.max_buckets=1",
)


def write_articles(folder):
    """Articles of three phrases each, the last of the test part without any; three queries about each."""
    folder.mkdir(parents=True)
    draw = random.Random(3)
    for split, count in (("train", 4), ("dev", 2), ("test", 3)):
        articles = []
        for number in range(count):
            phrases = [] if (split, number) == ("test", 2) else draw.sample(PHRASES, 3)
            marked = " and ".join(f"BEG__{phrase}__END" for phrase in phrases)
            queries = [
                {
                    "id": f"{split}{number}.{query}",
                    "query": f"case {query} had @placeholder .",
                    "answers": [{
                        "text": phrases[query] if phrases else "fever", "cui": "C1",
                        "sem_type": ("problem", "test")[query % 2], "origin": "dataset",
                    }],
                }
                for query in range(3)
            ]  # fmt: skip
            document = {"title": "A case", "context": f"{SECRET} shows {marked} .\nNo more .", "qas": queries}
            articles.append({"source": f"{split}{number}", "document": document})
        (folder / f"{split}1.0.json").write_text(json.dumps({"version": "1.0", "data": articles}))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with own/ (files), a cache, and one finished run of two seeds in run/."""
    home = tmp_path_factory.mktemp("home")
    write_articles(home / "own")
    config = f"--config={ROOT / 'configs' / 'ga_ent.py'}:file"
    flags = (config, "--config.data.dir=own", *SMALL, "--config.seeds=0,1", "--workdir=run")
    done = door("train", *flags, cwd=home, **places(home))
    assert done.returncode == 0, done.stderr
    (home / "told").write_text(done.stdout + done.stderr)
    return home


@pytest.fixture
def told(home, monkeypatch, capsys):
    """Runs a door of this process at home: (exit code, stdout, stderr)."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(home / "cache"))

    def call(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
        code = cli.run(module.main, module.USAGE, module.define, words=sys.maxsize if module is report else 0)
        return code, *capsys.readouterr()

    return call


def lines_of(home, split):
    """(uid, passage, query) as a corpus's file has them."""
    for article in json.loads((home / "own" / f"{split}1.0.json").read_text())["data"]:
        document = article["document"]
        for query in document["qas"]:
            yield query["id"], document["context"], query["query"]


def test_prepare_tells_what_a_corpus_holds(home, told):
    config = f"--config={ROOT / 'configs' / 'ga_ent.py'}:file"
    code, out, err = told(prepare, config, "--config.data.dir=own", "--config.vectors.dim=8")
    assert (code, SECRET in out + err) == (0, False)
    assert re.search(r"^found in ", out)
    assert "  test: 9 queries of 3 passages; longest passage " in out
    assert "    6 candidates, 2.0 a passage; answers among them: 6 as they stand, 0 by a synonym, 3 not\n" in out
    phrases, shown = map(int, re.search(r"set-up ent: (\d+) phrases, (\d+) of them in training", out).groups())
    assert 3 <= shown <= phrases <= len(PHRASES)
    assert "random vectors; 0 of dev and test alone" in out


def test_nothing_is_readable_by_others_and_no_text_leaves_private(home):
    assert SECRET not in (home / "told").read_text()
    for path in (home / "run").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        if path.is_file() and "private" not in path.parts and "checkpoints" not in path.parts:
            content = path.read_bytes()
            assert not any(text.encode() in content for text in (SECRET, *PHRASES)), path


def test_the_page_of_a_run(home):
    page = check_offline((home / "run" / "report.html").read_text())
    text = " ".join(page.words)
    for expected in ("ga_reader on file", "Learning curves", "Kinds of queries, test"):
        assert expected in text, expected
    assert "dev 6, test 9 queries" in text
    for family in ("answers of training", "answer length", "semantic type"):
        assert family in text
    assert "Confusion" not in text
    assert "Calibration" not in text


def test_predict_says_what_was_predicted_in_training_whatever_order_and_hashes(home, tmp_path):
    """From the run alone: neither the corpus nor the cache is there."""
    shutil.copytree(home / "run", tmp_path / "run")
    saved = [
        json.loads(line) for line in (home / "run" / "private" / "predictions.test.jsonl").read_text().splitlines()
    ]
    given = list(lines_of(home, "test"))
    told = {}
    for seed, order, more in (("1", given, ("--attention",)), ("2", given[::-1], ())):
        stdin = "".join(json.dumps({"passage": passage, "query": query}) + "\n" for _, passage, query in order)
        done = door(
            "predict", "--run=run", *more, cwd=tmp_path, stdin=stdin, PYTHONHASHSEED=seed,
            **{**places(tmp_path), "MEDNLI_JAX_DATA": ""},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
        assert not any(phrase in done.stderr for phrase in PHRASES)
        header, *rows = [line.split("\t") for line in done.stdout.splitlines()]
        assert header == ["answer", "probability", "candidates", "best"]
        told[seed] = {uid: row for (uid, _, _), row in zip(order, rows, strict=True)}
        assert "9 queries; words without a vector: 0 in passages, 0 in queries" in done.stderr
    for row in saved:
        first, second = (told[seed][row["uid"]] for seed in ("1", "2"))
        best = row["best"][0]["answer"] if row["best"] else ""
        assert first[0] == second[0] == best
        for found in (first, second):
            assert int(found[2]) == len(row["best"])
            assert [b["answer"] for b in json.loads(found[3])] == [b["answer"] for b in row["best"]]
            expected = [b["probability"] for b in row["best"]]
            assert [b["probability"] for b in json.loads(found[3])] == pytest.approx(expected, abs=3e-6)
            assert float(found[1]) == pytest.approx(expected[0] if expected else 0, abs=3e-6)
    made = tmp_path / "run" / "private" / "attention"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    names = [f"passage-{n}.{kind}" for n in range(1, 10) for kind in ("html", "json")]
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in made.iterdir()} == dict.fromkeys(
        [".gitignore", *names], 0o600
    )
    page = check_offline((made / "passage-1.html").read_text())
    assert SECRET in " ".join(page.words)
    assert sum(tag == "u" for tag, _ in page.tags) == 3


def test_evaluate_repeats_the_scores_of_training(home, told):
    (home / "skills.tsv").write_text("test0.0\tbridging\ntest2.0\tbridging\ntest0.1\tellipsis\n")
    (home / "v.txt").write_text("fever 1 0\ncough 0 1\nrash 1 1\npain 1 2\n")
    flags = ("--run=run", "--skills=skills.tsv", "--scores=each.jsonl", "--vectors=v.txt")
    code, out, err = told(evaluate, *flags, "--json")
    assert (code, SECRET in out + err) == (0, False)
    scores, expected = json.loads(out), json.loads((home / "run" / "result.json").read_text())["test"]
    assert (scores["seeds"], scores["examples"], scores["in_passage"]) == ([0, 1], 9, 6)
    for name in ("accuracy", "f1", "bleu2", "missing", "loss"):
        assert scores[name]["per_seed"] == pytest.approx(expected[name]["per_seed"], abs=1e-5), name
    assert expected["embedding"] is None
    assert 0 <= scores["embedding"]["mean"] <= 1
    each = {row["uid"]: row for row in map(json.loads, (home / "each.jsonl").read_text().splitlines())}
    assert sum(row["f1"] for row in each.values()) / 9 == pytest.approx(scores["f1"]["mean"])
    skill = scores["families"]["skill"]
    assert skill["bridging"]["f1"]["mean"] == pytest.approx((each["test0.0"]["f1"] + each["test2.0"]["f1"]) / 2)
    assert (skill["bridging"]["examples"], each["test2.0"]["answered"]) == (2, 0)


WRONG = {
    "another corpus": (evaluate, ("--run=run", f"--config={ROOT / 'configs' / 'ga_ent.py'}"), "--config"),
    "a partition": (evaluate, ("--run=run", "--partition=ids.txt"), "--partition"),
    "no such split": (evaluate, ("--run=run", "--split=valid"), "E-USE-008"),
    "no skills": (evaluate, ("--run=run", "--skills=none.tsv"), "E-DATA-001"),
    "kinds of error": (report, ("run", "--categories"), "E-REP-017"),
    "kinds of error of several": (report, ("run", "run", "--compare", "--categories"), "E-REP-017"),
    "pairs beside queries": (report, ("run", "pairs", "--compare"), "pairs: is no run on cloze queries"),
    "queries beside pairs": (report, ("pairs", "run", "--compare"), "run: is no run on sentence pairs"),
    "no such table": (report, ("--table=clicr5", "--runs=."), "E-REP-010"),
    "no folder of runs": (report, ("--table=clicr4", "--runs=none"), "E-REP-011"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_run_on_queries_cannot_do_is_one_line(case, home, told):
    module, arguments, expected = WRONG[case]
    (home / "ids.txt").write_text("test0.0\n")
    if not (home / "pairs").exists():
        write_run(home / "pairs", GOLD)
    code, out, err = told(module, *arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(expected)
    assert " Fix: " in err


def test_runs_are_compared_on_the_same_queries(home, told):
    """A run with the right answers in place of its own gains what it got wrong."""
    shutil.copytree(home / "run", home / "right", dirs_exist_ok=True)
    path = home / "right" / "private" / "predictions.test.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    queries = {query.uid: query for query in cloze_outcomes.queries_of(home / "run", "test", finished_run.prepared_of)}
    for row in rows:
        row["predicted"] = [queries[row["uid"]].answers[0].text] * 2
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = told(report, "run", "right", "--compare", "--json")
    assert (code, SECRET in out + err) == (0, False)
    (row,) = json.loads(out)["comparisons"]
    own = json.loads((home / "run" / "result.json").read_text())["test"]
    assert row["exact_match_of"] == pytest.approx([own["accuracy"]["mean"], 1.0])
    assert row["f1"]["difference"] == pytest.approx(1 - own["f1"]["mean"])
    assert row["f1"]["low"] <= row["f1"]["difference"] <= row["f1"]["high"]
    code, out, _ = told(report, "run", "right", "--out=page.html")
    page = check_offline((home / "page.html").read_text())
    assert not any(phrase in " ".join(page.words) for phrase in (SECRET, *PHRASES))
    rows.pop()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = told(report, "run", "right", "--compare")
    assert (code, out) == (2, "")
    assert err.startswith("right: 8 predictions for 9 queries in test, 8 of them the same")


def test_the_papers_table_is_filled_from_a_folder(home, told, monkeypatch):
    folder = home / "table"
    shutil.copytree(home / "run", folder / "ga_anonym")
    queries = cloze_outcomes.queries_of(folder / "ga_anonym", "test", finished_run.prepared_of)
    said = {query.uid: "fever" for query in queries}
    found = answers.summary(answers.query_scores(queries, said))
    (folder / "baselines" / "private").mkdir(parents=True)
    baselines = {"corpus": "own", "split": "test", "rows": {"maxfreq-entity": found}}
    (folder / "baselines" / "baselines.test.json").write_text(json.dumps(baselines))
    for name in ("maxfreq-entity", "maxfreq-entity-not_in_the_query"):
        cloze_tables.write_answers(folder / "baselines" / "private" / f"{name}.test.jsonl", said)
    code, out, _ = told(report, "--table=clicr4", "--runs=table", "--skills=skills.tsv", "--out=table.html")
    assert code == 0
    check_offline((home / "table.html").read_text())
    rows = {line[:34].strip(): line[34:].split() for line in out.splitlines()}
    exact = f"{100 * found['exact_match']:.1f}"
    assert rows["maxfreq-entity"][:3] == ["1", exact, "-"]
    assert rows["maxfreq-entity"][-5:] == ["8.5", "12.6", "0.10", "0.05", "0.31"]
    assert rows["GA-Anonym"][0] == "2"
    assert rows["SA-Ent"][0] == "missing"
    assert rows["human-expert"][0] == "-"
    assert "NOT COMPARABLE with ours on file" in out
    assert "bash launch/clicr_table4.sh table CORPUS_FOLDER" in out
    fill = "python launch/cloze_baselines.py --corpus=CORPUS_FOLDER --split=test --vectors=FILE --out=table/baselines"
    assert f"{fill}\n" in out
    assert re.search(r"^bridging +66\.7 ", out, re.MULTILINE)
    from mednli_jax.analysis.cloze.table4 import against_baselines

    for row in against_baselines(folder, "test", finished_run.prepared_of):
        assert row["first"] == "ga_anonym"
        assert row["exact_match_of"][1] == pytest.approx(found["exact_match"])


def test_a_corpuss_own_queries_get_the_stored_predictions(home, monkeypatch):
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(home / "cache"))
    run = evaluate.load_run(home / "run")
    for split in ("dev", "test"):
        texts = {uid: {"passage": passage, "query": query} for uid, passage, query in lines_of(home, split)}
        stored = (home / "run" / "private" / f"predictions.{split}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in stored]
        found = run.predict([texts[row["uid"]] for row in rows])
        assert len(found) == len(rows) == len(texts)
        for row, expected in zip(found, rows, strict=True):
            assert [best["answer"] for best in row["best"]] == [best["answer"] for best in expected["best"]]
            said = [best["probability"] for best in row["best"]]
            assert said == pytest.approx([best["probability"] for best in expected["best"]], abs=1e-5)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a passage alone", "stdin:1: is not a passage and a query"),
        ("BEG__a__END\tno blank", "stdin:1: has 0 of @placeholder in its query"),
        ("BEG__a__END\t@placeholder @placeholder", "stdin:1: has 2"),
        ("BEG__a__END @placeholder\t@placeholder", "stdin:1: has 1 of @placeholder in its query and 1"),
        (f"BEG__{SECRET}\t@placeholder", "stdin:1: has 1 marks"),
        ('{"passage": "BEG__a__END", "query": 3}', "stdin:1"),
        ('{"premise": "a", "hypothesis": "b"}', "stdin:1"),
    ],
)
def test_bad_passages_and_queries_are_named_by_line(line, expected):
    import io

    from mednli_jax.errors import UserError
    from mednli_jax.predict import read_pairs

    with pytest.raises(UserError) as caught:
        read_pairs(io.BytesIO(f"{line}\n".encode()), "cloze")
    assert str(caught.value).startswith(expected)
    assert SECRET not in str(caught.value)
    good = b'BEG__a b__END c\tx @placeholder\n{"passage": "d", "query": "@placeholder"}\n'
    assert read_pairs(io.BytesIO(good), "cloze") == [("BEG__a b__END c", "x @placeholder"), ("d", "@placeholder")]
