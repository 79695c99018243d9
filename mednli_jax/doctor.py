"""Print what is installed and which corpora, ontologies, vectors and weights are found.

  python -m mednli_jax.doctor
  python -m mednli_jax.doctor --data=/data/clinical

  --data=DIR      the data folder (default: $MEDNLI_JAX_DATA)

Nothing is changed and no text of a corpus is printed. Exit code 0, or 2 where a line is marked
CHECK.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mednli_jax import cli, rundir, tasks
from mednli_jax.data.corpus import cache_folder, data_folder, exposure
from mednli_jax.errors import UsageError, UserError

ONTOLOGIES = {
    "umls": "MRCONSO.RRF, MRREL.RRF, MRSTY.RRF: apply for a UMLS licence at uts.nlm.nih.gov",
    "snomed": "sct2_*Snapshot*.txt: its RF2 release, with a UMLS licence from uts.nlm.nih.gov",
    "wordnet": "data.noun, data.verb, index.noun, index.verb: download it from wordnet.princeton.edu",
}
VECTORS = (
    "vectors/: glove.840B.300d.txt from nlp.stanford.edu/projects/glove for pairs, pubmed_mimic_200d.txt for CliCR; "
    "runs can use random vectors (--config.vectors.path=)"
)
WEIGHTS = (
    "weights/: folders with config.json, model.safetensors and tokenizer.json or vocab.txt, for "
    "encoders; else they are trained from scratch"
)
MARKS = {"ok": "ok     ", "missing": "missing", "check": "CHECK  "}


class Finding(NamedTuple):
    """One line of the inventory. state: "ok", "missing" or "check" (found, but not as expected)."""

    what: str
    state: str
    note: str


def define(values: cli.Flags) -> None:
    cli.define_paths(values, "data")


def main(values: cli.Flags) -> int:
    folder = data_folder(values.data)
    if folder is not None and not os.path.isdir(folder):
        raise UsageError(f"{folder}: is not a folder", fix="check $MEDNLI_JAX_DATA or --data")
    here = rundir.environment()
    print(f"mednli_jax {here.mednli_jax} {here.commit}, Python {here.python}, {here.platform}")
    print("  " + ", ".join(f"{name} {version}" for name, version in here.versions.items()))
    print(f"{here.cpus} CPUs, load {here.load:.1f}")
    findings = _show("devices", [devices()])
    findings += _show("cache", [cache(cache_folder())])
    if folder is None:
        print("data: $MEDNLI_JAX_DATA is not set; the demo corpus needs none")
    else:
        print(f"data: {folder}")
        findings += _show("privacy", privacy(folder))
    for look in (corpora, ontologies, vectors, weights):
        findings += _show(look.__name__, look(folder))
    if count := sum(finding.state == "check" for finding in findings):
        print(f"{count} to check: exit code {cli.USAGE}")
    return cli.USAGE if count else cli.OK


def _show(title, findings):
    print(f"{title}:")
    for finding in findings:
        print(f"  {MARKS[finding.state]} {finding.what}: {finding.note}")
    return findings


def _finding(
    what: str, look: Callable[[], Iterable[Path] | str], place: Path | None, source: str
) -> Finding:
    """The files that `look` finds, or its words; nothing if `place` is missing. source: where to
    get the files."""
    problem = ""
    try:
        found = look() if place else ()
        if isinstance(found, str):
            return Finding(what, "ok", found)
        if files := sorted(path for path in found if path.is_file()):
            names = ", ".join(path.name for path in files[:4]) + f" and {len(files) - 4} more" * (
                len(files) > 4
            )
            return Finding(
                what, "ok", f"{names}, {sum(path.stat().st_size for path in files) / 1e6:,.1f} MB"
            )
    except UserError as error:
        problem = str(error).splitlines()[0]
    except OSError as error:
        problem = f"cannot be looked at ({error.strerror})"
    if place and problem and os.path.lexists(place):
        return Finding(what, "check", problem)
    return Finding(what, "missing", source)


def devices() -> Finding:
    """The devices of jax, or the reason why it has none."""
    import jax

    from mednli_jax.training.settings import check_jax

    try:
        check_jax()
    except UserError as error:
        return Finding("jax", "check", str(error))
    return Finding(
        "jax",
        "ok",
        ", ".join(f"{device.platform}:{device.device_kind}" for device in jax.devices()),
    )


def cache(folder: Path) -> Finding:
    """Whether prepared corpora can be kept in a folder, which need not exist yet, and the space
    there."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
        note = f"{there} is not a folder that you can write: set $MEDNLI_JAX_CACHE to another one"
        return Finding("prepared data", "check", note)
    return Finding(
        "prepared data", "ok", f"{folder}, {shutil.disk_usage(there).free / 1e9:,.1f} GB free"
    )


def corpora(folder: Path | None) -> list[Finding]:
    """A finding for each corpus with official files. folder: the data folder, or None where there
    is none."""
    sources = {name: of for task in tasks.tasks().values() for name, of in task.sources.items()}
    return [
        _finding(name, partial(files, folder), folder and folder / name, source)
        for name, (files, source) in sources.items()
    ]


def ontologies(folder: Path | None) -> list[Finding]:
    """The bundled MeSH, then a finding for each other ontology. WordNet may lie outside of the data
    folder."""
    from mednli_jax.knowledge.load import load_ontology, needed_files  # imports scipy

    mesh = load_ontology("mesh")
    found = [
        Finding(
            "mesh",
            "ok",
            f"{mesh.version}, bundled: {len(mesh):,} concepts, {len(mesh.names):,} names",
        )
    ]
    for name, source in ONTOLOGIES.items():
        place = Path(folder or "nowhere", name)
        found.append(_finding(name, partial(needed_files, name, folder), place, source))
    return found


def vectors(folder: Path | None) -> list[Finding]:
    """A finding for each file of vectors/: its dimension, from its first two rows."""
    from mednli_jax.data.vector_formats import read_head

    def head(path):
        found = read_head(path)
        return f"{found.dim} numbers a word, {found.kind}"

    paths = folder.glob("vectors/*") if folder else ()
    return _each(paths, head, "word vectors", VECTORS)


def weights(folder: Path | None) -> list[Finding]:
    """A finding for each folder of weights/."""
    from mednli_jax.data.pieces import vocabulary_files
    from mednli_jax.models.weights import description

    def usable(path: Path) -> str:
        vocabulary, *_ = vocabulary_files(path)
        return f"{description(path)}, {vocabulary.name}; --config.model.weights={path}"

    paths = folder.glob("weights/*/") if folder else ()
    return _each(paths, usable, "pretrained weights", WEIGHTS)


def _each(paths, look, what, source):
    found = [_finding(path.name, partial(look, path), path, "") for path in sorted(paths)]
    return found or [Finding(what, "missing", source)]


def privacy(folder: Path) -> list[Finding]:
    """Warns where others can read licensed text below the data folder, or where it lies in a git
    work tree."""
    names = [name for task in tasks.tasks().values() for name in task.licensed]
    found = [Finding(what, "check", note) for what, note in exposure(folder, names).items()]
    return found or [
        Finding("permissions", "ok", "licensed text, if there is any, is for you alone")
    ]


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
