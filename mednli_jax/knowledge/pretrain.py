"""Running text for training word vectors: sentences of plain text files and of BioASQ's JSON, as Treebank tokens.

Files are streamed: memory does not grow with them.
"""

import hashlib
import json
import multiprocessing
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from mednli_jax.data.text import SPECIALS, sentence_tokens
from mednli_jax.data.vectors import check_dim, load_vectors, read_head, rows_of, vector_paths
from mednli_jax.errors import DataError, RunError, UsageError
from mednli_jax.io import (
    byte_lines,
    decoded,
    empty_file,
    no_such_file,
    opened_text,
    private_folder,
    put_in_place,
    say,
    sha256,
    warn,
    write_json,
)

KINDS = (".txt", ".txt.gz", ".json", ".json.gz")
MAX_ARTICLE = 1 << 24  # characters of one article
_BLOCK = 1 << 20
_ARTICLES = re.compile(r'\s*\{\s*"articles"\s*:\s*\[')
_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=[\"'(\[]?[A-Z0-9])")
_CLOSERS = frozenset("])}>\"'»”’`.")
_KEPT = 1 << 20  # distinct words whose pieces are remembered
_ESCAPED = re.compile("[\ud800-\udfff]")


def text_files(path: Path) -> list[Path]:
    """The file, or the files of a folder and of those below it that may hold text, by name."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.name.endswith(KINDS) and file.is_file())
        if not files:
            problem, fix = "no text in this folder", f"put files ending in {', '.join(KINDS)} there"
            raise DataError(problem, file=path.name, fix=fix)
        return files
    if not path.is_file():
        raise no_such_file(path)
    return [path]


def sentences(path: Path, *, lowercase: bool = True) -> Iterator[list[str]]:
    """Tokens of the sentences of a file or folder, see `text_files`: as `sentence_tokens` has them, lower-cased.

    .json is BioASQ's {"articles": [{"title": ..., "abstractText": ...}, ...]}; of any other file each line is a
    text of one sentence or more. Files may be gzipped. Raises: DataError.
    """
    split = Tokenizer(lowercase=lowercase)
    for file in text_files(path):
        found = False
        texts = articles(file) if file.name.removesuffix(".gz").endswith(".json") else lines(file)
        for text in texts:
            for sentence in split_sentences(text):
                if tokens := split(sentence):
                    found = True
                    yield tokens
        if not found:
            raise empty_file(file, "no text")


def split_sentences(text: str) -> list[str]:
    """Sentences of prose: they end in . ! or ? before a capital letter or a number; abbreviations may end one early."""
    return _END.split(text)


def lines(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 file, plain or gzipped."""
    for number, line in byte_lines(path):
        yield decoded(path.name, number, line)


def articles(path: Path) -> Iterator[str]:
    """Titles and abstracts of BioASQ's JSON, which is too large to be read as a whole; articles may lack either.

    Bytes that are no UTF-8, which the official files hold, are taken for Latin-1.
    """
    with opened_text(path, errors="surrogateescape") as stream:
        buffer, count, decode = stream.read(_BLOCK), 0, json.JSONDecoder().raw_decode
        start = _ARTICLES.match(buffer)
        if not start:
            raise _no_articles(path, 'it does not start with {"articles": [')
        at = start.end()
        while True:
            at = _past_blanks(buffer, at)
            if at < len(buffer) and buffer[at] == "]":
                return
            try:
                article, end = decode(buffer, at)
            except (ValueError, RecursionError):
                more = stream.read(_BLOCK) if len(buffer) - at < MAX_ARTICLE else ""
                if not more:
                    raise _no_articles(path, f"article {count + 1} is damaged, or the file is cut short") from None
                buffer, at = buffer[at:] + more, 0
                continue
            count, at = count + 1, end
            if not isinstance(article, dict):
                raise _no_articles(path, f"article {count} is no object")
            for field in ("title", "abstractText"):
                if isinstance(text := article.get(field), str):
                    yield _ESCAPED.sub(_character, text)


def _character(match):
    """What a byte that is no UTF-8 stands for; any other half of a surrogate pair is no character."""
    code = ord(match.group()) - 0xDC00
    return chr(code) if 0x80 <= code <= 0xFF else "\ufffd"


def _past_blanks(buffer, at):
    while at < len(buffer) and buffer[at] in ", \t\r\n":
        at += 1
    return at


def _no_articles(path, problem):
    fix = 'give a file {"articles": [{"title": ..., "abstractText": ...}, ...]}'
    return DataError(f"not BioASQ's JSON: {problem}", file=path.name, fix=fix)


class Tokenizer:
    """`sentence_tokens` of a sentence whose white space is single blanks, several times faster: words are looked up.

    The Treebank's rules look at a word between blanks alone, but for the first one (quotes) and the last ones (the
    full stop). What a word becomes in either place or in mid-sentence is remembered.
    """

    def __init__(self, *, lowercase: bool = True):
        self.lowercase = lowercase
        self._first, self._middle, self._last = {}, {}, {}

    def __call__(self, sentence: str) -> list[str]:
        words = sentence.replace("\0", " ").split()
        if not words:
            return []
        last = len(words) - 1
        while last > 0 and _CLOSERS.issuperset(words[last]):
            last -= 1
        if last < 1:
            return list(self._cased(sentence_tokens(" ".join(words))))
        found, known = list(self._pieces(self._first, words[0], "", " x")), self._middle
        for word in words[1:last]:
            found += known.get(word) or self._pieces(known, word, "x ", " x")
        found += self._pieces(self._last, " ".join(words[last:]), "x ", "")
        return found

    def _cased(self, tokens):
        return tuple(token.lower() for token in tokens) if self.lowercase else tokens

    def _pieces(self, known, word, before, after):
        """Tokens of a word with these neighbours, which are no part of them."""
        if word not in known:
            if len(known) >= _KEPT:
                known.clear()
            tokens = sentence_tokens(before + word + after)
            known[word] = self._cased(tokens[bool(before) : len(tokens) - bool(after)])
        return known[word]


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
