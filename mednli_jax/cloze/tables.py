"""Table 4 of Šuster & Daelemans 2018, and comparisons of systems on the same queries."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mednli_jax.cloze.corpus import CLICR, DEMO, FILE
from mednli_jax.cloze.runs import BASELINES, RUNS, TABLE, answers_file
from mednli_jax.cloze.scores import (
    comparison,
    queries_of,
    read_answers,
    read_system,
    scored_system,
)
from mednli_jax.cloze.stats import read_skills, skill_section, skill_statistics
from mednli_jax.errors import RunError
from mednli_jax.report.metrics import mean_sd
from mednli_jax.report.options import Read, TableOptions
from mednli_jax.report.sections import Grid, Report, Section, interval, points, sd
from mednli_jax.report.tables import (
    COMPLETE,
    MISSING,
    check_folder,
    command_line,
    differences_from_paper,
    published_figures,
    section,
    state,
)
from mednli_jax.rundir import RunDirectory, read_json
from mednli_jax.types import Json

HEADER = {"exact_match": "EM", "f1": "F1", "bleu2": "BLEU-2", "bleu4": "BLEU-4", "embedding": "Emb"}
METRICS = tuple(HEADER)
IN_POINTS = METRICS[:2]
OUR_TITLES = ("seeds", "EM", "sd", "F1", "sd", "BLEU-2", "BLEU-4", "Emb", "words")
PAPER_TITLES = ("paper: EM", "F1", "BLEU-2", "BLEU-4", "Emb")
BASELINE, RUN = "baseline", "run"  # kinds of rows
COMPARED = "ga_anonym"  # the reader that is compared with baselines
RIVALS = ("maxfreq-entity", "sim-entity")
Scores = Mapping[str, Json]  # of a system, see scores.summary


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    Args:
      kind: baseline, run or human.
      paper: metric -> published share on CliCR's test split; of humans, on 100 queries of the
        validation split (sections 4.1 and 7.1).
      named: for a baseline, its possible names in the file BASELINES. The row has the scores of
        the first name that the file has.
      run: of a run, the name of its folder.
    """

    system: str
    kind: str
    paper: Mapping[str, float]
    named: tuple[str, ...] = ()
    run: str = ""


def _read_rows() -> Iterator[TableRow]:
    for values in published_figures("clicr")["tables"]["4"]["rows"]:
        named = tuple(values.get("named", ()))
        yield TableRow(
            values["system"], values["kind"], values["paper"], named, values.get("run", "")
        )


ROWS = tuple(_read_rows())
PAPER = {row.system: row.paper for row in ROWS if row.paper}


@dataclass(frozen=True)
class FilledRow:
    """A row with our scores.

    Args:
      state: of a run, its state; of a baseline, complete or missing; "" for humans.
      ours: metric -> mean_sd over the seeds.
      differences: settings that differ from the paper's, as short remarks.
    """

    row: TableRow
    state: str = ""
    ours: Scores = field(default_factory=dict)
    seeds: int = 0
    differences: Sequence[str] = ()

    def to_json(self) -> dict[str, Json]:
        row = self.row
        return {
            "system": row.system,
            "kind": row.kind,
            "state": self.state,
            "ours": self.ours,
            "seeds": self.seeds,
            "unlike": list(self.differences),
            "paper": row.paper,
        }


@dataclass(frozen=True)
class FilledTable:
    """The table with the results of a folder.

    Args:
      corpus: of the runs and baselines; "" if there are none yet.
      lacking: command -> names of the rows that it fills.
    """

    corpus: str
    split: str
    rows: list[FilledRow]
    lacking: dict[str, list[str]]

    @property
    def comparable(self) -> bool:
        return self.corpus == CLICR

    def to_json(self) -> dict[str, Json]:
        return {
            "table": TABLE,
            "corpus": self.corpus,
            "comparable": self.comparable,
            "split": self.split,
            "rows": [row.to_json() for row in self.rows],
            "lacking": self.lacking,
        }


def report(folder: Path, options: TableOptions) -> Report:
    """Reports the table, the comparison of GA-Anonym with the baselines, and scores by skill."""
    table = fill_table(folder, options.read, options.split, options.command)
    if options.public:
        table = replace(table, lacking={})  # commands name folders of this machine
    figures, sections = table.to_json(), [table_section(table)]
    compared = [] if options.public else list(against_baselines(folder, options.split))
    if compared:
        figures["comparisons"] = compared
        sections.append(comparison_section(compared))
    if options.skills:
        figures["skills"] = skills_of_runs(folder, options.split, options.skills)
        sections.append(skill_section(figures["skills"]))
    return Report(figures, sections, runs=[folder / name for name in RUNS])


# -- filling the table -----------------------------------------------------------------------------


def fill_table(folder: Path, read: Read, split: str = "test", command: str = "") -> FilledTable:
    """Fills the table with the results of a folder. command: see TableOptions."""
    folder = check_folder(folder)
    baselines, corpus_of_baselines = baselines_in(folder, split)
    # {corpus: the first system found on it}, to refuse a folder with several corpora.
    example_system = {corpus_of_baselines: "the baselines"} if baselines else {}
    rows = []
    for row in ROWS:
        filled_row = FilledRow(row)
        if row.kind == BASELINE:
            filled_row = _baseline_row(row, baselines)
        elif row.kind == RUN:
            filled_row = _run_row(row, folder / row.run, read, split)
            if filled_row.state == COMPLETE:
                corpus = RunDirectory(folder / row.run).result().corpus
                example_system.setdefault(corpus, row.system)
        rows.append(filled_row)
    corpus = _only_corpus(folder, example_system)
    lacking: dict[str, list[str]] = {}
    for filled_row in rows:
        if filled_row.state not in ("", COMPLETE):
            # If there are baselines, those that are missing need word vectors.
            if baselines and filled_row.row.kind == BASELINE:
                fills_row = _baselines_command(folder, corpus)
            else:
                fills_row = command or _reproduce_command(folder, corpus)
            lacking.setdefault(fills_row, []).append(filled_row.row.system)
    return FilledTable(corpus, split, rows, lacking)


def _only_corpus(folder: Path, example_system: Mapping[str, str]) -> str:
    """The corpus of a folder; "" without one. Raises RunError for several corpora. example_system:
    {corpus: a system on it}."""
    if len(example_system) > 1:
        systems = [f"{system} is of {corpus}" for corpus, system in example_system.items()]
        fix = "keep the runs and baselines of one corpus in a folder"
        raise RunError(f"{folder}: {', '.join(systems)}", fix=fix)
    return next(iter(example_system), "")


def baselines_in(folder: Path, split: str) -> tuple[Mapping[str, Scores], str]:
    """({name of a baseline: its scores}, their corpus). They are of test alone: ({}, "") for other
    splits, and if their file is missing."""
    path = folder / BASELINES
    if split != "test" or not path.is_file():
        return {}, ""
    values = read_json(path, "corpus", "rows", fix="remove the file, and give `reproduce` again")
    corpus = values["corpus"]
    return values["rows"], (corpus if corpus in (DEMO, CLICR) else FILE)


def _baseline_row(row: TableRow, baselines: Mapping[str, Scores]) -> FilledRow:
    for name in row.named:
        if name in baselines:
            ours = {metric: mean_sd([value]) for metric, value in _metrics(baselines[name])}
            return FilledRow(row, COMPLETE, ours, seeds=1)
    return FilledRow(row, MISSING)


def _run_row(row: TableRow, folder: Path, read: Read, split: str) -> FilledRow:
    run_state = state(folder)
    if run_state != COMPLETE:
        return FilledRow(row, run_state)
    result = RunDirectory(folder).result()
    ours = dict(_metrics(result.values[split]))
    remarks = differences_from_paper(folder, read, RUNS[row.run])
    return FilledRow(row, COMPLETE, ours, len(result.seeds), remarks)


def _metrics(scores: Scores) -> Iterator[tuple[str, Json]]:
    for name in (*METRICS, "predicted_length"):
        if scores.get(name) is not None:
            yield name, scores[name]


def _baselines_command(folder: Path, corpus: str) -> str:
    """The command that makes baselines with word vectors. If there are baselines, the missing ones
    are those that need vectors."""
    place = "CORPUS_FOLDER" if corpus == FILE else corpus
    flags = (f"--corpus={place}", "--vectors=FILE", f"--out={folder / 'baselines'}")
    return command_line("analyze", "cloze-baselines", *flags)


def _reproduce_command(folder: Path, corpus: str) -> str:
    """The command that trains the runs and makes the baselines, on CliCR if there is no corpus
    yet."""
    variant = {"": CLICR, CLICR: CLICR, DEMO: "demo"}.get(corpus, "file")
    own_folder = ["--config.data.dir=CORPUS_FOLDER"] if variant == "file" else []
    return command_line("reproduce", "clicr", str(folder), variant, *own_folder)


# -- for a reader ----------------------------------------------------------------------------------


def paper_cell(value: float | None, metric: str) -> str:
    """A score as the paper prints it: exact match and F1 in points, others as shares; None as a
    dash."""
    if value is None or metric in IN_POINTS:
        return points(value)
    return f"{value:.2f}"


def cell(scores: Scores | None, metric: str) -> str:
    """The mean of one score over the seeds, as the paper prints it. scores: the mean_sd of the
    score; None as a dash."""
    return paper_cell(scores["mean"] if scores else None, metric)


def mean_length_cell(scores: Scores) -> str:
    """The mean length of the answers in words; "-" where nothing was answered."""
    length = scores.get("predicted_length")
    return f"{length['mean']:.1f}" if length else "-"


def systems_grid(ours: Mapping[str, Scores], *, with_paper_rows: bool) -> Grid:
    """A table like Table 4: one row for each system, our scores beside the paper's.

    Args:
      ours: {system: scores.summary, or a part of it}.
      with_paper_rows: whether the paper's other systems and its humans follow.
    """
    rows = []
    for system in dict.fromkeys((*ours, *PAPER) if with_paper_rows else ours):
        scores = ours.get(system, {})
        length = scores.get("predicted_length")
        words = "" if length is None else f"{length:.1f}"
        rows.append((system, *_score_cells(scores), words, *_score_cells(PAPER.get(system, {}))))
    return Grid("", ("system", *HEADER.values(), "words", *PAPER_TITLES), rows)


def _score_cells(scores: Scores) -> Iterator[str]:
    """A cell for each of METRICS; "" for a missing score."""
    for metric in METRICS:
        figure = scores.get(metric)
        yield "" if figure is None else paper_cell(figure, metric)


def table_section(table: FilledTable) -> Section:
    """The table, the paper's figures beside ours."""
    words = ["exact match (EM) and F1 in points; ours are means over the seeds, sd between them"]
    if table.corpus:
        words.append(f"ours on {table.corpus}, {table.split}")
    header = ("", *OUR_TITLES, *PAPER_TITLES, "unlike the paper's")
    return section(
        4,
        "answers to CliCR's queries",
        words,
        Grid("", header, list(map(_row_cells, table.rows))),
        corpus=table.corpus,
        comparable=table.comparable,
        paper="CliCR",
        lacking=table.lacking,
        more=[
            "the humans of the paper answered 100 validation queries (sections 4.1 and 7.1)",
            "words: mean length of an answer; in the paper 3.7 for GA-NoEnt, 2.3 to 2.5 for others "
            "(section 7)",
        ],
    )


def _row_cells(row: FilledRow) -> tuple[str, ...]:
    """The cells of a row: the system, ours under OUR_TITLES, the paper's under PAPER_TITLES, and
    remarks. A row that is not complete has its state under our EM."""
    ours = ["", row.state or "-"]
    if row.state == COMPLETE:
        ours = [str(row.seeds)]
        for metric in METRICS:
            scores = row.ours.get(metric)
            ours.append(cell(scores, metric))
            if metric in IN_POINTS:
                ours.append(sd(scores) if scores else "-")
        ours.append(mean_length_cell(row.ours))
    ours += [""] * (len(OUR_TITLES) - len(ours))
    paper = [paper_cell(row.row.paper.get(metric), metric) for metric in METRICS]
    return (row.row.system, *ours, *paper, "; ".join(row.differences))


# -- systems on the same queries -------------------------------------------------------------------


def against_baselines(folder: Path, split: str) -> Iterator[dict[str, Json]]:
    """Yields scores.comparison of the run COMPARED with each of RIVALS whose answers are there
    (differences are baseline minus run); nothing if the run is not finished."""
    if state(folder / COMPARED) != COMPLETE:
        return
    queries = queries_of(folder / COMPARED, split)
    reader = read_system(folder / COMPARED, split, queries)
    for name in RIVALS:
        path = (folder / BASELINES).parent / "private" / answers_file(name, split)
        if path.is_file():
            answers = read_answers(path, queries)
            baseline = scored_system(name, reader.corpus, queries, [answers])
            yield {**comparison(reader, baseline), "split": split}


def comparison_section(compared: Sequence[Mapping[str, Json]]) -> Section:
    """A table of the first system and its comparison with each of the others. compared: rows of
    scores.comparison, with "split"."""
    first = compared[0]
    words = [
        f"{first['queries']:,} {first['split']} queries; points, means over the seeds",
        "difference: this row minus the first; 95 % intervals by paired bootstrap, of EM over "
        "queries and seeds, of F1 over queries; they are a little too narrow, as queries about one "
        "passage are not independent",
    ]
    header = ("system", "seeds", "EM", "difference", "95 %", "F1", "difference", "95 %")
    exact, f1 = points(first["exact_match_of"][0]), points(first["f1_of"][0])
    rows: list[tuple[str, ...]] = [
        (first["first"], str(first["seeds"][0]), exact, "", "", f1, "", "")
    ]
    for row in compared:
        cells = []
        for name in ("exact_match", "f1"):
            gain = row[name]
            cells += [
                points(row[f"{name}_of"][1]),
                points(gain["difference"], "+"),
                interval(gain["low"], gain["high"]),
            ]
        rows.append((row["second"], str(row["seeds"][1]), *cells))
    return Section("Comparison", words, [Grid("", header, rows)])


def skills_of_runs(folder: Path, split: str, skills: Path) -> dict[str, Json]:
    """skill_statistics with the F1 of each finished run of a folder. skills: see read_skills."""
    complete = {}
    for row in ROWS:
        if row.kind == RUN and state(folder / row.run) == COMPLETE:
            complete[row.system] = folder / row.run
    if not complete:
        fix = f"train one, see --table={TABLE}"
        raise RunError(f"{folder}: holds no finished run of the table", fix=fix)
    queries = queries_of(next(iter(complete.values())), split)
    f1 = {}
    for system, path in complete.items():
        scores = read_system(path, split, queries)
        f1[system] = dict(zip(scores.uids, scores.f1.tolist(), strict=True))
    return skill_statistics(read_skills(skills), queries, f1)
