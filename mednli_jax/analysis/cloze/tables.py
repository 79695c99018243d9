"""Table 4 of Šuster & Daelemans 2018 with our figures beside the paper's, and files with answers of any system.

Errors in a file of answers name the line (of JSON lines) or the entry (of one JSON object); they never quote it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mednli_jax.answers import QueryScores, summary
from mednli_jax.answers import rows as rows_of
from mednli_jax.corpora.cloze.corpus import CLICR, DEMO, FILE, read
from mednli_jax.errors import DataError, Problems, UserError
from mednli_jax.examples import ClozeExample, Split
from mednli_jax.files import write_atomic
from mednli_jax.metrics import mean_sd, wilson_interval
from mednli_jax.textfiles import opened

METRICS = ("exact_match", "f1", "bleu2", "bleu4", "embedding")
# Table 4, CliCR's test part; the humans answered 100 queries of the validation part (sections 4.1 and 7.1).
PAPER = {
    system: dict(zip(METRICS, figures, strict=True))
    for system, figures in {
        "rand-entity": (0.014, 0.051, 0.03, 0.01, 0.23),
        "maxfreq-entity": (0.085, 0.126, 0.10, 0.05, 0.31),
        "sim-entity": (0.208, 0.294, 0.22, 0.15, 0.45),
        "lang-model": (0.021, 0.035, 0.00, 0.00, 0.30),
        "SA-Anonym": (0.196, 0.272, 0.22, 0.16, 0.43),
        "SA-Ent": (0.061, 0.114, 0.07, 0.05, 0.31),
        "GA-Anonym": (0.245, 0.332, 0.28, 0.20, 0.48),
        "GA-Ent": (0.222, 0.302, 0.25, 0.18, 0.46),
        "GA-NoEnt": (0.149, 0.339, 0.21, 0.11, 0.51),
        "human-expert": (0.35, 0.537, 0.46, 0.23, 0.67),
        "human-novice": (0.31, 0.451, 0.43, 0.24, 0.62),
    }.items()
}
MOST_BYTES = 1 << 28


def corpus(name: str) -> dict[str, Split]:
    """Train, dev and test by name; dev and test queries tagged seen or unseen.

    name: demo_cloze (bundled), clicr (in $MEDNLI_JAX_DATA/clicr), or a folder in its layout. CliCR passages begin with
    their titles, as its published readers and baselines read them; those of a folder are the contexts alone.
    Raises: UserError, DataError.
    """
    if name == DEMO:
        return read(DEMO)
    folder = os.environ.get("MEDNLI_JAX_DATA", "") if name == CLICR else name
    if not folder:
        raise UserError(f"--corpus={CLICR}: $MEDNLI_JAX_DATA is not set. Fix: set it, or give a folder.")
    if not Path(folder).expanduser().is_dir():
        raise UserError(f"{folder}: is no folder. Fix: give --corpus={DEMO}, {CLICR}, or a FOLDER like it.")
    return read(CLICR if name == CLICR else FILE, Path(folder).expanduser())


def split_of(splits: Mapping[str, Split], name: str) -> Split:
    """Raises UserError for a split that the corpus has not."""
    if name not in splits:
        raise UserError(f"--split={name}: no such split. Fix: give one of {', '.join(splits)}.")
    return splits[name]


# -- files of answers --------------------------------------------------------------------------------------------------


def read_answers(path, examples: Iterable[ClozeExample]) -> dict[str, str]:
    """What a system answers to queries, {uid: text}.

    path: JSON lines {"uid": ..., "answer": ...}, or one JSON object {uid: text} as CliCR's own script reads; also
    gzipped. examples: the queries that may be answered; not all need be.
    Raises: DataError, or DataErrors with the first 20 faults, see the module.
    """
    path = Path(path)
    known, answers, first, problems = {example.uid for example in examples}, {}, {}, Problems()
    for where, found in _entries(path):
        if not isinstance(found, DataError):
            found = _fault(path, where, *found, known, first) or found
        if isinstance(found, DataError):
            problems.add(found)
        else:
            first[found[0]] = where
            answers[found[0]] = found[1]
    problems.raise_if_any()
    if not answers:
        raise DataError("holds no answers", file=path.name, fix=_FORMS)
    return answers


_FORMS = 'write lines {"uid": "...", "answer": "..."}, or one JSON object {"<uid>": "<answer>"}'


def _fault_at(path, where, problem, fix):
    """A fault at a line ("17") or an entry ("entry 17")."""
    if isinstance(where, int):
        return DataError(problem, file=path.name, line=where, fix=fix)
    return DataError(f"{where}: {problem}", file=path.name, fix=fix)


def _fault(path, where, uid, answer, known, first):
    """What is wrong with an answer; None where nothing is."""
    for name, value in (("uid", uid), ("answer", answer)):
        if not isinstance(value, str):
            return _fault_at(path, where, f"{name} is not text", "write it in quotes")
    if uid in first:
        place = f"line {first[uid]}" if isinstance(first[uid], int) else first[uid]
        return _fault_at(path, where, f"uid repeats that of {place}", "keep one answer a query")
    if uid not in known:
        fix = "score the split it belongs to: --corpus and --split"
        return _fault_at(path, where, "uid is that of no query of this split", fix)
    return None


def _entries(path) -> Iterator[tuple[int | str, tuple | DataError]]:
    """(line or entry, (uid, answer)), or a fault in its place."""
    text = _text(path)
    head = next((line for line in text.split("\n") if line.strip()), "")
    try:
        lines = ".jsonl" in path.suffixes or "uid" in json.loads(head)
    except (ValueError, TypeError, RecursionError):
        lines = False
    yield from _lines(path, text) if lines else _object(path, text)


def _lines(path, text):
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            yield number, _fault_at(path, number, "the line is not valid JSON", _FORMS)
            continue
        if isinstance(row, dict) and {"uid", "answer"} <= row.keys():
            yield number, (row["uid"], row["answer"])
        else:
            problem = "the line is no JSON object with uid and answer"
            yield number, _fault_at(path, number, problem, _FORMS)


def _object(path, text):
    try:
        # Pairs, because a dict would hide that a uid stands there twice; arrays stay lists.
        pairs = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        raise DataError("is neither a JSON object nor JSON lines", file=path.name, fix=_FORMS) from None
    if not isinstance(pairs, tuple):
        raise DataError("holds no JSON object", file=path.name, fix=_FORMS)
    for number, pair in enumerate(pairs, start=1):
        yield f"entry {number}", pair


def _text(path):
    with opened(path) as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        problem = f"cannot be read (more than {MOST_BYTES >> 20} MB)"
        raise DataError(problem, file=path.name, fix="give the answers alone")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError("is not valid UTF-8", file=path.name, fix="save the file as UTF-8") from None


def write_answers(path: Path, answers: Mapping[str, str]) -> None:
    """Writes {uid: text} as JSON lines that `read_answers` reads, for its owner alone. Raises: RunError."""
    rows = (json.dumps({"uid": uid, "answer": text}, ensure_ascii=False) for uid, text in answers.items())
    write_atomic(path, "".join(row + "\n" for row in rows))


# -- tables ------------------------------------------------------------------------------------------------------------


def lines(name: str, scores: dict) -> Iterator[str]:
    """Text for `answers.score`: the figures of all queries, then of each slice. name: what was scored on what."""
    low, high = wilson_interval(round(scores["exact_match"] * scores["queries"]), scores["queries"])
    yield f"{name}: {scores['queries']:,} queries, {scores['missing']:,} without an answer"
    yield f"exact match {100 * scores['exact_match']:.1f} (95 % interval {100 * low:.1f}-{100 * high:.1f})"
    if scores["embedding"] is None:
        yield "no embedding score: it needs word vectors, --vectors=FILE"
    width = max([12, *(len(name) for named in scores["slices"].values() for name in named)]) + 2
    yield f"{'':{width}}{'queries':>8}{'EM':>7}{'F1':>7}{'BLEU-2':>8}{'BLEU-4':>8}{'Emb':>7}{'words':>7}{'missing':>9}"
    yield _line("all", scores, width)
    for family, named in scores["slices"].items():
        yield family
        for slice_name, found in named.items():
            yield _line(f"  {slice_name}", found, width)


def _line(name, found, width):
    figures = f"{found['queries']:>8,}{100 * found['exact_match']:>7.1f}{100 * found['f1']:>7.1f}"
    figures += f"{found['bleu2']:>8.2f}{found['bleu4']:>8.2f}{_number(found['embedding'], '.2f'):>7}"
    return f"{name:{width}}{figures}{_number(found['predicted_length'], '.1f'):>7}{found['missing']:>9,}"


def run_lines(name: str, scores: dict) -> Iterator[str]:
    """Text for the scores of a run's seeds (tasks.cloze): all queries, then slices; means over the seeds, and the
    deviation of exact match where there are several. name: what was scored on what."""
    exact, queries = scores["accuracy"], scores["examples"]
    low, high = wilson_interval(round(exact["mean"] * queries), queries)
    missing = f"{scores['missing']['mean']:,.1f}".removesuffix(".0")
    yield f"{name}: {queries:,} queries, {missing} without an answer"
    sd = f"sd {100 * exact['sd']:.1f}; " if len(exact["per_seed"]) > 1 else ""  # of one seed it says nothing
    yield f"exact match {100 * exact['mean']:.1f} ({sd}95 % interval of one run {100 * low:.1f}-{100 * high:.1f})"
    yield f"{scores['in_passage']:,} queries have their answer among the candidates; loss {scores['loss']['mean']:.4f}"
    if scores["embedding"] is None:
        yield "no embedding score: it needs word vectors, --vectors=FILE"
    families = scores["families"]
    if "slices" in scores:
        families = {"tag": scores["slices"], **families}
    width = max([12, *(len(name) for named in families.values() for name in named)]) + 4
    yield f"{'':{width}}{'queries':>8}{'EM':>7}{'sd':>6}{'F1':>7}{'BLEU-2':>8}{'BLEU-4':>8}{'Emb':>7}"
    rest = "".join(
        f"{_number(scores[metric] and scores[metric]['mean'], '.2f'):>{size}}"
        for metric, size in (("bleu2", 8), ("bleu4", 8), ("embedding", 7))
    )
    yield _run_line("all", scores, width) + rest
    for family, named in families.items():
        yield family
        for slice_name, found in named.items():
            yield _run_line(f"  {slice_name}", found, width)


def _run_line(name, found, width):
    exact, f1 = found["accuracy"], found["f1"]
    sd = f"{100 * exact['sd']:.1f}" if len(exact["per_seed"]) > 1 else "-"
    return f"{name:{width}}{found['examples']:>8,}{100 * exact['mean']:>7.1f}{sd:>6}{100 * f1['mean']:>7.1f}"


def seed_scores(each: Sequence[QueryScores], places: Sequence[int] | slice = slice(None)) -> dict:
    """Exact match (as accuracy) and F1 of the queries at `places`, mean_sd over the seeds, with how many there are."""
    found = [summary(scores, places) for scores in each]
    exact, f1 = (mean_sd([scores[name] for scores in found]) for name in ("exact_match", "f1"))
    return {"examples": found[0]["queries"], "accuracy": exact, "f1": f1}


def mean_rows(each: Sequence[QueryScores]) -> list[dict]:
    """One object per query, means over the seeds: see answers.rows."""
    seeds = [rows_of(scores) for scores in each]
    named = [name for name in seeds[0][0] if name != "uid"]
    return [
        {"uid": of[0]["uid"], **{name: sum(row[name] for row in of) / len(of) for name in named}}
        for of in zip(*seeds, strict=True)
    ]


def _number(value, form):
    return "-" if value is None else format(value, form)


def markdown(rows: Sequence[tuple[str, dict]], *, paper: bool = True) -> Iterator[str]:
    """Table 4 in Markdown: systems with their `answers.summary`, or a part of it, each beside the paper's figures.

    paper: then those rows of the paper, humans included, that are not among the systems. EM and F1 are in points.
    """
    yield "| system | EM | F1 | BLEU-2 | BLEU-4 | Emb | words | paper: EM | F1 | BLEU-2 | BLEU-4 | Emb |"
    yield "| --- " * 12 + "|"
    for system, found in rows:
        yield _row(system, found, PAPER.get(system, {}))
    if paper:
        ours = {system for system, _ in rows}
        yield from (_row(system, {}, figures) for system, figures in PAPER.items() if system not in ours)


def _row(system, found, paper):
    length = found.get("predicted_length")
    cells = [*_cells(found), "" if length is None else f"{length:.1f}", *_cells(paper)]
    return f"| {system} | " + " | ".join(cells) + " |"


def _cells(found):
    """The five scores as the paper prints them; empty where there is none."""
    for metric in METRICS:
        value = found.get(metric)
        points = metric in ("exact_match", "f1")
        yield "" if value is None else f"{100 * value:.1f}" if points else f"{value:.2f}"
