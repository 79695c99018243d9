"""PyTorch's side of the benchmark: batches, training and prediction, and the plain script.

Dimension letters: N rows, B pairs of a batch, T tokens, U passages.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mednli_jax.benchmarking import cases, torch_models
from mednli_jax.benchmarking.cases import ENCODERS, PLAIN, Case, Setting, Workload
from mednli_jax.benchmarking.torch_models import (
    DROPOUT,
    Batch,
    Cloze,
    Encoder,
    Sentences,
    Sequences,
)
from mednli_jax.data.arrays import SIDES

BUCKET = 8  # tokens of a length bucket
SHUFFLED = ("distinct", "chunked", "packed")  # styles with little work on padding, or none
PLAIN_STYLES = {
    "bow": "bucketed",
    **{family: settings.settings[-1].style for family, settings in ENCODERS.items()},
}  # of the plain script; others are packed
# Batches of the warm-up. torch.compile may compile again for new shapes.
WARM, WARM_COMPILED = 3, 12
Tensors = Mapping[str, Tensor]
AnyBatch = Batch | Cloze | Sequences


def side_of(case: Case, setting: Setting, work: Workload) -> "TorchSide":
    """The PyTorch side of a case in a setting."""
    side: type[TorchSide] = PairSide
    script: type[TorchSide] = PlainPairs
    if case.model in ENCODERS:
        side, script = EncoderSide, PlainEncoder
    elif case.model in torch_models.READERS:
        side, script = ReaderSide, PlainReader
    if setting != PLAIN:
        return side(case, setting, work)
    style = PLAIN_STYLES.get(case.model, "packed")
    return script(replace(case, grouping="off"), Setting(style), work)


def batches_of(
    rows: np.ndarray,
    lengths: tuple[np.ndarray, np.ndarray],
    premise_of: np.ndarray,
    *,
    size: int,
    by_length: bool,
    grouped: bool,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """The rows of an epoch [N] cut into batches of about `size`, each row once, in random order.

    Args:
      lengths: (premise [N], hypothesis [N]) of these rows.
      premise_of: [N] the numbers of their premises.
      by_length: batches hold pairs of about one length.
      grouped: the pairs of a premise stay together.
    """
    groups, group_N = np.unique(
        premise_of if grouped else np.arange(len(rows)), return_inverse=True
    )
    place_N = rng.permutation(len(groups))[group_N]
    keys = [place_N]
    if by_length:
        premise_N, hypothesis_N = (_longest(length, group_N, len(groups)) for length in lengths)
        keys += [hypothesis_N, premise_N // BUCKET]
    order = np.lexsort(keys)
    # Each cut is moved back to the first row of a group.
    starts = np.flatnonzero(np.r_[True, np.diff(group_N[order]) != 0])
    after = np.searchsorted(starts, np.arange(size, len(rows), size), side="right")
    cuts = np.unique(starts[after - 1])
    cuts = cuts[cuts > 0]
    if len(cuts) and len(rows) - cuts[-1] < 2:  # batch norm needs two rows
        cuts = cuts[:-1]
    batches = np.split(rows[order], cuts)
    return [batches[i] for i in rng.permutation(len(batches))]


def _longest(length_N: np.ndarray, group_N: np.ndarray, groups: int) -> np.ndarray:
    """[N] the greatest length in each row's group."""
    longest_G = np.zeros(groups, np.int64)
    np.maximum.at(longest_G, group_N, length_N)
    longest_N: np.ndarray = longest_G[group_N]
    return longest_N


class TorchSide(ABC):
    """One model in one setting over one workload. On a GPU, torch.compile takes CUDA graphs.

    Subclasses define `load`, `build`, `optimizer_of` and `batch`.
    """

    clip = 0.0  # limit of the gradient's norm; 0 = none
    compile_seconds = 0.0  # within rounds: torch.compile finishes during the warm-up
    # whether one compiled program serves all shapes; False: one program a shape
    dynamic = True

    def __init__(self, case: Case, setting: Setting, work: Workload) -> None:
        torch.set_num_threads(_cores())
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.case, self.setting, self.work = case, setting, work
        tf32 = case.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        self.graphs = setting.compiled and self.device == "cuda"
        self.grouped = case.grouping == "premise"
        tensors = {}
        for name, array in work.arrays.items():
            tensors[name] = torch.from_numpy(np.array(array)).long()
        self.load(tensors)
        self.start(0)

    @abstractmethod
    def load(self, tensors: Tensors) -> None:
        """Keeps the workload's arrays that batches need."""

    @abstractmethod
    def build(self) -> torch.nn.Module:
        """The model."""

    @abstractmethod
    def optimizer_of(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """The optimiser of the paper."""

    @abstractmethod
    def batch(self, rows: np.ndarray) -> AnyBatch:
        """The inputs of the model for these rows."""

    def lengths_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(of premises, of hypotheses) [N], which decide the batches of one length."""
        return self.work.lengths(rows)

    def start(self, seed: int) -> None:
        """Draws new weights."""
        torch.manual_seed(seed)
        self.model = self.build().to(self.device)
        self.call = self.model
        if self.setting.compiled:
            mode = "reduce-overhead" if self.graphs else None
            self.call = torch.compile(self.model, dynamic=self.dynamic, mode=mode)
        self.optimizer = self.optimizer_of(self.model)

    def logits(self, batch: AnyBatch) -> Tensor:
        """The model's, with the products of the case's precision."""
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        half = self.case.precision == "bfloat16"
        with torch.autocast(self.device, torch.bfloat16, enabled=half):
            logits = self.call(batch)
        # The next batch's graph writes where this one's logits are.
        return logits.float().clone() if self.graphs else logits.float()

    def peak_bytes(self) -> int | None:
        """The most that PyTorch held of the accelerator; None on a CPU."""
        return torch.cuda.max_memory_reserved() if self.device == "cuda" else None

    def sentences(self, tokens: Tensor, length: Tensor) -> Sentences:
        """tokens: [R, T], trimmed to the longest; length: [R] on the CPU."""
        mask = torch.arange(tokens.shape[1], device=self.device) < length.to(self.device)[:, None]
        return Sentences(tokens.to(self.device), length, mask)

    def batches(self, mode: str, seed: int, epoch: int, split: str = "train") -> list[np.ndarray]:
        """The rows of each batch of one pass. Styles with padding, and all predictions, group rows
        by length."""
        rows = self.work.rows(split)
        return batches_of(
            rows,
            self.lengths_of(rows),
            self.work.premise_of[rows],
            size=self.case.batch,
            by_length=mode == "predict" or self.setting.style not in SHUFFLED,
            grouped=self.grouped,
            rng=np.random.default_rng([seed, epoch]),
        )

    def plan(self, mode: str) -> list[np.ndarray]:
        """The batches of one pass over the training rows, cheapest first."""
        return sorted(self.batches(mode, 0, 1), key=self._tokens)

    def _tokens(self, rows: np.ndarray) -> int:
        premise, hypothesis = self.work.lengths(rows)
        return int(premise.sum() + hypothesis.sum())

    def warm(self, mode: str, plan: list[np.ndarray]) -> float:
        """Runs batches of all sizes, the largest too. Returns 0: only our batches are timed
        here."""
        count = WARM_COMPILED if self.setting.compiled else WARM
        places = np.linspace(0, len(plan) - 1, count).astype(int)
        self.run(mode, [plan[place] for place in places])
        return 0.0

    def run(self, mode: str, batches: list[np.ndarray]) -> int:
        """Trains on, or predicts, these batches; returns their examples once all is computed."""
        if mode == "train":
            self.train(batches)
        else:
            self.predict(batches)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return sum(map(len, batches))

    def train(self, batches: Sequence[np.ndarray]) -> None:
        self.model.train()
        for rows in batches:
            self.step(self.batch(rows))

    def step(self, batch: AnyBatch) -> Tensor:
        """Trains on a batch and returns its loss."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.logits(batch), batch.label)
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss

    @torch.inference_mode()
    def predict(self, batches: Sequence[np.ndarray]) -> list[Tensor]:
        """The logits of each batch."""
        self.model.train(False)
        logits = [self.logits(self.batch(rows)) for rows in batches]
        return [of_batch.cpu() for of_batch in logits]

    def epoch(self, number: int) -> int:
        """One epoch of training from newly drawn weights, and the logits of the dev split after
        it."""
        self.start(number)
        examples = self.run("train", self.batches("train", number, 1))
        self.predict(self.batches("predict", 0, 0, "dev"))
        return examples


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class PairSide(TorchSide):
    """BOW, InferSent or ESIM."""

    def load(self, tensors: Tensors) -> None:
        self.text = {side: tensors[side].to(self.device) for side in SIDES}
        self.length = {side: tensors[f"{side}_length"] for side in SIDES}
        self.label = tensors["label"].to(self.device)

    def build(self) -> torch.nn.Module:
        name = self.case.model
        vectors = torch.as_tensor(self.work.vectors)
        model = torch_models.PAIRS[name]
        return model(vectors, self.case.hidden, DROPOUT[name], self.setting.style)

    def optimizer_of(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """On the fused path."""
        return torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6, fused=True)

    def _side(self, side: str, rows: np.ndarray) -> Sentences:
        index = torch.from_numpy(rows)
        length = self.length[side][index]
        return self.sentences(self.text[side][index.to(self.device), : int(length.max())], length)

    def batch(self, rows: np.ndarray) -> Batch:
        premise_rows, premise_of = rows, None
        if self.grouped:
            _, first, place = np.unique(
                self.work.premise_of[rows], return_index=True, return_inverse=True
            )
            premise_rows, premise_of = rows[first], torch.from_numpy(place).to(self.device)
        return Batch(
            self._side("premise", premise_rows),
            self._side("hypothesis", rows),
            premise_of,
            self.label[torch.from_numpy(rows).to(self.device)],
        )


class ReaderSide(TorchSide):
    """One reader over one workload."""

    clip = 10.0

    def load(self, tensors: Tensors) -> None:
        self.corpus = tensors

    def build(self) -> torch.nn.Module:
        name = self.case.model
        vectors = torch.from_numpy(self.work.vectors)
        reader = torch_models.READERS[name]
        return reader(vectors, self.case.hidden, DROPOUT[name], self.work.types)

    def optimizer_of(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        if self.case.model == "sa_reader":
            return torch.optim.SGD(model.parameters(), lr=0.1)
        return torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)

    def batch(self, rows: np.ndarray) -> Cloze:
        corpus, index = self.corpus, torch.from_numpy(rows)
        passages, passage_of = corpus["query_passage"][index], None
        if self.grouped:
            passages, place = torch.unique(passages, return_inverse=True)
            passage_of = place.to(self.device)
        length = corpus["query_length"][index]
        tokens, passage_length = self._of_passages("passage", passages)
        kind, count = self._of_passages("candidate_type", passages)
        candidates = kind.shape[1]
        position, _ = self._of_passages("position", passages)
        candidate, _ = self._of_passages(
            "position_candidate", passages, start="position", fill=candidates
        )
        return Cloze(
            self.sentences(tokens, passage_length),
            self.sentences(corpus["query"][index, : int(length.max())], length),
            passage_of,
            blank=corpus["blank"][index].to(self.device),
            position=position.to(self.device),
            candidate=candidate.to(self.device),
            kind=kind.to(self.device),
            exists=(torch.arange(candidates) < count[:, None]).to(self.device),
            label=corpus["label"][index].to(self.device),
        )

    def _of_passages(
        self, name: str, passages: Tensor, *, start: str = "", fill: int = 0
    ) -> tuple[Tensor, Tensor]:
        """([U, longest], length [U]) of a flat array's part for each passage; `fill` is padding."""
        starts = self.corpus[f"{start or name}_start"]
        first = starts[passages]
        length = starts[passages + 1] - first
        places = torch.arange(int(length.max()))
        inside = places < length[:, None]
        index = torch.where(inside, first[:, None] + places, 0)
        return torch.where(inside, self.corpus[name][index], fill), length


def sequences(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(pieces [N, T], kinds [N, T], lengths [N]) of [CLS] premise [SEP] hypothesis [SEP]."""
    premise_N = arrays["premise_length"].astype(np.int64)
    hypothesis_N = arrays["hypothesis_length"].astype(np.int64)
    length_N = premise_N + hypothesis_N + cases.SPECIAL_PIECES
    pieces, kind = np.zeros((2, len(length_N), int(length_N.max())), np.int64)
    for row, length in enumerate(length_N):
        premise = arrays["premise"][row, : premise_N[row]]
        hypothesis = arrays["hypothesis"][row, : hypothesis_N[row]]
        pieces[row, :length] = [
            cases.CLS,
            *premise,
            cases.SEP,
            *hypothesis,
            cases.SEP,
        ]
        kind[row, len(premise) + 2 : length] = 1
    return pieces, kind, length_N


class EncoderSide(TorchSide):
    """An encoder over one workload. A pair is one sequence, padded to its batch's longest; batches
    hold about one length."""

    clip = 1.0

    def load(self, tensors: Tensors) -> None:
        pieces, kind, self.length = sequences(self.work.arrays)
        self.dynamic = bool(self.length.min() < self.length.max())
        self.pieces = torch.from_numpy(pieces).to(self.device)
        self.kind = torch.from_numpy(kind).to(self.device)
        self.label = tensors["label"].to(self.device)

    def lengths_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A pair's length stands for its premise's, of which each number is a bucket."""
        return self.length[rows] * BUCKET, np.zeros(len(rows), np.int64)

    def build(self) -> torch.nn.Module:
        return Encoder(self.case.model, self.case.hidden, self.setting.style)

    def optimizer_of(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Biases and layer norms are not decayed, as is usual; on the fused path."""
        groups: dict[float, list[Tensor]] = {0.01: [], 0.0: []}
        for parameter in model.parameters():
            groups[0.0 if parameter.ndim == 1 else 0.01].append(parameter)
        parameters = [{"params": group, "weight_decay": decay} for decay, group in groups.items()]
        return torch.optim.AdamW(parameters, lr=2e-5, fused=True)

    def batch(self, rows: np.ndarray) -> Sequences:
        length = self.length[rows]
        longest = int(length.max())
        mask = None
        if length.min() < longest:
            inside = np.arange(longest) < length[:, None]
            mask = torch.from_numpy(inside).long().to(self.device)
        index = torch.from_numpy(rows).to(self.device)
        return Sequences(
            self.pieces[index, :longest],
            self.kind[index, :longest],
            mask,
            self.label[index],
        )


class PlainEpoch(TorchSide):
    """One epoch of the script that one would write first: a DataLoader with shuffled batches, each
    padded to its own longest row, and the loss read at every step."""

    def collate(self, rows: Sequence[int]) -> AnyBatch:
        return self.batch(np.array(rows))

    def _loader(self, split: str) -> torch.utils.data.DataLoader:
        return torch.utils.data.DataLoader(
            self.work.rows(split),
            batch_size=self.case.batch,
            shuffle=split == "train",
            collate_fn=self.collate,
        )

    def epoch(self, number: int) -> int:
        self.start(number)
        self.model.train()
        total = 0.0
        for batch in self._loader("train"):
            total += self.step(batch).item() * len(batch.label)
        self.model.train(False)
        with torch.no_grad():
            for batch in self._loader("dev"):
                (self.logits(batch).argmax(dim=-1) == batch.label).sum().item()
        return len(self.work.rows("train"))


class PlainPairs(PlainEpoch, PairSide):
    """The plain script of BOW, InferSent and ESIM: packed nn.LSTM, plain Adam."""

    def optimizer_of(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)

    def collate(self, rows: Sequence[int]) -> Batch:
        label = torch.tensor([int(self.work.arrays["label"][row]) for row in rows])
        premise, hypothesis = self._padded("premise", rows), self._padded("hypothesis", rows)
        return Batch(premise, hypothesis, None, label.to(self.device))

    def _padded(self, side: str, rows: Sequence[int]) -> Sentences:
        tokens, length = self.work.arrays[side], self.work.arrays[f"{side}_length"]
        sentences = [torch.from_numpy(tokens[row, : length[row]]).long() for row in rows]
        lengths = torch.tensor(list(map(len, sentences)))
        return self.sentences(pad_sequence(sentences, batch_first=True), lengths)


class PlainReader(PlainEpoch, ReaderSide):
    """The plain script of a reader: a batch has passages of all lengths, and encodes a passage
    again for each query."""


class PlainEncoder(PlainEpoch, EncoderSide):
    """The plain script of an encoder: PyTorch's fused attention, as `transformers` has it by
    default."""
