"""Kinds of relations by hand: in a made-up WordNet, bundled MeSH, a made-up UMLS, and two ontologies at once."""

import numpy as np
import pytest
from made_up_knowledge import UMLS, WORDNET, bundled_mesh, lay_out

from mednli_jax.data.examples import Mention
from mednli_jax.errors import UserError
from mednli_jax.knowledge.linking import Lemmas, Linker, Linkers
from mednli_jax.knowledge.ontology import OntologyOptions, side_by_side
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.knowledge.readers.wordnet import read_wordnet
from mednli_jax.knowledge.relations import kinds_of, related, typed_links

ALL = OntologyOptions(relations="all")
ADJECTIVES = {
    "data.adj": """\
00000100 00 a 01 asleep(p) 0 002 ! 00000900 a 0101 ^ 00000950 a 0000 | in sleep
00000900 00 a 01 awake(p) 0 000 | not asleep
00000950 00 s 01 drowsy 0 001 & 00000100 a 0000 | half asleep
""",
    "index.adj": """\
asleep a 1 2 ! ^ 1 1 00000100
awake a 1 0 1 1 00000900
drowsy a 1 1 & 1 1 00000950
""",
    "noun.exc": "bodices body\n",
}


@pytest.fixture
def wordnet(tmp_path):
    return read_wordnet(lay_out(tmp_path, WORDNET | ADJECTIVES), ALL)


def between(linker, premise, hypothesis, named=(), max_length=0):
    """({kind, ...}, distance) between two texts of one mention each, or None if they are unrelated."""
    sides = [linker.link(text.split()) for text in (premise, hypothesis)]
    units = [(mention.concept, tuple(linker.indices(mention.concept))) for (mention,) in sides]
    if not isinstance(linker, Lemmas):
        units = [(text, concepts) for text, (_, concepts) in zip((premise, hypothesis), units, strict=True)]
    found = related(linker.ontology, units, named, max_length)
    at = np.flatnonzero(found.keys == 1)  # pairs from the first to the second
    if not len(at):
        return None
    kinds = kinds_of(named)
    return {kind for bit, kind in enumerate(kinds) if found.bits[at[0]] >> bit & 1}, int(found.distance[at[0]])


def test_wordnet_by_hand(wordnet):
    """Adjectives and irregular forms are read with all relations."""
    lemmas = Lemmas(wordnet)
    assert between(lemmas, "illness", "entity") == ({"hypernym"}, 1)
    assert between(lemmas, "entity", "illness") == ({"hyponym"}, 1)
    assert between(lemmas, "common cold", "entity") == ({"hypernym"}, 2)
    assert between(lemmas, "common cold", "entity", max_length=1) is None
    assert between(lemmas, "body", "organic structure") == ({"synonym"}, 0)
    assert between(lemmas, "bodies", "body") == ({"same"}, 0)
    assert between(lemmas, "inhaling", "breathes") == ({"hypernym"}, 1)
    assert between(lemmas, "body", "illness") == ({"co_hyponym"}, 2)
    # "cold" is an illness, a verb, and both the opposite and the sibling of heat.
    assert between(lemmas, "cold", "heat")[0] == {"antonym", "co_hyponym"}
    assert between(lemmas, "cold", "illness")[0] == {"hypernym", "co_hyponym"}
    assert between(lemmas, "inhale", "cold", ("entails", "part_of")) == ({"entails"}, 1)
    assert between(lemmas, "cold", "inhale", ("entails", "part_of")) == ({"inverse_entails"}, 1)
    assert between(lemmas, "asleep", "awake") == between(lemmas, "awake", "asleep") == ({"antonym"}, 1)
    assert between(lemmas, "drowsy", "asleep", ["similar_to"]) == ({"similar_to"}, 1)
    assert between(lemmas, "bodices", "body") == ({"synonym"}, 0)
    assert lemmas.link(["the", "body", "of", "12", "bodies"]) == [Mention(1, 2, "body"), Mention(4, 5, "body")]


def test_made_up_umls(tmp_path):
    linker = Linker(read_umls(lay_out(tmp_path, UMLS), ALL), types=())
    assert between(linker, "quokka fever", "fever of quokkas") == ({"synonym"}, 0)
    assert between(linker, "narwhal", "quokka disease") == ({"hypernym"}, 2)
    assert between(linker, "quokka fever", "wombat first") == ({"co_hyponym"}, 2)
    named = ("has_finding_site",)
    assert between(linker, "quokka fever", "pouch", named) == ({"has_finding_site"}, 1)
    assert between(linker, "pouch", "quokka fever", named) == ({"inverse_has_finding_site"}, 1)
    with pytest.raises(UserError, match="relations"):
        between(linker, "quokka fever", "pouch", ("has_finding_sight",))


def test_two_ontologies_stand_side_by_side(wordnet):
    mesh, sides = bundled_mesh(), ["he has a cold , no heart attack", "heat after a myocardial infarction"]
    both = side_by_side([wordnet, mesh])
    linker = Linkers(both, [Lemmas(wordnet), Linker(mesh, vocabulary=" ".join(sides).split())])
    assert len(both) == len(wordnet) + len(mesh)
    mentions = [[linker.link(text.split())] for text in sides]

    def unit_of(side, number, mention):
        return mention.concept, tuple(linker.indices(mention.concept))

    links = typed_links(both, *mentions, unit_of, named=(), max_links=20, max_tokens=50)
    columns = (links.premise, links.hypothesis, links.distance, links.relation)
    rows = zip(*(column[0].tolist() for column in columns), strict=True)
    found = {(i, j): (distance, bits) for i, j, distance, bits in rows if distance >= 0}
    kinds = kinds_of(())
    assert found[3, 0] == (1, 1 << kinds.index("antonym") | 1 << kinds.index("co_hyponym"))  # cold - heat
    assert {found[i, j] for i in (6, 7) for j in (3, 4)} == {(0, 1 << kinds.index("same"))}
    assert links.relation.dtype == np.uint8
    assert (links.relation[links.distance < 0] == 0).all()
