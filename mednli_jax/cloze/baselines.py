"""Baselines of cloze queries that need no training: a random entity, the most frequent, the most
similar context.

Šuster & Daelemans 2018, section 5.1 and Appendix A. Each takes examples and gives {uid: text},
lower-cased with a space between tokens; a query whose passage has nothing to choose from gets none.
An entity is a marked phrase of the passage, distinguished from others by its lower-cased words.

  rand-entity     a mention drawn at random, frequent entities more often; `random_expectation`: the mean of many draws
  maxfreq-entity  the entity with most mentions, the first to occur of several. `outside_query`: of those that are
                  not marked in the query (of all where all are), which the paper does not have
  sim-entity      the mention whose context is most like the blank's: cosine of the summed vectors of up to `window`
                  words to each side within the sentence, the phrase itself left out (eq. 1)
  rand-word, maxfreq-word, sim-word   the same of single words of the passage. The paper's code has the first and the
                  last; of the most frequent words those count that are no grammar and have a letter.
  upper_bound     the entity that scores best: the limit of a reader that answers with an entity of the passage
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from mednli_jax.cloze.clicr import by_passage
from mednli_jax.cloze.scores import (
    embedding_score,
    exact_match,
    normalise,
    query_scores,
    summary,
    texts,
    token_f1,
)
from mednli_jax.data.examples import ClozeExample, Entity
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.data.vector_formats import read_head
from mednli_jax.data.vectors import load_vectors
from mednli_jax.errors import DataError
from mednli_jax.knowledge.words import FUNCTION_WORDS
from mednli_jax.terminal import Bar

WINDOW = 3  # words to each side (Appendix A)
WINDOWS = tuple(range(1, 11))
DRAWS = 10


def mentions(tokens: Sequence[str], entities: Iterable[Entity]) -> list[str]:
    """The phrase of each mention, lower-cased, in order."""
    return [" ".join(tokens[entity.start : entity.end]).lower() for entity in entities]


def random_entity(
    examples: Sequence[ClozeExample], *, seed: int = 0, words: bool = False
) -> dict[str, str]:
    """The same answers for the same seed and the same examples in the same order. words: not
    entities."""
    rng, predictions = np.random.default_rng(seed), {}
    for passage, queries in by_passage(examples):
        choices = (
            [*map(str.lower, passage.tokens)]
            if words
            else mentions(passage.tokens, passage.entities)
        )
        if choices:
            drawn = rng.integers(len(choices), size=len(queries))
            predictions |= {
                query.uid: choices[place] for query, place in zip(queries, drawn, strict=True)
            }
    return predictions


def random_expectation(
    examples: Sequence[ClozeExample],
    vocab: Vocab | None = None,
    vectors: np.ndarray | None = None,
    *,
    seed: int = 0,
) -> dict[str, float | None]:
    """The figures of `scores.summary` that a random mention has in the mean over all draws, worked
    out exactly.

    BLEU is that of all queries together, so it is the mean of DRAWS draws by `random_entity`, from
    `seed` on.
    """
    scores = {"exact_match": exact_match, "f1": token_f1}
    if vocab is not None and vectors is not None:
        scores["embedding"] = partial(embedding_score, vocab=vocab, vectors=vectors)
    total, answered, words = Counter(dict.fromkeys(scores, 0.0)), 0, 0.0
    for passage, queries in by_passage(examples):
        counts = Counter(mentions(passage.tokens, passage.entities))
        answered += len(queries) * bool(counts)
        for phrase, count in counts.items():
            share = count / counts.total()
            words += len(queries) * share * len(normalise(phrase).split())
            for query, (name, score) in product(queries, scores.items()):
                total[name] += share * score(phrase, texts(query))
    found = {"embedding": None, "predicted_length": words / answered if answered else None}
    found |= {name: value / len(examples) for name, value in total.items()}
    said = (random_entity(examples, seed=seed + n) for n in range(DRAWS))
    drawn = [summary(query_scores(examples, texts_of)) for texts_of in said]
    for name in ("bleu2", "bleu4"):
        found[name] = sum(figures[name] for figures in drawn) / DRAWS
    return found


def most_frequent_entity(
    examples: Sequence[ClozeExample], *, outside_query: bool = False
) -> dict[str, str]:
    predictions = {}
    for passage, queries in by_passage(examples):
        counts = Counter(mentions(passage.tokens, passage.entities))
        ranking = [phrase for phrase, _ in counts.most_common()]
        for query in queries if ranking else ():
            named = mentions(query.query, query.query_entities) if outside_query else ()
            others = (phrase for phrase in ranking if phrase not in named)
            predictions[query.uid] = next(others, ranking[0])
    return predictions


def most_frequent_word(examples: Sequence[ClozeExample]) -> dict[str, str]:
    predictions = {}
    for passage, queries in by_passage(examples):
        words = (word for word in map(str.lower, passage.tokens) if any(map(str.isalpha, word)))
        counts = Counter(word for word in words if word not in FUNCTION_WORDS)
        for word, _ in counts.most_common(1):
            predictions |= {query.uid: word for query in queries}
    return predictions


def known_vectors(
    path, examples: Iterable[ClozeExample], more: Iterable[str] = ()
) -> tuple[Vocab, np.ndarray]:
    """The words of passages, queries and answers that a file has vectors for, and these [2 + words,
    D].

    more: texts beside the examples, such as predictions. Words are lower-cased, and once more as
    `normalise` leaves them.
    """
    words, more = set(), set(more)
    for passage, queries in by_passage(examples):
        words.update(token.lower() for token in passage.tokens)
        more.add(" ".join(passage.tokens))
        for query in queries:
            words.update(token.lower() for token in query.query)
            more.update(texts(query))
    words.update(*(normalise(text).split() for text in more))
    dim = read_head(path).dim
    found = load_vectors(path, Vocab.build([sorted(words)]).words, dim=dim, seed=0)
    if not found.with_vector:
        fix = "give vectors of the corpus's language"
        raise DataError(
            "has a vector for none of the corpus's words", file=Path(found.file).name, fix=fix
        )
    return found.covered()


def most_similar_entity(
    examples: Sequence[ClozeExample],
    vocab: Vocab,
    vectors: np.ndarray,
    *,
    window: int = WINDOW,
    words: bool = False,
) -> dict[str, str]:
    """The entity whose context is most like the blank's, the first of several. words: of all words
    of the passage.

    vocab, vectors: words and their vectors [V, D]; a word without one adds nothing to a sum.
    """
    predictions = {}
    for passage, queries in by_passage(examples):
        places = [(e.start, e.end) for e in passage.entities]
        if words:
            places = [(place, place + 1) for place in range(len(passage.tokens))]
        if not places:
            continue
        spans, how = np.array(places), (vocab, vectors, window)
        contexts = _contexts(passage.tokens, spans, passage.sentences, *how)
        for query in queries:
            blank = np.array([[query.blank, query.blank + 1]])
            (context,) = _contexts(query.query, blank, (len(query.query),), *how)
            cosines = contexts @ context
            # Contexts of one direction differ only by rounding, which must not decide.
            start, end = spans[np.flatnonzero(cosines >= cosines.max() - 1e-9)[0]]
            predictions[query.uid] = " ".join(passage.tokens[start:end]).lower()
    return predictions


def _contexts(tokens, spans, sentences, vocab, vectors, window):
    """float64 [spans, D]: summed vectors of the words around each span, at length 1; zeros where
    none has a vector."""
    rows = np.array(vocab.encode(token.lower() for token in tokens))
    numbers = np.where((rows > UNK)[:, None], vectors[rows], 0.0)
    summed = np.zeros((len(tokens) + 1, vectors.shape[1]))  # of the words before each place
    np.cumsum(numbers, axis=0, dtype=np.float64, out=summed[1:])
    ends = np.asarray(sentences)
    sentence = np.searchsorted(ends, spans[:, 0], side="right")
    begin = np.concatenate(([0], ends))[sentence]
    first, last = (
        np.maximum(begin, spans[:, 0] - window),
        np.minimum(ends[sentence], spans[:, 1] + window),
    )
    around = summed[spans[:, 0]] - summed[first] + summed[last] - summed[spans[:, 1]]
    length = np.linalg.norm(around, axis=1, keepdims=True)
    # If there are no words around, the subtraction leaves only rounding errors.
    return np.where(length > 1e-9, around / np.maximum(length, 1e-9), 0.0)


def best_window(
    examples: Sequence[ClozeExample],
    vocab: Vocab,
    vectors: np.ndarray,
    windows: Sequence[int] = WINDOWS,
) -> tuple[int, dict[int, dict]]:
    """(window of sim-entity with the highest F1 on examples, the smallest of several; `summary` of
    each window)."""
    found = {}
    with Bar("sim-entity", len(windows), unit="windows") as bar:
        for window in windows:
            predictions = most_similar_entity(examples, vocab, vectors, window=window)
            found[window] = summary(query_scores(examples, predictions, vocab, vectors))
            bar.advance(1, f"window {window}")
    return max(sorted(found), key=lambda window: found[window]["f1"]), found


def upper_bound(examples: Sequence[ClozeExample]) -> dict[str, str]:
    """Per query the entity that matches an answer, else the one with the highest F1; the first of
    several."""
    predictions = {}
    for passage, queries in by_passage(examples):
        phrases = list(dict.fromkeys(mentions(passage.tokens, passage.entities)))
        for query in queries if phrases else ():
            answers = texts(query)
            scores = [(exact_match(p, answers), token_f1(p, answers)) for p in phrases]
            predictions[query.uid] = phrases[scores.index(max(scores))]
    return predictions


def out_of_passage(examples: Sequence[ClozeExample], best: Mapping[str, str]) -> list[ClozeExample]:
    """The queries whose answers are no entity of their passage. best: what `upper_bound` says of
    them."""
    return [e for e in examples if e.uid not in best or not exact_match(best[e.uid], texts(e))]
