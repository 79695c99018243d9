"""Anonymous phrases get other numbers in each epoch of training, against values by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_up_cloze import cloze, passage

from mednli_jax.cloze.encoding import ClozeEncoding, encode_cloze
from mednli_jax.cloze.task import ClozeTask
from mednli_jax.data.arrays import Prepared
from mednli_jax.data.batching import Layout
from mednli_jax.data.examples import Split
from mednli_jax.data.text import SPECIALS
from mednli_jax.training.step import row_keys

TEXTS = "[fever] and [back pain] , [fever] again , no [rash] or [gout]", "no [cough] but [gout]"
# The first query names a phrase of its passage and a phrase that occurs nowhere in it.
QUERIES = (("[rash] or [flu] meant _", "back pain"), ("_ went", "fever")), (("a _", "gout"),)
TASK = ClozeTask(renumber=True)
LAYOUT = Layout.full(2, (16, 8), joint=False)
INDEX = np.array([[0, 1], [2, -1]])  # both queries of the first passage, and one of the second


def examples(name):
    return tuple(
        cloze(f"{about.uid}.{number}", about, *query)
        for unit, text in enumerate(TEXTS)
        for about in [passage(text, f"{name}{unit}")]
        for number, query in enumerate(QUERIES[unit])
    )


def made(**settings):
    """(prepared corpus, vocabulary)."""
    splits = {name: Split(name, examples(name), {"file": f"{name}1.0.json"}) for name in ("train", "dev", "test")}
    _, arrays, vocab, vectors, facts = encode_cloze(splits, ClozeEncoding("anonym", vectors_dim=6, **settings))
    return Prepared(None, facts, arrays, vectors, splits), vocab


def resident(prepared):
    return jax.tree.map(jnp.asarray, TASK.resident(prepared))


@pytest.fixture(scope="module")
def corpus():
    prepared, vocab = made()
    return resident(prepared), vocab


def batch_of(data, seed=0, step=0, index=INDEX):
    batch = TASK.to_batch(data, index, LAYOUT)
    return {**batch, "row_key": row_keys(seed, step, index.reshape(-1))}


def words_of(batch, vocab):
    return [[vocab.words[row] for row in rows] for rows in np.asarray(batch["passage"])[:, :14].tolist()]


@pytest.mark.parametrize("step", range(3))
def test_a_passage_and_its_queries_change_together(corpus, step):
    data, vocab = corpus
    plain = batch_of(data, step=step)
    varied = TASK.vary(data, plain)
    name = vocab.words.index
    for unit, text in enumerate(("0 and 1 , 0 again , no 2 or 3", "no 0 but 1")):
        for batch in (plain, varied):
            types = np.asarray(batch["candidate_type"][unit])
            # The type of a candidate is the number in its token, also after renumbering.
            expected = [name(f"@entity{types[int(w)]}") if w.isdigit() else name(w) for w in text.split()]
            assert np.asarray(batch["passage"][unit])[: len(expected)].tolist() == expected
        types = np.asarray(varied["candidate_type"][unit])[: 4 - 2 * unit]
        assert len(set(types)) == len(types)
        assert set(types) <= set(range(4))
    # The query's first phrase is the third of the passage. The other phrase is not a candidate and keeps its number.
    rash = name(f"@entity{varied['candidate_type'][0, 2]}")
    assert np.asarray(varied["query"][0])[:3].tolist() == [rash, name("or"), name("@entity4")]
    for field in plain.keys() - {"passage", "query", "candidate_type", "row_key"}:
        np.testing.assert_array_equal(plain[field], varied[field])


def test_seed_step_and_row_decide(corpus):
    data, vocab = corpus
    first = words_of(TASK.vary(data, batch_of(data)), vocab)
    assert words_of(TASK.vary(data, batch_of(data)), vocab) == first
    turned = TASK.vary(data, batch_of(data, index=INDEX[::-1]))
    assert words_of(turned, vocab) == first[::-1]  # the place in the batch does not matter
    others = [words_of(TASK.vary(data, batch_of(data, seed, step)), vocab) for seed in (0, 1) for step in range(6)]
    assert len({str(words[0]) for words in others}) > 6  # 24 permutations are possible


def test_numbers_that_the_vocabulary_lacks_stay():
    _, vocab = made()
    cut, small = made(max_words=vocab.words.index("@entity3") - len(SPECIALS))
    data = resident(cut)
    assert [small.words[row] for row in data["entity_word"]] == ["@entity0", "@entity1", "@entity2"]
    for step in range(3):
        types = np.asarray(TASK.vary(data, batch_of(data, step=step))["candidate_type"][0])[:4]
        assert types[3] == 3
        assert set(types[:3]) == {0, 1, 2}


def test_without_the_option_nothing_changes():
    prepared, _ = made()
    task = ClozeTask()
    data = task.resident(prepared)
    assert "entity_word" not in data
    batch = task.to_batch(data, INDEX, LAYOUT)
    assert task.vary(data, batch) is batch
    # New inputs have no manifest. They are answered like dev and test, with numbers by first occurrence.
    new = Prepared(None, {}, prepared.arrays, prepared.vectors, {})
    assert TASK.resident(new).keys() == data.keys()
