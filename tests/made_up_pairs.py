"""Made-up sentence pairs: a corpus of six pairs with an ontology, and files in SNLI's layout."""

import json

from made_up_knowledge import is_a_matrix

from mednli_jax.data.examples import LABELS, Mention, NLIExample, Split
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.nli import encoding as words
from mednli_jax.nli.encoding import Encoding

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

# Systolic heart failure is-a heart failure is-a heart disease; asthma stands alone.
NAMES = ("heart disease", "heart failure", "systolic heart failure", "asthma")
HEART = Ontology(
    "heart",
    "1",
    ("C0", "C1", "C2", "C3"),
    NAMES,
    tuple((name, index) for index, name in enumerate(NAMES)),
    is_a_matrix([(1, 0), (2, 1)], 4),
    "0" * 64,
)
LINKER = Linker(HEART)


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


# ---- files ----

CONDITIONS = ("asthma", "gout", "anemia", "stroke")


def write_rows(path, rows):
    """Writes JSON lines and makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_own(folder, **splits):
    """Writes a user's own corpus: train=((premise, hypothesis, label), ...). The uids are train0,
    train1, ..."""
    names = ("premise", "hypothesis", "label")
    for split, rows in splits.items():
        named = (
            dict(zip(names, (*row, "neutral")[:3], strict=True), uid=f"{split}{n}")
            for n, row in enumerate(rows)
        )
        write_rows(folder / f"{split}.jsonl", named)


def official(uid, label, premise, hypothesis, parsed=True):
    """A row with the fields of MedNLI's and SNLI's files."""
    row = {"pairID": uid, "gold_label": label, "sentence1": premise, "sentence2": hypothesis}
    parses = {f"{name}_binary_parse": f"( {row[name]} )" for name in ("sentence1", "sentence2")}
    return row | parses if parsed else row


def snli_rows(corpus, split, size):
    """Rows with SNLI's fields; each premise has three hypotheses."""
    for n in range(size):
        premise, hypothesis = (
            f"{corpus} {split} {n // 3} {CONDITIONS[n // 3 % 4]} .",
            f"has {CONDITIONS[n % 4]} now",
        )
        yield official(f"{corpus}-{split}-{n}", LABELS[n % 3], premise, hypothesis)
