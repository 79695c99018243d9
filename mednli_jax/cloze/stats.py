"""Statistics of a cloze corpus: Tables 2 and 3 and Figures 2 and 3 of Šuster & Daelemans 2018, as data and pictures.

The paper counts each passage once for its sum of tokens and its types, and once for every query for its mean length and
for Figure 2a (`describe_data.py` of its published code); this module computes both. Figure 3 has the shares of all
names of specialties, of which a report may have several.

The results hold counts, shares and names of specialties, never a word of the corpus.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mednli_jax.cloze.encoding import candidates, corpus_named, how_answerable, phrase_of
from mednli_jax.data.examples import SEVERAL, ClozeExample, Split
from mednli_jax.data.partitions import read_annotations
from mednli_jax.errors import DataError, Problems, RunError
from mednli_jax.io import Bar, json_lines
from mednli_jax.report import charts
from mednli_jax.report.sections import Grid, Section, columns_of, count, mean, points
from mednli_jax.report.tables import published

KINDS = ("problem", "treatment", "test")
LONGEST_SHOWN = 25  # tokens of an answer; longer ones share the last place (Figure 2b ends there)
BINS = 60  # of the passages' lengths
SPECIALTIES_SHOWN = 15  # as in Figure 3
PAPER = published("clicr")["statistics"]  # Tables 2 and 3, and section 4


def analysis(
    corpus: str, skills: Path | None = None, scores: Sequence[Path] = ()
) -> tuple[dict, list[Section], dict[str, bytes]]:
    """Statistics of a corpus, and of the skills that its queries need: (figures, sections, {file name: picture}).

    Args:
      corpus: demo_cloze, clicr or a folder.
      skills: a file of the queries' skills.
      scores: files with the F1 of queries, one for each system.
    """
    named = read_skills(skills) if skills else {}
    f1 = {file.stem: read_scores(file) for file in scores}
    splits = corpus_named(corpus)
    figures = statistics(splits)
    sections, files = [section(corpus, figures)], drawn(corpus, figures)
    if skills:
        examples = [example for split in splits.values() for example in split.examples]
        figures["skills"] = skill_statistics(named, examples, f1)
        sections.append(skill_section(figures["skills"]))
        files |= skill_charts(corpus, figures["skills"])
    notes = sorted({split.facts["note"] for split in splits.values() if "note" in split.facts})
    return {"notes": notes, **figures}, sections, files


# ---- Sizes, lengths, kinds (Tables 2 and 3, Figures 2 and 3) -------------------------------------------------------


@dataclass
class _Tally:
    """Counts of one split, or of several. Keys of dicts are passages' uids.

    lengths: tokens; found: candidates; query_counts: queries about the passage; specialties: how many passages have
    each.
    """

    lengths: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    query_counts: Counter = field(default_factory=Counter)
    specialties: Counter = field(default_factory=Counter)
    words: set[str] = field(default_factory=set)
    phrases: set[str] = field(default_factory=set)
    answers: set[str] = field(default_factory=set)
    extended: set[str] = field(default_factory=set)
    counts: Counter = field(default_factory=Counter)  # queries, synonyms; "exact" and "synonym" answerable
    kinds: Counter = field(default_factory=Counter)
    answer_lengths: Counter = field(default_factory=Counter)

    def add(self, example: ClozeExample, found: Mapping[str, int]) -> None:
        """Counts a query, and its passage where that is a new one. found: the passage's candidates."""
        passage = example.passage
        if passage.uid not in self.lengths:
            self.lengths[passage.uid] = len(passage.tokens)
            self.words.update(map(str.lower, passage.tokens))
            self.found[passage.uid] = len(found)
            self.phrases.update(found)
            self.specialties.update({name.strip().lower() for name in passage.specialty.split(SEVERAL)} - {""})
        self.query_counts[passage.uid] += 1
        first, *_ = texts = [phrase_of(answer.text) for answer in example.answers]
        self.answers.add(first)
        self.extended.update(texts)
        self.counts.update(("queries", how_answerable(example, found)))
        self.counts["synonyms"] += len(set(texts)) - 1
        kind = example.answers[0].semantic_type
        self.kinds[kind if kind in KINDS else "other"] += 1
        self.answer_lengths[min(len(first.split()), LONGEST_SHOWN)] += 1

    def figures(self) -> dict:
        """The figures of `statistics`."""
        counts, cases = self.counts, max(len(self.lengths), 1)
        queries, tokens = max(counts["queries"], 1), sum(self.lengths.values())
        return {
            "cases": len(self.lengths),
            "queries": counts["queries"],
            "queries_of_passage": counts["queries"] / cases,
            "tokens": tokens,
            "mean_tokens": tokens / cases,
            "mean_tokens_of_query": self._by_query(self.lengths) / queries,
            "longest": max(self.lengths.values(), default=0),
            "word_types": len(self.words),
            "entity_types": len(self.phrases),
            "answers": len(self.answers),
            "answers_extended": len(self.extended),
            "synonyms": counts["synonyms"] / queries,
            "candidates": self._by_query(self.found) / queries,
            "candidates_of_passage": sum(self.found.values()) / cases,
            "fewest_candidates": min(self.found.values(), default=0),
            "verbatim": counts["exact"] / queries,
            "verbatim_or_synonym": (counts["exact"] + counts["synonym"]) / queries,
            "semantic_types": {kind: self.kinds[kind] / queries for kind in (*KINDS, "other")},
        }

    def _by_query(self, values):
        """The sum of a passage's value over all queries."""
        return sum(value * self.query_counts[uid] for uid, value in values.items())


def statistics(splits: Mapping[str, Split]) -> dict:
    """Everything that Tables 2 and 3 and Figures 2 and 3 show, lower-cased as in the paper, as JSON values.

    Returns {"splits": {name: figures}, "all": figures, "passage_lengths", "answer_lengths", "specialties"}; figures are
      cases: passages; queries_of_passage: mean; tokens, mean_tokens, longest: their words, those of a passage counted
      once; mean_tokens_of_query: those of a passage counted for each of its queries;
      word_types: distinct words of passages; entity_types: distinct marked phrases of passages;
      answers, answers_extended: distinct answers of the dataset, and with their synonyms; synonyms: mean per query;
      candidates, fewest_candidates: distinct marked phrases that a query chooses from, mean and least;
      candidates_of_passage: mean of the passages;
      verbatim: share of queries whose answer is a marked phrase of the passage; verbatim_or_synonym: any answer is;
      semantic_types: shares of the dataset's answers.
    passage_lengths: {"edges": [B + 1], "density": [B] of passages, "of_queries": [B], a passage counted for each of its
    queries} in tokens; answer_lengths: {tokens: share of queries}, 25 is 25 and more; specialties: {name: share of all
    cases}, largest first, empty where the corpus names none, a case counted for each of its specialties;
    specialty_names: those of a case, mean.
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
    queries, cases = max(whole.counts["queries"], 1), max(len(whole.lengths), 1)
    return {
        "splits": {name: tally.figures() for name, tally in tallies.items()},
        "all": whole.figures(),
        "passage_lengths": _density(list(whole.lengths.values()), [whole.query_counts[uid] for uid in whole.lengths]),
        "answer_lengths": {str(n): whole.answer_lengths[n] / queries for n in sorted(whole.answer_lengths)},
        "specialties": {name: count / cases for name, count in whole.specialties.most_common()},
        "specialty_names": whole.specialties.total() / cases,
    }


def _density(lengths: list[int], queries: list[int]) -> dict:
    """Histograms of bins that are multiples of ten tokens wide, of passages and of queries; each has the area 1."""
    width = 10 * max(1, -(-max(lengths, default=0) // (10 * BINS)))
    edges = np.arange(0, max(lengths, default=0) + width + 1, width)
    found = {"edges": edges.tolist()}
    for name, weights in (("density", None), ("of_queries", queries)):
        none = [0.0] * (len(edges) - 1)
        found[name] = np.histogram(lengths, edges, density=True, weights=weights)[0].tolist() if lengths else none
    return found


# ---- For the reader ------------------------------------------------------------------------------------------------


def section(name: str, found: dict) -> Section:
    """Tables 2 and 3, of what `statistics` found; the paper's figures of CliCR in the last column."""
    kinds = [kind for kind in (*KINDS, "other") if found["all"]["semantic_types"][kind] or kind in KINDS]
    rows = [
        ("cases", count, "cases"),
        ("queries", count, "queries"),
        ("  of a passage, mean", mean, "queries_of_passage"),
        ("tokens in passages", count, "tokens"),
        ("  mean of a passage", mean, "mean_tokens"),
        ("  mean of a query's passage", mean, "mean_tokens_of_query"),
        ("  longest passage", count, "longest"),
        ("word types in passages", count, "word_types"),
        ("entity types in passages", count, "entity_types"),
        ("distinct answers", count, "answers"),
        ("  incl. extended", count, "answers_extended"),
        ("  synonyms of an answer, mean", mean, "synonyms"),
        ("candidates of a query, mean", mean, "candidates"),
        ("  of a passage, mean", mean, "candidates_of_passage"),
        ("  least", count, "fewest_candidates"),
        ("% answers in passage, synonyms too", points, "verbatim_or_synonym"),
        ("  the dataset's own alone", points, "verbatim"),
        *((f"% {kind}", points, "semantic_types", kind) for kind in kinds),
    ]
    columns = {**found["splits"], "all": found["all"], "CliCR, paper": PAPER["all"]}
    sizes = ", ".join(f"{split} {figures['queries']:,}" for split, figures in PAPER["splits"].items())
    shown = ", ".join(f"{branch} {points(share)}" for branch, share in _largest(found))
    named = f"% of all names of specialties, {found['specialty_names']:.1f} a case: {shown}"
    specialties = named if shown else "specialties: the corpus names none"
    grid = Grid("", ("", *columns), columns_of(columns, rows, {}))
    return Section(f"Sizes, {name}", [f"CliCR's queries: {sizes}", specialties], [grid])


def _largest(found) -> list[tuple[str, float]]:
    """The specialties of Figure 3 and their shares of all names of specialties."""
    first = list(found["specialties"].items())[:SPECIALTIES_SHOWN]
    return [(name, share / found["specialty_names"]) for name, share in first]


def drawn(name: str, found: dict) -> dict[str, bytes]:
    """The pictures {file name: PNG}: Figures 2a and 2b, and Figure 3 where the corpus names specialties."""
    lengths, answers = found["passage_lengths"], found["answer_lengths"]
    bars = charts.bars(
        {"answers": list(answers.values())}, list(answers), title=f"{name}, answers", x="tokens of an answer",
        y="share of queries",
    )  # fmt: skip
    named = {
        "passage_lengths.png": charts.density(
            lengths["edges"], lengths["of_queries"], title=f"{name}, passages of all queries", x="tokens of a passage"
        ),
        "answer_lengths.png": bars.png(),
    }
    if found["specialties"]:
        rows = [(branch, 100 * share) for branch, share in _largest(found)]
        named["specialties.png"] = charts.ranked({"specialties": rows}, title=name, x="% of all names of specialties")
    return named


# -- skills ------------------------------------------------------------------------------------------------------------


# Appendix B, and "none" for queries that the passage does not answer; the other names are those of Figures 4 and 5.
SKILLS = (
    *("bridging", "object tracking", "schematic clause relation", "coreference resolution", "meta-knowledge"),
    *("spatio-temporal relations", "logical reasoning", "none", "ellipsis", "punctuation", "elaboration"),
    *("causal relation", "analogy", "mathematical reasoning"),
)
_ALIASES = {
    "tracking": "object tracking",
    "complex": "schematic clause relation",
    "schematic": "schematic clause relation",
    "coreference": "coreference resolution",
    "meta": "meta-knowledge",
    "meta knowledge": "meta-knowledge",
    "spatiotemporal": "spatio-temporal relations",
    "spatio-temporal": "spatio-temporal relations",
    "logical": "logical reasoning",
    "causality": "causal relation",
    "causal": "causal relation",
    "math": "mathematical reasoning",
    "mathematical": "mathematical reasoning",
}


def read_skills(path: Path) -> dict[str, tuple[str, ...]]:
    """uid -> the skills that its query needs, from rows `uid TAB skill`; several rows of a uid are several skills.

    Names are those of SKILLS, or the shorter ones of the paper's figures.
    """
    return read_annotations(path, "skill", SKILLS, _ALIASES, problem="the row is no skill of a query")


def read_scores(path: Path) -> dict[str, float]:
    """uid -> F1 from 0 to 1, from JSON lines that hold "uid" and "f1"."""
    path, problems, found = Path(path), Problems(), {}
    for number, row in json_lines(path, problems):
        uid, f1 = row.get("uid"), row.get("f1")
        if isinstance(uid, str) and uid not in found and type(f1) in (int, float) and 0 <= f1 <= 1:
            found[uid] = float(f1)
        else:
            fix = 'write every query once, as {"uid": "...", "f1": 0.5}'
            problem = "the row holds no uid with an f1 from 0 to 1, or repeats a uid"
            problems.add(DataError(problem, file=path.name, line=number, fix=fix))
    problems.raise_if_any()
    return found


def skill_statistics(
    skills: Mapping[str, Sequence[str]],
    examples: Iterable[ClozeExample],
    scores: Mapping[str, Mapping[str, float]] | None = None,
) -> dict:
    """How often each skill is needed (Figure 4), and how well systems answer where it is (Figure 5), as JSON values.

    Args:
      skills: uid -> skills (read_skills).
      examples: the queries of the corpus.
      scores: system -> {uid: F1}; a query without a score counts 0.

    Returns: {"queries": annotated queries of the corpus, "unknown": annotated uids that it lacks, "mean": skills of a
    query ("none" is no skill), "shares": {skill: share of the annotated queries}, "f1": {system: {skill: mean F1, None
    where no query needs it}}}.
    """
    known = [(example.uid, skills[example.uid]) for example in examples if example.uid in skills]
    if not known:
        raise RunError("the skills are of no query of the corpus. Fix: give uids of its queries.")
    of_skill = {name: [uid for uid, names in known if name in names] for name in SKILLS}
    return {
        "queries": len(known),
        "unknown": len(skills) - len(known),
        "mean": sum(name != "none" for _, names in known for name in names) / len(known),
        "shares": {name: len(uids) / len(known) for name, uids in of_skill.items()},
        "f1": {
            system: {
                name: sum(f1.get(uid, 0.0) for uid in uids) / len(uids) if uids else None
                for name, uids in of_skill.items()
            }
            for system, f1 in (scores or {}).items()
        },
    }


def skill_section(found: dict) -> Section:
    """What `skill_statistics` found: how often each skill is needed, and a column of F1 for each system."""
    systems, shares, paper = found["f1"], _by_share(found), published("clicr")["skills"]  # section 4.1
    words = [
        f"{found['queries']:,} queries are annotated with skills, {found['mean']:.2f} a query (paper: "
        f"{paper['mean']:.2f} of {paper['queries']}; {100 * paper['none']:.0f} % none); F1 in points, mean over the "
        "seeds"
    ]
    if found["unknown"]:
        words.append(f"{found['unknown']:,} annotated uids are not of this corpus")
    rows = [(name, points(share), *(points(f1[name]) for f1 in systems.values())) for name, share in shares]
    needed = [name for name, share in shares if share]
    series = {system: [100 * f1[name] for name in needed] for system, f1 in systems.items()}
    chart = charts.bars(series, needed, title="F1 by skill", x="skill", y="F1")
    grid = Grid("", ("skill", "% of queries", *(f"F1 {system}" for system in systems)), rows)
    return Section("Skills (Figure 5)", words, [grid], [("F1 by skill", chart)])


def _by_share(found) -> list[tuple[str, float]]:
    return sorted(found["shares"].items(), key=lambda item: -item[1])


def skill_charts(name: str, found: dict) -> dict[str, bytes]:
    """The pictures {file name: PNG}: Figure 4, and Figure 5 where there are scores."""
    shares = _by_share(found)
    needed = {"skills": [(skill, 100 * share) for skill, share in shares]}
    panels = {
        system: [(skill, 100 * f1[skill]) for skill, _ in shares if f1[skill] is not None]
        for system, f1 in found["f1"].items()
    }
    named = {"skills.png": charts.ranked(needed, title=name, x="% of annotated queries")}
    if panels:
        named["skill_scores.png"] = charts.ranked(panels, title=f"{name}, by skill", x="F1")
    return named
