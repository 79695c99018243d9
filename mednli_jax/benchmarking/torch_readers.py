"""The readers in PyTorch, as fast as we know how to write them, and their batches.

Architecture, dropout, loss, clipping and optimiser are those of `models` (Šuster & Daelemans 2018; Dhingra et al. 2017;
Chen et al. 2016). nn.GRU runs unpacked on batches of passages of about one length; its backward direction starts on
padding, so that logits differ a little from ours, the work is the same. Packed passages are no alternative: on a CPU
PyTorch writes each step's gradient into zeros of the size of all tokens, so that training takes time with the square of
the passages' length.

PyTorch's update gate is one minus ours, and it keeps two biases per gate where `models` has one.
Dimension letters: U passages, B queries, N passage tokens, Q query tokens, S marked tokens, C candidates.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from mednli_jax.benchmarking import torch_side
from mednli_jax.benchmarking.torch_models import Sentences, attention

HOPS = 3
UNKNOWN = 1  # text.UNK
MASKED_ENERGY = -1e9  # models.packing
DROPOUT = {"ga_reader": 0.5, "sa_reader": 0.57}  # defaults.cloze


class Cloze(NamedTuple):
    """A batch. passage: U of them; `of` [B] says which one belongs to each query, None: the one in the same place.

    blank, label [B]; position, candidate [U, S] marked tokens and their candidates' numbers (C on padding);
    kind [U, C] numbers of the candidates' phrases, there [U, C] bool.
    """

    passage: Sentences
    query: Sentences
    of: torch.Tensor | None
    blank: torch.Tensor
    position: torch.Tensor
    candidate: torch.Tensor
    kind: torch.Tensor
    there: torch.Tensor
    label: torch.Tensor

    def spread(self, x):
        """[B, ...] of the queries from [U, ...] of the passages."""
        return x if self.of is None else x.index_select(0, self.of)


def gru(inputs, hidden):
    """[R, T, D] -> (states [R, T, 2H], _); the states of padding have no meaning."""
    made = nn.GRU(inputs, hidden, batch_first=True, bidirectional=True)
    for weight in made.parameters():  # as `models` draws them
        nn.init.normal_(weight, std=0.1) if weight.ndim > 1 else nn.init.zeros_(weight)
    return made


def pointed(energies, batch: Cloze):
    """[B, C] log of the summed exponentials of each candidate's energies [B, N]; MASKED_ENERGY on padding."""
    position, candidate, there = map(batch.spread, (batch.position, batch.candidate, batch.there))
    at = energies.gather(1, position)
    size = (len(at), there.shape[1] + 1)  # the last column takes what is padding
    top = at.new_full(size, MASKED_ENERGY).scatter_reduce(1, candidate, at.detach(), "amax")
    mass = at.new_zeros(size).scatter_add(1, candidate, (at - top.gather(1, candidate)).exp())[:, :-1]
    return torch.where(there, mass.clamp_min(1e-30).log() + top[:, :-1], MASKED_ENERGY)


class Reader(nn.Module):
    """Base of the readers: trained word vectors [V, D] and dropout."""

    def __init__(self, vectors, dropout):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(vectors.clone(), freeze=False)
        self.drop = nn.Dropout(dropout)


class GAReader(Reader):
    """Gated attention: each hop reads passage and query anew and gates the passage by what it attends to."""

    def __init__(self, vectors, hidden, dropout, types):
        super().__init__(vectors, dropout)
        dim, wide = vectors.shape[1], 2 * hidden
        self.passage = nn.ModuleList(gru(size, hidden) for size in (dim, *[wide] * (HOPS - 2), wide + 2))
        self.query = nn.ModuleList(gru(dim, hidden) for _ in range(HOPS))
        self.feature = nn.Embedding(2, 2)
        nn.init.normal_(self.feature.weight, std=0.01)

    def occurs(self, batch):
        """[B, N] 1 where a known word of the passage stands in the query."""
        tokens = batch.spread(batch.passage.tokens)
        same = (tokens[:, :, None] == batch.query.tokens[:, None, :]).any(dim=2)
        return (same & (tokens > UNKNOWN)).long()

    def forward(self, batch: Cloze):
        words, x = self.embedding(batch.query.tokens), self.embedding(batch.passage.tokens)
        for hop, (of_passage, of_query) in enumerate(zip(self.passage, self.query, strict=True)):
            last = hop == HOPS - 1
            if last:
                x = torch.cat([x, self.feature(self.occurs(batch))], dim=-1)
            d, q = of_passage(x)[0], of_query(words)[0]
            if hop == 0:  # up to here the same for all queries of a passage
                d = batch.spread(d)
            if not last:
                x = self.drop(d * (attention(d @ q.transpose(1, 2), batch.query.mask[:, None, :]) @ q))
        at_blank = q[torch.arange(len(q), device=q.device), batch.blank]
        return pointed((d @ at_blank[:, :, None])[..., 0], batch)

    def optimizer(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)


class SAReader(Reader):
    """Attention of one vector of the query over the passage; candidates are scored by what it attends to."""

    def __init__(self, vectors, hidden, dropout, types):
        super().__init__(vectors, dropout)
        self.hidden = hidden
        self.passage, self.query = gru(vectors.shape[1], hidden), gru(vectors.shape[1], hidden)
        self.bilinear = nn.Linear(2 * hidden, 2 * hidden, bias=False)
        self.output, self.bias = nn.Embedding(types, 2 * hidden), nn.Embedding(types, 1)
        nn.init.uniform_(self.bilinear.weight, -0.01, 0.01)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.bias.weight)

    def forward(self, batch: Cloze):
        passage, states = self.passage, self.query(self.drop(self.embedding(batch.query.tokens)))[0]
        h = batch.spread(passage(self.drop(self.embedding(batch.passage.tokens)))[0])
        rows, end = torch.arange(len(states), device=states.device), (batch.query.length - 1).to(states.device)
        q = torch.cat([states[rows, end, : self.hidden], states[:, 0, self.hidden :]], dim=-1)
        weights = attention((h @ self.bilinear(q)[:, :, None])[..., 0], batch.spread(batch.passage.mask))
        o = (weights[:, None, :] @ h)[:, 0]
        kind = batch.spread(batch.kind)
        scores = (self.output(kind) @ o[:, :, None] + self.bias(kind))[..., 0]
        return torch.where(batch.spread(batch.there), scores, MASKED_ENERGY)

    def optimizer(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


MODELS = {"ga_reader": GAReader, "sa_reader": SAReader}


def padded(flat, start, of, fill):
    """[U, longest] pieces of a flat array, and how long [U] they are."""
    first, length = start[of], start[of + 1] - start[of]
    places = torch.arange(int(length.max()))
    inside = places < length[:, None]
    return torch.where(inside, flat[torch.where(inside, first[:, None] + places, 0)], fill), length


class TorchSide(torch_side.TorchSide):
    """One reader over one workload."""

    clip = 10.0

    def load(self, tensor):
        self.corpus = tensor

    def build(self):
        name, vectors = self.spec["model"], torch.from_numpy(self.work.vectors)
        return MODELS[name](vectors, self.spec["hidden"], DROPOUT[name], self.work.facts["types"])

    def optimizer_of(self, model):
        return model.optimizer()

    def _sentences(self, tokens, length):
        mask = torch.arange(tokens.shape[1]) < length[:, None]
        return Sentences(tokens.to(self.device), length, mask.to(self.device))

    def batch(self, rows: np.ndarray) -> Cloze:
        corpus, rows = self.corpus, torch.from_numpy(rows)
        passages, of = corpus["query_passage"][rows], None
        if self.grouped:
            passages, of = torch.unique(passages, return_inverse=True)
            of = of.to(self.device)

        def pieces(name, of_start, fill=0):
            return padded(corpus[name], corpus[f"{of_start}_start"], passages, fill)

        kind, count = pieces("candidate_type", "candidate_type")
        there = torch.arange(kind.shape[1]) < count[:, None]
        position, candidate = (
            pieces(name, "position", fill)[0] for name, fill in (("position", 0), ("position_candidate", kind.shape[1]))
        )
        length = corpus["query_length"][rows]
        query = self._sentences(corpus["query"][rows, : int(length.max())], length)
        rest = (corpus["blank"][rows], position, candidate, kind, there, corpus["label"][rows])
        return Cloze(self._sentences(*pieces("passage", "passage")), query, of, *(x.to(self.device) for x in rest))


class PlainScript(torch_side.PlainEpoch, TorchSide):
    """The plain script of a reader: a batch has passages of all lengths, and encodes a passage again for each query."""

    def __init__(self, spec, work):
        super().__init__({**spec, "grouping": "off"}, work)
