"""Which files hold vectors, of what kind they are, and what they say of themselves; the readers are beside this.

Kinds: text, array (NAME.npy with NAME.vocab.txt), pair (BioASQ's types.txt with vectors.txt), word2vec and fasttext
(their binary files).
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.errors import UsageError
from mednli_jax.knowledge import vectors_binary, vectors_text
from mednli_jax.knowledge.vector_rows import FORMATS, TOO_LARGE, unreadable_format
from mednli_jax.knowledge.vectors_text import vocabulary_path
from mednli_jax.textfiles import either_name, no_such_file

SEPARATOR = "+"  # between the names of files whose vectors stand side by side
TYPES, PAIRED = "types.txt", "vectors.txt"  # BioASQ's names
_PEEK_BYTES = 1 << 13
# The authors of MedNLI gave out {word: vector} as pickles.
UNPICKLE = (
    'if you trust where it comes from, write it as text at your own risk: python -c "import pickle, sys; '
    "vectors = pickle.load(open(sys.argv[1], 'rb')); open(sys.argv[2], 'w', encoding='utf-8').writelines("
    "f'{word} ' + ' '.join(map(str, row)) + chr(10) for word, row in vectors.items() if not word.isspace())\" "
    "FILE.pickled FILE.txt"
)
_TEXT = bytes([*b"\t\n\r", *range(32, 256)])  # what rows of text are made of: numbers of 32 bits soon hold another byte


def vector_paths(path) -> tuple[Path, ...]:
    """The files, or folders of BioASQ, that "glove.txt+fasttext.bin" names, each with or without .gz.

    Raises: UsageError where a name is empty.
    """
    whole = _present(Path(path))
    if SEPARATOR not in str(path) or os.path.exists(whole):
        return (whole,)
    names = str(path).split(SEPARATOR)
    if not all(name.strip() for name in names):
        raise UsageError(f"{path}: a name beside a '{SEPARATOR}' is empty. Fix: give FILE{SEPARATOR}FILE, or one FILE.")
    return tuple(_present(Path(name.strip()).expanduser()) for name in names)


def _present(path):
    return either_name(path) or path


def files_of(path: Path) -> list[Path]:
    """The files that hold the vectors of one name, whether they are there or not; the words' file first in a pair."""
    if os.path.isdir(path):
        pair = [_present(path / TYPES), _present(path / PAIRED)]
        return pair if any(map(os.path.isfile, pair)) else [path]
    if path.name.removesuffix(".gz") in (TYPES, PAIRED) and os.path.isfile((pair := files_of(path.parent))[0]):
        return pair
    return [path, vocabulary_path(path)] if path.suffix == ".npy" else [path]


@dataclass(frozen=True)
class Head:
    """What a file says of itself. kind: see the module. rows: -1 where only counting gives it. dim: numbers a word."""

    kind: str
    rows: int
    dim: int


def read_head(path) -> Head:
    """The head of one file of vectors, without reading the rest. Raises: DataError."""
    path = vector_paths(path)[0]
    head = _head(path)
    if not 0 < head.dim < TOO_LARGE:
        raise unreadable_format(path, f"its first line says {head.dim} numbers a word")
    return head


def _head(path):
    kind, files = kind_of(path), files_of(path)
    if kind == "array":
        return Head(kind, *vectors_text.open_array(path).shape)
    if kind == "pair":
        _, dim = vectors_text.text_dim(files[1])
        return Head(kind, -1, dim + 1)  # no word stands before the numbers
    if kind == "text":
        return Head(kind, *vectors_text.text_dim(path))
    if kind == "fasttext":
        return Head(kind, *vectors_binary.fasttext_head(path))
    with vectors_binary.streamed(path) as stream:
        return Head(kind, *vectors_binary.word2vec_header(stream))


def kind_of(path: Path) -> str:
    """The kind of a file, by its content where names do not settle it. Raises: DataError."""
    files = files_of(path)
    if len(files) == 2:
        for file in files if path.suffix != ".npy" else files[:1]:
            if not os.path.isfile(file):
                raise no_such_file(file, f"put {TYPES} and {PAIRED} into one folder")
        return "array" if path.suffix == ".npy" else "pair"
    if not os.path.isfile(path):
        raise no_such_file(path, f"put the file there ($MEDNLI_JAX_DATA/vectors/), as {FORMATS}")
    with vectors_binary.streamed(path) as stream:
        start = stream.peek(_PEEK_BYTES)
    if start.startswith(struct.pack("<i", vectors_binary.MAGIC)):
        return "fasttext"
    if start[:1] == b"\x80" and start[1:2] <= b"\x05":
        raise unreadable_format(path, "a Python pickle, which may run any program when it is opened", fix=UNPICKLE)
    if start.startswith(b"PK"):
        raise unreadable_format(path, "a zip archive", fix="unzip it and name the file inside")
    line, _, rest = start.partition(b"\n")
    if vectors_text.text_header(line.rstrip(b" \r")):
        return "word2vec" if rest.translate(None, _TEXT) else "text"
    if path.name.removesuffix(".gz").endswith((".bin", ".model", ".ftz")):
        problem = "a binary file, but neither word2vec's nor a fastText model of 2017 or later"
        raise unreadable_format(path, problem, fix=f"save the vectors as text and use that; read is {FORMATS}")
    return "text"


def stored_words(path) -> Iterator[str]:
    """The words of an array, a pair or a binary file, in order; those that are not UTF-8 are left out."""
    path = vector_paths(path)[0]
    kind, files = kind_of(path), files_of(path)
    if kind == "text":
        raise ValueError("the words of a text file stand before its numbers")
    if kind == "fasttext":
        words = vectors_binary.fasttext_words(path)
    elif kind == "word2vec":
        words = vectors_binary.word2vec_words(path)
    else:
        words = vectors_text.text_words(files[kind == "array"])
    for word in words:
        try:
            yield word.decode()
        except UnicodeDecodeError:
            continue
