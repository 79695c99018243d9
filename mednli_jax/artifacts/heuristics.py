"""Heuristics by which annotators may have written hypotheses, each of which is expected to favour
one class.

Table 5 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune), sections 5 and A.3, for any corpus. Pairs
of a corpus that is not open are named in private files alone.
"""

from collections import Counter
from collections.abc import Sequence

from scipy import stats

from mednli_jax.artifacts.hypotheses import PAPER, classes_of
from mednli_jax.data.examples import Mention, NLIExample
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import LINK_TYPES
from mednli_jax.nli.analyses import PERSONS, Pairs
from mednli_jax.nli.features import NEGATIONS
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Grid, Report, Section, p_value, points
from mednli_jax.report.tables import of_corpus

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


def heuristics(pairs: Pairs, options: AnalysisOptions) -> Report:
    """The annotators' heuristics over all splits together."""
    pairs.needs_knowledge("heuristics")
    labels = [example.label for example in pairs.examples]
    rows = satisfied(pairs.examples, *pairs.mentions, pairs.corpus.ontology)
    found = spread(rows, labels)
    notes = _heuristic_notes(pairs, found, labels)
    given = {
        "splits": list(pairs.splits),
        "pairs": len(labels),
        "knowledge": pairs.knowledge,
        "heuristics": found,
    }
    uids = {name: [pairs.examples[row].uid for row in chosen] for name, chosen in rows.items()}
    sections = [_heuristic_section(pairs.name, given, classes_of(labels))]
    if pairs.is_open:
        return Report({**given, "uids": uids}, sections, notes=notes)
    return Report(given, sections, private={"heuristics.json": {"uids": uids}}, notes=notes)


def _heuristic_notes(pairs, found, labels) -> list[str]:
    notes, linking = [], pairs.corpus.linking
    if CAUSE not in found:
        notes.append(f"{CAUSE} is left out. Fix: --config.knowledge.ontology=mesh")
    elif linking.mentions is None:
        types = tuple(linking.types or pairs.corpus.ontology.link_types)
        if missing := [kind for kind in PERSONS if not kind.startswith(types)]:
            notes.append(
                f"{CAUSE}: kinds {', '.join(missing)} are not linked. Fix: --config.knowledge.types"
            )
    if max(map(labels.count, set(labels))) > SKEWED * len(labels) / len(set(labels)):
        notes.append(
            "the classes of this corpus are not even, as the chi-square test expects: see its p with care"
        )
    return notes


def satisfied(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    ontology: Ontology,
) -> dict[str, list[int]]:
    """heuristic -> the rows of the examples that satisfy it, in rising order.

    hypernym: a concept of the hypothesis is more general than one of the premise: one of its tree
    numbers is a proper
      prefix of one of the other's; of an ontology without tree numbers, it is an ancestor by is-a.
    probable cause: the premise has a concept of CAUSED, the hypothesis one of CAUSES or below (in
    MeSH alone). everything is fine: both sides have a concept in common, other than the patient,
    and the hypothesis has a negation
      or a word of health, which is no part of a concept's name ("normal pressure hydrocephalus").
    """
    kinds = _Kinds(ontology)
    rows = {name: [] for name in (HYPERNYM, *([CAUSE] if kinds.trees else ()), FINE)}
    for row, (example, left, right) in enumerate(
        zip(examples, premise_mentions, hypothesis_mentions, strict=True)
    ):
        premise, hypothesis = kinds.named(left), kinds.named(right)
        if any(not hypothesis.isdisjoint(kinds.above(concept)) for concept in premise):
            rows[HYPERNYM].append(row)
        caused = any(
            tree.startswith(CAUSED) for concept in premise for tree in kinds.trees.get(concept, ())
        )
        if caused and any(
            not CAUSES.keys().isdisjoint((concept, *kinds.above(concept))) for concept in hypothesis
        ):
            rows[CAUSE].append(row)
        inside = {place for mention in right for place in range(mention.start, mention.end)}
        words = {
            token.casefold()
            for place, token in enumerate(example.hypothesis_tokens)
            if place not in inside
        }
        if (premise & hypothesis) - kinds.patients and words & (NEGATIONS | HEALTH_WORDS):
            rows[FINE].append(row)
    return rows


class _Kinds:
    """The more general concepts and the tree numbers of a concept; none for a concept that the
    ontology lacks."""

    def __init__(self, ontology: Ontology):
        self.ontology, self._above, self.trees = ontology, {}, {}
        if tuple(ontology.link_types) == LINK_TYPES:  # types are tree numbers
            kinds = zip(ontology.ids, ontology.types, strict=True)
            self.trees = {
                concept: tuple(filter(None, types.split("|"))) for concept, types in kinds
            }
        self.owner = {tree: concept for concept, trees in self.trees.items() for tree in trees}
        named = zip(ontology.ids, ontology.labels, strict=True)
        self.patients = {concept for concept, label in named if label.casefold() in PATIENT}

    def named(self, mentions: Sequence[Mention]) -> set[str]:
        """The concepts of mentions; a cross-reference (a CUI of SNOMED CT) is all concepts that
        have it."""
        ids, indices = self.ontology.ids, self.ontology.indices
        named = {mention.concept for mention in mentions}
        return {
            concept
            for name in named
            for concept in [ids[place] for place in indices(name)] or [name]
        }

    def above(self, concept: str) -> set[str]:
        """The more general concepts."""
        if concept not in self._above:
            if self.trees:
                # The proper prefixes of a tree number: of C14.280.067, C14.280 and C14.
                parts = (tree.split(".") for tree in self.trees.get(concept, ()))
                heads = {".".join(of[:length]) for of in parts for length in range(1, len(of))}
                self._above[concept] = {self.owner[head] for head in heads & self.owner.keys()}
            else:
                known = concept in self.ontology.index_of
                self._above[concept] = set(self.ontology.ancestors(concept)) if known else set()
        return self._above[concept]


def spread(rows: dict[str, list[int]], labels: Sequence[str]) -> dict[str, dict]:
    """The distribution of each heuristic's rows over the classes that occur, as JSON values (Table
    5).

    Returns {heuristic: {pairs, labels {class: pairs}, chi_square, p_value, top, share}}: chi-square
    against equal numbers in every class; top: the class with most of them, share: its share (0-1).
    """
    classes, found = classes_of(labels), {}
    for name, chosen in rows.items():
        of_class = Counter(labels[row] for row in chosen)
        counts = {label: of_class[label] for label in classes}
        figures = dict.fromkeys(("chi_square", "p_value", "top", "share"))
        if chosen:
            test = stats.chisquare(list(counts.values()))
            top = max(classes, key=counts.get)
            figures = {"chi_square": float(test.statistic), "p_value": float(test.pvalue)}
            figures |= {"top": top, "share": counts[top] / len(chosen)}
        found[name] = {"pairs": len(chosen), "labels": counts, **figures}
    return found


def _heuristic_section(corpus, given, classes) -> Section:
    found, rows = given["heuristics"], []
    words = [
        f"{given['pairs']:,} pairs of {', '.join(given['splits'])}; concepts of {given['knowledge']}; chi-square "
        "against equal numbers in every class",
        *(f"{name}: expected to serve {SERVES[name]}" for name in found),
    ]
    for name, figures in found.items():
        counts = [f"{count:,}" for count in figures["labels"].values()]
        rows.append(
            (
                name,
                f"{figures['pairs']:,}",
                *counts,
                *(_tested(figures) if figures["top"] else ("-",) * 4),
            )
        )
        if paper := of_corpus("artifacts", corpus, "tables", "5", name):
            rows.append(("  in the paper", *[""] * (1 + len(classes)), *_tested(paper)))
    grid = Grid("", ("heuristic", "pairs", *classes, "chi-square", "p", "top class", "%"), rows)
    return Section(f"Heuristics of annotators, {corpus} ({PAPER}, Table 5)", words, [grid])


def _tested(found):
    return (
        f"{found['chi_square']:,.2f}",
        p_value(found["p_value"]),
        found["top"],
        points(found["share"]),
    )
