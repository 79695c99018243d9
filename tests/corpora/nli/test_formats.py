"""Tables, triples, MEDIQA-NLI and files of one's own, on made-up files of the official layouts; and broken ones."""

import gzip
import json

import pytest

from mednli_jax.corpora.lines import MAX_RECORD_BYTES, csv_records
from mednli_jax.corpora.nli.files import source_files
from mednli_jax.corpora.nli.readers import CORPORA, load_nli, read_nli_file
from mednli_jax.errors import DataErrors, UserError

SECRET = "Zzyzx"  # stands for clinical text: must never show up in a message
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
    """The faults that reading raises, checked to hold no word of the sentences."""
    with pytest.raises(UserError) as caught:
        read(*arguments, **options)
    assert SECRET not in str(caught.value)
    for hidden in (caught.value.__cause__, caught.value.__context__):
        assert hidden is None or SECRET not in str(hidden)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    assert all(error.fix for error in errors)
    return [(error.code, error.file, error.line) for error in errors]


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
    assert split.examples[1].hypothesis_tokens == ("A", "5", '"', "nail", ".")  # a quote quotes nothing in TSV
    for fact in ("rows", "kept", "dropped_unlabelled", "labels", "tokens"):
        assert split.facts[fact] == same.facts[fact]


def test_a_row_of_a_table_may_end_before_unused_annotator_columns(tmp_path):
    path = write(tmp_path / "x.txt", tsv(snli_row("a")[:10], snli_row("b")))
    assert [pair.uid for pair in read(path).examples] == ["a", "b"]
    path = write(tmp_path / "y.txt", tsv(snli_row("a")[:8], snli_row("b")))
    assert faults(read, path) == [("E-DATA-023", "y.txt", 2)]


def test_multinli_table_keeps_genre_and_prompt(tmp_path):
    header = ["gold_label", "sentence1", "sentence2", "promptID", "pairID", "genre"]
    rows = [["neutral", "A b", "C", "31", "31n", "slate"], ["entailment", "D", "E", "32", "32e", "travel"]]
    path = write(tmp_path / "multinli_1.0_train.txt", tsv(*rows, header=header))
    (pair,) = read(path, genre="slate").examples
    assert (pair.uid, pair.group, pair.tags) == ("31n", "31", ("slate",))


def triple(folder, split="train", premises=("A man ( x )", "B ."), hypotheses=("C", "D"), labels=("neutral", "-")):
    for name, lines in (("s1", premises), ("s2", hypotheses), ("labels", labels)):
        write(folder / f"{name}.{split}", "".join(line + "\n" for line in lines))
    return folder / f"s1.{split}"


def test_triples_keep_their_tokens(tmp_path):
    path = triple(tmp_path, premises=("don't  ( x ) ''", "B ."), labels=("neutral", "contradiction"))
    split = read(path)
    first, second = split.examples
    assert first.premise_tokens == ("don't", "(", "x", ")", "''")  # tokenised already: nothing is split again
    assert (first.uid, second.uid, second.label) == ("s1.train:1", "s1.train:2", "contradiction")
    assert split.facts["tokens"] == {"binary parse": 0, "treebank": 0, "blanks": 2}
    assert set(split.facts["read_with"]) == {"s2.train", "labels.train"}
    (tmp_path / "s2.train").rename(tmp_path / "plain")
    write(tmp_path / "s2.train.gz", (tmp_path / "plain").read_bytes())
    assert read(path).examples == split.examples


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hypotheses": ("C",)}, [("E-DATA-028", "s2.train", 2)]),
        ({"labels": ("neutral", "neutral", "neutral")}, [("E-DATA-028", "s1.train", 3)]),
        ({"labels": ("neutral", SECRET)}, [("E-DATA-018", "labels.train", 2)]),
        ({"hypotheses": ("", "D"), "premises": ("A", SECRET)}, [("E-DATA-019", "s2.train", 1)]),
        ({"premises": (SECRET + "\0", "B")}, [("E-DATA-011", "s1.train", 1)]),
        ({"premises": (" ", SECRET), "labels": ("bad", "bad")}, [("E-DATA-018", "labels.train", n) for n in (1, 2)]),
    ],
)
def test_broken_triples_are_named_by_file_and_line(tmp_path, changes, expected):
    assert faults(read, triple(tmp_path, **changes)) == expected


def test_a_triple_of_two_files_is_no_triple(tmp_path):
    path = triple(tmp_path)
    (tmp_path / "labels.train").unlink()
    assert faults(read, path) == [("E-DATA-001", "labels.train", None)]


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
    assert faults(read, write(tmp_path / "x.csv", text)) == [("E-DATA-019", "x.csv", 5), ("E-DATA-018", "x.csv", 6)]
    split = read(write(tmp_path / "y.csv", 'label,premise,hypothesis\nneutral,"a\n\nb",c\n'))
    assert split.examples[0].premise == "a\n\nb"


def test_csv_records_follow_the_rfc(tmp_path):
    path = write(tmp_path / "x.csv", '"a","",,"b ""c"", d"\n\n1,2\n"last"')
    assert list(csv_records(path)) == [(1, ["a", "", "", 'b "c", d']), (3, ["1", "2"]), (4, ["last"])]


CSV = "label,premise,hypothesis\nneutral,a,b\n"
BROKEN = {
    "no such file": ("x.csv", None, ("E-DATA-001", None)),
    "no rows": ("x.csv", "label,premise,hypothesis\n", ("E-DATA-005", None)),
    "nothing at all": ("x.tsv", "", ("E-DATA-005", None)),
    "not gzip": ("x.tsv.gz", "plain", ("E-DATA-004", None)),
    "column missing": ("x.csv", f"premise,hypothesis\n{SECRET},b\n{SECRET},c\n", ("E-DATA-017", 1)),
    "column twice": ("x.csv", f"label,premise,label,hypothesis\n{SECRET},b,c,d\n", ("E-DATA-025", 1)),
    "header not UTF-8": ("x.tsv", b"label\tpremise\xff\n" + SECRET.encode(), ("E-DATA-010", 1)),
    "too few columns": ("x.csv", CSV + f"neutral,{SECRET}\n", ("E-DATA-023", 3)),
    "too many columns": ("x.csv", CSV + f"neutral,{SECRET},b,c\n", ("E-DATA-023", 3)),
    "only TABs": ("x.tsv", CSV.replace(",", "\t") + "\t\t\n", ("E-DATA-018", 3)),
    "unknown label": ("x.csv", CSV + f"{SECRET},a,b\n", ("E-DATA-018", 3)),
    "label of another case": ("x.csv", CSV + f"Neutral,{SECRET},b\n", ("E-DATA-018", 3)),
    "empty sentence": ("x.csv", CSV + f'neutral,{SECRET}," "\n', ("E-DATA-019", 3)),
    "uid twice": ("x.csv", f"uid,label,premise,hypothesis\nu,neutral,{SECRET},b\nu,neutral,c,d\n", ("E-DATA-020", 3)),
    "NUL": ("x.csv", CSV + f"neutral,{SECRET}\0,b\n", ("E-DATA-011", 3)),
    "wrong encoding": ("x.csv", CSV.encode() + f"neutral,{SECRET} caf".encode() + b"\xe9,b\n", ("E-DATA-010", 3)),
    "UTF-16": ("x.csv", CSV.encode("utf-16"), ("E-DATA-010", 1)),
    "wrong encoding inside a record": (
        "x.csv",
        CSV.encode() + f'neutral,"a\n{SECRET}'.encode() + b'\xff\nb",c\n',
        ("E-DATA-010", 4),
    ),
    "huge line": ("x.tsv", CSV.replace(",", "\t") + SECRET * 220_000 + "\n", ("E-DATA-012", 3)),
    "quote never closed": ("x.csv", CSV + f'neutral,"{SECRET},b\nneutral,c,d\n', ("E-DATA-024", 3)),
    "quote inside a plain cell": ("x.csv", CSV + f'neutral,{SECRET} "x" y,b\n', ("E-DATA-024", 3)),
    "text after a quoted cell": ("x.csv", CSV + f'neutral,"a" {SECRET},b\n', ("E-DATA-024", 3)),
    "broken JSON": ("x.jsonl", f'{{"premise": "{SECRET}', ("E-DATA-013", 1)),
    "a number for a sentence": ("x.jsonl", '{"premise": 3, "hypothesis": "b", "label": "neutral"}', ("E-DATA-015", 1)),
    "null for a label": ("x.jsonl", f'{{"premise": "{SECRET}", "hypothesis": "b", "label": null}}', ("E-DATA-015", 1)),
    "no hypothesis": ("x.jsonl", f'{{"premise": "{SECRET}", "label": "neutral"}}', ("E-DATA-017", 1)),
    "an array": ("x.jsonl", f'["{SECRET}"]', ("E-DATA-014", 1)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_broken_file_is_one_fault_by_code_and_line(tmp_path, case):
    name, content, expected = BROKEN[case]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert faults(read, path) == [(expected[0], name, expected[1])]


def test_truncated_gzip_of_each_format(tmp_path):
    for name, row in (("x.csv", "neutral,{n},b\n"), ("x.tsv", "neutral\t{n}\tb\n"), ("s1.train", "{n}\n")):
        text = {"x.csv": "label,premise,hypothesis\n", "x.tsv": "label\tpremise\thypothesis\n"}.get(name, "")
        text += "".join(row.format(n=f"{SECRET} {n * 7919 % 10007}") for n in range(3000))
        whole = gzip.compress(text.encode())
        (tmp_path / f"{name}.gz").write_bytes(whole[: len(whole) // 2])
    write(tmp_path / "s2.train", "h\n" * 3000)
    write(tmp_path / "labels.train", "neutral\n" * 3000)
    for name in ("x.csv", "x.tsv", "s1.train"):
        assert faults(read, tmp_path / name) == [("E-DATA-004", f"{name}.gz", None)]


def test_a_quote_that_never_closes_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(CSV.encode() + b'neutral,"' + (b"x" * 999 + b"\n") * (MAX_RECORD_BYTES // 1000 + 3000))
    read_lines = [item for item in csv_records(path) if not isinstance(item[1], list)]
    assert [(number, error.code) for number, error in read_lines] == [(3, "E-DATA-024")]


def test_first_twenty_faults_of_a_table_come_together(tmp_path):
    path = write(tmp_path / "x.csv", CSV + "".join(f"bad,{SECRET},{n}\n" for n in range(25)))
    assert faults(read, path) == [("E-DATA-018", "x.csv", line) for line in range(3, 23)]


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"x\.xlsx: the ending names no format.*\.tsv"):
        read(write(tmp_path / "x.xlsx", "a"))


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
    for place in (folder, folder / "mediqa_nli"):  # the corpus's own folder finds MedNLI beside it
        assert load_nli("mediqa_nli", place) == splits
    headless = mediqa(tmp_path / "b", "t0,entailment\nt1,neutral\nt2,contradiction\n")
    assert load_nli("mediqa_nli", headless)["test"].examples == splits["test"].examples


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        ("pair_id,label\nt0,neutral\nt2,neutral\n", [("E-DATA-027", TASK, 2)]),
        ("pair_id,label\nt0,neutral\nt1,neutral\nt2,neutral\nt9,neutral\n", [("E-DATA-026", TRUTH, 5)]),
        ("pair_id,label\nt0,neutral\nt1,neutral\nt2,neutral\nt1,entailment\n", [("E-DATA-020", TRUTH, 5)]),
        (f"pair_id,label\nt0,{SECRET}\nt1,neutral\nt2,-\n", [("E-DATA-018", TRUTH, 2), ("E-DATA-018", TRUTH, 4)]),
        ("pair_id,label\nt0,neutral,3\nt1,neutral\nt2,neutral\n", [("E-DATA-023", TRUTH, 2)]),
        (f'pair_id,label\nt0,"neutral\nt1,{SECRET}\n', [("E-DATA-024", TRUTH, 2)]),
        ("", [("E-DATA-027", TASK, n) for n in (1, 2, 3)]),
    ],
)
def test_mediqa_ground_truth_and_pairs_must_match(tmp_path, truth, expected):
    assert faults(load_nli, "mediqa_nli", mediqa(tmp_path, truth)) == expected


def test_mediqa_pairs_need_their_ids_and_their_files(tmp_path):
    nameless = json.dumps({"sentence1": SECRET, "sentence2": "b"})
    folder = mediqa(tmp_path, pairs=nameless + "\n")
    assert faults(load_nli, "mediqa_nli", folder) == [("E-DATA-017", TASK, 1)]
    (folder / "mediqa_nli" / TRUTH).unlink()
    (folder / "mednli" / "mli_dev_v1.jsonl").unlink()
    missing = faults(load_nli, "mediqa_nli", folder)
    assert missing == [("E-DATA-001", "mli_dev_v1.jsonl", None), ("E-DATA-001", TRUTH, None)]
    with pytest.raises(UserError, match=r"mli_dev_v1\.jsonl into \$MEDNLI_JAX_DATA/mednli/"):
        load_nli("mediqa_nli", folder)


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


def test_a_corpus_of_ones_own_with_faults(tmp_path):
    assert faults(load_nli, "file", own(tmp_path / "a", train_csv=OWN["csv"])) == [("E-DATA-001", "dev.jsonl", None)]
    with pytest.raises(UserError, match=r".*train\.tsv and train\.csv both hold train"):
        load_nli("file", own(tmp_path / "b", train_csv=OWN["csv"], train_tsv=OWN["tsv"], dev_csv=OWN["csv"]))
    shared = faults(load_nli, "file", own(tmp_path / "c", train_csv=OWN["csv"], dev_tsv=OWN["tsv"]))
    assert shared == [("E-DATA-021", "dev.tsv", None)]


def test_snli_is_found_as_json_then_as_table_then_as_triples(tmp_path):
    for split in ("train", "dev", "test"):
        triple(tmp_path / "snli", split)
    assert load_nli("snli", tmp_path)["dev"].facts["file"] == "s1.dev"
    for split in ("train", "dev", "test"):
        write(tmp_path / "snli" / f"snli_1.0_{split}.txt", tsv(snli_row(split)))
    assert load_nli("snli", tmp_path)["dev"].facts["file"] == "snli_1.0_dev.txt"
    write(tmp_path / "snli" / "snli_1.0_dev.jsonl.gz", json_lines("d"))
    assert load_nli("snli", tmp_path)["dev"].facts["file"] == "snli_1.0_dev.jsonl.gz"
