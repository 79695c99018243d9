"""The language model at CliCR's size: `python launch/ngram_scale.py [--tokens=16500000] [--json=FILE]`.

Generates a text of 16.5 million tokens (Table 2 of Šuster & Daelemans 2018) with up to 700,000 words, the number of
words and distinct marked phrases of CliCR's passages. Trains the 4-gram model on it, computes the perplexity of 200,000
new tokens, checks that distributions sum to 1, and answers 7,184 contexts, the size of CliCR's test split. Prints
seconds and peak memory. The exit code is 1 if training takes over five minutes or 4 GB, or if a distribution does not
sum to 1.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mednli_jax.baselines.ngram_lm import estimate
from mednli_jax.files import write_json

ALLOWED_SECONDS, ALLOWED_MEGABYTES = 300, 4000
LENGTH = 24  # tokens of a sentence
QUERIES, FRESH, CHECKED = 7_184, 200_000, 200


def sentences(tokens: int, words: int, seed: int) -> Iterator[list[str]]:
    """Sentences whose words follow Zipf's law. Half of the words are frequent successors of the word before."""
    rng, names = np.random.default_rng(seed), [f"w{number}" for number in range(words)]
    for start in range(0, tokens, 1_000_000):
        rows = min(1_000_000, tokens - start) // LENGTH + 1
        text = np.empty((rows, LENGTH), np.int64)
        free = np.minimum(rng.zipf(1.15, (rows, LENGTH)) - 1, rng.integers(0, words, (rows, LENGTH)))
        text[:, 0] = free[:, 0]
        for place in range(1, LENGTH):
            habit = (text[:, place - 1] * 7919 + np.minimum(rng.zipf(1.7, rows), 500) ** 3) % words
            text[:, place] = np.where(rng.random(rows) < 0.5, habit, free[:, place])
        for row in text.tolist():
            yield [names[number] for number in row]


def measure(tokens: int, words: int) -> dict:
    started = time.monotonic()
    made = sum(map(len, sentences(tokens, words, 0)))
    making = time.monotonic() - started
    started = time.monotonic()
    model = estimate(sentences(tokens, words, 0))
    trained = time.monotonic()
    found = model.perplexity(sentences(FRESH, words, 1))
    scored = time.monotonic()
    contexts = [sentence[:12] for sentence in sentences(QUERIES * LENGTH, words, 2)][:QUERIES]
    for context in contexts:
        model.most_likely(context)
    answered = time.monotonic()
    error = max(abs(model.distribution(context).sum() - 1) for context in contexts[:CHECKED])
    return {
        "tokens": made,
        "words": len(model.words) - 1,
        "ngrams": [len(level.keys) for level in model.levels],
        "training_seconds": round(trained - started - making, 1),
        "text_seconds": round(making, 1),
        "perplexity": round(found["perplexity"], 1),
        "perplexity_seconds": round(scored - trained, 1),
        "answer_seconds": round(answered - scored, 1),
        "largest_error_of_a_sum": float(error),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit() / 1e6),
    }


def unit() -> int:
    """The unit, in bytes, in which the system reports memory."""
    return 1 if sys.platform == "darwin" else 1024


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--tokens", type=int, default=16_500_000)
    parser.add_argument("--words", type=int, default=700_000)
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    figures = measure(given.tokens, given.words)
    print(json.dumps(figures))
    if given.json:
        write_json(given.json, figures)
    within = figures["training_seconds"] <= ALLOWED_SECONDS and figures["peak_megabytes"] <= ALLOWED_MEGABYTES
    return 0 if within and figures["largest_error_of_a_sum"] < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
