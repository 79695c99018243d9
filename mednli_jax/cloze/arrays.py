"""Cloze queries as arrays, in one set-up; data/cache.py keeps them on disk.

A passage is stored once for all its queries. Passages have very different lengths (CliCR's have 100
to 6,000 tokens), so the arrays are flat, with offsets: the part of passage a is
field[field_start[a] : field_start[a + 1]]. Rows are the queries of all splits in turn.

  passage [P] int32
      tokens
  candidate_type [C] int32
      the phrase's number among all phrases (of its tokens, in the set-up anonym); those below
      manifest["candidates"]["types_of_train"] occur in training
  candidate_length [C] int32
      words of the phrase; starts as candidate_type's
  position, position_candidate [S] int32
      tokens within the marks, by place in the passage, and the number of their candidate within the
      passage, ascending; starts: position_start
  loose_position, loose_position_candidate [L] int32
      the same for all tokens that are a word of a candidate, as the published readers score
      unmarked passages; noent only; starts: loose_position_start
  query [N, Q], query_length [N] int32
      tokens, 0 = padding
  blank, query_passage, gold [N] int32
      place of the placeholder; the passage; the right candidate's number in it, or -1
  label, premise_length, hypothesis_length [N] int32
      gold, tokens of the passage and of the query, under the names that they have in the arrays of
      every corpus
  candidate_text, answer_text uint8
      see ClozeTexts

Dimension letters: N queries, A passages, P tokens, C candidates, S, L positions, Q tokens of a
query, V words.
"""

import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax.cloze.setups import (
    ENTITY,
    SetupPassage,
    SetupQuery,
    Span,
    loose_positions,
    phrase_of,
    texts_in_setup,
)
from mednli_jax.data.arrays import Prepared, Rows
from mednli_jax.data.examples import Answer, ClozeExample, Split
from mednli_jax.data.text import SPECIALS, UNK, Vocab
from mednli_jax.data.vectors import (
    RANDOM_SD,
    coverage,
    load_vectors,
    random_vectors,
    training_coverage,
)
from mednli_jax.errors import DataError
from mednli_jax.terminal import with_progress
from mednli_jax.types import JsonObject

FORMAT = 4  # when to raise it: tests/data/test_prepared_content.py
_PASSAGE_FIELDS = ("passage", "candidate_type", "candidate_length")
_QUERY_FIELDS = ("query_tokens", "query_length", "blank", "query_passage", "gold")
_CANDIDATE_TEXT, _ANSWER_TEXT = _TEXTS = ("candidate_text", "answer_text")
BEGIN, END = "@begin", "@end"
# random vectors: their making takes eight times the memory of the result
_AT_A_TIME = 50_000


@dataclass(frozen=True)
class ClozeEncoding:
    """How queries become arrays. Every field is part of the prepared folder's key.

    setup: one of SETUPS. max_passage: tokens kept of a passage, from its head, 0 = all. max_words:
    the most frequent words of training that are kept, 0 = all. query_bounds: whether queries stand
    between BEGIN and END. vectors_path: None = random. vectors_sd: standard deviation of random
    numbers.
    """

    setup: str
    max_passage: int = 0
    max_words: int = 0
    query_bounds: bool = False
    vectors_path: Path | None = None
    vectors_dim: int = 200
    vectors_seed: int = 0
    vectors_sd: float = RANDOM_SD


class EncodedCloze(NamedTuple):
    """A corpus as arrays. splits: the queries that were taken. vectors: [V, D]. facts: of the
    manifest."""

    splits: dict[str, Split[ClozeExample]]
    arrays: dict[str, np.ndarray]
    vocabulary: Vocab
    vectors: np.ndarray
    facts: JsonObject


def encode_cloze(
    splits: Mapping[str, Split[ClozeExample]], encoding: ClozeEncoding
) -> EncodedCloze:
    """Encodes a corpus. Training queries without a right candidate are left out."""
    flat = _FlatLists(encoding)
    taken = {"train": flat.add(splits["train"], answerable_only=True)}
    if not len(taken["train"].split):
        problem = "no training query has its answer among the marked phrases of its passage"
        fix = "check that the passages are marked, or keep more tokens of them"
        raise DataError(problem, fix=fix)
    types_of_train = len(flat.type_numbers)
    train_counts = flat.word_counts()
    for name, split in splits.items():
        if name != "train":
            taken[name] = flat.add(split, answerable_only=False)
    vocabulary = _vocabulary(train_counts, flat.word_counts(), encoding)
    arrays = flat.arrays(vocabulary.vocab)
    taken_splits, split_facts = {}, {}
    for name, (split, facts) in taken.items():
        taken_splits[name] = split
        split_facts[name] = facts | _array_counts(arrays, facts, types_of_train)
    return EncodedCloze(
        splits=taken_splits,
        arrays=arrays,
        vocabulary=vocabulary.vocab,
        vectors=vocabulary.vectors,
        facts={
            "setup": encoding.setup,
            "splits": split_facts,
            "vocabulary": vocabulary.facts,
            "candidates": {"types": len(flat.type_numbers), "types_of_train": types_of_train},
        },
    )


def encode_new(
    splits: Mapping[str, Split[ClozeExample]],
    vocab: Vocab,
    encoding: ClozeEncoding,
    types: Sequence[str],
) -> tuple[dict[str, np.ndarray], JsonObject]:
    """(arrays, facts) of new queries, answerable or not, in the vocabulary of a run.

    types: names of the phrases of training, see types_of_train; other phrases are numbered behind
    them.
    """
    flat = _FlatLists(encoding, types)
    facts = {}
    cut = 0
    for name, split in splits.items():
        facts[name] = flat.add(split, answerable_only=False).facts
        cut += facts[name]["truncated"]["passages"]
    arrays = flat.arrays(vocab)
    unknown = {side: int((arrays[side] == UNK).sum()) for side in ("passage", "query")}
    return arrays, {"splits": facts, "unknown_tokens": unknown, "truncated": {"passage": cut}}


def _array_counts(
    arrays: Mapping[str, np.ndarray], facts: JsonObject, types_of_train: int
) -> JsonObject:
    """Counts of a split. facts: its rows and passages in the arrays."""
    first_passage, first_query = facts["first_passage"], facts["first"]
    last_passage = first_passage + facts["passages"]
    queries = slice(first_query, first_query + facts["rows"])
    start, end = arrays["passage_start"][[first_passage, last_passage]]
    type_start = arrays["candidate_type_start"]
    gold, passage = arrays["gold"][queries], arrays["query_passage"][queries]
    answerable = gold >= 0
    right = type_start[passage[answerable]] + gold[answerable]
    return {
        "tokens": {
            "passage": int(end - start),
            "query": int(arrays["query_length"][queries].sum()),
        },
        "unknown_tokens": {
            "passage": int((arrays["passage"][start:end] == UNK).sum()),
            "query": int((arrays["query"][queries] == UNK).sum()),
        },
        "candidates": int(type_start[last_passage] - type_start[first_passage]),
        "answers_of_unseen_type": int((arrays["candidate_type"][right] >= types_of_train).sum()),
    }


class _Numbers(dict[str, int]):
    """Numbers of strings by first occurrence; `numbers[text]` gives a new string the next one."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


class _Taken(NamedTuple):
    """split: the queries of a split that were taken. facts: its own, and counts."""

    split: Split[ClozeExample]
    facts: JsonObject


class _FlatLists:
    """The arrays of several splits, as lists that grow. Words are numbered by first occurrence,
    phrases that are not in `types` behind these."""

    def __init__(self, encoding: ClozeEncoding, types: Sequence[str] = ()) -> None:
        self.encoding = encoding
        self.type_numbers = _Numbers(zip(types, range(len(types)), strict=True))
        self._word_numbers = _Numbers()
        self._passage_numbers: dict[int, int] = {}  # id of the object -> number
        marks = ["position"]
        if encoding.setup == "noent":
            marks.append("loose_position")
        self._passage_starts = ("passage", "candidate_type", _CANDIDATE_TEXT, *marks)
        self._numbers = {name: array("i") for name in (*_PASSAGE_FIELDS, *_QUERY_FIELDS)}
        for name in marks:
            self._numbers |= {name: array("i"), f"{name}_candidate": array("i")}
        self._texts = {name: bytearray() for name in _TEXTS}
        self._starts = {name: array("q", [0]) for name in (*self._passage_starts, _ANSWER_TEXT)}

    def add(self, split: Split[ClozeExample], answerable_only: bool) -> _Taken:
        """Appends the queries of a split."""
        encoding = self.encoding
        first_passage = len(self._passage_numbers)
        facts = {**split.facts, "first": len(self._numbers["gold"]), "first_passage": first_passage}
        answerable = {"exact": 0, "synonym": 0, "none": 0}
        lost = {"passages": 0, "tokens": 0, "answers": 0}
        queries = with_progress(split.examples, "queries")
        examples = []
        for example, view in texts_in_setup(
            queries, encoding.setup, max_tokens=encoding.max_passage
        ):
            answerable[view.answerable] += 1
            if view.gold < 0:
                phrases = {phrase_of(answer.text) for answer in example.answers}
                lost["answers"] += not phrases.isdisjoint(view.passage.cut)
                if answerable_only:
                    continue
            if id(example.passage) not in self._passage_numbers:
                self._passage_numbers[id(example.passage)] = len(self._passage_numbers)
                lost["passages"] += view.passage.dropped > 0
                lost["tokens"] += view.passage.dropped
                self._add_passage(view.passage)
            self._add_query(example, view)
            examples.append(example)
        passages = len(self._passage_numbers) - first_passage
        facts |= {"rows": len(examples), "passages": passages}
        facts |= {"answerable": answerable, "truncated": lost}
        return _Taken(replace(split, examples=tuple(examples)), facts)

    def _add_passage(self, view: SetupPassage) -> None:
        self._numbers["passage"].extend(map(self._word_numbers.__getitem__, view.tokens))
        for phrase in view.candidates:
            type_name = view.names[phrase] if self.encoding.setup == "anonym" else phrase
            self._numbers["candidate_type"].append(self.type_numbers[type_name])
            self._numbers["candidate_length"].append(phrase.count(" ") + 1)
        self._add_positions("position", view.positions)
        if self.encoding.setup == "noent":
            self._add_positions("loose_position", loose_positions(view.tokens, view.candidates))
        self._texts[_CANDIDATE_TEXT] += "\n".join(view.candidates).encode()
        values_of = {**self._numbers, **self._texts}
        for name in self._passage_starts:
            self._starts[name].append(len(values_of[name]))

    def _add_positions(self, name: str, positions: Sequence[Sequence[Span]]) -> None:
        for candidate, spans in enumerate(positions):
            for start, end in spans:
                self._numbers[name].extend(range(start, end))
                self._numbers[f"{name}_candidate"].extend([candidate] * (end - start))

    def _add_query(self, example: ClozeExample, view: SetupQuery) -> None:
        query, blank = view.query, view.blank
        if self.encoding.query_bounds:
            query = (BEGIN, *query, END)
            blank += 1
        numbers = self._numbers
        numbers["query_tokens"].extend(map(self._word_numbers.__getitem__, query))
        numbers["query_length"].append(len(query))
        numbers["blank"].append(blank)
        numbers["query_passage"].append(self._passage_numbers[id(example.passage)])
        numbers["gold"].append(view.gold)
        answers = json.dumps(list(map(astuple, example.answers)), ensure_ascii=False)
        self._texts[_ANSWER_TEXT] += answers.encode()
        self._starts[_ANSWER_TEXT].append(len(self._texts[_ANSWER_TEXT]))

    def word_counts(self) -> dict[str, int]:
        """How often each word occurs, a passage counted once."""
        words = len(self._word_numbers)
        passages, queries = self._numbers["passage"], self._numbers["query_tokens"]
        counts = np.bincount(np.array(passages, np.int32), minlength=words)
        counts += np.bincount(np.array(queries, np.int32), minlength=words)
        return dict(zip(self._word_numbers, counts.tolist(), strict=True))

    def arrays(self, vocab: Vocab) -> dict[str, np.ndarray]:
        """The arrays, with the numbers that a vocabulary has for the words."""
        arrays = {name: np.array(values, np.int32) for name, values in self._numbers.items()}
        for name, text in self._texts.items():
            arrays[name] = np.array(text, np.uint8)
        for name, starts in self._starts.items():
            arrays[f"{name}_start"] = np.array(starts, np.int64)
        number_V = np.array(vocab.encode(self._word_numbers), np.int32)
        arrays["passage"] = number_V[arrays["passage"]]
        length_N = arrays["query_length"]
        query_NQ = np.zeros((len(length_N), length_N.max()), np.int32)
        is_token_NQ = np.arange(query_NQ.shape[1]) < length_N[:, None]
        query_NQ[is_token_NQ] = number_V[arrays.pop("query_tokens")]
        arrays["query"] = query_NQ
        passage_length_A = np.diff(arrays["passage_start"]).astype(np.int32)
        arrays["premise_length"] = passage_length_A[arrays["query_passage"]]
        arrays["hypothesis_length"] = length_N
        arrays["label"] = arrays["gold"]
        return arrays


class _Vocabulary(NamedTuple):
    """vectors: [V, D]. facts: counts of words."""

    vocab: Vocab
    vectors: np.ndarray
    facts: JsonObject


def _vocabulary(
    train_counts: Mapping[str, int], counts: Mapping[str, int], encoding: ClozeEncoding
) -> _Vocabulary:
    """All words of training, and the words of other splits that have a pretrained vector. A word
    of training without one has a random vector, as in the published readers.

    train_counts, counts: how often each word occurs in training and in all splits.
    """
    dim, seed = encoding.vectors_dim, encoding.vectors_seed
    train_words = Vocab.of_counts(train_counts).words  # begin with SPECIALS
    size = len(SPECIALS) + encoding.max_words if encoding.max_words else len(train_words)
    words = train_words[:size]
    facts: JsonObject = {
        "of_train": len(words) - len(SPECIALS),
        "cut": len(train_words) - len(words),
    }
    with_vector = 0
    if encoding.vectors_path is None:
        vocab = Vocab(words)
        vectors = np.zeros((len(vocab), dim), np.float32)
        random_rows = np.arange(UNK, len(vocab))
    else:
        other_counts = {word: n for word, n in counts.items() if word not in train_counts}
        other_words = Vocab.of_counts(other_counts).words[len(SPECIALS) :]
        candidates = (*words, *other_words)
        pretrained = load_vectors(encoding.vectors_path, candidates, dim=dim, seed=seed)
        with_vector = pretrained.with_vector
        facts["source"] = pretrained.file
        facts["sha256"] = pretrained.sha256
        facts["coverage"] = asdict(coverage(pretrained, counts))
        chosen_counts = {word: train_counts[word] for word in words[len(SPECIALS) :]}
        facts["training_tokens"] = asdict(training_coverage(pretrained, chosen_counts))
        rows = np.union1d(range(len(words)), pretrained.rows)
        vocab = Vocab(tuple(candidates[row] for row in rows))
        vectors = pretrained.matrix[rows]
        random_rows = np.flatnonzero(~np.isin(rows, pretrained.rows))[len(SPECIALS) :]
    for start in range(0, len(random_rows), _AT_A_TIME):
        some_rows = random_rows[start : start + _AT_A_TIME]
        names = [vocab.words[row] for row in some_rows]
        vectors[some_rows] = random_vectors(names, dim=dim, seed=seed, sd=encoding.vectors_sd)
    facts["words"] = len(vocab) - len(SPECIALS)
    facts["of_other_splits"] = len(vocab) - len(words)
    facts["with_vector"] = with_vector
    return _Vocabulary(vocab, vectors, facts)


# -- the strings of the arrays ---------------------------------------------------------------------


class Query(NamedTuple):
    """A query as scores read it: accepted answers, the dataset's first, and tags."""

    uid: str
    answers: tuple[Answer, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class ClozeTexts:
    """The strings that belong to a prepared corpus's arrays: the candidates' phrases and the
    accepted answers."""

    arrays: Mapping[str, np.ndarray]

    def candidates(self, passage: int) -> tuple[str, ...]:
        """The candidates of a passage in the order of their numbers."""
        text = self._piece(_CANDIDATE_TEXT, passage)
        return tuple(text.split("\n")) if text else ()

    def answers(self, row: int) -> tuple[Answer, ...]:
        """All answers of a query, the dataset's first."""
        return tuple(Answer(*fields) for fields in json.loads(self._piece(_ANSWER_TEXT, row)))

    def queries(self, rows: Rows) -> list[Query]:
        """The queries of a split, for scoring."""
        queries = []
        for number, (uid, tags) in enumerate(zip(rows.uids, rows.tags, strict=True), rows.first):
            queries.append(Query(uid, self.answers(number), tags))
        return queries

    def _piece(self, name: str, number: int) -> str:
        start, end = self.arrays[f"{name}_start"][number : number + 2]
        return self.arrays[name][start:end].tobytes().decode()


def types_of_train(prepared: Prepared) -> tuple[str, ...]:
    """The phrases that occur in training, in the order of their numbers; in the set-up anonym their
    tokens."""
    count = prepared.manifest["candidates"]["types_of_train"]
    if prepared.manifest["setup"] == "anonym":
        return tuple(f"{ENTITY}{number}" for number in range(count))
    facts = prepared.manifest["splits"]["train"]
    start, types = prepared.arrays["candidate_type_start"], prepared.arrays["candidate_type"]
    texts = ClozeTexts(prepared.arrays)
    phrase_of_type: dict[int, str] = {}
    for passage in range(facts["first_passage"], facts["first_passage"] + facts["passages"]):
        numbers = types[start[passage] : start[passage + 1]].tolist()
        phrase_of_type.update(zip(numbers, texts.candidates(passage), strict=True))
    return tuple(phrase_of_type[number] for number in range(count))
