"""What reports and commands show of cloze runs: scores, comparisons, predictions, attention over
passages.

Nothing here holds text of a corpus, except for `attention_page`, which quotes a passage: it is for
a private folder.
"""

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mednli_jax.cloze import scores as answers
from mednli_jax.cloze.baselines import known_vectors
from mednli_jax.cloze.encoding import SEEN, UNSEEN, corpus_named, split_of
from mednli_jax.cloze.scores import comparison, finished, queries_of
from mednli_jax.cloze.stats import read_skills
from mednli_jax.cloze.tables import HEADER, METRICS, all_systems, cell, comparison_section, words_of
from mednli_jax.data.examples import PLACEHOLDER
from mednli_jax.files import next_free, private_folder, write_atomic
from mednli_jax.report.metrics import wilson_interval
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


def _interval(share, n):
    return wilson_interval(round(share * n), n)


def _missing(scores):
    return f"{scores['missing']['mean']:,.1f}".removesuffix(".0")


# -- scoring and comparing ---------------------------------------------------------------------------------------------


def evaluate(run, options: EvaluationOptions) -> Report:
    """The scores of a split's queries, and of each query as private rows. run: a FinishedRun."""
    split, vectors, each = options.split, options.vectors, options.each
    corpus, rows = run.experiment.corpus.title, run.prepared.splits.get(split)
    skills = read_skills(options.skills) if options.skills else None
    if vectors and rows:
        rows = replace(rows, words=known_vectors(vectors, (), sorted(rows.strings())))
        run = run.having(replace(run.prepared, splits={**run.prepared.splits, split: rows}))
    scores, logits = run.scores(split)
    scored = run.task.scored(rows, logits) if each or skills else ()
    if skills:
        named = answers.slices(rows.queries(), skills).get("skill", {})
        found = {name: answers.seed_scores(scored, places) for name, places in named.items()}
        scores = {**scores, "families": {**scores["families"], "skill": found}}
    seeds = run.result.seeds
    low, high = _interval(scores["accuracy"]["mean"], scores["examples"])
    figures = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "split": split,
        "seeds": seeds,
        **scores,
        "interval": {"low": low, "high": high, "level": 0.95},
    }
    title = f"{run.result.model} on {corpus}, {split}, {seeds_named(seeds)}"
    private = {ITEMS: item_lines(answers.rows(scored))} if each else {}
    sections = [_scores({split: scores}), _slices(split, scores)]
    return Report(figures, sections, private=private, title=title, notes=run.result.notes)


def evaluate_answers(corpus: str, predictions: Path, options: EvaluationOptions) -> Report:
    """The scores of answers to cloze queries, whoever gave them.

    corpus: see corpus_named. predictions: the file of answers, see read_answers.
    """
    split, vectors = options.split, options.vectors
    examples = split_of(corpus_named(corpus), split).examples
    predicted = answers.read_answers(predictions, examples)
    skills = read_skills(options.skills) if options.skills else None
    words = ()
    if vectors:
        texts = set(predicted.values()).union(*map(answers.texts, examples))
        words = known_vectors(vectors, (), texts)
    scored = answers.query_scores(examples, predicted, *words)
    scores = answers.figures(examples, scored, skills)
    figures = {"predictions": str(predictions), "corpus": corpus, "split": split, **scores}
    title = f"{predictions} on {corpus}, {split}: {scores['queries']:,} queries, {scores['missing']:,} not answered"
    title += f"; 95 % interval of exact match {interval(*_interval(scores['exact_match'], scores['queries']), '')}"
    shown = {"all": scores}
    for family, named in scores["slices"].items():
        shown |= {f"{family} {name} ({of['queries']:,})": of for name, of in named.items()}
    rows = answers.rows([scored]) if options.each else ()
    private = (
        {ITEMS: item_lines({**row, "answered": bool(row["answered"])} for row in rows)}
        if options.each
        else {}
    )
    return Report(
        figures, [Section(title, grids=[all_systems(shown, paper=False)])], private=private
    )


def compare(folders: Sequence[Path], split: str) -> Report:
    """Compares the first run with each of the others on the queries of a split."""
    queries, called, runs = queries_of(folders[0], split), names_of(folders), []
    for folder, name in zip(folders, called, strict=True):
        runs.append(finished(folder, split, queries)._replace(name=name))
    first, *others = runs
    rows = [{**comparison(first, other), "split": split} for other in others]
    decided = verdict(_judged(row) for row in rows)
    sections = [decided, differences(called, folders), comparison_section(rows)]
    return Report({"comparisons": rows}, sections, title=f"{' and '.join(called)}: {split}")


def _judged(row: dict) -> Judged:
    of = row["exact_match"]
    return Judged(row["first"], row["second"], of["difference"], of["low"], of["high"])


# -- the page of a run -------------------------------------------------------------------------------------------------


# What the queries of a row have in common.
FAMILIES = {
    "answers of training": "whether training also has the right candidate",
    "tags": "the demo's relate the answer to another name or to a circumstance",
    "answer length": "words of the dataset's answer",
    "semantic type": "the type of the dataset's answer",
}


def run_sections(result: RunResult) -> RunSections:
    """Scores of the run's splits, shown before the learning curves; then scores of subsets of the
    queries: answers seen in training or not, by the corpus's tags, by length, by type."""
    scored = result.scored()
    slices = [_slices(split, scores) for split, scores in scored.items()]
    return RunSections([_scores(scored)], slices)


def _scores(scored) -> Section:
    rows = []
    for split, scores in scored.items():
        exact, n = scores["accuracy"], scores["examples"]
        em, *others = [cell(scores[metric], metric) for metric in METRICS]
        loss = f"{scores['loss']['mean']:.4f}" if scores["loss"] else "-"
        wide = interval(*_interval(exact["mean"], n), "")
        seeds = ", ".join(points(value) for value in exact["per_seed"])
        counts = (f"{n:,}", f"{scores['in_passage']:,}", _missing(scores))
        rows.append((split, *counts, em, sd(exact), wide, *others, words_of(scores), loss, seeds))
    exact, *others = HEADER.values()
    header = ("split", "queries", "answerable", "unanswered", exact, "sd")
    header += ("95 % of one run", *others, "words", "loss", "EM per seed")
    words = [
        "exact match (EM) and F1 in points; of answerable queries a candidate is right; loss is of these alone",
        "words: mean length of an answer",
    ]
    return Section("Scores", words, [Grid("", header, rows)] * bool(rows))


def _slices(split, scores) -> Section:
    families = {"answers of training": {}, "tags": {}, **scores.get("families", {})}
    for name, of in scores.get("slices", {}).items():
        family = "answers of training" if name in (SEEN, UNSEEN) else "tags"
        families[family][name] = of
    grids = []
    for family, named in families.items():
        rows = []
        for name, of in named.items():
            exact, f1 = of["accuracy"], of["f1"]["mean"]
            rows.append((name, f"{of['examples']:,}", points(exact["mean"]), sd(exact), points(f1)))
        grids += [Grid(family, (family, "queries", "EM", "sd", "F1"), rows)] * bool(rows)
    words = ["points, means over the seeds"] * bool(grids)
    words += [f"{name}: {FAMILIES[name]}" for name in FAMILIES if families.get(name)]
    return Section(f"Kinds of queries, {split}", words, grids)


# -- new queries, and where a reader looked ----------------------------------------------------------------------------


def prediction_lines(rows: Sequence[Mapping]) -> Iterator[str]:
    """A header, then of each query the answer, its probability, the number of candidates and the
    best of them."""
    yield "\t".join(("answer", "probability", "candidates", "best"))
    for row in map(prediction, rows):
        best = json.dumps(row["best"], ensure_ascii=False)
        yield "\t".join(
            (row["predicted"], f"{row['probability']:.6f}", str(row["candidates"]), best)
        )


def prediction(row: Mapping) -> dict:
    """The answer, its probability, the number of candidates and the best of them, for --output of
    `predict`."""
    probability = row["best"][0]["probability"] if row["answer"] else 0.0
    found = {"predicted": row["answer"], "probability": round(probability, 6)}
    return {**found, "candidates": row["candidates"], "best": row["best"]}


def write_attention(run, queries) -> Path:
    """Writes the attention over each passage to a new folder under the run's private/, because it
    quotes the passages.

    Returns the folder: passage-1.json (tokens, candidates, weights of each seed), passage-1.html
    (means over the seeds) and so on. run: a FinishedRun.
    """
    found, predicted = run.attention(queries), run.predict(queries)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, (seen, answered) in enumerate(zip(found, predicted, strict=True), start=1):
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
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 17px/1.9 system-ui, sans-serif }}
u {{ text-underline-offset: 4px }}
.answer {{ font-weight: 700 }}
.passage {{ border-top: 1px solid; padding-top: 1rem }}
span {{ background: rgba(86, 180, 233, var(--shade)) }}
</style></head>
<body><h1>Where the reader looked</h1>
<p>{query}</p><p>Answer: <b>{answer}</b></p><p class="passage">{passage}</p></body></html>
"""


def attention_page(found: dict, answer: str) -> str:
    """A passage as HTML, a shade for each token's weight (mean over the seeds), candidates
    underlined, the query above.

    found: see ClozeTask.looked_at. answer: the most likely candidate.
    """

    def named(token):
        return html.escape(found["names"].get(token, token))

    mean = np.mean(found["weights"], axis=0)
    most, words = max(mean, default=0.0) or 1.0, []
    for token, weight in zip(found["passage"], mean, strict=True):
        text, shade = named(token), math.ceil(_SHADES * weight / most) / _SHADES
        shown = f'<span style="--shade: {shade}" title="{weight:.4f}">{text}</span>'
        words.append(shown if weight > 0 else text)
    for candidate, spans in zip(found["candidates"], found["spans"], strict=True):
        for start, end in spans:
            kind = ' class="answer"' if candidate == answer else ""
            words[start] = f"<u{kind}>{words[start]}"
            words[end - 1] += "</u>"
    query = " ".join(map(named, found["query"])).replace(PLACEHOLDER, "<b>_____</b>")
    said = html.escape(answer) or "-"
    return _PAGE.format(query=query, answer=said, passage=" ".join(words))
