"""Layers: no layer imports a higher one, only layers of arrays import jax, and the lowest layers know no config."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mednli_jax"
TORCH = ("torch_models.py", "torch_side.py", "torch_bert.py", "torch_readers.py")
COMMANDS = ("prepare", "train", "evaluate", "predict", "analyze", "report", "doctor", "benchmark")
# The lowest layer comes first. Modules of one layer may import each other. A name is a module or a folder.
LAYERS = (
    ("errors", "__init__"),
    ("examples",),
    ("text", "textfiles", "metrics", "answers", "runs", "progress", "files", "cache"),
    ("knowledge",),
    ("corpora", "inputs"),
    ("baselines",),
    ("analysis",),
    ("models",),
    ("training",),
    ("tasks",),
    ("fitting",),
    ("defaults", "validation"),
    ("experiment", "finished_run", "new_run", "cli", "sweeps"),
    ("api",),
    ("benchmarking",),
    COMMANDS,
    ("__main__",),
)
ARRAY_LIBRARIES = {"jax", "flax", "optax", "orbax"}
WITH_ARRAYS = {
    *("models", "training", "tasks", "fitting"),
    *("validation", "experiment", "finished_run", "new_run", "api", "benchmarking"),
    "doctor",  # it names the devices that jax finds
}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def layer_name(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    """(module, line, relative level) of every import statement, also of those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.lineno, node.level
            if node.module == "mednli_jax":
                yield from ((f"mednli_jax.{alias.name}", node.lineno, 0) for alias in node.names)


def rank(name):
    return next(i for i, layer in enumerate(LAYERS) if name in layer)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_layers(path):
    own = layer_name(path)
    for module, line, level in imports(path):
        assert level == 0, f"{path}:{line}: relative import"
        parts = module.split(".")
        if parts[0] in ARRAY_LIBRARIES:
            assert own in WITH_ARRAYS, f"{path}:{line}: {own} imports {module}"
        if parts[0] == "ml_collections":
            assert rank(own) >= rank("defaults"), f"{path}:{line}: {own} is below the config and imports {module}"
        if parts[0] != "mednli_jax" or len(parts) == 1:
            continue
        if (own, parts[1]) == ("__init__", "api"):  # the package imports these names at their first use
            continue
        assert rank(parts[1]) <= rank(own), f"{path}:{line}: {own} imports {parts[1]} from a higher layer"
        if own == "models":
            assert parts[1] in ("models", "errors"), f"{path}:{line}: models import {module}"
        if own in COMMANDS:
            assert parts[1] not in COMMANDS, f"{path}:{line}: a command imports a command"


def test_no_import_circles():
    """A depth-first search over the modules; imports inside functions count, too."""
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


@pytest.mark.parametrize("command", COMMANDS)
def test_help_answers_without_jax(command):
    """`--help` fits on one screen, has examples, and imports neither jax nor other libraries for arrays."""
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['{command}', '--help']\n"
        "try:\n"
        f"    runpy.run_module('mednli_jax.{command}', run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    assert stop.code == 0, stop.code\n"
        "print('IMPORTED', *sorted({'jax', 'flax', 'optax', 'orbax', 'scipy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    text, _, imported = done.stdout.rpartition("IMPORTED")
    assert imported.split() == []
    assert text.count(f"python -m mednli_jax.{command}") >= 2
    assert len(text.splitlines()) <= 30


# Modules that can run or fetch a program.
UNSAFE_MODULES = {
    *(
        "pickle",
        "_pickle",
        "cPickle",
        "dill",
        "cloudpickle",
        "joblib",
        "jsonpickle",
        "marshal",
        "shelve",
        "dbm",
        "hickle",
    ),
    *("importlib", "imp", "zipimport", "code", "codeop", "yaml", "ruamel", "torch", "pandas"),
    *("urllib", "http", "socket", "ssl", "requests", "httpx", "aiohttp", "ftplib", "smtplib", "xmlrpc", "webbrowser"),
}
RESOURCES = ("importlib.resources", "importlib.resources.abc", "importlib.metadata")
UNSAFE_NAMES = {"eval", "exec", "compile", "__import__", "breakpoint"}
UNSAFE_FUNCTIONS = {
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "shutil.unpack_archive"),
    *("importlib.import_module", "torch.load", "torch.hub.load", "runpy.run_module"),
    *(f"builtins.{name}" for name in UNSAFE_NAMES),
}
# calls of these must say allow_pickle=False
ARRAY_READERS = ("numpy.load", "numpy.lib.format.read_array", "numpy.lib.npyio.NpzFile")
UNSAFE_METHODS = {"extractall", "extract", "read_pickle", "to_pickle", "unsafe_load", "full_load", "import_module"}


def unsafe(source, torch=False):
    """(line, construct) of everything in a module's source that no file of the package may contain.

    torch: whether the module may import that library. Names are followed through imports: after `from numpy import load
    as get`, `get` is np.load.
    """
    tree = ast.parse(source)
    full, found, called = {}, [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [(alias.asname or alias.name.split(".")[0], alias.name, alias.asname) for alias in node.names]
            full |= {name: whole if own else name for name, whole, own in named}
            imported = [whole for _, whole, _ in named]
        elif isinstance(node, ast.ImportFrom):
            full |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            # Submodules of importlib may be imported, but not importlib itself or its functions.
            of_importlib = [f"importlib.{alias.name}" for alias in node.names]
            imported = of_importlib if node.module == "importlib" else [node.module or ""]
        else:
            continue
        for module in imported:
            known = module in RESOURCES or (torch and module.split(".")[0] == "torch")
            if module.split(".")[0] in UNSAFE_MODULES and not known:
                found.append((node.lineno, f"import {module}"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called.add(node.func)
            name, told = dotted(node.func, full), {keyword.arg: keyword.value for keyword in node.keywords}
            if name in ARRAY_READERS and "allow_pickle" not in told:
                found.append((node.lineno, f"{name} without allow_pickle=False"))
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell") and not is_false(node.value):
            found.append((node.value.lineno, f"{node.arg}={ast.unparse(node.value)}"))
    for node in ast.walk(tree):
        name = dotted(node, full) if isinstance(node, ast.Name | ast.Attribute) else ""
        if name in UNSAFE_FUNCTIONS or (isinstance(node, ast.Name) and node.id in UNSAFE_NAMES):
            found.append((node.lineno, name))
        elif name in ARRAY_READERS and node not in called:
            found.append((node.lineno, f"{name} under another name"))
        elif isinstance(node, ast.Attribute) and node.attr in UNSAFE_METHODS and not name.startswith("rapidfuzz."):
            found.append((node.lineno, f".{node.attr}"))
    return sorted(set(found))


def dotted(node, full):
    """The dotted name of a Name or Attribute node, resolved by the imports; "" for any other node."""
    if isinstance(node, ast.Name):
        return full.get(node.id, node.id)
    parent = dotted(node.value, full) if isinstance(node, ast.Attribute) else ""
    return f"{parent}.{node.attr}" if parent else ""


def is_false(node):
    return isinstance(node, ast.Constant) and node.value is False


def test_nothing_unsafe():
    """The package, the configs and the launch scripts use no pickle, no eval, no strings as code and no network.

    An exception is training/watch.py: the processes of one run watch over one another through a connection.
    """
    torch_side = {PACKAGE / "benchmarking" / name for name in TORCH}
    for path in [*modules(), *ROOT.glob("configs/*.py"), *ROOT.glob("launch/*.py")]:
        found = unsafe(path.read_text(), torch=path in torch_side)
        if path == PACKAGE / "training" / "watch.py":
            found = [(line, what) for line, what in found if what != "import socket"]
        assert not found, f"{path.relative_to(ROOT)}: {found}"


PLANTED = (
    *("import pickle", "import pickle as p", "from pickle import loads", "import _pickle", "import joblib"),
    *("import dill", "import cloudpickle", "import marshal", "import shelve", "import yaml"),
    *("from yaml import safe_load", "import torch", "from torch import load", "import importlib"),
    *("from importlib import import_module", "import importlib.util", "import socket", "import urllib.request"),
    *("from http import client", "import requests", "import pandas as pd", "eval('1')", "exec('x = 1')"),
    *("compile('1', '', 'eval')", "__import__('os')", "run = eval", "import builtins\nb = builtins.eval"),
    *("import os\nos.system('ls')", "from os import system as s\ns('ls')", "import os as o\no.popen('ls')"),
    *("import subprocess\nsubprocess.run('ls', shell=True)", "from subprocess import run\nrun('ls', shell=1)"),
    *("import numpy as np\nnp.load('x')", "import numpy\nnumpy.load('x')"),
    *("from numpy import load as get\nget('x')", "import numpy as n\nn.load('x', allow_pickle=True)"),
    "import numpy as np\nkind = True\nnp.load('x', allow_pickle=kind)",
    *("import numpy as np\nread = np.load\nread('x')", "import numpy as np\nnp.lib.format.read_array(f)"),
    "from numpy.lib.format import read_array\nread_array(f, allow_pickle=1)",
    *("import numpy as np\nnp.lib.npyio.NpzFile(f)", "np.save(f, x, allow_pickle=True)"),
    "import tarfile\ntarfile.open('x').extractall('y')",
    "from zipfile import ZipFile\nZipFile('x').extractall()",
    *("import zipfile\nzipfile.ZipFile('x').extract('m')", "import shutil\nshutil.unpack_archive('x')"),
    *("frame.read_pickle('x')", "def f():\n    import pickle"),
)  # fmt: skip
HARMLESS = (
    *("import numpy as np\nnp.load('x', mmap_mode='r', allow_pickle=False)", "import ast\nast.literal_eval('1')"),
    *("import re\nre.compile('x')", "step.lower(x).compile()", "model.eval()", "import json\njson.load(f)"),
    *("from importlib import metadata, resources", "from importlib.resources import files", "store.load('x')"),
    *("import subprocess\nsubprocess.run(['ls'], check=True)", "import zipfile\nzipfile.BadZipFile", "'import pickle'"),
)


@pytest.mark.parametrize("source", PLANTED)
def test_what_is_unsafe_is_found_where_it_is_planted(source):
    """The construct is found alone and at the end of a real module, with its line."""
    module = (PACKAGE / "text.py").read_text()
    assert unsafe(source)
    assert [line for line, _ in unsafe(f"{module}\n{source}")] == [
        line + module.count("\n") + 1 for line, _ in unsafe(source)
    ]


@pytest.mark.parametrize("source", HARMLESS)
def test_what_only_looks_unsafe_is_let_pass(source):
    assert unsafe(source) == []
