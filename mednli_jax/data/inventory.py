"""What lies below the data folder: corpora with their counts, vectors, weights, and who can read them."""

import gzip
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.data import nli
from mednli_jax.text import binary_lines

# Pairs in the official files, unlabelled ones included (Romanov & Shivade 2018, Table 2; Bowman et al. 2015;
# Williams et al. 2018).
EXPECTED = {
    "mednli": {"train": 11_232, "dev": 1_395, "test": 1_422},
    "snli": {"train": 550_152, "dev": 10_000, "test": 10_000},
    "multinli": {"train": 392_702, "dev": 10_000},
}


@dataclass(frozen=True)
class Finding:
    """One line of the inventory. state: "ok", "missing" or "check" (found, but not as expected)."""

    what: str
    state: str
    note: str


def count_lines(path: Path) -> int | None:
    """Non-empty lines of a plain or gzipped file; None where it is damaged."""
    try:
        return sum(1 for _, line in binary_lines(path) if line is None or line.strip())
    except (OSError, gzip.BadGzipFile):
        return None


def corpora(folder: Path | None) -> list[Finding]:
    """One finding per split of every corpus with official files."""
    findings = []
    for name, corpus in nli.CORPORA.items():
        if name not in EXPECTED:
            continue
        for split, file in corpus.files.items():
            place = None if folder is None else folder / name
            found = [place / n for n in (file, f"{file}.gz") if (place / n).is_file()] if place else []
            if not found:
                findings.append(Finding(f"{name} {split}", "missing", f"{name}/{file}: {corpus.source}"))
                continue
            rows, expected = count_lines(found[0]), EXPECTED[name].get(split)
            note = "damaged: take a fresh copy" if rows is None else f"{rows:,} pairs"
            if rows is not None and rows != expected:
                note += f", expected {expected:,}"
            findings.append(Finding(f"{name} {split}", "ok" if rows == expected else "check", note))
    return findings


def vectors(folder: Path | None) -> list[Finding]:
    """One finding per file of vectors/: its dimension, read off the first two rows."""
    paths = sorted((folder / "vectors").iterdir()) if folder and (folder / "vectors").is_dir() else []
    findings = [Finding(path.name, *_dimension(path)) for path in paths if path.suffix != ".npy" and path.is_file()]
    if not findings:
        note = "vectors/: e.g. glove.840B.300d.txt from nlp.stanford.edu/projects/glove; runs can use random vectors"
        return [Finding("word vectors", "missing", note)]
    return findings


def _dimension(path):
    try:
        lines = [line for (_, line), _ in zip(binary_lines(path), range(2), strict=False) if line]
    except (OSError, gzip.BadGzipFile):
        return "check", "damaged: copy it again"
    if len(lines) < 2:
        return "check", "no rows"
    return "ok", f"{len(lines[1].split()) - 1} numbers a word"


def weights(folder: Path | None) -> list[Finding]:
    """One finding per entry of weights/."""
    entries = sorted((folder / "weights").iterdir()) if folder and (folder / "weights").is_dir() else []
    if not entries:
        return [Finding("pretrained weights", "missing", "weights/: none needed by the models of this version")]
    return [Finding(entry.name, "ok", f"{_size(entry) / 1e6:.1f} MB") for entry in entries]


def _size(path):
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def privacy(folder: Path) -> list[Finding]:
    """Warns where others can read below the folder, or where it lies in a git work tree."""
    findings = []
    open_to_others = [
        path for path in (folder, *folder.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o077
    ] if folder.is_dir() else []  # fmt: skip
    if open_to_others:
        note = f"{len(open_to_others)} files or folders are readable by others: chmod -R go-rwx {folder}"
        findings.append(Finding("permissions", "check", note))
    if any((parent / ".git").exists() for parent in (folder.absolute(), *folder.absolute().parents)):
        findings.append(Finding("git", "check", "the folder lies in a git work tree: licensed text could be committed"))
    if not findings and os.path.isdir(folder):
        findings.append(Finding("permissions", "ok", "for you alone"))
    return findings
