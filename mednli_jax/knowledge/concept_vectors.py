"""Vectors of concepts: from the words of their names, and retrofitted.

knowledge.retrofit describes how MedNLI used them, and which of its steps had no effect as published.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.knowledge.linking import normalise as pieces
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.related import all_names, bool_graph, check_choice, concept_graph, moving, word_index
from mednli_jax.knowledge.retrofit import retrofit

# How the names of a concept become one vector; in brackets the mode of MedNLI's published code.
POOLINGS = (
    "mean",  # mean over the distinct tokens of all its names [cbow_all]
    "preferred",  # mean over the tokens of the first name that has a known one [cbow_most_common, the default there]
    "preferred_token",  # the same among names of a single token [single_token]
    "common_token",  # the token that most names have, of several the longest [single_most_common]
)


def concept_vectors(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    *,
    pooling: str = "mean",
    names: Iterable[tuple[str, int]] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """A vector for each concept from the words of its names.

    Args:
      vectors_of_words: floats [V, D], the rows of `words` (for which see `word_graph`).
      pooling: one of POOLINGS.
      names: (phrase, concept index) of every mention in a training corpus, as MedNLI took them: the most frequent comes
        first; None for the ontology's names, the preferred one first, each counting once.

    Tokens are looked up as they are, then in lower case, then without hyphens. Punctuation is ignored.

    Returns: (float32 [C, D], bool [C]: True where no token is known and the row is zero).
    Raises: ConfigError for an unknown pooling. ValueError: vectors and words differ in number.
    """
    check_choice("pooling", pooling, POOLINGS)
    if len(vectors_of_words) != len(words):
        raise ValueError(f"{len(vectors_of_words)} vectors for {len(words)} words")
    counted = ((name, 1) for name in all_names(ontology)) if names is None else Counter(names).most_common()
    concept, token, count = _tokens_of_names(counted, word_index(words), len(ontology), pooling)
    if pooling == "common_token":
        letters = np.array([len(word) for word in words], np.int64)[token]
        best = np.lexsort((-letters, -count, concept))
        best = best[np.append(True, concept[best][1:] != concept[best][:-1])[: len(best)]]
        concept, token, count = concept[best], token[best], count[best]
    weight = count if pooling.startswith("preferred") else np.ones(len(count))
    total = np.bincount(concept, weights=weight, minlength=len(ontology))
    weight = (weight / total[concept]).astype(np.float32)
    matrix = csr_array((weight, (concept, token)), shape=(len(ontology), len(words)))
    return matrix @ np.asarray(vectors_of_words, np.float32), total == 0


def _tokens_of_names(counted, index: dict[str, int], size: int, pooling: str) -> tuple[np.ndarray, ...]:
    """(concept, row of a known token, count) of the names that `pooling` uses; each (concept, row) occurs once.

    counted: ((name, concept index), how often), preferred names first.
    """
    found: dict[int, int] = {}  # by concept * width + row: half the memory of pairs
    width, served = max(index.values(), default=0) + 1, bytearray(size)
    for (name, concept), times in counted:
        if served[concept] or (pooling == "preferred_token" and len(name.split()) != 1):
            continue
        rows = _known_rows(name, index)
        if rows and pooling.startswith("preferred"):
            served[concept] = 1
            times = 1
        for row in rows:
            key = concept * width + row
            found[key] = found.get(key, 0) + times
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
    *,
    relations: Sequence[str] = ("is_a",),
    pooling: str = "mean",
    names: Iterable[tuple[str, int]] | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    rounds: int = 10,
    normalise: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """`concept_vectors`, moved towards those of related concepts (`concept_graph`, `retrofit`).

    A concept without a known token has no vector: it stays zero and does not count among its neighbours' neighbours.
    Vectors keep their lengths unless `normalise`, so that they can be mixed with the word vectors they come from
    (MedNLI's had length 1, unlike its words).

    Returns: (float32 [C, D], bool [C]: True where no token is known).
    Raises: UserError as the functions named do, and if no two related concepts have vectors.
    """
    vectors, missing = concept_vectors(ontology, vectors_of_words, words, pooling=pooling, names=names)
    edges = concept_graph(ontology, relations).tocoo()
    kept = ~(missing[edges.row] | missing[edges.col])
    graph = bool_graph(edges.row[kept], edges.col[kept], edges.shape)
    graph = moving(graph, f"ontology '{ontology.name}'")
    return retrofit(vectors, graph, alpha=alpha, beta=beta, rounds=rounds, normalise=normalise), missing
