"""The baselines of Šuster & Daelemans 2018 (section 5.1, Table 4), which need no network: a random
entity, the most frequent, the most similar context, the language model's continuation.

Appendix A has the details. A baseline takes examples and gives {uid: text}, lower-cased with a
space between tokens; a query whose passage has nothing to choose from gets none. An entity is a
marked phrase of the passage, distinguished from others by its lower-cased words.

  rand-entity
      a mention drawn at random, frequent entities more often; `random_expectation`: the mean of
      many draws
  maxfreq-entity
      the entity with most mentions, the first to occur of several
  sim-entity
      the mention whose context is most like the blank's: cosine of the summed vectors of up to
      `window` words to each side within the sentence, the phrase itself left out (eq. 1)
  rand-word, sim-word
      the same of single words of the passage, as in the paper's code
  lang-model
      see ngram_lm.py
  upper_bound
      the entity that scores best: the limit of a reader that answers with an entity of the passage
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax.cloze import ngram_lm
from mednli_jax.cloze.clicr import by_passage
from mednli_jax.cloze.corpus import notes_of, read_splits, split_of
from mednli_jax.cloze.runs import answers_file
from mednli_jax.cloze.scores import (
    answer_lines,
    embedding_score,
    exact_match,
    figures,
    normalise,
    query_scores,
    summary,
    texts,
    token_f1,
)
from mednli_jax.cloze.tables import all_systems
from mednli_jax.data.examples import ClozeExample, Entity, Split
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.data.vector_formats import read_head
from mednli_jax.data.vectors import load_vectors
from mednli_jax.errors import DataError
from mednli_jax.report.sections import Report, Section
from mednli_jax.terminal import Bar, say
from mednli_jax.types import Json, JsonObject

SPLIT = "test"
WINDOW = 3  # words to each side (Appendix A)
WINDOWS = tuple(range(1, 11))
DRAWS = 10
SEED = 0  # of the random answers
Answers = dict[str, str]  # uid of a query -> its answer
Splits = Mapping[str, Split[ClozeExample]]


def mentions(tokens: Sequence[str], entities: Iterable[Entity]) -> list[str]:
    """The phrase of each mention, lower-cased, in order."""
    return [" ".join(tokens[entity.start : entity.end]).lower() for entity in entities]


def random_entity(
    examples: Sequence[ClozeExample], *, seed: int = 0, words: bool = False
) -> Answers:
    """The same answers for the same seed and the same examples in the same order. words: draws
    words of the passage in place of entities."""
    rng = np.random.default_rng(seed)
    answers = {}
    for passage, queries in by_passage(examples):
        if words:
            choices = list(map(str.lower, passage.tokens))
        else:
            choices = mentions(passage.tokens, passage.entities)
        if choices:
            places = rng.integers(len(choices), size=len(queries))
            for query, place in zip(queries, places, strict=True):
                answers[query.uid] = choices[place]
    return answers


def random_expectation(
    examples: Sequence[ClozeExample],
    vocab: Vocab | None = None,
    vectors: np.ndarray | None = None,
    *,
    seed: int = 0,
) -> dict[str, float | None]:
    """The expected figures of `scores.summary` for a random mention, computed exactly.

    BLEU is of all queries together. It is the mean of DRAWS draws by `random_entity` instead, with
    seeds from `seed` on.
    """
    exact = f1 = embedding = words = 0.0
    answered = 0
    for passage, queries in by_passage(examples):
        counts = Counter(mentions(passage.tokens, passage.entities))
        if counts:
            answered += len(queries)
        for phrase, count in counts.items():
            share = count / counts.total()
            words += len(queries) * share * len(normalise(phrase).split())
            for query in queries:
                answers = texts(query)
                exact += share * exact_match(phrase, answers)
                f1 += share * token_f1(phrase, answers)
                if vocab is not None and vectors is not None:
                    embedding += share * embedding_score(phrase, answers, vocab, vectors)
    bleu2 = bleu4 = 0.0
    for draw in range(DRAWS):
        drawn = random_entity(examples, seed=seed + draw)
        scores = summary(query_scores(examples, drawn))
        bleu2 += scores["bleu2"]
        bleu4 += scores["bleu4"]
    return {
        "exact_match": exact / len(examples),
        "f1": f1 / len(examples),
        "bleu2": bleu2 / DRAWS,
        "bleu4": bleu4 / DRAWS,
        "embedding": None if vocab is None else embedding / len(examples),
        "predicted_length": words / answered if answered else None,
    }


def most_frequent_entity(examples: Sequence[ClozeExample]) -> Answers:
    answers = {}
    for passage, queries in by_passage(examples):
        counts = Counter(mentions(passage.tokens, passage.entities))
        for phrase, _ in counts.most_common(1):
            for query in queries:
                answers[query.uid] = phrase
    return answers


def known_vectors(
    path: str | Path, examples: Iterable[ClozeExample], more: Iterable[str] = ()
) -> tuple[Vocab, np.ndarray]:
    """The words of passages, queries and answers that a file has vectors for, and these [2 + words,
    D].

    more: texts beside the examples, such as predictions. Words are looked up lower-cased, and also
    as `normalise` returns them.
    """
    words: set[str] = set()
    normalised = set(more)
    for passage, queries in by_passage(examples):
        words.update(map(str.lower, passage.tokens))
        normalised.add(" ".join(passage.tokens))
        for query in queries:
            words.update(map(str.lower, query.query))
            normalised.update(texts(query))
    for text in normalised:
        words.update(normalise(text).split())
    vocab = Vocab.build([sorted(words)])
    vectors = load_vectors(path, vocab.words, dim=read_head(path).dim, seed=0)
    if not vectors.with_vector:
        problem = "has a vector for none of the corpus's words"
        fix = "give vectors of the corpus's language"
        raise DataError(problem, file=Path(vectors.file).name, fix=fix)
    return vectors.vocabulary_with_vectors()


def most_similar_entity(
    examples: Sequence[ClozeExample],
    vocab: Vocab,
    vectors: np.ndarray,
    *,
    window: int = WINDOW,
    words: bool = False,
) -> Answers:
    """The entity whose context is most like the blank's, the first of several. words: chooses
    among all words of the passage.

    vocab, vectors: words and their vectors [V, D]; a word without one adds nothing to a sum.
    """
    answers = {}
    for passage, queries in by_passage(examples):
        span_M2 = np.array([(entity.start, entity.end) for entity in passage.entities])
        if words:
            place_T = np.arange(len(passage.tokens))
            span_M2 = np.stack([place_T, place_T + 1], axis=1)
        if not len(span_M2):
            continue
        context_MD = _contexts(
            passage.tokens, span_M2, passage.sentence_ends, vocab, vectors, window
        )
        for query in queries:
            blank = np.array([[query.blank, query.blank + 1]])
            sentence = (len(query.query),)
            context_D = _contexts(query.query, blank, sentence, vocab, vectors, window)[0]
            cosine_M = context_MD @ context_D
            # Contexts of one direction differ only by rounding, which must not decide.
            first = np.flatnonzero(cosine_M >= cosine_M.max() - 1e-9)[0]
            start, end = span_M2[first]
            answers[query.uid] = " ".join(passage.tokens[start:end]).lower()
    return answers


def _contexts(
    tokens: Sequence[str],
    spans: np.ndarray,
    sentences: Sequence[int],
    vocab: Vocab,
    vectors: np.ndarray,
    window: int,
) -> np.ndarray:
    """float64 [M, D]: summed vectors of the words around each span [M, 2], at length 1; zeros where
    none has a vector. sentences: their ends."""
    rows = np.array(vocab.encode(map(str.lower, tokens)))
    vector_TD = np.where((rows > UNK)[:, None], vectors[rows], 0.0)
    sum_before = np.zeros((len(tokens) + 1, vectors.shape[1]))  # of the words before each place
    np.cumsum(vector_TD, axis=0, dtype=np.float64, out=sum_before[1:])
    ends = np.asarray(sentences)
    sentence = np.searchsorted(ends, spans[:, 0], side="right")
    sentence_start = np.concatenate(([0], ends))[sentence]
    first = np.maximum(sentence_start, spans[:, 0] - window)
    last = np.minimum(ends[sentence], spans[:, 1] + window)
    left = sum_before[spans[:, 0]] - sum_before[first]
    around = left + sum_before[last] - sum_before[spans[:, 1]]
    length = np.linalg.norm(around, axis=1, keepdims=True)
    # If there are no words around, the subtraction leaves only rounding errors.
    return np.where(length > 1e-9, around / np.maximum(length, 1e-9), 0.0)


def best_window(
    examples: Sequence[ClozeExample],
    vocab: Vocab,
    vectors: np.ndarray,
    windows: Sequence[int] = WINDOWS,
) -> tuple[int, dict[int, JsonObject]]:
    """(window of sim-entity with the highest F1 on examples, the smallest of several; `summary` of
    each window)."""
    figures = {}
    with Bar("sim-entity", len(windows), noun="windows") as bar:
        for window in windows:
            answers = most_similar_entity(examples, vocab, vectors, window=window)
            figures[window] = summary(query_scores(examples, answers, vocab, vectors))
            bar.advance(1, f"window {window}")
    return max(sorted(figures), key=lambda window: figures[window]["f1"]), figures


def upper_bound(examples: Sequence[ClozeExample]) -> Answers:
    """Per query the entity that matches an answer, else the one with the highest F1; the first of
    several."""
    best = {}
    for passage, queries in by_passage(examples):
        phrases = dict.fromkeys(mentions(passage.tokens, passage.entities))
        for query in queries if phrases else ():
            answers = texts(query)
            score_of = {}
            for phrase in phrases:
                score_of[phrase] = (exact_match(phrase, answers), token_f1(phrase, answers))
            best[query.uid] = max(score_of, key=score_of.__getitem__)
    return best


def out_of_passage(examples: Sequence[ClozeExample], best: Mapping[str, str]) -> list[ClozeExample]:
    """The queries whose answers are no entity of their passage. best: of `upper_bound`."""
    outside = []
    for query in examples:
        if query.uid not in best or not exact_match(best[query.uid], texts(query)):
            outside.append(query)
    return outside


# -- all of them on test ---------------------------------------------------------------------------


class Answered(NamedTuple):
    """Answers of baselines, by name, and facts about these."""

    answers: dict[str, Answers]
    facts: dict[str, Json]


def analysis(corpus: str, vectors: Path | None) -> Report:
    """The scores of the baselines on test, and their answers as private files.

    corpus: see read_splits. vectors: for sim-entity, sim-word and the embedding score.
    """
    splits = read_splits(corpus)
    queries = split_of(splits, SPLIT).examples
    model = _language_model(splits, queries)
    said = {**_by_rules(queries), **model.answers}
    facts: dict[str, Json] = {"lang-model": model.facts}
    vocab, matrix = None, None
    if vectors:
        predictions = set().union(*(of_query.values() for of_query in said.values()))
        dev = split_of(splits, "dev").examples
        vocab, matrix = known_vectors(vectors, [*dev, *queries], predictions)
        similar = _similar(dev, queries, vocab, matrix)
        said |= similar.answers
        facts["sim-entity"] = similar.facts
    rows = dict(_scored(queries, said, vocab, matrix))
    private = {}
    for name, of_query in said.items():
        private[answers_file(name, SPLIT)] = answer_lines(of_query)
    title = f"Baselines on {corpus}, {SPLIT}: {len(queries):,} queries"
    return Report(
        {"split": SPLIT, "rows": rows, "facts": facts},
        [Section(title, grids=[all_systems(rows, paper=True)])],
        private=private,
        notes=notes_of(splits),
    )


def _by_rules(queries: Sequence[ClozeExample]) -> dict[str, Answers]:
    """Answers of the baselines that need neither vectors nor training."""
    return {
        "rand-word": random_entity(queries, seed=SEED, words=True),
        "rand-entity": random_entity(queries, seed=SEED),
        "maxfreq-entity": most_frequent_entity(queries),
        "upper bound": upper_bound(queries),
    }


def _language_model(splits: Splits, queries: Sequence[ClozeExample]) -> Answered:
    started = time.monotonic()
    model = ngram_lm.estimate(ngram_lm.training_text(splits["train"].examples))
    facts: dict[str, Json] = {
        "order": ngram_lm.ORDER,
        "seconds": round(time.monotonic() - started, 1),
        "words": len(model.words) - 1,
        "ngrams": [len(level.keys) for level in model.levels],
    }
    say(f"language model: {facts['ngrams'][-1]:,} {ngram_lm.ORDER}-grams in {facts['seconds']} s")
    return Answered({"lang-model": ngram_lm.continuations(model, queries)}, facts)


def _similar(
    dev: Sequence[ClozeExample], queries: Sequence[ClozeExample], vocab: Vocab, vectors: np.ndarray
) -> Answered:
    """Answers by similarity of contexts, with the window that is best on dev. vectors: [V, D]."""
    window, scores = best_window(dev, vocab, vectors)
    say(f"sim-entity: dev F1 {100 * scores[window]['f1']:.1f} with a window of {window}")
    said = {
        "sim-word": most_similar_entity(queries, vocab, vectors, window=window, words=True),
        "sim-entity": most_similar_entity(queries, vocab, vectors, window=window),
    }
    return Answered(said, {"window": window, "dev": scores})


def _scored(
    queries: Sequence[ClozeExample],
    said: Mapping[str, Answers],
    vocab: Vocab | None,
    vectors: np.ndarray | None,
) -> Iterator[tuple[str, Json]]:
    """(name, scores) of each row."""
    yield (
        "rand-entity, mean of all draws",
        random_expectation(queries, vocab, vectors, seed=SEED),
    )
    for name, of_query in said.items():
        scores = query_scores(queries, of_query, vocab, vectors)
        yield name, figures(queries, scores)
    best = said["upper bound"]
    if outside := out_of_passage(queries, best):
        name = f"upper bound of the {len(outside):,} without their answer in the passage"
        yield name, summary(query_scores(outside, best, vocab, vectors))
