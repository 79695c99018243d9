"""Measures which small faults the tests catch. In the root of the checkout:

  python tests/mutation_check.py                        # whether each fault can be planted
  python tests/mutation_check.py mednli_jax/models      # plants the faults of a file or a folder
  python tests/mutation_check.py NAME ...               # plants these faults

mutation_faults.toml lists the faults: a file, a text that occurs in it exactly once, and the text
that replaces it. A table with a fault that cannot be planted is refused. Each fault is planted in a
copy of the checkout. Up to six test files that import the module are run first: the one with its
name (or named in the table as `first`), then those that import the fewest modules. If these pass,
all tests are run. A fault whose test also fails on the original code is "broken". Slow tests are
left out.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1].resolve()
SECONDS = 900
FIRST = 6
PYTEST = (
    *("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"),
    *("-o", "addopts=", "-m", "not slow"),
)
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
NO_TESTS = 5  # exit code of pytest


@dataclass(frozen=True)
class Fault:
    """`new` in place of `old` in a file of the package. first: the name of a test file, or ""."""

    name: str
    file: str
    old: str
    new: str
    first: str

    @property
    def code(self) -> str:
        return (ROOT / self.file).read_text()

    @property
    def planted(self) -> str:
        return self.code.replace(self.old, self.new)

    @property
    def problem(self) -> str:
        """Why the fault cannot be planted and caught, "" if it can."""
        if not (ROOT / self.file).is_file():
            return "the file is not there"
        if self.code.count(self.old) != 1:
            return f"the text stands {self.code.count(self.old)} times in the file, not once"
        if ast.dump(ast.parse(self.planted, self.name)) == ast.dump(ast.parse(self.code)):
            return "the replacement changes no code"
        if self.first and not list(ROOT.glob(f"tests/**/test_{self.first}.py")):
            return f"there is no test_{self.first}.py"
        return ""


@dataclass(frozen=True)
class Outcome:
    """failed: ids of tests."""

    word: str
    failed: Sequence[str] = ()


def faults_of_table() -> list[Fault]:
    faults = []
    for file, of_file in tomllib.loads((ROOT / "tests/mutation_faults.toml").read_text()).items():
        for name, row in of_file.items():
            first = row.get("first", "")
            faults.append(Fault(name, f"mednli_jax/{file}", row["old"], row["new"], first))
    return faults


def problems_of(faults: Sequence[Fault]) -> list[str]:
    """The faults that cannot be planted, and names of several faults."""
    names = Counter(fault.name for fault in faults)
    problems = [f"{name}: the name of {count} faults" for name, count in names.items() if count > 1]
    for fault in faults:
        if problem := fault.problem:
            problems.append(f"{fault.name} ({fault.file}): {problem}")
    return problems


def run(tests: Sequence[str], seconds: float, fault: Fault | None = None) -> Outcome:
    """Runs tests on a copy of the checkout; with a fault planted, up to the first failure."""
    with tempfile.TemporaryDirectory(prefix="mutation_") as folder:
        ignored = shutil.ignore_patterns(".git", "__pycache__", "*venv")
        copy = shutil.copytree(ROOT, f"{folder}/copy", ignore=ignored)
        options = [f"--basetemp={folder}/tests"]
        if fault:
            Path(copy, fault.file).write_text(fault.planted)
            options.append("-x")
        with subprocess.Popen(
            [sys.executable, *PYTEST, *options, *tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": copy},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)  # tests start processes
                return Outcome("timed out")
    failed = FAILED.findall(printed)
    if failed:
        return Outcome("caught", failed)
    return Outcome("survived" if process.returncode in (0, NO_TESTS) else "broken")


def modules_imported_by(path: Path) -> set[str]:
    """The package's modules, and the names in them, that a test file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def importing(fault: Fault) -> list[str]:
    """The `first` test file of a fault and those that import its module, the most specific
    first."""
    module = fault.file.removesuffix(".py").replace("/", ".")
    first = fault.first or Path(fault.file).stem
    ranks = {}
    for path in ROOT.glob("tests/**/test_*.py"):
        names = modules_imported_by(path)
        is_first = path.stem == f"test_{first}"
        if is_first or module in names:
            ranks[path.relative_to(ROOT).as_posix()] = (not is_first, len(names))
    return sorted(ranks, key=lambda name: ranks[name])[:FIRST]


def outcome_of(fault: Fault) -> Outcome:
    outcome = run(importing(fault), SECONDS, fault)
    return run(["tests"], 3 * SECONDS, fault) if outcome.word == "survived" else outcome


def main(*chosen: str) -> None:
    """Plants the faults with these names, or of files below these paths."""
    faults = faults_of_table()
    if problems := problems_of(faults):
        sys.exit("\n".join(problems))
    if not chosen:
        return
    outcomes = []
    for fault in faults:
        if fault.name in chosen or fault.file.startswith(chosen):
            outcomes.append(outcome_of(fault))
            print(fault.name, *outcomes[-1].failed[:1], outcomes[-1].word, flush=True)

    tests = [test for outcome in outcomes for test in outcome.failed]
    fail_without_fault = {*run(tests, SECONDS).failed} if tests else set()
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        is_broken = not fail_without_fault.isdisjoint(outcome.failed)
        counts["broken" if is_broken else outcome.word] += 1
    print(f"{len(outcomes)} faults:", *(f"{count} {word}" for word, count in counts.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
