"""Entities as single tokens, from a tagger's file or the ontology, and raw text as tokens."""

import json
from dataclasses import replace

import pytest
from support.cases import cases
from support.commands import succeeds
from support.mention_files import HEADER
from support.pair_files import write_own

from mednli_jax.cli import read_config
from mednli_jax.data.examples import LABELS, Mention, NLIExample
from mednli_jax.data.text import blank_tokens
from mednli_jax.nli.encode import links, texts
from mednli_jax.nli.encode.links import find_mentions
from mednli_jax.nli.task import corpus_of

HYPOTHESIS = "Acute brain injury, no pain."  # characters 6 to 18 spell "brain injury"
SIZES = {"train": 6, "dev": 3}


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Nine pairs with the same hypothesis, spans.tsv in the layout of any tagger, and an ontology
    with the same entity."""
    monkeypatch.chdir(tmp_path)
    spans = f"{HEADER}\n"
    for split, size in SIZES.items():
        pairs = [(f"Gout, {n}.", HYPOTHESIS, LABELS[n % 3]) for n in range(size)]
        write_own(tmp_path, **{split: pairs})
        spans += "".join(f"{split}\t{split}{n}\thypothesis\t6\t18\tENTITY\n" for n in range(size))
    (tmp_path / "spans.tsv").write_text(spans)
    ontology = "id\tname\ttree_numbers\tsynonyms\nENTITY\tBrain Injury\tC10.100\t\n"
    (tmp_path / "own.tsv").write_text(ontology)
    return corpus_with("none")


def corpus_with(knowledge):
    config = read_config("esim:file")
    config.model.knowledge = knowledge
    config.data.dir = "."
    config.knowledge.ontology = "own.tsv"
    return corpus_of(config)


@cases(
    "spans, knowledge, entity",
    {
        "a tagger's file": ("spans.tsv", "none", True),
        "concepts of the corpus": (None, "replace", True),
        "neither": (None, "none", False),
    },
)
def test_entities_become_one_token(corpus, tmp_path, spans, knowledge, entity):
    linked = corpus_with(knowledge)
    splits = corpus.splits()
    examples = texts.examples_of(splits)

    source = linked.concept_source(splits, spans and tmp_path / spans)
    mentions = find_mentions(examples, source, linked.encoding).visible
    merged, *_ = links.merge_entities(examples, mentions)

    assert mentions["hypothesis"] == [[Mention(1, 3, "ENTITY")] if entity else []] * 9
    assert mentions["premise"] == [[]] * 9
    words = "brain_injury" if entity else "brain injury"
    assert " ".join(merged.hypothesis_tokens) == f"Acute {words} , no pain ."
    assert merged.premise_tokens == examples[0].premise_tokens
    assert merged.hypothesis == HYPOTHESIS


def analysed(name, *flags):
    flags = ("--corpus=.", "--spans=spans.tsv", "--config.model.knowledge=none", *flags)
    return succeeds("analyze", name, *flags)[0]


@pytest.mark.parametrize(
    "flags, split, pairs",
    [
        ((), "all", 3),
        (("--lengths=train",), "train", 2),
    ],
)
def test_lengths_are_of_separate_and_of_merged_tokens(corpus, flags, split, pairs):
    """Each hypothesis has 7 tokens, two of which are merged."""
    lengths = json.loads(analysed("lengths", "--json", *flags))
    assert lengths["split"] == split
    assert lengths["merged_by"] == "spans.tsv"
    assert lengths["knowledge"] == ""
    for kind, mean in (("separate", 7.0), ("merged", 6.0)):
        neutral = lengths[kind]["classes"]["neutral"]
        assert neutral["pairs"] == pairs
        assert neutral["mean"] == mean


def test_raw_text_is_divided_at_blanks(corpus):
    raw = replace(corpus, blanks=True)
    example = raw.splits()["train"].examples[0]
    assert " | ".join(example.hypothesis_tokens) == "Acute | brain | injury, | no | pain."
    assert example.premise_tokens == ("Gout,", "0.")


def test_a_corpus_of_raw_text_is_prepared_with_its_tokens(corpus):
    """New pairs are then divided in the same way."""
    raw = replace(corpus, blanks=True)
    prepared, _ = raw.prepare()
    assert prepared.manifest["tokeniser"] == prepared.manifest["key"]["tokens"] == "blanks"
    vocabulary = raw.read_vocabulary(prepared.folder / "vocabulary.json")
    assert "injury," in vocabulary
    assert "injury" not in vocabulary


TOKENS = blank_tokens("a severe brain injury")


def test_the_longer_of_overlapping_mentions_becomes_a_token():
    mentions = [Mention(2, 4, "b"), Mention(1, 4, "a")]
    assert links.words_and_entities(TOKENS, mentions) == [("a",), ("severe", "brain", "injury")]


def test_an_empty_side_has_no_entity():
    example = NLIExample("u", "", "", "", (), TOKENS)
    mentions = {"premise": [[]], "hypothesis": [[Mention(2, 4, "b")]]}
    (merged,) = links.merge_entities([example], mentions)
    assert merged.premise_tokens == ()
    assert merged.hypothesis_tokens == ("a", "severe", "brain_injury")
