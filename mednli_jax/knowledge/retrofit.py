"""Retrofitting: vectors are moved towards those of related words or concepts (Faruqui et al. 2015,
section 2).

Each vector is drawn to its old place and to its neighbours: q_i = (alpha_i q^_i + sum_j beta_ij
q_j) / (alpha_i + sum_j beta_ij), with alpha_i = 1 and beta_ij = 1 / degree(i), ten rounds, each
vector replaced in place.

MedNLI's published code (Romanov and Shivade 2018, 4.2.1) ran the published script over ids of
concepts. That script replaces every word that has a digit by the same symbol. So no concept id has
neighbours, and only the lengths of the vectors change: `unit_rows` does this, as a control. (The
script also writes ids in lower case, and MedNLI's code does not find these: as both scripts stand,
nothing changes at all.) Here words and ids are not replaced, a lexicon that would move nothing is
refused, and vectors keep their lengths.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.text import SPECIALS
from mednli_jax.errors import ConfigError, Problems
from mednli_jax.files.reading import empty_file, text_lines
from mednli_jax.knowledge.ontology import Ontology, bool_matrix
from mednli_jax.knowledge.words import FUNCTION_WORDS, normalise
from mednli_jax.terminal import Bar

# Words of a lexicon end at ASCII spaces only: a no-break space is part of a word, as in the
# published script.
_WORD = re.compile(r"[^ \t\n\r\x0b\x0c]+")
# Added to a squared length, as in the published script: a row of zeros stays one.
_NORM_FLOOR = 1e-6


def retrofit(vectors: np.ndarray, graph: csr_array, *, rounds: int) -> np.ndarray:
    """Moves vectors [V, D] towards those of their neighbours (Faruqui et al. 2015, eq. 2); returns
    float32.

    graph: bool [V, V] without a diagonal, each edge once; graph[i, j] says that j draws i.

    Rows are visited in the order of their colour (`colours`), then of their number: all rows of a
    colour are one sparse product. The published script visits words in the order of a hash table.
    All orders lead to the same vectors: a round at least halves the distance to them, so that after
    ten rounds two orders differ by less than .002.
    """
    degree = np.diff(graph.indptr).astype(np.float64)
    has_neighbour = degree > 0
    scale = 1 / np.maximum(degree, 1)  # beta
    total = 1 + scale * degree  # the denominator of eq. 2
    colour = colours(graph)
    colour[~has_neighbour] = colour.max(initial=-1) + 1  # rows without neighbours come last
    order = np.argsort(colour, kind="stable")
    place = np.argsort(order)  # of each row in that order
    # The weights of the neighbours, rows and columns in the new order.
    weights = csr_array(graph[order], dtype=np.float32)
    weights.indices = place[weights.indices].astype(np.int32)
    weight_of_row = (scale / total)[order]
    weights.data *= np.repeat(weight_of_row, np.diff(weights.indptr)).astype(np.float32)
    ends = np.cumsum(np.bincount(colour[has_neighbour])).tolist()
    colour_blocks = []
    for begin, end in pairwise([0, *ends]):
        colour_blocks.append((slice(begin, end), weights[begin:end]))
    current = np.asarray(vectors)[order].astype(np.float32)
    own_share = current / total[order].astype(np.float32)[:, None]
    with Bar("retrofitting", rounds, noun="rounds") as bar:
        for _ in range(rounds):
            for rows, weights_of_colour in colour_blocks:
                current[rows] = weights_of_colour @ current + own_share[rows]
            bar.advance(1)
    return np.asarray(current[place])


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Divides every row by its Euclidean length, as the published script does: float32 [V, D].
    Zeros stay zeros."""
    squares = np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64)
    lengths: np.ndarray = np.sqrt(squares + _NORM_FLOOR)
    return np.asarray(vectors / lengths[:, None], np.float32)


def colours(graph: csr_array) -> np.ndarray:
    """Colours a graph so that neighbours differ: int32 [V]. In the order of rows, each takes the
    smallest colour that no neighbour, in either direction, has.

    Greedy and deterministic; at most one colour more than the largest number of neighbours.
    """
    graph = csr_array(graph, dtype=bool)
    both_ways = csr_array(graph + graph.T)
    neighbours = both_ways.indices.tolist()
    colour_of = [-1] * graph.shape[0]
    for row, (begin, end) in enumerate(pairwise(both_ways.indptr.tolist())):
        taken = {colour_of[neighbour] for neighbour in neighbours[begin:end]}
        colour = 0
        while colour in taken:
            colour += 1
        colour_of[row] = colour
    return np.array(colour_of, np.int32)


def read_lexicon(path: Path) -> dict[str, tuple[str, ...]]:
    """Reads a lexicon of the published format: on each line a word, then its neighbours, between
    spaces; also gzipped.

    Words are lower-cased, as the published script does; numbers stay as they are. If a word has
    several lines (in the published FrameNet lexicon, one for each frame), all its neighbours count.
    """
    problems = Problems()
    lexicon: dict[str, tuple[str, ...]] = {}
    for _, line in text_lines(path, problems):
        words = _WORD.findall(line.lower())
        if not words:
            continue
        word, *neighbours = words
        lexicon[word] = tuple(dict.fromkeys([*lexicon.get(word, ()), *neighbours]))
    problems.raise_if_any()
    if not lexicon:
        raise empty_file(path, "no words")
    return lexicon


def word_graph(lexicon: Mapping[str, Sequence[str]], words: Sequence[str]) -> csr_array:
    """The graph bool [V, V] of a lexicon over `words`: graph[i, j] says that the lexicon lists word
    j under word i.

    A word that the lexicon lacks is looked up in lower case. Neighbours that are not in `words`
    have no vector and are left out. "<pad>" and "<unk>" have no neighbours. A lexicon that gives no
    word a neighbour is refused.
    """
    row_of = _row_of(words)
    rows: list[int] = []
    columns: list[int] = []
    for word, row in row_of.items():
        neighbours = lexicon.get(word)
        if neighbours is None:
            neighbours = lexicon.get(word.lower(), ())
        columns_of_row = [row_of[neighbour] for neighbour in neighbours if neighbour in row_of]
        rows += [row] * len(columns_of_row)
        columns += columns_of_row
    return _moving(bool_matrix(rows, columns, (len(words), len(words))), "the lexicon")


def ontology_word_graph(
    ontology: Ontology, words: Sequence[str], *, relations: Sequence[str] = ("is_a", "synonym")
) -> csr_array:
    """The graph bool [V, V] of words that an ontology relates, both ways, through the one-word
    names of its concepts.

    Case does not count. A word of grammar is no concept's name.

    Args:
      words: see `word_graph`.
      relations: "synonym" relates two names of one concept; "is_a", a key of `Ontology.relations`
        or "all" relates names of two concepts that have this relation.
    """
    rows_of: dict[str, list[int]] = {}  # folded word -> rows
    for word, row in _row_of(words).items():
        folded = word.casefold()
        if folded not in FUNCTION_WORDS and any(map(str.isalpha, word)):
            rows_of.setdefault(folded, []).append(row)
    labels = zip(ontology.labels, range(len(ontology)), strict=True)
    rows: list[int] = []
    concepts: list[int] = []
    for name, concept in chain(labels, ontology.names):
        for row in rows_of.get(name.casefold(), ()):
            rows.append(row)
            concepts.append(concept)
    names = bool_matrix(rows, concepts, (len(words), len(ontology)))
    of_concepts = [relation for relation in relations if relation != "synonym"]
    graph = names @ _related_pairs(ontology, of_concepts, ("synonym", "is_a")) @ names.T
    if "synonym" in relations:
        graph = graph + names @ names.T
    return _moving(csr_array(graph), f"ontology '{ontology.name}'")


def _related_pairs(
    ontology: Ontology, relations: Sequence[str], further_names: Sequence[str] = ("is_a",)
) -> csr_array:
    """bool [C, C], the pairs of concepts that stand in a relation, in either direction.

    Args:
      relations: "is_a", keys of `Ontology.relations`, or "all" for all of these.
      further_names: names besides these keys, for the message.
    """
    matrices = {"is_a": ontology.parents, **ontology.relations}
    graph = csr_array((len(ontology), len(ontology)), dtype=bool)
    for relation in matrices if "all" in relations else relations:
        if relation not in matrices:
            names = ", ".join((*further_names, *ontology.relations, "all"))
            problem = f"ontology '{ontology.name}' has no relation '{relation}'"
            raise ConfigError(problem, fix=f"give one of {names}")
        matrix = csr_array(matrices[relation], dtype=bool)
        graph = csr_array(graph + matrix + matrix.T)
    return graph


def _row_of(words: Sequence[str]) -> dict[str, int]:
    """Maps each word to its row, without "<pad>" and "<unk>"."""
    return {word: row for row, word in enumerate(words) if word not in SPECIALS}


def _moving(graph: csr_array, source: str) -> csr_array:
    """Removes the diagonal of a graph; raises if no edge is left. source: of the graph, for the
    message."""
    edges = graph.tocoo()
    is_off_diagonal = edges.row != edges.col
    if not is_off_diagonal.any():
        problem = (
            f"{source} relates no two of those that have vectors, so that retrofitting would move"
            " nothing"
        )
        fix = "check that both are of the same language and case, or leave it out"
        raise ConfigError(problem, fix=fix)
    return bool_matrix(edges.row[is_off_diagonal], edges.col[is_off_diagonal], graph.shape)


def concept_vectors(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    names: Iterable[tuple[str, int]],
) -> tuple[np.ndarray, np.ndarray]:
    """Computes a vector for each concept: (float32 [C, D]; bool [C], whether the concept has no
    known token, so that its row is zero).

    The vector is the mean over the tokens of the concept's most frequent name that has a known
    token (the published code's default, cbow_most_common). Tokens are looked up as they are, then
    in lower case, then without hyphens.

    Args:
      vectors_of_words: floats [V, D], the rows of `words`, see `word_graph`.
      names: (phrase, concept index), e.g. of every mention in a training corpus.
    """
    row_of = _row_of(words)
    # (concept, row of a known token) -> how often the name has it
    counts: Counter[tuple[int, int]] = Counter()
    is_missing = np.ones(len(ontology), bool)
    for (name, concept), _ in Counter(names).most_common():
        if is_missing[concept]:
            rows = _known_rows(name, row_of)
            is_missing[concept] = not rows
            counts.update((concept, row) for row in rows)
    concept_rows, token_rows = np.array(list(counts), np.int64).reshape(-1, 2).T
    count = np.fromiter(counts.values(), np.float64, len(counts))
    total_C = np.bincount(concept_rows, weights=count, minlength=len(ontology))
    weight = (count / total_C[concept_rows]).astype(np.float32)
    weights = csr_array((weight, (concept_rows, token_rows)), shape=(len(ontology), len(words)))
    return weights @ np.asarray(vectors_of_words, np.float32), is_missing


def _known_rows(name: str, row_of: Mapping[str, int]) -> list[int]:
    rows = []
    for token in name.split():
        if token in row_of:
            forms: tuple[str, ...] = (token,)
        elif token.lower() in row_of:
            forms = (token.lower(),)
        else:
            forms = normalise(token)
        for form in forms:
            if form in row_of and any(map(str.isalnum, form)):
                rows.append(row_of[form])
    return rows


class MovedConcepts(NamedTuple):
    """The `concept_vectors` after retrofitting. with_neighbour: number of concepts that were
    moved."""

    vectors: np.ndarray
    is_missing: np.ndarray
    with_neighbour: int


def retrofit_concepts(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    names: Iterable[tuple[str, int]],
    *,
    relations: Sequence[str],
    rounds: int = 10,
) -> MovedConcepts:
    """Computes `concept_vectors` and moves them towards those of related concepts.

    A concept without a vector is no neighbour. Vectors keep their lengths, so that they can be
    mixed with the word vectors they come from (MedNLI's had length 1, unlike its words).
    """
    vectors, is_missing = concept_vectors(ontology, vectors_of_words, words, names)
    edges = _related_pairs(ontology, relations).tocoo()
    has_vectors = ~(is_missing[edges.row] | is_missing[edges.col])
    related = bool_matrix(edges.row[has_vectors], edges.col[has_vectors], edges.shape)
    graph = _moving(related, f"ontology '{ontology.name}'")
    with_neighbour = int((np.diff(graph.indptr) > 0).sum())
    return MovedConcepts(retrofit(vectors, graph, rounds=rounds), is_missing, with_neighbour)
