"""Computes KIM (Chen et al. 2018) in plain PyTorch, one pair at a time and densely, for tests/models/test_kim.py.

  python tests/golden/make_golden_kim.py    # with torch; writes golden_kim.npz beside this file

The script turns the names of relations into the paper's vectors. Synonym, antonym, co-hyponym, the same word and named
relations give 1. A hypernym or hyponym over n edges gives 1 - n/8, and nothing beyond 8 edges.
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

WORDS, DIM, HIDDEN, SCALE = 20, 6, 5, 1.5
ORDER = ("same", "synonym", "antonym", "hypernym", "hyponym", "co_hyponym", "treats", "inverse_treats")
OTHER_WAY = {"hypernym": "hyponym", "hyponym": "hypernym", "treats": "inverse_treats", "inverse_treats": "treats"}
LENGTHS = ((7, 4), (3, 5), (5, 1), (6, 3))
# Each pair's (premise token, hypothesis token, number of is-a edges or another number, kinds).
LINKS = (
    [(0, 1, 0, ("same",)), (2, 3, 3, ("hypernym",)), (6, 0, 1, ("antonym", "treats")), (2, 0, 2, ("co_hyponym",))],
    [(1, 4, 1, ("hyponym", "co_hyponym")), (2, 0, 0, ("synonym",)), (1, 0, 9, ("hypernym",))],
    [],
    [(5, 2, 8, ("hyponym",)), (4, 1, 1, ("inverse_treats",)), (0, 0, 4, ("hypernym", "hyponym", "antonym"))],
)


def vector(kinds, edges):
    return [(max(1 - edges / 8, 0) if kind.startswith("hyp") else 1.0) if kind in kinds else 0.0 for kind in ORDER]


class KIM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, DIM)
        self.encoder = nn.LSTM(DIM, HIDDEN, batch_first=True, bidirectional=True)
        self.g = nn.Linear(8 * HIDDEN + len(ORDER), HIDDEN)
        self.h = nn.Linear(len(ORDER), 1)
        self.composition = nn.LSTM(HIDDEN, HIDDEN, batch_first=True, bidirectional=True)
        self.layer = nn.Linear(12 * HIDDEN, HIDDEN)
        self.logits = nn.Linear(HIDDEN, 3)

    def forward(self, premise, hypothesis, links):
        a, b = (self.encoder(self.embedding(side)[None])[0][0] for side in (premise, hypothesis))
        onward, back = torch.zeros(len(a), len(b), len(ORDER)), torch.zeros(len(a), len(b), len(ORDER))
        for i, j, edges, kinds in links:
            onward[i, j] = torch.tensor(vector(kinds, edges))
            back[i, j] = torch.tensor(vector([OTHER_WAY.get(kind, kind) for kind in kinds], edges))
        e = a @ b.T + SCALE * (onward != 0).any(dim=-1)
        alpha, beta = F.softmax(e, dim=1), F.softmax(e, dim=0)
        related = (alpha[..., None] * onward).sum(dim=1), (beta[..., None] * back).sum(dim=0)
        pooled = []
        for x, other, r in ((a, alpha @ b, related[0]), (b, beta.T @ a, related[1])):
            m = F.relu(self.g(torch.cat([x, other, x - other, x * other, r], dim=-1)))
            v = self.composition(m[None])[0][0]
            weight = torch.exp(F.relu(self.h(r)))
            pooled += [(weight * v).sum(dim=0) / weight.sum(), v.mean(dim=0), v.max(dim=0).values]
        return self.logits(torch.tanh(self.layer(torch.cat(pooled))))


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    rng, model, out = np.random.default_rng(32), KIM(), {}
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.tensor(rng.normal(0, 0.5, weight.shape).astype(np.float32)))
    losses = []
    for row, (lengths, links) in enumerate(zip(LENGTHS, LINKS, strict=True)):
        sides = [torch.tensor(rng.integers(1, WORDS, length)) for length in lengths]
        logits = model(*sides, links)
        losses.append(F.cross_entropy(logits[None], torch.tensor([row % 3])))
        out |= {f"{row}/premise": sides[0].numpy(), f"{row}/hypothesis": sides[1].numpy()}
        out[f"{row}/logits"] = logits.detach().numpy()
    sum(losses).backward()
    for name, weight in model.named_parameters():
        out |= {f"weight/{name}": weight.detach().numpy(), f"gradient/{name}": weight.grad.numpy()}
    np.savez_compressed(Path(__file__).parent / "golden_kim.npz", **out)


if __name__ == "__main__":
    main()
