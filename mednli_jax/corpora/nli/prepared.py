"""From a config's `data`, `vectors` and `knowledge` sections to a prepared corpus; strings and NumPy only."""

import os
import time
from dataclasses import replace
from functools import cached_property
from importlib import metadata
from pathlib import Path

from mednli_jax.corpora import inventory
from mednli_jax.corpora.cache import Cache
from mednli_jax.corpora.demo import nli as demo
from mednli_jax.corpora.demo.nli_facts import demo_files
from mednli_jax.corpora.lines import either_name
from mednli_jax.corpora.nli import encoding as encode
from mednli_jax.corpora.nli import mixing
from mednli_jax.corpora.nli import pieces as encode_pieces
from mednli_jax.corpora.nli import readers as nli
from mednli_jax.corpora.nli.concepts import Linking, corpus_paths, linking
from mednli_jax.corpora.nli.files import source_files
from mednli_jax.corpora.nli.weights import find_weights
from mednli_jax.corpora.nli.wordpiece import vocabulary_files
from mednli_jax.errors import DataError, UserError
from mednli_jax.examples import Split
from mednli_jax.knowledge import load, related
from mednli_jax.knowledge import ontology as ontologies
from mednli_jax.knowledge.distances import DIRECTIONS
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology, ontology_files
from mednli_jax.knowledge.readers.spans import Recognised
from mednli_jax.knowledge.vectors import vector_files
from mednli_jax.knowledge.wordlists import check_file
from mednli_jax.progress import say

BUILDERS = ("direct", "tfds")
MANY_NAMES = 3_000_000  # a linker takes about 500 MB for a million names
LARGE = 100_000_000  # bytes of sources that take long enough to say so


def prepare(config, asked: str = "") -> tuple[encode.Prepared, bool]:
    """The config's corpus as arrays, prepared if it is not yet; and whether it was there already.

    asked: a split that is all that is needed, see Source.
    Raises: UserError, DataError(s) for a bad config or bad files; nothing half-built is kept.
    """
    source = Source(config, asked)
    cache = Cache(cache_folder())
    found = cache.get(source.name, source.key(cache), source.build)
    warn_of_readers(config)
    return found


def warn_of_readers(config) -> None:
    """Says where others can read the licensed text that a config's corpus, or its ontology, was just read from."""
    folder = data_folder(config)
    if folder is not None:
        data = config.data
        names = [data.name, data.mix.partition("/")[0]] if "mix" in data else [data.name]
        if "knowledge" in config and config.model.knowledge != "none":
            names.append(config.knowledge.ontology)
        if "diskne" in config:
            names.append(config.diskne.ontology)
        borrowed = [owner for name in names if name in nli.CORPORA for owner in nli.CORPORA[name].folders.values()]
        inventory.warn(folder, tuple(sorted({*names, *borrowed} - {""})))


def cache_folder() -> Path:
    return Path(os.environ.get("MEDNLI_JAX_CACHE", "~/.cache/mednli_jax")).expanduser()


def data_folder(config) -> Path | None:
    """`config.data.dir`, else $MEDNLI_JAX_DATA, else None."""
    folder = config.data.dir or os.environ.get("MEDNLI_JAX_DATA")
    return Path(folder).expanduser() if folder else None


def config_path(config, path: str | None) -> Path | None:
    """A file that a config names, or None; $MEDNLI_JAX_DATA in it is the data folder, however that was given."""
    folder = data_folder(config)
    if not path:
        return None
    if folder is not None:
        path = path.replace("$MEDNLI_JAX_DATA", str(folder))
    path = Path(os.path.expandvars(path)).expanduser()
    return either_name(path) or path


class Source:
    """What a config says about its corpus: where it comes from, how it is encoded, and the key of both.

    asked: a split that is all that is needed: where it is there, the files of the others may be missing, unless the
    config makes something of the training pairs. The files that are there are read, and shape the key.
    """

    known = (*demo.SIZES, *nli.CORPORA)

    def __init__(self, config, asked: str = ""):
        self.config, self.name = config, config.data.name
        if self.name not in self.known:
            known = ", ".join(self.known)
            raise UserError(f"E-CONF-004 config.data.name: unknown corpus '{self.name}'. Fix: give one of {known}.")
        self._check_builder()
        knowledge = config.knowledge
        self.ontology_name = "" if config.model.knowledge == "none" else os.path.expanduser(knowledge.ontology)
        self.linking = linking(knowledge, self._path) if self.ontology_name else Linking()
        self.encoding = encode.Encoding(
            lowercase=config.data.lowercase,
            max_length=config.data.max_length,
            hypothesis_only=config.data.hypothesis_only,
            vectors_path=self._path(config.vectors.path),
            vectors_dim=config.vectors.dim,
            vectors_seed=config.vectors.seed,
            direction=knowledge.direction,
            max_path=knowledge.max_path,
            max_links=knowledge.max_links,
            retrofit_lexicon=None if self._retrofit_name else self._path(config.vectors.retrofit),
            retrofit_rounds=config.vectors.retrofit_rounds,
        )
        self.pieces = self._pieces() if config.data.tokens == "pieces" else None
        data = config.data
        of_train = data.mix or data.sample or data.features or data.builder == "tfds"
        self.asked = "" if of_train or (self.pieces and not self.pieces.file) else asked
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
        for name in ("limit", "sample"):
            size = config.data[name]
            if size is not None and size <= 0:
                raise UserError(
                    f"E-CONF-003 config.data.{name} is {size}. Fix: give at least 1, or leave it out for all."
                )

    def _pieces(self) -> encode_pieces.PieceEncoding:
        """How word pieces are made. Raises UserError for settings that need words."""
        data, vectors = self.config.data, self.config.vectors
        for name, value in (
            ("vectors.path", vectors.path),
            ("vectors.retrofit", vectors.retrofit),
            ("data.features", data.features),
            ("knowledge.mentions", self.linking.mentions),
        ):
            if value:
                raise UserError(f"E-CONF-005 config.{name}: not of word pieces. Fix: leave it out.")
        weights = self.config.model.weights
        return encode_pieces.PieceEncoding(
            file=find_weights(self._path(weights)) if weights else None,
            size=data.pieces,
            room=data.max_length,
        )

    def _path(self, path):
        return config_path(self.config, path)

    def _check_builder(self):
        builder = self.config.data.builder
        if builder not in BUILDERS:
            raise UserError(f"E-CONF-004 config.data.builder is '{builder}'. Fix: give one of {', '.join(BUILDERS)}.")
        if builder == "tfds" and self.name in (*demo.SIZES, "file"):
            problem = f"config.data.builder: '{self.name}' has no TFDS builder"
            raise UserError(f"E-CONF-005 {problem}. Fix: leave the builder out.")

    def key(self, cache: Cache) -> dict:
        """Everything that shapes the arrays, as JSON: settings, sources by content, the numbers of formats."""
        settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(self.encoding).items()}
        data = self.config.data
        key = {
            "corpus": self.name,
            "limit": data.limit or 0,
            "genre": data.genre,
            "builder": data.builder,
            "sample": data.sample or 0,
            "mix": data.mix,
            **settings,
            "tokens": data.tokens,
            "formats": self._formats(),
            "nltk": metadata.version("nltk"),  # its Treebank tokeniser
            "sources": cache.digests(self._source_files()),
        }
        if self.pieces:
            key["pieces"] = [self.pieces.size, self.pieces.room, self.pieces.file is not None]
        if self.ontology_name:
            key |= {"ontology": self.ontology_name, "linking": self.linking.key()}
        if self.ontology_name or self._retrofit_name:
            key["permute_seed"] = -1 if self._permute is None else self._permute
            key["ontology_options"] = {
                name: list(v) if isinstance(v, tuple) else v for name, v in vars(self._ontology_options).items()
            }
        if self._retrofit_name:
            key["retrofit"] = [self._retrofit_name, *self.config.vectors.retrofit_relations]
        return key

    @property
    def _permute(self):
        return self.config.knowledge.permute_seed

    def _formats(self) -> dict[str, int]:
        """The FORMAT of every module that shapes the arrays."""
        formats = {"words": encode.FORMAT}
        if self.pieces:
            formats["pieces"] = encode_pieces.FORMAT
        if self.ontology_name or self._retrofit_name:
            formats["ontology"] = load.FORMAT
        if self.name in demo.SIZES or self.config.data.mix in demo.SIZES:
            formats["demo"] = demo.FORMAT
        return formats

    def _corpus_files(self):
        if self.name not in nli.CORPORA:
            return demo_files()
        return source_files(self.name, self._folder, self.asked)

    def _source_files(self):
        files = list(self._corpus_files())
        if self._mixed:
            files += self._mixed._corpus_files()
        if self.encoding.vectors_path:
            files += vector_files(self.encoding.vectors_path)
        if self.pieces and self.pieces.file:
            files += vocabulary_files(self.pieces.file)
        for name in {self.ontology_name, self._retrofit_name} - {""}:
            # One that is not there is told by its reader.
            files += filter(Path.is_file, ontology_files(name, data_folder(self.config)))
        if lexicon := self.encoding.retrofit_lexicon:
            if not lexicon.is_file():  # told before the vectors are read, which takes minutes
                fix = "check --config.vectors.retrofit: 'ontology', or the path of a lexicon"
                raise DataError("E-LEX-001", "there is no such file", file=lexicon.name, fix=fix)
            files.append(lexicon)
        for path in self.linking.files():
            check_file(path)
            files.append(path)
        missing = [path for path in files if not path.is_file()]
        if missing:
            raise UserError(f"E-VEC-001 {missing[0]}: there is no such file. Fix: check --config.vectors.path.")
        return list(dict.fromkeys(files))

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
    def ontology(self) -> ontologies.Ontology | None:
        """The config's ontology, permuted where it says so; None where nothing takes knowledge. Read once."""
        name = self.ontology_name or self._retrofit_name
        if not name:
            return None
        loaded = load_ontology(name, data_folder(self.config), self._ontology_options, cache_dir=cache_folder())
        return loaded if self._permute is None else ontologies.permuted(loaded, self._permute)

    @cached_property
    def linker(self) -> Linker | None:
        """Finds the config's concepts (`.ontology` in it) in any sentence; None where the model takes no knowledge.

        A config with a file of mentions has one too, for sentences that are not in the file. Made once.
        """
        if not self.ontology_name:
            return None
        return Linker(self.ontology, **self.linking.settings())

    @property
    def paths(self):
        """Finds the distances between a corpus's concepts, or finds them in the cache."""
        return corpus_paths(cache_folder() / "paths")

    @property
    def _retrofit_name(self) -> str:
        """The ontology that the vectors are retrofitted to, "" for none or a lexicon."""
        vectors = self.config.vectors
        return os.path.expanduser(self.config.knowledge.ontology) if vectors.retrofit == "ontology" else ""

    @property
    def _ontology_options(self) -> ontologies.OntologyOptions:
        knowledge = self.config.knowledge
        return ontologies.OntologyOptions(
            sources=tuple(knowledge.sources),
            languages=tuple(knowledge.languages),
            relations=knowledge.relations,
            cycles=knowledge.cycles,
        )

    def recogniser(self, splits: dict[str, Split]) -> Linker | Recognised | None:
        """What finds the config's concepts in these splits: a file of mentions where the config names one, else the
        linker; None where the model takes no knowledge.

        A terminology of very many names gets a linker for the words of these splits alone: it links them as `linker`
        would, in a fraction of the memory.
        Raises: DataError(s) for a file of mentions that does not fit the splits.
        """
        if not self.ontology_name:
            return None
        if self.linking.mentions is None:
            if self.pieces or len(self.ontology.names) <= MANY_NAMES:  # pieces are made of other words
                return self.linker
            examples = (example for split in splits.values() for example in split.examples)
            words = {
                token for example in examples for side in encode.SIDES for token in encode.all_tokens(example, side)
            }
            return Linker(self.ontology, vocabulary=words, **self.linking.settings())
        data = self.config.data
        filtered = bool(data.limit or data.sample or data.genre)
        if self.asked and self.name in nli.CORPORA:
            corpus = nli.CORPORA[self.name]
            filtered |= not set(corpus.files) - set(corpus.optional) <= splits.keys()
        return self.linking.recognised(self.ontology, splits, filtered)

    @cached_property
    def _mixed(self) -> "Source | None":
        """The corpus whose training pairs are mixed in. Raises UserError for one that is unknown, or is this one."""
        data = self.config.data
        if not data.mix:
            return None
        name, _, genre = data.mix.partition("/")
        if name not in (*demo.SIZES, *nli.CORPORA):
            known = ", ".join((*demo.SIZES, *nli.CORPORA))
            raise UserError(f"E-CONF-004 config.data.mix: unknown corpus '{name}'. Fix: give one of {known}.")
        if (name, genre) == (self.name, data.genre):
            raise UserError("E-CONF-005 config.data.mix is the corpus itself. Fix: give another, or leave it out.")
        config = self.config.copy_and_resolve_references()
        folder = None if self.name == "file" else data.dir  # which has one's own files alone
        with config.unlocked():
            config.data.update(name=name, genre=genre, dir=folder, mix="", limit=None, sample=None)
        return Source(config)

    def splits(self) -> dict[str, Split]:
        """The corpus: as its reader gives it, or of its training pairs a sample, or with another's among them."""
        splits = self._read()
        if size := self.config.data.sample:
            splits = {**splits, "train": mixing.sampled(splits["train"], size)}
        if self._mixed:
            splits = mixing.mixed(splits, self._mixed.splits()["train"], self.config.data.mix)
        warn_of_readers(self.config)
        return splits

    def _read(self) -> dict[str, Split]:
        """The corpus as its reader gives it, or its TFDS builder over that reader."""
        wishes = {"limit": self.config.data.limit, "genre": self.config.data.genre}
        if self.config.data.builder == "tfds":
            from mednli_jax.corpora.nli import (
                tfds as builders,  # TFDS is slow to import, and the direct route does without
            )

            return builders.load_tfds(self.name, cache_folder() / "tfds", self._folder, **wishes)
        if self.name not in demo.SIZES:
            return nli.load_nli(self.name, self._folder, asked=self.asked, **wishes)
        # The demo is made with MeSH: the linker takes longer than the corpus, so that one serves both.
        bundled = self.ontology_name == "mesh" and self._permute is None and self.linking == Linking()
        splits = demo.load_demo(self.name, linker=self.linker if bundled else None)
        if limit := self.config.data.limit:
            train = splits["train"]
            splits["train"] = replace(train, examples=train.examples[:limit])
        return splits

    def _retrofit_graph(self, words):
        """Which words are neighbours [V, V], or None where vectors stay as they are."""
        if self._retrofit_name:
            wanted = ("synonym", *self.config.vectors.retrofit_relations)
            return related.ontology_word_graph(self.ontology, words, relations=wanted)
        if lexicon := self.encoding.retrofit_lexicon:
            return related.word_graph(related.read_lexicon(lexicon), words)
        return None

    def build(self):
        """(splits, arrays, vocabulary, vectors, facts) of the corpus."""
        begun, size = time.monotonic(), sum(path.stat().st_size for path in self._source_files())
        if size > LARGE:
            say(f"preparing {self.name}, once: {size / 1e6:,.0f} MB of text and vectors to read ...")
        splits = self.splits()
        found = self.recogniser(splits)
        if self.pieces:
            made = encode_pieces.encode_corpus(splits, found, self.encoding, self.pieces, begun, self.paths)
        else:
            made = encode.encode_corpus(splits, found, self.encoding, begun, self._retrofit_graph, self.paths)
        *arrays, facts = made
        return splits, *arrays, {**facts, "tokeniser": _tokeniser(splits)}


def _tokeniser(splits: dict[str, Split]) -> str:
    """The name in text.TOKENISERS of what tokenised the pairs of the first split, which is train where it is there.
    New texts have no parses: where the corpus has them, the name is that of the closest tokeniser."""
    first = next(iter(splits.values()))
    used = {source for source, pairs in first.facts.get("tokens", {}).items() if pairs}
    return "blanks" if used == {"blanks"} else "sentences, treebank"
