"""Sentences in which a related word replaces a word, in their text and in their tokens alike.

A word is replaced only where a noun or an adjective can stand. The training pairs of a corpus give
the words, and an ontology gives their relations. augmentation/polarity.py tells the scope of each
word.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from mednli_jax.data.examples import NLIExample
from mednli_jax.data.text import indefinite_article
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.relations import ANTONYM, CO_HYPONYM, KINDS, related_terms
from mednli_jax.knowledge.words import FUNCTION_WORDS, Lemmas, singular
from mednli_jax.nli.augmentation.polarity import (
    AUXILIARIES,
    DOWN,
    NUMBERS,
    UP,
    directions,
    operators_in,
)
from mednli_jax.nli.encode.links import TextLinker, Tokens


class Sentence(NamedTuple):
    """A text and its tokens. spans: the characters [start, end) of each token in the text."""

    text: str
    tokens: Tokens
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str, tokens: Sequence[str]) -> "Sentence | None":
        """Makes the sentence; None if the tokens do not occur in the text as they are, in order."""
        spans = []
        end = 0
        for token in tokens:
            start = text.find(token, end)
            if start < 0:
                return None
            end = start + len(token)
            spans.append((start, end))
        return cls(text, tuple(tokens), tuple(spans))

    def replace_tokens(
        self, first: int, last: int, text: str, tokens: Sequence[str]
    ) -> "Sentence | None":
        """Replaces tokens `first` to `last` (exclusive) by `text`, which has the tokens `tokens`.

        If first == last, the text is inserted after token first - 1.
        """
        if first == last:
            start = end = self.spans[first - 1][1]
        else:
            start, end = self.spans[first][0], self.spans[last - 1][1]
        new = self.text[:start] + text + self.text[end:]
        return Sentence.of(new, (*self.tokens[:first], *tokens, *self.tokens[last:]))

    def with_word(self, place: int, word: str) -> "Sentence | None":
        """Puts another word at a place. A capital letter is kept, and "a" or "an" before the word
        is made to fit."""
        new = word.capitalize() if self.tokens[place].istitle() else word
        before = self.tokens[place - 1] if place else ""
        if before.casefold() not in ("a", "an"):
            return self.replace_tokens(place, place + 1, new, [new])
        fitting = indefinite_article(word)
        words = [fitting.capitalize() if before.istitle() else fitting, new]
        return self.replace_tokens(place - 1, place + 1, " ".join(words), words)


class Change(NamedTuple):
    """The replacement of the word at a place of a sentence.

    Args:
      scope: "plain" in a sentence without an operator; else "negated" within the operator's scope,
        and "outside" elsewhere.
      kind: what the word is to the replaced one; one of RULES.
    """

    scope: str
    kind: str
    place: int
    word: str

    @property
    def category(self) -> str:
        return self.kind if self.scope == "plain" else f"{self.kind}, {self.scope}"


# -- related words ---------------------------------------------------------------------------------

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
LEAST_OCCURRENCES = 3  # of a word in the training pairs
STEPS = 2  # is-a edges to a hypernym or hyponym, at most
# A noun or an adjective is replaced after one of these. Augmentation also replaces it after an
# operator ("no dog"); the probe of substitutions.py does not.
DETERMINERS = frozenset(
    ("a", "an", "the", "his", "her", "their", "its", "this", "that", "another", "one")
)
_AUGMENTATION_DETERMINERS = DETERMINERS | {"no", "any", "every", "each", "without"}
# Words that look like nouns or adjectives to WordNet, and are pronouns.
PRONOUNS = frozenset(("someone", "somebody", "something", "anyone", "everyone", "other", "one"))
# After "a" these are no noun ("a few", "a lot"), so that "no" cannot replace the article.
_COUNTS = NUMBERS | {"few", "lot", "couple", "bit"}
# Words that "no" may replace at the beginning of a sentence.
_AMOUNTS = NUMBERS | {"some"}
POS = ("", "n", "a")  # parts of speech: any, noun, adjective


class Word(NamedTuple):
    """A word and its concepts in one part of speech.

    Args:
      pos: the part of speech, one of POS.
      senses: the word's concepts of this part of speech, the most frequent first.
      concepts: the word's concepts of all parts of speech.
    """

    text: str
    pos: str
    senses: tuple[int, ...]
    concepts: tuple[int, ...]


class RelatedWord(NamedTuple):
    """A word that is related to another one.

    kind: what this word is to the other, one of RULES. RelatedWord("hypernym", "animal") belongs to
    "dog".
    """

    kind: str
    text: str


# (word, part of speech) -> its related words
RelatedWords = Mapping[tuple[str, str], Sequence[RelatedWord]]


def words_of(train: Iterable[NLIExample], linker: TextLinker) -> Iterator[Word]:
    """Yields the words of the training pairs that may be replaced, or may replace another."""
    names = {name for name, _ in linker.ontology.names}
    counts: Counter[str] = Counter()
    for example in train:
        counts.update(example.premise_tokens)
        counts.update(example.hypothesis_tokens)
    for word, count in sorted(counts.items()):
        if count < LEAST_OCCURRENCES or not _is_base_form(word):
            continue
        mentions = linker.link([word])
        if len(mentions) != 1:
            continue
        concepts = tuple(linker.indices(mentions[0].concept))
        if not isinstance(linker, Lemmas):
            yield Word(word, "", concepts, concepts)
        elif mentions[0].concept == word and word in names:
            # "african" is left out, because WordNet has only the name "African".
            yield from _words_with_pos(word, concepts, linker.ontology.ids)


def _is_base_form(word: str) -> bool:
    """Whether a token is a singular word of the letters a to z, and no pronoun."""
    is_word = word.isalpha() and word.isascii() and word.islower()
    return is_word and singular(word) == word and word not in PRONOUNS


def _words_with_pos(text: str, concepts: tuple[int, ...], ids: Sequence[str]) -> Iterator[Word]:
    """Yields the word as a noun if at least half of its senses are nouns, and as an adjective if at
    least half are adjectives.

    ids: the ids of WordNet's concepts; their first letter is the part of speech.
    """
    for pos in "na":
        senses = tuple(concept for concept in concepts if ids[concept][0] == pos)
        is_comparative = pos == "a" and text.endswith(COMPARED)
        if 2 * len(senses) >= len(concepts) and not is_comparative:
            yield Word(text, pos, senses, concepts)


def related_words_of(ontology: Ontology, words: Sequence[Word]) -> RelatedWords:
    """Finds the words that stand in exactly one relation of RULES to each word.

    Two words count only if their most frequent senses give the same relation as all their senses
    together. Co-hyponyms of WordNet count only for nouns of CONCRETE: a cat is no dog, but an idea
    may be a plan. In other ontologies, whose words have the pos "", all co-hyponyms count.
    """
    by_first = [(word.text, word.senses[:1]) for word in words]
    by_all = [(word.text, word.concepts) for word in words]
    of_first = related_terms(ontology, by_first, max_length=STEPS)
    of_all = related_terms(ontology, by_all, max_length=STEPS)
    bits_of_all = dict(zip(of_all.keys.tolist(), of_all.bits.tolist(), strict=True))
    # The bits of exactly one relation -> its name.
    kind_of_bits = {1 << KINDS.index(kind): kind for kind in RULES}
    kind_of_bits[ANTONYM | CO_HYPONYM] = "antonym"  # antonyms may be co-hyponyms, too
    related_words = defaultdict(list)
    for key, bits in zip(of_first.keys.tolist(), of_first.bits.tolist(), strict=True):
        first, second = divmod(key, len(words))  # key: first * size + second
        word, related_word = words[first], words[second]
        kind = kind_of_bits.get(bits)
        if kind is None or word.pos != related_word.pos or bits != bits_of_all[key]:
            continue
        is_concrete = ontology.types[word.senses[0]].startswith(CONCRETE)
        is_vague = kind == "co_hyponym" and word.pos and not is_concrete
        if not is_vague:
            related_words[word.text, word.pos].append(RelatedWord(kind, related_word.text))
    return related_words


def fits(
    pos: str,
    tokens: Sequence[str],
    place: int,
    determiners: frozenset[str] = DETERMINERS,
) -> bool:
    """Whether a word of a part of speech may stand at a place, after one of `determiners`: a noun
    ends the noun phrase, and an adjective does not."""
    if not pos:
        return True
    follows_determiner = place > 0 and tokens[place - 1] in determiners
    after = tokens[place + 1] if place + 1 < len(tokens) else "."
    ends_phrase = after in FUNCTION_WORDS or not after.isalpha()
    return follows_determiner and (ends_phrase if pos == "n" else not ends_phrase)


class WordChanges:
    """Changes of sentences by the words of training pairs."""

    def __init__(self, train: Sequence[NLIExample], linker: Lemmas) -> None:
        self.related_words = related_words_of(linker.ontology, list(words_of(train, linker)))

    def changes(self, sentence: Sentence) -> Iterator[Change]:
        """Yields all changes whose scope is known."""
        direction_of = directions(sentence.tokens)
        is_plain = not operators_in(sentence.tokens)
        scope_of = {UP: "plain" if is_plain else "outside", DOWN: "negated"}
        for place, related_word in _replaceable(sentence.tokens, self.related_words):
            if direction_of[place] in scope_of:
                scope = scope_of[direction_of[place]]
                yield Change(scope, related_word.kind, place, related_word.text)

    def negate(self, sentence: Sentence, turn: int) -> Sentence | None:
        """Negates the sentence; returns None if no negation fits.

        The negation is "not" or "n't" after the first auxiliary, or "no" in place of an indefinite
        article or of a number that begins the sentence.

        turn: the number of the premise, which varies the choice. Every third premise gets "no"
          where it can; others get "not" and "n't" by turns.
        """
        words = list(map(str.casefold, sentence.tokens))
        auxiliaries = [place for place, word in enumerate(words) if word in AUXILIARIES]
        determiners = list(_replaced_by_no(words))
        if operators_in(words) or not (auxiliaries or determiners):
            return None
        if determiners and (turn % 3 == 0 or not auxiliaries):
            place = determiners[turn // 3 % len(determiners)]
            no = "No" if sentence.tokens[place][0].isupper() else "no"
            return sentence.replace_tokens(place, place + 1, no, [no])
        after = auxiliaries[0] + 1
        if turn % 2:
            return sentence.replace_tokens(after, after, " not", ["not"])
        return sentence.replace_tokens(after, after, "n't", ["n't"])


def _replaced_by_no(words: Sequence[str]) -> Iterator[int]:
    """Yields the places of words that "no" can replace: of indefinite articles, then of a number
    that begins the sentence."""
    for place, (word, after) in enumerate(pairwise((*words, "."))):
        if word in ("a", "an") and after not in _COUNTS:
            yield place
    if words and words[0] in _AMOUNTS:
        yield 0


def _replaceable(tokens: Tokens, related_words: RelatedWords) -> Iterator[tuple[int, RelatedWord]]:
    """Yields (place of a word, a word that may replace it), for all words that the sentence has
    once."""
    words = list(map(str.casefold, tokens))
    for place, word in enumerate(words):
        # A word before "of" is not replaced, because its relation need not hold for the phrase: "a
        # group of people" is no kind of "an organization of people".
        if words.count(word) > 1 or words[place + 1 : place + 2] == ["of"]:
            continue
        for pos in POS:
            if (word, pos) in related_words and fits(pos, words, place, _AUGMENTATION_DETERMINERS):
                for related_word in related_words[word, pos]:
                    if related_word.text not in words:
                        yield place, related_word
