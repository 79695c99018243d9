"""NLI4CT, RQE and RadNLI, on made-up files in the official layouts; damaged files are in
tests/test_refusals.py."""

from dataclasses import replace

import numpy as np
import pytest
from support.clinical_files import SINGLE, STATEMENTS, questions, statement, write_trials
from support.files import lines, write
from support.pair_files import official
from support.tables import table_rows

from mednli_jax import defaults, tasks
from mednli_jax.nli.config import corpus_of
from mednli_jax.nli.read.corpora import source_files
from mednli_jax.nli.read.pair_rows import EVIDENCE
from mednli_jax.nli.read.readers import load_nli

WHOLE = "Outcome: 12 of 40 Group B 9 of 41"


@pytest.mark.parametrize("place", ["nli4ct/Complete_dataset", "nli4ct", ""])
def test_a_statement_is_a_hypothesis_and_sections_of_its_trials_the_premise(tmp_path, place):
    write_trials(tmp_path / place, **STATEMENTS)
    splits = load_nli("nli4ct", tmp_path)

    premises = [splits[name].examples[0].premise for name in ("train", "dev")]
    assert premises == [WHOLE, f"Primary trial: {WHOLE} Secondary trial: None given"]
    (example,) = splits["dev"].examples
    assert (example.uid, example.hypothesis) == ("b", "NCT02 is larger .")
    assert (example.label, example.tags) == ("contradiction", ("Comparison", "Results"))
    files = {path.name for path in source_files("nli4ct", tmp_path)}
    assert files == {"train.json", "dev.json", "Gold_test.json", "NCT01.json", "NCT02.json"}


def test_evidence_is_the_annotated_lines_in_the_order_of_the_section(tmp_path):
    write_trials(tmp_path, **STATEMENTS)
    splits = load_nli("nli4ct", tmp_path, columns=EVIDENCE)
    assert splits["train"].examples[0].premise == "12 of 40 Group B 9 of 41"


@pytest.mark.parametrize(
    "name, evidence, premise", table_rows("nli4ct | 0 | Outcome:\n nli4ct | 1 | 12 of 40")
)
def test_the_config_chooses_evidence_and_two_labels(tmp_path, name, evidence, premise):
    write_trials(tmp_path, **STATEMENTS)
    config = defaults.nli(name)
    config.data.update(dir=str(tmp_path), evidence=bool(int(evidence)))
    config.model.name = "bow"

    corpus = corpus_of(config)

    assert corpus.labels.names == ("entailment", "contradiction")
    assert corpus.splits()["train"].examples[0].premise.startswith(premise)


def test_changed_statements_are_scored_beside_their_originals(tmp_path, monkeypatch):
    """Jullien et al. 2024: consistency counts changes that keep the label, and equal predictions,
    right or wrong; faithfulness counts changes of it whose prediction is not the original label."""
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    kept, altered = ("Paraphrase", "Preserving"), ("Contradiction", "Altering")
    test = {
        "k1": ("Entailment", kept, "o1"),
        "o1": ("Entailment", None, ""),
        "k2": ("Contradiction", kept, "o2"),
        "o2": ("Contradiction", None, ""),
        "x1": ("Contradiction", altered, "o1"),
        "x2": ("Contradiction", altered, "o1"),
    }
    rows = {}
    for uid, (label, change, original) in test.items():
        rows[uid] = statement(f"{uid} .", label, [0])
        if change:
            rows[uid] |= {"Intervention": change[0], "Causal_type": [change[1], original]}
    write_trials(tmp_path / "nli4ct_2024", train=SINGLE, dev=STATEMENTS["dev"], gold_test=rows)
    config = defaults.nli("nli4ct_2024")
    config.data.dir, config.model.name, config.vectors.dim = str(tmp_path), "bow", 4
    prepared, _ = corpus_of(config).prepare()

    #                             k1 o1 k2 o2 x1 x2
    predicted_SN = np.array([[0, 0, 0, 0, 1, 0], [1, 0, 1, 1, 1, 1]])
    scorer = tasks.task_of(config).scorer(config)
    scores = scorer.score(prepared.splits["test"], np.eye(2)[predicted_SN])

    assert scores["consistency"]["per_seed"] == [1.0, 0.5]
    assert scores["faithfulness"]["per_seed"] == [0.5, 1.0]
    assert scores["slices"]["control"]["examples"] == 2
    assert {"Preserving", "Paraphrase", "Altering"} < set(scores["slices"])

    rows = prepared.splits["test"]
    for changed, missing in ((slice(4), "faithfulness"), (slice(4, 6), "consistency")):
        original = np.full(6, -1)
        original[changed] = rows.original[changed]
        scores = scorer.score(replace(rows, original=original), np.eye(2)[predicted_SN])
        assert {"consistency", "faithfulness"} - set(scores) == {missing}


def test_a_tenth_of_the_questions_of_rqe_is_dev_with_all_their_pairs(tmp_path):
    pairs = []
    for number in range(200):
        pairs.append((f"How is case {number} &amp; <i/>", "Is it?", "true"))
        pairs.append((f"How is case {number} &amp; <i/>", f"Was it {number}?", "false"))
    empty = ("Who?", "", "true")
    write(tmp_path / "rqe/RQE_Train_8588_AMIA2016.xml", questions(*pairs, empty))
    write(tmp_path / "rqe/RQE_Test_302_pairs_AMIA2016.xml", questions(("Who?", "He?", "false")))

    splits = load_nli("rqe", tmp_path)
    premises = {name: {pair.premise for pair in splits[name].examples} for name in splits}

    assert premises["train"].isdisjoint(premises["dev"])
    assert len(premises["train"] | premises["dev"]) == 200
    assert 10 <= len(premises["dev"]) <= 30
    assert [len(splits[name]) for name in ("train", "dev")] == [
        2 * len(premises[name]) for name in ("train", "dev")
    ]
    assert splits["train"].facts["labels"]["not_entailment"] == len(premises["train"])
    assert splits["test"].examples[0].label == "not_entailment"
    left_out = [splits[name].facts["dropped_unlabelled"] for name in splits]
    assert sum(left_out) == 1


def test_radnli_is_dev_and_test_and_mednli_trains(tmp_path):
    for name in ("mednli/mli_train_v1", "radnli/radnli_dev_v1", "radnli/radnli_test_v1"):
        row = official("1", "neutral", f"{name} .", "Pt is ill .", parsed=False)
        row["pair_id"] = row.pop("pairID")
        write(tmp_path / f"{name}.jsonl", lines(row))

    splits = load_nli("radnli", tmp_path)

    uids = {name: split.examples[0].uid for name, split in splits.items()}
    expected = {"train": "mli_train_v1:1", "dev": "radnli_dev_v1:1", "test": "radnli_test_v1:1"}
    assert uids == expected


def test_settings_that_depend_on_the_corpus_are_those_of_the_nearest_one():
    """nli4ct_2024 has the settings of nli4ct, and what nli4ct does not set is as for own files."""
    pick = defaults.pick_for("nli4ct_2024")
    assert pick(1, nli4ct=2, file=3) == 2
    assert pick(1, file=3) == 3
    assert defaults.pick_for("rqe")(1, nli4ct=2) == 1
    assert defaults.nli("multinli").data.genre == ""
