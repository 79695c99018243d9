"""The wording of the demo corpus: premise and hypothesis frames, as plain tables that `demo` fills in.

Slots in braces are filled by name. No frame may hold text that changes under Treebank tokenisation in a way that hides
a concept: a period inside a premise stays on its word, so statements are joined by commas and semicolons.
"""

import re
from dataclasses import dataclass

# ---- Openers and fillers, shared by all premises -------------------------------------------------------------------

OPENERS = (
    "",
    "",
    "",
    "{age} y/o {sex}",
    "{age}yo {sex}",
    "pt is a {age} year old {sex}",
    "this is a {age} y/o {sex}",
    "[**Known lastname {n}**] is a {age} y/o {sex}",
    "patient is a {age} year old {sex}",
    "pt",
    "the patient",
    "mr. [**Known lastname {n}**]",
    "mrs. [**Known lastname {n}**]",
    "{age} year old {sex}",
    "pmh",
    "{age} y/o {sex} seen on [**{date}**]",
)
SEXES = ("man", "woman", "male", "female", "gentleman", "lady")
FILLERS = (
    "transferred from [**Hospital1 {n}**]",
    "seen by Dr. [**Last Name (STitle) {n}**]",
    "seen on [**{date}**]",
    "pcp is Dr. [**Name (NI)**]",
    "lives w/ family",
    "full code",
    "nkda",
    "records from OSH reviewed",
    "appt on [**{date}**]",
    "labs drawn on [**{date}**]",
    "admitted to [**Hospital{k} {n}**] on [**{date}**]",
    "tylenol {dose} mg prn",
    "colace 100 mg bid",
    "senna 8.6 mg qhs",
    "ambulating w/ assist",
    "tolerating po",
    "d/c planned for [**{date}**]",
    "last seen in [**Hospital{k} {n}**] clinic",
    "telemetry uneventful",
    "discussed w/ team at [**Telephone/Fax (1) {n}**]",
    "wound c/d/i",
    "ivf at {dose} cc/hr",
)

# ---- Relation groups: one statement of a premise decides, and the path between two concepts says which one ---------

DISEASE_STATEMENTS = {
    "affirmed": (
        "h/o {x}",
        "history of {x}",
        "known {x}",
        "admitted with {x}",
        "pmh of {x}",
        "pmh significant for {x}",
        "w/ {x}",
        "diagnosed with {x} in [**{year}**]",
        "presents with {x}",
        "carries a diagnosis of {x}",
        "{x} since [**{year}**]",
        "followed for {x}",
        "longstanding {x}",
        "course c/b {x}",
        "found to have {x}",
        "hospitalized for {x}",
        "problem list includes {x}",
        "treated here for {x}",
    ),
    "denied": (
        "no history of {x}",
        "denies any {x}",
        "negative for {x}",
        "no h/o {x}",
        "without {x}",
        "never had {x}",
        "no evidence of {x}",
        "no known {x}",
        "denies h/o {x}",
        "{x} was excluded",
        "workup negative for {x}",
        "w/o {x}",
        "no prior {x}",
        "never diagnosed with {x}",
    ),
    "other": (
        "mother with {x}",
        "brother had {x}",
        "family history of {x}",
        "fh of {x}",
        "r/o {x}",
        "being evaluated for {x}",
        "father died of {x}",
        "concern for {x}",
        "question of {x}",
        "? {x}",
        "possible {x}",
        "sister with h/o {x}",
        "awaiting workup for {x}",
        "{x} is on the differential",
        "wife has {x}",
        "screened for {x}",
    ),
}
DRUG_STATEMENTS = {
    "affirmed": (
        "on {x}",
        "takes {x} daily",
        "started on {x}",
        "continues {x}",
        "home meds include {x}",
        "maintained on {x}",
        "receives {x}",
    ),
    "denied": (
        "not taking any {x}",
        "not on {x}",
        "denies use of {x}",
        "off all {x}",
        "never took {x}",
        "no {x} at home",
        "does not take {x}",
    ),
    "other": (
        "mother takes {x}",
        "wife is on {x}",
        "father on {x}",
        "{x} being considered",
        "discussed starting {x}",
        "roommate takes {x}",
        "? need for {x}",
    ),
}
STATEMENTS = {"disease": DISEASE_STATEMENTS, "drug": DRUG_STATEMENTS}
RELATION_HYPOTHESES = {
    "disease": {
        "+": (
            "patient has {m}",
            "patient has {m}",
            "there is evidence of {m}",
            "patient suffers from {m}",
            "patient is known to have {m}",
            "patient carries a diagnosis of {m}",
            "{m} is present",
            "patient has a history of {m}",
            "patient was diagnosed with {m}",
            "positive for {m}",
            "patient is affected by {m}",
            "patient lives with {m}",
        ),
        "-": (
            "patient has no {m}",
            "patient does not have {m}",
            "no evidence of {m}",
            "{m} is absent",
            "patient has never had {m}",
            "patient is free of {m}",
            "there is no {m}",
            "patient is without {m}",
            "patient does not suffer from {m}",
            "patient was never diagnosed with {m}",
            "negative for {m}",
            "patient has no history of {m}",
        ),
    },
    "drug": {
        "+": (
            "patient takes {m}",
            "patient is on {m}",
            "patient is taking {m}",
            "patient receives {m}",
            "patient uses {m}",
            "{m} is on the medication list",
        ),
        "-": (
            "patient does not take {m}",
            "patient is not on {m}",
            "patient takes no {m}",
            "patient is off {m}",
            "patient does not use {m}",
            "{m} is not on the medication list",
        ),
    },
}

# Who a hypothesis speaks of: "patient" in a frame becomes one of these, whatever the label.
SUBJECTS = ("patient", "the patient", "pt", "the pt", "this patient")
TAILS = ("per the chart", "according to the records", "as documented in the records sent from the outside hospital")

# ---- Fact groups: decided by the words of the pair and by facts met in training ------------------------------------

RISKS = ("smoking", "alcohol use", "poor diet", "drug use", "inactivity", "medication noncompliance", "stress")
AGES = ("years ago", "months ago", "last year", "several years ago")
RECENT = ("today", "yesterday", "this morning", "overnight")

# The annotators' habits that Herlihy and Rudinger (2021) found in MedNLI: entailed hypotheses are generic, neutral ones
# name causes and comorbidities, contradictions negate or assert health. In each label half of the frames name a concept
# of the premise, so that how many links a pair has says nothing about its label.
HABITS = {
    "entailment": (
        "patient requires treatment for {c}",
        "patient has documented {c}",
        "patient meets criteria for {c}",
        "patient has some form of {c}",
        "patient has findings consistent with {c}",
        "patient has a medical condition",
        "patient has abnormal findings",
        "patient has a significant history",
        "patient requires medical care",
        "patient is not well",
    ),
    "neutral": (
        "patient has {c} due to {risk}",
        "{c} was caused by {risk}",
        "{c} was preceded by {risk}",
        "patient also has {c2}",
        "there is also {c2}",
        "patient is a smoker",
        "patient has risk factors such as {risk}",
        "patient also has {c3}",
        "patient will need surgery",
        "patient lives alone",
    ),
    "contradiction": (
        "patient has never had {c}",
        "patient denies any {c}",
        "there was never any {c}",
        "patient is healthy without {c}",
        "patient has normal findings and no {c}",
        "patient is healthy",
        "patient has no medical problems",
        "patient has a normal exam",
        "patient has never been ill",
        "patient has no past history",
    ),
}


@dataclass(frozen=True)
class Kind:
    """One kind of fact group: premise frames, and hypotheses that the premise's words alone decide.

    needs: lists of a condition that may not be empty (as in clinical_facts.json, or "own": treatments of no other one).
    habits: whether the annotators' habits hold true of its premises; the others turn the same wording around.
    """

    name: str
    weight: int
    premise: tuple[str, ...]
    entailment: tuple[str, ...]
    neutral: tuple[str, ...]
    contradiction: tuple[str, ...]
    needs: tuple[str, ...] = ()
    habits: bool = True


HAS = ("patient has {c}", "there is evidence of {c}", "patient was diagnosed with {c}", "patient suffers from {c}")
HAS_NOT = ("patient has no {c}", "patient does not have {c}", "no evidence of {c}", "patient is free of {c}")
UNSURE = ("patient has {c2}", "patient has no {c2}", "patient was diagnosed with {c2}", "patient does not have {c2}")
KINDS = (
    Kind(
        "affirmed",
        3,
        (
            "h/o {c}, {u}",
            "{u}, known {c}",
            "admitted with {c}, {u}",
            "pmh significant for {c}, {u}",
            "{u}, presents with {c} and {s}",
            "longstanding {c}, {u}",
            "found to have {c} on {test}, {u}",
        ),
        HAS,
        UNSURE,
        HAS_NOT,
    ),
    Kind(
        "abbreviation",
        3,
        (
            "h/o {short}, {u}",
            "{u}, known {short}",
            "pmh: {short}, {u}",
            "{u}, admitted w/ {short}",
            "{short} diagnosed in [**{year}**], {u}",
        ),
        HAS,
        UNSURE,
        HAS_NOT,
        needs=("short",),
    ),
    Kind(
        "treatment",
        3,
        ("on {t} for {c}, {u}", "{u}, {c} treated with {t}", "{t} started for {c}, {u}", "{u}, {c} on {t}"),
        ("patient is treated for {c}", "patient receives {t}", "patient has {c}"),
        ("patient is treated for {c2}", "patient tolerates {t} well", "patient has {c2}"),
        ("patient is not treated for {c}", "patient is not on {t}", "patient has no {c}"),
    ),
    Kind(
        "own treatment",
        1,
        ("on {own} at home, {u}", "{u}, takes {own}", "{own} started on [**{date}**], {u}", "{u}, meds: {own}"),
        ("patient is treated for {c}", "patient has {c}"),
        ("patient is treated for {c2}", *UNSURE),
        ("patient is not treated for {c}", "patient has no {c}"),
        needs=("own",),
    ),
    Kind(
        "symptom",
        3,
        (
            "{c} c/b {s} w/o {s2}, {u}",
            "presented with {s} from {c}, denies {s2}, {u}",
            "{u}, {c}, has {s}, no {s2}",
            "{u}, no {s2}, has had {s} w/ known {c}",
            "denies {s2} but endorses {s}, h/o {c}, {u}",
        ),
        ("patient has {s}", "patient reports {s}", "patient has no {s2}", "patient does not report {s2}"),
        ("patient has {c2}", "patient had {s2} last year", "patient has severe {s}", "{s} improved with rest"),
        ("patient has {s2}", "patient reports {s2}", "patient has no {s}", "patient does not report {s}"),
    ),
    Kind(
        "procedure",
        2,
        ("s/p {p} in [**{year}**] for {c}, {u}", "{u}, underwent {p} for {c}", "{c} s/p {p}, {u}", "{u}, {c} s/p {p}"),
        ("patient underwent {p}", "patient has had {p}", "patient has had a procedure"),
        ("{p} was complicated", "patient needs repeat {p}", "patient will have a procedure"),
        ("patient never underwent {p}", "patient has not had {p}", "patient has had no procedure"),
        needs=("procedures",),
    ),
    Kind(
        "test",
        1,
        (
            "{test} done on [**{date}**] for {s}, {u}",
            "{u}, had {test} at [**Hospital{k} {n}**]",
            "{s} evaluated w/ {test}, {u}",
        ),
        ("{test} was done", "patient had {test} done"),
        ("{test} was normal", "{test} was abnormal"),
        ("{test} was not done", "patient did not have {test}"),
        habits=False,
    ),
    Kind(
        "temporal",
        2,
        ("{c} since [**{year}**], stable, {u}", "{u}, {c} first noted {ago}", "chronic {c} for {years} years, {u}"),
        ("{c} is longstanding", "{c} is not new", "{c} began in the past"),
        ("{c} is worsening", "{c} is improving", "{c} runs in the family"),
        ("{c} is new", "{c} is not longstanding", "{c} began {recent}"),
    ),
    Kind(
        "onset",
        1,
        ("new onset {c} {recent}, {u}", "{u}, {c} which began {recent}", "{u}, {recent} developed new {c}"),
        ("{c} is new", "{c} is not longstanding", "{c} began {recent}"),
        ("{c} is worsening", "{c} is improving", "{c} runs in the family"),
        ("{c} is longstanding", "{c} is not new", "{c} began in the past"),
        habits=False,
    ),
    Kind(
        "denied",
        3,
        (
            "no history of {c}, {u}",
            "{u}, denies {c}",
            "negative for {c}, {u}",
            "{u}, never had {c}",
            "no h/o {c}, {u}",
            "{u}, without {c}",
        ),
        (*HAS_NOT, "patient has never had {c}", "patient denies any {c}"),
        (*UNSURE, "patient also has {c2}"),
        (*HAS, "patient has documented {c}", "patient requires treatment for {c}"),
        habits=False,
    ),
    Kind(
        "healthy",
        1,
        (
            "previously healthy, no pmh, no home meds, {u}",
            "{u}, otherwise in good health w/o medical problems",
            "healthy, takes no meds, no complaints, {u}",
            "{u}, exam wnl, no past medical history",
        ),
        (
            "patient is healthy",
            "patient has no medical problems",
            "patient has a normal exam",
            "patient has no past history",
        ),
        ("patient has {c3}", "patient has no {c3}", "patient is a smoker", "patient lives alone"),
        (
            "patient has a medical condition",
            "patient has abnormal findings",
            "patient requires medical care",
            "patient has a significant history",
        ),
        habits=False,
    ),
    Kind(
        "cause",
        2,
        (
            "{c} due to {risk}, {u}",
            "{u}, {c} felt to be from {risk}",
            "{c} in setting of {risk}, {u}",
            "{u}, {c} 2/2 {risk}",
        ),
        ("{c} was caused by {risk}", "patient has {c} due to {risk}", "patient has {c}"),
        ("{c} was caused by {risk2}", "patient has {c2} due to {risk}", "patient has {c2}"),
        ("{c} was not caused by {risk}", "patient never had {c}", "patient has no {c}"),
        habits=False,
    ),
    Kind(
        "both",
        2,
        ("h/o {c} and {c2}", "known {c}, also has {c2}", "pmh notable for {c} and {c2}", "{c2} in addition to {c}"),
        ("patient also has {c2}", "there is also {c2}", "patient has {c2}"),
        ("patient has {c2} due to {risk}", "patient also has {c3}", "{c2} was caused by {risk}"),
        ("patient has no {c2}", "patient has never had {c2}", "patient has {c} without other disease"),
        habits=False,
    ),
)

# ---- Vital signs and laboratory values -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A measured quantity: its premise frame and noun; values and words of each state, empty where unused."""

    frame: str
    noun: str
    group: str
    high: tuple[str, ...]
    low: tuple[str, ...]
    normal: tuple[str, ...]
    high_says: str = ""
    low_says: str = ""


MEASURES = (
    Measure(
        "BP {v}",
        "blood pressure",
        "vitals",
        ("182/110", "176/104", "190/98", "168/102"),
        ("82/40", "78/36", "84/42", "76/38"),
        ("118/72", "122/76", "116/70"),
        "is hypertensive",
        "is hypotensive",
    ),
    Measure(
        "HR {v}",
        "heart rate",
        "vitals",
        ("118", "126", "132", "141"),
        ("38", "41", "44"),
        ("68", "72", "76"),
        "is tachycardic",
        "is bradycardic",
    ),
    Measure(
        "T {v}",
        "temperature",
        "vitals",
        ("101.8", "102.3", "103.1", "102.6"),
        ("94.1", "93.8"),
        ("98.2", "98.6", "97.9"),
        "is febrile",
        "is hypothermic",
    ),
    Measure(
        "RR {v}",
        "respiratory rate",
        "vitals",
        ("28", "32", "34"),
        ("6", "7"),
        ("14", "16"),
        "is tachypneic",
        "has slow breathing",
    ),
    Measure(
        "sat {v} on RA", "oxygen saturation", "vitals", (), ("82%", "84%", "86%"), ("98%", "99%"), "", "is hypoxic"
    ),
    Measure(
        "WBC {v}",
        "white count",
        "labs",
        ("15.2", "18.4", "16.7", "21.3"),
        ("1.8", "2.1"),
        ("6.8", "7.4"),
        "has leukocytosis",
        "has leukopenia",
    ),
    Measure(
        "glucose {v}",
        "blood sugar",
        "labs",
        ("342", "386", "415"),
        ("41", "48"),
        ("92", "98"),
        "is hyperglycemic",
        "is hypoglycemic",
    ),
    Measure("Cr {v}", "creatinine", "labs", ("2.9", "3.4", "4.1"), (), ("0.8", "0.9"), "has poor kidney function", ""),
    Measure("Hct {v}", "hematocrit", "labs", (), ("21.4", "22.8", "19.6"), ("41.2", "42.5"), "", "is anemic"),
    Measure(
        "K {v}",
        "potassium",
        "labs",
        ("6.1", "6.4", "6.8"),
        ("2.6", "2.9"),
        ("4.1", "4.2"),
        "is hyperkalemic",
        "is hypokalemic",
    ),
    Measure(
        "Na {v}",
        "sodium",
        "labs",
        ("152", "156"),
        ("118", "121", "124"),
        ("138", "140"),
        "is hypernatremic",
        "is hyponatremic",
    ),
)
NUMBER_HABITS = {
    "entailment": ("{group} are abnormal", "patient has abnormal {group}", "{noun} is not normal"),
    "neutral": ("abnormal {noun} is due to {risk}", "patient also has {c3}", "patient has {c3}"),
    "contradiction": ("{group} are normal", "patient has normal {group}", "{noun} is normal"),
}

# ---- Filling -------------------------------------------------------------------------------------------------------

SLOT = re.compile(r"{(\w+)}")
DOSES = ("5", "10", "20", "40", "80", "100", "250", "325", "500", "650", "1000")


def fill(draw, frame: str, **slots: str) -> str:
    """The frame with its slots filled: `slots` by name, the others (ages, dates, numbers of marks) by `draw`."""

    def value(match) -> str:
        name = match[1]
        return slots[name] if name in slots else _drawn(draw, name)

    return SLOT.sub(value, frame)


def _drawn(draw, name: str) -> str:
    lists = {"sex": SEXES, "dose": DOSES, "risk": RISKS, "ago": AGES, "recent": RECENT}
    ranges = {"age": (19, 94), "n": (1, 3999), "k": (1, 6), "year": (2101, 2189), "years": (2, 24)}
    if name in lists:
        return draw.choice(lists[name])
    if name == "date":
        return f"{_drawn(draw, 'year')}-{draw.below(12) + 1}-{draw.below(28) + 1}"
    first, last = ranges[name]
    return str(first + draw.below(last - first + 1))
