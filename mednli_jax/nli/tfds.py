"""TFDS builders of MedNLI, MEDIQA-NLI, SNLI, MultiNLI and CliCR over the package's own readers, without TensorFlow.

    builder = Mednli(data_dir=FOLDER)
    config = tfds.download.DownloadConfig(manual_dir=DATA)
    builder.download_and_prepare(download_config=config, file_format="array_record")
    builder.as_data_source("train")[0]["premise"]

`load_tfds` does this and gives the same Splits as `readers.load_nli` and `clicr.load`. TFDS shuffles the records by
hash and returns strings as bytes; each record has its row number. Labels are strings: the order of classes belongs to
`examples.LABELS`. A record of CliCR is an article with all its queries.
"""

import contextlib
import dataclasses
import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from mednli_jax.cloze import clicr
from mednli_jax.cloze import encoding as encode_cloze
from mednli_jax.cloze.clicr import marked_text, parse_marked
from mednli_jax.data.examples import Answer, ClozeExample, NLIExample, Passage, Split
from mednli_jax.errors import ConfigError, RunError
from mednli_jax.io import atomic_folder, private_folder, warn, writing
from mednli_jax.nli import encoding as encode
from mednli_jax.nli import files as nli_corpora
from mednli_jax.nli import readers as nli

RELEASE = "1.0.0"  # of the records
_FIX = "free space, or choose another folder ($MEDNLI_JAX_CACHE)"
_TEXTS = ("uid", "premise", "hypothesis", "label", "group")
_SEQUENCES = ("premise_tokens", "hypothesis_tokens", "tags")
_PASSAGE = ("uid", "title", "context", "specialty")
_ANSWER = tuple(field.name for field in dataclasses.fields(Answer))


@dataclasses.dataclass
class Part(tfds.core.BuilderConfig):
    """The part of a corpus that is built. limit: number of training pairs, 0 = all; genre: "" = all."""

    limit: int = 0
    genre: str = ""


def part(limit: int | None = None, genre: str = "") -> Part:
    """The config of a part. Its name is all, slate, first2000 or slate-first2000, for example."""
    name = "-".join([*([genre] if genre else []), *([f"first{limit}"] if limit else [])])
    return Part(name=name, limit=limit or 0, genre=genre) if name else ALL


ALL = Part(name="all")  # TFDS compares configs by identity


class _CorpusBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """What the corpora share. A subclass names its corpus, its reader, and how examples become records and back.

    `info.metadata` holds the facts of each split as the reader gives them, and a sha256 over its records.
    """

    VERSION = tfds.core.Version(RELEASE)
    RELEASE_NOTES = {RELEASE: "First release."}  # noqa: RUF012 - the name and form that TFDS asks for
    BUILDER_CONFIGS = [ALL]  # noqa: RUF012
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Put the official files into manual_dir, or into a folder of it named like the corpus."
    )
    corpus = content = ""
    reader_format = 0  # FORMAT of the arrays that are made of what its reader gives

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.content,
            features=tfds.features.FeaturesDict(self.fields()),
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager):
        choice = self.builder_config
        splits = self.load(Path(dl_manager.manual_dir), choice.limit or None, choice.genre)
        self.info.metadata.update(
            facts={name: split.facts for name, split in splits.items()},
            sha256={name: _digest(self.records(split.examples)) for name, split in splits.items()},
        )
        return {name: self._generate_examples(split) for name, split in splits.items()}

    def _generate_examples(self, split):
        yield from enumerate(self.records(split.examples))


class _NLIBuilder(_CorpusBuilder, skip_registration=True):
    """Premise-hypothesis pairs, one a record."""

    reader_format = encode.FORMAT

    @property
    def content(self):
        return f"Premise-hypothesis pairs of {self.corpus}. {nli.CORPORA[self.corpus].source}"

    @staticmethod
    def fields():
        features = {"row": tfds.features.Scalar(np.int64), **{name: tfds.features.Text() for name in _TEXTS}}
        return features | {name: tfds.features.Sequence(tfds.features.Text()) for name in _SEQUENCES}

    @classmethod
    def check(cls, limit, genre):
        nli.check_options(cls.corpus, limit, genre)

    @classmethod
    def files(cls, folder):
        return nli_corpora.source_files(cls.corpus, folder)

    @classmethod
    def load(cls, folder, limit, genre):
        return nli.load_nli(cls.corpus, folder, limit=limit, genre=genre)

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


class Mednli(_NLIBuilder, skip_registration=True):
    """MedNLI (Romanov & Shivade 2018): manual_dir/mednli/mli_{train,dev,test}_v1.jsonl."""

    name = corpus = "mednli"


class MediqaNli(_NLIBuilder, skip_registration=True):
    """MEDIQA-NLI (Ben Abacha, Shivade & Demner-Fushman 2019): MedNLI's train and dev, the shared task's test."""

    name = corpus = "mediqa_nli"


class Snli(_NLIBuilder, skip_registration=True):
    """SNLI (Bowman et al. 2015): manual_dir/snli/snli_1.0_{train,dev,test}.jsonl or .txt."""

    name = corpus = "snli"


class Multinli(_NLIBuilder, skip_registration=True):
    """MultiNLI (Williams et al. 2018): manual_dir/multinli/multinli_1.0_{train,dev_matched}.jsonl or .txt."""

    name = corpus = "multinli"


class Clicr(_CorpusBuilder, skip_registration=True):
    """CliCR (Šuster & Daelemans 2018): manual_dir/clicr/{train,dev,test}1.0.json.

    title, context and query have their marks; an answer names its query by the place among the article's.
    """

    name = corpus = "clicr"
    content = f"Case reports with gap-filling queries. {clicr.SOURCE}"
    reader_format = encode_cloze.FORMAT

    @staticmethod
    def fields():
        number, string = tfds.features.Scalar(np.int64), tfds.features.Text()
        answer = {"query": number, **{name: string for name in _ANSWER}}
        return {
            **{name: string for name in _PASSAGE},
            "queries": tfds.features.Sequence({"row": number, "uid": string, "query": string}),
            "answers": tfds.features.Sequence(answer),
        }

    @staticmethod
    def check(limit, genre):
        if genre:
            raise ConfigError("config.data.genre: 'clicr' has no genres. Fix: leave the genre out.")

    @staticmethod
    def files(folder):
        return list(clicr.source_files(folder).values())

    @staticmethod
    def load(folder, limit, genre):
        return clicr.load(folder, limit=limit)

    @staticmethod
    def records(examples):
        articles = {}
        for row, example in enumerate(examples):
            articles.setdefault(id(example.passage), []).append((row, example))
        for queries in articles.values():
            passage = queries[0][1].passage
            yield {
                "uid": passage.uid,
                "title": marked_text(passage.title, passage.title_entities),
                "context": marked_text(passage.tokens, passage.entities, passage.sentences),
                "specialty": passage.specialty,
                "queries": [
                    {"row": row, "uid": e.uid, "query": marked_text(e.query, e.query_entities)} for row, e in queries
                ],
                "answers": [
                    {"query": number, **dataclasses.asdict(answer)}
                    for number, (_, example) in enumerate(queries)
                    for answer in example.answers
                ],
            }

    @staticmethod
    def examples(source):
        found = {}
        for record in source:
            uid, title, context, specialty = (record[name].decode() for name in _PASSAGE)
            title, context = parse_marked(title), parse_marked(context)
            passage = Passage(
                uid, title.tokens, context.tokens, context.entities, context.sentences, specialty, title.entities
            )
            answers = [[] for _ in record["queries"]["row"]]
            for query, *texts in zip(*(record["answers"][name] for name in ("query", *_ANSWER)), strict=True):
                answers[int(query)].append(Answer(*(part.decode() for part in texts)))
            for number, row in enumerate(record["queries"]["row"]):
                query = parse_marked(record["queries"]["query"][number].decode())
                uid = record["queries"]["uid"][number].decode()
                found[int(row)] = ClozeExample(
                    uid, passage, query.tokens, query.entities, query.blanks[0], tuple(answers[number])
                )
        return tuple(found[row] for row in range(len(found)))


BUILDERS = {builder.corpus: builder for builder in (Mednli, MediqaNli, Snli, Multinli, Clicr)}


def load_tfds(
    name: str, folder: Path, manual_dir: Path, *, limit: int | None = None, genre: str = ""
) -> dict[str, Split]:
    """The Splits of readers.load_nli(name, manual_dir, ...) or clicr.load, pair by pair and fact by fact, through a
    TFDS builder.

    folder: where built corpora are kept, readable for their owner alone. A corpus is built if it is missing or damaged,
    or if its files or a FORMAT number changed (the older build is then removed).
    manual_dir: the corpus's own folder, or the data folder that holds it.
    Raises: as they do; UserError for a corpus without a builder or a folder that cannot be written.
    """
    if name not in BUILDERS:
        known = ", ".join(BUILDERS)
        raise ConfigError(f"config.data.builder: '{name}' has no TFDS builder. Fix: give one of {known}.")
    BUILDERS[name].check(limit, genre)
    manual_dir, choice = Path(manual_dir), part(limit, genre)
    stem = f"{name}-{choice.name}-"
    root = Path(folder) / f"{stem}{_made_from(name, manual_dir)}"
    splits = _read(name, root, choice)
    if splits is None:
        with writing(root, _FIX):
            _build(name, root, manual_dir, choice)
            for older in root.parent.glob(f"{stem}{'[0-9a-f]' * 16}"):
                if older != root:
                    shutil.rmtree(older)
        splits = _read(name, root, choice)
    if splits is None:
        raise RunError(f"{root}: what was written cannot be read back. Fix: check the disk.")
    return splits


def _made_from(corpus, folder):
    """Sixteen digits of a sha256 over the corpus's files and the numbers of formats."""
    digest = hashlib.sha256(f"{RELEASE} {BUILDERS[corpus].reader_format}\n".encode())
    for path in BUILDERS[corpus].files(folder):
        with open(path, "rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _digest(records):
    digest = hashlib.sha256()
    for record in records:
        digest.update(repr(record).encode())
    return digest.hexdigest()


def _build(name, root, manual_dir, choice):
    """Builds below a temporary root, makes it private and renames it: readers see a complete build or none."""
    private_folder(root.parent, ours=True, fix=_FIX)
    with atomic_folder(root, keep=lambda: False, fix=_FIX) as temporary:
        with _quiet():
            BUILDERS[name](data_dir=temporary, config=choice).download_and_prepare(
                download_config=tfds.download.DownloadConfig(manual_dir=str(manual_dir), try_download_gcs=False),
                file_format="array_record",
            )
        for path in temporary.rglob("*"):  # TFDS writes with the process's umask
            path.chmod(0o700 if path.is_dir() else 0o600)


def _read(name, root, choice):
    """The splits below `root`; None if they are missing or differ from what was written."""
    if not root.is_dir():
        return None
    try:
        with _quiet():
            builder = BUILDERS[name](data_dir=root, config=choice)
            metadata = builder.info.metadata
            splits = {
                split: Split(split, builder.examples(builder.as_data_source(split)), facts)
                for split, facts in metadata["facts"].items()
            }
        digests = {split: _digest(builder.records(found.examples)) for split, found in splits.items()}
        damaged = any(digest != metadata["sha256"][split] for split, digest in digests.items())
    # array_record and protobuf raise many types of errors for a damaged record.
    except Exception:
        damaged = True
    if damaged:
        warn(f"{root}: the built corpus is damaged; building it again.")
        return None
    return splits


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
