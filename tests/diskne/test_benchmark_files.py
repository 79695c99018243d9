"""DisKnE: the published layout checked by hand, a benchmark built from scratch, and folds that leak
nothing."""

import json
import runpy
import stat
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.commands import call_command, config_flag
from support.diskne import (
    CONCEPTS,
    MEDICAL,
    PAIRS,
    ROWS,
    assemble,
    claim,
    ontology,
    pair,
    positive,
    read,
    seven_diseases,
    write_annotations,
    write_mednli,
)

from mednli_jax import prepare
from mednli_jax.diskne import builder
from mednli_jax.diskne import data as files
from mednli_jax.diskne.corpus import read_benchmark, write_benchmark
from mednli_jax.diskne.data import hypothesis_of
from mednli_jax.diskne.folds import folds, mentioned
from mednli_jax.errors import DataError, UserError
from mednli_jax.knowledge.linking import Linker

LAUNCH = Path(__file__).parents[2] / "launch"


def test_a_hypothesis_is_the_name_the_mention_or_the_whole_sentence():
    found = positive("a", "C02", "heart attack")
    assert hypothesis_of(found, "C02", "myocardial infarction", "name") == "myocardial infarction"
    assert hypothesis_of(found, "C02", "myocardial infarction", "mention") == "heart attack"
    assert (
        hypothesis_of(found, "C02", "myocardial infarction", "full")
        == "The patient has a heart attack."
    )
    for wording in ("name", "mention"):
        assert hypothesis_of(found, "C04", "angina pectoris", wording) == "angina pectoris"
    for name in ("an angina pectoris", "an ulcer", "an MI", "a urinary tract infection", "a UTI"):
        assert (
            hypothesis_of(found, "C04", name.partition(" ")[2], "full")
            == f"The patient has {name}."
        )
    # A capital at the start must not mark positives.
    assert (
        hypothesis_of(positive("d", "C05", "Urinary tract infection"), "C07", "asthma", "full")
        == "Asthma"
    )


def test_files_with_the_same_positive_examples_are_never_merged(tmp_path):
    others = [row if row[2] == "entailment" else (row[0], "C07", *row[2:]) for row in ROWS]
    paths = [
        write_annotations(tmp_path / "m_similar.csv"),
        write_annotations(tmp_path / "m_random.csv", others),
    ]
    with pytest.raises(DataError) as caught:
        files.read_published(paths, PAIRS, ontology())
    assert caught.value.file == "m_random.csv"
    (tmp_path / "diskne").mkdir()
    for path in paths:
        path.rename(tmp_path / "diskne" / path.name)
    assert [path.name for path in files.annotation_files(tmp_path, "random")] == ["m_random.csv"]
    assert len(files.annotation_files(tmp_path)) == 2


def test_the_published_rows_join_their_pairs(tmp_path):
    found = read(write_annotations(tmp_path / "m.csv"), wording="mention")
    by_uid = {example.uid: example for example in found.examples}
    assert len(by_uid) == len(ROWS)
    own, other = by_uid["a.symptoms.C02"], by_uid["a.symptoms.C02.C04"]
    assert (own.disease, own.target, own.category, own.pair.label) == (
        "C02",
        "C02",
        "symptoms",
        "entailment",
    )
    assert (own.pair.premise, own.pair.hypothesis) == (PAIRS[0].premise, "heart attack")
    assert (other.disease, other.target, other.pair.label) == ("C04", "C02", "neutral")
    assert (other.pair.premise, other.pair.hypothesis) == (PAIRS[0].premise, "angina pectoris")
    # A negative may belong to a category in which its pair has no positive example; it keeps that
    # category.
    assert by_uid["b.tests.C02.C06"].category == "tests"
    assert found.facts["positives"] == dict(
        symptoms=5, treatments=1, tests=0, procedures=0, terminological=0
    )
    assert found.facts["negatives"] == dict(
        symptoms=6, treatments=1, tests=1, procedures=0, terminological=0
    )
    assert found.facts["unknown_pairs"] == 0


def test_files_without_category_are_terminological_and_join_the_others(tmp_path):
    rows = [(*row[:3], *row[4:]) for row in ROWS if row[3] == "symptoms_diseases"]
    path = write_annotations(
        tmp_path / "t.csv", rows, [name for name in MEDICAL if name != "category"]
    )
    found = files.read_published([write_annotations(tmp_path / "m.csv"), path], PAIRS, ontology())
    assert found.facts["positives"]["terminological"] == 5
    assert len(found) == len(ROWS) + len(rows)
    groups = {(fold.disease, fold.group) for fold in folds(found)}
    assert ("C02", "medical") in groups
    assert ("C02", "terminological") in groups


def test_a_span_that_ends_too_far_or_too_early_gives_whole_words(tmp_path):
    for start, end in (("18", "31"), ("18", "27"), ("17", "30"), ("20", "30.0")):
        rows = [("a", "C02", "entailment", "symptoms_diseases", "C02", start, end)]
        found = read(write_annotations(tmp_path / "m.csv", rows), wording="mention").examples
        assert found[0].pair.hypothesis.rstrip(".") == "heart attack"


@pytest.mark.parametrize(
    "index", ["inf", "nan", "1e400", "18.5", "-1", "", "9" * 5000, "1_8", "³", "x"]
)
@pytest.mark.parametrize("column", ["start_index", "end_index"])
def test_an_index_that_is_no_whole_number_is_refused_with_its_line(tmp_path, column, index):
    row = ["a", "C02", "entailment", "symptoms_diseases", "C02", "18", "30"]
    row[MEDICAL.index(column)] = index
    with pytest.raises(DataError) as caught:
        read(write_annotations(tmp_path / "m.csv", [*ROWS, row]))
    assert (caught.value.file, caught.value.line, caught.value.field) == (
        "m.csv",
        len(ROWS) + 2,
        column,
    )


def test_without_a_terminology_diseases_are_called_what_the_hypotheses_call_them(tmp_path):
    rows = [*ROWS, ("g,ng", "C99", "non-entailment", "symptoms_diseases", "C02", "", "")]
    rows += [("a,ng", "C98", "non-entailment", "symptoms_diseases", "C02", "", "")]
    found = read(write_annotations(tmp_path / "m.csv", rows), ontology=None)
    assert (
        found.names["C05"] == "urinary tract infection"
    )  # the longest of equally frequent mentions
    left_out = {"of_unknown_pairs": 0, "without_positive": 1, "unnamed": 2, "contradicted": 0}
    assert found.facts["left_out"] == left_out  # C04 has no mention
    # A positive example on the same premise claims C04, which is then no negative.
    twin = pair("z", PAIRS[0].premise.upper(), "The patient has angina.")
    rows.append(("z", "C04", "entailment", "tests_diseases", "C04", "16", "22"))
    found = read(write_annotations(tmp_path / "m.csv", rows), (*PAIRS, twin), ontology=None)
    assert found.facts["left_out"] == left_out | {"unnamed": 1, "contradicted": 1}


def test_ids_of_no_pair_are_reported_and_too_many_of_them_refused(tmp_path, capsys):
    many = [pair(f"n{i}", f"Premise {i}", "The patient has asthma.") for i in range(20)]
    rows = [
        (f"n{i}", "C07", "entailment", "symptoms_diseases", "C07", "16", "22") for i in range(20)
    ]
    path = write_annotations(
        tmp_path / "m.csv",
        [*rows, ("lost", "C07", "entailment", "symptoms_diseases", "C07", "0", "2")],
    )
    found = read(path, many)
    said = capsys.readouterr().err
    assert "m.csv: 1 of 21 annotated pairs are in no corpus (lines 22); they are left out" in said
    with pytest.raises(
        UserError, match=r"m.csv:2: 12 of 21 .* \(lines 2, 3, 4, 5, 6, \.\.\.\)"
    ) as caught:
        read(path, many[11:])
    # Some published ids are parts of sentences.
    assert "lost" not in said + str(caught.value) + json.dumps(found.description())
    assert found.facts["unknown_pairs"] == 1


def uids(found, rows):
    return {found.examples[row].uid for row in rows}


def dropped(found, fold):
    return {(uid, reason) for reason, rows in fold.dropped.items() for uid in uids(found, rows)}


def test_the_folds_of_the_published_rows_are_those_worked_out_by_hand(tmp_path):
    found = read(write_annotations(tmp_path / "m.csv"))
    made = {(fold.disease, fold.group): fold for fold in folds(found, dev=0)}
    # C06 has one positive example in each of two categories, which is too few to report.
    assert set(made) == {("C02", "medical"), ("C05", "medical")}
    for rows, categories in (
        (ROWS, ("symptoms", "treatments")),
        (ROWS[:-1], ("symptoms",)),
    ):  # the last is negative
        least_1 = folds(read(write_annotations(tmp_path / "m.csv", rows)), least=1)
        assert {fold.disease: fold.categories for fold in least_1}["C06"] == categories
    fold = made["C02", "medical"]
    assert fold.categories == ("symptoms",)
    tested = (
        "a.symptoms.C02 a.symptoms.C02.C04 a.symptoms.C02.C06 b.symptoms.C02 b.symptoms.C02.C06"
    )
    assert uids(found, fold.test) == set(tested.split())
    # The premise of e names the disease ("MI in the past"). "Family" in d has the letters, but is
    # not a mention.
    trained = (
        "c.symptoms.C05 d.symptoms.C05 d.symptoms.C05.C06 f.treatments.C06 f.treatments.C06.C05"
    )
    assert uids(found, fold.train) == set(trained.split())
    assert dropped(found, fold) == {
        ("b.tests.C02.C06", "own"),
        ("c.symptoms.C05.C02", "hypothesis"),
        ("e.symptoms.C06", "premise"),
        ("e.symptoms.C06.C05", "premise"),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Family of amir", ""),
        ("h/o MI.", "mi"),
        ("two acute MIs", "mi"),
        ("recurrent mis", "mi"),
        ("crohn disease", "crohn"),
        ("or not", ""),
        ("a kidney-stone, small", "stone"),
        ("has gas", ""),  # HA is a short form of headache
        ("severe AS, AS-related syncope", "as"),
        ("as before. As per the family", ""),
        ("old MI or IT band pain", "mi it"),
    ],
)
def test_names_are_found_on_word_boundaries_whatever_their_case_and_number(text, expected):
    names = {
        "mi": ("MI",),
        "crohn": ("Crohn's disease",),
        "or": ("OR",),
        "stone": ("kidney stones",),
        "ha": ("HA",),
    }
    names |= {
        "as": ("aortic stenosis", "AS"),
        "it": ("IT",),
        "as given": ("as", "As"),
        "more": ("More",),
    }
    assert mentioned([text], names)[text] == set(expected.split())


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("pulmonary embolus", "pulmonary emboli"),
        ("pulmonary embolism", "pulmonary emboli"),
        ("brain metastasis", "brain metastases"),
        ("diverticulum of colon", "diverticula of colon"),
        ("bursa", "bursae"),
        ("carcinoma", "carcinomata"),
        ("varix", "varices"),
        ("vertex", "vertices"),
        ("arthritis", "arthritides"),
        ("ganglion", "ganglia"),
        ("pneumothorax", "pneumothoraces"),
        ("phalanx fracture", "phalanges fracture"),
        ("nevus", "nevi"),
        ("virus infection", "viruses infections"),
        ("calyx", "calyces"),
        # those with an English plural stay as they were
        ("triglyceride", "triglycerides"),
        ("infection", "infections"),
        ("fistula", "fistulas"),
        ("disease", "diseases"),
        ("abscess", "abscesses"),
        ("biopsy", "biopsies"),
    ],
)
def test_singular_and_plural_are_one_name(singular, plural):
    for name, said in ((singular, plural), (plural, singular)):
        text = f"h/o {said.capitalize()}, stable"
        assert mentioned([text], {"x": (name,)})[text] == {"x"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ileus", "ileum"),
        ("colon", "coli"),
        ("CA", "cause"),
        ("tests", "testis"),
        ("angina", "angi"),
    ],
)
def test_other_words_are_no_plurals(name, text):
    assert mentioned([text], {"x": (name,)})[text] == set()


@pytest.mark.parametrize("wording", ["name", "full"])
def test_no_fold_trains_on_its_disease_and_every_row_has_one_place(wording):
    found = seven_diseases(wording=wording)
    with pytest.raises(UserError, match="no disease has 100 positive examples"):
        folds(found, least=100)
    made = folds(found, least=1)
    assert len(made) == 14
    for fold in made:
        synonyms = {name.lower() for name in found.synonyms[fold.disease]}
        trained = [found.examples[row] for row in (*fold.train, *fold.dev)]
        assert trained
        assert {found.examples[row].target for row in fold.test} == {fold.disease}
        for example in trained:
            assert fold.disease not in (example.disease, example.target)
            for text in (example.pair.premise, example.pair.hypothesis):
                words = f" {text.lower().replace('.', ' ')} "
                assert not any(f" {name} " in words for name in synonyms)
        rows = np.concatenate([fold.train, fold.dev, fold.test, *fold.dropped.values()])
        assert len(set(rows.tolist())) == len(rows)
        categories = files.GROUPS[fold.group]
        assert set(rows.tolist()) == {
            row for row, e in enumerate(found.examples) if e.category in categories
        }
        premises = [
            {found.examples[row].pair.group for row in part} for part in (fold.train, fold.dev)
        ]
        assert premises[0].isdisjoint(premises[1])
        assert 0.1 <= len(fold.dev) / len(trained) < 0.1 + 6 / 20


def test_a_premise_and_claim_that_stand_twice_are_trained_on_and_tested_once():
    twins = [claim(f"t{i}", "Same finding", "C07") for i in range(3)]
    found = assemble([*twins, *(claim(f"u{i}", f"Other {i}", "C06") for i in range(2))])
    made = folds(found, dev=0)
    assert [fold.disease for fold in made] == ["C06"]  # the three examples of asthma count as one
    assert uids(found, made[0].train) == {"t0.tests.C07"}
    assert {reason for _, reason in dropped(found, made[0])} == {"hypothesis", "repeated"}


VECTORS = {
    "C01": (1, 0, 0),
    "C02": (1, 0.1, 0),
    "C03": (1, 0.2, 0),
    "C04": (1, 0.3, 0),
    "C05": (0, 1, 0),
    "C06": (0.2, 1, 0.1),
    "C07": (0, 0, 1),
}


def test_the_most_similar_diseases_are_taken_and_kin_is_passed_over():
    positives = [claim(f"q{i}", f"Finding {i}", row[0]) for i, row in enumerate(CONCEPTS[:7])]
    found = {}
    for one, other in builder.negatives(
        positives, builder.similar(VECTORS), builder.Kinship(ontology()), 2
    ):
        found.setdefault(one.disease, []).append(other)
    # The order is by cosine. For MI its ancestor (heart diseases) and its descendant (STEMI) are
    # skipped.
    assert found["C02"] == ["C04", "C06"]
    assert found["C01"] == ["C06", "C05"]
    assert found["C04"] == ["C03", "C02"]
    assert found["C07"] == ["C06", "C01"]  # equally distant diseases come in the order of their ids


def test_candidates_are_of_the_same_group_and_true_ones_are_no_negatives():
    positives = [
        claim("s1", "One finding", "C07"),
        claim("s2", "one  finding", "C03"),
    ]  # one premise
    positives += [claim("s3", "Another", "C06", "terminological"), claim("s4", "Third", "C02")]
    found = list(builder.negatives(positives, builder.shuffled(0), builder.Kinship(ontology()), 9))
    assert {(one.disease, other) for one, other in found} == {("C02", "C07")}
    # A disease that the premise names is no negative.
    positives = [
        claim("n1", "Long known UTI, wheezing.", "C07"),
        claim("n2", "MI", "C03"),
        claim("c", "x", "C05"),
    ]
    positives.append(claim("a", "y", "C02"))
    synonyms = files.disease_names(ontology(), ["C02", "C03", "C05", "C07"])[1]
    for known, expected in (({}, {"C02", "C03", "C05"}), (synonyms, {"C02", "C03"})):
        made = builder.negatives(
            positives, builder.shuffled(0), builder.Kinship(ontology()), 9, known
        )
        assert {other for one, other in made if one.disease == "C07"} == expected


def test_concept_vectors_are_read_from_cui2vecs_table_or_made_of_ancestors(tmp_path):
    path = tmp_path / "cui2vec.csv"
    rows = [f'"{concept}",{",".join(map(str, vector))}' for concept, vector in VECTORS.items()]
    path.write_text("\n".join(['"","V1","V2","V3"', *rows, '"C02",9,9,9', ""]))
    found = builder.read_vectors(path, ["C02", "C05", "C99"])
    assert {concept: vector.tolist() for concept, vector in found.items()} == {
        "C02": [1, 0.1, 0],
        "C05": [0, 1, 0],
    }
    with pytest.raises(UserError):
        builder.similar(builder.read_vectors(path, ["C99"]))
    found = builder.vectors_of_ancestors(ontology(), ["C02", "C03", "C04", "C05"])
    assert set(found) == {
        "C02",
        "C03",
        "C04",
    }  # no pair links the urinary tract infection to others
    assert found["C02"] @ found["C03"] > found["C04"] @ found["C03"]


def test_positives_are_hypotheses_that_say_the_patient_has_one_disease():
    said = (
        pair("1", "On aspirin.", "The patient has angina."),
        pair("2", "Cough.", "The patient does not have pneumonia."),
        pair("3", "Cough.", "The patient's mother has asthma."),
        pair("4", "Cough.", "The patient has pneumonia or asthma."),
        pair("5", "Cough.", "The patient is ill."),
        pair("6", "Cough.", "The patient has pneumonia.", "neutral"),
        pair("7", "Feels fine.", "The patient has pneumonia."),
        pair("8", "EKG done, stent placed, stent patent.", "Pt has a heart attack."),
        pair("9", "Known UTI, on aspirin.", "Pt has a urinary tract infection."),
        pair("10", "On aspirin.", "The patient has angina/pneumonia."),
        pair("11", "On aspirin.", "The patient is angina-free."),
    )
    found, left_out = builder.select(said, Linker(ontology()))
    assert [(p.pair.uid, p.disease, p.category, p.mention) for p in found] == [
        ("1", "C04", "treatments", "angina"),
        ("8", "C02", "procedures", "heart attack"),
        ("9", "C05", "terminological", "urinary tract infection"),
    ]
    expected = dict(
        not_stated=2, several_diseases=2, no_disease=1, not_entailed=1, no_category=1, not_found=1
    )
    assert left_out == expected


def test_a_benchmark_from_scratch_is_the_same_whatever_the_order(tmp_path):
    said = [
        pair(f"{name}{i}", f"Cough for {len(name)} + {i} days.", f"The patient has a {name}.")
        for name in ("heart attack", "pneumonia", "UTI", "angina")
        for i in range(2)
    ]
    for ranking in (builder.shuffled(1), builder.similar(VECTORS)):
        made, other = (
            builder.build(
                "t", pairs, Linker(known), lambda _, of=ranking: of, wording="full", count=2
            )
            for pairs, known in ((said, ontology()), (said[::-1], ontology(range(10, -1, -1))))
        )
        assert made.examples == other.examples
    claims = {example.pair.hypothesis for example in made.examples if example.target == "C02"}
    assert claims == {
        f"The patient has {name}."
        for name in ("a heart attack", "an angina pectoris", "a pneumonia")
    }
    with pytest.raises(UserError, match=r"t: no pair is a positive example \(1 no_disease\)"):
        builder.build(
            "t",
            [pair("x", "Cough.", "Pt is ill.")],
            Linker(ontology()),
            lambda _: builder.shuffled(0),
        )


def test_what_is_written_reads_back(tmp_path):
    found = seven_diseases(wording="full")
    made = folds(found, least=1)
    folder = write_benchmark(found, made, tmp_path / "out")
    again = read_benchmark(folder)
    for one, other in zip(again.examples, found.examples, strict=True):
        assert replace(one, pair=replace(one.pair, tags=())) == replace(
            other, pair=replace(other.pair, tags=())
        )
    assert again.description() == found.description()
    for one, other in zip(made, folds(again, least=1), strict=True):
        assert (one.train.tolist(), one.test.tolist()) == (
            other.train.tolist(),
            other.test.tolist(),
        )
    header, *log = [line.split("\t") for line in (folder / "dropped.tsv").read_text().splitlines()]
    assert header == ["group", "disease", "uid", "reason"]
    assert len(log) == sum(len(rows) for fold in made for rows in fold.dropped.values())
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_the_script_and_prepare_build_from_annotations_and_tell_faults_in_one_line(
    tmp_path, monkeypatch, capsys
):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["build_diskne.py", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(LAUNCH / "build_diskne.py"), run_name="__main__")
        return stop.value.code, capsys.readouterr()

    write_mednli(tmp_path / "data")
    source = (
        "--annotations",
        write_annotations(tmp_path / "m.csv", ROWS),
        "--ontology=none",
        f"--data={tmp_path / 'data'}",
    )
    code, said = run("--out", tmp_path / "out", *source)
    assert code == 0, said.err
    facts = json.loads(said.out)
    assert (facts["folds"], facts["mediqa_nli"]) == (2, False)
    assert (
        facts["left_out"]["unnamed"] == 1
    )  # angina has no positive example, and without a terminology it has no name
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "diskne").mkdir()
    lost = ("g,ng", "C06", "non-entailment", "symptoms_diseases", "C07", "", "")
    write_annotations(tmp_path / "data" / "diskne" / "m.csv", [*ROWS, ROWS[2], lost])
    flags = (
        config_flag("diskne_bow", "mednli"),
        "--config.diskne.ontology=none",
        "--config.vectors.path=",
    )
    prepared = call_command(prepare, *flags)[1]
    assert (
        "  diskne: 3 diseases; folds: medical 2\n    left out: 1 repeated, 1 unnamed, 1 without positive\n"
        in prepared
    )
    code, said = run("--out", tmp_path / "out", *source)
    assert code == 2
    assert said.err.startswith(f"error: {tmp_path / 'out'}: ")
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["frequent utis", "UTIs in the past", "uti", "Utis"])
def test_a_short_form_of_three_letters_has_a_plural_in_either_case(text):
    assert mentioned([text], {"uti": ("UTI",), "mi": ("MI",)})[text] == {"uti"}
