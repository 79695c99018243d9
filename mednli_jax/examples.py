"""The vocabulary of the house: examples, mentions and splits, as frozen strings.

Readers produce these, `tasks` turn them into arrays; nothing here knows of arrays or devices.
"""

from dataclasses import dataclass, field

# The one label order of the package. Integers never come from files: systems disagree on them.
LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, slots=True)
class Mention:
    """A concept found in a token sequence: tokens `start` to `end` (exclusive) name `concept` (an ontology id)."""

    start: int
    end: int
    concept: str


@dataclass(frozen=True, slots=True)
class NLIExample:
    """One premise-hypothesis pair.

    uid: stable identifier (the corpus's pairID, else file name and line); predictions, filters and errors join on it.
    label: one of LABELS, or "" where the pair is unlabelled (prediction).
    premise_tokens, hypothesis_tokens: as the corpus tokenises them, case kept.
    group: pairs that share a premise share this string.
    tags: named slices the pair belongs to (a MultiNLI genre, the demo's `unseen_relation`); scored separately.
    """

    uid: str
    premise: str
    hypothesis: str
    label: str
    premise_tokens: tuple[str, ...]
    hypothesis_tokens: tuple[str, ...]
    group: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Split:
    """The examples of one split and where they came from.

    facts: provenance as plain JSON values, e.g. `{"file": "mli_dev_v1.jsonl", "sha256": "...", "rows": 1395,
    "dropped_unlabelled": 0, "tokens": {"binary parse": 1395, "treebank": 0}}`. Never text of the corpus.
    """

    name: str
    examples: tuple[NLIExample, ...]
    facts: dict = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.examples)
