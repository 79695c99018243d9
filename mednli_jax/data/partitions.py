"""Files about the pairs or queries of a corpus by uid: lists of ids, and tables of uid and
category.

A partition, such as the easy pairs of a corpus, holds one id a line, or is a NumPy array of strings
(.npy), as Herlihy & Rudinger 2021 publish theirs. The ids are uids of pairs, or all are numbered: a
split's name, and a number that counts the pairs from 0 through train, dev and test. MedNLI has
11,232 training pairs, so that its first dev pair is dev11232.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mednli_jax.data.arrays import Prepared
from mednli_jax.errors import DataError, Problems
from mednli_jax.files.paths import local_path
from mednli_jax.files.reading import check_readable, either_name, empty_file, text_lines

if TYPE_CHECKING:
    from mednli_jax.nli.corpus import NLICorpus


@dataclass(frozen=True)
class Partition:
    """The ids of a file in its order. lines: the line of each id, or its place in the array,
    counted from 1."""

    name: str
    file: str
    ids: tuple[str, ...]
    lines: tuple[int, ...]


def read_partition(path: Path | str) -> Partition:
    """Reads ids from NAME.npy, or from a plain or gzipped text file with one id a line. Blank lines
    are skipped; an id that comes again counts once."""
    path = local_path(path, "--partition")
    path, problems = either_name(path) or path, Problems()
    line_of: dict[str, int] = {}
    is_array = path.suffix == ".npy"
    lines = _array_ids(path) if is_array else text_lines(path, problems)
    for line, text in lines:
        uid = text.strip()
        if uid:
            line_of.setdefault(uid, line)
    problems.raise_if_any()
    if not line_of:
        raise empty_file(path, "no ids")
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    return Partition(stem, path.name, tuple(line_of), tuple(line_of.values()))


def _array_ids(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (place from 1, id) of an array."""
    check_readable(path)
    try:
        array = np.load(path, allow_pickle=False)
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8")
        is_strings = array.dtype.kind == "U" and array.ndim == 1
    except Exception:  # NumPy parses a damaged header as Python, which may raise anything
        is_strings = False
    if not is_strings:
        fix = (
            "write the ids as text, one a line, or as strings: numpy.save(path, numpy.array(ids,"
            " dtype=str))"
        )
        raise DataError("is no array of strings on one axis", file=path.name, fix=fix)
    yield from enumerate(array.tolist(), 1)


def read_partitions(paths: Sequence[str]) -> list[Partition]:
    """Reads several partitions. Each is named after its file, or after its path if two files have
    one name."""
    partitions = list(map(read_partition, paths))
    if len({partition.name for partition in partitions}) == len(partitions):
        return partitions
    named = zip(partitions, paths, strict=True)
    return [replace(partition, name=str(path)) for partition, path in named]


def uids_in_corpus(partition: Partition, prepared: Prepared, corpus: "NLICorpus") -> frozenset[str]:
    """The uids of the pairs of a prepared corpus that a partition names."""
    gaps = set()
    for split, facts in prepared.manifest["splits"].items():
        # tfds shuffles the pairs, a genre leaves some out, and augmentation adds some: the place of
        # a pair in its file is then unknown.
        lacks_pairs = facts.get("dropped_unlabelled") or corpus.builder == "tfds" or corpus.genre
        if lacks_pairs or "augmentation" in facts:
            gaps.add(split)
    uids = {name: rows.uids for name, rows in prepared.splits.items()}
    is_part = bool(corpus.limit or corpus.genre or corpus.partition)
    return uids_in_splits(partition, uids, gaps=gaps, filtered=is_part)


def uids_in_splits(
    partition: Partition,
    splits: Mapping[str, Sequence[str]],
    *,
    gaps: Collection[str] = (),
    filtered: bool = False,
) -> frozenset[str]:
    """The uids of the pairs in these splits that a partition names. Raises DataError for ids of no
    pair.

    Args:
      splits: name -> uids of its pairs in order.
      gaps: splits in which a pair's place differs from its place in the file. Numbered ids are
        unknown in the first of them and in all later splits.
      filtered: only a part of the corpus is loaded. All numbered ids are unknown then, and unknown
        uids are an error only if all are unknown.
    """
    uids_of_corpus = {uid for uids in splits.values() for uid in uids}
    ids: Sequence[str] = partition.ids
    if not filtered and uids_of_corpus.isdisjoint(ids):
        uid_of = _uids_by_number(splits, gaps)
        ids = [uid_of.get(numbered_id, numbered_id) for numbered_id in ids]
    located = zip(ids, partition.lines, strict=True)
    lines_of_unknown = [line for uid, line in located if uid not in uids_of_corpus]
    most_unknown = len(ids) - 1 if filtered else 0
    if len(lines_of_unknown) > most_unknown:
        problem = (
            f"{len(lines_of_unknown):,} of {len(ids):,} ids belong to no pair of the corpus; this"
            " is the first"
        )
        fix = (
            "give a partition of this corpus, or the corpus of this partition; ids such as dev11232"
            " need a corpus with all its pairs in order (no genre, no limit, no tfds)"
        )
        raise DataError(problem, file=partition.file, line=lines_of_unknown[0], fix=fix)
    return frozenset(ids) & uids_of_corpus


def _uids_by_number(splits: Mapping[str, Sequence[str]], gaps: Collection[str]) -> dict[str, str]:
    """numbered id, such as dev11232 -> uid, for the splits before the first with gaps."""
    uid_of: dict[str, str] = {}
    first = 0
    for split, uids in splits.items():
        if split in gaps:
            break
        uid_of |= {f"{split}{number}": uid for number, uid in enumerate(uids, first)}
        first += len(uids)
    return uid_of


def names_by_uid(
    path: Path | str,
    column: str,
    names: Collection[str],
    aliases: Mapping[str, str],
    *,
    problem: str,
) -> dict[str, tuple[str, ...]]:
    """Reads rows `uid TAB name` into {uid: names}. A uid with several rows has several names.

    Args:
      column: name of the second column in the header, which the file may have.
      names: the allowed values, in any case.
      aliases: other word -> name.
      problem: the message for a row that does not have this form.
    """
    path, problems = Path(path), Problems()
    names_of: dict[str, list[str]] = {}
    for number, line in text_lines(path, problems):
        cells = list(map(str.strip, line.split("\t")))
        folded = cells[-1].casefold()
        name = aliases.get(folded, folded)
        if len(cells) == 2 and cells[0] and name in names:
            names_of.setdefault(cells[0], []).append(name)
        elif line.strip() and (number, cells) != (1, ["uid", column]):
            fix = f"give a uid, a tab and one of {', '.join(names)}"
            problems.add(DataError(problem, file=path.name, line=number, fix=fix))
    problems.raise_if_any()
    return {uid: tuple(dict.fromkeys(repeated)) for uid, repeated in names_of.items()}
