"""The feature-based system: features of a prepared corpus, cached on disk, and gradient-boosted
trees over them.

Dimension letters: S seeds, N rows, F features, C classes, K scores of a row (C, but
a single one for two classes).
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import softmax

from mednli_jax.data.arrays import NEW, VECTORS_OF_RUN, Prepared, Rows
from mednli_jax.data.cache import cached_arrays, key_digest
from mednli_jax.data.corpus import cache_folder
from mednli_jax.data.examples import NLIExample, Split
from mednli_jax.data.text import Vocab
from mednli_jax.errors import DataError
from mednli_jax.files.writing import write_sealed
from mednli_jax.nli import features
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encode.links import ConceptSource, find_mentions
from mednli_jax.nli.encode.texts import examples_of
from mednli_jax.rundir import TREES, read_saved
from mednli_jax.terminal import Bar
from mednli_jax.training.loop import Interrupted
from mednli_jax.training.session import Fitted, Session
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from sklearn.ensemble import GradientBoostingClassifier

    from mednli_jax.experiment import Experiment
    from mednli_jax.finished import Run

# The trees of one seed as JSON values: the classes that training has, their shares, the learning
# rate, and for each round K trees, which have the arrays TREE_ARRAYS over their nodes.
Forest = JsonObject

TREE_ARRAYS = ("children_left", "children_right", "feature", "threshold", "value")
LIBRARIES = ("scikit-learn", "rapidfuzz", "numpy", "scipy")  # their versions shape the features


def fit(experiment: "Experiment", prepared: Prepared, session: Session) -> Fitted:
    """Fits trees on the features of a prepared corpus. The trees are saved only at the end."""
    directory = session.directory
    assert directory is not None  # trees are fitted by one process, the one that writes
    session.write_facts(prepared.manifest)
    session.catch_signals()
    rounds, seeds = experiment.model.fields["trees"], experiment.seeds
    corpus = experiment.pairs
    table = features_of(corpus, prepared)
    with Bar("boosting", rounds * len(seeds), noun="trees") as bar:

        def on_tree() -> None:
            bar.advance(1)
            if session.should_stop():
                raise Interrupted

        boosted = fit_predict(
            table,
            np.asarray(prepared.arrays["label"]),
            prepared.splits["train"].place,
            seeds,
            classes=len(experiment.scorer.labels),
            trees=rounds,
            on_tree=on_tree,
        )
    experiment.save_for_prediction(directory, prepared)
    terms = features.terms_of(corpus.splits()["train"], corpus.encoding)
    content = {"trees": boosted.forests, "terms": terms._asdict()}
    write_sealed(directory.private / TREES, content)
    logits = logits_of(boosted.probabilities)
    return Fitted({"parameters": 0}, lambda split: logits[:, prepared.splits[split].place])


class Trees:
    """The trees of a finished run, which stand for the weights of a network."""

    def __init__(self, run: "Run") -> None:
        self.run, self.corpus = run, run.experiment.pairs
        content = read_saved(run.directory, TREES)
        self.classes = len(run.scorer.labels)
        self.forests: list[Forest] = content["trees"]
        self.terms = features.Terms(**content["terms"])

    def logits(self, prepared: Prepared, rows: Rows) -> np.ndarray:
        """Logits [S, N, C] of a split."""
        return self._logits(features_of(self.corpus, prepared)[rows.place])

    def logits_of_new(self, split: Split[NLIExample]) -> np.ndarray:
        """Logits of new examples, which are encoded as the corpus is."""
        run, corpus = self.run, self.corpus
        vocab = run.vocabulary
        assert isinstance(vocab, Vocab)  # features are of words
        table = _table(corpus, {NEW: split}, corpus.linker, vocab, run.vectors, self.terms)
        return self._logits(table)

    def _logits(self, table: np.ndarray) -> np.ndarray:
        of_seeds = [predict_proba(forest, table, self.classes) for forest in self.forests]
        return logits_of(np.stack(of_seeds))


class Boosted(NamedTuple):
    """The result of `fit_predict`. probabilities: [S, N, C]. forests: of each seed."""

    probabilities: np.ndarray
    forests: Sequence[Forest]


def fit_predict(
    table: np.ndarray,
    label: np.ndarray,
    train: slice | np.ndarray,
    seeds: Sequence[int],
    *,
    classes: int = 3,
    trees: int = 300,
    on_tree: Callable[[], None] = lambda: None,
) -> Boosted:
    """Fits gradient boosting (Friedman 2001) once per seed on the rows `train`, and predicts all
    rows.

    Trees have scikit-learn's defaults. Seeds only settle which of equally good splits is taken.

    Args:
      table: features [N, F].
      label: int [N], -1 = unlabelled, which is not trained on.
      classes: C.
      on_tree: called after each round of each seed, by several threads; an error that it raises
        ends the fit.
    """
    from sklearn.ensemble import GradientBoostingClassifier

    rows = np.arange(len(label))[train]
    rows = rows[label[rows] >= 0]
    if len(np.unique(label[rows])) < 2:
        fix = "train on a corpus with two labels or more, or raise config.data.limit"
        raise DataError("the labelled training pairs hold fewer than two labels", fix=fix)

    def fit_seed(seed: int) -> tuple[np.ndarray, Forest]:
        model = GradientBoostingClassifier(n_estimators=trees, random_state=seed)
        model.fit(table[rows], label[rows], monitor=lambda *_: on_tree())
        p_NC = np.zeros((len(table), classes))  # 0 for a class that training lacks
        p_NC[:, model.classes_] = model.predict_proba(table)
        return p_NC, forest_of(model)

    # Trees are grown outside the interpreter's lock, so that threads serve.
    with ThreadPoolExecutor(min(len(seeds), os.cpu_count() or 1)) as pool:
        probabilities, forests = zip(*pool.map(fit_seed, seeds), strict=True)
    return Boosted(np.stack(probabilities), forests)


def features_of(corpus: NLICorpus, prepared: Prepared) -> np.ndarray:
    """The features [N, 35] of a prepared corpus, rows as in `prepared`. They are computed once and
    cached on disk."""
    folder = prepared.folder
    assert folder is not None  # new pairs have no features on disk
    key = {
        "prepared": prepared.manifest["sha256"],
        "format": features.FORMAT,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
    }
    if vectors := prepared.manifest.get(VECTORS_OF_RUN):
        key["vectors"] = vectors
    corpus_name = folder.name.rpartition("-")[0]  # the prepared folder is called NAME-DIGEST
    name = f"{corpus_name}-{key_digest(key)}.npz"

    def build() -> dict[str, np.ndarray]:
        splits = corpus.splits()
        source = corpus.concept_source(splits)
        vocab = Vocab.load(folder / "vocabulary.json")
        return {"features": _table(corpus, splits, source, vocab, prepared.vectors)}

    return cached_arrays(cache_folder() / "features" / name, key, build)["features"]


def _table(
    corpus: NLICorpus,
    splits: dict[str, Split[NLIExample]],
    source: ConceptSource | None,
    vocab: Vocab,
    vectors: np.ndarray,
    terms: features.Terms | None = None,
) -> np.ndarray:
    mentions = find_mentions(examples_of(splits), source, corpus.encoding).visible
    return features.matrix(
        splits,
        encoding=corpus.encoding,
        vocab=vocab,
        vectors=vectors,
        mentions=(mentions["premise"], mentions["hypothesis"]),
        ontology=corpus.ontology,
        terms=terms,
    )


# ---- trees as JSON values ----


def forest_of(model: "GradientBoostingClassifier") -> Forest:
    """Converts a fitted classifier to JSON values. A leaf of a tree has feature -2."""
    rounds = []
    for estimators in model.estimators_:
        trees = [estimator.tree_ for estimator in estimators]
        rounds.append(list(map(_tree_arrays, trees)))
    return {
        "classes": model.classes_.tolist(),
        "prior": model.init_.class_prior_.tolist(),
        "learning_rate": model.learning_rate,
        "trees": rounds,
    }


def _tree_arrays(tree: object) -> dict[str, list[float]]:
    return {name: np.ravel(getattr(tree, name)).tolist() for name in TREE_ARRAYS}


def predict_proba(forest: Forest, table: np.ndarray, classes: int) -> np.ndarray:
    """The probabilities [N, classes] of rows of features [N, F], as scikit-learn computes them; a
    class that training lacks has 0."""
    prior, rows = np.array(forest["prior"]), np.asarray(table, np.float32)
    # Scores start at the logarithms of the classes' shares. Of two classes, the only score is the
    # log-odds of the second, and the first has score 0.
    binary = len(prior) == 2
    first_K = np.log(prior[1:] / prior[:1]) if binary else np.log(prior)
    scores_NK = np.tile(first_K, (len(rows), 1))
    for trees in forest["trees"]:
        for k, tree in enumerate(trees):
            scores_NK[:, k] += forest["learning_rate"] * _values(tree, rows)
    if binary:
        scores_NK = np.concatenate([np.zeros_like(scores_NK), scores_NK], axis=1)
    result = np.zeros((len(rows), classes))
    result[:, forest["classes"]] = softmax(scores_NK, axis=1)
    return result


def _values(tree: dict[str, list[float]], rows: np.ndarray) -> np.ndarray:
    """The value [N] of the leaf that each row falls into."""
    left, right, feature, threshold, value = (np.array(tree[name]) for name in TREE_ARRAYS)
    node_N, row_N = np.zeros(len(rows), np.int64), np.arange(len(rows))
    while True:
        is_inner_N = feature[node_N] >= 0
        if not is_inner_N.any():
            return value[node_N]
        goes_left_N = rows[row_N, np.maximum(feature[node_N], 0)] <= threshold[node_N]
        child_N = np.where(goes_left_N, left[node_N], right[node_N])
        node_N = np.where(is_inner_N, child_N, node_N)


def logits_of(probabilities: np.ndarray) -> np.ndarray:
    """The logits of probabilities [S, N, C]; minus infinity for a class that training lacks."""
    lacking_C = ~probabilities.any(axis=(0, 1))  # its probabilities are 0
    return np.where(lacking_C, -np.inf, np.log(np.maximum(probabilities, 1e-12)))
