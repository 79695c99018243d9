"""Random pairs as arrays and random word vectors, for tests of models and steps."""

import numpy as np

WORDS = 40
DIM = 12
LONGEST = 3
LINKS = 5  # the most of a pair


def arrays(rows: int = 22, seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays of `rows` pairs with random lengths, tokens, labels and unique links."""
    rng = np.random.default_rng(seed)
    width = {"premise": 12, "hypothesis": 8}
    length = {side: rng.integers(2, tokens + 1, rows) for side, tokens in width.items()}
    data = {"label": rng.integers(0, 3, rows).astype(np.int32)}
    for side, tokens in width.items():
        words = rng.integers(2, WORDS, (rows, tokens))
        is_word = np.arange(tokens) < length[side][:, None]
        data[side] = np.where(is_word, words, 0).astype(np.int32)
        data[f"{side}_length"] = length[side].astype(np.int32)
    data["link_premise"], data["link_hypothesis"] = np.zeros((2, rows, LINKS), np.int16)
    data["link_distance"] = np.full((rows, LINKS), -1, np.int16)
    for row, (first, second) in enumerate(zip(*length.values(), strict=True)):
        cells = rng.permutation(first * second)[: rng.integers(0, LINKS + 1)]
        count = len(cells)
        data["link_premise"][row, :count] = cells // second
        data["link_hypothesis"][row, :count] = cells % second
        data["link_distance"][row, :count] = rng.integers(0, LONGEST + 1, count)
    return data


def vectors(seed: int = 0) -> np.ndarray:
    """[WORDS, DIM] float32; those of padding are zero."""
    table_VD = np.random.default_rng(seed).normal(0, 0.5, (WORDS, DIM)).astype(np.float32)
    table_VD[0] = 0
    return table_VD
