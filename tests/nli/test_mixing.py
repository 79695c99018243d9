"""Samples of training pairs and mixtures of two corpora: premises stay whole, domains and links stay right."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from made_up_commands import prepare
from made_up_pairs import CONDITIONS, links_of, snli_rows, write_rows

from mednli_jax import defaults
from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import NLIExample, Split
from mednli_jax.data.text import Vocab
from mednli_jax.errors import UserError
from mednli_jax.knowledge.readers import mesh
from mednli_jax.nli.corpus import sampled

SIZES = {"train": 22, "dev": 7, "test": 5}  # the last premise of each split has fewer than three hypotheses
SOURCE = {"train": 64, "dev": 5, "test": 4}
# each concept is below the one before
ONTOLOGY = "".join(f"D{n}\t{name}\tC01{'.100' * n}\t\n" for n, name in enumerate(CONDITIONS))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder with a small MedNLI, a larger SNLI, and a table of four concepts."""
    folder = tmp_path_factory.mktemp("data")
    for corpus, file, sizes in (("mednli", "mli_{}_v1.jsonl", SIZES), ("snli", "snli_1.0_{}.jsonl", SOURCE)):
        for split, size in sizes.items():
            write_rows(folder / corpus / file.format(split), snli_rows(corpus, split, size))
    (folder / "own.tsv").write_text("\t".join(mesh.HEADER) + "\n" + ONTOLOGY)
    return folder


def config_of(data, corpus="mednli", model="esim", **fields):
    config = defaults.nli(model, corpus, knowledge="none" if model == "bow" else "replace")
    config.vectors.update(path="", dim=4)
    config.knowledge.ontology = str(data / "own.tsv")
    config.data.update(dir=str(data), **fields)
    return config


class Read:
    """A prepared corpus; of_uid: the words, label, domain and links of each row."""

    def __init__(self, prepared):
        self.prepared, self.of_uid = prepared, {}
        words = Vocab.load(prepared.folder / "vocabulary.json").words
        arrays = {name: np.asarray(array) for name, array in prepared.arrays.items()}
        for split in prepared.splits.values():
            for row, uid in enumerate(split.uids, start=split.first):
                sides = [[words[n] for n in arrays[side][row] if n] for side in SIDES]
                self.of_uid[uid] = *sides, int(arrays["label"][row]), links_of(arrays, row)

    def uids(self, split):
        return self.prepared.splits[split].uids


def split_of(sizes, name="s"):
    """A split whose premises have these numbers of hypotheses."""
    examples = [
        NLIExample(f"{name}{p}-{h}", f"premise {p}", "h", "neutral", ("premise", str(p)), ("h",), group=f"g{p}")
        for p, size in enumerate(sizes)
        for h in range(size)
    ]
    return Split("train", tuple(examples), {"rows": len(examples)})


GROUPS = np.random.default_rng(0).integers(1, 6, 40).tolist()


@pytest.mark.parametrize("size", [1, 7, 30, 1000])
def test_a_sample_has_whole_premises_and_just_enough_pairs(size):
    split = split_of(GROUPS)
    sample = sampled(split, size)
    whole, taken = (Counter(example.group for example in part.examples) for part in (split, sample))
    assert all(whole[group] == count for group, count in taken.items())
    assert len(sample) == len(split) if size > len(split) else size <= len(sample) < size + max(GROUPS)
    places = [split.examples.index(example) for example in sample.examples]
    assert places == sorted(places)
    assert sample.facts == {"rows": len(split), "sampled": size, "sampled_from": len(split)}


def test_a_sample_depends_on_the_premises_alone():
    """Neither on the order of the file, nor on names of groups; a smaller sample is part of a larger one."""
    split, size = split_of(GROUPS), 20
    sample = {e.uid for e in sampled(split, size).examples}
    for small, large in pairwise([set(sampled(split, count).examples) for count in range(1, 100, 7)]):
        assert small < large
    order = np.random.default_rng(1).permutation(len(GROUPS))
    moved = tuple(example for p in order for example in split.examples if example.group == f"g{p}")
    bare = tuple(replace(example, group="") for example in split.examples)
    for examples in (moved, bare):
        assert {e.uid for e in sampled(Split("train", examples), size).examples} == sample
    assert not all(f"s{p}-0" in sample for p in range(4))  # a sample is not just the beginning of the file


def test_mixed_corpora_have_their_own_pairs_domains_and_links(data):
    alone, source, both = (
        Read(prepare(config)[0]) for config in (config_of(data), config_of(data, "snli"), config_of(data, mix="snli"))
    )
    for split in ("dev", "test"):
        assert both.uids(split) == alone.uids(split)
    own, added = both.uids("train")[: SIZES["train"]], both.uids("train")[SIZES["train"] :]
    assert own == alone.uids("train")
    assert SIZES["train"] <= len(added) < SIZES["train"] + 3
    assert set(added) < set(source.uids("train"))
    for uid, pair in both.of_uid.items():
        assert pair == (source if uid in added else alone).of_uid[uid], uid
    assert sum(len(pair[3]) > 0 for pair in both.of_uid.values()) > 20  # enough pairs have links to mix up
    expected = [int(uid in added) for split in both.prepared.splits for uid in both.uids(split)]
    np.testing.assert_array_equal(both.prepared.arrays["domain"], np.array(expected, np.int8), strict=True)
    assert "domain" not in alone.prepared.arrays


def test_samples_and_mixtures_have_folders_of_their_own(data):
    """A sample of the target bounds what is mixed in; a change of the corpus mixed in is noticed."""

    def made(**fields):
        return prepare(config_of(data, model="bow", **fields))

    wishes = ({}, {"sample": 6}, {"sample": 9}, {"mix": "snli"}, {"mix": "snli", "sample": 6})
    found = [made(**wish)[0] for wish in wishes]
    assert len({prepared.folder for prepared in found}) == len(wishes)
    assert made(mix="snli")[1]
    assert (len(found[-1].splits["train"]), len(found[-1].splits["dev"])) == (12, SIZES["dev"])
    path = data / "snli" / "snli_1.0_train.jsonl"
    content = path.read_text()
    path.write_text(content.replace("neutral", "entailment"))
    try:
        assert not made(mix="snli")[1]
    finally:
        path.write_text(content)


def test_a_corpus_is_not_mixed_with_itself(data):
    with pytest.raises(UserError, match=r"^config\.data\.mix is the corpus itself"):
        prepare(config_of(data, model="bow", mix="mednli"))
