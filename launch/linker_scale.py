"""Measures a linker of a large terminology: seconds to build it, its memory, and its speed.

  python launch/linker_scale.py [--concepts 350000 --names 1000000 --sentences 20000]

Names are synthetic. They have 1 to 9 words, as often as in a clinical terminology, from a vocabulary with the word
frequencies of natural language. Sentences have 20 words of the same vocabulary; a third of each is a name. Two linkers
are built, each in a separate process: one for all names, one for names whose words occur in the sentences.
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology, is_a_matrix

WORDS = 80_000
LENGTHS = (0.06, 0.17, 0.21, 0.19, 0.14, 0.09, 0.06, 0.05, 0.03)  # share of names of 1, 2, ... words


def words(rng):
    """Words of 4 to 13 letters, the most frequent first."""
    parts = np.array([first + second for first in "bcdfglmnprst" for second in "aeio"])
    sizes = rng.integers(2, 7, WORDS)
    return np.array(["".join(rng.choice(parts, size)) for size in sizes])


def drawn(rng, count):
    """Indices of words, by a law of frequencies like that of a language."""
    return np.minimum(rng.pareto(0.9, count) * 3, WORDS - 1).astype(int)


def make(concepts, names, sentences):
    """(ontology, sentences)."""
    rng = np.random.default_rng(0)
    vocabulary = words(rng)
    sizes = rng.choice(np.arange(1, len(LENGTHS) + 1), concepts + names, p=LENGTHS)
    pieces = iter(np.split(vocabulary[drawn(rng, sizes.sum())], np.cumsum(sizes)[:-1]))
    labels = tuple(" ".join(next(pieces)) for _ in range(concepts))
    other = tuple((" ".join(next(pieces)), int(c)) for c in rng.integers(0, concepts, names))
    ids = tuple(f"C{n:07}" for n in range(concepts))
    ontology = Ontology("synthetic", "1", ids, labels, other, is_a_matrix([], concepts), "0" * 64)
    text = []
    for _ in range(sentences):
        name = labels[rng.integers(concepts)].split()
        plain = vocabulary[drawn(rng, 14)].tolist()
        cut = int(rng.integers(len(plain)))
        text.append([*plain[:cut], *name, *plain[cut:]])
    return ontology, text


def measure(options):
    ontology, sentences = make(options.concepts, options.names, options.sentences)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.process_time()
    vocabulary = {word for sentence in sentences for word in sentence} if options.narrow else None
    linker = Linker(ontology, vocabulary=vocabulary)
    made = time.process_time() - started
    started = time.process_time()
    found = sum(len(linker.link(sentence)) for sentence in sentences)
    linked = time.process_time() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    what = "words of the sentences" if options.narrow else "all names"
    print(
        f"{what}: made in {made:.1f} s of one core, {len(sentences) / linked:,.0f} sentences/s, "
        f"{found / len(sentences):.2f} mentions each; peak memory {after:.0f} MB, "
        f"of which {before:.0f} MB to hold the ontology"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--concepts", type=int, default=350_000)
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--narrow", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options)
        return
    for narrow in ([], ["--narrow"]):
        subprocess.run([sys.executable, *sys.argv, "--one", *narrow], check=True)


if __name__ == "__main__":
    main()
