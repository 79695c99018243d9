"""BIOMRC (Pappas et al. 2020): abstracts with numbered entities, and their titles as queries.

One JSON object of four lists of equal length: `abstracts`; `titles`, with XXXX for the answer; `entities_list`;
`answers`. An entity is "@entity3 :: ('concept', 'type') :: ['its words', ...]" and stands as @entity3 in the texts.
The faults are listed in `data.clicr` and `data.cloze_formats`.
"""

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path

from mednli_jax.corpora.cloze.files import BrokenJSON, Node, Scanner, checked_text, opened_text
from mednli_jax.corpora.cloze.formats import Passages, answer_phrase
from mednli_jax.corpora.cloze.views import ENTITY, all_views, phrase_of
from mednli_jax.corpora.lines import FRESH_COPY, either_name
from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import PLACEHOLDER, Answer, ClozeExample, Entity
from mednli_jax.files import write_atomic
from mednli_jax.text import sentence_tokens

LISTS = ("abstracts", "titles", "entities_list", "answers")
BLANK = "XXXX"
_MARKS = re.compile(rf"({ENTITY}\d+|{BLANK})")
MAX_NAMES = 1 << 16  # characters of an entity: what goes on for longer lists no names
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z@(\[])")


def write_biomrc(examples: Iterable[ClozeExample], path: Path) -> None:
    """BIOMRC's JSON (Pappas et al. 2020) in its setting B: entities are numbered anew in each passage.

    Four lists of equal length, `abstracts`, `titles` (the queries, with XXXX), `entities_list` and `answers`; an entity
    is "@entity3 :: ('concept', 'type') :: ['its words', ...]". A fifth list, `ids`, which other readers pass over,
    holds the uids.
    """
    lists = {name: [] for name in (*LISTS, "ids")}
    for example, _, view in all_views(examples, "anonym"):
        query = " ".join(BLANK if place == view.blank else word for place, word in enumerate(view.query))
        right, first = answer_phrase(example, view), example.answers[0]
        entities = {phrase: f"{token} :: ('', '') :: {[phrase]!r}" for phrase, token in view.names.items()}
        words = list(dict.fromkeys((right, *(phrase_of(answer.text) for answer in example.answers))))
        entities[right] = f"{view.names[right]} :: {(first.concept, first.semantic_type)!r} :: {words!r}"
        values = (" ".join(view.passage), query, list(entities.values()), entities[right], example.uid)
        for name, value in zip(lists, values, strict=True):
            lists[name].append(value)
    write_atomic(Path(path), json.dumps(lists, ensure_ascii=False) + "\n")


def read_biomrc(path: Path, *, tokenised: bool = False) -> tuple[ClozeExample, ...]:
    """The queries of a BIOMRC file; an entity becomes its first name, further names of the answer are its synonyms.

    tokenised: blanks separate the tokens, as in what write_biomrc writes; else sentences are split and tokenised.
    uid: that of `ids`, else "<file stem>:<place from 0>". Raises: DataError(s).
    """
    path = either_name(Path(path)) or Path(path)
    lists = _lists(path)
    stem = Path(path.name.removesuffix(".gz")).stem
    problems, passages, examples, top = Problems(), Passages(), [], Node(path.name, "", {})
    for number, values in enumerate(zip(*(lists[name] for name in LISTS), strict=True)):
        try:
            uid = checked_text(top, f"ids[{number}]", str(lists["ids"][number]), False) if "ids" in lists else ""
            uid = uid or f"{stem}:{number}"
            examples.append(_query(path.name, number, uid, values, passages, tokenised))
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    if not examples:
        raise DataError("E-CLZ-024", "holds no query", file=path.name, fix=FRESH_COPY)
    return tuple(examples)


def _lists(path):
    top, lists = Node(path.name, "", {}), {}
    try:
        with opened_text(path) as stream:
            scanner = Scanner(stream)
            for key in scanner.fields():
                lists[key] = [scanner.value() for _ in scanner.items()]
            scanner.end()
    except BrokenJSON:
        raise top.fault("E-CLZ-005", "the file is not a JSON object of lists, or cut short") from None
    for name in LISTS:
        if name not in lists:
            raise top.fault("E-CLZ-008", "is missing", name)
    if len({len(values) for name, values in lists.items() if name in (*LISTS, "ids")}) > 1:
        raise top.fault("E-CLZ-023", f"{', '.join(LISTS)} are not of equal length")
    return lists


def _query(file, number, uid, values, passages, tokenised):
    node = Node(file, "", {})
    for name, value in zip(LISTS, values, strict=True):
        kind = list if name == "entities_list" else str
        place = f"{name}[{number}]"
        if not isinstance(value, kind) or (kind is list and not all(isinstance(entity, str) for entity in value)):
            raise node.fault("E-CLZ-009", f"is not {'a list of strings' if kind is list else 'a string'}", place)
        if kind is str:
            checked_text(node, place, value, empty=False)
    abstract, title, entities, answer = values
    try:
        known = dict(map(_entity, [*entities, answer]))
    except ValueError:
        place = f"entities_list[{number}]"
        raise node.fault("E-CLZ-025", "holds an entity that is not 'token :: (id, type) :: [names]'", place) from None
    names = {token: names[0] for token, (_, _, names) in known.items()}
    tokens, found, ends = _text(node, f"abstracts[{number}]", abstract, names, tokenised)
    query, query_entities, _ = _text(node, f"titles[{number}]", title, names, tokenised)
    if query.count(PLACEHOLDER) != 1:
        what = f"holds {query.count(PLACEHOLDER)} of {BLANK}, expected one"
        raise node.fault("E-CLZ-022", what, f"titles[{number}]", "correct or remove the query")
    concept, kind, texts = known[_entity(answer)[0]]
    answers = tuple(Answer(text, concept, kind, "UMLS" if place else "dataset") for place, text in enumerate(texts))
    blank = query.index(PLACEHOLDER)
    return ClozeExample(uid, passages.of(uid, tokens, found, ends), query, query_entities, blank, answers)


def _entity(text):
    """(token, (concept, type, names)); the names default to the token. Raises: ValueError."""
    if len(text) > MAX_NAMES:
        raise ValueError
    token, *parts = (part.strip() for part in text.split(" :: "))
    try:
        parts = [ast.literal_eval(part) for part in parts]
    except (SyntaxError, TypeError, RecursionError, MemoryError):
        raise ValueError from None
    names = [
        name for part in parts if isinstance(part, list) for name in part if isinstance(name, str) and name.split()
    ]
    about = next((tuple(map(str, part)) for part in parts if isinstance(part, tuple)), ())
    concept, kind = (*about, "", "")[:2]
    if not token.startswith(ENTITY) or any("\0" in name for name in names):
        raise ValueError
    "".join((concept, kind, *names)).encode()  # a ValueError for half a surrogate pair
    return token, (concept, kind, names or [token])


def _text(node, place, text, names, tokenised):
    """(tokens with entities by name, entities, sentence ends) of an abstract or a title."""
    tokens, entities, ends = [], [], []
    for sentence in [text] if tokenised else _SENTENCE.split(text):
        for number, piece in enumerate(_MARKS.split(sentence)):
            if number % 2 == 0:
                tokens += piece.split() if tokenised else sentence_tokens(piece)
            elif piece == BLANK:
                tokens.append(PLACEHOLDER)
            elif piece not in names:
                raise node.fault("E-CLZ-025", "names an entity that is not in entities_list", place)
            else:
                start = len(tokens)
                tokens += names[piece].split()
                entities.append(Entity(start, len(tokens)))
        if len(tokens) > (ends[-1] if ends else 0):
            ends.append(len(tokens))
    return tuple(tokens), tuple(entities), tuple(ends)
