"""The models in PyTorch, as fast as we know how to write them.

Architecture, initialisation, dropout, loss and optimiser are those of `models` (Romanov & Shivade 2018); only the
layout of a batch's sentences in the matrix products differs, by style:

  packed     pack_padded_sequence on shuffled batches, no work on padding; the plain script's
  bucketed   plain nn.LSTM on batches of about one length; its backward direction starts on padding, so that logits
             differ a little from the packed ones, the work is the same. (BOW: sums of padded sentences)
  chunked    plain nn.LSTM on shuffled batches, the sentences of a batch sorted by length and cut into chunks
  distinct   (BOW) each distinct word of a batch is projected once, real tokens are summed

PyTorch keeps two biases per LSTM gate where `models` has one; they are only ever added.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

CLASSES = 3
LEAST_CHUNK, CHUNKS = 32, 8
DROPOUT = {"bow": 0.5, "infersent": 0.5, "esim": 0.0}  # defaults.nli


class Sentences(NamedTuple):
    """tokens [R, T] int64 on the device, trimmed to the longest; length [R] int64 on the CPU; mask [R, T] bool."""

    tokens: torch.Tensor
    length: torch.Tensor
    mask: torch.Tensor


class Batch(NamedTuple):
    """premise may hold each distinct premise once: `of` [B] then says which one belongs to each pair, else None."""

    premise: Sentences
    hypothesis: Sentences
    of: torch.Tensor | None
    label: torch.Tensor


def attention(energies, mask, dim=-1):
    return energies.masked_fill(~mask, torch.finfo(energies.dtype).min).softmax(dim=dim)


def maxima(states, mask):
    return states.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)


class BiLSTM(nn.Module):
    """[R, T, D] -> states [R, T, 2H]; the states of padding have no meaning."""

    def __init__(self, inputs, hidden, style: str):
        super().__init__()
        self.rnn = nn.LSTM(inputs, hidden, batch_first=True, bidirectional=True)
        self.style = style

    def forward(self, x, length):
        if self.style == "packed":
            packed = pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False)
            return pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])[0]
        if self.style == "bucketed":
            return self.rnn(x)[0]
        pieces = [F.pad(s, (0, 0, 0, x.shape[1] - s.shape[1])) for _, s in self._chunks(x, length)]
        return torch.cat(pieces)[self._back]

    def pooled(self, x, length, mask):
        """Maximum over real tokens [R, 2H]."""
        if self.style != "chunked":
            return maxima(self(x, length), mask)
        pieces = [maxima(states, mask[rows, : states.shape[1]]) for rows, states in self._chunks(x, length)]
        return torch.cat(pieces)[self._back]

    def _chunks(self, x, length):
        """(rows, their states) chunk by chunk, shortest first; each chunk is trimmed to its longest sentence."""
        order = torch.argsort(length)
        self._back = torch.argsort(order).to(x.device)
        for rows in order.split(max(LEAST_CHUNK, -(-len(length) // CHUNKS))):
            longest = int(length[rows[-1]])
            rows = rows.to(x.device)
            yield rows, self.rnn(x[rows, :longest])[0]


class Model(nn.Module):
    """Base of the models: frozen word vectors, dropout, premises spread over their pairs."""

    def __init__(self, vectors, hidden, dropout, style):
        super().__init__()
        self.register_buffer("vectors", vectors, persistent=False)
        self.hidden, self.style, self.drop = hidden, style, nn.Dropout(dropout)

    def embedded(self, sentences):
        return F.embedding(sentences.tokens, self.vectors), sentences.length, sentences.mask

    @staticmethod
    def spread(premises, batch):
        return premises if batch.of is None else premises.index_select(0, batch.of)


class BOW(Model):
    def __init__(self, vectors, hidden, dropout, style):
        super().__init__(vectors, hidden, dropout, style)
        self.projection = nn.Linear(vectors.shape[1], hidden)
        self.norm_premise, self.norm_hypothesis = (nn.BatchNorm1d(hidden, affine=False) for _ in range(2))
        for i in range(3):
            setattr(self, f"layer_{i}", nn.Linear(2 * hidden, 2 * hidden))
            setattr(self, f"norm_{i}", nn.BatchNorm1d(2 * hidden, affine=False))
        self.logits = nn.Linear(2 * hidden, CLASSES)

    def sums(self, batch):
        sides = (batch.premise, batch.hypothesis)
        if self.style == "bucketed":
            states = [F.relu(self.projection(F.embedding(s.tokens, self.vectors))) for s in sides]
            return [(x * s.mask[..., None]).sum(dim=1) for x, s in zip(states, sides, strict=True)]
        tokens = torch.cat([s.tokens[s.mask] for s in sides])
        length = torch.cat([s.length for s in sides]).to(tokens.device)
        words, place = torch.unique(tokens, return_inverse=True)
        states = F.relu(self.projection(F.embedding(words, self.vectors)))
        sums = F.embedding_bag(place, states, torch.cumsum(length, 0) - length, mode="sum")
        return sums.split([len(s.tokens) for s in sides])

    def forward(self, batch):
        premise, hypothesis = self.sums(batch)
        premise = self.norm_premise(self.spread(premise, batch))
        x = self.drop(torch.cat([premise, self.norm_hypothesis(hypothesis)], dim=-1))
        for layer, norm in ((self.layer_0, self.norm_0), (self.layer_1, self.norm_1), (self.layer_2, self.norm_2)):
            x = norm(self.drop(F.relu(layer(x))))
        return self.logits(x)


class InferSent(Model):
    def __init__(self, vectors, hidden, dropout, style):
        super().__init__(vectors, hidden, dropout, style)
        self.encoder = BiLSTM(vectors.shape[1], hidden, style)
        self.layer_0, self.layer_1 = nn.Linear(8 * hidden, hidden), nn.Linear(hidden, hidden)
        self.logits = nn.Linear(hidden, CLASSES)

    def forward(self, batch):
        premise, h = (self.encoder.pooled(*self.embedded(side)) for side in (batch.premise, batch.hypothesis))
        p = self.spread(premise, batch)
        x = self.drop(torch.cat([p, h, (p - h).abs(), p * h], dim=-1))
        x = self.drop(torch.tanh(self.layer_0(x)))
        return self.logits(self.drop(torch.tanh(self.layer_1(x))))


class ESIM(Model):
    def __init__(self, vectors, hidden, dropout, style):
        super().__init__(vectors, hidden, dropout, style)
        self.encoder = BiLSTM(vectors.shape[1], hidden, style)
        self.projection = nn.Linear(8 * hidden, hidden)
        self.composition = BiLSTM(hidden, hidden, style)
        self.layer = nn.Linear(8 * hidden, hidden)
        self.logits = nn.Linear(hidden, CLASSES)

    def encoded(self, sentences):
        x, length, _ = self.embedded(sentences)
        return self.encoder(self.drop(x), length)

    def enhance(self, x, attended):
        x = F.relu(self.projection(torch.cat([x, attended, x - attended, x * attended], dim=-1)))
        return self.drop(x)

    def forward(self, batch):
        premise, b = (self.encoded(side) for side in (batch.premise, batch.hypothesis))
        a, a_mask, b_mask = self.spread(premise, batch), self.spread(batch.premise.mask, batch), batch.hypothesis.mask
        a_length = batch.premise.length if batch.of is None else batch.premise.length[batch.of.cpu()]
        b_length = batch.hypothesis.length
        energies = a @ b.transpose(1, 2)
        a_attended = attention(energies, b_mask[:, None, :]) @ b
        b_attended = attention(energies, a_mask[..., None], dim=1).transpose(1, 2) @ a
        pooled = []
        for x, attended, length, mask in ((a, a_attended, a_length, a_mask), (b, b_attended, b_length, b_mask)):
            v = self.composition(self.enhance(x, attended), length)
            total = v.masked_fill(~mask[..., None], 0.0).sum(dim=1)
            pooled += [total / length.to(v.device)[:, None], maxima(v, mask)]
        x = torch.tanh(self.layer(self.drop(torch.cat(pooled, dim=-1))))
        return self.logits(self.drop(x))


MODELS = {"bow": BOW, "infersent": InferSent, "esim": ESIM}


def build(name: str, vectors, hidden: int, style: str) -> Model:
    """A model by name in a style, weights drawn as PyTorch draws them."""
    return MODELS[name](torch.as_tensor(vectors), hidden, DROPOUT[name], style)
