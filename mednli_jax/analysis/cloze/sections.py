"""What a report says of cloze runs, as the sections of `sections`; and where a reader looked, as a page of its own.

Sections hold no text of a corpus. The page of `attention_page` quotes a passage: it is for a private folder.
"""

import html
from collections.abc import Sequence

from mednli_jax.analysis import svg
from mednli_jax.analysis.cloze.skills import PAPER as PAPER_SKILLS
from mednli_jax.analysis.cloze.tables import METRICS
from mednli_jax.analysis.sections import Grid, Section, interval, points
from mednli_jax.examples import PLACEHOLDER
from mednli_jax.metrics import wilson_interval

SPLITS = ("dev", "test")
HEADER = {"exact_match": "EM", "f1": "F1", "bleu2": "BLEU-2", "bleu4": "BLEU-4", "embedding": "Emb"}


# -- one run -----------------------------------------------------------------------------------------------------------


def run_sections(result: dict) -> tuple[list[Section], list[Section]]:
    """Scores of the run's splits, which stand before the learning curves; then those of kinds of queries: answers seen
    in training or not, by length, by type."""
    return [_scores(result)], [_slices(split, result[split]) for split in SPLITS if result.get(split)]


def _scores(result) -> Section:
    rows = []
    for split in SPLITS:
        scores = result.get(split)
        if not scores:
            continue
        exact, n = scores["accuracy"], scores["examples"]
        low, high = wilson_interval(round(exact["mean"] * n), n)
        cells = [_cell(scores[metric], metric) for metric in METRICS]
        loss, missing = f"{scores['loss']['mean']:.4f}", f"{scores['missing']['mean']:,.1f}".removesuffix(".0")
        wide, seeds = interval(100 * low, 100 * high, ""), ", ".join(points(value) for value in exact["per_seed"])
        counts = (f"{n:,}", f"{scores['in_passage']:,}", missing)
        rows.append((split, *counts, cells[0], _sd(exact), wide, *cells[1:], loss, seeds))
    header = ("split", "queries", "answerable", "unanswered", "EM", "sd", "95 % of one run")
    header += (*(HEADER[metric] for metric in METRICS[1:]), "loss", "EM per seed")
    words = [
        "exact match (EM) and F1 in points; of queries that are answerable a candidate is right; loss is of these alone"
    ]
    return Section("Scores", words, [Grid("", header, rows)] * bool(rows))


def _slices(split, scores) -> Section:
    families = {"answers of training": scores.get("slices", {}), **scores.get("families", {})}
    grids, charts = [], []
    for family, named in families.items():
        if not named:
            continue
        rows = [
            (name, f"{s['examples']:,}", points(s["accuracy"]["mean"]), _sd(s["accuracy"]), points(s["f1"]["mean"]))
            for name, s in named.items()
        ]
        grids.append(Grid(family, (family, "queries", "EM", "sd", "F1"), rows))
        fields = {"EM": "accuracy", "F1": "f1"}
        series = {title: [100 * s[field]["mean"] for s in named.values()] for title, field in fields.items()}
        chart = svg.bars(series, list(named), title=f"{split} by {family}", x=family, y="points")
        charts.append((f"{split}: by {family}", chart))
    return Section(f"Kinds of queries, {split}", ["points, means over the seeds"] * bool(grids), grids, charts)


def _cell(value, metric):
    """A figure as the paper prints it: mean over seeds."""
    if value is None:
        return "-"
    return points(value["mean"]) if metric in METRICS[:2] else f"{value['mean']:.2f}"


def _sd(value):
    return points(value["sd"]) if len(value["per_seed"]) > 1 else "-"


# -- systems against each other ----------------------------------------------------------------------------------------


def comparison_section(compared: Sequence[dict]) -> Section:
    """The first system against each other: rows of cloze_outcomes.comparison."""
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
            cells.append(interval(100 * of["low"], 100 * of["high"]))
        rows.append((row["second"], str(row["seeds"][1]), *cells))
    return Section("Comparison", words, [Grid("", header, rows)])


# -- Table 4, Figure 5 -------------------------------------------------------------------------------------------------


def table4_section(found: dict) -> Section:
    """Table 4 as `cloze_table4.filled` gives it, the paper's figures beside ours."""
    words = ["exact match (EM) and F1 in points; ours are means over the seeds, sd between them"]
    words.append(f"ours on {found['corpus']}, {found['split']}" if found["corpus"] else "nothing is finished yet")
    if found["corpus"] and not found["comparable"]:
        words.append(f"the paper's figures are of CliCR: they are NOT COMPARABLE with ours on {found['corpus']}")
    words.append("the paper's humans answered 100 queries of the validation part (sections 4.1 and 7.1)")
    named = [HEADER[metric] for metric in METRICS]
    header = ("", "seeds", "EM", "sd", "F1", "sd", *named[2:], "paper: EM", *named[1:])
    grid = Grid("", header, [_table_row(row) for row in found["rows"]])
    lacking = [(f"not there yet: {'; '.join(names)}", command) for command, names in found["lacking"].items()]
    return Section("Table 4: answers to CliCR's queries", words, [grid], commands=lacking)


def _table_row(row):
    paper = ["-" if metric not in row["paper"] else _paper(row["paper"][metric], metric) for metric in METRICS]
    if row["state"] != "complete":
        return (row["system"], "", row["state"] or "-", *[""] * 6, *paper)
    cells = [_cell(row["ours"].get(metric), metric) for metric in METRICS]
    sds = [_sd(row["ours"][metric]) if metric in row["ours"] else "-" for metric in METRICS[:2]]
    ours = (cells[0], sds[0], cells[1], sds[1], *cells[2:])
    return (row["system"], str(row["seeds"]), *ours, *paper)


def _paper(value, metric):
    return points(value) if metric in METRICS[:2] else f"{value:.2f}"


def skills_section(found: dict) -> Section:
    """Figure 5, F1 by the skills that queries need: of cloze_skills.statistics."""
    systems = found["f1"]
    words = [
        f"{found['queries']:,} queries are annotated with skills, {found['mean']:.2f} a query (paper: "
        f"{PAPER_SKILLS['mean']:.2f} of {PAPER_SKILLS['queries']}); F1 in points, mean over the seeds"
    ]
    shares = sorted(found["shares"].items(), key=lambda item: -item[1])
    rows = [
        (name, points(share), *("-" if f1[name] is None else points(f1[name]) for f1 in systems.values()))
        for name, share in shares
    ]
    needed = [name for name, share in shares if share]
    series = {system: [100 * f1[name] for name in needed] for system, f1 in systems.items()}
    chart = svg.bars(series, needed, title="F1 by skill", x="skill", y="F1")
    grid = Grid("", ("skill", "% of queries", *systems), rows)
    return Section("Skills (Figure 5)", words, [grid], [("F1 by skill", chart)] * bool(chart))


# -- where a reader looked ---------------------------------------------------------------------------------------------

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

    found: as passages.PassagePredictor.attention gives it; answer: the most likely candidate. Loads nothing.
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
    said = f"<p>{query}</p><p>Answer: <b>{html.escape(answer) or '-'}</b></p><p class='passage'>{' '.join(body)}</p>"
    return f"{_HEAD}<body><h1>Where the reader looked</h1>{said}</body></html>\n"
