"""An n-gram language model with interpolated modified Kneser-Ney smoothing, and its answers to
cloze queries.

Chen & Goodman 1999 (Computer Speech and Language 13), section 3, eqs. 25-27 and the interpolated
form of 4.1; counts of n-grams that begin a sentence as Heafield et al. 2013 (section 2). Šuster &
Daelemans 2018, section 5.1, put the most likely word after the left context of the query into its
blank.

The adjusted count a(g) of the longest n-grams, and of those that begin with <s>, is their number;
of all others, the number of different words that stand before them. h' is h without its first word:

  p(w | h) = (a(h w) - D(a(h w))) / sum_v a(h v)  +  b(h) p(w | h')
  p(w) = (a(w) - D(a(w))) / sum_v a(v)  +  b() / V

b(h): the share that the discounts of h took away; V: all words, </s> and <unk>, without <s>.
Sentences are sequences of strings; a word that the text lacks is <unk>. <s> is never predicted.
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
    """The G n-grams of one length, sorted by context, then word; a context is one of the C n-grams
    a word shorter.

    keys: int64 [G], row of the context in its level times the number of words, plus the word.
    probability: float64 [G], interpolated. backoff: float64 [C], b of each context; 1 where no word
    ever followed it. discounts: of the counts 1, 2, and 3 and more.
    """

    keys: np.ndarray
    probability: np.ndarray
    backoff: np.ndarray
    discounts: tuple[float, float, float]


@dataclass(frozen=True)
class NgramModel:
    """words [V + 1]: SPECIALS first, then those of the text as they first occur; index: number of
    each of the latter.

    levels: n-grams of 1 word, of 2 and so on.
    """

    words: tuple[str, ...]
    index: dict[str, int]
    levels: tuple[Level, ...]

    def _contexts(self, history: Sequence[str]) -> Iterator[tuple[int, int]]:
        """(length, row) of the contexts at the end of a history that the text has, the empty one
        first."""
        words = [START, *(self.index.get(token, UNK) for token in history)]
        yield 0, 0
        for length in range(1, min(len(self.levels), len(words) + 1)):
            row, *rest = words[len(words) - length :]
            for level, word in zip(self.levels[1:], rest, strict=False):
                key = row * len(self.words) + word
                row = int(np.searchsorted(level.keys, key))
                if row == len(level.keys) or level.keys[row] != key:
                    return
            yield length, row

    def distribution(self, history: Sequence[str]) -> np.ndarray:
        """float64 [V + 1]: probability of each of `words` after the tokens of a sentence so far;
        sums to 1."""
        size = len(self.words)
        probability = np.zeros(size)
        for length, row in self._contexts(history):
            level = self.levels[length]
            start, end = np.searchsorted(level.keys, (row * size, (row + 1) * size))
            probability *= level.backoff[row]
            probability[level.keys[start:end] - row * size] = level.probability[start:end]
        return probability


def estimate(sentences: Iterable[Sequence[str]], *, order: int = ORDER) -> NgramModel:
    """The model of a text, which is read once. 16 million tokens take about 2 GB."""
    index: dict[str, int] = {}
    tokens = array("i")
    for sentence in sentences:
        numbers = [index.setdefault(token, len(index) + len(SPECIALS)) for token in sentence]
        tokens.extend([START, *numbers, END])
    words = (*SPECIALS, *index)
    counts = _counted(np.asarray(tokens, np.int32), len(words), order)
    return NgramModel(words, index, tuple(_smoothed(counts, len(words))))


class _Counts(NamedTuple):
    """The n-grams of one length. keys: as Level's. occur: int64 [G], how often. suffix: int32 [G],
    row of the n-gram without its first word in the level below. begins: bool [G], whether the first
    word is <s>."""

    keys: np.ndarray
    occur: np.ndarray
    suffix: np.ndarray
    begins: np.ndarray


def _counted(tokens: np.ndarray, size: int, order: int) -> list[_Counts]:
    """One _Counts per length, as far as the text has n-grams. tokens: int32 [T]. size: number of
    words."""
    words = np.arange(size, dtype=np.int64)
    occur = np.bincount(tokens, minlength=size)
    levels = [_Counts(words, occur, np.zeros(size, np.int32), words == START)]
    row_T = tokens  # the row of the n-gram, of the last length, that starts at each token
    starts = np.arange(len(tokens))
    for n in range(2, order + 1):
        starts = starts[tokens[starts + n - 2] != END]
        if not len(starts):
            break
        keys = row_T[starts] * np.int64(size) + tokens[starts + n - 1]
        sorting = np.argsort(keys)
        keys = keys[sorting]
        is_first = np.concatenate(([True], keys[1:] != keys[:-1]))
        first = np.flatnonzero(is_first)
        occur = np.diff(first, append=len(keys))
        example = starts[sorting[first]]  # a place of each n-gram
        suffix = row_T[example + 1].astype(np.int32)
        levels.append(_Counts(keys[first], occur, suffix, tokens[example] == START))
        row_T = np.zeros(len(tokens), np.int32)
        row_T[starts[sorting]] = np.repeat(np.arange(len(first), dtype=np.int32), occur)
    return levels


def _smoothed(counts: Sequence[_Counts], size: int) -> Iterator[Level]:
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
    """D1, D2 and D3+ of the n-grams' counts (Chen & Goodman 1999, eq. 26); FALLBACK where the
    counts give none."""
    n1, n2, n3, n4 = (int((adjusted == count).sum()) for count in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    d1 = 1 - 2 * y * n2 / n1
    d2 = 2 - 3 * y * n3 / n2
    d3 = 3 - 4 * y * n4 / n3
    is_valid = 0 < d1 <= 1 and 0 < d2 <= 2 and 0 < d3 <= 3
    return (d1, d2, d3) if is_valid else FALLBACK


def _merged(tokens: Sequence[str], entities: Iterable[Entity]) -> list[str]:
    """Tokens lower-cased, each marked phrase as one token: ENTITY and its words with spaces
    between. No other token has a space."""
    words = list(map(str.lower, tokens))
    return join_entities(words, entities, lambda phrase: ENTITY + phrase).words


def training_text(examples: Sequence[ClozeExample]) -> Iterator[list[str]]:
    """Sentences of the passages, each once, and the queries with the dataset's answer in the
    blank."""
    for passage, queries in by_passage(examples):
        start = 0
        for end in passage.sentence_ends:
            yield _merged(passage.tokens[start:end], _between(passage.entities, start, end))
            start = end
        for query in queries:
            start, end = query.blank + 1, len(query.query)
            right = _merged(query.query[start:], _between(query.query_entities, start, end))
            answer = ENTITY + phrase_of(query.answers[0].text)
            yield [*left(query), answer, *right]


def _between(entities: Iterable[Entity], start: int, end: int) -> list[Entity]:
    """The entities of a part of a text, with their places in the part."""
    inside = []
    for entity in entities:
        if start <= entity.start and entity.end <= end:
            inside.append(Entity(entity.start - start, entity.end - start))
    return inside


def left(example: ClozeExample) -> list[str]:
    """The query's tokens before the blank, marked phrases merged."""
    entities = _between(example.query_entities, 0, example.blank)
    return _merged(example.query[: example.blank], entities)


def continuations(model: NgramModel, examples: Sequence[ClozeExample]) -> dict[str, str]:
    """The most likely word or phrase after the left context of each query, {uid: text}."""
    is_allowed = np.arange(len(model.words)) >= len(SPECIALS)
    answers: dict[str, str] = {}
    for example in examples:
        probability = np.where(is_allowed, model.distribution(left(example)), -1.0)
        answers[example.uid] = model.words[int(probability.argmax())].removeprefix(ENTITY)
    return answers
