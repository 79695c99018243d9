"""The floors of the house: lower never imports higher, jax stays in the array world, doors stand alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mednli_jax"
TORCH = ("opponents.py", "torch_side.py", "torch_bert.py", "torch_readers.py")
DOORS = ("prepare", "train", "evaluate", "predict", "analyze", "report", "doctor", "benchmark")
# Lowest first; modules of one floor may import each other. A name stands for a module or for a folder.
FLOORS = (
    ("examples", "errors", "__init__"),
    ("text", "metrics", "answers", "runs", "progress", "weights"),
    ("knowledge",),
    ("data",),
    ("baselines",),
    ("analysis",),
    ("models",),
    ("training",),
    ("tasks",),
    ("defaults", "experiment", "scoring", "pairs", "passages", "trained", "sources", "folds", "cli", "sweeps"),
    ("benchmarking",),
    DOORS,
)
TEXT_WORLD = {
    "sweeps",
    "weights",
    "examples",
    "errors",
    "text",
    "metrics",
    "answers",
    "runs",
    "progress",
    "knowledge",
    "data",
    "baselines",
    "analysis",
    "defaults",
    "cli",
}
ARRAY_LIBRARIES = {"jax", "flax", "optax", "orbax"}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def floor_name(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    """(module, line, relative level) of every import statement, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.lineno, node.level
            if node.module == "mednli_jax":
                yield from ((f"mednli_jax.{alias.name}", node.lineno, 0) for alias in node.names)


def rank(name):
    return next(i for i, floor in enumerate(FLOORS) if name in floor)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_floors(path):
    own = floor_name(path)
    for module, line, level in imports(path):
        assert level == 0, f"{path}:{line}: relative import"
        parts = module.split(".")
        if parts[0] in ARRAY_LIBRARIES:
            assert own not in TEXT_WORLD, f"{path}:{line}: the text world imports {module}"
        if parts[0] != "mednli_jax" or len(parts) == 1:
            continue
        assert rank(parts[1]) <= rank(own), f"{path}:{line}: {own} imports {parts[1]} from a higher floor"
        if own == "models":
            assert parts[1] in ("models", "errors"), f"{path}:{line}: models import {module}"
        if own in DOORS:
            assert parts[1] not in DOORS, f"{path}:{line}: a door imports a door"


def test_no_import_circles():
    """Depth-first over the module graph; imports inside functions count too."""
    graph = {}
    for path in modules():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        graph[name] = {module for module, _, _ in imports(path) if module.startswith("mednli_jax.")}
    done, open_ = set(), []

    def visit(name):
        assert name not in open_, f"import circle: {' -> '.join([*open_, name])}"
        if name in done or name not in graph:
            return
        open_.append(name)
        for other in sorted(graph[name]):
            visit(other)
        done.add(open_.pop())

    for name in graph:
        visit(name)


def test_every_module_says_what_it_is_for():
    for path in modules():
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


@pytest.mark.parametrize("door", DOORS)
def test_help_answers_without_jax(door):
    """`--help` is one screen with examples; nothing of the array world is imported for it."""
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['{door}', '--help']\n"
        "try:\n"
        f"    runpy.run_module('mednli_jax.{door}', run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    assert stop.code == 0, stop.code\n"
        "print('IMPORTED', *sorted({'jax', 'flax', 'optax', 'orbax', 'scipy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    text, _, imported = done.stdout.rpartition("IMPORTED")
    assert imported.split() == []
    assert text.count(f"python -m mednli_jax.{door}") >= 2
    assert len(text.splitlines()) <= 30


def test_nothing_unsafe():
    """No pickle, no eval, no strings as code, no network, in the package, the configs and the launch scripts."""
    banned_modules = {
        "pickle",
        "marshal",
        "shelve",
        "importlib",
        "urllib",
        "http",
        "socket",
        "requests",
        "yaml",
        "torch",
    }
    opponents = {PACKAGE / "benchmarking" / name for name in TORCH}
    banned_calls = {"eval", "exec", "compile", "__import__", "import_module"}
    for path in [*modules(), *ROOT.glob("configs/*.py"), *ROOT.glob("launch/*.py")]:
        for module, line, _ in imports(path):
            allowed = module in ("importlib.resources", "importlib.resources.abc", "importlib.metadata", "importlib")
            allowed |= path in opponents and module.split(".")[0] == "torch"
            assert module.split(".")[0] not in banned_modules or allowed, f"{path}:{line}: imports {module}"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in banned_calls, f"{path}:{node.lineno}: calls {node.func.id}"
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert not getattr(node.value, "value", True), f"{path}:{node.value.lineno}: allows pickle"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.load":
                names = {keyword.arg for keyword in node.keywords}
                assert "allow_pickle" in names, f"{path}:{node.lineno}: np.load without allow_pickle=False"
