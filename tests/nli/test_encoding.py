"""Encoding of pairs into arrays: tokens, truncation, links, and new pairs in the vocabulary of a
prepared corpus."""

import json
from dataclasses import replace

import pytest
from support.cases import cases
from support.commands import prepare
from support.files import lay_out
from support.mention_files import HEADER
from support.ontologies import HEART, LINKER, small
from support.ontology_files import WORDNET
from support.pair_files import write_own
from support.pairs import ENCODING, SPLITS, encode_corpus, links_of, pair, words_of
from support.tables import fields_of, table_rows

from mednli_jax.cli import read_config
from mednli_jax.data.arrays import NEW, SIDES
from mednli_jax.data.cache import Cache
from mednli_jax.data.examples import Split
from mednli_jax.data.text import PAD, UNK
from mednli_jax.errors import UserError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.readers import mesh
from mednli_jax.knowledge.relations import KINDS, kinds_of
from mednli_jax.nli.corpus import read_recognised
from mednli_jax.nli.encode.texts import PieceEncoding, PieceTexts, WordTexts
from mednli_jax.nli.task import corpus_of


def encoded(*pairs, linker=LINKER, texts=WordTexts, **fields):
    """The encoded corpus of some training pairs. fields: of the encoding."""
    encoding = replace(ENCODING, **fields)
    splits = {"train": Split("train", pairs)}
    return encode_corpus(splits, linker, encoding, texts=texts(encoding))


def pieces(size, room=100):
    """Texts of word pieces: characters where the vocabulary has 40 pieces, words where it has
    200."""
    return lambda encoding: PieceTexts(encoding, PieceEncoding(None, size, room))


def words(corpus, side, row=0):
    return " ".join(words_of(corpus.arrays[side][row], corpus.vocabulary))


# ---- truncation ----


@pytest.mark.parametrize(
    "keep, premise, hypothesis, links",
    [
        ("first", "known asthma and", "has old heart", []),
        (
            "last",
            "and heart failure",
            "old heart disease",
            [(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 1)],
        ),
    ],
)
@cases(
    "texts, cut",
    {
        "words": (WordTexts, {"premise": 1, "hypothesis": 1}),
        "pieces": (pieces(100, room=9), {"pairs": 1}),
        # with three special ones
    },
)
def test_truncation_keeps_one_end_and_moves_the_links(texts, cut, keep, premise, hypothesis, links):
    """Three tokens of each side fit."""
    long = pair("known asthma and heart failure", "has old heart disease")
    corpus = encoded(long, texts=texts, max_length=3, keep=keep)
    assert words(corpus, "premise") == premise
    assert words(corpus, "hypothesis") == hypothesis
    assert links_of(corpus.arrays, 0) == links
    assert corpus.facts["truncated"] == cut


def test_words_that_are_cut_off_are_not_in_the_vocabulary():
    vocabulary = encoded(pair("known asthma", "x"), max_length=1).vocabulary
    assert "known" in vocabulary
    assert "asthma" not in vocabulary


HEART_FAILURE = Linker(small([(1, 0)], ("heart", "heart failure")))


@pytest.mark.parametrize(
    "keep, premise", [("first", "known heart failure"), ("last", "heart failure known")]
)
def test_a_part_of_a_cut_name_is_not_linked(keep, premise):
    """Cut behind "heart", "heart failure" is not the concept "heart"."""
    cut = pair(premise, "heart failure")
    corpus = encoded(cut, linker=HEART_FAILURE, max_length=2, keep=keep)
    assert links_of(corpus.arrays, 0) == []


@pytest.mark.parametrize("most, longest", [(3, 0), (4, 1)])
def test_concepts_behind_the_cut_do_not_count(most, longest):
    """The last word, "heart", is one step from the hypothesis."""
    long = pair("known heart failure heart", "heart failure")
    corpus = encoded(long, linker=HEART_FAILURE, max_length=most)
    assert corpus.facts["knowledge"]["longest_path"] == longest


def test_concepts_in_the_cut_part_of_a_sentence_span_the_graph():
    """C2 is-a C1 is-a C0, and C1 is mentioned behind the third token only. Asthma is mentioned in
    test only."""
    train = pair("systolic heart failure , no heart failure", "a heart disease")
    dev = pair("left early", "heart disease", uid="d")
    test = pair("asthma", "asthma", uid="e"), pair("heart failure", "well", uid="f")
    splits = {
        "train": Split("train", (train,)),
        "dev": Split("dev", (dev,)),
        "test": Split("test", test),
    }
    mentioned = replace(ENCODING, max_length=3, graph="mentioned", direction="undirected")

    arrays, _, _, facts = encode_corpus(splits, LINKER, mentioned)

    distance_2 = [(i, j, 2) for i in range(3) for j in (1, 2)]
    assert links_of(arrays, 0) == distance_2
    assert facts["knowledge"]["graph_concepts"] == ["C0", "C1", "C2"]
    of_test = facts["knowledge"]["splits"]["test"]
    assert list(of_test.values()) == [2, 1, 1, 1, 2, {"0": 1}]


@cases(
    "texts",
    {
        "words": WordTexts,
        "pieces": pieces(40),
    },
)
def test_hypothesis_only_empties_premises_for_models_of_words_and_of_pieces(texts):
    arrays = encoded(pair("known asthma", "no asthma"), texts=texts, hypothesis_only=True).arrays
    assert not arrays["premise_length"].any()
    assert arrays["hypothesis_length"].all()


# ---- words without a vector ----


@pytest.fixture
def few_vectors(tmp_path):
    """The corpus SPLITS with vectors of five of its words."""
    path = tmp_path / "few.txt"
    path.write_text(
        "heart 1 0 0 1\nfailure 2 0 0 1\ndisease 3 0 0 1\nasthma 4 0 0 1\nhas 5 0 0 1\n"
    )
    return encode_corpus(SPLITS, LINKER, replace(ENCODING, vectors_path=path))


def test_unknown_words_become_unk_and_keep_their_place(few_vectors):
    assert words(few_vectors, "premise", row=1) == "<unk> <unk> heart failure"
    assert few_vectors.arrays["premise_length"].tolist() == [3, 4, 2, 1, 0, 1]


def test_words_have_the_vectors_of_the_file(few_vectors):
    _, vocabulary, vectors, facts = few_vectors
    assert vectors[vocabulary.encode(["heart", "asthma"]), 0].tolist() == [1, 4]
    assert not vectors[PAD].any()
    assert vectors[UNK].any()
    assert facts["vocabulary"]["with_vector"] == len(vocabulary) - 2 == 5


def test_unknown_words_are_counted(few_vectors):
    for side, count in few_vectors.facts["unknown_tokens"].items():
        assert count == (few_vectors.arrays[side] == UNK).sum() > 0


def test_a_mention_covers_its_words_whether_or_not_they_have_vectors(few_vectors):
    assert {premise for premise, _, _ in links_of(few_vectors.arrays, 1)} == {1, 2, 3}


# ---- links ----


def test_the_links_of_a_pair_are_those_worked_out_by_hand():
    """Systolic heart failure (tokens 2 to 4) is two steps below heart disease (tokens 1 and 2).
    Asthma (6) equals asthma (5)."""
    arrays, _, _, facts = encoded(
        pair("Admitted with Systolic Heart Failure and asthma", "Has heart disease , no asthma"),
        pair("nothing to link", "asthma"),
        pair("heart failure", "heart failure"),
    )
    distance_2 = [(i, j, 2) for i in (2, 3, 4) for j in (1, 2)]
    assert links_of(arrays, 0) == [*distance_2, (6, 5, 0)]
    assert links_of(arrays, 1) == []
    assert links_of(arrays, 2) == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert arrays["link_distance"].shape[1] == 7  # as wide as the pair with most links
    knowledge = facts["knowledge"]
    assert knowledge["links"] == 11
    assert knowledge["pairs_with_links"] == 2
    assert knowledge["links_per_length"] == {"0": 5, "2": 6}
    assert knowledge["longest_path"] == 2
    assert knowledge["dropped_links"] == 0


@cases(
    "texts",
    {
        "words": WordTexts,
        "characters": pieces(40),
        "pieces": pieces(200),
    },
)
def test_typed_links_join_the_linked_words_whatever_their_pieces(texts):
    corpus = encoded(
        pair("known heart failure", "old heart failure"),
        pair("asthma", "heart failure"),
        texts=texts,
        relations=(),
    )

    kinds = corpus.facts["knowledge"]["relations"]
    assert {kind for kind, count in kinds.items() if count} == {"same"}
    linked = sorted({premise for premise, _, _ in links_of(corpus.arrays, 0)})
    tokens = words_of(corpus.arrays["premise"][0][linked], corpus.vocabulary)
    assert "".join(tokens).replace("##", "") == "heartfailure"


@pytest.mark.parametrize(
    "premise, hypothesis, kind",
    table_rows(f"""
        old heart failure | old heart disease | hypernym
        # downward, the special or the general word first, and by another operator
        no heart failure | no heart disease | hyponym
        no heart disease | no heart failure | hypernym
        without heart failure | without heart disease | hyponym
        # downward on one side, and unsure
        heart failure | no heart disease | hypernym
        only no heart failure | only no heart disease | hypernym
        no asthma | no asthma | same
        # the operator is cut
        no {"old " * 10}heart failure | no heart disease | hyponym
    """),
)
def test_hypernym_and_hyponym_change_places_in_downward_places(premise, hypothesis, kind):
    example = pair(premise, hypothesis)
    corpus = encoded(example, relations=(), polarity=True, keep="last")
    arrays, kinds = corpus.arrays, corpus.facts["knowledge"]["relations"]
    assert {name for name, count in kinds.items() if count} == {kind}
    bits = set(arrays["link_relation"][0][arrays["link_distance"][0] >= 0].tolist())
    assert bits == {1 << KINDS.index(kind)}


def test_labels_are_counted_of_the_pairs_that_are_kept():
    corpus = corpus_of(read_config("bow"))

    train = replace(corpus, limit=4).splits()["train"]

    assert sum(train.facts["labels"].values()) == len(train) == 4


# ---- a corpus of one's own ----

TREE = "D1\tcardiac illness\tC01\t\nD2\tpump trouble\tC01.100\tHP\nD3\tbird\tB01\t\n"


@pytest.fixture
def config_of(tmp_path):
    """The config of three equal pairs (train0, train1, dev0) and an ontology in which D2 is-a D1,
    with these settings of knowledge."""
    texts = "Known pump trouble , ht .", "A bird ."
    write_own(tmp_path, train=[texts, texts], dev=[texts])
    (tmp_path / "own.tsv").write_text("\t".join(mesh.HEADER) + "\n" + TREE)

    def config_with(**fields):
        config = read_config("esim_kd:file")
        config.data.dir = str(tmp_path)
        config.knowledge.update({"ontology": str(tmp_path / "own.tsv"), **fields})
        return config

    return config_with


def arrays_of_new(config, prepared, *pairs):
    """The arrays of new pairs, in the vocabulary and by the concepts of a prepared corpus."""
    corpus = corpus_of(config)
    vocabulary = corpus.read_vocabulary(prepared.folder / "vocabulary.json")
    graph = prepared.folder / "concepts.json"
    concepts = json.loads(graph.read_text()) if graph.exists() else None
    new = {NEW: Split(NEW, pairs)}
    return corpus.encode(new, vocabulary, prepared.vectors, concepts).arrays


SPANS = f"""{HEADER}
train\ttrain0\tpremise\t6\t18\tD2
train\ttrain0\thypothesis\t2\t6\tD1
dev\tdev0\thypothesis\t2\t6\tX
dev\tdev0\tpremise\t0\t5\tX
"""


def test_a_spans_file_in_a_config_makes_the_links_and_its_content_is_part_of_the_key(
    config_of, tmp_path
):
    """The changed file has the same size."""
    spans = tmp_path / "spans.tsv"
    spans.write_text(SPANS)
    config = config_of(mentions=str(spans))
    prepared, _ = prepare(config)
    assert links_of(prepared.arrays, 0) == [(1, 1, 1), (2, 1, 1)]
    assert links_of(prepared.arrays, 1) == []
    facts = prepared.manifest["knowledge"]["mentions"]
    assert facts["file"] == "spans.tsv"
    assert facts["mentions"] == 4
    assert facts["of_unknown_concepts"] == 2
    assert facts["unknown_concepts"] == 1

    assert prepare(config)[1]
    spans.write_text(SPANS.replace("D1", "D2"))
    changed, is_cached = prepare(config)
    assert not is_cached
    assert links_of(changed.arrays, 0) == [(1, 1, 0), (2, 1, 0)]


@pytest.fixture
def mention_config(config_of, tmp_path):
    """D4 is-a D2 is-a D1; a file mentions D4 and D1, and nothing mentions D2. graph: "whole" or
    "mentioned"."""
    with open(tmp_path / "own.tsv", "a") as file:
        file.write("D4\tcold bird\tC01.100.100\t\n")
    mentions = tmp_path / "mentions.tsv"
    mentions.write_text(
        f"{HEADER}\n"
        "train\ttrain0\tpremise\t6\t10\tD4\ntrain\ttrain0\thypothesis\t2\t6\tD1\n"
        "dev\tdev0\tpremise\t6\t10\tD4\ndev\tdev0\thypothesis\t2\t6\tD4\n"
    )
    return lambda graph: config_of(mentions=str(mentions), graph=graph, direction="all")


@pytest.mark.parametrize(
    "graph, links",
    [
        ("whole", [(1, 1, 2)]),
        ("mentioned", []),
    ],
)
def test_only_the_whole_graph_links_over_a_concept_that_is_not_mentioned(
    mention_config, graph, links
):
    prepared, _ = prepare(mention_config(graph))
    assert links_of(prepared.arrays, 0) == links
    assert links_of(prepared.arrays, 2) == [(1, 1, 0)]
    facts = prepared.manifest["knowledge"]
    assert facts["graph"] == graph
    assert facts["concepts_mentioned"] == 2
    assert facts["sentences_with_mentions"] == 4


@pytest.mark.parametrize(
    "graph, links",
    [
        ("whole", [(1, 0, 2), (1, 1, 2), (2, 0, 2), (2, 1, 2)]),
        ("mentioned", []),
    ],
)
def test_new_pairs_are_linked_by_the_graph_of_training(mention_config, graph, links):
    config = mention_config(graph)
    prepared, _ = prepare(config)
    arrays = arrays_of_new(config, prepared, pair("a cold bird", "cardiac illness"))
    assert links_of(arrays, 0) == links


WORDNET_PAIRS = (
    pair("Two bodies inhaled heat .", "A cold body breathes ."),
    pair("Illnesses of cold heat .", "A cold body breathes .", uid="v"),
)


@pytest.fixture(params=["whole", "mentioned"])
def wordnet(config_of, tmp_path, request):
    """(config, its prepared corpus) of WORDNET_PAIRS, with two relations of WordNet."""
    (tmp_path / "words").mkdir()
    lay_out(tmp_path / "words", WORDNET)
    texts = [(example.premise, example.hypothesis) for example in WORDNET_PAIRS]
    write_own(tmp_path, train=texts, dev=texts)
    ontology = str(tmp_path / "words")
    config = config_of(ontology=ontology, relations="entails,part_of", graph=request.param)
    config.model.knowledge = "typed"
    return config, prepare(config)[0]


def kinds_of_link(arrays, premise, hypothesis):
    """(distance, kinds) of a link of the first pair."""
    for place in range(arrays["link_distance"].shape[1]):
        if [arrays[f"link_{side}"][0, place] for side in SIDES] == [premise, hypothesis]:
            bits = arrays["link_relation"][0, place]
            names = kinds_of(("entails", "part_of"))
            kinds = {name for bit, name in enumerate(names) if bits >> bit & 1}
            return arrays["link_distance"][0, place], kinds
    return None


@cases(
    "premise, hypothesis, distance, kind",
    {
        "bodies - body": (1, 2, 0, "same"),
        "inhaled - breathes": (2, 3, 1, "hypernym"),
        "inhaled - cold, also a verb": (2, 1, 1, "entails"),
        "heat - cold": (3, 1, 1, "antonym"),
    },
)
def test_words_match_wordnet_by_their_base_forms_and_in_all_senses(
    wordnet, premise, hypothesis, distance, kind
):
    """In the whole graph heat and cold are also children of one parent, which is not mentioned."""
    config, prepared = wordnet
    siblings = {"co_hyponym"} if kind == "antonym" and config.knowledge.graph == "whole" else set()
    link = kinds_of_link(prepared.arrays, premise, hypothesis)
    assert link == (distance, {kind} | siblings)


def test_kinds_of_links_are_counted(wordnet):
    """ "body" in the first pair and "cold" in the second are the same, in each of two splits."""
    counts = wordnet[1].manifest["knowledge"]["relations"]
    assert set(counts) == set(kinds_of(("entails", "part_of")))
    assert counts["same"] == 4


def test_new_pairs_have_the_typed_links_of_equal_training_pairs(wordnet):
    config, prepared = wordnet
    new = arrays_of_new(config, prepared, *WORDNET_PAIRS)
    for name in ("link_premise", "link_hypothesis", "link_distance", "link_relation"):
        assert new[name].tolist() == prepared.arrays[name][:2].tolist()


@pytest.mark.parametrize(
    "fields, concepts",
    table_rows("""
        # "bird" is of another kind, "hp" is too short
        | D2
        types=["B","C01"] | D2 D3
        # from a command line
        types=["B,C01"] | D2 D3
    """),
)
def test_settings_of_the_linker_choose_the_concepts(config_of, fields, concepts):
    sentence = "pump trouble , ht and hp , a bird"
    mentions = corpus_of(config_of(**fields_of(fields))).linker.link(sentence.split())
    assert [mention.concept for mention in mentions] == concepts.split()


def test_settings_of_the_linker_are_part_of_the_key(config_of, tmp_path):
    def key(**fields):
        return corpus_of(config_of(**fields)).key(Cache(tmp_path / "cache"))

    assert key(types=("B", "C01")) == key(types=("B,C01",)) != key()


def test_only_the_projection_of_links_is_part_of_the_key(config_of, tmp_path):
    config, cache = config_of(), Cache(tmp_path / "cache")
    config.model.knowledge = "typed"
    plain = corpus_of(config).key(cache)
    config.knowledge.polarity = True
    projected = corpus_of(config).key(cache)
    assert projected != plain
    assert "polarity" not in plain


# ---- mentions that end too early ----


@pytest.fixture
def read_mentions(tmp_path):
    """Reads a file of mentions of C1 in the first premises of train and of dev, which have 20 pairs
    each."""
    splits = {}
    for name in ("train", "dev"):
        pairs = [pair("heart failure", "none", uid=f"{name}{n}") for n in range(20)]
        splits[name] = Split(name, tuple(pairs))

    def read_file(**counts):
        lines = [f"{HEADER}\n"]
        for name, count in counts.items():
            lines += [f"{name}\t{name}{n}\tpremise\t0\t13\tC1\n" for n in range(count)]
        path = tmp_path / "mentions.tsv"
        path.write_text("".join(lines))
        return read_recognised(path, "best", HEART, splits, may_have_more=False)

    return read_file


def test_mentions_of_no_sentence_of_a_split_are_refused(read_mentions):
    message = r"mentions\.tsv: no mention is in dev, .*20 of 40 in train, 0 of 40 in dev"
    with pytest.raises(UserError, match=message):
        read_mentions(train=20, dev=0)


@pytest.mark.parametrize(
    "dev, warning",
    [(1, "mentions.tsv: mentions are more than 10 times rarer in dev"), (2, "")],
)
def test_mentions_that_are_much_rarer_in_a_split_are_reported(read_mentions, capsys, dev, warning):
    assert len(read_mentions(train=20, dev=dev).spans) == 20 + dev
    error = capsys.readouterr().err
    assert warning in error
    assert bool(warning) == bool(error)
