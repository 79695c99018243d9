"""Entities of several words as one token, brain injury -> brain_injury: Herlihy & Rudinger 2021, sections 4.1 and 6."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.errors import UsageError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.mentions import ENDINGS, Recognised
from mednli_jax.nli.corpus import Linking, NLICorpus, ending

Unit = tuple[str, ...]  # a token, or the tokens of an entity


def units(tokens: Sequence[str], mentions: Sequence[Mention] = ()) -> list[Unit]:
    """The tokens, with each entity as one unit. Of overlapping entities the first is used, and of those the longest."""
    longest: dict[int, int] = {}
    for mention in mentions:
        longest[mention.start] = max(mention.end, longest.get(mention.start, 0))
    found, place = [], 0
    while place < len(tokens):
        end = max(longest.get(place, 0), place + 1)
        found.append(tuple(tokens[place:end]))
        place = end
    return found


def name_of(unit: Unit) -> str:
    """The unit as one token."""
    return "_".join(unit)


def finder_of(corpus: NLICorpus, splits: dict[str, Split], spans: Path | None) -> Linker | Recognised | None:
    """The finder of a corpus's entities: a file of spans (knowledge.mentions), with any concept names, else the
    corpus's own linker or file of mentions; None if it has neither."""
    if spans is not None and ending(spans) not in ENDINGS:
        fix = f"give a file that ends in {', '.join(ENDINGS)} (.gz may follow)"
        raise UsageError(f"--spans: the ending of the file names no format. Fix: {fix}.")
    return corpus.recogniser(splits, None if spans is None else Linking(mentions=spans))


def merged(examples: Sequence[NLIExample], mentions: dict[str, list[list[Mention]]]) -> list[NLIExample]:
    """The examples, with the tokens of each entity joined into one."""
    found = []
    for example, *both in zip(examples, *mentions.values(), strict=True):
        names = (f"{side}_tokens" for side in mentions)
        tokens = {name: units(getattr(example, name), spans) for name, spans in zip(names, both, strict=True)}
        found.append(replace(example, **{name: tuple(map(name_of, parts)) for name, parts in tokens.items()}))
    return found
