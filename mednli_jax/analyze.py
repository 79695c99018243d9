"""`python -m mednli_jax.analyze`: what a corpus looks like, and what its annotators left in it."""

import json
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from absl import flags

from mednli_jax import cli, defaults
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS

USAGE = f"""Analyse a corpus.

  python -m mednli_jax.analyze all --corpus=demo --out=figures
  python -m mednli_jax.analyze stats --config=configs/bow.py
  python -m mednli_jax.analyze paths --config=configs/esim_kd.py:mednli --config.knowledge.ontology=umls --out=figures

  stats        sizes, lengths, labels and words (Table 2 of the MedNLI paper)
  paths        path lengths between the concepts of premises and hypotheses (its Figure 3), by any ontology
  lexical      tokens that give classes away, by PMI (Table 3 of Herlihy & Rudinger)
  lengths      length of hypotheses by class (Table 4)
  heuristics   hypernym, probable cause, everything is fine: pairs that satisfy them (Table 5)
  aflite       easy and difficult pairs by adversarial filtering (section 6), as lists for evaluate --partition
  all          all of them, on one page
  cloze-stats  of --corpus=demo_cloze|clicr|FOLDER (Tables 2 and 3, Figures 2-5 of CliCR): --skills=FILE --scores=FILES

  --corpus=NAME|FILE|FOLDER    demo, demo_full, mednli, snli, ... or pairs of your own: linked by MeSH, whole sentences
{cli.CONFIG_HELP}
  --top=15 --smoothing=50 --min_count=5     of lexical: tokens of a class, what is added to counts, occurrences at least
  --public                     leave out tokens that fewer than 10 premises have; of a corpus that is not open no
                               token is shown without it, but kept in DIR/private
  --input=hypothesis|pair --m=5620 --n=64 --k=500 --tau=.75 --seed=0     of aflite: m pairs train each of n models, k
                               leave in a round; those are for MedNLI's 14,049 pairs, others in proportion
  --entities=parts|drop        of aflite: a merged entity without a vector of its own has its words', or none
  --features=RUN               of aflite: the logits of a finished run on the corpus in place of mean word vectors
  --resume                     go on with the aflite that was interrupted in DIR
  --out=DIR                    write ANALYSIS.json, pictures, lists and report.html there, over those of the same name
  --json                       the figures as one JSON object"""


def define(values: cli.Flags) -> str | None:
    cli.define_config(values)
    cli.define_corpus(values)
    flags.DEFINE_integer("top", 15, "tokens of each class", lower_bound=1, flag_values=values)
    flags.DEFINE_float("smoothing", 50.0, "added to each count", lower_bound=0.0, flag_values=values)
    flags.DEFINE_integer("min_count", 5, "occurrences of a token, at least", lower_bound=1, flag_values=values)
    flags.DEFINE_bool("public", False, "leave out tokens that few premises have", flag_values=values)
    flags.DEFINE_enum("input", "hypothesis", ("hypothesis", "pair"), "what is filtered by", flag_values=values)
    flags.DEFINE_integer("m", None, "pairs that train a model", flag_values=values)
    flags.DEFINE_integer("n", 64, "models of a round", flag_values=values)
    flags.DEFINE_integer("k", None, "pairs that leave in a round, at most", flag_values=values)
    flags.DEFINE_float("tau", 0.75, "lowest score that leaves", flag_values=values)
    flags.DEFINE_integer("seed", 0, "of subsets and draws", flag_values=values)
    flags.DEFINE_enum("entities", "parts", ("parts", "drop"), "entities without a vector", flag_values=values)
    flags.DEFINE_string("features", None, "a finished run", flag_values=values)
    flags.DEFINE_bool("resume", False, "go on with a filtering", flag_values=values)
    flags.DEFINE_string("skills", None, "skills of cloze queries, uid TAB skill", flag_values=values)
    flags.DEFINE_list("scores", [], "F1 of cloze queries, a file for each system", flag_values=values)
    flags.DEFINE_string("out", None, "folder for data and pictures", flag_values=values)
    flags.DEFINE_bool("json", False, "print JSON", flag_values=values)
    return None if CLOZE in sys.argv else __file__  # a corpus of cloze queries is no variant of a config


def get_config(variant="demo"):
    """The config of --corpus: no model is run; whole sentences, whose concepts are linked by MeSH."""
    config = defaults.nli("esim", variant, knowledge="replace")
    config.data.max_length = (1 << 15) - 1
    return config


# -- analyses: a Subject and the flags -> a Finding --------------------------------------------------------------------


def stats(subject, values):
    from mednli_jax.analysis import corpus_stats as corpus
    from mednli_jax.analysis.artifacts.findings import findings as artifacts
    from mednli_jax.analysis.subject import Finding

    figures = corpus.statistics(subject.splits)
    section = artifacts.corpus_section(subject.name, figures)
    return Finding(figures, [section], lines=corpus.table(subject.name, figures))


def paths(subject, values):
    subject.needs_knowledge("paths")
    from mednli_jax.analysis import figures as pictures
    from mednli_jax.analysis import html
    from mednli_jax.analysis import paths as analysis
    from mednli_jax.analysis.subject import Finding

    source, knowledge = subject.source, subject.config.knowledge
    ontology = source.ontology

    def distances(pairs):
        return source.paths(ontology, pairs, direction=knowledge.direction, max_length=knowledge.max_path)

    sides = subject.mentions("premise"), subject.mentions("hypothesis")
    found = analysis.path_statistics(subject.examples, *sides, ontology, distances)
    about = {"ontology": ontology.name, "version": ontology.version}
    lengths = [key for key in analysis.ordered_keys(found) if key.isdigit()]
    counts = [found["occurrences"].get(key, 0) for key in lengths]
    drawn = pictures.bars(
        {"concept pairs": counts}, lengths, title=f"{subject.name}, {subject.knowledge}",
        x="edges on the shortest path", y="pairs of concepts in premise and hypothesis",
    )  # fmt: skip
    about |= {"direction": knowledge.direction, "max_path": knowledge.max_path}
    figures = {**about, **found}
    section = html.path_lengths_section(subject.name, figures)
    return Finding(
        figures, [section], {"paths.png": drawn}, lines=analysis.table(subject.name, subject.knowledge, found)
    )


def lexical(subject, values):
    from mednli_jax.analysis.artifacts.findings import findings as artifacts

    if not math.isfinite(values.smoothing):
        raise UserError("E-USE-021 --smoothing is no finite number. Fix: give 0 or more.")
    return artifacts.tokens(subject, k=values.top, smoothing=values.smoothing, min_count=values.min_count)


def lengths(subject, values):
    from mednli_jax.analysis.artifacts.findings import findings as artifacts

    return artifacts.lengths(subject)


def heuristics(subject, values):
    from mednli_jax.analysis.artifacts.findings import findings as artifacts

    return artifacts.heuristic(subject)


def aflite(subject, values):
    from mednli_jax.analysis.artifacts import difficulty, filtering

    pairs, folder = len(subject.examples), Path(values.out).expanduser() if values.out else None
    wish = filtering.settings(pairs, m=values.m, n=values.n, k=values.k, tau=values.tau, seed=values.seed)
    if values.features and (values.input != "hypothesis" or values.entities != "parts"):
        raise UserError(
            "E-USE-022 --features are those of a run; --input and --entities shape mean vectors. Fix: leave them out."
        )
    if values.resume:
        filtering.state_file(folder)
    from mednli_jax import experiment, trained
    from mednli_jax.training import logistic

    if values.features:
        outputs = trained.load_run(values.features).outputs()
        features = difficulty.run_features(subject, values.features, outputs)
    else:
        features = difficulty.mean_features(subject, values.input, values.entities)
    experiment.use_compile_cache()
    models = partial(logistic.fit_predict, room=pairs, classes=len(LABELS))  # one program for all rounds
    how = {"inputs": "run" if values.features else values.input, "folder": folder, "resume": values.resume}
    return difficulty.difficulty(subject, features, wish, models, **how)


CLOZE = "cloze-stats"
ANALYSES = {
    "stats": stats,
    "paths": paths,
    "lexical": lexical,
    "lengths": lengths,
    "heuristics": heuristics,
    "aflite": aflite,
}


# -- the door ----------------------------------------------------------------------------------------------------------


def main(values: cli.Flags, analysis: str = "") -> int:
    """Of `all`, what one analysis cannot do is told and the others are done; the exit code tells that one failed."""
    if analysis == CLOZE:
        cloze(values)
        return cli.OK
    if analysis not in (*ANALYSES, "all"):
        known = ", ".join((*ANALYSES, "all", CLOZE))
        raise UserError(f"E-USE-007 unknown analysis '{analysis}'. Known: {known}. Fix: analyze stats --config=FILE")
    from mednli_jax.analysis.subject import Finding

    subject, whole = read(values), analysis == "all"
    findings, results, status = {}, {}, cli.OK
    subject.splits  # noqa: B018 - a corpus that cannot be read is told once, not by every analysis
    for name in ANALYSES if whole else [analysis]:
        try:
            finding = findings[name] = ANALYSES[name](subject, values)
        except UserError as error:
            if not whole:
                raise
            print(error, file=sys.stderr)
            findings[name], status = Finding({}, notes=[f"{name} is missing: {error}"]), cli.USAGE
            continue
        results[name] = {"corpus": subject.name, "notes": [*subject.notes, *finding.notes], **finding.figures}
        if not values.json:
            show(finding, end="\n\n" if whole else "\n")
        if values.out:
            write(Path(values.out).expanduser(), name, finding, results[name])
    if values.json:
        print(json.dumps(results if whole else results[analysis], indent=2))
    elif subject.notes:
        print("\n".join(subject.notes))
    if values.out:
        write_page(Path(values.out).expanduser(), subject, list(findings.values()))
    return status


def cloze(values: cli.Flags) -> None:
    """cloze-stats: what a corpus of cloze queries looks like, and the skills that they need."""
    from mednli_jax.analysis.cloze import skills as cloze_skills
    from mednli_jax.analysis.cloze import stats as cloze_stats
    from mednli_jax.analysis.cloze import tables as cloze_tables
    from mednli_jax.analysis.subject import Finding

    name = cli.required(values, "corpus", "--corpus=demo_cloze, clicr or a folder")
    if values.config is not None or (values.scores and not values.skills):
        fix = "leave --config out, and give --scores with --skills"
        raise UserError(f"E-CLZ-113 analyze {CLOZE}: a flag that it has no use for. Fix: {fix}.")
    skills = cloze_skills.read_skills(Path(values.skills).expanduser()) if values.skills else {}
    scores = {Path(file).stem: cloze_skills.read_scores(Path(file).expanduser()) for file in values.scores}
    splits = cloze_tables.corpus(name)
    figures = cloze_stats.statistics(splits)
    lines, drawn = cloze_stats.table(name, figures), cloze_stats.drawn(name, figures)
    if values.skills:
        examples = [example for split in splits.values() for example in split.examples]
        figures["skills"] = cloze_skills.statistics(skills, examples, scores)
        lines += cloze_skills.table(figures["skills"])
        drawn |= cloze_skills.drawn(name, figures["skills"])
    notes = sorted({split.facts["note"] for split in splits.values() if "note" in split.facts})
    result = {"corpus": name, "notes": notes, **figures}
    print(json.dumps(result, indent=2) if values.json else "\n".join([*lines, *notes]))
    if values.out:
        write(Path(values.out).expanduser(), CLOZE, Finding(figures, drawn=drawn), result)


def read(values: cli.Flags):
    """What the flags say is to be analysed, as a Subject."""
    from mednli_jax.analysis.artifacts.heuristics import CAUSE_TYPES
    from mednli_jax.analysis.subject import Subject
    from mednli_jax.corpora.nli.prepared import Source
    from mednli_jax.corpora.nli.readers import read_nli_file
    from mednli_jax.knowledge.load import TABLES
    from mednli_jax.knowledge.readers.mesh import LINK_TYPES

    config, splits = cli.config(values), None
    if values.corpus:
        knowledge, path = config.knowledge, Path(values.corpus).expanduser()
        of_mesh = knowledge.ontology == "mesh" or knowledge.ontology.endswith(TABLES)
        if of_mesh and not knowledge.types and not knowledge.mentions:
            knowledge.types = (*LINK_TYPES, *CAUSE_TYPES)
        if config.data.name == "file" and path.is_file():
            splits = {"train": read_nli_file(path, split="train", limit=config.data.limit)}
    return Subject(Source(config), cli.corpus_name(config), public=values.public, splits=splits)


def show(finding, end: str) -> None:
    from mednli_jax.analysis.sections import lines

    told = finding.lines or [line for section in finding.sections for line in lines(section)]
    print("\n".join([*told, *finding.notes]), end=end, flush=True)


def write(folder: Path, analysis: str, finding, result: dict) -> None:
    """What an analysis found, in a folder. Files there of the same name are replaced."""
    from mednli_jax.analysis.sections import lines
    from mednli_jax.files import private_folder, write_atomic, write_json
    from mednli_jax.progress import say

    files = {f"{analysis}.json": result, **finding.drawn}
    if finding.private:
        inside = finding.private
        files[f"private/{analysis}.json"] = {**result, **inside.figures}
        files |= {f"private/{name}": picture for name, picture in inside.drawn.items()}
        if inside.sections:
            told = [line for section in inside.sections for line in lines(section)]
            files[f"private/{analysis}.txt"] = "\n".join(told) + "\n"
    private_folder(folder)
    if finding.private:
        private_folder(folder / "private")
    for name, content in files.items():
        (write_json if isinstance(content, dict) else write_atomic)(folder / name, content)
    say(f"written: {', '.join(str(folder / name) for name in files)}")


def write_page(folder: Path, subject, findings: Sequence) -> None:
    """report.html: what these analyses found, as one page."""
    from mednli_jax.analysis import html
    from mednli_jax.files import write_atomic
    from mednli_jax.progress import say

    sections = [section for finding in findings for section in finding.sections]
    notes = " ".join([*subject.notes, *(note for finding in findings for note in finding.notes)])
    write_atomic(
        folder / "report.html", html.corpus_page(subject.name, subject.splits, sections, subject.knowledge, notes)
    )
    say(f"written: {folder / 'report.html'}")


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define, words=1))
