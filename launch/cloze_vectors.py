"""Random search for the word2vec vectors of sim-entity (Šuster & Daelemans 2018, Appendix A).

  python launch/cloze_vectors.py --corpus=demo_cloze --out=vectors/demo_cloze --trials=5                  (minutes)
  python launch/cloze_vectors.py --corpus=clicr --text=pubmed/ --out=vectors/clicr --trials=20 --dims=200,400,750 \\
      --min_counts=200 --threads=16

Each trial draws the window, the model (cbow or skipgram), the number of negative samples and the dimension. It trains
vectors on the sentences of the training passages, and on the text files of --text. Its score is the F1 of sim-entity on
dev, as in the paper; EM and the embedding score are also reported. OUT/trials.jsonl has a line for each trial. Trials
in this file are not repeated, so that the same command continues an interrupted search or adds trials. OUT/best.vec has
the best vectors. Needs `pip install 'mednli_jax[embeddings]'`.
"""

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mednli_jax import cli
from mednli_jax.cloze import baselines as entity
from mednli_jax.cloze.clicr import by_passage
from mednli_jax.cloze.encoding import DEMO, corpus_named
from mednli_jax.cloze.scores import query_scores, summary
from mednli_jax.io import Bar, private_folder, sha256, write_atomic
from mednli_jax.knowledge.pretrain import Settings, pretrain, sentences, text_files

WINDOWS = range(2, 11)
NEGATIVES = range(3, 16)


def drawn(trial: int, given) -> Settings:
    """The settings of a trial. They depend on its number and the seed only, not on the number of trials."""
    rng = np.random.default_rng((given.seed, trial))
    return Settings(
        method="word2vec",
        architecture=("cbow", "skipgram")[rng.integers(2)],
        window=int(rng.choice(WINDOWS)),
        negatives=int(rng.choice(NEGATIVES)),
        dim=int(rng.choice(given.dims)),
        min_count=int(rng.choice(given.min_counts)),
        epochs=given.epochs,
        threads=given.threads,
    )


def corpus_text(split, text: Path | None) -> Iterator[list[str]]:
    """Sentences of the split's passages, lower-cased, each passage once; then those of the text files."""
    for passage, _ in by_passage(split.examples):
        start = 0
        for end in passage.sentences:
            yield [token.lower() for token in passage.tokens[start:end]]
            start = end
    if text is not None:
        yield from sentences(text)


def provenance(given, split) -> dict:
    files = text_files(given.text) if given.text else []
    return {
        "corpus": split.facts.get("file", given.corpus),
        "sha256": split.facts.get("sha256", ""),
        "text": {file.name: sha256(file) for file in files},
    }


def score(file: Path, examples) -> dict:
    vocab, vectors = entity.known_vectors(file, examples)
    window, found = entity.best_window(examples, vocab, vectors)
    fixed = entity.most_similar_entity(examples, vocab, vectors)
    paper = summary(query_scores(examples, fixed, vocab, vectors))
    names = ("exact_match", "f1", "embedding")
    return {
        **{name: found[window][name] for name in names},
        "prediction_window": window,
        "window_3": {name: paper[name] for name in names},
        "known_words": len(vocab) - 2,
    }


def search(given) -> None:
    splits = corpus_named(given.corpus)
    source, out = provenance(given, splits["train"]), private_folder(given.out)
    file = out / "trials.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    with Bar("trials", given.trials, unit="trials") as bar:
        for trial in range(given.trials):
            settings = drawn(trial, given)
            key = {"trial": trial, "settings": dataclasses.asdict(settings), "source": source}
            if not any(all(row.get(name) == value for name, value in key.items()) for row in rows):
                started, file = time.monotonic(), out / "trial.vec"
                pretrain(corpus_text(splits["train"], given.text), file, settings, corpus=source)
                found = score(file, splits["dev"].examples)
                best = max((row["f1"] for row in rows if row["source"] == source), default=-1.0)
                if found["f1"] > best or not (out / "best.vec").is_file():
                    os.replace(file, out / "best.vec")
                    os.replace(out / "trial.vec.json", out / "best.vec.json")
                rows.append({**key, **found, "seconds": round(time.monotonic() - started, 1)})
                write_atomic(out / "trials.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            bar.advance(1)
    for path in (out / "trial.vec", out / "trial.vec.json"):
        path.unlink(missing_ok=True)
    print("\n".join(table(sorted((row for row in rows if row["source"] == source), key=lambda row: -row["f1"]))))


def table(rows) -> Iterator[str]:
    yield "| F1 | EM | Emb | window at prediction | model | window | negatives | dimension | min_count | seconds |"
    yield "| --- " * 10 + "|"
    for row in rows:
        settings = row["settings"]
        cells = [f"{100 * row['f1']:.1f}", f"{100 * row['exact_match']:.1f}", f"{row['embedding']:.2f}"]
        chosen = [settings[name] for name in ("architecture", "window", "negatives", "dim", "min_count")]
        yield "| " + " | ".join(map(str, [*cells, row["prediction_window"], *chosen, row["seconds"]])) + " |"


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--corpus", default=DEMO, help="demo_cloze (default), clicr or a folder")
    parser.add_argument("--text", type=cli.path, help="more text to train on: a file or folder, as pretrain_vectors.py")
    parser.add_argument("--out", required=True, type=cli.path, help="folder for trials.jsonl and best.vec")
    parser.add_argument("--trials", type=int, default=5, help="number of trials (default 5; the paper: 20)")
    parser.add_argument("--dims", type=numbers, default=(50, 100, 200), help="to draw from (default 50,100,200)")
    parser.add_argument("--min_counts", type=numbers, default=(2, 5), help="to draw from (default 2,5)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the text (default 5)")
    parser.add_argument("--threads", type=int, default=1, help="more than 1 is faster and not repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    options = parser.parse_args()
    return cli.script(lambda: search(options))


if __name__ == "__main__":
    sys.exit(main())
