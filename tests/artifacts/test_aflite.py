"""Adversarial filtering: rounds worked out by hand, and the features that it filters by."""

import numpy as np
import pytest
from support.cases import cases
from support.mention_files import HEADER
from support.pair_files import write_own

from mednli_jax.artifacts import aflite
from mednli_jax.artifacts.aflite import (
    FilterSettings,
    State,
    filter_pairs,
    mean_vectors,
    next_round,
)
from mednli_jax.cli import read_config
from mednli_jax.errors import DataError, UsageError
from mednli_jax.nli.analyses import AnalysedPairs
from mednli_jax.nli.task import corpus_of
from mednli_jax.report.options import AnalysisOptions

N = 60
EASE = np.random.default_rng(0).random((N, 1)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 3, N)


def by_ease(ease, labels, subset_NM):
    """A stand-in for the models: each is right on a row with the probability that is its feature.

    The same rows and subsets always get the same predictions.
    """
    rng = np.random.default_rng([len(labels), int(subset_NM.sum())])
    right = rng.random((len(subset_NM), len(labels))) < ease[:, 0]
    return np.where(right, labels, (labels + 1) % 3), {"passes": 7}


@pytest.mark.parametrize("tau, removed", [(2 / 3, True), (0.67, False)])
def test_a_pair_whose_score_is_tau_is_removed_and_one_below_stays(tau, removed):
    """Two of the three models that hold row 0 out are right on it."""

    def two_of_three(features, labels, subset_NM):
        holds_first_out = ~(subset_NM == 0).any(axis=1)
        held_out = np.flatnonzero(holds_first_out)
        right = held_out[: len(held_out) * 2 // 3]
        predicted = np.ones((len(subset_NM), len(labels)), int)
        predicted[right, 0] = 0
        return predicted, {}

    labels = np.zeros(9, np.int32)
    settings = FilterSettings(m=1, n=3, k=1, tau=tau)
    begun = State(labels)

    state = next_round(np.zeros((9, 1)), labels, settings, two_of_three, begun)

    assert state.easy[0] == removed


def test_filtering_ends_as_soon_as_no_more_pairs_are_left_than_a_model_is_trained_on():
    """Of nine pairs, all of them easy, two go in each round until exactly m = 3 are left."""

    def always_right(features, labels, subset_NM):
        return np.tile(labels, (len(subset_NM), 1)), {}

    settings = FilterSettings(m=3, n=16, k=2, tau=0.5)

    state = filter_pairs(np.zeros((9, 1)), np.zeros(9, int), settings, always_right)

    assert [row["left"] for row in state.rounds] == [7, 5, 3]
    assert "m = 3" in state.ended


def test_scores_and_removed_pairs_are_those_of_algorithm_1_in_a_plain_loop():
    """The reference is Algorithm 1 of the paper, row by row, on the subsets that were drawn."""
    calls = []

    def recorded(ease, labels, subset_NM):
        predicted, facts = by_ease(ease, labels, subset_NM)
        calls.append((subset_NM, predicted))
        return predicted, facts

    settings = FilterSettings(m=20, n=16, k=7, tau=0.6, seed=3)

    state = filter_pairs(EASE, LABELS, settings, recorded)

    left = list(range(N))
    for number, (subset_NM, predicted) in enumerate(calls, start=1):
        assert {len(set(subset)) for subset in subset_NM.tolist()} == {20}
        score = {}
        for place, row in enumerate(left):
            outside = ~(subset_NM == place).any(axis=1)
            right = predicted[outside, place] == LABELS[row]
            score[row] = right.mean() if outside.any() else 0.0
        easy = [value for value in score.values() if value >= 0.6]
        removed = [row for row in left if state.removed[row] == number]
        scores_of_removed = sorted(score[row] for row in removed)
        assert scores_of_removed == pytest.approx(sorted(easy)[-7:])
        left = [row for row in left if row not in removed]
    assert len(calls) == len(state.rounds) > 2
    assert state.ended.startswith("fewer than k = 7")
    last = state.rounds[-1]
    assert last["removed"] == len(removed)
    assert last["left"] == len(left)
    assert left == np.flatnonzero(~state.easy).tolist()


def test_other_seeds_and_rounds_draw_other_subsets():
    subsets = set()

    def recorded(ease, labels, subset_NM):
        subsets.add(subset_NM.tobytes())
        return by_ease(ease, labels, subset_NM)

    zeros = np.zeros(N, np.int32)
    first = State(zeros)
    second = State(zeros, rounds=({},))
    for seed, state in ((0, first), (0, second), (1, first)):
        next_round(EASE, LABELS, FilterSettings(20, seed=seed), recorded, state)

    assert len(subsets) == 3


SETTINGS = FilterSettings(m=20, n=8, k=5, tau=0.6, seed=1)


def test_two_filterings_with_one_seed_keep_the_same_pairs():
    first, second = (filter_pairs(EASE, LABELS, SETTINGS, by_ease) for _ in range(2))

    np.testing.assert_equal(vars(second), vars(first))
    assert 0 < first.easy.sum() < N


@cases(
    "pairs, flags, settings",
    {
        "paper": (14_049, {}, FilterSettings(m=5_620, n=64, k=500, tau=0.75, seed=0)),
        "in proportion": (4_200, {}, FilterSettings(m=1_680, k=149)),
        "chosen": (14_049, {"m": 100, "k": 3}, FilterSettings(m=100, k=3)),
    },
)
def test_settings_are_those_of_the_paper_in_proportion_to_the_pairs(pairs, flags, settings):
    assert aflite.settings_for(pairs, AnalysisOptions(**flags)) == settings


def test_a_filtering_whose_models_are_trained_on_all_pairs_is_refused():
    with pytest.raises(UsageError, match="--m "):
        aflite.settings_for(60, AnalysisOptions(m=60))


# -- features --------------------------------------------------------------------------------------

VECTORS = np.array([[1, 0], [0, 1], [2, 2], [4, 0]], np.float32)
ROW_OF = {"brain": 0, "injury": 1, "brain_injury": 2, "no": 3}
WITHOUT_MERGED = {"brain": 0, "injury": 1, "no": 3}
# A text is a list of words; a merged entity is one word of several tokens.
MERGED = [("brain", "injury"), ("no",), ("now",)]  # "now" has no vector
SEPARATE = [
    ("brain",),
    ("injury",),
    ("no",),
    ("now",),
]


@cases(
    "text, row_of, mean",
    {
        # As published, an unknown word is (0, 0).
        "merged": (MERGED, ROW_OF, [2, 2 / 3]),
        "separate": (SEPARATE, ROW_OF, [5 / 4, 1 / 4]),
        # The mean of (.5, .5), (4, 0) and (0, 0).
        "parts": (MERGED, WITHOUT_MERGED, [1.5, 0.5 / 3]),
        # The published code gives NaN.
        "empty": ([], ROW_OF, [0, 0]),
    },
)
def test_the_mean_vector_of_a_text_is_that_worked_out_by_hand(text, row_of, mean):
    no = [("no",)]

    features = mean_vectors([text, no], row_of, VECTORS)

    np.testing.assert_allclose(features.matrix, [mean, [4, 0]])


def test_tokens_without_a_vector_are_counted():
    texts = [MERGED, [("now",)], []]

    facts = mean_vectors(texts, WITHOUT_MERGED, VECTORS).facts

    assert facts["tokens"] == 4
    assert facts["without_vector"] == 2
    assert facts["texts_without_vector"] == 2


def test_a_corpus_without_a_vector_is_refused():
    with pytest.raises(DataError):
        mean_vectors([[("pain",)]], ROW_OF, VECTORS)


@pytest.fixture
def pairs(tmp_path):
    """Two pairs with spans, and vectors in which "pain." and "pain" are different words."""
    row = ("No pain.", "Brain injury pain", "neutral")
    write_own(tmp_path, train=[row], dev=[row])
    (tmp_path / "own.txt").write_text("no 4 0\npain 1 5\nbrain 1 0\ninjury 0 1\nbrain_injury 2 2\n")
    spans = f"{HEADER}\n"
    for split in ("train", "dev"):
        spans += f"{split}\t{split}0\thypothesis\t0\t12\tENTITY\n"
    (tmp_path / "spans.tsv").write_text(spans)
    config = read_config("bow:file")
    config.data.dir = str(tmp_path)
    config.vectors.path, config.vectors.dim = str(tmp_path / "own.txt"), 2
    return AnalysedPairs(corpus_of(config), spans=tmp_path / "spans.tsv")


@pytest.mark.parametrize(
    "inputs, entities, mean",
    [
        # The mean of (1, 0), (0, 1), (1, 5).
        ("hypothesis", "none", [2 / 3, 2]),
        # Plus the mean of (4, 0), (0, 0), as published.
        ("pair", "none", [2 / 3 + 4 / 2, 2]),
        # The mean of (2, 2), (1, 5).
        ("hypothesis", "parts", [3 / 2, 7 / 2]),
    ],
)
def test_the_vectors_of_a_pair_for_filtering_are_those_worked_out_by_hand(
    pairs, inputs, entities, mean
):
    features = aflite.mean_features(pairs, inputs, entities=entities)

    np.testing.assert_allclose(features.matrix[0], mean)
    assert features.facts["merged"] == (2 if entities == "parts" else 0)
    assert pairs.merged_by == "spans.tsv"
