"""Measures which small faults the test suite catches. Each fault is planted in a copy of the package and tested.

  python launch/mutation_check.py --results /tmp/faults.json --coverage /tmp/coverage.json
  python launch/mutation_check.py --results /tmp/old.json --coverage /tmp/old_coverage.json --checkout /tmp/old

The faults are in mutation_faults.toml beside this script. A fault has a file, a text that occurs in it exactly once,
and the text that replaces it. A fault whose text does not occur exactly once is not planted; the table lists it.

First, up to six test files that import the module are run: the file with the module's name (or named in the table as
`first`), then those that import the fewest modules of the package. If these pass, all other test files that run a line
of the replaced text are run. pytest-cov measures once which lines a test file runs; the file given by --coverage stores
them. At the end all tests that caught a fault are run on the original code. If such a test fails there too, its fault
is "broken", neither caught nor survived.

An interrupted check continues where it stopped: both files store the finished part for one state of the code. One
process runs at a time. Tests marked slow are left out.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
# One process, because with pytest-xdist pytest-cov cannot separate the lines of different tests.
PYTEST = ("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=", "--timeout", "600")
PYTEST += ("-m", "not slow")
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - (.*))?$", re.MULTILINE)
TIMED_OUT, NO_TESTS = 124, 5  # exit codes of this script and of pytest


def flags():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="JSON file of the outcomes")
    parser.add_argument("--coverage", type=Path, required=True, help="JSON file of the lines that test files run")
    parser.add_argument("--checkout", type=Path, default=HERE.parent, help="the checkout to test (default: this one)")
    parser.add_argument("--faults", type=Path, default=HERE / "mutation_faults.toml", help="the table of faults")
    parser.add_argument("--only", default="", help="names of faults, with commas between (default: all)")
    parser.add_argument("--first", type=int, default=6, help="most test files in the first round of a fault")
    parser.add_argument("--quick", action="store_true", help="no more than these")
    parser.add_argument("--seconds", type=int, default=900, help="time limit of one run of tests")
    parser.add_argument("--check", action="store_true", help="only list the faults that cannot be planted")
    return parser.parse_args()


def main():
    given = flags()
    faults = tomllib.loads(given.faults.read_text())["fault"]
    names = [fault["name"] for fault in faults]
    if len(set(names)) < len(names):
        sys.exit("error: two faults of the table have the same name")
    wanted = set(filter(None, given.only.split(",")))
    if unknown := wanted - set(names):
        sys.exit(f"error: the table has no fault {', '.join(sorted(unknown))}")
    faults = [fault for fault in faults if not wanted or fault["name"] in wanted]
    given.checkout = given.checkout.resolve()
    unfit = {fault["name"]: problem for fault in faults if (problem := unfit_because(fault, given.checkout))}
    for name, problem in unfit.items():
        print(f"not applied: {name}: {problem}")
    if given.check:
        print(f"{len(faults) - len(unfit)} of {len(faults)} faults can be planted")
        return
    faults = [fault for fault in faults if fault["name"] not in unfit]
    code = digest(given.checkout)
    results = read(given.results, code)
    with tempfile.TemporaryDirectory(prefix="mutation_") as folder:
        work = Path(folder)
        for fault in faults:
            texts = [fault[part] for part in ("file", "old", "new")]
            known = results.get(fault["name"], {"texts": None})
            if known["texts"] != texts or known["outcome"] == "broken":
                results[fault["name"]] = {"texts": texts, "outcome": "survived", "by": "", "files": [], "seconds": 0}
            attempt(results, fault["name"], importing(fault, given.checkout)[: given.first], given, code, work)
        survivors = [fault for fault in faults if results[fault["name"]]["outcome"] == "survived"]
        covered = coverage(given, code, work) if survivors and not given.quick else {}
        for fault in survivors:
            attempt(results, fault["name"], covering(fault, given.checkout, covered), given, code, work)
        drop_false_catches(results, given, work)
        write(given.results, code, results)
    table(faults, unfit, results)


# -- faults ------------------------------------------------------------------------------------------------------------


def unfit_because(fault, checkout):
    """The reason why a fault cannot be planted; "" where it can."""
    path = checkout / fault["file"]
    if not path.is_file():
        return f"there is no {fault['file']}"
    text = path.read_text()
    if (count := text.count(fault["old"])) != 1:
        return f"{fault['file']} has its old text {count} times, not once"
    try:
        ast.parse(text.replace(fault["old"], fault["new"]))
    except SyntaxError as error:
        return f"with the new text {fault['file']} is no Python: {error}"
    return ""


def attempt(results, name, files, given, code, work):
    """Plants a fault in a fresh copy, runs test files on it and stores the outcome."""
    known, started = results[name], time.monotonic()
    files = [file for file in files if file not in known["files"]]
    if known["outcome"] != "survived" or not files:
        return
    (file, old, new), copy = known["texts"], copied(given.checkout, work)
    (copy / file).write_text((copy / file).read_text().replace(old, new))
    limit = given.seconds * (1 + len(files) // 7)
    end, output = run([*PYTEST, "-x", *files], copy, limit, work)
    test, reason = next(iter(FAILED.findall(output)), ("", ""))
    outcome = "caught" if test else "broken"
    if end in (0, NO_TESTS):
        outcome = "survived"
    elif end == TIMED_OUT or "Timeout" in reason:
        outcome = "timed out"
    if outcome != "survived":
        given.results.with_name(f"{name}.log").write_text(output)
    seconds = round(known["seconds"] + time.monotonic() - started, 1)
    results[name] = {**known, "outcome": outcome, "by": test, "files": known["files"] + files, "seconds": seconds}
    write(given.results, code, results)
    show(name, results[name])


def drop_false_catches(results, given, work):
    """Marks faults as broken whose tests also fail on the original code."""
    tests = sorted({found["by"] for found in results.values() if found["outcome"] == "caught"})
    _, output = run([*PYTEST, *tests], copied(given.checkout, work), given.seconds, work) if tests else (0, "")
    failing = {test for test, _ in FAILED.findall(output)}
    for name, found in results.items():
        if found["outcome"] == "caught" and found["by"] in failing:
            results[name] = {**found, "outcome": "broken"}


def importing(fault, checkout):
    """Test files that import the module of a fault, the most specific first."""
    module = fault["file"].removesuffix(".py").replace("/", ".")
    found = {}
    for path in sorted(checkout.glob("tests/**/test_*.py")):
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mednli_jax"):
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if module in names:
            found[path.relative_to(checkout).as_posix()] = len(names)
    likely = f"test_{fault.get('first', Path(fault['file']).stem)}"
    return sorted(found, key=lambda name: (Path(name).stem != likely, found[name]))


def covering(fault, checkout, covered):
    """Test files that run a line of the old text, those that run the fewest lines of the package first."""
    before, _, _ = (checkout / fault["file"]).read_text().partition(fault["old"])
    first = before.count("\n") + 1
    lines = set(range(first, first + fault["old"].count("\n") + 1))
    files = [name for name, found in covered.items() if lines & set(found.get(fault["file"], ()))]
    if not files:  # the line runs when the module is imported
        files = [name for name, found in covered.items() if fault["file"] in found]
    return sorted(files, key=lambda name: sum(map(len, covered[name].values())))


# -- tests -------------------------------------------------------------------------------------------------------------


def copied(checkout, work):
    """A fresh copy of the checkout."""
    shutil.rmtree(work / "copy", ignore_errors=True)
    return shutil.copytree(checkout, work / "copy", ignore=shutil.ignore_patterns(".git", "__pycache__", "*venv"))


def run(arguments, copy, seconds, work, **environment):
    """(exit code, output) of Python on the package of a copy; TIMED_OUT after the time limit."""
    own = dict(PYTHONPATH=str(copy), PYTHONPYCACHEPREFIX=str(work / "bytecode"), OMP_NUM_THREADS="1", **environment)
    command = [sys.executable, *arguments, f"--basetemp={work / 'tests'}"]
    how = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    process = subprocess.Popen(command, cwd=copy, env={**os.environ, **own}, **how)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # tests start processes
        return TIMED_OUT, process.communicate()[0]
    return process.returncode, output


def coverage(given, code, work):
    """{test file: {file of the package: lines that its tests run}}."""
    covered = read(given.coverage, code)
    tests = sorted(path.relative_to(given.checkout).as_posix() for path in given.checkout.glob("tests/**/test_*.py"))
    for name in tests:
        if name not in covered:
            copy, data, started = copied(given.checkout, work), work / "coverage", time.monotonic()
            how = ("--cov=mednli_jax", "--cov-context=test", "--cov-report=")
            run([*PYTEST, *how, name], copy, given.seconds, work, COVERAGE_FILE=str(data))
            covered[name] = lines_run(data, copy)
            write(given.coverage, code, covered)
            print(f"lines of {name}: {time.monotonic() - started:.0f} s", flush=True)
            data.unlink(missing_ok=True)
    return {name: covered[name] for name in tests}


def lines_run(data, copy):
    """{file: lines that run within a test}, without lines that run only on import."""
    from coverage import CoverageData

    found, result = CoverageData(str(data)), {}
    found.read()
    for file in found.measured_files():
        lines = sorted(line for line, contexts in found.contexts_by_lineno(file).items() if any(contexts))
        if lines:
            result[Path(file).relative_to(copy).as_posix()] = lines
    return result


# -- files and output --------------------------------------------------------------------------------------------------


def digest(checkout):
    """The digest of the package and its tests."""
    files = sorted(file for part in ("mednli_jax", "tests") for file in (checkout / part).rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def read(path, code):
    found = json.loads(path.read_text()) if path.is_file() else {"code": code, "found": {}}
    if found["code"] != code:
        sys.exit(f"error: {path} is of another state of the code. Fix: give another file")
    return found["found"]


def write(path, code, found):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps({"code": code, "found": found}))
    part.replace(path)


def show(name, found):
    print(f"{found['outcome']:9} {name:28} {found['seconds']:6.0f} s  {found['by']}", flush=True)


def table(faults, unfit, results):
    print()
    for fault in faults:
        show(fault["name"], results[fault["name"]])
    outcomes = [results[fault["name"]]["outcome"] for fault in faults]
    counts = ", ".join(f"{outcomes.count(one)} {one}" for one in dict.fromkeys(("caught", "survived", *outcomes)))
    print(f"\n{len(faults) + len(unfit)} faults: {counts}, {len(unfit)} not applied")


if __name__ == "__main__":
    main()
