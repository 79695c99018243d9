"""Examples, mentions and splits as frozen dataclasses. Readers produce them, task folders turn them
into arrays."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mednli_jax.types import JsonObject

# The number of a label is its place here, in the whole package. Numbers in files are not used for
# it, because corpora disagree on them.
LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, slots=True)
class Mention:
    """A concept (an ontology id), and the tokens of a sequence that name it: `start` to `end`
    (exclusive)."""

    start: int
    end: int
    concept: str


@dataclass(frozen=True, slots=True)
class NLIExample:
    """One premise-hypothesis pair.

    Args:
      uid: stable identifier (the corpus's pairID, else file name and line).
      label: a name of the corpus's labels (data/labels.py), for published corpora one of LABELS; ""
        for an unlabelled pair.
      premise_tokens, hypothesis_tokens: as the corpus tokenises them, case kept.
      group: the same string for all pairs of one premise.
      tags: slices that are also scored separately (a MultiNLI genre, the demo's `unseen_relation`).
      original: the uid of the pair of the same split that this one changes; "" for most.
    """

    uid: str
    premise: str
    hypothesis: str
    label: str
    premise_tokens: tuple[str, ...]
    hypothesis_tokens: tuple[str, ...]
    group: str = ""
    tags: tuple[str, ...] = ()
    original: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One accepted answer to a cloze query.

    Args:
      concept: an ontology id (a UMLS CUI, a MeSH id), or "".
      semantic_type: "problem", "treatment", "test", or "".
      origin: "dataset" (the words that the blank replaced; one per query) or "UMLS" (a synonym).
    """

    text: str
    concept: str = ""
    semantic_type: str = ""
    origin: str = "dataset"


@dataclass(frozen=True, slots=True)
class Entity:
    """A phrase that a corpus marks: the tokens `start` to `end` (exclusive)."""

    start: int
    end: int


SEVERAL = "; "  # separates the specialties of a report, as in BMJ Case Reports


@dataclass(frozen=True, slots=True)
class Passage:
    """One report, shared by all its queries (the same object).

    Args:
      uid: the field "source" of the file.
      title: the tokens of the title, without marks, case kept.
      tokens: the tokens of all sentences one after the other, without marks, case kept.
      entities: marked phrases in order; they do not overlap, and each lies in one sentence.
      sentence_ends: the end (exclusive) of each sentence in `tokens`.
      specialty: the branch of medicine, "" if the corpus names none; several are joined by SEVERAL.
    """

    uid: str
    title: tuple[str, ...]
    tokens: tuple[str, ...]
    entities: tuple[Entity, ...]
    sentence_ends: tuple[int, ...]
    specialty: str = ""
    title_entities: tuple[Entity, ...] = ()


# The token that replaces the phrase of the answer in a query.
PLACEHOLDER = "@placeholder"


@dataclass(frozen=True, slots=True)
class ClozeExample:
    """One gap-filling query about a passage.

    Args:
      query: tokens without marks; query[blank] is PLACEHOLDER.
      answers: the dataset's answer first, then its synonyms.
      tags: slices that are also scored separately ("seen", "unseen").
    """

    uid: str
    passage: Passage
    query: tuple[str, ...]
    query_entities: tuple[Entity, ...]
    blank: int
    answers: tuple[Answer, ...]
    tags: tuple[str, ...] = ()


Example = TypeVar("Example", NLIExample, ClozeExample)


@dataclass(frozen=True)
class Split(Generic[Example]):
    """The examples of one split and their source.

    facts: the source as plain JSON values, e.g. `{"file": "mli_dev_v1.jsonl", "sha256": "...",
    "rows": 1395, "dropped_unlabelled": 0, "tokens": {"binary parse": 1395, "treebank": 0}}`. It
    never holds text of the corpus.
    """

    name: str
    examples: tuple[Example, ...]
    facts: JsonObject = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.examples)
