"""Scores of answers to cloze queries (Šuster & Daelemans 2018, section 6): exact match, F1, BLEU-2, BLEU-4, embedding.

A query has several accepted answers: the dataset's answer and its synonyms. The answer with the best score counts.
A query without a prediction scores 0. Scores are from 0 to 1. Lengths are in words after `normalise`.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mednli_jax.data.examples import ClozeExample
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.report import metrics

ORDERS = 4  # longest n-grams of BLEU
LONG_ANSWER = 5  # answers of this many words or more share a slice

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(text: str) -> str:
    """The text in lower case without ASCII punctuation and articles, single spaces (Rajpurkar et al. 2016)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether the prediction equals one of the answers after `normalise`.

    Where both are empty after `normalise` ("A", the vitamin; "+"), the lower-cased texts are compared. An empty
    prediction is never right.
    """
    return any(_same(prediction, answer) for answer in answers)


def _same(first, second):
    words = normalise(first), normalise(second)
    if not any(words):
        words = " ".join(first.lower().split()), " ".join(second.lower().split())
    return words[0] == words[1] != ""


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """The highest F1 over the answers, of words as bags. Where both sides are empty: as `exact_match`."""
    return max((_f1(prediction, answer) for answer in answers), default=0.0)


def _f1(prediction, answer):
    predicted, expected = normalise(prediction).split(), normalise(answer).split()
    if not predicted and not expected:
        return float(_same(prediction, answer))
    return 2 * (Counter(predicted) & Counter(expected)).total() / (len(predicted) + len(expected))


def _bleu_counts(prediction, answers):
    """[2 * ORDERS + 2]: matching n-grams of each order, predicted n-grams of each order, lengths of both sides."""
    from nltk.translate import bleu_score  # imported here because it is slow and few commands need it

    tokens, references = normalise(prediction).split(), [normalise(answer).split() for answer in answers]
    orders = range(1, ORDERS + 1)
    matches = [bleu_score.modified_precision(references, tokens, n).numerator for n in orders]
    totals = [max(0, len(tokens) - n + 1) for n in orders]
    return [*matches, *totals, len(tokens), bleu_score.closest_ref_length(references, len(tokens))]


def _bleu(counts, order):
    """BLEU of all predictions together (Papineni et al. 2002, section 2.3), with n-grams of 1 to `order` words.

    The accepted answers of a query are the references. The reference length is that of the answer whose length is
    nearest; of two equally near ones, the shorter. There is no smoothing: an order without a match makes BLEU 0. The
    paper used the package of Chen et al. 2015, which puts 1e-6 for an order in which neither side has an n-gram: a
    perfect system whose answers are all shorter than four words has BLEU-4 0 here and .032 there.
    nltk's `corpus_bleu` is not used: it counts an n-gram in predictions that are too short to have one.

    Args:
      counts: int64 [N, 2 * ORDERS + 2], rows of `_bleu_counts`.
      order: words of the longest n-grams.
    """
    from nltk.translate.bleu_score import brevity_penalty

    sums = counts.sum(axis=0)
    matches, totals, (predicted, expected) = sums[:order], sums[ORDERS : ORDERS + order], sums[-2:]
    if not matches.all():
        return 0.0
    return float(brevity_penalty(expected, predicted) * np.exp(np.log(matches / totals).mean()))


def embedding_score(prediction: str, answers: Sequence[str], vocab: Vocab, vectors: np.ndarray) -> float:
    """The highest cosine over the answers, between the mean vectors of prediction and answer (Liu et al. 2016).

    Words without a vector are left out. A side without words scores 0.

    Args:
      vocab: the V words that have vectors.
      vectors: [V, D].
    """
    predicted = _mean_vector(prediction, vocab, vectors)
    return max((_cosine(predicted, _mean_vector(answer, vocab, vectors)) for answer in answers), default=0.0)


def _mean_vector(text, vocab, vectors):
    rows = [row for row in vocab.encode(normalise(text).split()) if row != UNK]
    return np.asarray(vectors[rows], np.float64).mean(axis=0) if rows else None


def _cosine(first, second):
    if first is None or second is None:
        return 0.0
    lengths = np.linalg.norm(first) * np.linalg.norm(second)
    return float(first @ second / lengths) if lengths else 0.0


# -- a split -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryScores:
    """The scores of each of N queries.

    Args:
      uids: of the queries.
      answered: bool [N], whether there is a prediction.
      exact: bool [N].
      f1: float64 [N].
      embedding: float64 [N]; None without word vectors.
      bleu_counts: int64 [N, 10], rows of `_bleu_counts`.
      answer_length: int64 [N], words of the dataset's answer.
    """

    uids: tuple[str, ...]
    answered: np.ndarray
    exact: np.ndarray
    f1: np.ndarray
    embedding: np.ndarray | None
    bleu_counts: np.ndarray
    answer_length: np.ndarray


def texts(example: ClozeExample) -> tuple[str, ...]:
    """The accepted answers of a query, the dataset's answer first."""
    return tuple(answer.text for answer in example.answers)


def query_scores(
    examples: Sequence[ClozeExample],
    predictions: Mapping[str, str],
    vocab: Vocab | None = None,
    vectors: np.ndarray | None = None,
) -> QueryScores:
    """Scores predictions {uid: text} of queries. A query whose uid is missing has no prediction.

    vocab, vectors: see `embedding_score`; without them there is no embedding score.
    """
    answers = [texts(example) for example in examples]
    predicted = [predictions.get(example.uid, "") for example in examples]
    pairs = list(zip(predicted, answers, strict=True))
    embedding = None
    if vocab is not None and vectors is not None:
        embedding = np.array([embedding_score(*pair, vocab, vectors) for pair in pairs], np.float64)
    return QueryScores(
        tuple(example.uid for example in examples),
        np.array([example.uid in predictions for example in examples], bool),
        np.array([exact_match(*pair) for pair in pairs], bool),
        np.array([token_f1(*pair) for pair in pairs], np.float64),
        embedding,
        np.array([_bleu_counts(*pair) for pair in pairs], np.int64).reshape(-1, 2 * ORDERS + 2),
        np.array([len(normalise(accepted[0]).split()) for accepted in answers], np.int64),
    )


def summary(scores: QueryScores, places: Sequence[int] | slice = slice(None)) -> dict:
    """Scores of the queries at `places`, as plain numbers for JSON.

    Returns: queries and missing (those without a prediction); exact_match, f1, bleu2, bleu4, embedding (None without
    vectors); predicted_length, mean words of the predictions (None without predictions); answer_length, mean words of
    the dataset's answers.
    """
    answered, counts = scores.answered[places], scores.bleu_counts[places]
    lengths = counts[:, -2][answered]
    return {
        "queries": len(answered),
        "missing": int((~answered).sum()),
        "exact_match": float(scores.exact[places].mean()),
        "f1": float(scores.f1[places].mean()),
        "bleu2": _bleu(counts, 2),
        "bleu4": _bleu(counts, 4),
        "embedding": None if scores.embedding is None else float(scores.embedding[places].mean()),
        "predicted_length": float(lengths.mean()) if len(lengths) else None,
        "answer_length": float(scores.answer_length[places].mean()),
    }


def rows(scores: QueryScores) -> list[dict]:
    """One object per query: uid, answered, exact_match, f1, and embedding where there are vectors."""
    fields = {"uid": scores.uids, "answered": scores.answered.tolist()}
    fields |= {"exact_match": scores.exact.astype(float).tolist(), "f1": scores.f1.tolist()}
    if scores.embedding is not None:
        fields["embedding"] = scores.embedding.tolist()
    return [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]


def slices(
    examples: Sequence[ClozeExample], skills: Mapping[str, Iterable[str]] | None = None
) -> dict[str, dict[str, list[int]]]:
    """Slices of the queries: {family: {name: row numbers}}, names sorted. skills: {uid: skills that the query needs}.

    The families: "answer length" in words of the dataset's answer, 5 and more together; "semantic type" of that answer,
    or "none"; "tag" of the example, such as seen and unseen; "skill", of which a query may need several.
    """
    families = {family: {} for family in ("answer length", "semantic type", "tag", "skill")}
    for row, example in enumerate(examples):
        answer = example.answers[0]
        length = len(normalise(answer.text).split())
        names = {
            "answer length": (f"{LONG_ANSWER}+" if length >= LONG_ANSWER else str(length),),
            "semantic type": (answer.semantic_type or "none",),
            "tag": example.tags,
            "skill": (skills or {}).get(example.uid, ()),
        }
        for family, of_example in names.items():
            for name in dict.fromkeys(of_example):
                families[family].setdefault(name, []).append(row)
    return {family: dict(sorted(found.items())) for family, found in families.items() if found}


def figures(
    examples: Sequence[ClozeExample], scores: QueryScores, skills: Mapping[str, Iterable[str]] | None = None
) -> dict:
    """`summary` of all examples, and under the key `slices` the `summary` of each slice."""
    of_slices = {
        family: {name: summary(scores, rows) for name, rows in named.items()}
        for family, named in slices(examples, skills).items()
    }
    return {**summary(scores), "slices": of_slices}


def score(
    examples: Sequence[ClozeExample],
    predictions: Mapping[str, str],
    *,
    vocab: Vocab | None = None,
    vectors: np.ndarray | None = None,
) -> dict:
    """`figures` of predictions {uid: text}, see `query_scores`."""
    return figures(examples, query_scores(examples, predictions, vocab, vectors))


def difference(first: QueryScores, second: QueryScores, *, level=0.95, samples=5000, seed=0) -> dict:
    """The scores of the second system minus those of the first, with bootstrap intervals.

    Each sample draws queries with replacement, the same for both systems (Koehn 2004).
    Returns: exact_match and f1, each with difference, low and high (percentiles) and level.
    """
    exact = metrics.paired_bootstrap(first.exact[None], second.exact[None], level=level, samples=samples, seed=seed)
    gains, counts = np.unique(second.f1 - first.f1, return_counts=True)
    n = int(counts.sum())
    # Queries with the same gain are interchangeable, so their counts in a sample are multinomial.
    drawn = np.random.default_rng(seed).multinomial(n, counts / n, size=samples) @ gains / n
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    f1 = {"difference": float(gains @ counts / n), "low": float(low), "high": float(high), "level": level}
    return {"exact_match": exact, "f1": f1}
