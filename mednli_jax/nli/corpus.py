"""A corpus of premise-hypothesis pairs: its sources, its encoding, and its arrays on disk."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from scipy.sparse import csr_array

from mednli_jax import demo
from mednli_jax.data.arrays import SIDES, Prepared, rows_of_splits
from mednli_jax.data.cache import Cache
from mednli_jax.data.corpus import cache_folder, checked_folder, in_order, warn_of_exposure
from mednli_jax.data.examples import LABELS, NLIExample, Split
from mednli_jax.data.labels import NLI_LABELS, Labels
from mednli_jax.data.partitions import Partition, read_partition, uids_in_splits
from mednli_jax.data.pieces import FORMAT as PIECES_FORMAT
from mednli_jax.data.pieces import VOCABULARY, PieceVocabulary
from mednli_jax.data.text import Vocab, blank_tokens
from mednli_jax.data.vector_formats import checked_vector_files
from mednli_jax.errors import ConfigError, DataError, UsageError
from mednli_jax.files.reading import check_readable, empty_file, no_such_file
from mednli_jax.files.writing import digest
from mednli_jax.knowledge import load, retrofit
from mednli_jax.knowledge.linking import Linker, linker_of
from mednli_jax.knowledge.mentions import CONVERT, ENDINGS, Recognised, read_mentions
from mednli_jax.knowledge.ontology import Ontology, OntologyOptions, permute
from mednli_jax.knowledge.relations import FORMAT as TYPED_FORMAT
from mednli_jax.knowledge.words import Lemmas
from mednli_jax.nli.augmentation import polarity
from mednli_jax.nli.augmentation.pairs import Augmentation, Withheld, augmentation_pairs
from mednli_jax.nli.encode.links import ConceptSource, Encoding, MentionFinder, TextLinker
from mednli_jax.nli.encode.texts import FORMAT as TEXTS_FORMAT
from mednli_jax.nli.encode.texts import (
    NO_WORDS,
    ConceptTexts,
    ConceptVectors,
    PairTexts,
    PieceEncoding,
    PieceTexts,
    Vocabulary,
    WordTexts,
    encode_splits,
)
from mednli_jax.nli.read import readers
from mednli_jax.nli.read.corpora import CORPORA, OWN, licensed_files, source_files
from mednli_jax.nli.read.pair_rows import FORMAT as ROWS_FORMAT
from mednli_jax.nli.read.pair_rows import Columns
from mednli_jax.terminal import say, warn
from mednli_jax.types import JsonObject

NAMES = (*demo.SIZES, *CORPORA)
MUCH_RARER = 10  # times
WORDNET = "wordnet"  # the name of the ontology; that of a permuted one has a suffix
FORMATS = f"give a file that ends in {', '.join(ENDINGS)} (.gz may follow); {CONVERT}"
BLANKS = "blanks"
EXPERT_FORMAT = 1  # of hypothesis_expert: raise it when its probabilities change
FOLDS, LEAST = 5, 1e-6  # of hypothesis_expert: folds, and the least probability of a class
LARGE = 100_000_000  # bytes of sources; reading more is announced

Splits = dict[str, Split[NLIExample]]


@dataclass(frozen=True)
class Linking:
    """The settings by which concepts are found.

    Args:
      mentions: a file of another program, which replaces the linker.
      candidates: of several concepts that a file gives for the same tokens, the "best" or "all"
        are kept. With "all", the distance of two tokens is the shortest path between any of their
        concepts.
      types: the semantic types that are linked; () leaves the choice to the ontology.
      lemmas: words of WordNet are found by their base forms.
    """

    mentions: Path | None = None
    candidates: str = "best"
    types: tuple[str, ...] = ()
    lemmas: bool = False

    def key(self) -> JsonObject:
        """The settings as JSON."""
        key: JsonObject = {
            "types": list(self.types),
            "candidates": self.candidates,
            "mentions": str(self.mentions or ""),
        }
        if self.lemmas:
            key["lemmas"] = True
        return key

    def linker(self, ontology: Ontology) -> Linker | Lemmas:
        if self.lemmas and ontology.name.startswith(WORDNET):
            return Lemmas(ontology)
        return linker_of(ontology, self.types or None)


def read_recognised(
    path: Path, candidates: str, ontology: Ontology, splits: Splits, *, may_have_more: bool
) -> Recognised:
    """Reads the mentions of these splits from a file.

    may_have_more: the splits leave out pairs of the corpus's files, so that mentions of unknown
      pairs are no error.
    """
    unlabelled = any(split.facts.get("dropped_unlabelled") for split in splits.values())
    partial = may_have_more or unlabelled
    mentions = read_mentions(path, splits, partial=partial, candidates=candidates)
    recognised = Recognised(ontology, *mentions)
    _compare_splits(path.name, splits, recognised)
    return recognised


def _compare_splits(file: str, splits: Splits, recognised: Recognised) -> None:
    """Raises DataError for a file that has mentions of some splits and none of another; warns if
    mentions are far rarer in one split than in the others."""
    sizes, with_mention = {}, {}  # of each split: sentences, and those with a mention
    for name, split in splits.items():
        if len(split):
            uids = {example.uid for example in split.examples}
            sizes[name] = len(SIDES) * len(split)
            with_mention[name] = sum(uid in uids for uid, _ in recognised.spans)
    shares = [f"{with_mention[name]:,} of {size:,} in {name}" for name, size in sizes.items()]
    counts = f"sentences with a mention: {', '.join(shares)}"
    fix = "was the file cut off? make it from all splits"
    for name, size in sizes.items():
        elsewhere = sum(with_mention.values()) - with_mention[name]
        if elsewhere and not with_mention[name]:
            problem = f"no mention is in {name}, but some are in other splits ({counts})"
            raise DataError(problem, file=file, fix=fix)
        rate_elsewhere = elsewhere / max(sum(sizes.values()) - size, 1)
        if rate_elsewhere > MUCH_RARER * with_mention[name] / size:
            rarer = f"more than {MUCH_RARER} times rarer in {name} than elsewhere"
            warn(f"{file}: mentions are {rarer} ({counts}); {fix}")


@dataclass(frozen=True)
class Terminology:
    """An ontology in the settings of a config, see knowledge.load.load_ontology."""

    name: str
    folder: Path | None = None
    options: OntologyOptions = field(default_factory=OntologyOptions)
    permute_seed: int | None = None

    @property
    def is_wordnet(self) -> bool:
        return load.find_source(self.name, self.folder).name == WORDNET

    def files(self) -> list[Path]:
        """The files that exist; the reader refuses missing ones."""
        return list(filter(Path.is_file, load.ontology_files(self.name, self.folder)))

    def read(self) -> Ontology:
        ontology = load.load_ontology(
            self.name, self.folder, self.options, cache_dir=cache_folder()
        )
        return ontology if self.permute_seed is None else permute(ontology, self.permute_seed)

    def key(self) -> JsonObject:
        """The settings as JSON."""
        return {
            "permute_seed": -1 if self.permute_seed is None else self.permute_seed,
            "ontology_options": _as_json(vars(self.options)),
        }


def _as_json(settings: Mapping[str, object]) -> JsonObject:
    """Settings with paths as strings and tuples as lists."""
    values = dict(settings)
    for name, value in settings.items():
        if isinstance(value, Path):
            values[name] = str(value)
        elif isinstance(value, tuple):
            values[name] = list(value)
    return values


def has_format(mentions: Path | str) -> bool:
    """Whether the name of a file of mentions tells its format."""
    return str(mentions).removesuffix(".gz").endswith(ENDINGS)


class BuiltCorpus(NamedTuple):
    """The content of a prepared folder. vectors: [V, D] in the order of the vocabulary."""

    splits: Splits
    arrays: dict[str, np.ndarray]
    vocabulary: Vocabulary
    vectors: np.ndarray
    facts: JsonObject


@dataclass(frozen=True, eq=False)
class NLICorpus:
    """A corpus of pairs (see data.corpus.Corpus). An object reads each of its sources once.

    Args:
      name: one of NAMES, or `package.module:function` of the user, see readers.from_plugin.
      folder: the data folder, None if none is set.
      genre: the genre of MultiNLI's pairs; "" for all genres.
      limit: the number of training pairs that are kept, from the first; None for all.
      builder: "direct", or "tfds" to read through a TFDS builder.
      labels: the labels that the pairs may have.
      columns: the names of columns in the user's own files; pair_rows.EVIDENCE for NLI4CT.
      blanks: raw sentences are split at whitespace, in place of the corpus's own tokens.
      pieces: the settings of word pieces, None for words.
      terminology: the ontology of links and of retrofitting.
      linking: the settings by which concepts are found, None for a corpus without links.
      retrofit_relations: the relations that draw word vectors together; words that name one concept
        are always drawn together. None: the terminology does not change vectors.
      concepts_as_words: whether concepts replace words of the texts. Then the vectors of concepts
        are retrofitted, not those of words.
      concepts_of_run: the concept vectors of the finished run that is scored on this corpus, see
        `for_finished_run`. None: the vectors are fitted here.
      graph_of_run: the ids of the concepts in the graph of that run. None: encoding.graph decides
        which concepts are in the graph.
      partial: the corpus is only scored, so that a missing split (train, for instance) is no error.
      augmentation: the settings of augmentation, None without it.
      partition: a file of uids; the other training pairs are left out. None keeps all.
      debias: whether the arrays hold the probabilities of hypothesis_expert.
    """

    name: str
    encoding: Encoding
    folder: Path | None = None
    genre: str = ""
    limit: int | None = None
    builder: str = "direct"
    labels: Labels = NLI_LABELS
    columns: Columns = ()
    blanks: bool = False
    pieces: PieceEncoding | None = None
    terminology: Terminology | None = None
    linking: Linking | None = None
    retrofit_relations: tuple[str, ...] | None = None
    concepts_as_words: bool = False
    concepts_of_run: ConceptVectors | None = None
    graph_of_run: Sequence[str] | None = None
    partial: bool = False
    augmentation: Augmentation | None = None
    partition: Path | None = None
    debias: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}/{self.genre}" if self.genre else self.name

    # -- pairs --

    def splits(self) -> Splits:
        """Reads the pairs of each split from the corpus's files."""
        splits = in_order(self._read())
        if self.partition and "train" in splits:
            splits["train"] = self._listed(splits, read_partition(self.partition))
        self.warn_of_exposed_files()
        if not self.blanks:
            return splits
        return {name: between_blanks(split) for name, split in splits.items()}

    def _read(self) -> Splits:
        if self.builder == "tfds":
            from mednli_jax.tfds import load_tfds

            folder = cache_folder() / "tfds"
            return load_tfds(self.name, folder, self._folder(), limit=self.limit, genre=self.genre)
        if self._is_plugin:
            return self._first_pairs(self._plugin_splits)
        if self.name in demo.SIZES:
            return self._first_pairs(readers.load_demo(self.name))
        return readers.load_nli(
            self.name,
            self._folder(),
            limit=self.limit,
            genre=self.genre,
            partial=self.partial,
            labels=self.labels,
            columns=self.columns,
        )

    @property
    def _is_plugin(self) -> bool:
        return ":" in self.name

    def _first_pairs(self, splits: Splits) -> Splits:
        train = splits["train"]
        return {**splits, "train": with_examples(train, train.examples[: self.limit])}

    def _listed(self, splits: Splits, partition: Partition) -> Split[NLIExample]:
        """The training pairs that a partition lists."""
        gaps, uids_of = set(), {}
        for name, split in splits.items():
            uids_of[name] = [example.uid for example in split.examples]
            if split.facts.get("dropped_unlabelled") or self.builder == "tfds":
                gaps.add(name)
        is_part = bool(self.limit or self.genre)
        uids = uids_in_splits(partition, uids_of, gaps=gaps, filtered=is_part)
        listed = [example for example in splits["train"].examples if example.uid in uids]
        if not listed:
            raise empty_file(Path(partition.file), "no id of a training pair")
        return with_examples(splits["train"], listed)

    @cached_property
    def _plugin_splits(self) -> Splits:
        """The splits that a function of the user reads."""
        return readers.from_plugin(self.name, self.folder, self.labels.names)

    def _folder(self) -> Path:
        return checked_folder(self.name, self.folder)

    def warn_of_exposed_files(self) -> None:
        """Warns if other users of the machine can read the licensed text, or the ontology, that
        the corpus was just read from."""
        if self.folder is None:
            return
        names = set(self._licensed_files())
        for name in names & CORPORA.keys():  # and the corpora that splits are taken from
            names |= set(CORPORA[name].folders.values())
        warn_of_exposure(self.folder, tuple(licensed_files(sorted(names))))

    def _licensed_files(self) -> list[str]:
        """The names of the corpus and of the ontology of its links. The function `licensed_files`
        finds the files of such names."""
        linked = [self.terminology.name] if self.terminology and self.linking else []
        return [self.name, *linked]

    # -- concepts --

    @cached_property
    def _ontology(self) -> Ontology:
        assert self.terminology is not None
        return self.terminology.read()

    @property
    def ontology(self) -> Ontology | None:
        """The ontology of links and of retrofitting."""
        return self._ontology if self.terminology is not None else None

    @property
    def knowledge(self) -> str:
        """The name and the version of the ontology of the concepts; "" for a corpus without
        links."""
        if self.linking is None or self.ontology is None:
            return ""
        return f"{self.ontology.name} {self.ontology.version}"

    @cached_property
    def linker(self) -> TextLinker | None:
        """The linker for sentences outside of the corpus, which a file of mentions does not cover;
        None for a corpus without links."""
        if self.linking is None:
            return None
        if self.linking.mentions:
            new = "those of new pairs are found by this package"
            warn(f"the run's concepts were found by another program; {new}")
        return self.linking.linker(self._ontology)

    def concept_source(self, splits: Splits, spans: Path | None = None) -> ConceptSource | None:
        """A file of mentions or a linker, which finds the concepts of these splits; None for a
        corpus without links.

        spans: a file of mentions that replaces the corpus's own linking. Only its spans are used,
          so that its concepts may be ids of any terminology.
        """
        if spans and not has_format(spans):
            raise UsageError("--spans: the ending of the file names no format", fix=FORMATS)
        linking = Linking(mentions=spans) if spans else self.linking
        if linking is None:
            return None
        if linking.mentions is not None:
            is_excerpt = bool(self.limit or self.genre or self.partial or self.partition)
            # With `spans` the ontology may be None in spite of the cast: spans are only merged, and
            # never looked up.
            ontology = cast(Ontology, self.ontology)
            return read_recognised(
                linking.mentions, linking.candidates, ontology, splits, may_have_more=is_excerpt
            )
        return self.linker

    def _retrofit_graph(self, words: Sequence[str]) -> csr_array | None:
        """bool [V, V], which words draw each other's vectors together, by the terminology or by a
        lexicon; None without retrofitting."""
        if self.retrofit_relations is not None and not self.concepts_as_words:
            relations = ("synonym", *self.retrofit_relations)
            return retrofit.ontology_word_graph(self._ontology, words, relations=relations)
        if lexicon := self.encoding.retrofit_lexicon:
            return retrofit.word_graph(retrofit.read_lexicon(lexicon), words)
        return None

    # -- arrays --

    def prepare(self) -> tuple[Prepared, bool]:
        """Returns (the corpus as arrays, whether the cache had it)."""
        cache = Cache(cache_folder())
        prepared = cache.get(self._cache_name, self.key(cache), self.build)
        self.warn_of_exposed_files()
        return prepared

    @property
    def _cache_name(self) -> str:
        return self.name.replace(":", "-")

    def read_vocabulary(self, path: Path) -> Vocabulary:
        return PieceVocabulary.load(path) if self.pieces else Vocab.load(path)

    def texts(self, vocabulary: Vocabulary | None, source: ConceptSource | None) -> PairTexts:
        """The encoder of texts.

        vocabulary: None to fit one. source: finds the concepts that replace words; it has no effect
        without concepts_as_words.
        """
        if self.pieces:
            texts = PieceTexts(self.encoding, self.pieces)
            assert not isinstance(vocabulary, Vocab)
            return replace(texts, vocabulary=vocabulary) if vocabulary else texts
        assert not isinstance(vocabulary, PieceVocabulary)
        words = vocabulary or NO_WORDS
        if not self.concepts_as_words or source is None:
            return WordTexts(self.encoding, words)
        return ConceptTexts(
            self.encoding,
            words,
            finder=MentionFinder(source, self.encoding),
            relations=self.retrofit_relations or (),
            of_run=self.concepts_of_run,
        )

    def encode(
        self,
        splits: Mapping[str, Split[NLIExample]],
        vocabulary: Vocabulary,
        vectors: np.ndarray,
        concepts: Sequence[str] | None = None,
    ) -> Prepared:
        """Encodes pairs of any source in the vocabulary and the vectors [V, D] of a run, as arrays
        in memory. concepts: see links.encode_links."""
        texts = self.texts(vocabulary, self.linker)
        arrays, facts = encode_splits(
            splits, texts, self.linker, concepts=concepts, labels=self.labels.names
        )
        return Prepared(None, facts, arrays, vectors, rows_of_splits(splits, arrays, facts))

    def for_finished_run(
        self, file: Path, vectors: np.ndarray, graph: Sequence[str] | None
    ) -> "NLICorpus":
        """This corpus, to be scored by a finished run: with the vocabulary, the concepts and the
        graph of the run. This corpus needs no training pairs.

        Args:
          file: the file of the run's vocabulary.
          vectors: [V, D], the vectors of this vocabulary.
          graph: the ids of the concepts of the run's graph; None if the run stores none.
        """
        pieces = self.pieces and replace(self.pieces, file=file)
        concepts = None
        if self.concepts_as_words:
            concepts = ConceptVectors.of_vocabulary(Vocab.load(file), vectors)
        return replace(
            self,
            pieces=pieces,
            concepts_of_run=concepts,
            graph_of_run=graph,
            partial=True,
            debias=False,
        )

    def key(self, cache: Cache) -> JsonObject:
        """Everything that shapes the arrays, as JSON: settings, digests of the sources, and the
        numbers of formats."""
        key: JsonObject = {
            "corpus": self.name,
            "limit": self.limit or 0,
            "genre": self.genre,
            "builder": self.builder,
            **self._settings(),
            "tokens": "pieces" if self.pieces else BLANKS if self.blanks else "words",
            "formats": self._formats(),
            "nltk": metadata.version("nltk"),
            "sources": cache.digests(self.source_files()),
        }
        if self.labels.setting:
            key["labels"] = self.labels.setting
        if self.labels.names != LABELS:
            key["names"] = list(self.labels.names)
        if self.columns:
            key["columns"] = list(map(list, self.columns))
        if self._is_plugin:
            splits = in_order(self._plugin_splits)
            key["read"] = [
                [name, digest(list(map(astuple, split.examples)))] for name, split in splits.items()
            ]
        if self.pieces:
            key["pieces"] = [self.pieces.size, self.pieces.room]
            if self.pieces.file:
                key["sources"][VOCABULARY] = digest(
                    PieceVocabulary.of_weights(self.pieces.file).content
                )
        if self.terminology:
            key |= self.terminology.key()
            if self.linking is not None:
                key |= {"ontology": self.terminology.name, "linking": self.linking.key()}
            if self.augmentation is not None:
                key["augment"] = [self.terminology.name, *self.augmentation.key()]
            if self.retrofit_relations is not None:
                relations = self.retrofit_relations
                key["retrofit"] = [self.terminology.name, self.concepts_as_words, *relations]
        if self.concepts_of_run is not None:
            key["concepts_of_run"] = self.concepts_of_run.digest()
        return key

    def _settings(self) -> JsonObject:
        """The fields of the encoding. Fields of typed links are left out for a run without them."""
        settings = _as_json(vars(self.encoding))
        if self.encoding.relations is None:
            del settings["relations"]
        if not self.encoding.polarity:
            del settings["polarity"]
        if self.partition:
            settings["partition"] = self.partition.name
        if self.debias:
            settings["debias"] = EXPERT_FORMAT
        if self.graph_of_run is not None:
            settings["graph_of_run"] = digest(self.graph_of_run)
        return settings

    def _formats(self) -> dict[str, int]:
        """The FORMAT of every module that shapes the arrays."""
        formats = {"words": TEXTS_FORMAT}
        if self.name == OWN:
            formats["rows"] = ROWS_FORMAT
        if self.pieces:
            formats["pieces"] = PIECES_FORMAT
        if self.encoding.relations is not None:
            formats["relations"] = TYPED_FORMAT
        if self.encoding.polarity:
            formats["polarity"] = polarity.FORMAT
        if self.terminology:
            formats["ontology"] = load.FORMAT
        return formats

    def corpus_files(self) -> list[Path]:
        """The files of the examples."""
        if self._is_plugin:
            return []
        if self.name in CORPORA:
            return source_files(self.name, self._folder(), self.partial)
        return demo.demo_files(self.name)

    def source_files(self) -> list[Path]:
        """All files whose content shapes the arrays; each exists."""
        files = [*self.corpus_files(), *checked_vector_files(self.encoding.vectors_path)]
        if self.terminology:
            files += self.terminology.files()
        if lexicon := self.encoding.retrofit_lexicon:
            if not lexicon.is_file():
                fix = "check config.vectors.retrofit: 'ontology', or the path of a lexicon"
                raise no_such_file(lexicon, fix)
            files.append(lexicon)
        if self.linking and self.linking.mentions:
            fix = "check config.knowledge.mentions, or leave it empty"
            check_readable(self.linking.mentions, fix)
            files.append(self.linking.mentions)
        if self.augmentation is not None:
            files += self.augmentation.files()
        if self.partition:
            check_readable(self.partition, "check config.data.partition")
            files.append(self.partition)
        return list(dict.fromkeys(files))

    def build(self) -> BuiltCorpus:
        """Reads and encodes the corpus."""
        size = sum(path.stat().st_size for path in self.source_files())
        if size > LARGE:
            sources = f"{size / 1e6:,.0f} MB of text and vectors"
            say(f"preparing {self.name}, once: {sources} to read ...")
        splits = self.splits()
        if self.augmentation is not None:
            splits["train"] = self._with_augmentation(splits["train"], self.augmentation)
        source = self.concept_source(splits)
        texts, vectors, of_vocabulary = self.texts(None, source).fit(splits, self._retrofit_graph)
        arrays, facts = encode_splits(splits, texts, source, self.graph_of_run, self.labels.names)
        if self.debias and "train" in splits:
            arrays["expert"] = hypothesis_expert(arrays, len(splits["train"]), self.labels.names)
        facts["vocabulary"] = of_vocabulary
        if len(splits) > 1:
            facts["shared"] = readers.shared_texts(splits)
        # For `predict`: new texts have no parses, so that the Treebank's rules split them.
        facts["tokeniser"] = BLANKS if self.blanks else "sentences, treebank"
        return BuiltCorpus(splits, arrays, texts.vocabulary, vectors, facts)

    def _with_augmentation(
        self, train: Split[NLIExample], settings: Augmentation
    ) -> Split[NLIExample]:
        """Appends the augmentation pairs to the training pairs."""
        if self.terminology is None or not self.terminology.is_wordnet:
            fix = f"leave it out, or give config.knowledge.ontology={WORDNET}"
            raise ConfigError(
                "only WordNet gives augmentation pairs", field="data.augment", fix=fix
            )
        withheld = Withheld.of_files(settings.files())
        lemmas = Lemmas(self._ontology)
        pairs = augmentation_pairs(train.examples, lemmas, settings, withheld)
        facts = {**train.facts, "augmentation": pairs.facts, "note": pairs.note}
        return replace(train, examples=train.examples + pairs.examples, facts=facts)


def hypothesis_expert(
    arrays: Mapping[str, np.ndarray], size: int, labels: Sequence[str]
) -> np.ndarray:
    """The log-probabilities [N, C] of a model of hypotheses alone, the expert of a product of
    experts (He et al. 2019, Clark et al. 2019).

    The expert is a logistic regression on counts of words, which is trained on pairs of other
    premises than the pair: those of its premise often have its words and other labels. Rows beyond
    the `size` training pairs are not used, and are zero.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit, cross_val_predict

    word_NH, label_N = arrays["hypothesis"][:size], arrays["label"][:size]
    is_word_NH = np.arange(word_NH.shape[1]) < arrays["hypothesis_length"][:size, None]
    row_K, words_K = np.nonzero(is_word_NH)[0], word_NH[is_word_NH]
    shape = size, words_K.max() + 1
    counts_NV = csr_array((np.ones(len(row_K)), (row_K, words_K)), shape)
    _, premise_N = np.unique(arrays["premise"][:size], axis=0, return_inverse=True)
    folds, model = PredefinedSplit(premise_N % FOLDS), LogisticRegression(max_iter=1000)
    try:
        p_NC = cross_val_predict(model, counts_NV, label_N, cv=folds, method="predict_proba")
    except ValueError:
        problem = f"needs pairs of two labels for each of {FOLDS} parts of the premises"
        raise ConfigError(problem, field="train.debias", fix="leave it out") from None
    expert = np.zeros((len(arrays["label"]), len(labels)), np.float32)
    expert[:size] = np.log(LEAST)
    expert[:size, np.unique(label_N)] = np.log(np.maximum(p_NC, LEAST))
    return expert


def with_examples(split: Split[NLIExample], examples: Sequence[NLIExample]) -> Split[NLIExample]:
    """The split with some of its examples, whose labels are counted anew."""
    facts = split.facts
    if "labels" in facts:
        counts = Counter(example.label for example in examples)
        facts = {**facts, "labels": {label: counts[label] for label in facts["labels"]}}
    return replace(split, examples=tuple(examples), facts=facts)


def between_blanks(split: Split[NLIExample]) -> Split[NLIExample]:
    """Replaces the tokens of a split by those between the blanks of its raw sentences."""
    examples = []
    for example in split.examples:
        premise, hypothesis = blank_tokens(example.premise), blank_tokens(example.hypothesis)
        examples.append(replace(example, premise_tokens=premise, hypothesis_tokens=hypothesis))
    facts = {**split.facts, "tokens": {BLANKS: len(examples)}}
    return replace(split, examples=tuple(examples), facts=facts)
