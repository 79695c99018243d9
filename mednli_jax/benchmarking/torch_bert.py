"""BERT as `transformers` has it, over pairs of word pieces: a pair is one sequence, padded to its batch's longest.

Devlin et al. 2019. Weights are random, which costs the same as loaded ones. Styles are ways to compute attention: by
matrix products and a softmax ("eager"), or by PyTorch's fused kernel ("sdpa"). Batches hold pairs of about one length.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from mednli_jax.benchmarking import torch_side, workload
from mednli_jax.benchmarking.torch_models import CLASSES

POSITIONS, DROPOUT = 512, 0.1


class Sequences(NamedTuple):
    """pieces, kind [B, T]; mask [B, T], None where there is no padding; label [B]."""

    pieces: torch.Tensor
    kind: torch.Tensor
    mask: torch.Tensor | None
    label: torch.Tensor


class BERT(nn.Module):
    """Sequences -> logits [B, 3]."""

    def __init__(self, hidden: int, attention: str):
        super().__init__()
        config = BertConfig(
            vocab_size=workload.PIECES,
            hidden_size=hidden,
            num_hidden_layers=workload.BERT_LAYERS,
            num_attention_heads=hidden // workload.BERT_HEAD_SIZE,
            intermediate_size=workload.BERT_INNER * hidden,
            max_position_embeddings=POSITIONS,
            hidden_dropout_prob=DROPOUT,
            attention_probs_dropout_prob=DROPOUT,
            num_labels=CLASSES,
            attn_implementation=attention,
        )
        self.bert = BertForSequenceClassification(config)

    def forward(self, batch: Sequences):
        return self.bert(input_ids=batch.pieces, token_type_ids=batch.kind, attention_mask=batch.mask).logits


def sequences(arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(pieces [N, T], kinds [N, T], lengths [N]) of [CLS] premise [SEP] hypothesis [SEP]."""
    p, h = (arrays[f"{side}_length"].astype(np.int64) for side in ("premise", "hypothesis"))
    length = p + h + workload.SPECIAL_PIECES
    pieces, kind = np.zeros((2, len(p), int(length.max())), np.int64)
    for row, (first, second) in enumerate(zip(p, h, strict=True)):
        pieces[row, 0] = workload.CLS
        pieces[row, 1 : first + 1] = arrays["premise"][row, :first]
        pieces[row, first + 2 : first + 2 + second] = arrays["hypothesis"][row, :second]
        pieces[row, [first + 1, first + second + 2]] = workload.SEP
        kind[row, first + 2 : first + second + 3] = 1
    return pieces, kind, length


class TorchSide(torch_side.TorchSide):
    """One way of attention over one workload."""

    clip = 1.0

    def load(self, tensor):
        pieces, kind, self.lengths = sequences(self.work.arrays)
        self.dynamic = bool(self.lengths.min() < self.lengths.max())
        self.pieces, self.kind = (torch.from_numpy(x).to(self.device) for x in (pieces, kind))
        self.label = tensor["label"].to(self.device)

    def build(self):
        return BERT(self.spec["hidden"], self.style)

    def optimizer_of(self, model):
        """Biases and layer norms are not decayed, as is usual; on the fused path."""
        groups = {0.01: [], 0.0: []}
        for name, value in model.named_parameters():
            groups[0.0 if name.endswith("bias") or "LayerNorm" in name else 0.01].append(value)
        parameters = [{"params": values, "weight_decay": decay} for decay, values in groups.items()]
        return torch.optim.AdamW(parameters, lr=2e-5, fused=True)

    def lengths_of(self, rows):
        return self.lengths[rows] * torch_side.BUCKET, np.zeros(len(rows), np.int64)

    def batch(self, rows: np.ndarray) -> Sequences:
        length = self.lengths[rows]
        longest = int(length.max())
        mask = torch.from_numpy(np.arange(longest) < length[:, None]).long().to(self.device)
        rows = torch.from_numpy(rows).to(self.device)
        padded = length.min() < longest
        return Sequences(
            self.pieces[rows, :longest], self.kind[rows, :longest], mask if padded else None, self.label[rows]
        )


class PlainScript(torch_side.PlainEpoch, TorchSide):
    """The plain script of BERT: PyTorch's fused attention, as `transformers` has it by default."""

    def __init__(self, spec, work):
        super().__init__({**spec, "style": "sdpa"}, work)
