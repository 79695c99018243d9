"""Samples of training pairs and mixtures of two corpora: premises stay whole, domains and links stay right."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from made_up_commands import prepare

from mednli_jax import defaults
from mednli_jax.corpora.nli.mixing import MIXED_TAG, mixed, sampled
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS, NLIExample, Split
from mednli_jax.knowledge.readers import mesh
from mednli_jax.tasks.nli import LINK_FIELDS
from mednli_jax.text import Vocab

CONDITIONS = ("asthma", "gout", "anemia", "stroke")
SIZES = {"train": 22, "dev": 7, "test": 5}  # the last premise of each split has fewer than three hypotheses
SOURCE = {"train": 64, "dev": 5, "test": 4}
# each concept is below the one before
ONTOLOGY = "".join(f"D{n}\t{name}\tC01{'.100' * n}\t\n" for n, name in enumerate(CONDITIONS))


def rows(corpus, split, size):
    """Rows with SNLI's fields; each premise has three hypotheses."""
    for n in range(size):
        premise, hypothesis = f"{corpus} {split} {n // 3} {CONDITIONS[n // 3 % 4]} .", f"has {CONDITIONS[n % 4]} now"
        yield {
            "pairID": f"{corpus}-{split}-{n}",
            "gold_label": LABELS[n % 3],
            "sentence1": premise,
            "sentence2": hypothesis,
            "sentence1_binary_parse": f"( {premise} )",
            "sentence2_binary_parse": f"( {hypothesis} )",
        }


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder with a small MedNLI, a larger SNLI, and a table of four concepts."""
    folder = tmp_path_factory.mktemp("data")
    for corpus, file, sizes in (("mednli", "mli_{}_v1.jsonl", SIZES), ("snli", "snli_1.0_{}.jsonl", SOURCE)):
        (folder / corpus).mkdir()
        for split, size in sizes.items():
            lines = "".join(json.dumps(row) + "\n" for row in rows(corpus, split, size))
            (folder / corpus / file.format(split)).write_text(lines)
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
                sides = [[words[n] for n in arrays[side][row] if n] for side in ("premise", "hypothesis")]
                links = {
                    tuple(link)
                    for link in zip(*(arrays[name][row] for name in LINK_FIELDS if name in arrays), strict=True)
                }
                self.of_uid[uid] = (*sides, int(arrays["label"][row]), {link for link in links if link[2] >= 0})

    def uids(self, split):
        return self.prepared.splits[split].uids


# ---- samples ----


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


def test_a_smaller_sample_is_part_of_a_larger_one():
    samples = [set(sampled(split_of(GROUPS), size).examples) for size in range(1, 100, 7)]
    for small, large in pairwise(samples):
        assert small < large
    assert sampled(split_of(GROUPS), 20) == sampled(split_of(GROUPS), 20)


def test_a_sample_does_not_depend_on_the_order_of_premises():
    split, size = split_of(GROUPS), 20
    order = np.random.default_rng(1).permutation(len(GROUPS))
    moved = [example for p in order for example in split.examples if example.group == f"g{p}"]
    assert set(sampled(Split("train", tuple(moved)), size).examples) == set(sampled(split, size).examples)
    first = {f"g{p}" for p in range(len(GROUPS))} - {e.group for e in sampled(split, size).examples}
    assert first & {"g0", "g1", "g2", "g3"}  # a sample is not just the beginning of the file


def test_pairs_without_a_group_belong_to_their_premise():
    split = split_of(GROUPS)
    bare = Split("train", tuple(NLIExample(e.uid, e.premise, "h", "", (), ()) for e in split.examples))
    assert [e.uid for e in sampled(bare, 9).examples] == [e.uid for e in sampled(split, 9).examples]


# ---- two corpora ----


def test_as_many_pairs_are_mixed_in_as_the_target_has():
    target = {"train": split_of([3] * 5, "t"), "dev": split_of([2], "d")}
    result = mixed(target, split_of(GROUPS), "snli")
    own, added = result["train"].examples[:15], result["train"].examples[15:]
    assert own == target["train"].examples
    assert [example.uid for example in added] == [example.uid for example in sampled(split_of(GROUPS), 15).examples]
    assert all(example.tags == (MIXED_TAG,) for example in added)
    assert result["dev"] is target["dev"]
    facts = result["train"].facts["mixed"]
    assert (facts["corpus"], facts["pairs"], facts["sampled"]) == ("snli", len(added), 15)


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
    assert len({tuple(sorted(pair[3])) for pair in both.of_uid.values()}) >= 3
    domain = both.prepared.arrays["domain"]
    expected = [1 if uid in added else 0 for split in both.prepared.splits for uid in both.uids(split)]
    np.testing.assert_array_equal(domain, expected)
    assert (domain.dtype, domain.shape) == (np.int8, (len(both.of_uid),))
    assert "domain" not in alone.prepared.arrays
    tags = both.prepared.splits["train"].tags
    assert [tag == (MIXED_TAG,) for tag in tags] == [False] * len(own) + [True] * len(added)


def test_a_sample_of_the_target_bounds_what_is_mixed_in(data):
    both = Read(prepare(config_of(data, mix="snli", sample=6))[0])
    domain = np.asarray(both.prepared.arrays["domain"])
    assert (domain == 1).sum() == 6
    assert both.prepared.splits["train"].uids[6].startswith("snli-train")
    assert len(both.prepared.splits["train"]) == 12
    assert len(both.prepared.splits["dev"]) == SIZES["dev"]
    assert both.prepared.manifest["splits"]["train"]["mixed"]["corpus"] == "snli"


def test_the_prepared_folder_follows_sample_and_mix(data):
    wishes = ({}, {"sample": 6}, {"sample": 9}, {"mix": "snli"}, {"mix": "snli", "sample": 6})
    folders = [prepare(config_of(data, model="bow", **wish))[0].folder for wish in wishes]
    assert len(set(folders)) == len(wishes)
    again, hit = prepare(config_of(data, model="bow", mix="snli"))
    assert (again.folder, hit) == (folders[3], True)


def test_a_change_of_the_corpus_mixed_in_is_noticed(data):
    path = data / "snli" / "snli_1.0_train.jsonl"
    content, before = path.read_text(), prepare(config_of(data, model="bow", mix="snli"))[0]
    try:
        path.write_text(content.replace("neutral", "entailment"))
        after, hit = prepare(config_of(data, model="bow", mix="snli"))
    finally:
        path.write_text(content)
    assert not hit
    assert after.folder != before.folder


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mix": "snly"}, r"^config\.data\.mix: unknown corpus 'snly'\. Fix: .*snli"),
        ({"mix": "mednli"}, r"^config\.data\.mix is the corpus itself"),
        ({"mix": "multinli/x"}, r"^config\.data\.genre|^multinli_1\.0_train\.jsonl: "),
        ({"sample": 0}, r"^config\.data\.sample is 0"),
    ],
)
def test_what_cannot_be_mixed_is_named(data, fields, expected):
    with pytest.raises(UserError, match=expected):
        prepare(config_of(data, model="bow", **fields))
