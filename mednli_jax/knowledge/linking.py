"""Finds the concepts that a tokenised sentence names, and reads the user's lists of words for
it."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import ahocorasick

from mednli_jax.data.examples import Mention
from mednli_jax.files import text_lines
from mednli_jax.knowledge.ontology import Ontology, begins
from mednli_jax.knowledge.readers import mesh

# Words of grammar. No name that is one of these is linked, not even an abbreviation ("or", the
# operating room).
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

# Everyday words that are names in MeSH ("Face", "Lead", HARD, SAID), in the singular: they state no
# finding. Chosen among the most frequent links in picture captions, where almost every link is a
# false one, and in reports of trials. In order: people and places; what every note speaks of;
# ordinary things, acts and qualities; acronyms.
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

# Units in lower case: as a part of a token they are no name ("cc/hr").
_UNITS = "cc cm dl hr hrs kg mcg meq mg min ml mm mmol mo ms ng pg sec wk yr"

MIN_LENGTH = 3  # characters of the shortest name that is linked
FUNCTION_WORDS = frozenset(_GRAMMAR.split())
EVERYDAY_WORDS = frozenset(_EVERYDAY.split())
UNITS = frozenset(_UNITS.split())
ORDINARY_WORDS = "words.txt.gz"

_HYPHENS = re.compile("[-‐‑‒–—]+")
_APOSTROPHES = re.compile("[’ʼ`´]")
_POSSESSIVE = re.compile(r"(?<!\S)'s?(?!\w)|(?<=\w)'s?(?!\w)")
_PUNCTUATION = re.compile(r'([,;:()\[\]{}"!?&=<>*@#$^|~])')
_JOINED = re.compile(r"[\w.+'’]+(?:(?:[-‐‑‒–—]+|/)[\w.+'’]+)+")  # "nausea/vomiting", "HIV-positive"


@lru_cache(maxsize=1 << 17)
def normalise(text: str) -> tuple[str, ...]:
    """The pieces of a name or of one token, as they are compared: "Crohn's", "non-smoker," ->
    ("crohn",), ("non", "smoker", ","). Case is folded, punctuation is a piece of its own, as in the
    Penn Treebank."""
    text = text.casefold()
    if text.isalpha():
        return (text,)
    if text.isascii() and text.replace(" ", "").isalnum():  # most names: nothing to fold
        return tuple(text.split())
    text = _APOSTROPHES.sub("'", text)
    text = _HYPHENS.sub(" ", _POSSESSIVE.sub(" ", text))
    return tuple(_PUNCTUATION.sub(r" \1 ", text).split())


@lru_cache(maxsize=1 << 17)
def singular(word: str) -> str:
    """The word without a plural ending, which need not be a word. Words of up to four letters stay
    ("aids" is no plural of "aid"), as do the endings of Greek and Latin singulars."""
    if len(word) < 5 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word[:-1]


def folded_words(tokens: Iterable[str]) -> set[str]:
    """The words of tokens in the form in which names are looked up: normalised, in the singular."""
    return {word for token in tokens for word in _form(token).folded.split()}


def _pieces(text: str) -> tuple[str, ...]:
    """As `normalise`, and each "/" is a piece of its own."""
    pieces = normalise(text)
    return tuple(" ".join(pieces).replace("/", " / ").split()) if "/" in text else pieces


class _Form(NamedTuple):
    """A token as it is compared.

    exact: its `_pieces` with a space between. folded: they in the singular. borders: places of
    spaces in `folded` between words that hyphens or "/" join and that each may be a name.
    """

    exact: str
    folded: str
    borders: tuple[int, ...]


@lru_cache(maxsize=1 << 17)
def _form(token: str) -> _Form:
    pieces = _pieces(token)
    if len(pieces) == 1:
        return _Form(pieces[0], singular(pieces[0]), ())
    words = [singular(piece) for piece in pieces]
    borders = accumulate(len(word) + 1 for word in words[:-1]) if _is_joined(token, pieces) else ()
    return _Form(" ".join(pieces), " ".join(words), tuple(borders))


def _is_joined(token: str, pieces: Sequence[str]) -> bool:
    """Whether hyphens or "/" join words of which each may be a name.

    Words of a set phrase are no names: it holds a word of grammar ("head-to-head", "follow-up").
    """
    if not any(map(str.isalpha, pieces)) or not _JOINED.fullmatch(token):
        return False
    return not any(len(piece) > 1 and piece in FUNCTION_WORDS for piece in pieces)


class _Sentence:
    """A sentence as the text that is searched: the folded pieces of its tokens, with a space around
    each.

    A place is the position of a space. starts: place -> the token that begins there. ends: place ->
    the token after the one that ends there. inside: place between two words of a token -> that
    token; starts and ends have it, too.
    """

    def __init__(self, tokens: Sequence[str], parts: bool):
        starts, ends, inside, texts = {}, {}, {}, []
        forms = [_form(token) for token in tokens]
        place = 0
        for position, (_, folded, borders) in enumerate(forms):
            if folded:
                starts[place] = position
                if borders and parts:
                    for border in borders:
                        inside[place + border] = starts[place + border] = position
                        ends[place + border] = position + 1
                place += len(folded) + 1
                ends[place] = position + 1
                texts.append(folded)
        self.tokens, self.forms, self.text = tokens, forms, f" {' '.join(texts)} "
        self.starts: dict[int, int] = starts
        self.ends: dict[int, int] = ends
        self.inside: dict[int, int] = inside

    def exact(self, start: int, end: int) -> str:
        """The pieces between two places letter for letter."""
        first = self.starts[start]
        exact = " ".join([form.exact for form in self.forms[first : self.ends[end]] if form.exact])
        if start not in self.inside and end not in self.inside:
            return exact
        begin = next(
            place
            for place in self.starts
            if self.starts[place] == first and place not in self.inside
        )
        skipped = self.text.count(" ", begin, start)
        return " ".join(exact.split(" ")[skipped : skipped + self.text.count(" ", start, end)])


_Hit = tuple[
    int, int, str
]  # a name in a sentence: the place where it starts, minus the one where it ends, its key


def _leftmost_longest(hits: Iterable[_Hit]) -> list[_Hit]:
    chosen, free = [], 0
    for hit in sorted(hits):
        if hit[0] >= free:
            chosen.append(hit)
            free = -hit[1]
    return chosen


@cache
def ordinary_words() -> frozenset[str]:
    """Words of 3 to 7 letters as which acronyms may be read (see resources/CREDITS.md), most in
    their base form."""
    return frozenset(word for _, word in text_lines(mesh.RESOURCES / ORDINARY_WORDS))


def is_ordinary(word: str) -> bool:
    """Whether a folded word is a word of grammar or an ordinary one, or the plural of an ordinary
    one."""
    forms = {word, word.removesuffix("s"), singular(word)}
    return word in FUNCTION_WORDS or not forms.isdisjoint(ordinary_words())


class Linker:
    """Finds the names of an ontology in tokens by Aho-Corasick.

    Names match without regard to case, hyphens ("beta-blocker", "beta blocker"), possessives and
    plural endings. They match on token borders, and inside a token on those of words that hyphens
    or "/" join ("CAD/CHF", "HIV-positive"), unless the whole token is linked. Of overlapping names
    the leftmost wins, then the longest. If several concepts have the name, one with exactly this
    spelling precedes one that only has its plural or singular; after that the ontology's precedence
    decides (preferred names, then the order of `Ontology.names`).

    An acronym that is also an ordinary word (AIDS, MAP, ALL) is linked only where the text has it
    in capitals: not in "walking aids". There it precedes the word. Acronyms are short forms and
    names in capitals, unless the ontology writes most names in capitals.

    Args:
      ontology: its names are searched, but not those with fewer than MIN_LENGTH characters unless they are its
        abbreviations.
      types: prefixes of the semantic types to link; None = the ontology's `link_types`, () = every concept.
      stop: lower-case singular names that are not linked, nor their plurals, unless they are abbreviations.
        A concept whose preferred name is among them is not linked by any name.
      abbreviations: (short form, expansion). If the expansion is a linked name, the short form, of any length, becomes
        a name of the same concept and precedes other concepts with that name. Of several expansions of a short form
        the first linked one is used.
      vocabulary: tokens of the sentences to come: names that hold any other word are left out, which makes the linker
        of a large terminology small. None: all names.
    """

    def __init__(
        self,
        ontology: Ontology,
        *,
        types: Sequence[str] | None = None,
        stop: Collection[str] = EVERYDAY_WORDS,
        abbreviations: Iterable[tuple[str, str]] = (),
        vocabulary: Iterable[str] | None = None,
    ):
        self.ontology, self.stop = ontology, frozenset(stop)
        self.types = tuple(ontology.link_types if types is None else types)
        self._capitals_tell = not _mostly_in_capitals(ontology.names)
        # Keys and names of acronyms that are also ordinary words are in capitals, all others are
        # folded.
        self._first: dict[str, str] = {}  # key -> its first name, letter for letter
        self._concepts: dict[str, int] = {}  # name, letter for letter -> concept
        self._ambiguous = set(
            UNITS
        )  # keys that are read as other words, too, unless they are in capitals
        self._collect(
            None if vocabulary is None else folded_words(vocabulary), tuple(abbreviations)
        )
        self._automaton = ahocorasick.Automaton()
        for key in self._first:
            folded = key.casefold()
            self._automaton.add_word(f" {folded} ", folded)
        self._automaton.make_automaton()

    def link(self, tokens: Sequence[str], *, parts: bool = True) -> list[Mention]:
        """The mentions of one sentence, in order; `concept` is the ontology's id.

        They overlap only where a token holds several names, or the end of one and another ("chest
        pain/cough"). parts: whether names are looked for inside tokens.
        """
        if not self._first:
            return []
        sentence = _Sentence(tokens, parts)
        starts, ends, inside = sentence.starts, sentence.ends, sentence.inside
        ambiguous, hits, has_parts = self._ambiguous, [], False
        # Keys have a space at both ends, so that the automaton finds whole pieces.
        for end, folded in self._automaton.iter(sentence.text):
            start = end - 1 - len(folded)
            if start in starts and end in ends:
                if folded in ambiguous and self._concept_at(sentence, start, end, folded) is None:
                    continue
                hits.append((start, -end, folded))
                if inside and (start in inside or end in inside):
                    has_parts = True
        if has_parts:
            whole = [hit for hit in hits if hit[0] not in inside and -hit[1] not in inside]
            linked = set()
            for start, end, _ in _leftmost_longest(whole):
                linked.update(range(starts[start], ends[-end]))
            closed = {place for place, token in inside.items() if token in linked}
            hits = [hit for hit in hits if hit[0] not in closed and -hit[1] not in closed]
        mentions = []
        for start, end, folded in _leftmost_longest(hits):
            concept = self._concept_at(sentence, start, -end, folded)
            mentions.append(Mention(starts[start], ends[-end], self.ontology.ids[concept]))
        return mentions

    def _concept_at(self, sentence: _Sentence, start: int, end: int, folded: str) -> int | None:
        """The concept of the name with this key between two places; None where the text means
        another word."""
        exact = sentence.exact(start, end)
        if folded not in self._ambiguous:
            return self._concepts[exact if exact in self._concepts else self._first[folded]]
        names = [exact, self._first.get(folded)]
        acronyms = [exact.upper(), self._first.get(folded.upper())]
        token = sentence.tokens[sentence.starts[start]]
        is_part = start in sentence.inside or end in sentence.inside
        if folded.upper() not in token and exact.upper() not in token:
            names = [] if is_part and exact in UNITS else names
        elif not "".join(sentence.tokens).isupper():
            names = acronyms + names
        elif exact not in FUNCTION_WORDS:  # in a sentence all in capitals, these are no acronyms
            names += acronyms
        return self._concept_of(names)

    def indices(self, concept: str) -> list[int]:
        """The concepts of the ontology that a mention's `concept` stands for."""
        return self.ontology.indices(concept)

    def _collect(
        self, vocabulary: set[str] | None, abbreviations: Sequence[tuple[str, str]]
    ) -> None:
        """Keeps names in order of precedence: short forms, preferred names, then
        `Ontology.names`."""
        linked, found = self._linked(), {}
        expansions = {self._keys(expansion)[0].casefold() for _, expansion in abbreviations}
        preferred = ((label, concept) for concept, label in enumerate(self.ontology.labels))
        for name, concept in chain(preferred, self.ontology.names):
            if linked[concept]:
                is_short = name in self.ontology.abbreviations
                key, exact = self._keys(name, is_short)
                folded = key.casefold()
                needed = (
                    vocabulary is None
                    or folded in expansions
                    or vocabulary.issuperset(folded.split(" "))
                )
                long = len(exact) >= MIN_LENGTH and not self._is_stopped(exact)
                if needed and _is_word(exact) and (long or is_short):
                    self._add(key, exact)
                    self._concepts.setdefault(exact, concept)
        for short, expansion in abbreviations:
            key, exact = self._keys(expansion)
            folded, capitals = key.casefold(), exact.upper()
            names = (exact, self._first.get(folded), capitals, self._first.get(folded.upper()))
            concept = self._concept_of(names)
            keys = self._keys(short, is_short=True)
            if concept is not None and _is_word(keys[1]):
                found.setdefault(keys, concept)
        for (
            key,
            exact,
        ), concept in found.items():  # last: expansions are looked up among the names
            self._add(key, exact)
            self._concepts[exact] = concept

    def _keys(self, name: str, is_short: bool = False) -> tuple[str, str]:
        """(key under which a name is looked up, the name letter for letter), both as pieces between
        single spaces.

        Both are in capitals for an acronym that is also an ordinary word. is_short: the name is a
        short form.
        """
        pieces = _pieces(name)
        key, exact = " ".join(map(singular, pieces)), " ".join(pieces)
        is_acronym = is_short or (self._capitals_tell and name.removesuffix("s").isupper())
        if is_acronym and exact.isascii() and exact.isalpha() and is_ordinary(exact):
            return key.upper(), exact.upper()
        return key, exact

    def _add(self, key: str, exact: str) -> None:
        """Adds a key with its first name, if it is new."""
        self._first.setdefault(key, exact)
        if key != key.casefold():
            self._ambiguous.add(key.casefold())

    def _concept_of(self, names: Sequence[str | None]) -> int | None:
        """The concept of the first of these names, letter for letter, that there is."""
        return next((self._concepts[name] for name in names if name in self._concepts), None)

    def _linked(self) -> bytearray:
        """1 for each concept that has a type to link and no stopped preferred name."""
        linked = bytearray(not self._is_stopped(label) for label in self.ontology.labels)
        if self.types:
            for concept, kinds in enumerate(self.ontology.types):
                linked[concept] &= any(kind.startswith(self.types) for kind in kinds.split("|"))
        return linked

    def _is_stopped(self, name: str) -> bool:
        """Whether the name is in `stop`, as it is or in the singular."""
        folded = name.casefold()
        return folded in self.stop or singular(folded) in self.stop


def _mostly_in_capitals(names: Iterable[tuple[str, int]]) -> bool:
    """Whether most names of several words are in capitals, so that capitals do not make an
    acronym."""
    return sum(1 if name.isupper() else -1 for name, _ in names if " " in name) > 0


def _is_word(exact: str) -> bool:
    """Whether a name may be linked at all: it has a letter, and is no word of grammar."""
    return exact not in FUNCTION_WORDS and any(map(str.isalpha, exact))


_LONGEST = 3  # tokens of a name
# Endings and their replacements in the base form, by the letter of a part of speech: morphy(7WN).
_ENDINGS = {
    "n": "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y",
    "v": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "a": "er: est: er:e est:e",
    "r": "",
}
_DETACHED = {part: [pair.split(":") for pair in pairs.split()] for part, pairs in _ENDINGS.items()}


_OF_GRAMMAR = FUNCTION_WORDS - {
    "one",
    "two",
    "three",
}  # numbers have opposites, as other adjectives have
_GRAMMAR_PARTS = "ar"


class Lemmas:
    """Finds the words of WordNet in tokens, by their base forms.

    Unlike a Linker it chooses no sense: a mention's `concept` is a key, the base forms between "|",
    and `indices` gives all their synsets. The base form of a word is the word itself if WordNet has
    it in a part of speech, else the word with its ending replaced. Irregular forms are names that
    the reader adds. A word of grammar is an adjective or an adverb ("near", "all"), never a noun or
    a verb ("is", the plural of the letter i); its key ends with "|".
    """

    def __init__(self, ontology: Ontology):
        self.ontology, self._senses, self._keys = ontology, {}, {}

    @cached_property
    def _synsets(self) -> dict[tuple[str, str], list[int]]:
        """(name, letter of its part of speech) -> synsets."""
        found = {}
        for name, concept in self.ontology.names:
            found.setdefault((name.casefold(), self.ontology.ids[concept][0]), []).append(concept)
        return found

    def link(self, tokens: Sequence[str]) -> list[Mention]:
        """The mentions of one sentence, in order: all words, and also the phrases in which they
        stand."""
        words, size = [token.casefold() for token in tokens], len(tokens)
        spans = [
            (at, end) for at in range(size) for end in range(at + 1, min(at + _LONGEST, size) + 1)
        ]
        keys = ((at, end, self._key(" ".join(words[at:end]))) for at, end in spans)
        return [Mention(*found) for found in keys if found[2]]

    def indices(self, key: str) -> list[int]:
        """The synsets of a mention's key, the most frequent sense first; none for an unknown
        one."""
        if key not in self._senses:
            forms, parts = key.split("|"), _GRAMMAR_PARTS if key.endswith("|") else _DETACHED
            found = [self._synsets.get((form, part), []) for form in forms for part in parts]
            self._senses[key] = list(
                dict.fromkeys(concept for synsets in found for concept in synsets)
            )
        return self._senses[key]

    def _key(self, word: str) -> str:
        """The base forms of a word, "" if WordNet has none."""
        if word not in self._keys:
            of_grammar = word in _OF_GRAMMAR
            forms = self._forms(word, _GRAMMAR_PARTS if of_grammar else _DETACHED)
            self._keys[word] = "|".join(forms) + "|" * (of_grammar and len(forms) > 0)
        return self._keys[word]

    def _forms(self, word: str, parts: Iterable[str]) -> dict[str, None]:
        found = {}
        for part in parts:
            endings, forms = _DETACHED[part], [word] if (word, part) in self._synsets else []
            forms = forms or [
                word.removesuffix(a) + b
                for a, b in endings
                if word.endswith(a) and len(word) > len(a)
            ]
            found |= dict.fromkeys(form for form in forms if (form, part) in self._synsets)
        return found


class Linkers:
    """The mentions that each linker finds, whether they overlap or not. ontology: `side_by_side` of
    theirs."""

    def __init__(self, ontology: Ontology, linkers: Sequence[Linker | Lemmas]):
        self.ontology, self._linkers = ontology, tuple(linkers)
        self._begins = begins([linker.ontology for linker in linkers])

    def link(self, tokens: Sequence[str]) -> list[Mention]:
        """The mentions of one sentence, in order."""
        found = [mention for linker in self._linkers for mention in linker.link(tokens)]
        return sorted(found, key=lambda mention: (mention.start, mention.end))

    def indices(self, concept: str) -> list[int]:
        """The concepts of `ontology` that a mention's `concept` stands for."""
        linkers = zip(self._linkers, self._begins, strict=True)
        return [begin + index for linker, begin in linkers for index in linker.indices(concept)]


BUNDLED = "bundled"


def read_abbreviations() -> tuple[tuple[str, str], ...]:
    """(short form, expansion) of the package's own table."""
    rows = [line.split("\t") for _, line in text_lines(bundled_abbreviations())]
    return tuple((short, expansion) for short, expansion, _ in rows[1:])


def bundled_abbreviations() -> Path:
    """The table of short forms, their expansions and concepts."""
    return mesh.RESOURCES / mesh.ABBREVIATIONS
