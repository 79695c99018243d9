"""The command `report` as a user sees it, its pages, and their charts."""

import csv
import json
import re
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest
from support.commands import call_command
from support.pages import check_offline
from support.pair_files import write_rows
from support.runs import GOLD, change, edit, write_run

from mednli_jax import tasks
from mednli_jax.nli.readers import load_demo
from mednli_jax.report import __main__ as report
from mednli_jax.report import charts, html
from mednli_jax.rundir import RunDirectory


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """Runs the command in tmp_path: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return partial(call_command, report)


def page_of(folder):
    kind = tasks.task_of_run(folder)
    return html.run_page(RunDirectory.existing(folder), kind.run_sections, kind.units)


def test_page_of_a_run(printed, tmp_path):
    write_run(tmp_path / "run", "eeennnccn", "enennnccc")
    assert printed("run") == (0, "", "written: run/report.html\n")
    page = check_offline((tmp_path / "run" / "report.html").read_text())
    assert not (tmp_path / "run" / "report.html").stat().st_mode & 0o077
    words = " ".join(page.words)
    for fact in (
        "esim without knowledge on demo",
        "0123abc",
        "jax 0.10.2",
        "train 100, dev 9, test 9 pairs",
        "--config=configs/esim.py",
    ):
        assert fact in words, fact
    assert "88.9" in page.words  # 8 of 9 in both seeds
    assert [tag for tag, _ in page.tags].count(
        "svg"
    ) == 4  # confusion of dev and test, loss, accuracy
    order = (
        "test accuracy 88.9; the most frequent class alone gives 33.3",
        "hidden size",
        "learning rate",
        "Classes",
    )
    places = [words.index(part) for part in (*order, "Versions, files and command", "0123abc")]
    assert places == sorted(places)
    assert [tag for tag, _ in page.tags].count("details") == 1
    assert "summed over seeds" in words


def test_page_of_one_seed_names_knowledge_and_explains_slices(tmp_path):
    folder = write_run(tmp_path / "run", GOLD)
    change(folder / "config.json", model__knowledge="replace")
    links = {
        "ontology": "mesh",
        "version": 2024,
        "links_per_length": {"0": 1234, "1": 5},
        "pairs_with_links": 1,
    }
    edit(folder / "data.json", knowledge=links)
    result = json.loads((folder / "result.json").read_text())
    test = {
        **result["test"],
        "slices": {"unseen_relation": result["test"], "fiction": result["test"]},
    }
    edit(folder / "result.json", test=test)
    text = page_of(folder)
    words = " ".join(check_offline(text).words)
    for part in (
        "esim with mesh 2024 (replace) on demo",
        "1 pair with links",
        "no training pair shows both",
    ):
        assert part in words
    assert "fiction: pairs of this genre" in words
    assert "summed over" not in words
    assert {"1,234", "5"} <= set(re.findall(r">([\d,]+)</text>", text))  # above the bars


def test_page_of_an_unfinished_run_says_so(printed, tmp_path):
    write_run(tmp_path / "run", GOLD, status="failed")
    assert printed("run", "--out=sub/page.html")[0] == 0
    words = check_offline((tmp_path / "sub" / "page.html").read_text()).words
    assert {"The run is not finished: its status is failed.", "Learning curves"} <= set(words)
    assert "Scores" not in words


def test_names_are_escaped_and_folders_left_out(tmp_path):
    folder = write_run(tmp_path / "run", GOLD)
    edit(folder / "result.json", corpus="<b>&", notes=["<script>alert(1)</script>"])
    edit(folder / "data.json", vocabulary={"with_vector": 7})
    edit(folder / "config.json", vectors={"path": "/somewhere/pubmed_200d.txt"})
    text = page_of(folder)
    check_offline(text)
    for part in (
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "without knowledge on &lt;b&gt;&amp;",
        "pubmed_200d.txt, 7 words",
    ):
        assert part in text
    assert "somewhere" not in text


def test_comparison_is_printed_and_drawn(printed, tmp_path):
    write_run(tmp_path / "a", "eeeccnccn")
    write_run(tmp_path / "b", "eennnnccn")
    code, out, err = printed("a", "b", "--compare")
    assert (code, err) == (0, "")
    (line,) = (line for line in out.splitlines() if re.match(r"b +esim", line))
    assert re.fullmatch(
        r"b +esim-demo +1 +77\.8 +78\.3 +77\.8 +\+11\.1 +\[.+, .+\] +1 +2 +1\.0000 +1\.0000", line
    )
    gained = "of 2 predictions gained, 100% are of neutral; 100% of these were contradiction before"
    assert gained in " ".join(out.split())
    assert not (tmp_path / "report.html").exists()
    assert printed("a", "b") == (0, "", "written: report.html\n")
    page = check_offline((tmp_path / "report.html").read_text())
    order = (
        "Verdict",
        "What differs between the configs",
        "Statistics",
        "b against a",
        "Confusion",
        "Runs",
    )
    assert [word for word in page.words if word in order] == [*order]
    assert {"only a right", "only this run right", "previously", "the configs are the same"} <= set(
        page.words
    )
    found = json.loads(printed("a", "b", "--compare", "--json")[1])["comparisons"]
    assert found[0]["mcnemar"] == {"only_first": 1, "only_second": 2, "p_value": 1.0}


def test_a_comparison_says_what_differs_and_what_that_shows(printed, tmp_path):
    for name, said in (("a", "n" * 9), ("b", GOLD), ("c", "nn" + GOLD[2:])):
        write_run(tmp_path / name, said)
        edit(tmp_path / name / "result.json", notes=["made up, synthetic"])
    change(tmp_path / "b" / "config.json", model__knowledge="replace")
    change(tmp_path / "c" / "config.json", model__hidden_size=32)
    printed("a", "b")
    assert "made up, synthetic" in check_offline((tmp_path / "report.html").read_text()).words
    paper = "60% of neutral, 87% of these entailment"
    for pair, verdict, field, as_paper in (
        ("ab", "b is better than a: +66.7 points", r"model\.knowledge +none +replace", True),
        (
            "bc",
            "no difference detected between c and b: -22.2 points",
            r"model\.hidden_size +128 +32",
            False,
        ),
        ("ac", "c is better than a: +44.4 points", r"model\.hidden_size +128 +32", False),
    ):
        out = printed(*pair, "--compare")[1]
        assert out.startswith(f"Verdict\n{verdict}, interval [")
        assert re.search(field, out)
        assert (paper in " ".join(out.split())) == as_paper


def test_a_folder_that_is_no_run_is_named_with_one_nearby(printed, tmp_path):
    write_run(tmp_path / "esim_kd", GOLD)
    code, _, err = printed("esim_dk")
    assert (code, "e.g. esim_kd." in err, len(err.splitlines())) == (2, True, 1)


def test_a_run_and_a_table_as_csv(printed, tmp_path):
    run = write_run(
        tmp_path / "table" / "none-esim", "eeeccnccn", "eennnnccn", uids=["a,b", *"cdefghij"]
    )
    assert printed("table/none-esim", "--csv")[0] == 0
    scores = dict(list(csv.reader((run / "scores.csv").open()))[1:])
    result = json.loads((run / "result.json").read_text())
    assert float(scores["test.accuracy.mean"]) == result["test"]["accuracy"]["mean"]
    assert float(scores["dev.confusion.0.2"]) == result["dev"]["confusion"][0][2]
    first, *_, last = csv.DictReader((run / "private" / "predictions.test.csv").open())
    assert (first["uid"], first["label"], last["predicted.0"], last["predicted.1"]) == (
        "a,b", "entailment", "neutral", "neutral"
    )  # fmt: skip
    assert float(first["probabilities.1.entailment"]) == 0.8
    assert (run / "private" / "predictions.test.csv").stat().st_mode & 0o777 == 0o600
    rows = list(csv.reader(printed("--table=6", "--runs=table", "--csv")[1].splitlines()))
    assert len({len(row) for row in rows}) == 1


def test_table_is_printed_and_drawn(printed, tmp_path):
    write_run(tmp_path / "runs" / "esim", "eennnnccn", corpus="mednli")
    code, out, _ = printed("--table=3", "--runs=runs", "--out=table.html")
    assert (code, "NOT COMPARABLE" in out) == (0, False)
    interval = r"\[[-+\d.]+, [-+\d.]+\]"
    assert re.search(
        rf"\ntest +ESIM +73\.1 +77\.8 +{interval} +\+4\.7 +{interval} +1 .*100 training pairs\n",
        out,
    )
    command = r"python -m mednli_jax\.reproduce mednli runs mednli --tables=3"
    assert re.search(rf"not there yet: bow, .*, infersent\n +{command}\n", out)
    page = check_offline((tmp_path / "table.html").read_text())
    assert {"73.1", "77.8", "missing", "0123abc"} <= set(page.words)
    assert json.loads(printed("--table=3", "--runs=runs", "--json")[1])["lacking"]


def test_paths_are_drawn(printed, tmp_path):
    write_run(tmp_path / "run", GOLD)
    figures = {
        "corpus": "demo", "ontology": "mesh", "version": "2024", "occurrences": {"0": 5, "2": 7, "no path": 3},
        "nearest": {"neutral": {"0": 1, "no concept pair": 2}}, "concept_pairs": {"0": 4, "2": 7, "no path": 3},
        "examples": 3, "examples_with_concepts": {"premise": 2, "hypothesis": 1, "both": 1}, "unknown_concepts": 0,
    }  # fmt: skip
    (tmp_path / "paths.json").write_text(json.dumps(figures))
    assert printed("run", "--paths=paths.json")[0] == 0
    text = (tmp_path / "run" / "report.html").read_text()
    check_offline(text)
    assert "concept pairs: 0 5, 2 7" in text
    assert "3 further pairs of concepts have no path" in text


def test_categories_by_rules_hold_no_word_of_the_corpus(printed, tmp_path):
    """The command reads the demo corpus again, but the page and the output hold none of its
    sentences."""
    test = load_demo()["test"].examples
    gold, uids = "".join(example.label[0] for example in test), [example.uid for example in test]
    write_run(tmp_path / "run", gold, gold=gold, uids=uids)
    code, out, _ = printed("run", "--categories", "--json")
    found = json.loads(out)["run"]
    assert (code, found["annotated"], found["errors"]) == (0, len(test), 0)
    assert all(
        score["pairs"] and score["accuracy"] == 1.0 for score in found["categories"].values()
    )
    text = (tmp_path / "run" / "report.html").read_text() + out
    assert not re.search("pneumonia|hypertension|patient|diabetes|history", text.lower())
    assert not [example.uid for example in test if example.uid in text or example.premise in text]
    (tmp_path / "kinds.tsv").write_text("".join(f"{uid}\tnegation\n" for uid in uids[:2]))
    assert re.search(
        r"negations +2 +100\.0 +0 +- ", printed("run", "--categories_file=kinds.tsv")[1]
    )


# -- charts ------------------------------------------------------------------------------------------------------------


def test_a_chart_is_the_same_each_time_and_loads_nothing():
    charted = [
        charts.heat_map([[9, 1], [0, 0]], ["a", "b"], title="<t>", rows="gold", columns="said")
        for _ in "12"
    ]
    line = charts.Line("dev", 0, [(1, 0.5), (2, 0.7)])
    charted += [charts.curves([line], title="t", x="x", y="y", marks=[(2, 0.7)])]
    charted += [charts.bars({"d": [1.0], "e": [2.0]}, ["a"], title="t", x="x", y="y")]
    assert charted[0].svg() == charted[1].svg()
    assert charted[0].png() == charted[1].png()
    words = {
        e.text
        for e in ElementTree.fromstring(charted[0].svg()).iter()
        if e.tag in ("title", "desc", "text")
    }
    assert {"<t>", "9", "90%", "1", "10%", "0"} <= words
    for chart in charted:
        assert chart.png().startswith(b"\x89PNG")
        assert not re.search(r"url\(|href|https?:|<script|<style|#[0-9a-f]{6}", chart.svg())


def test_curves_share_a_colour_by_name_and_break_where_a_value_is_missing():
    nan = float("nan")
    lines = [
        charts.Line("dev", 0, [(1, 1), (2, 2), (3, nan), (4, 1)]),
        charts.Line("dev", 1, [(1, 3), (2, nan)]),
        charts.Line("train", 0, [(1, 2), (5, 1)], dashed=True),
    ]
    (axes,) = charts.curves(lines, title="t", x="x", y="y", marks=[(2, 2)]).figure.axes
    dev, other, train = axes.lines
    assert dev.get_color() == other.get_color() != train.get_color()
    assert (dev.is_dashed(), train.is_dashed()) == (False, True)
    dots = [
        axes.transData.inverted().transform(dot.get_transform().transform((0, 0)))
        for dot in axes.patches
    ]
    np.testing.assert_allclose(dots, [(4, 1), (1, 3), (2, 2)])  # two isolated points, and the mark


def test_pictures_take_any_word():
    """Words are not parsed as formulas, and a chart without bars does no harm."""
    for rows in ({"$x_1$": 0.5, "a_b": 0.25}, {}):
        picture = charts.ranked("entailment", rows, title="t", x="PMI")
        assert picture.startswith(b"\x89PNG")
    assert charts.attention({"map": np.eye(3)}, ["$a", "b$", "c"], ["$a", "b$", "c"]).startswith(
        b"\x89PNG"
    )


def test_runs_of_folds_are_compared_on_the_test_examples_of_all_folds(printed, tmp_path):
    """Two folds of two examples each: the first run has all four right, the second has three
    right."""
    same = {"disease": "D1", "target": "D1", "category": "symptoms"}
    about = [{"uid": f"u{n}", "label": ("entailment", "neutral")[n % 2], **same} for n in range(4)]
    for name, words in (("a", "enen"), ("b", "enee")):
        folder = write_run(tmp_path / name, GOLD)
        edit(folder / "config.json", task="diskne")
        said = {
            f"u{n}": [0.9, 0.1, 0.0] if word == "e" else [0.1, 0.9, 0.0]
            for n, word in enumerate(words)
        }
        slots = [
            {"disease": "D1", "group": str(half), "seed": 0, "best_epoch": 1, "dev": {},
             "test": {uid: said[uid] for uid in (f"u{2 * half}", f"u{2 * half + 1}")}}
            for half in (0, 1)
        ]  # fmt: skip
        write_rows(folder / "private" / "examples.jsonl", about)
        write_rows(folder / "private" / "folds.jsonl", slots)
    code, out, err = printed("a", "b", "--compare", "--json")
    assert code == 0, err
    (row,) = json.loads(out)["comparisons"]
    assert (row["pairs"], row["accuracy"], row["difference"]) == (4, [1.0, 0.75], -0.25)
    assert row["flips"]["neutral"]["lost_to"] == {"entailment": 1, "contradiction": 0}
