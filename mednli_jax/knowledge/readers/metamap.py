"""Reader of MetaMap's fielded MMI output (`metamap -N`), which names the concepts of a corpus's sentences.

A line holds, between bars: ID|MMI|score|preferred name|CUI|[semantic types]|trigger information|location|positional
information|tree codes. MetaMap Lite leaves the location out; both are read, as are the positions of old releases
(start:length, ^ between the parts of a text that is not in one piece). See MMI_Output_2016.pdf of the National Library
of Medicine. Lines on acronyms (AA and UA in place of MMI) contain no concepts. They are counted.

Give MetaMap one sentence a line (--sldiID) under the ID <uid>-p for a premise and <uid>-h for a hypothesis; -premise,
-hypothesis, .premise and .hypothesis are understood too. MetaMap uses full stops in its identifiers, so an ID
is safer without.

Positions count characters from 0 by the official documentation. Wrappers that pass a quoted sentence to MetaMap shift
them by one. The trigger texts, which must be in the sentence at their positions, show which is the case. If most of
them are at neither position, the file was made from other sentences, and is refused.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.knowledge.readers.spans import SENTENCE, Placing, Span
from mednli_jax.progress import warn
from mednli_jax.textfiles import empty_file, text_lines

ACRONYMS = ("AA", "UA")
FEW = 20  # trigger texts: with fewer, those that a wrapper changed may be most of them
_ID = re.compile(r"(.+)(?:[.-](premise|hypothesis)|-([ph]))")
_SIDE = {side[0]: side for side in SENTENCE}
# "matched name"-location-sentence-"text"-part of speech-negation; the last two are absent in old releases. The quoted
# texts may hold quotes, commas and hyphens: a text begins after a middle and ends where a trigger can end.
_MIDDLE = re.compile(r'"-\w*-[0-9]+-"')
_ENDING = re.compile(r'"(?:-[^",]*-([01]))?(?:,(?=")|\]?$)')
_PAIR = r"\d{1,9}[/:]\d{1,9}"
_PARTS = rf"{_PAIR}(?:[,^]{_PAIR})*"
_BRACKETED = rf"\[{_PARTS}\](?:,\[{_PARTS}\])*"
_SECTION = re.compile(rf"{_BRACKETED}|{_PARTS}")
_OCCURRENCE = re.compile(rf"\[({_PARTS})\]|({_PARTS})")
_FORM = "ID|MMI|score|name|CUI|[types]|triggers|location|positions|tree codes"


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """A concept at one place: parts are (start, length) in characters as the file counts them; text, if in one part."""

    line: int
    uid: str
    side: str
    concept: str
    score: float
    parts: tuple[tuple[int, int], ...]
    text: str | None
    negated: bool


def read_metamap(
    path: Path | str,
    examples: Sequence,
    *,
    partial: bool = False,
    candidates: str = "best",
) -> tuple[dict[tuple[str, str], tuple[Span, ...]], dict]:
    """Read MMI output for the sentences of a corpus.

    Candidates for different tokens are all kept, also where they overlap: a token may belong to several concepts. A
    text in several pieces gives a span for each piece.

    Args:
      examples: the corpus, all splits. partial: see spans.Placing.
      candidates: of several for the same tokens, "best" keeps the one of the best score, then the first in the file,
        "all" keeps all.

    Returns:
      ({(uid, side): spans}, facts), as spans.Recognised takes them.

    Raises: DataError, or DataErrors with the first 20 faults.
    """
    path = Path(path)
    placing = Placing(path, examples, partial)
    occurrences, lines = [], 0
    for line, text in text_lines(path, placing.problems):
        if not text.strip():
            continue
        lines += 1
        fields = text.split("|", 6)
        kind = fields[1] if len(fields) > 1 else ""
        if kind in ACRONYMS:
            placing.counts[f"lines_{kind}"] += 1
        elif kind == "MMI":
            occurrences += _occurrences(placing, line, fields)
        else:
            fix = "keep only lines of fielded output (metamap -N --silent)"
            placing.fault(line, "not a line of MMI, AA or UA", "MMI", fix)
    if not lines and not placing.problems.total:
        raise empty_file(path)
    first = _first_position(placing, occurrences)
    for occurrence in occurrences:
        _place(placing, occurrence, first)
    spans, facts = placing.chosen(list if candidates == "all" else best_per_tokens)
    return spans, facts | {"first_position": first}


def best_per_tokens(spans: Sequence[Span]) -> list[Span]:
    """One span for each set of tokens: the one with the best score, then the first given."""
    best = {}
    for span in spans:
        known = best.get((span.start, span.end))
        if known is None or span.score > known.score:
            best[span.start, span.end] = span
    return list(best.values())


def _occurrences(placing: Placing, line: int, fields: list[str]) -> list[_Occurrence]:
    """The places that one MMI line names; none where the line is at fault."""
    rest = fields[6].rsplit("|", 3) if len(fields) == 7 else []
    if len(rest) == 4 and re.search(r'[\["]', rest[1]):  # a bar in the last field of a line without location
        rest = ["|".join(rest[:2]), *rest[2:]]
    if len(rest) not in (3, 4) or not fields[4]:
        placing.fault(line, "the line has other fields than MMI output", "MMI", f"the form is {_FORM}")
        return []
    match = _ID.fullmatch(fields[0].strip("'\""))
    if not match:
        fix = "give MetaMap the ID <uid>-p for a premise and <uid>-h for a hypothesis"
        placing.fault(line, "the ID does not say which side of a pair it is", "ID", fix)
        return []
    sections = rest[-2].split(";")
    if not all(_SECTION.fullmatch(section) for section in sections):
        fix = "positions are start/length, with commas, semicolons and brackets between them"
        placing.fault(line, "the positional information is malformed", "positions", fix)
        return []
    uid, side = match[1], _SIDE[(match[2] or match[3])[0]]
    triggers = _triggers(rest[0])
    if len(triggers) != len(sections):  # the text of each position is then unknown
        triggers = [(None, bool(triggers) and all(negated for _, negated in triggers))] * len(sections)
    score = placing.score(line, fields[2])
    found = []
    for section, (text, negated) in zip(sections, triggers, strict=True):
        for bracketed, plain in _OCCURRENCE.findall(section):
            pairs = [re.split("[/:]", pair) for pair in re.split("[,^]", bracketed or plain)]
            parts = tuple((int(start), int(length)) for start, length in pairs)
            whole = text if len(parts) == 1 else None
            found.append(_Occurrence(line, uid, side, fields[4], score, parts, whole, negated))
    return found


def _triggers(field: str) -> list[tuple[str | None, bool]]:
    """(text of the sentence, whether it is negated) of each trigger."""
    found, texts = [], iter([match.end() for match in _MIDDLE.finditer(field)])
    text = next(texts, len(field))
    for ending in _ENDING.finditer(field):
        if text <= ending.start():
            found.append((field[text : ending.start()], ending[1] == "1"))
            while text <= ending.end():
                text = next(texts, len(field) + 1)
    return found


def _first_position(placing: Placing, occurrences: Sequence[_Occurrence]) -> int:
    """1 if more triggers match their sentences when positions count from 1, else 0.

    Adds a problem if most match at neither, and warns if some do not. Sentences that are not ASCII are left
    out: their triggers have other characters.
    """
    agree, checked = Counter(), 0
    for occurrence in occurrences:
        sentence = placing.text(occurrence.uid, occurrence.side)
        if occurrence.text is None or sentence is None or not sentence.isascii():
            continue
        checked += 1
        ((start, length),) = occurrence.parts
        for first in (0, 1):
            there = sentence[max(start - first, 0) : max(start - first, 0) + length]
            agree[first] += there.casefold() == occurrence.text.casefold()
    if elsewhere := checked - max(agree.values(), default=0):
        problem = f"{elsewhere} of {checked} trigger texts are not at their positions in the corpus's sentences"
        placing.counts["texts_elsewhere"] = elsewhere
        if checked >= FEW and 2 * elsewhere > checked:
            placing.fault(None, problem, "triggers", "run MetaMap on this version of the corpus (prepare --metamap)")
        else:
            warn(f"{placing.path.name}: {problem}; their concepts are taken as they are")
    return int(agree[1] > agree[0])


def _place(placing: Placing, occurrence: _Occurrence, first: int) -> None:
    """Keeps a span for each piece of the occurrence; pieces on neighbouring tokens are joined."""
    spans = []
    for start, length in occurrence.parts:
        begin = start - first
        place = placing.place(occurrence.line, occurrence.uid, occurrence.side, begin, begin + length)
        if place is None:
            continue
        if spans and spans[-1][0] <= place[0] <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], place[1]))
        else:
            spans.append(place)
    for begin, end in spans:
        span = Span(begin, end, occurrence.concept, occurrence.score, occurrence.negated)
        placing.keep(occurrence.uid, occurrence.side, span)
