"""A premise and a hypothesis compared as strings: the groups bleu, tokens, negation and edit of `features`."""

from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz.distance import Levenshtein

from mednli_jax.knowledge.linking import FUNCTION_WORDS

# `n't` and `not` stand for "do not", "cannot" and the like, which corpora split.
_NEGATIONS = """
    absence absent cannot denied denies deny denying lack lacked lacking lacks negative negatives neither never no none
    nor not nothing n't n’t without
"""
NEGATIONS = frozenset(_NEGATIONS.split())
_GRAMMAR = FUNCTION_WORDS - NEGATIONS


@dataclass(frozen=True, slots=True)
class Sentence:
    """What of one distinct sentence does not depend on the other side."""

    text: str
    tokens: tuple[str, ...]
    characters: int
    negations: int
    words: tuple[str, ...]
    distinct: frozenset[str]
    content: tuple[str, ...]
    distinct_content: frozenset[str]
    letters: frozenset[str]


def read(tokens: tuple[str, ...]) -> Sentence:
    folded = [token.lower() for token in tokens]
    negated = [word in NEGATIONS for word in folded]
    is_word = [any(map(str.isalnum, token)) for token in tokens]
    words = tuple(token for token, word in zip(tokens, is_word, strict=True) if word)
    content = tuple(
        token
        for token, low, word, no in zip(tokens, folded, is_word, negated, strict=True)
        if word and not no and low not in _GRAMMAR
    )
    return Sentence(
        text=" ".join(tokens),
        tokens=tokens,
        characters=sum(map(len, tokens)),
        negations=sum(negated),
        words=words,
        distinct=frozenset(words),
        content=content,
        distinct_content=frozenset(content),
        letters=frozenset(a + b for word in words for a, b in pairwise(word)),
    )


def compare(p: Sentence, h: Sentence) -> dict[str, float]:
    """The 24 features of a premise's and a hypothesis's wording, by name."""
    return {"bleu": bleu(p.tokens, h.tokens), **_counts(p, h), **_edits(p, h)}


def _share(part, whole):
    return part / whole if whole else 0.0


def _counts(p: Sentence, h: Sentence) -> dict[str, float]:
    return {
        "tokens_min": min(len(p.tokens), len(h.tokens)),
        "tokens_max": max(len(p.tokens), len(h.tokens)),
        "tokens_difference": len(p.tokens) - len(h.tokens),
        "tokens_ratio": _share(len(h.tokens), len(p.tokens)),
        "characters_min": min(p.characters, h.characters),
        "characters_max": max(p.characters, h.characters),
        "characters_difference": p.characters - h.characters,
        "characters_ratio": _share(h.characters, p.characters),
        "distinct_total": len(p.distinct | h.distinct),
        "distinct_ratio": _share(len(h.distinct), len(p.distinct)),
        "content_total": len(p.distinct_content | h.distinct_content),
        "content_difference": len(p.distinct_content) - len(h.distinct_content),
        "content_ratio": _share(len(h.distinct_content), len(p.distinct_content)),
        "common_words": len(p.distinct & h.distinct),
        "negations_premise": p.negations,
        "negations_hypothesis": h.negations,
        "negation_one_side": (p.negations > 0) != (h.negations > 0),
    }


def _edits(p: Sentence, h: Sentence) -> dict[str, float]:
    edits, longest = alignment(p.text, h.text)
    matched = sum(word in h.distinct_content for word in p.content) + sum(
        word in p.distinct_content for word in h.content
    )
    return {
        "levenshtein_shortest": _share(edits, max(len(p.text), len(h.text))),
        "levenshtein_longest": _share(edits, longest),
        "jaccard": _share(len(p.distinct ^ h.distinct), len(p.distinct | h.distinct)),
        "sorensen": _share(len(p.letters ^ h.letters), len(p.letters) + len(h.letters)),
        "matched_words": _share(matched, len(p.content) + len(h.content)),
        "same_first_word": p.words[:1] == h.words[:1] != (),
    }


def alignment(first: str, second: str) -> tuple[int, int]:
    """(Levenshtein distance, length of the longest alignment that has no more edits than that).

    With n and m characters, s substitutions and g insertions and deletions an alignment is (n + m + g) / 2 long. So of
    those with the fewest edits the one with the most gaps is wanted: a gap costs k - 1 and a substitution k, where
    k > n + m >= g keeps the number of edits decisive.
    """
    size = len(first) + len(second)
    k = size + 1
    cost = Levenshtein.distance(first, second, weights=(k - 1, k - 1, k))
    edits = -(-cost // k)
    gaps = edits * k - cost
    return edits, (size + gaps) // 2


def bleu(reference: tuple[str, ...], candidate: tuple[str, ...]) -> float:
    """Sentence BLEU-4 (Papineni et al. 2002, section 2.3); 0 without any word in common.

    An order without any match counts 0.1 n-grams (Chen & Cherry 2014, smoothing 1). A hypothesis is shorter than its
    premise almost always; the penalty is BLEU's all the same.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu  # a slow import, and only features need it

    return float(sentence_bleu([reference], candidate, smoothing_function=SmoothingFunction(epsilon=0.1).method1))
