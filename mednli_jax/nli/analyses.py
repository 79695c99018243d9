"""The analyses of a corpus by name. Each takes a Subject and the options of the command, and returns a Finding."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.cloze import stats as cloze_statistics
from mednli_jax.cloze.encoding import corpus_named
from mednli_jax.data.examples import LABELS
from mednli_jax.errors import UsageError, UserError
from mednli_jax.knowledge.ontology import induced
from mednli_jax.knowledge.relations import kinds_in_pairs, kinds_of
from mednli_jax.nli import aflite as filtering
from mednli_jax.nli import corpus_stats, difficulty, findings, substitutions
from mednli_jax.nli.encoding import units_of
from mednli_jax.nli.subject import Finding, Subject


@dataclass(frozen=True)
class Options:
    """Options of the analyses.

    Args:
      top: lexical: tokens of each class.
      smoothing: lexical: the number that is added to each count.
      min_count: lexical: the least number of occurrences of a token.
      stop_words: lexical: whether stop words and punctuation are kept.
      lengths: lengths: "all" splits, or "train".
      input: aflite: the features describe the "hypothesis" or the "pair".
      m, n, k, tau, seed: aflite: see filtering.settings.
      entities: aflite: "none" merges no entities; else the vector of a merged entity without one: the mean of its
        "parts", or none ("drop").
      unknown: aflite: "zero" vectors for words without one, or "skip".
      features: aflite: the folder of a finished run whose logits are the features, None for mean word vectors.
      resume: aflite: whether to continue the interrupted filtering in the folder.
      count: substitutions: the most pairs of each category.
      folder: where results and the state of aflite are kept, None for nowhere.
      outputs: folder of a run -> {uid: logits [S * C]}.
      fit_predict: number of pairs -> the function that trains the models of aflite.
    """

    top: int
    smoothing: float
    min_count: int
    stop_words: bool
    lengths: str
    input: str
    m: int | None
    n: int
    k: int | None
    tau: float
    seed: int
    entities: str
    unknown: str
    features: str | None
    resume: bool
    count: int
    folder: Path | None
    outputs: Callable[[str], Mapping]
    fit_predict: Callable[[int], filtering.FitPredict]


def stats(subject: Subject, options: Options) -> Finding:
    """Sizes, lengths, labels and words."""
    figures = corpus_stats.statistics(subject.splits)
    return Finding(figures, [corpus_stats.section(subject.name, figures)])


def paths(subject: Subject, options: Options) -> Finding:
    """Path lengths and types of relations between the concepts of premises and hypotheses."""
    subject.needs_knowledge("paths")
    corpus, ontology = subject.corpus, subject.corpus.ontology
    choice = {name: getattr(corpus.encoding, name) for name in ("direction", "max_path", "graph")}
    sides = subject.mentions("premise"), subject.mentions("hypothesis")
    graph = induced(ontology, subject.graph_concepts()) if choice["graph"] == "mentioned" else ontology

    def distances(pairs):
        return corpus.paths(graph, pairs, direction=choice["direction"], max_length=choice["max_path"])

    finder = subject.finder
    # Paths of a word with several senses start at its most frequent one.
    indices = (lambda concept: finder.indices(concept)[:1]) if corpus.linking.lemmas else finder.indices
    found = corpus_stats.path_statistics(subject.examples, *sides, ontology, distances, indices)
    figures = {"ontology": ontology.name, "version": ontology.version, **choice, **found}
    unit_of, named = units_of(subject.examples, finder, corpus.encoding), corpus.encoding.relations or ()
    bits = kinds_in_pairs(graph, *sides, unit_of, named=named, max_length=choice["max_path"])
    figures["classes"] = {name: n for name in LABELS if (n := sum(e.label == name for e in subject.examples))}
    figures["relations"] = corpus_stats.relation_statistics(subject.examples, bits, kinds_of(named))
    chart = corpus_stats.path_chart(subject.name, figures)
    drawn = {"paths.png": chart.png()} if chart else {}
    sections = [corpus_stats.path_section(subject.name, figures), corpus_stats.relation_section(figures)]
    return Finding(figures, sections, drawn)


def lexical(subject: Subject, options: Options) -> Finding:
    """Tokens that reveal the class."""
    if not math.isfinite(options.smoothing):
        raise UsageError("--smoothing is not a finite number. Fix: give 0 or more.")
    names = ("smoothing", "min_count", "stop_words")
    return findings.tokens(subject, k=options.top, **{name: getattr(options, name) for name in names})


def aflite(subject: Subject, options: Options) -> Finding:
    """Easy and difficult pairs by adversarial filtering."""
    pairs, run = len(subject.examples), options.features
    numbers = {name: getattr(options, name) for name in ("m", "n", "k", "tau", "seed")}
    settings = filtering.settings(pairs, **numbers)
    if run and (options.input, options.entities, options.unknown) != ("hypothesis", "none", "zero"):
        problem = "--features takes those of a run, but --input, --entities and --unknown only apply to mean vectors"
        raise UsageError(f"{problem}. Fix: leave them out.")
    if options.resume:
        filtering.state_file(options.folder)
    if run:
        features = difficulty.run_features(subject, run, options.outputs(run))
    else:
        how = {"entities": options.entities, "unknown": options.unknown}
        features = difficulty.mean_features(subject, options.input, **how)
    how = {"inputs": "run" if run else options.input, "folder": options.folder, "resume": options.resume}
    return difficulty.difficulty(subject, features, settings, options.fit_predict(pairs), **how)


ANALYSES = {
    "stats": stats,
    "paths": paths,
    "lexical": lexical,
    "lengths": lambda subject, options: findings.lengths(subject, options.lengths),
    "heuristics": lambda subject, options: findings.heuristic(subject),
    "aflite": aflite,
}
ALONE = {  # analyses that `all` leaves out, because they make a new corpus
    "substitutions": lambda subject, options: substitutions.substitutions(
        subject, count=options.count, seed=options.seed
    ),
}


def each_of(names: Sequence[str], subject: Subject, options: Options) -> Iterator[tuple[str, Finding | UserError]]:
    """(name, finding) of each of these analyses, or its error. Raises: UserError for a corpus that cannot be read."""
    subject.splits  # noqa: B018 - read first, so that a faulty corpus is reported once
    for name in names:
        try:
            yield name, (ANALYSES | ALONE)[name](subject, options)
        except UserError as error:
            yield name, error


def cloze_stats(corpus: str, skills: Path | None, scores: Sequence[Path]) -> Finding:
    """Statistics of a corpus of cloze queries, and of the skills that the queries need.

    corpus: demo_cloze, clicr or a folder. skills: a file of the queries' skills, None for none. scores: files with the
    F1 of queries, one for each system. Raises: UserError, DataError(s) for what is missing or damaged.
    """
    named = cloze_statistics.read_skills(skills) if skills else {}
    f1 = {file.stem: cloze_statistics.read_scores(file) for file in scores}
    splits = corpus_named(corpus)
    figures = cloze_statistics.statistics(splits)
    sections, drawn = [cloze_statistics.section(corpus, figures)], cloze_statistics.drawn(corpus, figures)
    if skills:
        examples = [example for split in splits.values() for example in split.examples]
        figures["skills"] = cloze_statistics.skill_statistics(named, examples, f1)
        sections.append(cloze_statistics.skill_section(figures["skills"]))
        drawn |= cloze_statistics.skill_charts(corpus, figures["skills"])
    notes = sorted({split.facts["note"] for split in splits.values() if "note" in split.facts})
    return Finding(figures, sections, drawn, notes)
