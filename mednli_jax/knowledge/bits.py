"""Bits that spread in a graph: for each concept, one bit for each source says whether it lies within so many steps.

`search.spread` chooses the concepts, their order and the sources. C concepts, S sources, W words of 64 bits, M pairs.
"""

import os
from collections.abc import Callable, Iterator
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
    """Searches of a graph of C concepts, from at most 64 * `words` sources each: they share two memories.

    bits [C, W]: which sources lie within `length` steps of a concept; W shrinks as sources finish. The last word stands
    for the landmarks, the 64 concepts that have most neighbours.
    """

    def __init__(self, graph: Graph, words: int):
        self.graph, self.size = graph, len(graph.degree)
        self.memory = [np.empty(self.size * (words + 1), np.uint64) for _ in range(2)]
        self.landmarks = np.argsort(-graph.degree, kind="stable")[:64]

    def begin(self, sources: np.ndarray, slot: np.ndarray, target: np.ndarray) -> None:
        """sources: int64 [S]. slot, target: int64 [M], pair m leads from sources[slot[m]] to target[m].

        The two concepts of a pair are connected and not the same.
        """
        words = -(-len(sources) // 64) + 1
        _share(lambda memory: memory[: self.size * words].fill(0), self.memory)
        self.bits, self.spare = self.memory[0][: self.size * words].reshape(self.size, words), self.memory[1]
        for column, concepts in ((0, sources), (words - 1, self.landmarks)):
            place = np.arange(len(concepts))
            self.bits[concepts, column + place // 64] = np.uint64(1) << (place % 64).astype(np.uint64)
        self.reached = self.bits.any(axis=1)  # by any bit; until these are many
        self.everywhere = False
        self.sources, self.slot, self.open = len(sources), slot, np.arange(len(slot))
        self.word, bit = np.divmod(slot, 64)
        self.bit = bit.astype(np.uint64)
        self.ends, ends = np.unique(np.append(sources[slot], target), return_inverse=True)
        self.start, self.target = ends[: len(slot)], ends[len(slot) :]
        self.near = [np.zeros(len(self.ends), np.uint64)]  # landmarks within 0, 1, 2, ... steps of an end that is open

    @property
    def finished(self) -> int:
        """How many sources have no pair that is still open."""
        return int((np.bincount(self.slot[self.open], minlength=self.sources) == 0).sum())

    def arrivals(self, longest: int) -> Iterator[tuple[int, np.ndarray]]:
        """(length, pairs that are so long), lengths rising, until all have arrived or up to `longest`.

        Whether a pair is of the next length shows at its target's neighbours, before the step is made for everyone.
        """
        length, walked, hopeful = 0, 0, False  # pairs are known up to `length`, bits up to `walked`
        while len(self.open) and length < longest:
            ahead = length - walked
            ends = np.flatnonzero(np.bincount(np.append(self.start[self.open], self.target[self.open])))
            grown = None
            if ahead == 0:
                grown = self._after_one(ends)
            elif ahead == 1 and hopeful:
                grown = self._after_two(ends)
            if grown is None:
                self._step()
                walked += 1
                continue
            length, before = length + 1, len(self.open)
            yield length, self._settle(self._arrived(ends, grown))
            if length < longest:
                yield length + 1, self._settle(self._met(length + 1))
            hopeful = len(self.open) < before / 2

    def _settle(self, settled: np.ndarray) -> np.ndarray:
        """The pairs of bool [open], which are open no longer."""
        pairs, self.open = self.open[settled], self.open[~settled]
        return pairs

    def _after_one(self, ends: np.ndarray) -> np.ndarray:
        """uint64 [ends, W]: the bits of some ends after one step more."""
        concepts = self.ends[ends]
        grown = np.empty((len(ends), self.bits.shape[1]), np.uint64)
        _grow(self.graph.some(concepts, np.arange(len(ends))), self.bits, grown)
        return grown

    def _after_two(self, ends: np.ndarray) -> np.ndarray | None:
        """uint64 [ends, W]: the bits of some ends after two steps more; None where it would be hardly less than all."""
        concepts = self.ends[ends]
        around = self.graph.around(concepts)
        place = np.zeros(self.size, np.int64)
        place[around] = 1
        between = np.flatnonzero(place)
        if 2 * self.graph.degree[between].sum() > len(self.graph.neighbours):
            return None
        place[between] = np.arange(len(between))
        middle = np.empty((len(between), self.bits.shape[1]), np.uint64)
        useful = None if self.everywhere else self.reached
        _grow(self.graph.some(between, place[between], useful), self.bits, middle)
        degree = self.graph.degree[concepts]
        around = place[around]
        blocks = _blocks(around[np.cumsum(degree) - degree], np.arange(len(ends)), degree, around)
        grown = np.empty((len(ends), self.bits.shape[1]), np.uint64)
        _grow(blocks, middle, grown)
        return grown

    def _arrived(self, ends: np.ndarray, grown: np.ndarray) -> np.ndarray:
        """bool [open]: whether the source's bit stands at the target in `grown` [ends, W]."""
        row = np.zeros(len(self.ends), np.int64)
        row[ends] = np.arange(len(ends))
        self.near.append(grown[row, -1])
        bits = grown[row[self.target[self.open]], self.word[self.open]]
        return (bits >> self.bit[self.open]) & np.uint64(1) == 1

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
        if self.full:
            bits = self._room(self.bits.shape[1])
            grow(self.graph.whole, self.bits, bits)
            self._keep(bits)
        else:
            self._early_step()

    def _early_step(self) -> None:
        """A step from the concepts that have a row; all have one afterwards where these have many neighbours."""
        ahead, words = np.flatnonzero(self.known), self.bits.shape[1]
        many = 4 * self.graph.degree[ahead].sum() > len(self.graph.neighbours)
        reached = self.known | many
        reached[self.graph.around(ahead)] = True
        concepts = np.flatnonzero(reached)
        degree, neighbours = self.graph.inside(concepts, self.known)
        place = np.arange(len(concepts))
        bits = self._room(words) if many else np.zeros((len(concepts) + 1, words), np.uint64)
        grow(blocks_of(self.row[concepts], place, degree, self.row[neighbours]), self.bits, bits)
        self._keep(bits)
        self.known, self.full = reached, many
        self.row = np.full(len(self.graph), len(concepts))
        self.row[concepts] = place

    def _drop_words(self) -> None:
        """Leaves out the words whose sources have all finished, where these are a tenth or more."""
        words = self.bits.shape[1]
        used = np.bincount(self.word[self.open], minlength=words) > 0
        used[-1] = True
        kept = np.flatnonzero(used)
        if len(kept) > 0.9 * words:
            return
        fewer = self._room(len(kept)) if self.full else np.empty((len(self.bits), len(kept)), np.uint64)
        np.take(self.bits, kept, axis=1, out=fewer, mode="clip")
        self._keep(fewer)
        self.word = (np.cumsum(used) - 1)[self.word]

    def _room(self, words: int) -> np.ndarray:
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
