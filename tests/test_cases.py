"""Files as people have them: each folder of tests/cases holds one, with the command that reads it
and what is right.

`case.toml` in a folder has the fields

  right: the expected behaviour, in words
  command: the command and its flags. It runs in a copy of the folder, and finds configs by name (`bow:file`).
  code: its exit code
  says: texts that stdout or stderr contains
  never_says: texts that stdout, stderr and the files outside of private/ never contain
  same_arrays_as: another case, from whose files the command prepares the same arrays
"""

import importlib
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from support.commands import call_command, use_one_device

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/case.toml"))


def run_case(name, place, patch):
    """Runs a case's command in a copy of its folder: (its table, exit code, stdout and stderr)."""
    folder = shutil.copytree(CASES / name, place / name)
    table = tomllib.loads((folder / "case.toml").read_text())
    command, *flags = table["command"]
    patch.chdir(folder)
    patch.setenv("MEDNLI_JAX_CACHE", str(folder / "cache"))
    use_one_device(patch)
    code, out, err = call_command(importlib.import_module(f"mednli_jax.{command}"), *flags)
    return table, code, out + err


def prepared_arrays(place):
    """The arrays of the one corpus in the cache, by file name."""
    return {path.name: np.load(path) for path in place.glob("cache/prepared/*/*.npy")}


@pytest.mark.parametrize("name", NAMES)
def test_case(name, tmp_path, monkeypatch):
    table, code, output = run_case(name, tmp_path, monkeypatch)
    assert code == table["code"], output
    assert "Traceback" not in output
    for text in table.get("says", ()):
        assert text in output
    open_files = [
        path
        for path in tmp_path.glob(f"{name}/run/**/*")
        if path.is_file() and "private" not in path.parts
    ]
    for text in table.get("never_says", ()):
        assert text not in output
        assert all(text.encode() not in path.read_bytes() for path in open_files)
    if twin := table.get("same_arrays_as"):
        run_case(twin, tmp_path, monkeypatch)
        expected, arrays = prepared_arrays(tmp_path / twin), prepared_arrays(tmp_path / name)
        assert expected
        assert expected.keys() == arrays.keys()
        for file, array in expected.items():
            np.testing.assert_array_equal(arrays[file], array, err_msg=file)
