"""A public report holds scores and counts of at least ten, but no text and no name."""

import json

import pytest
from support.canaries import WORDS, words_in
from support.commands import call_command
from support.pages import check_offline
from support.runs import edit, write_run

from mednli_jax.report import __main__ as report
from mednli_jax.report import public


def test_a_public_report_has_scores_and_counts_of_ten_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gold, predicted = "e" * 30 + "n" * 30 + "c" * 30, ("e" * 10 + "n" * 10 + "c" * 10) * 3
    write_run(tmp_path / "run", predicted, gold=gold, uids=list(WORDS[:90]), corpus="mednli")
    edit(tmp_path / "run" / "env.json", devices=["cpu:host-of-mine"], platform="Linux-mine")
    edit(tmp_path / "run" / "config.json", data={"name": "mednli", "dir": "/home/someone"},
         model={"name": "esim", "weights": "someone", "hidden_size": 4, "knowledge": "bias"})  # fmt: skip
    code, out, err = call_command(report, "run", "--public", "--json")
    assert (code, err) == (0, "written: run/public.html\n")
    found, page = json.loads(out), (tmp_path / "run" / "public.html").read_text()
    check_offline(page)
    assert found["scores"]["test"]["accuracy"]["mean"] == pytest.approx(1 / 3)
    assert found["scores"]["test"]["confusion"] == [[10] * 3] * 3
    assert found["settings"]["model"] == {"name": "esim", "hidden_size": 4, "knowledge": "bias"}
    for text in (out, page):
        assert words_in(text.encode()) == set()
        for word in ("someone", "mine", "run/", "--config", str(tmp_path), "2026-01-02", "0.10.2"):
            assert (word in text) == (word == "0.10.2"), word
    for more in (("run",), ("--categories",), ("--csv",)):
        code, _, err = call_command(report, "run", "--public", *more)
        assert (code, "--public" in err) == (2, True)
    write_run(tmp_path / "few", predicted, gold=gold[:29] + "n" + gold[30:])  # one count is nine
    assert (
        "confusion"
        not in json.loads(call_command(report, "few", "--public", "--json")[1])["scores"]["test"]
    )
    write_run(tmp_path / "tiny", "eeennnccc")
    assert json.loads(call_command(report, "tiny", "--public", "--json")[1])["scores"] == {}


def test_a_model_card_says_what_the_public_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(
        tmp_path / "secret", "e" * 90, gold="e" * 30 + "n" * 30 + "c" * 30, uids=list(WORDS[:90])
    )
    code, out, err = call_command(report, "secret", "--public", "--markdown")
    assert (code, out, err.split()[1::2]) == (0, "", ["secret/public.html", "secret/public.md"])
    card = (tmp_path / "secret" / "public.md").read_text()
    assert words_in(card.encode()) == set()
    assert "secret" not in card
    assert "| accuracy | 0.3333 |" in card


def test_a_public_table_has_the_papers_cells_alone_and_names_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("esim", "ward-direct-esim"):
        write_run(tmp_path / "secret" / name, "eennnnccn", corpus="mednli")
    code, out, _ = call_command(
        report, "--table=4", "--runs=secret", "--public", "--out=table.html", "--json"
    )
    found = json.loads(out)
    assert (code, found["pairs"], found["lacking"]) == (0, {}, {})  # there are fewer than ten pairs
    for text in (out, (tmp_path / "table.html").read_text()):
        assert "ESIM" in text
        assert "secret" not in text
        assert "ward" not in text


def scores(examples, **more):
    return {"examples": examples, "accuracy": {"mean": 0.5, "sd": 0.0, "per_seed": [0.5]}, **more}


def test_a_family_with_a_small_part_is_left_out_whole():
    families = {
        "length": {"1": scores(90), "2": scores(10)},
        "type": {"a": scores(91), "b": scores(9)},
    }
    families["semantic type"] = families["length"]  # its names come from the corpus
    found = public.scores(scores(100, families=families, missing=3), seeds=1)
    assert list(found["families"]) == ["length"]
    assert "missing" not in found
    assert public.scores(scores(9), seeds=1) == {}


def test_a_public_report_has_no_average_over_few_and_no_cell_that_could_be_worked_out():
    def category(diseases, positives):
        one = {"positives": positives, "negatives": 50}
        return {
            "macro": {"mean": 1.0},
            "diseases": {str(number): one for number in range(diseases)},
        }

    found = {"categories": {"one": category(1, 20), "few": category(2, 4), "kept": category(2, 5)}}
    assert list(public.figures(found, {}, {})["categories"]) == ["kept"]
    classes = {
        label: {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 50} for label in "abc"
    }
    cells = [[30, 10, 10], [10, 30, 10], [10, 10, 30]]
    shown = public.scores(scores(150, per_class=classes, confusion=cells), seeds=1)
    assert {"confusion", "per_class"} <= set(shown)
    cells[0] = [31, 10, 9]
    assert not {"confusion", "per_class"} & set(
        public.scores(scores(150, per_class=classes, confusion=cells), seeds=1)
    )
