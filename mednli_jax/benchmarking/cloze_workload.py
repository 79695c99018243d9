"""Passages and queries of CliCR's shape, in the arrays of `data.encode_cloze`. NumPy only.

Šuster & Daelemans 2018, table 2 and figure 2a: passages of about 1,500 tokens, some four times as long, some with less
than a hundred. A phrase is one token, as in the set-up "ent".
Dimension letters: N queries, A passages, P tokens, C candidates, S marked tokens.
"""

import numpy as np

from mednli_jax.benchmarking.workload import FIRST_WORD, WORDS, Workload, zipf

GROUP = 4  # queries of a passage
TYPES = 20_000  # phrases of the corpus
CANDIDATES, MARKS = 30, 60  # of a passage, on average
SHAPE, SHORTEST, LONGEST = 3.0, 1 / 15, 4.0  # of a passage's length: gamma's shape; caps, times the mean
QUERY_MEAN, QUERY_SHAPE, QUERY_CAPS = 25.0, 6.0, (5, 60)
DEV_PASSAGES = 8
BLANK = FIRST_WORD  # the placeholder's number
PHRASES = WORDS // 2  # words, the rarest, that stand for phrases


def made_up_cloze(queries: int, *, tokens: int = 1500, dim: int = 200, seed: int = 0) -> Workload:
    """Queries over passages of a mean length, GROUP to a passage (the last one of a split may have fewer).

    The workload's arrays are those of a prepared cloze corpus; group [N] is the passage of each query. The right
    candidate is drawn by chance: nothing is to be learned here.
    """
    rng = np.random.default_rng(seed)
    of_train = -(-queries // GROUP)
    group = np.concatenate([np.arange(queries) // GROUP, of_train + np.arange(DEV_PASSAGES * GROUP) // GROUP])
    passages = _passages(rng, of_train + DEV_PASSAGES, tokens)
    candidates = np.diff(passages["candidate_type_start"])
    rows = _queries(rng, len(group))
    gold = (rng.random(len(group)) * candidates[group]).astype(np.int32)
    arrays = {
        **passages,
        **rows,
        "query_passage": group.astype(np.int32),
        "gold": gold,
        "label": gold,
        "premise_length": np.diff(passages["passage_start"]).astype(np.int32)[group],
        "hypothesis_length": rows["query_length"],
    }
    vectors = rng.normal(0.0, 0.4, (FIRST_WORD + WORDS, dim)).astype(np.float32)
    vectors[0] = 0.0
    spans = {"train": (0, queries), "dev": (queries, DEV_PASSAGES * GROUP)}
    facts = {"corpus": f"made up, of CliCR's shape, {tokens} tokens a passage", "pairs": queries, "types": TYPES}
    return Workload(arrays, vectors, spans, group, facts)


def _passages(rng, number, tokens):
    """Flat arrays of the passages, with their starts."""
    drawn = np.round(rng.gamma(SHAPE, tokens / SHAPE, number))
    length = np.clip(drawn, max(4, tokens * SHORTEST), LONGEST * tokens).astype(np.int64)
    start = _starts(length)
    words = zipf(rng, int(start[-1]))
    types, sizes, places, owners = [], [], [], []
    for first, size in zip(start, length, strict=False):
        most = max(1, min(size // 2, rng.poisson(CANDIDATES)))
        chosen = rng.permutation(np.unique((TYPES * rng.random(most) ** 2).astype(np.int32)))
        again = rng.integers(0, len(chosen), rng.poisson(len(chosen) * (MARKS / CANDIDATES - 1)))
        owner = np.sort(np.concatenate([np.arange(len(chosen)), again])[:size])
        place = rng.choice(size, len(owner), replace=False)
        place = place[np.lexsort((place, owner))]
        words[first + place] = FIRST_WORD + WORDS - 1 - chosen[owner] % PHRASES
        types.append(chosen)
        sizes.append(rng.integers(1, 5, len(chosen)))
        places.append(place)
        owners.append(owner)
    return {
        "passage": words,
        "passage_start": start,
        "candidate_type": np.concatenate(types).astype(np.int32),
        "candidate_type_start": _starts([len(part) for part in types]),
        "candidate_length": np.concatenate(sizes).astype(np.int32),
        "position": np.concatenate(places).astype(np.int32),
        "position_start": _starts([len(part) for part in places]),
        "position_candidate": np.concatenate(owners).astype(np.int32),
    }


def _starts(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _queries(rng, number):
    """Padded queries [N, Q], their lengths and blanks."""
    drawn = np.round(rng.gamma(QUERY_SHAPE, QUERY_MEAN / QUERY_SHAPE, number))
    length = np.clip(drawn, *QUERY_CAPS).astype(np.int32)
    width = int(length.max())
    query = zipf(rng, number * width).reshape(number, width)
    blank = (rng.random(number) * length).astype(np.int32)
    query[np.arange(number), blank] = BLANK
    query = np.where(np.arange(width) < length[:, None], query, 0)
    return {"query": query.astype(np.int32), "query_length": length, "blank": blank}
