"""The door `report` as a user meets it, its pages, and their charts."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made_up_runs import GOLD, edit, write_run

from mednli_jax import cli, report
from mednli_jax.analysis import html, svg
from mednli_jax.corpora.demo.nli import load_demo
from mednli_jax.errors import RunError
from mednli_jax.runs import RunDirectory

ROOT = Path(__file__).parents[2]
VOID = {"meta", "link", "br"}


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Runs the door in tmp_path: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["report", *arguments])
        code = cli.run(report.main, report.USAGE, report.define, words=sys.maxsize)
        return code, *capsys.readouterr()

    return call


class Page(HTMLParser):
    """Checks that tags are balanced; keeps every tag's attributes and the page's words."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and "style" not in self.open:
            self.words.append(data.strip())


def check_offline(text):
    """Nothing that a browser would fetch, and nothing it would run."""
    page = Page(text)
    assert not {"script", "img", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "xlink:href")]
        assert attributes.get("href", "data:,") == "data:,", tag
    assert not re.search(r"url\(|@import|https?://", text)
    (policy,) = (a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    return page


def test_page_of_a_run(told, tmp_path):
    write_run(tmp_path / "run", "eeennnccn", "enennnccc")
    code, out, err = told("run")
    assert (code, out, err) == (0, "", "written: run/report.html\n")
    page = check_offline((tmp_path / "run" / "report.html").read_text())
    assert not (tmp_path / "run" / "report.html").stat().st_mode & 0o077
    words = " ".join(page.words)
    for fact in (
        "esim on demo",
        "0123abc",
        "jax 0.10.2",
        "train 100, dev 9, test 9 pairs",
        "0, 1",
        "--config=configs/esim.py",
    ):
        assert fact in words, fact
    assert "88.9" in page.words  # 8 of 9 in both seeds
    titles = [attributes.get("aria-labelledby") for tag, attributes in page.tags if tag == "svg"]
    assert len(titles) == 4  # confusion of dev and test, loss, accuracy
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert {name for pair in titles for name in pair.split()} <= set(ids)


@pytest.mark.parametrize("status", ["interrupted", "failed", "running"])
def test_page_of_an_unfinished_run_says_so(told, tmp_path, status):
    write_run(tmp_path / "run", GOLD, status=status)
    assert told("run", "--out=sub/page.html")[0] == 0
    page = check_offline((tmp_path / "sub" / "page.html").read_text())
    assert f"The run is not finished: its status is {status}." in page.words
    assert "Learning curves" in page.words
    assert "Scores" not in page.words


def test_names_are_escaped(tmp_path):
    folder = write_run(tmp_path / "run", GOLD)
    edit(folder / "result.json", corpus="<b>&", notes=["<script>alert(1)</script>"])
    text = html.run_page(folder)
    check_offline(text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "esim on &lt;b&gt;&amp;" in text


def test_run_page_takes_what_train_has(tmp_path):
    folder = write_run(tmp_path / "run", GOLD)
    assert html.run_page(RunDirectory.existing(folder)) == html.run_page(folder)


def test_comparison_is_printed_and_drawn(told, tmp_path):
    write_run(tmp_path / "a", "eeeccnccn")
    write_run(tmp_path / "b", "eennnnccn")
    code, out, err = told("a", "b", "--compare")
    assert (code, err) == (0, "")
    (line,) = (line for line in out.splitlines() if re.match(r"b +1 ", line))
    assert re.fullmatch(r"b +1 +77\.8 +\+11\.1 +\[[-+\d.]+, [-+\d.]+\] +1 +2 +1\.0000 +1\.0000 +-", line)
    assert "of 2 predictions gained, 100% are of neutral; 100% of these were contradiction before" in " ".join(
        out.split()
    )
    assert not (tmp_path / "report.html").exists()
    assert told("a", "b") == (0, "", "written: report.html\n")
    page = check_offline((tmp_path / "report.html").read_text())
    assert {"Comparison", "b against a", "Confusion", "Runs"} <= set(page.words)
    assert sum(tag == "svg" for tag, _ in page.tags) == 3
    found = json.loads(told("a", "b", "--compare", "--json")[1])["comparisons"]
    assert found[0]["mcnemar"] == {"only_first": 1, "only_second": 2, "p_value": 1.0}


def test_dev_is_compared_where_asked(told, tmp_path):
    write_run(tmp_path / "a", GOLD, dev=("nnnnnnnnn",))
    write_run(tmp_path / "b", GOLD)
    (row,) = json.loads(told("a", "b", "--compare", "--json", "--split=dev")[1])["comparisons"]
    assert (row["split"], row["accuracy"]) == ("dev", pytest.approx([1 / 3, 1.0]))


def test_table_is_printed_and_drawn(told, tmp_path):
    write_run(tmp_path / "runs" / "esim", "eennnnccn", corpus="mednli")
    code, out, _ = told("--table=3", "--runs=runs", "--out=table.html")
    assert code == 0
    assert re.search(r"\ntest +ESIM +73\.1 +77\.8 +\[\d+\.\d, \d+\.\d\] +\+4\.7 +\[[-+\d.]+, \+[\d.]+\] +1\n", out)
    assert "NOT COMPARABLE" not in out
    assert re.search(r"not there yet: bow, features, infersent\n +bash launch/mednli_table3.sh runs\n", out)
    page = check_offline((tmp_path / "table.html").read_text())
    assert {"73.1", "77.8", "missing", "0123abc"} <= set(page.words)
    assert json.loads(told("--table=3", "--runs=runs", "--json")[1])["lacking"]


WRONG = {
    "no run": (("--compare",), "E-REP-013"),
    "one run compared": (("a", "--compare"), "E-REP-014"),
    "a table of a run": (("a", "--table=3", "--runs=."), "E-REP-012"),
    "no folder of runs": (("--table=3",), "E-USE-006"),
    "no such table": (("--table=8", "--runs=."), "E-REP-010"),
    "no such run": (("none",), "E-RUN-001"),
    "another corpus": (("a", "b"), "E-REP-004"),
    "an unfinished run": (("a", "c"), "E-REP-001"),
    "no such split": (("a", "a", "--split=train"), "E-REP-002"),
    "no paths": (("a", "--paths=a/config.json"), "E-REP-009"),
    "no such paths": (("a", "--paths=none"), "E-REP-009"),
    "no annotations": (("a", "--categories_file=none"), "E-DATA-001"),
    "metrics": (("d",), "E-RUN-015"),
    "no corpus": (("b", "--categories"), "E-CONF-006"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_one_line(told, tmp_path, case):
    write_run(tmp_path / "a", GOLD)
    write_run(tmp_path / "b", GOLD, corpus="mednli")
    write_run(tmp_path / "c", GOLD, status="interrupted")
    (write_run(tmp_path / "d", GOLD) / "metrics.jsonl").write_text("quokka\n")
    arguments, expected = WRONG[case]
    code, out, err = told(*arguments)
    assert (code, out, err.partition(" ")[0], err.count("\n")) == (2, "", expected, 1)
    assert "Fix: " in err
    assert not list(tmp_path.glob("**/report.html"))


def test_paths_are_drawn(told, tmp_path):
    write_run(tmp_path / "run", GOLD)
    figures = {
        "corpus": "demo", "ontology": "mesh", "version": "2024", "occurrences": {"0": 5, "2": 7, "no path": 3},
        "nearest": {"neutral": {"0": 1, "no concept pair": 2}},
    }  # fmt: skip
    (tmp_path / "paths.json").write_text(json.dumps(figures))
    assert told("run", "--paths=paths.json")[0] == 0
    text = (tmp_path / "run" / "report.html").read_text()
    check_offline(text)
    assert "concept pairs: 0 5, 2 7" in text
    assert "3 further pairs of concepts have no path" in text


def test_links_of_the_run_are_drawn(tmp_path):
    folder = write_run(tmp_path / "run", GOLD)
    knowledge = {"ontology": "mesh", "links_per_length": {"10": 1, "2": 4}, "pairs_with_links": 3}
    edit(folder / "data.json", knowledge=knowledge)
    text = html.run_page(folder)
    assert "links: 2 4, 10 1" in text
    assert "3 pairs have links" in text


def test_categories_by_rules_hold_no_word_of_the_corpus(told, tmp_path):
    """The demo corpus is read again; the page and the output share no sentence and no word list with it."""
    test = load_demo()["test"].examples
    gold, uids = "".join(example.label[0] for example in test), [example.uid for example in test]
    write_run(tmp_path / "run", gold, gold=gold, uids=uids)
    edit(tmp_path / "run" / "config.json", data={"name": "demo"})
    code, out, _ = told("run", "--categories", "--json")
    assert code == 0
    found = json.loads(out)["run"]
    assert found["annotated"] == len(test)
    assert found["errors"] == 0
    assert all(score["pairs"] and score["accuracy"] == 1.0 for score in found["categories"].values())
    text = (tmp_path / "run" / "report.html").read_text() + out
    check_offline((tmp_path / "run" / "report.html").read_text())
    shown = set(re.findall(r"[a-z]{7,}", text.lower()))
    clinical = {"pneumonia", "hypertension", "patient", "diabetes", "history"}
    words = {t.lower() for example in test for t in (*example.premise_tokens, *example.hypothesis_tokens)}
    assert clinical & words
    assert not clinical & shown
    for example in test:
        assert example.uid not in text
        assert example.premise not in text


def test_categories_as_annotated(told, tmp_path):
    write_run(tmp_path / "run", "neennnccc")
    (tmp_path / "kinds.tsv").write_text("u0\tnegation\nu1\tnegation\n")
    code, out, _ = told("run", "--categories_file=kinds.tsv")
    assert code == 0
    assert re.search(r"negations +2 +50\.0 +1 +100% +1 entailment > neutral", out)


def test_help_of_the_door_is_what_a_shell_gets():
    done = subprocess.run(
        [sys.executable, "-m", "mednli_jax.report", "--help"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.strip() == report.USAGE.strip()


# -- charts ------------------------------------------------------------------------------------------------------------


def elements(markup, tag):
    return [e for e in ElementTree.fromstring(markup).iter() if e.tag == tag]


def test_curves_go_up_where_values_do():
    markup = svg.curves({"dev:0": [(1, 0.5), (2, 0.7), (3, 0.6)]}, title="t", x="epoch", y="y", marks=[(2, 0.7)])
    (line,) = elements(markup, "polyline")
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    assert points[0][0] < points[1][0] < points[2][0]
    assert points[1][1] < points[2][1] < points[0][1]  # downwards is less
    (mark,) = elements(markup, "circle")
    assert (float(mark.get("cx")), float(mark.get("cy"))) == points[1]


def test_curves_break_where_a_value_is_missing_and_seeds_share_a_colour():
    nan = float("nan")
    lines = {
        "dev:0": [(1, 1), (2, 2), (3, nan), (4, 1), (5, 2)],
        "dev:1": [(1, 3), (2, nan)],
        "train:0": [(1, 2), (5, 1)],
    }
    markup = svg.curves(lines, title="t", x="x", y="y", kinds={"train": "dashed"})
    classes = [line.get("class") for line in elements(markup, "polyline")]
    assert classes == ["c0", "c0", "c1 dashed"]
    assert [dot.get("class") for dot in elements(markup, "circle")] == ["c0 dot"]
    assert svg.curves({"a": [(1, nan)]}, title="t", x="x", y="y") == ""


def test_bars_stand_on_zero_and_carry_their_interval():
    markup = svg.bars({"d": [10.0, -5.0]}, ["a", "b"], title="t", x="x", y="y", intervals={"d": [(5, 15), (-9, 1)]})
    up, down = elements(markup, "rect")
    zero = float(up.get("y")) + float(up.get("height"))
    assert float(down.get("y")) == pytest.approx(zero, abs=0.11)
    assert float(up.get("height")) == pytest.approx(2 * float(down.get("height")), abs=0.3)
    whiskers = [e for e in elements(markup, "line") if e.get("class") == "whisker"]
    assert len(whiskers) == 6
    assert float(whiskers[0].get("y2")) < float(up.get("y")) < float(whiskers[0].get("y1"))
    assert svg.bars({"d": []}, [], title="t", x="x", y="y") == ""


def test_heat_map_shades_by_share_of_the_row():
    markup = svg.heat_map([[9, 1], [0, 0]], ["a", "b"], title="<t>", rows="gold", columns="said")
    shades = [float(e.get("fill-opacity")) for e in elements(markup, "rect")]
    assert shades == pytest.approx([0.06 + 0.94 * 0.9, 0.06 + 0.094, 0.06, 0.06], abs=0.006)
    texts = [e.text for e in elements(markup, "text")]
    assert {"9", "90%", "1", "10%", "0"} <= set(texts)
    assert elements(markup, "title")[0].text == "<t>"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.31, 0.58, [0.3, 0.4, 0.5, 0.6]),
        (-3, 9, [-5, 0, 5, 10]),
        (2, 2, [2, 2.2]),
        (12, 987, [0, 200, 400, 600, 800, 1000]),
    ],
)
def test_ticks_are_round_and_enclose(low, high, expected):
    """Told by the labels of a chart's left side."""
    markup = svg.curves({"a": [(1, low), (2, high)]}, title="t", x="x", y="y")
    labels = [e.text for e in elements(markup, "text") if e.get("text-anchor") == "end"]
    assert [float(label.replace(",", "")) for label in labels] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("file", "change"),
    [("result", {"test": {"accuracy": 0.7}}), ("data", {"splits": {"train": 3}}), ("env", {"versions": ["jax"]})],
)
def test_a_run_of_another_version_is_told(tmp_path, file, change):
    folder = write_run(tmp_path / "run", GOLD)
    edit(folder / f"{file}.json", **change)
    with pytest.raises(RunError, match=r".*run: .* Fix: "):
        html.run_page(folder)


def test_pages_refuse_what_is_no_run(tmp_path):
    with pytest.raises(RunError):
        html.run_page(tmp_path)


def test_a_run_of_folds_has_its_scores_on_the_page_and_in_the_closing_lines(tmp_path):
    """Of other tasks train has printed all that there is, and a run that is not finished has no scores."""
    folder = write_run(tmp_path / "run", GOLD)
    assert html.closing_lines(RunDirectory.existing(folder)) == []
    edit(folder / "config.json", task="diskne")
    f1 = {"mean": 0.4, "sd": 0.0, "per_seed": [0.4]}
    found = {"diseases": {"D1": {"f1": 0.4, "positives": 3, "negatives": 9}}, "macro": f1, "weighted": f1}
    categories = {"symptoms": {**found, "always_positive": {"macro": 0.25}}}
    edit(folder / "result.json", categories=categories, names={"D1": "gout"}, test=None, dev=None)
    words = check_offline(html.run_page(folder)).words
    assert {"Scores", "Diseases", "gout", "Symptoms > Disease", "40.0"} <= set(words)
    lines = html.closing_lines(RunDirectory.existing(folder))
    assert (lines[0], lines[-1].split()[3:]) == ("Scores", ["1", "3", "9", "40.0", "40.0", "25.0"])
    edit(folder / "result.json", status="interrupted")
    assert html.closing_lines(RunDirectory.existing(folder)) == []
