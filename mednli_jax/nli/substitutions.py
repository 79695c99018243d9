"""A probe: sentences of a corpus with one word replaced by a related one, labelled by the relation.

After Glockner et al. 2018 (Breaking NLI Systems with Sentences that Require Simple Lexical
Inferences), whose pairs were checked by hand. Here an ontology chooses the words and a rule gives
the label, so that some labels are wrong.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from mednli_jax.data.examples import Facts, NLIExample
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge.lemmas import Lemmas
from mednli_jax.knowledge.mentions import Recognised
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.relations import ANTONYM, CO_HYPONYM, KINDS, related
from mednli_jax.knowledge.words import FUNCTION_WORDS, singular
from mednli_jax.nli.analyses import Pairs
from mednli_jax.nli.encoding import TextLinker, Tokens, examples_of
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Grid, Report, Section, in_full

FILE = "substitutions.jsonl"
RULES = {
    "synonym": "entailment",
    "hypernym": "entailment",
    "hyponym": "neutral",
    "antonym": "contradiction",
    "co_hyponym": "contradiction",
}
COMPARED = ("er", "est")  # endings of comparatives, which WordNet does not list
# WordNet's noun categories whose co-hyponyms mostly exclude each other.
CONCRETE = ("noun.animal", "noun.artifact", "noun.body", "noun.food", "noun.plant")
LEAST = 3
STEPS = 2  # is-a edges to a hypernym or hyponym, at most
PAIR_MOST = 2  # pairs of a category with the same two words
SENTENCE_MOST = 2  # pairs of a premise
DETERMINERS = frozenset(
    ("a", "an", "the", "his", "her", "their", "its", "this", "that", "another", "one")
)
# Words within whose scope a more general word does not follow from a narrower one.
_REVERSING = """
    no not n't never none nobody nothing nowhere neither nor without few every each all any only if
    unless than denies denied negative except most least
"""
REVERSING = frozenset(_REVERSING.split())
PRONOUNS = frozenset(("someone", "somebody", "something", "anyone", "everyone", "other", "one"))
PARTS = ("", "n", "a")  # parts of speech: any, noun, adjective


class _Word(NamedTuple):
    """A word and its concepts in one part of speech.

    senses: of this part of speech, the most frequent first. concepts: of all parts of speech.
    """

    text: str
    part: str
    senses: tuple[int, ...]
    concepts: tuple[int, ...]


class _Partner(NamedTuple):
    """A related word; kind: the relation of the first word to it, one of RULES."""

    kind: str
    text: str


Partners = Mapping[tuple[str, str], Sequence[_Partner]]  # of a word in a part of speech


class _Candidate(NamedTuple):
    """The premise of an example, and the sentence in which the partner replaces the word."""

    kind: str
    example: NLIExample
    word: str
    partner: str
    sentence: str


def substitutions(pairs: Pairs, options: AnalysisOptions) -> Report:
    """The probe of a corpus and its ontology.

    A word of a held-out premise is replaced by a related word. Both words occur LEAST times or more
    in training. No training pair has one of them in its premise and the other in its hypothesis, in
    any inflection that the linker knows. The most frequent senses of the two words have one
    relation alone, and all their senses together have the same one; antonyms may also be
    co-hyponyms. Premises with a word of REVERSING are left out.

    Words of WordNet are nouns between a determiner and a word of grammar, or adjectives between a
    determiner and a content word. They stand in their base form, and at least half of their senses
    are of that part of speech.

    options: count, pairs of each category, at most; seed, of the choice among more.
    """
    linker = pairs.needs_knowledge("substitutions")
    if isinstance(linker, Recognised):
        problem = "analyze substitutions: concepts of a file say nothing of new words"
        raise UsageError(problem, fix="leave it out")
    if "train" not in pairs.splits or len(pairs.splits) < 2:
        problem = "analyze substitutions: training pairs and another split are needed"
        raise UsageError(problem, fix="give a corpus")
    train = pairs.splits["train"].examples
    ontology = linker.ontology
    partners = _partners(ontology, list(_words(train, linker)))
    trained = _trained(train, linker, partners)
    held_out = {name: split for name, split in pairs.splits.items() if name != "train"}
    candidates = list(_candidates(examples_of(held_out), partners))
    unseen = [
        candidate for candidate in candidates if (candidate.word, candidate.partner) not in trained
    ]
    chosen = _chosen(unseen, options.count, options.seed)
    if not chosen:
        fix = "give a larger corpus, or another ontology"
        raise DataError("no word can be replaced by a related one", fix=fix)
    figures = {
        "ontology": ontology.name,
        "version": ontology.version,
        "seed": options.seed,
        "candidates": len(candidates),
        "linked_in_training": len(candidates) - len(unseen),
        "word_pairs": len({frozenset((pair.word, pair.partner)) for pair in chosen}),
        "categories": _categories(chosen),
    }
    files = {FILE: "".join(_lines(chosen)).encode()}
    if pairs.is_open:
        return Report(figures, [_section(pairs.name, figures, f"OUT/{FILE}")], files)
    section = _section(pairs.name, figures, f"OUT/private/{FILE}")
    private = in_full("substitutions", Report(figures, files=files))
    return Report(figures, [section], private=private)


def _categories(chosen: Sequence[_Candidate]) -> Facts:
    """The number of pairs and the label of each category that occurs."""
    counts = Counter(pair.kind for pair in chosen)
    categories = {}
    for kind, label in RULES.items():
        if counts[kind]:
            categories[kind] = {"pairs": counts[kind], "label": label}
    return categories


def _lines(chosen: Sequence[_Candidate]) -> Iterator[str]:
    """The pairs as JSON lines, with the fields of nli.readers."""
    for number, pair in enumerate(chosen):
        row = {
            "pairID": f"{pair.kind}-{number:05}",
            "gold_label": RULES[pair.kind],
            "genre": pair.kind,
            "sentence1": pair.example.premise,
            "sentence2": pair.sentence,
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"


# ---- words and their partners ----


def _words(train: Iterable[NLIExample], linker: TextLinker) -> Iterator[_Word]:
    """The words of the training pairs that may be replaced, or may replace another."""
    counts: Counter[str] = Counter()
    for example in train:
        counts.update(example.premise_tokens)
        counts.update(example.hypothesis_tokens)
    for word, count in sorted(counts.items()):
        is_word = word.isalpha() and word.isascii() and word.islower()
        if count < LEAST or not is_word or singular(word) != word or word in PRONOUNS:
            continue
        mentions = linker.link([word])
        if len(mentions) != 1:
            continue
        concepts = tuple(linker.indices(mentions[0].concept))
        if not isinstance(linker, Lemmas):
            yield _Word(word, "", concepts, concepts)
        elif mentions[0].concept == word:
            for part in "na":
                ids = linker.ontology.ids
                senses = tuple(concept for concept in concepts if ids[concept][0] == part)
                compared = part == "a" and word.endswith(COMPARED)
                if 2 * len(senses) >= len(concepts) and not compared:
                    yield _Word(word, part, senses, concepts)


def _partners(ontology: Ontology, words: Sequence[_Word]) -> Partners:
    """The words that have one relation to each word."""
    by_first = [(word.text, word.senses[:1]) for word in words]
    by_all = [(word.text, word.concepts) for word in words]
    of_first = related(ontology, by_first, max_length=STEPS)
    of_all = related(ontology, by_all, max_length=STEPS)
    bits_of_all = dict(zip(of_all.keys.tolist(), of_all.bits.tolist(), strict=True))
    kind_of_bits = {1 << KINDS.index(kind): kind for kind in RULES}
    kind_of_bits[ANTONYM | CO_HYPONYM] = "antonym"
    partners = defaultdict(list)
    for key, bits in zip(of_first.keys.tolist(), of_first.bits.tolist(), strict=True):
        first, second = divmod(key, len(words))
        word, partner = words[first], words[second]
        kind = kind_of_bits.get(bits)
        if kind is None or word.part != partner.part or bits != bits_of_all[key]:
            continue
        is_concrete = ontology.types[word.senses[0]].startswith(CONCRETE)
        if kind != "co_hyponym" or not word.part or is_concrete:
            partners[word.text, word.part].append(_Partner(kind, partner.text))
    return partners


def _trained(
    train: Iterable[NLIExample], linker: TextLinker, partners: Partners
) -> set[tuple[str, str]]:
    """The pairs of words, in both orders, of which a training pair has one on each side."""
    partners_of: dict[str, set[str]] = defaultdict(set)
    for (word, _), related_words in partners.items():
        partners_of[word].update(partner.text for partner in related_words)
    words_of: dict[Tokens, set[str]] = {}

    def words(tokens: Tokens) -> set[str]:
        if tokens not in words_of:
            folded = set(map(str.casefold, tokens))
            keys = (mention.concept.split("|") for mention in linker.link(tokens))
            words_of[tokens] = folded.union(map(singular, folded), *keys)
        return words_of[tokens]

    trained = set()
    for example in train:
        sides = words(example.premise_tokens), words(example.hypothesis_tokens)
        for first, second in permutations(sides):
            for word in first & partners_of.keys():
                for partner in partners_of[word] & second:
                    trained |= {(word, partner), (partner, word)}
    return trained


# ---- sentences ----


def _candidates(examples: Iterable[NLIExample], partners: Partners) -> Iterator[_Candidate]:
    """All replacements in the premises, each distinct premise once."""
    premises = set()
    for example in examples:
        tokens = list(map(str.casefold, example.premise_tokens))
        if example.premise in premises or not REVERSING.isdisjoint(tokens):
            continue
        premises.add(example.premise)
        for place, token in enumerate(tokens):
            if tokens.count(token) > 1:
                continue
            for part in PARTS:
                if not _fits(part, tokens, place):
                    continue
                for kind, partner in partners.get((token, part), ()):
                    sentence = _replaced(example.premise, token, partner)
                    if sentence and partner not in tokens:
                        yield _Candidate(kind, example, token, partner, sentence)


def _fits(part: str, tokens: Sequence[str], place: int) -> bool:
    """Whether a word of a part of speech may stand at this place."""
    if not part:
        return True
    after = tokens[place + 1] if place + 1 < len(tokens) else "."
    of_grammar = after in FUNCTION_WORDS or not after.isalpha()
    return place > 0 and tokens[place - 1] in DETERMINERS and of_grammar == (part == "n")


def _replaced(text: str, word: str, partner: str) -> str | None:
    """The text with the word replaced and its article made to fit; None unless the word occurs
    exactly once."""
    matches = list(re.finditer(rf"\b(?:(an?)(\s+))?({word})\b", text, re.IGNORECASE))
    if len(matches) != 1:
        return None
    article, gap, old = matches[0].groups()
    new = partner.capitalize() if old[0].isupper() else partner
    if article:
        fitting = "an" if partner[0] in "aeiou" else "a"
        new = (fitting.capitalize() if article[0].isupper() else fitting) + gap + new
    return text[: matches[0].start()] + new + text[matches[0].end() :]


def _chosen(candidates: Iterable[_Candidate], count: int, seed: int) -> list[_Candidate]:
    """At most `count` of each category, in an order that depends on the seed and the pairs
    alone."""

    def key(pair: _Candidate) -> bytes:
        content = f"{seed}:{pair.kind}:{pair.example.uid}:{pair.word}:{pair.partner}"
        return hashlib.sha256(content.encode()).digest()

    chosen = []
    counts: Counter[tuple[str, ...]] = Counter()
    for pair in sorted(candidates, key=key):
        limits = {
            (pair.kind, ""): count,
            (pair.kind, pair.word, pair.partner): PAIR_MOST,
            (pair.example.premise,): SENTENCE_MOST,
        }
        if all(counts[group] < limit for group, limit in limits.items()):
            counts.update(limits.keys())
            chosen.append(pair)
    kinds = list(RULES)
    return sorted(chosen, key=lambda pair: (kinds.index(pair.kind), key(pair)))


def _section(corpus: str, figures: Facts, file: str) -> Section:
    rows = []
    for kind, category in figures["categories"].items():
        rows.append((kind, category["label"], f"{category['pairs']:,}"))
    pairs = sum(category["pairs"] for category in figures["categories"].values())
    words = [
        f"{corpus}, {figures['ontology']} {figures['version']}: {pairs:,} pairs with "
        f"{figures['word_pairs']:,} pairs of words, of {figures['candidates']:,} candidates; "
        f"{figures['linked_in_training']:,} of these have words that a training pair has on both "
        "sides: left out",
        f"score a run on it: python -m mednli_jax.evaluate --run=DIR --probe={file}",
    ]
    grid = Grid("", ("category", "label", "pairs"), rows, left=2)
    return Section("One word replaced by a related one", words, [grid])
