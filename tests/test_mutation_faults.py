"""The table of planted faults: each fault can be planted, and the tests that are to catch it
exist."""

import ast
import tomllib

import pytest
from support.commands import ROOT

FAULTS = [
    (file, name, fault)
    for file, of_file in tomllib.loads(
        (ROOT / "tests" / "mutation_faults.toml").read_text()
    ).items()
    for name, fault in of_file.items()
]


@pytest.mark.parametrize("file, name, fault", FAULTS, ids=[name for _, name, _ in FAULTS])
def test_a_fault_stands_once_in_its_file_and_leaves_code(file, name, fault):
    code = (ROOT / "mednli_jax" / file).read_text()
    assert code.count(fault["old"]) == 1
    planted = ast.parse(code.replace(fault["old"], fault["new"]))
    assert ast.dump(planted) != ast.dump(ast.parse(code))
    if "first" in fault:
        assert list(ROOT.glob(f"tests/**/test_{fault['first']}.py"))


def test_no_two_faults_have_one_name():
    names = [name for _, name, _ in FAULTS]
    assert len(names) == len(set(names))
