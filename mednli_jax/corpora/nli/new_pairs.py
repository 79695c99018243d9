"""New pairs as arrays, in the vocabulary of a trained run."""

from collections.abc import Iterable

import numpy as np

from mednli_jax.corpora.arrays import SIDES
from mednli_jax.corpora.nli.corpus import NLICorpus
from mednli_jax.corpora.nli.encoding import PLURAL
from mednli_jax.corpora.nli.wordpiece import WordPieces
from mednli_jax.errors import RunError
from mednli_jax.progress import warn
from mednli_jax.text import Vocab


class NewPairEncoder:
    """Encodes examples as a corpus does; the ontology is read and its linker made once.

    Args:
      corpus: that the run was trained on. vocabulary: the run's. ontology_sha256: of the ontology it was trained with.
      concepts: of the graph it was trained with, None for the ontology's whole graph.
    Raises: UserError where the corpus's ontology is another one by now.
    """

    def __init__(
        self,
        corpus: NLICorpus,
        vocabulary: Vocab | WordPieces,
        ontology_sha256: str,
        concepts: Iterable[str] | None = None,
    ):
        self._concepts = None if concepts is None else lambda _: concepts
        self.texts, self.linker = corpus.texts(vocabulary, corpus.linker), corpus.linker
        self.vocabulary, self.encoding, self.pieces = vocabulary, corpus.encoding, corpus.pieces
        if corpus.linking is not None and corpus.linking.mentions:
            warn("the run's concepts were found by another program; those of new pairs are found by this package")
        if self.linker and self.linker.ontology.sha256 != ontology_sha256:
            name = self.linker.ontology.name
            raise RunError(f"the ontology '{name}' changed since the run was trained. Fix: restore it, or train again.")

    def tokens(self, example, side: str) -> list[str]:
        """The tokens of one side that the arrays hold; of pieces all that there are."""
        if self.pieces:
            return [self.vocabulary.words[number] for number in self.vocabulary.encode(getattr(example, side)).numbers]
        return self.texts.tokens(example, side)

    def __call__(self, examples) -> tuple[dict, dict[str, int], dict[str, int]]:
        """(arrays of the examples, number of tokens without a vector per side, how many texts were cut: {"premises":
        1}, or {"pairs": 1} of pieces)."""
        arrays = self.texts.arrays(examples)
        links = self.texts.links(examples, arrays, self.linker, concepts=self._concepts)[0] if self.linker else {}
        unknown = {side: int((arrays[side] == self.texts.unknown).sum()) for side in SIDES}
        cut = {PLURAL.get(what, what): n for what, n in self.texts.facts(examples)["truncated"].items() if n}
        return {**arrays, **links, "label": np.full(len(examples), -1, np.int32)}, unknown, cut
