"""How the concepts of a premise and of its hypothesis are related: synonyms, antonyms, hypernyms
and so on, as bits.

The kinds are those of Chen et al. 2018 (KIM, section 3.1), the same word, and relations of an
ontology by name. Each is read from the premise to the hypothesis: "hypernym" says that the
hypothesis names a hypernym (dog -> animal).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.examples import Mention
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.distances import Links, crossed, packed, token_links
from mednli_jax.knowledge.ontology import Ontology, bool_matrix

KINDS = ("same", "synonym", "antonym", "hypernym", "hyponym", "co_hyponym")
SAME, SYNONYM, ANTONYM, HYPERNYM, HYPONYM, CO_HYPONYM = (1 << place for place in range(len(KINDS)))
INVERSE = "inverse_"
MOST_NAMED = 13  # both directions of each and the six kinds fit into 32 bits
FORMAT = 2  # of typed links; when to raise it: tests/data/test_prepared_content.py
_ROWS = 1 << 14  # pairs of a corpus that are looked up at once
_BLOCK = 1 << 9  # units whose pairs are found at once
_NEAR = 2  # is-a edges to the common ancestor of co-hyponyms, on each side; over which named relations are passed on
_OPPOSED = 1  # is-a edges over which an antonym is inherited, on each side

Unit = tuple[str, tuple[int, ...]]  # the words of a mention as they are compared, and its concepts
UnitOf = Callable[
    [str, int, Mention], Unit
]  # the side, the number of the pair and the mention -> its unit


def kinds_of(named: Sequence[str]) -> tuple[str, ...]:
    """The kinds in the order of their bits: KINDS, then each named relation in both directions."""
    return (*KINDS, *(kind for name in named for kind in (name, INVERSE + name)))


@dataclass(frozen=True, eq=False)
class Related:
    """The related ones of all ordered pairs of W units.

    keys: int64 [M], a * W + b of units a and b, rising. bits: uint32 [M]. distance: int16 [M], see
    `related`.
    """

    keys: np.ndarray
    bits: np.ndarray
    distance: np.ndarray


def related(
    ontology: Ontology,
    units: Sequence[Unit],
    named: Sequence[str] = (),
    max_length: int = 0,
    wanted: np.ndarray | None = None,
) -> Related:
    """Which units are related, and how: units are related where any of their concepts are.

      same: their words are equal; they have no further kind then.
      synonym: they share a concept; is-a and co-hyponyms do not count then.
      antonym: the ontology's relation of that name, in either direction; also of their parents, unless the units are
        synonyms or is-a.
      hypernym, hyponym: a path of is-a edges, of at most `max_length` (0: any length).
      co_hyponym: concepts with a common ancestor, at most 2 edges above each; not synonyms, nor is-a.
      named: relations of the ontology, without "antonym", which is a kind of its own. A concept has those of its
        ancestors, and to the ancestors of what it has them to, over at most 2 edges each.
    distance: the is-a edges of the shortest such path where there is one; else 0 of the same and of
    synonyms, 2 of co-hyponyms alone, 1 of others. A concept index beyond the ontology's can be
    shared, and has no other relation.

    wanted: keys of pairs, rising, each with that of the other order: others are left out. None: all
    pairs.
    """
    _check_named(ontology, named)
    size = len(units)
    width = max(len(ontology), 1 + max((c for _, concepts in units for c in concepts), default=0))
    counts = [len(concepts) for _, concepts in units]
    has = bool_matrix(
        np.repeat(np.arange(size), counts),
        [c for _, concepts in units for c in concepts],
        (size, width),
    )
    surfaces = {}
    place = [surfaces.setdefault(surface, len(surfaces)) for surface, _ in units]
    words = bool_matrix(np.arange(size), place, (size, len(surfaces)))
    keys_of = partial(_keys, wanted=wanted)
    same, shared = keys_of(words, words.T), keys_of(has, has.T)
    shared = shared[~_among(shared, same)]
    found = [(same, SAME, 0), (shared, SYNONYM, 0)]
    known = csr_array(has[:, : len(ontology)])
    names, above = csr_array(known.T), known
    near = np.sort(np.concatenate([same, shared]))
    steps, seen = 0, known
    while above.nnz and (not max_length or steps < max_length):
        above, steps = csr_array(above @ ontology.parents > seen), steps + 1
        seen = csr_array(seen + above)
        keys = keys_of(above, names)
        keys = keys[~_among(keys, near)]
        found += [(keys, HYPERNYM, steps), (_turned(keys, size), HYPONYM, steps)]
    kin = np.sort(np.concatenate([keys for keys, *_ in found]))
    up = partial(_up, parents=ontology.parents)
    ancestors = up(known @ ontology.parents, _NEAR - 1)
    siblings = keys_of(ancestors, ancestors.T)
    found.append((siblings[~_among(siblings, kin)], CO_HYPONYM, 2))
    if "antonym" in ontology.relations:
        opposite = ontology.relations["antonym"]
        opposite, heirs = opposite + opposite.T, up(known, _OPPOSED)
        keys, inherited = keys_of(known @ opposite, names), keys_of(heirs @ opposite, heirs.T)
        keys = np.union1d(keys[~_among(keys, same)], inherited[~_among(inherited, kin)])
        found.append((keys, ANTONYM, 1))
    for number, name in enumerate(named):
        keys = keys_of(up(up(known, _NEAR) @ ontology.relations[name], _NEAR), names)
        keys = keys[~_among(keys, same)]
        bit = 1 << (len(KINDS) + 2 * number)
        found += [(keys, bit, 1), (_turned(keys, size), bit << 1, 1)]
    return _joined(found)


def _check_named(ontology: Ontology, named: Sequence[str]) -> None:
    """Raises ConfigError for a relation that the ontology does not have, or too many."""
    field = "knowledge.relations"
    for name in named:
        if name not in ontology.relations:
            some = ", ".join(ontology.relations) or "none besides is-a"
            raise ConfigError(
                f"'{ontology.name}' has no relation '{name}'", field=field, fix=f"it has {some}"
            )
    if len(named) > MOST_NAMED:
        raise ConfigError(
            f"names {len(named)} relations", field=field, fix=f"give at most {MOST_NAMED}"
        )


def typed_links(
    ontology: Ontology,
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    unit_of: UnitOf,
    *,
    named: Sequence[str],
    max_links: int,
    max_tokens: int,
    max_length: int = 0,
) -> Links:
    """Like `distances.corpus_links`, but tokens are linked where their concepts are `related`, and
    links have bits."""
    matches = _matches(ontology, premise_mentions, hypothesis_mentions, unit_of, named, max_length)
    parts = (
        token_links(one, other, distance, max_tokens, bits)
        for one, other, distance, bits in matches
    )
    links = np.concatenate([np.zeros((0, 5), np.int64), *parts])
    longest = int(links[:, 1].max(initial=-1))
    return packed(links, len(premise_mentions), max_links, longest, len(kinds_of(named)))


def kinds_in_pairs(
    ontology: Ontology,
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    unit_of: UnitOf,
    *,
    named: Sequence[str],
    max_length: int = 0,
) -> np.ndarray:
    """uint32 [N], the bits of all related mentions of each pair."""
    found = np.zeros(len(premise_mentions), np.uint32)
    for premise, _, _, bits in _matches(
        ontology, premise_mentions, hypothesis_mentions, unit_of, named, max_length
    ):
        np.bitwise_or.at(found, premise[:, 0], bits)
    return found


def _matches(ontology, premise_mentions, hypothesis_mentions, unit_of, named, max_length):
    """(rows of premises, rows of hypotheses, distance [M], bits [M]) of related mentions, some
    pairs after others.

    Rows [M, 4] are pair, start, end and unit.
    """
    units: dict[Unit, int] = {}
    sides = []
    for side, of_side in (("premise", premise_mentions), ("hypothesis", hypothesis_mentions)):
        rows = [
            (
                pair,
                mention.start,
                mention.end,
                units.setdefault(unit_of(side, pair, mention), len(units)),
            )
            for pair, found in enumerate(of_side)
            for mention in found
        ]
        sides.append(np.array(rows, np.int64).reshape(-1, 4))
    size = len(premise_mentions)

    def crossings():
        for first in range(0, size, _ROWS):
            premise, hypothesis = (
                side[slice(*np.searchsorted(side[:, 0], [first, first + _ROWS]))] for side in sides
            )
            left, right = crossed(
                premise[:, 0] - first, hypothesis[:, 0] - first, min(_ROWS, size - first)
            )
            yield (
                premise,
                left,
                hypothesis,
                right,
                premise[left, 3] * len(units) + hypothesis[right, 3],
            )

    # The pairs of units that occur in a pair of sentences are a small part of all pairs of units.
    wanted = np.unique(
        np.concatenate([np.zeros(0, np.int64), *(np.unique(keys) for *_, keys in crossings())])
    )
    table = related(
        ontology, list(units), named, max_length, np.union1d(wanted, _turned(wanted, len(units)))
    )
    if not len(table.keys):
        return
    for premise, left, hypothesis, right, keys in crossings():
        at = np.minimum(np.searchsorted(table.keys, keys), len(table.keys) - 1)
        hit = np.flatnonzero(table.keys[at] == keys)
        yield (
            premise[left[hit]],
            hypothesis[right[hit]],
            table.distance[at[hit]],
            table.bits[at[hit]],
        )


def _up(concepts, most, parents) -> csr_array:
    """bool [W, C], the concepts [W, C] of each unit, and those above them over at most `most` is-a
    edges."""
    for _ in range(most):
        concepts = concepts + concepts @ parents
    return csr_array(concepts)


def _keys(left, right, wanted) -> np.ndarray:
    """int64 [M], rising: row * W + column of what is true of left @ right [W, W], and wanted."""
    found, right = [np.zeros(0, np.int64)], csr_array(right)
    for first in range(0, left.shape[0], _BLOCK):
        edges = (csr_array(left)[first : first + _BLOCK] @ right).tocoo()
        keys = np.sort((first + edges.row.astype(np.int64)) * right.shape[1] + edges.col)
        found.append(keys if wanted is None else keys[_among(keys, wanted)])
    return np.concatenate(found)


def _turned(keys, size) -> np.ndarray:
    """The keys of the same pairs in the other order."""
    first, second = np.divmod(keys, max(size, 1))
    return second * size + first


def _among(keys, others) -> np.ndarray:
    """bool [M], which keys are among the others, which rise."""
    if not len(others):
        return np.zeros(len(keys), bool)
    return others[np.minimum(np.searchsorted(others, keys), len(others) - 1)] == keys


def _joined(found) -> Related:
    """One row for each key: all its bits; of is-a edges their least distance, else the least of
    all."""
    keys = np.concatenate([keys for keys, *_ in found])
    bits = np.repeat(
        np.array([bit for _, bit, _ in found], np.uint32), [len(keys) for keys, *_ in found]
    )
    steps = np.repeat(
        np.array([steps for *_, steps in found], np.int16), [len(keys) for keys, *_ in found]
    )
    # A path of is-a edges goes before other relations, whose distance is a convention.
    order = np.lexsort((steps, (bits & (HYPERNYM | HYPONYM)) == 0, keys))
    keys, bits, steps = keys[order], bits[order], steps[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    joined = np.bitwise_or.reduceat(bits, first) if len(first) else bits
    return Related(keys[first], joined, steps[first])
