"""Three heuristics by which annotators may have written hypotheses, over the concepts of both sentences.

Herlihy & Rudinger 2021 (MedNLI Is Not Immune), sections 5 and A.3: Table 5, for any corpus. Each heuristic is expected
to favour one class. A chi-square test shows whether the pairs that satisfy it are spread evenly over the classes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from scipy import stats

from mednli_jax.data.examples import Mention, NLIExample
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import LINK_TYPES
from mednli_jax.nli.features import NEGATIONS
from mednli_jax.nli.lexical import classes_of

HYPERNYM, CAUSE, FINE = "hypernym", "probable cause", "everything is fine"
SERVES = {HYPERNYM: "entailment", CAUSE: "neutral", FINE: "contradiction"}
# Types of concepts with causes: diseases, chemicals and drugs, techniques and equipment, psychiatry and psychology.
CAUSED = ("C", "D", "E", "F")
# The causes that section A.3 names, as MeSH descriptors; all that lies below one of their tree numbers counts. The
# published code has tree numbers instead: M01.808 C25.775 F03 M01.066 M01.325 C23.888.144.699. By the table of 2024
# these are Smokers, Substance-Related Disorders, Mental Disorders, Alcoholics, Ill-Housed Persons and Overweight: the
# habit of smoking itself (F01.145.805) is not among them, nor alcoholism by its own name, which C25.775 holds.
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
# The persons among the causes. MeSH's reader links these types only if a config names them.
CAUSE_TYPES = ("M01.808", "M01.066", "M01.325")
# Words that affirm health. `stable`, `well`, `fine` and `clear` are left out, because they often mean something else.
_HEALTH = """
    afebrile asymptomatic discharged healthy intact normal normally unremarkable
"""
HEALTH_WORDS = frozenset(_HEALTH.split())
PATIENT = ("patient", "patients")  # preferred names of the concept that nearly every note has


def keeps_tree_numbers(ontology: Ontology) -> bool:
    """Whether the ontology is MeSH, or a table of its layout: its types are tree numbers."""
    return tuple(ontology.link_types) == LINK_TYPES


def satisfied(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    ontology: Ontology,
) -> dict[str, list[int]]:
    """heuristic -> the rows of the examples that satisfy it, in rising order.

    hypernym: a concept of the hypothesis is more general than one of the premise: one of its tree numbers is a proper
      prefix of one of the other's; of an ontology without tree numbers, it is an ancestor by is-a.
    probable cause: the premise has a concept of CAUSED, the hypothesis one of CAUSES or below. MeSH alone; left out for
      another ontology.
    everything is fine: both sides have a concept in common, other than the patient, and the hypothesis has a negation
      or a word of health, which is no part of a concept's name.
    """
    kinds = _Kinds(ontology)
    rules: dict[str, Callable] = {HYPERNYM: kinds.has_hypernym}
    if kinds.trees:
        rules[CAUSE] = kinds.has_cause
    rows = {name: [] for name in (*rules, FINE)}
    for row, (example, left, right) in enumerate(zip(examples, premise_mentions, hypothesis_mentions, strict=True)):
        premise, hypothesis = kinds.named(left), kinds.named(right)
        for name, rule in rules.items():
            if rule(premise, hypothesis):
                rows[name].append(row)
        if (premise & hypothesis) - kinds.patients and is_affirmed(example.hypothesis_tokens, right):
            rows[FINE].append(row)
    return rows


def is_affirmed(tokens: Sequence[str], mentions: Sequence[Mention]) -> bool:
    """Whether a negation or a word of health stands outside of all mentions ("normal pressure hydrocephalus")."""
    inside = {place for mention in mentions for place in range(mention.start, mention.end)}
    words = {token.casefold() for place, token in enumerate(tokens) if place not in inside}
    return not words.isdisjoint(NEGATIONS | HEALTH_WORDS)


class _Kinds:
    """The more general concepts and the tree numbers of a concept; none for a concept that the ontology lacks."""

    def __init__(self, ontology: Ontology):
        self.ontology = ontology
        self.trees = _trees(ontology) if keeps_tree_numbers(ontology) else {}
        self.owner = {tree: concept for concept, trees in self.trees.items() for tree in trees}
        self.patients = {
            concept for concept, label in zip(ontology.ids, ontology.labels, strict=True) if label.casefold() in PATIENT
        }
        self._above: dict[str, set[str]] = {}

    def named(self, mentions: Sequence[Mention]) -> set[str]:
        """The concepts of mentions; a cross-reference (a CUI of SNOMED CT) is all concepts that have it."""
        ids, indices = self.ontology.ids, self.ontology.indices
        named = {mention.concept for mention in mentions}
        return {concept for name in named for concept in [ids[place] for place in indices(name)] or [name]}

    def above(self, concept: str) -> set[str]:
        """The more general concepts."""
        if concept not in self._above:
            if self.trees:
                heads = (head for tree in self.trees.get(concept, ()) for head in _heads(tree))
                self._above[concept] = {self.owner[head] for head in heads if head in self.owner}
            else:
                known = concept in self.ontology.index_of
                self._above[concept] = set(self.ontology.ancestors(concept)) if known else set()
        return self._above[concept]

    def has_hypernym(self, premise: set[str], hypothesis: set[str]) -> bool:
        return any(not hypothesis.isdisjoint(self.above(concept)) for concept in premise)

    def has_cause(self, premise: set[str], hypothesis: set[str]) -> bool:
        if not any(concept in CAUSES or not self.above(concept).isdisjoint(CAUSES) for concept in hypothesis):
            return False
        return any(tree.startswith(CAUSED) for concept in premise for tree in self.trees.get(concept, ()))


def _trees(ontology: Ontology) -> dict[str, tuple[str, ...]]:
    kinds = zip(ontology.ids, ontology.types, strict=True)
    return {concept: tuple(filter(None, types.split("|"))) for concept, types in kinds}


def _heads(tree: str) -> Iterator[str]:
    """The proper prefixes of a tree number: of C14.280.067, C14.280 and C14."""
    while "." in tree:
        tree = tree.rpartition(".")[0]
        yield tree


def spread(rows: dict[str, list[int]], labels: Sequence[str]) -> dict[str, dict]:
    """The distribution of each heuristic's rows over the classes that occur, as JSON values (Table 5).

    Returns {heuristic: {pairs, labels {class: pairs}, chi_square, p_value, top, share}}: chi-square against equal
    numbers in every class; top: the class with most of them (the first one of a tie), share: its share of them (0-1).
    The last four are None if no row satisfies the heuristic.
    Raises: DataError for a single class.
    """
    classes, found = classes_of(labels), {}
    for name, chosen in rows.items():
        of_class = Counter(labels[row] for row in chosen)
        counts = {label: of_class[label] for label in classes}
        figures = {"chi_square": None, "p_value": None, "top": None, "share": None}
        if chosen:
            test = stats.chisquare(list(counts.values()))
            top = max(classes, key=counts.get)
            figures = {"chi_square": float(test.statistic), "p_value": float(test.pvalue)}
            figures |= {"top": top, "share": counts[top] / len(chosen)}
        found[name] = {"pairs": len(chosen), "labels": counts, **figures}
    return found
