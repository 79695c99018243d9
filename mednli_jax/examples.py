"""Examples, mentions and splits: what readers give, as frozen dataclasses of strings.

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


@dataclass(frozen=True, slots=True)
class Answer:
    """One accepted answer to a cloze query.

    text: as in the file. concept: an ontology id (a UMLS CUI, a MeSH id), or "". semantic_type: "problem",
    "treatment", "test", or "". origin: "dataset" (the words of the query's own sentence; one a query) or "UMLS" (a
    synonym).
    """

    text: str
    concept: str = ""
    semantic_type: str = ""
    origin: str = "dataset"


@dataclass(frozen=True, slots=True)
class Entity:
    """A marked phrase: tokens `start` to `end` (exclusive)."""

    start: int
    end: int


SEVERAL = "; "  # between the specialties of a report, as BMJ Case Reports writes them


@dataclass(frozen=True, slots=True)
class Passage:
    """One report, shared by all its queries (the same object).

    uid: stable identifier (the file's "source").
    title, tokens: marks removed, case kept; tokens are those of all sentences.
    entities: in order, not overlapping, each within one sentence. sentences: end (exclusive) of each in `tokens`.
    specialty: the branch of medicine, where the corpus names it; several are joined by SEVERAL. title_entities: as
    `entities`, but in `title`.
    """

    uid: str
    title: tuple[str, ...]
    tokens: tuple[str, ...]
    entities: tuple[Entity, ...]
    sentences: tuple[int, ...]
    specialty: str = ""
    title_entities: tuple[Entity, ...] = ()


# The token that stands where the query's phrase was taken out.
PLACEHOLDER = "@placeholder"


@dataclass(frozen=True, slots=True)
class ClozeExample:
    """One gap-filling query about a passage.

    query: tokens, marks removed; query[blank] is PLACEHOLDER. query_entities: as a passage's.
    answers: the dataset's own first, then its synonyms.
    tags: named slices the query belongs to ("seen", "unseen"); scored separately.
    """

    uid: str
    passage: Passage
    query: tuple[str, ...]
    query_entities: tuple[Entity, ...]
    blank: int
    answers: tuple[Answer, ...]
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Split:
    """The examples of one split and where they came from.

    facts: provenance as plain JSON values, e.g. `{"file": "mli_dev_v1.jsonl", "sha256": "...", "rows": 1395,
    "dropped_unlabelled": 0, "tokens": {"binary parse": 1395, "treebank": 0}}`. Never text of the corpus.
    """

    name: str
    examples: tuple[NLIExample, ...] | tuple[ClozeExample, ...]
    facts: dict = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.examples)
