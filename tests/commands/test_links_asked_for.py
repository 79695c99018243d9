"""A config that asks for concepts is refused where no training pair can use one; mentions of other
ids are counted."""

import json

import pytest
from support.commands import at, call_command, config_flag
from support.files import write
from support.pair_files import write_rows

from mednli_jax import prepare, train
from mednli_jax.data.examples import LABELS

TERMS = "[Term]\nid: X:1\nname: fever\n\n[Term]\nid: X:2\nname: high fever\nis_a: X:1\n\n[Term]\nid: X:3\nname: cough\n"
UNLINKED, LINKED = (
    ("No fever today .", "He has a cough ."),
    ("A high fever .", "The fever is gone ."),
)
SETTINGS = ("--config.data.dir=own", "--config.knowledge.ontology=x.obo", "--config.vectors.dim=8")
CONCEPTS = ("--config.model.knowledge=none", "--config.vectors.retrofit=concepts")


def write_pairs(folder, size, train_texts=UNLINKED):
    """Writes `size` training pairs; dev and test link their concepts."""
    for split, texts in {"train": train_texts, "dev": LINKED, "test": LINKED}.items():
        names = ("pairID", "sentence1", "sentence2", "gold_label")
        rows = (
            (f"{split}{n}", *(f"{text} {split} {n}" for text in texts), LABELS[n % 3])
            for n in range(size)
        )
        write_rows(
            folder / "own" / f"{split}.jsonl", (dict(zip(names, row, strict=True)) for row in rows)
        )
    write(folder / "x.obo", TERMS)


def called(folder, command, *flags, config="esim_kd"):
    """(exit code, stderr) of a command."""
    flags = (*flags, "--workdir=run") if command is train else flags
    with at(folder):
        code, _, err = call_command(command, config_flag(config, "file"), *SETTINGS, *flags)
    assert not (folder / "run").exists()
    return code, err


NONE = "of {} training pairs none has"


@pytest.mark.parametrize(
    ("config", "flags"),
    [
        ("esim_kd", ()),
        ("esim_kd", ("--config.model.knowledge=bias",)),
        ("esim_kim", ()),
        ("features", ("--config.model.knowledge=paths",)),
    ],
)
def test_concepts_that_link_no_training_pair_are_refused_also_from_the_cache(
    tmp_path, config, flags
):
    """Obeying the fix helps."""
    fix = "--config.model.knowledge=none"
    write_pairs(tmp_path, 24)
    for command in (prepare, prepare, train):
        code, err = called(tmp_path, command, *flags, config=config)
        assert code == 2, err
        assert err.count("error: ") == 1
        assert NONE.format(24) in err
        assert fix in err
    assert called(tmp_path, prepare, *flags, fix, config=config)[0] == 0


@pytest.mark.parametrize(
    ("command", "size", "flags", "refused"),
    [
        (prepare, 19, (), False),  # an excerpt may have no link by chance
        (train, 19, (), True),
        (prepare, 24, ("--config.data.limit=22",), False),
    ],
)
def test_few_pairs_may_have_no_link_by_chance(tmp_path, command, size, flags, refused):
    write_pairs(tmp_path, size)
    code, err = called(tmp_path, command, *flags)
    assert code == (2 if refused else 0)
    assert ("error: " if refused else "warning: ") + "--config.knowledge.ontology: of" in err


def test_concepts_without_links_serve_as_words(tmp_path):
    write_pairs(tmp_path, 24, ("High fever , then fever .", "He has a cough ."))
    assert called(tmp_path, prepare, *CONCEPTS, config="esim") == (0, "")


@pytest.mark.parametrize(("known", "warned"), [(0, True), (1, True), (2, False)])
def test_mentions_of_which_few_are_concepts_of_the_ontology_are_counted(tmp_path, known, warned):
    """Equal ids are linked whether or not the ontology has them; a cached corpus warns, too."""
    write_pairs(tmp_path, 24, LINKED)
    concepts = [f"X:{n + 1}" for n in range(known)] + [f"C{n}" for n in range(3 - known)]
    rows = ["uid\tside\tstart\tend\tconcept"]
    for split in ("train", "dev", "test"):
        for n in range(24):
            rows += [
                f"{split}{n}\t{side}\t1\t2\t{concepts[n % 3]}" for side in ("premise", "hypothesis")
            ]
    write(tmp_path / "m.tsv", "\n".join(rows) + "\n")
    for _ in range(2):
        code, err = called(tmp_path, prepare, "--config.knowledge.mentions=m.tsv")
        assert code == 0, err
        assert (f"m.tsv: only {known} of its 3 concepts" in err) == warned


def test_the_log_of_a_training_has_the_counts_of_mentions(tmp_path):
    write_pairs(tmp_path, 24, LINKED)
    rows = [
        f"{split}0\t{side}\t1\t2\tC1\n"
        for split in ("train", "dev", "test")
        for side in ("premise", "hypothesis")
    ]
    write(tmp_path / "m.tsv", "uid\tside\tstart\tend\tconcept\n" + "".join(rows))
    small = (
        "--config.model.hidden_size=4",
        "--config.train.epochs=1",
        "--config.knowledge.mentions=m.tsv",
    )
    with at(tmp_path):
        code, _, err = call_command(
            train, config_flag("esim_kd", "file"), *SETTINGS, *small, "--workdir=run"
        )
    assert code == 0, err
    assert "warning: m.tsv: only 0 of its 1 concepts" in (tmp_path / "run" / "log.txt").read_text()
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "complete"
