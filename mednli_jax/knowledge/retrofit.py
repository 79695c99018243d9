"""Retrofitting: vectors are moved towards those of related words or concepts (Faruqui et al. 2015,
section 2).

Each vector is drawn to its old place and to its neighbours: q_i = (alpha_i q^_i + sum_j beta_ij
q_j) / (alpha_i + sum_j beta_ij), with alpha_i = 1 and beta_ij = 1 / degree(i), ten rounds, each
vector replaced in place.

MedNLI's published code (Romanov and Shivade 2018, 4.2.1) ran the published script over ids of
concepts. That script takes any word that has a digit for one and the same symbol. So no concept id
has neighbours, and only the lengths of the vectors change: `unit_rows` is what is left of it, a
control. (It also writes ids in lower case, in which MedNLI's code does not find them: as both
scripts stand, nothing changes at all.) Here words and ids stay what they are, a lexicon that would
move nothing is refused, and vectors keep their lengths.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.text import SPECIALS
from mednli_jax.errors import ConfigError, Problems
from mednli_jax.files import empty_file, line_fault, text_lines
from mednli_jax.knowledge.ontology import Ontology, bool_matrix
from mednli_jax.knowledge.words import FUNCTION_WORDS
from mednli_jax.knowledge.words import normalise as pieces
from mednli_jax.terminal import Bar

# Words of a lexicon end at ASCII spaces only: a no-break space is part of a word, as in the
# published script.
_WORD = re.compile(r"[^ \t\n\r\x0b\x0c]+")
# added to a squared length, as in the published script: a row of zeros stays one
_NORM_FLOOR = 1e-6


def retrofit(vectors: np.ndarray, graph: csr_array, *, rounds: int = 10) -> np.ndarray:
    """Vectors [V, D] moved towards their neighbours' (Faruqui et al. 2015, eq. 2), float32.

    graph: bool [V, V] without a diagonal, each edge once; graph[i, j] says that j draws i.

    Rows are visited in the order of their colour (`colours`), then of their number: all rows of a
    colour are one sparse product. The published script visits words in the order of a hash table.
    All orders lead to the same vectors: a round at least halves the distance to them, so that after
    ten rounds two orders differ by less than .002.
    """
    degree = np.diff(graph.indptr).astype(np.float64)
    scale, moved = 1 / np.maximum(degree, 1), degree > 0
    total = 1 + scale * degree  # the denominator of eq. 2
    colour = colours(graph)
    colour[~moved] = colour.max(initial=-1) + 1  # rows without neighbours come last
    order = np.argsort(colour, kind="stable")
    bounds = np.append(0, np.cumsum(np.bincount(colour[moved])))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    sums = csr_array(
        graph[order], dtype=np.float32
    )  # what the neighbours add, rows in the new order
    sums.indices = place[sums.indices].astype(np.int32)
    sums.data = sums.data * np.repeat((scale / total)[order], np.diff(sums.indptr)).astype(
        np.float32
    )
    steps = [
        (begin, end, sums[begin:end]) for begin, end in pairwise(bounds.tolist())
    ]  # one for each colour
    current = np.asarray(vectors)[order].astype(np.float32)
    pull = current / total[order].astype(np.float32)[:, None]
    with Bar("retrofitting", rounds, unit="rounds") as bar:
        for _ in range(rounds):
            for begin, end, matrix in steps:
                current[begin:end] = matrix @ current + pull[begin:end]
            bar.advance(1)
    result = np.empty_like(current)
    result[order] = current
    return result


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """float32 [V, D]: every row divided by its Euclidean length, as the published script does;
    zeros stay zeros."""
    lengths = np.sqrt(np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64) + _NORM_FLOOR)
    return (vectors / lengths[:, None]).astype(np.float32)


def colours(graph: csr_array) -> np.ndarray:
    """int32 [V]: the smallest colour, in the order of rows, that no neighbour has, in either
    direction; 0 for none.

    Greedy and deterministic; at most one colour more than the largest number of neighbours.
    """
    graph = csr_array(graph, dtype=bool)
    both = csr_array(graph + graph.T)
    begins, neighbours = both.indptr.tolist(), both.indices.tolist()
    found = [-1] * graph.shape[0]
    for row, (begin, end) in enumerate(pairwise(begins)):
        taken = {found[other] for other in neighbours[begin:end]}
        colour = 0
        while colour in taken:
            colour += 1
        found[row] = colour
    return np.array(found, np.int32)


def read_lexicon(path: Path) -> dict[str, tuple[str, ...]]:
    """A lexicon of the published format: on each line a word, then its neighbours, between spaces;
    also gzipped.

    Words are lower-cased, as the published script does; numbers stay themselves. Where a word has
    several lines (in the published FrameNet lexicon, one for each frame), all its neighbours count.
    """
    path, problems, lexicon = Path(path), Problems(), {}
    for number, line in text_lines(path, problems):
        words = _WORD.findall(line.lower())
        if not words:
            problems.add(line_fault(path.name, number, "the line is blank", "remove the line"))
            continue
        word, *neighbours = words
        lexicon[word] = tuple(dict.fromkeys([*lexicon.get(word, ()), *neighbours]))
    problems.raise_if_any()
    if not lexicon:
        raise empty_file(path, "no words")
    return lexicon


def word_graph(lexicon: Mapping[str, Sequence[str]], words: Sequence[str]) -> csr_array:
    """The graph [V, V] bool of a lexicon over `words`: graph[i, j] says that the lexicon lists word
    j under word i.

    A word that the lexicon does not have is looked up in lower case. Words without a vector (not in
    `words`) do not count; "<pad>" and "<unk>" have no neighbours. A lexicon by which no word has a
    neighbour is refused.
    """
    index = _word_index(words)
    rows, columns = [], []
    for word, row in index.items():
        near = lexicon.get(word)
        found = [
            index[other]
            for other in (lexicon.get(word.lower(), ()) if near is None else near)
            if other in index
        ]
        rows += [row] * len(found)
        columns += found
    return _moving(bool_matrix(rows, columns, (len(words), len(words))), "the lexicon")


def ontology_word_graph(
    ontology: Ontology, words: Sequence[str], *, relations: Sequence[str] = ("is_a", "synonym")
) -> csr_array:
    """The graph [V, V] bool of words that an ontology relates, both ways, through their concepts'
    one-word names.

    relations: "synonym": two names of one concept; "is_a", a key of `Ontology.relations` or "all":
    names of two concepts so related. Case does not count. A word of grammar is no concept's name.
    `words`: see `word_graph`.
    """
    rows: dict[str, list[int]] = {}
    for word, row in _word_index(words).items():
        if word.casefold() not in FUNCTION_WORDS and any(map(str.isalpha, word)):
            rows.setdefault(word.casefold(), []).append(row)
    every = chain(
        ((label, concept) for concept, label in enumerate(ontology.labels)), ontology.names
    )
    named = [(row, concept) for name, concept in every for row in rows.get(name.casefold(), ())]
    names = bool_matrix(*np.array(named, np.int64).reshape(-1, 2).T, (len(words), len(ontology)))
    related = _related(
        ontology, [relation for relation in relations if relation != "synonym"], ("synonym", "is_a")
    )
    graph = names @ related @ names.T
    if "synonym" in relations:
        graph = graph + names @ names.T
    return _moving(csr_array(graph), f"ontology '{ontology.name}'")


def _related(
    ontology: Ontology, relations: Sequence[str], known: Sequence[str] = ("is_a",)
) -> csr_array:
    """[C, C] bool, the concepts that stand in a relation, in either direction. known: names for the
    message.

    relations: "is_a", keys of `Ontology.relations`, or "all" for all of these.
    """
    graph, every = (
        csr_array((len(ontology), len(ontology)), dtype=bool),
        ("is_a", *ontology.relations),
    )
    for relation in every if "all" in relations else relations:
        if relation not in every:
            names = ", ".join((*known, *ontology.relations, "all"))
            raise ConfigError(
                f"ontology '{ontology.name}' has no relation '{relation}'",
                fix=f"give one of {names}",
            )
        one = csr_array(
            ontology.parents if relation == "is_a" else ontology.relations[relation], dtype=bool
        )
        graph = csr_array(graph + one + one.T)
    return graph


def _word_index(words: Sequence[str]) -> dict[str, int]:
    """word -> its row, without "<pad>" and "<unk>"."""
    return {word: row for row, word in enumerate(words) if word not in SPECIALS}


def _moving(graph: csr_array, source: str) -> csr_array:
    """The graph without its diagonal; refused if nothing is left."""
    edges = graph.tocoo()
    kept = edges.row != edges.col
    if not kept.any():
        problem = f"{source} relates no two of those that have vectors, so that retrofitting would move nothing"
        raise ConfigError(
            problem, fix="check that both are of the same language and case, or leave it out"
        )
    return bool_matrix(edges.row[kept], edges.col[kept], graph.shape)


def concept_vectors(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    names: Iterable[tuple[str, int]],
) -> tuple[np.ndarray, np.ndarray]:
    """(A vector for each concept, float32 [C, D]; bool [C]: whether no token is known and the row
    is zero).

    The vector is the mean over the tokens of the concept's most frequent name that has a known one
    (the published code's default, cbow_most_common). Tokens are looked up as they are, then in
    lower case, then without hyphens.

    Args:
      vectors_of_words: floats [V, D], the rows of `words` (for which see `word_graph`).
      names: (phrase, concept index), e.g. of every mention in a training corpus.
    """
    index, found = (
        _word_index(words),
        {},
    )  # (concept, row of a known token) -> how often the name has it
    served = np.zeros(len(ontology), bool)
    for (name, concept), _ in Counter(names).most_common():
        if not served[concept]:
            for row in _known_rows(name, index):
                served[concept], key = True, (concept, row)
                found[key] = found.get(key, 0) + 1
    concept, token = np.array(list(found), np.int64).reshape(-1, 2).T
    count = np.fromiter(found.values(), np.float64, len(found))
    weight = (count / np.bincount(concept, weights=count, minlength=len(ontology))[concept]).astype(
        np.float32
    )
    matrix = csr_array((weight, (concept, token)), shape=(len(ontology), len(words)))
    return matrix @ np.asarray(vectors_of_words, np.float32), ~served


def _known_rows(name: str, index: dict[str, int]) -> list[int]:
    rows = []
    for piece in name.split():
        forms = next(((form,) for form in (piece, piece.lower()) if form in index), None) or pieces(
            piece
        )
        rows += [index[form] for form in forms if form in index and any(map(str.isalnum, form))]
    return rows


def retrofit_concepts(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    names: Iterable[tuple[str, int]],
    *,
    relations: Sequence[str] = ("is_a",),
    rounds: int = 10,
) -> tuple[np.ndarray, np.ndarray, int]:
    """`concept_vectors`, moved towards those of related concepts; and the number of concepts with
    such a neighbour.

    A concept without a vector is no neighbour. Vectors keep their lengths, so that they can be
    mixed with the word vectors they come from (MedNLI's had length 1, unlike its words).
    """
    vectors, missing = concept_vectors(ontology, vectors_of_words, words, names)
    edges = _related(ontology, relations).tocoo()
    kept = ~(missing[edges.row] | missing[edges.col])
    graph = _moving(
        bool_matrix(edges.row[kept], edges.col[kept], edges.shape), f"ontology '{ontology.name}'"
    )
    return retrofit(vectors, graph, rounds=rounds), missing, int((np.diff(graph.indptr) > 0).sum())
