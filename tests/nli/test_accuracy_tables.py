"""The paper's tables: figures as printed, the runs that fill the cells, and what empty cells
say."""

import json
import re

import pytest
from support.runs import TEN as GOLD
from support.runs import TEN as RIGHT
from support.runs import change, edit, write_run, wrong

from mednli_jax.cli import read_config
from mednli_jax.nli import tables
from mednli_jax.report import sections
from mednli_jax.report.paper import PaperRun
from mednli_jax.report.tables import unlike


def runs(folder, corpus="mednli", **said):
    """Writes {name of a run: the predictions of its seeds}; an underscore in a name becomes a
    hyphen."""
    for name, words in said.items():
        write_run(folder / name.replace("_", "-"), *words, gold=GOLD, corpus=corpus)
    return folder


def filled(number, folder):
    return tables.filled(tables.TABLES[number], folder, read_config).to_json()


def cells(found, **wanted):
    return [
        cell for cell in found["cells"] if all(cell[key] == value for key, value in wanted.items())
    ]


def test_the_papers_figures_are_as_printed():
    """Sums and corner cells of the printed tables, added up by hand from the paper."""
    figures = {
        n: [c.paper for c in table.cells if c.paper is not None]
        for n, table in tables.TABLES.items()
    }
    assert {n: len(f) for n, f in figures.items()} == {3: 9, 4: 54, 5: 21, 6: 3, 7: 4}
    assert figures[3] == [51.9, 71.9, 76.0, 74.4, 51.9, 70.2, 73.5, 73.1, 61.9]
    rows = {
        "snli": -72.1,
        "fiction": -65.6,
        "government": -74.4,
        "slate": -66.3,
        "telephone": -76.7,
        "travel": -77.1,
    }
    for source, total in rows.items():
        values = [c.paper for c in tables.TABLES[4].cells if c.row == source]
        assert sum(values) == pytest.approx(total), source
    for number, column, total in (
        *((4, "direct BOW", -141.5), (4, "sequential InferSent", 0.1), (4, "multi ESIM", -0.3)),
        *((4, "direct ESIM", -141.1), (5, "BOW", -1.3), (5, "InferSent", 7.2), (5, "ESIM", 1.6)),
    ):
        found = sum(cell.paper for cell in tables.TABLES[number].cells if cell.column == column)
        assert found == pytest.approx(total), column
    assert figures[6] == [-1.7, -2.0, -2.7]
    assert figures[7] == [0.3, 0.0, 0.2, 0.3]


def test_accuracies_beside_the_papers(tmp_path):
    folder = runs(tmp_path / "my runs", esim=(wrong(2), wrong(4)), bow=(wrong(5),))
    write_run(folder / "features", RIGHT, gold=GOLD, status="interrupted")
    found = filled(3, folder)
    assert (found["corpus"], found["comparable"], found["pairs"]) == (
        "mednli",
        True,
        {"dev": 10, "test": 10},
    )
    (esim,) = cells(found, run="esim", split="test")
    assert (esim["state"], esim["seeds"], esim["ours"]) == ("complete", 2, pytest.approx(70))
    assert esim["low"] < 70 < esim["high"]
    assert esim["difference"] == pytest.approx([70 - 73.1, esim["low"] - 73.1, esim["high"] - 73.1])
    states = {
        name: {cell["state"] for cell in cells(found, run=name)}
        for name in ("infersent", "features")
    }
    assert states == {"infersent": {"missing"}, "features": {"interrupted"}}
    assert found["lacking"] == {
        f"python -m mednli_jax.reproduce mednli '{folder}' mednli --tables=3": [
            "features",
            "hypothesis",
            "infersent",
        ]
    }


def test_gains_are_over_the_baseline_on_the_same_pairs(tmp_path):
    """The run is right on all pairs of the baseline and on 3 more, so the interval never goes below
    0."""
    folder = runs(tmp_path, esim=(wrong(5),), concepts_esim=(wrong(2),), concepts_bow=(RIGHT,))
    found = filled(6, folder)
    (esim,) = cells(found, run="concepts-esim")
    assert esim["ours"] == pytest.approx(30)
    assert esim["low"] >= 0
    assert esim["difference"][0] == pytest.approx(30 + 2.7)
    (bow,) = cells(found, run="concepts-bow")
    assert bow["state"] == "baseline missing"
    assert list(found["lacking"].values()) == [["bow", "concepts-infersent", "infersent"]]
    edit(folder / "esim" / "data.json", splits={"train": {"rows": 7}, "test": {}})
    found = filled(6, folder)
    assert found["notes"] == ["concepts-esim was trained on other pairs than esim"]


def test_on_another_corpus_nothing_is_said_to_differ(tmp_path):
    folder = runs(tmp_path, corpus="demo", esim=(wrong(2),))
    found = filled(3, folder)
    (esim,) = cells(found, run="esim", split="test")
    assert (esim["ours"], esim["difference"], found["comparable"]) == (
        pytest.approx(80),
        None,
        False,
    )
    section = tables.table_section(tables.filled(tables.TABLES[3], folder, read_config))
    assert not section.title.startswith("Table")
    printed = sections.lines(section)
    assert any("NOT COMPARABLE with ours on demo" in line for line in printed)
    (line,) = (line for line in printed if re.match(r"test +ESIM", line))
    assert re.fullmatch(r"test +ESIM +73\.1 +80\.0 +\[\d+\.\d, \d+\.\d\] +1", line)


def test_runs_of_other_corpora_and_pairs_are_named_in_their_cells(tmp_path):
    """Those cells have no figure; the other cell has one."""
    folder = runs(tmp_path, esim=(RIGHT,))
    write_run(folder / "bow", RIGHT, gold=GOLD, corpus="demo")
    write_run(folder / "features", RIGHT, gold=GOLD, corpus="demo")
    write_run(folder / "concepts-bow", RIGHT, gold=GOLD, corpus="mednli")
    write_run(folder / "infersent", "eee", gold="eee", corpus="mednli")
    found = filled(3, folder)
    assert (found["corpus"], found["comparable"]) == ("mednli", True)
    for cell in cells(found, split="test"):
        assert ("ours" in cell) == (cell["run"] == "esim"), cell["run"]
        assert (cell["state"] == "complete") == (cell["run"] == "esim")
    assert "demo" in cells(found, run="bow")[0]["state"]
    assert list(found["lacking"].values()) == [["bow", "features", "hypothesis", "infersent"]]
    (cell,) = cells(filled(6, folder), run="concepts-bow")
    assert (cell["state"], "ours" in cell) == ("baseline of demo, not mednli", False)


def test_runs_unlike_the_papers_are_named_in_their_cells(tmp_path):
    for name in (
        "esim",
        "replace-esim",
        "vectors-fasttext-mimic-esim",
        "mimic-replace-esim",
        "infersent",
    ):
        write_run(tmp_path / name, *[RIGHT] * 6, gold=GOLD, corpus="mednli", train={"rows": 11_232})
        change(
            tmp_path / name / "config.json", knowledge__mentions="metamap.mmi", data__dir="/data"
        )
    change(tmp_path / "mimic-replace-esim" / "config.json", vectors__path="mimic.bin")
    found = filled(7, tmp_path)
    assert [cell["unlike"] for cell in cells(found, column="ESIM", state="complete")] == [[], []]
    config = write_run(
        tmp_path / "replace-infersent", RIGHT, gold=GOLD, corpus="mednli", train={"rows": 60}
    )
    change(config / "config.json", data__limit=60, model__hidden_size=8, train__epochs=1, train__select="accuracy",
           vectors__path="/home/someone/made-up.txt", vectors__dim=8)  # fmt: skip
    (cell,) = cells(filled(7, tmp_path), run="replace-infersent")
    assert cell["unlike"] == [
        "data.limit 60", "model.hidden_size 8", "train.epochs 1", "other train.select", "vectors.dim 8", "1 seed",
        "other vectors", "60 training pairs", "concepts by this package's linker, not MetaMap's",
        "other seeds than the baseline",
    ]  # fmt: skip


def test_a_check_on_another_corpus_stands_beside_the_papers_rows(tmp_path):
    """Section 5.4.1: retrofitting on MultiNLI's fiction, whose dev pairs are scored."""
    folder = runs(tmp_path, esim=(wrong(5),), concepts_esim=(wrong(2),))
    for name, said in (
        ("source-fiction-infersent", wrong(1)),
        ("fiction-retrofit-infersent", wrong(3)),
    ):
        write_run(folder / name, said, gold=GOLD, corpus="multinli/fiction")
    found = filled(6, folder)
    assert (found["corpus"], found["pairs"]) == ("mednli", {"test": 10})
    assert cells(found, run="concepts-esim")[0]["ours"] == pytest.approx(30)
    (fiction,) = cells(found, run="fiction-retrofit-infersent")
    assert (fiction["ours"], fiction["difference"]) == (pytest.approx(-20), None)


def test_the_classifier_of_hypotheses_is_compared_with_its_own_config(tmp_path):
    config = json.loads(json.dumps(read_config("hypothesis_only:mednli").to_dict()))
    folder = write_run(
        tmp_path / "hypothesis", *[wrong(4)] * 6, gold=GOLD, corpus="mednli", train={"rows": 11_232}
    )
    (folder / "config.json").write_text(json.dumps(config))
    edit(folder / "result.json", model="fasttext")
    (cell,) = cells(filled(3, tmp_path), run="hypothesis")
    assert (cell["paper"], cell["unlike"]) == (61.9, [])


def test_what_a_source_was_trained_on_is_named(tmp_path):
    folder = runs(tmp_path, bow=(RIGHT,), snli_sequential_bow=(RIGHT,), snli_direct_bow=(RIGHT,))
    write_run(folder / "source-snli-bow", RIGHT, gold=GOLD, corpus="snli")
    change(folder / "source-snli-bow" / "config.json", data__limit=20_000)
    change(
        folder / "snli-sequential-bow" / "config.json",
        transfer__init_from=f"{tmp_path}/source-snli-bow",
    )
    edit(
        folder / "snli-direct-bow" / "result.json",
        transfer={"source": "source-snli-bow", "mode": "direct"},
    )
    given = {
        "knowledge__ontology": "mesh",
        "vectors__retrofit_relations": ["is_a"],
    }  # the source's, and not used
    change(folder / "snli-direct-bow" / "config.json", **given)
    found = filled(4, folder)
    assert not [
        words
        for words in cells(found, run="snli-direct-bow")[0]["unlike"]
        if words.startswith("other")
    ]
    for run in ("snli-sequential-bow", "snli-direct-bow"):
        assert "source: data.limit 20,000" in cells(found, run=run)[0]["unlike"]


def test_runs_that_the_paper_has_not_are_shown_where_they_are(tmp_path):
    folder = runs(
        tmp_path,
        esim=(wrong(5),),
        demo_full_sequential_esim=(wrong(1),),
        snli_mixed_esim=(wrong(4),),
    )
    found = filled(4, folder)
    (own,) = cells(found, run="demo-full-sequential-esim")
    assert (own["row"], own["column"], own["paper"], own["difference"]) == (
        "demo-full",
        "sequential ESIM",
        None,
        None,
    )
    assert own["ours"] == pytest.approx(40)
    assert [cell["ours"] for cell in cells(found, column="mixed ESIM")] == [pytest.approx(10)]
    assert len(found["cells"]) == 56
    seven = filled(7, runs(tmp_path / "seven", bow=(wrong(3),), bias_bow=(wrong(1),)))
    assert [cell["ours"] for cell in cells(seven, row="GloVe CC, bias")] == [pytest.approx(20)]


def test_pretrained_weights_decide_the_sizes_of_their_model(tmp_path):
    """The file of weights may lie anywhere; sizes that only the weights have are no difference,
    other settings are."""
    config = read_config("diskne_bert:mednli").to_dict()
    config["model"] |= {
        "weights": "/home/someone/bert",
        "hidden_size": 768,
        "layers": 12,
        "vocab_size": 28_996,
    }
    config["train"]["learning_rate"], config["seeds"] = 1e-4, (3, 4, 5)
    folder = write_run(tmp_path / "biobert", RIGHT, RIGHT, RIGHT, gold=GOLD, corpus="mednli")
    (folder / "config.json").write_text(json.dumps(config))
    sizes = {"model.hidden_size": 768, "model.layers": 12}
    sized, bare = (PaperRun("biobert", "diskne_bert", settings) for settings in (sizes, {}))
    assert unlike(folder, read_config, sized) == ["train.learning_rate 0.0001"]
    assert "model.hidden_size 768" in unlike(folder, read_config, bare)
