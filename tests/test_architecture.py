"""Layers: no layer imports a higher one, only layers of arrays import jax, and the lowest layers
know no config."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mednli_jax"
COMMANDS = (
    "prepare",
    "train",
    "evaluate",
    "predict",
    "export",
    "analyze",
    "report.__main__",
    "doctor",
    "benchmark",
)
COMMANDS += ("sweep", "reproduce")
# The lowest layer comes first. Modules of one layer may import each other. A name is a module or a
# folder.
LAYERS = (
    ("errors", "__init__"),
    ("files", "terminal", "plugins", "demo"),
    ("rundir", "data"),
    ("knowledge", "report"),
    ("models",),
    ("training",),
    ("nli", "artifacts", "cloze", "diskne"),
    ("tasks",),
    ("defaults", "checks", "run", "cli", "sweeps", "workers", "planning", "job_queue"),
    ("api",),
    ("benchmarking",),
    COMMANDS,
    ("__main__",),
)
TASKS = ("nli", "artifacts", "cloze", "diskne")
WITHIN_TASKS = {("diskne", "nli"), ("artifacts", "nli")}  # both are of sentence pairs
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
ARRAY_LIBRARIES = {"jax", "flax", "optax", "orbax"}
WITH_ARRAYS = {"models", "training", "run", "checks", "api", "benchmarking", "doctor"}
ARRAYS_OF_TASKS = {"task", "fit"}  # modules of the task folders that import jax
# Modules that run or fetch a program: none may be imported, with two exceptions.
UNSAFE = {
    *(
        "pickle",
        "dill",
        "cloudpickle",
        "joblib",
        "marshal",
        "shelve",
        "dbm",
        "importlib",
        "yaml",
        "torch",
        "pandas",
    ),
    *(
        "urllib",
        "http",
        "socket",
        "ssl",
        "requests",
        "httpx",
        "aiohttp",
        "ftplib",
        "smtplib",
        "xmlrpc",
        "webbrowser",
    ),
}
RESOURCES = ("importlib", "importlib.resources", "importlib.resources.abc", "importlib.metadata")
EXCEPTIONS = {("benchmarking", name, "torch") for name in ("torch_models", "torch_side")}
UNSAFE_NAMES = {"eval", "exec", "compile", "__import__"}
UNSAFE_METHODS = {"popen", "unpack_archive", "extractall", "import_module", "read_pickle"}
SWITCHES = {("allow_pickle", "True"), ("shell", "True")}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def is_module(name):
    place = ROOT.joinpath(*name.split("."))
    return name.startswith("mednli_jax.") and (place.is_dir() or place.with_suffix(".py").is_file())


def imports(tree):
    """(module, line) of every import statement, also of those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), node.lineno
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (
                (name, node.lineno)
                for name in names
                if node.module == "importlib" or is_module(name)
            )


def wrong_imports(path, tree):
    """(line, problem) of imports that the layers do not allow."""
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    own = "report.__main__" if (own, path.stem) == ("report", "__main__") else own
    arrays = own in WITH_ARRAYS or (own in TASKS and path.stem in ARRAYS_OF_TASKS)
    for module, line in imports(tree):
        first, _, rest = module.partition(".")
        other = rest.partition(".")[0]
        if not first:
            yield line, "relative import"
        elif first in ARRAY_LIBRARIES and not arrays:
            yield line, f"{own} imports {module}"
        elif first == "ml_collections" and RANK[own] < RANK["defaults"] and own != "training":
            yield line, f"{own} is below the config and imports {module}"
        elif (
            first == "mednli_jax" and other and (own, other) != ("__init__", "api")
        ):  # api is imported at first use
            if RANK[other] > RANK[own] or (own in COMMANDS and other in COMMANDS):
                yield line, f"{own} imports {other} from a higher layer"
            if (
                own in TASKS
                and other in TASKS
                and own != other
                and (own, other) not in WITHIN_TASKS
            ):
                yield line, f"task {own} imports task {other}"
            if other in TASKS and own not in (*TASKS, "tasks", "benchmarking"):
                yield line, f"only tasks.py imports task folders, and {own} imports {module}"
            if (
                own == "models"
                and other not in ("models", "errors", "plugins")
                and rest != "data.batching"
            ):
                yield line, f"models import {module}"


def unsafe(path, tree):
    """(line, problem) of everything that runs a program which a file or the network holds."""
    for module, line in imports(tree):
        first = module.partition(".")[0]
        if (
            first in UNSAFE
            and module not in RESOURCES
            and (path.parent.name, path.stem, first) not in EXCEPTIONS
        ):
            yield line, f"imports {module}"
    for node in ast.walk(tree):
        name, method = getattr(node, "id", ""), getattr(node, "attr", "")
        if (
            name in UNSAFE_NAMES
            or method in UNSAFE_METHODS
            or (method == "system" and ast.unparse(node.value) == "os")
        ):
            yield node.lineno, name or method
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (
            "load",
            "read_array",
        ):
            of_numpy = ast.unparse(node.func).startswith("np.")
            if of_numpy and "allow_pickle" not in [keyword.arg for keyword in node.keywords]:
                yield node.lineno, "array read without allow_pickle=False"
        elif isinstance(node, ast.keyword) and (node.arg, ast.unparse(node.value)) in SWITCHES:
            yield node.value.lineno, f"{node.arg}=True"


def test_every_file_is_documented_in_its_layer_and_safe():
    problems, graph = [], {}
    for path in [*modules(), *ROOT.glob("configs/*.py"), *ROOT.glob("launch/*.py")]:
        tree = ast.parse(path.read_text())
        found = list(unsafe(path, tree))
        if path.is_relative_to(PACKAGE):
            found += wrong_imports(path, tree)
            found += [] if ast.get_docstring(tree) else [(1, "no docstring")]
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            graph[name] = {
                module for module, _ in imports(tree) if module.startswith("mednli_jax.")
            }
        problems += [
            f"{path.relative_to(ROOT)}:{line}: {problem}" for line, problem in sorted(found)
        ]
    assert problems == []
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError where modules import each other


def test_help_answers_without_jax():
    """`--help` of each command fits on one screen, has examples, and imports neither jax nor
    libraries for arrays."""
    code = """import sys
from mednli_jax.__main__ import COMMANDS, main
for command in COMMANDS:
    sys.argv = ["mednli-jax", command, "--help"]
    assert main() == 0
    print("---")
print(*sorted({"jax", "flax", "optax", "orbax", "scipy"} & set(sys.modules)))"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    *pages, imported = done.stdout.split("---\n")
    assert (len(pages), imported.split()) == (len(COMMANDS), [])
    for page in pages:
        assert (page.count("python -m mednli_jax.") >= 2, len(page.splitlines()) <= 30) == (
            True,
            True,
        )
