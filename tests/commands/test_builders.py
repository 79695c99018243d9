"""Loading through TFDS gives the same pairs, facts and arrays as loading directly, readable by the
owner alone."""

import sys

import pytest
import tensorflow_datasets as tfds
from support.pair_files import write_rows

from mednli_jax.data.examples import LABELS
from mednli_jax.nli import readers as nli
from mednli_jax.nli import tfds as builders
from mednli_jax.nli.corpora import CORPORA

SECRET = "Zzyzx"


def pair(name, n, **more):
    # Brackets, quotes, accents, a token that looks like a number, and an unusual uid must all come
    # back unchanged.
    premise = f"Pt. №{n} -LRB- {name} -RRB- says `` naïve '' 1.50 gout"
    values = {
        "pairID": f"{name}/{n}#é",
        "gold_label": (*LABELS, "-")[n % 4],
        "sentence1": f"{premise} .",
    }
    values |= {"sentence2": f"arthritis {n} {SECRET}", "sentence1_binary_parse": f"( {premise} . )"}
    return values | {"sentence2_binary_parse": f"( arthritis {n} )" if n % 3 else ""} | more


def write_mednli(folder, size=23):
    for split, file in CORPORA["mednli"].files.items():
        write_rows(folder / "mednli" / file, [pair(split, n) for n in range(size)])
    return folder


@pytest.fixture
def data(tmp_path):
    return write_mednli(tmp_path / "data")


def load(name, data, tmp_path, **wishes):
    return builders.load_tfds(name, tmp_path / "tfds", data, **wishes)


@pytest.mark.parametrize("limit", [None, 5])
def test_mednli_comes_back_pair_by_pair_and_fact_by_fact(data, tmp_path, limit):
    direct = nli.load_nli("mednli", data, limit=limit)
    for folder in (data, data, data / "mednli"):  # the first pass builds, the others find the build
        splits = load("mednli", folder, tmp_path, limit=limit)
        assert (splits, list(splits)) == (direct, list(direct))
    assert all(type(token) is str for token in splits["train"].examples[1].premise_tokens)
    assert "tensorflow" not in sys.modules


def test_mediqa_snli_and_multinli_too(data, tmp_path):
    files = CORPORA["mediqa_nli"]
    rows = [pair("t", n) for n in range(6)]
    write_rows(
        data / "mediqa_nli" / files.files["test"], [{**row, "gold_label": None} for row in rows]
    )
    truth = "pair_id,label\n" + "".join(
        f"{row['pairID']},{LABELS[n % 3]}\n" for n, row in enumerate(rows)
    )
    (data / "mediqa_nli" / files.ground_truth).write_text(truth)
    for split, file in CORPORA["snli"].files.items():
        write_rows(data / "snli" / file, [pair(split, n, captionID=f"c{n // 3}") for n in range(7)])
    for split, file in CORPORA["multinli"].files.items():
        write_rows(
            data / "multinli" / file,
            [pair(split, n, genre=("slate", "travel")[n % 2]) for n in range(9)],
        )
    for name, wishes in (
        ("mediqa_nli", {}),
        ("snli", {"limit": 3}),
        ("multinli", {"genre": "slate", "limit": 2}),
    ):
        assert load(name, data, tmp_path, **wishes) == nli.load_nli(name, data, **wishes)
    assert load("multinli", data, tmp_path)["train"].examples[1].tags == ("travel",)


def test_the_builder_serves_tfds_itself(data, tmp_path):
    builder = builders.Mednli(data_dir=tmp_path / "built")
    config = tfds.download.DownloadConfig(manual_dir=str(data))
    builder.download_and_prepare(download_config=config, file_format="array_record")
    again = builders.Mednli(data_dir=tmp_path / "built")
    assert again.info.splits["dev"].num_examples == 18  # 23 pairs, of which five are labelled `-`
    source = again.as_data_source("dev")
    assert {record["label"] for record in source} == {label.encode() for label in LABELS}


def test_a_changed_file_is_built_anew_and_a_damaged_build_again(tmp_path, capfd):
    data = write_mednli(tmp_path / "data", 5)
    load("mednli", data, tmp_path)
    load("mednli", data, tmp_path, limit=2)
    (before,) = (tmp_path / "tfds").glob("mednli-all-*")
    direct = nli.load_nli("mednli", write_mednli(data, 11))
    assert load("mednli", data, tmp_path) == direct
    (root,) = (tmp_path / "tfds").glob("mednli-all-*")
    assert before.name != root.name
    # the build of the other limit stays, and no temporary folder does
    assert len(list((tmp_path / "tfds").glob("[!.]*"))) == 2
    (record,), (facts,) = root.rglob("*train.array_record*"), root.rglob("1.0.0/metadata.json")
    whole = record.read_bytes()
    text = whole.index(SECRET.encode()) if SECRET.encode() in whole else 200
    flipped = whole[:text] + bytes([whole[text] ^ 1]) + whole[text + 1 :]
    for path, content in ((record, whole[:100]), (record, flipped), (facts, b"{")):
        path.write_bytes(content)
        assert load("mednli", data, tmp_path) == direct
        shown = capfd.readouterr()
        assert str(root) in shown.err
        assert SECRET not in shown.err + shown.out
