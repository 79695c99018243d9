"""Runs with the settings of the papers are never called unlike the papers' runs."""

import json

import pytest
from support.runs import TEN, change, write_run

from mednli_jax.artifacts.runs import RUNS as ARTIFACTS
from mednli_jax.cli import read_config
from mednli_jax.cloze.runs import RUNS as CLICR
from mednli_jax.diskne.runs import BERT, BERT_BASE, OWN_SYSTEMS, RANDOM_NEGATIVES, wordings
from mednli_jax.nli.runs import RUNS as MEDNLI
from mednli_jax.report.paper import PaperRun
from mednli_jax.report.tables import unlike


def runs():
    """(run, its corpus) of all papers."""
    for run in (*MEDNLI.values(), *ARTIFACTS.values()):
        yield run, run.corpus or "mednli"
    for run in CLICR.values():
        yield run, "clicr"
    for run in (BERT, *OWN_SYSTEMS):
        yield run, "mednli"
    for name, settings in (*wordings(), ("random", RANDOM_NEGATIVES)):
        yield PaperRun(name, "diskne_bert", {**BERT_BASE, **settings}), "mednli"


def write(folder, run, corpus):
    """Writes a run of the paper."""
    config = json.loads(json.dumps(read_config(f"{run.config}:{corpus}").to_dict()))
    for field, value in run.settings.items():
        section, _, name = field.rpartition(".")
        (config[section] if section else config)[name] = value
    if run.vectors:
        config["vectors"]["path"] = f"/data/{run.vectors[0]}.vec"
    seeds = [TEN] * len(config["seeds"])
    write_run(folder, *seeds, gold=TEN, corpus=corpus)
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "model": config["model"]["name"]}))
    (folder / "config.json").write_text(json.dumps(config))


def test_the_papers_own_runs_are_like_themselves(tmp_path):
    for number, (run, corpus) in enumerate(runs()):
        write(tmp_path / str(number), run, corpus)
        assert unlike(tmp_path / str(number), read_config, run) == [], run.name


# Fields of all papers, with places and sizes that the runs of a paper may choose.
FREE = {"data__answer_vectors": "own.vec", "vectors__dim": 8, "data__dir": "/data"}


@pytest.mark.parametrize("field", FREE)
def test_places_and_fields_without_effect_are_no_difference(tmp_path, field):
    run, corpus = {"data__answer_vectors": (CLICR["ga_ent"], "clicr")}.get(field, (BERT, "mednli"))
    write(tmp_path / "run", run, corpus)
    change(tmp_path / "run" / "config.json", **{field: FREE[field]})
    assert unlike(tmp_path / "run", read_config, run) == []


OTHER = {
    "ga_ent": {"data__limit": 60, "data__setup": "anonym", "model__hops": 1, "vectors__path": "own.vec"},
    "BERT": {"diskne__negatives": "random", "diskne__wording": "full", "data__hypothesis_only": True,
             "train__learning_rate": 0.1, "seeds": 1},
    "pair": {"train__epochs": 25, "model__buckets": 8, "data__hypothesis_only": True},
}  # fmt: skip


def test_a_run_that_differs_in_any_field_is_unlike(tmp_path):
    papers = {
        "ga_ent": (CLICR["ga_ent"], "clicr"),
        "BERT": (BERT, "mednli"),
        "pair": (ARTIFACTS["pair"], "mednli"),
    }
    for name, fields in OTHER.items():
        for field, value in fields.items():
            folder = tmp_path / name / field
            write(folder, *papers[name])
            if field == "seeds":
                result = json.loads((folder / "result.json").read_text())
                (folder / "result.json").write_text(json.dumps({**result, "seeds": [0]}))
            else:
                change(folder / "config.json", **{field: value})
            assert len(unlike(folder, read_config, papers[name][0])) == 1, field
