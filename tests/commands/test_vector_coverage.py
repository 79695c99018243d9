"""`prepare` and `train` say which part of the training texts has word vectors, and refuse vectors
of no word."""

import pytest
from support.cloze import write_articles
from support.commands import SMALL, call_command, config_flag, use_one_device
from support.pair_files import write_own_pairs

from mednli_jax import prepare, train

CORPORA = {  # name -> (config, its flags)
    "pairs": (config_flag("bow", "file"), ("--config.data.dir=pairs",)),
    "features": (config_flag("features", "file"), ("--config.data.dir=pairs",)),
    "queries": (config_flag("ga_ent", "file"), ("--config.data.dir=queries",)),
    "folds": (config_flag("diskne_bow"), ()),
}
WARNING = "tokens of the training texts have a vector (v.txt)"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    use_one_device(monkeypatch)
    write_own_pairs(tmp_path / "pairs")
    write_articles(tmp_path / "queries")
    return tmp_path


def vectors(home, *words, name="v.txt"):
    """The flags of a file with vectors of these words."""
    (home / name).write_text(
        "".join(f"{word} {number} 1 2 3\n" for number, word in enumerate(words))
    )
    return (f"--config.vectors.path={name}", "--config.vectors.dim=4")


@pytest.mark.parametrize("corpus", CORPORA)
def test_few_tokens_with_a_vector_are_a_warning_and_none_is_refused(corpus, home):
    config, flags = CORPORA[corpus]
    code, _, err = call_command(
        prepare, config, *flags, *vectors(home, "/c/en/patient", "/c/en/the")
    )
    assert code == 2
    assert err.splitlines()[-1].startswith("error: v.txt: ")
    for found in ("prepared", "found"):  # the second time the arrays come from the cache
        code, out, err = call_command(prepare, config, *flags, *vectors(home, "patient", "case"))
        assert (code, out.startswith(found)) == (0, True)
        assert WARNING in err
    assert (
        WARNING
        not in call_command(
            prepare, config, *flags, "--config.vectors.path=", "--config.vectors.dim=4"
        )[2]
    )


def test_only_training_texts_count_and_each_of_their_tokens(home):
    words = ("patient", ".", "in", "train", "has", "may", "have", "lacks", "may")
    config, flags = CORPORA["pairs"]
    code, _, err = call_command(
        prepare, config, *flags, *vectors(home, *words)
    )  # names of diseases have none
    assert (code, WARNING in err) == (0, False)
    code, _, err = call_command(prepare, config, *flags, *vectors(home, "dev", "test"))
    assert (code, "no word of the training texts" in err) == (2, True)
    code, _, err = call_command(prepare, config, *flags, *vectors(home, "train"))
    assert f"only 36 of {36 * 5 + 36 * 3 + 12} {WARNING}" in err


def test_training_says_so_and_leaves_no_folder_where_it_is_refused(home):
    config, flags = CORPORA["pairs"]
    small = [flag for flag in SMALL if "vectors.dim" not in flag]
    code, _, err = call_command(
        train, config, *flags, *small, "--workdir=run", *vectors(home, "/c/en/patient")
    )
    assert (code, (home / "run").exists()) == (2, False)
    assert "error: v.txt: " in err
    code, _, err = call_command(
        train, config, *flags, *small, "--dry-run", *vectors(home, "patient")
    )
    assert code == 0, err
    assert WARNING in err
    code, _, err = call_command(
        train, config, *flags, *small, "--workdir=run", *vectors(home, "patient")
    )
    assert code == 0, err
    assert WARNING in err
    assert WARNING in (home / "run" / "log.txt").read_text()
