"""Encodes cloze queries as arrays, in one set-up; data/cache.py keeps them on disk.

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
      see Texts

Dimension letters: N queries, A passages, P tokens, C candidates, S, L positions, Q tokens of a
query, V words.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mednli_jax import demo
from mednli_jax.cloze import clicr
from mednli_jax.data.arrays import Prepared, Rows, rows_of_splits
from mednli_jax.data.cache import Cache
from mednli_jax.data.corpus import cache_folder, required_folder, warn_of_exposure
from mednli_jax.data.examples import PLACEHOLDER, Answer, ClozeExample, Entity, Passage, Split
from mednli_jax.data.text import SPECIALS, UNK, Vocab
from mednli_jax.data.vector_formats import vector_files
from mednli_jax.data.vectors import (
    RANDOM_SD,
    coverage,
    load_vectors,
    random_vectors,
    training_coverage,
)
from mednli_jax.errors import ConfigError, DataError, UsageError
from mednli_jax.files import local_path, variable_path
from mednli_jax.terminal import watched

# -- set-ups ---------------------------------------------------------------------------------------

SETUPS = ("ent", "anonym", "noent")
ENTITY = "@entity"
SEEN, UNSEEN = "seen", "unseen"
Span = tuple[int, int]
Facts = dict[str, Any]  # JSON values of a manifest


class _EntityNames(dict[str, str]):
    """phrase -> its token: the phrase's words in one (ent), or a number by first occurrence
    (anonym)."""

    def __init__(self, setup: str, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self.setup = setup

    def __missing__(self, phrase: str) -> str:
        name = phrase.replace(" ", "_") if self.setup == "ent" else str(len(self))
        self[phrase] = ENTITY + name
        return self[phrase]


@dataclass(frozen=True, slots=True)
class PassageView:
    """A passage in one set-up, the same for all its queries.

    tokens: lower-cased. candidates: distinct marked phrases by first occurrence, single spaces
    between words. positions: the (start, end)s in `tokens` of each. number_of: candidate -> its
    place. names: phrase -> its token (ent, anonym). dropped: number of tokens that were cut. cut:
    candidates that occur among these alone.
    """

    tokens: tuple[str, ...]
    candidates: tuple[str, ...]
    positions: tuple[tuple[Span, ...], ...]
    number_of: Mapping[str, int]
    names: Mapping[str, str]
    cut: frozenset[str]
    dropped: int


@dataclass(frozen=True, slots=True)
class QueryView:
    """A query and its passage in one set-up.

    query: lower-cased tokens, query[blank] is PLACEHOLDER. gold, answerable: see RightCandidate.
    names: phrase -> its token, of passage, query and answer (ent, anonym).
    """

    passage: PassageView
    query: tuple[str, ...]
    blank: int
    gold: int
    answerable: str
    names: Mapping[str, str]


class RightCandidate(NamedTuple):
    """number: its place among the candidates, -1 = none. kind: "exact" (the dataset's own answer),
    "synonym" or "none"."""

    number: int
    kind: str


def phrase_of(text: str) -> str:
    """The form in which candidates and answers are compared: lower-cased words between single
    spaces."""
    return " ".join(text.lower().split())


def right_candidate(example: ClozeExample, number_of: Mapping[str, int]) -> RightCandidate:
    """The candidate that is an answer; the dataset's own answer comes before its synonyms."""
    kind = "exact"
    for answer in example.answers:
        phrase = phrase_of(answer.text)
        if phrase in number_of:
            return RightCandidate(number_of[phrase], kind)
        kind = "synonym"
    return RightCandidate(-1, "none")


def passage_view(passage: Passage, setup: str, *, max_tokens: int = 0) -> PassageView:
    """max_tokens: number of tokens that are kept, 0 = all; a phrase that is cut is no longer
    marked."""
    words = list(map(str.lower, passage.tokens))
    names = _EntityNames(setup, {})
    spans: dict[str, list[Span]] = defaultdict(list)
    if setup == "noent":
        for entity in passage.entities:
            phrase = " ".join(words[entity.start : entity.end])
            spans[phrase].append((entity.start, entity.end))
    else:
        words, marked = merged(words, passage.entities, names.__getitem__)
        for phrase, place in marked:
            spans[phrase].append((place, place + 1))
    length = max_tokens or len(words)
    positions = {}
    for phrase, spans_of_phrase in spans.items():
        whole_spans = [span for span in spans_of_phrase if span[1] <= length]
        if whole_spans:
            positions[phrase] = tuple(whole_spans)
    return PassageView(
        tokens=tuple(words[:length]),
        candidates=tuple(positions),
        positions=tuple(positions.values()),
        number_of={phrase: number for number, phrase in enumerate(positions)},
        names=names,
        cut=frozenset(spans.keys() - positions.keys()),
        dropped=max(len(words) - length, 0),
    )


def query_view(example: ClozeExample, setup: str, passage: PassageView | None = None) -> QueryView:
    """A query in one set-up. passage: the view of its passage, None = of the whole passage."""
    passage = passage or passage_view(example.passage, setup)
    words = list(map(str.lower, example.query))
    blank = example.blank
    names = _EntityNames(setup, passage.names)
    if setup != "noent":
        for entity in example.query_entities:
            if entity.end <= example.blank:
                blank -= entity.end - entity.start - 1
        words, _ = merged(words, example.query_entities, names.__getitem__)
        names[phrase_of(example.answers[0].text)]  # gives the answer a name, too
    words[blank] = PLACEHOLDER
    right = right_candidate(example, passage.number_of)
    return QueryView(passage, tuple(words), blank, right.number, right.kind, names)


def all_views(
    examples: Iterable[ClozeExample], setup: str, *, max_tokens: int = 0
) -> Iterator[tuple[ClozeExample, QueryView]]:
    """Each example with its view; neighbours with the same passage share its view."""
    last_passage = None
    for example in examples:
        if example.passage is not last_passage:
            last_passage = example.passage
            shared_view = passage_view(example.passage, setup, max_tokens=max_tokens)
        yield example, query_view(example, setup, shared_view)


def loose_positions(tokens: Sequence[str], phrases: Sequence[str]) -> list[tuple[Span, ...]]:
    """Every token that is a word of a candidate, wherever it stands, as one-token spans.

    The published readers score unmarked passages like this. The masses of a passage may then sum to
    more than 1, and long candidates gain.
    """
    places_of_word = defaultdict(list)
    for place, token in enumerate(tokens):
        places_of_word[token].append(place)
    positions = []
    for phrase in phrases:
        places: set[int] = set()
        for word in phrase.split():
            places.update(places_of_word[word])
        positions.append(tuple((place, place + 1) for place in sorted(places)))
    return positions


def with_titles(split: Split[ClozeExample]) -> Split[ClozeExample]:
    """Makes each title the first sentence of its passage, as CliCR's published readers do."""
    examples = []
    for passage, queries in clicr.by_passage(split.examples):
        longer = _with_title(passage)
        examples += [replace(query, passage=longer) for query in queries]
    facts = {**split.facts, "titles_in_passages": True}
    return replace(split, examples=tuple(examples), facts=facts)


def _with_title(passage: Passage) -> Passage:
    shift = len(passage.title)
    if not shift:
        return passage
    moved = [Entity(entity.start + shift, entity.end + shift) for entity in passage.entities]
    ends = [end + shift for end in passage.sentences]
    return replace(
        passage,
        title=(),
        title_entities=(),
        tokens=passage.title + passage.tokens,
        entities=(*passage.title_entities, *moved),
        sentences=(shift, *ends),
    )


def tag_seen(splits: Mapping[str, Split[ClozeExample]]) -> dict[str, Split[ClozeExample]]:
    """Tags the queries of dev and test "seen" if a training query has their answer, else
    "unseen"."""
    answers_of_train = {phrase_of(query.answers[0].text) for query in splits["train"].examples}
    tagged = dict(splits)
    for name in splits.keys() - {"train"}:
        split = splits[name]
        counts = {SEEN: 0, UNSEEN: 0}
        examples = []
        for query in split.examples:
            tag = SEEN if phrase_of(query.answers[0].text) in answers_of_train else UNSEEN
            counts[tag] += 1
            examples.append(replace(query, tags=(*query.tags, tag)))
        facts = {**split.facts, "answers_of_train": counts}
        tagged[name] = replace(split, examples=tuple(examples), facts=facts)
    return tagged


class Merged(NamedTuple):
    """words: with each entity as one token. phrases: (phrase, place of that token) of each."""

    words: list[str]
    phrases: list[tuple[str, int]]


def merged(
    words: Sequence[str], entities: Iterable[Entity], name_of: Callable[[str], str]
) -> Merged:
    """Puts one token in the place of the words of each entity. name_of: phrase -> its token."""
    shorter: list[str] = []
    phrases = []
    end = 0
    for entity in entities:
        shorter += words[end : entity.start]
        phrase = " ".join(words[entity.start : entity.end])
        phrases.append((phrase, len(shorter)))
        shorter.append(name_of(phrase))
        end = entity.end
    shorter += words[end:]
    return Merged(shorter, phrases)


# -- arrays ----------------------------------------------------------------------------------------


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
    facts: Facts


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
) -> tuple[dict[str, np.ndarray], Facts]:
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


def _array_counts(arrays: Mapping[str, np.ndarray], facts: Facts, types_of_train: int) -> Facts:
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
    facts: Facts


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
        queries = watched(split.examples, "queries")
        examples = []
        for example, view in all_views(queries, encoding.setup, max_tokens=encoding.max_passage):
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

    def _add_passage(self, view: PassageView) -> None:
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

    def _add_query(self, example: ClozeExample, view: QueryView) -> None:
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
    facts: Facts


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
    facts: Facts = {"of_train": len(words) - len(SPECIALS), "cut": len(train_words) - len(words)}
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
class Texts:
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
    texts = Texts(prepared.arrays)
    phrase_of_type: dict[int, str] = {}
    for passage in range(facts["first_passage"], facts["first_passage"] + facts["passages"]):
        numbers = types[start[passage] : start[passage + 1]].tolist()
        phrase_of_type.update(zip(numbers, texts.candidates(passage), strict=True))
    return tuple(phrase_of_type[number] for number in range(count))


# -- a corpus --------------------------------------------------------------------------------------


DEMO, CLICR, FILE = NAMES = ("demo_cloze", "clicr", "file")


@dataclass(frozen=True, eq=False)
class ClozeCorpus:
    """A corpus of cloze queries (see data.corpus.Corpus).

    name: demo_cloze; clicr, whose passages begin with their titles; or file, a folder in CliCR's
    layout, whose passages are the contexts alone. folder: of the files. limit: first queries of
    train.
    """

    name: str
    encoding: ClozeEncoding
    folder: Path | None = None
    limit: int | None = None

    @property
    def title(self) -> str:
        return self.name

    def splits(self) -> Mapping[str, Split[ClozeExample]]:
        """Train, dev and test, the queries of dev and test tagged seen or unseen."""
        if self.name == DEMO:
            splits = clicr.load_demo_cloze()
            train = splits["train"]
            splits["train"] = replace(train, examples=train.examples[: self.limit])
            return tag_seen(splits)
        is_clicr = self.name == CLICR
        folder = required_folder(self.name, self.folder)
        splits = clicr.load(folder, limit=self.limit, titles=is_clicr)
        if is_clicr:
            warn_of_exposure(self.folder, clicr.LICENSED)
            splits = {name: with_titles(split) for name, split in splits.items()}
        return tag_seen(splits)

    def read_vocabulary(self, path: Path) -> Vocab:
        vocab: Vocab = Vocab.load(path)
        return vocab

    def encoded(
        self,
        splits: Mapping[str, Split[ClozeExample]],
        vocabulary: Vocab,
        vectors: np.ndarray,
        types: Sequence[str] | None = None,
    ) -> Prepared:
        """See data.corpus.Corpus. types: the phrases that have an output in the model."""
        arrays, facts = encode_new(splits, vocabulary, self.encoding, types or ())
        return Prepared(None, facts, arrays, vectors, rows_of_splits(splits, arrays, facts))

    def prepare(self) -> tuple[Prepared, bool]:
        """See data.corpus.Corpus. Training queries without a right candidate are left out; dev and
        test keep them."""
        cache = Cache(cache_folder())
        prepared, was_cached = cache.get(
            self.name, self.key(cache), lambda: encode_cloze(self.splits(), self.encoding)
        )
        if self.name == CLICR:
            warn_of_exposure(self.folder, clicr.LICENSED)
        return prepared, was_cached

    def key(self, cache: Cache) -> Facts:
        """Everything that shapes the arrays, as JSON: settings, and sources by content."""
        path = self.encoding.vectors_path
        return {
            "corpus": self.name,
            "limit": self.limit or 0,
            "format": FORMAT,
            **asdict(self.encoding),
            "vectors_path": path and str(path),
            "sources": cache.digests(self.source_files()),
        }

    def source_files(self) -> list[Path]:
        """All files whose content shapes the arrays."""
        if self.name == DEMO:
            files = demo.demo_files("cloze")
        else:
            files = list(clicr.source_files(required_folder(self.name, self.folder)).values())
        path = self.encoding.vectors_path
        vectors = vector_files(path) if path else []
        for file in vectors:
            if not file.is_file():
                random = "an empty config.vectors.path for random vectors"
                fix = f"check the path, or give {random}; exact match will be lower"
                raise ConfigError(f"{file}: there is no such file", fix=fix)
        return [*files, *vectors]


def corpus_named(name: str) -> Mapping[str, Split[ClozeExample]]:
    """The splits of demo_cloze, clicr (in $MEDNLI_JAX_DATA/clicr), or a folder in its layout."""
    encoding = ClozeEncoding("ent")  # the examples do not depend on it
    if name == DEMO:
        return ClozeCorpus(DEMO, encoding).splits()
    folder = variable_path("MEDNLI_JAX_DATA") if name == CLICR else local_path(name, "the corpus")
    if folder is None:
        fix = "set it, or give a folder"
        raise UsageError(f"{CLICR}: $MEDNLI_JAX_DATA is not set", fix=fix)
    if not folder.is_dir():
        fix = f"give {DEMO}, {CLICR}, or a FOLDER like it"
        raise UsageError(f"{folder}: is no folder", fix=fix)
    return ClozeCorpus(CLICR if name == CLICR else FILE, encoding, folder).splits()


def notes_of(splits: Mapping[str, Split[ClozeExample]]) -> list[str]:
    """The remarks of the splits, each once."""
    notes = {split.facts["note"] for split in splits.values() if "note" in split.facts}
    return sorted(notes)


OfSplit = TypeVar("OfSplit")


def split_of(splits: Mapping[str, OfSplit], name: str) -> OfSplit:
    """A split by name. Raises UsageError for one that the corpus has not."""
    if name not in splits:
        raise UsageError(f"--split={name}: no such split", fix=f"give one of {', '.join(splits)}")
    return splits[name]
