"""A run: the experiment that a config describes, trained into a run directory, opened again, scored
and asked."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from html import escape
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np
import optax
from ml_collections import config_dict

from mednli_jax import checks, cli, defaults, tasks
from mednli_jax.data import batching, partitions
from mednli_jax.data.arrays import NEW, PLURAL, VECTORS_OF_RUN, Prepared, Rows, npy, roomy
from mednli_jax.data.cache import CONCEPTS
from mednli_jax.data.corpus import Corpus, cache_folder, corpus_folder, data_folder, file_path
from mednli_jax.data.examples import Split
from mednli_jax.data.labels import listed
from mednli_jax.data.pieces import VOCABULARY, PieceVocabulary, find_weights
from mednli_jax.data.text import Vocab
from mednli_jax.errors import (
    ConfigError,
    DataError,
    ResumableError,
    RunError,
    UsageError,
    UserError,
    summary,
)
from mednli_jax.files import (
    local_path,
    private_folder,
    sha256,
    write_atomic,
    write_json,
    write_sealed,
)
from mednli_jax.models import table
from mednli_jax.models.encoder import Encoder
from mednli_jax.models.layers import ATTENTION
from mednli_jax.models.weights import exported_files, read_architecture
from mednli_jax.report import html, sections
from mednli_jax.rundir import (
    DIRECT,
    SPLITS,
    TREES,
    TYPES,
    RunData,
    RunDirectory,
    RunResult,
    Scores,
    environment,
    read_json,
    read_kept,
)
from mednli_jax.terminal import warn
from mednli_jax.training import compiler, gradient, hosts, loop, optim, transfer
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import PRECISIONS, Program
from mednli_jax.training.session import Fitted, Session
from mednli_jax.training.settings import check_jax, numeric_settings
from mednli_jax.training.task import AttentionScorer, LabelScorer, PhraseScorer, Scorer

Config = Any  # a ConfigDict
Json = Any  # a JSON value
Manifest = dict[str, Json]  # of a prepared corpus, see data.cache
PyTree = Any  # variables of a model
Inputs = Any  # see Run.predict
Prediction = dict[str, Any]  # of one input, see Scorer.described
PairCorpus = Any  # nli.corpus.NLICorpus
Fit = Callable[["Experiment", Prepared, Session], Fitted]


@dataclass(frozen=True)
class Model:
    """A model of models.table, the fields of its module and the folder of its pretrained
    weights."""

    entry: table.Entry
    fields: dict[str, Json]
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
    """The experiment that a config describes.

    Attributes:
      task: the TASK, see tasks.
      trained_by: trains the model, where that is not the loop over one network.
      precision: of matrix products, a key of training.program.PRECISIONS.
      recorded_options: of the compiler, with which a resumed run began; None for those of this
        machine.
    """

    seeds: tuple[int, ...]
    task: tasks.Task
    corpus: Corpus
    scorer: Scorer
    model: Model
    optimizer: optim.Options
    settings: loop.Settings
    batches: batching.TrainingBatches
    transfer: Transfer = Transfer()
    trained_by: Fit | None = None
    precision: str = "default"
    recorded_options: compiler.Options | None = None

    def prepare(self) -> tuple[Prepared, bool]:
        """(the corpus as arrays with the rows that are scored, whether the cache had it)."""
        prepared, was_cached = self.corpus.prepare()
        return self.scorer.with_rows(prepared, self.corpus), was_cached

    def fit(self, prepared: Prepared, session: Session) -> Fitted:
        """Trains the model on the prepared corpus."""
        fit = self.trained_by or gradient.fit
        return fit(self, prepared, session)

    def program(
        self,
        prepared: Prepared,
        splits: Sequence[str] = (),
        *,
        model_facts: Mapping[str, int] | None = None,
        devices: Devices | None = None,
    ) -> tuple[Program, dict[str, batching.Batches]]:
        """The Program, with the corpus on the devices, and the batches of the splits. It compiles
        at first use.

        Args:
          splits: names; all without any.
          model_facts: of the corpus on which the model was trained, where that is not this one.
        """
        if model_facts is None:
            model_facts = self.scorer.model_facts(prepared.manifest)
        program = self.bare_program(prepared.vectors, model_facts, devices or Devices())
        program.data = program.devices.replicate(self.scorer.resident(prepared))
        batches = {}
        for name in splits or prepared.splits:
            batches[name] = self.batches_of(prepared, name, program)
        if "train" in batches:
            program.optimizer = self.optimizer_for(batches["train"])
        return program, batches

    def bare_program(
        self, vectors: np.ndarray, model_facts: Mapping[str, int], devices: Devices
    ) -> Program:
        """A Program without data and optimiser, for words with the vectors [V, D]."""
        precision = PRECISIONS[self.precision]
        is_one_cpu = devices.count == 1 and devices.platform == "cpu"
        train_options = self._train_options("cpu") if is_one_cpu else {}
        model = self.model.entry.build(
            self.model.fields,
            axis_name=devices.axis_name,
            platform=devices.platform,
            product_dtype=precision.product_dtype,
            # Eigen multiplies by the copy faster, and YNNPACK slower.
            transposes=bool(train_options),
            **model_facts,
        )
        frozen = devices.replicate(self.scorer.frozen(vectors))
        return Program(
            model,
            self.scorer,
            devices,
            frozen,
            data={},
            precision=precision,
            train_options=train_options,
        )

    def batches_of(self, prepared: Prepared, split: str, program: Program) -> batching.Batches:
        """The batches of a split for a Program."""
        return self.scorer.batches(
            prepared, split, self.batches, shares=program.devices.count, model=program.model
        )

    def optimizer_for(self, batches: batching.Batches) -> optax.GradientTransformation:
        """The optimiser for training on these batches."""
        return optim.build_optimizer(self.optimizer, batches.steps)

    def numeric_settings(self) -> dict[str, Json]:
        """The settings that change a run's numbers: jax's, and the option of its compiler for a
        step on one device."""
        options = self._train_options(jax.devices()[0].platform)
        return {**numeric_settings(), compiler.YNNPACK: options.get(compiler.YNNPACK)}

    def _train_options(self, platform: str) -> compiler.Options:
        """The options of the compiler for a training step on one device."""
        if self.recorded_options is not None:
            return self.recorded_options
        return compiler.options_for(
            self.model.entry.module,
            "train",
            self.batches.size,
            platform=platform,
            product_dtype=PRECISIONS[self.precision].product_dtype,
        )

    def keep_for_prediction(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Copies into the run the files that prediction needs, so that it works without the corpus
        and the cache."""
        folder = _folder(prepared)
        for name in ("vocabulary.json", "vectors.npy", CONCEPTS):
            if name != CONCEPTS or (folder / name).is_file():
                write_atomic(directory.private / name, (folder / name).read_bytes())
        if VECTORS_OF_RUN in prepared.manifest:
            write_atomic(directory.private / "vectors.npy", npy(prepared.vectors))
        if self.scores_types:
            scorer = cast(PhraseScorer, self.scorer)
            write_sealed(directory.private / TYPES, {"types": scorer.types(prepared)})
        self.task.keep(directory, prepared)

    @property
    def scores_types(self) -> bool:
        """Whether the model has one output for each phrase of the training split (its field
        num_types)."""
        return self.model.entry.has_field("num_types")

    @property
    def trains_words(self) -> bool:
        """Whether the model trains its own vectors of words or pieces."""
        return bool(self.model.fields.get("train_vectors", self.scorer.pieces))


def _folder(prepared: Prepared) -> Path:
    """The folder of a corpus in the cache. Only texts that were encoded in memory have none."""
    assert prepared.folder is not None
    return prepared.folder


# -- from a config ---------------------------------------------------------------------------------


def experiment_of(config: Config) -> Experiment:
    """The experiment of a config."""
    task, entry = checks.check(config)
    train, seeds = config.train, tuple(config.seeds)
    model = _model(config, entry)
    batches = batching.TrainingBatches(
        train.batch_size, train.group, train.max_buckets, seeds, train.epochs, train.shuffle
    )
    transferred = Transfer()
    if "transfer" in config:
        transferred = Transfer(config.transfer.init_from, config.transfer.private)
    return Experiment(
        seeds=seeds,
        task=task,
        corpus=task.corpus(config),
        scorer=task.scorer(config),
        model=model,
        optimizer=optim.Options.from_config(train),
        settings=loop.Settings.from_config(train),
        batches=batches,
        transfer=transferred,
        trained_by=task.fit(config),
        precision=train.precision,
    )


def _model(config: Config, entry: table.Entry) -> Model:
    """The model. Pretrained weights set its sizes; a size that the config gives must be theirs."""
    fields, weights = config.model.to_dict(), None
    if entry.pretrained and fields.get("weights"):
        path = file_path(fields["weights"], data_folder(config.data.dir))
        assert path is not None
        weights = find_weights(path)
        sizes = pretrained_sizes(weights)
        _check_sizes(fields, sizes, defaults.transformer(entry.name))
        fields |= sizes
    if entry.pretrained:
        most = fields["positions"] - fields.get("first_position", 0)
        if config.data.max_length > most:
            problem = f"is {config.data.max_length}, and the model has {most} positions"
            raise ConfigError(problem, field="data.max_length", fix=f"give at most {most}")
    if entry.module is not None:  # refuses bad fields
        size = {"vocab_size": 1} if entry.has_field("vocab_size") else {}
        entry.build(size | fields)
    return Model(entry, fields, weights)


def pretrained_sizes(weights: Path) -> dict[str, Json]:
    """The fields of the model that pretrained weights set. Raises DataError for a tokenizer of
    other weights."""
    sizes = read_architecture(weights)
    PieceVocabulary.load(weights).check_weights(sizes["vocab_size"], sizes["token_types"])
    return sizes


def _check_sizes(fields: Mapping[str, Json], sizes: Mapping[str, Json], default: Config) -> None:
    """Raises ConfigError for a field with another value than the weights and its default have."""
    for name, size in sizes.items():
        # A size without a default is that of the weights of a finished run.
        if name in fields and fields[name] not in (size, default.get(name, size)):
            problem = f"is {fields[name]}, and the weights of model.weights have {size}"
            fix = "leave it out; the weights decide it"
            raise ConfigError(problem, field=f"model.{name}", fix=fix)


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


# -- training --------------------------------------------------------------------------------------


def train(
    experiment: Experiment,
    folder: Path,
    config: Mapping[str, Json],
    *,
    name: str = "run",
    resume: bool = False,
    force: bool = False,
    wait: float = 0,
    profile: bool = False,
    resume_command: str,
    command_line: Sequence[str] = (),
    on_epoch: Callable[[loop.Row], None] = lambda row: None,
) -> RunDirectory | None:
    """Trains an experiment into a run directory, with its result. Returns None where the run and
    its page were complete already.

    Where the corpus or the folder cannot be used, the folder is not changed. loop.Interrupted is
    raised where a signal ended the training, after the run has been saved.

    Args:
      config: the content of the directory's config.json.
      name: of the config, as tables show it.
      wait: seconds to wait for another process that trains in the folder.
      resume_command: resumes the run, for the message of an interruption.
      command_line: of this process, for env.json.
      on_epoch: called with a copy of each row of metrics, after it was written.
    """
    process = hosts.here()
    start_jax()
    RunDirectory.check(folder, resume=resume, force=force)
    # Before the directory is created, so that bad data or a bad source leaves none.
    data = _training_data(experiment, process)
    warnings = list(experiment.task.warnings(data.prepared))
    with contextlib.closing(
        RunDirectory.create(folder, config, resume=resume, force=force, wait=wait)
    ) as directory:
        began = directory.environment()  # empty for a new run
        own_settings = experiment.numeric_settings()
        options = compiler.recorded_options(began.settings)
        experiment = replace(experiment, recorded_options=options)
        session = Session(
            directory,
            resume=resume,
            profile=profile,
            source=data.source,
            command_line=command_line,
            on_epoch=on_epoch,
            settings=experiment.numeric_settings(),
            cpus=began.cpus_of_sessions,
        )
        if resume and directory.status() == "complete":
            has_page = (folder / "report.html").is_file()
            left = "nothing to do" if has_page else "its page is written now"
            session.say(f"{folder}: the run is complete already; {left}.")
            return None if has_page else directory
        if resume:  # checked before anything is written, so that a refusal does not change the run
            directory.check_data(data.prepared.manifest)
            directory.check_settings(session.settings)
            directory.metrics()
            session.count_earlier_sessions()
        session.write_status("running")
        state = "found prepared" if data.was_cached else "prepared"
        session.say(f"corpus {experiment.corpus.name}: {state} in {data.prepared.folder}")
        if session.settings != own_settings:
            option = f"{compiler.YNNPACK}={session.settings[compiler.YNNPACK]}"
            warnings.append(f"the run keeps the option of its first processor, {option}")
        for line in (*session.notes, *warnings):
            session.say(f"warning: {line}")
        try:
            fitted = experiment.fit(data.prepared, session)
            _finish(experiment, name, data.prepared, fitted, directory, session)
            return directory
        except (loop.Interrupted, KeyboardInterrupt, ResumableError):
            session.write_status("interrupted")
            session.say(f"interrupted. To continue: {resume_command}")
            raise loop.Interrupted from None
        except BaseException as error:
            process.await_loss(error)
            _note_failure(error, directory, session)
            raise


def _note_failure(error: BaseException, directory: RunDirectory, session: Session) -> None:
    """Writes the failure to result.json and the log. A full disk refuses that, too, and the first
    error must be reported."""
    with contextlib.suppress(UserError):
        session.write_failure(resumable=not isinstance(error, ConfigError | DataError))
        # The message of a bug may quote text.
        reason = error if isinstance(error, UserError) else summary(error)
        directory.log(f"failed: {reason}")


def _finish(
    experiment: Experiment,
    name: str,
    prepared: Prepared,
    fitted: Fitted,
    directory: RunDirectory,
    session: Session,
) -> None:
    """Scores dev and test, writes the result, prints the summary."""
    scorer = experiment.scorer
    notes = _notes(prepared) + fitted.notes + session.notes
    result = {
        "corpus": experiment.corpus.title,
        "task": scorer.name,
        "model": experiment.model.name,
        "config": name,
        "seeds": list(experiment.seeds),
        **fitted.facts,
        "notes": notes,
        "prepared": _folder(prepared).name,
    }
    if "shared" in prepared.manifest:
        result["shared"] = prepared.manifest["shared"]
    lines = []
    if fitted.logits:
        scores_of = _scored(directory, scorer, prepared.splits, fitted.logits)
        lines = [scorer.summary(split, scores) for split, scores in scores_of.items() if scores]
        result |= scores_of
    session.write_complete(result)
    for section in experiment.task.closing_sections(directory, directory.result()):
        lines += sections.lines(section)
    lines += [f"warning: {note}" if note in fitted.notes else note for note in notes]
    for line in (*lines, *fitted.lines, f"run: {directory.folder}"):
        session.say(line)


def _notes(prepared: Prepared) -> list[str]:
    """The remarks on the splits of a corpus."""
    splits = prepared.manifest["splits"].values()
    return sorted({facts["note"] for facts in splits if "note" in facts})


def _scored(
    directory: RunDirectory,
    scorer: Scorer,
    splits: Mapping[str, Rows],
    logits: Callable[[str], np.ndarray],
) -> dict[str, Scores | None]:
    """The scores of each split, None for one that is lacking; writes the predictions.

    logits: split -> [S, N, C].
    """
    scores_of: dict[str, Scores | None] = dict.fromkeys(SPLITS)
    for split in SPLITS:  # in the order of `train_along`
        if rows := splits.get(split):
            logits_SNC = logits(split)
            scores_of[split] = scorer.score(rows, logits_SNC)
            predictions = scorer.predictions(rows, logits_SNC)
            directory.write_lines(f"predictions.{split}.jsonl", predictions)
    return scores_of


def write_page(directory: RunDirectory, task: tasks.Task) -> Path:
    """Writes the report.html of a run and returns its path."""
    path = directory.folder / "report.html"
    write_atomic(path, html.run_page(directory, task.run_sections, task.units).html())
    return path


def train_along(experiment: Experiment) -> None:
    """Runs in every process except the first: trains with the others, without output and without
    writing files."""
    process = hosts.here()
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        start_jax()
        data = _training_data(experiment, process)
        try:
            fitted = experiment.fit(data.prepared, Session(None))
        except KeyboardInterrupt:
            raise loop.Interrupted from None
        except BaseException as error:
            process.await_loss(error)
            raise
        for split in SPLITS:
            if fitted.logits and data.prepared.splits.get(split):
                fitted.logits(split)


class TrainingData(NamedTuple):
    """The corpus of a training.

    Attributes:
      was_cached: whether the cache had it.
      source: the run whose weights are taken; None in all processes except the first.
    """

    prepared: Prepared
    was_cached: bool
    source: Run | None = None


def _training_data(experiment: Experiment, process: hosts.Hosts) -> TrainingData:
    """Prepares the corpus in the first process; the others wait and read it.

    Only the first process opens the source run; its vectors are those of all.
    """
    if not process.leads:
        process.meet()
    prepared, was_cached = experiment.prepare()
    if process.leads:
        process.meet()
    process.check_same("corpus", prepared.manifest["files"])
    experiment.task.check_prepared(experiment, prepared)
    if not experiment.transfer.init_from:
        return TrainingData(prepared, was_cached)
    source, vectors = None, np.asarray(prepared.vectors)
    if process.leads:
        source = source_run(experiment, prepared)
        vectors = source.vectors_for(prepared)
    prepared = prepared.with_vectors(process.of_first(vectors))
    prepared = experiment.scorer.with_rows(prepared, experiment.corpus)
    return TrainingData(prepared, was_cached, source)


# -- systems and their scores ----------------------------------------------------------------------


# Fields of `data` that name a corpus, besides its folder.
NAMING = ("name", "genre", "builder", "limit", "labels", "columns")
# Settings that decide the vector of a word: name in the manifest's key -> field of the config.
OF_WORDS = {
    "lowercase": "data.lowercase",
    "unknown": "vectors.unknown",
    "lowered": "vectors.lowered",
}


class Predictions(list[Prediction]):
    """The prediction for each new input, in the order of the inputs, see Scorer.described.

    Attributes:
      unknown_words: side -> number of tokens without a vector.
      truncated: name of texts -> number of those that were cut to the model's length.
    """

    def __init__(
        self,
        rows: Iterable[Prediction],
        unknown_words: Mapping[str, int],
        truncated: Mapping[str, int],
    ) -> None:
        super().__init__(rows)
        self.unknown_words, self.truncated = unknown_words, truncated


class Scored(NamedTuple):
    """The scores of a split and the logits [S, N, C] that were scored."""

    scores: Scores
    logits: np.ndarray


class System(ABC):
    """A run, or the answers of any system, and the corpus on which it is scored.

    Attributes:
      directory: of the run; its folder is the file of answers.
      config: of the system; on another corpus (`Run.on`) with that corpus.
      result: of the run.
      merged_by: the source of the entities whose tokens are merged, if any are.
    """

    directory: RunDirectory
    config: Config
    result: RunResult
    merged_by: str = ""

    def __init__(self) -> None:
        self._scores_of: dict[str, Scored] = {}

    @property
    @abstractmethod
    def experiment(self) -> Experiment:
        """Of the config."""

    @property
    def task(self) -> tasks.Task:
        """The TASK, see tasks."""
        return self.experiment.task

    @property
    def scorer(self) -> Scorer:
        return self.experiment.scorer

    @property
    @abstractmethod
    def prepared(self) -> Prepared:
        """The corpus that is scored, as arrays with the rows that the task scores."""

    @abstractmethod
    def _logits(self, split: str) -> np.ndarray:
        """[S, N, C] of a split."""

    @abstractmethod
    def _origin(self) -> dict[str, Json]:
        """Fields of the result.json that `write` makes: where the predictions come from."""

    def scored_splits(self) -> Mapping[str, Rows]:
        """The rows of the splits that `write` scores."""
        return self.prepared.splits

    def score(self, split: str) -> Scored:
        """The scores and logits of a split; they are computed once."""
        if split not in self.prepared.splits:
            problem = f"--split={split}: the corpus has no such split"
            raise UsageError(problem, fix=f"give one of {', '.join(self.prepared.splits)}")
        if split not in self._scores_of:
            logits = self._logits(split)
            scores = self.scorer.score(self.prepared.splits[split], logits)
            self._scores_of[split] = Scored(scores, logits)
        return self._scores_of[split]

    def partition_scores(self, split: str, partition: partitions.Partition) -> Scores:
        """The scores of the pairs of a split that are in a partition; {"examples": 0} where there
        are none."""
        corpus: PairCorpus = self.experiment.corpus
        uids = partitions.uids_of(partition, self.prepared, corpus)
        rows, logits = self.prepared.splits[split], self.score(split).logits
        inside = np.array([uid in uids for uid in rows.uids])
        if not inside.any():
            return {"examples": 0}
        tags = tuple(tags for tags, chosen in zip(rows.tags, inside, strict=True) if chosen)
        part = replace(rows, label=rows.label[inside], tags=tags)
        return self.scorer.score(part, logits[:, inside])

    def write(self, folder: Path, command_line: Sequence[str] = ()) -> None:
        """Writes a complete run directory of the system on another corpus, so that `report` can
        compare it. command_line: of this process, for env.json."""
        directory = RunDirectory.create(folder, self.config.to_dict())
        write_json(directory.folder / "env.json", asdict(environment(command_line)))
        write_json(directory.folder / "data.json", self.prepared.manifest)
        result = {
            "model": self.result.model,
            "config": self.result.config,
            "seeds": self.result.seeds,
            "best_epoch": self.result.best_epoch,
            "epochs": self.result.epochs,
            "parameters": self.result.parameters,
            "task": self.scorer.name,
            "corpus": self.experiment.corpus.title,
            "notes": _notes(self.prepared),
            "prepared": _folder(self.prepared).name,
            **self._origin(),
        }

        def logits(split: str) -> np.ndarray:
            return self.score(split).logits

        result |= _scored(directory, self.scorer, self.scored_splits(), logits)
        directory.write_result("complete", result)


class Run(System):
    """The run in a folder. All but the result is read at first use.

    Attributes:
      result: the content of result.json; `run.result["test"]` is a field of it.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        path = local_path(folder, "the folder of a run").absolute()
        self.directory = RunDirectory.existing(path)
        self.result = self.directory.result()

    @property
    def folder(self) -> Path:
        return self.directory.folder

    @property
    def report(self) -> Path:
        """The page with learning curves and scores by class and slice."""
        return self.folder / "report.html"

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """{split: {metric: mean over the seeds}}, from 0 to 1."""
        means: dict[str, dict[str, float]] = {}
        for split, scores in self.result.scored().items():
            means[split] = {}
            for name, score in scores.items():
                if isinstance(score, dict) and "mean" in score:
                    means[split][name] = score["mean"]
        return means

    def __repr__(self) -> str:
        lines = [f"Run({str(self.folder)!r}): {self.result.status}"]
        for split, scores in self.scores.items():
            figures = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
            lines.append(f"  {split}: {figures}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(chain.from_iterable(self.scores.values())))
        rows = [["", *names]] if self.scores else []
        for split, scores in self.scores.items():
            rows.append([split])
            for name in names:
                rows[-1].append(f"{scores[name]:.4f}" if name in scores else "")
        table = ""
        for row in rows:
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
            table += f"<tr>{cells}</tr>"
        title = escape(f"{self.folder.name}: {self.result.status}")
        return f"<b>{title}</b><table>{table}</table>"

    # -- its files ---------------------------------------------------------------------------------

    @cached_property
    def config(self) -> Config:
        return restored_config(self.directory.config)

    @cached_property
    def experiment(self) -> Experiment:
        """Raises RunError for a run that is not finished, or that keeps no weights."""
        self._check_weights()
        start_jax()
        return self._experiment_of(self.config)

    def _experiment_of(self, config: Config) -> Experiment:
        """The experiment of a config of the run, which has the sizes and the pieces of its
        pretrained weights, so that their folder is not needed."""
        if not config.model.get("weights"):
            return experiment_of(config)
        config = restored_config(config.to_dict())
        config.model.weights = ""
        experiment = experiment_of(config)
        corpus: PairCorpus = experiment.corpus
        pieces = replace(corpus.pieces, file=self.checked_file(VOCABULARY))
        return replace(experiment, corpus=replace(corpus, pieces=pieces))

    def _check_weights(self) -> None:
        if self.result.status != "complete":  # the checkpoints may change while they are read
            raise self.directory.unfinished(self.result.status)
        without_weights = {
            "direct transfer": self.result.direct,
            "folds": "folds" in self.result.values,
            "another system's answers": self.result.answers,
        }
        if any(without_weights.values()):
            kind = next(filter(without_weights.get, without_weights))
            problem = f"{self.folder}: a run of {kind} keeps no weights"
            report = f"python -m mednli_jax.report {shlex.quote(str(self.folder))}"
            raise RunError(problem, fix=f"its scores are in result.json, `{report}` shows them")

    @cached_property
    def manifest(self) -> Manifest:
        """Of the corpus on which the run was trained."""
        return read_json(self.folder / "data.json", "files", "key", "splits")

    @cached_property
    def vocabulary(self) -> Vocab | PieceVocabulary:
        """Of the corpus on which the run was trained."""
        file = self.checked_file("vocabulary.json")
        vocabulary: Vocab | PieceVocabulary = self.experiment.corpus.read_vocabulary(file)
        return vocabulary

    @cached_property
    def vectors(self) -> np.ndarray:
        """[V, D], of the vocabulary."""
        vectors: np.ndarray = np.load(self.checked_file("vectors.npy"), allow_pickle=False)
        return vectors

    def checked_file(self, name: str) -> Path:
        """The path of a file in private/, checked against the manifest."""
        path, digests = self.directory.private / name, self.manifest["files"]
        if VECTORS_OF_RUN in self.manifest:
            digests = {**digests, "vectors.npy": self.manifest[VECTORS_OF_RUN]}
        try:
            if sha256(path) == digests[name]:
                return path
        except OSError:
            pass
        problem = f"{path}: is missing or differs from what the run wrote"
        raise RunError(problem, fix="restore the run directory")

    @cached_property
    def predictor(self) -> tasks.Predictor | None:
        """Gives the logits of a model that is no network."""
        return self.task.predictor(self)

    @cached_property
    def variables(self) -> PyTree | None:
        """Of the best epoch of each of S seeds, leaves [S, ...]; None where there is a
        predictor."""
        if self.predictor:
            return None
        checkpoint = Checkpoints(self.directory.checkpoints).load()
        best = checkpoint.tree["best"] if checkpoint else None
        if best is None or best["epoch"].tolist() != self.result.best_epoch:
            folder = self.directory.checkpoints
            problem = f"{folder}: what is left undamaged is not the finished run"
            raise RunError(problem, fix="restore the run directory, or train again with --force")
        return {"params": best["params"], "batch_stats": best.get("batch_stats", {})}

    # -- scores ------------------------------------------------------------------------------------

    @cached_property
    def prepared(self) -> Prepared:
        prepared, _ = self.experiment.corpus.prepare()
        self.directory.check_data(prepared.manifest)
        if VECTORS_OF_RUN in self.manifest:
            prepared = prepared.with_vectors(self.vectors)
        return self.scorer.with_rows(prepared, self.experiment.corpus)

    def evaluate(self, split: str = "test", config: str | Config | None = None) -> Scores:
        """Scores of a split, in the form of result.json.

        config: names another corpus; a ConfigDict, or the name of one, such as "esim:mednli".
        """
        if config is None:
            return self.score(split).scores
        other_config = named_config(config)
        self.check_task(other_config)
        return self.on(other_config.data, split).score(split).scores

    def _origin(self) -> dict[str, Json]:
        source, corpus = self.directory.folder.name, self.result.corpus
        return {"transfer": {"source": source, "corpus": corpus, "mode": DIRECT}}

    def _logits(self, split: str) -> np.ndarray:
        if self.predictor:
            rows = self.prepared.splits[split]
            return self.predictor.logits(self.experiment.corpus, self.prepared, rows)
        facts = self.scorer.model_facts(self.manifest)
        program, batches = self.experiment.program(self.prepared, [split], model_facts=facts)
        return program.logits(self.variables, batches[split])

    def outputs(self) -> dict[str, np.ndarray]:
        """uid -> logits [S * C] of all pairs of the corpus."""
        outputs: dict[str, np.ndarray] = {}
        for split, rows in self.prepared.splits.items():
            logits_NSC = np.swapaxes(self.score(split).logits, 0, 1)
            lacking_C = np.isneginf(logits_NSC).all(axis=(0, 1))  # classes that training lacked
            flat_NF = logits_NSC[..., ~lacking_C].reshape(len(rows), -1)
            outputs |= dict(zip(rows.uids, flat_NF, strict=True))
        return outputs

    # -- other corpora -----------------------------------------------------------------------------

    def vectors_for(self, prepared: Prepared) -> np.ndarray:
        """The vectors [V, D] of another corpus; words that the run knows have the run's, and so has
        the unknown word.

        The unknown word's is a mean over the words of a corpus, and retrofitting moves a word
        towards others of it.
        """
        vectors = np.array(prepared.vectors)
        file = _folder(prepared) / "vocabulary.json"
        words = self.experiment.corpus.read_vocabulary(file).words
        row_of = {word: row for row, word in enumerate(self.vocabulary.words)}
        rows = np.array([row_of.get(word, -1) for word in words])
        vectors[rows >= 0] = self.vectors[rows[rows >= 0]]
        return vectors

    def check_task(self, config: Config) -> None:
        """Raises UsageError where a config is of another task than the run."""
        if config.task != self.config.task:
            corpora = f"{tasks.task_of(config).corpora}, and the run of {self.task.corpora}"
            raise UsageError(f"--config is of {corpora}", fix="give another")

    def on(self, data: Config, split: str = "") -> Run:
        """The run on another corpus: direct transfer (Romanov & Shivade 2018, section 4.1).

        The corpus is read and encoded as the run's own. Words new to the run have vectors from its
        vector file; a word without a vector is read as the run's unknown word. Concepts in place of
        words are those of the run's training pairs.

        Args:
          data: section of a config, of which NAMING and the folder are used.
          split: the only one that will be scored; the files of other splits may be missing.
        """
        if self.predictor:
            problem = f"{self.directory.folder}: a run of features is scored on its own corpus only"
            fix = "give a run of a network, or `predict` on the other corpus's pairs"
            raise RunError(problem, fix=fix)
        config = restored_config(self.config.to_dict())
        config.data.update({name: data[name] for name in NAMING})
        if "augment" in config.data:
            config.data.augment = 0.0  # only training has written pairs
        # The ontology and the vectors are where the run has them.
        experiment = self._experiment_of(config)
        config.data.dir = data.dir
        corpus: PairCorpus = experiment.corpus
        corpus = replace(corpus, folder=corpus_folder(config.data), only=split)
        corpus = corpus.asked_by(self.vocabulary, self.vectors)
        scorer = self.scorer
        if isinstance(scorer, LabelScorer):
            scorer = scorer.on(experiment.scorer)
        experiment = replace(experiment, corpus=corpus, scorer=scorer)
        prepared, _ = corpus.prepare()
        self.check_words(prepared)
        self._check_ontology(prepared)
        prepared = prepared.with_vectors(self.vectors_for(prepared))
        prepared = scorer.with_rows(prepared, corpus)
        other = self.having(prepared)
        other.config, other.experiment = config, experiment
        return other

    def having(self, prepared: Prepared, merged_by: str = "") -> Run:
        """The run on other arrays of its corpus."""
        other = Run(self.folder)
        other.config, other.experiment = self.config, self.experiment
        other.prepared, other.merged_by = prepared, merged_by
        other.manifest, other.vocabulary = self.manifest, self.vocabulary
        other.vectors, other.variables = self.vectors, self.variables
        other.predictor = self.predictor
        return other

    def _check_ontology(self, prepared: Prepared) -> None:
        own = RunData.from_json(self.manifest).ontology_sha256
        if own != RunData.from_json(prepared.manifest).ontology_sha256:
            ontology = self.config.knowledge.ontology
            problem = f"the ontology '{ontology}' changed since the run was trained"
            raise RunError(problem, fix="restore it, or train again")

    def check_words(self, prepared: Prepared) -> None:
        """Raises RunError where the words of a corpus do not have the vectors with which the run
        was trained."""
        own, corpus = RunData.from_json(self.manifest), RunData.from_json(prepared.manifest)
        trained = self.experiment.trains_words
        same_words = own.files["vocabulary.json"] == corpus.files["vocabulary.json"]
        same_vectors = own.files["vectors.npy"] == corpus.files["vectors.npy"]
        if same_words and (trained or same_vectors):
            return
        unlike = []  # fields by which words are looked up in another way
        for name, field_name in OF_WORDS.items():
            if own.key.get(name) != corpus.key.get(name):
                unlike.append(f"config.{field_name}")
        if trained:
            problem = "trained its word vectors, and the other corpus has other words"
            without = "config.model.train_vectors=False; not fasttext"
            fix = f"train a source whose vectors stay as they are ({without})"
        elif same_words or _source_of_vectors(own) != _source_of_vectors(corpus):
            problem = "has other word vectors than this config"
            fix = "give both the same config.vectors"
        elif unlike:
            fields = ", ".join(unlike)
            problem = f"looks up words in another way ({fields})"
            fix = f"give both the same {fields}"
        elif not self.config.vectors.path:
            problem = "has random word vectors, and the other corpus has other words"
            fix = "train the source with config.vectors.path=FILE"
        else:
            return
        raise RunError(f"{self.directory.folder}: {problem}", fix=fix)

    # -- new inputs --------------------------------------------------------------------------------

    def predict(self, inputs: Inputs) -> Predictions | Prediction:
        """Predictions for new inputs, in their order: the label, and means over the seeds.

        inputs: a list of (premise, hypothesis) or {"premise": ..., "hypothesis": ...}; for a
        reader, passage and query.
          One of them without a list gives its prediction without a list.
        """
        is_pair = isinstance(inputs, tuple) and all(isinstance(text, str) for text in inputs)
        if is_pair or isinstance(inputs, Mapping):
            return self.predictions([inputs])[0]
        return self.predictions(inputs)

    def predictions(self, inputs: Inputs) -> Predictions:
        """The predictions for a list of new inputs."""
        examples = self._new_examples(inputs)
        if not examples:
            return Predictions([], dict.fromkeys(self.scorer.sides, 0), {})
        prepared = self._encoded(examples)
        logits = self._logits_of_new(examples, prepared)
        truncated = {}
        for name, count in prepared.manifest["truncated"].items():
            if count:
                truncated[PLURAL.get(name, name)] = count
        rows = self.scorer.described(prepared.splits[NEW], logits)
        return Predictions(rows, prepared.manifest["unknown_tokens"], truncated)

    def warm_up(self, lengths: Iterable[Sequence[int]]) -> None:
        """Compiles ahead, so that later calls of `predict` only compute.

        lengths: of the inputs to come, the tokens of each text: [(20, 10), (50, 20)]. A program
        serves all lengths up to the next power of two, from 32 on; one is for an input alone, one
        for lists of up to 64.
        """
        for tokens in lengths:
            texts = tuple(" ".join(["a"] * number) for number in tokens)
            for count in (1, 2):
                self.predictions([texts] * count)

    def of_new(self, split: Split) -> tuple[Rows, np.ndarray]:
        """(rows, logits [S, N, C]) of new examples."""
        prepared = self._encoded(split.examples)
        return prepared.splits[NEW], self._logits_of_new(split.examples, prepared)

    def _new_examples(self, inputs: Inputs) -> Sequence[Any]:
        form = self.task.form.with_columns(self.config.data.get("columns", ""))
        return tuple(self.scorer.new_examples(form.checked(inputs), self.manifest))

    def _encoded(self, examples: Sequence[Any]) -> Prepared:
        """New examples as a corpus in memory, in round sizes."""
        corpus = self.experiment.corpus
        splits = {NEW: Split(NEW, tuple(examples))}
        prepared = corpus.encoded(splits, self.vocabulary, self.vectors, self._kept_names)
        self._check_ontology(prepared)
        # Where the logits depend on the padded length, it is that of training.
        width = self.result.width if self.scorer.padded_length else None
        prepared = replace(prepared, arrays=roomy(prepared.arrays, width))
        return self.scorer.with_rows(prepared, corpus)

    def _logits_of_new(self, examples: Sequence[Any], prepared: Prepared) -> np.ndarray:
        """[S, N, C] of new examples and their arrays."""
        if self.predictor:
            corpus = self.experiment.corpus
            return self.predictor.of_new(corpus, examples, self.vocabulary, self.vectors)
        program = self._program
        program.data = program.devices.replicate(self.scorer.resident(prepared))
        logits = program.logits(self.variables, self.experiment.batches_of(prepared, NEW, program))
        program.data = {}  # frees the texts and keeps the programs
        return logits

    @cached_property
    def _kept_names(self) -> Sequence[str] | None:
        """The concepts of the run's graph, or the phrases that have an output in its model; None
        for neither."""
        path = self.directory.private / CONCEPTS
        names: Sequence[str] | None = None
        if path.is_file():
            names = json.loads(path.read_bytes())
        elif self.experiment.scores_types:
            names = read_kept(self.directory, TYPES)["types"]
        return names

    @cached_property
    def _program(self) -> Program:
        facts = self.scorer.model_facts(self.manifest)
        return self.experiment.bare_program(self.vectors, facts, Devices())

    def attention(self, inputs: Inputs) -> list[dict[str, Json]]:
        """The attention weights of each input, for each seed: see AttentionScorer.looked_at."""
        examples = self._new_examples(inputs)
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
        data = self.scorer.resident(prepared)
        plan = self.experiment.batches_of(prepared, NEW, self._program).plan
        layout = batching.Layout.full(1, plan.width, joint=plan.joint)

        def of_seed(variables: PyTree, frozen: PyTree, data: PyTree, index: jax.Array) -> PyTree:
            batch = self.scorer.to_batch(data, index, layout)
            variables = {**variables, "frozen": frozen}
            _, sown = model.apply(variables, batch, train=False, mutable=[ATTENTION])
            return sown.get(ATTENTION, {})

        of_seeds = jax.jit(jax.vmap(of_seed, in_axes=(0, None, None, None)))
        frozen, rows = self.scorer.frozen(self.vectors), prepared.splits[NEW]
        scorer, corpus = cast(AttentionScorer, self.scorer), self.experiment.corpus
        maps = []
        for number, example in enumerate(examples):
            sown = of_seeds(self.variables, frozen, data, np.array([[number]]))
            if not sown:
                raise lacking
            first_N, second_N = rows.length
            lengths = int(first_N[number]), int(second_N[number])
            weights = jax.tree.map(np.asarray, sown)
            maps.append(scorer.looked_at(corpus, self.vocabulary, example, lengths, weights))
        return maps


def _source_of_vectors(data: RunData) -> tuple[str, str | None, Json, int]:
    """What decides the vector of a word in any corpus: the content of the files, the retrofitting,
    its lexicon and its rounds."""
    retrofit, lexicon = data.key.get("retrofit"), data.key["retrofit_lexicon"]
    rounds = data.key["retrofit_rounds"] if retrofit or lexicon else 0
    return data.vectors_sha256, retrofit, lexicon, rounds


class Answered(System):
    """The answers of a file to the pairs of one split of the corpus of a config, which are scored
    as the predictions of a run are."""

    def __init__(self, config: Config, path: Path, split: str) -> None:
        super().__init__()
        self.directory, self.config, self.split = RunDirectory(path), config, split
        self.result = RunResult(
            "complete",
            model=path.name,
            config=path.name,
            corpus=self.experiment.corpus.title,
            seeds=[0],
        )

    @cached_property
    def experiment(self) -> Experiment:
        experiment = experiment_of(self.config)
        corpus: PairCorpus = experiment.corpus
        return replace(experiment, corpus=replace(corpus, only=self.split))

    @cached_property
    def prepared(self) -> Prepared:
        return self.experiment.prepare()[0]

    def _origin(self) -> dict[str, Json]:
        return {"answers": self.directory.folder.name}

    def _logits(self, split: str) -> np.ndarray:
        return self.task.answers(self.directory.folder, self.prepared.splits[split], self.config)

    def scored_splits(self) -> Mapping[str, Rows]:
        return {self.split: self.prepared.splits[self.split]}


# -- from runs -------------------------------------------------------------------------------------


def source_run(target: Experiment, prepared: Prepared) -> Run:
    """The run that config.transfer.init_from of a new run names. prepared: the corpus of the new
    run."""
    source = Run(target.transfer.init_from)
    folder = source.directory.folder
    if source.predictor:
        raise RunError(f"{folder}: has trees and no weights", fix="name the run of a network")
    source.check_words(prepared)
    theirs, ours = source.scorer.labels, target.scorer.labels
    if theirs != ours and not target.transfer.private:
        problem = f"{folder}: has the labels {', '.join(theirs)}, and the corpus {', '.join(ours)}"
        fix = f"give them in this order: config.data.labels={listed(theirs)}"
        if set(theirs) != set(ours):
            anew = "draw the last layers anew, config.transfer.private=True"
            fix = f"map them, config.data.labels=LABEL:NAME,..., or {anew}"
        raise RunError(problem, fix=fix)
    if source.experiment.trains_words and not target.trains_words:
        problem = f"{folder}: trained its word vectors, which this config does not take over"
        raise RunError(problem, fix="also give config.model.train_vectors=True")
    transfer.seed_rows(source.experiment.seeds, target.seeds)
    return source


def export(folder: Path, target: Path) -> None:
    """Copies what prediction needs of a finished run into a new folder: a run directory, with a
    model card."""
    run = Run(folder)
    source = run.directory
    # An unfinished or damaged run is refused before anything is written.
    has_weights = run.variables is not None
    for name in ("vocabulary.json", "vectors.npy"):
        run.checked_file(name)
    if target.exists() and any(target.iterdir()):
        raise RunError(f"{target}: holds files already", fix="name a new folder")
    with contextlib.closing(RunDirectory.create(target, source.config)) as directory:
        checkpoint = Checkpoints(source.checkpoints).load() if has_weights else None
        if checkpoint:
            Checkpoints(directory.checkpoints).save(*checkpoint, alone=True)
        private = ("vocabulary.json", "vectors.npy", CONCEPTS, TYPES, TREES)
        names = ["data.json", *(f"private/{name}" for name in private), "result.json"]
        for name in names:
            if (source.folder / name).is_file():
                write_atomic(directory.folder / name, (source.folder / name).read_bytes())
    write_atomic(target / "README.md", _model_card(run))


def _model_card(run: Run) -> str:
    """The README.md of an exported run, in the format of Hugging Face's model cards."""
    facts = "library_name: mednli_jax\nlanguage: en\nlicense: other"
    tags = f"tags: [clinical, jax, {run.scorer.name}]"
    call = f"load_run(FOLDER).predict([{run.task.form}])"
    use = f"```python\nfrom mednli_jax import load_run\n\n{call}\n```"
    _, card = html.public_pages(html.public_figures(run.directory.folder))
    return f"---\n{facts}\n{tags}\n---\n{card}\n## Use\n\n{use}\n"


def export_to_transformers(folder: Path, target: Path) -> None:
    """Writes the encoder of a finished run as the Transformers library reads it, and its
    tokenizer; into a folder for each seed where there are several."""
    run = Run(folder)
    entry, vocabulary = run.experiment.model.entry, run.vocabulary
    if not isinstance(vocabulary, PieceVocabulary):
        problem = f"{folder}: the Transformers library has no model like '{entry.name}'"
        raise RunError(problem, fix="leave out --format, or give a run of an encoder")
    if target.exists() and any(target.iterdir()):
        raise RunError(f"{target}: holds files already", fix="name a new folder")
    facts, variables = run.scorer.model_facts(run.manifest), run.variables
    model = entry.build(run.experiment.model.fields, **facts)
    assert isinstance(model, Encoder)  # no other model reads pieces
    if model.knowledge != "none":
        warn("the links of the run stay behind: the exported model predicts without them")
    seeds = run.experiment.seeds
    for place, seed in enumerate(seeds):
        seed_folder = target / f"seed-{seed}" if len(seeds) > 1 else target
        private_folder(seed_folder, fix="name another folder")
        params = jax.tree.map(itemgetter(place), variables)["params"]
        for name, content in exported_files(model, params, run.scorer.labels).items():
            write_atomic(seed_folder / name, content)
        vocabulary.save_for_transformers(seed_folder, run.config.data.max_length)


def named_config(config: str | Config) -> Config:
    """The config, or that of a name, with the labels of its files."""
    return tasks.with_labels(cli.read_config(config) if isinstance(config, str) else config)


def restored_config(values: Mapping[str, Json]) -> Config:
    """The config with the content of a config.json: lists become tuples again."""

    def with_tuples(value: Json) -> Json:
        if isinstance(value, dict):
            return {key: with_tuples(below) for key, below in value.items()}
        return tuple(value) if isinstance(value, list) else value

    return config_dict.ConfigDict(with_tuples(values))
