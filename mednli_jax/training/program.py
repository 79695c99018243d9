"""Training and prediction over data on the devices, compiled once for each layout of a batch.

Dimension letters: S seeds, Q units of a batch, G rows of a unit, B rows, N rows of a split, C
classes.
"""

import collections
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.errors import ScopeParamNotFoundError, ScopeParamShapeError
from jax.typing import DTypeLike

from mednli_jax.data import batching
from mednli_jax.errors import RunError
from mednli_jax.training import state as states
from mednli_jax.training.devices import Devices
from mednli_jax.training.step import predict_step, train_step
from mednli_jax.training.task import Scorer

# batches computed on the device while the host receives an earlier one
LOOKAHEAD = 2


@dataclass(frozen=True)
class Precision:
    """The precision of a model's matrix products.

    Args:
      matmul: jax's setting while a body is traced. None keeps the device's default: TF32 on a GPU, operands of 16 bits
        on a TPU, float32 on a CPU.
      product_dtype: of the operands, a field of the model (models.products). The products sum in 32 bits. Parameters,
        the optimiser, norms, softmax and losses keep 32 bits.
    """

    matmul: str | None = None
    product_dtype: DTypeLike | None = None

    def tracing(self) -> contextlib.AbstractContextManager[None]:
        """The context in which a body is traced and compiled."""
        if self.matmul is None:
            return contextlib.nullcontext()
        return jax.default_matmul_precision(self.matmul)


# by the setting `train.precision`
PRECISIONS = {
    "default": Precision(),
    "float32": Precision("float32"),
    "tf32": Precision("tensorfloat32"),
    "bfloat16": Precision(product_dtype=jnp.bfloat16),
}


def _shape(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=getattr(x, "sharding", None))


@dataclass
class Program:
    """Compiled steps of training and prediction over one data set, for each layout of a batch."""

    model: object  # linen module
    scorer: Scorer
    devices: Devices
    frozen: dict  # arrays that are not trained, on the devices
    data: dict  # arrays of the corpus, on the devices
    optimizer: optax.GradientTransformation | None = (
        None  # None for prediction, or until the number of steps is known
    )
    precision: Precision = Precision()  # of the model's matrix products
    compile_seconds: float = 0.0
    _compiled: dict = field(default_factory=dict)
    _formats: dict = field(default_factory=dict)

    def draw(self, layout, seeds) -> states.Learner:
        """New learners with random weights, one for each seed. layout: any layout, for the shapes
        of the model."""
        padding = jnp.full((layout.units, layout.group), -1, jnp.int32)
        batch = self.scorer.to_batch(self.data, padding, layout)
        return states.init_learner(self.model, self.optimizer, seeds, batch, self.frozen)

    def train(self, layout, learner, index):
        """(learner, sums) after one step. index: [S, Q, G]. The given learner is donated."""
        call = self.train_body(layout, learner, index)
        return call(*self._placed(call, learner), self.devices.split(index))

    def train_bytes(self, layout, learner, index) -> int:
        """Bytes that `train` takes on each device: arguments, results, work space. learner: arrays
        or only shapes."""
        sizes = self.train_body(layout, learner, index).memory_analysis()
        held = sizes.argument_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
        return held + sizes.temp_size_in_bytes

    def predict(self, layout, variables, index):
        """Logits [S, B, C] on the device(s); index [Q, G]."""
        call = self.predict_body(layout, variables, index)
        return call(*self._placed(call, variables), self.devices.split(index))

    def train_body(self, layout, learner, index, pool=None):
        """The compiled body of `train`. learner: arrays or only shapes. pool: see `compile`."""
        body = train_step(self.model, self.scorer, self.optimizer, layout, self.devices.axis_name)
        key = ("train", self.optimizer, layout, index.shape[0])
        return self._compiled_for(key, body, learner, index, pool, reduced=True, donate=True)

    def predict_body(self, layout, variables, index, pool=None):
        """The compiled body of `predict`. variables: arrays or only shapes. pool: see `compile`."""
        body, seeds = (
            predict_step(self.model, self.scorer, layout),
            jax.tree.leaves(variables)[0].shape[0],
        )
        try:
            return self._compiled_for(
                ("predict", layout, seeds), body, variables, index, pool, reduced=False
            )
        except (ScopeParamNotFoundError, ScopeParamShapeError) as error:
            problem = "the weights do not fit the model of the config"
            raise RunError(problem, fix="restore the run directory") from error

    def _compiled_for(self, key, body, state, index, pool=None, **how):
        shapes = tuple((name, array.shape) for name, array in self.data.items())
        key = (*key, *shapes)
        if key not in self._compiled:
            started = time.monotonic()
            given = (state, self.frozen, self.data, self.devices.split(index))
            if self.devices.chooses_formats:
                self._compiled[key] = self._with_formats(
                    body, given, (key[0], "frozen", shapes), **how
                )
            elif pool:
                self._compiled[key] = pool.submit(self._lowered(body, given, **how).compile)
            else:
                self._compiled[key] = self._lowered(body, given, **how).compile()
            self.devices.hosts.meet()  # some processes compile longer, and a collective would time out
            self.compile_seconds += time.monotonic() - started
        return self._compiled[key]

    def _lowered(self, body, given, **how):
        with self.precision.tracing():
            return self.devices.map(body, **how).lower(*given)

    def _with_formats(self, body, given, names, *, donate=False, **how):
        """Compiles the body with the array formats that the first body chose; a step keeps the
        learner's format."""
        known = [self._formats.get(name, self.devices.chosen_format) for name in names]
        given = jax.tree.map(
            _shape, given
        )  # where the compiler chooses, jit refuses arrays, which have a format
        out = {"out_shardings": (known[0], None)} if donate else {}
        how |= {"donate": donate, "in_shardings": (*known, None)}
        compiled = self._lowered(body, given, **how, **out).compile()
        self._formats |= dict(zip(names, compiled.input_formats[0], strict=False))
        if donate and compiled.output_formats[0] != self._formats[names[0]]:
            return self._with_formats(body, given, names, donate=donate, reduced=how["reduced"])
        return compiled

    def _placed(self, call, state):
        """(state, frozen, data) in the formats of a compiled body. Arrays returned by a step
        already have them."""
        if not self.devices.chooses_formats:
            return state, self.frozen, self.data

        def put(leaf, required):
            return leaf if leaf.format == required else jax.device_put(leaf, required)

        of_state, of_frozen, of_data, _ = call.input_formats[0]
        self.frozen, self.data = (
            jax.tree.map(put, *pair) for pair in ((self.frozen, of_frozen), (self.data, of_data))
        )
        return jax.tree.map(put, state, of_state), self.frozen, self.data

    def compile(self, bodies: list[Callable]) -> None:
        """Compiles bodies, partial calls of train_body and predict_body without `pool`, in
        parallel."""
        started, before = time.monotonic(), self.compile_seconds
        with ThreadPoolExecutor(max(len(bodies), 1)) as pool:
            for body in bodies:  # traced in this thread, because jax's settings are per thread
                body(pool=pool if self.devices.hosts.count == 1 else None)
            for key, made in self._compiled.items():
                self._compiled[key] = made.result() if isinstance(made, Future) else made
        self.compile_seconds = before + time.monotonic() - started

    @property
    def compiled(self) -> list:
        """The compiled bodies so far."""
        return list(self._compiled.values())

    def logits(self, variables, batches: batching.Batches, *, tick=lambda rows: None) -> np.ndarray:
        """Logits [S, N, C] of a split, each row once, in the order of the split. tick: called after
        each batch with the number of its rows."""
        result, pending = None, collections.deque()

        def take():
            nonlocal result
            rows, part = pending.popleft()
            part = self.devices.join(part)
            if result is None:
                result = np.zeros((part.shape[0], batches.rows, part.shape[2]), part.dtype)
            result[:, rows[rows >= 0] - batches.plan.first] = part[:, rows >= 0]
            tick(int((rows >= 0).sum()))

        for layout, index in batches.once():
            pending.append((index.reshape(-1), self.predict(layout, variables, index)))
            if len(pending) > LOOKAHEAD:
                take()
        while pending:
            take()
        return result
