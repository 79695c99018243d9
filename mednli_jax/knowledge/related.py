"""Which words, or concepts, are related: graphs for retrofitting, from lexicon files and from ontologies.

Errors in a lexicon name the file and the line, never a word.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.text import SPECIALS
from mednli_jax.errors import ConfigError, Problems
from mednli_jax.io import empty_file, line_fault, text_lines, warn
from mednli_jax.knowledge.linking import FUNCTION_WORDS
from mednli_jax.knowledge.ontology import Ontology

# Words end at ASCII spaces only: a no-break space is part of a word, as in the published script.
_WORD = re.compile(r"[^ \t\n\r\x0b\x0c]+")


def read_lexicon(path: Path) -> dict[str, tuple[str, ...]]:
    """A lexicon of the published format: on each line a word, then its neighbours, between spaces; also gzipped.

    Words are lower-cased, as the published script does; numbers stay themselves. A word alone on its line has no
    neighbours. Where a word has several lines (in the published FrameNet lexicon, one for each frame), all its
    neighbours count, and a line on stderr says how many lines repeat a word.
    """
    path, problems, lexicon, again = Path(path), Problems(), {}, 0
    for number, line in text_lines(path, problems):
        words = _WORD.findall(line.lower())
        if not words:
            problems.add(line_fault(path.name, number, "the line is blank", "remove the line"))
            continue
        word, *neighbours = words
        again += word in lexicon
        lexicon[word] = tuple(dict.fromkeys([*lexicon.get(word, ()), *neighbours]))
    problems.raise_if_any()
    if not lexicon:
        raise empty_file(path, "no words")
    if again:
        warn(f"{path.name}: {again} lines repeat a word; all its neighbours count.")
    return lexicon


def word_graph(lexicon: Mapping[str, Sequence[str]], words: Sequence[str]) -> csr_array:
    """The graph [V, V] bool of a lexicon over `words`: graph[i, j] says that the lexicon lists word j under word i.

    A word that the lexicon does not have is looked up in lower case. Neighbours that are not among `words` have no
    vector and do not count. `words` are to be those with a vector (`Vectors.known`); "<pad>" and "<unk>"
    have no neighbours. Raises: ConfigError where no word has a neighbour, so that nothing would move.
    """
    index = word_index(words)
    rows, columns = [], []
    for word, row in index.items():
        near = lexicon.get(word)
        found = [index[other] for other in (lexicon.get(word.lower(), ()) if near is None else near) if other in index]
        rows += [row] * len(found)
        columns += found
    return moving(bool_graph(rows, columns, (len(words), len(words))), "the lexicon")


def ontology_word_graph(
    ontology: Ontology, words: Sequence[str], *, relations: Sequence[str] = ("is_a", "synonym")
) -> csr_array:
    """The graph [V, V] bool of words that an ontology relates, both ways, through their concepts' one-word names.

    relations: "synonym": two names of one concept; "is_a" or a key of `Ontology.relations`: names of two concepts so
      related. An antonym draws like any other relation: it is better left out.

    Case does not count. A word of grammar is no concept's name ("or", the operating room). `words`: see `word_graph`.
    """
    rows: dict[str, list[int]] = {}
    for word, row in word_index(words).items():
        if word.casefold() not in FUNCTION_WORDS and any(map(str.isalpha, word)):
            rows.setdefault(word.casefold(), []).append(row)
    named = [(row, concept) for name, concept in all_names(ontology) for row in rows.get(name.casefold(), ())]
    names = bool_graph(*np.array(named, np.int64).reshape(-1, 2).T, (len(words), len(ontology)))
    graph = csr_array((len(words), len(words)), dtype=bool)
    for relation in dict.fromkeys(relations):
        if relation == "synonym":
            graph = graph + names @ names.T
        else:
            graph = graph + names @ _related(ontology, relation, ("synonym", "is_a")) @ names.T
    return moving(csr_array(graph), f"ontology '{ontology.name}'")


def concept_graph(ontology: Ontology, relations: Sequence[str] = ("is_a",)) -> csr_array:
    """The graph [C, C] bool of concepts that stand in one of the relations, in either direction.

    relations: "is_a" or keys of `Ontology.relations`. Raises: ConfigError for an unknown relation.
    """
    graph = csr_array((len(ontology), len(ontology)), dtype=bool)
    for relation in dict.fromkeys(relations):
        graph = graph + _related(ontology, relation, ("is_a",))
    return csr_array(graph)


def _related(ontology: Ontology, relation: str, known: Sequence[str]) -> csr_array:
    """[C, C] bool, both directions of one relation; `known`: names of relations that are no keys of the ontology."""
    if relation not in (*known, *ontology.relations):
        names = ", ".join((*known, *ontology.relations))
        raise ConfigError(f"ontology '{ontology.name}' has no relation '{relation}'. Fix: give one of {names}.")
    one = csr_array(ontology.parents if relation == "is_a" else ontology.relations[relation], dtype=bool)
    return csr_array(one + one.T)


def word_index(words: Sequence[str]) -> dict[str, int]:
    """word -> its row, without "<pad>" and "<unk>"."""
    return {word: row for row, word in enumerate(words) if word not in SPECIALS}


def all_names(ontology: Ontology) -> Iterator[tuple[str, int]]:
    """Every name of every concept, preferred names first; some stand twice."""
    return chain(((label, concept) for concept, label in enumerate(ontology.labels)), ontology.names)


def bool_graph(rows, columns, shape: tuple[int, int]) -> csr_array:
    """The bool graph with these edges."""
    return csr_array((np.ones(len(rows), bool), (np.asarray(rows, np.int64), np.asarray(columns, np.int64))), shape)


def moving(graph: csr_array, source: str) -> csr_array:
    """The graph without its diagonal."""
    edges = graph.tocoo()
    kept = edges.row != edges.col
    if not kept.any():
        raise ConfigError(
            f"{source} relates no two of those that have vectors, so that retrofitting would move nothing. "
            "Fix: check that both are of the same language and case, or leave retrofitting out."
        )
    return bool_graph(edges.row[kept], edges.col[kept], graph.shape)
