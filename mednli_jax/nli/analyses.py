"""The pairs of a corpus as analyses take them, and two of the analyses: sizes, and paths between
concepts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mednli_jax.data.examples import LABELS, Mention, Split
from mednli_jax.data.labels import Labels
from mednli_jax.errors import UsageError, config_field
from mednli_jax.files import sha256
from mednli_jax.knowledge.load import TABLES
from mednli_jax.knowledge.ontology import induced
from mednli_jax.knowledge.readers.mesh import LINK_TYPES
from mednli_jax.knowledge.relations import kinds_in_pairs, kinds_of
from mednli_jax.nli import corpus_stats, encoding
from mednli_jax.nli.corpora import OWN
from mednli_jax.nli.corpus import NLICorpus, corpus_paths
from mednli_jax.nli.readers import decided, quoted_cells, read_nli_file
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Report

OPEN = {"demo", "demo_full", "snli", "multinli"}
# Types of MeSH for persons who smoke, drink or are homeless. MeSH's reader links these types only
# if they are named.
PERSONS = ("M01.808", "M01.066", "M01.325")


class Pairs:
    """The pairs of a corpus. Their concepts are linked once for all analyses, when one asks for
    them.

    splits: analysed in place of the corpus's own. spans: a file of the entities to merge, None for
    the concepts.
    """

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
        self.examples = encoding.examples_of(self.splits)
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

    def needs_knowledge(self, analysis: str) -> encoding.ConceptSource:
        """The finder. Refuses a config without concepts."""
        if self.finder is None:
            fix = "--corpus=NAME, or --config=esim_kd, or --config.model.knowledge=replace"
            raise UsageError(f"analyze {analysis}: the config takes no knowledge", fix=fix)
        return self.finder

    def check_labels(self, analysis: str) -> None:
        """Refuses labels that are not those of natural language inference."""
        if not set(self.labels) <= set(LABELS):
            problem = f"analyze {analysis}: is for the labels {', '.join(LABELS)}"
            mapped = config_field("data.labels", "LABEL:entailment,...")
            raise UsageError(problem, fix=("leave it out, or map the labels: ", mapped))

    @cached_property
    def finder(self) -> encoding.ConceptSource | None:
        """Finds the concepts of sentences, by a linker or a file of mentions; None without
        knowledge."""
        return self.corpus.recogniser(self.splits)

    @cached_property
    def linked(self) -> encoding.PairMentions:
        """The concepts of all pairs; none without knowledge."""
        return encoding.find_mentions(self.examples, self.finder, self.corpus.encoding)

    @property
    def mentions(self) -> tuple[list[list[Mention]], list[list[Mention]]]:
        """The concepts of the premises, and of the hypotheses, in the tokens that models see."""
        visible = self.linked.visible
        return visible["premise"], visible["hypothesis"]

    @cached_property
    def entities(self) -> encoding.SideMentions:
        """The entities of each side whose tokens are merged: those of the file of spans, else the
        concepts."""
        if self.spans is None:
            return self.linked.visible
        recognised = self.corpus.recogniser(self.splits, self.spans)
        return encoding.find_mentions(self.examples, recognised, self.corpus.encoding).visible

    def hypotheses(self, *, merged: bool) -> list[tuple[str, ...]]:
        """The hypotheses' tokens in lower case; merged: those of an entity as one, brain injury ->
        brain_injury."""
        examples = encoding.merged(self.examples, self.entities) if merged else self.examples
        sentences = []
        for example in examples:
            sentences.append(tuple(map(str.lower, example.hypothesis_tokens)))
        return sentences


def pairs_of(corpus: NLICorpus, path: Path | None, spans: Path | None = None) -> Pairs:
    """The corpus that --config names, or --corpus=PATH; a single file is read as training pairs.
    spans: see Pairs.

    The concepts of a corpus that --corpus names include PERSONS, which the heuristic of probable
    causes needs, if its ontology is MeSH and the config chooses no semantic types.
    """
    if path is None:
        return Pairs(corpus, spans=spans)
    linking, terminology = corpus.linking, corpus.terminology
    is_mesh = terminology is not None and (
        terminology.name == "mesh" or terminology.name.endswith(TABLES)
    )
    if linking is not None and is_mesh and not linking.types and not linking.mentions:
        corpus = replace(corpus, linking=replace(linking, types=(*LINK_TYPES, *PERSONS)))
    splits = None
    if corpus.name == OWN and path.is_file():
        labels = corpus.labels
        if not Labels.of(labels.setting).names:
            labels = decided(labels.setting, path, corpus.columns)
            corpus = replace(corpus, labels=labels)
        split = read_nli_file(
            path, split="train", limit=corpus.limit, labels=labels, columns=corpus.columns
        )
        splits = {"train": split}
    return Pairs(corpus, splits=splits, spans=spans)


def concepts_key(corpus: NLICorpus) -> dict[str, str]:
    """The release of the ontology, and the beginning of the hash of the file of mentions."""
    ontology, linking = corpus.ontology, corpus.linking
    file = linking.mentions if linking else None
    return {
        "ontology": ontology.name if ontology else "",
        "version": ontology.version if ontology else "",
        "mentions": sha256(file)[:12] if file else "",
    }


def stats(pairs: Pairs, options: AnalysisOptions) -> Report:
    """Sizes and lengths of the splits."""
    figures = corpus_stats.statistics(pairs.splits, pairs.labels)
    return Report(figures, [corpus_stats.section(pairs.name, figures, pairs.labels)])


def paths(pairs: Pairs, options: AnalysisOptions) -> Report:
    """Path lengths and types of relations between the concepts of premises and hypotheses."""
    source = pairs.needs_knowledge("paths")
    settings, linking = pairs.corpus.encoding, pairs.corpus.linking
    count = len(pairs.splits["train"] if options.lengths == "train" else pairs.examples)
    examples = pairs.examples[:count]
    premises, hypotheses = (of_side[:count] for of_side in pairs.mentions)
    graph = source.ontology
    if settings.graph == "mentioned":
        rows = encoding.rows_in(pairs.splits)
        graph = induced(graph, encoding.mentioned(pairs.linked.whole, rows))

    def distances(ends: np.ndarray) -> np.ndarray:
        return corpus_paths(graph, ends, direction=settings.direction, max_length=settings.max_path)

    def indices(concept: str) -> Sequence[int]:
        senses = source.indices(concept)
        # Paths of a word with several senses start at its most frequent one, which is the first.
        return senses[:1] if linking is not None and linking.lemmas else senses

    named = settings.relations or ()
    bits = kinds_in_pairs(
        graph,
        premises,
        hypotheses,
        encoding.units_of(encoding.mention_words(pairs.examples, settings), source),
        named=named,
        max_length=settings.max_path,
    )
    classes = Counter(example.label for example in examples)
    figures = {
        **concepts_key(pairs.corpus),
        "split": options.lengths,
        "direction": settings.direction,
        "max_path": settings.max_path,
        "graph": settings.graph,
        **corpus_stats.path_statistics(
            examples, premises, hypotheses, indices, distances, pairs.labels
        ),
        "classes": {name: classes[name] for name in pairs.labels if classes[name]},
        "relations": corpus_stats.relation_statistics(
            examples, bits, kinds_of(named), pairs.labels
        ),
    }
    sections = [
        corpus_stats.path_section(pairs.name, figures),
        corpus_stats.relation_section(figures),
    ]
    chart = corpus_stats.path_chart(pairs.name, figures)
    return Report(figures, sections, {"paths.png": chart.file("png")} if chart else {})
