"""Random pairs as arrays and random word vectors, for tests of models and steps."""

import numpy as np

WORDS, DIM, LONGEST = 40, 12, 3


def arrays(rows=22, premise=12, hypothesis=8, links=5, seed=0):
    """Arrays of `rows` pairs with random lengths, tokens, labels and unique links."""
    rng = np.random.default_rng(seed)
    length = {
        "premise": rng.integers(2, premise + 1, rows),
        "hypothesis": rng.integers(2, hypothesis + 1, rows),
    }
    data = {"label": rng.integers(0, 3, rows).astype(np.int32)}
    for side, width in (("premise", premise), ("hypothesis", hypothesis)):
        tokens = rng.integers(2, WORDS, (rows, width))
        data[side] = np.where(np.arange(width) < length[side][:, None], tokens, 0).astype(np.int32)
        data[f"{side}_length"] = length[side].astype(np.int32)
    fields = np.zeros((3, rows, links), np.int16)
    fields[2] = -1
    for row in range(rows):
        cells = rng.permutation(length["premise"][row] * length["hypothesis"][row])[
            : rng.integers(0, links + 1)
        ]
        fields[0, row, : len(cells)] = cells // length["hypothesis"][row]
        fields[1, row, : len(cells)] = cells % length["hypothesis"][row]
        fields[2, row, : len(cells)] = rng.integers(0, LONGEST + 1, len(cells))
    return data | dict(
        zip(("link_premise", "link_hypothesis", "link_distance"), fields, strict=True)
    )


def vectors(seed=0):
    table = np.random.default_rng(seed).normal(0, 0.5, (WORDS, DIM)).astype(np.float32)
    table[0] = 0
    return table
