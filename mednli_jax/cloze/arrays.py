"""Cloze queries as arrays, in one set-up; data/cache.py saves them.

A passage is stored once for all its queries. Passages have very different lengths (CliCR's have 100
to 6,000 tokens), so arrays of passages are flat, with offsets: field[field_start[a] :
field_start[a + 1]] belongs to passage a. Rows are the queries of all splits, split after split.

  passage [P] int32
      words of the passages
  candidate_type [E] int32
      number of the candidate's phrase among all phrases of the corpus. In anonym, the number in its
      token, 3 for @entity3, so different phrases of different passages have one number. Numbers
      below manifest["candidates"]["types_of_train"] occur in training.
  candidate_length [E] int32
      words of the phrase; offsets: candidate_type_start
  position, position_candidate [M] int32
      each token inside marks: its index in the passage, and the index of its candidate among the
      passage's candidates. A passage's positions are sorted by the index of the candidate. Offsets:
      position_start
  loose_position, loose_position_candidate [L] int32
      the same for each token that is a word of a candidate, inside marks or not. The published
      readers score candidates so in noent; other set-ups lack these arrays. Offsets:
      loose_position_start
  query [N, T] int32
      words of each query, 0 = padding
  query_length [N] int32
      tokens of each query
  blank [N] int32
      index of the placeholder in the query
  query_passage [N] int32
      number of the query's passage
  gold [N] int32
      index of the right candidate among the passage's candidates, or -1
  label, premise_length, hypothesis_length [N] int32
      gold, length of the passage and length of the query under the names that all tasks share
  candidate_text, answer_text uint8
      see ClozeTexts

Dimension letters: N queries, T tokens of the longest query, A passages; over all passages together,
P tokens, E candidates, M tokens inside marks, L tokens that are a word of a candidate; V words, D
numbers per word.
"""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
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
    queries_in_setup,
)
from mednli_jax.data.arrays import Prepared, Rows
from mednli_jax.data.examples import Answer, ClozeExample, Split
from mednli_jax.data.text import SPECIALS, UNK, Vocab
from mednli_jax.data.vectors import (
    RANDOM_SD,
    load_vectors,
    random_vectors,
    training_coverage,
)
from mednli_jax.errors import DataError
from mednli_jax.terminal import with_progress
from mednli_jax.types import JsonObject

# Raise it when the meaning or the layout of an array changes; tests/data/test_prepared_content.py
# notices a change.
FORMAT = 6
# Fields without offsets of their own. candidate_length has the offsets of candidate_type,
# position_candidate those of position. query_tokens has the queries end to end; query_length says
# how long each is. query_length and the fields after it hold one number for each query.
_COLUMNS = (
    "candidate_length",
    "position_candidate",
    "query_tokens",
    "query_length",
    "blank",
    "query_passage",
    "gold",
)
QUERY_BEGIN, QUERY_END = "@begin", "@end"
VECTORS_AT_A_TIME = 50_000  # making random vectors takes eight times the memory of the result


@dataclass(frozen=True)
class ClozeEncoding:
    """How queries become arrays. Every field is part of the prepared folder's key.

    Args:
      setup: one of SETUPS.
      max_passage: how many tokens of a passage to keep, from the first; 0 = all.
      max_words: how many words of training to keep, the most frequent first; 0 = all.
      query_bounds: whether queries stand between QUERY_BEGIN and QUERY_END.
      vectors_path: file of word vectors; None = all vectors are random.
      vectors_sd: standard deviation of the numbers in random vectors.
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
    """A corpus as arrays.

    Args:
      splits: the queries that are in the arrays.
      vectors: [V, D].
      facts: for the manifest.
    """

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
    # Train comes first, so that its phrases have the lowest numbers.
    added = {"train": flat.add(splits["train"], answerable_only=True)}
    if not len(added["train"].split):
        problem = "no training query has its answer among the marked phrases of its passage"
        fix = "check that the passages are marked, or keep more tokens of them"
        raise DataError(problem, fix=fix)
    num_train_types = len(flat.type_numbers)
    train_counts = flat.word_counts()
    for name, split in splits.items():
        if name != "train":
            added[name] = flat.add(split, answerable_only=False)
    vocabulary = _vocabulary(train_counts, flat.word_counts(), encoding)
    arrays = flat.arrays(vocabulary.vocab)
    added_splits, split_facts = {}, {}
    for name, (split, facts) in added.items():
        added_splits[name] = split
        split_facts[name] = facts | _array_counts(arrays, facts, num_train_types)
    return EncodedCloze(
        splits=added_splits,
        arrays=arrays,
        vocabulary=vocabulary.vocab,
        vectors=vocabulary.vectors,
        facts={
            "setup": encoding.setup,
            "splits": split_facts,
            "vocabulary": vocabulary.facts,
            "candidates": {"types": len(flat.type_numbers), "types_of_train": num_train_types},
        },
    )


def encode_new(
    splits: Mapping[str, Split[ClozeExample]],
    vocab: Vocab,
    encoding: ClozeEncoding,
    types: Sequence[str],
) -> tuple[dict[str, np.ndarray], JsonObject]:
    """Encodes queries for a trained run: (arrays, facts for a manifest).

    Args:
      vocab: the run's vocabulary.
      types: training_phrases of the run's corpus; other phrases get higher numbers.
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
    arrays: Mapping[str, np.ndarray], facts: JsonObject, num_train_types: int
) -> JsonObject:
    """Counts of unknown tokens and of candidates of one split. facts: those of _FlatLists.add."""
    first_passage, first_query = facts["first_passage"], facts["first"]
    end_passage = first_passage + facts["passages"]
    queries = slice(first_query, first_query + facts["rows"])
    start, end = arrays["passage_start"][[first_passage, end_passage]]
    gold, passage = arrays["gold"][queries], arrays["query_passage"][queries]
    is_answerable = gold >= 0
    first_candidate = arrays["candidate_type_start"]  # of each passage
    right_candidate = first_candidate[passage[is_answerable]] + gold[is_answerable]
    right_type = arrays["candidate_type"][right_candidate]
    return {
        "unknown_tokens": {
            "passage": int((arrays["passage"][start:end] == UNK).sum()),
            "query": int((arrays["query"][queries] == UNK).sum()),
        },
        "candidates": int(first_candidate[end_passage] - first_candidate[first_passage]),
        "answers_of_unseen_type": int((right_type >= num_train_types).sum()),
    }


class _Numbers(dict[str, int]):
    """Numbers strings by first occurrence; `numbers[text]` gives a new string the next number."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


class _AddedSplit(NamedTuple):
    """The result of adding a split. split: its queries that are in the arrays. facts: of the split,
    and counts."""

    split: Split[ClozeExample]
    facts: JsonObject


class _Flat:
    """Sequences of numbers end to end.

    values: all numbers. starts: the index in `values` at which each sequence begins, and the end of
    the last one.
    """

    def __init__(self, values: array | bytearray) -> None:
        self.values = values
        self.starts = array("q", [0])

    def append(self, sequence: Iterable[int]) -> None:
        self.values.extend(sequence)
        self.starts.append(len(self.values))


class _FlatLists:
    """The arrays of several splits, as lists that grow.

    Words are numbered by first occurrence. The phrases `types` have the numbers of their order;
    other phrases are numbered after them, by first occurrence.
    """

    def __init__(self, encoding: ClozeEncoding, types: Sequence[str] = ()) -> None:
        self.encoding = encoding
        self.type_numbers = _Numbers({phrase: number for number, phrase in enumerate(types)})
        self._word_numbers = _Numbers()
        self._passage_numbers: dict[int, int] = {}  # id of the object -> number
        self._flat = {name: _Flat(array("i")) for name in ("passage", "candidate_type", "position")}
        self._flat |= {name: _Flat(bytearray()) for name in ("candidate_text", "answer_text")}
        self._columns = {name: array("i") for name in _COLUMNS}
        if encoding.setup == "noent":
            self._flat["loose_position"] = _Flat(array("i"))
            self._columns["loose_position_candidate"] = array("i")

    def add(self, split: Split[ClozeExample], *, answerable_only: bool) -> _AddedSplit:
        """Appends the queries of a split, and their passages that are not there yet.

        answerable_only: whether to leave out queries without a right candidate.
        """
        first, first_passage = len(self._columns["gold"]), len(self._passage_numbers)
        matches = {"exact": 0, "synonym": 0, "none": 0}
        lost = {"passages": 0, "tokens": 0, "answers": 0}
        examples = []
        for example, setup_query in queries_in_setup(
            with_progress(split.examples, "queries"),
            self.encoding.setup,
            max_tokens=self.encoding.max_passage,
        ):
            matches[setup_query.match] += 1
            if setup_query.gold < 0:
                phrases = [phrase_of(answer.text) for answer in example.answers]
                answer_was_cut = not setup_query.passage.cut_candidates.isdisjoint(phrases)
                lost["answers"] += answer_was_cut
                if answerable_only:
                    continue
            if id(example.passage) not in self._passage_numbers:
                self._passage_numbers[id(example.passage)] = len(self._passage_numbers)
                lost["passages"] += setup_query.passage.num_cut_tokens > 0
                lost["tokens"] += setup_query.passage.num_cut_tokens
                self._add_passage(setup_query.passage)
            self._add_query(example, setup_query)
            examples.append(example)
        facts = {
            **split.facts,
            "first": first,
            "first_passage": first_passage,
            "rows": len(examples),
            "passages": len(self._passage_numbers) - first_passage,
            "answerable": matches,
            "truncated": lost,
        }
        return _AddedSplit(replace(split, examples=tuple(examples)), facts)

    def _add_passage(self, passage: SetupPassage) -> None:
        self._flat["passage"].append(map(self._word_numbers.__getitem__, passage.tokens))
        types = []
        for phrase in passage.candidates:
            type_name = passage.names[phrase] if self.encoding.setup == "anonym" else phrase
            types.append(self.type_numbers[type_name])
            self._columns["candidate_length"].append(phrase.count(" ") + 1)
        self._flat["candidate_type"].append(types)
        self._add_positions("position", passage.positions)
        if self.encoding.setup == "noent":
            loose = loose_positions(passage.tokens, passage.candidates)
            self._add_positions("loose_position", loose)
        self._flat["candidate_text"].append("\n".join(passage.candidates).encode())

    def _add_positions(self, name: str, spans_of_candidates: Sequence[Sequence[Span]]) -> None:
        positions: list[int] = []
        for candidate, spans in enumerate(spans_of_candidates):
            for start, end in spans:
                positions += range(start, end)
                self._columns[f"{name}_candidate"].extend([candidate] * (end - start))
        self._flat[name].append(positions)

    def _add_query(self, example: ClozeExample, setup_query: SetupQuery) -> None:
        query, blank = setup_query.query, setup_query.blank
        if self.encoding.query_bounds:
            query = (QUERY_BEGIN, *query, QUERY_END)
            blank += 1
        columns = self._columns
        columns["query_tokens"].extend(map(self._word_numbers.__getitem__, query))
        columns["query_length"].append(len(query))
        columns["blank"].append(blank)
        columns["query_passage"].append(self._passage_numbers[id(example.passage)])
        columns["gold"].append(setup_query.gold)
        answers = json.dumps(list(map(astuple, example.answers)), ensure_ascii=False)
        self._flat["answer_text"].append(answers.encode())

    def word_counts(self) -> dict[str, int]:
        """{word: how often it occurs in the passages, each counted once, and in the queries}."""
        words = len(self._word_numbers)
        passages, queries = self._flat["passage"].values, self._columns["query_tokens"]
        counts = np.bincount(np.array(passages), minlength=words)
        counts += np.bincount(np.array(queries), minlength=words)
        return dict(zip(self._word_numbers, counts.tolist(), strict=True))

    def arrays(self, vocab: Vocab) -> dict[str, np.ndarray]:
        """All arrays (see the top of the module). Words have their numbers in `vocab`."""
        arrays = {name: np.array(values) for name, values in self._columns.items()}
        for name, flat in self._flat.items():
            arrays[name] = np.array(flat.values)
            arrays[f"{name}_start"] = np.array(flat.starts)
        # Until here words are numbered by first occurrence. number_V[this number] is the word's
        # number in `vocab`.
        number_V = np.array(vocab.encode(self._word_numbers), np.int32)
        arrays["passage"] = number_V[arrays["passage"]]
        length_N = arrays["query_length"]
        query_NT = np.zeros((len(length_N), length_N.max()), np.int32)
        is_token_NT = np.arange(query_NT.shape[1]) < length_N[:, None]
        query_NT[is_token_NT] = number_V[arrays.pop("query_tokens")]
        arrays["query"] = query_NT
        passage_length_A = np.diff(arrays["passage_start"]).astype(np.int32)
        arrays["premise_length"] = passage_length_A[arrays["query_passage"]]
        arrays["hypothesis_length"] = length_N
        arrays["label"] = arrays["gold"]
        return arrays


class _Vocabulary(NamedTuple):
    """Words and their vectors [V, D]. facts: for the manifest."""

    vocab: Vocab
    vectors: np.ndarray
    facts: JsonObject


def _vocabulary(
    train_counts: Mapping[str, int], counts: Mapping[str, int], encoding: ClozeEncoding
) -> _Vocabulary:
    """The max_words most frequent words of training, and words of other splits that have a
    pretrained vector. A word of training without a pretrained vector has a random one, as in the
    published readers.

    train_counts, counts: {word: how often it occurs} in training and in all splits.
    """
    train_words = Vocab.of_counts(train_counts).words  # SPECIALS come first
    size = len(SPECIALS) + encoding.max_words if encoding.max_words else len(train_words)
    words = train_words[:size]
    if encoding.vectors_path is None:
        vectors = np.zeros((len(words), encoding.vectors_dim), np.float32)
        vocabulary = _Vocabulary(Vocab(words), vectors, {"with_vector": 0})
        _draw_vectors(vocabulary, np.arange(UNK, len(words)), encoding)
    else:
        vocabulary = _pretrained_vocabulary(words, train_counts, counts, encoding)
    facts = {
        "cut": len(train_words) - len(words),
        **vocabulary.facts,
        "words": len(vocabulary.vocab) - len(SPECIALS),
        "of_other_splits": len(vocabulary.vocab) - len(words),
    }
    return vocabulary._replace(facts=facts)


def _pretrained_vocabulary(
    words: Sequence[str],
    train_counts: Mapping[str, int],
    counts: Mapping[str, int],
    encoding: ClozeEncoding,
) -> _Vocabulary:
    """The vocabulary of `words` and of words of other splits that have a vector in the file."""
    other_counts = {word: n for word, n in counts.items() if word not in train_counts}
    other_words = Vocab.of_counts(other_counts).words[len(SPECIALS) :]
    pretrained = load_vectors(
        encoding.vectors_path,
        (*words, *other_words),
        dim=encoding.vectors_dim,
        seed=encoding.vectors_seed,
    )
    # The rows of `pretrained` that are kept: all of `words`, and the other words that have a vector
    # in the file. Row rows[i] of `pretrained` becomes row i of the new vocabulary.
    rows = np.union1d(range(len(words)), pretrained.rows)
    vocab = Vocab(tuple(pretrained.vocabulary[row] for row in rows))
    # Rows of the new vocabulary whose words have no vector in the file. PAD and UNK never have one,
    # so they are the first two.
    without_vector = np.flatnonzero(~np.isin(rows, pretrained.rows))
    word_counts = {word: train_counts[word] for word in words[len(SPECIALS) :]}
    facts = {
        "source": pretrained.file,
        "sha256": pretrained.sha256,
        "training_tokens": asdict(training_coverage(pretrained, word_counts)),
        "with_vector": pretrained.with_vector,
    }
    vocabulary = _Vocabulary(vocab, pretrained.matrix[rows], facts)
    # Not for PAD, whose vector stays 0, and UNK, whose vector load_vectors has made.
    _draw_vectors(vocabulary, without_vector[len(SPECIALS) :], encoding)
    return vocabulary


def _draw_vectors(vocabulary: _Vocabulary, rows: np.ndarray, encoding: ClozeEncoding) -> None:
    """Fills these rows of the vectors with random numbers."""
    dim, seed, sd = encoding.vectors_dim, encoding.vectors_seed, encoding.vectors_sd
    for start in range(0, len(rows), VECTORS_AT_A_TIME):
        some_rows = rows[start : start + VECTORS_AT_A_TIME]
        words = [vocabulary.vocab.words[row] for row in some_rows]
        vocabulary.vectors[some_rows] = random_vectors(words, dim=dim, seed=seed, sd=sd)


# -- the strings of the arrays ---------------------------------------------------------------------


class Query(NamedTuple):
    """The part of a query that scores.py needs. answers: all accepted ones, the dataset's
    first."""

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
        text = self._piece("candidate_text", passage)
        return tuple(text.split("\n")) if text else ()

    def answers(self, row: int) -> tuple[Answer, ...]:
        """All answers of a query, the dataset's first."""
        return tuple(Answer(*fields) for fields in json.loads(self._piece("answer_text", row)))

    def queries(self, rows: Rows) -> list[Query]:
        """The queries of a split, for scoring."""
        queries = []
        for number, (uid, tags) in enumerate(zip(rows.uids, rows.tags, strict=True), rows.first):
            queries.append(Query(uid, self.answers(number), tags))
        return queries

    def _piece(self, name: str, number: int) -> str:
        start, end = self.arrays[f"{name}_start"][number : number + 2]
        return self.arrays[name][start:end].tobytes().decode()


def training_phrases(prepared: Prepared) -> tuple[str, ...]:
    """The phrases that occur in training, in the order of their numbers (candidate_type).

    In anonym: their tokens @entity0, @entity1 and so on. Each passage numbers its entities from 0,
    so @entity5 never occurs before @entity0 to @entity4 have occurred, and its candidate_type is 5.
    """
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
