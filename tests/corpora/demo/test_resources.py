"""The bundled tables: identifiers exist, names are unambiguous, and the tables agree with each other."""

import csv
import gzip
import json
from collections import Counter, defaultdict
from importlib.resources import files

import pytest

RESOURCES = files("mednli_jax.knowledge") / "resources"
FACTS = files("mednli_jax.corpora.demo") / "clinical_facts.json"
CATEGORIES = ("symptoms", "treatments", "tests", "procedures")
ALIAS_FILES = ("aliases_everyday.tsv", "aliases_doid.tsv")


def _rows(name, header):
    lines = (RESOURCES / name).read_text(encoding="utf-8").split("\n")
    assert lines.pop() == "", "the last line ends with a newline"
    assert lines[0].split("\t") == header
    rows = [line.split("\t") for line in lines[1:]]
    assert {len(row) for row in rows} == {len(header)}
    return rows


def _split(field):
    return field.split("|") if field else []


@pytest.fixture(scope="module")
def mesh():
    """Descriptor id -> (name, tree numbers, synonyms)."""
    with (RESOURCES / "mesh2024.tsv.gz").open("rb") as raw, gzip.open(raw, "rt", encoding="utf-8", newline="") as text:
        table = csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
        parts = {row["id"]: (row["name"], row["tree_numbers"], row["synonyms"]) for row in table}
    return {concept: (name, _split(trees), _split(synonyms)) for concept, (name, trees, synonyms) in parts.items()}


@pytest.fixture(scope="module")
def mesh_owners(mesh):
    """Lower-cased MeSH name or synonym -> the descriptors that have it."""
    owners = defaultdict(set)
    for concept, (name, _, synonyms) in mesh.items():
        for surface in (name, *synonyms):
            owners[surface.lower()].add(concept)
    return owners


@pytest.fixture(scope="module")
def aliases():
    return {name: _rows(name, ["alias", "concept"]) for name in ALIAS_FILES}


@pytest.fixture(scope="module")
def abbreviations():
    return _rows("abbreviations.tsv", ["abbreviation", "expansion", "concept"])


@pytest.fixture(scope="module")
def conditions():
    return json.loads(FACTS.read_text(encoding="utf-8"))["conditions"]


def _phrases(condition, fields=CATEGORIES):
    return [phrase for field in fields for phrase in condition[field]]


def test_mesh_is_the_whole_2024_extract(mesh):
    assert len(mesh) == 30_764
    assert mesh["D006333"] == ("Heart Failure", ["C14.280.434"], ["Cardiac Failure"])
    assert sum(len(trees) for _, trees, _ in mesh.values()) == 64_457


def test_every_concept_exists(mesh, aliases, abbreviations, conditions):
    concepts = {row[1] for rows in aliases.values() for row in rows}
    concepts |= {row[2] for row in abbreviations if row[2]} | {condition["mesh"] for condition in conditions}
    assert concepts <= set(mesh)


def test_counts(aliases, abbreviations, conditions):
    assert len(aliases["aliases_doid.tsv"]) >= 4000
    assert len(aliases["aliases_everyday.tsv"]) >= 300
    assert len(abbreviations) >= 400
    assert len(conditions) >= 250


def test_a_surface_form_stands_in_one_table_once(aliases, abbreviations):
    surfaces = [row[0] for rows in (*aliases.values(), abbreviations) for row in rows]
    assert [surface for surface, times in Counter(surfaces).items() if times > 1] == []


def test_surface_forms_are_lower_case_and_trimmed(aliases, abbreviations):
    surfaces = [row[0] for rows in aliases.values() for row in rows]
    surfaces += [part for row in abbreviations for part in row[:2]]
    assert [surface for surface in surfaces if surface != " ".join(surface.lower().split())] == []
    assert min(len(row[0]) for rows in aliases.values() for row in rows) >= 3


def test_files_are_sorted(aliases, abbreviations):
    for rows in (*aliases.values(), abbreviations):
        assert rows == sorted(rows), "sorted files give readable diffs"


def test_aliases_never_contradict_or_repeat_mesh(mesh_owners, aliases):
    surfaces = [row[0] for rows in aliases.values() for row in rows]
    assert [surface for surface in surfaces if surface in mesh_owners] == []


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("breast cancer", "Breast Neoplasms"),
        ("diabetes", "Diabetes Mellitus"),
        ("heart attack", "Myocardial Infarction"),
        ("high cholesterol", "Hypercholesterolemia"),
        ("kidney stones", "Kidney Calculi"),
        ("blood clot", "Thrombosis"),
        ("shortness of breath", "Dyspnea"),
        ("coughing up blood", "Hemoptysis"),
        ("coumadin", "Warfarin"),
        ("lasix", "Furosemide"),
        ("tylenol", "Acetaminophen"),
        ("knee replacement", "Arthroplasty, Replacement, Knee"),
        ("spinal tap", "Spinal Puncture"),
        ("goitre", "Goiter"),
        ("haemopneumothorax", "Hemopneumothorax"),
    ],
)
def test_everyday_names_reach_their_concept(mesh, mesh_owners, aliases, alias, name):
    given = {row[0]: {row[1]} for rows in aliases.values() for row in rows}
    assert {mesh[concept][0] for concept in given.get(alias) or mesh_owners[alias]} == {name}


@pytest.mark.parametrize(
    ("abbreviation", "expansion", "name"),
    [
        ("chf", "congestive heart failure", "Heart Failure"),
        ("t2dm", "type 2 diabetes", "Diabetes Mellitus, Type 2"),
        ("cabg", "coronary artery bypass graft", "Coronary Artery Bypass"),
        ("sob", "shortness of breath", "Dyspnea"),
        ("pe", "pulmonary embolism", "Pulmonary Embolism"),
        ("pt", "patient", None),
        ("h/o", "history of", None),
        ("s/p", "status post", None),
        ("dic", "disseminated intravascular coagulation", "Disseminated Intravascular Coagulation"),
        ("pcn", "penicillin", "Penicillins"),
    ],
)
def test_abbreviations_read_as_in_hospital_notes(mesh, abbreviations, abbreviation, expansion, name):
    given = {row[0]: row[1:] for row in abbreviations}
    found, concept = given[abbreviation]
    assert (found, mesh[concept][0] if concept else None) == (expansion, name)


def test_an_expansion_that_mesh_names_has_that_concept(mesh_owners, abbreviations):
    # The MeSH headings "culture", "history" and "patient" mean something else than these clinical abbreviations.
    other_sense = {"cx", "hx", "pt"}
    wrong = [row[0] for row in abbreviations if row[1] in mesh_owners and row[2] not in mesh_owners[row[1]]]
    assert set(wrong) == other_sense


def test_condition_names_and_concepts_are_unique(conditions):
    for values in ([c["name"] for c in conditions], [c["mesh"] for c in conditions]):
        assert [value for value, times in Counter(values).items() if times > 1] == []


def test_condition_names_link_to_their_own_concept(mesh_owners, aliases, abbreviations, conditions):
    given = {row[0]: {row[1]} for rows in aliases.values() for row in rows}
    shorthand = {row[0]: row[2] for row in abbreviations}
    for condition in conditions:
        name, concept = condition["name"], condition["mesh"]
        assert (given.get(name) or mesh_owners[name]) == {concept}, name
        assert {shorthand[short] for short in condition["short"]} <= {concept}, name


def test_conditions_are_findings_of_patients(mesh, conditions):
    # Branch C holds diseases and symptoms (C23), F03 mental disorders, and F01 conditions that are kinds of behaviour.
    kinds = {tree.split(".")[0][0] for condition in conditions for tree in mesh[condition["mesh"]][1][:1]}
    assert kinds <= {"C", "F"}


def test_conditions_cover_the_organ_systems(mesh, conditions):
    trees = {tree[:3] for condition in conditions for tree in mesh[condition["mesh"]][1]}
    assert trees >= {"C01", "C04", "C05", "C06", "C08", "C09", "C10", "C11", "C12", "C14", "C15", "C17", "C18", "C19"}
    assert trees >= {"C20", "C26", "F03"}


def test_conditions_are_complete_enough_to_reason_with(conditions):
    for condition in conditions:
        counts = [len(condition[field]) for field in CATEGORIES]
        assert counts[0] >= 3, condition["name"]
        assert counts[1] >= 2, condition["name"]
        assert counts[2] >= 1, condition["name"]
        assert len(_phrases(condition)) == len(set(_phrases(condition))), condition["name"]
        assert condition["name"] not in _phrases(condition), condition["name"]
    assert sum(bool(condition["procedures"]) for condition in conditions) >= 200


def test_fact_phrases_are_short_lower_case_phrases(conditions):
    for condition in conditions:
        for phrase in [condition["name"], *condition["short"], *_phrases(condition)]:
            assert phrase == " ".join(phrase.lower().split()), phrase
            assert 1 <= len(phrase.split()) <= 4, phrase


def test_a_phrase_is_of_one_category(conditions):
    """Colonoscopy, say, cannot be a test of one condition and a procedure of another: hypotheses ask which."""
    seen = defaultdict(set)
    for condition in conditions:
        for field in CATEGORIES:
            for phrase in condition[field]:
                seen[phrase].add(field)
    assert {phrase: fields for phrase, fields in seen.items() if len(fields) > 1} == {}


@pytest.mark.parametrize(
    ("name", "field", "phrase"),
    [
        ("heart failure", "treatments", "furosemide"),
        ("type 2 diabetes", "treatments", "metformin"),
        ("appendicitis", "procedures", "appendectomy"),
        ("bacterial meningitis", "tests", "lumbar puncture"),
        ("parkinson's disease", "symptoms", "resting tremor"),
        ("gout", "treatments", "allopurinol"),
        ("pulmonary embolism", "symptoms", "sudden dyspnea"),
    ],
)
def test_facts_say_what_a_clinician_would(conditions, name, field, phrase):
    assert phrase in {condition["name"]: condition for condition in conditions}[name][field]


def test_facts_say_their_version_and_credit():
    facts = json.loads(FACTS.read_text(encoding="utf-8"))
    assert facts["version"] == 1
    assert "National Library of Medicine" in facts["credit"]


def test_every_resource_is_credited():
    credits = (RESOURCES / "CREDITS.md").read_text(encoding="utf-8")
    names = {entry.name for entry in RESOURCES.iterdir() if entry.name.endswith((".tsv", ".gz"))}
    assert {name for name in names if f"`{name}`" not in credits} == set()
    assert "does not reflect the most current" in credits
    assert "CC0 1.0" in credits
