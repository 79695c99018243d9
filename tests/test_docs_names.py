"""Names of code in comments, docstrings and pages exist.

In a dotted name, a module has the member, a section of the configs has the field. A word that ends
as a class does, such as ClozeRows, is in the code. So is a word in backticks. Python files exist.
"""

import itertools
import re
from collections import defaultdict
from pathlib import Path

from mednli_jax.defaults import HELP

ROOT = Path(__file__).parent.parent
FOLDERS = ("mednli_jax", "launch", "configs")
PAGES = [ROOT / "README.md", ROOT / "launch" / "README.md", *ROOT.glob("docs/*.md")]
HISTORY = "log.md"  # names files of earlier versions
ABOUT_CODE = ("architecture.md", "extending.md")  # other pages also quote programs of others
PROSE = r'"""[\s\S]*?"""|# .*'
BLOCK = r"```[\s\S]*?```"
FILES = "py json jsonl csv tsv txt md toml html mplstyle parquet safetensors vec cc"
# Names of libraries, of WordNet's files and of other models, and examples.
OTHERS = """
    BatchNorm corpus_bleu mypy pytest CycleError FrameNet BioClinical GitHub tfds.download
    data.noun data.verb model.apply model.update run.predict run.0 model.num_classes config.FIELD
    fasttext.train_unsupervised model.words model.get_dimension model.get_word_vector
    mednli_jax.COMMAND configs/NAME.py configs/mymodel.py models/mymodel.py
    tfds.data_source tabulate pieces.form pieces.encode
"""


def words_of(texts):
    return set(re.findall(r"\w+", " ".join(texts)))


def members():
    """{module, folder, or section of the configs: the names in it}."""
    names = defaultdict(set)
    for field in HELP:
        section, _, name = field.rpartition(".")
        names[section].add(name)
        names["config"].add(section or name)
    for path in (ROOT / "mednli_jax").rglob("*.py"):
        names[path.parent.name].add(path.stem)
        names[path.parent.parent.name].add(path.parent.name)
        code = re.sub(PROSE, "", path.read_text())
        names[path.stem] |= words_of(re.findall(r"^\w[^(\n]*", code, re.M))
    return names


def unknown_names(text, names, words, code="", *, about_code=False):
    """words: of all code. code: of the file, which may have a variable named as a module is."""
    for dotted in re.findall(r"(?<![\w./$:-])(?:\w+\.)+\w+", text):
        for module, name in itertools.pairwise(dotted.split(".")):
            is_known = name in {*names.get(module, {name}), *FILES.split()}
            if not is_known and f"{module}.{name}" not in code:
                yield f"{module}.{name}"
    for word, end in re.findall(r"\b((?:[A-Z][a-z]+)+([A-Z][a-z]+))\b", text):
        if word not in words and any(known.endswith(end) for known in words):
            yield word
    for word in re.findall(r"`([a-zA-Z_]\w+)(?:\(\))?`", text):
        if about_code and word not in words:
            yield word
    for name in re.findall(r"(?<![\w./:])(?:\w+/)+\w+\.py\b", text):
        if not any(ROOT.glob(f"**/{name}")):
            yield name


def test_names_of_code_exist():
    prose_and_code, words = {}, {"LAYERS", "TASKS"}  # of test_architecture.py
    for path in itertools.chain.from_iterable((ROOT / name).rglob("*.py") for name in FOLDERS):
        prose = "\n".join(re.findall(PROSE, path.read_text()))
        prose_and_code[path] = prose, re.sub(PROSE, "", path.read_text())
    for page in PAGES:
        code = "\n".join(re.findall(BLOCK, page.read_text()))
        prose_and_code[page] = re.sub(BLOCK, "", page.read_text()), code
    words |= words_of(code for _, code in prose_and_code.values())
    unknown, names = [], members()
    for path, (prose, code) in prose_and_code.items():
        about_code = path.suffix == ".py" or path.name in ABOUT_CODE
        for name in unknown_names(prose, names, words, code, about_code=about_code):
            if name not in OTHERS.split() and path.name != HISTORY:
                unknown.append(f"{path.relative_to(ROOT)}: {name}")
    assert unknown == []


def test_names_that_are_gone_are_found():
    gone = ["data.wordpiece", "tasks.parts", "ClozeBatch"]
    text = f"{gone[0]}.WordPieces, tasks.task_of, `{gone[1]}`, a PairBatch or a {gone[2]}"
    assert list(unknown_names(text, members(), {"PairBatch"})) == gone
