"""The scorer of cloze queries (Šuster & Daelemans 2018): from rows to batches, from logits to
answers.

A row is a query. A group is a passage with some of its queries. A candidate is a marked phrase of
the passage; a passage's candidates are in the order of their first mention. Logits [S, N, C] are
scores of the candidates.

Dimension letters: S seeds, N queries of a split, C candidates of the passage that has most. In a
batch: Q groups, G queries of a group, B = Q G queries, T tokens of the passage that has most. In
`_FlatIndex` T counts items: tokens, candidates or positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from mednli_jax.cloze.arrays import ClozeTexts, Query, training_phrases
from mednli_jax.cloze.baselines import known_vectors, words_of_texts
from mednli_jax.cloze.clicr import parse_marked
from mednli_jax.cloze.corpus import ClozeCorpus
from mednli_jax.cloze.scores import (
    QueryScores,
    mean_sd_of,
    query_scores,
    seed_scores,
    slices,
    summary,
)
from mednli_jax.cloze.setups import passage_in_setup, query_in_setup
from mednli_jax.data import batching
from mednli_jax.data.arrays import LEAST_WIDTH, NEW, Prepared, Rows, power_of_two
from mednli_jax.data.corpus import Corpus
from mednli_jax.data.examples import Answer, ClozeExample, Passage
from mednli_jax.data.text import Vocab
from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.packing import MASKED_ENERGY
from mednli_jax.models.table import traits
from mednli_jax.report import metrics
from mednli_jax.training.scorer import frozen
from mednli_jax.training.scorer import summary as summary_line
from mednli_jax.types import JsonObject

PREDICT_ROWS = 64  # of a batch on dev, test and new queries
PREDICT_GROUP = 8  # queries of a group in these batches; CliCR has about nine per passage
BEST = 5  # candidates that predictions name
NO_CANDIDATE = MASKED_ENERGY / 2  # logits of real candidates are above it
FIGURES = ("exact_match", "f1", "bleu2", "bleu4", "embedding", "missing", "predicted_length")
_FLAT = ("passage", "passage_start", "candidate_type", "candidate_type_start", "candidate_length")
_OF_QUERY = ("query", "query_length", "blank", "query_passage", "gold")

Arrays = Mapping[str, jax.Array]


@dataclass(frozen=True)
class ClozeRows(Rows):
    """The queries of one split.

    Args:
      texts: the candidates and answers of all splits.
      passage: [N], number of each query's passage.
      word_vectors: words and their vectors [V, D] for the embedding score; None = no such score.
    """

    texts: ClozeTexts
    passage: np.ndarray
    word_vectors: tuple[Vocab, np.ndarray] | None = None

    def candidates(self, row: int) -> tuple[str, ...]:
        """The candidates of query `row` of the split."""
        return self.texts.candidates(int(self.passage[row]))

    def queries(self) -> list[Query]:
        """The queries with their accepted answers."""
        return self.texts.queries(self)

    def strings(self) -> set[str]:
        """The texts of all candidates and answers."""
        strings = {answer.text for query in self.queries() for answer in query.answers}
        for passage in np.unique(self.passage):
            strings.update(self.texts.candidates(passage))
        return strings


class _FlatIndex(NamedTuple):
    """Where the items of each passage of a batch are in a flat array (see arrays.py).

    Args:
      index_QT: int, the index of item t of passage q; 0 beyond its last item.
      is_item_QT: bool, whether passage q has an item t.
      length_Q: int, the number of items of passage q.
    """

    index_QT: jax.Array
    is_item_QT: jax.Array
    length_Q: jax.Array

    def take(self, flat: jax.Array, padding: int = 0) -> jax.Array:
        """[Q, T], the items of each passage, padded."""
        return jnp.where(self.is_item_QT, flat[self.index_QT], padding)


def _flat_index(
    data: Arrays, passage_Q: jax.Array, is_present_Q: jax.Array, name: str, column_T: jax.Array
) -> _FlatIndex:
    """The indices of the passages' items in the flat array `name`. is_present_Q: whether there is a
    passage."""
    start_Q = data[f"{name}_start"][passage_Q]
    length_Q = jnp.where(is_present_Q, data[f"{name}_start"][passage_Q + 1] - start_Q, 0)
    is_item_QT = column_T < length_Q[:, None]
    index_QT = jnp.where(is_item_QT, start_Q[:, None] + column_T, 0)
    return _FlatIndex(index_QT, is_item_QT, length_Q)


@dataclass(frozen=True)
class ClozeScorer:
    """Choice of a candidate of the passage (see training.scorer.Scorer).

    Args:
      loose: whether the positions of a candidate are all tokens that are one of its words, in its
        mentions or not. Else they are the tokens of its mentions.
      unnormalised: whether a logit is the log of a candidate's attention, which need not sum to 1
        over the candidates. The loss is then minus the logit of the right candidate, as published
        for noent. Else the loss is the cross-entropy of the softmax over candidates.
      answer_vectors: file of word vectors for the embedding score of dev and test; None = no such
        score.
    """

    loose: bool = False
    unnormalised: bool = False
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
        """The prepared corpus with ClozeRows as splits."""
        texts = ClozeTexts(prepared.arrays)
        splits: dict[str, ClozeRows] = {}
        for name, rows in prepared.splits.items():
            splits[name] = ClozeRows(
                name=rows.name,
                first=rows.first,
                label=rows.label,
                length=rows.length,
                uids=rows.uids,
                tags=rows.tags,
                texts=texts,
                passage=np.array(prepared.arrays["query_passage"][rows.place]),
            )
        if self.answer_vectors:
            splits = _with_word_vectors(splits, self.answer_vectors)
        return replace(prepared, splits={**splits})

    def model_facts(self, manifest: JsonObject) -> JsonObject:
        """Arguments of models.table.Entry.build: the number of phrases that occur in training."""
        return {"num_types": manifest["candidates"]["types_of_train"]}

    def device_arrays(self, prepared: Prepared) -> dict[str, np.ndarray]:
        """The arrays on the device, with all numbers in 32 bits.

        "position" has the positions of mentions, or all loose ones. Two arrays are not the
        corpus's: "candidate_type_columns" is arange(C), where C is the number of candidates of the
        passage that has most. "position_columns" is the same for positions. They number the
        columns of padded arrays in `to_batch`.
        """
        positions = "loose_position" if self.loose else "position"
        resident = {}
        for name in (*_FLAT, *_OF_QUERY, positions, f"{positions}_start", f"{positions}_candidate"):
            array = np.asarray(prepared.arrays[name], np.int32)
            resident[name.removeprefix("loose_")] = array
        for name in ("candidate_type", "position"):
            most = int(np.diff(resident[f"{name}_start"]).max(initial=1))
            if NEW in prepared.splits:  # so that most new inputs have one shape, compiled once
                most = power_of_two(most, LEAST_WIDTH)
            resident[f"{name}_columns"] = np.arange(most, dtype=np.int32)
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
        """A split's batches. A batch holds each passage once for several of its queries."""
        passage_width = int(prepared.arrays["premise_length"].max(initial=1))
        query_width = int(prepared.arrays["hypothesis_length"].max(initial=1))
        settings = batching.BatchSettings(
            training.size,
            width=(passage_width, query_width),
            shares=shares,
            joint=False,
            least_rows=batching.least_rows_on(traits(model).platform),
        )
        if name == "train":
            group_size = min(training.group_size, training.size)
            return _batches(prepared, name, group_size, settings.for_training(training))
        settings = replace(
            settings,
            batch_size=PREDICT_ROWS,
            max_buckets=batching.MAX_BUCKETS,
            passes=training.epochs * len(training.seeds),
            shapes=batching.Shapes.ROUNDED if name == NEW else batching.Shapes.FITTED,
        )
        if name == NEW:
            return _batches(prepared, name, PREDICT_GROUP, settings)
        # The same layouts for dev and test, so that one compiled program serves both.
        batches = {}
        for split in prepared.splits:
            if split != "train":
                batches[split] = _batches(prepared, split, PREDICT_GROUP, settings)
        batching.share_layouts(batches)
        return batches[name]

    def new_examples(
        self, inputs: Sequence[tuple[str, str]], manifest: JsonObject
    ) -> list[ClozeExample]:
        """Queries from marked (passage, query) strings. Equal passages become one object. The only
        answer is "", because other code reads the first answer."""
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
            examples.append(
                ClozeExample(
                    uid=str(number),
                    passage=passages[passage],
                    query=marked.tokens,
                    query_entities=marked.entities,
                    blank=marked.blanks[0],
                    answers=(Answer(""),),
                )
            )
        return examples

    def to_batch(self, data: Arrays, index: jax.Array, layout: batching.Layout) -> QueryBatch:
        """The QueryBatch of the rows `index` [Q, G]; -1 is padding. The rows of a group are about
        one passage."""
        any_row_Q = index.max(axis=1)  # a row of each group, or -1 where all are padding
        is_present_Q = any_row_Q >= 0
        passage_Q = data["query_passage"][jnp.maximum(any_row_Q, 0)]
        index_B = index.reshape(-1)
        row_B, is_real_B = jnp.maximum(index_B, 0), index_B >= 0
        candidate_columns = data["candidate_type_columns"]
        # Where the items of each group's passage are in the flat arrays.
        index_of = partial(_flat_index, data, passage_Q, is_present_Q)
        token_index = index_of("passage", jnp.arange(layout.width[0]))
        candidate_index = index_of("candidate_type", candidate_columns)
        position_index = index_of("position", data["position_columns"])
        no_candidate = len(candidate_columns)  # on padding
        return QueryBatch(
            passage=token_index.take(data["passage"]),
            passage_length=token_index.length_Q,
            candidate_type=candidate_index.take(data["candidate_type"]),
            candidate_length=candidate_index.take(data["candidate_length"]),
            position=position_index.take(data["position"]),
            position_candidate=position_index.take(data["position_candidate"], no_candidate),
            query=jnp.where(is_real_B[:, None], data["query"][row_B][:, : layout.width[1]], 0),
            query_length=jnp.where(is_real_B, data["query_length"][row_B], 0),
            blank=data["blank"][row_B],
            label=jnp.maximum(data["gold"][row_B], 0),
            mask=is_real_B.astype(jnp.float32),
            layout=layout,
        )

    # -- losses and scores

    def loss(self, logits: jax.Array, batch: QueryBatch) -> jax.Array:
        label = _label(batch)
        if self.unnormalised:
            return -jnp.take_along_axis(logits, label[:, None], axis=1)[:, 0]
        losses_B: jax.Array = optax.softmax_cross_entropy_with_integer_labels(logits, label)
        return losses_B

    def correct(self, logits: jax.Array, batch: QueryBatch) -> jax.Array:
        return jnp.equal(jnp.argmax(logits, axis=-1), _label(batch)).astype(jnp.float32)

    def losses(self, rows: ClozeRows, logits: np.ndarray) -> np.ndarray | None:
        """Mean loss of each seed [S]; NaN for a seed that diverged.

        The mean is over the queries whose right candidate every seed can score. A query without a
        right candidate is left out. So is one whose right candidate has, in some seed, a logit of
        at most NO_CANDIDATE. (sa_reader cannot score a phrase that training lacks.) None if no
        query is left.
        """
        gold_logit_SN = _label_values(logits, np.maximum(rows.label, 0))
        is_masked_N = (gold_logit_SN <= NO_CANDIDATE).any(axis=0)
        is_scored_N = (rows.label >= 0) & ~is_masked_N
        if not is_scored_N.any():
            return None
        p_SNC = self.probabilities(logits[:, is_scored_N])
        gold_p_SN = _label_values(p_SNC, rows.label[is_scored_N])
        log_p_SN = np.log(np.maximum(gold_p_SN, 1e-300))
        # `probabilities` gives 0 for the logits NaN of a seed that diverged.
        log_p_SN = np.where(np.isnan(gold_logit_SN[:, is_scored_N]), np.nan, log_p_SN)
        return np.asarray(-log_p_SN.mean(axis=1))

    def score(self, rows: ClozeRows, logits: np.ndarray) -> JsonObject:
        """The scores of the best candidates: mean_sd over the seeds, see scores.summary.

        accuracy: exact match, under the name that the training loop reads. in_passage: number of
        queries that have a right candidate. loss: see `losses`. slices: {tag: scores of its
        queries}.
        """
        scores_S = self.query_scores(rows, logits)
        summaries = list(map(summary, scores_S))
        losses = self.losses(rows, logits)
        rows_of_tag = slices(query.tags for query in rows.queries())
        by_tag = {tag: seed_scores(scores_S, places) for tag, places in rows_of_tag.items()}
        return {
            "examples": len(rows),
            "in_passage": int((rows.label >= 0).sum()),
            "accuracy": mean_sd_of(summaries, "exact_match"),
            **{name: mean_sd_of(summaries, name) for name in FIGURES},
            "loss": None if losses is None else metrics.mean_sd(losses.tolist()),
            **({"slices": by_tag} if by_tag else {}),
        }

    def query_scores(self, rows: ClozeRows, logits: np.ndarray) -> list[QueryScores]:
        """The scores of each query, one QueryScores for each seed."""
        queries = rows.queries()
        vocab, vectors = rows.word_vectors or (None, None)
        scores_S = []
        for logits_NC in logits:
            predicted = self.answers(rows, logits_NC)
            scores_S.append(query_scores(queries, predicted, vocab, vectors))
        return scores_S

    def answers(self, rows: ClozeRows, logits: np.ndarray) -> dict[str, str]:
        """{uid: the best candidate}, from the logits [N, C] of one seed. A query about a passage
        without candidates has no answer."""
        texts = {}
        for row, best in enumerate(logits.argmax(axis=-1).tolist()):
            if logits[row, best] > NO_CANDIDATE:
                texts[rows.uids[row]] = rows.candidates(row)[best]
        return texts

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """float64 [..., C], the probability of each candidate; 0 in columns beyond the passage's
        candidates. Where logits are unnormalised, the sum may be more than 1."""
        logits = np.asarray(logits, np.float64)
        is_candidate = logits > NO_CANDIDATE
        if not self.unnormalised:
            logits = logits - logits.max(axis=-1, keepdims=True)
        weights: np.ndarray = np.exp(np.where(is_candidate, logits, -np.inf))
        if not self.unnormalised:
            weights /= np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
        return weights

    # -- predictions

    def describe(self, rows: ClozeRows, logits: np.ndarray) -> list[JsonObject]:
        """For each query:

        answer: the candidate with the highest mean probability over the seeds; "" if all
          probabilities are 0, as without candidates.
        best: see best_of.
        candidates: how many the passage has.
        """
        descriptions: list[JsonObject] = []
        for row, p_C in enumerate(self.probabilities(logits).mean(axis=0)):
            best = best_of(rows, row, p_C)
            description = {
                "answer": best[0]["answer"] if p_C.any() else "",
                "best": best,
                "candidates": len(rows.candidates(row)),
            }
            descriptions.append(description)
        return descriptions

    def predictions(self, rows: ClozeRows, logits: np.ndarray) -> list[JsonObject]:
        """For each query {"uid", "predicted": the answer of each seed, "" for none, "best": see
        best_of}."""
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
        return summary_line(f"{split} exact match", scores, self.row_noun, f1)

    def attention_map(
        self,
        corpus: ClozeCorpus,
        vocabulary: Vocab,
        example: ClozeExample,
        lengths: tuple[int, int],
        sown: JsonObject,
    ) -> JsonObject:
        """The texts of one query, and where the reader looked.

        "passage", "query": tokens. "names": {token: the phrase that it stands for}. "candidates":
        texts [C]. "spans": the (start, end) of each mention of each candidate. "weights": attention
        to the passage's tokens [S, tokens].

        sown: "places" is a tuple, as Flax sows it, of one array: the attention for a batch of one
        query [S, 1, padded tokens].
        """
        setup, max_tokens = corpus.encoding.setup, corpus.encoding.max_passage
        passage = passage_in_setup(example.passage, setup, max_tokens=max_tokens)
        setup_query = query_in_setup(example, setup, passage)
        names = {token: phrase for phrase, token in setup_query.names.items()}
        attention_S1T = sown["places"][0]
        return {
            "passage": list(passage.tokens),
            "query": list(setup_query.query),
            "names": names,
            "candidates": list(passage.candidates),
            "spans": [list(map(list, spans)) for spans in passage.positions],
            "weights": attention_S1T[:, 0, : len(passage.tokens)],
        }


def _with_word_vectors(splits: Mapping[str, ClozeRows], path: Path) -> dict[str, ClozeRows]:
    """The splits with the word vectors of all candidates and answers of dev and test. Training
    queries and new ones have no embedding score."""
    strings: set[str] = set()
    for name, rows in splits.items():
        if name not in ("train", NEW):
            strings |= rows.strings()
    if not strings:
        return dict(splits)
    word_vectors = known_vectors(path, words_of_texts(strings))
    return {name: replace(rows, word_vectors=word_vectors) for name, rows in splits.items()}


def _batches(
    prepared: Prepared, name: str, group_size: int, settings: batching.BatchSettings
) -> batching.Batches:
    """The batches of a split. group_size: the most queries of a group."""
    rows = prepared.splits[name]
    assert isinstance(rows, ClozeRows)  # see with_rows
    groups = batching.premise_groups(rows.passage[:, None], group_size) if group_size > 1 else None
    return batching.Batches(*rows.length, replace(settings, first=rows.first), groups=groups)


def best_of(rows: ClozeRows, row: int, p_C: np.ndarray) -> list[JsonObject]:
    """The five most likely candidates of a query, best first: [{"answer": ..., "probability": ...},
    ...]. p_C: their probabilities."""
    candidates = rows.candidates(row)
    order = np.argsort(-p_C[: len(candidates)], kind="stable")[:BEST]
    return [{"answer": candidates[i], "probability": round(float(p_C[i]), 6)} for i in order]


def _label(batch: QueryBatch) -> jax.Array:
    assert batch.label is not None  # see to_batch
    return batch.label


def _label_values(values_SNC: np.ndarray, label_N: np.ndarray) -> np.ndarray:
    """[S, N], the value of the label of each row."""
    return np.take_along_axis(values_SNC, label_N[None, :, None], axis=-1)[..., 0]
