"""Prediction and attention for new inputs by a finished run: the part that all tasks share.

Programs are compiled for coarse shapes, so that later inputs of similar size reuse them.
"""

from abc import ABC, abstractmethod
from functools import cached_property

import jax
import numpy as np

from mednli_jax.corpora import batching
from mednli_jax.errors import UsageError
from mednli_jax.models.layers import ATTENTION
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import Program


class NewInputs(ABC):
    """Predicts new inputs by a run (finished_run.FinishedRun) with the files of the run directory.

    For the last inputs, `unknown_words` holds the number of tokens without a vector, by side, and `truncated` the
    number of texts that were cut to the model's length: {"premises": 1}, without zeros.
    """

    joint = True  # whether both sides of a row run in one loop of the RNN
    many = 0  # number of inputs above which programs are compiled for their exact shapes

    def __init__(self, run):
        self.run, self.task = run, run.task
        self._nothing_given()

    def _nothing_given(self):
        self.unknown_words, self.truncated = dict.fromkeys(self.task.sides, 0), {}

    @abstractmethod
    def examples_of(self, inputs) -> list:
        """Examples without labels from pairs of texts."""

    @abstractmethod
    def encode(self, examples):
        """(rows, arrays) of examples; sets `unknown_words` and `truncated`."""

    @abstractmethod
    def batches(self, rows, arrays, shares: int):
        """(batches, data on the device) in coarse shapes."""

    @abstractmethod
    def described(self, rows, logits) -> list[dict]:
        """The prediction for each row, from logits [S, N, C]."""

    @abstractmethod
    def looked_at(self, example, number: int, arrays, sown: dict) -> dict:
        """The attention of one example. sown: the model's collection ATTENTION, leaves [S, ...]."""

    @abstractmethod
    def widths(self, arrays) -> tuple[int, int]:
        """The padded length of each side."""

    def predict(self, inputs) -> list[dict]:
        """The predictions for the inputs, in their order: means over the run's seeds."""
        examples = self.examples_of(inputs)
        if not examples:
            self._nothing_given()
            return []
        return self.described(*self.logits(examples))

    def logits(self, examples) -> tuple:
        """(rows, logits [S, N, C]) of examples."""
        rows, arrays = self.encode(examples)
        program = self._program
        batches, data = self.batches(rows, arrays, program.devices.count)
        program.data = program.devices.replicate(data)
        logits = program.logits(self.run.variables, batches)
        program.data = {}  # frees the texts and keeps the programs
        return rows, logits

    def attention(self, inputs) -> list[dict]:
        """The attention weights of each input, for each seed. Raises UserError where the model has no attention."""
        examples = self.examples_of(inputs)
        if not examples:
            return []
        _, arrays = self.encode(examples)
        data = self.resident(arrays)
        layout = batching.Layout.full(1, self.widths(arrays), joint=self.joint)
        frozen, model = self._frozen(), self._program.model

        def of_seed(variables, frozen, data, index):
            batch = self.task.to_batch(data, index, layout)
            made = model.apply({**variables, "frozen": frozen}, batch, train=False, mutable=[ATTENTION])[1]
            return made.get(ATTENTION, {})

        body = jax.jit(jax.vmap(of_seed, in_axes=(0, None, None, None)))
        found = []
        for number, example in enumerate(examples):
            sown = jax.tree.map(np.asarray, body(self.run.variables, frozen, data, np.array([[number]])))
            if not sown:
                name = self.run.experiment.model.name
                raise UsageError(f"the model '{name}' of this run has no attention. Fix: {self.aligning}.")
            found.append(self.looked_at(example, number, arrays, sown))
        return found

    def resident(self, arrays) -> dict:
        """The arrays on the device."""
        return arrays

    def _frozen(self):
        return self.task.frozen(self.run.vocabulary.words, self.run.vectors)

    @cached_property
    def _program(self) -> Program:
        devices = Devices()
        return self.run.experiment.bare_program(devices.replicate(self._frozen()), self.run.model_facts, devices)


def power_of_two(number: int, least: int = 1) -> int:
    """The smallest power of two that is at least `number` and at least `least` (itself a power of two)."""
    return max(least, 1 << max(number - 1, 0).bit_length())
