"""The pairs of a corpus as analyses take them, and two of the analyses: sizes, and paths between
concepts."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import LABELS, Mention, Split
from mednli_jax.errors import UsageError
from mednli_jax.knowledge.load import TABLES
from mednli_jax.knowledge.ontology import induced
from mednli_jax.knowledge.readers.mesh import LINK_TYPES
from mednli_jax.knowledge.relations import kinds_in_pairs, kinds_of
from mednli_jax.nli import corpus_stats, encoding
from mednli_jax.nli.corpus import NLICorpus, corpus_paths
from mednli_jax.nli.readers import quoted_cells, read_nli_file
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Report

FILE = "file"
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
    ):
        self.corpus, self.name, self.spans = corpus, corpus.title, spans
        self.linked = {}
        self.splits = splits or corpus.splits()
        self.examples = [example for split in self.splits.values() for example in split.examples]
        self.notes = sorted(
            {split.facts["note"] for split in self.splits.values() if "note" in split.facts}
        )
        self.notes += [line for split in self.splits.values() for line in quoted_cells(split.facts)]

    @property
    def is_open(self) -> bool:
        """Whether the words of all its pairs may be shown."""
        return self.corpus.name in OPEN

    @property
    def knowledge(self) -> str:
        """The ontology of the concepts and its version; "" where none are looked for."""
        ontology = self.corpus.ontology if self.corpus.linking is not None else None
        return "" if ontology is None else f"{ontology.name} {ontology.version}"

    @property
    def merged_by(self) -> str:
        """The source of the entities: the ontology and its version, or the name of a file; "" for
        none."""
        return self.knowledge if self.spans is None else self.spans.name

    def needs_knowledge(self, analysis: str) -> None:
        """Refuses a config without concepts."""
        if self.corpus.linking is None:
            fix = "--corpus=NAME, or --config=esim_kd, or --config.model.knowledge=replace"
            raise UsageError(f"analyze {analysis}: the config takes no knowledge", fix=fix)

    @cached_property
    def finder(self):
        """The linker, or the file of mentions, that gives the concepts of sentences; None without
        knowledge."""
        return self.corpus.recogniser(self.splits)

    @cached_property
    def mentions(self) -> tuple[list[list[Mention]], ...]:
        """The concepts of the premises and of the hypotheses within the tokens that models read."""
        given = self.examples, self.finder, self.corpus.encoding, self.linked
        return tuple(encoding.find_mentions(*given).values())

    @cached_property
    def entities(self) -> dict[str, list[list[Mention]]]:
        """The entities of each side whose tokens are merged: those of the file of spans, else the
        concepts."""
        if self.spans is None:
            return dict(zip(SIDES, self.mentions, strict=True))
        finder = self.corpus.recogniser(self.splits, self.spans)
        return encoding.find_mentions(self.examples, finder, self.corpus.encoding)

    def hypotheses(self, *, merged: bool) -> list[tuple[str, ...]]:
        """The hypotheses' tokens in lower case; merged: those of an entity as one, brain injury ->
        brain_injury."""
        mentions = self.entities["hypothesis"] if merged else [()] * len(self.examples)
        return [
            tuple(
                "_".join(unit).lower() for unit in encoding.units(example.hypothesis_tokens, found)
            )
            for example, found in zip(self.examples, mentions, strict=True)
        ]


def pairs_of(corpus: NLICorpus, path: Path | None, spans: Path | None = None) -> Pairs:
    """The corpus that --config names, or --corpus=PATH; a single file is read as training pairs.
    spans: see Pairs.

    A corpus that --corpus names is also linked to the concepts that the heuristic of probable
    causes needs, if its ontology is MeSH and the config chooses no semantic types.
    """
    if path is None:
        return Pairs(corpus, spans=spans)
    linking, splits = corpus.linking, None
    is_mesh = corpus.terminology and (
        corpus.terminology.name == "mesh" or corpus.terminology.name.endswith(TABLES)
    )
    if linking is not None and is_mesh and not linking.types and not linking.mentions:
        corpus = replace(corpus, linking=replace(linking, types=(*LINK_TYPES, *PERSONS)))
    if corpus.name == FILE and path.is_file():
        splits = {"train": read_nli_file(path, split="train", limit=corpus.limit)}
    return Pairs(corpus, splits=splits, spans=spans)


def stats(pairs: Pairs, options: AnalysisOptions) -> Report:
    """Sizes and lengths of the splits."""
    figures = corpus_stats.statistics(pairs.splits)
    return Report(figures, [corpus_stats.section(pairs.name, figures)])


def paths(pairs: Pairs, options: AnalysisOptions) -> Report:
    """Path lengths and types of relations between the concepts of premises and hypotheses."""
    pairs.needs_knowledge("paths")
    corpus, ontology, given, finder = (
        pairs.corpus,
        pairs.corpus.ontology,
        pairs.corpus.encoding,
        pairs.finder,
    )
    count = len(pairs.splits["train"] if options.lengths == "train" else pairs.examples)
    examples, sides = pairs.examples[:count], [side[:count] for side in pairs.mentions]
    choice = {name: getattr(given, name) for name in ("direction", "max_path", "graph")}
    graph = ontology
    if choice["graph"] == "mentioned":
        whole = encoding.whole_mentions(pairs.examples, finder, given, found=pairs.linked)
        graph = induced(ontology, encoding.mentioned(whole, encoding.rows_in(pairs.splits)))

    def distances(ends):
        return corpus_paths(
            graph, ends, direction=choice["direction"], max_length=choice["max_path"]
        )

    # Paths of a word with several senses start at its most frequent one.
    indices = (
        (lambda concept: finder.indices(concept)[:1]) if corpus.linking.lemmas else finder.indices
    )
    found = corpus_stats.path_statistics(examples, *sides, indices, distances)
    figures = {
        "ontology": ontology.name,
        "version": ontology.version,
        "split": options.lengths,
        **choice,
        **found,
    }
    unit_of, named = encoding.units_of(pairs.examples, finder, given), given.relations or ()
    bits = kinds_in_pairs(graph, *sides, unit_of, named=named, max_length=choice["max_path"])
    figures["classes"] = {
        name: n for name in LABELS if (n := sum(e.label == name for e in examples))
    }
    figures["relations"] = corpus_stats.relation_statistics(examples, bits, kinds_of(named))
    chart = corpus_stats.path_chart(pairs.name, figures)
    sections = [
        corpus_stats.path_section(pairs.name, figures),
        corpus_stats.relation_section(figures),
    ]
    return Report(figures, sections, {"paths.png": chart.png()} if chart else {})
