"""Artefacts of annotation in the words and lengths of hypotheses.

Tables 3 and 4 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune), for any corpus: PMI of tokens and
classes (section 4.1, A.2) and lengths by class (4.3).

A sentence that occurs several times counts each time. Words of a corpus that is not open are in
private files alone.
"""

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np

from mednli_jax.data.labels import ordered_names
from mednli_jax.errors import DataError, UsageError
from mednli_jax.nli.analyses import AnalysedPairs
from mednli_jax.report import charts
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Grid, Report, Section, in_full
from mednli_jax.report.tables import corpus_fields, published_figures
from mednli_jax.types import Json

PAPER = published_figures("artifacts")["source"]
# A token that occurs with fewer premises may identify a patient: such tokens can be left out.
PUBLIC_PREMISES = 10
LONGEST_SHOWN = 15  # tokens; longer hypotheses share the last bar
_WORD = re.compile(r"\w\w")


def classes_of(labels: Sequence[str]) -> tuple[str, ...]:
    """The classes that occur, in the order of labels.ordered_names. Raises DataError if there is
    nothing to compare."""
    classes = ordered_names(labels)
    if len(classes) < 2:
        problem = "the pairs are of fewer than two classes, so that nothing can be compared"
        fix = "give a corpus whose labels differ, or more of it (config.data.limit)"
        raise DataError(problem, fix=fix)
    return classes


def _merging(merged_by: str) -> str:
    if merged_by:
        return f"entities of {merged_by} merged"
    return "nothing merged, the config takes no knowledge"


# -- tokens ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenRow:
    """A token in the hypotheses of a class.

    Args:
      pmi: in bits.
      count: occurrences in the class.
      examples: pairs of the class that have it.
      share: `examples` divided by all pairs of the class, 0-1: the % that Table 3's caption names.
      p: its share of the tokens of the class, 0-1.
      p_smoothed: its share of the smoothed counts, 0-1: the % that the published code prints.
      premises: distinct premises of pairs that have it, in all classes.
    """

    token: str
    pmi: float
    count: int
    examples: int
    share: float
    p: float
    p_smoothed: float
    premises: int


class TokenTable(NamedTuple):
    """The tokens of all classes. rows: class -> its tokens. facts: JSON values."""

    rows: Mapping[str, list[TokenRow]]
    facts: Mapping[str, Json]

    def best(self, count: int, *, premises: int = 0) -> "TokenTable":
        """The first tokens of each class that occur with at least `premises` premises."""
        best = {}
        for label, rows in self.rows.items():
            best[label] = [row for row in rows if row.premises >= premises][:count]
        return self._replace(rows=best)


def tokens(pairs: AnalysedPairs, options: AnalysisOptions) -> Report:
    """Reports the PMI of tokens and classes over the training hypotheses, entities merged."""
    train = pairs.splits["train"].examples
    sentences = pairs.hypotheses(merged=True)[: len(train)]
    if not options.stop_words:
        sentences = list(map(content, sentences))
    labels = [example.label for example in train]
    # Two groups with one premise describe one patient.
    premises = [example.premise for example in train]
    table = token_rows(
        sentences,
        labels,
        premises,
        smoothing=options.smoothing,
        min_count=options.min_count,
    )
    about = {
        "split": "train",
        "knowledge": pairs.knowledge,
        "merged_by": pairs.merged_by,
        "stop_words": options.stop_words,
        "smoothing": options.smoothing,
        "min_count": options.min_count,
        **table.facts,
    }
    whole = _tokens_shown(pairs.name, TokenTable(table.best(options.top).rows, about))
    if pairs.is_open and not options.public:
        return whole
    private = {} if pairs.is_open else in_full("lexical", whole)
    if options.public:
        few = table.facts["tokens_of_few_premises"]
        left_out = f"{few:,} tokens that occur with fewer than {PUBLIC_PREMISES} premises"
        frequent = table.best(options.top, premises=PUBLIC_PREMISES)
        shown = _tokens_shown(
            pairs.name, TokenTable(frequent.rows, about), f"{left_out} are left out"
        )
        return replace(shown, private=private)
    (section,) = whole.sections
    words = [
        *section.words,
        "words of a corpus that is not open are written to private/ of --out alone; see --public",
    ]
    return Report(about, [replace(section, words=words, grids=[], lead="")], private=private)


def content(tokens: Sequence[str]) -> tuple[str, ...]:
    """The tokens, in lower case, without English stop words and without tokens that lack two word
    characters in a row (punctuation, single letters). The published code drops both, by
    scikit-learn's list and pattern."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words = filter(_WORD.search, tokens)
    return tuple(word for word in words if word not in ENGLISH_STOP_WORDS)


class TokenCounts(NamedTuple):
    """Counts of T tokens in C classes.

    Args:
      counts: [T, C], occurrences.
      examples: [T, C], hypotheses that have the token.
      premises: [T], distinct premises of these hypotheses.
    """

    counts: np.ndarray
    examples: np.ndarray
    premises: np.ndarray


def _token_counts(
    tokens: Sequence[str],
    classes: Sequence[str],
    sentences: Sequence[Sequence[str]],
    labels: Sequence[str],
    premises: Sequence[Hashable],
) -> TokenCounts:
    place = {token: number for number, token in enumerate(tokens)}
    counts, examples = np.zeros((2, len(tokens), len(classes)), np.int64)
    seen: list[set[Hashable]] = [set() for _ in tokens]
    for sentence, label, premise in zip(sentences, labels, premises, strict=True):
        column = classes.index(label)
        for token, count in Counter(sentence).items():
            if (number := place.get(token)) is not None:
                counts[number, column] += count
                examples[number, column] += 1
                seen[number].add(premise)
    return TokenCounts(counts, examples, np.array(list(map(len, seen))))


def token_rows(
    sentences: Sequence[Sequence[str]],
    labels: Sequence[str],
    premises: Sequence[Hashable],
    *,
    smoothing: float = 50,
    min_count: int = 5,
) -> TokenTable:
    """Computes the tokens of each class.

    PMI(t, c) = log2 p(t, c) / (p(t) p(c)) of tokens that occur at least `min_count` times.
    `smoothing` is added to the occurrences of every such token in every class. Joint and marginal
    probabilities come from that table (Gururangan et al. 2018, section 3). Rarer tokens are not in
    it, because their many smoothed rows would level p(c).

    The highest PMI comes first; tokens of equal PMI are ordered by frequency, then by the alphabet.
    """
    classes = classes_of(labels)
    frequency = Counter(chain.from_iterable(sentences))
    frequent = sorted(token for token, count in frequency.items() if count >= min_count)
    if not frequent:
        problem = f"no token of the hypotheses occurs {min_count} times"
        raise UsageError(problem, fix="give a lower --min_count, or more pairs")
    counted = _token_counts(frequent, classes, sentences, labels, premises)
    counts, smoothed = counted.counts, counted.counts + smoothing
    joint = smoothed / smoothed.sum()
    with np.errstate(divide="ignore"):
        pmi = np.log2(joint) - np.log2(joint.sum(axis=1, keepdims=True) * joint.sum(axis=0))
    p = counts / np.maximum(counts.sum(axis=0), 1)
    p_smoothed = smoothed / np.maximum(smoothed.sum(axis=0), 1)
    pairs = Counter(labels)
    rows: dict[str, list[TokenRow]] = {}
    for c, label in enumerate(classes):
        rows[label] = []
        for t in np.flatnonzero(counts[:, c]):
            row = TokenRow(
                token=frequent[t],
                pmi=float(pmi[t, c]),
                count=int(counts[t, c]),
                examples=int(counted.examples[t, c]),
                share=float(counted.examples[t, c] / pairs[label]),
                p=float(p[t, c]),
                p_smoothed=float(p_smoothed[t, c]),
                premises=int(counted.premises[t]),
            )
            rows[label].append(row)
        rows[label].sort(key=_rank)
    few = int((counted.premises < PUBLIC_PREMISES).sum())
    facts = {
        "tokens": len(frequent),
        "rare_tokens": len(frequency) - len(frequent),
        "tokens_of_few_premises": few,
        "pairs": {label: pairs[label] for label in classes},
    }
    return TokenTable(rows, facts)


def _rank(row: TokenRow) -> tuple[float, int, str]:
    return -row.pmi, -row.count, row.token


def _tokens_shown(name: str, table: TokenTable, left_out: str = "") -> Report:
    rows, about = table
    stop_words = "kept" if about["stop_words"] else "and punctuation left out"
    words = [
        f"{sum(about['pairs'].values()):,} training hypotheses, {about['tokens']:,} tokens that "
        f"occur {about['min_count']} times or more; {_merging(about['merged_by'])}; stop words "
        f"{stop_words}; PMI in bits, {about['smoothing']:g} added to each count; pairs and %: of "
        "the class, with the token; p: share of the class's tokens, in %; smoothed: the same of "
        "the smoothed counts; premises: distinct ones of the pairs of all classes with the token, "
        "so that they may be more than the pairs"
    ]
    if left_out:
        words.append(left_out)
    paper = corpus_fields("artifacts", name, "tables", "3")
    columns = ["PMI", "%", "p", "smoothed", "pairs", "premises"]
    if paper:
        columns += ["paper", "paper, %"]
    grids = []
    for label, of_class in rows.items():
        cells = list(map(_token_cells, of_class))
        if paper:
            published_cells = [(token, f"{share:.2f}") for token, share in paper[label]]
            beside = zip_longest(cells, published_cells)
            cells = [(*(ours or ("",) * 7), *(theirs or ("", ""))) for ours, theirs in beside]
        grids.append(Grid("", (label, *columns), cells))
    first = [f"{of_class[0].token} ({label})" for label, of_class in rows.items() if of_class]
    lead = f"Tokens that tell most of a class: {', '.join(first)}" if first else ""
    section = Section(f"Tokens by class, {name} ({PAPER}, Table 3)", words, grids, lead=lead)
    notes = [] if any(rows.values()) else ["no token is left to show"]
    top = {label: list(map(asdict, of_class)) for label, of_class in rows.items()}
    return Report({**about, "top": top}, [section], notes=notes)


def _token_cells(row: TokenRow) -> tuple[str, ...]:
    shares = (f"{100 * share:.2f}" for share in (row.share, row.p, row.p_smoothed))
    return row.token, f"{row.pmi:.2f}", *shares, str(row.examples), str(row.premises)


# -- lengths ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassLengths:
    """The lengths of one class. lengths: number of tokens -> pairs."""

    pairs: int
    mean: float
    median: float
    lengths: Mapping[str, int]


Lengths = Mapping[str, ClassLengths]  # class -> its lengths


def hypothesis_lengths(pairs: AnalysedPairs, options: AnalysisOptions) -> Report:
    """Reports the lengths of hypotheses by class, with and without the tokens of entities
    merged."""
    split = options.lengths
    examples = pairs.examples if split == "all" else pairs.splits["train"].examples
    labels = [example.label for example in examples]
    separate = lengths(pairs.hypotheses(merged=False)[: len(examples)], labels)
    merged = lengths(pairs.hypotheses(merged=True)[: len(examples)], labels)
    ticks = [*map(str, range(1, LONGEST_SHOWN)), f"{LONGEST_SHOWN}+"]
    title = f"{pairs.name}: length of hypotheses"
    series = {label: _percentages(of_class) for label, of_class in separate.items()}
    chart = charts.bars(series, ticks, title=title, x="tokens", y="% of the class")
    assert chart  # there are pairs
    figures = {
        "split": split,
        "knowledge": pairs.knowledge,
        "merged_by": pairs.merged_by,
        "separate": _as_json(separate),
        "merged": _as_json(merged),
    }
    sentences = "hypotheses of all splits" if split == "all" else "training hypotheses"
    means = [f"{label} {of_class.mean:.1f}" for label, of_class in separate.items()]
    section = Section(
        f"Length of hypotheses, {pairs.name} ({PAPER}, Table 4)",
        [f"tokens of the {sentences}; merged: {_merging(pairs.merged_by)}"],
        [_length_grid(pairs.name, {"separate": separate, "merged": merged})],
        [("Lengths, every token on its own", chart)],
        lead=f"Tokens of a hypothesis, on average: {', '.join(means)}",
    )
    return Report(figures, [section], {"lengths.png": chart.file("png")})


def _percentages(of_class: ClassLengths) -> list[float]:
    """The share of each length, the last of LONGEST_SHOWN or more, in per cent."""
    shares = [0.0] * LONGEST_SHOWN
    for length, count in of_class.lengths.items():
        place = min(max(int(length), 1), LONGEST_SHOWN) - 1
        shares[place] += 100 * count / of_class.pairs
    return shares


def lengths(sentences: Sequence[Sequence[str]], labels: Sequence[str]) -> Lengths:
    """The lengths of sentences by class."""
    length_N, label_N = np.array(list(map(len, sentences))), np.array(labels)
    classes = {}
    for label in classes_of(labels):
        length = length_N[label_N == label]
        numbers = {str(n): count for n, count in sorted(Counter(length.tolist()).items())}
        mean, median = float(length.mean()), float(np.median(length))
        classes[label] = ClassLengths(len(length), mean, median, numbers)
    return classes


def _as_json(lengths_of: Lengths) -> dict[str, Json]:
    return {"classes": {label: asdict(of_class) for label, of_class in lengths_of.items()}}


def _length_grid(corpus: str, kinds: Mapping[str, Lengths]) -> Grid:
    """Table 4. kinds: separate and merged tokens."""
    rows: list[tuple[str, ...]] = []
    header = [""]
    for label in kinds["separate"]:
        header += [f"{label}, mean", f"{label}, median"]
    for kind, of_kind in kinds.items():
        cells = [kind]
        for of_class in of_kind.values():
            cells += [f"{of_class.mean:.2f}", f"{of_class.median:.1f}"]
        rows.append(tuple(cells))
        if paper := corpus_fields("artifacts", corpus, "tables", "4", kind):
            values = chain.from_iterable(paper[label] for label in of_kind)
            rows.append(("  in the paper", *map("{:.1f}".format, values)))
    return Grid("", tuple(header), rows)
