"""TFDS builders of MedNLI, MEDIQA-NLI, SNLI and MultiNLI over the package's own readers, without
TensorFlow.

    builder = Mednli(data_dir=FOLDER)
    config = tfds.download.DownloadConfig(manual_dir=DATA)
    builder.download_and_prepare(download_config=config, file_format="array_record")
    builder.as_data_source("train")[0]["premise"]

`load_tfds` does this and returns the Splits that the reader returns. TFDS shuffles the records by
hash and returns strings as bytes, so each record has its row number. Labels are strings:
`examples.LABELS` has the order of classes.
"""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from mednli_jax.data.examples import NLIExample, Split
from mednli_jax.errors import RunError
from mednli_jax.files.writing import atomic_folder, digest, private_folder, sha256, writing
from mednli_jax.nli.encode import texts
from mednli_jax.nli.read import readers
from mednli_jax.nli.read.corpora import CORPORA, source_files
from mednli_jax.terminal import warn
from mednli_jax.types import PyTree

RELEASE = "1.0.0"
_FIX = "free space, or choose another folder ($MEDNLI_JAX_CACHE)"
_TEXTS = ("uid", "premise", "hypothesis", "label", "group")
_SEQUENCES = ("premise_tokens", "hypothesis_tokens", "tags")

Record = Mapping[str, PyTree]  # the fields of a pair, strings as bytes
Records = Iterator[tuple[int, Record]]


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
    tfds.core.GeneratorBasedBuilder,
    skip_registration=True,  # type: ignore[call-arg]
):
    """Premise-hypothesis pairs, one a record. `info.metadata` holds the facts of each split."""

    VERSION = tfds.core.Version(RELEASE)
    RELEASE_NOTES = {RELEASE: "First release."}  # noqa: RUF012 - a name and form of TFDS
    BUILDER_CONFIGS = [ALL]  # noqa: RUF012
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Put the official files into manual_dir, or into a folder of it named like the corpus."
    )

    def _info(self) -> tfds.core.DatasetInfo:
        features = {"row": tfds.features.Scalar(np.int64)}
        features |= {name: tfds.features.Text() for name in _TEXTS}
        features |= {name: tfds.features.Sequence(tfds.features.Text()) for name in _SEQUENCES}
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"Premise-hypothesis pairs of {self.name}. {CORPORA[self.name].source}",
            features=tfds.features.FeaturesDict(features),
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Records]:
        chosen = self.builder_config
        splits = readers.load_nli(
            self.name,
            Path(dl_manager.manual_dir),
            limit=chosen.limit,
            genre=chosen.genre,
        )
        facts, records = {}, {}
        for name, split in splits.items():
            facts[name] = split.facts
            records[name] = self._generate_examples(split)
        self.info.metadata.update(facts=facts)
        return records

    def _generate_examples(self, split: Split[NLIExample]) -> Records:
        for row, pair in enumerate(split.examples):
            yield row, {"row": row, **dataclasses.asdict(pair)}


def _builder(name: str) -> type[PairBuilder]:
    return type(
        name.title().replace("_", ""), (PairBuilder,), {"name": name}, skip_registration=True
    )


Mednli, MediqaNli, Snli, Multinli = map(_builder, ("mednli", "mediqa_nli", "snli", "multinli"))
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
    """Writes the chosen pairs of a corpus, for its owner alone."""
    config = tfds.download.DownloadConfig(manual_dir=str(manual_dir), try_download_gcs=False)
    with atomic_folder(root, fix=_FIX) as temporary:
        with _quiet():
            built = builder(data_dir=temporary, config=chosen)
            built.download_and_prepare(download_config=config, file_format="array_record")
        for path in temporary.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)


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
        values: dict[str, PyTree] = {name: record[name].decode() for name in _TEXTS}
        for name in _SEQUENCES:
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
