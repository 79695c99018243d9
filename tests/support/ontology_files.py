"""Small ontologies in the layouts of their official files: the UMLS, SNOMED CT, WordNet and OBO."""

from collections.abc import Iterable
from pathlib import Path

from mednli_jax.knowledge.readers import snomed, umls
from support.files import write

# ---- the UMLS in Rich Release Format ----


def rrf_row(file: str, **fields: str) -> str:
    """One line of a file. It passes the filters unless `fields` change SAB, LAT or SUPPRESS."""
    fields = {"LAT": "ENG", "SAB": "SNOMEDCT_US", "SUPPRESS": "N", **fields}
    return "".join(f"{fields.get(column, '')}|" for column in umls.COLUMNS[file]) + "\n"


def umls_name(cui: str, text: str, *, preferred: bool = False, **fields: str) -> str:
    status, form, is_preferred = ("P", "PF", "Y") if preferred else ("S", "VO", "N")
    marks = {"TS": status, "STT": form, "ISPREF": is_preferred}
    return rrf_row("MRCONSO.RRF", CUI=cui, STR=text, **marks, **fields)


def umls_type(cui: str, tui: str) -> str:
    number = "B2.2.1.2.1"
    return rrf_row(
        "MRSTY.RRF",
        CUI=cui,
        TUI=tui,
        STN=number,
        STY="made up",
        ATUI="AT00000001",
    )


def umls_relation(first: str, rel: str, second: str, rela: str = "", **fields: str) -> str:
    """A row which says that `second` is the `rel` (and the `rela`) of `first`."""
    fields = {"STYPE1": "SCUI", "STYPE2": "SCUI", **fields}
    return rrf_row(
        "MRREL.RRF",
        CUI1=first,
        REL=rel,
        CUI2=second,
        RELA=rela,
        **fields,
    )


# C1 is quokka disease. C2 is-a C1 (stated as PAR), C3 is-a C1 (as CHD), C4 is-a C2 (by RELA isa)
# and is-a C3 (by RELA inverse_isa). C2 is found in C5, an anatomical concept. The names of C6 are
# suppressed, those of C7 come from another source, and those of C8 are French.
CONSO = "".join(
    (
        umls_name("C0000002", "quokka fever", CODE="222"),
        umls_name("C0000002", "fever of quokkas", preferred=True, CODE="222"),
        umls_name("C0000001", "quokka disease", preferred=True, CODE="111"),
        umls_name("C0000001", "quokka disease", CODE="111"),
        umls_name("C0000003", "wombat first", CODE="NOCODE"),
        umls_name("C0000003", "wombat naïve", CODE="333"),
        umls_name("C0000004", "narwhal", CODE="444"),
        umls_name("C0000005", "pouch", CODE="555"),
        umls_name("C0000005", "marsupium", SAB="MSH", CODE="D555"),
        umls_name("C0000006", "gone", SUPPRESS="O"),
        umls_name("C0000007", "other", SAB="MSH", CODE="D777"),
        umls_name("C0000008", "fièvre", LAT="FRE"),
    )
)
STY = (
    umls_type("C0000001", "T191")
    + "".join(umls_type(f"C000000{n}", "T047") for n in (1, 2, 3, 4, 6, 7, 8))
    + umls_type("C0000005", "T023")
)
# C2 has_finding_site C5. C1 is broader than C3 (RB), but that gives no is-a edge. The names of C7
# are filtered out.
_RELATIONS = """\
C0000002 PAR C0000001 inverse_isa
C0000001 CHD C0000003
C0000002 RN C0000004 isa
C0000004 RB C0000003 inverse_isa
C0000005 RO C0000002 has_finding_site
C0000002 RO C0000005 finding_site_of
C0000003 RB C0000001
C0000003 XR C0000005
C0000002 PAR C0000002
C0000002 PAR C0000007
"""
REL = (
    "".join(umls_relation(*line.split()) for line in _RELATIONS.splitlines())
    + umls_relation("C0000005", "PAR", "C0000001", SAB="MSH")
    + umls_relation("C0000005", "PAR", "C0000001", SUPPRESS="O")
)
UMLS = {"MRCONSO.RRF": CONSO, "MRSTY.RRF": STY, "MRREL.RRF": REL}


# ---- SNOMED CT in RF2 ----

FSN = "900000000000003001"
SYNONYM = "900000000000013009"
DEFINITION = "900000000000550004"
IS_A = "116680003"
SITE = "363698007"
RF2_FOLDER = "Snapshot/Terminology"
RF2_FILES = {
    "Concept": "sct2_Concept_Snapshot_INT_20240101.txt",
    "Description": "sct2_Description_Snapshot-en_INT_20240101.txt",
    "Relationship": "sct2_Relationship_Snapshot_INT_20240101.txt",
}
_ANY = "900000000000000001"  # in columns that no reader uses
_DATED = {"id": "1", "effectiveTime": "20240101", "moduleId": "900000000000207008"}


def _rf2_row(kind: str, **fields: str) -> str:
    fields = {**_DATED, **fields}
    return "\t".join(fields.get(column, _ANY) for column in snomed.COLUMNS[kind]) + "\r\n"


def sct_concept(number: str, active: str = "1") -> str:
    return _rf2_row("Concept", id=number, active=active)


def sct_term(
    number: str, text: str, kind: str = SYNONYM, language: str = "en", active: str = "1"
) -> str:
    fields = {"conceptId": number, "term": text, "typeId": kind, "languageCode": language}
    return _rf2_row("Description", active=active, **fields)


def sct_edge(child: str, parent: str, kind: str = IS_A, active: str = "1") -> str:
    fields = {"sourceId": child, "destinationId": parent, "typeId": kind}
    return _rf2_row("Relationship", active=active, **fields)


def rf2_table(kind: str, *rows: str) -> str:
    return "\t".join(snomed.COLUMNS[kind]) + "\r\n" + "".join(rows)


# 64572001 is the parent of 101 and 102, which are both parents of 103. 103 is found in 104, a body
# structure. 105 is inactive. 116680003 and 363698007 are the types of relationships, and concepts
# themselves.
RF2_ROWS = {
    "Concept": (
        *map(sct_concept, ("64572001", "101", "102", "103", "104", IS_A, SITE)),
        sct_concept("105", active="0"),
    ),
    "Description": (
        sct_term("64572001", "Disease (disorder)", FSN),
        sct_term("64572001", "Disease"),
        sct_term("101", "quokka fever"),
        sct_term("101", "Quokka (small) fever (disorder)", FSN),
        sct_term("101", "old fever", active="0"),
        sct_term("101", "fièvre", language="fr"),
        sct_term("101", "What a quokka has when it is hot.", DEFINITION),
        sct_term("102", "Wombat rash (finding)", FSN),
        sct_term("103", "narwhal flu (disorder)", FSN),
        sct_term("103", "flu of narwhals"),
        sct_term("103", "flu of narwhals"),
        sct_term("104", "pouch"),
        sct_term("105", "gone (disorder)", FSN),
        sct_term(IS_A, "Is a (attribute)", FSN),
        sct_term(SITE, "Finding site (attribute)", FSN),
    ),
    "Relationship": (
        sct_edge("101", "64572001"),
        sct_edge("102", "64572001"),
        sct_edge("103", "101"),
        sct_edge("103", "102"),
        sct_edge("103", "102"),
        sct_edge("103", "64572001", active="0"),
        sct_edge("103", "104", SITE),
        sct_edge("105", "64572001"),
    ),
}


def snomed_folder(folder: Path, **changed: Iterable[str]) -> Path:
    """Writes a snapshot; Concept=rows and so on replaces the rows of a file."""
    for kind, rows in {**RF2_ROWS, **changed}.items():
        write(folder / RF2_FOLDER / RF2_FILES[kind], rf2_table(kind, *rows))
    return folder


# ---- WordNet ----

_LICENCE = "  1 This software and database is made up.\n  2 WordNet 3.0 Copyright 2006 by nobody.\n"
# Nouns: entity; body < entity; illness < entity; cold (the illness) < illness; cold (the
# temperature) < entity, and the antonym of heat; Paris, an instance of body. Verbs: breathe; inhale
# < breathe; cold. Inhale entails the verb cold and derives from the noun body.
_WORDNET = {
    "data.noun": """\
00000100 03 n 01 entity 0 003 ~ 00000200 n 0000 ~ 00000300 n 0000 \
~ 00000500 n 0000 | that which is
00000200 08 n 02 body 0 organic_structure 0 \
002 @ 00000100 n 0000 + 00000200 v 0101 | a | in the gloss
00000300 26 n 01 illness 0 001 @ 00000100 n 0000 | being ill
00000400 26 n 02 cold 1 common_cold 0 001 @ 00000300 n 0000 | a mild illness
00000500 07 n 01 cold 0 002 @ 00000100 n 0000 ! 00000600 n 0101 | little heat
00000600 07 n 0a heat 0 hot 0 warm 0 h4 0 h5 0 h6 0 h7 0 h8 0 h9 0 ha 0 \
002 @ 00000100 n 0000 ! 00000500 n 0101 | much
00000700 15 n 01 Paris 0 003 @i 00000200 n 0000 #p 00000100 n 0000 = 00000900 a 0000 | a city
""",
    "data.verb": """\
00000100 29 v 02 breathe 0 take_a_breath 0 000 02 + 02 00 + 08 01 | draw air
00000200 29 v 01 inhale 0 003 @ 00000100 v 0000 * 00000300 v 0000 \
+ 00000200 n 0101 01 + 08 00 | draw in
00000300 29 v 01 cold 0 001 $ 00000100 v 0000 01 + 08 00 | snore
""",
    "index.noun": """\
body n 1 2 @ + 1 1 00000200
cold n 2 2 @ ! 2 1 00000500 00000400
common_cold n 1 1 @ 1 0 00000400
entity n 1 1 ~ 1 1 00000100
heat n 1 2 @ ! 1 1 00000600
illness n 1 1 @ 1 1 00000300
organic_structure n 1 2 @ + 1 1 00000200
paris n 1 3 @i #p = 1 0 00000700
""",
    "index.verb": """\
breathe v 1 0 1 1 00000100
cold v 1 1 $ 1 0 00000300
inhale v 1 3 @ * + 1 1 00000200
take_a_breath v 1 0 1 1 00000100
""",
}  # fmt: skip
# official files have these blanks
WORDNET = {name: f"{_LICENCE}{text}".replace("\n", "  \n") for name, text in _WORDNET.items()}

# ---- OBO ----

#        1 finding
#       /         \
#   2 heart       3 lung        5 organ (another namespace; 2 affects 5)
#       \         /             9 is obsolete, 4 takes its place; 40 was merged into 4
#       4 heart failure
OBO = r"""format-version: 1.2
data-version: releases/2024-01-01
synonymtypedef: OMO:0003000 "abbreviation" EXACT
synonymtypedef: layperson "layperson term"
default-namespace: findings
ontology: made_up

! a comment
[Term]
id: XP:1
name: Finding

[Term]
id: XP:2
name: Heart disease
def: "Something ! with [brackets], \"quotes\" and {braces}." [PMID:1]
synonym: "Cardiac disease" EXACT []
synonym: "Cardiopathy \"old\"" EXACT layperson [ORCID:1]
synonym: "Disease" BROAD []
synonym: "Heart trouble" RELATED layperson []
is_a: XP:1 ! Finding
relationship: RO:1 XP:5 {source="somebody"} ! affects organ
relationship: RO:1 UBERON:948

[Term]
id: XP:3
name: Lung disease {comment="seldom"} ! lungs
is_a: XP:1 {source="XP:9"} ! Finding

[Term]
id: XP:4
name: Heart failure
alt_id: XP:40
synonym: "HF" EXACT OMO:0003000 [PMID:2]
synonym: "Pump failure" EXACT []
synonym: "Left heart failure" NARROW []
xref: MESH:D006333 {source="MONDO:equivalentTo"}
xref: UMLS:C0018801 "Heart failure"
xref: nowhere
is_a: XP:3
is_a: XP:2 ! Heart disease
is_a: XP:2
is_a: UPHENO:1

[Term]
id: XP:5
name: Organ
namespace: anatomy

[Term]
id: XP:9
name: Weak heart
synonym: "Tired heart" EXACT []
is_obsolete: true
replaced_by: XP:4

[Typedef]
id: RO:1
name: affects organ
is_transitive: true

[Instance]
id: XP:77
name: a case
"""
