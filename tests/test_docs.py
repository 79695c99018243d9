"""Every page of the documentation: links lead somewhere, commands exist, and commands have the
flags that pages use.

Blocks of shell code run in bash, where `python`, `bash` and other programs are stubs that record
their arguments. The package's own flags parse these recorded commands.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ROOT, call_command

from mednli_jax.__main__ import COMMANDS

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
STANDS_FOR = {
    "CORPUS": "demo",
    "GENRE": "fiction",
    "FOLDER": "folder",
    "RUN": "run",
    "SOURCE": "run",
    "NAME": "esim",
}
STUB = """#!/bin/bash
{ printf '%s\\n' "${0##*/}" "$@" && printf '\\r' && compgen -e && printf '\\r'; } >>"$CALLS"
"""
KNOWN = {"PATH", "CALLS", "LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_", "MEDNLI_JAX_DATA"}
PROGRAMS = ("python", "bash", "pip", "pytest", "metamap", "mednli-jax", "ruff", "mypy", "git")


def blocks(text):
    """The shell code of a page: fenced and indented blocks, and commands within a line."""
    fenced = re.findall(r"```bash\n(.*?)```", text, re.S)
    rest = re.sub(r"```.*?```", "", text, flags=re.S)
    indented = re.findall(r"(?:^ {4}\S.*\n?)+", rest, re.M)
    inline = re.findall(r"`((?:[A-Z_]+=\S+ )*(?:python|bash|mednli-jax) [^`]+)`", rest)
    commands = [block for block in indented if re.search(r"\b(python|bash|mednli-jax) ", block)]
    return [*fenced, *commands, *(" ".join(code.split()) for code in inline)]


def calls(code, folder):
    """The program calls of a block of shell code: [(words, names of environment variables)]."""
    programs = folder / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o700)
    (folder / "pairs.tsv").touch()
    for word, value in STANDS_FOR.items():
        code = re.sub(rf"\b{word}\b", value, code)
    code = code.replace("...", "")
    environment = {"PATH": str(programs), "CALLS": str(folder / "calls")}
    done = subprocess.run(
        ["/bin/bash", "-ec", code], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    parts = [
        part.split("\n")[:-1]
        for part in Path(environment["CALLS"]).read_bytes().decode().split("\r")[:-1]
    ]
    return [
        (words, set(names) - KNOWN) for words, names in zip(parts[::2], parts[1::2], strict=True)
    ]


def check(words, names, patch):
    """Asserts that a called program exists and accepts its flags."""
    if words[:2] == ["python", "-m"]:
        package, _, command = words[2].partition(".")
        words = (
            ["mednli-jax", *filter(None, [command]), *words[3:]]
            if package == "mednli_jax"
            else ["other"]
        )
    if words[0] == "mednli-jax":
        if words[1].startswith("-"):
            return
        module = COMMANDS[words[1]][0]
        patch.setattr(module, "main", lambda *_: 0)
        code, _, err = call_command(module, *words[2:], words=getattr(module, "WORDS", 0))
        assert code == 0, err
    elif words[0] in ("python", "bash") and words[1].startswith("launch/"):
        text = "".join(
            (ROOT / path).read_text()
            for path in (words[1], "launch/usage.sh", "mednli_jax/sweep.py")
        )
        given = {
            word[2:].partition("=")[0].replace("-", "_")
            for word in words[2:]
            if word.startswith("--")
        }
        given = {name for name in given if name != "help" and not name.startswith("config")}
        unknown = [name for name in (*given, *names) if name not in text.replace("-", "_")]
        assert not unknown, f"{words[1]} knows nothing of {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_exist(page, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = {}  # the config files that the page shows
    for name, code in re.findall(
        r"```python\n# (\w+)\.py\n(.*?)```", page.read_text("utf-8"), re.S
    ):
        (tmp_path / f"{name}.py").write_text(code)
        own[f"--config={name}.py"] = f"--config={tmp_path / name}.py"
    for number, code in enumerate(blocks(page.read_text("utf-8"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        for words, names in calls(code, folder):
            check([own.get(word, word) for word in words], names, monkeypatch)
    for name in own:
        sys.modules.pop(name.removeprefix("--config=").removesuffix(".py"), None)


def anchors(page):
    """The anchors that GitHub makes from a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if re.match(r"https?:|mailto:", link):
            continue
        name, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / name)) if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
        assert target.is_relative_to(ROOT), link
    assert "@@" not in page.read_text("utf-8")  # a figure that waits to be filled in
    assert page.name != "README.md" or page.stat().st_size <= 8_000


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    cells = json.loads((ROOT / "docs" / "quickstart.ipynb").read_text("utf-8"))["cells"]
    assert not re.search(r"/(root|home|tmp|Users)/", json.dumps(cells))  # in the outputs
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    environment = {
        **os.environ,
        "MEDNLI_JAX_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "runs" / "bow" / "report.html").is_file()
