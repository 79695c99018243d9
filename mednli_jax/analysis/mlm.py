"""Runs of masked language models: their scores for a terminal and on the run's page."""

from mednli_jax.analysis.evaluation import Evaluation, Options, seeds_named
from mednli_jax.analysis.sections import Comparison, Grid, Section, points, sd
from mednli_jax.errors import UsageError


def run_sections(result: dict) -> tuple[list[Section], list[Section]]:
    """The sections of a run's result.json shown before and after the learning curves."""
    rows = []
    for split in ("dev", "test"):
        if scores := result.get(split):
            loss, perplexity, right = (scores[name]["mean"] for name in ("loss", "perplexity", "accuracy"))
            counts = (f"{scores[name]:,}" for name in ("examples", "predicted"))
            rows.append((split, *counts, f"{loss:.4f}", f"{perplexity:.2f}", points(right), sd(scores["accuracy"])))
    header = ("split", "rows", "masked pieces", "loss", "perplexity", "accuracy", "sd")
    words = ["loss in nats and accuracy in points, of masked pieces"]
    return [Section("Scores", words, [Grid("", header, rows)] * bool(rows))], []


def evaluate(scored, options: Options) -> Evaluation:
    """Scores of a split. scored: a finished_run.ScoredCorpus. Raises: UserError for an unknown split."""
    run, split = scored.run, options.split
    scores, _ = scored.scores(split)
    corpus, seeds = scored.experiment.corpus.title, run.result["seeds"]
    figures = {"run": str(run.directory.folder), "corpus": corpus, "split": split, "seeds": seeds, **scores}
    title = f"{run.result['model']} on {corpus}, {seeds_named(seeds)}"
    return Evaluation(figures, [title, run.task.summary(split, scores)])


def compare(*_) -> Comparison:
    """Raises UsageError: perplexities over different vocabularies cannot be compared."""
    raise UsageError("--compare is not for masked language models. Fix: compare runs of bert with their weights.")
