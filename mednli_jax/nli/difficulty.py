"""Easy and difficult pairs of a corpus by adversarial filtering, as figures, sections, pictures and lists of ids.

Herlihy & Rudinger 2021 (MedNLI Is Not Immune), section 6. The lists may be published, as the paper's: ids are no text.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.examples import LABELS, NLIExample
from mednli_jax.data.text import SPECIALS
from mednli_jax.data.vectors import load_vectors
from mednli_jax.errors import RunError
from mednli_jax.nli import aflite as filtering
from mednli_jax.nli import lexical, mean_vectors
from mednli_jax.nli.aflite import FitPredict, State
from mednli_jax.nli.subject import Finding, Subject
from mednli_jax.report import charts
from mednli_jax.report.sections import Grid, Section
from mednli_jax.report.tables import of_corpus

PARTS = ("easy", "difficult")


def mean_features(
    subject: Subject, inputs: str, *, entities: str = "none", unknown: str = "zero"
) -> mean_vectors.Features:
    """Mean vectors of all pairs, by the word vectors of the corpus's encoding.

    inputs: "hypothesis", or "pair", the sum of a premise's mean and its hypothesis's, as in the published code (X_h and
    X_ph of Herlihy & Rudinger 2021, section 6). entities: "none" takes the words of the raw text; else the tokens of an
    entity are merged where the subject has any, see mean_vectors.mean_vectors. unknown: see there.
    """
    encoding = subject.corpus.encoding
    found = {}
    for side in SIDES if inputs == "pair" else ("hypothesis",):
        mentions = None if entities == "none" else subject.entities(side)
        found[side] = mean_vectors.texts(subject.examples, side, mentions, lowercase=encoding.lowercase)
    of_texts = mean_vectors.words_of(text for texts in found.values() for text in texts)
    words = (*SPECIALS, *(word for word in of_texts if word not in SPECIALS))
    vectors = load_vectors(encoding.vectors_path, words, dim=encoding.vectors_dim, seed=encoding.vectors_seed)
    vocabulary, matrix = vectors.known()
    row_of = {word: row for row, word in enumerate(vocabulary.words) if word not in SPECIALS}
    how = {"lacking": entities, "unknown": unknown}
    made = [mean_vectors.mean_vectors(texts, row_of, matrix, **how) for texts in found.values()]
    facts = {"kind": "mean vectors", "vectors": vectors.source, "sha256": vectors.sha256, "entities": entities}
    counts = {name: sum(part.facts[name] for part in made) for name in made[0].facts}
    return mean_vectors.Features(sum(part.matrix for part in made), {**facts, "unknown": unknown, **counts})


def run_features(subject: Subject, run: str, outputs: Mapping[str, np.ndarray]) -> mean_vectors.Features:
    """A finished run's logits as features. outputs: uid -> the logits [S * C] of its seeds.

    The run is more certain on its training split, so that these pairs look easier than those of dev and test.
    Sakaguchi et al. trained their models on pairs that they then discarded.
    Raises: RunError.
    """
    lacking = sum(example.uid not in outputs for example in subject.examples)
    if lacking:
        raise RunError(
            f"--features={run}: the run knows {len(subject.examples) - lacking:,} of the corpus's "
            f"{len(subject.examples):,} pairs. Fix: give a run trained on this corpus."
        )
    matrix = np.stack([outputs[example.uid] for example in subject.examples]).astype(np.float32)
    return mean_vectors.Features(matrix, {"kind": "logits of a run", "run": Path(run).name})


def difficulty(
    subject: Subject,
    features: mean_vectors.Features,
    settings: filtering.Settings,
    fit_predict: FitPredict,
    *,
    inputs: str,
    folder: Path | None = None,
    resume: bool = False,
) -> Finding:
    """Filters all splits of the corpus together. Raises: DataError where there is one class only."""
    labels = [example.label for example in subject.examples]
    lexical.classes_of(labels)
    uids, number = [example.uid for example in subject.examples], np.array([LABELS.index(label) for label in labels])
    state = filtering.filtered(features.matrix, number, uids, settings, fit_predict, folder=folder, resume=resume)
    given = {
        "input": inputs,
        "settings": asdict(settings),
        "knowledge": subject.knowledge,
        "merged_by": subject.merged_by,
        "features": {**features.facts, "dim": features.matrix.shape[1]},
        "pairs": len(labels),
        "easy": int(state.easy.sum()),
        "difficult": int((~state.easy).sum()),
        "ended": state.ended,
        "splits": _by_split(subject, state),
        "rounds": list(state.rounds),
    }
    drawn = {"aflite.png": charts.filtering(given["rounds"], given["settings"], subject.name), **_lists(subject, state)}
    return Finding(given, [_section(subject.name, given)], drawn, _notes(subject, features.facts, given))


def _by_split(subject, state) -> dict:
    """{split: {"easy" or "difficult": {label: pairs}}}."""
    result = {}
    for name, examples, easy in _parts(subject, state):
        counts = Counter((bool(is_easy), pair.label) for is_easy, pair in zip(easy, examples, strict=True))
        result[name] = {part: {label: counts[part == "easy", label] for label in LABELS} for part in PARTS}
    return result


def _lists(subject, state) -> dict[str, bytes]:
    """{file name: uids, one a line, in the order of the corpus}: of all pairs, and of each split."""
    result = {}
    for name, examples, easy in [("", subject.examples, state.easy), *_parts(subject, state)]:
        for part in PARTS:
            uids = [pair.uid for is_easy, pair in zip(easy, examples, strict=True) if is_easy == (part == "easy")]
            result[f"{part}_{name}.txt" if name else f"{part}.txt"] = "".join(f"{uid}\n" for uid in uids).encode()
    return result


def _parts(subject, state: State) -> Iterator[tuple[str, Sequence[NLIExample], np.ndarray]]:
    """(split, its pairs, which of them are easy)."""
    first = 0
    for name, split in subject.splits.items():
        yield name, split.examples, state.easy[first : first + len(split)]
        first += len(split)


def _notes(subject, facts, given) -> list[str]:
    notes = []
    corpus = subject.corpus
    retrofitted = corpus.encoding.retrofit_lexicon or corpus.retrofit_relations is not None
    if retrofitted and facts["kind"] == "mean vectors":
        notes.append("word vectors are taken as their file has them: config.vectors.retrofit is not applied")
    if count := facts.get("texts_without_vector"):
        notes.append(f"{count:,} sentences have no token with a vector: their features are zero")
    if count := sum(row.get("unconverged", 0) for row in given["rounds"]):
        notes.append(f"{count:,} of the models stopped before they had converged")
    return notes


# -- for a reader ------------------------------------------------------------------------------------------------------


def _section(name, given) -> Section:
    chosen, facts = given["settings"], given["features"]
    words = [
        f"{given['pairs']:,} pairs of {', '.join(given['splits'])}: {given['easy']:,} easy, {given['difficult']:,} "
        f"difficult; input: {given['input']}; {_features(facts, given['merged_by'])}",
        f"a round: n = {chosen['n']} models, each trained on m = {chosen['m']:,} pairs; removed are the "
        f"k = {chosen['k']:,} pairs, or fewer, that most of the models which hold them out have right, "
        f"{100 * chosen['tau']:g} % or more of these; among equals the draw of seed {chosen['seed']} decides",
        f"{len(given['rounds'])} rounds; ended as {given['ended']}",
    ]
    # The paper's settings cannot lead to the partition that it published.
    if paper := of_corpus("artifacts", name, "partition").get(given["input"]):
        words.append(f"the paper's published lists: {paper[0]:,} easy, {paper[1]:,} difficult")
    header = ("split", "part", "pairs", "% of the split", *(f"{label}, %" for label in LABELS))
    rows = [row for split, found in given["splits"].items() for row in _split_rows(split, found)]
    rounds = [
        (str(r["round"]), f"{r['pairs']:,}", f"{100 * r['accuracy']:.1f}", f"{r['removable']:,}", f"{r['removed']:,}")
        for r in given["rounds"]
    ]
    columns = ("round", "pairs", "accuracy held out, %", "over tau", "removed")
    left = {"pairs left": [(r["round"], r["left"]) for r in given["rounds"]]}
    accuracy = {"accuracy": [(r["round"], 100 * r["accuracy"]) for r in given["rounds"]]}
    drawn = [
        ("Pairs left after each round", charts.curves(left, title="Pairs left", x="round", y="pairs")),
        ("Accuracy of the models on pairs held out", charts.curves(accuracy, title="Accuracy", x="round", y="%")),
    ]
    grids = [Grid("", header, rows, left=2), Grid("", columns, rounds)]
    return Section(f"Easy and difficult pairs, {name} (adversarial filtering)", words, grids, drawn)


def _features(facts, merged_by):
    if facts["kind"] != "mean vectors":
        return f"features: logits of the run {facts['run']}, {facts['dim']} a pair"
    text = "raw words, no entities merged"
    if facts["entities"] != "none":
        text = f"{facts['merged']:,} entities merged by {merged_by}" if merged_by else "no entities merged"
    if lacking := facts["merged_without_own_vector"]:
        without = {"parts": "have the mean of their words'", "drop": "count as unknown"}[facts["entities"]]
        text += f", of which {lacking:,} have no vector of their own and {without}"
    without = {"zero": "have a vector of zeros", "skip": "are left out"}[facts["unknown"]]
    text += f"; {facts['without_vector']:,} of {facts['tokens']:,} tokens without a vector {without}"
    return f"features: means of {facts['dim']}-d word vectors ({facts['vectors']}); {text}"


def _split_rows(split, found) -> Iterator[tuple[str, ...]]:
    size = {part: sum(counts.values()) for part, counts in found.items()}
    for part, counts in found.items():
        shares = [f"{100 * count / size[part]:.1f}" if size[part] else "-" for count in counts.values()]
        yield (split, part, f"{size[part]:,}", f"{100 * size[part] / max(sum(size.values()), 1):.1f}", *shares)
