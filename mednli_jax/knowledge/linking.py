"""Finds the concepts that a tokenised sentence names."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import ahocorasick

from mednli_jax.data.examples import Mention
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.words import (
    EVERYDAY_WORDS,
    FUNCTION_WORDS,
    MEASUREMENT_UNITS,
    folded_words,
    is_ordinary,
    pieces_of,
    singular,
)

SHOWN = 20  # types in a message
MIN_LENGTH = 3  # characters of the shortest name that is linked
_JOINED = re.compile(r"[\w.+'’]+(?:(?:[-‐‑‒–—]+|/)[\w.+'’]+)+")  # "nausea/vomiting", "HIV-positive"


class _Form(NamedTuple):
    """A token in the form in which it is compared.

    Args:
      pieces: of the token's text.
      words: the pieces in the singular.
      is_divisible: whether each piece may be a name by itself.
    """

    pieces: tuple[str, ...]
    words: tuple[str, ...]
    is_divisible: bool


@lru_cache(maxsize=1 << 17)
def _form(token: str) -> _Form:
    pieces = pieces_of(token)
    is_divisible = len(pieces) > 1 and _is_joined(token, pieces)
    return _Form(pieces, tuple(map(singular, pieces)), is_divisible)


def _is_joined(token: str, pieces: Sequence[str]) -> bool:
    """Whether hyphens or "/" join words of which each may be a name.

    The words of a set phrase are not names: such a token contains a word of grammar
    ("head-to-head", "follow-up").
    """
    if not any(map(str.isalpha, pieces)) or not _JOINED.fullmatch(token):
        return False
    return not any(len(piece) > 1 and piece in FUNCTION_WORDS for piece in pieces)


class _Sentence:
    """A sentence as the text that is searched: the words of its tokens, with a space around each.

    A place is the position of a space in the text.

    Attributes:
      starts: place -> the token that begins there.
      ends: place -> the token after the one that ends there.
      inside: place between two words of a divisible token -> that token. `starts` and `ends` have
        these places, too.
    """

    def __init__(self, tokens: Sequence[str], inside_tokens: bool) -> None:
        self.tokens = tokens
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.inside: dict[int, int] = {}
        self._pieces: list[str] = []
        self._piece_at: dict[int, int] = {}  # place -> number of the piece that begins there
        all_words: list[str] = []
        place = 0
        for token, (pieces, words, is_divisible) in enumerate(map(_form, tokens)):
            for number, word in enumerate(words):
                if number == 0:
                    self.starts[place] = token
                elif is_divisible and inside_tokens:
                    self.inside[place] = self.starts[place] = token
                    self.ends[place] = token + 1
                self._piece_at[place] = len(self._piece_at)
                place += len(word) + 1
            if words:
                self.ends[place] = token + 1
            self._pieces += pieces
            all_words += words
        self._piece_at[place] = len(self._pieces)
        self.text = f" {' '.join(all_words)} "

    def is_part(self, start: int, end: int) -> bool:
        """Whether the words between two places begin or end inside a token."""
        return start in self.inside or end in self.inside

    def exact(self, start: int, end: int) -> str:
        """The pieces between two places, with the case and endings of the text."""
        return " ".join(self._pieces[self._piece_at[start] : self._piece_at[end]])


class _Hit(NamedTuple):
    """A concept, and the two places of a sentence between which its name stands."""

    start: int
    end: int
    concept: int


def _leftmost_longest(hits: Iterable[_Hit]) -> list[_Hit]:
    chosen, free = [], 0
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end)):
        if hit.start >= free:
            chosen.append(hit)
            free = hit.end
    return chosen


class _Keys(NamedTuple):
    """The two forms of a name: `key`, by which it is looked up, in the singular; and `exact`, with
    its own case and endings.

    Both are pieces between single spaces. They are in capitals for an acronym that is also an
    ordinary word, else in lower case.
    """

    key: str
    exact: str


class Linker:
    """Finds the names of an ontology in tokens by Aho-Corasick.

    Case, hyphens ("beta-blocker", "beta blocker"), possessives and plural endings do not count. A
    name begins and ends at the borders of tokens, or of words that hyphens or "/" join in a token
    ("CAD/CHF", "HIV-positive"), unless the whole token is linked. Of overlapping names the leftmost
    wins, then the longest. If several concepts have the name, one with exactly this spelling
    precedes one that only has its plural or singular; after that the ontology's precedence decides
    (preferred names, then the order of `Ontology.names`).

    An acronym that is also an ordinary word (AIDS, MAP, ALL) is linked only where the text has it
    in capitals: not in "walking aids". In capitals the acronym precedes the word. Acronyms are
    abbreviations of the ontology, and names in capitals unless it writes most names in capitals.

    Everyday words (`words.EVERYDAY_WORDS`) and their plurals are not linked, unless they are
    abbreviations. A concept whose preferred name is one of them is not linked by any name.

    Args:
      ontology: its names are searched. Of those with fewer than MIN_LENGTH characters only its
        abbreviations are.
      types: prefixes of the semantic types to link; None = the ontology's `link_types`, () = every
        concept.
      vocabulary: tokens of the sentences to come: names that hold any other word are left out,
        which makes the linker of a large terminology small. None: all names.
    """

    def __init__(
        self,
        ontology: Ontology,
        *,
        types: Sequence[str] | None = None,
        vocabulary: Iterable[str] | None = None,
    ) -> None:
        self.ontology = ontology
        self.types = tuple(ontology.link_types if types is None else types)
        self._capitals_make_acronyms = not _mostly_in_capitals(ontology.names)
        self._first_name: dict[str, str] = {}  # key -> its first name, letter for letter
        self._concept_of: dict[str, int] = {}  # name, letter for letter -> concept
        # In lower case: units, and keys that are acronyms in capitals and other words otherwise.
        self._ambiguous = set(MEASUREMENT_UNITS)
        self._add_names(vocabulary)
        self._automaton = ahocorasick.Automaton()
        for key in self._first_name:
            folded = key.casefold()
            self._automaton.add_word(f" {folded} ", folded)
        self._automaton.make_automaton()

    def link(self, tokens: Sequence[str], *, inside_tokens: bool = True) -> list[Mention]:
        """The mentions of one sentence, in order; `concept` is the ontology's id.

        They overlap only where a token holds several names, or the end of one and another ("chest
        pain/cough"). inside_tokens: whether names are looked for inside tokens.
        """
        if not self._first_name:
            return []
        sentence = _Sentence(tokens, inside_tokens)
        hits = list(self._hits(sentence))
        if sentence.inside:
            hits = _without_parts_of_linked(sentence, hits)
        mentions = []
        for start, end, concept in _leftmost_longest(hits):
            ident = self.ontology.ids[concept]
            mentions.append(Mention(sentence.starts[start], sentence.ends[end], ident))
        return mentions

    def _hits(self, sentence: _Sentence) -> Iterator[_Hit]:
        # Keys have a space at both ends, so that the automaton finds whole pieces.
        for last, folded in self._automaton.iter(sentence.text):
            start, end = last - 1 - len(folded), last
            if start in sentence.starts and end in sentence.ends:
                concept = self._concept_at(sentence, start, end, folded)
                if concept is not None:
                    yield _Hit(start, end, concept)

    def _concept_at(self, sentence: _Sentence, start: int, end: int, folded: str) -> int | None:
        """The concept of the name between two places; None if the text means another word.

        folded: the key of the name, case folded.
        """
        exact = sentence.exact(start, end)
        words = [exact, self._first_name.get(folded)]
        if folded not in self._ambiguous:
            return self._concept_of_first(words)
        acronyms = [exact.upper(), self._first_name.get(folded.upper())]
        token = sentence.tokens[sentence.starts[start]]
        if folded.upper() not in token and exact.upper() not in token:
            is_unit = exact in MEASUREMENT_UNITS and sentence.is_part(start, end)
            return None if is_unit else self._concept_of_first(words)
        if not "".join(sentence.tokens).isupper():
            return self._concept_of_first(acronyms + words)
        if exact in FUNCTION_WORDS:  # in a sentence all in capitals, these are no acronyms
            return self._concept_of_first(words)
        return self._concept_of_first(words + acronyms)

    def _concept_of_first(self, names: Sequence[str | None]) -> int | None:
        """The concept of the first of the names that belongs to a concept in exactly this spelling;
        None if none does."""
        for name in names:
            if name in self._concept_of:
                return self._concept_of[name]
        return None

    def indices(self, concept: str) -> list[int]:
        """The concepts of the ontology that a mention's `concept` stands for."""
        return self.ontology.indices(concept)

    def _add_names(self, vocabulary: Iterable[str] | None) -> None:
        """Adds the names of the ontology in order of precedence: preferred names, then
        `Ontology.names`."""
        words = None if vocabulary is None else folded_words(vocabulary)
        is_linked = self._linked_concepts()
        preferred = zip(self.ontology.labels, range(len(self.ontology)), strict=True)
        for name, concept in chain(preferred, self.ontology.names):
            if not is_linked[concept]:
                continue
            is_short = name in self.ontology.abbreviations
            key, exact = self._keys(name, is_short)
            if words is not None and not words.issuperset(key.casefold().split()):
                continue
            is_long = len(exact) >= MIN_LENGTH and not _is_everyday(exact)
            if _may_be_linked(exact) and (is_long or is_short):
                self._add(key, exact)
                self._concept_of.setdefault(exact, concept)

    def _keys(self, name: str, is_short: bool) -> _Keys:
        """Makes the keys of a name. is_short: whether the name is an abbreviation."""
        pieces = pieces_of(name)
        key, exact = " ".join(map(singular, pieces)), " ".join(pieces)
        is_acronym = is_short or (self._capitals_make_acronyms and name.removesuffix("s").isupper())
        if is_acronym and exact.isascii() and exact.isalpha() and is_ordinary(exact):
            return _Keys(key.upper(), exact.upper())
        return _Keys(key, exact)

    def _add(self, key: str, exact: str) -> None:
        """Adds a key with its first name, if the key is new."""
        self._first_name.setdefault(key, exact)
        if key != key.casefold():
            self._ambiguous.add(key.casefold())

    def _linked_concepts(self) -> list[bool]:
        """[C], whether each concept is linked: it has a type to link, and its preferred name is not
        an everyday word. Raises ConfigError if no concept has such a type."""
        is_linked = [not _is_everyday(label) for label in self.ontology.labels]
        if not self.types:
            return is_linked
        counts = Counter("|".join(self.ontology.types).split("|"))
        linked = {name for name in counts if name.startswith(self.types)}
        for concept, types in enumerate(self.ontology.types):
            is_linked[concept] &= not linked.isdisjoint(types.split("|"))
        if self.ontology.types and not linked:
            present = [name for name, _ in counts.most_common(SHOWN) if name]
            problem = f"no concept has a type that is linked; the types are {', '.join(present)}"
            fix = f"give those to link, such as config.knowledge.types={','.join(present[:2])}"
            raise ConfigError(problem, field="knowledge.ontology", fix=fix)
        return is_linked


def _is_everyday(name: str) -> bool:
    folded = name.casefold()
    return folded in EVERYDAY_WORDS or singular(folded) in EVERYDAY_WORDS


def _without_parts_of_linked(sentence: _Sentence, hits: Sequence[_Hit]) -> list[_Hit]:
    """Drops the hits that divide a token which is linked as a whole."""
    linked: set[int] = set()
    whole = [hit for hit in hits if not sentence.is_part(hit.start, hit.end)]
    for hit in _leftmost_longest(whole):
        linked.update(range(sentence.starts[hit.start], sentence.ends[hit.end]))
    closed = {place for place, token in sentence.inside.items() if token in linked}
    return [hit for hit in hits if hit.start not in closed and hit.end not in closed]


def _mostly_in_capitals(names: Iterable[tuple[str, int]]) -> bool:
    """Whether most names of several words are in capitals, so that capitals do not make an
    acronym."""
    in_capitals = [name.isupper() for name, _ in names if " " in name]
    return 2 * sum(in_capitals) > len(in_capitals)


def _may_be_linked(exact: str) -> bool:
    """Whether a name has a letter and is not a word of grammar."""
    return exact not in FUNCTION_WORDS and any(map(str.isalpha, exact))


@lru_cache(maxsize=2)
def linker_of(ontology: Ontology, types: tuple[str, ...] | None) -> Linker:
    """A Linker of an ontology. The corpora of a process share it."""
    return Linker(ontology, types=types)
