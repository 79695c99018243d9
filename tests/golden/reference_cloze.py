"""The cloze readers in plain PyTorch, written from the papers, for test_cloze_readers.

Nothing here has a mask or a batch. Every query runs alone with its passage, both cut to their true lengths, and a
candidate is the list of its places. The equations are computed token by token, as printed.
"""

import torch
import torch.nn.functional as F
from reference import DIM, GRU, HIDDEN, WORDS
from torch import nn

ALPHABET, TYPES, UNKNOWN = 12, 7, 1


def encode(rnn, x):
    """States [T, 2H] of one sentence x [T, D], and the last state of both directions [2H]."""
    states, last = rnn(x[None], torch.tensor([len(x)]))
    return states[0], last[0]


class Characters(nn.Module):
    """C(w): a linear map of the last states of a BiGRU over the characters of a word (Dhingra et al. 2017)."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(ALPHABET, HIDDEN)
        self.encoder = GRU(HIDDEN)
        self.projection = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, spellings):
        return torch.stack([self.projection(encode(self.encoder, self.embedding(s))[1]) for s in spellings])


class GAReader(nn.Module):
    """Dhingra et al. 2017, section 3, with the pointer sum attention of Kadlec et al. 2016.

    pointer: "sum" is the published loss of unmarked passages. Its softmax runs over all words of candidates, and a
    candidate's mass is not normalised over the others. "share" and "mean" normalise it.
    """

    def __init__(self, hops, gate, query_feature=True, pointer="sum", characters=0):
        super().__init__()
        self.hops, self.gate, self.pointer = hops, gate, pointer
        self.embedding = nn.Embedding(WORDS, DIM)
        self.characters = Characters() if characters else None
        words = DIM + (HIDDEN if characters else 0)
        size = words
        for hop in range(hops):
            last = hop == hops - 1
            setattr(self, f"passage_{hop}", GRU(size + (2 if last and query_feature else 0)))
            setattr(self, f"query_{hop}", GRU(words))
            size = (4 if gate == "concat" else 2) * HIDDEN
        self.occurrence = nn.Parameter(torch.zeros(2, 2)) if query_feature else None

    def words(self, tokens, spelling):
        vectors = self.embedding(tokens)
        if self.characters is None:
            return vectors
        return torch.cat([vectors, self.characters([spelling[t][spelling[t] > 0] for t in tokens.tolist()])], dim=-1)

    def meet(self, d, states):
        """a = softmax(Q^T d), q = Q a, x = d * q."""
        a = F.softmax(states @ d, dim=0)
        q = states.T @ a
        return {"mul": d * q, "sum": d + q, "concat": torch.cat([d, q])}[self.gate]

    def forward(self, case):
        """log P [C] of the candidates, or the log of their masses."""
        x, y = (self.words(case[side], case["spelling"]) for side in ("passage", "query"))
        for hop in range(self.hops - 1):
            d, _ = encode(getattr(self, f"passage_{hop}"), x)
            states, _ = encode(getattr(self, f"query_{hop}"), y)
            x = torch.stack([self.meet(token, states) for token in d])
        if self.occurrence is not None:
            query = set(case["query"].tolist()) - {UNKNOWN}
            occurs = [int(token in query) for token in case["passage"].tolist()]
            x = torch.cat([x, torch.stack([self.occurrence[n] for n in occurs])], dim=-1)
        d, _ = encode(getattr(self, f"passage_{self.hops - 1}"), x)
        states, _ = encode(getattr(self, f"query_{self.hops - 1}"), y)
        s = F.softmax(d @ states[case["blank"]], dim=0)
        mass = torch.stack([sum(s[place] for place in places) for places in case["places"]])
        if self.pointer == "sum":
            marked = {place for places in case["places"] for place in places}
            return torch.log(mass / sum(s[place] for place in sorted(marked)))
        if self.pointer == "mean":
            mass = mass / torch.tensor(case["words"])
        return torch.log(mass / mass.sum())


class SAReader(nn.Module):
    """Chen et al. 2016, section 3.2; "mlp" is the attention of Hermann et al. 2015."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.embedding = nn.Embedding(WORDS, DIM)
        self.passage, self.query = GRU(DIM), GRU(DIM)
        size = 2 * HIDDEN
        if attention == "bilinear":
            self.kernel = nn.Parameter(torch.zeros(size, size))
        elif attention == "mlp":
            self.of_passage, self.of_query = (nn.Linear(size, size, bias=False) for _ in range(2))
            self.energy = nn.Parameter(torch.zeros(size))
        self.types = nn.Parameter(torch.zeros(TYPES, size))
        self.bias = nn.Parameter(torch.zeros(TYPES))

    def energies(self, h, q):
        if self.attention == "bilinear":
            return torch.stack([token @ self.kernel @ q for token in h])
        if self.attention == "mlp":
            return torch.stack([self.energy @ torch.tanh(self.of_passage(token) + self.of_query(q)) for token in h])
        return h @ q

    def forward(self, case):
        """log P [C] of the candidates; -inf for types that training does not have."""
        h, last = encode(self.passage, self.embedding(case["passage"]))
        _, q = encode(self.query, self.embedding(case["query"]))
        if self.attention == "average":
            o = h.mean(dim=0)
        elif self.attention == "last":
            o = last
        else:
            o = F.softmax(self.energies(h, q), dim=0) @ h
        unseen = torch.tensor(-torch.inf, dtype=o.dtype)
        scores = [self.types[kind] @ o + self.bias[kind] if kind < TYPES else unseen for kind in case["types"]]
        return F.log_softmax(torch.stack(scores), dim=0)


def build(model, fields):
    """The reference for the model and the settings of a case."""
    return {"ga_reader": GAReader, "sa_reader": SAReader}[model](**fields)
