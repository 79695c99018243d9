"""Floating-point operations of a pair, at true lengths: what a model has to compute, not what padding adds.

A multiply-add counts 2. Counted are matrix products: input and recurrent products of the LSTMs, projections, the
products of soft alignment, heads. Not counted: activations, softmax, pooling, batch norm, the loss, the optimiser.
Training adds two products for each product of the forward pass, the gradients of its two factors, except where one
factor needs none: the frozen word vectors.
Letters: H hidden size, D numbers per word vector, p and h tokens of premise and hypothesis, or of passage and query.
"""

import numpy as np

from mednli_jax.benchmarking import workload

CLASSES = 3
HOPS = 3


def _both(gradients):
    return 1 + gradients


def lstm(tokens, inputs: int, hidden: int, *, train: bool, input_gradient: bool):
    """A bidirectional LSTM over `tokens`: four gates, two directions."""
    from_input, recurrent = 16 * hidden * inputs, 16 * hidden * hidden
    if train:
        from_input, recurrent = _both(2 if input_gradient else 1) * from_input, _both(2) * recurrent
    return tokens * (from_input + recurrent)


def gru(tokens, inputs: int, hidden: int, *, train: bool):
    """A bidirectional GRU over `tokens`: three gates, two directions; its inputs are trained, too."""
    return tokens * (_both(2) if train else 1) * 12 * hidden * (inputs + hidden)


def linear(rows, inputs: int, outputs: int, *, train: bool, input_gradient: bool = True):
    once = 2 * rows * inputs * outputs
    return once * (_both(2 if input_gradient else 1) if train else 1)


def bow(p, h, hidden: int, dim: int, *, train: bool, share=1.0):
    words = linear(p * share + h, dim, hidden, train=train, input_gradient=False)
    head = sum(linear(1, 2 * hidden, 2 * hidden, train=train) for _ in range(3))
    return words + head + linear(1, 2 * hidden, CLASSES, train=train)


def infersent(p, h, hidden: int, dim: int, *, train: bool, share=1.0):
    encoder = lstm(p * share + h, dim, hidden, train=train, input_gradient=False)
    head = linear(1, 8 * hidden, hidden, train=train) + linear(1, hidden, hidden, train=train)
    return encoder + head + linear(1, hidden, CLASSES, train=train)


def esim(p, h, hidden: int, dim: int, *, train: bool, share=1.0):
    encoder = lstm(p * share + h, dim, hidden, train=train, input_gradient=False)
    # Energies, and each side's tokens as sums of the other's: three products of p x h x 2H.
    alignment = 3 * linear(p, 2 * hidden, h, train=train)
    projection = linear(p + h, 8 * hidden, hidden, train=train)
    composition = lstm(p + h, hidden, hidden, train=train, input_gradient=True)
    head = linear(1, 8 * hidden, hidden, train=train) + linear(1, hidden, CLASSES, train=train)
    return encoder + alignment + projection + composition + head


def ga_reader(p, h, hidden: int, dim: int, *, train: bool, share=1.0):
    """A hop reads passage and query anew and attends from the one to the other; the last one only to the blank."""
    queries = HOPS * gru(h, dim, hidden, train=train)
    # The first hop's passage is the same for all its queries. The last has a feature of 2 numbers.
    passages = gru(p * share, dim, hidden, train=train) + (HOPS - 1) * gru(p, 2 * hidden, hidden, train=train)
    feature = p * (_both(2) if train else 1) * 12 * hidden * 2
    attention = (HOPS - 1) * 2 * linear(p, 2 * hidden, h, train=train)
    return queries + passages + feature + attention + linear(p, 2 * hidden, 1, train=train)


def sa_reader(p, h, hidden: int, dim: int, *, train: bool, share=1.0):
    encoders = gru(p * share, dim, hidden, train=train) + gru(h, dim, hidden, train=train)
    # The bilinear product of the query, energies, the attended state, and the scores of the candidates.
    attention = linear(1, 2 * hidden, 2 * hidden, train=train) + 2 * linear(p, 2 * hidden, 1, train=train)
    return encoders + attention + linear(workload.CANDIDATES, 2 * hidden, 1, train=train)


def bert(p, h, hidden: int, dim: int, *, train: bool, share=1.0):
    """Both sides in one sequence, with the special pieces."""
    tokens = p + h + workload.SPECIAL_PIECES
    inner = workload.BERT_INNER * hidden
    layer = 4 * linear(tokens, hidden, hidden, train=train) + 2 * linear(tokens, hidden, inner, train=train)
    layer += 2 * linear(tokens, hidden, tokens, train=train)
    head = linear(1, hidden, hidden, train=train) + linear(1, hidden, CLASSES, train=train)
    return workload.BERT_LAYERS * layer + head


MODELS = {
    "bow": bow, "infersent": infersent, "esim": esim, "ga_reader": ga_reader, "sa_reader": sa_reader, "bert": bert,
}  # fmt: skip


def per_pair(model: str, lengths, premise_of, *, hidden: int, dim: int, train: bool, grouped: bool) -> float:
    """Mean operations of the pairs with these lengths (premise [N], hypothesis [N]).

    premise_of [N]: number of each pair's premise. grouped: each distinct premise is encoded once, and its pairs share
    the cost.
    """
    p, h = (np.asarray(x, np.float64) for x in lengths)
    _, which, size = np.unique(premise_of, return_inverse=True, return_counts=True)
    share = 1.0 / size[which] if grouped else 1.0
    return float(np.mean(MODELS[model](p, h, hidden, dim, train=train, share=share)))
