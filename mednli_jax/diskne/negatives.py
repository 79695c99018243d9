"""The negatives of DisKnE's positive examples: the most similar diseases, or random ones (Alghanmi
et al. 2021, sections 3.2 and 4.3)."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

import numpy as np

from mednli_jax.diskne.data import GROUP_OF, Negative, Positive, premise_key
from mednli_jax.diskne.folds import concepts_in_texts
from mednli_jax.errors import DataError
from mednli_jax.knowledge.ontology import Ontology

COUNT = 10  # negatives of a positive example (section 3.2)
_DIGITS = 9  # of a cosine; the last ones differ between machines

# (positive example, candidates) -> the candidates, best negatives first.
Ranking = Callable[[Positive, Collection[str]], list[str]]


class Kinship:
    """Compares concepts by the is-a graph of an ontology. A concept that the ontology lacks is
    related to itself alone."""

    def __init__(self, ontology: Ontology | None) -> None:
        self.ontology, self.above = ontology, cache(self._above)

    def _above(self, concept: str) -> frozenset[str]:
        """The concept's ancestors and itself, by the ontology's own ids."""
        if self.ontology is None or (index := self.ontology.index(concept)) is None:
            return frozenset({concept})
        return frozenset({self.ontology.ids[index], *self.ontology.ancestors(concept)})

    def related(self, first: str, second: str) -> bool:
        """Whether the two are one concept, or one is an ancestor of the other."""
        above, below = self.above(first), self.above(second)
        return above <= below or below <= above


def similar(vectors: Mapping[str, np.ndarray]) -> Ranking:
    """Ranks by the cosine of vectors [D], equal cosines by id. A disease without a vector is no
    candidate, and its positive examples have no ranking."""
    if not vectors:
        fix = "give vectors of this terminology's concepts, or leave them out"
        raise DataError("none of the diseases has a vector", fix=fix)
    unit_vectors = {}
    for concept, vector in vectors.items():
        vector = np.asarray(vector, np.float64)
        unit_vectors[concept] = vector / max(np.linalg.norm(vector), 1e-12)

    def rank(positive: Positive, candidates: Collection[str]) -> list[str]:
        if positive.disease not in unit_vectors:
            return []
        vector = unit_vectors[positive.disease]
        order = []
        for disease in candidates:
            if disease in unit_vectors:
                order.append((-round(float(vector @ unit_vectors[disease]), _DIGITS), disease))
        return [disease for _, disease in sorted(order)]

    return rank


def rank_randomly(seed: int) -> Ranking:
    """Ranks at random; the order depends on the seed, the pair and its disease alone."""

    def rank(positive: Positive, candidates: Collection[str]) -> list[str]:
        key = f"{seed}\t{positive.pair.uid}\t{positive.disease}"

        def digest(disease: str) -> bytes:
            return hashlib.sha256(f"{key}\t{disease}".encode()).digest()

        return sorted(candidates, key=digest)

    return rank


def negatives_of(
    positives: Sequence[Positive],
    ranking: Ranking,
    kinship: Kinship,
    count: int = COUNT,
    synonyms: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> Iterator[Negative]:
    """Yields, for each positive example, the first `count` of its disease's ranking. Candidates are
    the unrelated diseases that have positive examples of the same group (sections 3.2 and 4.3).

    A disease that might be true is left out: if another positive example claims it on the same
    premise, if the premise has one of its `synonyms`, or if it is related to such a disease.
    """
    diseases_of_group: dict[str, set[str]] = defaultdict(set)
    true_diseases: dict[str, set[str]] = defaultdict(set)
    named = concepts_in_texts({positive.pair.premise for positive in positives}, synonyms)
    for positive in positives:
        premise = positive.pair.premise
        diseases_of_group[GROUP_OF[positive.category]].add(positive.disease)
        true_diseases[premise_key(premise)] |= {positive.disease, *named[premise]}

    @cache
    def candidates(group: str, disease: str) -> list[str]:
        diseases = sorted(diseases_of_group[group])
        return [candidate for candidate in diseases if not kinship.related(candidate, disease)]

    for positive in positives:
        premise, disease = premise_key(positive.pair.premise), positive.disease
        maybe_true = true_diseases[premise] - {disease}
        number = 0
        for candidate in ranking(positive, candidates(GROUP_OF[positive.category], disease)):
            if number == count:
                break
            if not any(kinship.related(candidate, true) for true in maybe_true):
                yield Negative(positive, candidate)
                number += 1
