"""BERT as `transformers` has it, over pairs of word pieces: a pair is one sequence, padded to its batch's longest.

Devlin et al. 2019. Weights are drawn, which costs what loaded ones cost. Styles are how attention is computed: by
matrix products and a softmax, or by PyTorch's fused kernel. Batches hold pairs of about one length in both.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from mednli_jax.benchmarking import torch_side, workload
from mednli_jax.benchmarking.torch_models import CLASSES

POSITIONS = 512


class Sequences(NamedTuple):
    """pieces, kind [B, T]; mask [B, T], None where there is no padding; label [B]."""

    pieces: torch.Tensor
    kind: torch.Tensor
    mask: torch.Tensor | None
    label: torch.Tensor


class BERT(nn.Module):
    """Sequences -> logits [B, 3]."""

    def __init__(self, hidden: int, attention: str, dropout: float):
        super().__init__()
        config = BertConfig(
            vocab_size=workload.PIECES,
            hidden_size=hidden,
            num_hidden_layers=workload.BERT_LAYERS,
            num_attention_heads=hidden // workload.BERT_HEAD_SIZE,
            intermediate_size=workload.BERT_INNER * hidden,
            max_position_embeddings=POSITIONS,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            num_labels=CLASSES,
            attn_implementation=attention,
        )
        self.bert = BertForSequenceClassification(config)

    def forward(self, batch: Sequences):
        return self.bert(input_ids=batch.pieces, token_type_ids=batch.kind, attention_mask=batch.mask).logits


def sequences(arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(pieces [N, T], kinds [N, T], lengths [N]) of [CLS] premise [SEP] hypothesis [SEP]."""
    p, h = (arrays[f"{side}_length"].astype(np.int64)[:, None] for side in ("premise", "hypothesis"))
    length = p + h + workload.SPECIAL_PIECES
    place = np.arange(int(length.max()))[None]

    def at(side, first, size):
        inside = (place >= first) & (place < first + size)
        index = np.clip(place - first, 0, arrays[side].shape[1] - 1)
        return np.where(inside, arrays[side][np.arange(len(p))[:, None], index], 0)

    pieces = at("premise", 1, p) + at("hypothesis", p + 2, h) + workload.CLS * (place == 0)
    pieces += workload.SEP * ((place == p + 1) | (place == length - 1))
    kind = (place >= p + 2) & (place < length)
    return pieces.astype(np.int64), kind.astype(np.int64), length[:, 0]


class TorchBERT(torch_side.TorchSide):
    """One way of attention over one workload."""

    clip = 1.0
    dropout = 0.1

    def load(self, tensor):
        pieces, kind, self.lengths = sequences(self.work.arrays)
        self.dynamic = bool(self.lengths.min() < self.lengths.max())
        self.pieces, self.kind = (torch.from_numpy(x).to(self.device) for x in (pieces, kind))
        self.label = tensor["label"].to(self.device)

    def build(self):
        return BERT(self.spec["hidden"], self.style, self.dropout)

    def optimizer_of(self, model):
        """Biases and layer norms are not decayed, as is usual; on the fused path."""
        groups = {0.01: [], 0.0: []}
        for name, value in model.named_parameters():
            groups[0.0 if name.endswith("bias") or "LayerNorm" in name else 0.01].append(value)
        parameters = [{"params": values, "weight_decay": decay} for decay, values in groups.items()]
        return torch.optim.AdamW(parameters, lr=2e-5, fused=True)

    def batches(self, mode: str, seed: int, epoch: int, split: str = "train") -> list[np.ndarray]:
        rows = self.work.rows(split)
        lengths = self.lengths[rows] * torch_side.BUCKET, np.zeros(len(rows), np.int64)
        return torch_side.batches_of(
            rows, lengths, self.work.premise_of[rows], size=self.spec["batch"], by_length=True, grouped=False,
            rng=np.random.default_rng([seed, epoch]),
        )  # fmt: skip

    def batch(self, rows: np.ndarray) -> Sequences:
        length = self.lengths[rows]
        longest = int(length.max())
        mask = None if length.min() == longest else torch.from_numpy(np.arange(longest) < length[:, None])
        rows = torch.from_numpy(rows).to(self.device)
        mask = None if mask is None else mask.long().to(self.device)
        return Sequences(self.pieces[rows, :longest], self.kind[rows, :longest], mask, self.label[rows])
