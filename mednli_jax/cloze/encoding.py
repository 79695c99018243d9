"""Encodes cloze queries as arrays, in one set-up; data/cache.py keeps them on disk.

A passage is stored once for all its queries. Passages have very different lengths (CliCR's have 100
to 6,000 tokens), so the arrays are flat, with offsets: the part of passage a is
field[field_start[a] : field_start[a + 1]]. Rows are the queries of all splits in turn.

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

Dimension letters: N queries, A passages, P tokens, C candidates, S, L positions, Q tokens of a
query, V words.
"""

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax import demo
from mednli_jax.cloze import clicr
from mednli_jax.data.arrays import Prepared, Rows, pad, rows_of_splits
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

# -- set-ups -----------------------------------------------------------------------------------------------------------

SETUPS = ("ent", "anonym", "noent")
ENTITY = "@entity"
SEEN, UNSEEN = "seen", "unseen"
Spans = tuple[tuple[int, int], ...]


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
    positions: tuple[Spans, ...]
    number_of: Mapping[str, int]
    names: Mapping[str, str]
    cut: frozenset[str] = frozenset()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """A query and its passage in one set-up.

    query: lower-cased tokens, query[blank] is PLACEHOLDER. gold, answerable: see right_candidate.
    names: phrase -> its token, of passage, query and answer (ent, anonym).
    """

    passage: PassageView
    query: tuple[str, ...]
    blank: int
    gold: int
    answerable: str
    names: Mapping[str, str]


def phrase_of(text: str) -> str:
    """The form in which candidates and answers are compared: lower-cased words between single
    spaces."""
    return " ".join(text.lower().split())


def right_candidate(example: ClozeExample, number_of: Mapping[str, int]) -> tuple[int, str]:
    """The place of the right candidate, or -1, and the kind of answer: "exact" (the dataset's own,
    which comes before its synonyms), "synonym" or "none"."""
    for number, answer in enumerate(example.answers):
        if (place := number_of.get(phrase_of(answer.text))) is not None:
            return place, "synonym" if number else "exact"
    return -1, "none"


def passage_view(passage: Passage, setup: str, *, max_tokens: int = 0) -> PassageView:
    """max_tokens: number of tokens that are kept, 0 = all; a phrase that is cut is no longer
    marked."""
    words, names, spans = [token.lower() for token in passage.tokens], {}, defaultdict(list)
    if setup == "noent":
        for entity in passage.entities:
            spans[" ".join(words[entity.start : entity.end])].append((entity.start, entity.end))
    else:
        words, phrases = merged(words, passage.entities, partial(_name, setup, names))
        for phrase, place in phrases:
            spans[phrase].append((place, place + 1))
    cut, dropped = frozenset(), 0
    if 0 < max_tokens < len(words):
        dropped, words = len(words) - max_tokens, words[:max_tokens]
        kept = {
            phrase: [span for span in found if span[1] <= max_tokens]
            for phrase, found in spans.items()
        }
        spans = {phrase: found for phrase, found in kept.items() if found}
        cut = frozenset(kept.keys() - spans.keys())
    number_of = {phrase: number for number, phrase in enumerate(spans)}
    return PassageView(
        tuple(words),
        tuple(spans),
        tuple(map(tuple, spans.values())),
        number_of,
        names,
        cut,
        dropped,
    )


def views(
    example: ClozeExample, setup: str, *, max_tokens: int = 0, passage: PassageView | None = None
) -> View:
    """A query in one set-up. passage: the view of its passage, if the caller has it."""
    passage = passage or passage_view(example.passage, setup, max_tokens=max_tokens)
    words, blank, names = [token.lower() for token in example.query], example.blank, {}
    if setup != "noent":
        names = dict(passage.names)
        blank -= sum(e.end - e.start - 1 for e in example.query_entities if e.end <= blank)
        words, _ = merged(words, example.query_entities, partial(_name, setup, names))
        _name(setup, names, phrase_of(example.answers[0].text))
    words[blank] = PLACEHOLDER
    return View(passage, tuple(words), blank, *right_candidate(example, passage.number_of), names)


def all_views(
    examples: Iterable[ClozeExample], setup: str, *, max_tokens: int = 0
) -> Iterator[tuple[ClozeExample, View]]:
    """Each example with its view; neighbours with the same passage share the view of that."""
    last, shared = None, None
    for example in examples:
        if example.passage is not last:
            last = example.passage
            shared = passage_view(last, setup, max_tokens=max_tokens)
        yield example, views(example, setup, passage=shared)


def loose_positions(tokens: Sequence[str], phrases: Sequence[str]) -> tuple[Spans, ...]:
    """Every token that is a word of a candidate, wherever it stands, as one-token spans.

    The published readers score unmarked passages like this. The masses of a passage may then sum to
    more than 1, and long candidates gain.
    """
    places = defaultdict(list)
    for place, token in enumerate(tokens):
        places[token].append(place)
    found = ({place for word in phrase.split() for place in places[word]} for phrase in phrases)
    return tuple(tuple((place, place + 1) for place in sorted(of_phrase)) for of_phrase in found)


def with_titles(split: Split) -> Split:
    """The split with each title as the first sentence of its passage, as CliCR's published readers
    have it."""
    joined = {}
    for passage in {id(example.passage): example.passage for example in split.examples}.values():
        joined[id(passage)] = passage
        if shift := len(passage.title):
            moved = (
                Entity(entity.start + shift, entity.end + shift) for entity in passage.entities
            )
            joined[id(passage)] = replace(
                passage,
                title=(),
                title_entities=(),
                tokens=passage.title + passage.tokens,
                entities=(*passage.title_entities, *moved),
                sentences=(shift, *(end + shift for end in passage.sentences)),
            )
    examples = tuple(
        replace(example, passage=joined[id(example.passage)]) for example in split.examples
    )
    return replace(split, examples=examples, facts={**split.facts, "titles_in_passages": True})


def tag_seen(splits: Mapping[str, Split]) -> dict[str, Split]:
    """The splits, with dev and test queries tagged "seen" (their answer is that of a training
    query) or "unseen"."""
    seen = {phrase_of(example.answers[0].text) for example in splits["train"].examples}
    tagged = dict(splits)
    for name in splits.keys() - {"train"}:
        examples, tags = splits[name].examples, []
        for example in examples:
            tags.append(SEEN if phrase_of(example.answers[0].text) in seen else UNSEEN)
        with_tag = (replace(e, tags=(*e.tags, tag)) for e, tag in zip(examples, tags, strict=True))
        facts = {
            **splits[name].facts,
            "answers_of_train": {tag: tags.count(tag) for tag in (SEEN, UNSEEN)},
        }
        tagged[name] = replace(splits[name], examples=tuple(with_tag), facts=facts)
    return tagged


def merged(
    words: list[str], entities: Iterable[Entity], name_of: Callable
) -> tuple[list[str], list]:
    """(words with each entity as one token, (phrase, place of that token) of each). name_of: phrase
    -> its token."""
    found, phrases, end = [], [], 0
    for entity in entities:
        found += words[end : entity.start]
        phrase = " ".join(words[entity.start : entity.end])
        phrases.append((phrase, len(found)))
        found.append(name_of(phrase))
        end = entity.end
    return found + words[end:], phrases


def _name(setup, names, phrase):
    """The token of a phrase: its words in one (ent), or a number by first occurrence (anonym)."""
    return names.setdefault(
        phrase, ENTITY + (phrase.replace(" ", "_") if setup == "ent" else str(len(names)))
    )


# -- arrays ------------------------------------------------------------------------------------------------------------


FORMAT = 3  # when to raise it: tests/data/test_prepared_content.py
_INTS = (
    *("passage", "candidate_type", "candidate_length", "position", "position_candidate"),
    *("query_tokens", "query_length", "blank", "query_passage", "gold"),
)
_LOOSE = ("loose_position", "loose_position_candidate")
_TEXTS = ("candidate_text", "answer_text")
_STARTED = ("passage", "candidate_type", "position", "loose_position", *_TEXTS)
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


def encode_cloze(splits: Mapping[str, Split], encoding: ClozeEncoding) -> tuple:
    """(splits as encoded, arrays, vocabulary, vectors [V, D], facts) of a corpus."""
    flat, kept, facts = _Flat(encoding), {}, {}
    for name in sorted(splits, key=lambda name: name != "train"):
        kept[name], facts[name] = flat.add(splits[name], answerable_only=name == "train")
        if name == "train":
            train_types, train_sizes = (
                len(flat.types),
                {name: len(values) for name, values in flat.ints.items()},
            )
    if not len(kept["train"]):
        problem = "no training query has its answer among the marked phrases of its passage"
        raise DataError(
            problem, fix="check that the passages are marked, or keep more tokens of them"
        )
    arrays = flat.arrays()
    vocab, matrix, numbers, words = _vocabulary(flat, arrays, train_sizes, encoding)
    _number(arrays, numbers)
    for rows in facts.values():
        passages = slice(rows["first_passage"], rows["first_passage"] + rows["passages"])
        queries = slice(rows["first"], rows["first"] + rows["rows"])
        start, end = arrays["passage_start"][[passages.start, passages.stop]]
        gold, of_passage = arrays["gold"][queries], arrays["query_passage"][queries]
        right = arrays["candidate_type_start"][of_passage[gold >= 0]] + gold[gold >= 0]
        rows |= {
            "tokens": {
                "passage": int(end - start),
                "query": int(arrays["query_length"][queries].sum()),
            },
            "unknown_tokens": {
                "passage": int((arrays["passage"][start:end] == UNK).sum()),
                "query": int((arrays["query"][queries] == UNK).sum()),
            },
            "candidates": int(np.diff(arrays["candidate_type_start"])[passages].sum()),
            "answers_of_unseen_type": int((arrays["candidate_type"][right] >= train_types).sum()),
        }
    types = {"types": len(flat.types), "types_of_train": train_types}
    facts = {"setup": encoding.setup, "splits": facts, "vocabulary": words, "candidates": types}
    return kept, arrays, vocab, matrix, facts


def encode_new(
    splits: Mapping[str, Split], vocab: Vocab, encoding: ClozeEncoding, types: Sequence[str]
) -> tuple[dict, dict]:
    """(arrays, facts) of new queries, answerable or not, in the vocabulary of a run.

    types: names of the phrases of training, see types_of_train; other phrases are numbered behind
    them.
    """
    flat = _Flat(encoding, types)
    facts = {name: flat.add(split, answerable_only=False)[1] for name, split in splits.items()}
    arrays = flat.arrays()
    numbers = np.array(vocab.encode(flat.number_of), np.int32)
    _number(arrays, np.maximum(numbers, UNK))
    cut = sum(of_split["truncated"]["passages"] for of_split in facts.values())
    unknown = {side: int((arrays[side] == UNK).sum()) for side in ("passage", "query")}
    return arrays, {"splits": facts, "unknown_tokens": unknown, "truncated": {"passage": cut}}


def _number(arrays, numbers) -> None:
    """Puts words' numbers in the vocabulary in the place of those of the flat lists, and pads the
    queries."""
    arrays["passage"], queries = numbers[arrays["passage"]], numbers[arrays.pop("query_tokens")]
    cuts = np.cumsum(arrays["query_length"])[:-1]
    arrays["query"], _ = pad(np.split(queries, cuts), int(arrays["query_length"].max()))
    lengths = np.diff(arrays["passage_start"]).astype(np.int32)
    arrays["premise_length"], arrays["hypothesis_length"] = (
        lengths[arrays["query_passage"]],
        arrays["query_length"],
    )
    arrays["label"] = arrays["gold"]


class _Flat:
    """Flat lists of what splits hold, in numbers of its own: tokens by first occurrence, phrases
    behind `types`."""

    def __init__(self, encoding, types=()):
        self.encoding, self._passages = encoding, {}
        self.types = {name: number for number, name in enumerate(types)}
        self.number_of = defaultdict()
        self.number_of.default_factory = self.number_of.__len__
        self.ints = {
            name: array("i") for name in (*_INTS, *(_LOOSE if encoding.setup == "noent" else ()))
        }
        self._starts = {
            name: array("q", [0]) for name in _STARTED if name in self.ints or name in _TEXTS
        }
        self._texts = {name: bytearray() for name in _TEXTS}

    def add(self, split: Split, answerable_only: bool) -> tuple[Split, dict]:
        """(the split as it was taken, its facts)."""
        encoding, examples, answers = self.encoding, [], Counter(exact=0, synonym=0, none=0)
        lost, first_passage = Counter(passages=0, tokens=0, answers=0), len(self._passages)
        facts = {**split.facts, "first": len(self.ints["gold"]), "first_passage": first_passage}
        shared = all_views(
            watched(split.examples, "queries"), encoding.setup, max_tokens=encoding.max_passage
        )
        for example, view in shared:
            passage = view.passage
            answers[view.answerable] += 1
            if view.gold < 0 and any(
                phrase_of(answer.text) in passage.cut for answer in example.answers
            ):
                lost["answers"] += 1
            if view.gold < 0 and answerable_only:
                continue
            if id(example.passage) not in self._passages:
                lost.update(passages=int(passage.dropped > 0), tokens=passage.dropped)
                self._passages[id(example.passage)] = len(self._passages)
                self._add_passage(passage)
            self._add_query(example, view)
            examples.append(example)
        facts |= {"rows": len(examples), "passages": len(self._passages) - first_passage}
        facts |= {"answerable": dict(answers), "truncated": dict(lost)}
        return replace(split, examples=tuple(examples)), facts

    def _add_passage(self, view):
        self.ints["passage"].extend(map(self.number_of.__getitem__, view.tokens))
        for phrase in view.candidates:
            type_ = view.names[phrase] if self.encoding.setup == "anonym" else phrase
            self.ints["candidate_type"].append(self.types.setdefault(type_, len(self.types)))
            self.ints["candidate_length"].append(phrase.count(" ") + 1)
        self._add_positions("position", view.positions)
        if self.encoding.setup == "noent":
            self._add_positions("loose_position", loose_positions(view.tokens, view.candidates))
        self._texts["candidate_text"] += "\n".join(view.candidates).encode()
        for name, starts in self._starts.items():
            if name != "answer_text":
                starts.append(len(self._texts[name] if name in _TEXTS else self.ints[name]))

    def _add_positions(self, name, positions):
        for number, spans in enumerate(positions):
            places = [place for start, end in spans for place in range(start, end)]
            self.ints[name].extend(places)
            self.ints[f"{name}_candidate"].extend([number] * len(places))

    def _add_query(self, example, view):
        query, blank = view.query, view.blank
        if self.encoding.query_bounds:
            query, blank = (BEGIN, *query, END), blank + 1
        self.ints["query_tokens"].extend(map(self.number_of.__getitem__, query))
        passage = self._passages[id(example.passage)]
        of_query = {
            "query_length": len(query),
            "blank": blank,
            "query_passage": passage,
            "gold": view.gold,
        }
        for name, number in of_query.items():
            self.ints[name].append(number)
        answers = [[a.text, a.concept, a.semantic_type, a.origin] for a in example.answers]
        self._texts["answer_text"] += json.dumps(answers, ensure_ascii=False).encode()
        self._starts["answer_text"].append(len(self._texts["answer_text"]))

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {name: np.array(values, np.int32) for name, values in self.ints.items()}
        arrays |= {
            f"{name}_start": np.array(values, np.int64) for name, values in self._starts.items()
        }
        return arrays | {name: np.array(text, np.uint8) for name, text in self._texts.items()}


def _vocabulary(flat, arrays, train_sizes, encoding) -> tuple[Vocab, np.ndarray, np.ndarray, dict]:
    """(vocabulary, vectors [V, D], the number in the vocabulary of each word of the flat lists,
    counts of words).

    The words of training, where they have no vector with a random one, as in the published readers;
    and of other splits those that have a pretrained vector.
    """
    names, words = ("passage", "query_tokens"), list(flat.number_of)
    counts = sum(np.bincount(arrays[name], minlength=len(words)) for name in names)
    of_train = sum(
        np.bincount(arrays[name][: train_sizes[name]], minlength=len(words)) for name in names
    )

    def ordered(counts, chosen):
        """Places of the chosen words, the most frequent first, equally frequent ones by code
        point."""
        places = [
            place for place in np.flatnonzero(chosen).tolist() if words[place] not in SPECIALS
        ]
        return sorted(places, key=lambda place: (-counts[place], words[place]))

    settings = {"dim": encoding.vectors_dim, "seed": encoding.vectors_seed}
    train = ordered(of_train, of_train > 0)
    places, matrix, known = train[: encoding.max_words or None], None, frozenset()
    kept = len(places)
    facts = {"of_train": kept, "cut": len(train) - kept}
    if encoding.vectors_path is not None:
        places += ordered(counts, of_train == 0)
        found = load_vectors(
            encoding.vectors_path, (*SPECIALS, *(words[place] for place in places)), **settings
        )
        number_of = dict(zip(words, counts.tolist(), strict=True))
        facts |= {
            "source": found.file,
            "sha256": found.sha256,
            "coverage": asdict(coverage(found, number_of)),
        }
        of_kept = {words[place]: int(of_train[place]) for place in places[:kept]}
        facts["training_tokens"] = asdict(training_coverage(found, of_kept))
        known = frozenset(found.words)
        rows = [row for row, place in enumerate(places) if row < kept or words[place] in known]
        matrix, places = (
            found.matrix[[0, 1, *(row + 2 for row in rows)]],
            [places[row] for row in rows],
        )
    vocab = Vocab(SPECIALS + tuple(words[place] for place in places))
    lacking = [row for row in range(2, len(vocab)) if vocab.words[row] not in known]
    if matrix is None:
        matrix, lacking = np.zeros((len(vocab), encoding.vectors_dim), np.float32), [UNK, *lacking]
    for start in range(0, len(lacking), _AT_A_TIME):
        part = lacking[start : start + _AT_A_TIME]
        matrix[part] = random_vectors(
            [vocab.words[row] for row in part], sd=encoding.vectors_sd, **settings
        )
    numbers = np.full(len(words), UNK, np.int32)
    numbers[places] = np.arange(2, len(vocab))
    facts |= {
        "words": len(places),
        "of_other_splits": len(places) - kept,
        "with_vector": len(known),
    }
    return vocab, matrix, numbers, facts


# -- the strings of the arrays ----------------------------------------------------------------------------------------


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
        text = self._piece("candidate_text", passage)
        return tuple(text.split("\n")) if text else ()

    def answers(self, row: int) -> tuple[Answer, ...]:
        """All answers of a query, the dataset's first."""
        return tuple(Answer(*fields) for fields in json.loads(self._piece("answer_text", row)))

    def queries(self, rows: Rows) -> list[Query]:
        """The queries of a split, for scoring."""
        answers = (self.answers(rows.first + row) for row in range(len(rows)))
        return list(map(Query, rows.uids, answers, rows.tags))

    def _piece(self, name, number):
        start, end = self.arrays[f"{name}_start"][number : number + 2]
        return self.arrays[name][start:end].tobytes().decode()


def types_of_train(prepared: Prepared) -> tuple[str, ...]:
    """The phrases that occur in training, in the order of their numbers; in the set-up anonym their
    tokens."""
    arrays, manifest = prepared.arrays, prepared.manifest
    count, rows = manifest["candidates"]["types_of_train"], manifest["splits"]["train"]
    if manifest["setup"] == "anonym":
        return tuple(f"{ENTITY}{number}" for number in range(count))
    texts, names = Texts(arrays), {}
    for passage in range(rows["first_passage"], rows["first_passage"] + rows["passages"]):
        start, end = arrays["candidate_type_start"][passage : passage + 2]
        names |= zip(
            arrays["candidate_type"][start:end].tolist(), texts.candidates(passage), strict=True
        )
    return tuple(names[number] for number in range(count))


# -- a corpus ----------------------------------------------------------------------------------------------------------


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

    def splits(self) -> Mapping[str, Split]:
        """Train, dev and test, the queries of dev and test tagged seen or unseen."""
        if self.name == DEMO:
            splits = clicr.load_demo_cloze()
            train = splits["train"]
            return tag_seen(
                {**splits, "train": replace(train, examples=train.examples[: self.limit])}
            )
        folder, titles = required_folder(self.name, self.folder), self.name == CLICR
        splits = clicr.load(folder, limit=self.limit, titles=titles)
        if titles:
            warn_of_exposure(self.folder, clicr.LICENSED)
            splits = {name: with_titles(split) for name, split in splits.items()}
        return tag_seen(splits)

    def read_vocabulary(self, path: Path) -> Vocab:
        return Vocab.load(path)

    def encoded(self, splits, vocabulary, vectors, types: Sequence[str] | None = None) -> Prepared:
        """See data.corpus.Corpus. types: the phrases that have an output in the model."""
        arrays, facts = encode_new(splits, vocabulary, self.encoding, types or ())
        return Prepared(None, facts, arrays, vectors, rows_of_splits(splits, arrays, facts))

    def prepare(self) -> tuple[Prepared, bool]:
        """See data.corpus.Corpus. Training queries without a right candidate are left out; dev and
        test keep them."""
        cache = Cache(cache_folder())
        found = cache.get(
            self.name, self.key(cache), lambda: encode_cloze(self.splits(), self.encoding)
        )
        if self.name == CLICR:
            warn_of_exposure(self.folder, clicr.LICENSED)
        return found

    def key(self, cache: Cache) -> dict:
        """Everything that shapes the arrays, as JSON: settings, and sources by content."""
        settings = {
            name: str(v) if isinstance(v, Path) else v for name, v in vars(self.encoding).items()
        }
        about = {"corpus": self.name, "limit": self.limit or 0, "format": FORMAT}
        return {**about, **settings, "sources": cache.digests(self.source_files())}

    def source_files(self) -> list[Path]:
        """All files whose content shapes the arrays."""
        if self.name == DEMO:
            files = demo.demo_files("cloze")
        else:
            files = list(clicr.source_files(required_folder(self.name, self.folder)).values())
        for path in vector_files(self.encoding.vectors_path) if self.encoding.vectors_path else ():
            if not path.is_file():
                fix = "check --config.vectors.path, or leave it empty for random vectors (--config.vectors.path=)"
                raise ConfigError(
                    f"{path}: there is no such file", fix=f"{fix}; exact match will be lower"
                )
            files.append(path)
        return files


def corpus_named(name: str) -> Mapping[str, Split]:
    """The splits of demo_cloze, clicr (in $MEDNLI_JAX_DATA/clicr), or a folder in its layout."""
    place = variable_path("MEDNLI_JAX_DATA") if name == CLICR else local_path(name, "--corpus")
    if place is None:
        raise UsageError(
            f"--corpus={CLICR}: $MEDNLI_JAX_DATA is not set", fix="set it, or give a folder"
        )
    if name != DEMO and not place.is_dir():
        raise UsageError(
            f"{place}: is no folder", fix=f"give --corpus={DEMO}, {CLICR}, or a FOLDER like it"
        )
    return ClozeCorpus(
        name if name in (DEMO, CLICR) else FILE, ClozeEncoding("ent"), place
    ).splits()


def split_of(splits: Mapping, name: str):
    """A split by name. Raises UsageError for one that the corpus has not."""
    if name not in splits:
        raise UsageError(f"--split={name}: no such split", fix=f"give one of {', '.join(splits)}")
    return splits[name]
