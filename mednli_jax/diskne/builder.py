"""DisKnE from NLI pairs and a terminology, without the published annotations (Alghanmi et al. 2021,
3.1 and 3.2).

The paper selected and sorted its pairs by hand. Here a hypothesis is used if it names one disease
and neither denies it nor speaks of somebody else; rules over the concepts of the premise give the
category.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mednli_jax.data.examples import NLIExample
from mednli_jax.diskne.data import (
    GROUP_OF,
    POSITIVE,
    Benchmark,
    Positive,
    assembled,
    disease_names,
    premise_key,
)
from mednli_jax.diskne.folds import mentioned
from mednli_jax.errors import DataError, Problems
from mednli_jax.files import csv_records
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.placing import token_offsets

COUNT = 10  # negatives of a positive example (section 3.2)
_DIGITS = 9  # of a cosine; the last ones differ between machines

# Prefixes of the types of diseases, findings and signs left out: MeSH's tree numbers, the UMLS's
# semantic types, SNOMED CT's semantic tag, the Disease Ontology's namespace.
DISEASE_TYPES = (
    *(f"C{part:02}" for part in (*range(1, 21), 24, 25, 26)),
    *(
        "F03",
        "T019",
        "T020",
        "T037",
        "T046",
        "T047",
        "T048",
        "T049",
        "T190",
        "T191",
        "disorder",
        "disease",
    ),
)
# The category that each type of concept gives; the first one wins a tie.
EVIDENCE_TYPES = {
    "procedures": ("E04", "T061", "procedure"),
    "tests": ("E01", "E05", "T034", "T059", "T060", "T063"),
    "treatments": (
        *("D", "E02", "T109", "T116", "T121", "T125", "T129", "T195", "T200"),
        *("medicinal product", "clinical drug", "product", "substance"),
    ),
    "symptoms": ("C23.888", "T033", "T184", "finding"),
}
# A hypothesis with one of these words does not say that the patient has the disease.
_DENIED = "no not n't never none neither nor denies denied without negative absent free cannot unlikely ruled"
_OTHERS = "family mother father brother sister son daughter wife husband parents relative"
_UNSURE = "risk may might could possible possibly would prevent prevention screening"
NOT_STATED = frozenset(f"{_DENIED} {_OTHERS} {_UNSURE}".split())
LEFT_OUT = (
    "not_entailed",
    "no_disease",
    "several_diseases",
    "not_stated",
    "not_found",
    "no_category",
)


def is_disease(ontology: Ontology, index: int) -> bool:
    """Whether a concept is a disease by its types. In a terminology without types every concept
    counts as one."""
    return not len(ontology.types) or _has_type(ontology, index, DISEASE_TYPES)


def _has_type(ontology, index, prefixes):
    return any(kind.startswith(tuple(prefixes)) for kind in ontology.types[index].split("|"))


def select(pairs: Iterable[NLIExample], linker: Linker) -> tuple[list[Positive], Counter]:
    """The positive examples among pairs (section 3.1), and how many pairs were left out for what
    (LEFT_OUT)."""
    results = [_positive(pair, linker) for pair in pairs]
    left_out = Counter(result for result in results if isinstance(result, str))
    return [result for result in results if isinstance(result, Positive)], left_out


def _positive(pair, linker) -> Positive | str:
    """The positive example of a pair, or the reason why there is none."""
    if pair.label != POSITIVE:
        return "not_entailed"
    index_of, mentions = linker.ontology.index_of, linker.link(pair.hypothesis_tokens)
    mentions = [
        mention for mention in mentions if is_disease(linker.ontology, index_of[mention.concept])
    ]
    if len({mention.concept for mention in mentions}) != 1:
        return "several_diseases" if mentions else "no_disease"
    if NOT_STATED & {token.lower() for token in pair.hypothesis_tokens}:
        return "not_stated"
    category = category_of(pair, mentions[0].concept, linker)
    if not category:
        return "no_category"
    if mentions[0] not in linker.link(pair.hypothesis_tokens, inside_tokens=False):
        return "not_found"  # the name is a part of a token
    offsets = token_offsets(pair.hypothesis, pair.hypothesis_tokens)
    start, end = offsets[mentions[0].start][0], offsets[mentions[0].end - 1][1]
    if min(start, end) < 0:
        return "not_found"
    return Positive(pair, mentions[0].concept, category, start, end)


def category_of(pair: NLIExample, disease: str, linker: Linker) -> str:
    """The category of a premise: terminological if it names the disease, else the most frequent
    type of its concepts (EVIDENCE_TYPES); "" if it has none, or the terminology has no types."""
    ontology = linker.ontology
    found = [ontology.index_of[mention.concept] for mention in linker.link(pair.premise_tokens)]
    if ontology.index_of[disease] in found:
        return "terminological"
    if not len(ontology.types):
        return ""
    counts = {
        kind: sum(_has_type(ontology, at, types) for at in found)
        for kind, types in EVIDENCE_TYPES.items()
    }
    kind = max(counts, key=counts.get)
    return kind if counts[kind] else ""


# (positive example, candidates) -> the candidates, best negatives first.
Ranking = Callable[[Positive, Collection[str]], list[str]]


class Kinship:
    """Which concepts an ontology has one above the other; concepts that it lacks are nobody's
    kin."""

    def __init__(self, ontology: Ontology | None) -> None:
        self.ontology, self.above = ontology, cache(self._above)

    def _above(self, concept: str) -> frozenset[str]:
        """The concept's ancestors and itself, by the ontology's own ids."""
        if self.ontology is None or (index := self.ontology.index(concept)) is None:
            return frozenset({concept})
        return frozenset({self.ontology.ids[index], *self.ontology.ancestors(concept)})

    def related(self, one: str, other: str) -> bool:
        """Whether the two are one concept, or one is an ancestor of the other."""
        above, below = self.above(one), self.above(other)
        return above <= below or below <= above


def similar(vectors: Mapping[str, np.ndarray]) -> Ranking:
    """Ranks by the cosine of vectors [D], equals by id; what has no vector is no candidate and has
    none."""
    if not vectors:
        fix = "give vectors of this terminology's concepts, or leave them out"
        raise DataError("none of the diseases has a vector", fix=fix)
    vectors = {concept: np.asarray(vector, np.float64) for concept, vector in vectors.items()}
    units = {
        concept: vector / max(np.linalg.norm(vector), 1e-12) for concept, vector in vectors.items()
    }

    def rank(positive, candidates):
        vector = units.get(positive.disease)
        if vector is None:
            return []
        order = [
            (-round(float(vector @ units[other]), _DIGITS), other)
            for other in candidates
            if other in units
        ]
        return [other for _, other in sorted(order)]

    return rank


def shuffled(seed: int) -> Ranking:
    """Ranks by chance, anew for each example: from the seed, the pair and the two diseases
    alone."""

    def rank(positive, candidates):
        key = f"{seed}\t{positive.pair.uid}\t{positive.disease}"
        return sorted(
            candidates, key=lambda other: hashlib.sha256(f"{key}\t{other}".encode()).digest()
        )

    return rank


def negatives(
    positives: Sequence[Positive],
    ranking: Ranking,
    kinship: Kinship,
    count: int = COUNT,
    synonyms: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> Iterator[tuple[Positive, str]]:
    """(positive example, other disease): for each positive example the first `count` of its
    disease's ranking, among the diseases of positive examples of its group that are not its kin
    (sections 3.2 and 4.3).

    Passed over are diseases that another positive example claims on the same premise, those of
    which one of `synonyms` stands in the premise, and the kin of either: they might be true.
    """
    of_group, of_premise = defaultdict(set), defaultdict(set)
    named = mentioned({positive.pair.premise for positive in positives}, synonyms)
    for positive in positives:
        of_group[GROUP_OF[positive.category]].add(positive.disease)
        of_premise[premise_key(positive.pair.premise)] |= {
            positive.disease,
            *named[positive.pair.premise],
        }
    candidates = {}
    for positive in positives:
        key = GROUP_OF[positive.category], positive.disease
        if key not in candidates:
            others = sorted(of_group[key[0]])
            candidates[key] = [
                other for other in others if not kinship.related(other, positive.disease)
            ]
        true = of_premise[premise_key(positive.pair.premise)] - {positive.disease}
        ranked = ranking(positive, candidates[key])
        chosen = (other for other in ranked if not any(kinship.related(other, one) for one in true))
        yield from ((positive, other) for other in islice(chosen, count))


def read_vectors(path: Path, concepts: Collection[str]) -> dict[str, np.ndarray]:
    """concept -> its vector [D] in a .csv as cui2vec's (Beam et al. 2020), plain or gzipped.

    The file has a header line, then rows of an id and D numbers, quoted or not; the first row of an
    id counts.
    """
    found, problems, size = {}, Problems(), None
    for number, (concept, *cells) in csv_records(path, problems):
        size = len(cells) if size is None else size
        if concept in found or concept not in concepts:
            continue
        try:
            found[concept] = np.array(cells, np.float64)
        except ValueError:
            found[concept] = np.array([np.nan])
        if len(cells) != size or not np.isfinite(found[concept]).all():
            problem = f"holds something else than {size} finite numbers"
            problems.add(DataError(problem, file=path.name, line=number, fix="copy the file again"))
    problems.raise_if_any()
    return found


def vectors_of_ancestors(ontology: Ontology, concepts: Collection[str]) -> dict[str, np.ndarray]:
    """Vectors of concepts from the ontology alone: their ancestors, a rarer one counting more.

    A concept that stands alone in the graph has none.
    """
    kinship = Kinship(ontology)
    above = {concept: kinship.above(concept) for concept in sorted(concepts)}
    every = sorted(frozenset().union(*above.values()))
    has = np.array([[ancestor in found for ancestor in every] for found in above.values()], float)
    vectors = has * np.log((1 + len(above)) / has.sum(axis=0))
    return {
        concept: row
        for (concept, found), row in zip(above.items(), vectors, strict=True)
        if len(found) > 1
    }


def build(
    name: str,
    pairs: Iterable[NLIExample],
    linker: Linker,
    ranked: Callable[[Collection[str]], Ranking],
    *,
    wording: str = "name",
    count: int = COUNT,
    facts: Mapping = MappingProxyType({}),
) -> Benchmark:
    """A benchmark of the positive examples among `pairs`. It does not depend on their order.

    Args:
      linker: of the terminology that names the diseases.
      ranked: makes the ranking of negatives for the diseases that were found (`similar`, `shuffled`).
    """
    positives, left_out = select(pairs, linker)
    if not positives:
        reasons = ", ".join(
            f"{left_out[reason]} {reason}" for reason in LEFT_OUT if left_out[reason]
        )
        fix = "give entailed pairs whose hypotheses name diseases of this terminology"
        raise DataError(
            f"{name}: no pair is a positive example ({reasons or 'there is none'})", fix=fix
        )
    ontology = linker.ontology
    diseases = sorted({positive.disease for positive in positives})
    names, synonyms = disease_names(ontology, diseases)
    made_up = list(negatives(positives, ranked(diseases), Kinship(ontology), count, synonyms))
    facts = {
        **facts,
        "left_out": {reason: left_out[reason] for reason in LEFT_OUT},
        "short_of_negatives": len(positives) * count - len(made_up),
        "categories": "by rules",
        "ontology_sha256": ontology.sha256,
    }
    return assembled(name, positives, made_up, names, synonyms, wording, facts)
