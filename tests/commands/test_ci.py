""".ci/run: which versions of Python and jax the suite runs on. Python, pip, pytest, ruff and mypy
are fakes."""

import subprocess

import pytest
from support.cases import cases
from support.commands import ROOT
from support.files import write_program

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
NO_PYTHON = "#!/bin/bash\nexit 127\n"
PIP = "install --quiet --disable-pip-version-check "
OLDEST = ["python3.11 pip -e .[test] jax==0.10.*", "python3.11 pytest"]
NEWEST = ["python3.13 pip -e .[test]", "python3.13 pytest"]
BOTH = "python3.11 python3.13"


@pytest.fixture
def ci(tmp_path):
    """Runs .ci/run where these Pythons are installed: (exit code, pip and pytest calls, stderr)."""

    def run(installed, **variables):
        for tool in ("pip", "pytest", "ruff", "mypy"):
            write_program(tmp_path / "tools" / tool, TOOL)
        for name in ("python3.11", "python3.13", "python3"):
            is_installed = name in installed.split()
            write_program(tmp_path / "bin" / name, PYTHON if is_installed else NO_PYTHON)
        environment = {
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "CALLS": str(tmp_path / "calls"),
            "TOOLS": str(tmp_path / "tools"),
            "FAILS": "",
            "SHIM": "",
        }
        (tmp_path / "calls").write_text("")
        done = subprocess.run(
            [ROOT / ".ci" / "run"],
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=60,
        )
        calls = []
        for line in (tmp_path / "calls").read_text().splitlines():
            if line.split()[1] in ("pip", "pytest"):
                calls.append(line.replace(PIP, "").strip())
        lint = [call for call in calls if ".[dev]" in call]
        return done.returncode, [call for call in calls if call not in lint], done.stderr

    return run


RUNS = {
    "oldest and newest": (BOTH, {}, OLDEST + NEWEST),
    "pyenv has another version chosen": (BOTH, {"SHIM": "python3.13"}, OLDEST + NEWEST),
    "a chosen Python": (BOTH, {"PYTHON": "python3.13", "SHIM": "python3.13"}, NEWEST),
    "a chosen Python and jax": (
        BOTH,
        {"PYTHON": "python3.13", "JAX": "0.12.*"},
        ["python3.13 pip -e .[test] jax==0.12.*", "python3.13 pytest"],
    ),
    "a chosen jax": (
        "python3",
        {"JAX": "0.10.*"},
        ["python3 pip -e .[test] jax==0.10.*", "python3 pytest"],
    ),
}


@cases("installed, variables, calls", RUNS)
def test_the_suite_runs_on_the_versions(ci, installed, variables, calls):
    assert ci(installed, **variables) == (0, calls, "")


def test_parity_tests_run_with_a_version_of_torch(ci):
    _, calls, _ = ci(BOTH, TORCH="2.13.0")

    installs = [line.replace("[test]", "[test,torch]") for line in (OLDEST[0], NEWEST[0])]
    assert calls[::2] == [f"{line} torch==2.13.0" for line in installs]


@pytest.mark.parametrize(
    "installed, lacking, calls",
    [("python3.11", "python3.13", OLDEST), ("python3.13", "python3.11", NEWEST)],
)
def test_a_python_that_is_not_installed_is_named_and_left_out(ci, installed, lacking, calls):
    code, called, err = ci(installed)

    assert code == 0
    assert called == calls
    assert f"{lacking} is not installed" in err


@cases(
    "variables",
    {
        "both": {},
        "one": {"PYTHON": "python3.13"},
    },
)
def test_without_an_installed_python_the_suite_does_not_pass(ci, variables):
    assert ci("", **variables)[:2] == (1, [])


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
def test_a_failure_fails_and_ends_no_other_run(ci, tool):
    code, calls, _ = ci(BOTH, FAILS=tool)

    assert code == 1
    assert calls[-2:] == NEWEST
