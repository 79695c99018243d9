"""The scores of a run on sentence pairs, for `evaluate`."""

from collections.abc import Iterator, Mapping

from mednli_jax.data.examples import LABELS
from mednli_jax.report.evaluation import Evaluation, Options, seeds_named
from mednli_jax.report.metrics import majority_share, wilson_interval


def evaluate(run, options: Options) -> Evaluation:
    """Scores of a split and of its partitions. run: a finished_run.FinishedRun.

    Raises: UserError for an unknown split, DataError for ids of no pair.
    """
    corpus, split = run.experiment.corpus.title, options.split
    scores, _ = run.scores(split)
    found = {part.name: _with_interval(run.partition_scores(split, part)) for part in options.partitions}
    figures = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "trained_on": run.result["corpus"],
        "split": split,
        **({"merged_by": run.merged_by} if run.merged_by else {}),
        "seeds": run.result["seeds"],
        **_with_interval(scores),
        **({"partitions": found} if options.partitions else {}),
    }
    text = [f"text: entities of {run.merged_by} merged"] if run.merged_by else []
    lines = [*score_lines(scores, run.result, corpus, split), *text, *partition_lines(scores, found)]
    return Evaluation(figures, lines)


def evaluate_probe(run, path) -> Evaluation:
    """Scores of the pairs of a file, by category. run: a finished_run.FinishedRun. Raises: DataError(s)."""
    scores, name = run.probed(path)
    figures = {
        "run": str(run.directory.folder),
        "probe": name,
        "trained_on": run.result["corpus"],
        "seeds": run.result["seeds"],
        **_with_interval(scores),
    }
    return Evaluation(figures, list(score_lines(scores, run.result, name, "probe")))


def _with_interval(scores: Mapping) -> Mapping:
    """The scores, the 95 % interval of one run's accuracy, and the share of the pairs' most frequent label."""
    if not scores["examples"]:
        return scores
    low, high = wilson_interval(round(scores["accuracy"]["mean"] * scores["examples"]), scores["examples"])
    interval = {"low": low, "high": high, "level": 0.95}
    return {**scores, "interval": interval, "majority": majority_share(scores["per_class"])}


def partition_lines(scores: Mapping, found: Mapping[str, Mapping]) -> Iterator[str]:
    """A line for each partition, beside the whole split."""
    if not found:
        return
    width = max(map(len, ("partition", *found))) + 2
    heading = f"{'partition':{width}} {'pairs':>7} {'majority':>8} {'accuracy':>8} {'less all':>8}"
    yield f"{heading}  95 % interval of one run"
    for name, part in found.items():
        if not part["examples"]:
            yield f"{name:{width}} {0:>7}"
            continue
        accuracy, low, high = part["accuracy"]["mean"], part["interval"]["low"], part["interval"]["high"]
        difference = accuracy - scores["accuracy"]["mean"]
        figures = f"{part['examples']:>7,} {part['majority']:>8.4f} {accuracy:>8.4f} {difference:>+8.4f}"
        yield f"{name:{width}} {figures}  {low:.4f}-{high:.4f}"


def score_lines(scores: Mapping, result: Mapping, corpus: str, split: str) -> Iterator[str]:
    """The scores of a split. result: the run's; corpus: what the split is of."""
    accuracy, pairs = scores["accuracy"], scores["examples"]
    low, high = wilson_interval(round(accuracy["mean"] * pairs), pairs)
    several = len(result["seeds"]) > 1
    trained = "" if corpus == result["corpus"] else f", trained on {result['corpus']}"
    yield f"{result['model']}{trained} on {corpus}, {split}: {pairs:,} pairs, {seeds_named(result['seeds'])}"
    sd = f"sd {accuracy['sd']:.4f}; " if several else ""  # a single seed has none
    yield f"accuracy {accuracy['mean']:.4f} ({sd}95 % interval of one run {low:.4f}-{high:.4f})"
    text = f"macro F1 {scores['macro_f1']['mean']:.4f}, loss {scores['loss']['mean']:.4f}, "
    yield text + f"expected calibration error {scores['calibration']['ece']['mean']:.4f}"
    yield f"{'':14} {'precision':>9} {'recall':>7} {'F1':>7}   predicted " + " ".join(f"{n[:7]:>8}" for n in LABELS)
    for label, row in zip(LABELS, scores["confusion"], strict=True):
        s = scores["per_class"][label]
        counts = " ".join(f"{n:>8}" for n in row)
        yield f"{label:14} {s['precision']:>9.4f} {s['recall']:>7.4f} {s['f1']:>7.4f}   {'':9} {counts}"
    if several:
        yield f"predicted: pairs summed over the {len(result['seeds'])} seeds"
    if "slices" in scores:
        for name, s in scores["slices"].items():
            yield f"{name}: accuracy {s['accuracy']['mean']:.4f} ({s['examples']:,} pairs)"
    yield from result["notes"]
