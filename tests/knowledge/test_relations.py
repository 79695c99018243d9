"""Kinds of relations by hand: in a made-up WordNet, bundled MeSH, a made-up UMLS, and two
ontologies at once."""

from itertools import product

import numpy as np
import pytest
from support.files import lay_out
from support.ontologies import bundled_mesh, graph, random_graph
from support.ontology_files import (
    RF2_ROWS,
    UMLS,
    WORDNET,
    sct_concept,
    sct_edge,
    sct_term,
    snomed_folder,
)

from mednli_jax.data.examples import Mention
from mednli_jax.errors import UserError
from mednli_jax.knowledge.lemmas import Lemmas
from mednli_jax.knowledge.linking import Linker, Linkers
from mednli_jax.knowledge.ontology import OntologyOptions, side_by_side
from mednli_jax.knowledge.readers.snomed import read_snomed
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
NUMBERS = {
    "data.adj": """\
00000200 00 a 01 cardinal 0 000 | a quantity
00000300 00 s 02 three 0 3 0 001 & 00000200 a 0000 | a number
00000400 00 s 01 four 0 001 & 00000200 a 0000 | a number
00000500 00 a 01 near 0 001 ! 00000900 a 0101 | not far
00000900 00 a 01 far 0 001 ! 00000500 a 0101 | not near
""",
    "index.adj": "near a 1 1 ! 1 1 00000500\n",
    "data.noun": WORDNET["data.noun"]
    + "00000800 10 n 02 i 0 over 0 001 @ 00000100 n 0000 | a letter\n",
}


@pytest.fixture
def wordnet(tmp_path):
    return read_wordnet(lay_out(tmp_path, WORDNET | ADJECTIVES), ALL)


def between(linker, premise, hypothesis, named=(), max_length=0):
    """({kind, ...}, distance) between the longest mentions of two texts, or None if they are
    unrelated."""
    sides = [linker.link(text.split()) for text in (premise, hypothesis)]
    longest = [max(mentions, key=lambda mention: mention.end - mention.start) for mentions in sides]
    units = [(mention.concept, tuple(linker.indices(mention.concept))) for mention in longest]
    if not isinstance(linker, Lemmas):
        units = [
            (text, concepts)
            for text, (_, concepts) in zip((premise, hypothesis), units, strict=True)
        ]
    found = related(linker.ontology, units, named, max_length)
    return kinds_by_key(found, named).get(1)  # from the first to the second


def kinds_by_key(found, named=()):
    """key -> ({kind, ...}, distance)."""
    rows = zip(found.keys.tolist(), found.bits.tolist(), found.distance.tolist(), strict=True)
    kinds = kinds_of(named)
    return {
        key: ({kind for bit, kind in enumerate(kinds) if bits >> bit & 1}, steps)
        for key, bits, steps in rows
    }


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
    assert between(lemmas, "cold", "illness")[0] == {"hypernym"}
    assert between(lemmas, "inhale", "cold", ("entails", "part_of")) == ({"entails"}, 1)
    assert between(lemmas, "cold", "inhale", ("entails", "part_of")) == ({"inverse_entails"}, 1)
    assert (
        between(lemmas, "asleep", "awake") == between(lemmas, "awake", "asleep") == ({"antonym"}, 1)
    )
    assert between(lemmas, "drowsy", "asleep", ["similar_to"]) == ({"similar_to", "hypernym"}, 1)
    assert between(lemmas, "drowsy", "awake") == ({"antonym"}, 1)  # the opposite of its head
    assert between(lemmas, "bodices", "body") == ({"synonym"}, 0)
    assert lemmas.link(["the", "body", "of", "12", "bodies"]) == [
        Mention(1, 2, "body"),
        Mention(4, 5, "body"),
    ]


def test_words_of_grammar_numbers_and_phrases(tmp_path):
    """Words of grammar are adjectives or adverbs alone; digits are words; a phrase does not hide
    its words."""
    lemmas = Lemmas(read_wordnet(lay_out(tmp_path, WORDNET | NUMBERS), ALL))
    assert between(lemmas, "near", "far") == ({"antonym"}, 1)
    assert between(lemmas, "three", "four") == between(lemmas, "3", "four") == ({"co_hyponym"}, 2)
    assert between(lemmas, "three", "3") == ({"synonym"}, 0)
    assert (
        lemmas.link(["is", "i", "over", "the"]) == []
    )  # "is" is the plural of the letter "i", "over" a noun here
    spans = [
        (mention.start, mention.end)
        for mention in lemmas.link(["near", "common", "cold", "bodies"])
    ]
    assert spans == [(0, 1), (1, 3), (2, 3), (3, 4)]


def reference(ontology, units, wanted):
    """The kinds of `related` by the words of its docstring, one pair after the other, without
    distances."""
    up = [
        {c: 0} | {ontology.index(a): n for a, n in ontology.ancestors(i).items()}
        for c, i in enumerate(ontology.ids)
    ]
    antonyms = set(zip(*ontology.relations["antonym"].nonzero(), strict=True))
    others = set(zip(*ontology.relations["other"].nonzero(), strict=True))
    found = {}
    for key in wanted:
        (_, one), (_, two) = (units[place] for place in divmod(key, len(units)))
        pairs = [(up[a], a, up[b], b) for a in one for b in two]
        crossed = [(n, c, m, d) for a, _, b, _ in pairs for c, n in a.items() for d, m in b.items()]
        kinds = {"synonym"} if set(one) & set(two) else set()
        if not kinds:
            kinds |= {"hypernym"} if any(b in above for above, _, _, b in pairs) else set()
            kinds |= {"hyponym"} if any(a in below for _, a, below, _ in pairs) else set()
        reach = 0 if kinds else 1
        if not kinds and any(c == d and 1 <= n <= 2 and 1 <= m <= 2 for n, c, m, d in crossed):
            kinds |= {"co_hyponym"}
        if any(n <= reach >= m and {(c, d), (d, c)} & antonyms for n, c, m, d in crossed):
            kinds |= {"antonym"}
        for name, heirs, targets in (("other", one, two), ("inverse_other", two, one)):
            near = [{c for a in heirs for c, n in up[a].items() if n <= 2}, set(targets)]
            if any(a in near[0] and any(up[b].get(c, 9) <= 2 for c in targets) for a, b in others):
                kinds |= {name}
        found |= {key: kinds} if kinds else {}
    return found


def test_random_graphs_against_a_reference():
    rng = np.random.default_rng(0)
    edges, others = random_graph(rng, 60, 1.3)
    ontology = graph(edges, 60, other=others, antonym=map(tuple, rng.integers(0, 60, (40, 2))))
    units = [(f"word {n}", tuple(rng.integers(0, 60, 1 + n % 2).tolist())) for n in range(40)]
    wanted = np.array(
        [key for key in range(1600) if key % 41 and (key + key // 40) % 3]
    )  # a word is not its own pair
    wanted = np.union1d(wanted, wanted % 40 * 40 + wanted // 40)
    found = kinds_by_key(related(ontology, units, ("other",), wanted=wanted), ("other",))
    assert {key: kinds for key, (kinds, _) in found.items()} == reference(
        ontology, units, wanted.tolist()
    )
    assert set().union(*(kinds for kinds, _ in found.values())) == {*kinds_of(("other",))} - {
        "same"
    }


def test_how_far_antonyms_and_common_ancestors_reach():
    """1 and 2 are below 0, and antonyms; 5 - 3 - 1 and 4 - 2 are chains of is-a edges."""
    ontology = graph([(1, 0), (2, 0), (3, 1), (4, 2), (5, 3)], 6, antonym=[(1, 2)])
    found = kinds_by_key(related(ontology, [(str(n), (n,)) for n in range(6)]))
    both = ({"antonym", "co_hyponym"}, 1)
    assert found[6 * 1 + 2] == found[6 * 2 + 3] == found[6 * 3 + 4] == both
    assert found[6 * 5 + 1] == ({"hypernym"}, 2)
    assert not {6 * 5 + 2, 6 * 5 + 4} & found.keys()


def test_named_relations_of_a_made_up_snomed(tmp_path):
    """The site of narwhal flu is the pouch, part of belly, trunk and body; a pup's flu is one of
    narwhals."""
    added = {"106": "pup flu", "107": "belly", "108": "trunk", "109": "whole body"}
    edges = (("106", "103"), ("104", "107"), ("107", "108"), ("108", "109"))
    changed = {
        "Concept": [*RF2_ROWS["Concept"], *map(sct_concept, added)],
        "Description": [*RF2_ROWS["Description"], *(sct_term(*both) for both in added.items())],
        "Relationship": [*RF2_ROWS["Relationship"], *(sct_edge(*edge) for edge in edges)],
    }
    linker = Linker(read_snomed(snomed_folder(tmp_path, **changed), ALL), types=())
    illnesses, sites = (
        ("narwhal flu", "pup flu", "wombat rash"),
        ("pouch", "belly", "trunk", "whole body"),
    )
    found = {pair: between(linker, *pair, ("finding_site",)) for pair in product(illnesses, sites)}
    # Wombat rash is above narwhal flu, and the whole body is three edges above the pouch.
    reached = dict.fromkeys(product(illnesses[:2], sites[:3]), ({"finding_site"}, 1))
    assert {pair: kinds for pair, kinds in found.items() if kinds} == reached
    assert between(linker, "belly", "pup flu", ("finding_site",)) == ({"inverse_finding_site"}, 1)


def test_made_up_umls(tmp_path):
    linker = Linker(read_umls(lay_out(tmp_path, UMLS), ALL), types=())
    assert between(linker, "quokka fever", "fever of quokkas") == ({"synonym"}, 0)
    assert between(linker, "narwhal", "quokka disease") == ({"hypernym"}, 2)
    assert between(linker, "quokka fever", "wombat first") == ({"co_hyponym"}, 2)
    named = ("has_finding_site",)
    assert between(linker, "quokka fever", "pouch", named) == ({"has_finding_site"}, 1)
    assert between(linker, "pouch", "quokka fever", named) == ({"inverse_has_finding_site"}, 1)
    assert between(linker, "narwhal", "pouch", named) == (
        {"has_finding_site"},
        1,
    )  # is-a quokka fever
    assert between(linker, "quokka disease", "pouch", named) is None
    with pytest.raises(UserError, match="relations"):
        between(linker, "quokka fever", "pouch", ("has_finding_sight",))


def test_two_ontologies_stand_side_by_side(wordnet):
    mesh, sides = (
        bundled_mesh(),
        ["he has a cold , no heart attack", "heat after a myocardial infarction"],
    )
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
    assert found[3, 0] == (
        1,
        1 << kinds.index("antonym") | 1 << kinds.index("co_hyponym"),
    )  # cold - heat
    assert {found[i, j] for i in (6, 7) for j in (3, 4)} == {(0, 1 << kinds.index("same"))}
    assert links.relation.dtype == np.uint8
    assert (links.relation[links.distance < 0] == 0).all()
