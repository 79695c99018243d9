"""New passages and queries are encoded as a corpus is and answered independently, from the files of a run alone."""

import jax
import numpy as np
import optax
import pytest
from made_up_cloze import corpus, own_part

from mednli_jax import defaults
from mednli_jax.cloze import task as cloze
from mednli_jax.cloze.clicr import marked_text
from mednli_jax.cloze.encoding import SETUPS, ClozeCorpus, ClozeEncoding, Texts, encode_cloze, types_of_train
from mednli_jax.data.arrays import NEW, Prepared
from mednli_jax.data.batching import Layout
from mednli_jax.data.examples import Split
from mednli_jax.data.text import SPECIALS
from mednli_jax.run import FinishedRun, experiment_of
from mednli_jax.training.devices import Devices
from mednli_jax.training.state import init_learner

DIM = 6


def prepared_corpus(setup, **how):
    """The made-up corpus of the encoder's tests: (its splits, prepared corpus, vocabulary)."""
    kept, arrays, vocab, vectors, facts = encode_cloze(corpus(), ClozeEncoding(setup, vectors_dim=DIM, **how))
    return kept, Prepared(None, facts, arrays, vectors, {}), vocab


@pytest.mark.parametrize("setup", SETUPS)
def test_a_corpuss_own_queries_are_encoded_as_in_the_corpus(setup):
    kept, prepared, vocab = prepared_corpus(setup)
    types = types_of_train(prepared)
    assert len(set(types)) == len(types) == prepared.manifest["candidates"]["types_of_train"]
    own = ClozeCorpus("file", ClozeEncoding(setup))
    new = own.encoded({NEW: Split(NEW, kept["test"].examples)}, vocab, prepared.vectors, types).arrays
    whole, facts = prepared.arrays, prepared.manifest["splits"]["test"]
    rows = slice(facts["first"], facts["first"] + facts["rows"])
    for name in ("query_length", "blank", "gold"):
        np.testing.assert_array_equal(new[name], whole[name][rows], name)
    np.testing.assert_array_equal(new["query"], whole["query"][rows, : new["query"].shape[1]])
    marks = ("position", "loose_position") if setup == "noent" else ("position",)
    for number in range(facts["passages"]):
        there = facts["first_passage"] + number
        assert own_part(new, "passage", number) == own_part(whole, "passage", there)
        for name in marks:
            for part in (name, f"{name}_candidate"):
                assert own_part(new, part, number, name) == own_part(whole, part, there, name)
        assert Texts(new).candidates(number) == Texts(whole).candidates(there)
        types_of = (own_part(new, "candidate_type", number), own_part(whole, "candidate_type", there))
        for found, expected in zip(
            *types_of, strict=True
        ):  # phrases that training has keep their numbers, others get numbers beyond
            assert found == expected or min(found, expected) >= len(types)


def test_ten_characters_of_a_word_are_read():
    """The length is that of the published code; special words have no characters."""
    table = cloze.spellings((*SPECIALS, "ct", "gastroenteritis"))
    assert table.shape == (4, 10)
    assert not table[: len(SPECIALS)].any()
    assert ["".join(map(chr, row[row > 0])) for row in table[2:]] == ["ct", "gastroente"]


def made_run(model, setup, **fields):
    """(an untrained run with everything that a trained one has, test examples); it is compiled for one device."""
    config = defaults.cloze(model, setup=setup)
    kept, prepared, vocab = prepared_corpus(setup, query_bounds=config.data.query_bounds)
    config.model.update(hidden_size=4, train_vectors=False, **fields)
    own = experiment_of(config)
    devices = Devices(jax.local_devices()[:1])
    frozen = own.task.frozen(vocab.words, prepared.vectors)
    program = own.bare_program(vocab.words, prepared.vectors, own.task.model_facts(prepared.manifest), devices)
    batch = own.task.to_batch(own.task.resident(prepared), np.array([[0]]), Layout.full(1, (64, 32), joint=False))
    params = init_learner(program.model, optax.sgd(1.0), (0, 1), batch, frozen).params
    run = object.__new__(FinishedRun)
    run.__dict__ |= {
        **{"experiment": own, "kind": own.kind, "task": own.task, "predictor": None},
        **{"config": config, "manifest": prepared.manifest},
        **{"vocabulary": vocab, "vectors": prepared.vectors, "_names": types_of_train(prepared), "_program": program},
        "variables": {"params": jax.tree.map(lambda leaf: 3 * np.asarray(leaf), params), "batch_stats": {}},
    }
    return run, kept["test"].examples


def strings(example):
    return marked_text(example.passage.tokens, example.passage.entities), " ".join(example.query)


@pytest.fixture(scope="module")
def reader():
    return made_run("ga_reader", "ent", hops=1, characters=2)


def test_answers_are_candidates_with_probabilities(reader):
    run, _ = reader
    passage = "w1 BEG__New Thing__END w2 BEG__w3__END w4 BEG__new thing__END xylo"
    found, bare = run.predict([(passage, "w1 unheard @placeholder ."), ("w1 w2", "@placeholder w3")])
    assert found["candidates"] == 2
    assert {best["answer"] for best in found["best"]} == {"new thing", "w3"}
    first, second = (best["probability"] for best in found["best"])
    assert first >= second > 0
    assert found["answer"] == found["best"][0]["answer"]
    assert bare == {"answer": "", "best": [], "candidates": 0}
    # Unknown are the tokens of two new phrases, perhaps that of w3, and xylo; in queries "unheard" and perhaps ".".
    assert run.vocabulary.encode(["@entitynew_thing", "xylo"]) == [1, 1]
    known = int("@entityw3" in run.vocabulary)
    assert run.unknown_words == {"passage": 4 - known, "query": 1 + ("." not in run.vocabulary)}


def test_where_a_reader_looks_is_what_it_answers_by(reader):
    """With pointer sum attention, a candidate's probability is the weight of its places, normalised over candidates."""
    run, examples = reader
    given = [strings(examples[0]), ("w1 w2", "@placeholder")]
    looked, said = run.attention(given), run.predict(given)
    seen = looked[0]
    np.testing.assert_allclose(seen["weights"].sum(axis=1), 1, atol=1e-5)
    mass_SC = np.array([[sum(w[s:e].sum() for s, e in spans) for spans in seen["spans"]] for w in seen["weights"]])
    mean_C = (mass_SC / mass_SC.sum(axis=1, keepdims=True)).mean(axis=0)
    expected = dict(zip(seen["candidates"], mean_C, strict=True))
    for best in said[0]["best"]:
        assert best["probability"] == pytest.approx(expected[best["answer"]], abs=1e-5)
    assert [seen["names"][seen["passage"][spans[0][0]]] for spans in seen["spans"]] == seen["candidates"]
    assert (looked[1]["candidates"], looked[1]["passage"]) == ([], ["w1", "w2"])


def test_a_phrase_that_training_never_showed_is_not_said_where_phrases_are_outputs():
    run, _ = made_run("sa_reader", "ent")
    known = run._names[0]
    given = [(f"BEG__quite new__END , BEG__{known}__END and BEG__newer__END", "@placeholder is there")]
    given.append(("BEG__quite new__END alone", "@placeholder is there"))
    found, alone = run.predict(given)
    assert (found["answer"], found["candidates"]) == (known, 3)
    assert found["best"][0]["probability"] == pytest.approx(1)
    assert (alone["answer"], alone["candidates"]) == ("", 1)
