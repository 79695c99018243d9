"""The PyTorch side of the benchmark: batches, training and prediction.

Dimension letters: N rows, G groups of rows that share a premise, B pairs of a batch, T tokens, U
passages.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
import torch_models
from benchmark_cases import ENCODERS, Case, TorchSetting, config_of, processors
from synthetic_corpora import CLS, SEP, Workload
from torch import Tensor
from torch_models import Batch, Cloze, Sentences, Sequences

from mednli_jax.data.arrays import SIDES

BUCKET = 8  # tokens of a length bucket
SHUFFLED = ("distinct", "chunked")  # styles with little work on padding, or none
# Batches of the warm-up. torch.compile may compile again for new shapes.
WARM, WARM_COMPILED = 3, 12
AnyBatch = Batch | Cloze | Sequences


def side_of(case: Case, setting: TorchSetting, work: Workload) -> "TorchSide":
    """The PyTorch side of a case in a setting."""
    side = PairSide if case.model in torch_models.PAIRS else ReaderSide
    if case.model in ENCODERS:
        side = EncoderSide
    return side(case, setting, work)


def batches_of(
    rows: np.ndarray,
    lengths: tuple[np.ndarray, np.ndarray],
    group_N: np.ndarray,
    *,
    size: int,
    by_length: bool,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """The rows of an epoch [N] cut into batches of about `size`, each row once, in random order.

    Args:
      lengths: (premise [N], hypothesis [N]) of these rows.
      group_N: numbers of their groups. The rows of a group stay together, and share their premise.
      by_length: batches hold pairs of about one length.
    """
    groups, group_N = np.unique(group_N, return_inverse=True)
    keys = [rng.permutation(len(groups))[group_N]]
    if by_length:
        premise_N, hypothesis_N = lengths
        longest_G = np.zeros(len(groups), np.int64)
        np.maximum.at(longest_G, group_N, hypothesis_N)
        keys += [longest_G[group_N], premise_N // BUCKET]
    order = np.lexsort(keys)
    # Each cut is moved back to the first row of a group. Batch norm needs two rows.
    starts = np.flatnonzero(np.r_[True, np.diff(group_N[order]) != 0])
    after = np.searchsorted(starts, np.arange(size, len(rows), size), side="right")
    cuts = np.unique(starts[after - 1])
    cuts = cuts[(cuts > 0) & (cuts < len(rows) - 1)]
    batches = np.split(rows[order], cuts)
    return [batches[i] for i in rng.permutation(len(batches))]


class TorchSide(ABC):
    """One model in one setting over one workload. On a GPU, torch.compile takes CUDA graphs.

    Subclasses define `batch`. arrays: of the workload on the device, lengths on the CPU.
    """

    compile_seconds = 0.0  # within rounds: torch.compile finishes during the warm-up

    def __init__(self, case: Case, setting: TorchSetting, work: Workload) -> None:
        torch.set_num_threads(processors())
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.case, self.setting, self.work = case, setting, work
        self.config = config_of(case)
        tf32 = case.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self.graphs = setting.compiled and self.device == "cuda"
        self.grouped = case.grouping == "premise"
        self.arrays = {}
        for name, array in work.prepared.arrays.items():
            device = "cpu" if name.endswith("_length") else self.device
            self.arrays[name] = torch.tensor(array, dtype=torch.long, device=device)
        self.start(0)

    @abstractmethod
    def batch(self, rows: np.ndarray) -> AnyBatch:
        """The inputs of the model for these rows."""

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lengths ([N] of premises, [N] of hypotheses) of rows, which decide the batches of one
        length."""
        return self.work.lengths(rows)

    def build(self) -> torch.nn.Module:
        """Builds the model."""
        vectors = torch.as_tensor(self.work.prepared.vectors)
        build = torch_models.MODELS[self.case.model]
        return build(vectors, self.case.hidden, self.config.model.dropout, self.setting.style)

    def start(self, seed: int) -> None:
        """Draws new weights."""
        torch.manual_seed(seed)
        self.model = self.build().to(self.device)
        self.call = self.model
        if self.setting.compiled:
            mode = "reduce-overhead" if self.graphs else None
            # One compiled program serves all shapes, where there are several.
            dynamic = bool(np.ptp(self.work.prepared.arrays["premise_length"]))
            self.call = torch.compile(self.model, dynamic=dynamic, mode=mode)
        self.optimizer = self.optimizer_of(self.model)

    def optimizer_of(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """The optimiser of the paper, on the fused path. AdamW does not decay biases and layer
        norms, as is usual."""
        train = self.config.train
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
        matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
        others = [parameter for parameter in model.parameters() if parameter.ndim == 1]
        rate, decay = train.learning_rate, train.weight_decay
        decay_of_others = 0.0 if train.optimizer == "adamw" else decay
        groups = [{"params": matrices}, {"params": others, "weight_decay": decay_of_others}]
        return kinds[train.optimizer](groups, lr=rate, weight_decay=decay, fused=True)

    def logits(self, batch: AnyBatch) -> Tensor:
        """The logits of the model, with the products of the case's precision."""
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        half = self.case.precision == "bfloat16"
        with torch.autocast(self.device, torch.bfloat16, enabled=half):
            logits = self.call(batch)
        # The next batch's graph writes where this one's logits are.
        return logits.float().clone() if self.graphs else logits.float()

    def peak_bytes(self) -> int | None:
        """The most bytes that PyTorch held of the accelerator; None on a CPU."""
        return torch.cuda.max_memory_reserved() if self.device == "cuda" else None

    def sentences(self, tokens: Tensor, length: Tensor) -> Sentences:
        """Makes Sentences. tokens: [R, T], trimmed to the longest; length: [R]."""
        mask = torch.arange(tokens.shape[1], device=self.device) < length.to(self.device)[:, None]
        return Sentences(tokens, length, mask)

    def batches(self, mode: str, seed: int = 0, split: str = "train") -> list[np.ndarray]:
        """The rows of each batch of one pass. Styles with padding, and all predictions, group rows
        by length."""
        rows = self.work.rows(split)
        return batches_of(
            rows,
            self.lengths(rows),
            self.work.premise_of[rows] if self.grouped else rows,
            size=self.case.batch,
            by_length=mode == "predict" or self.setting.style not in SHUFFLED,
            rng=np.random.default_rng(seed),
        )

    def plan(self, mode: str) -> list[np.ndarray]:
        """The batches of one pass over the training rows, cheapest first."""
        return sorted(self.batches(mode), key=lambda rows: np.sum(self.work.lengths(rows)))

    def samples(self, plan: list[np.ndarray]) -> list[np.ndarray]:
        """Batches of all sizes, also the largest."""
        step = -(-len(plan) // (WARM_COMPILED if self.setting.compiled else WARM))
        return [*plan[::step], plan[-1]]

    def run(self, mode: str, batches: Sequence[np.ndarray]) -> int:
        """Trains on, or predicts, these batches; returns the number of their examples once all is
        computed."""
        if mode == "train":
            self.train(batches)
        else:
            self.predict(batches)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return sum(map(len, batches))

    def train(self, batches: Sequence[np.ndarray]) -> None:
        self.model.train()
        clip = self.config.train.clip
        for rows in batches:
            batch = self.batch(rows)
            self.optimizer.zero_grad()
            F.cross_entropy(self.logits(batch), batch.label).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
            self.optimizer.step()

    @torch.inference_mode()
    def predict(self, batches: Sequence[np.ndarray]) -> list[Tensor]:
        """Computes the logits of each batch."""
        self.model.train(False)
        logits = [self.logits(self.batch(rows)) for rows in batches]
        return [of_batch.cpu() for of_batch in logits]

    def epoch(self, number: int) -> int:
        """Runs one epoch of training from newly drawn weights, and computes the logits of the dev
        split after it."""
        self.start(number)
        examples = self.run("train", self.batches("train", number))
        self.predict(self.batches("predict", split="dev"))
        return examples


class PairSide(TorchSide):
    """BOW, InferSent or ESIM."""

    def batch(self, rows: np.ndarray) -> Batch:
        premise_rows, premise_of = rows, None
        if self.grouped:
            premises = self.work.premise_of[rows]
            _, first, place = np.unique(premises, return_index=True, return_inverse=True)
            premise_rows, premise_of = rows[first], torch.from_numpy(place).to(self.device)
        return Batch(
            self._side("premise", premise_rows),
            self._side("hypothesis", rows),
            premise_of,
            self.arrays["label"][rows],
        )

    def _side(self, side: str, rows: np.ndarray) -> Sentences:
        length = self.arrays[f"{side}_length"][rows]
        return self.sentences(self.arrays[side][rows, : int(length.max())], length)


class ReaderSide(TorchSide):
    """One reader over one workload."""

    def batch(self, rows: np.ndarray) -> Cloze:
        passages, passage_of = self.arrays["query_passage"][rows], None
        if self.grouped:
            passages, passage_of = torch.unique(passages, return_inverse=True)
        length = self.arrays["query_length"][rows]
        tokens, passage_length = self._of_passages("passage", passages)
        kind, count = self._of_passages("candidate_type", passages)
        candidates = kind.shape[1]
        position, _ = self._of_passages("position", passages)
        candidate, _ = self._of_passages("position_candidate", passages, candidates)
        return Cloze(
            self.sentences(tokens, passage_length),
            self.sentences(self.arrays["query"][rows, : int(length.max())], length),
            passage_of,
            blank=self.arrays["blank"][rows],
            position=position,
            candidate=candidate,
            kind=kind,
            exists=torch.arange(candidates, device=self.device) < count[:, None],
            label=self.arrays["label"][rows],
        )

    def _of_passages(self, name: str, passages: Tensor, fill: int = 0) -> tuple[Tensor, Tensor]:
        """The part ([U, longest], length [U]) of a flat array for each passage; `fill` is
        padding."""
        starts = self.arrays[f"{name}_start"]
        first = starts[passages]
        length = starts[passages + 1] - first
        places = torch.arange(int(length.max()), device=self.device)
        inside = places < length[:, None]
        index = torch.where(inside, first[:, None] + places, 0)
        return torch.where(inside, self.arrays[name][index], fill), length


class EncoderSide(TorchSide):
    """An encoder over one workload. A pair is one sequence, [CLS] premise [SEP] hypothesis [SEP],
    padded to its batch's longest; batches hold about one length."""

    def __init__(self, case: Case, setting: TorchSetting, work: Workload) -> None:
        super().__init__(case, setting, work)
        premise, hypothesis = (self.arrays[side] for side in SIDES)
        cls, sep = (torch.full_like(premise[:, :1], piece) for piece in (CLS, SEP))
        pieces = torch.cat([cls, premise, sep, hypothesis, sep], dim=1)
        length = (pieces > 0).sum(dim=1)
        self.length = length.cpu().numpy()
        place = torch.arange(int(length.max()), device=self.device)
        self.mask = place < length[:, None]
        self.pieces = self.mask.long().masked_scatter(self.mask, pieces[pieces > 0])
        premise_end = self.arrays["premise_length"].to(self.device)[:, None] + 1
        self.kind = (self.mask & (place > premise_end)).long()

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lengths of pairs, times BUCKET, so that each length is a bucket; and zeros in place
        of hypotheses' lengths."""
        return self.length[rows] * BUCKET, np.zeros(len(rows), np.int64)

    def batch(self, rows: np.ndarray) -> Sequences:
        longest = int(self.length[rows].max())
        is_padded = self.length[rows].min() < longest
        return Sequences(
            self.pieces[rows, :longest],
            self.kind[rows, :longest],
            self.mask[rows, :longest].long() if is_padded else None,
            self.arrays["label"][rows],
        )
