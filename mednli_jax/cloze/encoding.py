"""Encodes cloze queries as arrays, in one set-up; `corpora.cache` keeps them on disk.

A passage is stored once for all its queries. Passages have very different lengths (CliCR's have 100 to 6,000 tokens)
and about nine queries each. The arrays are therefore flat, with offsets; none has the shape queries x tokens. The
part of passage a is field[field_start[a] : field_start[a + 1]]. Rows are the queries of all splits in turn.

  passage [P] int32                     tokens
  candidate_type [C] int32              the phrase's number among all phrases (of its tokens, in the set-up anonym);
                                        those below manifest["candidates"]["types_of_train"] occur in training
  candidate_length [C] int32            words of the phrase; starts as candidate_type's
  position, position_candidate [S]      int32: tokens within the marks, by place in the passage, and the number of their
                                        candidate within the passage, ascending; starts: position_start
  loose_position, ..._candidate [L]     int32: the same for all tokens that are a word of a candidate, as the published
                                        readers score unmarked passages; noent only; starts: loose_position_start
  query [N, Q], query_length [N] int32  tokens, 0 = padding
  blank, query_passage, gold [N] int32  place of the placeholder; the passage; the right candidate's number in it, or -1
  label, premise_length, hypothesis_length [N] int32: gold, tokens of the passage and of the query, under the names by
                                        which the cache knows what every corpus has
  candidate_text, answer_text uint8     see Texts

Dimension letters: N queries, A passages, P tokens, C candidates, S, L positions, Q tokens of a query, V words.
"""

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mednli_jax.cloze.views import ENTITY, all_views, how_answerable, loose_positions, phrase_of
from mednli_jax.data.arrays import Prepared, Rows, pad
from mednli_jax.data.examples import Answer, Split
from mednli_jax.data.text import SPECIALS, UNK, Vocab
from mednli_jax.data.vectors import RANDOM_SD, coverage, load_vectors, random_vectors
from mednli_jax.errors import DataError
from mednli_jax.io import Watch, unwatched

FORMAT = 2  # of the arrays, from the corpus's files on; tests/corpora/test_prepared_content.py says when to raise it
_INTS = (
    *("passage", "candidate_type", "candidate_length", "position", "position_candidate"),
    *("query_tokens", "query_length", "blank", "query_passage", "gold"),
)
_LOOSE = ("loose_position", "loose_position_candidate")
_TEXTS = ("candidate_text", "answer_text")
_STARTED = ("passage", "candidate_type", "position", "loose_position", *_TEXTS)
BEGIN, END = "@begin", "@end"
_AT_A_TIME = 50_000  # random vectors: their making takes eight times the memory of the result


@dataclass(frozen=True)
class ClozeEncoding:
    """How queries become arrays. Every field is part of the prepared folder's key.

    setup: one of views.SETUPS. max_passage: tokens kept of a passage, from its head. max_words: the most frequent words
    of training that are kept. 0 = all. query_bounds: whether queries stand between BEGIN and END. vectors_path: None =
    random. vectors_sd: standard deviation of random numbers.
    """

    setup: str
    max_passage: int = 0
    max_words: int = 0
    query_bounds: bool = False
    vectors_path: Path | None = None
    vectors_dim: int = 200
    vectors_seed: int = 0
    vectors_sd: float = RANDOM_SD


def encode_cloze(splits: Mapping[str, Split], encoding: ClozeEncoding) -> tuple:
    """(splits as encoded, arrays, vocabulary, vectors [V, D], facts) of a corpus."""
    flat, kept, facts = _Flat(encoding), {}, {}
    with Watch(sum(map(len, splits.values()))) as watch:
        for name in sorted(splits, key=lambda name: name != "train"):
            kept[name], facts[name] = flat.add(splits[name], watch, answerable_only=name == "train")
            if name == "train":
                train_sizes = flat.sizes()
    if not len(kept["train"]):
        problem = "no training query has its answer among the marked phrases of its passage"
        raise DataError(problem, fix="check that the passages are marked, or keep more tokens of them")
    arrays = flat.arrays()
    words = _Words(flat, arrays, train_sizes, encoding)
    vocab, matrix = words.vocabulary()
    _number(arrays, words.numbers)
    for rows in facts.values():
        rows |= _counts(rows, arrays, train_sizes["types"])
    types = {"types": len(flat.types), "types_of_train": train_sizes["types"]}
    facts = {"setup": encoding.setup, "splits": facts, "vocabulary": words.facts, "candidates": types}
    return kept, arrays, vocab, matrix, facts


def encode_new(
    splits: Mapping[str, Split], vocab: Vocab, encoding: ClozeEncoding, types: Sequence[str]
) -> tuple[dict, dict]:
    """(arrays, facts) of queries of no prepared corpus, in the vocabulary of a run; all queries, answerable or not.

    types: names of the phrases of training, see types_of_train; other phrases are numbered behind them.
    """
    flat = _Flat(encoding, types)
    facts = {name: flat.add(split, unwatched, answerable_only=False)[1] for name, split in splits.items()}
    arrays = flat.arrays()
    numbers = np.array(vocab.encode(flat.number_of), np.int32)
    _number(arrays, np.maximum(numbers, UNK))  # a word that reads like the padding is none
    cut = sum(of_split["truncated"]["passages"] for of_split in facts.values())
    unknown = {side: int((arrays[side] == UNK).sum()) for side in ("passage", "query")}
    return arrays, {"splits": facts, "unknown_tokens": unknown, "truncated": {"passage": cut}}


def _number(arrays, numbers) -> None:
    """Puts words' numbers in the vocabulary in the place of those of the flat lists, and pads the queries."""
    arrays["passage"], queries = numbers[arrays["passage"]], numbers[arrays.pop("query_tokens")]
    cuts = np.cumsum(arrays["query_length"])[:-1]
    arrays["query"], _ = pad(np.split(queries, cuts), int(arrays["query_length"].max()))
    lengths = np.diff(arrays["passage_start"]).astype(np.int32)
    arrays["premise_length"], arrays["hypothesis_length"] = lengths[arrays["query_passage"]], arrays["query_length"]
    arrays["label"] = arrays["gold"]


class _Flat:
    """Flat lists of what splits hold, in numbers of its own: tokens by first occurrence, phrases behind `types`."""

    def __init__(self, encoding, types=()):
        self.encoding, self._passages = encoding, {}
        self.types = {name: number for number, name in enumerate(types)}
        self.number_of = defaultdict()
        self.number_of.default_factory = self.number_of.__len__
        self._ints = {name: array("i") for name in (*_INTS, *(_LOOSE if encoding.setup == "noent" else ()))}
        self._starts = {name: array("q", [0]) for name in _STARTED if name in self._ints or name in _TEXTS}
        self._texts = {name: bytearray() for name in _TEXTS}

    def add(self, split: Split, watch, answerable_only: bool) -> tuple[Split, dict]:
        """(the split as it was taken, its facts)."""
        encoding, examples, answers = self.encoding, [], Counter(exact=0, synonym=0, none=0)
        lost, first_passage = Counter(passages=0, tokens=0, answers=0), len(self._passages)
        facts = {**split.facts, "first": len(self._ints["gold"]), "first_passage": first_passage}
        shared = all_views(watch(split.examples, "queries"), encoding.setup, max_tokens=encoding.max_passage)
        for example, passage, view in shared:
            answers[how_answerable(example, passage.number_of)] += 1
            if view.gold < 0 and any(phrase_of(answer.text) in passage.cut for answer in example.answers):
                lost["answers"] += 1
            if view.gold < 0 and answerable_only:
                continue
            if id(example.passage) not in self._passages:
                lost.update(passages=int(passage.dropped > 0), tokens=passage.dropped)
                self._add_passage(example.passage, passage)
            self._add_query(example, view)
            examples.append(example)
        facts |= {"rows": len(examples), "passages": len(self._passages) - first_passage}
        facts |= {"answerable": dict(answers), "truncated": dict(lost)}
        return replace(split, examples=tuple(examples)), facts

    def _add_passage(self, passage, view):
        self._passages[id(passage)] = len(self._passages)
        self._ints["passage"].extend(map(self.number_of.__getitem__, view.tokens))
        for phrase in view.candidates:
            type_ = view.names[phrase] if self.encoding.setup == "anonym" else phrase
            self._ints["candidate_type"].append(self.types.setdefault(type_, len(self.types)))
            self._ints["candidate_length"].append(phrase.count(" ") + 1)
        self._add_positions("position", view.positions)
        if self.encoding.setup == "noent":
            self._add_positions("loose_position", loose_positions(view.tokens, view.candidates))
        self._texts["candidate_text"] += "\n".join(view.candidates).encode()
        for name, starts in self._starts.items():
            if name != "answer_text":
                starts.append(len(self._texts[name] if name in _TEXTS else self._ints[name]))

    def _add_positions(self, name, positions):
        for number, spans in enumerate(positions):
            places = [place for start, end in spans for place in range(start, end)]
            self._ints[name].extend(places)
            self._ints[f"{name}_candidate"].extend([number] * len(places))

    def _add_query(self, example, view):
        query, blank = view.query, view.blank
        if self.encoding.query_bounds:
            query, blank = (BEGIN, *query, END), blank + 1
        self._ints["query_tokens"].extend(map(self.number_of.__getitem__, query))
        numbers = (len(query), blank, self._passages[id(example.passage)], view.gold)
        for name, number in zip(("query_length", "blank", "query_passage", "gold"), numbers, strict=True):
            self._ints[name].append(number)
        answers = [[a.text, a.concept, a.semantic_type, a.origin] for a in example.answers]
        self._texts["answer_text"] += json.dumps(answers, ensure_ascii=False).encode()
        self._starts["answer_text"].append(len(self._texts["answer_text"]))

    def sizes(self) -> dict[str, int]:
        """How much there is by now."""
        return {"types": len(self.types), **{name: len(values) for name, values in self._ints.items()}}

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {name: np.array(values, np.int32) for name, values in self._ints.items()}
        arrays |= {f"{name}_start": np.array(values, np.int64) for name, values in self._starts.items()}
        return arrays | {name: np.array(text, np.uint8) for name, text in self._texts.items()}


class _Words:
    """The vocabulary of a corpus: words of training, and of other splits those that have a pretrained vector.

    numbers: of each word of the flat lists, its number in the vocabulary. facts: counts of words.
    """

    def __init__(self, flat, arrays, train_sizes, encoding):
        self._words, self._encoding = list(flat.number_of), encoding
        names = ("passage", "query_tokens")
        counts = self._count([arrays[name] for name in names])
        of_train = self._count([arrays[name][: train_sizes[name]] for name in names])
        train = self._sorted(of_train, of_train > 0)
        self._places = train[: encoding.max_words or None]
        self._train, self._counts = len(self._places), counts
        self.facts = {"of_train": self._train, "cut": len(train) - self._train}
        if encoding.vectors_path is not None:
            self._places += self._sorted(counts, of_train == 0)

    def _count(self, parts):
        return sum(np.bincount(part, minlength=len(self._words)) for part in parts)

    def _sorted(self, counts, chosen):
        """Places of the chosen words, the most frequent first, equally frequent ones by code point."""
        places = [place for place in np.flatnonzero(chosen).tolist() if self._words[place] not in SPECIALS]
        return sorted(places, key=lambda place: (-counts[place], self._words[place]))

    def vocabulary(self) -> tuple[Vocab, np.ndarray]:
        """(vocabulary, vectors [V, D]); words of training without a vector get a random one, like unseen words of
        pretrained files in the published readers."""
        all_words = [self._words[place] for place in self._places]
        rows, matrix = list(range(len(all_words))), None
        known = frozenset()
        if self._encoding.vectors_path is not None:
            vectors = self._load(all_words)
            known = frozenset(vectors.words)
            rows = [row for row in rows if row < self._train or all_words[row] in known]
            matrix = vectors.matrix[[0, 1, *(row + 2 for row in rows)]]
        vocab = Vocab(SPECIALS + tuple(all_words[row] for row in rows))
        if matrix is None:
            matrix = np.zeros((len(vocab), self._encoding.vectors_dim), np.float32)
            self._draw(matrix, SPECIALS, [UNK])
        self._draw(matrix, vocab.words, [row for row in range(2, len(vocab)) if vocab.words[row] not in known])
        self.numbers = np.full(len(self._words), UNK, np.int32)
        self.numbers[[self._places[row] for row in rows]] = np.arange(2, len(vocab))
        self.facts |= {"words": len(rows), "of_other_splits": len(rows) - self._train, "with_vector": len(known)}
        return vocab, matrix

    def _load(self, all_words):
        settings = {"dim": self._encoding.vectors_dim, "seed": self._encoding.vectors_seed}
        vectors = load_vectors(self._encoding.vectors_path, (*SPECIALS, *all_words), **settings)
        counts = {word: int(count) for word, count in zip(self._words, self._counts, strict=True)}
        self.facts |= {"source": vectors.source, "sha256": vectors.sha256, "coverage": coverage(vectors, counts)}
        return vectors

    def _draw(self, matrix, words, rows):
        """Fills some rows of the vectors with the random vectors of their words, few at a time."""
        encoding = self._encoding
        settings = {"dim": encoding.vectors_dim, "seed": encoding.vectors_seed, "sd": encoding.vectors_sd}
        for start in range(0, len(rows), _AT_A_TIME):
            part = rows[start : start + _AT_A_TIME]
            matrix[part] = random_vectors([words[row] for row in part], **settings)


def _counts(rows, arrays, types_of_train):
    """Facts of one split that need its arrays: unknown tokens, and right answers that training never showed."""
    passages = slice(rows["first_passage"], rows["first_passage"] + rows["passages"])
    queries = slice(rows["first"], rows["first"] + rows["rows"])
    start, end = arrays["passage_start"][[passages.start, passages.stop]]
    candidates = np.diff(arrays["candidate_type_start"])[passages]
    gold, of_passage = arrays["gold"][queries], arrays["query_passage"][queries]
    right = arrays["candidate_type_start"][of_passage[gold >= 0]] + gold[gold >= 0]
    return {
        "tokens": {"passage": int(end - start), "query": int(arrays["query_length"][queries].sum())},
        "unknown_tokens": {
            "passage": int((arrays["passage"][start:end] == UNK).sum()),
            "query": int((arrays["query"][queries] == UNK).sum()),
        },
        "candidates": int(candidates.sum()),
        "answers_of_unseen_type": int((arrays["candidate_type"][right] >= types_of_train).sum()),
    }


# -- the strings of the arrays ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """A query as `answers` reads it: accepted answers, the dataset's first, and tags."""

    uid: str
    answers: tuple[Answer, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Texts:
    """The strings that belong to a prepared corpus's arrays: the candidates' phrases and the accepted answers."""

    arrays: Mapping[str, np.ndarray]

    def candidates(self, passage: int) -> tuple[str, ...]:
        """The candidates of a passage in the order of their numbers."""
        text = self._piece("candidate_text", passage)
        return tuple(text.split("\n")) if text else ()

    def answers(self, row: int) -> tuple[Answer, ...]:
        """All answers of a query, the dataset's first."""
        return tuple(Answer(*fields) for fields in json.loads(self._piece("answer_text", row)))

    def queries(self, rows: Rows) -> list[Query]:
        """The queries of a split as `answers` reads them."""
        return [
            Query(uid, self.answers(rows.first + row), tags)
            for row, (uid, tags) in enumerate(zip(rows.uids, rows.tags, strict=True))
        ]

    def _piece(self, name, number):
        start, end = self.arrays[f"{name}_start"][number : number + 2]
        return self.arrays[name][start:end].tobytes().decode()


def types_of_train(prepared: Prepared) -> tuple[str, ...]:
    """The names of the phrases that occur in training, in the order of their numbers: their words, or in the set-up
    anonym their tokens."""
    arrays, manifest = prepared.arrays, prepared.manifest
    count, rows = manifest["candidates"]["types_of_train"], manifest["splits"]["train"]
    if manifest["setup"] == "anonym":
        return tuple(f"{ENTITY}{number}" for number in range(count))
    texts, names = Texts(arrays), [""] * count
    for passage in range(rows["first_passage"], rows["first_passage"] + rows["passages"]):
        start, end = arrays["candidate_type_start"][passage : passage + 2]
        for number, phrase in zip(arrays["candidate_type"][start:end], texts.candidates(passage), strict=True):
            names[number] = phrase
    return tuple(names)
