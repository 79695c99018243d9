"""The command `report` as a user sees it, its pages, and their charts."""

import base64
import csv
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from support.cases import cases
from support.commands import printed_json, refused, succeeds
from support.pages import check_offline
from support.runs import GOLD, change, edit, write_run

from mednli_jax.nli.read.readers import load_demo
from mednli_jax.report import charts, sections
from mednli_jax.report.html import render


@pytest.fixture(autouse=True)
def _working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def page_of(*arguments, page="report.html"):
    """The page that the command writes; it loads and runs nothing."""
    _, err = succeeds("report", *arguments)
    assert err == f"written: {page}\n"
    with open(page) as file:
        return check_offline(file.read())


def charts_in(page):
    return [tag for tag, _ in page.tags].count("img")


# -- a run -----------------------------------------------------------------------------------------


def test_the_page_of_a_run_shows_scores_before_settings_before_versions(tmp_path):
    run = write_run(tmp_path / "run", "eeennnccn", "enennnccc")

    page = page_of("run", page="run/report.html")

    assert not (run / "report.html").stat().st_mode & 0o077
    words = " ".join(page.words)
    order = (
        "esim without knowledge on demo",
        "Test accuracy 88.9, mean of 2 seeds (95 % interval 56.5 to 98.0)",
        "train 100, dev 9, test 9 pairs",
        "hidden size",
        "learning rate",
        "Classes",
        "Versions, files and command",
        "0123abc",
    )
    places = [words.index(fact) for fact in order]
    assert places == sorted(places)
    for fact in ("jax 0.10.2", "--config=configs/esim.py", "summed over 2 seeds"):
        assert fact in words
    assert charts_in(page) == 4  # confusion of test and dev, loss, accuracy


def test_the_page_of_a_run_with_knowledge_names_its_ontology(tmp_path):
    run = write_run(tmp_path / "run", GOLD)
    change(run / "config.json", model__knowledge="replace")
    edit(run / "data.json", knowledge={"ontology": "mesh", "version": 2024})

    words = page_of("run", page="run/report.html").words

    assert "esim with mesh 2024 (replace) on demo" in " ".join(words)


def test_the_page_of_an_unfinished_run_says_so(tmp_path):
    write_run(tmp_path / "run", GOLD, status="failed")

    words = page_of("run", "--out=sub/page.html", page="sub/page.html").words

    assert {"The run is not finished: its status is failed.", "Learning curves"} <= set(words)
    assert "Scores" not in words


def test_names_are_escaped_on_a_page(tmp_path):
    run = write_run(tmp_path / "run", GOLD)
    edit(run / "result.json", corpus="<b>&", notes=["<script>alert(1)</script>"])

    page_of("run", page="run/report.html")

    text = (run / "report.html").read_text()
    for escaped in ("&lt;script&gt;alert(1)&lt;/script&gt;", "knowledge on &lt;b&gt;&amp;"):
        assert escaped in text


def test_a_page_names_files_of_vectors_without_their_folder(tmp_path):
    run = write_run(tmp_path / "run", GOLD)
    edit(run / "data.json", vocabulary={"with_vector": 7})
    edit(run / "config.json", vectors={"path": "/somewhere/pubmed_200d.txt"})

    words = " ".join(page_of("run", page="run/report.html").words)

    assert "pubmed_200d.txt, 7 words" in words
    assert "somewhere" not in words


def test_a_folder_that_is_no_run_is_named_with_one_nearby(tmp_path):
    write_run(tmp_path / "esim_kd", GOLD)

    assert "e.g. esim_kd." in refused("report esim_dk")


def test_paths_of_analyze_are_drawn_on_the_page_of_a_run(tmp_path):
    write_run(tmp_path / "run", GOLD)
    figures = {
        "corpus": "demo",
        "ontology": "mesh",
        "version": "2024",
        "occurrences": {"0": 5, "2": 7, "no path": 3},
        "nearest": {"neutral": {"0": 1, "no concept pair": 2}},
        "concept_pairs": {"0": 4, "2": 7, "no path": 3},
        "examples": 3,
        "examples_with_concepts": {"premise": 2, "hypothesis": 1, "both": 1},
        "unknown_concepts": 0,
    }
    (tmp_path / "paths.json").write_text(json.dumps(figures))

    page_of("run", "--paths=paths.json", page="run/report.html")

    text = (tmp_path / "run" / "report.html").read_text()
    assert "occurrences: 0 5, 2 7" in text
    assert "3 pairs of concepts have no path" in text


@pytest.fixture
def demo_run(tmp_path):
    """The test examples of the demo corpus; a run that has them right stands in run/."""
    examples = load_demo()["test"].examples
    gold = "".join(example.label[0] for example in examples)
    write_run(tmp_path / "run", gold, gold=gold, uids=[example.uid for example in examples])
    return examples


def test_categories_by_rules_hold_no_word_of_the_corpus(demo_run, tmp_path):
    """The command reads the demo corpus again."""
    out, _ = succeeds("report run --categories --json")

    figures = json.loads(out)["run"]
    assert figures["annotated"] == len(demo_run)
    assert figures["errors"] == 0
    for category in figures["categories"].values():
        assert category["pairs"]
        assert category["accuracy"] == 1.0
    text = (tmp_path / "run" / "report.html").read_text() + out
    assert not re.search("pneumonia|hypertension|patient|diabetes|history", text.lower())
    for example in demo_run:
        assert example.uid not in text


def test_categories_of_a_file_are_scored(demo_run, tmp_path):
    rows = [f"{example.uid}\tnegation\n" for example in demo_run[:2]]
    (tmp_path / "kinds.tsv").write_text("".join(rows))

    out, _ = succeeds("report run --categories_file=kinds.tsv")

    assert re.search(r"negations +2 +100\.0 +0 +- ", out)


# -- comparisons -----------------------------------------------------------------------------------


@pytest.fixture
def pair_of_runs(tmp_path):
    """Runs in a/ and b/: one pair is lost, two are gained."""
    write_run(tmp_path / "a", "eeeccnccn")
    write_run(tmp_path / "b", "eennnnccn")


def test_a_comparison_of_two_runs_is_printed(pair_of_runs):
    out, _ = succeeds("report a b")

    (cells,) = (line.split() for line in out.splitlines() if line.startswith("b   "))
    assert cells[:7] == ["b", "esim-demo", "1", "77.8", "78.3", "77.8", "+11.1"]
    assert cells[-4:] == ["1", "2", "1.0000", "1.0000"]
    gained = "of 2 predictions gained, 100% are of neutral; 100% of these were contradiction before"
    assert gained in " ".join(out.split())
    assert succeeds("report a b --compare")[0] == out


VERDICTS = {
    "knowledge": ("a", "b", "b is better than a: +66.7 points", r"model\.knowledge +none +replace"),
    "size": ("b", "c", "no difference detected between c and b: -22.2", r"hidden_size +64 +32"),
    "two fields": ("a", "c", "c is better than a: +44.4 points", r"hidden_size +64 +32"),
}


@cases("first, second, verdict, field", VERDICTS)
def test_a_comparison_gives_a_verdict_and_the_fields_that_differ(
    tmp_path, first, second, verdict, field
):
    for name, predictions in (
        ("a", "n" * 9),
        ("b", GOLD),
        ("c", "nn" + GOLD[2:]),
    ):
        write_run(tmp_path / name, predictions)
    change(tmp_path / "b" / "config.json", model__knowledge="replace")
    change(tmp_path / "c" / "config.json", model__hidden_size=32)

    out, _ = succeeds("report", first, second, "--compare")

    assert out.startswith(f"Verdict\n{verdict}")
    assert re.search(field, out)


def test_the_page_of_a_comparison_has_the_notes_of_the_runs(pair_of_runs, tmp_path):
    for name in ("a", "b"):
        edit(tmp_path / name / "result.json", notes=["made up, synthetic"])

    assert "made up, synthetic" in page_of("a", "b").words


def test_runs_of_folds_are_compared_by_f1_of_the_positive_class(tmp_path):
    for name, f1 in (("a", 0.0), ("b", 0.5)):
        run = write_run(tmp_path / name, GOLD)
        edit(run / "config.json", task="diskne")
        diseases = {"D1": {"per_run": [f1, f1]}, "D2": {"per_run": [f1, f1]}}
        edit(run / "result.json", categories={"symptoms": {"diseases": diseases}})

    (row,) = printed_json("report", "a", "b", "--compare")["comparisons"]

    assert row["macro_f1"]["symptoms"]["macro_f1"] == [0.0, 0.5]
    assert row["macro_f1"]["all categories"]["difference"] == 0.5
    assert "b is better than a: +50.0 points" in succeeds("report", "a", "b", "--compare")[0]


# -- tables ----------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """A folder runs/ with one of the papers' runs."""
    write_run(tmp_path / "runs" / "esim", "eennnnccn", corpus="mednli")
    return "--table=3", "--runs=runs"


def test_a_table_has_our_accuracy_beside_the_papers_and_the_command_for_the_others(table):
    out, _ = succeeds("report", *table)

    assert "NOT COMPARABLE" not in out
    interval = r"\[[-+\d.]+, [-+\d.]+\]"
    cells = rf"test +ESIM +73\.1 +77\.8 +{interval} +\+4\.7 +{interval} +1 .*100 training pairs"
    assert re.search(rf"^{cells}$", out, re.MULTILINE)
    command = r"python -m mednli_jax\.reproduce mednli runs mednli --tables=3"
    assert re.search(rf"not there yet: bow, .*, infersent\n +{command}\n", out)
    assert printed_json("report", *table)["lacking"]


def test_a_table_as_csv_is_a_rectangle(table):
    out, _ = succeeds("report --table=6 --runs=runs --csv")

    assert len({len(row) for row in csv.reader(out.splitlines())}) == 1


def test_a_papers_table_is_printed_as_latex(table):
    out, _ = succeeds("report", *table, "--latex")

    assert out.count(r"\toprule") == out.count(r"\bottomrule") == 1
    rows = [line for line in out.splitlines() if line.endswith(r" \\")]
    assert len({row.count(" & ") for row in rows}) == 1
    assert any(row.startswith("test & ESIM & 73.1 & 77.8 & {}[") for row in rows)
    assert r"95 \%" in rows[0]


def test_the_files_of_a_run_hold_a_table_or_a_chart_each(tmp_path):
    write_run(tmp_path / "run", "eeennnccn")

    succeeds("report run --files=paper")

    (scores,) = (tmp_path / "paper").glob("table01-*.csv")
    test, dev = csv.DictReader(scores.open())
    assert test["split"] == "test"
    assert dev["split"] == "dev"
    low, high = map(float, test["95 % interval"].strip("[]").split(", "))
    assert low < float(test["accuracy"]) < high
    assert r"\midrule" in scores.with_suffix(".tex").read_text()
    kinds = {path.suffix for path in (tmp_path / "paper").glob("chart01-*")}
    assert kinds == {".svg", ".pdf"}


# -- charts ----------------------------------------------------------------------------------------


def heat_map():
    cells = [[9, 1], [0, 0]]
    return charts.heat_map(cells, ["a", "b"], title="<t>", rows="gold", columns="predicted")


def test_a_heat_map_has_counts_and_shares_as_text():
    elements = ElementTree.fromstring(heat_map().file("svg")).iter()

    assert {"<t>", "9", "90%", "1", "10%", "0"} <= {element.text for element in elements}


CURVE = charts.Line("dev", 0, [(1, 0.5), (2, 0.7)])
TITLES = {"title": "t", "x": "x", "y": "y"}
CHARTS = {
    "heat map": heat_map(),
    "curve": charts.curves([CURVE], marks=[(2, 0.7)], **TITLES),
    "bars": charts.bars({"d": [1.0], "e": [2.0]}, ["a"], **TITLES),
    "bars with values": charts.bars({"d": [1.0]}, ["a"], **TITLES),
    "forest": charts.ranges(
        {"a": charts.Range(0.5, -1, 2, "+0.5 [-1.0, +2.0]")},
        title="t",
        x="x",
        line=0,
    ),
}


@cases("chart", CHARTS)
def test_the_text_of_a_chart_has_contrast(chart):
    for text in chart.figure.findobj(Text):
        assert contrast("white", text) >= 4.5


def test_the_text_of_a_heat_map_has_contrast_with_its_cells():
    (axes,) = CHARTS["heat map"].figure.axes

    (cells,) = axes.collections
    for text, shade in zip(axes.texts, cells.to_rgba(cells.get_array().ravel()), strict=True):
        assert contrast(shade, text) >= 4.5


def contrast(behind, text):
    """WCAG 2.2, 1.4.3."""
    return (luminance(behind) + 0.05) / (luminance(text.get_color()) + 0.05)


def luminance(colour):
    red_green_blue = np.array(to_rgb(colour))
    curved = ((red_green_blue + 0.055) / 1.055) ** 2.4
    linear = np.where(red_green_blue <= 0.04045, red_green_blue / 12.92, curved)
    return linear @ (0.2126, 0.7152, 0.0722)


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_files_of_a_chart_are_the_same_bytes_each_time(kind):
    assert heat_map().file(kind) == heat_map().file(kind)


@cases("chart", CHARTS)
def test_a_chart_is_a_picture_that_says_in_words_what_it_shows(chart):
    page = check_offline(render("t", [sections.Section("s", charts=[("c", chart)])]))

    (picture,) = [attributes for tag, attributes in page.tags if tag == "img"]
    assert picture["alt"] == f"{chart.title}. {chart.description}"
    kind, _, content = picture["src"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert ElementTree.fromstring(base64.b64decode(content)).tag.endswith("svg")


def test_curves_share_a_colour_by_name_and_break_where_a_value_is_missing():
    nan = float("nan")
    curves = [
        charts.Line("dev", 0, [(1, 1), (2, 2), (3, nan), (4, 1)]),
        charts.Line("dev", 1, [(1, 3), (2, nan)]),
        charts.Line("train", 0, [(1, 2), (5, 1)], dashed=True),
    ]

    (axes,) = charts.curves(curves, marks=[(2, 2)], **TITLES).figure.axes

    first, second, train, mark = axes.lines
    assert first.get_color() == second.get_color() != train.get_color()
    assert not first.is_dashed()
    assert train.is_dashed()
    assert mark.get_xydata().tolist() == [[2, 2]]
    np.testing.assert_array_equal(first.get_ydata(), [1, 2, nan, 1])
    assert first.get_marker() == "."  # the last point has no neighbour


@cases(
    "rows",
    {
        "formula": {"$x_1$": 0.5, "a_b": 0.25},
        "no bar": {},
    },
)
def test_a_chart_of_words_takes_any_word_and_no_word(rows):
    ranked = charts.ranking("entailment", rows, title="t", x="PMI")
    attention = charts.attention({"map": np.eye(2)}, ["$a", "b$"], ["_c", "d"])

    for picture in (ranked, attention):
        assert picture.startswith(b"\x89PNG")
