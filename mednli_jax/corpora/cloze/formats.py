"""Cloze queries in the formats of other readers: CNN / Daily Mail's question files, the Children's Book Test.

Written is lower-cased text with one answer a query; what a format has no place for (further answers, concepts and
semantic types, specialties) is left out. What was written is read back; so are the official files of each format.
BIOMRC's is in `data.biomrc`. Besides the faults of text files, listed in `data.nli`:
  E-CLZ-021 not the format's parts   E-CLZ-023 lists of unequal length     E-CLZ-025 an entity not explained
  E-CLZ-022 not exactly one blank    E-CLZ-024 no query in it              E-CLZ-026 a folder with other queries
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from mednli_jax.corpora.cloze.views import ENTITY, View, all_views, phrase_of
from mednli_jax.corpora.lines import FRESH_COPY, either_name, line_fault, text_lines
from mednli_jax.errors import DataError, Problems, UserError
from mednli_jax.examples import PLACEHOLDER, Answer, ClozeExample, Entity, Passage
from mednli_jax.files import private_folder, write_atomic
from mednli_jax.progress import Bar

BOOK_LINES = 20  # of a passage of the Children's Book Test; its query is the line after
BOOK_BLANK = "XXXXX"


class Passages:
    """Passages of a format that repeats them for each query: equal neighbours become one object."""

    def __init__(self):
        self._last = None

    def of(self, uid, tokens, entities, ends) -> Passage:
        new = (tuple(tokens), tuple(entities), tuple(ends))
        last = self._last
        if last is None or (last.tokens, last.entities, last.sentences) != new:
            self._last = Passage(uid, (), *new)
        return self._last


def write_questions(examples: Sequence[ClozeExample], folder: Path, setup: str) -> None:
    """One file a query, 000000.question and so on, as Hermann et al. 2015 and the published GA reader have them.

    uid, passage, query, answer and one line per entity (`token:its words`, those of the passage first), with blank
    lines between the five; without marks ("noent") the last part holds the candidates. setup: see cloze.SETUPS.
    Raises: UserError for an unknown set-up, a folder that has question files, or where the disk refuses.
    """
    folder = private_folder(Path(folder))
    if any(folder.glob("*.question")):
        raise UserError(f"E-CLZ-026 {folder}: holds question files already. Fix: name another folder.")
    with Bar("writing questions", len(examples)) as bar:
        for number, (example, _, view) in enumerate(all_views(examples, setup)):
            parts = (example.uid, " ".join(view.passage), " ".join(view.query), *_answer_and_names(example, view))
            write_atomic(folder / f"{number:06}.question", "\n\n".join(parts) + "\n")
            bar.advance(1)


def _answer_and_names(example, view):
    """The answer, as a token where phrases are tokens; and the lines of entities or candidates."""
    answer = answer_phrase(example, view)
    if not view.names:
        return answer, "\n".join(view.candidates)
    phrases = dict.fromkeys((*view.candidates, *view.names))
    return view.names[answer], "\n".join(f"{view.names[phrase]}:{phrase}" for phrase in phrases)


def answer_phrase(example: ClozeExample, view: View) -> str:
    """The one answer of formats that have one: the right candidate, else the dataset's answer."""
    return view.candidates[view.gold] if view.gold >= 0 else phrase_of(example.answers[0].text)


def read_questions(folder: Path) -> tuple[ClozeExample, ...]:
    """The queries of all .question files of a folder, in the order of their names.

    Unmarked passages are marked wherever a candidate stands, the longest first.
    Raises: DataError, or DataErrors with the first 20 faults together.
    """
    paths = sorted(Path(folder).glob("*.question"))
    if not paths:
        raise DataError("E-CLZ-024", "holds no .question files", file=Path(folder).name, fix="check the path")
    problems, passages, examples = Problems(), Passages(), []
    with Bar("reading questions", len(paths)) as bar:
        for path in paths:
            try:
                examples.append(_question(path, passages))
            except DataError as error:
                problems.add(error)
            bar.advance(1)
    problems.raise_if_any()
    return tuple(examples)


def _question(path, passages):
    lines = [""]  # counted from 1
    for _, line in text_lines(path, watched=False):
        if isinstance(line, DataError):
            raise line
        lines.append(line.strip())
    lines += [""] * (9 - len(lines))
    if any(lines[number] for number in (2, 4, 6, 8)) or not all(lines[number] for number in (1, 3, 5, 7)):
        what = "is not made of address, passage, query, answer and entities with one blank line between them"
        raise DataError("E-CLZ-021", what, file=path.name, fix=FRESH_COPY)
    words, answer, rest = lines[3].split(), lines[7], [line for line in lines[9:] if line]
    names = _names([line for line in rest if line.startswith(ENTITY)], set(words))
    plain = [line for line in rest if not line.startswith(ENTITY)]
    tokens, entities = _named(path.name, 3, words, names, plain)
    query, query_entities = _named(path.name, 5, lines[5].split(), names, ())
    blank = _only_blank(path.name, 5, query, PLACEHOLDER)
    if answer.startswith(ENTITY) and not names.get(answer):
        raise line_fault(path.name, 7, "E-CLZ-025", "the answer is an entity without a name", "add its line")
    passage = passages.of(lines[1], tokens, entities, (len(tokens),))
    return ClozeExample(lines[1], passage, query, query_entities, blank, (Answer(names.get(answer, answer)),))


def _names(lines, words):
    """token -> what it stands for, of lines `token:its words`; or `token`, whose letters spell it."""
    names = {}
    for line in lines:
        token, colon, name = line.partition(":")
        if line in words or not colon:
            token, name = line, spelled(line)
        for match in re.finditer(":", line):  # a phrase may hold colons, and so does a token that spells it
            if spelled(line[: match.start()]) == line[match.end() :].replace("_", " "):
                token, name = line[: match.start()], line[match.end() :]
        names[token] = name.strip()
    return names


def spelled(token: str) -> str:
    """The words of a token of the set-up "ent"."""
    return token.removeprefix(ENTITY).replace("_", " ")


def _named(file, number, words, names, phrases):
    """(tokens with entities by their words, the entities). names: token -> words; phrases: marked where they stand."""
    tokens, entities = [], []
    for word in words:
        if names.get(word, "").split():
            start = len(tokens)
            tokens += names[word].split()
            entities.append(Entity(start, len(tokens)))
        elif word.startswith(ENTITY):
            raise line_fault(file, number, "E-CLZ-025", "an entity of the line has no name", "add its line at the end")
        else:
            tokens.append(word)
    return tuple(tokens), tuple(entities) if not phrases else tuple(_find(tokens, phrases))


def _find(tokens, phrases) -> Iterator[Entity]:
    """Where the phrases stand, the longest at each place, without overlap."""
    known = {}
    for words in sorted((tuple(phrase.split()) for phrase in phrases), key=len, reverse=True):
        known.setdefault(words[0], []).append(words)
    place = 0
    while place < len(tokens):
        found = (words for words in known.get(tokens[place], ()) if tuple(tokens[place : place + len(words)]) == words)
        length = len(next(found, ()))
        if length:
            yield Entity(place, place + length)
        place += length or 1


def _only_blank(file, number, query, mark):
    places = [place for place, token in enumerate(query) if token == mark]
    if len(places) != 1:
        what = f"the query holds {len(places)} of {mark}, expected one"
        raise line_fault(file, number, "E-CLZ-022", what, "correct or remove the query")
    return places[0]


def write_book_test(examples: Iterable[ClozeExample], path: Path) -> None:
    """The Children's Book Test's layout (Hill et al. 2016): numbered lines, the 21st with XXXXX, answer and candidates.

    A marked phrase is one token, `@entityw1_w2`. Longer passages have several sentences a line, so that there are at
    most 20. All candidates are written, not ten; a query without any is left out.
    """
    blocks = []
    for example, passage, view in all_views((e for e in examples if e.passage.entities), "ent"):
        words = _joined(example.passage.tokens, example.passage.entities, passage.names)
        ends = example.passage.sentences
        lines = min(BOOK_LINES, len(ends))
        cuts = [0, *(ends[(line + 1) * len(ends) // lines - 1] for line in range(lines))]
        block = [
            f"{number} {' '.join(filter(None, words[start:end]))}"
            for number, (start, end) in enumerate(pairwise(cuts), start=1)
        ]
        query = " ".join(BOOK_BLANK if place == view.blank else word for place, word in enumerate(view.query))
        answer, _ = _answer_and_names(example, view)
        candidates = "|".join(passage.names[phrase] for phrase in view.candidates)
        blocks.append("\n".join([*block, f"{BOOK_LINES + 1} {query}\t{answer}\t\t{candidates}", ""]))
    write_atomic(Path(path), "\n".join(blocks))


def _joined(tokens, entities, names):
    """Lower-cased tokens, each entity's token in the place of its first word and nothing in the others."""
    words = [token.lower() for token in tokens]
    for entity in entities:
        phrase = " ".join(words[entity.start : entity.end])
        words[entity.start : entity.end] = [names[phrase], *[""] * (entity.end - entity.start - 1)]
    return words


def read_book_test(path: Path) -> tuple[ClozeExample, ...]:
    """The queries of a file in the Children's Book Test's layout; uid is "<file stem>:<line of the query>".

    A line is a sentence. Plain candidates are marked wherever they stand. Raises: DataError(s).
    """
    path = either_name(Path(path)) or Path(path)
    stem = Path(path.name.removesuffix(".gz")).stem
    problems, passages, examples, lines = Problems(), Passages(), [], []
    for number, line in text_lines(path):
        try:
            if isinstance(line, DataError):
                raise line
            head, _, text = line.strip().partition(" ")
            if head == str(BOOK_LINES + 1):
                context, lines = lines, []
                examples.append(_book_query(path.name, number, f"{stem}:{number}", context, text, passages))
            elif head == str(len(lines) + 1):
                lines.append(text)
            elif line.strip():
                what = f"line {len(lines) + 1} of a passage, or its query as line {BOOK_LINES + 1}, should stand here"
                lines = []
                raise line_fault(path.name, number, "E-CLZ-021", what)
        except DataError as error:
            problems.add(error)
    if lines and not problems.total:
        problems.add(DataError("E-CLZ-021", "the last passage has no query", file=path.name, fix=FRESH_COPY))
    problems.raise_if_any()
    if not examples:
        raise DataError("E-CLZ-024", "holds no query", file=path.name, fix=FRESH_COPY)
    return tuple(examples)


def _book_query(file, number, uid, lines, text, passages):
    parts = text.split("\t")
    if len(parts) != 4 or not parts[1].strip() or not parts[3].strip() or not lines:
        what = "expected a passage before it, and a query, its answer, nothing and candidates between TABs"
        raise line_fault(file, number, "E-CLZ-021", what)
    candidates = [token.strip() for token in parts[3].split("|") if token.strip()]
    words = [line.split() for line in (*lines, parts[0], parts[1])]
    # Here a token spells its words, so that it needs no list of names.
    names = {word: spelled(word) for line in (*words, candidates) for word in line if word.startswith(ENTITY)}
    plain = [token for token in candidates if not token.startswith(ENTITY)]
    parts = [_named(file, number, line, names, plain) for line in words]
    tokens, entities, ends = [], [], []
    for line_tokens, line_entities in parts[:-2]:
        entities += (Entity(len(tokens) + entity.start, len(tokens) + entity.end) for entity in line_entities)
        tokens += line_tokens
        ends.append(len(tokens))
    query, query_entities = parts[-2]
    blank = _only_blank(file, number, query, BOOK_BLANK)
    query = (*query[:blank], PLACEHOLDER, *query[blank + 1 :])
    answer = Answer(" ".join(parts[-1][0]))
    return ClozeExample(uid, passages.of(uid, tokens, entities, ends), query, query_entities, blank, (answer,))
