"""Floating-point operations of a pair at its true lengths, without padding.

A multiply-add counts 2. Counted are matrix products: input and recurrent products of the LSTMs and GRUs, projections,
attention, heads. Not counted: activations, softmax, pooling, batch norm, the loss, the optimiser.
Training adds two products for each product of the forward pass, the gradients of its two factors; only one if a factor
needs none, as frozen word vectors do.
Letters: H hidden size, D numbers per word vector, p and h tokens of premise and hypothesis, or of passage and query.
Each model's function gives the operations of the forward pass as (on frozen word vectors, all others); `share` is the
share of a premise's encoding that is charged to one of its pairs.
"""

import numpy as np

from mednli_jax.benchmarking import workload

CLASSES, HOPS = 3, 3


def linear(rows, inputs: int, outputs: int):
    return 2 * rows * inputs * outputs


def recurrent(tokens, inputs: int, hidden: int, gates: int):
    """A bidirectional LSTM (four gates) or GRU (three): (products of its inputs, products of its states)."""
    return tokens * 4 * gates * hidden * inputs, tokens * 4 * gates * hidden * hidden


def gru(tokens, inputs: int, hidden: int):
    return sum(recurrent(tokens, inputs, hidden, 3))


def bow(p, h, hidden: int, dim: int, share=1.0):
    head = 3 * linear(1, 2 * hidden, 2 * hidden) + linear(1, 2 * hidden, CLASSES)
    return linear(p * share + h, dim, hidden), head


def infersent(p, h, hidden: int, dim: int, share=1.0):
    words, states = recurrent(p * share + h, dim, hidden, 4)
    return words, states + linear(1, 8 * hidden, hidden) + linear(1, hidden, hidden) + linear(1, hidden, CLASSES)


def esim(p, h, hidden: int, dim: int, share=1.0):
    words, states = recurrent(p * share + h, dim, hidden, 4)
    # Energies, and each side's tokens as sums of the other's: three products of p x h x 2H.
    attention = 3 * linear(p, 2 * hidden, h)
    composition = linear(p + h, 8 * hidden, hidden) + sum(recurrent(p + h, hidden, hidden, 4))
    return words, states + attention + composition + linear(1, 8 * hidden, hidden) + linear(1, hidden, CLASSES)


def ga_reader(p, h, hidden: int, dim: int, share=1.0):
    """A hop reads passage and query anew and attends from the one to the other; the last one only to the blank."""
    queries = HOPS * gru(h, dim, hidden)
    # The first hop's passage is the same for all its queries. The last has a feature of 2 numbers.
    passages = gru(p * share, dim, hidden) + (HOPS - 1) * gru(p, 2 * hidden, hidden) + p * 12 * hidden * 2
    return 0, queries + passages + (HOPS - 1) * 2 * linear(p, 2 * hidden, h) + linear(p, 2 * hidden, 1)


def sa_reader(p, h, hidden: int, dim: int, share=1.0):
    # The bilinear product of the query, energies, the attended state, and the scores of the candidates.
    attention = linear(1, 2 * hidden, 2 * hidden) + linear(2 * p + workload.CANDIDATES, 2 * hidden, 1)
    return 0, gru(p * share + h, dim, hidden) + attention


def bert(p, h, hidden: int, dim: int, share=1.0):
    """Both sides in one sequence, with the special pieces."""
    tokens, inner = p + h + workload.SPECIAL_PIECES, workload.BERT_INNER * hidden
    layer = 4 * linear(tokens, hidden, hidden) + 2 * linear(tokens, hidden, inner) + 2 * linear(tokens, hidden, tokens)
    return 0, workload.BERT_LAYERS * layer + linear(1, hidden, hidden) + linear(1, hidden, CLASSES)


MODELS = {
    "bow": bow, "infersent": infersent, "esim": esim, "ga_reader": ga_reader, "sa_reader": sa_reader, "bert": bert,
}  # fmt: skip


def of_pair(model: str, p, h, *, hidden: int, dim: int, train: bool, share=1.0):
    """Operations of a pair with these lengths, numbers or arrays [N]."""
    frozen, rest = MODELS[model](p, h, hidden, dim, share)
    return 2 * frozen + 3 * rest if train else frozen + rest


def per_pair(model: str, lengths, premise_of, *, hidden: int, dim: int, train: bool, grouped: bool) -> float:
    """Mean operations of the pairs with these lengths (premise [N], hypothesis [N]).

    premise_of [N]: number of each pair's premise. grouped: each distinct premise is encoded once, and its pairs share
    the cost.
    """
    p, h = (np.asarray(x, np.float64) for x in lengths)
    _, which, size = np.unique(premise_of, return_inverse=True, return_counts=True)
    share = 1.0 / size[which] if grouped else 1.0
    return float(np.mean(of_pair(model, p, h, hidden=hidden, dim=dim, train=train, share=share)))
