"""Scores of answers to cloze queries (Šuster & Daelemans 2018, section 6): exact match, F1, BLEU-2,
BLEU-4, embedding.

A query has several accepted answers: the dataset's answer and its synonyms. The answer with the
best score counts. A query without a prediction scores 0. Scores are from 0 to 1. Lengths are in
words after `normalise`.

Dimension letters: S seeds, N queries, V words, D numbers per word.
"""

import json
import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mednli_jax.cloze.arrays import Query
from mednli_jax.cloze.corpus import split_of
from mednli_jax.cloze.setups import phrase_of
from mednli_jax.data.examples import Answer, ClozeExample
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.errors import DataError, Problems, RunError
from mednli_jax.files.reading import (
    KEEP_ONE,
    RepeatedField,
    json_lines,
    json_object,
    json_text,
    open_text,
)
from mednli_jax.report import metrics
from mednli_jax.report.outcomes import SAME_FILES, check_corpora, complete, read_rows
from mednli_jax.rundir import RunDirectory, read_saved
from mednli_jax.types import Json, JsonObject

ORDERS = 4
ANSWERS = "answers.json"

Answers = Mapping[str, str]  # uid -> text
Selection = Sequence[int] | slice
ALL = slice(None)

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(text: str) -> str:
    """The text in lower case without ASCII punctuation and articles, single spaces (Rajpurkar et
    al. 2016)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Iterable[str]) -> bool:
    """Whether the prediction equals one of the answers after `normalise`.

    If `normalise` leaves nothing of the prediction and nothing of an answer, the two are compared
    in lower case: it drops the vitamin "A" as an article, and "+" as punctuation. An empty
    prediction is never right.
    """
    for answer in answers:
        predicted, expected = normalise(prediction), normalise(answer)
        if not (predicted or expected):
            predicted, expected = phrase_of(prediction), phrase_of(answer)
        if predicted and predicted == expected:
            return True
    return False


def token_f1(prediction: str, answers: Iterable[str]) -> float:
    """The F1 of the bags of words, highest over the answers. If `normalise` leaves both sides
    without words, the F1 is `exact_match`: 1 or 0."""
    predicted = Counter(normalise(prediction).split())
    highest = 0.0
    for answer in answers:
        expected = Counter(normalise(answer).split())
        words = predicted.total() + expected.total()
        if words:
            f1 = 2 * (predicted & expected).total() / words
        else:
            f1 = float(exact_match(prediction, [answer]))
        highest = max(highest, f1)
    return highest


def _bleu_counts(prediction: str, answers: Iterable[str]) -> list[int]:
    """The counts of one query from which BLEU is computed, [2 * ORDERS + 2].

    In order: matching n-grams of each order, predicted n-grams of each order, words of the
    prediction, words of the answer that is nearest in length.
    """
    from nltk.translate import bleu_score

    tokens = normalise(prediction).split()
    references = [normalise(answer).split() for answer in answers]
    matches, totals = [], []
    for order in range(1, ORDERS + 1):
        precision = bleu_score.modified_precision(references, tokens, order)
        matches.append(precision.numerator)
        totals.append(max(0, len(tokens) - order + 1))
    nearest = bleu_score.closest_ref_length(references, len(tokens))
    return [*matches, *totals, len(tokens), nearest]


def _bleu(counts: np.ndarray, order: int) -> float:
    """BLEU of all predictions together (Papineni et al. 2002, section 2.3), with n-grams of 1 to
    `order` words. counts: [N, 2 * ORDERS + 2], see _bleu_counts.

    The accepted answers of a query are the references. The reference length is that of the answer
    nearest in length to the prediction, of the shorter one in a tie. An order without a match makes
    BLEU 0.

    The paper's package (Chen et al. 2015) smooths: where no text is long enough for an order, the
    precision of this order is 1e-6. A perfect system whose answers all have fewer than four words
    has BLEU-4 .032 in the paper and 0 here. nltk's `corpus_bleu` is not used, because it counts an
    n-gram in predictions that are too short to have one.
    """
    from nltk.translate.bleu_score import brevity_penalty

    sums = counts.sum(axis=0)
    matches, totals = sums[:order], sums[ORDERS : ORDERS + order]
    predicted_length, reference_length = sums[-2:]
    if not matches.all():
        return 0.0
    mean_precision = np.exp(np.log(matches / totals).mean())
    return float(brevity_penalty(reference_length, predicted_length) * mean_precision)


def embedding_score(
    prediction: str, answers: Iterable[str], vocab: Vocab, vectors: np.ndarray
) -> float:
    """The cosine between the mean vectors of prediction and answer (Liu et al. 2016), highest over
    the answers.

    Words without a vector are left out. If no word is left on a side, the cosine is 0. vectors:
    [V, D].
    """
    predicted = _mean_vector(prediction, vocab, vectors)
    cosines = []
    for answer in answers:
        cosines.append(_cosine(predicted, _mean_vector(answer, vocab, vectors)))
    return max(cosines)


def _mean_vector(text: str, vocab: Vocab, vectors: np.ndarray) -> np.ndarray:
    """float64 [D]; zeros if no word has a vector."""
    rows = [row for row in vocab.encode(normalise(text).split()) if row != UNK]
    if not rows:
        return np.zeros(vectors.shape[1])
    return np.asarray(vectors[rows].mean(axis=0, dtype=np.float64))


def _cosine(first: np.ndarray, second: np.ndarray) -> float:
    lengths = np.linalg.norm(first) * np.linalg.norm(second)
    return float(first @ second / lengths) if lengths else 0.0


# -- a split ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryScores:
    """The scores of each of N queries.

    Args:
      answered, exact: bool [N].
      f1: float64 [N].
      embedding: float64 [N]; None without word vectors.
      bleu_counts: int64 [N, 10], see _bleu_counts.
      answer_length: int64 [N], words of the dataset's answer.
    """

    uids: tuple[str, ...]
    answered: np.ndarray
    exact: np.ndarray
    f1: np.ndarray
    embedding: np.ndarray | None
    bleu_counts: np.ndarray
    answer_length: np.ndarray


def texts(query: ClozeExample | Query) -> tuple[str, ...]:
    """The accepted answers of a query, the dataset's answer first."""
    return tuple(answer.text for answer in query.answers)


def query_scores(
    queries: Sequence[ClozeExample | Query],
    predictions: Answers,
    vocab: Vocab | None = None,
    vectors: np.ndarray | None = None,
) -> QueryScores:
    """Scores predictions. vocab, vectors [V, D]: for the embedding score; None = there is none."""
    uids, answered, length = [], [], []
    exact, f1, bleu_counts, embedding = [], [], [], []
    for query in queries:
        prediction, answers = predictions.get(query.uid, ""), texts(query)
        uids.append(query.uid)
        answered.append(query.uid in predictions)
        exact.append(exact_match(prediction, answers))
        f1.append(token_f1(prediction, answers))
        bleu_counts.append(_bleu_counts(prediction, answers))
        length.append(len(normalise(answers[0]).split()))
        if vocab is not None and vectors is not None:
            embedding.append(embedding_score(prediction, answers, vocab, vectors))
    return QueryScores(
        uids=tuple(uids),
        answered=np.array(answered, bool),
        exact=np.array(exact, bool),
        f1=np.array(f1, np.float64),
        embedding=None if vocab is None else np.array(embedding, np.float64),
        bleu_counts=np.array(bleu_counts, np.int64).reshape(-1, 2 * ORDERS + 2),
        answer_length=np.array(length, np.int64),
    )


def summary(scores: QueryScores, selection: Selection = ALL) -> JsonObject:
    """The scores of some queries together, as JSON numbers.

    missing: number of queries without an answer. exact_match, f1, embedding: means over the
    queries. predicted_length, answer_length: mean words of the predictions, and of the dataset's
    answers. embedding is None without word vectors, predicted_length without a prediction.
    """
    answered, counts = scores.answered[selection], scores.bleu_counts[selection]
    predicted_lengths = counts[answered, -2]  # the last two columns are lengths, see _bleu_counts
    embedding = None if scores.embedding is None else float(scores.embedding[selection].mean())
    return {
        "queries": len(answered),
        "missing": int((~answered).sum()),
        "exact_match": float(scores.exact[selection].mean()),
        "f1": float(scores.f1[selection].mean()),
        "bleu2": _bleu(counts, 2),
        "bleu4": _bleu(counts, 4),
        "embedding": embedding,
        "predicted_length": float(predicted_lengths.mean()) if answered.any() else None,
        "answer_length": float(scores.answer_length[selection].mean()),
    }


def seed_scores(scores_S: Sequence[QueryScores], selection: Selection = ALL) -> JsonObject:
    """Scores of some queries over the seeds: {"examples": number of queries, "accuracy": mean_sd of
    exact match, "f1": mean_sd}."""
    summaries = [summary(scores, selection) for scores in scores_S]
    return {
        "examples": summaries[0]["queries"],
        "accuracy": mean_sd_of(summaries, "exact_match"),
        "f1": mean_sd_of(summaries, "f1"),
    }


def mean_sd_of(summaries: Sequence[JsonObject], name: str) -> metrics.MeanSd | None:
    """mean_sd of a score over the summaries of the seeds; None where a seed has none."""
    values = [summary_of_seed[name] for summary_of_seed in summaries]
    return None if None in values else metrics.mean_sd(values)


def slices(names_of_queries: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Subsets of queries: {name: row numbers}, names sorted.

    names_of_queries: of each query, such as its tags, or the skills that it needs.
    """
    rows_of = defaultdict(list)
    for row, names in enumerate(names_of_queries):
        for name in set(names):
            rows_of[name].append(row)
    return dict(sorted(rows_of.items()))


def summary_with_slices(
    queries: Sequence[ClozeExample | Query],
    scores: QueryScores,
    skills: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> JsonObject:
    """The summary of all queries, and under "slices" those of the queries of each tag, such as seen
    and unseen, and of each skill: {"tag" or "skill": {name: summary}}.

    skills: {uid: skills that the query needs}.
    """
    families = {
        "tag": slices(query.tags for query in queries),
        "skill": slices(skills.get(query.uid, ()) for query in queries),
    }
    summaries = {}
    for family, named in families.items():
        if named:
            summaries[family] = {name: summary(scores, rows) for name, rows in named.items()}
    return {**summary(scores), "slices": summaries}


# -- files of answers ------------------------------------------------------------------------------

_FORMS = 'write lines {"uid": "...", "answer": "..."}, or one JSON object {"<uid>": "<answer>"}'


def read_answers(path: Path, queries: Iterable[ClozeExample | Query]) -> dict[str, str]:
    """Reads the answers of a system, {uid: text}.

    Args:
      path: JSON lines {"uid": ..., "answer": ...}, or one JSON object {uid: text} as CliCR's own
        script reads.
      queries: those that the file may answer. It need not answer all.
    """
    path, problems = Path(path), Problems()
    uids = {query.uid for query in queries}
    answers: dict[str, str] = {}
    for place, uid, answer in _entries(path, problems):
        problem, fix = "", _FORMS
        if not (isinstance(uid, str) and isinstance(answer, str)):
            problem = "uid or answer is missing or no text"
        elif uid in answers:
            problem, fix = "uid is that of an earlier answer", "keep one answer for each query"
        elif uid not in uids:
            problem = "uid is of no query of this split"
            fix = "give the corpus and the split of the answers: --corpus and --split"
        if problem:
            problems.add(DataError(problem, file=path.name, line=place, fix=fix))
        else:
            answers[uid] = answer
    problems.raise_if_any()
    if not answers:
        raise DataError("holds no answers", file=path.name, fix=_FORMS)
    return answers


def _entries(path: Path, problems: Problems) -> Iterator[tuple[int | str, Json, Json]]:
    """Yields (place, uid, answer) for each answer in a file of either form. place: a line number,
    or "entry NUMBER" of a JSON object."""
    with open_text(path) as stream:
        try:
            whole = json.loads(json_text(stream.read()), object_pairs_hook=json_object)
        except (json.JSONDecodeError, RecursionError):
            whole = None
    # A file holds JSON lines if its name says so, or if it is not one JSON object as a whole, or if
    # it is one line {"uid": ..., "answer": ...}, which is a JSON object, too.
    if ".jsonl" in path.suffixes or not isinstance(whole, dict) or "uid" in whole:
        for line, row in json_lines(path, problems):
            yield line, row.get("uid"), row.get("answer")
        return
    if isinstance(whole, RepeatedField):  # a dict, too: an object that gives a uid twice
        problem = "uid is that of an earlier entry"
        raise DataError(problem, file=path.name, line=f"entry {whole.entry}", fix=KEEP_ONE)
    for number, (uid, answer) in enumerate(whole.items(), start=1):
        yield f"entry {number}", uid, answer


def answer_lines(answers: Answers) -> str:
    """The content of a file of answers {uid: text}, as JSON lines."""
    lines = []
    for uid, text in answers.items():
        lines.append(json.dumps({"uid": uid, "answer": text}, ensure_ascii=False) + "\n")
    return "".join(lines)


# -- systems ---------------------------------------------------------------------------------------


class ScoredSystem(NamedTuple):
    """Scores of a system's answers to N queries of a split. exact: bool [S, N]. f1: [N], means over
    the seeds."""

    name: str
    corpus: str
    uids: tuple[str, ...]
    exact: np.ndarray
    f1: np.ndarray


def scored_system(
    name: str, corpus: str, queries: Sequence[Query], predictions_S: Iterable[Answers]
) -> ScoredSystem:
    """Scores a system's answers. predictions_S: those of each seed."""
    exact_S, f1_S = [], []
    for predictions in predictions_S:
        scores = query_scores(queries, predictions)
        exact_S.append(scores.exact)
        f1_S.append(scores.f1)
    return ScoredSystem(name, corpus, scores.uids, np.stack(exact_S), np.mean(f1_S, axis=0))


def queries_of(folder: Path, split: str) -> list[Query]:
    """Reads the queries of a run's split with their accepted answers, which the run saves."""
    directory = RunDirectory.existing(folder)
    if directory.task != "cloze":
        raise RunError(f"{folder}: is no run on cloze queries", fix="name runs of one task")
    queries = []
    for uid, answers, tags in split_of(read_saved(directory, ANSWERS)["splits"], split):
        queries.append(Query(uid, tuple(Answer(*fields) for fields in answers), tuple(tags)))
    return queries


def read_system(folder: Path, split: str, queries: Sequence[Query]) -> ScoredSystem:
    """Scores the predictions of a finished run. Raises RunError unless they have the uids of
    `queries`."""
    directory, result = complete(folder)
    name, seeds = directory.folder.resolve().name, len(result.seeds)

    def parse(line: str) -> tuple[str, list[str]] | None:
        row = json.loads(line)
        return (row["uid"], row["predicted"]) if len(row["predicted"]) == seeds else None

    predicted = read_rows(directory, split, parse, "uid, and predicted of each seed")
    uids = {query.uid for query in queries}
    if predicted.keys() != uids:
        shared = len(predicted.keys() & uids)
        problem = f"{len(predicted):,} predictions for {len(queries):,} queries in {split}"
        raise RunError(f"{name}: {problem}, {shared:,} uids are in both", fix=SAME_FILES)
    predictions_S: list[dict[str, str]] = [{} for _ in range(seeds)]
    for uid, answer_S in predicted.items():
        for predictions, answer in zip(predictions_S, answer_S, strict=True):
            if answer:  # "" = the seed gave no answer
                predictions[uid] = answer
    return scored_system(name, result.corpus, queries, predictions_S)


def comparison(first: ScoredSystem, second: ScoredSystem) -> JsonObject:
    """Compares two systems on the same queries; JSON values.

    "exact_match" and "f1": the difference, second minus first, of shares from 0 to 1, with its
    interval. The bootstrap of exact_match draws queries and seeds, that of f1 queries.
    """
    check_corpora(first, second)
    return {
        "first": first.name,
        "second": second.name,
        "queries": len(first.uids),
        "seeds": [len(first.exact), len(second.exact)],
        "exact_match_of": [float(first.exact.mean()), float(second.exact.mean())],
        "f1_of": [float(first.f1.mean()), float(second.f1.mean())],
        "exact_match": asdict(metrics.paired_bootstrap(first.exact, second.exact)),
        "f1": f1_difference(first.f1, second.f1),
    }


def f1_difference(first: np.ndarray, second: np.ndarray) -> JsonObject:
    """mean(second) - mean(first) of F1 [N], with an interval.

    Paired bootstrap (Koehn 2004): a sample draws queries with replacement, the same ones for both
    systems. The interval is between percentiles of the samples' differences.

    Dimension letters: G distinct gains (differences of a query's F1); S samples, not seeds.
    """
    gain_G, count_G = np.unique(second - first, return_counts=True)
    n = int(count_G.sum())
    rng = np.random.default_rng(0)
    # A sample's mean depends only on how often each gain is drawn. If n queries are drawn with
    # replacement, these G counts have a multinomial distribution.
    sample_SG = rng.multinomial(n, count_G / n, size=metrics.SAMPLES)
    difference_S = sample_SG @ gain_G / n
    mean = float(gain_G @ count_G / n)
    return asdict(metrics.Difference(mean, *metrics.interval(difference_S)))
