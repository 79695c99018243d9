"""Artefacts of annotation in a corpus's words and concepts, as figures, sections and pictures.

Tables 3, 4 and 5 of Herlihy & Rudinger 2021 (MedNLI Is Not Immune). Words and pairs of a corpus that is not open are in
Finding.private alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from mednli_jax.errors import ConfigError
from mednli_jax.nli import heuristics, lexical
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.subject import Finding, Subject
from mednli_jax.report import charts
from mednli_jax.report.sections import Grid, Section, p_value, points
from mednli_jax.report.tables import of_corpus, published

PAPER = published("artifacts")["source"]
LONGEST_SHOWN = 15  # tokens; longer hypotheses share the last bar
SKEWED = 1.2  # a class with more than this times its even share makes the chi-square test doubtful


def _merging(merged_by) -> str:
    return f"entities of {merged_by} merged" if merged_by else "nothing merged, the config takes no knowledge"


# -- tokens (Table 3) --------------------------------------------------------------------------------------------------


def tokens(subject: Subject, *, k: int, smoothing: float, min_count: int, stop_words: bool) -> Finding:
    """PMI of tokens and classes over the training hypotheses, entities merged. stop_words: whether they are kept."""
    train = subject.splits["train"].examples
    sentences, labels = subject.hypotheses(merged=True)[: len(train)], [example.label for example in train]
    if not stop_words:
        sentences = list(map(lexical.content, sentences))
    # Premises are distinguished by their words, because two groups with one premise describe one patient.
    premises = [example.premise for example in train]
    found = lexical.pmi(sentences, labels, premises, smoothing=smoothing, min_count=min_count)
    few = int((found.premises < lexical.PUBLIC_PREMISES).sum())
    about = {
        "split": "train",
        "knowledge": subject.knowledge,
        "merged_by": subject.merged_by,
        "stop_words": stop_words,
        "smoothing": smoothing,
        "min_count": min_count,
        "tokens": len(found.tokens),
        "rare_tokens": found.rare,
        "tokens_of_few_premises": few,
        "pairs": dict(zip(found.classes, found.pairs.tolist(), strict=True)),
    }
    whole = _token_finding(subject.name, about, lexical.top(found, k))
    if subject.is_open and not subject.public:
        return whole
    if subject.public:
        left_out = f"{few:,} tokens that occur with fewer than {lexical.PUBLIC_PREMISES} premises are left out"
        rows = lexical.top(found, k, min_premises=lexical.PUBLIC_PREMISES)
        shown = _token_finding(subject.name, about, rows, left_out)
    else:
        left_out = (
            "the tokens are words of a corpus that is not open: they are left out here, and written to private/ where "
            f"--out is given; --public shows those that {lexical.PUBLIC_PREMISES} premises or more have"
        )
        section = _token_section(subject.name, about, whole.figures["top"], left_out)
        shown = Finding(about, [replace(section, grids=[])])
    return shown if subject.is_open else replace(shown, private=whole)


def _token_finding(name, about, rows, left_out="") -> Finding:
    section = _token_section(name, about, rows, left_out)
    if not any(rows.values()):
        return Finding({**about, "top": rows}, [section], notes=["no token is left to show"])
    drawn = charts.ranked(
        {label: [(row["token"], row["pmi"]) for row in of_class] for label, of_class in rows.items()},
        title=f"{name}: tokens of each class",
        x="PMI, bits",
    )
    return Finding({**about, "top": rows}, [section], {"lexical.png": drawn})


def _token_section(name, about, rows, left_out) -> Section:
    """The table and the chart of tokens. The chart names no token; it has a bar for each rank."""
    words = [
        f"{sum(about['pairs'].values()):,} training hypotheses, {about['tokens']:,} tokens that occur "
        f"{about['min_count']} times or more; {_merging(about['merged_by'])}; stop words "
        f"{'kept' if about['stop_words'] else 'and punctuation left out'}; PMI in bits, "
        f"{about['smoothing']:g} added to each count; %: pairs of the class that have the token; p: the token's share "
        "of the class's tokens, in %; smoothed: the same of the smoothed counts",
        *filter(None, [left_out]),
    ]
    grids = []
    for label, of_class in rows.items():
        cells = [
            (
                row["token"],
                f"{row['pmi']:.2f}",
                *(f"{100 * row[share]:.2f}" for share in ("share", "p", "p_smoothed")),
                str(row["examples"]),
                str(row["premises"]),
            )
            for row in of_class
        ]
        grids.append(Grid("", (label, "PMI", "%", "p", "smoothed", "pairs", "premises"), cells))
    ranks = max(map(len, rows.values()))
    # The chart has as many bars as the class with the fewest tokens.
    series = {label: [row["pmi"] for row in of_class] for label, of_class in rows.items() if len(of_class) == ranks}
    ticks = [str(rank + 1) for rank in range(ranks)]
    chart = charts.bars(series, ticks, title=f"PMI, {name}", x="rank in the table", y="PMI (bits)")
    drawn = [(f"PMI of the first {ranks} tokens of each class", chart)]
    return Section(f"Tokens by class, {name} ({PAPER}, Table 3)", words, grids, drawn)


# -- lengths (Table 4) -------------------------------------------------------------------------------------------------


def lengths(subject: Subject, over: str) -> Finding:
    """Lengths of hypotheses by class, with and without the tokens of entities merged. over: "all" splits, as in the
    published code, or "train" alone."""
    examples = subject.examples if over == "all" else subject.splits["train"].examples
    labels, found = [example.label for example in examples], {}
    for name, is_merged in (("separate", False), ("merged", True)):
        found[name] = lexical.lengths(subject.hypotheses(merged=is_merged)[: len(examples)], labels)
    ticks, series = _histogram(found["separate"])
    title = f"{subject.name}: length of hypotheses"
    chart = charts.bars(series, ticks, title=title, x="tokens", y="% of the class")
    given = {"split": over, "knowledge": subject.knowledge, "merged_by": subject.merged_by, **found}
    return Finding(given, [_length_section(subject, over, found, chart)], {"lengths.png": chart.png()})


def _length_section(subject, over, found, chart) -> Section:
    of = "hypotheses of all splits" if over == "all" else "training hypotheses"
    words = [f"tokens of the {of}; merged: {_merging(subject.merged_by)}"]
    classes = list(found["separate"]["classes"])
    header = ("", *(f"{label}, {what}" for label in classes for what in ("mean", "median")))
    rows, tests = [], []
    for kind, of in found.items():
        figures = [of["classes"][label] for label in classes]
        rows.append((kind, *(cell for f in figures for cell in (f"{f['mean']:.2f}", f"{f['median']:.1f}"))))
        if paper := of_corpus("artifacts", subject.name, "tables", "4", kind):
            rows.append(("  in the paper", *(f"{value:.1f}" for label in classes for value in paper[label])))
        p = p_value(of["kruskal_wallis"]["p_value"])
        tests.append((kind, "all classes (Kruskal-Wallis)", p, "", ""))
        for pair in of["comparisons"]:
            names = f"{pair['first']}, {pair['second']}"
            tests.append((kind, names, p_value(pair["p_value"]), p_value(pair["p_holm"]), points(pair["longer"])))
    question = "do they differ? (Mann-Whitney; of many pairs, the smallest difference is significant)"
    tested = Grid(question, ("tokens", "classes", "p", "Holm p", "first is longer, %"), tests, left=2)
    title = f"Length of hypotheses, {subject.name} ({PAPER}, Table 4)"
    return Section(title, words, [Grid("", header, rows), tested], [("Lengths, every token on its own", chart)])


def _histogram(found) -> tuple[list[str], dict[str, list[float]]]:
    """(ticks, {class: per cent of it}) of lengths 1 to LONGEST_SHOWN, the last with all that are longer."""
    series = {}
    for label, figures in found["classes"].items():
        shares = [0.0] * LONGEST_SHOWN
        for length, count in figures["lengths"].items():
            shares[min(max(int(length), 1), LONGEST_SHOWN) - 1] += 100 * count / figures["pairs"]
        series[label] = shares
    return [*map(str, range(1, LONGEST_SHOWN)), f"{LONGEST_SHOWN}+"], series


# -- heuristics (Table 5) ----------------------------------------------------------------------------------------------


def heuristic(subject: Subject) -> Finding:
    """The annotators' heuristics over all splits together."""
    subject.needs_knowledge("heuristics")
    ontology, labels = subject.corpus.ontology, [example.label for example in subject.examples]
    _check_choices(subject.corpus)
    sides = subject.mentions("premise"), subject.mentions("hypothesis")
    rows = heuristics.satisfied(subject.examples, *sides, ontology)
    given = {"splits": list(subject.splits), "pairs": len(labels), "knowledge": subject.knowledge}
    given["heuristics"] = heuristics.spread(rows, labels)
    notes = _heuristic_notes(subject, labels)
    uids = {name: [subject.examples[row].uid for row in chosen] for name, chosen in rows.items()}
    classes = list(next(iter(given["heuristics"].values()))["labels"])
    shares = {label: _shares(given["heuristics"], label) for label in classes}
    ticks = [name.split()[-1] for name in rows]  # hypernym, cause, fine: a chart has no room for more
    title = f"{subject.name}: pairs that satisfy a heuristic"
    chart = charts.bars(shares, ticks, title=title, x="heuristic", y="% of its pairs")
    section = _heuristic_section(subject, given, classes, chart)
    whole = Finding({**given, "uids": uids}, [section], {"heuristics.png": chart.png()}, notes)
    if subject.is_open:
        return whole
    return Finding(given, [section], whole.drawn, notes, private=Finding(whole.figures))


def _check_choices(corpus: NLICorpus) -> None:
    """Raises ConfigError for settings under which the heuristics are meaningless."""
    if corpus.terminology.permute_seed is not None and heuristics.keeps_tree_numbers(corpus.ontology):
        problem = "config.knowledge.permute_seed moves names and tree numbers alike: it changes no heuristic"
        raise ConfigError(f"{problem}. Fix: leave it out.")
    if corpus.encoding.hypothesis_only:
        problem = "config.data.hypothesis_only leaves no premises, which the heuristics compare hypotheses with"
        raise ConfigError(f"{problem}. Fix: leave it out.")


def _heuristic_notes(subject: Subject, labels: Sequence[str]) -> list[str]:
    notes, linking = [], subject.corpus.linking
    if not heuristics.keeps_tree_numbers(subject.corpus.ontology):
        notes.append(
            f"{heuristics.CAUSE} is defined by MeSH descriptors, which {subject.knowledge} does not have: "
            "it is left out. Fix: --config.knowledge.ontology=mesh"
        )
    elif linking.mentions is None:
        types = linking.types or subject.corpus.ontology.link_types
        if missing := [kind for kind in heuristics.CAUSE_TYPES if not kind.startswith(tuple(types))]:
            notes.append(
                f"{heuristics.CAUSE}: kinds {', '.join(missing)} (smokers, alcoholics, the homeless) are not linked by "
                "this config; --corpus=NAME links them, as --config.knowledge.types does"
            )
    if max(map(labels.count, set(labels))) > SKEWED * len(labels) / len(set(labels)):
        notes.append("the classes of this corpus are not even, as the chi-square test expects: see its p with care")
    return notes


def _heuristic_section(subject: Subject, given: dict, classes: Sequence[str], chart: charts.Chart) -> Section:
    found, rows = given["heuristics"], []
    words = [
        f"{given['pairs']:,} pairs of {', '.join(given['splits'])}; concepts of {given['knowledge']}; chi-square "
        "against equal numbers in every class",
        *(f"{name}: expected to serve {heuristics.SERVES[name]}" for name in found),
    ]
    for name, figures in found.items():
        counts = [f"{count:,}" for count in figures["labels"].values()]
        rows.append((name, f"{figures['pairs']:,}", *counts, *(_tested(figures) if figures["top"] else ("-",) * 4)))
        if paper := of_corpus("artifacts", subject.name, "tables", "5", name):
            rows.append(("  in the paper", *[""] * (1 + len(classes)), *_tested(paper)))
    grid = Grid("", ("heuristic", "pairs", *classes, "chi-square", "p", "top class", "%"), rows)
    title = f"Heuristics of annotators, {subject.name} ({PAPER}, Table 5)"
    return Section(title, words, [grid], [("Classes of the pairs that satisfy each heuristic", chart)])


def _tested(found):
    return f"{found['chi_square']:,.2f}", p_value(found["p_value"]), found["top"], points(found["share"])


def _shares(found, label):
    return [100 * f["labels"][label] / f["pairs"] if f["pairs"] else 0.0 for f in found.values()]
