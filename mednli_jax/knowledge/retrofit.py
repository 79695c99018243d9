"""Retrofitting: vectors are moved towards those of related words or concepts (Faruqui et al. 2015, section 2).

Each vector is drawn to its own old place and to its neighbours: q_i = (alpha_i q^_i + sum_j beta_ij q_j) / (alpha_i +
sum_j beta_ij), with alpha_i = 1 and beta_ij = 1 / degree(i), ten rounds, each vector replaced in place.

What MedNLI did (Romanov and Shivade 2018, 4.2.1; in table 6 it costs BOW 1.7, InferSent 2.0 and ESIM 2.7 points), from
its published code: a lexicon of concept ids (SNOMED CT within the UMLS, the rows of MRREL in their direction, all
relations or such as PAR and CHD); for every concept mentioned in training, the mean of the word vectors of a phrase
that mentions it (`POOLINGS`); the published retrofitting script over the two; then each mention in a text became one
token, the concept's id, with the retrofitted vector of length 1 among word vectors of other lengths. That script takes
any word of a lexicon that has a digit for one and the same symbol, so that no concept id has neighbours: as published,
the vectors came out as they went in but for their lengths. Here a lexicon's words and ids stay what they are, and a
lexicon that would move nothing is a fault.

Faults of lexicons (file and line are named, words are not):
  E-LEX-001 file missing      E-LEX-004 blank line      E-LEX-007 no words in it
  E-LEX-002 unreadable        E-LEX-005 not UTF-8       E-LEX-008 relates no two that have vectors
  E-LEX-003 damaged gzip      E-LEX-006 line too long
A repeated word is no fault: a line on stderr (E-LEX-009) says how many there were.
"""

import gzip
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.errors import DataError, Problems, UserError
from mednli_jax.examples import Mention
from mednli_jax.knowledge.linking import FUNCTION_WORDS
from mednli_jax.knowledge.linking import normalise as pieces
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.progress import Bar, say
from mednli_jax.text import SPECIALS, binary_lines

# How the names of a concept become one vector; in brackets the mode of MedNLI's published code.
POOLINGS = (
    "mean",  # mean over the distinct tokens of all its names [cbow_all]
    "preferred",  # mean over the tokens of the first name that has a known one [cbow_most_common, the default there]
    "preferred_token",  # the same among names of a single token [single_token]
    "common_token",  # the token that most names have, of several the longest [single_most_common]
)
REPEATED = ("join", "last")
PLACEMENTS = ("replace", "concatenate")
NO_CONCEPT = -1
_NORM_FLOOR = 1e-6  # added to a squared length, as in the published script: a row of zeros stays one
_COLUMNS = 64  # columns are independent: this many of all rows stay in the cache while their neighbours are gathered


def retrofit(
    vectors: np.ndarray,
    graph: csr_array,
    *,
    alpha: float | np.ndarray = 1.0,
    beta: float | None = None,
    rounds: int = 10,
    normalise: bool = True,
) -> np.ndarray:
    """Move vectors towards their neighbours' (Faruqui et al. 2015, eq. 2); returns new ones, float32 [V, D].

    Args:
      vectors: floats [V, D]; not changed.
      graph: [V, V]; graph[i, j] other than 0 says that j is a neighbour of i, which draws i, but not i to j. Numbers
        are weights, at least 0. A row without neighbours keeps its vector, and the diagonal does not count.
      alpha: pull of a row's own vector, a number or [V], at least 0.
      beta: pull of a neighbour of weight 1; None for 1 / degree (its weight over the sum of its row's weights).
      rounds: passes over all rows.
      normalise: divide every row by its Euclidean length first, as the published script does on reading.

    Rows are visited in the order of their colour (`colours`), then of their number, so that all rows of a colour are
    one sparse product and each row still sees what was already moved in the same round. The published script visits
    words in the order of a hash table. All orders lead to the same vectors: with alpha 1 and beta None a round at least
    halves the distance to them, so that after ten rounds of rows of length 1 two orders differ by less than .002.

    Raises:
      UserError: alpha, beta or rounds out of range. ValueError: shapes that do not fit, a weight that is no weight.
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or graph.shape != (len(vectors), len(vectors)):
        raise ValueError(f"vectors {vectors.shape} and a graph {graph.shape} do not fit")
    alpha = _own_pull(alpha, len(vectors))
    if beta is not None and not 0 < beta < np.inf:
        raise UserError(f"E-CONF-003 beta is {beta}. Fix: give a number over 0, or leave it out for 1 / degree.")
    if rounds < 0:
        raise UserError(f"E-CONF-003 rounds is {rounds}. Fix: give a number from 0 up.")
    graph = _clean(graph)
    pull = graph.sum(axis=1, dtype=np.float64)
    scale = 1 / np.where(pull > 0, pull, 1) if beta is None else np.full(len(vectors), float(beta))
    total = alpha + scale * pull  # the denominator of eq. 2
    moved = pull > 0
    share = np.divide(alpha, total, out=np.ones(len(vectors)), where=moved)
    order, bounds = _order(graph, moved)
    steps = _steps(graph, np.divide(scale, total, out=np.zeros(len(vectors)), where=moved), order, bounds)
    length = np.ones(len(vectors))
    if normalise:
        length = np.sqrt(np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64) + _NORM_FLOOR)
    return _run(vectors, length[order], share[order], order, steps, rounds)


def colours(graph: csr_array) -> np.ndarray:
    """int32 [V]: the smallest colour, in the order of rows, that no neighbour has, in either direction; 0 for none.

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


def _own_pull(alpha, size: int) -> np.ndarray:
    alpha = np.asarray(alpha, np.float64)
    if alpha.shape not in ((), (size,)):
        raise ValueError(f"alpha has shape {alpha.shape}, expected a number or [{size}]")
    if not np.all((alpha >= 0) & (alpha < np.inf)):
        raise UserError("E-CONF-003 alpha is not a finite number from 0 up. Fix: give 1, or another such number.")
    return np.broadcast_to(alpha, size)


def _clean(graph) -> csr_array:
    """A copy as float32 without its diagonal, zeros and repetitions."""
    entries = csr_array(graph, copy=True)
    entries.sum_duplicates()
    entries = entries.tocoo()
    if not np.all((entries.data >= 0) & np.isfinite(entries.data)):
        raise ValueError("a weight of the graph is negative or not finite")
    kept = (entries.row != entries.col) & (entries.data != 0)
    data = entries.data[kept].astype(np.float32)
    return csr_array((data, (entries.row[kept], entries.col[kept])), shape=graph.shape)


def _order(graph: csr_array, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row numbers [V] by colour, rows without neighbours last; where each colour begins, and after the last ends)."""
    colour = colours(graph)
    colour[~moved] = colour.max(initial=-1) + 1
    order = np.argsort(colour, kind="stable")
    return order, np.append(0, np.cumsum(np.bincount(colour[moved])))


def _steps(graph: csr_array, scale: np.ndarray, order: np.ndarray, bounds: np.ndarray) -> list:
    """One (begin, end, matrix [end - begin, V]) a colour: what the neighbours add, rows in the new order."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    sorted_rows = csr_array(graph[order])
    sorted_rows.indices = place[sorted_rows.indices].astype(np.int32)
    sorted_rows.data = sorted_rows.data * np.repeat(scale[order], np.diff(sorted_rows.indptr)).astype(np.float32)
    return [(begin, end, sorted_rows[begin:end]) for begin, end in pairwise(bounds.tolist())]


def _run(vectors, length, share, order, steps, rounds: int) -> np.ndarray:
    """The rounds, a block of columns after the other, on all cores; `length` and `share` are in the new order."""
    length, share = length.astype(np.float32)[:, None], share.astype(np.float32)[:, None]
    result = np.empty(vectors.shape, np.float32)
    blocks = -(-vectors.shape[1] // _COLUMNS)
    threads = max(min(os.cpu_count() or 1, blocks), 1)
    edges = np.linspace(0, vectors.shape[1], -(-blocks // threads) * threads + 1).astype(int).tolist()

    def fit(columns: tuple[int, int]) -> None:
        block = slice(*columns)
        current = np.take(vectors[:, block], order, axis=0).astype(np.float32) / length
        own = current * share
        for _ in range(rounds):
            for begin, end, matrix in steps:
                current[begin:end] = matrix @ current
                current[begin:end] += own[begin:end]
        result[order, block] = current

    parts = [part for part in pairwise(edges) if part[0] < part[1]]
    with ThreadPoolExecutor(threads) as pool, Bar("retrofitting", rounds * len(parts), unit="rounds") as bar:
        for _ in pool.map(fit, parts):
            bar.advance(rounds)
    return result


def read_lexicon(path: Path, *, lowercase: bool = True, repeated: str = "join") -> dict[str, tuple[str, ...]]:
    """A lexicon of the published format: on each line a word, then its neighbours, between spaces; also gzipped.

    A word alone on its line has no neighbours. Numbers and concept ids stay themselves.

    Args:
      lowercase: lower-case all words, as the published script does; concept ids in capitals want False.
      repeated: where a word has several lines (in the published FrameNet lexicon, one for each frame), "join" their
        neighbours or take those of the "last", as the published script does.

    Raises: DataError, or DataErrors with the first 20 faults. UserError: unknown `repeated`.
    """
    _check_choice("repeated", repeated, REPEATED)
    path, problems, lexicon, again = Path(path), Problems(), {}, 0
    try:
        for number, line in binary_lines(path):
            fault, words = _lexicon_words(path.name, number, line)
            if fault:
                problems.add(fault)
                continue
            word, *neighbours = [word.lower() for word in words] if lowercase else words
            again += word in lexicon
            before = lexicon.get(word, ()) if repeated == "join" else ()
            lexicon[word] = tuple(dict.fromkeys([*before, *neighbours]))
    except FileNotFoundError:
        raise DataError("E-LEX-001", "there is no such file", file=path.name, fix="check the path") from None
    except gzip.BadGzipFile as error:
        raise DataError("E-LEX-003", f"cannot be decompressed: {error}", file=path.name, fix="copy it again") from error
    except OSError as error:
        fix = "check the disk and the file's permissions"
        raise DataError("E-LEX-002", f"cannot be read ({error.strerror})", file=path.name, fix=fix) from error
    problems.raise_if_any()
    if not lexicon:
        raise DataError("E-LEX-007", "holds no words", file=path.name, fix="copy the file again")
    if again:
        what = "all its neighbours count" if repeated == "join" else "its last line counts"
        say(f"E-LEX-009 {path.name}: {again} lines repeat a word; {what}.")
    return lexicon


def _lexicon_words(file: str, number: int, line: bytes | None) -> tuple[DataError | None, list[str]]:
    if line is None:
        return DataError("E-LEX-006", "the line is too long", file=file, line=number, fix="copy the file again"), []
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    # Bytes are split at ASCII spaces only: a no-break space is part of a word, as in the published script.
    try:
        words = [word.decode() for word in line.split()]
    except UnicodeDecodeError:
        return DataError("E-LEX-005", "the line is not UTF-8", file=file, line=number, fix="save it as UTF-8"), []
    if not words:
        return DataError("E-LEX-004", "the line is blank", file=file, line=number, fix="remove the line"), []
    return None, words


def word_graph(lexicon: Mapping[str, Sequence[str]], words: Sequence[str]) -> csr_array:
    """The graph [V, V] bool of a lexicon over `words`: graph[i, j] says that the lexicon lists word j under word i.

    A word that the lexicon does not have is looked up in lower case. Neighbours that are not among `words` have no
    vector and do not count. `words` are to be those with a vector of their own (`Vectors.known`); "<pad>" and "<unk>"
    have no neighbours. Raises: UserError E-LEX-008 where no word has a neighbour, so that nothing would move.
    """
    index = _word_index(words)
    rows, columns = [], []
    for word, row in index.items():
        near = lexicon.get(word)
        found = [index[other] for other in (lexicon.get(word.lower(), ()) if near is None else near) if other in index]
        rows += [row] * len(found)
        columns += found
    return _moving(_bool_graph(rows, columns, (len(words), len(words))), "the lexicon")


def ontology_word_graph(
    ontology: Ontology, words: Sequence[str], *, relations: Sequence[str] = ("is_a", "synonym")
) -> csr_array:
    """The graph [V, V] bool of words that an ontology relates, both ways, through their concepts' one-word names.

    relations: "synonym": two names of one concept; "is_a" or a key of `Ontology.relations`: names of two concepts so
      related. An antonym draws like any other relation: it is better left out.

    Case does not count, and a word of grammar ("or", the operating room) is nobody's name. `words`: see `word_graph`.

    Raises: UserError E-CONF-004 for an unknown relation, E-LEX-008 where nothing would move.
    """
    rows: dict[str, list[int]] = {}
    for word, row in _word_index(words).items():
        if word.casefold() not in FUNCTION_WORDS and any(map(str.isalpha, word)):
            rows.setdefault(word.casefold(), []).append(row)
    named = [(row, concept) for name, concept in _all_names(ontology) for row in rows.get(name.casefold(), ())]
    names = _bool_graph(*np.array(named, np.int64).reshape(-1, 2).T, (len(words), len(ontology)))
    graph = csr_array((len(words), len(words)), dtype=bool)
    for relation in dict.fromkeys(relations):
        if relation == "synonym":
            graph = graph + names @ names.T
        else:
            graph = graph + names @ _related(ontology, relation, ("synonym", "is_a")) @ names.T
    return _moving(csr_array(graph), f"ontology '{ontology.name}'")


def concept_graph(ontology: Ontology, relations: Sequence[str] = ("is_a",)) -> csr_array:
    """The graph [C, C] bool of concepts that stand in one of the relations, in either direction.

    relations: "is_a" or keys of `Ontology.relations`. Raises: UserError E-CONF-004 for an unknown relation.
    """
    graph = csr_array((len(ontology), len(ontology)), dtype=bool)
    for relation in dict.fromkeys(relations):
        graph = graph + _related(ontology, relation, ("is_a",))
    return csr_array(graph)


def _related(ontology: Ontology, relation: str, known: Sequence[str]) -> csr_array:
    """[C, C] bool, both directions of one relation; `known`: names of relations that are no keys of the ontology."""
    _check_choice("relation", relation, (*known, *ontology.relations))
    one = csr_array(ontology.parents if relation == "is_a" else ontology.relations[relation], dtype=bool)
    return csr_array(one + one.T)


def concept_vectors(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    *,
    pooling: str = "mean",
    names: Iterable[tuple[str, int]] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """A vector for each concept from the words of its names.

    Args:
      vectors_of_words: floats [V, D], the rows of `words` (for which see `word_graph`).
      pooling: one of POOLINGS.
      names: (phrase, concept index) of every mention in a training corpus, as MedNLI took them: the most frequent comes
        first; None for the ontology's names, the preferred one first, each counting once.

    Tokens are looked up as they stand, then in lower case, then without hyphens and punctuation, which has no part.

    Returns: (float32 [C, D], bool [C]: True where no token is known and the row is zero).
    Raises: UserError E-CONF-004 for an unknown pooling. ValueError: vectors and words differ in number.
    """
    _check_choice("pooling", pooling, POOLINGS)
    if len(vectors_of_words) != len(words):
        raise ValueError(f"{len(vectors_of_words)} vectors for {len(words)} words")
    counted = ((name, 1) for name in _all_names(ontology)) if names is None else Counter(names).most_common()
    concept, token, count = _tokens_of_names(counted, _word_index(words), len(ontology), pooling)
    if pooling == "common_token":
        letters = np.array([len(word) for word in words], np.int64)[token]
        best = np.lexsort((-letters, -count, concept))
        best = best[np.append(True, concept[best][1:] != concept[best][:-1])[: len(best)]]
        concept, token, count = concept[best], token[best], count[best]
    weight = count if pooling.startswith("preferred") else np.ones(len(count))
    total = np.bincount(concept, weights=weight, minlength=len(ontology))
    weight = (weight / total[concept]).astype(np.float32)
    matrix = csr_array((weight, (concept, token)), shape=(len(ontology), len(words)))
    return matrix @ np.asarray(vectors_of_words, np.float32), total == 0


def _tokens_of_names(counted, index: dict[str, int], size: int, pooling: str) -> tuple[np.ndarray, ...]:
    """(concept, row of a known token, how often) of the names that `pooling` looks at; each pair of the first two once.

    counted: ((name, concept index), how often), preferred names first.
    """
    found: dict[int, int] = {}  # by concept * width + row: half the memory of pairs
    width, served = max(index.values(), default=0) + 1, bytearray(size)
    for (name, concept), times in counted:
        if served[concept] or (pooling == "preferred_token" and len(name.split()) != 1):
            continue
        rows = _known_rows(name, index)
        if rows and pooling.startswith("preferred"):
            served[concept] = 1
            times = 1
        for row in rows:
            key = concept * width + row
            found[key] = found.get(key, 0) + times
    concept, row = np.divmod(np.fromiter(found, np.int64, len(found)), width)
    return concept, row, np.fromiter(found.values(), np.int64, len(found))


def _known_rows(name: str, index: dict[str, int]) -> list[int]:
    rows = []
    for piece in name.split():
        forms = next(((form,) for form in (piece, piece.lower()) if form in index), None) or pieces(piece)
        rows += [index[form] for form in forms if form in index and any(map(str.isalnum, form))]
    return rows


def retrofit_concepts(
    ontology: Ontology,
    vectors_of_words: np.ndarray,
    words: Sequence[str],
    *,
    relations: Sequence[str] = ("is_a",),
    pooling: str = "mean",
    names: Iterable[tuple[str, int]] | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    rounds: int = 10,
    normalise: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """`concept_vectors`, moved towards those of related concepts (`concept_graph`, `retrofit`).

    A concept without a known token has no vector: it stays zero and does not count among its neighbours' neighbours.
    Vectors keep their own lengths unless `normalise`, so that they can stand among the word vectors they come from
    (MedNLI's were of length 1 among words that were not).

    Returns: (float32 [C, D], bool [C]: True where no token is known).
    Raises: UserError as the functions named do, and E-LEX-008 where no two related concepts have vectors.
    """
    vectors, missing = concept_vectors(ontology, vectors_of_words, words, pooling=pooling, names=names)
    edges = concept_graph(ontology, relations).tocoo()
    kept = ~(missing[edges.row] | missing[edges.col])
    graph = _bool_graph(edges.row[kept], edges.col[kept], edges.shape)
    graph = _moving(graph, f"ontology '{ontology.name}'")
    return retrofit(vectors, graph, alpha=alpha, beta=beta, rounds=rounds, normalise=normalise), missing


def concept_numbers(mentions: Sequence[Sequence[Mention]], ontology: Ontology, width: int) -> np.ndarray:
    """int32 [N, width]: the concept index of each token of N sentences, NO_CONCEPT (-1) where there is none.

    Of overlapping mentions the first counts; tokens from `width` on and concepts that the ontology lacks have none.
    """
    numbers = np.full((len(mentions), width), NO_CONCEPT, np.int32)
    for row, found in zip(numbers, mentions, strict=True):
        for mention in reversed(found):
            row[mention.start : mention.end] = ontology.index_of.get(mention.concept, NO_CONCEPT)
    return numbers


def tokens_with_concepts(
    numbers: np.ndarray,
    concepts: np.ndarray,
    word_vectors: np.ndarray,
    vectors: np.ndarray,
    missing: np.ndarray,
    *,
    how: str = "replace",
) -> tuple[np.ndarray, np.ndarray]:
    """Give the tokens of mentions the vectors of their concepts: new token numbers, and the table that they index.

    Args:
      numbers: int32 tokens of any shape (all sides and splits of a corpus together), rows of `word_vectors` [V, D].
      concepts: same shape, the concept of each token or NO_CONCEPT (`concept_numbers`).
      vectors, missing: [C, D] and [C], from `concept_vectors` or `retrofit_concepts`.
      how: "replace" the word's vector, as MedNLI did, or "concatenate" the concept's to it, zeros where there is none.

    Every token of a mention is served and none is removed (MedNLI made one token of a mention), so that lengths and
    links stay. The table starts with the rows of the words, so that padding stays 0; rows of the concepts, or of the
    word-concept pairs, that occur follow.

    Returns: (int32 of the shape of `numbers`, float32 [V', D], or [V', 2 D] concatenated).
    Raises: UserError E-CONF-004 for an unknown `how`. ValueError: shapes that do not fit.
    """
    _check_choice("how", how, PLACEMENTS)
    if numbers.shape != concepts.shape or word_vectors.shape[1] != vectors.shape[1] or len(vectors) != len(missing):
        raise ValueError("the shapes of tokens and concepts, or of their vectors, differ")
    served = concepts >= 0
    served[served] = ~missing[concepts[served]]
    width = len(vectors) if how == "concatenate" else 0  # 0: the word does not matter
    keys, rank = np.unique(numbers[served].astype(np.int64) * width + concepts[served], return_inverse=True)
    result = numbers.astype(np.int32)
    result[served] = len(word_vectors) + rank
    if how == "replace":
        return result, np.concatenate([word_vectors, vectors[keys]]).astype(np.float32)
    word, concept = np.divmod(keys, max(width, 1))
    left = np.concatenate([word_vectors, word_vectors[word]])
    right = np.concatenate([np.zeros_like(word_vectors), vectors[concept]])
    return result, np.concatenate([left, right], axis=1).astype(np.float32)


def _word_index(words: Sequence[str]) -> dict[str, int]:
    return {word: row for row, word in enumerate(words) if word not in SPECIALS}


def _all_names(ontology: Ontology) -> Iterator[tuple[str, int]]:
    """Every name of every concept, preferred names first; some stand twice."""
    return chain(((label, concept) for concept, label in enumerate(ontology.labels)), ontology.names)


def _bool_graph(rows, columns, shape: tuple[int, int]) -> csr_array:
    return csr_array((np.ones(len(rows), bool), (np.asarray(rows, np.int64), np.asarray(columns, np.int64))), shape)


def _moving(graph: csr_array, source: str) -> csr_array:
    """The graph without its diagonal. Raises: UserError E-LEX-008 where nothing is left."""
    edges = graph.tocoo()
    kept = edges.row != edges.col
    if not kept.any():
        raise UserError(
            f"E-LEX-008 {source} relates no two of those that have vectors, so that retrofitting would move nothing. "
            "Fix: check that both are of the same language and case, or leave retrofitting out."
        )
    return _bool_graph(edges.row[kept], edges.col[kept], graph.shape)


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UserError(f"E-CONF-004 {name} is '{value}'. Fix: give one of {', '.join(known)}.")
