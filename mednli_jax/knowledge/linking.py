"""Finds the concepts that a tokenised sentence names, and reads the user's lists of words for it."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path

import ahocorasick

from mednli_jax.data.examples import Mention
from mednli_jax.errors import Problems
from mednli_jax.io import empty_field, empty_file, line_fault, text_lines
from mednli_jax.knowledge.ontology import Ontology, begins
from mednli_jax.knowledge.readers import mesh

# Words of grammar. No name that is one of these is linked, not even an abbreviation ("or", the operating room).
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

# Everyday words that are names in MeSH ("Face", "Lead", HARD, SAID), in the singular: they state no finding. Chosen
# among the most frequent links in picture captions, where almost every link is a false one, and in reports of trials.
# In order: people and places; what every note speaks of; ordinary things, acts and qualities; acronyms.
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

MIN_LENGTH = 3  # characters of the shortest name that is linked
FUNCTION_WORDS = frozenset(_GRAMMAR.split())
EVERYDAY_WORDS = frozenset(_EVERYDAY.split())

_HYPHENS = re.compile("[-‐‑‒–—]+")
_APOSTROPHES = re.compile("[’ʼ`´]")
_POSSESSIVE = re.compile(r"(?<!\S)'s?(?!\w)|(?<=\w)'s?(?!\w)")
_PUNCTUATION = re.compile(r'([,;:()\[\]{}"!?&=<>*@#$^|~])')


@lru_cache(maxsize=1 << 17)
def normalise(text: str) -> tuple[str, ...]:
    """The pieces of a name or of one token, as they are compared: "Crohn's", "non-smoker," -> ("crohn",), ("non",
    "smoker", ","). Case is folded, punctuation is a piece of its own, as in the Penn Treebank."""
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
    """The word without a plural ending, which need not be a word. Words of up to four letters stay ("aids" is no plural
    of "aid"), as do the endings of Greek and Latin singulars."""
    if len(word) < 5 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word[:-1]


def folded_words(tokens: Iterable[str]) -> set[str]:
    """The words of tokens in the form in which names are looked up: normalised, in the singular."""
    return {singular(part) for token in tokens for part in normalise(token)}


class Linker:
    """Finds the names of an ontology in tokens by Aho-Corasick.

    Names match on token borders only, without regard to case, hyphens ("beta-blocker", "beta blocker"), possessives
    and plural endings. Of overlapping names the leftmost wins, then the longest. If several concepts have the name,
    one with exactly this spelling precedes one that only has its plural or singular; after that the
    ontology's precedence decides (preferred names, then the order of `Ontology.names`).

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
        self._first: dict[str, str] = {}  # key -> its first name, letter for letter
        self._concepts: dict[str, int] = {}  # name, letter for letter -> concept
        self._collect(None if vocabulary is None else folded_words(vocabulary), tuple(abbreviations))
        self._automaton = ahocorasick.Automaton()
        for folded in self._first:
            self._automaton.add_word(f" {folded} ", folded)
        self._automaton.make_automaton()

    def link(self, tokens: Sequence[str]) -> list[Mention]:
        """The mentions of one sentence, in order, not overlapping; `concept` is the ontology's id."""
        if not self._first:
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
        # Keys have a space at both ends, so that the automaton finds whole pieces; starts and ends select whole tokens.
        hits = []
        for last, folded in self._automaton.iter(f" {' '.join(text)} "):
            start, end = starts.get(last - 1 - len(folded)), ends.get(last)
            if start is not None and end is not None:
                hits.append((start, -end, folded))
        mentions, free = [], 0
        for start, end, folded in sorted(hits):
            if start >= free:
                free = -end
                exact = " ".join(part for parts in pieces[start:free] for part in parts)
                mentions.append(Mention(start, free, self.ontology.ids[self._concept(folded, exact)]))
        return mentions

    def indices(self, concept: str) -> list[int]:
        """The concepts of the ontology that a mention's `concept` stands for."""
        return self.ontology.indices(concept)

    def _collect(self, vocabulary: set[str] | None, abbreviations: Sequence[tuple[str, str]]) -> None:
        """Keeps names in order of precedence: short forms, preferred names, then `Ontology.names`."""
        linked, found = self._linked(), {}
        expansions = {_keys(expansion)[0] for _, expansion in abbreviations}
        preferred = ((label, concept) for concept, label in enumerate(self.ontology.labels))
        for name, concept in chain(preferred, self.ontology.names):
            if linked[concept]:
                folded, exact = _keys(name)
                needed = vocabulary is None or folded in expansions or vocabulary.issuperset(folded.split(" "))
                long = len(exact) >= MIN_LENGTH and not self._is_stopped(exact)
                if needed and _is_word(exact) and (long or name in self.ontology.abbreviations):
                    self._first.setdefault(folded, exact)
                    self._concepts.setdefault(exact, concept)
        for short, expansion in abbreviations:
            folded, exact = _keys(expansion)
            if folded in self._first and _is_word(_keys(short)[1]):
                found.setdefault(_keys(short), self._concept(folded, exact))
        for (folded, exact), concept in found.items():  # last: expansions are looked up among the names
            self._first.setdefault(folded, exact)
            self._concepts[exact] = concept

    def _concept(self, folded: str, exact: str) -> int:
        """The concept of the name letter for letter, else of the first name with this key."""
        return self._concepts[exact if exact in self._concepts else self._first[folded]]

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


def _keys(name: str) -> tuple[str, str]:
    """(key under which a name is looked up, the name letter for letter), both as pieces between single spaces."""
    parts = normalise(name)
    return " ".join(map(singular, parts)), " ".join(parts)


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


_OF_GRAMMAR = FUNCTION_WORDS - {"one", "two", "three"}  # numbers have opposites, as other adjectives have
_GRAMMAR_PARTS = "ar"


class Lemmas:
    """Finds the words of WordNet in tokens, by their base forms.

    Unlike a Linker it chooses no sense: a mention's `concept` is a key, the base forms between "|", and `indices` gives
    all their synsets. The base form of a word is the word itself if WordNet has it in a part of speech, else the
    word with its ending replaced. Irregular forms are names that the reader adds. A word of grammar is an adjective or
    an adverb ("near", "all"), never a noun or a verb ("is", the plural of the letter i); its key ends with "|".
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
        """The mentions of one sentence, in order: all words, and also the phrases in which they stand."""
        words, size = [token.casefold() for token in tokens], len(tokens)
        spans = [(at, end) for at in range(size) for end in range(at + 1, min(at + _LONGEST, size) + 1)]
        keys = ((at, end, self._key(" ".join(words[at:end]))) for at, end in spans)
        return [Mention(*found) for found in keys if found[2]]

    def indices(self, key: str) -> list[int]:
        """The synsets of a mention's key, the most frequent sense first; none for an unknown one."""
        if key not in self._senses:
            forms, parts = key.split("|"), _GRAMMAR_PARTS if key.endswith("|") else _DETACHED
            found = [self._synsets.get((form, part), []) for form in forms for part in parts]
            self._senses[key] = list(dict.fromkeys(concept for synsets in found for concept in synsets))
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
            forms = forms or [word.removesuffix(a) + b for a, b in endings if word.endswith(a) and len(word) > len(a)]
            found |= dict.fromkeys(form for form in forms if (form, part) in self._synsets)
        return found


class Linkers:
    """The mentions that each linker finds, whether they overlap or not. ontology: `side_by_side` of theirs."""

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
COLUMNS = ("short", "expansion")


def read_abbreviations(path: Path | str) -> tuple[tuple[str, str], ...]:
    """(short form, expansion): the first two columns of a table with tabs; "bundled" is the package's own table.

    The table may have a header, which calls its second column `expansion`.
    """
    path = bundled_abbreviations() if str(path) == BUNDLED else Path(path)
    problems, found = Problems(), []
    for number, line in text_lines(path, problems):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) < 2 and line.strip():
            problems.add(line_fault(path.name, number, "the row has one column", "write short form, tab, expansion"))
        elif line.strip() and cells[1] != COLUMNS[1]:
            found.append(tuple(cells[:2]))
            if not all(found[-1]):
                problems.add(empty_field(path, number, COLUMNS[found[-1].index("")]))
    problems.raise_if_any()
    if not found:
        raise empty_file(path)
    return tuple(found)


def bundled_abbreviations() -> Path:
    """The file that "bundled" stands for."""
    return mesh.RESOURCES / mesh.ABBREVIATIONS


def read_stop_words(path: Path) -> frozenset[str]:
    """The names of a list, one a line, folded and also in the singular. Lines that start with # are comments."""
    problems, words = Problems(), set()
    for _, text in text_lines(path, problems):
        if text.strip() and not text.lstrip().startswith("#"):
            names = text.strip().casefold(), " ".join(normalise(text))
            words |= {form for name in names for form in (name, singular(name))}
    problems.raise_if_any()
    if not words:
        raise empty_file(path)
    return frozenset(words)
