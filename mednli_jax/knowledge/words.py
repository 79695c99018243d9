"""Forms of words by which names are looked up: folded and in the singular for the linker, base
forms for WordNet; and lists of words that are not linked."""

import re
from collections.abc import Iterable, Sequence
from functools import cache, cached_property, lru_cache

from mednli_jax.data.examples import Mention
from mednli_jax.files.reading import text_lines
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers import mesh

# Words of grammar. No name that is one of these is linked, not even an abbreviation ("or", the
# operating room).
_GRAMMAR = """
    a about above after again against all also although am among an and any are as at be because
    been before being below between both but by can could did do does doing done down due during
    each either else ever every few for from further get got had has have having he her here hers
    him his how however i if in into is it its itself just last least less made make many may me
    might more most much must my near neither never next no nor not now of off often on once one
    only or other others our out over own per quite rather same several shall she should since so
    some still such than that the their them then there these they this those though three through
    to together too two under until up upon us use used very via was we well were what when where
    whether which while who whom whose why will with within without would yes yet you your
"""
# Everyday words that are names in MeSH ("Face", "Lead", HARD, SAID), in the singular: they state no
# finding. Chosen among the most frequent links in picture captions, where almost every link is a
# false one, and in reports of trials. In order: people and places; what every note speaks of;
# ordinary things, acts and qualities; acronyms.
_EVERYDAY = """
    adult baby boy brother caregiver child children client clinic doctor family father female friend
    girl home hospital house human husband individual infant job male man men mother newborn nurse
    parent partner patient people person physician population room school sibling sister son spouse
    wife woman women work
    care condition diagnose diagnosis disease disorder drug emergency exam examination finding
    health history illness medication medicine method name observation pharmaceutical procedure
    prognosis record recurrence report sign symptom syndrome technique test therapeutic therapeutics
    therapy time treatment
    audition back bed beds bend birth buffer butter cell clay clone coal coffee coke complement
    crown diamond drinking dust eating egg element exercise face food gas gases glass gold hearing
    ice jogging lead magic marathon meridian metal milk mineral movement oil orbit photography
    plastic powder rubber running salt sand sex silk silver singing smoke soil solution spectacle
    speech steam steel sugar suggestion suspension swimming tablet tea tear telescope touch truss
    voice walking water wax wool
    aid alps amp arc dap det dish fad gdp hard imp maid mods mta prod said sid sits snare stem tan
    tens ump
"""
# Units of measurement in lower case: as a part of a token they are no name ("cc/hr").
_MEASUREMENT_UNITS = "cc cm dl hr hrs kg mcg meq mg min ml mm mmol mo ms ng pg sec wk yr"
FUNCTION_WORDS = frozenset(_GRAMMAR.split())
EVERYDAY_WORDS = frozenset(_EVERYDAY.split())
MEASUREMENT_UNITS = frozenset(_MEASUREMENT_UNITS.split())
ORDINARY_WORDS = "words.txt.gz"
_HYPHENS = re.compile("[-‐‑‒–—]+")
_APOSTROPHES = re.compile("[’ʼ`´]")
_POSSESSIVE = re.compile(r"(?<!\S)'s?(?!\w)|(?<=\w)'s?(?!\w)")
_PUNCTUATION = re.compile(r'([,;:()\[\]{}"!?&=<>*@#$^|~])')
_MOST_TOKENS = 3  # of a phrase that is looked up
# Endings and their replacements in the base form, by the letter of a part of speech: morphy(7WN).
_ENDINGS = {
    "n": "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y",
    "v": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "a": "er: est: er:e est:e",
    "r": "",
}
# Numbers have opposites, as other adjectives have.
_OF_GRAMMAR = FUNCTION_WORDS - {"one", "two", "three"}
_GRAMMAR_POS = "ar"


@lru_cache(maxsize=1 << 17)
def normalise(text: str) -> tuple[str, ...]:
    """Splits a name or a token into the pieces that are compared: "Crohn's", "non-smoker," ->
    ("crohn",), ("non", "smoker", ","). Case is folded, punctuation is a piece of its own, as in the
    Penn Treebank."""
    text = text.casefold()
    if text.isalpha():
        return (text,)
    if text.isascii() and text.replace(" ", "").isalnum():  # most names: nothing to fold
        return tuple(text.split())
    text = _APOSTROPHES.sub("'", text)
    text = _POSSESSIVE.sub(" ", text)
    text = _HYPHENS.sub(" ", text)
    return tuple(_PUNCTUATION.sub(r" \1 ", text).split())


def pieces_of(text: str) -> tuple[str, ...]:
    """Splits as `normalise` does, and each "/" is a piece of its own."""
    pieces = normalise(text)
    if "/" in text:
        return tuple(" ".join(pieces).replace("/", " / ").split())
    return pieces


@lru_cache(maxsize=1 << 17)
def singular(word: str) -> str:
    """Cuts the plural ending off a word; the result need not be a word. Words of up to four letters
    stay ("aids" is no plural of "aid"), as do the endings of Greek and Latin singulars."""
    if len(word) < 5 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word[:-1]


def folded_words(tokens: Iterable[str]) -> set[str]:
    """The words of tokens in the form of the look-up: normalised, in the singular."""
    return {singular(piece) for token in tokens for piece in pieces_of(token)}


@cache
def ordinary_words() -> frozenset[str]:
    """Words of 3 to 7 letters that look like acronyms (see resources/CREDITS.md), most in their
    base form."""
    return frozenset(word for _, word in text_lines(mesh.RESOURCES / ORDINARY_WORDS))


def is_ordinary(word: str) -> bool:
    """Whether a folded word is a word of grammar, an ordinary word, or the plural of an ordinary
    word."""
    forms = {word, word.removesuffix("s"), singular(word)}
    return word in FUNCTION_WORDS or not forms.isdisjoint(ordinary_words())


class Lemmas:
    """Finds the words of WordNet in tokens, by their base forms.

    Unlike a Linker it chooses no sense: the `concept` of a mention is the key of a word, and
    `indices` gives all synsets of the key. A key is the base forms of the word with "|" between
    them. In each part of speech the base form is the word itself if WordNet has it, else the word
    with its ending replaced. Irregular forms are names that the reader adds.

    A word of grammar is looked up as an adjective and an adverb ("near", "all"), but not as a noun
    or a verb ("is", the plural of the letter i). Its key ends with "|".
    """

    def __init__(self, ontology: Ontology) -> None:
        self.ontology = ontology
        self._key_of: dict[str, str] = {}
        self._indices_of: dict[str, list[int]] = {}

    @cached_property
    def _synsets(self) -> dict[tuple[str, str], list[int]]:
        """Maps (name, letter of its part of speech) to synsets."""
        synsets: dict[tuple[str, str], list[int]] = {}
        for name, concept in self.ontology.names:
            pos = self.ontology.ids[concept][0]
            synsets.setdefault((name.casefold(), pos), []).append(concept)
        return synsets

    @cached_property
    def _beginnings(self) -> set[str]:
        """The words with which longer names begin. Only the last word of a name is inflected."""
        beginnings = set()
        for name, _ in self._synsets:
            words = name.split(" ")
            for end in range(1, min(len(words), _MOST_TOKENS)):
                beginnings.add(" ".join(words[:end]))
        return beginnings

    def link(self, tokens: Sequence[str]) -> list[Mention]:
        """The mentions of one sentence, in order. Mentions of phrases and of their words
        overlap."""
        words = list(map(str.casefold, tokens))
        mentions = []
        for start in range(len(words)):
            phrase = ""
            for end, word in enumerate(words[start : start + _MOST_TOKENS], start=start + 1):
                phrase = f"{phrase} {word}" if phrase else word
                key = self._key(phrase)
                if key:
                    mentions.append(Mention(start, end, key))
                if phrase not in self._beginnings:
                    break
        return mentions

    def indices(self, key: str) -> list[int]:
        """The synsets of a key, the most frequent sense first; [] for an unknown key."""
        if key not in self._indices_of:
            all_pos = _GRAMMAR_POS if key.endswith("|") else _ENDINGS
            indices: list[int] = []
            for form in key.split("|"):
                for pos in all_pos:
                    indices += self._synsets.get((form, pos), ())
            self._indices_of[key] = list(dict.fromkeys(indices))
        return self._indices_of[key]

    def _key(self, word: str) -> str:
        """The key of a word: its base forms; "" if WordNet has none."""
        if word not in self._key_of:
            is_of_grammar = word in _OF_GRAMMAR
            forms = self._base_forms(word, _GRAMMAR_POS if is_of_grammar else _ENDINGS)
            key = "|".join(forms)
            self._key_of[word] = f"{key}|" if key and is_of_grammar else key
        return self._key_of[word]

    def _base_forms(self, word: str, all_pos: Iterable[str]) -> list[str]:
        forms: list[str] = []
        for pos in all_pos:
            if (word, pos) in self._synsets:
                forms.append(word)
                continue
            for pair in _ENDINGS[pos].split():
                ending, replacement = pair.split(":")
                form = word.removesuffix(ending) + replacement
                is_inflected = word.endswith(ending) and word != ending
                if is_inflected and (form, pos) in self._synsets:
                    forms.append(form)
        return list(dict.fromkeys(forms))
