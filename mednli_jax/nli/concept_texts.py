"""Texts in which concepts replace words, with retrofitted vectors (Romanov & Shivade 2018, section 4.2.1).

Every word of a mention becomes the id of its concept: the published code made one token of a mention, here lengths and
links stay. The vector of a concept is the mean of the words of its most frequent mention in training (which the
published code computes but does not use), retrofitted to related concepts. A concept without a known word
leaves its words as they are.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.text import Vocab
from mednli_jax.knowledge.concept_vectors import retrofit_concepts
from mednli_jax.nli import encoding as encode


def mark(concept: str) -> str:
    """The word that stands for a concept: no word of a text has a space in it."""
    return f" {concept}"


class ConceptTexts(encode.WordTexts):
    """WordTexts whose words may be concepts.

    linker: finds the concepts. relations: the ontology's relations that retrofitting follows.
    """

    passes = 1 + len(SIDES)

    def __init__(self, encoding: encode.Encoding, linker, relations: Sequence[str], vocabulary: Vocab | None = None):
        super().__init__(encoding, vocabulary)
        self._linker, self._relations, self._linked = linker, relations, {}

    def _mentions(self, examples, side, watch=encode.unwatched):
        return encode.find_mentions(examples, side, self._linker, self.encoding, self._linked, watch)

    def tokens(self, example, side: str) -> list[str]:
        """The tokens of one side; of overlapping mentions the first is used."""
        words = super().tokens(example, side)
        (mentions,) = self._mentions([example], side)
        for mention in reversed(mentions):
            if (word := mark(mention.concept)) in self.vocabulary:
                words[mention.start : mention.end] = [word] * (mention.end - mention.start)
        return words

    def fit(self, splits, examples, watch, retrofit_graph) -> tuple[np.ndarray, dict]:
        """Raises: ConfigError where no two related concepts have vectors."""
        matrix, facts = super().fit(splits, examples, watch, retrofit_graph)
        ontology, phrases, found = self._linker.ontology, Counter(), set()
        trained = {example.uid for example in splits["train"].examples}
        for side in SIDES:
            for example, mentions in zip(examples, self._mentions(examples, side, watch), strict=True):
                words = super().tokens(example, side)
                for mention in mentions:
                    index = ontology.index_of.get(mention.concept)
                    if index is None:
                        continue
                    found.add(index)
                    if example.uid in trained:
                        phrases[" ".join(words[mention.start : mention.end]), index] += 1
        names = list(phrases.elements())
        how = {"relations": self._relations, "rounds": self.encoding.retrofit_rounds}
        vectors, missing = retrofit_concepts(ontology, matrix, self.vocabulary.words, names, **how)
        served = sorted(index for index in found if not missing[index])
        self.vocabulary = Vocab(self.vocabulary.words + tuple(mark(ontology.ids[index]) for index in served))
        facts |= {"concepts": len(found), "concepts_with_vector": len(served)}
        return np.concatenate([matrix, vectors[served]]).astype(np.float32), facts
