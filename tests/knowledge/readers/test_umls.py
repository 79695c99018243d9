"""The UMLS reader on made-up files in the official layout: names, filters, directions of relations, and faults."""

import gzip

import pytest

from mednli_jax.errors import DataError, DataErrors
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers import row_blocks as blocks
from mednli_jax.knowledge.readers.umls import COLUMNS, LINK_TYPES, read_umls

ALL = OntologyOptions(relations="all")
DROP = OntologyOptions(cycles="drop")


def row(file, **fields):
    """One line of a file. It passes the filters unless `fields` change SAB, LAT or SUPPRESS."""
    given = {"LAT": "ENG", "SAB": "SNOMEDCT_US", "SUPPRESS": "N", **fields}
    return "".join(f"{given.get(column, '')}|" for column in COLUMNS[file]) + "\n"


def name(cui, text, *, preferred=False, **fields):
    marks = {"TS": "P", "STT": "PF", "ISPREF": "Y"} if preferred else {"TS": "S", "STT": "VO", "ISPREF": "N"}
    return row("MRCONSO.RRF", CUI=cui, STR=text, **marks, **fields)


def kind(cui, tui):
    return row("MRSTY.RRF", CUI=cui, TUI=tui, STN="B2.2.1.2.1", STY="made up", ATUI="AT00000001")


def relation(one, rel, two, rela="", **fields):
    """A row which says that `two` is the `rel` (and the `rela`) of `one`."""
    return row("MRREL.RRF", CUI1=one, REL=rel, CUI2=two, RELA=rela, STYPE1="SCUI", STYPE2="SCUI", **fields)


# C1 is quokka disease. C2 is-a C1 (stated as PAR), C3 is-a C1 (as CHD), C4 is-a C2 (by RELA isa) and is-a C3 (by RELA
# inverse_isa). C2 is found in C5, an anatomical concept. The names of C6 are suppressed, those of C7 come from another
# source, and those of C8 are French.
CONSO = (
    name("C0000002", "quokka fever", CODE="222")
    + name("C0000002", "fever of quokkas", preferred=True, CODE="222")
    + name("C0000001", "quokka disease", preferred=True, CODE="111")
    + name("C0000001", "quokka disease", CODE="111")
    + name("C0000003", "wombat first", CODE="NOCODE")
    + name("C0000003", "wombat naïve", preferred=False, CODE="333")
    + name("C0000004", "narwhal", CODE="444")
    + name("C0000005", "pouch", CODE="555")
    + name("C0000005", "marsupium", SAB="MSH", CODE="D555")
    + name("C0000006", "gone", SUPPRESS="O")
    + name("C0000007", "other", SAB="MSH", CODE="D777")
    + name("C0000008", "fièvre", LAT="FRE")
)
STY = (
    kind("C0000001", "T191")
    + kind("C0000001", "T047")
    + "".join(kind(f"C000000{n}", "T047") for n in (2, 3, 4, 6, 7, 8))
    + kind("C0000005", "T023")
)
REL = (
    relation("C0000002", "PAR", "C0000001", "inverse_isa")
    + relation("C0000001", "CHD", "C0000003")
    + relation("C0000002", "RN", "C0000004", "isa")
    + relation("C0000004", "RB", "C0000003", "inverse_isa")
    + relation("C0000005", "RO", "C0000002", "has_finding_site")  # C2 has_finding_site C5
    + relation("C0000002", "RO", "C0000005", "finding_site_of")
    + relation("C0000003", "RB", "C0000001")  # C1 is broader than C3, but that gives no is-a edge
    + relation("C0000003", "XR", "C0000005")
    + relation("C0000002", "PAR", "C0000002")
    + relation("C0000002", "PAR", "C0000007")  # the names of C7 are filtered out
    + relation("C0000005", "PAR", "C0000001", SAB="MSH")
    + relation("C0000005", "PAR", "C0000001", SUPPRESS="O")
)


def laid_out(folder, conso=CONSO, sty=STY, rel=REL, **others):
    for file, content in {"MRCONSO.RRF": conso, "MRSTY.RRF": sty, "MRREL.RRF": rel, **others}.items():
        if content is not None:
            (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def edges(matrix, ids):
    return {(ids[a], ids[b]) for a, b in zip(*matrix.nonzero(), strict=True)}


@pytest.fixture
def made_up(tmp_path):
    return laid_out(tmp_path)


def test_names_labels_and_filters(made_up):
    ontology = read_umls(made_up, OntologyOptions())
    assert ontology.ids == ("C0000001", "C0000002", "C0000003", "C0000004", "C0000005")
    assert ontology.labels == ("quokka disease", "fever of quokkas", "wombat first", "narwhal", "pouch")
    assert list(ontology.names[:5]) == [(label, index) for index, label in enumerate(ontology.labels)]
    assert set(ontology.names[5:]) == {("quokka fever", 1), ("wombat naïve", 2)}
    assert len(set(ontology.names)) == len(ontology.names)
    assert ontology.name == "umls"


def test_other_sources_and_languages_are_chosen_by_options(made_up):
    mesh = read_umls(made_up, OntologyOptions(sources=("MSH",)))
    assert (mesh.ids, mesh.labels) == (("C0000005", "C0000007"), ("marsupium", "other"))
    french = read_umls(made_up, OntologyOptions(languages=("FRE",)))
    assert french.labels == ("fièvre",)
    everything = read_umls(made_up, OntologyOptions(sources=(), languages=()))
    assert everything.ids == tuple(f"C000000{n}" for n in (1, 2, 3, 4, 5, 7, 8))  # all but the suppressed one
    assert edges(everything.parents, everything.ids) > {("C0000005", "C0000001")}  # MSH states this edge
    digests = {ontology.sha256 for ontology in (mesh, french, everything, read_umls(made_up, OntologyOptions()))}
    assert len(digests) == 4


def test_is_a_points_from_child_to_parent_however_it_is_stated(made_up):
    ontology = read_umls(made_up, OntologyOptions())
    assert edges(ontology.parents, ontology.ids) == {
        ("C0000002", "C0000001"),
        ("C0000003", "C0000001"),
        ("C0000004", "C0000002"),
        ("C0000004", "C0000003"),
    }
    assert ontology.ancestors("C0000004") == {"C0000002": 1, "C0000003": 1, "C0000001": 2}
    assert dict(ontology.relations) == {}


def test_other_relations_are_kept_by_name_and_direction(made_up):
    ontology = read_umls(made_up, ALL)
    assert {name: edges(matrix, ontology.ids) for name, matrix in ontology.relations.items()} == {
        "has_finding_site": {("C0000002", "C0000005")},
        "finding_site_of": {("C0000005", "C0000002")},
        "RB": {("C0000001", "C0000003")},
    }
    assert edges(ontology.parents, ontology.ids) == edges(read_umls(made_up, OntologyOptions()).parents, ontology.ids)


def test_codes_are_cross_references(made_up):
    ontology = read_umls(made_up, OntologyOptions(sources=("SNOMEDCT_US", "MSH")))
    assert set(ontology.cross_references) == {
        ("SNOMEDCT_US:111", 0),
        ("SNOMEDCT_US:222", 1),
        ("SNOMEDCT_US:333", 2),
        ("SNOMEDCT_US:444", 3),
        ("SNOMEDCT_US:555", 4),
        ("MSH:D555", 4),
        ("MSH:D777", 5),
    }


def test_types_filter_what_is_linked(tmp_path):
    sty = STY.replace("C0000004|T047", "C0000004|T097")  # the type of a professional group
    ontology = read_umls(laid_out(tmp_path, sty=sty), OntologyOptions())
    assert ontology.types == ("T047|T191", "T047", "T047", "T097", "T023")
    assert {"T047", "T023", "T061", "T121"} < set(LINK_TYPES)
    assert "T097" not in LINK_TYPES
    linked = Linker(ontology).link(["the", "narwhal", "has", "quokka", "fever"])
    assert [(mention.start, mention.end, mention.concept) for mention in linked] == [(3, 5, "C0000002")]


def test_left_out_relations_are_counted(made_up, capsys):
    read_umls(made_up, OntologyOptions())
    assert "left out 1 relations of concepts that have no name after the filters" in capsys.readouterr().err


def test_blocks_gzip_and_windows_line_ends_change_nothing(tmp_path, monkeypatch):
    (tmp_path / "plain").mkdir()
    (tmp_path / "zipped").mkdir()
    (tmp_path / "windows").mkdir()
    whole = read_umls(laid_out(tmp_path / "plain"), ALL)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 150)  # a block holds one or two lines
    pieces = read_umls(tmp_path / "plain", ALL)
    for file in COLUMNS:
        content = (tmp_path / "plain" / file).read_bytes()
        (tmp_path / "zipped" / f"{file}.gz").write_bytes(gzip.compress(content))
        (tmp_path / "windows" / file).write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n").rstrip())
    zipped, windows = read_umls(tmp_path / "zipped", ALL), read_umls(tmp_path / "windows", ALL)
    for other in (pieces, zipped, windows):
        assert other.names == whole.names
        assert edges(other.parents, other.ids) == edges(whole.parents, whole.ids)
        assert edges(other.relations["RB"], other.ids) == edges(whole.relations["RB"], whole.ids)
    assert pieces.sha256 == zipped.sha256 == whole.sha256 != windows.sha256


def test_a_cycle_names_its_first_line_or_is_dropped(tmp_path, capsys):
    # C1 is-a C4 closes the cycles C4-C2-C1 and C4-C3-C1. All five is-a edges lie on one; the first is in line 1.
    folder = laid_out(tmp_path, rel=REL + relation("C0000001", "PAR", "C0000004"))
    error = refused(folder)
    assert (error.file, error.line) == ("MRREL.RRF", 1)
    assert "4 more" in error.problem
    ontology = read_umls(folder, DROP)
    assert ontology.parents.nnz == 0
    assert "left out 5 is-a edges" in capsys.readouterr().err


def test_edges_off_the_cycle_are_kept(tmp_path):
    folder = laid_out(tmp_path, rel=REL + relation("C0000001", "PAR", "C0000002"))
    assert (refused(folder).file, refused(folder).line) == ("MRREL.RRF", 1)
    assert edges(read_umls(folder, DROP).parents, ("1", "2", "3", "4", "5")) == {("3", "1"), ("4", "2"), ("4", "3")}


def test_the_release_is_its_version(tmp_path):
    laid_out(tmp_path, **{"release.dat": "umls.release.date=20240506\numls.release.name=2024AA\n"})
    assert read_umls(tmp_path, OntologyOptions()).version == "2024AA"
    folder = tmp_path / "2023AB" / "META"
    folder.mkdir(parents=True)
    assert read_umls(laid_out(folder), OntologyOptions()).version == "2023AB"


def mrfiles(**changes):
    """MRFILES.RRF for the files above; `changes`: {name without .RRF: (columns, rows)}."""
    content = {"MRCONSO": CONSO, "MRSTY": STY, "MRREL": REL}
    lines = ["AMBIGSUI.RRF|Ambiguous|SUI,CUI|2|1|1|\n"]
    for stem, text in content.items():
        columns, rows = changes.get(stem, (COLUMNS[f"{stem}.RRF"], text.count("\n")))
        lines.append(f"{stem}.RRF|made up|{','.join(columns)}|{len(columns)}|{rows}|{len(text)}|\n")
    return "".join(lines)


def test_mrfiles_is_held_to_its_word(tmp_path):
    laid_out(tmp_path, **{"MRFILES.RRF": mrfiles()})
    assert len(read_umls(tmp_path, OntologyOptions())) == 5
    for stem, text in (("MRCONSO", CONSO), ("MRSTY", STY), ("MRREL", REL)):
        due = text.count("\n") + 1
        laid_out(tmp_path, **{"MRFILES.RRF": mrfiles(**{stem: (COLUMNS[f"{stem}.RRF"], due)})})
        assert refused(tmp_path).file == f"{stem}.RRF"


def test_columns_are_those_of_mrfiles(tmp_path):
    turned = tuple(reversed(COLUMNS["MRSTY.RRF"]))
    sty = "".join("|".join(reversed(line.split("|")[:-1])) + "|\n" for line in STY.splitlines())
    laid_out(tmp_path, sty=sty, **{"MRFILES.RRF": mrfiles(MRSTY=(turned, STY.count("\n")))})
    assert read_umls(tmp_path, OntologyOptions()).types == ("T047|T191", "T047", "T047", "T047", "T023")
    less = tuple(column for column in turned if column != "TUI")
    laid_out(tmp_path, **{"MRFILES.RRF": mrfiles(MRSTY=(less, 1))})
    error = refused(tmp_path)
    assert error.file == "MRSTY.RRF"
    assert "TUI" in error.problem


FAULTS = {
    "a column more": ({"sty": STY + STY.split("\n")[0] + "|\n"}, "MRSTY.RRF", 10),
    "the last column open": ({"sty": STY + kind("C0000001", "T047")[:-1] + "x\n"}, "MRSTY.RRF", 10),
    "cut short": ({"conso": CONSO[:-30]}, "MRCONSO.RRF", 12),
    "UTF-16": ({"conso": CONSO.encode("utf-16")}, "MRCONSO.RRF", 1),
    "a CUI of six digits": ({"conso": CONSO + name("C000001", "x")}, "MRCONSO.RRF", 13),
    "an AUI for a CUI": ({"rel": REL + relation("A0000001", "PAR", "C0000002")}, "MRREL.RRF", 13),
    "shifted columns": ({"rel": REL + relation("C0000001", "PAR", "C2", SUPPRESS="")}, "MRREL.RRF", 13),
    "a TUI of letters": ({"sty": STY + kind("C0000001", "B2.2")}, "MRSTY.RRF", 10),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_names_its_file_and_line(fault, tmp_path):
    content, file, line = FAULTS[fault]
    with pytest.raises(DataError) as caught:
        read_umls(laid_out(tmp_path, **content), OntologyOptions())
    assert (caught.value.file, caught.value.line) == (file, line)
    assert caught.value.fix
    assert not {"quokka", "wombat", "narwhal"} & set(str(caught.value).split())


def test_a_line_broken_in_two_is_two_faults(tmp_path):
    with pytest.raises(DataErrors) as caught:
        read_umls(laid_out(tmp_path, rel=REL.replace("RO|", "RO\n|", 1)), OntologyOptions())
    assert [(error.file, error.line) for error in caught.value.errors] == [("MRREL.RRF", 5), ("MRREL.RRF", 6)]


def test_the_first_twenty_faults_of_a_file_come_together(tmp_path):
    rel = REL + "".join(relation("C0000001", "PAR", f"C999{n:04}") for n in range(25))
    with pytest.raises(DataErrors) as caught:
        read_umls(laid_out(tmp_path, rel=rel), OntologyOptions())
    assert [(error.line, error.field) for error in caught.value.errors] == [(n, "CUI2") for n in range(13, 33)]
    assert len(str(caught.value).split("\n")) == 21  # the last line counts the other faults


def refused(folder, **options):
    with pytest.raises(DataError) as caught:
        read_umls(folder, OntologyOptions(**options))
    return caught.value


def test_all_missing_files_are_named_at_once(tmp_path):
    message = str(refused(tmp_path))
    assert all(file in message for file in COLUMNS)


def test_a_source_or_language_that_is_not_there_is_a_fault(made_up):
    for sources in (("SNOMEDCT",), ("SNOMEDCT_US", "SNOMEDCT")):
        error = refused(made_up, sources=sources)
        assert (error.file, error.field) == ("MRCONSO.RRF", "SAB")
        assert "SNOMEDCT_US" in error.fix  # the source that the file does have
    error = refused(made_up, languages=("ENG", "SPA", "GER"))
    assert (error.file, error.field) == ("MRCONSO.RRF", "LAT")
    assert "GER or SPA" in error.problem


def test_filters_that_leave_nothing_together_are_a_fault(made_up):
    assert refused(made_up, sources=("MSH",), languages=("FRE",)).file == "MRCONSO.RRF"
