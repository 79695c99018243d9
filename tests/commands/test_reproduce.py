"""`reproduce`: the runs of each paper and their flags, failures and kills, and, at tiny sizes, the
way to the filled tables."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.canaries import words_in, write_pairs
from support.cases import cases
from support.cloze import PHRASES, write_articles
from support.commands import call_command, environment_of, read_json, run_python, succeeds
from support.diskne_paper import write_published
from support.files import write, write_program
from support.mednli_paper import write_everything
from support.pair_files import SECRET
from support.runs import change
from support.weights import write_weights

from mednli_jax import planning, tasks
from mednli_jax.data.cache import Cache
from mednli_jax.errors import RunError, UsageError
from mednli_jax.nli.tables.runs import TABLES
from mednli_jax.report.options import Request
from mednli_jax.rundir import FORMAT
from mednli_jax.tasks import plans


@pytest.fixture
def data(tmp_path, monkeypatch):
    write_everything(tmp_path / "data")
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def planned(paper, corpus, *only, tables=(), **arguments):
    """({name of a job that can be done: its words}, {missing data: names})."""
    plan = plans()[paper]
    request = Request(Path("runs"), corpus, corpus, tables or plan.numbers, **arguments)
    jobs = planning.jobs_of(plan, request, only)
    return {job.name: set(job.words) for job in jobs.jobs}, jobs.lacking


def named(jobs, word):
    """The jobs with a word that begins so."""
    return {name for name, words in jobs.items() if any(w.startswith(word) for w in words)}


def test_every_published_cell_of_mednli_is_trained_with_six_seeds(data):
    jobs, lacking = planned("mednli", "mednli")

    assert lacking == {}
    assert len(named(jobs, "--workdir")) == 114
    for table in TABLES.values():
        for cell in table.cells:
            for name, _ in cell.keys if cell.paper is not None else ():
                assert "--config.seeds=0,1,2,3,4,5" in jobs[name]
    of_slate = jobs["source-slate-bow"]
    assert {"--config.train.batch_size=512", "--config=bow:multinli/slate"} < of_slate
    assert "--config.transfer.init_from=runs/source-snli-esim" in jobs["snli-multi-esim"]
    assert not named(jobs, "--config.model.knowledge=bias")
    assert set(planned("mednli", "mednli", "bias-esim")[0]) == {"bias-esim"}
    assert "--config=esim:snli_code" in planned("mednli", "mednli_code")[0]["source-snli-esim"]


def test_fields_and_files_of_the_user_reach_the_runs_that_have_them(data):
    """A run's own settings stay, those of its training aside."""
    glove = data / "vectors" / "fasttext-cc.txt"
    mentions = data / "metamap.mmi"
    fields = {"seeds": "0", "model.trees": "4", "train.batch_size": "16"}
    fields["vectors.path"] = str(glove)

    jobs, _ = planned("mednli", "mednli", fields=fields, mentions=mentions, lexicon=mentions)
    assert named(jobs, "--config.model.trees=4") == {"features"}
    assert named(jobs, "--config.seeds=0") == set(jobs) - {"categories.json"}
    own = {f"--config.vectors.path={glove}", "--config.train.batch_size=16"}
    assert own < jobs["source-snli-bow"]
    of_vectors = f"--config.vectors.path={data / 'vectors' / 'wiki-mimic.txt'}"
    assert of_vectors in jobs["vectors-wiki-mimic-bow"]
    linked = named(jobs, "--config.knowledge.mentions=")
    assert {"features", "mimic-replace-esim", "concepts-bow", "corpus/paths.json"} < linked
    assert not {"esim", "retrofit-esim", "source-snli-bow"} & linked
    assert f"--config.vectors.retrofit={mentions}" in jobs["fiction-retrofit-infersent"]
    with pytest.raises(UsageError, match=r"model\.trez: no run has such a field\. Did you mean"):
        planned("mednli", "mednli", fields={"model.trez": "8"})


# -- what is done ----------------------------------------------------------------------------------


def jobs_in(folder, paper, corpus, *only, tables, **arguments):
    """{name: job} of a request, and the names of those that are done."""
    request = Request(folder, corpus, corpus, tables, **arguments)
    jobs = planning.jobs_of(plans()[paper], request, only)
    return {job.name: job for job in jobs.jobs}, jobs.done


GLOVE = "/vectors/glove.840B.300d.txt"


def finish(job, number=0):
    """Writes the result of a job. number: tells apart a run that is trained again."""
    if job.is_run:
        result = {"format": FORMAT, "status": "complete", "number": number}
        write(job.place / "config.json", json.dumps(job.config.to_dict()))
        write(job.place / "result.json", json.dumps(result))
    else:
        write(job.place, "{}")


def finish_all(jobs):
    """Finishes jobs as the queue does, with their records."""
    for job in jobs.values():
        inputs = job.inputs()
        finish(job)
        (job.folder / "jobs").mkdir(exist_ok=True)
        job.write_record(inputs)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))


def test_figure_3_is_drawn_again_for_other_concepts(data, cache, tmp_path):
    """It is done for one content of the mentions and of the ontology, wherever they are."""
    folder, mentions = tmp_path / "runs", data / "metamap.mmi"

    def done(file=mentions):
        return jobs_in(folder, "mednli", "mednli", tables=(2,), mentions=file)[1]

    jobs, _ = jobs_in(folder, "mednli", "mednli", tables=(2,), mentions=mentions)
    finish(jobs["corpus/paths.json"])
    assert done() == set()  # of whatever command
    finish_all(jobs)
    assert done() == set(jobs)
    (data / "elsewhere").mkdir()
    moved = mentions.rename(data / "elsewhere" / mentions.name)
    assert done(moved) == set(jobs)
    assert done(None) == {"snli/paths.json"}
    assert done(write(mentions, "0|MMI|1")) == {"snli/paths.json"}
    conso = next((data / "umls").rglob("MRCONSO.RRF"))
    conso.write_text(conso.read_text() + "\n")
    assert done(moved) == {"corpus/stats.json", "snli/paths.json"}
    write(data / "mednli" / "mli_dev_v1.jsonl", "")
    assert done(moved) == {"snli/paths.json"}


@cases(
    "paper, corpus, tables, again, read_it",
    {
        "Table 6 of artefacts": (
            "artifacts",
            "demo",
            (6,),
            "hypothesis",
            {"partition-hypothesis-dev.json", "partition-hypothesis-test.json"},
        ),
        "Table 8": ("mednli", "demo", (8,), "bow", {"categories.json"}),
        "transfer": (
            "mednli",
            "mednli",
            (4,),
            "source-snli-bow",
            {"snli-direct-bow", "snli-sequential-bow", "snli-multi-bow"},
        ),
    },
)
def test_what_reads_a_run_that_is_trained_again_is_done_again(
    paper, corpus, tables, again, read_it, data, cache, tmp_path
):
    jobs, done = jobs_in(tmp_path, paper, corpus, tables=tables)
    assert done == set()
    finish_all(jobs)
    assert jobs_in(tmp_path, paper, corpus, tables=tables)[1] == set(jobs)

    (tmp_path / again / "result.json").unlink()
    assert jobs_in(tmp_path, paper, corpus, tables=tables)[1] == set(jobs) - read_it - {again}
    finish(jobs[again], number=1)

    jobs, done = jobs_in(tmp_path, paper, corpus, tables=tables)
    assert set(jobs) - done == read_it
    for name in read_it:
        write(tmp_path / name / "checkpoints" / "1", "") if jobs[name].is_training else None
        assert "--resume" not in jobs[name].command()


def test_a_run_trained_by_hand_is_done_whatever_it_read(data, cache, tmp_path):
    def planned_jobs():
        return jobs_in(tmp_path, "mednli", "mednli", "snli-multi-bow", tables=(4,))

    jobs, _ = planned_jobs()
    finish(jobs["snli-multi-bow"])
    assert planned_jobs()[1] == {"snli-multi-bow"}
    finish_all(jobs)
    for job in jobs.values():  # both again, by hand
        finish(job, number=1)
    assert planned_jobs()[1] == set(jobs)


def test_runs_without_their_data_are_named_and_left_out(data, tmp_path, monkeypatch):
    (data / "vectors" / "fasttext-mimic.txt").unlink()
    jobs, lacking = planned("mednli", "mednli")
    assert [what.split(" (")[0] for what in lacking] == ["word vectors fasttext-mimic"]
    assert not [name for name in jobs if "mimic-replace" in name]
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path))
    code, out, err = call_command("reproduce mednli", tmp_path / "runs", "mednli", "--tables=3")
    assert code == 2
    assert out == ""
    assert err.count("corpus mednli") == 1
    assert not (tmp_path / "runs").exists()


@cases(
    "run, fields, arguments, field",
    {
        "demo": ("esim", {"data__name": "demo"}, {}, "data.name"),
        "seeds": ("esim", {}, {"fields": {"seeds": "0,1"}}, "seeds"),
        "training": ("bow", {"train__epochs": 1}, {}, "train.epochs"),
        "vectors": ("bow", {"vectors__path": "/data/other.txt"}, {}, "vectors.path"),
        "mentions": ("features", {"knowledge__mentions": "scispacy.tsv"}, {}, "knowledge.mentions"),
        "source": ("snli-multi-bow", {"transfer__init_from": "runs/x"}, {}, "transfer.init_from"),
        "corpus of direct transfer": ("snli-direct-bow", {"data__limit": 5}, {}, "data.limit"),
    },
)
def test_a_complete_run_of_other_settings_is_neither_taken_nor_lost(
    run, fields, arguments, field, data, tmp_path
):
    tables = (3, 4)
    job = jobs_in(tmp_path, "mednli", "mednli", run, tables=tables)[0][run]
    finish(job)
    change(job.place / "config.json", **fields)

    with pytest.raises(RunError, match=rf"{run}: {field} is .+, not .+ FOLDER"):
        jobs_in(tmp_path, "mednli", "mednli", run, tables=tables, **arguments)


@cases(
    "run, file",
    {
        "mentions": ("replace-bow", "metamap.mmi"),
        "training pairs": ("bow", "mednli/mli_train_v1.jsonl"),
        "vectors": ("bow", "vectors/glove.840B.300d.txt"),
        "ontology": ("replace-bow", "umls/MRSTY.RRF"),
        "corpus of direct transfer": ("snli-direct-bow", "mednli/mli_test_v1.jsonl"),
    },
)
def test_a_run_is_refused_once_a_file_that_it_read_has_another_content(run, file, data, cache):
    def planned_jobs():
        tables, mentions = (4, 7), data / "metamap.mmi"
        return jobs_in(data / "runs", "mednli", "mednli", run, tables=tables, mentions=mentions)

    job = planned_jobs()[0][run]
    finish(job)
    sources = tasks.task_of(job.config).corpus(job.config).key(Cache(data))["sources"]
    write(job.place / "data.json", json.dumps({"key": {"sources": sources}}))
    assert run in planned_jobs()[1]
    (data / file).write_bytes((data / file).read_bytes() + b"\n")

    with pytest.raises(RunError, match=rf"{run}: the run read another {Path(file).name}\. Fix: "):
        planned_jobs()
    (data / file).unlink()
    assert run in planned_jobs()[1]  # nothing says that it was another


@cases(
    "paper, corpus, run, changes, arguments",
    {
        "folders": ("mednli", "mednli", "bow", {"data__dir": "/d", "vectors__path": GLOVE}, {}),
        "sizes of weights": (
            "diskne",
            "demo",
            "main/BERT",
            {"model__hidden_size": 768, "model__weights": "/w/bert"},
            {"weights": {"BERT": "weights/bert"}},
        ),
        "labels of own files": (
            "artifacts",
            "file",
            "pair",
            {"data__labels": "a,b"},
            {"fields": {"data.dir": "own"}},
        ),
        "checkpoints": ("mednli", "demo", "bow", {"train__checkpoint_minutes": 1}, {}),
    },
)
def test_a_run_that_differs_in_places_or_by_its_corpus_or_weights_is_done(
    paper, corpus, run, changes, arguments, data, tmp_path
):
    about = {"tables": plans()[paper].numbers, **arguments}
    (job,) = jobs_in(tmp_path, paper, corpus, run, **about)[0].values()
    finish(job)
    change(job.place / "config.json", **changes)

    assert jobs_in(tmp_path, paper, corpus, run, **about)[1] == {run}


def test_a_dry_run_lists_the_commands_that_are_done_and_to_do(data, tmp_path):
    finish(jobs_in(tmp_path, "mednli", "mednli", "esim", tables=(4,))[0]["esim"])

    out, _ = succeeds("reproduce mednli", tmp_path, "mednli", "--tables=4", "--dry-run")

    lines = out.splitlines()
    assert lines[-1] == "75 runs and files, 1 done"
    (line,) = (line for line in lines if line.startswith("done"))
    assert line.endswith("/esim")
    (line,) = (line for line in lines if line.endswith("/source-snli-esim"))
    assert line.startswith("to do    python -m mednli_jax.train --config=esim:snli ")


def test_fields_of_texts_reach_the_analyses_of_artefacts():
    fields = {"vectors.path": "v.txt", "data.limit": "90", "knowledge.ontology": "o.obo"}
    fields |= {"train.epochs": "1", "data.dir": "own"}

    jobs, _ = planned("artifacts", "file", fields=fields)

    for file in ("analysis/report.html", "analysis-pair/aflite.json"):
        words = {f"--config.{name}={value}" for name, value in fields.items()}
        assert words - jobs[file] == {"--config.train.epochs=1"}


def test_reproduce_trains_the_readers_of_clicr_the_systems_of_diskne_and_those_of_own_files(
    tmp_path,
):
    jobs, _ = planned("clicr", "demo", fields={"vectors.path": str(tmp_path)})
    for field in ("vectors.path", "data.answer_vectors"):
        assert len(named(jobs, f"--config.{field}={tmp_path}")) == 5
    jobs, lacking = planned("diskne", "demo")
    assert {"main/BOW", "main/ESIM-hypothesis", "table7/name", "table8/ESIM"} < set(jobs)
    assert len(lacking) == 4
    fields = {"train.learning_rate": "1e-4"}
    jobs, _ = planned("diskne", "demo", weights={"one": "", "BERT": ""}, fields=fields)
    assert named(jobs, "--config.diskne.negatives=random") == {"table8/one", "table8/BERT"}
    assert len(named(jobs, "--config.train.learning_rate=1e-4")) == len(jobs) == 8
    jobs, _ = planned("artifacts", "file", fields={"data.dir": "own"})
    assert {"--config=hypothesis_only:file", "--config.data.dir=own"} < jobs["hypothesis"]
    assert call_command("reproduce artifacts", tmp_path, "file")[0] == 2


# In place of python: records its arguments, and makes the files that the commands would make.
PYTHON = """#!/bin/bash
echo "$*" >>"$0.calls"
[[ $* != *"${FAILS:-nothing}"* ]] || { echo "error: no such file. Fix: get it." >&2; exit 2; }
[[ $* != *"${DIES:-nothing}"* || -e $0.died ]] || { touch "$0.died"; kill -9 $$; }
words="$*"
place=${words##*--workdir=}
place=${place%% *}
[[ $words != *report* ]] || { echo {} >"${words##*--runs=}/categories.json"; exit; }
mkdir -p "$place/checkpoints" && echo {} >"$place/config.json"
echo '{"format": 4, "status": "complete"}' >"$place/result.json"
"""


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Calls `reproduce mednli` with a python that records: (exit code, stderr, calls)."""
    write_program(tmp_path / "python", PYTHON)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    def call(*flags):
        (tmp_path / "python.calls").write_text("")
        arguments = ("mednli", tmp_path / "runs", "demo", "--tables=6", *flags)
        code, _, err = call_command("reproduce", *arguments)
        return code, err, (tmp_path / "python.calls").read_text().splitlines()

    return call


def test_after_a_failure_which_is_told_once_and_a_kill_the_other_runs_go_on(
    recorded, monkeypatch, tmp_path
):
    """A run whose result was cut short is not done."""
    monkeypatch.setenv("FAILS", "retrofit=concepts")
    monkeypatch.setenv("DIES", "retrofit=unit")
    code, err, calls = recorded("--workers=2")
    assert code == 1
    assert err.count("error: no such file") == 1
    assert err.count("code -9") == 1
    assert len(calls) == 13
    assert err.splitlines()[-1].startswith("error: failed: concepts-bow, concepts-esim, concepts-i")
    monkeypatch.delenv("FAILS")
    code, _, calls = recorded()
    assert code == 0
    assert len(calls) == 3
    (tmp_path / "runs" / "unit-esim" / "result.json").write_text('{"format": 3, "sta')
    code, _, calls = recorded()
    assert code == 0
    assert len(calls) == 1
    assert recorded()[2] == []


@cases(
    "paper, numbers, only",
    {"mednli": ("mednli", "6", "unit-bow"), "clicr": ("clicr", "4", "ga_ent")},
)
def test_hints_repeat_the_flags_that_were_given(
    paper, numbers, only, recorded, tmp_path, monkeypatch
):
    monkeypatch.setenv("FAILS", "workdir")
    words = ["reproduce", paper, str(tmp_path / "runs"), "demo", f"--tables={numbers}"]
    words += ["--seeds=0,1", "--config.train.epochs=3", "--workers=2"]

    _, out, _ = call_command(*words, f"--only={only}")

    (hint,) = (line for line in out.splitlines() if "reproduce" in line)
    assert hint.endswith(" ".join(words[1:]))


def test_a_run_of_another_process_is_left_to_it_until_it_dies(recorded, tmp_path):
    lock = tmp_path / "runs" / "locks" / "unit-esim"
    lock.parent.mkdir(parents=True)
    hold = f"import fcntl, time; f = open({str(lock)!r}, 'w'); fcntl.flock(f, 2); time.sleep(5)"
    with subprocess.Popen([f"{sys.prefix}/bin/python", "-c", f"{hold}; open('{lock}.dead', 'w')"]):
        while not lock.exists():
            pass
        code, _, calls = recorded("--only=unit-*")
        assert code == 0
        assert Path(f"{lock}.dead").exists()
    assert len(named({call: [call] for call in calls}, "-m mednli_jax.train --config=esim")) == 1


TINY = "--seeds=0 --config.train.epochs=1 --config.train.max_buckets=1 --config.vectors.dim=8"
SMALL = "--config.train.batch_size=16 --config.model.hidden_size=8 --config.model.trees=4"


def write_pairs_of_mednli(data):
    write_pairs(data / "mednli")


def write_queries_with_vectors(data):
    write_articles(data / "clicr")
    rows = ""
    for n, word in enumerate([*" ".join(PHRASES).split(), "case", "had", "shows", "and"]):
        rows += f"{word}{f' {n % 5}' * 7} {n % 3}\n"
    write(data / "v.vec", rows)


def write_benchmark_with_weights(data):
    write_published(data)
    for seed, name in enumerate(("one", "two")):
        write_weights(data / name, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@cases(
    "paper, write_data, corpus, flags, numbers",
    {
        "mednli": (
            "mednli",
            write_everything,
            "mednli",
            f"{SMALL} --mentions=data/metamap.mmi",
            "34567",
        ),
        "clicr": (
            "clicr",
            write_queries_with_vectors,
            "clicr",
            "--config.train.batch_size=16 --config.vectors.path=data/v.vec",
            "4",
        ),
        "artifacts": (
            "artifacts",
            write_pairs_of_mednli,
            "mednli",
            "--entities=parts --config.vectors.path=",
            "12456",
        ),
        "diskne": (
            "diskne",
            write_benchmark_with_weights,
            "mednli",
            "--weights=one=data/one,two=data/two"
            " --only=main/BOW,main/ESIM,main/*-hypothesis,*/one,*/two,table7/*",
            "12345678",
        ),
    },
)
def test_every_table_of_a_paper_is_filled_by_one_command(
    paper, write_data, corpus, flags, numbers, tmp_path
):
    (tmp_path / "data").mkdir()
    write_data(tmp_path / "data")
    words = ("-m", "mednli_jax.reproduce", paper, "runs", corpus, *f"{TINY} {flags}".split())
    variables = environment_of(tmp_path)

    printed = []
    for workers in ("3", "1"):  # the second time nothing is trained
        flag = f"--workers={workers}"
        done = run_python(*words, flag, cwd=tmp_path, timeout=None, **variables)
        assert done.returncode == 0, done.stderr[-4000:]
        assert not words_in((done.stdout + done.stderr).encode())
        assert SECRET not in done.stdout
        printed.append(done.stdout.replace(flag, ""))  # hints repeat the flags

    assert printed[0] == printed[1]
    assert "ETA" not in done.stderr
    assert "  missing" not in done.stdout
    for number in numbers:
        assert f"\nTable {number}:" in f"\n{done.stdout}"
    if paper == "mednli":
        check = read_json(tmp_path, "runs", "check.json")
        assert check["verdicts"]["missing"] == 0
        assert words_in((tmp_path / "runs" / "private" / "table8.jsonl").read_bytes())
