"""The sections of a report on cloze runs; answers to new queries, and the attention over their passages.

Sections hold no text of a corpus. The page of `attention_page` quotes a passage: it is for a private folder.
"""

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mednli_jax.cloze.tables import HEADER, METRICS, cell
from mednli_jax.cloze.views import SEEN, UNSEEN
from mednli_jax.data.examples import PLACEHOLDER
from mednli_jax.io import next_free, private_folder, write_atomic
from mednli_jax.report import charts
from mednli_jax.report.metrics import wilson_interval
from mednli_jax.report.sections import Grid, Section, interval, points, sd

SPLITS = ("dev", "test")


# -- one run -----------------------------------------------------------------------------------------------------------


def run_sections(result: dict) -> tuple[list[Section], list[Section]]:
    """Scores of the run's splits, shown before the learning curves; then scores of subsets of the queries: answers
    seen in training or not, by the corpus's tags, by length, by type."""
    return [_scores(result)], [_slices(split, result[split]) for split in SPLITS if result.get(split)]


def _scores(result) -> Section:
    rows = []
    for split in SPLITS:
        scores = result.get(split)
        if not scores:
            continue
        exact, n = scores["accuracy"], scores["examples"]
        low, high = wilson_interval(round(exact["mean"] * n), n)
        cells = [cell(scores[metric], metric) for metric in METRICS]
        loss = f"{scores['loss']['mean']:.4f}" if scores["loss"] else "-"
        missing = f"{scores['missing']['mean']:,.1f}".removesuffix(".0")
        wide, seeds = interval(low, high, ""), ", ".join(points(value) for value in exact["per_seed"])
        counts = (f"{n:,}", f"{scores['in_passage']:,}", missing)
        rows.append((split, *counts, cells[0], sd(exact), wide, *cells[1:], loss, seeds))
    header = ("split", "queries", "answerable", "unanswered", "EM", "sd", "95 % of one run")
    header += (*(HEADER[metric] for metric in METRICS[1:]), "loss", "EM per seed")
    words = [
        "exact match (EM) and F1 in points; of queries that are answerable a candidate is right; loss is of these alone"
    ]
    return Section("Scores", words, [Grid("", header, rows)] * bool(rows))


def _slices(split, scores) -> Section:
    slices = scores.get("slices", {})
    families = {
        "answers of training": {name: of for name, of in slices.items() if name in (SEEN, UNSEEN)},
        "tags": {name: of for name, of in slices.items() if name not in (SEEN, UNSEEN)},
        **scores.get("families", {}),
    }
    grids, drawn = [], []
    for family, named in families.items():
        if not named:
            continue
        rows = [
            (name, f"{s['examples']:,}", points(s["accuracy"]["mean"]), sd(s["accuracy"]), points(s["f1"]["mean"]))
            for name, s in named.items()
        ]
        grids.append(Grid(family, (family, "queries", "EM", "sd", "F1"), rows))
        fields = {"EM": "accuracy", "F1": "f1"}
        series = {title: [100 * s[field]["mean"] for s in named.values()] for title, field in fields.items()}
        chart = charts.bars(series, list(named), title=f"{split} by {family}", x=family, y="points")
        drawn.append((f"{split}: by {family}", chart))
    return Section(f"Kinds of queries, {split}", ["points, means over the seeds"] * bool(grids), grids, drawn)


# -- systems against each other ----------------------------------------------------------------------------------------


def comparison_section(compared: Sequence[dict]) -> Section:
    """The first system against each other: rows of outcomes.comparison."""
    first = compared[0]
    words = [
        f"{first['queries']:,} {first['split']} queries; points, means over the seeds",
        "difference: the row less the first, 95 % interval by paired bootstrap over queries and, of EM, seeds; "
        "queries of one passage are counted as independent, so that intervals are a little too narrow",
    ]
    header = ("system", "seeds", "EM", "difference", "95 %", "F1", "difference", "95 %")
    ours = str(first["seeds"][0]), points(first["exact_match_of"][0]), "", "", points(first["f1_of"][0]), "", ""
    rows = [(first["first"], *ours)]
    for row in compared:
        cells = []
        for name in ("exact_match", "f1"):
            of = row[name]
            cells += [points(row[f"{name}_of"][1]), points(of["difference"], "+")]
            cells.append(interval(of["low"], of["high"]))
        rows.append((row["second"], str(row["seeds"][1]), *cells))
    return Section("Comparison", words, [Grid("", header, rows)])


# -- new queries, and where a reader looked ----------------------------------------------------------------------------


def prediction_lines(rows: Sequence[Mapping]) -> Iterator[str]:
    """A header, then of each query the answer, its probability, the number of candidates and the best of them."""
    yield "\t".join(("answer", "probability", "candidates", "best"))
    for row in rows:
        probability = row["best"][0]["probability"] if row["answer"] else 0.0
        best = json.dumps(row["best"], ensure_ascii=False)
        yield "\t".join((row["answer"], f"{probability:.6f}", str(row["candidates"]), best))


def write_attention(run, queries) -> Path:
    """Writes the attention over each passage to a new folder under the run's private/, because it quotes the passages.

    Returns the folder, which holds passage-1.json (tokens, candidates, weights of each seed), passage-1.html (means
    over the seeds) and so on.
    run: a finished_run.FinishedRun.
    """
    found, predicted = run.attention(queries), run.predict(queries)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, (seen, answered) in enumerate(zip(found, predicted, strict=True), start=1):
        page = attention_page(seen, answered["answer"])
        values = {**seen, "weights": seen["weights"].astype(float).round(6).tolist(), "answer": answered["answer"]}
        write_atomic(folder / f"passage-{number}.json", json.dumps(values) + "\n")
        write_atomic(folder / f"passage-{number}.html", page)
    return folder


_SHADES = 10
_STYLE = (
    "body{max-width:60rem;margin:2rem auto;padding:0 1rem;font:17px/1.9 system-ui,sans-serif}"
    "u{text-underline-offset:4px}.answer{font-weight:700}.passage{border-top:1px solid;padding-top:1rem}"
    + "".join(f".s{n}{{background:rgba(86,180,233,{n / _SHADES:.1f})}}" for n in range(1, _SHADES + 1))
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_HEAD = (
    f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
    f'content="{_POLICY}"><meta name="viewport" content="width=device-width, initial-scale=1">'
    f'<link rel="icon" href="data:,"><title>Where the reader looked</title><style>{_STYLE}</style></head>'
)


def attention_page(found: dict, answer: str) -> str:
    """A passage as HTML, a shade for each token's weight (mean over the seeds), candidates underlined, the query above.

    found: as ClozeTask.looked_at gives it; answer: the most likely candidate. Loads nothing.
    """
    mean = [sum(column) / len(column) for column in zip(*found["weights"], strict=True)]
    most = max(mean, default=0.0) or 1.0
    ends, marked = {}, {}
    for candidate, spans in zip(found["candidates"], found["spans"], strict=True):
        for start, end in spans:
            marked[start], ends[end - 1] = candidate, True
    body = []
    for place, (token, weight) in enumerate(zip(found["passage"], mean, strict=True)):
        kind = ' class="answer"' if marked.get(place) == answer else ""
        shade = -(-_SHADES * weight // most) if weight > 0 else 0
        text = html.escape(found["names"].get(token, token))
        shown = f'<span class="s{int(shade)}" title="{weight:.4f}">{text}</span>' if shade else text
        body.append(f"<u{kind}>" * (place in marked) + shown + "</u>" * (place in ends))
    query = " ".join(
        "<b>_____</b>" if token == PLACEHOLDER else html.escape(found["names"].get(token, token))
        for token in found["query"]
    )
    content = f"<p>{query}</p><p>Answer: <b>{html.escape(answer) or '-'}</b></p><p class='passage'>{' '.join(body)}</p>"
    return f"{_HEAD}<body><h1>Where the reader looked</h1>{content}</body></html>\n"
