"""DisKnE from NLI pairs and a terminology, without the published annotations (Alghanmi et al. 2021, 3.1 and 3.2).

The paper selected and sorted its pairs by hand. Here a hypothesis is used if it names one disease and neither denies
it nor speaks of somebody else; rules over the concepts of the premise give the category. A table of categories made
by hand replaces both.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from mednli_jax.corpora.diskne.benchmark import CATEGORIES, POSITIVE, Benchmark, Positive, assembled
from mednli_jax.corpora.diskne.negatives import COUNT, Kinship, Ranking, index_in, negatives
from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import NLIExample
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import natural_order
from mednli_jax.knowledge.readers.spans import token_offsets
from mednli_jax.textfiles import text_lines

# Prefixes of the types of diseases, findings and signs left out: MeSH's tree numbers, the UMLS's semantic types, SNOMED
# CT's semantic tag, the Disease Ontology's namespace.
DISEASE_TYPES = (
    *(f"C{part:02}" for part in (*range(1, 21), 24, 25, 26)),
    *("F03", "T019", "T020", "T037", "T046", "T047", "T048", "T049", "T190", "T191", "disorder", "disease"),
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
LEFT_OUT = ("not_entailed", "no_disease", "several_diseases", "not_stated", "not_found", "no_category")


def is_disease(ontology: Ontology, index: int) -> bool:
    """Whether a concept is a disease by its types. In a terminology without types every concept counts as one."""
    return not len(ontology.types) or _has_type(ontology, index, DISEASE_TYPES)


def _has_type(ontology, index, prefixes):
    return any(kind.startswith(tuple(prefixes)) for kind in ontology.types[index].split("|"))


def disease_names(ontology: Ontology, concepts: Collection[str]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """(name, all names) of concepts: the preferred name in lower case and natural order, and every synonym.

    Concepts that the ontology lacks are left out.
    """
    index = {concept: at for concept in concepts if (at := index_in(ontology, concept)) is not None}
    wanted = set(index.values())
    every = {at: {ontology.labels[at]} for at in wanted}
    for name, at in ontology.names:
        if at in wanted:
            every[at].add(name)
    names = {concept: (natural_order(ontology.labels[at]) or ontology.labels[at]) for concept, at in index.items()}
    return (
        {concept: name.lower() for concept, name in sorted(names.items())},
        {concept: tuple(sorted(every[index[concept]] | {names[concept]})) for concept in sorted(names)},
    )


def select(
    pairs: Iterable[NLIExample], linker: Linker, categories: Mapping[str, Sequence[str]] | None = None
) -> tuple[list[Positive], Counter]:
    """The positive examples among pairs (section 3.1), and how many pairs were left out for what (LEFT_OUT).

    categories: uid -> categories, made by hand. Pairs without an entry are then left out as `no_category`, and those
    with one are not checked for denial.
    """
    found, left_out = [], Counter()
    for pair in pairs:
        result = _positives(pair, linker, categories)
        if isinstance(result, str):
            left_out[result] += 1
        else:
            found += result
    return found, left_out


def _positives(pair, linker, categories) -> list[Positive] | str:
    """The positive examples of a pair, one for each category, or the reason why there is none."""
    if pair.label != POSITIVE:
        return "not_entailed"
    index_of, mentions = linker.ontology.index_of, linker.link(pair.hypothesis_tokens)
    mentions = [mention for mention in mentions if is_disease(linker.ontology, index_of[mention.concept])]
    if len({mention.concept for mention in mentions}) != 1:
        return "several_diseases" if mentions else "no_disease"
    if categories is None and NOT_STATED & {token.lower() for token in pair.hypothesis_tokens}:
        return "not_stated"
    given = [category_of(pair, mentions[0].concept, linker)] if categories is None else categories.get(pair.uid, ())
    if not any(given):
        return "no_category"
    offsets = token_offsets(pair.hypothesis, pair.hypothesis_tokens)
    start, end = offsets[mentions[0].start][0], offsets[mentions[0].end - 1][1]
    if min(start, end) < 0:  # the tokens do not occur in the sentence
        return "not_found"
    return [Positive(pair, mentions[0].concept, category, start, end) for category in given]


def category_of(pair: NLIExample, disease: str, linker: Linker) -> str:
    """The category of a premise: terminological if it names the disease, else the most frequent type of its concepts
    (EVIDENCE_TYPES); "" if it has none, or the terminology has no types."""
    ontology = linker.ontology
    found = [ontology.index_of[mention.concept] for mention in linker.link(pair.premise_tokens)]
    if ontology.index_of[disease] in found:
        return "terminological"
    if not len(ontology.types):
        return ""
    counts = {kind: sum(_has_type(ontology, at, types) for at in found) for kind, types in EVIDENCE_TYPES.items()}
    kind = max(counts, key=counts.get)
    return kind if counts[kind] else ""


def read_categories(path: Path) -> dict[str, tuple[str, ...]]:
    """uid -> categories, from rows `uid TAB category`, with or without a header; a uid may have several rows.

    Raises: DataError, or DataErrors with the first 20 faults.
    """
    path, problems, found = Path(path), Problems(), {}
    for number, line in text_lines(path, problems):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) == 2 and cells[0] and cells[1].lower() in CATEGORIES:
            found.setdefault(cells[0], []).append(cells[1].lower())
        elif line.strip() and (number, cells) != (1, ["uid", "category"]):
            fix = f"give a uid, a tab and one of {', '.join(CATEGORIES)}"
            problems.add(DataError("is no uid and category", file=path.name, line=number, field="category", fix=fix))
    problems.raise_if_any()
    return {uid: tuple(dict.fromkeys(given)) for uid, given in found.items()}


def build(
    name: str,
    pairs: Iterable[NLIExample],
    linker: Linker,
    ranked: Callable[[Collection[str]], Ranking],
    *,
    wording: str = "name",
    count: int = COUNT,
    categories: Mapping[str, Sequence[str]] | None = None,
    facts: Mapping = MappingProxyType({}),
) -> Benchmark:
    """A benchmark of the positive examples among `pairs`. It does not depend on their order.

    Args:
      linker: of the terminology that names the diseases and says which are related.
      ranked: makes the ranking of negatives for the diseases that were found (`negatives.similar`, `shuffled`).
      categories: as in `select`.
      facts: provenance that goes into the benchmark's.

    Raises: DataError where no pair is a positive example; what `ranked` raises.
    """
    positives, left_out = select(pairs, linker, categories)
    if not positives:
        reasons = ", ".join(f"{left_out[reason]} {reason}" for reason in LEFT_OUT if left_out[reason])
        fix = "give entailed pairs whose hypotheses name diseases of this terminology"
        raise DataError(f"{name}: no pair is a positive example ({reasons or 'there is none'})", fix=fix)
    ontology = linker.ontology
    diseases = sorted({positive.disease for positive in positives})
    names, synonyms = disease_names(ontology, diseases)
    made_up = list(negatives(positives, ranked(diseases), Kinship(ontology), count, synonyms))
    facts = {
        **facts,
        "left_out": {reason: left_out[reason] for reason in LEFT_OUT},
        "short_of_negatives": len(positives) * count - len(made_up),
        "categories": "by rules" if categories is None else "by hand",
        "ontology_sha256": ontology.sha256,
    }
    return assembled(name, positives, made_up, names, synonyms, wording, facts)
