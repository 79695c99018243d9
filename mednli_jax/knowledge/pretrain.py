"""Trains word vectors on running text: fastText or word2vec, from scratch or from existing vectors.

Romanov & Shivade 2018, section 4.1: fastText vectors of BioASQ's abstracts and of MIMIC-III's notes, and chains such as
GloVe -> BioASQ -> MIMIC-III, where each training starts from the vectors of the one before. As there, the start is
fastText's `pretrainedVectors`: the words' rows are set to the vectors given and stay in the vocabulary even where
the text lacks them, rows of character n-grams start at random. fastText's vector is the mean of both, so that a word
which the text lacks comes out shortened; word2vec, which is fastText without n-grams, keeps it as it was.

Needs the fastText library (`pip install 'mednli_jax[embeddings]'`). One thread gives the same file each time; with more
they race.
"""

import hashlib
import json
import multiprocessing
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from mednli_jax.data.text import SPECIALS
from mednli_jax.data.vectors import check_dim, load_vectors, read_head, rows_of, vector_paths
from mednli_jax.errors import DataError, RunError, UsageError
from mednli_jax.io import private_folder, put_in_place, say, sha256, warn, write_json

METHODS, ARCHITECTURES = ("fasttext", "word2vec"), ("skipgram", "cbow")
_BREAKS = frozenset(b" \t\v\f\r\n\0")  # characters that end a word for fastText


@dataclass(frozen=True)
class Settings:
    """How to train; the values are fastText's, but for `dim`, which is the paper's.

    method: fasttext (words and their character n-grams of 3 to 6) or word2vec (words alone). window: words to either
    side. buckets: of n-grams, at most; never more than the text has tokens. threads: above 1 results vary.
    """

    method: str = "fasttext"
    architecture: str = "skipgram"
    dim: int = 300
    epochs: int = 5
    window: int = 5
    min_count: int = 5
    negatives: int = 5
    learning_rate: float = 0.05
    buckets: int = 2_000_000
    threads: int = 1

    def check(self) -> None:
        """Raises UsageError for an impossible value."""
        for name, known in (("method", METHODS), ("architecture", ARCHITECTURES)):
            if (value := getattr(self, name)) not in known:
                raise UsageError(f"{name}: unknown value '{value}'. Fix: give one of {', '.join(known)}.")
        for name in ("dim", "epochs", "window", "min_count", "negatives", "buckets", "threads"):
            if (value := getattr(self, name)) < 1:
                raise UsageError(f"{name} is {value}. Fix: give at least 1.")
        if not 0 < self.learning_rate < 10:
            raise UsageError(f"learning_rate is {self.learning_rate}. Fix: give a number over 0, e.g. 0.05.")


def pretrain(
    sentences: Iterable[Sequence[str]],
    out: Path,
    settings: Settings,
    *,
    initial: Path | None = None,
    corpus: dict | None = None,
) -> dict:
    """Trains vectors and writes them, and beside them OUT.json with their sources, whose content is returned, too.

    sentences: tokens without white space; read once, and written into a private folder beside `out` for the time of the
      training. out: NAME.bin, a fastText model, or NAME.vec, text. initial: vectors to start from, in any format of
      `load_vectors`, of the same dimension. corpus: what is to be known of the text; plain values, never its words.
    Where `out` is there, made of the same corpus with the same settings, nothing is done; a file that was
    made otherwise is replaced, with a message.
    """
    settings.check()
    library, out = library_version(), Path(out)
    if out.suffix not in (".bin", ".vec"):
        raise UsageError(f"out is '{out.name}'. Fix: give a name that ends in .bin or .vec.")
    start = None if initial is None else _initial(initial, settings)
    key = {"settings": asdict(settings), "corpus": corpus or {}, "initial": start}
    if corpus and (facts := _finished(out, key)):
        say(f"{out.name} exists, made of the same text with the same settings.")
        return facts
    if out.exists():
        if not _facts_path(out).is_file():
            raise UsageError(f"{out}: exists, and this command did not make it. Fix: give another name.")
        warn(f"{out.name} exists, but of other text or settings, or damaged: it will be replaced")
    begun, scratch = time.monotonic(), private_folder(out.parent) / f".{out.name}.tmp"
    shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed
    try:
        private_folder(scratch)
        text = _write_sentences(sentences, scratch / "text")
        words = 0 if initial is None else write_vectors(initial, scratch / "initial.vec", settings.dim)
        seconds = time.monotonic() - begun
        _train(scratch, settings, text["tokens"], words > 0)
        made = scratch / "model.bin"
        # Reading it as a whole finds what a full disk has cut off; the library does not look.
        load_vectors(made, SPECIALS, dim=settings.dim, seed=0)
        count = read_head(made).rows
        if out.suffix == ".vec":
            made = scratch / "model.vec"
            write_vectors(scratch / "model.bin", made, settings.dim)
        facts = {
            "key": key,
            "text": text,
            "initial_words": words,
            "words": count,
            "library": library,
            "seconds": {"reading": round(seconds, 1), "all": round(time.monotonic() - begun, 1)},
            "sha256": sha256(made),
        }
        write_json(_facts_path(out), facts)  # first: vectors without it would not be known as ours
        put_in_place(made, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return facts


def _facts_path(out):
    return out.with_name(f"{out.name}.json")


def _finished(out, key):
    """The facts of what is there, None where it is something else or damaged."""
    try:
        facts = json.loads(_facts_path(out).read_bytes())
        same = facts["key"] == json.loads(json.dumps(key)) and facts["sha256"] == sha256(out)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return facts if same else None


def _initial(path, settings):
    """Name and sha256 of the vectors to start from."""
    paths = vector_paths(path)
    if len(paths) > 1:
        raise UsageError("several files of vectors to start from. Fix: give one.")
    check_dim(paths[0], read_head(paths[0]).dim, settings.dim)
    found = load_vectors(paths[0], SPECIALS, dim=settings.dim, seed=0)  # reads and checks the whole file
    return {"file": found.source, "sha256": found.sha256}


def _write_sentences(sentences, path):
    """Writes one sentence a line; returns counts and the sha256."""
    digest, count, tokens = hashlib.sha256(), 0, 0
    with open(path, "wb") as file:
        for sentence in sentences:
            line = (" ".join(sentence) + "\n").encode("utf-8", "replace")
            file.write(line)
            digest.update(line)
            count, tokens = count + 1, tokens + len(sentence)
    if not tokens:
        raise DataError("the text holds no words", fix="check what the corpora hold")
    return {"sentences": count, "tokens": tokens, "sha256": digest.hexdigest()}


def write_vectors(path: Path, out: Path, dim: int) -> int:
    """Writes vectors of any format as text with a header, as fastText reads it; returns the number of words.

    Words that hold white space, which GloVe's do at times, are left out: fastText cannot read them.
    """
    count, header, template = 0, len(f"{10**12} {dim}"), " ".join(["%.7g"] * dim)
    with open(out, "wb") as file:
        file.write(b" " * header + b"\n")
        for word, numbers in rows_of(vector_paths(path)[0], dim):
            if word and _BREAKS.isdisjoint(word):
                if not isinstance(numbers, bytes):
                    numbers = (template % tuple(numbers.astype("f4").tolist())).encode()
                file.write(word + b" " + numbers + b"\n")
                count += 1
        file.seek(0)
        file.write(f"{count} {dim}".encode().ljust(header))
    return count


def library_version() -> str:
    """Name and version of the fastText library."""
    try:
        import fasttext  # noqa: F401 - an extra that nothing else needs
    except ImportError:
        raise RunError("the fastText library is missing. Fix: pip install 'mednli_jax[embeddings]'.") from None
    for name in metadata.packages_distributions().get("fasttext", ()):
        return f"{name} {metadata.version(name)}"
    return "unknown"


def _train(scratch, settings, tokens, chained):
    """Trains in a child process, which reacts to Ctrl-C, and whose lack of memory does not end this one."""
    grams = settings.method == "fasttext"
    arguments = {
        "input": str(scratch / "text"),
        "model": settings.architecture,
        "dim": settings.dim,
        "epoch": settings.epochs,
        "ws": settings.window,
        "minCount": settings.min_count,
        "neg": settings.negatives,
        "lr": settings.learning_rate,
        "minn": 3 if grams else 0,
        "maxn": 6 if grams else 0,
        "bucket": min(settings.buckets, tokens),
        "thread": settings.threads,
        "pretrainedVectors": str(scratch / "initial.vec") if chained else "",
        "verbose": 2 if sys.stderr.isatty() else 0,
    }
    # Not forked: a copy of a process with threads may hang.
    worker = multiprocessing.get_context("spawn").Process(
        target=_worker, args=(arguments, str(scratch / "model.bin"), str(scratch / "fault"))
    )
    worker.start()
    try:
        worker.join()
    finally:
        if worker.is_alive():
            worker.terminate()
            worker.join()
    fault = scratch / "fault"
    message = fault.read_text() if fault.is_file() else ""
    if "Empty vocabulary" in message:
        raise UsageError(
            f"no word stands {settings.min_count} times in the text. Fix: lower min_count, or give more text."
        )
    if "NaN" in message:
        raise RunError("the training's numbers overflowed. Fix: lower learning_rate.")
    if (worker.exitcode or 0) < 0 or "bad_alloc" in message:
        raise RunError(
            f"the training was ended from outside (signal {abs(worker.exitcode or 0)}), most often for want "
            "of memory. Fix: lower buckets or dim, or give it more."
        )
    if message or worker.exitcode:
        raise RuntimeError(f"fastText: {message or worker.exitcode}")


def _worker(arguments, out, fault):
    import fasttext

    try:
        fasttext.train_unsupervised(**arguments).save_model(out)
    except (MemoryError, RuntimeError, ValueError) as error:
        Path(fault).write_text(f"{type(error).__name__} {error}".replace("MemoryError", "bad_alloc"))
