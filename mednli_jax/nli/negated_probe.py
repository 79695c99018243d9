"""A probe of reversed entailment: simple premises with a word put in under which a general word
entails a special one.

The forms are whole patterns of sentences. They share no rule with nli.polarity, which writes
training pairs, so that a fault of one is not a fault of the other.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mednli_jax.data.examples import NLIExample
from mednli_jax.nli.word_changes import Partners

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
_PLURAL = re.compile("(Two|Three|Four|Five|Six|Some|Several|Many|The) ")
WITHOUT = "without"


class Form(NamedTuple):
    """How an operator is put into a simple premise.

    be: the auxiliary of the premises. pattern: of the sentence up to the noun, with the fields of
      _SIMPLE.
    """

    operator: str
    be: str
    pattern: str


FORMS = (
    Form("not", "is", "{subject} is not {verb}"),
    Form("n't", "is", "{subject} isn't {verb}"),
    Form("no", "is", "No {people} is {verb}"),
    Form("never", "is", "{subject} is never {verb}"),
    Form("nobody", "is", "Nobody is {verb}"),
    Form("few", "are", "Few {people} are {verb}"),
)


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
        for operator, before, word, after in _frames(premise.strip()):
            for kind, partner in partners.get((word, "n"), ()):
                if kind in LABELS and not re.search(rf"\b{partner}\b", premise):
                    yield ProbePair(
                        f"{operator} {kind}",
                        LABELS[kind],
                        example,
                        word,
                        partner,
                        premise=f"{before} {_with_article(word)}{after}",
                        hypothesis=f"{before} {_with_article(partner)}{after}",
                        operator=operator,
                    )


def _frames(premise: str) -> Iterator[tuple[str, str, str, str]]:
    """(operator, sentence up to a noun, the noun, the rest) of each operator that the premise
    takes."""
    if not _OPERATORS.isdisjoint(premise.casefold().split()):
        return
    simple = _SIMPLE.fullmatch(premise)
    if simple and _CLAUSES.isdisjoint((simple["subject"] + " " + simple["verb"]).split()):
        people = simple["subject"].partition(" ")[2]
        for form in FORMS:
            is_plural = _PLURAL.match(premise) is not None
            if form.be == simple["be"] and is_plural >= (form.operator == "few"):
                before = form.pattern.format_map(simple.groupdict() | {"people": people})
                yield form.operator, before, simple["word"], simple["rest"]
    if noun := _WITH.search(premise):
        before = premise[: noun.start()]
        yield WITHOUT, f"{before}{WITHOUT}", noun["word"], premise[noun.end() :]


def _with_article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
