""".ci/run: which versions of Python and jax the suite runs on. Python, pip, pytest, ruff and mypy
are fakes."""

import os
import subprocess

import pytest
from support.commands import ROOT

TOOL = """#!/bin/bash
echo "$PYTHON_OF_TOOL $(basename "$0") $*" >> "$CALLS"
case "$FAILS" in "$PYTHON_OF_TOOL $(basename "$0")") exit 1 ;; esac
"""
PYTHON = """#!/bin/bash
name=$(basename "$0")
if [ "$1" = -c ]; then
  if [ "$name" = "$SHIM" ] && [ "${PYENV_VERSION:-}" != "${name#python}" ]; then exit 127; fi
  echo "$0" && exit
fi
mkdir -p "$3/bin"
cp "$TOOLS"/* "$3/bin"
echo "export PATH=$3/bin:\\$PATH PYTHON_OF_TOOL=$name" > "$3/bin/activate"
"""
OLDEST = ["python3.11 pip -e .[test] jax==0.10.*", "python3.11 pytest"]
NEWEST = ["python3.13 pip -e .[test]", "python3.13 pytest"]


def executable(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def ci(tmp_path):
    """Runs .ci/run where these Pythons are installed: (names, variables) -> (exit code, calls of
    tools, stderr)."""
    for tool in ("pip", "pytest", "ruff", "mypy"):
        executable(tmp_path / "tools" / tool, TOOL)

    def run(names, **variables):
        calls, folder = tmp_path / "calls", tmp_path / "_".join(["bin", *names])
        calls.write_text("")
        for name in names:
            executable(folder / name, PYTHON)
        for name in ("python3.11", "python3.13", "python3"):
            if name not in names:
                executable(folder / name, "#!/bin/bash\nexit 127\n")
        environment = {
            "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "CALLS": str(calls),
            "FAILS": "",
        }
        environment |= {"TOOLS": str(tmp_path / "tools"), "SHIM": "", **variables}
        done = subprocess.run(
            [ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=60
        )
        lines = (
            calls.read_text()
            .replace("install --quiet --disable-pip-version-check ", "")
            .splitlines()
        )
        of_suite = [line.strip() for line in lines if "ruff" not in line and "mypy" not in line]
        return done.returncode, of_suite, done.stderr

    return run


def test_the_suite_runs_on_the_oldest_and_on_the_newest_versions(ci):
    assert ci(["python3.11", "python3.13"]) == (0, [*OLDEST, *NEWEST], "")
    assert ci(["python3.11", "python3.13"], SHIM="python3.13") == (0, [*OLDEST, *NEWEST], "")
    with_torch = [line.replace("[test]", "[test,torch]") for line in (OLDEST[0], NEWEST[0])]
    _, calls, _ = ci(["python3.11", "python3.13"], TORCH="2.13.0")
    assert [line for line in calls if " pip " in line] == [
        f"{line} torch==2.13.0" for line in with_torch
    ]


@pytest.mark.parametrize(
    ("installed", "calls"), [("python3.11", OLDEST), ("python3.13", NEWEST), ("", [])]
)
def test_a_python_that_is_not_installed_is_named(ci, installed, calls):
    code, called, err = ci([installed] if installed else [])
    assert (code, called) == (0 if calls else 1, calls)
    for name in {"python3.11", "python3.13"} - {installed}:
        assert f"{name} is not installed" in err


@pytest.mark.parametrize(
    "tool",
    [
        "python3.11 pip",
        "python3.11 pytest",
        "python3.13 pytest",
        "python3.11 ruff",
        "python3.11 mypy",
    ],
)
def test_each_failure_fails_and_ends_no_other_run(ci, tool):
    code, calls, _ = ci(["python3.11", "python3.13"], FAILS=tool)
    assert (code, calls[-2:]) == (1, NEWEST)


def test_variables_choose_one_run(ci):
    newest = (0, ["python3.13 pip -e .[test] jax==0.12.*", "python3.13 pytest"], "")
    assert ci(["python3.11", "python3.13"], PYTHON="python3.13", JAX="0.12.*") == newest
    assert ci(["python3.11", "python3.13"], PYTHON="python3.13", SHIM="python3.13") == (
        0,
        NEWEST,
        "",
    )
    assert ci(["python3"], JAX="0.10.*") == (
        0,
        ["python3 pip -e .[test] jax==0.10.*", "python3 pytest"],
        "",
    )
    assert ci(["python3.11"], PYTHON="python3.13")[:2] == (1, [])
