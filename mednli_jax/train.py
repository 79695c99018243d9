"""`python -m mednli_jax.train`: from a config to a tested accuracy."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UserError
from mednli_jax.files import next_free, write_atomic, write_json
from mednli_jax.progress import say
from mednli_jax.runs import RunDirectory, environment

USAGE = f"""Train a model, keep the best dev epoch of each seed, test it once.

  python -m mednli_jax.train --config=configs/esim_kd.py
  python -m mednli_jax.train --config=configs/esim_kd.py:mednli --config.seeds=0,1,2 --workdir=runs/kd

{cli.CONFIG_HELP}
  --workdir=DIR                where the run goes (default: runs/<config>-<variant>, numbered if taken)
  --resume                     go on with the interrupted run in --workdir
  --force                      start over in --workdir, dropping the run it holds
  --dry-run                    only say shapes, parameters, memory and the time an epoch will take
  --profile                    write a profiler trace of some steps to <workdir>/profile
  --coordinator=HOST:PORT --processes=N --process=I   be one of N processes; the coordinator is process 0
  --distributed                the same, where a TPU pod, Slurm or MPI started them

Corpora are looked for in $MEDNLI_JAX_DATA/<corpus>/, prepared data is kept in $MEDNLI_JAX_CACHE.
The run directory holds result.json, metrics.jsonl, log.txt and the checkpoints.
Exit codes: 0 done, 2 bad input or usage, 3 interrupted (go on with --resume)."""


def define(values: cli.Flags) -> None:
    cli.define_config(values)
    flags.DEFINE_string("workdir", None, "run directory", flag_values=values)
    flags.DEFINE_bool("resume", False, "go on with an interrupted run", flag_values=values)
    flags.DEFINE_bool("force", False, "drop the run in --workdir and start over", flag_values=values)
    flags.DEFINE_bool("dry_run", False, "say what would be trained", flag_values=values)
    flags.DEFINE_bool("profile", False, "trace some steps", flag_values=values)
    flags.DEFINE_string("coordinator", None, "address of process 0", flag_values=values)
    flags.DEFINE_integer("processes", None, "processes that train together", flag_values=values)
    flags.DEFINE_integer("process", None, "number of this process, from 0", flag_values=values)
    flags.DEFINE_bool("distributed", False, "join the processes of a pod or job", flag_values=values)


def main(values: cli.Flags) -> int:
    config = cli.config(values)
    if values.resume and values.force:
        raise UserError("E-USE-013 --resume goes on with a run, --force drops it. Fix: give one of the two.")
    from mednli_jax import experiment  # jax is imported after the flags are known to be good

    experiment.resolve(config)
    experiment.check(config)
    if config.task == "diskne":
        from mednli_jax import folds

        folds.check(config)
    name = cli.config_name()
    if values.workdir:
        folder = Path(values.workdir).expanduser()
    else:
        folder = Path("runs") / name if values.resume else next_free(Path("runs") / name)
    if values.dry_run and config.model.name == "features":
        raise UserError("E-USE-017 --dry-run times training steps, and features have none. Fix: leave it out.")
    if values.dry_run and config.task == "diskne":
        raise UserError("E-USE-017 --dry-run times the steps of one corpus, not of folds. Fix: leave it out.")
    if values.dry_run:
        return _dry_run(config)
    from mednli_jax.training import hosts

    here = hosts.join(values.coordinator, values.processes, values.process, automatic=values.distributed)
    if here.count > 1 and config.model.name == "features":
        raise UserError("E-HOST-007 features are no network: one process fits them. Fix: start one alone.")
    if here.count > 1 and config.task == "diskne":
        raise UserError("E-HOST-007 folds are trained by one process. Fix: give each --config.diskne.diseases.")
    kind = _Training if here.leads else _Companion
    training = kind(config, folder, name, resume=values.resume, profile=values.profile)
    if here.count == 1:
        return training.run(force=values.force)

    def work():
        here.check_same("config", config.to_dict())
        return training.run(force=values.force)

    return here.run(lambda: cli.script(work, here.tell, piped=False))


def _dry_run(config):
    from mednli_jax import experiment
    from mednli_jax.tasks import table as tasks

    experiment.use_compile_cache()
    prepared, _ = tasks.of(config).load(config)
    for line in experiment.describe(config, prepared):
        print(line, flush=True)  # each is timed, which takes a while


class _Training:
    """One run of the door: corpus, program, run directory, trainer, result."""

    def __init__(self, config, folder, name, *, resume, profile):
        self.config, self.folder, self.name, self.resume = config, folder, name, resume
        self.profile, self.started = profile, time.monotonic()
        self.signals, self.notes, self.source = 0, [], None
        self.before, self.compile_seconds = {}, 0.0  # what the sessions before took; of compiling, this one, too

    def say(self, line):
        say(line)
        self.directory.log(line)

    def run(self, *, force):
        from mednli_jax.tasks import table as tasks
        from mednli_jax.training import hosts
        from mednli_jax.training.loop import Interrupted

        task = tasks.of(self.config)
        RunDirectory.check(self.folder, resume=self.resume, force=force)
        prepared, hit = task.load(self.config)  # before the run directory: bad data leaves none behind
        here = hosts.here()
        here.meet()  # the others find the corpus prepared, where they share a cache
        here.check_same("corpus", prepared.manifest["files"])
        if "transfer" in self.config and self.config.transfer.init_from:  # and no bad source run does
            from mednli_jax import sources

            self.source = sources.source_run(self.config, prepared)
        directory = RunDirectory.create(self.folder, self.config.to_dict(), resume=self.resume, force=force)
        self.directory = directory
        if self.resume and directory.status() == "complete":
            self.say(f"{directory.folder}: the run is complete already; nothing to do.")
            return cli.OK
        if self.resume:  # before anything is written: a refusal leaves the run as it was
            directory.check_data(prepared.manifest)
            directory.metrics()
            found = directory.result()
            self.before = {name: found[name] for name in self._spent() if type(found.get(name)) in (int, float)}
            self.compile_seconds = self.before.get("compile_seconds", 0.0)
        directory.write_result("running", self._spent())
        if here.watch:
            here.watch.on_loss = self._interrupted
        self.say(f"corpus {self.config.data.name}: {'found prepared' if hit else 'prepared'} in {prepared.folder}")
        try:
            if task.name == "diskne":
                return self._train_folds(prepared)
            return (self._boost if self.config.model.name == "features" else self._train)(task, prepared)
        except (Interrupted, KeyboardInterrupt):
            self._interrupted()
            return cli.INTERRUPTED
        except BaseException:
            with contextlib.suppress(UserError):  # on a full disk this fails, too, and the first fault is the news
                directory.write_result("failed", self._spent())
            raise
        finally:
            directory.close_scalars()

    def _interrupted(self):
        self.directory.write_result("interrupted", self._spent())
        self.say(f"interrupted. Go on with: {self._resume_command()}")

    def _resume_command(self):
        kept = [a for a in sys.argv[1:] if a.lstrip("-").partition("=")[0] not in ("resume", "force", "workdir")]
        return " ".join(["python -m mednli_jax.train", *kept, f"--workdir={self.folder}", "--resume"])

    def _seconds(self):
        """Seconds of the run, with those of the sessions before a resume."""
        return round(self.before.get("seconds", 0.0) + time.monotonic() - self.started, 1)

    def _spent(self):
        """What a later session adds its own seconds to."""
        return {"seconds": self._seconds(), "compile_seconds": round(self.compile_seconds, 2)}

    def _on_save(self, compile_seconds):
        """Keeps the seconds with each checkpoint: a killed run loses those of the work that it loses."""
        self.compile_seconds = compile_seconds
        self.directory.write_result("running", self._spent())

    def _train(self, task, prepared):
        import jax
        import numpy as np

        from mednli_jax import experiment, sources, trained
        from mednli_jax.training.checkpoint import Checkpoints
        from mednli_jax.training.loop import Trainer

        experiment.use_compile_cache()
        program, batches = experiment.program(self.config, prepared)
        program.compile_seconds += self.compile_seconds
        devices = [f"{d.platform}:{d.device_kind}" for d in program.devices.all]
        write_json(self.directory.folder / "env.json", {**environment(), "devices": devices})
        write_json(self.directory.folder / "data.json", prepared.manifest)
        trained.keep_for_prediction(self.directory, prepared)
        seeds = tuple(self.config.seeds)
        trainer = Trainer(
            program,
            experiment.settings(self.config),
            prepared.splits,
            batches,
            seeds,
            checkpoints=Checkpoints(self.directory.checkpoints),
            on_epoch=self._on_epoch,
            on_save=self._on_save,
            should_stop=lambda: self.signals > 0,
            profile=self.directory.folder / "profile" if self.profile else None,
        )
        parameters = sum(x[0].size for x in jax.tree.leaves(trainer.learner.params))
        self.say(
            f"{self.config.model.name}: {parameters:,} parameters; seeds {', '.join(map(str, seeds))}; "
            f"{len(devices)} device{'s' * (len(devices) > 1)}, {_kind(program.devices.all[0])}; "
            f"batches of {' or '.join(map(str, batches['train'].sizes))}"
        )
        taken = {}
        if self.config.model.name == "bert" and self.config.model.weights:
            unused = sources.start_from_weights(trainer, self.config)
            self.say(f"weights from {Path(self.config.model.weights).name}; of other heads, not used: {len(unused)}")
        if self.source:
            taken = sources.start_from_source(trainer, self.source, self.config)
            drawn = f"; drawn anew: {', '.join(taken['weights_drawn'])}" if taken["weights_drawn"] else ""
            self.say(f"{taken['weights_taken']} weights from {taken['source']}{drawn}")
        if self.resume:
            found = trainer.resume()
            where = f"resumed in epoch {trainer.epoch} after {trainer.done} batches"
            self.say(where if found else "no checkpoint to resume from: starting at the beginning")
        self.say("the first steps compile, which takes a while; later runs find most of it in the cache")
        self.directory.keep_metrics(trainer.epoch - 1)
        trainer.align()
        self._catch_signals()
        best = trainer.run()
        diverged = [seed for seed, epoch in zip(seeds, best.epoch.tolist(), strict=True) if epoch == 0]
        if len(diverged) == len(seeds):
            raise UserError(
                "E-RUN-013 the dev loss of no seed was ever a finite number. Fix: a lower "
                "--config.train.learning_rate, or --config.train.clip=10."
            )
        self.notes = [f"seed {seed} diverged: its scores are those of untrained parameters" for seed in diverged]
        facts = {
            **({"transfer": taken} if taken else {}),
            "epochs": trainer.epoch - 1,
            "best_epoch": np.asarray(best.epoch).tolist(),
            "parameters": sum(int(x[0].size) for x in jax.tree.leaves(best.params)),
            "train_examples_per_second": round(trainer.trained_examples / max(trainer.train_seconds, 1e-9), 2),
            "compile_seconds": round(program.compile_seconds, 2),
            "width": list(trainer.batches["train"].width),
        }
        self._finish(task, prepared, facts, lambda split: trainer.predict(split, best.variables))
        return cli.OK

    def _boost(self, task, prepared):
        """The feature-based system: trees in place of a network. Nothing of it is saved on the way."""
        import numpy as np

        from mednli_jax.baselines import boosting
        from mednli_jax.progress import Bar
        from mednli_jax.training.loop import Interrupted

        write_json(self.directory.folder / "env.json", environment())
        write_json(self.directory.folder / "data.json", prepared.manifest)
        self._catch_signals()
        model, seeds = self.config.model, tuple(self.config.seeds)
        matrix, _ = boosting.load(self.config, prepared)
        part = {name: slice(rows.first, rows.first + len(rows)) for name, rows in prepared.splits.items()}
        with Bar("boosting", model.trees * len(seeds), unit="trees") as bar:

            def on_tree():
                bar.advance(1)
                if self.signals:
                    raise Interrupted

            done = boosting.fit_predict(
                matrix, np.asarray(prepared.arrays["label"]), part["train"], seeds,
                trees=model.trees, depth=model.depth, learning_rate=model.learning_rate, subsample=model.subsample,
                on_tree=on_tree,
            )  # fmt: skip
        facts = {"parameters": 0, "importance": boosting.importance_table(done.importance)}
        logits = np.log(np.maximum(done.probabilities, 1e-12))
        self._finish(task, prepared, facts, lambda split: logits[:, part[split]])
        for line in boosting.importance_lines(facts["importance"]):
            self.say(line)
        return cli.OK

    def _train_folds(self, prepared):
        """A model for each fold of DisKnE, in place of one for a corpus; its scores, not its weights, are kept."""
        from mednli_jax import folds
        from mednli_jax.analysis import html
        from mednli_jax.analysis.diskne import runs as diskne_runs
        from mednli_jax.analysis.sections import lines

        self._catch_signals()
        training = folds.FoldTraining(
            self.config,
            prepared,
            self.directory,
            say=self.say,
            on_save=self._on_save,
            compile_seconds=self.compile_seconds,
            should_stop=lambda: self.signals > 0,
            profile=self.directory.folder / "profile" if self.profile else None,
        )
        found = training.run()
        notes = sorted({s["note"] for s in prepared.manifest["splits"].values() if "note" in s}) + found["notes"]
        result = {**self._about("diskne"), **found, "notes": notes, "prepared": prepared.folder.name}
        self.directory.write_result("complete", {**result, "seconds": self._seconds()})
        shown = diskne_runs.run_sections(self.directory.folder)
        write_atomic(self.directory.folder / "report.html", html.run_page(self.directory, shown))
        for line in (*lines(shown[0]), *notes):
            self.say(line)
        print(self.directory.folder / "result.json")
        return cli.OK

    def _about(self, task):
        return {
            "corpus": cli.corpus_name(self.config),
            "task": task,
            "model": self.config.model.name,
            "config": self.name,
            "seeds": list(self.config.seeds),
        }

    def _catch_signals(self):
        """The first signal stops at the next chunk, the second at once."""

        def stop(number, frame):
            self.signals += 1
            if self.signals > 1:
                raise KeyboardInterrupt
            say("stopping after the work under way ...")

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)

    def _on_epoch(self, row):
        self.directory.append_metrics(row)
        self.directory.write_scalars(row)

        def mean(name):
            values = [v for v in row[name] if v is not None]
            return sum(values) / len(values) if values else float("nan")

        self.say(
            f"epoch {row['epoch']}/{self.config.train.epochs}: train loss {mean('train_loss'):.4f}, "
            f"dev loss {mean('dev_loss'):.4f}, dev accuracy {mean('dev_accuracy'):.4f}, "
            f"{row['examples_per_second']:.0f} examples/s, {row['seconds']:.1f} s"
        )

    def _finish(self, task, prepared, facts, logits_of):
        """Scores dev and test, writes the result and its page. logits_of(split) -> [S, N, C]."""
        from mednli_jax.analysis import html
        from mednli_jax.training import hosts

        result = {
            **self._about(task.name),
            **facts,
            "notes": sorted({s["note"] for s in prepared.manifest["splits"].values() if "note" in s}) + self.notes,
            "prepared": prepared.folder.name,
        }
        for split in ("dev", "test"):
            rows, result[split] = prepared.splits.get(split), None
            if rows:
                logits = logits_of(split)
                result[split] = task.score(rows, logits)
                self.directory.write_predictions(split, task.predictions(rows, logits))
        hosts.here().part()
        self.directory.write_result("complete", {**result, "seconds": self._seconds()})
        write_atomic(self.directory.folder / "report.html", html.run_page(self.directory))
        for split in ("dev", "test"):
            if result[split]:
                self.say(task.summary(split, result[split]))
        for note in result["notes"]:
            self.say(note)
        print(self.directory.folder / "result.json")


class _Companion(_Training):
    """What every process but the first does: it trains along, says nothing, and leaves nothing behind."""

    def run(self, *, force):
        from mednli_jax.training.loop import Interrupted

        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            try:
                return self._train_along()
            except (Interrupted, KeyboardInterrupt):
                return cli.INTERRUPTED

    def _train_along(self):
        from mednli_jax import experiment
        from mednli_jax.tasks import table as tasks
        from mednli_jax.training import hosts
        from mednli_jax.training.loop import Trainer

        here = hosts.here()
        here.meet()  # the first has prepared the corpus
        prepared, _ = tasks.of(self.config).load(self.config)
        here.check_same("corpus", prepared.manifest["files"])
        experiment.use_compile_cache()
        program, batches = experiment.program(self.config, prepared)
        trainer = Trainer(
            program,
            experiment.settings(self.config),
            prepared.splits,
            batches,
            tuple(self.config.seeds),
            should_stop=lambda: self.signals > 0,
        )
        trainer.align()
        self._catch_signals()
        best = trainer.run()
        for split in ("dev", "test"):
            if prepared.splits.get(split):
                trainer.predict(split, best.variables)
        here.part()
        return cli.OK


def _kind(device):
    """`cpu`, or `gpu NVIDIA H200`: the kind only where it says more than the platform."""
    return device.platform if device.device_kind == device.platform else f"{device.platform} {device.device_kind}"


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
