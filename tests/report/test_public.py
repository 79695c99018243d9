"""A public report holds scores and counts of at least ten, but no text and no name."""

import json

import pytest
from support.canaries import WORDS, words_in
from support.cases import cases
from support.commands import call_command, printed_json
from support.pages import check_offline
from support.runs import edit, write_run

from mednli_jax.report import public

GOLD = "e" * 30 + "n" * 30 + "c" * 30
PREDICTED = ("e" * 10 + "n" * 10 + "c" * 10) * 3  # ten pairs in each cell of the confusion


@pytest.fixture
def ninety(tmp_path, monkeypatch):
    """The folder of a run whose uids are words of a corpus, below the working folder."""
    monkeypatch.chdir(tmp_path)
    return write_run(tmp_path / "run", PREDICTED, gold=GOLD, uids=WORDS[:90], corpus="mednli")


def test_a_public_report_has_scores_and_settings_and_no_names(ninety, tmp_path):
    edit(ninety / "env.json", devices=["cpu:host-of-mine"], platform="Linux-mine")
    settings = {"name": "esim", "hidden_size": 4, "knowledge": "bias"}
    data = {"name": "mednli", "dir": "/home/someone"}
    edit(ninety / "config.json", data=data, model={**settings, "weights": "someone"})

    code, out, err = call_command("report run --public --json")

    assert code == 0
    assert err == "written: run/public.html\n"
    figures = json.loads(out)
    page = (ninety / "public.html").read_text()
    check_offline(page)
    assert figures["scores"]["test"]["accuracy"]["mean"] == pytest.approx(1 / 3)
    assert figures["scores"]["test"]["confusion"] == [[10] * 3] * 3
    assert figures["settings"]["model"] == settings
    for text in (out, page):
        assert words_in(text.encode()) == set()
        assert "0.10.2" in text
        for word in ("someone", "mine", "run/", "--config", str(tmp_path), "2026-01-02"):
            assert word not in text


@pytest.mark.parametrize("argument", ["run", "--categories", "--csv"])
def test_a_public_report_is_of_one_run_alone(ninety, argument):
    code, _, err = call_command("report run --public", argument)

    assert code == 2
    assert "--public" in err


def test_a_public_report_has_no_scores_of_nine_pairs(ninety, tmp_path):
    write_run(tmp_path / "tiny", "eeennnccc")

    assert printed_json("report tiny --public")["scores"] == {}


def test_a_model_card_says_what_the_public_page_says(ninety):
    code, out, err = call_command("report run --public --markdown")

    assert code == 0
    assert out == ""
    assert err.split()[1::2] == ["run/public.html", "run/public.md"]
    card = (ninety / "public.md").read_text()
    assert words_in(card.encode()) == set()
    assert "run/" not in card
    assert "| accuracy | 0.3333 |" in card


def test_a_public_table_has_the_cells_of_the_paper_alone_and_names_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("esim", "ward-direct-esim"):
        write_run(tmp_path / "secret" / name, "eennnnccn", corpus="mednli")

    flags = ("--table=4", "--runs=secret", "--public", "--out=table.html", "--json")
    code, out, _ = call_command("report", *flags)

    table = json.loads(out)
    assert code == 0
    assert table["pairs"] == {}
    assert table["lacking"] == {}  # fewer than ten pairs
    for text in (out, (tmp_path / "table.html").read_text()):
        assert "ESIM" in text
        assert "secret" not in text
        assert "ward" not in text


def scores(examples, **further):
    accuracy = {"mean": 0.5, "sd": 0.0, "per_seed": [0.5]}
    return {"examples": examples, "accuracy": accuracy, **further}


def test_slices_are_left_out_whole_if_one_is_small():
    large = {"1": scores(90), "2": scores(10)}
    small = {"a": scores(91), "b": scores(9)}

    shown = public.scores(scores(100, slices=large, missing=3), seeds=1)

    assert list(shown["slices"]) == ["1", "2"]
    assert "missing" not in shown
    assert "slices" not in public.scores(scores(100, slices=small), seeds=1)


@cases(
    "diseases, positives, shown",
    {
        "one disease": (1, 20, False),
        "eight positives": (2, 4, False),
        "ten positives": (2, 5, True),
    },
)
def test_a_public_average_is_over_several_diseases_and_ten_positives(diseases, positives, shown):
    counts = {"positives": positives, "negatives": 50}
    of_disease = {str(number): counts for number in range(diseases)}
    category = {"macro": {"mean": 1.0}, "diseases": of_disease}

    figures = public.figures({"categories": {"symptoms": category}}, {}, {})

    assert ("symptoms" in figures["categories"]) == shown


@cases(
    "first_row, seeds, shown",
    {
        "ten": ([30, 10, 10], 1, True),
        "nine": ([31, 10, 9], 1, False),
        "five of each of two seeds": ([30, 10, 10], 2, False),
    },
)
def test_class_scores_that_would_give_away_a_small_cell_are_left_out(first_row, seeds, shown):
    confusion = [first_row, [10, 30, 10], [10, 10, 30]]
    class_scores = {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 50}
    of_split = scores(150, per_class=dict.fromkeys("abc", class_scores), confusion=confusion)

    public_names = {"confusion", "per_class"} & set(public.scores(of_split, seeds=seeds))

    assert public_names == ({"confusion", "per_class"} if shown else set())
