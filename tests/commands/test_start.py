"""What a newcomer types first: names of configs, lists, fields, the command `mednli-jax`."""

import subprocess
import sys
from pathlib import Path

import pytest
from made_up_commands import call_command

from mednli_jax import __main__, cli, train
from mednli_jax import __version__ as version

CONFIGS = sorted(path.stem for path in (Path(__file__).parents[2] / "configs").glob("*.py"))


def called(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["mednli-jax", *words])
    try:
        code = __main__.main()
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


@pytest.mark.parametrize("form", [["--config=bow:file"], ["--config", "bow:file"], ["--config", "configs/bow.py:file"]])
def test_a_config_is_named_by_its_file_or_its_name(form, tmp_path):
    code, _, err = call_command(train, *form, f"--config.data.dir={tmp_path}", "--dry-run")
    assert code == 2  # the data folder is empty, but the config was found
    assert "train" in err
    assert "--config:" not in err


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bow").write_text("no config")
    code, _, err = call_command(train, "--config=bow")
    assert code == 2
    assert "get_config" in err


def test_an_unknown_name_is_one_line():
    code, _, err = call_command(train, "--config=esimkd")
    assert code == 2
    assert "'esim_kd'" in err
    assert err.count("\n") == 1


def test_the_list_names_every_config_and_variant(monkeypatch, capsys):
    code, out, _ = called(monkeypatch, capsys, "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1 : 1 + len(CONFIGS)]] == CONFIGS
    assert {"mednli", "clicr", "biomrc", "demo_full"} <= set(out.replace(",", " ").split())


@pytest.mark.parametrize(
    "name", ["esim_kd:mednli", "ga_ent", "sa_ent", "diskne_bert", "mlm", "features", "hypothesis_only"]
)
def test_fields_are_those_of_the_config(name):
    code, out, _ = call_command(train, f"--config={name}", "--fields", "--config.seeds=3,4")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert "(3, 4)" in lines["--config.seeds"]
    assert list(lines) == [f"--config.{field}" for field, *_ in cli.fields(cli.read_config(name))]
    # every field has a description
    assert [line for line in out.splitlines() if len(line.split("  ")[-1].split()) < 2] == []


def test_version(monkeypatch, capsys):
    assert called(monkeypatch, capsys, "--version")[:2] == (0, f"mednli_jax {version}\n")
    assert call_command(train, "--version")[:2] == (0, f"mednli_jax {version}\n")


def test_commands_are_run_by_name(monkeypatch, capsys):
    code, out, _ = called(monkeypatch, capsys, "train", "--help")
    assert code == 0
    assert out == call_command(train, "--help")[1]


def test_an_unknown_command_is_one_line(monkeypatch, capsys):
    code, _, err = called(monkeypatch, capsys, "trian", "--config=bow")
    assert code == 2
    assert "'train'" in err
    assert err.count("\n") == 1


def test_every_command_is_listed():
    here = Path(cli.__file__).parent
    runs = {path.stem for path in here.glob("*.py") if 'if __name__ == "__main__"' in path.read_text()} - {"__main__"}
    assert set(__main__.COMMANDS) == runs


def test_commands_need_no_jax_to_list():
    code = "import sys; sys.argv = ['mednli-jax', '--list']; from mednli_jax.__main__ import main; code = main(); "
    code += "sys.exit(code or 'jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
