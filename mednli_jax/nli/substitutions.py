"""A probe: sentences of a corpus with one word replaced by a related one, labelled by the relation.

After Glockner et al. 2018 (Breaking NLI Systems with Sentences that Require Simple Lexical
Inferences), whose pairs were checked by hand. Here an ontology chooses the words and a rule gives
the label, so that some labels are wrong.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

from mednli_jax.data.examples import Facts, NLIExample
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge.mentions import Recognised
from mednli_jax.knowledge.words import singular
from mednli_jax.nli.analyses import Pairs
from mednli_jax.nli.encoding import TextLinker, Tokens, examples_of
from mednli_jax.nli.negated_probe import FILE as NEGATED_FILE
from mednli_jax.nli.negated_probe import ProbePair, negated_pairs
from mednli_jax.nli.sentences import Sentence
from mednli_jax.nli.word_changes import PARTS, RULES, Partners, fits, partners_of, words_of
from mednli_jax.report.options import AnalysisOptions
from mednli_jax.report.sections import Grid, Report, Section, in_full

FILE = "substitutions.jsonl"
# Words within whose scope a more general word does not follow from a narrower one.
_REVERSING = """
    no not n't never none nobody nothing nowhere neither nor without few every each all any only if
    unless than denies denied negative except most least
"""
REVERSING = frozenset(_REVERSING.split())
PAIR_MOST = 2  # pairs of a category with the same two words
SENTENCE_MOST = 2  # pairs of a premise
NEGATED_SHARE = 4  # a category of the negated probe has this part of --count


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
    pairs.check_labels("substitutions")
    linker = pairs.needs_knowledge("substitutions")
    if isinstance(linker, Recognised):
        problem = "analyze substitutions: concepts of a file say nothing of new words"
        raise UsageError(problem, fix="leave it out")
    if "train" not in pairs.splits or len(pairs.splits) < 2:
        problem = "analyze substitutions: training pairs and another split are needed"
        raise UsageError(problem, fix="give a corpus")
    train = pairs.splits["train"].examples
    ontology = linker.ontology
    partners = partners_of(ontology, list(words_of(train, linker)))
    trained = _trained(train, linker, partners)
    held_out = {name: split for name, split in pairs.splits.items() if name != "train"}
    examples = examples_of(held_out)
    candidates = list(_candidates(examples, partners))
    unseen = [
        candidate for candidate in candidates if (candidate.word, candidate.partner) not in trained
    ]
    chosen = _chosen(unseen, options.count, options.seed)
    reversed_pairs = [
        pair
        for pair in negated_pairs(examples, partners)
        if (pair.word, pair.partner) not in trained
    ]
    negated = _chosen(reversed_pairs, options.count // NEGATED_SHARE, options.seed)
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


def _categories(chosen: Sequence[ProbePair]) -> Facts:
    """The number of pairs and the label of each category that occurs."""
    counts = Counter(pair.category for pair in chosen)
    categories = {}
    for kind, label in RULES.items():
        if counts[kind]:
            categories[kind] = {"pairs": counts[kind], "label": label}
    return categories


def _lines(chosen: Sequence[ProbePair]) -> Iterator[str]:
    """The pairs as JSON lines, with the fields of nli.readers."""
    for number, pair in enumerate(chosen):
        row = {
            "pairID": f"{pair.category.replace(' ', '-')}-{number:05}",
            "gold_label": pair.label,
            "genre": pair.category,
            "sentence1": pair.premise,
            "sentence2": pair.hypothesis,
            "word": pair.word,
            "partner": pair.partner,
        }
        if pair.operator:
            row["operator"] = pair.operator
        yield json.dumps(row, ensure_ascii=False) + "\n"


# ---- words of training pairs ----


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


def _candidates(examples: Iterable[NLIExample], partners: Partners) -> Iterator[ProbePair]:
    """All replacements in the premises, each distinct premise once."""
    premises = set()
    for example in examples:
        tokens = list(map(str.casefold, example.premise_tokens))
        if example.premise in premises or not REVERSING.isdisjoint(tokens):
            continue
        premises.add(example.premise)
        sentence = Sentence.of(example.premise, example.premise_tokens)
        for place, token in enumerate(tokens):
            if sentence is None or tokens.count(token) > 1:
                continue
            for part in PARTS:
                if not fits(part, tokens, place):
                    continue
                for kind, partner in partners.get((token, part), ()):
                    changed = sentence.with_words(place, place + 1, partner)
                    if changed and partner not in tokens:
                        words = (token, partner, example.premise, changed.text)
                        yield ProbePair(kind, RULES[kind], example, *words)


def _chosen(candidates: Iterable[ProbePair], count: int, seed: int) -> list[ProbePair]:
    """At most `count` of each category, in an order that depends on the seed and the pairs
    alone."""

    def key(pair: ProbePair) -> bytes:
        content = f"{seed}:{pair.category}:{pair.example.uid}:{pair.word}:{pair.partner}"
        return hashlib.sha256(content.encode()).digest()

    chosen = []
    counts: Counter[tuple[str, ...]] = Counter()
    for pair in sorted(candidates, key=key):
        limits = {
            (pair.category, ""): count,
            (pair.category, pair.word, pair.partner): PAIR_MOST,
            (pair.premise,): SENTENCE_MOST,
        }
        if all(counts[group] < limit for group, limit in limits.items()):
            counts.update(limits.keys())
            chosen.append(pair)
    order = dict.fromkeys((*RULES, *(pair.category for pair in chosen)))
    places = {category: place for place, category in enumerate(order)}
    return sorted(chosen, key=lambda pair: (places[pair.category], key(pair)))


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
