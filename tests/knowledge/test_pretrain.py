"""Training word vectors: tokens as in the corpora, chained training, and no files left behind."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_up_knowledge import write

from mednli_jax.data.text import SPECIALS, sentence_tokens
from mednli_jax.data.vectors import load_vectors
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge.pretrain import Settings, Tokenizer, articles, pretrain, sentences, text_files, write_vectors

ROOT = Path(__file__).parents[2]
PIECES = sentence_tokens(
    "foo can not cannot 's n't .. ... , : ; '' `` ' ( ) [ ] { } < > -- - 1 3.5 % $ ? ! ’ ” » é / # & @ ."
)
PIECES += ("gonna", "wanna", "lemme", "'tis", "d'ye", "more'n", "Dr.", "[**", "**]", '"')


def test_tokens_are_those_of_the_treebank_tokeniser():
    rng, split = np.random.default_rng(0), Tokenizer()
    for _ in range(3000):
        words = ["".join(rng.choice(PIECES, rng.integers(1, 5))) for _ in range(rng.integers(1, 8))]
        assert split(" ".join(words)) == [token.lower() for token in sentence_tokens(" ".join(words))], words
    assert split("The PATIENT\thad\0CAD.") == ["the", "patient", "had", "cad", "."]
    assert split("") == []


def test_text_files_and_folders(tmp_path):
    write(tmp_path / "b.txt", "\ufeffOne line. (It was 3.5 cm.) Then (later)? 12 days\n\nThree\n")
    write(tmp_path / "a.txt.gz", "Früh\r\n")
    write(tmp_path / "below" / "c.json", json.dumps({"articles": [{"title": "Four"}]}))
    write(tmp_path / "notes.pdf", b"%PDF")
    assert [file.name for file in text_files(tmp_path)] == ["a.txt.gz", "b.txt", "c.json"]
    found = [" ".join(tokens) for tokens in sentences(tmp_path)]
    prose = ["one line .", "( it was 3.5 cm . )", "then ( later ) ?", "12 days"]
    assert found == ["früh", *prose, "three", "four"]
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (empty, write(tmp_path / "bad.json", '{"articles": [quokka]}')):
        with pytest.raises(DataError) as caught:
            list(sentences(path))
        assert (caught.value.file, caught.value.line) == (path.name, None)
        assert "quokka" not in str(caught.value)


@pytest.mark.parametrize("indent", [None, 2])
def test_articles_are_streamed(tmp_path, indent, monkeypatch):
    """Reading works for any layout and any end of a block. An article may lack either field."""
    texts = [(f"Title {n} [x]", 'a } ] , \\ " é' * n) for n in range(40)]
    made = [{"pmid": 1, "title": title, "abstractText": text, "meshMajor": ["m"]} for title, text in texts]
    made += [{"title": "only"}, {"abstractText": None}, {}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"articles": made}, indent=indent, ensure_ascii=False))
    expected = [text for pair in texts for text in pair] + ["only"]
    (tmp_path / "latin.json").write_bytes(b'{"articles": [{"title": "Sj\xf6gren \xc3\xa9"}]}')
    assert list(articles(tmp_path / "latin.json")) == ["Sjögren é"]
    for size in (64, 1000, 1 << 20):
        monkeypatch.setattr("mednli_jax.knowledge.pretrain._BLOCK", size)
        assert list(articles(path)) == expected


def test_written_vectors_are_the_same_vectors(tmp_path):
    """Every format becomes text with a header. Words with blanks are left out, as text cannot mark their end."""
    words, numbers = ("fever", "a", "naïve"), np.array([(1, 2.5), (-1e-7, 3e8), (0, 1 / 3)], np.float32)
    rows = zip((*words, ". ."), [*numbers.tolist(), (4, 4)], strict=True)
    text = write(tmp_path / "v.txt", "".join(f"{word} {a} {b}\n" for word, (a, b) in rows))
    np.save(tmp_path / "v.npy", numbers)
    write(tmp_path / "v.vocab.txt", "".join(word + "\n" for word in words))
    for path in (text, tmp_path / "v.npy"):
        assert write_vectors(path, tmp_path / "out.vec", 2) == 3
        vectors = load_vectors(tmp_path / "out.vec", (*SPECIALS, *words), dim=2, seed=0)
        np.testing.assert_allclose(vectors.matrix[2:], numbers, rtol=1e-6)


# The tests below need the library of the extra `embeddings`.
SMALL = {"dim": 16, "epochs": 2, "min_count": 1, "buckets": 500}


def text(count=300, seed=0, words=("fever", "cough", "rash", "pain", "naïve", "patient", "denies", ".")):
    rng = np.random.default_rng(seed)
    return [list(rng.choice(words, 8)) for _ in range(count)]


def look(path, *words, dim=16):
    return load_vectors(path, (*SPECIALS, *words), dim=dim, seed=0)


def test_training_is_repeatable_leaves_nothing_behind_and_is_not_done_again(tmp_path):
    pytest.importorskip("fasttext")
    read, out = [], tmp_path / "a" / "v.bin"

    def train(version="1", **changed):
        sentences = (read.append(True) or each for each in text())
        return pretrain(sentences, out, Settings(**{**SMALL, **changed}), corpus={"files": {"a": version}})

    facts = train()
    assert sorted(file.name for file in (tmp_path / "a").iterdir()) == [".gitignore", "v.bin", "v.bin.json"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "a").iterdir())
    assert facts["text"]["tokens"] == 2400
    assert facts["words"] == 9  # with </s>
    assert json.loads((tmp_path / "a" / "v.bin.json").read_text()) == facts
    assert "fever" not in json.dumps(facts)
    vectors = look(out, "fever", "feverish", "naïve")
    assert (vectors.found, vectors.composed) == (3, 1)
    made = out.read_bytes()
    assert train() == facts
    assert len(read) == 300
    out.write_bytes(made[:-1])
    for change in ({}, {"version": "2"}, {"version": "2", "epochs": 1}):
        train(**change)
        assert (out.read_bytes() == made) == ("epochs" not in change)
    assert len(read) == 4 * 300


def test_chains_start_from_the_vectors_given(tmp_path):
    """word2vec leaves words that the next text lacks as they were, and moves the others."""
    pytest.importorskip("fasttext")
    settings = Settings(method="word2vec", **SMALL)
    pretrain(text(words=("fever", "cough", "ague")), tmp_path / "1.bin", settings)
    facts = pretrain(text(words=("fever", "rash")), tmp_path / "2.bin", settings, initial=tmp_path / "1.bin")
    assert facts["initial_words"] == 4
    before, after = (look(tmp_path / name, "ague", "fever", "rash") for name in ("1.bin", "2.bin"))
    assert before.words == ("ague", "fever")
    assert after.words == ("ague", "fever", "rash")
    np.testing.assert_allclose(after.matrix[2], before.matrix[2], rtol=1e-5)
    alone = pretrain(text(words=("fever", "rash")), tmp_path / "3.bin", settings)
    assert alone["initial_words"] == 0
    moved = np.linalg.norm(after.matrix[3] - before.matrix[3])
    assert 0 < moved < np.linalg.norm(look(tmp_path / "3.bin", "fever").matrix[2] - before.matrix[3])


def test_faults_of_training(tmp_path):
    pytest.importorskip("fasttext")
    out, settings = tmp_path / "v.bin", Settings(**SMALL)
    cases = (
        (UsageError, {"out": tmp_path / "v.txt"}),
        (DataError, {"initial": tmp_path / "two.vec"}),
    )
    (tmp_path / "two.vec").write_text("1 2\nfever 1 2\n")
    for error, given in cases:
        with pytest.raises(error):
            pretrain(**{"sentences": text(), "out": out, "settings": settings, **given})
    assert [file.name for file in tmp_path.iterdir()] == ["two.vec"]


def launch(*flags):
    command = [sys.executable, str(ROOT / "launch" / "pretrain_vectors.py"), *flags]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


NOTE = (
    'ROW_ID,CATEGORY,ISERROR,TEXT\n1,Nursing,,"Past Medical History:\n1. Quokka bite\n2. HTN\n"\n2,Nursing,1,"Wrong"\n'
)


def test_the_script_chains_text_articles_and_notes(tmp_path):
    pytest.importorskip("fasttext")
    notes = write(tmp_path / "mimic" / "NOTEEVENTS.csv", NOTE).parent
    article = {"title": "Ague of quokkas.", "abstractText": "Rare. Mild."}
    corpora = f"--corpora={write(tmp_path / 'a.json', json.dumps({'articles': [article]}))},{notes}"
    flags = ("--dim=4", "--min_count=1", "--buckets=50", "--method=word2vec", f"--out={tmp_path / 'x.bin'}")
    done = launch(corpora, *flags)
    assert done.returncode == 0, done.stderr
    assert "quokka" not in (done.stdout + done.stderr).lower()
    facts = json.loads((tmp_path / "x.bin.json").read_text())
    assert facts["text"]["sentences"] == 2
    assert facts["key"]["initial"]["file"] == "x.1.bin"
    found = look(tmp_path / "x.bin", "ague", "quokka", "htn", "wrong", dim=4)
    assert found.words == ("ague", "quokka", "htn")
    again = launch(corpora, *flags)
    assert again.stderr.count(" exists, made of the same text") == 2
