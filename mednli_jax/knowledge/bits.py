"""Bits that spread in a graph: for each concept, one bit for each source says whether it lies within so many steps.

`search.spread` chooses the concepts, their order and the sources. C concepts, S sources, W words of 64 bits, M pairs.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_BLOCK = 8192  # concepts at once: their bits stay in the processor's cache
_FEW = 16  # neighbours gathered for fewer concepts than these are not worth a call
_THREADS = 4  # more would wait for memory
_MET = 32  # longest way that is looked for over a landmark: what is kept for it grows with the length


def ramps(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """first, first + 1, ... `length` times for each entry: [5, 8], [2, 1] -> [5, 6, 8]."""
    end = np.cumsum(length, dtype=np.int64)
    return np.repeat(first - (end - length), length) + np.arange(end[-1] if len(end) else 0)


@dataclass(frozen=True)
class Block:
    """What to gather for up to _BLOCK concepts; those with most neighbours come first.

    rows: int [n] where the bits of the concepts are; place: int [n] where they go.
    nth: rows of the first neighbour of all, of the second of all that have two, ...; the n-th of too few are in `rest`.
    rest: (position in `rows`, rows of further neighbours).
    """

    rows: np.ndarray
    place: np.ndarray
    nth: list[np.ndarray]
    rest: list[tuple[int, np.ndarray]]

    def grow(self, bits: np.ndarray, out: np.ndarray, grown: np.ndarray, gathered: np.ndarray) -> None:
        """out[place] = bits of the concepts and of their neighbours; grown, gathered: uint64 [n or more, W] to use."""
        grown = grown[: len(self.rows)]
        np.take(bits, self.rows, axis=0, out=grown, mode="clip")
        for neighbours in self.nth:
            count = len(neighbours)
            np.take(bits, neighbours, axis=0, out=gathered[:count], mode="clip")
            np.bitwise_or(grown[:count], gathered[:count], out=grown[:count])
        for row, neighbours in self.rest:
            for first in range(0, len(neighbours), len(gathered)):
                part = neighbours[first : first + len(gathered)]
                np.take(bits, part, axis=0, out=gathered[: len(part)], mode="clip")
                grown[row] |= np.bitwise_or.reduce(gathered[: len(part)], axis=0)
        out[self.place] = grown


def blocks_of(rows, place, degree, neighbours) -> list[Block]:
    """The blocks of n concepts: int [n] `rows`, `place` as in Block, numbers of neighbours, and the rows of these."""
    blocks, first = [], np.cumsum(degree) - degree
    for begin in range(0, len(rows), _BLOCK):
        order = begin + np.argsort(-degree[begin : begin + _BLOCK], kind="stable")
        start, count = first[order], degree[order]
        most = int(count[min(_FEW, len(count)) - 1])  # so many neighbours have _FEW concepts at least
        having = np.searchsorted(-count, -np.arange(most))
        nth = [neighbours[start[:n] + i] for i, n in enumerate(having.tolist())]
        ends = (start + count).tolist()
        rest = [(i, neighbours[start[i] + most : ends[i]]) for i in range(int((count > most).sum()))]
        blocks.append(Block(rows[order], place[order], nth, rest))
    return blocks


def grow(blocks: list[Block], bits: np.ndarray, out: np.ndarray) -> None:
    """One step of all blocks, shared among threads: NumPy lets go of the interpreter's lock."""

    def work(part: list[Block]) -> None:
        space = np.empty((2, max(len(block.rows) for block in part), bits.shape[1]), np.uint64)
        for block in part:
            block.grow(bits, out, *space)

    threads = min(_THREADS, _cores(), len(blocks))
    if threads < 2:
        work(blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, (blocks[i::threads] for i in range(threads))))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Graph:
    """Neighbours of concept c: neighbours[first[c] : first[c] + degree[c]]."""

    first: np.ndarray
    degree: np.ndarray
    neighbours: np.ndarray

    def __len__(self) -> int:
        return len(self.degree)

    @cached_property
    def whole(self) -> list[Block]:
        """The blocks of all concepts, whose bits are in the same order."""
        rows = np.arange(len(self))
        return blocks_of(rows, rows, self.degree, self.neighbours)

    def around(self, concepts: np.ndarray) -> np.ndarray:
        """The neighbours of some concepts (int, rising), one concept's after the other's."""
        if len(concepts) == len(self):  # all, in order
            return self.neighbours
        return self.neighbours[ramps(self.first[concepts], self.degree[concepts])]

    def inside(self, concepts: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(degree, neighbours) of some concepts, of the neighbours only the known ones (bool [C])."""
        degree, neighbours = self.degree[concepts], self.around(concepts)
        kept = known[neighbours]
        before = np.append(0, np.cumsum(kept))
        end = np.cumsum(degree)
        return before[end] - before[end - degree], neighbours[kept]


class Spread:
    """Searches of a graph of C concepts, from some sources each, one search after the other.

    bits [R, W]: which sources lie within `walked` steps of a concept, whose row is row[concept]. At first only the
    concepts that bits have reached have a row, and all others share the last, which is empty; later (`full`) all have
    one. W shrinks as sources finish. Another word stands for the landmarks, the 64 concepts that have most neighbours,
    and reaches most concepts early: at first it is kept apart (`marks`), later it is the last.
    """

    def __init__(self, graph: Graph):
        most = np.argsort(-graph.degree, kind="stable")[:64]
        marks = np.zeros((len(graph), 1), np.uint64)
        marks[most, 0] = np.uint64(1) << np.arange(len(most), dtype=np.uint64)
        self.graph, self.marks = graph, [marks]  # landmarks within 0, 1, 2, ... steps of each concept
        self.bits, self.full, self.pool = None, False, []  # full: every concept has a row

    def begin(self, sources: np.ndarray, slot: np.ndarray, target: np.ndarray) -> None:
        """sources: int64 [S]. slot, target: int64 [M], pair m leads from sources[slot[m]] to target[m].

        The two concepts of a pair are connected and not the same.
        """
        self._keep(None)
        self.full, self.walked = False, 0
        self.known = np.zeros(len(self.graph), bool)  # concepts that have a row
        self.known[sources] = True
        self.row = np.where(self.known, np.cumsum(self.known) - 1, self.known.sum())
        self.bits = np.zeros((len(sources) + 1, -(-len(sources) // 64)), np.uint64)
        place = np.arange(len(sources))
        self.bits[self.row[sources], place // 64] = np.uint64(1) << (place % 64).astype(np.uint64)
        self.sources, self.slot, self.open = len(sources), slot, np.arange(len(slot))
        self.word, bit = np.divmod(slot, 64)
        self.bit = bit.astype(np.uint64)
        self.ends, ends = np.unique(np.append(sources[slot], target), return_inverse=True)
        self.start, self.target = ends[: len(slot)], ends[len(slot) :]
        self.near = [self.marks[0][self.ends, 0]]  # landmarks within 0, 1, 2, ... steps of an end that is open

    @property
    def finished(self) -> int:
        """How many sources have no pair that is still open."""
        return int((np.bincount(self.slot[self.open], minlength=self.sources) == 0).sum())

    def arrivals(self, longest: int) -> Iterator[tuple[int, np.ndarray]]:
        """(length, pairs that are so long), lengths rising, until all have arrived or up to `longest`.

        Whether pairs are of the next length shows around their targets, before the step is made for everyone.
        """
        length, hopeful = 0, False  # what is known of pairs goes up to `length`, one or two steps ahead of the bits
        while len(self.open) and length < longest:
            ends = np.flatnonzero(np.bincount(np.append(self.start[self.open], self.target[self.open])))
            grown = None
            if length == self.walked:
                grown = self._after_one(self.ends[ends])
            elif length == self.walked + 1 and hopeful:
                grown = self._after_two(self.ends[ends])
            if grown is None:
                self._step()
                continue
            length, before = length + 1, len(self.open)
            row = np.zeros(len(self.ends), np.int64)
            row[ends] = np.arange(len(ends))
            if length < _MET:
                self.near.append(grown[row, -1] if self.full else self._marks(length)[self.ends, 0])
            yield length, self._settle(self._arrived(grown, row))
            if length < min(longest, _MET):
                yield length + 1, self._settle(self._met(length + 1))
            hopeful = len(self.open) < before / 2

    def _settle(self, settled: np.ndarray) -> np.ndarray:
        """The pairs of bool [open], which are open no longer."""
        pairs, self.open = self.open[settled], self.open[~settled]
        return pairs

    def _after_one(self, concepts: np.ndarray) -> np.ndarray:
        """uint64 [concepts, W]: their bits after one step more."""
        grown = np.empty((len(concepts), self.bits.shape[1]), np.uint64)
        degree, neighbours = self.graph.inside(concepts, self.known)
        grow(blocks_of(self.row[concepts], np.arange(len(concepts)), degree, self.row[neighbours]), self.bits, grown)
        return grown

    def _after_two(self, concepts: np.ndarray) -> np.ndarray | None:
        """uint64 [concepts, W]: their bits after two steps more; None where that is hardly less work than a step."""
        around = self.graph.around(concepts)
        place = np.zeros(len(self.graph), np.int64)
        place[around] = 1
        between = np.flatnonzero(place)
        if 2 * self.graph.degree[between].sum() > len(self.graph.neighbours):
            return None
        place[between] = np.arange(len(between))
        around, degree = place[around], self.graph.degree[concepts]
        blocks = blocks_of(around[np.cumsum(degree) - degree], np.arange(len(concepts)), degree, around)
        grown = np.empty((len(concepts), self.bits.shape[1]), np.uint64)
        grow(blocks, self._after_one(between), grown)
        return grown

    def _arrived(self, grown: np.ndarray, row: np.ndarray) -> np.ndarray:
        """bool [open]: whether the source's bit stands at the target, grown[row[target]]."""
        bits = grown[row[self.target[self.open]], self.word[self.open]]
        return (bits >> self.bit[self.open]) & np.uint64(1) == 1

    def _marks(self, length: int) -> np.ndarray:
        """uint64 [C, 1]: the landmarks within so many steps."""
        while len(self.marks) <= length:
            self.marks.append(np.empty_like(self.marks[0]))
            grow(self.graph.whole, self.marks[-2], self.marks[-1])
        return self.marks[length]

    def _met(self, length: int) -> np.ndarray:
        """bool [open]: whether a way of this length leads over a landmark, about half way; all are so long at least."""
        start, target = self.start[self.open], self.target[self.open]
        met = np.zeros(len(self.open), bool)
        for steps in range(max(length // 2 - 1, 1), min(length // 2 + 2, length - 1) + 1):
            met |= self.near[steps][start] & self.near[length - steps][target] != 0
        return met

    def _step(self) -> None:
        """From the bits within some steps to those within one more."""
        self._drop_words()
        self.walked += 1
        if self.full:
            bits = self._buffer(self.bits.shape[1])
            grow(self.graph.whole, self.bits, bits)
            self._keep(bits)
        else:
            self._early_step()

    def _early_step(self) -> None:
        """A step from the concepts that have a row; all have one afterwards where these have many neighbours."""
        ahead, words = np.flatnonzero(self.known), self.bits.shape[1]
        many = 4 * self.graph.degree[ahead].sum() > len(self.graph.neighbours)
        reached = self.known | many
        if not many:
            reached[self.graph.around(ahead)] = True
        concepts = np.flatnonzero(reached)
        degree, neighbours = self.graph.inside(concepts, self.known)
        place = np.arange(len(concepts))
        bits = self._buffer(words + 1) if many else np.zeros((len(concepts) + 1, words), np.uint64)
        grow(blocks_of(self.row[concepts], place, degree, self.row[neighbours]), self.bits, bits[:, :words])
        if many:
            bits[:, -1:] = self._marks(self.walked) if self.walked < _MET else 0
        self._keep(bits)
        self.known, self.full = reached, many
        self.row = np.full(len(self.graph), len(concepts))
        self.row[concepts] = place

    def _drop_words(self) -> None:
        """Leaves out the words whose sources have all finished, where these are a tenth or more."""
        words = self.bits.shape[1]
        used = np.bincount(self.word[self.open], minlength=words) > 0
        used[-1] |= self.full  # the landmarks'
        kept = np.flatnonzero(used)
        if len(kept) > 0.9 * words:
            return
        fewer = self._buffer(len(kept)) if self.full else np.empty((len(self.bits), len(kept)), np.uint64)
        np.take(self.bits, kept, axis=1, out=fewer, mode="clip")
        self._keep(fewer)
        self.word = (np.cumsum(used) - 1)[self.word]

    def _buffer(self, words: int) -> np.ndarray:
        """uint64 [C, words] of any content, from what was used before where that is enough: new memory is slow."""
        size = len(self.graph) * words
        memory = next((memory for memory in self.pool if len(memory) >= size), None)
        if memory is None:
            memory = np.empty(size, np.uint64)
        self.pool = [other for other in self.pool if other is not memory]
        return memory[:size].reshape(-1, words)

    def _keep(self, bits: np.ndarray | None) -> None:
        """`bits` from now on; the memory of those before may be used again."""
        if self.full:
            self.pool.append(self.bits.base)
        self.bits = bits
