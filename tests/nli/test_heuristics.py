"""The annotators' heuristics on concepts worked out by hand, and the chi-square test against equal class counts."""

import json
import math
from dataclasses import replace

import pytest
from made_up_pairs import pair

from mednli_jax.data.examples import LABELS, Mention
from mednli_jax.errors import DataError
from mednli_jax.knowledge.ontology import Ontology, is_a_matrix
from mednli_jax.knowledge.readers.mesh import BUNDLED, LINK_TYPES, read_mesh
from mednli_jax.nli import heuristics
from mednli_jax.nli.heuristics import CAUSE, FINE, HYPERNYM

E, N, C = LABELS
ROWS = (
    ("D004700", "Endocrine System Diseases", "C19"),
    ("D003920", "Diabetes Mellitus", "C19.246|C18.452.394.750"),
    ("D000230", "Acromegaly", "C19.700"),
    ("D008659", "Metabolic Diseases", "C18.452"),
    ("D000818", "Animals", "B01.050"),
    ("D006321", "Heart", "A07.541"),
    ("D012907", "Smoking", "F01.145.805"),
    ("D000073865", "Cigarette Smoking", "F01.145.805.375.750"),
    ("D019966", "Substance-Related Disorders", "C25.775|F03.900"),
    ("D062787", "Drug Overdose", "C25.775.342.500.500"),
    ("D006703", "Ill-Housed Persons", "M01.325"),
    ("D006850", "Hydrocephalus, Normal Pressure", "C10.228.140.602"),
    ("D010361", "Patients", "M01.643"),
)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    path = tmp_path_factory.mktemp("mesh") / "some.tsv"
    header = "id\tname\ttree_numbers\tsynonyms"
    path.write_text("\n".join([header, *("\t".join((*row, "")) for row in ROWS)]) + "\n")
    return read_mesh(path, aliases=False)


ID = {name: concept for concept, name, _ in ROWS}


def mentions(*names):
    return [Mention(n, n + 1, ID.get(name, name)) for n, name in enumerate(names)]


def satisfied(ontology, premise, hypothesis, words="x y z"):
    """The names of the heuristics that one pair satisfies; its mentions lie on the first tokens of each side."""
    rows = heuristics.satisfied([pair("p", words)], [mentions(*premise)], [mentions(*hypothesis)], ontology)
    return {name for name, found in rows.items() if found}


@pytest.mark.parametrize(
    ("premise", "hypothesis", "holds"),
    [
        (["Diabetes Mellitus"], ["Endocrine System Diseases"], True),  # the example in the paper
        (["Endocrine System Diseases"], ["Diabetes Mellitus"], False),
        (["Diabetes Mellitus"], ["Diabetes Mellitus"], False),
        # its second tree number lies below, although the number between the two is missing
        (["Diabetes Mellitus"], ["Metabolic Diseases"], True),
        (["Acromegaly"], ["Metabolic Diseases"], False),
        (["Acromegaly"], ["Diabetes Mellitus"], False),
        (["Heart", "Acromegaly"], ["Animals", "Endocrine System Diseases"], True),
        (["not there"], ["Endocrine System Diseases"], False),
        (["Diabetes Mellitus"], ["not there"], False),
        ([], ["Endocrine System Diseases"], False),
    ],
)
def test_hypernym_is_more_general_in_the_hypothesis(mesh, premise, hypothesis, holds):
    assert (HYPERNYM in satisfied(mesh, premise, hypothesis)) == holds


# c2 is-a c1 is-a c0; c3 stands alone. No concept has a tree number.
CHAIN = Ontology(
    "chain", "1", ("c0", "c1", "c2", "c3"), ("zero", "one", "two", "Patient"), (), is_a_matrix([(1, 0), (2, 1)], 4), ""
)


def test_any_ontology_has_hypernyms_but_not_causes():
    assert satisfied(CHAIN, ["c2"], ["c0"]) == {HYPERNYM}
    assert satisfied(CHAIN, ["c0"], ["c2"]) == set()
    assert satisfied(CHAIN, ["c2", "c3"], ["c3", "elsewhere"]) == set()
    assert satisfied(CHAIN, ["c2"], ["c2"], "x no z") == {FINE}
    assert satisfied(CHAIN, ["c3"], ["c3"], "x no z") == set()  # c3 is the patient, which no heuristic counts
    # concepts of SNOMED CT have such references
    cuis = replace(CHAIN, cross_references=(("CUI", 2), ("CUI", 3), ("above", 0)))
    assert satisfied(cuis, ["CUI"], ["above"]) == {HYPERNYM}
    assert satisfied(cuis, ["above"], ["CUI"]) == set()
    assert satisfied(cuis, ["CUI"], ["c2"], "x no z") == {FINE}
    rows = heuristics.satisfied([], [], [], CHAIN)
    assert rows == {HYPERNYM: [], FINE: []}


@pytest.mark.parametrize(
    ("premise", "hypothesis", "holds"),
    [
        (["Acromegaly"], ["Smoking"], True),
        (["Acromegaly"], ["Cigarette Smoking"], True),
        (["Acromegaly"], ["Drug Overdose"], True),
        (["Acromegaly"], ["Ill-Housed Persons"], True),
        (["Smoking"], ["Substance-Related Disorders"], True),  # branch F counts as a kind of premise, too
        (["Acromegaly"], ["Diabetes Mellitus"], False),
        (["Heart"], ["Smoking"], False),  # no cause is listed for anatomy
        (["Smoking"], ["Acromegaly"], False),
        (["not there"], ["Smoking"], False),
        ([], ["Smoking"], False),
    ],
)
def test_probable_cause_is_in_the_hypothesis(mesh, premise, hypothesis, holds):
    assert (CAUSE in satisfied(mesh, premise, hypothesis)) == holds


@pytest.mark.parametrize(
    ("premise", "hypothesis", "words", "holds"),
    [
        (["Acromegaly"], ["Acromegaly"], "acromegaly Denied", True),
        (["Acromegaly"], ["Acromegaly"], "acromegaly is not there", True),
        (["Acromegaly"], ["Acromegaly"], "heart is healthy", True),
        (["Acromegaly"], ["Acromegaly"], "acromegaly is there", False),
        (["Acromegaly"], ["Heart"], "heart is normal", False),  # the two concepts are unrelated
        (["Patients"], ["Patients"], "patient is normal", False),
        (["Patients", "Heart"], ["Patients", "Heart"], "patient heart normal", True),
        (["Heart"], ["Heart"], "normal is the heart", False),  # here a concept holds the first word
        ([], [], "all is normal", False),
    ],
)
def test_everything_is_fine_repeats_a_concept_and_affirms_health(mesh, premise, hypothesis, words, holds):
    assert (FINE in satisfied(mesh, premise, hypothesis, words)) == holds


def test_duplicate_rows_stay_separate(mesh):
    examples = [pair("p", words) for words in ("x y", "x y", "x no")]
    heart = [mentions("Heart")] * 3
    assert heuristics.satisfied(examples, heart, heart, mesh)[FINE] == [2]
    examples = [pair("p", "x no", uid=uid) for uid in "abc"]
    assert heuristics.satisfied(examples, heart, heart, mesh)[FINE] == [0, 1, 2]


def test_the_causes_are_what_the_bundled_table_says():
    mesh = read_mesh(aliases=False)
    assert {concept: mesh.labels[mesh.index(concept)] for concept in heuristics.CAUSES} == heuristics.CAUSES
    owner = {tree: concept for concept, kinds in zip(mesh.ids, mesh.types, strict=True) for tree in kinds.split("|")}
    published = ("M01.808", "C25.775", "F03", "M01.066", "M01.325", "C23.888.144.699")
    assert {owner[tree] for tree in published} <= set(heuristics.CAUSES)
    smoking = mesh.types[mesh.index("D012907")]
    assert not any(smoking.startswith(tree) for tree in published)
    assert "D009765" in mesh.descendants("D050177")  # obesity is a kind of overweight
    # The reader and the heuristics together ask for the kinds that link every cause.
    for concept in heuristics.CAUSES:
        kinds = mesh.types[mesh.index(concept)].split("|")
        assert any(kind.startswith((*LINK_TYPES, *heuristics.CAUSE_TYPES)) for kind in kinds), concept
    assert BUNDLED == "mesh2024.tsv.gz"  # the tree numbers above belong to this edition


# -- the test ----------------------------------------------------------------------------------------------------------


def test_chi_square_by_hand():
    """Counts 6, 3 and 0 where 3 each are expected: (9 + 0 + 9) / 3 = 6; with two degrees of freedom p = exp(-3)."""
    labels = [E] * 6 + [N] * 3 + [C] * 9
    found = heuristics.spread({HYPERNYM: list(range(9)), FINE: []}, labels)
    assert found[HYPERNYM] == {
        "pairs": 9, "labels": {E: 6, N: 3, C: 0}, "top": E, "share": pytest.approx(2 / 3),
        "chi_square": pytest.approx(6.0), "p_value": pytest.approx(math.exp(-3)),
    }  # fmt: skip
    nothing = {"chi_square": None, "p_value": None, "top": None, "share": None}
    assert found[FINE] == {"pairs": 0, "labels": {E: 0, N: 0, C: 0}, **nothing}
    even = heuristics.spread({FINE: list(range(30))}, [E, N, C] * 10)[FINE]
    assert (even["chi_square"], even["p_value"], even["share"]) == (0.0, 1.0, pytest.approx(1 / 3))
    with pytest.raises(DataError):
        heuristics.spread({FINE: [0]}, [N, N])


# -- the command -------------------------------------------------------------------------------------------------------


def test_uids_that_satisfy_are_written(ask, tmp_path):
    code, out, err = ask("heuristics", "--corpus=snli", "--out=o")
    assert code == 0, err
    found = json.loads((tmp_path / "o" / "heuristics.json").read_text())
    assert found["splits"] == ["train", "dev", "test"]
    assert found["pairs"] == 108  # all splits together, as in the paper
    # In each split four contradictions have gout in the premise and joint pain in the hypothesis. With equal class
    # counts each class would have four of these 12 pairs.
    assert found["uids"][HYPERNYM][:5] == [
        *(f"snli_1.0_train-{n}-{C}" for n in range(8, 12)), f"snli_1.0_dev-8-{C}",
    ]  # fmt: skip
    assert found["heuristics"][HYPERNYM]["labels"] == {E: 0, N: 0, C: 12}
    assert found["heuristics"][HYPERNYM]["chi_square"] == pytest.approx((8**2 + 4**2 + 4**2) / 4)
    assert found["heuristics"][FINE]["pairs"] == len(found["uids"][FINE]) == 0
    assert not (tmp_path / "o" / "private").exists()
    assert (tmp_path / "o" / "heuristics.png").is_file()
    assert "chi-square" in out


def test_another_ontology_does_without_probable_cause(ask):
    code, out, _ = ask("heuristics", "--corpus=snli", "--config.knowledge.ontology=own.obo")
    assert code == 0
    assert "probable cause" in out
    assert "Fix: --config.knowledge.ontology=mesh" in out
    assert "hypernym" in out
    code, out, _ = ask("heuristics", "--corpus=snli", "--config.knowledge.ontology=own.obo", "--json")
    assert set(json.loads(out)["heuristics"]) == {HYPERNYM, FINE}


def test_causes_that_a_config_does_not_link_are_reported(ask):
    _, out, _ = ask("heuristics", "--corpus=snli")
    assert "not linked" not in out
    _, out, _ = ask("heuristics", "--corpus=snli", "--config.knowledge.types='C','M01.066'")
    assert "kinds M01.808, M01.325 " in out


def test_names_that_were_moved_are_no_control(ask):
    code, _, err = ask("heuristics", "--corpus=snli", "--config.knowledge.permute_seed=1")
    assert (code, err.startswith("error: config.knowledge.permute_seed")) == (2, True)
