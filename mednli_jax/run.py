"""A run: the experiment that a config describes, trained into a run directory, opened again, scored
and asked."""

import contextlib
import json
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import jax
import numpy as np
import optax
from ml_collections import config_dict

from mednli_jax import checks, defaults, tasks
from mednli_jax.data import batching, partitions
from mednli_jax.data.arrays import NEW, PLURAL, VECTORS_OF_RUN, Prepared, Rows, npy, roomy
from mednli_jax.data.cache import CONCEPTS
from mednli_jax.data.corpus import Corpus, cache_folder, corpus_folder, data_folder, file_path
from mednli_jax.data.examples import Split
from mednli_jax.data.pieces import PieceVocabulary, find_weights
from mednli_jax.data.text import Vocab
from mednli_jax.errors import (
    FORCE,
    ConfigError,
    DataError,
    ResumableError,
    RunError,
    Setting,
    UsageError,
    UserError,
    config_field,
    summary,
)
from mednli_jax.files import local_path, private_folder, sha256, write_atomic, write_json
from mednli_jax.models import table
from mednli_jax.models.layers import ATTENTION
from mednli_jax.report import html, sections
from mednli_jax.rundir import (
    DIRECT,
    SPLITS,
    TREES,
    TYPES,
    RunDirectory,
    RunResult,
    environment,
    read_json,
    read_kept,
    write_kept,
)
from mednli_jax.training import gradient, hosts, loop, optim, transfer
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import PRECISIONS, Program
from mednli_jax.training.session import Fitted, Session
from mednli_jax.training.settings import check_jax, numeric_settings
from mednli_jax.training.task import Scorer


@dataclass(frozen=True)
class Model:
    """A model of models.table, the fields of its module and the folder of its pretrained
    weights."""

    entry: table.Entry
    fields: dict
    weights: Path | None

    @property
    def name(self) -> str:
        return self.entry.name


@dataclass(frozen=True)
class Transfer:
    """The `transfer` section of a config, see defaults."""

    init_from: str = ""
    private: bool = False


@dataclass(frozen=True)
class Experiment:
    """The experiment that a config describes."""

    seeds: tuple[int, ...]
    kind: tasks.Task
    corpus: Corpus
    task: Scorer
    model: Model
    optimizer: optim.Options
    settings: loop.Settings
    batches: batching.TrainingBatches
    transfer: Transfer = Transfer()
    trained_by: Callable | None = (
        None  # the function that trains the model, if that is not the loop
    )
    precision: str = "default"  # of matrix products, a key of training.program.PRECISIONS

    def prepare(self) -> tuple[Prepared, bool]:
        """(the corpus as arrays with the rows that the task scores, whether the arrays were on disk
        already)."""
        prepared, hit = self.corpus.prepare()
        return self.task.with_rows(prepared, self.corpus), hit

    def fit(self, prepared: Prepared, session: Session) -> Fitted:
        """Trains the model on the prepared corpus."""
        return (self.trained_by or gradient.fit)(self, prepared, session)

    def program(
        self, prepared: Prepared, splits=None, *, model_facts: dict | None = None, devices=None
    ) -> tuple[Program, dict[str, batching.Batches]]:
        """The Program, with the corpus on the devices, and the batches of the splits. It compiles
        at first use.

        Args:
          splits: names; None = all.
          model_facts: of the corpus on which the model was trained, where that is not this one.
        """
        facts = self.task.model_facts(prepared.manifest) if model_facts is None else model_facts
        program = self.bare_program(prepared.vectors, facts, devices or Devices())
        program.data = program.devices.replicate(self.task.resident(prepared))
        batches = {
            name: self.batches_of(prepared, name, program) for name in splits or prepared.splits
        }
        if "train" in batches:
            program.optimizer = self.optimizer_for(batches["train"])
        return program, batches

    def bare_program(self, vectors: np.ndarray, model_facts: dict, devices: Devices) -> Program:
        """A Program without data and optimiser, for words with the vectors [V, D]."""
        precision = PRECISIONS[self.precision]
        model = self.model.entry.build(
            self.model.fields,
            axis_name=devices.axis_name,
            platform=devices.platform,
            product_dtype=precision.product_dtype,
            **model_facts,
        )
        frozen = devices.replicate(self.task.frozen(vectors))
        return Program(model, self.task, devices, frozen, data={}, precision=precision)

    def batches_of(self, prepared: Prepared, split: str, program: Program) -> batching.Batches:
        """The batches of a split for a Program."""
        return self.task.batches(
            prepared, split, self.batches, shares=program.devices.count, model=program.model
        )

    def optimizer_for(self, batches: batching.Batches) -> optax.GradientTransformation:
        """The optimiser for training on these batches."""
        return optim.build_optimizer(self.optimizer, batches.steps)

    def keep_for_prediction(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Copies into the run the files that prediction needs, so that it works without the corpus
        and the cache."""
        for name in ("vocabulary.json", "vectors.npy", CONCEPTS):
            if name != CONCEPTS or (prepared.folder / name).is_file():
                write_atomic(directory.private / name, (prepared.folder / name).read_bytes())
        if VECTORS_OF_RUN in prepared.manifest:
            write_atomic(directory.private / "vectors.npy", npy(prepared.vectors))
        if self.scores_types:
            write_kept(directory, TYPES, {"types": self.task.types(prepared)})
        if isinstance(self.kind, tasks.Training):
            self.kind.keep(directory, prepared)

    @property
    def scores_types(self) -> bool:
        """Whether the model has one output for each phrase of the training split (its field
        num_types)."""
        return self.model.entry.has_field("num_types")

    @property
    def trains_words(self) -> bool:
        """Whether the model trains its own vectors of words or pieces."""
        return self.model.fields.get("train_vectors", self.task.pieces)


# -- from a config -----------------------------------------------------------------------------------------------------


def experiment_of(config) -> Experiment:
    """The experiment of a config."""
    kind, entry = checks.check(config)
    train, seeds = config.train, tuple(config.seeds)
    return Experiment(
        seeds=seeds,
        kind=kind,
        corpus=kind.corpus(config),
        task=kind.scorer(config),
        model=_model(config, entry),
        optimizer=optim.Options.from_config(train),
        settings=loop.Settings.from_config(train),
        batches=batching.TrainingBatches(
            train.batch_size, train.group, train.max_buckets, seeds, train.epochs, train.shuffle
        ),
        transfer=Transfer(**config.transfer.to_dict()) if "transfer" in config else Transfer(),
        trained_by=kind.fit(config) if isinstance(kind, tasks.Training) else None,
        precision=train.precision,
    )


def _model(config, entry: table.Entry) -> Model:
    """The model. Pretrained weights set its sizes; a size that the config gives must be theirs."""
    values, weights = config.model.to_dict(), None
    if values.get("weights"):
        weights = find_weights(file_path(values["weights"], data_folder(config.data.dir)))
        found, before = (
            entry.pretrained.read_architecture(weights),
            defaults.transformer(config.model.name),
        )
        for name, size in found.items():
            # A size without a default is that of the weights of a finished run.
            if name in values and values[name] not in (size, before.get(name, size)):
                problem = f"is {values[name]}, and the weights of model.weights have {size}"
                fix = "leave it out; the weights decide it"
                raise ConfigError(problem, field=f"model.{name}", fix=fix)
        values |= found
        PieceVocabulary.load(weights).check_size(values["vocab_size"])
    if entry.module is not None:  # refuses bad fields
        entry.build({"vocab_size": 1, **values} if entry.has_field("vocab_size") else values)
    return Model(entry, values, weights)


def start_jax() -> None:
    """Checks jax's devices and settings, and keeps compiled programs in the cache of prepared data.

    $JAX_COMPILATION_CACHE_DIR is another place for them.
    """
    check_jax()
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    folder = private_folder(
        cache_folder() / "compiled", fix="set $MEDNLI_JAX_CACHE to a folder you can write"
    )
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


# -- training ----------------------------------------------------------------------------------------------------------


def train(
    experiment: Experiment,
    folder: Path,
    config: dict,
    *,
    name: str = "run",
    resume: bool = False,
    force: bool = False,
    wait: float = 0,
    profile: bool = False,
    command: str,
) -> RunDirectory | None:
    """Trains an experiment into a run directory, with its result. Returns None where the run was
    complete already.

    Where the corpus or the folder cannot be used, the folder is not changed. loop.Interrupted is
    raised where a signal ended the training, after the run has been saved.

    Args:
      config: the content of the directory's config.json.
      name: of the config, as tables show it.
      wait: seconds to wait for another process that trains in the folder.
      command: the shell command that resumes the run.
    """
    here = hosts.here()
    start_jax()
    RunDirectory.check(folder, resume=resume, force=force)
    # Before the directory is created, so that bad data or a bad source leaves none.
    prepared, hit, source = _prepared(experiment, here)
    warnings = tasks.warnings(experiment.kind, prepared)
    created = RunDirectory.create(folder, config, resume=resume, force=force, wait=wait)
    with contextlib.closing(created) as directory:
        session = Session(directory, resume=resume, profile=profile, source=source)
        if resume and directory.status() == "complete":
            session.say(f"{folder}: the run is complete already; nothing to do.")
            return None
        if resume:  # checked before anything is written, so that a refusal does not change the run
            directory.check_data(prepared.manifest)
            directory.check_settings(numeric_settings())
            directory.metrics()
            session.count_earlier_sessions()

        session.write_status("running")
        session.say(
            f"corpus {experiment.corpus.name}: {'found prepared' if hit else 'prepared'} in {prepared.folder}"
        )
        for line in warnings:
            session.say(f"warning: {line}")
        try:
            _finish(experiment, name, prepared, experiment.fit(prepared, session), session)
            return directory
        except (loop.Interrupted, KeyboardInterrupt, ResumableError):
            session.write_status("interrupted")
            session.say(f"interrupted. To continue: {command}")
            raise loop.Interrupted from None
        except BaseException as error:
            here.await_loss(error)
            with contextlib.suppress(
                UserError
            ):  # this also fails on a full disk, and the first error must be reported
                session.write_failure(resumable=not isinstance(error, ConfigError | DataError))
                # The message of a bug may quote text.
                reason = error if isinstance(error, UserError) else summary(error)
                directory.log(f"failed: {reason}")
            raise


def _finish(experiment: Experiment, name: str, prepared, fitted: Fitted, session: Session) -> None:
    """Scores dev and test, writes the result, prints the summary."""
    directory, task = session.directory, experiment.task
    result = {
        "corpus": experiment.corpus.title,
        "task": task.name,
        "model": experiment.model.name,
        "config": name,
        "seeds": list(experiment.seeds),
        **fitted.facts,
        "notes": sorted({s["note"] for s in prepared.manifest["splits"].values() if "note" in s})
        + fitted.notes,
        "prepared": prepared.folder.name,
    }
    if "shared" in prepared.manifest:
        result["shared"] = prepared.manifest["shared"]
    if fitted.logits:
        result |= _scored(directory, task, prepared.splits, fitted.logits)
    lines = [
        task.summary(split, result[split]) for split in SPLITS if fitted.logits and result[split]
    ]
    session.write_status("complete", result)
    closing = tasks.closing_sections(experiment.kind, directory)
    notes = [f"warning: {note}" if note in fitted.notes else note for note in result["notes"]]
    printed = (line for section in closing for line in sections.lines(section))
    for line in (*lines, *printed, *notes, *fitted.lines, f"run: {directory.folder}"):
        session.say(line)


def _scored(
    directory: RunDirectory, task: Scorer, splits: Mapping[str, Rows], logits: Callable
) -> dict:
    """{split: its scores, None for a split that is lacking}; writes the predictions. logits: of a
    split."""
    scores = dict.fromkeys(SPLITS)
    for split in SPLITS:  # in the order of `train_along`
        if rows := splits.get(split):
            of_split = logits(split)
            scores[split] = task.score(rows, of_split)
            directory.write_lines(f"predictions.{split}.jsonl", task.predictions(rows, of_split))
    return scores


def write_page(directory: RunDirectory, kind) -> Path:
    """Writes the report.html of a run and returns its path."""
    path = directory.folder / "report.html"
    write_atomic(path, html.run_page(directory, tasks.run_sections(kind), kind.units))
    return path


def train_along(experiment: Experiment) -> None:
    """Runs in every process except the first: trains with the others, without output and without
    writing files."""
    here = hosts.here()
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        start_jax()
        prepared, *_ = _prepared(experiment, here)
        try:
            fitted = experiment.fit(prepared, Session(None))
        except KeyboardInterrupt:
            raise loop.Interrupted from None
        except BaseException as error:
            here.await_loss(error)
            raise
        for split in SPLITS:
            if prepared.splits.get(split):
                fitted.logits(split)


def _prepared(experiment, here) -> tuple[Prepared, bool, "FinishedRun | None"]:
    """(prepared corpus, whether it was on disk, the run whose weights are taken).

    The first process prepares the corpus, the others wait and read it. Only the first opens the
    run; its vectors are those of all.
    """
    if not here.leads:
        here.meet()
    prepared, hit = experiment.prepare()
    if here.leads:
        here.meet()
    here.check_same("corpus", prepared.manifest["files"])
    tasks.check_prepared(experiment.kind, experiment, prepared)
    if not experiment.transfer.init_from:
        return prepared, hit, None
    source = source_run(experiment, prepared) if here.leads else None
    vectors = source.vectors_for(prepared) if source else np.asarray(prepared.vectors)
    prepared = prepared.with_vectors(here.of_first(vectors))
    return experiment.task.with_rows(prepared, experiment.corpus), hit, source


# -- systems and their scores ------------------------------------------------------------------------------------------


NAMING = (
    "name",
    "genre",
    "builder",
    "limit",
    "labels",
)  # fields of `data` that name a corpus, besides its folder
# Settings that decide the vector of a word: name in the manifest's key -> field of the config.
OF_WORDS = {
    "lowercase": "data.lowercase",
    "unknown": "vectors.unknown",
    "lowered": "vectors.lowered",
}


class Predictions(list[dict]):
    """The prediction for each new input, dicts in the order of the inputs: see `described` of the
    task.

    Attributes:
      unknown_words: {side: number of tokens without a vector}.
      truncated: {name of texts: number of those that were cut to the model's length}, where any were.
    """

    def __init__(
        self, rows: Iterable[dict], unknown_words: Mapping[str, int], truncated: Mapping[str, int]
    ):
        super().__init__(rows)
        self.unknown_words, self.truncated = unknown_words, truncated


@dataclass(frozen=True, eq=False, kw_only=True)
class System(ABC):
    """A finished run, or the answers of any system, and the corpus on which it is scored.

    Attributes:
      directory: of the run; its folder is the file of answers.
      config, experiment: of the system; on another corpus (`FinishedRun.on`) with that corpus.
      result: of the run.
      scored_corpus: the arrays of another corpus; None for the system's own, which is prepared at first use.
      merged_by: the source of the entities whose tokens are merged, if any are.
    """

    directory: RunDirectory
    config: config_dict.ConfigDict
    experiment: Experiment
    result: RunResult
    scored_corpus: Prepared | None = None
    merged_by: str = ""
    _scores: dict[str, tuple[dict, np.ndarray]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def kind(self):
        """The TASK, see tasks."""
        return self.experiment.kind

    @property
    def task(self) -> Scorer:
        return self.experiment.task

    @cached_property
    def prepared(self) -> Prepared:
        """The corpus that is scored."""
        return self._own_corpus() if self.scored_corpus is None else self.scored_corpus

    @abstractmethod
    def _own_corpus(self) -> Prepared:
        """The corpus of the config, as arrays with the rows that the task scores."""

    @abstractmethod
    def _logits(self, split: str) -> np.ndarray:
        """[S, N, C] of a split."""

    def scored_splits(self) -> Mapping[str, Rows]:
        """The rows of the splits that `write` scores."""
        return self.prepared.splits

    def scores(self, split: str) -> tuple[dict, np.ndarray]:
        """(scores, logits [S, N, C]) of a split, kept for a second call."""
        if split not in self.prepared.splits:
            names = ", ".join(self.prepared.splits)
            problem = (Setting("split", split), ": the corpus has no such split")
            raise UsageError(problem, fix=f"give one of {names}")
        if split not in self._scores:
            logits = self._logits(split)
            self._scores[split] = self.task.score(self.prepared.splits[split], logits), logits
        return self._scores[split]

    def partition_scores(self, split: str, partition: partitions.Partition) -> dict:
        """`scores` of the pairs of a split that are in a partition; {"examples": 0} where there are
        none."""
        found = partitions.uids_of(partition, self.prepared, self.experiment.corpus)
        _, logits = self.scores(split)
        rows = self.prepared.splits[split]
        inside = np.array([uid in found for uid in rows.uids])
        if not inside.any():
            return {"examples": 0}
        tags = tuple(tags for tags, chosen in zip(rows.tags, inside, strict=True) if chosen)
        return self.task.score(
            replace(rows, label=rows.label[inside], tags=tags), logits[:, inside]
        )

    def write(self, folder: Path) -> None:
        """Writes a complete run directory of the system on another corpus, so that `report` can
        compare it."""
        directory, source = RunDirectory.create(folder, self.config.to_dict()), self.directory
        write_json(directory.folder / "env.json", environment().to_json())
        write_json(directory.folder / "data.json", self.prepared.manifest)
        splits = self.prepared.manifest["splits"].values()
        result = {
            "model": self.result.model,
            "config": self.result.config,
            "seeds": self.result.seeds,
            "best_epoch": self.result.best_epoch,
            "epochs": self.result.epochs,
            "parameters": self.result.parameters,
            "task": self.task.name,
            "corpus": self.experiment.corpus.title,
            "transfer": {
                "source": source.folder.name,
                "corpus": self.result.corpus,
                "mode": DIRECT,
            },
            "notes": sorted({facts["note"] for facts in splits if "note" in facts}),
            "prepared": self.prepared.folder.name,
        }
        result |= _scored(
            directory, self.task, self.scored_splits(), lambda split: self.scores(split)[1]
        )
        directory.write_result("complete", result)


@dataclass(frozen=True, eq=False, kw_only=True)
class FinishedRun(System):
    """A finished run, ready to score a split or new inputs. Open it with `load_run`.

    Attributes:
      manifest: of the corpus on which the run was trained.
      vocabulary, vectors [V, D]: of this corpus.
      variables: of the best epoch of each of S seeds, leaves [S, ...]; None where there is a predictor.
      predictor: gives the logits of a model that is no network, see tasks.
    """

    manifest: dict
    vocabulary: Vocab | PieceVocabulary
    vectors: np.ndarray
    variables: dict | None = None
    predictor: object | None = None

    def _own_corpus(self) -> Prepared:
        prepared, _ = self.experiment.corpus.prepare()
        self.directory.check_data(prepared.manifest)
        if VECTORS_OF_RUN in self.manifest:
            prepared = prepared.with_vectors(self.vectors)
        return self.task.with_rows(prepared, self.experiment.corpus)

    def vectors_for(self, prepared: Prepared) -> np.ndarray:
        """The vectors [V, D] of another corpus; words that the run knows have the run's, and so has
        the unknown word.

        The unknown word's is a mean over the words of a corpus, and retrofitting moves a word
        towards others of it.
        """
        vectors = np.array(prepared.vectors)
        words = self.experiment.corpus.read_vocabulary(prepared.folder / "vocabulary.json").words
        row_of = {word: row for row, word in enumerate(self.vocabulary.words)}
        rows = np.array([row_of.get(word, -1) for word in words])
        vectors[rows >= 0] = self.vectors[rows[rows >= 0]]
        return vectors

    def _logits(self, split: str) -> np.ndarray:
        if self.predictor:
            return self.predictor.logits(
                self.experiment.corpus, self.prepared, self.prepared.splits[split]
            )
        facts = self.task.model_facts(self.manifest)
        program, batches = self.experiment.program(self.prepared, [split], model_facts=facts)
        return program.logits(self.variables, batches[split])

    def outputs(self) -> dict[str, np.ndarray]:
        """uid -> logits [S * C] of all pairs of the corpus."""
        found = {}
        for split, rows in self.prepared.splits.items():
            logits_NSC = np.swapaxes(self.scores(split)[1], 0, 1)
            lacking_C = np.isneginf(logits_NSC).all(axis=(0, 1))  # classes that training lacked
            logits_NSC = logits_NSC[..., ~lacking_C]
            found |= dict(zip(rows.uids, logits_NSC.reshape(len(rows), -1), strict=True))
        return found

    def check_task(self, config) -> None:
        """Raises UsageError where a config is of another task than the run."""
        if config.task != self.config.task:
            corpora = f"{tasks.task_of(config).corpora}, and the run of {self.kind.corpora}"
            problem = (Setting("config"), f" is of {corpora}")
            raise UsageError(problem, fix="give another")

    def on(self, data, split: str = "") -> "FinishedRun":
        """The run on another corpus: direct transfer (Romanov & Shivade 2018, section 4.1).

        The corpus is read and encoded as the run's own. Words new to the run have vectors from its
        vector file; a word without a vector is read as the run's unknown word. Concepts in place of
        words are those of the run's training pairs. Of `data`, the section of a config, only NAMING
        and the folder are used. split: the only one that will be scored; the files of other splits
        may be missing.
        """
        if self.predictor:
            problem = f"{self.directory.folder}: a run of features is scored on its own corpus only"
            raise RunError(
                problem, fix="give a run of a network, or `predict` on the other corpus's pairs"
            )
        config = restored_config(self.config.to_dict())
        config.data.update({name: data[name] for name in NAMING})
        there = experiment_of(config)  # finds the ontology and the vectors where the run found them
        config.data.dir = data.dir
        corpus = replace(there.corpus, folder=corpus_folder(config.data), only=split)
        there = replace(
            there, corpus=corpus.asked_by(self.vocabulary, self.vectors), task=self.task
        )
        prepared, _ = there.corpus.prepare()
        self.check_words(prepared)
        self._check_ontology(prepared)
        prepared = self.task.with_rows(
            prepared.with_vectors(self.vectors_for(prepared)), there.corpus
        )
        return replace(self, experiment=there, config=config, scored_corpus=prepared)

    def having(self, prepared: Prepared, merged_by: str = "") -> "FinishedRun":
        """The run on other arrays of its corpus."""
        return replace(self, scored_corpus=prepared, merged_by=merged_by)

    def _check_ontology(self, prepared):
        mine, other = (
            manifest.get("knowledge", {}).get("sha256")
            for manifest in (self.manifest, prepared.manifest)
        )
        if mine != other:
            problem = (
                f"the ontology '{self.config.knowledge.ontology}' changed since the run was trained"
            )
            raise RunError(problem, fix="restore it, or train again")

    def check_words(self, prepared) -> None:
        """Raises UserError where the words of a corpus do not have the vectors with which the run
        was trained."""
        mine, other = self.manifest, prepared.manifest
        trained = self.experiment.trains_words
        same = {
            name: mine["files"][name] == other["files"][name]
            for name in ("vocabulary.json", "vectors.npy")
        }
        if same["vocabulary.json"] and (trained or same["vectors.npy"]):
            return
        if trained:
            problem = "trained its word vectors, and the other corpus has other words"
            fix = (
                "train a source whose vectors stay as they are (",
                config_field("model.train_vectors", False),
                "; not fasttext)",
            )
        elif same["vocabulary.json"] or _vectors_of(mine) != _vectors_of(other):
            problem = "has other word vectors than this config"
            fix = ("give both the same ", config_field("vectors"))
        elif unlike := [
            flag
            for name, flag in OF_WORDS.items()
            if mine["key"].get(name) != other["key"].get(name)
        ]:
            problem = f"looks up words in another way ({', '.join(unlike)})"
            fix = f"give both the same {', '.join(unlike)}"
        elif not self.config.vectors.path:
            problem = "has random word vectors, and the other corpus has other words"
            fix = ("train the source with ", config_field("vectors.path", "FILE"))
        else:
            return
        raise RunError(f"{self.directory.folder}: {problem}", fix=fix)

    def predict(self, inputs) -> Predictions:
        """The predictions for new inputs (see data.inputs.Form.pairs)."""
        examples = self._new_examples(inputs)
        if not examples:
            return Predictions([], dict.fromkeys(self.task.sides, 0), {})
        prepared = self._encoded(examples)
        rows = self.task.described(prepared.splits[NEW], self._logits_of_new(examples, prepared))
        truncated = {}
        for name, count in prepared.manifest["truncated"].items():
            if count:
                truncated[PLURAL.get(name, name)] = count
        return Predictions(rows, prepared.manifest["unknown_tokens"], truncated)

    def _new_examples(self, inputs) -> tuple:
        return tuple(self.task.new_examples(self.kind.form.pairs(inputs), self.manifest))

    def of_new(self, split: Split) -> tuple[Rows, np.ndarray]:
        """(rows, logits [S, N, C]) of new examples."""
        prepared = self._encoded(split.examples)
        return prepared.splits[NEW], self._logits_of_new(split.examples, prepared)

    def _logits_of_new(self, examples: Sequence, prepared: Prepared) -> np.ndarray:
        """[S, N, C] of new examples and their arrays."""
        if self.predictor:
            return self.predictor.of_new(
                self.experiment.corpus, examples, self.vocabulary, self.vectors
            )
        program = self._program
        program.data = program.devices.replicate(self.task.resident(prepared))
        logits = program.logits(self.variables, self.experiment.batches_of(prepared, NEW, program))
        program.data = {}  # frees the texts and keeps the programs
        return logits

    def _encoded(self, examples: Sequence) -> Prepared:
        """New examples as a corpus in memory, in round sizes."""
        splits = {NEW: Split(NEW, tuple(examples))}
        prepared = self.experiment.corpus.encoded(
            splits, self.vocabulary, self.vectors, self._names
        )
        self._check_ontology(prepared)
        # Where the logits depend on the padded length, it is that of training.
        width = self.result.width if self.task.padded_length else None
        return self.task.with_rows(
            replace(prepared, arrays=roomy(prepared.arrays, width)), self.experiment.corpus
        )

    @cached_property
    def _names(self):
        """The concepts of the run's graph, or the phrases that have an output in its model; None
        for neither."""
        path = self.directory.private / CONCEPTS
        if path.is_file():
            return json.loads(path.read_bytes())
        return read_kept(self.directory, TYPES)["types"] if self.experiment.scores_types else None

    @cached_property
    def _program(self):
        facts = self.task.model_facts(self.manifest)
        return self.experiment.bare_program(self.vectors, facts, Devices())

    def attention(self, inputs) -> list[dict]:
        """The attention weights of each input, for each seed: see `looked_at` of the task."""
        examples, maps = self._new_examples(inputs), []
        if not examples:
            return []
        name = self.experiment.model.name
        lacking = UsageError(
            f"the model '{name}' of this run has no attention",
            fix="give a run of esim or ga_reader",
        )
        if self.predictor:
            raise lacking
        prepared, model = self._encoded(examples), self._program.model
        data, batches = (
            self.task.resident(prepared),
            self.experiment.batches_of(prepared, NEW, self._program),
        )
        layout = batching.Layout.full(1, batches.plan.width, joint=batches.plan.joint)

        def of_seed(variables, frozen, data, index):
            batch = self.task.to_batch(data, index, layout)
            made = model.apply(
                {**variables, "frozen": frozen}, batch, train=False, mutable=[ATTENTION]
            )[1]
            return made.get(ATTENTION, {})

        body = jax.jit(jax.vmap(of_seed, in_axes=(0, None, None, None)))
        frozen, rows = self.task.frozen(self.vectors), prepared.splits[NEW]
        for number, example in enumerate(examples):
            sown = jax.tree.map(
                np.asarray, body(self.variables, frozen, data, np.array([[number]]))
            )
            if not sown:
                raise lacking
            lengths = tuple(int(length[number]) for length in rows.length)
            maps.append(
                self.task.looked_at(self.experiment.corpus, self.vocabulary, example, lengths, sown)
            )
        return maps


@dataclass(frozen=True, eq=False, kw_only=True)
class Answered(System):
    """Any system's answers to the pairs of one split, which are scored as the predictions of a run
    are."""

    split: str

    def _own_corpus(self) -> Prepared:
        return self.experiment.prepare()[0]

    def _logits(self, split: str) -> np.ndarray:
        kind = tasks.part(self.kind, tasks.PairTask, "--predictions")
        return kind.answers(self.directory.folder, self.prepared.splits[split], self.config)

    def scored_splits(self) -> Mapping[str, Rows]:
        return {self.split: self.prepared.splits[self.split]}


def answered(config, path: Path, split: str) -> Answered:
    """The answers of a file to the pairs of one split of the corpus of a config."""
    experiment = experiment_of(config)
    return Answered(
        directory=RunDirectory(path),
        config=config,
        experiment=replace(experiment, corpus=replace(experiment.corpus, only=split)),
        result=RunResult(
            "complete",
            model=path.name,
            config=path.name,
            corpus=experiment.corpus.title,
            seeds=[0],
            best_epoch=[],
            epochs=0,
            parameters=0,
        ),
        split=split,
    )


def load_run(folder) -> FinishedRun:
    """Opens a finished run."""
    check_jax()
    directory = RunDirectory.existing(local_path(folder, "the folder of a run"))
    result = directory.result()
    if result.status != "complete":  # the checkpoints may change while they are read
        raise directory.unfinished(result.status)
    if result.direct or "folds" in result.values:
        kind = "direct transfer" if result.direct else "folds"
        problem = f"{directory.folder}: a run of {kind} keeps no weights"
        shown_by = f"python -m mednli_jax.report {shlex.quote(str(directory.folder))}"
        fix = f"its scores are in result.json, `{shown_by}` shows them"
        raise RunError(problem, fix=fix)
    config = saved_config(directory)
    manifest = read_json(directory.folder / "data.json")
    experiment = experiment_of(config)
    run = FinishedRun(
        directory=directory,
        config=config,
        experiment=experiment,
        result=result,
        manifest=manifest,
        vocabulary=experiment.corpus.read_vocabulary(
            _kept_file(directory, manifest, "vocabulary.json")
        ),
        vectors=np.load(_kept_file(directory, manifest, "vectors.npy"), allow_pickle=False),
    )
    if isinstance(run.kind, tasks.Training) and (predictor := run.kind.predictor(run)):
        return replace(run, predictor=predictor)
    return replace(run, variables=_best(directory, result))


def _kept_file(directory: RunDirectory, manifest: dict, name: str) -> Path:
    """The path of a file in private/, checked against the manifest."""
    path, digests = directory.private / name, manifest["files"]
    if VECTORS_OF_RUN in manifest:
        digests = {**digests, "vectors.npy": manifest[VECTORS_OF_RUN]}
    try:
        if sha256(path) == digests[name]:
            return path
    except OSError:
        pass
    raise RunError(
        f"{path}: is missing or differs from what the run wrote", fix="restore the run directory"
    )


def _best(directory: RunDirectory, result: RunResult) -> dict:
    """The variables of the best epoch of each seed."""
    loaded = Checkpoints(directory.checkpoints).load()
    best = loaded[0]["best"] if loaded else None
    if best is None or best["epoch"].tolist() != result.best_epoch:
        problem = f"{directory.checkpoints}: what is left undamaged is not the finished run"
        raise RunError(problem, fix=("restore the run directory, or train again with ", FORCE))
    return {"params": best["params"], "batch_stats": best.get("batch_stats", {})}


def source_run(target: Experiment, prepared) -> FinishedRun:
    """The run that config.transfer.init_from of a new run names. prepared: the corpus of the new
    run."""
    source = load_run(target.transfer.init_from)
    if source.predictor:
        raise RunError(
            f"{source.directory.folder}: has trees and no weights", fix="name the run of a network"
        )
    source.check_words(prepared)
    if source.experiment.trains_words and not target.trains_words:
        problem = f"{source.directory.folder}: trained its word vectors, which this config does not take over"
        raise RunError(problem, fix=("also give ", config_field("model.train_vectors", True)))
    transfer.seed_rows(source.experiment.seeds, target.seeds)
    return source


def export(folder: Path, target: Path) -> None:
    """Copies what prediction needs of a finished run into a new folder: a run directory, with a
    model card."""
    run = load_run(folder)
    if target.exists() and any(target.iterdir()):
        raise RunError(f"{target}: holds files already", fix="name a new folder")
    config, source = run.directory.config, run.directory
    if config["model"].get(
        "weights"
    ):  # their sizes are in the config, and their pieces in private/
        config["model"]["weights"] = ""
    with contextlib.closing(RunDirectory.create(target, config)) as directory:
        if run.variables:
            Checkpoints(directory.checkpoints).save(
                *Checkpoints(source.checkpoints).load(), alone=True
            )
        names = [
            f"private/{name}" for name in ("vocabulary.json", "vectors.npy", CONCEPTS, TYPES, TREES)
        ]
        for name in ("data.json", *names, "result.json"):
            if (source.folder / name).is_file():
                write_atomic(directory.folder / name, (source.folder / name).read_bytes())
    use = f"```python\nfrom mednli_jax import load_run\n\nload_run(FOLDER).predict([{run.kind.form}])\n```"
    facts = f"library_name: mednli_jax\nlanguage: en\nlicense: other\ntags: [clinical, jax, {run.task.name}]"
    card = html.public_pages(html.public_figures(source.folder)).card
    write_atomic(target / "README.md", f"---\n{facts}\n---\n{card}\n## Use\n\n{use}\n")


def restored_config(values: dict) -> config_dict.ConfigDict:
    """The config with the content of a config.json: lists become tuples again."""

    def tuples(value):
        if isinstance(value, dict):
            return {key: tuples(item) for key, item in value.items()}
        return tuple(value) if isinstance(value, list) else value

    return config_dict.ConfigDict(tuples(values))


def saved_config(directory: RunDirectory) -> config_dict.ConfigDict:
    """The config of a run."""
    values = directory.config
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        values["data"].setdefault("labels", "")  # version 1.0.0 lacks it
        needed = {
            "config.json": defaults.of_task(
                tasks.named(values["task"]), values["model"]["name"]
            ).to_dict(),
            "data.json": dict.fromkeys(("files", "key", "splits")),
            "result.json": dict.fromkeys(("corpus", "model", "notes", "seeds")),
        }
        found = {name: _fields(read_json(directory.folder / name)) for name in needed}
        if all(_fields(parts) <= found[name] for name, parts in needed.items()):
            return restored_config(values)
    raise RunError(
        f"{directory.folder}: another version wrote this run", fix="train again with this version"
    )


def _fields(tree, prefix="") -> set[str]:
    """Dotted names of the leaves of nested dicts, and of the dicts."""
    below = (
        [_fields(item, f"{prefix}.{key}") for key, item in tree.items()]
        if isinstance(tree, dict)
        else []
    )
    return {prefix}.union(*below)


def _vectors_of(manifest: dict) -> tuple:
    """Content of the vector files, and retrofitting: they decide the vector of a word in any
    corpus."""
    key = manifest["key"]
    retrofitted = (key.get("retrofit"), key["retrofit_lexicon"])
    return (
        manifest["vocabulary"]["sha256"],
        retrofitted,
        key["retrofit_rounds"] if any(retrofitted) else 0,
    )
