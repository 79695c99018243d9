"""Files: written with their folders, gzipped or as arrays, and read back."""

import gzip
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Content = str | bytes


def contents(folder: Path) -> dict[str, bytes]:
    """{path: bytes} of every file of a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def as_bytes(content: Content) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def zipped(content: Content) -> bytes:
    return gzip.compress(as_bytes(content), mtime=0)


def write(path: Path, content: Content) -> Path:
    """Writes a file, gzipped if its name says so, and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zipped(content) if path.suffix == ".gz" else as_bytes(content))
    return path


def write_program(path: Path, text: str) -> None:
    """Writes an executable file."""
    write(path, text).chmod(0o755)


def lay_out(folder: Path, files: Mapping[str, Content], **changed: Content) -> Path:
    """Writes {name: content} below the folder; data_noun=... replaces data.noun."""
    for name, content in files.items():
        write(folder / name, changed.get(name.replace(".", "_"), content))
    return folder


def write_files(folder: Path, files: Mapping[str, Content | None]) -> None:
    """Writes the files {path below the folder: content} as they are; content None is left out."""
    for name, content in files.items():
        if content is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(as_bytes(content))


def assert_private(*tops: Path) -> None:
    """Their owner alone can read these files, and folders with all that is in them."""
    for top in tops:
        for path in (top, *top.rglob("*")):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path


def lines(*rows: Any) -> str:
    """JSON lines of the rows; a row of text is written as it is."""
    texts = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    return "".join(f"{text}\n" for text in texts)
