"""Word vectors in the binary formats of word2vec and fastText."""

import struct

import numpy as np

# ---- binary vectors ----

ROWS = {
    "cough": (1, 2, 3),
    "fever": (4, 5, 6),
    "bp": (-1, -1, -1),
    "BP": (0.5, 0, -0.25),
    "naïve": (7, 8, 9),
}
ROWS["other"] = (9, 9, 9)


def word2vec(rows=ROWS, end=b"\n", promised=None):
    """A file as word2vec's own C program writes it; gensim writes no line ends."""
    lines = [
        word.encode() + b" " + struct.pack("<3f", *numbers) + end for word, numbers in rows.items()
    ]
    return f"{promised or len(rows)} 3\n".encode() + b"".join(lines)


def fasttext_model(words, matrix, *, buckets=5, minn=3, maxn=3, labels=(), quantised=0):
    """A fastText model as `FastText::saveModel` writes it. matrix [words + buckets, dim]."""
    matrix = np.asarray(matrix, "<f4")
    settings = (matrix.shape[1], 5, 1, 1, 5, 1, 3, 2, buckets, minn, maxn, 100)
    parts = [struct.pack("<2i", 793712314, 12), struct.pack("<12id", *settings, 1e-4)]
    parts.append(struct.pack("<3i2q", len(words) + len(labels), len(words), len(labels), 99, -1))
    parts += [word.encode() + b"\0" + struct.pack("<qb", 7, 0) for word in words]
    parts += [label.encode() + b"\0" + struct.pack("<qb", 7, 1) for label in labels]
    parts += [struct.pack("<?2q", quantised, *matrix.shape), matrix.tobytes()]
    parts.append(struct.pack("<?2q", 0, 1, 2) + struct.pack("<2f", 1, 2))  # the output matrix
    return b"".join(parts)
