"""Report on finished runs.

  python -m mednli_jax.report runs/esim-demo                    # writes runs/esim-demo/report.html
  python -m mednli_jax.report runs/esim runs/esim_kd            # the first with each other run
  python -m mednli_jax.report --table=3 --runs=runs/table3      # the paper's table beside ours

  RUN [RUN ...]       run directories; of several, the first is compared with each other run:
                      verdict, fields, bootstrap, McNemar, Holm, changes by class (as --compare)
  --table=3|4|5|6|7   a table of the MedNLI paper: its figures, ours, the difference, what lacks
  --table=8           its categories of error, by rules; examples: FOLDER/private/table8.jsonl
  --table=mednli      the check of Tables 2 to 8 and Figure 3, for --runs=FOLDER of `reproduce
                      mednli`, averages only; --out=FILE.html also writes FILE.json
  --table=diskne2     Tables 1 to 8 of DisKnE: --runs=FOLDER of runs of configs/diskne_*.py
  --table=artifacts   Tables 1 to 6 of Herlihy & Rudinger: --runs=FOLDER of `reproduce artifacts`
  --table=clicr4      Table 4 of CliCR: --runs=FOLDER with ga_ent, ...; --skills=FILE adds Figure 5
  --runs=FOLDER       the folder of the table's runs, each named after its cell
  --with=RUN=NAME,... with --table=3: add systems of your own (also answers, see evaluate)
  --split=NAME        dev or test (default: test)
  --categories        add error categories (Table 8), by rules over the corpus;
                      --categories_file=FILE: from annotations, lines of uid TAB category
  --paths=FILE        add Figure 3, from the paths.json of analyze paths --out=FOLDER
  --out=FILE          the page (default: RUN/report.html; several runs: report.html; table: none)
  --files=FOLDER      for a paper: each table as CSV and LaTeX, each chart as SVG and PDF
  --json --csv --markdown --latex   print a table, a comparison, --categories or a page so; --json,
                      one run: its result.json; --markdown --public: a model card
  --public            one run or a table: RUN/public.html, a page that can be shared, without pairs,
                      uids, words, commands, paths, names of machines, and counts below 10

A page is a single file that loads no other files. No page holds a sentence of the corpus.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ml_collections import ConfigDict

from mednli_jax import cli, tasks
from mednli_jax.errors import UsageError
from mednli_jax.files.paths import local_path
from mednli_jax.files.writing import private_folder, write_atomic, write_json, write_over
from mednli_jax.report import html, public
from mednli_jax.report.options import ReportOptions, TableOptions
from mednli_jax.report.sections import Section, csv_text, files_of, latex_text, markdown_text, text
from mednli_jax.rundir import RunDirectory
from mednli_jax.types import Json

WORDS = sys.maxsize  # number of arguments without --


def define(values: cli.Flags) -> None:
    cli.define(values, compare=False, table=None, split="test", categories=False)
    cli.define_paths(values, "skills", "runs", "categories_file", "paths", "out", "files")
    cli.define(values, json=False, markdown=False, csv=False, latex=False, public=False)
    cli.define(values, **{"with": []})  # a keyword of Python


def main(values: cli.Flags, *words: str) -> None:
    folders = [local_path(word, "an argument") for word in words]
    if values.public:
        shareable = values.table is None or tasks.with_table(values.table).shareable
        public.check(values.flag_values_dict(), folders, shareable)
    if values["with"].value and values.table is None:
        raise UsageError("--with adds to a table", fix="give --table=3 --runs=FOLDER, too")
    if values.table is not None:
        if folders:
            fix = "give --runs=FOLDER, which holds them"
            raise UsageError("--table takes no run directories", fix=fix)
        _table(values)
        return
    if not folders:
        fix = "report runs/esim-demo, or --table=3 --runs=FOLDER"
        raise UsageError("no run directory is given", fix=fix)
    tasks.check_flags("report", tasks.task_of_run(folders[0]), values.flag_values_dict())
    if len(folders) > 1 or values.compare:
        _comparison(values, folders)
    elif values.public:
        _public_page(values, folders[0])
    else:
        _page(values, folders[0])


def _public_page(values: cli.Flags, folder: Path) -> None:
    figures = html.public_figures(folder)
    if values.json:
        print(json.dumps(figures, indent=2))
    path = values.out or folder / "public.html"
    page, card = html.public_pages(figures)
    _write(path, page)
    if values.markdown:
        _write(path.with_suffix(".md"), card, html.CARD)


def _table(values: cli.Flags) -> None:
    runs = cli.required_path(values, "runs", "--runs=runs/table3, the folder that holds the runs")
    table = tasks.with_table(values.table)
    options = TableOptions(
        cli.read_config,
        _config_of,
        split=values.split,
        skills=values.skills,
        public=values.public,
        systems=_systems(values),
    )
    if options.systems and not table.systems:
        raise UsageError(f"--with: table {values.table} takes no other systems", fix="--table=3")
    report = table.fill(runs, options)
    for name, content in report.files.items():
        write_json(runs / name, content)
    for name, content in report.private.items():
        write_atomic(private_folder(runs / "private") / name, content)
    _print(values, report.sections, report.figures)
    _write_files(values, report.sections)
    if values.out:
        shown = list(report.sections)
        folders = [folder for folder in report.runs if (folder / "config.json").is_file()]
        if folders and not values.public:
            shown.append(html.runs_section(folders))
        _write(values.out, html.render(f"{table.source}, beside ours", shown))
        # The check of all figures of a paper can be shared as JSON.
        if report.figures.get("source"):
            content = json.dumps(report.figures, indent=2)
            write_over(values.out.with_suffix(".json"), content, '{\n  "source"')


def _systems(values: cli.Flags) -> dict[str, Path]:
    """Name -> run, of --with=RUN=NAME,..."""
    systems = {}
    for word in values["with"].value or ():
        run, _, name = word.rpartition("=")
        if not run or not name:
            raise UsageError(f"--with={word}: expected RUN=NAME", fix="--with=runs/mine=Mine")
        systems[name] = local_path(run, "--with")
    return systems


def _page(values: cli.Flags, folder: Path) -> None:
    task = tasks.task_of_run(folder)
    more = task.optional_sections([folder], _options(values))
    shown = [*more.sections, *more.page_only]
    directory = RunDirectory.existing(folder)
    page = html.run_page(directory, task.run_sections, task.row_noun, shown)
    if more.sections:
        _print(values, more.sections, more.figures)
    elif values.json or values.csv or values.latex or values.markdown:
        _print(values, page.sections, directory.result().values)
    _write(values.out or folder / "report.html", page.html())
    _write_files(values, page.sections)


def _comparison(values: cli.Flags, folders: Sequence[Path]) -> None:
    if len(folders) == 1:
        raise UsageError("--compare takes two runs at least", fix="name another run directory")
    task = tasks.same_task(folders)
    compared = task.compare(folders, values.split)
    more = task.optional_sections(folders, _options(values))
    sections = [*compared.sections, *more.sections]
    figures = dict(compared.figures)
    if more.sections:
        figures["categories"] = more.figures
    _print(values, sections, figures)
    shown = [*sections, *more.page_only, html.runs_section(folders)]
    notes: list[str] = []
    for folder in folders:
        notes += RunDirectory.existing(folder).result().notes
    page = html.render(compared.title, shown, "; ".join(dict.fromkeys(notes)))
    _write(values.out or Path("report.html"), page)
    _write_files(values, shown)


def _options(values: cli.Flags) -> ReportOptions:
    return ReportOptions(
        _config_of,
        split=values.split,
        categories=values.categories,
        categories_file=values.categories_file,
        paths=values.paths,
    )


def _config_of(folder: Path) -> ConfigDict:
    from mednli_jax.experiment import restored_config

    return restored_config(RunDirectory.existing(folder).config)


def _print(values: cli.Flags, shown: Sequence[Section], figures: Mapping[str, Json]) -> None:
    if values.json:
        print(json.dumps(figures, indent=2))
    elif values.csv:
        print(csv_text(shown))
    elif values.markdown:
        print(markdown_text(shown))
    elif values.latex:
        print(latex_text(shown))
    else:
        print(text(shown))


def _write_files(values: cli.Flags, shown: Sequence[Section]) -> None:
    if values.files:
        for name, content in files_of(shown):
            write_atomic(private_folder(values.files) / name, content)
        print(f"written: {values.files}", file=sys.stderr)


def _write(path: Path, page: str, beginning: str = "<!DOCTYPE html>") -> None:
    """Writes a page over an older one. beginning: of each file of its type."""
    private_folder(path.parent)
    write_over(path, page, beginning)
    print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define, words=WORDS))
