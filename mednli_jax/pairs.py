"""What a finished run says of new premise-hypothesis pairs."""

from functools import cached_property

import jax
import numpy as np

from mednli_jax import experiment
from mednli_jax.corpora import batching
from mednli_jax.corpora.nli.encoding import SIDES
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS
from mednli_jax.models.layers import ATTENTION
from mednli_jax.tasks import nli
from mednli_jax.training.devices import Devices

COARSE = 16  # tokens: a few new pairs are padded to a multiple
MANY = 2048  # new pairs from which programs of their own pay


class PairPredictor:
    """Predicts pairs by a run (trained.TrainedRun) with what the run kept for itself."""

    def __init__(self, run):
        self.run, self.unknown_words = run, dict.fromkeys(SIDES, 0)

    def predict(self, pairs) -> list[dict[str, float]]:
        """Class probabilities of (premise, hypothesis) string pairs, in their order: [{"entailment": .7, ...}, ...].

        The mean over the run's seeds. `unknown_words` afterwards holds the tokens without a vector, per side.
        """
        examples = self._examples(pairs)
        if not examples:
            self.unknown_words = dict.fromkeys(SIDES, 0)
            return []
        arrays, self.unknown_words = self._encoder(examples)
        bodies = self._bodies
        batches, data = self._batches(arrays)
        bodies.data = bodies.devices.replicate(data)
        logits = bodies.logits(self.run.variables, batches)
        bodies.data = {}  # the programs are kept, not the pairs
        if len(examples) > MANY:  # programs fitted to these pairs fit no others
            bodies.forget()
        mean_NC = nli.probabilities(logits).mean(axis=0)
        return [dict(zip(LABELS, map(float, row), strict=True)) for row in mean_NC]

    def attention(self, pairs) -> list[dict]:
        """What the tokens of (premise, hypothesis) string pairs attend to, for each seed of the run.

        Returns for each pair {"premise", "hypothesis": its tokens, "maps": {name: {"premise": [S, P, H], "hypothesis":
        [S, H, P]}}}; each row of a map sums to 1. Names: "tokens" (ESIM's soft alignment), "links" (by the ontology
        alone). Raises UserError where the model aligns nothing.
        """
        examples = self._examples(pairs)
        if not examples:
            return []
        arrays, self.unknown_words = self._encoder(examples)
        layout = batching.Layout.full(1, tuple(arrays[side].shape[1] for side in SIDES))
        frozen, model = self._frozen(), self._bodies.model

        def of_seed(variables, frozen, data, index):
            batch = self.run.task.to_batch(data, index, layout)
            made = model.apply({**variables, "frozen": frozen}, batch, train=False, mutable=[ATTENTION])[1]
            return made.get(ATTENTION, {})

        body = jax.jit(jax.vmap(of_seed, in_axes=(0, None, None, None)))
        found = []
        for number, example in enumerate(examples):
            kept = jax.tree.map(np.asarray, body(self.run.variables, frozen, arrays, np.array([[number]])))
            if not kept:
                name = self.run.config.model.name
                raise UserError(
                    f"E-USE-014 the model '{name}' of this run aligns nothing. Fix: give a run of esim, or one with "
                    "config.model.knowledge."
                )
            p, h = (int(arrays[f"{side}_length"][number]) for side in SIDES)
            maps = {name: (sown[0][0][:, 0, :p, :h], sown[0][1][:, 0, :h, :p]) for name, sown in kept.items()}
            sides = {side: self._encoder.tokens(example, side) for side in SIDES}
            found.append({**sides, "maps": {name: dict(zip(SIDES, both, strict=True)) for name, both in maps.items()}})
        return found

    def _examples(self, pairs):
        tokeniser = self.run.manifest["tokeniser"]
        return [self.run.task.example(str(i), *pair, tokeniser) for i, pair in enumerate(pairs)]

    @cached_property
    def _encoder(self):
        return nli.Encoder(self.run.config, self.run.vocabulary, self.run.manifest["knowledge"].get("sha256", ""))

    def _frozen(self):
        return self.run.task.frozen(self.run.config, self.run.vocabulary.words, self.run.vectors)

    @cached_property
    def _bodies(self):
        devices = Devices()
        frozen = devices.replicate(self._frozen())
        return experiment.bare_program(self.run.config, frozen, self.run.model_facts, devices)

    def _batches(self, arrays):
        """Batches of new pairs and their arrays, in shapes so coarse that the next few pairs fit them as well."""
        sizes = {name: _power_of_two(arrays[name].shape[1]) for name in nli.LINK_FIELDS if name in arrays}
        sizes |= {side: -(-arrays[side].shape[1] // COARSE) * COARSE for side in SIDES}
        if self.run.config.model.masking == "paper":  # its logits depend on the padded length: the training's is used
            trained = zip(SIDES, self.run.result["width"], strict=True)
            sizes |= {side: max(arrays[side].shape[1], own) for side, own in trained}
        length = tuple(arrays[f"{side}_length"] for side in SIDES)
        count = len(length[0])
        rows = _power_of_two(count, least=8)
        data = _widened(arrays, sizes, rows)
        width = tuple(sizes[side] for side in SIDES)
        few = {"batch_size": min(rows, nli.PREDICT_ROWS), "coarse": True}
        many = {
            "batch_size": nli.PREDICT_ROWS,
            "groups": batching.groups_of(arrays["premise"], nli.PREDICT_GROUP),
        }
        fixed = self.run.config.model.masking == "paper"
        how = {"width": width, "shares": self._bodies.devices.count, "fixed": fixed}
        return batching.Batches(*length, **how, **(few if count <= MANY else many)), data


def _widened(arrays, sizes, rows):
    """The arrays [N, T] with room for more: T as in `sizes` by name, N = rows; what is added is empty."""
    result = {}
    for name, array in arrays.items():
        lacking = [(0, rows - len(array))]
        lacking += [(0, sizes[name] - array.shape[1])] if array.ndim == 2 else []
        result[name] = np.pad(array, lacking, constant_values=-1 if name == "link_distance" else 0)
    return result


def _power_of_two(number, least=1):
    return max(least, 1 << max(number - 1, 0).bit_length())
