"""Default configs. The files in configs/ derive from these, so that a config never imports another
config.

Every field has a type: a field without a value is a placeholder, a sequence is a tuple. HELP has a
text for each.
"""

import difflib
from collections.abc import Iterable
from typing import Any

from ml_collections.config_dict import ConfigDict, placeholder

from mednli_jax import tasks
from mednli_jax.errors import ConfigError

GENRES = ("fiction", "government", "slate", "telephone", "travel")
# Corpora with three hypotheses per premise. Grouped batches were measured on them: as accurate, and
# faster.
GROUPED = ("demo", "demo_full", "snli")
# Models that encode the premise separately from the hypothesis.
SENTENCE_ENCODERS = ("bow", "infersent", "esim")
ENCODERS = ("bert", "encoder")  # the models that read pieces
VARIANTS = (
    "demo",
    "demo_full",
    "mednli",
    "mediqa_nli",
    "snli",
    "file",
    *(f"multinli/{genre}" for genre in GENRES),
)
# Suffix of a variant that follows the published code of Romanov & Shivade 2018, not the paper.
CODE = "_code"
CODE_VARIANTS = ("mednli_code", "snli_code", *(f"multinli_code/{genre}" for genre in GENRES))


# What `--fields` says of each field.
HELP = {
    "data.builder": 'or "tfds": read through a TFDS builder, which gives the same arrays',
    "data.columns": "of your own files (:file): premise:note,hypothesis:claim,label:truth,uid:id",
    "data.dir": "data folder; without a value $MEDNLI_JAX_DATA",
    "data.genre": "genre of MultiNLI",
    "data.hypothesis_only": "premises are left empty",
    "data.keep": 'or "last": which words of a longer sentence are kept',
    "data.labels": (
        "of your own files (:file), in order: a,b,c; or old:new,...; without a value those of the "
        "training file"
    ),
    "data.limit": "only the first N labelled training pairs, or training queries",
    "data.lowercase": "whether words are lower-cased",
    "data.max_length": (
        "words kept of a sentence; with pieces: of both sentences and the special ones"
    ),
    "data.name": "the corpus; the variant of the config sets it",
    "data.pieces": (
        "size of the piece vocabulary, made from the training texts unless weights have one"
    ),
    "data.tokens": (
        '"words"; or "pieces", BERT\'s word pieces; or "blanks": the raw sentence split at '
        "blanks, punctuation kept"
    ),
    "data.augment": (
        "training pairs that WordNet writes, as a share of the corpus's training pairs; 0 = none"
    ),
    "data.augment_seed": "of the choice of these pairs",
    "data.augment_weight": "of these pairs in the training loss",
    "data.augment_without": (
        "the folder of `analyze substitutions`: none of its pairs of words is written"
    ),
    "data.answer_vectors": "file of word vectors for the embedding score of dev and test",
    "data.max_passage": "tokens kept of a passage; 0 = all",
    "data.max_words": "size of the vocabulary, the most frequent words of training; 0 = all",
    "data.query_bounds": "queries begin with @begin and end with @end",
    "data.setup": (
        "phrases as single tokens (ent), as anonymous ones (anonym), or plain text (noent)"
    ),
    "knowledge.abbreviations": '"bundled": names in short, such as HTN, are linked, too',
    "knowledge.candidates": (
        'Where `mentions` has several concepts for the same words: the "best", or "all", of '
        "which the nearest counts. The package's own linker gives each name one concept."
    ),
    "knowledge.direction": (
        'is-a steps up from one concept to the other; or "undirected"; or "all": any relation'
    ),
    "knowledge.graph": (
        'or "mentioned": paths pass only through concepts that train and dev mention'
    ),
    "knowledge.languages": "languages of the UMLS names",
    "knowledge.max_links": "most links of a pair; the shortest are kept",
    "knowledge.max_path": "edges of the longest path that makes a link; 0: no limit",
    "knowledge.mentions": (
        "concepts that another program found: a table (.tsv, .jsonl) or MetaMap output (.mmi, .txt)"
    ),
    "knowledge.ontology": (
        '"mesh" is bundled; "umls", "snomed", "wordnet" are in the data folder; or an .obo file'
    ),
    "knowledge.permute_seed": "a control: this seed permutes the concepts of the ontology",
    "knowledge.polarity": (
        'of knowledge "typed": hypernym and hyponym change places under a negation or another '
        "operator that reverses entailment"
    ),
    "knowledge.relations": (
        '"is_a"; or "all": direction "all" then follows every relation, and knowledge "typed" '
        'also reads antonyms. With knowledge "typed" also names of relations (may_treat,...): '
        "relation types in addition to the six."
    ),
    "knowledge.sources": "vocabularies of the UMLS to read; () = all",
    "knowledge.types": (
        'prefixes of the semantic types to link; () = the ontology\'s default, ("",) = all'
    ),
    "model.knowledge": (
        '"none"; "replace": attention from the ontology only; "bias": added to the model\'s '
        'attention; esim and encoders: "typed"'
    ),
    "model.masking": 'or "paper": padding is not masked, as in the published code',
    "model.name": "see models/table.py",
    "model.trees": "trees of each class",
    "model.dropout": "share of values that training sets to zero",
    "model.hidden_size": "units of a layer; of a recurrent layer, in each direction",
    "model.knowledge_scale": "factor of the paper's weights",
    "model.matching": 'input of the classifier: "full" [p, h, |p - h|, p * h], or "concat" [p, h]',
    "model.train_vectors": "whether word vectors are trained",
    "model.weighting": (
        'of path lengths: "paper", "exp" or "learned"; auto: "learned" for bias, else "paper"'
    ),
    "model.cell": '"lstm" or "gru"',
    "model.pooling": 'of the states of a sentence: "max", "mean" or "last"',
    "model.buckets": "rows of the hashed table of bigrams",
    "model.dim": "numbers of a word's or bigram's vector",
    "model.attention_heads": "heads of each layer; they divide hidden_size",
    "model.intermediate_size": "units of the feed-forward part of a layer",
    "model.layers": "transformer layers",
    "model.positions": "most pieces of a row",
    "model.rematerialise": "layers are computed again in the backward pass, which saves memory",
    "model.weights": (
        "a folder in Hugging Face's layout, or an installed package; it sets the sizes below"
    ),
    "model.same_words": "equal words are a type of relation, which the paper does not have",
    "model.hops": "layers, each of which reads the passage again",
    "model.pointer": (
        'noent: probability of a candidate. "sum": over all its words; "share": divided by '
        'the sum of all candidates; "mean": divided by its number of words; "span": the sum '
        "over its marked spans only"
    ),
    "model.query_feature": "an input feature: whether the word of the passage occurs in the query",
    "seeds": "one model is trained with each seed",
    "task": "the kind of experiment; the config file sets it",
    "train.batch_size": "examples of a step, on all devices together",
    "train.checkpoint_epochs": "also a checkpoint after every N epochs, and after the last",
    "train.checkpoint_minutes": "time between two checkpoints",
    "train.clip": "largest global norm of the gradient; 0 = no limit",
    "train.epochs": "most epochs",
    "train.evaluate_every": "steps between two evaluations within an epoch; 0 = only at its end",
    "train.group": (
        "hypotheses of one premise that stay together in a batch; their premise is encoded once"
    ),
    "train.halve_from": "halving: the first epoch with a lower rate",
    "train.learning_rate": "the highest rate of the schedule",
    "train.least_epochs": "epochs that are trained whatever the patience",
    "train.max_buckets": "most length buckets of the training rows; each compiles its own program",
    "train.optimizer": '"adam", "adamw" or "sgd"',
    "train.patience": "the run ends after this many epochs without a better dev score",
    "train.precision": (
        'of matrix products: the device\'s (tf32 on a GPU), "float32", "tf32", "bfloat16"'
    ),
    "train.schedule": '"constant", "halving", "linear" or "warmup_linear"',
    "train.select": 'the epoch with the best dev "loss" or "accuracy" is kept; or the "last" epoch',
    "train.shuffle": (
        '"even": each batch has texts of all lengths; "random": batches are random; for cloze '
        'also "binned": a batch has passages of one length, up to the next power of two'
    ),
    "train.warmup": "warmup_linear: share of the run's steps in which the rate rises",
    "train.weight_decay": "adamw: decoupled; other optimisers: added to the gradient",
    "transfer.init_from": (
        'finished run whose weights training starts from (sequential transfer); "" = random'
    ),
    "transfer.private": (
        "the last layers of a domain start from random values (multi-target transfer)"
    ),
    "vectors.dim": "length of a vector",
    "vectors.lowered": "a word without a vector gets that of its lower-case form",
    "vectors.path": "file of word vectors; random without a file",
    "vectors.retrofit": (
        "Retrofitting moves vectors of related words together (Faruqui et al. 2015): "
        '"ontology", or a lexicon file. "concepts": vectors of concepts, whose ids replace '
        'their mentions. "unit": a control that sets lengths to 1.'
    ),
    "vectors.retrofit_relations": (
        'of the ontology, in addition to shared names; ("all",): every relation'
    ),
    "vectors.retrofit_rounds": "passes over all words",
    "vectors.seed": "seed of random vectors",
    "vectors.unknown": (
        'vector of words that have none: the mean of the others, or one "random" vector'
    ),
    "vectors.random_sd": (
        "standard deviation of the random vectors of words without one; about that of GloVe"
    ),
    "diskne.at_once": (
        "pairs of fold and seed trained in one program; 0 = as many as fit into memory"
    ),
    "diskne.categories": (
        "categories that are reported; only diseases that have them are trained; () = all"
    ),
    "diskne.diseases": "diseases whose folds are trained: ids, or names without a comma; () = all",
    "diskne.negatives": 'or "random"; "" = as in the files',
    "diskne.ontology": "source of the names of the annotated diseases",
    "diskne.wording": 'wording of hypotheses: "name", "mention" or "full"',
}


Value = Any  # of a field


def _section(**fields: Value) -> ConfigDict:
    return ConfigDict(fields)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """ " Did you mean '...'?", or "" where no name is similar."""
    near = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def _check_variant(variant: str, variants: Iterable[str]) -> None:
    if variant not in variants:
        problem = f"unknown variant '{variant}'.{did_you_mean(variant, variants)}"
        raise ConfigError(problem, fix=f"give one of {', '.join(variants)}")


def nli(model: str, variant: str = "demo", knowledge: str = "none") -> ConfigDict:
    """An NLI experiment.

    The values for mednli are those of the paper (Romanov & Shivade 2018, section 5), the values for
    mednli_code those of its published code. docs/settings.md lists every setting in which
    they differ.

    Args:
      model: a name of models.table.MODELS.
      variant: one of VARIANTS or CODE_VARIANTS.
      knowledge: "none", "replace" (not for encoders), "bias" or, for esim and encoders, "typed".
    """
    _check_variant(variant, VARIANTS + CODE_VARIANTS)
    name, _, genre = variant.partition("/")
    corpus = name.removesuffix(CODE)
    config = ConfigDict()
    config.task = tasks.NLI
    config.seeds = (0,)
    config.data = _section(
        name=corpus,
        dir=placeholder(str),
        builder="direct",
        genre=genre,
        limit=placeholder(int),
        labels="",
        columns="",
        lowercase=True,
        tokens="words",
        pieces=8000,
        max_length=50,
        keep="first",
        hypothesis_only=False,
        augment=0.0,
        augment_seed=0,
        augment_weight=1.0,
        augment_without="",
    )
    config.vectors = _section(
        path=placeholder(str),
        dim=300,
        seed=0,
        unknown="mean",
        lowered=True,
        retrofit="",
        retrofit_rounds=10,
        retrofit_relations=("is_a",),
    )
    config.knowledge = _section(
        ontology="mesh",
        direction="either",
        max_path=0,
        max_links=64,
        permute_seed=placeholder(int),
        sources=("SNOMEDCT_US",),
        languages=("ENG",),
        relations="is_a",
        polarity=False,
        graph="whole",
        candidates="best",
        mentions="",
        types=(),
        abbreviations="",
    )
    config.model = _pair_model(model, knowledge)
    config.transfer = _section(init_from="", private=False)
    config.train = _train()
    config.train.batch_size = 64  # for the user's own files, of any size
    if corpus in SETTINGS_OF:
        SETTINGS_OF[corpus](config)
    if corpus in GROUPED and model in SENTENCE_ENCODERS:
        config.train.group = 3
    if name != corpus:
        _published_code(config)
    if knowledge == "typed":
        _typed(config)
    if model == "fasttext":
        _fasttext(config)
    if model in ENCODERS:
        _encoder(config)
    return config


def _pair_model(model: str, knowledge: str) -> ConfigDict:
    """The `model` section of an NLI experiment."""
    if model in ENCODERS:
        section = transformer(
            model, knowledge=knowledge, weighting="auto", knowledge_scale=1.0, masking="masked"
        )
        if model == "encoder":
            section.rematerialise = False
        return section
    section = _section(name=model, knowledge=knowledge, masking="masked")
    if model == "features":
        section.trees = 300
        return section
    if model == "fasttext":
        section.update(dim=100, buckets=1 << 17, train_vectors=True)
        return section
    section.update(hidden_size=300, dropout=0.5, train_vectors=False)
    section.update(weighting="auto", knowledge_scale=1.0)
    if model == "bow":
        section.matching = "concat"  # or "full": also the difference and product of both sides
    elif model == "infersent":
        section.update(cell="lstm", pooling="max", matching="full")
    elif model == "esim":
        section.dropout = 0.0  # the published MedNLI code has none
    return section


DISKNE_VARIANTS = ("demo", "file", "mednli", "mednli_code")


def diskne(model: str, variant: str = "demo", knowledge: str = "none") -> ConfigDict:
    """An NLI model on DisKnE (Alghanmi et al. 2021): does a premise entail a disease? Each seed
    trains all folds.

    variant: one of DISKNE_VARIANTS. file: a folder that launch/data/build_diskne.py wrote; mednli:
    the published annotations and MedNLI from the data folder; mednli_code: trained as the published
    scripts do (docs/settings.md).
    """
    _check_variant(variant, DISKNE_VARIANTS)
    follows_code, variant = variant.endswith(CODE), variant.removesuffix(CODE)
    config = nli(model, variant, knowledge)
    config.task = tasks.DISKNE
    config.knowledge = nli(model).knowledge  # that of mednli follows the paper on MedNLI
    config.seeds = (0, 1, 2)
    config.data.name = "demo_diskne" if variant == "demo" else variant
    config.diskne = _section(
        at_once=0,
        diseases=(),
        categories=(),
        wording="" if variant == "file" else "name",
        negatives="" if variant == "file" else "similar",
        ontology="umls" if variant == "mednli" else "none",
    )
    config.train.update(batch_size=32, group=1)
    if model in ENCODERS:  # section 4.1
        config.train.update(select="loss", patience=3, checkpoint_epochs=8)
        # A checkpoint has the state of all folds and seeds: many GB.
        config.train.checkpoint_minutes = 20.0
        if variant != "demo":
            config.data.max_length = 256
            config.train.batch_size = 8
    elif variant == "demo":  # a fold has 1,600 examples: a small model and a high rate
        config.vectors.dim = 64
        # For about ten epochs the dev loss stays at that of the class frequencies, so patience must
        # not end the run.
        config.train.update(epochs=20, patience=20, learning_rate=2e-3, max_buckets=1)
        config.model[{"fasttext": "dim"}.get(model, "hidden_size")] = 32
    if follows_code:
        config.diskne.wording = "mention"
        if model in ENCODERS:
            config.model.num_classes = 2
            config.train.update(
                optimizer="adam", schedule="linear", weight_decay=0.0, clip=1.0, select="last"
            )
    return config


def transformer(name: str, **more: Value) -> ConfigDict:
    """The `model` section of a transformer encoder, with the fields `more`."""
    return _section(
        name=name,
        weights="",
        hidden_size=128,  # units of a layer
        layers=2,
        attention_heads=2,
        intermediate_size=512,
        positions=512,
        dropout=0.1,
        **more,
    )


def _train() -> ConfigDict:
    """The `train` section of all models, with the values of Romanov & Shivade 2018, section 5, and
    of their code."""
    return _section(
        epochs=40,
        batch_size=512,
        learning_rate=1e-3,
        weight_decay=1e-6,
        clip=0.0,
        optimizer="adam",
        schedule="constant",
        warmup=0.1,
        halve_from=3,
        patience=5,
        least_epochs=0,
        evaluate_every=0,
        select="loss",
        shuffle="even",
        max_buckets=2,
        group=1,
        precision="default",
        checkpoint_minutes=5.0,
        checkpoint_epochs=1,
    )


CLOZE_VARIANTS = {"demo": "demo_cloze", "clicr": "clicr", "file": "file"}


def cloze(model: str, variant: str = "demo", setup: str = "ent") -> ConfigDict:
    """An experiment on cloze queries: a reader chooses among the marked phrases of a passage.

    The values for clicr are those that Suster & Daelemans 2018 found best (appendix A), otherwise
    those of their code. Their code differs from this package in these points:
    - It counts the steps between two evaluations across epochs, and does not evaluate at the end of
      an epoch.
    - It resets Adam's moments at each halving of the rate.
    - It clips each component of the GRU gradients to 10; `clip` here limits the norm of all
      gradients.
    - SA: it draws a dropout mask for each direction; its batches never change.
    - GA, dev: where the answer is not a candidate, it counts the first candidate as right.

    variant: one of CLOZE_VARIANTS. setup: "ent", "anonym" or "noent".
    """
    _check_variant(variant, CLOZE_VARIANTS)
    config = ConfigDict()
    config.task = tasks.CLOZE
    config.seeds = (0,)
    config.data = _section(
        name=CLOZE_VARIANTS[variant],
        dir=placeholder(str),
        setup=setup,
        max_passage=0,
        query_bounds=False,
        max_words=0,
        limit=placeholder(int),
        answer_vectors="",
    )
    config.vectors = _section(path=placeholder(str), dim=200, seed=0, random_sd=0.4)
    config.train = _train()
    config.train.update(batch_size=32, weight_decay=0.0, clip=10.0, select="accuracy")
    config.model = _section(name=model, train_vectors=True)
    set_reader = READERS.get(model, _reader)
    set_reader(config)
    if variant == "demo":
        # 1,400 queries: a smaller reader and a higher rate, so that a few epochs are enough.
        config.model.update(hidden_size=48, dropout=0.2)
        config.vectors.update(dim=64, random_sd=0.4)
        config.train.update(epochs=8, patience=3, optimizer="adam", learning_rate=2e-3)
        config.train.update(halve_from=5, least_epochs=0)
    elif variant == "file":
        # The defaults are for CliCR, whose epoch has 1,600 steps. A smaller corpus needs more than
        # three epochs at the full rate, and SGD is too slow for it. Adam at this rate was measured
        # on 3,236 queries.
        config.vectors.random_sd = 0.4
        config.train.update(epochs=30, patience=3, least_epochs=0)
        config.train.update(optimizer="adam", schedule="constant", learning_rate=1e-3)
    elif variant == "clicr":
        config.train.update(evaluate_every=100, shuffle="binned")
        config.vectors.path = "$MEDNLI_JAX_DATA/vectors/pubmed_mimic_200d.txt"
    return config


def _reader(config: ConfigDict) -> None:
    """A reader with attention over the passage in several hops."""
    config.model.update(hidden_size=64, hops=3, dropout=0.5, query_feature=True, pointer="sum")
    config.vectors.random_sd = 0.01 / 3**0.5
    config.train.update(learning_rate=5e-4, epochs=10, patience=1)
    config.train.update(schedule="halving", halve_from=4)


def _ga_reader(config: ConfigDict) -> None:
    _reader(config)
    config.data.query_bounds = True
    config.vectors.random_sd = 1.0  # of N(0, 1)


def _sa_reader(config: ConfigDict) -> None:
    config.model.update(hidden_size=70, dropout=0.57)
    config.data.max_words = 50_000
    config.vectors.random_sd = 0.01 / 3**0.5  # of U(-.01, .01)
    config.train.update(optimizer="sgd", learning_rate=0.1, epochs=100)
    config.train.update(patience=3, least_epochs=26)


# The settings of a reader for CliCR. Other models have those of _reader.
READERS = {"ga_reader": _ga_reader, "sa_reader": _sa_reader}


# Shown by --list, by the type of the examples.
VARIANTS_OF = {
    "sentence pairs": VARIANTS + CODE_VARIANTS,
    "cloze queries": tuple(CLOZE_VARIANTS),
    "DisKnE": DISKNE_VARIANTS,
}


def _demo(config: ConfigDict) -> None:
    """A small model and small batches, so that a minute of training is enough for this small
    synthetic corpus.

    The paper's attention A is at most 1 and hardly changes a softmax over 20 tokens. Multiplied by
    4, models learn to use it from 3,000 pairs. A second length bucket would save less time in
    training than its program takes to compile.
    """
    config.train.update(epochs=8, batch_size=32, learning_rate=2e-3, max_buckets=1)
    config.vectors.dim = 100
    if config.model.name in ("bow", "esim", "infersent"):
        config.model.hidden_size = 128
    if "knowledge_scale" in config.model:
        config.model.knowledge_scale = 4.0


def _mednli(config: ConfigDict) -> None:
    config.train.batch_size = 512
    config.seeds = (0, 1, 2, 3, 4, 5)  # the paper's tables are means of six runs
    config.vectors.path = "$MEDNLI_JAX_DATA/vectors/glove.840B.300d.txt"
    config.vectors.retrofit_relations = ("all",)  # as the published scripts
    if config.model.name == "fasttext":
        # The concepts that `evaluate --merged` joins are MeSH's, as in Herlihy & Rudinger 2021.
        return
    config.knowledge.update(ontology="umls", candidates="all")
    # The features use paths of the is-a hierarchy, as UMLS::Similarity does.
    if config.model.name != "features":
        # The graph of the published code: all relations, in both directions, among concepts that
        # train and dev mention.
        config.knowledge.update(relations="all", direction="all", graph="mentioned")


def _published_code(config: ConfigDict) -> None:
    """The settings of the code of Romanov & Shivade 2018, for MedNLI and the source corpora of
    transfer."""
    config.seeds = (0, 1, 2, 3, 4, 5)
    config.data.update(lowercase=False, keep="last")
    config.vectors.update(unknown="random", lowered=False)
    config.knowledge.max_links = config.data.max_length**2  # no limit
    config.train.update(batch_size=512, group=1, max_buckets=1, shuffle="random")
    if config.model.name in SENTENCE_ENCODERS:
        config.model.masking = "paper"


def _snli(config: ConfigDict) -> None:
    config.vectors.path = "$MEDNLI_JAX_DATA/vectors/glove.840B.300d.txt"


def _encoder(config: ConfigDict) -> None:
    """Fine-tuning as in Devlin et al. 2019, appendix A.3; rate, epochs and length as in Alghanmi et
    al. 2021."""
    config.data.update(tokens="pieces", max_length=128)
    config.vectors.update(path="", dim=1)  # not used: the model has its own embeddings of pieces
    config.train.update(epochs=8, batch_size=32, learning_rate=2e-5, weight_decay=0.01, clip=1.0)
    config.train.update(
        optimizer="adamw", schedule="warmup_linear", select="accuracy", max_buckets=4
    )
    # A small model, trained from scratch.
    if not config.model.weights and config.data.name in ("demo", "demo_full"):
        config.train.learning_rate = 5e-4


def _typed(config: ConfigDict) -> None:
    """Chen et al. 2018, section 3.1: is-a paths of at most 8 edges; WordNet for texts that are not
    medical."""
    # The whole graph, because the common parent of two siblings may not be mentioned in the corpus.
    config.knowledge.update(relations="all", max_path=8, max_links=96, graph="whole")
    config.model.update(masking="masked", knowledge_scale=1.0, same_words=True)
    if config.data.name in ("snli", "multinli"):
        config.knowledge.ontology = "wordnet"


def _fasttext(config: ConfigDict) -> None:
    """The defaults of the fastText library for any corpus, as in Herlihy & Rudinger 2021: 5 epochs,
    rate .1, no dev.

    The library reads whole raw texts and takes a step for each text. Here a step uses the mean
    gradient of 16 texts at 16 times the rate: the sum of their 16 steps.
    """
    config.data.update(tokens="blanks", max_length=(1 << 15) - 1)
    config.seeds = (0,)
    config.vectors.update(path="", dim=1)  # not used: the model trains its own word vectors
    config.train.update(epochs=5, batch_size=16, learning_rate=16 * 0.1, weight_decay=0.0)
    config.train.update(optimizer="sgd", schedule="linear", select="last", max_buckets=1)
    config.train.checkpoint_epochs = 5  # a checkpoint takes as long as an epoch of 10,000 texts


SETTINGS_OF = {
    "demo": _demo,
    "demo_full": _demo,
    "mednli": _mednli,
    "mediqa_nli": _mednli,  # the training and dev pairs of MedNLI with another test split
    "snli": _snli,
    "multinli": _snli,
}
