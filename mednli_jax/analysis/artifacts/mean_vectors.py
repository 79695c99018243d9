"""Sentences as means of word vectors, entities of several words merged: the features of adversarial filtering."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.errors import DataError
from mednli_jax.examples import Mention, NLIExample

Unit = tuple[str, ...]  # a token, or the tokens of an entity


@dataclass(frozen=True)
class Features:
    """matrix float32 [N, D]; facts: counts as JSON values, never words."""

    matrix: np.ndarray
    facts: dict


def units(tokens: Sequence[str], mentions: Sequence[Mention] = ()) -> list[Unit]:
    """The tokens, those of an entity as one unit. Of overlapping entities the first counts, of several first ones the
    longest."""
    longest: dict[int, int] = {}
    for mention in mentions:
        longest[mention.start] = max(mention.end, longest.get(mention.start, 0))
    found, place = [], 0
    while place < len(tokens):
        end = max(longest.get(place, 0), place + 1)
        found.append(tuple(tokens[place:end]))
        place = end
    return found


def texts(
    examples: Sequence[NLIExample],
    mentions: tuple[Sequence[Sequence[Mention]], Sequence[Sequence[Mention]]] | None,
    *,
    inputs: str,
    lowercase: bool,
) -> list[list[Unit]]:
    """The units of each example: its hypothesis, or its premise and hypothesis one after the other.

    mentions: those of the premises and of the hypotheses, one list for each example; None merges nothing.
    inputs: "hypothesis" or "pair" (X_h and X_ph of Herlihy & Rudinger 2021, section 6).
    """
    sides = ("premise", "hypothesis") if inputs == "pair" else ("hypothesis",)
    of_side = {"premise": mentions[0], "hypothesis": mentions[1]} if mentions else {}
    found = []
    for number, example in enumerate(examples):
        text: list[Unit] = []
        for side in sides:
            tokens = getattr(example, f"{side}_tokens")
            tokens = [token.lower() for token in tokens] if lowercase else tokens
            text += units(tokens, of_side[side][number] if of_side else ())
        found.append(text)
    return found


def words_of(found: Iterable[Sequence[Unit]]) -> list[str]:
    """All words that may have a vector: tokens, merged entities, and their parts. Sorted."""
    distinct = {unit for text in found for unit in text}
    return sorted({_name(unit) for unit in distinct} | {token for unit in distinct for token in unit})


def mean_vectors(
    found: Sequence[Sequence[Unit]], row_of: Mapping[str, int], vectors: np.ndarray, *, lacking: str = "parts"
) -> Features:
    """The mean of each text's vectors, over the units that have one; a text without any is zero, and counted.

    Args:
      row_of: word -> its row of `vectors`; the words of an entity are joined by underscores.
      vectors: [V, D].
      lacking: what becomes of a merged entity without a vector: it has the mean of its words' vectors ("parts"), or is
        left out ("drop"). The paper's fastText composed a vector from the characters, as a .bin model does here.

    Raises: DataError where no text has a vector.
    """
    distinct = sorted({unit for text in found for unit in text})
    place = {unit: i for i, unit in enumerate(distinct)}
    matrix = np.zeros((len(distinct), vectors.shape[1]), np.float32)
    has, whole = np.zeros(len(distinct), bool), np.zeros(len(distinct), bool)
    for i, unit in enumerate(distinct):
        rows = [row_of[name] for name in (_name(unit),) if name in row_of]
        whole[i] = bool(rows)
        if not rows and len(unit) > 1 and lacking == "parts":
            rows = [row_of[token] for token in unit if token in row_of]
        if rows:
            matrix[i], has[i] = vectors[rows].mean(axis=0), True
    if not has.any():
        fix = "give vectors of the corpus's language and case, --config.vectors.path=FILE, or none for random ones"
        raise DataError("no token of the corpus has a vector", fix=fix)
    numbers = [[place[unit] for unit in text] for text in found]
    starts = np.cumsum([0, *map(len, numbers)])
    flat = np.array([number for text in numbers for number in text], np.int64)
    counts = csr_array((has[flat].astype(np.float32), flat, starts), shape=(len(found), len(distinct)))
    used = counts.sum(axis=1)
    means = (counts @ matrix) / np.maximum(used, 1)[:, None]
    merged = np.array([len(unit) > 1 for unit in distinct])[flat]
    facts = {
        "tokens": len(flat),
        "without_vector": int((~has[flat]).sum()),
        "merged": int(merged.sum()),
        "merged_without_own_vector": int((merged & ~whole[flat]).sum()),
        "texts_without_vector": int((used == 0).sum()),
    }
    return Features(np.ascontiguousarray(means, np.float32), facts)


def _name(unit):
    return "_".join(unit)
