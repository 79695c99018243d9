"""Prediction by a finished run: the input it takes, and equal predictions for the texts of its own
corpus."""

import csv
import decimal
import io
import json
import os
import re
import threading
from collections import Counter
from dataclasses import replace
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.cases import cases
from support.commands import (
    at,
    config_flag,
    json_lines,
    printed_json,
    read_json,
    refused,
    succeeds,
)
from support.compiler import compiled
from support.files import lay_out, lines
from support.ontology_files import umls_name, umls_relation, umls_type
from support.pair_files import SECRET, write_rows
from support.tables import table_rows
from support.trees import assert_near

from mednli_jax import evaluate, load_run, predict, prepare, tasks, train
from mednli_jax.data.examples import LABELS
from mednli_jax.errors import DataError, DataErrors, RunError, UserError
from mednli_jax.report import __main__ as report

# Tokenisers disagree about sentence ends, list numbers, bullets, lone numbers and scripts.
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
OWN = ("--config.data.dir=own", "--config.vectors.dim=8")
PAIR = ("Has gout. Well", "42")


def write_corpus(folder):
    """Writes a user's own corpus; the test split copies three training pairs."""
    splits = {"train": range(60), "dev": range(60, 80), "test": (*range(80, 97), 0, 1, 2)}
    for split, numbers in splits.items():
        rows = []
        for i in numbers:
            texts = {"sentence1": TEXTS[i % 10], "sentence2": TEXTS[(3 * i + i // 10) % 10]}
            rows.append({**texts, "gold_label": LABELS[i % 3]})
        write_rows(folder / f"{split}.jsonl", rows)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a corpus in own/ and a finished run in run/."""
    home = tmp_path_factory.mktemp("home")
    write_corpus(home / "own")
    small = ("--config.model.hidden_size=8", "--config.train.epochs=2", "--config.seeds=0,1")
    with at(home):
        succeeds(train, config_flag("bow", "file"), *OWN, *small, "--workdir=run")
    return home


@pytest.fixture
def at_home(home):
    with at(home):
        yield


@pytest.fixture
def run(home):
    return load_run(home / "run")


def check_means(predictions, stored):
    """Predictions are the means over the seeds of stored rows."""
    for prediction, row in zip(predictions, stored, strict=True):
        mean_C = np.mean(row["probabilities"], axis=0)
        probability_C = [prediction[label] for label in LABELS]
        assert_near(np.array(probability_C), mean_C, atol=1e-5)


# -- the run's own corpus, and another -------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_the_texts_of_a_corpus_get_the_stored_predictions(at_home, run, split):
    rows = run.scorer.predictions(run.prepared.splits[split], run.score(split)[1])

    if split != "train":  # training predictions are not stored
        assert rows == json_lines(f"run/private/predictions.{split}.jsonl")
    check_means(run.predict(json_lines(f"own/{split}.jsonl")), rows)


def test_predictions_depend_on_the_texts(run):
    first, second = run.predict([PAIR, ("another. Text", "of two. Sentences")])

    assert first != pytest.approx(second, abs=1e-4)


def test_a_run_scored_on_another_corpus_stays_as_it_is(at_home, run):
    of_dev, of_test = (run.score(split)[0] for split in ("dev", "test"))

    moved = run.with_arrays(replace(run.prepared, splits={"test": run.prepared.splits["dev"]}))

    assert moved.score("test")[0] == of_dev != of_test
    assert run.score("test")[0] == of_test


def test_pairs_that_two_splits_share_are_a_warning(at_home, home):
    warning = "warning: test: 3 of 20 pairs are in train, too"

    assert read_json("run/result.json")["shared"]["test"]["train"]["pairs"] == 3
    assert warning in (home / "run" / "log.txt").read_text()
    assert warning in succeeds(prepare, config_flag("bow", "file"), *OWN)[1]


def test_a_folder_without_a_test_file_or_a_label_is_a_warning(at_home, home):
    (home / "few").mkdir()
    for split in ("train", "dev"):
        texts = (home / "own" / f"{split}.jsonl").read_text()
        (home / "few" / f"{split}.jsonl").write_text(texts.replace("neutral", "entailment"))

    _, err = succeeds(prepare, config_flag("bow", "file"), "--config.data.dir=few")

    assert "warning: The folder has no test file" in err
    assert "warning: train: no pair has the label neutral;" in err


def test_the_epoch_that_is_used_is_logged(home, run):
    epochs = ", ".join(map(str, run.result.best_epoch))

    log = (home / "run" / "log.txt").read_text()
    assert f"best epoch {epochs} (lowest dev loss): dev accuracy " in log


DRUGS = {
    "MRCONSO.RRF": umls_name("C0000001", "insulin", preferred=True)
    + umls_name("C0000002", "metformin"),
    "MRSTY.RRF": umls_type("C0000001", "T121"),
    "MRREL.RRF": umls_relation("C0000001", "PAR", "C0000002"),
}
# The number of links is no power of two, so that those of new texts are padded.
LINKS = (
    "--config.knowledge.ontology=umls",
    "--config.knowledge.types=",
    "--config.knowledge.max_links=3",
)


@pytest.fixture(
    scope="module",
    params=[("esim", ("--config.data.hypothesis_only=True",)), ("esim_kd", LINKS)],
    ids=["hypothesis only", "with links"],
)
def short_texts(request, tmp_path_factory):
    """A folder with a corpus in own/, and in run/ a run of it whose texts are cut to three
    tokens."""
    config, flags = request.param
    folder = tmp_path_factory.mktemp("short")
    write_corpus(folder / "own")
    lay_out(folder / "own" / "umls", DRUGS)
    reads = ("--config.data.max_length=3", "--config.data.keep=last")
    small = ("--config.model.hidden_size=4", "--config.train.epochs=1", "--workdir=run")
    with at(folder):
        succeeds(train, config_flag(config, "file"), *OWN, *reads, *small, *flags)
    return folder


def test_new_texts_are_cut_and_encoded_as_in_training(short_texts):
    with at(short_texts):
        predictions = load_run("run").predict(json_lines("own/test.jsonl"))

        check_means(predictions, json_lines("run/private/predictions.test.jsonl"))


def test_another_corpus_is_read_and_encoded_as_the_corpus_of_the_run(short_texts):
    """The other config names the corpus alone; the ontology is where the run found it, not in the
    other folder."""
    write_corpus(short_texts / "there")
    there = ("--config.data.dir=there", "--config.data.lowercase=False")

    with at(short_texts):
        scores = printed_json(evaluate, "--run=run", config_flag("esim", "file"), *there)

    result = read_json(short_texts, "run", "result.json")
    assert scores["confusion"] == result["test"]["confusion"]


# -- trees of features -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """A folder with a corpus in own/ and a run of the feature-based system in run/."""
    home = tmp_path_factory.mktemp("trees")
    write_corpus(home / "own")
    flags = (*OWN, "--config.model.trees=5", "--config.seeds=0,1", "--workdir=run")
    with at(home):
        succeeds(train, config_flag("features", "file"), *flags)
    return home


def test_trees_of_features_predict_the_stored_predictions(trees):
    with at(trees):
        run = load_run("run")
        check_means(
            run.predict(json_lines("own/test.jsonl")),
            json_lines("run/private/predictions.test.jsonl"),
        )
        result = read_json("run/result.json")
        assert run.score("test")[0]["accuracy"] == result["test"]["accuracy"]
        succeeds(report, "run")


def test_trees_of_features_are_no_source_of_weights(trees):
    flags = ("--config.transfer.init_from=run", "--workdir=transferred")

    with at(trees):
        message = refused(train, config_flag("bow", "file"), *OWN, *flags)

    assert "run: has trees and no weights" in message


def test_changed_trees_are_refused(trees):
    path = trees / "run" / "private" / "trees.json"
    text = path.read_text()
    path.write_text(text.replace("0.1", "0.2", 1))

    with at(trees), pytest.raises(RunError, match=r"trees\.json"):
        load_run("run").predict([PAIR])

    path.write_text(text)


# -- other pairs -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(home):
    """133 pairs of several lengths, some with equal premises, and the prediction of each alone."""
    words = ("gout", "asthma", "pain", "denies", "Has", "42")
    pairs = []
    for n in range(133):
        premise = " ".join(words[: n % 6 + 1] * (4 if n > 80 else 1))
        pairs.append((premise if n % 3 == 0 else "asthma .", words[n % 6]))
    run = load_run(home / "run")
    return pairs, [probabilities(run.predict(pair)) for pair in pairs]


def probabilities(prediction):
    _, *probability_C = prediction.values()
    return probability_C


def test_a_pair_has_the_same_prediction_alone_and_among_other_pairs(run, alone):
    pairs, expected = alone

    predictions = run.predict(pairs * 9)  # more than one bucket of lengths

    for first in (0, 133 * 8):
        among_others = list(map(probabilities, predictions[first : first + 133]))
        assert_near(among_others, expected, atol=2e-6)


def test_a_pair_has_the_same_prediction_from_the_command_as_from_python(at_home, alone):
    pairs, expected = alone
    stdin = "".join(f"{premise}\t{hypothesis}\n" for premise, hypothesis in pairs)

    out, err = succeeds(predict, "--run=run", stdin=stdin)

    rows = [list(map(float, line.split("\t")[1:])) for line in out.splitlines()[1:]]
    assert_near(rows, expected, atol=2e-6)
    assert "133 pairs" in err


def test_chunks_of_an_input_are_predicted_as_one_and_counted_together(run):
    chunks = chunks_of("gout\t42\nzyx\tzyx\nasthma .\tpain\n", size=2)
    counts = predict.Counts(Counter(), Counter())

    rows = [prediction for prediction, _ in predict.predictions(run, chunks, counts)]

    whole = run.predict(
        [
            ("gout", "42"),
            ("zyx", "zyx"),
            ("asthma .", "pain"),
        ]
    )
    assert rows == [pytest.approx(row, abs=1e-6) for row in whole]
    assert counts.unknown == {"lines": 3, **whole.unknown_words}


@pytest.mark.parametrize("sizes, even", [((8, 8, 3), (8, 5, 6)), ((8, 8), (8, 8)), ((3,), (3,))])
def test_the_last_two_chunks_are_equally_long(sizes, even):
    lines = iter(range(sum(sizes)))
    chunks = list(predict.with_even_end([list(islice(lines, size)) for size in sizes]))

    assert tuple(map(len, chunks)) == even
    assert list(chain(*chunks)) == list(range(sum(sizes)))


def test_lists_of_any_length_share_few_programs(home, alone, caplog):
    run, pairs = load_run(home / "run"), alone[0][:64]
    assert compiled(caplog, lambda: run.warm_up([(24, 1)])) > 0

    def predict_all():
        for pair in pairs:
            run.predict([pair])
        for count in range(2, 65, 3):
            run.predict(pairs[:count])

    assert compiled(caplog, predict_all) == 0


def test_texts_up_to_the_lengths_that_were_warmed_up_need_no_program(home, caplog):
    run = load_run(home / "run")
    assert compiled(caplog, lambda: run.warm_up([(50, 40)])) > 0

    def predict_all():
        for lengths in ((2, 3), (40, 3), (3, 40), (50, 33)):
            pair = tuple(" ".join(["gout"] * length) for length in lengths)
            for count in (1, 9):
                run.predict([pair] * count)

    assert compiled(caplog, predict_all) == 0


# -- pairs from Python -----------------------------------------------------------------------------


def test_dicts_lists_and_tuples_are_one_pair(run):
    premise, hypothesis = PAIR
    forms = [
        PAIR,
        list(PAIR),
        {"premise": premise, "hypothesis": hypothesis, "sentence1": None},
        {"gold_label": "neutral", "sentence1": premise, "sentence2": hypothesis},
    ]

    first, *later = run.predict(forms)

    for row in later:
        assert row == pytest.approx(first, abs=1e-6)


def test_items_that_are_no_pairs_are_all_named(run):
    with pytest.raises(DataErrors) as caught:
        run.predict([PAIR, SECRET[:2], SECRET])

    assert [error.file for error in caught.value.errors] == ["item 1", "item 2"]


@pytest.mark.parametrize(
    "task, pair",
    table_rows(rf"""
        nli | "ab"
        nli | ["{SECRET}", "{SECRET}", "{SECRET}"]
        nli | ["{SECRET}", " \n"]
        nli | {{"premise": "{SECRET}", "hypothesis": null}}
        nli | {{"premise": "{SECRET}", "sentence1": "other", "hypothesis": "b"}}
        nli | ["{SECRET}", "a\u0000"]
        cloze | {{"premise": "{SECRET}", "hypothesis": "@placeholder"}}
    """),
)
def test_what_is_no_pair_is_refused_by_its_index(task, pair):
    good = ("a", "b @placeholder" if task == "cloze" else "b")

    with pytest.raises(DataError, match=r"^item 2: .* Fix: ") as caught:
        tasks.task_named(task).form.texts_of_all([good, good, json.loads(pair)])

    assert SECRET not in str(caught.value)


def test_a_model_without_attention_has_no_maps(run):
    with pytest.raises(UserError, match=r"^the model 'bow' of this run has no attention"):
        run.attention([PAIR])


def test_predictions_are_a_list_with_unknown_and_cut_words(run):
    """They are values: a later call leaves them as they are."""
    first = run.predict([("42 zyx", "42"), ("gout " * 60, "no fever")])
    later = run.predict([("42", "zyx")])

    assert isinstance(first, list)
    assert [row.keys() for row in first] == [{"label", *LABELS}] * 2
    assert first.unknown_words == {"premise": 1, "hypothesis": 0}
    assert first.truncated == {"premises": 1}
    assert (later.unknown_words, later.truncated) == ({"premise": 0, "hypothesis": 1}, {})


def test_an_empty_list_of_pairs_gets_no_predictions(run):
    predictions = run.predict([])

    assert (predictions, predictions.truncated) == ([], {})
    assert predictions.unknown_words == {"premise": 0, "hypothesis": 0}


# -- lines and files of input ----------------------------------------------------------------------


@cases(
    "bad",
    {
        "word": SECRET,
        "blank": "",
        "list": f'["{SECRET}", "b"]',
    },
)
def test_a_bad_line_is_named_and_gets_no_prediction(at_home, bad):
    good = ["Has gout. Well\t42", json.dumps({"premise": "Has gout. Well", "hypothesis": "42"})]

    message = refused(predict, "--run=run", stdin="\n".join([*good, bad, "g\th", ""]))

    assert re.findall(r"stdin:\d", message) == ["stdin:3"]


def chunks_of(text, size=None, source=None, task="nli"):
    stream = io.BytesIO(text.encode())
    return predict.read_chunks(stream, tasks.task_named(task).form, size, source)


def test_a_bad_line_ends_the_chunk_in_which_it_stands():
    chunks = chunks_of(f"a\tb\nc\td\ne\tf\n{SECRET}\ng\th\n", size=2)

    assert [line.texts for line in next(chunks)] == [("a", "b"), ("c", "d")]
    with pytest.raises(DataError, match=r"^stdin:4: "):
        next(chunks)


COLUMNS = {
    "in.csv": 'id,Hypothesis,label,Premise\n"7, a",42,neutral,"Has gout.\nWell"\n',
    "in.tsv": "id\tsentence2\tlabel\tsentence1\n7, a\t42\tneutral\tHas gout. Well\n",
    "in.jsonl": lines(
        {"id": "7, a", "premise": "Has gout. Well", "hypothesis": "42", "label": "neutral"}
    ),
}


@pytest.mark.parametrize("output", ["out.jsonl", "out.tsv"])
@pytest.mark.parametrize("file", COLUMNS)
def test_further_columns_of_a_file_stand_beside_its_predictions(at_home, home, run, file, output):
    (home / file).write_text(COLUMNS[file])
    (expected,) = run.predict([PAIR])

    out, _ = succeeds(predict, "--run=run", f"--input={file}", f"--output={output}")

    assert out == ""
    (row,) = rows_of(home / output)
    assert list(row) == ["id", "label", "predicted", *LABELS]
    cells = list(row.values())
    assert cells[:3] == ["7, a", "neutral", expected["label"]]
    probability_C = [float(cell) for cell in cells[3:]]
    assert_near(probability_C, probabilities(expected), atol=2e-6)


@cases(
    "file, content",
    {
        "a bad row": ("in.tsv", f"id\tpremise\thypothesis\n1\t{SECRET}\n"),
        "an empty file": ("in.csv", ""),
        "no format": ("in.xlsx", SECRET),
    },
)
def test_a_bad_file_leaves_no_output(at_home, home, file, content):
    (home / file).write_text(content)

    assert file in refused(predict, "--run=run", f"--input={file}", "--output=none.tsv")

    assert not (home / "none.tsv").exists()


@pytest.mark.parametrize(
    ("header", "task"), [("Sentence1\tSentence2 ", "nli"), ("passage\tquery", "cloze")]
)
def test_predict_takes_a_header_for_no_pair(header, task, capsys):
    ((line,),) = chunks_of(f"{header}\npremise\tis hypothesis @placeholder", task=task)

    assert line.texts == ("premise", "is hypothesis @placeholder")
    assert capsys.readouterr().err.startswith("warning: ")


def test_a_file_of_snli_is_read_as_in_training(tmp_path):
    """Its lines may end before the last annotators' labels, and its last line may be blank."""
    text = "sentence1\tsentence2\tlabel1\tlabel2\nA cat.\tA pet.\tneutral\nB\tC\n\n"

    path = tmp_path / "new.txt"
    path.write_text(text)

    (chunk,) = chunks_of("", source=path)

    assert [line.texts for line in chunk] == [("A cat.", "A pet."), ("B", "C")]
    assert chunk[1].columns == {"label1": "", "label2": ""}


QUOTED = [
    (f'"{SECRET} ""no""."', '"a" or "b"'),
    ('""', '"""'),
    ("a", '"""b"" c"'),
]


@pytest.mark.parametrize(
    ("kind", "row", "quote", "warned"),
    [
        ("in.tsv", "{}\t{}\n", '"', True),
        ("in.txt", "{}\t{}\n", '"', True),
        ("stdin", "{}\t{}\n", '"', True),
        ("in.csv", '"{}","{}"\n', '""', False),
        ("in.jsonl", '["{}", "{}"]\n', '\\"', False),
    ],
)
def test_quoted_cells_between_tabs_are_a_warning_with_their_number(
    tmp_path, capsys, kind, row, quote, warned
):
    is_table = kind.endswith((".tsv", ".txt", ".csv"))
    text = row.format("premise", "hypothesis") if is_table else ""
    for pair in QUOTED:
        text += row.format(*(cell.replace('"', quote) for cell in pair))
    (tmp_path / kind).write_text(text)

    chunks = list(chunks_of(text, 2, None if kind == "stdin" else tmp_path / kind))

    assert [line.texts for chunk in chunks for line in chunk] == QUOTED
    err = capsys.readouterr().err
    assert (f"{kind}:{1 + is_table}: " in err, "2 cells with quotes" in err) == (warned, warned)
    assert SECRET not in err


def rows_of(path):
    """The rows of a file that `predict --output` wrote, as texts; absent values are ""."""
    if path.suffix == ".parquet":
        rows = parquet.read_table(path).to_pylist()
    elif path.suffix == ".jsonl":
        rows = json_lines(path.parent, path.name)
    else:
        with open(path, newline="") as file:
            dialect = "excel-tab" if path.suffix == ".tsv" else "excel"
            rows = list(csv.DictReader(file, dialect=dialect))
    return rows


OUTPUTS = ("out.csv", "out.tsv", "out.jsonl", "out.parquet")


@pytest.mark.parametrize("output", OUTPUTS)
def test_fields_that_earlier_lines_of_json_lack_are_kept(at_home, home, output):
    first, second = ({"premise": f"Note {n}.", "hypothesis": "Well."} for n in range(2))
    (home / "ragged.jsonl").write_text(lines({**first, "a": "x"}, {**second, "b": "y"}))

    succeeds(predict, "--run=run", "--input=ragged.jsonl", f"--output={output}")

    rows = rows_of(home / output)
    assert [[row.get(name) or "" for name in "ab"] for row in rows] == [["x", ""], ["", "y"]]
    if output != "out.jsonl":
        assert list(rows[0]) == ["a", "b", "predicted", *LABELS]


TYPED = {
    "time": pa.array([1_700_000_000_123_456], pa.timestamp("us")),
    "nanoseconds": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")),
    "decimal": pa.array([decimal.Decimal("1.50")]),
    "nested": pa.array([{"a": [decimal.Decimal("2.5")]}]),
    "number": pa.array([float("nan")]),
    "infinite": pa.array([float("-inf")]),
}
AS_TEXTS = {
    "time": "2023-11-14 22:13:20.123456",
    "nanoseconds": "2023-11-14 22:13:20.123456789",
    "decimal": "1.50",
    "infinite": "-inf",
}
# Of types or with values that Python lacks.
ARROW_ALONE = {
    "raw": pa.array([b"\xff"]),
    "duration": pa.array([1], pa.duration("ns")),
    "times": pa.array([[1]], pa.list_(pa.timestamp("ns"))),
    "far": pa.array([10**15], pa.timestamp("ms")),
    "nowhere": pa.array([1], pa.timestamp("us", "Nowhere/Bad")),
}
FURTHER = {
    **ARROW_ALONE,
    "large": pa.array([2**63 + 1], pa.uint64()),
    "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
}
NEW = {"premise": [b"Note."], "hypothesis": ["Well."]}


@pytest.mark.parametrize("output", OUTPUTS[:3])
def test_columns_of_parquet_are_kept_whatever_their_type(at_home, home, output):
    parquet.write_table(pa.table({**NEW, **TYPED}), home / "typed.parquet")

    succeeds(predict, "--run=run", "--input=typed.parquet", f"--output={output}")

    (row,) = rows_of(home / output)
    assert row | AS_TEXTS == row
    assert "2.5" in str(row["nested"])
    assert row["number"] in ("", None)


def test_columns_of_parquet_stay_as_they_are_in_parquet(at_home, home):
    parquet.write_table(pa.table({**NEW, **FURTHER}), home / "further.parquet")

    succeeds(predict, "--run=run", "--input=further.parquet", "--output=out.parquet")

    before, after = map(parquet.read_table, ("further.parquet", "out.parquet"))
    assert after.select(list(FURTHER)).equals(before.select(list(FURTHER)))


@pytest.mark.parametrize("column", ARROW_ALONE)
def test_a_column_that_a_text_file_cannot_hold_is_refused_before_prediction(at_home, home, column):
    parquet.write_table(pa.table({**NEW, column: ARROW_ALONE[column]}), home / "raw.parquet")

    message = refused(predict, "--run=run", "--input=raw.parquet", "--output=out.jsonl")

    assert f"the column '{column}' holds bytes or a time that .jsonl cannot hold" in message


@cases("value", {"a large number": 2**64, "no field": {}})
def test_a_column_that_parquet_cannot_hold_is_refused(at_home, home, value):
    (home / "odd.jsonl").write_text(lines({"premise": "a", "hypothesis": "b", "odd": value}))

    message = refused(predict, "--run=run", "--input=odd.jsonl", "--output=out.parquet")

    assert "of the input fits no one type of Parquet" in message


def test_blanks_of_texts_stay_in_a_table(at_home, home):
    (home / "blanks.csv").write_text('premise,hypothesis,note\na,b,"  two  \tblanks\n"\n')

    succeeds(predict, "--run=run", "--input=blanks.csv", "--output=out.tsv")

    assert rows_of(home / "out.tsv")[0]["note"] == "  two   blanks "


@pytest.mark.parametrize("column", ["predicted", "neutral", "Predicted"])
def test_no_column_of_the_user_is_overwritten(at_home, home, column):
    (home / "clash.csv").write_text(f"premise,hypothesis,{column}\nNote.,Well.,mine\n")

    message = refused(predict, "--run=run", "--input=clash.csv", "--output=none.csv")

    assert f"the input has a column '{column}' already" in message
    assert not (home / "none.csv").exists()


def test_columns_without_a_name_are_kept_under_their_number(at_home, home):
    (home / "unnamed.csv").write_text("premise,,hypothesis,\nNote.,1,Well.,2\n")

    succeeds(predict, "--run=run", "--input=unnamed.csv", "--output=out.csv")

    (row,) = rows_of(home / "out.csv")
    assert (row["column 2"], row["column 4"]) == ("1", "2")


@pytest.mark.parametrize("name", ["pipe.csv", "pipe.parquet", "pipe"])
def test_an_input_may_be_a_named_pipe(at_home, home, name):
    parquet.write_table(pa.table(NEW), home / "new.parquet")
    content = {"pipe.csv": b"premise,hypothesis\nNote.,Well.\n", "pipe": b"Note.\tWell.\n"}
    content["pipe.parquet"] = (home / "new.parquet").read_bytes()
    os.mkfifo(home / name)
    writer = threading.Thread(target=(home / name).write_bytes, args=(content[name],))
    writer.start()

    succeeds(predict, "--run=run", f"--input={name}", "--output=out.csv")

    writer.join()
    assert len(rows_of(home / "out.csv")) == 1


def test_a_line_of_a_pipe_without_an_ending_is_named_by_the_flag(tmp_path):
    (tmp_path / "63").write_text("premise,hypothesis\n")

    with pytest.raises(DataError, match=r"^--input=.*/63:1: is not a pair"):
        next(chunks_of("", source=tmp_path / "63"))


def test_half_a_surrogate_pair_in_a_further_field_is_written_as_its_escape(tmp_path):
    output = io.BytesIO()
    predict.write_rows([({"note": "\ud83d"}, {})], output, tmp_path / "out.jsonl")

    assert json.loads(output.getvalue()) == {"note": "\ud83d"}
