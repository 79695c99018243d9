"""A finished run, ready to score a split or new pairs, with what it kept for itself: neither corpus nor cache."""

import hashlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from ml_collections import config_dict

from mednli_jax import defaults
from mednli_jax.errors import UserError
from mednli_jax.files import write_atomic
from mednli_jax.inputs import text_pairs
from mednli_jax.pairs import PairPredictor
from mednli_jax.passages import PassagePredictor, keep_types
from mednli_jax.runs import RunDirectory, read_json
from mednli_jax.scoring import DIRECT, OnCorpus
from mednli_jax.tasks import table as tasks
from mednli_jax.text import TOKENISERS, UNK
from mednli_jax.training.checkpoint import Checkpoints

RESULT_FIELDS = ("corpus", "model", "notes", "seeds")
NEURAL_FIELDS = ("best_epoch", "width")
_FILES = ("files.vectors.npy", "files.vocabulary.json")
DATA_FIELDS = {"nli": (*_FILES, "knowledge.longest_path", "tokeniser"), "cloze": (*_FILES, "candidates.types_of_train")}
PREDICTORS = {"nli": PairPredictor, "cloze": PassagePredictor}


def restored_config(values: dict) -> config_dict.ConfigDict:
    """A run's config.json as the config it was: sequences are tuples again."""

    def tuples(value):
        if isinstance(value, dict):
            return {key: tuples(item) for key, item in value.items()}
        return tuple(value) if isinstance(value, list) else value

    return config_dict.ConfigDict(tuples(values))


def _check_fields(path: Path, values, needed) -> None:
    """Raises UserError where a run's file lacks a field that this version reads; what it was is not guessed."""
    if missing := sorted(set(needed) - set(_fields(values))):
        names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise UserError(
            f"E-RUN-014 {path}: lacks {names}, which this version reads: another version wrote the run. "
            "Fix: train again with this version."
        )


def _fields(tree, prefix="") -> list[str]:
    """Dotted names of the leaves of nested dicts."""
    if not isinstance(tree, dict):
        return [prefix]
    return [name for key, item in tree.items() for name in _fields(item, f"{prefix}.{key}" if prefix else key)]


def _saved_config(directory: RunDirectory) -> config_dict.ConfigDict:
    """The config of a run of this version. Raises UserError where a field is missing."""
    path, values = directory.folder / "config.json", directory.config
    _check_fields(path, values, ["model.name", "task"])
    parent = {"nli": defaults.nli, "cloze": defaults.cloze}[values["task"]]
    _check_fields(path, values, _fields(parent(values["model"]["name"]).to_dict()))
    return restored_config(values)


def _finished(directory: RunDirectory) -> dict:
    """The result of a run that is complete; the checkpoints of any other may be changing while they are read."""
    result = directory.result()
    if result["status"] != "complete":
        if directory.in_training():
            problem, fix = "the run is in training", "wait until it is finished"
        else:
            problem = f"the run is not finished (status {result['status']})"
            fix = f"go on with it: train with its flags, --workdir={directory.folder} and --resume"
        raise UserError(f"E-RUN-011 {directory.folder}: {problem}. Fix: {fix}.")
    _check_fields(directory.folder / "result.json", result, RESULT_FIELDS)
    return result


class TrainedRun:
    """A finished run, ready to score a split or new pairs. Open it with `load_run`."""

    def __init__(self, directory: RunDirectory):
        self.directory = directory
        self.result = _finished(directory)
        kept = "trees" if self.result["model"] == "features" else "weights"
        if kept == "trees" or self.result.get("transfer", {}).get("mode") == DIRECT:
            raise UserError(
                f"E-RUN-020 {directory.folder}: a run of {'features' if kept == 'trees' else 'direct transfer'} keeps "
                f"no {kept}. Fix: its scores are in result.json, `python -m mednli_jax.report` shows them."
            )
        if self.result.get("task") == "diskne":
            raise UserError(
                f"E-RUN-020 {directory.folder}: a run of folds keeps no weights. Fix: its scores are in result.json, "
                "`python -m mednli_jax.report` shows them."
            )
        _check_fields(directory.folder / "result.json", self.result, NEURAL_FIELDS)
        self.config = _saved_config(directory)
        self.manifest = read_json(directory.folder / "data.json")
        self.task = tasks.of(self.config)
        _check_fields(directory.folder / "data.json", self.manifest, DATA_FIELDS[self.task.name])
        if (tokeniser := self.manifest.get("tokeniser")) and tokeniser not in TOKENISERS:
            raise UserError(
                f"E-RUN-014 {directory.folder / 'data.json'}: names a tokeniser that this version lacks: another "
                "version wrote the run. Fix: train again with this version."
            )
        self.vocabulary = self.task.vocabulary(self.config, self._own("vocabulary.json"))
        self.vectors = np.load(self._own("vectors.npy"), allow_pickle=False)
        self.variables = self._best()

    def _own(self, name):
        """A file the run keeps for itself, checked against its manifest."""
        path = self.directory.private / name
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise UserError(
                f"E-RUN-010 {path}: cannot be read ({error.strerror}). Fix: restore the run directory."
            ) from None
        if digest != self.manifest["files"][name]:
            raise UserError(f"E-RUN-010 {path}: differs from what the run wrote. Fix: restore the run directory.")
        return path

    def _best(self):
        loaded = Checkpoints(self.directory.checkpoints).load()
        best = loaded[0]["best"] if loaded else None
        if best is None or best["epoch"].tolist() != self.result["best_epoch"]:
            raise UserError(
                f"E-RUN-008 {self.directory.checkpoints}: what is left undamaged is not the finished run. "
                "Fix: restore the run directory, or train again with --force."
            )
        return {"params": best["params"], "batch_stats": best.get("batch_stats", {})}

    def scores(self, split: str) -> tuple[dict, np.ndarray]:
        """(scores, logits [S, N, C]) of a split of the corpus the run was trained on.

        Raises: UserError for an unknown split, or where the corpus is no longer what it was.
        """
        return self.own().scores(split)

    def own(self) -> OnCorpus:
        """The run on the corpus it was trained on. Raises: UserError where that is no longer what it was."""
        prepared, _ = self.task.load(self.config)
        self.directory.check_data(prepared.manifest)
        return OnCorpus(self, self.config, prepared)

    def outputs(self) -> dict[str, np.ndarray]:
        """uid -> logits [S * C] of all pairs of the corpus that the run was trained on. Raises: as `own`."""
        own, found = self.own(), {}
        for split, rows in own.prepared.splits.items():
            logits_NSC = np.swapaxes(own.scores(split)[1], 0, 1)
            found |= dict(zip(rows.uids, logits_NSC.reshape(len(rows), -1), strict=True))
        return found

    def on(self, data, split: str = "") -> OnCorpus:
        """The run on another corpus, of which `data` is the config section: direct transfer (Romanov & Shivade 2018,
        section 4.1). The corpus is prepared with the run's vectors, so that words the run has not seen have theirs; one
        without a vector is the run's unknown word. split: all that will be asked for; the other files may be missing.

        Raises: UserError where the two corpora do not share word vectors, or the ontology is another one by now.
        """
        config = restored_config(self.config.to_dict())
        config.data = data.copy_and_resolve_references()
        config.data.features = self.config.data.features  # which the models take or do not; scaled as on that corpus
        prepared, _ = self.task.load(config, split)
        self.check_words(prepared)
        here, there = (manifest["knowledge"].get("sha256") for manifest in (self.manifest, prepared.manifest))
        if here != there:
            raise UserError(
                f"E-RUN-012 the ontology '{config.knowledge.ontology}' changed since the run was trained. "
                "Fix: restore it, or train again."
            )
        vectors = np.array(prepared.vectors)
        vectors[UNK] = self.vectors[UNK]  # which is the mean of a corpus's vectors
        return OnCorpus(self, config, replace(prepared, vectors=vectors))

    @property
    def model_facts(self) -> dict:
        return self.task.model_facts(self.manifest)

    def check_words(self, prepared) -> None:
        """Refuses a corpus whose words do not have the vectors that the run's weights know. Raises UserError."""
        own, other = self.manifest, prepared.manifest
        trained = trains_words(self.config)
        same = {name: own["files"][name] == other["files"][name] for name in ("vocabulary.json", "vectors.npy")}
        if same["vocabulary.json"] and (trained or same["vectors.npy"]):
            return
        if trained:
            problem = "trained its word vectors, and the other corpus has other words"
            fix = "train a source whose vectors stay as they are (--config.model.train_vectors=False; not fasttext)"
        elif same["vocabulary.json"] or _vectors_of(own) != _vectors_of(other):
            problem, fix = "has other word vectors than this config", "give both the same --config.vectors"
        elif not self.config.vectors.path:
            problem = "has random word vectors, which say nothing of words that it has not seen"
            fix = "train the source with --config.vectors.path=FILE"
        else:
            return
        raise UserError(f"E-RUN-019 {self.directory.folder}: {problem}. Fix: {fix}.")

    def predict(self, given) -> list[dict]:
        """What the run says of new texts, in their order; `unknown_words` afterwards: tokens without vectors, by side.

        given: a list of (premise, hypothesis), of a cloze run (passage, query): tuples or lists of two strings, or
        dicts {"premise": ..., "hypothesis": ...}, {"sentence1": ..., "sentence2": ...}, {"passage": ..., "query": ...}.
        Returns: see pairs.PairPredictor and passages.PassagePredictor.
        Raises: UserError for any other item, with its index; see inputs.text_pairs.
        """
        return self._predictor.predict(text_pairs(given, self.task.name))

    def attention(self, given) -> list[dict]:
        """What the tokens of new texts attend to; given: as in `predict`. Raises UserError as `predict`, and
        where the model aligns nothing."""
        return self._predictor.attention(text_pairs(given, self.task.name))

    @property
    def unknown_words(self) -> dict[str, int]:
        return self._predictor.unknown_words

    @cached_property
    def _predictor(self):
        return PREDICTORS[self.task.name](self)


def _vectors_of(manifest: dict) -> tuple:
    """What makes a word's vector, whatever the corpus: the files' content, and how they were retrofitted."""
    key = manifest["key"]
    retrofitted = (key.get("retrofit"), key["retrofit_lexicon"])
    return (manifest["vocabulary"]["sha256"], retrofitted, key["retrofit_rounds"] if any(retrofitted) else 0)


def trains_words(config) -> bool:
    """Whether a config's models have word vectors, or pieces, of their own."""
    return config.data.tokens == "pieces" if "train_vectors" not in config.model else config.model.train_vectors


def load_run(folder) -> TrainedRun:
    """Opens a finished run. Raises UserError where the folder is none, or is damaged."""
    return TrainedRun(RunDirectory.existing(Path(folder).expanduser()))


def keep_for_prediction(directory: RunDirectory, prepared) -> None:
    """Copies into the run what prediction needs, so that it works without the corpus and the cache."""
    for name in ("vocabulary.json", "vectors.npy"):
        write_atomic(directory.private / name, (prepared.folder / name).read_bytes())
    if directory.config["model"]["name"] == "sa_reader":
        keep_types(directory, prepared)
