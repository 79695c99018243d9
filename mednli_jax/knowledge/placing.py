"""Places the concepts that another program found, at characters or tokens, on a corpus's tokens."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import Mention, NLIExample
from mednli_jax.errors import DataError, Problems

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


# Tokenisers write some characters of a sentence in another way. The first table keeps the length of
# a text.
_STRAIGHT = str.maketrans("‘’‚“”„–—\u00a0", "'''\"\"\"-- ")
_SPELLED = {"``": '"', "''": '"', "--": "-", "...": "…", "`": "'"}
_AHEAD = 12  # characters by which a token may be later than expected
NOWHERE = (-1, -1)


def token_offsets(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """The position of each token in its text: (first character, last + 1), or NOWHERE.

    Case is ignored. Quotes and dashes may differ. A token that is not found in the text does not
    shift those after it.
    """
    text = text.translate(_STRAIGHT)
    offsets = []
    expected = 0  # where the text after the last token that was found begins
    missed = 0  # characters of the tokens that were not found since
    for token in tokens:
        offset = _offset(text, token, expected, missed)
        offsets.append(offset)
        if offset == NOWHERE:
            missed += len(token) + 1
        else:
            expected, missed = offset[1], 0
    return offsets


def _offset(text: str, token: str, expected: int, missed: int) -> tuple[int, int]:
    while expected < len(text) and text[expected].isspace():
        expected += 1
    spelled = _SPELLED.get(token)
    if spelled is None:
        spelled = token.replace("\\/", "/").replace("\\*", "*").translate(_STRAIGHT)
    if text.startswith(spelled, expected):
        return expected, expected + len(spelled)
    for form in dict.fromkeys((spelled, token)):
        size = len(form)
        latest = min(expected + _AHEAD + missed, len(text) - size)
        for start in range(expected, latest + 1):
            if text[start : start + size].casefold() == form.casefold():
                return start, start + size
    return NOWHERE
