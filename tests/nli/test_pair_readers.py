"""Readers of the NLI corpora, on made-up files in the official layouts; damaged files are in
tests/test_refusals.py."""

import hashlib
import json

import pytest
from support.cases import cases
from support.files import lines, write
from support.pair_files import official
from support.tables import table_rows

from mednli_jax.data.examples import NLIExample, Split
from mednli_jax.data.labels import NLI_LABELS, Labels
from mednli_jax.nli.read.corpora import CORPORA, source_files
from mednli_jax.nli.read.readers import check_disjoint, load_nli, read_nli_file, shared_texts

PREMISE = "Pt is ill ."
HYPOTHESIS = "Pt is not well ."


def row(uid, label="entailment", premise=PREMISE, **fields):
    """A row with the official fields, and more."""
    return official(uid, label, premise, HYPOTHESIS) | fields


def read(path, content, **options):
    """The split of a file with this content."""
    return read_nli_file(write(path, content), split="train", **options)


def uids(split):
    return [example.uid for example in split.examples]


def test_a_row_of_a_file_becomes_an_example_of_nli(tmp_path):
    (example,) = read(tmp_path / "x.jsonl", lines(row("a", captionID="c7"))).examples
    assert example.uid == "a"
    assert example.label == "entailment"
    assert example.group == "c7"
    assert example.premise == PREMISE
    assert example.hypothesis == HYPOTHESIS
    assert " ".join(example.hypothesis_tokens) == HYPOTHESIS


@cases(
    "parse, tokens",
    {
        "two parses": ("( two parses )", "BP ( high )"),
        "one parse": ("", "He ca n't `` walk ''"),
    },
)
def test_tokens_are_those_of_two_parses_else_of_the_treebank(tmp_path, parse, tokens):
    fields = {"sentence1_binary_parse": "( BP -LRB- high -RRB- )", "sentence2_binary_parse": parse}
    rows = lines(row("a", premise='He can\'t "walk"', **fields))
    (example,) = read(tmp_path / "x.jsonl", rows).examples
    assert " ".join(example.premise_tokens) == tokens


def test_pairs_of_a_premise_are_one_group(tmp_path):
    """The file names it, also by a number, or it is the hash of the premise."""
    rows = lines(row("a", captionID="c"), row(7, promptID=31), row("c", premise="x"))
    split = read(tmp_path / "x.jsonl", rows)
    assert uids(split) == ["a", "7", "c"]
    groups = [example.group for example in split.examples]
    assert groups == ["c", "31", hashlib.sha256(b"x").hexdigest()[:16]]


def test_pairs_without_a_label_are_dropped_and_all_are_counted(tmp_path):
    rows = [
        row("a"),
        row("b", "-"),
        row("c", "contradiction", sentence1_binary_parse=""),
    ]
    path = tmp_path / "mli_dev_v1.jsonl"
    split = read(path, lines(*rows))
    assert uids(split) == ["a", "c"]
    assert split.facts == {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": 3,
        "kept": 2,
        "dropped_unlabelled": 1,
        "tokens": {"binary parse": 1, "treebank": 1},
        "labels": {"entailment": 1, "neutral": 0, "contradiction": 1},
    }


def test_a_limit_counts_labelled_pairs_and_reads_no_further(tmp_path):
    rows = lines(row("a", "-"), row("b"), row("c", "-"), row("d"), "broken")
    split = read(tmp_path / "x.jsonl", rows, limit=2)
    assert uids(split) == ["b", "d"]
    assert split.facts["dropped_unlabelled"] == 2


SNLI_HEADER = (
    "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
    "\tsentence1\tsentence2\tcaptionID\tpairID\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5"
)


def snli_line(uid, label, premise, hypothesis):
    """A line of SNLI's table, which ends before the columns of the annotators."""
    parse = premise.replace("(", "-LRB-").replace(")", "-RRB-")
    parses = f"( {parse} )\t( {hypothesis} )\t(X)\t(X)"
    return f"{label}\t{parses}\t{premise}\t{hypothesis}\tc1\t{uid}"


@pytest.mark.parametrize("name", ["snli_1.0_train.txt", "snli_1.0_train.txt.gz"])
def test_snlis_table_means_the_same_as_its_json(tmp_path, name):
    """A quotation mark has no meaning in a table of tabs."""
    table = [
        snli_line("a", "neutral", "A man ( old ) sleeps .", 'He says " no " .'),
        snli_line("b", "-", "It rains .", "It snows ."),
        snli_line("c", "entailment", "It rains .", 'A 5 " nail .'),
    ]
    header = SNLI_HEADER.split("\t")
    objects = [dict(zip(header, line.split("\t"), strict=False)) for line in table]

    of_table = read(tmp_path / name, "\n".join([SNLI_HEADER, *table]))
    of_json = read(tmp_path / "x.jsonl", lines(*objects))

    assert of_table.examples == of_json.examples
    first, second = of_table.examples
    assert " ".join(first.premise_tokens) == "A man ( old ) sleeps ."
    assert " ".join(second.hypothesis_tokens) == 'A 5 " nail .'
    of_files = {"file": "", "sha256": ""}
    assert of_table.facts | of_files == of_json.facts | of_files


OWN = {
    "jsonl": '{"premise": "A, b", "hypothesis": "say \\"c\\"", "label": "neutral", "uid": "u1"}\n'
    '{"premise": "D", "hypothesis": "E", "label": "entailment"}\n',
    "tsv": 'uid\tlabel\tpremise\thypothesis\nu1\tneutral\tA, b\tsay "c"\n\tentailment\tD\tE\n',
    "csv": "\ufeffuid,label,premise,hypothesis\r\n"
    'u1,neutral,"A, b","say ""c"""\r\n,entailment,D,E\r\n',
}


@pytest.mark.parametrize("ending", OWN)
@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("", ""),
        (".gz", ""),
        ("", ".gz"),
    ],
)
def test_own_files_of_each_kind_mean_the_same(tmp_path, ending, written, asked):
    write(tmp_path / f"train.{ending}{written}", OWN[ending])

    split = read_nli_file(tmp_path / f"train.{ending}{asked}", split="train")

    first, second = split.examples
    assert first.uid == "u1"
    assert first.label == "neutral"
    assert first.premise == "A, b"
    assert first.hypothesis == 'say "c"'
    assert first.premise_tokens == ("A", ",", "b")
    assert second.uid == ("train:2" if ending == "jsonl" else "train:3")
    assert split.facts["file"] == f"train.{ending}{written}"


def own_rows(labels):
    """JSON lines of pairs with these labels; names of fields are in any case."""
    texts = {"Premise": "A", "HYPOTHESIS": "B"}
    return lines(*(texts | {"Label": label} for label in labels))


@pytest.mark.parametrize(
    "labels, values",
    table_rows("""
        | ["Entailment", " NEUTRAL", "-"]
        yes:entailment,No:neutral,-:- | ["YES", "no", "-"]
        0:entailment,2:neutral,-1:- | [0, 2, -1]
        entailment,not:neutral | ["entailment", "not"]
    """),
)
def test_labels_of_own_files_are_mapped_whatever_their_case(tmp_path, labels, values):
    named = Labels.of(labels) if labels else NLI_LABELS
    split = read(tmp_path / "train.jsonl", own_rows(json.loads(values)), labels=named)
    assert [example.label for example in split.examples] == ["entailment", "neutral"]
    counts = split.facts["labels"]
    assert [label for label in counts if counts[label]] == ["entailment", "neutral"]


@pytest.mark.parametrize("dev", ["validation", "validation_matched"])
def test_a_corpus_of_ones_own_may_call_dev_validation_and_leave_test_out(tmp_path, dev):
    write(tmp_path / "train.jsonl", own_rows(["neutral"]))
    write(tmp_path / f"{dev}.jsonl", own_rows(["neutral"]))
    splits = load_nli("file", tmp_path)
    assert list(splits) == ["train", "dev"]
    assert splits["dev"].facts["file"] == f"{dev}.jsonl"
    assert "no test file" in splits["dev"].facts["note"]


def test_a_corpus_of_ones_own_may_mix_formats(tmp_path):
    write(tmp_path / "train.tsv.gz", OWN["tsv"])
    write(tmp_path / "dev.csv", OWN["csv"].replace("u1", "u2"))
    splits = load_nli("file", tmp_path, limit=1)
    assert [len(split) for split in splits.values()] == [1, 2]
    assert [path.name for path in source_files("file", tmp_path)] == ["train.tsv.gz", "dev.csv"]


def test_two_names_of_a_field_may_agree(tmp_path):
    synonyms = {"label": " Neutral", "premise": PREMISE, "hypothesis": HYPOTHESIS, "uid": "a"}
    (example,) = read(tmp_path / "x.jsonl", lines(row("a", "neutral") | synonyms)).examples
    assert example.label == "neutral"


def test_columns_without_a_name_may_repeat(tmp_path):
    assert len(read(tmp_path / "x.csv", "premise,hypothesis,label,,\nA,B,neutral,,\n")) == 1


QUOTED = ['"He said ""no""."', '"a" and "b"', '""', '"""Well"" he said"', '"']


@pytest.mark.parametrize("ending", ["tsv", "txt"])
def test_quoted_cells_between_tabs_are_counted(tmp_path, ending):
    rows = "".join(f"{cell}\tB\tneutral\n" for cell in QUOTED)
    split = read(tmp_path / f"train.{ending}", f"premise\thypothesis\tlabel\n{rows}")
    assert [example.premise for example in split.examples] == QUOTED
    assert split.facts["quoted_cells"] == {"first_line": 2, "cells": 2}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("x.csv", 'premise,hypothesis,label\n"""a"" and ""b""",B,neutral\n'),
        ("x.jsonl", lines({"premise": '"a" and "b"', "hypothesis": "B", "label": "neutral"})),
    ],
)
def test_quotation_marks_of_csv_and_json_are_not_counted(tmp_path, file, content):
    split = read(tmp_path / file, content)
    assert split.examples[0].premise == '"a" and "b"'
    assert "quoted_cells" not in split.facts


def genre_rows(*genres):
    """JSON lines of one pair of each genre; its uid is the name of the split and a number."""
    return lines(*(row(f"{genre}{n}", genre=genre) for n, genre in enumerate(genres)))


def test_genres_of_multinli_are_read_alone_or_together(tmp_path):
    """The training file is of the release that the paper used."""
    train = genre_rows("slate", "travel", "slate", "fiction", "slate")
    write(tmp_path / "multinli_0.9_train.jsonl", train)
    write(tmp_path / "multinli_1.0_dev_matched.jsonl.gz", genre_rows("fiction", "slate"))

    slate = load_nli("multinli", tmp_path, genre="slate", limit=2)

    assert uids(slate["train"]) == ["slate0", "slate2"]
    (example,) = slate["dev"].examples
    assert example.uid == "slate1"
    assert example.tags == ("slate",)
    assert slate["dev"].facts["other_genres"] == 1
    assert [len(split) for split in load_nli("multinli", tmp_path).values()] == [5, 2]


TRUTH = "mednli_bionlp19_shared_task_ground_truth.csv"
LABELS = "t2,contradiction\nt0,entailment\nt1,neutral\n"


@pytest.fixture
def mediqa(tmp_path):
    """A data folder with mediqa_nli/, whose test pairs have no labels, and mednli/."""
    for split in ("train", "dev"):
        write(tmp_path / "mednli" / f"mli_{split}_v1.jsonl", lines(row(split)))
    test = [row(f"t{n}") for n in range(3)]
    for unlabelled in test:
        del unlabelled["gold_label"]
    write(tmp_path / "mediqa_nli" / "mednli_bionlp19_shared_task.jsonl", lines(*test))
    write(tmp_path / "mediqa_nli" / TRUTH, f"pair_id,label\n{LABELS}")
    return tmp_path


def test_mediqa_takes_its_labels_from_the_ground_truth(mediqa):
    test = load_nli("mediqa_nli", mediqa)["test"]
    labels = {example.uid: example.label for example in test.examples}
    assert labels == {"t0": "entailment", "t1": "neutral", "t2": "contradiction"}
    assert set(test.facts["read_with"]) == {TRUTH}


def test_the_ground_truth_may_lack_a_header(mediqa):
    examples = load_nli("mediqa_nli", mediqa)["test"].examples
    write(mediqa / "mediqa_nli" / TRUTH, LABELS)
    assert load_nli("mediqa_nli", mediqa)["test"].examples == examples


def test_mediqa_finds_train_and_dev_in_mednli_beside_its_own_folder(mediqa):
    splits = load_nli("mediqa_nli", mediqa / "mediqa_nli")
    files = {name: split.facts["file"] for name, split in splits.items()}
    assert files == CORPORA["mediqa_nli"].files
    sources = {path.name for path in source_files("mediqa_nli", mediqa)}
    assert sources == {*files.values(), TRUTH}


def test_snli_is_read_as_json_before_it_is_read_as_a_table(tmp_path):
    for split in ("train", "dev", "test"):
        table = f"{SNLI_HEADER}\n{snli_line(split, 'neutral', 'A', 'B')}"
        write(tmp_path / f"snli_1.0_{split}.txt", table)
    write(tmp_path / "snli_1.0_dev.jsonl.gz", lines(row("b")))
    files = [split.facts["file"] for split in load_nli("snli", tmp_path).values()]
    assert files == ["snli_1.0_train.txt", "snli_1.0_dev.jsonl.gz", "snli_1.0_test.txt"]


def split_of(name, **texts):
    """A split of pairs: uid="premise/hypothesis"."""
    examples = []
    for uid, text in texts.items():
        premise, hypothesis = text.split("/")
        examples.append(
            NLIExample(
                uid,
                premise,
                hypothesis,
                "neutral",
                ("p",),
                ("h",),
            )
        )
    return Split(name, tuple(examples), {"file": f"{name}.jsonl"})


SPLITS = {
    "train": split_of("train", a="x/h", b="x/h", c="y/h"),
    "dev": split_of("dev", d="z/h"),
    "test": split_of("test", e="x/h", f="x/another", g="z/h", i="new/h"),
}


def test_pairs_and_premises_of_earlier_splits_are_counted():
    assert check_disjoint(SPLITS) == SPLITS
    assert shared_texts(SPLITS) == {
        "dev": {"train": {"pairs": 0, "premises": 0}},
        "test": {"train": {"pairs": 1, "premises": 2}, "dev": {"pairs": 1, "premises": 1}},
    }
