"""A config that asks for concepts is refused where no training pair can use one; mentions of other
ids are counted."""

import itertools

import pytest
from support.cases import cases
from support.commands import at, call_command, refused, succeeds
from support.files import write
from support.mention_files import HEADER
from support.pair_files import write_rows

from mednli_jax import prepare, train
from mednli_jax.data.examples import LABELS

TERMS = """\
[Term]
id: X:1
name: fever

[Term]
id: X:2
name: high fever
is_a: X:1

[Term]
id: X:3
name: cough
"""
SPLITS = ("train", "dev", "test")
UNLINKED = ("No fever today .", "He has a cough .")
LINKED = ("A high fever .", "The fever is gone .")
SETTINGS = ("--config.data.dir=own", "--config.knowledge.ontology=x.obo", "--config.vectors.dim=8")
ESIM_KD = ("--config=esim_kd:file", *SETTINGS)
RUN = "--workdir=run"


@pytest.fixture
def write_corpus(tmp_path):
    """Writes pairs, of which those of dev and test link their concepts, and works there."""

    def write_pairs(train_size, train_texts=UNLINKED):
        write(tmp_path / "x.obo", TERMS)
        texts_of = {"train": train_texts, "dev": LINKED, "test": LINKED}
        for split, (premise, hypothesis) in texts_of.items():
            rows = []
            for n in range(train_size):
                row = {"pairID": f"{split}{n}", "gold_label": LABELS[n % 3]}
                row["sentence1"] = f"{premise} {split} {n}"
                row["sentence2"] = f"{hypothesis} {split} {n}"
                rows.append(row)
            write_rows(tmp_path / "own" / f"{split}.jsonl", rows)

    with at(tmp_path):
        yield write_pairs


CONFIGS = {
    "ESIM with links": ESIM_KD,
    "ESIM with a bias": (*ESIM_KD, "--config.model.knowledge=bias"),
    "KIM": ("--config=esim_kim:file", *SETTINGS),
    "features": ("--config=features:file", *SETTINGS, "--config.model.knowledge=paths"),
}


@cases("flags", CONFIGS)
def test_concepts_that_link_no_training_pair_are_refused_also_from_the_cache(
    write_corpus, tmp_path, flags
):
    fix = "config.model.knowledge=none"
    write_corpus(24)

    for call in ((prepare, *flags), (prepare, *flags), (train, *flags, RUN)):
        code, _, err = call_command(*call)

        assert code == 2
        assert err.count("error: ") == 1
        assert "no path links the concepts of any of 24 training pairs" in err
        assert fix in err
    assert not (tmp_path / "run").exists()
    succeeds("prepare", *flags, f"--{fix}")


@cases(
    "size, flags",
    {
        "few": (19, ()),
        "an excerpt": (24, ("--config.data.limit=22",)),
    },
)
def test_few_pairs_may_have_no_link_by_chance(write_corpus, size, flags):
    write_corpus(size)

    _, err = succeeds("prepare", *ESIM_KD, *flags)

    assert "warning: config.knowledge.ontology: no path" in err


def test_few_pairs_without_a_link_are_not_trained_on(write_corpus):
    write_corpus(19)

    assert "error: config.knowledge.ontology: no path" in refused("train", *ESIM_KD, RUN)


def test_concepts_without_links_serve_as_words(write_corpus):
    write_corpus(24, ("High fever , then fever .", "He has a cough ."))
    flags = ("--config.model.knowledge=none", "--config.vectors.retrofit=concepts")

    _, err = succeeds("prepare --config=esim:file", *SETTINGS, *flags)

    assert err == ""


@pytest.mark.parametrize(
    "concepts, in_ontology, warned",
    [
        (("C0", "C1", "C2"), 0, True),
        (("X:1", "C0", "C1"), 1, True),
        (("X:1", "X:2", "C0"), 2, False),
    ],
)
def test_mentions_of_which_few_are_concepts_of_the_ontology_are_counted(
    write_corpus, tmp_path, concepts, in_ontology, warned
):
    """Equal ids are linked whether or not the ontology has them; a cached corpus warns, too. Each
    pair has one of the concepts in both sides."""
    write_corpus(24, LINKED)
    rows = [f"{HEADER}\n"]
    for split, n in itertools.product(SPLITS, range(24)):
        for side in ("premise", "hypothesis"):
            rows.append(f"{split}\t{split}{n}\t{side}\t4\t5\t{concepts[n % 3]}\n")
    write(tmp_path / "m.tsv", "".join(rows))

    for _ in range(2):
        _, err = succeeds("prepare", *ESIM_KD, "--config.knowledge.mentions=m.tsv")

        assert (f"m.tsv: of its 3 concept ids {in_ontology} are" in err) == warned
