"""Concepts that another program found in a corpus's sentences, in place of the linker.

A file of mentions is a table (.tsv), JSON lines (.jsonl) or MetaMap's output (.mmi, .txt), also
gzipped. launch/data/mentions.py makes a table from the files of other programs.

The header of a table names, between TABs and in any order, the fields

  split id side start end concept

and the objects of JSON lines have them, too. `split` and `id` are those of the pair, `side` is
premise or hypothesis, `start` and `end` (exclusive) count characters of the corpus's sentence from
0, and `concept` is an id of the ontology. Further fields are ignored.

MetaMap's fielded output is that of `metamap -N` (MMI_Output_2016.pdf of the National Library of
Medicine) for the sentences that `write_metamap_input` writes. Its lines are

  ID|MMI|score|preferred name|CUI|[semantic types]|triggers|location|positions|codes

- The ID is <uid>-p for a premise and <uid>-h for a hypothesis.
- Positions count characters from 0. The trigger texts must be in the sentence at their positions:
  where most are not, the file was made from other sentences and is refused.
- Lines on acronyms (AA and UA in place of MMI) are skipped.
"""

import math
import re
import shlex
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.data.text import token_offsets
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files.reading import (
    empty_field,
    empty_file,
    json_lines,
    line_fault,
    table_rows,
    text_lines,
)
from mednli_jax.files.writing import private_folder, write_atomic
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.terminal import warn
from mednli_jax.types import JsonObject

METAMAP = (".mmi", ".txt")
ENDINGS = (".tsv", ".jsonl", *METAMAP)  # of a file of mentions; .gz may follow
CONVERT = "launch/data/mentions.py makes a table from the files of other programs"
FIELDS = ("split", "id", "side", "start", "end", "concept")
LINES = "metamap.txt"  # the file of `write_metamap_input`
_ID = re.compile(r"(.+)-([ph])")
_SIDE = {side[0]: side for side in SIDES}
# "matched name"-location-sentence-"text"-part of speech-negation; the last two are absent in old
# releases. The quoted texts may hold quotes, commas and hyphens: a text begins after a middle and
# ends where a trigger can end.
_MIDDLE = re.compile(r'"-\w*-[0-9]+-"')
_ENDING = re.compile(r'"(?:-[^",]*-[01])?(?:,(?=")|\]?$)')
_PAIR = r"\d{1,9}[/:]\d{1,9}"  # start:length in old releases, with ^ between the parts of a text
_PARTS = rf"{_PAIR}(?:[,^]{_PAIR})*"
_BRACKETED = rf"\[{_PARTS}\](?:,\[{_PARTS}\])*"
_SECTION = re.compile(rf"{_BRACKETED}|{_PARTS}")
_OCCURRENCE = re.compile(rf"\[({_PARTS})\]|({_PARTS})")
_FORM = "ID|MMI|score|name|CUI|[types]|triggers|location|positions|tree codes"
_SAME_LENGTH = str.maketrans("‘’“”–—×µμ", "''\"\"--xuu")
# (uid, side) -> the mentions of the sentence, in order. A sentence without any is absent.
Mentions = dict[tuple[str, str], tuple[Mention, ...]]
Splits = Mapping[str, Split[NLIExample]]


class FileMentions(NamedTuple):
    """The mentions that a file holds. facts: the file's name, and counts of its spans and
    mentions."""

    mentions: Mentions
    facts: JsonObject


class Span(NamedTuple):
    """A concept that the tokens `start` to `end` (exclusive) name. score: higher is better."""

    start: int
    end: int
    concept: str
    score: float


class Sentence(NamedTuple):
    """A sentence of a corpus, as text and as tokens."""

    text: str
    tokens: tuple[str, ...]


def sentence_of(example: NLIExample, side: str) -> Sentence:
    if side == "premise":
        return Sentence(example.premise, example.premise_tokens)
    return Sentence(example.hypothesis, example.hypothesis_tokens)


@dataclass(frozen=True)
class Recognised:
    """The concepts that another program found in a corpus, in place of a Linker.

    Args:
      ontology: may lack some of the concepts.
      spans, facts: of a FileMentions.
    """

    ontology: Ontology
    spans: Mapping[tuple[str, str], Sequence[Mention]]
    facts: JsonObject = field(default_factory=dict)

    def mentions(self, uid: str, side: str) -> list[Mention]:
        """The mentions of one sentence, in order."""
        return list(self.spans.get((uid, side), ()))

    def indices(self, concept: str) -> list[int]:
        """The concepts of the ontology that a mention's `concept` stands for."""
        return self.ontology.indices(concept)


def read_mentions(
    path: Path, splits: Splits, *, partial: bool = False, candidates: str = "best"
) -> FileMentions:
    """Reads the mentions for the sentences of a corpus from a file of any format.

    Args:
      splits: the corpus.
      partial: whether the corpus leaves out pairs of its files. An unknown pair is then counted and
        is not an error.
      candidates: of several concepts for the same tokens takes the "best" (the best score, then the
        first in the file), or "all". Concepts for other tokens all stay, also if they overlap.
    """
    placing = Placing(path, splits, partial)
    if path.name.removesuffix(".gz").endswith(METAMAP):
        _read_metamap(path, placing)
    else:
        _read_rows(path, placing)
    if not placing.rows and not placing.problems.total:
        raise empty_file(path)
    return placing.mentions(candidates)


# -- spans on the tokens of a corpus ---------------------------------------------------------------


class Placing:
    """The spans of one file, placed on the tokens of a corpus, with the faults of its lines.

    Args:
      path: the file, for messages.
      splits: the corpus.
      partial: see read_mentions.
    """

    def __init__(self, path: Path, splits: Splits, partial: bool) -> None:
        self.path, self.partial = path, partial
        self.rows = 0  # lines of the file that state spans
        self.problems = Problems()
        self.counts: Counter[str] = Counter()
        self._examples: dict[str, NLIExample] = {}
        self._uid_of: dict[tuple[str, str], str] = {}  # (split, id) -> uid
        for name, split in splits.items():
            for example in split.examples:
                self._examples[example.uid] = example
                self._uid_of[name, example.uid] = example.uid
                # The uid begins with the split where ids count from 0 in each split.
                self._uid_of.setdefault((name, example.uid.removeprefix(f"{name}:")), example.uid)
        # pair that the corpus does not have -> the first line that names it
        self._line_of_unknown: dict[str, int] = {}
        self._offsets: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._spans: dict[tuple[str, str], list[Span]] = {}

    def uid(self, split: str, pair_id: str) -> str:
        """The uid of a pair, or "SPLIT ID" if the corpus has no such pair."""
        return self._uid_of.get((split, pair_id), f"{split} {pair_id}")

    def text(self, uid: str, side: str) -> str:
        """The text of a sentence, or "" if the corpus has no such sentence."""
        return sentence_of(self._examples[uid], side).text if uid in self._examples else ""

    def add(
        self,
        line: int,
        uid: str,
        side: str,
        pieces: Sequence[tuple[int, int]],
        concept: str,
        score: float = 0.0,
    ) -> None:
        """Adds a span for each piece (start, end), in characters, of a concept. Pieces on
        neighbouring tokens are one span. A piece outside the sentence is a fault; one on no token
        is counted."""
        if side not in SIDES:
            problem = "field 'side' is neither premise nor hypothesis"
            self.fault(line, problem, "side", f"write {' or '.join(SIDES)}")
        elif uid in self._examples:
            for start, end in self._places(line, uid, side, pieces):
                self._spans.setdefault((uid, side), []).append(Span(start, end, concept, score))
        elif self.partial:
            self.counts["other_pairs"] += len(pieces)
        else:
            self._line_of_unknown.setdefault(uid, line)

    def _places(
        self, line: int, uid: str, side: str, pieces: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The [(first token, last + 1)] of the pieces."""
        size = len(self.text(uid, side))
        places: list[tuple[int, int]] = []
        for start, end in pieces:
            if not 0 <= start < end <= size:
                problem = f"the span is {start} to {end}, the sentence has {size} characters"
                fix = (
                    "count characters of the corpus's sentence from 0; the end is the first"
                    " position after the span"
                )
                self.fault(line, problem, "end" if end > size else "start", fix)
                continue
            tokens = self._tokens_at(uid, side, start, end)
            if not tokens:
                self.counts["unplaced"] += 1
                continue
            first, last = tokens[0], tokens[-1] + 1
            if places and places[-1][0] <= first <= places[-1][1]:
                places[-1] = (places[-1][0], max(places[-1][1], last))
            else:
                places.append((first, last))
        return places

    def _tokens_at(self, uid: str, side: str, start: int, end: int) -> list[int]:
        """The tokens that have a character between `start` and `end`."""
        if (uid, side) not in self._offsets:
            self._offsets[uid, side] = token_offsets(*sentence_of(self._examples[uid], side))
        offsets = enumerate(self._offsets[uid, side])
        return [token for token, (first, last) in offsets if first < end and start < last]

    def fault(self, line: int | None, problem: str, field: str, fix: str) -> None:
        self.problems.add(DataError(problem, file=self.path.name, line=line, field=field, fix=fix))

    def mentions(self, candidates: str) -> FileMentions:
        """The mentions of each sentence. candidates: see read_mentions. Raises the faults of the
        file."""
        self._check_pairs()
        self.problems.raise_if_any()
        mentions: Mentions = {}
        counts = Counter(spans=0, mentions=0)
        for sentence, spans in self._spans.items():
            chosen = sorted(
                spans if candidates == "all" else _best(spans), key=attrgetter("start", "end")
            )
            counts["spans"] += len(spans)
            counts["mentions"] += len(chosen)
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
                "make the file from this corpus, with its pairIDs and the splits train, dev and"
                " test; is it of another corpus, or of more splits?"
            )
            self.fault(min(self._line_of_unknown.values()), problem, "id", fix)
        elif self.counts["other_pairs"] and not placed:
            problem = f"none of the pairs that the file names is among the corpus's {size}"
            self.fault(1, problem, "id", "make the file from this corpus, with its pairIDs")


def _best(spans: Sequence[Span]) -> list[Span]:
    """Takes one of the spans at the same tokens: the one of the best score, then the first."""
    best: dict[tuple[int, int], Span] = {}
    for span in sorted(spans, key=lambda span: -span.score):
        best.setdefault((span.start, span.end), span)
    return list(best.values())


# -- tables and JSON lines -------------------------------------------------------------------------


def _read_rows(path: Path, placing: Placing) -> None:
    """Adds the span of each row of a table or of JSON lines."""

    def columns(number: int, header: list[str]) -> list[str]:
        if set(FIELDS) <= set(header):
            return header
        fix = f"the first line must name, between tabs, {', '.join(FIELDS)}; {CONVERT}"
        raise line_fault(path.name, number, "the header is not that of mentions", fix)

    problems = placing.problems
    if path.name.removesuffix(".gz").endswith(".tsv"):
        rows = table_rows(path.name, _records(path, problems), problems, columns)
    else:
        rows = json_lines(path, problems)
    for line, row in rows:
        placing.rows += 1
        _add_row(placing, line, {name: str(row.get(name, "")).strip() for name in FIELDS})


def _records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    for number, line in text_lines(path, problems):
        if line.strip():
            yield number, line.split("\t")


def _add_row(placing: Placing, line: int, row: Mapping[str, str]) -> None:
    for name in FIELDS:
        if not row[name]:
            placing.problems.add(empty_field(placing.path, line, name))
            return
    for name in ("start", "end"):
        if not re.fullmatch(r"-?\d{1,9}", row[name]):
            placing.fault(line, f"field '{name}' is no whole number", name, "count from 0")
            return
    uid = placing.uid(row["split"], row["id"])
    pieces = [(int(row["start"]), int(row["end"]))]
    placing.add(line, uid, row["side"], pieces, row["concept"])


# -- MetaMap's output ------------------------------------------------------------------------------


class Occurrence(NamedTuple):
    """One occurrence of a concept in a sentence.

    Args:
      pieces: (start, end) in characters.
      text: of the trigger; "" if the occurrence has several pieces or the trigger is not known.
    """

    uid: str
    side: str
    pieces: list[tuple[int, int]]
    text: str
    concept: str
    score: float


def _read_metamap(path: Path, placing: Placing) -> None:
    """Adds the spans of each concept in MetaMap's output."""
    checked, elsewhere = 0, 0
    for line, text in text_lines(path, placing.problems):
        if not text.strip():
            continue
        placing.rows += 1
        fields = text.split("|", 6)
        kind = fields[1] if len(fields) > 1 else ""
        if kind in ("AA", "UA"):
            continue
        try:
            for occurrence in _mmi_occurrences(path, kind, fields):
                uid, side, pieces, trigger, concept, score = occurrence
                ((start, end), *_) = pieces
                sentence = placing.text(uid, side)
                if trigger and sentence:
                    checked += 1
                    elsewhere += not same_text(sentence[start:end], trigger)
                placing.add(line, uid, side, pieces, concept, score)
        except DataError as error:
            placing.fault(line, error.problem, error.field or "MMI", error.fix)
    if elsewhere:
        _report_elsewhere(placing, elsewhere, checked)


def _mmi_occurrences(path: Path, kind: str, fields: Sequence[str]) -> list[Occurrence]:
    """The occurrences of the concept of a line of MetaMap's output."""
    if kind != "MMI":
        command = f"zgrep -E '[|](MMI|AA|UA)[|]' {shlex.quote(str(path))} > lines.mmi"
        note = "MetaMap also prints its command line"
        fix = f"keep only the lines of fielded output ({command}); {note}"
        raise DataError("not a line of MMI, AA or UA", field="MMI", fix=fix)
    ending = fields[-1].rsplit("|", 3)
    if len(fields) < 7 or len(ending) < 4:
        raise other_fields()
    triggers, _, positions, _ = ending
    return occurrences(fields, triggers, positions)


def other_fields() -> DataError:
    """The error for a line that does not have MetaMap's form."""
    fix = f"the form is {_FORM}; {CONVERT}"
    return DataError("the line has other fields than MetaMap's MMI output", field="MMI", fix=fix)


def occurrences(fields: Sequence[str], triggers: str, positions: str) -> list[Occurrence]:
    """The occurrences of the concept of an MMI line. fields: the first five fields of the line.
    Raises DataError, without a file, for a malformed line."""
    ident, _, score_text, _, concept = fields[:5]
    if not concept:
        raise other_fields()
    match = _ID.fullmatch(ident)
    if not match:
        fix = "give MetaMap the ID <uid>-p for a premise and <uid>-h for a hypothesis"
        raise DataError("the ID does not say which side of a pair it is", field="ID", fix=fix)
    if not is_positions(positions):
        fix = f"positions are start/length, with commas, semicolons and brackets between; {CONVERT}"
        raise DataError("the positional information is malformed", field="positions", fix=fix)
    score = _score(score_text)
    texts, sections = _trigger_texts(triggers), positions.split(";")
    if len(texts) != len(sections):
        texts = [""] * len(sections)
    places = []
    for section, text in zip(sections, texts, strict=True):
        for bracketed, plain in _OCCURRENCE.findall(section):
            pieces = []
            for pair in re.split("[,^]", bracketed or plain):
                start, length = map(int, re.split("[/:]", pair))
                pieces.append((start, start + length))
            of_place = text if len(pieces) == 1 else ""
            places.append(Occurrence(match[1], _SIDE[match[2]], pieces, of_place, concept, score))
    return places


def is_positions(field: str) -> bool:
    return all(_SECTION.fullmatch(section) for section in field.split(";"))


def _score(text: str) -> float:
    try:
        score = float(text or 0)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        fix = "give a number, or leave it empty"
        raise DataError("field 'score' is no number", field="score", fix=fix)
    return score


def _trigger_texts(field: str) -> list[str]:
    """The texts of the sentence that the triggers quote."""
    texts: list[str] = []
    starts = deque(match.end() for match in _MIDDLE.finditer(field))
    for ending in _ENDING.finditer(field):
        if starts and starts[0] <= ending.start():
            texts.append(field[starts[0] : ending.start()])
            while starts and starts[0] <= ending.end():
                starts.popleft()
    return texts


def same_text(ours: str, theirs: str) -> bool:
    """Whether `theirs` may be our text as a program that reads ASCII shows it."""
    return ascii_of(ours).casefold() == ascii_of(theirs).casefold()


def _report_elsewhere(placing: Placing, elsewhere: int, checked: int) -> None:
    """Refuses a file if most trigger texts are not at their positions, and warns if some are
    not."""
    problem = (
        f"{elsewhere} of {checked} trigger texts are not at their positions in the corpus's"
        " sentences"
    )
    placing.counts["texts_elsewhere"] = elsewhere
    if 2 * elsewhere > checked:
        fix = f"run MetaMap on this version of the corpus (prepare --metamap); {CONVERT}"
        placing.fault(None, problem, "triggers", fix)
    else:
        warn(f"{placing.path.name}: {problem}; the positions are taken")


# -- MetaMap's input -------------------------------------------------------------------------------


class MetaMapInput(NamedTuple):
    """The counts of sentences that `write_metamap_input` wrote."""

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
