"""Trains word vectors with fastText, on one corpus after the other or by a search for the vectors
of sim-entity.

  python launch/pretrain_vectors.py --corpora=demo --dim=100 --min_count=2 --out=vectors/demo.vec      (seconds)
  python launch/pretrain_vectors.py --initial=glove.840B.300d.txt --corpora=allMeSH_2017.json,mimic/ \\
      --out=vectors/glove-bioasq-mimic.vec --threads=16
  python launch/pretrain_vectors.py --search=demo_cloze --out=vectors/demo_cloze --trials=5            (minutes)
  python launch/pretrain_vectors.py --search=clicr --corpora=pubmed/ --out=vectors/clicr --trials=20 \\
      --dims=200,400,750 --min_count=200 --threads=16

A corpus is a text file (plain or gzipped), a folder of them, BioASQ's JSON with an article on each
line, MIMIC-III's NOTEEVENTS.csv (or its folder), or the bundled demo or demo_full. Training on a
corpus starts from the vectors of the corpus before it (Romanov & Shivade 2018, section 4.1), which
stay as NAME.1.vec, NAME.2.vec, ...; a file that exists is not trained again.

--search draws the settings of word2vec for each trial, trains on the passages of a CliCR corpus and
on --corpora, and keeps the vectors with which sim-entity has the highest F1 on dev (Suster &
Daelemans 2018, Appendix A). OUT/trials.jsonl has the trials, which are not repeated; OUT/best.vec
has the vectors. Needs `pip install 'mednli_jax[embeddings]'`.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from mednli_jax import cli, demo
from mednli_jax.cloze import baselines
from mednli_jax.cloze.clicr import by_passage
from mednli_jax.cloze.encoding import corpus_named
from mednli_jax.data.text import sentence_tokens
from mednli_jax.data.vector_formats import rows_of
from mednli_jax.errors import DataError, UsageError
from mednli_jax.files import atomic_file, either_name, private_folder, text_lines, write_atomic
from mednli_jax.nli import notes
from mednli_jax.nli.readers import load_demo

KINDS = (".txt", ".txt.gz", ".json", ".json.gz")
# A sentence ends in . ! or ? before a capital letter or a number; abbreviations may end one early.
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=[\"'(\[]?[A-Z0-9])")
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
    """The lines of a text file, or the titles and abstracts of BioASQ's articles."""
    for number, line in text_lines(path):
        if ".json" not in path.suffixes[-2:]:
            yield line
        elif '"abstractText"' in line:
            try:
                article = json.loads(line.strip().rstrip("]},") + "}")
            except ValueError:
                problem, fix = "is no article of BioASQ's JSON", "give a file with one on each line"
                raise DataError(problem, file=path.name, line=number, fix=fix) from None
            yield article.get("title") or ""
            yield article["abstractText"] or ""


def raw_sentences(name: str) -> Iterator[str]:
    """The sentences of a corpus, see the module's text."""
    path = Path(name).expanduser()
    notes_file = either_name(path / "NOTEEVENTS.csv") if path.is_dir() else path
    if name in demo.SIZES:
        for example in load_demo(name)["train"].examples:
            yield from (example.premise, example.hypothesis)
    elif notes_file and ".csv" in notes_file.suffixes:
        for _, note in notes.read_notes(notes_file):
            for _, section in notes.sections(note):
                yield from notes.sentences(section)
    else:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file == path or file.name.endswith(KINDS):
                for text in texts(file):
                    yield from SENTENCE_END.split(text)


def tokenised(sentences: Iterable[str]) -> Iterator[list[str]]:
    for sentence in sentences:
        yield [token.lower() for token in sentence_tokens(sentence.replace("\0", " "))]


def passage_sentences(split) -> Iterator[list[str]]:
    """Tokens of the sentences of a split's passages, lower-cased; each passage once."""
    for passage, _ in by_passage(split.examples):
        start = 0
        for end in passage.sentences:
            yield [token.lower() for token in passage.tokens[start:end]]
            start = end


def write_initial(vectors: Path, out: Path, dim: int) -> None:
    """Writes vectors of any format as text with a header, without words that hold white space."""
    rows = 0
    with open(out, "wb") as file:
        file.write(b" " * 30 + b"\n")
        for word, numbers in rows_of(vectors, dim):
            if len(word.split()) == 1:
                if not isinstance(numbers, bytes):
                    numbers = " ".join(f"{number:.7g}" for number in numbers).encode()
                file.write(word + b" " + numbers + b"\n")
                rows += 1
        file.seek(0)
        file.write(f"{rows} {dim}".encode())


def train(sentences: Iterable[list[str]], out: Path, initial: Path | None, **arguments) -> None:
    """Trains vectors on tokenised sentences and writes them as text. arguments: of fastText."""
    private_folder(out.parent)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        text = Path(scratch, "text")
        with open(text, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(" ".join(tokens) + "\n" for tokens in sentences)
        if initial:
            write_initial(initial, Path(scratch, "initial"), arguments["dim"])
            arguments["pretrainedVectors"] = str(Path(scratch, "initial"))
        values = json.dumps({"input": str(text), **arguments})
        made = Path(scratch, "vectors")
        command = [sys.executable, "-c", WORKER, values, str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.splitlines()
            problem = f"fastText: {lines[-1] if lines else f'ended with code {done.returncode}'}"
            fix = "check --corpora and --min_count; pip install 'mednli_jax[embeddings]'"
            raise UsageError(problem, fix=fix)
        with atomic_file(out) as file:
            file.write(made.read_bytes())


def chain(options: argparse.Namespace) -> None:
    """Trains on the corpora in turn, each time from the vectors of the corpus before."""
    initial = options.initial
    for number, corpus in enumerate(options.corpora, start=1):
        last = number == len(options.corpora)
        out = options.out if last else options.out.with_suffix(f".{number}.vec")
        if out.exists():
            print(f"{out}: exists, and is not trained again")
        else:
            arguments = fasttext_arguments(options, dim=options.dim)
            train(tokenised(raw_sentences(corpus)), out, initial, **arguments)
            print(f"{out}: trained")
        initial = out


def fasttext_arguments(options: argparse.Namespace, **drawn) -> dict[str, object]:
    """Arguments of fastText that both uses share, and those drawn for one of them."""
    shared = {"minCount": options.min_count, "epoch": options.epochs, "thread": options.threads}
    return {**shared, "minn": options.minn, "maxn": options.maxn, **drawn}


def search(options: argparse.Namespace) -> None:
    """Trains vectors with settings drawn for each trial and keeps the best."""
    splits = corpus_named(options.search)
    log, best = options.out / "trials.jsonl", options.out / "best.vec"
    trials = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for number in range(len(trials), options.trials):
        rng = np.random.default_rng((options.seed, number))
        drawn = {
            "model": ("cbow", "skipgram")[rng.integers(2)],
            "ws": int(rng.integers(2, 11)),
            "neg": int(rng.integers(3, 16)),
            "dim": int(rng.choice(options.dims)),
        }

        def sentences() -> Iterator[list[str]]:
            yield from passage_sentences(splits["train"])
            for corpus in options.corpora:
                yield from tokenised(raw_sentences(corpus))

        trial_vectors = options.out / "trial.vec"
        arguments = {**fasttext_arguments(options, **drawn), "minn": 0, "maxn": 0}
        train(sentences(), trial_vectors, None, **arguments)
        dev = splits["dev"].examples
        vocabulary, vectors = baselines.known_vectors(trial_vectors, dev)
        window, scores = baselines.best_window(dev, vocabulary, vectors)
        f1 = scores[window]["f1"]
        if not best.exists() or f1 > max((trial["f1"] for trial in trials), default=-1.0):
            trial_vectors.replace(best)
        trial_vectors.unlink(missing_ok=True)
        trials.append({"trial": number, **drawn, "window": window, "f1": f1})
        write_atomic(log, "".join(json.dumps(trial) + "\n" for trial in trials))
        print(f"trial {number}: F1 {100 * f1:.1f}, {drawn}, prediction window {window}")


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument(
        "--corpora", type=lambda text: text.split(","), default=[], help="NAME,PATH,..."
    )
    parser.add_argument(
        "--out", type=cli.path, required=True, help="NAME.vec; a folder with --search"
    )
    parser.add_argument("--initial", type=cli.path, help="vectors to start from, in any format")
    parser.add_argument("--search", help="demo_cloze, clicr or a folder in CliCR's layout")
    parser.add_argument("--trials", type=int, default=5, help="of --search (default 5; paper: 20)")
    numbers = {"default": [50, 100, 200], "type": lambda text: [int(n) for n in text.split(",")]}
    parser.add_argument("--dims", **numbers, help="that --search draws from (default 50,100,200)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws of --search")
    parser.add_argument("--dim", type=int, default=300, help="numbers of a word (default 300)")
    parser.add_argument("--minn", type=int, default=3, help="shortest n-gram (default 3; 0: none)")
    parser.add_argument("--maxn", type=int, default=6, help="longest n-gram (default 6; 0: none)")
    parser.add_argument("--min_count", type=int, default=5, help="rarer words are left out (5)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over each corpus (default 5)")
    parser.add_argument("--threads", type=int, default=1, help="more than 1 is not repeatable")
    options = parser.parse_args()
    if not (options.search or options.corpora):
        parser.error("give --corpora or --search")
    return cli.script(lambda: search(options) if options.search else chain(options))


if __name__ == "__main__":
    sys.exit(main())
