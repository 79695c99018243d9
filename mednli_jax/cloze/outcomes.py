"""Scores of cloze runs, and of files with any system's answers, query by query; two systems against each other.

A run holds no accepted answers. They come from the prepared corpus that it was trained on, which is prepared again if
it is not there. Queries are joined by uid.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mednli_jax.cloze import scores as answers
from mednli_jax.cloze import tables
from mednli_jax.cloze.baselines import known_vectors
from mednli_jax.cloze.encoding import Query, Texts
from mednli_jax.cloze.sections import comparison_section
from mednli_jax.cloze.skills import read_skills
from mednli_jax.data.arrays import Prepared
from mednli_jax.errors import RunError, UsageError
from mednli_jax.report import metrics
from mednli_jax.report.evaluation import Evaluation, Options, seeds_named
from mednli_jax.report.outcomes import SAME_FILES, check_corpora, complete, names_of, read_rows
from mednli_jax.report.runs import RunDirectory
from mednli_jax.report.sections import Comparison


@dataclass(frozen=True)
class System:
    """A system that answered the queries of a split. each: the scores of each seed, in the order of the queries."""

    name: str
    corpus: str
    queries: tuple[Query, ...]
    each: tuple[answers.QueryScores, ...]

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def exact(self) -> np.ndarray:
        """bool [S, N]"""
        return np.stack([scores.exact for scores in self.each])

    @property
    def f1(self) -> np.ndarray:
        """[N], mean over the seeds"""
        return np.mean([scores.f1 for scores in self.each], axis=0)


def queries_of(folder: Path, split: str, prepared_of: Callable[[Path], Prepared]) -> list[Query]:
    """The queries of a run's split with their accepted answers.

    prepared_of: gives the prepared corpus that the run in a folder was trained on.
    """
    if RunDirectory.existing(folder).task != "cloze":
        raise RunError(f"{folder}: is no run on cloze queries. Fix: name runs of one task.")
    prepared = prepared_of(folder)
    if split not in prepared.splits:
        raise UsageError(f"--split={split}: no such split. Fix: give one of {', '.join(prepared.splits)}.")
    return Texts(prepared.arrays).queries(prepared.splits[split])


def finished(folder: Path, split: str, queries: Sequence[Query]) -> System:
    """A finished run on the queries of its split."""
    directory, result = complete(folder)
    name, seeds = directory.folder.resolve().name, len(result["seeds"])
    rows = read_rows(directory, split, lambda line: _row(line, seeds), "uid, and predicted of each seed")
    uids = {uid for uid, _ in rows}
    if uids != {query.uid for query in queries}:
        shared = sum(query.uid in uids for query in queries)
        problem = f"{len(uids):,} predictions for {len(queries):,} queries in {split}, {shared:,} of them the same"
        raise RunError(f"{name}: {problem}. Fix: {SAME_FILES}.")
    predictions = [{uid: texts[seed] for uid, texts in rows if texts[seed]} for seed in range(seeds)]
    each = tuple(answers.query_scores(queries, of_seed) for of_seed in predictions)
    return System(name, result["corpus"], tuple(queries), each)


def answered(path: Path, corpus: str, split: str, queries: Sequence[Query]) -> System:
    """A file of answers as cloze.tables.read_answers reads it."""
    path = Path(path)
    name = path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json").removesuffix(f".{split}")
    scores = answers.query_scores(queries, tables.read_answers(path, queries))
    return System(name, corpus, tuple(queries), (scores,))


def _row(line, seeds):
    """(uid, answer of each seed) of a line; None where it is none."""
    try:
        row = json.loads(line)
        uid, predicted = row["uid"], row["predicted"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = isinstance(predicted, list) and all(isinstance(text, str) for text in (uid, *predicted))
    return (uid, predicted) if texts and len(predicted) == seeds else None


# -- two systems -------------------------------------------------------------------------------------------------------


def comparison(first: System, second: System) -> dict:
    """The second system less the first on the same queries, as JSON values; shares are 0-1.

    Returns: exact_match_of, f1_of: of both systems, mean over the seeds; exact_match: difference, low and high by
    drawing queries and seeds (metrics.paired_bootstrap); f1: the same of means over the seeds, by drawing queries
    (answers.difference).
    """
    check_corpora(first, second)
    if first.each[0].uids != second.each[0].uids:
        raise RunError(f"{first.name} and {second.name}: they answered other queries. Fix: {SAME_FILES}.")
    means = [replace(system.each[0], f1=system.f1) for system in (first, second)]
    return {
        "first": first.name,
        "second": second.name,
        "queries": len(first),
        "seeds": [len(first.each), len(second.each)],
        "exact_match_of": [float(system.exact.mean()) for system in (first, second)],
        "f1_of": [float(system.f1.mean()) for system in (first, second)],
        "exact_match": metrics.paired_bootstrap(first.exact, second.exact),
        "f1": answers.difference(*means)["f1"],
    }


def compare(folders: Sequence[Path], split: str, prepared_of: Callable[[Path], Prepared]) -> Comparison:
    """Compares the first run with each of the others on the queries of a split; the first run's corpus has the answers.

    prepared_of: see queries_of.
    """
    queries = queries_of(folders[0], split, prepared_of)
    called = names_of(folders)
    runs = zip(folders, called, strict=True)
    first, *others = (replace(finished(folder, split, queries), name=name) for folder, name in runs)
    rows = [{**comparison(first, other), "split": split} for other in others]
    return Comparison(f"{' and '.join(called)}: {split}", [comparison_section(rows)], [], rows)


def f1_of_queries(systems: Mapping[str, System]) -> dict[str, dict[str, float]]:
    """{name: {uid: F1}}, as skills.statistics takes it."""
    return {name: dict(zip(of.each[0].uids, of.f1.tolist(), strict=True)) for name, of in systems.items()}


# -- for `evaluate` ----------------------------------------------------------------------------------------------------


def evaluate(run, options: Options) -> Evaluation:
    """Scores of a split's queries. run: a finished_run.FinishedRun."""
    corpus, split = run.experiment.corpus.title, options.split
    skills = read_skills(options.skills) if options.skills else None
    if options.vectors and split in run.prepared.splits:
        run.prepared = _with_words(run.prepared, split, options.vectors)
    scores, logits = run.scores(split)
    each = []
    if options.each or skills:
        rows = run.prepared.splits[split]
        queries, words = rows.queries(), rows.words or ()
        each = [answers.query_scores(queries, run.task.answers(rows, part), *words) for part in logits]
    if skills:
        named = answers.slices(queries, skills).get("skill", {})
        found = {name: tables.seed_scores(each, places) for name, places in named.items()}
        scores = {**scores, "families": {**scores["families"], "skill": found}}
    seeds = run.result["seeds"]
    low, high = metrics.wilson_interval(round(scores["accuracy"]["mean"] * scores["examples"]), scores["examples"])
    figures = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "split": split,
        "seeds": seeds,
        **scores,
        "interval": {"low": low, "high": high, "level": 0.95},
    }
    title = f"{run.result['model']} on {corpus}, {split}, {seeds_named(seeds)}"
    lines = [*tables.run_lines(title, scores), *run.result["notes"]]
    return Evaluation(figures, lines, tables.mean_rows(each) if options.each else ())


def _with_words(prepared: Prepared, split: str, path: Path) -> Prepared:
    """The corpus with word vectors for the embedding score of a split."""
    rows = prepared.splits[split]
    texts = {answer.text for query in rows.queries() for answer in query.answers}
    texts |= {phrase for row in range(len(rows)) for phrase in rows.candidates(row)}
    known = replace(rows, words=known_vectors(path, (), sorted(texts)))
    return replace(prepared, splits={**prepared.splits, split: known})


def evaluate_answers(corpus: str, predictions: str, options: Options) -> Evaluation:
    """Scores of answers to cloze queries, whoever gave them.

    corpus: demo_cloze, clicr or a folder. predictions: the file of answers, see tables.read_answers.
    """
    examples = tables.split_of(tables.corpus(corpus), options.split).examples
    predicted = tables.read_answers(Path(predictions).expanduser(), examples)
    skills = read_skills(options.skills) if options.skills else None
    vocab = vectors = None
    if options.vectors:
        texts = [*predicted.values(), *(text for example in examples for text in answers.texts(example))]
        vocab, vectors = known_vectors(options.vectors, (), texts)
    each = answers.query_scores(examples, predicted, vocab, vectors)
    scores = answers.figures(examples, each, skills)
    figures = {"predictions": predictions, "corpus": corpus, "split": options.split, **scores}
    lines = list(tables.lines(f"{predictions} on {corpus}, {options.split}", scores))
    return Evaluation(figures, lines, answers.rows(each) if options.each else ())
