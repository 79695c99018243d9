"""Seconds and rates of an interrupted and resumed run cover all its sessions, measured by a fake clock."""

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_up_commands import call_command, config_flag, json_lines, read_json, use_one_device, write_own_pairs

from mednli_jax import cli, train
from mednli_jax.baselines import boosting
from mednli_jax.corpora.demo.diskne import load_demo_diskne
from mednli_jax.corpora.diskne.store import write_benchmark
from mednli_jax.fitting import folds, session
from mednli_jax.runs import RunDirectory
from mednli_jax.training import loop
from mednli_jax.training import program as programs

ROWS, SEEDS, EPOCHS = {"train": 24, "dev": 6, "test": 6}, 2, 2


class Clock:
    """A fake clock: a training step or tree takes 10 s, a compilation 1 s. `at`: the step or tree with a signal."""

    def __init__(self, patch):
        self.now, self.steps, self.compiled, self.at = 0.0, 0, 0, None
        for module in (session, loop, programs):
            patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        step, fit = programs.Program.train, boosting.fit_predict
        lowered = programs.Program._compiled_for

        def compiled(program, key, *given, **how):
            known = len(program.compiled)
            body = lowered(program, key, *given, **how)
            if len(program.compiled) > known:
                self.now += 1
                self.compiled += 1
                program.compile_seconds += 1
            return body

        def stepped(program, *given):
            self.work()
            return step(program, *given)

        def fitted(*given, on_tree, **how):
            def on_tick():
                self.tick()
                if self.steps == self.at:
                    raise loop.Interrupted  # as train's handler does; no signal reaches this thread
                on_tree()

            return fit(*given, on_tree=on_tick, **how)

        patch.setattr(programs.Program, "_compiled_for", compiled)
        patch.setattr(programs.Program, "train", stepped)
        patch.setattr(boosting, "fit_predict", fitted)

    def tick(self):
        self.now += 10
        self.steps += 1

    def work(self):
        self.tick()
        if self.steps == self.at:
            signal.raise_signal(signal.SIGTERM)


@pytest.fixture
def clock(monkeypatch, tmp_path):
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    use_one_device(monkeypatch)
    # By default all steps of an epoch are one chunk, and the signal is checked after the chunk; here each step is one.
    monkeypatch.setattr(loop.Trainer, "_chunk", property(lambda self: 1, lambda self, value: None), raising=False)
    return Clock(monkeypatch)


def call(workdir, *flags):
    """Runs `train` and returns its exit code."""
    return call_command(train, *flags, f"--workdir={workdir}")[0]


def flags(config, *more):
    fields = (f"data.dir={Path.cwd() / 'corpus'}", "vectors.path=", "vectors.dim=4", "seeds=0,1", *more)
    return [config_flag(config, "file"), *(f"--config.{field}" for field in fields)]


def result_of(workdir):
    return read_json(workdir, "result.json")


def metrics_of(workdir):
    return json_lines(workdir, "metrics.jsonl")


SMALL = ("model.hidden_size=4", "model.dropout=0.0", "train.batch_size=12", f"train.epochs={EPOCHS}")


@pytest.mark.parametrize("at", [1, 3])  # in the first epoch, in the second
def test_a_network(clock, at):
    write_own_pairs(Path("corpus"), sizes=ROWS.items())
    given = flags("bow", *SMALL, "train.max_buckets=1")
    clock.at = at
    assert call("run", *given) == cli.INTERRUPTED
    first, compiled = result_of("run"), clock.compiled
    assert (first["status"], first["seconds"], first["compile_seconds"]) == ("interrupted", clock.now, compiled)
    assert compiled
    assert call("run", *given, "--resume") == cli.OK
    result = result_of("run")
    assert clock.steps == EPOCHS * ROWS["train"] // 12  # no step ran twice
    assert result["seconds"] == clock.now > first["seconds"]
    assert result["compile_seconds"] == clock.compiled > compiled
    assert [row["seconds"] for row in metrics_of("run")] == [10 * ROWS["train"] // 12] * EPOCHS
    rate = SEEDS * 12 / 10
    assert [row["examples_per_second"] for row in metrics_of("run")] == [rate] * EPOCHS
    assert result["train_examples_per_second"] == rate
    assert f"{rate:.0f}/s over {SEEDS} models, {10 * ROWS['train'] // 12:.1f} s" in Path("run/log.txt").read_text()


def test_a_run_that_is_dropped_does_not_count(clock):
    write_own_pairs(Path("corpus"), sizes=ROWS.items())
    given = flags("bow", *SMALL, "train.max_buckets=1")
    clock.at = 1
    assert call("run", *given) == cli.INTERRUPTED
    before = clock.now
    assert call("run", *given, "--force") == cli.OK
    assert result_of("run")["seconds"] == clock.now - before


def test_a_killed_session_counts_up_to_its_checkpoint(clock, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    def catch(self):
        signal.signal(signal.SIGTERM, killed)

    def without_failed(self, status, values):
        return status == "failed" or write(self, status, values)

    write_own_pairs(Path("corpus"), sizes=ROWS.items())
    given = flags("bow", *SMALL, "train.max_buckets=1")
    clock.at = 3
    with monkeypatch.context() as patch:
        write = RunDirectory.write_result
        patch.setattr(session.Session, "catch_signals", catch)
        patch.setattr(RunDirectory, "write_result", without_failed)  # the process ends before it can write the status
        with pytest.raises(Killed):
            call("run", *given)
    saved = result_of("run")
    assert saved["status"] == "running"
    assert saved["seconds"] >= 20  # the first epoch, which has a checkpoint
    before = clock.now
    assert call("run", *given, "--resume") == cli.OK
    assert result_of("run")["seconds"] == saved["seconds"] + clock.now - before


def test_trees(clock):
    write_own_pairs(Path("corpus"), sizes=ROWS.items())
    given = flags("features", "model.knowledge=none", "model.trees=6")
    clock.at = 3
    assert call("run", *given) == cli.INTERRUPTED
    first = clock.now
    assert result_of("run")["seconds"] == first >= 30
    assert call("run", *given, "--resume") == cli.OK
    assert result_of("run")["seconds"] == clock.now == first + 10 * 6 * SEEDS  # all trees are grown again


def test_folds(clock, monkeypatch):
    """The run is interrupted after a chunk is done, when its checkpoint is gone, and again within the next chunk."""
    from mednli_jax.corpora.diskne.folds import folds as folds_of

    benchmark = load_demo_diskne()
    write_benchmark(benchmark, folds_of(benchmark), Path("corpus"))
    given = flags("diskne_esim", "model.name=bow", *SMALL[:2], "train.batch_size=64", "train.epochs=1",
                  "diskne.categories=symptoms", "diskne.at_once=4")  # fmt: skip
    keep = folds.FoldTraining._keep

    def kept(self, *done):
        keep(self, *done)
        clock.at = clock.steps + 1 if len(self.slots) <= 8 else None

    monkeypatch.setattr(folds.FoldTraining, "_keep", kept)
    assert call("run", *given) == cli.INTERRUPTED
    first = result_of("run")
    assert first["seconds"] == clock.now
    assert call("run", *given, "--resume") == cli.INTERRUPTED
    second = result_of("run")
    assert second["seconds"] == clock.now > first["seconds"]
    assert call("run", *given, "--resume") == cli.OK
    result, rows = result_of("run"), metrics_of("run")
    assert result["seconds"] == clock.now
    assert result["compile_seconds"] == clock.compiled
    assert sum(row["seconds"] for row in rows) == 10 * clock.steps
    trained = sum(row["seconds"] * row["examples_per_second"] for row in rows)
    assert result["train_examples_per_second"] == pytest.approx(trained / (10 * clock.steps), abs=0.01)
