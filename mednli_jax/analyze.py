"""Analyse a corpus.

  python -m mednli_jax.analyze all --corpus=demo --out=figures
  python -m mednli_jax.analyze paths --config=esim_kd:mednli --out=figures

  stats        sizes, lengths, labels and words (Table 2 of the MedNLI paper)
  paths        path lengths between concepts of both sentences (its Figure 3)
  lexical      tokens that predict a class, by PMI (Table 3 of Herlihy & Rudinger)
  lengths      length of hypotheses by class (Table 4)
  heuristics   pairs that satisfy hypernym, probable cause, everything is fine (Table 5)
  aflite       easy and difficult pairs (section 6), as lists for evaluate --partition
  all          all of the above, on one page
  substitutions  related words replace words, for evaluate --probe; --count=200 a category
  cloze-stats, cloze-baselines  CliCR's Tables 2 to 4: --corpus --skills; --vectors

  --corpus=NAME|FILE|FOLDER    demo, mednli, snli, ... or your own pairs: whole sentences, MeSH
{config}
  --spans=FILE        lexical, lengths, aflite: join the words of the entities in FILE
  --top=15 --smoothing=50 --min_count=5 --stop_words    lexical: tokens of a class, count added to
                      each, fewest occurrences, stop words too.  --lengths=all|train  pairs
  --public            only tokens of at least 10 premises; without it none of a restricted corpus
  --input=hypothesis|pair --m=5620 --n=64 --k=500 --tau=.75 --seed=0    aflite: n models train on m
                      pairs, at most k pairs leave in a round; m and k are MedNLI's
  --train_only        aflite: of the training pairs alone, for config.data.partition
  --entities=none|parts    aflite: raw text, or joined entities; an entity without a vector has the
                      mean of its words
  --out=DIR --json    write ANALYSIS.json, figures, lists and report.html to DIR; print JSON
"""

import json
import sys
from functools import partial
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict

from mednli_jax import cli, defaults, tasks
from mednli_jax.errors import UsageError, UserError
from mednli_jax.files.writing import private_folder, write_atomic, write_json
from mednli_jax.report import html
from mednli_jax.report.options import AnalysisOptions, FitPredict
from mednli_jax.report.sections import Report, Section, lines
from mednli_jax.rundir import environment
from mednli_jax.terminal import say
from mednli_jax.types import Json

CLOZE = ("cloze-stats", "cloze-baselines")  # analyses of cloze queries

WORDS = 1  # number of arguments without --


def define(values: cli.Flags) -> str | None:
    cli.define(values, config=None, corpus=None)
    cli.define_paths(values, "spans", "skills", "vectors", "out")
    cli.define(values, stop_words=False, public=False, train_only=False, json=False)
    cli.define(values, lengths=("all", "train"))
    cli.define(values, input=("hypothesis", "pair"), entities=("none", "parts"))
    cli.define_numbers(values, top=15, min_count=5, m=None, n=64, k=None, count=200)
    cli.define_numbers(values, least=0, seed=0)
    for name, default, most in (("smoothing", 50.0, None), ("tau", 0.75, 1.0)):
        flags.DEFINE_float(
            name, default, name, lower_bound=0.0, upper_bound=most, flag_values=values
        )
    is_cloze = any(name in cli.arguments() for name in CLOZE)
    return None if is_cloze else __file__  # a cloze corpus is not a variant of this config


def get_config(variant: str = "demo") -> ConfigDict:
    """The config of --corpus: whole sentences whose concepts are linked by MeSH. No model is
    run."""
    config = cli.read_config(f"esim_kd:{variant}")
    config.knowledge = defaults.nli("file").knowledge  # also for MedNLI, whose models use the UMLS
    config.data.max_length = (1 << 15) - 1
    return config


def main(values: cli.Flags, analysis: str = "") -> int:
    """Runs one analysis, or `all`. With `all`, a failed analysis prints its message and the others
    still run."""
    folder, whole = values.out, analysis == tasks.ALL
    config, is_file = values.config, Path(values.corpus or "").is_file()
    if config is not None and not is_file:  # a file has labels of its own
        config = tasks.with_labels(cli.config(values))
    task = tasks.with_analysis(analysis)
    if config is not None:
        _check_config(config, task, analysis)
    options = _options(values)
    corpus, analyses = task.analysed_corpus(config, options), tasks.analyses_of(task)
    results: dict[str, Json] = {}
    sections: list[Section] = []
    notes, status = list(corpus.notes), cli.OK
    names = [name for name in analyses if name not in task.alone] if whole else [analysis]
    for name in names:
        try:
            report = analyses[name](corpus, options)
        except UserError as error:
            if not whole:
                raise
            print(error, file=sys.stderr)
            notes.append(f"{name} is missing: {error}")
            status = cli.USAGE
            continue
        sections += report.sections
        notes += report.notes
        about = {"corpus": corpus.name, "notes": [*corpus.notes, *report.notes]}
        results[name] = {**about, **report.figures}
        if not values.json:
            print("\n".join(_lines(report)), end="\n\n" if whole else "\n", flush=True)
        if folder:
            written = _write(folder, name, results[name], report)
            say(f"written: {', '.join(map(str, written))}")
    if values.json:
        print(json.dumps(results if whole else results[analysis], indent=2))
    elif corpus.notes:
        print("\n".join(corpus.notes))
    if folder and corpus.splits:
        page = html.corpus_page(
            corpus.name,
            corpus.splits,
            sections,
            corpus.knowledge,
            " ".join(notes),
            environment(cli.command_line()),
        )
        write_atomic(folder / "report.html", page)
        say(f"written: {folder / 'report.html'}")
    return status


def _check_config(config: ConfigDict, task: tasks.Task, analysis: str) -> None:
    """Raises UserError for a config with a fault, or of another task than the analysis."""
    from mednli_jax import checks

    checks.check(config)
    if tasks.task_of(config) is not task:
        problem = f"--config: `analyze {analysis}` is for {task.corpora}"
        raise UsageError(problem, fix="give another config or analysis")


def _lines(report: Report) -> list[str]:
    """The sections and notes of a report, for the terminal."""
    shown: list[str] = []
    for section in report.sections:
        shown += lines(section)
    return [*shown, *report.notes]


def _write(folder: Path, analysis: str, result: Json, report: Report) -> list[Path]:
    """Writes the files of an analysis and returns them. result: the figures with what they are
    of."""
    private = {f"private/{name}": content for name, content in report.private.items()}
    contents = {f"{analysis}.json": result, **report.files, **private}
    for name, content in contents.items():
        private_folder((folder / name).parent)
        if isinstance(content, dict):
            write_json(folder / name, {**result, **content})
        else:
            write_atomic(folder / name, content)
    return [folder / name for name in contents]


def _fit_predict(pairs: int, classes: int) -> FitPredict:
    from mednli_jax.experiment import start_jax
    from mednli_jax.training import logistic

    start_jax()
    # one program for all rounds
    return partial(logistic.fit_predict, capacity=pairs, classes=classes)


def _options(values: cli.Flags) -> AnalysisOptions:
    return AnalysisOptions(
        corpus=values.corpus or "",
        spans=values.spans,
        skills=values.skills,
        vectors=values.vectors,
        out=values.out,
        stop_words=values.stop_words,
        public=values.public,
        train_only=values.train_only,
        lengths=values.lengths,
        input=values.input,
        entities=values.entities,
        top=values.top,
        min_count=values.min_count,
        smoothing=values.smoothing,
        count=values.count,
        m=values.m,
        n=values.n,
        k=values.k,
        tau=values.tau,
        seed=values.seed,
        fit_predict=_fit_predict,
    )


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define, words=WORDS))
