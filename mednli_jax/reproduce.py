"""Train the runs of a paper that are missing, and print its tables with the paper's figures beside
ours. The same command goes on after an interruption, and joins in on another host.

  python -m mednli_jax.reproduce mednli runs/demo demo --tables=3,7 --seeds=0,1
  python -m mednli_jax.reproduce mednli runs/mednli mednli --mentions=metamap.mmi --dry-run
  python -m mednli_jax.reproduce diskne runs/diskne mednli --weights=BioBERT=weights/biobert

  PAPER FOLDER CORPUS   mednli, artifacts, clicr or diskne; the folder of its runs; demo, a corpus's
                        name, or file with --config.data.dir=FOLDER
  --tables=2,4,7        numbers of the paper's tables (default: all)
  --seeds=0,1           (default: as many as the paper has)
  --config.FIELD=VALUE  for all runs that have the field; a run's own settings stay, those of
                        training aside
  --mentions=FILE       concepts that MetaMap found (mednli), entities of any tagger (artifacts)
  --lexicon=FILE        mednli, Table 6: related words, for MultiNLI's fiction (default: WordNet)
  --weights=NAME=DIR,...   diskne: pretrained weights, named as the paper's columns
  --entities=none|parts        artifacts: entities joined for the filtering, see analyze
  --only=NAME,...       runs and files of these names or patterns (ga_*), and those that they need
  --workers=N           runs at the same time; each of several sees one GPU or TPU chip (default: 1)
  --dry-run             print the commands, and the data that are missing
  --out=FILE.html       also write the tables to a page

A finished run is skipped, an interrupted or killed one continued. What reads a run that was trained
again is made again; a finished run of other settings, or of files that have changed since, is
refused. After a failed run the others go on. Logs: FOLDER/logs. Exit codes: 0 done, 1 some runs
failed, 2 bad input, 3 interrupted.
"""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from mednli_jax import cli, planning, tasks
from mednli_jax.defaults import did_you_mean
from mednli_jax.errors import DataError, UsageError, UserError
from mednli_jax.files.paths import local_path
from mednli_jax.files.writing import private_folder, write_over
from mednli_jax.report import html
from mednli_jax.report.options import ReproductionPlan, Request, TableOptions
from mednli_jax.report.sections import Report, Section, markdown_text, text
from mednli_jax.terminal import say
from mednli_jax.workers import Queue

WORDS = 3  # number of arguments without --
FAILED = 1  # exit code


def define(values: cli.Flags) -> None:
    cli.define(values, tables=[], seeds=[], weights=[], only=[], dry_run=False)
    cli.define(values, entities=("none", "parts"))
    cli.define_config_fields(values)
    cli.define_paths(values, "mentions", "lexicon", "out")
    cli.define_numbers(values, workers=1)


def main(values: cli.Flags, *words: str) -> int:
    if len(words) < WORDS:
        fix = "reproduce mednli runs/demo demo; see --help"
        raise UsageError("PAPER, FOLDER or CORPUS is missing", fix=fix)
    paper, folder, corpus = words
    plan = _plan(paper)
    request = _request(values, plan, folder, corpus)
    jobs = planning.jobs_of(plan, request, values.only)
    notes = [*plan.notes(request), *_lacking_lines(jobs.lacking)]
    for note in notes:
        say(note)
    if values.dry_run:
        print("\n".join(_dry_run(jobs)))
        return cli.OK
    if not jobs.jobs:
        raise DataError("no run of these tables has its data", fix="see the lines above")
    private_folder(request.folder)
    queue = Queue(jobs.jobs, jobs.done, request.folder, values.workers)
    queue.work()
    _show_tables(plan, request, values.out)
    if queue.failures:
        fix = f"see {request.folder / 'logs'}, then give the command again"
        print(f"error: failed: {', '.join(sorted(queue.failures))}. Fix: {fix}.", file=sys.stderr)
    return FAILED if queue.failures else cli.OK


def _plan(name: str) -> ReproductionPlan:
    plans = tasks.plans()
    if name not in plans:
        fix = f"give one of {', '.join(plans)}"
        raise UsageError(f"no paper '{name}'.{did_you_mean(name, plans)}", fix=fix)
    return plans[name]


def _request(values: cli.Flags, plan: ReproductionPlan, folder: str, corpus: str) -> Request:
    fields = cli.config_fields(values)
    if values.seeds:
        fields["seeds"] = ",".join(values.seeds)
    if corpus == "file" and "data.dir" not in fields:
        raise UsageError("CORPUS is file", fix="give --config.data.dir=FOLDER, too")
    for name in ("mentions", "lexicon"):
        path = values[name].value
        if path and not path.is_file():
            raise UsageError(f"--{name}: there is no file {path}", fix="check the path")
    return Request(
        folder=local_path(folder, "FOLDER"),
        corpus=corpus,
        place=fields["data.dir"] if corpus == "file" else corpus,
        tables=_numbers(values.tables, plan),
        weights=_weights(values.weights),
        fields=fields,
        mentions=values.mentions,
        lexicon=values.lexicon,
        entities=values.entities,
    )


def _numbers(tables: Sequence[str], plan: ReproductionPlan) -> tuple[int, ...]:
    names = list(map(str, plan.numbers))
    for table in tables:
        if table not in names:
            fix = f"give some of {', '.join(names)}"
            raise UsageError(f"--tables: no table {table}", fix=fix)
    return tuple(map(int, tables or names))


def _weights(pairs: Sequence[str]) -> dict[str, str]:
    weights = {}
    for pair in pairs:
        name, equals, place = pair.partition("=")
        if not equals:
            raise UsageError(f"--weights: '{pair}' has no name", fix="give NAME=FOLDER,NAME=FOLDER")
        weights[name] = place
    return weights


def _lacking_lines(lacking: dict[str, list[str]]) -> list[str]:
    lines = []
    for data, names in lacking.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"missing: {data}, for {', '.join(names[:3])}{more}")
    return lines


def _dry_run(jobs: planning.Jobs) -> list[str]:
    """A line for each job, then their number."""
    lines = []
    for job in (*jobs.jobs, *jobs.blocked):
        state = "no data" if job in jobs.blocked else "to do"
        state = "done" if job.name in jobs.done else state
        lines.append(f"{state:7}  {job.shell_command()}")
    return [*lines, "", f"{len(lines)} runs and files, {len(jobs.done)} done"]


def _show_tables(plan: ReproductionPlan, request: Request, out: Path | None) -> None:
    """Prints the tables, and writes them to a page. The check of a paper is written to the
    folder."""
    shown: list[Section] = []
    words = [word for word in cli.command_line() if not word.startswith("--only")]
    options = TableOptions(cli.read_config, command=shlex.join(words))
    source = ""
    for name in plan.tables(request):
        table = tasks.with_table(name)
        source = table.source
        try:
            report = table.fill(request.folder, options)
        except UserError as error:
            say(f"table {name}: {error}")
            continue
        print(text(report.sections), end="\n\n", flush=True)
        shown += report.sections
        if report.figures.get("source"):
            _write_check(request.folder, source, report)
    if out and shown:
        private_folder(out.parent)
        write_over(out, html.render(f"{source}, beside ours", shown), "<!DOCTYPE html>")
        say(f"written: {out}")


def _write_check(folder: Path, source: str, report: Report) -> None:
    """Writes the check of all figures of a paper, which can be passed on."""
    page = html.render(f"{source}, beside ours", list(report.sections))
    write_over(folder / "check.html", page, "<!DOCTYPE html>")
    write_over(folder / "check.json", json.dumps(report.figures, indent=2), '{\n  "source"')
    write_over(folder / "check.md", markdown_text(report.sections) + "\n", "## Reproduction check")
    say(f"written: {folder / 'check.html'}, check.json, check.md")


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define, words=WORDS))
