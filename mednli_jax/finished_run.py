"""A finished run on disk: scores of a split of its corpus or of another one, and predictions on new inputs."""

import contextlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import jax
import numpy as np
from ml_collections import config_dict

from mednli_jax import defaults, experiment
from mednli_jax.baselines import boosting, trees
from mednli_jax.corpora.arrays import SIDES, Prepared, Rows
from mednli_jax.corpora.nli import entities, partitions
from mednli_jax.corpora.nli.corpus import BLANKS, NLICorpus, between_blanks
from mednli_jax.corpora.nli.readers import read_nli_file
from mednli_jax.errors import RunError, UsageError
from mednli_jax.examples import LABELS
from mednli_jax.files import sha256, write_json
from mednli_jax.inputs import text_pairs
from mednli_jax.models import table
from mednli_jax.runs import RunDirectory, environment, read_json
from mednli_jax.tasks import tree_pairs
from mednli_jax.tasks.tree_pairs import TreePairs
from mednli_jax.text import TOKENISERS, UNK
from mednli_jax.training import transfer
from mednli_jax.training.checkpoint import Checkpoints

DIRECT = "direct"  # mode of transfer: evaluation on another corpus without training on it
NAMING = ("name", "genre", "builder", "limit")  # fields of `data` that name a corpus, besides its folder
RESULT_FIELDS = ("corpus", "model", "notes", "seeds")
NEURAL_FIELDS = ("best_epoch", "width")
# Settings that decide the vector of a word: name in the manifest's key -> flag.
OF_WORDS = {
    "lowercase": "--config.data.lowercase",
    "unknown": "--config.vectors.unknown",
    "lowered": "--config.vectors.lowered",
}
_FILES = ("files.vectors.npy", "files.vocabulary.json")
DATA_FIELDS = {
    "nli": (*_FILES, "knowledge.longest_path", "tokeniser"),
    "cloze": (*_FILES, "candidates.types_of_train"),
}
PARENTS = {"nli": defaults.nli, "cloze": defaults.cloze, "diskne": defaults.diskne}


def load_run(folder) -> "FinishedRun":
    """Opens a finished run. Raises UserError where the folder holds none, or a damaged one."""
    return FinishedRun(RunDirectory.existing(Path(folder).expanduser()))


class FinishedRun:
    """A finished run, ready to score a split or new inputs. Open it with `load_run`.

    Attributes:
      experiment: the experiment of its config.
      result: the content of its result.json.
      manifest: the content of its data.json.
      vocabulary: of V words.
      vectors: float32 [V, D].
      variables: of the best epoch of each of S seeds, leaves [S, ...]; None for model `features`.
      trees: of model `features` (tree_pairs.read), else empty.
    """

    def __init__(self, directory: RunDirectory):
        self.directory = directory
        self.result = _finished(directory)
        self.trees = tree_pairs.read(directory)
        if reason := _keeps_no_weights(self.result, self.trees):
            fix = "its scores are in result.json, `python -m mednli_jax.report` shows them"
            raise RunError(f"{directory.folder}: a run of {reason}. Fix: {fix}.")
        if not self.trees:
            _check_fields(directory.folder / "result.json", self.result, NEURAL_FIELDS)
        self.config = _saved_config(directory)
        self.manifest = read_json(directory.folder / "data.json")
        _check_fields(directory.folder / "data.json", self.manifest, DATA_FIELDS[self.config.task])
        if self.manifest.get("tokeniser", "blanks") not in TOKENISERS:
            problem = f"{directory.folder / 'data.json'}: names a tokeniser that this version lacks"
            raise RunError(f"{problem}: another version wrote the run. Fix: train again with this version.")
        self.experiment = experiment.of(self.config)
        self.task = self.experiment.task
        self.vocabulary = self.experiment.corpus.read_vocabulary(self._kept_file("vocabulary.json"))
        self.vectors = self._kept_vectors()
        self.variables = None if self.trees else self._best()

    def _kept_file(self, name):
        """The path of a file in private/, checked against the manifest."""
        path = self.directory.private / name
        try:
            digest = sha256(path)
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}). Fix: restore the run directory.") from None
        if digest != self.manifest["files"][name]:
            raise RunError(f"{path}: differs from what the run wrote. Fix: restore the run directory.")
        return path

    def _kept_vectors(self):
        """float32 [V, D]. The file is memory-mapped, which fails where its size does not fit its header's shape."""
        path = self._kept_file("vectors.npy")
        with contextlib.suppress(ValueError, OSError, EOFError):
            vectors = np.load(path, mmap_mode="r", allow_pickle=False)
            if vectors.ndim == 2 and vectors.dtype == np.float32:
                return np.array(vectors)
        raise RunError(f"{path}: holds no vectors. Fix: restore the run directory.")

    def _best(self):
        loaded = Checkpoints(self.directory.checkpoints).load()
        best = loaded[0]["best"] if loaded else None
        if best is None or best["epoch"].tolist() != self.result["best_epoch"]:
            problem = f"{self.directory.checkpoints}: what is left undamaged is not the finished run"
            raise RunError(f"{problem}. Fix: restore the run directory, or train again with --force.")
        variables = {"params": best["params"], "batch_stats": best.get("batch_stats", {})}
        if {leaf.shape[:1] for leaf in jax.tree.leaves(variables)} != {(len(best["epoch"]),)}:
            problem = f"{self.directory.checkpoints}: the weights are not those of each seed"
            raise RunError(f"{problem}. Fix: restore the run directory, or train again with --force.")
        return variables

    # -- scores -------------------------------------------------------------------------------------------------------

    def scores(self, split: str) -> tuple[dict, np.ndarray]:
        """(scores, logits [S, N, C]) of a split of the corpus the run was trained on.

        Raises: UserError for an unknown split, or where the corpus has changed.
        """
        return self.on_own_corpus().scores(split)

    def on_own_corpus(self) -> "ScoredCorpus":
        """The run on the corpus it was trained on. Raises: UserError where the corpus has changed."""
        prepared, _ = self.experiment.prepare()
        self.directory.check_data(prepared.manifest)
        return ScoredCorpus(self, self.experiment, self.config, prepared)

    def on_merged(self, spans: Path | None = None) -> "ScoredCorpus":
        """The run on its own corpus, with the tokens of each entity merged into one token.

        Herlihy & Rudinger 2021 score the parts of Table 6 in this way. New words are read as the unknown word.
        spans: see entities.finder_of.
        Raises: as on_own_corpus; UsageError for a run that reads more than words; DataError(s) for a file of spans that
        does not fit the corpus.
        """
        scored, corpus = self.on_own_corpus(), linked_corpus(self.directory.folder)
        trained = self.experiment.corpus
        if trained.pieces or trained.linking or trained.mix or trained.sample or self.experiment.features:
            problem = "--merged is for a run that reads only the words of one whole corpus"
            raise UsageError(
                f"{problem}. Fix: give a run of configs/hypothesis_only.py or premise_hypothesis_fasttext.py."
            )
        texts = corpus.splits()
        examples = [example for split in texts.values() for example in split.examples]
        finder = entities.finder_of(corpus, texts, spans)
        mentions = {side: entities.mentions_of(corpus, examples, side, finder) for side in SIDES}
        examples = entities.merged(examples, mentions)
        arrays = trained.texts(self.vocabulary).arrays(examples)
        prepared, length = scored.prepared, [arrays[f"{side}_length"] for side in SIDES]
        splits = {
            name: replace(rows, length=tuple(of[rows.first : rows.first + len(rows)] for of in length))
            for name, rows in prepared.splits.items()
        }
        prepared = replace(prepared, arrays={**prepared.arrays, **arrays}, splits=splits)
        by = spans.name if spans else f"{corpus.ontology.name} {corpus.ontology.version}"
        return ScoredCorpus(self, self.experiment, self.config, prepared, merged_by=by)

    def outputs(self) -> dict[str, np.ndarray]:
        """uid -> logits [S * C] of all pairs of the corpus that the run was trained on. Raises: as on_own_corpus."""
        corpus, found = self.on_own_corpus(), {}
        for split, rows in corpus.prepared.splits.items():
            logits_NSC = np.swapaxes(corpus.scores(split)[1], 0, 1)
            found |= dict(zip(rows.uids, logits_NSC.reshape(len(rows), -1), strict=True))
        return found

    def on(self, data, split: str = "") -> "ScoredCorpus":
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
        trained_on, other = (manifest["knowledge"].get("sha256") for manifest in (self.manifest, prepared.manifest))
        if trained_on != other:
            problem = f"the ontology '{config.knowledge.ontology}' changed since the run was trained"
            raise RunError(f"{problem}. Fix: restore it, or train again.")
        vectors = np.array(prepared.vectors)
        vectors[UNK] = self.vectors[UNK]  # it is the mean over the words of a corpus, so the two differ
        return ScoredCorpus(self, there, config, replace(prepared, vectors=vectors))

    @property
    def model_facts(self) -> dict:
        return self.task.model_facts(self.manifest)

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
        elif unlike := [name for name, flag in OF_WORDS.items() if _unlike(mine["key"], other["key"], name)]:
            flags = ", ".join(OF_WORDS[name] for name in unlike)
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

        inputs: see inputs.text_pairs. Returns: see tasks.nli.NewPairs and tasks.cloze.NewQueries.
        Raises: UsageError, DataError(s) for inputs of any other form.
        """
        return self._new_inputs.predict(text_pairs(inputs, self.task.name))

    def probed(self, path: Path) -> tuple[dict, str]:
        """(scores of the labelled pairs of a file, also by genre; the file's name). The run reads them as its corpus.

        path: see readers.read_nli_file. Raises: DataError(s).
        """
        split = read_nli_file(path, split="probe")
        if self.manifest["tokeniser"] == BLANKS:
            split = between_blanks(split)
        _, logits = self._new_inputs.logits(split.examples)
        label = np.array([LABELS.index(example.label) for example in split.examples])
        uids, tags = zip(*((example.uid, example.tags) for example in split.examples), strict=True)
        rows = Rows("probe", 0, label, (np.zeros(0), np.zeros(0)), uids, tags)
        return self.task.score(rows, logits), split.facts["file"]

    def attention(self, inputs) -> list[dict]:
        """The attention weights of new inputs. Raises: as `predict`; UsageError where the model has no attention."""
        return self._new_inputs.attention(text_pairs(inputs, self.task.name))

    @property
    def unknown_words(self) -> dict[str, int]:
        """The number of tokens without a vector on each side of the last inputs."""
        return self._new_inputs.unknown_words

    @property
    def truncated(self) -> dict[str, int]:
        """The number of texts of the last inputs that were cut to the model's length."""
        return self._new_inputs.truncated

    @cached_property
    def _new_inputs(self):
        return TreePairs(self) if self.trees else self.task.new_inputs(self)


class ScoredCorpus:
    """A finished run on a prepared corpus, its own or another. The scores of a split are cached.

    merged_by: the source of the entities whose tokens are merged, "" where none are merged.
    """

    def __init__(self, run: FinishedRun, experiment: "experiment.Experiment", config, prepared, merged_by: str = ""):
        self.run, self.experiment, self.config, self.prepared = run, experiment, config, prepared
        self.merged_by, self._scored = merged_by, {}

    def scores(self, split: str) -> tuple[dict, np.ndarray]:
        """(scores, logits [S, N, C]) of a split. Raises UserError for an unknown one."""
        if split not in self.prepared.splits:
            known = ", ".join(self.prepared.splits)
            raise UsageError(f"--split={split}: the corpus has no such split. Fix: give one of {known}.")
        if split not in self._scored:
            logits = self._logits(split)
            self._scored[split] = self.run.task.score(self.prepared.splits[split], logits), logits
        return self._scored[split]

    def _logits(self, split):
        if self.run.trees:
            table, _ = boosting.load(self.experiment.corpus, self.prepared)
            rows = self.prepared.splits[split]
            part = table[rows.first : rows.first + len(rows)]
            found = [trees.probabilities(one, part, len(LABELS)) for one in self.run.trees["trees"]]
            return np.log(np.maximum(found, 1e-12))
        program, batches = self.experiment.program(self.prepared, [split], model_facts=self.run.model_facts)
        return program.logits(self.run.variables, batches[split])

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
        return self.run.task.score(replace(rows, label=rows.label[inside], tags=tags), logits[:, inside])

    def write(self, folder: Path, corpus: str) -> None:
        """Writes a complete run directory, so that `report` can compare it with runs of this corpus."""
        directory, source = RunDirectory.create(folder, self.config.to_dict()), self.run.directory
        write_json(directory.folder / "env.json", environment())
        write_json(directory.folder / "data.json", self.prepared.manifest)
        kept = ("model", "config", "seeds", "best_epoch", "epochs", "parameters")
        splits = self.prepared.manifest["splits"].values()
        result = {
            **{name: self.run.result[name] for name in kept},
            "task": self.run.task.name,
            "corpus": corpus,
            "transfer": {"source": source.folder.name, "corpus": self.run.result["corpus"], "mode": DIRECT},
            "notes": sorted({facts["note"] for facts in splits if "note" in facts}),
            "prepared": self.prepared.folder.name,
        }
        for split in ("dev", "test"):
            result[split] = None
            if split in self.prepared.splits:
                result[split], logits = self.scores(split)
                directory.write_predictions(split, self.run.task.predictions(self.prepared.splits[split], logits))
        directory.write_result("complete", result)


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


def _keeps_no_weights(result, trees) -> str:
    """The reason why a run has neither weights nor trees to load; "" where it has."""
    if result["model"] == "features" and not trees:
        return "features of an older version keeps no trees"
    if result.get("transfer", {}).get("mode") == DIRECT:
        return "direct transfer keeps no weights"
    return "folds keeps no weights" if "folds" in result else ""


def _check_fields(path: Path, values, needed) -> None:
    """Raises UserError where a file of a run lacks a field that this version reads."""
    if missing := sorted(set(needed) - set(_fields(values))):
        names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        problem = f"{path}: lacks {names}, which this version reads: another version wrote the run"
        raise RunError(f"{problem}. Fix: train again with this version.")


def _fields(tree, prefix="") -> list[str]:
    """Dotted names of the leaves of nested dicts."""
    if not isinstance(tree, dict):
        return [prefix]
    return [name for key, item in tree.items() for name in _fields(item, f"{prefix}.{key}" if prefix else key)]


def _saved_config(directory: RunDirectory) -> config_dict.ConfigDict:
    """The config of a run. Raises UserError where a field of the model is missing, because the weights depend on it.

    Other fields that an older version did not have get their defaults, which are the behaviour of that version.
    """
    path, values = directory.folder / "config.json", directory.config
    _check_fields(path, values, ["model.name", "task"])
    task, model = values["task"], values["model"]["name"]
    known = isinstance(model, str) and (model in table.MODELS or ":" in model)
    if task not in list(PARENTS) or not known:  # these checks accept values of any type
        problem = f"{path}: names a task or a model that this version lacks"
        raise RunError(f"{problem}. Fix: train again with this version.")
    parent = PARENTS[task](model).to_dict()
    _check_fields(path, values, _fields({"model": parent["model"]}))
    values = _filled(values, parent)
    _check_types(path, values, parent)
    return restored_config(values)


def _filled(values: dict, defaults_: dict) -> dict:
    """The values, with defaults for missing fields."""
    known = {
        name: _filled(values[name], value)
        if isinstance(value, dict) and isinstance(values.get(name), dict)
        else values.get(name, value)
        for name, value in defaults_.items()
    }
    return {**values, **known}


def _check_types(path: Path, values, parent, name="config") -> None:
    """Raises RunError where a value has another type than the field of the parent config."""
    kind = {float: (int, float), tuple: (list, tuple)}.get(type(parent), type(parent))
    if None not in (values, parent) and not isinstance(values, kind):
        raise RunError(f"{path}: {name} has a value of a wrong type. Fix: restore the file.")
    for key, item in parent.items() if isinstance(parent, dict) and values is not None else ():
        _check_types(path, values[key], item, f"{name}.{key}")


def _finished(directory: RunDirectory) -> dict:
    """The result of a complete run. Other runs are refused: their checkpoints may change while they are read."""
    result = directory.result()
    if result["status"] != "complete":
        raise directory.unfinished(result["status"])
    _check_fields(directory.folder / "result.json", result, RESULT_FIELDS)
    return result


def _unlike(one: dict, other: dict, name: str) -> bool:
    """Whether both keys have the field `name`, which older versions lack, with different values."""
    return name in one and name in other and one[name] != other[name]


def _vectors_of(manifest: dict) -> tuple:
    """What decides a word's vector in any corpus: the content of the vector files and the retrofitting."""
    key = manifest["key"]
    retrofitted = (key.get("retrofit"), key["retrofit_lexicon"])
    return (manifest["vocabulary"]["sha256"], retrofitted, key["retrofit_rounds"] if any(retrofitted) else 0)
