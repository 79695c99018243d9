"""The negatives of DisKnE: for each disease the most similar others, or random ones (Alghanmi et al. 2021, 3.2, 4.3).

Candidates are the diseases of other positive examples of the same group, less the ancestors and descendants of the
disease, which would not invalidate the entailment.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mednli_jax.corpora.diskne.benchmark import GROUP_OF, Positive, premise_key
from mednli_jax.corpora.diskne.folds import mentioned
from mednli_jax.errors import DataError, Problems
from mednli_jax.knowledge.concept_vectors import concept_vectors
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.vector_rows import EXACT
from mednli_jax.knowledge.vectors import load_vectors
from mednli_jax.knowledge.vectors_files import read_head, vector_paths
from mednli_jax.text import SPECIALS, treebank_tokens
from mednli_jax.textfiles import byte_lines

COUNT = 10  # negatives of a positive example (section 3.2)
_DIGITS = 9  # of a cosine that count: the last ones differ between machines, and would decide between equals

# (positive example, candidates) -> the candidates, best negatives first.
Ranking = Callable[[Positive, Collection[str]], list[str]]


class Kinship:
    """Which concepts an ontology has one above the other; concepts that it lacks are nobody's kin."""

    def __init__(self, ontology: Ontology | None):
        self.ontology, self._above = ontology, {}

    def above(self, concept: str) -> frozenset[str]:
        """The concept's ancestors and itself, by the ontology's own ids."""
        if concept not in self._above:
            known = self.ontology is not None and index_in(self.ontology, concept) is not None
            concept_id = self.ontology.ids[index_in(self.ontology, concept)] if known else concept
            self._above[concept] = frozenset({concept_id, *(self.ontology.ancestors(concept_id) if known else ())})
        return self._above[concept]

    def related(self, one: str, other: str) -> bool:
        """Whether the two are one concept, or one is an ancestor of the other."""
        above, below = self.above(one), self.above(other)
        return above <= below or below <= above


def index_in(ontology: Ontology, concept: str) -> int | None:
    """The index of a concept by its id or by a cross-reference that no other concept has; None where it has neither."""
    return ontology.index_of.get(concept, ontology.index_of_reference.get(concept))


# -- rankings ----------------------------------------------------------------------------------------------------------


def similar(vectors: Mapping[str, np.ndarray]) -> Ranking:
    """Ranks by the cosine of vectors [D], equals by id; what has no vector is no candidate and has none.

    Raises: DataError where `vectors` is empty.
    """
    if not vectors:
        fix = "give vectors of this terminology's concepts, or leave them out"
        raise DataError("none of the diseases has a vector", fix=fix)
    vectors = {concept: np.asarray(vector, np.float64) for concept, vector in vectors.items()}
    units = {concept: vector / max(np.linalg.norm(vector), 1e-12) for concept, vector in vectors.items()}

    def rank(positive, candidates):
        vector = units.get(positive.disease)
        if vector is None:
            return []
        order = [(-round(float(vector @ units[other]), _DIGITS), other) for other in candidates if other in units]
        return [other for _, other in sorted(order)]

    return rank


def shuffled(seed: int) -> Ranking:
    """Ranks by chance, anew for each example: from the seed, the pair and the two diseases alone."""

    def rank(positive, candidates):
        key = f"{seed}\t{positive.pair.uid}\t{positive.disease}"
        return sorted(candidates, key=lambda other: hashlib.sha256(f"{key}\t{other}".encode()).digest())

    return rank


def negatives(
    positives: Sequence[Positive],
    ranking: Ranking,
    kinship: Kinship,
    count: int = COUNT,
    synonyms: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> Iterator[tuple[Positive, str]]:
    """(positive example, other disease): for each positive example the first `count` of its disease's ranking.

    A disease that another positive example claims on the same premise, or of which one of `synonyms` stands in the
    premise, and the kin of either, are passed over for the next: they might be no negatives.
    """
    of_group, of_premise = defaultdict(set), defaultdict(set)
    named = mentioned({positive.pair.premise for positive in positives}, synonyms)
    for positive in positives:
        of_group[GROUP_OF[positive.category]].add(positive.disease)
        of_premise[premise_key(positive.pair.premise)] |= {positive.disease, *named[positive.pair.premise]}
    candidates = {}
    for positive in positives:
        key = GROUP_OF[positive.category], positive.disease
        if key not in candidates:
            others = sorted(of_group[key[0]])
            candidates[key] = [other for other in others if not kinship.related(other, positive.disease)]
        true = of_premise[premise_key(positive.pair.premise)] - {positive.disease}
        ranked = ranking(positive, candidates[key])
        chosen = (other for other in ranked if not any(kinship.related(other, one) for one in true))
        yield from ((positive, other) for other in islice(chosen, count))


# -- vectors of concepts -----------------------------------------------------------------------------------------------


def read_vectors(path: Path, concepts: Collection[str]) -> dict[str, np.ndarray]:
    """The vectors that a file has of concepts: concept -> float [D].

    path: a .csv as cui2vec's (Beam et al. 2020: a header line, then rows of an id and D numbers, quoted or not, plain
    or gzipped; the first row of an id counts), or any file that `load_vectors` reads, with ids for words.
    Raises: DataError, or DataErrors with the first 20 faults; as load_vectors does.
    """
    path = vector_paths(path)[0]
    if not path.name.removesuffix(".gz").endswith(".csv"):
        words = (*SPECIALS, *sorted(concepts))
        found = load_vectors(path, words, dim=read_head(path).dim, seed=0)
        return {
            word: found.matrix[row]
            for row, word in enumerate(words)
            if row >= len(SPECIALS) and found.routes[0][row] == EXACT
        }
    return _read_csv(path, {concept.encode(): concept for concept in concepts})


def _read_csv(path, wanted):
    found, problems, size = {}, Problems(), None
    for number, line in byte_lines(path):
        key, _, rest = line.partition(b",")
        columns, concept, problem = rest.count(b",") + 1, wanted.get(key.strip(b'" ')), None
        if number == 1:
            size = columns
        elif line.strip() and columns != size:
            problem = f"{columns} numbers, the header names {size}"
        elif concept is not None and concept not in found:
            vector = _numbers(rest)
            if vector is None:
                problem = "holds something else than finite numbers"
            else:
                found[concept] = vector
        if problem:
            problems.add(DataError(problem, file=path.name, line=number, fix="copy the file again"))
    problems.raise_if_any()
    return found


def _numbers(cells):
    try:
        vector = np.array(cells.replace(b'"', b"").split(b","), np.float64)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None


def vectors_of_names(ontology: Ontology, concepts: Collection[str], path: Path) -> dict[str, np.ndarray]:
    """Vectors of concepts from a file of word vectors: the mean over the words of their names."""
    index = {concept: at for concept in sorted(concepts) if (at := index_in(ontology, concept)) is not None}
    wanted, names = set(index.values()), [(ontology.labels[at], at) for at in index.values()]
    names += [(name, at) for name, at in ontology.names if at in wanted]
    words = sorted({form for name, _ in names for token in treebank_tokens(name) for form in (token, token.lower())})
    path = vector_paths(path)[0]
    vocabulary, matrix = load_vectors(path, (*SPECIALS, *words), dim=read_head(path).dim, seed=0).known()
    known = list(vocabulary.words)
    vectors, missing = concept_vectors(ontology, matrix, known, names=names)
    return {concept: vectors[at] for concept, at in index.items() if not missing[at]}


def vectors_of_ancestors(ontology: Ontology, concepts: Collection[str]) -> dict[str, np.ndarray]:
    """Vectors of concepts from the ontology alone: their ancestors, a rarer one counting more.

    For want of vectors learned from text. A concept that stands alone in the graph has none.
    """
    kinship = Kinship(ontology)
    above = {concept: kinship.above(concept) for concept in sorted(concepts)}
    every = sorted(frozenset().union(*above.values()))
    place = {ancestor: at for at, ancestor in enumerate(every)}
    shared = np.zeros(len(every))
    for found in above.values():
        shared[[place[ancestor] for ancestor in found]] += 1
    weight = np.log((1 + len(above)) / shared)
    vectors = {}
    for concept, found in above.items():
        vector = np.zeros(len(every))
        rows = [place[ancestor] for ancestor in found]
        vector[rows] = weight[rows]
        if len(found) > 1:
            vectors[concept] = vector
    return vectors
