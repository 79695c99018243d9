"""The paper's tables: figures as printed, the runs that fill the cells, and the words of empty
cells."""

import json
import re

import pytest
from support.runs import TEN, change, edit, write_run, wrong
from support.tables import table_rows

from mednli_jax.cli import read_config
from mednli_jax.nli.tables import tables_3_to_7
from mednli_jax.nli.tables.runs import TABLES
from mednli_jax.report import sections
from mednli_jax.report.options import PaperRun, TableOptions
from mednli_jax.report.tables import differences_from_paper


def write_runs(folder, corpus="mednli", **predictions):
    """Writes runs of one seed; an underscore in a name becomes a hyphen."""
    for name, predicted in predictions.items():
        write_run(folder / name.replace("_", "-"), predicted, gold=TEN, corpus=corpus)


def filled(number, folder):
    return tables_3_to_7.fill_table(TABLES[number], folder, TableOptions(read_config)).to_json()


def cell_of(table, **fields):
    """The cell of a filled table that has these fields."""
    (cell,) = [cell for cell in table["cells"] if fields.items() <= cell.items()]
    return cell


def figures(number):
    """The figures that the paper prints in a table."""
    return [cell.paper for cell in TABLES[number].cells if cell.paper is not None]


def test_the_figures_of_the_small_tables_are_as_printed():
    assert figures(3) == [51.9, 71.9, 76.0, 74.4, 51.9, 70.2, 73.5, 73.1, 61.9]
    assert figures(6) == [-1.7, -2.0, -2.7]
    assert figures(7) == [0.3, 0.0, 0.2, 0.3]
    assert len(figures(4)) == 54
    assert len(figures(5)) == 21


@pytest.mark.parametrize(
    "number, name, total",
    table_rows("""
        4 | snli | -72.1
        4 | fiction | -65.6
        4 | government | -74.4
        4 | slate | -66.3
        4 | telephone | -76.7
        4 | travel | -77.1
        4 | direct BOW | -141.5
        4 | sequential InferSent | 0.1
        4 | multi ESIM | -0.3
        5 | BOW | -1.3
        5 | InferSent | 7.2
        5 | ESIM | 1.6
    """),
)
def test_rows_and_columns_add_up_to_the_sums_of_the_printed_table(number, name, total):
    cells = TABLES[int(number)].cells
    line = [cell.paper for cell in cells if name in (cell.row, cell.column)]
    assert sum(line) == pytest.approx(float(total))


def test_accuracies_stand_beside_the_papers(tmp_path):
    write_run(tmp_path / "esim", wrong(2), wrong(4), gold=TEN, corpus="mednli")

    table = filled(3, tmp_path)

    assert table["corpus"] == "mednli"
    assert table["comparable"]
    assert table["pairs"] == {"dev": 10, "test": 10}
    esim = cell_of(table, run="esim", split="test")
    assert esim["state"] == "complete"
    assert esim["seeds"] == 2
    assert esim["ours"] == pytest.approx(70)
    assert esim["low"] < 70 < esim["high"]
    from_paper = [esim[name] - 73.1 for name in ("ours", "low", "high")]
    assert esim["difference"] == pytest.approx(from_paper)


def test_a_cell_without_a_finished_run_has_its_state_and_the_command_that_makes_it(tmp_path):
    folder = tmp_path / "my runs"
    write_runs(folder, esim=TEN, bow=TEN)
    write_run(folder / "features", TEN, gold=TEN, status="interrupted")
    cut = write_run(folder / "hypothesis", TEN, gold=TEN)
    (cut / "result.json").write_text('{"format": 4, "sta')

    table = filled(3, folder)

    assert cell_of(table, run="infersent", split="test")["state"] == "missing"
    assert cell_of(table, run="features", split="test")["state"] == "interrupted"
    assert cell_of(table, run="hypothesis", split="test")["state"] == "unreadable"
    command = f"python -m mednli_jax.reproduce mednli '{folder}' mednli --tables=3"
    assert table["lacking"] == {command: ["features", "hypothesis", "infersent"]}


def test_gains_are_over_the_baseline_on_the_same_pairs(tmp_path):
    """The run is right on all pairs of the baseline and on 3 more, so the interval never goes below
    0."""
    write_runs(tmp_path, esim=wrong(5), concepts_esim=wrong(2))
    esim = cell_of(filled(6, tmp_path), run="concepts-esim")
    assert esim["ours"] == pytest.approx(30)
    assert esim["low"] >= 0
    assert esim["difference"][0] == pytest.approx(30 + 2.7)


def test_a_baseline_that_was_trained_on_other_pairs_is_noted(tmp_path):
    write_runs(tmp_path, esim=TEN, concepts_esim=TEN)
    edit(tmp_path / "esim" / "data.json", splits={"train": {"rows": 7}, "test": {}})
    note = "concepts-esim was trained on other pairs than esim"
    assert filled(6, tmp_path)["notes"] == [note]


@pytest.mark.parametrize(
    "demo, state",
    [({}, "baseline missing"), ({"bow": TEN}, "baseline of demo, not mednli")],
)
def test_a_gain_without_its_baseline_has_no_figure(tmp_path, demo, state):
    write_runs(tmp_path, concepts_bow=TEN, esim=TEN)
    write_runs(tmp_path, corpus="demo", **demo)
    bow = cell_of(filled(6, tmp_path), run="concepts-bow")
    assert bow["state"] == state
    assert "ours" not in bow


def test_figures_of_another_corpus_are_not_compared_with_the_papers(tmp_path):
    write_runs(tmp_path, corpus="demo", esim=wrong(2))

    table = tables_3_to_7.fill_table(TABLES[3], tmp_path, TableOptions(read_config))
    section = tables_3_to_7.table_section(table)

    assert not table.comparable
    assert cell_of(table.to_json(), run="esim", split="test")["difference"] is None
    assert not section.title.startswith("Table")
    printed = "\n".join(sections.lines(section))
    assert "NOT COMPARABLE with ours on demo" in printed
    assert re.search(r"^test +ESIM +73\.1 +80\.0 +\[\d+\.\d, \d+\.\d\] +1$", printed, re.M)


def test_a_run_of_another_corpus_or_of_other_pairs_has_no_figure(tmp_path):
    write_runs(tmp_path, esim=TEN)
    write_runs(tmp_path, corpus="demo", bow=TEN, features=TEN)
    write_run(tmp_path / "infersent", "eee", gold="eee", corpus="mednli")

    table = filled(3, tmp_path)

    assert table["corpus"] == "mednli"
    assert {cell["run"] for cell in table["cells"] if "ours" in cell} == {"esim"}
    assert "demo" in cell_of(table, run="bow", split="test")["state"]
    assert list(table["lacking"].values()) == [["bow", "features", "hypothesis", "infersent"]]


def write_like_the_paper(folder, *names):
    """Writes runs with the paper's seeds, pairs and mentions."""
    for name in names:
        seeds = [TEN] * 6
        write_run(folder / name, *seeds, gold=TEN, corpus="mednli", train={"rows": 11_232})
        change(folder / name / "config.json", knowledge__mentions="metamap.mmi", data__dir="/data")


def test_vectors_of_another_name_are_not_unlike_where_the_paper_names_a_part_of_it(tmp_path):
    write_like_the_paper(tmp_path, "vectors-fasttext-mimic-esim", "mimic-replace-esim")
    change(tmp_path / "mimic-replace-esim" / "config.json", vectors__path="mimic.bin")
    assert cell_of(filled(7, tmp_path), run="mimic-replace-esim")["unlike"] == []


def test_settings_unlike_the_papers_are_named_in_the_cell(tmp_path):
    write_like_the_paper(tmp_path, "infersent")
    run = tmp_path / "replace-infersent"
    write_run(run, TEN, gold=TEN, corpus="mednli", train={"rows": 60})
    change(run / "config.json", data__limit=60, model__hidden_size=8, train__select="accuracy")
    change(run / "config.json", vectors__path="/home/someone/made-up.txt")

    unlike_paper = cell_of(filled(7, tmp_path), run="replace-infersent")["unlike"]

    assert unlike_paper == [
        "data.limit 60",
        "model.hidden_size 8",
        "other train.select",
        "1 seed",
        "other vectors",
        "60 training pairs",
        "concepts by this package's linker, not MetaMap's",
        "other seeds than the baseline",
    ]


def test_a_check_on_another_corpus_stands_beside_the_papers_rows(tmp_path):
    """Section 5.4.1: retrofitting on MultiNLI's fiction, whose dev pairs are scored."""
    write_runs(tmp_path, esim=TEN, concepts_esim=TEN)
    fiction = {"source_fiction_infersent": wrong(1), "fiction_retrofit_infersent": wrong(3)}
    write_runs(tmp_path, corpus="multinli/fiction", **fiction)

    table = filled(6, tmp_path)

    assert table["corpus"] == "mednli"
    assert table["pairs"] == {"test": 10}
    cell = cell_of(table, run="fiction-retrofit-infersent")
    assert cell["ours"] == pytest.approx(-20)
    assert cell["difference"] is None


def test_settings_of_a_source_unlike_the_papers_are_named(tmp_path):
    """The settings of a direct run itself are those of its source, and are no difference."""
    write_runs(tmp_path, bow=TEN, snli_sequential_bow=TEN, snli_direct_bow=TEN)
    write_runs(tmp_path, corpus="snli", source_snli_bow=TEN)
    source = tmp_path / "source-snli-bow"
    direct = tmp_path / "snli-direct-bow"
    change(source / "config.json", data__limit=20_000)
    change(tmp_path / "snli-sequential-bow" / "config.json", transfer__init_from=str(source))
    edit(direct / "result.json", transfer={"source": source.name, "mode": "direct"})
    change(direct / "config.json", knowledge__ontology="mesh")

    table = filled(4, tmp_path)

    of_direct = cell_of(table, run="snli-direct-bow")["unlike"]
    assert "source: data.limit 20,000" in of_direct
    assert "source: data.limit 20,000" in cell_of(table, run="snli-sequential-bow")["unlike"]
    assert not any(words.startswith("other") for words in of_direct)


@pytest.mark.parametrize(
    "number, run, row, column",
    [
        (4, "demo-full-sequential-esim", "demo-full", "sequential ESIM"),
        (4, "snli-mixed-esim", "snli", "mixed ESIM"),
        (7, "bias-esim", "GloVe CC, bias", "ESIM"),
    ],
)
def test_a_run_that_the_paper_has_not_is_shown_in_its_row_and_column(
    tmp_path, number, run, row, column
):
    write_runs(tmp_path, **{"esim": wrong(5), run: wrong(1)})
    cell = cell_of(filled(number, tmp_path), row=row, column=column)
    assert cell["ours"] == pytest.approx(40)
    assert cell["paper"] is None
    assert cell["difference"] is None


@pytest.mark.parametrize("named", [True, False])
def test_pretrained_weights_decide_the_sizes_of_their_model(tmp_path, named):
    """The file of weights may lie anywhere, and sizes that only the weights have are no
    difference."""
    config = read_config("diskne_bert:mednli").to_dict()
    config["model"] |= {"weights": "/home/someone/bert", "hidden_size": 768, "vocab_size": 9}
    config["train"]["learning_rate"] = 1e-4
    config["seeds"] = [3, 4, 5]
    run = write_run(tmp_path / "biobert", *[TEN] * 3, gold=TEN, corpus="mednli")
    (run / "config.json").write_text(json.dumps(config))

    paper_run = PaperRun("biobert", "diskne_bert", {"model.hidden_size": 768} if named else {})

    differences = differences_from_paper(run, read_config, paper_run)
    assert "train.learning_rate 0.0001" in differences
    assert ("model.hidden_size 768" in differences) != named
