"""A finished run on disk: scores of a split of its corpus or of another one, and predictions on new inputs."""

import contextlib
import copy
import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import jax
import numpy as np
from ml_collections import config_dict

from mednli_jax import defaults, experiment
from mednli_jax.data import batching, partitions
from mednli_jax.data.arrays import NEW, PLURAL, Prepared, roomy
from mednli_jax.data.cache import CONCEPTS
from mednli_jax.data.examples import LABELS, Split
from mednli_jax.data.text import UNK
from mednli_jax.errors import RunError, UsageError
from mednli_jax.inputs import text_pairs
from mednli_jax.io import sha256, write_json
from mednli_jax.models.layers import ATTENTION
from mednli_jax.nli import boosting, entities
from mednli_jax.nli.corpus import BLANKS, NLICorpus, between_blanks
from mednli_jax.nli.readers import read_nli_file
from mednli_jax.report.runs import TREES, TYPES, RunDirectory, environment, read_json, read_kept
from mednli_jax.training import transfer
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices

DIRECT = "direct"  # mode of transfer: evaluation on another corpus without training on it
NAMING = ("name", "genre", "builder", "limit")  # fields of `data` that name a corpus, besides its folder
# Settings that decide the vector of a word: name in the manifest's key -> flag.
OF_WORDS = {
    "lowercase": "--config.data.lowercase",
    "unknown": "--config.vectors.unknown",
    "lowered": "--config.vectors.lowered",
}


def load_run(folder) -> "FinishedRun":
    """Opens a finished run. Raises UserError where the folder holds none, or a damaged one."""
    return FinishedRun(RunDirectory.existing(Path(folder).expanduser()))


class FinishedRun:
    """A finished run, ready to score a split or new inputs. Open it with `load_run`.

    Attributes:
      config, experiment: of the run; of a run on another corpus (`on`) with that corpus.
      result: the content of its result.json.
      manifest: the content of its data.json.
      vocabulary: of V words.
      vectors: float32 [V, D].
      variables: of the best epoch of each of S seeds, leaves [S, ...]; None for model `features`.
      trees: the content of trees.json of model `features`, else None.
      merged_by: the source of the entities whose tokens are merged, "" where none are merged.
      unknown_words: the number of tokens without a vector on each side of the last new inputs.
      truncated: the number of texts of the last new inputs that were cut to the model's length.
    """

    def __init__(self, directory: RunDirectory):
        self.directory, self.merged_by, self._scored = directory, "", {}
        self.result = directory.result()
        if self.result["status"] != "complete":  # the checkpoints may change while they are read
            raise directory.unfinished(self.result["status"])
        if reason := _keeps_no_weights(self.result):
            fix = "its scores are in result.json, `python -m mednli_jax.report` shows them"
            raise RunError(f"{directory.folder}: a run of {reason} keeps no weights. Fix: {fix}.")
        self.config = _saved_config(directory)
        self.manifest = read_json(directory.folder / "data.json")
        self.experiment = experiment.of(self.config)
        self.task = self.experiment.task
        self.unknown_words, self.truncated = dict.fromkeys(self.task.sides, 0), {}
        self.vocabulary = self.experiment.corpus.read_vocabulary(self._kept_file("vocabulary.json"))
        self.vectors = np.load(self._kept_file("vectors.npy"), allow_pickle=False)
        self.trees = read_kept(directory, TREES) if self.result["model"] == "features" else None
        self.variables = None if self.trees else self._best()

    def _kept_file(self, name):
        """The path of a file in private/, checked against the manifest."""
        path = self.directory.private / name
        try:
            if sha256(path) == self.manifest["files"][name]:
                return path
        except OSError:
            pass
        raise RunError(f"{path}: is missing or differs from what the run wrote. Fix: restore the run directory.")

    def _best(self):
        loaded = Checkpoints(self.directory.checkpoints).load()
        best = loaded[0]["best"] if loaded else None
        if best is None or best["epoch"].tolist() != self.result["best_epoch"]:
            problem = f"{self.directory.checkpoints}: what is left undamaged is not the finished run"
            raise RunError(f"{problem}. Fix: restore the run directory, or train again with --force.")
        return {"params": best["params"], "batch_stats": best.get("batch_stats", {})}

    # -- scores -------------------------------------------------------------------------------------------------------

    @cached_property
    def prepared(self) -> Prepared:
        """The corpus that is scored: the run's own. Raises: UserError where it has changed."""
        prepared, _ = self.experiment.prepare()
        self.directory.check_data(prepared.manifest)
        return prepared

    def scores(self, split: str) -> tuple[dict, np.ndarray]:
        """(scores, logits [S, N, C]) of a split, kept for a second call.

        Raises: UserError for an unknown split, or where the corpus has changed.
        """
        if split not in self.prepared.splits:
            known = ", ".join(self.prepared.splits)
            raise UsageError(f"--split={split}: the corpus has no such split. Fix: give one of {known}.")
        if split not in self._scored:
            logits = self._logits(split)
            self._scored[split] = self.task.score(self.prepared.splits[split], logits), logits
        return self._scored[split]

    def _logits(self, split):
        if self.trees:
            table = boosting.load(self.experiment.corpus, self.prepared)
            rows = self.prepared.splits[split]
            return self._of_trees(table[rows.first : rows.first + len(rows)])
        program, batches = self.experiment.program_over(
            self.prepared, self._words, [split], model_facts=self._model_facts
        )
        return program.logits(self.variables, batches[split])

    def _of_trees(self, features):
        found = [boosting.probabilities(one, features, len(LABELS)) for one in self.trees["trees"]]
        return np.log(np.maximum(found, 1e-12))

    @property
    def _words(self):
        """The words whose vectors are those of `prepared`."""
        if not self.prepared.folder:
            return self.vocabulary.words
        return self.experiment.corpus.read_vocabulary(self.prepared.folder / "vocabulary.json").words

    @property
    def _model_facts(self) -> dict:
        return self.task.model_facts(self.manifest)

    def partition_scores(self, split: str, partition: partitions.Partition) -> dict:
        """`scores` of the pairs of a split that are in a partition; {"examples": 0} where there are none.

        Raises: DataError for ids that the corpus does not have.
        """
        found = partitions.uids_of(partition, self.prepared, self.experiment.corpus)
        _, logits = self.scores(split)
        rows = self.prepared.splits[split]
        inside = np.array([uid in found for uid in rows.uids])
        if not inside.any():
            return {"examples": 0}
        tags = tuple(tags for tags, chosen in zip(rows.tags, inside, strict=True) if chosen)
        return self.task.score(replace(rows, label=rows.label[inside], tags=tags), logits[:, inside])

    def outputs(self) -> dict[str, np.ndarray]:
        """uid -> logits [S * C] of all pairs of the corpus."""
        found = {}
        for split, rows in self.prepared.splits.items():
            logits_NSC = np.swapaxes(self.scores(split)[1], 0, 1)
            found |= dict(zip(rows.uids, logits_NSC.reshape(len(rows), -1), strict=True))
        return found

    def write(self, folder: Path) -> None:
        """Writes a complete run directory of the run on another corpus, so that `report` can compare it."""
        directory, source = RunDirectory.create(folder, self.config.to_dict()), self.directory
        write_json(directory.folder / "env.json", environment())
        write_json(directory.folder / "data.json", self.prepared.manifest)
        kept = ("model", "config", "seeds", "best_epoch", "epochs", "parameters")
        splits = self.prepared.manifest["splits"].values()
        result = {
            **{name: self.result[name] for name in kept},
            "task": self.task.name,
            "corpus": self.experiment.corpus.title,
            "transfer": {"source": source.folder.name, "corpus": self.result["corpus"], "mode": DIRECT},
            "notes": sorted({facts["note"] for facts in splits if "note" in facts}),
            "prepared": self.prepared.folder.name,
        }
        for split in ("dev", "test"):
            result[split] = None
            if split in self.prepared.splits:
                result[split], logits = self.scores(split)
                directory.write_predictions(split, self.task.predictions(self.prepared.splits[split], logits))
        directory.write_result("complete", result)

    # -- other texts --------------------------------------------------------------------------------------------------

    def on(self, data, split: str = "") -> "FinishedRun":
        """The run on another corpus: direct transfer (Romanov & Shivade 2018, section 4.1).

        The corpus is read and encoded as the run's own: only its name, folder and part come from `data`. Words new to
        the run have vectors from its vector file; a word without a vector is read as the run's unknown word.

        Args:
          data: the `data` section of a config with the other corpus; the fields NAMING are used.
          split: the only split that will be scored; the files of other splits may be missing.

        Raises: UserError where the two corpora do not share word vectors, or the ontology has changed.
        """
        if self.trees:
            problem = f"{self.directory.folder}: a run of features is scored on its own corpus only"
            raise RunError(f"{problem}. Fix: give a run of a network, or `predict` on the other corpus's pairs.")
        config = restored_config(self.config.to_dict())
        config.data.update(**{name: data[name] for name in NAMING}, mix="", sample=None)
        there = experiment.of(config)  # finds the ontology and the vectors where the run found them
        config.data.dir = data.dir
        only = "" if there.features else split  # features are scaled by the training pairs, so they need all splits
        there = replace(there, corpus=replace(there.corpus, folder=experiment.corpus_folder(config.data), only=only))
        prepared, _ = there.prepare()
        self.check_words(prepared)
        self._check_ontology(prepared)
        vectors = np.array(prepared.vectors)
        vectors[UNK] = self.vectors[UNK]  # it is the mean over the words of a corpus, so the two differ
        return self._with(experiment=there, config=config, prepared=replace(prepared, vectors=vectors))

    def merged(self, spans: Path | None = None) -> "FinishedRun":
        """The run on its own corpus, with the tokens of each entity merged into one token.

        Herlihy & Rudinger 2021 score the parts of Table 6 in this way. New words are read as the unknown word.
        spans: see entities.finder_of.
        Raises: UsageError for a run that reads more than words; DataError(s) for a file of spans that does not fit the
        corpus.
        """
        trained, corpus = self.experiment.corpus, linked_corpus(self.directory.folder)
        if trained.pieces or trained.linking or trained.mix or trained.sample or self.experiment.features:
            problem = "--merged is for a run that reads only the words of one whole corpus"
            raise UsageError(
                f"{problem}. Fix: give a run of configs/hypothesis_only.py or premise_hypothesis_fasttext.py."
            )
        splits = corpus.splits()
        finder = entities.finder_of(corpus, splits, spans)
        joined = {name: entities.merged_split(corpus, split, finder) for name, split in splits.items()}
        prepared = trained.encoded(joined, self.vocabulary, self.prepared.vectors)
        by = spans.name if spans else f"{corpus.ontology.name} {corpus.ontology.version}"
        return self._with(prepared=prepared, merged_by=by)

    def _with(self, **fields) -> "FinishedRun":
        """A copy of the run with other attributes."""
        other = copy.copy(self)
        other.__dict__ |= {**fields, "_scored": {}}
        return other

    def _check_ontology(self, prepared):
        mine, other = (manifest.get("knowledge", {}).get("sha256") for manifest in (self.manifest, prepared.manifest))
        if mine != other:
            problem = f"the ontology '{self.config.knowledge.ontology}' changed since the run was trained"
            raise RunError(f"{problem}. Fix: restore it, or train again.")

    def check_words(self, prepared) -> None:
        """Raises UserError where the words of a corpus do not have the vectors with which the run was trained."""
        mine, other = self.manifest, prepared.manifest
        trained = self.experiment.trains_words
        same = {name: mine["files"][name] == other["files"][name] for name in ("vocabulary.json", "vectors.npy")}
        if same["vocabulary.json"] and (trained or same["vectors.npy"]):
            return
        if trained:
            problem = "trained its word vectors, and the other corpus has other words"
            fix = "train a source whose vectors stay as they are (--config.model.train_vectors=False; not fasttext)"
        elif same["vocabulary.json"] or _vectors_of(mine) != _vectors_of(other):
            problem, fix = "has other word vectors than this config", "give both the same --config.vectors"
        elif unlike := [flag for name, flag in OF_WORDS.items() if mine["key"].get(name) != other["key"].get(name)]:
            flags = ", ".join(unlike)
            problem, fix = f"looks up words in another way ({flags})", f"give both the same {flags}"
        elif not self.config.vectors.path:
            problem = "has random word vectors, and the other corpus has other words"
            fix = "train the source with --config.vectors.path=FILE"
        else:
            return
        raise RunError(f"{self.directory.folder}: {problem}. Fix: {fix}.")

    # -- new inputs ---------------------------------------------------------------------------------------------------

    def predict(self, inputs) -> list[dict]:
        """The predictions for new inputs, in their order. Sets `unknown_words` and `truncated`.

        inputs: see inputs.text_pairs. Returns: see `described` of the task.
        Raises: UsageError, DataError(s) for inputs of any other form.
        """
        examples = self._new_examples(inputs)
        return self.task.described(*self._new_logits(Split(NEW, examples))) if examples else []

    def probed(self, path: Path) -> tuple[dict, str]:
        """(scores of the labelled pairs of a file, also by genre; the file's name). The run reads them as its corpus.

        path: see readers.read_nli_file. Raises: DataError(s).
        """
        split = read_nli_file(path, split=NEW)
        if self.manifest["tokeniser"] == BLANKS:
            split = between_blanks(split)
        return self.task.score(*self._new_logits(split)), split.facts["file"]

    def _new_examples(self, inputs):
        self.unknown_words, self.truncated = dict.fromkeys(self.task.sides, 0), {}
        return tuple(self.task.new_examples(text_pairs(inputs, self.task.name), self.manifest))

    def _new_logits(self, split: Split):
        """(rows, logits [S, N, C]) of new examples."""
        prepared = self._encoded(split)
        rows = prepared.splits[NEW]
        if self.trees:
            corpus, known = self.experiment.corpus, (self.vocabulary, self.vectors, self.trees["terms"])
            return rows, self._of_trees(boosting.of_new(corpus, split.examples, corpus.linker, *known))
        program = self._program
        program.data = program.devices.replicate(self.task.resident(prepared))
        logits = program.logits(self.variables, self._batches(prepared))
        program.data = {}  # frees the texts and keeps the programs
        return rows, logits

    def _encoded(self, split: Split) -> Prepared:
        """New examples as a corpus in memory, in round sizes."""
        if self.experiment.features:
            raise RunError(
                "the run's models take features, which need a whole corpus. Fix: use a run without "
                "config.data.features, or evaluate this one on a corpus of these pairs (--config=configs/bow.py:file)."
            )
        prepared = self.experiment.corpus.encoded({NEW: split}, self.vocabulary, self.vectors, self._names)
        self._check_ontology(prepared)
        facts, width = prepared.manifest, None
        self.unknown_words = facts["unknown_tokens"]
        self.truncated = {PLURAL.get(what, what): count for what, count in facts["truncated"].items() if count}
        if getattr(self.task, "padded_length", 0):  # the logits depend on the padded length: it is that of training
            width = self.result["width"]
        return self.task.with_rows(replace(prepared, arrays=roomy(prepared.arrays, width)))

    def _batches(self, prepared) -> batching.Batches:
        program = self._program
        how = {"shares": program.devices.count, "model": program.model}
        return self.task.batches(prepared, NEW, self.experiment.batches, **how)

    @cached_property
    def _names(self):
        """The concepts of the run's graph, or the phrases that have an output in its model; None for neither."""
        path = self.directory.private / CONCEPTS
        if path.is_file():
            return json.loads(path.read_bytes())
        return read_kept(self.directory, TYPES)["types"] if self.experiment.scores_types else None

    @cached_property
    def _program(self):
        devices = Devices()
        frozen = self.task.frozen(self.vocabulary.words, self.vectors)
        return self.experiment.bare_program(devices.replicate(frozen), self._model_facts, devices)

    def attention(self, inputs) -> list[dict]:
        """The attention weights of each input, for each seed. Returns: see `looked_at` of the task.

        Raises: as `predict`; UsageError where the model has no attention.
        """
        examples, found = self._new_examples(inputs), []
        if not examples:
            return []
        name = self.experiment.model.name
        lacking = UsageError(f"the model '{name}' of this run has no attention. Fix: give a run of esim or ga_reader.")
        if self.trees:
            raise lacking
        prepared, model = self._encoded(Split(NEW, examples)), self._program.model
        data, batches = self.task.resident(prepared), self._batches(prepared)
        layout = batching.Layout.full(1, batches.width, joint=batches.joint)

        def of_seed(variables, frozen, data, index):
            batch = self.task.to_batch(data, index, layout)
            made = model.apply({**variables, "frozen": frozen}, batch, train=False, mutable=[ATTENTION])[1]
            return made.get(ATTENTION, {})

        body = jax.jit(jax.vmap(of_seed, in_axes=(0, None, None, None)))
        frozen, rows = self.task.frozen(self.vocabulary.words, self.vectors), prepared.splits[NEW]
        for number, example in enumerate(examples):
            sown = jax.tree.map(np.asarray, body(self.variables, frozen, data, np.array([[number]])))
            if not sown:
                raise lacking
            lengths = tuple(int(length[number]) for length in rows.length)
            found.append(self.task.looked_at(self.experiment.corpus, self.vocabulary, example, lengths, sown))
        return found


def prepared_of(folder: Path) -> Prepared:
    """The prepared corpus that a run was trained on, prepared again where it is missing. It does not load the weights.

    Raises: UserError, DataError(s) where the run is damaged or its corpus has changed.
    """
    directory = RunDirectory.existing(folder)
    prepared, _ = experiment.of(_saved_config(directory)).corpus.prepare()
    directory.check_data(prepared.manifest)
    return prepared


def linked_corpus(folder: Path) -> NLICorpus:
    """The sentence pairs that a run was trained on, linked to concepts, whether or not its model uses links.

    Settings that only concern training are ignored (a mixed-in corpus, a sample, word pieces). Fields that the run's
    config lacks have their defaults. Raises: UserError where the folder holds no run, or the corpus is unknown.
    """
    saved, config = RunDirectory.existing(folder).config, defaults.nli("esim", knowledge="replace")
    for section in ("data", "knowledge"):
        for name, value in saved.get(section, {}).items():
            if name in config[section] and name not in ("mix", "sample", "tokens") and value is not None:
                config[section][name] = tuple(value) if isinstance(value, list) else value
    return experiment.nli_corpus(config)


def source_run(target: experiment.Experiment, prepared) -> FinishedRun:
    """The run that config.transfer.init_from of a new run names. prepared: the corpus of the new run.

    Raises UserError where the named run is missing or unfinished, or lacks a seed or the vectors of the words.
    """
    source = load_run(target.transfer.init_from)
    if source.trees:
        raise RunError(f"{source.directory.folder}: has trees and no weights. Fix: name the run of a network.")
    source.check_words(prepared)
    if source.experiment.trains_words and not target.trains_words:
        problem = f"{source.directory.folder}: trained its word vectors, which this config does not take over"
        raise RunError(f"{problem}. Fix: also give --config.model.train_vectors=True.")
    transfer.seed_rows(source.experiment.seeds, target.seeds)
    return source


def restored_config(values: dict) -> config_dict.ConfigDict:
    """The config of a run, from the content of its config.json: lists become tuples again."""

    def tuples(value):
        if isinstance(value, dict):
            return {key: tuples(item) for key, item in value.items()}
        return tuple(value) if isinstance(value, list) else value

    return config_dict.ConfigDict(tuples(values))


def _keeps_no_weights(result) -> str:
    """What kind of run has no weights to load; "" for a run that has them."""
    if result.get("transfer", {}).get("mode") == DIRECT:
        return "direct transfer"
    return "folds" if "folds" in result else ""


def _saved_config(directory: RunDirectory) -> config_dict.ConfigDict:
    """The config of a run. Raises RunError where a file of the run lacks a field that this version reads."""
    values = directory.config
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        needed = {
            "config.json": getattr(defaults, values["task"])(values["model"]["name"]).to_dict(),
            "data.json": dict.fromkeys(("files", "key", "splits")),
            "result.json": dict.fromkeys(("corpus", "model", "notes", "seeds")),
        }
        found = {name: _fields(read_json(directory.folder / name)) for name in needed}
        if all(_fields(parts) <= found[name] for name, parts in needed.items()):
            return restored_config(values)
    raise RunError(f"{directory.folder}: another version wrote this run. Fix: train again with this version.")


def _fields(tree, prefix="") -> set[str]:
    """Dotted names of the leaves of nested dicts, and of the dicts."""
    below = [_fields(item, f"{prefix}.{key}") for key, item in tree.items()] if isinstance(tree, dict) else []
    return {prefix}.union(*below)


def _vectors_of(manifest: dict) -> tuple:
    """What decides a word's vector in any corpus: the content of the vector files and the retrofitting."""
    key = manifest["key"]
    retrofitted = (key.get("retrofit"), key["retrofit_lexicon"])
    return (manifest["vocabulary"]["sha256"], retrofitted, key["retrofit_rounds"] if any(retrofitted) else 0)
