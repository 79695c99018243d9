"""Words of a sentence and their senses in WordNet: each word stands for all synsets of its base forms."""

from collections.abc import Sequence
from functools import cached_property

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.linking import FUNCTION_WORDS
from mednli_jax.knowledge.ontology import Ontology

LONGEST = 3  # tokens of a name
# Endings and their replacements in the base form, by the letter of a part of speech: morphy(7WN).
_ENDINGS = {
    "n": "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y",
    "v": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "a": "er: est: er:e est:e",
    "r": "",
}
DETACHED = {part: [pair.split(":") for pair in pairs.split()] for part, pairs in _ENDINGS.items()}


class Lemmas:
    """Finds the words of WordNet in tokens, by their base forms; immutable and deterministic.

    Unlike a Linker it chooses no sense: a mention's `concept` is a key, the base forms between "|", and `indices` gives
    all their synsets. The base form of a word is the word itself if WordNet has it in a part of speech, else the
    word with its ending replaced. Irregular forms are names that the reader adds. Of overlapping names the leftmost
    wins, then the longest. Words of grammar are not linked.
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
        """The mentions of one sentence, in order, not overlapping."""
        words, mentions, place = [token.casefold() for token in tokens], [], 0
        while place < len(words):
            for end in range(min(place + LONGEST, len(words)), place, -1):
                if key := self._key(" ".join(words[place:end])):
                    mentions.append(Mention(place, end, key))
                    place = end - 1
                    break
            place += 1
        return mentions

    def indices(self, key: str) -> list[int]:
        """The synsets of a mention's key, the most frequent sense first; none for an unknown one."""
        if key not in self._senses:
            forms = key.split("|")
            found = [self._synsets.get((form, part), []) for form in forms for part in DETACHED]
            self._senses[key] = list(dict.fromkeys(concept for synsets in found for concept in synsets))
        return self._senses[key]

    def _key(self, word: str) -> str:
        """The base forms of a word, "" if WordNet has none."""
        if word not in self._keys:
            forms = {} if word in FUNCTION_WORDS or not any(map(str.isalpha, word)) else self._forms(word)
            self._keys[word] = "|".join(forms)
        return self._keys[word]

    def _forms(self, word: str) -> dict[str, None]:
        found = {}
        for part, endings in DETACHED.items():
            forms = [word] if (word, part) in self._synsets else []
            forms = forms or [word.removesuffix(a) + b for a, b in endings if word.endswith(a) and len(word) > len(a)]
            found |= dict.fromkeys(form for form in forms if (form, part) in self._synsets)
        return found
