"""From Examples to padded arrays; `corpora.cache` keeps them on disk.

Dimension letters: N rows, T tokens, K links, V words, D numbers per word.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from pathlib import Path

import numpy as np

from mednli_jax.data.arrays import PLURAL, SIDES, pad
from mednli_jax.data.examples import LABELS, Mention, Split
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.data.vectors import coverage, load_vectors
from mednli_jax.io import Watch, unwatched
from mednli_jax.knowledge.distances import corpus_links, shortest_paths
from mednli_jax.knowledge.lemmas import Lemmas
from mednli_jax.knowledge.linking import Linker, normalise, singular
from mednli_jax.knowledge.mentions import Recognised
from mednli_jax.knowledge.ontology import induced
from mednli_jax.knowledge.relations import kinds_of, typed_links
from mednli_jax.knowledge.retrofit import retrofit, unit_rows
from mednli_jax.nli.mixing import MIXED_TAG

FORMAT = 4  # of the arrays, from the corpus's files on; tests/corpora/test_prepared_content.py says when to raise it
GRAPH_SPLITS = ("train", "dev")  # their concepts form the graph of mentioned concepts, as in the published code
Concepts = Callable[[dict[str, list[list[Mention]]]], Iterable[str]]  # the mentions of each side -> concepts


@dataclass(frozen=True)
class Encoding:
    """How Examples become arrays. Every field is part of the prepared folder's key.

    Args:
      max_length: tokens kept of each sentence, its "first" or its "last" ones (keep).
      hypothesis_only: premises are left empty.
      vectors_path: None = random. unknown, lowered: see vectors.load_vectors. unit_length: of every word's vector.
      max_links: K. max_path: longest path in edges, 0 = no limit.
      graph: the ontology's "whole" graph, or that of the concepts that train and dev have "mentioned".
      relations: named relations of typed links (`knowledge.relations`), None for links without types.
    """

    lowercase: bool
    max_length: int
    hypothesis_only: bool
    vectors_path: Path | None
    vectors_dim: int
    vectors_seed: int
    direction: str
    max_path: int
    max_links: int
    retrofit_lexicon: Path | None = None
    retrofit_rounds: int = 10
    unit_length: bool = False
    keep: str = "first"
    graph: str = "whole"
    unknown: str = "mean"
    lowered: bool = True
    relations: tuple[str, ...] | None = None

    def first_kept(self, size: int) -> int:
        """The position of the first token that is kept of a sentence with `size` tokens."""
        return max(0, size - self.max_length) if self.keep == "last" else 0


def tokens_of(example, side: str, encoding: Encoding) -> list[str]:
    """The tokens a model sees of one side of an example."""
    if encoding.hypothesis_only and side == "premise":
        return []
    tokens = all_tokens(example, side)
    first = encoding.first_kept(len(tokens))
    return [token.lower() if encoding.lowercase else token for token in tokens[first : first + encoding.max_length]]


def all_tokens(example, side: str) -> tuple[str, ...]:
    return example.premise_tokens if side == "premise" else example.hypothesis_tokens


def whole_mentions(
    examples, side: str, linker: Linker | Recognised, encoding: Encoding, found: dict, watch
) -> list[list[Mention]]:
    """The mentions of one side of each example, in the whole sentence: the linker's, or those of a file.

    found: sentence -> its mentions, filled here, so that each distinct sentence is linked once.
    """
    if encoding.hypothesis_only and side == "premise":
        return [[] for _ in examples]
    mentions = []
    for example in watch(examples, f"concepts of {PLURAL[side]}"):
        if isinstance(linker, Recognised):
            mentions.append(linker.mentions(example.uid, side))
            continue
        sentence = all_tokens(example, side)
        if sentence not in found:
            found[sentence] = linker.link(sentence)
        mentions.append(found[sentence])
    return mentions


def kept_mentions(mentions: list[list[Mention]], examples, side: str, encoding: Encoding) -> list[list[Mention]]:
    """The mentions of `whole_mentions` within the tokens that are kept, counted from the first kept token.

    Whole sentences are linked, because the beginning of a cut name could be taken for another name.
    """
    sizes = (len(all_tokens(example, side)) for example in examples)
    return [
        found if size <= encoding.max_length else _kept(found, encoding.first_kept(size), encoding.max_length)
        for found, size in zip(mentions, sizes, strict=True)
    ]


def _kept(mentions, first, most):
    moved = (Mention(mention.start - first, mention.end - first, mention.concept) for mention in mentions)
    return [mention for mention in moved if mention.start >= 0 and mention.end <= most]


def find_mentions(
    examples, side: str, linker: Linker | Recognised, encoding: Encoding, found: dict, watch
) -> list[list[Mention]]:
    """The mentions of one side of each example among the tokens that are kept, see `whole_mentions`."""
    return kept_mentions(whole_mentions(examples, side, linker, encoding, found, watch), examples, side, encoding)


def encode_links(
    examples,
    linker: Linker | Recognised,
    encoding: Encoding,
    watch=unwatched,
    paths=shortest_paths,
    concepts: Concepts | None = None,
    rows: Mapping[str, slice] | None = None,
) -> tuple[dict, dict]:
    """(link arrays [N, K] of some examples, by the linker's ontology; facts about the links).

    paths: finds distances between concepts, see distances.corpus_links. concepts, rows: see links_of.
    """
    found = {}
    whole = {side: whole_mentions(examples, side, linker, encoding, found, watch) for side in SIDES}
    mentions = {side: kept_mentions(whole[side], examples, side, encoding) for side in SIDES}
    size, unit_of = encoding.max_length, None
    if encoding.relations is not None:
        unit_of = units_of(examples, linker, encoding)
    arrays, facts = links_of(mentions, whole, linker, encoding, size, paths, concepts, rows, unit_of)
    if isinstance(linker, Recognised):
        given = (m.concept for lists in mentions.values() for found in lists for m in found)
        unknown = [concept for concept in given if not linker.indices(concept)]
        counts = {"of_unknown_concepts": len(unknown), "unknown_concepts": len(set(unknown))}
        facts |= {"mentions": linker.facts | counts}
    return arrays, facts


def units_of(examples, linker, encoding):
    """The `unit_of` of knowledge.relations; concepts that the ontology lacks get numbers after the known ones."""
    unknown = {}

    @cache
    def words_of(tokens):
        return " ".join(singular(part) for token in tokens for part in normalise(token))

    def unit_of(side, number, mention):
        indices = linker.indices(mention.concept)
        if isinstance(linker, Lemmas):  # words are equal if their base forms are
            return mention.concept, tuple(indices)
        tokens = tokens_of(examples[number], side, encoding)[mention.start : mention.end]
        indices = indices or [len(linker.ontology) + unknown.setdefault(mention.concept, len(unknown))]
        return words_of(tuple(tokens)), tuple(indices)

    return unit_of


def links_of(
    mentions: dict[str, list[list[Mention]]],
    whole: dict[str, list[list[Mention]]],
    linker,
    encoding: Encoding,
    max_tokens: int,
    paths=shortest_paths,
    concepts: Concepts | None = None,
    rows: Mapping[str, slice] | None = None,
    unit_of: Callable | None = None,
) -> tuple[dict, dict]:
    """(link arrays [N, K] from the mentions of each side of each example; facts about the links).

    Args:
      mentions, whole: mentions within the tokens that are kept, and in whole sentences.
      max_tokens: the most tokens of a side.
      concepts: of a graph of mentioned concepts, from the mentions in whole sentences, as in the published code; None
        for the ontology's whole graph. They are the fact `graph_concepts`.
      rows: of each split, for the fact `splits`; None for none.
      unit_of: of `relations.typed_links`, for typed links; the array `link_relation` has their bits.
    """
    ontology = linker.ontology
    graph, facts = ontology, {"graph": encoding.graph}
    if concepts is not None:
        facts["graph_concepts"] = sorted(_ids(concepts(whole), linker))
        graph = induced(ontology, facts["graph_concepts"])
    both = (graph, mentions["premise"], mentions["hypothesis"])
    limits = {"max_links": encoding.max_links, "max_tokens": max_tokens, "max_length": encoding.max_path}
    if unit_of is None:
        links = corpus_links(*both, direction=encoding.direction, paths=paths, **limits)
    else:
        links = typed_links(*both, unit_of, named=encoding.relations, **limits)
    filled = links.distance >= 0
    width = max(int(filled.sum(axis=1).max(initial=0)), 1)
    arrays = {f"link_{name}": getattr(links, name)[:, :width] for name in (*SIDES, "distance")}
    if unit_of is not None:
        arrays["link_relation"] = links.relation[:, :width]
        kinds = kinds_of(encoding.relations)
        facts["relations"] = {kind: int((links.relation >> bit & 1).sum()) for bit, kind in enumerate(kinds)}
    named = {mention.concept for lists in mentions.values() for found in lists for mention in found}
    facts |= {
        "sentences_with_mentions": sum(bool(found) for lists in mentions.values() for found in lists),
        "concepts_mentioned": len(named),
        "concepts_in_ontology": sum(bool(linker.indices(concept)) for concept in named),
        "ontology": ontology.name,
        "version": ontology.version,
        "sha256": ontology.sha256,
        "concepts": len(ontology),
        "longest_path": max(links.longest, 0),
        "dropped_links": links.dropped,
        "pairs_with_links": int(filled.any(axis=1).sum()),
        "links": int(filled.sum()),
        "links_per_length": _per_length(links.distance),
    }
    if rows:
        facts["splits"] = {name: _linked(mentions, links.distance, part) for name, part in rows.items()}
    return arrays, facts


def _ids(concepts, linker) -> set[str]:
    """The concepts as the ontology knows them; a key that joins several senses is split."""
    ontology = linker.ontology
    found = ((c, [] if ontology.indices(c) else linker.indices(c)) for c in concepts)
    return {concept for c, senses in found for concept in ([ontology.ids[place] for place in senses] or [c])}


def _per_length(distance):
    """{edges: links} of link distances, -1 where there is no link."""
    lengths, counts = np.unique(distance[distance >= 0], return_counts=True)
    return {str(d): int(n) for d, n in zip(lengths, counts, strict=True)}


def _linked(mentions, distance, rows):
    """Counts of some pairs: how many name concepts, how many are linked, and over how many edges."""
    has = [np.array([bool(found) for found in mentions[side][rows]], bool) for side in SIDES]
    return {
        "premises": int(has[0].sum()),
        "hypotheses": int(has[1].sum()),
        "pairs_with_concepts": int((has[0] & has[1]).sum()),
        "pairs_with_links": int((distance[rows] >= 0).any(axis=1).sum()),
        "concepts": len({mention.concept for side in SIDES for found in mentions[side][rows] for mention in found}),
        "links_per_length": _per_length(distance[rows]),
    }


class WordTexts:
    """How the texts of pairs become numbers: words with vectors. `pieces.PieceTexts` is the same for pieces of words.

    passes: number of passes over the examples to fit the vocabulary. unknown: the number of an unknown word.
    """

    passes, unknown = 1, UNK

    def __init__(self, encoding: Encoding, vocabulary: Vocab | None = None):
        self.encoding, self.vocabulary = encoding, vocabulary

    def fit(self, splits, examples, watch, retrofit_graph) -> tuple[np.ndarray, dict]:
        """Makes the vocabulary of the examples: (its vectors [V, D], facts of it)."""
        encoding = self.encoding
        counts = Counter(
            token for e in watch(examples, "vocabulary") for side in SIDES for token in tokens_of(e, side, encoding)
        )
        seen = Vocab.of_counts(counts)
        how = {"dim": encoding.vectors_dim, "seed": encoding.vectors_seed}
        how |= {name: getattr(encoding, name) for name in ("unknown", "lowered")}
        vectors = load_vectors(encoding.vectors_path, seen.words, **how)
        self.vocabulary, matrix = vectors.known()
        graph = retrofit_graph(self.vocabulary.words)
        if graph is not None:
            matrix = retrofit(matrix, graph, rounds=encoding.retrofit_rounds)
        if encoding.unit_length:
            matrix = unit_rows(matrix)
        return matrix, {
            "words": len(seen) - 2,
            "with_vector": vectors.found,
            "lowered": vectors.lowered,
            "source": vectors.source,
            "sha256": vectors.sha256,
            "coverage": coverage(vectors, counts),
            "retrofitted": 0 if graph is None else int((np.diff(graph.indptr) > 0).sum()),
        }

    def tokens(self, example, side: str) -> list[str]:
        """The words that the numbers of one side stand for, known or not."""
        return tokens_of(example, side, self.encoding)

    def arrays(self, examples, watch=unwatched) -> dict:
        """premise, hypothesis [N, T] and their lengths [N] of some examples; T = the longest."""
        arrays = {}
        for side in SIDES:
            rows = watch(examples, f"words of {PLURAL[side]}")
            numbers = [self.vocabulary.encode(self.tokens(example, side)) for example in rows]
            longest = max(max(map(len, numbers), default=0), 1)
            arrays[side], arrays[f"{side}_length"] = pad(numbers, longest)
        return arrays

    def links(
        self, examples, arrays, linker, watch=unwatched, paths=shortest_paths, concepts=None, rows=None
    ) -> tuple[dict, dict]:
        """(link arrays [N, K] of these examples, facts about the links); their token arrays are given."""
        return encode_links(examples, linker, self.encoding, watch, paths, concepts, rows)

    def facts(self, examples) -> dict:
        """Counts of what the arrays of these examples leave out."""
        most = self.encoding.max_length
        return {"truncated": {side: sum(len(all_tokens(e, side)) > most for e in examples) for side in SIDES}}


def encode_corpus(
    splits: dict[str, Split],
    linker: Linker | Recognised | None,
    encoding: Encoding,
    retrofit_graph: Callable = lambda words: None,
    paths: Callable = shortest_paths,
    texts=None,
):
    """All arrays, the vocabulary, the vectors and the facts of a corpus; with a linker, links.

    texts: what turns texts into numbers, None = WordTexts.
    """
    texts = texts or WordTexts(encoding)
    examples = [example for split in splits.values() for example in split.examples]
    passes = texts.passes + len(SIDES) * (1 if linker is None else 2)
    counts = [name in GRAPH_SPLITS for name, split in splits.items() for _ in split.examples]
    concepts = mentioned_in(counts) if encoding.graph == "mentioned" else None
    with Watch(passes * len(examples)) as watch:
        matrix, vocabulary = texts.fit(splits, examples, watch, retrofit_graph)
        arrays, facts = encode_splits(splits, texts, linker, watch, paths, concepts)
    return arrays, texts.vocabulary, matrix, {**facts, "vocabulary": vocabulary}


def encode_splits(
    splits: dict[str, Split],
    texts,
    linker: Linker | Recognised | None,
    watch=unwatched,
    paths: Callable = shortest_paths,
    concepts: Concepts | None = None,
) -> tuple[dict, dict]:
    """(arrays of some splits, facts about them), in the vocabulary of `texts`. concepts: see links_of."""
    examples = [example for split in splits.values() for example in split.examples]
    first = dict(zip(splits, np.cumsum([0, *map(len, splits.values())]).tolist(), strict=False))
    arrays = texts.arrays(examples, watch)
    links, knowledge = {}, {"ontology": "none", "longest_path": 0}
    if linker is not None:
        rows = {name: slice(first[name], first[name] + len(split)) for name, split in splits.items()}
        links, knowledge = texts.links(examples, arrays, linker, watch, paths, concepts, rows)
    facts = {
        "splits": {name: {**s.facts, "first": first[name], "rows": len(s)} for name, s in splits.items()},
        "unknown_tokens": {side: int((arrays[side] == texts.unknown).sum()) for side in SIDES},
        **texts.facts(examples),
        "knowledge": knowledge,
    }
    label = np.array([LABELS.index(e.label) if e.label else -1 for e in examples], np.int32)
    return {**arrays, "label": label, **domains(examples), **links}, facts


def mentioned_in(counts: Sequence[bool]) -> Concepts:
    """The concepts that the pairs with `counts` mention."""
    return lambda mentions: {
        mention.concept for lists in mentions.values() for found in compress(lists, counts) for mention in found
    }


def domains(examples) -> dict[str, np.ndarray]:
    """{`domain`: [N] int8, 1 for rows of the corpus that was mixed in}; {} without one."""
    mixed = [MIXED_TAG in example.tags for example in examples]
    return {"domain": np.array(mixed, np.int8)} if any(mixed) else {}
