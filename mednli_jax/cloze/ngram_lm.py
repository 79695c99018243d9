"""An n-gram language model with interpolated modified Kneser-Ney smoothing, and its answers to
cloze queries.

Chen & Goodman 1999 (Computer Speech and Language 13), section 3, eqs. 25-27 and the interpolated
form of 4.1; counts of n-grams that begin a sentence as Heafield et al. 2013 (section 2). Šuster &
Daelemans 2018, section 5.1, answer a query with the word that is most likely after the text left of
the blank.

The adjusted count a(g) of an n-gram of the highest order, or of one that begins with <s>, is the
number of its occurrences. The adjusted count of another n-gram is the number of distinct words
before it. D is the discount of a count, h' is the context h without its first word:

  p(w | h) = (a(h w) - D(a(h w))) / sum_v a(h v)  +  b(h) p(w | h')
  p(w) = (a(w) - D(a(w))) / sum_v a(v)  +  b() / V

b(h) is the share that the discounts of h took away. V is the number of words that can be predicted:
the words of the text, </s> and <unk>, but not <s>. Sentences are sequences of strings. A word that
the text lacks is <unk>.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mednli_jax.cloze.clicr import by_passage
from mednli_jax.cloze.setups import ENTITY, join_entities, phrase_of
from mednli_jax.data.examples import ClozeExample, Entity

UNK, START, END = 0, 1, 2
SPECIALS = ("<unk>", "<s>", "</s>")
ORDER = 4
FALLBACK = (0.5, 1.0, 1.5)  # discounts where a text is too small to estimate them


@dataclass(frozen=True)
class Level:
    """The G n-grams of one length, sorted by context, then by last word.

    The context of an n-gram is the n-gram without its last word. The contexts are the C n-grams of
    the level below; unigrams have one context, which is empty.

    Args:
      keys: int64 [G], (row of the context in the level below) * len(words) + (number of the last
        word). The key of a unigram is the number of its word.
      probability: float64 [G], interpolated: p(last word | context).
      backoff: float64 [C], b of each context; 1 where no word follows the context in the text.
      discounts: D of the counts 1, 2, and 3 and more.
    """

    keys: np.ndarray
    probability: np.ndarray
    backoff: np.ndarray
    discounts: tuple[float, float, float]


@dataclass(frozen=True)
class NgramModel:
    """A language model.

    Args:
      words: V + 1 strings: SPECIALS, then the words of the text by first occurrence.
      index: word of the text -> its index in `words`.
      levels: the n-grams of one word, of two words and so on.
    """

    words: tuple[str, ...]
    index: dict[str, int]
    levels: tuple[Level, ...]

    def _row(self, ngram: Sequence[int]) -> int | None:
        """The row of an n-gram in its level; None if the text lacks it. ngram: numbers of words."""
        row, *rest = ngram  # a unigram's row is the number of its word
        for level, word in zip(self.levels[1:], rest, strict=False):
            key = row * len(self.words) + word
            row = int(np.searchsorted(level.keys, key))
            if row == len(level.keys) or level.keys[row] != key:
                return None
        return row

    def _contexts(self, history: Sequence[str]) -> Iterator[tuple[int, int]]:
        """(length, row) of each context with which a history ends, from the empty one to the
        longest that the text has."""
        words = [START, *(self.index.get(token, UNK) for token in history)]
        yield 0, 0
        for length in range(1, min(len(self.levels), len(words) + 1)):
            row = self._row(words[-length:])
            if row is None:
                return  # the text has no longer one, either
            yield length, row

    def distribution(self, history: Sequence[str]) -> np.ndarray:
        """float64 [V + 1], the probability of each of `words` after the tokens of a sentence so
        far; sums to 1."""
        size = len(self.words)
        probability = np.zeros(size)
        # From short to long contexts. A word that the text has after the context gets its
        # probability in the level, which is interpolated already. Every other word keeps the
        # probability that it has after the shorter context, times the backoff.
        for length, row in self._contexts(history):
            # N-grams of length + 1 words: a context of `length` words, and the word after it.
            level = self.levels[length]
            start, end = np.searchsorted(level.keys, (row * size, (row + 1) * size))
            probability *= level.backoff[row]
            probability[level.keys[start:end] - row * size] = level.probability[start:end]
        return probability


def estimate(sentences: Iterable[Sequence[str]], *, order: int = ORDER) -> NgramModel:
    """Estimates the model of a text, which is read once. order: words of the longest n-grams. 16
    million tokens take about 2 GB."""
    index: dict[str, int] = {}
    tokens = array("i")
    for sentence in sentences:
        numbers = [index.setdefault(token, len(index) + len(SPECIALS)) for token in sentence]
        tokens.extend([START, *numbers, END])
    words = (*SPECIALS, *index)
    counts = _count_ngrams(np.asarray(tokens, np.int32), len(words), order)
    return NgramModel(words, index, tuple(_smooth(counts, len(words))))


class _Counts(NamedTuple):
    """The G n-grams of one length.

    Args:
      keys: int64 [G], see Level.
      occur: int64 [G], how often each occurs.
      suffix: int32 [G], the row in the level below of each n-gram's last n - 1 words; 0 for
        unigrams.
      begins: bool [G], whether the first word is <s>.
    """

    keys: np.ndarray
    occur: np.ndarray
    suffix: np.ndarray
    begins: np.ndarray


def _count_ngrams(tokens: np.ndarray, size: int, order: int) -> list[_Counts]:
    """Counts the n-grams of each length up to `order`, as far as the text has them.

    In `<s> a b </s> <s> a </s>`, bigrams start at tokens 0, 1, 2, 4 and 5. None starts at token 3,
    because no n-gram goes beyond </s>. The distinct ones are `<s> a` (twice), `a b`, `a </s>` and
    `b </s>`; the suffix of `<s> a` is `a`.

    Args:
      tokens: int32 [T], numbers of words.
      size: number of words.
    """
    words = np.arange(size, dtype=np.int64)
    occur = np.bincount(tokens, minlength=size)
    levels = [_Counts(words, occur, np.zeros(size, np.int32), words == START)]
    # The row, in the level below, of the n-gram of n - 1 words that starts at each token. For an
    # n-gram of n words that starts at t, row_T[t] is its context and row_T[t + 1] its suffix.
    row_T = tokens
    starts = np.arange(len(tokens))  # tokens at which an n-gram starts
    for n in range(2, order + 1):
        # Until here, an n-gram of n - 1 words starts at each of `starts`. It is the context of one
        # of n words, unless its last word is </s>.
        starts = starts[tokens[starts + n - 2] != END]
        if not len(starts):
            break
        # The row of the context, and the last word.
        key_of_start = row_T[starts] * np.int64(size) + tokens[starts + n - 1]
        keys, first, row_of_start, occur = np.unique(
            key_of_start, return_index=True, return_inverse=True, return_counts=True
        )
        first_start = starts[first]  # of each distinct n-gram
        suffix = row_T[first_start + 1].astype(np.int32)
        levels.append(_Counts(keys, occur, suffix, tokens[first_start] == START))
        # For the next length: the rows of the n-grams of this one.
        row_T = np.zeros(len(tokens), np.int32)
        row_T[starts] = row_of_start
    return levels


def _smooth(counts: Sequence[_Counts], size: int) -> Iterator[Level]:
    """The Level of each length."""
    # Below the unigrams: one empty n-gram, and the uniform distribution of all words but <s>.
    contexts = 1
    lower = np.full(1, 1 / (size - 1))
    for n, level in enumerate(counts, start=1):
        adjusted = level.occur
        if n < len(counts):
            # counts[n] has the n-grams of n + 1 words. An n-gram of this level is the suffix of as
            # many of them as there are distinct words before it.
            before = np.bincount(counts[n].suffix, minlength=len(level.keys))
            adjusted = np.where(level.begins, level.occur, before)
        if n == 1:  # <s> is never predicted
            adjusted = np.where(level.begins, 0, adjusted)
        discounts = _discounts(adjusted)
        discount = np.array((0.0, *discounts))[np.minimum(adjusted, 3)]
        context = (level.keys // size).astype(np.int32)
        total = np.bincount(context, weights=adjusted, minlength=contexts)
        backoff = np.bincount(context, weights=discount, minlength=contexts)
        backoff = np.divide(backoff, total, out=np.ones(contexts), where=total > 0)
        probability = (adjusted - discount) / total[context]
        probability += backoff[context] * lower[level.suffix]
        if n == 1:
            probability[START] = 0.0
        yield Level(level.keys, probability, backoff, discounts)
        lower, contexts = probability, len(level.keys)


def _discounts(adjusted: np.ndarray) -> tuple[float, float, float]:
    """The discounts D1, D2 and D3+ (Chen & Goodman 1999, eq. 26); FALLBACK if the text is too
    small. adjusted: a of each n-gram."""
    n1, n2, n3, n4 = (int((adjusted == count).sum()) for count in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    d1 = 1 - 2 * y * n2 / n1
    d2 = 2 - 3 * y * n3 / n2
    d3 = 3 - 4 * y * n4 / n3
    is_valid = 0 < d1 <= 1 and 0 < d2 <= 2 and 0 < d3 <= 3
    return (d1, d2, d3) if is_valid else FALLBACK


def _merge_phrases(tokens: Sequence[str], entities: Iterable[Entity]) -> list[str]:
    """The tokens in lower case. A marked phrase becomes one token: ENTITY and its words, as in
    "@entitydry cough". Only tokens of phrases can hold spaces."""
    words = list(map(str.lower, tokens))
    return join_entities(words, entities, lambda phrase: ENTITY + phrase).words


def training_text(examples: Sequence[ClozeExample]) -> Iterator[list[str]]:
    """The sentences of each passage, then its queries with the dataset's answer in the blank, all
    as tokens."""
    for passage, queries in by_passage(examples):
        start = 0
        for end in passage.sentence_ends:
            yield _merge_phrases(
                passage.tokens[start:end], _entities_between(passage.entities, start, end)
            )
            start = end
        for query in queries:
            start, end = query.blank + 1, len(query.query)
            right = _merge_phrases(
                query.query[start:], _entities_between(query.query_entities, start, end)
            )
            answer = ENTITY + phrase_of(query.answers[0].text)
            yield [*left_context(query), answer, *right]


def _entities_between(entities: Iterable[Entity], start: int, end: int) -> list[Entity]:
    """The entities within tokens `start` to `end` of a text, counted from `start`."""
    inside = []
    for entity in entities:
        if start <= entity.start and entity.end <= end:
            inside.append(Entity(entity.start - start, entity.end - start))
    return inside


def left_context(example: ClozeExample) -> list[str]:
    """The tokens of a query before the blank, as in training_text."""
    entities = _entities_between(example.query_entities, 0, example.blank)
    return _merge_phrases(example.query[: example.blank], entities)


def continuations(model: NgramModel, examples: Sequence[ClozeExample]) -> dict[str, str]:
    """Answers each query with the most likely word or phrase after its left context: {uid:
    text}."""
    is_allowed = np.arange(len(model.words)) >= len(SPECIALS)
    answers: dict[str, str] = {}
    for example in examples:
        probability = np.where(is_allowed, model.distribution(left_context(example)), -1.0)
        answers[example.uid] = model.words[int(probability.argmax())].removeprefix(ENTITY)
    return answers
