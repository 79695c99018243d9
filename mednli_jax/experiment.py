"""Experiments: a config's task, corpus, scorer, model and settings as one object that can be
trained."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import jax
import numpy as np
import optax
from ml_collections import ConfigDict

from mednli_jax import checks, cli, defaults, tasks
from mednli_jax.data import batching
from mednli_jax.data.arrays import VECTORS_OF_RUN, Prepared, npy
from mednli_jax.data.cache import CONCEPTS
from mednli_jax.data.corpus import Corpus, cache_folder, corpora_folder, file_path
from mednli_jax.data.pieces import PieceVocabulary, find_weights
from mednli_jax.errors import ConfigError
from mednli_jax.files.writing import private_folder, write_atomic, write_sealed
from mednli_jax.models import table
from mednli_jax.models.weights import read_architecture
from mednli_jax.rundir import TYPES, RunDirectory
from mednli_jax.training import gradient, loop, optim
from mednli_jax.training import settings as jax_settings
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import PRECISIONS, Program
from mednli_jax.training.scorer import PhraseScorer, Scorer
from mednli_jax.training.session import Fitted, Session
from mednli_jax.types import Json

if TYPE_CHECKING:
    from mednli_jax.nli.corpus import NLICorpus

Fit = Callable[["Experiment", Prepared, Session], Fitted]


@dataclass(frozen=True)
class Model:
    """A model of models.table, with the fields of its module and the folder of its pretrained
    weights."""

    entry: table.Entry
    fields: dict[str, Json]
    weights: Path | None

    @property
    def name(self) -> str:
        return self.entry.name


@dataclass(frozen=True)
class Transfer:
    """The `transfer` section of a config.

    Attributes:
      init_from: folder of the run whose weights training starts from; "" for random ones.
      private: whether the last layers are drawn anew (multi-target transfer).
    """

    init_from: str = ""
    private: bool = False


@dataclass(frozen=True)
class Experiment:
    """The experiment that a config describes.

    Attributes:
      task: the TASK, see tasks.
      trained_by: trains the model in another way, on features or in folds; None for a network that
        gradient.fit trains.
      precision: of matrix products, a key of training.program.PRECISIONS.
      recorded_options: compiler options that a resumed run recorded when it began; None chooses
        them for this machine.
    """

    seeds: tuple[int, ...]
    task: tasks.Task
    corpus: Corpus
    scorer: Scorer
    model: Model
    optimizer: optim.Options
    settings: loop.LoopSettings
    batches: batching.TrainingBatches
    transfer: Transfer = Transfer()
    trained_by: Fit | None = None
    precision: str = "default"
    recorded_options: jax_settings.CompilerOptions | None = None

    @property
    def pairs(self) -> "NLICorpus":
        """The corpus as sentence pairs; only for an experiment on sentence pairs."""
        return cast("NLICorpus", self.corpus)

    def prepare(self) -> tuple[Prepared, bool]:
        """Returns (the corpus as arrays with the rows that are scored, whether the cache had
        it)."""
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
        """Makes the Program, with the corpus on the devices, and the batches of the splits. The
        Program compiles at its first use.

        Args:
          splits: names; () takes all.
          model_facts: sizes of the model that follow from its training corpus; None takes them from
            this corpus.
        """
        if model_facts is None:
            model_facts = self.scorer.model_facts(prepared.manifest)
        program = self.bare_program(prepared.vectors, model_facts, devices or Devices())
        program.data = program.devices.replicate(self.scorer.device_arrays(prepared))
        batches = {}
        for name in splits or prepared.splits:
            batches[name] = self.batches_of(prepared, name, program)
        if "train" in batches:
            program.optimizer = self.optimizer_for(batches["train"])
        return program, batches

    def bare_program(
        self, vectors: np.ndarray, model_facts: Mapping[str, int], devices: Devices
    ) -> Program:
        """Makes a Program without data and optimiser.

        Args:
          vectors: [V, D] of the vocabulary.
          model_facts: sizes of the model that follow from the corpus.
        """
        precision = PRECISIONS[self.precision]
        is_one_cpu = devices.count == 1 and devices.platform == "cpu"
        train_options = self._train_options("cpu") if is_one_cpu else {}
        model = self.model.entry.build(
            self.model.fields,
            axis_name=devices.axis_name,
            platform=devices.platform,
            product_dtype=precision.product_dtype,
            # With a transposed copy of the weights Eigen multiplies faster, and YNNPACK slower.
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
        return {
            **jax_settings.numeric_settings(),
            jax_settings.YNNPACK: options.get(jax_settings.YNNPACK),
        }

    def _train_options(self, platform: str) -> jax_settings.CompilerOptions:
        """The options of the compiler for a training step on one device."""
        if self.recorded_options is not None:
            return self.recorded_options
        return jax_settings.options_for(
            self.model.entry.module,
            "train",
            self.batches.size,
            platform=platform,
            product_dtype=PRECISIONS[self.precision].product_dtype,
        )

    def save_for_prediction(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Copies into the run the files that prediction needs, so that it works without the corpus
        and the cache."""
        folder = prepared.folder_in_cache
        for name in ("vocabulary.json", "vectors.npy", CONCEPTS):
            if name != CONCEPTS or (folder / name).is_file():  # only some corpora have concepts
                write_atomic(directory.private / name, (folder / name).read_bytes())
        if VECTORS_OF_RUN in prepared.manifest:  # a run that starts from another one has its own
            write_atomic(directory.private / "vectors.npy", npy(prepared.vectors))
        if self.scores_types:
            scorer = cast(PhraseScorer, self.scorer)
            write_sealed(directory.private / TYPES, {"types": scorer.types(prepared)})
        self.task.save_for_report(directory, prepared)

    @property
    def scores_types(self) -> bool:
        """Whether the model has one output for each type, which is a distinct phrase of the
        training split (its field num_types)."""
        return self.model.entry.has_field("num_types")

    @property
    def trains_words(self) -> bool:
        """Whether the model trains its vectors of words; a model of pieces always does."""
        return bool(self.model.fields.get("train_vectors", self.scorer.pieces))


def experiment_of(config: ConfigDict) -> Experiment:
    """Makes the experiment of a config."""
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
        settings=loop.LoopSettings.from_config(train),
        batches=batches,
        transfer=transferred,
        trained_by=task.fit(config),
        precision=train.precision,
    )


def _model(config: ConfigDict, entry: table.Entry) -> Model:
    """The model of a config. Pretrained weights set its sizes; a size that the config gives must be
    theirs."""
    fields, weights = config.model.to_dict(), None
    if entry.pretrained and fields.get("weights"):
        path = file_path(fields["weights"], corpora_folder(config.data.dir))
        assert path is not None
        weights = find_weights(path)
        sizes = pretrained_sizes(weights)
        _check_sizes(fields, sizes, defaults.SMALL_BERT)
        fields |= sizes
    if entry.pretrained:
        most = fields["positions"] - fields.get("first_position", 0)
        if config.data.max_length > most:
            problem = f"is {config.data.max_length}, and the model has {most} positions"
            raise ConfigError(problem, field="data.max_length", fix=f"give at most {most}")
    if entry.module is not None:  # built once to refuse bad fields, with any size of vocabulary
        size = {"vocab_size": 1} if entry.has_field("vocab_size") else {}
        entry.build(size | fields)
    return Model(entry, fields, weights)


def pretrained_sizes(weights: Path) -> dict[str, Json]:
    """Reads the fields of the model that pretrained weights set. Raises DataError for a tokenizer
    of other weights."""
    sizes = read_architecture(weights)
    PieceVocabulary.of_weights(weights).check_weights(sizes["vocab_size"], sizes["token_types"])
    return sizes


def _check_sizes(
    fields: Mapping[str, Json], sizes: Mapping[str, Json], default: ConfigDict
) -> None:
    """Raises ConfigError for a size that the config sets to another value than the weights have. A
    size with its default counts as not set."""
    for name, size in sizes.items():
        # A size without a default is that of the weights of a finished run.
        if name in fields and fields[name] not in (size, default.get(name, size)):
            problem = f"is {fields[name]}, and the weights of config.model.weights have {size}"
            fix = "leave it out; the weights decide it"
            raise ConfigError(problem, field=f"model.{name}", fix=fix)


def start_jax() -> None:
    """Checks jax's devices and settings, and saves compiled programs in the cache of prepared data.

    $JAX_COMPILATION_CACHE_DIR is another place for them.
    """
    jax_settings.check_jax()
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    folder = private_folder(
        cache_folder() / "compiled", fix="set $MEDNLI_JAX_CACHE to a folder you can write"
    )
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def named_config(config: str | ConfigDict) -> ConfigDict:
    """The config, or the one of this name. If it names no labels, they are those of its training
    file."""
    return tasks.with_labels(cli.read_config(config) if isinstance(config, str) else config)


def restored_config(values: Mapping[str, Json]) -> ConfigDict:
    """Restores a config from the content of a config.json: lists become tuples again."""

    def with_tuples(value: Json) -> Json:
        if isinstance(value, dict):
            return {key: with_tuples(below) for key, below in value.items()}
        return tuple(value) if isinstance(value, list) else value

    return ConfigDict(with_tuples(values))
