"""The baselines of Šuster & Daelemans 2018 (section 5.1, Table 4), which need no network: a random
entity, the most frequent, the most similar context, the language model's continuation.

Appendix A has the details. A baseline takes examples and returns {uid: text}: the text is
lower-cased, with a space between tokens. A query has no answer if its passage has nothing to choose
from. An entity is a marked phrase of the passage; mentions are of one entity if their lower-cased
words are equal.

  rand-entity
      a mention drawn at random, so that frequent entities are drawn more often;
      random_expectation: the scores to expect of it
  maxfreq-entity
      the entity with the most mentions, in a tie the one that occurs first
  sim-entity
      the mention whose context is most like the blank's: cosine of the summed vectors of up to
      `window` words on each side within the sentence, without the phrase itself (eq. 1)
  rand-word, sim-word
      the same with single words of the passage in place of mentions, as in the paper's code
  lang-model
      see ngram_lm.py
  upper_bound
      the entity with the best score: no reader that answers with an entity can have a better one

Dimension letters: M mentions (or words) of a passage, T its tokens, V words, D numbers per word.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    normalise,
    query_scores,
    summary,
    summary_with_slices,
    texts,
    token_f1,
)
from mednli_jax.cloze.tables import systems_grid
from mednli_jax.data.examples import ClozeExample, Passage, Split
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
CHANCE = "rand-entity, expected"  # name of random_expectation among the baselines
Answers = dict[str, str]  # uid of a query -> its answer
Splits = Mapping[str, Split[ClozeExample]]


def mentions(passage: Passage) -> list[str]:
    """The phrase of each mention, lower-cased, in order."""
    phrases = []
    for entity in passage.entities:
        phrases.append(" ".join(passage.tokens[entity.start : entity.end]).lower())
    return phrases


def lowered_words(passage: Passage) -> list[str]:
    """The words of a passage, lower-cased, in order."""
    return list(map(str.lower, passage.tokens))


def random_entity(
    examples: Sequence[ClozeExample],
    *,
    seed: int = 0,
    choices_of: Callable[[Passage], list[str]] = mentions,
) -> Answers:
    """Answers each query with one of the choices of its passage, drawn at random. The choices are
    its mentions, for rand-word its words.

    The answers depend on the seed and on the order of the examples.
    """
    rng = np.random.default_rng(seed)
    answers = {}
    for passage, queries in by_passage(examples):
        choices = choices_of(passage)
        if choices:
            places = rng.integers(len(choices), size=len(queries))
            for query, place in zip(queries, places, strict=True):
                answers[query.uid] = choices[place]
    return answers


def random_expectation(
    examples: Sequence[ClozeExample],
    vocab: Vocab | None = None,
    vectors: np.ndarray | None = None,
) -> dict[str, float | None]:
    """The scores (see scores.summary) to expect of `random_entity`.

    They are computed exactly, except for BLEU, a score of all queries together. BLEU is the mean of
    DRAWS draws by `random_entity`.
    """
    exact = f1 = embedding = words = 0.0
    answered = 0
    for passage, queries in by_passage(examples):
        counts = Counter(mentions(passage))
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
        drawn = random_entity(examples, seed=draw)
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
    """Answers each query with the entity of its passage that has the most mentions, in a tie the
    one that occurs first."""
    answers = {}
    for passage, queries in by_passage(examples):
        counts = Counter(mentions(passage))
        if counts:
            phrase = max(counts, key=counts.__getitem__)
            for query in queries:
                answers[query.uid] = phrase
    return answers


def words_of_examples(examples: Iterable[ClozeExample]) -> set[str]:
    """The words of passages, queries and answers, in the forms in which sim-entity and
    embedding_score look them up."""
    words: set[str] = set()
    for passage, queries in by_passage(examples):
        words.update(lowered_words(passage), words_of_texts([" ".join(passage.tokens)]))
        for query in queries:
            words.update(map(str.lower, query.query), words_of_texts(texts(query)))
    return words


def words_of_texts(texts: Iterable[str]) -> set[str]:
    """The words of texts, in the form in which embedding_score looks them up."""
    return set(normalise(" ".join(texts)).split())


def known_vectors(path: str | Path, words: Iterable[str]) -> tuple[Vocab, np.ndarray]:
    """Looks words up in a file of vectors. Returns a vocabulary of those that have a vector, and
    its matrix [2 + words, D], PAD and UNK first."""
    vocab = Vocab.build([sorted(words)])
    vectors = load_vectors(path, vocab.words, dim=read_head(path).dim, seed=0)
    if not vectors.with_vector:
        problem = "has a vector for none of the corpus's words"
        fix = "give vectors of the corpus's language"
        raise DataError(problem, file=Path(vectors.file).name, fix=fix)
    return vectors.vocabulary_with_vectors()


def mention_spans(passage: Passage) -> np.ndarray:
    """int [M, 2], (start, end) of each mention."""
    return np.array([(entity.start, entity.end) for entity in passage.entities])


def word_spans(passage: Passage) -> np.ndarray:
    """int [T, 2], (start, end) of each word."""
    place_T = np.arange(len(passage.tokens))
    return np.stack([place_T, place_T + 1], axis=1)


def most_similar_entity(
    examples: Sequence[ClozeExample],
    vocab: Vocab,
    vectors: np.ndarray,
    *,
    window: int = WINDOW,
    spans_of: Callable[[Passage], np.ndarray] = mention_spans,
) -> Answers:
    """Answers each query with the mention whose context is most like the blank's, in a tie the
    first.

    Args:
      vocab, vectors: words and their vectors [V, D]. A word without one adds nothing to a context.
      spans_of: passage -> the spans to choose from, [M, 2]; word_spans for sim-word.
    """
    answers = {}
    for passage, queries in by_passage(examples):
        span_M2 = spans_of(passage)
        if not len(span_M2):
            continue
        context_MD = _window_vectors(
            passage.tokens, span_M2, passage.sentence_ends, vocab, vectors, window
        )
        for query in queries:
            blank = np.array([[query.blank, query.blank + 1]])
            query_end = (len(query.query),)  # a query is one sentence
            context_D = _window_vectors(query.query, blank, query_end, vocab, vectors, window)[0]
            cosine_M = context_MD @ context_D
            # Equal contexts are a tie. But rounding makes their cosines differ, and argmax might
            # take a later one.
            first = np.flatnonzero(cosine_M >= cosine_M.max() - 1e-9)[0]
            start, end = span_M2[first]
            answers[query.uid] = " ".join(passage.tokens[start:end]).lower()
    return answers


def _window_vectors(
    tokens: Sequence[str],
    span_M2: np.ndarray,
    sentence_ends: Sequence[int],
    vocab: Vocab,
    vectors: np.ndarray,
    window: int,
) -> np.ndarray:
    """float64 [M, D]: for each span, the sum of the vectors of the words around it, scaled to
    length 1; zeros if no word around it has a vector.

    The words around a span are up to `window` on each side, within its sentence. sentence_ends: the
    end (exclusive) of each sentence in `tokens`.
    """
    rows = np.array(vocab.encode(map(str.lower, tokens)))
    vector_TD = np.where((rows > UNK)[:, None], vectors[rows], 0.0)
    # sum_before[t] is the sum of the first t vectors. The sum of the vectors of tokens t to u
    # (exclusive) is therefore sum_before[u] - sum_before[t].
    sum_before = np.zeros((len(tokens) + 1, vectors.shape[1]))
    np.cumsum(vector_TD, axis=0, dtype=np.float64, out=sum_before[1:])
    start_M, end_M = span_M2.T
    end_of_sentence = np.asarray(sentence_ends)
    start_of_sentence = np.concatenate(([0], end_of_sentence))
    sentence_M = np.searchsorted(end_of_sentence, start_M, side="right")
    first_M = np.maximum(start_of_sentence[sentence_M], start_M - window)
    last_M = np.minimum(end_of_sentence[sentence_M], end_M + window)  # exclusive
    sum_MD = sum_before[start_M] - sum_before[first_M] + sum_before[last_M] - sum_before[end_M]
    length = np.linalg.norm(sum_MD, axis=1, keepdims=True)
    # If there are no words around, the subtraction leaves only rounding errors.
    return np.where(length > 1e-9, sum_MD / np.maximum(length, 1e-9), 0.0)


def best_window(
    examples: Sequence[ClozeExample],
    vocab: Vocab,
    vectors: np.ndarray,
    windows: Sequence[int] = WINDOWS,
) -> tuple[int, dict[int, JsonObject]]:
    """Scores sim-entity with each window. Returns (the window with the highest F1, {window:
    summary}); in a tie the smallest window."""
    scores_of_window = {}
    with Bar("sim-entity", len(windows), noun="windows") as bar:
        for window in windows:
            answers = most_similar_entity(examples, vocab, vectors, window=window)
            scores_of_window[window] = summary(query_scores(examples, answers, vocab, vectors))
            bar.advance(1, f"window {window}")
    best = max(sorted(scores_of_window), key=lambda window: scores_of_window[window]["f1"])
    return best, scores_of_window


def upper_bound(examples: Sequence[ClozeExample]) -> Answers:
    """Answers each query with the entity that matches an answer, else with the one that has the
    highest F1; in a tie with the one that occurs first."""
    best = {}
    for passage, queries in by_passage(examples):
        phrases = dict.fromkeys(mentions(passage))
        # Queries about a passage without an entity get no answer.
        for query in queries if phrases else ():
            answers = texts(query)
            score_of = {}
            for phrase in phrases:
                score_of[phrase] = (exact_match(phrase, answers), token_f1(phrase, answers))
            best[query.uid] = max(score_of, key=score_of.__getitem__)
    return best


def out_of_passage(examples: Sequence[ClozeExample], best: Mapping[str, str]) -> list[ClozeExample]:
    """The queries none of whose answers is an entity of their passage. best: the result of
    upper_bound."""
    outside = []
    for query in examples:
        if query.uid not in best or not exact_match(best[query.uid], texts(query)):
            outside.append(query)
    return outside


# -- all of them on test ---------------------------------------------------------------------------


class Answered(NamedTuple):
    """The answers of baselines, and facts about how they were made. answers: {name of a baseline:
    its answers}."""

    answers: dict[str, Answers]
    facts: dict[str, Json]


def analysis(corpus: str, vectors: Path | None) -> Report:
    """The scores of the baselines on test, and their answers as private files.

    corpus: see read_splits. vectors: for sim-entity, sim-word and the embedding score.
    """
    splits = read_splits(corpus)
    queries = split_of(splits, SPLIT).examples
    model = _language_model(splits, queries)
    answers_of_baseline = {**_by_rules(queries), **model.answers}
    facts: dict[str, Json] = {"lang-model": model.facts}
    vocab, matrix = None, None
    if vectors:
        dev = split_of(splits, "dev").examples
        words = words_of_examples([*dev, *queries])
        for answers in answers_of_baseline.values():
            words |= words_of_texts(answers.values())
        vocab, matrix = known_vectors(vectors, words)
        similar = _similar(dev, queries, vocab, matrix)
        answers_of_baseline |= similar.answers
        facts["sim-entity"] = similar.facts
    rows = dict(_row_scores(queries, answers_of_baseline, vocab, matrix))
    private = {}
    for name, answers in answers_of_baseline.items():
        private[answers_file(name, SPLIT)] = answer_lines(answers)
    title = f"Baselines on {corpus}, {SPLIT}: {len(queries):,} queries"
    return Report(
        {"split": SPLIT, "rows": rows, "facts": facts},
        [Section(title, grids=[systems_grid(rows, with_paper_rows=True)])],
        private=private,
        notes=notes_of(splits),
    )


def _by_rules(queries: Sequence[ClozeExample]) -> dict[str, Answers]:
    """The answers of the baselines that need neither vectors nor training."""
    return {
        "rand-word": random_entity(queries, choices_of=lowered_words),
        "rand-entity": random_entity(queries),
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
    """The answers of sim-word and sim-entity, with the window that is best on dev. vectors: [V,
    D]."""
    window, scores = best_window(dev, vocab, vectors)
    say(f"sim-entity: dev F1 {100 * scores[window]['f1']:.1f} with a window of {window}")
    words = most_similar_entity(queries, vocab, vectors, window=window, spans_of=word_spans)
    entities = most_similar_entity(queries, vocab, vectors, window=window)
    answers = {"sim-word": words, "sim-entity": entities}
    return Answered(answers, {"window": window, "dev": scores})


def _row_scores(
    queries: Sequence[ClozeExample],
    answers_of_baseline: Mapping[str, Answers],
    vocab: Vocab | None,
    vectors: np.ndarray | None,
) -> Iterator[tuple[str, Json]]:
    """Yields (name, scores) for each row of the table."""
    yield CHANCE, random_expectation(queries, vocab, vectors)
    for name, answers in answers_of_baseline.items():
        yield name, summary_with_slices(queries, query_scores(queries, answers, vocab, vectors))
    best = answers_of_baseline["upper bound"]
    if outside := out_of_passage(queries, best):
        name = f"upper bound of the {len(outside):,} without their answer in the passage"
        yield name, summary(query_scores(outside, best, vocab, vectors))
