"""Where each NLI corpus is: official file names, other accepted names, and where to get the files."""

import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from mednli_jax.errors import DataError, Problems
from mednli_jax.io import check_readable, either_name
from mednli_jax.nli.formats import MOST_NAMES, triple_paths

MOST_FOLDERS = 1000  # searched below a folder for a missing file


@dataclass(frozen=True)
class Corpus:
    """The files of a corpus.

    files: split -> official file name; source: where to get it; genres: those of its training file.
    endings: other endings of the files, tried in this order. older: (part of the names, the same part in an older
    release). triples: whether files `s1.train s2.train labels.train` are accepted.
    folders: split -> the corpus that it is taken from. ground_truth: the file with the test labels where the test file
    has none. optional: splits that may be missing. restricted: whether its licence forbids passing it on.
    """

    files: dict[str, str]
    source: str
    genres: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    older: tuple[str, str] = ("", "")
    triples: bool = False
    folders: dict[str, str] = field(default_factory=dict)
    ground_truth: str = ""
    optional: tuple[str, ...] = ()
    restricted: bool = False

    def names(self, split: str) -> list[str]:
        """File names that may hold a split, the official one first."""
        stem = self.files[split].removesuffix(".jsonl")
        others = [stem + ending for ending in self.endings]
        names = [self.files[split], *others]
        if self.older[0]:
            now, then = self.older
            names += [then.join(name.split(now)) for name in names]
        return [*names, *([f"s1.{split}"] if self.triples else [])]


MEDNLI = {"train": "mli_train_v1.jsonl", "dev": "mli_dev_v1.jsonl", "test": "mli_test_v1.jsonl"}
CORPORA = {
    "mednli": Corpus(
        MEDNLI, "apply for PhysioNet credentialed access at physionet.org/content/mednli", restricted=True
    ),
    # The 405 test pairs of the MEDIQA 2019 shared task, task 1; its participants trained on MedNLI.
    "mediqa_nli": Corpus(
        {**MEDNLI, "test": "mednli_bionlp19_shared_task.jsonl"},
        "apply for PhysioNet credentialed access at physionet.org/content/mednli-bionlp19",
        folders={"train": "mednli", "dev": "mednli"},
        ground_truth="mednli_bionlp19_shared_task_ground_truth.csv",
        restricted=True,
    ),
    "snli": Corpus(
        {"train": "snli_1.0_train.jsonl", "dev": "snli_1.0_dev.jsonl", "test": "snli_1.0_test.jsonl"},
        "download it from nlp.stanford.edu/projects/snli",
        endings=(".txt",),
        triples=True,
    ),
    # MultiNLI's test labels are not public. dev_mismatched holds other genres than training, so it is no dev set here.
    "multinli": Corpus(
        {"train": "multinli_1.0_train.jsonl", "dev": "multinli_1.0_dev_matched.jsonl"},
        "download it from cims.nyu.edu/~sbowman/multinli",
        ("fiction", "government", "slate", "telephone", "travel"),
        endings=(".txt",),
        older=("multinli_1.0", "multinli_0.9"),  # the release that Romanov & Shivade 2018 used
    ),
    # Files of the user, with the fields of SNLI or premise, hypothesis, label (and uid).
    "file": Corpus(
        {"train": "train.jsonl", "dev": "dev.jsonl", "test": "test.jsonl"},
        "put one file of pairs per split (.jsonl, .tsv or .csv)",
        endings=(".tsv", ".csv"),
        triples=True,
        optional=("test",),
    ),
}


def find_files(name: str, corpus: Corpus, folder: Path, needed: str = "") -> dict[str, Path]:
    """split -> the file that holds it.

    needed: the one split that is needed; if it is there, the others may be missing.
    Raises: DataError(s) for missing files, for two of one split.
    """
    paths, problems = {}, Problems()
    found_of = {split: split_paths(name, corpus, folder, split) for split in corpus.files}
    for split, found in found_of.items():
        owner = corpus.folders.get(split, name)
        if not found and split not in corpus.optional and not found_of.get(needed):
            problems.add(_missing(owner, corpus, corpus.files[split], _places(folder, name, owner)))
        elif len(found) > 1 and name == "file":
            names = " and ".join(path.name for path in found)
            problems.add(DataError(f"{names} both hold {split}", file=names, fix="keep one of them"))
        elif found:
            paths[split] = found[0]
    if corpus.ground_truth and "test" in paths and not ground_truth_path(corpus, paths):
        problems.add(_missing(name, corpus, corpus.ground_truth, [paths["test"].parent]))
    problems.raise_if_any()
    return paths


def split_paths(name: str, corpus: Corpus, folder: Path, split: str) -> list[Path]:
    """The files there that could hold a split, the one with the official name first."""
    places = _places(folder, name, corpus.folders.get(split, name))
    return [path for file in corpus.names(split) for path in _find(places, file)]


def source_files(name: str, folder: Path, needed: str = "") -> list[Path]:
    """Every file that load_nli reads for a corpus.

    Raises: as find_files does; DataError(s) also where an s2 or labels file is missing, or a file cannot be read.
    """
    paths = find_files(name, CORPORA[name], Path(folder), needed)
    truth = ground_truth_path(CORPORA[name], paths)
    files = [file for split, path in paths.items() for file in read_with(path, truth if split == "test" else None)]
    problems = Problems()
    for file in files:
        try:
            check_readable(file, "put it beside the s1 file of its split")
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    return files


def ground_truth_path(corpus, paths):
    """The file of test labels; None where the corpus has none, or no test split is there."""
    if not corpus.ground_truth or "test" not in paths:
        return None
    return either_name(paths["test"].with_name(corpus.ground_truth))


def _places(folder, name, owner):
    """Folders that may hold a split of corpus `name`, taken from corpus `owner`."""
    if name == owner:
        return [folder / name if (folder / name).is_dir() else folder]
    return [folder / owner, folder / name, folder, folder.parent / owner]


def _find(places, file):
    """The plain and the gzipped file of that name, in the first of the folders that holds one."""
    of_places = ([path for path in (place / file, place / f"{file}.gz") if path.is_file()] for place in places)
    return next(filter(None, of_places), [])


def _missing(owner, corpus, file, places):
    folder = next((place for place in places if place.is_dir()), None)
    lacking = f"neither {file} nor {file}.gz is in {folder}" if folder else f"no folder {places[0]}"
    if folder and (folder / file).is_dir():
        lacking = f"a folder stands where the file should be, in {folder}"
    elif folder and (folder / file).is_symlink() and not (folder / file).exists():
        lacking = f"a link to nothing stands where the file should be, in {folder}"
    else:
        lacking += _elsewhere(folder, file, own=owner == "file") if folder else ""
    source = CORPORA[owner].source if owner in CORPORA else corpus.source
    if owner == "file":
        return DataError(lacking, file=file, fix=f"{source}, called {Path(file).stem}, into --config.data.dir")
    return DataError(lacking, file=file, fix=f"put {file} into $MEDNLI_JAX_DATA/{owner}/; to get it, {source}")


def _elsewhere(folder, file, *, own):
    """Where the file may be instead, as a further sentence of a message: below the folder.

    own: for the user's own files, of which all that could be meant are named.
    """
    for root, _, files in islice(os.walk(folder), MOST_FOLDERS):
        if found := {file, f"{file}.gz"} & set(files):
            return f". Did you mean {Path(root) / found.pop()}?"
    if own and (others := sorted(path.name for path in folder.iterdir() if path.suffixes and path.is_file())):
        return f"; there are {', '.join(others[:MOST_NAMES])}"
    return ""


def read_with(path, ground_truth=None):
    """All files that are read for one split."""
    paths = list(triple_paths(path).values()) if path.name.startswith("s1.") else [path]
    return [*paths, *([Path(ground_truth)] if ground_truth else [])]
