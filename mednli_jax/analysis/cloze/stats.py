"""What a cloze corpus looks like: Tables 2 and 3 and Figures 2 and 3 of Šuster & Daelemans 2018, as data and pictures.

The results hold counts, shares and names of specialties, never a word of the corpus.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mednli_jax.analysis import charts
from mednli_jax.analysis.sections import Grid, Section, columns_of, count, mean, points
from mednli_jax.analysis.tables import published
from mednli_jax.corpora.cloze.views import candidates, how_answerable, phrase_of
from mednli_jax.examples import ClozeExample, Split
from mednli_jax.progress import Bar

KINDS = ("problem", "treatment", "test")
LONGEST_SHOWN = 25  # tokens of an answer; longer ones share the last place (Figure 2b ends there)
BINS = 60  # of the passages' lengths
SPECIALTIES_SHOWN = 15  # as in Figure 3
PAPER = published("clicr")["statistics"]  # Tables 2 and 3, and section 4


# ---- Sizes, lengths, kinds (Tables 2 and 3, Figures 2 and 3) -------------------------------------------------------


@dataclass
class _Tally:
    """Counts of one split, or of several. lengths: passage's uid -> its tokens; specialty: passage's uid -> name."""

    lengths: dict[str, int] = field(default_factory=dict)
    specialty: dict[str, str] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    phrases: set[str] = field(default_factory=set)
    answers: set[str] = field(default_factory=set)
    extended: set[str] = field(default_factory=set)
    counts: Counter = field(default_factory=Counter)  # queries, candidates, synonyms; "exact" and "synonym" answerable
    kinds: Counter = field(default_factory=Counter)
    answer_lengths: Counter = field(default_factory=Counter)
    fewest: int | None = None  # candidates of a query

    def add(self, example: ClozeExample, found: Mapping[str, int]) -> None:
        """Counts a query, and its passage where that is a new one. found: the passage's candidates."""
        passage = example.passage
        if passage.uid not in self.lengths:
            self.lengths[passage.uid] = len(passage.tokens)
            self.words.update(map(str.lower, passage.tokens))
            self.phrases.update(found)
            if passage.specialty:
                self.specialty[passage.uid] = passage.specialty
        first, *_ = texts = [phrase_of(answer.text) for answer in example.answers]
        self.answers.add(first)
        self.extended.update(texts)
        self.counts.update(("queries", how_answerable(example, found)))
        self.counts["candidates"] += len(found)
        self.counts["synonyms"] += len(set(texts)) - 1
        kind = example.answers[0].semantic_type
        self.kinds[kind if kind in KINDS else "other"] += 1
        self.answer_lengths[min(len(first.split()), LONGEST_SHOWN)] += 1
        self.fewest = len(found) if self.fewest is None else min(self.fewest, len(found))

    def figures(self) -> dict:
        """The figures of `statistics`."""
        queries, tokens, counts = max(self.counts["queries"], 1), sum(self.lengths.values()), self.counts
        return {
            "cases": len(self.lengths),
            "queries": counts["queries"],
            "tokens": tokens,
            "mean_tokens": tokens / max(len(self.lengths), 1),
            "longest": max(self.lengths.values(), default=0),
            "word_types": len(self.words),
            "entity_types": len(self.phrases),
            "answers": len(self.answers),
            "answers_extended": len(self.extended),
            "synonyms": counts["synonyms"] / queries,
            "candidates": counts["candidates"] / queries,
            "fewest_candidates": self.fewest or 0,
            "verbatim": counts["exact"] / queries,
            "verbatim_or_synonym": (counts["exact"] + counts["synonym"]) / queries,
            "semantic_types": {kind: self.kinds[kind] / queries for kind in (*KINDS, "other")},
        }


def statistics(splits: Mapping[str, Split]) -> dict:
    """Everything that Tables 2 and 3 and Figures 2 and 3 show, lower-cased as in the paper, as JSON values.

    Returns {"splits": {name: figures}, "all": figures, "passage_lengths", "answer_lengths", "specialties"}; figures are
      cases: passages; tokens, mean_tokens, longest: their words, those of a passage counted once;
      word_types: distinct words of passages; entity_types: distinct marked phrases of passages;
      answers, answers_extended: distinct answers of the dataset, and with their synonyms; synonyms: mean per query;
      candidates, fewest_candidates: distinct marked phrases that a query chooses from, mean and least;
      verbatim: share of queries whose answer is a marked phrase of the passage; verbatim_or_synonym: any answer is;
      semantic_types: shares of the dataset's answers.
    passage_lengths: {"edges": [B + 1], "density": [B]} in tokens; answer_lengths: {tokens: share of queries}, 25 is 25
    and more; specialties: {name: share of all cases}, largest first, empty where the corpus names none.
    """
    tallies, whole = {name: _Tally() for name in splits}, _Tally()
    with Bar("counting", sum(map(len, splits.values())), unit="queries") as bar:
        for name, split in splits.items():
            last, found = None, {}
            for example in split.examples:
                if example.passage is not last:
                    last = example.passage
                    found = {phrase: number for number, phrase in enumerate(candidates(example))}
                for tally in (tallies[name], whole):
                    tally.add(example, found)
                bar.advance(1)
    queries, specialties = max(whole.counts["queries"], 1), Counter(whole.specialty.values())
    return {
        "splits": {name: tally.figures() for name, tally in tallies.items()},
        "all": whole.figures(),
        "passage_lengths": _density(list(whole.lengths.values())),
        "answer_lengths": {str(n): whole.answer_lengths[n] / queries for n in sorted(whole.answer_lengths)},
        "specialties": {name: count / len(whole.lengths) for name, count in specialties.most_common()},
    }


def _density(lengths: list[int]) -> dict:
    """A histogram of bins that are multiples of ten tokens wide; its area is 1."""
    width = 10 * max(1, -(-max(lengths, default=0) // (10 * BINS)))
    edges = np.arange(0, max(lengths, default=0) + width + 1, width)
    density, _ = np.histogram(lengths, edges, density=True) if lengths else (np.zeros(len(edges) - 1), edges)
    return {"edges": edges.tolist(), "density": density.tolist()}


# ---- For the reader ------------------------------------------------------------------------------------------------


def section(name: str, found: dict) -> Section:
    """Tables 2 and 3, of what `statistics` found; the paper's figures of CliCR in the last column."""
    kinds = [kind for kind in (*KINDS, "other") if found["all"]["semantic_types"][kind] or kind in KINDS]
    rows = [
        ("cases", count, "cases"),
        ("queries", count, "queries"),
        ("tokens in passages", count, "tokens"),
        ("  mean of a passage", mean, "mean_tokens"),
        ("  longest passage", count, "longest"),
        ("word types in passages", count, "word_types"),
        ("entity types in passages", count, "entity_types"),
        ("distinct answers", count, "answers"),
        ("  incl. extended", count, "answers_extended"),
        ("  synonyms of an answer, mean", mean, "synonyms"),
        ("candidates, mean", mean, "candidates"),
        ("  least", count, "fewest_candidates"),
        ("% answers verbatim in passage", points, "verbatim"),
        ("  or a synonym", points, "verbatim_or_synonym"),
        *((f"% {kind}", points, "semantic_types", kind) for kind in kinds),
    ]
    columns = {**found["splits"], "all": found["all"], "CliCR, paper": PAPER["all"]}
    sizes = ", ".join(f"{split} {figures['queries']:,}" for split, figures in PAPER["splits"].items())
    shown = ", ".join(f"{branch} {points(share)}" for branch, share in _largest(found))
    specialties = f"% specialties: {shown}" if shown else "specialties: the corpus names none"
    grid = Grid("", ("", *columns), columns_of(columns, rows, {}))
    return Section(f"Sizes, {name}", [f"CliCR's queries: {sizes}", specialties], [grid])


def _largest(found) -> list[tuple[str, float]]:
    return list(found["specialties"].items())[:SPECIALTIES_SHOWN]


def drawn(name: str, found: dict) -> dict[str, bytes]:
    """The pictures {file name: PNG}: Figures 2a and 2b, and Figure 3 where the corpus names specialties."""
    lengths, answers = found["passage_lengths"], found["answer_lengths"]
    bars = charts.bars(
        {"answers": list(answers.values())}, list(answers), title=f"{name}, answers", x="tokens of an answer",
        y="share of queries",
    )  # fmt: skip
    named = {
        "passage_lengths.png": charts.density(
            lengths["edges"], lengths["density"], title=f"{name}, passages", x="tokens of a passage"
        ),
        "answer_lengths.png": bars.png(),
    }
    if found["specialties"]:
        rows = [(branch, 100 * share) for branch, share in _largest(found)]
        named["specialties.png"] = charts.ranked({"specialties": rows}, title=name, x="% of cases")
    return named
