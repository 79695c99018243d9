"""The input of a reader of cloze queries: passages in one of three set-ups, their candidates, and the right one.

Šuster & Daelemans 2018, section 3.3: with marked phrases as single tokens ("ent"), the same without their names
("anonym"), or without any marks ("noent"). Everything is lower-cased. In each set-up a system chooses one of
the distinct marked phrases of the passage, and predicts the words of that phrase.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mednli_jax.data.examples import PLACEHOLDER, ClozeExample, Entity, Passage, Split

SETUPS = ("ent", "anonym", "noent")
ENTITY = "@entity"
SEEN, UNSEEN = "seen", "unseen"
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PassageView:
    """A passage in one set-up, the same for all its queries.

    tokens: lower-cased. candidates: distinct marked phrases in the order of their first occurrence, words separated by
    spaces. positions: where each is marked, (start, end) in `tokens`. number_of: candidate -> its place.
    names: phrase -> the token that stands for it (ent, anonym). cut: candidates that only occur after the last kept
    token. dropped: number of tokens after it.
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

    passage, candidates, positions: see PassageView. query: lower-cased tokens, query[blank] is PLACEHOLDER.
    gold: place of the candidate that is the dataset's answer, else of the first synonym among the candidates, else -1.
    names: phrase -> the token that stands for it, those of passage, query and answer (ent, anonym).
    """

    passage: tuple[str, ...]
    query: tuple[str, ...]
    blank: int
    candidates: tuple[str, ...]
    positions: tuple[Spans, ...]
    gold: int
    names: Mapping[str, str]


def phrase_of(text: str) -> str:
    """The form in which candidates and answers are compared: lower-cased words between single spaces."""
    return " ".join(text.lower().split())


def candidates(example: ClozeExample) -> tuple[str, ...]:
    """The distinct marked phrases of the passage, lower-cased, in the order of their first occurrence."""
    passage = example.passage
    phrases = (" ".join(passage.tokens[entity.start : entity.end]) for entity in passage.entities)
    return tuple(dict.fromkeys(map(str.lower, phrases)))


def gold_candidate(example: ClozeExample, number_of: Mapping[str, int]) -> int:
    """Place of the right candidate, -1 if there is none. The dataset's answer has priority over its synonyms."""
    phrases = (phrase_of(answer.text) for answer in example.answers)
    return next((number_of[phrase] for phrase in phrases if phrase in number_of), -1)


def passage_view(passage: Passage, setup: str, *, max_tokens: int = 0) -> PassageView:
    """A passage in one set-up.

    max_tokens: number of tokens that are kept, 0 = all; a phrase that is cut is no longer marked.
    """
    words, entities, names = [token.lower() for token in passage.tokens], passage.entities, {}
    if setup == "noent":
        spans = _spans((" ".join(words[e.start : e.end]), e.start, e.end) for e in entities)
    else:
        words, phrases = _merged(words, entities, setup, names)
        spans = _spans((phrase, place, place + 1) for phrase, place in phrases)
    cut, dropped = frozenset(), 0
    if 0 < max_tokens < len(words):
        dropped, words = len(words) - max_tokens, words[:max_tokens]
        kept = {phrase: [span for span in found if span[1] <= max_tokens] for phrase, found in spans.items()}
        spans = {phrase: found for phrase, found in kept.items() if found}
        cut = frozenset(kept.keys() - spans.keys())
    number_of = {phrase: number for number, phrase in enumerate(spans)}
    return PassageView(tuple(words), tuple(spans), tuple(map(tuple, spans.values())), number_of, names, cut, dropped)


def views(example: ClozeExample, setup: str, *, max_tokens: int = 0, passage: PassageView | None = None) -> View:
    """A query in one set-up; max_tokens as in passage_view.

    passage: the view of its passage, if the caller has it, as `all_views` does.
    """
    passage = passage or passage_view(example.passage, setup, max_tokens=max_tokens)
    words, names = [token.lower() for token in example.query], {}
    blank = example.blank
    if setup != "noent":
        names = dict(passage.names)
        before = sum(e.end - e.start - 1 for e in example.query_entities if e.end <= blank)
        words, _ = _merged(words, example.query_entities, setup, names)
        blank -= before
        _name(phrase_of(example.answers[0].text), setup, names)
    words[blank] = PLACEHOLDER
    gold = gold_candidate(example, passage.number_of)
    return View(passage.tokens, tuple(words), blank, passage.candidates, passage.positions, gold, names)


def all_views(
    examples: Iterable[ClozeExample], setup: str, *, max_tokens: int = 0
) -> Iterator[tuple[ClozeExample, PassageView, View]]:
    """Each example with its passage's view and its own; neighbours with the same passage share that view."""
    last, shared = None, None
    for example in examples:
        if example.passage is not last:
            last = example.passage
            shared = passage_view(last, setup, max_tokens=max_tokens)
        yield example, shared, views(example, setup, passage=shared)


def loose_positions(tokens: Sequence[str], phrases: Sequence[str]) -> tuple[Spans, ...]:
    """Every token that is a word of a candidate, wherever it stands, as one-token spans.

    The published readers score unmarked passages like this: the mass of a candidate is the sum over all its words.
    The masses of a passage may then sum to more than 1, and long candidates gain. `passage_view` gives true spans.
    """
    wanted = {word: [] for phrase in phrases for word in phrase.split()}
    for place, token in enumerate(tokens):
        if token in wanted:
            wanted[token].append(place)
    return tuple(
        tuple((place, place + 1) for place in sorted({p for word in phrase.split() for p in wanted[word]}))
        for phrase in phrases
    )


def how_answerable(example: ClozeExample, number_of: Mapping[str, int]) -> str:
    """Which answer is among the candidates: "exact" the dataset's own, "synonym" only another one, "none" no answer.

    number_of: candidate -> its place.
    """
    if phrase_of(example.answers[0].text) in number_of:
        return "exact"
    return "synonym" if gold_candidate(example, number_of) >= 0 else "none"


def with_titles(split: Split) -> Split:
    """The split with each title as the first sentence of its passage, with its marked phrases.

    CliCR's published readers, baselines and counts read reports like this. The title is then empty.
    """
    passages = {id(example.passage): example.passage for example in split.examples}
    joined = {key: _with_title(passage) if passage.title else passage for key, passage in passages.items()}
    examples = tuple(replace(example, passage=joined[id(example.passage)]) for example in split.examples)
    return replace(split, examples=examples, facts={**split.facts, "titles_in_passages": True})


def _with_title(passage):
    shift = len(passage.title)
    moved = (Entity(entity.start + shift, entity.end + shift) for entity in passage.entities)
    return replace(
        passage,
        title=(),
        title_entities=(),
        tokens=passage.title + passage.tokens,
        entities=(*passage.title_entities, *moved),
        sentences=(shift, *(end + shift for end in passage.sentences)),
    )


def seen_answers(train: Split) -> frozenset[str]:
    """The dataset's answers of the training queries, lower-cased."""
    return frozenset(phrase_of(example.answers[0].text) for example in train.examples)


def tag_seen(splits: Mapping[str, Split]) -> dict[str, Split]:
    """The splits, with dev and test queries tagged "seen" (their answer is that of a training query) or "unseen".

    Training queries whose answer is not in their passage count, too.
    """
    seen = seen_answers(splits["train"])
    return {name: split if name == "train" else _tagged(split, seen) for name, split in splits.items()}


def _tagged(split, seen):
    examples, counts = [], Counter({SEEN: 0, UNSEEN: 0})
    for example in split.examples:
        tag = SEEN if phrase_of(example.answers[0].text) in seen else UNSEEN
        counts[tag] += 1
        others = tuple(other for other in example.tags if other not in (SEEN, UNSEEN))
        examples.append(replace(example, tags=(*others, tag)))
    return replace(split, examples=tuple(examples), facts={**split.facts, "answers_of_train": dict(counts)})


def _spans(found):
    """phrase -> its (start, end)s, in the order of first occurrence."""
    spans = {}
    for phrase, start, end in found:
        spans.setdefault(phrase, []).append((start, end))
    return spans


def _merged(words, entities, setup, names):
    """(words with each entity as one token, (phrase, place of that token) of each entity); names: filled."""
    merged, phrases, end = [], [], 0
    for entity in entities:
        merged += words[end : entity.start]
        phrase = " ".join(words[entity.start : entity.end])
        phrases.append((phrase, len(merged)))
        merged.append(_name(phrase, setup, names))
        end = entity.end
    return merged + words[end:], phrases


def _name(phrase, setup, names):
    """The token of a phrase: its words in one (ent), or a number by first occurrence (anonym)."""
    token = names.get(phrase)
    if token is None:
        token = names[phrase] = ENTITY + (phrase.replace(" ", "_") if setup == "ent" else str(len(names)))
    return token
