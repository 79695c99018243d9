"""An n-gram language model with interpolated modified Kneser-Ney smoothing, and its answers to
cloze queries.

Chen & Goodman 1999 (Computer Speech and Language 13), section 3, eqs. 25-27 and the interpolated
form of 4.1; counts of n-grams that begin a sentence as Heafield et al. 2013 (section 2). Šuster &
Daelemans 2018, section 5.1, put the most likely word after the left context of the query into its
blank.

The adjusted count a(g) of the longest n-grams, and of those that begin with <s>, is their number;
of all others, the number of different words that stand before them. h' is h without its first word:

  p(w | h) = (a(h w) - D(a(h w))) / sum_v a(h v)  +  b(h) p(w | h')     b(h): what the discounts of h took away
  p(w) = (a(w) - D(a(w))) / sum_v a(v)  +  b() / V                     V: all words, </s> and <unk>, without <s>

Sentences are sequences of strings; a word that the text lacks is <unk>. <s> is never predicted.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mednli_jax.cloze.clicr import by_passage
from mednli_jax.cloze.encoding import ENTITY, merged, phrase_of
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

    def _contexts(self, history):
        """(length, row) of the contexts at the end of a history that the text has, the empty one
        first."""
        words = [START, *(self.index.get(token, UNK) for token in history)]
        yield 0, 0
        for length in range(1, min(len(self.levels), len(words) + 1)):
            row = words[-length]
            for level, word in zip(self.levels[1:], words[len(words) - length + 1 :], strict=False):
                key = row * len(self.words) + word
                row = int(np.searchsorted(level.keys, key))
                if row == len(level.keys) or level.keys[row] != key:
                    return
            yield length, row

    def distribution(self, history: Sequence[str]) -> np.ndarray:
        """float64 [V + 1]: probability of each of `words` after the tokens of a sentence so far;
        sums to 1."""
        result, size = np.zeros(len(self.words)), len(self.words)
        for length, row in self._contexts(history):
            level = self.levels[length]
            found = slice(*np.searchsorted(level.keys, (row * size, (row + 1) * size)))
            result *= level.backoff[row]
            result[level.keys[found] - row * size] = level.probability[found]
        return result


def estimate(sentences: Iterable[Sequence[str]], *, order: int = ORDER) -> NgramModel:
    """The model of a text, which is read once. 16 million tokens take about 2 GB."""
    index, tokens = {}, array("i")
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


def _counted(tokens, size, order):
    """One _Counts per length, as far as the text has n-grams."""
    occur = np.bincount(tokens, minlength=size)
    begins = np.arange(size) == START
    levels = [_Counts(np.arange(size, dtype=np.int64), occur, np.zeros(size, np.int32), begins)]
    rows, starts = tokens, np.arange(len(tokens))
    for n in range(2, order + 1):
        starts = starts[tokens[starts + n - 2] != END]
        if not len(starts):
            break
        keys = rows[starts] * np.int64(size) + tokens[starts + n - 1]
        sorting = np.argsort(keys)
        keys = keys[sorting]
        first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        occur = np.diff(first, append=len(keys))
        example = starts[sorting[first]]
        levels.append(
            _Counts(
                keys[first], occur, rows[example + 1].astype(np.int32), tokens[example] == START
            )
        )
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
    """D1, D2 and D3+ of the n-grams' counts (Chen & Goodman 1999, eq. 26); FALLBACK where the
    counts give none."""
    number = [int((adjusted == count).sum()) for count in range(5)]
    if not all(number[1:4]):
        return FALLBACK
    y = number[1] / (number[1] + 2 * number[2])
    found = tuple(k - (k + 1) * y * number[k + 1] / number[k] for k in (1, 2, 3))
    return found if all(0 < value <= k for k, value in enumerate(found, start=1)) else FALLBACK


def _merged(tokens: Sequence[str], entities: Iterable[Entity]) -> list[str]:
    """Tokens lower-cased, each marked phrase one token: ENTITY and its words, spaces between, as no
    other token has."""
    return merged([token.lower() for token in tokens], entities, lambda phrase: ENTITY + phrase)[0]


def training_text(examples: Sequence[ClozeExample]) -> Iterable[list[str]]:
    """Sentences of the passages, each once, and the queries with the dataset's answer in the
    blank."""
    for passage, queries in by_passage(examples):
        start, entities = 0, list(reversed(passage.entities))
        for end in passage.sentences:
            inside = []
            while entities and entities[-1].end <= end:
                entity = entities.pop()
                inside.append(Entity(entity.start - start, entity.end - start))
            yield _merged(passage.tokens[start:end], inside)
            start = end
        for example in queries:
            start = example.blank + 1
            after = [
                Entity(e.start - start, e.end - start)
                for e in example.query_entities
                if e.start >= start
            ]
            answer = ENTITY + phrase_of(example.answers[0].text)
            yield [*left(example), answer, *_merged(example.query[start:], after)]


def left(example: ClozeExample) -> list[str]:
    """The query's tokens before the blank, marked phrases merged."""
    before = [entity for entity in example.query_entities if entity.end <= example.blank]
    return _merged(example.query[: example.blank], before)


def continuations(
    model: NgramModel, examples: Sequence[ClozeExample], *, entities_only: bool = False
) -> dict[str, str]:
    """The most likely word or phrase after the left context of each query, {uid: text}.

    entities_only: among marked phrases of the training text; the paper's model may say any word.
    """
    allowed = np.arange(len(model.words)) >= len(SPECIALS)
    if entities_only:
        allowed = np.array([word.startswith(ENTITY) for word in model.words])
    found = {}
    for example in examples if allowed.any() else ():
        chances = np.where(allowed, model.distribution(left(example)), -1.0)
        found[example.uid] = model.words[int(chances.argmax())].removeprefix(ENTITY)
    return found
