"""Sentence pairs for analyses, and two of the analyses: `stats` (Table 2 of Romanov & Shivade 2018)
and `paths` (Figure 3).

Figures are JSON values. Dimension letters: N examples, D distinct pairs of concepts, M pairs of
nodes of the ontology.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import LABELS, Mention, NLIExample, Split
from mednli_jax.data.labels import Labels
from mednli_jax.errors import DataError, UsageError
from mednli_jax.files.writing import sha256
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.load import TABLES
from mednli_jax.knowledge.ontology import induced_subgraph
from mednli_jax.knowledge.readers.mesh import LINK_TYPES
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encode import links, texts
from mednli_jax.nli.read.corpora import OWN
from mednli_jax.nli.read.readers import labels_of_file, quoted_cells, read_nli_file
from mednli_jax.report import charts
from mednli_jax.report.options import AnalysedCorpus, AnalysisOptions
from mednli_jax.report.sections import (
    FigureRow,
    Grid,
    Report,
    Section,
    columns_of,
    count_cell,
    mean_cell,
)
from mednli_jax.report.tables import corpus_fields
from mednli_jax.types import JsonObject

OPEN = {"demo", "demo_full", "snli", "multinli"}
# Types of MeSH for persons who smoke, drink or are homeless. MeSH's reader links these types only
# if they are named.
PERSONS = ("M01.808", "M01.066", "M01.325")
NO_CONCEPT = "no concept pair"
NO_PATH = "no path"
_FAR, _NONE = 2**62, 2**62 + 1  # lengths above all others, for NO_PATH and NO_CONCEPT
LONG = 50  # tokens; the paper's models cut longer sentences

ConceptPair = tuple[str, str]  # a concept of a premise, one of its hypothesis
Indices = Callable[[str], Sequence[int]]  # a mention's concept -> its nodes of the ontology


class AnalysedPairs(AnalysedCorpus):
    """The pairs of a corpus. Their concepts are linked once for all analyses, at first use.

    Args:
      splits: the splits that are analysed, in place of the corpus's own.
      spans: a file of entities, whose tokens `hypotheses(merged=True)` joins; None joins the tokens
        of concepts.
    """

    splits: dict[str, Split]
    notes: list[str]

    def __init__(
        self,
        corpus: NLICorpus,
        *,
        splits: Mapping[str, Split] | None = None,
        spans: Path | None = None,
    ) -> None:
        self.corpus, self.name, self.spans = corpus, corpus.title, spans
        self.knowledge, self.labels = corpus.knowledge, corpus.labels.names
        self.splits = dict(splits or corpus.splits())
        self.examples = texts.examples_of(self.splits)
        facts = [split.facts for split in self.splits.values()]
        self.notes = sorted({of_split["note"] for of_split in facts if "note" in of_split})
        for of_split in facts:
            self.notes += quoted_cells(of_split)

    @property
    def is_open(self) -> bool:
        """Whether the words of all its pairs may be shown."""
        return self.corpus.name in OPEN

    @property
    def merged_by(self) -> str:
        """The source of the entities: the ontology and its version, or the name of a file; "" for
        none."""
        return self.knowledge if self.spans is None else self.spans.name

    def required_source(self, analysis: str) -> links.ConceptSource:
        """Returns `concept_source`. Raises UsageError for a config without concepts."""
        if self.concept_source is None:
            fix = "--corpus=NAME, or --config=esim_kd, or config.model.knowledge=replace"
            raise UsageError(f"analyze {analysis}: the config takes no knowledge", fix=fix)
        return self.concept_source

    def check_labels(self, analysis: str) -> None:
        """Raises UsageError for labels that are not those of natural language inference."""
        if not set(self.labels) <= set(LABELS):
            problem = f"analyze {analysis}: is for the labels {', '.join(LABELS)}"
            mapped = "config.data.labels=LABEL:entailment,..."
            raise UsageError(problem, fix=f"leave it out, or map the labels: {mapped}")

    @cached_property
    def concept_source(self) -> links.ConceptSource | None:
        """The linker or the file of mentions that finds the concepts of the pairs; None without
        knowledge."""
        return self.corpus.concept_source(self.splits)

    @cached_property
    def linked(self) -> links.PairMentions:
        """The concepts of all pairs; none without knowledge."""
        return links.find_mentions(self.examples, self.concept_source, self.corpus.encoding)

    @property
    def mentions(self) -> tuple[list[list[Mention]], list[list[Mention]]]:
        """The concepts of the premises, and of the hypotheses, in the tokens that models see."""
        visible = self.linked.visible
        return visible["premise"], visible["hypothesis"]

    @cached_property
    def entities(self) -> links.SideMentions:
        """The entities of each side whose tokens are merged: those of the file of spans, else the
        concepts."""
        if self.spans is None:
            return self.linked.visible
        source = self.corpus.concept_source(self.splits, self.spans)
        return links.find_mentions(self.examples, source, self.corpus.encoding).visible

    def hypotheses(self, *, merged: bool) -> list[tuple[str, ...]]:
        """The tokens of the hypotheses in lower case. merged: whether the tokens of an entity are
        joined, brain injury -> brain_injury."""
        examples = links.merge_entities(self.examples, self.entities) if merged else self.examples
        sentences = []
        for example in examples:
            sentences.append(tuple(map(str.lower, example.hypothesis_tokens)))
        return sentences


def pairs_of(corpus: NLICorpus, path: Path | None, spans: Path | None = None) -> AnalysedPairs:
    """The pairs that an analysis reads.

    With --corpus and MeSH, and without semantic types in the config, concepts of PERSONS are
    linked, too: the heuristic of probable causes needs them (artifacts.heuristics).

    Args:
      corpus: the corpus that --config or --corpus names.
      path: the value of --corpus, None without it. If it is a single file of the user, that file is
        read here, as training pairs.
      spans: see AnalysedPairs.
    """
    if path is None:
        return AnalysedPairs(corpus, spans=spans)
    linking, terminology = corpus.linking, corpus.terminology
    # A .tsv file (TABLES) is a terminology in MeSH's layout, with MeSH's semantic types.
    is_mesh = terminology is not None and (
        terminology.name == "mesh" or terminology.name.endswith(TABLES)
    )
    if linking is not None and is_mesh and not linking.types and not linking.mentions:
        corpus = replace(corpus, linking=replace(linking, types=(*LINK_TYPES, *PERSONS)))
    splits = None
    if corpus.name == OWN and path.is_file():
        labels = corpus.labels
        if not Labels.of(labels.setting).names:
            labels = labels_of_file(labels.setting, path, corpus.columns)
            corpus = replace(corpus, labels=labels)
        split = read_nli_file(
            path, split="train", limit=corpus.limit, labels=labels, columns=corpus.columns
        )
        splits = {"train": split}
    return AnalysedPairs(corpus, splits=splits, spans=spans)


# -- sizes -----------------------------------------------------------------------------------------


def stats(pairs: AnalysedPairs, options: AnalysisOptions) -> Report:
    """Reports the sizes and lengths of the splits."""
    figures = statistics(pairs.splits, pairs.labels)
    return Report(figures, [sizes_section(pairs.name, figures, pairs.labels)])


class _Sizes(NamedTuple):
    figures: JsonObject
    premises: set[str]
    words: set[str]


def statistics(
    splits: Mapping[str, Split[NLIExample]], labels: Sequence[str] = LABELS
) -> JsonObject:
    """Computes the counts and lengths of each split and of all together.

    Returns {"splits": {name: figures}, "all": figures}; figures are
      pairs, labels {label: pairs}, unlabelled (dropped by the reader),
      tokens {their source: pairs},
      premises: distinct ones,
      shared_premises (not in "all"): those that also occur in an earlier split,
      words: distinct tokens of both sides in lower case,
      new_words (not in "all"): words that the first split lacks,
      premise, hypothesis {mean, median, longest, over_50} in tokens.
    """
    sizes = {name: _sizes({name: split}, labels) for name, split in splits.items()}
    first_words = next(iter(sizes.values())).words
    earlier_premises: set[str] = set()
    of_splits = {}
    for name, (figures, premises, words) in sizes.items():
        of_splits[name] = {
            **figures,
            "premises": len(premises),
            "shared_premises": len(premises & earlier_premises),
            "words": len(words),
            "new_words": len(words - first_words),
        }
        earlier_premises |= premises
    figures, premises, words = _sizes(splits, labels)
    of_all = {**figures, "premises": len(premises), "words": len(words)}
    return {"splits": of_splits, "all": of_all}


def _sizes(splits: Mapping[str, Split[NLIExample]], names: Sequence[str]) -> _Sizes:
    """Counts the pairs and words of some splits together."""
    examples = texts.examples_of(splits)
    labels = Counter(_labels(examples).tolist())
    tokens: Counter[str] = Counter()
    unlabelled = 0
    for split in splits.values():
        tokens.update(split.facts.get("tokens", {}))
        unlabelled += int(split.facts.get("dropped_unlabelled", 0))
    figures: JsonObject = {
        "pairs": len(examples),
        "labels": {label: labels[label] for label in names},
        "unlabelled": unlabelled,
        "tokens": dict(+tokens),
    }
    words: set[str] = set()
    for side in SIDES:
        sentences = [links.all_tokens(example, side) for example in examples]
        for sentence in sentences:
            words.update(map(str.lower, sentence))
        lengths = np.array(list(map(len, sentences)))
        figures[side] = {
            "mean": float(lengths.mean()),
            "median": float(np.median(lengths)),
            "longest": int(lengths.max()),
            f"over_{LONG}": int((lengths > LONG).sum()),
        }
    return _Sizes(figures, {example.premise for example in examples}, words)


def _labels(examples: Iterable[NLIExample]) -> np.ndarray:
    """The label of each example, str [N]."""
    return np.array([example.label for example in examples])


def sizes_section(corpus: str, values: JsonObject, labels: Sequence[str] = LABELS) -> Section:
    """A grid with a column for each split and one for all; the paper's figures (Table 2 and section
    2.3) stand below ours."""
    columns = {**values["splits"], "all": values["all"]}
    lengths = (
        ("mean tokens", mean_cell, "mean"),
        ("longest", count_cell, "longest"),
        (f"over {LONG} tokens", count_cell, f"over_{LONG}"),
    )
    rows: list[FigureRow] = [("pairs", count_cell, "pairs")]
    for title, show, name in lengths:
        rows += [(f"{side}, {title}", show, side, name) for side in SIDES]
    rows.append(("distinct premises", count_cell, "premises"))
    rows.append(("  also in an earlier split", count_cell, "shared_premises"))
    rows += [(label, count_cell, "labels", label) for label in labels]
    if values["all"]["unlabelled"]:
        rows.append(("unlabelled, dropped", count_cell, "unlabelled"))
    rows.append(("distinct words", count_cell, "words"))
    rows.append((f"  not in {next(iter(values['splits']))}", count_cell, "new_words"))
    rows += [
        (f"tokens from {name}", count_cell, "tokens", name) for name in values["all"]["tokens"]
    ]
    cells = columns_of(columns, rows, corpus_fields("mednli", corpus, "statistics"))
    return Section(f"Sizes, {corpus}", grids=[Grid("", ("", *columns), cells)])


# -- paths -----------------------------------------------------------------------------------------


def paths(pairs: AnalysedPairs, options: AnalysisOptions) -> Report:
    """Reports the path lengths between the concepts of premises and hypotheses."""
    source = pairs.required_source("paths")
    settings, linking = pairs.corpus.encoding, pairs.corpus.linking
    size = len(pairs.splits["train"] if options.lengths == "train" else pairs.examples)
    examples = pairs.examples[:size]  # train is the first split
    premises, hypotheses = (of_side[:size] for of_side in pairs.mentions)
    graph = source.ontology
    if settings.graph == "mentioned":
        rows = links.rows_in(pairs.splits)
        graph = induced_subgraph(graph, links.mentioned_concepts(pairs.linked.whole, rows))

    def distances(ends: np.ndarray) -> np.ndarray:
        return shortest_paths(
            graph, ends, direction=settings.direction, max_length=settings.max_path
        )

    def indices(concept: str) -> Sequence[int]:
        senses = source.indices(concept)
        # Paths of a word with several senses start at its most frequent one, which is the first.
        return senses[:1] if linking is not None and linking.lemmas else senses

    mentions = linking.mentions if linking else None
    figures = {
        "ontology": source.ontology.name,
        "version": source.ontology.version,
        "mentions": sha256(mentions)[:12] if mentions else "",
        "split": options.lengths,
        "direction": settings.direction,
        "max_path": settings.max_path,
        "graph": settings.graph,
        **path_statistics(examples, premises, hypotheses, indices, distances, pairs.labels),
    }
    chart = path_chart(pairs.name, figures)
    return Report(
        figures,
        [path_section(pairs.name, figures)],
        {"paths.png": chart.file("png")} if chart else {},
    )


def path_statistics(
    examples: Sequence[NLIExample],
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    indices: Indices,
    distances: Callable[[np.ndarray], np.ndarray],
    labels: Sequence[str] = LABELS,
) -> JsonObject:
    """Computes path lengths between the concepts of premises and hypotheses.

    A concept that the ontology lacks has a path to itself alone. For a concept with several nodes
    the nearest node counts.

    distances: maps pairs of nodes [M, 2] to path lengths int [M], see
    knowledge.distances.shortest_paths.

    Returns
      concept_pairs {length or NO_PATH: count}: of distinct pairs (concept of a premise, concept of
        its hypothesis);
      occurrences {length or NO_PATH: count}: of these pairs, each as often as it occurs in examples
        (Figure 3's bars);
      nearest {label: {length, NO_PATH or NO_CONCEPT: examples}}: by the shortest path of each
        example;
      examples, examples_with_concepts {premise, hypothesis, both}: numbers of examples;
      unknown_concepts: the number of concepts that the ontology lacks.
    """
    pairs: list[ConceptPair] = []
    owners: list[int] = []
    concepts: set[str] = set()
    both_sides = zip(premise_mentions, hypothesis_mentions, strict=True)
    for number, (in_premise, in_hypothesis) in enumerate(both_sides):
        left, right = links.concepts_in(in_premise), links.concepts_in(in_hypothesis)
        crossed = list(product(sorted(left), sorted(right)))
        pairs += crossed
        owners += [number] * len(crossed)
        concepts |= left | right
    distinct = sorted(set(pairs))
    length_D = _lengths(distinct, indices, distances)
    length_of = dict(zip(distinct, length_D.tolist(), strict=True))
    lengths = np.array([length_of[pair] for pair in pairs], np.int64)
    nearest_N = np.full(len(examples), _NONE)
    np.minimum.at(nearest_N, np.array(owners, np.int64), lengths)
    label_N = _labels(examples)
    nearest = {name: _counts(nearest_N[label_N == name]) for name in labels}
    unknown = [concept for concept in concepts if not indices(concept)]
    return {
        "examples": len(examples),
        "examples_with_concepts": {
            "premise": sum(map(bool, premise_mentions)),
            "hypothesis": sum(map(bool, hypothesis_mentions)),
            "both": int((nearest_N < _NONE).sum()),
        },
        "unknown_concepts": len(unknown),
        "concept_pairs": _counts(length_D),
        "occurrences": _counts(lengths),
        "nearest": nearest,
    }


def _lengths(
    pairs: Sequence[ConceptPair],
    indices: Indices,
    distances: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """int64 [D], the edges between the concepts of each pair; _FAR without a path."""
    length_D = np.array([0 if left == right else _FAR for left, right in pairs], np.int64)
    rows = []  # M rows (pair of concepts, node of the left one, node of the right one)
    for number, (left, right) in enumerate(pairs):
        rows += [(number, *ends) for ends in product(indices(left), indices(right))]
    if rows:
        rows_M3 = np.array(rows)
        pair_M = rows_M3[:, 0]
        edges_M = distances(rows_M3[:, 1:]).astype(np.int64)
        np.minimum.at(length_D, pair_M, np.where(edges_M < 0, _FAR, edges_M))
    return length_D


def _counts(lengths: np.ndarray) -> dict[str, int]:
    values, counts = np.unique(lengths, return_counts=True)
    names = {_FAR: NO_PATH, _NONE: NO_CONCEPT}
    pairs = zip(values.tolist(), counts.tolist(), strict=True)
    return {names.get(value, str(value)): number for value, number in pairs}


def ordered_keys(figures: JsonObject) -> list[str]:
    """Every length that occurs, in rising order; then NO_PATH and NO_CONCEPT if they occur."""
    keys = set(figures["occurrences"]).union(*figures["nearest"].values())
    lengths = sorted(filter(str.isdigit, keys), key=int)
    return lengths + [key for key in (NO_PATH, NO_CONCEPT) if key in keys]


def path_chart(corpus: str, figures: JsonObject) -> charts.Chart | None:
    """Charts the occurrences of pairs of concepts for each path length; None without any. figures:
    see `path_section`."""
    keys = list(filter(str.isdigit, ordered_keys(figures)))
    series = {"occurrences": [int(figures["occurrences"].get(key, 0)) for key in keys]}
    edges = "edges of any relation" if figures.get("direction") == "all" else "is-a edges"
    return charts.bars(
        series,
        keys,
        title=f"Shortest paths between concepts, {_ontology_title(corpus, figures)}",
        x=f"shortest path, {edges}",
        y="occurrences of concept pairs",
    )


def _ontology_title(corpus: str, figures: JsonObject) -> str:
    return f"{corpus}, {figures['ontology']} {figures['version']}"


def path_section(corpus: str, figures: JsonObject) -> Section:
    """The path lengths as a section. figures: of `path_statistics`, with the ontology and its
    version."""
    occurrences, nearest = figures["occurrences"], figures["nearest"]
    sides = figures["examples_with_concepts"]
    words = [
        "path 0: the same concept on both sides; "
        f"{int(occurrences.get(NO_PATH, 0)):,} pairs of concepts have no path",
        f"{_ontology_title(corpus, figures)}: {figures['examples']:,} examples "
        f"({figures.get('split', 'all')}); concepts in {sides['premise']:,} premises and "
        f"{sides['hypothesis']:,} hypotheses, in both sides of {sides['both']:,}; the columns of "
        "classes count examples by their shortest path",
    ]
    if figures["unknown_concepts"]:
        words.append(f"{figures['unknown_concepts']:,} concepts are not in the ontology")
    counted = (occurrences, figures["concept_pairs"], *nearest.values())
    rows = []
    for key in ordered_keys(figures):
        cells = [f"{counts.get(key, 0):,}" for counts in counted]
        if key == NO_CONCEPT:
            cells[:2] = ("", "")
        rows.append((key, *cells))
    grid = Grid("", ("path", "occurrences", "concept pairs", *nearest), rows)
    drawn = path_chart(corpus, figures)
    chart = (drawn.title if drawn else "", drawn)
    return Section("Path lengths (Figure 3)", words, [grid], [chart])


def sections_of_file(path: str | Path | None) -> list[Section]:
    """The section of the paths.json that `analyze paths --out=` writes; [] without a file."""
    if not path:
        return []
    try:
        figures = json.loads(Path(path).read_bytes())
        return [path_section(figures["corpus"], figures)]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        problem = f"holds no path lengths ({type(error).__name__})"
        fix = "give the paths.json that analyze paths --out=FOLDER writes"
        raise DataError(problem, file=str(path), fix=fix) from None
