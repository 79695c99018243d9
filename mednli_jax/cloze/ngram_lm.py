"""An n-gram language model with interpolated modified Kneser-Ney smoothing, and what it answers to a cloze query.

Chen & Goodman 1999 (Computer Speech and Language 13), section 3, eqs. 25-27 and the interpolated form of 4.1; counts of
n-grams that begin a sentence as Heafield et al. 2013 (section 2). Šuster & Daelemans 2018, section 5.1, put the most
likely word after the left context of the query into its blank, without a look at the passage.

With a(g), the adjusted count of an n-gram: how often it occurs, for the longest n-grams and those that begin with <s>;
how many different words stand before it, for all others. h' is h without its first word:

  p(w | h) = (a(h w) - D(a(h w))) / sum_v a(h v)  +  b(h) p(w | h')     b(h): what the discounts of h took away
  p(w) = (a(w) - D(a(w))) / sum_v a(v)  +  b() / V                     V: all words, </s> and <unk>, without <s>

Sentences are sequences of strings; a word that the text lacks is <unk>. <s> is never predicted.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mednli_jax.cloze.encoding import ENTITY, phrase_of
from mednli_jax.data.examples import ClozeExample, Entity
from mednli_jax.errors import ConfigError, DataError

UNK, START, END = 0, 1, 2
SPECIALS = ("<unk>", "<s>", "</s>")
ORDER = 4
FALLBACK = (0.5, 1.0, 1.5)  # discounts where a text is too small to estimate them


@dataclass(frozen=True)
class Level:
    """The G n-grams of one length, sorted by context, then word; a context is one of the C n-grams a word shorter.

    keys: int64 [G], row of the context in its level times the number of words, plus the word.
    probability: float64 [G], of the word after the context, interpolated with all shorter contexts.
    backoff: float64 [C], b of each context; 1 where no word ever followed it.
    discounts: of the counts 1, 2, and 3 and more.
    """

    keys: np.ndarray
    probability: np.ndarray
    backoff: np.ndarray
    discounts: tuple[float, float, float]

    def find(self, contexts, words, size) -> np.ndarray:
        """Rows of the n-grams, -1 where there is none; contexts may be -1 as well. size: number of words."""
        keys = np.asarray(contexts, np.int64) * size + words
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where((self.keys[rows] == keys) & (np.asarray(contexts) >= 0), rows, -1)


@dataclass(frozen=True)
class NgramModel:
    """words [V + 1]: SPECIALS first, then those of the text as they first occur; index: number of each of the latter.

    levels: n-grams of 1 word, of 2 and so on, up to the order requested or the text's longest sentence.
    """

    words: tuple[str, ...]
    index: dict[str, int]
    levels: tuple[Level, ...]

    def _contexts(self, history):
        """(length, row) of the contexts at the end of a history that the text has, the empty one first."""
        words = [START, *(self.index.get(token, UNK) for token in history)]
        yield 0, 0
        for length in range(1, min(len(self.levels), len(words) + 1)):
            row = words[-length]
            for level, word in zip(self.levels[1:], words[len(words) - length + 1 :], strict=False):
                row = int(level.find(row, word, len(self.words)))
            if row < 0:
                return
            yield length, row

    def _following(self, length, row):
        """The words seen after a context, and the slice of their rows in the level above it."""
        level, size = self.levels[length], len(self.words)
        found = slice(*np.searchsorted(level.keys, (row * size, (row + 1) * size)))
        return level.keys[found] - row * size, found

    def distribution(self, history: Sequence[str]) -> np.ndarray:
        """float64 [V + 1]: probability of each of `words` after the tokens of a sentence so far; sums to 1."""
        result = np.zeros(len(self.words))
        for length, row in self._contexts(history):
            level = self.levels[length]
            words, found = self._following(length, row)
            result *= level.backoff[row]
            result[words] = level.probability[found]
        return result

    @cached_property
    def _ranking(self):
        """Words by their probability without context, likeliest first."""
        return np.argsort(-self.levels[0].probability, kind="stable")

    def most_likely(self, history: Sequence[str], allowed: np.ndarray | None = None) -> tuple[str, float]:
        """The word with the highest probability after the tokens of a sentence so far, and that probability.

        allowed: bool [V + 1], the words to choose from; None: all but SPECIALS. ("", 0.0) where there is none.
        """
        allowed = np.arange(len(self.words)) >= len(SPECIALS) if allowed is None else allowed
        best = next((int(word) for word in self._ranking if allowed[word]), -1)
        if best < 0:
            return "", 0.0
        highest = float(self.levels[0].probability[best])
        for length, row in self._contexts(history):
            if length:
                # A word seen after this context is likelier than backing off makes it. So two are to be compared: the
                # best of the words seen, and the best after the shorter context, taken down.
                words, found = self._following(length, row)
                chances = np.where(allowed[words], self.levels[length].probability[found], -1.0)
                highest *= float(self.levels[length].backoff[row])
                if len(chances) and chances.max() >= highest:
                    best, highest = int(words[chances.argmax()]), float(chances.max())
        return self.words[best], highest

    def log_probabilities(self, sentences: Iterable[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Natural logarithms of the probability of each word and each </s>, float64 [N], and which were known, bool."""
        words, _ = _numbers(sentences, self.index, grow=False)
        begin = np.maximum.accumulate(np.where(words == START, np.arange(len(words)), 0))
        predicted = np.flatnonzero(words != START)
        chance = self.levels[0].probability[words]
        rows = words.astype(np.int64)  # of the n-gram that starts at a place, level by level
        for n, level in enumerate(self.levels[1:], start=2):
            places = np.flatnonzero(np.arange(len(words)) - begin >= n - 1)
            contexts = rows[places - n + 1]
            found = level.find(contexts, words[places], len(self.words))
            backoff = np.where(contexts >= 0, level.backoff[np.maximum(contexts, 0)], 1.0)
            chance[places] = np.where(found >= 0, level.probability[np.maximum(found, 0)], chance[places] * backoff)
            rows = np.full(len(words), -1, np.int64)
            rows[places - n + 1] = found
        return np.log(chance[predicted]), words[predicted] != UNK

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> dict:
        """perplexity over words and </s>; known_perplexity without the words the text lacks; tokens, unknown."""
        logs, known = self.log_probabilities(sentences)
        return {
            "perplexity": float(np.exp(-logs.mean())),
            "known_perplexity": float(np.exp(-logs[known].mean())),
            "tokens": len(logs),
            "unknown": int((~known).sum()),
        }


# -- training ----------------------------------------------------------------------------------------------------------


def estimate(sentences: Iterable[Sequence[str]], *, order: int = ORDER) -> NgramModel:
    """The model of a text, which is read once. 16 million tokens take about 2 GB."""
    if not 1 <= order <= 6:
        raise ConfigError(f"order is {order}. Fix: give the language model an order of 1 to 6.")
    index: dict[str, int] = {}
    tokens, count = _numbers(sentences, index, grow=True)
    if not count:
        raise DataError("the language model's text holds no words", fix="check what the corpus holds")
    words = (*SPECIALS, *index)
    counts = _counted(tokens, len(words), order)
    return NgramModel(words, index, tuple(_smoothed(counts, len(words))))


def _numbers(sentences, index, grow):
    """Words as one int32 array, <s> before and </s> after each sentence, and how many there are without these."""
    tokens, count = array("i"), 0
    for sentence in sentences:
        numbers = [index.setdefault(t, len(index) + len(SPECIALS)) if grow else index.get(t, UNK) for t in sentence]
        tokens.extend([START, *numbers, END])
        count += len(sentence)
    return np.asarray(tokens, np.int32), count


@dataclass(frozen=True)
class _Counts:
    """The n-grams of one length. keys: as Level's. occur: int64 [G], how often. suffix: int32 [G], row of the n-gram
    without its first word in the level below. begins: bool [G], whether the first word is <s>."""

    keys: np.ndarray
    occur: np.ndarray
    suffix: np.ndarray
    begins: np.ndarray


def _counted(tokens, size, order):
    """One _Counts per length, as far as the text has n-grams."""
    occur = np.bincount(tokens, minlength=size)
    begins = np.arange(size) == START
    levels = [_Counts(np.arange(size, dtype=np.int64), occur, np.zeros(size, np.int32), begins)]
    rows, starts = tokens, np.arange(len(tokens))  # rows: of the n-gram that starts at each place
    for n in range(2, order + 1):
        starts = starts[tokens[starts + n - 2] != END]  # an n-gram ends where its sentence does
        if not len(starts):
            break
        keys = rows[starts] * np.int64(size) + tokens[starts + n - 1]
        sorting = np.argsort(keys)
        keys = keys[sorting]
        first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        occur = np.diff(first, append=len(keys))
        example = starts[sorting[first]]  # a place where each n-gram stands
        levels.append(_Counts(keys[first], occur, rows[example + 1].astype(np.int32), tokens[example] == START))
        rows = np.zeros(len(tokens), np.int32)
        rows[starts[sorting]] = np.repeat(np.arange(len(first), dtype=np.int32), occur)
    return levels


def _smoothed(counts, size):
    """One Level per length."""
    lower = np.full(1, 1 / (size - 1))  # <s> is not predicted
    contexts = 1
    for n, level in enumerate(counts, start=1):
        adjusted = level.occur
        if n < len(counts):
            before = np.bincount(counts[n].suffix, minlength=len(level.keys))
            adjusted = np.where(level.begins, level.occur, before)
        if n == 1:
            adjusted = np.where(level.begins, 0, adjusted)
        discounts = _discounts(adjusted)
        taken = np.array((0.0, *discounts))[np.minimum(adjusted, 3)]
        context = (level.keys // size).astype(np.int32)
        total = np.bincount(context, weights=adjusted, minlength=contexts)
        backoff = np.bincount(context, weights=taken, minlength=contexts)
        backoff = np.divide(backoff, total, out=np.ones(contexts), where=total > 0)
        probability = (adjusted - taken) / total[context] + backoff[context] * lower[level.suffix]
        if n == 1:
            probability[START] = 0.0
        yield Level(level.keys, probability, backoff, discounts)
        lower, contexts = probability, len(level.keys)


def _discounts(adjusted) -> tuple[float, float, float]:
    """D1, D2 and D3+ of the n-grams' counts (Chen & Goodman 1999, eq. 26); FALLBACK where the counts give none."""
    number = [int((adjusted == count).sum()) for count in range(5)]
    if not all(number[1:4]):
        return FALLBACK
    y = number[1] / (number[1] + 2 * number[2])
    found = tuple(k - (k + 1) * y * number[k + 1] / number[k] for k in (1, 2, 3))
    return found if all(0 < value <= k for k, value in enumerate(found, start=1)) else FALLBACK


# -- cloze -------------------------------------------------------------------------------------------------------------


def merged(tokens: Sequence[str], entities: Sequence[Entity]) -> list[str]:
    """Tokens lower-cased, each marked phrase one token: ENTITY and its words, spaces between, as no other token has."""
    words, result, at = [token.lower() for token in tokens], [], 0
    for entity in entities:
        result += words[at : entity.start]
        result.append(ENTITY + " ".join(words[entity.start : entity.end]))
        at = entity.end
    return result + words[at:]


def training_text(examples: Sequence[ClozeExample]) -> Iterable[list[str]]:
    """Sentences of the passages, each once, and the queries with the dataset's answer in the blank."""
    seen = set()
    for example in examples:
        if id(example.passage) not in seen:  # queries share the object
            seen.add(id(example.passage))
            yield from _sentences(example.passage)
        yield [*left(example), ENTITY + phrase_of(example.answers[0].text), *_right(example)]


def _sentences(passage):
    start, entities = 0, list(reversed(passage.entities))
    for end in passage.sentences:
        inside = []
        while entities and entities[-1].end <= end:
            entity = entities.pop()
            inside.append(Entity(entity.start - start, entity.end - start))
        yield merged(passage.tokens[start:end], inside)
        start = end


def left(example: ClozeExample) -> list[str]:
    """The query's tokens before the blank, marked phrases merged."""
    before = [entity for entity in example.query_entities if entity.end <= example.blank]
    return merged(example.query[: example.blank], before)


def _right(example):
    start = example.blank + 1
    after = [Entity(e.start - start, e.end - start) for e in example.query_entities if e.start >= start]
    return merged(example.query[start:], after)


def continuations(
    model: NgramModel, examples: Sequence[ClozeExample], *, entities_only: bool = False
) -> dict[str, str]:
    """The most likely word or phrase after the left context of each query, {uid: text}.

    entities_only: of the marked phrases of the training text; the paper's model may say any word.
    """
    allowed = np.array([word.startswith(ENTITY) for word in model.words]) if entities_only else None
    words = {example.uid: model.most_likely(left(example), allowed)[0] for example in examples}
    return {uid: word.removeprefix(ENTITY) for uid, word in words.items() if word}
