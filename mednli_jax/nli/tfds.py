"""TFDS builders of MedNLI, MEDIQA-NLI, SNLI and MultiNLI over the package's own readers, without
TensorFlow.

    builder = Mednli(data_dir=FOLDER)
    config = tfds.download.DownloadConfig(manual_dir=DATA)
    builder.download_and_prepare(download_config=config, file_format="array_record")
    builder.as_data_source("train")[0]["premise"]

`load_tfds` does this and gives the Splits that the reader gives. TFDS shuffles the records by hash
and returns strings as bytes, so each record has its row number. Labels are strings:
`examples.LABELS` has the order of classes.
"""

import contextlib
import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from mednli_jax.data.examples import NLIExample, Split
from mednli_jax.errors import ConfigError, RunError
from mednli_jax.files import atomic_folder, digest, private_folder, sha256, writing
from mednli_jax.nli import encoding, readers
from mednli_jax.nli.corpora import CORPORA, check_options, source_files
from mednli_jax.terminal import warn

RELEASE = "1.0.0"
_FIX = "free space, or choose another folder ($MEDNLI_JAX_CACHE)"
_TEXTS = ("uid", "premise", "hypothesis", "label", "group")
_SEQUENCES = ("premise_tokens", "hypothesis_tokens", "tags")


@dataclasses.dataclass
class Part(tfds.core.BuilderConfig):
    """The part of a corpus that is built. limit: number of training pairs, 0 = all; genre: "" =
    all."""

    limit: int = 0
    genre: str = ""


ALL = Part(name="all")  # TFDS compares configs by identity


def part(limit: int | None = None, genre: str = "") -> Part:
    """The config of a part. Its name is all, slate, first2000 or slate-first2000, for example."""
    name = "-".join([*([genre] if genre else []), *([f"first{limit}"] if limit else [])])
    return Part(name=name, limit=limit or 0, genre=genre) if name else ALL


class PairBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Premise-hypothesis pairs, one a record. `info.metadata` holds the facts of each split."""

    VERSION = tfds.core.Version(RELEASE)
    RELEASE_NOTES = {RELEASE: "First release."}  # noqa: RUF012 - the name and form that TFDS asks for
    BUILDER_CONFIGS = [ALL]  # noqa: RUF012
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Put the official files into manual_dir, or into a folder of it named like the corpus."
    )

    def _info(self):
        features = {
            "row": tfds.features.Scalar(np.int64),
            **{name: tfds.features.Text() for name in _TEXTS},
        }
        features |= {name: tfds.features.Sequence(tfds.features.Text()) for name in _SEQUENCES}
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"Premise-hypothesis pairs of {self.name}. {CORPORA[self.name].source}",
            features=tfds.features.FeaturesDict(features),
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager):
        choice = {"limit": self.builder_config.limit or None, "genre": self.builder_config.genre}
        splits = readers.load_nli(self.name, Path(dl_manager.manual_dir), **choice)
        self.info.metadata.update(facts={name: split.facts for name, split in splits.items()})
        return {name: self._generate_examples(split) for name, split in splits.items()}

    def _generate_examples(self, split):
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
) -> dict[str, Split]:
    """The Splits of readers.load_nli(name, manual_dir, ...), pair by pair and fact by fact, through
    TFDS.

    folder: where built corpora are kept. A corpus is built if it is missing or damaged, or if its
    files or a FORMAT number changed (the older build is then removed). manual_dir: the corpus's
    folder, or the data folder that holds it.
    """
    if name not in BUILDERS:
        known = ", ".join(BUILDERS)
        raise ConfigError(
            f"'{name}' has no TFDS builder", field="data.builder", fix=f"give one of {known}"
        )
    check_options(name, genre)
    folder, manual_dir, builder, choice = (
        Path(folder),
        Path(manual_dir),
        BUILDERS[name],
        part(limit, genre),
    )
    sources = [[path.name, sha256(path)] for path in source_files(name, manual_dir)]
    root = folder / f"{name}-{choice.name}-{digest([RELEASE, encoding.FORMAT, sources])[:16]}"
    splits = _read(builder, root, choice)
    if splits is None:
        private_folder(root.parent, ours=True, fix=_FIX)
        shutil.rmtree(root, ignore_errors=True)
        how = tfds.download.DownloadConfig(manual_dir=str(manual_dir), try_download_gcs=False)
        with writing(root, _FIX):
            with atomic_folder(root, fix=_FIX) as temporary:
                with _quiet():
                    built = builder(data_dir=temporary, config=choice)
                    built.download_and_prepare(download_config=how, file_format="array_record")
                for path in temporary.rglob("*"):
                    path.chmod(0o700 if path.is_dir() else 0o600)
            for older in folder.glob(f"{name}-{choice.name}-{'[0-9a-f]' * 16}"):
                if older != root:
                    shutil.rmtree(older)
        splits = _read(builder, root, choice)
    if splits is None:
        raise RunError(f"{root}: what was written cannot be read back", fix="check the disk")
    return splits


def _read(builder, root, choice):
    """The splits below `root`; None where they are missing, or damaged by the checksums of
    array_record."""
    if not root.is_dir():
        return None
    try:
        with _quiet():
            built = builder(data_dir=root, config=choice)
            facts = built.info.metadata["facts"]
            return {
                split: Split(split, _pairs(built.as_data_source(split)), facts[split])
                for split in facts
            }
    except Exception:  # array_record and protobuf raise many types of errors for a damaged record
        warn(f"{root}: the built corpus is damaged; building it again.")
        return None


def _pairs(source):
    """Bytes become strings, sequences tuples, and the pairs stand in their own order again."""
    pairs = [None] * len(source)
    for record in source:
        values = {name: record[name].decode() for name in _TEXTS}
        values |= {name: tuple(token.decode() for token in record[name]) for name in _SEQUENCES}
        pairs[int(record["row"])] = NLIExample(**values)
    return tuple(pairs)


@contextlib.contextmanager
def _quiet():
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
