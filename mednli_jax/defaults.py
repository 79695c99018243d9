"""Parent configs: the files in configs/ derive from these, so that configs never import configs.

Every field is typed: a field without a value is a placeholder, a sequence is a tuple. The variant after the colon
names the corpus; what a corpus changes stands in CORPORA, once for all models.
"""

import difflib

from ml_collections import config_dict

from mednli_jax.errors import UserError

GENRES = ("fiction", "government", "slate", "telephone", "travel")
VARIANTS = ("demo", "demo_full", "mednli", "mediqa_nli", "snli", "file", *(f"multinli/{genre}" for genre in GENRES))


def _section(**fields) -> config_dict.ConfigDict:
    return config_dict.ConfigDict(fields)


def nli(model: str, variant: str = "demo", knowledge: str = "none") -> config_dict.ConfigDict:
    """An NLI experiment.

    model: a name of models.table. knowledge: "none", "replace" or "bias". variant: one of VARIANTS.
    The values for mednli are the paper's (Romanov & Shivade 2018, section 5, and its published code).
    Raises: UserError for an unknown variant.
    """
    if variant not in VARIANTS:
        near = difflib.get_close_matches(variant, VARIANTS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise UserError(f"E-CONF-001 unknown variant '{variant}'.{hint} Fix: give one of {', '.join(VARIANTS)}.")
    corpus, _, genre = variant.partition("/")
    config = config_dict.ConfigDict()
    config.seeds = (0,)
    config.data = _section(
        name=corpus,
        dir=config_dict.placeholder(str),  # else $MEDNLI_JAX_DATA
        builder="direct",  # or "tfds": read through a TFDS builder, with the same arrays
        genre=genre,
        limit=config_dict.placeholder(int),  # first N labelled training pairs
        lowercase=True,
        max_length=50,
        hypothesis_only=False,
    )
    config.vectors = _section(path=config_dict.placeholder(str), dim=300, seed=0)
    config.knowledge = _section(
        ontology="mesh", direction="either", max_path=0, max_links=64, permute_seed=config_dict.placeholder(int)
    )
    config.model = _section(
        name=model, hidden_size=300, dropout=0.5, train_vectors=False, knowledge=knowledge, masking="masked"
    )
    if model == "infersent":
        config.model.update(cell="lstm", pooling="max", matching="full")
    if model == "esim":
        config.model.dropout = 0.0  # the published MedNLI code has none
    config.model.update(weighting="auto", knowledge_scale=1.0)
    config.train = _section(
        epochs=40,
        batch_size=512,
        learning_rate=1e-3,
        weight_decay=1e-6,
        clip=0.0,
        patience=5,
        select="loss",
        max_buckets=2,  # length buckets of the training rows, each with a program of its own
        group=1,  # hypotheses of one premise that stand together in a batch; their premise is encoded once
        precision="default",  # or "bfloat16": matrix products of 16-bit inputs, for accelerators
        checkpoint_minutes=5.0,
    )
    CORPORA[corpus](config)
    return config


def _demo(config):
    """Small and synthetic: small batches, so that a few epochs are enough steps.

    The paper's A, at most 1, hardly moves a softmax over 20 tokens; scaled by 4 its use is learned from 3,000 pairs.
    """
    config.train.update(epochs=6, batch_size=32)
    config.model.knowledge_scale = 4.0


def _mednli(config):
    config.seeds = (0, 1, 2, 3, 4, 5)  # the paper's tables are means of six runs
    config.vectors.path = "$MEDNLI_JAX_DATA/vectors/glove.840B.300d.txt"


def _snli(config):
    config.train.batch_size = 64
    config.vectors.path = "$MEDNLI_JAX_DATA/vectors/glove.840B.300d.txt"


def _file(config):
    """One's own files in --config.data.dir, of any size: nothing is known of them, vectors are random unless given."""
    config.train.batch_size = 64


CORPORA = {
    "demo": _demo,
    "demo_full": _demo,
    "mednli": _mednli,
    "mediqa_nli": _mednli,  # MedNLI's training and dev pairs, another test
    "snli": _snli,
    "multinli": _snli,
    "file": _file,
}
