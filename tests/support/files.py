"""Writes files, also gzipped and as arrays, and reads the content of folders."""

import gzip
import io
import json
import tempfile
from pathlib import Path

import numpy as np


def contents(folder):
    """{path: bytes} of every file of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# ---- files ----


def as_bytes(content):
    return content if isinstance(content, bytes) else content.encode()


def write_files(folder, files):
    """Writes the files {path below the folder: content} as they are; content None is left out."""
    for name, content in files.items():
        if content is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(as_bytes(content))


def written(write):
    """The files {path: content} that `write` makes in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return contents(Path(folder))


def zipped(content):
    return gzip.compress(as_bytes(content), mtime=0)


def array(value, **options):
    """The bytes of a .npy file."""
    stream = io.BytesIO()
    np.save(stream, value, **options)
    return stream.getvalue()


def lines(*rows):
    """JSON lines of the rows; a row of text is written as it is."""
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def write(path, content):
    """Writes a file, gzipped if its name says so, and returns its path."""
    data = content if isinstance(content, bytes) else content.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def lay_out(folder, files, **changed):
    """Writes {name: content} below the folder; data_noun=... replaces data.noun."""
    for name, content in files.items():
        write(folder / name, changed.get(name.replace(".", "_"), content))
    return folder
