"""Heuristics by which annotators may have written hypotheses, each of which is expected to favour
one class.

Table 5 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune), sections 5 and A.3, for any corpus. Pairs
of a corpus that is not open are named in private files alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache

from scipy import stats

from mednli_jax.artifacts.hypotheses import PAPER, classes_of
from mednli_jax.data.examples import Mention, NLIExample
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import LINK_TYPES
from mednli_jax.nli.analyses import PERSONS, AnalysedPairs
from mednli_jax.nli.features import NEGATIONS
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Grid, Report, Section, p_value, points
from mednli_jax.report.tables import corpus_fields
from mednli_jax.types import Json

SKEWED = 1.2  # times the even share of a class
HYPERNYM, CAUSE, FINE = "hypernym", "probable cause", "everything is fine"
SERVES = {HYPERNYM: "entailment", CAUSE: "neutral", FINE: "contradiction"}
# Types of concepts with causes: diseases, chemicals and drugs, techniques and equipment, psychiatry
# and psychology.
CAUSED = ("C", "D", "E", "F")
# The causes that section A.3 names, as MeSH descriptors; all that lies below one of their tree
# numbers counts. The published code has tree numbers instead: M01.808 C25.775 F03 M01.066 M01.325
# C23.888.144.699. By the table of 2024 these are Smokers, Substance-Related Disorders, Mental
# Disorders, Alcoholics, Ill-Housed Persons and Overweight: the habit of smoking itself
# (F01.145.805) is not among them, nor alcoholism by its own name, which C25.775 holds.
CAUSES = {
    "D012907": "Smoking",
    "D000074285": "Smokers",
    "D019966": "Substance-Related Disorders",
    "D001523": "Mental Disorders",
    "D000437": "Alcoholism",
    "D057229": "Alcoholics",
    "D006703": "Ill-Housed Persons",  # the homeless
    "D050177": "Overweight",  # the obese among them
}
# Words that affirm health. `stable`, `well`, `fine` and `clear` are left out, because they often
# mean something else.
_HEALTH = "afebrile asymptomatic discharged healthy intact normal normally unremarkable"
HEALTH_WORDS = frozenset(_HEALTH.split())
PATIENT = ("patient", "patients")


@dataclass(frozen=True)
class Spread:
    """The classes of the pairs that satisfy a heuristic (Table 5). Without pairs the test and the
    top class are None.

    Args:
      labels: class -> pairs.
      chi_square, p_value: of the test against equal numbers in every class.
      top, share: the class with most of the pairs, and its share (0-1).
    """

    pairs: int
    labels: Mapping[str, int]
    chi_square: float | None = None
    p_value: float | None = None
    top: str | None = None
    share: float | None = None


def heuristics(pairs: AnalysedPairs, options: AnalysisOptions) -> Report:
    """Reports the annotators' heuristics over all splits together."""
    pairs.check_labels("heuristics")
    ontology = pairs.required_source("heuristics").ontology
    labels = [example.label for example in pairs.examples]
    rows = rows_by_heuristic(pairs.examples, *pairs.mentions, ontology)
    spreads = spread(rows, labels)
    notes = _notes(pairs, ontology, rows, labels)
    figures: dict[str, Json] = {
        "splits": list(pairs.splits),
        "pairs": len(labels),
        "knowledge": pairs.knowledge,
        "heuristics": {name: asdict(of_name) for name, of_name in spreads.items()},
    }
    words = [
        f"{len(labels):,} pairs of {', '.join(pairs.splits)}; concepts of {pairs.knowledge}; "
        "chi-square against equal numbers in every class",
        *(f"{name}: expected to serve {SERVES[name]}" for name in spreads),
    ]
    title = f"Heuristics of annotators, {pairs.name} ({PAPER}, Table 5)"
    grid = _grid(pairs.name, spreads, classes_of(labels))
    tops = []
    for name, satisfying in spreads.items():
        tops.append(f"{name} {points(satisfying.share)} % {satisfying.top or ''}".rstrip())
    sections = [Section(title, words, [grid], lead=f"Most frequent class: {', '.join(tops)}")]
    uids = {}
    for name, of_name in rows.items():
        uids[name] = [pairs.examples[row].uid for row in of_name]
    if pairs.is_open:
        return Report({**figures, "uids": uids}, sections, notes=notes)
    return Report(figures, sections, private={"heuristics.json": {"uids": uids}}, notes=notes)


def _notes(
    pairs: AnalysedPairs,
    ontology: Ontology,
    rows: Mapping[str, Sequence[int]],
    labels: Sequence[str],
) -> list[str]:
    notes, linking = [], pairs.corpus.linking
    if CAUSE not in rows:
        notes.append(f"{CAUSE} is left out. Fix: config.knowledge.ontology=mesh")
    elif linking and linking.mentions is None:
        linked = tuple(linking.types or ontology.link_types)
        if missing := [kind for kind in PERSONS if not kind.startswith(linked)]:
            kinds = f"kinds {', '.join(missing)} are not linked"
            notes.append(f"{CAUSE}: {kinds}. Fix: config.knowledge.types")
    of_class = Counter(labels)
    if max(of_class.values()) > SKEWED * len(labels) / len(of_class):
        notes.append(
            "the classes of this corpus are not even, as the chi-square test expects: see its p "
            "with care"
        )
    return notes


def rows_by_heuristic(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    ontology: Ontology,
) -> dict[str, list[int]]:
    """Finds the rows of the examples that satisfy each heuristic, in rising order.

    hypernym: a concept of the hypothesis is more general than one of the premise: one of its tree
      numbers is a proper prefix of one of the other's; in an ontology without tree numbers, it is
      an ancestor by is-a.
    probable cause: the premise has a concept of CAUSED, the hypothesis one of CAUSES or below (in
      MeSH alone).
    everything is fine: both sides have a concept in common, other than the patient, and the
      hypothesis has a negation or a word of health, which is no part of a concept's name ("normal
      pressure hydrocephalus").
    """
    concepts = _Concepts(ontology)
    names = (HYPERNYM, CAUSE, FINE) if concepts.trees else (HYPERNYM, FINE)
    rows: dict[str, list[int]] = {name: [] for name in names}
    pairs = zip(examples, premise_mentions, hypothesis_mentions, strict=True)
    for row, (example, left, right) in enumerate(pairs):
        premise, hypothesis = concepts.concepts_of(left), concepts.concepts_of(right)
        if not hypothesis.isdisjoint(concepts.above_any(premise)):
            rows[HYPERNYM].append(row)
        if concepts.may_have_cause(premise):
            general = hypothesis | concepts.above_any(hypothesis)
            if not general.isdisjoint(CAUSES):
                rows[CAUSE].append(row)
        words = _words_outside(example.hypothesis_tokens, right)
        if (premise & hypothesis) - concepts.patients and words & (NEGATIONS | HEALTH_WORDS):
            rows[FINE].append(row)
    return rows


def _words_outside(tokens: Sequence[str], mentions: Sequence[Mention]) -> set[str]:
    """The words that are no part of a mention."""
    inside: set[int] = set()
    for mention in mentions:
        inside.update(range(mention.start, mention.end))
    return {token.casefold() for place, token in enumerate(tokens) if place not in inside}


class _Concepts:
    """Finds the more general concepts and the tree numbers of concepts; none for a concept that the
    ontology lacks."""

    def __init__(self, ontology: Ontology) -> None:
        self.ontology = ontology
        self.trees: dict[str, list[str]] = {}
        self.owner: dict[str, str] = {}  # tree number -> its concept
        self.above = cache(self._find_above)
        if tuple(ontology.link_types) == LINK_TYPES:  # types are tree numbers
            for concept, types in zip(ontology.ids, ontology.types, strict=True):
                self.trees[concept] = list(filter(None, types.split("|")))
                self.owner |= dict.fromkeys(self.trees[concept], concept)
        labels = zip(ontology.ids, ontology.labels, strict=True)
        self.patients = {concept for concept, label in labels if label.casefold() in PATIENT}

    def concepts_of(self, mentions: Sequence[Mention]) -> set[str]:
        """The concepts of mentions. A cross-reference (a CUI of SNOMED CT) stands for all concepts
        that have it."""
        concepts: set[str] = set()
        for mention in mentions:
            indices = self.ontology.indices(mention.concept)
            concepts.update([self.ontology.ids[i] for i in indices] or [mention.concept])
        return concepts

    def above_any(self, concepts: set[str]) -> set[str]:
        """The concepts that are more general than any of the given ones."""
        return set().union(*map(self.above, concepts))

    def _find_above(self, concept: str) -> set[str]:
        """Finds the more general concepts: owners of the proper prefixes of tree numbers (of
        C14.280.067, C14.280 and C14), or ancestors by is-a."""
        if not self.trees:
            has_concept = concept in self.ontology.index_of
            return set(self.ontology.ancestors(concept)) if has_concept else set()
        above = set()
        for tree in self.trees.get(concept, ()):
            while "." in tree:
                tree = tree.rpartition(".")[0]
                if tree in self.owner:
                    above.add(self.owner[tree])
        return above

    def may_have_cause(self, concepts: set[str]) -> bool:
        for concept in concepts:
            if any(tree.startswith(CAUSED) for tree in self.trees.get(concept, ())):
                return True
        return False


def spread(rows: Mapping[str, Sequence[int]], labels: Sequence[str]) -> dict[str, Spread]:
    """Computes the distribution of each heuristic's rows over the classes that occur."""
    classes = classes_of(labels)
    spreads = {}
    for name, of_name in rows.items():
        of_class = Counter(labels[row] for row in of_name)
        counts = {label: of_class[label] for label in classes}
        if not of_name:
            spreads[name] = Spread(0, counts)
            continue
        test = stats.chisquare(list(counts.values()))
        top = max(classes, key=counts.__getitem__)
        spreads[name] = Spread(
            pairs=len(of_name),
            labels=counts,
            chi_square=float(test.statistic),
            p_value=float(test.pvalue),
            top=top,
            share=counts[top] / len(of_name),
        )
    return spreads


def _grid(corpus: str, spreads: Mapping[str, Spread], classes: Sequence[str]) -> Grid:
    rows: list[tuple[str, ...]] = []
    for name, of_name in spreads.items():
        counts = map("{:,}".format, of_name.labels.values())
        tested = tested_cells(asdict(of_name)) if of_name.pairs else ("-",) * 4
        rows.append((name, f"{of_name.pairs:,}", *counts, *tested))
        if paper := corpus_fields("artifacts", corpus, "tables", "5", name):
            rows.append(("  in the paper", *[""] * (1 + len(classes)), *tested_cells(paper)))
    header = ("heuristic", "pairs", *classes, "chi-square", "p", "top class", "%")
    return Grid("", header, rows)


def tested_cells(figures: Mapping[str, Json]) -> tuple[str, ...]:
    """The cells of a test, of ours or of the paper's."""
    chi_square, p = f"{figures['chi_square']:,.2f}", p_value(figures["p_value"])
    return chi_square, p, figures["top"], points(figures["share"])
