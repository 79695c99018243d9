"""Vectors of concepts from the words of their names."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.knowledge.linking import normalise
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.related import all_names, word_index


def concept_vectors(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    *,
    names: Iterable[tuple[str, int]] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """A vector for each concept: the mean over the distinct tokens of its names.

    Args:
      vectors_of_words: floats [V, D], the rows of `words`.
      names: (name, concept index); None for all names of the ontology.

    Tokens are looked up as they stand, then in lower case, then without hyphens and punctuation, which has no part.

    Returns: (float32 [C, D], bool [C]: True where no token is known and the row is zero).
    Raises: ValueError where vectors and words differ in number.
    """
    if len(vectors_of_words) != len(words):
        raise ValueError(f"{len(vectors_of_words)} vectors for {len(words)} words")
    counted = ((name, 1) for name in all_names(ontology)) if names is None else Counter(names).most_common()
    index = word_index(words)
    pairs = dict.fromkeys((concept, row) for (name, concept), _ in counted for row in _known_rows(name, index))
    concept, token = np.array(list(pairs), np.int64).reshape(-1, 2).T
    total = np.bincount(concept, minlength=len(ontology))
    matrix = csr_array(((1 / total[concept]).astype(np.float32), (concept, token)), shape=(len(ontology), len(words)))
    return matrix @ np.asarray(vectors_of_words, np.float32), total == 0


def _known_rows(name: str, index: dict[str, int]) -> list[int]:
    rows = []
    for token in name.split():
        forms = next(((form,) for form in (token, token.lower()) if form in index), None) or normalise(token)
        rows += [index[form] for form in forms if form in index and any(map(str.isalnum, form))]
    return rows
