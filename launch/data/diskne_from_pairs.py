"""DisKnE from NLI pairs and a terminology, without the published annotations (Alghanmi et al. 2021,
3.1 and 3.2).

The paper selected and sorted its pairs by hand. Here a hypothesis is used if it names one disease
and neither denies it nor speaks of somebody else; rules over the concepts of the premise give the
category.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mednli_jax.data.examples import NLIExample
from mednli_jax.data.text import token_offsets
from mednli_jax.diskne.data import POSITIVE, Benchmark, Positive, assemble, disease_names
from mednli_jax.diskne.negatives import COUNT, Kinship, Ranking, negatives_of
from mednli_jax.errors import DataError, Problems
from mednli_jax.files.reading import csv_records
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.types import Json

# Prefixes of the types of diseases, findings and signs left out: MeSH's tree numbers, the UMLS's
# semantic types, SNOMED CT's semantic tag, the Disease Ontology's namespace.
DISEASE_TYPES = (
    *(f"C{part:02}" for part in (*range(1, 21), 24, 25, 26)),
    *("F03", "disorder", "disease"),
    *("T019", "T020", "T037", "T046", "T047", "T048", "T049", "T190", "T191"),
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
_DENIED = """no not n't never none neither nor denies denied without negative absent free cannot
    unlikely ruled"""
_OF_OTHERS = "family mother father brother sister son daughter wife husband parents relative"
_UNSURE = "risk may might could possible possibly would prevent prevention screening"
NOT_STATED = frozenset(f"{_DENIED} {_OF_OTHERS} {_UNSURE}".split())
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


def _has_type(ontology: Ontology, index: int, prefixes: tuple[str, ...]) -> bool:
    return any(name.startswith(prefixes) for name in ontology.types[index].split("|"))


def select(pairs: Iterable[NLIExample], linker: Linker) -> tuple[list[Positive], Counter[str]]:
    """Selects the positive examples among pairs (section 3.1), and counts the other pairs by reason
    (LEFT_OUT)."""
    positives = []
    left_out: Counter[str] = Counter()
    for pair in pairs:
        result = _positive(pair, linker)
        if isinstance(result, Positive):
            positives.append(result)
        else:
            left_out[result] += 1
    return positives, left_out


def _positive(pair: NLIExample, linker: Linker) -> Positive | str:
    """The positive example of a pair, or the reason why there is none."""
    if pair.label != POSITIVE:
        return "not_entailed"
    ontology = linker.ontology
    mentions = []
    for mention in linker.link(pair.hypothesis_tokens):
        if is_disease(ontology, ontology.index_of[mention.concept]):
            mentions.append(mention)
    if not mentions:
        return "no_disease"
    first = mentions[0]
    if any(mention.concept != first.concept for mention in mentions):
        return "several_diseases"
    if not NOT_STATED.isdisjoint(map(str.lower, pair.hypothesis_tokens)):
        return "not_stated"
    category = category_of(pair, first.concept, linker)
    if not category:
        return "no_category"
    if first not in linker.link(pair.hypothesis_tokens, inside_tokens=False):
        return "not_found"  # the name is a part of a token
    offsets = token_offsets(pair.hypothesis, pair.hypothesis_tokens)
    start, end = offsets[first.start][0], offsets[first.end - 1][1]
    if min(start, end) < 0:
        return "not_found"
    return Positive(pair, first.concept, category, start, end)


def category_of(pair: NLIExample, disease: str, linker: Linker) -> str:
    """The category of a premise: terminological if it names the disease, else the most frequent
    type of its concepts (EVIDENCE_TYPES); "" if it has none, or the terminology has no types."""
    ontology = linker.ontology
    concepts = [ontology.index_of[mention.concept] for mention in linker.link(pair.premise_tokens)]
    if ontology.index_of[disease] in concepts:
        return "terminological"
    if not len(ontology.types):
        return ""
    best, most = "", 0
    for category, types in EVIDENCE_TYPES.items():
        count = sum(_has_type(ontology, index, types) for index in concepts)
        if count > most:
            best, most = category, count
    return best


def read_vectors(path: Path, concepts: Collection[str]) -> dict[str, np.ndarray]:
    """Reads the vector [D] of each concept from a .csv as cui2vec's (Beam et al. 2020), plain or
    gzipped.

    The file has a header line, then rows of an id and D numbers, quoted or not; the first row of an
    id counts.
    """
    problems = Problems()
    vectors: dict[str, np.ndarray] = {}
    size = None
    for line, (concept, *cells) in csv_records(path, problems):
        size = len(cells) if size is None else size
        if concept in vectors or concept not in concepts:
            continue
        try:
            vector = np.array(cells, np.float64)
        except ValueError:
            vector = np.array([np.nan])
        vectors[concept] = vector
        if len(cells) != size or not np.isfinite(vector).all():
            problem = f"holds something else than {size} finite numbers"
            problems.add(DataError(problem, file=path.name, line=line, fix="copy the file again"))
    problems.raise_if_any()
    return vectors


def vectors_of_ancestors(ontology: Ontology, concepts: Collection[str]) -> dict[str, np.ndarray]:
    """Makes vectors of concepts from the ontology alone: their ancestors, a rarer one counting
    more.

    A concept that stands alone in the graph has none.
    """
    kinship = Kinship(ontology)
    above = {concept: kinship.above(concept) for concept in sorted(concepts)}
    ancestors = sorted(frozenset().union(*above.values()))
    is_above = np.stack([np.isin(ancestors, list(of_concept)) for of_concept in above.values()])
    rows = is_above * np.log((1 + len(above)) / is_above.sum(axis=0))
    vectors = {}
    for row, (concept, ancestors_of_concept) in zip(rows, above.items(), strict=True):
        if len(ancestors_of_concept) > 1:
            vectors[concept] = row
    return vectors


def build(
    name: str,
    pairs: Iterable[NLIExample],
    linker: Linker,
    ranking_of: Callable[[Collection[str]], Ranking],
    *,
    wording: str = "name",
    count: int = COUNT,
    facts: Mapping[str, Json] = MappingProxyType({}),
) -> Benchmark:
    """Builds a benchmark of the positive examples among `pairs`, whose order does not matter.

    Args:
      linker: of the terminology that names the diseases.
      ranking_of: makes the ranking of negatives for the diseases that occur (`similar`,
        `rank_randomly`).
    """
    positives, left_out = select(pairs, linker)
    if not positives:
        reasons = [f"{left_out[reason]} {reason}" for reason in LEFT_OUT if left_out[reason]]
        counts = ", ".join(reasons) or "there is none"
        fix = "give entailed pairs whose hypotheses name diseases of this terminology"
        raise DataError(f"{name}: no pair is a positive example ({counts})", fix=fix)
    ontology = linker.ontology
    diseases = sorted({positive.disease for positive in positives})
    names, synonyms = disease_names(ontology, diseases)
    ranking = ranking_of(diseases)
    chosen = list(negatives_of(positives, ranking, Kinship(ontology), count, synonyms))
    facts = {
        **facts,
        "left_out": {reason: left_out[reason] for reason in LEFT_OUT},
        "short_of_negatives": len(positives) * count - len(chosen),
        "categories": "by rules",
        "ontology_sha256": ontology.sha256,
    }
    return assemble(name, positives, chosen, names, synonyms, wording, facts)
