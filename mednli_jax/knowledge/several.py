"""Several ontologies at once: one graph in which they stand side by side, and one linker of all."""

import hashlib
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from scipy.sparse import block_diag, csr_array

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.lemmas import Lemmas
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology, Relations


def side_by_side(parts: Sequence[Ontology]) -> Ontology:
    """The concepts of all parts, one part after the other; no edge leads from one to another.

    Relations of one name are one. Raises: DataError where two parts have a concept of the same id.
    """
    begins = _begins(parts)
    size = sum(map(len, parts))
    edges = {}
    for part, begin in zip(parts, begins, strict=True):
        for name, of_part in Relations.of(part.relations, len(part)).edges.items():
            edges.setdefault(name, []).append(np.asarray(of_part, np.int32) + np.int32(begin))

    def moved(field):
        pairs = zip(parts, begins, strict=True)
        return tuple((name, begin + concept) for part, begin in pairs for name, concept in getattr(part, field))

    return Ontology(
        name="+".join(part.name for part in parts),
        version="+".join(part.version for part in parts),
        ids=tuple(concept for part in parts for concept in part.ids),
        labels=tuple(label for part in parts for label in part.labels),
        names=moved("names"),
        parents=csr_array(block_diag([part.parents for part in parts], format="csr", dtype=bool)),
        sha256=hashlib.sha256("+".join(part.sha256 for part in parts).encode()).hexdigest(),
        types=tuple(kinds for part in parts for kinds in (part.types or [""] * len(part))),
        abbreviations=frozenset().union(*(part.abbreviations for part in parts)),
        relations=Relations({name: np.concatenate(found, axis=1) for name, found in sorted(edges.items())}, size),
        cross_references=moved("cross_references"),
    )


class Linkers:
    """The mentions that each linker finds, whether they overlap or not. ontology: `side_by_side` of theirs."""

    def __init__(self, ontology: Ontology, linkers: Sequence[Linker | Lemmas]):
        self.ontology, self._linkers = ontology, tuple(linkers)
        self._begins = _begins([linker.ontology for linker in linkers])

    def link(self, tokens: Sequence[str]) -> list[Mention]:
        """The mentions of one sentence, in order."""
        found = [mention for linker in self._linkers for mention in linker.link(tokens)]
        return sorted(found, key=lambda mention: (mention.start, mention.end))

    def indices(self, concept: str) -> list[int]:
        """The concepts of `ontology` that a mention's `concept` stands for."""
        linkers = zip(self._linkers, self._begins, strict=True)
        return [begin + index for linker, begin in linkers for index in linker.indices(concept)]


def _begins(parts: Sequence[Ontology]) -> list[int]:
    return list(accumulate(map(len, parts), initial=0))[:-1]
