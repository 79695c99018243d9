"""Adversarial filtering (AFLite): a pair is easy if linear models that were not trained on it get it right.

Sakaguchi et al. 2020 (WinoGrande), algorithm 1, as Herlihy & Rudinger 2021 (MedNLI Is Not Immune), section 6 and A.4,
apply it to all splits of MedNLI together. The caller trains the models. Each row is a pair; pairs with equal features
stay separate rows (the published code merged them).
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mednli_jax.errors import RunError, UsageError
from mednli_jax.io import Bar, private_folder, say, write_atomic

STATE = "aflite.state.npz"
DAMAGE = (ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile)
PAPER_PAIRS, PAPER_SIZE, PAPER_CUT = 14_049, 5_620, 500
BINS = 20  # of the scores' histogram

# (features [N, D], labels [N], rows of each model's training subset [n, m]) -> (the class that each model gives to each
# row [n, N], facts of the training as JSON values).
FitPredict = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, dict]]


@dataclass(frozen=True)
class Settings:
    """Settings of the filtering.

    Args:
      m: number of pairs that each model is trained on.
      n: number of models in a round.
      k: the most pairs that a round removes.
      tau: the lowest score that is removed, 0-1.
      seed: of the subsets, and of the order among equal scores.
    """

    m: int
    n: int = 64
    k: int = PAPER_CUT
    tau: float = 0.75
    seed: int = 0


@dataclass(frozen=True)
class State:
    """The state of a filtering of N pairs.

    Args:
      removed: int32 [N], the round that removed a pair, from 1; 0 for a pair that is left.
      score: float64 [N], the score of a pair in its last round; NaN before the first.
      rounds: figures of each round, JSON values.
      ended: why there are no more rounds, "" while there are.
    """

    removed: np.ndarray
    score: np.ndarray
    rounds: tuple[dict, ...] = ()
    ended: str = ""

    @property
    def easy(self) -> np.ndarray:
        """bool [N]: removed. The others are the difficult ones."""
        return self.removed > 0


def settings(pairs: int, *, m: int | None, n: int, k: int | None, tau: float, seed: int) -> Settings:
    """The settings for a number of pairs. m and k of None are the paper's shares of its 14,049 pairs, 2/5 and 1/28.

    Raises: UsageError.
    """
    m = max(1, round(pairs * PAPER_SIZE / PAPER_PAIRS)) if m is None else m
    k = max(1, round(pairs * PAPER_CUT / PAPER_PAIRS)) if k is None else k
    ranges = {
        "m": (m, 1 <= m < pairs, f"1 to {pairs - 1:,}: of {pairs:,} pairs some must be held out"),
        "n": (n, n >= 1, "at least 1"),
        "k": (k, k >= 1, "at least 1"),
        "tau": (tau, 0 < tau <= 1, "over 0, at most 1"),
        "seed": (seed, seed >= 0, "0 or more"),
    }
    for name, (value, good, fix) in ranges.items():
        if not good:
            raise UsageError(f"--{name} is {value}. Fix: give {fix}.")
    return Settings(m, n, k, tau, seed)


def filtered(
    features: np.ndarray,
    labels: np.ndarray,
    uids: Sequence[str],
    options: Settings,
    fit_predict: FitPredict,
    *,
    folder: Path | None = None,
    resume: bool = False,
) -> State:
    """Filters a corpus, round by round, until it ends.

    A round depends on the state, the settings and its number alone, so that a resumed filtering ends as if it had never
    been interrupted.

    Args:
      features: float32 [N, D].
      labels: int [N].
      uids: of the N pairs.
      folder: where the state is kept after every round.
      resume: whether to go on from the state in the folder.

    Raises: RunError.
    """
    key = {**asdict(options), "corpus": _digest(features, labels, uids)}
    state = State(np.zeros(len(labels), np.int32), np.full(len(labels), np.nan))
    if resume:
        state = load(folder, key, len(labels))
    elif folder is not None:
        _refuse_to_replace(Path(folder) / STATE)
        private_folder(folder)
    most = -(-(len(labels) - options.m) // options.k)
    try:
        with Bar("filtering", most, unit="rounds", first=len(state.rounds)) as bar:
            while not state.ended:
                state = next_round(features, labels, options, fit_predict, state)
                if folder is not None:
                    save(folder, key, state)
                last = state.rounds[-1]
                bar.advance(1, f"{last['left']:,} pairs left, accuracy {last['accuracy']:.3f}")
    except KeyboardInterrupt:
        if folder is not None and state.rounds:
            say(f"{len(state.rounds)} rounds are kept in {folder}: continue with the same flags and --resume")
        raise
    return state


def next_round(
    features: np.ndarray, labels: np.ndarray, options: Settings, fit_predict: FitPredict, state: State
) -> State:
    """The state after one more round.

    The score of a row is the share of models that are right on it, among those not trained on it; 0 if there is none.
    Of the rows that score tau or more, the k best are removed; ties are broken at random. The filtering ends with
    a round that removes fewer than k rows, or once m rows or fewer are left.
    """
    left, number = np.flatnonzero(state.removed == 0), len(state.rounds) + 1
    rng = np.random.default_rng([options.seed, number])
    draws = (rng.choice(len(left), options.m, replace=False, shuffle=False) for _ in range(options.n))
    chosen = np.stack([np.sort(draw) for draw in draws])
    predicted, facts = fit_predict(features[left], labels[left], chosen)
    right, times = held_out(predicted, labels[left], chosen)
    score = right / np.maximum(times, 1)
    order = np.lexsort((rng.random(len(left)), -score))
    taken = order[: options.k][score[order[: options.k]] >= options.tau]
    removed, scores = state.removed.copy(), state.score.copy()
    removed[left[taken]], scores[left] = number, score
    remaining = len(left) - len(taken)
    ended = ""
    if len(taken) < options.k:
        ended = f"fewer than k = {options.k:,} pairs scored {options.tau:g} or more"
    elif remaining <= options.m:
        ended = f"no more than m = {options.m:,} pairs are left"
    row = {
        "round": number,
        "pairs": len(left),
        "removable": int((score >= options.tau).sum()),
        "removed": len(taken),
        "left": remaining,
        "accuracy": float(right.sum() / times.sum()),
        "never_held_out": int((times == 0).sum()),
        "histogram": np.histogram(score, bins=BINS, range=(0, 1))[0].tolist(),
        **facts,
    }
    return State(removed, scores, (*state.rounds, row), ended)


def held_out(predicted: np.ndarray, labels: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(number of right models [N], number of models [N]) for each row, of the models not trained on it."""
    held = np.ones(predicted.shape, bool)
    np.put_along_axis(held, chosen, False, axis=1)
    return ((predicted == labels) & held).sum(axis=0), held.sum(axis=0)


# -- the state on disk -------------------------------------------------------------------------------------------------


def save(folder: Path, key: dict, state: State) -> None:
    """Writes the state. If the process is killed during the write, the state of the previous round remains."""
    about = {"key": key, "rounds": state.rounds, "ended": state.ended}
    text = np.frombuffer(json.dumps(about, allow_nan=False).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, removed=state.removed, score=state.score, about=text)
    write_atomic(Path(folder) / STATE, buffer.getvalue())


def _read(path: Path) -> tuple[State, dict]:
    """A file's state, and the key it was made with. Raises one of DAMAGE for another file."""
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        return State(file["removed"], file["score"], tuple(about["rounds"]), about["ended"]), about["key"]


def _refuse_to_replace(path: Path) -> None:
    """Raises RunError where a filtering can still be resumed. A state that ended or is damaged may be replaced."""
    try:
        state, _ = _read(path)
    except DAMAGE:
        return
    if not state.ended:
        raise RunError(
            f"{path}: a filtering of {len(state.rounds)} rounds is not finished. Fix: continue with it by "
            "--resume, give another --out, or remove the file to start over."
        )


def state_file(folder: Path | None) -> Path:
    """The file of a folder's state. Raises: UsageError without a folder, RunError without a file."""
    if folder is None:
        raise UsageError("--resume needs the folder of the filtering. Fix: give --out=FOLDER, too.")
    path = Path(folder) / STATE
    if not path.is_file():
        raise RunError(
            f"{path}: no such file: there is no filtering to continue. Fix: name its folder, or leave --resume out."
        )
    return path


def load(folder: Path | None, key: dict, rows: int) -> State:
    """The state in a folder, which has to have this key and number of rows. Raises: RunError."""
    path = state_file(folder)
    try:
        state, made_with = _read(path)
    except DAMAGE:
        raise RunError(
            f"{path}: is no state that a filtering wrote, or is damaged. Fix: restore it, or leave --resume "
            "out to start over."
        ) from None
    changed = sorted(name for name in {*key, *made_with} if made_with.get(name) != key.get(name))
    if changed or state.removed.shape != (rows,):
        what = ", ".join("the corpus or its features" if name == "corpus" else f"--{name}" for name in changed)
        raise RunError(
            f"{path}: was begun with other values of {what}. Fix: resume with the same flags, or leave "
            "--resume out to start over."
        )
    return state


def _digest(features, labels, uids) -> str:
    digest = hashlib.sha256(json.dumps(list(uids)).encode())
    digest.update(np.ascontiguousarray(labels, np.int64))
    digest.update(np.ascontiguousarray(features, np.float32))
    return digest.hexdigest()
