"""Sentences as means of word vectors: the features of adversarial filtering."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.examples import Mention, NLIExample
from mednli_jax.data.text import blank_tokens
from mednli_jax.errors import DataError
from mednli_jax.nli.entities import Unit, name_of, units


@dataclass(frozen=True)
class Features:
    """matrix float32 [N, D]; facts: counts as JSON values, never words."""

    matrix: np.ndarray
    facts: dict


def texts(
    examples: Sequence[NLIExample], side: str, mentions: Sequence[Sequence[Mention]] | None, *, lowercase: bool
) -> list[list[Unit]]:
    """The units of one side of each example.

    mentions: the side's, one list for each example, whose tokens are merged; None takes the words of the raw sentence,
    between blanks, as the published code does.
    """
    found = []
    for row, example in enumerate(examples):
        tokens = blank_tokens(getattr(example, side)) if mentions is None else getattr(example, f"{side}_tokens")
        tokens = [token.lower() for token in tokens] if lowercase else tokens
        found.append(units(tokens, mentions[row] if mentions else ()))
    return found


def words_of(found: Iterable[Sequence[Unit]]) -> list[str]:
    """All words that may have a vector: tokens, merged entities, and their parts. Sorted."""
    distinct = {unit for text in found for unit in text}
    return sorted({name_of(unit) for unit in distinct} | {token for unit in distinct for token in unit})


def mean_vectors(
    found: Sequence[Sequence[Unit]],
    row_of: Mapping[str, int],
    vectors: np.ndarray,
    *,
    lacking: str = "parts",
    unknown: str = "zero",
) -> Features:
    """The mean of each text's vectors; a text without any is zero, and counted.

    Args:
      row_of: word -> its row of `vectors`; the words of an entity are joined by underscores.
      vectors: [V, D].
      lacking: what a merged entity without a vector has: the mean of its words' vectors ("parts"), or none ("drop").
        The paper's fastText composed a vector from the characters, as a .bin model does here.
      unknown: the mean is over all units, those without a vector having one of zeros ("zero", as the published code
        has it), or over the units that have one ("skip").

    Raises: DataError where no text has a vector.
    """
    distinct = sorted({unit for text in found for unit in text})
    place = {unit: i for i, unit in enumerate(distinct)}
    matrix = np.zeros((len(distinct), vectors.shape[1]), np.float32)
    has, whole = np.zeros(len(distinct), bool), np.zeros(len(distinct), bool)
    for i, unit in enumerate(distinct):
        rows = [row_of[name] for name in (name_of(unit),) if name in row_of]
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
    means = (counts @ matrix) / np.maximum(used if unknown == "skip" else np.diff(starts), 1)[:, None]
    merged = np.array([len(unit) > 1 for unit in distinct])[flat]
    facts = {
        "tokens": len(flat),
        "without_vector": int((~has[flat]).sum()),
        "merged": int(merged.sum()),
        "merged_without_own_vector": int((merged & ~whole[flat]).sum()),
        "texts_without_vector": int((used == 0).sum()),
    }
    return Features(np.ascontiguousarray(means, np.float32), facts)
