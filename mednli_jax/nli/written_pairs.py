"""Training pairs that an ontology writes: a premise, and a copy with one word replaced by a related
one.

Natural logic gives the label (see nli.polarity). Sentences are those of the training premises, as
they stand and with a negation put in.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.examples import LABELS, Facts, NLIExample
from mednli_jax.errors import ConfigError, DataError, Problems
from mednli_jax.files import json_lines, line_fault
from mednli_jax.nli.encoding import TextLinker, Tokens
from mednli_jax.nli.polarity import (
    AUXILIARIES,
    DOWN,
    NEGATIONS,
    NUMBERS,
    UP,
    directions,
    operators_in,
)
from mednli_jax.nli.replacements import (
    DETERMINERS,
    PARTS,
    RULES,
    Partner,
    Partners,
    article,
    fits,
    partners_of,
    words_of,
)

FORMAT = 1  # raised when the same corpus gets other pairs
WORDS_MOST = 6  # pairs of a category with the same two words
PREMISE_MOST = 3  # pairs of a premise
WRITTEN = "written "  # begins the uid of each written pair
_AMOUNTS = NUMBERS | {"some"}
_DETERMINERS = DETERMINERS | {"no", "any", "every", "each", "without"}
PROBE = "give the folder that `analyze substitutions` wrote"

# (place of the word, relation of the word to its partner) -> label. Sources: nli.polarity.
_ENTAILED, _OPEN = "entailment", "neutral"
LABEL_OF = {
    **{("plain", kind): label for kind, label in RULES.items()},
    # Beside a negation, and outside of its scope, words that exclude each other write no pair: the
    # two sentences may be of two things.
    ("outside", "synonym"): _ENTAILED,
    ("outside", "hypernym"): _ENTAILED,
    ("outside", "hyponym"): _OPEN,
    # In its scope a general word entails a special one. Antonyms write no pair: "not hot" may be
    # cold or warm.
    ("negated", "synonym"): _ENTAILED,
    ("negated", "hyponym"): _ENTAILED,
    ("negated", "hypernym"): _OPEN,
    ("negated", "co_hyponym"): _OPEN,
}


@dataclass(frozen=True)
class Augment:
    """The section of a config.

    Args:
      share: written pairs of each training pair.
      seed: of the choice among possible pairs.
      withheld: the folder of `analyze substitutions`, whose pairs of words are not written.
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
    """What a probe asks about.

    Args:
      words: unordered pairs of words, in their base forms.
      operators: words that reverse entailment, other than those that are put into sentences.
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
        return cls(frozenset(words), frozenset(operators) - {"", *NEGATIONS})

    def removed(self, partners: Partners) -> Partners:
        """The partners without these words."""
        left = {}
        for (word, part), related_words in partners.items():
            left[word, part] = [
                partner
                for partner in related_words
                if frozenset((word, partner.text)) not in self.words
            ]
        return left


@dataclass(frozen=True)
class Written:
    """examples: in the form of the training pairs. facts: counts for the manifest."""

    examples: tuple[NLIExample, ...]
    facts: Facts

    @property
    def note(self) -> str:
        """The counts as a sentence, for the log and the page of a run."""
        counts = [f"{name} {count:,}" for name, count in self.facts["categories"].items()]
        origin = "{pairs} training pairs were written by {ontology} {version}"
        return f"{origin.format_map(self.facts)}: {'; '.join(counts)}"


class Sentence(NamedTuple):
    """A text, its tokens, and the first character of each and the one after its last."""

    text: str
    tokens: Tokens
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str, tokens: Sequence[str]) -> "Sentence | None":
        """None where the tokens are not those of the text as it stands."""
        spans = []
        end = 0
        for token in tokens:
            start = text.find(token, end)
            if start < 0:
                return None
            end = start + len(token)
            spans.append((start, end))
        return cls(text, tuple(tokens), tuple(spans))

    def changed(self, first: int, last: int, text: str, tokens: Sequence[str]) -> "Sentence | None":
        """With a text and its tokens in place of tokens `first` to `last` (exclusive)."""
        start = self.spans[first][0] if last > first else self.spans[first - 1][1]
        end = self.spans[last - 1][1] if last > first else start
        new = self.text[:start] + text + self.text[end:]
        return Sentence.of(new, (*self.tokens[:first], *tokens, *self.tokens[last:]))


class _Candidate(NamedTuple):
    """A pair that could be written.

    Args:
      rank: a random number, by which candidates are sorted.
      scope: the first half of the keys of LABEL_OF.
      number: of the training example that the premise is taken from.
      premise: as it stands, or with a negation. place: of the word in it.
    """

    rank: bytes
    scope: str
    kind: str
    number: int
    premise: Sentence
    place: int
    word: str
    partner: str

    @property
    def label(self) -> str:
        return LABEL_OF[self.scope, self.kind]

    @property
    def category(self) -> str:
        return _category(self.scope, self.kind)


def _category(scope: str, kind: str) -> str:
    return kind if scope == "plain" else f"{kind}, {scope}"


def written_pairs(
    train: Sequence[NLIExample], linker: TextLinker, augment: Augment, withheld: Withheld
) -> Written:
    """The pairs of an ontology for the training pairs of a corpus.

    Their labels have the shares of the training pairs' labels: where there are too few candidates
    of one label, fewer of the others are written. The categories of a label have equal shares, as
    far as there are candidates.
    """
    balance = Counter(example.label for example in train if example.label)
    if missing := [label for label in LABELS if not balance[label]]:
        problem = f"no training pair has the label {' or '.join(missing)}"
        fix = "pairs are written for entailment, neutral and contradiction: leave it out"
        raise DataError(f"config.data.augment: {problem}", fix=fix)
    partners = partners_of(linker.ontology, list(words_of(train, linker)))
    candidates = _candidates(train, withheld.removed(partners), withheld.operators, augment.seed)
    chosen = _chosen(candidates, balance, augment.share)
    examples = []
    for number, candidate in enumerate(chosen):
        examples.append(_example(candidate, train[candidate.number], number))
    categories = Counter(candidate.category for candidate in chosen)
    facts = {
        "pairs": len(chosen),
        "labels": dict(Counter(candidate.label for candidate in chosen)),
        "categories": dict(sorted(categories.items())),
        "word_pairs": len({frozenset((pair.word, pair.partner)) for pair in chosen}),
        "ontology": linker.ontology.name,
        "version": linker.ontology.version,
    }
    return Written(tuple(examples), facts)


# ---- choice ----

Queues = dict[str, list[_Candidate]]  # of each category


def _chosen(
    candidates: Iterable[_Candidate], balance: Mapping[str, int], share: float
) -> list[_Candidate]:
    """balance: the number of training pairs of each label."""
    queues_of: dict[str, Queues] = {label: defaultdict(list) for label in LABELS}
    for candidate in sorted(candidates, reverse=True):
        queues_of[candidate.label][candidate.category].append(candidate)
    sizes = {label: sum(map(len, queues.values())) for label, queues in queues_of.items()}
    counts: Counter[tuple[str, ...] | int] = Counter()
    taken: dict[str, list[_Candidate]] = {}
    for label in sorted(LABELS, key=sizes.__getitem__):
        wanted = round(share * balance[label])
        taken[label] = list(islice(_in_turn(queues_of[label], counts), wanted))
    least = min(len(taken[label]) / balance[label] for label in LABELS)
    chosen: list[_Candidate] = []
    for label in LABELS:
        chosen += taken[label][: round(min(share, least) * balance[label])]
    return chosen


def _in_turn(queues: Queues, counts: Counter[tuple[str, ...] | int]) -> Iterator[_Candidate]:
    """Candidates from the ends of the queues, one of each category in turn. counts: of the words
    and premises that were taken, which have limits."""
    while any(queues.values()):
        for category, queue in sorted(queues.items()):
            while queue:
                candidate = queue.pop()
                words = (category, candidate.word, candidate.partner)
                if counts[words] < WORDS_MOST and counts[candidate.number] < PREMISE_MOST:
                    counts.update((words, candidate.number))
                    yield candidate
                    break


# ---- sentences ----


def _candidates(
    train: Iterable[NLIExample], partners: Partners, withheld: frozenset[str], seed: int
) -> Iterator[_Candidate]:
    """For each distinct premise at most PREMISE_MOST candidates of each category. Premises with an
    operator that is withheld are left out."""
    premises = set()
    for number, example in enumerate(train):
        if example.premise in premises:
            continue
        premises.add(example.premise)
        sentence = Sentence.of(example.premise, example.premise_tokens)
        if sentence is None or not withheld.isdisjoint(operators_in(sentence.tokens)):
            continue
        candidates_of: Queues = defaultdict(list)
        for premise in (sentence, _negated(sentence, len(premises))):
            for candidate in _replaced(premise, number, partners, seed):
                candidates_of[candidate.category].append(candidate)
        for candidates in candidates_of.values():
            yield from sorted(candidates)[:PREMISE_MOST]


def _replaceable(tokens: Sequence[str], partners: Partners) -> Iterator[tuple[int, Partner]]:
    """The places of words that have a partner, and the partner."""
    words = list(map(str.casefold, tokens))
    for place, word in enumerate(words):
        # "a group of people" is no kind of "an organization of people".
        if words.count(word) > 1 or words[place + 1 : place + 2] == ["of"]:
            continue
        for part in PARTS:
            if (word, part) in partners and fits(part, words, place, _DETERMINERS):
                for partner in partners[word, part]:
                    if partner.text not in words:
                        yield place, partner


def _replaced(
    premise: Sentence | None, number: int, partners: Partners, seed: int
) -> Iterator[_Candidate]:
    """The candidates of a premise whose place has a direction, and whose relation has a label."""
    if premise is None:
        return
    direction_of = directions(premise.tokens)
    is_plain = not operators_in(premise.tokens)
    scope_of = {UP: "plain" if is_plain else "outside", DOWN: "negated"}
    for place, partner in _replaceable(premise.tokens, partners):
        scope, kind = scope_of.get(direction_of[place], ""), partner.kind
        if (scope, kind) in LABEL_OF:
            content = f"{seed}:{_category(scope, kind)}:{premise.text}:{place}:{partner.text}"
            rank = hashlib.sha256(content.encode()).digest()
            word = premise.tokens[place].casefold()
            yield _Candidate(rank, scope, kind, number, premise, place, word, partner.text)


def _negated(sentence: Sentence, turn: int) -> Sentence | None:
    """The sentence with one of NEGATIONS: "not" or "n't" after its first auxiliary, or "no" in
    place of an indefinite article or of a number that begins it.

    None for a sentence that has none of these places. turn: a number that chooses among them.
    """
    words = list(map(str.casefold, sentence.tokens))
    auxiliaries = [place for place, word in enumerate(words) if word in AUXILIARIES]
    articles = [place for place, word in enumerate(words) if word in ("a", "an")]
    if words and words[0] in _AMOUNTS:
        articles.append(0)
    if operators_in(words) or not (auxiliaries or articles):
        return None
    if articles and (turn % 3 == 0 or not auxiliaries):
        place = articles[turn // 3 % len(articles)]
        no = "No" if sentence.tokens[place][0].isupper() else "no"
        return sentence.changed(place, place + 1, no, [no])
    after = auxiliaries[0] + 1
    if turn % 2:
        return sentence.changed(after, after, " not", ["not"])
    return sentence.changed(after, after, "n't", ["n't"])


def _example(candidate: _Candidate, source: NLIExample, number: int) -> NLIExample:
    """The pair. source: the training example of its premise."""
    premise, place = candidate.premise, candidate.place
    old, partner = premise.tokens[place], candidate.partner
    new = partner.capitalize() if old[0].isupper() else partner
    first, words = place, [new]
    if place and premise.tokens[place - 1].casefold() in ("a", "an"):
        is_upper = premise.tokens[place - 1][0].isupper()
        fitting = article(partner)
        first, words = place - 1, [fitting.capitalize() if is_upper else fitting, new]
    hypothesis = premise.changed(first, place + 1, " ".join(words), words)
    assert hypothesis is not None
    return NLIExample(
        uid=f"{WRITTEN}{number:06}",
        premise=premise.text,
        hypothesis=hypothesis.text,
        label=candidate.label,
        premise_tokens=premise.tokens,
        hypothesis_tokens=hypothesis.tokens,
        group=source.group if premise.text == source.premise else premise.text,
    )
