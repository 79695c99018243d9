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


def ramps(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """first, first + 1, ... `length` times for each entry: [5, 8], [2, 1] -> [5, 6, 8]."""
    end = np.cumsum(length, dtype=np.int64)
    return np.repeat(first - (end - length), length) + np.arange(end[-1] if len(end) else 0)


@dataclass(frozen=True)
class Block:
    """What to gather for up to _BLOCK concepts; those with most neighbours come first.

    rows: int [n] the concepts; place: int [n] where their bits go.
    nth: the first neighbour of all, the second of all that have two, ...; the n-th of too few are in `rest`.
    rest: (position in `rows`, further neighbours).
    """

    rows: np.ndarray
    place: np.ndarray
    nth: list[np.ndarray]
    rest: list[tuple[int, np.ndarray]]

    def grow(self, bits: np.ndarray, out: np.ndarray, grown: np.ndarray, gathered: np.ndarray) -> None:
        """out[place] = bits of `rows` and of their neighbours; grown, gathered: uint64 [_BLOCK, W] to work in."""
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


@dataclass(frozen=True)
class Graph:
    """Neighbours of concept c: neighbours[first[c] : first[c] + degree[c]]."""

    first: np.ndarray
    degree: np.ndarray
    neighbours: np.ndarray

    @cached_property
    def whole(self) -> list[Block]:
        """The blocks of all concepts."""
        rows = np.arange(len(self.degree))
        return _blocks(rows, rows, self.degree, self.neighbours)

    def around(self, concepts: np.ndarray) -> np.ndarray:
        return self.neighbours[ramps(self.first[concepts], self.degree[concepts])]

    def some(self, concepts: np.ndarray, place: np.ndarray, useful: np.ndarray | None = None) -> list[Block]:
        """The blocks of some concepts; of the neighbours only the useful ones (bool [C])."""
        degree, neighbours = self.degree[concepts], self.around(concepts)
        if useful is not None:
            kept = useful[neighbours]
            before = np.append(0, np.cumsum(kept))
            end = np.cumsum(degree)
            degree, neighbours = before[end] - before[end - degree], neighbours[kept]
        return _blocks(concepts, place, degree, neighbours)


def _blocks(rows, place, degree, neighbours) -> list[Block]:
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


class Spread:
    """Searches of a graph of C concepts, from at most 64 * `words` sources each: they share two memories of [C, words].

    bits [C, W]: which sources lie within so many steps of a concept; W shrinks as sources finish.
    """

    def __init__(self, graph: Graph, words: int):
        self.graph, self.size = graph, len(graph.degree)
        self.memory = [np.zeros(self.size * words, np.uint64) for _ in range(2)]
        self.clean = True

    def begin(self, sources: np.ndarray, slot: np.ndarray, target: np.ndarray) -> None:
        """sources: int64 [S]. slot, target: int64 [M], pair m leads from sources[slot[m]] to target[m].

        The two concepts of a pair are connected and not the same.
        """
        self.sources, self.slot, self.target = len(sources), slot, target
        words = -(-len(sources) // 64)
        for memory in () if self.clean else self.memory:
            memory[: self.size * words] = 0
        self.clean = False
        self.word, bit = np.divmod(slot, 64)
        self.bit = bit.astype(np.uint64)
        self.bits, self.spare = self.memory[0][: self.size * words].reshape(self.size, words), self.memory[1]
        here = np.arange(len(sources))
        self.bits[sources, here // 64] = np.uint64(1) << (here % 64).astype(np.uint64)
        self.reached = np.zeros(self.size, bool)  # concepts that have any bit, until these are many
        self.reached[sources] = True
        self.everywhere = False
        self.open = np.arange(len(slot))

    @property
    def finished(self) -> int:
        """How many sources have no pair that is still open."""
        return int((np.bincount(self.slot[self.open], minlength=self.sources) == 0).sum())

    def arrivals(self, longest: int) -> Iterator[tuple[int, np.ndarray]]:
        """(length, pairs that are so long) for length = 1, 2, ... until all have arrived or at `longest`."""
        for length in range(1, longest + 1):
            arrived = self._arrived()
            come, self.open = self.open[arrived], self.open[~arrived]
            yield length, come
            if not len(self.open):
                return
            if length < longest:
                self._step()

    def _arrived(self) -> np.ndarray:
        """bool [open]: whether one step more leads to the target; taken from there, for the targets alone."""
        target = self.target[self.open]
        row = np.zeros(len(self.bits), np.int64)
        row[target] = 1
        targets = np.flatnonzero(row)
        row[targets] = np.arange(len(targets))
        grown = np.empty((len(targets), self.bits.shape[1]), np.uint64)
        _grow(self.graph.some(targets, row[targets]), self.bits, grown)
        return (grown[row[target], self.word[self.open]] >> self.bit[self.open]) & np.uint64(1) == 1

    def _step(self) -> None:
        """From the bits within `length` steps to those within one more."""
        blocks = None if self.everywhere else self._frontier()
        if blocks is None:
            self._drop_words()
            blocks = self.graph.whole
        grown = self.spare[: self.bits.size].reshape(self.bits.shape)
        _grow(blocks, self.bits, grown)
        self.bits, self.spare = grown, self.bits.reshape(-1)

    def _frontier(self) -> list[Block] | None:
        """The blocks of the concepts that bits can reach by this step; None once these are many."""
        useful, ahead = self.reached, np.flatnonzero(self.reached)
        self.reached = useful.copy()
        self.reached[self.graph.around(ahead)] = True
        self.everywhere = 4 * self.graph.degree[ahead].sum() > len(self.graph.neighbours)
        if self.everywhere:
            return None
        ahead = np.flatnonzero(self.reached)
        return self.graph.some(ahead, ahead, useful)

    def _drop_words(self) -> None:
        """Leaves out the words whose sources have all finished, where these are a tenth or more."""
        words = self.bits.shape[1]
        kept = np.flatnonzero(np.bincount(self.word[self.open], minlength=words))
        if len(kept) > 0.9 * words:
            return
        fewer = self.spare[: len(self.bits) * len(kept)].reshape(len(self.bits), len(kept))
        np.take(self.bits, kept, axis=1, out=fewer, mode="clip")
        self.bits, self.spare = fewer, self.bits.reshape(-1)
        place = np.zeros(words, np.int64)
        place[kept] = np.arange(len(kept))
        self.word = place[self.word]


def _grow(blocks: list[Block], bits: np.ndarray, out: np.ndarray) -> None:
    """One step of all blocks, shared among threads: NumPy lets go of the interpreter's lock."""

    def work(part: list[Block]) -> None:
        space = np.empty((2, min(_BLOCK, max(len(block.rows) for block in part)), bits.shape[1]), np.uint64)
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
