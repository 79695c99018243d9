"""PyTorch's side of the benchmark: batches, training and prediction, and the plain script.

Dimension letters: N rows, B pairs of a batch, T tokens, U passages.
"""

import os

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from mednli_jax.benchmarking import torch_models, workload
from mednli_jax.benchmarking.cases import PLAIN
from mednli_jax.benchmarking.torch_models import BERT, DROPOUT, Batch, Cloze, Sentences, Sequences
from mednli_jax.data.arrays import SIDES

BUCKET = 8  # tokens of a length bucket
SHUFFLED = ("distinct", "chunked", "packed")  # styles with little work on padding, or none
# batches for warming up, because torch.compile may compile again for new shapes
COMPILED_WARM = 12


def side_of(spec: dict, work):
    """The PyTorch side of a case in the spec's setting."""
    name, styles = (
        spec["model"],
        {"bow": "bucketed", "bert": "sdpa"},
    )  # of the plain script; others are packed
    side, plain = (BERTSide, PlainBERT) if name == "bert" else (TorchSide, PlainPairs)
    side, plain = (ReaderSide, PlainReader) if name in torch_models.READERS else (side, plain)
    if spec["style"] != PLAIN.style:
        return side(spec, work)
    return plain({**spec, "style": styles.get(name, "packed"), "grouping": "off"}, work)


def batches_of(
    rows, lengths, premise_of, *, size: int, by_length: bool, grouped: bool, rng
) -> list[np.ndarray]:
    """The rows of an epoch [N] cut into batches of about `size`, each row once, in random order.

    lengths: (premise [N], hypothesis [N]) of these rows. premise_of [N]: the numbers of their
    premises. by_length: batches hold pairs of about one length. grouped: the pairs of a premise
    stay together.
    """
    names, which = np.unique(premise_of if grouped else np.arange(len(rows)), return_inverse=True)
    premise, longest = np.zeros(
        (2, len(names)), np.int64
    )  # tokens of the rows that are kept together
    np.maximum.at(premise, which, lengths[0])
    np.maximum.at(longest, which, lengths[1])
    place = rng.permutation(len(names))[which]
    order = np.lexsort((place, longest[which], premise[which] // BUCKET) if by_length else (place,))
    starts = np.flatnonzero(np.r_[True, np.diff(which[order]) != 0])
    # Each cut is moved back to the first pair of a premise.
    cuts = np.unique(
        starts[np.searchsorted(starts, np.arange(size, len(rows), size), side="right") - 1]
    )
    cuts = cuts[cuts > 0]
    if len(cuts) and len(rows) - cuts[-1] < 2:  # batch norm needs two rows
        cuts = cuts[:-1]
    parts = np.split(rows[order], cuts)
    return [parts[i] for i in rng.permutation(len(parts))]


class TorchSide:
    """One model in one style over one workload. compiled: by torch.compile, on a GPU with CUDA
    graphs.

    Subclasses for other models define their arrays, model, training step and batches.
    """

    clip = 0.0  # limit of the gradient's norm; 0 = none
    compile_seconds = 0.0  # within rounds: torch.compile finishes during the warm-up
    # whether one compiled program serves all shapes; False: one program a shape
    dynamic = True

    def __init__(self, spec: dict, work):
        torch.set_num_threads(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        )
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.spec, self.work, self.style = spec, work, spec["style"]
        # rows -> (of premises, of hypotheses) [N], which decide what is kept together
        self.lengths_of = work.lengths
        tf32 = spec.get("precision") == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self.half = spec.get("precision") == "bfloat16"
        self.graphs = spec["compiled"] and self.device == "cuda"
        self.grouped = spec["grouping"] == "premise"
        self.load(
            {name: torch.from_numpy(np.array(array)).long() for name, array in work.arrays.items()}
        )
        self.start(0)

    def load(self, tensor):
        """Converts the workload's arrays that batches need to tensors."""
        self.length = {side: tensor[f"{side}_length"] for side in SIDES}
        self.text = {side: tensor[side].to(self.device) for side in SIDES}
        self.label = tensor["label"].to(self.device)

    def build(self):
        name, vectors = self.spec["model"], torch.as_tensor(self.work.vectors)
        return torch_models.PAIRS[name](vectors, self.spec["hidden"], DROPOUT[name], self.style)

    def optimizer_of(self, model):
        """The optimiser of the papers; on the fused path."""
        return torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6, fused=True)

    def start(self, seed: int) -> None:
        """Draws new weights."""
        torch.manual_seed(seed)
        self.model = self.build().to(self.device)
        how = {"mode": "reduce-overhead"} if self.graphs else {}
        self.call = (
            torch.compile(self.model, dynamic=self.dynamic, **how)
            if self.spec["compiled"]
            else self.model
        )
        self.optimizer = self.optimizer_of(self.model)

    def logits(self, batch):
        """The model's, with the products of the setting's precision."""
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.half):
            logits = self.call(batch)
        # The next batch's graph writes where this one's logits are.
        return logits.float().clone() if self.graphs else logits.float()

    def peak_bytes(self) -> int | None:
        """The most that PyTorch held of the accelerator; None on a CPU."""
        return torch.cuda.max_memory_reserved() if self.device == "cuda" else None

    def _sentences(self, side, rows):
        length = self.length[side][rows]
        longest = int(length.max())
        mask = torch.arange(longest, device=self.device) < length.to(self.device)[:, None]
        return Sentences(self.text[side][rows.to(self.device), :longest], length, mask)

    def batch(self, rows: np.ndarray) -> Batch:
        pairs, of = torch.from_numpy(rows), None
        premises = pairs
        if self.grouped:
            _, first, place = np.unique(
                self.work.premise_of[rows], return_index=True, return_inverse=True
            )
            premises, of = torch.from_numpy(rows[first]), torch.from_numpy(place).to(self.device)
        premises, hypotheses = (
            self._sentences("premise", premises),
            self._sentences("hypothesis", pairs),
        )
        return Batch(premises, hypotheses, of, self.label[pairs.to(self.device)])

    def batches(self, mode: str, seed: int, epoch: int, split: str = "train") -> list[np.ndarray]:
        """The rows of each batch of one pass. Styles with padding, and all predictions, group rows
        by length."""
        rows, by_length = self.work.rows(split), self.style not in SHUFFLED or mode == "predict"
        how = {"size": self.spec["batch"], "by_length": by_length, "grouped": self.grouped}
        rng = np.random.default_rng([seed, epoch])
        return batches_of(rows, self.lengths_of(rows), self.work.premise_of[rows], rng=rng, **how)

    def plan(self, mode: str) -> list[np.ndarray]:
        """The batches of one pass over the training rows, cheapest first."""
        return sorted(
            self.batches(mode, 0, 1), key=lambda rows: sum(map(np.sum, self.work.lengths(rows)))
        )

    def warm(self, mode: str, plan: list) -> None:
        """Runs batches of all sizes, the largest too."""
        count = COMPILED_WARM if self.spec["compiled"] else 3
        self.run(mode, [plan[i] for i in np.linspace(0, len(plan) - 1, count).astype(int)])

    def run(self, mode: str, batches: list) -> int:
        examples = self.train(batches) if mode == "train" else self.predict(batches)[0]
        if self.device == "cuda":
            torch.cuda.synchronize()
        return examples

    def train(self, batches) -> int:
        self.model.train()
        for rows in batches:
            self.step(self.batch(rows))
        return sum(map(len, batches))

    def step(self, batch):
        """Trains on a batch and returns its loss."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.logits(batch), batch.label)
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss

    @torch.inference_mode()
    def predict(self, batches) -> tuple[int, list]:
        """(examples, logits of each batch)."""
        self.model.train(False)
        logits = [self.logits(self.batch(rows)) for rows in batches]
        return sum(map(len, batches)), [part.cpu() for part in logits]

    def epoch(self, number: int) -> int:
        """One epoch of training from newly drawn weights, and the logits of the dev split after
        it."""
        self.start(number)
        examples = self.run("train", self.batches("train", number, 1))
        self.predict(self.batches("predict", 0, 0, "dev"))
        return examples


def padded(flat, start, of, fill):
    """[U, longest] pieces of a flat array, and how long [U] they are."""
    first, length = start[of], start[of + 1] - start[of]
    places = torch.arange(int(length.max()))
    inside = places < length[:, None]
    return torch.where(inside, flat[torch.where(inside, first[:, None] + places, 0)], fill), length


class ReaderSide(TorchSide):
    """One reader over one workload."""

    clip = 10.0

    def load(self, tensor):
        self.corpus = tensor

    def build(self):
        name, vectors = self.spec["model"], torch.from_numpy(self.work.vectors)
        return torch_models.READERS[name](
            vectors, self.spec["hidden"], DROPOUT[name], self.work.facts["types"]
        )

    def optimizer_of(self, model):
        if self.spec["model"] == "sa_reader":
            return torch.optim.SGD(model.parameters(), lr=0.1)
        return torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)

    def _sentences(self, tokens, length):
        mask = torch.arange(tokens.shape[1]) < length[:, None]
        return Sentences(tokens.to(self.device), length, mask.to(self.device))

    def batch(self, rows: np.ndarray) -> Cloze:
        corpus, rows = self.corpus, torch.from_numpy(rows)
        passages, of = corpus["query_passage"][rows], None
        if self.grouped:
            passages, of = torch.unique(passages, return_inverse=True)
            of = of.to(self.device)

        def pieces(name, of_start, fill=0):
            return padded(corpus[name], corpus[f"{of_start}_start"], passages, fill)

        kind, count = pieces("candidate_type", "candidate_type")
        there = torch.arange(kind.shape[1]) < count[:, None]
        position, _ = pieces("position", "position")
        candidate, _ = pieces("position_candidate", "position", kind.shape[1])
        length = corpus["query_length"][rows]
        query = self._sentences(corpus["query"][rows, : int(length.max())], length)
        rest = (corpus["blank"][rows], position, candidate, kind, there, corpus["label"][rows])
        return Cloze(
            self._sentences(*pieces("passage", "passage")),
            query,
            of,
            *(x.to(self.device) for x in rest),
        )


def sequences(arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(pieces [N, T], kinds [N, T], lengths [N]) of [CLS] premise [SEP] hypothesis [SEP]."""
    p, h = (arrays[f"{side}_length"].astype(np.int64) for side in ("premise", "hypothesis"))
    length = p + h + workload.SPECIAL_PIECES
    pieces, kind = np.zeros((2, len(p), int(length.max())), np.int64)
    for row, (first, second) in enumerate(zip(p, h, strict=True)):
        premise, hypothesis = arrays["premise"][row, :first], arrays["hypothesis"][row, :second]
        pieces[row, : length[row]] = [
            workload.CLS,
            *premise,
            workload.SEP,
            *hypothesis,
            workload.SEP,
        ]
        kind[row, first + 2 : length[row]] = 1
    return pieces, kind, length


class BERTSide(TorchSide):
    """BERT over one workload. A pair is one sequence, padded to its batch's longest; batches hold
    about one length."""

    clip = 1.0

    def load(self, tensor):
        pieces, kind, self.lengths = sequences(self.work.arrays)
        self.lengths_of = lambda rows: (self.lengths[rows] * BUCKET, np.zeros(len(rows), np.int64))
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

    def batch(self, rows: np.ndarray) -> Sequences:
        length = self.lengths[rows]
        longest = int(length.max())
        mask = torch.from_numpy(np.arange(longest) < length[:, None]).long().to(self.device)
        rows = torch.from_numpy(rows).to(self.device)
        mask = mask if length.min() < longest else None
        return Sequences(
            self.pieces[rows, :longest], self.kind[rows, :longest], mask, self.label[rows]
        )


class PlainEpoch:
    """One epoch of the script that one would write first: a DataLoader with shuffled batches, each
    padded to its own longest row, and the loss read at every step. To mix into a TorchSide."""

    def collate(self, items):
        return self.batch(np.array(items))

    def _loader(self, split):
        how = {
            "batch_size": self.spec["batch"],
            "shuffle": split == "train",
            "collate_fn": self.collate,
        }
        return torch.utils.data.DataLoader(self.work.rows(split), **how)

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


class PlainPairs(PlainEpoch, TorchSide):
    """The plain script of BOW, InferSent and ESIM: packed nn.LSTM, plain Adam."""

    def optimizer_of(self, model):
        return torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)

    def collate(self, items):
        arrays = self.work.arrays

        def side(name):
            tokens = [
                torch.from_numpy(arrays[name][row, : arrays[f"{name}_length"][row]]).long()
                for row in items
            ]
            length, tokens = (
                torch.tensor([len(each) for each in tokens]),
                pad_sequence(tokens, batch_first=True),
            )
            mask = torch.arange(tokens.shape[1]) < length[:, None]
            return Sentences(tokens.to(self.device), length, mask.to(self.device))

        label = torch.tensor([int(arrays["label"][row]) for row in items])
        return Batch(side("premise"), side("hypothesis"), None, label.to(self.device))


class PlainReader(PlainEpoch, ReaderSide):
    """The plain script of a reader: a batch has passages of all lengths, and encodes a passage
    again for each query."""


class PlainBERT(PlainEpoch, BERTSide):
    """The plain script of BERT: PyTorch's fused attention, as `transformers` has it by default."""
