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
from mednli_jax.data.corpus import cache_folder, corpora_folder, exposure
from mednli_jax.errors import UsageError, UserError

ONTOLOGIES = {
    "umls": "MRCONSO.RRF, MRREL.RRF, MRSTY.RRF: apply for a UMLS licence at uts.nlm.nih.gov",
    "snomed": "sct2_*Snapshot*.txt: its RF2 release, with a UMLS licence from uts.nlm.nih.gov",
    "wordnet": (
        "data.noun, data.verb, index.noun, index.verb: download it from wordnet.princeton.edu"
    ),
}
VECTORS = (
    "vectors/: glove.840B.300d.txt from nlp.stanford.edu/projects/glove for pairs, "
    "pubmed_mimic_200d.txt for CliCR; runs can use random vectors (--config.vectors.path=)"
)
WEIGHTS = (
    "weights/: folders with config.json, model.safetensors and tokenizer.json or vocab.txt, for "
    "encoders; else they are trained from scratch"
)
MARKS = {"ok": "ok     ", "missing": "missing", "check": "CHECK  "}


class Finding(NamedTuple):
    """One line of the inventory. state: "ok", "missing" or "check" (found, but not as expected)."""

    subject: str
    state: str
    note: str


def define(values: cli.Flags) -> None:
    cli.define_paths(values, "data")


def main(values: cli.Flags) -> int:
    folder = corpora_folder(values.data)
    if folder is not None and not os.path.isdir(folder):
        raise UsageError(f"{folder}: is not a folder", fix="check $MEDNLI_JAX_DATA or --data")
    machine = rundir.environment()
    package = f"mednli_jax {machine.mednli_jax} {machine.commit}"
    print(f"{package}, Python {machine.python}, {machine.platform}")
    print("  " + ", ".join(f"{name} {version}" for name, version in machine.versions.items()))
    print(f"{machine.cpus} CPUs, load {machine.load:.1f}")
    findings = _show("devices", [devices()])
    findings += _show("cache", [cache(cache_folder())])
    if folder is None:
        print("data: $MEDNLI_JAX_DATA is not set; the demo corpus needs none")
    else:
        print(f"data: {folder}")
        findings += _show("privacy", privacy(folder))
    findings += _show("corpora", corpora(folder))
    findings += _show("ontologies", ontologies(folder))
    findings += _show("vectors", vectors(folder))
    findings += _show("weights", weights(folder))
    if count := sum(finding.state == "check" for finding in findings):
        print(f"{count} to check: exit code {cli.USAGE}")
    return cli.USAGE if count else cli.OK


def _show(title: str, findings: list[Finding]) -> list[Finding]:
    print(f"{title}:")
    for finding in findings:
        print(f"  {MARKS[finding.state]} {finding.subject}: {finding.note}")
    return findings


def _finding(
    subject: str, look: Callable[[], Iterable[Path] | str], place: Path | None, source: str
) -> Finding:
    """A finding on the files, or the words, that `look` returns; "missing" if `place` does not
    exist. source: where to get the files."""
    problem = ""
    try:
        result = look() if place else ()
        if isinstance(result, str):
            return Finding(subject, "ok", result)
        files = sorted(path for path in result if path.is_file())
        if files:
            return Finding(subject, "ok", _sizes(files))
    except UserError as error:
        problem = str(error).splitlines()[0]
    except OSError as error:
        problem = f"cannot be looked at ({error.strerror})"
    if place and problem and os.path.lexists(place):
        return Finding(subject, "check", problem)
    return Finding(subject, "missing", source)


def _sizes(files: list[Path]) -> str:
    """Names files with their size: `a.txt, b.txt and 3 more, 12.5 MB`."""
    names = ", ".join(path.name for path in files[:4])
    if len(files) > 4:
        names += f" and {len(files) - 4} more"
    size = sum(path.stat().st_size for path in files)
    return f"{names}, {size / 1e6:,.1f} MB"


def devices() -> Finding:
    """The devices of jax, or the reason why it has none."""
    import jax

    from mednli_jax.training.settings import check_jax

    try:
        check_jax()
    except UserError as error:
        return Finding("jax", "check", str(error))
    names = [f"{device.platform}:{device.device_kind}" for device in jax.devices()]
    return Finding("jax", "ok", ", ".join(names))


def cache(folder: Path) -> Finding:
    """A finding on whether a folder, which need not exist yet, can hold prepared corpora, and on
    its free space."""
    paths = (folder, *folder.absolute().parents)
    existing = next(path for path in paths if os.path.lexists(path))
    if not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK):
        note = (
            f"{existing} is not a folder that you can write: set $MEDNLI_JAX_CACHE to another one"
        )
        return Finding("prepared data", "check", note)
    free = shutil.disk_usage(existing).free / 1e9
    return Finding("prepared data", "ok", f"{folder}, {free:,.1f} GB free")


def corpora(folder: Path | None) -> list[Finding]:
    """A finding for each corpus with official files. folder: the data folder, None if there is
    none."""
    findings = []
    for task in tasks.tasks().values():
        for name, (files, source) in task.sources.items():
            if folder is None:
                findings.append(Finding(name, "missing", source))
            else:
                findings.append(_finding(name, partial(files, folder), folder / name, source))
    return findings


def ontologies(folder: Path | None) -> list[Finding]:
    """The bundled MeSH, then a finding for each other ontology. WordNet may lie outside of the data
    folder."""
    from mednli_jax.knowledge.load import load_ontology, needed_files  # imports scipy

    mesh = load_ontology("mesh")
    size = f"{len(mesh):,} concepts, {len(mesh.names):,} names"
    findings = [Finding("mesh", "ok", f"{mesh.version}, bundled: {size}")]
    for name, source in ONTOLOGIES.items():
        place = Path(folder or "nowhere", name)
        findings.append(_finding(name, partial(needed_files, name, folder), place, source))
    return findings


def vectors(folder: Path | None) -> list[Finding]:
    """A finding for each file of vectors/: its dimension, from its first two rows."""
    from mednli_jax.data.vector_formats import read_head

    def description(path: Path) -> str:
        head = read_head(path)
        return f"{head.dim} numbers a word, {head.kind}"

    paths = folder.glob("vectors/*") if folder else ()
    return _findings(paths, description, "word vectors", VECTORS)


def weights(folder: Path | None) -> list[Finding]:
    """A finding for each folder of weights/: what `train` reads, or its fault."""
    from mednli_jax.data.tokenizer_files import find_tokenizer
    from mednli_jax.experiment import pretrained_sizes
    from mednli_jax.models.weights import description

    def usable(path: Path) -> str:
        pretrained_sizes(path)
        vocabulary = find_tokenizer(path).file
        return f"{description(path)}, {vocabulary.name}; --config.model.weights={path}"

    paths = folder.glob("weights/*/") if folder else ()
    return _findings(paths, usable, "pretrained weights", WEIGHTS)


def _findings(
    paths: Iterable[Path], look: Callable[[Path], str], subject: str, source: str
) -> list[Finding]:
    """A finding for each path that is not hidden, or one that says where to get the files."""
    findings = []
    for path in sorted(paths):
        if not path.name.startswith("."):
            findings.append(_finding(path.name, partial(look, path), path, ""))
    return findings or [Finding(subject, "missing", source)]


def privacy(folder: Path) -> list[Finding]:
    """Findings that others can read licensed text below the data folder, or that it lies in a git
    work tree."""
    names: list[str] = []
    for task in tasks.tasks().values():
        names += task.licensed
    exposed = exposure(folder, names)
    if not exposed:
        return [Finding("permissions", "ok", "licensed text, if there is any, is for you alone")]
    return [Finding(subject, "check", note) for subject, note in exposed.items()]


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
