"""Vectors of concepts: from the words of their names, and retrofitted.

knowledge.retrofit describes how MedNLI used them, and which of its steps had no effect as published.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.knowledge.linking import normalise as pieces
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.related import bool_graph, concept_graph, moving, word_index
from mednli_jax.knowledge.retrofit import retrofit


def concept_vectors(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    names: Iterable[tuple[str, int]],
    *,
    first: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """A vector for each concept from the words of its names.

    Args:
      vectors_of_words: floats [V, D], the rows of `words` (for which see `word_graph`).
      names: (phrase, concept index), e.g. of every mention in a training corpus; the most frequent comes first.
      first: the mean over the tokens of the first name that has a known one (the published code's default,
        cbow_most_common) in place of the mean over the distinct tokens of all names (cbow_all).

    Tokens are looked up as they are, then in lower case, then without hyphens. Punctuation is ignored.

    Returns: (float32 [C, D], bool [C]: True where no token is known and the row is zero).
    """
    concept, token, count = _tokens_of_names(names, word_index(words), len(ontology), first)
    weight = count if first else np.ones(len(count))
    total = np.bincount(concept, weights=weight, minlength=len(ontology))
    weight = (weight / total[concept]).astype(np.float32)
    matrix = csr_array((weight, (concept, token)), shape=(len(ontology), len(words)))
    return matrix @ np.asarray(vectors_of_words, np.float32), total == 0


def _tokens_of_names(names, index: dict[str, int], size: int, first: bool) -> tuple[np.ndarray, ...]:
    """(concept, row of a known token, count) of the names that are used; each (concept, row) occurs once."""
    found: dict[int, int] = {}  # by concept * width + row: half the memory of pairs
    width, served = max(index.values(), default=0) + 1, bytearray(size)
    for (name, concept), _ in Counter(names).most_common():
        if served[concept]:
            continue
        rows = _known_rows(name, index)
        served[concept] = first and bool(rows)
        for row in rows:
            key = concept * width + row
            found[key] = found.get(key, 0) + 1
    concept, row = np.divmod(np.fromiter(found, np.int64, len(found)), width)
    return concept, row, np.fromiter(found.values(), np.int64, len(found))


def _known_rows(name: str, index: dict[str, int]) -> list[int]:
    rows = []
    for piece in name.split():
        forms = next(((form,) for form in (piece, piece.lower()) if form in index), None) or pieces(piece)
        rows += [index[form] for form in forms if form in index and any(map(str.isalnum, form))]
    return rows


def retrofit_concepts(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    names: Iterable[tuple[str, int]],
    *,
    relations: Sequence[str] = ("is_a",),
    rounds: int = 10,
) -> tuple[np.ndarray, np.ndarray]:
    """`concept_vectors` of first names, moved towards those of related concepts (`concept_graph`, `retrofit`).

    A concept without a known token has no vector: it stays zero and does not count among its neighbours' neighbours.
    Vectors keep their lengths, so that they can be mixed with the word vectors they come from (MedNLI's had length 1,
    unlike its words).

    Returns: (float32 [C, D], bool [C]: True where no token is known).
    """
    vectors, missing = concept_vectors(ontology, vectors_of_words, words, names, first=True)
    edges = concept_graph(ontology, relations).tocoo()
    kept = ~(missing[edges.row] | missing[edges.col])
    graph = bool_graph(edges.row[kept], edges.col[kept], edges.shape)
    return retrofit(vectors, moving(graph, f"ontology '{ontology.name}'"), rounds=rounds), missing
