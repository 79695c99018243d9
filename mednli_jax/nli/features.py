"""The 35 features of Romanov & Shivade 2018 (section 3, "Feature-based system"), as named columns.

The paper names seven groups and the number 35, not the features; its published code computes 32 and has 7 more
commented out. Every kind that the code has is here, and what is needed to make 35 (FEATURES, by group):

  bleu       sentence BLEU-4 of the hypothesis against the premise.
  tokens     tokens and characters (least, most, difference, ratio); distinct words (both sides together, ratio), the
             same without words of grammar, and the words in common.
  negation   negation words of either side (two columns more than the code has, which only says whether exactly one
             side is negated: the side matters to a tree), and that flag.
  tfidf      cosine of the TF-IDF vectors over words and word pairs, and their euclidean, manhattan and chebyshev
             distance. Vectors are not scaled to unit length: of those the euclidean distance follows from the cosine.
  edit       Levenshtein distance over characters, as a share of the shortest and of the longest alignment; Jaccard
             distance of the words; Sorensen distance, of pairs of letters here, because over words it is a function of
             Jaccard's; share of words that the other side has; same first word.
  embedding  cosine, euclidean, manhattan and chebyshev distance of the summed word vectors.
  ontology   path similarity 1 / (1 + edges) of concepts (Pedersen et al. 2007): of the nearest two, the mean over the
             hypothesis's concepts of their nearest concept in the premise, and the share of those that the premise
             has, or an ancestor or descendant of them. -1 where a side names no concept.

The code differs: its Levenshtein distance is over tokens, its TF-IDF leaves out what fewer than three training
sentences have (min_df=3) and scales vectors to unit length, differences have no sign, ratios are the larger over the
smaller, similarities are 1 less a distance, and "negation" is the word "no" alone. docs/results-mednli.md names the
columns beside the code's.

A difference is premise less hypothesis, a ratio hypothesis over premise (0 where the premise has none). Words are
tokens with a letter or a digit; "content" words are those that are neither grammar nor negation.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.data.text import PAD, UNK, Vocab
from mednli_jax.io import unwatched
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.nli import wording
from mednli_jax.nli.encoding import all_tokens

FORMAT = 2  # of the values; tests/corpora/test_prepared_content.py says when to raise it
FEATURES = {  # name -> group, in the order of the columns
    "bleu": "bleu",
    "tokens_min": "tokens",
    "tokens_max": "tokens",
    "tokens_difference": "tokens",
    "tokens_ratio": "tokens",
    "characters_min": "tokens",
    "characters_max": "tokens",
    "characters_difference": "tokens",
    "characters_ratio": "tokens",
    "distinct_total": "tokens",
    "distinct_ratio": "tokens",
    "content_total": "tokens",
    "content_difference": "tokens",
    "content_ratio": "tokens",
    "common_words": "tokens",
    "negations_premise": "negation",
    "negations_hypothesis": "negation",
    "negation_one_side": "negation",
    "tfidf_cosine": "tfidf",
    "tfidf_euclidean": "tfidf",
    "tfidf_manhattan": "tfidf",
    "tfidf_chebyshev": "tfidf",
    "levenshtein_shortest": "edit",
    "levenshtein_longest": "edit",
    "jaccard": "edit",
    "sorensen": "edit",
    "matched_words": "edit",
    "same_first_word": "edit",
    "embedding_cosine": "embedding",
    "embedding_euclidean": "embedding",
    "embedding_manhattan": "embedding",
    "embedding_chebyshev": "embedding",
    "path_nearest": "ontology",
    "path_mean": "ontology",
    "path_share": "ontology",
}
NAMES = tuple(FEATURES)
GROUPS = tuple(dict.fromkeys(FEATURES.values()))
NO_CONCEPT = -1.0
_STRIDE = 4096  # pairs at a time: bounds the memory of summed vectors


def matrix(
    splits: dict[str, Split],
    *,
    vocab: Vocab,
    vectors: np.ndarray,
    mentions: tuple[Sequence[Sequence[Mention]], Sequence[Sequence[Mention]]],
    ontology: Ontology | None,
    direction: str = "undirected",
    max_path: int = 0,
    lowercase: bool = True,
    hypothesis_only: bool = False,
    watch=unwatched,
    terms: dict | None = None,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The features of a corpus: (float64 [N, 35], NAMES), rows of all splits one after the other.

    Args:
      splits: "train" among them unless `terms` are given; TF-IDF is fitted on its distinct sentences alone.
      vocab, vectors: words and their vectors [V, D]; words without one add nothing to a sentence's sum.
      mentions: concepts of the N premises and of the N hypotheses. ontology: theirs; None leaves the ontology's
        columns NO_CONCEPT.
      direction, max_path: of `knowledge.distances.shortest_paths`; undirected paths may meet in a common ancestor, as
        the path measure of the paper's UMLS::Similarity does. path_share always asks for "either".
      hypothesis_only: premises are taken to be empty. watch: see Watch, two passes over the examples.
      terms: of `terms_of`, None for those of the training pairs.

    Raises: UserError for a direction or length of paths that does not exist; KeyError without "train".
    """
    examples = [example for split in splits.values() for example in split.examples]
    seen: dict[tuple[str, ...], int] = {}
    sides = []
    for side in SIDES:
        texts = (_tokens(example, side, lowercase, hypothesis_only) for example in examples)
        sides.append(np.array([seen.setdefault(tokens, len(seen)) for tokens in texts], np.int64))
    sentences, terms = list(seen), terms or terms_of(splits["train"], lowercase, hypothesis_only)
    columns = {
        **_wording([wording.read(tokens) for tokens in sentences], *sides, examples, watch),
        **_tfidf(sentences, *sides, terms),
        **_embedding(sentences, *sides, vocab, vectors),
        **_paths(*mentions, ontology, direction, max_path, watch),
    }
    return np.stack([np.asarray(columns[name], np.float64) for name in NAMES], axis=1), NAMES


def _tokens(example: NLIExample, side: str, lowercase: bool, hypothesis_only: bool) -> tuple[str, ...]:
    """All tokens of a sentence, whatever `data.max_length` is."""
    if hypothesis_only and side == "premise":
        return ()
    tokens = all_tokens(example, side)
    return tuple(token.lower() for token in tokens) if lowercase else tokens


def _wording(sentences: Sequence[wording.Sentence], left, right, examples, watch) -> dict[str, np.ndarray]:
    """Groups bleu, tokens, negation and edit: sentence `left[n]` against `right[n]`."""
    rows = [
        wording.compare(sentences[p], sentences[h])
        for p, h, _ in zip(left.tolist(), right.tolist(), watch(examples, "features of wording"), strict=True)
    ]
    names = [name for name in NAMES if FEATURES[name] in ("bleu", "tokens", "negation", "edit")]
    return {name: np.array([row[name] for row in rows], np.float64) for name in names}


def terms_of(train: Split, lowercase: bool, hypothesis_only: bool) -> dict:
    """The words and word pairs of the distinct training sentences, as JSON values: {"terms": [...], "idf": [...]}."""
    texts = (_tokens(example, side, lowercase, hypothesis_only) for example in train.examples for side in SIDES)
    fitted = list(dict.fromkeys(texts))
    if not any(fitted):  # empty sentences only: no terms
        return {"terms": [], "idf": []}
    vectorizer = _vectorizer().fit(fitted)
    return {"terms": vectorizer.get_feature_names_out().tolist(), "idf": vectorizer.idf_.tolist()}


def _vectorizer(**how):
    from sklearn.feature_extraction.text import TfidfVectorizer  # a slow import, and networks do without

    def words_and_pairs(tokens):
        return [*tokens, *map(" ".join, pairwise(tokens))]

    return TfidfVectorizer(analyzer=words_and_pairs, norm=None, **how)


def _tfidf(sentences, left, right, found) -> dict[str, np.ndarray]:
    if not found["terms"]:
        return dict.fromkeys((name for name in NAMES if FEATURES[name] == "tfidf"), np.zeros(len(left)))
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
    names = [name for name in NAMES if FEATURES[name] == "embedding"]
    result = np.empty((len(names), len(left)))
    for first in range(0, len(left), _STRIDE):
        part = slice(first, first + _STRIDE)
        p, h = counts[left[part]] @ known, counts[right[part]] @ known
        apart = np.abs(p - h)
        norms = np.linalg.norm(p, axis=1) * np.linalg.norm(h, axis=1)
        result[0, part] = _cosine((p * h).sum(axis=1), norms)
        result[1, part] = np.linalg.norm(apart, axis=1)
        result[2, part] = apart.sum(axis=1)
        result[3, part] = apart.max(axis=1)
    return dict(zip(names, result, strict=True))


def _paths(premise_mentions, hypothesis_mentions, ontology, direction, max_path, watch) -> dict[str, np.ndarray]:
    """A concept that the ontology does not have is related to itself alone. A cross-reference, as a CUI is of SNOMED
    CT's concepts, is one concept that stands at several places, of which the nearest counts."""
    size = len(premise_mentions)
    names = [name for name in NAMES if FEATURES[name] == "ontology"]
    result = np.full((len(names), size), NO_CONCEPT)
    if ontology is None:
        return dict(zip(names, result, strict=True))
    codes, rows = {}, []

    def places(mention):
        if mention.concept not in codes:
            codes[mention.concept] = tuple(ontology.indices(mention.concept)) or (len(ontology) + len(codes),)
        return codes[mention.concept]

    mention_pairs = zip(premise_mentions, hypothesis_mentions, strict=True)
    for pair, (premise, hypothesis) in enumerate(watch(list(mention_pairs), "paths between concepts")):
        here = {place for mention in premise for place in places(mention)}
        there = sorted(set(map(places, hypothesis)))
        rows.extend((pair, number, b, a) for number, of in enumerate(there) for b in of for a in sorted(here))
    if not rows:
        return dict(zip(names, result, strict=True))
    owner, number, concept, other = np.array(rows, np.int64).T
    similarity = _similarity(ontology, concept, other, direction, max_path)
    related = similarity if direction == "either" else _similarity(ontology, concept, other, "either", max_path)
    # Rows of one concept of a hypothesis are kept together, and so are the concepts of one hypothesis.
    new = np.flatnonzero(np.append(True, (owner[1:] != owner[:-1]) | (number[1:] != number[:-1])))
    best, related, owner = np.maximum.reduceat(similarity, new), np.maximum.reduceat(related, new), owner[new]
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
    count = np.diff(np.append(first, len(owner)))
    pairs = owner[first]
    result[0, pairs] = np.maximum.reduceat(best, first)
    result[1, pairs] = np.add.reduceat(best, first) / count
    result[2, pairs] = np.add.reduceat((related > 0).astype(np.float64), first) / count
    return dict(zip(names, result, strict=True))


def _similarity(ontology, concept, other, direction, max_path) -> np.ndarray:
    """1 / (1 + edges) of each two concept codes, 0 without a path; codes from len(ontology) up are not in it."""
    edges = np.where(concept == other, 0, -1)
    known = (concept < len(ontology)) & (other < len(ontology))
    ends = np.stack([concept[known], other[known]], axis=1)
    edges[known] = shortest_paths(ontology, ends, direction=direction, max_length=max_path)
    return np.where(edges >= 0, 1 / (1.0 + np.maximum(edges, 0)), 0.0)
