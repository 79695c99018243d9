"""The files of each corpus of sentence pairs and of the user's own pairs, and where they are."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from mednli_jax.data.corpus import check_name
from mednli_jax.data.labels import NLI_LABELS, UNLABELLED, Labels
from mednli_jax.errors import ConfigError, DataError, Problems
from mednli_jax.files.reading import COLUMNAR, check_readable, either_name
from mednli_jax.nli.read.pair_rows import (
    TRIALS,
    ReadRows,
    hub_shards,
    is_folder_of_shards,
    nli4ct_rows,
    pair_file,
    rqe_rows,
    unread_format,
)

OWN = "file"  # the name of the user's own corpus
# The names of files of a split of the user's own corpus. The first name is ours; the further ones
# are those of data sets on the Hub.
OWN_STEMS = {
    "train": ("train",),
    "dev": ("dev", "validation", "dev_matched", "validation_matched"),
    "test": ("test", "test_matched"),
}
READ_ENDINGS = (".jsonl", ".tsv", ".csv", ".txt", *COLUMNAR)
DATA_ENDINGS = {*READ_ENDINGS, ".json", ".xlsx", ".xls", ".ods", ".pkl"}


@dataclass(frozen=True)
class CorpusFiles:
    """The files of a corpus.

    Args:
      files: split -> official file name.
      source: where to get the files.
      genres: the genres that the training file has.
      endings: other endings of the files, tried in this order.
      older: (part of the names, the same part in an older release or in another folder).
      folders: split -> the corpus that the split is taken from, if it is another corpus.
      ground_truth: the file with the test labels, for a corpus whose test file has none.
      optional: splits that may be missing.
      restricted: whether the licence forbids that other users can read the data folder.
      labels: of the pairs.
      rows: split -> its reader, of a corpus whose files are documents; else the ending tells it.
      trials: whether the files need the folder TRIALS beside them.
    """

    files: dict[str, str]
    source: str
    genres: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    older: tuple[str, str] = ("", "")
    folders: dict[str, str] = field(default_factory=dict)
    ground_truth: str = ""
    optional: tuple[str, ...] = ()
    restricted: bool = False
    labels: Labels = NLI_LABELS
    rows: Mapping[str, ReadRows] = field(default_factory=dict)
    trials: bool = False

    def names(self, split: str) -> list[str]:
        """The file names that may hold a split, the official one first."""
        official = self.files[split]
        stem = official.removesuffix(".jsonl")
        names = [official, *(stem + ending for ending in self.endings)]
        new, old = self.older
        if new:
            names += [name.replace(new, old) for name in names]
        return list(dict.fromkeys(names))


MEDNLI = {"train": "mli_train_v1.jsonl", "dev": "mli_dev_v1.jsonl", "test": "mli_test_v1.jsonl"}
OF_TRIALS = {name: name for name in ("entailment", "contradiction")}
OF_QUESTIONS = {"true": "entailment", "false": "not_entailment", UNLABELLED: UNLABELLED}
RQE_TRAIN = "RQE_Train_8588_AMIA2016.xml"
NLI4CT_ROWS = dict.fromkeys(("train", "dev", "test"), nli4ct_rows)
CORPORA = {
    "mednli": CorpusFiles(
        MEDNLI,
        "apply for PhysioNet credentialed access at physionet.org/content/mednli",
        restricted=True,
    ),
    # The 405 test pairs of the MEDIQA 2019 shared task, task 1; its participants trained on MedNLI.
    "mediqa_nli": CorpusFiles(
        {**MEDNLI, "test": "mednli_bionlp19_shared_task.jsonl"},
        "apply for PhysioNet credentialed access at physionet.org/content/mednli-bionlp19",
        folders={"train": "mednli", "dev": "mednli"},
        ground_truth="mednli_bionlp19_shared_task_ground_truth.csv",
        restricted=True,
    ),
    # RadNLI has no training pairs; those of MedNLI are its authors' baseline.
    "radnli": CorpusFiles(
        {
            "train": MEDNLI["train"],
            "dev": "radnli_dev_v1.jsonl",
            "test": "radnli_test_v1.jsonl",
        },
        "apply for PhysioNet credentialed access at physionet.org/content/radnli-report-inference",
        folders={"train": "mednli"},
        restricted=True,
    ),
    "nli4ct": CorpusFiles(
        {
            "train": "Complete_dataset/train.json",
            "dev": "Complete_dataset/dev.json",
            "test": "Complete_dataset/Gold_test.json",
        },
        "unzip Complete_dataset.zip of github.com/ai-systems/nli4ct",
        older=("Complete_dataset/", ""),
        labels=Labels("", tuple(OF_TRIALS), OF_TRIALS, may_be_mostly_unlabelled=True),
        rows=NLI4CT_ROWS,
        trials=True,
    ),
    # Its test pairs are those of 2023, and changes of them.
    "nli4ct_2024": CorpusFiles(
        {"train": "train.json", "dev": "dev.json", "test": "gold_test.json"},
        "clone github.com/ai-systems/Task-2-SemEval-2024 and unzip its training_data.zip there",
        labels=Labels("", tuple(OF_TRIALS), OF_TRIALS, may_be_mostly_unlabelled=True),
        rows=NLI4CT_ROWS,
        trials=True,
    ),
    "rqe": CorpusFiles(
        {"train": RQE_TRAIN, "dev": RQE_TRAIN, "test": "RQE_Test_302_pairs_AMIA2016.xml"},
        "download it from github.com/abachaa/RQE_Data_AMIA2016",
        labels=Labels(
            "", ("entailment", "not_entailment"), OF_QUESTIONS, may_be_mostly_unlabelled=True
        ),
        rows={
            "train": functools.partial(rqe_rows, is_dev=False),
            "dev": functools.partial(rqe_rows, is_dev=True),
            "test": rqe_rows,
        },
    ),
    "snli": CorpusFiles(
        {
            "train": "snli_1.0_train.jsonl",
            "dev": "snli_1.0_dev.jsonl",
            "test": "snli_1.0_test.jsonl",
        },
        "download it from nlp.stanford.edu/projects/snli",
        endings=(".txt",),
    ),
    # MultiNLI's test labels are not public. dev_mismatched holds other genres than training, so it
    # is no dev set here.
    "multinli": CorpusFiles(
        {"train": "multinli_1.0_train.jsonl", "dev": "multinli_1.0_dev_matched.jsonl"},
        "download it from cims.nyu.edu/~sbowman/multinli",
        ("fiction", "government", "slate", "telephone", "travel"),
        endings=(".txt",),
        older=("multinli_1.0", "multinli_0.9"),  # the release that Romanov & Shivade 2018 used
    ),
    # The fields are those of SNLI, or premise, hypothesis, label (and uid).
    OWN: CorpusFiles(
        {"train": "train.jsonl", "dev": "dev.jsonl", "test": "test.jsonl"},
        "put one file of pairs per split (.jsonl, .tsv, .csv or .parquet)",
        optional=("test",),
    ),
}
# Folders whose licences forbid passing on their content: other users must not be able to read them.
RESTRICTED = (
    *(name for name, corpus in CORPORA.items() if corpus.restricted),
    "notes",
    "umls",
    "snomed",
)


def licensed_files(names: Iterable[str]) -> list[str]:
    """The folders among `names` that are RESTRICTED, and the names of their files, plain and .gz:
    a file may also lie directly in the data folder."""
    folders = [name for name in names if name in RESTRICTED]
    loose: set[str] = set()
    for name in CORPORA.keys() & folders:
        loose.update(CORPORA[name].files.values(), [CORPORA[name].ground_truth])
    files = sorted(loose - {""})
    return [*folders, *files, *(f"{file}.gz" for file in files)]


def check_options(name: str, genre: str) -> None:
    """Refuses an unknown corpus or genre."""
    check_name(name, tuple(CORPORA))
    genres = CORPORA[name].genres
    if genre and genre not in genres:
        fix = f"give one of {', '.join(genres)}" if genres else "leave it out"
        raise ConfigError(f"'{name}' has no genre '{genre}'", field="data.genre", fix=fix)


def find_files(name: str, folder: Path, partial: bool = False) -> dict[str, Path]:
    """Maps each split to the file that holds it; raises DataError for missing files. partial:
    whether one split is enough."""
    corpus, problems = CORPORA[name], Problems()
    files = {split: _files(name, folder, split) for split in corpus.files}
    chosen = {split: paths[0] for split, paths in files.items() if paths}
    for split, paths in files.items():
        is_optional = split in corpus.optional or (partial and chosen)
        if not paths and not is_optional:
            owner = corpus.folders.get(split, name)
            folders = _folders(name, folder, owner)
            problems.add(_missing(owner, corpus.files[split], folders))
            if name == OWN and not chosen:
                break  # no split is there, and the fix is the same for all
        elif name == OWN:
            # Two files may hold the split. Or no file does (is_optional), and one with a misspelled
            # name is meant for it.
            _check_own_files(folder, split, paths, problems)
    if corpus.ground_truth and "test" in chosen and not ground_truth_path(name, chosen):
        problems.add(_missing(name, corpus.ground_truth, [chosen["test"].parent]))
    problems.raise_if_any()
    return chosen


def source_files(name: str, folder: Path, partial: bool = False) -> list[Path]:
    """Every file that readers.load_nli reads for a corpus; each exists and can be read."""
    corpus, paths = CORPORA[name], find_files(name, folder, partial)
    truth = ground_truth_path(name, paths)
    files = [truth] if truth else []
    for path in dict.fromkeys(paths.values()):
        files += [path] if corpus.rows else pair_file(path).paths
        if corpus.trials:
            files += sorted((path.parent / TRIALS).glob("*.json"))
    files = list(dict.fromkeys(files))
    for file in files:
        check_readable(file)
    return files


def ground_truth_path(name: str, paths: dict[str, Path]) -> Path | None:
    """The file of test labels; None for a corpus without one, or without a test split in
    `paths`."""
    file = CORPORA[name].ground_truth
    return either_name(paths["test"].with_name(file)) if file and "test" in paths else None


def _files(name: str, folder: Path, split: str) -> list[Path]:
    """Finds all files that may hold a split: for each name of CorpusFiles.names, the plain and the
    gzipped file in the first folder that has one of the two."""
    corpus = CORPORA[name]
    folders = _folders(name, folder, corpus.folders.get(split, name))
    if name == OWN:
        return _own_files(folders[0], split)
    files = []
    for file in corpus.names(split):
        for place in folders:
            present = [path for path in (place / file, place / f"{file}.gz") if path.is_file()]
            if present:
                files += present
                break
    return files


def labelled_file(folder: Path) -> Path | None:
    """The user's file from which the set of labels is read: of train, else of dev, else of test;
    None for a folder without one."""
    for split in OWN_STEMS:
        if paths := _files(OWN, folder, split):
            return paths[0]
    return None


def _own_files(folder: Path, split: str) -> list[Path]:
    """All files that may hold a split of the user's own corpus, each as pair_rows.pair_file takes
    it."""
    files: list[Path] = []
    for stem in OWN_STEMS[split]:
        for ending in READ_ENDINGS:
            files += filter(Path.is_file, (folder / f"{stem}{ending}{gz}" for gz in ("", ".gz")))
        files += hub_shards(folder, stem)[:1]
        files += filter(is_folder_of_shards, (folder / stem, folder / f"{stem}.parquet"))
    return files


def _folders(name: str, folder: Path, owner: str) -> list[Path]:
    """The folders that may hold a split of corpus `name`, taken from corpus `owner`."""
    if name == owner:
        return [folder / name if (folder / name).is_dir() else folder]
    return [folder / owner, folder / name, folder, folder.parent / owner]


def _missing(owner: str, file: str, folders: Sequence[Path]) -> DataError:
    """The error of a file of corpus `owner` that no folder holds."""
    source = CORPORA[owner].source
    fix = f"put {file} into $MEDNLI_JAX_DATA/{owner}/; to get it, {source}"
    if owner == OWN:
        fix = f"{source}, called {Path(file).stem}, into config.data.dir"
    folder = next(filter(Path.is_dir, folders), None)
    if folder is None:
        return DataError(f"no folder {folders[0]}", file=file, fix=fix)
    if owner == OWN:
        return _missing_own(file, folder, fix)
    problem = f"neither {file} nor {file}.gz is in {folder}"
    if deeper := next(folder.rglob(f"{file}*"), None):
        problem += f", but {deeper} is there"
    return DataError(problem, file=file, fix=fix)


def _missing_own(file: str, folder: Path, fix: str) -> DataError:
    """The error of a split of the user's own corpus that the folder lacks. It names a file that may
    be meant: of an unread format, in a folder below, or with a typo in its name."""
    stem = Path(file).stem
    if path := next(filter(_is_data, sorted(folder.glob(f"{stem}.*"))), None):
        return unread_format(path)
    problem = f"no file called {stem} is in {folder}"
    files = [path.name for path in folder.iterdir() if _is_data(path)]
    below = next(folder.glob(f"*/{stem}*.*"), None)  # as in data/ of the Hub
    if path := below or _find_misspelled(folder, stem):
        problem += f", but {path.relative_to(folder)} is there"
    elif len(files) == 1 and not labelled_file(folder):
        fix = f"split {files[0]} into files called train, dev and, for a score, test"
    return DataError(problem, file=file, fix=fix)


def _check_own_files(folder: Path, split: str, paths: Sequence[Path], problems: Problems) -> None:
    """Adds a problem where two files hold a split of the user's own corpus, or where no file does
    and a file has nearly its name."""
    if len(paths) > 1:
        names = " and ".join(path.name for path in paths[:2])
        problems.add(DataError(f"two files hold {split}", file=names, fix="keep one of them"))
    if paths or not (path := _find_misspelled(folder, split)):
        return
    name = f"{split}{''.join(path.suffixes)}"
    if Path(name.removesuffix(".gz")).suffix not in READ_ENDINGS:
        problems.add(unread_format(path))
        return
    problem = f"is not read, and there is no file of {split}. Did you mean {name}?"
    problems.add(DataError(problem, file=path.name, fix="rename it, or move it elsewhere"))


def _is_data(path: Path) -> bool:
    return path.is_file() and bool(DATA_ENDINGS & {*path.suffixes})


def _find_misspelled(folder: Path, split: str) -> Path | None:
    """A data file that was probably meant to hold a split that was not found, e.g. train:

    1. a file with the right name, and the ending of another format (.xlsx),
    2. a file with a typo in its name (trian.tsv), unless it is named for another split,
    3. else any data file below a folder train/ or train.*/. (If train/ or train.parquet/ holds
       shards, the split was found, and this function is not called.)
    """
    stems_of_splits = [stem for stems in OWN_STEMS.values() for stem in stems]
    # 1 and 2: of the data files that are not named for another split, the one whose stem is most
    # like `split`. An equal stem is most like it.
    path_of = {}
    for path in sorted(folder.glob("*.*")):
        stem = path.name.partition(".")[0].casefold()
        if _is_data(path) and (stem == split or stem not in stems_of_splits):
            path_of[stem] = path
    close = get_close_matches(split, path_of, n=1, cutoff=0.7)
    # 3: used if there is no file of 1 or 2
    inside = sorted([*folder.glob(f"{split}/**/*"), *folder.glob(f"{split}.*/**/*")])
    return path_of[close[0]] if close else next(filter(_is_data, inside), None)
