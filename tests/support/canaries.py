"""500 words that occur nowhere else, corpora made of them, and a search for these words in the
bytes of files."""

import gzip
import random
import re
import string
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import ahocorasick

from mednli_jax.data.examples import LABELS
from support.cloze import clicr_query, mark, write_split
from support.pair_files import official, write_rows

_rng = random.Random(500)
WORDS = tuple("qzxj" + "".join(_rng.choices(string.ascii_lowercase, k=8)) for _ in range(500))
SENTENCE = " ".join(WORDS[:3])
_PREMISE = WORDS[:362]
_HYPOTHESIS = WORDS[362:]
_CONCEPTS = WORDS[0:60:3] + _HYPOTHESIS[0:60:3]
NAMES = frozenset((*_CONCEPTS, WORDS[70]))  # the names of concepts
SIZES = (
    ("train", 60),
    ("dev", 18),
    ("test", 18),
)


# ---- corpora ----


def phrase(words: Sequence[str], start: int, count: int) -> str:
    """`count` words from `start` on; the first follows the last."""
    return " ".join(words[(start + n) % len(words)] for n in range(count))


def write_corpora(data: Path) -> None:
    """Writes mednli/, clicr/, own/ (pairs for DisKnE), and an ontology whose names are words of
    these corpora."""
    write_pairs(data / "mednli")
    write_articles(data / "clicr")
    write_diseases(data / "own")
    rows = ["id\tname\ttree_numbers\tsynonyms\n"]
    for n, name in enumerate(_CONCEPTS):
        # Four diseases are unrelated; each further concept is-a the one before it.
        tree = f"C01.{n:03}" if n < 4 else f"C02{'.100' * (n - 4)}"
        rows.append(f"Q{n}\t{name}\t{tree}\t{name} {WORDS[70]}\n")
    (data / "own.tsv").write_text("".join(rows))


def write_pairs(folder: Path) -> None:
    """Writes pairs in MedNLI's layout. Every word occurs, and some words of hypotheses give their
    class away."""
    number = 0
    for split, size in SIZES:
        rows = []
        for n in range(size):
            words_of_class = _HYPOTHESIS[n % 3 * 46 :][:46]
            premise = phrase(_PREMISE, number // 3 * 12, 12)
            hypothesis = phrase(words_of_class, number * 5, 5).capitalize()
            rows.append(official(f"{split}-{n}", LABELS[n % 3], f"{premise} .", f"{hypothesis} ."))
            number += 1
        write_rows(folder / f"mli_{split}_v1.jsonl", rows)


def write_diseases(folder: Path) -> None:
    """Writes a user's own pairs, each naming one of four concepts of own.tsv in both texts."""
    for split, numbers in (("train", range(12)), ("dev", range(12, 16))):
        rows = []
        for n in numbers:
            disease = WORDS[n % 4 * 3]
            premise = f"{WORDS[90 + n]} and {disease} ."
            hypothesis = f"patient has {disease}"
            texts = {"premise": premise, "hypothesis": hypothesis}
            rows.append({"uid": f"{split}-{n}", **texts, "label": "entailment"})
        write_rows(folder / f"{split}.jsonl", rows)


def write_articles(folder: Path) -> None:
    """Writes articles in CliCR's layout. Every word occurs in a passage, and queries ask for
    phrases of two words."""
    for split, first, count in (
        ("train", 0, 6),
        ("dev", 6, 3),
        ("test", 9, 3),
    ):
        documents = []
        for number in range(count):
            words = WORDS[(first + number) * 42 :][:42]
            queries = []
            marked = []
            for n in range(3):
                answer = " ".join(words[2 * n :][:2])
                marked.append(mark(answer))
                text = f"{words[6 + n]} had @placeholder ."
                queries.append(clicr_query(f"{split}{number}.{n}", text, answer))
            context = f"{' and '.join(marked)} .\n{' '.join(words[10:])} ."
            documents.append({"title": words[9], "context": context, "qas": queries})
        write_split(folder, split, documents)


# ---- search ----


@cache
def _automaton() -> ahocorasick.Automaton:
    automaton = ahocorasick.Automaton()
    for word in WORDS:
        for code in ("utf-8", "utf-16-le"):
            automaton.add_word(word.encode(code).decode("latin-1"), word)
    automaton.make_automaton()
    return automaton


def words_in(data: bytes) -> set[str]:
    """The words that these bytes contain, in any case, in UTF-8 or UTF-16."""
    return {word for _, word in _automaton().iter(data.lower().decode("latin-1"))}


def content(path: Path) -> bytes:
    """The bytes of a file; those of a gzipped file and of an archive are unpacked."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return b"".join(map(archive.read, archive.namelist()))
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def leaks(folder: Path, allowed: Sequence[str] = ()) -> dict[str, int]:
    """{file below the folder: number of the words in it or in its name}.

    allowed: patterns of the paths, relative to the folder, that are left out.
    """
    leaking = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not any(re.fullmatch(pattern, name) for pattern in allowed):
            words = words_in(name.encode() + (content(path) if path.is_file() else b""))
            if words:
                leaking[name] = len(words)
    return leaking
