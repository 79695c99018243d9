"""What a report shows of cloze runs: scores, comparisons, Table 4 of Šuster & Daelemans 2018,
attention over passages.

Nothing here holds text of a corpus, except for `attention_page`, which quotes a passage: it is for
a private folder.
"""

import html
import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mednli_jax.cloze import scores as answers
from mednli_jax.cloze.baselines import known_vectors
from mednli_jax.cloze.encoding import CLICR, DEMO, FILE, SEEN, UNSEEN, corpus_named, split_of
from mednli_jax.cloze.runs import RUNS as PAPER_RUNS
from mednli_jax.cloze.scores import comparison, finished, queries_of
from mednli_jax.cloze.stats import read_skills, skill_statistics
from mednli_jax.data.examples import PLACEHOLDER
from mednli_jax.errors import RunError
from mednli_jax.files import next_free, private_folder, write_atomic
from mednli_jax.report.metrics import mean_sd, wilson_interval
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
from mednli_jax.report.tables import Read, check_folder, fill, published, section, state, unlike
from mednli_jax.rundir import RunResult, read_json

SPLITS = ("dev", "test")
HEADER = {"exact_match": "EM", "f1": "F1", "bleu2": "BLEU-2", "bleu4": "BLEU-4", "embedding": "Emb"}
METRICS = tuple(HEADER)
NAME = "clicr4"
ROWS = published("clicr")["tables"]["4"]["rows"]
# CliCR's test part; the humans answered 100 queries of the validation part (sections 4.1 and 7.1).
PAPER = {row["system"]: row["paper"] for row in ROWS if row["paper"]}
RUNS = {row["system"]: row["run"] for row in ROWS if row["kind"] == "run"}


def paper_cell(value: float | None, metric: str) -> str:
    """A figure as the paper prints it: exact match and F1 in points."""
    return points(value) if value is None or metric in METRICS[:2] else f"{value:.2f}"


def cell(found: Mapping | None, metric: str) -> str:
    """The same of a mean_sd over the seeds."""
    return paper_cell(found and found["mean"], metric)


def _interval(share, n):
    return wilson_interval(round(share * n), n)


def _words(scores):
    """The mean length of the answers in words; older runs lack it."""
    length = scores.get("predicted_length")
    return f"{length['mean']:.1f}" if length else "-"


def _missing(scores):
    return f"{scores['missing']['mean']:,.1f}".removesuffix(".0")


def all_systems(ours: Mapping[str, Mapping], *, paper: bool) -> Grid:
    """Table 4 of systems with their `scores.summary`, or a part of it, each beside the paper's
    figures.

    paper: whether the paper's other rows, humans included, follow. EM and F1 are in points.
    """
    systems = dict.fromkeys((*ours, *PAPER) if paper else ours)
    lengths = {}
    for system, found in ours.items():
        if found.get("predicted_length") is not None:
            lengths[system] = f"{found['predicted_length']:.1f}"
    columns = [*_columns(ours), ("words", lengths), *_columns(PAPER, "paper: ")]
    return fill("", ("system",), {system: (system,) for system in systems}, columns)


def _columns(
    of: Mapping[str, Mapping], first: str = "", lacking: str = ""
) -> list[tuple[str, dict]]:
    """(title, {system: cell}) of each metric. first: stands before the first title."""
    columns = []
    for metric, title in HEADER.items():
        cells = {}
        for system, found in of.items():
            figure = found.get(metric)
            cells[system] = lacking if figure is None else paper_cell(figure, metric)
        columns.append((title if columns else first + title, cells))
    return columns


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
    scored = run.scorer.scored(rows, logits) if each or skills else ()
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


# -- Table 4 -----------------------------------------------------------------------------------------------------------


def filled(folder: Path, read: Read, split: str = "test") -> dict:
    """The table with the results of a folder, as JSON values.

    rows: each {"system", "kind" ("baseline", "run" or "human"), "state" (complete, missing or that
    of its run), "ours" {metric: mean_sd over the seeds}, "seeds", "unlike" (see
    report.tables.unlike), "paper" {metric: share}}. corpus: of the runs, "" without any;
    comparable: whether that is the paper's. lacking: {command: [rows it fills]}.
    """
    folder, corpora, rows = check_folder(folder), {}, []
    path, scored = folder / "baselines" / f"baselines.{split}.json", {}
    if path.is_file():
        result = read_json(path, "corpus", "rows", fix="run launch/cloze_baselines.py again")
        corpora[result["corpus"] if result["corpus"] in (DEMO, CLICR) else FILE] = "the baselines"
        scored = result["rows"]
    for row in ROWS:
        of, kind = {"state": "", "ours": {}, "seeds": 0, "unlike": []}, row["kind"]
        if kind == "baseline":
            figures = next((scored[name] for name in row["named"] if name in scored), None)
            of["state"] = "complete" if figures else "missing"
            if figures:
                of |= {
                    "ours": {name: mean_sd([value]) for name, value in _metrics(figures)},
                    "seeds": 1,
                }
        elif kind == "run":
            of["state"] = state(folder / row["run"])
            if of["state"] == "complete":
                result = read_json(folder / row["run"] / "result.json", "corpus", "seeds", split)
                of |= {"ours": dict(_metrics(result[split])), "seeds": len(result["seeds"])}
                of["unlike"] = unlike(folder / row["run"], read, PAPER_RUNS[row["run"]])
                corpora.setdefault(result["corpus"], row["system"])
        rows.append({"system": row["system"], "kind": kind, **of, "paper": row["paper"]})
    if len(corpora) > 1:
        problem = ", ".join(f"{system} is of {corpus}" for corpus, system in corpora.items())
        raise RunError(
            f"{folder}: {problem}", fix="keep the runs and baselines of one corpus in a folder"
        )
    corpus = next(iter(corpora), "")
    missed = {}
    for row in rows:
        if row["state"] not in ("", "complete"):
            missed.setdefault(_fill(folder, corpus, split, row["kind"]), []).append(row["system"])
    return {
        "table": NAME,
        "corpus": corpus,
        "comparable": corpus == CLICR,
        "split": split,
        "rows": rows,
        "lacking": missed,
    }


def _metrics(scores):
    return [
        (name, scores[name])
        for name in (*METRICS, "predicted_length")
        if scores.get(name) is not None
    ]


def table_section(found: dict) -> Section:
    """The table that `filled` gives, the paper's figures beside ours."""
    words = ["exact match (EM) and F1 in points; ours are means over the seeds, sd between them"]
    words += [f"ours on {found['corpus']}, {found['split']}"] * bool(found["corpus"])
    humans = "the paper's humans answered 100 queries of the validation part (sections 4.1 and 7.1)"
    lengths = "words: mean length of an answer; in the paper 3.7 for GA-NoEnt, 2.3 to 2.5 for others (section 7)"
    rows = {row["system"]: row for row in found["rows"]}
    ours = {system: row["ours"] for system, row in rows.items() if row["state"] == "complete"}
    columns = [("seeds", {system: str(rows[system]["seeds"]) for system in ours})]
    for metric in METRICS:
        cells = {system: cell(of.get(metric), metric) for system, of in ours.items()}
        if metric == METRICS[0]:
            cells = {system: row["state"] or "-" for system, row in rows.items()} | cells
        columns.append((HEADER[metric], cells))
        if metric in METRICS[:2]:
            columns.append(
                (
                    "sd",
                    {
                        system: sd(of[metric]) if metric in of else "-"
                        for system, of in ours.items()
                    },
                )
            )
    columns.append(("words", {system: _words(of) for system, of in ours.items()}))
    theirs = {system: row["paper"] for system, row in rows.items()}
    columns += _columns(theirs, "paper: ", lacking="-")
    different = {system: "; ".join(row["unlike"]) for system, row in rows.items()}
    columns.append(("unlike the paper's", different))
    grid = fill("", ("",), {system: (system,) for system in rows}, columns)
    return section(
        4,
        "answers to CliCR's queries",
        words,
        grid,
        corpus=found["corpus"],
        comparable=found["comparable"],
        paper="CliCR",
        lacking=found["lacking"],
        more=[humans, lengths],
    )


def skills_of_runs(folder: Path, split: str, skills: Path) -> dict:
    """skill_statistics of the folder's finished runs."""
    there = {
        system: Path(folder) / name
        for system, name in RUNS.items()
        if state(Path(folder) / name) == "complete"
    }
    if not there:
        raise RunError(
            f"{folder}: holds no finished run of the table", fix=f"train one, see --table={NAME}"
        )
    queries = queries_of(next(iter(there.values())), split)
    systems = {system: finished(path, split, queries) for system, path in there.items()}
    f1 = {name: dict(zip(of.uids, of.f1.tolist(), strict=True)) for name, of in systems.items()}
    return skill_statistics(read_skills(skills), queries, f1)


def _fill(folder, corpus, split, kind):
    """The command that fills what is missing. Baselines that were there without similarities lack
    word vectors."""
    of = {"": CLICR, FILE: "CORPUS_FOLDER"}.get(corpus, corpus)
    if kind == "baseline" and (folder / "baselines" / f"baselines.{split}.json").is_file():
        flags = [
            f"--corpus={of}",
            f"--split={split}",
            "--vectors=FILE",
            f"--out={folder / 'baselines'}",
        ]
        return shlex.join(["python", "launch/cloze_baselines.py", *flags])
    return shlex.join(["bash", "launch/clicr.sh", str(folder), "demo" if of == DEMO else of])


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
        rows.append((split, *counts, em, sd(exact), wide, *others, _words(scores), loss, seeds))
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


def comparison_section(compared: Sequence[dict]) -> Section:
    """The first system against each other: rows of scores.comparison."""
    first = compared[0]
    words = [
        f"{first['queries']:,} {first['split']} queries; points, means over the seeds",
        "difference: the row less the first, 95 % interval by paired bootstrap over queries and, of EM, seeds; "
        "queries of one passage are counted as independent, so that intervals are a little too narrow",
    ]
    header = ("system", "seeds", "EM", "difference", "95 %", "F1", "difference", "95 %")
    exact, f1 = points(first["exact_match_of"][0]), points(first["f1_of"][0])
    rows = [(first["first"], str(first["seeds"][0]), exact, "", "", f1, "", "")]
    for row in compared:
        cells = []
        for name in ("exact_match", "f1"):
            of = row[name]
            cells += [
                points(row[f"{name}_of"][1]),
                points(of["difference"], "+"),
                interval(of["low"], of["high"]),
            ]
        rows.append((row["second"], str(row["seeds"][1]), *cells))
    return Section("Comparison", words, [Grid("", header, rows)])


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
