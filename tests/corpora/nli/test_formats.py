"""Tables, triples, MEDIQA-NLI and a user's own files: made-up files in the official layouts, and broken ones."""

import gzip
import json

import pytest

from mednli_jax.corpora.nli.files import source_files
from mednli_jax.corpora.nli.readers import CORPORA, load_nli, read_nli_file
from mednli_jax.errors import DataErrors, UserError

SECRET = "Zzyzx"  # stands for clinical text and must never occur in a message
SNLI_HEADER = [
    "gold_label",
    *(f"sentence{side}_{kind}" for kind in ("binary_parse", "parse") for side in (1, 2)),
    *("sentence1", "sentence2", "captionID", "pairID"),
    *(f"label{n}" for n in range(1, 6)),
]
TRUTH = "mednli_bionlp19_shared_task_ground_truth.csv"
TASK = "mednli_bionlp19_shared_task.jsonl"


def write(path, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def snli_row(uid="p1", label="neutral", premise="A man ( old ) sleeps .", hypothesis='He says " no " .', **more):
    parses = [f"( {s.replace('(', '-LRB-').replace(')', '-RRB-')} )" for s in (premise, hypothesis)]
    values = dict(zip(SNLI_HEADER, [label, *parses, "(X)", "(X)", premise, hypothesis, "c1", uid, label], strict=False))
    return [(values | more).get(name, "") for name in SNLI_HEADER]


def tsv(*rows, header=SNLI_HEADER):
    return "".join("\t".join(row) + "\n" for row in ([*header], *rows))


def faults(read, *arguments, **options):
    """The faults that reading raises. Checks that no message holds a word of the sentences."""
    with pytest.raises(UserError) as caught:
        read(*arguments, **options)
    assert SECRET not in str(caught.value)
    for hidden in (caught.value.__cause__, caught.value.__context__):
        assert hidden is None or SECRET not in str(hidden)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    assert all(error.fix for error in errors)
    return [(error.file, error.line, error.field) for error in errors]


def read(path, **options):
    return read_nli_file(path, split="train", **options)


@pytest.mark.parametrize("name", ["snli_1.0_train.txt", "snli_1.0_train.txt.gz"])
def test_snli_table_means_the_same_as_its_json(tmp_path, name):
    rows = [snli_row("a"), snli_row("b", "-"), snli_row("c", "entailment", "It rains .", 'A 5 " nail .')]
    split = read(write(tmp_path / name, tsv(*rows)))
    lines = [json.dumps(dict(zip(SNLI_HEADER, row, strict=True))) for row in rows]
    same = read(write(tmp_path / "snli_1.0_train.jsonl", "\n".join(lines)))
    assert split.examples == same.examples
    assert [pair.uid for pair in split.examples] == ["a", "c"]
    assert split.examples[0].premise_tokens == ("A", "man", "(", "old", ")", "sleeps", ".")
    # a quotation mark has no special meaning in TSV
    assert split.examples[1].hypothesis_tokens == ("A", "5", '"', "nail", ".")
    for fact in ("rows", "kept", "dropped_unlabelled", "labels", "tokens"):
        assert split.facts[fact] == same.facts[fact]


def test_a_row_of_a_table_may_end_before_unused_annotator_columns(tmp_path):
    path = write(tmp_path / "x.txt", tsv(snli_row("a")[:10], snli_row("b")))
    assert [pair.uid for pair in read(path).examples] == ["a", "b"]
    path = write(tmp_path / "y.txt", tsv(snli_row("a")[:8], snli_row("b")))
    assert faults(read, path) == [("y.txt", 2, None)]


def test_multinli_table_keeps_genre_and_prompt(tmp_path):
    header = ["gold_label", "sentence1", "sentence2", "promptID", "pairID", "genre"]
    rows = [["neutral", "A b", "C", "31", "31n", "slate"], ["entailment", "D", "E", "32", "32e", "travel"]]
    path = write(tmp_path / "multinli_1.0_train.txt", tsv(*rows, header=header))
    (pair,) = read(path, genre="slate").examples
    assert (pair.uid, pair.group, pair.tags) == ("31n", "31", ("slate",))


def triple(folder, split="train", premises=("A man ( x )", "B ."), hypotheses=("C", "D"), labels=("neutral", "-")):
    for name, lines in (("s1", premises), ("s2", hypotheses), ("labels", labels)):
        write(folder / f"{name}.{split}", "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"))
    return folder / f"s1.{split}"


def test_triples_keep_their_tokens(tmp_path):
    path = triple(tmp_path, premises=("don't  ( x ) ''", "B ."), labels=("neutral", "contradiction"))
    split = read(path)
    first, second = split.examples
    # triples are tokenised already, so nothing is split again
    assert first.premise_tokens == ("don't", "(", "x", ")", "''")
    assert (first.uid, second.uid, second.label) == ("s1.train:1", "s1.train:2", "contradiction")
    assert split.facts["tokens"] == {"binary parse": 0, "treebank": 0, "blanks": 2}
    assert set(split.facts["read_with"]) == {"s2.train", "labels.train"}
    (tmp_path / "s2.train").rename(tmp_path / "plain")
    write(tmp_path / "s2.train.gz", (tmp_path / "plain").read_bytes())
    assert read(path).examples == split.examples


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hypotheses": ("C",)}, [("s2.train", 2, None)]),
        ({"labels": ("neutral", "neutral", "neutral")}, [("s1.train", 3, None)]),
        ({"labels": ("neutral", SECRET)}, [("labels.train", 2, "gold_label")]),
        ({"hypotheses": ("", "D"), "premises": ("A", SECRET)}, [("s2.train", 1, "sentence2")]),
        ({"premises": (SECRET + "\udce9", "B")}, [("s1.train", 1, None)]),
        ({"premises": ("A", SECRET + "\udce9")}, [("s1.train", 2, None)]),  # both files have the same number of lines
        (
            {"premises": (SECRET + "\udce9", "B", "C"), "hypotheses": ("D", "", "E"), "labels": ("neutral",) * 3},
            [("s1.train", 1, None), ("s2.train", 2, "sentence2")],
        ),
        ({"premises": (" ", SECRET), "labels": ("bad", "bad")}, [("labels.train", n, "gold_label") for n in (1, 2)]),
    ],
)
def test_broken_triples_are_named_by_file_and_line(tmp_path, changes, expected):
    assert faults(read, triple(tmp_path, **changes)) == expected


def test_a_triple_of_two_files_is_no_triple(tmp_path):
    path = triple(tmp_path)
    (tmp_path / "labels.train").unlink()
    assert faults(read, path) == [("labels.train", None, None)]


OWN = {
    "jsonl": '{"premise": "A, b", "hypothesis": "say \\"c\\"", "label": "neutral", "uid": "u1"}\n'
    '{"premise": "D", "hypothesis": "E", "label": "entailment"}\n',
    "tsv": 'uid\tlabel\tpremise\thypothesis\nu1\tneutral\tA, b\tsay "c"\n\tentailment\tD\tE\n',
    "csv": '\ufeffuid,label,premise,hypothesis\r\nu1,neutral,"A, b","say ""c"""\r\n,entailment,D,E\r\n',
}


@pytest.mark.parametrize("ending", OWN)
@pytest.mark.parametrize("zipped", ["", ".gz"])
def test_own_files_of_each_kind_mean_the_same(tmp_path, ending, zipped):
    split = read(write(tmp_path / f"train.{ending}{zipped}", OWN[ending]))
    first, second = split.examples
    assert (first.uid, first.premise, first.hypothesis, first.label) == ("u1", "A, b", 'say "c"', "neutral")
    assert first.premise_tokens == ("A", ",", "b")
    assert second.uid == ("train:2" if ending == "jsonl" else "train:3")


def test_names_of_snli_and_plain_names_can_be_mixed(tmp_path):
    path = write(tmp_path / "train.csv", "gold_label,premise,sentence2,pairID\nneutral,a,b,q\n")
    assert read(path).examples[0].uid == "q"


def test_a_csv_cell_may_span_lines_and_faults_keep_their_line(tmp_path):
    text = f'label,premise,hypothesis\nneutral,"a\n\nb",c\nneutral,{SECRET},\n{SECRET},d,e\n'
    assert faults(read, write(tmp_path / "x.csv", text)) == [
        ("x.csv", 5, "hypothesis"),
        ("x.csv", 6, "label"),
    ]
    split = read(write(tmp_path / "y.csv", 'label,premise,hypothesis\nneutral,"a\n\nb",c\n'))
    assert split.examples[0].premise == "a\n\nb"
    latin = text.encode().replace(b"\n\nb", b"\n\n\xe9")
    assert faults(read, write(tmp_path / "z.csv", latin))[0] == ("z.csv", 4, None)


CSV = "label,premise,hypothesis\nneutral,a,b\n"


def test_first_twenty_faults_of_a_table_come_together(tmp_path):
    path = write(tmp_path / "x.csv", CSV + "".join(f"bad,{SECRET},{n}\n" for n in range(25)))
    assert faults(read, path) == [("x.csv", line, "label") for line in range(3, 23)]


def test_an_unknown_ending_is_refused(tmp_path):
    assert faults(read, write(tmp_path / "x.xlsx", "a")) == [("x.xlsx", None, None)]


def json_lines(name, size=3, label=True):
    rows = []
    for n in range(size):
        row = {"pairID": f"{name}{n}", "sentence1": f"{SECRET} {name} {n} .", "sentence2": f"h {n} ."}
        rows.append(json.dumps(row | ({"gold_label": "neutral"} if label else {})))
    return "\n".join(rows) + "\n"


def mediqa(folder, truth="pair_id,label\nt2,contradiction\nt0,entailment\nt1,neutral\n", pairs=None):
    for split in ("train", "dev"):
        write(folder / "mednli" / f"mli_{split}_v1.jsonl", json_lines(split))
    write(folder / "mediqa_nli" / TASK, pairs or json_lines("t", label=False))
    write(folder / "mediqa_nli" / TRUTH, truth)
    return folder


def test_mediqa_takes_its_labels_from_the_ground_truth_and_the_rest_from_mednli(tmp_path):
    folder = mediqa(tmp_path)
    splits = load_nli("mediqa_nli", folder)
    assert {name: split.facts["file"] for name, split in splits.items()} == CORPORA["mediqa_nli"].files
    labels = {pair.uid: pair.label for pair in splits["test"].examples}
    assert labels == {"t0": "entailment", "t1": "neutral", "t2": "contradiction"}
    assert set(splits["test"].facts["read_with"]) == {TRUTH}
    assert {path.name for path in source_files("mediqa_nli", folder)} == {*CORPORA["mediqa_nli"].files.values(), TRUTH}
    for place in (folder, folder / "mediqa_nli"):  # given its own folder, the corpus finds MedNLI beside it
        assert load_nli("mediqa_nli", place) == splits
    headless = mediqa(tmp_path / "b", "t0,entailment\nt1,neutral\nt2,contradiction\n")
    assert load_nli("mediqa_nli", headless)["test"].examples == splits["test"].examples


def test_mediqa_pairs_need_their_ids_and_their_files(tmp_path):
    nameless = json.dumps({"sentence1": SECRET, "sentence2": "b"})
    folder = mediqa(tmp_path, pairs=nameless + "\n")
    assert faults(load_nli, "mediqa_nli", folder) == [(TASK, 1, "pairID")]
    (folder / "mediqa_nli" / TRUTH).unlink()
    (folder / "mednli" / "mli_dev_v1.jsonl").unlink()
    missing = faults(load_nli, "mediqa_nli", folder)
    assert missing == [("mli_dev_v1.jsonl", None, None), (TRUTH, None, None)]


def own(folder, **contents):
    for name, content in contents.items():
        write(folder / name.replace("_", "."), content)
    return folder


def test_a_corpus_of_ones_own_may_mix_formats_and_leave_test_out(tmp_path):
    other = OWN["csv"].replace("u1", "u2").replace("A, b", "F").replace(",D,", ",G,")
    splits = load_nli("file", own(tmp_path, train_tsv_gz=OWN["tsv"], dev_csv=other), limit=1)
    assert {name: len(split) for name, split in splits.items()} == {"train": 1, "dev": 2}
    triple(tmp_path, "test", labels=("neutral", "neutral"))
    assert len(load_nli("file", tmp_path)["test"]) == 2
    assert [path.name for path in source_files("file", tmp_path)] == [
        *("train.tsv.gz", "dev.csv", "s1.test", "s2.test", "labels.test")
    ]


@pytest.mark.parametrize(
    ("name", "content", "says", "line"),
    [
        ("train.csv", "id,text1,text2,class\n", ("id, text1, text2, class",), 1),
        ("train.csv", "uid,Premise,Hypothesis,Label\n", ("'Label'", "'label'"), 1),
        ("train.csv", "premise;hypothesis;label\n", ("semicolons",), 1),
        ("train.csv", "premise\thypothesis\tlabel\n", ("TABs",), 1),
        ("train.tsv", "premise,hypothesis,label\n", ("commas",), 1),
        ("train.csv", f"{SECRET} one,{SECRET} two,neutral\n", ("header",), 1),
        ("train.csv", f"{SECRET} one,{SECRET} two,yes\n", (), 1),
        ("train.csv", f"premise,hypothesis,label\n{SECRET},{SECRET},Neutral\n", ("'neutral'",), 2),
        ("train.csv", f"premise,hypothesis,label\n{SECRET},{SECRET},{SECRET}\n", ("neutral",), 2),
        ("train.jsonl", f'{{"text1": "{SECRET}", "text2": "{SECRET}"}}\n', ("text1, text2",), 1),
    ],
)
def test_the_likely_cause_of_a_table_that_does_not_fit_is_named(tmp_path, name, content, says, line):
    path = write(tmp_path / name, content)
    assert faults(read, path)[0][:2] == (name, line)
    with pytest.raises(UserError) as caught:
        read(path)
    assert all(word in str(caught.value) for word in says)


def test_files_under_other_names_and_in_other_folders_are_named(tmp_path):
    write(tmp_path / "own" / "training.csv", "x")
    write(tmp_path / "data" / "physionet.org" / "1.0.0" / "mli_train_v1.jsonl", "x")
    for name, folder, found in (("file", "own", "training.csv"), ("mednli", "data", "1.0.0/mli_train_v1.jsonl")):
        with pytest.raises(UserError) as caught:
            load_nli(name, tmp_path / folder)
        assert found in str(caught.value)


def test_a_corpus_of_ones_own_with_faults(tmp_path):
    assert faults(load_nli, "file", own(tmp_path / "a", train_csv=OWN["csv"])) == [("dev.jsonl", None, None)]
    both = own(tmp_path / "b", train_csv=OWN["csv"], train_tsv=OWN["tsv"], dev_csv=OWN["csv"])
    assert faults(load_nli, "file", both) == [("train.tsv and train.csv", None, None)]
    shared = faults(load_nli, "file", own(tmp_path / "c", train_csv=OWN["csv"], dev_tsv=OWN["tsv"]))
    assert shared == [("dev.tsv", None, "pairID")]


def test_snli_is_found_as_json_then_as_table_then_as_triples(tmp_path):
    for split in ("train", "dev", "test"):
        triple(tmp_path / "snli", split)
    assert load_nli("snli", tmp_path)["dev"].facts["file"] == "s1.dev"
    for split in ("train", "dev", "test"):
        write(tmp_path / "snli" / f"snli_1.0_{split}.txt", tsv(snli_row(split)))
    assert load_nli("snli", tmp_path)["dev"].facts["file"] == "snli_1.0_dev.txt"
    write(tmp_path / "snli" / "snli_1.0_dev.jsonl.gz", json_lines("d"))
    assert load_nli("snli", tmp_path)["dev"].facts["file"] == "snli_1.0_dev.jsonl.gz"
