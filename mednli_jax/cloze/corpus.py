"""A corpus of cloze queries over passages: its sources, its encoding, and its arrays on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mednli_jax import demo, inventory
from mednli_jax.cloze import clicr, encoding
from mednli_jax.cloze.encoding import ClozeEncoding, encode_cloze
from mednli_jax.cloze.views import tag_seen, with_titles
from mednli_jax.data.arrays import Prepared, rows_of_splits
from mednli_jax.data.cache import Cache
from mednli_jax.data.corpus import cache_folder, required_folder
from mednli_jax.data.examples import Split
from mednli_jax.data.text import Vocab
from mednli_jax.data.vectors import vector_files
from mednli_jax.errors import ConfigError

DEMO, CLICR, FILE = NAMES = ("demo_cloze", "clicr", "file")


@dataclass(frozen=True, eq=False)
class ClozeCorpus:
    """A corpus of cloze queries (see base.Corpus).

    name: demo_cloze (bundled); clicr, whose passages begin with their titles, as its published readers and baselines
    read them; or file, a folder in CliCR's layout, whose passages are the contexts alone.
    folder: of the files. limit: first queries of train. stray_marks: see clicr.read_clicr.
    """

    name: str
    encoding: ClozeEncoding
    folder: Path | None = None
    limit: int | None = None
    stray_marks: str = "text"

    @property
    def title(self) -> str:
        return self.name

    def splits(self) -> Mapping[str, Split]:
        """Train, dev and test, the queries of dev and test tagged seen or unseen."""
        return read(self.name, self.folder, limit=self.limit, stray_marks=self.stray_marks)

    def read_vocabulary(self, path: Path) -> Vocab:
        return Vocab.load(path)

    def encoded(self, splits, vocabulary, vectors, types: Sequence[str] | None = None) -> Prepared:
        """See base.Corpus. types: the phrases that have an output in the model."""
        arrays, facts = encoding.encode_new(splits, vocabulary, self.encoding, types or ())
        return Prepared(None, facts, arrays, vectors, rows_of_splits(splits, arrays, facts))

    def prepare(self) -> tuple[Prepared, bool]:
        """See base.Corpus. Training queries without a right candidate are left out; dev and test keep them."""
        cache = Cache(cache_folder())
        found = cache.get(self.name, self.key(cache), lambda: encode_cloze(self.splits(), self.encoding))
        if self.folder is not None:
            inventory.warn(self.folder, (self.name,))
        return found

    def key(self, cache: Cache) -> dict:
        """Everything that shapes the arrays, as JSON: settings, and sources by content."""
        settings = {name: str(v) if isinstance(v, Path) else v for name, v in vars(self.encoding).items()}
        choice = {"limit": self.limit or 0, "stray_marks": self.stray_marks}
        return {
            "corpus": self.name,
            **choice,
            **settings,
            "format": encoding.FORMAT,
            "sources": cache.digests(self.source_files()),
        }

    def source_files(self) -> list[Path]:
        """All files whose content shapes the arrays."""
        if self.name == DEMO:
            files = demo.demo_files(demo.CLOZE)
        else:
            files = list(clicr.source_files(required_folder(self.name, self.folder)).values())
        for path in vector_files(self.encoding.vectors_path) if self.encoding.vectors_path else ():
            if not path.is_file():  # checked before the corpus is read
                raise ConfigError(f"{path}: there is no such file. Fix: check --config.vectors.path.")
            files.append(path)
        return files


def read(
    name: str, folder: Path | None = None, *, limit: int | None = None, stray_marks: str = "text"
) -> Mapping[str, Split]:
    """The splits of a ClozeCorpus, for callers that need no arrays."""
    if name == DEMO:
        splits = demo.load_demo_cloze()
        train = splits["train"]
        return tag_seen({**splits, "train": replace(train, examples=train.examples[: limit or None])})
    splits = clicr.load(required_folder(name, folder), limit=limit, stray_marks=stray_marks)
    if name == CLICR:
        inventory.warn(folder, (CLICR,))
        splits = {title: with_titles(split) for title, split in splits.items()}
    return tag_seen(splits)
