"""Transfer: training starts from the weights of a finished run (Romanov & Shivade 2018, section
4.1). Direct transfer, without training, is `Run.on_corpus` of finished.py.

The merge is strict: every weight of the new model is taken from the best epoch of the source, or is
drawn anew because its name matches `skip`. Otherwise the merge is refused, with the names of the
weights that do not fit.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from flax import traverse_util

from mednli_jax.data.arrays import Prepared
from mednli_jax.data.labels import setting_of
from mednli_jax.errors import RunError
from mednli_jax.rundir import RunData
from mednli_jax.types import Json, PyTree

if TYPE_CHECKING:
    from mednli_jax.experiment import Experiment
    from mednli_jax.finished import Run

NAMED = 8  # most weights that an error lists
# Last layers, which each domain has for itself, as in the published code. All layers below them are
# shared: ESIM's up to the pooled vector, InferSent's encoder and first layer, BOW's first block.
PRIVATE = {
    "bow": r"(layer|norm)_[12]|logits",
    "infersent": r"layer_1|logits",
    "esim": r"layer|logits",
}

# Settings that decide the vector of a word: name in the manifest's key -> field of the config.
OF_WORDS = {
    "lowercase": "data.lowercase",
    "unknown": "vectors.unknown",
    "lowered": "vectors.lowered",
}

# {"params/encoder/kernel": array, ...}
flat = partial(traverse_util.flatten_dict, sep="/")


# -- checks of a source ----------------------------------------------------------------------------


def check_source(source: "Run", target: "Experiment", prepared: Prepared) -> None:
    """Raises RunError if a training cannot start from the weights of a finished run.

    prepared: the corpus of the training.
    """
    folder = source.folder
    if source.predictor:
        raise RunError(f"{folder}: has trees and no weights", fix="name the run of a network")
    check_words(source, prepared)
    theirs, ours = source.scorer.labels, target.scorer.labels
    if theirs != ours and not target.transfer.private:
        problem = f"{folder}: has the labels {', '.join(theirs)}, and the corpus {', '.join(ours)}"
        fix = f"give them in this order: config.data.labels={setting_of(theirs)}"
        if set(theirs) != set(ours):
            anew = "draw the last layers anew, config.transfer.private=True"
            fix = f"map them, config.data.labels=LABEL:NAME,..., or {anew}"
        raise RunError(problem, fix=fix)
    if source.experiment.trains_words and not target.trains_words:
        problem = f"{folder}: trained its word vectors, which this config does not take over"
        raise RunError(problem, fix="also give config.model.train_vectors=True")
    seed_rows(source.experiment.seeds, target.seeds)  # refuses seeds that the source lacks


def check_words(source: "Run", prepared: Prepared) -> None:
    """Raises RunError if the words of another corpus do not have the vectors with which a run was
    trained. Other words with vectors of the same file fit."""
    own, corpus = RunData.from_json(source.manifest), RunData.from_json(prepared.manifest)
    trains_words = source.experiment.trains_words
    has_same_words = own.files["vocabulary.json"] == corpus.files["vocabulary.json"]
    has_same_vectors = own.files["vectors.npy"] == corpus.files["vectors.npy"]
    if has_same_words and (trains_words or has_same_vectors):
        return
    other_lookup = []  # fields by which the vector of a word is found
    for name, field in OF_WORDS.items():
        if own.key.get(name) != corpus.key.get(name):
            other_lookup.append(f"config.{field}")
    fields = ", ".join(other_lookup)
    # (whether it is the reason, the problem, the fix), of which the first holds
    reasons = (
        (
            trains_words,
            "trained its word vectors, and the other corpus has other words",
            "train a source whose vectors stay as they are (config.model.train_vectors=False; not"
            " fasttext)",
        ),
        (
            has_same_words or _source_of_vectors(own) != _source_of_vectors(corpus),
            "has other word vectors than this config",
            "give both the same config.vectors",
        ),
        (
            bool(fields),
            f"looks up words in another way ({fields})",
            f"give both the same {fields}",
        ),
        (
            not source.config.vectors.path,
            "has random word vectors, and the other corpus has other words",
            "train the source with config.vectors.path=FILE",
        ),
    )
    for holds, problem, fix in reasons:
        if holds:
            raise RunError(f"{source.folder}: {problem}", fix=fix)


def _source_of_vectors(data: RunData) -> tuple[str, str | None, Json, int]:
    """The facts that decide the vector of a word in any corpus: the content of the files, the
    retrofitting, its lexicon and its rounds."""
    retrofit, lexicon = data.key.get("retrofit"), data.key["retrofit_lexicon"]
    rounds = data.key["retrofit_rounds"] if retrofit or lexicon else 0
    return data.vectors_sha256, retrofit, lexicon, rounds


# -- the merge -------------------------------------------------------------------------------------


def drawn_anew(model: str) -> re.Pattern[str]:
    """A pattern of the model's PRIVATE weights, which are not taken from a source."""
    return re.compile(f"^({PRIVATE[model]})(_|/)")


def seed_rows(source: Sequence[int], target: Sequence[int]) -> np.ndarray:
    """int [S], the row of the source for each target seed: the row of the same seed, or the only
    row."""
    if len(source) == 1:
        return np.zeros(len(target), np.int64)
    missing = [seed for seed in target if seed not in source]
    if missing:
        problem = f"the source run has no seed {_join(missing)}"
        wanted, possible = _join(target), _join(source)
        fix = f"train its seeds {wanted}, or give config.seeds among {possible}"
        raise RunError(problem, fix=fix)
    return np.array(list(map(list(source).index, target)))


def _join(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


class Merged(NamedTuple):
    """The result of `merge`."""

    variables: PyTree
    from_source: list[str]  # names of weights that were taken
    drawn: list[str]  # names of weights that keep their random values


def merge(
    variables: PyTree, source: PyTree, *, rows: np.ndarray, skip: re.Pattern[str] | None = None
) -> Merged:
    """Takes the source's weights. Weights that only the source has are ignored, such as those of a
    replaced head.

    Args:
      variables: {"params", "batch_stats"} of the new model, leaves [S, ...].
      source: {"params", "batch_stats"} of the best epoch of the source.
      rows: [S], the source's row for each seed of the new model.
      skip: pattern of names (without the collection) that keep their random values; None takes
        every weight.
    """
    merged, of_source = flat(variables), flat(source)
    from_source, drawn, misfits = [], [], []
    for name, leaf in merged.items():
        if skip is not None and skip.search(name.partition("/")[2]):
            drawn.append(name)
        elif name not in of_source:
            misfits.append(f"{name} (not in the source)")
        elif of_source[name].shape[1:] != leaf.shape[1:]:
            shapes = f"{_shape(of_source[name])} in the source, {_shape(leaf)} here"
            misfits.append(f"{name} ({shapes})")
        else:
            from_source.append(name)
            merged[name] = np.asarray(of_source[name])[rows].astype(leaf.dtype)
    if misfits:
        names = "; ".join(misfits[:NAMED])
        if len(misfits) > NAMED:
            names += f"; and {len(misfits) - NAMED} more"
        problem = f"{len(misfits)} of {len(merged)} weights do not fit the source run: {names}"
        raise RunError(problem, fix="give the source's config.model")
    nested = traverse_util.unflatten_dict(merged, sep="/")
    return Merged(nested, sorted(from_source), sorted(drawn))


def _shape(leaf: np.ndarray) -> str:
    """The shape of a weight without the seed axis, e.g. 300x600."""
    return "x".join(map(str, leaf.shape[1:])) or "one number"
