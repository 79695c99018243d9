"""Natural logic: whether a place in a sentence entails a more general or a more special word.

"A dog runs" entails "an animal runs": its place is upward. "A man has no dog" entails "a man has
no poodle": the place after "no" is downward. Sources of the tables:
  [M] MacCartney & Manning 2007, Natural Logic for Textual Inference, section 3
  [B] Barwise & Cooper 1981, Generalized Quantifiers and Natural Language, section 4
  [C] Chapman et al. 2001, A Simple Algorithm for Identifying Negated Findings (NegEx)
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mednli_jax.knowledge.words import FUNCTION_WORDS

UP, DOWN, UNSURE = "up", "down", "unsure"


class Operator(NamedTuple):
    """The directions of a word's arguments.

    phrase: of the noun phrase after it. rest: of what follows this phrase in its clause.
    opens: `rest` holds only where the word opens its clause ("No man in a hat", but not "a man
      with no hat in a park").
    """

    phrase: str
    rest: str
    opens: bool


OPERATORS = {
    "not": Operator(DOWN, DOWN, opens=False),  # [M] negation reverses its scope
    "n't": Operator(DOWN, DOWN, opens=False),  # [M]
    "never": Operator(DOWN, DOWN, opens=False),  # [M] an adverb of negation
    "nobody": Operator(DOWN, DOWN, opens=True),  # [M] no person
    "no": Operator(DOWN, DOWN, opens=True),  # [M] down in both arguments
    "few": Operator(DOWN, DOWN, opens=True),  # [M] in the scope; the phrase as that of "no"
    "without": Operator(DOWN, UNSURE, opens=False),  # [M] where its object ends is not known
    "every": Operator(DOWN, UP, opens=True),  # [M] down in the restrictor, up in the scope
    "each": Operator(DOWN, UP, opens=True),  # [B] as every
    "all": Operator(DOWN, UP, opens=True),  # [M] as every
    "any": Operator(DOWN, UP, opens=True),  # [B] of free choice, as every
}
NEGATIONS = ("no", "not", "n't")  # those that are put into sentences

# Phrases with a word of OPERATORS that reverse nothing.
IDIOMS = (
    *("a few", "quite a few"),  # [B] some
    *("each other", "one after another"),  # pronouns
    *("all over", "all around", "all along", "all the way", "all day", "all of a sudden"),
    *("at all", "after all", "all in all"),
)
# Phrases that look like a negation and are none: no pair.
PSEUDO = (
    *("not only", "not just", "not even", "not necessarily", "not always", "not yet"),
    *("no increase", "no change", "no further", "no longer", "no more", "not certain"),  # [C]
    *("not extend", "not cause", "not drain", "gram negative", "without difficulty"),  # [C]
    *("no doubt", "no matter", "no wonder", "no one", "without doubt", "few more", "any more"),
)
# Words after which nothing is known of either direction.
NOT_MONOTONE = frozenset(
    (
        *("most", "only", "exactly", "just", "half", "least", "almost", "nearly"),  # [B]
        *("than", "more", "less", "fewer"),  # comparatives [M]
        *("if", "unless", "whether", "except", "but", "nor", "neither", "none"),
        *("nothing", "nowhere", "hardly", "barely", "rarely", "seldom", "scarcely"),
        *("deny", "denies", "denied", "denying", "refuse", "refuses", "refused", "refusing"),
        *("fail", "fails", "failed", "lack", "lacks", "lacking", "avoid", "avoids", "avoiding"),
        *("prevent", "prevents", "stop", "stops", "forbid", "forbids", "doubt", "doubts"),
        *("negative", "unlikely", "absent", "free", "cannot"),
    )
)
SUPERLATIVE = "est"  # [M] an ending: "the tallest man" is neither upward nor downward
QUESTIONS = frozenset(("who", "what", "where", "when", "why", "how", "which", "whose"))
# [M] Under a negation "two dogs" may say at least two or exactly two.
NUMBERS = frozenset(
    (
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "dozen",
        "several",
        "many",
        "both",
    )
)
# Words that end a clause, and with it the scope of an operator.
_CLAUSE_ENDS = """
    and or but while as because although though when where who whom whose which that so if since
    before after until whereas then yet
"""
CLAUSE_ENDS = frozenset(_CLAUSE_ENDS.split())
# Where a clause ends that one of these begins is not known.
RELATIVE = frozenset(("who", "whom", "whose", "which", "that", "where"))
AUXILIARIES = frozenset(("is", "are", "was", "were"))
VERBS = AUXILIARIES | {
    "has",
    "have",
    "had",
    "do",
    "does",
    "did",
    "can",
    "could",
    "will",
    "would",
    "may",
    "might",
}
EXISTENTIAL = ("there", "it")  # "there is no dog": the operator opens the clause
# A definite phrase names the same thing inside a scope and outside of it.
_DEFINITE = "the this that these those his her their its my your our another"
DEFINITE = frozenset(_DEFINITE.split())


def directions(tokens: Sequence[str]) -> list[str]:
    """UP, DOWN or UNSURE of each place of a sentence."""
    words = [_folded(token) for token in tokens]
    places = _operator_places(words)
    if _is_unclear(words) or len(places) > 1:
        return [UNSURE] * len(words)
    if not places:
        return [UP] * len(words)
    (place,) = places
    operator = OPERATORS[words[place]]
    start, end = _clause(words, place)
    if not RELATIVE.isdisjoint(words[start - 1 : start]):
        return [UNSURE] * len(words)
    phrase_end = _phrase_end(words, place, end)
    directed = [UNSURE] * len(words)
    directed[start:place] = [UP] * (place - start)
    directed[place + 1 : phrase_end] = [operator.phrase] * (phrase_end - place - 1)
    if not operator.opens or _opens(words[start:place]):
        scope = phrase_end if operator.rest != UP else _after_verb(words, phrase_end, end)
        directed[scope:end] = [operator.rest] * (end - scope)
    return [_checked(words, number, direction) for number, direction in enumerate(directed)]


def operators_in(tokens: Sequence[str]) -> list[str]:
    """The operators of a sentence."""
    words = [_folded(token) for token in tokens]
    return [words[place] for place in _operator_places(words)]


def _folded(token: str) -> str:
    return "n't" if token.casefold().endswith(("n't", "n’t")) else token.casefold()


def _operator_places(words: Sequence[str]) -> list[int]:
    idiomatic = set(_places_of(IDIOMS, words))
    return [n for n, word in enumerate(words) if word in OPERATORS and n not in idiomatic]


def _places_of(phrases: Sequence[str], words: Sequence[str]) -> Iterator[int]:
    """The places of all words of the phrases that occur."""
    for phrase in phrases:
        wanted = phrase.split()
        for start in range(len(words) - len(wanted) + 1):
            if list(words[start : start + len(wanted)]) == wanted:
                yield from range(start, start + len(wanted))


def _is_unclear(words: Sequence[str]) -> bool:
    """Whether no place of the sentence has a known direction."""
    if not NOT_MONOTONE.isdisjoint(words) or "?" in words or list(_places_of(PSEUDO, words)):
        return True
    if any(word.endswith(SUPERLATIVE) and len(word) > len(SUPERLATIVE) + 1 for word in words):
        return True
    return bool(words) and words[0] in QUESTIONS


def _ends_clause(word: str) -> bool:
    return word in CLAUSE_ENDS or not any(map(str.isalnum, word))


def _clause(words: Sequence[str], place: int) -> tuple[int, int]:
    """The first place of the clause around a place, and the place after its last."""
    start, end = place, place + 1
    while start and not _ends_clause(words[start - 1]):
        start -= 1
    while end < len(words) and not _ends_clause(words[end]):
        end += 1
    return start, end


def _phrase_end(words: Sequence[str], place: int, end: int) -> int:
    """The place after the noun phrase that follows an operator; its articles belong to it."""
    for number in range(place + 1, end):
        is_article = words[number] in ("a", "an", "the")
        if words[number] in FUNCTION_WORDS and not is_article:
            return number
    return end


def _opens(before: Sequence[str]) -> bool:
    """Whether a word after these of its clause opens the clause."""
    return not before or (before[0] in EXISTENTIAL and set(before[1:]) <= AUXILIARIES)


def _after_verb(words: Sequence[str], start: int, end: int) -> int:
    """The place after the first auxiliary; `end` where the clause has none."""
    for number in range(start, end):
        if words[number] in VERBS:
            return number + 1
    return end


def _checked(words: Sequence[str], place: int, direction: str) -> str:
    """The direction; UNSURE for a definite phrase or a number in a downward scope."""
    before = words[max(place - 2, 0) : place]
    is_open = DEFINITE.isdisjoint(before) and NUMBERS.isdisjoint(before)
    return direction if direction != DOWN or is_open else UNSURE
