"""What a finished run says of new passages and queries."""

import hashlib
import json
from functools import cached_property

import jax
import numpy as np

from mednli_jax import experiment
from mednli_jax.corpora import batching
from mednli_jax.corpora.cloze.encoding import ClozeEncoding, encode_new
from mednli_jax.corpora.cloze.files import parse_marked
from mednli_jax.corpora.cloze.texts import Texts, types_of_train
from mednli_jax.corpora.cloze.views import all_views
from mednli_jax.corpora.nli.encoding import Prepared
from mednli_jax.errors import UserError
from mednli_jax.examples import PLACEHOLDER, Answer, ClozeExample, Passage
from mednli_jax.files import write_json
from mednli_jax.models.layers import ATTENTION
from mednli_jax.runs import RunDirectory, read_json
from mednli_jax.tasks.cloze import PREDICT_GROUP, PREDICT_ROWS, ClozeRows, best_of, probabilities
from mednli_jax.text import UNK
from mednli_jax.training.devices import Devices

LEAST = 16  # a few new queries are padded to powers of two from here on, so that their programs fit the next few
MANY = 256  # new queries from which programs of their own pay
TYPES = "types.json"


class PassagePredictor:
    """Answers queries by a run (trained.TrainedRun) with what the run kept for itself."""

    def __init__(self, run):
        self.run, self.unknown_words = run, dict.fromkeys(run.task.sides, 0)

    def predict(self, given) -> list[dict]:
        """The answers to (passage, query) string pairs, in their order.

        passage: tokens between spaces, phrases marked as BEG__w1 w2__END; query: the same with one @placeholder.
        Returns for each {"answer": the most likely candidate, "" where the passage has none that the model can say,
        "best": [{"answer", "probability"}, ...] the five most likely ones, "candidates": how many there are};
        probabilities are means over the run's seeds. `unknown_words` afterwards: tokens that the run has no vector of;
        a passage that is asked several times counts once.
        Raises: ValueError for a query without its blank.
        """
        examples = examples_of(given)
        if not examples:
            self.unknown_words = dict.fromkeys(self.run.task.sides, 0)
            return []
        rows, arrays = self._encoded(examples)
        batches, data = self._batches(rows, self._resident(arrays))
        bodies = self._bodies
        bodies.data = bodies.devices.replicate(data)
        logits = bodies.logits(self.run.variables, batches)
        bodies.data = {}  # the programs are kept, not the passages
        if len(rows) > MANY:  # programs fitted to these fit no others
            bodies.forget()
        mean_NC = probabilities(logits).mean(axis=0)
        return [_told(rows, row, p_C) for row, p_C in enumerate(mean_NC)]

    def attention(self, given) -> list[dict]:
        """Where the model looks in the passages of (passage, query) string pairs, for each seed of the run.

        Returns for each {"passage", "query": its tokens, "names": {token: the phrase it stands for}, "candidates": [C],
        "spans": of each candidate its (start, end)s, "weights": [S, N] of the passage's tokens}; weights sum to 1.
        Raises UserError where the model points nowhere.
        """
        examples = examples_of(given)
        if not examples:
            return []
        _, arrays = self._encoded(examples)
        data = self._resident(arrays)
        layout = batching.Layout.full(1, _widths(arrays), joint=False)
        frozen, model = self._frozen(), self._bodies.model

        def of_seed(variables, frozen, data, index):
            batch = self.run.task.to_batch(data, index, layout)
            made = model.apply({**variables, "frozen": frozen}, batch, train=False, mutable=[ATTENTION])[1]
            return made.get(ATTENTION, {}).get("places", ())

        body, found = jax.jit(jax.vmap(of_seed, in_axes=(0, None, None, None))), []
        for number, (_, _, view) in enumerate(self._views(examples)):
            kept = body(self.run.variables, frozen, data, np.array([[number]]))
            if not kept:
                name = self.run.config.model.name
                raise UserError(
                    f"E-USE-014 the model '{name}' of this run looks nowhere. Fix: give a run of ga_reader."
                )
            found.append(
                {
                    "passage": list(view.passage),
                    "query": list(view.query),
                    "names": {token: phrase for phrase, token in view.names.items() if phrase},
                    "candidates": list(view.candidates),
                    "spans": [[list(span) for span in spans] for spans in view.positions],
                    "weights": np.asarray(kept[0])[:, 0, : len(view.passage)],
                }
            )
        return found

    def _views(self, examples):
        return all_views(examples, self._encoding.setup, max_tokens=self._encoding.max_passage)

    @cached_property
    def _encoding(self):
        data = self.run.config.data
        return ClozeEncoding(data.setup, max_passage=data.max_passage, max_query=data.max_query)

    @cached_property
    def _types(self):
        """The phrases that a model knows by number; of others, numbers say nothing."""
        return kept_types(self.run.directory) if self.run.config.model.name == "sa_reader" else ()

    def _frozen(self):
        return self.run.task.frozen(self.run.config, self.run.vocabulary.words, self.run.vectors)

    @cached_property
    def _bodies(self):
        devices = Devices()
        frozen = devices.replicate(self._frozen())
        return experiment.bare_program(self.run.config, frozen, self.run.model_facts, devices)

    def _encoded(self, examples):
        """(rows, arrays) of the examples."""
        arrays = encode_new(examples, self.run.vocabulary, self._encoding, self._types)
        unknown = (int((arrays[name] == UNK).sum()) for name in ("passage", "query"))
        self.unknown_words = dict(zip(self.run.task.sides, unknown, strict=True))
        rows = ClozeRows(
            "new",
            first=0,
            label=arrays["label"],
            length=(arrays["premise_length"], arrays["hypothesis_length"]),
            uids=tuple(example.uid for example in examples),
            tags=((),) * len(examples),
            texts=Texts(arrays),
            passage=arrays["query_passage"],
        )
        return rows, arrays

    def _resident(self, arrays):
        """The arrays that live on the device, with room for more in each: so other texts of about that size fit."""
        prepared = Prepared(self.run.directory.folder, {}, arrays, self.run.vectors, {})
        found = {}
        for name, array in self.run.task.resident(self.run.config, prepared).items():
            if name.endswith("_places"):
                found[name] = np.arange(_power_of_two(len(array)), dtype=array.dtype)
            elif name.endswith("_start"):  # of further passages, which are empty
                found[name] = np.pad(array, (0, 1 + _power_of_two(len(array) - 1) - len(array)), "edge")
            else:
                found[name] = np.pad(array, [(0, _power_of_two(size) - size) for size in array.shape])
        return found

    def _batches(self, rows, data):
        """Batches of new queries, in shapes so coarse that the next few fit them as well."""
        few = {"batch_size": min(_power_of_two(len(rows)), PREDICT_ROWS), "coarse": True}
        many = {"batch_size": PREDICT_ROWS, "most": batching.MAX_BUCKETS}
        many["groups"] = batching.groups_of(rows.passage[:, None], PREDICT_GROUP)
        width = tuple(_power_of_two(int(length.max())) for length in rows.length)
        how = {"width": width, "shares": self._bodies.devices.count, "joint": False}
        return batching.Batches(*rows.length, **how, **(few if len(rows) <= MANY else many)), data


def examples_of(given) -> list[ClozeExample]:
    """Queries without an answer from (passage, query) string pairs; equal passages are one. Raises: ValueError."""
    passages, examples = {}, []
    for number, (passage, query) in enumerate(given):
        if passage not in passages:
            marked, uid = parse_marked(passage), f"passage {len(passages)}"
            passages[passage] = Passage(uid, (), marked.tokens, marked.entities, marked.sentences)
        marked = parse_marked(query)
        if len(marked.blanks) != 1:
            raise ValueError(f"query {number} holds {len(marked.blanks)} of {PLACEHOLDER}, expected one")
        of_query = (marked.tokens, marked.entities, marked.blanks[0], (Answer(""),))
        examples.append(ClozeExample(str(number), passages[passage], *of_query))
    return examples


def keep_types(directory: RunDirectory, prepared) -> None:
    """Writes the phrases of training, in the order of their numbers, into the run's private folder."""
    types = types_of_train(prepared)
    write_json(directory.private / TYPES, {"types": types, "sha256": _digest(types)})


def kept_types(directory: RunDirectory) -> tuple[str, ...]:
    """What `keep_types` wrote. Raises UserError where it is damaged."""
    path = directory.private / TYPES
    values = read_json(path, "types", "sha256", fix="restore the run directory")
    if _digest(values["types"]) != values["sha256"]:
        raise UserError(f"E-RUN-010 {path}: differs from what the run wrote. Fix: restore the run directory.")
    return tuple(values["types"])


def _digest(types):
    return hashlib.sha256(json.dumps(types).encode()).hexdigest()


def _told(rows, row, p_C):
    """What is said of one query; p_C: mean probabilities, all 0 where no candidate can be said."""
    best = best_of(rows, row, p_C)
    return {"answer": best[0]["answer"] if p_C.any() else "", "best": best, "candidates": len(rows.candidates(row))}


def _widths(arrays):
    return tuple(_power_of_two(int(arrays[name].max())) for name in ("premise_length", "hypothesis_length"))


def _power_of_two(number):
    return max(LEAST, 1 << max(number - 1, 0).bit_length())
