"""DisKnE without a threshold: the rank that a model gives to the true disease of a premise among the synthetic ones.

With one positive in eleven examples a model may rank well and still call nothing positive: its F1 is 0 then. A query is
a positive example with the negatives made from it. Where probabilities are equal, hits@1 and MRR are their means over
all orders; AP treats equal ones as one step, as scikit-learn does.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from mednli_jax.corpora.diskne.benchmark import CATEGORIES, Benchmark, DiseaseExample
from mednli_jax.corpora.diskne.folds import Fold
from mednli_jax.metrics import mean_sd

MEASURES = {
    "hits": "hits@1",  # share of the queries whose true disease comes first
    "reciprocal_rank": "MRR",  # mean of 1 / rank of the true disease
    "average_precision": "AP",  # over all examples of a disease, whatever their premises
}


def scores(benchmark: Benchmark, folds: Sequence[Fold], runs: Mapping[str, Mapping[str, float]]) -> dict[str, dict]:
    """category -> `mean_sd` over the runs of each of MEASURES, and "chance", the hits@1 of guessing.

    Each is a mean over diseases, which weigh the same. Categories that no fold reports are left out.
    runs: {run: {uid: probability of the positive class}}; every test example has one.
    """
    found = {}
    for category in CATEGORIES:
        each = [
            _of_disease([benchmark.examples[row] for row in fold.test], category, runs)
            for fold in folds
            if category in fold.categories
        ]
        each = [one for one in each if one]
        if each:
            per_run = {name: np.mean([one[name] for one in each], axis=0) for name in MEASURES}
            chance = float(np.mean([one["chance"] for one in each]))
            found[category] = {**{name: mean_sd(values) for name, values in per_run.items()}, "chance": chance}
    return found


def _of_disease(examples: Sequence[DiseaseExample], category: str, runs) -> dict:
    """Each measure [runs], and chance; {} where no positive example has a negative."""
    examples = [example for example in examples if example.category == category]
    queries = defaultdict(list)
    for place, example in enumerate(examples):
        queries[_query(example)].append(place)
    gold = np.array([example.is_positive for example in examples])
    ranked = [places for places in map(np.array, queries.values()) if len(places) > 1 and gold[places].sum() == 1]
    if not ranked:
        return {}
    from sklearn.metrics import average_precision_score  # a slow import, of a run's end alone

    result = {name: [] for name in MEASURES}
    for predictions in runs.values():
        p = np.array([predictions[example.uid] for example in examples])
        hits, reciprocal = zip(*(_rank(p[places], gold[places]) for places in ranked), strict=True)
        result["hits"].append(np.mean(hits))
        result["reciprocal_rank"].append(np.mean(reciprocal))
        result["average_precision"].append(average_precision_score(gold, p))
    return {**result, "chance": np.mean([1 / len(places) for places in ranked])}


def _query(example: DiseaseExample) -> str:
    """The uid of the positive example that this is or was made from (see benchmark.example_of)."""
    return example.uid if example.is_positive else example.uid.removesuffix(f".{example.disease}")


def _rank(p: np.ndarray, gold: np.ndarray) -> tuple[float, float]:
    """(hits@1, reciprocal rank) of the one positive: the means over the orders of equal probabilities."""
    above, equal = int((p[~gold] > p[gold]).sum()), int((p[~gold] == p[gold]).sum())
    ranks = above + 1 + np.arange(equal + 1)
    return float((ranks == 1).mean()), float((1 / ranks).mean())
