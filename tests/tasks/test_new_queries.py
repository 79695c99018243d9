"""New passages and queries are encoded as a corpus is and answered independently, from the files of a run alone."""

from types import SimpleNamespace

import jax
import numpy as np
import optax
import pytest
from made_up_cloze import corpus

from mednli_jax import defaults, experiment
from mednli_jax.corpora.arrays import Prepared
from mednli_jax.corpora.batching import Layout
from mednli_jax.corpora.cloze.encoding import ClozeEncoding, Texts, encode_cloze, encode_new, types_of_train
from mednli_jax.corpora.cloze.files import marked_text
from mednli_jax.corpora.cloze.views import SETUPS, all_views
from mednli_jax.errors import RunError
from mednli_jax.runs import RunDirectory, read_types, write_types
from mednli_jax.tasks import cloze, new_inputs
from mednli_jax.tasks.cloze import NewQueries, examples_of
from mednli_jax.text import SPECIALS
from mednli_jax.training.devices import Devices
from mednli_jax.training.state import init_learner

DIM = 6


def prepared_corpus(setup, **how):
    """The made-up corpus of the encoder's tests: (its splits, prepared corpus, vocabulary)."""
    kept, arrays, vocab, vectors, facts = encode_cloze(corpus(), ClozeEncoding(setup, vectors_dim=DIM, **how))
    return kept, Prepared(None, facts, arrays, vectors, {}), vocab


def piece(arrays, name, number, start=None):
    first, last = arrays[f"{start or name}_start"][number : number + 2]
    return arrays[name][first:last].tolist()


@pytest.mark.parametrize("setup", SETUPS)
def test_a_corpuss_own_queries_are_encoded_as_in_the_corpus(setup):
    kept, prepared, vocab = prepared_corpus(setup)
    types = types_of_train(prepared)
    assert len(set(types)) == len(types) == prepared.manifest["candidates"]["types_of_train"]
    new, _ = encode_new(kept["test"].examples, vocab, ClozeEncoding(setup), types)
    whole, facts = prepared.arrays, prepared.manifest["splits"]["test"]
    for row in range(facts["rows"]):
        there = facts["first"] + row
        for name in ("query_length", "blank", "gold"):
            assert new[name][row] == whole[name][there], name
        width = new["query"].shape[1]
        assert new["query"][row].tolist() == whole["query"][there, :width].tolist()
    marks = ("position", "loose_position") if setup == "noent" else ("position",)
    for number in range(facts["passages"]):
        there = facts["first_passage"] + number
        assert piece(new, "passage", number) == piece(whole, "passage", there)
        for name in marks:
            assert piece(new, name, number) == piece(whole, name, there)
            assert piece(new, f"{name}_candidate", number, name) == piece(whole, f"{name}_candidate", there, name)
        assert Texts(new).candidates(number) == Texts(whole).candidates(there)
        pairs = zip(piece(new, "candidate_type", number), piece(whole, "candidate_type", there), strict=True)
        for found, expected in pairs:  # phrases that training has keep their numbers, others get numbers beyond
            assert found == expected or min(found, expected) >= len(types)


def test_ten_characters_of_a_word_are_read():
    """The length is that of the published code; special words have no characters."""
    table = cloze.spellings((*SPECIALS, "ct", "gastroenteritis"))
    assert table.shape == (4, 10)
    assert not table[:2].any()
    assert ["".join(map(chr, row[row > 0])) for row in table[2:]] == ["ct", "gastroente"]


@pytest.mark.parametrize("setup", SETUPS)
def test_types_are_what_the_views_call_them(setup):
    kept, prepared, _ = prepared_corpus(setup)
    types = types_of_train(prepared)
    shown = set()
    for _, passage, _ in all_views(kept["train"].examples, setup):
        shown.update(passage.names[phrase] if setup == "anonym" else phrase for phrase in passage.candidates)
    assert set(types) == shown


def test_types_are_kept_with_the_run_and_damage_is_noticed(tmp_path):
    _, prepared, _ = prepared_corpus("ent")
    directory = RunDirectory.create(tmp_path / "run", {"model": {"name": "sa_reader"}})
    write_types(directory, types_of_train(prepared))
    assert read_types(directory) == types_of_train(prepared)
    path = directory.private / "types.json"
    assert path.stat().st_mode & 0o077 == 0
    path.write_text(path.read_text().replace("w1", "w2", 1))
    with pytest.raises(RunError, match=r".*types\.json: differs"):
        read_types(directory)
    path.unlink()
    with pytest.raises(RunError):
        read_types(directory)


def test_equal_passages_are_one_and_a_query_has_one_blank():
    first, second, other = examples_of(
        [("a BEG__b__END", "@placeholder"), ("a BEG__b__END", "x @placeholder"), ("c", "@placeholder")]
    )
    assert first.passage is second.passage is not other.passage
    assert (second.blank, second.query) == (1, ("x", "@placeholder"))
    assert other.passage.entities == ()
    for query in ("no blank", "@placeholder @placeholder"):
        with pytest.raises(ValueError, match="query 0"):
            examples_of([("a", query)])


# ---- with the random weights of two seeds ----


def made_run(model, setup, **fields):
    """An untrained run with everything that a trained one has."""
    config = defaults.cloze(model, setup=setup)
    kept, prepared, vocab = prepared_corpus(setup, query_bounds=config.data.query_bounds)
    config.model.update(hidden_size=4, train_vectors=False, **fields)
    own = experiment.of(config)
    task, facts = own.task, own.task.model_facts(prepared.manifest)
    devices = Devices(jax.local_devices()[:1])
    frozen = task.frozen(vocab.words, prepared.vectors)
    bodies = own.bare_program(devices.replicate(frozen), facts, devices)
    data = task.resident(prepared)
    layout = Layout.full(1, (64, 32), joint=False)
    batch = task.to_batch(data, np.array([[0]]), layout)
    learner = init_learner(bodies.model, optax.sgd(1.0), (0, 1), batch, frozen)
    variables = {"params": jax.tree.map(lambda leaf: 3 * np.asarray(leaf), learner.params), "batch_stats": {}}
    return SimpleNamespace(
        task=task, experiment=own, vocabulary=vocab, vectors=prepared.vectors, variables=variables, model_facts=facts,
        directory=SimpleNamespace(folder=None), types=types_of_train(prepared), test=kept["test"].examples,
    )  # fmt: skip


@pytest.fixture
def one_device(monkeypatch):
    """Compiles programs for one device, which takes a fraction of the time, and records each compilation."""
    calls = []
    mapped = Devices.map
    monkeypatch.setattr(new_inputs, "Devices", lambda: Devices(jax.local_devices()[:1]))
    monkeypatch.setattr(Devices, "map", lambda *given, **how: calls.append(1) or mapped(*given, **how))
    return calls


def strings(example):
    return marked_text(example.passage.tokens, example.passage.entities), " ".join(example.query)


@pytest.fixture(scope="module")
def reader():
    return made_run("ga_reader", "ent", hops=1, characters=2)


def same(found, expected):
    assert (found["answer"], found["candidates"]) == (expected["answer"], expected["candidates"])
    assert [best["answer"] for best in found["best"]] == [best["answer"] for best in expected["best"]]
    probabilities = [[best["probability"] for best in of["best"]] for of in (found, expected)]
    np.testing.assert_allclose(*probabilities, atol=2e-6)


def test_an_answer_depends_neither_on_company_nor_on_order(reader, one_device, monkeypatch):
    predictor, given = NewQueries(reader), [strings(example) for example in reader.test]
    long = (" ".join(["w1 BEG__w2 w3__END w4"] * 40), "w5 @placeholder")
    together = predictor.predict([*given, long])
    backwards = predictor.predict([long, *given[::-1]])[::-1]
    for found, expected in zip(backwards, together, strict=True):
        same(found, expected)
    made = len(one_device)
    for pair, expected in zip(given[:3], together[:3], strict=True):
        same(predictor.predict([pair])[0], expected)
    shapes = len(one_device)
    predictor.predict([given[4]])
    # short passages alone need one more shape; after that no new one is compiled
    assert len(one_device) == shapes <= made + 1
    monkeypatch.setattr(NewQueries, "many", 2)  # queries of one passage then run together, in programs of their own
    for found, expected in zip(predictor.predict([*given, long]), together, strict=True):
        same(found, expected)
    assert predictor.predict([]) == []
    assert predictor.unknown_words == {"passage": 0, "query": 0}


def test_answers_are_candidates_with_probabilities(reader, one_device):
    predictor = NewQueries(reader)
    passage = "w1 BEG__New Thing__END w2 BEG__w3__END w4 BEG__new thing__END xylo"
    found, bare = predictor.predict([(passage, "w1 unheard @placeholder ."), ("w1 w2", "@placeholder w3")])
    assert found["candidates"] == 2
    assert {best["answer"] for best in found["best"]} == {"new thing", "w3"}
    first, second = (best["probability"] for best in found["best"])
    assert first >= second > 0
    assert first + second == pytest.approx(1, abs=2e-6)
    assert found["answer"] == found["best"][0]["answer"]
    assert bare == {"answer": "", "best": [], "candidates": 0}
    # Unknown are the tokens of two new phrases, perhaps that of w3, and xylo; in queries "unheard" and perhaps ".".
    assert reader.vocabulary.encode(["@entitynew_thing", "xylo"]) == [1, 1]
    known = int("@entityw3" in reader.vocabulary)
    assert predictor.unknown_words == {"passage": 4 - known, "query": 1 + ("." not in reader.vocabulary)}


def test_where_a_reader_looks_is_what_it_answers_by(reader, one_device):
    """With pointer sum attention, a candidate's probability is the weight of its places, normalised over candidates."""
    predictor, given = NewQueries(reader), [strings(reader.test[0]), ("w1 w2", "@placeholder")]
    looked, said = predictor.attention(given), predictor.predict(given)
    seen = looked[0]
    assert np.array(seen["weights"]).shape == (2, len(seen["passage"]))
    np.testing.assert_allclose(seen["weights"].sum(axis=1), 1, atol=1e-5)
    mass_SC = np.array([[sum(w[s:e].sum() for s, e in spans) for spans in seen["spans"]] for w in seen["weights"]])
    mean_C = (mass_SC / mass_SC.sum(axis=1, keepdims=True)).mean(axis=0)
    expected = dict(zip(seen["candidates"], mean_C, strict=True))
    for best in said[0]["best"]:
        assert best["probability"] == pytest.approx(expected[best["answer"]], abs=1e-5)
    assert [seen["names"][seen["passage"][spans[0][0]]] for spans in seen["spans"]] == seen["candidates"]
    assert (looked[1]["candidates"], looked[1]["passage"]) == ([], ["w1", "w2"])
    assert predictor.attention([]) == []


def test_a_phrase_that_training_never_showed_is_not_said_where_phrases_are_outputs(one_device, monkeypatch):
    run = made_run("sa_reader", "ent")
    monkeypatch.setattr(cloze, "read_types", lambda directory: run.types)
    known = run.types[0]
    given = [(f"BEG__quite new__END , BEG__{known}__END and BEG__newer__END", "@placeholder is there")]
    given.append(("BEG__quite new__END alone", "@placeholder is there"))
    found, alone = NewQueries(run).predict(given)
    assert (found["answer"], found["candidates"]) == (known, 3)
    assert found["best"][0]["probability"] == pytest.approx(1)
    assert (alone["answer"], alone["candidates"]) == ("", 1)
