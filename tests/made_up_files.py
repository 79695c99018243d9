"""Made-up corpora, ontologies and files that tests of several modules share."""

import gzip
import io
import json
import tempfile
from pathlib import Path

import numpy as np
from made_up_pairs import ENCODING, LINKER, SPLITS

from mednli_jax.nli.encoding import encode_corpus

KEY = {"corpus": "made-up", "max_length": 10}


def contents(folder):
    """{path: bytes} of every file of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


class Builder:
    """Builds the corpus of test_encoding and counts the calls."""

    def __init__(self, splits=SPLITS, encoding=ENCODING):
        self.splits, self.encoding, self.calls = splits, encoding, 0

    def __call__(self):
        self.calls += 1
        return self.splits, *encode_corpus(self.splits, LINKER, self.encoding)


# ---- files ----


def as_bytes(content):
    return content if isinstance(content, bytes) else content.encode()


def lay_out(files, folder):
    """Writes the files {path below the folder: content}; content None is left out."""
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


# ---- pairs of sentences ----

# occur in made-up sentences, and must occur in no message
WORDS = ("zebrafish", "quokka", "axolotl", "narwhal", "wombat")
PREMISE, HYPOTHESIS = "zebrafish met quokka .", "an axolotl ."
HEADER = ("pairID", "gold_label", "sentence1", "sentence2")


def assert_no_words(text):
    assert not [word for word in WORDS if word in text.casefold()]


def pair(n, **more):
    """A row with the official fields; a field given as ... is left out."""
    values = {
        "pairID": f"p{n}",
        "gold_label": "neutral",
        "sentence1": f"{PREMISE[:-1]}{n} .",
        "sentence2": HYPOTHESIS,
    }
    values |= {
        "sentence1_binary_parse": f"( {values['sentence1']} )",
        "sentence2_binary_parse": f"( {HYPOTHESIS} )",
    }
    return {
        name: value
        for name, value in {**values, "genre": "slate", **more}.items()
        if value is not ...
    }


def pairs(first, *rows):
    """JSON lines of a good pair with the number `first`, then of the rows; text and bytes are
    written as they are."""
    return b"".join(
        as_bytes(row if isinstance(row, bytes | str) else json.dumps(row)) + b"\n"
        for row in (pair(first), *rows)
    )


def cells(n, label="neutral", premise=PREMISE, hypothesis=HYPOTHESIS):
    return (f"p{n}", label, premise, hypothesis)


def table(separator, *rows, header=HEADER):
    return "".join(separator.join(row) + "\n" for row in (header, *rows))
