"""Time and memory of CliCR at full size: `python launch/cloze_scale.py [--passages=12000] [--setup=ent]`.

Writes a synthetic corpus of CliCR's size, in its official format, into a temporary folder (about 140 MB of JSON and 1
GB of arrays, removed at the end). As in the paper's Table 2 it has --passages reports of 100 to 6,000 tokens (1,466 on
average), --queries queries with four synonyms each, 113,000 distinct words and about 590,000 distinct marked phrases. A
child process reads, checks and prepares the corpus with random vectors. The output is one line of JSON for each set-up:
seconds, peak megabytes of memory, and the size of the corpus. The target is at most 360 s and 6,000 MB.

With --steps=N the script times training steps of GA-Ent and SA-Ent with CliCR's settings: N steps, in turn with tables
of 600,000 and of 2,000 phrases. A step reads only the rows of its own passages. Therefore the corpus has only 72
passages, and the tables are filled up with rows that no passage uses. The output is one line of JSON for each reader:
median seconds of a step and peak megabytes of training with the large table.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from mednli_jax import defaults, experiment
from mednli_jax.corpora.cache import Cache
from mednli_jax.corpora.cloze import clicr
from mednli_jax.corpora.cloze.corpus import ClozeCorpus
from mednli_jax.corpora.cloze.encoding import ClozeEncoding, encode_cloze
from mednli_jax.corpora.cloze.views import SETUPS, with_titles
from mednli_jax.training.loop import Trainer

WORDS = 113_000
MEAN, SPREAD, SHORTEST, LONGEST = 1466, 0.55, 100, 6000  # tokens of a passage, log-normal
SHARES = {"train": 0.871, "dev": 0.061, "test": 0.068}
OWN_PHRASES, MENTIONS = 0.045, 0.06  # of a passage, per token
ANSWERABLE = 0.59  # "% answers verbatim in passage"
READERS = ("ga_reader", "sa_reader")
STEP_PASSAGES, TYPES, ROUNDS = 72, (600_000, 2_000), 3  # of --steps: passages, types of phrases, processes of each


class Writer:
    """Generates articles: words follow Zipf's law, phrases have one to four words, most occur in one passage only."""

    def __init__(self):
        self.random = np.random.default_rng(0)
        shares = 1 / np.arange(2, WORDS + 2)
        self.cumulated = np.cumsum(shares / shares.sum())
        self.words = np.array([f"w{number:x}" for number in range(WORDS)])

    def draw(self, count: int) -> list[str]:
        places = np.searchsorted(self.cumulated, self.random.random(count))
        return self.words[np.minimum(places, WORDS - 1)].tolist()

    def phrase(self) -> str:
        return " ".join(self.draw(self.random.integers(1, 5)))

    def article(self, source: str, queries: int) -> dict:
        length = np.clip(self.random.lognormal(np.log(MEAN) - SPREAD**2 / 2, SPREAD), SHORTEST, LONGEST)
        phrases = [self.phrase() for _ in range(max(int(length * OWN_PHRASES), 1))]
        tokens = self.draw(int(length * (1 - 2.5 * MENTIONS)))
        for place in self.random.integers(0, len(tokens), int(length * MENTIONS)).tolist():
            tokens[place] += f" BEG__{phrases[self.random.integers(len(phrases))]}__END"
        lines = [" ".join(tokens[start : start + 20]) for start in range(0, len(tokens), 20)]
        qas = [self.query(f"{source}.{number}", phrases) for number in range(1, queries + 1)]
        title = f"A case of BEG__{phrases[0]}__END"
        return {"source": source, "document": {"title": title, "context": "\n".join(lines), "qas": qas}}

    def query(self, uid: str, phrases: list[str]) -> dict:
        known = self.random.random() < ANSWERABLE
        answer = phrases[self.random.integers(len(phrases))] if known else self.phrase()
        texts = [answer, *(self.phrase() for _ in range(4))]
        answers = [
            {"text": text, "cui": "C0000001", "sem_type": "problem", "origin": "UMLS" if number else "dataset"}
            for number, text in enumerate(texts)
        ]
        left, right = (" ".join(self.draw(self.random.integers(4, 16))) for _ in range(2))
        return {"id": uid, "query": f"{left} BEG__{phrases[0]}__END @placeholder {right}", "answers": answers}


def write(folder: Path, passages: int, queries: int) -> None:
    """The three official files."""
    writer, number = Writer(), 0
    for split, share in SHARES.items():
        here = round(passages * share)
        counts = writer.random.multinomial(round(queries * share) - here, [1 / here] * here) + 1
        with open(folder / clicr.FILES[split], "w") as file:
            file.write('{"version": "1.0", "data": [')
            for place, count in enumerate(counts.tolist()):
                file.write(", " * (place > 0) + json.dumps(writer.article(f"report{number}", count)))
                number += 1
            file.write("]}")


def prepare(folder: Path, setup: str) -> dict:
    """The report of the child process."""
    begun, read = time.perf_counter(), []

    def load():
        splits = {name: with_titles(split) for name, split in clicr.load(folder).items()}
        read.append(time.perf_counter() - begun)
        return splits

    cache, corpus = Cache(folder / "cache"), ClozeCorpus("clicr", ClozeEncoding(setup), folder)
    prepared, _ = cache.get(corpus.name, corpus.key(cache), lambda: encode_cloze(load(), corpus.encoding))
    seconds = time.perf_counter() - begun
    splits, usage = prepared.manifest["splits"].values(), resource.getrusage(resource.RUSAGE_SELF)
    return {
        "setup": setup,
        "seconds": round(seconds, 1),
        "seconds_of_processor": round(usage.ru_utime + usage.ru_stime, 1),
        "seconds_of_reading": round(read[0], 1),
        "peak_mb": round(usage.ru_maxrss * 1024 / 1e6),
        "passages_read": sum(facts["articles"] for facts in splits),
        "queries_read": sum(facts["queries"] for facts in splits),
        "passages": sum(facts["passages"] for facts in splits),
        "queries": sum(facts["rows"] for facts in splits),
        "tokens": len(prepared.arrays["passage"]),
        "vocabulary": len(prepared.vectors),
        "phrase_types": prepared.manifest["candidates"]["types"],
        "bytes_on_disk": sum(path.stat().st_size for path in prepared.folder.iterdir()),
    }


def time_steps(folder: Path, model: str, types: int, count: int) -> dict:
    """The report of the child process on training steps of a reader with a table of this many phrases."""
    config = defaults.cloze(model, "clicr")
    config.data.dir, config.vectors.path = str(folder), ""
    asked = experiment.of(config)

    def encoded():
        splits = {name: with_titles(split) for name, split in clicr.load(folder).items()}
        return encode_cloze(splits, asked.corpus.encoding)

    prepared, _ = Cache(folder / "cache").get("clicr", {"of": model}, encoded)
    corpus = asked.task.with_rows(with_tables(prepared, config.data.max_words or WORDS + types, types))
    program, batches = asked.program_over(corpus)
    trainer = Trainer(program, asked.settings, corpus.splits, batches, asked.seeds)
    layout, index = batches["train"].epoch(1, np.asarray(asked.seeds))[0]
    seconds = [step(program, layout, trainer, index) for _ in range(count + 1)][1:]  # the first step compiles
    return {
        "reader": model,
        "types": types,
        "vocabulary": len(corpus.vectors),
        "slots": sum(steps * rows for steps, rows in layout.pairs),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6),
        "seconds": seconds,
    }


def median_steps(reports: list[dict]) -> dict:
    """Merges several reports of the same steps into one."""
    seconds, of_processor = np.median([step for report in reports for step in report["seconds"]], axis=0)
    peak = max(report["peak_mb"] for report in reports)
    medians = {"seconds": round(float(seconds), 3), "seconds_of_processor": round(float(of_processor), 3)}
    return {**reports[0], "peak_mb": peak, **medians}


def with_tables(prepared, words: int, types: int):
    """The corpus with tables of these sizes: unused rows fill up the vectors, and phrases share numbers."""
    vectors = np.zeros((words, prepared.vectors.shape[1]), np.float32)
    vectors[: len(prepared.vectors)] = prepared.vectors
    arrays = {**prepared.arrays, "candidate_type": prepared.arrays["candidate_type"] % types}
    manifest = {**prepared.manifest, "candidates": {"types": types, "types_of_train": types}}
    return replace(prepared, vectors=vectors, arrays=arrays, manifest=manifest)


def step(program, layout, trainer, index) -> tuple[float, float]:
    """(seconds, seconds of processor) of one training step."""
    begun = time.perf_counter(), time.process_time()
    trainer.learner, _ = jax.block_until_ready(program.train(layout, trainer.learner, index))
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of CliCR at full size.")
    parser.add_argument("--passages", type=int, default=12_000)
    parser.add_argument("--queries", type=int, default=105_000)
    parser.add_argument("--setup", choices=SETUPS, nargs="+", default=["ent"])
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--steps", type=int, default=0, help="time this many training steps instead of preparing")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, (name, *types) = Path(options.child[0]), options.child[1:]
        print(json.dumps(time_steps(folder, name, int(types[0]), options.steps) if types else prepare(folder, name)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:

        def report(*child) -> dict:
            command = [sys.executable, __file__, f"--steps={options.steps}", "--child", folder, *map(str, child)]
            kept = {**os.environ, "JAX_COMPILATION_CACHE_DIR": f"{folder}/compiled"}
            return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=kept).stdout)

        if options.steps:
            write(Path(folder), STEP_PASSAGES, 9 * STEP_PASSAGES)
            for model in READERS:
                rounds = [[report(model, types) for types in TYPES] for _ in range(ROUNDS)]
                for reports in zip(*rounds, strict=True):
                    print(json.dumps(median_steps(reports)), flush=True)
            return
        write(Path(folder), options.passages, options.queries)
        for setup in options.setup:
            print(json.dumps(report(setup)), flush=True)


if __name__ == "__main__":
    main()
