"""Statistics of a cloze corpus, as data and pictures: Tables 2 and 3 and Figures 2 to 5 of
Šuster & Daelemans 2018.

In the paper, the sum of tokens and the number of word types count a passage once; mean length and
Figure 2a count it once per query (`describe_data.py` of its published code). This module computes
both. In Figure 3 a report with two specialties counts twice, once for each. Besides the names of
specialties, the results hold no text of the corpus.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mednli_jax.cloze.arrays import Query
from mednli_jax.cloze.clicr import SEMANTIC_TYPES
from mednli_jax.cloze.corpus import notes_of, read_splits
from mednli_jax.cloze.setups import passage_in_setup, phrase_of, right_candidate
from mednli_jax.data.examples import SEVERAL, ClozeExample, Split
from mednli_jax.data.partitions import names_by_uid
from mednli_jax.errors import RunError
from mednli_jax.report import charts
from mednli_jax.report.sections import (
    FigureRow,
    Grid,
    Report,
    Section,
    columns_of,
    count_cell,
    figure,
    mean_cell,
    points,
)
from mednli_jax.report.tables import published_figures
from mednli_jax.types import JsonObject

LONGEST_SHOWN = 25  # tokens of an answer (Figure 2b)
BINS = 60
SPECIALTIES_SHOWN = 15
PAPER = published_figures("clicr")["statistics"]
Candidates = Mapping[str, Mapping[str, int]]  # uid of a passage -> its candidates


def analysis(corpus: str, skills: Path | None = None) -> Report:
    """Reports the statistics of a corpus, with pictures, and of the skills that its queries need.

    corpus: see read_splits. skills: see read_skills.
    """
    skills_of_query = read_skills(skills) if skills else {}
    splits = read_splits(corpus)
    figures = statistics(splits)
    sections, files = [sizes_section(corpus, figures)], pictures(corpus, figures)
    if skills:
        queries = chain.from_iterable(split.examples for split in splits.values())
        figures["skills"] = skill_statistics(skills_of_query, queries)
        sections.append(skill_section(figures["skills"]))
    return Report(figures, sections, files, notes=notes_of(splits))


def statistics(splits: Mapping[str, Split[ClozeExample]]) -> JsonObject:
    """The content of Tables 2 and 3 and Figures 2 and 3, lower-cased as in the paper, as JSON
    values.

    Returns:
      splits, all: {split: sizes}, and the sizes of all splits together: see _sizes.
      passage_lengths: see _passage_lengths.
      answer_lengths: {words: share of queries whose dataset's answer has so many}; "25" is 25 and
        more.
      specialties: {name: share of cases that have it}, largest first. A case is a passage.
      specialty_names: the mean number of specialties of a case.
    """
    queries: list[ClozeExample] = []
    for split in splits.values():
        queries += split.examples
    passages = {query.passage.uid: query.passage for query in queries}
    candidates = {}
    specialties: Counter[str] = Counter()
    for uid, passage in passages.items():
        candidates[uid] = passage_in_setup(passage, "noent").number_of
        names = {name.strip().lower() for name in passage.specialty.split(SEVERAL)}
        specialties.update(names - {""})
    answer_lengths: Counter[int] = Counter()
    for query in queries:
        words = len(phrase_of(query.answers[0].text).split())
        answer_lengths[min(words, LONGEST_SHOWN)] += 1
    sizes = {name: _sizes(split.examples, candidates) for name, split in splits.items()}
    answer_shares = {str(words): n / len(queries) for words, n in sorted(answer_lengths.items())}
    specialty_shares = {name: n / len(passages) for name, n in specialties.most_common()}
    return {
        "splits": sizes,
        "all": _sizes(queries, candidates),
        "passage_lengths": _passage_lengths(queries),
        "answer_lengths": answer_shares,
        "specialties": specialty_shares,
        "specialty_names": specialties.total() / len(passages),
    }


def _passage_sizes(queries: Sequence[ClozeExample], candidates: Candidates) -> JsonObject:
    """Sizes that count a passage once.

    cases: number of passages. tokens, mean_tokens, longest: of passages. word_types: distinct
    words. entity_types: distinct marked phrases. candidates_of_passage: mean number.
    """
    passages = {query.passage.uid: query.passage for query in queries}
    words: set[str] = set()
    entities: set[str] = set()
    lengths, candidate_counts = [], []
    for uid, passage in passages.items():
        lengths.append(len(passage.tokens))
        words.update(map(str.lower, passage.tokens))
        entities.update(candidates[uid])
        candidate_counts.append(len(candidates[uid]))
    num_passages = max(len(passages), 1)
    return {
        "cases": len(passages),
        "queries_of_passage": len(queries) / num_passages,
        "tokens": sum(lengths),
        "mean_tokens": sum(lengths) / num_passages,
        "longest": max(lengths, default=0),
        "word_types": len(words),
        "entity_types": len(entities),
        "candidates_of_passage": sum(candidate_counts) / num_passages,
        "fewest_candidates": min(candidate_counts, default=0),
    }


def _sizes(queries: Sequence[ClozeExample], candidates: Candidates) -> JsonObject:
    """The sizes of one split, or of several: those of _passage_sizes, and these, which count a
    query once.

    mean_tokens_of_query: mean length of a passage, where a passage counts once for each of its
    queries. answers: distinct dataset's answers; answers_extended: distinct answers, synonyms too.
    synonyms, candidates: mean number. verbatim, verbatim_or_synonym: share of queries with a
    candidate that is the dataset's answer, or any answer.
    """
    dataset_answers: set[str] = set()
    all_answers: set[str] = set()
    matches: Counter[str] = Counter()
    types: Counter[str] = Counter()
    synonyms = tokens = num_candidates = 0
    for query in queries:
        candidates_of_passage = candidates[query.passage.uid]
        answers = {phrase_of(answer.text) for answer in query.answers}
        dataset_answers.add(phrase_of(query.answers[0].text))
        all_answers |= answers
        synonyms += len(answers) - 1
        matches[right_candidate(query, candidates_of_passage).kind] += 1
        kind = query.answers[0].semantic_type
        types[kind if kind in SEMANTIC_TYPES else "other"] += 1
        tokens += len(query.passage.tokens)
        num_candidates += len(candidates_of_passage)
    num_queries = max(len(queries), 1)
    return {
        **_passage_sizes(queries, candidates),
        "queries": len(queries),
        "mean_tokens_of_query": tokens / num_queries,
        "answers": len(dataset_answers),
        "answers_extended": len(all_answers),
        "synonyms": synonyms / num_queries,
        "candidates": num_candidates / num_queries,
        "verbatim": matches["exact"] / num_queries,
        "verbatim_or_synonym": (matches["exact"] + matches["synonym"]) / num_queries,
        "semantic_types": {kind: types[kind] / num_queries for kind in (*SEMANTIC_TYPES, "other")},
    }


def _passage_lengths(queries: Iterable[ClozeExample]) -> JsonObject:
    """Histograms of the passages' lengths in tokens (Figure 2a), with B bins.

    {"edges": [B + 1], "density": [B], a passage counted once, "of_queries": [B], the density with a
    passage counted once per query}.
    """
    length_of, lengths_of_queries = {}, []
    for query in queries:
        length_of[query.passage.uid] = len(query.passage.tokens)
        lengths_of_queries.append(len(query.passage.tokens))
    lengths = list(length_of.values())
    width = 10 * math.ceil(max(lengths) / (10 * BINS))  # a multiple of 10; at most BINS bins
    edges = np.arange(0, max(lengths) + width + 1, width)
    density, _ = np.histogram(lengths, edges, density=True)
    of_queries, _ = np.histogram(lengths_of_queries, edges, density=True)
    return {
        "edges": edges.tolist(),
        "density": density.tolist(),
        "of_queries": of_queries.tolist(),
    }


def sizes_section(name: str, figures: JsonObject) -> Section:
    """Tables 2 and 3 from `statistics`; the last column has the paper's figures of CliCR."""
    types = list(SEMANTIC_TYPES)
    if figures["all"]["semantic_types"]["other"]:
        types.append("other")
    rows: list[FigureRow] = [
        ("cases", count_cell, "cases"),
        ("queries", count_cell, "queries"),
        ("  of a passage, mean", mean_cell, "queries_of_passage"),
        ("tokens in passages", count_cell, "tokens"),
        ("  mean of a passage", mean_cell, "mean_tokens"),
        ("  mean of a query's passage", mean_cell, "mean_tokens_of_query"),
        ("  longest passage", count_cell, "longest"),
        ("word types in passages", count_cell, "word_types"),
        ("entity types in passages", count_cell, "entity_types"),
        ("distinct answers", count_cell, "answers"),
        ("  incl. extended", count_cell, "answers_extended"),
        ("  synonyms of an answer, mean", mean_cell, "synonyms"),
        ("candidates of a query, mean", mean_cell, "candidates"),
        ("  of a passage, mean", mean_cell, "candidates_of_passage"),
        ("  least", count_cell, "fewest_candidates"),
        ("% answers in passage, synonyms too", points, "verbatim_or_synonym"),
        ("  the dataset's own alone", points, "verbatim"),
        *((f"% {kind}", points, "semantic_types", kind) for kind in types),
    ]
    columns = {**figures["splits"], "all": figures["all"], "CliCR, paper": PAPER["all"]}
    sizes = [f"{split} {paper['queries']:,}" for split, paper in PAPER["splits"].items()]
    specialties = "specialties: the corpus names none"
    if largest := _largest_specialties(figures):
        shares = ", ".join(f"{name} {figure(share)}" for name, share in largest.items())
        mean_names = f"{figures['specialty_names']:.1f} a case"
        specialties = f"% of all names of specialties, {mean_names}: {shares}"
    grid = Grid("", ("", *columns), columns_of(columns, rows, {}))
    words = [f"CliCR's queries: {', '.join(sizes)}", specialties]
    return Section(f"Sizes, {name}", words, [grid])


def _largest_specialties(figures: JsonObject) -> dict[str, float]:
    """The specialties of Figure 3: {name: its share of all (case, specialty) pairs, in %}."""
    largest = islice(figures["specialties"].items(), SPECIALTIES_SHOWN)
    # (cases with the name / cases) / (pairs / cases)
    return {name: 100 * (share / figures["specialty_names"]) for name, share in largest}


def pictures(name: str, figures: JsonObject) -> dict[str, bytes]:
    """Draws {file name: PNG}: Figures 2a and 2b, and Figure 3 if the corpus names specialties."""
    lengths, answers = figures["passage_lengths"], figures["answer_lengths"]
    answers_chart = charts.bars(
        {"answers": list(answers.values())},
        list(answers),
        title=f"{name}, answers",
        x="tokens of an answer",
        y="share of queries",
    )
    files = {
        "answer_lengths.png": answers_chart.file("png") if answers_chart else b"",
        "passage_lengths.png": charts.density(
            lengths["edges"],
            lengths["of_queries"],
            title=f"{name}, passages of all queries",
            x="tokens of a passage",
        ),
    }
    if largest := _largest_specialties(figures):
        files["specialties.png"] = charts.ranking(
            "specialties", largest, title=name, x="% of all names of specialties"
        )
    return files


SKILLS = published_figures("clicr")["skills"]  # Appendix B, and "none"


def read_skills(path: Path) -> dict[str, tuple[str, ...]]:
    """Reads {uid: the skills that its query needs} from rows `uid TAB skill`. A uid may have
    several rows.

    Names of skills are those of the paper, or the shorter ones of its figures.
    """
    problem = "the row is not `uid TAB skill` with a skill of the paper"
    return names_by_uid(path, "skill", SKILLS["names"], SKILLS["aliases"], problem=problem)


def skill_statistics(
    skills: Mapping[str, Sequence[str]],
    queries: Iterable[ClozeExample | Query],
    scores: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> JsonObject:
    """The share of queries that need each skill (Figure 4), and the F1 of systems on these queries
    (Figure 5), as JSON values.

    Args:
      skills: {uid: skills}, see read_skills.
      scores: {system: {uid: F1}}; a query without an F1 counts 0.

    Returns:
      queries: number of annotated queries of the corpus.
      unknown: number of annotated uids that are of no query of the corpus.
      mean: skills per annotated query; "none" is no skill.
      shares: {skill: share of the annotated queries}.
      f1: {system: {skill: mean F1; None if no query needs the skill}}.
    """
    uids_of: dict[str, list[str]] = {name: [] for name in SKILLS["names"]}
    annotated = needed = 0
    for query in queries:
        if query.uid in skills:
            annotated += 1
            for name in set(skills[query.uid]):
                uids_of[name].append(query.uid)
                needed += name != "none"
    if not annotated:
        raise RunError("the skills are of no query of the corpus", fix="give uids of its queries")
    shares = {name: len(uids) / annotated for name, uids in uids_of.items()}
    means: dict[str, dict[str, float | None]] = {system: {} for system in scores}
    for name, uids in uids_of.items():
        for system, f1_of in scores.items():
            f1 = sum(f1_of.get(uid, 0.0) for uid in uids)
            means[system][name] = f1 / len(uids) if uids else None
    return {
        "queries": annotated,
        "unknown": len(skills) - annotated,
        "mean": needed / annotated,
        "shares": dict(sorted(shares.items(), key=lambda named: -named[1])),
        "f1": means,
    }


def skill_section(figures: JsonObject) -> Section:
    """A table from skill_statistics, with a column of F1 for each system."""
    systems, shares = figures["f1"], figures["shares"]
    paper = f"{SKILLS['mean']:.2f} skills a query over {SKILLS['queries']} queries"
    words = [
        f"{figures['queries']:,} queries are annotated, with {figures['mean']:.2f} skills a query "
        f"(paper: {paper}, {100 * SKILLS['none']:.0f} % need none)"
    ]
    if figures["unknown"]:
        words.append(f"{figures['unknown']:,} annotated uids are not of this corpus")
    header = ["skill", "% of queries"]
    rows = {name: [name, points(share)] for name, share in shares.items()}
    needed = [name for name, share in shares.items() if share]
    series = {}
    for system, f1 in systems.items():
        header.append(f"F1 {system}")
        for name, cells in rows.items():
            cells.append(points(f1[name]))
        series[system] = [100 * f1[name] for name in needed]
    grid = Grid("", tuple(header), list(map(tuple, rows.values())))
    if not systems:
        return Section("Skills (Figure 4)", words, [grid])
    words.append("F1 in points, mean over the seeds")
    chart = charts.bars(series, needed, title="F1 by skill", x="skill", y="F1")
    return Section("Skills (Figures 4 and 5)", words, [grid], [("F1 by skill", chart)])
