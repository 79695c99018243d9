"""A probe of reversed entailment: simple premises with a word put in under which a general word
entails a special one.

The forms are whole patterns of sentences. They share no rule with nli.polarity, which writes
training pairs, so that a fault of one is not a fault of the other.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mednli_jax.data.examples import NLIExample
from mednli_jax.nli.sentences import article
from mednli_jax.nli.word_changes import DETERMINERS, Partners

FILE = "negated.jsonl"
LABELS = {"hypernym": "neutral", "hyponym": "entailment"}
# A premise in which a noun follows the verb with an indefinite article: "A man in a hat | is |
# riding | a horse | in a park." The rest of the sentence is the same on both sides.
_SIMPLE = re.compile(
    r"(?P<subject>[A-Z][a-z]*( [a-z-]+){1,7}) (?P<be>is|are) "
    r"(?P<verb>[a-z]+(ing|ed|en)( [a-z]+){0,2}) an? (?P<word>[a-z]+)"
    r"(?P<rest>(?= ?[.,]?$|,| (in|on|at|by|near|with|from|for|to|down|under|while|as)\b).*)",
)
_WITH = re.compile(r"\bwith an? (?P<word>[a-z]+)(?= ?[.,]?$|,| (is|are|in|on|at|by|while)\b)")
# Words that begin another clause, and words that would be a second operator.
_CLAUSES = frozenset(
    ("and", "or", "but", "while", "as", "who", "which", "that", "because", "when", "where", "if")
)
_SECOND = """
    not no n't few never nobody none without every each all any only most more than just both
    nothing neither nor hardly less
"""
_OPERATORS = frozenset(_SECOND.split())
_PLURAL = frozenset(("two", "three", "four", "five", "six", "some", "several", "many", "the"))
WITHOUT = "without"


class Form(NamedTuple):
    """How an operator is put into a simple premise.

    Args:
      be: the auxiliary of the premises.
      pattern: of the sentence up to the noun, with the fields of _SIMPLE; `people` is the subject
        without its determiner.
      determiners: with which the subject begins; empty for any subject.
    """

    operator: str
    be: str
    pattern: str
    determiners: frozenset[str] = frozenset()

    def fits(self, be: str, determiner: str) -> bool:
        is_determiner = not self.determiners or determiner.casefold() in self.determiners
        return be == self.be and is_determiner


FORMS = (
    Form("not", "is", "{subject} is not {verb}"),
    Form("n't", "is", "{subject} isn't {verb}"),
    Form("no", "is", "No {people} is {verb}", DETERMINERS),
    Form("never", "is", "{subject} is never {verb}"),
    Form("nobody", "is", "Nobody is {verb}"),
    Form("few", "are", "Few {people} are {verb}", _PLURAL),
)


class _Frame(NamedTuple):
    """A premise with an operator, cut at the noun after it, which a related word may replace."""

    operator: str
    before: str
    word: str
    after: str

    def with_word(self, word: str) -> str:
        return f"{self.before} {article(word)} {word}{self.after}"


class ProbePair(NamedTuple):
    """A pair of a probe.

    Args:
      example: the source of the premise.
      word, partner: the word of the premise and that of the hypothesis.
      operator: that reverses entailment, "" for none.
    """

    category: str
    label: str
    example: NLIExample
    word: str
    partner: str
    premise: str
    hypothesis: str
    operator: str = ""


def negated_pairs(examples: Iterable[NLIExample], partners: Partners) -> Iterator[ProbePair]:
    """All pairs of the premises, each distinct premise once."""
    premises = {example.premise: example for example in examples}
    for premise, example in premises.items():
        for frame in _frames(premise.strip()):
            for kind, partner in partners.get((frame.word, "n"), ()):
                if kind in LABELS and not re.search(rf"\b{partner}\b", premise):
                    yield ProbePair(
                        f"{frame.operator} {kind}",
                        LABELS[kind],
                        example,
                        frame.word,
                        partner,
                        premise=frame.with_word(frame.word),
                        hypothesis=frame.with_word(partner),
                        operator=frame.operator,
                    )


def _frames(premise: str) -> Iterator[_Frame]:
    """The frame of each operator that the premise takes."""
    if not _OPERATORS.isdisjoint(premise.casefold().split()):
        return
    simple = _SIMPLE.fullmatch(premise)
    if simple and _CLAUSES.isdisjoint((simple["subject"] + " " + simple["verb"]).split()):
        determiner, _, people = simple["subject"].partition(" ")
        for form in FORMS:
            if form.fits(simple["be"], determiner):
                before = form.pattern.format_map(simple.groupdict() | {"people": people})
                yield _Frame(form.operator, before, simple["word"], simple["rest"])
    if noun := _WITH.search(premise):
        before = premise[: noun.start()]
        yield _Frame(WITHOUT, f"{before}{WITHOUT}", noun["word"], premise[noun.end() :])
