"""Time and memory of retrofitting at full size: `python launch/retrofit_scale.py [--words=100000 --degree=10 ...]`.

Generates random vectors and a random undirected graph. Prints the seconds of `retrofit` and of its colouring, the
number of colours, the peak memory before and after, and the largest change of a vector in one more round. The target is
10 seconds on two cores for ten rounds over 100,000 words with 300-d vectors and 10 neighbours each.
"""

import argparse
import resource
import sys
import time

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.knowledge.retrofit import colours, retrofit


def random_graph(words: int, degree: float, rng: np.random.Generator) -> csr_array:
    """[V, V] bool, symmetric: about `degree` neighbours on average; a few words have many, as in an ontology."""
    chance = rng.random((2, round(words * degree / 2)))
    chance[1] **= 2  # one end of an edge is more often one of the first words
    ends = (words * chance).astype(np.int64)
    rows, columns = np.concatenate([ends, ends[::-1]], axis=1)
    return csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(words, words))


def peak_gib() -> float:
    """The peak resident memory of this process, in GiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 30 if sys.platform == "darwin" else 1 << 20)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--words", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--degree", type=float, default=10, help="neighbours of a word, on average")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    vectors = rng.standard_normal((options.words, options.dim), np.float32)
    graph = random_graph(options.words, options.degree, rng)
    degree = np.diff(graph.indptr)
    print(f"{options.words} words x {options.dim}, {graph.nnz} neighbours, at most {degree.max()} of a word")
    started = time.perf_counter()
    number = int(colours(graph).max()) + 1
    print(f"colours: {number}, {time.perf_counter() - started:.2f} s of each run")
    before, seconds = peak_gib(), []
    for _ in range(options.repeats):
        started = time.perf_counter()
        result = retrofit(vectors, graph, rounds=options.rounds)
        seconds.append(time.perf_counter() - started)
    shown = ", ".join(f"{second:.2f}" for second in seconds)
    print(f"retrofit, {options.rounds} rounds: {shown} s; peak memory {before:.2f} GiB before, {peak_gib():.2f} after")
    more = retrofit(vectors, graph, rounds=options.rounds + 1)
    print(f"one more round moves a vector by at most {np.linalg.norm(more - result, axis=1).max():.1e}")


if __name__ == "__main__":
    main()
