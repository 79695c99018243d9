"""The results of Alghanmi et al. 2021 (Probing Pre-Trained Language Models for Disease Knowledge), Tables 1 to 8.

F1 of the positive class in per cent, mean of three runs; averages as (mean, sd over the runs). Columns: MODELS.
"""

from dataclasses import dataclass

from mednli_jax.corpora.diskne.benchmark import CATEGORIES

MODELS = ("ClinicalBERT", "BioBERT", "SciBERT", "BERT")
ALWAYS_POSITIVE = 0.167  # F1 of a classifier that always predicts true (section 4.3)

# Positive examples: those that Table 1 states, and those of the published annotation files.
TABLE_1 = dict(zip(CATEGORIES, (112, 60, 116, 70, 259), strict=True))
PUBLISHED_FILES = dict(zip(CATEGORIES, (122, 69, 123, 69, 259), strict=True))
# Section 3.2: all examples; in the published files positives, similar and random negatives.
EXAMPLES = {"medical": 4133, "terminological": 2639}
IN_FILES = {"medical": (383, 3750, 3760), "terminological": (259, 2380, 2370)}


@dataclass(frozen=True)
class Paper:
    """One of Tables 2 to 6: F1 by disease, as the table calls it, and the two averages."""

    category: str
    diseases: dict[str, tuple[int, int, int, int]]
    macro: tuple[tuple[float, float], ...]
    weighted: tuple[tuple[float, float], ...]


PER_DISEASE = {
    2: Paper(
        "symptoms",
        {
            "coronary atherosclerosis": (0, 0, 29, 10),
            "chf": (67, 67, 67, 67),
            "acs": (4, 33, 0, 5),
            "stroke": (80, 56, 90, 90),
            "heart disease": (80, 87, 93, 100),
            "myocardial infarction": (0, 0, 19, 0),
            "heart failure": (0, 0, 22, 0),
            "urinary tract infection": (100, 100, 67, 100),
            "disorder of lung": (89, 97, 97, 100),
            "cirrhosis of liver": (0, 11, 0, 0),
            "hyperglycemic disorder": (27, 13, 22, 0),
            "pneumonia": (89, 93, 67, 100),
            "neurological disease": (67, 67, 80, 67),
            "respiratory failure": (87, 70, 22, 43),
            "pulmonary edema": (74, 25, 0, 50),
            "ami": (0, 0, 0, 0),
            "deep vein thrombosis": (47, 48, 50, 48),
            "acute cardiac ischemia": (0, 45, 17, 72),
            "uri": (78, 45, 67, 83),
            "cholangitis": (22, 22, 33, 22),
            "atherosclerosis": (66, 0, 67, 0),
        },
        ((46, 3.0), (42, 7.3), (43, 3.1), (46, 3.4)),
        ((49, 3.1), (47, 6.0), (49, 2.7), (51, 2.7)),
    ),
    3: Paper(
        "treatments",
        {
            "chf": (55, 55, 53, 55),
            "acs": (12, 19, 0, 0),
            "hypertensive disorder": (55, 67, 54, 22),
            "heart disease": (45, 22, 0, 89),
            "urinary tract infection": (100, 100, 100, 100),
            "disorder of lung": (82, 89, 100, 93),
            "hyperglycemic disorder": (100, 69, 87, 69),
            "pneumonia": (60, 67, 78, 57),
            "anemia": (17, 17, 45, 22),
            "renal insufficiency": (69, 89, 67, 72),
            "pulmonary infection": (82, 77, 89, 83),
            "copd": (45, 67, 61, 39),
            "hyperlipidemia": (59, 61, 61, 55),
        },
        ((60, 6.1), (61, 1.4), (61, 3.8), (58, 1.6)),
        ((51, 5.3), (54, 1.6), (51, 1.7), (45, 2.4)),
    ),
    4: Paper(
        "tests",
        {
            "coronary atherosclerosis": (0, 0, 0, 0),
            "chf": (52, 55, 52, 55),
            "acs": (0, 22, 0, 0),
            "stroke": (87, 87, 95, 77),
            "hypertensive disorder": (9, 26, 45, 21),
            "myocardial infarction": (28, 0, 30, 14),
            "heart failure": (0, 55, 40, 0),
            "urinary tract infection": (87, 90, 59, 90),
            "hyperglycemic disorder": (81, 10, 68, 33),
            "pneumonia": (100, 100, 89, 89),
            "anemia": (0, 0, 24, 0),
            "aortic valve stenosis": (11, 24, 0, 27),
            "systemic inflammatory response syndrome": (76, 64, 80, 80),
            "acute renal failure syndrome": (0, 0, 0, 22),
            "chronic renal insufficiency": (0, 0, 0, 0),
            "kidney disease": (22, 0, 45, 0),
            "ischemia": (93, 100, 93, 100),
        },
        ((38, 2.4), (37, 1.6), (42, 3.1), (36, 5.0)),
        ((31, 2.6), (32, 1.2), (37, 1.5), (31, 3.7)),
    ),
    5: Paper(
        "procedures",
        {
            "coronary atherosclerosis": (0, 0, 16, 0),
            "heart disease": (83, 74, 84, 84),
            "heart failure": (33, 33, 50, 0),
            "cirrhosis of liver": (0, 0, 0, 0),
            "end stage renal disease": (37, 29, 70, 79),
            "respiratory failure": (58, 27, 57, 27),
            "renal insufficiency": (100, 100, 93, 100),
            "cardiac arrest": (100, 100, 93, 100),
            "disorder of respiratory system": (76, 80, 80, 71),
            "peripheral vascular disease": (0, 0, 78, 0),
        },
        ((49, 3.2), (44, 5.9), (62, 3.9), (46, 5.0)),
        ((40, 3.3), (36, 7.4), (55, 5.6), (44, 4.6)),
    ),
    6: Paper(
        "terminological",
        {
            "anemia": (95, 100, 100, 93),
            "aortic valve stenosis": (100, 100, 93, 100),
            "carotid artery stenosis": (50, 50, 60, 50),
            "coronary atherosclerosis": (79, 79, 76, 79),
            "type 2 diabetes mellitus": (67, 56, 64, 61),
            "gerd": (0, 0, 0, 0),
            "cardiac arrest": (95, 97, 92, 97),
            "heart disease": (100, 100, 93, 80),
            "heart failure": (100, 100, 100, 100),
            "chf": (19, 37, 35, 36),
            "hyperglycemic disorder": (57, 63, 80, 57),
            "hypertensive disorder": (84, 87, 90, 84),
            "acute renal failure syndrome": (67, 67, 58, 61),
            "end stage renal disease": (77, 77, 78, 70),
            "disorder of lung": (89, 76, 70, 52),
            "copd": (100, 100, 97, 100),
            "myocardial infarction": (24, 25, 25, 21),
            "pancreatitis": (33, 0, 22, 33),
            "pleural effusion": (80, 100, 100, 80),
            "pneumonia": (89, 93, 89, 66),
            "pulmonary edema": (87, 82, 56, 76),
            "stroke": (81, 100, 71, 100),
            "urinary tract infection": (78, 77, 78, 77),
            "aaa": (100, 96, 100, 100),
        },
        ((73, 2.7), (73, 0.4), (72, 2.5), (70, 3.2)),
        ((74, 1.8), (76, 1.4), (75, 1.3), (72, 3.0)),
    ),
}

# ClinicalBERT with the whole sentence and with the disease's name as hypothesis, with and without the premise.
TABLE_7_COLUMNS = ("full", "name", "hypothesis-full", "hypothesis-name")
TABLE_7 = {
    "macro": {
        "symptoms": ((48, 0.7), (46, 3.0), (47, 4.9), (23, 0.5)),
        "treatments": ((64, 4.7), (60, 6.1), (65, 2.5), (29, 2.1)),
        "tests": ((41, 1.7), (38, 2.4), (44, 2.3), (18, 2.0)),
        "procedures": ((59, 4.9), (49, 3.2), (52, 2.6), (19, 3.0)),
        "terminological": ((71, 2.3), (73, 2.7), (39, 1.3), (25, 0.4)),
    },
    "weighted": {
        "symptoms": ((54, 2.9), (49, 3.1), (53, 4.7), (23, 1.3)),
        "treatments": ((62, 2.8), (51, 5.3), (60, 7.1), (24, 1.0)),
        "tests": ((37, 1.4), (31, 2.6), (42, 2.0), (17, 2.8)),
        "procedures": ((54, 6.2), (40, 3.3), (59, 5.1), (14, 2.0)),
        "terminological": ((71, 1.1), (74, 1.8), (41, 2.7), (22, 0.4)),
    },
}

# Negatives selected at random; columns MODELS.
TABLE_8 = {
    "macro": {
        "symptoms": ((66, 4.0), (56, 3.2), (57, 5.2), (56, 4.1)),
        "treatments": ((69, 4.3), (70, 2.0), (76, 4.5), (55, 4.8)),
        "tests": ((53, 0.9), (49, 3.3), (52, 1.0), (47, 0.6)),
        "procedures": ((60, 1.8), (56, 0.8), (76, 2.6), (60, 4.5)),
        "terminological": ((77, 0.9), (77, 0.6), (74, 0.6), (76, 1.0)),
    },
    "weighted": {
        "symptoms": ((66, 5.2), (59, 3.5), (59, 4.1), (56, 4.6)),
        "treatments": ((64, 6.2), (59, 3.6), (68, 4.8), (46, 3.1)),
        "tests": ((53, 0.6), (51, 2.4), (54, 1.6), (43, 4.0)),
        "procedures": ((65, 3.0), (58, 1.0), (76, 0.4), (67, 4.5)),
        "terminological": ((76, 1.6), (77, 1.0), (75, 0.4), (72, 0.7)),
    },
}
