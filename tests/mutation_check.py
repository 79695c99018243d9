"""Measures which small faults the tests catch. In the root of the checkout:

  pytest -n 0 --cov=mednli_jax --cov-context=test        # writes .coverage: the lines that each test runs
  python tests/mutation_check.py RESULTS.json [NAME ...]

mutation_faults.toml lists the faults: a file, a text that occurs in it exactly once, and the text
that replaces it. Each fault is planted in a copy of the checkout. Up to six test files that import
the module are run first: the one with its name (or named in the table as `first`), then those that
import the fewest modules. If these pass, the others that run a replaced line are run. RESULTS.json
keeps the outcomes for one state of the code; an interrupted check goes on. A fault whose test also
fails on the original code is "broken". Slow tests are left out.
"""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

from coverage import CoverageData

ROOT, SECONDS, FIRST = Path(__file__).parents[1].resolve(), 900, 6
PYTEST = (
    "-m",
    "pytest",
    "-q",
    "-p",
    "no:xdist",
    "-p",
    "no:cacheprovider",
    "-o",
    "addopts=",
    "-m",
    "not slow",
)
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


def run(tests, seconds, fault=None):
    """(outcome, ids of failed tests) on a copy of the checkout; with a fault planted, up to the
    first failure."""
    if not tests:
        return "survived", []
    with tempfile.TemporaryDirectory(prefix="mutation_") as folder:
        copy = shutil.copytree(
            ROOT, f"{folder}/copy", ignore=shutil.ignore_patterns(".git", "__pycache__", "*venv")
        )
        if fault:
            planted = (ROOT / fault["file"]).read_text().replace(fault["old"], fault["new"])
            Path(copy, fault["file"]).write_text(planted)
        command = [
            sys.executable,
            *PYTEST,
            *["-x"] * bool(fault),
            f"--basetemp={folder}/tests",
            *tests,
        ]
        how = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
            "start_new_session": True,
        }
        with subprocess.Popen(
            command, cwd=copy, env={**os.environ, "PYTHONPATH": copy}, **how
        ) as process:
            try:
                failed = FAILED.findall(process.communicate(timeout=seconds)[0])
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)  # tests start processes
                return "timed out", []
    return "caught" if failed else "survived" if process.returncode in (
        0,
        5,
    ) else "broken", failed  # 5: no tests


def importing(fault):
    """The `first` test file of a fault and those that import its module, the most specific
    first."""
    module, found = fault["file"].removesuffix(".py").replace("/", "."), {}
    for path in ROOT.glob("tests/**/test_*.py"):
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mednli_jax"):
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if module in names or path.stem == f"test_{fault.get('first')}":
            found[path.relative_to(ROOT).as_posix()] = len(names)
    likely = f"/test_{fault.get('first', Path(fault['file']).stem)}.py"
    return sorted(found, key=lambda name: (likely not in name, found[name]))[:FIRST]


def covering(fault, covered):
    """Test files that run a line of the old text, or of its file if it runs on import; those with
    most tests first."""
    begin = (ROOT / fault["file"]).read_text().partition(fault["old"])[0].count("\n") + 1
    contexts = covered.contexts_by_lineno(str(ROOT / fault["file"]))
    for lines in (range(begin, begin + fault["old"].count("\n") + 1), contexts):
        if tests := Counter(
            test.partition("::")[0] for line in lines for test in contexts.get(line, ()) if test
        ):
            break
    return [name for name, _ in tests.most_common()]


def main(results, *names):
    of_files = tomllib.loads((ROOT / "tests" / "mutation_faults.toml").read_text()).items()
    faults = {
        name: {**of[name], "file": f"mednli_jax/{file}"} for file, of in of_files for name in of
    }
    faults = {name: fault for name, fault in faults.items() if not names or name in names}
    code = hashlib.sha256(
        b"".join(file.read_bytes() for file in sorted(ROOT.glob("*/**/*.py")))
    ).hexdigest()
    found = json.loads(results.read_text()) if results.exists() else {"code": code}
    assert found["code"] == code, f"{results} is of another state of the code: give another file"
    (covered := CoverageData(str(ROOT / ".coverage"))).read()
    for name, fault in faults.items():
        path = ROOT / fault["file"]
        if not path.is_file() or path.read_text().count(fault["old"]) != 1:
            found[name] = ["not applied", []]
        elif name not in found:
            found[name] = run(first := importing(fault), SECONDS, fault)
            if found[name][0] == "survived":
                found[name] = run(
                    [f for f in covering(fault, covered) if f not in first], 3 * SECONDS, fault
                )
        print(f"{found[name][0]:11} {name:28} {''.join(found[name][1][:1])}", flush=True)
        results.write_text(json.dumps(found))
    _, failing = run([test for name in faults for test in found[name][1]], SECONDS)
    outcomes = ["broken" if {*found[name][1]} & {*failing} else found[name][0] for name in faults]
    print(
        f"{len(faults)} faults:",
        *(f"{count} {outcome}" for outcome, count in Counter(outcomes).items()),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
