"""Files as people have them: each folder of tests/cases holds one, with the command that reads it
and what is right.

`case.toml` in a folder has the fields

  right: the expected behaviour, in words
  command: the command and its flags. It runs in a copy of the folder, and finds configs by name
    (`bow:file`).
  code: its exit code
  says: texts that stdout or stderr contains
  never_says: texts that stdout, stderr and the files outside of private/ never contain
  same_arrays_as: another case, from whose files the command prepares the same arrays
"""

import importlib
import shutil
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.commands import call_command, use_one_device

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/case.toml"))


class Outcome(NamedTuple):
    table: dict[str, Any]
    code: int
    output: str  # of both streams
    folder: Path


@pytest.fixture
def run_case(tmp_path, monkeypatch):
    """run_case(name) runs a case's command in a copy of its folder."""
    use_one_device(monkeypatch)

    def run(name):
        folder = shutil.copytree(CASES / name, tmp_path / name)
        table = tomllib.loads((folder / "case.toml").read_text())
        command, *flags = table["command"]
        monkeypatch.chdir(folder)
        monkeypatch.setenv("MEDNLI_JAX_CACHE", str(folder / "cache"))
        module = importlib.import_module(f"mednli_jax.{command}")
        code, out, err = call_command(module, *flags)
        return Outcome(table, code, out + err, folder)

    return run


def prepared_arrays(folder):
    """The arrays of the one corpus in the cache, by file name."""
    return {path.name: np.load(path) for path in folder.glob("cache/prepared/*/*.npy")}


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_a_case_ends_and_says_what_its_table_expects(name, run_case):
    table, code, output, folder = run_case(name)

    assert code == table["code"], output
    assert "Traceback" not in output
    for text in table.get("says", ()):
        assert text in output
    for text in table.get("never_says", ()):
        assert text not in output
        for path in folder.glob("run/**/*"):
            if path.is_file() and "private" not in path.relative_to(folder).parts:
                assert text.encode() not in path.read_bytes(), path

    if twin := table.get("same_arrays_as"):
        arrays = prepared_arrays(folder)
        expected = prepared_arrays(run_case(twin).folder)
        assert expected
        assert expected.keys() == arrays.keys()
        for file, array in expected.items():
            np.testing.assert_array_equal(arrays[file], array, err_msg=file)
