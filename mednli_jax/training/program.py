"""Training and prediction over data on the devices, compiled once for each layout of a batch.

Dimension letters: S seeds, Q premise groups of a batch, G rows of a group, B rows, N rows of
a split, C classes.
"""

import collections
import contextlib
import math
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental.layout import Format
from jax.typing import DTypeLike

from mednli_jax.data.batching import Batches, Layout
from mednli_jax.terminal import Bar
from mednli_jax.training import settings as jax_settings
from mednli_jax.training import state as states
from mednli_jax.training.devices import Devices, Formats
from mednli_jax.training.scorer import Scorer
from mednli_jax.training.step import Sums, predict_step, train_step
from mednli_jax.types import PyTree

# batches computed on the device while the host receives an earlier one
LOOKAHEAD = 2


@dataclass(frozen=True)
class Precision:
    """The precision of a model's matrix products.

    Args:
      matmul: jax's setting while a body is traced. None keeps the device's default: TF32 on a GPU,
        operands of 16 bits on a TPU, float32 on a CPU.
      product_dtype: of the operands, a field of the model (models.products). The products sum in 32
        bits. Parameters, the optimiser, norms, softmax and losses keep 32 bits.
    """

    matmul: str | None = None
    product_dtype: DTypeLike | None = None

    def tracing(self) -> contextlib.AbstractContextManager[None]:
        """The context in which a body is traced."""
        if self.matmul is None:
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[None] = jax.default_matmul_precision(self.matmul)
        return context


# by the setting `train.precision`
PRECISIONS = {
    "default": Precision(),
    "float32": Precision("float32"),
    "tf32": Precision("tensorfloat32"),
    "bfloat16": Precision(product_dtype=jnp.bfloat16),
}


Tick = Callable[[int], None]  # called with a number of rows
Body = Callable[..., PyTree]
Compiled = jax.stages.Compiled
Arguments = tuple[PyTree, PyTree, PyTree, PyTree]  # of a body
Key = tuple[Hashable, ...]  # layout, number of seeds and shapes of data


class _Kind(NamedTuple):
    """The settings by which a body is compiled."""

    name: str  # train or predict
    reduced: bool  # whether its results are equal on all devices
    donates: bool  # whether its first argument is donated


TRAIN = _Kind("train", reduced=True, donates=True)
PREDICT = _Kind("predict", reduced=False, donates=False)


@dataclass
class Program:
    """The compiled steps of training and prediction over one data set, for each layout of a batch.

    Args:
      frozen: arrays that are not trained, on the devices.
      data: arrays of the corpus, on the devices.
      optimizer: None for prediction, or until the number of steps is known.
      train_options: of the compiler, for training steps.
    """

    model: nn.Module
    scorer: Scorer
    devices: Devices
    frozen: PyTree
    data: dict[str, jax.Array]
    optimizer: optax.GradientTransformation | None = None
    precision: Precision = Precision()
    train_options: jax_settings.CompilerOptions = field(default_factory=dict)
    compile_seconds: float = 0.0
    # Futures while `compile` runs.
    _compiled: dict[Key, Compiled | Future[Compiled]] = field(default_factory=dict)
    _formats: dict[Hashable, PyTree] = field(default_factory=dict)

    def draw(self, layout: Layout, seeds: Sequence[int]) -> states.Learner:
        """Draws new learners with random weights, one for each seed. layout: any layout, for the
        shapes of the model."""

        def batch_of_padding() -> PyTree:
            index = jnp.full((layout.group_count, layout.group_size), -1, jnp.int32)
            return self.scorer.to_batch(self.data, index, layout)

        # The shapes alone are needed. To compute the batch, jax would compile each of its
        # operations.
        shapes = jax.eval_shape(batch_of_padding)
        batch = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        return states.init_learner(self.model, self._optimizer, seeds, batch, self.frozen)

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        assert self.optimizer is not None
        return self.optimizer

    # -- steps -----------------------------------------------------------------------------------

    def train(
        self, layout: Layout, learner: states.Learner, index: np.ndarray
    ) -> tuple[states.Learner, Sums]:
        """Runs one step and returns (learner, sums). index: [S, Q, G]. The learner passed in is
        donated."""
        compiled = self.train_body(layout, learner, index)
        result: tuple[states.Learner, Sums] = self._results(compiled, learner, index)
        return result

    def predict(self, layout: Layout, variables: PyTree, index: np.ndarray) -> jax.Array:
        """Computes logits [S, B, C] on the device(s). index: [Q, G]."""
        compiled = self.predict_body(layout, variables, index)
        logits: jax.Array = self._results(compiled, variables, index)
        return logits

    def train_bytes(self, layout: Layout, learner: states.Learner, index: np.ndarray) -> int:
        """The bytes that `train` takes on each device: arguments, results, work space. learner:
        arrays or only shapes."""
        sizes = self.train_body(layout, learner, index).memory_analysis()
        assert sizes is not None
        results = sizes.output_size_in_bytes - sizes.alias_size_in_bytes
        return int(sizes.argument_size_in_bytes + results + sizes.temp_size_in_bytes)

    def fitting_seeds(self, batches: Batches, seeds: int, room: int, checkpoint: int) -> int:
        """The number of seeds, from 1 to `seeds`, that can train together.

        The step of the largest layout is compiled for as many seeds as fit by their parameters
        alone. If it takes too much memory, the number is reduced in proportion, because nearly all
        of the memory grows with it.

        room, checkpoint: bytes for training and for a checkpoint.
        """
        layout = max(batches.layouts, key=lambda layout: layout.row_count * sum(layout.width))
        learner = jax.eval_shape(lambda: self.draw(layout, (0,)))
        learner_bytes, params_bytes = states.tree_bytes(learner), states.tree_bytes(learner.params)
        # best weights, their old values while they are replaced, and gradients
        seed_bytes = learner_bytes + 3 * params_bytes
        most = min(seeds, room // seed_bytes, checkpoint // (learner_bytes + params_bytes))
        if most <= 1:
            return 1

        def with_seeds(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((most, *leaf.shape[1:]), leaf.dtype)

        groups = layout.group_count * self.devices.count
        index = np.full((most, groups, layout.group_size), -1, np.int32)
        step_bytes = self.train_bytes(layout, jax.tree.map(with_seeds, learner), index)
        needed = step_bytes + 2 * most * params_bytes
        return most if needed <= room else max(1, most * room // needed)

    def train_body(
        self,
        layout: Layout,
        learner: states.Learner,
        index: np.ndarray,
        pool: ThreadPoolExecutor | None = None,
    ) -> Compiled:
        """The compiled body of `train`. learner: arrays or only shapes. pool: see `compile`."""
        optimizer = self._optimizer
        body = train_step(self.model, self.scorer, optimizer, layout, self.devices.axis_name)
        key = (optimizer, layout, index.shape[0])
        return self._compiled_body(TRAIN, key, body, learner, index, pool)

    def predict_body(
        self,
        layout: Layout,
        variables: PyTree,
        index: np.ndarray,
        pool: ThreadPoolExecutor | None = None,
    ) -> Compiled:
        """The compiled body of `predict`. variables: arrays or only shapes. pool: see `compile`."""
        body = predict_step(self.model, self.scorer, layout)
        key = (layout, jax.tree.leaves(variables)[0].shape[0])
        return self._compiled_body(PREDICT, key, body, variables, index, pool)

    def logits(
        self,
        variables: PyTree,
        batches: Batches,
        *,
        tick: Tick | None = None,
    ) -> np.ndarray:
        """Computes logits [S, N, C] of a split, each row once, in the order of the split. tick:
        called after each batch with the number of its rows."""
        logits_SNC: np.ndarray | None = None
        pending: collections.deque[tuple[np.ndarray, jax.Array]] = collections.deque()
        plan = batches.once()
        for number, (layout, index) in enumerate(plan, start=1):
            pending.append((index.reshape(-1), self.predict(layout, variables, index)))
            most = 0 if number == len(plan) else LOOKAHEAD
            while len(pending) > most:
                index_B, on_device = pending.popleft()
                logits_SBC = self.devices.join(on_device)
                if logits_SNC is None:
                    seeds, _, classes = logits_SBC.shape
                    logits_SNC = np.zeros((seeds, batches.row_count, classes), logits_SBC.dtype)
                is_row_B = index_B >= 0
                logits_SNC[:, index_B[is_row_B] - batches.settings.first] = logits_SBC[:, is_row_B]
                if tick:
                    tick(int(is_row_B.sum()))
        assert logits_SNC is not None
        return logits_SNC

    # -- compilation -----------------------------------------------------------------------------

    def compile(self, bodies: Sequence[Callable[..., Compiled]]) -> None:
        """Compiles bodies, partial calls of train_body and predict_body without `pool`, in
        parallel."""
        started, before = time.monotonic(), self.compile_seconds
        with ThreadPoolExecutor(max(len(bodies), 1)) as pool, Bar("compiling", None) as bar:
            for body in bodies:  # traced in this thread, because jax's settings are per thread
                body(pool=pool if self.devices.hosts.count == 1 else None)
            for key, compiled in self._compiled.items():
                if isinstance(compiled, Future):
                    while wait([compiled], timeout=1).not_done:
                        bar.advance(0)  # shows the seconds
                    self._compiled[key] = compiled.result()
        self.compile_seconds = before + time.monotonic() - started

    @property
    def compiled(self) -> list[Compiled]:
        """The compiled bodies so far."""
        return [body for body in self._compiled.values() if isinstance(body, Compiled)]

    def _compiled_body(
        self,
        kind: _Kind,
        key: Key,
        body: Body,
        state: PyTree,
        index: np.ndarray,
        pool: ThreadPoolExecutor | None,
    ) -> Compiled:
        """The compiled body of this kind and key. While `compile` uses a pool, it is a Future,
        which `compile` awaits."""
        shapes = tuple((name, array.shape) for name, array in self.data.items())
        key = (kind, *key, *shapes)
        if key not in self._compiled:
            started = time.monotonic()
            arguments = (state, self.frozen, self.data, self.devices.split(index))
            if self.devices.chooses_formats:
                names = (kind.name, "frozen", shapes)
                self._compiled[key] = self._with_formats(kind, body, arguments, names)
            else:
                lowered = self._lower(kind, body, arguments)
                options = self._compiler_options(kind, math.prod(index.shape[-2:]))
                compile_body = partial(lowered.compile, options)
                self._compiled[key] = pool.submit(compile_body) if pool else compile_body()
            # Some processes compile longer, and a collective would time out.
            self.devices.hosts.meet()
            self.compile_seconds += time.monotonic() - started
        return cast(Compiled, self._compiled[key])  # `compile` does not read its Futures

    def _compiler_options(self, kind: _Kind, examples: int) -> jax_settings.CompilerOptions:
        if kind is TRAIN:
            return self.train_options
        if self.devices.count > 1:
            return {}
        return jax_settings.options_for(
            type(self.model),
            kind.name,
            examples=examples,
            platform=self.devices.platform,
            product_dtype=self.precision.product_dtype,
        )

    def _lower(
        self, kind: _Kind, body: Body, arguments: Arguments, formats: Formats | None = None
    ) -> jax.stages.Lowered:
        mapped = self.devices.map(body, reduced=kind.reduced, donate=kind.donates, formats=formats)
        with self.precision.tracing():
            return mapped.lower(*arguments)

    def _with_formats(
        self, kind: _Kind, body: Body, arguments: Arguments, names: Sequence[Hashable]
    ) -> Compiled:
        """Compiles the body with the formats of arrays that the first body chose. names: keys of
        the formats of the first three arguments."""
        chosen = [self._formats.get(name, self.devices.chosen_format) for name in names]
        formats = Formats(
            arguments=(*chosen, None), results=(chosen[0], None) if kind.donates else None
        )
        # jit refuses arrays, which have a format, where the compiler chooses one.
        shapes = jax.tree.map(_shape, arguments)
        compiled = self._lower(kind, body, shapes, formats).compile()
        of_state, of_frozen, of_data, _ = compiled.input_formats[0]
        self._formats |= dict(zip(names, (of_state, of_frozen, of_data), strict=True))
        # A step returns the learner in the format in which it takes it; that is fixed now.
        if kind.donates and compiled.output_formats[0] != of_state:
            return self._with_formats(kind, body, arguments, names)
        return compiled

    def _results(self, compiled: Compiled, state: PyTree, index: np.ndarray) -> PyTree:
        """Calls a compiled body. Arrays get the formats that it was compiled for; arrays that a
        step returned already have them."""
        if self.devices.chooses_formats:
            of_state, of_frozen, of_data, _ = compiled.input_formats[0]
            self.frozen = jax.tree.map(_put, self.frozen, of_frozen)
            self.data = jax.tree.map(_put, self.data, of_data)
            state = jax.tree.map(_put, state, of_state)
        return compiled(state, self.frozen, self.data, self.devices.split(index))


def _put(leaf: PyTree, required: Format) -> PyTree:
    return leaf if leaf.format == required else jax.device_put(leaf, required)


def _shape(leaf: jax.Array | np.ndarray | jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    sharding = None if isinstance(leaf, np.ndarray) else leaf.sharding
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
