"""Reports of cloze runs: scores, comparisons, predictions, attention over passages."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mednli_jax.cloze.baselines import CHANCE, known_vectors, words_of_texts
from mednli_jax.cloze.corpus import read_splits, split_of
from mednli_jax.cloze.scores import (
    comparison,
    queries_of,
    query_scores,
    read_answers,
    read_system,
    seed_scores,
    slices,
    summary_with_slices,
    texts,
)
from mednli_jax.cloze.setups import SEEN, UNSEEN
from mednli_jax.cloze.stats import read_skills
from mednli_jax.cloze.tables import (
    HEADER,
    METRICS,
    baselines_in,
    cell,
    comparison_section,
    mean_length_cell,
    systems_grid,
)
from mednli_jax.files.paths import next_free
from mednli_jax.files.writing import private_folder, write_atomic
from mednli_jax.report.metrics import LEVEL, share_interval
from mednli_jax.report.options import EvaluationOptions
from mednli_jax.report.outcomes import Judged, differences, names_of, verdict
from mednli_jax.report.sections import (
    Grid,
    Report,
    RunSections,
    Section,
    interval,
    points,
    sd,
    seeds_named,
)
from mednli_jax.rundir import RunResult
from mednli_jax.types import Json

if TYPE_CHECKING:
    from mednli_jax.cloze.scorer import ClozeRows, ClozeScorer
    from mednli_jax.finished import Run

Scores = Mapping[str, Json]  # of a split, see ClozeScorer.score; or of some of its queries


# -- scoring and comparing -------------------------------------------------------------------------


def evaluate(run: "Run", options: EvaluationOptions) -> Report:
    """Reports the scores of a split."""
    split = options.split
    if options.vectors:
        run = _with_word_vectors(run, split, options.vectors)
    scores, logits = run.score(split)
    if options.skills:
        rows = cast("ClozeRows", run.prepared.splits[split])
        scores_S = cast("ClozeScorer", run.scorer).query_scores(rows, logits)
        skills = read_skills(options.skills)
        rows_of_skill = slices(skills.get(query.uid, ()) for query in rows.queries())
        by_skill = {skill: seed_scores(scores_S, places) for skill, places in rows_of_skill.items()}
        scores = {**scores, "families": {"skill": by_skill}}
    corpus, seeds = run.experiment.corpus.title, run.result.seeds
    low, high = share_interval(scores["accuracy"]["mean"], scores["examples"])
    figures = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "split": split,
        "seeds": seeds,
        **scores,
        "interval": {"low": low, "high": high, "level": LEVEL},
    }
    return Report(
        figures,
        [_scores_section({split: scores}), _families_section(split, scores)],
        title=f"{run.result.model} on {corpus}, {split}, {seeds_named(seeds)}",
        notes=run.result.notes,
    )


def _with_word_vectors(run: "Run", split: str, path: Path) -> "Run":
    """The run with word vectors for the embedding score of a split. A split that the run lacks is
    refused when it is scored."""
    rows = cast("ClozeRows | None", run.prepared.splits.get(split))
    if rows is None:
        return run
    word_vectors = known_vectors(path, words_of_texts(rows.strings()))
    splits = {**run.prepared.splits, split: replace(rows, word_vectors=word_vectors)}
    return run.with_arrays(replace(run.prepared, splits=splits))


def evaluate_answers(corpus: str, predictions: Path, options: EvaluationOptions) -> Report:
    """Reports the scores of any system's answers to cloze queries.

    Args:
      corpus: see read_splits.
      predictions: the file of answers, see read_answers.
    """
    split = options.split
    queries = split_of(read_splits(corpus), split).examples
    answers = read_answers(predictions, queries)
    skills = read_skills(options.skills) if options.skills else {}
    vocab, vectors = None, None
    if options.vectors:
        strings = set(answers.values()).union(*map(texts, queries))
        vocab, vectors = known_vectors(options.vectors, words_of_texts(strings))
    scores_of_queries = query_scores(queries, answers, vocab, vectors)
    scores = summary_with_slices(queries, scores_of_queries, skills)
    shown = {"all": scores}
    for family, named in scores["slices"].items():
        for name, of_slice in named.items():
            shown[f"{family} {name} ({of_slice['queries']:,})"] = of_slice
    low, high = share_interval(scores["exact_match"], scores["queries"])
    title = (
        f"{predictions} on {corpus}, {split}: {scores['queries']:,} queries, "
        f"{scores['missing']:,} not answered; 95 % interval of exact match "
        f"{interval(low, high, '')}"
    )
    return Report(
        {"predictions": str(predictions), "corpus": corpus, "split": split, **scores},
        [Section(title, grids=[systems_grid(shown, with_paper_rows=False)])],
    )


def compare(folders: Sequence[Path], split: str) -> Report:
    """Compares the first run with each of the others on the queries of a split."""
    queries, names = queries_of(folders[0], split), names_of(folders)
    runs = []
    for folder, name in zip(folders, names, strict=True):
        runs.append(read_system(folder, split, queries)._replace(name=name))
    rows = [{**comparison(runs[0], run), "split": split} for run in runs[1:]]
    sections = [
        verdict(list(map(_judge, rows))),
        differences(names, folders),
        comparison_section(rows),
    ]
    return Report({"comparisons": rows}, sections, title=f"{' and '.join(names)}: {split}")


def _judge(row: Scores) -> Judged:
    gain = row["exact_match"]
    return Judged(row["first"], row["second"], gain["difference"], gain["low"], gain["high"])


# -- the page of a run -----------------------------------------------------------------------------

SEEN_FAMILY, TAG_FAMILY = "answers of training", "tags"
# What the queries of a subset have in common.
FAMILIES = {
    SEEN_FAMILY: "whether a training query has the same answer",
    TAG_FAMILY: "in the demo: whether the clue to the answer is another marked phrase (name) or "
    "not (circumstance)",
}


def run_sections(folder: Path, result: RunResult) -> RunSections:
    """The sections of a run's page: scores of its splits before the learning curves; after them,
    for each split, scores of subsets of its queries (see FAMILIES).

    folder: that of the run. The baselines of `reproduce` are beside it.
    """
    scored = dict(reversed(result.scored().items()))  # test is first
    after = [_families_section(split, scores) for split, scores in scored.items()]
    overview = _scores_section(scored)
    if scored:
        split, scores = next(iter(scored.items()))
        exact = scores["accuracy"]["mean"]
        low, high = map(points, share_interval(exact, scores["examples"]))
        lead = f"{split.capitalize()} exact match {points(exact)} (95 % interval {low} to {high})"
        baselines = _baselines_sentence(folder, split, result.corpus)
        overview = replace(overview, lead=f"{lead}; {baselines}")
    return RunSections([overview], after, measure="exact match")


def _baselines_sentence(folder: Path, split: str, corpus: str) -> str:
    """Half a sentence with the scores of a random entity and of the best baseline, if the baselines
    of the run's corpus are beside the run."""
    rows, corpus_of_baselines = baselines_in(folder.parent, split)
    shares = {}
    for name, scores in rows.items():
        if not name.startswith("upper bound"):
            shares[name] = scores["exact_match"]
    if CHANCE not in shares or corpus != corpus_of_baselines:
        return "baselines: see analyze cloze-baselines"
    best = max(shares, key=shares.__getitem__)
    chance = points(shares[CHANCE])
    return f"a random entity gives {chance}, the best baseline ({best}) {points(shares[best])}"


def _scores_section(scored: Mapping[str, Scores]) -> Section:
    """A table with a row for each split."""
    rows: list[tuple[str, ...]] = []
    for split, scores in scored.items():
        exact, queries = scores["accuracy"], scores["examples"]
        exact_match, *others = [cell(scores[metric], metric) for metric in METRICS]
        low, high = share_interval(exact["mean"], queries)
        row = (
            split,
            f"{queries:,}",
            f"{scores['in_passage']:,}",
            f"{scores['missing']['mean']:,.1f}".removesuffix(".0"),
            exact_match,
            sd(exact),
            interval(low, high, ""),
            *others,
            mean_length_cell(scores),
            f"{scores['loss']['mean']:.4f}" if scores["loss"] else "-",
            ", ".join(map(points, exact["per_seed"])),
        )
        rows.append(row)
    exact_title, *other_titles = HEADER.values()
    header = (
        "split",
        "queries",
        "answerable",
        "unanswered",
        exact_title,
        "sd",
        "95 % interval",
        *other_titles,
        "words",
        "loss",
        "EM per seed",
    )
    words = [
        "exact match (EM) and F1 in points; answerable: a candidate is a right answer; loss is of "
        "answerable queries only",
        "sd: between seeds; 95 % interval (Wilson): for the score of one run on new queries of the "
        "same kind; words: mean length of an answer",
    ]
    return Section("Scores", words, [Grid("", header, rows)] if rows else [])


def _families_section(split: str, scores: Scores) -> Section:
    """A table for each family of subsets of the queries, with a row for each subset."""
    families: dict[str, dict[str, Scores]] = {SEEN_FAMILY: {}, TAG_FAMILY: {}}
    families.update(scores.get("families", {}))
    for tag, of_tag in scores.get("slices", {}).items():
        family = SEEN_FAMILY if tag in (SEEN, UNSEEN) else TAG_FAMILY
        families[family][tag] = of_tag
    grids = []
    for family, named in families.items():
        rows = [_subset_row(name, of_subset) for name, of_subset in named.items()]
        if rows:
            grids.append(Grid(family, (family, "queries", "EM", "sd", "F1"), rows))
    words = ["points, means over the seeds"] if grids else []
    words += [f"{name}: {meaning}" for name, meaning in FAMILIES.items() if families.get(name)]
    return Section(f"Kinds of queries, {split}", words, grids)


def _subset_row(name: str, scores: Scores) -> tuple[str, ...]:
    exact, f1 = scores["accuracy"], scores["f1"]["mean"]
    return name, f"{scores['examples']:,}", points(exact["mean"]), sd(exact), points(f1)


# -- new queries, and where a reader looked --------------------------------------------------------


def prediction_lines(rows: Iterable[Scores]) -> Iterator[str]:
    """The lines that `predict` prints: a header, then the cells of `prediction` of each query."""
    yield "\t".join(("answer", "probability", "candidates", "best"))
    for row in map(prediction, rows):
        best = json.dumps(row["best"], ensure_ascii=False)
        cells = (row["predicted"], f"{row['probability']:.6f}", str(row["candidates"]), best)
        yield "\t".join(cells)


def prediction(row: Scores) -> dict[str, Json]:
    """The columns of a query for `predict --output`. row: see ClozeScorer.describe; the probability
    is that of the answer."""
    return {
        "predicted": row["answer"],
        "probability": row["best"][0]["probability"] if row["answer"] else 0.0,
        "candidates": row["candidates"],
        "best": row["best"],
    }


def write_attention(run: "Run", queries: Sequence[tuple[str, str]]) -> Path:
    """Writes the attention over each passage to a new folder under the run's private/, because it
    quotes the passages. Returns the folder.

    passage-1.json: see ClozeScorer.attention_map, with the answer. A second query is passage-2, and
    so on.
    """
    attended, predicted = run.attention(queries), run.predictions(queries)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, (seen, answered) in enumerate(zip(attended, predicted, strict=True), start=1):
        answer, weights = answered["answer"], seen["weights"].astype(float)
        values = {**seen, "weights": weights.round(6).tolist(), "answer": answer}
        write_atomic(folder / f"passage-{number}.json", json.dumps(values) + "\n")
    return folder
