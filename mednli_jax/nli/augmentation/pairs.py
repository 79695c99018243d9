"""Augmentation pairs of WordNet: a training premise, and a copy in which one word is replaced by a
related one.

Natural logic gives the label. The premises are those of the training pairs, with and without a
negation that is put in.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.examples import LABELS, NLIExample
from mednli_jax.errors import ConfigError, DataError, Problems
from mednli_jax.files.reading import json_lines, line_fault
from mednli_jax.knowledge.words import Lemmas
from mednli_jax.nli.augmentation.changes import RULES, Change, Sentence, WordChanges
from mednli_jax.nli.augmentation.polarity import INSERTED, operators_in
from mednli_jax.types import JsonObject

FORMAT = 6  # raised when the same corpus gets other pairs
WORDS_MOST = 6  # pairs of a category with the same two words
PREMISE_MOST = 3  # pairs of a premise
PROBE = "give the folder that `analyze substitutions` wrote"
NO_AUGMENTATION = "No augmentation pair was found: config.data.augment has no effect."

# (scope of the replaced word, what the new word is to it) -> label of the pair
LABEL_OF = {
    **{("plain", kind): label for kind, label in RULES.items()},
    # The sentence has a negation, and the word is outside of its scope. Antonyms and co-hyponyms
    # give no pair here, because the two sentences may be about two things.
    ("outside", "synonym"): "entailment",
    ("outside", "hypernym"): "entailment",
    ("outside", "hyponym"): "neutral",
    # The word is in the scope of a negation: "no animal" entails "no dog". Antonyms give no pair,
    # because "not hot" may be cold or warm.
    ("negated", "synonym"): "entailment",
    ("negated", "hyponym"): "entailment",
    ("negated", "hypernym"): "neutral",
    ("negated", "co_hyponym"): "neutral",
}


@dataclass(frozen=True)
class Augmentation:
    """The fields data.augment of a config.

    Args:
      share: augmentation pairs per training pair; 0.5 adds half as many.
      seed: chooses among the possible pairs.
      withheld: the folder of `analyze substitutions`, whose pairs of words are left out.
    """

    share: float
    seed: int = 0
    withheld: Path | None = None

    def files(self) -> list[Path]:
        """The files of the pairs that are withheld."""
        if self.withheld is None:
            return []
        files = sorted(self.withheld.glob("*.jsonl"))
        if not files:
            problem = f"{self.withheld}: no .jsonl file is there"
            raise ConfigError(problem, field="data.augment_without", fix=PROBE)
        return files

    def key(self) -> list[float]:
        """The settings that shape the pairs, for the key of the prepared folder."""
        return [FORMAT, self.share, self.seed]


@dataclass(frozen=True)
class Withheld:
    """The words that a probe tests, so that augmentation leaves them out.

    Args:
      words: unordered pairs of words, in their base forms.
      operators: words that reverse entailment, without those of INSERTED.
    """

    words: frozenset[frozenset[str]] = frozenset()
    operators: frozenset[str] = frozenset()

    @classmethod
    def of_files(cls, files: Sequence[Path]) -> "Withheld":
        words, operators = set(), set()
        problems = Problems()
        for path in files:
            for number, fields in json_lines(path, problems):
                if {"word", "partner"} <= fields.keys():
                    words.add(frozenset((fields["word"], fields["partner"])))
                    operators.add(fields.get("operator", ""))
                else:
                    problems.add(line_fault(path.name, number, "has no word and partner", PROBE))
        problems.raise_if_any()
        return cls(frozenset(words), frozenset(operators) - {"", *INSERTED})


@dataclass(frozen=True)
class AugmentationPairs:
    """The augmentation pairs. examples: in the form of the training pairs. facts: counts for the
    manifest."""

    examples: tuple[NLIExample, ...]
    facts: JsonObject

    @property
    def note(self) -> str:
        """The counts as a sentence, for the log and the page of a run."""
        if not self.examples:
            return NO_AUGMENTATION
        counts = [f"{name} {count:,}" for name, count in self.facts["categories"].items()]
        origin = "{pairs} augmentation pairs by {ontology}"
        return f"{origin.format_map(self.facts)}: {'; '.join(counts)}"


class _Candidate(NamedTuple):
    """A possible augmentation pair.

    Args:
      rank: a random number, by which candidates are sorted.
      number: the number of the training example that the premise is taken from.
      premise: the premise of this example, or the same with a negation.
      change: the replaced word of the hypothesis.
    """

    rank: bytes
    number: int
    premise: Sentence
    change: Change

    @property
    def words(self) -> tuple[str, str]:
        """The replaced word and the new one, in lower case."""
        return self.premise.tokens[self.change.place].casefold(), self.change.word

    @property
    def label(self) -> str:
        return LABEL_OF[self.change.scope, self.change.kind]


def augmentation_pairs(
    train: Sequence[NLIExample], linker: Lemmas, settings: Augmentation, withheld: Withheld
) -> AugmentationPairs:
    """Makes the augmentation pairs for the training pairs of a corpus.

    Their labels have the shares of the training pairs' labels: if one label has too few candidates,
    fewer of the others are taken. The categories of a label have equal shares, as far as there are
    candidates.
    """
    balance = Counter(example.label for example in train if example.label)
    if missing := [label for label in LABELS if not balance[label]]:
        problem = f"no training pair has the label {' or '.join(missing)}"
        fix = "augmentation is for entailment, neutral and contradiction: leave it out"
        raise DataError(f"config.data.augment: {problem}", fix=fix)
    candidates = _candidates(train, WordChanges(train, linker), withheld, settings.seed)
    chosen = _choose(candidates, balance, settings.share)
    examples = []
    for number, candidate in enumerate(chosen):
        examples.append(_example(candidate, train[candidate.number], number))
    categories = Counter(candidate.change.category for candidate in chosen)
    facts = {
        "pairs": len(chosen),
        "labels": dict(Counter(candidate.label for candidate in chosen)),
        "categories": dict(sorted(categories.items())),
        "word_pairs": len({frozenset(candidate.words) for candidate in chosen}),
        "ontology": f"{linker.ontology.name} {linker.ontology.version}",
    }
    return AugmentationPairs(tuple(examples), facts)


# ---- choice ----

Queues = dict[str, list[_Candidate]]  # category -> its candidates, the next one last
# One counter for two limits. Keys: (category, replaced word, new word), for WORDS_MOST; and the
# number of a premise, for PREMISE_MOST. Values: candidates that were taken.
Counts = Counter[tuple[str, ...] | int]


def _choose(
    candidates: Iterable[_Candidate], balance: Mapping[str, int], share: float
) -> list[_Candidate]:
    """Chooses the candidates that become pairs.

    1. Each category of a label has a queue of its candidates, in random order.
    2. Each label takes share * balance candidates, from its queues in turn.
    3. If a label has fewer, all labels are cut to the share that it reached.

    balance: label -> the number of training pairs.
    """
    queues_of: dict[str, Queues] = {label: defaultdict(list) for label in LABELS}
    for candidate in sorted(candidates, reverse=True):  # queues are read from their ends
        queues_of[candidate.label][candidate.change.category].append(candidate)
    size_of = {label: sum(map(len, queues.values())) for label, queues in queues_of.items()}
    counts: Counts = Counter()
    taken: dict[str, list[_Candidate]] = {}
    # All labels share the limits of words and premises, so that the scarcest label comes first.
    for label in sorted(LABELS, key=size_of.__getitem__):
        wanted = round(share * balance[label])
        taken[label] = list(islice(_in_turn(queues_of[label], counts), wanted))
    reached = min(len(taken[label]) / balance[label] for label in LABELS)
    chosen: list[_Candidate] = []
    for label in LABELS:
        chosen += taken[label][: round(min(share, reached) * balance[label])]
    return chosen


def _in_turn(queues: Queues, counts: Counts) -> Iterator[_Candidate]:
    """Yields candidates within the limits, one of each category in turn."""
    while any(queues.values()):
        for category in sorted(queues):
            candidate = _next_allowed(queues[category], counts)
            if candidate is not None:
                yield candidate


def _next_allowed(queue: list[_Candidate], counts: Counts) -> _Candidate | None:
    """Takes the next candidate within the limits from the end of a queue, and drops those before
    it; None if there is none."""
    while queue:
        candidate = queue.pop()
        words = (candidate.change.category, *candidate.words)
        if counts[words] < WORDS_MOST and counts[candidate.number] < PREMISE_MOST:
            counts.update((words, candidate.number))
            return candidate
    return None


# ---- sentences ----


def _candidates(
    train: Iterable[NLIExample], changer: WordChanges, withheld: Withheld, seed: int
) -> Iterator[_Candidate]:
    """Yields, for each distinct premise, at most PREMISE_MOST candidates of each category. Premises
    with an operator that is withheld are left out."""
    premises: set[str] = set()
    for number, example in enumerate(train):
        if example.premise in premises:
            continue
        premises.add(example.premise)
        sentence = Sentence.of(example.premise, example.premise_tokens)
        if sentence is None or not withheld.operators.isdisjoint(operators_in(sentence.tokens)):
            continue
        candidates_of: Queues = defaultdict(list)
        negated = changer.negate(sentence, turn=len(premises))
        for premise in filter(None, (sentence, negated)):
            for change in changer.changes(premise):
                candidate = _candidate(number, premise, change, seed)
                is_withheld = frozenset(candidate.words) in withheld.words
                if (change.scope, change.kind) in LABEL_OF and not is_withheld:
                    candidates_of[change.category].append(candidate)
        for candidates in candidates_of.values():
            yield from sorted(candidates)[:PREMISE_MOST]


def _candidate(number: int, premise: Sentence, change: Change, seed: int) -> _Candidate:
    content = f"{seed}:{change.category}:{premise.text}:{change.place}:{change.word}"
    return _Candidate(hashlib.sha256(content.encode()).digest(), number, premise, change)


def _example(candidate: _Candidate, source: NLIExample, number: int) -> NLIExample:
    """The augmentation pair of a candidate. source: the training example of its premise."""
    premise, change = candidate.premise, candidate.change
    hypothesis = premise.with_word(change.place, change.word)
    assert hypothesis is not None
    return NLIExample(
        uid=f"augmentation {number:06}",
        premise=premise.text,
        hypothesis=hypothesis.text,
        label=candidate.label,
        premise_tokens=premise.tokens,
        hypothesis_tokens=hypothesis.tokens,
        group=source.group if premise.text == source.premise else premise.text,
    )
