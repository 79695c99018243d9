"""Reports of cloze runs: scores, comparisons, predictions, attention over passages.

No report holds text of a corpus, except for `attention_page`, which quotes a passage: it is for a
private folder.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from mednli_jax.cloze import scores as answers
from mednli_jax.cloze.baselines import CHANCE, known_vectors, words_of_texts
from mednli_jax.cloze.corpus import read_splits, split_of
from mednli_jax.cloze.scores import comparison, queries_of, read_system
from mednli_jax.cloze.setups import SEEN, UNSEEN
from mednli_jax.cloze.stats import read_skills
from mednli_jax.cloze.tables import (
    HEADER,
    METRICS,
    all_systems,
    baselines_in,
    cell,
    comparison_section,
    words_of,
)
from mednli_jax.data.examples import PLACEHOLDER
from mednli_jax.files.paths import next_free
from mednli_jax.files.writing import private_folder, write_atomic
from mednli_jax.report.metrics import LEVEL, share_interval
from mednli_jax.report.options import EvaluationOptions
from mednli_jax.report.outcomes import Judged, differences, names_of, verdict
from mednli_jax.report.sections import (
    ITEMS,
    Grid,
    Report,
    RunSections,
    Section,
    interval,
    item_lines,
    points,
    sd,
    seeds_named,
)
from mednli_jax.rundir import RunResult
from mednli_jax.types import Json

if TYPE_CHECKING:
    from mednli_jax.cloze.scorer import ClozeRows, ClozeScorer
    from mednli_jax.finished import Run

Scores = Mapping[str, Json]


# -- scoring and comparing -------------------------------------------------------------------------


def evaluate(run: Run, options: EvaluationOptions) -> Report:
    """Reports the scores of a split's queries, and of each query as private rows."""
    split = options.split
    rows = cast("ClozeRows | None", run.prepared.splits.get(split))
    if options.vectors and rows:
        word_vectors = known_vectors(options.vectors, words_of_texts(rows.strings()))
        rows = replace(rows, word_vectors=word_vectors)
        splits = {**run.prepared.splits, split: rows}
        run = run.with_arrays(replace(run.prepared, splits=splits))
    scores, logits = run.score(split)
    assert rows is not None
    scorer = cast("ClozeScorer", run.scorer)
    scored = scorer.query_scores(rows, logits) if options.item_scores or options.skills else ()
    if options.skills:
        by_skill = answers.slices(rows.queries(), read_skills(options.skills)).get("skill", {})
        of_skill = {name: answers.seed_scores(scored, places) for name, places in by_skill.items()}
        scores = {**scores, "families": {**scores["families"], "skill": of_skill}}
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
        [_scores({split: scores}), _slices(split, scores)],
        private={ITEMS: item_lines(answers.query_rows(scored))} if options.item_scores else {},
        title=f"{run.result.model} on {corpus}, {split}, {seeds_named(seeds)}",
        notes=run.result.notes,
    )


def evaluate_answers(corpus: str, predictions: Path, options: EvaluationOptions) -> Report:
    """Reports the scores of any system's answers to cloze queries.

    corpus: see read_splits. predictions: the file of answers, see read_answers.
    """
    split = options.split
    queries = split_of(read_splits(corpus), split).examples
    predicted = answers.read_answers(predictions, queries)
    skills = read_skills(options.skills) if options.skills else {}
    vocab, vectors = None, None
    if options.vectors:
        texts = set(predicted.values()).union(*map(answers.texts, queries))
        vocab, vectors = known_vectors(options.vectors, words_of_texts(texts))
    scored = answers.query_scores(queries, predicted, vocab, vectors)
    scores = answers.summary_with_slices(queries, scored, skills)
    shown = {"all": scores}
    for family, named in scores["slices"].items():
        for name, of_slice in named.items():
            shown[f"{family} {name} ({of_slice['queries']:,})"] = of_slice
    private = {}
    if options.item_scores:
        rows = ({**row, "answered": bool(row["answered"])} for row in answers.query_rows([scored]))
        private[ITEMS] = item_lines(rows)
    low, high = share_interval(scores["exact_match"], scores["queries"])
    title = (
        f"{predictions} on {corpus}, {split}: {scores['queries']:,} queries, "
        f"{scores['missing']:,} not answered; 95 % interval of exact match "
        f"{interval(low, high, '')}"
    )
    return Report(
        {"predictions": str(predictions), "corpus": corpus, "split": split, **scores},
        [Section(title, grids=[all_systems(shown, paper=False)])],
        private=private,
    )


def compare(folders: Sequence[Path], split: str) -> Report:
    """Compares the first run with each of the others on the queries of a split."""
    queries, names = queries_of(folders[0], split), names_of(folders)
    runs = []
    for folder, name in zip(folders, names, strict=True):
        runs.append(read_system(folder, split, queries)._replace(name=name))
    rows = [{**comparison(runs[0], run), "split": split} for run in runs[1:]]
    sections = [
        verdict(list(map(_judged, rows))),
        differences(names, folders),
        comparison_section(rows),
    ]
    return Report({"comparisons": rows}, sections, title=f"{' and '.join(names)}: {split}")


def _judged(row: Scores) -> Judged:
    gain = row["exact_match"]
    return Judged(row["first"], row["second"], gain["difference"], gain["low"], gain["high"])


# -- the page of a run -----------------------------------------------------------------------------

EXACT = "exact match"
# What the queries of a row have in common.
FAMILIES = {
    "answers of training": "whether training also has the right candidate",
    "tags": "the demo's relate the answer to another name or to a circumstance",
    "answer length": "words of the dataset's answer",
    "semantic type": "the type of the dataset's answer",
}


def run_sections(folder: Path, result: RunResult) -> RunSections:
    """The sections of a run's page: scores of its splits, before the learning curves; then scores
    of subsets of the queries: answers seen in training or not, by the corpus's tags, by length, by
    type.

    folder: of the run; `reproduce` writes the baselines beside it.
    """
    scored = dict(reversed(result.scored().items()))  # test is first
    slices = [_slices(split, scores) for split, scores in scored.items()]
    overview = _scores(scored)
    if scored:
        split, scores = next(iter(scored.items()))
        exact = scores["accuracy"]["mean"]
        low, high = map(points, share_interval(exact, scores["examples"]))
        lead = f"{split.capitalize()} exact match {points(exact)} (95 % interval {low} to {high})"
        rivals = _rivals(folder, split, result.corpus)
        overview = replace(overview, lead=f"{lead}; {rivals}")
    return RunSections([overview], slices, measure=EXACT)


def _rivals(folder: Path, split: str, corpus: str) -> str:
    """The scores of a random candidate and of the best baseline."""
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


def _scores(scored: Mapping[str, Scores]) -> Section:
    """The scores of each split."""
    rows: list[tuple[str, ...]] = []
    for split, scores in scored.items():
        exact, queries = scores["accuracy"], scores["examples"]
        exact_match, *others = [cell(scores[metric], metric) for metric in METRICS]
        low, high = share_interval(exact["mean"], queries)
        unanswered = f"{scores['missing']['mean']:,.1f}".removesuffix(".0")
        loss = f"{scores['loss']['mean']:.4f}" if scores["loss"] else "-"
        counts = (f"{queries:,}", f"{scores['in_passage']:,}", unanswered)
        shares = (exact_match, sd(exact), interval(low, high, ""), *others)
        seeds = ", ".join(map(points, exact["per_seed"]))
        rows.append((split, *counts, *shares, words_of(scores), loss, seeds))
    exact_title, *other_titles = HEADER.values()
    counted = ("split", "queries", "answerable", "unanswered")
    scored_titles = (exact_title, "sd", "95 % interval", *other_titles)
    header = (*counted, *scored_titles, "words", "loss", "EM per seed")
    words = [
        "exact match (EM) and F1 in points; of answerable queries a candidate is right; loss is of "
        "these alone",
        "sd: between seeds; 95 % interval: of one run, for other queries of the same kind "
        "(Wilson); words: mean length of an answer",
    ]
    return Section("Scores", words, [Grid("", header, rows)] if rows else [])


def _slices(split: str, scores: Scores) -> Section:
    """The scores of subsets of the queries."""
    families: dict[str, dict[str, Scores]] = {"answers of training": {}, "tags": {}}
    families.update(scores.get("families", {}))
    for name, of_slice in scores.get("slices", {}).items():
        family = "answers of training" if name in (SEEN, UNSEEN) else "tags"
        families[family][name] = of_slice
    grids = []
    for family, named in families.items():
        rows = [_slice_row(name, of_slice) for name, of_slice in named.items()]
        if rows:
            grids.append(Grid(family, (family, "queries", "EM", "sd", "F1"), rows))
    words = ["points, means over the seeds"] if grids else []
    words += [f"{name}: {meaning}" for name, meaning in FAMILIES.items() if families.get(name)]
    return Section(f"Kinds of queries, {split}", words, grids)


def _slice_row(name: str, scores: Scores) -> tuple[str, ...]:
    exact, f1 = scores["accuracy"], scores["f1"]["mean"]
    return name, f"{scores['examples']:,}", points(exact["mean"]), sd(exact), points(f1)


# -- new queries, and where a reader looked --------------------------------------------------------


def prediction_lines(rows: Iterable[Scores]) -> Iterator[str]:
    """Yields a header, then for each query the answer, its probability, the number of candidates
    and the best of them."""
    yield "\t".join(("answer", "probability", "candidates", "best"))
    for row in map(prediction, rows):
        best = json.dumps(row["best"], ensure_ascii=False)
        cells = (row["predicted"], f"{row['probability']:.6f}", str(row["candidates"]), best)
        yield "\t".join(cells)


def prediction(row: Scores) -> dict[str, Json]:
    """The answer, its probability, the number of candidates and the best of them, for --output of
    `predict`."""
    probability = row["best"][0]["probability"] if row["answer"] else 0.0
    return {
        "predicted": row["answer"],
        "probability": round(probability, 6),
        "candidates": row["candidates"],
        "best": row["best"],
    }


def write_attention(run: Run, queries: Sequence[tuple[str, str]]) -> Path:
    """Writes the attention over each passage to a new folder under the run's private/, because it
    quotes the passages.

    Returns the folder: passage-1.json (tokens, candidates, weights of each seed), passage-1.html
    (means over the seeds) and so on.
    """
    attended, predicted = run.attention(queries), run.predictions(queries)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, (seen, answered) in enumerate(zip(attended, predicted, strict=True), start=1):
        answer, weights = answered["answer"], seen["weights"].astype(float)
        values = {**seen, "weights": weights.round(6).tolist(), "answer": answer}
        write_atomic(folder / f"passage-{number}.json", json.dumps(values) + "\n")
        write_atomic(folder / f"passage-{number}.html", attention_page(seen, answer))
    return folder


_SHADES = 10
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,"><title>Where the reader looked</title>
<style>
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
body {{ font: 17px/1.9 system-ui, sans-serif }}
u {{ text-underline-offset: 4px }}
.answer {{ font-weight: 700 }}
.passage {{ border-top: 1px solid; padding-top: 1rem }}
span {{ background: rgba(86, 180, 233, var(--shade)) }}
</style></head>
<body><h1>Where the reader looked</h1>
<p>{query}</p><p>Answer: <b>{answer}</b></p><p class="passage">{passage}</p></body></html>
"""


def attention_page(seen: Scores, answer: str) -> str:
    """A passage as HTML, a shade for each token's weight (mean over the seeds), candidates
    underlined, the query above.

    seen: see ClozeScorer.attention_map. answer: the most likely candidate.
    """

    def shown(token: str) -> str:
        return html.escape(seen["names"].get(token, token))

    weight_T = np.mean(seen["weights"], axis=0)
    most = max(weight_T, default=0.0) or 1.0
    words = []
    for token, weight in zip(seen["passage"], weight_T, strict=True):
        shade = math.ceil(_SHADES * weight / most) / _SHADES
        shaded = f'<span style="--shade: {shade}" title="{weight:.4f}">{shown(token)}</span>'
        words.append(shaded if weight > 0 else shown(token))
    for candidate, spans in zip(seen["candidates"], seen["spans"], strict=True):
        kind = ' class="answer"' if candidate == answer else ""
        for start, end in spans:
            words[start] = f"<u{kind}>{words[start]}"
            words[end - 1] += "</u>"
    query = " ".join(map(shown, seen["query"])).replace(PLACEHOLDER, "<b>_____</b>")
    return _PAGE.format(query=query, answer=html.escape(answer) or "-", passage=" ".join(words))
