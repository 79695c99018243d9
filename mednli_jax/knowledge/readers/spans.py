"""Concepts that another program found in a corpus's sentences, in place of the linker: from the file to tokens.

The plain file for them is a table with tabs (.tsv) whose header names, in any order,

  uid side start end concept      and, if wanted,      score negated

or the same fields as one JSON object a line (.jsonl); both also gzipped. `uid` is the pair's, `side` is premise or
hypothesis, `concept` an id of the ontology. `start` and `end` (exclusive) count the corpus's tokens from 0;
`start_char` and `end_char` in their place count characters of the sentence as the corpus has it. `score` is a number,
higher is better, 0 where it is empty; `negated` is 0 or 1. `metamap` reads MetaMap's output in the same way.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import Mention
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.textfiles import empty_field, empty_file, json_lines, line_fault, table_rows, text_lines

SENTENCE = {  # side -> its text and tokens
    "premise": attrgetter("premise", "premise_tokens"),
    "hypothesis": attrgetter("hypothesis", "hypothesis_tokens"),
}
TOKENS, CHARACTERS = ("start", "end"), ("start_char", "end_char")
_NEEDED, _OPTIONAL = ("uid", "side", "concept"), ("score", "negated")
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
_NEGATED = {"": False, "0": False, "1": True, "false": False, "true": True}
# Tokenisers write some characters of a sentence in another way; each side of this table has one character.
_STRAIGHT = str.maketrans("‘’‚“”„–—\u00a0", "'''\"\"\"-- ")
_SPELLED = {"``": '"', "''": '"', "--": "-", "...": "…", "`": "'"}
_AHEAD = 12  # characters by which a token may be later than expected


@dataclass(frozen=True, slots=True)
class Span:
    """A concept at tokens `start` to `end` (exclusive). score: higher is better; negated: as the program says."""

    start: int
    end: int
    concept: str
    score: float = 0.0
    negated: bool = False


@dataclass(frozen=True)
class Recognised:
    """The concepts that another program found in a corpus, in place of a Linker.

    ontology: of the concepts; an unknown concept is kept (and is related only to itself).
    spans: (uid, side) -> the sentence's spans in order; a sentence without any is absent.
    facts: counts and the name of the file, as plain JSON values.
    """

    ontology: Ontology
    spans: Mapping[tuple[str, str], tuple[Span, ...]]
    facts: dict = field(default_factory=dict)

    def mentions(self, uid: str, side: str) -> list[Mention]:
        """The mentions of one sentence, in order."""
        return [Mention(span.start, span.end, span.concept) for span in self.spans.get((uid, side), ())]

    def indices(self, concept: str) -> list[int]:
        """The concepts of the ontology that a mention's `concept` stands for."""
        return self.ontology.indices(concept)


class Placing:
    """Checks and counts the spans of a file, and places them on the tokens of a corpus.

    examples: the corpus's; their uids are distinct. partial: the corpus leaves out pairs of its files (a limit, a
    genre, pairs without label), so that an unknown uid is counted ("other_pairs") and is not an error.
    problems: the faults so far; the caller adds more. counts: of what was left out, and why.
    """

    def __init__(self, path: Path, examples: Sequence, partial: bool):
        self.path, self.partial = path, partial
        self.problems, self.counts = Problems(), Counter()
        self._examples = {example.uid: example for example in examples}
        self._unknown: dict[str, int] = {}  # pairs that the corpus does not have -> the first line that names them
        self._offsets: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._spans: dict[tuple[str, str], list[Span]] = {}

    def sentence(self, line: int, uid: str, side: str) -> tuple[str, tuple[str, ...]] | None:
        """(text, tokens) of a sentence; None if it is missing, which is then noted or counted."""
        if side not in SENTENCE:
            fix = f"write {' or '.join(SENTENCE)}"
            self.fault(line, "field 'side' is neither premise nor hypothesis", "side", fix)
        elif uid in self._examples:
            return SENTENCE[side](self._examples[uid])
        elif self.partial:
            self.counts["other_pairs"] += 1
        else:
            self._unknown.setdefault(uid, line)
        return None

    def text(self, uid: str, side: str) -> str | None:
        """The text of a sentence, None where there is none."""
        example = self._examples.get(uid)
        return None if example is None else SENTENCE[side](example)[0]

    def add_tokens(self, line: int, uid: str, side: str, span: Span) -> None:
        """A span in tokens."""
        sentence = self.sentence(line, uid, side)
        if sentence and self._fits(line, span.start, span.end, len(sentence[1]), "tokens"):
            self.keep(uid, side, span)

    def place(self, line: int, uid: str, side: str, start: int, end: int) -> tuple[int, int] | None:
        """The tokens (first, last + 1) on which characters `start` to `end` of a sentence lie; None for none.

        A token counts if any character of it does. Characters between tokens, or of tokens that cannot be found in
        the text, are counted as "unplaced".
        """
        sentence = self.sentence(line, uid, side)
        if sentence is None or not self._fits(line, start, end, len(sentence[0]), "characters"):
            return None
        if (uid, side) not in self._offsets:
            self._offsets[uid, side] = token_offsets(*sentence)
        offsets = self._offsets[uid, side]
        touched = [token for token, (first, last) in enumerate(offsets) if first < end and start < last]
        if touched:
            return touched[0], touched[-1] + 1
        self.counts["unplaced"] += 1
        return None

    def keep(self, uid: str, side: str, span: Span) -> None:
        """Keeps a span that is known to be on tokens of its sentence."""
        self._spans.setdefault((uid, side), []).append(span)

    def fault(self, line: int, problem: str, field: str, fix: str) -> None:
        self.problems.add(DataError(problem, file=self.path.name, line=line, field=field, fix=fix))

    def score(self, line: int, value) -> float:
        """The score as a number; one that is not finite is noted and becomes 0."""
        try:
            score = 0.0 if value is None or value == "" else float(value)
        except (OverflowError, TypeError, ValueError):
            score = math.nan
        if math.isfinite(score) and not isinstance(value, bool):
            return score
        self.fault(line, "field 'score' is no number", "score", "give a number, or leave it empty")
        return 0.0

    def chosen(self, choose: Callable[[list[Span]], list[Span]]) -> tuple[dict, dict]:
        """({(uid, side): spans}, counts): what `choose` leaves of each sentence's spans. Raises the faults if any."""
        self._check_corpus()
        self.problems.raise_if_any()
        found, counts = {}, Counter(spans=0, mentions=0, negated=0)
        for sentence, spans in self._spans.items():
            best = choose(spans)
            counts += Counter(
                spans=len(spans), outscored=len(spans) - len(best), negated=sum(span.negated for span in best)
            )
            counts["mentions"] += len(best)
            found[sentence] = tuple(sorted(best, key=attrgetter("start", "end")))
        named = ("spans", "mentions", "negated", "outscored")
        return found, {"file": self.path.name} | {name: counts[name] for name in named} | dict(self.counts)

    def _check_corpus(self):
        """Notes if the file belongs to another corpus: it has pairs that the corpus lacks, or none of its pairs."""
        known = len({uid for uid, _ in self._spans})
        if self._unknown:
            line, total = min(self._unknown.values()), len(self._unknown)
            problem = f"{total} of the pairs that the file names are not among the corpus's {len(self._examples)}"
            fix = "make the file from this corpus, with its pairIDs; is it of another corpus, or of more splits?"
            self.fault(line, f"{problem}; {known} are", "uid", fix)
        elif self.counts["other_pairs"] and not known:
            problem = f"none of the pairs that the file names is among the corpus's {len(self._examples)}"
            self.fault(1, problem, "uid", "make the file from this corpus, with its pairIDs")

    def _fits(self, line, start, end, size, unit):
        if 0 <= start < end <= size:
            return True
        if start < 0 or start >= end:
            fix = "count from 0; the end is the first position after the span"
            self.fault(line, f"the span is {start} to {end}", "start", fix)
        else:
            problem = f"the span ends at {end}, the sentence has {size} {unit}"
            fix = f"count {unit} of the sentence as the corpus has it"
            self.fault(line, problem, "end", fix)
        return False


def read_spans(
    path: Path | str, examples: Sequence, *, partial: bool = False, candidates: str = "best"
) -> tuple[dict[tuple[str, str], tuple[Span, ...]], dict]:
    """Read a plain spans file (see above) for the sentences of a corpus.

    Args:
      examples: the corpus, all splits. partial: see Placing.
      candidates: where spans of a sentence overlap, "best" keeps the one of the best score, then the longest, then the
        first in the file; "all" keeps all.

    Returns:
      ({(uid, side): spans}, facts), as Recognised takes them.

    Raises: DataError, or DataErrors with the first 20 faults.
    """
    path = Path(path)
    placing, rows = Placing(path, examples, partial), 0
    for rows, (line, row) in enumerate(_rows(path, placing.problems), start=1):  # noqa: B007
        _take(placing, line, row)
    if not rows and not placing.problems.total:
        raise empty_file(path)
    return placing.chosen(list if candidates == "all" else without_overlaps)


def without_overlaps(spans: Sequence[Span]) -> list[Span]:
    """Of overlapping spans, the one with the best score, then the longest, then the first given."""
    chosen = []
    for span in sorted(spans, key=lambda span: (-span.score, span.start - span.end)):
        if all(span.end <= other.start or other.end <= span.start for other in chosen):
            chosen.append(span)
    return chosen


def token_offsets(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """The position of each token in its text: (first character, last + 1); (-1, -1) if it is not found.

    Tokens are searched in order and case is ignored. Quotes and dashes may be written in another way, and a token that
    a tokeniser changed does not shift those after it.
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
    spelled = _SPELLED.get(token, token.replace("\\/", "/").replace("\\*", "*").translate(_STRAIGHT))
    if text.startswith(spelled, at):
        return at, at + len(spelled)
    for form in dict.fromkeys((spelled, token)):
        folded, size = form.casefold(), len(form)
        for start in range(at, min(at + _AHEAD + missed, len(text) - size) + 1):
            if text[start : start + size].casefold() == folded:
                return start, start + size
    return -1, -1


def _rows(path: Path, problems: Problems) -> Iterator[tuple[int, dict]]:
    """(line number, fields) of a table or of JSON lines, by the name of the file."""
    if ".jsonl" in path.suffixes[-2:]:
        return json_lines(path, problems)
    lines = text_lines(path, problems)
    records = ((number, [cell.strip() for cell in line.split("\t")]) for number, line in lines if line.strip())
    return table_rows(path.name, records, problems, lambda number, header: _columns(path, number, header))


def _columns(path, number, header):
    names = set(header) - set(_OPTIONAL)
    if len(set(header)) == len(header) and names in ({*_NEEDED, *TOKENS}, {*_NEEDED, *CHARACTERS}):
        return header
    names = "uid, side, start, end (or start_char, end_char), concept, and if wanted score, negated"
    fix = f"the first line must name, between tabs and each once: {names}"
    raise line_fault(path.name, number, "the header is not that of this table", fix)


def _take(placing: Placing, line: int, row: Mapping) -> None:
    """One row of the file: of JSON its values may be anything."""
    positions = CHARACTERS if CHARACTERS[0] in row else TOKENS
    missing = [name for name in (*_NEEDED, *positions) if name not in row]
    if missing:
        placing.fault(line, f"field '{missing[0]}' is missing", missing[0], "add it to the row")
        return
    for name in _NEEDED:
        if not isinstance(row[name], str) or not row[name]:
            placing.problems.add(empty_field(placing.path, line, name))
            return
    numbers = [_whole(row[name]) for name in positions]
    if None in numbers:
        name = positions[numbers.index(None)]
        placing.fault(line, f"field '{name}' is no whole number", name, "count from 0")
        return
    negated = _NEGATED.get(str(row.get("negated", "")).casefold())
    if negated is None:
        placing.fault(line, "field 'negated' is neither 0 nor 1", "negated", "write 0, 1 or nothing")
        return
    rest = (row["concept"], placing.score(line, row.get("score", "")), negated)
    uid, side, (start, end) = row["uid"], row["side"], numbers
    if positions is TOKENS:
        placing.add_tokens(line, uid, side, Span(start, end, *rest))
    elif place := placing.place(line, uid, side, start, end):
        placing.keep(uid, side, Span(*place, *rest))


def _whole(value):
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9 else None
