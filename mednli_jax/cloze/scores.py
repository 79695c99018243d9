"""Scores of answers to cloze queries (Šuster & Daelemans 2018, section 6): exact match, F1, BLEU-2,
BLEU-4, embedding.

A query has several accepted answers: the dataset's answer and its synonyms. The answer with the
best score counts. A query without a prediction scores 0. Scores are from 0 to 1. Lengths are in
words after `normalise`.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax.cloze.encoding import Query, split_of
from mednli_jax.data.examples import Answer, ClozeExample
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.errors import DataError, Problems, RunError
from mednli_jax.files import (
    KEEP_ONE,
    RepeatedField,
    json_lines,
    json_object,
    json_text,
    opened_text,
    write_atomic,
)
from mednli_jax.report import metrics
from mednli_jax.report.outcomes import SAME_FILES, check_corpora, complete, read_rows
from mednli_jax.rundir import RunDirectory, read_kept

ORDERS = 4
ANSWERS = "answers.json"
LONG_ANSWER = 5  # answers of this many words or more share a slice

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(text: str) -> str:
    """The text in lower case without ASCII punctuation and articles, single spaces (Rajpurkar et
    al. 2016)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether the prediction equals one of the answers after `normalise`, or, where both are empty
    then ("A", the vitamin; "+"), in lower case. An empty prediction is never right."""
    for answer in answers:
        words = normalise(prediction), normalise(answer)
        if not any(words):
            words = " ".join(prediction.lower().split()), " ".join(answer.lower().split())
        if words[0] == words[1] != "":
            return True
    return False


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """The highest F1 over the answers, of words as bags. Where both sides are empty: as
    `exact_match`."""
    predicted, found = Counter(normalise(prediction).split()), [0.0]
    for answer in answers:
        expected = Counter(normalise(answer).split())
        words = predicted.total() + expected.total()
        same = not words and exact_match(prediction, [answer])
        found.append(2 * (predicted & expected).total() / words if words else float(same))
    return max(found)


def _bleu_counts(prediction, answers):
    """[2 * ORDERS + 2]: matching n-grams of each order, predicted n-grams of each order, lengths of
    both sides."""
    from nltk.translate import bleu_score

    tokens, references = (
        normalise(prediction).split(),
        [normalise(answer).split() for answer in answers],
    )
    orders = range(1, ORDERS + 1)
    matches = [bleu_score.modified_precision(references, tokens, n).numerator for n in orders]
    totals = [max(0, len(tokens) - n + 1) for n in orders]
    return [*matches, *totals, len(tokens), bleu_score.closest_ref_length(references, len(tokens))]


def _bleu(counts, order):
    """BLEU of all predictions together (Papineni et al. 2002, section 2.3), with n-grams of 1 to
    `order` words.

    The accepted answers of a query are the references; the reference length is the nearest, of two
    the shorter. There is no smoothing: an order without a match makes BLEU 0. The paper used the
    package of Chen et al. 2015, which puts 1e-6 for an order in which neither side has an n-gram: a
    perfect system whose answers are all shorter than four words has BLEU-4 0 here and .032 there.
    nltk's `corpus_bleu` counts an n-gram in predictions too short to have one.
    """
    from nltk.translate.bleu_score import brevity_penalty

    sums = counts.sum(axis=0)
    matches, totals, (predicted, expected) = sums[:order], sums[ORDERS : ORDERS + order], sums[-2:]
    if not matches.all():
        return 0.0
    return float(brevity_penalty(expected, predicted) * np.exp(np.log(matches / totals).mean()))


def embedding_score(
    prediction: str, answers: Sequence[str], vocab: Vocab, vectors: np.ndarray
) -> float:
    """The highest cosine over the answers, between the mean vectors of prediction and answer (Liu
    et al. 2016).

    Words without a vector are left out. A side without words scores 0. vectors: [V, D].
    """

    def mean(text):
        rows = [row for row in vocab.encode(normalise(text).split()) if row != UNK]
        return (
            np.asarray(vectors[rows], np.float64).mean(axis=0)
            if rows
            else np.zeros(vectors.shape[1])
        )

    def cosine(first, second):
        lengths = np.linalg.norm(first) * np.linalg.norm(second)
        return float(first @ second / lengths) if lengths else 0.0

    predicted = mean(prediction)
    return max((cosine(predicted, mean(answer)) for answer in answers), default=0.0)


# -- a split ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryScores:
    """The scores of each of N queries.

    answered, exact: bool [N]. f1, embedding: float64 [N]; None without word vectors. bleu_counts:
    int64 [N, 10], see `_bleu_counts`. answer_length: int64 [N], words of the dataset's answer.
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
    """Scores predictions {uid: text} of queries; without word vectors there is no embedding
    score."""
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
    """Scores of the queries at `places`, as plain numbers for JSON; lengths are means, in words."""
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


def rows(each: Sequence[QueryScores]) -> list[dict]:
    """One object per query, means over the seeds: uid, answered, exact_match, f1, and embedding
    with vectors."""
    found = [{"uid": uid} for uid in each[0].uids]
    fields = {"answered": "answered", "exact_match": "exact", "f1": "f1", "embedding": "embedding"}
    for name, field in fields.items():
        values = [getattr(scores, field) for scores in each]
        for row, mean in zip(
            found, () if values[0] is None else np.mean(values, axis=0), strict=False
        ):
            row[name] = float(mean)
    return found


def seed_scores(each: Sequence[QueryScores], places: Sequence[int] | slice = slice(None)) -> dict:
    """Exact match (as accuracy) and F1 of the queries at `places`, mean_sd over the seeds, with how
    many there are."""
    found = [summary(scores, places) for scores in each]
    exact, f1 = (
        metrics.mean_sd([scores[name] for scores in found]) for name in ("exact_match", "f1")
    )
    return {"examples": found[0]["queries"], "accuracy": exact, "f1": f1}


def slices(
    examples: Sequence[ClozeExample], skills: Mapping[str, Iterable[str]] | None = None
) -> dict[str, dict[str, list[int]]]:
    """Slices of the queries: {family: {name: row numbers}}, names sorted. skills: {uid: skills that
    the query needs}.

    The families: "answer length" in words of the dataset's answer, "semantic type" of that answer,
    "tag" of the example, such as seen and unseen, and "skill".
    """
    families = {}
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
            found = families.setdefault(family, {})
            for name in dict.fromkeys(of_example):
                found.setdefault(name, []).append(row)
    return {family: dict(sorted(found.items())) for family, found in families.items() if found}


def figures(
    examples: Sequence[ClozeExample],
    scores: QueryScores,
    skills: Mapping[str, Iterable[str]] | None = None,
) -> dict:
    """`summary` of all examples, and under the key `slices` the `summary` of each slice."""
    found = slices(examples, skills)
    for family, named in found.items():
        found[family] = {name: summary(scores, rows) for name, rows in named.items()}
    return {**summary(scores), "slices": found}


# -- files of answers ------------------------------------------------------------------------------

_FORMS = 'write lines {"uid": "...", "answer": "..."}, or one JSON object {"<uid>": "<answer>"}'


def read_answers(path: Path, examples: Iterable[ClozeExample]) -> dict[str, str]:
    """The answers of a system, {uid: text}.

    path: JSON lines {"uid": ..., "answer": ...}, or one JSON object {uid: text} as CliCR's own
    script reads. examples: the queries that may be answered; not all need be.
    """
    path, answers, problems = Path(path), {}, Problems()
    known = {example.uid for example in examples}
    with opened_text(path) as stream:
        try:
            whole = json.loads(json_text(stream.read()), object_pairs_hook=json_object)
        except (json.JSONDecodeError, RecursionError):
            whole = None
    if isinstance(whole, dict) and not ("uid" in whole or ".jsonl" in path.suffixes):
        if isinstance(whole, RepeatedField):
            problem = "uid is that of an earlier entry"
            raise DataError(problem, file=path.name, line=f"entry {whole.entry}", fix=KEEP_ONE)
        entries = (
            (f"entry {number}", *entry) for number, entry in enumerate(whole.items(), start=1)
        )
    else:
        entries = (
            (line, row.get("uid"), row.get("answer")) for line, row in json_lines(path, problems)
        )
    for place, uid, answer in entries:
        problem, fix = "", _FORMS
        if not (isinstance(uid, str) and isinstance(answer, str)):
            problem = "uid or answer is missing or no text"
        elif uid in answers or uid not in known:
            problem = "uid is that of an earlier row, or of no query of this split"
            fix = "keep one answer a query, and score its split: --corpus and --split"
        if problem:
            problems.add(DataError(problem, file=path.name, line=place, fix=fix))
        else:
            answers[uid] = answer
    problems.raise_if_any()
    if not answers:
        raise DataError("holds no answers", file=path.name, fix=_FORMS)
    return answers


def write_answers(path: Path, answers: Mapping[str, str]) -> None:
    """Writes {uid: text} as JSON lines."""
    rows = (
        json.dumps({"uid": uid, "answer": text}, ensure_ascii=False)
        for uid, text in answers.items()
    )
    write_atomic(path, "".join(row + "\n" for row in rows))


# -- systems ---------------------------------------------------------------------------------------


class System(NamedTuple):
    """A system that answered the queries of a split. exact: bool [S, N], by seed. f1: [N], mean
    over the seeds."""

    name: str
    corpus: str
    uids: tuple[str, ...]
    exact: np.ndarray
    f1: np.ndarray


def system(
    name: str, corpus: str, queries: Sequence[Query], said: Iterable[Mapping[str, str]]
) -> System:
    """said: {uid: text} of each seed."""
    each = [query_scores(queries, of_seed) for of_seed in said]
    exact, f1 = (np.stack([getattr(scores, field) for scores in each]) for field in ("exact", "f1"))
    return System(name, corpus, each[0].uids, exact, f1.mean(axis=0))


def queries_of(folder: Path, split: str) -> list[Query]:
    """The queries of a run's split with their accepted answers, which the run keeps."""
    directory = RunDirectory.existing(folder)
    if directory.task != "cloze":
        raise RunError(f"{folder}: is no run on cloze queries", fix="name runs of one task")
    rows = split_of(read_kept(directory, ANSWERS)["splits"], split)
    return [
        Query(uid, tuple(Answer(*of) for of in answers), tuple(tags)) for uid, answers, tags in rows
    ]


def finished(folder: Path, split: str, queries: Sequence[Query]) -> System:
    """A finished run on the queries of its split, joined by uid."""
    directory, result = complete(folder)
    name, seeds = directory.folder.resolve().name, len(result.seeds)

    def parse(line):
        row = json.loads(line)
        return (row["uid"], row["predicted"]) if len(row["predicted"]) == seeds else None

    rows = read_rows(directory, split, parse, "uid, and predicted of each seed")
    uids = {uid for uid, _ in rows}
    if uids != {query.uid for query in queries}:
        shared = sum(query.uid in uids for query in queries)
        problem = f"{len(uids):,} predictions for {len(queries):,} queries in {split}, {shared:,} of them the same"
        raise RunError(f"{name}: {problem}", fix=SAME_FILES)
    predictions = [
        {uid: texts[seed] for uid, texts in rows if texts[seed]} for seed in range(seeds)
    ]
    return system(name, result.corpus, queries, predictions)


def comparison(first: System, second: System) -> dict:
    """The second system less the first on the same queries, as JSON values; shares are 0-1.

    The interval of exact_match is drawn over queries and seeds, that of f1 over queries alone.
    """
    check_corpora(first, second)
    return {
        "first": first.name,
        "second": second.name,
        "queries": len(first.uids),
        "seeds": [len(first.exact), len(second.exact)],
        "exact_match_of": [float(system.exact.mean()) for system in (first, second)],
        "f1_of": [float(system.f1.mean()) for system in (first, second)],
        "exact_match": metrics.paired_bootstrap(first.exact, second.exact),
        "f1": f1_difference(first.f1, second.f1),
    }


def f1_difference(first: np.ndarray, second: np.ndarray) -> dict:
    """The mean of `second` [N] less that of `first` [N], with an interval: the percentiles of
    samples that draw queries with replacement, the same for both systems (Koehn 2004)."""
    gains, counts = np.unique(second - first, return_counts=True)
    n = int(counts.sum())
    # Queries with the same gain are interchangeable, so their counts in a sample are multinomial.
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(n, counts / n, size=metrics.SAMPLES) @ gains / n
    low, high = np.quantile(drawn, [(1 - metrics.LEVEL) / 2, (1 + metrics.LEVEL) / 2])
    difference = float(gains @ counts / n)
    return {
        "difference": difference,
        "low": float(low),
        "high": float(high),
        "level": metrics.LEVEL,
    }
