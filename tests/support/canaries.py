"""500 words that occur nowhere else, corpora made of them, and a search for these words in the
bytes of files.
"""

import gzip
import json
import random
import re
import string
import zipfile
from functools import cache
from pathlib import Path

import ahocorasick

from support.pair_files import official, write_rows

LABELS = ("entailment", "neutral", "contradiction")
_draw = random.Random(500)
WORDS = tuple("qzxj" + "".join(_draw.choices(string.ascii_lowercase, k=8)) for _ in range(500))
_PREMISE, _HYPOTHESIS = WORDS[:362], WORDS[362:]
SENTENCE = " ".join(WORDS[:3])
_CONCEPTS = WORDS[0:60:3] + _HYPOTHESIS[0:60:3]
NAMES = frozenset((*_CONCEPTS, WORDS[70]))  # the names of concepts
SIZES = (("train", 60), ("dev", 18), ("test", 18))


def write_corpora(data: Path) -> None:
    """Writes mednli/, clicr/, own/ (pairs for DisKnE), and an ontology whose names are words of
    these corpora."""
    write_pairs(data / "mednli")
    write_articles(data / "clicr")
    write_diseases(data / "own")
    rows = [
        f"Q{i}\t{name}\tC01{'.100' * (i % 4)}.{i:03}\t{name} {WORDS[70]}\n"
        for i, name in enumerate(_CONCEPTS)
    ]
    (data / "own.tsv").write_text("id\tname\ttree_numbers\tsynonyms\n" + "".join(rows))


def write_pairs(folder: Path) -> None:
    """Writes pairs in MedNLI's layout. Every word occurs, and some words of hypotheses give their
    class away."""
    number = 0
    for split, size in SIZES:
        rows = []
        for i in range(size):
            words = [_PREMISE[(number // 3 * 12 + k) % len(_PREMISE)] for k in range(12)]
            own = [_HYPOTHESIS[(i % 3) * 46 + (number * 5 + k) % 46] for k in range(5)]
            texts = f"{' '.join(words)} .", f"{own[0].capitalize()} {' '.join(own[1:])} ."
            rows.append(official(f"{split}-{i}", LABELS[i % 3], *texts))
            number += 1
        write_rows(folder / f"mli_{split}_v1.jsonl", rows)


def write_diseases(folder: Path) -> None:
    """Writes a user's own pairs, each entailing one of four concepts of own.tsv, and their
    categories (kinds.tsv)."""
    for split, numbers in (("train", range(12)), ("dev", range(12, 16))):
        texts = [
            {"premise": f"{WORDS[90 + i]} seen .", "hypothesis": f"patient has {WORDS[i % 4 * 3]}"}
            for i in numbers
        ]
        rows = [
            {"uid": f"{split}-{i}", **text, "label": "entailment"}
            for i, text in zip(numbers, texts, strict=True)
        ]
        write_rows(folder / f"{split}.jsonl", rows)
        with open(folder / "kinds.tsv", "a") as kinds:
            kinds.write("".join(f"{row['uid']}\tsymptoms\n" for row in rows))


def write_articles(folder: Path) -> None:
    """Writes articles in CliCR's layout. Every word occurs in a passage, and queries ask for
    phrases of two words."""
    folder.mkdir(parents=True)
    for split, first, count in (("train", 0, 6), ("dev", 6, 3), ("test", 9, 3)):
        articles = []
        for number in range(count):
            words = WORDS[(first + number) * 42 : (first + number + 1) * 42]
            phrases = [" ".join(words[k : k + 2]) for k in (0, 2, 4)]
            marked = " and ".join(f"BEG__{phrase}__END" for phrase in phrases)
            queries = []
            for k, phrase in enumerate(phrases):
                answer = {"text": phrase, "cui": "C1", "sem_type": "problem", "origin": "dataset"}
                query = f"{words[6 + k]} had @placeholder ."
                queries.append({"id": f"{split}{number}.{k}", "query": query, "answers": [answer]})
            document = {
                "title": words[9],
                "context": f"{marked} .\n{' '.join(words[10:])} .",
                "qas": queries,
            }
            articles.append({"source": f"{split}{number}", "document": document})
        (folder / f"{split}1.0.json").write_text(json.dumps({"version": "1.0", "data": articles}))


@cache
def _automaton():
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
            return b"".join(archive.read(name) for name in archive.namelist())
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def leaks(folder: Path, allowed=()) -> dict[str, int]:
    """{file below the folder: number of the words in it or in its name}, without the files that
    `allowed` names.

    allowed: patterns of whole paths relative to the folder.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if any(re.fullmatch(pattern, name) for pattern in allowed):
            continue
        words = words_in(name.encode()) | (words_in(content(path)) if path.is_file() else set())
        if words:
            found[name] = len(words)
    return found
