"""Builds an Experiment from a config: typed objects that train, score and predict.

Lower layers receive these objects and never read a config.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from pathlib import Path

import jax
import optax

from mednli_jax import checks as validation
from mednli_jax import defaults
from mednli_jax.cloze.encoding import NAMES as CLOZE_NAMES
from mednli_jax.cloze.encoding import ClozeCorpus, ClozeEncoding, types_of_train
from mednli_jax.cloze.task import ClozeTask
from mednli_jax.data import batching
from mednli_jax.data.arrays import Prepared
from mednli_jax.data.cache import CONCEPTS
from mednli_jax.data.corpus import Corpus, cache_folder, data_folder, file_path
from mednli_jax.data.wordpiece import WordPieces, find_weights
from mednli_jax.diskne import fit as fold_training
from mednli_jax.diskne.corpus import NAMES as DISKNE_NAMES
from mednli_jax.diskne.corpus import DisKnECorpus
from mednli_jax.diskne.fit import FoldChoice
from mednli_jax.diskne.task import DisKnETask
from mednli_jax.errors import ConfigError
from mednli_jax.io import private_folder, write_atomic, writing
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.wordlists import BUNDLED
from mednli_jax.models import table
from mednli_jax.nli import boosting
from mednli_jax.nli.concepts import Linking, Terminology, prefixes
from mednli_jax.nli.corpus import NAMES as NLI_NAMES
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encoding import Encoding, PieceEncoding
from mednli_jax.nli.task import NLITask
from mednli_jax.report.runs import TYPES, RunDirectory, write_kept
from mednli_jax.training import gradient, loop, optim, transfer
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import Program
from mednli_jax.training.session import Fitted, Session
from mednli_jax.training.task import Task

FITTERS: dict[str, Callable] = {"gradient": gradient.fit, "boosting": boosting.fit, "folds": fold_training.fit}
RETROFITS = ("ontology", "concepts", "unit")  # values of config.vectors.retrofit that do not name a file


@dataclass(frozen=True)
class Model:
    """A model of an experiment.

    Args:
      name: see models.table.entry.
      fields: of its module.
      weights: folder of pretrained weights, None for random ones.
    """

    name: str
    fields: dict
    weights: Path | None = None


@dataclass(frozen=True)
class Transfer:
    """The `transfer` section of a config.

    Args:
      init_from: the run whose weights are the start, "" = none.
      private: whether the layers of a domain (transfer.PRIVATE) start from random values.
      freeze: regular expression of weights that are not trained.
    """

    init_from: str = ""
    private: bool = False
    freeze: str = ""


@dataclass(frozen=True)
class Experiment:
    """The experiment that a config describes.

    Args:
      seeds: of the run.
      optimizer: arguments of optim.build_optimizer, except the steps of an epoch.
      settings: of the training loop.
      batches: how training rows are batched.
      features: whether the model takes the 35 features of the feature-based system in addition to the sentences.
      folds: which folds of DisKnE are trained.
      fitter: a key of FITTERS.
      precision: of matrix products, a key of training.precision.PRECISIONS.
    """

    seeds: tuple[int, ...]
    corpus: Corpus
    task: Task
    model: Model
    optimizer: dict
    settings: loop.Settings
    batches: batching.TrainingBatches
    transfer: Transfer = Transfer()
    features: bool = False
    folds: FoldChoice = field(default_factory=FoldChoice)
    fitter: str = "gradient"
    precision: str = "default"

    def prepare(self) -> tuple[Prepared, bool]:
        """(the corpus as arrays with the rows that the task scores, whether the arrays were on disk already).

        Raises: UserError, DataError(s) for bad files; then no partial result is kept.
        """
        prepared, hit = self.corpus.prepare()
        prepared = self.task.with_rows(prepared)
        return (boosting.with_features(self.corpus, prepared) if self.features else prepared), hit

    def fit(self, prepared: Prepared, session: Session) -> Fitted:
        """Trains the model on the prepared corpus."""
        return FITTERS[self.fitter](self, prepared, session)

    def program(
        self, prepared: Prepared, splits=None, *, model_facts: dict | None = None
    ) -> tuple[Program, dict[str, batching.Batches]]:
        """The Program, with the corpus on the devices, and the batches of the splits. It compiles at first use.

        Args:
          splits: names; None = all.
          model_facts: of the corpus on which the model was trained, where that is not this one.
        """
        words = self.corpus.read_vocabulary(prepared.folder / "vocabulary.json").words
        return self.program_over(prepared, words, splits, model_facts=model_facts)

    def program_over(
        self, prepared: Prepared, words=(), splits=None, *, model_facts: dict | None = None, devices=None
    ) -> tuple[Program, dict[str, batching.Batches]]:
        """`program` for a vocabulary in memory.

        Args:
          words: of the vocabulary, for models that read characters.
          devices: None = all.
        """
        devices = devices or Devices()
        frozen = devices.replicate(self.task.frozen(words, prepared.vectors))
        facts = self.task.model_facts(prepared.manifest) if model_facts is None else model_facts
        program = self.bare_program(frozen, facts, devices)
        program.data = devices.replicate(self.task.resident(prepared))
        how = {"shares": devices.count, "model": program.model}
        names = splits or prepared.splits
        batches = {name: self.task.batches(prepared, name, self.batches, **how) for name in names}
        if "train" in batches:
            program.optimizer = self.optimizer_for(batches["train"])
        return program, batches

    def bare_program(self, frozen, model_facts: dict, devices: Devices) -> Program:
        """A Program without data and optimiser. frozen: arrays on the devices. model_facts: see tasks.task.Task."""
        how = {"axis_name": devices.axis_name, "platform": devices.platform}
        model = table.build(self.model.name, self.model.fields, **how, **model_facts)
        return Program(model, self.task, devices, frozen, data={}, precision=self.precision)

    def optimizer_for(self, batches: batching.Batches) -> optax.GradientTransformation:
        """The optimiser for training on these batches."""
        optimizer = optim.build_optimizer(**self.optimizer, epoch_steps=batches.steps)
        if self.transfer.freeze:
            return optim.all_but(optimizer, transfer.pattern(self.transfer.freeze, "config.transfer.freeze"))
        return optimizer

    def keep_for_prediction(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Copies into the run the files that prediction needs, so that it works without the corpus and the cache."""
        for name in ("vocabulary.json", "vectors.npy", CONCEPTS):
            if name != CONCEPTS or (prepared.folder / name).is_file():
                write_atomic(directory.private / name, (prepared.folder / name).read_bytes())
        if self.scores_types:
            write_kept(directory, TYPES, {"types": types_of_train(prepared)})

    @property
    def scores_types(self) -> bool:
        """Whether the model has one output for each phrase of the training split (its field num_types)."""
        return table.entry(self.model.name).has_field("num_types")

    @property
    def trains_words(self) -> bool:
        """Whether the model trains its own vectors of words or pieces."""
        return self.model.fields.get("train_vectors", bool(getattr(self.task, "pieces", False)))


# -- from a config -----------------------------------------------------------------------------------------------------


def of(config) -> Experiment:
    """The experiment of a config. Raises: ConfigError naming a field with a wrong value; DataError for pretrained
    weights that cannot be read."""
    validation.check(config)
    folder, train, seeds = data_folder(config.data.dir), config.train, tuple(config.seeds)
    corpus, task = {"nli": _nli, "cloze": _cloze, "diskne": _diskne}[config.task](config, folder)
    entry = table.entry(config.model.name)
    experiment = Experiment(
        seeds=seeds,
        corpus=corpus,
        task=task,
        model=_model(config, folder, entry),
        optimizer={name: train[name] for name in signature(optim.build_optimizer).parameters if name in train},
        settings=loop.Settings(**{each.name: train[each.name] for each in fields(loop.Settings)}),
        batches=batching.TrainingBatches(
            train.batch_size, train.group, train.max_buckets, seeds, train.epochs, train.shuffle
        ),
        transfer=Transfer(**config.transfer.to_dict()) if "transfer" in config else Transfer(),
        features="features" in config.data and config.data.features,
        fitter=entry.fitter,
        precision=train.precision,
    )
    if config.task != "diskne":
        return experiment
    several = {name: tuple(validation.several(config.diskne[name])) for name in ("diseases", "categories")}
    return replace(experiment, fitter="folds", folds=FoldChoice(at_once=config.diskne.at_once, **several))


def _nli(config, folder):
    return _nli_corpus(config, folder, kind=NLICorpus, names=NLI_NAMES), NLITask(**_pairs(config))


def _pairs(config):
    """The settings of a task over pairs."""
    padded = config.data.max_length if config.model.masking == "paper" else 0
    return {"pieces": config.data.tokens == "pieces", "padded_length": padded}


def _diskne(config, folder):
    choice = config.diskne
    corpus = _nli_corpus(
        config,
        folder,
        kind=DisKnECorpus,
        names=DISKNE_NAMES,
        names_from="" if choice.ontology == "none" else choice.ontology,
        **{name: choice[name] for name in ("wording", "negatives", "least")},
    )
    return corpus, DisKnETask(**_pairs(config))


def _cloze(config, folder):
    data, model = config.data, config.model
    _check_name(data.name, CLOZE_NAMES)
    kept = {name: data[name] for name in ("setup", "max_passage", "max_words", "query_bounds")}
    encoding = ClozeEncoding(**kept, **_vectors(config, folder), vectors_sd=config.vectors.random_sd)
    corpus = ClozeCorpus(data.name, encoding, corpus_folder(data), limit=data.limit)
    return corpus, ClozeTask(
        # In unmarked passages, every token that is a word of a candidate counts, unless a pointer reads the spans.
        loose=data.setup == "noent" and "pointer" in model and model.pointer != "span",
        masses="pointer" in model and model.pointer == "sum",
        spelled="characters" in model and bool(model.characters),
        answer_vectors=file_path(data.answer_vectors, folder),
        renumber=data.renumber,
    )


def nli_corpus(config) -> NLICorpus:
    """The corpus of a config of sentence pairs, for callers that need no model. Raises: UserError."""
    return _nli_corpus(config, data_folder(config.data.dir), kind=NLICorpus, names=NLI_NAMES)


def _nli_corpus(config, folder, *, kind, names, **further):
    data, vectors, knowledge = config.data, config.vectors, config.knowledge
    _check_name(data.name, names)
    links = config.model.knowledge != "none"
    by_ontology, of_concepts = vectors.retrofit in ("ontology", "concepts"), vectors.retrofit == "concepts"
    typed, named = config.model.knowledge == "typed", validation.named_relations(knowledge.relations)
    relations = "all" if named else knowledge.relations
    options = OntologyOptions(tuple(knowledge.sources), tuple(knowledge.languages), relations, knowledge.cycles)
    ontology = Terminology(os.path.expanduser(knowledge.ontology), folder, options, knowledge.permute_seed)
    return kind(
        name=data.name,
        encoding=Encoding(
            **{name: data[name] for name in ("lowercase", "max_length", "keep", "hypothesis_only")},
            **{name: knowledge[name] for name in ("direction", "max_path", "max_links", "graph")},
            **_vectors(config, folder),
            **{name: vectors[name] for name in ("unknown", "lowered")},
            retrofit_lexicon=None if vectors.retrofit in RETROFITS else file_path(vectors.retrofit, folder),
            unit_length=vectors.retrofit == "unit",
            relations=tuple(name for name in named if name != "antonym") if typed else None,
            retrofit_rounds=vectors.retrofit_rounds,
        ),
        folder=corpus_folder(data),
        **{name: data[name] for name in ("genre", "limit", "sample", "builder")},
        mix=_mixed(config) if data.mix else None,
        blanks=data.tokens == "blanks",
        pieces=_pieces(config, folder) if data.tokens == "pieces" else None,
        terminology=ontology if links or by_ontology else None,
        linking=_linking(knowledge, folder, typed) if links or of_concepts else None,
        concepts_as_words=of_concepts,
        retrofit_relations=tuple(vectors.retrofit_relations) if by_ontology else None,
        **further,
    )


def _vectors(config, folder):
    vectors = config.vectors
    return {"vectors_path": file_path(vectors.path, folder), "vectors_dim": vectors.dim, "vectors_seed": vectors.seed}


def _mixed(config) -> NLICorpus:
    """The corpus whose training pairs are mixed in. Raises UserError where it is unknown or the corpus itself."""
    name, _, genre = config.data.mix.partition("/")
    _check_name(name, NLI_NAMES, "mix")
    if (name, genre) == (config.data.name, config.data.genre):
        raise ConfigError("config.data.mix is the corpus itself. Fix: give another, or leave it out.")
    other = config.copy_and_resolve_references()
    folder = None if config.data.name == "file" else config.data.dir  # the folder of `file` holds only the user's files
    with other.unlocked():
        other.data.update(name=name, genre=genre, dir=folder, mix="", limit=None, sample=None)
    return nli_corpus(other)


def _pieces(config, folder) -> PieceEncoding:
    weights = config.model.weights
    file = find_weights(file_path(weights, folder)) if weights else None
    return PieceEncoding(file=file, size=config.data.pieces, room=config.data.max_length)


def _linking(knowledge, folder, typed) -> Linking:
    abbreviations = knowledge.abbreviations
    return Linking(
        mentions=file_path(knowledge.mentions, folder),
        candidates=knowledge.candidates,
        types=prefixes(knowledge.types),
        abbreviations=BUNDLED if abbreviations == BUNDLED else file_path(abbreviations, folder),
        stop=file_path(knowledge.stop, folder),
        lemmas=typed and knowledge.ontology != "mesh",
    )


def corpus_folder(data) -> Path | None:
    """The folder of the corpus of a `data` section; None for a corpus without files.

    For the user's own files it is the data folder only where the config names it.
    """
    bundled = data.name == "demo_cloze"
    return None if bundled or (data.name == "file" and not data.dir) else data_folder(data.dir)


def _check_name(name, known, field="name"):
    if name not in known:
        problem = f"config.data.{field}: unknown corpus '{name}'"
        raise ConfigError(f"{problem}. Fix: give one of {', '.join(known)}.")


def _model(config, folder, entry) -> Model:
    """The model. Pretrained weights set its sizes. Raises: ConfigError for wrong sizes, DataError without weights."""
    values, weights = config.model.to_dict(), None
    if values.get("weights"):
        weights = find_weights(file_path(values["weights"], folder))
        found = entry.pretrained.read_architecture(weights)
        _check_sizes(values, found, defaults.transformer(config.model.name))
        values |= found
        WordPieces.load(weights).check_size(values["vocab_size"])
    if entry.module is not None:  # refuses bad fields
        table.build(config.model.name, {"vocab_size": 1, **values} if entry.has_field("vocab_size") else values)
    return Model(config.model.name, values, weights)


def _check_sizes(given: dict, found: dict, before) -> None:
    """Raises ConfigError where a size of the config differs from that of the pretrained weights.

    Args:
      given: sizes of the config.
      found: sizes of the weights.
      before: default sizes; they count as not given. A size without a default is that of the weights of a finished run.
    """
    for name, value in found.items():
        if name in given and given[name] not in (value, before.get(name, value)):
            problem = f"config.model.{name} is {given[name]}, and the weights of config.model.weights have {value}"
            raise ConfigError(f"{problem}. Fix: leave config.model.{name} out; the weights decide it.")


def use_compile_cache() -> Path:
    """Keeps compiled programs across runs and returns their folder, which only its owner can read.

    The folder $JAX_COMPILATION_CACHE_DIR is used unchanged; it may be the URL of a bucket.
    """
    if chosen := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return Path(chosen)
    folder = cache_folder() / "compiled"
    fix = "set $MEDNLI_JAX_CACHE to a folder you can write"
    with writing(private_folder(folder, fix=fix), fix):
        found = folder.stat()
        if stat.S_IMODE(found.st_mode) & 0o077 and found.st_uid == os.geteuid():  # another user's folder is not changed
            folder.chmod(0o700)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return folder
