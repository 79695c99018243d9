"""Trains all folds of DisKnE. A slot, a pair of a fold and a seed, takes the place of a seed in the
training loop.

One program trains a chunk of slots at a time. The predictions of a chunk are saved when it is done;
an interrupted chunk continues from its checkpoint. No weights are kept.
"""

import json
import shutil
from dataclasses import dataclass, replace

import jax
import numpy as np

from mednli_jax.diskne import tables
from mednli_jax.diskne.corpus import benchmark_of, folds_of
from mednli_jax.diskne.data import GROUPS
from mednli_jax.diskne.folds import FoldChoice, slot_code
from mednli_jax.errors import ConfigError, DataError, config_field
from mednli_jax.files import write_atomic, write_json
from mednli_jax.nli import task as nli
from mednli_jax.report.prepared import left_out
from mednli_jax.training import devices
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.gradient import start_from_pretrained
from mednli_jax.training.loop import Trainer
from mednli_jax.training.session import Fitted, Session, check_converged, epoch_line

AT_ONCE = "at_once.json"


@dataclass(frozen=True)
class Chunk:
    """Slots (fold, seed) that one program trains at the same time. Their folds belong to one
    group."""

    number: int
    group: str
    slots: tuple[tuple[int, int], ...]

    @property
    def codes(self) -> tuple[int, ...]:
        return tuple(slot_code(*slot) for slot in self.slots)


def chunks_of(choice: FoldChoice, seeds, prepared) -> list[Chunk]:
    """The slots of the chosen folds in chunks of nearly equal size up to `at_once`, group by group,
    seed by seed."""
    found, benchmark, chunks = folds_of(prepared), benchmark_of(prepared), []
    called = [{fold.disease.casefold(), benchmark.names[fold.disease].casefold()} for fold in found]
    wanted, categories = {name.casefold() for name in choice.diseases}, set(choice.categories)
    chosen = tuple(
        place
        for place, fold in enumerate(found)
        if (not wanted or wanted & called[place])
        and (not categories or categories & set(fold.categories))
    )
    if not chosen or wanted - set().union(*called):
        problem = "no fold of a disease or category requested"
        raise ConfigError(
            f"{benchmark.name}: {problem}", fix=("give other settings of ", config_field("diskne"))
        )
    for place in chosen:
        for name in ("train", "dev"):
            if not len(getattr(found[place], name)):
                problem = (
                    f"{benchmark.name}: the fold of {found[place].disease} has no {name} examples"
                )
                raise DataError(problem, fix="give more pairs")
    for group in GROUPS:
        slots = [(place, seed) for seed in seeds for place in chosen if found[place].group == group]
        if slots:
            parts = -(-len(slots) // (choice.at_once or len(slots)))
            for part in np.array_split(np.arange(len(slots)), parts):
                chunks.append(Chunk(len(chunks), group, tuple(slots[place] for place in part)))
    return chunks


def fit(experiment, prepared, session: Session, choice: FoldChoice) -> Fitted:
    """Trains the slots that are not done yet."""
    session.catch_signals()
    return FoldTraining(experiment, prepared, session, choice).run()


class FoldTraining:
    """The training of all slots of one run."""

    def __init__(self, experiment, prepared, session: Session, choice: FoldChoice) -> None:
        self.experiment, self.prepared, self.session, self.choice = (
            experiment,
            prepared,
            session,
            choice,
        )
        self.directory, self.profile = session.directory, session.profile
        self.folds, self.benchmark = folds_of(prepared), benchmark_of(prepared)
        self.chunks = chunks_of(choice, experiment.seeds, prepared)
        self.groups = dict.fromkeys(chunk.group for chunk in self.chunks)
        self.total = sum(len(chunk.slots) for chunk in self.chunks)
        self.parameters = None

    def run(self) -> Fitted:
        self.directory.checkpoints.mkdir(mode=0o700, exist_ok=True)
        names = [f"{group}/{part}" for group in self.groups for part in ("train", "dev")]
        self.program, self.batches = self.experiment.program(self.prepared, names)
        self.program.compile_seconds += self.session.compile_seconds
        self.optimizers = {
            group: self.experiment.optimizer_for(self.batches[f"{group}/train"])
            for group in self.groups
        }
        self.session.write_facts(self.prepared.manifest, self.program.devices.all)
        if not self.choice.at_once:
            choice = replace(self.choice, at_once=self._fitting())
            self.chunks = chunks_of(choice, self.experiment.seeds, self.prepared)
        tables.write_examples(self.directory, self.benchmark)
        self.slots = tables.read_slots(self.directory)
        done = {(row["group"], row["disease"], row["seed"]) for row in self.slots}
        sizes = ", ".join(
            f"{group} {sum(f.group == group for f in self.folds)}" for group in self.groups
        )
        self.session.say(
            f"{self.benchmark.name}: {len(self.benchmark):,} examples; folds: {sizes}; seeds "
            f"{', '.join(map(str, self.experiment.seeds))}: {self.total} slots in {len(self.chunks)} chunks"
            + (f", {len(done)} slots done" if done else "")
        )
        if reasons := left_out(self.benchmark.facts):
            self.session.say(f"{self.benchmark.name}: left out: {reasons}")
        for chunk in self.chunks:
            if (
                not {(chunk.group, self.folds[fold].disease, seed) for fold, seed in chunk.slots}
                <= done
            ):
                self._train(chunk)
        return self._fitted()

    def _fitting(self) -> int:
        """The number of slots that fit into memory and disk. It is saved, so that a resumed run has
        the same chunks."""
        place = self.directory.checkpoints / AT_ONCE
        if not place.exists():
            room = min(map(devices.room, self.program.devices.all))
            disk = devices.room_of_checkpoint(self.directory.checkpoints)
            self.session.say(f"compiling a step to find how many slots fit into {room >> 20:,} MiB")
            found = []
            for chunk in self.chunks:
                self.program.optimizer = self.optimizers[chunk.group]
                batches = self.batches[f"{chunk.group}/train"]
                found.append(devices.fitting(self.program, batches, len(chunk.slots), room, disk))
            write_json(place, min(found))
        return json.loads(place.read_bytes())

    def _train(self, chunk: Chunk):
        names = {part: f"{chunk.group}/{part}" for part in ("train", "dev")}
        task, self.program.optimizer = self.program.scorer, self.optimizers[chunk.group]
        trainer = Trainer(
            self.program,
            self.experiment.settings,
            {part: task.rows(self.prepared, name) for part, name in names.items()},
            {part: self.batches[name] for part, name in names.items()},
            chunk.codes,
            checkpoints=Checkpoints(self._checkpoints(chunk)),
            on_epoch=lambda row: self._on_epoch(chunk, row),
            on_save=self.session.on_save,
            should_stop=self.session.should_stop,
            profile=self.profile,
            score=task.slot_scores,
        )
        self.profile = None
        if self.parameters is None:
            self.parameters = sum(
                int(leaf[0].size) for leaf in jax.tree.leaves(trainer.learner.params)
            )
            self.session.say(f"{self.experiment.model.name}: {self.parameters:,} parameters a slot")
        if self.experiment.model.weights:
            start_from_pretrained(trainer, self.experiment)
        if trainer.resume():
            self.session.say(
                f"chunk {chunk.number + 1}: resumed in epoch {trainer.epoch} after {trainer.done} batches"
            )
        rows = self.directory.metrics()
        kept = [
            line
            for epoch, line in rows
            if epoch < trainer.epoch or json.loads(line).get("chunk") != chunk.number
        ]
        write_atomic(
            self.directory.folder / "metrics.jsonl", b"".join(line + b"\n" for line in kept)
        )
        best = trainer.run()
        check_converged(best.epoch.tolist(), "fold")
        folds = {fold for fold, _ in chunk.slots}
        rows = task.members(self.prepared, "test")[sorted(folds)].any(axis=0)
        trainer.batches["test"] = task.prediction(
            self.prepared,
            rows,
            shares=self.program.devices.count,
            model=self.program.model,
            coarse=len(folds) < sum(fold.group == chunk.group for fold in self.folds),
        )
        logits = trainer.predict("test", best.variables)
        dev = task.slot_scores(
            trainer.splits["dev"], trainer.predict("dev", best.variables), chunk.codes
        )
        self._keep(chunk, best, dev, logits)

    def _checkpoints(self, chunk):
        return self.directory.checkpoints / f"chunk-{chunk.number}"

    def _keep(self, chunk, best, dev, logits):
        """Adds the predictions of the chunk's slots to the run's file, which marks the chunk as
        done."""
        for place, (number, seed) in enumerate(chunk.slots):
            fold = self.folds[number]
            whole_NC = self.program.scorer.whole(logits[place, fold.test])
            probabilities = np.round(nli.probabilities(whole_NC), 6).tolist()
            uids = (self.benchmark.examples[row].uid for row in fold.test)
            scores = {name: float(found["per_seed"][place]) for name, found in dev.items()}
            self.slots.append({
                "disease": fold.disease,
                "group": fold.group,
                "seed": seed,
                "best_epoch": int(best.epoch[place]),
                "dev": {name: value if np.isfinite(value) else None for name, value in scores.items()},
                "test": dict(zip(uids, probabilities, strict=True)),
            })  # fmt: skip
        self.directory.write_lines(tables.SLOTS, self.slots)
        shutil.rmtree(self._checkpoints(chunk), ignore_errors=True)
        self.session.on_save(self.program.compile_seconds)
        self.session.say(f"slots done: {len(self.slots)} of {self.total}")

    def _on_epoch(self, chunk, row):
        row = {**row, "chunk": chunk.number, "group": chunk.group, "slots": row["seeds"]}
        del row["seeds"]
        self.session.write_epoch(
            row,
            f"{chunk.group}, chunk {chunk.number + 1} of {len(self.chunks)}, {len(row['slots'])} slots, "
            f"{epoch_line(row, self.experiment.settings.epochs)}; slots done: {len(self.slots)} of {self.total}",
        )

    def _fitted(self) -> Fitted:
        folds = [
            self.folds[place]
            for place in sorted({fold for chunk in self.chunks for fold, _ in chunk.slots})
        ]
        found = tables.scores(self.benchmark, folds, tables.probabilities(self.slots))
        if categories := self.choice.categories:
            found = {name: scored for name, scored in found.items() if name in categories}
        diverged = sum(slot["best_epoch"] == 0 for slot in self.slots)
        rows = [json.loads(line) for _, line in self.directory.metrics()]
        seconds = sum(row["seconds"] for row in rows)
        examples = sum(row["examples_per_second"] * row["seconds"] for row in rows)
        facts = {
            "categories": found,
            "names": {fold.disease: self.benchmark.names[fold.disease] for fold in folds},
            "folds": len(folds),
            "slots": len(self.slots),
            "epochs": self.experiment.settings.epochs,
            **({} if self.parameters is None else {"parameters": self.parameters}),
            "train_examples_per_second": round(examples / max(seconds, 1e-9), 2),
            "compile_seconds": round(self.program.compile_seconds, 2),
        }
        notes = [f"{diverged} slots diverged: they predict with untrained parameters"] * bool(
            diverged
        )
        return Fitted(facts, notes=notes)
