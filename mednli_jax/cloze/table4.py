"""Table 4 of Šuster & Daelemans 2018 from one folder: runs named for their rows, and what the baselines scored.

The baselines are read from FOLDER/baselines/baselines.<split>.json, which launch/cloze_baselines.py writes.
"""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from mednli_jax.cloze.corpus import CLICR, DEMO, FILE
from mednli_jax.cloze.outcomes import System, answered, comparison, finished, queries_of
from mednli_jax.cloze.tables import HEADER, METRICS, cell, paper_cell
from mednli_jax.errors import RunError
from mednli_jax.report.departures import unlike
from mednli_jax.report.metrics import mean_sd
from mednli_jax.report.runs import RunDirectory, read_json
from mednli_jax.report.sections import Section, sd
from mednli_jax.report.tables import check_folder, fill, lacking, published, section, state

NAME = "clicr4"
ROWS = published("clicr")["tables"]["4"]["rows"]
RUNS = {row["system"]: row["run"] for row in ROWS if row["kind"] == "run"}
# Rows of the baselines' file that stand for a row of the table, the first that is there.
BASELINES = {row["system"]: row["named"] for row in ROWS if row["kind"] == "baseline"}


def filled(folder: Path, split: str = "test") -> dict:
    """The table with what the folder holds, as JSON values.

    rows: each {"system", "kind" ("baseline", "run" or "human"), "state" (complete, missing or what its run is in),
    "ours" {metric: mean_sd over the seeds}, "seeds", "unlike" (how a run differs from the paper's, see departures.py),
    "paper" {metric: share}}; metrics as in cloze.tables.METRICS.
    corpus: of the runs, "" without any; comparable: whether that is the paper's. lacking: {command: [rows it fills]}.
    """
    folder = check_folder(folder)
    rows, corpora = _baselines(folder, split)
    for system, name in RUNS.items():
        rows[system], corpus = _run(folder / name, split)
        if corpus:
            corpora.setdefault(corpus, system)
    if len(corpora) > 1:
        problem = ", ".join(f"{system} is of {corpus}" for corpus, system in corpora.items())
        raise RunError(f"{folder}: {problem}. Fix: keep the runs and baselines of one corpus in a folder.")
    corpus = next(iter(corpora), "")
    none = {"state": "", "ours": {}, "seeds": 0, "unlike": []}
    found = [
        {"system": row["system"], "kind": row["kind"], **rows.get(row["system"], none), "paper": row["paper"]}
        for row in ROWS
    ]
    missed = (row for row in found if row["state"] not in ("", "complete"))
    return {
        "table": NAME,
        "corpus": corpus,
        "comparable": corpus == CLICR,
        "split": split,
        "rows": found,
        "lacking": lacking((_fill(folder, corpus, split, row["kind"]), row["system"]) for row in missed),
    }


def table_section(found: dict) -> Section:
    """The table that `filled` gives, the paper's figures beside ours."""
    words = ["exact match (EM) and F1 in points; ours are means over the seeds, sd between them"]
    words += [f"ours on {found['corpus']}, {found['split']}"] * bool(found["corpus"])
    humans = "the paper's humans answered 100 queries of the validation part (sections 4.1 and 7.1)"
    rows = {row["system"]: row for row in found["rows"]}
    ours = {system: row["ours"] for system, row in rows.items() if row["state"] == "complete"}
    columns = [("seeds", {system: str(rows[system]["seeds"]) for system in ours})]
    for metric in METRICS:
        cells = {system: cell(of.get(metric), metric) for system, of in ours.items()}
        if metric == METRICS[0]:
            cells = {system: row["state"] or "-" for system, row in rows.items()} | cells
        columns.append((HEADER[metric], cells))
        if metric in METRICS[:2]:
            columns.append(("sd", {system: sd(of[metric]) if metric in of else "-" for system, of in ours.items()}))
    for metric in METRICS:
        name = HEADER[metric] if metric != METRICS[0] else f"paper: {HEADER[metric]}"
        columns.append((name, {system: paper_cell(row["paper"].get(metric), metric) for system, row in rows.items()}))
    columns.append(("unlike the paper's", {system: "; ".join(row["unlike"]) for system, row in rows.items()}))
    grid = fill("", ("",), {system: (system,) for system in rows}, columns)
    return section("Table 4: answers to CliCR's queries", words, found, grid, "CliCR", [humans])


def systems(folder: Path, split: str, prepared_of: Callable) -> dict[str, System]:
    """The finished runs of the folder, scored query by query; the first one's corpus gives the answers.

    prepared_of: see outcomes.queries_of.
    """
    there = {system: Path(folder) / name for system, name in RUNS.items() if state(Path(folder) / name) == "complete"}
    if not there:
        raise RunError(f"{folder}: holds no finished run of the table. Fix: train one, see --table={NAME}.")
    queries = queries_of(next(iter(there.values())), split, prepared_of)
    return {system: finished(path, split, queries) for system, path in there.items()}


def against_baselines(folder: Path, split: str, prepared_of: Callable, run: str = "ga_anonym") -> list[dict]:
    """Each baseline of the most frequent phrase less a run of the folder: rows of outcomes.comparison."""
    path = Path(folder) / run
    queries = queries_of(path, split, prepared_of)
    reader = finished(path, split, queries)
    private = Path(folder) / "baselines" / "private"
    names = ("maxfreq-entity", "maxfreq-entity-not_in_the_query")
    others = [answered(private / f"{name}.{split}.jsonl", reader.corpus, split, queries) for name in names]
    return [{**comparison(reader, other), "split": split} for other in others]


def _baselines(folder, split) -> tuple[dict, dict]:
    """({row: its values}, {corpus: a row of it})."""
    path, rows = folder / "baselines" / f"baselines.{split}.json", {}
    result = read_json(path, "corpus", "rows", fix="run launch/cloze_baselines.py again") if path.is_file() else {}
    for system, names in BASELINES.items():
        row = next((result["rows"][name] for name in names if name in result["rows"]), None) if result else None
        rows[system] = {"state": "missing", "ours": {}, "seeds": 0, "unlike": []}
        if row:
            ours = {metric: mean_sd([row[metric]]) for metric in METRICS if _number(row, metric)}
            rows[system] |= {"state": "complete", "ours": ours, "seeds": 1}
    if not result:
        return rows, {}
    return rows, {result["corpus"] if result["corpus"] in (DEMO, CLICR) else FILE: "the baselines"}


def _number(row, metric):
    return metric in row and row[metric] is not None


def _run(folder, split) -> tuple[dict, str]:
    """(values of a run's row, its corpus or "")."""
    if (found := state(folder)) != "complete":
        return {"state": found, "ours": {}, "seeds": 0, "unlike": []}, ""
    result = read_json(folder / "result.json", "corpus", "seeds", split)
    scores = result[split]
    if RunDirectory.existing(folder).task != "cloze" or not isinstance(scores, Mapping):
        raise RunError(f"{folder}: has no scores of cloze queries in {split}. Fix: train it again.")
    ours = {metric: scores[metric] for metric in METRICS if _number(scores, metric)}
    about = {"seeds": len(result["seeds"]), "unlike": unlike(folder, published("clicr"))}
    return {"state": "complete", "ours": ours, **about}, result["corpus"]


def _fill(folder, corpus, split, kind):
    """The command that fills what is missing. Baselines that were there without similarities lack word vectors."""
    of = {"": CLICR, FILE: "CORPUS_FOLDER"}.get(corpus, corpus)
    if kind == "baseline" and (folder / "baselines" / f"baselines.{split}.json").is_file():
        flags = [f"--corpus={of}", f"--split={split}", "--vectors=FILE", f"--out={folder / 'baselines'}"]
        return shlex.join(["python", "launch/cloze_baselines.py", *flags])
    return shlex.join(["bash", "launch/clicr.sh", str(folder), "demo" if of == DEMO else of])
