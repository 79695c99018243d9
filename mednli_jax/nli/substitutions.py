"""A probe: sentences of a corpus with one word replaced by a related one, labelled by the relation.

After Glockner et al. 2018 (Breaking NLI Systems with Sentences that Require Simple Lexical
Inferences), whose pairs were checked by hand. Here an ontology chooses the words and a rule gives
the label, so that some labels are wrong.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mednli_jax.data.examples import NLIExample
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge.lemmas import Lemmas
from mednli_jax.knowledge.mentions import Recognised
from mednli_jax.knowledge.relations import ANTONYM, CO_HYPONYM, KINDS, related
from mednli_jax.knowledge.words import FUNCTION_WORDS, singular
from mednli_jax.nli.analyses import Pairs
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
# pairs of a category with the same two words; pairs of a sentence
PAIR_MOST, SENTENCE_MOST = 2, 2
DETERMINERS = frozenset(
    ("a", "an", "the", "his", "her", "their", "its", "this", "that", "another", "one")
)
# Words within whose scope a more general word does not follow from a narrower one.
_REVERSING = """no not n't never none nobody nothing nowhere neither nor without few every each all any only if unless
    than denies denied negative except most least"""
REVERSING = frozenset(_REVERSING.split())
PRONOUNS = frozenset(("someone", "somebody", "something", "anyone", "everyone", "other", "one"))


class _Word(NamedTuple):
    """A word and its concepts in one part of speech."""

    word: str
    part: str  # "n", "a", or "" for any
    senses: tuple[int, ...]  # the most frequent first
    all: tuple[int, ...]  # the concepts of every part of speech


def substitutions(pairs: Pairs, options: AnalysisOptions) -> Report:
    """The probe of a corpus and its ontology.

    A word of a premise outside of training is replaced by a related word that training has, LEAST
    times or more. Words are related in one way alone (antonyms may be co-hyponyms): by their most
    frequent senses, and by all senses together. WordNet's words are nouns between a determiner and
    a word of grammar, or adjectives between a determiner and a content word, in their base form,
    and at least half of their senses are of that part of speech. Sentences with a word of REVERSING
    are left out. No two words are used of which a training pair has one in its premise and the
    other in its hypothesis, in any inflection that the linker knows.

    options: count, pairs of each category, at most; seed, of the choice among more.
    """
    pairs.needs_knowledge("substitutions")
    finder, splits = pairs.finder, pairs.splits
    if isinstance(finder, Recognised):
        raise UsageError(
            "analyze substitutions: concepts of a file say nothing of new words", fix="leave it out"
        )
    if "train" not in splits or len(splits) < 2:
        raise UsageError(
            "analyze substitutions: training pairs and another split are needed",
            fix="give a corpus",
        )
    train = splits["train"].examples
    words = list(_words(train, finder))
    partners = _partners(finder.ontology, words)
    trained = _trained(train, finder, partners)
    others = [
        example for name, split in splits.items() if name != "train" for example in split.examples
    ]
    every = list(_candidates(others, words, partners))
    unseen = [one for one in every if (one[2].word, one[3].word) not in trained]
    chosen = _chosen(unseen, options.count, options.seed)
    if not chosen:
        raise DataError(
            "no word can be replaced by a related one",
            fix="give a larger corpus, or another ontology",
        )
    of_kind = Counter(one[0] for one in chosen)
    figures = {
        "ontology": finder.ontology.name,
        "version": finder.ontology.version,
        "seed": options.seed,
        "candidates": len(every),
        "linked_in_training": len(every) - len(unseen),
        "word_pairs": len({frozenset((one[2].word, one[3].word)) for one in chosen}),
        "categories": {
            name: {"pairs": of_kind[name], "label": RULES[name]} for name in RULES if of_kind[name]
        },
    }
    rows = []
    for number, (kind, example, _, _, text) in enumerate(chosen):
        about = {"pairID": f"{kind}-{number:05}", "gold_label": RULES[kind], "genre": kind}
        rows.append({**about, "sentence1": example.premise, "sentence2": text})
    files = {FILE: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()}
    if not pairs.is_open:
        place, private = (
            f"OUT/private/{FILE}",
            in_full("substitutions", Report(figures, files=files)),
        )
        return Report(figures, [_section(pairs.name, figures, place)], private=private)
    return Report(figures, [_section(pairs.name, figures, f"OUT/{FILE}")], files)


def _words(train, finder) -> Iterator[_Word]:
    """The words of the training pairs that may be replaced, or may replace another."""
    counts = Counter(
        token
        for example in train
        for token in (*example.premise_tokens, *example.hypothesis_tokens)
    )
    ids = finder.ontology.ids
    for word, n in sorted(counts.items()):
        is_word = word.isalpha() and word.isascii() and word.islower()
        if n < LEAST or not is_word or singular(word) != word or word in PRONOUNS:
            continue
        mentions = finder.link([word])
        if len(mentions) != 1:
            continue
        concepts = tuple(finder.indices(mentions[0].concept))
        if not isinstance(finder, Lemmas):
            yield _Word(word, "", concepts, concepts)
        elif mentions[0].concept == word:
            for part in "na":
                senses = tuple(concept for concept in concepts if ids[concept][0] == part)
                if 2 * len(senses) >= len(concepts) and not (
                    part == "a" and word.endswith(COMPARED)
                ):
                    yield _Word(word, part, senses, concepts)


def _partners(ontology, words: Sequence[_Word]) -> dict[tuple[str, str], list[tuple[str, _Word]]]:
    """(word, part of speech) -> (type of relation, other word) of the words with this one
    relation."""
    tables = [
        related(ontology, [(w.word, senses(w)) for w in words], max_length=STEPS)
        for senses in (lambda w: w.senses[:1], lambda w: w.all)
    ]
    of_all = dict(zip(tables[1].keys.tolist(), tables[1].bits.tolist(), strict=True))
    kinds = {1 << KINDS.index(kind): kind for kind in RULES} | {ANTONYM | CO_HYPONYM: "antonym"}
    found = defaultdict(list)
    for key, bits in zip(tables[0].keys.tolist(), tables[0].bits.tolist(), strict=True):
        a, b = (words[place] for place in divmod(key, len(words)))
        kind = kinds.get(bits)
        excluding = (
            kind != "co_hyponym" or not a.part or ontology.types[a.senses[0]].startswith(CONCRETE)
        )
        if kind and a.part == b.part and bits == of_all[key] and excluding:
            found[a.word, a.part].append((kind, b))
    return found


def _trained(examples, finder, partners) -> set[tuple[str, str]]:
    """The pairs of words, in both orders, of which a training pair has one on each side."""
    others = defaultdict(set)
    for (word, _), related_words in partners.items():
        others[word] |= {other.word for _, other in related_words}
    keys, found = {}, set()

    def words_of(tokens):
        if tokens not in keys:
            mentions = finder.link(tokens)
            inflected = {singular(token.casefold()) for token in tokens} | {
                token.casefold() for token in tokens
            }
            keys[tokens] = inflected.union(*(m.concept.split("|") for m in mentions))
        return keys[tokens]

    for example in examples:
        premise, hypothesis = words_of(example.premise_tokens), words_of(example.hypothesis_tokens)
        for one, other in ((premise, hypothesis), (hypothesis, premise)):
            for word in one & others.keys():
                found |= {(word, partner) for partner in others[word] & other}
    return found | {(b, a) for a, b in found}


def _candidates(examples, words, partners) -> Iterator[tuple[str, NLIExample, _Word, _Word, str]]:
    """(type of relation, an example with the premise, the word, its replacement, the new
    sentence)."""
    by_word, seen = defaultdict(list), set()
    for word in words:
        by_word[word.word].append(word)
    for example in examples:
        tokens = [token.casefold() for token in example.premise_tokens]
        if example.premise in seen or not REVERSING.isdisjoint(tokens):
            continue
        seen.add(example.premise)
        for place, token in enumerate(tokens):
            for word in by_word.get(token, ()):
                if not _fits(word.part, tokens, place) or tokens.count(token) > 1:
                    continue
                for kind, other in partners.get((word.word, word.part), ()):
                    text = other.word not in tokens and _replaced(
                        example.premise, word.word, other.word
                    )
                    if text:
                        yield kind, example, word, other, text


def _fits(part: str, tokens: Sequence[str], place: int) -> bool:
    """Whether a word of a part of speech ("" for any) may stand at this place."""
    if not part:
        return True
    after = tokens[place + 1] if place + 1 < len(tokens) else "."
    of_grammar = after in FUNCTION_WORDS or not after.isalpha()
    return place > 0 and tokens[place - 1] in DETERMINERS and of_grammar == (part == "n")


def _replaced(text: str, word: str, other: str) -> str | None:
    """The text with the word replaced and its article made to fit; None unless the word occurs
    exactly once."""
    found = list(re.finditer(rf"\b(?:(an?)(\s+))?({word})\b", text, re.IGNORECASE))
    if len(found) != 1:
        return None
    article, gap, old = found[0].groups()
    new = other.capitalize() if old[0].isupper() else other
    if article:
        fitting = "an" if other[0] in "aeiou" else "a"
        new = (fitting.capitalize() if article[0].isupper() else fitting) + gap + new
    return text[: found[0].start()] + new + text[found[0].end() :]


def _chosen(candidates, count, seed):
    """At most `count` of each category, in an order that depends on the seed and the pairs
    alone."""

    def key(one):
        kind, example, word, other, _ = one
        return hashlib.sha256(
            f"{seed}:{kind}:{example.uid}:{word.word}:{other.word}".encode()
        ).digest()

    chosen, taken = [], Counter()
    for one in sorted(candidates, key=key):
        kind, example, word, other, _ = one
        most = {
            kind: count,
            (kind, word.word, other.word): PAIR_MOST,
            (example.premise,): SENTENCE_MOST,
        }
        if all(taken[what] < limit for what, limit in most.items()):
            taken.update(most.keys())
            chosen.append(one)
    return sorted(chosen, key=lambda one: (list(RULES).index(one[0]), key(one)))


def _section(corpus, figures, place: str) -> Section:
    rows = [(kind, of["label"], f"{of['pairs']:,}") for kind, of in figures["categories"].items()]
    pairs = sum(of["pairs"] for of in figures["categories"].values())
    words = [
        f"{corpus}, {figures['ontology']} {figures['version']}: {pairs:,} pairs with "
        f"{figures['word_pairs']:,} pairs of words, of {figures['candidates']:,} candidates; "
        f"{figures['linked_in_training']:,} of these have words that a training pair has on both sides: left out",
        f"score a run on it: python -m mednli_jax.evaluate --run=DIR --probe={place}",
    ]
    grid = Grid("", ("category", "label", "pairs"), rows, left=2)
    return Section("One word replaced by a related one", words, [grid])
