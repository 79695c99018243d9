"""Trains word vectors on running text: fastText or word2vec, from scratch or from existing vectors.

Romanov & Shivade 2018, section 4.1: fastText vectors of BioASQ's abstracts and of MIMIC-III's notes, and chains such as
GloVe -> BioASQ -> MIMIC-III. As there, a training starts from vectors by the option `pretrainedVectors`: words keep the
vectors given and stay in the vocabulary even where the text lacks them, rows of character n-grams start at random.
fastText's vector is the mean of both, so that a word which the text lacks comes out shortened; word2vec,
which is fastText without n-grams, keeps it as it was.

Needs the fastText library (`pip install 'mednli_jax[embeddings]'`).
"""

import codecs
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from mednli_jax import io as files
from mednli_jax.data.text import SPECIALS, sentence_tokens
from mednli_jax.data.vectors import load_vectors, read_head, rows_of, vector_paths
from mednli_jax.errors import DataError, RunError, UsageError
from mednli_jax.io import MARK, opened_text, private_folder, sha256, text_lines

KINDS = (".txt", ".txt.gz", ".json", ".json.gz")
METHODS, ARCHITECTURES = ("fasttext", "word2vec"), ("skipgram", "cbow")
_BLOCK, _LONGEST = 1 << 20, 1 << 24  # characters that are read at once; of one article
_ARTICLES = re.compile(r'\s*\{\s*"articles"\s*:\s*\[')
_GAP = re.compile(r"[, \t\r\n]*")
# A sentence ends in . ! or ? before a capital letter or a number; abbreviations may end one early.
_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=[\"'(\[]?[A-Z0-9])")
_CLOSERS = frozenset("])}>\"'»”’`.")
_KEPT = 1 << 20  # distinct words whose pieces are remembered
_BREAKS = frozenset(b" \t\v\f\r\n\0")  # characters that end a word for fastText

# BioASQ's official files hold bytes that are no UTF-8.
codecs.register_error("latin-1", lambda error: (error.object[error.start : error.end].decode("latin-1"), error.end))


def text_files(path: Path) -> list[Path]:
    """The file, or the files of a folder and of those below it that may hold text, by name."""
    path = Path(path)
    found = sorted(file for file in path.rglob("*") if file.name.endswith(KINDS) and file.is_file())
    if path.is_file():
        return [path]
    if not found:
        raise DataError("no text is there", file=path.name, fix=f"give a file, or a folder of {', '.join(KINDS)}")
    return found


def sentences(path: Path) -> Iterator[list[str]]:
    """Tokens of the sentences of a file or folder, see `text_files`: as `sentence_tokens` has them, lower-cased.

    .json is read by `articles`; of any other file each line is a text of one sentence or more.
    """
    split = Tokenizer()
    for file in text_files(path):
        found, is_json = False, file.name.removesuffix(".gz").endswith(".json")
        for text in articles(file) if is_json else (line for _, line in text_lines(file)):
            for sentence in _END.split(text):
                if tokens := split(sentence):
                    found = True
                    yield tokens
        if not found:
            raise files.empty_file(file, "no text")


def articles(path: Path) -> Iterator[str]:
    """Titles and abstracts of BioASQ's JSON, {"articles": [{"title": ..., "abstractText": ...}, ...]}, as a stream."""
    with opened_text(path, errors="latin-1") as stream:
        decode = json.JSONDecoder(object_pairs_hook=files.json_object).raw_decode
        buffer, count = stream.read(_BLOCK), 0
        start = _ARTICLES.match(buffer)
        fix = 'give a file {"articles": [{"title": ..., "abstractText": ...}, ...]}'
        if not start:
            problem = 'not BioASQ\'s JSON: it does not start with {"articles": ['
            raise DataError(problem, file=path.name, fix=fix)
        at = start.end()
        while True:
            at = _GAP.match(buffer, at).end()
            if buffer[at : at + 1] == "]":
                return
            try:
                article, end = decode(buffer, at)
            except ValueError:
                more = stream.read(_BLOCK) if len(buffer) - at < _LONGEST else ""
                if not more:
                    problem = f"not BioASQ's JSON: article {count + 1} is damaged, or the file is cut short"
                    raise DataError(problem, file=path.name, fix=fix) from None
                buffer, at = buffer[at:] + more, 0
                continue
            count, at = count + 1, end
            if isinstance(article, files.RepeatedField):
                raise DataError(f"article {count} {article.problem}", file=path.name, fix=files.KEEP_ONE)
            texts = (article.get(name) for name in ("title", "abstractText"))
            yield from (text.replace(MARK, "") for text in texts if isinstance(text, str))


class Tokenizer:
    """`sentence_tokens` in lower case of a sentence, several times faster: the tokens of a word are remembered.

    The Treebank's rules look at each word alone, but for the first one (quotes) and the last ones (the full stop).
    """

    def __init__(self):
        self._first, self._middle, self._last = {}, {}, {}

    def __call__(self, sentence: str) -> list[str]:
        words = sentence.replace("\0", " ").split()
        last = len(words) - 1
        while last > 0 and _CLOSERS.issuperset(words[last]):
            last -= 1
        if last < 1:
            return [token.lower() for token in sentence_tokens(" ".join(words))]
        found, known = list(self._pieces(self._first, words[0], "", " x")), self._middle
        for word in words[1:last]:
            found += known.get(word) or self._pieces(known, word, "x ", " x")
        found += self._pieces(self._last, " ".join(words[last:]), "x ", "")
        return found

    def _pieces(self, known, word, before, after):
        """Tokens of a word between these neighbours."""
        if word not in known:
            if len(known) >= _KEPT:
                known.clear()
            tokens = sentence_tokens(before + word + after)
            known[word] = tuple(token.lower() for token in tokens[bool(before) : len(tokens) - bool(after)])
        return known[word]


@dataclass(frozen=True)
class Settings:
    """How to train; the values are fastText's, but for `dim`, which is the paper's.

    method: fasttext (words and their character n-grams of 3 to 6) or word2vec (words alone). window: words to either
    side. buckets: of n-grams, at most as many as the text has tokens. threads: above 1 results vary.
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
        """Raises UsageError for a number that is not positive."""
        for name, value in vars(self).items():
            if not isinstance(value, str) and not value > 0:
                raise UsageError(f"{name} is {value}. Fix: give a number over 0.")


def pretrain(
    sentences: Iterable[Sequence[str]],
    out: Path,
    settings: Settings,
    *,
    initial: Path | None = None,
    corpus: dict | None = None,
) -> dict:
    """Trains vectors and writes them, and OUT.json with their sources, whose content is returned.

    Nothing is done where `out` is there, made of the same corpus with the same settings; any other is replaced.

    Args:
      sentences: tokens without white space; for the time of the training they are in a private folder beside `out`.
      out: NAME.bin, a fastText model, or NAME.vec, text.
      initial: vectors to start from, in any format of `load_vectors`, of the same dimension.
      corpus: facts about the text, plain values.
    """
    settings.check()
    library, out = _library_version(), Path(out)
    if out.suffix not in (".bin", ".vec"):
        raise UsageError(f"out is '{out.name}'. Fix: give a name that ends in .bin or .vec.")
    start, about = None, out.with_name(f"{out.name}.json")
    if initial is not None:  # reads and checks the whole file
        vectors = load_vectors(initial, SPECIALS, dim=settings.dim, seed=0)
        start = {"file": vectors.file, "sha256": vectors.sha256}
    key = {"settings": asdict(settings), "corpus": corpus or {}, "initial": start}
    if corpus and (facts := _finished(out, about, key)):
        files.say(f"{out.name} exists, made of the same text with the same settings.")
        return facts
    if out.exists():
        if not about.is_file():
            raise UsageError(f"{out}: exists, and this command did not make it. Fix: give another name.")
        files.warn(f"{out.name} exists, but of other text or settings, or damaged: it will be replaced")
    begun = time.monotonic()
    private_folder(out.parent)
    with files.scratch_folder(out) as scratch:
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
        files.write_json(about, facts)  # first: vectors without it would not be known as ours
        files.put_in_place(made, out)
    return facts


def _finished(out, about, key):
    """The facts of what is there, None where it is something else or damaged."""
    try:
        facts = json.loads(about.read_bytes())
        same = facts["key"] == json.loads(json.dumps(key)) and facts["sha256"] == sha256(out)
    except (OSError, ValueError, KeyError):
        return None
    return facts if same else None


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
    """Writes vectors of any format as text with a header; returns the number of words.

    Words with white space, which GloVe has, are left out: fastText cannot read them.
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


def _library_version() -> str:
    """Name and version of the fastText library."""
    try:
        import fasttext  # an extra that nothing else needs
    except ImportError:
        raise RunError("the fastText library is missing. Fix: pip install 'mednli_jax[embeddings]'.") from None
    name = metadata.packages_distributions()[fasttext.__name__][0]
    return f"{name} {metadata.version(name)}"


_WORKER = """
import fasttext, json, sys
try:
    fasttext.train_unsupervised(**json.loads(sys.argv[1])).save_model(sys.argv[2])
except (MemoryError, RuntimeError, ValueError) as error:
    print(repr(error))
"""


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
    command = [sys.executable, "-c", _WORKER, json.dumps(arguments), str(scratch / "model.bin")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if "Empty vocabulary" in done.stdout:
        problem = f"no word stands {settings.min_count} times in the text"
        raise UsageError(f"{problem}. Fix: lower min_count, or give more text.")
    if done.returncode < 0 or "bad_alloc" in done.stdout or "MemoryError" in done.stdout:
        problem = f"the training was ended from outside (signal {max(-done.returncode, 0)})"
        raise RunError(f"{problem}, most often for want of memory. Fix: lower buckets or dim, or give it more.")
    if done.stdout or done.returncode:
        raise RuntimeError(f"fastText: {done.stdout or done.returncode}")
