"""Natural logic: whether a word of a sentence may become more general, or more special, so that the
sentence entails the changed one.

"A dog runs" entails "an animal runs": the direction of "dog" is UP. "A man has no dog" entails "a
man has no poodle": the direction of "dog" after "no" is DOWN. Sources of the tables:
  [M] MacCartney & Manning 2007, Natural Logic for Textual Inference, section 3
  [B] Barwise & Cooper 1981, Generalized Quantifiers and Natural Language, section 4
  [C] Chapman et al. 2001, A Simple Algorithm for Identifying Negated Findings (NegEx)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mednli_jax.knowledge.words import FUNCTION_WORDS

FORMAT = 2  # raised when a sentence gets other directions
UP, DOWN, UNSURE = "up", "down", "unsure"


class Operator(NamedTuple):
    """A word that gives directions to the words after it in its clause.

    Args:
      phrase: the direction of the noun phrase after the operator.
      rest: the direction of what follows this phrase in the clause.
      needs_start: `rest` is used only if the operator begins the clause. In "No man in a hat runs"
        it is DOWN for "runs"; in "A man with no hat runs" it is not.
    """

    phrase: str
    rest: str
    needs_start: bool


OPERATORS = {
    "not": Operator(DOWN, DOWN, needs_start=False),  # [M] negation reverses its scope
    "n't": Operator(DOWN, DOWN, needs_start=False),  # [M]
    "never": Operator(DOWN, DOWN, needs_start=False),  # [M] an adverb of negation
    "nobody": Operator(DOWN, DOWN, needs_start=True),  # [M] no person
    "no": Operator(DOWN, DOWN, needs_start=True),  # [M] down in both arguments
    # [M] down in the scope; its noun phrase is treated like that of "no"
    "few": Operator(DOWN, DOWN, needs_start=True),
    "without": Operator(DOWN, UNSURE, needs_start=False),  # [M] where its object ends is not known
    "every": Operator(DOWN, UP, needs_start=True),  # [M] down in the restrictor, up in the scope
    "each": Operator(DOWN, UP, needs_start=True),  # [B] as every
    "all": Operator(DOWN, UP, needs_start=True),  # [M] as every
    "any": Operator(DOWN, UP, needs_start=True),  # [B] of free choice, as every
}
INSERTED = ("no", "not", "n't")  # the operators that changes.WordChanges.negate puts in

# Phrases with a word of OPERATORS that reverse nothing.
_IDIOMS = (
    "a few, quite a few, "  # [B] some
    "each other, one after another, "  # pronouns
    "all over, all around, all along, all the way, all day, all of a sudden, "  # adverbs
    "at all, after all, all in all"  # adverbs
)
# Phrases that look like a negation, and of which nothing is known.
_PSEUDO = (
    "no increase, no change, no further, not cause, not drain, not extend, not certain, "  # [C]
    "gram negative, without difficulty, "  # [C]
    "not only, not just, not even, not necessarily, not always, not yet, "  # more is said
    "no longer, no more, few more, any more, "  # comparisons
    "no doubt, no matter, no wonder, no one, without doubt"  # fixed phrases
)
# Words that leave a whole sentence without a direction.
_UNCLEAR = (
    "most only exactly just half least almost nearly "  # [B] not monotone
    "than more less fewer "  # [M] comparatives
    "best worst "  # [M] superlatives
    "if unless whether "  # conditions
    "except but "  # exceptions
    "neither nor none nothing nowhere "  # operators without a rule
    "hardly barely rarely seldom scarcely "  # operators without a rule
    "deny denies denied denying refuse refuses refused refusing doubt doubts "  # [M] implicatives
    "fail fails failed lack lacks lacking avoid avoids avoiding "  # [M] implicatives
    "prevent prevents stop stops forbid forbids "  # [M] implicatives
    "negative unlikely absent free cannot"  # [C]
)
# [M] The ending of all superlatives but best and worst: "the tallest man" is neither upward nor
# downward.
SUPERLATIVE = "est"
# [M] Under a negation "two dogs" may be at least two or exactly two.
_NUMBERS = "two three four five six seven eight nine ten dozen several many both"
_QUESTIONS = "who what where when why how which whose"
# Words that end a clause, and with it the scope of an operator.
_CLAUSE_ENDS = """
    and or but while as because although though when where who whom whose which that so if since
    before after until whereas then yet
"""
_RELATIVE = "who whom whose which that where"  # it is not known where their clause ends
_VERBS = "is are was were has have had do does did can could will would may might"
# A definite phrase names the same thing inside a scope and outside of it.
_DEFINITE = "the this that these those his her their its my your our another"


IDIOMS, PSEUDO = _IDIOMS.split(", "), _PSEUDO.split(", ")
UNCLEAR = frozenset(_UNCLEAR.split())
NUMBERS, QUESTIONS = frozenset(_NUMBERS.split()), frozenset(_QUESTIONS.split())
CLAUSE_ENDS, RELATIVE = frozenset(_CLAUSE_ENDS.split()), frozenset(_RELATIVE.split())
VERBS, DEFINITE = frozenset(_VERBS.split()), frozenset(_DEFINITE.split())
_PHRASE_ENDS = FUNCTION_WORDS - {"a", "an", "the"}  # end the noun phrase after an operator
AUXILIARIES = frozenset(("is", "are", "was", "were"))
EXISTENTIAL = ("there", "it")  # "there is no dog": the operator begins the clause


def directions(tokens: Sequence[str]) -> list[str]:
    """Finds the direction of each token of a sentence: UP, DOWN or UNSURE.

    Without an operator all are UP. With one, "A man | has | no | dog | in a house" has UP before
    the operator, then the directions of its Operator for the phrase and for the rest. Tokens
    outside of the clause are UNSURE. With several operators, or an unclear word, all are UNSURE.
    """
    words = list(map(_fold, tokens))
    places = _operator_places(words)
    if _is_unclear(words) or len(places) > 1:
        return [UNSURE] * len(words)
    if not places:
        return [UP] * len(words)
    (place,) = places
    operator = OPERATORS[words[place]]
    start, end = _clause(words, place)
    # Where a relative clause ends is not known.
    if start and words[start - 1] in RELATIVE:
        return [UNSURE] * len(words)
    phrase_end = _first_place(words, place + 1, end, _PHRASE_ENDS.__contains__)
    direction_T = np.full(len(words), UNSURE)
    direction_T[start:place] = UP
    direction_T[place + 1 : phrase_end] = operator.phrase
    if not operator.needs_start or _begins_clause(words[start:place]):
        rest = phrase_end
        if operator.rest == UP:
            # The scope of "every" begins at the verb; the words up to it stay UNSURE.
            rest = _first_place(words, phrase_end, end, VERBS.__contains__)
        direction_T[rest:end] = operator.rest
    for number in np.flatnonzero(direction_T == DOWN).tolist():
        if _is_definite_or_counted(words, number):
            direction_T[number] = UNSURE
    return list(map(str, direction_T))


def operators_in(tokens: Sequence[str]) -> list[str]:
    """The operators of a sentence."""
    words = list(map(_fold, tokens))
    return [words[place] for place in _operator_places(words)]


def _fold(token: str) -> str:
    return "n't" if token.casefold().endswith(("n't", "n’t")) else token.casefold()


def _operator_places(words: Sequence[str]) -> list[int]:
    idiomatic = set(_places_of(IDIOMS, words))
    return [n for n, word in enumerate(words) if word in OPERATORS and n not in idiomatic]


def _places_of(phrases: Sequence[str], words: Sequence[str]) -> Iterator[int]:
    """Yields the place of each word of each occurrence of a phrase."""
    text = f" {' '.join(words)} "
    for phrase in phrases:
        start = text.find(f" {phrase} ")
        while start >= 0:
            # `text` begins with a space, so that there are as many spaces before `start` as words.
            place = text.count(" ", 0, start)
            yield from range(place, place + len(phrase.split()))
            start = text.find(f" {phrase} ", start + 1)


def _is_unclear(words: Sequence[str]) -> bool:
    """Whether no token of the sentence has a known direction."""
    if not UNCLEAR.isdisjoint(words) or "?" in words or list(_places_of(PSEUDO, words)):
        return True
    if any(word.endswith(SUPERLATIVE) and len(word) > len(SUPERLATIVE) + 1 for word in words):
        return True
    return bool(words) and words[0] in QUESTIONS


def _ends_clause(word: str) -> bool:
    return word in CLAUSE_ENDS or not any(map(str.isalnum, word))


def _clause(words: Sequence[str], place: int) -> tuple[int, int]:
    """The clause around a place: (its first place, the place after its last)."""
    start = place
    while start and not _ends_clause(words[start - 1]):
        start -= 1
    return start, _first_place(words, place + 1, len(words), _ends_clause)


def _first_place(
    words: Sequence[str], start: int, end: int, is_wanted: Callable[[str], bool]
) -> int:
    """The first place from `start` up to `end` whose word is wanted; `end` if there is none."""
    return next((place for place in range(start, end) if is_wanted(words[place])), end)


def _begins_clause(before: Sequence[str]) -> bool:
    """Whether an operator begins its clause. before: the words of the clause that precede it, such
    as "there is"."""
    return not before or (before[0] in EXISTENTIAL and set(before[1:]) <= AUXILIARIES)


def _is_definite_or_counted(words: Sequence[str], place: int) -> bool:
    """Whether one of the two words before a place is of DEFINITE or NUMBERS."""
    before = words[max(place - 2, 0) : place]
    return not (DEFINITE | NUMBERS).isdisjoint(before)
