"""Whether a clinical text affirms a finding: NegEx, with a little of ConText.

Sources of the phrases:
  [C] Chapman et al. 2001, A Simple Algorithm for Identifying Negated Findings and Diseases
  [H] Harkema et al. 2009, ConText: experiencer, history and hypothesis
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

AFFIRMED, NEGATED, UNSURE = "affirmed", "negated", "unsure"
WINDOW = 5  # [C] words that a trigger reaches

# Triggers before a finding, and after one [C].
BEFORE = """
    no | denies | denied | denying | without | w/o | not | never | no evidence of | no sign of |
    no signs of | no known | no history of | no complaints of | no suggestion of | negative for |
    absence of | free of | off | never had | never diagnosed with | ruled out for | does not have |
    did not have | fails to reveal | not demonstrate
"""
AFTER = "ruled out | was ruled out | is ruled out | was excluded | is absent | absent | not seen"
# Phrases that leave the whole segment alone, and why.
UNCLEAR = {
    "not only | not certain | not necessarily | not rule out | cannot exclude": "[C] pseudo",
    "no increase | no change | no further | gram negative | without difficulty": "[C] pseudo",
    "rule out | r/o | to rule out | rules out": "[C] possible",
    "possible | probable | suspected | suspicion of | question of | may have | ?": "[C] possible",
    "on the differential | workup for | screened for | evaluated for": "[C] possible",
    "concern for | unlikely": "[C] possible",
    "family history | fh | mother | father | sister | brother": "[H] of another person",
    "wife | husband | son | daughter | roommate": "[H] of another person",
    "history of | h/o | pmh | past medical history | in the past | previous": "[H] historical",
    "if | should | return for | call for | risk of | prophylaxis": "[H] hypothetical",
}
# Words that end the reach of a trigger [C].
_ENDS = "but however nevertheless yet except though although still aside which who"
ENDS = frozenset(_ENDS.split())
LISTS = frozenset((",", "and"))  # after one of them a list may go on, or another phrase begin
SEGMENT_ENDS = frozenset(".;:")


class _Trigger(NamedTuple):
    """A phrase at places `start` to `end` (exclusive); step: 1 where its finding follows, -1 where
    it precedes."""

    start: int
    end: int
    step: int


def _phrases(text: str) -> list[str]:
    return [" ".join(phrase.split()) for phrase in text.split("|")]


def _pattern(phrases: Sequence[str]) -> re.Pattern[str]:
    """Finds one of the phrases between blanks, the longest at each place."""
    names = sorted(phrases, key=len, reverse=True)
    return re.compile(rf"(?<= )(?:{'|'.join(map(re.escape, names))})(?= )")


_STEP_OF = dict.fromkeys(_phrases(BEFORE), 1) | dict.fromkeys(_phrases(AFTER), -1)
_TRIGGERS = _pattern(list(_STEP_OF))
_UNCLEAR = _pattern(_phrases(" | ".join(UNCLEAR)))


def assertions(tokens: Sequence[str]) -> list[str]:
    """AFFIRMED, NEGATED or UNSURE of each place of a text."""
    asserted: list[str] = []
    segment: list[str] = []
    for token in [*tokens, "."]:
        segment.append(token.casefold())
        if token in SEGMENT_ENDS:
            asserted += _of_segment(segment)
            segment = []
    return asserted[: len(tokens)]


def _of_segment(words: Sequence[str]) -> list[str]:
    text = f" {' '.join(words)} "
    triggers = list(_triggers(text))
    if _UNCLEAR.search(text) or len(triggers) > 1:
        return [UNSURE] * len(words)
    asserted = [AFFIRMED] * len(words)
    for start, end, step in triggers:
        asserted[start:end] = [UNSURE] * (end - start)
        reached = range(end, len(words)) if step > 0 else range(start - 1, -1, -1)
        state = NEGATED
        for distance, place in enumerate(reached):
            if words[place] in ENDS:
                break
            if words[place] in LISTS or distance >= WINDOW:
                state = UNSURE
            asserted[place] = state
    return asserted


def _triggers(text: str) -> Iterator[_Trigger]:
    """The triggers of a segment, whose words have blanks around them."""
    for match in _TRIGGERS.finditer(text):
        start = text.count(" ", 0, match.start()) - 1
        yield _Trigger(start, start + match[0].count(" ") + 1, _STEP_OF[match[0]])


def assertion_of(asserted: Sequence[str], start: int, end: int) -> str:
    """The assertion of a mention; UNSURE where its words differ."""
    states = set(asserted[start:end])
    return states.pop() if len(states) == 1 else UNSURE
