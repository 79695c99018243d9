"""The commands prepare, train, evaluate, predict and report on cloze queries from a few made-up
articles."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.cases import cases
from support.cloze import PHRASES, write_articles
from support.commands import (
    at,
    environment_of,
    json_lines,
    printed_json,
    read_json,
    refused,
    run_command,
    succeeds,
    use_one_device,
)
from support.compiler import compiled
from support.files import assert_private, contents, lines
from support.pair_files import SECRET
from support.runs import GOLD, write_run

from mednli_jax import evaluate, load_run, prepare
from mednli_jax.cloze import page, tables
from mednli_jax.cloze import scores as answers
from mednli_jax.cloze.scorer import ClozeScorer
from mednli_jax.cloze.task import TASK as CLOZE
from mednli_jax.errors import UsageError
from mednli_jax.nli.task import TASK as PAIRS
from mednli_jax.report import __main__ as report
from mednli_jax.rundir import RunDirectory

CONFIG = "--config=ga:file"
SMALL = (
    "--config.model.hidden_size=4",
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
    flags = ("--config.data.dir=own", "--config.model.hops=2", "--config.seeds=0,1", *SMALL)
    with at(home):
        succeeds("train", CONFIG, *flags, "--workdir=run")
    write_run(home / "pairs", GOLD)
    (home / "ids.txt").write_text("test0.0\n")
    (home / "answers.json").write_text(json.dumps({"test0.0": "fever"}))
    (home / "skills.tsv").write_text("test0.0\tbridging\ntest2.0\tbridging\ntest0.1\tellipsis\n")
    (home / "v.txt").write_text("fever 1 0\ncough 0 1\nrash 1 1\npain 1 2\n")
    return home


@pytest.fixture
def at_home(home):
    with at(home):
        yield


@pytest.fixture(scope="module")
def queries(home):
    """[(uid, passage, query, answer)] of the test split, as its file has them."""
    rows = []
    for article in read_json(home, "own", "test1.0.json")["data"]:
        document = article["document"]
        for query in document["qas"]:
            answer = query["answers"][0]["text"]
            rows.append((query["id"], document["context"], query["query"], answer))
    return rows


# -- prepare and train -----------------------------------------------------------------------------


def test_prepare_counts_queries_passages_and_candidates(at_home):
    out, _ = succeeds("prepare", CONFIG, "--config.data.dir=own", "--config.vectors.dim=8")

    assert out.startswith("found in ")
    assert "  test: 9 queries of 3 passages; longest passage " in out
    counts = (
        "6 candidates, 2.0 a passage; answers among them: 6 as they stand, 0 by a synonym, 3 not"
    )
    assert f"    {counts}\n" in out


@pytest.fixture
def without_dev_answers(tmp_path, monkeypatch):
    """Flags of an SA reader, which only predicts phrases of training, and dev has none of them."""
    use_one_device(monkeypatch)
    dev = write_articles(tmp_path / "own") / "dev1.0.json"
    text = dev.read_text()
    for phrase in PHRASES:
        text = text.replace(phrase, f"other {phrase}")
    dev.write_text(text)
    return ("--config=sa:file", f"--config.data.dir={tmp_path / 'own'}", *SMALL)


@pytest.mark.slow
def test_a_dev_split_without_an_answer_that_can_be_scored_has_no_loss(
    without_dev_answers, tmp_path
):
    _, err = succeeds("train", *without_dev_answers, f"--workdir={tmp_path / 'run'}")

    assert "no answer to score" in err
    assert read_json(tmp_path, "run", "result.json")["dev"]["loss"] is None
    succeeds("report", tmp_path / "run")


@pytest.mark.slow
def test_a_dev_split_without_an_answer_that_can_be_scored_selects_no_epoch_by_loss(
    without_dev_answers, tmp_path
):
    flags = ("--config.train.select=loss", f"--workdir={tmp_path / 'run'}")

    message = refused("train", *without_dev_answers, *flags)

    assert "config.train.select: is 'loss', and no dev answer can be scored" in message


def test_a_seed_that_diverged_has_no_loss_and_leaves_that_of_others():
    logits = np.log([[[0.5, 0.25, 0.25]], [[np.nan] * 3]])

    losses = ClozeScorer().losses(SimpleNamespace(label=np.array([1])), logits)

    np.testing.assert_allclose(losses, [np.log(4), np.nan])


# -- predict ---------------------------------------------------------------------------------------


def check_predictions(home, rows, out):
    """The output has the predictions that training stored for these queries."""
    stored = {
        row["uid"]: row["best"]
        for row in json_lines(home, "run", "private", "predictions.test.jsonl")
    }
    header, *cells = [line.split("\t") for line in out.splitlines()]
    assert header == ["answer", "probability", "candidates", "best"]
    for (uid, *_), (answer, probability, candidates, best) in zip(rows, cells, strict=True):
        expected = stored[uid]
        first = expected[0] if expected else {"answer": "", "probability": 0}
        assert answer == first["answer"]
        assert int(candidates) == len(expected)
        assert float(probability) == pytest.approx(first["probability"], abs=3e-6)
        for shown, row in zip(json.loads(best), expected, strict=True):
            assert shown["answer"] == row["answer"]
            assert shown["probability"] == pytest.approx(row["probability"], abs=3e-6)


def input_of(rows):
    return lines(*({"passage": passage, "query": query} for _, passage, query, _ in rows))


def test_predict_gives_the_predictions_of_training_in_any_order_and_with_any_hash_seed(
    home, queries, tmp_path
):
    """The run alone is enough: neither the corpus nor the cache is there."""
    shutil.copytree(home / "run", tmp_path / "run")
    variables = {**environment_of(tmp_path), "PYTHONHASHSEED": "2"}
    del variables["MEDNLI_JAX_DATA"]
    rows = queries[::-1]

    done = run_command("predict", "--run=run", cwd=tmp_path, stdin=input_of(rows), **variables)

    assert done.returncode == 0
    assert SECRET not in done.stderr
    check_predictions(home, rows, done.stdout)


def test_attention_maps_of_predictions_are_private(home, queries, tmp_path):
    shutil.copytree(home / "run", tmp_path / "run")

    with at(tmp_path):
        out, err = succeeds("predict --run=run --attention", stdin=input_of(queries))

    assert SECRET not in out + err
    check_predictions(home, queries, out)
    folder = tmp_path / "run" / "private" / "attention"
    assert_private(folder)
    maps = {f"passage-{n}.json" for n in range(1, 10)}
    assert set(contents(folder)) == maps | {".gitignore"}
    seen = read_json(folder, "passage-1.json")
    assert SECRET in seen["passage"]
    assert sum(map(len, seen["spans"])) == 3
    assert len(seen["weights"][0]) == len(seen["passage"])


def test_a_reader_answers_by_the_attention_that_it_shows(home, at_home):
    """With pointer sum attention, a candidate's probability is the weight of its places, normalised
    over candidates."""
    run = load_run(home / "run")
    passage = "case BEG__New Thing__END shows BEG__fever__END xylo BEG__new thing__END ."
    inputs = [(passage, "case unheard @placeholder ."), ("shows xylo", "@placeholder")]

    (seen, empty), (predicted, _) = run.attention(inputs), run.predict(inputs)

    np.testing.assert_allclose(seen["weights"].sum(axis=1), 1, atol=1e-5)
    mass_SC = np.zeros((2, 2))
    for candidate, spans in enumerate(seen["spans"]):
        for start, end in spans:
            mass_SC[:, candidate] += seen["weights"][:, start:end].sum(axis=1)
    probability_C = (mass_SC / mass_SC.sum(axis=1, keepdims=True)).mean(axis=0)
    expected = dict(zip(seen["candidates"], probability_C, strict=True))
    shown = {row["answer"]: row["probability"] for row in predicted["best"]}
    assert shown == pytest.approx(expected, abs=1e-5)
    assert set(shown) == {"new thing", "fever"}
    first_tokens = [seen["passage"][spans[0][0]] for spans in seen["spans"]]
    assert [seen["names"][token] for token in first_tokens] == seen["candidates"]
    assert empty["candidates"] == []
    assert empty["passage"] == ["shows", "xylo"]


def test_a_query_to_a_reader_that_was_warmed_up_needs_no_program(home, caplog):
    run = load_run(home / "run")
    assert compiled(caplog, lambda: run.warm_up([(40, 9)])) > 0

    def predict_all():
        for sentences in (1, 6):
            passage = "Patient with BEG__fever__END . " * sentences
            run.predict((passage, "A case of @placeholder ."))

    assert compiled(caplog, predict_all) == 0


def test_unknown_words_of_passages_and_queries_are_counted(home, at_home):
    passage = "case BEG__New Thing__END xylo BEG__new thing__END shows xylo ."

    predicted = load_run(home / "run").predict([(passage, "case unheard @placeholder .")])

    # The new phrase twice, and xylo twice.
    assert predicted.unknown_words == {"passage": 4, "query": 1}


# -- evaluate --------------------------------------------------------------------------------------


def test_evaluate_repeats_the_scores_of_training_of_a_cloze_reader(at_home):
    scores = printed_json("evaluate --run=run --vectors=v.txt")

    expected = read_json("run/result.json")["test"]
    assert scores["seeds"] == [0, 1]
    assert scores["examples"] == 9
    assert scores["in_passage"] == 6
    for name in ("accuracy", "f1", "bleu2", "missing", "loss"):
        assert scores[name]["per_seed"] == pytest.approx(expected[name]["per_seed"], abs=1e-5), name
    assert expected["embedding"] is None
    assert 0 <= scores["embedding"]["mean"] <= 1


def test_evaluate_scores_each_skill(at_home):
    scores = printed_json("evaluate --run=run --skills=skills.tsv")

    bridging = scores["families"]["skill"]["bridging"]
    assert bridging["examples"] == 2


def test_answers_of_any_system_are_scored(at_home, queries):
    """Of nine queries two are answered right, one of them in other words, and seven have no
    answer."""
    answer_of = {uid: answer for uid, _, _, answer in queries}
    right = {"test0.0": f"The {answer_of['test0.0'].title()}!", "test2.0": answer_of["test2.0"]}
    Path("right.json").write_text(json.dumps(right))

    scores = printed_json("evaluate --predictions=right.json --corpus=own --skills=skills.tsv")

    assert scores["queries"] == 9
    assert scores["missing"] == 7
    assert scores["split"] == "test"
    assert (scores["exact_match"], scores["f1"]) == pytest.approx((2 / 9, 2 / 9))
    assert scores["slices"]["skill"]["bridging"]["f1"] == 1


WRONG = {
    "pairs beside queries": (report, "run", "pairs", "--compare"),
    "a partition": (evaluate, "--run=run", "--partition=ids.txt"),
    "answers and a run": (evaluate, "--predictions=answers.json", "--corpus=own", "--run=run"),
    "kinds of error": (report, "run", "--categories"),
    "texts for MetaMap": (prepare, CONFIG, "--metamap=out"),
    "answers to pairs": (evaluate, "--predictions=answers.json", CONFIG),
}


@cases("call", WRONG)
def test_options_that_queries_lack_are_refused_by_name(call, at_home):
    named = call[-1].partition("=")[0]
    named = {"--compare": "pairs: is no run on cloze", "--metamap": "--config"}.get(named, named)

    message = refused(*call)

    assert named in message
    assert " Fix: " in message


def test_a_task_refuses_answers_of_another_kind():
    with pytest.raises(UsageError, match="--corpus"):
        CLOZE.answers(Path("answers.csv"), None, None)
    with pytest.raises(UsageError, match="--config"):
        PAIRS.evaluate_answers("mednli", Path("answers.json"), None)


# -- report ----------------------------------------------------------------------------------------


def test_the_page_of_a_run_has_curves_and_kinds_of_queries(home):
    page = (home / "run" / "report.html").read_text()

    for title in ("Learning curves", "Kinds of queries, test"):
        assert title in page


@pytest.fixture
def right(home, at_home):
    """The predictions of a copy of the run, in right/, with all answers right."""
    shutil.copytree(home / "run", home / "right", dirs_exist_ok=True)
    path = home / "right" / "private" / "predictions.test.jsonl"
    rows = json_lines(path)
    split = {query.uid: query for query in answers.queries_of(home / "run", "test")}
    for row in rows:
        row["predicted"] = [split[row["uid"]].answers[0].text] * 2
    path.write_text(lines(*rows))
    return path


def test_a_run_with_all_answers_right_gains_the_queries_that_the_first_run_got_wrong(right):
    (row,) = printed_json("report run right --compare")["comparisons"]

    ours = read_json("run/result.json")["test"]
    assert row["exact_match_of"] == pytest.approx([ours["accuracy"]["mean"], 1.0])
    assert row["f1"]["difference"] == pytest.approx(1 - ours["f1"]["mean"])


def test_a_run_that_lacks_a_query_is_not_compared(right):
    right.write_text("".join(right.read_text().splitlines(keepends=True)[1:]))

    message = refused("report run right --compare")

    assert message.startswith("error: right: 8 predictions for 9 queries")


@pytest.fixture
def table(home, at_home):
    """The summary of a baseline that answers "fever". It stands in table/ beside a run."""
    folder = home / "table"
    shutil.copytree(home / "run", folder / "ga_anonym", dirs_exist_ok=True)
    split = answers.queries_of(folder / "ga_anonym", "test")
    fever = {query.uid: "fever" for query in split}
    summary = answers.summary(answers.query_scores(split, fever))
    (folder / "baselines" / "private").mkdir(parents=True, exist_ok=True)
    baselines = {"corpus": "own", "split": "test", "rows": {"maxfreq-entity": summary}}
    (folder / "baselines" / "cloze-baselines.json").write_text(json.dumps(baselines))
    for name in tables.RIVALS:
        path = folder / "baselines" / "private" / f"{name}.test.jsonl"
        path.write_text(answers.answer_lines(fever), "utf-8")
    return summary


def test_the_papers_table_is_filled_from_a_folder(table):
    flags = ("--table=clicr4", "--runs=table", "--skills=skills.tsv", "--out=table.html")

    out, _ = succeeds("report", *flags)

    table_lines = out.partition("Comparison")[0].splitlines()
    cells_of = [re.split(" {2,}", line.strip()) for line in table_lines]
    rows = {name: cells for name, *cells in cells_of}
    assert rows["maxfreq-entity"][:3] == ["1", f"{100 * table['exact_match']:.1f}", "-"]
    assert rows["maxfreq-entity"][-5:] == ["8.5", "12.6", "0.10", "0.05", "0.31"]
    first_cells = [rows[name][0] for name in ("GA-Anonym", "SA-Ent", "human-expert")]
    assert first_cells == ["2", "missing", "-"]
    assert "human-expert" in Path("table.html").read_text()
    assert re.search(r"^bridging +66\.7 ", out, re.MULTILINE)


def test_a_table_names_the_commands_that_fill_it_and_a_corpus_unlike_the_papers(table):
    out, _ = succeeds("report --table=clicr4 --runs=table")

    assert "NOT COMPARABLE with ours on file" in out
    assert "reproduce clicr table file --config.data.dir=CORPUS_FOLDER" in out
    baselines = (
        "analyze cloze-baselines --corpus=CORPUS_FOLDER --vectors=FILE --out=table/baselines"
    )
    assert f"python -m mednli_jax.{baselines}\n" in out


@cases(
    "corpus, rivals",
    {
        "the run's": ("file", "a random entity gives 0.0, the best baseline (maxfreq-entity)"),
        "another": ("clicr", "baselines: see analyze cloze-baselines"),
    },
)
def test_the_lead_of_a_page_names_baselines_of_the_same_corpus_alone(table, corpus, rivals):
    rows = {"maxfreq-entity": table, page.CHANCE: {**table, "exact_match": 0.0}}
    summary = {"corpus": corpus, "split": "test", "rows": rows}
    Path("table/baselines/cloze-baselines.json").write_text(json.dumps(summary))

    folder = Path("table/ga_anonym")
    sections = page.run_sections(folder, RunDirectory(folder).result())

    assert rivals in sections.before[0].lead


def test_readers_are_compared_with_the_baselines_of_a_table(table):
    comparisons = list(tables.against_baselines(Path("table"), "test"))

    assert [row["second"] for row in comparisons] == list(tables.RIVALS)
    for row in comparisons:
        assert row["first"] == "ga_anonym"
        assert row["exact_match_of"][1] == pytest.approx(table["exact_match"])
