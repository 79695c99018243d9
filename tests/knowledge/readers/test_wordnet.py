"""The WordNet reader on made-up database files in the official layout: a graph checked by hand, and faults."""

import gzip

import pytest

from mednli_jax.errors import DataError, UserError
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import CIRCULAR, OntologyOptions
from mednli_jax.knowledge.readers import wordnet
from mednli_jax.knowledge.readers.wordnet import read_wordnet

ALL = OntologyOptions(relations="all")
LICENCE = "  1 This software and database is made up.\n  2 WordNet 3.0 Copyright 2006 by nobody.\n"
# Nouns: entity; body < entity; illness < entity; cold (the illness) < illness; cold (the temperature) < entity, and the
# antonym of heat; Paris, an instance of body. Verbs: breathe; inhale < breathe; cold. Inhale entails the verb cold and
# derives from the noun body.
FILES = {
    "data.noun": LICENCE
    + """\
00000100 03 n 01 entity 0 003 ~ 00000200 n 0000 ~ 00000300 n 0000 ~ 00000500 n 0000 | that which is
00000200 08 n 02 body 0 organic_structure 0 002 @ 00000100 n 0000 + 00000200 v 0101 | a | in the gloss
00000300 26 n 01 illness 0 001 @ 00000100 n 0000 | being ill
00000400 26 n 02 cold 1 common_cold 0 001 @ 00000300 n 0000 | a mild illness
00000500 07 n 01 cold 0 002 @ 00000100 n 0000 ! 00000600 n 0101 | little heat
00000600 07 n 0a heat 0 hot 0 warm 0 h4 0 h5 0 h6 0 h7 0 h8 0 h9 0 ha 0 002 @ 00000100 n 0000 ! 00000500 n 0101 | much
00000700 15 n 01 Paris 0 003 @i 00000200 n 0000 #p 00000100 n 0000 = 00000900 a 0000 | a city
""",
    "data.verb": LICENCE
    + """\
00000100 29 v 02 breathe 0 take_a_breath 0 000 02 + 02 00 + 08 01 | draw air
00000200 29 v 01 inhale 0 003 @ 00000100 v 0000 * 00000300 v 0000 + 00000200 n 0101 01 + 08 00 | draw in
00000300 29 v 01 cold 0 001 $ 00000100 v 0000 01 + 08 00 | snore
""",
    "index.noun": LICENCE
    + """\
body n 1 2 @ + 1 1 00000200
cold n 2 2 @ ! 2 1 00000500 00000400
common_cold n 1 1 @ 1 0 00000400
entity n 1 1 ~ 1 1 00000100
heat n 1 2 @ ! 1 1 00000600
illness n 1 1 @ 1 1 00000300
organic_structure n 1 2 @ + 1 1 00000200
paris n 1 3 @i #p = 1 0 00000700
""",
    "index.verb": LICENCE
    + """\
breathe v 1 0 1 1 00000100
cold v 1 1 $ 1 0 00000300
inhale v 1 3 @ * + 1 1 00000200
take_a_breath v 1 0 1 1 00000100
""",
}  # fmt: skip


def written(folder, **changed):
    """Writes the files; data_noun=... and so on replaces one, and None leaves it out."""
    for name, text in FILES.items():
        text = changed.get(name.replace(".", "_"), text)
        if text is not None:
            lines = text if isinstance(text, bytes) else text.encode()
            (folder / name).write_bytes(lines.replace(b"\n", b"  \n"))  # official files have these blanks
    return folder


@pytest.fixture
def ontology(tmp_path):
    return read_wordnet(written(tmp_path), ALL)


def concepts(ontology, name):
    return [ontology.ids[concept] for known, concept in ontology.names if known.lower() == name]


def test_synsets_and_types(ontology):
    assert (ontology.name, ontology.version, len(ontology)) == ("wordnet", "3.0", 10)
    assert ontology.ids[:2] == ("n00000100", "n00000200")
    assert ontology.ids[-1] == "v00000300"
    assert [ontology.types[ontology.index(concept)] for concept in ("n00000200", "n00000400", "v00000100")] == [
        "noun.body",
        "noun.state",
        "verb.body",
    ]


def test_hypernyms_and_instances_are_is_a(ontology):
    assert ontology.ancestors("n00000400") == {"n00000300": 1, "n00000100": 2}
    assert ontology.ancestors("n00000700") == {"n00000200": 1, "n00000100": 2}  # Paris is an instance of body
    assert ontology.ancestors("v00000200") == {"v00000100": 1}
    assert ontology.parents.nnz == 7


def test_pointers_that_are_relations(ontology):
    found = {
        name: sorted((ontology.ids[a], ontology.ids[b]) for a, b in zip(*matrix.nonzero(), strict=True))
        for name, matrix in ontology.relations.items()
    }
    assert found == {
        "antonym": [("n00000500", "n00000600"), ("n00000600", "n00000500")],
        "derivation": [("n00000200", "v00000200"), ("v00000200", "n00000200")],
        "entails": [("v00000200", "v00000300")],
        "part_of": [("n00000700", "n00000100")],
        "verb_group": [("v00000300", "v00000100")],
    }


def test_is_a_alone_has_no_other_relations(ontology, tmp_path):
    bare = read_wordnet(tmp_path, OntologyOptions())
    assert bare.relations == {}
    assert (bare.parents != ontology.parents).nnz == 0
    assert bare.sha256 != ontology.sha256


def test_the_most_frequent_sense_owns_the_name(ontology):
    assert concepts(ontology, "cold") == ["n00000500", "n00000400", "v00000300"]
    assert concepts(ontology, "paris") == ["n00000700"]
    linker = Linker(ontology)
    assert [m.concept for m in linker.link(["a", "cold"])] == ["n00000500"]
    assert [m.concept for m in linker.link(["the", "common", "cold"])] == ["n00000400"]
    assert [m.concept for m in linker.link(["in", "paris", ",", "organic", "structures"])] == ["n00000700", "n00000200"]


def test_each_label_is_a_name_of_its_own_concept_or_says_which_sense_it_is(ontology):
    labels = dict(zip(ontology.ids, ontology.labels, strict=True))
    assert labels["n00000500"] == "cold"
    assert labels["n00000400"] == "common cold"  # its first word belongs to the temperature
    assert labels["v00000300"] == "cold (verb 1)"
    assert labels["n00000700"] == "Paris"
    assert len(set(ontology.labels)) == len(ontology)


def test_a_word_that_the_index_lacks_comes_last(ontology):
    assert concepts(ontology, "ha") == ["n00000600"]
    assert ontology.names[-1] == ("ha", ontology.index("n00000600"))


def test_gzipped_files_in_a_dict_folder_are_the_same(ontology, tmp_path):
    folder = tmp_path / "dict"
    folder.mkdir()
    for name in FILES:
        (folder / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes().replace(b"\n", b"\r\n")))
        (tmp_path / name).unlink()
    other = load_ontology(str(tmp_path), options=ALL)
    assert (other.sha256, other.names, other.labels) == (ontology.sha256, ontology.names, ontology.labels)


def test_the_known_loop_is_opened_and_another_is_refused(tmp_path, capsys):
    verbs = LICENCE + (
        "00000100 41 v 02 {0} 0 hold 0 001 @ 00000200 v 0000 01 + 08 00 | x\n"
        "00000200 41 v 01 {1} 0 001 @ 00000100 v 0000 01 + 08 00 | x\n"
    )
    nouns = (
        FILES["data.noun"]
        .replace(" + 00000200 v 0101", "")
        .replace("002 @ 00000100 n 0000 |", "001 @ 00000100 n 0000 |")
    )
    index = LICENCE + "{1} v 1 1 @ 1 1 00000200\n{0} v 1 1 @ 1 1 00000100\n"
    words = ("restrain", "inhibit")
    known = written(tmp_path, data_verb=verbs.format(*words), index_verb=index.format(*words), data_noun=nouns)
    ontology = read_wordnet(known, OntologyOptions())
    assert ontology.ancestors("v00000100") == {"v00000200": 1}  # restrain is-a inhibit
    assert ontology.ancestors("v00000200") == {}
    assert "left out that inhibit is-a restrain" in capsys.readouterr().err
    words = ("restrain", "stop")
    written(tmp_path, data_verb=verbs.format(*words), index_verb=index.format(*words), data_noun=nouns)
    with pytest.raises(DataError) as caught:
        read_wordnet(tmp_path, OntologyOptions())
    assert (caught.value.file, caught.value.line) == ("data.verb", 3)
    assert read_wordnet(tmp_path, OntologyOptions(cycles="drop")).ancestors("v00000100") == {}
    assert "left out 2 is-a edges" in capsys.readouterr().err
    every = read_wordnet(tmp_path, OntologyOptions(relations="all"))
    ends = [[every.index_of["v00000100"], every.index_of["v00000200"]]]
    assert every.relations[CIRCULAR].nnz == 2
    assert [shortest_paths(every, ends, direction=way).tolist() for way in ("undirected", "all")] == [[-1], [1]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n 01", "v 01"),
        (" 26 ", " 29 "),  # the file number of verbs
        ("n 01", "n 02"),
        ("n 01", "n zz"),
        ("n 01 illness 0", "n 00"),
        ("001 @", "002 @"),
        ("001 @", "000 @"),
        ("00000300", "300"),
        (" | being ill", ""),
        ("00000300 26 n 01 illness 0 001 @ 00000100 n 0000 | being ill", "00000300 26 n 01 ill"),
    ],
)
def test_each_fault_of_a_synset_names_its_line(tmp_path, old, new):
    lines = FILES["data.noun"].split("\n")
    assert old in lines[4]
    lines[4] = lines[4].replace(old, new)
    refused(written(tmp_path, data_noun="\n".join(lines)), "data.noun", 5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 1 00000300", "1 1 00000400"),  # this synset lacks the word
        ("1 1 00000300", "1 1"),
        ("illness n 1", "illness v 1"),
        ("illness n 1 1", "illness n 1 x"),
    ],
)
def test_each_fault_of_the_index_names_its_line(tmp_path, old, new):
    assert FILES["index.noun"].count(old) == 1
    refused(written(tmp_path, index_noun=FILES["index.noun"].replace(old, new)), "index.noun", 8)


def refused(folder, file, line):
    with pytest.raises(DataError) as caught:
        read_wordnet(folder, ALL)
    assert (caught.value.file, caught.value.line) == (file, line)
    assert caught.value.fix


def test_a_file_with_the_licence_alone(tmp_path):
    refused(written(tmp_path, data_noun=LICENCE), "data.noun", None)


def test_missing_files_are_reported_together_with_the_package(tmp_path):
    written(tmp_path, data_verb=None, index_noun=None)
    with pytest.raises(DataError) as caught:
        load_ontology(str(tmp_path))
    assert caught.value.file == "index.noun"
    assert all(part in str(caught.value) for part in ("data.verb", "wordnet-base", "/usr/share/wordnet"))
    assert "index.verb" not in str(caught.value)


def test_where_wordnet_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(wordnet, "FOLDER", tmp_path / "debian")
    data = tmp_path / "data"
    (data / "wordnet").mkdir(parents=True)
    (tmp_path / "debian").mkdir()
    for place in (data, None):
        with pytest.raises(UserError, match="wordnet-base") as caught:
            load_ontology("wordnet", place)
        assert str(tmp_path / "debian") in str(caught.value)
    written(tmp_path / "debian")
    assert len(load_ontology("wordnet", data)) == len(load_ontology("wordnet", None)) == 10
    nouns = FILES["data.noun"].replace("entity 0 003", "thing 0 003")
    written(data / "wordnet", data_noun=nouns, index_noun=FILES["index.noun"].replace("entity", "thing"))
    assert load_ontology("wordnet", data).labels[0] == "thing"  # the user's own folder comes first
