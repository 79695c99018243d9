"""Trains word vectors with fastText, on one corpus after the other or by a search for the vectors
of sim-entity.

  python launch/data/pretrain_vectors.py --corpora=demo --dim=100 --min_count=2 \\
      --out=vectors/demo.vec
  python launch/data/pretrain_vectors.py --initial=glove.840B.300d.txt --threads=16 \\
      --corpora=allMeSH_2017.json,mimic/ --out=vectors/glove-bioasq-mimic.vec
  python launch/data/pretrain_vectors.py --search=demo_cloze --out=vectors/demo_cloze --trials=5
  python launch/data/pretrain_vectors.py --search=clicr --corpora=pubmed/ --out=vectors/clicr \\
      --trials=20 --dims=200,400,750 --min_count=200 --threads=16

  --corpora=NAME,PATH,...  text files (plain or gzipped), folders of them, BioASQ's JSON with an
                           article on each line, the folder of MIMIC-III's NOTEEVENTS.csv, or the
                           bundled demo or demo_full
  --out=NAME.vec           the vectors; with --search a folder
  --initial=FILE           vectors to start from, in any format
  --search=CORPUS          demo_cloze, clicr or a folder in CliCR's layout
  --trials=N --dims=N,...  trials of --search (5; paper: 20), and sizes that it draws from
                           (50,100,200)
  --dim=N                  numbers of a word (300)
  --minn=N --maxn=N        shortest and longest n-gram of characters (3, 6; 0: none)
  --min_count=N            rarer words are left out (5)
  --epochs=N --threads=N   passes over each corpus (5); more than one thread is not repeatable (1)

Training on a corpus starts from the vectors of the corpus before it (Romanov & Shivade 2018,
section 4.1), which stay as NAME.1.vec, NAME.2.vec, ...; a file that exists is not trained again.

--search draws the settings of word2vec for each trial, trains on the passages of a CliCR corpus and
on --corpora, and keeps the vectors with which sim-entity has the highest F1 on dev (Suster &
Daelemans 2018, Appendix A). OUT/trials.jsonl has the trials, which are not repeated; OUT/best.vec
has the vectors. Needs `pip install 'mednli_jax[embeddings]'`.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path

import mimic_notes as notes
import numpy as np
from absl import flags

from mednli_jax import cli, demo
from mednli_jax.cloze import baselines
from mednli_jax.cloze.clicr import by_passage
from mednli_jax.cloze.corpus import read_splits
from mednli_jax.data.examples import Split
from mednli_jax.data.text import sentence_tokens
from mednli_jax.data.vector_formats import words_with_numbers
from mednli_jax.errors import DataError, UsageError
from mednli_jax.files.reading import either_name, text_lines
from mednli_jax.files.writing import atomic_file, private_folder, write_atomic
from mednli_jax.nli.read.readers import load_demo
from mednli_jax.types import FieldValue

KINDS = (".txt", ".txt.gz", ".json", ".json.gz")
# A sentence ends in . ! or ? before a capital letter or a number; abbreviations may end one early.
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=[\"'(\[]?[A-Z0-9])")
FastTextSettings = dict[str, FieldValue]  # of fastText's train_unsupervised
# fastText trains in a process of its own, which Ctrl-C ends.
WORKER = """
import fasttext, json, sys
arguments, out = json.loads(sys.argv[1]), sys.argv[2]
model = fasttext.train_unsupervised(**arguments)
with open(out, "w", encoding="utf-8", errors="surrogateescape") as file:
    print(len(model.words), model.get_dimension(), file=file)
    for word in model.words:
        print(word, *(f"{number:.7g}" for number in model.get_word_vector(word)), file=file)
"""


def texts(path: Path) -> Iterator[str]:
    """Yields the lines of a text file, or the titles and abstracts of BioASQ's articles."""
    for number, line in text_lines(path):
        if ".json" not in path.suffixes:
            yield line
        elif '"abstractText"' in line:
            try:
                article = json.loads(line.strip().rstrip("]},") + "}")
            except ValueError:
                raise DataError(
                    "is no article of BioASQ's JSON",
                    file=path.name,
                    line=number,
                    fix="give a file with one on each line",
                ) from None
            yield article.get("title") or ""
            yield article["abstractText"] or ""


def raw_sentences(name: str) -> Iterator[str]:
    """Yields the sentences of a corpus, see the module's text."""
    path = Path(name).expanduser()
    notes_file = either_name(path / "NOTEEVENTS.csv")
    if name in demo.SIZES:
        for example in load_demo(name)["train"].examples:
            yield example.premise
            yield example.hypothesis
    elif notes_file:
        for _, note in notes.read_notes(notes_file):
            for _, section in notes.sections(note):
                yield from notes.sentences(section)
    else:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file == path or file.name.endswith(KINDS):
                for text in texts(file):
                    yield from SENTENCE_END.split(text)


def sentences_of(corpora: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yields the tokens of each sentence of the corpora."""
    for corpus in corpora:
        for sentence in raw_sentences(corpus):
            yield sentence_tokens(sentence.replace("\0", " "))


def passage_sentences(split: Split) -> Iterator[Sequence[str]]:
    """Yields the tokens of each sentence of a split's passages; each passage once."""
    for passage, _ in by_passage(split.examples):
        for start, end in pairwise((0, *passage.sentence_ends)):
            yield passage.tokens[start:end]


def write_initial(vectors: Path, out: Path, dim: int) -> None:
    """Writes vectors of any format as text with a header, without words that hold white space."""
    rows = 0
    with open(out, "wb") as file:
        file.write(b" " * 30 + b"\n")
        for word, numbers in words_with_numbers(vectors, dim):
            if len(word.split()) == 1:
                if not isinstance(numbers, bytes):
                    numbers = " ".join(f"{number:.7g}" for number in numbers).encode()
                file.write(word + b" " + numbers + b"\n")
                rows += 1
        file.seek(0)
        file.write(f"{rows} {dim}".encode())


def train(
    sentences: Iterable[Sequence[str]],
    out: Path,
    settings: FastTextSettings,
    initial: Path | None = None,
) -> None:
    """Trains vectors on tokenised sentences, in lower case, and writes them as text."""
    private_folder(out.parent)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        text = Path(scratch, "text")
        vectors = Path(scratch, "vectors")
        with open(text, "w", encoding="utf-8", errors="replace") as file:
            for tokens in sentences:
                print(" ".join(tokens).lower(), file=file)
        settings = {**settings, "input": str(text)}
        if initial:
            start = Path(scratch, "initial")
            write_initial(initial, start, settings["dim"])
            settings["pretrainedVectors"] = str(start)
        command = [sys.executable, "-c", WORKER, json.dumps(settings), str(vectors)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            problem = done.stderr.strip().rpartition("\n")[2] or f"ended with {done.returncode}"
            raise UsageError(
                f"fastText: {problem}",
                fix="check --corpora and --min_count; pip install 'mednli_jax[embeddings]'",
            )
        with atomic_file(out) as file:
            file.write(vectors.read_bytes())


def train_in_turn(values: cli.Flags, settings: FastTextSettings) -> None:
    """Trains on the corpora in turn, each time from the vectors of the corpus before."""
    initial, last = values.initial, len(values.corpora)
    for number, corpus in enumerate(values.corpora, start=1):
        out = values.out if number == last else values.out.with_suffix(f".{number}.vec")
        if out.exists():
            print(f"{out}: exists, and is not trained again")
        else:
            train(sentences_of([corpus]), out, settings, initial)
            print(f"{out}: trained")
        initial = out


def search(values: cli.Flags, settings: FastTextSettings) -> None:
    """Trains vectors with settings drawn for each trial and keeps the best."""
    splits = read_splits(values.search)
    dev = splits["dev"].examples
    log = values.out / "trials.jsonl"
    best = values.out / "best.vec"
    candidate = values.out / "trial.vec"
    trials = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for number in range(len(trials), values.trials):
        rng = np.random.default_rng((0, number))
        drawn = {
            "model": ("cbow", "skipgram")[rng.integers(2)],
            "ws": int(rng.integers(2, 11)),
            "neg": int(rng.integers(3, 16)),
            "dim": int(rng.choice(values.dims)),
        }
        sentences = chain(passage_sentences(splits["train"]), sentences_of(values.corpora))
        train(sentences, candidate, {**settings, **drawn, "minn": 0, "maxn": 0})
        vocab, vectors = baselines.known_vectors(candidate, baselines.words_of_examples(dev))
        window, scores = baselines.best_window(dev, vocab, vectors)
        f1 = scores[window]["f1"]
        if f1 > max((trial["f1"] for trial in trials), default=-1.0):
            candidate.replace(best)
        candidate.unlink(missing_ok=True)
        trials.append({"trial": number, **drawn, "window": window, "f1": f1})
        write_atomic(log, "".join(json.dumps(trial) + "\n" for trial in trials))
        print(f"trial {number}: F1 {100 * f1:.1f}, {drawn}, prediction window {window}")


def main(values: cli.Flags) -> None:
    cli.required_path(values, "out", "--out=NAME.vec, or a folder with --search")
    if not (values.search or values.corpora):
        raise UsageError("no text is given", fix="give --corpora or --search")
    settings = {
        "dim": values.dim,
        "minn": values.minn,
        "maxn": values.maxn,
        "minCount": values.min_count,
        "epoch": values.epochs,
        "thread": values.threads,
    }
    action = search if values.search else train_in_turn
    action(values, settings)


def define(values: cli.Flags) -> None:
    cli.define(values, corpora=[], search="", dims=["50", "100", "200"])
    cli.define_paths(values, "out", "initial")
    cli.define_numbers(
        values,
        trials=5,
        dim=300,
        min_count=5,
        epochs=5,
        threads=1,
    )
    cli.define_numbers(values, least=0, minn=3, maxn=6)
    flags.register_validator("dims", are_sizes, "give whole numbers from 1 up", values)


def are_sizes(words: Sequence[str]) -> bool:
    return bool(words) and all(re.fullmatch("[1-9][0-9]*", word) for word in words)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
