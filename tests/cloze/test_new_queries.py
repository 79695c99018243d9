"""New passages and queries are encoded as a corpus is and answered independently, from the files of
a run alone."""

import numpy as np
import pytest
from support.cloze import corpus, own_part

from mednli_jax.cloze.encoding import (
    SETUPS,
    ClozeCorpus,
    ClozeEncoding,
    Texts,
    encode_cloze,
    types_of_train,
)
from mednli_jax.data.arrays import NEW, Prepared
from mednli_jax.data.examples import Split

DIM = 6


def prepared_corpus(setup, **how):
    """The made-up corpus of the encoder's tests: (its splits, prepared corpus, vocabulary)."""
    kept, arrays, vocab, vectors, facts = encode_cloze(
        corpus(), ClozeEncoding(setup, vectors_dim=DIM, **how)
    )
    return kept, Prepared(None, facts, arrays, vectors, {}), vocab


@pytest.mark.parametrize("setup", SETUPS)
def test_a_corpuss_own_queries_are_encoded_as_in_the_corpus(setup):
    kept, prepared, vocab = prepared_corpus(setup)
    types = types_of_train(prepared)
    assert len(set(types)) == len(types) == prepared.manifest["candidates"]["types_of_train"]
    own = ClozeCorpus("file", ClozeEncoding(setup))
    new = own.encoded(
        {NEW: Split(NEW, kept["test"].examples)}, vocab, prepared.vectors, types
    ).arrays
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
        types_of = (
            own_part(new, "candidate_type", number),
            own_part(whole, "candidate_type", there),
        )
        for found, expected in zip(
            *types_of, strict=True
        ):  # phrases that training has keep their numbers, others get numbers beyond
            assert found == expected or min(found, expected) >= len(types)
