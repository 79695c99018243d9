"""From a config's `data`, `vectors` and `knowledge` sections to a prepared corpus; strings and NumPy only."""

import hashlib
import os
import time
from dataclasses import replace
from functools import cached_property
from importlib import metadata
from pathlib import Path

from mednli_jax.data import demo, encode, nli
from mednli_jax.data.cache import FORMAT, Cache
from mednli_jax.data.lines import either_name
from mednli_jax.data.nli_corpora import source_files
from mednli_jax.errors import UserError
from mednli_jax.examples import Split
from mednli_jax.knowledge import ontology as ontologies
from mednli_jax.knowledge.distance import DIRECTIONS
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.vectors import vector_files
from mednli_jax.progress import say

BUILDERS = ("direct", "tfds")
LARGE = 100_000_000  # bytes of sources that take long enough to say so


def prepare(config) -> tuple[encode.Prepared, bool]:
    """The config's corpus as arrays, prepared if it is not yet; and whether it was there already.

    Raises: UserError, DataError(s) for a bad config or bad files; nothing half-built is kept.
    """
    source = Source(config)
    cache = Cache(cache_folder())
    return cache.get(source.name, source.key(cache), source.build)


def cache_folder() -> Path:
    return Path(os.environ.get("MEDNLI_JAX_CACHE", "~/.cache/mednli_jax")).expanduser()


def data_folder(config) -> Path | None:
    """`config.data.dir`, else $MEDNLI_JAX_DATA, else None."""
    folder = config.data.dir or os.environ.get("MEDNLI_JAX_DATA")
    return Path(folder).expanduser() if folder else None


class Source:
    """What a config says about its corpus: where it comes from, how it is encoded, and the key of both."""

    def __init__(self, config):
        self.config, self.name = config, config.data.name
        if self.name not in (*demo.SIZES, *nli.CORPORA):
            known = ", ".join((*demo.SIZES, *nli.CORPORA))
            raise UserError(f"E-CONF-004 config.data.name: unknown corpus '{self.name}'. Fix: give one of {known}.")
        self._check_builder()
        knowledge = config.knowledge
        self.ontology_name = "" if config.model.knowledge == "none" else os.path.expanduser(knowledge.ontology)
        self.encoding = encode.Encoding(
            lowercase=config.data.lowercase,
            max_length=config.data.max_length,
            hypothesis_only=config.data.hypothesis_only,
            vectors_path=self._vectors_path(),
            vectors_dim=config.vectors.dim,
            vectors_seed=config.vectors.seed,
            direction=knowledge.direction,
            max_path=knowledge.max_path,
            max_links=knowledge.max_links,
        )
        for name, value in (
            ("data.max_length", config.data.max_length),
            ("knowledge.max_links", knowledge.max_links),
            ("vectors.dim", config.vectors.dim),
        ):
            if not 1 <= value < 1 << 15:
                raise UserError(f"E-CONF-003 config.{name} is {value}. Fix: give 1 to {(1 << 15) - 1}.")
        if knowledge.direction not in DIRECTIONS:
            known = ", ".join(DIRECTIONS)
            problem = f"config.knowledge.direction: unknown value '{knowledge.direction}'"
            raise UserError(f"E-CONF-004 {problem}. Fix: give one of {known}.")
        if knowledge.max_path < 0:
            raise UserError(
                f"E-CONF-003 config.knowledge.max_path is {knowledge.max_path}. Fix: give a length, or 0 for no limit."
            )
        if config.data.limit is not None and config.data.limit <= 0:
            limit = config.data.limit
            raise UserError(f"E-CONF-003 config.data.limit is {limit}. Fix: give at least 1, or leave it out for all.")

    def _vectors_path(self):
        """The vectors' file; $MEDNLI_JAX_DATA in it stands for the data folder, however that was given."""
        path, folder = self.config.vectors.path, data_folder(self.config)
        if not path:
            return None
        if folder is not None:
            path = path.replace("$MEDNLI_JAX_DATA", str(folder))
        path = Path(os.path.expandvars(path)).expanduser()
        return either_name(path) or path

    def _check_builder(self):
        builder = self.config.data.builder
        if builder not in BUILDERS:
            raise UserError(f"E-CONF-004 config.data.builder is '{builder}'. Fix: give one of {', '.join(BUILDERS)}.")
        if builder == "tfds" and self.name in (*demo.SIZES, "file"):
            problem = f"config.data.builder: '{self.name}' has no TFDS builder"
            raise UserError(f"E-CONF-005 {problem}. Fix: leave the builder out.")

    def key(self, cache: Cache) -> dict:
        """Everything that shapes the arrays, as JSON: settings, sources by content, and the code that reads them."""
        settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(self.encoding).items()}
        data = self.config.data
        key = {
            "corpus": self.name,
            "limit": data.limit or 0,
            "genre": data.genre,
            "builder": data.builder,
            **settings,
            "format": FORMAT,
            "code": self._code(cache),
            "nltk": metadata.version("nltk"),  # its Treebank tokeniser
            "sources": cache.digests(self._source_files()),
        }
        if self.ontology_name:
            key |= {"ontology": self.ontology_name, "permute_seed": -1 if self._permute is None else self._permute}
        return key

    @property
    def _permute(self):
        return self.config.knowledge.permute_seed

    def _code(self, cache):
        package = Path(encode.__file__).parent.parent
        files = [
            package / "examples.py",
            package / "text.py",
            *sorted((package / "data").glob("*.*")),
            *sorted((package / "knowledge").glob("*.py")),
            *sorted((package / "knowledge" / "resources").iterdir()),
        ]
        digests = cache.digests([path for path in files if path.is_file()])
        return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()

    def _source_files(self):
        files = []
        if self.name in nli.CORPORA:
            files += source_files(self.name, self._folder)
        if self.encoding.vectors_path:
            files += vector_files(self.encoding.vectors_path)
        if Path(self.ontology_name).is_file():
            files.append(Path(self.ontology_name))
        missing = [path for path in files if not path.is_file()]
        if missing:
            raise UserError(f"E-VEC-001 {missing[0]}: there is no such file. Fix: check --config.vectors.path.")
        return files

    @property
    def _folder(self):
        if self.name == "file" and not self.config.data.dir:
            raise UserError(
                "E-CONF-006 no folder is set for your own files. Fix: give --config.data.dir=FOLDER with "
                "train.jsonl and dev.jsonl (or .tsv, .csv) in it."
            )
        folder = data_folder(self.config)
        if folder is None:
            raise UserError(
                f"E-CONF-006 no data folder is set for corpus '{self.name}'. Fix: set $MEDNLI_JAX_DATA to the "
                f"folder that holds {self.name}/, or give --config.data.dir=FOLDER."
            )
        return folder

    @cached_property
    def linker(self) -> Linker | None:
        """Finds the config's concepts (`.ontology` in it); None where the model takes no knowledge. Made once."""
        if not self.ontology_name:
            return None
        loaded = load_ontology(self.ontology_name, data_folder(self.config))
        return Linker(loaded if self._permute is None else ontologies.permuted(loaded, self._permute))

    def splits(self) -> dict[str, Split]:
        """The corpus as its reader gives it, or its TFDS builder over that reader."""
        wishes = {"limit": self.config.data.limit, "genre": self.config.data.genre}
        if self.config.data.builder == "tfds":
            from mednli_jax.data import builders  # TFDS is slow to import, and the direct route does without

            return builders.load_tfds(self.name, cache_folder() / "tfds", self._folder, **wishes)
        if self.name not in demo.SIZES:
            return nli.load_nli(self.name, self._folder, **wishes)
        # The demo is made with MeSH: the linker takes longer than the corpus, so that one serves both.
        bundled = self.ontology_name == "mesh" and self._permute is None
        splits = demo.load_demo(self.name, linker=self.linker if bundled else None)
        if limit := self.config.data.limit:
            train = splits["train"]
            splits["train"] = replace(train, examples=train.examples[:limit])
        return splits

    def build(self):
        """(splits, arrays, vocabulary, vectors, facts) of the corpus."""
        begun, size = time.monotonic(), sum(path.stat().st_size for path in self._source_files())
        if size > LARGE:
            say(f"preparing {self.name}, once: {size / 1e6:,.0f} MB of text and vectors to read ...")
        splits = self.splits()
        return (splits, *encode.encode_corpus(splits, self.linker, self.encoding, begun))
