"""Words of WordNet in place of words of a sentence, by natural logic (nli.polarity)."""

from collections.abc import Iterable, Iterator, Sequence

from mednli_jax.data.examples import NLIExample
from mednli_jax.knowledge.words import Lemmas
from mednli_jax.nli.encoding import Tokens
from mednli_jax.nli.polarity import AUXILIARIES, DOWN, NUMBERS, UP, directions, operators_in
from mednli_jax.nli.replacements import (
    DETERMINERS,
    PARTS,
    Partner,
    Partners,
    fits,
    partners_of,
    words_of,
)
from mednli_jax.nli.sentences import Change, Sentence

_AMOUNTS = NUMBERS | {"some"}
_DETERMINERS = DETERMINERS | {"no", "any", "every", "each", "without"}


class WordChanges:
    """A Changer (nli.sentences) by the words of training pairs. kinds: of relations."""

    def __init__(self, train: Sequence[NLIExample], linker: Lemmas, kinds: Iterable[str]) -> None:
        self.kinds = kinds
        self.partners = partners_of(linker.ontology, list(words_of(train, linker)))

    def changes(self, sentence: Sentence) -> Iterator[Change]:
        direction_of = directions(sentence.tokens)
        is_plain = not operators_in(sentence.tokens)
        scope_of = {UP: "plain" if is_plain else "outside", DOWN: "negated"}
        for place, partner in _replaceable(sentence.tokens, self.partners):
            if direction_of[place] in scope_of and partner.kind in self.kinds:
                scope = scope_of[direction_of[place]]
                yield Change(scope, partner.kind, place, place + 1, partner.text)

    def negated(self, sentence: Sentence, turn: int) -> Sentence | None:
        """The negation is "not" or "n't" after the first auxiliary, or "no" in place of an
        indefinite article or of a number that begins the sentence."""
        words = list(map(str.casefold, sentence.tokens))
        auxiliaries = [place for place, word in enumerate(words) if word in AUXILIARIES]
        articles = [place for place, word in enumerate(words) if word in ("a", "an")]
        if words and words[0] in _AMOUNTS:
            articles.append(0)
        if operators_in(words) or not (auxiliaries or articles):
            return None
        if articles and (turn % 3 == 0 or not auxiliaries):
            place = articles[turn // 3 % len(articles)]
            no = "No" if sentence.tokens[place][0].isupper() else "no"
            return sentence.changed(place, place + 1, no, [no])
        after = auxiliaries[0] + 1
        if turn % 2:
            return sentence.changed(after, after, " not", ["not"])
        return sentence.changed(after, after, "n't", ["n't"])


def _replaceable(tokens: Tokens, partners: Partners) -> Iterator[tuple[int, Partner]]:
    """The places of words that have a partner, and the partner."""
    words = list(map(str.casefold, tokens))
    for place, word in enumerate(words):
        # "a group of people" is no kind of "an organization of people".
        if words.count(word) > 1 or words[place + 1 : place + 2] == ["of"]:
            continue
        for part in PARTS:
            if (word, part) in partners and fits(part, words, place, _DETERMINERS):
                for partner in partners[word, part]:
                    if partner.text not in words:
                        yield place, partner
