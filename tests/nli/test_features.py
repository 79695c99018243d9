"""The 35 features against values worked out by hand on five pairs, and against nltk and plain
Python elsewhere."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from support.features import IDS, PAIRS, computed, corpus, mentions, ontology
from support.pair_files import write_own

from mednli_jax import defaults
from mednli_jax.errors import UserError
from mednli_jax.nli import boosting, features
from mednli_jax.nli.plug import corpus_of

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


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
    np.testing.assert_allclose(column(computed(), name), BY_HAND[name], rtol=1e-12, atol=1e-12)


def test_tfidf_by_hand():
    """Terms are words and pairs of words. One that a single one of the five distinct training
    sentences has weighs w = ln(6/2) + 1, "pain", which two have, v = ln(6/3) + 1."""
    names = [f"tfidf_{measure}" for measure in ("cosine", "euclidean", "manhattan", "chebyshev")]
    found = np.stack([column(computed(), name) for name in names], axis=1)
    w, v = math.log(3) + 1, math.log(2) + 1
    np.testing.assert_allclose(found[1], [1, 0, 0, 0], atol=1e-12)  # both sides are equal
    np.testing.assert_allclose(
        found[2], [0, w * 8**0.5, 8 * w, w], rtol=1e-12
    )  # 5 terms and 3, none in common
    # heart, failure, "heart failure" | chest, pain, heart, "chest pain"
    by_hand = w / (3 * (3 * w**2 + v**2)) ** 0.5, (4 * w**2 + v**2) ** 0.5, 4 * w + v, w
    np.testing.assert_allclose(found[4], by_hand, rtol=1e-12)


def test_tfidf_knows_training_text_alone():
    other = [*PAIRS[:3], ("Rare words here", "Rare words there", "neutral"), PAIRS[4]]
    table, changed = computed(), computed(corpus(other))
    assert np.array_equal(table[:3], changed[:3])
    assert np.array_equal(table[4], changed[4])
    assert (
        column(changed, "tfidf_cosine")[3] == 0
    )  # words that do not occur in training do not count


def plain_alignment(first, second):
    """(fewest edits, length of the longest alignment with these), by dynamic programming over
    (edits, -length)."""
    row = [(j, -j) for j in range(len(second) + 1)]
    for i, a in enumerate(first, 1):
        above, row = row, [(i, -i)]
        for j, b in enumerate(second, 1):
            ways = (above[j - 1], a != b), (above[j], 1), (row[j - 1], 1)
            row.append(min((edits + cost, length - 1) for (edits, length), cost in ways))
    return row[-1][0], -row[-1][1]


def test_edit_distances_by_plain_dynamic_programming():
    # "ab" becomes "ba" by 2 substitutions in 2 columns, or by 2 gaps in 3 columns.
    assert features.alignment("ab", "ba") == (2, 3)
    for row, (premise, hypothesis, _) in enumerate(PAIRS):
        edits, longest = plain_alignment(premise.lower(), hypothesis.lower())
        most = max(len(premise), len(hypothesis))
        assert column(computed(), "levenshtein_shortest")[row] == pytest.approx(edits / most)
        assert column(computed(), "levenshtein_longest")[row] == pytest.approx(edits / longest)
    draw = random.Random(0)
    for _ in range(100):
        first, second = ("".join(draw.choices("abc", k=draw.randint(0, 12))) for _ in range(2))
        assert features.alignment(first, second) == plain_alignment(first, second), (first, second)


def test_paths_follow_the_direction_and_the_limit():
    said = mentions([[["D2"]] * 5, [["D3"], ["D0"], ["Z"], ["S0"], ["D3", "Z"]]])
    found = column(computed(mentions=said), "path_nearest")
    np.testing.assert_allclose(
        found, [1 / 3, 1 / 3, 0, 0, 1 / 3]
    )  # siblings meet in D1, 2 edges apart
    either = computed(mentions=said, direction="either")
    np.testing.assert_allclose(column(either, "path_nearest"), [0, 1 / 3, 0, 0, 0])
    for table in (either, computed(mentions=said)):  # a sibling is neither ancestor nor descendant
        assert column(table, "path_share").tolist() == [0, 1, 0, 0, 0]
    assert not column(computed(mentions=said, max_path=1), "path_share").any()


def test_a_cross_reference_is_one_concept_at_several_places():
    """CUI stands for D0 and D1. D2 is-a D1, so the distance from D2 to the nearer one is one
    edge."""
    known = replace(
        ontology(), cross_references=tuple(("CUI", IDS.index(name)) for name in ("D0", "D1"))
    )
    said = mentions([[["D2"]] * 4 + [["CUI"]], [["CUI"], ["CUI", "Z"], ["D2"], [], ["CUI"]]])
    table = computed(mentions=said, ontology=known)
    assert column(table, "path_nearest").tolist() == [1 / 2, 1 / 2, 1, -1, 1]
    assert column(table, "path_mean").tolist() == [1 / 2, 1 / 4, 1, -1, 1]
    assert column(table, "path_share").tolist() == [1, 1 / 2, 1, -1, 1]


def test_without_an_ontology_and_with_one_side_empty():
    empty = [[]] * 5
    table = computed(mentions=(empty, empty), ontology=None)
    assert (table[:, -3:] == features.NO_CONCEPT).all()
    pairs = [
        ("", "Is well", "neutral"),
        ("Is well", "", "neutral"),
        ("", "", "neutral"),
        *PAIRS[3:],
    ]
    table = computed(corpus(pairs))
    assert np.isfinite(table).all()
    assert not column(table, "same_first_word")[
        :3
    ].any()  # a side without words shares no first word
    assert column(table, "jaccard")[:3].tolist() == [1, 1, 0]
    assert np.isfinite(computed(corpus([("", "", "neutral")] * 5))).all()


def test_hypothesis_only_sees_no_premise():
    other = corpus([("something else entirely", h, label) for _, h, label in PAIRS])
    settings = {"mentions": ([[]] * 5, mentions()[1]), "hypothesis_only": True}
    assert np.array_equal(computed(**settings), computed(other, **settings))


def rule(rows=240, seed=0):
    """(features, labels); the first feature gives the label."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, rows)
    table = rng.normal(size=(rows, 35))
    table[:, 0] = label + rng.normal(0, 0.2, rows)
    return table, label


def test_boosting_learns_a_rule_and_says_which_feature():
    table, label = rule()
    calls = []
    told, importance, _ = boosting.fit_predict(
        table, label, slice(0, 180), (0, 1), trees=20, on_tree=lambda: calls.append(1)
    )
    assert told.shape == (2, 240, 3)
    np.testing.assert_allclose(told.sum(axis=-1), 1)
    assert (told[:, 180:].argmax(axis=-1) == label[180:]).mean() > 0.9
    assert len(calls) == 40  # one call for each round of each seed
    np.testing.assert_allclose(importance.sum(axis=1), 1)
    table = boosting.importance_table(importance)
    assert table["features"][0]["name"] == "bleu"
    assert table["features"][0]["mean"] == pytest.approx(importance[:, 0].mean())
    assert table["groups"]["bleu"] > 0.8
    assert sum(table["groups"].values()) == pytest.approx(1)
    assert len(boosting.importance_lines(table)) == 37


def test_unlabelled_rows_are_not_trained_on_and_a_missing_class_is_never_predicted():
    table, label = rule()
    hidden = np.where(label == 1, -1, label)
    told, *_ = boosting.fit_predict(table, hidden, slice(0, 180), (0,), trees=5)
    assert not told[..., 1].any()
    same, *_ = boosting.fit_predict(table, label, np.flatnonzero(hidden[:180] >= 0), (0,), trees=5)
    assert np.array_equal(told, same)
    with pytest.raises(UserError, match=r".*Fix:"):  # a single label
        boosting.fit_predict(table, np.zeros_like(label), slice(0, 30), (0,))


@pytest.mark.parametrize("labels", [(0, 1, 2), (0, 2), (1, 2)])
def test_trees_stored_as_json_predict_as_scikit_learns(labels):
    rng = np.random.default_rng(0)
    others = len(labels) - 1
    table, label = (
        rng.normal(size=(200, 6)),
        rng.choice(labels, 200, p=[0.6, *[0.4 / others] * others]),
    )
    table[::7] = table[0]  # these values lie on thresholds
    model = GradientBoostingClassifier(n_estimators=15, subsample=0.7, random_state=1).fit(
        table, label
    )
    found = boosting.probabilities(json.loads(json.dumps(boosting.of_model(model))), table, 3)
    np.testing.assert_allclose(found[:, list(labels)], model.predict_proba(table), atol=1e-12)
    assert found.sum(axis=1) == pytest.approx(1)


@pytest.fixture(scope="module")
def own_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    said = [
        ("The patient has atrial fibrillation.", "The patient has an arrhythmia.", "entailment"),
        ("She takes aspirin.", "She denies chest pain.", "neutral"),
        ("No history of asthma.", "History of asthma.", "contradiction"),
    ]
    write_own(folder, train=said, dev=said)
    return folder


@pytest.fixture
def source_of(own_files, tmp_path, monkeypatch):
    """(corpus, its prepared arrays) with these settings of knowledge."""
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path))

    def call(knowledge="replace", **fields):
        config = defaults.nli("bow", "file", knowledge=knowledge)
        config.data.dir, config.vectors.dim = str(own_files), 8
        config.knowledge.update(fields)
        source = corpus_of(config)
        return source, source.prepare()[0]

    return call


def test_features_of_a_corpus_are_kept(source_of, tmp_path, monkeypatch):
    source, prepared = source_of(direction="undirected")
    table = boosting.load(source, prepared)
    assert table.shape == (6, 35)
    assert np.array_equal(table[:3, :18], table[3:, :18])
    # Atrial fibrillation is an arrhythmia. Aspirin is far from chest pain. Asthma equals asthma.
    assert column(table, "path_nearest")[[0, 2]].tolist() == [0.5, 1]
    assert column(table, "path_share")[:3].tolist() == [1, 0, 1]
    with monkeypatch.context() as patch:
        patch.setattr(features, "matrix", None)  # the stored table must be used
        assert np.array_equal(table, boosting.load(source, prepared))
    (path,) = (tmp_path / "features").glob("*.npz")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not [
        word for word in (b"aspirin", b"asthma", b"fibrillation") if word in path.read_bytes()
    ]


def test_concepts_are_those_of_the_config_none_or_a_files(source_of, tmp_path):
    table = boosting.load(*source_of("none"))
    assert (table[:, -3:] == features.NO_CONCEPT).all()
    uids = [e.uid for split in source_of("none")[0].splits().values() for e in split.examples]
    rows = [f"{uid}\t{side}\t0\t1\tD001249" for uid in uids for side in ("premise", "hypothesis")]
    (tmp_path / "mentions.tsv").write_text(
        "\n".join(["uid\tside\tstart\tend\tconcept", *rows]) + "\n"
    )
    table = boosting.load(*source_of(mentions=str(tmp_path / "mentions.tsv")))
    # the concept file puts asthma on both sides, whatever the sentences say
    assert column(table, "path_nearest").tolist() == [1] * 6
