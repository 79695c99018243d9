"""`python -m mednli_jax.analyze`: what a corpus looks like."""

import json
import sys
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UserError

USAGE = f"""Analyse a corpus.

  python -m mednli_jax.analyze stats --config=configs/bow.py
  python -m mednli_jax.analyze paths --config=configs/esim_kd.py:mednli --config.knowledge.ontology=umls --out=figures

  stats   sizes, lengths, labels and words (Table 2 of the MedNLI paper), for any corpus
  paths   path lengths between the concepts of premises and hypotheses (its Figure 3), by any ontology

{cli.CONFIG_HELP}
  --out=DIR                    also write ANALYSIS.json and its picture there
  --json                       the figures as one JSON object"""


def define(values: cli.Flags) -> None:
    cli.define_config(values)
    flags.DEFINE_string("out", None, "folder for data and pictures", flag_values=values)
    flags.DEFINE_bool("json", False, "print JSON", flag_values=values)


def stats(config, source, name):
    """(figures, lines, pictures) of `analyze stats`."""
    from mednli_jax.analysis import corpus

    splits = source.splits()
    figures = corpus.statistics(splits)
    return figures, splits, corpus.table(name, figures), {}


def paths(config, source, name):
    """(figures, lines, pictures) of `analyze paths`."""
    if not source.ontology_name:
        raise UserError(
            "E-USE-015 analyze paths: the config takes no knowledge. Fix: --config=configs/esim_kd.py, or "
            "--config.model.knowledge=replace."
        )
    from mednli_jax.analysis import figures as pictures
    from mednli_jax.analysis import paths as analysis

    splits = source.splits()
    examples = [example for split in splits.values() for example in split.examples]
    knowledge, ontology = config.knowledge, source.ontology

    def distances(pairs):
        return source.paths(ontology, pairs, direction=knowledge.direction, max_length=knowledge.max_path)

    found = analysis.path_statistics(examples, *source.mentions(splits), ontology, distances)
    about = {"ontology": ontology.name, "version": ontology.version}
    keys = analysis.ordered_keys(found)
    lengths = [key for key in keys if key.isdigit()]
    counts = [found["occurrences"].get(key, 0) for key in lengths]
    drawn = pictures.bars(
        {"concept pairs": counts}, lengths, title=f"{name}, {about['ontology']} {about['version']}",
        x="edges on the shortest path", y="pairs of concepts in premise and hypothesis",
    )  # fmt: skip
    about |= {"direction": knowledge.direction, "max_path": knowledge.max_path}
    lines = analysis.table(name, f"{about['ontology']} {about['version']}", found)
    return {**about, **found}, splits, lines, {"paths.png": drawn}


ANALYSES = {"stats": stats, "paths": paths}


def main(values: cli.Flags, analysis: str = "") -> None:
    if analysis not in ANALYSES:
        known = ", ".join(ANALYSES)
        raise UserError(f"E-USE-007 unknown analysis '{analysis}'. Known: {known}. Fix: analyze stats --config=FILE")
    from mednli_jax.data.prepared import Source

    config = cli.config(values)
    name = cli.corpus_name(config)
    figures, splits, lines, drawn = ANALYSES[analysis](config, Source(config), name)
    notes = sorted({split.facts["note"] for split in splits.values() if "note" in split.facts})
    result = {"corpus": name, "notes": notes, **figures}
    if values.json:
        print(json.dumps(result, indent=2))
    else:
        print("\n".join([*lines, *notes]))
    if values.out:
        write(Path(values.out).expanduser(), analysis, result, drawn)


def write(folder: Path, analysis: str, result: dict, drawn: dict[str, bytes]) -> None:
    """The figures and pictures of an analysis in a folder. Files there of the same name are replaced."""
    from mednli_jax.progress import say
    from mednli_jax.runs import private_folder, write_atomic, write_json

    private_folder(folder)
    write_json(folder / f"{analysis}.json", result)
    for name, picture in drawn.items():
        write_atomic(folder / name, picture)
    say(f"written: {', '.join(str(folder / name) for name in (f'{analysis}.json', *drawn))}")


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define, words=1))
