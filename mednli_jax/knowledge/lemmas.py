"""Finds the words of WordNet in tokens, by their base forms."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.words import FUNCTION_WORDS

_MOST_TOKENS = 3  # of a name
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

    Unlike a Linker it chooses no sense: a mention's `concept` is a key, the base forms between "|",
    and `indices` gives all their synsets. The base form of a word is the word itself if WordNet has
    it in a part of speech, else the word with its ending replaced. Irregular forms are names that
    the reader adds. A word of grammar is an adjective or an adverb ("near", "all"), never a noun or
    a verb ("is", the plural of the letter i); its key ends with "|".
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

    def link(self, tokens: Sequence[str]) -> list[Mention]:
        """The mentions of one sentence, in order: all words, and also the phrases in which they
        stand."""
        words = [token.casefold() for token in tokens]
        mentions = []
        for start in range(len(words)):
            for end in range(start + 1, min(start + _MOST_TOKENS, len(words)) + 1):
                key = self._key(" ".join(words[start:end]))
                if key:
                    mentions.append(Mention(start, end, key))
        return mentions

    def indices(self, key: str) -> list[int]:
        """The synsets of a mention's key, the most frequent sense first; none for an unknown
        one."""
        if key not in self._indices_of:
            parts_of_speech = _GRAMMAR_PARTS if key.endswith("|") else _ENDINGS
            indices: dict[int, None] = {}
            for form in key.split("|"):
                for part in parts_of_speech:
                    indices |= dict.fromkeys(self._synsets.get((form, part), ()))
            self._indices_of[key] = list(indices)
        return self._indices_of[key]

    def _key(self, word: str) -> str:
        """The base forms of a word, "" if WordNet has none."""
        if word not in self._key_of:
            if word in _OF_GRAMMAR:
                forms = self._base_forms(word, _GRAMMAR_PARTS)
                self._key_of[word] = "".join(f"{form}|" for form in forms)
            else:
                self._key_of[word] = "|".join(self._base_forms(word, _ENDINGS))
        return self._key_of[word]

    def _base_forms(self, word: str, parts_of_speech: Iterable[str]) -> list[str]:
        forms: dict[str, None] = {}
        for part in parts_of_speech:
            if (word, part) in self._synsets:
                forms[word] = None
                continue
            for pair in _ENDINGS[part].split():
                ending, replacement = pair.split(":")
                form = word.removesuffix(ending) + replacement
                is_inflected = word.endswith(ending) and word != ending
                if is_inflected and (form, part) in self._synsets:
                    forms[form] = None
        return list(forms)
