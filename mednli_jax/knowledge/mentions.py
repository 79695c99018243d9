"""Concepts that another program found in a corpus's sentences, in place of the linker.

A file of mentions is MetaMap's output (.mmi or .txt, see knowledge/metamap.py) or a table (.tsv).
The header of a table names, between TABs and in any order,

  uid side start end concept      and, if wanted,      score negated

`side` is premise or hypothesis, `concept` an id of the ontology. `start` and `end` (exclusive)
count the corpus's tokens from 0; `start_char` and `end_char` in their place count characters of its
sentence. `score` is a number, higher is better, 0 where it is empty; `negated` is 0 or 1, and only
counted. All files may be gzipped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mednli_jax.data.examples import Mention, NLIExample
from mednli_jax.errors import Problems
from mednli_jax.files import empty_field, empty_file, line_fault, table_rows, text_lines
from mednli_jax.knowledge.metamap import read_metamap
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.placing import Facts, FileMentions, Finding, Placing, Span

ENDINGS = (".tsv", ".mmi", ".txt")  # of a file of mentions; .gz may follow

_TOKENS, _CHARACTERS = ("start", "end"), ("start_char", "end_char")
_NEEDED, _OPTIONAL = ("uid", "side", "concept"), ("score", "negated")


@dataclass(frozen=True)
class Recognised:
    """The concepts that another program found in a corpus, in place of a Linker.

    ontology: may lack concepts. spans, facts: those of a FileMentions.
    """

    ontology: Ontology
    spans: Mapping[tuple[str, str], Sequence[Mention]]
    facts: Facts = field(default_factory=dict)

    def mentions(self, uid: str, side: str) -> list[Mention]:
        """The mentions of one sentence, in order."""
        return list(self.spans.get((uid, side), ()))

    def indices(self, concept: str) -> list[int]:
        """The concepts of the ontology that a mention's `concept` stands for."""
        return self.ontology.indices(concept)


def read_mentions(
    path: Path,
    examples: Sequence[NLIExample],
    *,
    partial: bool = False,
    candidates: str = "best",
) -> FileMentions:
    """The mentions of a file of any format for the sentences of a corpus.

    Args:
      examples: the corpus, all splits.
      partial: the corpus leaves out pairs of its files, so that an unknown uid is counted and is
        not an error.
      candidates: "all" keeps all mentions. "best" keeps, where mentions of a table overlap, the one
        of the best score, then the longest, then the first in the file; of MetaMap's candidates for
        the same tokens the one of the best score, then the first. Candidates of MetaMap for
        different tokens are all kept, also where they overlap.
    """
    placing = Placing(path, examples, partial)
    format_facts: Facts = {}
    if path.name.removesuffix(".gz").endswith(".tsv"):
        _read_table(path, placing)
        best = _without_overlaps
    else:
        format_facts["first_position"] = read_metamap(path, placing)
        best = _best_per_tokens
    if not placing.rows and not placing.problems.total:
        raise empty_file(path)
    mentions, facts = placing.mentions(list if candidates == "all" else best)
    return FileMentions(mentions, facts | format_facts)


def _without_overlaps(spans: Sequence[Span]) -> list[Span]:
    chosen: list[Span] = []
    for span in sorted(spans, key=lambda span: (-span.score, span.start - span.end)):
        if all(span.end <= better.start or better.end <= span.start for better in chosen):
            chosen.append(span)
    return chosen


def _best_per_tokens(spans: Sequence[Span]) -> list[Span]:
    best: dict[tuple[int, int], Span] = {}
    for span in sorted(spans, key=lambda span: -span.score):
        best.setdefault((span.start, span.end), span)
    return list(best.values())


def _read_table(path: Path, placing: Placing) -> None:
    """Adds the span of each row."""

    def columns(number: int, header: list[str]) -> list[str]:
        names = set(header) - set(_OPTIONAL)
        if names in ({*_NEEDED, *_TOKENS}, {*_NEEDED, *_CHARACTERS}):
            return header
        fix = (
            "the first line must name, between tabs and each once: uid, side, start, end (or"
            " start_char, end_char), concept, and if wanted score, negated"
        )
        raise line_fault(path.name, number, "the header is not that of this table", fix)

    records = _records(path, placing.problems)
    for line, row in table_rows(path.name, records, placing.problems, columns):
        placing.rows += 1
        _add_row(placing, line, row)


def _records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    for number, line in text_lines(path, problems):
        if line.strip():
            yield number, [cell.strip() for cell in line.split("\t")]


def _add_row(placing: Placing, line: int, row: Mapping[str, str]) -> None:
    for name in _NEEDED:
        if not row[name]:
            placing.problems.add(empty_field(placing.path, line, name))
            return
    positions = _CHARACTERS if _CHARACTERS[0] in row else _TOKENS
    for name in positions:
        if not re.fullmatch(r"-?\d{1,9}", row[name]):
            placing.fault(line, f"field '{name}' is no whole number", name, "count from 0")
            return
    negated = row.get("negated", "")
    if negated not in ("", "0", "1"):
        problem = "field 'negated' is neither 0 nor 1"
        placing.fault(line, problem, "negated", "write 0, 1 or nothing")
        return
    score = placing.score(line, row.get("score", ""))
    finding = Finding(row["concept"], score, negated == "1")
    start, end = (int(row[name]) for name in positions)
    unit = "tokens" if positions is _TOKENS else "characters"
    placing.add(line, row["uid"], row["side"], [(start, end)], finding, unit=unit)
