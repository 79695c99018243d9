"""A finished run, ready to score a split or new pairs, with what it kept for itself: neither corpus nor cache."""

import hashlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import jax
import numpy as np
from ml_collections import config_dict

from mednli_jax import defaults, experiment
from mednli_jax.data import batching
from mednli_jax.data.encode import SIDES
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS
from mednli_jax.models.layers import ATTENTION
from mednli_jax.runs import RunDirectory, read_json, write_atomic
from mednli_jax.scoring import DIRECT, OnCorpus
from mednli_jax.tasks import nli
from mednli_jax.text import UNK, Vocab
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices

COARSE = 16  # tokens: a few new pairs are padded to a multiple
RESULT_FIELDS = ("corpus", "model", "notes", "seeds")
NEURAL_FIELDS = ("best_epoch", "width")
DATA_FIELDS = ("files.vectors.npy", "files.vocabulary.json", "knowledge.longest_path")
MANY = 2048  # new pairs from which programs of their own pay


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
    _check_fields(path, values, ["model.name"])
    _check_fields(path, values, _fields(defaults.nli(values["model"]["name"]).to_dict()))
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
        _check_fields(directory.folder / "result.json", self.result, NEURAL_FIELDS)
        self.config = _saved_config(directory)
        self.manifest = read_json(directory.folder / "data.json")
        _check_fields(directory.folder / "data.json", self.manifest, DATA_FIELDS)
        self.task = nli.NLITask()
        self.vocabulary = Vocab.load(self._own("vocabulary.json"))
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

    def on(self, data) -> OnCorpus:
        """The run on another corpus, of which `data` is the config section: direct transfer (Romanov & Shivade 2018,
        section 4.1). The corpus is prepared with the run's vectors, so that words the run has not seen have theirs; one
        without a vector is the run's unknown word.

        Raises: UserError where the two corpora do not share word vectors, or the ontology is another one by now.
        """
        config = restored_config(self.config.to_dict())
        config.data = data.copy_and_resolve_references()
        config.data.features = self.config.data.features  # which the models take or do not; scaled as on that corpus
        prepared, _ = self.task.load(config)
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
    def longest_path(self) -> int:
        return self.manifest["knowledge"]["longest_path"]

    def check_words(self, prepared) -> None:
        """Refuses a corpus whose words do not have the vectors that the run's weights know. Raises UserError."""
        own, other = self.manifest, prepared.manifest
        trained = self.config.model.train_vectors
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

    def predict(self, pairs) -> list[dict[str, float]]:
        """Class probabilities of (premise, hypothesis) string pairs, in their order: [{"entailment": .7, ...}, ...].

        The mean over the run's seeds. `unknown_words` afterwards holds the tokens without a vector, per side.
        """
        examples = [self.task.example(str(i), *pair) for i, pair in enumerate(pairs)]
        if not examples:
            self.unknown_words = dict.fromkeys(SIDES, 0)
            return []
        arrays, self.unknown_words = self._encoder(examples)
        bodies = self._bodies
        batches, data = self._batches(arrays)
        bodies.data = bodies.devices.replicate(data)
        logits = bodies.logits(self.variables, batches)
        bodies.data = {}  # the programs are kept, not the pairs
        if len(examples) > MANY:  # programs fitted to these pairs fit no others
            bodies.forget()
        mean_NC = nli.probabilities(logits).mean(axis=0)
        return [dict(zip(LABELS, map(float, row), strict=True)) for row in mean_NC]

    def attention(self, pairs) -> list[dict]:
        """What the tokens of (premise, hypothesis) string pairs attend to, for each seed of the run.

        Returns for each pair {"premise", "hypothesis": its tokens, "maps": {name: {"premise": [S, P, H], "hypothesis":
        [S, H, P]}}}; each row of a map sums to 1. Names: "tokens" (ESIM's soft alignment), "links" (by the ontology
        alone). Raises UserError where the model aligns nothing.
        """
        examples = [self.task.example(str(i), *pair) for i, pair in enumerate(pairs)]
        if not examples:
            return []
        arrays, self.unknown_words = self._encoder(examples)
        layout = batching.Layout.full(1, tuple(arrays[side].shape[1] for side in SIDES))
        frozen, model = nli.frozen(self.vectors), self._bodies.model

        def of_seed(variables, frozen, data, index):
            batch = self.task.to_batch(data, index, layout)
            made = model.apply({**variables, "frozen": frozen}, batch, train=False, mutable=[ATTENTION])[1]
            return made.get(ATTENTION, {})

        body = jax.jit(jax.vmap(of_seed, in_axes=(0, None, None, None)))
        found = []
        for number, example in enumerate(examples):
            kept = jax.tree.map(np.asarray, body(self.variables, frozen, arrays, np.array([[number]])))
            if not kept:
                name = self.config.model.name
                raise UserError(
                    f"E-USE-014 the model '{name}' of this run aligns nothing. Fix: give a run of esim, or one with "
                    "config.model.knowledge."
                )
            p, h = (int(arrays[f"{side}_length"][number]) for side in SIDES)
            maps = {name: (sown[0][0][:, 0, :p, :h], sown[0][1][:, 0, :h, :p]) for name, sown in kept.items()}
            sides = {side: self._encoder.tokens(example, side) for side in SIDES}
            found.append({**sides, "maps": {name: dict(zip(SIDES, both, strict=True)) for name, both in maps.items()}})
        return found

    @cached_property
    def _encoder(self):
        return nli.Encoder(self.config, self.vocabulary, self.manifest["knowledge"].get("sha256", ""))

    @cached_property
    def _bodies(self):
        devices = Devices()
        frozen = devices.replicate(nli.frozen(self.vectors))
        return experiment.bare_program(self.config, frozen, self.longest_path, devices)

    def _batches(self, arrays):
        """Batches of new pairs and their arrays, in shapes so coarse that the next few pairs fit them as well."""
        sizes = {name: _power_of_two(arrays[name].shape[1]) for name in nli.LINK_FIELDS if name in arrays}
        sizes |= {side: -(-arrays[side].shape[1] // COARSE) * COARSE for side in SIDES}
        if self.config.model.masking == "paper":  # its logits depend on the padded length: the training's is used
            trained = zip(SIDES, self.result["width"], strict=True)
            sizes |= {side: max(arrays[side].shape[1], own) for side, own in trained}
        length = tuple(arrays[f"{side}_length"] for side in SIDES)
        count = len(length[0])
        rows = _power_of_two(count, least=8)
        data = _widened(arrays, sizes, rows)
        width = tuple(sizes[side] for side in SIDES)
        few = {"batch_size": min(rows, experiment.PREDICT_ROWS), "coarse": True}
        many = {
            "batch_size": experiment.PREDICT_ROWS,
            "groups": batching.groups_of(arrays["premise"], experiment.PREDICT_GROUP),
        }
        fixed = self.config.model.masking == "paper"
        how = {"width": width, "shares": self._bodies.devices.count, "fixed": fixed}
        return batching.Batches(*length, **how, **(few if count <= MANY else many)), data


def _widened(arrays, sizes, rows):
    """The arrays [N, T] with room for more: T as in `sizes` by name, N = rows; what is added is empty."""
    result = {}
    for name, array in arrays.items():
        lacking = [(0, rows - len(array))]
        lacking += [(0, sizes[name] - array.shape[1])] if array.ndim == 2 else []
        result[name] = np.pad(array, lacking, constant_values=-1 if name == "link_distance" else 0)
    return result


def _power_of_two(number, least=1):
    return max(least, 1 << max(number - 1, 0).bit_length())


def _vectors_of(manifest: dict) -> tuple:
    """What makes a word's vector, whatever the corpus: the files' content, and how they were retrofitted."""
    key = manifest["key"]
    retrofitted = (key.get("retrofit"), key["retrofit_lexicon"])
    return (manifest["vocabulary"]["sha256"], retrofitted, key["retrofit_rounds"] if any(retrofitted) else 0)


def load_run(folder) -> TrainedRun:
    """Opens a finished run. Raises UserError where the folder is none, or is damaged."""
    return TrainedRun(RunDirectory.existing(Path(folder).expanduser()))


def keep_for_prediction(directory: RunDirectory, prepared) -> None:
    """Copies into the run what prediction needs, so that it works without the corpus and the cache."""
    for name in ("vocabulary.json", "vectors.npy"):
        write_atomic(directory.private / name, (prepared.folder / name).read_bytes())
