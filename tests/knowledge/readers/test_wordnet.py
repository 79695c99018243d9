"""The WordNet reader on made-up database files in the official layout: a graph checked by hand."""

import pytest
from support.files import lay_out
from support.ontologies import edges_of
from support.ontology_files import WORDNET

from mednli_jax.errors import UserError
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import CIRCULAR, OntologyOptions
from mednli_jax.knowledge.readers import wordnet
from mednli_jax.knowledge.readers.wordnet import read_wordnet

PLAIN, ALL = OntologyOptions(), OntologyOptions(relations="all")


@pytest.fixture
def ontology(tmp_path):
    return read_wordnet(lay_out(tmp_path, WORDNET), ALL)


def concepts(ontology, name):
    return [ontology.ids[concept] for known, concept in ontology.names if known.lower() == name]


def test_synsets_pointers_and_types(ontology, tmp_path):
    """Hypernyms and instances are is-a, other pointers are relations."""
    assert (ontology.name, ontology.version, len(ontology)) == ("wordnet", "3.0", 10)
    assert ontology.ids[:2] == ("n00000100", "n00000200")
    assert ontology.ids[-1] == "v00000300"
    types = [
        ontology.types[ontology.index(concept)]
        for concept in ("n00000200", "n00000400", "v00000100")
    ]
    assert types == ["noun.body", "noun.state", "verb.body"]
    assert ontology.ancestors("n00000400") == {"n00000300": 1, "n00000100": 2}
    assert ontology.ancestors("n00000700") == {
        "n00000200": 1,
        "n00000100": 2,
    }  # Paris is an instance of body
    assert ontology.ancestors("v00000200") == {"v00000100": 1}
    assert ontology.parents.nnz == 7
    assert {
        name: edges_of(matrix, ontology.ids) for name, matrix in ontology.relations.items()
    } == {
        "antonym": {("n00000500", "n00000600"), ("n00000600", "n00000500")},
        "derivation": {("n00000200", "v00000200"), ("v00000200", "n00000200")},
        "entails": {("v00000200", "v00000300")},
        "part_of": {("n00000700", "n00000100")},
        "verb_group": {("v00000300", "v00000100")},
    }
    bare = read_wordnet(tmp_path, PLAIN)
    assert bare.relations == {}
    assert (bare.parents != ontology.parents).nnz == 0
    assert bare.sha256 != ontology.sha256


def test_the_most_frequent_sense_owns_the_name_and_labels_say_which_sense_they_are(ontology):
    assert concepts(ontology, "cold") == ["n00000500", "n00000400", "v00000300"]
    assert concepts(ontology, "paris") == ["n00000700"]
    linker = Linker(ontology)
    assert [m.concept for m in linker.link(["a", "cold"])] == ["n00000500"]
    assert [m.concept for m in linker.link(["the", "common", "cold"])] == ["n00000400"]
    assert [m.concept for m in linker.link(["in", "paris", ",", "organic", "structures"])] == [
        "n00000700",
        "n00000200",
    ]
    assert concepts(ontology, "ha") == ["n00000600"]
    assert ontology.names[-1] == (
        "ha",
        ontology.index("n00000600"),
    )  # a word that the index lacks comes last
    labels = dict(zip(ontology.ids, ontology.labels, strict=True))
    assert labels["n00000500"] == "cold"
    assert labels["n00000400"] == "common cold"  # its first word belongs to the temperature
    assert labels["v00000300"] == "cold (verb 1)"
    assert labels["n00000700"] == "Paris"
    assert len(set(ontology.labels)) == len(ontology)


def loop(one, other):
    """Verbs of which each is the other's hypernym, and nouns that point to no verb."""
    verbs = (
        f"00000100 41 v 02 {one} 0 hold 0 001 @ 00000200 v 0000 01 + 08 00 | x\n"
        f"00000200 41 v 01 {other} 0 001 @ 00000100 v 0000 01 + 08 00 | x\n"
    )
    index = f"{other} v 1 1 @ 1 1 00000200\n{one} v 1 1 @ 1 1 00000100\n"
    nouns = WORDNET["data.noun"].replace(
        "002 @ 00000100 n 0000 + 00000200 v 0101", "001 @ 00000100 n 0000"
    )
    return {"data_verb": "  licence\n" * 2 + verbs, "index_verb": index, "data_noun": nouns}


def test_the_known_loop_is_opened_and_another_is_left_out(tmp_path, capsys):
    ontology = read_wordnet(lay_out(tmp_path, WORDNET, **loop("restrain", "inhibit")), PLAIN)
    assert ontology.ancestors("v00000100") == {"v00000200": 1}  # restrain is-a inhibit
    assert ontology.ancestors("v00000200") == {}
    assert "left out that inhibit is-a restrain" in capsys.readouterr().err
    lay_out(tmp_path, WORDNET, **loop("restrain", "stop"))
    assert read_wordnet(tmp_path, PLAIN).ancestors("v00000100") == {}
    assert "left out 2 is-a edges" in capsys.readouterr().err
    every = read_wordnet(tmp_path, ALL)
    ends = [[every.index_of["v00000100"], every.index_of["v00000200"]]]
    assert every.relations[CIRCULAR].nnz == 2
    assert [
        shortest_paths(every, ends, direction=way).tolist() for way in ("undirected", "all")
    ] == [[-1], [1]]


def test_where_wordnet_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(wordnet, "FOLDER", tmp_path / "debian")
    data = tmp_path / "data"
    (data / "wordnet").mkdir(parents=True)
    with pytest.raises(UserError, match="wordnet-base"):
        load_ontology("wordnet", data)
    lay_out(tmp_path / "debian", WORDNET)
    assert len(load_ontology("wordnet", data)) == len(load_ontology("wordnet", None)) == 10
    own = {
        name.replace(".", "_"): WORDNET[name].replace("entity", "thing")
        for name in ("data.noun", "index.noun")
    }
    lay_out(data / "wordnet", WORDNET, **own)
    assert load_ontology("wordnet", data).labels[0] == "thing"  # the user's own folder comes first


@pytest.mark.parametrize("lacking", [(), ("noun.exc",), ("verb.exc",), ("noun.exc", "verb.exc")])
def test_files_of_irregular_forms_that_are_missing_are_named(tmp_path, capsys, lacking):
    forms = {"noun.exc": "bodies body\n", "verb.exc": "inhalt inhale\n"}
    folder = lay_out(
        tmp_path, {**WORDNET, **{name: forms[name] for name in forms if name not in lacking}}
    )
    read_wordnet(folder, ALL)
    warning = capsys.readouterr().err
    assert ("warning: " in warning) == bool(lacking)
    assert [name for name in forms if name in warning] == list(lacking)
    read_wordnet(folder, PLAIN)  # reads no irregular forms
    assert capsys.readouterr().err == ""
