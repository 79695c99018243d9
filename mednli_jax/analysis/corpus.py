"""Statistics of an NLI corpus: Table 2 of Romanov & Shivade 2018, for any corpus."""

from collections import Counter

import numpy as np

from mednli_jax.examples import LABELS, Split

# Romanov & Shivade 2018, Table 2. The lengths are over all 14,049 pairs.
PAPER = {
    "mednli": {
        "pairs": {"train": 11_232, "dev": 1_395, "test": 1_422},
        "premise": {"mean": 20.0, "longest": 202},
        "hypothesis": {"mean": 5.8, "longest": 20},
    }
}


def statistics(splits: dict[str, Split]) -> dict:
    """Counts and lengths as JSON values.

    Returns {"splits": {name: {"pairs", "labels", "premises", "tokens"}}, "premise": {...}, "hypothesis": {...}};
    lengths are in tokens as the corpus tokenises them, over all splits; `premises` counts distinct ones.
    """
    result = {"splits": {}}
    for name, split in splits.items():
        labels = Counter(example.label for example in split.examples)
        result["splits"][name] = {
            "pairs": len(split),
            "labels": {label: labels[label] for label in LABELS},
            "premises": len({example.premise for example in split.examples}),
            "unlabelled": int(split.facts.get("dropped_unlabelled", 0)),
            "tokens": dict(split.facts.get("tokens", {})),
        }
    examples = [example for split in splits.values() for example in split.examples]
    for side in ("premise", "hypothesis"):
        lengths = np.array([len(getattr(example, f"{side}_tokens")) for example in examples])
        result[side] = {
            "mean": float(lengths.mean()),
            "median": float(np.median(lengths)),
            "longest": int(lengths.max()),
            "over_50": int((lengths > 50).sum()),
        }
    return result


def table(corpus: str, values: dict) -> list[str]:
    """Lines of the table, the paper's figures beside ours where it has any."""
    paper = PAPER.get(corpus)
    head = f"{corpus:28} {'ours':>10}" + (f" {'paper':>10}" if paper else "")
    lines = [head]

    def line(name, ours, theirs=None):
        lines.append(f"{name:28} {ours:>10}" + (f" {theirs:>10}" if paper and theirs is not None else ""))

    for name, split in values["splits"].items():
        line(f"{name} pairs", f"{split['pairs']:,}", f"{paper['pairs'].get(name, 0):,}" if paper else None)
    for side in ("premise", "hypothesis"):
        theirs = paper[side] if paper else {}
        line(f"{side} tokens, mean", f"{values[side]['mean']:.1f}", theirs.get("mean"))
        line(f"{side} tokens, longest", values[side]["longest"], theirs.get("longest"))
        line(f"{side} tokens, over 50", values[side]["over_50"])
    for name, split in values["splits"].items():
        line(f"{name} distinct premises", f"{split['premises']:,}")
        for label, count in split["labels"].items():
            line(f"{name} {label}", f"{count:,}")
        if split["unlabelled"]:
            line(f"{name} unlabelled, dropped", f"{split['unlabelled']:,}")
        for kind, count in split["tokens"].items():
            if count:
                line(f"{name}, {kind}", f"{count:,}")
    return lines
