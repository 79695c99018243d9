"""Statistics of a cloze corpus, as data and pictures: Tables 2 and 3 and Figures 2 to 5 of Šuster &
Daelemans 2018.

The paper counts each passage once for its sum of tokens and its types, and once for every query for
its mean length and for Figure 2a (`describe_data.py` of its published code); this module computes
both. Figure 3 has the shares of all names of specialties. The results hold no other words of the
corpus.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from mednli_jax.cloze.clicr import SEMANTIC_TYPES
from mednli_jax.cloze.encoding import corpus_named, passage_view, phrase_of, right_candidate
from mednli_jax.data.examples import SEVERAL, ClozeExample, Split
from mednli_jax.data.partitions import read_annotations
from mednli_jax.errors import DataError, Problems, RunError
from mednli_jax.files import json_lines
from mednli_jax.report import charts
from mednli_jax.report.sections import Grid, Report, Section, columns_of, count, mean, points
from mednli_jax.report.tables import published

LONGEST_SHOWN = 25  # tokens of an answer (Figure 2b)
BINS = 60
SPECIALTIES_SHOWN = 15
PAPER = published("clicr")["statistics"]


def analysis(corpus: str, skills: Path | None = None, scores: Sequence[Path] = ()) -> Report:
    """Statistics of a corpus, with pictures, and of the skills that its queries need.

    skills: a file of the queries' skills. scores: files with the F1 of queries, one for each
    system.
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
    notes = sorted({split.facts["note"] for split in splits.values() if "note" in split.facts})
    return Report(figures, sections, files, notes=notes)


def _figures(examples: Sequence[ClozeExample], found: Mapping[str, Mapping[str, int]]) -> dict:
    """The figures of `statistics` for one split, or for several. found: uid of a passage -> its
    candidates."""
    passages = {example.passage.uid: example.passage for example in examples}
    uids = [example.passage.uid for example in examples]
    lengths = {uid: len(passage.tokens) for uid, passage in passages.items()}
    candidates = {uid: len(found[uid]) for uid in passages}
    texts = [[phrase_of(answer.text) for answer in example.answers] for example in examples]
    how = Counter(right_candidate(e, found[e.passage.uid])[1] for e in examples)
    kinds = Counter(example.answers[0].semantic_type for example in examples)
    kinds["other"] = len(examples) - sum(kinds[kind] for kind in SEMANTIC_TYPES)
    cases, queries = max(len(passages), 1), max(len(examples), 1)
    tokens, words = sum(lengths.values()), set()
    for passage in passages.values():
        words.update(token.lower() for token in passage.tokens)
    return {
        "cases": len(passages),
        "queries": len(examples),
        "queries_of_passage": len(examples) / cases,
        "tokens": tokens,
        "mean_tokens": tokens / cases,
        "mean_tokens_of_query": sum(lengths[uid] for uid in uids) / queries,
        "longest": max(lengths.values(), default=0),
        "word_types": len(words),
        "entity_types": len(set().union(*(found[uid] for uid in passages))),
        "answers": len({first for first, *_ in texts}),
        "answers_extended": len(set().union(*texts)),
        "synonyms": sum(len(set(of)) - 1 for of in texts) / queries,
        "candidates": sum(candidates[uid] for uid in uids) / queries,
        "candidates_of_passage": sum(candidates.values()) / cases,
        "fewest_candidates": min(candidates.values(), default=0),
        "verbatim": how["exact"] / queries,
        "verbatim_or_synonym": (how["exact"] + how["synonym"]) / queries,
        "semantic_types": {kind: kinds[kind] / queries for kind in (*SEMANTIC_TYPES, "other")},
    }


def statistics(splits: Mapping[str, Split]) -> dict:
    """The content of Tables 2 and 3 and Figures 2 and 3, lower-cased as in the paper, as JSON
    values.

    Returns {"splits": {name: figures}, "all": figures, "passage_lengths", "answer_lengths",
    "specialties"}. Of figures, mean_tokens_of_query counts a passage for each of its queries, all
    others of passages count it once; entity_types are distinct marked phrases; synonyms and
    candidates are means over queries. passage_lengths: {"edges": [B + 1], "density": [B] of
    passages, "of_queries": [B], a passage counted for each of its queries} in tokens;
    answer_lengths: {tokens: share of queries}, 25 is 25 and more; specialties: {name: share of all
    cases}, largest first, a case counted for each of its specialties; specialty_names: those of a
    case, mean.
    """
    whole = [example for split in splits.values() for example in split.examples]
    passages, asked = (
        {e.passage.uid: e.passage for e in whole},
        Counter(e.passage.uid for e in whole),
    )
    found, specialties = {}, Counter()
    for uid, passage in passages.items():
        found[uid] = passage_view(passage, "noent").number_of
        names = {name.strip().lower() for name in passage.specialty.split(SEVERAL)}
        specialties.update(names - {""})
    words = (len(phrase_of(e.answers[0].text).split()) for e in whole)
    answers = Counter(min(length, LONGEST_SHOWN) for length in words)
    lengths = [len(passage.tokens) for passage in passages.values()]
    width = 10 * max(1, -(-max(lengths) // (10 * BINS)))
    edges = np.arange(0, max(lengths) + width + 1, width)
    density = {"edges": edges.tolist()}
    weights = {"density": None, "of_queries": [asked[uid] for uid in passages]}
    for name, of in weights.items():
        values, _ = np.histogram(lengths, edges, density=True, weights=of)
        density[name] = values.tolist()
    return {
        "splits": {name: _figures(split.examples, found) for name, split in splits.items()},
        "all": _figures(whole, found),
        "passage_lengths": density,
        "answer_lengths": {str(n): answers[n] / len(whole) for n in sorted(answers)},
        "specialties": {name: count / len(passages) for name, count in specialties.most_common()},
        "specialty_names": specialties.total() / len(passages),
    }


def section(name: str, found: dict) -> Section:
    """Tables 2 and 3, of what `statistics` found; the paper's figures of CliCR in the last
    column."""
    kinds = [*SEMANTIC_TYPES, *["other"] * bool(found["all"]["semantic_types"]["other"])]
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
    theirs = PAPER["splits"].items()
    sizes = ", ".join(f"{split} {figures['queries']:,}" for split, figures in theirs)
    specialties = "specialties: the corpus names none"
    if shown := ", ".join(f"{branch} {points(share)}" for branch, share in _largest(found)):
        mean_names = f"{found['specialty_names']:.1f} a case"
        specialties = f"% of all names of specialties, {mean_names}: {shown}"
    grid = Grid("", ("", *columns), columns_of(columns, rows, {}))
    return Section(f"Sizes, {name}", [f"CliCR's queries: {sizes}", specialties], [grid])


def _largest(found) -> list[tuple[str, float]]:
    """The specialties of Figure 3 and their shares of all names of specialties."""
    first = list(found["specialties"].items())[:SPECIALTIES_SHOWN]
    return [(name, share / found["specialty_names"]) for name, share in first]


def drawn(name: str, found: dict) -> dict[str, bytes]:
    """The pictures {file name: PNG}: Figures 2a and 2b, and Figure 3 where the corpus names
    specialties."""
    lengths, answers = found["passage_lengths"], found["answer_lengths"]
    shares = {"answers": list(answers.values())}
    about = {"title": f"{name}, answers", "x": "tokens of an answer", "y": "share of queries"}
    named = {"answer_lengths.png": charts.bars(shares, list(answers), **about).png()}
    about = {"title": f"{name}, passages of all queries", "x": "tokens of a passage"}
    density = lengths["edges"], lengths["of_queries"]
    named["passage_lengths.png"] = charts.density(*density, **about)
    if rows := [(branch, 100 * share) for branch, share in _largest(found)]:
        about = {"title": name, "x": "% of all names of specialties"}
        named["specialties.png"] = charts.ranked({"specialties": rows}, **about)
    return named


SKILLS = published("clicr")["skills"]  # Appendix B, and "none"


def read_skills(path: Path) -> dict[str, tuple[str, ...]]:
    """uid -> the skills that its query needs, from rows `uid TAB skill`; several rows of a uid are
    several skills.

    Names are those of the paper, or the shorter ones of its figures.
    """
    problem = "the row is no skill of a query"
    return read_annotations(path, "skill", SKILLS["names"], SKILLS["aliases"], problem=problem)


def read_scores(path: Path) -> dict[str, float]:
    """uid -> F1 from 0 to 1, from JSON lines that hold "uid" and "f1"."""
    path, problems, found = Path(path), Problems(), {}
    for number, row in json_lines(path, problems):
        uid, f1 = row.get("uid"), row.get("f1")
        if isinstance(uid, str) and uid not in found and type(f1) in (int, float) and 0 <= f1 <= 1:
            found[uid] = float(f1)
        else:
            fix = 'write every query once, as {"uid": "...", "f1": 0.5}'
            problem = "the row holds no new uid with an f1 from 0 to 1"
            problems.add(DataError(problem, file=path.name, line=number, fix=fix))
    problems.raise_if_any()
    return found


def skill_statistics(
    skills: Mapping[str, Sequence[str]],
    examples: Iterable[ClozeExample],
    scores: Mapping[str, Mapping[str, float]] | None = None,
) -> dict:
    """The share of queries that need each skill (Figure 4), and the F1 of systems on these (Figure
    5), as JSON values.

    skills: see read_skills. scores: system -> {uid: F1}; a query without one counts 0.

    Returns: {"queries": annotated queries of the corpus, "unknown": annotated uids that it lacks,
    "mean": skills of a query ("none" is no skill), "shares": {skill: share}, "f1": {system: {skill:
    mean F1, None without a query}}}.
    """
    known = [(example.uid, skills[example.uid]) for example in examples if example.uid in skills]
    if not known:
        raise RunError("the skills are of no query of the corpus", fix="give uids of its queries")
    of_skill = {name: [uid for uid, names in known if name in names] for name in SKILLS["names"]}
    shares = {name: len(uids) / len(known) for name, uids in of_skill.items()}
    means = {system: {} for system in scores or ()}
    for system, (name, uids) in product(means, of_skill.items()):
        f1 = [scores[system].get(uid, 0.0) for uid in uids]
        means[system][name] = sum(f1) / len(f1) if f1 else None
    needed = sum(name != "none" for _, names in known for name in names)
    return {
        "queries": len(known),
        "unknown": len(skills) - len(known),
        "mean": needed / len(known),
        "shares": dict(sorted(shares.items(), key=lambda item: -item[1])),
        "f1": means,
    }


def skill_section(found: dict) -> Section:
    """The table of what `skill_statistics` found, with a column of F1 for each system."""
    systems, shares = found["f1"], found["shares"].items()
    theirs = f"{SKILLS['mean']:.2f} of {SKILLS['queries']}; {100 * SKILLS['none']:.0f} % none"
    words = [
        f"{found['queries']:,} queries are annotated with skills, {found['mean']:.2f} a query "
        f"(paper: {theirs}); F1 in points, mean over the seeds"
    ]
    if found["unknown"]:
        words.append(f"{found['unknown']:,} annotated uids are not of this corpus")
    rows = []
    for name, share in shares:
        rows.append((name, points(share), *(points(f1[name]) for f1 in systems.values())))
    needed = [name for name, share in shares if share]
    series = {}
    for system, f1 in systems.items():
        series[system] = [100 * f1[name] for name in needed]
    chart = charts.bars(series, needed, title="F1 by skill", x="skill", y="F1")
    header = ("skill", "% of queries", *(f"F1 {system}" for system in systems))
    grid = Grid("", header, rows)
    return Section("Skills (Figure 5)", words, [grid], [("F1 by skill", chart)])
