"""Finding the concepts that a tokenised sentence names: longest match of an ontology's names, by Aho-Corasick."""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import ahocorasick

from mednli_jax.examples import Mention
from mednli_jax.knowledge.ontology import Ontology

# Words of grammar. No name made of one of these is linked, not even an abbreviation ("or", the operating room): text is
# matched without regard to case, so such a name would be found in every other sentence.
_GRAMMAR = """
    a about above after again against all also although am among an and any are as at be because been before
    being below between both but by can could did do does doing done down due during each either else ever
    every few for from further get got had has have having he her here hers him his how however i if in into
    is it its itself just last least less made make many may me might more most much must my near neither
    never next no nor not now of off often on once one only or other others our out over own per quite rather
    same several shall she should since so some still such than that the their them then there these they this
    those though three through to together too two under until up upon us use used very via was we well were
    what when where whether which while who whom whose why will with within without would yes yet you your
"""

# Everyday words that happen to be names, in the singular. They would link, but state no finding: MeSH has "Face" and
# "Lead", and acronyms such as HARD and SAID. Chosen among the most frequent links in picture captions, where almost
# every link is a false one, and in reports of trials. In order: people and places; what every note speaks of; ordinary
# things, acts and qualities; acronyms that read like a word.
_EVERYDAY = """
    adult baby boy brother caregiver child children client clinic doctor family father female friend girl
    home hospital house human husband individual infant job male man men mother newborn nurse parent partner
    patient people person physician population room school sibling sister son spouse wife woman women work
    care condition diagnose diagnosis disease disorder drug emergency exam examination finding health history
    illness medication medicine method name observation pharmaceutical procedure prognosis record recurrence
    report sign symptom syndrome technique test therapeutic therapeutics therapy time treatment
    audition back bed beds bend birth buffer butter cell clay clone coal coffee coke complement crown diamond
    drinking dust eating egg element exercise face food gas gases glass gold hearing ice jogging lead magic
    marathon meridian metal milk mineral movement oil orbit photography plastic powder rubber running salt
    sand sex silk silver singing smoke soil solution spectacle speech steam steel sugar suggestion suspension
    swimming tablet tea tear telescope touch truss voice walking water wax wool
    aid alps amp arc dap det dish fad gdp hard imp maid mods mta prod said sid sits snare stem tan tens ump
"""

FUNCTION_WORDS = frozenset(_GRAMMAR.split())
EVERYDAY_WORDS = frozenset(_EVERYDAY.split())

_HYPHENS = re.compile("[-‐‑‒–—]+")
_APOSTROPHES = re.compile("[’ʼ`´]")
_POSSESSIVE = re.compile(r"(?<!\S)'s?(?!\w)|(?<=\w)'s?(?!\w)")
_PUNCTUATION = re.compile(r'([,;:()\[\]{}"!?&=<>*@#$^|~])')


@lru_cache(maxsize=1 << 17)
def normalise(text: str) -> tuple[str, ...]:
    """The pieces of a name or of one token, as they are compared: names and sentences pass through the same function.

    Case is folded, punctuation stands alone (as in the Penn Treebank and in SNLI's parses), hyphens separate, and the
    possessive ending is gone: "Crohn's", "non-smoker," -> ("crohn",), ("non", "smoker", ",").
    """
    text = text.casefold()
    if text.isalpha():
        return (text,)
    text = _APOSTROPHES.sub("'", text)
    text = _HYPHENS.sub(" ", _POSSESSIVE.sub(" ", text))
    return tuple(_PUNCTUATION.sub(r" \1 ", text).split())


@lru_cache(maxsize=1 << 17)
def singular(word: str) -> str:
    """The word without a plural ending; only has to map singular and plural to one string, not to a dictionary form.

    Words of up to four letters stay ("aids" is no plural of "aid"), as do the endings of Greek and Latin singulars.
    """
    if len(word) < 5 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word[:-1]


class Linker:
    """Finds the names of an ontology in tokens; immutable after construction and deterministic.

    Names match on token borders only, without regard to case, hyphens ("beta-blocker", "beta blocker"), possessives
    and plural endings. Of overlapping names the leftmost wins, of those the longest. Where several concepts have the
    name, one that has it letter for letter goes before one that only has its plural or singular; after that the
    ontology's own precedence holds (preferred names, then the order of `Ontology.names`).

    Args:
      ontology: whose names are looked for; concepts outside its `link_types` are not.
      min_length: names with fewer characters are left out unless they are abbreviations of the ontology.
      types: prefixes of semantic types to link instead of the ontology's `link_types`; () links every concept.
      stop: lower-case singular names that are not linked, nor their plurals, unless they are abbreviations.
        A concept whose preferred name is among them is not linked by any name.
    """

    def __init__(
        self,
        ontology: Ontology,
        *,
        min_length: int = 3,
        types: Sequence[str] | None = None,
        stop: Collection[str] = EVERYDAY_WORDS,
    ):
        self.ontology, self.min_length, self.stop = ontology, min_length, frozenset(stop)
        self.types = tuple(ontology.link_types if types is None else types)
        self._concepts = self._collect()
        self._automaton = ahocorasick.Automaton()
        for key in self._concepts:
            self._automaton.add_word(key, key)
        if self._concepts:
            self._automaton.make_automaton()

    def link(self, tokens: Sequence[str]) -> list[Mention]:
        """The mentions of one sentence, in order, not overlapping; `concept` is the ontology's id."""
        if not self._concepts:
            return []
        pieces = [normalise(token) for token in tokens]
        text, starts, ends = [], {}, {}
        at = 0  # position of the space before the next piece
        for position, parts in enumerate(pieces):
            if not parts:
                continue
            folded = " ".join(map(singular, parts))
            starts[at] = position
            at += len(folded) + 1
            ends[at] = position + 1
            text.append(folded)
        # Keys carry a space at both ends, so the automaton finds whole pieces; starts and ends keep whole tokens.
        hits = []
        for last, key in self._automaton.iter(f" {' '.join(text)} "):
            start, end = starts.get(last + 1 - len(key)), ends.get(last)
            if start is not None and end is not None:
                hits.append((start, -end, key))
        mentions, free = [], 0
        for start, end, key in sorted(hits):
            if start >= free:
                free = -end
                mentions.append(Mention(start, free, self._choose(key, pieces[start:free])))
        return mentions

    def _choose(self, key: str, pieces: list[tuple[str, ...]]) -> str:
        by_name = self._concepts[key]
        exact = " ".join(part for parts in pieces for part in parts)
        concept = by_name[exact] if exact in by_name else next(iter(by_name.values()))
        return self.ontology.ids[concept]

    def _collect(self) -> dict[str, dict[str, int]]:
        """Folded key (between spaces) -> {name as normalised: concept}, both levels in order of precedence."""
        ontology, found = self.ontology, {}
        preferred = [(label, concept) for concept, label in enumerate(ontology.labels)]
        linked = [self._has_type(concept) and not self._is_stopped(label) for label, concept in preferred]
        for name, concept in (*preferred, *ontology.names):
            if not linked[concept]:
                continue
            parts = normalise(name)
            exact = " ".join(parts)
            if self._is_usable(name, exact):
                key = f" {' '.join(map(singular, parts))} "
                found.setdefault(key, {}).setdefault(exact, concept)
        return found

    def _has_type(self, concept: int) -> bool:
        if not self.types or not self.ontology.types:
            return True
        return any(kind.startswith(self.types) for kind in self.ontology.types[concept].split("|"))

    def _is_usable(self, name: str, exact: str) -> bool:
        if exact in FUNCTION_WORDS or not any(character.isalpha() for character in exact):
            return False
        if name in self.ontology.abbreviations:
            return True
        return len(exact) >= self.min_length and not self._is_stopped(exact)

    def _is_stopped(self, name: str) -> bool:
        """Whether the name is in `stop`, as it is or in the singular."""
        folded = name.casefold()
        return folded in self.stop or singular(folded) in self.stop
