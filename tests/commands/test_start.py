"""What a newcomer types first: names of configs, lists, fields, the command `mednli-jax`."""

import json
import shlex
import subprocess
import sys

import pytest
from support.cases import cases
from support.commands import ROOT, call_command, environment_of, refused, succeeds

from mednli_jax import __main__, __version__, cli, evaluate, train
from mednli_jax.report import __main__ as report
from mednli_jax.rundir import environment

CONFIGS = sorted(path.stem for path in (ROOT / "configs").glob("*.py"))


@pytest.fixture
def mednli_jax(monkeypatch, capsys):
    """Runs the command `mednli-jax`: (exit code, stdout, stderr)."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["mednli-jax", *words])
        try:
            code = __main__.main()
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    "words, typed",
    [
        (["python", "/bin/mednli-jax", "train"], "mednli-jax train"),
        (["python", "-m", "a"], "python -m mednli_jax.train"),
    ],
)
def test_hints_name_the_program_that_was_typed(words, typed, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", words)

    assert cli.typed_command("train") == typed


@pytest.mark.parametrize(
    "words",
    [["--config=bow:file"], ["--config", "bow:file"], ["--config", "configs/bow.py:file"]],
    ids=" ".join,
)
def test_a_config_is_named_by_its_file_or_its_name(words, tmp_path):
    message = refused("train", *words, f"--config.data.dir={tmp_path}", "--dry-run")

    # The data folder is empty, but the config was found.
    assert "train" in message
    assert "--config:" not in message


def test_a_field_and_its_value_may_be_two_words(monkeypatch):
    """Other processes, such as the trials of a sweep, get the arguments as one word each."""
    words = [
        "--config",
        "bow:file",
        "--config.seeds",
        "3,4",
        "--config.data.hypothesis_only",
        "--dry-run",
    ]
    monkeypatch.setattr(sys, "argv", ["train", *words])
    calls = []

    def main(values):
        data = values.config.data
        calls.append((values.config.seeds, data.hypothesis_only, cli.arguments()))

    assert cli.run(main, "", train.define) == 0
    joined = "--config=bow:file --config.seeds=3,4 --config.data.hypothesis_only --dry_run"
    assert calls == [((3, 4), True, joined.split())]


def test_the_list_names_every_config_and_corpus(mednli_jax):
    code, out, _ = mednli_jax("--list")

    assert code == 0
    rows = out.splitlines()[1 : 1 + len(CONFIGS)]
    assert [row.split()[0] for row in rows] == CONFIGS
    assert {"mednli", "clicr", "demo_full"} <= set(out.replace(",", " ").split())


@pytest.mark.parametrize("name", CONFIGS)
def test_the_fields_of_a_config_have_values_and_words(name):
    out, _ = succeeds(f"train --config={name} --fields --config.seeds=3,4")

    lines = out.splitlines()
    (seeds,) = (line for line in lines if line.startswith("--config.seeds"))
    assert "(3, 4)" in seeds
    for line in lines:
        assert len(line.split("  ")[-1].split()) > 1


def test_every_command_of_the_package_is_one_of_mednli_jax():
    commands = {"report"}  # a package with a __main__
    for path in (ROOT / "mednli_jax").glob("*.py"):
        if 'if __name__ == "__main__"' in path.read_text():
            commands.add(path.stem)

    assert set(__main__.COMMANDS) == commands - {"__main__"}


def test_mednli_jax_runs_the_commands(mednli_jax):
    assert mednli_jax("train", "--help")[:2] == call_command("train --help")[:2]
    assert mednli_jax("--version")[:2] == (0, f"mednli_jax {__version__}\n")


def test_every_command_takes_the_arguments_that_it_takes_as_a_module():
    words = {
        name: command.WORDS
        for name, (command, _) in __main__.COMMANDS.items()
        if hasattr(command, "WORDS")
    }

    assert words == __main__.WORDS


def test_a_typo_in_a_command_is_one_line_with_the_command(mednli_jax):
    code, _, err = mednli_jax("trian", "--config=bow")

    assert code == 2
    assert "'train'" in err
    assert err.count("\n") == 1


def in_shell(words, folder):
    """The output of these words, typed in a shell whose `python` is that of the tests."""
    path = f"{sys.exec_prefix}/bin:/usr/bin:/bin"
    variables = {**environment_of(folder), "PATH": path}
    done = subprocess.run(
        shlex.join(words),
        shell=True,
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cases(
    "command, file",
    {
        "train": (train, "train.py"),
        "evaluate": (evaluate, "evaluate.py"),
        "report": (report, "report/__main__.py"),
    },
)
def test_a_stored_command_runs_as_it_stands(command, file, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", [str(ROOT / "mednli_jax" / file), "--help"])

    stored = environment(cli.command_line()).command

    assert stored[0] == "python"
    assert in_shell(stored, tmp_path) == call_command(command, "--help")[1]


SCRIPT = """
import json
from mednli_jax.cli import command_line
print(json.dumps(command_line()))
"""


def test_the_stored_command_of_a_script_runs_as_it_stands(tmp_path):
    """A script that uses the package from Python, in a folder with a blank in its name."""
    words = ["python", "my work/train.py", "two words", "--x=*"]
    (tmp_path / "my work").mkdir()
    (tmp_path / "my work" / "train.py").write_text(SCRIPT)

    stored = json.loads(in_shell(words, tmp_path))

    assert stored == words
    assert json.loads(in_shell(stored, tmp_path)) == words
