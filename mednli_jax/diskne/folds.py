"""Folds of DisKnE: the examples that a disease is tested on, and those for training before
(sections 3.3, 4.1).

A fold is three arrays of row numbers in a benchmark's one list of examples, so that all folds share
one set of arrays.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mednli_jax.data.batching import Batches, BatchPlan, Bucket, Draw
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
# Ending of a Greek or Latin noun in one number, after `singular` -> that in the other, so that both
# are one word.
_ENDINGS = {
    **{"i": "us", "use": "us"},  # emboli; viruses
    **{"e": "is", "ide": "is"},  # metastases; arthritides
    **{
        "um": "a",
        "on": "a",
        "ae": "a",
        "mata": "ma",
    },  # diverticulum, ganglion; bursae, carcinomata
    **{"ix": "ice", "ex": "ice", "ice": "ice"},  # varix, cortex; varices, cortices
    **{
        "ax": "ace",
        "ace": "ace",
        "yx": "yce",
        "yce": "yce",
        "nx": "nge",
        "nge": "nge",
    },  # pneumothorax, calyx, phalanx
}
_ENDING = re.compile(rf"(?<=\w{{3}})({'|'.join(_ENDINGS)})$")


@dataclass(frozen=True)
class FoldChoice:
    """The folds to train.

    at_once: slots in one program, 0 = as many as fit into memory. diseases: ids or names, () = all.
    categories: those that are reported; only diseases that have them are trained; () = all.
    """

    at_once: int = 0
    diseases: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Fold:
    """The examples of a disease for testing and training.

    train, dev, test: int32 rows of `Benchmark.examples`, ascending. categories: those that are
    reported and tested. dropped: reason -> rows that were kept out of train and dev. The reasons
    are `own` (of the disease, but not tested), `hypothesis` and `premise` (they name the disease),
    `repeated` (premise and claim of an earlier example).
    """

    disease: str
    group: str
    categories: tuple[str, ...]
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray
    dropped: dict[str, np.ndarray]


def phrase(text: str) -> str:
    """A text as names are looked for in it: words in lower case and in one number, a space around
    each.

    " mi " is in the phrase of "h/o MI." and not in that of "family": the published script looked
    for substrings.
    """
    words = _WORD.findall(_POSSESSIVE.sub("", _PLURAL.sub(r"\1", text).casefold()))
    return f" {' '.join(map(_one_number, words))} "


def _one_number(word: str) -> str:
    """The same string, which need not be a word, for the singular and the plural of a word in lower
    case."""
    if word in FUNCTION_WORDS:
        return word
    word = _ENDING.sub(lambda match: _ENDINGS[match[1]], singular(word))
    return word.replace("embolus", "embolism")  # a pulmonary embolus is a pulmonary embolism


def mentioned(
    texts: Collection[str], synonyms: Mapping[str, Iterable[str]]
) -> dict[str, frozenset[str]]:
    """text -> the concepts of which a name stands in it, on word boundaries.

    A word of grammar is a name only in capitals (AS, aortic stenosis), and found only in capitals.
    """
    owners, acronyms = defaultdict(set), defaultdict(set)
    for concept, names in synonyms.items():
        for name in names:
            key = tuple(phrase(name).split())
            if len(key) == 1 and key[0] in FUNCTION_WORDS:
                if _CAPITALS.fullmatch(name):
                    acronyms[name].add(concept)
            elif key:
                owners[key].add(concept)
                plural = f"{key[-1]}s"  # of an abbreviation in lower case: mis, uti -> utis
                if len(plural) < 5 and plural not in FUNCTION_WORDS:
                    owners[*key[:-1], plural].add(concept)
    longest = max(map(len, owners), default=0)
    found = {}
    for text in set(texts):
        words = phrase(text).split()
        spans = (
            (a, b)
            for a in range(len(words))
            for b in range(a + 1, min(a + longest, len(words)) + 1)
        )
        named = [owners.get(tuple(words[a:b]), ()) for a, b in spans]
        named += [acronyms.get(word, ()) for word in _WORD.findall(text)]
        found[text] = frozenset().union(*named)
    return found


def _naming(benchmark: Benchmark, texts: Sequence[str]) -> dict[str, list[int]]:
    """concept -> the rows whose text names it."""
    found, rows = mentioned(texts, benchmark.synonyms), defaultdict(list)
    for row, text in enumerate(texts):
        for concept in found[text]:
            rows[concept].append(row)
    return rows


def _ranks(keys: Sequence[Hashable]) -> np.ndarray:
    """int32 [n]: equal numbers for equal keys."""
    numbers: dict = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int32)


def _firsts(keys: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """int32: the rows of `mask`, ascending, of equal keys the first alone."""
    rows = np.flatnonzero(mask)
    return np.sort(rows[np.unique(keys[rows], return_index=True)[1]]).astype(np.int32)


def _dev_premises(groups: Sequence[str], share: float) -> np.ndarray:
    """bool [n]: rows of the premises that make about `share` of the rows; the order of their hashes
    decides."""
    rows, taken, chosen = Counter(groups), 0, set()
    order = sorted(rows, key=lambda group: hashlib.sha256(f"dev {group}".encode()).digest())
    for group in order[:-1]:
        if taken >= share * len(groups):
            break
        chosen.add(group)
        taken += rows[group]
    return np.array([group in chosen for group in groups], bool)


def folds(benchmark: Benchmark, *, least: int = LEAST, dev: float = DEV) -> tuple[Fold, ...]:
    """A fold for each group and disease with at least `least` positive examples in a category
    (sections 3.3, 4.1).

    A category in which no negative example is made from those of the disease is not reported for
    it.

    The training examples are those of the group that neither claim nor name the disease, less a
    share `dev` of whole premises.
    """
    examples, found = benchmark.examples, []
    columns = np.array([(e.target, e.disease, e.category) for e in examples], object).reshape(-1, 3)
    target, claimed_of, category = columns.T
    positive = np.array([e.is_positive for e in examples], bool)
    claim = _ranks([(e.pair.group, e.disease, e.pair.hypothesis) for e in examples])
    # Two pairs with the same premise and claim are one example of what a category tests of a
    # disease.
    tested = _ranks(list(zip(claim, target, category, strict=True)))
    in_premise = _naming(benchmark, [e.pair.premise for e in examples])
    in_hypothesis = _naming(benchmark, [e.pair.hypothesis for e in examples])
    rows = _firsts(tested, positive)
    counts = Counter(zip(target[rows], category[rows], strict=True))
    with_negatives = set(zip(target[~positive], category[~positive], strict=True))
    for group, of_group in GROUPS.items():
        pool = np.isin(category, of_group)
        for disease in sorted({of for of, kind in counts if kind in of_group}):
            reported = {
                kind for of, kind in with_negatives if of == disease and counts[of, kind] >= least
            }
            categories = tuple(kind for kind in of_group if kind in reported)
            if not categories:
                continue
            targeted = target == disease
            test = _firsts(tested, targeted & np.isin(category, categories))
            named, claimed = np.zeros((2, len(examples)), bool)
            named[in_premise.get(disease, [])] = True
            claimed[in_hypothesis.get(disease, [])] = True
            claimed |= claimed_of == disease
            free = pool & ~targeted & ~claimed & ~named
            rows = _firsts(claim, free)
            kept = np.zeros((2, len(examples)), bool)
            kept[0][test] = kept[1][rows] = True
            dropped = {
                "own": pool & targeted & ~kept[0],
                "hypothesis": pool & ~targeted & claimed,
                "premise": pool & ~targeted & ~claimed & named,
                "repeated": free & ~kept[1],
            }
            dropped = {
                reason: np.flatnonzero(of).astype(np.int32) for reason, of in dropped.items()
            }
            is_dev = _dev_premises([examples[row].pair.group for row in rows], dev)
            found.append(
                Fold(disease, group, categories, rows[~is_dev], rows[is_dev], test, dropped)
            )
    if not found:
        fix = "give more pairs, or a terminology that names more of their diseases"
        raise DataError(
            f"{benchmark.name}: no disease has {least} positive examples in a category", fix=fix
        )
    return tuple(found)


# -- batches of many folds -------------------------------------------------------------------------

# A slot is a fold and a seed. The training loop identifies it by one number, in place of a seed;
# everything random in a slot depends on that number alone. The folds of a group have equally many
# batches of the same static shapes. Dimension letters: N rows of the corpus, F folds, Q units of a
# batch, G rows of a unit, S slots.


def slot_code(fold: int, seed: int) -> int:
    """The number of a slot, under 2^32; fold: place among all folds of the corpus."""
    return seed * MOST_FOLDS + fold


def of_code(code: int) -> tuple[int, int]:
    """(fold, seed) of a slot's number."""
    return int(code) % MOST_FOLDS, int(code) // MOST_FOLDS


class FoldBatches(Batches):
    """The training batches of a group of folds.

    `epoch(epoch, codes)` gives (layout, rows [S, Q, G]) as that of Batches, each slot with the rows
    of its fold; a fold with fewer rows than the largest has padding (-1) spread over its batches.
    Further arguments are those of Batches.

    Args:
      member: [F, N] bool, whether a row is trained on in a fold; F: all folds of the corpus.
      group: the folds that give all slots their number of batches.
      groups: [M, G] rows of each unit, None = every row is its own unit. Of a unit a fold takes the rows it trains on.
    """

    def __init__(
        self,
        premise_length,
        hypothesis_length,
        plan: BatchPlan,
        *,
        member,
        group: Sequence[int],
        groups=None,
        tokens=None,
    ) -> None:
        self.member, self.of_group = np.asarray(member, bool), tuple(group)
        if groups is None:
            groups = np.flatnonzero(self.member[list(group)].any(axis=0)).astype(np.int32)[:, None]
        codes = tuple(slot_code(fold, seed) for seed in plan.seeds for fold in self.of_group)
        super().__init__(
            premise_length,
            hypothesis_length,
            replace(plan, seeds=codes),
            groups=groups,
            tokens=tokens,
        )

    def cut_into_buckets(self) -> list[Bucket]:
        """Each fold is cut into buckets of equal work; they have as many batches, and room, as the
        largest needs."""
        held = self.member[:, self.units] & (self.units >= 0)
        rows = {fold: int(held[fold].sum()) for fold in self.of_group}
        largest = max(self.of_group, key=rows.__getitem__)
        units = int(held[largest].any(axis=1).sum())
        per_batch = max(1, round(self.plan.batch_size * units / max(rows[largest], 1)))
        most = max(1, min(self.plan.max_buckets, units // (2 * per_batch)))
        cut = {
            fold: self.cut_by_work(np.flatnonzero(held[fold].any(axis=1)), most)
            for fold in self.of_group
        }
        buckets = []
        self._of_fold = {fold: [] for fold in self.of_group}
        for bucket in range(most):
            parts = {fold: cut[fold][bucket] for fold in self.of_group}
            longest = max(map(len, parts.values()))
            batches = max(1, min(-(-longest // per_batch), *map(len, parts.values())))
            even = -(-longest // batches)
            for fold, part in parts.items():
                self._of_fold[fold].append(Bucket(part, even, batches))
            buckets.append(Bucket(np.unique(np.concatenate(list(parts.values()))), even, batches))
        return buckets

    def examined_draws(self) -> list[Draw]:
        """Slot after slot, each in another epoch: folds differ more than the epochs of one do."""
        epochs = self.plan.epochs
        return [
            Draw(code, 1 + (turn + place) % epochs)
            for turn in range(min(epochs, 4))
            for place, code in enumerate(self.plan.seeds)
        ]

    def deal(self, number: int, draw: Draw | None, bucket: Bucket | None = None) -> np.ndarray:
        assert draw is not None, "the seed of a draw is the number of a slot"
        fold, _ = of_code(draw.seed)
        rows = super().deal(number, draw, self._of_fold[fold][number])
        return np.where((rows >= 0) & self.member[fold][rows], rows, -1).astype(np.int32)
