"""The source archive and the wheel hold what they need."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from support.commands import ROOT

FOLDERS = (".ci", ".github", "configs", "docs", "launch", "mednli_jax", "tests")
FILES = [
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "pyproject.toml",
    ".gitignore",
    ".pre-commit-config.yaml",
]
BUILD = "from setuptools import build_meta; print(build_meta.build_{}('.'))"


def build(kind, folder):
    """Builds the sdist or the wheel of a folder."""
    command = [sys.executable, "-c", BUILD.format(kind)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def files_of(project):
    """The files of a clone or a source archive, relative to it."""
    names = {name for name in FILES if (project / name).is_file()}
    for folder in FOLDERS:
        for path, _, files in os.walk(project / folder, followlinks=True):
            below = Path(path).relative_to(project)
            names |= {f"{below}/{name}" for name in files if not name.endswith(".pyc")}
    return names


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The unpacked source archive."""
    folder = tmp_path_factory.mktemp("archive")
    checkout = folder / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, checkout)
    with tarfile.open(build("sdist", checkout)) as file:
        file.extractall(folder, filter="data")
    (unpacked,) = folder.glob("mednli_jax-*")
    return unpacked


def test_the_source_archive_has_each_file_of_a_clone(archive):
    assert files_of(archive) == files_of(ROOT)


def test_the_image_for_gke_is_built_from_all_that_the_package_needs(tmp_path):
    """Its lines `COPY NAME ... /source/` or `COPY FOLDER /source/FOLDER`."""
    recipe = (ROOT / "launch" / "cluster" / "Dockerfile").read_text()
    for names, target in re.findall(r"^COPY (.*) /(source/.*)$", recipe, re.M):
        for name in names.split():
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tmp_path / target, symlinks=True)
            else:
                (tmp_path / target).mkdir(exist_ok=True)
                shutil.copy(ROOT / name, tmp_path / target)

    with zipfile.ZipFile(build("wheel", tmp_path / "source")) as wheel:
        names = {name for name in wheel.namelist() if name.startswith("mednli_jax/")}
    assert names == {name for name in files_of(ROOT) if name.startswith("mednli_jax/")}


def test_the_wheel_of_the_source_archive_has_each_file_of_the_package_and_its_licences(archive):
    with zipfile.ZipFile(build("wheel", archive)) as wheel:
        names = set(wheel.namelist())
        (path,) = (name for name in names if name.endswith("/METADATA"))
        metadata = BytesParser().parsebytes(wheel.read(path))

    package = {name for name in files_of(ROOT) if name.startswith("mednli_jax/")}
    assert {name for name in names if ".dist-info/" not in name} == package
    licences = metadata.get_all("License-File")
    assert licences == ["LICENSE", "mednli_jax/knowledge/resources/CREDITS.md"]
    assert {path.replace("METADATA", f"licenses/{name}") for name in licences} <= names
