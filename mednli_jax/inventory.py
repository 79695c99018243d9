"""What the data folder holds: corpora, ontologies, vectors, weights, and who can read them.

Corpora and ontologies are found by their own readers, so that `doctor` finds what they find.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache as remembered
from functools import partial
from pathlib import Path

from mednli_jax import io as progress
from mednli_jax.cloze import clicr
from mednli_jax.data.vectors import read_head
from mednli_jax.data.wordpiece import WEIGHTS, vocabulary_files
from mednli_jax.diskne.published import annotation_files
from mednli_jax.errors import UserError
from mednli_jax.knowledge.load import load_ontology, needed_files
from mednli_jax.nli.readers import CORPORA, source_files

# Folders whose licences forbid passing on their content: other users must not be able to read them.
RESTRICTED = (
    *(name for name, corpus in CORPORA.items() if corpus.restricted),
    *("clicr", "diskne", "notes", "umls", "snomed"),
)
# Name of a corpus without pairs -> (its files in a data folder, where to get them).
TEXTS = {
    "clicr": (lambda folder: clicr.source_files(folder).values(), clicr.SOURCE),
    "diskne": (annotation_files, "diskne/*.csv, the published annotations, read beside mednli/"),
    "notes": (
        lambda folder: (folder / "notes").rglob("NOTEEVENTS.csv*"),
        "NOTEEVENTS.csv: apply for PhysioNet credentialed access at physionet.org/content/mimiciii",
    ),
}
ONTOLOGIES = {
    "umls": "MRCONSO.RRF, MRREL.RRF, MRSTY.RRF: apply for a UMLS licence at uts.nlm.nih.gov",
    "snomed": "sct2_*_Snapshot*.txt: its RF2 release, with a UMLS licence from uts.nlm.nih.gov",
    "wordnet": "data.noun, data.verb, index.noun, index.verb: download it from wordnet.princeton.edu",
}
VECTORS = "vectors/: e.g. glove.840B.300d.txt from nlp.stanford.edu/projects/glove; runs can use random vectors"
FOR_BERT = f"weights/: folders with config.json, {WEIGHTS}, vocab.txt, for BERT; without, it is trained from scratch"


@dataclass(frozen=True)
class Finding:
    """One line of the inventory. state: "ok", "missing" or "check" (found, but not as expected)."""

    what: str
    state: str
    note: str


def _finding(what: str, look: Callable[[], Iterable[Path] | str], place: Path | None, source: str) -> Finding:
    """What `look` finds, as files or in words.

    Args:
      place: the folder or file; where it is missing and `look` finds nothing, nothing is there to be checked.
      source: where to get the files.
    """
    problem = ""
    try:
        found = look() if place else ()
        if isinstance(found, str):
            return Finding(what, "ok", found)
        if files := sorted(path for path in found if path.is_file()):
            names = ", ".join(path.name for path in files[:4]) + f" and {len(files) - 4} more" * (len(files) > 4)
            return Finding(what, "ok", f"{names}, {sum(path.stat().st_size for path in files) / 1e6:,.1f} MB")
    except UserError as error:
        problem = str(error).splitlines()[0]
    except OSError as error:
        problem = f"cannot be looked at ({error.strerror})"
    if place and problem and os.path.lexists(place):
        return Finding(what, "check", problem)
    return Finding(what, "missing", source)


def cache(folder: Path) -> Finding:
    """Whether prepared corpora can be kept in a folder, which need not exist yet, and the space there."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
        note = f"{there} is not a folder that you can write: set $MEDNLI_JAX_CACHE to another one"
        return Finding("prepared data", "check", note)
    return Finding("prepared data", "ok", f"{folder}, {shutil.disk_usage(there).free / 1e9:,.1f} GB free")


def corpora(folder: Path | None) -> list[Finding]:
    """A finding for each corpus with official files. folder: the data folder, or None where there is none."""
    sought = {name: (partial(source_files, name), corpus.source) for name, corpus in CORPORA.items() if name != "file"}
    return [
        _finding(name, partial(files, folder), folder and folder / name, source)
        for name, (files, source) in {**sought, **TEXTS}.items()
    ]


def ontologies(folder: Path | None) -> list[Finding]:
    """The bundled MeSH, then a finding for each other ontology. WordNet may lie outside of the data folder."""
    mesh = load_ontology("mesh")
    found = [Finding("mesh", "ok", f"{mesh.version}, bundled: {len(mesh):,} concepts, {len(mesh.names):,} names")]
    for name, source in ONTOLOGIES.items():
        place = Path(folder or "nowhere", name)
        found.append(_finding(name, partial(needed_files, name, folder), place, source))
    return found


def vectors(folder: Path | None) -> list[Finding]:
    """A finding for each file of vectors/: its dimension, from its first two rows."""

    def head(path):
        found = read_head(path)
        return f"{found.dim} numbers a word, {found.kind}"

    files = sorted((folder / "vectors").glob("*")) if folder else []
    found = [_finding(path.name, partial(head, path), path, "") for path in files if path.suffix != ".npy"]
    return found or [Finding("word vectors", "missing", VECTORS)]


def weights(folder: Path | None) -> list[Finding]:
    """A finding for each folder of weights/."""

    def usable(path):
        vocabulary_files(path)
        if not (path / WEIGHTS).is_file():
            raise UserError(f"no {WEIGHTS} is there; pickled weights are not read. Fix: convert them.")
        return f"--config.model.weights={path}"

    folders = sorted((folder / "weights").glob("*/")) if folder else []
    found = [_finding(path.name, partial(usable, path), path, "") for path in folders]
    return found or [Finding("pretrained weights", "missing", FOR_BERT)]


@remembered
def warn(folder: Path, names: tuple[str, ...]) -> None:
    """Says in one line, once, where others can read what these corpora and terminologies of a data folder hold, or
    where it lies in a git work tree; those that are not RESTRICTED may."""
    names = tuple(name for name in names if name in RESTRICTED)
    notes = [finding.note for finding in privacy(folder, names) if finding.state == "check"] if names else []
    if notes:
        progress.warn(f"{folder}: holds licensed text; {'; '.join(notes)}.")


def privacy(folder: Path, names: Sequence[str] = RESTRICTED) -> list[Finding]:
    """Warns where others can read licensed text below the data folder, or where it lies in a git work tree.

    Only what is licensed counts: the folders of these names with all below them, official files that lie in the
    data folder itself, and the data folder as the way to them. A data folder of public corpora may be open.
    """
    licensed = [folder / name for name in (*names, *_loose(names)) if os.path.exists(folder / name)]
    if not licensed:
        return [Finding("permissions", "ok", "nothing here is under a licence that forbids passing it on")]
    # A link to nothing holds no text.
    exposed = [path for path in {folder, *_below(licensed)} if path.exists() and path.stat().st_mode & 0o077]
    findings = []
    if exposed:
        # The data folder as a whole stays open, because it may also hold public corpora.
        places = [place for place in licensed if any(path.is_relative_to(place) for path in exposed)]
        fixes = [f"chmod go-rwx {folder}"] if folder in exposed else []
        fixes += [f"chmod -R go-rwx {' '.join(map(str, places))}"] if places else []
        note = f"{len(exposed)} files or folders are readable by others: {'; '.join(fixes)}"
        findings.append(Finding("permissions", "check", note))
    if any(os.path.lexists(parent / ".git") for parent in (folder.absolute(), *folder.absolute().parents)):
        findings.append(Finding("git", "check", "the folder lies in a git work tree: licensed text could be committed"))
    return findings or [Finding("permissions", "ok", "licensed text is for you alone")]


def _loose(names):
    """Names of licensed files that readers also accept directly in the data folder."""
    files = [{*CORPORA[name].files.values(), CORPORA[name].ground_truth} for name in names if name in CORPORA]
    for file in sorted(set().union(clicr.FILES.values() if "clicr" in names else (), *files) - {""}):
        yield from (file, f"{file}.gz")


def _below(places) -> Iterator[Path]:
    """The paths and everything below them; targets of links are included, not entered."""
    for place in places:
        yield place
        for root, folders, files in os.walk(place):
            yield from (Path(root, name) for name in (*folders, *files))
