"""The demo corpus resembles MedNLI, and what its description claims decides its labels.

test_prepared_content.py pins the rows by a hash.
"""

from collections import Counter, defaultdict

import numpy as np
import pytest

from mednli_jax.corpora.demo import nli as demo
from mednli_jax.corpora.demo.nli import load_demo
from mednli_jax.corpora.demo.words import Draw, share_word, table
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import permuted
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.text import treebank_tokens


@pytest.fixture(scope="module")
def linker():
    return Linker(read_mesh())


@pytest.fixture(scope="module")
def splits(linker):
    return load_demo("demo", linker=linker)


def all_examples(splits):
    return [example for split in splits.values() for example in split.examples]


def pairs_of(linker, example):
    """The concept pairs of an example, as sets of one or two ids."""
    sides = [
        {mention.concept for mention in linker.link(tokens)}
        for tokens in (example.premise_tokens, example.hypothesis_tokens)
    ]
    return {frozenset((one, other)) for one in sides[0] for other in sides[1]}


@pytest.fixture(scope="module")
def relations(linker, splits):
    """split -> [(example, its related pairs with their is-a steps)] of the relation groups.

    A pair is related if both concepts are equal or one is above the other.
    """
    found = {
        name: [(example, pairs_of(linker, example)) for example in split.examples if example.tags]
        for name, split in splits.items()
    }
    pairs = sorted({tuple(sorted(pair)) for rows in found.values() for _, row in rows for pair in row})
    index = np.array([[linker.ontology.index(pair[0]), linker.ontology.index(pair[-1])] for pair in pairs])
    lengths = shortest_paths(linker.ontology, index, direction="either").tolist()
    steps = {frozenset(pair): length for pair, length in zip(pairs, lengths, strict=True)}
    return {
        name: [(example, [(pair, steps[pair]) for pair in row if steps[pair] >= 0]) for example, row in rows]
        for name, rows in found.items()
    }


def test_draws_come_from_the_portable_stream_and_are_uniform():
    draw = Draw(7)
    assert [draw.below(1000) for _ in range(4)] == [323, 150, 650, 72]  # int(1000 * Random(7).random())
    counts = Counter(tuple(Draw(seed).shuffled("abc")) for seed in range(3000))
    assert len(counts) == 6
    assert min(counts.values()) > 400


def test_a_premise_has_a_hypothesis_of_each_label_and_stands_nowhere_else(splits):
    assert {name: len(split) for name, split in splits.items()} == {"train": 3000, "dev": 600, "test": 600}
    groups = defaultdict(list)
    for example in all_examples(splits):
        groups[example.premise.lower()].append(example)
        assert example.uid == f"{example.group}{example.label[0]}"
        assert example.premise_tokens == treebank_tokens(example.premise)
        assert example.hypothesis_tokens == treebank_tokens(example.hypothesis)
        assert not {"{", "}"} & set(example.premise + example.hypothesis), example.uid
    assert len({example.uid for example in all_examples(splits)}) == 4200
    for group in groups.values():
        assert [example.label for example in group] == list(LABELS)
        assert len({(example.premise, example.group) for example in group}) == 1
        assert len({example.hypothesis.lower().rstrip(".") for example in group}) == 3


def test_shape_is_near_mednli(splits):
    examples = all_examples(splits)
    premise = np.array([len(example.premise_tokens) for example in examples])
    hypothesis = np.array([len(example.hypothesis_tokens) for example in examples])
    assert 18 <= premise.mean() <= 24
    assert 100 < premise.max() <= 200
    assert 0.01 < (premise > 50).mean() < 0.06
    assert 5.3 <= hypothesis.mean() <= 6.4
    assert 12 < hypothesis.max() <= 22
    for name, split in splits.items():
        tags = Counter(example.tags for example in split.examples)
        expected = ("relation",) if name == "train" else ("unseen_relation",)
        assert set(tags) == {(), expected}
        assert 0.45 <= tags[expected] / len(split) <= 0.5


def test_exactly_one_path_joins_a_relation_pair(relations):
    for name, rows in relations.items():
        assert len(rows) == {"train": 1410, "dev": 282, "test": 282}[name]
        for example, related in rows:
            assert len(related) == 1, example.uid
            assert related[0][1] in (1, 2), example.uid


def test_related_names_share_no_word_and_stand_early(linker, relations):
    for example, ((concepts, _),) in (row for rows in relations.values() for row in rows):
        names, ends = [], []
        for tokens in (example.premise_tokens, example.hypothesis_tokens):
            found = [mention for mention in linker.link(tokens) if mention.concept in concepts]
            names.append(" ".join(tokens[found[0].start : found[0].end]))
            ends.append(found[0].end)
        assert not share_word(*names), example.uid
        assert ends[0] <= 45, example.uid


def test_relations_of_dev_and_test_are_new(linker, splits, relations):
    shown = {
        name: set().union(*(pairs_of(linker, example) for example in split.examples)) for name, split in splits.items()
    }
    new = {name: {concepts for _, ((concepts, _),) in rows} for name, rows in relations.items()}
    assert not new["dev"] & shown["train"]
    assert not new["test"] & (shown["train"] | shown["dev"])
    assert sum(map(len, new.values())) >= 1500
    for name in new:
        assert len(new[name]) == splits[name].facts["relation_pairs"]
    known = set().union(*new["train"])  # pairs are new, but training has most of their concepts
    for name in ("dev", "test"):
        assert np.mean([concept in known for _, ((pair, _),) in relations[name] for concept in pair]) > 0.6


def test_neither_distance_nor_polarity_nor_side_tells_the_label(linker, relations):
    """The distances, polarities and sides are equally frequent in each label, within 4 standard errors."""
    rows = [row for split in relations.values() for row in split]
    negative = {"no", "not", "never", "without", "absent", "free", "off", "negative"}
    shares = {label: [] for label in LABELS}
    for example, ((concepts, steps),) in rows:
        middle = next(m.concept for m in linker.link(example.hypothesis_tokens) if m.concept in concepts)
        (stated,) = concepts - {middle}
        below = middle in linker.ontology.ancestors(stated)
        denies = not negative.isdisjoint(token.lower() for token in example.hypothesis_tokens)
        shares[example.label].append((steps == 1, denies, below))
    means = np.array([np.mean(shares[label], axis=0) for label in LABELS])
    overall = means.mean(0)
    assert np.all(np.abs(overall - [0.66, 0.5, 0.5]) < 0.05)
    error = np.sqrt(overall * (1 - overall) / (len(rows) / 3))
    assert np.all(np.abs(means - overall) < 4 * error)


def test_a_relation_is_decided_by_status_and_polarity(linker):
    """The frames of the related statement and of the hypothesis, both found in the tables, decide each label."""
    draw, wrong = Draw(5), 0
    corpus = demo._Corpus(linker)
    expected = {
        ("affirmed", "+"): "entailment",
        ("affirmed", "-"): "contradiction",
        ("denied", "+"): "contradiction",
        ("denied", "-"): "entailment",
        ("other", "+"): "neutral",
        ("other", "-"): "neutral",
    }
    seen = Counter()
    for _ in range(200):
        statements = [corpus.relations.draw(draw, "train", *which) for which in demo.statement_plan(draw)]
        texts, hypotheses = demo.relation_texts(draw, statements)
        for one, text in zip(statements, texts, strict=True):
            if not one.label:
                continue
            status = frame_of(table("nli_words")["statements"][one.kind], text, x=one.name)
            frames = table("nli_words")["relation_hypotheses"][one.kind]
            polarity = frame_of(frames, hypotheses[one.label], m=one.middle_name)
            wrong += expected[status, polarity] != one.label
            seen[status, polarity] += 1
            above = corpus.relations.above
            wrong += status == "affirmed" and one.middle not in above(one.concept)
            wrong += status == "denied" and one.concept not in above(one.middle)
    assert wrong == 0
    assert set(seen) == set(expected)


def frame_of(table, text, **slots):
    """The key of the table whose frame gives the text when the names (and any years) fill it."""
    unslotted = text
    for slot, name in slots.items():
        unslotted = unslotted.replace(name, "{" + slot + "}")
    words = ["{year}" if word.startswith("[**") else word for word in unslotted.replace("[**", " [**").split()]
    (key,) = {
        key
        for key, frames in table.items()
        for frame in frames
        if frame.replace("[**{year}**]", "{year}").split() == words
    }
    return key


def test_drug_families_are_those_named(linker):
    ontology, families = linker.ontology, table("nli_words")["drug_families"]
    assert {concept: ontology.labels[ontology.index(concept)] for concept in families} == families


def test_wrong_use_is_refused(linker):
    with pytest.raises(UserError):
        load_demo("huge")
    with pytest.raises(ValueError, match="MeSH"):
        load_demo(linker=Linker(permuted(linker.ontology, 1)))
