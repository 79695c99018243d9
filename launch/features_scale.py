"""The feature-based system at MedNLI's size: `python launch/features_scale.py [--seeds=0,1 ...] [--json=FILE]`.

The corpus is the demo with as many pairs as MedNLI (14,049) and random 300-d vectors. With an empty cache the script
times three steps: computing the features (reading the corpus, linking concepts in MeSH, 35 columns), loading them from
the cache, and gradient boosting with the paper's 300 rounds. It prints seconds, peak memory, accuracies and the
importance of the features. It takes about two minutes on two cores with one or two seeds.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mednli_jax import defaults
from mednli_jax.baselines import boosting
from mednli_jax.experiment import nli_corpus
from mednli_jax.files import write_json

ALLOWED_SECONDS = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="demo_full", help="demo_full (14,049 pairs) or demo (4,200)")
    parser.add_argument("--seeds", default="0", help="seeds of the boosting, or none")
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    seeds = () if options.seeds == "none" else tuple(map(int, options.seeds.split(",")))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEDNLI_JAX_CACHE"] = folder
        figures = measure(options.variant, seeds, options.trees)
    if options.json:
        write_json(options.json, figures)
    return 0 if figures["features_seconds"] <= ALLOWED_SECONDS else 1


def measure(variant: str, seeds: tuple[int, ...], trees: int) -> dict:
    config = defaults.nli("features", variant, knowledge="replace")
    corpus = nli_corpus(config)
    seconds, prepared = timed(lambda: corpus.prepare()[0])
    rows = sum(map(len, prepared.splits.values()))
    print(f"{variant}: {rows:,} pairs, prepared in {seconds:.1f} s", flush=True)
    took, (table, _) = timed(lambda: boosting.load(corpus, prepared))
    again, (same, hit) = timed(lambda: boosting.load(corpus, prepared))
    if not hit or not np.array_equal(table, same):
        raise SystemExit("the features kept on disk are not those that were computed")
    print(f"features: {took:.1f} s ({ALLOWED_SECONDS} s allowed); found on disk: {again:.3f} s", flush=True)
    figures = {"pairs": rows, "features_seconds": took, "kept_seconds": again, "peak_megabytes": peak()}
    if seeds:
        figures |= boost(prepared, table, seeds, trees)
    print(f"peak memory {peak():.0f} MB")
    return figures


def boost(prepared, table, seeds, trees) -> dict:
    label = np.concatenate([rows.label for rows in prepared.splits.values()])
    part = {name: slice(rows.first, rows.first + len(rows)) for name, rows in prepared.splits.items()}
    took, done = timed(lambda: boosting.fit_predict(table, label, part["train"], seeds, trees=trees))
    print(f"boosting: {trees} rounds, {len(seeds)} seeds, {took:.1f} s")
    right = done.probabilities.argmax(axis=-1) == label
    accuracy = {name: right[:, rows].mean(axis=1).tolist() for name, rows in part.items()}
    for name, values in accuracy.items():
        print(f"{name} accuracy {np.mean(values):.4f}")
    importance = boosting.importance_table(done.importance)
    print("\n".join(boosting.importance_lines(importance)))
    return {"boosting_seconds": took, "trees": trees, "accuracy": accuracy, "importance": importance}


def timed(call):
    started = time.monotonic()
    result = call()
    return time.monotonic() - started, result


def peak() -> float:
    """The peak memory of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


if __name__ == "__main__":
    sys.exit(main())
