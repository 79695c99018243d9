"""The interface of every corpus, and the folders in which its files are searched."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from mednli_jax.data.arrays import Prepared
from mednli_jax.data.cache import Cache
from mednli_jax.data.examples import Example, Split
from mednli_jax.errors import ConfigError
from mednli_jax.files.paths import local_path, variable_path
from mednli_jax.files.reading import either_name
from mednli_jax.terminal import warn
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.data.pieces import PieceVocabulary
    from mednli_jax.data.text import Vocab

Vocabulary = TypeVar("Vocabulary", bound="Vocab | PieceVocabulary", contravariant=True)


class Corpus(Protocol[Example, Vocabulary]):
    """A corpus and the settings of its encoding. title: the name in results, e.g.
    `multinli/slate`."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...

    def splits(self) -> Mapping[str, Split[Example]]:
        """Reads the examples from their files, in the order of `in_order`."""

    def key(self, cache: Cache, /) -> JsonObject:
        """Everything that shapes the arrays, as JSON. "sources" has the digest of each file by
        name."""

    def prepare(self) -> tuple[Prepared, bool]:
        """Returns (the corpus as arrays, whether the cache had it). Prepares the corpus if the
        cache lacks it."""

    def encode(
        self,
        splits: Mapping[str, Split[Example]],
        vocabulary: Vocabulary,
        vectors: np.ndarray,
        fixed_names: Sequence[str] | None = None,
        /,
    ) -> Prepared:
        """Encodes texts of any source as arrays in memory, in the vocabulary [V] and the vectors
        [V, D] of a run. Nothing is written.

        fixed_names: what else the run fixed in training: the concepts of its knowledge graph, or
        the phrases that its model scores; None if the run stores neither.
        """

    def read_vocabulary(self, path: Path) -> Vocab | PieceVocabulary:
        """Reads the vocabulary.json of a prepared corpus. In the result, `words[i]` is the word or
        piece of number i."""


ORDER = ("train", "dev", "test")


def in_order(splits: Mapping[str, Split]) -> dict[str, Split]:
    """The splits in ORDER, then others as they come. Arrays have their rows in this order: those of
    train are first."""
    names = dict.fromkeys((*ORDER, *splits))
    return {name: splits[name] for name in names if name in splits}


def cache_folder() -> Path:
    """$MEDNLI_JAX_CACHE, else ~/.cache/mednli_jax."""
    return variable_path("MEDNLI_JAX_CACHE") or Path("~/.cache/mednli_jax").expanduser()


def corpora_folder(folder: str | Path | None) -> Path | None:
    """The folder of licensed corpora: that of the config, else $MEDNLI_JAX_DATA, else None."""
    return local_path(folder, "config.data.dir") if folder else variable_path("MEDNLI_JAX_DATA")


def search_folders(folder: Path | None) -> list[Path]:
    """The folders in which ontologies, vectors and weights are searched: the data folder of the
    config, then $MEDNLI_JAX_DATA."""
    folders = (folder and Path(folder).expanduser(), variable_path("MEDNLI_JAX_DATA"))
    return list(dict.fromkeys(filter(None, folders)))


def file_path(path: str | None, folder: Path | None) -> Path | None:
    """The path of a file that a config names, plain or gzipped; None for an empty path.

    $MEDNLI_JAX_DATA in the path stands for each of `search_folders` in turn, and the first file or
    folder that exists is taken. If there is none, the first path is returned.
    """
    if not path:
        return None
    folders = map(str, search_folders(folder))
    texts = [path.replace("$MEDNLI_JAX_DATA", place) for place in folders] or [path]
    paths = [local_path(os.path.expandvars(text), "a path of the config") for text in texts]
    for candidate in paths:
        existing = either_name(candidate) or (candidate if candidate.is_dir() else None)
        if existing:
            return existing
    return paths[0]


def checked_folder(name: str, folder: Path | None) -> Path:
    """The folder of the corpus `name`, unchanged. Raises ConfigError if it is None, a file or
    missing."""
    if folder is None:
        raise _no_folder(name)
    if folder.is_file():
        fix = "give the folder that holds a file for each split: train, dev and, for a score, test"
        raise ConfigError(f"{folder}: is a file, not a folder", field="data.dir", fix=fix)
    if not folder.is_dir():
        by_variable = os.environ.get("MEDNLI_JAX_DATA") and folder == corpora_folder(None)
        source = "$MEDNLI_JAX_DATA" if by_variable else "config.data.dir"
        hint = "was it moved, or is the path relative to another directory?"
        problem = f"{folder}: {source} names this folder, which does not exist ({hint})"
        raise ConfigError(problem, fix=f"put it back, or correct {source}")
    return folder


def _no_folder(name: str) -> ConfigError:
    if name == "file":
        fix = "give config.data.dir=FOLDER with the files of each split in it"
        return ConfigError("no folder is set for your own files", fix=fix)
    fix = f"set $MEDNLI_JAX_DATA to the folder that holds {name}/, or give config.data.dir=FOLDER"
    return ConfigError(f"no data folder is set for corpus '{name}'", fix=fix)


def corpus_folder(data: ConfigDict) -> Path | None:
    """The folder with the corpus of a config's section `data`. $MEDNLI_JAX_DATA is not used for the
    user's own files (the corpus "file")."""
    if data.name == "file" and not data.dir:
        return None
    return corpora_folder(data.dir)


def check_name(name: str, names: Sequence[str]) -> None:
    """Raises ConfigError for an unknown corpus."""
    if name not in names:
        fix = f"give one of {', '.join(names)}"
        raise ConfigError(f"unknown corpus '{name}'", field="data.name", fix=fix)


def left_out(facts: JsonObject) -> str:
    """Counts the rows of a corpus that are not examples, by reason: "200 repeated, 20 without
    positive"; "" if there are none."""
    counts = dict(facts.get("left_out", {}))
    counts["repeated"] = facts.get("repeated", 0)
    counts["same_name"] = facts.get("same_name", 0)
    reasons = []
    for reason in sorted(counts):
        if counts[reason]:
            reasons.append(f"{counts[reason]:,} {reason.replace('_', ' ')}")
    return ", ".join(reasons)


def exposure(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Finds ways in which licensed text below a data folder is exposed, a sentence for each.

    The key "permissions" means that others can read files; the key "git" means that the folder lies
    in a git work tree.

    names: licensed folders and files in the data folder; public corpora may be open.
    """
    licensed = [folder / name for name in names if os.path.exists(folder / name)]
    if not licensed:
        return {}
    problems = {}
    paths = {folder, *licensed}
    for root in licensed:
        paths.update(root.rglob("*"))
    # A link to nothing holds no text.
    exposed = [path for path in paths if path.exists() and path.stat().st_mode & 0o077]
    if exposed:
        commands = "; ".join(_chmod_commands(folder, licensed, exposed))
        problem = f"{len(exposed)} files or folders are readable by others"
        problems["permissions"] = f"{problem}: {commands}"
    absolute = folder.absolute()
    if any(os.path.lexists(parent / ".git") for parent in (absolute, *absolute.parents)):
        problems["git"] = "the folder lies in a git work tree: licensed text could be committed"
    return problems


def _chmod_commands(
    folder: Path, licensed: Sequence[Path], exposed: Sequence[Path]
) -> Iterator[str]:
    """Yields the commands that close the exposed paths to others. The data folder is closed without
    -R, because it may also hold public corpora, which keep their permissions."""
    if folder in exposed:
        yield f"chmod go-rwx {folder}"
    roots = []
    for root in licensed:
        if any(path.is_relative_to(root) for path in exposed):
            roots.append(str(root))
    if roots:
        yield f"chmod -R go-rwx {' '.join(roots)}"


@cache
def warn_of_exposure(folder: Path, names: tuple[str, ...]) -> None:
    """Warns once, in one line, of the licensed text that is exposed. Arguments: see `exposure`."""
    problems = exposure(folder, names).values()
    if problems:
        warn(f"{folder}: holds licensed text; {'; '.join(problems)}.")
