"""Categories of errors (Table 8 of Romanov & Shivade 2018): by rules over a pair's words, or as annotated by hand.

The results hold uids, counts and accuracies, never a word of the pairs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mednli_jax.data import annotations
from mednli_jax.data.examples import LABELS, Mention, NLIExample
from mednli_jax.errors import RunError
from mednli_jax.knowledge.linking import FUNCTION_WORDS
from mednli_jax.nli.wording import NEGATIONS
from mednli_jax.report.outcomes import Outcomes

CATEGORIES = ("numerical reasoning", "world knowledge", "abbreviations", "medical knowledge", "negations")
RULES = {
    "numerical reasoning": "a number, in figures or in words, in either sentence",
    "world knowledge": "none of the other rules holds",
    "abbreviations": "a clinical abbreviation in either sentence",
    "medical knowledge": "both sentences name concepts, and the hypothesis one that the premise does not",
    "negations": "a negation in exactly one of the sentences",
}
_ALIASES = {"numbers": "numerical reasoning", "abbreviation": "abbreviations", "negation": "negations"}
_NUMBER = re.compile(r"[<>~+-]?\.?\d[\d.,/%:x-]*(?:mg|ml|mcg|g|kg|cm|mm|l|f|c|yo|st|nd|rd|th|s|pm|am)?")
_NUMBER_WORDS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand half twice
"""
NUMBER_WORDS = frozenset(_NUMBER_WORDS.split())


def categories(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    abbreviations: Iterable[str],
) -> dict[str, tuple[str, ...]]:
    """uid -> the categories whose rule (RULES) its pair meets, by words alone; a pair may meet several.

    The published categories were given by hand. These rules describe the pair, not why a model got it wrong.
    abbreviations: short forms. A short form that is also a function word ("or") counts only in capitals.
    """
    short = {form.casefold() for form in abbreviations}
    found = {}
    for example, left, right in zip(examples, premise_mentions, hypothesis_mentions, strict=True):
        sides = example.premise_tokens, example.hypothesis_tokens
        concepts = [{mention.concept for mention in side} for side in (left, right)]
        holds = {
            "numerical reasoning": any(_is_number(token) for side in sides for token in side),
            "abbreviations": any(_is_abbreviation(token, short) for side in sides for token in side),
            "medical knowledge": bool(concepts[0] and concepts[1] - concepts[0]),
            "negations": len({any(token.casefold() in NEGATIONS for token in side) for side in sides}) == 2,
        }
        holds["world knowledge"] = not any(holds.values())
        found[example.uid] = tuple(name for name in CATEGORIES if holds[name])
    return found


def _is_number(token):
    token = token.casefold()
    return token in NUMBER_WORDS or bool(_NUMBER.fullmatch(token))


def _is_abbreviation(token, short):
    folded = token.casefold()
    return folded in short and (folded not in FUNCTION_WORDS or token.isupper())


def read_annotations(path: Path) -> dict[str, tuple[str, ...]]:
    """uid -> categories, from rows `uid TAB category` of a file; several rows of a uid are several categories.

    Raises: DataError or DataErrors.
    """
    return annotations.read_annotations(path, "category", CATEGORIES, _ALIASES, problem="the row is not an annotation")


def category_scores(outcomes: Outcomes, of_uid: Mapping[str, Sequence[str]]) -> dict:
    """The scores of each category, as JSON values.

    Returns: {"annotated": pairs that have a category, "errors": pairs that the majority vote gets wrong, "categories":
    {name: {"pairs", "accuracy" (mean over seeds), "errors", "confusions" {"gold > voted": errors}}}}.
    Raises: RunError if no pair of these outcomes has a category.
    """
    given = [of_uid.get(uid, ()) for uid in outcomes.uids]
    if not any(given):
        raise RunError(
            "the annotations name no pair of the run. Fix: give uids of the run's corpus and split, as in "
            "private/predictions.*.jsonl."
        )
    wrong, scores = outcomes.voted != outcomes.gold, {}
    for name in CATEGORIES:
        chosen = np.array([name in names for names in given])
        errors = np.flatnonzero(chosen & wrong)
        confusions = Counter(f"{LABELS[outcomes.gold[i]]} > {LABELS[outcomes.voted[i]]}" for i in errors)
        scores[name] = {
            "pairs": int(chosen.sum()),
            "accuracy": float(outcomes.right[:, chosen].mean()) if chosen.any() else None,
            "errors": len(errors),
            "confusions": dict(confusions.most_common()),
        }
    return {"annotated": sum(map(bool, given)), "errors": int(wrong.sum()), "categories": scores}
