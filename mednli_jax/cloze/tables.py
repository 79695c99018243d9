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
    published,
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
      paper: metric -> published share, on CliCR's test part; the humans answered 100 queries of the
        validation part (sections 4.1 and 7.1).
      named: names of the baseline in the file of baselines.
      run: the name of the run's folder.
    """

    system: str
    kind: str
    paper: Mapping[str, float]
    named: tuple[str, ...] = ()
    run: str = ""


def _read_rows() -> Iterator[TableRow]:
    for values in published("clicr")["tables"]["4"]["rows"]:
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
      state: complete, missing or that of its run; "" for humans.
      ours: metric -> mean_sd over the seeds.
      unlike: see report.tables.differences_from_paper.
    """

    row: TableRow
    state: str = ""
    ours: Scores = field(default_factory=dict)
    seeds: int = 0
    unlike: Sequence[str] = ()

    def to_json(self) -> dict[str, Json]:
        row = self.row
        return {
            "system": row.system,
            "kind": row.kind,
            "state": self.state,
            "ours": self.ours,
            "seeds": self.seeds,
            "unlike": list(self.unlike),
            "paper": row.paper,
        }


@dataclass(frozen=True)
class FilledTable:
    """The table with the results of a folder.

    Args:
      corpus: of the runs; "" without any.
      lacking: command -> the rows that it fills.
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
        table = replace(table, lacking={})  # commands name folders
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
    systems_of_corpus = {corpus_of_baselines: "the baselines"} if baselines else {}
    rows = []
    for row in ROWS:
        filled_row = FilledRow(row)
        if row.kind == BASELINE:
            filled_row = _of_baseline(row, baselines)
        elif row.kind == RUN:
            filled_row = _of_run(row, folder / row.run, read, split)
            if filled_row.state == COMPLETE:
                corpus = RunDirectory(folder / row.run).result().corpus
                systems_of_corpus.setdefault(corpus, row.system)
        rows.append(filled_row)
    if len(systems_of_corpus) > 1:
        systems = [f"{system} is of {corpus}" for corpus, system in systems_of_corpus.items()]
        fix = "keep the runs and baselines of one corpus in a folder"
        raise RunError(f"{folder}: {', '.join(systems)}", fix=fix)
    corpus = next(iter(systems_of_corpus), "")
    lacking: dict[str, list[str]] = {}
    for filled_row in rows:
        if filled_row.state not in ("", COMPLETE):
            has_baselines = bool(baselines) and filled_row.row.kind == BASELINE
            makes_it = _command(folder, corpus, command, has_baselines=has_baselines)
            lacking.setdefault(makes_it, []).append(filled_row.row.system)
    return FilledTable(corpus, split, rows, lacking)


def baselines_in(folder: Path, split: str) -> tuple[Mapping[str, Scores], str]:
    """The scores of the baselines by name, and their corpus; ({}, "") without their file."""
    path = folder / BASELINES
    if split != "test" or not path.is_file():
        return {}, ""
    values = read_json(path, "corpus", "rows", fix="remove the file, and give `reproduce` again")
    corpus = values["corpus"]
    return values["rows"], corpus if corpus in (DEMO, CLICR) else FILE


def _of_baseline(row: TableRow, baselines: Mapping[str, Scores]) -> FilledRow:
    for name in row.named:
        if name in baselines:
            ours = {metric: mean_sd([value]) for metric, value in _metrics(baselines[name])}
            return FilledRow(row, COMPLETE, ours, seeds=1)
    return FilledRow(row, MISSING)


def _of_run(row: TableRow, folder: Path, read: Read, split: str) -> FilledRow:
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


def _command(folder: Path, corpus: str, given: str, *, has_baselines: bool) -> str:
    """The command that fills a row. Baselines without similarities lack word vectors.

    given: the command of `reproduce` that prints the table, if one does.
    """
    place = {"": CLICR, FILE: "CORPUS_FOLDER"}.get(corpus, corpus)
    if has_baselines:
        flags = (f"--corpus={place}", "--vectors=FILE", f"--out={folder / 'baselines'}")
        return command_line("analyze", "cloze-baselines", *flags)
    variant = {CLICR: CLICR, DEMO: "demo"}.get(place, "file")
    own_folder = ["--config.data.dir=CORPUS_FOLDER"] if variant == "file" else []
    return given or command_line("reproduce", "clicr", str(folder), variant, *own_folder)


# -- for a reader ----------------------------------------------------------------------------------


def paper_cell(value: float | None, metric: str) -> str:
    """A figure as the paper prints it: exact match and F1 in points."""
    return points(value) if value is None or metric in IN_POINTS else f"{value:.2f}"


def cell(scores: Scores | None, metric: str) -> str:
    """A mean_sd over the seeds as the paper prints a figure: exact match and F1 in points."""
    return paper_cell(scores["mean"] if scores else None, metric)


def words_of(scores: Scores) -> str:
    """The mean length of the answers in words; "-" if no query was answered."""
    length = scores.get("predicted_length")
    return f"{length['mean']:.1f}" if length else "-"


def all_systems(ours: Mapping[str, Scores], *, paper: bool) -> Grid:
    """The grid of Table 4: systems with their `scores.summary`, or a part of it, each beside the
    paper's figures.

    paper: whether the paper's other rows, humans included, follow. EM and F1 are in points.
    """
    rows = []
    for system in dict.fromkeys((*ours, *PAPER) if paper else ours):
        scores = ours.get(system, {})
        length = scores.get("predicted_length")
        words = "" if length is None else f"{length:.1f}"
        rows.append((system, *_cells(scores), words, *_cells(PAPER.get(system, {}))))
    return Grid("", ("system", *HEADER.values(), "words", *PAPER_TITLES), rows)


def _cells(scores: Scores) -> Iterator[str]:
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
    """The cells of a row: the name, OUR_TITLES (the state in place of EM if the row is not
    complete), PAPER_TITLES and remarks."""
    ours = ["", row.state or "-"]
    if row.state == COMPLETE:
        ours = [str(row.seeds)]
        for metric in METRICS:
            scores = row.ours.get(metric)
            ours.append(cell(scores, metric))
            if metric in IN_POINTS:
                ours.append(sd(scores) if scores else "-")
        ours.append(words_of(row.ours))
    ours += [""] * (len(OUR_TITLES) - len(ours))
    paper = [paper_cell(row.row.paper.get(metric), metric) for metric in METRICS]
    return (row.row.system, *ours, *paper, "; ".join(row.unlike))


# -- systems on the same queries -------------------------------------------------------------------


def against_baselines(folder: Path, split: str) -> Iterator[dict[str, Json]]:
    """Yields rows of scores.comparison: the run COMPARED, if it is finished, against each baseline
    of RIVALS that has answers."""
    if state(folder / COMPARED) != COMPLETE:
        return
    queries = queries_of(folder / COMPARED, split)
    reader = read_system(folder / COMPARED, split, queries)
    for name in RIVALS:
        path = (folder / BASELINES).parent / "private" / answers_file(name, split)
        if path.is_file():
            said = read_answers(path, queries)
            baseline = scored_system(name, reader.corpus, queries, [said])
            yield {**comparison(reader, baseline), "split": split}


def comparison_section(compared: Sequence[Mapping[str, Json]]) -> Section:
    """The section of rows of scores.comparison, the first system against each other."""
    first = compared[0]
    words = [
        f"{first['queries']:,} {first['split']} queries; points, means over the seeds",
        "difference: the row less the first, 95 % interval by paired bootstrap over queries and, "
        "of EM, seeds; queries of one passage are counted as independent, so that intervals are a "
        "little too narrow",
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
    """The skill_statistics of the folder's finished runs."""
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
