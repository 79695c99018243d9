"""Artefacts of annotation in the words and lengths of hypotheses.

Tables 3 and 4 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune), for any corpus: PMI of tokens and
classes (section
4.1, A.2) and lengths by class (4.3).

A sentence that occurs several times counts each time. Words of a corpus that is not open are in
private files alone.
"""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations, zip_longest

import numpy as np
from scipy import stats

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import DataError, UsageError
from mednli_jax.nli.analyses import Pairs
from mednli_jax.report import charts
from mednli_jax.report.metrics import holm
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Grid, Report, Section, in_full, p_value, points
from mednli_jax.report.tables import of_corpus, published

PAPER = published("artifacts")["source"]
# A token that occurs with fewer premises may identify a patient: such tokens can be left out.
PUBLIC_PREMISES = 10
LONGEST_SHOWN = 15  # tokens; longer hypotheses share the last bar
_WORD = re.compile(r"\w\w")


def classes_of(labels: Sequence[str]) -> tuple[str, ...]:
    """The classes that occur, in the order of LABELS. Raises DataError if there is nothing to
    compare."""
    classes = tuple(label for label in LABELS if label in set(labels))
    if len(classes) < 2:
        fix = "give a corpus whose labels differ, or more of it (config.data.limit)"
        raise DataError(
            "the pairs are of fewer than two classes, so that nothing can be compared", fix=fix
        )
    return classes


def _merging(merged_by) -> str:
    return (
        f"entities of {merged_by} merged"
        if merged_by
        else "nothing merged, the config takes no knowledge"
    )


def tokens(pairs: Pairs, options: AnalysisOptions) -> Report:
    """PMI of tokens and classes over the training hypotheses, entities merged."""
    settings = {"smoothing": options.smoothing, "min_count": options.min_count}
    train = pairs.splits["train"].examples
    sentences = pairs.hypotheses(merged=True)[: len(train)]
    if not options.stop_words:
        sentences = list(map(content, sentences))
    # Premises are distinguished by their words, because two groups with one premise describe one
    # patient.
    premises, labels = [example.premise for example in train], [example.label for example in train]
    rows, facts = token_rows(sentences, labels, premises, **settings)
    about = {"split": "train", "knowledge": pairs.knowledge, "merged_by": pairs.merged_by}
    about |= {"stop_words": options.stop_words, **settings, **facts}
    best = {label: of_class[: options.top] for label, of_class in rows.items()}
    whole = _tokens_shown(pairs.name, about, best)
    if pairs.is_open and not options.public:
        return whole
    private = {} if pairs.is_open else in_full("lexical", whole)
    if not options.public:
        left_out = "words of a corpus that is not open are written to private/ of --out alone; see --public"
        shown = _tokens_shown(pairs.name, about, best, left_out)
        return Report(
            about, [replace(section, grids=[]) for section in shown.sections], private=private
        )
    few = facts["tokens_of_few_premises"]
    left_out = f"{few:,} tokens that occur with fewer than {PUBLIC_PREMISES} premises are left out"
    frequent = {
        label: [row for row in found if row["premises"] >= PUBLIC_PREMISES]
        for label, found in rows.items()
    }
    best = {label: found[: options.top] for label, found in frequent.items()}
    return replace(_tokens_shown(pairs.name, about, best, left_out), private=private)


def content(tokens: Sequence[str]) -> tuple[str, ...]:
    """The tokens, in lower case, without English stop words and without those that have no two word
    characters in a row (punctuation, single letters). The published code drops both, by
    scikit-learn's list and pattern."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return tuple(
        token for token in tokens if token not in ENGLISH_STOP_WORDS and _WORD.search(token)
    )


def token_rows(
    sentences: Sequence[Sequence[str]],
    labels: Sequence[str],
    premises: Sequence[Hashable],
    *,
    smoothing: float = 50,
    min_count: int = 5,
) -> tuple[dict[str, list[dict]], dict]:
    """({class: rows of the tokens that occur in it}, facts as JSON values).

    PMI(t, c) = log2 p(t, c) / (p(t) p(c)) of tokens that occur at least `min_count` times.
    `smoothing` is added to the occurrences of every such token in every class. Joint and marginal
    probabilities come from that table (Gururangan et al. 2018, section 3). Rarer tokens are not in
    it, because their many smoothed rows would level p(c).

    A row has token, pmi (bits), count (occurrences in the class), examples and share (pairs of the
    class that have it, and of all its pairs, 0-1: the % that Table 3's caption names), p (its share
    of the tokens of the class, 0-1), p_smoothed (the same of the smoothed counts: the % that the
    published code prints), premises (distinct ones). The highest PMI comes first; tokens of equal
    PMI are ordered by frequency, then by the alphabet.
    """
    column = {label: number for number, label in enumerate(classes_of(labels))}
    frequency = Counter(token for sentence in sentences for token in sentence)
    known = sorted(token for token, count in frequency.items() if count >= min_count)
    if not known:
        problem = f"no token of the hypotheses occurs {min_count} times"
        raise UsageError(problem, fix="give a lower --min_count, or more pairs")
    place = {token: number for number, token in enumerate(known)}
    counts, examples = np.zeros((2, len(known), len(column)), np.int64)
    seen = [set() for _ in known]
    for sentence, label, premise in zip(sentences, labels, premises, strict=True):
        for token, count in Counter(sentence).items():
            if (number := place.get(token)) is not None:
                counts[number, column[label]] += count
                examples[number, column[label]] += 1
                seen[number].add(premise)
    of_class, smoothed = Counter(labels), counts + smoothing
    joint = smoothed / smoothed.sum()
    with np.errstate(divide="ignore"):
        pmi = np.log2(joint) - np.log2(joint.sum(axis=1, keepdims=True) * joint.sum(axis=0))
    p, p_smoothed = (table / np.maximum(table.sum(axis=0), 1) for table in (counts, smoothed))
    rows = {}
    for label, c in column.items():
        of_label = [
            {
                "token": token,
                "pmi": float(pmi[t, c]),
                "count": int(counts[t, c]),
                "examples": int(examples[t, c]),
                "share": float(examples[t, c] / of_class[label]),
                "p": float(p[t, c]),
                "p_smoothed": float(p_smoothed[t, c]),
                "premises": len(seen[t]),
            }
            for token, t in place.items()
            if counts[t, c]
        ]
        rows[label] = sorted(of_label, key=lambda row: (-row["pmi"], -row["count"], row["token"]))
    facts = {
        "tokens": len(known),
        "rare_tokens": len(frequency) - len(known),
        "tokens_of_few_premises": sum(len(premises) < PUBLIC_PREMISES for premises in seen),
        "pairs": {label: of_class[label] for label in column},
    }
    return rows, facts


def _tokens_shown(name, about, rows, left_out="") -> Report:
    """The table."""
    words = [
        f"{sum(about['pairs'].values()):,} training hypotheses, {about['tokens']:,} tokens that occur "
        f"{about['min_count']} times or more; {_merging(about['merged_by'])}; stop words "
        f"{'kept' if about['stop_words'] else 'and punctuation left out'}; PMI in bits, "
        f"{about['smoothing']:g} added to each count; %: pairs of the class that have the token; p: share of the "
        "class's tokens, in %; smoothed: the same of the smoothed counts",
        *filter(None, [left_out]),
    ]
    grids, theirs = [], of_corpus("artifacts", name, "tables", "3")
    columns = (
        "PMI",
        "%",
        "p",
        "smoothed",
        "pairs",
        "premises",
        *(("paper", "paper, %") if theirs else ()),
    )
    for label, of_class in rows.items():
        cells = []
        for row in of_class:
            shares = (f"{100 * row[share]:.2f}" for share in ("share", "p", "p_smoothed"))
            cells.append(
                (
                    row["token"],
                    f"{row['pmi']:.2f}",
                    *shares,
                    str(row["examples"]),
                    str(row["premises"]),
                )
            )
        if theirs:
            printed = ((token, f"{share:.2f}") for token, share in theirs[label])
            both = zip_longest(cells, printed)
            cells = [(*(ours or ("",) * 7), *(paper or ("", ""))) for ours, paper in both]
        grids.append(Grid("", (label, *columns), cells))
    section = Section(f"Tokens by class, {name} ({PAPER}, Table 3)", words, grids)
    notes = [] if any(rows.values()) else ["no token is left to show"]
    return Report({**about, "top": rows}, [section], notes=notes)


def hypothesis_lengths(pairs: Pairs, options: AnalysisOptions) -> Report:
    """Lengths of hypotheses by class, with and without the tokens of entities merged."""
    over = options.lengths
    examples = pairs.examples if over == "all" else pairs.splits["train"].examples
    labels, found = [example.label for example in examples], {}
    for name, is_merged in (("separate", False), ("merged", True)):
        found[name] = lengths(pairs.hypotheses(merged=is_merged)[: len(examples)], labels)
    series = {}  # per cent of a class
    for label, figures in found["separate"]["classes"].items():
        series[label] = [0.0] * LONGEST_SHOWN
        for length, count in figures["lengths"].items():
            series[label][min(max(int(length), 1), LONGEST_SHOWN) - 1] += (
                100 * count / figures["pairs"]
            )
    ticks = [*map(str, range(1, LONGEST_SHOWN)), f"{LONGEST_SHOWN}+"]
    chart = charts.bars(
        series, ticks, title=f"{pairs.name}: length of hypotheses", x="tokens", y="% of the class"
    )
    given = {"split": over, "knowledge": pairs.knowledge, "merged_by": pairs.merged_by, **found}
    return Report(given, [_length_section(pairs, over, found, chart)], {"lengths.png": chart.png()})


def lengths(sentences: Sequence[Sequence[str]], labels: Sequence[str]) -> dict:
    """Lengths in tokens by class (Table 4), and whether they differ, as JSON values.

    Returns
      classes {class: {pairs, mean, median, lengths {tokens: pairs}}};
      kruskal_wallis {statistic, p_value} over all classes (Kruskal & Wallis 1952);
      comparisons [{first, second, u, p_value, p_holm, longer}]: Mann-Whitney's U of the first (two-sided, normal
        approximation with ties), corrected over the comparisons (Holm 1979); longer: the probability that a sentence
        of the first class is the longer one, ties counting half.
    """
    of_class = {
        label: np.array(
            [len(s) for s, given in zip(sentences, labels, strict=True) if given == label]
        )
        for label in classes_of(labels)
    }
    whole = (0.0, 1.0) if _all_equal(*of_class.values()) else stats.kruskal(*of_class.values())
    comparisons = []
    for first, second in combinations(of_class, 2):
        a, b = of_class[first], of_class[second]
        if _all_equal(a, b):  # SciPy's p-value is 1 before 1.18 and nan since
            u, p = len(a) * len(b) / 2, 1.0
        else:
            u, p = stats.mannwhitneyu(a, b, method="asymptotic")
        longer = float(u) / (len(a) * len(b))
        comparisons.append(
            {"first": first, "second": second, "u": float(u), "p_value": float(p), "longer": longer}
        )
    for comparison, p in zip(comparisons, holm([c["p_value"] for c in comparisons]), strict=True):
        comparison["p_holm"] = p
    classes = {}
    for label, found in of_class.items():
        figures = {
            "pairs": len(found),
            "mean": float(found.mean()),
            "median": float(np.median(found)),
        }
        classes[label] = {
            **figures,
            "lengths": {str(n): count for n, count in sorted(Counter(found.tolist()).items())},
        }
    whole = {"statistic": float(whole[0]), "p_value": float(whole[1])}
    return {"classes": classes, "kruskal_wallis": whole, "comparisons": comparisons}


def _all_equal(*samples: np.ndarray) -> bool:
    return len(np.unique(np.concatenate(samples))) == 1


def _length_section(pairs, over, found, chart) -> Section:
    of = "hypotheses of all splits" if over == "all" else "training hypotheses"
    words = [f"tokens of the {of}; merged: {_merging(pairs.merged_by)}"]
    classes = list(found["separate"]["classes"])
    header = ("", *(f"{label}, {what}" for label in classes for what in ("mean", "median")))
    rows, tests = [], []
    for kind, of in found.items():
        figures = [of["classes"][label] for label in classes]
        rows.append(
            (kind, *(cell for f in figures for cell in (f"{f['mean']:.2f}", f"{f['median']:.1f}")))
        )
        if paper := of_corpus("artifacts", pairs.name, "tables", "4", kind):
            rows.append(
                ("  in the paper", *(f"{value:.1f}" for label in classes for value in paper[label]))
            )
        p = p_value(of["kruskal_wallis"]["p_value"])
        tests.append((kind, "all classes (Kruskal-Wallis)", p, "", ""))
        for pair in of["comparisons"]:
            names = f"{pair['first']}, {pair['second']}"
            tests.append(
                (
                    kind,
                    names,
                    p_value(pair["p_value"]),
                    p_value(pair["p_holm"]),
                    points(pair["longer"]),
                )
            )
    question = (
        "do they differ? (Mann-Whitney; of many pairs, the smallest difference is significant)"
    )
    tested = Grid(
        question, ("tokens", "classes", "p", "Holm p", "first is longer, %"), tests, left=2
    )
    title = f"Length of hypotheses, {pairs.name} ({PAPER}, Table 4)"
    return Section(
        title, words, [Grid("", header, rows), tested], [("Lengths, every token on its own", chart)]
    )
