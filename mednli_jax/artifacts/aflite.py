"""Adversarial filtering (AFLite): a pair is easy if linear models that were not trained on it get
it right.

Sakaguchi et al. 2020 (WinoGrande), algorithm 1, as Herlihy & Rudinger 2021 (MedNLI Is Not Immune),
section 6 and A.4, apply it to all splits of MedNLI together. The caller trains the models. Pairs
with equal features stay separate rows (the published code merged them).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.artifacts.hypotheses import classes_of
from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import NLIExample
from mednli_jax.data.text import SPECIALS, blank_tokens
from mednli_jax.data.vectors import load_vectors
from mednli_jax.errors import DataError, UsageError
from mednli_jax.nli.analyses import AnalysedPairs
from mednli_jax.nli.encode.links import Tokens, rows_in, words_and_entities
from mednli_jax.report.options import AnalysisOptions, FitPredict
from mednli_jax.report.sections import Grid, Report, Section
from mednli_jax.report.tables import corpus_fields
from mednli_jax.terminal import Bar
from mednli_jax.types import JsonObject

PAPER_PAIRS, PAPER_SIZE, PAPER_CUT = 14_049, 5_620, 500


@dataclass(frozen=True)
class FilterSettings:
    """The settings of a filtering.

    Args:
      m: pairs that each model is trained on.
      n: models in a round.
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
      removed: int32 [N], the round that removed a pair, or 0.
      rounds: figures of each round.
      ended: the reason of the end; "" while it goes on.
    """

    removed: np.ndarray
    rounds: tuple[JsonObject, ...] = ()
    ended: str = ""

    @property
    def easy(self) -> np.ndarray:
        """bool [N], whether each pair is easy; the others are difficult."""
        return self.removed > 0


class Features(NamedTuple):
    """The features of N pairs. matrix: float32 [N, D]. facts: the source of the features."""

    matrix: np.ndarray
    facts: JsonObject


def settings_for(pairs: int, options: AnalysisOptions) -> FilterSettings:
    """The settings for a number of pairs. If the options give no m or k, they are the paper's
    shares of its 14,049 pairs, 2/5 and 1/28."""
    m, k = options.m, options.k
    if m is None:
        m = max(1, round(pairs * PAPER_SIZE / PAPER_PAIRS))
    if k is None:
        k = max(1, round(pairs * PAPER_CUT / PAPER_PAIRS))
    if m >= pairs:
        fix = f"give less than {pairs:,}, the number of pairs: some must be held out"
        raise UsageError(f"--m is {m}", fix=fix)
    return FilterSettings(m, options.n, k, options.tau, options.seed)


def difficulty(pairs: AnalysedPairs, options: AnalysisOptions) -> Report:
    """Filters all splits of a corpus together, or train alone, and reports the easy and the
    difficult pairs."""
    assert options.fit_predict  # `analyze` gives it
    if options.train_only:
        train = {name: split for name, split in pairs.splits.items() if name == "train"}
        pairs = AnalysedPairs(pairs.corpus, splits=train, spans=pairs.spans)
    labels = [example.label for example in pairs.examples]
    settings = settings_for(len(labels), options)
    features = mean_features(pairs, options.input, entities=options.entities)
    classes_of(labels)  # refuses a corpus of one class
    state = filter_pairs(
        features.matrix,
        np.array(list(map(pairs.labels.index, labels))),
        settings,
        options.fit_predict(len(labels), len(pairs.labels)),
    )
    figures = {
        "input": options.input,
        "settings": asdict(settings),
        "knowledge": pairs.knowledge,
        "merged_by": pairs.merged_by,
        "features": {**features.facts, "dim": features.matrix.shape[1]},
        "pairs": len(labels),
        "easy": int(state.easy.sum()),
        "difficult": int((~state.easy).sum()),
        "ended": state.ended,
        "splits": _counts(pairs, state),
        "rounds": list(state.rounds),
    }
    notes = _notes(pairs, features.facts, state.rounds)
    sections = [_section(pairs.name, figures, pairs.labels)]
    return Report(figures, sections, _lists(pairs, state), notes=notes)


def _notes(pairs: AnalysedPairs, facts: JsonObject, rounds: Sequence[JsonObject]) -> list[str]:
    notes, corpus = [], pairs.corpus
    if corpus.encoding.retrofit_lexicon or corpus.retrofit_relations is not None:
        notes.append(
            "word vectors are taken as their file has them: config.vectors.retrofit is not applied"
        )
    if 2 * facts["without_vector"] > facts["tokens"]:
        notes.append(
            "under half of the tokens have a vector: are the vectors of the corpus's language and "
            "case?"
        )
    if count := facts["texts_without_vector"]:
        notes.append(f"{count:,} sentences have no token with a vector: their features are zero")
    if count := sum(row.get("unconverged", 0) for row in rounds):
        notes.append(f"{count:,} of the models stopped before they had converged")
    return notes


def _easy_and_difficult(
    pairs: AnalysedPairs, state: State, rows: slice
) -> Iterator[tuple[str, list[NLIExample]]]:
    """Yields ("easy" or "difficult", its examples) among some rows, in the order of the corpus."""
    examples, is_easy = pairs.examples[rows], state.easy[rows]
    yield "easy", list(compress(examples, is_easy))
    yield "difficult", list(compress(examples, ~is_easy))


def _counts(pairs: AnalysedPairs, state: State) -> JsonObject:
    """Counts the pairs of each partition: {split: {partition: {label: pairs}}}."""
    splits: dict[str, dict[str, dict[str, int]]] = {}
    for split, rows in rows_in(pairs.splits).items():
        splits[split] = {}
        for partition, examples in _easy_and_difficult(pairs, state, rows):
            counts = Counter(example.label for example in examples)
            splits[split][partition] = {label: counts[label] for label in pairs.labels}
    return splits


def _lists(pairs: AnalysedPairs, state: State) -> dict[str, bytes]:
    """The lists of uids, one a line, of the partitions of all pairs and of each split: {file name:
    content}."""
    files = {}
    for split, rows in {"": slice(None), **rows_in(pairs.splits)}.items():
        for partition, examples in _easy_and_difficult(pairs, state, rows):
            name = f"{partition}_{split}.txt" if split else f"{partition}.txt"
            files[name] = "".join(f"{example.uid}\n" for example in examples).encode()
    return files


# -- the algorithm ---------------------------------------------------------------------------------


def filter_pairs(
    features: np.ndarray,
    labels: np.ndarray,
    settings: FilterSettings,
    fit_predict: FitPredict,
) -> State:
    """Filters a corpus of features [N, D] and labels [N], round by round, until it ends."""
    state = State(np.zeros(len(labels), np.int32))
    most = math.ceil((len(labels) - settings.m) / settings.k)
    with Bar("filtering", most, noun="rounds") as bar:
        while not state.ended:
            state = next_round(features, labels, settings, fit_predict, state)
            last = state.rounds[-1]
            bar.advance(1, f"{last['left']:,} pairs left, accuracy {last['accuracy']:.3f}")
    return state


def next_round(
    features: np.ndarray,
    labels: np.ndarray,
    settings: FilterSettings,
    fit_predict: FitPredict,
    state: State,
) -> State:
    """Computes the state after one more round.

    The score of a row is the share of models that are right on it, among those not trained on it; 0
    if there is none. Among the rows that score tau or more, the k best are removed; ties are broken
    at random. The filtering ends with a round that removes fewer than k rows, or once m rows or
    fewer are left.
    """
    left, number = np.flatnonzero(state.removed == 0), len(state.rounds) + 1
    rng = np.random.default_rng([settings.seed, number])
    subsets = []
    for _ in range(settings.n):
        rows = rng.choice(len(left), settings.m, replace=False, shuffle=False)
        subsets.append(np.sort(rows))
    subset_NM = np.stack(subsets)
    predicted, facts = fit_predict(features[left], labels[left], subset_NM)
    held_out = np.ones(predicted.shape, bool)
    np.put_along_axis(held_out, subset_NM, False, axis=1)
    right = ((predicted == labels[left]) & held_out).sum(axis=0)
    times = held_out.sum(axis=0)
    score = right / np.maximum(times, 1)
    best = np.lexsort((rng.random(len(left)), -score))[: settings.k]
    taken = best[score[best] >= settings.tau]
    removed = state.removed.copy()
    removed[left[taken]] = number
    remaining = len(left) - len(taken)
    ended = ""
    if len(taken) < settings.k:
        ended = f"fewer than k = {settings.k:,} pairs scored {settings.tau:g} or more"
    elif remaining <= settings.m:
        ended = f"no more than m = {settings.m:,} pairs are left"
    row = {
        "round": number,
        "pairs": len(left),
        "removable": int((score >= settings.tau).sum()),
        "removed": len(taken),
        "left": remaining,
        "accuracy": float(right.sum() / times.sum()),
        "never_held_out": int((times == 0).sum()),
        **facts,
    }
    return State(removed, (*state.rounds, row), ended)


# -- features --------------------------------------------------------------------------------------


def mean_features(pairs: AnalysedPairs, inputs: str, *, entities: str) -> Features:
    """Computes the mean vectors of all pairs, by the word vectors of the corpus's encoding.

    Args:
      inputs: "hypothesis", or "pair", the sum of a premise's mean and its hypothesis's, as in the
        published code (X_h and X_ph of Herlihy & Rudinger 2021, section 6).
      entities: "none" takes the words of the raw sentence, between blanks, as the published code
        does; "parts" merges the tokens of an entity.
    """
    encoding = pairs.corpus.encoding
    sides = SIDES if inputs == "pair" else SIDES[1:]
    raw = entities == "none"
    texts_of = [_texts(pairs, side, raw=raw, lowercase=encoding.lowercase) for side in sides]
    distinct = set(chain.from_iterable(chain.from_iterable(texts_of)))
    words = set(map("_".join, distinct)).union(*distinct).difference(SPECIALS)
    words_V = (*SPECIALS, *sorted(words))
    vectors = load_vectors(
        encoding.vectors_path, words_V, dim=encoding.vectors_dim, seed=encoding.vectors_seed
    )
    vocabulary, matrix = vectors.vocabulary_with_vectors()
    row_of = {word: row for row, word in enumerate(vocabulary.words) if word not in SPECIALS}
    total = np.zeros((), np.float32)
    counts: Counter[str] = Counter()
    for texts in texts_of:
        means = mean_vectors(texts, row_of, matrix)
        total = total + means.matrix
        counts.update(means.facts)
    facts = {
        "vectors": vectors.file,
        "sha256": vectors.sha256,
        "entities": entities,
        **counts,
    }
    return Features(total, facts)


def _texts(pairs: AnalysedPairs, side: str, *, raw: bool, lowercase: bool) -> list[list[Tokens]]:
    """The words of each example's sentence: those of the raw sentence, or its tokens with the
    tokens of an entity merged."""
    texts = []
    for row, example in enumerate(pairs.examples):
        if raw:
            tokens, entities = blank_tokens(getattr(example, side)), []
        else:
            tokens, entities = getattr(example, f"{side}_tokens"), pairs.entities[side][row]
        if lowercase:
            tokens = tuple(map(str.lower, tokens))
        texts.append(words_and_entities(tokens, entities))
    return texts


class WordVectors(NamedTuple):
    """Vectors [U, D] of words.

    Args:
      has: bool [U], whether a word has a vector.
      whole: bool [U], whether the vector is the word's own, not that of its tokens.
    """

    matrix: np.ndarray
    has: np.ndarray
    whole: np.ndarray


def _word_vectors(
    distinct: Sequence[Tokens], row_of: Mapping[str, int], vectors: np.ndarray
) -> WordVectors:
    matrix = np.zeros((len(distinct), vectors.shape[1]), np.float32)
    has, whole = np.zeros((2, len(distinct)), bool)
    for i, word in enumerate(distinct):
        name = "_".join(word)
        whole[i] = name in row_of
        parts = (name,) if whole[i] else word
        rows = [row_of[token] for token in parts if token in row_of]
        if rows:
            matrix[i] = vectors[rows].mean(axis=0)
            has[i] = True
    return WordVectors(matrix, has, whole)


def mean_vectors(
    texts: Sequence[Sequence[Tokens]], row_of: Mapping[str, int], vectors: np.ndarray
) -> Features:
    """Computes the mean of each text's vectors [N, D], and counts.

    Words without a vector count as zeros, as in the published code. A merged entity without one has
    the mean of its words' vectors; the paper's fastText composed a vector from the characters.

    row_of: word -> its row of `vectors` [V, D]; the words of an entity are joined by underscores.
    """
    every_word = list(chain.from_iterable(texts))
    distinct = sorted(set(every_word))
    place = {word: i for i, word in enumerate(distinct)}
    matrix, has, whole = _word_vectors(distinct, row_of, vectors)
    if not has.any():
        fix = "give vectors of the corpus's language and case by config.vectors.path=FILE"
        raise DataError("no token of the corpus has a vector", fix=fix)
    flat = np.array([place[word] for word in every_word], np.int64)
    starts = np.cumsum([0, *map(len, texts)])
    shape = len(texts), len(distinct)
    counts = csr_array((has[flat].astype(np.float32), flat, starts), shape=shape)
    means = (counts @ matrix) / np.maximum(np.diff(starts), 1)[:, None]
    merged = np.array([len(word) > 1 for word in distinct])[flat]
    facts = {
        "tokens": len(flat),
        "without_vector": int((~has[flat]).sum()),
        "merged": int(merged.sum()),
        "merged_without_own_vector": int((merged & ~whole[flat]).sum()),
        "texts_without_vector": int((counts.sum(axis=1) == 0).sum()),
    }
    return Features(np.ascontiguousarray(means, np.float32), facts)


# -- for a reader ----------------------------------------------------------------------------------


def _section(name: str, figures: JsonObject, labels: Sequence[str]) -> Section:
    settings = [f"{field} = {value:,}" for field, value in figures["settings"].items()]
    words = [
        f"pairs of {', '.join(figures['splits'])}; input: {figures['input']}; "
        f"{features_text(figures['features'], figures['merged_by'])}",
        f"settings: {', '.join(settings)}",
        f"{len(figures['rounds'])} rounds; ended as {figures['ended']}",
    ]
    # The paper's settings cannot lead to the partition that it published.
    if paper := corpus_fields("artifacts", name, "partition").get(figures["input"]):
        words.append(f"the paper's published lists: {paper[0]:,} easy, {paper[1]:,} difficult")
    header = ("split", "partition", "pairs", "% of the split", *map("{}, %".format, labels))
    columns = ("round", "pairs", "accuracy held out, %", "over tau", "removed")
    grids = [
        Grid("", header, _split_rows(figures["splits"]), left=2),
        Grid("", columns, list(map(_round_cells, figures["rounds"]))),
    ]
    lead = (
        f"Of {figures['pairs']:,} pairs, {figures['easy']:,} are easy, {figures['difficult']:,} "
        "difficult"
    )
    title = f"Easy and difficult pairs, {name} (adversarial filtering)"
    return Section(title, words, grids, lead=lead)


def _split_rows(splits: JsonObject) -> list[tuple[str, ...]]:
    rows = []
    for split, counts_of in splits.items():
        total = sum(sum(counts.values()) for counts in counts_of.values())
        for partition, counts in counts_of.items():
            size = sum(counts.values())
            share = f"{100 * size / max(total, 1):.1f}"
            of_labels = (f"{100 * n / size:.1f}" if size else "-" for n in counts.values())
            rows.append((split, partition, f"{size:,}", share, *of_labels))
    return rows


def _round_cells(row: JsonObject) -> tuple[str, ...]:
    accuracy = f"{100 * row['accuracy']:.1f}"
    removable, removed = f"{row['removable']:,}", f"{row['removed']:,}"
    return str(row["round"]), f"{row['pairs']:,}", accuracy, removable, removed


def features_text(facts: JsonObject, merged_by: str) -> str:
    """A sentence on the features of a filtering and their vectors. facts: `features` of its
    figures."""
    if facts["entities"] == "none":
        text = "raw words, no entities merged"
    elif merged_by:
        text = f"{facts['merged']:,} entities merged by {merged_by}"
    else:
        text = "no entities merged"
    if lacking := facts["merged_without_own_vector"]:
        text += f", of which {lacking:,} have the mean of their words' vectors"
    unknown = f"{facts['without_vector']:,} of {facts['tokens']:,} tokens have a vector of zeros"
    means = f"means of {facts['dim']}-d word vectors ({facts['vectors']})"
    return f"features: {means}; {text}; {unknown}"
