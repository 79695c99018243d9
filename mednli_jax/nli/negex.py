"""Whether a clinical text affirms a finding: NegEx, with a little of ConText.

Sources of the phrases:
  [C] Chapman et al. 2001, A Simple Algorithm for Identifying Negated Findings and Diseases
  [H] Harkema et al. 2009, ConText: experiencer, history and hypothesis
  [B] Barwise & Cooper 1981, Generalized Quantifiers and Natural Language
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

AFFIRMED, NEGATED, UNSURE = "affirmed", "negated", "unsure"
WINDOW = 5  # [C] words that a trigger reaches

# Triggers before a finding, and after one [C].
BEFORE = """
    no | deny | denies | denied | denying | denies any | without | without any | w/o | not | never |
    n't | cannot | declines | no evidence of | no evidence for | without evidence of | no sign of |
    no signs of | without signs of | no known | no prior | no new | no history of | no h/o |
    no prior history of | denies history of | denies h/o | denies any history of |
    no complaints of | no suggestion of | no findings of | negative for | absence of | free of |
    off | never had | never developed | never diagnosed with | ruled out for | rule out for |
    does not have | did not have | not known to have | not complain of | not associated with |
    fails to reveal | not reveal | not demonstrate | not exhibit | unremarkable for
"""
AFTER = """
    ruled out | was ruled out | were ruled out | is ruled out | are ruled out | has been ruled out |
    have been ruled out | was excluded | were excluded | is absent | was absent | absent |
    was not seen | is not seen | not seen | was not found | was denied
"""
# Phrases that leave the whole segment alone. Pseudo-negations [C]:
PSEUDO = """
    not only | not certain | not necessarily | not rule out | cannot exclude | no increase |
    no change | no significant change | no interval change | no further | gram negative |
    without difficulty | not cause | not drain | not extend | not at all | no longer | no more |
    no doubt | not yet
"""
# A finding that is possible [C]:
POSSIBLE = """
    rule out | rule-out | r/o | to rule out | rules out | be ruled out | being ruled out |
    to be ruled out | not ruled out | to exclude | possible | possibly | probable | probably |
    suspected | suspicion | suspicious | question of | may | might | could | would | ? | likely |
    unlikely | differential | workup for | work-up for | screened for | screening | evaluated for |
    evaluate for | checked for | concern for | concerning for | consider | considered | versus |
    vs | vs. | consistent with | c/w | presumed | presumptive
"""
# Of another person [H]:
RELATIVES = """
    family history | fh | fhx | mother | father | sister | brother | parent | parents | siblings |
    aunt | uncle | grandmother | grandfather | cousin | maternal | paternal | wife | husband |
    son | daughter | roommate | contacts
"""
# Historical [H]:
PAST = """
    history | h/o | hx | pmh | pmhx | in the past | previous | previously | s/p | status post |
    ago | resolved | remote | former | formerly | used to
"""
# Hypothetical [H]:
HYPOTHETICAL = """
    if | should | return for | call for | risk | prophylaxis | in case of | prevent | prevention |
    prevents | preventing | precautions | whether | can | must | unless | watch for
"""
# Where a more general name need not follow from a narrower one: quantifiers and comparatives [B],
# measures, and statements on kinds or groups.
NOT_UPWARD = """
    all | each | every | both | most | majority | only | exactly | half | than | more | less |
    fewer | least | almost | either | neither | nor | % | rate | rates | incidence | prevalence |
    frequency | number | proportion | odds | level | levels | score | scores | scale | index |
    effect | effects | efficacy | compared | comparison | between | association | predict |
    predictor | factor | factors | aim | objective | purpose | hypothesis | criteria | defined |
    reduce | reduces | reduced | reducing | reduction | eligible | exclusion | useful | common |
    commonly | usually | often | typically | generally | frequently | sometimes | approved |
    recommended | associated | related | linked | caused | characterized | characterised |
    involved | patients | people | subjects | participants | individuals | children | adults |
    women | men | population | populations | none | highest | lowest | best | worst | reductions |
    recommendations | guidelines | management | role | impact | including | include | such as |
    e.g. | excluded | excluding | measured | assessed | evaluated | examined | investigated |
    protect | protects | against | prevented | marker | markers | major | important | problem |
    concern | worldwide | countries | goal | used | use | preliminary | treatment for |
    treatment of | causes | cause | symptoms of | significantly | mainly | conditions | those |
    hypothesized | hypothesised | category | dimensions | variables | aspects | unclear |
    risks | attenuate | outcome | outcomes | effective | contraindicated | survival | primarily |
    endpoint | endpoints | similar | collected | prescribed | advocated | reason |
    any patient | leads | lead | links | intervention | interventions | monitoring |
    known to | estimated | calculated | determined | classified | indicated by | choice
"""
UNCLEAR = (PSEUDO, POSSIBLE, RELATIVES, PAST, HYPOTHETICAL, NOT_UPWARD)
# Words that end the reach of a trigger [C].
_ENDS = "but however nevertheless yet except though although still aside"
ENDS = frozenset(_ENDS.split())
# After one of these a list or a clause may go on, or another phrase begin.
LISTS = frozenset((",", "and", "which", "who", "that"))
NEGATED_VERBS = frozenset(("not", "n't", "never", "cannot", "does", "did", "fails"))
SEGMENT_ENDS = frozenset(".;")


class _Phrase(NamedTuple):
    """A trigger or a phrase of UNCLEAR at places `start` to `end` (exclusive).

    step: 1 where the finding follows, -1 where it precedes, 0 for a phrase of UNCLEAR.
    """

    start: int
    end: int
    step: int


def _steps() -> Iterator[tuple[str, int]]:
    """The phrases and their steps."""
    for text, step in ((BEFORE, 1), (AFTER, -1), (" | ".join(UNCLEAR), 0)):
        for phrase in text.split("|"):
            yield " ".join(phrase.split()), step


_STEP_OF = dict(_steps())
_LONGEST_FIRST = "|".join(map(re.escape, sorted(_STEP_OF, key=len, reverse=True)))
_PHRASES = re.compile(f"(?<= )(?:{_LONGEST_FIRST})(?= )")


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
    """The assertion of each word between two ends of segments. Two triggers leave all unsure."""
    phrases = list(_phrases_in(f" {' '.join(words)} "))
    if not phrases:
        return [AFFIRMED] * len(words)
    start, end, step = phrases[0]
    if len(phrases) > 1 or step == 0:
        return [UNSURE] * len(words)
    asserted = [AFFIRMED] * len(words)
    # The subject of a negated verb may be in its scope.
    begin = 0 if words[start] in NEGATED_VERBS else start
    asserted[begin:end] = [UNSURE] * (end - begin)
    scope = range(end, len(words)) if step > 0 else range(start - 1, -1, -1)
    state = NEGATED
    for distance, place in enumerate(scope):
        if words[place] in ENDS:
            break
        if words[place] in LISTS or distance >= WINDOW:
            state = UNSURE  # of all words from this one on
        asserted[place] = state
    return asserted


def _phrases_in(text: str) -> Iterator[_Phrase]:
    """The phrases of a segment, longest first at each place. text: its words, each between
    blanks."""
    for match in _PHRASES.finditer(text):
        start = text.count(" ", 0, match.start()) - 1
        yield _Phrase(start, start + match[0].count(" ") + 1, _STEP_OF[match[0]])


def assertion_of(asserted: Sequence[str], start: int, end: int) -> str:
    """The assertion of a mention; UNSURE where its words differ."""
    states = set(asserted[start:end])
    return states.pop() if len(states) == 1 else UNSURE
