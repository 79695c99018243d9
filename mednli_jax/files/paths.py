"""Paths that users give, and free names."""

import itertools
import os
import re
from pathlib import Path

from mednli_jax.errors import UsageError


def next_free(folder: Path) -> Path:
    """The first of `folder`, folder-2, folder-3, ... that does not exist yet."""
    path = folder
    for number in itertools.count(2):
        if not path.exists():
            break
        path = folder.with_name(f"{folder.name}-{number}")
    return path


_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")  # pathlib writes gs://bucket as gs:/bucket


def local_path(text: str | Path, source: str) -> Path:
    """The path of a file or folder, with ~ expanded. Raises UsageError for an empty text and for
    gs://... or file://...

    source: the flag or variable that gave the text, for messages: "--workdir", "$MEDNLI_JAX_CACHE".
    """
    text = str(text)
    if not text.strip():
        raise UsageError(f"{source} is empty", fix="give a path, or leave it unset")
    if _ADDRESS.match(text):
        fix = (
            "mount that storage as a folder (gs:// with gcsfuse) or copy it here, and give the path"
        )
        if text.startswith("file:"):
            fix = "give the path alone, which begins after file://"
        raise UsageError(f"{source} is '{text}', an address, not a path of this machine", fix=fix)
    return Path(text).expanduser()


def variable_path(variable: str) -> Path | None:
    """The path in an environment variable; None if the variable is not set."""
    text = os.environ.get(variable)
    return None if text is None else local_path(text, f"${variable}")
