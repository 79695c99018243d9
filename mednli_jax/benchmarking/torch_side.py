"""PyTorch's side of the benchmark: which rows stand in which batch, training and prediction, and the plain script.

Dimension letters: N rows, B pairs of a batch.
"""

import os

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from mednli_jax.benchmarking import torch_models
from mednli_jax.benchmarking.torch_models import Batch, Sentences
from mednli_jax.corpora.arrays import SIDES

BUCKET = 8  # tokens of a length bucket


def set_up() -> str:
    """All cores that this process may use; the device's name."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    torch.set_num_threads(cores)
    torch.manual_seed(0)
    return "cuda" if torch.cuda.is_available() else "cpu"


def batches_of(rows, lengths, premise_of, *, size: int, by_length: bool, grouped: bool, rng) -> list[np.ndarray]:
    """The rows of an epoch [N] cut into batches of about `size`, each row once, in random order.

    lengths: (premise [N], hypothesis [N]) of these rows. premise_of [N]: the numbers of their premises.
    by_length: batches hold pairs of about one length. grouped: the pairs of a premise stay together.
    """
    shuffled = rng.permutation(len(rows))
    if grouped:
        names, which = np.unique(premise_of, return_inverse=True)
        longest = np.zeros(len(names), np.int64)  # hypothesis of the premise
        np.maximum.at(longest, which, lengths[1])
        premise = np.zeros(len(names), np.int64)
        np.maximum.at(premise, which, lengths[0])
        place = rng.permutation(len(names))[which]  # the premise's place in the epoch
        keys = (place, longest[which], premise[which] // BUCKET) if by_length else (place,)
        shuffled = np.lexsort(keys)
    elif by_length:
        order = np.lexsort((lengths[1][shuffled], lengths[0][shuffled] // BUCKET))
        shuffled = shuffled[order]
    cuts = np.arange(size, len(rows), size)
    if grouped:  # moved back to the first pair of a premise
        ordered = which[shuffled]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        cuts = np.unique(starts[np.searchsorted(starts, cuts, side="right") - 1])
        cuts = cuts[cuts > 0]
    if len(cuts) and len(rows) - cuts[-1] < 2:  # batch norm needs two rows
        cuts = cuts[:-1]
    parts = np.split(rows[shuffled], cuts)
    return [parts[i] for i in rng.permutation(len(parts))]


class TorchSide:
    """One model in one style over one workload.

    spec: model, hidden, batch, grouping, style, compiled (torch.compile).
    Subclasses for other models say what they load, how they are built and trained, and what a batch holds.
    """

    STYLES = torch_models.STYLES
    clip = 0.0  # limit of the gradient's norm; 0 = none
    dynamic = True  # shapes of what is compiled; False: each is compiled by itself
    warmers = 12  # batches that warm up what is compiled anew for shapes not seen before

    def __init__(self, spec: dict, work):
        self.device = set_up()
        self.spec, self.work = spec, work
        self.grouped, self.style = spec["grouping"] == "premise", self.STYLES[spec["model"]][spec["style"]]
        self._load({name: torch.from_numpy(np.array(array)).long() for name, array in work.arrays.items()})
        self.facts = {"device": self.device}
        self._start(0)

    def _load(self, tensor):
        """Takes what batches are made of from the workload's arrays, as tensors."""
        self.length = {side: tensor[f"{side}_length"] for side in SIDES}
        self.tokens = {side: tensor[side].to(self.device) for side in SIDES}
        self.label = tensor["label"].to(self.device)

    def _build(self):
        spec = self.spec
        return torch_models.build(spec["model"], self.work.vectors, spec["hidden"], spec["style"])

    def _optimizer(self):
        return torch_models.adam(self.model)

    def _start(self, seed):
        torch.manual_seed(seed)
        self.model = self._build().to(self.device)
        self.call = torch.compile(self.model, dynamic=self.dynamic) if self.spec["compiled"] else self.model
        self.optimizer = self._optimizer()

    def compiled(self) -> float:
        """Seconds spent on compiling within rounds: none, torch.compile is done with when it is warm."""
        return 0.0

    def _sentences(self, side, rows):
        length = self.length[side][rows]
        longest = int(length.max())
        tokens = self.tokens[side][rows.to(self.device), :longest]
        mask = torch.arange(longest, device=self.device) < length.to(self.device)[:, None]
        return Sentences(tokens, length, mask)

    def batch(self, rows: np.ndarray) -> Batch:
        pairs, of = torch.from_numpy(rows), None
        premises = pairs
        if self.grouped:
            _, first, place = np.unique(self.work.premise_of[rows], return_index=True, return_inverse=True)
            premises, of = torch.from_numpy(rows[first]), torch.from_numpy(place).to(self.device)
        return Batch(
            self._sentences("premise", premises), self._sentences("hypothesis", pairs), of,
            self.label[pairs.to(self.device)],
        )  # fmt: skip

    def _epoch(self, split, seed, epoch, mode="train"):
        rows, size = self.work.rows(split), self.spec["batch"]
        # Prediction has no need to shuffle, whatever the style.
        by_length = self.style.sorted_batches or mode == "predict"
        return batches_of(
            rows, self.work.lengths(rows), self.work.premise_of[rows], size=size, by_length=by_length,
            grouped=self.grouped, rng=np.random.default_rng([seed, epoch]),
        )  # fmt: skip

    def plan(self, mode: str) -> list[np.ndarray]:
        """The batches of one pass over the training pairs, cheapest first."""
        return sorted(self._epoch("train", 0, 1, mode), key=lambda rows: sum(map(np.sum, self.work.lengths(rows))))

    def warm(self, mode: str, plan: list) -> None:
        """Runs a few batches of all sizes; more where shapes that have not been seen are compiled anew."""
        few = self.warmers if self.spec["compiled"] else 3
        self.run(mode, [plan[i] for i in np.linspace(0, len(plan) - 1, few).astype(int)])

    def run(self, mode: str, batches: list) -> int:
        examples = self.train(batches) if mode == "train" else self.predict(batches)[0]
        if self.device == "cuda":
            torch.cuda.synchronize()
        return examples

    def train(self, batches) -> int:
        self.model.train()
        for rows in batches:
            batch = self.batch(rows)
            loss = F.cross_entropy(self.call(batch), batch.label)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if self.clip:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            self.optimizer.step()
        return sum(map(len, batches))

    @torch.inference_mode()
    def predict(self, batches) -> tuple[int, list]:
        """(examples, logits of each batch)."""
        self.model.train(False)
        logits = [self.call(self.batch(rows)) for rows in batches]
        return sum(map(len, batches)), [part.cpu() for part in logits]

    def dev_accuracy(self) -> float:
        batches = self._epoch("dev", 0, 0, "predict")
        examples, logits = self.predict(batches)
        label = self.work.arrays["label"]
        pairs = zip(logits, batches, strict=True)
        return sum(int((x.argmax(dim=-1).numpy() == label[rows]).sum()) for x, rows in pairs) / examples

    def epoch(self, number: int) -> int:
        """One epoch of training from newly drawn weights and the dev split after it."""
        self._start(number)
        examples = self.run("train", self._epoch("train", number, 1))
        self.dev_accuracy()
        return examples

    def until(self, accuracy: float, seed: int, most: int) -> tuple[int, float]:
        """Trains until the dev accuracy is reached, at most `most` epochs: (examples, accuracy then).

        The dev split is scored four times an epoch.
        """
        self._start(seed)
        examples, reached = 0, 0.0
        for epoch in range(1, most + 1):
            plan = self._epoch("train", seed, epoch)
            for part in np.array_split(np.arange(len(plan)), 4):
                examples += self.run("train", [plan[i] for i in part])
                reached = self.dev_accuracy()
                if reached >= accuracy:
                    return examples, reached
        return examples, reached


class Pairs(torch.utils.data.Dataset):
    """The pairs of a split, each as a dict of tensors."""

    def __init__(self, work, split):
        self.arrays, self.rows = work.arrays, work.rows(split)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row, arrays = self.rows[i], self.arrays
        item = {side: torch.from_numpy(arrays[side][row, : arrays[f"{side}_length"][row]]).long() for side in SIDES}
        return item | {"label": int(arrays["label"][row])}


def collate(items) -> Batch:
    """Items padded to the longest of the batch."""

    def side(name):
        length = torch.tensor([len(item[name]) for item in items])
        tokens = pad_sequence([item[name] for item in items], batch_first=True)
        return Sentences(tokens, length, torch.arange(tokens.shape[1]) < length[:, None])

    return Batch(side("premise"), side("hypothesis"), None, torch.tensor([item["label"] for item in items]))


class PlainScript(TorchSide):
    """The script that one would write first: DataLoader, shuffled batches, packed nn.LSTM, plain Adam."""

    def _start(self, seed):
        super()._start(seed)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, weight_decay=1e-6)

    def _loader(self, split, shuffle):
        pairs = Pairs(self.work, split)
        return torch.utils.data.DataLoader(pairs, batch_size=self.spec["batch"], shuffle=shuffle, collate_fn=collate)

    def _moved(self, batch):
        def side(s):
            return Sentences(s.tokens.to(self.device), s.length, s.mask.to(self.device))

        return Batch(side(batch.premise), side(batch.hypothesis), None, batch.label.to(self.device))

    def epoch(self, number: int) -> int:
        self._start(number)
        self.model.train()
        examples, total = 0, 0.0
        for batch in self._loader("train", shuffle=True):
            batch = self._moved(batch)
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(batch), batch.label)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(batch.label)
            examples += len(batch.label)
        self.model.train(False)
        with torch.no_grad():
            for batch in self._loader("dev", shuffle=False):
                batch = self._moved(batch)
                (self.model(batch).argmax(dim=-1) == batch.label).sum().item()
        return examples
