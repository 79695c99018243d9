"""Lines of a terminology's text file: decompressed, decoded, hashed; one that is no text is refused with its number."""

import gzip
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from mednli_jax.errors import DataError
from mednli_jax.progress import Bar
from mednli_jax.text import MAX_LINE_BYTES, binary_lines

_BIG = 20_000_000  # bytes of a file from which on a bar is shown
_FETCH = "fetch the file again"


def terminology_lines(path: Path, digest) -> Iterator[tuple[int, str]]:
    """(number from 1, text without the line break) of every line of a plain or gzipped file; a byte order mark is gone.

    digest: of hashlib; takes in every line, the same for plain and gzipped files and for either kind of line break.
    Raises: DataError at the first fault, see above.
    """
    try:
        size = path.stat().st_size
        with _bar(path, size) as bar:
            read = 0

            def watch(position):
                nonlocal read
                bar.advance(position - read)
                read = position

            for number, line in binary_lines(path, watch=watch if size > _BIG else None):
                if line is None:
                    raise _fault(path, number, f"the line is longer than {MAX_LINE_BYTES} bytes", _FETCH)
                digest.update(line + b"\n")
                yield number, _decoded(path, number, line)
    except gzip.BadGzipFile as error:
        raise DataError(f"cannot be decompressed: {error}", file=path.name, fix=_FETCH) from error
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise DataError(reason, file=path.name, fix="check the path and its permissions") from error


def _bar(path, size):
    return Bar(f"reading {path.name}", size, unit="bytes") if size > _BIG else nullcontext()


def _decoded(path, number, line):
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise _fault(path, number, "the line is not valid UTF-8", "save the file as UTF-8") from None
    if "\0" in text:
        raise _fault(path, number, "the line holds a NUL byte", _FETCH)
    return text


def _fault(path, number, problem, fix):
    return DataError(problem, file=path.name, line=number, fix=fix)
