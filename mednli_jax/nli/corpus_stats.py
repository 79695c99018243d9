"""Statistics of a corpus of pairs: Table 2 and Figure 3 of Romanov & Shivade 2018, and kinds of
relations by class."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from scipy import stats

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import LABELS, Mention, NLIExample, Split
from mednli_jax.errors import DataError
from mednli_jax.report import charts
from mednli_jax.report.sections import Grid, Section, columns_of, count, mean, p_value
from mednli_jax.report.tables import of_corpus

NO_CONCEPT = "no concept pair"
NO_PATH = "no path"
_FAR, _NONE = 2**62, 2**62 + 1  # no path, no pair of concepts: behind all lengths
LONG = 50  # tokens; the paper's models cut longer sentences


def statistics(splits: dict[str, Split]) -> dict:
    """Counts and lengths of each split and of all together, as JSON values.

    Returns {"splits": {name: figures}, "all": figures}; figures are
      pairs, labels {label: pairs}, unlabelled (dropped by the reader), tokens {their source: pairs},
      premises: distinct ones; shared_premises (not in "all"): how many of them also occur in an earlier split,
      words: distinct tokens of both sides, case folded; new_words (not in "all"): those not in the first split,
      premise, hypothesis {mean, median, longest, over_50} in tokens.
    """
    result, earlier, first = {}, set(), None
    for name, split in splits.items():
        figures, premises, words = _figures([split])
        first = words if first is None else first
        result[name] = {
            **figures,
            "premises": len(premises),
            "shared_premises": len(premises & earlier),
            "words": len(words),
            "new_words": len(words - first),
        }
        earlier |= premises
    figures, premises, words = _figures(splits.values())
    return {"splits": result, "all": {**figures, "premises": len(premises), "words": len(words)}}


def _figures(splits):
    """(the figures of some splits together, their distinct premises, their distinct words)."""
    examples = [example for split in splits for example in split.examples]
    labels, tokens = Counter(example.label for example in examples), Counter()
    for split in splits:
        tokens.update(split.facts.get("tokens", {}))
    figures = {
        "pairs": len(examples),
        "labels": {label: labels[label] for label in LABELS},
        "unlabelled": sum(int(split.facts.get("dropped_unlabelled", 0)) for split in splits),
        "tokens": {kind: count for kind, count in tokens.items() if count},
    }
    words = set()
    for side in SIDES:
        sentences = [getattr(example, f"{side}_tokens") for example in examples]
        words |= {token.lower() for sentence in sentences for token in sentence}
        lengths = np.array(list(map(len, sentences)))
        figures[side] = {
            "mean": float(lengths.mean()),
            "median": float(np.median(lengths)),
            "longest": int(lengths.max()),
            f"over_{LONG}": int((lengths > LONG).sum()),
        }
    return figures, {example.premise for example in examples}, words


def section(corpus: str, values: dict) -> Section:
    """A column for each split and one for all; the paper's figures (Table 2 and section 2.3) below
    ours."""
    columns = {**values["splits"], "all": values["all"]}
    rows = [
        ("pairs", count, "pairs"),
        *((f"{side}, mean tokens", mean, side, "mean") for side in SIDES),
        *((f"{side}, longest", count, side, "longest") for side in SIDES),
        *((f"{side}, over {LONG} tokens", count, side, f"over_{LONG}") for side in SIDES),
        ("distinct premises", count, "premises"),
        ("  also in an earlier split", count, "shared_premises"),
        *((label, count, "labels", label) for label in LABELS),
        *[("unlabelled, dropped", count, "unlabelled")] * bool(values["all"]["unlabelled"]),
        ("distinct words", count, "words"),
        (f"  not in {next(iter(values['splits']))}", count, "new_words"),
        *((f"tokens from {kind}", count, "tokens", kind) for kind in values["all"]["tokens"]),
    ]
    cells = columns_of(columns, rows, of_corpus("mednli", corpus, "statistics"))
    return Section(f"Sizes, {corpus}", grids=[Grid("", ("", *columns), cells)])


def path_statistics(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    indices: Callable[[str], Sequence[int]],
    distances: Callable[[np.ndarray], np.ndarray],
) -> dict:
    """Path lengths between the concepts of premises and hypotheses, as JSON values.

    indices: the ontology's concepts that a mention's `concept` stands for. distances: path lengths
    int [M] of pairs of them [M, 2], see knowledge.distances.shortest_paths.

    Returns
      concept_pairs {length or NO_PATH: count}: the distinct pairs (concept of a premise, concept of its hypothesis);
      occurrences: the same counted each time it occurs in an example (Figure 3's bars);
      nearest {label: {length, NO_PATH or NO_CONCEPT: examples}}: the shortest path of each example;
      examples, examples_with_concepts {premise, hypothesis, both}, unknown_concepts: those the ontology lacks.
    A concept that the ontology lacks has no path but to itself. Of a cross-reference the nearest
    concept counts.
    """
    pairs, owners, unknown = [], [], set()
    for number, sides in enumerate(zip(premise_mentions, hypothesis_mentions, strict=True)):
        left, right = ({mention.concept for mention in side} for side in sides)
        crossed = list(product(sorted(left), sorted(right)))
        pairs += crossed
        owners += [number] * len(crossed)
        unknown |= {concept for concept in left | right if not indices(concept)}
    distinct = sorted(set(pairs))
    length = np.array([0 if a == b else _FAR for a, b in distinct], np.int64)
    known = [(i, x, y) for i, (a, b) in enumerate(distinct) for x in indices(a) for y in indices(b)]
    if known:
        place, *ends = np.array(known).T
        found = distances(np.stack(ends, axis=1)).astype(np.int64)
        np.minimum.at(length, place, np.where(found < 0, _FAR, found))
    of_pair = dict(zip(distinct, length.tolist(), strict=True))
    every = np.array([of_pair[pair] for pair in pairs], np.int64)
    nearest = np.full(len(examples), _NONE)
    np.minimum.at(nearest, np.array(owners, np.int64), every)
    label = np.array([example.label for example in examples])
    return {
        "examples": len(examples),
        "examples_with_concepts": {
            "premise": sum(bool(m) for m in premise_mentions),
            "hypothesis": sum(bool(m) for m in hypothesis_mentions),
            "both": int((nearest < _NONE).sum()),
        },
        "unknown_concepts": len(unknown),
        "concept_pairs": _counts(length),
        "occurrences": _counts(every),
        "nearest": {name: _counts(nearest[label == name]) for name in LABELS},
    }


def relation_statistics(
    examples: Sequence[NLIExample], bits: np.ndarray, kinds: Sequence[str]
) -> dict:
    """How types of relations are distributed over the classes, as JSON values.

    bits: uint32 [N], see `relations.kinds_in_pairs`. Returns {type: {examples, labels {class:
    examples}, chi_square, p_value}} of those that occur: Pearson's test of independence of type and
    class, over labelled examples; None if all have it, or there is one class.
    """
    label, found = np.array([example.label for example in examples]), {}
    classes = [name for name in LABELS if (label == name).any()]
    for bit, kind in enumerate(kinds):
        has = (bits >> bit & 1).astype(bool)
        table = np.array(
            [[int((has[label == name] == one).sum()) for name in classes] for one in (True, False)]
        )
        if not has.any():
            continue
        tested = len(classes) > 1 and (table.sum(axis=1) > 0).all()
        test = stats.chi2_contingency(table, correction=False) if tested else None
        found[kind] = {
            "examples": int(has.sum()),
            "labels": dict(zip(classes, table[0].tolist(), strict=True)),
            "chi_square": test and float(test.statistic),
            "p_value": test and float(test.pvalue),
        }
    return found


def relation_section(figures: dict) -> Section:
    """For a reader. figures: of `relation_statistics` as `relations`, with the examples of each
    class as `classes`."""
    classes, found = figures["classes"], figures["relations"]
    words = [
        "examples in which a word of the premise stands in such a relation to one of the hypothesis"
    ]
    words.append(
        "chi-square: of having the relation against the class, no correction for the number of relations"
    )
    rows = []
    for kind, of in found.items():
        cells = (f"{n:,} ({100 * n / classes[name]:.1f} %)" for name, n in of["labels"].items())
        tested = of["chi_square"] is not None
        test = (f"{of['chi_square']:,.1f}", p_value(of["p_value"])) if tested else ("", "")
        rows.append((kind, f"{of['examples']:,}", *cells, *test))
    header = (
        "relation",
        "examples",
        *(f"{name} ({n:,})" for name, n in classes.items()),
        "chi-square",
        "p",
    )
    return Section("Kinds of relations by class", words, [Grid("", header, rows)])


def _counts(lengths) -> dict[str, int]:
    values, counts = np.unique(lengths, return_counts=True)
    names = {_FAR: NO_PATH, _NONE: NO_CONCEPT}
    return {names.get(v, str(v)): n for v, n in zip(values.tolist(), counts.tolist(), strict=True)}


def ordered_keys(figures: dict) -> list[str]:
    """Every length that occurs, in rising order; then NO_PATH and NO_CONCEPT if they occur."""
    keys = {
        *figures["occurrences"],
        *(key for counts in figures["nearest"].values() for key in counts),
    }
    return sorted(filter(str.isdigit, keys), key=int) + [
        key for key in (NO_PATH, NO_CONCEPT) if key in keys
    ]


def path_chart(corpus: str, figures: dict) -> charts.Chart | None:
    """The number of pairs of concepts for each path length. figures: see path_section."""
    keys = [key for key in ordered_keys(figures) if key.isdigit()]
    title = f"Shortest paths between concepts, {corpus}, {figures['ontology']} {figures['version']}"
    series = {"concept pairs": [int(figures["occurrences"].get(key, 0)) for key in keys]}
    edges = "edges of any relation" if figures.get("direction") == "all" else "is-a edges"
    return charts.bars(series, keys, title=title, x=f"shortest path, {edges}", y="concept pairs")


def path_section(corpus: str, figures: dict) -> Section:
    """For a reader. figures: of `path_statistics`, with the ontology and its version."""
    occurs, distinct, nearest = (
        figures[name] for name in ("occurrences", "concept_pairs", "nearest")
    )
    of = figures["examples_with_concepts"]
    words = [
        f"{int(occurs.get(NO_PATH, 0)):,} further pairs of concepts have no path; 0: the same concept on both sides",
        f"{corpus}, {figures['ontology']} {figures['version']}: {figures['examples']:,} examples "
        f"({figures.get('split', 'all')}); concepts in {of['premise']:,} premises and {of['hypothesis']:,} hypotheses, "
        f"in both sides of {of['both']:,}; under a class: its examples by their shortest path",
    ]
    if figures["unknown_concepts"]:
        words.append(f"{figures['unknown_concepts']:,} concepts are not in the ontology")
    rows = []
    for key in ordered_keys(figures):
        counts = (
            ("", "") if key == NO_CONCEPT else (f"{of.get(key, 0):,}" for of in (occurs, distinct))
        )
        rows.append((key, *counts, *(f"{of.get(key, 0):,}" for of in nearest.values())))
    grid = Grid("", ("path", "occurrences", "concept pairs", *nearest), rows)
    drawn = path_chart(corpus, figures)
    return Section(
        "Path lengths (Figure 3)", words, [grid], [(drawn.title if drawn else "", drawn)]
    )


def sections_of_file(path: str | Path | None) -> list[Section]:
    """The section of the paths.json that `analyze paths --out=` writes; none without a file."""
    try:
        figures = json.loads(Path(path).read_bytes()) if path else None
        return [path_section(figures["corpus"], figures)] if path else []
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        fix = "give the paths.json that analyze paths --out=FOLDER writes"
        raise DataError(
            f"holds no path lengths ({type(error).__name__})", file=str(path), fix=fix
        ) from None
