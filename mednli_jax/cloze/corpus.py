"""Corpora of cloze queries: CliCR, the demo, and folders in CliCR's layout."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from mednli_jax import demo
from mednli_jax.cloze import clicr
from mednli_jax.cloze.arrays import FORMAT, ClozeEncoding, encode_cloze, encode_new
from mednli_jax.cloze.setups import tag_seen, with_titles
from mednli_jax.data.arrays import Prepared, rows_of_splits
from mednli_jax.data.cache import Cache
from mednli_jax.data.corpus import cache_folder, checked_folder, warn_of_exposure
from mednli_jax.data.examples import ClozeExample, Split
from mednli_jax.data.text import Vocab
from mednli_jax.data.vector_formats import checked_vector_files
from mednli_jax.errors import UsageError
from mednli_jax.files.paths import local_path, variable_path
from mednli_jax.types import JsonObject

DEMO, CLICR, FILE = "demo_cloze", "clicr", "file"
NAMES = (DEMO, CLICR, FILE)


@dataclass(frozen=True, eq=False)
class ClozeCorpus:
    """A corpus of cloze queries (see data.corpus.Corpus).

    Args:
      name: demo_cloze; clicr, whose passages begin with their titles; or file, a corpus of the
        user's in CliCR's layout, whose passages have no titles.
      folder: where the files are; None for demo_cloze.
      limit: how many training queries to keep, from the first; None = all.
    """

    name: str
    encoding: ClozeEncoding
    folder: Path | None = None
    limit: int | None = None

    @property
    def title(self) -> str:
        return self.name

    def splits(self) -> Mapping[str, Split[ClozeExample]]:
        """Train, dev and test. Queries of dev and test have the tags of tag_seen."""
        if self.name == DEMO:
            splits = clicr.load_demo_cloze()
            train = splits["train"]
            splits["train"] = replace(train, examples=train.examples[: self.limit])
            return tag_seen(splits)
        is_clicr = self.name == CLICR
        folder = checked_folder(self.name, self.folder)
        # The titles become part of CliCR's passages only below, by with_titles. But `load` has to
        # count the marked phrases of a title as candidates already.
        splits = clicr.load(folder, limit=self.limit, titles=is_clicr)
        if is_clicr:
            warn_of_exposure(self.folder, clicr.LICENSED)
            splits = {name: with_titles(split) for name, split in splits.items()}
        return tag_seen(splits)

    def read_vocabulary(self, path: Path) -> Vocab:
        return Vocab.load(path)

    def encode(
        self,
        splits: Mapping[str, Split[ClozeExample]],
        vocabulary: Vocab,
        vectors: np.ndarray,
        types: Sequence[str] | None = None,
    ) -> Prepared:
        """See data.corpus.Corpus. types: training_phrases of the run's corpus, which keep their
        numbers; other phrases are numbered after them."""
        arrays, facts = encode_new(splits, vocabulary, self.encoding, types or ())
        return Prepared(None, facts, arrays, vectors, rows_of_splits(splits, arrays, facts))

    def prepare(self) -> tuple[Prepared, bool]:
        """See data.corpus.Corpus. Training queries without a right candidate are left out; those of
        dev and test are not."""
        cache = Cache(cache_folder())
        prepared, was_cached = cache.get(
            self.name, self.key(cache), lambda: encode_cloze(self.splits(), self.encoding)
        )
        if self.name == CLICR:  # `splits` warns, too, but is not called if the cache has the corpus
            warn_of_exposure(self.folder, clicr.LICENSED)
        return prepared, was_cached

    def key(self, cache: Cache) -> JsonObject:
        """Everything that shapes the arrays, as JSON: settings, and sources by content."""
        path = self.encoding.vectors_path
        return {
            "corpus": self.name,
            "limit": self.limit or 0,
            "format": FORMAT,
            **asdict(self.encoding),
            "vectors_path": path and str(path),
            "sources": cache.digests(self.source_files()),
        }

    def source_files(self) -> list[Path]:
        """All files whose content shapes the arrays."""
        if self.name == DEMO:
            files = demo.demo_files("cloze")
        else:
            files = list(clicr.source_files(checked_folder(self.name, self.folder)).values())
        return [*files, *checked_vector_files(self.encoding.vectors_path)]


def read_splits(name: str) -> Mapping[str, Split[ClozeExample]]:
    """The splits of a corpus.

    name: demo_cloze, clicr (which is in $MEDNLI_JAX_DATA/clicr), or a folder in CliCR's layout.
    """
    encoding = ClozeEncoding("ent")  # the examples do not depend on it
    if name == DEMO:
        return ClozeCorpus(DEMO, encoding).splits()
    folder = variable_path("MEDNLI_JAX_DATA") if name == CLICR else local_path(name, "the corpus")
    if folder is None:
        fix = "set it, or give a folder"
        raise UsageError(f"{CLICR}: $MEDNLI_JAX_DATA is not set", fix=fix)
    if not folder.is_dir():
        fix = f"give {DEMO}, {CLICR}, or a folder in CliCR's layout"
        raise UsageError(f"{folder}: is no folder", fix=fix)
    return ClozeCorpus(CLICR if name == CLICR else FILE, encoding, folder).splits()


def notes_of(splits: Mapping[str, Split[ClozeExample]]) -> list[str]:
    """The distinct remarks on the splits, sorted."""
    notes = {split.facts["note"] for split in splits.values() if "note" in split.facts}
    return sorted(notes)


OfSplit = TypeVar("OfSplit")  # values of a mapping from names of splits


def split_of(splits: Mapping[str, OfSplit], name: str) -> OfSplit:
    """The value of the split that --split names. Raises UsageError if there is no such split."""
    if name not in splits:
        raise UsageError(f"--split={name}: no such split", fix=f"give one of {', '.join(splits)}")
    return splits[name]
