"""TFDS builders of MedNLI, MEDIQA-NLI, SNLI and MultiNLI; data/tfds.py says how they are used."""

import dataclasses
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from mednli_jax.data.examples import NLIExample, Split
from mednli_jax.data.tfds import CorpusBuilder, load_built
from mednli_jax.errors import ConfigError
from mednli_jax.nli import encoding, readers

_TEXTS = ("uid", "premise", "hypothesis", "label", "group")
_SEQUENCES = ("premise_tokens", "hypothesis_tokens", "tags")


class _NLIBuilder(CorpusBuilder, skip_registration=True):
    """Premise-hypothesis pairs, one a record. manual_dir has the files that readers.CORPORA names."""

    reader_format = encoding.FORMAT

    @property
    def content(self):
        return f"Premise-hypothesis pairs of {self.name}. {readers.CORPORA[self.name].source}"

    @staticmethod
    def fields():
        features = {"row": tfds.features.Scalar(np.int64), **{name: tfds.features.Text() for name in _TEXTS}}
        return features | {name: tfds.features.Sequence(tfds.features.Text()) for name in _SEQUENCES}

    @classmethod
    def files(cls, folder):
        return readers.source_files(cls.name, folder)

    @classmethod
    def load(cls, folder, limit, genre):
        return readers.load_nli(cls.name, folder, limit=limit, genre=genre)

    @staticmethod
    def records(examples):
        for row, pair in enumerate(examples):
            yield {"row": row, **dataclasses.asdict(pair)}

    @staticmethod
    def examples(source):
        """Bytes become strings, sequences tuples, and the pairs stand in their own order again."""
        pairs = [None] * len(source)
        for record in source:
            values = {name: record[name].decode() for name in _TEXTS}
            values |= {name: tuple(token.decode() for token in record[name]) for name in _SEQUENCES}
            pairs[int(record["row"])] = NLIExample(**values)
        return tuple(pairs)


def _builder(name: str) -> type[_NLIBuilder]:
    return type(name.title().replace("_", ""), (_NLIBuilder,), {"name": name}, skip_registration=True)


Mednli, MediqaNli, Snli, Multinli = map(_builder, ("mednli", "mediqa_nli", "snli", "multinli"))
BUILDERS = {builder.name: builder for builder in (Mednli, MediqaNli, Snli, Multinli)}


def load_tfds(
    name: str, folder: Path, manual_dir: Path, *, limit: int | None = None, genre: str = ""
) -> dict[str, Split]:
    """The Splits of readers.load_nli(name, manual_dir, ...), pair by pair and fact by fact; see load_built."""
    if name not in BUILDERS:
        raise ConfigError(f"config.data.builder: '{name}' has no TFDS builder. Fix: give one of {', '.join(BUILDERS)}.")
    readers.check_options(name, genre)
    return load_built(BUILDERS[name], folder, manual_dir, limit=limit, genre=genre)
