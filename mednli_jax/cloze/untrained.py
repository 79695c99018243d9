"""The baselines of Šuster & Daelemans 2018 (section 5.1, Table 4) on a cloze corpus."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mednli_jax.cloze import baselines, ngram_lm
from mednli_jax.cloze import scores as answers
from mednli_jax.cloze.encoding import corpus_named, notes_of, split_of
from mednli_jax.cloze.runs import answers_file
from mednli_jax.cloze.tables import all_systems
from mednli_jax.data.examples import ClozeExample, Split
from mednli_jax.data.text import Vocab
from mednli_jax.report.sections import Report, Section
from mednli_jax.terminal import say

SPLIT = "test"
ORDER = 4  # of the language model
SEED = 0  # of the random answers
Json = Any
Answers = dict[str, str]  # uid of a query -> its answer
Splits = Mapping[str, Split[ClozeExample]]


class Answered(NamedTuple):
    """Answers of baselines, by name, and facts about these."""

    answers: dict[str, Answers]
    facts: dict[str, Json]


def analysis(corpus: str, vectors: Path | None) -> Report:
    """The scores of the baselines on test, and their answers as private files.

    corpus: see corpus_named. vectors: for sim-entity, sim-word and the embedding score.
    """
    splits = corpus_named(corpus)
    queries = split_of(splits, SPLIT).examples
    model = _language_model(splits, queries)
    said = {**_by_rules(queries), **model.answers}
    facts: dict[str, Json] = {"lang-model": model.facts}
    vocab, matrix = None, None
    if vectors:
        texts = set().union(*(of_query.values() for of_query in said.values()))
        dev = split_of(splits, "dev").examples
        vocab, matrix = baselines.known_vectors(vectors, [*dev, *queries], texts)
        similar = _similar(dev, queries, vocab, matrix)
        said |= similar.answers
        facts["sim-entity"] = similar.facts
    rows = dict(_scored(queries, said, vocab, matrix))
    private = {}
    for name, of_query in said.items():
        private[answers_file(name, SPLIT)] = answers.answer_lines(of_query)
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
        "rand-word": baselines.random_entity(queries, seed=SEED, words=True),
        "rand-entity": baselines.random_entity(queries, seed=SEED),
        "maxfreq-word": baselines.most_frequent_word(queries),
        "maxfreq-entity": baselines.most_frequent_entity(queries),
        "maxfreq-entity, not in the query": baselines.most_frequent_entity(
            queries, outside_query=True
        ),
        "upper bound": baselines.upper_bound(queries),
    }


def _language_model(splits: Splits, queries: Sequence[ClozeExample]) -> Answered:
    started = time.monotonic()
    model = ngram_lm.estimate(ngram_lm.training_text(splits["train"].examples), order=ORDER)
    facts: dict[str, Json] = {
        "order": ORDER,
        "seconds": round(time.monotonic() - started, 1),
        "words": len(model.words) - 1,
        "ngrams": [len(level.keys) for level in model.levels],
    }
    say(f"language model: {facts['ngrams'][-1]:,} {ORDER}-grams in {facts['seconds']} s")
    said = {
        "lang-model": ngram_lm.continuations(model, queries),
        "lang-model, entities only": ngram_lm.continuations(model, queries, entities_only=True),
    }
    return Answered(said, facts)


def _similar(
    dev: Sequence[ClozeExample], queries: Sequence[ClozeExample], vocab: Vocab, vectors: np.ndarray
) -> Answered:
    """Answers by similarity of contexts, with the window that is best on dev. vectors: [V, D]."""
    window, scores = baselines.best_window(dev, vocab, vectors)
    say(f"sim-entity: dev F1 {100 * scores[window]['f1']:.1f} with a window of {window}")
    said = {
        "sim-word": baselines.most_similar_entity(
            queries, vocab, vectors, window=window, words=True
        ),
        "sim-entity": baselines.most_similar_entity(queries, vocab, vectors, window=window),
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
        baselines.random_expectation(queries, vocab, vectors, seed=SEED),
    )
    for name, of_query in said.items():
        scores = answers.query_scores(queries, of_query, vocab, vectors)
        yield name, answers.figures(queries, scores)
    best = said["upper bound"]
    if outside := baselines.out_of_passage(queries, best):
        name = f"upper bound of the {len(outside):,} without their answer in the passage"
        yield name, answers.summary(answers.query_scores(outside, best, vocab, vectors))
