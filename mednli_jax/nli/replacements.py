"""Words of a corpus that an ontology relates, and the places in a sentence where they fit."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mednli_jax.data.examples import NLIExample
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.relations import ANTONYM, CO_HYPONYM, KINDS, related
from mednli_jax.knowledge.words import FUNCTION_WORDS, Lemmas, singular
from mednli_jax.nli.encoding import TextLinker

RULES = {
    "synonym": "entailment",
    "hypernym": "entailment",
    "hyponym": "neutral",
    "antonym": "contradiction",
    "co_hyponym": "contradiction",
}
COMPARED = ("er", "est")  # endings of comparatives, which WordNet does not list
# WordNet's noun categories whose co-hyponyms mostly exclude each other.
CONCRETE = ("noun.animal", "noun.artifact", "noun.body", "noun.food", "noun.plant")
LEAST = 3
STEPS = 2  # is-a edges to a hypernym or hyponym, at most
DETERMINERS = frozenset(
    ("a", "an", "the", "his", "her", "their", "its", "this", "that", "another", "one")
)
PRONOUNS = frozenset(("someone", "somebody", "something", "anyone", "everyone", "other", "one"))
PARTS = ("", "n", "a")  # parts of speech: any, noun, adjective
_VOWEL_SOUND = re.compile(r"(?!uni[^n]|us[aeu]|eu|one|once|ewe|ut[ei])[aeiou]|hour|honest|heir")


class Word(NamedTuple):
    """A word and its concepts in one part of speech.

    senses: of this part of speech, the most frequent first. concepts: of all parts of speech.
    """

    text: str
    part: str
    senses: tuple[int, ...]
    concepts: tuple[int, ...]


class Partner(NamedTuple):
    """A related word; kind: the relation of the first word to it, one of RULES."""

    kind: str
    text: str


Partners = Mapping[tuple[str, str], Sequence[Partner]]  # of a word in a part of speech


def words_of(train: Iterable[NLIExample], linker: TextLinker) -> Iterator[Word]:
    """The words of the training pairs that may be replaced, or may replace another."""
    names = {name for name, _ in linker.ontology.names}
    counts: Counter[str] = Counter()
    for example in train:
        counts.update(example.premise_tokens)
        counts.update(example.hypothesis_tokens)
    for word, count in sorted(counts.items()):
        is_word = word.isalpha() and word.isascii() and word.islower()
        if count < LEAST or not is_word or singular(word) != word or word in PRONOUNS:
            continue
        mentions = linker.link([word])
        if len(mentions) != 1:
            continue
        concepts = tuple(linker.indices(mentions[0].concept))
        if not isinstance(linker, Lemmas):
            yield Word(word, "", concepts, concepts)
        elif mentions[0].concept == word and word in names:  # WordNet has "African" alone
            for part in "na":
                ids = linker.ontology.ids
                senses = tuple(concept for concept in concepts if ids[concept][0] == part)
                compared = part == "a" and word.endswith(COMPARED)
                if 2 * len(senses) >= len(concepts) and not compared:
                    yield Word(word, part, senses, concepts)


def partners_of(ontology: Ontology, words: Sequence[Word]) -> Partners:
    """The words that have one relation to each word."""
    by_first = [(word.text, word.senses[:1]) for word in words]
    by_all = [(word.text, word.concepts) for word in words]
    of_first = related(ontology, by_first, max_length=STEPS)
    of_all = related(ontology, by_all, max_length=STEPS)
    bits_of_all = dict(zip(of_all.keys.tolist(), of_all.bits.tolist(), strict=True))
    kind_of_bits = {1 << KINDS.index(kind): kind for kind in RULES}
    kind_of_bits[ANTONYM | CO_HYPONYM] = "antonym"
    partners = defaultdict(list)
    for key, bits in zip(of_first.keys.tolist(), of_first.bits.tolist(), strict=True):
        first, second = divmod(key, len(words))
        word, partner = words[first], words[second]
        kind = kind_of_bits.get(bits)
        if kind is None or word.part != partner.part or bits != bits_of_all[key]:
            continue
        is_concrete = ontology.types[word.senses[0]].startswith(CONCRETE)
        if kind != "co_hyponym" or not word.part or is_concrete:
            partners[word.text, word.part].append(Partner(kind, partner.text))
    return partners


def fits(
    part: str,
    tokens: Sequence[str],
    place: int,
    determiners: frozenset[str] = DETERMINERS,
) -> bool:
    """Whether a word of a part of speech may stand at this place."""
    if not part:
        return True
    after = tokens[place + 1] if place + 1 < len(tokens) else "."
    of_grammar = after in FUNCTION_WORDS or not after.isalpha()
    return place > 0 and tokens[place - 1] in determiners and of_grammar == (part == "n")


def article(word: str) -> str:
    """The indefinite article before a word."""
    return "an" if _VOWEL_SOUND.match(word.casefold()) else "a"
