"""Words as the linker compares them: folded, in the singular; and lists of words that it does not
link."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from mednli_jax.files import text_lines
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

# Units in lower case: as a part of a token they are no name ("cc/hr").
_UNITS = "cc cm dl hr hrs kg mcg meq mg min ml mm mmol mo ms ng pg sec wk yr"

FUNCTION_WORDS = frozenset(_GRAMMAR.split())
EVERYDAY_WORDS = frozenset(_EVERYDAY.split())
UNITS = frozenset(_UNITS.split())
ORDINARY_WORDS = "words.txt.gz"

_HYPHENS = re.compile("[-‐‑‒–—]+")
_APOSTROPHES = re.compile("[’ʼ`´]")
_POSSESSIVE = re.compile(r"(?<!\S)'s?(?!\w)|(?<=\w)'s?(?!\w)")
_PUNCTUATION = re.compile(r'([,;:()\[\]{}"!?&=<>*@#$^|~])')


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
    text = _POSSESSIVE.sub(" ", text)
    text = _HYPHENS.sub(" ", text)
    return tuple(_PUNCTUATION.sub(r" \1 ", text).split())


def pieces_of(text: str) -> tuple[str, ...]:
    """As `normalise`, and each "/" is a piece of its own."""
    pieces = normalise(text)
    if "/" in text:
        return tuple(" ".join(pieces).replace("/", " / ").split())
    return pieces


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
    return {singular(piece) for token in tokens for piece in pieces_of(token)}


@cache
def ordinary_words() -> frozenset[str]:
    """Words of 3 to 7 letters that look like acronyms (see resources/CREDITS.md), most in their
    base form."""
    return frozenset(word for _, word in text_lines(mesh.RESOURCES / ORDINARY_WORDS))


def is_ordinary(word: str) -> bool:
    """Whether a folded word is a word of grammar or an ordinary one, or the plural of an ordinary
    one."""
    forms = {word, word.removesuffix("s"), singular(word)}
    return word in FUNCTION_WORDS or not forms.isdisjoint(ordinary_words())
