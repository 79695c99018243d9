"""Analyse a corpus.

  python -m mednli_jax.analyze all --corpus=demo --out=figures
  python -m mednli_jax.analyze paths --config=configs/esim_kd.py:mednli --config.knowledge.ontology=umls --out=figures

  stats        sizes, lengths, labels and words (Table 2 of the MedNLI paper)
  paths        path lengths between concepts of premises and hypotheses (its Figure 3), types of relations by class
  lexical      tokens that predict a class, by PMI (Table 3 of Herlihy & Rudinger)
  lengths      length of hypotheses by class (Table 4)
  heuristics   pairs that satisfy the heuristics hypernym, probable cause, everything is fine (Table 5)
  aflite       easy and difficult pairs by adversarial filtering (section 6), as lists for evaluate --partition
  all          all of the above, on one page
  substitutions  DIR/substitutions.jsonl for evaluate --probe: a related word replaces a word; --count=200 a category
  cloze-stats  --corpus=demo_cloze|clicr|FOLDER (Tables 2 and 3, Figures 2-5 of CliCR): --skills=FILE --scores=FILES

  --corpus=NAME|FILE|FOLDER    demo, demo_full, mednli, snli, ... or your own pairs: linked by MeSH, whole sentences
{config}
  --spans=FILE        lexical, lengths, aflite: join the words of the entities in FILE (any tagger), not of concepts
  --top=15 --smoothing=50 --min_count=5 --stop_words    lexical: tokens shown for a class, count added to each token,
                      fewest occurrences; keep stop words and punctuation.  --lengths=all|train  lengths, paths: pairs
  --public            show only tokens of at least 10 premises; without it, no token of a restricted corpus is shown
  --input=hypothesis|pair --m=5620 --n=64 --k=500 --tau=.75 --seed=0    aflite: each of n models trains on m pairs, at
                      most k pairs are removed in a round; defaults for MedNLI's 14,049 pairs, else in proportion
  --entities=none|parts|drop --unknown=zero|skip    aflite: none: raw text; parts, drop: entities are joined, and one
                      without a vector gets the mean of its words or none; unknown words count as zeros or are skipped
  --features=RUN --resume     aflite: use the logits of a finished run, not word vectors; continue the filtering in DIR
  --out=DIR --json    write ANALYSIS.json, figures, lists and report.html to DIR, over older ones; print JSON
"""

import json
import sys
from functools import partial
from types import SimpleNamespace

from absl import flags

from mednli_jax import cli, defaults, tasks
from mednli_jax.data.examples import LABELS
from mednli_jax.errors import UsageError, UserError
from mednli_jax.files import private_folder, write_atomic, write_json
from mednli_jax.report import html
from mednli_jax.report.sections import lines
from mednli_jax.terminal import say

CLOZE = "cloze-stats"  # the one analysis of cloze queries

WORDS = 1  # number of arguments without --


def define(values: cli.Flags) -> str | None:
    cli.define(values, config=None, corpus=None)
    cli.define_paths(values, "spans", "features", "skills", "out")
    cli.define(values, stop_words=False, public=False, resume=False, json=False)
    cli.define(values, scores=[], lengths=("all", "train"))
    cli.define(values, input=("hypothesis", "pair"), entities=("none", "parts", "drop"), unknown=("zero", "skip"))
    cli.define_numbers(values, top=15, min_count=5, m=None, n=64, k=None, count=200)
    cli.define_numbers(values, least=0, seed=0)
    for name, default, most in (("smoothing", 50.0, None), ("tau", 0.75, 1.0)):
        flags.DEFINE_float(name, default, name, lower_bound=0.0, upper_bound=most, flag_values=values)
    return None if CLOZE in sys.argv else __file__  # a cloze corpus is not a variant of this config


def get_config(variant="demo"):
    """The config of --corpus: whole sentences whose concepts are linked by MeSH. No model is run."""
    config = defaults.nli("esim", variant, knowledge="replace")
    config.knowledge = defaults.nli("esim").knowledge  # also for MedNLI, whose models use the UMLS
    config.data.max_length = (1 << 15) - 1
    return config


def main(values: cli.Flags, analysis: str = "") -> int:
    """Runs one analysis, or `all`. With `all`, a failed analysis prints its message and the others still run."""
    folder, whole = values.out, analysis == "all"
    task = tasks.with_analysis(analysis)
    if (config := values.config) is not None:
        from mednli_jax import checks

        checks.check(config)
        if tasks.task_of(config) is not task:
            problem = f"--config: `analyze {analysis}` is for {task.corpora}"
            raise UsageError(f"{problem}. Fix: give another config or analysis.")
    corpus, options = task.analysed(config, values), _options(values)
    results, sections, notes, status = {}, [], list(corpus.notes), cli.OK
    for name in task.analyses() if whole else [analysis]:
        try:
            figures, found, files = task.analyses(alone=True)[name](corpus, options)
        except UserError as error:
            if not whole:
                raise
            print(error, file=sys.stderr)
            notes.append(f"{name} is missing: {error}")
            status = cli.USAGE
            continue
        sections += found
        notes += figures.get("notes", ())
        results[name] = _shown(values, name, corpus.name, corpus.notes, figures, found, files, "\n" * whole)
    if values.json:
        print(json.dumps(results if whole else results[analysis], indent=2))
    elif corpus.notes:
        print("\n".join(corpus.notes))
    if folder and corpus.splits:
        page = html.corpus_page(corpus.name, corpus.splits, sections, corpus.knowledge, " ".join(notes))
        write_atomic(folder / "report.html", page)
        say(f"written: {folder / 'report.html'}")
    return status


def _shown(values, analysis, corpus, notes, figures, sections, files, end="") -> dict:
    """Prints an analysis, unless as JSON, and writes its files. Returns the JSON values. notes: on the corpus."""
    own = figures.get("notes", [])
    result = {"corpus": corpus, "notes": [], **figures} | {"notes": [*notes, *own]}
    if not values.json:
        print("\n".join([*(line for section in sections for line in lines(section)), *own]), end=f"{end}\n", flush=True)
    if folder := values.out:
        for name, content in {f"{analysis}.json": result, **files}.items():
            private_folder((folder / name).parent)
            if isinstance(content, dict):
                write_json(folder / name, {**result, **content})
            else:
                write_atomic(folder / name, content)
        say(f"written: {', '.join(str(folder / name) for name in (f'{analysis}.json', *files))}")
    return result


def _options(values):
    """The flags as attributes, and the functions of higher layers that the filtering calls."""

    def fit_predict(pairs):
        from mednli_jax import run
        from mednli_jax.training import logistic

        run.start_jax()
        return partial(logistic.fit_predict, capacity=pairs, classes=len(LABELS))  # one program for all rounds

    def outputs(folder):
        from mednli_jax import run

        return run.load_run(folder).outputs()

    return SimpleNamespace(**values.flag_values_dict(), fit_predict=fit_predict, outputs=outputs)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define, words=WORDS))
