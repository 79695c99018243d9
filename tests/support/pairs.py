"""A corpus of six sentence pairs, its encoding, and a builder of prepared arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.data.text import Vocab
from mednli_jax.nli.encode.links import ConceptSource, Encoding
from mednli_jax.nli.encode.texts import PairTexts, Vocabulary, WordTexts, encode_splits
from support.ontologies import LINKER

KEY = {"corpus": "made-up", "max_length": 10}
ENCODING = Encoding(
    lowercase=True,
    max_length=10,
    hypothesis_only=False,
    vectors_path=None,
    vectors_dim=4,
    vectors_seed=0,
    direction="either",
    max_path=0,
    max_links=8,
)


def pair(
    premise: str,
    hypothesis: str,
    label: str = "neutral",
    uid: str = "u",
    tags: tuple[str, ...] = (),
) -> NLIExample:
    tokens = tuple(premise.split()), tuple(hypothesis.split())
    return NLIExample(uid, premise, hypothesis, label, *tokens, tags=tags)


_TRAIN = (
    pair("Known Asthma .", "She wheezes .", "entailment", "t0"),
    pair("qqq systolic heart failure", "has heart disease", "entailment", "t1", ("rare",)),
    pair("Chest pain", "No pain", "contradiction", "t2"),
)
_DEV = (pair("Asthma", "asthma since childhood", "neutral", "d0"),)
_TEST = (
    pair("", "left early", "", "e0"),
    pair("Asthma", "well", "neutral", "e1", ("rare", "x")),
)
SPLITS = {
    "train": Split("train", _TRAIN),
    "dev": Split("dev", _DEV),
    "test": Split("test", _TEST),
}


class EncodedCorpus(NamedTuple):
    """vectors: [V, D] in the order of the vocabulary."""

    arrays: dict[str, np.ndarray]
    vocabulary: Vocabulary
    vectors: np.ndarray
    facts: dict[str, Any]


def encode_corpus(
    splits: Mapping[str, Split],
    source: ConceptSource | None,
    encoding: Encoding = ENCODING,
    texts: PairTexts | None = None,
) -> EncodedCorpus:
    """Fits a vocabulary and encodes the splits in it. texts: None for WordTexts."""
    texts = texts or WordTexts(encoding)
    fitted = texts.fit(splits, lambda words: None)
    arrays, facts = encode_splits(splits, fitted.texts, source)
    facts["vocabulary"] = fitted.facts
    return EncodedCorpus(arrays, fitted.texts.vocabulary, fitted.vectors, facts)


class Builder:
    """Encodes SPLITS and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> tuple[Any, ...]:
        self.calls += 1
        return SPLITS, *encode_corpus(SPLITS, LINKER)


def mentions(*concepts: str) -> list[Mention]:
    """One mention of each concept, on the first tokens of a sentence."""
    return [Mention(n, n + 1, concept) for n, concept in enumerate(concepts)]


def words_of(numbers: Sequence[int], vocab: Vocab) -> list[str]:
    return [vocab.words[number] for number in numbers]


def links_of(arrays: Mapping[str, np.ndarray], row: int) -> list[tuple[int, int, int]]:
    """The links of a row: sorted (premise token, hypothesis token, distance)."""
    names = ("link_premise", "link_hypothesis", "link_distance")
    link_3L = np.stack([arrays[name][row] for name in names])
    return sorted(map(tuple, link_3L[:, link_3L[2] >= 0].T.tolist()))
