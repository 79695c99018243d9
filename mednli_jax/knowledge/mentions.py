"""Concepts that another program found in a corpus's sentences, in place of the linker; and the
sentences for MetaMap.

A file of mentions (.tsv) is a table with tabs whose header names, in any order,

  uid side start end concept      and, if wanted,      score negated

`side` is premise or hypothesis, `concept` an id of the ontology. `start` and `end` (exclusive)
count the corpus's tokens from 0; `start_char` and `end_char` in their place count characters of its
sentence. `score` is a number, higher is better, 0 where it is empty; `negated` is 0 or 1, and only
counted.

MetaMap's fielded output (.mmi or .txt, of `metamap -N`; see MMI_Output_2016.pdf of the National
Library of Medicine) has lines ID|MMI|score|preferred name|CUI|[semantic types]|trigger
information|location|positional information|codes. MetaMap Lite leaves the location out, or writes a
bar after the codes (since 3.6.2rc4). Old releases write positions as start:length, with ^ between
the parts of a text. Lines on acronyms (AA and UA in place of MMI) are skipped. The ID is <uid>-p
for a premise and <uid>-h for a hypothesis; -premise, -hypothesis, .premise and .hypothesis are
understood. Positions count characters from 0, or from 1 where a wrapper passed a quoted sentence to
MetaMap: the trigger texts, which must be in the sentence at their positions, show it. If most of
them are at neither position, the file was made from other sentences, and is refused. Else a text
that is at neither is taken at its nearest place: quotes that pymetamap escapes move all positions
after them.

All files may be gzipped.
"""

import math
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, ne
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.examples import Mention, NLIExample
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

SENTENCE = {  # side -> its text and tokens
    "premise": attrgetter("premise", "premise_tokens"),
    "hypothesis": attrgetter("hypothesis", "hypothesis_tokens"),
}
ENDINGS = (".tsv", ".mmi", ".txt")  # of a file of mentions; .gz may follow
LINES = "metamap.txt"  # the file of `write_metamap_input`
Mentions = dict[
    tuple[str, str], tuple[Mention, ...]
]  # (uid, side) -> the mentions of the sentence, in order

_TOKENS, _CHARACTERS = ("start", "end"), ("start_char", "end_char")
_NEEDED, _OPTIONAL = ("uid", "side", "concept"), ("score", "negated")


@dataclass(frozen=True)
class Recognised:
    """The concepts that another program found in a corpus, in place of a Linker.

    ontology: may lack concepts. spans: a sentence without any mention is absent. facts: counts and
    the file's name.
    """

    ontology: Ontology
    spans: Mapping[tuple[str, str], Sequence[Mention]]
    facts: dict = field(default_factory=dict)

    def mentions(self, uid: str, side: str) -> list[Mention]:
        """The mentions of one sentence, in order."""
        return list(self.spans.get((uid, side), ()))

    def indices(self, concept: str) -> list[int]:
        """The concepts of the ontology that a mention's `concept` stands for."""
        return self.ontology.indices(concept)


def read_mentions(
    path: Path | str,
    examples: Sequence[NLIExample],
    *,
    partial: bool = False,
    candidates: str = "best",
) -> tuple[Mentions, dict]:
    """(mentions, facts) of a file of any format for the sentences of a corpus, as Recognised takes
    them.

    Args:
      examples: the corpus, all splits.
      partial: the corpus leaves out pairs of its files, so that an unknown uid is counted and is not an error.
      candidates: "all" keeps all mentions. "best" keeps, where mentions of a table overlap, the one of the best score,
        then the longest, then the first in the file; of MetaMap's candidates for the same tokens the one of the best
        score, then the first. Candidates of MetaMap for different tokens are all kept, also where they overlap.
    """
    path = Path(path)
    placing = _Placing(path, examples, partial)
    if path.name.removesuffix(".gz").endswith(".tsv"):
        _read_table(path, placing)
        choose, facts = _without_overlaps, {}
    else:
        choose, facts = _best_per_tokens, {"first_position": _read_metamap(path, placing)}
    if not placing.rows and not placing.problems.total:
        raise empty_file(path)
    found, counts = placing.chosen(list if candidates == "all" else choose)
    return found, counts | facts


class _Span(NamedTuple):
    """A concept at tokens `start` to `end` (exclusive)."""

    start: int
    end: int
    concept: str
    score: float
    negated: bool


class _Placing:
    """Checks and counts the spans of a file, and places them on the tokens of a corpus; see
    `read_mentions`."""

    def __init__(self, path: Path, examples: Sequence[NLIExample], partial: bool):
        self.path, self.partial = path, partial
        self.rows, self.problems, self.counts = 0, Problems(), Counter()
        self._examples = {example.uid: example for example in examples}
        # pairs that the corpus does not have -> the first line that names them
        self._unknown: dict[str, int] = {}
        self._offsets: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._spans: dict[tuple[str, str], list[_Span]] = {}

    def text(self, uid: str, side: str) -> str:
        """The text of a sentence, "" where there is none."""
        return SENTENCE[side](self._examples[uid])[0] if uid in self._examples else ""

    def add(
        self,
        line: int,
        uid: str,
        side: str,
        parts: Sequence[tuple[int, int]],
        rest: tuple,
        characters=True,
    ):
        """Adds a span for each part (start, end), in characters or tokens; those on neighbouring
        tokens are joined.

        rest: concept, score, negation. A part that has no place is noted as a fault, or counted.
        """
        joined = []
        for start, end in parts:
            place = self._place(line, uid, side, start, end, characters)
            if place and joined and joined[-1][0] <= place[0] <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], place[1]))
            elif place:
                joined.append(place)
        if joined:
            self._spans.setdefault((uid, side), []).extend(_Span(*place, *rest) for place in joined)

    def _place(self, line, uid, side, start, end, characters) -> tuple[int, int] | None:
        """The tokens (first, last + 1) of a part: all that have a character of it, else it is
        counted as "unplaced"."""
        if side not in SENTENCE:
            fix = f"write {' or '.join(SENTENCE)}"
            return self.fault(line, "field 'side' is neither premise nor hypothesis", "side", fix)
        if uid not in self._examples:
            if self.partial:
                self.counts["other_pairs"] += 1
            else:
                self._unknown.setdefault(uid, line)
            return None
        text, tokens = SENTENCE[side](self._examples[uid])
        size, unit = (len(text), "characters") if characters else (len(tokens), "tokens")
        if not 0 <= start < end <= size:
            problem = f"the span is {start} to {end}, the sentence has {size} {unit}"
            fix = f"count {unit} of the corpus's sentence from 0; the end is the first position after the span"
            return self.fault(line, problem, "end" if end > size else "start", fix)
        if not characters:
            return start, end
        if (uid, side) not in self._offsets:
            self._offsets[uid, side] = token_offsets(text, tokens)
        touched = [
            n
            for n, (first, last) in enumerate(self._offsets[uid, side])
            if first < end and start < last
        ]
        if touched:
            return touched[0], touched[-1] + 1
        self.counts["unplaced"] += 1
        return None

    def fault(self, line: int | None, problem: str, field: str, fix: str) -> None:
        self.problems.add(DataError(problem, file=self.path.name, line=line, field=field, fix=fix))

    def score(self, line: int, value) -> float:
        """The score as a number; one that is not finite is noted."""
        try:
            score = float(value or 0)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            self.fault(
                line, "field 'score' is no number", "score", "give a number, or leave it empty"
            )
        return score

    def chosen(self, choose) -> tuple[Mentions, dict]:
        """(mentions, counts): what `choose` leaves of each sentence's spans. Refuses a file of
        another corpus."""
        known = len({uid for uid, _ in self._spans})
        if self._unknown:
            line, total = min(self._unknown.values()), len(self._unknown)
            problem = f"{total} of the pairs that the file names are not among the corpus's {len(self._examples)}"
            fix = "make the file from this corpus, with its pairIDs; is it of another corpus, or of more splits?"
            self.fault(line, f"{problem}; {known} are", "uid", fix)
        elif self.counts["other_pairs"] and not known:
            problem = (
                f"none of the pairs that the file names is among the corpus's {len(self._examples)}"
            )
            self.fault(1, problem, "uid", "make the file from this corpus, with its pairIDs")
        self.problems.raise_if_any()
        found, counts = {}, {"spans": 0, "mentions": 0, "negated": 0, "outscored": 0}
        for sentence, spans in self._spans.items():
            best = sorted(choose(spans), key=attrgetter("start", "end"))
            counts["spans"] += len(spans)
            counts["mentions"] += len(best)
            counts["negated"] += sum(span.negated for span in best)
            counts["outscored"] += len(spans) - len(best)
            found[sentence] = tuple(Mention(span.start, span.end, span.concept) for span in best)
        return found, {"file": self.path.name, **counts, **self.counts}


def _without_overlaps(spans: Sequence[_Span]) -> list[_Span]:
    chosen = []
    for span in sorted(spans, key=lambda span: (-span.score, span.start - span.end)):
        if all(span.end <= other.start or other.end <= span.start for other in chosen):
            chosen.append(span)
    return chosen


def _best_per_tokens(spans: Sequence[_Span]) -> list[_Span]:
    best = {}
    for span in sorted(spans, key=lambda span: -span.score):
        best.setdefault((span.start, span.end), span)
    return list(best.values())


def _read_table(path: Path, placing: _Placing) -> None:
    """Adds the span of each row."""
    lines = text_lines(path, placing.problems)
    records = (
        (number, [cell.strip() for cell in line.split("\t")])
        for number, line in lines
        if line.strip()
    )

    def columns(number, header):
        names = set(header) - set(_OPTIONAL)
        if len(set(header)) == len(header) and names in (
            {*_NEEDED, *_TOKENS},
            {*_NEEDED, *_CHARACTERS},
        ):
            return header
        names = (
            "uid, side, start, end (or start_char, end_char), concept, and if wanted score, negated"
        )
        fix = f"the first line must name, between tabs and each once: {names}"
        raise line_fault(path.name, number, "the header is not that of this table", fix)

    for line, row in table_rows(path.name, records, placing.problems, columns):
        placing.rows += 1
        _take(placing, line, row)


def _take(placing: _Placing, line: int, row: Mapping[str, str]) -> None:
    """Adds one row of the file."""
    if empty := [name for name in _NEEDED if not row[name]]:
        return placing.problems.add(empty_field(placing.path, line, empty[0]))
    positions = _CHARACTERS if _CHARACTERS[0] in row else _TOKENS
    for name in positions:
        if not re.fullmatch(r"-?\d{1,9}", row[name]):
            return placing.fault(line, f"field '{name}' is no whole number", name, "count from 0")
    if (negated := row.get("negated", "")) not in ("", "0", "1"):
        return placing.fault(
            line, "field 'negated' is neither 0 nor 1", "negated", "write 0, 1 or nothing"
        )
    rest = (row["concept"], placing.score(line, row.get("score")), negated == "1")
    span = tuple(int(row[name]) for name in positions)
    placing.add(line, row["uid"], row["side"], [span], rest, characters=positions is _CHARACTERS)


# trigger texts: with fewer, those that a wrapper changed may be most of them
_FEW = 20
_ID = re.compile(r"(.+)(?:[.-](premise|hypothesis)|-([ph]))")
_SIDE = {side[0]: side for side in SENTENCE}
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
# Line, uid, side, parts (start, length) in characters as the file counts them, text of a single
# part, and the rest.
_Occurrence = tuple[int, str, str, list[tuple[int, int]], str | None, tuple[str, float, bool]]


def _read_metamap(path: Path, placing: _Placing) -> int:
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
            keep = f"zgrep -E '[|](MMI|AA|UA)[|]' {shlex.quote(str(path))} > lines.mmi"
            fix = f"keep only the lines of fielded output ({keep}); MetaMap also prints its command line"
            placing.fault(line, "not a line of MMI, AA or UA", "MMI", fix)
    first = _first_position(placing, occurrences)
    for line, uid, side, parts, text, rest in occurrences:
        places = [(start - first, start - first + length) for start, length in parts]
        if text is not None:
            places = [_nearest_place(placing.text(uid, side), text, *places[0])]
        placing.add(line, uid, side, places, rest)
    return first


def _nearest_place(sentence: str, text: str, start: int, end: int) -> tuple[int, int]:
    """(start, end) of a trigger text in its sentence: as given if it is there or nowhere, else its
    nearest place.

    The text may have escaped quotes. In a sentence that is not ASCII it has other characters.
    """
    if sentence[max(start, 0) : end].casefold() == text.casefold() or not sentence.isascii():
        return start, end
    words = re.compile(rf"(?<!\w){re.escape(text.replace(chr(92), ''))}(?!\w)", re.IGNORECASE)
    places = (match.span() for match in words.finditer(sentence))
    return min(places, key=lambda place: abs(place[0] - start), default=(start, end))


def _occurrences(placing: _Placing, line: int, fields: list[str]) -> Iterator[_Occurrence]:
    """The places that one MMI line names; none where the line is at fault."""
    rest = fields[6].rsplit("|", 3) if len(fields) == 7 else []
    if (
        len(rest) == 4 and not rest[3] and not _is_positions(rest[2])
    ):  # a bar at the end of the line
        rest = fields[6][:-1].rsplit("|", 3)
    if len(rest) == 4 and re.search(
        r'[\["]', rest[1]
    ):  # a bar in the last field of a line without location
        rest = ["|".join(rest[:2]), *rest[2:]]
    if len(rest) not in (3, 4) or not fields[4]:
        placing.fault(
            line, "the line has other fields than MMI output", "MMI", f"the form is {_FORM}"
        )
        return
    match = _ID.fullmatch(fields[0].strip("'\""))
    if not match:
        fix = "give MetaMap the ID <uid>-p for a premise and <uid>-h for a hypothesis"
        placing.fault(line, "the ID does not say which side of a pair it is", "ID", fix)
        return
    if not _is_positions(rest[-2]):
        fix = "positions are start/length, with commas, semicolons and brackets between them"
        placing.fault(line, "the positional information is malformed", "positions", fix)
        return
    side, sections = _SIDE[(match[2] or match[3])[0]], rest[-2].split(";")
    triggers = _triggers(rest[0])
    if len(triggers) != len(sections):  # the text of each position is then unknown
        triggers = [(None, bool(triggers) and all(negated for _, negated in triggers))] * len(
            sections
        )
    score = placing.score(line, fields[2])
    for section, (text, negated) in zip(sections, triggers, strict=True):
        for bracketed, plain in _OCCURRENCE.findall(section):
            pairs = [re.split("[/:]", pair) for pair in re.split("[,^]", bracketed or plain)]
            parts = [(int(start), int(length)) for start, length in pairs]
            yield (
                line,
                match[1],
                side,
                parts,
                text if len(parts) == 1 else None,
                (fields[4], score, negated),
            )


def _is_positions(field: str) -> bool:
    return all(_SECTION.fullmatch(section) for section in field.split(";"))


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


def _first_position(placing: _Placing, occurrences: Sequence[_Occurrence]) -> int:
    """1 if more triggers match their sentences when positions count from 1, else 0.

    If most match at neither, this is a fault; if some, a warning. In sentences that are not ASCII,
    triggers have other characters: these are left out.
    """
    agree, checked = Counter(), 0
    for _, uid, side, parts, text, _ in occurrences:
        sentence = placing.text(uid, side)
        if text is None or not sentence or not sentence.isascii():
            continue
        checked += 1
        ((start, length),) = parts
        for first in (0, 1):
            there = sentence[max(start - first, 0) : max(start - first, 0) + length]
            agree[first] += there.casefold() == text.casefold()
    if elsewhere := checked - max(agree.values(), default=0):
        problem = f"{elsewhere} of {checked} trigger texts are not at their positions in the corpus's sentences"
        placing.counts["texts_elsewhere"] = elsewhere
        if checked >= _FEW and 2 * elsewhere > checked:
            placing.fault(
                None,
                problem,
                "triggers",
                "run MetaMap on this version of the corpus (prepare --metamap)",
            )
        else:
            warn(
                f"{placing.path.name}: {problem}; they are taken at the nearest place of the text, if any"
            )
    return int(agree[1] > agree[0])


# Tokenisers write some characters of a sentence in another way; each side of this table has one
# character.
_STRAIGHT = str.maketrans("‘’‚“”„–—\u00a0", "'''\"\"\"-- ")
_SPELLED = {"``": '"', "''": '"', "--": "-", "...": "…", "`": "'"}
_AHEAD = 12  # characters by which a token may be later than expected


def token_offsets(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """The position of each token in its text: (first character, last + 1); (-1, -1) if it is not
    found.

    Case is ignored. Quotes and dashes may differ, and a token that a tokeniser changed does not
    shift those after it.
    """
    text, offsets, at, missed = text.translate(_STRAIGHT), [], 0, 0
    for token in tokens:
        place = _find(text, token, at, missed)
        offsets.append(place)
        if place[0] < 0:
            missed += len(token) + 1
        else:
            at, missed = place[1], 0
    return offsets


def _find(text, token, at, missed):
    while at < len(text) and text[at].isspace():
        at += 1
    spelled = _SPELLED.get(
        token, token.replace("\\/", "/").replace("\\*", "*").translate(_STRAIGHT)
    )
    if text.startswith(spelled, at):
        return at, at + len(spelled)
    for form in dict.fromkeys((spelled, token)):
        folded, size = form.casefold(), len(form)
        for start in range(at, min(at + _AHEAD + missed, len(text) - size) + 1):
            if text[start : start + size].casefold() == folded:
                return start, start + size
    return -1, -1


_SAME_LENGTH = {
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "–": "-",
    "—": "-",
    "×": "x",
    "µ": "u",
    "μ": "u",
}


def ascii_of(text: str) -> str:
    """The text with one ASCII character for each of its characters: the letter below an accent,
    else a space."""
    bare = (
        _SAME_LENGTH.get(character) or unicodedata.normalize("NFKD", character)[:1]
        for character in text
    )
    return "".join(character if " " <= character <= "~" else " " for character in bare)


def write_metamap_input(examples: Iterable[NLIExample], folder: Path) -> dict[str, int]:
    """Writes a corpus's sentences as MetaMap reads them (`metamap -N --sldiID`), for their owner
    alone; returns counts.

    metamap.txt has one sentence a line, `<uid>-p|sentence` for a premise, `-h` for a hypothesis.
    MetaMap reads only ASCII: every other character is replaced by one ASCII character, so that
    positions in MetaMap's output are those of the original sentence.
    """
    lines, changed = [], 0
    for example in examples:
        if "|" in example.uid or not example.uid.isascii():
            raise UsageError(
                "a uid has a bar or a character that is not ASCII", fix="give the pairs other uids"
            )
        for side, sentence in SENTENCE.items():
            text = sentence(example)[0]
            written = ascii_of(text)
            lines.append(f"{example.uid}-{side[0]}|{written}\n")
            changed += sum(map(ne, text, written))
    private_folder(folder)
    write_atomic(folder / LINES, "".join(lines))
    return {"sentences": len(lines), "changed_characters": changed}
