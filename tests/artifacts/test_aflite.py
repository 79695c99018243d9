"""Adversarial filtering: rounds worked out by hand, and the mean-vector features that it uses."""

from functools import partial

import numpy as np
import pytest
from support.pair_files import write_own

from mednli_jax import defaults
from mednli_jax.artifacts import aflite as filtering
from mednli_jax.artifacts.aflite import Settings, State
from mednli_jax.errors import DataError, RunError, UsageError
from mednli_jax.nli.analyses import Pairs
from mednli_jax.nli.plug import corpus_of
from mednli_jax.report.options import AnalysisOptions

N = 60


def by_feature(features, labels, chosen):
    """A stand-in for the models: each predicts a row's label with the probability that the row's
    feature gives.

    The same rows and subsets always get the same predictions.
    """
    models = len(chosen)
    rng = np.random.default_rng([len(labels), int(chosen.sum())])
    right = rng.random((models, len(labels))) < features[:, 0]
    return np.where(right, labels, (labels + 1) % 3), {"passes": 7}


def corpus(rows=N, seed=0):
    """(features that tell how easy a row is, labels)."""
    rng = np.random.default_rng(seed)
    return rng.random((rows, 1)).astype(np.float32), rng.integers(0, 3, rows)


def test_a_row_at_tau_goes_and_one_below_stays():
    """Three models hold row 0 out, and two of them are right: at a tau of 2/3 the row goes, above
    it the row stays."""

    def two_of_three(features, labels, chosen):
        held = np.flatnonzero(~(chosen == 0).any(axis=1))
        predicted = np.ones((len(chosen), len(labels)), int)
        predicted[held[: len(held) * 2 // 3], 0] = 0
        return predicted, {}

    for tau, goes in ((2 / 3, True), (0.67, False)):
        options = Settings(m=1, n=3, k=1, tau=tau, seed=0)
        state = filtering.next_round(
            np.zeros((9, 1)),
            np.zeros(9, int),
            options,
            two_of_three,
            State(np.zeros(9, np.int32), np.zeros(9)),
        )
        assert (state.score[0], state.easy[0]) == (2 / 3, goes)


def test_it_ends_as_soon_as_the_pairs_left_are_no_more_than_a_model_is_trained_on():
    """Of nine pairs, all of them easy, two go in each round until exactly m = 3 are left."""

    def always_right(features, labels, chosen):
        return np.tile(labels, (len(chosen), 1)), {}

    options = Settings(m=3, n=16, k=2, tau=0.5)
    state = filtering.filtered(np.zeros((9, 1)), np.zeros(9, int), options, always_right)
    assert [row["left"] for row in state.rounds] == [7, 5, 3]
    assert "m = 3" in state.ended


def test_the_scores_are_those_of_a_plain_loop():
    """The reference is Algorithm 1 of the paper, row by row, over the subsets that the models were
    given."""
    features, labels = corpus()
    given = []

    def watched(*arrays):
        predicted, facts = by_feature(*arrays)
        given.append((arrays[2], predicted))
        return predicted, facts

    options = Settings(m=20, n=16, k=7, tau=0.6, seed=3)
    state = filtering.filtered(features, labels, options, watched)
    left, easy = list(range(N)), []
    for chosen, predicted in given:
        answers = {row: [] for row in left}
        for model, rows in enumerate(chosen):
            assert len(set(rows.tolist())) == 20
            for place, row in enumerate(left):
                if place not in rows:
                    answers[row].append(predicted[model, place] == labels[row])
        score = {row: sum(found) / len(found) if found else 0.0 for row, found in answers.items()}
        gone = [row for row in left if state.removed[row] == len(easy) + 1]
        best = sorted((s for s in score.values() if s >= 0.6), reverse=True)[:7]
        assert sorted((score[row] for row in gone), reverse=True) == pytest.approx(best)
        easy.append(gone)
        left = [row for row in left if row not in gone]
    assert len(easy) == len(state.rounds) > 2
    assert state.ended.startswith("fewer than k = 7")
    last = state.rounds[-1]
    assert (last["removed"], last["left"], sum(last["histogram"])) == (
        len(easy[-1]),
        len(left),
        last["pairs"],
    )
    assert left == np.flatnonzero(~state.easy).tolist()


def test_the_seed_and_the_number_of_the_round_decide():
    features, labels = corpus()
    drawn = []
    for seed, rounds in ((0, ()), (0, ({},)), (1, ())):
        state = State(np.zeros(N, np.int32), np.zeros(N), rounds)
        filtering.next_round(
            features,
            labels,
            Settings(20, seed=seed),
            lambda *given: drawn.append(given[2]) or by_feature(*given),
            state,
        )
    assert len({subsets.tobytes() for subsets in drawn}) == 3


def test_an_interrupted_filtering_goes_on_bit_for_bit(tmp_path):
    features, labels = corpus()
    options = Settings(m=20, n=8, k=5, tau=0.6, seed=1)
    whole, calls = filtering.filtered(features, labels, options, by_feature), []

    def stopped(*arrays):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return by_feature(*arrays)

    with pytest.raises(KeyboardInterrupt):
        filtering.filtered(features, labels, options, stopped, tmp_path)
    for changed, other in (
        (features + 1, options),
        (features, Settings(m=20, n=8, k=6, tau=0.6, seed=1)),
    ):
        with pytest.raises(RunError, match=r"aflite\.state\.npz.*--resume"):
            filtering.filtered(changed, labels, other, by_feature, tmp_path, resume=True)
    resumed = filtering.filtered(features, labels, options, by_feature, tmp_path, resume=True)
    assert len(whole.rounds) > 3
    np.testing.assert_equal(vars(resumed), vars(whole))
    again = filtering.filtered(features, labels, options, None, tmp_path, resume=True)
    np.testing.assert_equal(vars(again), vars(whole))  # a finished one needs no model


def test_the_settings_of_the_paper_and_in_proportion():
    def options(pairs, **more):
        return filtering.settings_for(pairs, AnalysisOptions(**more))

    assert options(14_049) == Settings(m=5_620, n=64, k=500, tau=0.75, seed=0)
    assert (options(4_200).m, options(4_200).k) == (1_680, 149)
    assert options(14_049, m=100, k=3) == Settings(m=100, k=3)
    with pytest.raises(UsageError, match="--m "):
        options(60, m=60)


VECTORS = np.array([[1, 0], [0, 1], [2, 2], [4, 0]], np.float32)
ROW_OF = {"brain": 0, "injury": 1, "brain_injury": 2, "no": 3}


def test_the_mean_by_hand():
    merged, separate = (
        [[("brain", "injury"), ("no",), ("now",)]],
        [[("brain",), ("injury",), ("no",), ("now",)]],
    )
    mean = partial(filtering.mean_vectors, vectors=VECTORS)
    skipped = partial(mean, unknown="skip")  # "now" has no vector
    np.testing.assert_allclose(skipped(merged, ROW_OF)[0], [[3, 1]])
    np.testing.assert_allclose(skipped(separate, ROW_OF)[0], [[5 / 3, 1 / 3]])
    without = {word: row for word, row in ROW_OF.items() if word != "brain_injury"}
    made, facts = skipped(merged, without)
    np.testing.assert_allclose(made, [[2.25, 0.25]])  # the mean of (.5, .5) and (4, 0)
    assert list(facts.values()) == [
        3,
        1,
        1,
        1,
        0,
    ]  # tokens, without vector, merged, without their own, empty texts
    dropped, facts = skipped(merged, without, lacking="drop")
    np.testing.assert_allclose(dropped, [[4, 0]])
    assert facts["without_vector"] == 2
    # As published, the mean of four vectors: (1, 0), (0, 1), (4, 0), and (0, 0) for the unknown
    # word "now".
    np.testing.assert_allclose(mean(separate, ROW_OF)[0], [[5 / 4, 1 / 4]])
    of_nothing, facts = mean([[("now",)], [], [("no",), ("no",), ("brain",)]], ROW_OF)
    np.testing.assert_allclose(
        of_nothing, [[0, 0], [0, 0], [3, 0]]
    )  # the published code gives NaN here
    assert facts["texts_without_vector"] == 2
    with pytest.raises(DataError):
        mean([[("pain",)], [("head", "ache")]], ROW_OF)


def test_features_of_a_pair_by_hand(tmp_path):
    """As published: the sum of both sides' mean vectors, over raw words; "pain." and "pain" are
    different words."""
    row = ("No pain.", "Brain injury pain", "neutral")
    write_own(tmp_path, train=[row], dev=[row])
    (tmp_path / "own.txt").write_text("no 4 0\npain 1 5\nbrain 1 0\ninjury 0 1\nbrain_injury 2 2\n")
    (tmp_path / "spans.tsv").write_text(
        "uid\tside\tstart\tend\tconcept\n"
        + "".join(f"{uid}0\thypothesis\t0\t2\tENTITY\n" for uid in ("train", "dev"))
    )
    config = defaults.nli("bow", "file")
    config.data.dir, config.vectors.path, config.vectors.dim = (
        str(tmp_path),
        str(tmp_path / "own.txt"),
        2,
    )
    pairs = Pairs(corpus_of(config), spans=tmp_path / "spans.tsv")
    hypothesis, _ = filtering.mean_features(pairs, "hypothesis")
    np.testing.assert_allclose(hypothesis[0], [2 / 3, 2])  # the mean of (1, 0), (0, 1), (1, 5)
    both, raw = filtering.mean_features(pairs, "pair")
    np.testing.assert_allclose(both[0], [2 / 3 + 4 / 2, 2])  # plus the mean of (4, 0), (0, 0)
    assert raw["without_vector"] == 2
    joined, facts = filtering.mean_features(pairs, "hypothesis", entities="parts")
    np.testing.assert_allclose(joined[0], [3 / 2, 7 / 2])  # the mean of (2, 2), (1, 5)
    assert (facts["merged"], raw["merged"], pairs.merged_by) == (2, 0, "spans.tsv")
    # The features may also be the outputs of a run on the same pairs.
    outputs = {pair.uid: np.arange(3.0) for pair in pairs.examples}
    assert filtering.run_features(pairs, "runs/own", outputs)[0].shape == (2, 3)
    del outputs["dev0"]
    with pytest.raises(RunError, match="--features=runs/own: the run knows 1"):
        filtering.run_features(pairs, "runs/own", outputs)
