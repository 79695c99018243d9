"""The feature-based system: features of a prepared corpus, kept on disk, and gradient-boosted trees
over them.

Trees are stored as JSON values. Dimension letters: S seeds, N rows, F features, C classes, K scores
(C, or 1 of two classes), T rounds.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

import numpy as np
from scipy.special import softmax

from mednli_jax.data.arrays import VECTORS_OF_RUN, Prepared
from mednli_jax.data.cache import kept
from mednli_jax.data.corpus import cache_folder
from mednli_jax.data.examples import LABELS, Split
from mednli_jax.data.text import Vocab
from mednli_jax.errors import DataError, config_field
from mednli_jax.nli import features
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encoding import find_mentions
from mednli_jax.rundir import TREES, read_kept, write_kept
from mednli_jax.terminal import Bar
from mednli_jax.training.loop import Interrupted
from mednli_jax.training.session import Fitted, Session

PARTS = ("children_left", "children_right", "feature", "threshold", "value")


def fit(experiment, prepared: Prepared, session: Session) -> Fitted:
    """Fits trees on the features of a prepared corpus. The trees are saved only at the end."""
    session.write_facts(prepared.manifest)
    session.catch_signals()
    rounds, seeds = experiment.model.fields["trees"], experiment.seeds
    matrix = load(experiment.corpus, prepared)
    part = {
        name: slice(rows.first, rows.first + len(rows)) for name, rows in prepared.splits.items()
    }
    with Bar("boosting", rounds * len(seeds), unit="trees") as bar:

        def on_tree():
            bar.advance(1)
            if session.should_stop():
                raise Interrupted

        label = np.asarray(prepared.arrays["label"])
        found, importance, trees = fit_predict(
            matrix, label, part["train"], seeds, trees=rounds, on_tree=on_tree
        )
    experiment.keep_for_prediction(session.directory, prepared)
    terms = features.terms_of(experiment.corpus.splits()["train"], experiment.corpus.encoding)
    write_kept(session.directory, TREES, {"trees": trees, "terms": terms})
    table = importance_table(importance)
    logits = logits_of(found)
    facts = {"parameters": 0, "importance": table}
    return Fitted(facts, lambda split: logits[:, part[split]], lines=importance_lines(table))


class Trees:
    """The trees of a finished run, which stand for the weights of a network."""

    def __init__(self, run):
        kept = read_kept(run.directory, TREES)
        self.trees, self.terms = kept["trees"], kept["terms"]

    def logits(self, corpus: NLICorpus, prepared: Prepared, rows) -> np.ndarray:
        """[S, N, C] of a split."""
        return self._logits(load(corpus, prepared)[rows.first : rows.first + len(rows)])

    def of_new(self, corpus: NLICorpus, examples, vocab: Vocab, vectors: np.ndarray) -> np.ndarray:
        """Logits of new examples, which are read as the corpus."""
        splits = {"new": Split("new", tuple(examples))}
        return self._logits(_matrix(corpus, splits, corpus.linker, vocab, vectors, self.terms))

    def _logits(self, table):
        return logits_of(np.stack([probabilities(one, table, len(LABELS)) for one in self.trees]))


def fit_predict(
    table: np.ndarray,
    label: np.ndarray,
    train: slice | np.ndarray,
    seeds: Sequence[int],
    *,
    trees: int = 300,
    on_tree: Callable[[], None] = lambda: None,
) -> tuple[np.ndarray, np.ndarray, tuple[dict, ...]]:
    """Gradient boosting (Friedman 2001), fitted once per seed on the rows `train`; predicts all
    rows.

    Trees have scikit-learn's defaults. Seeds only settle which of equally good splits is taken.

    Args:
      table: features [N, F].
      label: int [N], -1 = unlabelled, which is not trained on.
      on_tree: called after each round of each seed, by several threads; an error that it raises ends the fit.

    Returns: probabilities [S, N, C]; importance [S, F], each row sums to 1; the trees of each seed,
    see of_model.
    """
    from sklearn.ensemble import GradientBoostingClassifier

    rows = np.arange(len(label))[train]
    rows = rows[np.asarray(label)[rows] >= 0]
    wanted = np.asarray(label)[rows]
    if len(np.unique(wanted)) < 2:
        limit = config_field("data.limit")
        fix = (f"train on a corpus with {', '.join(LABELS)}, or raise ", limit)
        raise DataError("the labelled training pairs hold fewer than two labels", fix=fix)

    def one(seed):
        model = GradientBoostingClassifier(n_estimators=trees, random_state=seed)
        model.fit(table[rows], wanted, monitor=lambda *_: on_tree())
        probabilities = np.zeros((len(table), len(LABELS)))  # 0 for a class that training lacks
        probabilities[:, model.classes_] = model.predict_proba(table)
        return probabilities, model.feature_importances_, of_model(model)

    # Trees are grown outside the interpreter's lock, so that threads serve.
    with ThreadPoolExecutor(min(len(seeds), os.cpu_count() or 1)) as pool:
        probabilities, importance, grown = zip(*pool.map(one, seeds), strict=True)
    return np.stack(probabilities), np.stack(importance), grown


def importance_table(importance: np.ndarray) -> dict:
    """{"features": [{name, group, mean, sd over seeds}], greatest mean first; "groups": {group: sum
    of means}}."""
    mean = importance.mean(axis=0)
    sd = importance.std(axis=0, ddof=1) if len(importance) > 1 else np.zeros(len(mean))
    order = np.argsort(-mean, kind="stable")
    names, group_of = features.NAMES, features.FEATURES
    rows = [
        {"name": names[i], "group": group_of[names[i]], "mean": float(mean[i]), "sd": float(sd[i])}
        for i in order
    ]
    groups = {
        group: sum(row["mean"] for row in rows if row["group"] == group)
        for group in features.GROUPS
    }
    return {"features": rows, "groups": dict(sorted(groups.items(), key=lambda item: -item[1]))}


def importance_lines(table: dict) -> list[str]:
    """The table for the reader."""
    lines = [f"{'feature':24} {'group':10} {'importance':>10} {'sd':>8}"]
    lines += [
        f"{row['name']:24} {row['group']:10} {row['mean']:>10.4f} {row['sd']:>8.4f}"
        for row in table["features"]
    ]
    return [
        *lines,
        "groups: " + ", ".join(f"{name} {share:.4f}" for name, share in table["groups"].items()),
    ]


def load(corpus: NLICorpus, prepared: Prepared) -> np.ndarray:
    """The features [N, 35] of a prepared corpus, rows as in `prepared`; they are computed once and
    kept on disk."""
    key = {
        "prepared": prepared.manifest["sha256"],
        "format": features.FORMAT,
        "versions": {
            name: metadata.version(name) for name in ("scikit-learn", "rapidfuzz", "numpy", "scipy")
        },
    }
    if vectors := prepared.manifest.get(VECTORS_OF_RUN):
        key["vectors"] = vectors
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    path = cache_folder() / "features" / f"{prepared.folder.name.rpartition('-')[0]}-{digest}.npz"

    def build():
        splits = corpus.splits()
        recogniser = corpus.recogniser(splits)
        vocab = Vocab.load(prepared.folder / "vocabulary.json")
        return {"features": _matrix(corpus, splits, recogniser, vocab, prepared.vectors)}

    return kept(path, key, build)["features"]


def _matrix(corpus, splits, linker, vocab, vectors, terms=None) -> np.ndarray:
    encoding = corpus.encoding
    examples = [example for split in splits.values() for example in split.examples]
    mentions = tuple(find_mentions(examples, linker, encoding).visible.values())
    how = {"encoding": encoding, "ontology": corpus.ontology, "terms": terms}
    return features.matrix(splits, vocab=vocab, vectors=vectors, mentions=mentions, **how)


def of_model(model) -> dict:
    """A fitted GradientBoostingClassifier as JSON values. A leaf of a tree has feature -2."""
    return {
        "classes": model.classes_.tolist(),
        "prior": model.init_.class_prior_.tolist(),
        "learning_rate": model.learning_rate,
        "trees": [
            [
                {part: np.ravel(getattr(one.tree_, part)).tolist() for part in PARTS}
                for one in of_round
            ]
            for of_round in model.estimators_
        ],
    }


def probabilities(found: Mapping, table: np.ndarray, classes: int) -> np.ndarray:
    """[N, classes] of features [N, F]; a class that training lacks has 0. found: of `of_model`."""
    prior, rows = np.array(found["prior"]), np.asarray(table, np.float32)
    two = len(prior) == 2
    scores = np.tile(np.log(prior[1:] / prior[:1]) if two else np.log(prior), (len(rows), 1))
    for of_round in found["trees"]:
        for k, tree in enumerate(of_round):
            scores[:, k] += found["learning_rate"] * _values(tree, rows)
    if two:
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    result = np.zeros((len(rows), classes))
    result[:, found["classes"]] = softmax(scores, axis=1)
    return result


def logits_of(probabilities: np.ndarray) -> np.ndarray:
    """Logits of probabilities [S, N, C]; minus infinity for a class that training lacks."""
    lacking_C = ~probabilities.any(axis=(0, 1))  # its probabilities are 0
    return np.where(lacking_C, -np.inf, np.log(np.maximum(probabilities, 1e-12)))


def _values(tree, rows) -> np.ndarray:
    """[N], the value of the leaf that each row falls into."""
    left, right, feature, threshold, value = (np.array(tree[part]) for part in PARTS)
    at, every = np.zeros(len(rows), np.int64), np.arange(len(rows))
    while (inner := feature[at] >= 0).any():
        goes_left = rows[every, np.maximum(feature[at], 0)] <= threshold[at]
        at = np.where(inner, np.where(goes_left, left[at], right[at]), at)
    return value[at]
