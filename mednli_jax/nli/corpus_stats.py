"""Statistics of an NLI corpus: Table 2 of Romanov & Shivade 2018, for any corpus, with more figures."""

from collections import Counter

import numpy as np

from mednli_jax.data.examples import LABELS, Split
from mednli_jax.report.sections import Grid, Section, columns_of, count, mean
from mednli_jax.report.tables import of_corpus

SIDES = ("premise", "hypothesis")
LONG = 50  # tokens; the paper's models cut longer sentences


def statistics(splits: dict[str, Split]) -> dict:
    """Counts and lengths of each split and of all together, as JSON values.

    Returns {"splits": {name: figures}, "all": figures}; figures are
      pairs, labels {label: pairs}, unlabelled (dropped by the reader), tokens {their source: pairs},
      premises: distinct ones; shared_premises (not in "all"): how many of them also occur in an earlier split,
      words: distinct tokens of both sides, case folded; new_words (not in "all"): those not in the first split,
      premise, hypothesis {mean, median, longest, over_50}: tokens of a pair's sentence as the corpus tokenises it.
    """
    result, earlier, first = {}, set(), None
    for name, split in splits.items():
        premises, words = {example.premise for example in split.examples}, _words(split.examples)
        first = words if first is None else first
        result[name] = {
            **_figures([split]),
            "premises": len(premises),
            "shared_premises": len(premises & earlier),
            "words": len(words),
            "new_words": len(words - first),
        }
        earlier |= premises
    whole = list(splits.values())
    words = set().union(*(_words(split.examples) for split in whole))
    return {"splits": result, "all": {**_figures(whole), "premises": len(earlier), "words": len(words)}}


def _words(examples):
    return {token.lower() for pair in examples for token in (*pair.premise_tokens, *pair.hypothesis_tokens)}


def _figures(splits):
    examples = [example for split in splits for example in split.examples]
    labels, tokens = Counter(example.label for example in examples), Counter()
    for split in splits:
        tokens.update(split.facts.get("tokens", {}))
    return {
        "pairs": len(examples),
        "labels": {label: labels[label] for label in LABELS},
        "unlabelled": sum(int(split.facts.get("dropped_unlabelled", 0)) for split in splits),
        "tokens": {kind: count for kind, count in tokens.items() if count},
        **{side: _lengths(examples, side) for side in SIDES},
    }


def _lengths(examples, side):
    lengths = np.array([len(getattr(example, f"{side}_tokens")) for example in examples])
    return {
        "mean": float(lengths.mean()),
        "median": float(np.median(lengths)),
        "longest": int(lengths.max()),
        f"over_{LONG}": int((lengths > LONG).sum()),
    }


def section(corpus: str, values: dict) -> Section:
    """A column for each split and one for all; the paper's figures (Table 2 and section 2.3) below ours where it has
    any. Its lengths are over all 14,049 pairs."""
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
