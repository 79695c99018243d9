"""500 words that occur nowhere else, corpora made of them, and a search for these words in all bytes."""

import base64
import gzip
import io
import json
import random
import re
import string
import struct
import zipfile
import zlib
from functools import cache
from pathlib import Path

import ahocorasick

LABELS = ("entailment", "neutral", "contradiction")
_draw = random.Random(500)
WORDS = tuple("qzxj" + "".join(_draw.choices(string.ascii_lowercase, k=8)) for _ in range(500))
_PREMISE, _HYPOTHESIS = WORDS[:362], WORDS[362:]
SENTENCE = " ".join(WORDS[:3])
_CONCEPTS = WORDS[0:60:3] + _HYPOTHESIS[0:60:3]
NAMES = frozenset((*_CONCEPTS, WORDS[70]))  # the names of concepts
SIZES = (("train", 60), ("dev", 18), ("test", 18))


# -- corpora -----------------------------------------------------------------------------------------------------------


def write_corpora(data: Path) -> None:
    """Writes mednli/, clicr/, own/ (pairs for DisKnE), and two ontologies whose names are words of these corpora."""
    write_pairs(data / "mednli")
    write_articles(data / "clicr")
    write_diseases(data / "own")
    rows = [f"Q{i}\t{name}\tC01{'.100' * (i % 4)}.{i:03}\t{name} {WORDS[70]}\n" for i, name in enumerate(_CONCEPTS)]
    (data / "own.tsv").write_text("id\tname\ttree_numbers\tsynonyms\n" + "".join(rows))
    terms = [f"[Term]\nid: Q:{i}\nname: {name}\n" + f"is_a: Q:{i - 1}\n" * bool(i) for i, name in enumerate(_CONCEPTS)]
    (data / "own.obo").write_text("format-version: 1.2\n\n" + "\n".join(terms))


def write_lines(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_pairs(folder: Path) -> None:
    """Writes pairs in MedNLI's layout. Every word occurs, and some words of hypotheses give their class away."""
    number = 0
    for split, size in SIZES:
        rows = []
        for i in range(size):
            words = [_PREMISE[(number // 3 * 12 + k) % len(_PREMISE)] for k in range(12)]
            own = [_HYPOTHESIS[(i % 3) * 46 + (number * 5 + k) % 46] for k in range(5)]
            texts = {"sentence1": f"{' '.join(words)} .", "sentence2": f"{own[0].capitalize()} {' '.join(own[1:])} ."}
            parses = {f"{name}_binary_parse": f"( {text} )" for name, text in texts.items()}
            rows.append({"pairID": f"{split}-{i}", "gold_label": LABELS[i % 3], **texts, **parses})
            number += 1
        write_lines(folder / f"mli_{split}_v1.jsonl", rows)


def write_diseases(folder: Path) -> None:
    """Writes a user's own pairs, each entailing one of four concepts of own.tsv, and their categories (kinds.tsv)."""
    for split, numbers in (("train", range(12)), ("dev", range(12, 16))):
        texts = [(f"{WORDS[90 + i]} seen .", f"patient has {WORDS[i % 4 * 3]}") for i in numbers]
        rows = [{"uid": f"{split}-{i}", "premise": premise, "hypothesis": hypothesis, "label": "entailment"}
                for i, (premise, hypothesis) in zip(numbers, texts, strict=True)]  # fmt: skip
        write_lines(folder / f"{split}.jsonl", rows)
        with open(folder / "kinds.tsv", "a") as kinds:
            kinds.write("".join(f"{row['uid']}\tsymptoms\n" for row in rows))


def write_articles(folder: Path) -> None:
    """Writes articles in CliCR's layout. Every word occurs in a passage, and queries ask for phrases of two words."""
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
            document = {"title": words[9], "context": f"{marked} .\n{' '.join(words[10:])} .", "qas": queries}
            articles.append({"source": f"{split}{number}", "document": document})
        (folder / f"{split}1.0.json").write_text(json.dumps({"version": "1.0", "data": articles}))


# -- the search --------------------------------------------------------------------------------------------------------


def found_in(data: bytes, depth: int = 0) -> set[str]:
    """The words that these bytes contain: in any case, in UTF-8, UTF-16 or base64, or in compressed parts."""
    found = _matches(_folded(), data.lower()) | _matches(_encoded(), data)
    for part in _parts(data) if depth < 3 else ():
        found |= found_in(part, depth + 1)
    return found


def _matches(automaton, data):
    return {word for _, word in automaton.iter(data.decode("latin-1"))}


def _automaton(forms):
    automaton = ahocorasick.Automaton()
    for word, form in forms:
        automaton.add_word(form.decode("latin-1"), word)
    automaton.make_automaton()
    return automaton


@cache
def _folded():
    return _automaton((word, word.encode(code)) for word in WORDS for code in ("utf-8", "utf-16-le", "utf-16-be"))


@cache
def _encoded():
    """Base64 forms of each word, one for each of the three offsets, without characters that neighbours change."""
    forms = []
    for word in WORDS:
        for form in (word, word.capitalize()):
            for skipped in range(3):
                text = base64.b64encode(bytes(skipped) + form.encode())
                forms.append((word, text[-(-8 * skipped // 6) : (8 * (skipped + len(form))) // 6]))
    return _automaton(forms)


def _parts(data):
    """The unpacked parts of a file: a gzip stream, the names and members of a zip archive, the texts of a picture."""
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    elif data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield archive.read(name)
    elif data[:8] == b"\x89PNG\r\n\x1a\n":
        place = 8
        while place < len(data):
            size, kind = struct.unpack(">I4s", data[place : place + 8])
            content = data[place + 8 : place + 8 + size]
            if kind == b"zTXt":
                yield zlib.decompress(content.partition(b"\0")[2][1:])
            elif kind == b"iTXt" and content.partition(b"\0")[2][:1] == b"\1":
                yield zlib.decompress(content.split(b"\0", 4)[-1])
            place += 12 + size


def leaks(folder: Path, allowed=()) -> dict[str, int]:
    """{file below the folder: number of the words in it or in its name}, without the files that `allowed` names.

    allowed: patterns of whole paths relative to the folder.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if any(re.fullmatch(pattern, name) for pattern in allowed):
            continue
        words = found_in(name.encode())
        if path.is_file():
            words |= found_in(path.read_bytes())
        if words:
            found[name] = len(words)
    return found


# -- a Python without network ------------------------------------------------------------------------------------------

DENIED = 97  # exit code of a process that asked for the network
# Every command runs this as its sitecustomize.py. It switches all logs on, and ends the process where Python or a C
# library opens a network socket. A socketpair of AF_UNIX is allowed: asyncio (for Orbax) wakes its own loop by it.
GUARD = f"""
import ctypes, logging, os, platform, socket, sys

logging.basicConfig(level=logging.DEBUG)

def deny(event, arguments):
    asked = event in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg") or (
        event.startswith(("socket.getaddrinfo", "socket.gethostby", "urllib", "http.client", "ftplib", "smtplib"))
        or (event == "socket.__new__" and arguments[1] != socket.AF_UNIX)
    )
    if asked:
        os.write(2, f"NETWORK {{event}}\\n".encode())
        os._exit({DENIED})

sys.addaudithook(deny)

class Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint)]

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.POINTER(Step))]

number = {{"x86_64": 41, "aarch64": 198}}.get(platform.machine())
if sys.platform == "linux" and number:
    allow, kill = 0x7FFF0000, 0x80000000  # seccomp: the call is socket(AF_INET or AF_INET6, ...)
    steps = [(0x20, 0, 0, 0), (0x15, 0, 4, number), (0x20, 0, 0, 16), (0x15, 3, 0, 2), (0x15, 2, 0, 10),
             (0x06, 0, 0, allow), (0x06, 0, 0, allow), (0x06, 0, 0, kill)]
    program = Program(len(steps), (Step * len(steps))(*[Step(*step) for step in steps]))
    libc = ctypes.CDLL(None, use_errno=True)
    denied = libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
    os.environ["NATIVE_SOCKETS"] = "denied" if denied else "unknown"
"""
