"""Entities as single tokens, from a tagger's file or the ontology; raw text as tokens; files that
do not fit."""

import json
from dataclasses import replace

import pytest
from support.commands import call_command
from support.pair_files import write_own

from mednli_jax import analyze, defaults
from mednli_jax.data.examples import LABELS, Mention, NLIExample
from mednli_jax.data.text import blank_tokens
from mednli_jax.errors import UsageError
from mednli_jax.nli import encoding
from mednli_jax.nli.encoding import find_mentions
from mednli_jax.nli.plug import corpus_of

HYPOTHESIS = "Acute brain injury, no pain."  # characters 6 to 18 spell "brain injury"


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Six training pairs and three dev pairs, with a file of spans in the layout of any tagger."""
    monkeypatch.chdir(tmp_path)
    sizes = {"train": 6, "dev": 3}
    write_own(
        tmp_path,
        **{s: [(f"Gout, {n}.", HYPOTHESIS, LABELS[n % 3]) for n in range(sizes[s])] for s in sizes},
    )
    rows = "".join(
        f"{split}{n}\thypothesis\t6\t18\tENTITY\n" for split in sizes for n in range(sizes[split])
    )
    (tmp_path / "spans.tsv").write_text(f"uid\tside\tstart_char\tend_char\tconcept\n{rows}")
    config = defaults.nli("esim", "file", knowledge="none")
    config.data.dir = str(tmp_path)
    return corpus_of(config)


@pytest.mark.parametrize(
    ("spans", "knowledge"), [("spans.tsv", "none"), (None, "replace"), (None, "none")]
)
def test_entities_become_one_token(corpus, tmp_path, spans, knowledge):
    """They are those of any tagger's file, else the concepts of the corpus, else there are none."""
    (tmp_path / "own.tsv").write_text(
        "id\tname\ttree_numbers\tsynonyms\nENTITY\tBrain Injury\tC10.100\t\n"
    )
    config = defaults.nli("esim", "file", knowledge=knowledge)
    config.data.dir, config.knowledge.ontology = str(tmp_path), "own.tsv"
    linked, splits = corpus_of(config), corpus.splits()
    examples = [example for split in splits.values() for example in split.examples]
    mentions = find_mentions(
        examples, linked.recogniser(splits, spans and tmp_path / spans), linked.encoding
    ).visible
    merged = knowledge == "replace" or spans
    assert mentions["hypothesis"] == [[Mention(1, 3, "ENTITY")] if merged else []] * 9
    assert mentions["premise"] == [[]] * 9
    (first, *_) = encoding.merged(examples, mentions)
    injury = ("brain_injury",) if merged else ("brain", "injury")
    assert first.hypothesis_tokens == ("Acute", *injury, ",", "no", "pain", ".")
    assert first.premise_tokens == examples[0].premise_tokens
    assert first.hypothesis == HYPOTHESIS
    with pytest.raises(UsageError):
        linked.recogniser(splits, tmp_path / "spans.csv")


def test_analyses_merge_the_spans_and_keep_the_concepts(corpus, tmp_path):
    """Each of 9 hypotheses has 7 tokens, two of which are merged. --lengths=train counts only 6
    hypotheses."""
    flags = ("--corpus=.", "--spans=spans.tsv", "--config.model.knowledge=none", "--json")
    code, out, err = call_command(analyze, "lengths", *flags, words=1)
    assert code == 0, err
    found = json.loads(out)
    assert (found["split"], found["merged_by"], found["knowledge"]) == ("all", "spans.tsv", "")
    of = {kind: found[kind]["classes"]["neutral"] for kind in ("separate", "merged")}
    assert {kind: (c["pairs"], c["mean"]) for kind, c in of.items()} == {
        "separate": (3, 7.0),
        "merged": (3, 6.0),
    }
    of_train = json.loads(call_command(analyze, "lengths", *flags, "--lengths=train", words=1)[1])
    assert (of_train["split"], of_train["merged"]["classes"]["neutral"]["pairs"]) == ("train", 2)
    # The tokens of a user's own corpus are counted, but only its owner may read them.
    code, out, err = call_command(
        analyze, "lexical", *flags[:-1], "--min_count=1", "--out=o", words=1
    )
    assert code == 0, err
    rows = json.loads((tmp_path / "o" / "private" / "lexical.json").read_text())["top"]["neutral"]
    assert {row["token"] for row in rows} == {"acute", "brain_injury", "pain"}


def test_raw_text_is_what_stands_between_blanks(corpus, tmp_path):
    raw = replace(corpus, blanks=True)
    example = raw.splits()["train"].examples[0]
    assert example.hypothesis_tokens == ("Acute", "brain", "injury,", "no", "pain.")
    assert example.premise_tokens == ("Gout,", "0.")
    prepared, _ = raw.prepare()
    assert prepared.manifest["tokeniser"] == "blanks"  # new pairs are then split in the same way
    assert prepared.manifest["key"]["tokens"] == "blanks"
    words = raw.read_vocabulary(prepared.folder / "vocabulary.json")
    assert "injury," in words
    assert "injury" not in words


def test_overlapping_and_empty_mentions():
    tokens = blank_tokens("a severe brain injury")
    assert encoding.units(tokens, [Mention(2, 4, "b"), Mention(1, 4, "a")]) == [
        ("a",),
        ("severe", "brain", "injury"),
    ]
    example = NLIExample("u", "", "", "", (), tokens)
    (merged,) = encoding.merged([example], {"premise": [[]], "hypothesis": [[Mention(2, 4, "b")]]})
    assert (merged.premise_tokens, merged.hypothesis_tokens) == (
        (),
        ("a", "severe", "brain_injury"),
    )
