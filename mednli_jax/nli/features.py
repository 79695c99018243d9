"""The 35 features of Romanov & Shivade 2018 (section 3, "Feature-based system"), as named columns.

The paper names seven groups and the number 35, not the features; its published code computes 32 and
has 7 more commented out. Every kind that the code has is here, and what is needed to make 35
(FEATURES, by group):

  bleu       sentence BLEU-4 of the hypothesis against the premise.
  tokens     tokens, characters and distinct words, with and without words of grammar; the words in common.
  negation   negation words of either side, and whether exactly one side has any, the code's only column.
  tfidf      cosine and distances of the TF-IDF vectors over words and word pairs, not scaled to unit length:
             of those the euclidean distance follows from the cosine.
  edit       Levenshtein distance over characters, as a share of the shortest and of the longest alignment; Jaccard
             distance of the words; Sorensen distance, of pairs of letters here, because over words it is a function of
             Jaccard's; share of words that the other side has; same first word.
  embedding  cosine and distances of the summed word vectors.
  ontology   path similarity 1 / (1 + edges) of concepts (Pedersen et al. 2007): of the nearest two, the mean over the
             hypothesis's concepts of their nearest concept in the premise, and the share of those that the premise
             has, or an ancestor or descendant of them. -1 where a side names no concept.

The code differs: its Levenshtein distance is over tokens, its TF-IDF leaves out what fewer than
three training sentences have (min_df=3) and scales vectors to unit length, differences have no
sign, ratios are the larger over the smaller, similarities are 1 less a distance, and "negation" is
the word "no" alone. docs/results-mednli.md names the columns beside the code's.

A difference is premise less hypothesis, a ratio hypothesis over premise (0 where the premise has
none). Words are tokens with a letter or a digit; "content" words are those that are neither grammar
nor negation.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from rapidfuzz.distance import Levenshtein
from scipy.sparse import csr_array

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.data.text import PAD, UNK, Vocab
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.words import FUNCTION_WORDS
from mednli_jax.nli.encoding import Encoding, all_tokens
from mednli_jax.terminal import watched

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
    "edit": "levenshtein_shortest levenshtein_longest jaccard sorensen matched_words same_first_word",
    "embedding": "embedding_cosine embedding_euclidean embedding_manhattan embedding_chebyshev",
    "ontology": "path_nearest path_mean path_share",
}
GROUPS = {group: tuple(names.split()) for group, names in _NAMES.items()}
WORDING = ("bleu", "tokens", "negation", "edit")
FEATURES = {name: group for group, names in GROUPS.items() for name in names}
NAMES = tuple(FEATURES)
# `n't` and `not` stand for "do not", "cannot" and the like, which corpora split.
_NEGATIONS = """
    absence absent cannot denied denies deny denying lack lacked lacking lacks negative negatives neither never no none
    nor not nothing n't n’t without
"""
NEGATIONS = frozenset(_NEGATIONS.split())
_NO_CONTENT = FUNCTION_WORDS | NEGATIONS
NO_CONCEPT = -1.0
_STRIDE = 4096  # pairs at a time: bounds the memory of summed vectors


def matrix(
    splits: dict[str, Split],
    *,
    encoding: Encoding,
    vocab: Vocab,
    vectors: np.ndarray,
    mentions: Sequence[Sequence[Sequence[Mention]]],
    ontology: Ontology | None,
    terms: dict | None = None,
) -> np.ndarray:
    """The features of a corpus: float64 [N, 35], columns as in NAMES, rows of all splits one after
    the other.

    Args:
      splits: "train" among them unless `terms` are given; TF-IDF is fitted on its distinct sentences alone.
      encoding: how sentences and paths are read, but not `max_length`. Undirected paths may meet in a common ancestor,
        as the path measure of the paper's UMLS::Similarity does. path_share always asks for "either".
      vocab, vectors: words and their vectors [V, D]; words without one add nothing to a sentence's sum.
      mentions: of the N premises and of the N hypotheses. ontology: theirs; None leaves its columns NO_CONCEPT.
      terms: of `terms_of`, None for those of the training pairs.
    """
    examples = [example for split in splits.values() for example in split.examples]
    seen: dict[tuple[str, ...], int] = {}
    sides = []
    for side in SIDES:
        texts = (_tokens(example, side, encoding) for example in examples)
        sides.append(np.array([seen.setdefault(tokens, len(seen)) for tokens in texts], np.int64))
    sentences, terms = list(seen), terms or terms_of(splits["train"], encoding)
    columns = {
        **_wording(sentences, *sides),
        **_tfidf(sentences, *sides, terms),
        **_embedding(sentences, *sides, vocab, vectors),
        **_paths(*mentions, ontology, encoding),
    }
    return np.stack([np.asarray(columns[name], np.float64) for name in NAMES], axis=1)


def _tokens(example: NLIExample, side: str, encoding: Encoding) -> tuple[str, ...]:
    """All tokens of a sentence, whatever `max_length` is."""
    if encoding.hypothesis_only and side == "premise":
        return ()
    tokens = all_tokens(example, side)
    return tuple(token.lower() for token in tokens) if encoding.lowercase else tokens


class _Sentence:
    """The properties of one distinct sentence that do not depend on the other side."""

    def __init__(self, tokens: tuple[str, ...]):
        self.tokens, self.text = tokens, " ".join(tokens)
        self.characters = sum(map(len, tokens))
        self.negations = sum(token.lower() in NEGATIONS for token in tokens)
        self.words = [token for token in tokens if any(map(str.isalnum, token))]
        self.content = [word for word in self.words if word.lower() not in _NO_CONTENT]
        self.distinct, self.distinct_content = set(self.words), set(self.content)
        self.letters = {a + b for word in self.words for a, b in pairwise(word)}


def _wording(sentences, left, right) -> dict[str, list]:
    """The groups of WORDING: sentence `left[n]` against `right[n]`."""
    read = list(map(_Sentence, sentences))
    rows = []
    for p, h in watched(
        list(zip(left.tolist(), right.tolist(), strict=True)), "features of wording"
    ):
        p, h = read[p], read[h]
        rows.append({"bleu": bleu(p.tokens, h.tokens), **_counts(p, h), **_edits(p, h)})
    return {name: [row[name] for row in rows] for group in WORDING for name in GROUPS[group]}


def _share(part, whole):
    return part / whole if whole else 0.0


def _counts(p, h) -> dict[str, float]:
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


def _edits(p, h) -> dict[str, float]:
    edits, longest = alignment(p.text, h.text)
    matched = sum(word in h.distinct_content for word in p.content)
    matched += sum(word in p.distinct_content for word in h.content)
    return {
        "levenshtein_shortest": _share(edits, max(len(p.text), len(h.text))),
        "levenshtein_longest": _share(edits, longest),
        "jaccard": _share(len(p.distinct ^ h.distinct), len(p.distinct | h.distinct)),
        "sorensen": _share(len(p.letters ^ h.letters), len(p.letters) + len(h.letters)),
        "matched_words": _share(matched, len(p.content) + len(h.content)),
        "same_first_word": p.words[:1] == h.words[:1] != [],
    }


def alignment(first: str, second: str) -> tuple[int, int]:
    """(Levenshtein distance, length of the longest alignment with so many edits).

    With n and m characters, s substitutions and g insertions and deletions an alignment is (n + m +
    g) / 2 long. So of those with the fewest edits the one with the most gaps is wanted: a gap costs
    k - 1 and a substitution k, where k > n + m >= g keeps the number of edits decisive.
    """
    size = len(first) + len(second)
    k = size + 1
    cost = Levenshtein.distance(first, second, weights=(k - 1, k - 1, k))
    edits = -(-cost // k)
    gaps = edits * k - cost
    return edits, (size + gaps) // 2


def bleu(reference: tuple[str, ...], candidate: tuple[str, ...]) -> float:
    """Sentence BLEU-4 (Papineni et al. 2002, section 2.3); 0 without any word in common.

    An order without any match counts 0.1 n-grams (Chen & Cherry 2014, smoothing 1).
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    return float(
        sentence_bleu(
            [reference], candidate, smoothing_function=SmoothingFunction(epsilon=0.1).method1
        )
    )


def terms_of(train: Split, encoding: Encoding) -> dict:
    """The words and word pairs of the distinct training sentences, as JSON values: {"terms": [...],
    "idf": [...]}."""
    texts = (_tokens(example, side, encoding) for example in train.examples for side in SIDES)
    fitted = list(dict.fromkeys(texts))
    if not any(fitted):
        return {"terms": [], "idf": []}
    vectorizer = _vectorizer().fit(fitted)
    return {"terms": vectorizer.get_feature_names_out().tolist(), "idf": vectorizer.idf_.tolist()}


def _vectorizer(**how):
    from sklearn.feature_extraction.text import TfidfVectorizer

    def words_and_pairs(tokens):
        return [*tokens, *map(" ".join, pairwise(tokens))]

    return TfidfVectorizer(analyzer=words_and_pairs, norm=None, **how)


def _tfidf(sentences, left, right, found) -> dict[str, np.ndarray]:
    if not found["terms"]:
        return dict.fromkeys(GROUPS["tfidf"], np.zeros(len(left)))
    vectorizer = _vectorizer(vocabulary=found["terms"])
    vectorizer.idf_ = np.array(found["idf"])
    terms = csr_array(vectorizer.transform(sentences))
    norm = np.sqrt(terms.power(2).sum(axis=1))
    p, h = terms[left], terms[right]
    apart = abs(p - h)
    return {
        "tfidf_cosine": _cosine(p.multiply(h).sum(axis=1), norm[left] * norm[right]),
        "tfidf_euclidean": np.sqrt(apart.power(2).sum(axis=1)),
        "tfidf_manhattan": apart.sum(axis=1),
        "tfidf_chebyshev": apart.max(axis=1).toarray().reshape(-1),
    }


def _cosine(dot, norms) -> np.ndarray:
    """0 where a side has no vector."""
    return np.divide(dot, norms, out=np.zeros(len(dot)), where=norms > 0)


def _embedding(sentences, left, right, vocab: Vocab, vectors: np.ndarray) -> dict[str, np.ndarray]:
    numbers = [vocab.encode(tokens) for tokens in sentences]
    ends = np.cumsum([0, *map(len, numbers)])
    flat = np.fromiter((number for row in numbers for number in row), np.int64, ends[-1])
    counts = csr_array((np.ones(len(flat)), flat, ends), shape=(len(sentences), len(vectors)))
    known = np.array(vectors, np.float64)
    known[[PAD, UNK]] = 0
    result = np.empty((4, len(left)))
    for first in range(0, len(left), _STRIDE):
        part = slice(first, first + _STRIDE)
        p, h = counts[left[part]] @ known, counts[right[part]] @ known
        apart = np.abs(p - h)
        norms = np.linalg.norm(p, axis=1) * np.linalg.norm(h, axis=1)
        result[0, part] = _cosine((p * h).sum(axis=1), norms)
        result[1, part] = np.linalg.norm(apart, axis=1)
        result[2, part] = apart.sum(axis=1)
        result[3, part] = apart.max(axis=1)
    return dict(zip(GROUPS["embedding"], result, strict=True))


def _paths(premise_mentions, hypothesis_mentions, ontology, encoding) -> dict[str, np.ndarray]:
    """A concept that the ontology does not have is related to itself alone. Of a cross-reference,
    which is one concept at several places, the nearest place counts."""
    result = np.full((3, len(premise_mentions)), NO_CONCEPT)
    columns = dict(zip(GROUPS["ontology"], result, strict=True))
    if ontology is None:
        return columns
    codes, rows = {}, []

    def places(mention):
        if mention.concept not in codes:
            codes[mention.concept] = tuple(ontology.indices(mention.concept)) or (
                len(ontology) + len(codes),
            )
        return codes[mention.concept]

    mention_pairs = zip(premise_mentions, hypothesis_mentions, strict=True)
    for pair, (premise, hypothesis) in enumerate(
        watched(list(mention_pairs), "paths between concepts")
    ):
        here = {place for mention in premise for place in places(mention)}
        there = sorted(set(map(places, hypothesis)))
        rows.extend(
            (pair, number, b, a)
            for number, of in enumerate(there)
            for b in of
            for a in sorted(here)
        )
    if not rows:
        return columns
    owner, number, concept, other = np.array(rows, np.int64).T
    similarity, related = (
        _similarity(ontology, concept, other, direction, encoding.max_path)
        for direction in (encoding.direction, "either")
    )
    # Rows of one concept of a hypothesis are kept together, and so are the concepts of one
    # hypothesis.
    new = np.flatnonzero(np.append(True, (owner[1:] != owner[:-1]) | (number[1:] != number[:-1])))
    best, related, owner = (
        np.maximum.reduceat(similarity, new),
        np.maximum.reduceat(related, new),
        owner[new],
    )
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
    count = np.diff(np.append(first, len(owner)))
    pairs = owner[first]
    result[0, pairs] = np.maximum.reduceat(best, first)
    result[1, pairs] = np.add.reduceat(best, first) / count
    result[2, pairs] = np.add.reduceat((related > 0).astype(np.float64), first) / count
    return columns


def _similarity(ontology, concept, other, direction, max_path) -> np.ndarray:
    """1 / (1 + edges) of each two concept codes, 0 without a path; codes from len(ontology) up are
    not in it."""
    edges = np.where(concept == other, 0, -1)
    known = (concept < len(ontology)) & (other < len(ontology))
    ends = np.stack([concept[known], other[known]], axis=1)
    edges[known] = shortest_paths(ontology, ends, direction=direction, max_length=max_path)
    return np.where(edges >= 0, 1 / (1.0 + np.maximum(edges, 0)), 0.0)
