"""The fields of the configs in configs/: their types, their meaning, and the values that depend on
the corpus alone.

A file in configs/ takes `nli`, `cloze` or `diskne` and sets what its experiment decides. Every
field has a type: a field without a value is a placeholder, a sequence is a tuple.
"""

import difflib
from collections.abc import Callable, Iterable

from ml_collections.config_dict import ConfigDict, placeholder

from mednli_jax import tasks
from mednli_jax.errors import ConfigError
from mednli_jax.types import FieldValue

GENRES = ("fiction", "government", "slate", "telephone", "travel")
VARIANTS = (
    "demo",
    "demo_full",
    "mednli",
    "mediqa_nli",
    "radnli",
    "nli4ct",
    "nli4ct_2024",
    "rqe",
    "snli",
    "file",
    "multinli",
    *(f"multinli/{genre}" for genre in GENRES),
)
# Suffix of a variant that follows the published code of Romanov & Shivade 2018, not the paper.
CODE = "_code"
CODE_VARIANTS = ("mednli_code", "snli_code", *(f"multinli_code/{genre}" for genre in GENRES))
# Corpora with the settings of another one.
SETTINGS_OF = {
    "demo_full": "demo",
    "mediqa_nli": "mednli",
    "radnli": "mednli",
    "nli4ct_2024": "nli4ct",
    "nli4ct": "file",
    "rqe": "file",
}
GLOVE = "$MEDNLI_JAX_DATA/vectors/glove.840B.300d.txt"
PUBMED_MIMIC = "$MEDNLI_JAX_DATA/vectors/pubmed_mimic_200d.txt"
# The sizes of a small BERT, for a demo; pretrained weights set their own.
SMALL_BERT = {
    "hidden_size": 128,
    "layers": 2,
    "attention_heads": 2,
    "intermediate_size": 512,
    "positions": 512,
}

# What `--fields` says of each field.
HELP = {
    "data.builder": 'or "tfds": read through a TFDS builder, which gives the same arrays',
    "data.columns": "of your own files (:file): premise:note,hypothesis:claim,label:truth,uid:id",
    "data.dir": "data folder; without a value $MEDNLI_JAX_DATA",
    "data.evidence": "nli4ct: premises have the annotated evidence alone",
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
    "data.partition": "a file of uids, such as AFLite's: the other training pairs are left out",
    "data.pieces": (
        "size of the piece vocabulary, made from the training texts unless weights have one"
    ),
    "data.tokens": (
        '"words"; or "pieces", BERT\'s word pieces; or "blanks": the raw sentence split at '
        "blanks, punctuation kept"
    ),
    "data.augment": (
        "augmentation pairs (of WordNet), as a share of the corpus's training pairs; 0 = none"
    ),
    "data.augment_seed": "of the choice of augmentation pairs",
    "data.augment_without": (
        "the folder of `analyze substitutions`: no augmentation pair has its pairs of words"
    ),
    "data.answer_vectors": "file of word vectors for the embedding score of dev and test",
    "data.max_passage": "tokens kept of a passage; 0 = all",
    "data.max_words": "size of the vocabulary, the most frequent words of training; 0 = all",
    "data.query_bounds": "queries begin with @begin and end with @end",
    "data.setup": (
        "phrases as single tokens (ent), as anonymous ones (anonym), or plain text (noent)"
    ),
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
    "train.debias": (
        'or "hypothesis": the loss is that of a product with a model of hypotheses, whose '
        "probabilities are out of fold; the main model alone predicts"
    ),
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


def _section(**fields: FieldValue) -> ConfigDict:
    return ConfigDict(fields)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The question " Did you mean '...'?"; "" if no name is similar."""
    near = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def _check_variant(variant: str, variants: Iterable[str]) -> None:
    if variant not in variants:
        problem = f"unknown variant '{variant}'.{did_you_mean(variant, variants)}"
        raise ConfigError(problem, fix=f"give one of {', '.join(variants)}")


def pick_for(variant: str) -> Callable[..., FieldValue]:
    """The function pick(value, demo=..., mednli=..., code=...), which returns the value of a field
    for the corpus of the variant.

    That is the argument named as the corpus, else as the one whose settings it has (SETTINGS_OF),
    else `value`. `code` is for the variants that follow published code, and comes first.
    """
    name, _, _ = variant.partition("/")
    corpus = name.removesuffix(CODE)
    names = [corpus]
    while names[-1] in SETTINGS_OF:
        names.append(SETTINGS_OF[names[-1]])

    def pick(value: FieldValue, **value_of: FieldValue) -> FieldValue:
        if name.endswith(CODE) and "code" in value_of:
            return value_of["code"]
        return next((value_of[name] for name in names if name in value_of), value)

    return pick


def nli(variant: str = "demo") -> ConfigDict:
    """An experiment on sentence pairs. Its config names no model: set config.model.name, and the
    fields of the model.

    The values for mednli are those of Romanov & Shivade 2018, section 5, those for mednli_code of
    their code. docs/settings.md lists every setting in which they differ.

    variant: one of VARIANTS or CODE_VARIANTS.
    """
    _check_variant(variant, VARIANTS + CODE_VARIANTS)
    name, _, genre = variant.partition("/")
    pick = pick_for(variant)
    six_runs = tuple(range(6))  # the paper's tables are means of six runs
    config = ConfigDict()
    config.task = tasks.NLI
    config.seeds = pick((0,), mednli=six_runs, code=six_runs)
    config.data = _section(
        name=name.removesuffix(CODE),
        dir=placeholder(str),
        builder="direct",
        genre=genre,
        evidence=False,
        limit=placeholder(int),
        partition="",
        labels="",
        columns="",
        lowercase=pick(True, code=False),
        tokens="words",
        pieces=8000,
        max_length=pick(50, nli4ct=512, rqe=256),  # a premise is a section, or a letter
        keep=pick("first", code="last"),
        hypothesis_only=False,
        augment=0.0,
        augment_seed=0,
        augment_without="",
    )
    config.vectors = _section(
        path=placeholder(str),
        dim=300,
        seed=0,
        unknown=pick("mean", code="random"),
        lowered=pick(True, code=False),
        retrofit="",
        retrofit_rounds=10,
        retrofit_relations=pick(("is_a",), mednli=("all",)),  # as the published scripts
    )
    # MedNLI: the graph of the published code has all relations, in both directions, among concepts
    # that train and dev mention.
    config.knowledge = _section(
        ontology=pick("mesh", mednli="umls"),
        direction=pick("either", mednli="all"),
        max_path=0,
        max_links=pick(64, code=config.data.max_length**2),  # code: no limit
        permute_seed=placeholder(int),
        sources=("SNOMEDCT_US",),
        languages=("ENG",),
        relations=pick("is_a", mednli="all"),
        polarity=False,
        graph=pick("whole", mednli="mentioned"),
        candidates=pick("best", mednli="all"),
        mentions="",
        types=(),
    )
    config.model = _section(name="", knowledge="none", masking="masked")
    config.transfer = _section(init_from="", private=False)
    config.train = _train()
    config.train.update(
        debias="",
        batch_size=64,
        # In training on the demo a second length bucket would save less time than its program
        # takes to compile.
        max_buckets=pick(2, demo=1, code=1),
        shuffle=pick("even", code="random"),
        # Corpora with two or three hypotheses of a premise: grouped batches are as accurate, and
        # faster.
        group=pick(1, demo=3, snli=3, nli4ct=2, rqe=2, code=1),
    )
    return config


DISKNE_VARIANTS = ("demo", "file", "mednli", "mednli_code")


def diskne(variant: str = "demo") -> ConfigDict:
    """An experiment on DisKnE (Alghanmi et al. 2021) without a model: does a premise entail a
    disease? Each seed trains all folds.

    variant: one of DISKNE_VARIANTS. file: a folder that launch/data/build_diskne.py wrote; mednli:
    the published annotations and MedNLI from the data folder; mednli_code: trained as the published
    scripts do (docs/settings.md).
    """
    _check_variant(variant, DISKNE_VARIANTS)
    pick = pick_for(variant)
    config = nli(variant.removesuffix(CODE))
    config.task = tasks.DISKNE
    config.knowledge = nli("file").knowledge  # that of mednli follows the paper on MedNLI
    config.seeds = (0, 1, 2)
    if variant == "demo":
        config.data.name = "demo_diskne"
    config.diskne = _section(
        at_once=0,
        diseases=(),
        categories=(),
        wording=pick("name", file="", code="mention"),
        negatives=pick("similar", file=""),
        ontology=pick("none", mednli="umls"),
    )
    config.train.update(batch_size=32, group=1)
    return config


def _train() -> ConfigDict:
    """The `train` section of all models."""
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


CORPORA_OF_QUERIES = {"demo": "demo_cloze", "clicr": "clicr", "file": "file"}
SETUPS = ("ent", "anonym", "noent")
CLOZE_VARIANTS = (
    *CORPORA_OF_QUERIES,
    *(f"{corpus}/{setup}" for corpus in CORPORA_OF_QUERIES for setup in SETUPS),
)


def cloze(variant: str = "demo") -> ConfigDict:
    """An experiment on cloze queries without a model: a reader chooses among the marked phrases of
    a passage.

    The code of Suster & Daelemans 2018 differs from this package in these points:
    - It counts the steps between two evaluations across epochs, and does not evaluate at the end of
      an epoch.
    - It resets Adam's moments at each halving of the rate.
    - It clips each component of the GRU gradients to 10; `clip` here limits the norm of all
      gradients.
    - SA: it draws a dropout mask for each direction; its batches never change.
    - GA, dev: where the answer is not a candidate, it counts the first candidate as right.

    variant: one of CLOZE_VARIANTS: the corpus and the set-up, by default "ent".
    """
    _check_variant(variant, CLOZE_VARIANTS)
    corpus, _, setup = variant.partition("/")
    pick = pick_for(variant)
    config = ConfigDict()
    config.task = tasks.CLOZE
    config.seeds = (0,)
    config.data = _section(
        name=CORPORA_OF_QUERIES[corpus],
        dir=placeholder(str),
        setup=setup or "ent",
        max_passage=0,
        query_bounds=False,
        max_words=0,
        limit=placeholder(int),
        answer_vectors="",
    )
    config.vectors = _section(path=placeholder(str), dim=200, seed=0, random_sd=0.4)
    config.train = _train()
    config.train.update(batch_size=32, weight_decay=0.0, select="accuracy")
    # as the published code
    config.train.update(
        evaluate_every=pick(0, clicr=100), shuffle=pick("even", clicr="binned"), clip=10.0
    )
    config.model = _section(name="", train_vectors=True)
    return config


# Shown by --list, by the type of the examples.
VARIANTS_OF = {
    "sentence pairs": VARIANTS + CODE_VARIANTS,
    "cloze queries": CLOZE_VARIANTS,
    "DisKnE": DISKNE_VARIANTS,
}
