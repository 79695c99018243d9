"""launch/mednli_all.sh fills every table of the paper with one command, from made-up files in the official layouts."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from canaries import found_in
from compiler import FAST
from made_up_commands import ROOT
from made_up_mednli import DIM, write_everything
from test_report import check_offline

from mednli_jax.analysis import tables

TINY = (
    f"--config.vectors.dim={DIM}",
    "--config.train.epochs=1",
    "--config.train.batch_size=16",
    "--config.train.max_buckets=1",
    "--config.seeds=0",
)


def call(home, *arguments, timeout=60, **variables):
    return in_shell(home, shlex.join(["bash", "launch/mednli_all.sh", *map(str, arguments)]), timeout, **variables)


def in_shell(home, command, timeout=240, **variables):
    environment = {
        **os.environ,
        "MEDNLI_JAX_DATA": str(home / "data"),
        "MEDNLI_JAX_CACHE": str(home / "cache"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": FAST,
        "NEURAL_FLAGS": "--config.model.hidden_size=8",
        "FEATURES_FLAGS": "--config.model.trees=4",
        **variables,
    }
    how = {"capture_output": True, "text": True, "timeout": timeout, "check": False}
    return subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, **how)


@pytest.fixture
def home(tmp_path):
    write_everything(tmp_path / "data")
    return tmp_path


def test_the_plan_trains_nothing_and_has_each_experiment_once(home):
    done = call(home, "--dry-run", home / "runs", "mednli", *TINY)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (home / "runs").exists()
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("to do")]
    names = [row[-1].rpartition("/")[2] for row in rows]
    assert len(names) == len(set(names)) == 112
    assert "glove-bioasq-bow" in names
    assert not {"glove-bow", "baseline-esim", "none-infersent", "mimic-none-esim", "snli-mixed-bow"} & set(names)
    assert "112 runs, 0 done; about " in done.stdout
    hours = sum(float(row[2]) for row in rows)
    assert 0 < hours < 100


def test_the_plan_knows_what_is_done_and_how_fast_it_was(home):
    """The finished run trained on 1,000 pairs a second, counted over both seeds, for five epochs."""
    folder = home / "runs" / "table3" / "esim"
    folder.mkdir(parents=True)
    result = {"status": "complete", "model": "esim", "seeds": [0, 1], "epochs": 5, "seconds": 9.0}
    result["train_examples_per_second"] = 1000.0
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "data.json").write_text(json.dumps({"splits": {"train": {"rows": 600}}}))
    done = call(home, "--dry-run", home / "runs", "mednli", SOURCES="snli")
    assert "esim" in done.stdout.rpartition("finished run: ")[2].splitlines()[0]
    rows = {line.split()[-1].rpartition("/")[2]: line.split() for line in done.stdout.splitlines() if "/" in line}
    assert rows["esim"][0] == "done"
    assert float(rows["source-snli-esim"][2]) == pytest.approx(549_367 * 5 * 6 / 1000 / 3600, abs=0.06)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # an idle machine of two cores takes a third of this
def test_every_published_cell_is_filled_by_one_command(home):
    flags = (home / "runs", "mednli", *TINY, f"--config.knowledge.mentions={home / 'data' / 'metamap.mmi'}")
    done = call(home, *flags, timeout=1700)
    (home / "out.txt").write_text(done.stdout)
    assert done.returncode == 0, done.stderr[-4000:]
    runs = home / "runs"
    found = json.loads((runs / "check.json").read_text())
    assert found["verdicts"]["missing"] == 0
    for number, table in tables.TABLES.items():
        known = {(one["run"], one["column"], one["row"]): one for one in found["tables"][str(number)]}
        for cell in table.cells:
            if cell.paper is not None:
                one = known[cell.run, cell.column, cell.row]
                assert one["ours"] is not None, cell
                assert (one["verdict"], "hidden size 8" in one["remark"] or cell.run == "features") == (
                    "not judged",
                    True,
                )
    assert all(one["ours"] is not None for one in found["tables"]["2"])
    assert found["figure 3"]["ontology"] == "umls"
    assert len(found["figure 3"]["occurrences"]) > 1
    assert isinstance(found["table 8"], dict)
    page = check_offline((runs / "check.html").read_text())
    assert "Reproduction check" in page.words
    for number in (3, 4, 5, 6, 7):
        assert f"\nTable {number}:" in f"\n{done.stdout}"
    for row in (line for line in (runs / "check.md").read_text().splitlines() if line.startswith("| ")):
        assert all(part.strip() for part in row[1:-1].split(" | ")[2:]), row
    for file in ("check.html", "check.json", "check.md"):
        assert found_in((runs / file).read_bytes()) == set(), file
    again = call(home, *flags, timeout=600)  # nothing is trained a second time
    assert again.returncode == 0, again.stderr[-4000:]
    assert json.loads((runs / "check.json").read_text())["tables"] == found["tables"]
    assert "epoch 1" not in again.stderr
    plan = call(home, "--dry-run", *flags)
    assert "112 runs, 112 done" in plan.stdout
    for number, name in {4: "table4/slate-direct-bow", 5: "table5/wiki-mimic-bow", 7: "table6_7/replace-esim"}.items():
        shutil.rmtree(runs / name)
        report = f"python -m mednli_jax.report --json --table={number} --runs={(runs / name).parent}"
        (remedy,) = json.loads(in_shell(home, report).stdout)["lacking"]
        done = in_shell(home, remedy)
        assert done.returncode == 0, (remedy, done.stderr[-2000:])
        assert json.loads(in_shell(home, report).stdout)["lacking"] == {}
