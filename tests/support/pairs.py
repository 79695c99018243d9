"""A corpus of six sentence pairs, its encoding, and a builder of prepared arrays."""

from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.nli import encoding as words
from mednli_jax.nli.encoding import Encoding, encode_corpus
from support.ontologies import LINKER

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


def pair(premise, hypothesis, label="neutral", uid="u", tags=()):
    return NLIExample(
        uid,
        premise,
        hypothesis,
        label,
        tuple(premise.split()),
        tuple(hypothesis.split()),
        tags=tags,
    )


def mentions(*concepts):
    """One mention of each concept, on the first tokens of a sentence."""
    return [Mention(n, n + 1, concept) for n, concept in enumerate(concepts)]


SPLITS = {
    "train": Split(
        "train",
        (
            pair("Known Asthma .", "She wheezes .", "entailment", "t0"),
            pair("qqq systolic heart failure", "has heart disease", "entailment", "t1", ("rare",)),
            pair("Chest pain", "No pain", "contradiction", "t2"),
        ),
    ),
    "dev": Split("dev", (pair("Asthma", "asthma since childhood", "neutral", "d0"),)),
    "test": Split(
        "test",
        (pair("", "left early", "", "e0"), pair("Asthma", "well", "neutral", "e1", ("rare", "x"))),
    ),
}


def words_of(numbers, vocab):
    return [vocab.words[number] for number in numbers]


def links_of(arrays, row):
    """The links of a row: sorted (premise token, hypothesis token, distance)."""
    filled = arrays["link_distance"][row] >= 0
    fields = (
        arrays[name][row][filled].tolist()
        for name in ("link_premise", "link_hypothesis", "link_distance")
    )
    return sorted(zip(*fields, strict=True))


def encode_links(examples, linker, encoding):
    """(link arrays of words, facts about them)."""
    mentions = words.find_mentions(examples, linker, encoding)
    of_mentions = words.mention_words(examples, encoding)
    return words.encode_links(mentions, linker, encoding, of_mentions, {})


KEY = {"corpus": "made-up", "max_length": 10}


class Builder:
    """Builds the corpus of test_encoding and counts the calls."""

    def __init__(self, splits=SPLITS, encoding=ENCODING):
        self.splits, self.encoding, self.calls = splits, encoding, 0

    def __call__(self):
        self.calls += 1
        return self.splits, *encode_corpus(self.splits, LINKER, self.encoding)
