"""Anonymous phrases get other numbers in each epoch of training: values by hand, and bit-identical resumption."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mednli_jax import checks as validation
from mednli_jax import defaults, experiment
from mednli_jax.cloze.clicr import parse_marked
from mednli_jax.cloze.encoding import ClozeEncoding, encode_cloze
from mednli_jax.cloze.task import ClozeTask
from mednli_jax.data.arrays import Prepared
from mednli_jax.data.batching import Layout
from mednli_jax.data.examples import Answer, ClozeExample, Passage, Split
from mednli_jax.data.text import SPECIALS
from mednli_jax.errors import ConfigError
from mednli_jax.training import optim
from mednli_jax.training.devices import Devices
from mednli_jax.training.state import init_learner
from mednli_jax.training.step import row_keys

TEXTS = (
    "BEG__fever__END and BEG__back pain__END , BEG__fever__END again , no BEG__rash__END or BEG__gout__END",
    "no BEG__cough__END but BEG__gout__END",
)
# The first query names a phrase of its passage and a phrase that occurs nowhere in it.
QUERIES = (("BEG__rash__END or BEG__flu__END meant @placeholder", "back pain"), ("@placeholder went", "fever"))
TASK = ClozeTask(renumber=True)
LAYOUT = Layout.full(2, (16, 8), joint=False)
INDEX = np.array([[0, 1], [2, -1]])  # both queries of the first passage, and one of the second


def examples(name):
    found = []
    for number, (text, queries) in enumerate(zip(TEXTS, (QUERIES, (("a @placeholder", "gout"),)), strict=True)):
        marked = parse_marked(text)
        passage = Passage(f"{name}{number}", (), marked.tokens, marked.entities, marked.sentences)
        for place, (query, answer) in enumerate(queries):
            asked = parse_marked(query)
            uid = f"{name}{number}.{place}"
            found.append(ClozeExample(uid, passage, asked.tokens, asked.entities, asked.blanks[0], (Answer(answer),)))
    return tuple(found)


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


def test_the_numbers_that_training_knows(corpus):
    data, vocab = corpus
    assert [vocab.words[row] for row in data["entity_word"]] == [f"@entity{n}" for n in range(4)]
    named = {vocab.words[row]: number for row, number in enumerate(data["entity_number"]) if number >= 0}
    assert named == {f"@entity{n}": n for n in range(4)}
    # it occurs in a query only, so no candidate has it
    assert data["entity_number"][vocab.words.index("@entity4")] == -1


@pytest.mark.parametrize("step", range(5))
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


def test_all_numbers_are_as_likely(corpus):
    data, _ = corpus
    types = jax.lax.map(lambda step: TASK.vary(data, batch_of(data, step=step))["candidate_type"][0], jnp.arange(200))
    for candidate in range(4):
        counts = np.bincount(types[:, candidate], minlength=4)
        assert (abs(counts - 50) < 4.5 * np.sqrt(200 * 3 / 16)).all()


def test_numbers_that_the_vocabulary_lacks_stay():
    _, vocab = made()
    cut, small = made(max_words=vocab.words.index("@entity3") - len(SPECIALS))
    data = resident(cut)
    assert [small.words[row] for row in data["entity_word"]] == ["@entity0", "@entity1", "@entity2"]
    for step in range(5):
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


def test_the_option_is_for_anonymous_phrases():
    config = defaults.cloze("ga_reader", setup="anonym")
    assert not experiment.of(config).task.renumber
    config.data.renumber = True
    assert experiment.of(config).task.renumber
    config.data.setup = "ent"
    with pytest.raises(ConfigError):
        validation.check(config)


# ---- trained ----


def program(model, devices=1):
    prepared, vocab = made()
    config = defaults.cloze(model, setup="anonym")
    config.data.renumber = True
    config.model.update(hidden_size=3, train_vectors=True, dropout=0.3)
    own = experiment.of(config)
    devices = Devices(jax.local_devices()[:devices])
    frozen = devices.replicate(own.task.frozen(vocab.words, prepared.vectors))
    bodies = own.bare_program(frozen, own.task.model_facts(prepared.manifest), devices)
    bodies.data = devices.replicate(own.task.resident(prepared))
    bodies.optimizer = optim.build_optimizer(learning_rate=0.1)
    first = own.task.to_batch(own.task.resident(prepared), np.array([[0]]), Layout.full(1, (16, 8), joint=False))
    drawn = own.bare_program(None, own.task.model_facts(prepared.manifest), Devices(jax.local_devices()[:1])).model
    learner = init_learner(drawn, bodies.optimizer, (0, 1), first, own.task.frozen(vocab.words, prepared.vectors))
    return bodies, jax.tree.map(np.asarray, learner)


def trained(bodies, learner, steps):
    """(the learner as a checkpoint stores it, the loss of each step)."""
    losses, learner = [], bodies.devices.replicate(learner)
    index = np.array([[[0], [1], [2], [-1]]] * 2, np.int32)
    layout = Layout.full(4 // bodies.devices.count, (16, 8), joint=False)
    for _ in range(steps):
        learner, sums = bodies.train(layout, learner, index)
        losses.append(np.asarray(sums["loss"]))
    return jax.tree.map(np.array, learner), np.array(losses)


@pytest.mark.parametrize("model", ["sa_reader", pytest.param("ga_reader", marks=pytest.mark.slow)])
def test_a_resumed_training_is_bit_identical(model):
    bodies, learner = program(model)
    whole, losses = trained(bodies, learner, 4)
    half, first = trained(bodies, learner, 2)
    again, second = trained(bodies, half, 2)
    np.testing.assert_array_equal(np.concatenate([first, second]), losses)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
    if model == "sa_reader":
        _, on_two = trained(*program(model, devices=2), 2)
        np.testing.assert_allclose(losses[:2], on_two, rtol=1e-4)
