"""The feature-based system: features of a prepared corpus, kept on disk, and gradient boosting over them.

Dimension letters: S seeds, N rows of all splits, F features, C classes.
"""

import hashlib
import io
import json
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np

from mednli_jax.data.arrays import SIDES, Prepared
from mednli_jax.data.corpus import cache_folder
from mednli_jax.data.examples import LABELS, Split
from mednli_jax.data.text import Vocab
from mednli_jax.errors import DataError
from mednli_jax.io import Watch, private_folder, unwatched, warn, write_atomic, write_json
from mednli_jax.nli import features
from mednli_jax.nli import trees as trees_as_json
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encoding import find_mentions


@dataclass(frozen=True)
class Boosted:
    """probabilities [S, N, C] in the order of LABELS; importance [S, F], each row sums to 1; trees: of each seed, see
    trees.of_model."""

    probabilities: np.ndarray
    importance: np.ndarray
    trees: tuple[dict, ...]


def fit_predict(
    table: np.ndarray,
    label: np.ndarray,
    train: slice | np.ndarray,
    seeds: Sequence[int],
    *,
    trees: int = 300,
    on_tree: Callable[[], None] | None = None,
) -> Boosted:
    """Gradient boosting (Friedman 2001), fitted once per seed on the rows `train`; predicts all rows.

    Trees have scikit-learn's defaults. Seeds only settle which of equally good splits is taken.

    table: features [N, F]. label: int [N], -1 = unlabelled, which is not trained on. trees: boosting rounds, each one
    tree per class. on_tree: called after each round of each seed, from one thread at a time; what it raises ends the
    fit.

    Raises: DataError where the labelled training rows are of fewer than two classes.
    """
    from sklearn.ensemble import GradientBoostingClassifier  # slow to import, and only this model needs it

    rows = np.arange(len(label))[train]
    rows = rows[np.asarray(label)[rows] >= 0]
    wanted = np.asarray(label)[rows]
    if len(np.unique(wanted)) < 2:
        problem = "the labelled training pairs hold fewer than two labels"
        raise DataError(problem, fix=f"train on a corpus with {', '.join(LABELS)}, or raise --config.data.limit")
    lock = threading.Lock()

    def monitor(*_):
        if on_tree is not None:
            with lock:
                on_tree()
        return False

    def one(seed):
        model = GradientBoostingClassifier(n_estimators=trees, random_state=seed)
        model.fit(table[rows], wanted, monitor=monitor)
        probabilities = np.zeros((len(table), len(LABELS)))  # a class that training lacks is never predicted
        probabilities[:, model.classes_] = model.predict_proba(table)
        return probabilities, model.feature_importances_, trees_as_json.of_model(model)

    # Trees are grown outside the interpreter's lock, so that threads serve.
    with ThreadPoolExecutor(min(len(seeds), os.cpu_count() or 1)) as pool:
        parts = list(pool.map(one, seeds))
    probabilities, importance, grown = zip(*parts, strict=True)
    return Boosted(np.stack(probabilities), np.stack(importance), grown)


def importance_table(importance: np.ndarray) -> dict:
    """Importances [S, F] as JSON values.

    Returns: "features" [{name, group, mean, sd over seeds}], greatest mean first; "groups" {group: sum of means}.
    """
    mean = importance.mean(axis=0)
    sd = importance.std(axis=0, ddof=1) if len(importance) > 1 else np.zeros(len(mean))
    order = np.argsort(-mean, kind="stable")
    names, group_of = features.NAMES, features.FEATURES
    rows = [{"name": names[i], "group": group_of[names[i]], "mean": float(mean[i]), "sd": float(sd[i])} for i in order]
    groups = {group: sum(row["mean"] for row in rows if row["group"] == group) for group in features.GROUPS}
    return {"features": rows, "groups": dict(sorted(groups.items(), key=lambda item: -item[1]))}


def importance_lines(table: dict) -> list[str]:
    """The table for the reader."""
    lines = [f"{'feature':24} {'group':10} {'importance':>10} {'sd':>8}"]
    lines += [f"{row['name']:24} {row['group']:10} {row['mean']:>10.4f} {row['sd']:>8.4f}" for row in table["features"]]
    return [*lines, "groups: " + ", ".join(f"{name} {share:.4f}" for name, share in table["groups"].items())]


def with_features(corpus: NLICorpus, prepared: Prepared) -> Prepared:
    """The corpus with its features as `features` [N, F] float32, standardised by the training rows; a feature that is
    the same on all of them is 0."""
    table, _ = load(corpus, prepared)
    rows = prepared.splits["train"]
    train = table[rows.first : rows.first + len(rows)]
    mean, sd = train.mean(axis=0), train.std(axis=0)
    scaled = np.where(sd > 0, (table - mean) / np.where(sd > 0, sd, 1.0), 0.0)
    return replace(prepared, arrays={**prepared.arrays, "features": scaled.astype(np.float32)})


def load(corpus: NLICorpus, prepared: Prepared) -> tuple[np.ndarray, bool]:
    """The features [N, 35] of a prepared corpus, rows as in `prepared`; and whether they were on disk already.

    Vectors are those of `prepared`, and concepts those of the corpus's ontology within `max_length` tokens.

    Raises: DataError, DataError(s) where the corpus or the ontology cannot be read or nothing can be written.
    """
    key = {
        "prepared": prepared.manifest["sha256"],
        "format": features.FORMAT,
        "versions": {name: metadata.version(name) for name in ("scikit-learn", "rapidfuzz", "numpy", "scipy")},
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    name = f"{prepared.folder.name.rpartition('-')[0]}-{digest}.npy"
    path = private_folder(cache_folder() / "features", ours=True) / name
    kept = _kept(path)
    if kept is not None:
        return kept, True
    table = _computed(corpus, prepared)
    content = io.BytesIO()
    np.save(content, table, allow_pickle=False)
    write_atomic(path, content.getvalue())
    about = {"key": key, "names": list(features.NAMES), "sha256": hashlib.sha256(content.getvalue()).hexdigest()}
    write_json(path.with_suffix(".json"), about)
    return table, False


def terms(corpus: NLICorpus) -> dict:
    """The TF-IDF terms of a corpus's training pairs, see features.terms_of."""
    encoding = corpus.encoding
    return features.terms_of(corpus.splits()["train"], encoding.lowercase, encoding.hypothesis_only)


def of_new(corpus: NLICorpus, examples, linker, vocab: Vocab, vectors: np.ndarray, terms: dict) -> np.ndarray:
    """The features [N, 35] of new examples. corpus: how they are read; terms: those of its training pairs."""
    encoding, found = corpus.encoding, {}
    mentions = tuple([[] for _ in examples] for _ in SIDES)
    if linker is not None:
        mentions = tuple(find_mentions(examples, side, linker, encoding, found, unwatched) for side in SIDES)
    return _matrix(corpus, {"new": Split("new", tuple(examples))}, vocab, vectors, mentions, unwatched, terms)


def _matrix(corpus, splits, vocab, vectors, mentions, watch, terms=None) -> np.ndarray:
    encoding = corpus.encoding
    named = {name: getattr(encoding, name) for name in ("direction", "max_path", "lowercase", "hypothesis_only")}
    how = {**named, "ontology": corpus.ontology, "watch": watch, "terms": terms}
    return features.matrix(splits, vocab=vocab, vectors=vectors, mentions=mentions, **how)[0]


def _kept(path: Path) -> np.ndarray | None:
    """The array, or None if the file is missing or was changed."""
    if not path.is_file():
        return None
    try:
        content = path.read_bytes()
        about = json.loads(path.with_suffix(".json").read_bytes())
        if about["sha256"] == hashlib.sha256(content).hexdigest():
            return np.load(io.BytesIO(content), allow_pickle=False)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    warn(f"{path}: the kept features are damaged; computing them again.")
    return None


def _computed(corpus: NLICorpus, prepared: Prepared) -> np.ndarray:
    splits, encoding = corpus.splits(), corpus.encoding
    recogniser = corpus.recogniser(splits)
    examples = [example for split in splits.values() for example in split.examples]
    with Watch((2 + len(SIDES) * (recogniser is not None)) * len(examples)) as watch:
        found, mentions = {}, tuple([[] for _ in examples] for _ in SIDES)
        if recogniser is not None:
            mentions = tuple(find_mentions(examples, side, recogniser, encoding, found, watch) for side in SIDES)
        vocab = Vocab.load(prepared.folder / "vocabulary.json")
        return _matrix(corpus, splits, vocab, prepared.vectors, mentions, watch)
