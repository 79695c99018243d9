"""Trains the fastText library on the texts of configs/hypothesis_only.py and premise_hypothesis_fasttext.py.

  python launch/fasttext_reference.py --corpus=demo
  python launch/fasttext_reference.py --corpus=snli --input=pair --buckets=131072

Settings are those of Herlihy & Rudinger 2021, sections 3 and 6: raw text, lower-cased, words and bigrams, and the
library's defaults (learning rate 0.1, 100-d vectors, 5 epochs, 2 million buckets, which take 800 MB). One thread is
used, so that a seed repeats its result. The output is the accuracy of each split and of its most frequent class, in %.
Needs `pip install 'mednli_jax[embeddings]'`.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from mednli_jax import cli, defaults
from mednli_jax.baselines.majority import majority
from mednli_jax.corpora.arrays import SIDES
from mednli_jax.corpora.nli.encoding import tokens_of
from mednli_jax.examples import Split
from mednli_jax.experiment import nli_corpus
from mednli_jax.knowledge.pretrain import library_version


def corpus(variant: str, folder: str | None, sides: str) -> tuple[dict[str, Split], dict[str, list[str]]]:
    """The splits, and for each labelled pair a line in fastText's format: its label and its tokens."""
    config = defaults.nli("fasttext", variant)
    config.data.hypothesis_only = sides == "hypothesis"
    if folder:
        config.data.dir = folder
    source = nli_corpus(config)

    def line(example):
        tokens = (token for side in SIDES for token in tokens_of(example, side, source.encoding))
        return " ".join([f"__label__{example.label}", *tokens])

    splits = source.splits()
    return splits, {name: [line(e) for e in split.examples if e.label] for name, split in splits.items()}


def accuracies(lines: dict[str, list[str]], *, buckets: int, seed: int) -> tuple[dict[str, float], float]:
    """The library's accuracy (0-1) on every split after training on `train`; and the seconds its training took."""
    import fasttext

    with tempfile.TemporaryDirectory() as scratch:
        files = {name: Path(scratch) / name for name in lines}
        for name, path in files.items():
            path.write_text("".join(line + "\n" for line in lines[name]), encoding="utf-8")
        started = time.monotonic()
        model = fasttext.train_supervised(
            input=str(files["train"]), wordNgrams=2, bucket=buckets, seed=seed, thread=1, verbose=0
        )
        seconds = time.monotonic() - started
        return {name: model.test(str(path))[1] for name, path in files.items()}, seconds


def measure(options: argparse.Namespace) -> None:
    """Trains the library and prints its accuracies."""
    library_version()  # before the corpus is read
    splits, lines = corpus(options.corpus, options.dir, options.input)
    found, seconds = accuracies(lines, buckets=options.buckets, seed=options.seed)
    label = {name: [example.label for example in split.examples] for name, split in splits.items()}
    print(f"{len(lines['train'])} texts, trained in {seconds:.1f} s")
    print(f"{'':<10}{'pairs':>8}{'majority':>10}{'fastText':>10}")
    for name, accuracy in found.items():
        print(f"{name:<10}{len(lines[name]):>8}{majority(label['train'], label[name]):>10.1%}{accuracy:>10.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=defaults.VARIANTS, default="demo")
    parser.add_argument("--dir", help="data folder, else $MEDNLI_JAX_DATA")
    parser.add_argument("--input", choices=("hypothesis", "pair"), default="hypothesis")
    parser.add_argument("--buckets", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    return cli.script(lambda: measure(options))


if __name__ == "__main__":
    sys.exit(main())
