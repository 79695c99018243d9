"""Trains word vectors on text, one corpus after the other (Romanov & Shivade 2018, section 4.1, Table 5).

  python launch/pretrain_vectors.py --corpora=demo --dim=100 --min_count=2 --out=vectors/demo.bin      (seconds)
  python launch/pretrain_vectors.py --corpora=mimic/ --out=vectors/mimic.bin --threads=16
  python launch/pretrain_vectors.py --initial=glove.840B.300d.txt --corpora=allMeSH_2017.json,mimic/ \\
      --out=vectors/glove-bioasq-mimic.bin --threads=16

A corpus is a text file (plain or gzipped), a folder of them, BioASQ's JSON, MIMIC-III's NOTEEVENTS.csv (or the folder
it is in), or the training split of the bundled demo or demo_full. Training on a corpus starts from the vectors of the
corpus before. The vectors of all corpora but the last are saved as NAME.1.bin, NAME.2.bin, ... Existing files are not
trained again, so that the same command continues an interrupted run. NAME.json beside each file has its origin.
Use the result with --config.vectors.path=vectors/NAME.bin. Needs `pip install 'mednli_jax[embeddings]'`.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

from mednli_jax import cli, demo
from mednli_jax.io import either_name, sha256
from mednli_jax.knowledge.pretrain import ARCHITECTURES, METHODS, Settings, Tokenizer, pretrain, sentences, text_files
from mednli_jax.nli.notes import read_notes, sections
from mednli_jax.nli.notes import sentences as note_sentences
from mednli_jax.nli.readers import load_demo

NOTES = "NOTEEVENTS.csv"
HELP = {
    "method": "fasttext, or word2vec: without character n-grams",
    "architecture": "skipgram or cbow",
    "dim": "numbers a word",
    "epochs": "passes over each corpus",
    "window": "words to either side",
    "min_count": "words that occur less often are left out",
    "negatives": "negative samples a word",
    "learning_rate": "at the start",
    "buckets": "of n-grams, at most",
    "threads": "more than 1 is faster and not repeatable",
}


def demo_sentences(size: str) -> Iterator[list[str]]:
    """Tokens of the distinct sentences of the demo corpus' training split, lower-cased."""
    seen = set()
    for example in load_demo(size)["train"].examples:
        for tokens in (example.premise_tokens, example.hypothesis_tokens):
            if tokens not in seen:
                seen.add(tokens)
                yield [token.lower() for token in tokens]


def notes_of(path: Path) -> Path | None:
    """The file of MIMIC-III's notes at a path, or None."""
    if path.is_dir():
        return either_name(path / NOTES)
    return path if path.name.removesuffix(".gz").lower().endswith(".csv") else None


def notes_sentences(path: Path) -> Iterator[list[str]]:
    """Tokens of the sentences of all notes, lower-cased."""
    split = Tokenizer()
    for _, text in read_notes(path):
        for _, body in sections(text):
            yield from filter(None, map(split, note_sentences(body)))


def corpus(name: str) -> tuple[Iterator[list[str]], dict]:
    """The sentences of a corpus, and facts about it. Raises: UserError where it is missing."""
    path = Path(name).expanduser()
    if name in demo.SIZES:
        return demo_sentences(name), {"corpus": name, "split": "train"}
    if notes := notes_of(path):
        return notes_sentences(notes), {"corpus": "notes", "files": {notes.name: sha256(*text_files(notes))}}
    files = {str(file.relative_to(path) if path.is_dir() else file.name): sha256(file) for file in text_files(path)}
    return sentences(path), {"corpus": "text", "files": files}


def train(names: list[str], initial: Path | None, end: Path, settings: Settings) -> None:
    """Trains on the corpora in turn, each time from the vectors of the corpus before. The last vectors go to `end`."""
    for number, name in enumerate(names, start=1):
        last = number == len(names)
        out = end if last else end.with_name(f"{end.stem}.{number}.bin")
        found, source = corpus(name)
        facts = pretrain(found, out, settings, initial=initial, corpus=source)
        text = facts["text"]
        print(
            f"{out}: {facts['words']:,} words of {text['tokens']:,} tokens in {text['sentences']:,} sentences, "
            f"{facts['initial_words']:,} words to start from, {facts['seconds']['all']:.0f} s"
        )
        initial = out


def main() -> int:
    """Reads the flags and trains; returns the exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--corpora", required=True, help="names or paths, separated by commas")
    parser.add_argument("--out", required=True, type=cli.path, help="NAME.bin (a fastText model) or NAME.vec (text)")
    parser.add_argument("--initial", type=cli.path, help="vectors to start from")
    for field in dataclasses.fields(Settings):
        choices = {"method": METHODS, "architecture": ARCHITECTURES}.get(field.name)
        text = f"{HELP[field.name]} (default {field.default})"
        parser.add_argument(f"--{field.name}", type=field.type, default=field.default, choices=choices, help=text)
    given = parser.parse_args()
    settings = Settings(**{field.name: getattr(given, field.name) for field in dataclasses.fields(Settings)})
    names, initial = [name for name in given.corpora.split(",") if name], given.initial
    # Vectors of notes are as private as the notes: script sees to it.
    return cli.script(lambda: train(names, initial, given.out, settings))


if __name__ == "__main__":
    sys.exit(main())
