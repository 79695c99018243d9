"""Bad files and bad flags are refused in one line, which names file, line and field, or the flag,
and quotes no word of the text. refusals.toml has the files, the flags and the lines."""

import io
import re
import tomllib
from functools import partial
from pathlib import Path

import diskne_from_pairs
import pytest
from build_queries import read_reports
from mimic_notes import past_medical_history
from support.commands import call_command, run_python, succeeds
from support.files import as_bytes, write_files, zipped
from support.mention_files import split_of
from support.ontologies import small
from support.pair_files import HYPOTHESIS, PREMISE, WORDS, assert_no_words, pair, pairs
from support.runs import GOLD, write_run
from support.tables import table_rows

from mednli_jax import api, cli, tasks
from mednli_jax.cloze import scores, stats
from mednli_jax.cloze.clicr import read_clicr
from mednli_jax.data.examples import Answer, ClozeExample, Entity, NLIExample, Passage
from mednli_jax.data.labels import NLI_LABELS
from mednli_jax.data.partitions import read_partition
from mednli_jax.data.pieces import PieceVocabulary
from mednli_jax.data.text import SPECIALS
from mednli_jax.data.vectors import load_vectors
from mednli_jax.diskne.data import read_published
from mednli_jax.errors import DataErrors, UsageError, UserError
from mednli_jax.knowledge import retrofit
from mednli_jax.knowledge.mentions import read_mentions
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.knowledge.readers.obo import read_obo
from mednli_jax.knowledge.readers.snomed import read_snomed
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.knowledge.readers.wordnet import read_wordnet
from mednli_jax.nli.read.corpora import CORPORA
from mednli_jax.nli.read.pair_rows import EVIDENCE, nli4ct_rows, rqe_rows
from mednli_jax.nli.read.readers import read_answers, read_nli_file
from mednli_jax.nli.tables import categories
from mednli_jax.predict import read_chunks
from mednli_jax.rundir import RunDirectory

TABLE = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text())
ALL = OntologyOptions(relations="all")
SIDES = (tuple(PREMISE.split()), tuple(HYPOTHESIS.split()))
PAIRS = split_of(NLIExample("p1", PREMISE, HYPOTHESIS, "neutral", *SIDES))
PASSAGE = Passage("r", (), ("quokka",), (Entity(0, 1),), (1,))
QUERY = ClozeExample("r0.0", PASSAGE, ("@placeholder",), (), 0, (Answer("quokka"),))


def read_truth(path):
    return read_nli_file(path.parent / "x.jsonl", split="test", ground_truth=path)


def read_diseases(path):
    pairs = [NLIExample("a", PREMISE, "a quokka", "entailment", ("x",), ("y",))]
    ontology = small([], ("quokka", "wombat"), ids=("C1", "C2"))
    return read_published([path], pairs, ontology)


def new(task):
    """Reads the inputs of `predict`."""
    form = tasks.task_named(task).form
    return lambda path: list(read_chunks(io.BytesIO(), form, source=path))


def read_vectors(path):
    return load_vectors(path, (*SPECIALS, "quokka", "wombat"), dim=3, seed=0)


def in_folder(read):
    """Reads the folder of a file."""
    return lambda path: read(path.parent, ALL)


read_pairs = partial(read_nli_file, split="train")
READERS = {
    "pairs_jsonl": read_pairs,
    "pairs_tsv": read_pairs,
    "pairs_csv": read_pairs,
    "ground_truth": read_truth,
    "new_pairs_tsv": new("nli"),
    "new_pairs_csv": new("nli"),
    "new_pairs_jsonl": new("nli"),
    "new_queries": new("cloze"),
    "nli4ct": partial(
        read_pairs, rows=nli4ct_rows, labels=CORPORA["nli4ct"].labels, columns=EVIDENCE
    ),
    "rqe": partial(read_pairs, rows=rqe_rows, labels=CORPORA["rqe"].labels),
    "labels_of_a_system": lambda path: read_answers(path, "test", ("u0", "u1"), NLI_LABELS),
    "notes": lambda path: list(past_medical_history(path)),
    "categories": categories.read_categories,
    "partition": read_partition,
    "clicr": read_clicr,
    "case_reports": read_reports,
    "answers": partial(scores.read_answers, queries=[QUERY]),
    "skills": stats.read_skills,
    "diseases": read_diseases,
    "concept_vectors": partial(diskne_from_pairs.read_vectors, concepts=("C1",)),
    "mesh": read_mesh,
    "umls": in_folder(read_umls),
    "snomed": in_folder(read_snomed),
    "wordnet": in_folder(read_wordnet),
    "obo": partial(read_obo, options=ALL),
    "spans": partial(read_mentions, splits=PAIRS),
    "metamap": partial(read_mentions, splits=PAIRS),
    "lexicon": retrofit.read_lexicon,
    "vectors_txt": read_vectors,
    "vectors_bin": read_vectors,
    "pieces": lambda path: PieceVocabulary.of_weights(path.parent),
}
UNZIPPED = {"umls", "snomed", "pieces"}  # whose files may not be gzipped


@pytest.fixture(autouse=True)
def _at_data(tmp_path, monkeypatch):
    """The working folder data/, which is the data folder, too; cache/ lies beside it."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))


def main_of(name):
    reader = TABLE[name]
    return reader.get("main", next(iter(reader["files"])))


def good_content(name):
    return as_bytes(TABLE[name]["files"][main_of(name)])


def write(name, content):
    """Writes the good files of a reader, with this content of its main file."""
    write_files(Path(), {**TABLE[name]["files"], main_of(name): content})


def write_row(name, row):
    """Writes the files of a reader with the change of a row."""
    files = {**TABLE[name]["files"], **row.get("files", {})}
    file = row.get("file", main_of(name))
    if "content" in row:
        files[file] = row["content"]
    elif "add" in row:
        files[file] += f"{row['add']}\n"
    elif "replace" in row:
        files[file] = files[file].replace(*row["replace"])
    write_files(Path(), files | dict.fromkeys(row.get("lacks", ())))


def command_of(row):
    reader = TABLE["commands"]
    return f"{row.get('command', reader['command'])} {row.get('flags', '')}"


def refusal(name):
    """The error of a reader of its files."""
    with pytest.raises(UserError) as caught:
        READERS[name](Path(main_of(name)))
    error = caught.value
    assert_no_words(str(error))
    return error.errors[0] if isinstance(error, DataErrors) else error


def refused(call):
    """The message of a command that is refused, prints nothing else and leaves nothing."""
    code, out, err = call_command(call)
    assert (code, out) == (cli.USAGE, ""), err
    assert_no_words(err)
    cached = {path.name for path in Path("../cache").rglob("*")}
    assert cached <= {".gitignore", "prepared", "sources.json", "tfds"}
    return err.removeprefix("error: ").removesuffix("\n").replace(str(Path.cwd()), "$PWD")


@pytest.mark.parametrize(
    "name, fault", [(name, fault) for name, reader in TABLE.items() for fault in reader["bad"]]
)
def test_a_bad_file_or_flag_is_refused_in_one_line(name, fault):
    row = TABLE[name]["bad"][fault]
    write_row(name, row)
    message = refused(command_of(row)) if name == "commands" else str(refusal(name))

    wanted = re.escape(row["message"]).replace(re.escape("[...]"), ".+")
    assert re.fullmatch(wanted, message), message
    assert all(" Fix: " in line for line in message.splitlines())


@pytest.mark.parametrize("name", TABLE["commands"]["good"])
def test_an_odd_file_is_read(name):
    row = TABLE["commands"]["good"][name]
    write_row("commands", row)

    printed = "".join(succeeds(command_of(row)))

    for text in row["prints"]:
        assert text in printed
    assert row.get("never_prints", "bug: ") not in printed
    assert_no_words(printed)


@pytest.mark.parametrize(
    "call, words",
    table_rows("""
        report a unfinished | unfinished:
        # two corpora
        report a mednli |
        report a b --compare --split=train | --split=dev
        report --table=3 --runs=absent | absent
        report --table=3 | --runs
        report damaged-metrics | metrics.jsonl
        report a --compare |
        report absent | absent
        predict | --run=
        predict a | --run=a
        evaluate --run=a --split=tset | mean 'test'?
        report damaged-data | damaged-data
        predict --run=damaged-model | damaged-model/model.json: / Fix: export the run again
    """),
)
def test_runs_that_do_not_fit_are_one_line(call, words):
    for name in ("a", "b", "damaged-metrics", "damaged-data"):
        write_run(Path(name), GOLD)
    write_run(Path("unfinished"), GOLD, status="interrupted")
    write_run(Path("mednli"), GOLD, corpus="mednli")
    Path("damaged-metrics/metrics.jsonl").write_text("quokka\n")
    Path("damaged-data/data.json").write_text('{"splits": ')
    write_files(
        Path("damaged-model"),
        {
            "config.json": '{"task": "nli"}',
            "model.json": '{"result": {"status": "complete"}, "sha256": "0"}',
        },
    )

    message = refused(call)
    for text in words.split(" / "):
        assert text in message
    assert "\n" not in message


def test_thirty_errors_are_the_first_twenty_and_a_count():
    """Equal errors are one, with their number and the first three lines."""
    wrong_labels = [pair(n, gold_label=WORDS[n % 5]) for n in range(9)]
    repeated_ids = [pair(n // 2) for n in range(20, 82)]  # every second has the id before it
    write_row("commands", {"content": pairs(99, *wrong_labels, *repeated_ids)})

    named = f"{TABLE['commands']['command']} --config.data.labels=entailment,neutral,contradiction"
    first, *lines, last = refused(named).splitlines()
    assert first.startswith("train.jsonl:2: field 'gold_label' is none of")
    assert "(9 times, in lines 2, 3, 4, ...). Fix: " in first
    assert len(lines) == 19
    assert "12 more" in last


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads_its_good_file_gzipped_or_plain(name):
    good = good_content(name)
    for content in (good,) if name in UNZIPPED else (good, zipped(good)):
        write(name, content)
        READERS[name](Path(main_of(name)))


# ---- byte order marks ----

MARK = "\ufeff"
HEADS_OF_WORDS = re.compile(r'(?<=["\s,|_])(?=quokka|wombat|C000000|u0)')


def at_heads(text):
    """The text with marks at the heads of words, of the file and of its second line."""
    marked = HEADS_OF_WORDS.sub(MARK, text)
    return MARK + re.sub(r"(?<=\n)(?=.)", MARK, marked, count=1)


def as_escapes(text):
    """JSON with escaped marks at the heads of words."""
    return HEADS_OF_WORDS.sub(r"\\ufeff", text)


def marked_files():
    """A reader, and its file with marks. Arrays of numbers and vocabularies of pieces have no
    words."""
    for name in READERS:
        text = good_content(name).decode()
        if name not in ("vectors_bin", "pieces"):
            yield pytest.param(name, at_heads(text), id=name)
        if text.startswith("{"):
            yield pytest.param(name, as_escapes(text), id=f"{name}, escaped")


@pytest.mark.parametrize(("name", "marked"), list(marked_files()))
def test_a_byte_order_mark_at_the_start_of_a_file_or_within_it_is_part_of_no_word(name, marked):
    """Files that were joined from several hold such marks at the heads of lines."""
    results = []
    for content in (good_content(name), as_bytes(marked)):
        write(name, content)
        result = ascii(READERS[name](Path(main_of(name))))
        results.append(re.sub(r"[0-9a-f]{64}|0x[0-9a-f]+", "", result))  # digests and addresses

    assert as_bytes(marked) != good_content(name)
    assert results[0] == results[1]


# ---- damage that every reader meets ----


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"snomed", "pieces"}))  # may lack it
def test_a_missing_file_is_named_by_every_reader(name):
    write(name, None)
    assert str(refusal(name)).startswith(main_of(name))


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"pieces"}))  # may lack its last letters
def test_a_file_that_is_cut_off_is_named_by_every_reader(name):
    good = good_content(name)
    if name in UNZIPPED:
        write(name, good[: -(len(good.splitlines()[-1]) // 2)])
    else:
        write(name, zipped(good)[:-9])
    assert str(refusal(name)).startswith(main_of(name))


# The last row of concept vectors is of a concept that is not asked for; pieces may be any bytes.
NOT_BY_LINES = {"nli4ct", "rqe", "clicr", "answers", "vectors_bin", "concept_vectors", "pieces"}


@pytest.mark.parametrize("name", sorted(READERS.keys() - NOT_BY_LINES))
def test_a_line_that_is_not_utf8_is_named(name):
    good = good_content(name)
    write(name, good + b"\xe9\n")
    error = refusal(name)
    assert (error.file, error.line) == (main_of(name), 1 + good.count(b"\n"))


# ---- the exit codes of commands in processes of their own ----

PREPARE = f"-m mednli_jax.{TABLE['commands']['command']}".split()
A_BUG = """
import sys
from mednli_jax import __main__, experiment
del experiment.experiment_of
sys.exit(__main__.main())
"""


@pytest.mark.parametrize(
    "code, words, start",
    [
        (cli.OK, PREPARE, ""),
        (cli.USAGE, [*PREPARE, "--config.data.dir=absent"], "error: "),
        (cli.INTERRUPTED, ["-m", "mednli_jax.train", *PREPARE[2:], "--workdir=run"], "error: "),
        (cli.BUG, ["-c", A_BUG, "prepare", *PREPARE[2:]], "bug: "),
    ],
)
def test_a_command_ends_with_the_exit_code_of_its_outcome(code, words, start, tmp_path):
    """Another process holds the folder run/."""
    write_row("commands", {})
    run = RunDirectory.create("run", {})
    ended = run_python(*words, cwd=Path())
    run.close()

    assert ended.returncode == code, ended.stderr
    assert ended.stderr.startswith(start)
    assert_no_words(ended.stdout + ended.stderr)


# ---- addresses ----

PATHS = {
    "train": "workdir",
    "predict": "run input output",
    "evaluate": "run workdir probe spans predictions vectors skills",
    "prepare": "metamap",
    "analyze": "spans features skills out",
    "report": "skills runs categories_file paths out",
    "doctor": "data",
}
NO_PATHS = ("gs://bucket/run", "s3://bucket/run", "file:///tmp/run", "hdfs:/run", "", " ")


@pytest.mark.parametrize("text", NO_PATHS)
@pytest.mark.parametrize("command", PATHS)
def test_an_address_or_nothing_is_no_path_of_a_flag(command, text):
    for name in PATHS[command].split():
        assert f"--{name}" in refused(f"{command} '--{name}={text}'")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("text", NO_PATHS)
@pytest.mark.parametrize("variable", ["MEDNLI_JAX_CACHE", "MEDNLI_JAX_DATA"])
def test_an_address_or_nothing_is_no_path_of_a_variable(variable, text, monkeypatch):
    monkeypatch.setenv(variable, text)

    assert f"${variable}" in refused("prepare --config=bow:demo --config.vectors.path=")
    assert list(Path("..").iterdir()) == [Path("../data")]


@pytest.mark.parametrize("text", ["gs://bucket/run", ""])
def test_an_address_or_nothing_is_no_path_of_the_interface(text):
    with pytest.raises(UsageError, match="Fix: "):
        api.train_model("bow:demo", text)
    with pytest.raises(UsageError, match="Fix: "):
        api.load_run(text)
    assert list(Path().iterdir()) == []
