"""Word vectors in binary formats."""

import struct

ROWS = {
    "cough": (1, 2, 3),
    "fever": (4, 5, 6),
    "bp": (-1, -1, -1),
    "BP": (0.5, 0, -0.25),
    "naïve": (7, 8, 9),
    "other": (9, 9, 9),
}
FASTTEXT = struct.pack("<2i", 793712314, 12) + bytes(99)  # magic number and version of a model


def word2vec(end: bytes = b"\n", promised: int = len(ROWS)) -> bytes:
    """A file as word2vec's own C program writes it; gensim writes no line ends.

    promised: the number of words that the header states, if it is a wrong one.
    """
    data = f"{promised} 3\n".encode()
    for word, numbers in ROWS.items():
        data += word.encode() + b" " + struct.pack("<3f", *numbers) + end
    return data
