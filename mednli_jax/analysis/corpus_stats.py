"""Statistics of an NLI corpus: Table 2 of Romanov & Shivade 2018, for any corpus, and what else is worth a look."""

from collections import Counter

import numpy as np

from mednli_jax.examples import LABELS, Split

SIDES = ("premise", "hypothesis")
LONG = 50  # the longest sentence that the models of the paper saw whole
# Romanov & Shivade 2018, Table 2 and section 2.3. The lengths are over all 14,049 pairs.
PAPER = {
    "mednli": {
        "train": {"pairs": 11_232},
        "dev": {"pairs": 1_395},
        "test": {"pairs": 1_422},
        "all": {
            "pairs": 14_049,
            "premises": 4_683,
            "premise": {"mean": 20.0, "longest": 202},
            "hypothesis": {"mean": 5.8, "longest": 20},
        },
    }
}


def statistics(splits: dict[str, Split]) -> dict:
    """Counts and lengths of each split and of all together, as JSON values.

    Returns {"splits": {name: figures}, "all": figures}; figures are
      pairs, labels {label: pairs}, unlabelled (dropped by the reader), tokens {where they come from: pairs},
      premises: distinct ones; shared_premises (not in "all"): how many of them stand in an earlier split, too,
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


def table(corpus: str, values: dict) -> list[str]:
    """Lines of the table: a column per split and one for all; the paper's figures below ours where it has any."""
    columns = {**values["splits"], "all": values["all"]}
    paper = PAPER.get(corpus, {})
    lines = [_line(corpus, columns)]

    def row(title, *path, digits=0, optional=False):
        found = [_figure(figures, path) for figures in columns.values()]
        if optional and not any(found):
            return
        lines.append(_line(title, [_shown(value, digits) for value in found]))
        theirs = [_figure(paper.get(name), path) for name in columns]
        if any(value is not None for value in theirs):
            lines.append(_line("  in the paper", [_shown(value, digits) for value in theirs]))

    row("pairs", "pairs")
    for side in SIDES:
        row(f"{side}, mean tokens", side, "mean", digits=1)
    for side in SIDES:
        row(f"{side}, longest", side, "longest")
    for side in SIDES:
        row(f"{side}, over {LONG} tokens", side, f"over_{LONG}")
    row("distinct premises", "premises")
    row("  also in an earlier split", "shared_premises")
    for label in LABELS:
        row(label, "labels", label)
    row("unlabelled, dropped", "unlabelled", optional=True)
    row("distinct words", "words")
    row(f"  not in {next(iter(values['splits']))}", "new_words")
    for kind in values["all"]["tokens"]:
        row(f"tokens from {kind}", "tokens", kind)
    return lines


def _line(title, cells):
    return (f"{title:28}" + "".join(f" {cell:>9}" for cell in cells)).rstrip()


def _figure(figures, path):
    """The figure at a path of names; None where there is none."""
    for name in path:
        figures = None if figures is None else figures.get(name)
    return figures


def _shown(value, digits):
    return "" if value is None else f"{value:,.{digits}f}"
