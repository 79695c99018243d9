"""How the words of hypotheses relate to the classes: PMI of tokens and classes, and lengths by class.

Herlihy & Rudinger 2021 (MedNLI Is Not Immune), sections 4.1 to 4.3 and A.2: Tables 3 and 4, for any corpus. A sentence
is a sequence of tokens as `merged` gives it. A sentence that occurs several times counts each time.
"""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from mednli_jax.data.examples import LABELS, Mention
from mednli_jax.errors import DataError, UsageError
from mednli_jax.nli.entities import name_of, units
from mednli_jax.report.metrics import holm

# A token that occurs with fewer premises may identify a patient; `top` can leave it out.
PUBLIC_PREMISES = 10
_WORD = re.compile(r"\w\w")


def merged(tokens: Sequence[str], mentions: Sequence[Mention] = ()) -> tuple[str, ...]:
    """The tokens in lower case, those of each mention joined: brain injury -> brain_injury (section A.2).

    mentions: of concepts, in order. Of overlapping mentions, which MetaMap may give, the first and longest is used.
    """
    return tuple(name_of(unit).lower() for unit in units(tokens, mentions))


def content(tokens: Sequence[str]) -> tuple[str, ...]:
    """The tokens, in lower case, without English stop words and without those that have no two word characters in a row
    (punctuation, single letters). The published code drops both, by scikit-learn's list and pattern."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # a slow import, and only this needs it

    return tuple(token for token in tokens if token not in ENGLISH_STOP_WORDS and _WORD.search(token))


def classes_of(labels: Sequence[str]) -> tuple[str, ...]:
    """The classes that occur, in the order of LABELS. Raises DataError if there is nothing to compare."""
    classes = tuple(label for label in LABELS if label in set(labels))
    if len(classes) < 2:
        had = f"the pairs are of one class only ({classes[0]})" if classes else "there is no labelled pair"
        fix = "give a corpus whose labels differ, or more of it (config.data.limit)"
        raise DataError(f"{had}, so that nothing can be compared", fix=fix)
    return classes


# -- tokens and classes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Associations:
    """Tokens [V] and classes [C] of a corpus.

    Args:
      counts: [V, C] occurrences.
      examples: [V, C] pairs of the class whose sentence has the token.
      premises: [V] distinct premises of the pairs that have the token.
      pairs: [C] pairs of each class.
      pmi: [V, C] in bits.
      smoothing, min_count: as given to `pmi`.
      rare: distinct tokens that occur fewer than min_count times.
    """

    tokens: tuple[str, ...]
    classes: tuple[str, ...]
    counts: np.ndarray
    examples: np.ndarray
    premises: np.ndarray
    pairs: np.ndarray
    pmi: np.ndarray
    smoothing: float
    min_count: int
    rare: int


def pmi(
    sentences: Sequence[Sequence[str]],
    labels: Sequence[str],
    premises: Sequence[Hashable],
    *,
    smoothing: float = 50,
    min_count: int = 5,
) -> Associations:
    """PMI of each token that occurs at least `min_count` times with each class that occurs.

    PMI(t, c) = log2 p(t, c) / (p(t) p(c)). `smoothing` is added to the occurrences of every such token in every class.
    Joint and marginal probabilities come from that table (Gururangan et al. 2018, section 3). Rarer tokens are not in
    the table, because their many smoothed rows would level p(c).

    sentences, labels, premises: of each pair, in order; equal premises are one premise.
    Raises: DataError for a single class, UsageError where no token is that frequent.
    """
    classes = classes_of(labels)
    column = {label: number for number, label in enumerate(classes)}
    frequency = Counter(token for sentence in sentences for token in sentence)
    tokens = tuple(sorted(token for token, count in frequency.items() if count >= min_count))
    if not tokens:
        most = max(frequency.values(), default=0)
        raise UsageError(
            f"no token of the hypotheses occurs {min_count} times, the most frequent {most} times. "
            "Fix: give a lower --min_count, or more pairs."
        )
    row = {token: number for number, token in enumerate(tokens)}
    counts, examples = np.zeros((2, len(tokens), len(classes)), np.int64)
    seen = [set() for _ in tokens]
    for sentence, label, premise in zip(sentences, labels, premises, strict=True):
        for token, count in Counter(sentence).items():
            if (number := row.get(token)) is not None:
                counts[number, column[label]] += count
                examples[number, column[label]] += 1
                seen[number].add(premise)
    of_class = Counter(labels)
    return Associations(
        tokens=tokens,
        classes=classes,
        counts=counts,
        examples=examples,
        premises=np.array([len(premises) for premises in seen]),
        pairs=np.array([of_class[label] for label in classes]),
        pmi=pointwise(counts + smoothing),
        smoothing=smoothing,
        min_count=min_count,
        rare=len(frequency) - len(tokens),
    )


def pointwise(table: np.ndarray) -> np.ndarray:
    """PMI in bits of rows and columns of a table of counts [V, C], margins and all from the table; -inf for a 0."""
    joint = table / table.sum()
    with np.errstate(divide="ignore"):
        return np.log2(joint) - np.log2(joint.sum(axis=1, keepdims=True) * joint.sum(axis=0))


def top(found: Associations, k: int = 15, *, min_premises: int = 1) -> dict[str, list[dict]]:
    """The k tokens of the highest PMI with each class, of those that occur in it (Table 3), best first.

    Tokens of equal PMI are ordered by frequency, then by the alphabet. min_premises: leave out tokens that fewer
    distinct premises have.
    Returns {class: rows}; a row has token, pmi (bits), count (occurrences in the class), examples and share (pairs of
    the class that have it, and of all its pairs, 0-1: the % that Table 3's caption names), p (its count by that of all
    tokens of the table in the class, 0-1), p_smoothed (the same of the smoothed counts: the % that the published code
    prints), premises.
    """
    rows, smoothed = {}, found.counts + found.smoothing
    p, p_smoothed = (table / np.maximum(table.sum(axis=0), 1) for table in (found.counts, smoothed))
    for column, label in enumerate(found.classes):
        usable = np.flatnonzero((found.counts[:, column] > 0) & (found.premises >= min_premises)).tolist()
        usable.sort(key=lambda row: (-found.pmi[row, column], -found.counts[row, column], found.tokens[row]))
        rows[label] = [
            {
                "token": found.tokens[row],
                "pmi": float(found.pmi[row, column]),
                "count": int(found.counts[row, column]),
                "examples": int(found.examples[row, column]),
                "share": float(found.examples[row, column] / found.pairs[column]),
                "p": float(p[row, column]),
                "p_smoothed": float(p_smoothed[row, column]),
                "premises": int(found.premises[row]),
            }
            for row in usable[:k]
        ]
    return rows


# -- lengths -----------------------------------------------------------------------------------------------------------


def lengths(sentences: Sequence[Sequence[str]], labels: Sequence[str]) -> dict:
    """Lengths in tokens by class (Table 4), and whether they differ, as JSON values.

    Returns
      classes {class: {pairs, mean, median, lengths {tokens: pairs}}};
      kruskal_wallis {statistic, p_value} over all classes (Kruskal & Wallis 1952);
      comparisons [{first, second, u, p_value, p_holm, longer}]: Mann-Whitney's U of the first (two-sided, normal
        approximation with ties), corrected over the comparisons (Holm 1979); longer: the probability that a sentence
        of the first class is the longer one, ties counting half (.5: no difference). Of many pairs any difference is
        significant: `longer` says whether it is large.
    Raises: DataError for a single class.
    """
    of_class = {
        label: np.array([len(s) for s, given in zip(sentences, labels, strict=True) if given == label])
        for label in classes_of(labels)
    }
    same = len(np.unique(np.concatenate(list(of_class.values())))) == 1
    whole = (0.0, 1.0) if same else stats.kruskal(*of_class.values())
    comparisons = []
    for first, second in combinations(of_class, 2):
        a, b = of_class[first], of_class[second]
        equal = len(np.unique(np.concatenate([a, b]))) == 1  # no ranks, and no variance to divide by
        u, p = (len(a) * len(b) / 2, 1.0) if equal else stats.mannwhitneyu(a, b, method="asymptotic")
        longer = float(u) / (len(a) * len(b))
        comparisons.append({"first": first, "second": second, "u": float(u), "p_value": float(p), "longer": longer})
    for comparison, p in zip(comparisons, holm([c["p_value"] for c in comparisons]), strict=True):
        comparison["p_holm"] = p
    return {
        "classes": {label: _length_figures(found) for label, found in of_class.items()},
        "kruskal_wallis": {"statistic": float(whole[0]), "p_value": float(whole[1])},
        "comparisons": comparisons,
    }


def _length_figures(found):
    values, counts = np.unique(found, return_counts=True)
    return {
        "pairs": len(found),
        "mean": float(found.mean()),
        "median": float(np.median(found)),
        "lengths": {str(value): int(count) for value, count in zip(values, counts, strict=True)},
    }
