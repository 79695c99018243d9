"""Adversarial filtering (AFLite): a pair is easy if linear models that were not trained on it get
it right.

Sakaguchi et al. 2020 (WinoGrande), algorithm 1, as Herlihy & Rudinger 2021 (MedNLI Is Not Immune),
section 6 and A.4, apply it to all splits of MedNLI together. The caller trains the models. Pairs
with equal features stay separate rows (the published code merged them).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.artifacts.hypotheses import classes_of
from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import LABELS
from mednli_jax.data.text import SPECIALS, blank_tokens
from mednli_jax.data.vectors import load_vectors
from mednli_jax.errors import DataError, RunError, UsageError
from mednli_jax.files import atomic_file, private_folder
from mednli_jax.nli.analyses import Pairs
from mednli_jax.nli.encoding import Tokens, rows_in, units
from mednli_jax.report.options import AnalysisOptions, FitPredict
from mednli_jax.report.sections import Grid, Report, Section
from mednli_jax.report.tables import of_corpus
from mednli_jax.terminal import Bar

STATE = "aflite.state.npz"
PAPER_PAIRS, PAPER_SIZE, PAPER_CUT = 14_049, 5_620, 500
BINS = 20
PARTS = ("easy", "difficult")


@dataclass(frozen=True)
class Settings:
    """The settings of a filtering."""

    m: int  # pairs that each model is trained on
    n: int = 64  # models in a round
    k: int = PAPER_CUT  # the most pairs that a round removes
    tau: float = 0.75  # the lowest score that is removed, 0-1
    seed: int = 0  # of the subsets, and of the order among equal scores


@dataclass(frozen=True)
class State:
    """The state of a filtering of N pairs."""

    removed: np.ndarray  # int32 [N], the round that removed a pair, or 0
    score: np.ndarray  # float64 [N], in a pair's last round
    rounds: tuple[dict, ...] = ()  # figures of each round, JSON values
    ended: str = ""  # the reason, "" while it goes on

    @property
    def easy(self) -> np.ndarray:
        """bool [N]; the others are difficult."""
        return self.removed > 0


def settings(
    pairs: int, *, m: int | None, n: int, k: int | None, tau: float, seed: int
) -> Settings:
    """The settings for a number of pairs. m and k of None are the paper's shares of its 14,049
    pairs, 2/5 and 1/28."""
    m = max(1, round(pairs * PAPER_SIZE / PAPER_PAIRS)) if m is None else m
    k = max(1, round(pairs * PAPER_CUT / PAPER_PAIRS)) if k is None else k
    if m >= pairs:
        raise UsageError(
            f"--m is {m}",
            fix=f"give less than {pairs:,}, the number of pairs: some must be held out",
        )
    return Settings(m, n, k, tau, seed)


def difficulty(pairs: Pairs, options: AnalysisOptions) -> Report:
    """Filters all splits of a corpus together."""
    if options.resume and not options.out:
        raise UsageError("--resume needs the folder of the filtering", fix="give --out=FOLDER, too")
    labels = [example.label for example in pairs.examples]
    chosen = settings(
        len(labels), m=options.m, n=options.n, k=options.k, tau=options.tau, seed=options.seed
    )
    if run := options.features:
        inputs, (matrix, facts) = "run", run_features(pairs, run, options.outputs(run))
    else:
        inputs = options.input
        matrix, facts = mean_features(
            pairs, inputs, entities=options.entities, unknown=options.unknown
        )
    classes_of(labels)
    numbers = np.array([LABELS.index(label) for label in labels])
    state = filtered(
        matrix,
        numbers,
        chosen,
        options.fit_predict(len(labels)),
        options.out,
        resume=options.resume,
    )
    splits, files = _parted(pairs, state)
    rounds = list(state.rounds)
    given = {
        "input": inputs,
        "settings": asdict(chosen),
        "knowledge": pairs.knowledge,
        "merged_by": pairs.merged_by,
        "features": {**facts, "dim": matrix.shape[1]},
        "pairs": len(labels),
        "easy": int(state.easy.sum()),
        "difficult": int((~state.easy).sum()),
        "ended": state.ended,
        "splits": splits,
        "rounds": rounds,
    }
    notes, encoding = [], pairs.corpus.encoding
    if (encoding.retrofit_lexicon or pairs.corpus.retrofit_relations is not None) and facts[
        "kind"
    ] == "mean vectors":
        notes.append(
            "word vectors are taken as their file has them: config.vectors.retrofit is not applied"
        )
    if 2 * facts.get("without_vector", 0) > facts.get("tokens", 0):
        notes.append(
            "under half of the tokens have a vector: are the vectors of the corpus's language and case?"
        )
    if count := facts.get("texts_without_vector"):
        notes.append(f"{count:,} sentences have no token with a vector: their features are zero")
    if count := sum(row.get("unconverged", 0) for row in rounds):
        notes.append(f"{count:,} of the models stopped before they had converged")
    return Report(given, [_section(pairs.name, given)], files, notes=notes)


def _parted(pairs, state) -> tuple[dict, dict[str, bytes]]:
    """({split: {"easy" or "difficult": {label: pairs}}}, {file name: uids, one a line, in the order
    of the corpus})."""
    splits, files = {}, {}
    for name, rows in {"": slice(None), **rows_in(pairs.splits)}.items():
        examples, easy = pairs.examples[rows], state.easy[rows]
        for part in PARTS:
            own = [
                pair
                for pair, is_easy in zip(examples, easy, strict=True)
                if is_easy == (part == "easy")
            ]
            files[f"{part}_{name}.txt" if name else f"{part}.txt"] = "".join(
                f"{pair.uid}\n" for pair in own
            ).encode()
            counts = {label: sum(pair.label == label for pair in own) for label in LABELS}
            splits.setdefault(name, {})[part] = counts
    del splits[""]
    return splits, files


def filtered(
    features: np.ndarray,
    labels: np.ndarray,
    options: Settings,
    fit_predict: FitPredict,
    folder: Path | None = None,
    *,
    resume: bool = False,
) -> State:
    """Filters a corpus of features [N, D] and labels [N], round by round, until it ends.

    A round depends only on the state, the settings and its number, so that a resumed filtering ends
    like a whole one. folder: the state is written there after each round. resume: start from the
    state in the folder.
    """
    digest = hashlib.sha256(np.ascontiguousarray(features))
    digest.update(np.ascontiguousarray(labels, np.int64))
    key = json.dumps({**asdict(options), "corpus": digest.hexdigest()})
    path = private_folder(Path(folder)) / STATE if folder else None
    state = State(np.zeros(len(labels), np.int32), np.full(len(labels), np.nan))
    if resume:
        state = _kept(path, key)
    most = -(-(len(labels) - options.m) // options.k)
    with Bar("filtering", most, unit="rounds", first=len(state.rounds)) as bar:
        while not state.ended:
            state = next_round(features, labels, options, fit_predict, state)
            if path:
                about = json.dumps({"rounds": state.rounds, "ended": state.ended})
                with atomic_file(path) as file:
                    np.savez(file, key=key, removed=state.removed, score=state.score, about=about)
            last = state.rounds[-1]
            bar.advance(1, f"{last['left']:,} pairs left, accuracy {last['accuracy']:.3f}")
    return state


def _kept(path, key) -> State:
    try:
        with np.load(path, allow_pickle=False) as file:
            known, about = file["key"].item(), json.loads(file["about"].item())
            state = State(file["removed"], file["score"], tuple(about["rounds"]), about["ended"])
    except Exception:  # NumPy and zipfile raise many types of errors for a damaged file
        known = None
    if known != key:
        fix = "give the flags and the --out of the interrupted filtering, or leave --resume out to start over"
        raise RunError(f"{path}: no filtering with these settings was interrupted here", fix=fix)
    return state


def next_round(
    features: np.ndarray,
    labels: np.ndarray,
    options: Settings,
    fit_predict: FitPredict,
    state: State,
) -> State:
    """The state after one more round.

    The score of a row is the share of models that are right on it, among those not trained on it; 0
    if there is none. Of the rows that score tau or more, the k best are removed; ties are broken at
    random. The filtering ends with a round that removes fewer than k rows, or once m rows or fewer
    are left.
    """
    left, number = np.flatnonzero(state.removed == 0), len(state.rounds) + 1
    rng = np.random.default_rng([options.seed, number])
    draws = (
        rng.choice(len(left), options.m, replace=False, shuffle=False) for _ in range(options.n)
    )
    chosen = np.stack([np.sort(draw) for draw in draws])
    predicted, facts = fit_predict(features[left], labels[left], chosen)
    held_out = np.ones(predicted.shape, bool)
    np.put_along_axis(held_out, chosen, False, axis=1)
    right, times = ((predicted == labels[left]) & held_out).sum(axis=0), held_out.sum(axis=0)
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


def mean_features(
    pairs, inputs: str, *, entities: str = "none", unknown: str = "zero"
) -> tuple[np.ndarray, dict]:
    """Mean vectors of all pairs, by the word vectors of the corpus's encoding: (float32 [N, D],
    facts).

    Args:
      inputs: "hypothesis", or "pair", the sum of a premise's mean and its hypothesis's, as in the published code (X_h
        and X_ph of Herlihy & Rudinger 2021, section 6).
      entities: "none" takes the words of the raw sentence, between blanks, as the published code does; else the tokens
        of an entity are merged, see `lacking` of mean_vectors.
      unknown: see mean_vectors.
    """
    encoding, raw, found = pairs.corpus.encoding, entities == "none", []
    for side in SIDES if inputs == "pair" else SIDES[1:]:
        merged = [()] * len(pairs.examples) if raw else pairs.entities[side]
        found.append([])
        for example, mentions in zip(pairs.examples, merged, strict=True):
            tokens = (
                blank_tokens(getattr(example, side)) if raw else getattr(example, f"{side}_tokens")
            )
            tokens = [token.lower() for token in tokens] if encoding.lowercase else tokens
            found[-1].append(units(tokens, mentions))
    distinct = {unit for side in found for text in side for unit in text}
    words = set(map("_".join, distinct)).union(*distinct)
    words = (*SPECIALS, *sorted(words - set(SPECIALS)))
    vectors = load_vectors(
        encoding.vectors_path, words, dim=encoding.vectors_dim, seed=encoding.vectors_seed
    )
    vocabulary, matrix = vectors.covered()
    row_of = {word: row for row, word in enumerate(vocabulary.words) if word not in SPECIALS}
    made = [mean_vectors(side, row_of, matrix, lacking=entities, unknown=unknown) for side in found]
    facts = {
        "kind": "mean vectors",
        "vectors": vectors.file,
        "sha256": vectors.sha256,
        "entities": entities,
    }
    counts = {name: sum(facts[name] for _, facts in made) for name in made[0][1]}
    return sum(means for means, _ in made), {**facts, "unknown": unknown, **counts}


def run_features(pairs, run: str, outputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict]:
    """A finished run's logits as features. outputs: uid -> the logits [S * C] of its seeds.

    The run is more certain on its training pairs, which therefore look easier than others.
    """
    if lacking := sum(example.uid not in outputs for example in pairs.examples):
        known, every = len(pairs.examples) - lacking, len(pairs.examples)
        problem = f"--features={run}: the run knows {known:,} of the corpus's {every:,} pairs"
        raise RunError(problem, fix="give a run trained on this corpus")
    matrix = np.stack([outputs[example.uid] for example in pairs.examples]).astype(np.float32)
    return matrix, {"kind": "logits of a run", "run": Path(run).name}


def mean_vectors(
    found: Sequence[Sequence[Tokens]],
    row_of: Mapping[str, int],
    vectors: np.ndarray,
    *,
    lacking: str = "parts",
    unknown: str = "zero",
) -> tuple[np.ndarray, dict]:
    """(the mean of each text's vectors [N, D], counts); a text without any vector is zero.

    Args:
      row_of: word -> its row of `vectors` [V, D]; the words of an entity are joined by underscores.
      lacking: what a merged entity without a vector has: the mean of its words' vectors ("parts"), or none ("drop").
        The paper's fastText composed a vector from the characters, as a .bin model does here.
      unknown: the mean is over all units, those without a vector having one of zeros ("zero", as the published code
        has it), or over the units that have one ("skip").
    """
    distinct = sorted({unit for text in found for unit in text})
    place = {unit: i for i, unit in enumerate(distinct)}
    matrix = np.zeros((len(distinct), vectors.shape[1]), np.float32)
    has, whole = np.zeros(len(distinct), bool), np.zeros(len(distinct), bool)
    for i, unit in enumerate(distinct):
        name = "_".join(unit)
        whole[i] = name in row_of
        rows = [row_of[name]] if whole[i] else []
        if not rows and len(unit) > 1 and lacking == "parts":
            rows = [row_of[token] for token in unit if token in row_of]
        if rows:
            matrix[i], has[i] = vectors[rows].mean(axis=0), True
    if not has.any():
        fix = "give vectors of the corpus's language and case by --config.vectors.path=FILE"
        raise DataError("no token of the corpus has a vector", fix=fix)
    numbers = [[place[unit] for unit in text] for text in found]
    starts = np.cumsum([0, *map(len, numbers)])
    flat = np.array([number for text in numbers for number in text], np.int64)
    counts = csr_array(
        (has[flat].astype(np.float32), flat, starts), shape=(len(found), len(distinct))
    )
    used = counts.sum(axis=1)
    means = (counts @ matrix) / np.maximum(used if unknown == "skip" else np.diff(starts), 1)[
        :, None
    ]
    merged = np.array([len(unit) > 1 for unit in distinct])[flat]
    facts = {
        "tokens": len(flat),
        "without_vector": int((~has[flat]).sum()),
        "merged": int(merged.sum()),
        "merged_without_own_vector": int((merged & ~whole[flat]).sum()),
        "texts_without_vector": int((used == 0).sum()),
    }
    return np.ascontiguousarray(means, np.float32), facts


def _section(name, given) -> Section:
    chosen, facts = given["settings"], given["features"]
    words = [
        f"{given['pairs']:,} pairs of {', '.join(given['splits'])}: {given['easy']:,} easy, {given['difficult']:,} "
        f"difficult; input: {given['input']}; {features_text(facts, given['merged_by'])}",
        "settings: " + ", ".join(f"{name} = {value:,}" for name, value in chosen.items()),
        f"{len(given['rounds'])} rounds; ended as {given['ended']}",
    ]
    # The paper's settings cannot lead to the partition that it published.
    if paper := of_corpus("artifacts", name, "partition").get(given["input"]):
        words.append(f"the paper's published lists: {paper[0]:,} easy, {paper[1]:,} difficult")
    header = ("split", "part", "pairs", "% of the split", *(f"{label}, %" for label in LABELS))
    rows = []
    for split, found in given["splits"].items():
        size = {part: sum(counts.values()) for part, counts in found.items()}
        for part, counts in found.items():
            shares = [
                f"{100 * count / size[part]:.1f}" if size[part] else "-"
                for count in counts.values()
            ]
            share = f"{100 * size[part] / max(sum(size.values()), 1):.1f}"
            rows.append((split, part, f"{size[part]:,}", share, *shares))
    rounds = [
        (
            str(r["round"]),
            f"{r['pairs']:,}",
            f"{100 * r['accuracy']:.1f}",
            f"{r['removable']:,}",
            f"{r['removed']:,}",
        )
        for r in given["rounds"]
    ]
    columns = ("round", "pairs", "accuracy held out, %", "over tau", "removed")
    grids = [Grid("", header, rows, left=2), Grid("", columns, rounds)]
    return Section(f"Easy and difficult pairs, {name} (adversarial filtering)", words, grids)


def features_text(facts: Mapping, merged_by: str) -> str:
    """The features of a filtering and their vectors, for a reader. facts: `features` of its
    figures."""
    if facts["kind"] != "mean vectors":
        return f"features: logits of the run {facts['run']}, {facts['dim']} a pair"
    text = "raw words, no entities merged"
    if facts["entities"] != "none":
        text = (
            f"{facts['merged']:,} entities merged by {merged_by}"
            if merged_by
            else "no entities merged"
        )
    if lacking := facts["merged_without_own_vector"]:
        without = {"parts": "have the mean of their words'", "drop": "count as unknown"}[
            facts["entities"]
        ]
        text += f", of which {lacking:,} have no vector of their own and {without}"
    without = {"zero": "have a vector of zeros", "skip": "are left out"}[facts["unknown"]]
    text += (
        f"; {facts['without_vector']:,} of {facts['tokens']:,} tokens without a vector {without}"
    )
    return f"features: means of {facts['dim']}-d word vectors ({facts['vectors']}); {text}"
