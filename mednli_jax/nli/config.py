"""Reads a config of sentence pairs: its corpus, its classes, and the rules for such configs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mednli_jax.data.corpus import check_name, corpora_folder, corpus_folder, file_path
from mednli_jax.data.examples import LABELS
from mednli_jax.data.labels import MOST_LABELS, NLI_LABELS, Labels
from mednli_jax.data.pieces import find_weights
from mednli_jax.knowledge.ontology import RELATIONS, OntologyOptions
from mednli_jax.nli.augmentation.pairs import Augmentation
from mednli_jax.nli.corpus import (
    BLANKS,
    FORMATS,
    NAMES,
    Linking,
    NLICorpus,
    Terminology,
    has_format,
)
from mednli_jax.nli.encode.links import Encoding
from mednli_jax.nli.encode.texts import PieceEncoding
from mednli_jax.nli.read.corpora import CORPORA, OWN, labelled_file
from mednli_jax.nli.read.pair_rows import EVIDENCE, PLAIN_NAMES, SPELLINGS, columns_of
from mednli_jax.nli.read.readers import labels_of_file

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.tasks import BrokenRule, EmptyFields

CorpusT = TypeVar("CorpusT", bound=NLICorpus)

LEAVE = "leave it out"
RETROFITS = ("ontology", "concepts", "unit")  # other values of vectors.retrofit are lexicons
WITH_BUILDER = ("mednli", "mediqa_nli", "snli", "multinli")
CORPORA_WITH_EVIDENCE = ("nli4ct",)
# model -> the values that its model.knowledge may have. Other models may have "none", "replace" and
# "bias".
KNOWLEDGE = {
    "esim": ("none", "replace", "bias", "typed"),
    "features": ("none", "paths"),
    "encoder": ("none", "bias", "typed"),
}


def uses_pieces(config: ConfigDict) -> bool:
    return bool(config.data.tokens == "pieces")


def uses_blanks(config: ConfigDict) -> bool:
    return bool(config.data.tokens == BLANKS)


def uses_features(config: ConfigDict) -> bool:
    return bool(config.model.name == "features")


def is_fasttext(config: ConfigDict) -> bool:
    """Whether the model is the fastText classifier, which has its own vectors and its own SGD, so
    that many settings do not apply to it."""
    return bool(config.model.name == "fasttext")


def lacks_typed_word_links(config: ConfigDict) -> bool:
    """Whether knowledge.polarity has no effect: it acts on typed links between words alone."""
    return config.model.knowledge != "typed" or uses_pieces(config)


def reads_mentions_file(config: ConfigDict) -> bool:
    """Whether a file of mentions takes the place of the linker: knowledge.mentions is set, and the
    model or the retrofitting uses concepts."""
    has_concepts = config.model.knowledge != "none" or config.vectors.retrofit == "concepts"
    return has_concepts and bool(config.knowledge.mentions)


# (fields, condition on a config, reason): where the condition holds, the fields must be empty.
EMPTY: Sequence[EmptyFields] = (
    ("vectors.path vectors.retrofit knowledge.mentions", uses_pieces, "word pieces do not use it"),
    ("model.knowledge", uses_blanks, "concepts are not found in tokens 'blanks'"),
    ("knowledge.types", reads_mentions_file, "is for the linker, not for mentions"),
    ("knowledge.polarity", lacks_typed_word_links, "is for typed links of words"),
    ("data.augment", uses_blanks, "there is no augmentation in tokens 'blanks'"),
    (
        "data.augment",
        reads_mentions_file,
        "the file of knowledge.mentions has no concepts of augmentation pairs",
    ),
    ("data.augment", uses_features, "model 'features' is trained on the corpus's own pairs alone"),
    ("transfer.init_from", uses_features, "features have no weights to transfer"),
    ("train.debias", uses_features, "model 'features' has no such loss"),
    (
        "train.weight_decay train.clip vectors.path vectors.retrofit",
        is_fasttext,
        "model 'fasttext' has no such setting",
    ),
)


def broken_rules(config: ConfigDict, with_builder: Sequence[str]) -> Iterator[BrokenRule]:
    """Yields the rules of sentence pairs that a config breaks. with_builder: corpora that TFDS
    reads."""
    if config.train.shuffle == "binned":
        yield "train.shuffle", "'binned' is for passages", "give even or random"
    if is_fasttext(config) and config.train.optimizer != "sgd":
        yield "train.optimizer", "model 'fasttext' is trained by sgd alone", "give sgd"
    if uses_pieces(config) and "weights" not in config.model:
        yield "data.tokens", "this model reads words", "leave it out, or give model encoder"
    if "weights" in config.model and not uses_pieces(config):
        yield "data.tokens", "this model reads pieces of words", "leave it out, or give pieces"
    if config.data.builder == "tfds" and config.data.name not in with_builder:
        yield "data.builder", "this corpus has no TFDS builder", LEAVE
    yield from _broken_file_rules(config.data)
    yield from _broken_knowledge_rules(config)
    if config.model.knowledge == "typed":
        if config.model.masking == "paper":
            yield "model.masking", "'paper' is not for knowledge 'typed'", "give masked"
        if config.model.weighting != "auto":
            yield "model.weighting", "typed relations have no such weights", LEAVE
    if config.model.knowledge != "none" and config.model.get("pooling") == "last":
        yield "model.pooling", "'last' cannot pool attention over links", "give max or mean"


def _broken_file_rules(data: ConfigDict) -> Iterator[BrokenRule]:
    """Yields the broken rules of data.labels and data.columns, which are for the user's own
    files."""
    labels, own_file = Labels.of(data.labels), data.name == OWN
    count = len(labels.names)
    if count == 1 or count > MOST_LABELS:
        fix = "give them all, e.g. a,b,c, or yes:entailment,no:contradiction"
        yield "data.labels", f"names {count} labels, and 2 to {MOST_LABELS} are read", fix
    if labels.repeated:
        problem = f"gives a label twice: {', '.join(labels.repeated)}"
        yield "data.labels", problem, "give each label of your files once"
    fields = [PLAIN_NAMES.get(name, name) for name in SPELLINGS.values()]
    for field, _ in columns_of(data.columns):
        if field not in fields:
            fix = "give e.g. premise:note,hypothesis:claim,label:truth,uid:id"
            yield "data.columns", f"'{field}' is not a field of a pair", fix
    if data.labels and not (own_file or ":" in data.name):
        yield "data.labels", "is for files of your own", f"{LEAVE}, or give the variant :file"
    if data.columns and not own_file:
        yield "data.columns", "is for files of your own", f"{LEAVE}, or give the variant :file"
    if data.evidence and data.name not in CORPORA_WITH_EVIDENCE:
        yield "data.evidence", "this corpus has no annotated evidence", LEAVE


def _broken_knowledge_rules(config: ConfigDict) -> Iterator[BrokenRule]:
    model, knowledge = config.model, config.knowledge
    if uses_blanks(config) and config.vectors.retrofit == "concepts":
        yield "vectors.retrofit", "tokens 'blanks' have no concepts", LEAVE
    if knowledge.mentions and not has_format(knowledge.mentions):
        yield "knowledge.mentions", "unknown file ending", FORMATS
    if reads_mentions_file(config) and knowledge.permute_seed is not None:
        yield "knowledge.permute_seed", "has no effect on config.knowledge.mentions", LEAVE
    forms = KNOWLEDGE.get(model.name, ("none", "replace", "bias"))
    if model.knowledge not in forms:
        problem = f"unknown value '{model.knowledge}'"
        yield "model.knowledge", problem, f"give one of {', '.join(forms)}"
    named = named_relations(knowledge.relations) if model.knowledge == "typed" else ()
    if knowledge.relations not in RELATIONS and not named:
        also = "with knowledge 'typed' also names of relations"
        fix = f"give one of {', '.join(RELATIONS)}; {also}"
        yield "knowledge.relations", "unknown value", fix


def named_relations(value: str) -> tuple[str, ...]:
    """The names in a config's knowledge.relations; () if the field has a value of RELATIONS."""
    if value in RELATIONS:
        return ()
    names = map(str.strip, value.split(","))
    return tuple(dict.fromkeys(filter(None, names)))


def labels_of(data: ConfigDict) -> Labels:
    """The labels of a config's `data` section: the names that data.labels gives, else LABELS.

    For published corpora any other label in a file is an error. The user's own files may have other
    labels.
    """
    if data.name != OWN and not data.labels:
        return CORPORA[data.name].labels if data.name in CORPORA else NLI_LABELS
    labels = Labels.of(data.labels)
    if labels.names:
        return labels
    # data.labels is empty, or only says which labels are left out, as "x:-" does.
    # with_training_labels also writes LABELS into `setting`, which has to stay the user's.
    return replace(labels.with_training_labels(LABELS), setting=data.labels)


def with_labels(config: ConfigDict) -> ConfigDict:
    """The config with data.labels filled in from the user's training file.

    It is unchanged for other corpora, for a config that names labels, and for files whose labels
    are LABELS.
    """
    data = config.data
    folder = corpus_folder(data)
    if data.name != OWN or Labels.of(data.labels).names or folder is None or not folder.is_dir():
        return config
    path = labelled_file(folder)
    if path is None:
        return config
    labels = labels_of_file(data.labels, path, columns_of(data.columns))
    if labels.names in ((), LABELS):
        return config
    named = config.copy_and_resolve_references()
    named.data.labels = labels.setting
    return named


def padded_length(config: ConfigDict) -> int:
    """The tokens to which each side is padded with model.masking=paper (scorer.NLIScorer); 0 with
    other maskings."""
    return int(config.data.max_length) if config.model.masking == "paper" else 0


def corpus_of(
    config: ConfigDict,
    corpus_class: Callable[..., CorpusT] = NLICorpus,  # type: ignore[assignment]
    names: Sequence[str] = NAMES,
) -> CorpusT:
    """The corpus of a config of sentence pairs.

    Only some fields of a config need the ontology, and they fill these fields of the corpus:
      model.knowledge (but "none"): terminology, linking.
      vectors.retrofit=concepts: terminology, linking, retrofit_relations, concepts_as_words.
      vectors.retrofit=ontology: terminology, retrofit_relations.
      data.augment: terminology.

    Args:
      corpus_class: NLICorpus, or a functools.partial of a subclass that already has the subclass's
        extra fields.
      names: of the corpora that this class knows.
    """
    data, vectors, model = config.data, config.vectors, config.model
    folder = corpora_folder(data.dir)
    if ":" not in data.name:
        check_name(data.name, names)
    pieces = None
    if uses_pieces(config):
        weights = file_path(model.get("weights"), folder)
        file = find_weights(weights) if weights else None
        pieces = PieceEncoding(file, data.pieces, data.max_length)
    concepts_as_words = vectors.retrofit == "concepts"
    retrofits_by_ontology = vectors.retrofit in ("ontology", "concepts")
    relations = _split_at_commas(vectors.retrofit_relations)
    has_links = model.knowledge != "none"
    has_terminology = has_links or retrofits_by_ontology or data.augment
    return corpus_class(
        name=data.name,
        encoding=_encoding(config, folder),
        folder=corpus_folder(data),
        genre=data.genre,
        limit=data.limit,
        builder=data.builder,
        augmentation=_augmentation(data, folder),
        partition=file_path(data.partition, folder),
        debias=bool(config.train.debias),
        labels=labels_of(data),
        columns=EVIDENCE if data.evidence else columns_of(data.columns),
        blanks=uses_blanks(config),
        pieces=pieces,
        terminology=_terminology(config, folder) if has_terminology else None,
        linking=_linking(config, folder) if has_links or concepts_as_words else None,
        concepts_as_words=concepts_as_words,
        retrofit_relations=relations if retrofits_by_ontology else None,
    )


def _augmentation(data: ConfigDict, folder: Path | None) -> Augmentation | None:
    if not data.augment:
        return None
    return Augmentation(data.augment, data.augment_seed, file_path(data.augment_without, folder))


def _encoding(config: ConfigDict, folder: Path | None) -> Encoding:
    data, vectors, knowledge = config.data, config.vectors, config.knowledge
    relations = None
    if config.model.knowledge == "typed":
        names = named_relations(knowledge.relations)
        # All typed links have a bit for antonyms, so "antonym" is left out of the names.
        relations = tuple(name for name in names if name != "antonym")
    lexicon = None
    if vectors.retrofit not in RETROFITS:
        lexicon = file_path(vectors.retrofit, folder)  # None for ""
    return Encoding(
        lowercase=data.lowercase,
        max_length=data.max_length,
        keep=data.keep,
        hypothesis_only=data.hypothesis_only,
        vectors_path=file_path(vectors.path, folder),
        vectors_dim=vectors.dim,
        vectors_seed=vectors.seed,
        unknown=vectors.unknown,
        lowered=vectors.lowered,
        unit_length=vectors.retrofit == "unit",
        retrofit_lexicon=lexicon,
        retrofit_rounds=vectors.retrofit_rounds,
        direction=knowledge.direction,
        max_path=knowledge.max_path,
        max_links=knowledge.max_links,
        graph=knowledge.graph,
        relations=relations,
        polarity=knowledge.polarity,
    )


def _terminology(config: ConfigDict, folder: Path | None) -> Terminology:
    knowledge = config.knowledge
    augments_alone = config.data.augment and config.model.knowledge == "none"
    # The ontology is read with all its relations if augmentation alone uses it, or if the config
    # names relations: both pick theirs from the relations that were read.
    needs_all = augments_alone or named_relations(knowledge.relations)
    relations = "all" if needs_all else knowledge.relations
    sources, languages = _split_at_commas(knowledge.sources), _split_at_commas(knowledge.languages)
    options = OntologyOptions(sources, languages, relations)
    name = os.path.expanduser(knowledge.ontology)
    return Terminology(name, folder, options, knowledge.permute_seed)


def _split_at_commas(values: Sequence[str]) -> tuple[str, ...]:
    """Splits each value at its commas: a command line gives "A,B" as one value. The value "" is
    kept as ""."""
    separated: list[str] = []
    for value in values:
        parts = list(filter(None, map(str.strip, value.split(","))))
        separated += parts if value else [""]
    return tuple(separated)


def _linking(config: ConfigDict, folder: Path | None) -> Linking:
    knowledge = config.knowledge
    return Linking(
        mentions=file_path(knowledge.mentions, folder),
        candidates=knowledge.candidates,
        types=_split_at_commas(knowledge.types),
        # MeSH has no base forms. For the rest, Linking.linker uses base forms with WordNet only.
        lemmas=config.model.knowledge == "typed" and knowledge.ontology != "mesh",
    )
