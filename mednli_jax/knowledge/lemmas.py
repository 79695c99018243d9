"""Finds the words of WordNet in tokens, by their base forms."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.words import FUNCTION_WORDS

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
_GRAMMAR_PARTS = "ar"


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
        """(name, letter of its part of speech) -> synsets."""
        synsets: dict[tuple[str, str], list[int]] = {}
        for name, concept in self.ontology.names:
            part_of_speech = self.ontology.ids[concept][0]
            synsets.setdefault((name.casefold(), part_of_speech), []).append(concept)
        return synsets

    @cached_property
    def _beginnings(self) -> set[str]:
        """The words with which a longer name begins. Only its last word is inflected."""
        beginnings = set()
        for name, _ in self._synsets:
            words = name.split(" ")
            for end in range(1, min(len(words), _MOST_TOKENS)):
                beginnings.add(" ".join(words[:end]))
        return beginnings

    def link(self, tokens: Sequence[str]) -> list[Mention]:
        """The mentions of one sentence, in order; those of phrases and of their words overlap."""
        words = [token.casefold() for token in tokens]
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
        """The synsets of a key, the most frequent sense first; none for an unknown key."""
        if key not in self._indices_of:
            parts_of_speech = _GRAMMAR_PARTS if key.endswith("|") else _ENDINGS
            indices: list[int] = []
            for form in key.split("|"):
                for part in parts_of_speech:
                    indices += self._synsets.get((form, part), ())
            self._indices_of[key] = list(dict.fromkeys(indices))
        return self._indices_of[key]

    def _key(self, word: str) -> str:
        """The base forms of a word, "" if WordNet has none."""
        if word not in self._key_of:
            is_of_grammar = word in _OF_GRAMMAR
            forms = self._base_forms(word, _GRAMMAR_PARTS if is_of_grammar else _ENDINGS)
            key = "|".join(forms)
            self._key_of[word] = f"{key}|" if key and is_of_grammar else key
        return self._key_of[word]

    def _base_forms(self, word: str, parts_of_speech: Iterable[str]) -> list[str]:
        forms: list[str] = []
        for part in parts_of_speech:
            if (word, part) in self._synsets:
                forms.append(word)
                continue
            for pair in _ENDINGS[part].split():
                ending, replacement = pair.split(":")
                form = word.removesuffix(ending) + replacement
                is_inflected = word.endswith(ending) and word != ending
                if is_inflected and (form, part) in self._synsets:
                    forms.append(form)
        return list(dict.fromkeys(forms))
