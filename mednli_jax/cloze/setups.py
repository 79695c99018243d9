"""The three set-ups in which a model reads a passage and a query (Suster & Daelemans 2018, section
4): entities as words (ent), as tokens @entityN (anonym), or unmarked (noent)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mednli_jax.cloze import clicr
from mednli_jax.data.examples import PLACEHOLDER, ClozeExample, Entity, Passage, Split

SETUPS = ("ent", "anonym", "noent")
ENTITY = "@entity"
SEEN, UNSEEN = "seen", "unseen"
Span = tuple[int, int]


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
class SetupPassage:
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
class SetupQuery:
    """A query and its passage in one set-up.

    query: lower-cased tokens, query[blank] is PLACEHOLDER. gold, answerable: see RightCandidate.
    names: phrase -> its token, of passage, query and answer (ent, anonym).
    """

    passage: SetupPassage
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


def passage_in_setup(passage: Passage, setup: str, *, max_tokens: int = 0) -> SetupPassage:
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
        words, marked = join_entities(words, passage.entities, names.__getitem__)
        for phrase, place in marked:
            spans[phrase].append((place, place + 1))
    length = max_tokens or len(words)
    positions = {}
    for phrase, spans_of_phrase in spans.items():
        whole_spans = [span for span in spans_of_phrase if span[1] <= length]
        if whole_spans:
            positions[phrase] = tuple(whole_spans)
    return SetupPassage(
        tokens=tuple(words[:length]),
        candidates=tuple(positions),
        positions=tuple(positions.values()),
        number_of={phrase: number for number, phrase in enumerate(positions)},
        names=names,
        cut=frozenset(spans.keys() - positions.keys()),
        dropped=max(len(words) - length, 0),
    )


def query_in_setup(
    example: ClozeExample, setup: str, passage: SetupPassage | None = None
) -> SetupQuery:
    """A query in one set-up. passage: its passage in the set-up, None = the whole passage."""
    passage = passage or passage_in_setup(example.passage, setup)
    words = list(map(str.lower, example.query))
    blank = example.blank
    names = _EntityNames(setup, passage.names)
    if setup != "noent":
        for entity in example.query_entities:
            if entity.end <= example.blank:
                blank -= entity.end - entity.start - 1
        words, _ = join_entities(words, example.query_entities, names.__getitem__)
        names[phrase_of(example.answers[0].text)]  # gives the answer a name, too
    words[blank] = PLACEHOLDER
    right = right_candidate(example, passage.number_of)
    return SetupQuery(passage, tuple(words), blank, right.number, right.kind, names)


def texts_in_setup(
    examples: Iterable[ClozeExample], setup: str, *, max_tokens: int = 0
) -> Iterator[tuple[ClozeExample, SetupQuery]]:
    """Each example with its query in the set-up; neighbours with the same passage share it."""
    last_passage = None
    for example in examples:
        if example.passage is not last_passage:
            last_passage = example.passage
            shared_view = passage_in_setup(example.passage, setup, max_tokens=max_tokens)
        yield example, query_in_setup(example, setup, shared_view)


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


class JoinedWords(NamedTuple):
    """words: with each entity as one token. phrases: (phrase, place of that token) of each."""

    words: list[str]
    phrases: list[tuple[str, int]]


def join_entities(
    words: Sequence[str], entities: Iterable[Entity], name_of: Callable[[str], str]
) -> JoinedWords:
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
    return JoinedWords(shorter, phrases)
