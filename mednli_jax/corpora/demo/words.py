"""What the demo corpora share: tables of words and facts (the JSON files beside this module), draws, filled frames."""

import json
import random
import re
from functools import cache
from pathlib import Path

from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import ontology_files

FOLDER = Path(__file__).parent


@cache
def table(name: str) -> dict:
    """The content of a data file, read once. Callers must not change it."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def demo_files() -> list[Path]:
    """Every file that the demo corpora are made from."""
    return [*sorted(FOLDER.glob("*.json")), *ontology_files("mesh")]


class Draw:
    """Random choices from `random.Random(seed).random()` alone, whose stream is the same on every Python version."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def below(self, size: int) -> int:
        return int(self._random() * size)

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def choice(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items) -> list:
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
        return items


def fill(draw: Draw, frame: str, **texts: str) -> str:
    """The frame with `texts` in its slots; the table `slots` of nli_words.json says what is drawn for the others."""

    def value(match) -> str:
        if match[1] in texts:
            return texts[match[1]]
        drawn = table("nli_words")["slots"][match[1]]
        if isinstance(drawn, str):
            return fill(draw, drawn)
        if isinstance(drawn, list):
            return draw.choice(drawn)
        return str(drawn["from"] + draw.below(drawn["to"] - drawn["from"] + 1))

    return re.sub(r"{(\w+)}", value, frame)


@cache
def _stems(name: str) -> frozenset[str]:
    return frozenset(word[:4] for word in name.lower().split())


def share_word(name: str, other: str) -> bool:
    """Whether a word of one begins like a word of the other: such names show a relation without the ontology."""
    return not _stems(name).isdisjoint(_stems(other))


def styled(draw: Draw, text: str, capital: float, period: float) -> str:
    """The text, with probability `capital` with a capital letter in front, with probability `period` with a period."""
    text = text[0].upper() + text[1:] if draw.chance(capital) else text
    return text + ("." if draw.chance(period) else "")


def concept_named(linker: Linker, name: str) -> str:
    """The concept that the whole name links to, or ""."""
    tokens = name.split()
    mentions = linker.link(tokens)
    return mentions[0].concept if mentions and mentions[0].end - mentions[0].start == len(tokens) else ""
