"""The cloze readers in plain PyTorch, written from the papers, for test_cloze_readers.

Nothing here has a mask or a batch. Every query runs alone with its passage, both cut to their true
lengths, and a candidate is the list of its places. The equations are computed token by token, as
printed.
"""

import torch
import torch.nn.functional as F
from reference import DIM, GRU, HIDDEN, WORDS
from torch import nn

TYPES = 7
UNKNOWN = 1


def encode(rnn, x):
    """States [T, 2H] of one sentence x [T, D], and the last state of both directions [2H]."""
    states, last = rnn(x[None], torch.tensor([len(x)]))
    return states[0], last[0]


class GAReader(nn.Module):
    """Dhingra et al. 2017, section 3, with the pointer sum attention of Kadlec et al. 2016.

    pointer: "sum" is the published loss of unmarked passages. Its softmax runs over all words of
    candidates, and a candidate's mass is not normalised over the others. "share" and "mean"
    normalise it.
    """

    def __init__(self, hops, query_feature=True, pointer="sum"):
        super().__init__()
        self.hops, self.pointer = hops, pointer
        self.embedding = nn.Embedding(WORDS, DIM)
        size = DIM
        for hop in range(hops):
            last = hop == hops - 1
            setattr(self, f"passage_{hop}", GRU(size + (2 if last and query_feature else 0)))
            setattr(self, f"query_{hop}", GRU(DIM))
            size = 2 * HIDDEN
        self.occurrence = nn.Parameter(torch.zeros(2, 2)) if query_feature else None

    def meet(self, d, states):
        """a = softmax(Q^T d), q = Q a, x = d * q."""
        a = F.softmax(states @ d, dim=0)
        return d * (states.T @ a)

    def forward(self, case):
        """log P [C] of the candidates, or the log of their masses."""
        x = self.embedding(case["passage"])
        y = self.embedding(case["query"])
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
        masses = []
        for places in case["places"]:
            masses.append(sum(s[place] for place in places))
        mass = torch.stack(masses)
        if self.pointer == "sum":
            marked = {place for places in case["places"] for place in places}
            return torch.log(mass / sum(s[place] for place in sorted(marked)))
        if self.pointer == "mean":
            mass = mass / torch.tensor(case["words"])
        return torch.log(mass / mass.sum())


class SAReader(nn.Module):
    """Chen et al. 2016, section 3.2."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, DIM)
        self.passage, self.query = GRU(DIM), GRU(DIM)
        size = 2 * HIDDEN
        self.kernel = nn.Parameter(torch.zeros(size, size))
        self.types = nn.Parameter(torch.zeros(TYPES, size))
        self.bias = nn.Parameter(torch.zeros(TYPES))

    def forward(self, case):
        """log P [C] of the candidates; -inf for types that training does not have."""
        h, _ = encode(self.passage, self.embedding(case["passage"]))
        _, q = encode(self.query, self.embedding(case["query"]))
        energies = torch.stack([token @ self.kernel @ q for token in h])
        o = F.softmax(energies, dim=0) @ h
        unseen = torch.tensor(-torch.inf, dtype=o.dtype)
        scores = [
            self.types[kind] @ o + self.bias[kind] if kind < TYPES else unseen
            for kind in case["types"]
        ]
        return F.log_softmax(torch.stack(scores), dim=0)


def build(model, fields):
    """The reference for the model and the settings of a case."""
    return {"ga_reader": GAReader, "sa_reader": SAReader}[model](**fields)
