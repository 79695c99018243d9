"""Cloze queries about passages (Šuster & Daelemans 2018): from rows to batches, from logits to
answers.

A row is a query. A group is a passage with some of its queries. Logits [S, N, C] are scores of the
passage's candidates in the order of their first occurrence; C is the largest number of candidates
of a passage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from mednli_jax.cloze import scores as answers
from mednli_jax.cloze.arrays import ClozeTexts, Query, training_phrases
from mednli_jax.cloze.baselines import known_vectors
from mednli_jax.cloze.clicr import parse_marked
from mednli_jax.cloze.corpus import ClozeCorpus
from mednli_jax.cloze.setups import passage_in_setup, query_in_setup
from mednli_jax.data import batching
from mednli_jax.data.arrays import LEAST, NEW, SIDES, Prepared, Rows, power_of_two
from mednli_jax.data.corpus import Corpus
from mednli_jax.data.examples import Answer, ClozeExample, Passage
from mednli_jax.data.text import Vocab
from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.packing import MASKED_ENERGY
from mednli_jax.models.table import traits
from mednli_jax.report import metrics
from mednli_jax.training.scorer import frozen, summary
from mednli_jax.types import JsonObject

PREDICT_ROWS = 64
# queries of a passage in one group; CliCR has about nine per passage
PREDICT_GROUP = 8
BEST = 5
FIGURES = ("exact_match", "f1", "bleu2", "bleu4", "embedding", "missing", "predicted_length")
_FLAT = ("passage", "passage_start", "candidate_type", "candidate_type_start", "candidate_length")
_OF_QUERY = ("query", "query_length", "blank", "query_passage", "gold")

Arrays = Mapping[str, jax.Array]


@dataclass(frozen=True)
class ClozeRows(Rows):
    """The rows of one split. passage: [N], of each query. words: (Vocab, vectors [V, D]) for the
    embedding score."""

    texts: ClozeTexts
    passage: np.ndarray
    words: tuple[Vocab, np.ndarray] | None = None

    def candidates(self, row: int) -> tuple[str, ...]:
        """The candidates of the split's query `row`."""
        return self.texts.candidates(int(self.passage[row]))

    def queries(self) -> list[Query]:
        """The queries of the split with their accepted answers, for scoring."""
        return self.texts.queries(self)

    def strings(self) -> set[str]:
        """The texts of all candidates and answers."""
        strings = {answer.text for query in self.queries() for answer in query.answers}
        for passage in np.unique(self.passage):
            strings.update(self.texts.candidates(passage))
        return strings


@dataclass(frozen=True)
class ClozeScorer:
    """Choice of a candidate of the passage (see training.task.Scorer).

    loose: whether the places of a candidate are all tokens that are one of its words, not its
    marked spans. masses: whether logits are logs of masses that are not normalised over the
    candidates. The loss is then minus the log of the right candidate's mass, as published for
    unmarked passages. answer_vectors: file of word vectors for the embedding score of dev and test.
    """

    loose: bool = False
    masses: bool = False
    answer_vectors: Path | None = None
    name: str = "cloze"
    sides: tuple[str, str] = ("passage", "query")
    row_noun: str = "queries"
    pieces: bool = False
    labels: tuple[str, ...] = ()
    padded_length: int = 0

    types = staticmethod(training_phrases)

    # -- rows and batches

    def with_rows(self, prepared: Prepared, corpus: Corpus) -> Prepared:
        """The splits with the texts of their candidates and answers."""
        texts = ClozeTexts(prepared.arrays)
        splits: dict[str, ClozeRows] = {}
        strings: set[str] = set()
        for name, rows in prepared.splits.items():
            passage = prepared.arrays["query_passage"][rows.place]
            fields = (rows.name, rows.first, rows.label, rows.length, rows.uids, rows.tags)
            splits[name] = ClozeRows(*fields, texts, np.array(passage))
            if self.answer_vectors and name not in ("train", NEW):
                strings |= splits[name].strings()
        if self.answer_vectors and strings:
            words = known_vectors(self.answer_vectors, (), sorted(strings))
            splits = {name: replace(rows, words=words) for name, rows in splits.items()}
        return replace(prepared, splits={**splits})

    def model_facts(self, manifest: JsonObject) -> JsonObject:
        """Arguments of models.table.Entry.build: the number of different phrases in the training
        split."""
        return {"num_types": manifest["candidates"]["types_of_train"]}

    def resident(self, prepared: Prepared) -> dict[str, np.ndarray]:
        """The arrays on the device. Starts are converted to 32 bits. The length of `*_places` is
        the largest count."""
        marks = "loose_position" if self.loose else "position"
        resident = {}
        for name in (*_FLAT, *_OF_QUERY, marks, f"{marks}_start", f"{marks}_candidate"):
            array = np.asarray(prepared.arrays[name])
            resident[name.removeprefix("loose_")] = array.astype(np.int32, copy=False)
        for name in ("candidate_type", "position"):
            most = int(np.diff(resident[f"{name}_start"]).max(initial=1))
            if NEW in prepared.splits:
                most = power_of_two(most, LEAST)
            resident[f"{name}_places"] = np.arange(most, dtype=np.int32)
        return resident

    def frozen(self, vectors: np.ndarray) -> dict[str, dict[str, jax.Array]]:
        return frozen(vectors)

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: batching.TrainingBatches,
        *,
        shares: int,
        model: nn.Module,
    ) -> batching.Batches:
        """A split's batches. On dev and test a passage is encoded once for several of its
        queries."""
        passage, query = (prepared.arrays[f"{side}_length"].max(initial=1) for side in SIDES)
        settings = batching.BatchSettings(
            training.size,
            width=(max(int(passage), 1), max(int(query), 1)),
            shares=shares,
            joint=False,
            least_rows=batching.least_rows_on(traits(model).platform),
        )
        if name == "train":
            size = min(training.group_size, training.size)
            return _batches(prepared, name, size, settings.for_training(training))
        settings = replace(
            settings,
            batch_size=PREDICT_ROWS,
            max_buckets=batching.MAX_BUCKETS,
            passes=training.epochs * len(training.seeds),
            shapes=batching.Shapes.ROUNDED if name == NEW else batching.Shapes.FITTED,
        )
        if name == NEW:
            return _batches(prepared, name, PREDICT_GROUP, settings)
        batches = {}
        for split in prepared.splits:
            if split != "train":
                batches[split] = _batches(prepared, split, PREDICT_GROUP, settings)
        batching.share_layouts(batches)
        return batches[name]

    def new_examples(
        self, inputs: Sequence[tuple[str, str]], manifest: JsonObject
    ) -> list[ClozeExample]:
        """Queries without answers from marked (passage, query) strings; equal passages become one
        object."""
        passages: dict[str, Passage] = {}
        examples = []
        for number, (passage, query) in enumerate(inputs):
            if passage not in passages:
                marked = parse_marked(passage)
                uid = f"passage {len(passages)}"
                passages[passage] = Passage(
                    uid, (), marked.tokens, marked.entities, marked.sentences
                )
            marked = parse_marked(query)
            example = ClozeExample(
                uid=str(number),
                passage=passages[passage],
                query=marked.tokens,
                query_entities=marked.entities,
                blank=marked.blanks[0],
                answers=(Answer(""),),
            )
            examples.append(example)
        return examples

    def to_batch(self, data: Arrays, index: jax.Array, layout: batching.Layout) -> QueryBatch:
        """The QueryBatch of rows `index` [Q, G]; the G queries of a group share its passage."""
        row_of_group, index = index.max(axis=1), index.reshape(-1)
        row, is_real = jnp.maximum(index, 0), index >= 0
        passage = data["query_passage"][jnp.maximum(row_of_group, 0)]
        is_present = row_of_group >= 0
        tokens = _places_of(data, "passage", jnp.arange(layout.width[0]), passage, is_present)
        place = data["candidate_type_places"]
        types = _places_of(data, "candidate_type", place, passage, is_present)
        marks = _places_of(data, "position", data["position_places"], passage, is_present)
        return QueryBatch(
            passage=tokens.take(data["passage"]),
            passage_length=tokens.length,
            candidate_type=types.take(data["candidate_type"]),
            candidate_length=types.take(data["candidate_length"]),
            position=marks.take(data["position"]),
            position_candidate=marks.take(data["position_candidate"], len(place)),
            query=jnp.where(is_real[:, None], data["query"][row][:, : layout.width[1]], 0),
            query_length=jnp.where(is_real, data["query_length"][row], 0),
            blank=data["blank"][row],
            label=jnp.maximum(data["gold"][row], 0),
            mask=is_real.astype(jnp.float32),
            layout=layout,
        )

    # -- losses and scores

    def loss(self, logits: jax.Array, batch: QueryBatch) -> jax.Array:
        label = _label(batch)
        if self.masses:
            return -jnp.take_along_axis(logits, label[:, None], axis=1)[:, 0]
        losses_B: jax.Array = optax.softmax_cross_entropy_with_integer_labels(logits, label)
        return losses_B

    def correct(self, logits: jax.Array, batch: QueryBatch) -> jax.Array:
        return jnp.equal(jnp.argmax(logits, axis=-1), _label(batch)).astype(jnp.float32)

    def losses(self, rows: ClozeRows, logits: np.ndarray) -> np.ndarray | None:
        """Mean loss of each seed [S] over the queries whose answer is a candidate with a score;
        None without any.

        NaN for a seed that diverged.
        """
        gold_SN = _of_label(logits, np.maximum(rows.label, 0))
        is_scored_N = (rows.label >= 0) & ~(gold_SN <= MASKED_ENERGY / 2).any(axis=0)
        if not is_scored_N.any():
            return None
        p_SNC = self.probabilities(logits[:, is_scored_N])
        log_p_SN = _of_label(np.log(np.maximum(p_SNC, 1e-300)), rows.label[is_scored_N])
        log_p_SN = np.where(np.isnan(gold_SN[:, is_scored_N]), np.nan, log_p_SN)
        return np.asarray(-log_p_SN.mean(axis=1))

    def score(self, rows: ClozeRows, logits: np.ndarray) -> JsonObject:
        """Exact match, F1, BLEU and embedding score of the best candidates, by seed and for slices
        of the queries.

        accuracy is exact match, under the name that the loop reads. in_passage: number of queries
        whose answer is a candidate. loss: None where no answer can be scored.
        """
        scores_S = self.scored(rows, logits)
        summaries = list(map(answers.summary, scores_S))
        losses = self.losses(rows, logits)
        families: dict[str, JsonObject] = {}
        for family, named in answers.slices(rows.queries()).items():
            families[family] = {}
            for name, places in named.items():
                families[family][name] = answers.seed_scores(scores_S, places)
        slices = families.pop("tag", {})
        return {
            "examples": len(rows),
            "in_passage": int((rows.label >= 0).sum()),
            "accuracy": _mean(summaries, "exact_match"),
            **{name: _mean(summaries, name) for name in FIGURES},
            "loss": None if losses is None else metrics.mean_sd(losses.tolist()),
            **({"slices": slices} if slices else {}),
            "families": families,
        }

    def scored(self, rows: ClozeRows, logits: np.ndarray) -> list[answers.QueryScores]:
        """The scores of each query, by seed."""
        queries, words = rows.queries(), rows.words or ()
        scores_S = []
        for logits_NC in logits:
            predicted = self.answers(rows, logits_NC)
            scores_S.append(answers.query_scores(queries, predicted, *words))
        return scores_S

    def answers(self, rows: ClozeRows, logits: np.ndarray) -> dict[str, str]:
        """{uid: text} of the best candidates, from the logits [N, C] of one seed."""
        texts = {}
        for row, best in enumerate(logits.argmax(axis=-1).tolist()):
            if logits[row, best] > MASKED_ENERGY / 2:
                texts[rows.uids[row]] = rows.candidates(row)[best]
        return texts

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities [..., C] of the candidates in float64, 0 without a candidate. Masses may
        sum to more than 1."""
        logits = np.asarray(logits, np.float64)
        is_candidate = logits > MASKED_ENERGY / 2
        if not self.masses:
            logits = logits - logits.max(axis=-1, keepdims=True)
        masses = np.where(is_candidate, np.exp(np.where(is_candidate, logits, 0.0)), 0.0)
        if self.masses:
            return masses
        return np.asarray(masses / np.maximum(masses.sum(axis=-1, keepdims=True), 1e-300))

    # -- predictions

    def describe(self, rows: ClozeRows, logits: np.ndarray) -> list[JsonObject]:
        """For each query "answer", the most likely candidate ("" for none), "best", the five most
        likely ones with their probabilities, and "candidates", their number."""
        descriptions: list[JsonObject] = []
        for row, p_C in enumerate(self.probabilities(logits).mean(axis=0)):
            best = best_of(rows, row, p_C)
            answer = best[0]["answer"] if p_C.any() else ""
            number = len(rows.candidates(row))
            descriptions.append({"answer": answer, "best": best, "candidates": number})
        return descriptions

    def predictions(self, rows: ClozeRows, logits: np.ndarray) -> list[JsonObject]:
        """A JSON row per query: uid, the answer of each seed ("" for none), and the most likely
        candidates."""
        answers_S = [self.answers(rows, logits_NC) for logits_NC in logits]
        mean_NC = self.probabilities(logits).mean(axis=0)
        predictions: list[JsonObject] = []
        for row, uid in enumerate(rows.uids):
            predicted = [answers_of_seed.get(uid, "") for answers_of_seed in answers_S]
            best = best_of(rows, row, mean_NC[row])
            predictions.append({"uid": uid, "predicted": predicted, "best": best})
        return predictions

    def summary(self, split: str, scores: JsonObject) -> str:
        f1 = f", F1 {scores['f1']['mean']:.4f}"
        return summary(f"{split} exact match", scores, self.row_noun, f1)

    def attention_map(
        self,
        corpus: ClozeCorpus,
        vocabulary: Vocab,
        example: ClozeExample,
        lengths: tuple[int, int],
        sown: JsonObject,
    ) -> JsonObject:
        """The tokens of "passage" and "query"; "names": {token: the phrase that it represents};
        "candidates": their texts [C]; "spans": the (start, end) pairs of each; "weights": attention
        to the passage's tokens [S, N]."""
        setup, max_tokens = corpus.encoding.setup, corpus.encoding.max_passage
        passage = passage_in_setup(example.passage, setup, max_tokens=max_tokens)
        view = query_in_setup(example, setup, passage)
        names = {token: phrase for phrase, token in view.names.items()}
        spans = [list(map(list, spans)) for spans in passage.positions]
        return {
            "passage": list(passage.tokens),
            "query": list(view.query),
            "names": names,
            "candidates": list(passage.candidates),
            "spans": spans,
            "weights": sown["places"][0][:, 0, : len(passage.tokens)],
        }


def _batches(
    prepared: Prepared, name: str, group_size: int, settings: batching.BatchSettings
) -> batching.Batches:
    """The batches of a split; up to `group_size` queries of a passage stay together."""
    rows = prepared.splits[name]
    assert isinstance(rows, ClozeRows)  # see with_rows
    groups = batching.premise_groups(rows.passage[:, None], group_size) if group_size > 1 else None
    return batching.Batches(*rows.length, replace(settings, first=rows.first), groups=groups)


def best_of(rows: ClozeRows, row: int, p_C: np.ndarray) -> list[JsonObject]:
    """The most likely candidates of a query, best first: [{"answer": ..., "probability": ...},
    ...]."""
    candidates = rows.candidates(row)
    order = np.argsort(-p_C[: len(candidates)], kind="stable")[:BEST]
    return [{"answer": candidates[i], "probability": round(float(p_C[i]), 6)} for i in order]


class _Places(NamedTuple):
    """Indices `place` [U, T] in a flat array, whether each belongs to the passage, and the number
    [U] that do."""

    place: jax.Array
    is_inside: jax.Array
    length: jax.Array

    def take(self, flat: jax.Array, padding: int = 0) -> jax.Array:
        """[U, T], the values of a flat array."""
        return jnp.where(self.is_inside, flat[self.place], padding)


def _places_of(
    data: Arrays, name: str, place_T: jax.Array, passage_U: jax.Array, is_present_U: jax.Array
) -> _Places:
    """The places of a flat array that belong to each passage."""
    start = data[f"{name}_start"][passage_U]
    length = jnp.where(is_present_U, data[f"{name}_start"][passage_U + 1] - start, 0)
    is_inside = place_T < length[:, None]
    return _Places(jnp.where(is_inside, start[:, None] + place_T, 0), is_inside, length)


def _label(batch: QueryBatch) -> jax.Array:
    assert batch.label is not None  # see to_batch
    return batch.label


def _of_label(values_SNC: np.ndarray, label_N: np.ndarray) -> np.ndarray:
    """[S, N], the value of the label of each row."""
    return np.take_along_axis(values_SNC, label_N[None, :, None], axis=-1)[..., 0]


def _mean(summaries: Sequence[JsonObject], name: str) -> metrics.MeanSd | None:
    """mean_sd of a score over seeds, None where a seed has none."""
    values = [figures[name] for figures in summaries]
    return None if None in values else metrics.mean_sd(values)
