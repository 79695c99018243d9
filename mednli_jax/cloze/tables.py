"""Scores of cloze queries beside those of Table 4 of Šuster & Daelemans 2018, and files with answers of any system.

Errors in a file of answers name the line (of JSON lines) or the entry (of one JSON object); they never quote it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mednli_jax.cloze.corpus import CLICR, DEMO, FILE, read
from mednli_jax.cloze.scores import QueryScores, summary
from mednli_jax.cloze.scores import rows as rows_of
from mednli_jax.data.examples import ClozeExample, Split
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.io import json_lines, opened_text, write_atomic
from mednli_jax.report.metrics import mean_sd, wilson_interval
from mednli_jax.report.sections import Grid, grid_lines, points, sd
from mednli_jax.report.sections import markdown as markdown_lines
from mednli_jax.report.tables import fill, published

HEADER = {"exact_match": "EM", "f1": "F1", "bleu2": "BLEU-2", "bleu4": "BLEU-4", "embedding": "Emb"}
METRICS = tuple(HEADER)
# CliCR's test part; the humans answered 100 queries of the validation part (sections 4.1 and 7.1).
PAPER = {row["system"]: row["paper"] for row in published("clicr")["tables"]["4"]["rows"] if row["paper"]}


def corpus(name: str) -> dict[str, Split]:
    """Train, dev and test by name; dev and test queries tagged seen or unseen.

    name: demo_cloze (bundled), clicr (in $MEDNLI_JAX_DATA/clicr), or a folder in its layout. CliCR passages begin with
    their titles, as its published readers and baselines read them; those of a folder are the contexts alone.
    """
    if name == DEMO:
        return read(DEMO)
    folder = os.environ.get("MEDNLI_JAX_DATA", "") if name == CLICR else name
    if not folder:
        raise UsageError(f"--corpus={CLICR}: $MEDNLI_JAX_DATA is not set. Fix: set it, or give a folder.")
    if not Path(folder).expanduser().is_dir():
        raise UsageError(f"{folder}: is no folder. Fix: give --corpus={DEMO}, {CLICR}, or a FOLDER like it.")
    return read(CLICR if name == CLICR else FILE, Path(folder).expanduser())


def split_of(splits: Mapping[str, Split], name: str) -> Split:
    """Raises UsageError for a split that the corpus has not."""
    if name not in splits:
        raise UsageError(f"--split={name}: no such split. Fix: give one of {', '.join(splits)}.")
    return splits[name]


# -- files of answers --------------------------------------------------------------------------------------------------


_FORMS = 'write lines {"uid": "...", "answer": "..."}, or one JSON object {"<uid>": "<answer>"}'


def read_answers(path: Path, examples: Iterable[ClozeExample]) -> dict[str, str]:
    """What a system answers to queries, {uid: text}.

    Args:
      path: JSON lines {"uid": ..., "answer": ...}, or one JSON object {uid: text} as CliCR's own script reads; also
        gzipped.
      examples: the queries that may be answered; not all need be.
    """
    path, known, answers, problems = Path(path), {example.uid for example in examples}, {}, Problems()
    for line, entry, uid, answer in _entries(path, problems):
        if not (isinstance(uid, str) and isinstance(answer, str)):
            problem, fix = "uid or answer is missing or no text", _FORMS
        elif uid in answers:
            problem, fix = "uid repeats that of an earlier one", "keep one answer a query"
        elif uid not in known:
            problem = "uid is that of no query of this split"
            fix = "score the split it belongs to: --corpus and --split"
        else:
            answers[uid] = answer
            continue
        problems.add(DataError(problem if line else f"entry {entry}: {problem}", file=path.name, line=line, fix=fix))
    problems.raise_if_any()
    if not answers:
        raise DataError("holds no answers", file=path.name, fix=_FORMS)
    return answers


def _entries(path, problems) -> Iterator[tuple]:
    """(line, None, uid, answer) of JSON lines, (None, entry, uid, answer) of one JSON object."""
    with opened_text(path) as stream:
        try:
            whole = json.load(stream)
        except (json.JSONDecodeError, RecursionError):
            whole = None
    if isinstance(whole, dict) and not ("uid" in whole or ".jsonl" in path.suffixes):
        yield from ((None, number, *pair) for number, pair in enumerate(whole.items(), start=1))
    else:
        rows = json_lines(path, problems)
        yield from ((number, None, row.get("uid"), row.get("answer")) for number, row in rows)


def write_answers(path: Path, answers: Mapping[str, str]) -> None:
    """Writes {uid: text} as JSON lines that `read_answers` reads, for its owner alone."""
    rows = (json.dumps({"uid": uid, "answer": text}, ensure_ascii=False) for uid, text in answers.items())
    write_atomic(path, "".join(row + "\n" for row in rows))


# -- tables ------------------------------------------------------------------------------------------------------------


def paper_cell(value: float | None, metric: str) -> str:
    """A figure as the paper prints it: exact match and F1 in points."""
    return points(value) if value is None or metric in METRICS[:2] else f"{value:.2f}"


def cell(found: Mapping | None, metric: str) -> str:
    """The same of a mean_sd over the seeds."""
    return paper_cell(found and found["mean"], metric)


def lines(name: str, scores: dict) -> Iterator[str]:
    """Text for `answers.score`: the figures of all queries, then of each slice. name: what was scored on what."""
    low, high = wilson_interval(round(scores["exact_match"] * scores["queries"]), scores["queries"])
    yield f"{name}: {scores['queries']:,} queries, {scores['missing']:,} without an answer"
    yield f"exact match {points(scores['exact_match'])} (95 % interval {points(low)}-{points(high)})"

    def row(found):
        length = found["predicted_length"]
        cells = (paper_cell(found[metric], metric) for metric in METRICS)
        return f"{found['queries']:,}", *cells, "-" if length is None else f"{length:.1f}", f"{found['missing']:,}"

    yield from _by_slice(("queries", *HEADER.values(), "words", "missing"), scores, scores["slices"], row)


def run_lines(name: str, scores: dict) -> Iterator[str]:
    """Text for the scores of a run's seeds (tasks.cloze): all queries, then slices; means over the seeds, and the
    deviation of exact match where there are several. name: what was scored on what."""
    exact, queries = scores["accuracy"], scores["examples"]
    low, high = wilson_interval(round(exact["mean"] * queries), queries)
    missing = f"{scores['missing']['mean']:,.1f}".removesuffix(".0")
    yield f"{name}: {queries:,} queries, {missing} without an answer"
    spread = f"sd {sd(exact)}; " if len(exact["per_seed"]) > 1 else ""  # of one seed it says nothing
    yield f"exact match {points(exact['mean'])} ({spread}95 % interval of one run {points(low)}-{points(high)})"
    loss = f"; loss {scores['loss']['mean']:.4f}" if scores["loss"] else ""  # none where no answer can be scored
    yield f"{scores['in_passage']:,} queries have their answer among the candidates{loss}"

    def row(found):
        rest = (cell(found[metric], metric) if metric in found else "" for metric in METRICS[2:])
        return (
            f"{found['examples']:,}",
            points(found["accuracy"]["mean"]),
            sd(found["accuracy"]),
            cell(found["f1"], "f1"),
            *rest,
        )

    families = {**({"tag": scores["slices"]} if "slices" in scores else {}), **scores["families"]}
    yield from _by_slice(("queries", "EM", "sd", *list(HEADER.values())[1:]), scores, families, row)


def _by_slice(header, scores, families, row) -> Iterator[str]:
    """A row for all queries, then for each family a heading and a row for each of its slices."""
    if scores["embedding"] is None:
        yield "no embedding score: it needs word vectors, --vectors=FILE"
    rows = [("all", *row(scores))]
    for family, named in families.items():
        rows.append((family, *[""] * len(header)))
        rows += [(f"  {name}", *row(found)) for name, found in named.items()]
    yield from grid_lines(Grid("", ("", *header), rows))


def seed_scores(each: Sequence[QueryScores], places: Sequence[int] | slice = slice(None)) -> dict:
    """Exact match (as accuracy) and F1 of the queries at `places`, mean_sd over the seeds, with how many there are."""
    found = [summary(scores, places) for scores in each]
    exact, f1 = (mean_sd([scores[name] for scores in found]) for name in ("exact_match", "f1"))
    return {"examples": found[0]["queries"], "accuracy": exact, "f1": f1}


def mean_rows(each: Sequence[QueryScores]) -> list[dict]:
    """One object per query, means over the seeds: see answers.rows."""
    seeds = [rows_of(scores) for scores in each]
    named = [name for name in seeds[0][0] if name != "uid"]
    return [
        {"uid": of[0]["uid"], **{name: sum(row[name] for row in of) / len(of) for name in named}}
        for of in zip(*seeds, strict=True)
    ]


def markdown(rows: Sequence[tuple[str, dict]], *, paper: bool = True) -> Iterator[str]:
    """Table 4 in Markdown: systems with their `answers.summary`, or a part of it, each beside the paper's figures.

    paper: then those rows of the paper, humans included, that are not among the systems. EM and F1 are in points.
    """
    ours = dict(rows)
    systems = [*ours, *(system for system in PAPER if paper and system not in ours)]
    lengths = {system: found.get("predicted_length") for system, found in ours.items()}
    columns = [(HEADER[metric], _cells(ours, metric)) for metric in METRICS]
    columns.append(("words", {system: f"{length:.1f}" for system, length in lengths.items() if length is not None}))
    first = f"paper: {HEADER[METRICS[0]]}"
    columns += [(first if metric == METRICS[0] else HEADER[metric], _cells(PAPER, metric)) for metric in METRICS]
    yield from markdown_lines(fill("", ("system",), {system: (system,) for system in systems}, columns))


def _cells(of: Mapping[str, Mapping], metric) -> dict[str, str]:
    return {system: paper_cell(found[metric], metric) for system, found in of.items() if found.get(metric) is not None}
