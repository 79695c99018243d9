"""The models in plain PyTorch, written from the papers and the behaviour of the published code, for
test_parity.

Nothing here has a mask. With masking "masked" every pair runs alone, cut to its true length. With
"paper" the padded batch runs as published: packed recurrences with zeros behind them, softmax and
maximum over the padded length, and averages over the true length. The sum of words then includes
padding up to a fixed length, whose vectors are zero.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

WORDS = 24
DIM = 6
HIDDEN = 5
LONGEST = 4
FIELDS = ("premise", "hypothesis", "premise_length", "hypothesis_length", "distance")


class LSTM(nn.Module):
    """[B, T, D] -> states [B, T, 2H], 0 behind the end of a row, and the last state of both
    directions [B, 2H]."""

    def __init__(self, size):
        super().__init__()
        self.rnn = nn.LSTM(size, HIDDEN, batch_first=True, bidirectional=True)

    def forward(self, x, length):
        packed = pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False)
        states, (last, _) = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return states, torch.cat([last[0], last[1]], dim=-1)


class GRUCell(nn.Module):
    """The GRU of Lasagne: c = tanh(x W + r * (h U) + b), h = (1 - u) h + u c."""

    def __init__(self, size):
        super().__init__()
        for gate in ("reset", "update", "candidate"):
            self.add_module(f"{gate}_input", nn.Linear(size, HIDDEN))
        for gate in ("reset", "update", "candidate"):
            self.add_module(f"{gate}_state", nn.Linear(HIDDEN, HIDDEN, bias=False))

    def forward(self, x, h):
        r = torch.sigmoid(self.reset_input(x) + self.reset_state(h))
        u = torch.sigmoid(self.update_input(x) + self.update_state(h))
        candidate = torch.tanh(self.candidate_input(x) + r * self.candidate_state(h))
        return (1 - u) * h + u * candidate


class GRU(nn.Module):
    """Both directions, token by token over the true length of each row. Input and output are those
    of LSTM."""

    def __init__(self, size):
        super().__init__()
        self.onward, self.backward = GRUCell(size), GRUCell(size)

    @staticmethod
    def run(cell, x):
        h = x.new_zeros(HIDDEN)
        states = []
        for token in x:
            h = cell(token, h)
            states.append(h)
        return torch.stack(states), h

    def forward(self, x, length):
        rows = []
        last = []
        for row, n in zip(x, length.tolist(), strict=True):
            onward, end = self.run(self.onward, row[:n])
            backward, start = self.run(self.backward, row[:n].flip(0))
            states = torch.cat([onward, backward.flip(0)], dim=-1)
            rows.append(F.pad(states, (0, 0, 0, x.shape[1] - n)))
            last.append(torch.cat([end, start]))
        return torch.stack(rows), torch.stack(last)


class Reference(nn.Module):
    """The common part of InferSent and ESIM: word vectors, energies from path lengths, soft
    alignment."""

    def __init__(self, knowledge="none", knowledge_scale=1.0, masking="masked"):
        super().__init__()
        self.knowledge = knowledge
        self.scale = knowledge_scale
        self.masking = masking
        self.embedding = nn.Embedding(WORDS, DIM)
        if knowledge == "bias":
            self.path_weight = nn.Parameter(torch.zeros(LONGEST + 1))

    def links(self, distance):
        """Romanov & Shivade 2018, section 4.2.2: a shorter path gives a higher value, and no path
        gives 0."""
        if self.knowledge == "bias":
            value = self.path_weight[distance.clamp(min=0)]
        else:
            distance_of_type = distance.to(self.embedding.weight.dtype)
            value = self.scale * (1 - distance_of_type / LONGEST)
        return torch.where(distance >= 0, value, torch.zeros_like(value))

    @staticmethod
    def align(e, a, b):
        """Chen et al. 2017, eqs. 12-13."""
        a_attended = F.softmax(e, dim=2) @ b
        b_attended = F.softmax(e.transpose(1, 2), dim=2) @ a
        return a_attended, b_attended

    def forward(self, data, rows, train):
        if self.masking == "paper":
            return self.pairs(*(data[k][rows] for k in FIELDS))
        logits = []
        for row in rows:
            p = data["premise_length"][row]
            h = data["hypothesis_length"][row]
            premise = data["premise"][[row], :p]
            hypothesis = data["hypothesis"][[row], :h]
            distance = data["distance"][[row], :p, :h]
            logits.append(self.pairs(premise, hypothesis, p[None], h[None], distance))
        return torch.cat(logits)


class InferSent(Reference):
    """Conneau et al. 2017. Attended states are appended along time (Romanov & Shivade 2018, section
    4.2.2)."""

    def __init__(self, cell, pooling, matching, **shared):
        super().__init__(**shared)
        self.pooling = pooling
        self.matching = matching
        self.encoder = {"lstm": LSTM, "gru": GRU}[cell](DIM)
        size = (8 if matching == "full" else 4) * HIDDEN
        self.layer_0 = nn.Linear(size, HIDDEN)
        self.layer_1 = nn.Linear(HIDDEN, HIDDEN)
        self.logits = nn.Linear(HIDDEN, 3)

    def pool(self, states, last):
        if self.pooling == "last":
            return last
        if self.pooling == "max":
            return states.max(dim=1).values
        return states.mean(dim=1)

    def pairs(self, premise, hypothesis, premise_length, hypothesis_length, distance):
        a, a_last = self.encoder(self.embedding(premise), premise_length)
        b, b_last = self.encoder(self.embedding(hypothesis), hypothesis_length)
        if self.knowledge != "none":
            a_attended, b_attended = self.align(self.links(distance), a, b)
            a = torch.cat([a, a_attended], dim=1)
            b = torch.cat([b, b_attended], dim=1)
        p = self.pool(a, a_last)
        h = self.pool(b, b_last)
        parts = [p, h]
        if self.matching == "full":
            parts += [(p - h).abs(), p * h]
        z = torch.cat(parts, dim=-1)
        hidden = torch.tanh(self.layer_0(z))
        return self.logits(torch.tanh(self.layer_1(hidden)))


class ESIM(Reference):
    """Chen et al. 2017, section 3, with a second enhancement beside the first (Romanov & Shivade
    2018, figure 2)."""

    def __init__(self, **shared):
        super().__init__(**shared)
        self.encoder = LSTM(DIM)
        self.projection = nn.Linear(8 * HIDDEN, HIDDEN)
        enhancements = 2 if self.knowledge == "replace" else 1
        self.composition = LSTM(enhancements * HIDDEN)
        self.layer = nn.Linear(8 * HIDDEN, HIDDEN)
        self.logits = nn.Linear(HIDDEN, 3)

    def enhance(self, x, attended):
        parts = [x, attended, x - attended, x * attended]
        return F.relu(self.projection(torch.cat(parts, dim=-1)))

    def pairs(self, premise, hypothesis, premise_length, hypothesis_length, distance):
        a, _ = self.encoder(self.embedding(premise), premise_length)
        b, _ = self.encoder(self.embedding(hypothesis), hypothesis_length)
        e = torch.einsum("bpd,bhd->bph", a, b)
        if self.knowledge == "bias":
            e = e + self.links(distance)
        a_attended, b_attended = self.align(e, a, b)
        m_a = self.enhance(a, a_attended)
        m_b = self.enhance(b, b_attended)
        if self.knowledge == "replace":
            a_attended, b_attended = self.align(self.links(distance), a, b)
            m_a = torch.cat([m_a, self.enhance(a, a_attended)], dim=-1)
            m_b = torch.cat([m_b, self.enhance(b, b_attended)], dim=-1)
        pooled = []
        for m, length in ((m_a, premise_length), (m_b, hypothesis_length)):
            v, _ = self.composition(m, length)
            pooled.append(v.sum(dim=1) / length[:, None])
            pooled.append(v.max(dim=1).values)
        hidden = torch.tanh(self.layer(torch.cat(pooled, dim=-1)))
        return self.logits(hidden)


class BOW(Reference):
    """The sum of words (Bowman et al. 2015) with ReLU and batch norm without scale; padding rows
    never reach a norm.

    With knowledge a second sum is added: that of the words' attended vectors, weighted by path
    lengths alone.
    """

    def __init__(self, padded_length=8, **shared):
        super().__init__(**shared)
        self.padded_length = padded_length
        self.projection = nn.Linear(DIM, HIDDEN)
        sums = ("premise", "hypothesis", "premise_attended", "hypothesis_attended")
        self.sums = sums[: 2 if self.knowledge == "none" else 4]
        for name in self.sums:
            setattr(self, f"norm_{name}", nn.BatchNorm1d(HIDDEN, affine=False))
        for i in range(3):
            size = 2 if i else len(self.sums)
            setattr(self, f"layer_{i}", nn.Linear(size * HIDDEN, 2 * HIDDEN))
            setattr(self, f"norm_{i}", nn.BatchNorm1d(2 * HIDDEN, affine=False))
        self.logits = nn.Linear(2 * HIDDEN, 3)

    def forward(self, data, rows, train):
        self.train(train)
        sums = super().forward(data, rows, train)
        normed = []
        for i, name in enumerate(self.sums):
            norm = getattr(self, f"norm_{name}")
            normed.append(norm(sums[:, i]))
        x = torch.cat(normed, dim=-1)
        for layer, norm in (
            (self.layer_0, self.norm_0),
            (self.layer_1, self.norm_1),
            (self.layer_2, self.norm_2),
        ):
            x = norm(F.relu(layer(x)))
        return self.logits(x)

    def pairs(self, premise, hypothesis, premise_length, hypothesis_length, distance):
        """The sums [B, sums, H]."""
        sides = []
        for tokens, length in ((premise, premise_length), (hypothesis, hypothesis_length)):
            vectors = self.embedding(tokens)
            if self.masking == "paper":
                width = tokens.shape[1]
                is_word = torch.arange(width) < length[:, None]
                vectors = vectors * is_word[..., None]
                vectors = F.pad(vectors, (0, 0, 0, self.padded_length - width))
            sides.append(F.relu(self.projection(vectors)))
        if self.knowledge != "none":
            if self.masking == "paper":
                _, premise_width, hypothesis_width = distance.shape
                right = self.padded_length - hypothesis_width
                below = self.padded_length - premise_width
                distance = F.pad(distance, (0, right, 0, below), value=-1)
            sides += self.align(self.links(distance), *sides)
        return torch.stack([side.sum(dim=1) for side in sides], dim=1)


def build(model, fields):
    """The reference for the model and the settings of a case."""
    return {"bow": BOW, "infersent": InferSent, "esim": ESIM}[model](**fields)
