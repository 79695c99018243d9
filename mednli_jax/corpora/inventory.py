"""What the data folder holds: corpora with their counts, ontologies, vectors, weights, and who can read them.

Broken links, folders without access and damaged files are reported as findings; they raise no error.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache as remembered
from pathlib import Path

from mednli_jax import progress
from mednli_jax.corpora.cloze import clicr
from mednli_jax.corpora.diskne.published import annotation_files
from mednli_jax.corpora.nli.files import CORPORA, read_with, split_paths
from mednli_jax.corpora.nli.formats import GroundTruth
from mednli_jax.corpora.nli.weights import CONFIGS, WEIGHTS
from mednli_jax.corpora.nli.wordpiece import vocabulary_files
from mednli_jax.errors import DataError, UserError
from mednli_jax.knowledge.load import load_ontology, needed_files
from mednli_jax.knowledge.vectors import read_head
from mednli_jax.textfiles import byte_lines, either_name

# Pairs in the official files, unlabelled ones included (Romanov & Shivade 2018, Table 2; Ben Abacha, Shivade &
# Demner-Fushman 2019, task 1; Bowman et al. 2015; Williams et al. 2018).
EXPECTED = {
    "mednli": {"train": 11_232, "dev": 1_395, "test": 1_422},
    "mediqa_nli": {"test": 405},  # its training and dev pairs are MedNLI's
    "snli": {"train": 550_152, "dev": 10_000, "test": 10_000},
    "multinli": {"train": 392_702, "dev": 10_000},
}
QUERIES = {"train": 91_344, "dev": 6_391, "test": 7_184}  # of CliCR (Šuster & Daelemans 2018, Table 2)
# Folders whose licences forbid passing on their content: other users must not be able to read them.
RESTRICTED = (
    *(name for name, corpus in CORPORA.items() if corpus.restricted),
    *("clicr", "diskne", "notes", "umls", "snomed"),
)
NOWHERE = "a link to nothing"


@dataclass(frozen=True)
class Finding:
    """One line of the inventory. state: "ok", "missing" or "check" (found, but not as expected)."""

    what: str
    state: str
    note: str


# The name of each ontology in a finding when its files are missing, and where to get it.
ONTOLOGIES = {
    "umls": "MRCONSO.RRF, MRREL.RRF, MRSTY.RRF: apply for a UMLS licence at uts.nlm.nih.gov",
    "snomed": "sct2_*_Snapshot*.txt: its RF2 release, with a UMLS licence from uts.nlm.nih.gov",
    "wordnet": "data.noun, data.verb, index.noun, index.verb: download it from wordnet.princeton.edu",
}


def _finding(what, look, *arguments) -> Finding:
    """What `look` found, as (state, note). Bad files and errors of the operating system are findings, too."""
    try:
        return Finding(what, *look(*arguments))
    except UserError as error:
        return Finding(what, "check", str(error).splitlines()[0])
    except OSError as error:
        return Finding(what, "check", f"cannot be looked at ({error.strerror})")


def cache(folder: Path) -> Finding:
    """Whether prepared corpora can be kept in a folder, which need not exist yet, and the space there."""
    return _finding("prepared data", _cache, folder)


def _cache(folder):
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not os.path.isdir(there):
        return "check", f"{there} is no folder: set $MEDNLI_JAX_CACHE to another one"
    if not os.access(there, os.W_OK | os.X_OK):
        return "check", f"{there} cannot be written: set $MEDNLI_JAX_CACHE to another folder"
    return "ok", f"{folder}, {shutil.disk_usage(there).free / 1e9:,.1f} GB free"


def corpora(folder: Path | None) -> list[Finding]:
    """One finding per split of every corpus with official files, then one per place of other texts.

    folder: the data folder, or None where there is none.
    """
    findings = []
    for name, corpus in CORPORA.items():
        if name == "file":  # the user's own files can be anywhere
            continue
        splits = [split for split in corpus.files if split not in corpus.folders]
        findings += [_finding(f"{name} {split}", _pairs, folder, name, split) for split in splits]
        if corpus.ground_truth:
            findings.append(_finding(f"{name} ground truth", _truth, folder, name))
    places = {"clicr": _clicr, "diskne": _diskne, "notes": _notes}
    return [*findings, *(_finding(name, _place, folder, name, look) for name, look in places.items())]


def ontologies(folder: Path | None) -> list[Finding]:
    """The bundled MeSH, then one finding per place of an ontology."""
    mesh = load_ontology("mesh")
    bundled = Finding("mesh", "ok", f"{mesh.version}, bundled: {len(mesh):,} concepts, {len(mesh.names):,} names")
    return [bundled, *(_finding(name, _place, folder, name, _ontology) for name in ONTOLOGIES)]


def _place(folder, name, look):
    """What `look` finds in a folder of the data folder, or that the folder is a broken link."""
    return _broken_link(folder, name) or look(folder, name)


def _broken_link(folder, name, *files):
    """State and note if the folder or one of its files is a broken link, else None."""
    if folder is None:
        return None
    places = [folder / name, *(folder / name / f for file in files for f in (file, f"{file}.gz"))]
    broken = next((path for path in places if path.is_symlink() and not path.exists()), None)
    return ("check", f"{broken.relative_to(folder)}: {NOWHERE}") if broken else None


def _pairs(folder, name, split):
    """The file of one split, under any of its names, and the files that are read with it."""
    corpus = CORPORA[name]
    path = next(iter(split_paths(name, corpus, folder, split)), None) if folder else None
    if path and (lacking := [file.name for file in read_with(path) if not file.is_file()]):
        return "check", f"{path.name} found, {', '.join(lacking)} missing: put them beside it"
    return _counted(folder, name, path, corpus.names(split), _count_pairs, EXPECTED.get(name, {}).get(split))


def _truth(folder, name):
    """The file with the labels of the test pairs, which is in the same folder."""
    truth = CORPORA[name].ground_truth
    beside = next(iter(split_paths(name, CORPORA[name], folder, "test")), folder / name / "test") if folder else None
    path = either_name(beside.with_name(truth)) if folder else None
    return _counted(folder, name, path, [truth], lambda path: len(GroundTruth(path).labels), EXPECTED[name]["test"])


def _counted(folder, name, path, files, count, expected):
    """State and note of a file.

    Args:
      path: of the file, None where it is missing.
      files: its possible names.
      count: path -> pairs or labels; raises where the file is damaged.
      expected: how many there should be, None where that is unknown.
    """
    if path is None:
        return _broken_link(folder, name, *files) or ("missing", f"{name}/{files[0]}: {CORPORA[name].source}")
    found = _count(count, path)
    if found is None:
        return "check", "damaged: take a fresh copy"
    if expected is not None and found != expected:
        return "check", f"{found:,} pairs, expected {expected:,}"
    return "ok", f"{found:,} pairs"


def _count(count, path):
    """count(path), None where the file is damaged."""
    try:
        return count(path)
    except (UserError, OSError):
        return None


def _count_pairs(path):
    lines, name = sum(1 for _, line in byte_lines(path) if line.strip()), path.name
    return lines - (0 if name.removesuffix(".gz").endswith(".jsonl") or name.startswith("s1.") else 1)


def _clicr(folder, name):
    """CliCR's three files together."""
    if broken := _broken_link(folder, name, *clicr.FILES.values()):
        return broken
    found = clicr.find_files(folder)[1] if folder else dict.fromkeys(clicr.FILES)
    lacking = [clicr.FILES[split] for split, path in found.items() if path is None]
    if lacking:
        state = "missing" if len(lacking) == len(found) else "check"
        return state, f"clicr/{', '.join(lacking)}{' missing' if state == 'check' else ''}: {clicr.SOURCE}"
    counts = {split: _count(clicr.count_queries, path) for split, path in found.items()}
    if damaged := [found[split].name for split, count in counts.items() if count is None]:
        return "check", f"{', '.join(damaged)} damaged: take a fresh copy"
    lines = [
        f"{split} {count:,}" + (f", expected {QUERIES[split]:,}" * (count != QUERIES[split]))
        for split, count in counts.items()
    ]
    return "ok" if counts == QUERIES else "check", f"queries: {'; '.join(lines)}"


def _ontology(folder, name):
    """Whether all, some or none of an ontology's files are there, found as its loader finds them."""
    used = f"--config.knowledge.ontology={name}"
    try:
        return _found(needed_files(name, folder), used)
    except DataError:
        raise
    except UserError:
        return "missing", f"{name}/{ONTOLOGIES[name]}; {used}"


def _diskne(folder, name):
    used, files = "configs/diskne_*.py:mednli", annotation_files(folder) if folder else []
    return _found(files, used, "diskne/*.csv: the published annotations, read beside mednli/")


def _notes(folder, name):
    """MIMIC-III's notes, at any depth: a flag names the file when they are used."""
    paths = (folder / name).rglob("NOTEEVENTS.csv*") if folder else ()
    files = [path for path in sorted(paths) if path.name in ("NOTEEVENTS.csv", "NOTEEVENTS.csv.gz") and path.is_file()]
    where = "notes/NOTEEVENTS.csv: apply for PhysioNet credentialed access at physionet.org/content/mimiciii"
    return _found(files[:1], "launch/premises_from_notes.py samples premises from it", where)


def _found(files, used, where=""):
    """used: what the files are for. where: where to get them if there are none."""
    if not files:
        return "missing", f"{where}; {used}"
    names = ", ".join(dict.fromkeys(path.name for path in files))
    return "ok", f"{names} found, {sum(map(_size, files)) / 1e6:,.1f} MB; {used}"


def vectors(folder: Path | None) -> list[Finding]:
    """One finding per file of vectors/: its dimension, from its first two rows."""
    paths = [path for path in _entries(folder, "vectors") if not os.path.isdir(path) and path.suffix != ".npy"]
    if not paths:
        note = "vectors/: e.g. glove.840B.300d.txt from nlp.stanford.edu/projects/glove; runs can use random vectors"
        return [Finding("word vectors", "missing", note)]
    return [_finding(path.name, _dimension, path) for path in paths]


def _dimension(path):
    if not path.exists():
        return "check", NOWHERE
    head = read_head(path)
    return "ok", f"{head.dim} numbers a word, {head.kind}"


def weights(folder: Path | None) -> list[Finding]:
    """One finding per entry of weights/."""
    entries = _entries(folder, "weights")
    if not entries:
        files = f"{CONFIGS[0]}, {WEIGHTS}, vocab.txt"
        note = f"weights/: folders with {files}, for BERT; without, it is trained from scratch"
        return [Finding("pretrained weights", "missing", note)]
    return [_finding(entry.name, _weight, entry) for entry in entries]


def _weight(path):
    if not path.exists():
        return "check", NOWHERE
    if not os.path.isdir(path):
        return "ok", f"{_size(path) / 1e6:.1f} MB"
    if not any((path / name).is_file() for name in CONFIGS) or not (path / WEIGHTS).is_file():
        return "check", f"lacks {CONFIGS[0]} or {WEIGHTS}: BERT cannot start from it; pickled weights are not read"
    vocabulary_files(path)
    return "ok", f"{_size(path) / 1e6:.1f} MB; --config.model.weights={path}"


def _entries(folder, name):
    """The entries of a folder in the data folder; none if it is missing or unreadable."""
    try:
        return sorted((folder / name).iterdir()) if folder else []
    except OSError:
        return []


def _size(path):
    """Bytes of a file, or of the files below a folder."""
    if os.path.isdir(path):
        return sum(os.path.getsize(p) for p in path.rglob("*") if os.path.isfile(p))
    return os.path.getsize(path)


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
    findings, exposed, closed = [], [], []
    for path in (folder, *(path for place in licensed for path in _below(place, closed))):
        try:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                exposed.append(path)
        except FileNotFoundError:
            pass  # a broken link holds no text
        except OSError as error:
            closed.append(error)
    if exposed:
        # The data folder as a whole stays open, because it may also hold public corpora.
        places = [place for place in licensed if any(path.is_relative_to(place) for path in exposed)]
        fixes = [f"chmod go-rwx {folder}"] if folder in exposed else []
        fixes += [f"chmod -R go-rwx {' '.join(map(str, places))}"] if places else []
        note = f"{len(exposed)} files or folders are readable by others: {'; '.join(fixes)}"
        findings.append(Finding("permissions", "check", note))
    if closed:
        note = f"{len(closed)} files or folders cannot be looked at ({closed[0].strerror})"
        findings.append(Finding("permissions", "check", note))
    if any(os.path.lexists(parent / ".git") for parent in (folder.absolute(), *folder.absolute().parents)):
        findings.append(Finding("git", "check", "the folder lies in a git work tree: licensed text could be committed"))
    return findings or [Finding("permissions", "ok", "licensed text is for you alone")]


def _loose(names):
    """Names of licensed files that readers also accept directly in the data folder."""
    files = [{*CORPORA[name].files.values(), CORPORA[name].ground_truth} for name in names if name in CORPORA]
    for file in sorted(set().union(clicr.FILES.values() if "clicr" in names else (), *files) - {""}):
        yield from (file, f"{file}.gz")


def _below(place, closed) -> Iterator[Path]:
    """The path and everything below it; targets of links are included, not entered. closed: receives the errors."""
    yield place
    if not os.path.isdir(place):
        return
    for root, folders, files in os.walk(place, onerror=closed.append):
        yield from (Path(root, name) for name in (*folders, *files))
