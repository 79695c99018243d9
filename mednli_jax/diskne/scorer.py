"""DisKnE: sentence pairs in folds by disease. Each slot, a fold and a seed, trains on the rows of
its own fold, and takes the place of a seed in the training loop.

In all splits, row numbers refer to the arrays of the whole corpus. One program trains a chunk of
slots at a time. The predictions of a chunk are saved when it is done; an interrupted chunk
continues from its checkpoint. No weights are saved.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from flax import linen as nn

from mednli_jax.data.arrays import SIDES, Prepared, Rows
from mednli_jax.data.batching import MAX_BUCKETS, Batches, Shapes, TrainingBatches, premise_groups
from mednli_jax.data.corpus import left_out
from mednli_jax.diskne import scores as fold_scores
from mednli_jax.diskne.corpus import ALL, FIELDS, FOLD_SPLITS, benchmark_of, folds_of
from mednli_jax.diskne.data import GROUPS, POSITIVE, Benchmark
from mednli_jax.diskne.folds import Fold, FoldBatches, FoldChoice, Slot, slot_code, slot_of
from mednli_jax.errors import ConfigError, DataError
from mednli_jax.files.writing import write_atomic, write_json
from mednli_jax.nli import scorer as nli
from mednli_jax.report import metrics
from mednli_jax.training import devices
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.gradient import start_from_pretrained
from mednli_jax.training.loop import Trainer
from mednli_jax.training.session import Fitted, Session, check_converged, epoch_line
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from mednli_jax.experiment import Experiment

PREDICT_GROUP = 11  # hypotheses of a premise: its own disease and ten others
AT_ONCE = "at_once.json"


@dataclass(frozen=True)
class FoldRows:
    """The rows of one part (train, dev, test) of several folds.

    Args:
      label: [N], of all examples.
      member: bool [F, N], whether an example is in this part of a fold.
      longest: rows of the largest of these folds.
    """

    label: np.ndarray
    member: np.ndarray
    longest: int

    def __len__(self) -> int:
        return self.longest


@dataclass(frozen=True)
class DisKnEScorer(nli.NLIScorer):
    """Scores whether a premise entails a disease, in the classes of NLI (see
    training.scorer.Scorer).

    The name of a split is a group of folds and a part, such as "medical/train".
    """

    name: str = "diskne"

    def device_arrays(self, prepared: Prepared) -> dict[str, np.ndarray]:
        """The arrays that stay on the device: all examples, one array per field."""
        arrays = prepared.arrays.items()
        return {name: np.asarray(array) for name, array in arrays if name not in FIELDS}

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: TrainingBatches,
        *,
        shares: int,
        model: nn.Module,
    ) -> Batches:
        """The batches of a group of folds. In train, each slot has the rows of its fold; in dev and
        test, all rows of this part in any fold of the group stand once for all slots."""
        group, _, split = name.partition("/")
        member, folds = self.members(prepared, split), folds_of_group(prepared, group)
        is_in_any: np.ndarray = np.any(member[folds], axis=0)
        if split != "train":
            return self.prediction(prepared, is_in_any, shares=shares, model=model)
        together = min(training.group_size, training.size)
        settings = self.batch_settings(prepared, training.size, shares, model)
        return FoldBatches(
            *_sides(prepared, "_length"),
            settings.for_training(training),
            member=member,
            folds=folds,
            groups=_groups(prepared, is_in_any, together) if together > 1 else None,
            tokens=self.shared_tokens(_sides(prepared), model),
        )

    def prediction(
        self,
        prepared: Prepared,
        is_predicted: np.ndarray,
        *,
        shares: int,
        model: nn.Module,
        coarse: bool = False,
    ) -> Batches:
        """Batches with each of some rows (bool [N]) once. coarse: takes shapes that other sets of
        rows share."""
        size = nli.PREDICT_PIECES if self.pieces else nli.PREDICT_ROWS
        if coarse:
            size = min(size, 64)
        # The settings count all rows of the corpus.
        size_of_all = size * len(is_predicted) / max(int(is_predicted.sum()), 1)
        settings = replace(
            self.batch_settings(prepared, size_of_all, shares, model),
            max_buckets=MAX_BUCKETS if self.pieces and not coarse else 1,
            shapes=Shapes.FULL if coarse else Shapes.FITTED,
            joined=self.pieces and not coarse,
        )
        together = 1 if coarse or self.pieces else PREDICT_GROUP
        return Batches(
            *_sides(prepared, "_length"),
            settings,
            groups=_groups(prepared, is_predicted, together),
            tokens=None if coarse else self.shared_tokens(_sides(prepared), model),
        )

    def members(self, prepared: Prepared, split: str) -> np.ndarray:
        """bool [F, N], whether each example is in this part of a fold."""
        split_FN = np.asarray(prepared.arrays["fold"])
        return np.asarray(split_FN == FOLD_SPLITS.index(split))

    def rows(self, prepared: Prepared, name: str) -> FoldRows:
        """The rows of a split for the training loop."""
        group, _, split = name.partition("/")
        member = self.members(prepared, split)
        longest = int(member[folds_of_group(prepared, group)].sum(axis=1).max())
        return FoldRows(prepared.splits[ALL].label, member, longest)

    def slot_scores(
        self, rows: FoldRows, logits: np.ndarray, codes: Iterable[int]
    ) -> dict[str, dict[str, list[float]]]:
        """Loss, accuracy and F1 of the positive class of each slot, on the rows of its fold.
        logits: [S, N, C]."""
        losses, accuracies, f1 = [], [], []
        no_length = np.zeros(0, np.int32)
        for code, logits_NC in zip(codes, logits, strict=True):
            of_fold = rows.member[slot_of(code).fold]
            logits_NC, label = logits_NC[of_fold], rows.label[of_fold]
            predicted = logits_NC.argmax(axis=-1)
            fold_rows = Rows("", 0, label, (no_length, no_length), (), ())
            losses.append(float(self.losses(fold_rows, logits_NC[None])[0]))
            accuracies.append(metrics.accuracy(label, predicted))
            f1.append(metrics.per_class(label, predicted)[POSITIVE]["f1"])
        return {
            "loss": {"per_seed": losses},
            "accuracy": {"per_seed": accuracies},
            "f1": {"per_seed": f1},
        }


def folds_of_group(prepared: Prepared, group: str) -> list[int]:
    """The places of the folds of a group."""
    folds = prepared.manifest["diskne"]["folds"]
    return [place for place, fold in enumerate(folds) if fold["group"] == group]


def _sides(prepared: Prepared, ending: str = "") -> tuple[np.ndarray, np.ndarray]:
    """The arrays of premises and hypotheses: their tokens, or with "_length" their lengths."""
    premise, hypothesis = (np.asarray(prepared.arrays[f"{side}{ending}"]) for side in SIDES)
    return premise, hypothesis


def _groups(prepared: Prepared, is_wanted: np.ndarray, most: int) -> np.ndarray:
    """int32 [M, G], numbers of the wanted rows (bool [N]), grouped by premise, at most `most` in a
    group; -1 = padding."""
    rows = np.flatnonzero(is_wanted)
    if most == 1:
        return rows.astype(np.int32)[:, None]
    groups = premise_groups(np.asarray(prepared.arrays["premise"])[rows], most)
    return np.where(groups >= 0, rows[groups], -1).astype(np.int32)


# -- training --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """Slots that one program trains at the same time. Their folds belong to one group."""

    number: int
    group: str
    slots: tuple[Slot, ...]

    @property
    def codes(self) -> tuple[int, ...]:
        return tuple(starmap(slot_code, self.slots))


def chunks_of(choice: FoldChoice, seeds: Sequence[int], prepared: Prepared) -> list[Chunk]:
    """The slots of the chosen folds in chunks of nearly equal size up to `at_once`, group by group,
    seed by seed."""
    folds = folds_of(prepared)
    chosen = _chosen_folds(choice, folds, benchmark_of(prepared))
    chunks: list[Chunk] = []
    for group in GROUPS:
        of_group = [place for place in chosen if folds[place].group == group]
        slots = [Slot(place, seed) for seed in seeds for place in of_group]
        if slots:
            count = -(-len(slots) // (choice.at_once or len(slots)))
            for places in np.array_split(np.arange(len(slots)), count):
                chunk = Chunk(len(chunks), group, tuple(slots[place] for place in places))
                chunks.append(chunk)
    return chunks


def _chosen_folds(choice: FoldChoice, folds: Sequence[Fold], benchmark: Benchmark) -> list[int]:
    """The places of the chosen folds. Raises an error for a disease without a fold, and for a fold
    without examples for training or dev."""
    wanted = set(map(str.casefold, choice.diseases))
    unknown = set(wanted)
    chosen = []
    for place, fold in enumerate(folds):
        names = {fold.disease.casefold(), benchmark.names[fold.disease].casefold()}
        unknown -= names
        has_disease = not wanted or wanted & names
        has_category = not choice.categories or set(choice.categories) & set(fold.categories)
        if has_disease and has_category:
            chosen.append(place)
    if not chosen or unknown:
        problem = f"{benchmark.name}: no fold of a disease or category requested"
        raise ConfigError(problem, fix="give other settings of config.diskne")
    for place in chosen:
        fold = folds[place]
        for split in ("train", "dev"):
            if not len(fold.rows(split)):
                problem = f"the fold of {fold.disease} has no {split} examples"
                raise DataError(f"{benchmark.name}: {problem}", fix="give more pairs")
    return chosen


def fit(
    experiment: "Experiment", prepared: Prepared, session: Session, choice: FoldChoice
) -> Fitted:
    """Trains the slots that are not done yet."""
    session.catch_signals()
    return FoldTraining(experiment, prepared, session, choice).run()


class FoldTraining:
    """The training of all slots of one run.

    slots: a row of JSON for each slot that is done, see fold_scores.read_slots.
    """

    def __init__(
        self, experiment: "Experiment", prepared: Prepared, session: Session, choice: FoldChoice
    ) -> None:
        assert session.directory is not None, "folds are trained by one process, which writes"
        assert isinstance(experiment.scorer, DisKnEScorer)
        self.scorer = experiment.scorer
        self.experiment, self.prepared, self.choice = experiment, prepared, choice
        self.session, self.directory = session, session.directory
        self.profile = session.profile
        self.folds, self.benchmark = folds_of(prepared), benchmark_of(prepared)
        self.chunks = chunks_of(choice, experiment.seeds, prepared)
        self.groups = list(dict.fromkeys(chunk.group for chunk in self.chunks))
        self.total = sum(len(chunk.slots) for chunk in self.chunks)
        self.parameters: int | None = None

    def run(self) -> Fitted:
        self.directory.checkpoints.mkdir(mode=0o700, exist_ok=True)
        self._compile()
        self.session.write_facts(self.prepared.manifest, self.program.devices.all)
        if not self.choice.at_once:
            choice = replace(self.choice, at_once=self._fitting())
            self.chunks = chunks_of(choice, self.experiment.seeds, self.prepared)
        fold_scores.write_examples(self.directory, self.benchmark)
        self.slots = fold_scores.read_slots(self.directory)
        self._say_sizes()
        done = {(row["group"], row["disease"], row["seed"]) for row in self.slots}
        for chunk in self.chunks:
            slots = {(chunk.group, self.folds[fold].disease, seed) for fold, seed in chunk.slots}
            if not slots <= done:
                self._train(chunk)
        return self._fit()

    def _compile(self) -> None:
        """Makes the program, and the batches and the optimiser of each group."""
        names = [f"{group}/{split}" for group in self.groups for split in ("train", "dev")]
        self.program, self.batches = self.experiment.program(self.prepared, names)
        self.program.compile_seconds += self.session.compile_seconds
        self.optimizers = {}
        for group in self.groups:
            batches = self.batches[f"{group}/train"]
            self.optimizers[group] = self.experiment.optimizer_for(batches)

    def _say_sizes(self) -> None:
        name = self.benchmark.name
        folds = Counter(fold.group for fold in self.folds)
        groups = ", ".join(f"{group} {folds[group]}" for group in self.groups)
        seeds = ", ".join(map(str, self.experiment.seeds))
        line = f"{name}: {len(self.benchmark):,} examples; folds: {groups}; seeds {seeds}: "
        line += f"{self.total} slots in {len(self.chunks)} chunks"
        if self.slots:
            line += f", {len(self.slots)} slots done"
        self.session.say(line)
        if reasons := left_out(self.benchmark.facts):
            self.session.say(f"{name}: left out: {reasons}")

    def _fitting(self) -> int:
        """The number of slots that fit into memory and disk. It is saved: a resumed run must have
        the same chunks."""
        path = self.directory.checkpoints / AT_ONCE
        if not path.exists():
            room = min(map(devices.room, self.program.devices.all))
            disk = devices.room_of_checkpoint(self.directory.checkpoints)
            self.session.say(f"compiling a step to find how many slots fit into {room >> 20:,} MiB")
            fitting = []
            for chunk in self.chunks:
                self.program.optimizer = self.optimizers[chunk.group]
                batches = self.batches[f"{chunk.group}/train"]
                fitting.append(self.program.fitting_seeds(batches, len(chunk.slots), room, disk))
            write_json(path, min(fitting))
        return int(path.read_bytes())

    def _train(self, chunk: Chunk) -> None:
        """Trains a chunk and adds the predictions of its slots to the run's file, which marks it as
        done."""
        trainer = self._trainer(chunk)
        self.profile = None
        if self.parameters is None:
            sizes = [leaf[0].size for leaf in jax.tree.leaves(trainer.learner.params)]
            self.parameters = sum(sizes)
            self.session.say(f"{self.experiment.model.name}: {self.parameters:,} parameters a slot")
        if self.experiment.model.weights:
            start_from_pretrained(trainer, self.experiment)
        if trainer.resume():
            place = f"in epoch {trainer.progress.epoch} after {trainer.progress.done} batches"
            self.session.say(f"chunk {chunk.number + 1}: resumed {place}")
        self._drop_metrics(chunk, trainer.progress.epoch)
        best = trainer.run()
        check_converged(best.epoch.tolist(), "fold")
        trainer.batches["test"] = self._test_batches(chunk)
        test_logits = trainer.predict("test", best.variables)
        dev_logits = trainer.predict("dev", best.variables)
        scores = self.scorer.slot_scores(trainer.splits["dev"], dev_logits, chunk.codes)
        for number, slot in enumerate(chunk.slots):
            dev = {}
            for name, measure in scores.items():
                value = float(measure["per_seed"][number])
                dev[name] = value if np.isfinite(value) else None
            row = self._row(slot, int(best.epoch[number]), dev, test_logits[number])
            self.slots.append(row)
        self.directory.write_lines(fold_scores.SLOTS, self.slots)
        shutil.rmtree(self._checkpoints(chunk), ignore_errors=True)
        self.session.on_save(self.program.compile_seconds)
        self.session.say(f"slots done: {len(self.slots)} of {self.total}")

    def _trainer(self, chunk: Chunk) -> Trainer:
        task, self.program.optimizer = self.scorer, self.optimizers[chunk.group]
        train, dev = f"{chunk.group}/train", f"{chunk.group}/dev"
        return Trainer(
            self.program,
            self.experiment.settings,
            {"train": task.rows(self.prepared, train), "dev": task.rows(self.prepared, dev)},
            {"train": self.batches[train], "dev": self.batches[dev]},
            chunk.codes,
            checkpoints=Checkpoints(self._checkpoints(chunk)),
            on_epoch=lambda row: self._on_epoch(chunk, row),
            on_save=self.session.on_save,
            should_stop=self.session.should_stop,
            profile=self.profile,
            score=task.slot_scores,
        )

    def _checkpoints(self, chunk: Chunk) -> Path:
        return self.directory.checkpoints / f"chunk-{chunk.number}"

    def _drop_metrics(self, chunk: Chunk, epoch: int) -> None:
        """Removes the chunk's rows of metrics from an epoch on, which is trained again."""
        lines = []
        for epoch_of_line, line in self.directory.metrics():
            if epoch_of_line < epoch or json.loads(line).get("chunk") != chunk.number:
                lines.append(line + b"\n")
        write_atomic(self.directory.folder / "metrics.jsonl", b"".join(lines))

    def _test_batches(self, chunk: Chunk) -> Batches:
        """The test rows of the chunk's folds, each once."""
        folds = sorted({slot.fold for slot in chunk.slots})
        folds_of_group = sum(fold.group == chunk.group for fold in self.folds)
        return self.scorer.prediction(
            self.prepared,
            np.any(self.scorer.members(self.prepared, "test")[folds], axis=0),
            shares=self.program.devices.count,
            model=self.program.model,
            coarse=len(folds) < folds_of_group,
        )

    def _row(
        self, slot: Slot, best_epoch: int, dev: Mapping[str, float | None], logits: np.ndarray
    ) -> JsonObject:
        """The row of a slot for the run's file. logits: [N, C], of all examples."""
        fold = self.folds[slot.fold]
        logits = self.scorer.whole(logits[fold.test])
        probabilities = np.round(nli.probabilities(logits), 6).tolist()
        uids = [self.benchmark.examples[row].uid for row in fold.test]
        return {
            "disease": fold.disease,
            "group": fold.group,
            "seed": slot.seed,
            "best_epoch": best_epoch,
            "dev": dev,
            "test": dict(zip(uids, probabilities, strict=True)),
        }

    def _on_epoch(self, chunk: Chunk, row: JsonObject) -> None:
        row = {**row, "chunk": chunk.number, "group": chunk.group, "slots": row["seeds"]}
        del row["seeds"]
        chunks = f"{chunk.group}, chunk {chunk.number + 1} of {len(self.chunks)}"
        epoch = epoch_line(row, self.experiment.settings.epochs)
        done = f"slots done: {len(self.slots)} of {self.total}"
        self.session.write_epoch(row, f"{chunks}, {len(row['slots'])} slots, {epoch}; {done}")

    def _fit(self) -> Fitted:
        places: set[int] = set()
        for chunk in self.chunks:
            places.update(slot.fold for slot in chunk.slots)
        folds = [self.folds[place] for place in sorted(places)]
        scores = fold_scores.scores(self.benchmark, folds, fold_scores.probabilities(self.slots))
        if reported := self.choice.categories:
            for category in scores.keys() - set(reported):
                del scores[category]
        seconds = examples = 0.0
        for _, line in self.directory.metrics():
            row = json.loads(line)
            seconds += row["seconds"]
            examples += row["examples_per_second"] * row["seconds"]
        facts = {
            "categories": scores,
            "names": {fold.disease: self.benchmark.names[fold.disease] for fold in folds},
            "folds": len(folds),
            "slots": len(self.slots),
            "epochs": self.experiment.settings.epochs,
            "train_examples_per_second": round(examples / max(seconds, 1e-9), 2),
            "compile_seconds": round(self.program.compile_seconds, 2),
        }
        if self.parameters is not None:
            facts["parameters"] = self.parameters
        notes = []
        if diverged := sum(slot["best_epoch"] == 0 for slot in self.slots):
            notes.append(f"{diverged} slots diverged: they predict with untrained parameters")
        return Fitted(facts, notes=notes)
