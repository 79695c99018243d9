"""What a newcomer types first: names of configs, lists, fields, the command `mednli-jax`."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ROOT, call_command, environment_of

from mednli_jax import __main__, cli, evaluate, train
from mednli_jax import __version__ as version
from mednli_jax.cli import command_line
from mednli_jax.report import __main__ as report
from mednli_jax.rundir import environment

CONFIGS = sorted(path.stem for path in (ROOT / "configs").glob("*.py"))


def called(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["mednli-jax", *words])
    try:
        code = __main__.main()
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["python", "/bin/mednli-jax", "train"], "mednli-jax train"),
        (["python", "-m", "a"], "python -m mednli_jax.train"),
    ],
)
def test_hints_name_the_program_that_was_typed(words, typed, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", words)
    assert cli.typed("train") == typed


@pytest.mark.parametrize(
    "form", [["--config=bow:file"], ["--config", "bow:file"], ["--config", "configs/bow.py:file"]]
)
def test_a_config_is_named_by_its_file_or_its_name(form, tmp_path):
    code, _, err = call_command(train, *form, f"--config.data.dir={tmp_path}", "--dry-run")
    # The data folder is empty, but the config was found.
    assert (code, "train" in err, "--config:" in err) == (2, True, False)


def test_a_field_and_its_value_may_be_two_words(monkeypatch):
    """Other processes, such as the trials of a sweep, are given the arguments as one word each."""
    words = [
        "train",
        "--config",
        "bow:file",
        "--config.seeds",
        "3,4",
        "--config.data.hypothesis_only",
        "--dry-run",
    ]
    monkeypatch.setattr(sys, "argv", words)
    seen = []

    def main(values):
        seen.append((values.config.seeds, values.config.data.hypothesis_only, cli.arguments()))

    assert cli.run(main, "", train.define) == 0
    joined = [
        "--config=bow:file",
        "--config.seeds=3,4",
        "--config.data.hypothesis_only",
        "--dry_run",
    ]
    assert seen == [((3, 4), True, joined)]


def test_lists_name_every_config_corpus_field_and_command(monkeypatch, capsys):
    code, out, _ = called(monkeypatch, capsys, "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1 : 1 + len(CONFIGS)]] == CONFIGS
    assert {"mednli", "clicr", "demo_full"} <= set(out.replace(",", " ").split())
    for name in CONFIGS:
        code, out, _ = call_command(train, f"--config={name}", "--fields", "--config.seeds=3,4")
        assert code == 0
        assert "(3, 4)" in next(
            line for line in out.splitlines() if line.startswith("--config.seeds")
        )
        assert [
            line for line in out.splitlines() if len(line.split("  ")[-1].split()) < 2
        ] == []  # a word for each
    package = Path(train.__file__).parent
    runs = {
        path.stem
        for path in package.glob("*.py")
        if 'if __name__ == "__main__"' in path.read_text()
    }
    assert set(__main__.COMMANDS) == runs - {"__main__"} | {"report"}  # a package with a __main__


def test_the_one_command_runs_the_others(monkeypatch, capsys):
    assert called(monkeypatch, capsys, "--version")[:2] == (0, f"mednli_jax {version}\n")
    assert called(monkeypatch, capsys, "train", "--help")[:2] == call_command(train, "--help")[:2]
    code, _, err = called(monkeypatch, capsys, "trian", "--config=bow")
    assert (code, "'train'" in err, err.count("\n")) == (2, True, 1)


def in_shell(words, folder):
    """The output of these words, typed in a shell whose `python` is that of the tests."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    variables = {**environment_of(folder), "PATH": path}
    done = subprocess.run(
        shlex.join(words), shell=True, cwd=folder, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("command", "started"),
    [(train, "train.py"), (evaluate, "evaluate.py"), (report, "report/__main__.py")],
)
def test_a_stored_command_runs_as_it_stands(command, started, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", [str(ROOT / "mednli_jax" / started), "--help"])
    assert environment(command_line()).command[0] == "python"
    assert in_shell(command_line(), tmp_path) == call_command(command, "--help")[1]


def test_the_stored_command_of_a_script_runs_as_it_stands(tmp_path):
    """A script that uses the package from Python, in a folder with a blank in its name."""
    (tmp_path / "my work").mkdir()
    script = tmp_path / "my work" / "train.py"
    script.write_text(
        "import json\nfrom mednli_jax.cli import command_line\nprint(json.dumps(command_line()))\n"
    )
    stored = in_shell(["python", "my work/train.py", "two words", "--x=*"], tmp_path)
    assert in_shell(json.loads(stored), tmp_path) == stored
    assert json.loads(stored) == ["python", "my work/train.py", "two words", "--x=*"]
