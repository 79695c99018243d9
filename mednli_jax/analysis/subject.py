"""What analyses of a corpus read, and what they give."""

from dataclasses import dataclass, field
from functools import cached_property

from mednli_jax.analysis.artifacts.lexical import merged as merged_tokens
from mednli_jax.analysis.sections import Section
from mednli_jax.corpora.nli import encoding as encode
from mednli_jax.corpora.nli.prepared import Source
from mednli_jax.errors import UserError
from mednli_jax.examples import Mention, NLIExample, Split

OPEN = frozenset(("demo", "demo_full", "snli", "multinli"))  # corpora whose words anybody may read


@dataclass(frozen=True)
class Finding:
    """What an analysis found.

    figures: JSON values that may be shown. sections: the same for a reader. drawn: {file name: picture}.
    lines: for a terminal, in place of the sections. notes: what to know of the corpus, or of what was left out.
    private: the same four for the owner of the data alone, None where there is nothing to hide; its figures and
    sections are whole, not what the others lack.
    """

    figures: dict
    sections: list[Section] = field(default_factory=list)
    drawn: dict[str, bytes] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    private: "Finding | None" = None


class Subject:
    """A corpus to analyse; what several analyses ask for is read and linked once.

    name: of the corpus in tables. public: leave out tokens that few premises show, also of open corpora.
    splits: in place of the source's own.
    """

    def __init__(self, source: Source, name: str, *, public: bool = False, splits: dict[str, Split] | None = None):
        self.source, self.config, self.name, self.public = source, source.config, name, public
        self._given, self._mentions = splits, {}

    @property
    def is_open(self) -> bool:
        """Whether the words of all its pairs may be shown."""
        data = self.config.data
        return {data.name, data.mix.partition("/")[0]} - {""} <= OPEN

    @cached_property
    def splits(self) -> dict[str, Split]:
        return self.source.splits() if self._given is None else self._given

    @cached_property
    def examples(self) -> list[NLIExample]:
        """All pairs, split after split."""
        return [example for split in self.splits.values() for example in split.examples]

    @cached_property
    def _finder(self):
        return self.source.recogniser(self.splits)

    def mentions(self, side: str) -> list[list[Mention]]:
        """The concepts of the premises or of the hypotheses of `examples`; none where the config takes no knowledge."""
        if side not in self._mentions:
            self._mentions[side] = [[] for _ in self.examples]
            if self._finder is not None:
                with encode.Watch(len(self.examples)) as watch:
                    encoding = self.source.encoding
                    self._mentions[side] = encode.find_mentions(self.examples, side, self._finder, encoding, {}, watch)
        return self._mentions[side]

    def hypotheses(self, *, merged: bool) -> list[tuple[str, ...]]:
        """The hypotheses' tokens in lower case, of all examples; merged: the tokens of a concept as one."""
        mentions = self.mentions("hypothesis") if merged else [()] * len(self.examples)
        return [
            merged_tokens(example.hypothesis_tokens, found)
            for example, found in zip(self.examples, mentions, strict=True)
        ]

    def needs_knowledge(self, analysis: str) -> None:
        """Raises UserError E-USE-015 where the config takes no knowledge."""
        if not self.source.ontology_name:
            raise UserError(
                f"E-USE-015 analyze {analysis}: the config takes no knowledge. Fix: --corpus=NAME, or "
                "--config=configs/esim_kd.py, or --config.model.knowledge=replace."
            )

    @property
    def notes(self) -> list[str]:
        """What the splits say must not be overlooked."""
        return sorted({split.facts["note"] for split in self.splits.values() if "note" in split.facts})

    @property
    def knowledge(self) -> str:
        """The ontology of the concepts and its version; "" where the config takes no knowledge."""
        if not self.source.ontology_name:
            return ""
        ontology = self.source.ontology
        return f"{ontology.name} {ontology.version}"
