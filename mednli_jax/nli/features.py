"""The 35 features of Romanov & Shivade 2018 (section 3, "Feature-based system"), as named columns.

The paper names seven groups and the number 35, not the features; its published code computes 32 and
has 7 more commented out. Every kind that the code has is here, and what is needed to make 35
(FEATURES, by group):

  bleu       sentence BLEU-4 of the hypothesis against the premise.
  tokens     tokens, characters and distinct words, with and without words of grammar; the words in
             common.
  negation   negation words of either side, and whether exactly one side has any, the code's only
             column.
  tfidf      cosine and distances of the TF-IDF vectors over words and word pairs, not scaled to
             unit length: of those the euclidean distance follows from the cosine.
  edit       Levenshtein distance over characters, as a share of the shortest and of the longest
             alignment; Jaccard distance of the words; Sorensen distance, of pairs of letters here,
             because over words it is a function of Jaccard's; share of words that the other side
             has; same first word.
  embedding  cosine and distances of the summed word vectors.
  ontology   path similarity 1 / (1 + edges) of concepts (Pedersen et al. 2007): of the nearest two,
             the mean over the hypothesis's concepts of their nearest concept in the premise, and
             the share of those that the premise has, or an ancestor or descendant of them. -1 where
             a side names no concept.

The code differs: its Levenshtein distance is over tokens, its TF-IDF leaves out what fewer than
three training sentences have (min_df=3) and scales vectors to unit length, differences have no
sign, ratios are the larger over the smaller, similarities are 1 less a distance, and "negation" is
the word "no" alone. docs/settings.md names the columns beside the code's.

A difference is premise less hypothesis, a ratio hypothesis over premise (0 where the premise has
none). Words are tokens with a letter or a digit; "content" words are those that are neither grammar
nor negation. Dimension letters: N pairs, S distinct sentences, V words, D numbers per word, R pairs
of places in the ontology.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein
from scipy.sparse import csr_array

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.data.text import PAD, UNK, Vocab
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.words import FUNCTION_WORDS
from mednli_jax.nli.encode.links import Encoding, Tokens, all_tokens
from mednli_jax.nli.encode.texts import examples_of
from mednli_jax.terminal import with_progress

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

FORMAT = 2  # when to raise it: tests/data/test_prepared_content.py
_NAMES = {
    "bleu": "bleu",
    "tokens": """
        tokens_min tokens_max tokens_difference tokens_ratio
        characters_min characters_max characters_difference characters_ratio
        distinct_total distinct_ratio content_total content_difference content_ratio common_words
    """,
    "negation": "negations_premise negations_hypothesis negation_one_side",
    "tfidf": "tfidf_cosine tfidf_euclidean tfidf_manhattan tfidf_chebyshev",
    "edit": """
        levenshtein_shortest levenshtein_longest jaccard sorensen matched_words same_first_word
    """,
    "embedding": "embedding_cosine embedding_euclidean embedding_manhattan embedding_chebyshev",
    "ontology": "path_nearest path_mean path_share",
}
GROUPS = {group: tuple(names.split()) for group, names in _NAMES.items()}
WORDING = ("bleu", "tokens", "negation", "edit")
FEATURES = {name: group for group, names in GROUPS.items() for name in names}
NAMES = tuple(FEATURES)
# `n't` and `not` stand for "do not", "cannot" and the like, which corpora split.
_NEGATIONS = """
    absence absent cannot denied denies deny denying lack lacked lacking lacks negative negatives
    neither never no none nor not nothing n't n’t without
"""
NEGATIONS = frozenset(_NEGATIONS.split())
_NO_CONTENT = FUNCTION_WORDS | NEGATIONS
NO_CONCEPT = -1.0
_BLEU_ORDER = 4  # the longest n-grams
_UNMATCHED = 0.1
_STRIDE = 4096  # pairs at a time: bounds the memory of summed vectors

SentenceMentions = Sequence[Sequence[Mention]]  # of each of N sentences
Columns = dict[str, np.ndarray]  # feature -> its value for each pair, [N]


class Terms(NamedTuple):
    """The words and word pairs of TF-IDF, and the weight of each."""

    terms: list[str]
    idf: list[float]


def matrix(
    splits: Mapping[str, Split[NLIExample]],
    *,
    encoding: Encoding,
    vocab: Vocab,
    vectors: np.ndarray,
    mentions: tuple[SentenceMentions, SentenceMentions],
    ontology: Ontology | None,
    terms: Terms | None = None,
) -> np.ndarray:
    """The features of a corpus: float64 [N, 35], columns as in NAMES, rows of all splits one after
    the other.

    Args:
      splits: "train" among them unless `terms` are given; TF-IDF is fitted on its distinct
        sentences alone.
      encoding: its settings, but not `max_length`. Paths of direction "undirected" may meet in a
        common ancestor, as those of the path measure of the paper's UMLS::Similarity do. path_share
        is by direction "either", whatever the encoding says.
      vocab, vectors: words and their vectors [V, D]; words without one add nothing to a sentence's
        sum.
      mentions: of the N premises and of the N hypotheses.
      ontology: that of the mentions; None leaves its columns NO_CONCEPT.
      terms: of `terms_of`, None for those of the training pairs.
    """
    examples = examples_of(splits)
    number_of: dict[Tokens, int] = {}
    sides = []
    for side in SIDES:
        numbers = []
        for example in examples:
            tokens = _tokens(example, side, encoding)
            numbers.append(number_of.setdefault(tokens, len(number_of)))
        sides.append(np.array(numbers, np.int64))
    sentences, (left_N, right_N) = list(number_of), sides
    if terms is None:
        terms = terms_of(splits["train"], encoding)
    columns = {
        **_wording(sentences, left_N, right_N),
        **_tfidf(sentences, left_N, right_N, terms),
        **_embedding(sentences, left_N, right_N, vocab, vectors),
        **_paths(*mentions, ontology, encoding),
    }
    return np.stack([np.asarray(columns[name], np.float64) for name in NAMES], axis=1)


def _tokens(example: NLIExample, side: str, encoding: Encoding) -> Tokens:
    """All tokens of a sentence, also those beyond `max_length`."""
    if not encoding.reads(side):
        return ()
    tokens = all_tokens(example, side)
    return tuple(map(str.lower, tokens)) if encoding.lowercase else tokens


# ---- wording ----


class _Sentence:
    """The properties of one distinct sentence that do not depend on the other side."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens, self.text = tokens, " ".join(tokens)
        self.characters = sum(map(len, tokens))
        self.negations = _count(list(map(str.lower, tokens)), NEGATIONS)
        self.words = [token for token in tokens if any(map(str.isalnum, token))]
        self.content = [word for word in self.words if word.lower() not in _NO_CONTENT]
        self.distinct, self.distinct_content = set(self.words), set(self.content)
        self.letters = {a + b for word in self.words for a, b in pairwise(word)}


def _wording(sentences: Sequence[Tokens], left_N: np.ndarray, right_N: np.ndarray) -> Columns:
    """The groups of WORDING: sentence `left_N[n]` against `right_N[n]`."""
    texts = list(map(_Sentence, sentences))
    values: dict[str, list[float]] = {name: [] for group in WORDING for name in GROUPS[group]}
    pairs = list(zip(left_N.tolist(), right_N.tolist(), strict=True))
    for left, right in with_progress(pairs, "features of wording"):
        p, h = texts[left], texts[right]
        of_pair = {"bleu": bleu(p.tokens, h.tokens), **_counts(p, h), **_edits(p, h)}
        for name, value in of_pair.items():
            values[name].append(value)
    return {name: np.array(column, np.float64) for name, column in values.items()}


def _count(words: Sequence[str], among: set[str] | frozenset[str]) -> int:
    """The number of words that are among others."""
    return sum(word in among for word in words)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _ratio(part: Sized, whole: Sized) -> float:
    return _share(len(part), len(whole))


def _contrast(name: str, p: int, h: int) -> dict[str, float]:
    """Four features of a count of each side."""
    return {
        f"{name}_min": min(p, h),
        f"{name}_max": max(p, h),
        f"{name}_difference": p - h,
        f"{name}_ratio": _share(h, p),
    }


def _counts(p: _Sentence, h: _Sentence) -> dict[str, float]:
    return {
        **_contrast("tokens", len(p.tokens), len(h.tokens)),
        **_contrast("characters", p.characters, h.characters),
        "distinct_total": len(p.distinct | h.distinct),
        "distinct_ratio": _ratio(h.distinct, p.distinct),
        "content_total": len(p.distinct_content | h.distinct_content),
        "content_difference": len(p.distinct_content) - len(h.distinct_content),
        "content_ratio": _ratio(h.distinct_content, p.distinct_content),
        "common_words": len(p.distinct & h.distinct),
        "negations_premise": p.negations,
        "negations_hypothesis": h.negations,
        "negation_one_side": (p.negations > 0) != (h.negations > 0),
    }


def _edits(p: _Sentence, h: _Sentence) -> dict[str, float]:
    edits, longest = alignment(p.text, h.text)
    matched = _count(p.content, h.distinct_content) + _count(h.content, p.distinct_content)
    return {
        "levenshtein_shortest": _share(edits, max(len(p.text), len(h.text))),
        "levenshtein_longest": _share(edits, longest),
        "jaccard": _ratio(p.distinct ^ h.distinct, p.distinct | h.distinct),
        "sorensen": _share(len(p.letters ^ h.letters), len(p.letters) + len(h.letters)),
        "matched_words": _share(matched, len(p.content) + len(h.content)),
        "same_first_word": p.words[:1] == h.words[:1] != [],
    }


def alignment(first: str, second: str) -> tuple[int, int]:
    """(Levenshtein distance, length of the longest alignment with so many edits).

    Of n and m characters, an alignment with g gaps (insertions and deletions) is (n + m + g) / 2
    long. So of the alignments with the fewest edits, that with the most gaps is the longest. With
    costs of k for a substitution and k - 1 for a gap, d edits cost k d - g: the fewest edits come
    first, because k > n + m >= g, and among these the most gaps.
    """
    size = len(first) + len(second)
    k = size + 1
    cost = Levenshtein.distance(first, second, weights=(k - 1, k - 1, k))
    edits = -(-cost // k)
    gaps = edits * k - cost
    return edits, (size + gaps) // 2


def bleu(reference: Tokens, candidate: Tokens) -> float:
    """Sentence BLEU-4 (Papineni et al. 2002, section 2.3); 0 without any word in common.

    An order without any match counts _UNMATCHED n-grams (Chen & Cherry 2014, smoothing 1).
    """
    matches = len(candidate)
    logarithms = []
    for order in range(1, _BLEU_ORDER + 1):
        if matches:  # of the order before; no match contains no longer match
            matches = _matches(reference, candidate, order)
        if order == 1 and not matches:
            return 0.0
        precision = (matches or _UNMATCHED) / max(len(candidate) + 1 - order, 1)
        logarithms.append(math.log(precision) / _BLEU_ORDER)
    brevity = math.exp(min(0.0, 1 - len(reference) / len(candidate)))
    return brevity * math.exp(math.fsum(logarithms))


def _matches(reference: Tokens, candidate: Tokens, order: int) -> int:
    """The n-grams of the candidate that the reference has, each at most as often as there."""
    in_reference, in_candidate = _ngrams(reference, order), _ngrams(candidate, order)
    shared = in_reference.keys() & in_candidate.keys()
    return sum(min(in_reference[ngram], in_candidate[ngram]) for ngram in shared)


def _ngrams(tokens: Tokens, order: int) -> Counter[Tokens]:
    shifted = [tokens[first:] for first in range(order)]
    return Counter(zip(*shifted, strict=False))


# ---- TF-IDF and word vectors ----


def terms_of(train: Split[NLIExample], encoding: Encoding) -> Terms:
    """The words and word pairs of the distinct training sentences."""
    texts = (_tokens(example, side, encoding) for example in train.examples for side in SIDES)
    sentences = list(dict.fromkeys(texts))
    if not any(sentences):
        return Terms([], [])
    vectorizer = _vectorizer().fit(sentences)
    return Terms(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_.tolist())


def _vectorizer(vocabulary: Sequence[str] | None = None) -> "TfidfVectorizer":
    from sklearn.feature_extraction.text import TfidfVectorizer

    def words_and_pairs(tokens: Tokens) -> list[str]:
        return [*tokens, *map(" ".join, pairwise(tokens))]

    return TfidfVectorizer(analyzer=words_and_pairs, norm=None, vocabulary=vocabulary)


def _tfidf(
    sentences: Sequence[Tokens], left_N: np.ndarray, right_N: np.ndarray, terms: Terms
) -> Columns:
    if not terms.terms:
        return dict.fromkeys(GROUPS["tfidf"], np.zeros(len(left_N)))
    vectorizer = _vectorizer(terms.terms)
    vectorizer.idf_ = np.array(terms.idf)
    weights = csr_array(vectorizer.transform(sentences))
    norm_S = np.sqrt(weights.power(2).sum(axis=1))
    p, h = weights[left_N], weights[right_N]
    apart = abs(p - h)
    return {
        "tfidf_cosine": _cosine(p.multiply(h).sum(axis=1), norm_S[left_N] * norm_S[right_N]),
        "tfidf_euclidean": np.sqrt(apart.power(2).sum(axis=1)),
        "tfidf_manhattan": apart.sum(axis=1),
        "tfidf_chebyshev": apart.max(axis=1).toarray().reshape(-1),
    }


def _cosine(dot_N: np.ndarray, norms_N: np.ndarray) -> np.ndarray:
    """0 where a side has no vector."""
    cosine_N = np.zeros(len(dot_N))
    np.divide(dot_N, norms_N, out=cosine_N, where=norms_N > 0)
    return cosine_N


def _embedding(
    sentences: Sequence[Tokens],
    left_N: np.ndarray,
    right_N: np.ndarray,
    vocab: Vocab,
    vectors: np.ndarray,
) -> Columns:
    numbers = list(map(vocab.encode, sentences))
    ends = np.cumsum([0, *map(len, numbers)])
    flat = np.concatenate([np.zeros(0, np.int64), *numbers]).astype(np.int64)
    counts_SV = csr_array((np.ones(len(flat)), flat, ends), shape=(len(sentences), len(vectors)))
    vectors = np.array(vectors, np.float64)
    vectors[[PAD, UNK]] = 0
    columns = {name: np.empty(len(left_N)) for name in GROUPS["embedding"]}
    for first in range(0, len(left_N), _STRIDE):
        rows = slice(first, first + _STRIDE)
        p, h = counts_SV[left_N[rows]] @ vectors, counts_SV[right_N[rows]] @ vectors
        apart = np.abs(p - h)
        norms = np.linalg.norm(p, axis=1) * np.linalg.norm(h, axis=1)
        columns["embedding_cosine"][rows] = _cosine((p * h).sum(axis=1), norms)
        columns["embedding_euclidean"][rows] = np.linalg.norm(apart, axis=1)
        columns["embedding_manhattan"][rows] = apart.sum(axis=1)
        columns["embedding_chebyshev"][rows] = apart.max(axis=1)
    return columns


# ---- concepts ----


class _ConceptPairs(NamedTuple):
    """R pairs of places in the ontology, one of the premise and one of the hypothesis. A
    cross-reference is one concept at several places.

    The rows are sorted by sentence pair, then by concept of the hypothesis.

    Args:
      pair_R: number of the sentence pair.
      concept_R: number of the concept among those of the hypothesis.
      hypothesis_R, premise_R: places. Concepts that the ontology lacks have places from
        len(ontology) on.
    """

    pair_R: np.ndarray
    concept_R: np.ndarray
    hypothesis_R: np.ndarray
    premise_R: np.ndarray


def _paths(
    premise_mentions: SentenceMentions,
    hypothesis_mentions: SentenceMentions,
    ontology: Ontology | None,
    encoding: Encoding,
) -> Columns:
    """The group "ontology". A concept that the ontology lacks is related to itself alone. Of a
    concept at several places the nearest place counts.

    Dimension letters: C concepts of hypotheses, P pairs with concepts on both sides.
    """
    columns = {name: np.full(len(premise_mentions), NO_CONCEPT) for name in GROUPS["ontology"]}
    if ontology is None:
        return columns
    crossed = _crossed(premise_mentions, hypothesis_mentions, ontology)
    if not len(crossed.pair_R):
        return columns
    similarity_R = _similarity(ontology, crossed, encoding.direction, encoding.max_path)
    related_R = _similarity(ontology, crossed, "either", encoding.max_path) > 0
    first_C = _starts(crossed.pair_R, crossed.concept_R)
    best_C = np.maximum.reduceat(similarity_R, first_C)
    related_C = np.logical_or.reduceat(related_R, first_C)
    pair_C = crossed.pair_R[first_C]
    first_P = _starts(pair_C)
    count_P = np.diff(np.append(first_P, len(pair_C)))
    pair_P = pair_C[first_P]
    columns["path_nearest"][pair_P] = np.maximum.reduceat(best_C, first_P)
    columns["path_mean"][pair_P] = np.add.reduceat(best_C, first_P) / count_P
    columns["path_share"][pair_P] = np.add.reduceat(related_C.astype(int), first_P) / count_P
    return columns


def _crossed(
    premise_mentions: SentenceMentions, hypothesis_mentions: SentenceMentions, ontology: Ontology
) -> _ConceptPairs:
    places_of: dict[str, tuple[int, ...]] = {}

    def places(mention: Mention) -> tuple[int, ...]:
        if mention.concept not in places_of:
            unknown = (len(ontology) + len(places_of),)
            places_of[mention.concept] = tuple(ontology.indices(mention.concept)) or unknown
        return places_of[mention.concept]

    rows = []
    pairs = list(zip(premise_mentions, hypothesis_mentions, strict=True))
    for pair, (premise, hypothesis) in enumerate(with_progress(pairs, "paths between concepts")):
        in_premise = sorted({place for mention in premise for place in places(mention)})
        concepts = sorted(set(map(places, hypothesis)))
        for number, concept in enumerate(concepts):
            rows += [(pair, number, *ends) for ends in product(concept, in_premise)]
    return _ConceptPairs(*np.array(rows, np.int64).reshape(-1, 4).T)


def _starts(*keys: np.ndarray) -> np.ndarray:
    """The first row of each run of rows with equal keys."""
    changes = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.flatnonzero(np.append(True, changes))


def _similarity(
    ontology: Ontology, crossed: _ConceptPairs, direction: str, max_path: int
) -> np.ndarray:
    """float64 [R], 1 / (1 + edges) of the two places, 0 without a path."""
    places_R2 = np.stack([crossed.hypothesis_R, crossed.premise_R], axis=1)
    edges_R = np.where(crossed.hypothesis_R == crossed.premise_R, 0, -1)
    in_ontology = (places_R2 < len(ontology)).all(axis=1)
    edges_R[in_ontology] = shortest_paths(
        ontology, places_R2[in_ontology], direction=direction, max_length=max_path
    )
    return np.where(edges_R >= 0, 1 / (1.0 + np.maximum(edges_R, 0)), 0.0)
