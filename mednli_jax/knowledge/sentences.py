"""Running text for training word vectors: sentences of plain text files and of BioASQ's JSON, as Treebank tokens.

Files are streamed: memory does not grow with them.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from mednli_jax.data.text import sentence_tokens
from mednli_jax.errors import DataError
from mednli_jax.io import byte_lines, decoded, empty_file, no_such_file, opened_text

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
