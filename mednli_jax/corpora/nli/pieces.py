"""From Examples to arrays of word pieces, for models whose vocabulary is BERT's; `data.cache` keeps them on disk.

The arrays are those of `encode` under the same names: premise, hypothesis [N, T] hold pieces (of the raw texts, without
special pieces), link_* [N, K] join pieces. Concepts are found among the words that the pieces are made of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mednli_jax.corpora.nli import encoding as encode
from mednli_jax.corpora.nli.wordpiece import Pieces, WordPieces, room_for
from mednli_jax.examples import LABELS, Mention, Split
from mednli_jax.knowledge.distances import shortest_paths

FORMAT = 1  # of the arrays; tests/test_prepared_content.py says when to raise it
SPECIAL_PIECES = 3  # [CLS] premise [SEP] hypothesis [SEP]


@dataclass(frozen=True)
class PieceEncoding:
    """What is special about pieces. Every field is part of the prepared folder's key.

    file: the weights' folder or vocabulary, None = a vocabulary is made of the training texts. size: pieces of that
    one. room: pieces of a pair, with the special ones; the longer side is cut first.
    """

    file: Path | None
    size: int
    room: int


def vocabulary(splits: dict[str, Split], own: PieceEncoding, lowercase: bool) -> WordPieces:
    """The vocabulary of the weights, or one of the training texts. Raises: DataError(s) E-BERT-02N."""
    if own.file is not None:
        return WordPieces.load(own.file)
    texts = (text for example in splits["train"].examples for text in (example.premise, example.hypothesis))
    return WordPieces.of_texts(texts, own.size, lowercase=lowercase)


def encode_pairs(examples, pieces: WordPieces, own: PieceEncoding, hypothesis_only: bool, watch=encode.unwatched):
    """(arrays, pieces of each side of each example, pairs that were cut)."""
    found, texts = {side: [] for side in encode.SIDES}, {}
    for side in encode.SIDES:
        for example in watch(examples, f"pieces of {encode.PLURAL[side]}"):
            text = "" if hypothesis_only and side == "premise" else getattr(example, side)
            if text not in texts:  # a premise stands with several hypotheses
                texts[text] = pieces.encode(text)
            found[side].append(texts[text])
    cut, kept = 0, {side: [] for side in encode.SIDES}
    for both in zip(*found.values(), strict=True):
        sizes = tuple(len(of_side.numbers) for of_side in both)
        room = room_for(*sizes, own.room - SPECIAL_PIECES)
        cut += room != sizes
        for side, of_side, most in zip(encode.SIDES, both, room, strict=True):
            kept[side].append(of_side.numbers[:most])
    arrays = {}
    for side in encode.SIDES:
        longest = max(max(map(len, kept[side]), default=0), 1)
        arrays[side], arrays[f"{side}_length"] = encode.pad(kept[side], longest)
    return arrays, found, cut


def encode_links(arrays, found, linker, encoding: encode.Encoding, watch=encode.unwatched, paths=shortest_paths):
    """Link arrays [N, K] between pieces, and what is to be known about them; see encode.encode_links."""
    linked, mentions = {}, {}
    for side in encode.SIDES:
        lengths = arrays[f"{side}_length"].tolist()
        mentions[side] = [
            [mention for mention in _of_pieces(of_side, linker, linked) if mention.end <= kept]
            for of_side, kept in zip(watch(found[side], f"concepts of {encode.PLURAL[side]}"), lengths, strict=True)
        ]
    most = max(arrays[side].shape[1] for side in encode.SIDES)
    return encode.links_of(mentions, linker.ontology, encoding, most, paths)


def _of_pieces(of_side: Pieces, linker, linked: dict) -> list[Mention]:
    """Mentions among the words, as spans of pieces."""
    if of_side.words not in linked:
        first = np.searchsorted(of_side.word_of_piece, np.arange(len(of_side.words) + 1)).tolist()
        linked[of_side.words] = [
            Mention(first[mention.start], first[mention.end], mention.concept) for mention in linker.link(of_side.words)
        ]
    return linked[of_side.words]


def encode_corpus(
    splits: dict[str, Split],
    linker,
    encoding: encode.Encoding,
    own: PieceEncoding,
    begun: float | None = None,
    paths=shortest_paths,
):
    """All arrays, the vocabulary, no vectors [V, 1] and the facts of a corpus; see encode.encode_corpus."""
    examples: Sequence = [example for split in splits.values() for example in split.examples]
    passes = len(encode.SIDES) * (1 if linker is None else 2)
    pieces = vocabulary(splits, own, encoding.lowercase)
    with encode.Watch(passes * len(examples), begun) as watch:
        arrays, found, cut = encode_pairs(examples, pieces, own, encoding.hypothesis_only, watch)
        knowledge = {"ontology": "none", "longest_path": 0}
        if linker is not None:
            links, knowledge = encode_links(arrays, found, linker, encoding, watch, paths)
            arrays |= links
    arrays["label"] = np.array([LABELS.index(e.label) if e.label else -1 for e in examples], np.int32)
    arrays |= encode.domains(examples)
    facts = {
        "splits": encode.split_facts(splits),
        "vocabulary": {
            "words": len(pieces),
            "with_vector": 0,
            "lowered": 0,
            "source": "pieces of training texts" if own.file is None else f"pieces of {own.file.name}",
            "sha256": "",
            "retrofitted": 0,
        },
        "pieces": {"size": len(pieces), "cls": pieces.cls, "sep": pieces.sep, "unknown": pieces.unk, "room": own.room},
        "unknown_tokens": {side: int((arrays[side] == pieces.unk).sum()) for side in encode.SIDES},
        "truncated": {"pairs": cut},
        "knowledge": knowledge,
    }
    return arrays, pieces, np.zeros((len(pieces), 1), np.float32), facts
