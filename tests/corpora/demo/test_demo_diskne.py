"""The demo benchmark: bundled facts decide its labels, and nothing else gives them away.

test_prepared_content.py pins the examples by a hash.
"""

from collections import Counter

import pytest

from mednli_jax.corpora.demo import diskne as demo
from mednli_jax.corpora.demo.words import share_word
from mednli_jax.corpora.diskne.benchmark import CATEGORIES
from mednli_jax.corpora.diskne.builder import Kinship
from mednli_jax.corpora.diskne.folds import folds
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.readers.mesh import read_mesh


@pytest.fixture(scope="module")
def mesh():
    return read_mesh()


@pytest.fixture(scope="module")
def benchmark(mesh):
    return demo.load_demo_diskne(ontology=mesh)


@pytest.fixture(scope="module")
def table():
    return {row["mesh"]: row for row in demo.diseases()}


def stated(premise, table, category):
    """The facts of the table that a premise states, the longest first; each word counts for one fact."""
    facts = sorted({fact for row in table.values() for fact in row[category]}, key=len, reverse=True)
    found, text = [], premise.lower()
    for fact in facts:
        if fact in text:
            found.append(fact)
            text = text.replace(fact, "|")
    return tuple(found)


def test_it_has_twenty_two_diseases_and_all_categories(benchmark):
    assert (len(benchmark), len(benchmark.names)) == (2420, 22)
    assert set(benchmark.facts["positives"].values()) == {44}
    assert set(benchmark.facts["negatives"].values()) == {440}
    assert Counter(e.category for e in benchmark.examples if e.is_positive) == dict.fromkeys(CATEGORIES, 44)


@pytest.mark.parametrize("negatives", ["similar", "random"])
def test_every_label_follows_from_the_facts_of_the_premise(mesh, table, negatives):
    for example in demo.load_demo_diskne(negatives=negatives, seed=7, ontology=mesh).examples:
        facts = stated(example.pair.premise, table, example.category)
        assert facts, example.uid
        shown = [mesh for mesh, row in table.items() if demo.entails(facts, row, example.category)]
        assert shown == [example.target], example.uid
        assert example.is_positive == (example.disease in shown)


def test_a_hypothesis_alone_tells_nothing(benchmark):
    counts = Counter((e.pair.hypothesis, e.category, e.is_positive) for e in benchmark.examples)
    for hypothesis in benchmark.names.values():
        for category in CATEGORIES:
            assert counts[hypothesis, category, True] == demo.PREMISES
            assert counts[hypothesis, category, False] == 10 * demo.PREMISES


def test_a_premise_alone_tells_nothing_and_no_fact_shares_a_word_with_the_disease(benchmark, table):
    of_premise = Counter((e.pair.premise, e.is_positive) for e in benchmark.examples)
    assert {count for (_, positive), count in of_premise.items() if positive} == {1}
    assert {count for (_, positive), count in of_premise.items() if not positive} == {10}
    for example in benchmark.examples:
        if example.category != "terminological":
            facts = stated(example.pair.premise, table, example.category)
            assert not any(share_word(fact, benchmark.names[example.target]) for fact in facts)


def test_negatives_are_neighbours_and_never_kin(benchmark, table, mesh):
    kinship = Kinship(mesh)
    for example in benchmark.examples:
        if not example.is_positive:
            assert table[example.disease]["cluster"] == table[example.target]["cluster"]
            assert not kinship.related(example.disease, example.target)


def test_every_disease_has_a_fold_in_both_groups_that_never_names_it(benchmark):
    made = folds(benchmark)
    assert Counter(fold.group for fold in made) == {"medical": 22, "terminological": 22}
    for fold in made:
        assert len(fold.test) == 11 * demo.PREMISES * len(fold.categories)
        trained = [benchmark.examples[row] for row in (*fold.train, *fold.dev)]
        name = f" {benchmark.names[fold.disease]} "
        assert not any(fold.disease in (e.disease, e.target) for e in trained)
        assert not any(name in f" {e.pair.premise.lower()} " for e in trained)
        # Most of the group stays for training, so no synonym of a disease removes half of the corpus.
        assert len(trained) > 0.8 * len(benchmark) * len(fold.categories) / len(CATEGORIES)


def test_random_negatives_depend_on_the_seed(mesh):
    one, other = (demo.load_demo_diskne(ontology=mesh, negatives="random", seed=seed).examples for seed in (1, 2))
    assert one != other


def test_whole_sentences_name_the_disease_and_unknown_words_are_refused(mesh):
    whole = demo.load_demo_diskne(ontology=mesh, wording="full")
    assert all(whole.names[example.disease] in example.pair.hypothesis for example in whole.examples)
    assert all(len(example.pair.hypothesis_tokens) > 2 for example in whole.examples)
    for options in ({"wording": "short"}, {"negatives": "near"}):
        with pytest.raises(ConfigError):
            demo.load_demo_diskne(ontology=mesh, **options)
