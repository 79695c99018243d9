"""Augmentation pairs of a made-up WordNet; the labels are worked out by hand."""

import json
import shutil
from collections import Counter

import pytest
from support.commands import SMALL, at, config_flag, printed_json, succeeds
from support.files import lay_out
from support.ontology_files import WORDNET
from support.pair_files import write_own
from support.pairs import pair
from support.tables import table_rows

from mednli_jax import evaluate, train
from mednli_jax.checks import check
from mednli_jax.cli import read_config
from mednli_jax.data.examples import LABELS
from mednli_jax.errors import UserError
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.words import Lemmas
from mednli_jax.nli.augmentation.changes import Sentence, WordChanges
from mednli_jax.nli.augmentation.pairs import Augmentation, Withheld, augmentation_pairs
from mednli_jax.nli.config import corpus_of
from mednli_jax.nli.task import warnings_of

# In the made-up WordNet "body" and "illness" are kinds of "entity", and "heat" is the antonym of
# "cold". "body" is of a category whose kinds exclude each other.
WORDS = "body illness entity cold heat"
PLAIN = "He sees a body ."
NOTHING = Withheld()


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wordnet")
    lay_out(folder, WORDNET)
    return folder


@pytest.fixture(scope="module")
def linker(wordnet):
    return Lemmas(load_ontology(str(wordnet), None, OntologyOptions(relations="all")))


def training_pairs(*premises, labels=LABELS):
    """Pairs with these premises, and others in which all words of WORDS occur."""
    pairs = [pair(f"{WORDS} {n}", "x", labels[n % len(labels)], uid=f"w{n}") for n in range(9)]
    for number, premise in enumerate(premises):
        pairs.append(pair(premise, "x", labels[number % len(labels)], uid=premise))
    return pairs


def pairs_for(linker, *premises, withheld=NOTHING, share=1.0, seed=0):
    return augmentation_pairs(
        training_pairs(*premises), linker, Augmentation(share, seed), withheld
    )


def all_labels(linker, premise, withheld=NOTHING):
    """(premise, hypothesis) -> label, of the augmentation pairs of some seeds. Other premises give
    pairs of each label, because the labels are balanced."""
    phrases = ("the body", "the heat", "the entity", "no body", "no entity")
    premises = [f"{n} See {phrase} ." for n in range(6) for phrase in phrases]
    label_of = {}
    for seed in range(40):
        pairs = pairs_for(linker, premise, *premises, withheld=withheld, seed=seed)
        label_of |= {(e.premise, e.hypothesis): e.label for e in pairs.examples}
    return label_of


@pytest.mark.parametrize(
    "premise, hypothesis, label",
    table_rows("""
        He sees a body . | He sees an entity . | entailment
        He sees a body . | He sees an illness . | contradiction
        He sees an entity . | He sees a body . | neutral
        # with a negation of the corpus: a general word entails a special one
        He has no body . | He has no entity . | neutral
        He has no entity . | He has no body . | entailment
        He has no body . | He has no illness . | neutral
        # with "no" in place of the article
        He sees no entity . | He sees no body . | entailment
    """),
)
def test_a_replaced_word_gives_the_label_of_its_relation_reversed_under_a_negation(
    linker, premise, hypothesis, label
):
    assert all_labels(linker, premise)[premise, hypothesis] == label


def test_antonyms_give_no_pair_under_a_negation(linker):
    sides = all_labels(linker, "He feels no heat .")
    assert not [
        pair for pair in sides if "heat" in pair[0] and "no" in pair[0] and "cold" in pair[1]
    ]


def test_a_negation_follows_the_auxiliary_in_text_and_tokens(linker):
    premises = [f"{n} is near a {word} ." for n in range(30) for word in WORDS.split()]
    examples = pairs_for(linker, *premises).examples
    tokens_of = {}
    for example in examples:
        tokens_of[example.premise.partition(" ")[2]] = example.premise_tokens[1:]
    assert tokens_of["is near a body ."] == ("is", "near", "a", "body", ".")
    assert tokens_of["is not near a body ."] == ("is", "not", "near", "a", "body", ".")
    assert tokens_of["isn't near a body ."] == ("is", "n't", "near", "a", "body", ".")
    assert tokens_of["is near no body ."] == ("is", "near", "no", "body", ".")


@pytest.mark.parametrize("amount", ["a few", "a couple of", "a dozen"])
def test_an_article_of_an_amount_is_not_negated(linker, amount):
    changes = WordChanges(training_pairs(), linker)
    text = f"He sees {amount} men ."
    assert changes.negate(Sentence.of(text, text.split()), 0) is None


def test_the_balance_of_the_labels_is_that_of_training(linker):
    pairs = pairs_for(linker, PLAIN, "See the heat .", "See the entity .", share=0.3)
    counts = Counter(example.label for example in pairs.examples)
    assert len(set(counts.values())) == 1
    assert pairs.facts["labels"] == dict(counts)
    assert sum(pairs.facts["categories"].values()) == pairs.facts["pairs"]


def test_pairs_made_twice_with_one_seed_are_the_same(linker):
    assert pairs_for(linker, PLAIN) == pairs_for(linker, PLAIN)


def test_withheld_words_are_in_no_augmentation_pair_in_either_order(linker):
    words = frozenset((frozenset(("body", "entity")),))
    sides = all_labels(linker, PLAIN, withheld=Withheld(words))
    pairs = [set(premise.split()) ^ set(hypothesis.split()) for premise, hypothesis in sides]
    assert sides
    assert not any({"body", "entity"} <= changed for changed in pairs)


def test_a_withheld_operator_is_in_no_augmentation_pair(linker):
    premise = "He walks without a body ."
    assert premise in {premise for premise, _ in all_labels(linker, premise)}
    withheld = Withheld(operators=frozenset(("without",)))
    assert premise not in {premise for premise, _ in all_labels(linker, premise, withheld=withheld)}


def test_a_probe_withholds_its_words_and_the_operators_that_augmentation_lacks(tmp_path):
    rows = [
        {"word": "body", "partner": "entity"},
        {"word": "cold", "partner": "heat", "operator": "never"},
        {"word": "cold", "partner": "heat", "operator": "not"},
    ]
    path = tmp_path / "probe.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    withheld = Withheld.of_files([path])
    assert withheld.words == {frozenset(("body", "entity")), frozenset(("cold", "heat"))}
    assert withheld.operators == {"never"}


def test_a_file_that_is_no_probe_is_refused(tmp_path):
    path = tmp_path / "probe.jsonl"
    path.write_text('{"sentence1": "a"}')
    with pytest.raises(UserError, match=r"probe\.jsonl:1: has no word"):
        Withheld.of_files([path])


def test_a_corpus_of_two_classes_gets_no_augmentation_pairs(linker):
    train = training_pairs(PLAIN, labels=LABELS[:2])
    with pytest.raises(
        UserError, match=r"data\.augment: no training pair has the label contradiction"
    ):
        augmentation_pairs(train, linker, Augmentation(1.0), NOTHING)


# ---- in a corpus and in the loss ----


@pytest.fixture(scope="module")
def augmented(wordnet, tmp_path_factory):
    """augmented(**fields of data) -> the config of a small corpus with augmentation pairs."""
    folder = tmp_path_factory.mktemp("own")
    premises = [
        f"{n} See {name} ." for n in range(6) for name in ("the body", "the heat", "no body")
    ]
    train = [(e.premise, e.hypothesis, e.label) for e in training_pairs(*premises)]
    write_own(folder, train=train, dev=[("See the body .", "x", label) for label in LABELS])

    def config_with(**data):
        config = read_config("esim_kim:file")
        config.knowledge.ontology = str(wordnet)
        config.data.update({"dir": str(folder), "augment": 0.5, **data})
        return config

    return config_with


def test_augmentation_pairs_follow_those_of_the_corpus_in_train_alone(augmented):
    built = corpus_of(augmented()).build()
    plain = corpus_of(augmented(augment=0.0)).build()

    sizes = {name: len(split) for name, split in built.splits.items()}
    own = len(plain.splits["train"])
    assert sizes["dev"] == len(plain.splits["dev"])
    assert sizes["train"] > own
    added = built.facts["splits"]["train"]["augmentation"]["pairs"]
    assert sizes["train"] == own + added
    assert built.splits["train"].examples[:own] == plain.splits["train"].examples


def test_a_warning_says_that_no_pair_was_found(augmented):
    prepared, _ = corpus_of(augmented(augment=0.01)).prepare()

    (warning,) = (line for line in warnings_of(prepared) if "data.augment" in line)
    assert warning == "No augmentation pair was found: config.data.augment has no effect"


def test_a_run_is_scored_without_the_ontology_of_its_augmentation(augmented, wordnet, tmp_path):
    vectors = "".join(f"{word} {'0.5 ' * 8}\n" for word in (*WORDS.split(), "see", "the", "."))
    (tmp_path / "vectors.txt").write_text(vectors)
    shutil.copytree(wordnet, tmp_path / "words")
    fields = (
        f"--config.data.dir={augmented().data.dir}",
        "--config.data.augment=0.5",
        "--config.knowledge.ontology=words",
        "--config.vectors.path=vectors.txt",
    )
    with at(tmp_path):
        succeeds(train, config_flag("bow", "file"), *fields, *SMALL, "--workdir=run")
        shutil.rmtree(tmp_path / "words")

        figures = printed_json(evaluate, "--run=run", "--split=dev")

    assert figures["examples"] == 3


@pytest.mark.parametrize(
    "field, value", [("data.augment", -0.1), ("knowledge.mentions", "mentions.tsv")]
)
def test_a_negative_share_or_a_file_of_mentions_is_refused(augmented, field, value):
    config = augmented()
    config.update_from_flattened_dict({field: value})

    with pytest.raises(UserError, match=r"data\.augment"):
        check(config)


def test_another_ontology_than_wordnet_gives_no_augmentation(augmented):
    config = augmented()
    config.knowledge.ontology = "mesh"

    with pytest.raises(UserError, match=r"data\.augment: only WordNet gives augmentation pairs"):
        corpus_of(config).build()
