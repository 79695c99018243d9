"""The models in PyTorch, as fast as we know how to write them.

Architecture, initialisation, dropout, loss, clipping and optimiser are those of `models` (Romanov &
Shivade 2018; Šuster & Daelemans 2018; Dhingra et al. 2017; Chen et al. 2016; Devlin et al. 2019);
only the layout of a batch's sentences in the matrix products differs, by style:

  packed     pack_padded_sequence on shuffled batches, no work on padding; the plain script's
  bucketed   plain nn.LSTM on batches of about one length; its backward direction starts on padding, so that logits
             differ a little from the packed ones, the work is the same. (BOW: sums of padded sentences)
  chunked    plain nn.LSTM on shuffled batches, the sentences of a batch sorted by length and cut into chunks
  distinct   (BOW) each distinct word of a batch is projected once, real tokens are summed
  eager, sdpa  (BERT) attention by matrix products and a softmax, or by PyTorch's fused kernel

Readers are always bucketed: with packed passages PyTorch writes each step's gradient into zeros of
the size of all tokens on a CPU, so that training takes time with the square of the passages'
length.

PyTorch keeps two biases per gate where `models` has one; they are only ever added. Its update gate
is one minus ours. Dimension letters: R sentences, B pairs or queries, T tokens, D numbers of a word
vector, H hidden size; of readers U passages, N passage tokens, S marked tokens, C candidates.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mednli_jax.benchmarking import workload

CLASSES = 3
LEAST_CHUNK, CHUNKS = 32, 8
HOPS = 3
UNKNOWN = 1  # text.UNK
MASKED_ENERGY = -1e9  # models.packing
DROPOUT = {
    "bow": 0.5,
    "infersent": 0.5,
    "esim": 0.0,
    "ga_reader": 0.5,
    "sa_reader": 0.57,
    "bert": 0.1,
}  # defaults


# -- sentence pairs ----------------------------------------------------------------------------------------------------


class Sentences(NamedTuple):
    """tokens [R, T] int64 on the device, trimmed to the longest; length [R] int64 on the CPU; mask
    [R, T] bool."""

    tokens: torch.Tensor
    length: torch.Tensor
    mask: torch.Tensor


class Batch(NamedTuple):
    """premise may hold each distinct premise once: `of` [B] then says which one belongs to each
    pair, else None."""

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
            return pad_packed_sequence(
                self.rnn(packed)[0], batch_first=True, total_length=x.shape[1]
            )[0]
        if self.style == "bucketed":
            return self.rnn(x)[0]
        pieces = [F.pad(s, (0, 0, 0, x.shape[1] - s.shape[1])) for _, s in self._chunks(x, length)]
        return torch.cat(pieces)[self._back]

    def pooled(self, x, length, mask):
        """Maximum over real tokens [R, 2H]."""
        if self.style != "chunked":
            return maxima(self(x, length), mask)
        pieces = [
            maxima(states, mask[rows, : states.shape[1]])
            for rows, states in self._chunks(x, length)
        ]
        return torch.cat(pieces)[self._back]

    def _chunks(self, x, length):
        """(rows, their states) chunk by chunk, shortest first; each chunk is trimmed to its longest
        sentence."""
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
        self.norm_premise, self.norm_hypothesis = (
            nn.BatchNorm1d(hidden, affine=False) for _ in range(2)
        )
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
        for layer, norm in (
            (self.layer_0, self.norm_0),
            (self.layer_1, self.norm_1),
            (self.layer_2, self.norm_2),
        ):
            x = norm(self.drop(F.relu(layer(x))))
        return self.logits(x)


class InferSent(Model):
    def __init__(self, vectors, hidden, dropout, style):
        super().__init__(vectors, hidden, dropout, style)
        self.encoder = BiLSTM(vectors.shape[1], hidden, style)
        self.layer_0, self.layer_1 = nn.Linear(8 * hidden, hidden), nn.Linear(hidden, hidden)
        self.logits = nn.Linear(hidden, CLASSES)

    def forward(self, batch):
        premise, h = (
            self.encoder.pooled(*self.embedded(side)) for side in (batch.premise, batch.hypothesis)
        )
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
        a, a_mask, b_mask = (
            self.spread(premise, batch),
            self.spread(batch.premise.mask, batch),
            batch.hypothesis.mask,
        )
        a_length = (
            batch.premise.length if batch.of is None else batch.premise.length[batch.of.cpu()]
        )
        b_length = batch.hypothesis.length
        energies = a @ b.transpose(1, 2)
        a_attended = attention(energies, b_mask[:, None, :]) @ b
        b_attended = attention(energies, a_mask[..., None], dim=1).transpose(1, 2) @ a
        pooled = []
        for x, attended, length, mask in (
            (a, a_attended, a_length, a_mask),
            (b, b_attended, b_length, b_mask),
        ):
            v = self.composition(self.enhance(x, attended), length)
            total = v.masked_fill(~mask[..., None], 0.0).sum(dim=1)
            pooled += [total / length.to(v.device)[:, None], maxima(v, mask)]
        x = torch.tanh(self.layer(self.drop(torch.cat(pooled, dim=-1))))
        return self.logits(self.drop(x))


PAIRS = {"bow": BOW, "infersent": InferSent, "esim": ESIM}


# -- readers -----------------------------------------------------------------------------------------------------------


class Cloze(NamedTuple):
    """A batch. passage: U of them; `of` [B] says which one belongs to each query, None: the one in
    the same place.

    blank, label [B]; position, candidate [U, S] marked tokens and their candidates' numbers (C on
    padding); kind [U, C] numbers of the candidates' phrases, there [U, C] bool.
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
    """[B, C] log of the summed exponentials of each candidate's energies [B, N]; MASKED_ENERGY on
    padding."""
    position, candidate, there = map(batch.spread, (batch.position, batch.candidate, batch.there))
    at = energies.gather(1, position)
    size = (len(at), there.shape[1] + 1)  # the last column takes what is padding
    top = at.new_full(size, MASKED_ENERGY).scatter_reduce(1, candidate, at.detach(), "amax")
    mass = at.new_zeros(size).scatter_add(1, candidate, (at - top.gather(1, candidate)).exp())[
        :, :-1
    ]
    return torch.where(there, mass.clamp_min(1e-30).log() + top[:, :-1], MASKED_ENERGY)


class Reader(nn.Module):
    """Base of the readers: trained word vectors [V, D] and dropout."""

    def __init__(self, vectors, dropout):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(vectors.clone(), freeze=False)
        self.drop = nn.Dropout(dropout)


class GAReader(Reader):
    """Gated attention: each hop reads passage and query anew and gates the passage by what it
    attends to."""

    def __init__(self, vectors, hidden, dropout, types):
        super().__init__(vectors, dropout)
        dim, wide = vectors.shape[1], 2 * hidden
        self.passage = nn.ModuleList(
            gru(size, hidden) for size in (dim, *[wide] * (HOPS - 2), wide + 2)
        )
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
                x = self.drop(
                    d * (attention(d @ q.transpose(1, 2), batch.query.mask[:, None, :]) @ q)
                )
        at_blank = q[torch.arange(len(q), device=q.device), batch.blank]
        return pointed((d @ at_blank[:, :, None])[..., 0], batch)


class SAReader(Reader):
    """Attention of one vector of the query over the passage; candidates are scored by what it
    attends to."""

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
        rows, end = (
            torch.arange(len(states), device=states.device),
            (batch.query.length - 1).to(states.device),
        )
        q = torch.cat([states[rows, end, : self.hidden], states[:, 0, self.hidden :]], dim=-1)
        weights = attention(
            (h @ self.bilinear(q)[:, :, None])[..., 0], batch.spread(batch.passage.mask)
        )
        o = (weights[:, None, :] @ h)[:, 0]
        kind = batch.spread(batch.kind)
        scores = (self.output(kind) @ o[:, :, None] + self.bias(kind))[..., 0]
        return torch.where(batch.spread(batch.there), scores, MASKED_ENERGY)


READERS = {"ga_reader": GAReader, "sa_reader": SAReader}


# -- word pieces -------------------------------------------------------------------------------------------------------


class Sequences(NamedTuple):
    """pieces, kind [B, T]; mask [B, T], None where there is no padding; label [B]."""

    pieces: torch.Tensor
    kind: torch.Tensor
    mask: torch.Tensor | None
    label: torch.Tensor


class BERT(nn.Module):
    """The model of `transformers`, Sequences -> logits [B, 3]. Its weights are random."""

    def __init__(self, hidden: int, attention: str):
        from transformers import (
            BertConfig,
            BertForSequenceClassification,
        )  # a package of BERT's rows alone

        super().__init__()
        config = BertConfig(
            vocab_size=workload.PIECES,
            hidden_size=hidden,
            num_hidden_layers=workload.BERT_LAYERS,
            num_attention_heads=hidden // workload.BERT_HEAD_SIZE,
            intermediate_size=workload.BERT_INNER * hidden,
            max_position_embeddings=512,
            hidden_dropout_prob=DROPOUT["bert"],
            attention_probs_dropout_prob=DROPOUT["bert"],
            num_labels=CLASSES,
            attn_implementation=attention,
        )
        self.bert = BertForSequenceClassification(config)

    def forward(self, batch: Sequences):
        return self.bert(
            input_ids=batch.pieces, token_type_ids=batch.kind, attention_mask=batch.mask
        ).logits
