"""`python -m mednli_jax.report`: finished runs as a page, against each other, and beside the tables of the paper."""

import json
import sys
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UserError

USAGE = """Report on finished runs.

  python -m mednli_jax.report runs/esim-demo                              # its page: runs/esim-demo/report.html
  python -m mednli_jax.report runs/esim runs/esim_kd --compare            # the first against each other
  python -m mednli_jax.report --table=3 --runs=runs/table3                # the paper's table beside ours

  RUN [RUN ...]       run directories; of several, a page that has them side by side (default: report.html)
  --compare           print the comparison: McNemar, bootstrap intervals, Holm, detectable effect, changes by class
  --table=3|4|5|6|7   print a table of the paper: its figures, ours, the difference; what is missing, and how to get it
  --table=diskne2     Tables 1 to 8 on DisKnE: --runs=FOLDER holds runs of configs/diskne_*.py, named as the columns
  --table=clicr4      Table 4 of CliCR: --runs=FOLDER holds ga_ent, ..., and baselines; with --skills=FILE Figure 5, too
  --runs=FOLDER       the folder that holds the table's runs, each named for its cell
  --split=NAME        dev or test (default: test)
  --categories        also kinds of error (Table 8), by rules over the corpus, which has to be there
  --categories_file=FILE   the same from annotations: uid TAB category
  --paths=FILE        also Figure 3, from the paths.json of analyze paths --out=FOLDER
  --out=FILE          where the page goes, in an older page's place; with --compare and --table only where it is given
  --json              print JSON
  --public            of one run or a table: a page, RUN/public.html, for others, without rows of single pairs and their
                      uids, words, commands, paths, names of folders and machines, and counts below 10

Pages are single files that load nothing. None holds a sentence of the corpus."""


def define(values: cli.Flags) -> None:
    flags.DEFINE_bool("compare", False, "print a comparison", flag_values=values)
    flags.DEFINE_string("table", None, "a table of the paper", flag_values=values)
    flags.DEFINE_string("skills", None, "skills of cloze queries", flag_values=values)
    flags.DEFINE_string("runs", None, "folder of a table's runs", flag_values=values)
    flags.DEFINE_string("split", "test", "split to report", flag_values=values)
    flags.DEFINE_bool("categories", False, "kinds of error by rules", flag_values=values)
    flags.DEFINE_string("categories_file", None, "kinds of error as annotated", flag_values=values)
    flags.DEFINE_string("paths", None, "path lengths for Figure 3", flag_values=values)
    flags.DEFINE_string("out", None, "file of the page", flag_values=values)
    flags.DEFINE_bool("json", False, "print JSON", flag_values=values)
    flags.DEFINE_bool("public", False, "what may be shown outside", flag_values=values)


def main(values: cli.Flags, *folders: str) -> None:
    folders = [Path(folder).expanduser() for folder in folders]
    if values.public:
        _check_public(values, folders)
    if values.table is not None:
        if folders:
            raise UserError("E-REP-012 --table takes no run directories. Fix: give --runs=FOLDER, which holds them.")
        return _table(values)
    if not folders:
        raise UserError("E-REP-013 no run directory is given. Fix: report runs/esim-demo, or --table=3 --runs=FOLDER.")
    if len(folders) == 1 and not values.compare:
        return (_public_page if values.public else _page)(values, folders[0])
    if len(folders) == 1:
        raise UserError("E-REP-014 --compare takes two runs at least. Fix: name another run directory.")
    return _comparison(values, folders)


def _check_public(values, folders):
    """Raises UserError for what is told of a few pairs, or of a run's own names."""
    asked = [name for name in ("compare", "categories", "categories_file", "paths", "skills") if values[name].value]
    if asked or len(folders) > 1 or (values.table or "").startswith("diskne"):
        what = f"--{asked[0]}" if asked else "several runs" if len(folders) > 1 else "tables of single diseases"
        raise UserError(f"E-REP-018 --public shows no {what}. Fix: give one run, or --table=3 to 7 or clicr4.")


def _public_page(values, folder):
    from mednli_jax.analysis import html

    found = html.public_figures(folder)
    if values.json:
        print(json.dumps(found, indent=2))
    _write(values.out or folder / "public.html", html.public_page(found))


def _table(values):
    from mednli_jax.analysis import html, public, sections, tables
    from mednli_jax.analysis.cloze import table4 as cloze_table4

    runs = Path(cli.required(values, "runs", "--runs=runs/table3, the folder that holds the runs")).expanduser()
    if values.table == cloze_table4.NAME:
        return _cloze_table(values, runs)
    if values.table.startswith("diskne"):
        return _diskne_table(values, runs)
    if not values.table.isdecimal():
        raise UserError(f"E-REP-010 --table={values.table}: no such table. Fix: see --help.")
    table = tables.table_of(int(values.table))
    found = tables.filled(table, runs)
    found = public.table(found, [cell.run for cell in table.cells]) if values.public else found
    section = sections.table_section(found)
    _print(values, [section], found)
    if values.out:
        names = {name for cell in found["cells"] for name in (cell["run"], cell["baseline"]) if name}
        there = [runs / name for name in sorted(names) if (runs / name / "config.json").is_file()]
        _write(values.out, html.table_page([section], [] if values.public else there))


def _cloze_table(values, runs):
    """Table 4 of the paper on CliCR; Figure 5 beside it where skills are given."""
    from mednli_jax.analysis import html, public
    from mednli_jax.analysis.cloze import outcomes as cloze_outcomes
    from mednli_jax.analysis.cloze import sections as cloze_sections
    from mednli_jax.analysis.cloze import skills as cloze_skills
    from mednli_jax.analysis.cloze import table4 as cloze_table4

    found = cloze_table4.filled(runs, values.split)
    found = public.table(found) if values.public else found
    shown = [cloze_sections.table4_section(found)]
    if values.skills:
        skills = cloze_skills.read_skills(Path(values.skills).expanduser())
        systems = cloze_table4.systems(runs, values.split)
        queries = next(iter(systems.values())).queries
        found["skills"] = cloze_skills.statistics(skills, queries, cloze_outcomes.f1_of_queries(systems))
        shown.append(cloze_sections.skills_section(found["skills"]))
    _print(values, shown, found)
    if values.out:
        there = [runs / name for name in cloze_table4.RUNS.values() if (runs / name / "config.json").is_file()]
        _write(values.out, html.table_page(shown, [] if values.public else there, "Šuster & Daelemans 2018"))


def _diskne_table(values, runs):
    """A table of the paper on DisKnE, with all finished runs of the folder as columns."""
    from dataclasses import asdict

    from mednli_jax.analysis import html
    from mednli_jax.analysis.diskne import runs as diskne_runs

    found = diskne_runs.systems(runs)
    section = diskne_runs.table_section(values.table.removeprefix(diskne_runs.TABLE), found)
    _print(values, [section], asdict(section.grids[0]))
    if values.out:
        _write(values.out, html.table_page([section], [runs / one.name for one in found], "Alghanmi et al. 2021"))


def _page(values, folder):
    from mednli_jax.analysis import html
    from mednli_jax.analysis.cloze.outcomes import is_cloze
    from mednli_jax.analysis.diskne import runs as diskne_runs

    if is_cloze(folder):
        _no_categories(values)
    more = diskne_runs.run_sections(folder) if diskne_runs.is_diskne(folder) else []
    if values.categories or values.categories_file:
        from mednli_jax.analysis.outcomes import finished

        section, found = _categories(values, [finished(folder, values.split)])
        more.append(section)
        _print(values, [section], found)
    if values.paths:
        more.append(html.paths_section(values.paths))
    _write(values.out or folder / "report.html", html.run_page(folder, more))


def _comparison(values, folders):
    from mednli_jax.analysis import html, outcomes, sections
    from mednli_jax.analysis.cloze import outcomes as cloze_outcomes

    if cloze_outcomes.is_cloze(folders[0]):
        return _cloze_comparison(values, folders)
    runs = [outcomes.finished(folder, values.split) for folder in folders]
    compared = outcomes.comparisons(runs)
    shown, result = sections.comparison_sections(runs, compared), {"comparisons": compared}
    if values.categories or values.categories_file:
        section, found = _categories(values, runs)
        shown, result = [*shown, section], {**result, "categories": found}
    if values.compare:
        _print(values, shown, result)
    if values.paths:
        shown.append(html.paths_section(values.paths))
    if values.out or not values.compare:
        _write(values.out or "report.html", html.comparison_page(runs, shown))


def _cloze_comparison(values, folders):
    from mednli_jax.analysis import html
    from mednli_jax.analysis.cloze import outcomes as cloze_outcomes
    from mednli_jax.analysis.cloze import sections as cloze_sections

    _no_categories(values)
    compared = cloze_outcomes.compared(folders, values.split)
    shown = [cloze_sections.comparison_section(compared)]
    if values.compare:
        _print(values, shown, {"comparisons": compared})
    if values.out or not values.compare:
        names = " and ".join(folder.resolve().name for folder in folders)
        _write(values.out or "report.html", html.cloze_comparison_page(f"{names}: {values.split}", shown, folders))


def _no_categories(values):
    for name in ("categories", "categories_file", "paths"):
        if values[name].value:
            raise UserError(f"E-REP-017 --{name} is of sentence pairs. Fix: leave it out for runs on cloze queries.")


def _categories(values, runs):
    """(section, figures) of the runs' kinds of error."""
    from mednli_jax.analysis import categories, sections

    if values.categories_file:
        of_uid, source = categories.read_annotations(Path(values.categories_file).expanduser()), "as annotated"
    else:
        of_uid, source = _by_rules(runs[0]), sections.BY_RULES
    found = {run.name: categories.category_scores(run.outcomes, of_uid) for run in runs}
    return sections.category_section(found, source), found


def _by_rules(run):
    """uid -> kinds of the split's pairs. The run's corpus is read again; its ontology says what is a concept."""
    from mednli_jax import defaults
    from mednli_jax.analysis.categories import categories
    from mednli_jax.corpora.nli import encoding as encode
    from mednli_jax.corpora.nli.prepared import Source
    from mednli_jax.knowledge.wordlists import BUNDLED, read_abbreviations
    from mednli_jax.runs import RunDirectory

    saved, config = RunDirectory.existing(run.folder).config, defaults.nli("esim", knowledge="replace")
    for section in ("data", "knowledge"):
        for name, value in saved.get(section, {}).items():
            if name in config[section] and name not in ("mix", "sample") and value is not None:  # of training alone
                config[section][name] = tuple(value) if isinstance(value, list) else value
    source = Source(config)
    splits = source.splits()
    linker, examples = source.recogniser(splits), splits[run.split].examples
    mentions = [
        encode.find_mentions(examples, side, linker, source.encoding, {}, encode.unwatched) for side in encode.SIDES
    ]
    return categories(examples, *mentions, (short for short, _ in read_abbreviations(BUNDLED)))


def _print(values, shown, result):
    from mednli_jax.analysis.sections import lines

    if values.json:
        print(json.dumps(result, indent=2))
    else:
        print("\n\n".join("\n".join(lines(section)) for section in shown))


def _write(path, page):
    from mednli_jax.files import private_folder, write_over

    path = Path(path).expanduser()
    private_folder(path.parent)
    write_over(path, page, "<!DOCTYPE html>")
    print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define, words=sys.maxsize))
