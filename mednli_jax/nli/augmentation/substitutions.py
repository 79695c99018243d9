"""Two probes. Each pair is a sentence of a corpus and its copy with one word replaced by a related
word; the relation of the two words gives the label. The second probe first puts an operator such as
"not" into the sentence, which reverses entailment.

After Glockner et al. 2018 (Breaking NLI Systems with Sentences that Require Simple Lexical
Inferences), whose pairs were checked by hand. Here an ontology chooses the words and a rule gives
the label, so that some labels are wrong.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, permutations
from typing import NamedTuple

from mednli_jax.data.examples import NLIExample
from mednli_jax.data.text import indefinite_article
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge.mentions import Recognised
from mednli_jax.knowledge.words import singular
from mednli_jax.nli.analyses import AnalysedPairs
from mednli_jax.nli.augmentation.changes import (
    DETERMINERS,
    POS,
    RULES,
    RelatedWord,
    RelatedWords,
    Sentence,
    fits,
    related_words_of,
    words_of,
)
from mednli_jax.nli.encode.links import TextLinker, Tokens
from mednli_jax.nli.encode.texts import examples_of
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Grid, Report, Section, in_full
from mednli_jax.types import JsonObject

FILE, NEGATED_FILE = "substitutions.jsonl", "negated.jsonl"
# Words that reverse or block entailment: "no dog" does not entail "no animal".
_REVERSING = """
    no not n't never none nobody nothing nowhere neither nor without few every each all any only if
    unless than denies denied negative except most least
"""
REVERSING = frozenset(_REVERSING.split())
PAIR_MOST = 2  # pairs of a category with the same two words
SENTENCE_MOST = 2  # pairs of a premise
NEGATED_DIVISOR = 4  # the negated probe has at most --count / 4 pairs of a category


class ProbePair(NamedTuple):
    """A pair of a probe.

    Args:
      example: the example whose premise the pair is made of.
      word, related_word: the word of the premise, and the word in its place in the hypothesis.
      operator: the word that reverses entailment; "" for none.
    """

    category: str
    label: str
    example: NLIExample
    word: str
    related_word: str
    premise: str
    hypothesis: str
    operator: str = ""


def substitutions(pairs: AnalysedPairs, options: AnalysisOptions) -> Report:
    """Makes the probe of a corpus and its ontology, and the negated probe.

    A word of a held-out premise is replaced by a related word (changes.related_words_of). Both
    words occur LEAST_OCCURRENCES times or more in training. No training pair has one of them in its
    premise and the other in its hypothesis, in any inflection that the linker knows. Premises with
    a word of REVERSING are left out.

    A word of WordNet is a noun between a determiner and a word of grammar, or an adjective between
    a determiner and a content word. It is in its base form, and at least half of its senses have
    that part of speech.

    options: `count` is the most pairs of a category; `seed` chooses among more.
    """
    pairs.check_labels("substitutions")
    linker = pairs.required_source("substitutions")
    if isinstance(linker, Recognised):
        problem = "analyze substitutions: a file of mentions has no concepts of replaced words"
        raise UsageError(problem, fix="leave config.knowledge.mentions out")
    if "train" not in pairs.splits or len(pairs.splits) < 2:
        problem = "analyze substitutions: training pairs and another split are needed"
        raise UsageError(problem, fix="give a corpus")
    train = pairs.splits["train"].examples
    ontology = linker.ontology
    related_words = related_words_of(ontology, list(words_of(train, linker)))
    trained = _word_pairs_of_training(train, linker, related_words)
    held_out = {name: split for name, split in pairs.splits.items() if name != "train"}
    examples = examples_of(held_out)
    candidates = list(_candidates(examples, related_words))
    unseen = _without(candidates, trained)
    chosen = _choose(unseen, options.count, options.seed)
    unseen_negated = _without(negated_pairs(examples, related_words), trained)
    negated = _choose(unseen_negated, options.count // NEGATED_DIVISOR, options.seed)
    if not chosen:
        fix = "give a larger corpus, or another ontology"
        raise DataError("no word can be replaced by a related one", fix=fix)
    figures = {
        "ontology": ontology.name,
        "version": ontology.version,
        "seed": options.seed,
        "candidates": len(candidates),
        "linked_in_training": len(candidates) - len(unseen),
        "word_pairs": len({frozenset((pair.word, pair.related_word)) for pair in chosen}),
        "categories": _categories(chosen),
        "negated": dict(Counter(pair.category for pair in negated)),
    }
    files = {FILE: "".join(_lines(chosen)).encode()}
    if negated:
        files[NEGATED_FILE] = "".join(_lines(negated)).encode()
    if pairs.is_open:
        return Report(figures, [_section(pairs.name, figures, f"OUT/{FILE}")], files)
    section = _section(pairs.name, figures, f"OUT/private/{FILE}")
    private = in_full("substitutions", Report(figures, files=files))
    return Report(figures, [section], private=private)


def _categories(chosen: Sequence[ProbePair]) -> JsonObject:
    """The number of pairs and the label of each category that occurs."""
    counts = Counter(pair.category for pair in chosen)
    categories = {}
    for kind, label in RULES.items():
        if counts[kind]:
            categories[kind] = {"pairs": counts[kind], "label": label}
    return categories


def _lines(chosen: Sequence[ProbePair]) -> Iterator[str]:
    """The pairs as JSON lines, with the fields of nli.read.readers."""
    for number, pair in enumerate(chosen):
        row = {
            "pairID": f"{pair.category.replace(' ', '-')}-{number:05}",
            "gold_label": pair.label,
            "genre": pair.category,
            "sentence1": pair.premise,
            "sentence2": pair.hypothesis,
            "word": pair.word,
            "partner": pair.related_word,
        }
        if pair.operator:
            row["operator"] = pair.operator
        yield json.dumps(row, ensure_ascii=False) + "\n"


# ---- words of training pairs ----


def _word_pairs_of_training(
    train: Iterable[NLIExample], linker: TextLinker, related_words: RelatedWords
) -> set[tuple[str, str]]:
    """(word, related word) and (related word, word), if some training pair has one of the two in
    its premise and the other in its hypothesis."""
    related_texts: dict[str, set[str]] = defaultdict(set)
    for (word, _), words in related_words.items():
        related_texts[word].update(related_word.text for related_word in words)

    @cache
    def words_in(tokens: Tokens) -> set[str]:
        folded = set(map(str.casefold, tokens))
        # A concept of WordNet is a word's base forms with bars between: "left|leave".
        base_forms = (mention.concept.split("|") for mention in linker.link(tokens))
        return folded.union(map(singular, folded), *base_forms)

    word_pairs = set()
    for example in train:
        sides = words_in(example.premise_tokens), words_in(example.hypothesis_tokens)
        for first, second in permutations(sides):
            for word in first & related_texts.keys():
                for related_word in related_texts[word] & second:
                    word_pairs |= {(word, related_word), (related_word, word)}
    return word_pairs


def _without(pairs: Iterable[ProbePair], trained: set[tuple[str, str]]) -> list[ProbePair]:
    """The pairs whose (word, related word) is not in `trained`."""
    return [pair for pair in pairs if (pair.word, pair.related_word) not in trained]


# ---- sentences ----


def _candidates(examples: Iterable[NLIExample], related_words: RelatedWords) -> Iterator[ProbePair]:
    """Yields all pairs with one replaced word, from each distinct premise."""
    premises = set()
    for example in examples:
        tokens = list(map(str.casefold, example.premise_tokens))
        if example.premise in premises or not REVERSING.isdisjoint(tokens):
            continue
        premises.add(example.premise)
        sentence = Sentence.of(example.premise, example.premise_tokens)
        if sentence is None:
            continue
        for place, token in enumerate(tokens):
            for kind, related_word in _related_words_at(tokens, place, related_words):
                changed = sentence.with_word(place, related_word)
                if changed:
                    words = (token, related_word, example.premise, changed.text)
                    yield ProbePair(kind, RULES[kind], example, *words)


def _related_words_at(
    tokens: Sequence[str], place: int, related_words: RelatedWords
) -> Iterator[RelatedWord]:
    """Yields the words that may replace the word at a place; none if the sentence has the word
    twice."""
    token = tokens[place]
    if tokens.count(token) > 1:
        return
    for pos in POS:
        if fits(pos, tokens, place):
            for related_word in related_words.get((token, pos), ()):
                if related_word.text not in tokens:
                    yield related_word


def _choose(candidates: Iterable[ProbePair], count: int, seed: int) -> list[ProbePair]:
    """Chooses at most `count` pairs of each category, and few pairs with the same words or premise.
    The choice depends on the seed and the pairs alone, not on their order."""

    def key(pair: ProbePair) -> bytes:
        content = f"{seed}:{pair.category}:{pair.example.uid}:{pair.word}:{pair.related_word}"
        return hashlib.sha256(content.encode()).digest()

    # category -> its chosen pairs. Categories of RULES are entered first, so that they come first
    # in the result; other categories follow as they occur.
    chosen: dict[str, list[ProbePair]] = {kind: [] for kind in RULES}
    with_words: Counter[tuple[str, ...]] = Counter()
    of_premise: Counter[str] = Counter()
    for pair in sorted(candidates, key=key):
        words = (pair.category, pair.word, pair.related_word)
        is_new = with_words[words] < PAIR_MOST and of_premise[pair.premise] < SENTENCE_MOST
        if is_new and len(chosen.get(pair.category, ())) < count:
            with_words[words] += 1
            of_premise[pair.premise] += 1
            chosen.setdefault(pair.category, []).append(pair)
    return list(chain.from_iterable(chosen.values()))


def _section(corpus: str, figures: JsonObject, file: str) -> Section:
    rows = []
    for kind, category in figures["categories"].items():
        rows.append((kind, category["label"], f"{category['pairs']:,}"))
    pairs = sum(category["pairs"] for category in figures["categories"].values())
    words = [
        f"{corpus}, {figures['ontology']} {figures['version']}: {pairs:,} pairs with "
        f"{figures['word_pairs']:,} pairs of words, of {figures['candidates']:,} candidates; "
        f"{figures['linked_in_training']:,} of these are left out, because a training pair has "
        "one of the two words in its premise and the other in its hypothesis",
        f"score a run on it: python -m mednli_jax.evaluate --run=DIR --probe={file}",
    ]
    grid = Grid("", ("category", "label", "pairs"), rows, left=2)
    return Section("One word replaced by a related one", words, [grid])


# ---- the negated probe ----
#
# Simple premises with an operator put in: "A man is not riding a horse". Under the operator the
# general word entails the special one. The templates are whole patterns of sentences. They share no
# rule with polarity.py, on which the labels of the augmentation pairs depend: a fault in one is not
# repeated in the other.

NEGATED_LABELS = {"hypernym": "neutral", "hyponym": "entailment"}
# A premise in which a noun follows the verb with an indefinite article: "A man in a hat | is |
# riding | a horse | in a park." The rest of the sentence is the same on both sides.
_SIMPLE = re.compile(
    r"(?P<subject>[A-Z][a-z]*( [a-z-]+){1,7}) (?P<be>is|are) "
    r"(?P<verb>[a-z]+(ing|ed|en)( [a-z]+){0,2}) an? (?P<word>[a-z]+)"
    r"(?P<rest>(?= ?[.,]?$|,| (in|on|at|by|near|with|from|for|to|down|under|while|as)\b).*)",
)
_WITH = re.compile(r"\bwith an? (?P<word>[a-z]+)(?= ?[.,]?$|,| (is|are|in|on|at|by|while)\b)")
# Words that begin another clause, and words that would be a second operator.
_CLAUSES = frozenset(
    ("and", "or", "but", "while", "as", "who", "which", "that", "because", "when", "where", "if")
)
_SECOND = """
    not no n't few never nobody none without every each all any only most more than just both
    nothing neither nor hardly less
"""
_OPERATORS = frozenset(_SECOND.split())
_PLURAL = frozenset(("two", "three", "four", "five", "six", "some", "several", "many", "the"))
WITHOUT = "without"


class OperatorTemplate(NamedTuple):
    """The form of a simple premise with an operator put in.

    Args:
      be: the auxiliary that the premise must have.
      pattern: the new sentence up to the noun, with the groups of _SIMPLE; `people` is the subject
        without its determiner.
      determiners: the words that the subject may begin with; empty for any subject.
    """

    operator: str
    be: str
    pattern: str
    determiners: frozenset[str] = frozenset()

    def fits(self, be: str, determiner: str) -> bool:
        is_determiner = not self.determiners or determiner.casefold() in self.determiners
        return be == self.be and is_determiner


OPERATOR_TEMPLATES = (
    OperatorTemplate("not", "is", "{subject} is not {verb}"),
    OperatorTemplate("n't", "is", "{subject} isn't {verb}"),
    OperatorTemplate("no", "is", "No {people} is {verb}", DETERMINERS),
    OperatorTemplate("never", "is", "{subject} is never {verb}"),
    OperatorTemplate("nobody", "is", "Nobody is {verb}"),
    OperatorTemplate("few", "are", "Few {people} are {verb}", _PLURAL),
)


class _Frame(NamedTuple):
    """A premise with an operator, cut at the noun after the operator: a related word may replace
    this noun, `word`."""

    operator: str
    before: str
    word: str
    after: str

    def with_word(self, word: str) -> str:
        return f"{self.before} {indefinite_article(word)} {word}{self.after}"


def negated_pairs(
    examples: Iterable[NLIExample], related_words: RelatedWords
) -> Iterator[ProbePair]:
    """Yields all pairs of the negated probe, from each distinct premise."""
    premises = {example.premise: example for example in examples}
    for premise, example in premises.items():
        for frame in _frames(premise.strip()):
            for kind, related_word in related_words.get((frame.word, "n"), ()):
                if kind in NEGATED_LABELS and not re.search(rf"\b{related_word}\b", premise):
                    yield ProbePair(
                        f"{frame.operator} {kind}",
                        NEGATED_LABELS[kind],
                        example,
                        frame.word,
                        related_word,
                        premise=frame.with_word(frame.word),
                        hypothesis=frame.with_word(related_word),
                        operator=frame.operator,
                    )


def _frames(premise: str) -> Iterator[_Frame]:
    """Yields a frame for each operator that can be put into the premise."""
    words = premise.casefold().replace("n't", " n't").split()
    if not _OPERATORS.isdisjoint(words):
        return
    simple = _SIMPLE.fullmatch(premise)
    if simple and _CLAUSES.isdisjoint(f"{simple['subject']} {simple['verb']}".split()):
        determiner, _, people = simple["subject"].partition(" ")
        for template in OPERATOR_TEMPLATES:
            if template.fits(simple["be"], determiner):
                before = template.pattern.format_map(simple.groupdict() | {"people": people})
                yield _Frame(template.operator, before, simple["word"], simple["rest"])
    if noun := _WITH.search(premise):
        before = premise[: noun.start()]
        yield _Frame(WITHOUT, f"{before}{WITHOUT}", noun["word"], premise[noun.end() :])
