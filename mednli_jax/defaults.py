"""Parent configs: the files in configs/ derive from these, so that configs never import configs.

Every field has a type: a field without a value is a placeholder, a sequence is a tuple. The variant after the colon
names the corpus. CORPORA holds what a corpus changes, once for all models.
"""

import difflib

from ml_collections import config_dict

from mednli_jax.errors import ConfigError

GENRES = ("fiction", "government", "slate", "telephone", "travel")
# Corpora with three hypotheses a premise on which grouped batches were measured to be as accurate, and faster.
GROUPED = ("demo", "demo_full", "snli")
VARIANTS = ("demo", "demo_full", "mednli", "mediqa_nli", "snli", "file", *(f"multinli/{genre}" for genre in GENRES))
CODE = "_code"  # after a corpus's name: as the published code of Romanov & Shivade 2018 treats it
CODE_VARIANTS = ("mednli_code", "snli_code", *(f"multinli_code/{genre}" for genre in GENRES))


def _section(**fields) -> config_dict.ConfigDict:
    return config_dict.ConfigDict(fields)


def did_you_mean(given, known) -> str:
    """ " Did you mean '...'?", or "" where no known name is similar."""
    near = difflib.get_close_matches(given, known, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def _check_variant(variant, known):
    if variant not in known:
        hint = did_you_mean(variant, known)
        raise ConfigError(f"unknown variant '{variant}'.{hint} Fix: give one of {', '.join(known)}.")


def nli(model: str, variant: str = "demo", knowledge: str = "none") -> config_dict.ConfigDict:
    """An NLI experiment.

    model: a name of models.table. knowledge: "none", "replace", "bias" or, of esim, "typed". variant: one of VARIANTS,
    CODE_VARIANTS.
    The values for mednli are the paper's (Romanov & Shivade 2018, section 5), for mednli_code those of its published
    code. docs/results-mednli.md lists every setting in which they differ. Raises: UserError for an unknown variant.
    """
    _check_variant(variant, VARIANTS + CODE_VARIANTS)
    named, _, genre = variant.partition("/")
    corpus = named.removesuffix(CODE)
    config = config_dict.ConfigDict()
    config.task = "nli"
    config.seeds = (0,)
    config.data = _section(
        name=corpus,
        dir=config_dict.placeholder(str),  # else $MEDNLI_JAX_DATA
        builder="direct",  # or "tfds": read through a TFDS builder, with the same arrays
        genre=genre,  # of MultiNLI
        limit=config_dict.placeholder(int),  # first N labelled training pairs
        lowercase=True,  # the words
        # Or "pieces" of words, as BERT's vocabularies have them, or "blanks": what is between the blanks of the raw
        # sentence, punctuation and all.
        tokens="words",
        pieces=8000,  # of a vocabulary made of the training texts, where no weights bring one
        max_length=50,  # words kept of each sentence; pieces: of both together, with the special ones
        keep="first",  # or "last": which words of a longer sentence stay
        hypothesis_only=False,  # premises are left empty
        features=False,  # any classifier also gets the 35 features of the feature-based system
        sample=config_dict.placeholder(int),  # about so many training pairs, whole premises
        mix="",  # a variant whose training pairs are mixed in (multi-task transfer)
    )
    config.vectors = _section(
        path=config_dict.placeholder(str),  # FILE, or FILE+FILE side by side; random where there is none
        dim=300,  # numbers of a vector
        seed=0,  # of random vectors
        unknown="mean",  # vector of words that have none: the mean of the others, or one "random" vector
        lowered=True,  # a word that has a vector only in lower case gets that one
        # Vectors of related words are moved together (Faruqui et al. 2015), by the "ontology" or the lexicon in a file.
        # "concepts": vectors of concepts, whose ids replace their mentions. "unit", a control: only sets lengths to 1.
        retrofit="",
        retrofit_rounds=10,
        retrofit_relations=("is_a",),  # of the ontology, besides shared names
    )
    config.knowledge = _section(
        # Bundled; or "umls", "snomed", "wordnet" in the data folder, or an .obo file; several as "wordnet+mesh".
        ontology="mesh",
        direction="either",  # is-a steps up to an ancestor, whichever side that is; "undirected"; "all" relations
        max_path=0,  # edges of the longest path that makes a link; 0: of any length
        max_links=64,  # of a pair, the shortest ones
        permute_seed=config_dict.placeholder(int),  # a control: the ontology's concepts are permuted by this seed
        sources=("SNOMEDCT_US",),  # vocabularies of the UMLS to take; () takes all
        languages=("ENG",),  # of the UMLS's names
        # Or "all": direction "all" then follows every relation. With knowledge "typed", names (may_treat,...) are types
        # besides the six, and "all" reads antonyms, too.
        relations="is_a",
        cycles="drop",  # leave out is-a edges that run in circles and say how many; or "refuse" the ontology
        graph="whole",  # or "mentioned": paths only pass through concepts that train and dev mention
        # Which of several concepts that `mentions` has for the same words: the "best", or "all", of which the nearest
        # counts. The package's own linker gives a name one concept.
        candidates="best",
        mentions="",  # concepts found by another program: spans (.tsv, .jsonl) or MetaMap's output (.mmi, .txt)
        types=(),  # prefixes of the semantic types to link; () = the ontology's default, ("",) = all
        min_length=3,  # characters of the shortest name that is linked
        abbreviations="",  # a table of short forms and expansions, or "bundled"
        stop="",  # a file of names that are not linked; "" = the built-in list
    )
    config.model = _section(
        name=model,  # see models/table.py
        hidden_size=300,
        dropout=0.5,
        train_vectors=False,  # word vectors are trained, too
        # "none", "replace" (attention by the ontology alone), "bias" (added to the model's own) or, of esim, "typed"
        knowledge=knowledge,
        masking="masked",  # or "paper": padding takes part, as in the published code
    )
    if model == "bow":
        config.model.matching = "concat"  # or "full": with the difference and product of both sides
    if model == "infersent":
        config.model.update(cell="lstm", pooling="max", matching="full")
    if model == "esim":
        config.model.dropout = 0.0  # the published MedNLI code has none
    if model == "bert":
        config.model = transformer(model, knowledge=knowledge, weighting="auto", knowledge_scale=1.0, masking="masked")
    elif model == "features":
        config.model = _section(
            name=model, knowledge=knowledge, masking="masked", trees=300, depth=3, learning_rate=0.1, subsample=1.0
        )
    elif model == "fasttext":
        config.model = _section(
            name=model, knowledge=knowledge, masking="masked", dim=100, buckets=1 << 17, train_vectors=True
        )
    else:
        config.model.update(
            weighting="auto",  # of path lengths: "paper", "exp" or "learned"; auto: "learned" for bias, else "paper"
            knowledge_scale=1.0,  # of the paper's weights
            heads=1,  # number of domains, each with its own last layers (multi-target transfer)
        )
    config.transfer = _section(
        init_from="",  # a finished run whose weights training starts from (sequential transfer); "" = random weights
        private=False,  # the layers of a domain start from random values (multi-target transfer)
        skip="",  # a pattern of further weights that start from random values
        freeze="",  # a pattern of weights that are not trained
    )
    config.train = _train()
    CORPORA.get(corpus, _file)(config)
    if corpus in GROUPED and "heads" in config.model:  # models that encode a premise apart from its hypotheses
        config.train.group = 3
    if named != corpus:
        _published_code(config)
    if knowledge == "typed":
        _typed(config)
    if model == "fasttext":
        _fasttext(config)
    if model == "bert":
        _bert(config)
    return config


DISKNE_VARIANTS = ("demo", "file", "mednli", "mednli_code")


def diskne(model: str, variant: str = "demo", knowledge: str = "none") -> config_dict.ConfigDict:
    """Whether a premise shows a disease, a fold for each disease (Alghanmi et al. 2021), by any NLI model.

    variant: one of DISKNE_VARIANTS; file: a folder that launch/build_diskne.py wrote; mednli: the published annotations
    and MedNLI from the data folder; mednli_code: as the published scripts train on them (docs/results-diskne.md).
    seeds: of the runs, each of all folds. Raises: UserError for an unknown variant.
    """
    _check_variant(variant, DISKNE_VARIANTS)
    named, variant = variant, variant.removesuffix(CODE)
    config = nli(model, variant, knowledge)
    config.task = "diskne"
    config.knowledge = nli(model, "demo").knowledge  # the graph of :mednli is that of the paper on MedNLI
    config.seeds = (0, 1, 2)
    config.data.name = "demo_diskne" if variant == "demo" else variant
    config.diskne = _section(
        at_once=0,  # folds times seeds in one program; 0 = as many as fit into memory
        diseases=(),  # ids, or names without a comma, of those whose folds are trained; () = all
        categories=(),  # categories that are reported; only diseases that have them are trained; () = all
        least=2,  # positive examples of a disease in a category that is reported
        dev=0.1,  # of the examples that a fold may train on, whole premises
        pool="group",  # a fold trains on examples of its own group (medical or terminological), or on "all"
        wording="" if variant == "file" else "name",  # of hypotheses, or "mention", "full"
        negatives="" if variant == "file" else "similar",  # or "random"; "" = as in the files
        negatives_seed=0,
        annotations=(),  # the published files; () = all of $MEDNLI_JAX_DATA/diskne
        ontology="umls" if variant == "mednli" else "none",  # names the annotated diseases
    )
    config.train.update(batch_size=32, group=1)
    if model == "bert":  # section 4.1
        config.train.update(select="loss", patience=3, checkpoint_epochs=8)
        config.train.checkpoint_minutes = 20.0  # one has the weights of all slots three times, and the best: many GB
        if variant != "demo":
            config.data.max_length = 256
            config.train.batch_size = 8
    elif variant == "demo":  # 1,600 examples of a fold: a small model and a high rate
        config.vectors.dim = 64
        # Dev loss stays at what the classes' shares give for about ten epochs.
        config.train.update(epochs=20, patience=20, learning_rate=2e-3, max_buckets=1)
        config.model[{"fasttext": "dim"}.get(model, "hidden_size")] = 32
    if named != variant:
        config.diskne.wording = "mention"
        if model == "bert":
            config.model.num_classes = 2
            config.train.update(optimizer="adam", schedule="linear", weight_decay=0.0, clip=1.0, select="last")
    return config


def transformer(name: str, **more) -> config_dict.ConfigDict:
    return _section(
        name=name,
        weights="",  # a folder of Hugging Face's layout, or an installed package; it decides the sizes below
        vocab_size=0,
        hidden_size=128,
        layers=2,
        attention_heads=2,
        intermediate_size=512,
        positions=512,
        epsilon=1e-12,
        activation="gelu",
        dropout=0.1,
        rematerialise=False,  # the backward pass computes activations again instead of storing them, to save memory
        **more,
    )


MLM_VARIANTS = ("demo", "file")


def mlm(model: str = "masked_lm", variant: str = "demo") -> config_dict.ConfigDict:
    """BERT's encoder as a masked language model (Devlin et al. 2019), from scratch or from weights.

    variant: demo, the bundled facts as text; file: train.txt and perhaps dev.txt in --config.data.dir. The values are
    those of a small model; for BERT's own sizes give them, or weights. Raises: UserError for an unknown variant.
    """
    _check_variant(variant, MLM_VARIANTS)
    config = config_dict.ConfigDict()
    config.task = "mlm"
    config.seeds = (0,)
    config.data = _section(
        name=variant,
        dir=config_dict.placeholder(str),
        limit=config_dict.placeholder(int),  # first N documents of train
        lowercase=True,  # of a vocabulary made here
        pieces=8000,  # of a vocabulary made of the texts, where no weights bring one
        max_length=128,  # pieces of a row, with the special ones
        content="both",  # demo: "facts", "names" of MeSH, or "both"
        withhold=(),  # demo: diseases and categories whose facts are left out
    )
    config.model = transformer(model)
    config.train = _train()
    config.train.update(epochs=10, batch_size=32, learning_rate=5e-4, weight_decay=0.01, clip=1.0, patience=10)
    config.train.update(optimizer="adamw", schedule="warmup_linear", max_buckets=4)
    return config


def _train() -> config_dict.ConfigDict:
    """How any model is trained; the values are those of Romanov & Shivade 2018, section 5, and of their code."""
    return _section(
        epochs=40,  # at most
        batch_size=512,
        learning_rate=1e-3,
        weight_decay=1e-6,
        clip=0.0,  # limit of the gradient's norm; 0 = none
        optimizer="adam",  # or "amsgrad", "adamw", "sgd"
        momentum=0.0,  # of sgd
        schedule="constant",  # or "plateau", "halving", "cyclical", "linear", "warmup_linear"
        warmup=0.1,  # warmup_linear: the share of the run's steps in which the rate rises
        accumulate=1,  # batches whose gradients make one step
        decay=0.5,  # factor of the rate; plateau: after an epoch without a new best; halving: from halve_from on
        halve_from=3,
        floor=0.1,  # cyclical: the lowest rate, as a share of learning_rate
        cycle=0,  # cyclical: steps from one lowest rate to the next; 0 = an epoch
        average_from=0,  # the first epoch whose weights are averaged (stochastic weight averaging); 0 = none
        average_every=0,  # steps between two samples of that average; 0 = one at the end of each epoch
        patience=5,  # the run ends after so many epochs without a better score on dev
        least_epochs=0,  # epochs before which patience does not end the run
        evaluate_every=0,  # steps between two evaluations, counted within an epoch; 0 = at the end of the epoch only
        select="loss",  # the epoch with the best dev loss is kept; or "accuracy" on dev, or "last": the last epoch
        shuffle="even",  # each batch has sentences of all lengths; "random": batches are random
        max_buckets=2,  # length buckets of the training rows, each with a program of its own
        group=1,  # hypotheses of one premise that are kept together in a batch; their premise is encoded once
        precision="default",  # of matrix products: the device's (tf32 on a GPU), "float32", "tf32" or "bfloat16"
        checkpoint_minutes=5.0,
        checkpoint_epochs=1,  # besides: a checkpoint after every so many epochs, and after the last
    )


CLOZE_VARIANTS = {"demo": "demo_cloze", "clicr": "clicr", "biomrc": "biomrc", "file": "file"}


def cloze(model: str, variant: str = "demo", setup: str = "ent") -> config_dict.ConfigDict:
    """An experiment on cloze queries: a reader chooses among the marked phrases of a passage.

    model: "ga_reader" or "sa_reader". setup: "ent", "anonym" or "noent". variant: one of CLOZE_VARIANTS.
    The values for clicr are those that Suster & Daelemans 2018 found best (appendix A), the rest those of their code.
    Where we differ from that code: it counts the steps between two evaluations across epochs, and an epoch's end is no
    evaluation; it forgets Adam's moments at each halving of the rate; it limits each number of the GRUs' gradients to
    10, where `clip` is of the norm of them all; in SA it has a dropout mask for each direction, and batches of passages
    of like length that stay the same in all epochs; on dev it takes GA's first candidate for right where the answer is
    none of them.
    Raises: UserError for an unknown variant.
    """
    _check_variant(variant, CLOZE_VARIANTS)
    config = config_dict.ConfigDict()
    config.task = "cloze"
    config.seeds = (0,)
    config.data = _section(
        name=CLOZE_VARIANTS[variant],
        dir=config_dict.placeholder(str),  # else $MEDNLI_JAX_DATA
        setup=setup,  # phrases as single tokens (ent), the same without names (anonym), or plain text (noent)
        max_passage=0,  # tokens kept of a passage; 0 = all
        max_query=0,  # and of a query, around the blank
        query_bounds=model == "ga_reader",  # queries begin with @begin and end with @end
        max_words=0,  # size of the vocabulary, the most frequent words of training; 0 = all
        stray_marks="text",  # marks without a partner are text, up to 1 % of a file's marks; or "refuse", "ignore"
        limit=config_dict.placeholder(int),  # first N training queries
        answer_vectors="",  # file of word vectors for the embedding score of dev and test
        renumber=False,  # anonym: phrases of a training passage get other numbers in each epoch
    )
    config.vectors = _section(
        path=config_dict.placeholder(str),
        dim=200,
        seed=0,
        random_sd=0.4,  # standard deviation of the vectors of words that have none: about that of GloVe's
    )
    config.train = _train()
    config.train.update(batch_size=32, weight_decay=0.0, clip=10.0, select="accuracy")
    if model == "sa_reader":
        config.model = _section(name=model, hidden_size=70, dropout=0.57, attention="bilinear", train_vectors=True)
        config.train.update(optimizer="sgd", learning_rate=0.1, epochs=100, patience=3, least_epochs=26)
        config.data.max_words = 50_000
    else:
        config.model = _section(
            name=model,
            hidden_size=64,
            hops=3,
            gate="mul",  # or "sum", "concat"
            dropout=0.5,
            query_feature=True,  # the reader sees whether a word of the passage occurs in the query
            characters=0,  # size of a recurrent encoder of words' characters; 0 = none
            # noent: probability of a candidate, the "sum" over all its words; "share": divided by the sum of all
            # candidates; "mean": divided by its number of words; "span": the sum over its marked spans alone
            pointer="sum",
            train_vectors=True,
        )
        config.train.update(learning_rate=5e-4, epochs=10, patience=1, schedule="halving", halve_from=4)
    if variant == "demo":
        # 1,400 queries: a smaller reader and a higher rate, so that a few epochs are enough.
        config.model.update(hidden_size=48, dropout=0.2)
        config.vectors.dim = 64
        config.train.update(epochs=8, patience=3, optimizer="adam", learning_rate=2e-3, halve_from=5, least_epochs=0)
    elif variant == "file":
        # An epoch of CliCR has 1,600 steps. On a smaller corpus three epochs at the full rate would be too few, and SGD
        # too slow; Adam at this rate was measured on 3,236 queries.
        config.train.update(epochs=30, patience=3, least_epochs=0, optimizer="adam", schedule="constant")
        config.train.learning_rate = 1e-3
    elif variant == "clicr":
        config.train.evaluate_every = 100
        config.vectors.path = "$MEDNLI_JAX_DATA/vectors/pubmed_mimic_200d.txt"
        # GA: N(0, 1). SA: the spread of U(-.01, .01).
        config.vectors.random_sd = 1.0 if model == "ga_reader" else 0.01 / 3**0.5
    return config


# Shown by --list, by the type of the examples.
VARIANTS_OF = {
    "sentence pairs": VARIANTS + CODE_VARIANTS,
    "cloze queries": tuple(CLOZE_VARIANTS),
    "DisKnE": DISKNE_VARIANTS,
    "running text": MLM_VARIANTS,
}


def _demo(config):
    """Small and synthetic: small batches, so that a few epochs are enough steps.

    The paper's A, at most 1, hardly changes a softmax over 20 tokens. Multiplied by 4 its use is learned from
    3,000 pairs.
    """
    config.train.update(epochs=6, batch_size=32)
    if "knowledge_scale" in config.model:
        config.model.knowledge_scale = 4.0


def _mednli(config):
    config.seeds = (0, 1, 2, 3, 4, 5)  # the paper's tables are means of six runs
    config.vectors.path = "$MEDNLI_JAX_DATA/vectors/glove.840B.300d.txt"
    config.knowledge.update(ontology="umls", candidates="all")
    if config.model.name != "features":  # which take paths of the is-a hierarchy, as UMLS::Similarity does
        # The published code's graph: all relations among the concepts that train and dev mention, both ways.
        config.knowledge.update(relations="all", direction="all", graph="mentioned")


def _published_code(config):
    """What the code of Romanov & Shivade 2018 does, for MedNLI and the sources of transfer."""
    config.seeds = (0, 1, 2, 3, 4, 5)
    config.data.update(lowercase=False, keep="last")
    config.vectors.update(unknown="random", lowered=False)
    config.knowledge.max_links = config.data.max_length**2  # all
    config.train.update(batch_size=512, group=1, max_buckets=1, shuffle="random")
    if "heads" in config.model:  # BOW, InferSent and ESIM
        config.model.masking = "paper"


def _snli(config):
    config.train.batch_size = 64
    config.vectors.path = "$MEDNLI_JAX_DATA/vectors/glove.840B.300d.txt"


def _file(config):
    """The user's files in --config.data.dir, of any size; vectors are random unless given."""
    config.train.batch_size = 64


def _bert(config):
    """Devlin et al. 2019, appendix A.3, with the rate, epochs and length of Alghanmi et al. 2021."""
    config.data.update(tokens="pieces", max_length=128)
    config.vectors.update(path="", dim=1)  # not used: the pieces have embeddings of their own
    config.train.update(epochs=8, batch_size=32, learning_rate=2e-5, weight_decay=0.01, clip=1.0)
    config.train.update(optimizer="adamw", schedule="warmup_linear", select="accuracy", max_buckets=4)
    if not config.model.weights and config.data.name in ("demo", "demo_full"):  # from scratch: a small one, fast
        config.train.learning_rate = 5e-4


def _typed(config):
    """Chen et al. 2018, section 3.1: is-a paths of at most 8 edges; WordNet for texts that are not medical."""
    config.knowledge.update(relations="all", max_path=8, graph="whole")  # siblings have a parent, mentioned or not
    config.model.update(masking="masked", knowledge_scale=1.0)
    if config.data.name in ("snli", "multinli"):
        config.knowledge.ontology = "wordnet"


def _fasttext(config):
    """The library's own defaults whatever the corpus, as in Herlihy & Rudinger 2021: 5 epochs, a rate of .1, no dev.

    It reads raw text, whole. It takes a step for each text. A step of the mean of 16 at 16 times the rate is the sum of
    their 16 steps.
    """
    config.data.update(tokens="blanks", max_length=(1 << 15) - 1)
    config.seeds = (0,)
    config.vectors.update(path="", dim=1)  # not used: the words' rows are trained from scratch
    config.train.update(epochs=5, batch_size=16, learning_rate=16 * 0.1, weight_decay=0.0)
    config.train.update(optimizer="sgd", schedule="linear", select="last", max_buckets=1)
    config.train.checkpoint_epochs = 5  # one takes as long as an epoch of 10,000 texts


CORPORA = {
    "demo": _demo,
    "demo_full": _demo,
    "mednli": _mednli,
    "mediqa_nli": _mednli,  # MedNLI's training and dev pairs, another test
    "snli": _snli,
    "multinli": _snli,
}
