"""Big parts of an ontology as a few arrays: strings in one buffer, relations as edge lists.

A million Python strings take seconds to make and 100 MB to hold; these tables can be memory-mapped and hand out their
items as tuples and dicts would (`store` writes and reads them).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np
from scipy.sparse import csr_array

_BLOCK = 1 << 14  # strings decoded at once when a table is gone through


class Strings(Sequence[str]):
    """N strings in one UTF-8 buffer; equal to any sequence of the same strings.

    buffer: uint8 [B]. offsets: int64 [N + 1]; string n is buffer[offsets[n]:offsets[n + 1]].
    """

    def __init__(self, buffer: np.ndarray, offsets: np.ndarray):
        self.buffer, self.offsets = np.asarray(buffer, np.uint8), np.asarray(offsets, np.int64)
        self._bytes = memoryview(self.buffer)

    @classmethod
    def of(cls, strings: Iterable[str]) -> "Strings":
        """The table of any strings; a table is returned as it is."""
        if isinstance(strings, cls):
            return strings
        encoded = [string.encode() for string in strings]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(np.frombuffer(b"".join(encoded), np.uint8), np.append(np.int64(0), np.cumsum(lengths)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place):
        """One string, or a tuple of those of a slice."""
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step == 1:
                return tuple(self._run(start, max(stop, start)))
            return tuple(self[position] for position in range(start, stop, step))
        position = range(len(self))[place]  # negative numbers and IndexError, as any sequence has them
        return str(self._bytes[int(self.offsets[position]) : int(self.offsets[position + 1])], "utf-8")

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            yield from self._run(start, min(start + _BLOCK, len(self)))

    def __eq__(self, other) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None

    def __repr__(self) -> str:
        return f"Strings({len(self)})"

    def _run(self, start: int, stop: int) -> list[str]:
        """Strings start to stop (exclusive), decoded together."""
        bounds = self.offsets[start : stop + 1]
        first = int(bounds[0])
        raw = self._bytes[first : int(bounds[-1])]
        text, cuts = str(raw, "utf-8"), bounds - first
        if len(text) != len(raw):  # a character of several bytes: count those bytes that start one
            begun = (np.frombuffer(raw, np.uint8) & 0xC0) != 0x80
            cuts = np.append(0, np.cumsum(begun))[cuts]
        return [text[begin:end] for begin, end in pairwise(cuts.tolist())]


class Names(Sequence[tuple[str, int]]):
    """N (string, concept index) pairs; equal to any sequence of the same pairs.

    strings: N strings. concepts: int32 [N].
    """

    def __init__(self, strings: Strings, concepts: np.ndarray):
        self.strings, self.concepts = strings, np.asarray(concepts, np.int32)
        if len(self.strings) != len(self.concepts):
            raise ValueError(f"{len(self.strings)} names of {len(self.concepts)} concepts")

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, int]]) -> "Names":
        """The table of any pairs; a table is returned as it is."""
        if isinstance(pairs, cls):
            return pairs
        pairs = pairs if isinstance(pairs, Sequence) else list(pairs)
        concepts = np.fromiter((concept for _, concept in pairs), np.int32, len(pairs))
        return cls(Strings.of(string for string, _ in pairs), concepts)

    def __len__(self) -> int:
        return len(self.concepts)

    def __getitem__(self, place):
        """One pair, or a tuple of those of a slice."""
        if isinstance(place, slice):
            return tuple(zip(self.strings[place], self.concepts[place].tolist(), strict=True))
        return self.strings[place], int(self.concepts[place])

    def __iter__(self) -> Iterator[tuple[str, int]]:
        blocks = (self.concepts[start : start + _BLOCK].tolist() for start in range(0, len(self), _BLOCK))
        return zip(self.strings, chain.from_iterable(blocks), strict=True)

    def __eq__(self, other) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None

    def __repr__(self) -> str:
        return f"Names({len(self)})"


class Relations(Mapping[str, csr_array]):
    """Relations by name as edge lists; the [C, C] matrix of one is made when it is requested.

    A terminology has hundreds of relations, most of them with few edges, and a matrix each would hold C numbers each.

    edges: integers [2, E] by name, row 0 stands in the relation to row 1; sorted by both, every edge once.
    size: C.
    """

    def __init__(self, edges: Mapping[str, np.ndarray], size: int):
        self.edges, self.size = dict(edges), size

    @classmethod
    def of(cls, matrices: Mapping[str, csr_array], size: int) -> "Relations":
        """The table of any matrices [C, C]; entries that are False are no edges. Raises ValueError for other shapes."""
        if isinstance(matrices, cls) and matrices.size == size:
            return matrices
        edges = {}
        for name in sorted(matrices):
            if matrices[name].shape != (size, size):
                raise ValueError(f"relation '{name}' has shape {matrices[name].shape}")
            matrix = csr_array(matrices[name], dtype=bool, copy=True)
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
            edges[name] = np.stack(matrix.nonzero()).astype(np.int32)
        return cls(edges, size)

    def __getitem__(self, name: str) -> csr_array:
        source, target = self.edges[name]
        bounds = np.zeros(self.size + 1, np.int32)
        np.cumsum(np.bincount(source, minlength=self.size), out=bounds[1:])
        matrix = csr_array((np.ones(len(target), bool), np.array(target), bounds), shape=(self.size, self.size))
        matrix.has_canonical_format = True
        return matrix

    def __iter__(self) -> Iterator[str]:
        return iter(self.edges)

    def __len__(self) -> int:
        return len(self.edges)

    def __repr__(self) -> str:
        return f"Relations({', '.join(self.edges)})"
