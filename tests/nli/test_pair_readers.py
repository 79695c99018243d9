"""Readers of the NLI corpora, on made-up files in the official layouts; damaged files are in
tests/test_readers.py."""

import hashlib
import json
import re

import pytest
from support.files import write

from mednli_jax.data.examples import NLIExample, Split
from mednli_jax.errors import DataError, DataErrors, UserError
from mednli_jax.nli.corpora import CORPORA, source_files
from mednli_jax.nli.readers import check_disjoint, load_nli, read_nli_file, shared_texts

SECRET = "Zzyzx"  # stands for clinical text and must never occur in a message
SNLI_HEADER = [
    "gold_label",
    *(f"sentence{side}_{kind}" for kind in ("binary_parse", "parse") for side in (1, 2)),
    *("sentence1", "sentence2", "captionID", "pairID"),
    *(f"label{n}" for n in range(1, 6)),
]
TASK, TRUTH = "mednli_bionlp19_shared_task.jsonl", "mednli_bionlp19_shared_task_ground_truth.csv"


def row(uid="p1", label="entailment", premise="Pt is ill .", hypothesis="Pt is not well .", **more):
    """A row with the official fields; a field given as ... is left out."""
    fields = {"pairID": uid, "gold_label": label, "sentence1": premise, "sentence2": hypothesis}
    fields |= {
        "sentence1_binary_parse": f"( {premise} )",
        "sentence2_binary_parse": f"( {hypothesis} )",
    }
    return {key: value for key, value in (fields | more).items() if value is not ...}


def lines(rows):
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in rows)


def snli_row(
    uid="p1", label="neutral", premise="A man ( old ) sleeps .", hypothesis='He says " no " .'
):
    parses = [f"( {s.replace('(', '-LRB-').replace(')', '-RRB-')} )" for s in (premise, hypothesis)]
    values = dict(
        zip(
            SNLI_HEADER,
            [label, *parses, "(X)", "(X)", premise, hypothesis, "c1", uid, label],
            strict=False,
        )
    )
    return [values.get(name, "") for name in SNLI_HEADER]


def tsv(*rows):
    return "".join("\t".join(row) + "\n" for row in (SNLI_HEADER, *rows))


def read(path, **options):
    return read_nli_file(path, split="train", **options)


def faults(call, *arguments, **options):
    """(file, line, field) of the faults that a call raises; no message holds a word of the
    sentences."""
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    assert SECRET not in str(caught.value)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    return [(error.file, error.line, error.field) for error in errors]


def test_pairs_are_read_and_counted(tmp_path):
    rows = [
        row("a", "entailment", captionID="c7"),
        row("b", "-"),
        row("c", "contradiction", premise="BP -LRB- high -RRB-", promptID="31"),
        row(..., "neutral", premise='He can\'t "walk".', sentence2_binary_parse=...),
    ]
    path = write(tmp_path / "mli_dev_v1.jsonl", lines(rows))
    split = read_nli_file(path, split="dev")
    first, second, third = split.examples
    texts = ("Pt is ill .", "Pt is not well .")
    assert first == NLIExample(
        "a", *texts, "entailment", *(tuple(text.split()) for text in texts), group="c7"
    )
    assert (second.uid, second.premise_tokens, second.group) == (
        "c",
        ("BP", "(", "high", ")"),
        "31",
    )
    # One parse is missing, so both sides are tokenised, and the hash of the premise serves as the
    # group.
    assert (third.uid, third.premise_tokens) == (
        "mli_dev_v1:4",
        ("He", "ca", "n't", "``", "walk", "''", "."),
    )
    assert third.group == hashlib.sha256(third.premise.encode()).hexdigest()[:16]
    facts = {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": 4,
        "kept": 3,
    }
    facts |= {"dropped_unlabelled": 1, "tokens": {"binary parse": 2, "treebank": 1}}
    assert split.facts == {**facts, "labels": {"entailment": 1, "neutral": 1, "contradiction": 1}}


def test_limit_counts_labelled_pairs_and_reads_no_further(tmp_path):
    path = write(
        tmp_path / "x.jsonl", lines([row("a", "-"), row("b"), row("c", "-"), row("d"), "broken"])
    )
    split = read(path, limit=2)
    assert ([pair.uid for pair in split.examples], split.facts["dropped_unlabelled"]) == (
        ["b", "d"],
        2,
    )


@pytest.mark.parametrize("name", ["snli_1.0_train.txt", "snli_1.0_train.txt.gz"])
def test_snlis_table_means_the_same_as_its_json(tmp_path, name):
    rows = [
        snli_row("a"),
        snli_row("b", "-"),
        snli_row("c", "entailment", "It rains .", 'A 5 " nail .'),
    ]
    rows[0] = rows[0][:10]  # a row may end before the columns of annotators that it does not need
    split = read(write(tmp_path / name, tsv(*rows)))
    same = read(
        write(
            tmp_path / "x.jsonl", lines([dict(zip(SNLI_HEADER, row, strict=False)) for row in rows])
        )
    )
    assert split.examples == same.examples
    assert [pair.uid for pair in split.examples] == ["a", "c"]
    assert split.examples[0].premise_tokens == ("A", "man", "(", "old", ")", "sleeps", ".")
    assert split.examples[1].hypothesis_tokens == (
        "A",
        "5",
        '"',
        "nail",
        ".",
    )  # a quotation mark has no meaning
    assert {**split.facts, "file": "", "sha256": ""} == {**same.facts, "file": "", "sha256": ""}


OWN = {
    "jsonl": '{"premise": "A, b", "hypothesis": "say \\"c\\"", "label": "neutral", "uid": "u1"}\n'
    '{"premise": "D", "hypothesis": "E", "label": "entailment"}\n',
    "tsv": 'uid\tlabel\tpremise\thypothesis\nu1\tneutral\tA, b\tsay "c"\n\tentailment\tD\tE\n',
    "csv": '\ufeffuid,label,premise,hypothesis\r\nu1,neutral,"A, b","say ""c"""\r\n,entailment,D,E\r\n',
}


@pytest.mark.parametrize("ending", OWN)
@pytest.mark.parametrize(("written", "asked"), [("", ""), (".gz", ""), ("", ".gz")])
def test_own_files_of_each_kind_mean_the_same(tmp_path, ending, written, asked):
    write(tmp_path / f"train.{ending}{written}", OWN[ending])
    split = read(tmp_path / f"train.{ending}{asked}")
    first, second = split.examples
    assert (first.uid, first.premise, first.hypothesis, first.label) == (
        "u1",
        "A, b",
        'say "c"',
        "neutral",
    )
    assert first.premise_tokens == ("A", ",", "b")
    assert second.uid == ("train:2" if ending == "jsonl" else "train:3")
    assert split.facts["file"] == f"train.{ending}{written}"


@pytest.mark.parametrize(
    ("labels", "values", "expected"),
    [
        ("", ("Entailment", " NEUTRAL", "-"), ["entailment", "neutral"]),
        ("yes:entailment,No:contradiction", ("YES", "no", "-"), ["entailment", "contradiction"]),
        (
            "0:entailment,1:neutral,2:contradiction,-1:-",
            (0, 2, -1),
            ["entailment", "contradiction"],
        ),
        (
            "entailment,not_entailment:neutral",
            ("entailment", "not_entailment", "-"),
            ["entailment", "neutral"],
        ),
    ],
)
def test_labels_of_own_files_are_mapped_and_the_case_of_names_is_ignored(
    tmp_path, labels, values, expected
):
    rows = [
        {"Premise": f"A {n}", "HYPOTHESIS": "B", "Label": value} for n, value in enumerate(values)
    ]
    for name in ("train", "validation"):
        write(tmp_path / f"{name}.jsonl", lines(rows))
    splits = load_nli("file", tmp_path, labels=labels)
    assert [pair.label for pair in splits["train"].examples] == expected
    assert list(splits) == ["train", "dev"]
    assert splits["dev"].facts["file"] == "validation.jsonl"
    assert "no test file" in splits["dev"].facts["note"]
    assert [label for label, count in splits["dev"].facts["labels"].items() if count] == expected


SYNONYMS = [
    ("gold_label", "label"),
    ("sentence1", "premise"),
    ("sentence2", "hypothesis"),
    ("pairID", "uid"),
]


def with_both_names(folder, ending, names, values):
    """A file of two pairs with both names of a field, which have one value in the first pair and
    two in the second."""
    fields = {
        "pairID": "p2",
        "gold_label": "neutral",
        "sentence1": "A",
        "sentence2": "B",
        names[0]: values[0],
    }
    good = {"pairID": "p1", "gold_label": "neutral", "sentence1": "C", "sentence2": "D"}
    rows = [{**of, names[1]: value} for of, value in ((good, good[names[0]]), (fields, values[1]))]
    path = folder / f"train.{ending}"
    if ending == "jsonl":
        return write(path, lines(rows))
    separator = "," if ending == "csv" else "\t"
    return write(
        path,
        "".join(
            separator.join(cells) + "\n" for cells in (rows[0], *(row.values() for row in rows))
        ),
    )


@pytest.mark.parametrize("names", SYNONYMS, ids="/".join)
@pytest.mark.parametrize("ending", ["jsonl", "tsv", "csv"])
def test_two_names_of_a_field_that_differ_are_refused_with_the_line(tmp_path, ending, names):
    values = (SECRET, "zebra") if "gold_label" not in names else ("neutral", "entailment")
    path = with_both_names(tmp_path, ending, names, values)
    assert faults(read, path) == [(path.name, 2 if ending == "jsonl" else 3, names[0])]
    agreeing = ("neutral", " Neutral") if "gold_label" in names else (SECRET, SECRET)
    assert len(read(with_both_names(tmp_path, ending, names, agreeing))) == 2


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (
            "x.jsonl",
            '{"premise": "A", "hypothesis": "B", "label": "neutral", "label": "entailment"}\n',
        ),
        (
            "x.jsonl",
            '{"premise": "A", "hypothesis": "B", "label": "neutral", "Label": "entailment"}\n',
        ),
        ("x.csv", "premise,Premise,hypothesis,label\nA,A,B,neutral\n"),
        ("x.tsv", "premise\thypothesis\tlabel\tLABEL\nA\tB\tneutral\tneutral\n"),
        ("x.csv", "premise,hypothesis,label,note,note\nA,B,neutral,1,2\n"),
    ],
)
def test_a_name_that_is_given_twice_is_refused_with_the_line(tmp_path, file, content):
    path = write(tmp_path / file, content)
    assert [fault[:2] for fault in faults(read, path)] == [(file, 1)]
    with pytest.raises(DataError, match=r"(?i)'(note|premise|label)'"):
        read(path)


def test_columns_without_a_name_may_repeat(tmp_path):
    assert len(read(write(tmp_path / "x.csv", "premise,hypothesis,label,,\nA,B,neutral,,\n"))) == 1


@pytest.mark.parametrize("ending", ["tsv", "txt", "csv", "jsonl"])
def test_quoted_cells_are_counted_between_tabs_alone(tmp_path, ending):
    cells = ['"He said ""no""."', '"a" and "b"', '""', '"""Well"" he said"', '"']
    rows = [
        {"premise": cell, "hypothesis": f"B {n}", "label": "neutral"}
        for n, cell in enumerate(cells)
    ]
    if ending == "jsonl":
        content = lines(rows)
    elif ending == "csv":
        quoted = ('"' + cell.replace('"', '""') + '"' for cell in cells)
        content = "premise,hypothesis,label\n" + "".join(f"{cell},B,neutral\n" for cell in quoted)
    else:
        content = "premise\thypothesis\tlabel\n" + "".join(
            "\t".join(row.values()) + "\n" for row in rows
        )
    split = read(write(tmp_path / f"train.{ending}", content))
    assert [pair.premise for pair in split.examples] == cells
    expected = {"first_line": 2, "cells": 2} if ending in ("tsv", "txt") else None
    assert split.facts.get("quoted_cells") == expected


def test_multinli_by_genre(tmp_path):
    def rows(split, genres):
        return lines(
            row(f"{split}{n}", premise=f"{split} {n}", genre=genre)
            for n, genre in enumerate(genres)
        )

    write(
        tmp_path / "multinli_1.0_train.jsonl",
        rows("t", ["slate", "travel", "slate", "fiction", "slate"]),
    )
    write(tmp_path / "multinli_1.0_dev_matched.jsonl.gz", rows("d", ["travel", "slate"]))
    splits = load_nli("multinli", tmp_path, genre="slate", limit=2)
    assert [pair.uid for pair in splits["train"].examples] == ["t0", "t2"]
    assert [(pair.uid, pair.tags) for pair in splits["dev"].examples] == [("d1", ("slate",))]
    assert splits["dev"].facts["other_genres"] == 1
    # the release that the paper used
    (tmp_path / "multinli_1.0_train.jsonl").rename(tmp_path / "multinli_0.9_train.jsonl")
    everything = load_nli("multinli", tmp_path)
    assert {split: len(pairs) for split, pairs in everything.items()} == {"train": 5, "dev": 2}
    assert faults(read, write(tmp_path / "x.jsonl", lines([row("a")])), genre="slate") == [
        ("x.jsonl", 1, "genre")
    ]


def mediqa(folder, truth="pair_id,label\nt2,contradiction\nt0,entailment\nt1,neutral\n"):
    for split in ("train", "dev"):
        write(folder / "mednli" / f"mli_{split}_v1.jsonl", lines([row(split)]))
    write(folder / "mediqa_nli" / TASK, lines(row(f"t{n}", ...) for n in range(3)))
    write(folder / "mediqa_nli" / TRUTH, truth)
    return folder


def test_mediqa_takes_its_labels_from_the_ground_truth_and_the_rest_from_mednli(tmp_path):
    folder = mediqa(tmp_path)
    splits = load_nli("mediqa_nli", folder)
    assert {name: split.facts["file"] for name, split in splits.items()} == CORPORA[
        "mediqa_nli"
    ].files
    labels = {pair.uid: pair.label for pair in splits["test"].examples}
    assert labels == {"t0": "entailment", "t1": "neutral", "t2": "contradiction"}
    assert set(splits["test"].facts["read_with"]) == {TRUTH}
    assert {path.name for path in source_files("mediqa_nli", folder)} == {
        *CORPORA["mediqa_nli"].files.values(),
        TRUTH,
    }
    assert (
        load_nli("mediqa_nli", folder / "mediqa_nli") == splits
    )  # the corpus finds MedNLI beside its own folder
    headless = mediqa(tmp_path / "b", "t0,entailment\nt1,neutral\nt2,contradiction\n")
    assert load_nli("mediqa_nli", headless)["test"].examples == splits["test"].examples
    (folder / "mediqa_nli" / TRUTH).unlink()
    assert faults(load_nli, "mediqa_nli", folder) == [(TRUTH, None, None)]


def test_a_corpus_of_ones_own_may_mix_formats_and_leave_test_out(tmp_path):
    write(tmp_path / "train.tsv.gz", OWN["tsv"])
    write(
        tmp_path / "dev.csv",
        OWN["csv"].replace("u1", "u2").replace("A, b", "F").replace(",D,", ",G,"),
    )
    splits = load_nli("file", tmp_path, limit=1)
    assert {name: len(split) for name, split in splits.items()} == {"train": 1, "dev": 2}
    assert [path.name for path in source_files("file", tmp_path)] == ["train.tsv.gz", "dev.csv"]


def test_snli_is_found_as_json_then_as_table(tmp_path):
    for split in ("train", "dev", "test"):
        write(tmp_path / "snli" / f"snli_1.0_{split}.txt", tsv(snli_row(split)))
    assert load_nli("snli", tmp_path)["dev"].facts["file"] == "snli_1.0_dev.txt"
    write(tmp_path / "snli" / "snli_1.0_dev.jsonl.gz", lines([row()]))
    assert load_nli("snli", tmp_path)["dev"].facts["file"] == "snli_1.0_dev.jsonl.gz"


@pytest.mark.parametrize(
    ("name", "files", "says"),
    [
        ("mednli", ("mli_train_v1.jsonl", "mli_test_v1.jsonl"), CORPORA["mednli"].source),
        ("mednli", ("physionet.org/1.0.0/mli_train_v1.jsonl",), "1.0.0/mli_train_v1.jsonl"),
        (
            "file",
            ("train.jsonl", "dev.csv", "train.jsonl.gz"),
            "train.jsonl and train.jsonl.gz: two files hold train",
        ),
        ("file", ("train.csv", "dev.csv"), "pairID"),
    ],
)
def test_missing_files_and_two_of_one_split_are_named(tmp_path, name, files, says):
    for file in files:
        write(tmp_path / file, OWN["csv"])
    with pytest.raises(UserError, match=re.escape(says)):
        load_nli(name, tmp_path)


def pairs(name, *rows):
    examples = [
        NLIExample(uid, *(*texts, "h")[:2], "neutral", ("p",), ("h",)) for uid, *texts in rows
    ]
    return Split(name, tuple(examples), {"file": f"{name}.jsonl"})


def test_equal_uids_are_refused_and_equal_texts_counted():
    train, dev = pairs("train", ("a", "x"), ("b", "x"), ("c", "y")), pairs("dev", ("d", "z"))
    test = pairs("test", ("e", "x"), ("f", "x", "another"), ("g", "z"), ("h", "new"))
    assert shared_texts({"train": train, "dev": dev, "test": test}) == {
        "dev": {"train": {"pairs": 0, "premises": 0}},
        "test": {"train": {"pairs": 1, "premises": 2}, "dev": {"pairs": 1, "premises": 1}},
    }
    assert check_disjoint({"train": train, "dev": dev, "test": test}) == {
        "train": train,
        "dev": dev,
        "test": test,
    }
    with pytest.raises(DataError) as caught:
        check_disjoint({"train": train, "dev": dev, "test": pairs("test", ("c", "q"), ("b", "q"))})
    assert (caught.value.file, caught.value.field) == ("test.jsonl", "pairID")
