"""`python -m mednli_jax.doctor`: what this machine has, what is missing, and where to get it."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from absl import flags

from mednli_jax import cli

USAGE = """Say what is installed and which corpora, ontologies, vectors and weights are found.

  python -m mednli_jax.doctor
  python -m mednli_jax.doctor --data=/data/clinical

  --data=DIR      the data folder (default: $MEDNLI_JAX_DATA)

Nothing is changed and no text is printed. Exit code 0, or 2 where something found is not as it should be."""

MARKS = {"ok": "ok     ", "missing": "missing", "check": "CHECK  "}
MEDIQA_PAIRS = 405  # of the MEDIQA 2019 shared task, task 1
SNOMED_SOURCE = "its RF2 release, with a UMLS licence from uts.nlm.nih.gov"
NO_READER = "; not read by this version"


@dataclass(frozen=True)
class Place:
    """A folder below the data folder whose files are looked for, not counted: they are too large, or not read here.

    files: names or patterns, found at any depth (archives unpack into folders of their own), plain or with .gz.
    """

    name: str
    files: tuple[str, ...]
    source: str
    note: str = NO_READER


CORPORA = (
    Place(
        "clicr",
        ("train1.0.json", "dev1.0.json", "test1.0.json"),
        "ask its authors, see github.com/clips/clicr",
    ),
    Place(
        "notes",
        ("NOTEEVENTS.csv",),
        "apply for PhysioNet credentialed access at physionet.org/content/mimiciii",
        "; read for Past Medical History sentences only",
    ),
)
ONTOLOGIES = (
    Place("umls", ("MRCONSO.RRF", "MRREL.RRF"), "apply for a UMLS licence at uts.nlm.nih.gov"),
    Place("snomed", ("sct2_Description_Snapshot*.txt", "sct2_Relationship_Snapshot*.txt"), SNOMED_SOURCE),
    Place("wordnet", ("data.noun", "index.noun"), "download it from wordnet.princeton.edu"),
)


def define(values: cli.Flags) -> None:
    flags.DEFINE_string("data", None, "data folder", flag_values=values)


def main(values: cli.Flags) -> int:
    from mednli_jax import runs
    from mednli_jax.data import inventory
    from mednli_jax.data.prepared import cache_folder

    folder = values.data or os.environ.get("MEDNLI_JAX_DATA")
    folder = Path(folder).expanduser() if folder else None
    here = runs.environment()
    print(f"mednli_jax {here['mednli_jax']} {here['commit']}, Python {here['python']}, {here['platform']}")
    print("  " + ", ".join(f"{name} {version}" for name, version in here["versions"].items()))
    print(f"devices: {_devices()}; {here['cpus']} CPUs, load {here['load']:.1f}")
    cache = cache_folder()
    print(f"cache: {cache} ({shutil.disk_usage(_existing(cache)).free / 1e9:.0f} GB free)")
    findings = []
    if folder is None:
        print("data: $MEDNLI_JAX_DATA is not set; the demo corpus needs none")
    elif not folder.is_dir():
        print(f"data: {folder} is no folder")
        return cli.USAGE
    else:
        print(f"data: {folder}")
        findings += _tell("privacy", _privacy(folder))
    corpora = [*inventory.corpora(folder), *_mediqa(folder), *(_look(folder, place) for place in CORPORA)]
    findings += _tell("corpora", corpora)
    findings += _tell("ontologies", [_mesh(), *(_look(folder, place) for place in ONTOLOGIES)])
    findings += _tell("vectors", inventory.vectors(folder))
    findings += _tell("weights", inventory.weights(folder))
    return cli.USAGE if any(finding.state == "check" for finding in findings) else cli.OK


def _tell(title, findings):
    print(f"{title}:")
    for finding in findings:
        print(f"  {MARKS[finding.state]} {finding.what}: {finding.note}")
    return findings


def _devices():
    import jax

    return ", ".join(f"{device.platform}:{device.device_kind}" for device in jax.devices())


def _existing(path):
    return next(p for p in (path, *path.absolute().parents) if p.exists())


def _mesh():
    from mednli_jax.data.inventory import Finding
    from mednli_jax.knowledge.load import load_ontology

    mesh = load_ontology("mesh")
    return Finding("mesh", "ok", f"{mesh.version}, bundled: {len(mesh):,} concepts, {len(mesh.names):,} names")


def _mediqa(folder):
    """The shared task's test pairs and their labels; its training and dev pairs are MedNLI's."""
    from mednli_jax.data.inventory import Finding, count_lines
    from mednli_jax.data.lines import either_name
    from mednli_jax.data.nli_corpora import CORPORA as readable

    name, corpus = "mediqa_nli", readable["mediqa_nli"]
    heading = 1  # of the CSV file
    for what, file, more in (("test", corpus.files["test"], 0), ("ground truth", corpus.ground_truth, heading)):
        path = either_name(folder / name / file) if folder else None
        if path is None:
            yield Finding(f"{name} {what}", "missing", f"{name}/{file}: {corpus.source}")
            continue
        lines = count_lines(path)
        if lines is None:
            yield Finding(f"{name} {what}", "check", "damaged: take a fresh copy")
        else:
            fits = lines - more == MEDIQA_PAIRS
            expected = "" if fits else f", expected {MEDIQA_PAIRS}"
            yield Finding(f"{name} {what}", "ok" if fits else "check", f"{lines - more:,} pairs{expected}")


def _look(folder, place):
    """One finding on the files of a place: all there, some, or none."""
    from mednli_jax.data.inventory import Finding

    found = {file: _find(folder / place.name, file) for file in place.files} if folder else {}
    lacking = [file for file in place.files if not found.get(file)]
    if len(lacking) == len(place.files):
        return Finding(place.name, "missing", f"{place.name}/{', '.join(lacking)}: {place.source}{place.note}")
    if lacking:
        return Finding(place.name, "check", f"{place.name}/{', '.join(lacking)} missing: {place.source}{place.note}")
    size = sum(path.stat().st_size for path in found.values())
    return Finding(place.name, "ok", f"{', '.join(place.files)} found, {size / 1e6:,.1f} MB{place.note}")


def _find(folder, pattern):
    paths = (path for name in (pattern, f"{pattern}.gz") for path in sorted(folder.rglob(name)))
    return next((path for path in paths if path.is_file()), None)


def _privacy(folder):
    from mednli_jax.data.inventory import Finding, privacy

    try:
        return privacy(folder)
    except OSError as error:
        return [Finding("permissions", "check", f"{error.filename} cannot be looked at ({error.strerror})")]


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
