"""From NOTEEVENTS.csv to the sentences of Past Medical History sections, on made-up notes."""

import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mednli_jax.nli.notes import (
    is_past_medical_history,
    past_medical_history,
    read_notes,
    sections,
    sentences,
)

SECRET = "Zzyzx"
HEADER = [
    "ROW_ID",
    "SUBJECT_ID",
    "HADM_ID",
    "CHARTDATE",
    "CHARTTIME",
    "STORETIME",
    "CATEGORY",
    "DESCRIPTION",
    "CGID",
]
HEADER += ["ISERROR", "TEXT"]


def line(row_id, text, error="", category="Discharge summary"):
    cells = [row_id, 7, 9, "2101-01-01", "", "", category, "Report", "", error, text]
    return ",".join('"' + str(cell).replace('"', '""') + '"' for cell in cells) + "\n"


def notes(path, *lines, header=HEADER):
    data = (",".join(f'"{name}"' for name in header) + "\n" + "".join(lines)).encode(
        "utf-8", "surrogateescape"
    )
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


NOTE = """Admission Date:  [**2101-1-1**]

Past Medical History:
1. Coronary artery disease, seen by Dr. Smith, says "stable".
2. Hypertension

Social History:
Lives alone. Past Medical History: none
"""


@pytest.mark.parametrize("name", ["NOTEEVENTS.csv", "NOTEEVENTS.csv.gz"])
def test_sections_of_past_history_become_numbered_sentences(tmp_path, name):
    rows = [
        line(174, NOTE),
        line(175, NOTE, error="1"),
        line(9, "PMH: gout\n\nPLAN: x\nPMHx:\nasthma"),
        line(3, "No\n"),
    ]
    path = notes(tmp_path / name, *rows)
    facts = {}
    assert list(past_medical_history(path.with_name("NOTEEVENTS.csv"), facts=facts)) == [
        ("174:1", 'Coronary artery disease, seen by Dr. Smith, says "stable".'),
        ("174:2", "Hypertension"),
        ("9:1", "gout"),
        ("9:2", "asthma"),
    ]
    counts = {"rows": 4, "dropped_iserror": 1, "other_categories": 0, "empty": 0}
    assert facts == {"file": name, **counts, "notes": 2, "sections": 3, "sentences": 4}


def test_notes_of_chosen_categories_and_empty_ones(tmp_path):
    rows = [
        line(1, "a"),
        line(2, "b", category="Nursing  "),
        line(3, " \n"),
        line(4, "c", category="ECG", error="0"),
    ]
    path, facts = notes(tmp_path / "n.csv", *rows), {}
    assert list(read_notes(path, ("Nursing", "ECG"), facts)) == [(2, "b"), (4, "c")]
    assert facts["other_categories"] == 2
    assert [row_id for row_id, _ in read_notes(path, facts=facts)] == [1, 2, 4]
    assert facts["empty"] == 1
    (tmp_path / "small.csv").write_text(
        'text,row_id,iserror,category\n"PMH: ""a""",5,,x\n'
    )  # columns go by name
    assert list(past_medical_history(tmp_path / "small.csv")) == [("5:1", '"a"')]


PAST = (
    "Past Medical History",
    "PAST MEDICAL HISTORY",
    "Past medical history",
    "PMH",
    "PMHx",
    "Prior Medical History",
)
PAST += (
    "PAST MEDICAL/SURGICAL HISTORY",
    "Past Medical and Surgical History",
    "Other Past Medical History",
    "Past Hx",
)
OTHER = ("History of Present Illness", "Past Surgical History", "Social History", "Allergies")


@pytest.mark.parametrize("title", [*PAST, *OTHER])
def test_titles_of_sections(title):
    found = list(sections(f"Sex: M\n{title}:\nbody\nnext line\nFamily History: no"))
    assert [(name, body.strip()) for name, body in found][1] == (title, "body\nnext line")
    assert [is_past_medical_history(name) for name, _ in found] == [False, title in PAST, False]


def test_what_is_no_header():
    text = "He said: yes\n1. CARDIAC HISTORY: none\nhe felt Well: no\nTook Aspirin 81 mg: yes\n12:30 PM\n[**Name**]: x"
    assert list(sections(text)) == [("", text)]


FULL = "The patient underwent a complicated course with many procedures done by the"  # a line that goes on in the next


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            f"{FULL}\nMayo Clinic. Later she did well\nHTN",
            [f"{FULL} Mayo Clinic.", "Later she did well", "HTN"],
        ),
        (
            "Seen by Dr. Jones and Mrs. Smith vs. Mr. X.",
            ["Seen by Dr. Jones and Mrs. Smith vs. Mr. X."],
        ),
        ("On lasix b.i.d. He is well.", ["On lasix b.i.d.", "He is well."]),
        ("EF 55.5 percent. Creatinine 1.2 to 1.5.", ["EF 55.5 percent.", "Creatinine 1.2 to 1.5."]),
        ("CAD with ? TIA in 2001", ["CAD with ? TIA in 2001"]),
        (
            "at [**Hospital 1. Main St. Clinic**]. Stable.",
            ["at [**Hospital 1. Main St. Clinic**].", "Stable."],
        ),
        ("Since [**2101\n-1-1**] on dialysis", ["Since [**2101 -1-1**] on dialysis"]),
        ("1. CAD\n2) HTN\n3. DM type 2. On insulin\n", ["CAD", "HTN", "DM type 2.", "On insulin"]),
        ("1. CAD 2. HTN 3. DM", ["CAD", "HTN", "DM"]),
        ("1. Diabetes type 2. On insulin. 2. HTN", ["Diabetes type 2.", "On insulin.", "HTN"]),
        ("- CAD\n-CABG\n* gout\n# asthma\n#2. COPD", ["CAD", "CABG", "gout", "asthma", "COPD"]),
        ("Hypertension, diabetes,\nGout", ["Hypertension, diabetes, Gout"]),
        ("Several episodes\nwith pain. Then none", ["Several episodes with pain.", "Then none"]),
        (
            "An ejection fraction of\n30. He is well.",
            ["An ejection fraction of 30.", "He is well."],
        ),
        (
            "1. Disease of the left\n   Anterior artery\n2. Gout",
            ["Disease of the left Anterior artery", "Gout"],
        ),
        ("1.5 cm mass. a. fib", ["1.5 cm mass. a. fib"]),
        ("1.\n---\n[**2101-1-1**]\n7.5\n", []),
    ],
)
def test_sentences(body, expected):
    assert sentences(body) == expected


ROOT = Path(__file__).parents[2]
MADE = [line(n, f"PMH:\n1. {SECRET} {n}\n2. Hypertension\n\nPLAN:\nNot this") for n in range(40)]


def premises(folder, *flags, out="private/premises.tsv"):
    script = str(ROOT / "launch" / "premises_from_notes.py")
    command = [sys.executable, script, "--notes=NOTEEVENTS.csv.gz", f"--out={out}", *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def rows_of(path):
    return [tuple(row.split("\t")) for row in path.read_text().splitlines()]


def test_premises_are_sampled_from_the_notes(tmp_path):
    rows = [
        *MADE,
        line(90, f"PMH: {SECRET} once erred", error="1"),
        line(91, "PMH: gout", category="Nursing"),
    ]
    notes(tmp_path / "NOTEEVENTS.csv.gz", *rows)
    out = tmp_path / "private" / "premises.tsv"
    done = premises(tmp_path, "--number=10", "--categories=Discharge summary, Physician")
    assert (done.returncode, done.stderr) == (0, "")
    assert SECRET not in done.stdout
    assert "ypertension" not in done.stdout
    counts = json.loads(done.stdout)
    assert [counts[name] for name in ("rows", "notes", "sentences", "sampled")] == [42, 40, 80, 10]
    head, *ten = rows_of(out)
    assert head == ("uid", "sentence")
    # of equal sentences the first counts
    whole = {(f"{n}:1", f"{SECRET} {n}") for n in range(40)} | {("0:2", "Hypertension")}
    assert len(ten) == len(set(ten)) == 10
    assert set(ten) < whole
    assert [stat.S_IMODE(path.stat().st_mode) for path in (out, out.parent)] == [0o600, 0o700]

    assert premises(tmp_path, "--number=4", "--categories=Discharge summary").returncode == 0
    assert rows_of(out) == [
        head,
        *ten[:4],
    ]  # the same seed draws the same, and replaces the older file
