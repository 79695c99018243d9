"""The commands prepare, train, evaluate, predict and report on cloze queries from a few made-up
articles."""

import io
import json
import re
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.cloze import PHRASES, write_articles
from support.commands import (
    at,
    call_command,
    config_flag,
    environment_of,
    json_lines,
    read_json,
    run_command,
    use_one_device,
)
from support.pair_files import SECRET
from support.runs import GOLD, write_run

from mednli_jax import evaluate, predict, prepare, train
from mednli_jax.cloze import scores as answers
from mednli_jax.cloze import tables
from mednli_jax.cloze.plug import TASK as CLOZE
from mednli_jax.cloze.task import ClozeTask
from mednli_jax.errors import UserError
from mednli_jax.predict import read_chunks
from mednli_jax.report import __main__ as report
from mednli_jax.run import load_run

ROOT = Path(__file__).parents[2]
CONFIG = config_flag("ga_ent", "file")
SMALL = (
    "--config.model.hidden_size=4",
    "--config.model.hops=2",
    "--config.vectors.dim=8",
    "--config.train.batch_size=4",
    "--config.train.epochs=1",
    "--config.train.max_buckets=1",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a corpus in own/, a cache, and one finished run of two seeds in run/."""
    home = tmp_path_factory.mktemp("home")
    write_articles(home / "own")
    flags = (CONFIG, "--config.data.dir=own", *SMALL, "--config.seeds=0,1", "--workdir=run")
    with at(home):
        code, out, err = call_command(train, *flags)
    assert (code, SECRET in out + err) == (0, False), err
    (home / "skills.tsv").write_text("test0.0\tbridging\ntest2.0\tbridging\ntest0.1\tellipsis\n")
    (home / "v.txt").write_text("fever 1 0\ncough 0 1\nrash 1 1\npain 1 2\n")
    return home


@pytest.fixture
def at_home(home):
    with at(home):
        yield


def texts_of(home, split):
    """(uid, passage, query), as the files of the corpus have them."""
    for article in read_json(home, "own", f"{split}1.0.json")["data"]:
        document = article["document"]
        for query in document["qas"]:
            yield query["id"], document["context"], query["query"]


def test_prepare_prints_what_a_corpus_holds(at_home):
    code, out, err = call_command(
        prepare, CONFIG, "--config.data.dir=own", "--config.vectors.dim=8"
    )
    assert (code, SECRET in out + err) == (0, False)
    assert re.search(r"^found in ", out)
    assert "  test: 9 queries of 3 passages; longest passage " in out
    assert (
        "    6 candidates, 2.0 a passage; answers among them: 6 as they stand, 0 by a synonym, 3 not\n"
        in out
    )


@pytest.mark.slow
def test_a_dev_split_without_an_answer_that_can_be_scored_has_no_loss(tmp_path, monkeypatch):
    """The SA reader only predicts phrases of training, and dev has none of them."""
    dev = write_articles(tmp_path / "own") / "dev1.0.json"
    text = dev.read_text()
    for phrase in PHRASES:
        text = text.replace(phrase, f"other {phrase}")
    dev.write_text(text)
    use_one_device(monkeypatch)
    small = ("--config.model.hidden_size=4", *SMALL[2:])
    flags = (config_flag("sa_ent", "file"), f"--config.data.dir={tmp_path / 'own'}", *small)
    code, _, err = call_command(train, *flags, f"--workdir={tmp_path / 'run'}")
    assert (code, "dev loss 0" in err) == (0, False), err
    assert "no dev loss (no dev answer can be scored)" in err
    assert read_json(tmp_path, "run", "result.json")["dev"]["loss"] is None
    assert call_command(report, tmp_path / "run")[0] == 0
    code, _, err = call_command(
        train, *flags, "--config.train.select=loss", f"--workdir={tmp_path / 'other'}"
    )
    assert (code, "--config.train.select: is 'loss', and no dev answer can be scored" in err) == (
        2,
        True,
    )


def test_a_seed_that_diverged_has_no_loss_and_leaves_that_of_others():
    logits = np.log([[[0.5, 0.25, 0.25]], [[np.nan] * 3]])
    losses = ClozeTask().losses(SimpleNamespace(label=np.array([1])), logits)
    np.testing.assert_allclose(losses, [np.log(4), np.nan])


def test_predict_gives_the_predictions_of_training_in_any_order_and_with_any_hash_seed(
    home, tmp_path
):
    """The run alone is enough: neither the corpus nor the cache is there."""
    shutil.copytree(home / "run", tmp_path / "run")
    given = list(texts_of(home, "test"))
    expected = {
        row["uid"]: row["best"]
        for row in json_lines(home, "run", "private", "predictions.test.jsonl")
    }
    page = (home / "run" / "report.html").read_text()
    assert all(
        title in page for title in ("Learning curves", "Kinds of queries, test", "answer length")
    )
    for order, more in ((given, ("--attention",)), (given[::-1], ())):
        stdin = "".join(
            json.dumps({"passage": passage, "query": query}) + "\n" for _, passage, query in order
        )
        if more:
            with at(tmp_path):
                code, out, err = call_command(predict, "--run=run", *more, stdin=stdin)
        else:
            variables = {**environment_of(tmp_path), "PYTHONHASHSEED": "2"}
            del variables["MEDNLI_JAX_DATA"]
            done = run_command("predict", "--run=run", cwd=tmp_path, stdin=stdin, **variables)
            code, out, err = done.returncode, done.stdout, done.stderr
        assert (code, SECRET in out + err) == (0, False), err
        header, *rows = [line.split("\t") for line in out.splitlines()]
        assert header == ["answer", "probability", "candidates", "best"]
        for (uid, _, _), (answer, probability, candidates, best) in zip(order, rows, strict=True):
            of_run, found = expected[uid], json.loads(best)
            assert answer == (of_run[0]["answer"] if of_run else "")
            assert int(candidates) == len(of_run)
            assert [b["answer"] for b in found] == [b["answer"] for b in of_run]
            chances = [b["probability"] for b in of_run]
            assert [b["probability"] for b in found] == pytest.approx(chances, abs=3e-6)
            assert float(probability) == pytest.approx(chances[0] if chances else 0, abs=3e-6)
    made = tmp_path / "run" / "private" / "attention"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    names = [
        ".gitignore",
        *(f"passage-{n}.{kind}" for n in range(1, 10) for kind in ("html", "json")),
    ]
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in made.iterdir()} == dict.fromkeys(
        names, 0o600
    )
    page = (made / "passage-1.html").read_text()
    assert (SECRET in page, page.count("<u>") + page.count("<u "), "://" in page) == (
        True,
        3,
        False,
    )


def test_where_a_reader_looks_is_what_it_answers_by(home, at_home):
    """With pointer sum attention, a candidate's probability is the weight of its places, normalised
    over candidates."""
    run = load_run(home / "run")
    passage = "case BEG__New Thing__END shows BEG__fever__END xylo BEG__new thing__END ."
    given = [(passage, "case unheard @placeholder ."), ("shows xylo", "@placeholder")]
    looked, said = run.attention(given), run.predict(given)
    assert said.unknown_words == {"passage": 4, "query": 1}  # the new phrase twice, and xylo twice
    seen = looked[0]
    np.testing.assert_allclose(seen["weights"].sum(axis=1), 1, atol=1e-5)
    mass_SC = np.array(
        [[sum(w[s:e].sum() for s, e in spans) for spans in seen["spans"]] for w in seen["weights"]]
    )
    mean_C = (mass_SC / mass_SC.sum(axis=1, keepdims=True)).mean(axis=0)
    expected = dict(zip(seen["candidates"], mean_C, strict=True))
    assert {best["answer"] for best in said[0]["best"]} == {"new thing", "fever"}
    for best in said[0]["best"]:
        assert best["probability"] == pytest.approx(expected[best["answer"]], abs=1e-5)
    assert [seen["names"][seen["passage"][spans[0][0]]] for spans in seen["spans"]] == seen[
        "candidates"
    ]
    assert (looked[1]["candidates"], looked[1]["passage"]) == ([], ["shows", "xylo"])


def test_evaluate_repeats_the_scores_of_training(at_home):
    flags = ("--run=run", "--skills=skills.tsv", "--scores=each.jsonl", "--vectors=v.txt")
    code, out, err = call_command(evaluate, *flags, "--json")
    assert (code, SECRET in out + err) == (0, False)
    scores, expected = json.loads(out), read_json("run/result.json")["test"]
    assert (scores["seeds"], scores["examples"], scores["in_passage"]) == ([0, 1], 9, 6)
    for name in ("accuracy", "f1", "bleu2", "missing", "loss"):
        assert scores[name]["per_seed"] == pytest.approx(expected[name]["per_seed"], abs=1e-5), name
    assert expected["embedding"] is None
    assert 0 <= scores["embedding"]["mean"] <= 1
    each = {row["uid"]: row for row in json_lines("each.jsonl")}
    assert sum(row["f1"] for row in each.values()) / 9 == pytest.approx(scores["f1"]["mean"])
    skill = scores["families"]["skill"]
    assert skill["bridging"]["f1"]["mean"] == pytest.approx(
        (each["test0.0"]["f1"] + each["test2.0"]["f1"]) / 2
    )
    assert (skill["bridging"]["examples"], each["test2.0"]["answered"]) == (2, 0)


def test_answers_of_any_system_are_scored(at_home):
    """Of nine queries two are answered right, one of them in other words, and seven have no
    answer."""
    gold = {query["id"]: query["answers"][0]["text"] for article in read_json("own/test1.0.json")["data"]
            for query in article["document"]["qas"]}  # fmt: skip
    right = {"test0.0": f"The {gold['test0.0'].title()}!", "test2.0": gold["test2.0"]}
    Path("given.json").write_text(json.dumps(right))
    call = (evaluate, "--predictions=given.json", "--corpus=own")
    code, out, err = call_command(
        *call, "--vectors=v.txt", "--skills=skills.tsv", "--scores=each2.jsonl", "--json"
    )
    assert code == 0, err
    scores = json.loads(out)
    assert (scores["queries"], scores["missing"], scores["split"]) == (9, 7, "test")
    assert [scores[name] for name in ("exact_match", "f1")] == pytest.approx([2 / 9, 2 / 9])
    assert scores["slices"]["skill"]["bridging"]["f1"] == 1
    each = json_lines("each2.jsonl")
    assert {row["uid"]: row["f1"] for row in each} == {uid: float(uid in right) for uid in gold}
    assert [row["uid"] for row in each if row["answered"] is True] == list(right)


WRONG = {
    "another corpus": (evaluate, ("--run=run", config_flag("ga_ent")), "--config"),
    "a partition": (evaluate, ("--run=run", "--partition=ids.txt"), "--partition"),
    "answers and a run": (
        evaluate,
        ("--predictions=given.json", "--corpus=own", "--run=run"),
        "--run",
    ),
    "kinds of error": (report, ("run", "--categories"), "--categories"),
    "pairs beside queries": (
        report,
        ("run", "pairs", "--compare"),
        "pairs: is no run on cloze queries",
    ),
    "no folder of runs": (report, ("--table=clicr4", "--runs=none"), "none"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_run_on_queries_cannot_do_is_one_line(case, home, at_home):
    command, arguments, named = WRONG[case]
    Path("ids.txt").write_text("test0.0\n")
    Path("given.json").write_text(json.dumps({"test0.0": "fever"}))
    if not Path("pairs").exists():
        write_run(home / "pairs", GOLD)
    code, out, err = call_command(command, *arguments)
    assert (code, out) == (2, "")
    assert named in err.splitlines()[-1]
    assert " Fix: " in err


def test_runs_are_compared_on_the_same_queries(home, at_home):
    """A run with all answers right gains exactly the queries that the other run got wrong."""
    shutil.copytree(home / "run", home / "right", dirs_exist_ok=True)
    path = home / "right" / "private" / "predictions.test.jsonl"
    rows = json_lines(path)
    queries = {query.uid: query for query in answers.queries_of(home / "run", "test")}
    for row in rows:
        row["predicted"] = [queries[row["uid"]].answers[0].text] * 2
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = call_command(report, "run", "right", "--compare", "--json")
    assert (code, SECRET in out + err) == (0, False)
    (row,) = json.loads(out)["comparisons"]
    own = read_json("run/result.json")["test"]
    assert row["exact_match_of"] == pytest.approx([own["accuracy"]["mean"], 1.0])
    assert row["f1"]["difference"] == pytest.approx(1 - own["f1"]["mean"])
    assert call_command(report, "run", "right", "--out=page.html")[0] == 0
    page = (home / "page.html").read_text()
    assert not any(phrase in page for phrase in (SECRET, *PHRASES))
    assert call_command(report, "run", "--csv")[0] == 0
    assert (
        (home / "run/private/predictions.test.csv")
        .read_text()
        .startswith("uid,predicted.0,predicted.1,best.0.answer")
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[1:]))
    code, out, err = call_command(report, "run", "right", "--compare")
    assert (code, out, err.startswith("error: right: 8 predictions for 9 queries")) == (2, "", True)


def test_the_papers_table_is_filled_from_a_folder(home, at_home):
    folder = home / "table"
    shutil.copytree(home / "run", folder / "ga_anonym")
    queries = answers.queries_of(folder / "ga_anonym", "test")
    fever = {query.uid: "fever" for query in queries}
    found = answers.summary(answers.query_scores(queries, fever))
    (folder / "baselines" / "private").mkdir(parents=True)
    baselines = {"corpus": "own", "split": "test", "rows": {"maxfreq-entity": found}}
    (folder / "baselines" / "baselines.test.json").write_text(json.dumps(baselines))
    for name in ("maxfreq-entity", "maxfreq-entity-not_in_the_query", "sim-entity"):
        answers.write_answers(folder / "baselines" / "private" / f"{name}.test.jsonl", fever)
    code, out, _ = call_command(
        report, "--table=clicr4", "--runs=table", "--skills=skills.tsv", "--out=table.html"
    )
    assert code == 0
    assert "human-expert" in (home / "table.html").read_text()
    table = out.partition("Comparison")[0]
    rows = {line[:34].strip(): line[34:].split() for line in table.splitlines()}
    assert rows["maxfreq-entity"][:3] == ["1", f"{100 * found['exact_match']:.1f}", "-"]
    assert rows["maxfreq-entity"][-5:] == ["8.5", "12.6", "0.10", "0.05", "0.31"]
    assert [rows[name][0] for name in ("GA-Anonym", "SA-Ent", "human-expert")] == [
        "2",
        "missing",
        "-",
    ]
    assert all(
        words in out
        for words in (
            "NOT COMPARABLE with ours on file",
            "reproduce clicr table file --config.data.dir=CORPUS_FOLDER",
        )
    )
    fill = "python -m mednli_jax.analyze cloze-baselines --corpus=CORPUS_FOLDER --vectors=FILE --out=table/baselines"
    assert f"{fill}\n" in out
    assert re.search(r"^bridging +66\.7 ", out, re.MULTILINE)
    compared = list(tables.against_baselines(folder, "test"))
    assert [row["second"] for row in compared] == list(tables.RIVALS)
    for row in compared:
        assert (row["first"], row["exact_match_of"][1]) == (
            "ga_anonym",
            pytest.approx(found["exact_match"]),
        )
    assert "sim-entity" in out.partition("Comparison")[2]


def test_bad_passages_and_queries_are_named_by_line():
    good = 'BEG__a b__END c\tx @placeholder\n{"passage": "d", "query": "@placeholder"}\n'
    found = list(read_chunks(io.BytesIO(good.encode()), CLOZE.form))
    assert found == [[(("BEG__a b__END c", "x @placeholder"), {}), (("d", "@placeholder"), {})]]
    for line in (
        "a passage alone",
        "BEG__a__END @placeholder\t@placeholder",
        f"BEG__{SECRET}\t@placeholder",
    ):
        with pytest.raises(UserError, match=r"^stdin:3: ") as caught:
            list(read_chunks(io.BytesIO(f"{good}{line}\n".encode()), CLOZE.form))
        assert SECRET not in str(caught.value)
