"""Cloze queries about passages (Šuster & Daelemans 2018): from rows to batches, from logits to
answers.

A row is a query. A unit is a passage with some of its queries. Logits [S, N, C] are scores of the
passage's candidates in the order of their first occurrence; C is the largest number of candidates
of a passage.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mednli_jax.cloze import scores as answers
from mednli_jax.cloze.baselines import known_vectors
from mednli_jax.cloze.clicr import parse_marked
from mednli_jax.cloze.encoding import Query, Texts, all_views, types_of_train
from mednli_jax.data import batching
from mednli_jax.data.arrays import LEAST, NEW, SIDES, Prepared, Rows, power_of_two
from mednli_jax.data.examples import Answer, ClozeExample, Passage
from mednli_jax.data.text import Vocab
from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.packing import MASKED_ENERGY
from mednli_jax.models.table import traits
from mednli_jax.report import metrics
from mednli_jax.training.task import frozen, summary

PREDICT_ROWS = 64
# queries of a passage in one unit; CliCR has about nine per passage
PREDICT_GROUP = 8
BEST = 5
FIGURES = ("exact_match", "f1", "bleu2", "bleu4", "embedding", "missing", "predicted_length")
_FLAT = ("passage", "passage_start", "candidate_type", "candidate_type_start", "candidate_length")
_OF_QUERY = ("query", "query_length", "blank", "query_passage", "gold")


@dataclass(frozen=True)
class ClozeRows(Rows):
    """The rows of one split. passage: [N], of each query. words: (Vocab, vectors [V, D]) for the
    embedding score."""

    texts: Texts
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
        found = {answer.text for query in self.queries() for answer in query.answers}
        return found.union(
            *(self.texts.candidates(passage) for passage in set(self.passage.tolist()))
        )


@dataclass(frozen=True)
class ClozeTask:
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
    units: str = "queries"
    pieces: bool = False
    labels: tuple[str, ...] = ()
    padded_length: int = 0

    types = staticmethod(types_of_train)

    def with_rows(self, prepared: Prepared, corpus) -> Prepared:
        """The splits with the texts of their candidates and answers."""
        texts, words = Texts(prepared.arrays), None
        splits = {
            name: ClozeRows(
                **{field.name: getattr(rows, field.name) for field in fields(Rows)},
                texts=texts,
                passage=np.array(
                    prepared.arrays["query_passage"][rows.first : rows.first + len(rows)]
                ),
            )
            for name, rows in prepared.splits.items()
        }
        if self.answer_vectors and NEW not in splits:
            found = set().union(
                *(rows.strings() for name, rows in splits.items() if name != "train")
            )
            words = known_vectors(str(self.answer_vectors), (), sorted(found))
        return replace(
            prepared, splits={name: replace(rows, words=words) for name, rows in splits.items()}
        )

    def model_facts(self, manifest: dict) -> dict:
        """Arguments of models.table.Entry.build: the number of different phrases in the training
        split."""
        return {"num_types": manifest["candidates"]["types_of_train"]}

    def resident(self, prepared: Prepared) -> dict[str, np.ndarray]:
        """The arrays on the device. Starts are converted to 32 bits. The length of `*_places` is
        the largest count."""
        arrays = prepared.arrays
        marks = "loose_position" if self.loose else "position"
        names = (*_FLAT, *_OF_QUERY, marks, f"{marks}_start", f"{marks}_candidate")
        found = {name.replace("loose_", ""): np.asarray(arrays[name]) for name in names}
        found |= {
            name: array.astype(np.int32) for name, array in found.items() if array.dtype == np.int64
        }
        for name in ("candidate_type", "position"):
            most = int(np.diff(found[f"{name}_start"]).max(initial=1))
            most = power_of_two(most, LEAST) if NEW in prepared.splits else most
            found[f"{name}_places"] = np.arange(most, dtype=np.int32)
        return found

    def frozen(self, vectors: np.ndarray) -> dict:
        return frozen(vectors)

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: batching.TrainingBatches,
        *,
        shares: int,
        model,
    ):
        """A split's batches. On dev and test a passage is encoded once for several of its
        queries."""
        widths = tuple(
            max(int(prepared.arrays[f"{side}_length"].max(initial=1)), 1) for side in SIDES
        )
        shared = batching.BatchPlan(
            training.size,
            width=widths,
            shares=shares,
            joint=False,
            floor=batching.floor_on(traits(model).platform),
        )
        if name == "train":
            plan = replace(
                shared,
                max_buckets=training.max_buckets,
                seeds=training.seeds,
                epochs=training.epochs,
                shuffle=training.shuffle,
            )
            return _batches(prepared.splits[name], min(training.group, training.size), plan)
        plan = replace(
            shared,
            batch_size=PREDICT_ROWS,
            max_buckets=batching.MAX_BUCKETS,
            passes=training.epochs * len(training.seeds),
            coarse=name == NEW,
        )
        if name == NEW:
            return _batches(prepared.splits[name], PREDICT_GROUP, plan)
        predicted = [split for split in prepared.splits if split != "train"]
        batches = {
            split: _batches(prepared.splits[split], PREDICT_GROUP, plan) for split in predicted
        }
        return batching.sharing(batches)[name]

    def new_examples(self, inputs, manifest: dict) -> list[ClozeExample]:
        """Queries without answers from marked (passage, query) strings; equal passages become one
        object."""
        passages, examples = {}, []
        for number, (passage, query) in enumerate(inputs):
            if passage not in passages:
                marked, uid = parse_marked(passage), f"passage {len(passages)}"
                passages[passage] = Passage(
                    uid, (), marked.tokens, marked.entities, marked.sentences
                )
            marked = parse_marked(query)
            of_query = (marked.tokens, marked.entities, marked.blanks[0], (Answer(""),))
            examples.append(ClozeExample(str(number), passages[passage], *of_query))
        return examples

    def described(self, rows: ClozeRows, logits: np.ndarray) -> list[dict]:
        """For each query "answer", the most likely candidate ("" for none), "best", the five most
        likely ones with their probabilities, and "candidates", their number."""
        found = []
        for row, p_C in enumerate(self.probabilities(logits).mean(axis=0)):
            best = best_of(rows, row, p_C)
            answer = best[0]["answer"] if p_C.any() else ""
            found.append({"answer": answer, "best": best, "candidates": len(rows.candidates(row))})
        return found

    def looked_at(
        self, corpus, vocabulary, example: ClozeExample, lengths: tuple[int, int], sown: dict
    ) -> dict:
        """The tokens of "passage" and "query"; "names": {token: the phrase that it represents};
        "candidates": their texts [C]; "spans": the (start, end) pairs of each; "weights": attention
        to the passage's tokens [S, N]."""
        encoding = corpus.encoding
        _, view = next(iter(all_views([example], encoding.setup, max_tokens=encoding.max_passage)))
        return {
            "passage": list(view.passage.tokens),
            "query": list(view.query),
            "names": {token: phrase for phrase, token in view.names.items() if phrase},
            "candidates": list(view.passage.candidates),
            "spans": [[list(span) for span in spans] for spans in view.passage.positions],
            "weights": sown["places"][0][:, 0, : len(view.passage.tokens)],
        }

    def to_batch(self, data, index, layout):
        """The QueryBatch of rows `index` [U, G]; the G queries of a unit share its passage."""
        units, index = index.max(axis=1), index.reshape(-1)
        row, real = jnp.maximum(index, 0), index >= 0
        passage, present = data["query_passage"][jnp.maximum(units, 0)], units >= 0
        tokens = _of_passage(data, "passage", passage, jnp.arange(layout.width[0]), present)
        types = _of_passage(data, "candidate_type", passage, data["candidate_type_places"], present)
        marks = _of_passage(data, "position", passage, data["position_places"], present)
        most = data["candidate_type_places"].shape[0]
        return QueryBatch(
            passage=jnp.where(tokens.inside, data["passage"][tokens.at], 0),
            passage_length=tokens.length,
            candidate_type=jnp.where(types.inside, data["candidate_type"][types.at], 0),
            candidate_length=jnp.where(types.inside, data["candidate_length"][types.at], 0),
            position=jnp.where(marks.inside, data["position"][marks.at], 0),
            position_candidate=jnp.where(marks.inside, data["position_candidate"][marks.at], most),
            query=jnp.where(real[:, None], data["query"][row][:, : layout.width[1]], 0),
            query_length=jnp.where(real, data["query_length"][row], 0),
            blank=data["blank"][row],
            label=jnp.maximum(data["gold"][row], 0),
            mask=real.astype(jnp.float32),
            layout=layout,
        )

    def loss(self, logits, batch):
        if self.masses:
            return -jnp.take_along_axis(logits, batch.label[:, None], axis=1)[:, 0]
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)

    def correct(self, logits, batch):
        return (jnp.argmax(logits, axis=-1) == batch.label).astype(jnp.float32)

    def losses(self, rows: ClozeRows, logits: np.ndarray) -> np.ndarray | None:
        """Mean loss of each seed [S] over the queries whose answer is a candidate with a score;
        None without any.

        NaN for a seed that diverged.
        """
        gold_SN = np.take_along_axis(logits, np.maximum(rows.label, 0)[None, :, None], axis=-1)[
            ..., 0
        ]
        known_N = (rows.label >= 0) & ~(gold_SN <= MASKED_ENERGY / 2).any(axis=0)
        if not known_N.any():
            return None
        logp = np.log(np.maximum(self.probabilities(logits[:, known_N]), 1e-300))
        logp_SN = np.take_along_axis(logp, rows.label[known_N][None, :, None], axis=-1)[..., 0]
        return -np.where(np.isnan(gold_SN[:, known_N]), np.nan, logp_SN).mean(axis=1)

    def score(self, rows: ClozeRows, logits: np.ndarray) -> dict:
        """Exact match, F1, BLEU and embedding score of the best candidates, by seed and for slices
        of the queries.

        accuracy is exact match, under the name that the loop reads. in_passage: number of queries
        whose answer is a candidate. loss: None where no answer can be scored.
        """
        each, losses = self.scored(rows, logits), self.losses(rows, logits)
        summaries = [answers.summary(found) for found in each]
        scores = {
            "examples": len(rows),
            "in_passage": int((rows.label >= 0).sum()),
            "accuracy": _mean(summaries, "exact_match"),
            **{name: _mean(summaries, name) for name in FIGURES},
            "loss": None if losses is None else metrics.mean_sd(losses.tolist()),
        }
        families = {
            family: {name: answers.seed_scores(each, places) for name, places in named.items()}
            for family, named in answers.slices(rows.queries()).items()
        }
        slices = families.pop("tag", {})
        return {**scores, **({"slices": slices} if slices else {}), "families": families}

    def scored(self, rows: ClozeRows, logits: np.ndarray) -> list[answers.QueryScores]:
        """The scores of each query, by seed."""
        queries = rows.queries()
        return [
            answers.query_scores(queries, self.answers(rows, part), *(rows.words or ()))
            for part in logits
        ]

    def answers(self, rows: ClozeRows, logits: np.ndarray) -> dict[str, str]:
        """{uid: text} of the best candidates, from the logits [N, C] of one seed."""
        found = {}
        for row, (uid, best) in enumerate(
            zip(rows.uids, logits.argmax(axis=-1).tolist(), strict=True)
        ):
            if logits[row, best] > MASKED_ENERGY / 2:
                found[uid] = rows.candidates(row)[best]
        return found

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities [..., C] of the candidates in float64, 0 without a candidate. Masses may
        sum to more than 1."""
        logits = np.asarray(logits, np.float64)
        there = logits > MASKED_ENERGY / 2
        top = 0.0 if self.masses else logits.max(axis=-1, keepdims=True)
        exp = np.where(there, np.exp(np.where(there, logits - top, 0.0)), 0.0)
        return exp if self.masses else exp / np.maximum(exp.sum(axis=-1, keepdims=True), 1e-300)

    def predictions(self, rows: ClozeRows, logits: np.ndarray) -> list[dict]:
        """A JSON row per query: uid, the answer of each seed ("" for none), and the most likely
        candidates."""
        answers_S, mean_NC = (
            [self.answers(rows, part) for part in logits],
            self.probabilities(logits).mean(axis=0),
        )
        return [
            {
                "uid": uid,
                "predicted": [of_seed.get(uid, "") for of_seed in answers_S],
                "best": best_of(rows, row, p_C),
            }
            for row, (uid, p_C) in enumerate(zip(rows.uids, mean_NC, strict=True))
        ]

    def summary(self, split: str, scores: dict) -> str:
        return summary(
            f"{split} exact match", scores, self.units, f", F1 {scores['f1']['mean']:.4f}"
        )


def _batches(rows: ClozeRows, group: int, plan: batching.BatchPlan) -> batching.Batches:
    """The batches of a split; up to `group` queries of a passage are kept together."""
    groups = batching.groups_of(rows.passage[:, None], group) if group > 1 else None
    return batching.Batches(*rows.length, replace(plan, first=rows.first), groups=groups)


def best_of(rows: ClozeRows, row: int, p_C: np.ndarray) -> list[dict]:
    """The most likely candidates of a query, best first: [{"answer": ..., "probability": ...},
    ...]."""
    names = rows.candidates(row)
    order = np.argsort(-p_C[: len(names)], kind="stable")[:BEST]
    return [{"answer": names[i], "probability": round(float(p_C[i]), 6)} for i in order]


class _Places(NamedTuple):
    """Indices `at` [U, T] in a flat array, whether each belongs to the passage, and the number [U]
    that do."""

    at: jax.Array
    inside: jax.Array
    length: jax.Array


def _of_passage(data, name, passage_U, places_T, present_U):
    start, end = data[f"{name}_start"][passage_U], data[f"{name}_start"][passage_U + 1]
    length = jnp.where(present_U, end - start, 0)
    inside = places_T < length[:, None]
    return _Places(jnp.where(inside, start[:, None] + places_T, 0), inside, length)


def _mean(summaries, name):
    """mean_sd of a score over seeds, None where a seed has none."""
    values = [found[name] for found in summaries]
    return None if None in values else metrics.mean_sd(values)
