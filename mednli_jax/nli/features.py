"""The 35 features of Romanov & Shivade 2018 (section 3, "Feature-based system"), as named columns.

The paper names seven groups and the number 35, not the features. Its published code computes 32
features and has 7 more commented out. This module has every kind of feature of that code, and
further ones up to 35. The columns (NAMES), by group:

  bleu       sentence BLEU-4 of the hypothesis against the premise.
  tokens     numbers of tokens, of characters and of distinct words, with and without words of
             grammar; the number of words in common.
  negation   negation words of the premise, and of the hypothesis; whether exactly one side has any
             (the published code has only this column).
  tfidf      cosine and distances of TF-IDF vectors over words and word pairs. The vectors keep
             their length: of unit vectors the euclidean distance would follow from the cosine.
  edit       levenshtein_shortest: edits of characters / length of the shortest possible alignment,
             which is the length of the longer sentence.
             levenshtein_longest: edits / length of the longest alignment that has this least number
             of edits.
             jaccard: Jaccard distance of the sets of words.
             sorensen: Sorensen distance of the sets of pairs of letters (over words it would be a
             function of Jaccard's).
             matched_words: the share of content words that the other side has.
             same_first_word: whether the first words are equal.
  embedding  cosine and distances of the summed word vectors.
  ontology   path similarity 1 / (1 + edges) of two concepts (Pedersen et al. 2007). Of each concept
             of the hypothesis, the most similar concept of the premise counts.
             path_nearest: the greatest similarity. path_mean: the mean over the hypothesis's
             concepts. path_share: the share of the hypothesis's concepts that equal a concept of
             the premise, or are its ancestor or descendant.
             All are -1 where a side names no concept.

The published code differs: its Levenshtein distance is over tokens. Its TF-IDF leaves out terms of
fewer than three training sentences (min_df=3) and scales vectors to unit length. Its differences
have no sign, its ratios are the larger over the smaller, and its similarities are 1 less a
distance. Its only negation is the word "no". docs/settings.md lists the differences.

A difference is premise less hypothesis, a ratio hypothesis over premise (0 where the premise has
none). Words are tokens with a letter or a digit; "content" words are those that are neither grammar
nor negation. Dimension letters: N pairs, S distinct sentences, V words, D numbers per word, R pairs
of nodes of the ontology.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from itertools import chain, pairwise, product
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
NAMES = tuple(chain.from_iterable(GROUPS.values()))
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


class _PairSentences(NamedTuple):
    """The S distinct sentences of N pairs. premise_N, hypothesis_N: their places in `sentences`."""

    sentences: list[Tokens]
    premise_N: np.ndarray
    hypothesis_N: np.ndarray


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
    """Computes the features of a corpus: float64 [N, 35], columns as in NAMES, rows of all splits
    one after the other.

    Args:
      splits: with "train" unless `terms` are given; TF-IDF is fitted on its distinct sentences
        alone.
      encoding: `lowercase`, `hypothesis_only`, `direction` and `max_path` are used. Sentences are
        not cut. The path measure of the paper (UMLS::Similarity) has direction "undirected": a path
        may go over a common ancestor.
      vocab, vectors: words and their vectors [V, D]; words without one add nothing to a sentence's
        sum.
      mentions: the mentions of the N premises, and those of the N hypotheses.
      ontology: the ontology of the mentions; None leaves its columns NO_CONCEPT.
      terms: of `terms_of`; None fits them to the training pairs.
    """
    examples = examples_of(splits)
    pairs = _distinct_sentences(examples, encoding)
    if terms is None:
        terms = terms_of(splits["train"], encoding)
    columns = {
        **_wording(pairs),
        **_tfidf(pairs, terms),
        **_embedding(pairs, vocab, vectors),
        **_paths(*mentions, ontology, encoding),
    }
    return np.stack([np.asarray(columns[name], np.float64) for name in NAMES], axis=1)


def _distinct_sentences(examples: Sequence[NLIExample], encoding: Encoding) -> _PairSentences:
    """Collects the sentences of the pairs, equal ones once."""
    place_of: dict[Tokens, int] = {}
    sides = []
    for side in SIDES:
        places = []
        for example in examples:
            tokens = _tokens(example, side, encoding)
            places.append(place_of.setdefault(tokens, len(place_of)))
        sides.append(np.array(places, np.int64))
    return _PairSentences(list(place_of), *sides)


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
        self.letter_pairs = {a + b for word in self.words for a, b in pairwise(word)}


def _wording(pairs: _PairSentences) -> Columns:
    """Computes the columns of the groups in WORDING."""
    sentences = list(map(_Sentence, pairs.sentences))
    values: dict[str, list[float]] = {name: [] for group in WORDING for name in GROUPS[group]}
    places = list(zip(pairs.premise_N.tolist(), pairs.hypothesis_N.tolist(), strict=True))
    for premise, hypothesis in with_progress(places, "features of wording"):
        p, h = sentences[premise], sentences[hypothesis]
        of_pair = {"bleu": bleu(p.tokens, h.tokens), **_counts(p, h), **_edits(p, h)}
        for name, value in of_pair.items():
            values[name].append(value)
    return {name: np.array(column, np.float64) for name, column in values.items()}


def _count(words: Sequence[str], among: set[str] | frozenset[str]) -> int:
    """The number of `words` that are in `among`."""
    return sum(word in among for word in words)


def _share(part: float, whole: float) -> float:
    """part / whole; 0 if there is no whole."""
    return part / whole if whole else 0.0


def _ratio(part: Sized, whole: Sized) -> float:
    return _share(len(part), len(whole))


def _contrast(name: str, p: int, h: int) -> dict[str, float]:
    """Four features of two counts: p of the premise and h of the hypothesis."""
    return {
        f"{name}_min": min(p, h),
        f"{name}_max": max(p, h),
        f"{name}_difference": p - h,
        f"{name}_ratio": _share(h, p),
    }


def _counts(p: _Sentence, h: _Sentence) -> dict[str, float]:
    """Computes the groups "tokens" and "negation" of one pair."""
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
    """Computes the group "edit" of one pair."""
    edits, longest = alignment(p.text, h.text)
    matched = _count(p.content, h.distinct_content) + _count(h.content, p.distinct_content)
    return {
        "levenshtein_shortest": _share(edits, max(len(p.text), len(h.text))),
        "levenshtein_longest": _share(edits, longest),
        "jaccard": _ratio(p.distinct ^ h.distinct, p.distinct | h.distinct),
        "sorensen": _share(
            len(p.letter_pairs ^ h.letter_pairs), len(p.letter_pairs) + len(h.letter_pairs)
        ),
        "matched_words": _share(matched, len(p.content) + len(h.content)),
        "same_first_word": p.words[:1] == h.words[:1] != [],
    }


def alignment(first: str, second: str) -> tuple[int, int]:
    """Returns (Levenshtein distance d, length of the longest alignment with d edits).

    A column of an alignment holds two characters, or one character and a gap (an insertion or a
    deletion). So for n and m characters and g gaps, n + m = 2 length - g. The length is
    (n + m + g) / 2, and the longest alignment with d edits is the one with most gaps.

    One weighted distance finds it. A substitution costs k and a gap k - 1, so that d edits, g of
    them gaps, cost k d - g. With k = n + m + 1, 0 <= g < k. So the least cost has the fewest edits,
    and among alignments with as many edits the most gaps. It tells both numbers:
    d = ceil(cost / k) and g = k d - cost.
    """
    size = len(first) + len(second)
    k = size + 1
    cost = Levenshtein.distance(first, second, weights=(k - 1, k - 1, k))
    edits = math.ceil(cost / k)
    gaps = edits * k - cost
    return edits, (size + gaps) // 2


def bleu(reference: Tokens, candidate: Tokens) -> float:
    """Sentence BLEU-4 (Papineni et al. 2002, section 2.3); 0 without any word in common.

    For an order of which no n-gram matches, _UNMATCHED n-grams are counted (Chen & Cherry 2014,
    smoothing 1).
    """
    logarithms = []
    for order in range(1, _BLEU_ORDER + 1):
        matches = _matches(reference, candidate, order)
        if order == 1 and not matches:
            return 0.0
        precision = (matches or _UNMATCHED) / max(len(candidate) + 1 - order, 1)
        logarithms.append(math.log(precision) / _BLEU_ORDER)
    brevity = math.exp(min(0.0, 1 - len(reference) / len(candidate)))
    return brevity * math.exp(math.fsum(logarithms))


def _matches(reference: Tokens, candidate: Tokens, order: int) -> int:
    """Counts the n-grams of the candidate that the reference has, each at most as often as
    there."""
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


def _tfidf(pairs: _PairSentences, terms: Terms) -> Columns:
    """Computes the group "tfidf"."""
    sentences, premise_N, hypothesis_N = pairs
    if not terms.terms:
        return dict.fromkeys(GROUPS["tfidf"], np.zeros(len(premise_N)))
    vectorizer = _vectorizer(terms.terms)
    vectorizer.idf_ = np.array(terms.idf)
    weights = csr_array(vectorizer.transform(sentences))
    norm_S = np.sqrt(weights.power(2).sum(axis=1))
    p, h = weights[premise_N], weights[hypothesis_N]
    apart, norms_N = abs(p - h), norm_S[premise_N] * norm_S[hypothesis_N]
    return {
        "tfidf_cosine": _cosine(p.multiply(h).sum(axis=1), norms_N),
        "tfidf_euclidean": np.sqrt(apart.power(2).sum(axis=1)),
        "tfidf_manhattan": apart.sum(axis=1),
        "tfidf_chebyshev": apart.max(axis=1).toarray().reshape(-1),
    }


def _cosine(dot_N: np.ndarray, norms_N: np.ndarray) -> np.ndarray:
    """The cosine of two vectors, from their dot product and the product of their norms; 0 if a norm
    is 0."""
    cosine_N = np.zeros(len(dot_N))
    np.divide(dot_N, norms_N, out=cosine_N, where=norms_N > 0)
    return cosine_N


def _embedding(pairs: _PairSentences, vocab: Vocab, vectors: np.ndarray) -> Columns:
    """Computes the group "embedding" from the sum of the word vectors of each sentence."""
    sentences, premise_N, hypothesis_N = pairs
    numbers = list(map(vocab.encode, sentences))
    ends = np.cumsum([0, *map(len, numbers)])
    flat = np.concatenate([np.zeros(0, np.int64), *numbers]).astype(np.int64)
    # counts_SV[s, v]: how often sentence s has word v. Its product with the vectors [V, D] is the
    # sum of the vectors of each sentence.
    counts_SV = csr_array((np.ones(len(flat)), flat, ends), shape=(len(sentences), len(vectors)))
    vectors = np.array(vectors, np.float64)
    vectors[[PAD, UNK]] = 0
    columns = {name: np.empty(len(premise_N)) for name in GROUPS["embedding"]}
    for first in range(0, len(premise_N), _STRIDE):
        rows = slice(first, first + _STRIDE)
        p, h = counts_SV[premise_N[rows]] @ vectors, counts_SV[hypothesis_N[rows]] @ vectors
        apart = np.abs(p - h)
        norms = np.linalg.norm(p, axis=1) * np.linalg.norm(h, axis=1)
        columns["embedding_cosine"][rows] = _cosine((p * h).sum(axis=1), norms)
        columns["embedding_euclidean"][rows] = np.linalg.norm(apart, axis=1)
        columns["embedding_manhattan"][rows] = apart.sum(axis=1)
        columns["embedding_chebyshev"][rows] = apart.max(axis=1)
    return columns


# ---- concepts ----


class _ConceptPairs(NamedTuple):
    """R pairs of nodes of the ontology, one of a hypothesis and one of its premise.

    A concept of a mention has several nodes if its id is a cross-reference of several nodes. A
    concept that the ontology lacks has a number from len(ontology) on in place of a node. The rows
    are sorted by sentence pair, then by concept of the hypothesis.

    Args:
      pair_R: the number of the sentence pair.
      concept_R: which concept of its hypothesis, from 0.
      hypothesis_R, premise_R: the nodes.
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
    """Computes the group "ontology". A concept that the ontology lacks is related to itself alone.
    Of a concept with several nodes the nearest node counts. path_share has direction "either",
    whatever the encoding says.

    Two reductions lead from rows to columns: R pairs of nodes -> C concepts of hypotheses (the best
    row of each) -> P sentence pairs with concepts on both sides (best, mean and share).
    """
    columns = {name: np.full(len(premise_mentions), NO_CONCEPT) for name in GROUPS["ontology"]}
    if ontology is None:
        return columns
    nodes = _concept_pairs(premise_mentions, hypothesis_mentions, ontology)
    if not len(nodes.pair_R):
        return columns
    similarity_R = _similarity(ontology, nodes, encoding.direction, encoding.max_path)
    related_R = _similarity(ontology, nodes, "either", encoding.max_path) > 0
    first_C = _starts(nodes.pair_R, nodes.concept_R)
    best_C = np.maximum.reduceat(similarity_R, first_C)
    related_C = np.logical_or.reduceat(related_R, first_C)
    pair_C = nodes.pair_R[first_C]
    first_P = _starts(pair_C)
    count_P = np.diff(np.append(first_P, len(pair_C)))
    pair_P = pair_C[first_P]
    columns["path_nearest"][pair_P] = np.maximum.reduceat(best_C, first_P)
    columns["path_mean"][pair_P] = np.add.reduceat(best_C, first_P) / count_P
    columns["path_share"][pair_P] = np.add.reduceat(related_C.astype(int), first_P) / count_P
    return columns


def _concept_pairs(
    premise_mentions: SentenceMentions, hypothesis_mentions: SentenceMentions, ontology: Ontology
) -> _ConceptPairs:
    """Pairs each node of a hypothesis's concepts with each node of the premise's concepts."""
    nodes_of_concept: dict[str, tuple[int, ...]] = {}

    def nodes_of(mention: Mention) -> tuple[int, ...]:
        if mention.concept not in nodes_of_concept:
            unknown = (len(ontology) + len(nodes_of_concept),)
            nodes_of_concept[mention.concept] = tuple(ontology.indices(mention.concept)) or unknown
        return nodes_of_concept[mention.concept]

    rows = []
    pairs = list(zip(premise_mentions, hypothesis_mentions, strict=True))
    for pair, (premise, hypothesis) in enumerate(with_progress(pairs, "paths between concepts")):
        in_premise = sorted({node for mention in premise for node in nodes_of(mention)})
        concepts = sorted(set(map(nodes_of, hypothesis)))
        for number, in_concept in enumerate(concepts):
            rows += [(pair, number, *ends) for ends in product(in_concept, in_premise)]
    return _ConceptPairs(*np.array(rows, np.int64).reshape(-1, 4).T)


def _starts(*keys: np.ndarray) -> np.ndarray:
    """The first row of each group of successive rows with equal keys."""
    changes = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.flatnonzero(np.append(True, changes))


def _similarity(
    ontology: Ontology, nodes: _ConceptPairs, direction: str, max_path: int
) -> np.ndarray:
    """float64 [R], 1 / (1 + edges) of the two nodes, 0 without a path."""
    ends_R2 = np.stack([nodes.hypothesis_R, nodes.premise_R], axis=1)
    edges_R = np.where(nodes.hypothesis_R == nodes.premise_R, 0, -1)
    in_ontology_R = (ends_R2 < len(ontology)).all(axis=1)
    edges_R[in_ontology_R] = shortest_paths(
        ontology, ends_R2[in_ontology_R], direction=direction, max_length=max_path
    )
    return np.where(edges_R >= 0, 1 / (1.0 + np.maximum(edges_R, 0)), 0.0)
