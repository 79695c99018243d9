"""Word vectors in the binary formats of word2vec and fastText."""

import struct
from collections.abc import Mapping, Sequence

import numpy as np

ROWS = {
    "cough": (1, 2, 3),
    "fever": (4, 5, 6),
    "bp": (-1, -1, -1),
    "BP": (0.5, 0, -0.25),
    "naïve": (7, 8, 9),
    "other": (9, 9, 9),
}


def word2vec(
    rows: Mapping[str, Sequence[float]] = ROWS, end: bytes = b"\n", promised: int | None = None
) -> bytes:
    """A file as word2vec's own C program writes it; gensim writes no line ends.

    promised: the number of words that the header states, if it is a wrong one.
    """
    data = f"{promised or len(rows)} 3\n".encode()
    for word, numbers in rows.items():
        data += word.encode() + b" " + struct.pack("<3f", *numbers) + end
    return data


def fasttext_model(
    words: Sequence[str],
    matrix: np.ndarray,
    *,
    buckets: int = 5,
    minn: int = 3,
    maxn: int = 3,
    labels: Sequence[str] = (),
    quantised: bool = False,
) -> bytes:
    """A fastText model as `FastText::saveModel` writes it. matrix [words + buckets, dim]."""
    matrix = np.asarray(matrix, "<f4")
    magic = 793712314
    version = 12
    learning_rate = 1e-4
    options = (matrix.shape[1], 5, 1, 1, 5, 1, 3, 2, buckets, minn, maxn, 100)
    data = struct.pack("<14id", magic, version, *options, learning_rate)
    data += struct.pack(
        "<3i2q",
        len(words) + len(labels),
        len(words),
        len(labels),
        99,
        -1,
    )
    for number, text in enumerate((*words, *labels)):
        is_label = number >= len(words)
        data += text.encode() + b"\0" + struct.pack("<qb", 7, is_label)
    data += struct.pack("<?2q", quantised, *matrix.shape) + matrix.tobytes()
    output_matrix = struct.pack("<?2q2f", False, 1, 2, 1.0, 2.0)
    return data + output_matrix
