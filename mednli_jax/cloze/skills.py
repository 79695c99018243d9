"""The skills that cloze queries need: Figures 4 and 5 of Šuster & Daelemans 2018, from annotations and systems' scores.

The results hold counts, shares and scores, never a word of the corpus.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mednli_jax.data.annotations import read_annotations
from mednli_jax.data.examples import ClozeExample
from mednli_jax.errors import DataError, Problems, RunError
from mednli_jax.io import json_lines
from mednli_jax.report import charts
from mednli_jax.report.sections import Grid, Section, points
from mednli_jax.report.tables import published

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
PAPER = published("clicr")["skills"]  # section 4.1; the figures give no more numbers


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


def statistics(
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


def section(found: dict) -> Section:
    """What `statistics` found: how often each skill is needed, and a column of F1 for each system."""
    systems, shares = found["f1"], _by_share(found)
    words = [
        f"{found['queries']:,} queries are annotated with skills, {found['mean']:.2f} a query (paper: "
        f"{PAPER['mean']:.2f} of {PAPER['queries']}; {100 * PAPER['none']:.0f} % none); F1 in points, mean over the "
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


def drawn(name: str, found: dict) -> dict[str, bytes]:
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
