"""Folds of DisKnE: the examples that test a disease, those for training, and the rules for both
(sections 3.3, 4.1).

A fold is three arrays of row numbers of the benchmark's examples. All folds share the arrays of the
examples.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mednli_jax.data.batching import Batches, BatchSettings, Bucket, Draw, ceil_div
from mednli_jax.diskne.data import GROUPS, Benchmark
from mednli_jax.errors import DataError
from mednli_jax.knowledge.words import FUNCTION_WORDS, singular

# positive examples of a disease in a category that is reported (section 4.1)
LEAST = 2
DEV = 0.1  # share of the training examples (section 4.1)

MOST_FOLDS = 1 << 12
MOST_SEED = (1 << 32) // MOST_FOLDS - 1

_WORD = re.compile(r"\w+")
_POSSESSIVE = re.compile(r"['’]s\b")
_PLURAL = re.compile(r"\b([A-Z][A-Z0-9]+)s\b")  # of an abbreviation: MIs, which `singular` leaves
_CAPITALS = re.compile(r"[A-Z]{2,}")
# Endings of Greek and Latin nouns after `singular`: plural -> singular or the reverse. The singular
# and the plural of a noun then are the same string.
_ENDINGS = {
    "i": "us",  # emboli
    "use": "us",  # viruses
    "e": "is",  # metastases
    "ide": "is",  # arthritides
    "um": "a",  # diverticulum
    "on": "a",  # ganglion
    "ae": "a",  # bursae
    "mata": "ma",  # carcinomata
    "ix": "ice",  # varix
    "ex": "ice",  # cortex
    "ice": "ice",  # varices, cortices
    "ax": "ace",  # pneumothorax
    "ace": "ace",
    "yx": "yce",  # calyx
    "yce": "yce",
    "nx": "nge",  # phalanx
    "nge": "nge",
}
_ENDING = re.compile(rf"(?<=\w{{3}})({'|'.join(_ENDINGS)})$")


@dataclass(frozen=True)
class FoldChoice:
    """The choice of folds to train.

    Args:
      at_once: slots in one program, 0 = as many as fit into memory.
      diseases: ids or names, () = all.
      categories: that are reported; only diseases that have them are trained; () = all.
    """

    at_once: int = 0
    diseases: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Fold:
    """The examples of a disease for testing and training.

    Args:
      train, dev, test: int32 rows of `Benchmark.examples`, ascending.
      categories: that are reported and tested.
      dropped: reason -> rows that were left out of train and dev. The reasons are `own` (of the
        disease, but not tested), `hypothesis` and `premise` (they name the disease), `repeated`
        (premise and claim of an earlier example).
    """

    disease: str
    group: str
    categories: tuple[str, ...]
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray
    dropped: dict[str, np.ndarray]

    def rows(self, split: str) -> np.ndarray:
        """The rows of a part: "train", "dev" or "test"."""
        return {"train": self.train, "dev": self.dev, "test": self.test}[split]


def phrase(text: str) -> str:
    """Puts a text in the form in which names are looked up: lower-case words in the singular, a
    space around each.

    " mi " is in the phrase of "h/o MI." and not in the phrase of "family". (The published script
    looked for substrings.)
    """
    words = _WORD.findall(_POSSESSIVE.sub("", _PLURAL.sub(r"\1", text).casefold()))
    return f" {' '.join(map(_one_number, words))} "


def _one_number(word: str) -> str:
    """A string that the singular and the plural of a word in lower case share. It need not be a
    word."""
    if word in FUNCTION_WORDS:
        return word
    word = _ENDING.sub(lambda match: _ENDINGS[match[1]], singular(word))
    return word.replace("embolus", "embolism")  # a pulmonary embolus is a pulmonary embolism


def concepts_in_texts(
    texts: Collection[str], synonyms: Mapping[str, Iterable[str]]
) -> dict[str, frozenset[str]]:
    """Finds the concepts of which a name stands in each text, on word boundaries.

    A word of grammar is a name only in capitals (AS, aortic stenosis), and found only in capitals.
    """
    concepts_of: dict[tuple[str, ...], set[str]] = defaultdict(set)  # by the words of a name
    concepts_of_capitals: dict[str, set[str]] = defaultdict(set)
    for concept, names in synonyms.items():
        for name in names:
            words = tuple(phrase(name).split())
            if len(words) == 1 and words[0] in FUNCTION_WORDS:
                if _CAPITALS.fullmatch(name):
                    concepts_of_capitals[name].add(concept)
            elif words:
                concepts_of[words].add(concept)
                plural = f"{words[-1]}s"  # of an abbreviation in lower case: mis, uti -> utis
                if len(plural) < 5 and plural not in FUNCTION_WORDS:
                    concepts_of[*words[:-1], plural].add(concept)
    longest = max(map(len, concepts_of), default=0)
    concepts_in = {}
    for text in set(texts):
        concepts: set[str] = set()
        words = tuple(phrase(text).split())
        for start in range(len(words)):
            for end in range(start + 1, min(start + longest, len(words)) + 1):
                concepts.update(concepts_of.get(words[start:end], ()))
        for word in _WORD.findall(text):
            concepts.update(concepts_of_capitals.get(word, ()))
        concepts_in[text] = frozenset(concepts)
    return concepts_in


def _rows_naming(benchmark: Benchmark, texts: Sequence[str]) -> dict[str, list[int]]:
    """The rows whose text names each concept."""
    concepts_in = concepts_in_texts(texts, benchmark.synonyms)
    rows = defaultdict(list)
    for row, text in enumerate(texts):
        for concept in concepts_in[text]:
            rows[concept].append(row)
    return rows


def _numbers(keys: Iterable[Hashable]) -> np.ndarray:
    """int32 [N], equal numbers for equal keys."""
    number_of: dict[Hashable, int] = {}
    return np.array([number_of.setdefault(key, len(number_of)) for key in keys], np.int32)


def _first_rows(number_N: np.ndarray, is_wanted_N: np.ndarray) -> np.ndarray:
    """int32, the wanted rows, ascending; only the first of rows with equal numbers."""
    rows = np.flatnonzero(is_wanted_N)
    _, first = np.unique(number_N[rows], return_index=True)
    return np.sort(rows[first]).astype(np.int32)


def _is_dev(premises: Sequence[str], share: float) -> np.ndarray:
    """bool [n], the rows of the premises that make about `share` of the rows; the order of their
    hashes decides."""
    counts = Counter(premises)
    order = sorted(counts, key=lambda key: hashlib.sha256(f"dev {key}".encode()).digest())
    rows = 0
    chosen = set()
    for premise in order[:-1]:
        if rows >= share * len(premises):
            break
        chosen.add(premise)
        rows += counts[premise]
    return np.array([premise in chosen for premise in premises], bool)


def folds(benchmark: Benchmark, *, least: int = LEAST, dev: float = DEV) -> tuple[Fold, ...]:
    """Makes a fold for each group and disease with at least `least` positive examples in a category
    (sections 3.3, 4.1).

    A category in which no negative example is made from those of the disease is not reported for
    it.

    The training examples are those of the group that neither claim nor name the disease, less a
    share `dev` of whole premises.
    """
    columns = _Columns(benchmark)
    divided = []
    for group in GROUPS:
        for disease, categories in columns.reported_categories(group, least).items():
            divided.append(columns.fold(group, disease, categories, dev))
    if not divided:
        problem = f"{benchmark.name}: no disease has {least} positive examples in a category"
        fix = "give more pairs, or a terminology that names more of their diseases"
        raise DataError(problem, fix=fix)
    return tuple(divided)


class _Columns:
    """The fields of N examples.

    Attributes:
      premise: its key.
      claim: int32 [N], equal for examples with the same premise and claim.
      tested: int32 [N], equal for examples that also have the same target and category; a fold
        tests one of these.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        columns, is_positive = [], []
        premises, hypotheses = [], []
        for example in benchmark.examples:
            pair = example.pair
            columns.append((example.target, example.disease, example.category, pair.group))
            is_positive.append(example.is_positive)
            premises.append(pair.premise)
            hypotheses.append(pair.hypothesis)
        columns_N4 = np.array(columns, object).reshape(-1, 4)
        self.target, self.disease, self.category, self.premise = columns_N4.T
        self.is_positive = np.array(is_positive, bool)
        self.claim = _numbers(zip(self.premise, self.disease, hypotheses, strict=True))
        self.tested = _numbers(zip(self.claim, self.target, self.category, strict=True))
        self.rows_of_premise = _rows_naming(benchmark, premises)
        self.rows_of_hypothesis = _rows_naming(benchmark, hypotheses)

    def reported_categories(self, group: str, least: int) -> dict[str, tuple[str, ...]]:
        """The categories of the group in which each disease is tested."""
        rows = _first_rows(self.tested, self.is_positive)
        positives = Counter(zip(self.target[rows], self.category[rows], strict=True))
        is_negative = ~self.is_positive
        negatives = set(zip(self.target[is_negative], self.category[is_negative], strict=True))
        reported: dict[str, tuple[str, ...]] = {}
        for disease in sorted({disease for disease, _ in positives}):
            for category in GROUPS[group]:
                key = disease, category
                if key in negatives and positives[key] >= least:
                    reported[disease] = (*reported.get(disease, ()), category)
        return reported

    def fold(self, group: str, disease: str, categories: tuple[str, ...], dev: float) -> Fold:
        pool = np.isin(self.category, GROUPS[group])
        targeted = self.target == disease
        claimed = (self.disease == disease) | self._mask(self.rows_of_hypothesis.get(disease, []))
        named = self._mask(self.rows_of_premise.get(disease, []))
        free = pool & ~targeted & ~claimed & ~named
        test = _first_rows(self.tested, targeted & np.isin(self.category, categories))
        rows = _first_rows(self.claim, free)
        dropped = {
            "own": pool & targeted & ~self._mask(test),
            "hypothesis": pool & ~targeted & claimed,
            "premise": pool & ~targeted & ~claimed & named,
            "repeated": free & ~self._mask(rows),
        }
        is_dev = _is_dev(self.premise[rows].tolist(), dev)
        rows_dropped = {}
        for reason, is_dropped in dropped.items():
            rows_dropped[reason] = np.flatnonzero(is_dropped).astype(np.int32)
        train, dev_rows = rows[~is_dev], rows[is_dev]
        return Fold(disease, group, categories, train, dev_rows, test, rows_dropped)

    def _mask(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """bool [N], whether each example is one of the rows."""
        mask = np.zeros(len(self.target), bool)
        mask[rows] = True
        return mask


# -- batches of many folds -------------------------------------------------------------------------

# A slot is a fold and a seed. The training loop identifies it by one number, in place of a seed;
# everything random in a slot depends on that number alone. The folds of a group have equally many
# batches of the same static shapes. Dimension letters: N rows of the corpus, F folds, Q groups of a
# batch, G rows of a group, S slots, M premise groups.


class Slot(NamedTuple):
    """A fold and a seed. fold: its place among all folds of the corpus."""

    fold: int
    seed: int


def slot_code(fold: int, seed: int) -> int:
    """The number of a slot, under 2^32."""
    return seed * MOST_FOLDS + fold


def slot_of(code: int) -> Slot:
    """The slot of a number that `slot_code` gave."""
    return Slot(int(code) % MOST_FOLDS, int(code) // MOST_FOLDS)


class FoldBatches(Batches):
    """The training batches of a group of folds.

    `epoch(epoch, codes)` is as in Batches. Each slot gets the rows of its fold. A fold with fewer
    rows than the largest has padding (-1) spread over its batches. Further arguments are those of
    Batches.

    Args:
      member: bool [F, N], whether a row is trained on in a fold; F: all folds of the corpus.
      folds: that give all slots their number of batches.
      groups: [M, G] rows of each premise group, None = every row is a group. A fold takes the rows
        of a group that it trains on.
    """

    def __init__(
        self,
        premise_length: np.ndarray,
        hypothesis_length: np.ndarray,
        settings: BatchSettings,
        *,
        member: np.ndarray,
        folds: Sequence[int],
        groups: np.ndarray | None = None,
        tokens: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.member, self.folds = np.asarray(member, bool), tuple(folds)
        self._buckets_of: dict[int, list[Bucket]] = {}  # fold -> its share of each bucket
        if groups is None:
            groups = np.flatnonzero(self.member[list(folds)].any(axis=0)).astype(np.int32)[:, None]
        codes = tuple(slot_code(fold, seed) for seed in settings.seeds for fold in self.folds)
        settings = replace(settings, seeds=codes)
        super().__init__(premise_length, hypothesis_length, settings, groups=groups, tokens=tokens)

    def cut_into_buckets(self) -> list[Bucket]:
        """Cuts each fold into buckets of equal work. Buckets have as many batches, and as much
        room, as the largest fold needs."""
        held_FMG = self.member[:, self.rows_of_group] & (self.rows_of_group >= 0)
        rows_F = held_FMG.sum(axis=(1, 2))
        largest = max(self.folds, key=rows_F.__getitem__)
        groups = int(held_FMG[largest].any(axis=1).sum())
        per_batch = max(1, round(self.settings.batch_size * groups / max(int(rows_F[largest]), 1)))
        count = max(1, min(self.settings.max_buckets, groups // (2 * per_batch)))
        groups_by_fold = {}
        for fold in self.folds:
            groups_of_fold = np.flatnonzero(held_FMG[fold].any(axis=1))
            groups_by_fold[fold] = self.cut_by_work(groups_of_fold, count)
        self._buckets_of = {fold: [] for fold in self.folds}
        buckets = []
        for groups_of_folds in zip(*groups_by_fold.values(), strict=True):
            sizes = list(map(len, groups_of_folds))
            batches = max(1, min(ceil_div(max(sizes), per_batch), *sizes))
            even = ceil_div(max(sizes), batches)
            for fold, fold_groups in zip(self.folds, groups_of_folds, strict=True):
                self._buckets_of[fold].append(Bucket(fold_groups, even, batches))
            buckets.append(Bucket(np.unique(np.concatenate(groups_of_folds)), even, batches))
        return buckets

    def examined_draws(self) -> list[Draw]:
        """One draw for each slot, each in another epoch: folds differ more than the epochs of one
        fold do."""
        epochs = self.settings.epochs
        draws = []
        for turn in range(min(epochs, 4)):
            for place, code in enumerate(self.settings.seeds):
                draws.append(Draw(code, 1 + (turn + place) % epochs))
        return draws

    def deal(self, number: int, draw: Draw | None) -> np.ndarray:
        assert draw is not None, "the seed of a draw is the number of a slot"
        fold = slot_of(draw.seed).fold
        rows = self.deal_bucket(self._buckets_of[fold][number], number, draw)
        return np.where((rows >= 0) & self.member[fold][rows], rows, -1).astype(np.int32)
