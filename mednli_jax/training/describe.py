"""The output of `train --dry-run`: shapes, parameters, memory and seconds per epoch, measured before training."""

import time
from collections.abc import Iterator

import jax
import numpy as np

from mednli_jax.training.loop import Trainer


def describe(trainer: Trainer) -> Iterator[str]:
    """Yields lines: shapes, parameters, memory, and seconds per epoch from timed steps."""
    bodies, batches, seeds = trainer.program, trainer.batches, trainer.seeds
    yield f"{'parameter':50} {'shape (of one seed)':>22}"
    for path, leaf in jax.tree.leaves_with_path(trainer.learner.params):
        yield f"{jax.tree_util.keystr(path, simple=True, separator='/'):50} {leaf.shape[1:]!s:>22}"
    size = sum(leaf[0].size for leaf in jax.tree.leaves(trainer.learner.params))
    count, sizes = bodies.devices.count, " or ".join(map(str, batches["train"].sizes))
    yield f"{size:,} parameters a seed, {len(seeds)} seeds, batches of {sizes}, {count} devices"
    plans = {"train": batches["train"].epoch(1, np.asarray(trainer.learner.seed)), "dev": batches["dev"].once()}

    def train_step(layout, index):  # updates the learner, as in training
        trainer.learner, _ = bodies.train(layout, trainer.learner, index)
        return trainer.learner

    def dev_step(layout, index):
        return bodies.predict(layout, trainer.learner.variables, index)

    seconds = {}
    for title, step in (("train", train_step), ("dev", dev_step)):
        seconds[title] = 0.0
        for layout in dict.fromkeys(layout for layout, _ in plans[title]):
            indices = [index for other, index in plans[title] if other == layout]
            each = _seconds_per_step(step, layout, indices[0])
            seconds[title] += each * len(indices)
            slots = sum(steps * rows for steps, rows in layout.sentences)
            yield (
                f"{title}: {len(indices)} batches an epoch of {layout.rows * count} rows, up to "
                f"{layout.width[0]}+{layout.width[1]} tokens, {slots * count} slots, {1e3 * each:.0f} ms each"
            )
    yield from _memory(trainer)
    epochs, epoch = trainer.settings.epochs, sum(seconds.values())
    yield (
        f"an epoch takes about {epoch:.0f} s ({seconds['train']:.0f} s training, {seconds['dev']:.0f} s dev), {epochs} "
        f"epochs at most {epochs * epoch / 60:.1f} min; not counted: compiling ({bodies.compile_seconds:.0f} s now), "
        "checkpoints, the test at the end"
    )


def _seconds_per_step(step, layout, index):
    """Median time of at least three steps, and as many as fit into a second, after one step that compiles."""
    times = []
    jax.block_until_ready(step(layout, index))
    while len(times) < 3 or (sum(times) < 1 and len(times) < 50):
        started = time.monotonic()
        jax.block_until_ready(step(layout, index))
        times.append(time.monotonic() - started)
    return float(np.median(times))


def _memory(trainer):
    """A line on memory: resident arrays and the work space of the largest step."""
    bodies = trainer.program
    held = {
        "weights and optimiser state": trainer.learner,
        "best weights": trainer.best,
        "vectors": bodies.frozen,
        "corpus": bodies.data,
        **({} if trainer.average is None else {"averaged weights": trainer.average}),
    }
    size = {name: sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 1e6 for name, tree in held.items()}
    # The memory of the largest compiled step besides its arguments: activations, gradients, results.
    found = [sizes for compiled in bodies.compiled if (sizes := compiled.memory_analysis()) is not None]
    most = (s.temp_size_in_bytes + s.output_size_in_bytes - s.alias_size_in_bytes for s in found)
    work = max(most, default=0) / 1e6
    yield f"memory of each device: {sum(size.values()) + work:.0f} MB = " + " + ".join(
        f"{name} {megabytes:.1f}" for name, megabytes in {**size, "work space of the largest step": work}.items()
    )
