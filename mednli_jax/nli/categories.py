"""Categories of errors (Table 8 of Romanov & Shivade 2018): by rules over a pair's words, or as
annotated by hand.

The results hold uids, counts and accuracies, never a word of the pairs.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mednli_jax.data import partitions
from mednli_jax.data.examples import LABELS, Mention, NLIExample
from mednli_jax.errors import RunError
from mednli_jax.knowledge.linking import read_abbreviations
from mednli_jax.knowledge.words import FUNCTION_WORDS
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encoding import find_mentions
from mednli_jax.nli.features import NEGATIONS
from mednli_jax.report.outcomes import Outcomes, finished
from mednli_jax.report.sections import Grid, Report, Section, points

RULES = {
    "numerical reasoning": "a number, in figures or in words, in either sentence",
    "world knowledge": "none of the other rules holds",
    "abbreviations": "a clinical abbreviation in either sentence",
    "medical knowledge": "both sentences name concepts, and the hypothesis one that the premise does not",
    "negations": "a negation in exactly one of the sentences",
}
_ALIASES = {
    "numbers": "numerical reasoning",
    "abbreviation": "abbreviations",
    "negation": "negations",
}
_NUMBER = re.compile(
    r"[<>~+-]?\.?\d[\d.,/%:x-]*(?:mg|ml|mcg|g|kg|cm|mm|l|f|c|yo|st|nd|rd|th|s|pm|am)?"
)
_NUMBER_NAMES = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand half twice
"""
_NUMBER_WORDS = frozenset(_NUMBER_NAMES.split())


def error_kinds(
    folders: Sequence[Path],
    split: str,
    annotated: Path | None,
    corpus_of: Callable[[Path], NLICorpus],
) -> Report:
    """The errors of runs by category; figures: {name of a run: category_scores(...)}.

    annotated: a file of categories, None for the rules. corpus_of: folder of a run -> its corpus,
    linked.
    """
    runs = [finished(folder, split) for folder in folders]
    words = ["as annotated"]
    if annotated is not None:
        of_uid = read_annotations(annotated)
    else:
        of_uid = kinds_by_rules(corpus_of(folders[0]), split)
        words = ["by rules over the words of each pair", *map(": ".join, RULES.items())]
    found = {run.name: category_scores(run.outcomes, of_uid) for run in runs}
    return Report(found, [_section(found, *words)])


def kinds_by_rules(corpus: NLICorpus, split: str) -> dict[str, tuple[str, ...]]:
    """uid -> `categories` of each pair of a split. corpus: linked to concepts."""
    splits = corpus.splits()
    examples = splits[split].examples
    mentions = find_mentions(examples, corpus.recogniser(splits), corpus.encoding).visible
    short = (form for form, _ in read_abbreviations())
    return categories(examples, *mentions.values(), short)


def categories(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    abbreviations: Iterable[str],
) -> dict[str, tuple[str, ...]]:
    """uid -> the categories whose rule (RULES) its pair meets; a pair may meet several.

    The published categories were given by hand. These rules describe the pair, not why a model got
    it wrong. An abbreviation that is also a function word ("or") counts only in capitals.
    """
    short = {form.casefold() for form in abbreviations}
    found = {}
    for example, left, right in zip(examples, premise_mentions, hypothesis_mentions, strict=True):
        sides = example.premise_tokens, example.hypothesis_tokens
        tokens = [token for side in sides for token in side]
        folded = [[token.casefold() for token in side] for side in sides]
        every = {*folded[0], *folded[1]}
        in_capitals = {token.casefold() for token in tokens if token.isupper()}
        concepts = [{mention.concept for mention in side} for side in (left, right)]
        holds = {
            "numerical reasoning": any(
                token in _NUMBER_WORDS or _NUMBER.fullmatch(token) for token in every
            ),
            "abbreviations": any(
                token not in FUNCTION_WORDS or token in in_capitals for token in every & short
            ),
            "medical knowledge": bool(concepts[0] and concepts[1] - concepts[0]),
            "negations": len({NEGATIONS.isdisjoint(side) for side in folded}) == 2,
        }
        holds["world knowledge"] = not any(holds.values())
        found[example.uid] = tuple(name for name in RULES if holds[name])
    return found


def read_annotations(path: Path) -> dict[str, tuple[str, ...]]:
    """uid -> categories, from rows `uid TAB category` of a file; several rows of a uid are several
    categories."""
    return partitions.read_annotations(
        path, "category", RULES, _ALIASES, problem="the row is not an annotation"
    )


def category_scores(outcomes: Outcomes, of_uid: Mapping[str, Sequence[str]]) -> dict:
    """The scores of each category, as JSON values.

    Returns: {"annotated": pairs that have a category, "errors": pairs that the majority vote gets
    wrong, "categories": {name: {"pairs", "accuracy" (mean over seeds), "errors", "confusions"
    {"gold > voted": errors}}}}.
    """
    given = [of_uid.get(uid, ()) for uid in outcomes.uids]
    if not any(given):
        problem = "the annotations name no pair of the run"
        raise RunError(
            problem,
            fix="give uids of the run's corpus and split, as in private/predictions.*.jsonl",
        )
    wrong, scores = outcomes.voted != outcomes.gold, {}
    for name in RULES:
        chosen = np.array([name in names for names in given])
        errors = np.flatnonzero(chosen & wrong)
        confusions = Counter(
            f"{LABELS[outcomes.gold[i]]} > {LABELS[outcomes.voted[i]]}" for i in errors
        )
        scores[name] = {
            "pairs": int(chosen.sum()),
            "accuracy": float(outcomes.right[:, chosen].mean()) if chosen.any() else None,
            "errors": len(errors),
            "confusions": dict(confusions.most_common()),
        }
    return {"annotated": sum(map(bool, given)), "errors": int(wrong.sum()), "categories": scores}


def _section(found, source, *rules) -> Section:
    grids = []
    for name, scores in found.items():
        rows = []
        for category, score in scores["categories"].items():
            share = f"{score['errors'] / scores['errors']:.0%}" if scores["errors"] else "-"
            most = (
                ", ".join(f"{n} {pair}" for pair, n in list(score["confusions"].items())[:2]) or "-"
            )
            rows.append(
                (
                    category,
                    str(score["pairs"]),
                    points(score["accuracy"]),
                    str(score["errors"]),
                    share,
                    most,
                )
            )
        header = (
            "category",
            "pairs",
            "accuracy",
            "errors",
            "of all errors",
            "most frequent (gold > predicted)",
        )
        caption = (
            f"{name}: {scores['annotated']:,} pairs with a category, {scores['errors']:,} errors"
        )
        grids.append(Grid(caption, header, rows))
    words = f"the kinds of Table 8, {source}; a pair may be of several; errors are those of the seeds' majority vote"
    return Section("Categories of error", [words, *rules], grids)
