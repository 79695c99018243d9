"""Table 8 of Romanov & Shivade 2018: categories of errors, by rules over a pair's words or as
annotated by hand.

The results hold uids, counts and accuracies, never a word of the pairs; only the private examples
of each category do.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mednli_jax.data import partitions
from mednli_jax.data.examples import LABELS, Mention, NLIExample
from mednli_jax.errors import RunError
from mednli_jax.knowledge.readers.mesh import short_forms
from mednli_jax.knowledge.words import FUNCTION_WORDS
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encode.links import concepts_in, find_mentions
from mednli_jax.nli.features import NEGATIONS
from mednli_jax.nli.tables.runs import CATEGORIES_FILE, CATEGORIES_TABLE, CORPUS, MODELS, NAMES
from mednli_jax.report.options import TableOptions
from mednli_jax.report.outcomes import Finished, Outcomes, align, read_finished
from mednli_jax.report.public import LEAST
from mednli_jax.report.sections import Grid, Report, Section, points
from mednli_jax.report.tables import COMPLETE, MISSING, figures_in, heading, state
from mednli_jax.types import Json, JsonObject

if TYPE_CHECKING:
    from ml_collections import ConfigDict

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
EXAMPLES = "table8.jsonl"
EXAMPLES_OF_CATEGORY = 5
Categories = Mapping[str, Sequence[str]]  # uid -> the categories of a pair
CorpusOf = Callable[["ConfigDict"], NLICorpus]  # a run's config -> its corpus, linked to concepts


def category_report(
    runs: Sequence[Finished], categories_of: Categories, *, annotated: bool = False
) -> Report:
    """Reports the errors of runs by category; figures: {name of a run: category_scores(...)}.

    annotated: whether the categories are from a file, in place of RULES.
    """
    source = "as annotated" if annotated else "by rules over the words of each pair"
    words = [
        f"the categories of Table 8 on {runs[0].corpus}, {source}; a pair may be of several; "
        "errors are those of the seeds' majority vote"
    ]
    if not annotated:
        words += map(": ".join, RULES.items())
    scores, grids = {}, []
    for run in runs:
        scores[run.name] = category_scores(run.outcomes, categories_of)
        grids.append(_grid(run.name, scores[run.name]))
    return Report(scores, [Section("Categories of error", words, grids)])


def categories_by_rules(corpus: NLICorpus, split: str) -> Categories:
    """The categories of each pair of a split by RULES. corpus: linked to concepts."""
    splits = corpus.splits()
    examples = splits[split].examples
    mentions = find_mentions(examples, corpus.concept_source(splits), corpus.encoding).visible
    return categories(examples, mentions["premise"], mentions["hypothesis"], short_forms())


def categories(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    abbreviations: Iterable[str],
) -> Categories:
    """The categories whose rule (RULES) each pair meets; a pair may meet several.

    The published categories were given by hand. These rules describe the pair, not the reason of a
    model's error. A short form that is also a function word ("or") counts only in capitals.
    """
    short_forms = _fold(abbreviations)
    categories_of = {}
    for example, left, right in zip(examples, premise_mentions, hypothesis_mentions, strict=True):
        in_premise, in_hypothesis = concepts_in(left), concepts_in(right)
        premise, hypothesis = _fold(example.premise_tokens), _fold(example.hypothesis_tokens)
        tokens = (*example.premise_tokens, *example.hypothesis_tokens)
        in_capitals = _fold(filter(str.isupper, tokens))
        short = short_forms & (premise | hypothesis)
        holds = {
            "numerical reasoning": any(map(_is_number, premise | hypothesis)),
            "abbreviations": bool(short - FUNCTION_WORDS or short & in_capitals),
            "medical knowledge": bool(in_premise and in_hypothesis - in_premise),
            "negations": NEGATIONS.isdisjoint(premise) != NEGATIONS.isdisjoint(hypothesis),
        }
        holds["world knowledge"] = not any(holds.values())
        categories_of[example.uid] = tuple(name for name in RULES if holds[name])
    return categories_of


def _fold(tokens: Iterable[str]) -> set[str]:
    return set(map(str.casefold, tokens))


def _is_number(token: str) -> bool:
    return token in _NUMBER_WORDS or _NUMBER.fullmatch(token) is not None


def read_categories(path: Path) -> Categories:
    """Reads rows `uid TAB category` of a file; several rows of a uid are several categories."""
    return partitions.names_by_uid(
        path, "category", RULES, _ALIASES, problem="the row is not an annotation"
    )


def category_scores(outcomes: Outcomes, categories_of: Categories) -> JsonObject:
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
            gold, voted = outcomes.gold[place], outcomes.voted[place]
            confusions[f"{outcomes.labels[gold]} > {outcomes.labels[voted]}"] += 1
        accuracy = outcomes.right[:, inside_N].mean() if inside_N.any() else None
        scores[name] = {
            "pairs": int(inside_N.sum()),
            "accuracy": None if accuracy is None else float(accuracy),
            "errors": confusions.total(),
            "confusions": dict(confusions.most_common()),
        }
    annotated = sum(map(bool, names_N))
    return {"annotated": annotated, "errors": int(wrong_N.sum()), "categories": scores}


def _grid(run: str, scores: JsonObject) -> Grid:
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


# -- Table 8 of a folder of runs -------------------------------------------------------------------


def table_8_report(folder: Path, options: TableOptions, linked: CorpusOf) -> Report:
    """Reports the categories of error of the folder's BOW, InferSent and ESIM on test.

    If options.config_of is None, nothing is computed: the table is read from the CATEGORIES_FILE of
    an earlier call.
    """
    if options.config_of is None:
        return Report({}, [category_section(read_category_table(folder))])
    folders = [folder / name for name in MODELS if state(folder / name) == COMPLETE]
    if not folders:
        fix = "train them: reproduce mednli FOLDER CORPUS --tables=8"
        raise RunError(f"{folder}: holds no finished run of {', '.join(MODELS)}", fix=fix)
    corpus = linked(options.config_of(folders[0]))
    categories_of = categories_by_rules(corpus, options.split)
    first = read_finished(folders[0], options.split)
    runs = [align(first, read_finished(path, options.split)) for path in folders]
    errors = category_report(runs, categories_of)
    rows = _examples(corpus.splits()[options.split].examples, categories_of, runs)
    return Report(
        errors.figures,
        errors.sections,
        files={CATEGORIES_FILE: {"corpus": first.corpus, "categories": errors.figures}},
        private={EXAMPLES: "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)},
        runs=folders,
    )


def _examples(
    examples: Sequence[NLIExample],
    categories_of: Categories,
    runs: Sequence[Finished],
) -> Iterator[dict[str, Json]]:
    """Yields pairs of each category, those that most systems get wrong first."""
    voted: dict[str, dict[str, str]] = defaultdict(dict)
    for run in runs:
        for uid, label in zip(run.outcomes.uids, run.outcomes.voted, strict=True):
            voted[uid][run.name] = LABELS[label]

    def errors(example: NLIExample) -> int:
        return sum(label != example.label for label in voted[example.uid].values())

    wrong = sorted(filter(errors, examples), key=errors, reverse=True)
    for category in RULES:
        of_category = [example for example in wrong if category in categories_of[example.uid]]
        for example in of_category[:EXAMPLES_OF_CATEGORY]:
            yield {
                "kind": category,
                "uid": example.uid,
                "premise": example.premise,
                "hypothesis": example.hypothesis,
                "label": example.label,
                "predicted": voted[example.uid],
            }


@dataclass(frozen=True)
class CategoryFigures:
    """A category of Table 8: its pairs and the accuracies of the systems."""

    pairs: int
    accuracy: dict[str, float]


@dataclass(frozen=True)
class CategoryTable:
    """Table 8 on a corpus. kinds: category -> its figures; None if it has few pairs."""

    corpus: str
    kinds: dict[str, CategoryFigures | None]


def read_category_table(folder: Path) -> CategoryTable | str:
    """Table 8 of the systems of Table 3 from the CATEGORIES_FILE of a folder, or the reason why
    there is none."""
    values = figures_in(folder / CATEGORIES_FILE, "corpus", "categories")
    if isinstance(values, str):
        return values
    scores = {}
    for run in MODELS:
        if run in values["categories"]:
            scores[NAMES[run]] = values["categories"][run]["categories"]
    if not scores:
        return f"{CATEGORIES_FILE} names none of {', '.join(MODELS)}"
    figures: dict[str, CategoryFigures | None] = {}
    for category in RULES:
        pairs = next(iter(scores.values()))[category]["pairs"]
        accuracy = {title: of_system[category]["accuracy"] for title, of_system in scores.items()}
        figures[category] = CategoryFigures(pairs, accuracy) if pairs >= LEAST else None
    return CategoryTable(values["corpus"], figures)


def category_section(table: CategoryTable | str) -> Section:
    """Table 8 of the systems of Table 3."""
    title = "categories of error"
    if isinstance(table, str):
        return Section(heading(CATEGORIES_TABLE, title), [f"{MISSING}: {table}"])
    systems = next((list(figures.accuracy) for figures in table.kinds.values() if figures), [])
    rows = []
    for name, figures in table.kinds.items():
        pairs = f"{figures.pairs:,}" if figures else f"under {LEAST}"
        shown = [points(figures.accuracy[system] if figures else None) for system in systems]
        rows.append((name, pairs, *shown))
    words = (
        "categories by rules over the words of a pair, which may be of several; the paper prints "
        "examples and no figure"
    )
    header = ("category", "pairs", *(f"accuracy, {system}" for system in systems))
    elsewhere = "" if table.corpus == CORPUS else table.corpus
    title = heading(CATEGORIES_TABLE, title, elsewhere, "MedNLI")
    return Section(title, [words], [Grid("", header, rows)])
