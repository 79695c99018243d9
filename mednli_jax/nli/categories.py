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
from mednli_jax.data.examples import LABELS, Facts, Mention, NLIExample
from mednli_jax.errors import RunError
from mednli_jax.knowledge.linking import read_abbreviations
from mednli_jax.knowledge.words import FUNCTION_WORDS
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encoding import concepts_in, find_mentions
from mednli_jax.nli.features import NEGATIONS
from mednli_jax.report.outcomes import Outcomes, finished
from mednli_jax.report.sections import Grid, Report, Section, points

RULES = {
    "numerical reasoning": "a number, in figures or in words, in either sentence",
    "world knowledge": "none of the other rules holds",
    "abbreviations": "a clinical abbreviation in either sentence",
    "medical knowledge": (
        "both sentences name concepts, and the hypothesis one that the premise does not"
    ),
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
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred thousand half twice
"""
_NUMBER_WORDS = frozenset(_NUMBER_NAMES.split())

Categories = Mapping[str, Sequence[str]]  # uid -> the categories of a pair


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
    if annotated is not None:
        source, rules = "as annotated", []
        categories_of = read_annotations(annotated)
    else:
        source, rules = "by rules over the words of each pair", list(map(": ".join, RULES.items()))
        categories_of = kinds_by_rules(corpus_of(folders[0]), split)
    words = (
        f"the kinds of Table 8, {source}; a pair may be of several; errors are those of the seeds' "
        "majority vote"
    )
    scores, grids = {}, []
    for folder in folders:
        run = finished(folder, split)
        scores[run.name] = category_scores(run.outcomes, categories_of)
        grids.append(_grid(run.name, scores[run.name]))
    return Report(scores, [Section("Categories of error", [words, *rules], grids)])


def kinds_by_rules(corpus: NLICorpus, split: str) -> Categories:
    """`categories` of each pair of a split. corpus: linked to concepts."""
    splits = corpus.splits()
    examples = splits[split].examples
    mentions = find_mentions(examples, corpus.recogniser(splits), corpus.encoding).visible
    abbreviations = [form for form, _ in read_abbreviations()]
    return categories(examples, mentions["premise"], mentions["hypothesis"], abbreviations)


def categories(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    abbreviations: Iterable[str],
) -> Categories:
    """The categories whose rule (RULES) each pair meets; a pair may meet several.

    The published categories were given by hand. These rules describe the pair, not why a model got
    it wrong. An abbreviation that is also a function word ("or") counts only in capitals.
    """
    short = _folded(abbreviations)
    categories_of = {}
    for example, left, right in zip(examples, premise_mentions, hypothesis_mentions, strict=True):
        in_premise, in_hypothesis = concepts_in(left), concepts_in(right)
        premise, hypothesis = _folded(example.premise_tokens), _folded(example.hypothesis_tokens)
        tokens = (*example.premise_tokens, *example.hypothesis_tokens)
        in_capitals = _folded(filter(str.isupper, tokens))
        clear = (short - FUNCTION_WORDS) | (short & in_capitals)
        holds = {
            "numerical reasoning": any(map(_is_number, premise | hypothesis)),
            "abbreviations": not clear.isdisjoint(premise | hypothesis),
            "medical knowledge": bool(in_premise and in_hypothesis - in_premise),
            "negations": NEGATIONS.isdisjoint(premise) != NEGATIONS.isdisjoint(hypothesis),
        }
        holds["world knowledge"] = not any(holds.values())
        categories_of[example.uid] = tuple(name for name in RULES if holds[name])
    return categories_of


def _folded(tokens: Iterable[str]) -> set[str]:
    return set(map(str.casefold, tokens))


def _is_number(token: str) -> bool:
    return token in _NUMBER_WORDS or _NUMBER.fullmatch(token) is not None


def read_annotations(path: Path) -> Categories:
    """From rows `uid TAB category` of a file; several rows of a uid are several
    categories."""
    return partitions.read_annotations(
        path, "category", RULES, _ALIASES, problem="the row is not an annotation"
    )


def category_scores(outcomes: Outcomes, categories_of: Categories) -> Facts:
    """The scores of each category, as JSON values.

    Returns: {"annotated": pairs that have a category, "errors": pairs that the majority vote gets
    wrong, "categories": {name: {"pairs", "accuracy" (mean over seeds), "errors", "confusions"
    {"gold > voted": errors}}}}.
    """
    names_N = [categories_of.get(uid, ()) for uid in outcomes.uids]
    if not any(names_N):
        fix = "give uids of the run's corpus and split, as in private/predictions.*.jsonl"
        raise RunError("the annotations name no pair of the run", fix=fix)
    wrong_N = outcomes.voted != outcomes.gold
    scores = {}
    for name in RULES:
        inside_N = np.array([name in names for names in names_N])
        confusions: Counter[str] = Counter()
        for place in np.flatnonzero(inside_N & wrong_N):
            gold, voted = LABELS[outcomes.gold[place]], LABELS[outcomes.voted[place]]
            confusions[f"{gold} > {voted}"] += 1
        accuracy = outcomes.right[:, inside_N].mean() if inside_N.any() else None
        scores[name] = {
            "pairs": int(inside_N.sum()),
            "accuracy": None if accuracy is None else float(accuracy),
            "errors": confusions.total(),
            "confusions": dict(confusions.most_common()),
        }
    annotated = sum(map(bool, names_N))
    return {"annotated": annotated, "errors": int(wrong_N.sum()), "categories": scores}


def _grid(run: str, scores: Facts) -> Grid:
    """The category_scores of a run."""
    errors = scores["errors"]
    rows: list[tuple[str, ...]] = []
    for name, score in scores["categories"].items():
        frequent = list(score["confusions"].items())[:2]
        cells = (
            name,
            str(score["pairs"]),
            points(score["accuracy"]),
            str(score["errors"]),
            f"{score['errors'] / errors:.0%}" if errors else "-",
            ", ".join(f"{number} {confusion}" for confusion, number in frequent) or "-",
        )
        rows.append(cells)
    header = (
        "category",
        "pairs",
        "accuracy",
        "errors",
        "of all errors",
        "most frequent (gold > predicted)",
    )
    caption = f"{run}: {scores['annotated']:,} pairs with a category, {errors:,} errors"
    return Grid(caption, header, rows)
