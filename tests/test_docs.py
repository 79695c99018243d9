"""Every page of the documentation: links lead somewhere, commands exist, and commands have the
flags that pages use.

Blocks of shell code run in bash, where `python`, `bash` and other programs are stubs that record
their arguments. The package's own flags parse these recorded commands.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from support.commands import ROOT, environment_of, run_python, succeeds
from support.documented import modules
from support.files import write_program

from mednli_jax.__main__ import COMMANDS

PAGES = pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "launch" / "README.md"],
    ids=lambda page: page.name,
)
STANDS_FOR = {
    "CORPUS": "demo",
    "GENRE": "fiction",
    "FOLDER": "folder",
    "RUN": "run",
    "SOURCE": "run",
    "NAME": "esim",
    "...": "",
}
STUB = """#!/bin/bash
{ printf '%s\\n' "${0##*/}" "$@" && printf '\\r' && compgen -e && printf '\\r'; } >>"$CALLS"
"""
OF_THE_TEST = {"PATH", "CALLS", "LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_", "MEDNLI_JAX_DATA"}
PROGRAMS = [
    "python",
    "bash",
    "pip",
    "pytest",
    "metamap",
    "mednli-jax",
    "ruff",
    "mypy",
    "git",
    "pre-commit",
]


class Call(NamedTuple):
    """The words of a called program, and the names of its environment variables."""

    words: list[str]
    variables: set[str]


def blocks(text):
    """The shell code of a page: fenced and indented blocks, and commands within a line."""
    fenced = re.findall(r"```bash\n(.*?)```", text, re.S)
    rest = re.sub(r"```.*?```", "", text, flags=re.S)
    indented = re.findall(r"(?:^ {4}\S.*\n?)+", rest, re.M)
    commands = [block for block in indented if re.search(r"\b(python|bash|mednli-jax) ", block)]
    inline = re.findall(r"`((?:[A-Z_]+=\S+ )*(?:python|bash|mednli-jax) [^`]+)`", rest)
    return [*fenced, *commands, *(" ".join(code.split()) for code in inline)]


def calls(code, folder):
    """The calls of programs in a block of shell code."""
    programs, record = folder / "programs", folder / "calls"
    for name in PROGRAMS:
        write_program(programs / name, STUB)
    (folder / "pairs.tsv").touch()
    (folder / "mednli-jax").mkdir()  # a clone
    for word, value in STANDS_FOR.items():
        code = re.sub(rf"\b{word}\b", value, code) if value else code.replace(word, value)

    bash = subprocess.run(
        ["/bin/bash", "-ec", code],
        cwd=folder,
        env={"PATH": str(programs), "CALLS": str(record)},
        capture_output=True,
        text=True,
    )
    assert bash.returncode == 0, f"{code}\n{bash.stderr}"
    recorded = record.read_bytes().decode().split("\r")[:-1]
    lists = [part.split("\n")[:-1] for part in recorded]
    return [
        Call(words, set(names) - OF_THE_TEST)
        for words, names in zip(lists[::2], lists[1::2], strict=True)
    ]


def check_command(name, flags):
    """The package's command accepts its flags."""
    module = COMMANDS[name][0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "main", lambda *_: 0)
        succeeds(module, *flags)


def check_script(path, flags, variables):
    """A script in launch/ has the flags and variables."""
    path = f"{path}/__main__.py" if (ROOT / path).is_dir() else path
    sources = (path, "launch/usage.sh", "mednli_jax/sweep.py")
    text = "".join((ROOT / source).read_text() for source in sources).replace("-", "_")
    names = set(variables)
    for flag in flags:
        name = flag.removeprefix("--").partition("=")[0].replace("-", "_")
        if flag.startswith("--") and name != "help" and not name.startswith("config"):
            names.add(name)
    assert [name for name in names if name not in text] == [], path


def check(call):
    """A called program exists and accepts its flags."""
    program, *words = call.words
    if program == "python" and words[0] == "-m" and words[1].startswith("mednli_jax."):
        check_command(words[1].removeprefix("mednli_jax."), words[2:])
    elif program == "python" and words[:2] == ["-m", "mednli_jax"]:
        check(Call(["mednli-jax", *words[2:]], call.variables))
    elif program == "mednli-jax" and not words[0].startswith("-"):
        check_command(words[0], words[1:])
    elif program in ("python", "bash") and words[0].startswith("launch/"):
        check_script(words[0], words[1:], call.variables)


@PAGES
def test_the_commands_of_a_page_exist(page, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = page.read_text("utf-8")
    configs = {}  # the config files that the page shows
    for name, code in modules(page).items():
        (tmp_path / f"{name}.py").write_text(code)
        configs[f"--config={name}.py"] = f"--config={tmp_path / name}.py"

    for number, code in enumerate(blocks(text)):
        for call in calls(code, tmp_path / str(number)):
            check(call._replace(words=[configs.get(word, word) for word in call.words]))


def anchors(page):
    """The anchors that GitHub makes from a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@PAGES
def test_the_links_of_a_page_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", page.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / name)) if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_is_short():
    assert (ROOT / "README.md").stat().st_size <= 8_000


def test_the_program_of_the_page_splits_pairs_by_note(tmp_path):
    (tmp_path / "split.py").write_text(modules("docs/fine-tuning.md")["split"])
    rows = [f"{number},note {number // 3},claim {number},yes" for number in range(60)]
    (tmp_path / "pairs.csv").write_text("\n".join(["case,note,claim,truth", *rows]) + "\n")

    subprocess.run([sys.executable, "split.py"], cwd=tmp_path, check=True)

    written, notes = [], []
    for split in ("train", "dev", "test"):
        header, *of_split = (tmp_path / "own" / f"{split}.csv").read_text().splitlines()
        assert header == "case,note,claim,truth"
        written += of_split
        notes.append({row.split(",")[1] for row in of_split})
    assert sorted(written) == sorted(rows)
    assert list(map(len, notes)) == [16, 2, 2]
    assert len(set.union(*notes)) == 20


def texts_of_the_package():
    """The strings in the code of the package, a blank in place of each value."""
    for path in ROOT.glob("mednli_jax/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else " " for part in node.values
                ]
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_messages_of_the_page_are_those_of_the_package():
    page = (ROOT / "docs" / "fine-tuning.md").read_text("utf-8")
    messages = re.findall(r"^\| `(.*?)` \|", page, re.M)
    texts = list(texts_of_the_package())

    assert len(messages) >= 20
    for message in messages:
        parts = [re.escape(part.strip()) for part in message.split("...") if part.strip()]
        pattern = re.compile(".*".join(parts))
        assert any(map(pattern.search, texts)), message


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    cells = json.loads((ROOT / "docs" / "quickstart.ipynb").read_text("utf-8"))["cells"]
    assert not re.search(r"/(root|home|tmp|Users)/", json.dumps(cells))  # in the outputs

    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    done = run_python("-c", code, cwd=tmp_path, **environment_of(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "kd" / "report.html").is_file()
