"""`python -m mednli_jax.report`: pages of finished runs, comparisons, and tables of the papers beside our figures."""

import json
import sys

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UsageError

WORDS = sys.maxsize  # number of arguments without --
USAGE = """Report on finished runs.

  python -m mednli_jax.report runs/esim-demo                              # writes runs/esim-demo/report.html
  python -m mednli_jax.report runs/esim runs/esim_kd --compare            # compares the first with each other run
  python -m mednli_jax.report --table=3 --runs=runs/table3                # the paper's table beside our figures

  RUN [RUN ...]       run directories; several runs share one page, side by side (default: report.html)
  --compare           compare the first run with each other run: McNemar, bootstrap, Holm, changes by class
  --table=3|4|5|6|7   a table of the MedNLI paper: its figures, ours, the difference, and what is missing
  --table=mednli      the reproduction check of Tables 2 to 8 and Figure 3, for --runs=FOLDER of launch/mednli.sh;
                      it holds averages only and can be shared; --out=FILE.html also writes FILE.json
  --table=diskne2     Tables 1 to 8 of DisKnE: --runs=FOLDER holds runs of configs/diskne_*.py, named as the columns
  --table=clicr4      Table 4 of CliCR: --runs=FOLDER holds ga_ent, ..., and baselines; --skills=FILE adds Figure 5
  --runs=FOLDER       the folder of the table's runs, each named after its cell
  --split=NAME        dev or test (default: test)
  --categories        add error categories (Table 8), by rules over the corpus, which must be available
  --categories_file=FILE   the same from annotations, lines of uid TAB category
  --paths=FILE        add Figure 3, from the paths.json of analyze paths --out=FOLDER
  --out=FILE          the page to write, over an older one; --compare and --table write a page only with --out
  --json              print JSON
  --markdown          print a table in Markdown; one run with --public: write a model card, RUN/public.md
  --csv               print a table as CSV; one run: write RUN/scores.csv and RUN/private/predictions.SPLIT.csv
  --public            one run or a table: write a page that can be shared, RUN/public.html, without single pairs, uids,
                      words, commands, paths, names of folders and machines, and counts below 10

A page is a single file that loads no other files. No page holds a sentence of the corpus."""


def define(values: cli.Flags) -> None:
    flags.DEFINE_bool("compare", False, "print a comparison", flag_values=values)
    flags.DEFINE_string("table", None, "a table of the paper", flag_values=values)
    flags.DEFINE_string("skills", None, "skills of cloze queries", flag_values=values)
    flags.DEFINE_string("runs", None, "folder of a table's runs", flag_values=values)
    flags.DEFINE_string("split", "test", "split to report", flag_values=values)
    flags.DEFINE_bool("categories", False, "error categories by rules", flag_values=values)
    flags.DEFINE_string("categories_file", None, "file of annotated error categories", flag_values=values)
    flags.DEFINE_string("paths", None, "path lengths for Figure 3", flag_values=values)
    flags.DEFINE_string("out", None, "file of the page", flag_values=values)
    flags.DEFINE_bool("json", False, "print JSON", flag_values=values)
    flags.DEFINE_bool("markdown", False, "print Markdown", flag_values=values)
    flags.DEFINE_bool("csv", False, "print or write CSV", flag_values=values)
    flags.DEFINE_bool("public", False, "write a page that can be shared", flag_values=values)


def main(values: cli.Flags, *folders: str) -> None:
    folders = [cli.path(folder) for folder in folders]
    from mednli_jax import kinds
    from mednli_jax.report import public

    if values.public:
        public.check(values, folders, values.table or "")
    if values.table is not None:
        if folders:
            raise UsageError("--table takes no run directories. Fix: give --runs=FOLDER, which holds them.")
        return _table(values)
    if not folders:
        raise UsageError("no run directory is given. Fix: report runs/esim-demo, or --table=3 --runs=FOLDER.")
    kinds.check_flags("report", kinds.task_of(folders[0]), values)
    if len(folders) == 1 and not values.compare:
        return (_public_page if values.public else _page)(values, folders[0])
    return _comparison(values, folders)


def _public_page(values, folder):
    from mednli_jax.report import html

    found = html.public_figures(folder)
    if values.json:
        print(json.dumps(found, indent=2))
    page = cli.path(values.out) or folder / "public.html"
    _write(page, html.public_page(found))
    if values.markdown:
        _write(page.with_suffix(".md"), html.model_card(found), html.CARD)


def _table(values):
    from mednli_jax import paper_tables
    from mednli_jax.io import write_over
    from mednli_jax.report import html

    runs = cli.path(cli.required(values, "runs", "--runs=runs/table3, the folder that holds the runs"))
    skills = cli.path(values.skills)
    found = paper_tables.filled(values.table, runs, values.split, skills, _prepared_of, public=values.public)
    _print(values, found.sections, found.figures)
    if values.out:
        _write(values.out, html.table_page(found.sections, found.folders, found.paper))
        if values.table == "mednli":
            write_over(cli.path(values.out).with_suffix(".json"), json.dumps(found.figures, indent=2), '{\n  "source"')


def _page(values, folder):
    from mednli_jax import kinds
    from mednli_jax.nli import corpus_stats
    from mednli_jax.report import html, outcomes
    from mednli_jax.report.runs import RunDirectory

    sections, found = _error_kinds(values, [folder])
    if sections:
        _print(values, sections, found)
    run, kind = RunDirectory.existing(folder), kinds.of_run(folder)
    page = html.run_page(run, kind.run_sections, kind.units, [*sections, *corpus_stats.sections_of_file(values.paths)])
    _write(values.out or folder / "report.html", page)
    if values.csv:
        for path, content in outcomes.as_csv(folder).items():
            _write(path, content, content.partition(",")[0])


def _comparison(values, folders):
    from mednli_jax import kinds
    from mednli_jax.nli import corpus_stats
    from mednli_jax.report import html

    if len(folders) == 1:
        raise UsageError("--compare takes two runs at least. Fix: name another run directory.")
    compared = kinds.compare(folders, values.split, _prepared_of)
    sections, found = _error_kinds(values, folders)
    if values.compare:
        result = {"comparisons": compared.rows, **({"categories": found} if sections else {})}
        _print(values, [*compared.sections, *sections], result)
    more = [*sections, *corpus_stats.sections_of_file(values.paths)]
    if values.out or not values.compare:
        _write(values.out or "report.html", html.comparison_page(compared, more, folders))


def _error_kinds(values, folders):
    """(sections, figures) of the runs' error categories; ([], {}) where they are not requested."""
    from mednli_jax.nli.categories import error_kinds

    if not (values.categories or values.categories_file):
        return [], {}
    return error_kinds(folders, values.split, cli.path(values.categories_file), _linked_corpus)


def _prepared_of(folder):
    from mednli_jax import finished_run  # imports jax, which most reports do not need

    return finished_run.prepared_of(folder)


def _linked_corpus(folder):
    from mednli_jax import finished_run

    return finished_run.linked_corpus(folder)


def _print(values, shown, result):
    from mednli_jax.report.sections import csv_text, markdown_text, text

    as_text = csv_text if values.csv else markdown_text if values.markdown else text
    print(json.dumps(result, indent=2) if values.json else as_text(shown))


def _write(path, page, beginning="<!DOCTYPE html>"):
    from mednli_jax.io import private_folder, write_over

    path = cli.path(path)
    private_folder(path.parent)
    write_over(path, page, beginning)
    print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define, words=WORDS))
