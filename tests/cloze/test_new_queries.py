"""New passages and queries are encoded as those of a corpus, from the files of a run alone."""

import numpy as np
import pytest
from support.cloze import corpus, own_slice

from mednli_jax.cloze.arrays import ClozeEncoding, ClozeTexts, encode_cloze, training_phrases
from mednli_jax.cloze.corpus import ClozeCorpus
from mednli_jax.cloze.setups import SETUPS
from mednli_jax.data.arrays import NEW, Prepared
from mednli_jax.data.examples import Split


@pytest.mark.parametrize("setup", SETUPS)
def test_the_queries_of_a_corpus_are_encoded_as_in_the_corpus(setup):
    encoding = ClozeEncoding(setup, vectors_dim=6, query_bounds=setup == "ent")
    splits, whole, vocab, vectors, facts = encode_cloze(corpus(), encoding)
    types = training_phrases(Prepared(None, facts, whole, vectors, {}))
    new_split = {NEW: Split(NEW, splits["test"].examples)}

    new = ClozeCorpus("file", encoding).encode(new_split, vocab, vectors, types).arrays

    test = facts["splits"]["test"]
    rows = slice(test["first"], test["first"] + test["rows"])
    width = new["query"].shape[1]
    np.testing.assert_array_equal(new["query"], whole["query"][rows, :width])
    for name in ("query_length", "blank", "gold"):
        np.testing.assert_array_equal(new[name], whole[name][rows], name)
    assert len(set(types)) == len(types) == facts["candidates"]["types_of_train"]
    for number in range(test["passages"]):
        in_whole = test["first_passage"] + number
        assert own_slice(new, "passage", number) == own_slice(whole, "passage", in_whole)
        assert ClozeTexts(new).candidates(number) == ClozeTexts(whole).candidates(in_whole)
        assert own_slice(new, "position", number) == own_slice(whole, "position", in_whole)
        # Phrases that training has keep their numbers, others get numbers beyond.
        new_types = np.array(own_slice(new, "candidate_type", number))
        whole_types = np.array(own_slice(whole, "candidate_type", in_whole))
        differs = new_types != whole_types
        assert (np.minimum(new_types, whole_types)[differs] >= len(types)).all()
