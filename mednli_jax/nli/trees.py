"""Gradient-boosted trees as JSON values: what scikit-learn fitted, kept without pickle, and its predictions.

Dimension letters: N rows, F features, C classes, K scores (C, or 1 of two classes), T rounds.
"""

from collections.abc import Mapping

import numpy as np

PARTS = ("children_left", "children_right", "feature", "threshold", "value")  # of scikit-learn's trees


def of_model(model) -> dict:
    """A fitted GradientBoostingClassifier as JSON values.

    Returns: classes [C]; prior [C], the shares of training; learning_rate; trees [T][K], each {part: [nodes]}, a leaf
    has feature -2.
    """
    return {
        "classes": model.classes_.tolist(),
        "prior": model.init_.class_prior_.tolist(),
        "learning_rate": model.learning_rate,
        "trees": [
            [{part: np.ravel(getattr(one.tree_, part)).tolist() for part in PARTS} for one in of_round]
            for of_round in model.estimators_
        ],
    }


def probabilities(found: Mapping, table: np.ndarray, classes: int) -> np.ndarray:
    """[N, classes] of features [N, F]; a class that training lacks has 0. found: of `of_model`."""
    prior, rows = np.array(found["prior"]), np.asarray(table, np.float32)  # as scikit-learn compares them
    two = len(prior) == 2
    scores = np.log(prior[1:] / prior[:1]) if two else np.log(prior)
    scores = np.tile(scores, (len(rows), 1))
    for of_round in found["trees"]:
        for k, tree in enumerate(of_round):
            scores[:, k] += found["learning_rate"] * _values(tree, rows)
    if two:
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    result = np.zeros((len(rows), classes))
    result[:, found["classes"]] = shares / shares.sum(axis=1, keepdims=True)
    return result


def _values(tree, rows) -> np.ndarray:
    """[N], the value of the leaf that each row falls into."""
    left, right, feature, threshold, value = (np.array(tree[part]) for part in PARTS)
    at, every = np.zeros(len(rows), np.int64), np.arange(len(rows))
    while (inner := feature[at] >= 0).any():
        goes_left = rows[every, np.maximum(feature[at], 0)] <= threshold[at]
        at = np.where(inner, np.where(goes_left, left[at], right[at]), at)
    return value[at]
