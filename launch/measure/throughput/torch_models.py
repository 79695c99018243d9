"""The models in PyTorch, as fast as we know how to write them.

Architecture, dropout, loss, clipping and optimiser are those of `models` (Romanov & Shivade 2018;
Šuster & Daelemans 2018; Dhingra et al. 2017; Chen et al. 2016; Devlin et al. 2019). Weights are
drawn as PyTorch draws them, which changes no speed. Only the layout of a batch's sentences in the
matrix products differs, by style:

  bucketed   plain nn.LSTM on batches of about one length; its backward direction starts on
             padding, so that logits differ a little from those of packed sentences, the work is the
             same
  chunked    plain nn.LSTM on shuffled batches, the sentences of a batch sorted by length and cut
             into chunks
  distinct   (BOW) each distinct word of a batch is projected once, real tokens are summed
  eager, sdpa  (encoders) attention by matrix products and a softmax, or by PyTorch's fused kernel

Readers are always bucketed: with packed passages PyTorch writes each step's gradient into zeros of
the size of all tokens on a CPU, so that training takes time with the square of the passages'
length.

PyTorch keeps two biases per gate where `models` has one; they are only ever added. Its update gate
is one minus ours. Dimension letters: R sentences, B pairs or queries, T tokens, D numbers of a word
vector, H hidden size; of readers U passages, N passage tokens, S marked tokens, C candidates.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from benchmark_cases import library_config
from synthetic_corpora import TYPES
from torch import Tensor, nn

from mednli_jax.models.families import FAMILIES, MODERN

CLASSES = 3
LEAST_CHUNK, CHUNKS = 32, 8
BOW_LAYERS = 3
HOPS = 3
UNKNOWN = 1  # text.UNK
MASKED_ENERGY = -1e9  # models.packing


# -- sentence pairs --------------------------------------------------------------------------------


class Sentences(NamedTuple):
    """Padded sentences.

    Args:
      tokens: [R, T] int64 on the device, trimmed to the longest.
      length: [R] int64 on the CPU.
      mask: [R, T] bool.
    """

    tokens: Tensor
    length: Tensor
    mask: Tensor


class Batch(NamedTuple):
    """A batch of pairs.

    premise_of: [B], the place of each pair's premise among the distinct premises; None if premises
    and hypotheses have one order.
    """

    premise: Sentences
    hypothesis: Sentences
    premise_of: Tensor | None
    label: Tensor

    def spread(self, of_premises: Tensor) -> Tensor:
        """Repeats rows [R, ...] of the premises for their pairs, [B, ...]."""
        if self.premise_of is None:
            return of_premises
        return of_premises.index_select(0, self.premise_of)


def attention(energies: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    return energies.masked_fill(~mask, -torch.inf).softmax(dim=dim)


def maxima(states: Tensor, mask: Tensor) -> Tensor:
    """Maxima [R, H] of states [R, T, H] over real tokens."""
    return states.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)


class BiLSTM(nn.Module):
    """[R, T, D] -> states [R, T, 2H]; the states of padding have no meaning."""

    def __init__(self, inputs: int, hidden: int, style: str) -> None:
        super().__init__()
        self.rnn = nn.LSTM(inputs, hidden, batch_first=True, bidirectional=True)
        self.style = style

    def forward(self, x: Tensor, length: Tensor) -> Tensor:
        if self.style == "bucketed":
            return self.rnn(x)[0]
        steps = x.shape[1]
        return self._in_chunks(
            x, length, lambda states, _: F.pad(states, (0, 0, 0, steps - states.shape[1]))
        )

    def pooled(self, x: Tensor, length: Tensor, mask: Tensor) -> Tensor:
        """Maximum over real tokens [R, 2H]."""
        if self.style == "bucketed":
            return maxima(self(x, length), mask)
        return self._in_chunks(
            x, length, lambda states, rows: maxima(states, mask[rows, : states.shape[1]])
        )

    def _in_chunks(
        self, x: Tensor, length: Tensor, form: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Runs sentences of about one length at a time, in a form (states, rows) -> [R, ...]."""
        order = torch.argsort(length)
        chunks = []
        for rows in order.split(max(LEAST_CHUNK, -(-len(length) // CHUNKS))):
            longest = int(length[rows[-1]])
            rows = rows.to(x.device)
            chunks.append(form(self.rnn(x[rows, :longest])[0], rows))
        return torch.cat(chunks)[torch.argsort(order).to(x.device)]


class Model(nn.Module):
    """Base of the models: word vectors [V, D], which readers train, and dropout."""

    def __init__(self, vectors: Tensor, dropout: float, *, freeze: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(vectors.clone(), freeze=freeze)
        self.drop = nn.Dropout(dropout)


class BOW(Model):
    def __init__(self, vectors: Tensor, hidden: int, dropout: float, style: str) -> None:
        super().__init__(vectors, dropout)
        self.projection = nn.Linear(vectors.shape[1], hidden)
        self.norm_premise = nn.BatchNorm1d(hidden, affine=False)
        self.norm_hypothesis = nn.BatchNorm1d(hidden, affine=False)
        wide = 2 * hidden
        self.layers = nn.ModuleList(nn.Linear(wide, wide) for _ in range(BOW_LAYERS))
        norms = (nn.BatchNorm1d(wide, affine=False) for _ in range(BOW_LAYERS))
        self.norms = nn.ModuleList(norms)
        self.logits = nn.Linear(wide, CLASSES)

    def distinct_sums(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sums [R, H] of both sides. Each distinct word is projected once."""
        sides = (batch.premise, batch.hypothesis)
        tokens = torch.cat([side.tokens[side.mask] for side in sides])
        length = torch.cat([side.length for side in sides]).to(tokens.device)
        words, place = torch.unique(tokens, return_inverse=True)
        start = torch.cumsum(length, 0) - length
        projected = F.relu(self.projection(self.embedding(words)))
        sums = F.embedding_bag(place, projected, start, mode="sum")
        premise_sums, hypothesis_sums = sums.split([len(side.tokens) for side in sides])
        return premise_sums, hypothesis_sums

    def forward(self, batch: Batch) -> Tensor:
        premise, hypothesis = self.distinct_sums(batch)
        premise = self.norm_premise(batch.spread(premise))
        x = self.drop(torch.cat([premise, self.norm_hypothesis(hypothesis)], dim=-1))
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(self.drop(F.relu(layer(x))))
        return self.logits(x)


class InferSent(Model):
    def __init__(self, vectors: Tensor, hidden: int, dropout: float, style: str) -> None:
        super().__init__(vectors, dropout)
        self.encoder = BiLSTM(vectors.shape[1], hidden, style)
        self.layer_0 = nn.Linear(8 * hidden, hidden)
        self.layer_1 = nn.Linear(hidden, hidden)
        self.logits = nn.Linear(hidden, CLASSES)

    def encoded(self, sentences: Sentences) -> Tensor:
        x = self.embedding(sentences.tokens)
        return self.encoder.pooled(x, sentences.length, sentences.mask)

    def forward(self, batch: Batch) -> Tensor:
        p = batch.spread(self.encoded(batch.premise))
        h = self.encoded(batch.hypothesis)
        x = self.drop(torch.cat([p, h, (p - h).abs(), p * h], dim=-1))
        x = self.drop(torch.tanh(self.layer_0(x)))
        return self.logits(self.drop(torch.tanh(self.layer_1(x))))


class ESIM(Model):
    def __init__(self, vectors: Tensor, hidden: int, dropout: float, style: str) -> None:
        super().__init__(vectors, dropout)
        self.encoder = BiLSTM(vectors.shape[1], hidden, style)
        self.projection = nn.Linear(8 * hidden, hidden)
        self.composition = BiLSTM(hidden, hidden, style)
        self.layer = nn.Linear(8 * hidden, hidden)
        self.logits = nn.Linear(hidden, CLASSES)

    def encoded(self, sentences: Sentences) -> Tensor:
        return self.encoder(self.drop(self.embedding(sentences.tokens)), sentences.length)

    def enhance(self, x: Tensor, attended: Tensor) -> Tensor:
        x = torch.cat([x, attended, x - attended, x * attended], dim=-1)
        return self.drop(F.relu(self.projection(x)))

    def pooled(self, x: Tensor, attended: Tensor, length: Tensor, mask: Tensor) -> list[Tensor]:
        """Mean and maximum [B, 2H] of the composed states."""
        states = self.composition(self.enhance(x, attended), length)
        total = states.masked_fill(~mask[..., None], 0.0).sum(dim=1)
        return [total / length.to(states.device)[:, None], maxima(states, mask)]

    def forward(self, batch: Batch) -> Tensor:
        a = batch.spread(self.encoded(batch.premise))
        b = self.encoded(batch.hypothesis)
        a_mask, b_mask = batch.spread(batch.premise.mask), batch.hypothesis.mask
        a_length, b_length = batch.premise.length, batch.hypothesis.length
        if batch.premise_of is not None:
            a_length = a_length[batch.premise_of.cpu()]
        energies = a @ b.transpose(1, 2)
        a_attended = attention(energies, b_mask[:, None, :]) @ b
        b_attended = attention(energies, a_mask[..., None], dim=1).transpose(1, 2) @ a
        pooled = self.pooled(a, a_attended, a_length, a_mask)
        pooled += self.pooled(b, b_attended, b_length, b_mask)
        x = torch.tanh(self.layer(self.drop(torch.cat(pooled, dim=-1))))
        return self.logits(self.drop(x))


PAIRS = {"bow": BOW, "infersent": InferSent, "esim": ESIM}


# -- readers ---------------------------------------------------------------------------------------


class Cloze(NamedTuple):
    """A batch of queries over U passages.

    Args:
      passage_of: [B], the place of each query's passage; None if both have one order.
      blank, label: [B].
      position: [U, S], marked tokens.
      candidate: [U, S], the candidate of each marked token; C on padding.
      kind: [U, C], numbers of the candidates' phrases.
      exists: [U, C] bool, False on padding.
    """

    passage: Sentences
    query: Sentences
    passage_of: Tensor | None
    blank: Tensor
    position: Tensor
    candidate: Tensor
    kind: Tensor
    exists: Tensor
    label: Tensor

    def spread(self, of_passages: Tensor) -> Tensor:
        """Repeats rows [U, ...] of the passages for their queries, [B, ...]."""
        if self.passage_of is None:
            return of_passages
        return of_passages.index_select(0, self.passage_of)


def gru(inputs: int, hidden: int) -> nn.GRU:
    """Makes a bidirectional GRU: [R, T, D] -> (states [R, T, 2H], _); the states of padding have no
    meaning."""
    return nn.GRU(inputs, hidden, batch_first=True, bidirectional=True)


def pointed(energies: Tensor, batch: Cloze) -> Tensor:
    """The log of the summed exponentials of each candidate's energies [B, N]: [B, C]; MASKED_ENERGY
    on padding."""
    candidate, exists = batch.spread(batch.candidate), batch.spread(batch.exists)
    marked = energies.gather(1, batch.spread(batch.position))
    size = (len(marked), exists.shape[1] + 1)  # the last column takes padding
    top = marked.new_full(size, MASKED_ENERGY)
    top = top.scatter_reduce(1, candidate, marked.detach(), "amax")
    share = (marked - top.gather(1, candidate)).exp()
    mass = marked.new_zeros(size).scatter_add(1, candidate, share)[:, :-1]
    return torch.where(exists, mass.clamp_min(1e-30).log() + top[:, :-1], MASKED_ENERGY)


class GAReader(Model):
    """Gated attention: each hop reads passage and query anew, and multiplies the passage's states
    by the query's attended states."""

    def __init__(self, vectors: Tensor, hidden: int, dropout: float, style: str) -> None:
        super().__init__(vectors, dropout, freeze=False)
        dim, wide = vectors.shape[1], 2 * hidden
        inputs = (dim, wide, wide + 2)  # of the hops
        self.passage = nn.ModuleList(gru(size, hidden) for size in inputs)
        self.query = nn.ModuleList(gru(dim, hidden) for _ in range(HOPS))
        self.feature = nn.Embedding(2, 2)

    def occurs(self, batch: Cloze) -> Tensor:
        """[B, N], 1 if a known word of the passage stands in the query."""
        tokens = batch.spread(batch.passage.tokens)
        same = (tokens[:, :, None] == batch.query.tokens[:, None, :]).any(dim=2)
        return (same & (tokens > UNKNOWN)).long()

    def forward(self, batch: Cloze) -> Tensor:
        words = self.embedding(batch.query.tokens)
        query_mask = batch.query.mask[:, None, :]
        x = self.embedding(batch.passage.tokens)
        for hop in range(HOPS):
            last = hop == HOPS - 1
            if last:
                x = torch.cat([x, self.feature(self.occurs(batch))], dim=-1)
            passage = self.passage[hop](x)[0]
            query = self.query[hop](words)[0]
            if hop == 0:  # up to here the same for all queries of a passage
                passage = batch.spread(passage)
            if not last:
                attended = attention(passage @ query.transpose(1, 2), query_mask) @ query
                x = self.drop(passage * attended)
        at_blank = query[torch.arange(len(query), device=query.device), batch.blank]
        return pointed((passage @ at_blank[:, :, None])[..., 0], batch)


class SAReader(Model):
    """Attention of a vector of the query over the passage; candidates are scored by the attended
    states."""

    def __init__(self, vectors: Tensor, hidden: int, dropout: float, style: str) -> None:
        super().__init__(vectors, dropout, freeze=False)
        self.hidden = hidden
        self.passage = gru(vectors.shape[1], hidden)
        self.query = gru(vectors.shape[1], hidden)
        self.bilinear = nn.Linear(2 * hidden, 2 * hidden, bias=False)
        self.output = nn.Embedding(TYPES, 2 * hidden)
        self.bias = nn.Embedding(TYPES, 1)

    def query_vector(self, query: Sentences) -> Tensor:
        """The last states of both directions, [B, 2H]."""
        states = self.query(self.drop(self.embedding(query.tokens)))[0]
        rows = torch.arange(len(states), device=states.device)
        end = (query.length - 1).to(states.device)
        forward, backward = states[rows, end, : self.hidden], states[:, 0, self.hidden :]
        return torch.cat([forward, backward], dim=-1)

    def forward(self, batch: Cloze) -> Tensor:
        q = self.query_vector(batch.query)
        h = batch.spread(self.passage(self.drop(self.embedding(batch.passage.tokens)))[0])
        energies = (h @ self.bilinear(q)[:, :, None])[..., 0]
        weights = attention(energies, batch.spread(batch.passage.mask))
        o = (weights[:, None, :] @ h)[:, 0]
        kind = batch.spread(batch.kind)
        scores = (self.output(kind) @ o[:, :, None] + self.bias(kind))[..., 0]
        return torch.where(batch.spread(batch.exists), scores, MASKED_ENERGY)


# -- word pieces -----------------------------------------------------------------------------------


class Sequences(NamedTuple):
    """Pairs as sequences of pieces. pieces, kind: [B, T]. mask: [B, T], None without padding.
    label: [B]."""

    pieces: Tensor
    kind: Tensor
    mask: Tensor | None
    label: Tensor


class Encoder(nn.Module):
    """A model of `transformers`, Sequences -> logits [B, 3]. Its weights are random.

    Args:
      family: the library's model_type.
      vectors: not used, the model has its own embeddings of pieces.
      style: of attention.
    """

    def __init__(
        self, family: str, vectors: Tensor, hidden: int, dropout: float, style: str
    ) -> None:
        # a package of encoders' rows alone
        from transformers import AutoConfig, AutoModelForSequenceClassification

        super().__init__()
        self.has_types = family != MODERN
        config = AutoConfig.for_model(
            **library_config(family, hidden),
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            num_labels=CLASSES,
            attn_implementation=style,
        )
        self.bert = AutoModelForSequenceClassification.from_config(config)

    def forward(self, batch: Sequences) -> Tensor:
        kind = batch.kind if self.has_types else None
        output = self.bert(input_ids=batch.pieces, token_type_ids=kind, attention_mask=batch.mask)
        return output.logits


MODELS = {**PAIRS, "ga_reader": GAReader, "sa_reader": SAReader}
MODELS |= {family: partial(Encoder, family) for family in FAMILIES}
