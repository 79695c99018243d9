"""The input and the result of an analysis of a corpus."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.errors import UsageError
from mednli_jax.io import Watch
from mednli_jax.knowledge.load import TABLES
from mednli_jax.knowledge.readers.mesh import LINK_TYPES
from mednli_jax.nli import encoding as encode
from mednli_jax.nli import entities
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.heuristics import CAUSE_TYPES
from mednli_jax.nli.lexical import merged as merged_tokens
from mednli_jax.nli.readers import read_nli_file
from mednli_jax.report.sections import Section

FILE = "file"  # the name of a corpus that is read from a user's files

OPEN = frozenset(("demo", "demo_full", "snli", "multinli"))  # corpora whose words are public


@dataclass(frozen=True)
class Finding:
    """What an analysis found.

    Args:
      figures: JSON values that may be shown.
      sections: the same for a reader.
      drawn: {file name: content} of pictures and lists.
      notes: remarks on the corpus, or on what was left out.
      private: the complete finding, for the owner of the data alone; None if everything may be shown.
    """

    figures: dict
    sections: list[Section] = field(default_factory=list)
    drawn: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    private: "Finding | None" = None

    def result(self, corpus: str, notes: Sequence[str] = ()) -> dict:
        """The JSON values that are printed and written. notes: further remarks on the corpus."""
        return {"corpus": corpus, "notes": [*notes, *self.notes], **self.figures}


class Subject:
    """A corpus to analyse. It is read and linked once for all analyses.

    Args:
      public: whether tokens that few premises have are left out of open corpora, too.
      splits: splits that are analysed in place of the corpus's own, or None.
      spans: a file of the entities whose tokens are merged, None to merge those of concepts.
    """

    def __init__(
        self,
        corpus: NLICorpus,
        *,
        public: bool = False,
        splits: dict[str, Split] | None = None,
        spans: Path | None = None,
    ):
        self.corpus, self.name, self.public, self.spans = corpus, corpus.title, public, spans
        self._given, self._mentions = splits, {}

    @property
    def is_open(self) -> bool:
        """Whether the words of all its pairs may be shown."""
        mixed = self.corpus.mix
        return {self.corpus.name, *([mixed.name] if mixed else [])} <= OPEN

    @property
    def has_concepts(self) -> bool:
        """Whether concepts are looked for in its sentences."""
        return self.corpus.linking is not None

    @cached_property
    def splits(self) -> dict[str, Split]:
        return self.corpus.splits() if self._given is None else self._given

    @cached_property
    def examples(self) -> list[NLIExample]:
        """All pairs, split after split."""
        return [example for split in self.splits.values() for example in split.examples]

    @cached_property
    def finder(self):
        """What finds the concepts of its sentences."""
        return self.corpus.recogniser(self.splits)

    @cached_property
    def _entity_finder(self):
        return entities.finder_of(self.corpus, self.splits, self.spans)

    def mentions(self, side: str) -> list[list[Mention]]:
        """The concepts of the premises or of the hypotheses of `examples`; none where none are looked for."""
        if side not in self._mentions:
            given = self.examples, side, self.corpus.encoding
            self._mentions[side] = encode.kept_mentions(self._whole[side], *given)
        return self._mentions[side]

    @cached_property
    def _whole(self) -> dict[str, list[list[Mention]]]:
        """The concepts of whole sentences by side; each distinct sentence is linked once."""
        if self.finder is None:
            return {side: [[] for _ in self.examples] for side in SIDES}
        found = {}
        with Watch(len(SIDES) * len(self.examples)) as watch:
            given = self.finder, self.corpus.encoding, found, watch
            return {side: encode.whole_mentions(self.examples, side, *given) for side in SIDES}

    def entities(self, side: str) -> list[list[Mention]]:
        """The entities whose tokens are merged: those of the file of spans, else the concepts."""
        if self.spans is None:
            return self.mentions(side)
        return entities.mentions_of(self.corpus, self.examples, side, self._entity_finder)

    @property
    def merged_by(self) -> str:
        """The source of the entities: the ontology and its version, or the name of a file; "" for none."""
        return self.knowledge if self.spans is None else self.spans.name

    def graph_concepts(self) -> set[str]:
        """The concepts of a graph of mentioned concepts, as the prepared corpus has it."""
        counts = [name in encode.GRAPH_SPLITS for name, split in self.splits.items() for _ in split.examples]
        return encode.mentioned_in(counts)(self._whole)

    def hypotheses(self, *, merged: bool) -> list[tuple[str, ...]]:
        """The hypotheses' tokens in lower case, of all examples; merged: the tokens of an entity as one."""
        mentions = self.entities("hypothesis") if merged else [()] * len(self.examples)
        return [
            merged_tokens(example.hypothesis_tokens, found)
            for example, found in zip(self.examples, mentions, strict=True)
        ]

    def needs_knowledge(self, analysis: str) -> None:
        """Raises UsageError where no concepts are looked for."""
        if not self.has_concepts:
            raise UsageError(
                f"analyze {analysis}: the config takes no knowledge. Fix: --corpus=NAME, or "
                "--config=configs/esim_kd.py, or --config.model.knowledge=replace."
            )

    @property
    def notes(self) -> list[str]:
        """Remarks on the splits for the reader."""
        return sorted({split.facts["note"] for split in self.splits.values() if "note" in split.facts})

    @property
    def knowledge(self) -> str:
        """The ontology of the concepts and its version; "" where none are looked for."""
        if not self.has_concepts:
            return ""
        ontology = self.corpus.ontology
        return f"{ontology.name} {ontology.version}"


def subject_of(corpus: NLICorpus, path: Path | None, *, public: bool, spans: Path | None = None) -> Subject:
    """What --config names, or --corpus=PATH.

    A corpus that --corpus names is also linked to the concepts that the heuristic of probable causes needs, if its
    ontology is MeSH and the config chooses no semantic types. A single file is read as training pairs.
    spans: see Subject.
    Raises: UserError, DataError(s) for a damaged file.
    """
    if path is None:
        return Subject(corpus, public=public, spans=spans)
    linking, splits = corpus.linking, None
    if linking is not None and not linking.types and not linking.mentions:
        name = corpus.terminology.name
        if name == "mesh" or name.endswith(TABLES):
            corpus = replace(corpus, linking=replace(linking, types=(*LINK_TYPES, *CAUSE_TYPES)))
    if corpus.name == FILE and path.is_file():
        splits = {"train": read_nli_file(path, split="train", limit=corpus.limit)}
    return Subject(corpus, public=public, splits=splits, spans=spans)
