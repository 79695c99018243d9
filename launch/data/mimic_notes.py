"""MIMIC-III notes: NOTEEVENTS.csv -> Past Medical History sections -> sentences, the pool of
MedNLI's premises. premises_from_notes.py and pretrain_vectors.py read them by this module.

Romanov & Shivade 2018, section 2.1: sections are found by headers of capitalised words followed by
a colon. The authors used a trained sentence splitter; this one goes by rules written for clinical
text. Errors never quote a note.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from mednli_jax.data.text import DEIDENTIFIED, TITLES, mask_deidentified, split_sentences
from mednli_jax.errors import MAX_PROBLEMS, DataError, Problems
from mednli_jax.files.reading import FRESH_COPY, csv_records, either_name, empty_file, table_rows
from mednli_jax.types import JsonObject

_SMALL = r"of|and|on|in|the|for|to|with|at|or|by|from|upon|as|prior"
_WORD = r"[A-Z(][A-Za-z0-9'’().-]*"
_PAST = (
    r"(?:past|prior|previous)[ \t]+(?:med(?:ical)?|history|hx)\b[ A-Za-z/,&-]{0,40}"
    r"|pmhx?(?:/pshx?)?"
)
_NEXT = rf"(?:[ \t]*[/,&][ \t]*|[ \t]+)(?:{_WORD}|(?:{_SMALL})\b)"
_HEADER = re.compile(
    rf"^[ \t]*(?P<title>(?i:{_PAST})|{_WORD}(?:{_NEXT}){{0,8}})[ \t]*:+", re.MULTILINE
)
_WORTH_A_LOOK = re.compile("past|prior|previous|pmh", re.IGNORECASE)
_PAST_MEDICAL_HISTORY = re.compile(
    r"(?:past|prior|previous) med(?:ical)?\b.*\b(?:history|hx)\b|\bpmhx?\b|^past (?:history|hx)$"
)

COLUMNS = ("ROW_ID", "CATEGORY", "ISERROR", "TEXT")


def read_notes(
    path: Path, categories: Collection[str] = (), facts: JsonObject | None = None
) -> Iterator[tuple[int, str]]:
    """Yields (ROW_ID, text) of the notes of a NOTEEVENTS.csv, plain or gzipped, that are not marked
    as errors.

    Faults are raised at the end of the file, or at the 20th. So no note may be used before the
    iteration ends.

    categories: values of CATEGORY; empty for all. facts: gets counts of the rows.
    """
    path = either_name(path) or path
    facts = {} if facts is None else facts
    facts |= {"file": path.name, "rows": 0, "dropped_iserror": 0, "other_categories": 0, "empty": 0}
    problems = Problems()

    columns = partial(_columns, path.name)
    for number, row in table_rows(path.name, csv_records(path, problems), problems, columns):
        facts["rows"] += 1
        row_id, category, error, text = (row[name] for name in COLUMNS)
        if not re.fullmatch("[0-9]+", row_id):
            problems.add(_fault(path.name, number, "ROW_ID", "is no whole number"))
        elif error.strip() not in ("", "0", "1"):
            problems.add(_fault(path.name, number, "ISERROR", "is neither empty nor 0 nor 1"))
        elif error.strip() == "1":
            facts["dropped_iserror"] += 1
        elif categories and category.strip() not in categories:
            facts["other_categories"] += 1
        elif not text.strip():
            facts["empty"] += 1
        else:
            yield int(row_id), text
        if problems.total >= MAX_PROBLEMS:
            break
    problems.raise_if_any()
    if not facts["rows"]:
        raise empty_file(path, "no notes")


def _columns(file: str, number: int, header: Sequence[str]) -> list[str]:
    names = [name.upper() for name in header]  # the demo release spells them in small letters
    for name in COLUMNS:
        if name not in names:
            fix = "use the official file, which has it"
            raise _fault(file, number, name, "is missing", fix)
    return names


def _fault(file: str, number: int, name: str, problem: str, fix: str = FRESH_COPY) -> DataError:
    return DataError(f"field '{name}' {problem}", file=file, line=number, field=name, fix=fix)


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Yields (title, body) of a note's sections in their order. The text before the first header
    has the title "".

    A header stands at the start of a line: up to nine capitalised words (small ones such as `of`
    may stand between) and a colon. An item of a list is no header: `1. CARDIAC:` stays in its
    section, but `Cardiac:` begins a new one.
    """
    start, title = 0, ""
    for match in _HEADER.finditer(text):
        if title or text[start : match.start()].strip():
            yield title, text[start : match.start()]
        title, start = " ".join(match["title"].split()), match.end()
    if title or text[start:].strip():
        yield title, text[start:]


def is_past_medical_history(title: str) -> bool:
    """Whether a section's title names the past medical history: Past Medical History, PMH, PAST
    MEDICAL/SURGICAL HISTORY and so on."""
    return bool(_PAST_MEDICAL_HISTORY.search(" ".join(title.lower().split())))


def past_medical_history(
    path: Path, categories: Collection[str] = (), facts: JsonObject | None = None
) -> Iterator[tuple[str, str]]:
    """Yields candidate premises (uid, sentence), uid = "ROW_ID:n", n counting a note's sentences
    from 1.

    Arguments: see read_notes. facts also gets counts of such sections, of the notes that have one,
    and of their sentences.
    """
    facts = {} if facts is None else facts
    counts = {"notes": 0, "sections": 0, "sentences": 0}
    for row_id, text in read_notes(path, categories, facts):
        if not _WORTH_A_LOOK.search(text):
            continue
        bodies = [body for title, body in sections(text) if is_past_medical_history(title)]
        of_note = [sentence for body in bodies for sentence in sentences(body)]
        counts["notes"] += bool(bodies)
        counts["sections"] += len(bodies)
        counts["sentences"] += len(of_note)
        for number, sentence in enumerate(of_note, start=1):
            yield f"{row_id}:{number}", sentence
    facts |= counts


# ---- sentences of a section ----
# The rules know more than a splitter of prose: numbered and dashed lists, one problem a line
# without a full stop, lines wrapped in mid-sentence, `b.i.d.` and `Dr.`, decimals, and
# de-identification marks `[** ... **]`.

_BULLET = re.compile(
    r"\s*(?:\(?(?P<number>\d{1,2})[.)](?!\d)|#\s?\d{0,2}[.:)]?(?=\s|[A-Za-z\[])"
    r"|[-*•]+(?=\s|[A-Za-z\[])|[a-h]\)\s)\s*"
)


# A line that ends or begins with one of these goes on.
_JOINING_WORDS = """
    and or with of in on for to the a an by at from who which that but is was were had has as due
    secondary since after status no not s/p w/ h/o requiring including
"""
_JOINING = frozenset(_JOINING_WORDS.split())
# A number after one of these counts nothing.
_COUNTED = "type stage grade class level number no. age dm vitamin factor hepatitis day week month"
_NUMBERED = frozenset(_COUNTED.split())
_LEAST_WIDTH = 60


def sentences(body: str) -> list[str]:
    """Splits a section into sentences in their order, with white space collapsed, bullets and list
    numbers removed.

    Never splits within `[** ... **]`. A sentence without a letter outside such marks is left out.
    """
    text = DEIDENTIFIED.sub(lambda mark: " ".join(mark.group().split()), body)
    cleaned = []
    for entry in _entries(text.split("\n")):
        for part in _numbered_parts(entry):
            for sentence in split_sentences(part):
                sentence = " ".join(sentence.split())
                if bullet := _BULLET.match(sentence):
                    sentence = sentence[bullet.end() :]
                if re.search("[A-Za-z]", DEIDENTIFIED.sub("", sentence)):
                    cleaned.append(sentence)
    return cleaned


def _entries(lines: Sequence[str]) -> list[str]:
    """The entries of a section: wrapped lines are joined; each list item and each separate line is
    an entry."""
    width = max(_LEAST_WIDTH, max(len(line.rstrip()) for line in lines))
    entries: list[str] = []
    # The line before, "" if it is blank; the indent and bullet of the last entry; the last number.
    previous, indent, bulleted, number = "", 0, False, 0
    for line in lines:
        if not line.strip():
            previous = ""
            continue
        bullet = _bullet(line, previous, number)
        if bullet:
            number = int(bullet["number"] or number)
        line_indent = len(line) - len(line.lstrip())
        continues = False
        if previous and not bullet:
            is_deeper = bulleted and line_indent > indent
            continues = is_deeper or _is_wrapped(previous, line, entries[-1], bulleted, width)
        if continues:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line.strip())
            indent, bulleted = line_indent, bool(bullet)
        previous = line
    return entries


def _bullet(line: str, previous: str, number: int) -> re.Match[str] | None:
    """The bullet of a line. A number within a sentence that does not continue the list from
    `number` is not a bullet: `an ejection fraction of / 30. He ...`."""
    bullet = _BULLET.match(line)
    if bullet and bullet["number"] and int(bullet["number"]) not in (1, number + 1):
        return bullet if not previous or previous.rstrip()[-1] in ".;:!?" else None
    return bullet


def _is_wrapped(previous: str, line: str, entry: str, bulleted: bool, width: int) -> bool:
    """Whether `line` continues the sentence of `previous`, the line before it in `entry`."""
    previous = previous.rstrip()
    first, last = line.split()[0], previous.split()[-1]
    if len(previous) + 1 + len(first) > width:
        return True
    if previous[-1] in ".!?;:" and last.lower() not in TITLES:
        return False
    if previous[-1] in ",(&" or last.lower() in _JOINING or last.lower() in TITLES:
        return True
    return first[0].islower() and (first.lower() in _JOINING or bulleted or entry[0].isupper())


def _numbered_parts(entry: str) -> list[str]:
    """Splits `1. CAD 2. HTN 3. DM` at its numbers, as long as they count on."""
    bullet = _BULLET.match(entry)
    if not bullet or not bullet["number"]:
        return [entry]
    masked, cuts, number = mask_deidentified(entry), [0], int(bullet["number"]) + 1
    position = bullet.end()
    while match := re.compile(rf"(?<=\s){number}[.)]\s+(?=[A-Z(\[])").search(masked, position):
        position = match.end()
        word = masked[: match.start()].split()[-1].lower()
        if word not in _NUMBERED:  # not `diabetes type 2. On insulin`
            cuts.append(match.start())
            number += 1
    return [entry[start:end] for start, end in pairwise([*cuts, len(entry)])]
