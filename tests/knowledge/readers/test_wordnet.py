"""The WordNet reader on made-up database files in the official layout: a graph checked by hand."""

import pytest
from support.files import lay_out
from support.ontologies import edges_of
from support.ontology_files import WORDNET
from support.tables import table_rows

from mednli_jax.errors import UserError
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import CIRCULAR, OntologyOptions
from mednli_jax.knowledge.readers import wordnet
from mednli_jax.knowledge.readers.wordnet import read_wordnet

PLAIN = OntologyOptions()
ALL = OntologyOptions(relations="all")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("wordnet"), WORDNET)


@pytest.fixture(scope="module")
def ontology(folder):
    return read_wordnet(folder, ALL)


def test_a_synset_has_an_id_and_a_lexicographer_file_as_type(ontology):
    assert ontology.name == "wordnet"
    assert ontology.version == "3.0"
    assert len(ontology) == 10
    assert ontology.ids[:2] == ("n00000100", "n00000200")
    types = dict(zip(ontology.ids, ontology.types, strict=True))
    assert types["n00000200"] == "noun.body"
    assert types["n00000400"] == "noun.state"
    assert types["v00000100"] == "verb.body"


def test_hypernyms_and_instances_are_is_a_edges(ontology):
    assert ontology.ancestors("n00000400") == {"n00000300": 1, "n00000100": 2}
    paris = "n00000700"  # an instance of body
    assert ontology.ancestors(paris) == {"n00000200": 1, "n00000100": 2}
    assert ontology.ancestors("v00000200") == {"v00000100": 1}
    assert ontology.parents.nnz == 7


def test_pointers_besides_hypernyms_are_relations(ontology):
    relations = {}
    for name, matrix in ontology.relations.items():
        relations[name] = ", ".join(sorted(map(" ".join, edges_of(matrix, ontology.ids))))

    assert relations == {
        "antonym": "n00000500 n00000600, n00000600 n00000500",
        "derivation": "n00000200 v00000200, v00000200 n00000200",
        "entails": "v00000200 v00000300",
        "part_of": "n00000700 n00000100",
        "verb_group": "v00000300 v00000100",
    }


def test_relations_are_read_on_request_alone(folder, ontology):
    plain = read_wordnet(folder, PLAIN)

    assert plain.relations == {}
    assert (plain.parents != ontology.parents).nnz == 0
    assert plain.sha256 != ontology.sha256


@pytest.mark.parametrize(
    "name, synsets",
    table_rows("""
        cold | n00000500 n00000400 v00000300
        paris | n00000700
        # a word that the index lacks
        ha | n00000600
    """),
)
def test_synsets_of_a_word_stand_in_the_order_of_their_frequency(ontology, name, synsets):
    concepts = [ontology.ids[place] for text, place in ontology.names if text.lower() == name]

    assert " ".join(concepts) == synsets


def test_the_most_frequent_sense_is_linked(ontology):
    text = "a cold , the common cold in paris , organic structures"

    concepts = [mention.concept for mention in Linker(ontology).link(text.split())]

    assert concepts == ["n00000500", "n00000400", "n00000700", "n00000200"]


def test_a_label_is_the_first_word_of_its_own_or_names_its_sense(ontology):
    labels = dict(zip(ontology.ids, ontology.labels, strict=True))

    assert labels["n00000500"] == "cold"
    assert labels["n00000400"] == "common cold"  # its first word belongs to the temperature
    assert labels["v00000300"] == "cold (verb 1)"
    assert labels["n00000700"] == "Paris"
    assert len(set(ontology.labels)) == len(ontology)


def write_loop(folder, first, second):
    """Writes two verbs, each the hypernym of the other, and nouns that point to no verb."""
    pointer = "002 @ 00000100 n 0000 + 00000200 v 0101"
    verbs = (
        f"00000100 41 v 02 {first} 0 hold 0 001 @ 00000200 v 0000 01 + 08 00 | x\n"
        f"00000200 41 v 01 {second} 0 001 @ 00000100 v 0000 01 + 08 00 | x\n"
    )
    return lay_out(
        folder,
        WORDNET,
        data_verb="  licence\n" * 2 + verbs,
        index_verb=f"{second} v 1 1 @ 1 1 00000200\n{first} v 1 1 @ 1 1 00000100\n",
        data_noun=WORDNET["data.noun"].replace(pointer, "001 @ 00000100 n 0000"),
    )


def test_the_loop_of_wordnet_is_opened(tmp_path, capsys):
    ontology = read_wordnet(write_loop(tmp_path, "restrain", "inhibit"), PLAIN)

    assert ontology.ancestors("v00000100") == {"v00000200": 1}  # restrain is-a inhibit
    assert ontology.ancestors("v00000200") == {}
    assert "left out that inhibit is-a restrain" in capsys.readouterr().err


def test_another_loop_is_left_out_of_is_a_and_is_a_relation(tmp_path, capsys):
    folder = write_loop(tmp_path, "restrain", "stop")

    assert read_wordnet(folder, PLAIN).ancestors("v00000100") == {}
    assert "left out 2 is-a edges" in capsys.readouterr().err
    ontology = read_wordnet(folder, ALL)
    ends = [[ontology.index("v00000100"), ontology.index("v00000200")]]
    assert ontology.relations[CIRCULAR].nnz == 2
    assert shortest_paths(ontology, ends, direction="undirected") == [-1]
    assert shortest_paths(ontology, ends, direction="all") == [1]


def test_wordnet_is_looked_for_in_the_data_folder_then_where_debian_puts_it(tmp_path, monkeypatch):
    monkeypatch.setattr(wordnet, "FOLDER", tmp_path / "debian")
    data = tmp_path / "data"
    (data / "wordnet").mkdir(parents=True)

    with pytest.raises(UserError, match="wordnet-base"):
        load_ontology("wordnet", data)
    lay_out(tmp_path / "debian", WORDNET)
    assert load_ontology("wordnet", data).labels[0] == "entity"
    assert load_ontology("wordnet", None).labels[0] == "entity"
    renamed = {name: text.replace("entity", "thing") for name, text in WORDNET.items()}
    lay_out(data / "wordnet", renamed)
    assert load_ontology("wordnet", data).labels[0] == "thing"


@pytest.mark.parametrize(
    "lacking",
    [
        (),
        ("noun.exc",),
        ("verb.exc",),
        ("noun.exc", "verb.exc"),
    ],
)
def test_missing_files_of_irregular_forms_are_named_where_relations_are_read(
    tmp_path, capsys, lacking
):
    files = {**WORDNET, "noun.exc": "bodies body\n", "verb.exc": "inhalt inhale\n"}
    for name in lacking:
        del files[name]
    lay_out(tmp_path, files)

    read_wordnet(tmp_path, ALL)
    warning = capsys.readouterr().err
    read_wordnet(tmp_path, PLAIN)

    assert ("warning: " in warning) == bool(lacking)
    for name in ("noun.exc", "verb.exc"):
        assert (name in warning) == (name in lacking)
    assert capsys.readouterr().err == ""
