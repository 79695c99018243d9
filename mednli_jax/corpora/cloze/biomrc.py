"""BIOMRC (Pappas et al. 2020): abstracts with numbered entities, and their titles as queries.

A file is one JSON object of four lists of equal length: `abstracts`; `titles`, with XXXX for the answer;
`entities_list`; `answers`. In setting A an entity is "@entity3 :: ('concept', 'type') :: ['its words', ...]", in
setting B it is "@entity3" alone; in the texts it stands as @entity3.
"""

import ast
import re
from pathlib import Path

from mednli_jax.corpora.cloze.files import BrokenJSON, Node, Scanner, split_files
from mednli_jax.corpora.cloze.views import ENTITY
from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import PLACEHOLDER, Answer, ClozeExample, Entity, Passage, Split
from mednli_jax.files import sha256
from mednli_jax.text import sentence_tokens
from mednli_jax.textfiles import either_name, empty_file, opened_text

FILES = {"train": "dataset_train{}.json", "dev": "dataset_val{}.json", "test": "dataset_test{}.json"}
RELEASES = ("", "_B", "_small", "_small_B")  # large and small (Lite), each in settings A and B
SOURCE = "download it, see github.com/PetrosStav/BioMRC_code"
LISTS = ("abstracts", "titles", "entities_list", "answers")
BLANK = "XXXX"
_MARKS = re.compile(rf"({ENTITY}\d+|{BLANK})")
MAX_NAMES = 1 << 16  # longest text of an entity, in characters
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z@(\[])")


def load(folder: Path, *, limit: int | None = None) -> dict[str, Split]:
    """Train, dev and test of the release in a folder, which must be the only one.

    Args:
      folder: the corpus's own folder, or the data folder ($MEDNLI_JAX_DATA) that holds it as biomrc/.
      limit: number of queries of train that are kept; dev and test are always complete.

    Raises: DataError(s) for missing or bad files, and for files of several releases.
    """
    files = source_files(folder)
    return {split: read_biomrc(path, split, limit if split == "train" else None) for split, path in files.items()}


def source_files(folder: Path) -> dict[str, Path]:
    """split -> its file, plain or gzipped. Raises: DataError(s) for missing ones."""
    folder = Path(folder)
    places = (folder, folder / "biomrc")
    found = [
        release
        for release in RELEASES
        if any(either_name(place / name.format(release)) for place in places for name in FILES.values())
    ]
    if len(found) > 1:
        what = f"holds files of {len(found)} releases of BIOMRC"
        raise DataError(what, file=folder.name, fix="keep the files of one release in the folder")
    release = found[0] if found else ""
    return split_files(folder, "biomrc", {split: name.format(release) for split, name in FILES.items()}, SOURCE)


def read_biomrc(path: Path, split: str, limit: int | None = None) -> Split:
    """Reads one file; an entity becomes its first name, further names of the answer are its synonyms.

    limit: number of queries that are read. uid: "<file stem>:<place from 0>". Raises: DataError(s).
    """
    path = either_name(Path(path)) or Path(path)
    lists = _lists(path)
    stem = Path(path.name.removesuffix(".gz")).stem
    problems, examples = Problems(), []
    for number, values in enumerate(zip(*(lists[name][:limit] for name in LISTS), strict=True)):
        try:
            examples.append(_query(path.name, number, f"{stem}:{number}", values))
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    if not examples:
        raise empty_file(path, "no query")
    bare = sum(not example.passage.entities for example in examples)
    facts = {"file": path.name, "sha256": sha256(path), "queries": len(examples), "queries_without_candidates": bare}
    return Split(split, tuple(examples), facts)


def _lists(path):
    top, lists = Node(path.name, "", {}), {}
    try:
        with opened_text(path) as stream:
            scanner = Scanner(stream)
            for key in scanner.fields():
                lists[key] = [scanner.value() for _ in scanner.items()]
            scanner.end()
    except BrokenJSON:
        raise top.fault("the file is not a JSON object of lists, or cut short") from None
    for name in LISTS:
        if name not in lists:
            raise top.fault("is missing", name)
    if len({len(lists[name]) for name in LISTS}) > 1:
        raise top.fault(f"{', '.join(LISTS)} are not of equal length")
    return lists


def _query(file, number, uid, values):
    node = Node(file, "", {})
    for name, value in zip(LISTS, values, strict=True):
        kind = list if name == "entities_list" else str
        place = f"{name}[{number}]"
        if not isinstance(value, kind) or (kind is list and not all(isinstance(entity, str) for entity in value)):
            raise node.fault(f"is not {'a list of strings' if kind is list else 'a string'}", place)
        if kind is str:
            node.checked(place, value)
    abstract, title, entities, answer = values
    try:
        known = dict(map(_entity, [*entities, answer]))
    except ValueError:
        place = f"entities_list[{number}]"
        raise node.fault("holds an entity that is not 'token :: (id, type) :: [names]'", place) from None
    names = {token: names[0] for token, (_, _, names) in known.items()}
    tokens, found, ends = _text(node, f"abstracts[{number}]", abstract, names)
    query, query_entities, _ = _text(node, f"titles[{number}]", title, names)
    if query.count(PLACEHOLDER) != 1:
        what = f"holds {query.count(PLACEHOLDER)} of {BLANK}, expected one"
        raise node.fault(what, f"titles[{number}]", "correct or remove the query")
    concept, kind, texts = known[_entity(answer)[0]]
    answers = tuple(Answer(text, concept, kind, "UMLS" if place else "dataset") for place, text in enumerate(texts))
    blank = query.index(PLACEHOLDER)
    return ClozeExample(uid, Passage(uid, (), tokens, found, ends), query, query_entities, blank, answers)


def _entity(text):
    """(token, (concept, type, names)); the names default to the token. Raises: ValueError."""
    if len(text) > MAX_NAMES:
        raise ValueError
    token, *parts = (part.strip() for part in text.split(" :: "))
    try:
        parts = [ast.literal_eval(part) for part in parts]
    except (SyntaxError, TypeError, RecursionError, MemoryError):
        raise ValueError from None
    names = [
        name for part in parts if isinstance(part, list) for name in part if isinstance(name, str) and name.split()
    ]
    about = next((tuple(map(str, part)) for part in parts if isinstance(part, tuple)), ())
    concept, kind = (*about, "", "")[:2]
    if not token.startswith(ENTITY) or any("\0" in name for name in names):
        raise ValueError
    "".join((concept, kind, *names)).encode()  # raises ValueError for half a surrogate pair
    return token, (concept, kind, names or [token])


def _text(node, place, text, names):
    """(tokens with entities by name, entities, sentence ends) of an abstract or a title."""
    tokens, entities, ends = [], [], []
    for sentence in _SENTENCE.split(text):
        for number, piece in enumerate(_MARKS.split(sentence)):
            if number % 2 == 0:
                tokens += sentence_tokens(piece)
            elif piece == BLANK:
                tokens.append(PLACEHOLDER)
            elif piece not in names:
                raise node.fault("names an entity that is not in entities_list", place)
            else:
                start = len(tokens)
                tokens += names[piece].split()
                entities.append(Entity(start, len(tokens)))
        if len(tokens) > (ends[-1] if ends else 0):
            ends.append(len(tokens))
    return tuple(tokens), tuple(entities), tuple(ends)
