"""Concepts that another program found in a corpus's sentences, in place of the linker.

A file of mentions is MetaMap's output (.mmi or .txt) or a table (.tsv). The header of a table
names, between TABs and in any order,

  uid side start end concept      and, if wanted,      score negated

`side` is premise or hypothesis, `concept` an id of the ontology. `start` and `end` (exclusive)
count the corpus's tokens from 0; `start_char` and `end_char` in their place count characters of its
sentence. `score` is a number, higher is better, 0 where it is empty; `negated` is 0 or 1, and only
counted. All files may be gzipped.

MetaMap's fielded output is that of `metamap -N` (MMI_Output_2016.pdf of the National Library of
Medicine). Its lines are

  ID|MMI|score|preferred name|CUI|[semantic types]|triggers|location|positions|codes

- MetaMap Lite leaves the location out, or writes a bar after the codes (since 3.6.2rc4). Old
  releases write positions as start:length, with ^ between the parts of a text.
- Lines on acronyms (AA and UA in place of MMI) are skipped.
- The ID is <uid>-p for a premise and <uid>-h for a hypothesis; -premise, -hypothesis, .premise and
  .hypothesis are understood.
- Positions count characters from 0, or from 1 where a wrapper passed a quoted sentence to MetaMap.
  The trigger texts decide, because they must be in the sentence at their positions. If most of them
  are at neither position, the file was made from other sentences and is refused. Else each text at
  neither position is taken at the nearest place of the same text: pymetamap escapes quotes, which
  moves all positions after them.
"""

import math
import re
import shlex
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import Mention, NLIExample
from mednli_jax.data.text import token_offsets
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files import (
    empty_field,
    empty_file,
    line_fault,
    private_folder,
    table_rows,
    text_lines,
    write_atomic,
)
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.terminal import warn

ENDINGS = (".tsv", ".mmi", ".txt")  # of a file of mentions; .gz may follow
LINES = "metamap.txt"  # the file of `write_metamap_input`
_TOKENS, _CHARACTERS = ("start", "end"), ("start_char", "end_char")
_NEEDED, _OPTIONAL = ("uid", "side", "concept"), ("score", "negated")
# With fewer trigger texts, those that a wrapper changed may be most of them.
_FEW_TRIGGERS = 20
_ID = re.compile(r"(.+)(?:[.-](premise|hypothesis)|-([ph]))")
_SIDE = {side[0]: side for side in SIDES}
# "matched name"-location-sentence-"text"-part of speech-negation; the last two are absent in old
# releases. The quoted texts may hold quotes, commas and hyphens: a text begins after a middle and
# ends where a trigger can end.
_MIDDLE = re.compile(r'"-\w*-[0-9]+-"')
_ENDING = re.compile(r'"(?:-[^",]*-([01]))?(?:,(?=")|\]?$)')
_PAIR = r"\d{1,9}[/:]\d{1,9}"
_PARTS = rf"{_PAIR}(?:[,^]{_PAIR})*"
_BRACKETED = rf"\[{_PARTS}\](?:,\[{_PARTS}\])*"
_SECTION = re.compile(rf"{_BRACKETED}|{_PARTS}")
_OCCURRENCE = re.compile(rf"\[({_PARTS})\]|({_PARTS})")
_FORM = "ID|MMI|score|name|CUI|[types]|triggers|location|positions|tree codes"
_SAME_LENGTH = str.maketrans("‘’“”–—×µμ", "''\"\"--xuu")
# (uid, side) -> the mentions of the sentence, in order. A sentence without any is absent.
Mentions = dict[tuple[str, str], tuple[Mention, ...]]
Facts = dict[str, str | int]


class FileMentions(NamedTuple):
    """The mentions of a file. facts: the file's name, and counts of its spans and mentions."""

    mentions: Mentions
    facts: Facts


class Finding(NamedTuple):
    """A concept that a program found. score: higher is better."""

    concept: str
    score: float
    negated: bool


class Span(NamedTuple):
    """A concept at tokens `start` to `end` (exclusive)."""

    start: int
    end: int
    concept: str
    score: float
    negated: bool


# The spans of a sentence -> those that become its mentions.
Choice = Callable[[Sequence[Span]], Sequence[Span]]


class Sentence(NamedTuple):
    """A sentence of a corpus."""

    text: str
    tokens: tuple[str, ...]


def sentence_of(example: NLIExample, side: str) -> Sentence:
    if side == "premise":
        return Sentence(example.premise, example.premise_tokens)
    return Sentence(example.hypothesis, example.hypothesis_tokens)


@dataclass(frozen=True)
class Recognised:
    """The concepts that another program found in a corpus, in place of a Linker.

    ontology: may lack concepts. spans, facts: those of a FileMentions.
    """

    ontology: Ontology
    spans: Mapping[tuple[str, str], Sequence[Mention]]
    facts: Facts = field(default_factory=dict)

    def mentions(self, uid: str, side: str) -> list[Mention]:
        """The mentions of one sentence, in order."""
        return list(self.spans.get((uid, side), ()))

    def indices(self, concept: str) -> list[int]:
        """The concepts of the ontology that a mention's `concept` stands for."""
        return self.ontology.indices(concept)


def read_mentions(
    path: Path,
    examples: Sequence[NLIExample],
    *,
    partial: bool = False,
    candidates: str = "best",
) -> FileMentions:
    """The mentions of a file of any format for the sentences of a corpus.

    Args:
      examples: the corpus, all splits.
      partial: the corpus leaves out pairs of its files, so that an unknown uid is counted and is
        not an error.
      candidates: "all" keeps all mentions. "best" keeps, where mentions of a table overlap, the one
        of the best score, then the longest, then the first in the file; of MetaMap's candidates for
        the same tokens the one of the best score, then the first. Candidates of MetaMap for
        different tokens are all kept, also where they overlap.
    """
    placing = Placing(path, examples, partial)
    format_facts: Facts = {}
    if path.name.removesuffix(".gz").endswith(".tsv"):
        _read_table(path, placing)
        best = _without_overlaps
    else:
        format_facts["first_position"] = _read_metamap(path, placing)
        best = _best_per_tokens
    if not placing.rows and not placing.problems.total:
        raise empty_file(path)
    mentions, facts = placing.mentions(list if candidates == "all" else best)
    return FileMentions(mentions, facts | format_facts)


def _without_overlaps(spans: Sequence[Span]) -> list[Span]:
    chosen: list[Span] = []
    for span in sorted(spans, key=lambda span: (-span.score, span.start - span.end)):
        if all(span.end <= better.start or better.end <= span.start for better in chosen):
            chosen.append(span)
    return chosen


def _best_per_tokens(spans: Sequence[Span]) -> list[Span]:
    best: dict[tuple[int, int], Span] = {}
    for span in sorted(spans, key=lambda span: -span.score):
        best.setdefault((span.start, span.end), span)
    return list(best.values())


# -- spans on the tokens of a corpus ---------------------------------------------------------------


class Placing:
    """The spans of one file, placed on the tokens of a corpus, with the faults of its lines.

    Args:
      path: the file, for messages.
      examples: the corpus, all splits.
      partial: the corpus leaves out pairs of its files, so that an unknown uid is counted and is
        not an error.
    """

    def __init__(self, path: Path, examples: Sequence[NLIExample], partial: bool) -> None:
        self.path, self.partial = path, partial
        self.rows = 0  # lines of the file that state spans
        self.problems = Problems()
        self.counts: Counter[str] = Counter()
        self._examples = {example.uid: example for example in examples}
        # uid that the corpus does not have -> the first line that names it
        self._line_of_unknown: dict[str, int] = {}
        self._offsets: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._spans: dict[tuple[str, str], list[Span]] = {}

    def text(self, uid: str, side: str) -> str:
        """The text of a sentence, "" where there is none."""
        return sentence_of(self._examples[uid], side).text if uid in self._examples else ""

    def add(
        self,
        line: int,
        uid: str,
        side: str,
        pieces: Sequence[tuple[int, int]],
        finding: Finding,
        *,
        unit: str = "characters",
    ) -> None:
        """Adds a span for each piece (start, end) of a finding. Pieces on neighbouring tokens are
        one span. A piece outside the sentence is a fault; one on no token is counted.

        unit: of `pieces`, "characters" or "tokens".
        """
        if side not in SIDES:
            problem = "field 'side' is neither premise nor hypothesis"
            self.fault(line, problem, "side", f"write {' or '.join(SIDES)}")
        elif uid in self._examples:
            for start, end in self._places(line, uid, side, pieces, unit):
                span = Span(start, end, *finding)
                self._spans.setdefault((uid, side), []).append(span)
        elif self.partial:
            self.counts["other_pairs"] += len(pieces)
        else:
            self._line_of_unknown.setdefault(uid, line)

    def _places(
        self, line: int, uid: str, side: str, pieces: Sequence[tuple[int, int]], unit: str
    ) -> list[tuple[int, int]]:
        """(first token, last + 1) of the pieces."""
        sentence = sentence_of(self._examples[uid], side)
        size = len(sentence.tokens if unit == "tokens" else sentence.text)
        places: list[tuple[int, int]] = []
        for start, end in pieces:
            if not 0 <= start < end <= size:
                self.fault(
                    line,
                    f"the span is {start} to {end}, the sentence has {size} {unit}",
                    "end" if end > size else "start",
                    f"count {unit} of the corpus's sentence from 0; the end is the first position"
                    " after the span",
                )
                continue
            if unit == "characters":
                tokens = self._tokens_at(uid, side, start, end)
                if not tokens:
                    self.counts["unplaced"] += 1
                    continue
                start, end = tokens[0], tokens[-1] + 1
            if places and places[-1][0] <= start <= places[-1][1]:
                places[-1] = (places[-1][0], max(places[-1][1], end))
            else:
                places.append((start, end))
        return places

    def _tokens_at(self, uid: str, side: str, start: int, end: int) -> list[int]:
        """The tokens that have one of these characters."""
        if (uid, side) not in self._offsets:
            self._offsets[uid, side] = token_offsets(*sentence_of(self._examples[uid], side))
        offsets = enumerate(self._offsets[uid, side])
        return [token for token, (first, last) in offsets if first < end and start < last]

    def fault(self, line: int | None, problem: str, field: str, fix: str) -> None:
        self.problems.add(DataError(problem, file=self.path.name, line=line, field=field, fix=fix))

    def score(self, line: int, text: str) -> float:
        """The score as a number, 0 for ""; one that is not finite is a fault."""
        try:
            score = float(text or 0)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            fix = "give a number, or leave it empty"
            self.fault(line, "field 'score' is no number", "score", fix)
        return score

    def mentions(self, choose: Choice) -> FileMentions:
        """The spans that `choose` takes of each sentence. Raises the faults of the file."""
        self._check_pairs()
        self.problems.raise_if_any()
        mentions: Mentions = {}
        counts = Counter(spans=0, mentions=0, negated=0, outscored=0)
        for sentence, spans in self._spans.items():
            chosen = sorted(choose(spans), key=attrgetter("start", "end"))
            counts["spans"] += len(spans)
            counts["mentions"] += len(chosen)
            counts["negated"] += sum(span.negated for span in chosen)
            counts["outscored"] += len(spans) - len(chosen)
            mentions[sentence] = tuple(Mention(*span[:3]) for span in chosen)
        return FileMentions(mentions, {"file": self.path.name, **counts, **self.counts})

    def _check_pairs(self) -> None:
        """Refuses a file of another corpus."""
        placed = len({uid for uid, _ in self._spans})
        size = len(self._examples)
        if self._line_of_unknown:
            unknown = len(self._line_of_unknown)
            problem = (
                f"{unknown} of the pairs that the file names are not among the corpus's {size};"
                f" {placed} are"
            )
            fix = (
                "make the file from this corpus, with its pairIDs; is it of another corpus, or of"
                " more splits?"
            )
            self.fault(min(self._line_of_unknown.values()), problem, "uid", fix)
        elif self.counts["other_pairs"] and not placed:
            problem = f"none of the pairs that the file names is among the corpus's {size}"
            self.fault(1, problem, "uid", "make the file from this corpus, with its pairIDs")


# -- tables ----------------------------------------------------------------------------------------


def _read_table(path: Path, placing: Placing) -> None:
    """Adds the span of each row."""

    def columns(number: int, header: list[str]) -> list[str]:
        names = set(header) - set(_OPTIONAL)
        if names in ({*_NEEDED, *_TOKENS}, {*_NEEDED, *_CHARACTERS}):
            return header
        fix = (
            "the first line must name, between tabs and each once: uid, side, start, end (or"
            " start_char, end_char), concept, and if wanted score, negated"
        )
        raise line_fault(path.name, number, "the header is not that of this table", fix)

    records = _records(path, placing.problems)
    for line, row in table_rows(path.name, records, placing.problems, columns):
        placing.rows += 1
        _add_row(placing, line, row)


def _records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    for number, line in text_lines(path, problems):
        if line.strip():
            yield number, [cell.strip() for cell in line.split("\t")]


def _add_row(placing: Placing, line: int, row: Mapping[str, str]) -> None:
    for name in _NEEDED:
        if not row[name]:
            placing.problems.add(empty_field(placing.path, line, name))
            return
    positions = _CHARACTERS if _CHARACTERS[0] in row else _TOKENS
    for name in positions:
        if not re.fullmatch(r"-?\d{1,9}", row[name]):
            placing.fault(line, f"field '{name}' is no whole number", name, "count from 0")
            return
    negated = row.get("negated", "")
    if negated not in ("", "0", "1"):
        problem = "field 'negated' is neither 0 nor 1"
        placing.fault(line, problem, "negated", "write 0, 1 or nothing")
        return
    score = placing.score(line, row.get("score", ""))
    finding = Finding(row["concept"], score, negated == "1")
    start, end = (int(row[name]) for name in positions)
    unit = "tokens" if positions is _TOKENS else "characters"
    placing.add(line, row["uid"], row["side"], [(start, end)], finding, unit=unit)


# -- MetaMap's output ------------------------------------------------------------------------------


class _Trigger(NamedTuple):
    """text: of the sentence, None where it is unknown."""

    text: str | None
    negated: bool


class _Occurrence(NamedTuple):
    """A place of a concept. pieces: (start, length) in characters as the file counts them. text: of
    the trigger, if it has a single piece."""

    line: int
    uid: str
    side: str
    pieces: list[tuple[int, int]]
    text: str | None
    finding: Finding


def _read_metamap(path: Path, placing: Placing) -> int:
    """Adds the spans of each concept; returns the first position of a sentence, 0 or 1."""
    occurrences: list[_Occurrence] = []
    for line, text in text_lines(path, placing.problems):
        if not text.strip():
            continue
        placing.rows += 1
        fields = text.split("|", 6)
        kind = fields[1] if len(fields) > 1 else ""
        if kind == "MMI":
            occurrences += _occurrences(placing, line, fields)
        elif kind not in ("AA", "UA"):
            command = f"zgrep -E '[|](MMI|AA|UA)[|]' {shlex.quote(str(path))} > lines.mmi"
            fix = (
                f"keep only the lines of fielded output ({command}); MetaMap also prints its"
                " command line"
            )
            placing.fault(line, "not a line of MMI, AA or UA", "MMI", fix)
    first = _first_position(placing, occurrences)
    for line, uid, side, pieces, trigger, finding in occurrences:
        places = [(start - first, start - first + length) for start, length in pieces]
        if trigger is not None:
            places = [_nearest_place(placing.text(uid, side), trigger, *places[0])]
        placing.add(line, uid, side, places, finding)
    return first


def _nearest_place(sentence: str, text: str, start: int, end: int) -> tuple[int, int]:
    """The (start, end) of a trigger's text in a sentence.

    The stated place is taken where it has the text, and where no place has it; otherwise the
    nearest place with the text. In a sentence that is not ASCII the text has other characters, and
    the stated place is taken. The text may have escaped quotes.
    """
    if sentence[max(start, 0) : end].casefold() == text.casefold() or not sentence.isascii():
        return start, end
    unescaped = re.escape(text.replace("\\", ""))
    matches = re.finditer(rf"(?<!\w){unescaped}(?!\w)", sentence, re.IGNORECASE)
    places = (match.span() for match in matches)
    return min(places, key=lambda place: abs(place[0] - start), default=(start, end))


def _occurrences(placing: Placing, line: int, fields: list[str]) -> Iterator[_Occurrence]:
    """The places of the concept of an MMI line; none, and a fault, for a malformed line."""
    ending = _triggers_and_positions(fields[6]) if len(fields) == 7 else None
    if ending is None or not fields[4]:
        problem = "the line has other fields than MMI output"
        placing.fault(line, problem, "MMI", f"the form is {_FORM}")
        return
    ident = _ID.fullmatch(fields[0].strip("'\""))
    if not ident:
        fix = "give MetaMap the ID <uid>-p for a premise and <uid>-h for a hypothesis"
        placing.fault(line, "the ID does not say which side of a pair it is", "ID", fix)
        return
    triggers, positions = _triggers(ending[0]), ending[1]
    if not _is_positions(positions):
        fix = "positions are start/length, with commas, semicolons and brackets between them"
        placing.fault(line, "the positional information is malformed", "positions", fix)
        return
    uid, side = ident[1], _SIDE[(ident[2] or ident[3])[0]]
    sections = positions.split(";")
    if len(triggers) != len(sections):
        negated = bool(triggers) and all(trigger.negated for trigger in triggers)
        triggers = [_Trigger(None, negated)] * len(sections)
    score = placing.score(line, fields[2])
    for section, trigger in zip(sections, triggers, strict=True):
        finding = Finding(fields[4], score, trigger.negated)
        for bracketed, plain in _OCCURRENCE.findall(section):
            pieces = []
            for pair in re.split("[,^]", bracketed or plain):
                start, length = re.split("[/:]", pair)
                pieces.append((int(start), int(length)))
            text = trigger.text if len(pieces) == 1 else None
            yield _Occurrence(line, uid, side, pieces, text, finding)


def _triggers_and_positions(text: str) -> tuple[str, str] | None:
    """(triggers, positions) of the end of a line; None where it has other fields."""
    cells = text.rsplit("|", 3)
    if len(cells) == 4 and not cells[3] and not _is_positions(cells[2]):
        cells = text[:-1].rsplit("|", 3)  # without the bar at the end of the line
    if len(cells) == 4 and re.search(r'[\["]', cells[1]):
        # The line has no location, and its triggers hold a bar.
        cells = ["|".join(cells[:2]), *cells[2:]]
    return (cells[0], cells[-2]) if len(cells) >= 3 else None


def _is_positions(field: str) -> bool:
    return all(_SECTION.fullmatch(section) for section in field.split(";"))


def _triggers(field: str) -> list[_Trigger]:
    triggers: list[_Trigger] = []
    starts = deque(match.end() for match in _MIDDLE.finditer(field))
    for ending in _ENDING.finditer(field):
        if starts and starts[0] <= ending.start():
            triggers.append(_Trigger(field[starts[0] : ending.start()], ending[1] == "1"))
            while starts and starts[0] <= ending.end():
                starts.popleft()
    return triggers


def _first_position(placing: Placing, occurrences: Sequence[_Occurrence]) -> int:
    """1 if more triggers match their sentences when positions count from 1, else 0.

    If most match at neither, this is a fault; if some, a warning. In sentences that are not ASCII,
    triggers have other characters: these are left out.
    """
    checked, matches = 0, [0, 0]  # matches: by the first position
    for occurrence in occurrences:
        sentence = placing.text(occurrence.uid, occurrence.side)
        if occurrence.text is None or not sentence or not sentence.isascii():
            continue
        checked += 1
        ((start, length),) = occurrence.pieces
        for first in (0, 1):
            begin = max(start - first, 0)
            text = sentence[begin : begin + length]
            matches[first] += text.casefold() == occurrence.text.casefold()
    if elsewhere := checked - max(matches):
        problem = (
            f"{elsewhere} of {checked} trigger texts are not at their positions in the corpus's"
            " sentences"
        )
        placing.counts["texts_elsewhere"] = elsewhere
        if checked >= _FEW_TRIGGERS and 2 * elsewhere > checked:
            fix = "run MetaMap on this version of the corpus (prepare --metamap)"
            placing.fault(None, problem, "triggers", fix)
        else:
            file = placing.path.name
            warn(f"{file}: {problem}; they are taken at the nearest place of the text, if any")
    return int(matches[1] > matches[0])


# -- MetaMap's input -------------------------------------------------------------------------------


class MetaMapInput(NamedTuple):
    """Counts of what was written."""

    sentences: int
    changed_characters: int


def write_metamap_input(examples: Iterable[NLIExample], folder: Path) -> MetaMapInput:
    """Writes a corpus's sentences as MetaMap reads them (`metamap -N --sldiID`), for their owner
    alone.

    metamap.txt has one sentence a line, `<uid>-p|sentence` for a premise, `-h` for a hypothesis.
    MetaMap reads only ASCII: every other character is replaced by one ASCII character, so that
    positions in MetaMap's output are those of the original sentence.
    """
    lines, changed = [], 0
    for example in examples:
        if "|" in example.uid or not example.uid.isascii():
            problem = "a uid has a bar or a character that is not ASCII"
            raise UsageError(problem, fix="give the pairs other uids")
        for side in SIDES:
            text = sentence_of(example, side).text
            written = ascii_of(text)
            lines.append(f"{example.uid}-{side[0]}|{written}\n")
            changed += sum(before != after for before, after in zip(text, written, strict=True))
    private_folder(folder)
    write_atomic(folder / LINES, "".join(lines))
    return MetaMapInput(len(lines), changed)


def ascii_of(text: str) -> str:
    """The text with one ASCII character for each of its characters: the letter below an accent,
    else a space."""
    letters = ""
    for character in text.translate(_SAME_LENGTH):
        letter = unicodedata.normalize("NFKD", character)[:1]
        letters += letter if " " <= letter <= "~" else " "
    return letters
