"""From Examples to arrays of word pieces, for models whose vocabulary is BERT's; `corpora.cache` keeps them on disk.

The arrays have the names that `encoding` gives: premise, hypothesis [N, T] hold pieces of the raw texts without special
pieces, link_* [N, K] join pieces. Concepts are found among the words that the pieces are made of.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mednli_jax.data.arrays import SIDES, pad
from mednli_jax.data.examples import Mention
from mednli_jax.data.wordpiece import Pieces, WordPieces, room_for
from mednli_jax.io import unwatched
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.nli import encoding as encode

FORMAT = 4  # of the arrays; tests/corpora/test_prepared_content.py says when to raise it
SPECIAL_PIECES = 3  # [CLS] premise [SEP] hypothesis [SEP]


@dataclass(frozen=True)
class PieceEncoding:
    """The settings of pieces. Every field is part of the prepared folder's key.

    file: the weights' folder or vocabulary, None = a vocabulary is made of the training texts. size: number of pieces
    of that vocabulary. room: most pieces of a pair, special ones included; the longer side is cut first.
    """

    file: Path | None
    size: int
    room: int


class PieceTexts:
    """How the texts of pairs become numbers: pieces of words (see encoding.WordTexts)."""

    passes = 0

    def __init__(self, encoding: encode.Encoding, pieces: PieceEncoding, vocabulary: WordPieces | None = None):
        self.encoding, self.pieces, self.vocabulary = encoding, pieces, vocabulary

    @property
    def unknown(self) -> int:
        return self.vocabulary.unk

    def fit(self, splits, examples, watch, retrofit_graph) -> tuple[np.ndarray, dict]:
        """The vocabulary of the weights, or one of the training texts: (no vectors [V, 1], facts of it).

        Raises: DataError(s).
        """
        if self.pieces.file is not None:
            self.vocabulary = WordPieces.load(self.pieces.file)
        else:
            texts = (text for example in splits["train"].examples for text in (example.premise, example.hypothesis))
            self.vocabulary = WordPieces.of_texts(texts, self.pieces.size, lowercase=self.encoding.lowercase)
        source = "pieces of training texts" if self.pieces.file is None else f"pieces of {self.pieces.file.name}"
        words = len(self.vocabulary)
        facts = {"words": words, "with_vector": 0, "lowered": 0, "source": source, "sha256": "", "retrofitted": 0}
        return np.zeros((words, 1), np.float32), facts

    def arrays(self, examples, watch=unwatched) -> dict:
        """premise, hypothesis [N, T] and their lengths [N]; the pieces are kept for `links`, the cuts for `facts`."""
        self._found, texts = {side: [] for side in SIDES}, {}
        for side in SIDES:
            for example in watch(examples, f"pieces of {encode.PLURAL[side]}"):
                text = "" if self.encoding.hypothesis_only and side == "premise" else getattr(example, side)
                if text not in texts:  # a premise stands with several hypotheses
                    texts[text] = self.vocabulary.encode(text)
                self._found[side].append(texts[text])
        self._cut, kept = 0, {side: [] for side in SIDES}
        for both in zip(*self._found.values(), strict=True):
            sizes = tuple(len(of_side.numbers) for of_side in both)
            fitting = room_for(*sizes, self.pieces.room - SPECIAL_PIECES)
            self._cut += fitting != sizes
            for side, of_side, most in zip(SIDES, both, fitting, strict=True):
                kept[side].append(of_side.numbers[:most])
        arrays = {}
        for side in SIDES:
            longest = max(max(map(len, kept[side]), default=0), 1)
            arrays[side], arrays[f"{side}_length"] = pad(kept[side], longest)
        return arrays

    def tokens(self, example, side: str) -> list[str]:
        """The pieces of one side, before any is cut."""
        return [self.vocabulary.words[number] for number in self.vocabulary.encode(getattr(example, side)).numbers]

    def links(
        self, examples, arrays, linker, watch=unwatched, paths=shortest_paths, concepts=None, rows=None
    ) -> tuple[dict, dict]:
        """(link arrays [N, K] between pieces, facts about them), of the examples of the last call of `arrays`."""
        linked, whole, mentions = {}, {}, {}
        for side in SIDES:
            found = watch(self._found[side], f"concepts of {encode.PLURAL[side]}")
            whole[side] = [_of_pieces(of_side, linker, linked) for of_side in found]
            mentions[side] = [
                [mention for mention in of_side if mention.end <= kept]
                for of_side, kept in zip(whole[side], arrays[f"{side}_length"].tolist(), strict=True)
            ]
        most = max(arrays[side].shape[1] for side in SIDES)
        return encode.links_of(mentions, whole, linker, self.encoding, most, paths, concepts, rows)

    def facts(self, examples) -> dict:
        """Sizes and special pieces of the vocabulary, and pairs that were cut."""
        pieces = self.vocabulary
        numbers = {"size": len(pieces), "cls": pieces.cls, "sep": pieces.sep, "unknown": pieces.unk}
        return {"pieces": {**numbers, "room": self.pieces.room}, "truncated": {"pairs": self._cut}}


def _of_pieces(of_side: Pieces, linker, linked: dict) -> list[Mention]:
    """Mentions among the words, as spans of pieces."""
    if of_side.words not in linked:
        first = np.searchsorted(of_side.word_of_piece, np.arange(len(of_side.words) + 1)).tolist()
        linked[of_side.words] = [
            Mention(first[mention.start], first[mention.end], mention.concept) for mention in linker.link(of_side.words)
        ]
    return linked[of_side.words]
