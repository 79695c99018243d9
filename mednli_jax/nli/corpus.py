"""A corpus of premise-hypothesis pairs: its sources, its encoding, and its arrays on disk."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path

import numpy as np

from mednli_jax import demo
from mednli_jax.data.arrays import SIDES, Prepared, rows_of_splits
from mednli_jax.data.cache import Cache
from mednli_jax.data.corpus import cache_folder, in_order, required_folder, warn_of_exposure
from mednli_jax.data.examples import Split
from mednli_jax.data.text import Vocab, blank_tokens
from mednli_jax.data.vector_formats import vector_files
from mednli_jax.data.wordpiece import WordPieces, vocabulary_files
from mednli_jax.errors import ConfigError, DataError, UsageError, config_field
from mednli_jax.files import check_readable, digest, no_such_file
from mednli_jax.knowledge import load, retrofit
from mednli_jax.knowledge.distances import stored_paths
from mednli_jax.knowledge.lemmas import Lemmas
from mednli_jax.knowledge.linking import (
    BUNDLED,
    Linker,
    Linkers,
    bundled_abbreviations,
    read_abbreviations,
)
from mednli_jax.knowledge.mentions import ENDINGS, Recognised, read_mentions
from mednli_jax.knowledge.ontology import Ontology, OntologyOptions, permuted, side_by_side
from mednli_jax.knowledge.relations import FORMAT as TYPED_FORMAT
from mednli_jax.nli import encoding as words
from mednli_jax.nli import readers
from mednli_jax.nli.corpora import CORPORA, licensed, source_files
from mednli_jax.terminal import Bar, say, warn

NAMES = (*demo.SIZES, *CORPORA)
MUCH_RARER = 10
MANY_NAMES = 3_000_000  # a linker takes about 500 MB for a million names
WORDNET = "wordnet"  # the name of the ontology; that of a permuted one has a suffix
FORMATS = f"give a file that ends in {', '.join(ENDINGS)} (.gz may follow)"
BLANKS = "blanks"
LARGE = 100_000_000


@dataclass(frozen=True)
class Linking:
    """How concepts are found.

    Args:
      mentions: a file of another program, in place of the linker.
      candidates: "best", one of those for the same tokens, or "all" (a token's distance is the least over them).
      types: () leaves the choice to the ontology.
      lemmas: words of WordNet are found by their base forms.
    """

    mentions: Path | None = None
    candidates: str = "best"
    types: tuple[str, ...] = ()
    abbreviations: str = ""
    lemmas: bool = False

    def files(self) -> list[Path]:
        """The files whose content shapes the mentions."""
        abbreviations = bundled_abbreviations() if self.abbreviations == BUNDLED else None
        return [path for path in (self.mentions, abbreviations) if path is not None]

    def key(self) -> dict:
        """The settings as JSON."""
        key = {"types": list(self.types), "candidates": self.candidates}
        key |= {"mentions": str(self.mentions or ""), "abbreviations": self.abbreviations}
        return key | ({"lemmas": True} if self.lemmas else {})

    def linker(
        self, ontology: Ontology, vocabulary: Iterable[str] | None = None
    ) -> Linker | Lemmas:
        """The linker of one ontology."""
        if self.lemmas and ontology.name.startswith(WORDNET):
            return Lemmas(ontology)
        abbreviations = read_abbreviations() if self.abbreviations == BUNDLED else ()
        return Linker(
            ontology, vocabulary=vocabulary, types=self.types or None, abbreviations=abbreviations
        )

    def recognised(
        self, ontology: Ontology, splits: dict[str, Split], filtered: bool
    ) -> Recognised:
        """The mentions that the file has for these splits. filtered: they leave out pairs of the
        corpus's files."""
        examples = [example for split in splits.values() for example in split.examples]
        partial = filtered or any(
            split.facts.get("dropped_unlabelled") for split in splits.values()
        )
        given = read_mentions(self.mentions, examples, partial=partial, candidates=self.candidates)
        found = Recognised(ontology, *given)
        _compare_splits(self.mentions.name, splits, found)
        return found


def _compare_splits(file: str, splits: dict[str, Split], found: Recognised) -> None:
    """Refuses a file that has no mentions in one split but in another; warns where one has far
    fewer."""
    sizes = {name: len(SIDES) * len(split) for name, split in splits.items() if len(split)}
    linked = {
        name: sum(
            (example.uid, side) in found.spans
            for example in splits[name].examples
            for side in SIDES
        )
        for name in sizes
    }
    counts = ", ".join(f"{linked[name]:,} of {size:,} in {name}" for name, size in sizes.items())
    counts, fix = (
        f"sentences with a mention: {counts}",
        "was the file cut off? make it from all splits",
    )
    for name, size in sizes.items():
        others, size_of_others = sum(linked.values()) - linked[name], sum(sizes.values()) - size
        if others and not linked[name]:
            raise DataError(
                f"no mention is in {name}, but some are in other splits ({counts})",
                file=file,
                fix=fix,
            )
        if others * size > MUCH_RARER * linked[name] * size_of_others:
            warn(
                f"{file}: mentions are more than {MUCH_RARER} times rarer in {name} than elsewhere ({counts}); {fix}"
            )


@dataclass(frozen=True)
class Terminology:
    """An ontology as a config names it: see knowledge.load.load_ontology, or several with + between
    them."""

    name: str
    folder: Path | None = None
    options: OntologyOptions = field(default_factory=OntologyOptions)
    permute_seed: int | None = None

    @property
    def names(self) -> list[str]:
        """The name of each ontology; a path may contain a +."""
        return [self.name] if Path(self.name).exists() else self.name.split("+")

    def files(self) -> list[Path]:
        """The files of all ontologies, also missing ones, which their readers refuse."""
        found = (path for name in self.names for path in load.ontology_files(name, self.folder))
        return [path for path in found if path.is_file()]

    def key(self) -> dict:
        """The settings as JSON."""
        options = {
            name: list(v) if isinstance(v, tuple) else v for name, v in vars(self.options).items()
        }
        return {
            "permute_seed": -1 if self.permute_seed is None else self.permute_seed,
            "ontology_options": options,
        }


def has_format(mentions: Path | str) -> bool:
    """Whether the name of a file of mentions tells its format."""
    return str(mentions).removesuffix(".gz").endswith(ENDINGS)


def corpus_paths(ontology: Ontology, pairs: np.ndarray, **how) -> np.ndarray:
    """`distances.shortest_paths` for a whole corpus: kept in the cache, with a progress bar if it
    takes long."""
    with Bar("paths between concepts", 0, unit="concepts") as bar:
        return stored_paths(
            ontology, pairs, folder=cache_folder() / "paths", progress=bar.reach, **how
        )


@dataclass(frozen=True, eq=False)
class NLICorpus:
    """A corpus of pairs (see data.corpus.Corpus). An object reads each of its sources once.

    Args:
      name: one of NAMES, or `package.module:function` of the user, see readers.from_plugin.
      folder: the data folder, None where none is set.
      genre: of MultiNLI. limit: first training pairs that are kept. builder: "direct", or "tfds" to read through a TFDS
        builder.
      labels: of the user's own files, see readers.class_of_label.
      blanks: tokens are what is between the blanks of the raw sentence, in place of the corpus's own tokens.
      pieces: how word pieces are made, None for words.
      terminology: of links and of retrofitting. linking: how concepts are found, None for a corpus without links.
      retrofit_relations: relations of the terminology that draw vectors together, besides shared names; None: none do.
      concepts_as_words: whether concepts stand in the text, and their vectors are those drawn together.
      concepts_of_run: those of the run that is asked about this corpus, None for those of the training pairs.
      only: a split that is all that is needed: where it is there, the files of the others may be missing, unless
        something is made of the training pairs.
    """

    name: str
    encoding: words.Encoding
    folder: Path | None = None
    genre: str = ""
    limit: int | None = None
    builder: str = "direct"
    labels: str = ""
    blanks: bool = False
    pieces: words.PieceEncoding | None = None
    terminology: Terminology | None = None
    linking: Linking | None = None
    retrofit_relations: tuple[str, ...] | None = None
    concepts_as_words: bool = False
    concepts_of_run: words.ConceptVectors | None = None
    only: str = ""

    @property
    def title(self) -> str:
        return self.name + (f"/{self.genre}" if self.genre else "")

    def splits(self) -> dict[str, Split]:
        """The splits that the reader gives."""
        splits = in_order(self._read())
        if self.blanks:
            splits = {name: between_blanks(split) for name, split in splits.items()}
        self.warn_of_readers()
        return splits

    def _read(self) -> dict[str, Split]:
        choice = {"limit": self.limit, "genre": self.genre}
        if self.builder == "tfds":
            from mednli_jax.nli import tfds

            return tfds.load_tfds(self.name, cache_folder() / "tfds", self._folder(), **choice)
        if ":" not in self.name and self.name not in demo.SIZES:
            return readers.load_nli(
                self.name, self._folder(), needed=self.needed, labels=self.labels, **choice
            )
        splits = self._own if ":" in self.name else readers.load_demo(self.name)
        train = splits["train"]
        return {**splits, "train": replace(train, examples=train.examples[: self.limit])}

    @cached_property
    def _own(self) -> dict[str, Split]:
        """The pairs that a function of the user reads."""
        return readers.from_plugin(self.name, self.folder)

    @property
    def needed(self) -> str:
        """`only`, or "" if the training pairs are needed as well."""
        of_train = self.builder == "tfds" or (self.pieces and not self.pieces.file)
        of_train = of_train or (self.linking and self.encoding.graph == "mentioned")
        return "" if of_train else self.only

    def _folder(self) -> Path:
        return required_folder(self.name, self.folder)

    def warn_of_readers(self):
        """Warns if other users can read the licensed text, or the ontology, that the corpus was
        just read from."""
        if self.folder is not None:
            names = self._licensed()
            borrowed = [
                owner
                for name in names
                if name in CORPORA
                for owner in CORPORA[name].folders.values()
            ]
            warn_of_exposure(self.folder, tuple(licensed(sorted({*names, *borrowed}))))

    def _licensed(self):
        linked = self.terminology.names if self.linking is not None else []
        return [self.name, *linked]

    @cached_property
    def _ontologies(self) -> list[Ontology]:
        if (given := self.terminology) is None:
            return []
        how = {"cache_dir": cache_folder()}
        loaded = [
            load.load_ontology(name, given.folder, given.options, **how) for name in given.names
        ]
        return (
            loaded
            if given.permute_seed is None
            else [permuted(each, given.permute_seed) for each in loaded]
        )

    @cached_property
    def ontology(self) -> Ontology | None:
        """The ontology of links and of retrofitting, several side by side."""
        parts = self._ontologies
        return side_by_side(parts) if len(parts) > 1 else next(iter(parts), None)

    @property
    def knowledge(self) -> str:
        """The ontology of the concepts and its version; "" where none are looked for."""
        ontology = self.ontology if self.linking is not None else None
        return "" if ontology is None else f"{ontology.name} {ontology.version}"

    @cached_property
    def linker(self) -> Linker | Lemmas | Linkers | None:
        """Finds concepts in any sentence, also where a file of mentions has none; None for a corpus
        without links."""
        if self.linking is not None and self.linking.mentions:
            warn(
                "the run's concepts were found by another program; those of new pairs are found by this package"
            )
        return None if self.linking is None else self._linker(self.linking)

    def _linker(self, linking: Linking, vocabulary=None):
        linkers = [linking.linker(ontology, vocabulary) for ontology in self._ontologies]
        return Linkers(self.ontology, linkers) if len(linkers) > 1 else linkers[0]

    def recogniser(
        self, splits: dict[str, Split], spans: Path | None = None
    ) -> Linker | Lemmas | Linkers | Recognised | None:
        """What finds concepts in these splits: a file of mentions where there is one, else the
        linker.

        A terminology of very many names gets a linker for the words of these splits alone, which
        takes a fraction of the memory. spans: a file of mentions, with any concepts, in place of
        the corpus's own linking.
        """
        if spans and not has_format(spans):
            raise UsageError("--spans: the ending of the file names no format", fix=FORMATS)
        linking = Linking(mentions=spans) if spans else self.linking
        if linking is None:
            return None
        if linking.mentions is not None:
            filtered = bool(self.limit or self.genre)
            if self.needed and self.name in CORPORA:
                corpus = CORPORA[self.name]
                filtered |= not set(corpus.files) - set(corpus.optional) <= splits.keys()
            return linking.recognised(self.ontology, splits, filtered)
        if self.pieces or len(self.ontology.names) <= MANY_NAMES:
            return self.linker
        examples = (example for split in splits.values() for example in split.examples)
        tokens = {
            token
            for example in examples
            for side in SIDES
            for token in words.all_tokens(example, side)
        }
        return self._linker(linking, tokens)

    def _retrofit_graph(self, words):
        if self.retrofit_relations is not None and not self.concepts_as_words:
            relations = ("synonym", *self.retrofit_relations)
            return retrofit.ontology_word_graph(self.ontology, words, relations=relations)
        if lexicon := self.encoding.retrofit_lexicon:
            return retrofit.word_graph(retrofit.read_lexicon(lexicon), words)
        return None

    def prepare(self) -> tuple[Prepared, bool]:
        """See data.corpus.Corpus."""
        cache = Cache(cache_folder())
        found = cache.get(self._cache_name, self.key(cache), self.build)
        self.warn_of_readers()
        return found

    _cache_name = property(lambda self: self.name.replace(":", "-"))

    def read_vocabulary(self, path: Path) -> Vocab | WordPieces:
        return (WordPieces.restore if self.pieces else Vocab.load)(path)

    def texts(self, vocabulary=None, linker=None) -> words.WordTexts | words.PieceTexts:
        """What turns texts into numbers. vocabulary: None to fit one. linker: finds concepts as
        words."""
        if self.pieces:
            return words.PieceTexts(self.encoding, self.pieces, vocabulary)
        if self.concepts_as_words:
            of_run = self.concepts_of_run
            finder = words.MentionFinder(linker, self.encoding)
            return words.ConceptTexts(
                self.encoding,
                vocabulary or words.NO_WORDS,
                finder=finder,
                relations=self.retrofit_relations,
                of_run=of_run,
            )
        return words.WordTexts(self.encoding, vocabulary or words.NO_WORDS)

    def encoded(
        self, splits, vocabulary, vectors, concepts: Sequence[str] | None = None
    ) -> Prepared:
        """See data.corpus.Corpus. concepts: of the graph that the run was trained with, None for
        the whole one."""
        texts = self.texts(vocabulary, self.linker)
        arrays, facts = words.encode_splits(splits, texts, self.linker, concepts=concepts)
        return Prepared(None, facts, arrays, vectors, rows_of_splits(splits, arrays, facts))

    def asked_by(self, vocabulary: Vocab, vectors: np.ndarray) -> "NLICorpus":
        """The corpus for a run with this vocabulary and vectors [V, D], which does not learn from
        it."""
        if not self.concepts_as_words:
            return self
        return replace(
            self, concepts_of_run=words.ConceptVectors.of_vocabulary(vocabulary, vectors)
        )

    def key(self, cache: Cache) -> dict:
        """Everything that shapes the arrays, as JSON: settings, sources by content, the numbers of
        formats."""
        settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(self.encoding).items()}
        relations = settings.pop("relations")
        settings |= {} if relations is None else {"relations": list(relations)}
        key = {
            "corpus": self.name,
            "limit": self.limit or 0,
            "genre": self.genre,
            "builder": self.builder,
            **settings,
            "tokens": "pieces" if self.pieces else "blanks" if self.blanks else "words",
            "formats": self._formats(),
            "nltk": metadata.version("nltk"),
            "sources": cache.digests(self.source_files()),
        }
        if self.labels:
            key["labels"] = self.labels
        if ":" in self.name:
            own = in_order(self._own)
            key["read"] = [
                [name, digest(list(map(astuple, split.examples)))] for name, split in own.items()
            ]
        if self.pieces:
            key["pieces"] = [self.pieces.size, self.pieces.room, self.pieces.file is not None]
        if self.linking is not None:
            key |= {"ontology": self.terminology.name, "linking": self.linking.key()}
        if self.terminology:
            key |= self.terminology.key()
        if self.retrofit_relations is not None:
            key["retrofit"] = [
                self.terminology.name,
                self.concepts_as_words,
                *self.retrofit_relations,
            ]
        if self.concepts_of_run is not None:
            key["concepts_of_run"] = self.concepts_of_run.digest()
        return key

    def _formats(self) -> dict[str, int]:
        """The FORMAT of every module that shapes the arrays."""
        formats = {"words": words.FORMAT} | ({"pieces": words.FORMAT} if self.pieces else {})
        formats |= {} if self.encoding.relations is None else {"relations": TYPED_FORMAT}
        return formats | ({"ontology": load.FORMAT} if self.terminology else {})

    def _corpus_files(self) -> list[Path]:
        if ":" in self.name:
            return []
        if self.name not in CORPORA:
            return demo.demo_files(self.name)
        return source_files(self.name, self._folder(), self.needed)

    def source_files(self) -> list[Path]:
        """All files whose content shapes the arrays; each is there."""
        files = self._corpus_files()
        if self.encoding.vectors_path:
            files += vector_files(self.encoding.vectors_path)
        if self.pieces and self.pieces.file:
            files += vocabulary_files(self.pieces.file)
        if self.terminology:
            files += self.terminology.files()
        if lexicon := self.encoding.retrofit_lexicon:
            if not lexicon.is_file():
                setting = config_field("vectors.retrofit")
                fix = ("check ", setting, ": 'ontology', or the path of a lexicon")
                raise no_such_file(lexicon, fix)
            files.append(lexicon)
        for path in self.linking.files() if self.linking else ():
            check_readable(path, "check the path, or leave the setting empty")
            files.append(path)
        if missing := [path for path in files if not path.is_file()]:
            fix = (
                "check the path, or give ",
                config_field("vectors.path", ""),
                " for random vectors; accuracy will be lower",
            )
            raise ConfigError(f"{missing[0]}: there is no such file", fix=fix)
        return list(dict.fromkeys(files))

    def build(self):
        """(splits, arrays, vocabulary, vectors, facts) of the corpus."""
        size = sum(path.stat().st_size for path in self.source_files())
        if size > LARGE:
            say(
                f"preparing {self.name}, once: {size / 1e6:,.0f} MB of text and vectors to read ..."
            )
        splits = self.splits()
        linker = self.recogniser(splits)
        texts = self.texts(linker=linker)
        *arrays, facts = words.encode_corpus(
            splits, linker, self.encoding, self._retrofit_graph, corpus_paths, texts
        )
        shared = {"shared": readers.shared_texts(splits)} if len(splits) > 1 else {}
        # Where the corpus has parses, new texts get the closest tokeniser.
        train = splits.get("train", next(iter(splits.values())))
        used = {source for source, pairs in train.facts.get("tokens", {}).items() if pairs}
        tokeniser = BLANKS if used == {BLANKS} else "sentences, treebank"
        return splits, *arrays, {**facts, **shared, "tokeniser": tokeniser}


def between_blanks(split: Split) -> Split:
    """The split with tokens that are split at the blanks of the raw sentences."""
    examples = tuple(
        replace(
            e, premise_tokens=blank_tokens(e.premise), hypothesis_tokens=blank_tokens(e.hypothesis)
        )
        for e in split.examples
    )
    return replace(
        split, examples=examples, facts={**split.facts, "tokens": {BLANKS: len(examples)}}
    )
