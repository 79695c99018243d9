"""Prediction by a finished run: the input it takes, and equal predictions for the texts of its own
corpus."""

import io
import json
import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from support.commands import at, call_command, config_flag, json_lines, read_json
from support.files import lay_out
from support.ontology_files import umls_name, umls_relation, umls_type
from support.pair_files import write_rows

from mednli_jax import evaluate, predict, prepare, tasks, train
from mednli_jax.data.examples import LABELS
from mednli_jax.errors import DataError, DataErrors, RunError, UserError
from mednli_jax.report import __main__ as report
from mednli_jax.run import load_run

SECRET = "zyzzyva"
# Tokenisers disagree about these: inner sentence ends, list numbers, bullets, lone numbers, other
# scripts.
TEXTS = (
    "Has diabetes. A1c was 8.3. On insulin.",
    "1. CAD\n2. HTN.\n3. DM type 2. On metformin",
    "- gout.\n- asthma\n* no fever",
    "120/80. 98.6. 42",
    "42",
    "糖尿病. 高血圧. Évolue bien",
    "•",
    "Seen by Dr. Smith at St. John vs. home, e.g. q.d. 5 mg ... Then left.",
    'said "no pain." (left.) Then [**Name. 12**] came.',
    "pt. denies pain. pt. well",
)


def write_files(folder):
    """Writes a user's own corpus; the test split copies three training pairs."""
    for split, numbers in {
        "train": range(60),
        "dev": range(60, 80),
        "test": (*range(80, 97), 0, 1, 2),
    }.items():
        names = ("sentence1", "sentence2", "gold_label")
        rows = [(TEXTS[i % 10], TEXTS[(3 * i + i // 10) % 10], LABELS[i % 3]) for i in numbers]
        write_rows(folder / f"{split}.jsonl", (dict(zip(names, row, strict=True)) for row in rows))


def given_of(folder, split):
    return json_lines(folder, f"{split}.jsonl")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a corpus in own/ and a finished run in run/."""
    home = tmp_path_factory.mktemp("home")
    write_files(home / "own")
    small = (
        "--config.model.hidden_size=8",
        "--config.vectors.dim=8",
        "--config.train.epochs=2",
        "--config.seeds=0,1",
    )
    with at(home):
        code, _, err = call_command(
            train, config_flag("bow", "file"), "--config.data.dir=own", *small, "--workdir=run"
        )
    assert code == 0, err
    return home


@pytest.fixture
def run(home):
    return load_run(home / "run")


def test_a_corpuss_own_texts_get_the_stored_predictions(home, run):
    with at(home):
        for split in ("train", "dev", "test"):
            rows = run.scorer.predictions(run.prepared.splits[split], run.scores(split)[1])
            if split != "train":  # training predictions are not stored
                assert rows == json_lines(home, "run", "private", f"predictions.{split}.jsonl")
            found = run.predict(given_of(home / "own", split))
            for row, expected in zip(found, rows, strict=True):
                mean = np.mean(expected["probabilities"], axis=0)  # over the two seeds
                np.testing.assert_allclose([row[label] for label in LABELS], mean, atol=1e-5)
        assert run.predict([("another. Text", "of two. Sentences")])[0] != pytest.approx(
            found[0], abs=1e-4
        )


def test_a_run_scored_on_other_arrays_stays_as_it_is(home, run):
    with at(home):
        of_dev, of_test = (run.scores(split)[0] for split in ("dev", "test"))
        other = run.having(replace(run.prepared, splits={"test": run.prepared.splits["dev"]}))
        assert other.scores("test")[0] == of_dev != of_test
        assert run.scores("test")[0] == of_test
    with pytest.raises(FrozenInstanceError):
        run.prepared = other.prepared


def test_pairs_of_a_split_that_an_earlier_one_has_are_a_warning(home):
    assert read_json(home, "run", "result.json")["shared"]["test"]["train"]["pairs"] == 3
    warning = "warning: test: 3 of 20 pairs are in train, too"
    assert warning in (home / "run" / "log.txt").read_text()
    flags = ("--config.data.dir=own", "--config.vectors.dim=8")
    with at(home):
        code, _, err = call_command(prepare, config_flag("bow", "file"), *flags)
    assert (code, warning in err) == (0, True)


def test_what_a_folder_lacks_is_a_warning_and_the_kept_epoch_is_logged(home, run):
    epochs = ", ".join(map(str, run.result.best_epoch))
    assert (
        f"best epoch {epochs} (lowest dev loss): dev accuracy "
        in (home / "run" / "log.txt").read_text()
    )
    for split in ("train", "dev"):
        texts = (home / "own" / f"{split}.jsonl").read_text().replace("neutral", "entailment")
        (home / "few").mkdir(exist_ok=True)
        (home / "few" / f"{split}.jsonl").write_text(texts)
    with at(home):
        code, _, err = call_command(prepare, config_flag("bow", "file"), "--config.data.dir=few")
    assert (code, "warning: The folder has no test file" in err) == (0, True), err
    assert "warning: train: no pair has the label neutral;" in err


def test_a_pair_has_the_same_answer_in_any_company_and_programs_are_shared(home, run, monkeypatch):
    """Later parts of an input reuse the programs of the first; lengths and repeated premises
    differ."""
    words = ("gout", "asthma", "pain", "denies", "Has", "42")
    pairs = [
        (
            " ".join(words[: n % 6 + 1] * (1 + (n > 80) * 3)) if n % 3 == 0 else "asthma .",
            words[n % 6],
        )
        for n in range(133)
    ]
    one_by_one = [run.predict([pair])[0] for pair in pairs]
    assert len(run._program.compiled) < 8
    monkeypatch.setattr(predict, "CHUNK", 30)
    with at(home):
        code, out, err = call_command(
            predict, "--run=run", stdin="".join("\t".join(pair) + "\n" for pair in pairs)
        )
    assert code == 0, err
    rows = [line.split("\t") for line in out.splitlines()[1:]]
    many = run.predict(pairs * 9)  # more than one bucket of lengths
    for number, expected in enumerate(one_by_one):
        for found in (
            map(float, rows[number][1:]),
            many[number].values(),
            many[133 * 8 + number].values(),
        ):
            np.testing.assert_allclose(
                list(found), [expected[label] for label in LABELS], atol=2e-6
            )
    assert len(rows) == len(pairs)
    assert "133 pairs" in err


@pytest.mark.parametrize("bad", [SECRET, "", f'["{SECRET}", "b"]'])
def test_a_bad_line_ends_the_part_that_it_stands_in(home, monkeypatch, bad):
    monkeypatch.setattr(predict, "CHUNK", 2)
    good = ["Has gout. Well\t42", json.dumps({"premise": "Has gout. Well", "hypothesis": "42"})]
    with at(home):
        code, out, err = call_command(
            predict, "--run=run", stdin="\n".join([*good, "e\tf", bad, "g\th", ""])
        )
    assert code == 2
    _, first, second = out.splitlines()
    assert first == second
    assert re.findall(r"stdin:\d", err) == ["stdin:4"]
    assert SECRET not in err


PAIR = ("Has gout. Well", "42")
FILES = {
    "in.csv": 'id,Hypothesis,label,Premise\n"7, a",42,neutral,"Has gout.\nWell"\n',
    "in.tsv": "id\tsentence2\tlabel\tsentence1\n7, a\t42\tneutral\tHas gout. Well\n",
    "in.jsonl": '{"id": "7, a", "premise": "Has gout. Well", "hypothesis": "42", "label": "neutral"}\n',
}


@pytest.mark.parametrize("file", FILES)
def test_a_files_further_columns_are_kept_beside_its_predictions(home, run, file):
    (home / file).write_text(FILES[file])
    expected = run.predict([PAIR])[0]
    with at(home):
        for output in ("out.jsonl", "out.tsv"):
            code, out, err = call_command(
                predict, "--run=run", f"--input={file}", f"--output={output}"
            )
            assert (code, out) == (0, ""), err
        code, out, _ = call_command(predict, "--run=run", f"--input={file}")
        assert (code, out.splitlines()[0]) == (0, "\t".join(("label", *LABELS)))
    (row,) = json_lines(home, "out.jsonl")
    names, cells = (line.split("\t") for line in (home / "out.tsv").read_text().splitlines())
    assert names == list(row) == ["id", "label", "predicted", *LABELS]
    assert (
        cells[:3] == list(row.values())[:3] == ["7, a", "neutral", max(expected, key=expected.get)]
    )
    for values in (cells, list(row.values())):
        np.testing.assert_allclose(list(map(float, values[3:])), list(expected.values()), atol=2e-6)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        (
            "in.tsv",
            f"id\tpremise\thypothesis\n1\t{SECRET}\n",
            "in.tsv:2: expected 3 fields, as in the header, found 2",
        ),
        ("in.tsv", f"1\t{SECRET}\t{SECRET}\n", "expected 2 fields, found 3"),
        ("in.csv", f"premise,text\n{SECRET},b\n", "in.csv:1: the header has no column hypothesis"),
        ("in.jsonl", f"{SECRET}\tb\n", "in.jsonl:1: "),
        (
            "in.csv",
            f"premise,hypothesis,id,ID\n{SECRET},b,1,2\n",
            "in.csv:1: two columns have the same name",
        ),
        (
            "in.tsv",
            f"premise\thypothesis\tPremise\n{SECRET}\tb\tc\n",
            "in.tsv:1: two columns have the same name",
        ),
        (
            "in.jsonl",
            f'{{"premise": "{SECRET}", "premise": "a", "hypothesis": "b"}}\n',
            "in.jsonl:1: ",
        ),
        (
            "in.jsonl",
            f'{{"premise": "{SECRET}", "Premise": "a", "hypothesis": "b"}}\n',
            "in.jsonl:1: ",
        ),
        ("in.tsv", f"premise\tsentence1\thypothesis\n{SECRET}\ta\tb\n", "in.tsv:2: "),
        ("in.csv", "", "in.csv: "),
        ("in.xlsx", SECRET, "--input=in.xlsx"),
    ],
)
def test_a_bad_file_leaves_no_output(home, file, content, says):
    (home / file).write_text(content)
    with at(home):
        code, out, err = call_command(predict, "--run=run", f"--input={file}", "--output=none.tsv")
    assert (code, out, says in err, SECRET in err) == (2, "", True, False), err
    assert not (home / "none.tsv").exists()


DRUGS = {
    "MRCONSO.RRF": umls_name("C0000001", "insulin", preferred=True)
    + umls_name("C0000002", "metformin"),
    "MRSTY.RRF": umls_type("C0000001", "T121"),
    "MRREL.RRF": umls_relation("C0000001", "PAR", "C0000002"),
}
LINKS = ("--config.knowledge.ontology=umls", "--config.knowledge.types=")


@pytest.mark.parametrize(
    ("config", "flags"), [("esim", ("--config.data.hypothesis_only=True",)), ("esim_kd", LINKS)]
)
def test_another_corpus_is_read_and_encoded_as_the_runs_own(tmp_path, config, flags):
    """The other config names the corpus alone; the ontology is where the run found it, not in the
    other folder."""
    write_files(tmp_path / "own")
    write_files(tmp_path / "there")
    lay_out(tmp_path / "own" / "umls", DRUGS)
    reads = ("--config.data.max_length=3", "--config.data.keep=last")
    small = ("--config.model.hidden_size=4", "--config.vectors.dim=8", "--config.train.epochs=1")
    with at(tmp_path):
        own = ("--config.data.dir=own", "--workdir=run")
        code, _, err = call_command(
            train, config_flag(config, "file"), *reads, *small, *flags, *own
        )
        assert code == 0, err
        there = (
            config_flag("esim", "file"),
            "--config.data.dir=there",
            "--config.data.lowercase=False",
        )
        code, out, err = call_command(evaluate, "--run=run", *there, "--json")
        assert code == 0, err
        result = read_json(tmp_path, "run", "result.json")
        assert json.loads(out)["confusion"] == result["test"]["confusion"]


def test_trees_of_features_predict_what_they_stored(tmp_path):
    write_files(tmp_path / "own")
    with at(tmp_path):
        flags = (
            "--config.data.dir=own",
            "--config.vectors.dim=8",
            "--config.model.trees=5",
            "--config.seeds=0,1",
        )
        code, _, err = call_command(train, config_flag("features", "file"), *flags, "--workdir=run")
        assert code == 0, err
        run = load_run(tmp_path / "run")
        found = run.predict(given_of(tmp_path / "own", "test"))
        stored = json_lines(tmp_path, "run", "private", "predictions.test.jsonl")
        for row, line in zip(found, stored, strict=True):
            expected = np.mean(line["probabilities"], axis=0)
            np.testing.assert_allclose([row[label] for label in LABELS], expected, atol=1e-5)
        result = read_json(tmp_path, "run", "result.json")
        assert sum(row["mean"] for row in result["importance"]["features"]) == pytest.approx(1)
        assert run.scores("test")[0]["accuracy"] == result["test"]["accuracy"]
        assert call_command(report, "run")[0] == 0
        source = (
            "--config.data.dir=own",
            "--config.vectors.dim=8",
            "--config.transfer.init_from=run",
        )
        code, _, err = call_command(train, config_flag("bow", "file"), *source, "--workdir=other")
        assert (code, err.splitlines()[-1].startswith("error: run: ")) == (2, True)
        path = tmp_path / "run" / "private" / "trees.json"
        path.write_text(path.read_text().replace("0.1", "0.2", 1))
        with pytest.raises(RunError, match=r"trees\.json"):
            load_run(tmp_path / "run")


def test_dicts_lists_and_tuples_are_one_pair(run):
    forms = [
        ("Has gout. Well", "42"),
        ["Has gout. Well", "42"],
        {"premise": "Has gout. Well", "hypothesis": "42", "sentence1": None},
        {"gold_label": "neutral", "sentence1": "Has gout. Well", "sentence2": "42"},
    ]
    first, *others = run.predict(forms)
    for row in others:
        assert row == pytest.approx(first, abs=1e-6)
    with pytest.raises(DataErrors) as caught:
        run.predict([forms[0], SECRET[:2], SECRET])
    assert [error.file for error in caught.value.errors] == ["item 1", "item 2"]
    with pytest.raises(UserError, match=r"^the model 'bow' of this run has no attention"):
        run.attention(forms)


def test_predictions_are_a_list_with_what_was_unknown_or_cut(run):
    """They are values: a later call leaves them as they are."""
    first = run.predict([("42 zyx", "42"), ("gout " * 60, "no fever")])
    later = run.predict([("42", "zyx")])
    none = run.predict([])
    assert isinstance(first, list)
    assert [len(first), len(later), none] == [2, 1, []]
    assert first[0].keys() == set(LABELS)
    assert (first.unknown_words, first.truncated) == (
        {"premise": 1, "hypothesis": 0},
        {"premises": 1},
    )
    assert (later.unknown_words, later.truncated) == ({"premise": 0, "hypothesis": 1}, {})
    assert (none.unknown_words, none.truncated) == ({"premise": 0, "hypothesis": 0}, {})


@pytest.mark.parametrize(
    ("task", "item"),
    [
        ("nli", "ab"),
        ("nli", (SECRET, SECRET, SECRET)),
        ("nli", (SECRET, " \n")),
        ("nli", {"premise": SECRET, "hypothesis": None}),
        ("nli", {"premise": SECRET, "sentence1": "other", "hypothesis": "b"}),
        ("nli", (SECRET, "a\0")),
        ("cloze", {"premise": SECRET, "hypothesis": "@placeholder"}),
    ],
)
def test_any_other_item_is_refused_by_its_index(task, item):
    good = ("a", "b @placeholder" if task == "cloze" else "b")
    with pytest.raises(DataError, match=r"^item 2: .* Fix: ") as caught:
        tasks.named(task).form.pairs([good, good, item])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "task"), [("Sentence1\tSentence2 ", "nli"), ("passage\tquery", "cloze")]
)
def test_a_header_is_no_pair(header, task, capsys):
    lines = io.BytesIO(f"{header}\npremise\tis hypothesis @placeholder".encode())
    expected = [[(("premise", "is hypothesis @placeholder"), {})]]
    assert list(predict.read_chunks(lines, tasks.named(task).form)) == expected
    assert capsys.readouterr().err.startswith("warning: ")


def test_the_first_line_of_a_file_that_names_no_column_is_told(tmp_path, capsys):
    (tmp_path / "new.tsv").write_text("pre\thyp\nA cat.\tA pet.\n")
    with open(tmp_path / "new.tsv", "rb") as file:
        assert (
            len(*predict.read_chunks(file, tasks.named("nli").form, source=tmp_path / "new.tsv"))
            == 2
        )
    assert (
        "new.tsv: line 1 does not name the columns premise and hypothesis"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("kind", ["tsv", "txt", "csv", "jsonl", ""])
def test_quoted_cells_between_tabs_are_a_warning_with_their_number(tmp_path, capsys, kind):
    cells = [(f'"{SECRET} ""no""."', '"a" or "b"'), ('""', '"""'), ("a", '"""b"" c"')]
    row = {"csv": '"{}","{}"\n', "jsonl": '["{}", "{}"]\n'}.get(kind, "{}\t{}\n")
    escaped = {"csv": '""', "jsonl": '\\"'}.get(kind, '"')
    path = tmp_path / f"in.{kind}"
    path.write_text(
        "".join(row.format(*(cell.replace('"', escaped) for cell in pair)) for pair in cells)
    )
    with open(path, "rb") as file:
        chunks = list(predict.read_chunks(file, tasks.named("nli").form, 2, path if kind else None))
    assert [pair for chunk in chunks for pair, _ in chunk] == cells
    err = capsys.readouterr().err
    assert ("2 cells with quotes" in err) is (kind not in ("csv", "jsonl"))
    assert (f"{path.name if kind else 'stdin'}:1: " in err) is (kind not in ("csv", "jsonl"))
    assert SECRET not in err
