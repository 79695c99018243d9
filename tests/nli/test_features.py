"""The 35 features against values worked out by hand on five pairs, and against plain Python."""

import math
import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from support.cases import cases
from support.features import IDS, PAIRS, computed, corpus, mentions, ontology
from support.files import assert_private
from support.pair_files import write_own
from support.tables import fields_of, table_rows
from support.trees import assert_near

from mednli_jax.cli import read_config
from mednli_jax.nli import boosting, features
from mednli_jax.nli.task import corpus_of

# Values worked out by hand. A value that is not a plain count shows its arithmetic.
BY_HAND = {
    # exp(1 - 7/3): 3 tokens against 7. 2 of 3 words match, 0 of 2 bigrams, 0 of 1 trigram; there is
    # no 4-gram, which counts as one.
    "bleu": [
        math.exp(1 - 7 / 3) * (2 / 3 * 0.1 / 2 * 0.1 / 1 * 0.1 / 1) ** 0.25,
        1,
        0,
        0,
        # 5 tokens against 2, so no penalty. "heart" is 1 match of 5 words; 4 bigrams, 3 trigrams
        # and 2 4-grams have none.
        (1 / 5 * 0.1 / 4 * 0.1 / 3 * 0.1 / 2) ** 0.25,
    ],
    "tokens_min": [3, 4, 2, 5, 2],
    "tokens_max": [7, 4, 3, 6, 5],
    "tokens_difference": [4, 0, 1, -1, -3],
    "tokens_ratio": [3 / 7, 1, 2 / 3, 6 / 5, 5 / 2],
    # Letters of each word: 3+7+3+2+5+4+1 and 7+6+4; 7+2+5+7; 2+5+7 and 2+6; 6+12+1+2+8 and
    # 3+3+3+5+7+1; 5+7 and 5+4+3+5+7.
    "characters_min": [17, 21, 8, 22, 12],
    "characters_max": [25, 21, 14, 29, 24],
    "characters_difference": [8, 0, 6, 7, -12],
    "characters_ratio": [17 / 25, 1, 8 / 14, 22 / 29, 2],
    # words: the patient has no chest pain | denies; history of heart failure; he takes aspirin | ct
    # normal; atrial fibrillation on warfarin | has not had heart disease; heart failure | chest
    # pain and disease
    "distinct_total": [7, 4, 5, 9, 6],
    "distinct_ratio": [3 / 6, 1, 2 / 3, 5 / 4, 5 / 2],
    # content: patient chest pain; history heart failure; takes aspirin | ct normal;
    # atrial fibrillation warfarin | heart disease; heart failure | chest pain disease
    "content_total": [3, 3, 4, 5, 5],
    "content_difference": [1, 0, 0, 1, -2],
    "content_ratio": [2 / 3, 1, 1, 2 / 3, 2],
    "common_words": [2, 4, 0, 0, 1],
    "negations_premise": [1, 0, 0, 0, 0],
    "negations_hypothesis": [1, 0, 0, 1, 0],
    "negation_one_side": [0, 0, 0, 1, 0],
    "jaccard": [1 - 2 / 7, 0, 1, 1, 1 - 1 / 6],
    # pairs of letters: th he pa at ti ie en nt ha as no ch es st ai in | de ni, 9 shared of 16 +
    # 11; all; none; ar, 1 shared of 19 + 12; he ea ar rt ai, 5 shared of 10 + 16
    "sorensen": [1 - 2 * 9 / 27, 0, 1, 1 - 2 * 1 / 31, 1 - 2 * 5 / 26],
    # patient, pain of 3 and of 2; all; none; none; heart of 2 and of 4
    "matched_words": [4 / 5, 1, 0, 0, 2 / 6],
    "same_first_word": [0, 1, 0, 0, 0],
    # sums (2, 3) and (1, 2); (4, 5) twice; (2, 0) and (0, -1); (-1, 0) and (4, 1); (3, 4) and (5,
    # 4)
    "embedding_cosine": [8 / 65**0.5, 1, 0, -4 / 17**0.5, 31 / (5 * 41**0.5)],
    "embedding_euclidean": [2**0.5, 0, 5**0.5, 26**0.5, 2],
    "embedding_manhattan": [2, 0, 3, 6, 2],
    "embedding_chebyshev": [1, 0, 2, 5, 2],
    # edges: S1-S0 1; D2-D2 0; no concept; D3-D1 1 (Z has none); S1-D2 none, D1-D2 1
    "path_nearest": [1 / 2, 1, -1, 1 / 2, 1 / 2],
    "path_mean": [1 / 2, 1, -1, 1 / 2, (0 + 1 / 2) / 2],
    "path_share": [1, 1, -1, 1, 1 / 2],
}


def column(table, name):
    return table[:, features.NAMES.index(name)]


@pytest.fixture(scope="module")
def by_name():
    """{name of a feature: its value for each of the five pairs}"""
    return dict(zip(features.NAMES, computed().T, strict=True))


@pytest.mark.parametrize("name", BY_HAND)
def test_each_feature_of_a_pair_has_the_value_worked_out_by_hand(by_name, name):
    assert_near(by_name[name], np.array(BY_HAND[name]), rtol=1e-12, atol=1e-12)


def test_negations_of_both_sides_are_not_of_one_side():
    negated = ("no pain", "no fever , no cough", "neutral")
    table = computed(corpus([negated, *PAIRS[1:]]))
    assert column(table, "negation_one_side")[0] == 0


# Terms are words and pairs of words. One that a single one of the five distinct training sentences
# has weighs RARE, and "pain", which two have, TWICE.
RARE = math.log(6 / 2) + 1
TWICE = math.log(6 / 3) + 1


@cases(
    "pair, expected",
    {
        "equal sides": (1, [1, 0, 0, 0]),
        "5 terms and 3, none in common": (2, [0, RARE * 8**0.5, 8 * RARE, RARE]),
        # heart, failure, "heart failure" | chest, pain, heart, "chest pain"
        "heart in common": (
            4,
            [
                RARE / (3 * (3 * RARE**2 + TWICE**2)) ** 0.5,
                (4 * RARE**2 + TWICE**2) ** 0.5,
                4 * RARE + TWICE,
                RARE,
            ],
        ),
    },
)
def test_distances_of_tfidf_vectors_are_those_worked_out_by_hand(by_name, pair, expected):
    measures = ("cosine", "euclidean", "manhattan", "chebyshev")

    by_measure = [by_name[f"tfidf_{measure}"][pair] for measure in measures]

    assert_near(np.array(by_measure), np.array(expected), rtol=1e-12, atol=1e-12)


def test_weights_of_tfidf_know_training_text_alone():
    """The fourth pair is not a training pair, and its words do not count."""
    rare = ("Rare words here", "Rare words there", "neutral")
    changed = computed(corpus([*PAIRS[:3], rare, PAIRS[4]]))
    unchanged = [0, 1, 2, 4]
    assert np.array_equal(computed()[unchanged], changed[unchanged])
    assert column(changed, "tfidf_cosine")[3] == 0


def plain_alignment(first, second):
    """(fewest edits, length of the longest alignment with these), by dynamic programming over
    (edits, -length)."""

    @cache
    def best(i, j):
        """Of the first i and j letters."""
        if not i or not j:
            return i + j, -(i + j)
        differ = first[i - 1] != second[j - 1]
        steps = (
            (differ, best(i - 1, j - 1)),
            (1, best(i - 1, j)),
            (1, best(i, j - 1)),
        )
        return min((edits + cost, length - 1) for cost, (edits, length) in steps)

    edits, length = best(len(first), len(second))
    return edits, -length


def test_alignments_are_those_of_plain_dynamic_programming():
    """Of those with the fewest edits the longest counts: "ab" becomes "ba" by 2 substitutions in 2
    columns, or by 2 gaps in 3 columns."""
    draw = random.Random(0)
    for _ in range(100):
        first = "".join(draw.choices("abc", k=draw.randint(0, 12)))
        second = "".join(draw.choices("abc", k=draw.randint(0, 12)))
        assert features.alignment(first, second) == plain_alignment(first, second)


def test_edit_distances_are_shares_of_the_longer_side_and_of_the_alignment(by_name):
    for row, (premise, hypothesis, _) in enumerate(PAIRS):
        edits, length = plain_alignment(premise.lower(), hypothesis.lower())
        longer_side = max(len(premise), len(hypothesis))
        of_longer_side = by_name["levenshtein_shortest"][row]
        of_alignment = by_name["levenshtein_longest"][row]
        assert of_longer_side == pytest.approx(edits / longer_side)
        assert of_alignment == pytest.approx(edits / length)


# The concepts of premises and hypotheses: D2 and its sibling D3, its grandparent D0, an unknown
# one, one of another tree, and the sibling beside the unknown one.
AROUND_D2 = mentions(
    [
        [["D2"]] * 5,
        [["D3"], ["D0"], ["Z"], ["S0"], ["D3", "Z"]],
    ]
)


@pytest.mark.parametrize("direction, sibling", [("undirected", 1 / 3), ("either", 0)])
def test_undirected_paths_alone_meet_in_a_common_parent(direction, sibling):
    nearest = column(computed(mentions=AROUND_D2, direction=direction), "path_nearest")
    np.testing.assert_allclose(nearest, [sibling, 1 / 3, 0, 0, sibling])


@pytest.mark.parametrize(
    "settings, share",
    table_rows("""
        direction="either" | 1
        direction="undirected" | 1
        max_path=1 | 0
    """),
)
def test_the_share_of_paths_is_of_ancestors_and_descendants_within_the_limit(settings, share):
    shares = column(computed(mentions=AROUND_D2, **fields_of(settings)), "path_share")
    assert shares.tolist() == [0, int(share), 0, 0, 0]


def test_a_cross_reference_is_one_concept_at_several_places():
    """CUI stands for D0 and D1. D2 is-a D1, so the distance from D2 to the nearer one is one
    edge."""
    references = ("CUI", IDS.index("D0")), ("CUI", IDS.index("D1"))
    crossed = replace(ontology(), cross_references=references)
    premises = [
        ["D2"],
        ["D2"],
        ["D2"],
        ["D2"],
        ["CUI"],
    ]
    hypotheses = [
        ["CUI"],
        ["CUI", "Z"],
        ["D2"],
        [],
        ["CUI"],
    ]

    table = computed(mentions=mentions([premises, hypotheses]), ontology=crossed)

    paths = {
        "path_nearest": [0.5, 0.5, 1, -1, 1],
        "path_mean": [0.5, 0.25, 1, -1, 1],
        "path_share": [1, 0.5, 1, -1, 1],
    }
    for name, expected in paths.items():
        assert column(table, name).tolist() == expected


def test_a_pair_with_an_empty_side_has_features():
    pairs = [
        ("", "Is well", "neutral"),
        ("Is well", "", "neutral"),
        ("", "", "neutral"),
    ]
    table = computed(corpus([*pairs, *PAIRS[3:]]))
    assert np.isfinite(table).all()
    assert not column(table, "same_first_word")[:3].any()
    assert column(table, "jaccard")[:3].tolist() == [1, 1, 0]


def test_a_corpus_of_empty_pairs_has_features():
    empty = corpus([("", "", "neutral")] * 5)

    assert np.isfinite(computed(empty)).all()


def test_hypothesis_only_features_do_not_depend_on_the_premise():
    other_premises = corpus([("something else", h, label) for _, h, label in PAIRS])
    settings = {"mentions": ([[]] * 5, mentions()[1]), "hypothesis_only": True}
    assert np.array_equal(computed(**settings), computed(other_premises, **settings))


# ---- the features of a corpus ----


@pytest.fixture
def source_of(tmp_path, monkeypatch):
    """(corpus, its prepared arrays) of three pairs, in train and dev, with these settings of
    knowledge."""
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path))
    pairs = [
        ("The patient has atrial fibrillation.", "The patient has an arrhythmia."),
        ("She takes aspirin.", "She denies chest pain."),
        ("No history of asthma.", "History of asthma."),
    ]
    write_own(tmp_path, train=pairs, dev=pairs)

    def source_with(knowledge="replace", **fields):
        config = read_config("bow:file")
        config.model.knowledge = knowledge
        config.data.dir = str(tmp_path)
        config.vectors.dim = 8
        config.knowledge.update(fields)
        source = corpus_of(config)
        return source, source.prepare()[0]

    return source_with


def test_paths_of_a_corpus_are_those_of_its_ontology(source_of):
    """Atrial fibrillation is an arrhythmia. Aspirin is far from chest pain. Asthma equals
    asthma."""
    table = boosting.features_of(*source_of(direction="undirected"))
    assert table.shape == (6, 35)
    assert np.array_equal(table[:3, :18], table[3:, :18])
    assert column(table, "path_nearest")[[0, 2]].tolist() == [0.5, 1]
    assert column(table, "path_share")[:3].tolist() == [1, 0, 1]


def test_features_of_a_corpus_are_computed_once_and_private(source_of, tmp_path, monkeypatch):
    source = source_of("none")
    table = boosting.features_of(*source)
    monkeypatch.setattr(features, "matrix", None)

    assert np.array_equal(table, boosting.features_of(*source))

    (path,) = (tmp_path / "features").glob("*.npz")
    assert_private(path.parent)
    content = path.read_bytes()
    assert not any(word in content for word in (b"aspirin", b"asthma", b"fibrillation"))


def test_a_corpus_without_knowledge_has_no_paths(source_of):
    table = boosting.features_of(*source_of("none"))

    assert (table[:, -3:] == features.NO_CONCEPT).all()


def test_the_feature_bleu_is_that_of_nltk_to_the_last_bit():
    smoothing = SmoothingFunction(epsilon=0.1).method1
    draw = random.Random(0)
    for _ in range(500):
        reference = tuple(draw.choices("abc", k=draw.randrange(9)))
        candidate = tuple(draw.choices("abc", k=draw.randrange(9)))

        expected = sentence_bleu([reference], candidate, smoothing_function=smoothing)
        assert features.bleu(reference, candidate) == expected
