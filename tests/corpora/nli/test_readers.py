"""Readers of the NLI corpora, on made-up files of the official layout."""

import gzip
import hashlib
import json

import pytest

from mednli_jax.corpora.nli.readers import CORPORA, check_disjoint, load_nli, read_nli_file, shared_texts
from mednli_jax.errors import ConfigError, DataError, DataErrors, UserError
from mednli_jax.examples import NLIExample, Split

SECRET = "Zzyzx"  # stands for clinical text and must never occur in a message


def row(uid="p1", label="entailment", premise="Pt is ill .", hypothesis="Pt is not well .", **more):
    fields = {"pairID": uid, "gold_label": label, "sentence1": premise, "sentence2": hypothesis}
    fields |= {"sentence1_binary_parse": f"( {premise} )", "sentence2_binary_parse": f"( {hypothesis} )"}
    return {key: value for key, value in (fields | more).items() if value is not ...}


def write(path, rows):
    lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in rows]
    data = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def faults(path, **options):
    with pytest.raises(UserError) as caught:
        read_nli_file(path, split="train", **options)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None or SECRET not in str(caught.value.__cause__)
    return caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]


def test_reads_pairs_and_counts(tmp_path):
    rows = [
        row("a", "entailment", captionID="c7"),
        row("b", "-"),
        row("c", "contradiction", premise="BP -LRB- high -RRB-", promptID="31"),
        row(..., "neutral", premise='He can\'t "walk".', sentence2_binary_parse=...),
    ]
    path = write(tmp_path / "mli_dev_v1.jsonl", rows)
    split = read_nli_file(path, split="dev")
    first, second, third = split.examples
    assert first == NLIExample(
        "a",
        "Pt is ill .",
        "Pt is not well .",
        "entailment",
        ("Pt", "is", "ill", "."),
        ("Pt", "is", "not", "well", "."),
        group="c7",
    )
    assert (second.uid, second.premise_tokens, second.group) == ("c", ("BP", "(", "high", ")"), "31")
    # One parse is missing, so both sides are tokenised, and the hash of the premise serves as the group.
    assert (third.uid, third.premise_tokens) == ("mli_dev_v1:4", ("He", "ca", "n't", "``", "walk", "''", "."))
    assert third.group == hashlib.sha256(third.premise.encode()).hexdigest()[:16]
    assert split.name == "dev"
    assert split.facts == {
        "file": "mli_dev_v1.jsonl",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": 4,
        "kept": 3,
        "dropped_unlabelled": 1,
        "tokens": {"binary parse": 2, "treebank": 1},
        "labels": {"entailment": 1, "neutral": 1, "contradiction": 1},
    }


def test_pairs_of_one_premise_share_a_group(tmp_path):
    rows = [row("a"), row("b", "neutral"), row("c", premise="Another one .")]
    one, two, three = read_nli_file(write(tmp_path / "x.jsonl", rows), split="dev").examples
    assert one.group == two.group != three.group


@pytest.mark.parametrize(("written", "asked"), [("x.jsonl.gz", "x.jsonl"), ("x.jsonl", "x.jsonl.gz")])
def test_either_name_finds_the_file(tmp_path, written, asked):
    write(tmp_path / written, [row(...)])
    split = read_nli_file(tmp_path / asked, split="dev")
    assert split.examples[0].uid == "x:1"
    assert split.facts["file"] == written


def test_byte_order_mark_blank_and_windows_lines_are_no_faults(tmp_path):
    line = json.dumps(row(...)).encode()
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n\r\n" + line + b"\r\n")
    split = read_nli_file(path, split="dev")
    assert [pair.uid for pair in split.examples] == ["x:1", "x:3"]
    assert split.facts["rows"] == 2


def test_limit_counts_labelled_pairs_and_reads_no_further(tmp_path):
    path = write(tmp_path / "x.jsonl", [row("a", "-"), row("b"), row("c", "-"), row("d"), b"broken"])
    split = read_nli_file(path, split="train", limit=2)
    assert [pair.uid for pair in split.examples] == ["b", "d"]
    assert split.facts["dropped_unlabelled"] == 2
    for limit in (0, -3):
        with pytest.raises(ConfigError):
            read_nli_file(path, split="train", limit=limit)


def bad(uid="p2", **more):
    return row(uid, premise=SECRET, **more)


def test_first_twenty_faults_come_together(tmp_path):
    path = write(tmp_path / "x.jsonl", [row("p1")] + [bad(label=SECRET, uid=f"q{n}") for n in range(25)])
    with pytest.raises(DataErrors) as caught:
        read_nli_file(path, split="train")
    assert [error.line for error in caught.value.errors] == list(range(2, 22))
    assert {error.field for error in caught.value.errors} == {"gold_label"}
    assert len(str(caught.value).splitlines()) == 21  # the last line counts the other faults
    assert SECRET not in str(caught.value)


def write_corpus(folder, corpus, **more):
    folder.mkdir(parents=True)
    for split, file in CORPORA[corpus].files.items():
        rows = [row(f"{split}{n}", premise=f"{split} {n}", **more) for n in range(4)]
        write(folder / file, rows)


@pytest.mark.parametrize("name", ["mednli", "snli"])
def test_load_nli_reads_all_splits_from_either_folder(tmp_path, name):
    write_corpus(tmp_path / name, name)
    for folder in (tmp_path, tmp_path / name):
        splits = load_nli(name, folder, limit=3)
        assert {split: len(pairs) for split, pairs in splits.items()} == {"train": 3, "dev": 4, "test": 4}
        assert all(pair.tags == () for pair in splits["train"].examples)


def test_load_multinli_by_genre(tmp_path):
    def rows(split, genres):
        return [row(f"{split}{n}", premise=f"{split} {n}", genre=genre) for n, genre in enumerate(genres)]

    write(tmp_path / "multinli_1.0_train.jsonl", rows("t", ["slate", "travel", "slate", "fiction", "slate"]))
    write(tmp_path / "multinli_1.0_dev_matched.jsonl.gz", rows("d", ["travel", "slate"]))
    splits = load_nli("multinli", tmp_path, genre="slate", limit=2)
    assert list(splits) == ["train", "dev"]
    assert [pair.uid for pair in splits["train"].examples] == ["t0", "t2"]
    assert [(pair.uid, pair.tags) for pair in splits["dev"].examples] == [("d1", ("slate",))]
    assert splits["dev"].facts["other_genres"] == 1
    # the release that the paper used
    (tmp_path / "multinli_1.0_train.jsonl").rename(tmp_path / "multinli_0.9_train.jsonl")
    everything = load_nli("multinli", tmp_path)
    assert {split: len(pairs) for split, pairs in everything.items()} == {"train": 5, "dev": 2}


def test_genre_cannot_be_chosen_from_a_file_without_genres(tmp_path):
    (fault,) = faults(write(tmp_path / "x.jsonl", [row("a")]), genre="slate")
    assert (type(fault), fault.line, fault.field) == (DataError, 1, "genre")


@pytest.mark.parametrize(
    ("name", "options", "part"),
    [
        ("mendli", {}, "'mednli'"),  # the most similar name
        ("multinli", {"genre": "slat"}, "'slate'"),
        ("snli", {"genre": "slate"}, "genre"),
        ("snli", {"limit": 0}, "limit"),
    ],
)
def test_wrong_options_are_errors_of_the_config(tmp_path, name, options, part):
    with pytest.raises(ConfigError, match=part):
        load_nli(name, tmp_path, **options)


@pytest.mark.parametrize(
    ("label", "more", "refused"),
    [
        ("neutral", {"label": "entailment"}, True),
        ("neutral", {"premise": "Other text."}, True),
        ("neutral", {"label": "neutral", "premise": None}, False),
        (None, {"label": "neutral"}, False),
    ],
)
def test_a_field_with_two_names_has_one_value(tmp_path, label, more, refused):
    """Prediction takes the same rows, see tests/commands/test_predict.py."""
    path = write(tmp_path / "x.jsonl", [row("a"), row("b", label) | more])
    if not refused:
        assert [pair.label for pair in read_nli_file(path, split="dev").examples] == ["entailment", "neutral"]
    else:
        (fault,) = faults(path)
        assert (fault.line, fault.file) == (2, "x.jsonl")
        assert next(iter(more)) in str(fault)


@pytest.mark.parametrize("other", ["train.tsv", "train.jsonl.gz"])
def test_two_files_of_ones_own_for_a_split_are_refused(tmp_path, other):
    for name in ("train.jsonl", "dev.jsonl", other):
        write(tmp_path / name, [row(name)])
    with pytest.raises(DataError, match=rf"train\.jsonl and {other} both hold train"):
        load_nli("file", tmp_path)


def test_missing_files_say_what_where_and_whence(tmp_path):
    write_corpus(tmp_path / "mednli", "mednli")
    (tmp_path / "mednli" / "mli_dev_v1.jsonl").unlink()
    with pytest.raises(DataError) as caught:
        load_nli("mednli", tmp_path)
    assert caught.value.file == "mli_dev_v1.jsonl"
    assert CORPORA["mednli"].source in caught.value.fix
    with pytest.raises(DataErrors) as caught:
        load_nli("snli", tmp_path / "nowhere")
    assert [error.file for error in caught.value.errors] == list(CORPORA["snli"].files.values())


def pairs(name, *rows):
    examples = [NLIExample(uid, *(*texts, "h")[:2], "neutral", ("p",), ("h",)) for uid, *texts in rows]
    return Split(name, tuple(examples), {"file": f"{name}.jsonl"})


def test_equal_uids_are_refused_and_equal_texts_counted():
    train, dev = pairs("train", ("a", "x"), ("b", "x"), ("c", "y")), pairs("dev", ("d", "z"))
    test = pairs("test", ("e", "x"), ("f", "x", "another"), ("g", "z"), ("h", "new"))
    assert shared_texts({"train": train, "dev": dev, "test": test}) == {
        "dev": {"train": {"pairs": 0, "premises": 0}},
        "test": {"train": {"pairs": 1, "premises": 2}, "dev": {"pairs": 1, "premises": 1}},
    }
    assert check_disjoint({"train": train, "dev": dev, "test": test}) == {"train": train, "dev": dev, "test": test}
    with pytest.raises(DataError) as caught:
        check_disjoint({"train": train, "dev": dev, "test": pairs("test", ("c", "q"), ("b", "q"))})
    assert (caught.value.file, caught.value.field) == ("test.jsonl", "pairID")
