"""All folds of DisKnE in one program: each slot, a fold and a seed, is trained as a seed of the loop is.

Slots are trained in chunks of `config.diskne.at_once`. What a chunk predicts is kept when the chunk is done; one that
was interrupted goes on from its checkpoint. Weights are not kept. Faults:
  E-DIS-027 a seed too large      E-DIS-028 a setting that folds do not go with      E-DIS-029 a fold without examples
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from mednli_jax import experiment, sources
from mednli_jax.analysis.diskne import runs as diskne_runs
from mednli_jax.analysis.diskne import tables as diskne_tables
from mednli_jax.corpora.diskne import folds as diskne_folds
from mednli_jax.corpora.diskne.benchmark import CATEGORIES, GROUPS
from mednli_jax.corpora.diskne.fold_batches import MOST_FOLDS, MOST_SEED, slot_code
from mednli_jax.corpora.diskne.prepared import benchmark_of, folds_of, several
from mednli_jax.errors import UserError
from mednli_jax.files import write_atomic, write_json
from mednli_jax.runs import RunDirectory, environment
from mednli_jax.tasks import nli
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.loop import Trainer


def check(config) -> None:
    """Refuses values that could only fail later. Raises UserError naming the field."""
    if max(config.seeds) > MOST_SEED:
        raise UserError(f"E-DIS-027 config.seeds: of folds a seed is at most {MOST_SEED}. Fix: --config.seeds=0,1,2.")
    wish = config.diskne
    if wish.at_once < 0:
        raise UserError(f"E-CONF-003 config.diskne.at_once is {wish.at_once}. Fix: give a number, or 0 for all.")
    if unknown := [name for name in several(wish.categories) if name not in CATEGORIES]:
        known = ", ".join(CATEGORIES)
        raise UserError(f"E-CONF-004 config.diskne.categories: unknown '{unknown[0]}'. Fix: give some of {known}.")
    if config.model.name == "features":
        raise UserError("E-DIS-028 config.model.name: features have no folds. Fix: give a network, such as esim.")
    if config.transfer.init_from:
        raise UserError("E-DIS-028 config.transfer.init_from: folds start anew. Fix: leave it out.")


@dataclass(frozen=True)
class Chunk:
    """Slots (fold, seed) that one program trains at once; the folds are of one group."""

    number: int
    group: str
    slots: tuple[tuple[int, int], ...]

    @property
    def codes(self) -> tuple[int, ...]:
        return tuple(slot_code(*slot) for slot in self.slots)


def chosen_folds(config, prepared) -> tuple[int, ...]:
    """The folds that the config asks for, by their places. Raises UserError for a disease without one."""
    wish, found, benchmark = config.diskne, folds_of(prepared), benchmark_of(prepared)
    diseases, categories = several(wish.diseases), set(several(wish.categories))
    wanted = {id(f) for name in diseases for f in diskne_folds.folds_of(found, benchmark, name)}
    chosen = tuple(
        place
        for place, fold in enumerate(found)
        if (not diseases or id(fold) in wanted) and (not categories or categories & set(fold.categories))
    )
    if not chosen or len(found) > MOST_FOLDS:
        problem = "no fold has the categories asked for" if not chosen else f"there are over {MOST_FOLDS} folds"
        raise UserError(f"E-DIS-029 {benchmark.name}: {problem}. Fix: give other --config.diskne settings.")
    for place in chosen:
        for name in ("train", "dev"):
            if not len(getattr(found[place], name)):
                problem = f"{benchmark.name}: the fold of {found[place].disease} has no {name} examples"
                raise UserError(f"E-DIS-029 {problem}. Fix: give more pairs, or --config.diskne.pool=all.")
    return chosen


def chunks_of(config, prepared) -> list[Chunk]:
    """The slots, seed by seed, in parts of nearly equal size that are not above `at_once`."""
    folds, chunks = folds_of(prepared), []
    chosen = chosen_folds(config, prepared)
    for group in GROUPS:
        slots = [(fold, seed) for seed in config.seeds for fold in chosen if folds[fold].group == group]
        if slots:
            parts = -(-len(slots) // (config.diskne.at_once or len(slots)))
            for part in np.array_split(np.arange(len(slots)), parts):
                chunks.append(Chunk(len(chunks), group, tuple(slots[place] for place in part)))
    return chunks


class FoldTraining:
    """The folds of one run. `run()` trains what is not done yet and returns what the result says of it.

    Args:
      say: told each line of progress.
      should_stop: asked between pieces of work; True saves, and `run` raises loop.Interrupted.
      on_save: called after each checkpoint and each chunk with the seconds of compiling.
      compile_seconds: of the sessions before.
    """

    def __init__(
        self,
        config,
        prepared,
        directory: RunDirectory,
        *,
        say: Callable[[str], None],
        should_stop,
        on_save: Callable[[float], None] = lambda compile_seconds: None,
        compile_seconds: float = 0.0,
        profile=None,
    ):
        self.config, self.prepared, self.directory = config, prepared, directory
        self.say, self.should_stop, self.profile = say, should_stop, profile
        self.folds, self.benchmark = folds_of(prepared), benchmark_of(prepared)
        self.chunks = chunks_of(config, prepared)
        self.total = sum(len(chunk.slots) for chunk in self.chunks)
        self.on_save, self.compile_seconds = on_save, compile_seconds
        self.told: dict = {}  # of the model, once there is one

    def run(self) -> dict:
        experiment.use_compile_cache()
        self.directory.checkpoints.mkdir(mode=0o700, exist_ok=True)
        names = [f"{group}/{part}" for group in self._groups() for part in ("train", "dev")]
        self.program, self.batches = experiment.program(self.config, self.prepared, names)
        self.program.compile_seconds += self.compile_seconds
        self._write_facts()
        self.slots = diskne_runs.read_slots(self.directory)
        done = self._done()
        self._tell_plan(done)
        for chunk in self.chunks:
            if not {self._key(slot) for slot in chunk.slots} <= done:
                self._train(chunk)
        return self._result()

    def _groups(self):
        return dict.fromkeys(chunk.group for chunk in self.chunks)

    def _write_facts(self):
        folder = self.directory.folder
        devices = [f"{d.platform}:{d.device_kind}" for d in self.program.devices.all]
        write_json(folder / "env.json", {**environment(), "devices": devices})
        write_json(folder / "data.json", self.prepared.manifest)
        diskne_runs.write_examples(self.directory, self.benchmark)

    def _key(self, slot):
        fold, seed = slot
        return self.folds[fold].group, self.folds[fold].disease, seed

    def _done(self):
        return {(row["group"], row["disease"], row["seed"]) for row in self.slots}

    def _tell_plan(self, done):
        sizes = ", ".join(f"{group} {sum(f.group == group for f in self.folds)}" for group in self._groups())
        self.say(
            f"{self.benchmark.name}: {len(self.benchmark):,} examples; folds: {sizes}; seeds "
            f"{', '.join(map(str, self.config.seeds))}: {self.total} slots in {len(self.chunks)} chunks"
            + (f", {len(done)} slots done" if done else "")
        )

    # -- a chunk ------------------------------------------------------------------------------------------------------

    def _train(self, chunk: Chunk):
        trainer = self._trainer(chunk)
        if self.config.model.name == "bert" and self.config.model.weights:
            sources.start_from_weights(trainer, self.config)
        if trainer.resume():
            self.say(f"chunk {chunk.number + 1}: resumed in epoch {trainer.epoch} after {trainer.done} batches")
        self._keep_metrics(chunk, trainer.epoch - 1)
        best = trainer.run()
        if not (np.asarray(best.epoch) > 0).any():
            raise UserError(
                "E-RUN-013 the dev loss of no fold was ever a finite number. Fix: a lower "
                "--config.train.learning_rate, or --config.train.clip=10."
            )
        folds = {fold for fold, _ in chunk.slots}
        rows = self.program.task.members(self.prepared, "test")[sorted(folds)].any(axis=0)
        trainer.batches["test"] = self.program.task.prediction(
            self.config,
            self.prepared,
            rows,
            shares=self.program.devices.count,
            model=self.program.model,
            coarse=len(folds) < sum(f.group == chunk.group for f in self.folds),
        )
        logits = trainer.predict("test", best.variables)
        self._keep(chunk, best, self._dev(trainer, chunk, best), logits)

    def _trainer(self, chunk):
        names = {part: f"{chunk.group}/{part}" for part in ("train", "dev")}
        task = self.program.task
        trainer = Trainer(
            self.program,
            experiment.settings(self.config),
            {part: task.rows(self.prepared, name) for part, name in names.items()},
            {part: self.batches[name] for part, name in names.items()},
            chunk.codes,
            checkpoints=Checkpoints(self._checkpoints(chunk)),
            on_epoch=lambda row: self._on_epoch(chunk, row),
            on_save=self.on_save,
            should_stop=self.should_stop,
            profile=self.profile,
            score=task.slot_scores,
        )
        self.profile = None  # of the first chunk alone
        if not self.told:
            self.told["parameters"] = sum(int(leaf[0].size) for leaf in jax.tree.leaves(trainer.learner.params))
            self.say(
                f"{self.config.model.name}: {self.told['parameters']:,} parameters a slot; batches of "
                f"{' or '.join(map(str, trainer.batches['train'].sizes))}; the first steps compile, which takes a while"
            )
        return trainer

    def _checkpoints(self, chunk) -> Path:
        return self.directory.checkpoints / f"chunk-{chunk.number}"

    def _dev(self, trainer, chunk, best):
        """Each slot's best dev scores."""
        rows = trainer.splits["dev"]
        return self.program.task.slot_scores(rows, trainer.predict("dev", best.variables), chunk.codes)

    def _keep(self, chunk, best, dev, logits):
        """Adds what the chunk's slots predict to the run's file; the chunk is done with that."""
        uids = np.array([example.uid for example in self.benchmark.examples], object)
        for place, (fold, seed) in enumerate(chunk.slots):
            test = self.folds[fold].test
            probabilities = np.round(nli.probabilities(logits[place, test]), 6).tolist()
            scores = {name: float(found["per_seed"][place]) for name, found in dev.items()}
            self.slots.append({
                "disease": self.folds[fold].disease,
                "group": self.folds[fold].group,
                "seed": seed,
                "best_epoch": int(best.epoch[place]),
                "dev": {name: value if np.isfinite(value) else None for name, value in scores.items()},
                "test": dict(zip(uids[test].tolist(), probabilities, strict=True)),
            })  # fmt: skip
        diskne_runs.write_lines(self.directory.private / diskne_runs.SLOTS, self.slots)
        shutil.rmtree(self._checkpoints(chunk), ignore_errors=True)
        self.on_save(self.program.compile_seconds)
        self.say(f"slots done: {len(self.slots)} of {self.total}")

    # -- metrics ------------------------------------------------------------------------------------------------------

    def _keep_metrics(self, chunk, epochs):
        """Drops the rows of epochs that will be trained again."""
        kept = []
        for epoch, line in self.directory.metrics():
            number = json.loads(line).get("chunk")
            if number != chunk.number or epoch <= epochs:
                kept.append(line + b"\n")
        write_atomic(self.directory.folder / "metrics.jsonl", b"".join(kept))

    def _on_epoch(self, chunk, row):
        row = {**row, "chunk": chunk.number, "group": chunk.group, "slots": row["seeds"]}
        del row["seeds"]  # these are numbers of slots
        self.directory.append_metrics(row)

        def mean(name):
            values = [value for value in row[name] if value is not None]
            return sum(values) / len(values) if values else float("nan")

        self.say(
            f"{chunk.group}, chunk {chunk.number + 1} of {len(self.chunks)}, {len(row['slots'])} slots, epoch "
            f"{row['epoch']}/{self.config.train.epochs}: train loss {mean('train_loss'):.4f}, dev loss "
            f"{mean('dev_loss'):.4f}, {row['examples_per_second']:.0f} examples/s, {row['seconds']:.1f} s; "
            f"slots done: {len(self.slots)} of {self.total}"
        )

    # -- result -------------------------------------------------------------------------------------------------------

    def _result(self):
        folds = [self.folds[place] for place in sorted({fold for chunk in self.chunks for fold, _ in chunk.slots})]
        found = diskne_tables.scores(self.benchmark, folds, diskne_runs.predicted(self.slots))
        if categories := several(self.config.diskne.categories):
            found = {name: scored for name, scored in found.items() if name in categories}
        diverged = sum(slot["best_epoch"] == 0 for slot in self.slots)
        return {
            "categories": found,
            "names": {fold.disease: self.benchmark.names[fold.disease] for fold in folds},
            "folds": len(folds),
            "slots": len(self.slots),
            "epochs": self.config.train.epochs,
            **self.told,
            "train_examples_per_second": self._rate(),
            "compile_seconds": round(self.program.compile_seconds, 2),
            "notes": [f"{diverged} slots diverged: they predict with untrained parameters"] * bool(diverged),
        }

    def _rate(self):
        """Examples a second over the epochs of all chunks, of the sessions before, too."""
        rows = [json.loads(line) for _, line in self.directory.metrics()]
        seconds = sum(row["seconds"] for row in rows)
        return round(sum(row["examples_per_second"] * row["seconds"] for row in rows) / max(seconds, 1e-9), 2)
