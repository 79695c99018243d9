"""Sentences that are changed in their text and in their tokens alike."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from mednli_jax.nli.encoding import Tokens

_VOWEL_SOUND = re.compile(r"(?!uni[^n]|us[aeu]|eu|one|once|ewe|ut[ei])[aeiou]|hour|honest|heir")


class Sentence(NamedTuple):
    """A text, its tokens, and the first character of each and the one after its last."""

    text: str
    tokens: Tokens
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str, tokens: Sequence[str]) -> "Sentence | None":
        """None where the tokens are not those of the text as it stands."""
        spans = []
        end = 0
        for token in tokens:
            start = text.find(token, end)
            if start < 0:
                return None
            end = start + len(token)
            spans.append((start, end))
        return cls(text, tuple(tokens), tuple(spans))

    def changed(self, first: int, last: int, text: str, tokens: Sequence[str]) -> "Sentence | None":
        """With a text and its tokens in place of tokens `first` to `last` (exclusive)."""
        start = self.spans[first][0] if last > first else self.spans[first - 1][1]
        end = self.spans[last - 1][1] if last > first else start
        new = self.text[:start] + text + self.text[end:]
        return Sentence.of(new, (*self.tokens[:first], *tokens, *self.tokens[last:]))

    def with_words(self, first: int, last: int, text: str) -> "Sentence | None":
        """With the words of a text in place of tokens `first` to `last` (exclusive); a capital
        letter stays, and the article before them is made to fit."""
        words = text.split()
        if self.tokens[first].istitle():
            words[0] = words[0].capitalize()
        old = self.tokens[first - 1] if first else ""
        if old.casefold() in ("a", "an"):
            fitting = article(words[0])
            words.insert(0, fitting.capitalize() if old.istitle() else fitting)
            first -= 1
        return self.changed(first, last, " ".join(words), words)


class Change(NamedTuple):
    """Words in place of tokens `first` to `last` (exclusive) of a sentence.

    scope: of these tokens: "plain", "negated", or "outside" of a negation. kind: of the relation.
    """

    scope: str
    kind: str
    first: int
    last: int
    words: str

    @property
    def category(self) -> str:
        return self.kind if self.scope == "plain" else f"{self.kind}, {self.scope}"


class Changer(Protocol):
    """Knows what may stand in place of a part of a sentence."""

    def changes(self, sentence: Sentence) -> Iterator[Change]:
        """All changes whose scope is known."""

    def negated(self, sentence: Sentence, turn: int) -> Sentence | None:
        """The sentence with a negation, None where none fits. turn: a number that chooses among
        several."""


def article(word: str) -> str:
    """The indefinite article before a word."""
    return "an" if _VOWEL_SOUND.match(word.casefold()) else "a"
