"""The paper's tables: their figures as printed, the runs that fill them, and what is said of cells without one."""

import json
import re
from pathlib import Path

import pytest
from made_up_runs import edit, write_run

from mednli_jax.analysis import sections, tables
from mednli_jax.errors import RunError, UsageError

GOLD = "eeennnccce"  # ten pairs, so that one pair is ten points
RIGHT = GOLD


def wrong(count):
    """Predictions with the first `count` pairs wrong."""
    return "".join({"e": "n", "n": "c", "c": "e"}[letter] for letter in GOLD[:count]) + GOLD[count:]


def runs(folder, corpus="mednli", **said):
    """{name of a run: the words of its seeds}; - stands for _ in names."""
    for name, words in said.items():
        write_run(folder / name.replace("_", "-"), *words, gold=GOLD, corpus=corpus)
    return folder


def cells(found, **wanted):
    return [cell for cell in found["cells"] if all(cell[key] == value for key, value in wanted.items())]


def test_the_papers_figures_are_as_printed():
    """Sums and corners of the printed tables, added by hand from the paper."""
    figures = {n: [c.paper for c in table.cells if c.paper is not None] for n, table in tables.TABLES.items()}
    assert {n: len(f) for n, f in figures.items()} == {3: 8, 4: 54, 5: 21, 6: 3, 7: 4}
    assert figures[3] == [51.9, 71.9, 76.0, 74.4, 51.9, 70.2, 73.5, 73.1]
    rows = {"snli": -72.1, "fiction": -65.6, "government": -74.4, "slate": -66.3, "telephone": -76.7, "travel": -77.1}
    for source, total in rows.items():
        values = [c.paper for c in tables.TABLES[4].cells if c.row == source]
        assert sum(values) == pytest.approx(total), source
    columns = {"direct BOW": -141.5, "sequential InferSent": 0.1, "multi ESIM": -0.3, "direct ESIM": -141.1}
    for column, total in columns.items():
        assert sum(c.paper for c in tables.TABLES[4].cells if c.column == column) == pytest.approx(total), column
    assert [
        sum(c.paper for c in tables.TABLES[5].cells if c.column == name) for name in ("BOW", "InferSent", "ESIM")
    ] == (pytest.approx([-1.3, 7.2, 1.6]))
    assert figures[6] == [-1.7, -2.0, -2.7]
    assert figures[7] == [0.3, 0.0, 0.2, 0.3]


def test_runs_are_named_by_their_cells():
    names = {n: [(c.run, c.baseline) for c in table.cells] for n, table in tables.TABLES.items()}
    assert {run for run, _ in names[3]} == {"features", "bow", "infersent", "esim"}
    assert ("slate-sequential-infersent", "baseline-infersent") in names[4]
    assert ("snli-multi-bow", "baseline-bow") in names[4]
    assert ("glove-bioasq-mimic-esim", "glove-esim") in names[5]
    assert names[6] == [
        ("retrofit-bow", "none-bow"),
        ("retrofit-infersent", "none-infersent"),
        ("retrofit-esim", "none-esim"),
    ]
    assert ("replace-esim", "none-esim") in names[7]
    assert ("mimic-bias-infersent", "mimic-none-infersent") in names[7]
    assert len({run for run, _ in names[4]}) == 54


def test_accuracies_beside_the_papers(tmp_path):
    folder = runs(tmp_path, esim=(wrong(2), wrong(4)), bow=(wrong(5),))
    found = tables.filled(tables.TABLES[3], folder)
    assert (found["corpus"], found["comparable"], found["pairs"]) == ("mednli", True, {"dev": 10, "test": 10})
    (esim,) = cells(found, run="esim", split="test")
    assert (esim["state"], esim["seeds"], esim["ours"]) == ("complete", 2, pytest.approx(70))
    assert esim["low"] < 70 < esim["high"]
    assert esim["difference"] == pytest.approx([70 - 73.1, esim["low"] - 73.1, esim["high"] - 73.1])
    assert [cell["state"] for cell in cells(found, run="infersent")] == ["missing", "missing"]
    assert found["lacking"] == {f"bash launch/mednli_table3.sh {tmp_path}": ["features", "infersent"]}


def test_gains_are_over_the_baseline_on_the_same_pairs(tmp_path):
    """Right where the baseline is and in 3 pairs more: the interval never goes below 0."""
    folder = runs(tmp_path, none_esim=(wrong(5),), retrofit_esim=(wrong(2),), retrofit_bow=(RIGHT,))
    found = tables.filled(tables.TABLES[6], folder)
    (esim,) = cells(found, column="ESIM")
    assert esim["ours"] == pytest.approx(30)
    assert esim["low"] >= 0
    assert esim["difference"][0] == pytest.approx(30 + 2.7)
    (bow,) = cells(found, column="BOW")
    assert bow["state"] == "baseline missing"
    (infersent,) = cells(found, column="InferSent")
    assert infersent["state"] == "missing"
    assert sorted(name for names in found["lacking"].values() for name in names) == [
        "none-bow", "none-infersent", "retrofit-infersent",
    ]  # fmt: skip


def test_on_another_corpus_nothing_is_said_to_differ(tmp_path):
    folder = runs(tmp_path, corpus="demo", esim=(wrong(2),))
    found = tables.filled(tables.TABLES[3], folder)
    (esim,) = cells(found, run="esim", split="test")
    assert (esim["ours"], esim["difference"], found["comparable"]) == (pytest.approx(80), None, False)
    printed = sections.lines(tables.table_section(found))
    assert any("NOT COMPARABLE with ours on demo" in line for line in printed)
    (line,) = (line for line in printed if re.match(r"test +ESIM", line))
    assert re.fullmatch(r"test +ESIM +73\.1 +80\.0 +\[\d+\.\d, \d+\.\d\] +1", line)


def test_runs_of_other_corpora_and_pairs_are_refused(tmp_path):
    folder = runs(tmp_path, esim=(RIGHT,))
    write_run(folder / "bow", RIGHT, gold=GOLD, corpus="demo")
    with pytest.raises(RunError):
        tables.filled(tables.TABLES[3], folder)
    other = tmp_path / "other"
    runs(other, esim=(RIGHT,))
    write_run(other / "bow", "eee", gold="eee", corpus="mednli")
    with pytest.raises(RunError):
        tables.filled(tables.TABLES[3], other)


def test_unfinished_runs_come_with_the_command_that_goes_on(tmp_path):
    folder = runs(tmp_path, none_esim=(RIGHT,))
    write_run(folder / "retrofit-esim", RIGHT, gold=GOLD, status="interrupted")
    found = tables.filled(tables.TABLES[6], folder)
    assert cells(found, column="ESIM")[0]["state"] == "interrupted"
    command = f"python -m mednli_jax.train --config=configs/esim.py --workdir={folder}/retrofit-esim --resume"
    assert found["lacking"][command] == ["retrofit-esim"]
    (folder / "retrofit-esim" / "env.json").write_text("{")
    found = tables.filled(tables.TABLES[6], folder)
    (command,) = (command for command, names in found["lacking"].items() if names == ["retrofit-esim"])
    assert command.startswith("python -m mednli_jax.train --config=configs/esim.py:mednli --config.vectors.path=")


def test_commands_of_table_7_name_configs_that_exist(tmp_path):
    found = tables.filled(tables.TABLES[7], tmp_path)
    assert found["corpus"] == ""
    configs = {path.name for path in (Path(__file__).parents[2] / "configs").glob("*.py")}
    for command, names in found["lacking"].items():
        file, knowledge = re.search(
            r"--config=configs/(\w+\.py):mednli(?: --config.model.knowledge=(\w+))?", command
        ).groups()
        assert file in configs
        assert names == [Path(command.partition("--workdir=")[2]).name]
        assert (knowledge or "none") in names[0]
    assert len(found["lacking"]) == 8  # none and replace, two models, two embeddings; bias and BOW are not the paper's


def test_runs_that_the_paper_has_not_are_shown_where_they_are(tmp_path):
    folder = runs(
        tmp_path, baseline_esim=(wrong(5),), demo_full_sequential_esim=(wrong(1),), snli_mixed_esim=(wrong(4),)
    )
    found = tables.filled(tables.TABLES[4], folder)
    (own,) = cells(found, run="demo-full-sequential-esim")
    assert (own["row"], own["column"], own["paper"], own["difference"]) == ("demo-full", "sequential ESIM", None, None)
    assert own["ours"] == pytest.approx(40)
    assert [cell["ours"] for cell in cells(found, column="mixed ESIM")] == [pytest.approx(10)]
    assert len(found["cells"]) == 56
    seven = tables.filled(tables.TABLES[7], runs(tmp_path / "seven", none_bow=(wrong(3),), bias_bow=(wrong(1),)))
    assert [cell["ours"] for cell in cells(seven, row="GloVe CC, bias")] == [pytest.approx(20)]


def test_training_on_other_pairs_is_noted(tmp_path):
    folder = runs(tmp_path, none_esim=(RIGHT,), retrofit_esim=(RIGHT,))
    data = json.loads((folder / "none-esim" / "data.json").read_text())
    edit(folder / "none-esim" / "data.json", splits={**data["splits"], "train": {"rows": 7}})
    assert tables.filled(tables.TABLES[6], folder)["notes"] == [
        "retrofit-esim was trained on other pairs than none-esim"
    ]


def test_unknown_tables_and_folders_are_refused(tmp_path):
    with pytest.raises(UsageError, match="--table=8"):
        tables.table_of(8)
    with pytest.raises(RunError, match="nowhere"):
        tables.filled(tables.TABLES[3], tmp_path / "nowhere")


def test_zero_has_no_sign():
    shown = [sections.figure(value, "+") for value in (-0.04, 0.04, -0.06, 0.0, 1.25)]
    assert shown == ["0.0", "0.0", "-0.1", "0.0", "+1.2"]
    assert sections.interval(-0.0001, 0.02) == "[0.0, +2.0]"
    assert sections.points(0.7312) == "73.1"
