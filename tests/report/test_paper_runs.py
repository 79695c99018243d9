"""Which settings make a run unlike the run of a paper."""

import json

import pytest
from support.cases import cases
from support.runs import TEN, change, edit, write_run
from support.tables import fields_of, table_rows

from mednli_jax.artifacts.runs import RUNS as ARTIFACTS
from mednli_jax.cli import read_config
from mednli_jax.cloze.runs import RUNS as CLICR
from mednli_jax.diskne.runs import BERT, BERT_BASE, OWN_SYSTEMS, RANDOM_NEGATIVES, wordings
from mednli_jax.nli.tables.runs import RUNS as MEDNLI
from mednli_jax.report.options import PaperRun
from mednli_jax.report.tables import differences_from_paper

GA = CLICR["ga_ent"]
PAIR = ARTIFACTS["pair"]


def paper_runs():
    """The runs of all papers."""
    yield from (*MEDNLI.values(), *ARTIFACTS.values(), *CLICR.values(), BERT, *OWN_SYSTEMS)
    for name, settings in (*wordings(), ("random", RANDOM_NEGATIVES)):
        yield PaperRun(name, "diskne_bert", {**BERT_BASE, **settings})


def write_paper_run(folder, run):
    """Writes a run with the settings of a paper's run."""
    corpus = "clicr" if run in CLICR.values() else run.corpus or "mednli"
    config = json.loads(json.dumps(read_config(f"{run.config}:{corpus}").to_dict()))
    for field, value in run.settings.items():
        section, _, name = field.rpartition(".")
        (config[section] if section else config)[name] = value
    if run.vectors:
        config["vectors"]["path"] = f"/data/{run.vectors[0]}.vec"
    write_run(folder, *[TEN] * len(config["seeds"]), gold=TEN, corpus=corpus)
    edit(folder / "result.json", model=config["model"]["name"])
    (folder / "config.json").write_text(json.dumps(config))


def test_a_run_with_the_settings_of_a_papers_run_is_not_unlike_it(tmp_path):
    for number, run in enumerate(paper_runs()):
        folder = tmp_path / str(number)
        write_paper_run(folder, run)

        assert differences_from_paper(folder, read_config, run) == [], run.name


@cases(
    "run, field, value",
    {
        "vectors of scores": (GA, "data__answer_vectors", "own.vec"),
        "size without effect": (BERT, "vectors__dim", 8),
        "folder": (BERT, "data__dir", "/data"),
    },
)
def test_places_and_fields_without_effect_make_no_run_unlike_the_papers(
    tmp_path, run, field, value
):
    write_paper_run(tmp_path / "run", run)
    change(tmp_path / "run" / "config.json", **{field: value})

    assert differences_from_paper(tmp_path / "run", read_config, run) == []


@pytest.mark.parametrize(
    "name, changed",
    table_rows("""
        GA | data__limit=60
        GA | data__setup="anonym"
        GA | model__hops=1
        GA | vectors__path="own.vec"
        BERT | diskne__negatives="random"
        BERT | diskne__wording="full"
        BERT | data__hypothesis_only=true
        BERT | data__augment=0.25
        BERT | train__learning_rate=0.1
        PAIR | train__epochs=25
        PAIR | model__buckets=8
        PAIR | data__hypothesis_only=true
    """),
)
def test_a_run_that_differs_in_a_field_is_unlike_the_papers(tmp_path, name, changed):
    run = {"GA": GA, "BERT": BERT, "PAIR": PAIR}[name]
    write_paper_run(tmp_path / "run", run)
    change(tmp_path / "run" / "config.json", **fields_of(changed))

    assert len(differences_from_paper(tmp_path / "run", read_config, run)) == 1


def test_a_run_of_fewer_seeds_is_unlike_the_papers(tmp_path):
    write_paper_run(tmp_path / "run", BERT)
    edit(tmp_path / "run" / "result.json", seeds=[0])

    assert len(differences_from_paper(tmp_path / "run", read_config, BERT)) == 1
