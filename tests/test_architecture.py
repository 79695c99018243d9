"""Layers: no layer imports a higher one, only layers of arrays import jax, and the lowest layers
know no config. Imports for mypy alone are left out."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
    "sweep",
    "reproduce",
)
# The lowest layer comes first. Modules of one layer may import each other. A name is a module or a
# folder.
LAYERS = (
    ("errors", "types", "__init__"),
    ("files", "terminal", "plugins", "demo"),
    ("rundir", "data"),
    ("knowledge", "report"),
    ("models",),
    ("training",),
    ("nli", "artifacts", "cloze", "diskne", "tfds"),
    ("tasks",),
    ("defaults", "checks", "cli", "experiment", "finished", "run", "exports"),
    ("sweeps", "workers", "planning"),
    ("api", "configs"),  # configs: a folder, where the package is installed
    COMMANDS,
    ("__main__",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
TASKS = ("nli", "artifacts", "cloze", "diskne")
# DisKnE and the artefacts are of sentence pairs; the builders of TFDS use the readers.
WITHIN_TASKS = {("diskne", "nli"), ("artifacts", "nli"), ("tfds", "nli"), ("tfds", "cloze")}
ARRAY_LIBRARIES = {"jax", "flax", "optax", "orbax"}
WITH_ARRAYS = {"models", "training", "experiment", "finished", "exports", "api", "doctor"}
ARRAYS_OF_TASKS = {"scorer"}  # modules of the task folders that import jax
BELOW_MODELS = {"models", "errors", "types", "plugins"}
# Modules that run a program or open a connection. None may be imported, with two exceptions.
UNSAFE = {
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
}
RESOURCES = ("importlib", "importlib.resources", "importlib.resources.abc", "importlib.metadata")
EXCEPTIONS = {("throughput", name, "torch") for name in ("torch_models", "torch_side")}
UNSAFE_NAMES = {"eval", "exec", "compile", "__import__", "Any"}  # types.py alone defines with Any
UNSAFE_METHODS = {"popen", "unpack_archive", "extractall", "import_module", "read_pickle"}
SWITCHES = {("allow_pickle", "True"), ("shell", "True")}


class Import(NamedTuple):
    module: str
    line: int


class Problem(NamedTuple):
    line: int
    text: str


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return name.startswith("mednli_jax.") and (path.is_dir() or path.with_suffix(".py").is_file())


def imports(tree: ast.Module) -> Iterator[Import]:
    """Every import, also those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield Import("." * node.level + (node.module or ""), node.lineno)
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if node.module == "importlib" or is_module(name):
                    yield Import(name, node.lineno)


def without_type_imports(tree: ast.Module) -> ast.Module:
    """The module without imports below `if TYPE_CHECKING:`, which only mypy reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    return tree


def top_level_name(path: Path) -> str:
    """The name in LAYERS that a file belongs to."""
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "report.__main__" if (name, path.stem) == ("report", "__main__") else name


def wrong_imports(path: Path, tree: ast.Module) -> Iterator[Problem]:
    """Imports that the layers do not allow."""
    own = top_level_name(path)
    has_arrays = own in WITH_ARRAYS or (own in TASKS and path.stem in ARRAYS_OF_TASKS)
    for module, line in imports(tree):
        library, _, rest = module.partition(".")
        imported = rest.partition(".")[0]
        if library in ARRAY_LIBRARIES and not has_arrays:
            yield Problem(line, f"{own} imports {module}")
        elif library == "ml_collections" and RANK[own] < RANK["defaults"] and own != "training":
            yield Problem(line, f"{own} is below the config and imports {module}")
        elif own == "models" and library == "mednli_jax":
            if imported not in BELOW_MODELS and rest != "data.batching":
                yield Problem(line, f"models import {module}")
        elif library == "mednli_jax" and imported:
            yield from (Problem(line, text) for text in wrong_layers(own, imported))


def wrong_layers(own: str, imported: str) -> Iterator[str]:
    """Why a part of the package may not import another part."""
    if (own, imported) == ("__init__", "api"):  # it is imported at first use
        return
    if RANK[imported] > RANK[own] or (own in COMMANDS and imported in COMMANDS):
        yield f"{own} imports {imported} from a higher layer"
    may_import_tasks = own in (imported, "tasks")
    if imported in TASKS and not may_import_tasks and (own, imported) not in WITHIN_TASKS:
        yield f"{own} imports the task {imported}, as only tasks.py may"


def unsafe_imports(path: Path, tree: ast.Module) -> Iterator[Problem]:
    for module, line in imports(tree):
        library = module.partition(".")[0]
        is_exception = (path.parent.name, path.stem, library) in EXCEPTIONS
        if not library:
            yield Problem(line, "relative import")
        elif library in UNSAFE and module not in RESOURCES and not is_exception:
            yield Problem(line, f"imports {module}")


def unsafe_code(tree: ast.Module) -> Iterator[Problem]:
    """Names, calls and arguments that run a program which a file or the network holds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in UNSAFE_NAMES:
            yield Problem(node.lineno, node.id)
        elif isinstance(node, ast.Attribute):
            if node.attr in UNSAFE_METHODS or ast.unparse(node) == "os.system":
                yield Problem(node.lineno, node.attr)
        elif isinstance(node, ast.keyword) and is_switch(node):
            yield Problem(node.value.lineno, f"{node.arg}=True")
        elif isinstance(node, ast.Call) and reads_array_of_unknown_kind(node):
            yield Problem(node.lineno, "array read without allow_pickle=False")


def is_switch(keyword: ast.keyword) -> bool:
    return (keyword.arg, ast.unparse(keyword.value)) in SWITCHES


def reads_array_of_unknown_kind(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    reads_array = name.startswith("np.") and name.endswith((".load", ".read_array"))
    return reads_array and "allow_pickle" not in [keyword.arg for keyword in call.keywords]


def problems_of(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    problems = [*unsafe_imports(path, tree), *unsafe_code(tree)]
    if path.is_relative_to(PACKAGE):
        problems += wrong_imports(path, without_type_imports(tree))
        if not ast.get_docstring(tree):
            problems.append(Problem(1, "no docstring"))
    for line, text in sorted(problems):
        if (path.name, text) != ("types.py", "Any"):
            yield f"{path.relative_to(ROOT)}:{line}: {text}"


def test_every_file_is_documented_in_its_layer_and_safe():
    problems = []
    for path in (*PACKAGE.rglob("*.py"), *ROOT.glob("configs/*.py"), *ROOT.glob("launch/**/*.py")):
        problems += problems_of(path)
    assert problems == []


def test_modules_do_not_import_each_other():
    graph = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        tree = without_type_imports(ast.parse(path.read_text()))
        modules = [module for module, _ in imports(tree)]
        graph[name] = [module for module in modules if module.startswith("mednli_jax.")]
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError where modules import each other


def test_help_of_each_command_is_one_screen_with_examples_and_imports_no_arrays():
    code = """import sys
from mednli_jax.__main__ import COMMANDS, main
for command in COMMANDS:
    sys.argv = ["mednli-jax", command, "--help"]
    assert main() == 0
    print("---", flush=True)
print(*{"jax", "flax", "optax", "orbax", "scipy"} & set(sys.modules))"""
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert printed.returncode == 0, printed.stderr

    *pages, imported = printed.stdout.split("---\n")
    assert len(pages) == len(COMMANDS)
    assert imported.split() == []
    for page in pages:
        assert page.count("python -m mednli_jax.") >= 2
        assert len(page.splitlines()) <= 30
