"""The scores of a run on cloze queries, and of any system's answers to them, for `evaluate`."""

from dataclasses import replace
from pathlib import Path

from mednli_jax import answers
from mednli_jax.analysis.cloze import tables
from mednli_jax.analysis.cloze.skills import read_skills
from mednli_jax.analysis.evaluation import Evaluation, Options, seeds_named
from mednli_jax.baselines.entity import known_vectors
from mednli_jax.corpora.arrays import Prepared
from mednli_jax.metrics import wilson_interval


def evaluate(scored, options: Options) -> Evaluation:
    """Scores of a split's queries. scored: a finished_run.ScoredCorpus.

    Raises: UserError for an unknown split, DataError(s) for files of skills or vectors that are missing or damaged.
    """
    run, corpus, split = scored.run, scored.experiment.corpus.title, options.split
    skills = read_skills(options.skills) if options.skills else None
    if options.vectors and split in scored.prepared.splits:
        scored.prepared = _with_words(scored.prepared, split, options.vectors)
    scores, logits = scored.scores(split)
    each = []
    if options.each or skills:
        rows = scored.prepared.splits[split]
        queries, words = rows.queries(), rows.words or ()
        each = [answers.query_scores(queries, run.task.answers(rows, part), *words) for part in logits]
    if skills:
        named = answers.slices(queries, skills).get("skill", {})
        found = {name: tables.seed_scores(each, places) for name, places in named.items()}
        scores = {**scores, "families": {**scores["families"], "skill": found}}
    seeds = run.result["seeds"]
    low, high = wilson_interval(round(scores["accuracy"]["mean"] * scores["examples"]), scores["examples"])
    figures = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "split": split,
        "seeds": seeds,
        **scores,
        "interval": {"low": low, "high": high, "level": 0.95},
    }
    title = f"{run.result['model']} on {corpus}, {split}, {seeds_named(seeds)}"
    lines = [*tables.run_lines(title, scores), *run.result["notes"]]
    return Evaluation(figures, lines, tables.mean_rows(each) if options.each else ())


def _with_words(prepared: Prepared, split: str, path: Path) -> Prepared:
    """The corpus with word vectors for the embedding score of a split."""
    rows = prepared.splits[split]
    texts = {answer.text for query in rows.queries() for answer in query.answers}
    texts |= {phrase for row in range(len(rows)) for phrase in rows.candidates(row)}
    known = replace(rows, words=known_vectors(path, (), sorted(texts)))
    return replace(prepared, splits={**prepared.splits, split: known})


def evaluate_answers(corpus: str, predictions: str, options: Options) -> Evaluation:
    """Scores of answers to cloze queries, whoever gave them.

    corpus: demo_cloze, clicr or a folder. predictions: the file of answers, see tables.read_answers.
    Raises: UserError, DataError(s) for a corpus, split or file that is missing or damaged.
    """
    examples = tables.split_of(tables.corpus(corpus), options.split).examples
    predicted = tables.read_answers(Path(predictions).expanduser(), examples)
    skills = read_skills(options.skills) if options.skills else None
    vocab = vectors = None
    if options.vectors:
        texts = [*predicted.values(), *(text for example in examples for text in answers.texts(example))]
        vocab, vectors = known_vectors(options.vectors, (), texts)
    each = answers.query_scores(examples, predicted, vocab, vectors)
    scores = answers.figures(examples, each, skills)
    figures = {"predictions": predictions, "corpus": corpus, "split": options.split, **scores}
    lines = list(tables.lines(f"{predictions} on {corpus}, {options.split}", scores))
    return Evaluation(figures, lines, answers.rows(each) if options.each else ())
