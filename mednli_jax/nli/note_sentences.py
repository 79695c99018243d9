"""A sentence splitter for sections of clinical notes, by rules.

What it has to know that a splitter of prose does not: numbered and dashed lists, one problem a line without a full
stop, lines wrapped in mid-sentence, `b.i.d.` and `Dr.`, decimals, and de-identification marks `[** ... **]`.
"""

import re
from itertools import pairwise

from mednli_jax.data.text import DEIDENTIFIED, TITLES, mask_deidentified, split_sentences

_BULLET = re.compile(
    r"\s*(?:\(?(?P<number>\d{1,2})[.)](?!\d)|#\s?\d{0,2}[.:)]?(?=\s|[A-Za-z\[])|[-*•]+(?=\s|[A-Za-z\[])|[a-h]\)\s)\s*"
)


def _words(line):
    return frozenset(line.split())


# A line that ends or begins with one of these goes on.
_JOINING = _words(
    "and or with of in on for to the a an by at from who which that but is was were had has as due secondary since "
    "after status no not s/p w/ h/o requiring including"
)
# A number after one of these counts nothing.
_NUMBERED = _words("type stage grade class level number no. age dm vitamin factor hepatitis day week month")
_LEAST_WIDTH = 60


def sentences(body: str) -> list[str]:
    """Sentences of a section in their order, white space collapsed, bullets and list numbers taken off.

    Never splits within `[** ... **]`. A sentence without a letter outside such marks is left out.
    """
    text = DEIDENTIFIED.sub(lambda mark: " ".join(mark.group().split()), body)
    found = []
    for item in _items(text.split("\n")):
        for part in _numbered_parts(item):
            for sentence in split_sentences(part):
                sentence = _without_bullet(" ".join(sentence.split()))
                if re.search("[A-Za-z]", DEIDENTIFIED.sub("", sentence)):
                    found.append(sentence)
    return found


def _without_bullet(sentence):
    bullet = _BULLET.match(sentence)
    return sentence[bullet.end() :] if bullet else sentence


def _items(lines):
    """Lines joined where they were wrapped; each list item and each separate line on its own."""
    width = max(_LEAST_WIDTH, max(len(line.rstrip()) for line in lines))
    items, open_line, indent, bulleted, number = [], "", 0, False, 0
    for line in lines:
        if not line.strip():
            open_line = ""
            continue
        bullet = _BULLET.match(line)
        if bullet and bullet["number"]:
            expected = int(bullet["number"]) in (1, number + 1)
            if not expected and open_line and open_line.rstrip()[-1] not in ".;:!?":
                bullet = None  # `an ejection fraction of / 30. He ...`
        if bullet:
            number = int(bullet["number"] or number)
        if bullet or not open_line:
            begins = True
        else:
            deeper = bulleted and len(line) - len(line.lstrip()) > indent
            begins = not (deeper or _is_wrapped(open_line, line, items[-1], bulleted, width))
        if begins:
            items.append(line.strip())
            indent, bulleted = len(line) - len(line.lstrip()), bool(bullet)
        else:
            items[-1] += " " + line.strip()
        open_line = line
    return items


def _is_wrapped(previous, line, item, bulleted, width):
    """Whether `line` continues the sentence of `previous`, the line before it in `item`."""
    previous = previous.rstrip()
    first, last = line.split()[0], previous.split()[-1]
    if len(previous) + 1 + len(first) > width:  # the word would not have fitted
        return True
    if previous[-1] in ".!?;:" and last.lower() not in TITLES:
        return False
    if previous[-1] in ",(&" or last.lower() in _JOINING or last.lower() in TITLES:
        return True
    return first[0].islower() and (first.lower() in _JOINING or bulleted or item[0].isupper())


def _numbered_parts(item):
    """`1. CAD 2. HTN 3. DM` at its numbers, as long as they count on."""
    bullet = _BULLET.match(item)
    if not bullet or not bullet["number"]:
        return [item]
    masked, cuts, number = mask_deidentified(item), [0], int(bullet["number"]) + 1
    position = bullet.end()
    while match := re.compile(rf"(?<=\s){number}[.)]\s+(?=[A-Z(\[])").search(masked, position):
        position = match.end()
        if masked[: match.start()].split()[-1].lower() not in _NUMBERED:  # not `diabetes type 2. On insulin`
            cuts.append(match.start())
            number += 1
    return [item[start:end] for start, end in pairwise([*cuts, len(item)])]
