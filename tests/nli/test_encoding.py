"""Encoding of examples into arrays: tokens, links, truncation, and a progress bar for slow work."""

import json
import re
from dataclasses import replace

import pytest
from support.commands import prepare
from support.files import lay_out
from support.ontologies import HEART, LINKER, is_a_matrix
from support.ontology_files import WORDNET
from support.pair_files import write_own, write_rows
from support.pairs import ENCODING, SPLITS, encode_links, links_of, pair, words_of

from mednli_jax import defaults
from mednli_jax.data.arrays import NEW, SIDES
from mednli_jax.data.cache import Cache
from mednli_jax.data.examples import Split
from mednli_jax.data.text import PAD, UNK
from mednli_jax.errors import UserError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers import mesh
from mednli_jax.knowledge.relations import kinds_of
from mednli_jax.nli import corpus as nli_corpora
from mednli_jax.nli.corpus import read_recognised
from mednli_jax.nli.encoding import (
    PieceEncoding,
    PieceTexts,
    WordTexts,
    encode_corpus,
)
from mednli_jax.nli.plug import corpus_of
from mednli_jax.report.prepared import fact_lines
from mednli_jax.run import experiment_of


@pytest.mark.parametrize(
    ("keep", "premise", "hypothesis", "links"),
    [
        (
            "first",
            ["known", "asthma"],
            ["has", "heart"],
            [],
        ),  # "heart failure" and "heart disease" are cut
        (
            "last",
            ["asthma", "."],
            ["heart", "disease"],
            [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)],
        ),
    ],
)
def test_truncation_is_counted_and_links_move_with_the_tokens(keep, premise, hypothesis, links):
    how = replace(ENCODING, max_length=2, keep=keep)
    arrays, vocab, _, facts = encode_corpus(SPLITS, None, how)
    assert words_of(arrays["premise"][0], vocab) == premise
    assert words_of(arrays["hypothesis"][1], vocab) == hypothesis
    assert max(arrays["premise_length"].max(), arrays["hypothesis_length"].max()) == 2
    assert facts["truncated"] == {"premise": 2, "hypothesis": 3}
    assert ("disease" in vocab) == (keep == "last")
    assert (
        links_of(encode_links([pair("a b heart failure", "has heart disease")], LINKER, how)[0], 0)
        == links
    )
    half = [pair("heart failure was known", "heart disease")]
    assert links_of(encode_links(half, LINKER, replace(how, max_length=3, keep="last"))[0], 0) == []


@pytest.mark.parametrize(
    ("keep", "premise", "hypothesis", "links"),
    [
        ("first", ["known", "asthma", "and"], ["has", "old", "heart"], []),
        (
            "last",
            ["and", "heart", "failure"],
            ["old", "heart", "disease"],
            [(1, 1), (1, 2), (2, 1), (2, 2)],
        ),
    ],
)
def test_pieces_are_cut_at_the_same_end_as_words(keep, premise, hypothesis, links):
    """Three pieces of each side fit."""
    split = Split("train", (pair("known asthma and heart failure", "has old heart disease"),), {})
    how = replace(ENCODING, keep=keep)
    texts = PieceTexts(how, PieceEncoding(None, 100, 9))  # with three special ones
    arrays, vocab, _, facts = encode_corpus({"train": split}, LINKER, how, texts=texts)
    assert words_of(arrays["premise"][0], vocab) == premise
    assert words_of(arrays["hypothesis"][0], vocab) == hypothesis
    assert facts["truncated"] == {"pairs": 1}
    assert [ends for *ends, _ in map(list, links_of(arrays, 0))] == list(map(list, links))


def test_typed_links_join_the_pieces_of_the_words_that_are_linked():
    """Kinds depend on the words of a mention, whatever pieces they have."""
    examples = (pair("known heart failure", "old heart failure"), pair("asthma", "heart failure"))
    how = replace(ENCODING, relations=())
    splits = {"train": Split("train", examples)}
    links = {}
    for size in (40, 200):  # pieces are characters, or words
        texts = PieceTexts(how, PieceEncoding(None, size, 100))
        arrays, vocab, _, facts = encode_corpus(splits, LINKER, how, texts=texts)
        links[size] = facts["knowledge"]["relations"]
        filled = arrays["link_distance"] >= 0
        pieces = {
            side: [vocab.words[n] for n in arrays[side][0][arrays[f"link_{side}"][0][filled[0]]]]
            for side in SIDES
        }
        assert all("known" not in piece and "old" not in piece for piece in pieces["premise"])
    by_word = encode_corpus(splits, LINKER, how).facts["knowledge"]["relations"]
    assert {kind for kind, count in by_word.items() if count} == {"same"}
    for counts in links.values():
        assert {kind for kind, count in counts.items() if count} == {"same"}


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_encoded_texts_do_not_depend_on_later_ones(kind):
    how = replace(ENCODING, max_length=2)
    texts = WordTexts(how) if kind == "words" else PieceTexts(how, PieceEncoding(None, 100, 7))
    short, long = (
        [pair("known asthma", "heart disease")],
        [pair("a systolic heart failure", "asthma and heart")],
    )
    splits = {"train": Split("train", (*short, *long))}
    texts = texts.fit(splits, lambda words: None).texts
    encoded = texts.encode(short)
    expected = texts.mentions(encoded, LINKER)
    texts.encode(long)
    assert texts.mentions(encoded, LINKER) == expected
    assert [mention.concept for side in SIDES for mention in expected[0][side][0]] == ["C3", "C0"]
    assert not any(texts.facts(encoded)["truncated"].values())
    assert all(texts.facts(texts.encode(long))["truncated"].values())


def test_unknown_words_become_unk_and_keep_their_place(tmp_path):
    known = {"heart": 1.0, "failure": 2.0, "disease": 3.0, "asthma": 4.0, "has": 5.0}
    path = tmp_path / "few.txt"
    path.write_text("".join(f"{word} {value} 0 0 1\n" for word, value in known.items()))
    arrays, vocab, vectors, facts = encode_corpus(
        SPLITS, LINKER, replace(ENCODING, vectors_path=path)
    )
    assert words_of(arrays["premise"][1], vocab) == ["<unk>", "<unk>", "heart", "failure"]
    # the same lengths as without a vectors file: no word is deleted
    assert arrays["premise_length"].tolist() == [3, 4, 2, 1, 0, 1]
    assert [float(vectors[vocab.encode([word])[0], 0]) for word in ("heart", "asthma")] == [
        1.0,
        4.0,
    ]
    assert (vectors[PAD].any(), vectors[UNK].any()) == (False, True)
    assert facts["unknown_tokens"] == {side: int((arrays[side] == UNK).sum()) for side in SIDES}
    assert facts["vocabulary"]["with_vector"] == len(vocab) - 2 == 5
    # The concept of row 1 covers tokens 1 to 3, whether or not its words have vectors.
    assert {premise for premise, _, _ in links_of(arrays, 1)} == {1, 2, 3}


def test_links_by_hand():
    examples = [
        pair("Admitted with Systolic Heart Failure and asthma", "Has heart disease , no asthma"),
        pair("nothing to link", "asthma"),
        pair("heart failure", "heart failure"),
    ]
    arrays, facts = encode_links(examples, LINKER, replace(ENCODING, max_links=16))
    # Systolic heart failure (tokens 2-4) is two steps below heart disease (tokens 1-2). Asthma (6)
    # equals asthma (5).
    expected = [(i, j, 2) for i in (2, 3, 4) for j in (1, 2)] + [(6, 5, 0)]
    assert links_of(arrays, 0) == sorted(expected)
    assert links_of(arrays, 1) == []
    assert links_of(arrays, 2) == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert arrays["link_distance"].shape[1] == 7  # as wide as the pair with most links
    assert (facts["longest_path"], facts["links"], facts["pairs_with_links"]) == (2, 11, 2)
    assert facts["links_per_length"] == {"0": 5, "2": 6}
    assert facts["dropped_links"] == 0


def test_the_head_of_a_cut_name_is_not_taken_for_another_name():
    """Cut behind "heart", "heart failure" is not the concept "heart", and concepts behind the cut
    do not count."""
    heart = Ontology(
        "h", "1", ("C0", "C1"), ("heart", "heart failure"), (), is_a_matrix([(1, 0)], 2), "0" * 64
    )
    long = pair("known heart failure heart", "heart failure")
    for most, links in ((2, []), (3, [(1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0)])):
        arrays, facts = encode_links([long], Linker(heart), replace(ENCODING, max_length=most))
        assert links_of(arrays, 0) == links
        assert facts["longest_path"] == 0  # "heart", one step from the hypothesis, is cut off
    assert encode_links([long], Linker(heart), ENCODING)[1]["longest_path"] == 1


CONCEPTS = "D1\tcardiac illness\tC01\t\nD2\tpump trouble\tC01.100\tHP\nD3\tbird\tB01\t\n"


def corpus(folder):
    """A user's own corpus of three pairs (train p0 and p1, dev p2), and an ontology in which D2
    is-a D1."""
    texts = {"premise": "Known pump trouble , ht .", "hypothesis": "A bird .", "label": "neutral"}
    for split, numbers in (("train", (0, 1)), ("dev", (2,))):
        write_rows(folder / f"{split}.jsonl", ({"uid": f"p{n}", **texts} for n in numbers))
    (folder / "own.tsv").write_text("\t".join(mesh.HEADER) + "\n" + CONCEPTS)
    config = defaults.nli("esim", "file", "replace")
    config.data.dir = str(folder)
    config.knowledge.ontology = str(folder / "own.tsv")
    return config


def again(corpus, prepared, examples, concepts=None):
    """The arrays of new pairs, in the vocabulary of a prepared corpus."""
    vocabulary = corpus.read_vocabulary(prepared.folder / "vocabulary.json")
    return corpus.encoded(
        {NEW: Split(NEW, tuple(examples))}, vocabulary, prepared.vectors, concepts
    ).arrays


def with_knowledge(config, **fields):
    config = config.copy_and_resolve_references()
    config.knowledge.update(fields)
    return config


def test_a_spans_file_in_a_config_shapes_the_prepared_corpus(tmp_path):
    config = corpus(tmp_path)
    plain, _ = prepare(config)
    assert plain.manifest["knowledge"]["links"] == 0
    spans = tmp_path / "found.tsv"
    rows = "p0\tpremise\t6\t18\tD2\np0\thypothesis\t2\t6\tD1\np2\thypothesis\t2\t6\tX\np2\tpremise\t0\t5\tX\n"
    spans.write_text(f"uid\tside\tstart_char\tend_char\tconcept\n{rows}")
    config = with_knowledge(config, mentions=str(spans))
    prepared, hit = prepare(config)
    assert not hit
    assert links_of(prepared.arrays, 0) == [(1, 1, 1), (2, 1, 1)]
    assert links_of(prepared.arrays, 1) == []
    facts = prepared.manifest["knowledge"]["mentions"]
    names = ("file", "mentions", "of_unknown_concepts", "unknown_concepts")
    assert [facts[name] for name in names] == ["found.tsv", 4, 2, 1]
    assert prepare(config)[1]
    spans.write_text(
        spans.read_text().replace("D1", "D2")
    )  # the file keeps its size; its content is part of the key
    changed, hit = prepare(config)
    assert not hit
    assert links_of(changed.arrays, 0) == [(1, 1, 0), (2, 1, 0)]


def test_a_graph_of_mentioned_concepts_serves_training_and_new_pairs_alike(tmp_path):
    """D4 is-a D2 is-a D1, and nothing mentions D2. Only the whole graph links D4 and D1."""
    config = corpus(tmp_path)
    with open(tmp_path / "own.tsv", "a") as file:
        file.write("D4\tcold bird\tC01.100.100\t\n")
    spans, found = tmp_path / "found.tsv", {}
    spans.write_text(
        "uid\tside\tstart\tend\tconcept\np0\tpremise\t1\t2\tD4\np0\thypothesis\t1\t2\tD1\n"
        "p2\tpremise\t1\t2\tD4\np2\thypothesis\t1\t2\tD4\n"
    )
    for graph in ("whole", "mentioned"):
        found[graph], _ = prepare(
            with_knowledge(config, mentions=str(spans), graph=graph, direction="all")
        )
        facts = found[graph].manifest["knowledge"]
        assert (facts["graph"], facts["concepts_mentioned"], facts["sentences_with_mentions"]) == (
            graph,
            2,
            4,
        )
        assert (facts["concepts_in_ontology"], "graph_concepts" in facts) == (2, False)
    assert links_of(found["whole"].arrays, 0) == [(1, 1, 2)]
    assert links_of(found["mentioned"].arrays, 0) == []
    assert links_of(found["mentioned"].arrays, 2) == [(1, 1, 0)]
    *_, train, of_train, dev, of_dev = fact_lines(found["whole"], SIDES, "pairs")
    numbers = [list(map(int, re.findall(r"\d+", line))) for line in (train, of_train, dev, of_dev)]
    assert numbers == [
        [2, 1, 1, 1, 1],
        [2, 1],
        [1, 1, 1, 1, 1],
        [0, 1],
    ]  # concepts, sentences, pairs; edges and links
    assert not (found["whole"].folder / "concepts.json").exists()
    concepts = json.loads((found["mentioned"].folder / "concepts.json").read_bytes())
    assert concepts == ["D1", "D4"]
    # In a new pair "cold bird" is D4 and "cardiac illness" D1; they are linked in the whole graph
    # alone.
    own = experiment_of(
        with_knowledge(config, mentions=str(spans), graph="mentioned", direction="all")
    ).corpus
    new = pair("a cold bird", "cardiac illness")
    for given, expected in ((concepts, []), (None, [(1, 0, 2), (1, 1, 2), (2, 0, 2), (2, 1, 2)])):
        assert links_of(again(own, found["mentioned"], [new], given), 0) == expected


@pytest.mark.parametrize("graph", ["whole", "mentioned"])
def test_typed_links_of_a_corpus_and_of_new_pairs(tmp_path, graph):
    """Words match WordNet by their base forms and in all senses. New pairs get the same arrays as
    the corpus."""
    config = corpus(tmp_path)
    (tmp_path / "words").mkdir()
    lay_out(tmp_path / "words", WORDNET)
    texts = [
        (text, "A cold body breathes .")
        for text in ("Two bodies inhaled heat .", "Illnesses of cold heat .")
    ]
    write_own(tmp_path, train=texts, dev=texts)
    config = with_knowledge(
        config, ontology=str(tmp_path / "words"), relations="entails,part_of", graph=graph
    )
    config.model.knowledge = "typed"
    own = corpus_of(config)
    prepared, _ = own.prepare()
    arrays, facts = prepared.arrays, prepared.manifest["knowledge"]
    kinds = kinds_of(("entails", "part_of"))
    assert set(kinds) == set(facts["relations"])

    def found(arrays, row):
        links = zip(
            *(arrays[f"link_{name}"][row].tolist() for name in (*SIDES, "distance", "relation")),
            strict=True,
        )
        return {
            (i, j): (d, {k for b, k in enumerate(kinds) if bits >> b & 1})
            for i, j, d, bits in links
            if d >= 0
        }

    train = found(arrays, prepared.splits["train"].first)
    assert train[1, 2] == (0, {"same"})  # bodies - body
    assert train[2, 3] == (1, {"hypernym"})  # inhaled - breathes
    assert train[2, 1] == (1, {"entails"})  # inhaled - cold, which is also a verb
    siblings = (
        {"co_hyponym"} if graph == "whole" else set()
    )  # the parent of the siblings is not mentioned
    assert train[3, 1] == (1, {"antonym"} | siblings)  # heat - cold
    assert (
        facts["relations"]["same"] == 4
    )  # "body" in the first pair and "cold" in the second, in each of two splits
    kept = prepared.folder / "concepts.json"
    concepts = json.loads(kept.read_bytes()) if kept.is_file() else None
    new = again(own, prepared, [pair(*both) for both in texts], concepts)
    assert [found(new, row) for row in range(2)] == [found(arrays, row) for row in range(2)]


def test_concepts_in_the_cut_part_of_a_sentence_span_the_graph():
    """C2 is-a C1 is-a C0, and C1 is mentioned behind the third token only. Asthma is mentioned in
    test only."""
    splits = {
        "train": Split(
            "train",
            (pair("systolic heart failure , no heart failure", "a heart disease", uid="t"),),
        ),
        "dev": Split("dev", (pair("left early", "heart disease", uid="d"),)),
        "test": Split(
            "test", (pair("asthma", "asthma", uid="e"), pair("heart failure", "well", uid="f"))
        ),
    }
    how = replace(ENCODING, max_length=3, graph="mentioned", direction="undirected")
    arrays, _, _, facts = encode_corpus(splits, LINKER, how)
    knowledge = facts["knowledge"]
    assert links_of(arrays, 0) == [(i, j, 2) for i in range(3) for j in (1, 2)]
    assert knowledge["graph_concepts"] == ["C0", "C1", "C2"]
    assert list(knowledge["splits"]["test"].values()) == [2, 1, 1, 1, 2, {"0": 1}]


def test_settings_of_the_linker_shape_the_prepared_corpus(tmp_path):
    config = corpus(tmp_path)
    # the kind of "bird" is not linked by default, and "hp" is too short
    settings = (
        ({}, ["D2"]),
        ({"abbreviations": "bundled"}, ["D2"]),
        ({"types": ("B", "C01")}, ["D2", "D3"]),
        ({"types": ("B,C01",)}, ["D2", "D3"]),
    )
    keys = set()
    for fields, expected in settings:
        own = corpus_of(with_knowledge(config, **fields))
        linked = own.linker.link(("pump", "trouble", ",", "ht", "and", "hp", ",", "a", "bird"))
        assert [mention.concept for mention in linked] == expected
        keys.add(json.dumps(own.key(Cache(tmp_path / "cache"))))
    assert len(keys) == 3


def test_a_terminology_of_many_names_gets_a_linker_for_its_corpus(tmp_path, monkeypatch):
    source = corpus_of(with_knowledge(corpus(tmp_path), types=("",)))
    splits = source.splits()
    whole = source.recogniser(splits)
    monkeypatch.setattr(nli_corpora, "MANY_NAMES", 1)
    small = source.recogniser(splits)
    for sentence in (("pump", "trouble"), ("bird",)):
        assert small.link(sentence) == whole.link(sentence) != []
    assert small.link(("cardiac", "illness")) == []  # no sentence holds this name


def test_a_mentions_file_that_was_cut_off_is_refused_or_reported(tmp_path, capsys):
    splits = {
        name: Split(
            name, tuple(pair("heart failure", "none", uid=f"{name}{n}") for n in range(size))
        )
        for name, size in (("train", 20), ("dev", 40), ("test", 0))
    }
    path = tmp_path / "found.tsv"
    rows = [
        f"{name}{n}\tpremise\t0\t2\tC1\n"
        for name, size in (("train", 20), ("dev", 2))
        for n in range(size)
    ]

    def recognised(count):
        path.write_text("uid\tside\tstart\tend\tconcept\n" + "".join(rows[:count]))
        return read_recognised(path, "best", HEART, splits, filtered=False)

    with pytest.raises(
        UserError, match=r"found\.tsv: no mention is in dev, .*20 of 40 in train, 0 of 80 in dev"
    ):
        recognised(20)
    assert len(recognised(21).spans) == 21
    assert "found.tsv: mentions are more than 10 times rarer in dev" in capsys.readouterr().err
    splits["dev"] = replace(splits["dev"], examples=splits["dev"].examples[:20])
    assert len(recognised(22).spans) == 22
    assert capsys.readouterr().err == ""
