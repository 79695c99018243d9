"""Files about the pairs or queries of a corpus by uid: lists of ids, and tables of uid and
category.

A partition, such as the easy pairs of a corpus, holds one id a line, or is a NumPy array of strings
(.npy), as Herlihy & Rudinger 2021 publish theirs. An id is a pair's uid. Or, as published, all ids
of a file are the name of a split and the place of the pair in all splits in order, from 0 (dev11232
is the first of MedNLI's dev).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mednli_jax.data.arrays import Prepared
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files import check_readable, either_name, empty_file, local_path, text_lines


@dataclass(frozen=True)
class Partition:
    """The ids of a file in its order. lines: the line of each, or its place in the array, from
    1."""

    name: str
    file: str
    ids: tuple[str, ...]
    lines: tuple[int, ...]


def read_partition(path: Path) -> Partition:
    """Reads ids from NAME.npy, or from a plain or gzipped text file of one id a line; blank lines
    are passed over."""
    path = local_path(path, "--partition")
    path, problems, first = either_name(path) or path, Problems(), {}
    lines = enumerate(_array_ids(path), 1) if path.suffix == ".npy" else text_lines(path, problems)
    for line, text in lines:
        uid = text.strip()
        if uid in first:
            fix = "leave one of them out: a pair is in a partition once"
            problems.add(DataError(f"repeats id {first[uid]}", file=path.name, line=line, fix=fix))
        elif uid:
            first[uid] = line
    problems.raise_if_any()
    if not first:
        raise empty_file(path, "no ids")
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    return Partition(stem, path.name, tuple(first), tuple(first.values()))


def _array_ids(path):
    check_readable(path)
    try:
        array = np.load(path, allow_pickle=False)
        array = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        if array.dtype.kind == "U" and array.ndim == 1:
            return array.tolist()
    except Exception:  # NumPy parses a damaged header as Python, which may raise anything
        pass
    fix = "write the ids as text, one a line, or as strings: numpy.save(path, numpy.array(ids, dtype=str))"
    raise DataError("is no array of strings on one axis", file=path.name, fix=fix)


def read_partitions(paths: Sequence[str]) -> list[Partition]:
    """Reads several. Their names are the files' names, or the paths as given if names are equal."""
    found = [read_partition(path) for path in paths]
    if len(set(paths)) < len(paths):
        raise UsageError("--partition names a file twice", fix="name it once")
    if len({partition.name for partition in found}) < len(found):
        found = [
            replace(partition, name=str(path)) for partition, path in zip(found, paths, strict=True)
        ]
    return found


def uids_of(partition: Partition, prepared: Prepared, data) -> frozenset[str]:
    """The uids of a prepared corpus that are in a partition. data: the NLICorpus."""
    facts = prepared.manifest["splits"]
    gaps = {name for name, of_split in facts.items() if of_split.get("dropped_unlabelled")}
    if data.builder == "tfds" or data.genre:  # the builder shuffles, a genre leaves pairs out
        gaps.update(facts)
    uids = {name: rows.uids for name, rows in prepared.splits.items()}
    return uids_in(partition, uids, gaps=gaps, filtered=bool(data.limit or data.genre))


def uids_in(
    partition: Partition,
    splits: Mapping[str, Sequence[str]],
    *,
    gaps: Collection[str] = (),
    filtered: bool = False,
) -> frozenset[str]:
    """The uids of all pairs of a corpus that are in a partition.

    splits: name -> uids of its pairs in order. gaps: splits whose reader left pairs of the file
    out, from which on numbers are unknown. filtered: only a part of the corpus is loaded: unknown
    uids are no error unless all are.
    """
    every = {uid for uids in splits.values() for uid in uids}
    meant = list(partition.ids)
    if every.isdisjoint(meant):
        places, first = {}, 0
        for split, uids in splits.items():
            if filtered or split in gaps:
                break
            places |= {f"{split}{number}": uid for number, uid in enumerate(uids, first)}
            first += len(uids)
        meant = [places.get(uid, uid) for uid in meant]
    unknown = [line for uid, line in zip(meant, partition.lines, strict=True) if uid not in every]
    if len(unknown) > (len(meant) - 1 if filtered else 0):
        problem = f"{len(unknown):,} of {len(meant):,} ids belong to no pair of the corpus; this is the first"
        fix = "give a partition of this corpus, or the corpus of this partition; numbers over all splits need all pairs"
        raise DataError(problem, file=partition.file, line=unknown[0], fix=fix)
    return frozenset(meant) & every


def read_annotations(
    path: Path, column: str, names: Collection[str], aliases: Mapping[str, str], *, problem: str
) -> dict[str, tuple[str, ...]]:
    """uid -> names, from rows `uid TAB name`. A uid with several rows has several names.

    column: name of the second column in the header, which the file may have. names: what it may
    hold, in any case. aliases: other word -> name. problem: the message for a row that does not
    have this form.
    """
    path, problems, found = Path(path), Problems(), {}
    for number, line in text_lines(path, problems):
        cells = [cell.strip() for cell in line.split("\t")]
        name = aliases.get(cells[-1].casefold(), cells[-1].casefold())
        if len(cells) == 2 and cells[0] and name in names:
            found.setdefault(cells[0], []).append(name)
        elif line.strip() and (number, cells) != (1, ["uid", column]):
            fix = f"give a uid, a tab and one of {', '.join(names)}"
            problems.add(DataError(problem, file=path.name, line=number, fix=fix))
    problems.raise_if_any()
    return {uid: tuple(dict.fromkeys(given)) for uid, given in found.items()}
