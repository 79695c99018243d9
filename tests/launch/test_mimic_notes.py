"""From NOTEEVENTS.csv to the sentences of Past Medical History sections, on made-up notes."""

import json

import premises_from_notes
import pytest
from mimic_notes import (
    is_past_medical_history,
    past_medical_history,
    read_notes,
    sections,
    sentences,
)
from support.commands import succeeds
from support.files import assert_private, write
from support.tables import table_rows

SECRET = "Zzyzx"
HEADER = (
    '"ROW_ID","SUBJECT_ID","HADM_ID","CHARTDATE","CHARTTIME","STORETIME","CATEGORY","DESCRIPTION",'
    '"CGID","ISERROR","TEXT"\n'
)


def line(row_id, text, error="", category="Discharge summary"):
    text = text.replace('"', '""')
    return f'"{row_id}",7,9,"2101-01-01","","","{category}","Report","","{error}","{text}"\n'


NOTE = """Admission Date:  [**2101-1-1**]

Past Medical History:
1. Coronary artery disease, seen by Dr. Smith, says "stable".
2. Hypertension

Social History:
Lives alone. Past Medical History: none
"""


@pytest.mark.parametrize("name", ["NOTEEVENTS.csv", "NOTEEVENTS.csv.gz"])
def test_sections_of_past_history_become_numbered_sentences(tmp_path, name):
    two_sections = line(9, "PMH: gout\n\nPLAN: x\nPMHx:\nasthma")
    notes = HEADER + line(174, NOTE) + line(175, NOTE, error="1") + two_sections + line(3, "No\n")
    write(tmp_path / name, notes)

    facts = {}
    numbered = list(past_medical_history(tmp_path / "NOTEEVENTS.csv", facts=facts))

    assert numbered == [
        ("174:1", 'Coronary artery disease, seen by Dr. Smith, says "stable".'),
        ("174:2", "Hypertension"),
        ("9:1", "gout"),
        ("9:2", "asthma"),
    ]
    rows = {"rows": 4, "dropped_iserror": 1, "other_categories": 0, "empty": 0}
    assert facts == {
        "file": name,
        **rows,
        "notes": 2,
        "sections": 3,
        "sentences": 4,
    }


@pytest.mark.parametrize(
    "categories, notes, counts",
    [
        (("Nursing", "ECG"), [(2, "b"), (4, "c")], {"other_categories": 2, "empty": 0}),
        (
            (),
            [
                (1, "a"),
                (2, "b"),
                (4, "c"),
            ],
            {"other_categories": 0, "empty": 1},
        ),
    ],
)
def test_notes_of_chosen_categories_that_are_not_empty_are_read(
    tmp_path, categories, notes, counts
):
    nursing = line(2, "b", category="Nursing  ")
    ecg = line(4, "c", category="ECG", error="0")
    path = write(tmp_path / "n.csv", HEADER + line(1, "a") + nursing + line(3, " \n") + ecg)
    facts = {}
    assert list(read_notes(path, categories, facts)) == notes
    assert counts.items() <= facts.items()


def test_columns_are_found_by_their_names(tmp_path):
    path = write(tmp_path / "n.csv", 'text,row_id,iserror,category\n"PMH: ""a""",5,,x\n')
    assert list(past_medical_history(path)) == [("5:1", '"a"')]


@pytest.mark.parametrize(
    "title",
    [
        "Past Medical History",
        "PAST MEDICAL HISTORY",
        "Past medical history",
        "PMH",
        "PMHx",
        "Prior Medical History",
        "PAST MEDICAL/SURGICAL HISTORY",
        "Past Medical and Surgical History",
        "Other Past Medical History",
        "Past Hx",
    ],
)
def test_sections_of_past_history_have_many_titles(title):
    assert is_past_medical_history(title)


@pytest.mark.parametrize(
    "title", ["", "History of Present Illness", "Past Surgical History", "Social History"]
)
def test_titles_of_other_sections_are_no_past_history(title):
    assert not is_past_medical_history(title)


@pytest.mark.parametrize("title", ["PAST MEDICAL/SURGICAL HISTORY", "PMHx", "Allergies"])
def test_a_note_is_divided_at_its_titles(title):
    note = f"Sex: M\n{title}:\nbody\nnext line\nFamily History: no"
    first, (name, body), last = sections(note)
    assert name == title
    assert body.strip() == "body\nnext line"
    assert first[0] == "Sex"
    assert last[0] == "Family History"


@pytest.mark.parametrize(
    "text",
    [
        "He said: yes",
        "1. CARDIAC HISTORY: none",
        "he felt Well: no",
        "Took Aspirin 81 mg: yes",
        "12:30 PM",
        "[**Name**]: x",
    ],
)
def test_other_lines_with_a_colon_are_no_titles(text):
    assert list(sections(text)) == [("", text)]


# a line that goes on in the next
FULL = "The patient underwent a complicated course with many procedures done by the"


@pytest.mark.parametrize(
    "body, expected",
    table_rows(rf"""
        {FULL}\nMayo Clinic. Later she did well\nHTN | {FULL} Mayo Clinic./Later she did well/HTN
        Seen by Dr. Jones and Mrs. X vs. Mr. X. | Seen by Dr. Jones and Mrs. X vs. Mr. X.
        On lasix b.i.d. He is well. | On lasix b.i.d./He is well.
        EF 55.5 percent. Creatinine 1.2 to 1.5. | EF 55.5 percent./Creatinine 1.2 to 1.5.
        CAD with ? TIA in 2001 | CAD with ? TIA in 2001
        at [**Hospital 1. St. Clinic**]. Stable. | at [**Hospital 1. St. Clinic**]./Stable.
        Since [**2101\n-1-1**] on dialysis | Since [**2101 -1-1**] on dialysis
        1. CAD\n2) HTN\n3. DM type 2. On insulin\n | CAD/HTN/DM type 2./On insulin
        1. CAD 2. HTN 3. DM | CAD/HTN/DM
        1. Diabetes type 2. On insulin. 2. HTN | Diabetes type 2./On insulin./HTN
        - CAD\n-CABG\n* gout\n# asthma\n#2. COPD | CAD/CABG/gout/asthma/COPD
        Hypertension, diabetes,\nGout | Hypertension, diabetes, Gout
        Several episodes\nwith pain. Then none | Several episodes with pain./Then none
        An EF of\n30. He is well. | An EF of 30./He is well.
        1. Disease of the left\n   Anterior artery | Disease of the left Anterior artery
        1.5 cm mass. a. fib | 1.5 cm mass. a. fib
        1.\n---\n[**2101-1-1**]\n7.5\n |
    """),
)
def test_a_section_is_divided_into_sentences(body, expected):
    assert "/".join(sentences(body.replace(r"\n", "\n"))) == expected


@pytest.fixture
def sample_premises(tmp_path):
    """Runs launch/data/premises_from_notes.py on 80 sentences: (stdout, lines of the file)."""
    notes = [line(n, f"PMH:\n1. {SECRET} {n}\n2. Hypertension\n\nPLAN:\nNo") for n in range(40)]
    notes.append(line(90, f"PMH: {SECRET} once erred", error="1"))
    notes.append(line(91, "PMH: gout", category="Nursing"))
    path = write(tmp_path / "NOTEEVENTS.csv.gz", HEADER + "".join(notes))
    out = tmp_path / "private" / "premises.tsv"
    flags = (f"--notes={path}", f"--out={out}", "--categories=Discharge summary, Physician")

    def run(number):
        printed, _ = succeeds(premises_from_notes, *flags, f"--number={number}")
        return printed, out.read_text().splitlines()

    return run


def test_premises_are_drawn_from_the_distinct_sentences(sample_premises):
    """Of equal sentences the first counts."""
    output, (header, *rows) = sample_premises(10)
    distinct = {"0:2\tHypertension", *(f"{n}:1\t{SECRET} {n}" for n in range(40))}
    assert header == "uid\tsentence"
    assert len(rows) == len(set(rows)) == 10
    assert set(rows) < distinct
    counts = json.loads(output)
    assert counts["rows"] == 42
    assert counts["notes"] == 40
    assert counts["sentences"] == 80
    assert counts["sampled"] == 10


def test_a_smaller_sample_is_the_first_rows_of_a_larger_one(sample_premises):
    """The second run replaces the file."""
    _, larger = sample_premises(10)
    _, smaller = sample_premises(4)
    assert smaller == larger[: 1 + 4]


def test_sampled_premises_are_private(sample_premises, tmp_path):
    output, _ = sample_premises(10)
    assert SECRET not in output
    assert "ypertension" not in output
    assert (tmp_path / "private" / "premises.tsv").is_file()
    assert_private(tmp_path / "private")
