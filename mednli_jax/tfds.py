"""TFDS builders of the corpora over the package's own readers, without TensorFlow.

    import tensorflow_datasets as tfds
    import mednli_jax.tfds

    tfds.data_source("clicr", split="dev", data_dir=FOLDER)[0]["query"]

The official files are in $MEDNLI_JAX_DATA, or in the `manual_dir` of a DownloadConfig. `mednli`,
`mediqa_nli` and `clicr` are registered. TFDS itself has builders of SNLI and MultiNLI; ours serve
`load_tfds`, which gives the Splits that the reader gives. TFDS shuffles records by hash, so each
record has its row number. It returns strings as bytes, which `load_tfds` decodes. Labels are
strings; their numbers are their places in `examples.LABELS`.
"""

import contextlib
import dataclasses
import os
import shutil
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from mednli_jax.cloze import clicr
from mednli_jax.data.examples import ClozeExample, Example, NLIExample, Split
from mednli_jax.errors import RunError
from mednli_jax.files.paths import variable_path
from mednli_jax.files.writing import atomic_folder, digest, private_folder, sha256, writing
from mednli_jax.nli.encode import texts
from mednli_jax.nli.read import readers
from mednli_jax.nli.read.corpora import source_files
from mednli_jax.terminal import warn
from mednli_jax.types import PyTree

RELEASE = "1.0.0"
_FIX = "free space, or choose another folder ($MEDNLI_JAX_CACHE)"

Record = Mapping[str, PyTree]  # the fields of an example, strings as bytes
Records = Iterator[tuple[int, Record]]


class CorpusBuilder(tfds.core.GeneratorBasedBuilder, Generic[Example]):
    """Examples of a corpus, one a record. `info.metadata` holds the facts of each split."""

    VERSION = tfds.core.Version(RELEASE)
    RELEASE_NOTES = {RELEASE: "First release."}  # noqa: RUF012 - a name and form of TFDS
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Put the official files into manual_dir, or into a folder of it named like the corpus."
    )
    strings: tuple[str, ...] = ()  # the fields that are strings
    sequences: tuple[str, ...] = ()  # the fields that are sequences of strings

    @abstractmethod
    def read(self, folder: Path) -> Mapping[str, Split[Example]]:
        """The splits of the corpus, from its folder or the data folder that holds it."""

    @abstractmethod
    def record(self, example: Example) -> Record:
        """The fields of an example."""

    def features(self) -> dict[str, PyTree]:
        """The types of the fields of a record."""
        features = {"row": tfds.features.Scalar(np.int64)}
        features |= {name: tfds.features.Text() for name in self.strings}
        features |= {name: tfds.features.Sequence(tfds.features.Text()) for name in self.sequences}
        return features

    def download_and_prepare(
        self,
        *,
        download_dir: str | None = None,
        download_config: tfds.download.DownloadConfig | None = None,
        file_format: str | None = None,
    ) -> None:
        """As in TFDS, for the owner alone, without network and TensorFlow."""
        config = download_config or tfds.download.DownloadConfig()
        folder = config.manual_dir or variable_path("MEDNLI_JAX_DATA")
        config = dataclasses.replace(config, manual_dir=folder, try_download_gcs=False)
        mask = os.umask(0o077)
        try:
            super().download_and_prepare(
                download_dir=download_dir,
                download_config=config,
                file_format=file_format or "array_record",
            )
        finally:
            os.umask(mask)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=type(self).__doc__,
            features=tfds.features.FeaturesDict(self.features()),
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Records]:
        facts, records = {}, {}
        for name, split in self.read(Path(dl_manager.manual_dir)).items():
            facts[name] = split.facts
            records[name] = self._generate_examples(split)
        self.info.metadata.update(facts=facts)
        return records

    def _generate_examples(self, split: Split[Example]) -> Records:
        for row, example in enumerate(split.examples):
            yield row, {"row": row, **self.record(example)}


# -- cloze queries ---------------------------------------------------------------------------------


class Clicr(CorpusBuilder[ClozeExample]):
    """CliCR: gap-filling queries about case reports, with the fields and marks of its files."""

    strings = ("source", "specialty", "title", "context", "id", "query")

    def features(self) -> dict[str, PyTree]:
        answer = {name: tfds.features.Text() for name in ("text", "cui", "sem_type", "origin")}
        return {**super().features(), "answers": tfds.features.Sequence(answer)}

    def read(self, folder: Path) -> Mapping[str, Split[ClozeExample]]:
        return clicr.load(folder)

    def record(self, example: ClozeExample) -> Record:
        article = clicr.article(example.passage, [example])
        document = article["document"]
        (query,) = document.pop("qas")
        specialty = example.passage.specialty
        return {"source": article["source"], **document, "specialty": specialty, **query}


# -- pairs of sentences ----------------------------------------------------------------------------


@dataclasses.dataclass
class BuilderSettings(tfds.core.BuilderConfig):
    """The pairs of a corpus that are built. limit: number of training pairs, None for all. genre:
    "" for all."""

    limit: int | None = None
    genre: str = ""


ALL = BuilderSettings(name="all")  # TFDS compares configs by identity


def builder_settings(limit: int | None = None, genre: str = "") -> BuilderSettings:
    """The settings of a build. Its name is all, slate, first2000 or slate-first2000, for
    example."""
    names = [genre] if genre else []
    if limit:
        names.append(f"first{limit}")
    return BuilderSettings(name="-".join(names), limit=limit, genre=genre) if names else ALL


class PairBuilder(
    CorpusBuilder[NLIExample],
    skip_registration=True,  # type: ignore[call-arg]
):
    """Premise-hypothesis pairs, as examples.NLIExample."""

    BUILDER_CONFIGS = [ALL]  # noqa: RUF012
    strings = ("uid", "premise", "hypothesis", "label", "group", "original")
    sequences = ("premise_tokens", "hypothesis_tokens", "tags")

    def read(self, folder: Path) -> Mapping[str, Split[NLIExample]]:
        chosen = self.builder_config
        return readers.load_nli(self.name, folder, limit=chosen.limit, genre=chosen.genre)

    def record(self, example: NLIExample) -> Record:
        return dataclasses.asdict(example)


class Mednli(PairBuilder):
    """MedNLI (Romanov & Shivade 2018)."""


class MediqaNli(PairBuilder):
    """MEDIQA-NLI, the test pairs of the MEDIQA 2019 shared task."""


class Snli(PairBuilder, skip_registration=True):  # type: ignore[call-arg]
    """SNLI (Bowman et al. 2015)."""


class Multinli(PairBuilder, skip_registration=True):  # type: ignore[call-arg]
    """MultiNLI (Williams et al. 2018)."""


BUILDERS = {builder.name: builder for builder in (Mednli, MediqaNli, Snli, Multinli)}


def load_tfds(
    name: str, folder: Path, manual_dir: Path, *, limit: int | None = None, genre: str = ""
) -> dict[str, Split[NLIExample]]:
    """Loads the Splits of readers.load_nli(name, manual_dir, ...), pair by pair and fact by fact,
    through TFDS.

    Args:
      folder: of built corpora. A corpus is built if it is missing or damaged, or if its files or a
        FORMAT number changed (the older build is then removed).
      manual_dir: the corpus's folder, or the data folder that holds it.
    """
    chosen = builder_settings(limit, genre)
    sources = [[path.name, sha256(path)] for path in source_files(name, manual_dir)]
    key = digest([RELEASE, texts.FORMAT, sources])[:16]
    root = folder / f"{name}-{chosen.name}-{key}"
    splits = _read(BUILDERS[name], root, chosen)
    if splits is None:
        private_folder(folder, ours=True, fix=_FIX)
        shutil.rmtree(root, ignore_errors=True)
        with writing(root, _FIX):
            _build(BUILDERS[name], root, chosen, manual_dir)
            for older in folder.glob(f"{name}-{chosen.name}-{'[0-9a-f]' * 16}"):
                if older != root:
                    shutil.rmtree(older)
        splits = _read(BUILDERS[name], root, chosen)
    if splits is None:
        raise RunError(f"{root}: what was written cannot be read back", fix="check the disk")
    return splits


def _build(
    builder: type[PairBuilder], root: Path, chosen: BuilderSettings, manual_dir: Path
) -> None:
    """Writes the chosen pairs of a corpus."""
    config = tfds.download.DownloadConfig(manual_dir=manual_dir)
    with atomic_folder(root, fix=_FIX) as temporary, _quiet():
        builder(data_dir=temporary, config=chosen).download_and_prepare(download_config=config)


def _read(
    builder: type[PairBuilder], root: Path, chosen: BuilderSettings
) -> dict[str, Split[NLIExample]] | None:
    """Reads the splits below `root`; None if they are missing, or if the checksums of array_record
    show damage."""
    if not root.is_dir():
        return None
    splits = {}
    try:
        with _quiet():
            built = builder(data_dir=root, config=chosen)
            for name, facts in built.info.metadata["facts"].items():
                splits[name] = Split(name, _pairs(built.as_data_source(name)), facts)
    except Exception:  # array_record and protobuf raise many types of errors for a damaged record
        warn(f"{root}: the built corpus is damaged; building it again.")
        return None
    return splits


def _pairs(source: Sequence[Record]) -> tuple[NLIExample, ...]:
    """The pairs in the order of their row numbers."""
    pairs = {}
    for record in source:
        values: dict[str, PyTree] = {name: record[name].decode() for name in PairBuilder.strings}
        for name in PairBuilder.sequences:
            values[name] = tuple(token.decode() for token in record[name])
        pairs[int(record["row"])] = NLIExample(**values)
    return tuple(pairs[row] for row in range(len(pairs)))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences TFDS, which prints its progress to stdout, too."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    tfds.disable_progress_bar()
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    finally:
        logging.set_verbosity(verbosity)
        tfds.enable_progress_bar()
