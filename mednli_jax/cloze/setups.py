"""The three set-ups in which a model reads a passage and a query (Suster & Daelemans 2018, section
4).

  ent
      an entity is one token of its words, "@entitydry_cough"
  anonym
      an entity is one token with a number, "@entity0"
  noent
      an entity is its plain words; no token shows where it begins or ends
"""

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


class _EntityTokens(dict[str, str]):
    """{phrase: the one token that stands for it}, in ent or anonym. The number of a new phrase in
    anonym is the number of phrases before it."""

    def __init__(self, setup: str, tokens: Mapping[str, str]) -> None:
        super().__init__(tokens)
        self.setup = setup

    def add(self, phrase: str) -> str:
        """Returns the token of a phrase, which is a new one for a new phrase."""
        if phrase not in self:
            name = phrase.replace(" ", "_") if self.setup == "ent" else str(len(self))
            self[phrase] = ENTITY + name
        return self[phrase]


@dataclass(frozen=True, slots=True)
class SetupPassage:
    """A passage in one set-up.

    Args:
      tokens: lower-cased. In ent and anonym an entity is one token.
      candidates: distinct marked phrases in the order of their first mention, with single spaces
        between words.
      positions: for each candidate, the (start, end) of each mention in `tokens`.
      number_of: candidate -> its index in `candidates`.
      names: phrase -> the token that stands for it; empty in noent.
      cut_candidates: phrases of which every mention was cut off.
      num_cut_tokens: number of tokens that were cut off.
    """

    tokens: tuple[str, ...]
    candidates: tuple[str, ...]
    positions: tuple[tuple[Span, ...], ...]
    number_of: Mapping[str, int]
    names: Mapping[str, str]
    cut_candidates: frozenset[str]
    num_cut_tokens: int


@dataclass(frozen=True, slots=True)
class SetupQuery:
    """A query and its passage in one set-up.

    Args:
      query: lower-cased tokens; query[blank] is PLACEHOLDER.
      gold, match: number and kind of the right candidate, see RightCandidate.
      names: phrase of the passage or the query -> the token that stands for it; empty in noent.
    """

    passage: SetupPassage
    query: tuple[str, ...]
    blank: int
    gold: int
    match: str
    names: Mapping[str, str]


class RightCandidate(NamedTuple):
    """The candidate that is an answer to a query.

    Args:
      number: its index among the candidates of the passage; -1 = no candidate is an answer.
      kind: "exact" if it is the dataset's own answer, "synonym" if it is another accepted answer,
        "none" for number -1.
    """

    number: int
    kind: str


def phrase_of(text: str) -> str:
    """The text as candidates and answers are compared: in lower case, with single spaces."""
    return " ".join(text.lower().split())


def right_candidate(example: ClozeExample, number_of: Mapping[str, int]) -> RightCandidate:
    """The first answer of an example that is a candidate. The dataset's own answer is the first
    answer."""
    for place, answer in enumerate(example.answers):
        phrase = phrase_of(answer.text)
        if phrase in number_of:
            return RightCandidate(number_of[phrase], "synonym" if place else "exact")
    return RightCandidate(-1, "none")


def passage_in_setup(passage: Passage, setup: str, *, max_tokens: int = 0) -> SetupPassage:
    """A passage in one set-up.

    max_tokens: how many of SetupPassage.tokens to keep, 0 = all. A mention that the cut removes or
    splits is no longer one.
    """
    words = list(map(str.lower, passage.tokens))
    names = _EntityTokens(setup, {})
    spans: dict[str, list[Span]] = defaultdict(list)
    if setup == "noent":
        for entity in passage.entities:
            phrase = " ".join(words[entity.start : entity.end])
            spans[phrase].append((entity.start, entity.end))
    else:
        words, places = join_entities(words, passage.entities, names.add)
        for phrase, place in places:
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
        cut_candidates=frozenset(spans.keys() - positions.keys()),
        num_cut_tokens=max(len(words) - length, 0),
    )


def query_in_setup(
    example: ClozeExample, setup: str, passage: SetupPassage | None = None
) -> SetupQuery:
    """A query in one set-up.

    passage: the passage of the query in this set-up; None = it is made here, without a cut.
    """
    passage = passage or passage_in_setup(example.passage, setup)
    words = list(map(str.lower, example.query))
    blank = example.blank
    names = _EntityTokens(setup, passage.names)
    if setup != "noent":
        for entity in example.query_entities:
            if entity.end <= example.blank:  # it becomes one token
                blank -= entity.end - entity.start - 1
        words, _ = join_entities(words, example.query_entities, names.add)
    words[blank] = PLACEHOLDER
    right = right_candidate(example, passage.number_of)
    return SetupQuery(passage, tuple(words), blank, right.number, right.kind, names)


def queries_in_setup(
    examples: Iterable[ClozeExample], setup: str, *, max_tokens: int = 0
) -> Iterator[tuple[ClozeExample, SetupQuery]]:
    """(example, its query in the set-up). Consecutive examples of one passage share one
    SetupPassage."""
    last_passage = None
    for example in examples:
        if example.passage is not last_passage:
            last_passage = example.passage
            setup_passage = passage_in_setup(example.passage, setup, max_tokens=max_tokens)
        yield example, query_in_setup(example, setup, setup_passage)


def loose_positions(tokens: Sequence[str], phrases: Sequence[str]) -> list[tuple[Span, ...]]:
    """For each phrase, all tokens that are one of its words, as one-token spans.

    In noent, the published readers give a candidate the attention of all these tokens, within its
    mentions or not. The sums may then add up to more than 1, and long candidates gain.
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
    """The split with each title as the first sentence of its passage, as CliCR's published readers
    have it."""
    examples = []
    for passage, queries in clicr.by_passage(split.examples):
        longer = _with_title(passage)
        examples += [replace(query, passage=longer) for query in queries]
    return replace(split, examples=tuple(examples))


def _with_title(passage: Passage) -> Passage:
    shift = len(passage.title)
    if not shift:
        return passage
    moved = [Entity(entity.start + shift, entity.end + shift) for entity in passage.entities]
    ends = [end + shift for end in passage.sentence_ends]
    return replace(
        passage,
        title=(),
        title_entities=(),
        tokens=passage.title + passage.tokens,
        entities=(*passage.title_entities, *moved),
        sentence_ends=(shift, *ends),
    )


def tag_seen(splits: Mapping[str, Split[ClozeExample]]) -> dict[str, Split[ClozeExample]]:
    """Tags each query of dev and test by its dataset's answer, upper and lower case aside. "seen":
    some training query has the same dataset's answer. "unseen": no training query has it."""
    answers_of_train = {phrase_of(query.answers[0].text) for query in splits["train"].examples}
    tagged = dict(splits)
    for name in splits.keys() - {"train"}:
        split = splits[name]
        examples = []
        for query in split.examples:
            tag = SEEN if phrase_of(query.answers[0].text) in answers_of_train else UNSEEN
            examples.append(replace(query, tags=(*query.tags, tag)))
        tagged[name] = replace(split, examples=tuple(examples))
    return tagged


class JoinedWords(NamedTuple):
    """Words in which each entity is one token. places: (phrase, index of its token) of each entity,
    in order."""

    words: list[str]
    places: list[tuple[str, int]]


def join_entities(
    words: Sequence[str], entities: Iterable[Entity], token_of: Callable[[str], str]
) -> JoinedWords:
    """Replaces the words of each entity by one token. token_of: phrase -> its token."""
    shorter: list[str] = []
    places = []
    end = 0
    for entity in entities:
        shorter += words[end : entity.start]
        phrase = " ".join(words[entity.start : entity.end])
        places.append((phrase, len(shorter)))
        shorter.append(token_of(phrase))
        end = entity.end
    shorter += words[end:]
    return JoinedWords(shorter, places)
