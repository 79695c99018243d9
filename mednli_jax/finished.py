"""A finished run: opened, scored on any corpus, asked for predictions."""

from __future__ import annotations

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, replace
from functools import cached_property, partial
from html import escape
from itertools import chain, product
from pathlib import Path
from threading import Event
from typing import NamedTuple, TypeVar, cast

import jax
import numpy as np
from ml_collections import ConfigDict

from mednli_jax import tasks
from mednli_jax.data import batching, partitions
from mednli_jax.data.arrays import (
    NEW,
    PLURAL,
    VECTORS_OF_RUN,
    Prepared,
    Rows,
    lengths_of_programs,
    pad_to_powers_of_two,
)
from mednli_jax.data.cache import CONCEPTS
from mednli_jax.data.corpus import corpus_folder
from mednli_jax.data.examples import Example, Split
from mednli_jax.data.inputs import Input
from mednli_jax.data.pieces import VOCABULARY, PieceVocabulary
from mednli_jax.data.text import Vocab
from mednli_jax.errors import RunError, UsageError, UserError
from mednli_jax.experiment import (
    Experiment,
    Json,
    experiment_of,
    named_config,
    restored_config,
    start_jax,
)
from mednli_jax.files.paths import local_path
from mednli_jax.files.writing import sha256, write_json
from mednli_jax.models.layers import ATTENTION
from mednli_jax.rundir import (
    DIRECT,
    SPLITS,
    TYPES,
    RunData,
    RunDirectory,
    RunResult,
    Scores,
    environment,
    read_json,
    read_saved,
)
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import Program, Tick
from mednli_jax.training.scorer import AttentionScorer, LabelScorer, Scorer
from mednli_jax.training.transfer import check_words
from mednli_jax.types import JsonObject, PyTree

Item = TypeVar("Item")
# New inputs as examples of the task and as arrays; None without an input.
EncodedInputs = tuple[tuple[Example, ...], Prepared | None]
Prediction = dict[str, Json]  # of one input, see Scorer.describe


class Predictions(list[Prediction]):
    """The prediction for each new input, in the order of the inputs, see Scorer.describe.

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


def write_scores(
    directory: RunDirectory,
    scorer: Scorer,
    splits: Mapping[str, Rows],
    logits: Callable[[str], np.ndarray],
) -> dict[str, Scores | None]:
    """Scores each split and writes the predictions. Returns None as the scores of a split that is
    lacking.

    logits: maps a split to logits [S, N, C].
    """
    scores_of: dict[str, Scores | None] = dict.fromkeys(SPLITS)
    for split in SPLITS:  # in the order of `train_along`
        if rows := splits.get(split):
            logits_SNC = logits(split)
            scores_of[split] = scorer.score(rows, logits_SNC)
            predictions = scorer.predictions(rows, logits_SNC)
            directory.write_lines(f"predictions.{split}.jsonl", predictions)
    return scores_of


# Fields of `data` that name a corpus, besides its folder.
NAMING = ("name", "genre", "builder", "limit", "labels", "columns", "evidence")


class System(ABC):
    """A run, or the answers of any system, and the corpus on which it is scored.

    Attributes:
      directory: of the run; for answers its `folder` is the path of their file.
      config: of the system; on another corpus (`Run.on_corpus`) with that corpus.
      result: of the run.
      merged_by: the source of the entities whose tokens are merged, if any are.
    """

    directory: RunDirectory
    config: ConfigDict
    result: RunResult
    merged_by: str = ""

    def __init__(self) -> None:
        self._scores_of: dict[str, Scored] = {}

    @property
    @abstractmethod
    def experiment(self) -> Experiment:
        """The experiment of the config."""

    @property
    def task(self) -> tasks.Task:
        """The TASK of the experiment, see tasks."""
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
        """The logits [S, N, C] of a split."""

    @abstractmethod
    def _origin(self) -> dict[str, Json]:
        """The fields of a result.json by `write` that say where the predictions come from."""

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
        uids = partitions.uids_in_corpus(partition, self.prepared, self.experiment.pairs)
        rows, logits = self.prepared.splits[split], self.score(split).logits
        inside = np.array([uid in uids for uid in rows.uids])
        if not inside.any():
            return {"examples": 0}
        tags = tuple(tags for tags, chosen in zip(rows.tags, inside, strict=True) if chosen)
        labelled = replace(rows, label=rows.label[inside], tags=tags, original=None)
        return self.scorer.score(labelled, logits[:, inside])

    def write(self, folder: Path, command_line: Sequence[str] = ()) -> None:
        """Writes the scores and predictions of the system as a complete run directory, which
        `report` can compare. command_line: of this process, for env.json."""
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
            "notes": self.prepared.notes,
            "prepared": self.prepared.folder_in_cache.name,
            **self._origin(),
        }

        def logits(split: str) -> np.ndarray:
            return self.score(split).logits

        result |= write_scores(directory, self.scorer, self.scored_splits(), logits)
        directory.write_result("complete", result)


class Run(System):
    """The run in a folder. Everything but the result is read at first use.

    Attributes:
      result: the content of result.json; `result["test"]` is a field of it.
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
        """The mean of each metric over the seeds, from 0 to 1: {split: {metric: mean}}."""
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
    def config(self) -> ConfigDict:
        return restored_config(self.directory.config)

    @cached_property
    def experiment(self) -> Experiment:
        """The experiment of the run. Raises RunError for a run that is not finished, or that has no
        weights."""
        self._check_weights()
        start_jax()
        return self._experiment_of(self.config)

    def _experiment_of(self, config: ConfigDict) -> Experiment:
        """The experiment of a config of the run. Sizes and pieces of pretrained weights are those
        that the run saves, so their folder is not needed."""
        if not config.model.get("weights"):
            return experiment_of(config)
        config = restored_config(config.to_dict())
        config.model.weights = ""
        experiment = experiment_of(config)
        corpus = experiment.pairs
        assert corpus.pieces is not None
        pieces = replace(corpus.pieces, file=self.checked_file(VOCABULARY))
        return replace(experiment, corpus=replace(corpus, pieces=pieces))

    def _check_weights(self) -> None:
        if self.result.status != "complete":  # the checkpoints may change while they are read
            raise self.directory.unfinished_error(self.result.status)
        without_weights = {
            "direct transfer": self.result.direct,
            "folds": "folds" in self.result.values,
            "another system's answers": self.result.answers,
        }
        for kind, has_kind in without_weights.items():
            if has_kind:
                problem = f"{self.folder}: a run of {kind} has no weights"
                report = f"python -m mednli_jax.report {shlex.quote(str(self.folder))}"
                raise RunError(problem, fix=f"its scores are in result.json, `{report}` shows them")

    @cached_property
    def manifest(self) -> JsonObject:
        """The manifest of the corpus on which the run was trained."""
        if self.directory.is_exported:
            return dict(self.directory.data().values)
        return read_json(self.folder / "data.json", "files", "key", "splits")

    @cached_property
    def vocabulary(self) -> Vocab | PieceVocabulary:
        """The vocabulary of the corpus on which the run was trained."""
        file = self.checked_file("vocabulary.json")
        return self.experiment.corpus.read_vocabulary(file)

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vectors [V, D] of the vocabulary."""
        return np.asarray(np.load(self.checked_file("vectors.npy"), allow_pickle=False))

    def checked_file(self, name: str) -> Path:
        """The path of a file in private/. Raises RunError unless its digest is that of the
        manifest."""
        path, digests = self.directory.private / name, self.manifest["files"]
        if VECTORS_OF_RUN in self.manifest:  # not those of the prepared corpus
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
        """The predictor of a model that is no network; None for a network."""
        return self.task.predictor(self)

    @cached_property
    def variables(self) -> PyTree | None:
        """The variables of the best epoch of each of S seeds, leaves [S, ...]; None for a model
        with a predictor."""
        if self.predictor:
            return None
        checkpoint = Checkpoints(self.directory.checkpoints).load()
        best = checkpoint.tree["best"] if checkpoint else None
        if best is None or best["epoch"].tolist() != self.result.best_epoch:
            folder = self.directory.checkpoints
            problem = f"{folder}: no undamaged checkpoint has the weights of the finished run"
            raise RunError(problem, fix="restore the run directory, or train again with --force")
        return {"params": best["params"], "batch_stats": best.get("batch_stats", {})}

    # -- scores ------------------------------------------------------------------------------------

    @cached_property
    def prepared(self) -> Prepared:
        fits_any_corpus = not self.predictor and isinstance(self.scorer, LabelScorer)
        if self.directory.is_exported and fits_any_corpus:
            return self.on_corpus(self.config.data).prepared
        try:
            prepared, _ = self.experiment.corpus.prepare()
        except UserError as error:  # perhaps of files that training alone needs
            if not fits_any_corpus:
                raise
            try:
                prepared = self.on_corpus(self.config.data).prepared
            except RunError:
                raise error from None
            self.directory.check_data(prepared.manifest, partial=True)
            return prepared
        self.directory.check_data(prepared.manifest)
        if VECTORS_OF_RUN in self.manifest:
            prepared = prepared.with_vectors(self.vectors)
        return self.scorer.with_rows(prepared, self.experiment.corpus)

    def evaluate(self, split: str = "test", config: str | ConfigDict | None = None) -> Scores:
        """Scores a split, in the form of result.json.

        config: names another corpus; a ConfigDict, or the name of one, such as "esim:mednli".
        """
        if config is None:
            return self.score(split).scores
        other_config = named_config(config)
        self.check_task(other_config)
        return self.on_corpus(other_config.data).score(split).scores

    def _origin(self) -> dict[str, Json]:
        source, corpus = self.directory.folder.name, self.result.corpus
        return {"transfer": {"source": source, "corpus": corpus, "mode": DIRECT}}

    def _logits(self, split: str) -> np.ndarray:
        if self.predictor:
            rows = self.prepared.splits[split]
            return self.predictor.logits(self.prepared, rows)
        facts = self.scorer.model_facts(self.manifest)
        program, batches = self.experiment.program(self.prepared, [split], model_facts=facts)
        return program.logits(self.variables, batches[split])

    # -- other corpora -----------------------------------------------------------------------------

    def vectors_for(self, prepared: Prepared) -> np.ndarray:
        """The vectors [V, D] for the vocabulary of another corpus: the run's own for words that it
        knows and for the unknown word, the corpus's for the rest.

        The unknown word's mean and retrofitted vectors depend on the corpus, so those with which
        the run was trained stay.
        """
        vectors = np.array(prepared.vectors)
        file = prepared.folder_in_cache / "vocabulary.json"
        words = self.experiment.corpus.read_vocabulary(file).words
        row_of = {word: row for row, word in enumerate(self.vocabulary.words)}
        rows = np.array([row_of.get(word, -1) for word in words])
        vectors[rows >= 0] = self.vectors[rows[rows >= 0]]
        return vectors

    def check_task(self, config: ConfigDict) -> None:
        """Raises UsageError if a config is of another task than the run."""
        if config.task != self.config.task:
            corpora = f"{tasks.task_of(config).corpora}, and the run of {self.task.corpora}"
            raise UsageError(f"--config is of {corpora}", fix="give another")

    def on_corpus(self, data: ConfigDict) -> Run:
        """The run on another corpus: direct transfer (Romanov & Shivade 2018, section 4.1).

        The corpus is read and encoded as the run's own. Words new to the run have vectors from its
        vector file; a word without a vector is read as the run's unknown word. Concepts in place of
        words are those of the run's training pairs.

        data: section of a config, of which NAMING and the folder are used. One split is enough.
        """
        if self.predictor:
            problem = f"{self.directory.folder}: a run of features is scored on its own corpus only"
            fix = "give a run of a network, or `predict` on the other corpus's pairs"
            raise RunError(problem, fix=fix)
        config = restored_config(self.config.to_dict())
        config.data.update({name: data[name] for name in NAMING})
        if "augment" in config.data:
            # Only training has augmentation pairs, and a part of the pairs.
            config.data.augment, config.data.partition = 0.0, ""
        experiment = self._experiment_of(config)  # ontology and vectors from the run's data folder
        config.data.dir = data.dir
        corpus = replace(experiment.pairs, folder=corpus_folder(config.data))
        vocabulary = self.checked_file(VOCABULARY)
        corpus = corpus.for_finished_run(vocabulary, self.vectors, self.graph_concepts)
        scorer = self.scorer
        if isinstance(scorer, LabelScorer):
            scorer = scorer.on_corpus(experiment.scorer)
        experiment = replace(experiment, corpus=corpus, scorer=scorer)
        prepared, _ = corpus.prepare()
        check_words(self, prepared)
        self._check_ontology(prepared)
        prepared = prepared.with_vectors(self.vectors_for(prepared))
        prepared = scorer.with_rows(prepared, corpus)
        other = self.with_arrays(prepared)
        other.config, other.experiment = config, experiment
        return other

    def with_arrays(self, prepared: Prepared, merged_by: str = "") -> Run:
        """A copy of the run that scores other arrays; what is loaded is shared."""
        other = copy(self)
        other.prepared, other.merged_by, other._scores_of = prepared, merged_by, {}
        return other

    def _check_ontology(self, prepared: Prepared) -> None:
        own = RunData.from_json(self.manifest).ontology_sha256
        if own != RunData.from_json(prepared.manifest).ontology_sha256:
            ontology = self.config.knowledge.ontology
            problem = f"the ontology '{ontology}' changed since the run was trained"
            raise RunError(problem, fix="restore it, or train again")

    # -- new inputs --------------------------------------------------------------------------------

    def predict(self, inputs: Input | Sequence[Input]) -> Predictions | Prediction:
        """Predicts new inputs, in their order: the label, and means over the seeds.

        inputs: a list of (premise, hypothesis) or {"premise": ..., "hypothesis": ...}; for a
          reader, passage and query. A single input, not in a list, gives a single prediction.
        """
        is_pair = isinstance(inputs, tuple) and all(isinstance(text, str) for text in inputs)
        if is_pair or isinstance(inputs, Mapping):
            return self.predictions([inputs])[0]
        return self.predictions(inputs)

    def predictions(self, inputs: Sequence[Input]) -> Predictions:
        """Predicts a list of new inputs."""
        return self._predictions_of(self._encode(inputs))

    def predictions_by_part(self, parts: Iterable[Sequence[Input]]) -> Iterator[Predictions]:
        """Predicts a long input part by part. While the caller uses a part, a thread computes the
        next one, and another thread reads and encodes the one after it."""
        has_ended = Event()

        def check(_: int) -> None:  # so that Ctrl-C waits for a batch, not for a part
            if has_ended.is_set():
                raise CancelledError

        encoded = _one_ahead(map(self._encode, parts))
        predicted = map(partial(self._predictions_of, tick=check), encoded)
        return _one_ahead(predicted, at_end=has_ended.set)

    def _encode(self, inputs: Sequence[Input]) -> EncodedInputs:
        examples = self._new_examples(inputs)
        return examples, self._encode_new(examples) if examples else None

    def _predictions_of(self, inputs: EncodedInputs, tick: Tick | None = None) -> Predictions:
        """tick: see Program.logits."""
        examples, prepared = inputs
        if prepared is None:
            return Predictions([], dict.fromkeys(self.scorer.sides, 0), {})
        logits = self._logits_of_new(examples, prepared, tick)
        truncated = {}
        for name, count in prepared.manifest["truncated"].items():
            if count:
                truncated[PLURAL.get(name, name)] = count
        rows = self.scorer.describe(prepared.splits[NEW], logits)
        return Predictions(rows, prepared.manifest["unknown_tokens"], truncated)

    def warm_up(self, lengths: Iterable[Sequence[int]]) -> None:
        """Compiles ahead, so that later calls of `predict` only compute.

        lengths: of the longest inputs to come, the tokens of each text: [(100, 20)]. Two programs
        are compiled for each power of two from 32 up to these lengths: for one input, and for lists
        of up to 64. Lists of queries need further programs, because their passages have one array.
        """
        for longest in lengths:
            for tokens in product(*map(lengths_of_programs, longest)):
                example = self.task.form.example(tokens)
                for count in (1, 2):
                    self.predictions([example] * count)

    def rows_and_logits(self, split: Split) -> tuple[Rows, np.ndarray]:
        """Returns (rows, logits [S, N, C]) of new examples."""
        prepared = self._encode_new(split.examples)
        return prepared.splits[NEW], self._logits_of_new(split.examples, prepared)

    def _new_examples(self, inputs: Sequence[Input]) -> tuple[Example, ...]:
        form = self.task.form.with_columns(self.config.data.get("columns", ""))
        return tuple(self.scorer.new_examples(form.texts_of_all(inputs), self.manifest))

    def _encode_new(self, examples: tuple[Example, ...]) -> Prepared:
        """Encodes new examples as a corpus in memory, padded to a few sizes, so that few programs
        are compiled."""
        corpus = self.experiment.corpus
        splits = {NEW: Split(NEW, examples)}
        names = self.graph_concepts
        if names is None:
            names = self.output_phrases
        prepared = corpus.encode(splits, self.vocabulary, self.vectors, names)
        self._check_ontology(prepared)
        # Where the logits depend on the padded length, it is that of training.
        width = self.result.width if self.scorer.padded_length else None
        prepared = replace(prepared, arrays=pad_to_powers_of_two(prepared.arrays, width))
        return self.scorer.with_rows(prepared, corpus)

    def _logits_of_new(
        self, examples: tuple[Example, ...], prepared: Prepared, tick: Tick | None = None
    ) -> np.ndarray:
        """The logits [S, N, C] of new examples and their arrays."""
        if self.predictor:
            return self.predictor.logits_of_new(Split(NEW, examples))
        program = self._program
        program.data = program.devices.replicate(self.scorer.device_arrays(prepared))
        batches = self.experiment.batches_of(prepared, NEW, program)
        batches.reuse_layouts(self._fitted_layouts)
        logits = program.logits(self.variables, batches, tick=tick)
        program.data = {}  # frees the texts and keeps the programs
        return logits

    @cached_property
    def _fitted_layouts(self) -> batching.FittedLayouts:
        """The layouts that were fitted to earlier inputs, see Batches.reuse_layouts."""
        return {}

    @cached_property
    def graph_concepts(self) -> Sequence[str] | None:
        """The concepts of the run's graph; None if the run uses the whole ontology, or none."""
        path = self.directory.private / CONCEPTS
        if not path.is_file():
            return None
        return list(json.loads(path.read_bytes()))

    @cached_property
    def output_phrases(self) -> Sequence[str] | None:
        """The phrases that have an output in the model; None for a model with other outputs."""
        if not self.experiment.scores_types:
            return None
        return list(read_saved(self.directory, TYPES)["types"])

    @cached_property
    def _program(self) -> Program:
        facts = self.scorer.model_facts(self.manifest)
        return self.experiment.bare_program(self.vectors, facts, Devices())

    def attention(self, inputs: Sequence[Input]) -> list[dict[str, Json]]:
        """The attention weights of each input, for each seed: see AttentionScorer.attention_map."""
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
        prepared, model = self._encode_new(examples), self._program.model
        data = self.scorer.device_arrays(prepared)
        settings = self.experiment.batches_of(prepared, NEW, self._program).settings
        layout = batching.Layout.full(1, settings.width, joint=settings.joint)

        def attend(variables: PyTree, frozen: PyTree, data: PyTree, index: jax.Array) -> PyTree:
            batch = self.scorer.to_batch(data, index, layout)
            variables = {**variables, "frozen": frozen}
            _, sown = model.apply(variables, batch, train=False, mutable=[ATTENTION])
            return sown.get(ATTENTION, {})

        attend_seeds = jax.jit(jax.vmap(attend, in_axes=(0, None, None, None)))
        frozen, rows = self.scorer.frozen(self.vectors), prepared.splits[NEW]
        scorer, corpus = cast(AttentionScorer, self.scorer), self.experiment.corpus
        maps = []
        for number, example in enumerate(examples):
            sown = attend_seeds(self.variables, frozen, data, np.array([[number]]))
            if not sown:
                raise lacking
            first_N, second_N = rows.length
            lengths = int(first_N[number]), int(second_N[number])
            weights = jax.tree.map(np.asarray, sown)
            maps.append(scorer.attention_map(corpus, self.vocabulary, example, lengths, weights))
        return maps


def _one_ahead(items: Iterator[Item], at_end: Callable[[], None] = lambda: None) -> Iterator[Item]:
    """Yields the items. While the caller uses one, a thread makes the next one. at_end: called when
    the caller ends, before the thread is waited for."""
    with ThreadPoolExecutor(1) as pool:
        try:
            following = pool.submit(next, items, None)
            while (item := following.result()) is not None:
                following = pool.submit(next, items, None)
                yield item
        finally:
            at_end()


class Answered(System):
    """The answers of another system, read from a file. They are scored on one split as the
    predictions of a run are."""

    def __init__(self, config: ConfigDict, path: Path, split: str) -> None:
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
        return replace(experiment, corpus=replace(experiment.pairs, partial=True))

    @cached_property
    def prepared(self) -> Prepared:
        return self.experiment.prepare()[0]

    def _origin(self) -> dict[str, Json]:
        return {"answers": self.directory.folder.name}

    def _logits(self, split: str) -> np.ndarray:
        return self.task.answers(self.directory.folder, self.prepared.splits[split], self.config)

    def scored_splits(self) -> Mapping[str, Rows]:
        return {self.split: self.prepared.splits[self.split]}
