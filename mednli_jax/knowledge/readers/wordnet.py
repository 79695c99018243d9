"""Reader of WordNet's database files (wndb(5WN)): nouns and verbs, their hypernyms and other
pointers.

It reads data.noun, data.verb, index.noun and index.verb of WordNet 3.0, plain or gzipped, as
Princeton's archive has them in dict/ and the Debian package wordnet-base in /usr/share/wordnet;
other versions have the same layout. WordNet 3.0 Copyright 2006 by Princeton University; nothing of
it comes with this package.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mednli_jax.errors import Problems
from mednli_jax.files.reading import either_name, empty_file, line_fault, text_lines
from mednli_jax.files.writing import Digest
from mednli_jax.knowledge.ontology import (
    Edges,
    Graphs,
    Ontology,
    OntologyOptions,
    ReadEdges,
    graphs,
)
from mednli_jax.knowledge.readers.tables import all_there
from mednli_jax.terminal import say, warn

POS = {"noun": "n", "verb": "v"}
FURTHER_POS = {"adj": "a", "adv": "r"}
LETTERS = POS | FURTHER_POS
FILES = tuple(f"{kind}.{pos}" for pos in POS for kind in ("data", "index"))
EXCEPTIONS = {f"{pos}.exc": letter for pos, letter in LETTERS.items()}  # irregular forms
FOLDER = Path("/usr/share/wordnet")  # where Debian's package puts the files
HYPERNYMS = ("@", "@i")
# Pointers by name; those that only turn another one round (hyponyms, meronyms, domain members) are
# left out.
RELATIONS = {
    "!": "antonym",
    "#m": "member_of",
    "#s": "substance_of",
    "#p": "part_of",
    "*": "entails",
    ">": "causes",
    "^": "also_see",
    "$": "verb_group",
    "+": "derivation",
    "&": "similar_to",
    "=": "attribute",
    "\\": "pertains_to",
    ";c": "topic",
    ";r": "region",
    ";u": "usage",
}
# lexnames(5WN): the lexicographers' files by number.
_LEXICOGRAPHER_FILES = """
    adj.all adj.pert adv.all
    noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition
    noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive
    noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process noun.quantity
    noun.relation noun.shape noun.state noun.substance noun.time
    verb.body verb.change verb.cognition verb.communication verb.competition verb.consumption
    verb.contact verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social
    verb.stative verb.weather
    adj.ppl
"""
LEXICOGRAPHER_FILES = tuple(_LEXICOGRAPHER_FILES.split())
# Princeton's 3.0 says of these two verbs that each is a kind of the other; Debian's edition has the
# first edge no more.
_KNOWN_LOOP = ("inhibit", "restrain")
_MARKER = re.compile(r"\((?:a|p|ip)\)$")  # where an adjective may stand
_VERSION = re.compile(r"WordNet (\d[\d.]*) Copyright")
_OFFSET = re.compile(r"[0-9]{8}")


class _Synset(NamedTuple):
    """A line of a data file.

    Args:
      type: the lexicographer's file.
      pointers: (symbol, id of the target).
      is_satellite: whether it is a satellite adjective.
      line, file: its place.
    """

    id: str
    type: str
    words: list[str]
    pointers: list[tuple[str, str]]
    is_satellite: bool
    line: int
    file: str


@dataclass
class _Names:
    """The names of synsets, which are numbered in the order of the data files.

    Attributes:
      names: (word as its synset spells it, synset), as keys, the most frequent sense of a word
        first.
      senses: (lemma, synset) -> number of the sense.
    """

    names: dict[tuple[str, int], None] = field(default_factory=dict)
    senses: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, words: Iterable[str], synset: int) -> None:
        for word in words:
            self.names.setdefault((word, synset))


def read_wordnet(folder: Path, options: OntologyOptions) -> Ontology:
    """Reads the synsets of nouns and verbs.

    Ids are part of speech and offset ("n00001740"), types the lexicographer's file ("noun.body"),
    so that the prefixes "n" and "v" name the parts of speech. Is-a edges are hypernyms, also those
    of instances (Paris is-a city).

    Names stand in the order of the index files, a word's most frequent sense first: a name that
    several synsets have means the first of them. A synset's label is the first of its words that
    means this synset, else its first word with the number of its sense: "cold (noun 3)".

    With relations="all" the other pointers are stored, see RELATIONS; adjectives and adverbs are
    read if their files exist; and irregular forms ("men") become names of the synsets of their base
    form. Pointers between words, such as antonyms, hold here between the synsets of these words. A
    satellite adjective is-a its head: tiny is-a small.

    An official is-a loop of WordNet 3.0, between the verbs inhibit and restrain, is opened whatever
    `options` say.
    """
    take_all = options.relations == "all"
    paths = wordnet_files(folder)
    if take_all:
        paths |= further_files(folder)
    digest = hashlib.sha256(repr(options.relations).encode())
    letters = {pos: letter for pos, letter in LETTERS.items() if f"data.{pos}" in paths}
    synsets: list[_Synset] = []
    versions: list[str] = []
    for pos in letters:
        data = _read_data(paths[f"data.{pos}"], pos, digest)
        synsets += data.synsets
        versions += data.versions
    ids = tuple(synset.id for synset in synsets)
    index = {concept: place for place, concept in enumerate(ids)}
    names = _Names()
    for pos, letter in letters.items():
        _read_index(paths[f"index.{pos}"], letter, synsets, index, digest, names)
    for place, synset in enumerate(synsets):  # a word that the index lacks comes last
        names.add(synset.words, place)
    labels = tuple(_labels(synsets, names))
    for file, letter in EXCEPTIONS.items():
        if file in paths and letter in letters.values():
            _read_exceptions(paths[file], letter, synsets, digest, names)
    missing = [f"{pos}.exc" for pos in POS if f"{pos}.exc" not in paths]
    if take_all and missing:
        problem = f"without {' and '.join(missing)}, irregular forms (men) are not found"
        warn(f"{folder}: {problem}; copy it from dict/")
    parents, relations = _graphs(synsets, index, options, set(letters.values()))
    return Ontology(
        name="wordnet",
        version=versions[0] if versions else "unknown",
        ids=ids,
        labels=labels,
        names=tuple(names.names),
        parents=parents,
        sha256=digest.hexdigest(),
        types=tuple(synset.type for synset in synsets),
        relations=relations,
    )


def _file(folder: Path, name: str) -> Path | None:
    return either_name(folder / name) or either_name(folder / "dict" / name)


def wordnet_files(folder: Path) -> dict[str, Path]:
    """The four files by name."""
    fix = (
        f"install the package wordnet-base, which puts them into {FOLDER}, or unpack WordNet 3.0's"
        " dict/ folder into $MEDNLI_JAX_DATA/wordnet"
    )
    return all_there({name: _file(folder, name) for name in FILES}, folder, fix)


def further_files(folder: Path) -> dict[str, Path]:
    """The files of adjectives, adverbs and irregular forms that exist, by name. A part of speech
    has both its files or none."""
    groups = [[f"data.{pos}", f"index.{pos}"] for pos in FURTHER_POS]
    groups += [[name] for name in EXCEPTIONS]
    files: dict[str, Path] = {}
    for names in groups:
        paths = {name: path for name in names if (path := _file(folder, name))}
        if len(paths) == len(names):
            files |= paths
    return files


class _Data(NamedTuple):
    """The content of a data file. versions: of WordNet, as its licence names them."""

    synsets: list[_Synset]
    versions: list[str]


def _read_data(path: Path, pos: str, digest: Digest) -> _Data:
    data, problems = _Data([], []), Problems()
    for number, line in text_lines(path, digest=digest):
        if line.startswith("  "):  # the licence
            data.versions.extend(_VERSION.findall(line))
            continue
        try:
            data.synsets.append(_synset(line, pos, number, path.name))
        except (ValueError, IndexError):
            problem = "the line is not a synset in the layout of wndb(5WN)"
            problems.add(line_fault(path.name, number, problem))
    problems.raise_if_any()
    if not data.synsets:
        raise empty_file(path, "no synsets")
    return data


def _synset(line: str, pos: str, number: int, path_name: str) -> _Synset:
    """Reads the synset of a line. Raises ValueError or IndexError if the line is not a synset:

    offset lex_filenum ss_type w_cnt {word lex_id} p_cnt {symbol offset pos source/target} [frames]
    | gloss
    """
    columns, bar, _ = line.partition(" | ")
    fields, letter = columns.split(), LETTERS[pos]
    offset, file_number, synset_type, word_count = fields[:4]
    file = LEXICOGRAPHER_FILES[int(file_number)]
    types = ("a", "s") if letter == "a" else (letter,)
    if not bar or synset_type not in types or not file.startswith(pos):
        raise ValueError
    end = 4 + 2 * int(word_count, 16)
    words = [_MARKER.sub("", word).replace("_", " ") for word in fields[4:end:2]]
    first, end = end + 1, end + 1 + 4 * int(fields[end])
    if not words or end > len(fields):
        raise ValueError
    pointers = []
    for place in range(first, end, 4):
        symbol, target, pos_of_target, _ = fields[place : place + 4]
        pointers.append((symbol, _id(pos_of_target, target)))
    is_satellite = synset_type == "s"
    return _Synset(_id(letter, offset), file, words, pointers, is_satellite, number, path_name)


def _id(letter: str, offset: str) -> str:
    """The id of a synset; a satellite adjective ("s") counts as an adjective."""
    if letter not in ("n", "v", "a", "s", "r") or not _OFFSET.fullmatch(offset):
        raise ValueError
    return ("a" if letter == "s" else letter) + offset


def _read_index(
    path: Path,
    letter: str,
    synsets: Sequence[_Synset],
    index: Mapping[str, int],
    digest: Digest,
    names: _Names,
) -> None:
    """Adds the words of an index file."""
    problems = Problems()
    for number, line in text_lines(path, digest=digest):
        if line.startswith("  "):
            continue
        try:
            lemma, concepts = _entry(line, letter)
        except (ValueError, IndexError):
            problem = "the line is not an entry in the layout of wndb(5WN)"
            problems.add(line_fault(path.name, number, problem))
            continue
        for sense, concept in enumerate(concepts, start=1):
            if concept not in index:
                problem = f"the entry names {concept}, which is not there"
                problems.add(line_fault(path.name, number, problem, _ONE_EDITION))
                continue
            place = index[concept]
            words = [word for word in synsets[place].words if word.lower() == lemma]
            names.senses[lemma, place] = sense
            names.add(words, place)
    problems.raise_if_any()


_ONE_EDITION = "take index and data files from one edition"


def _entry(line: str, letter: str) -> tuple[str, list[str]]:
    """Reads (lemma, ids of its synsets, the most frequent sense first). Raises ValueError or
    IndexError if the line is not an entry:

    lemma pos synset_cnt p_cnt {symbol} sense_cnt tagsense_cnt {offset}
    """
    fields = line.split()
    count, symbols = int(fields[2]), int(fields[3])
    concepts = [_id(letter, offset) for offset in fields[6 + symbols :]]
    if fields[1] != letter or not count or len(concepts) != count:
        raise ValueError
    return fields[0].replace("_", " "), concepts


def _read_exceptions(
    path: Path, letter: str, synsets: Sequence[_Synset], digest: Digest, names: _Names
) -> None:
    """Adds each irregular form as the last name of each sense of its base form.

    A line is a form and its base forms.
    """
    places: dict[str, list[int]] = {}
    for word, place in names.names:
        if synsets[place].id[0] == letter:
            places.setdefault(word.lower(), []).append(place)
    for _, line in text_lines(path, digest=digest):
        forms = [word.replace("_", " ") for word in line.split()]
        for base_form in forms[1:]:
            for place in places.get(base_form, ()):
                names.add(forms[:1], place)


def _labels(synsets: Sequence[_Synset], names: _Names) -> Iterator[str]:
    """Yields the labels that `read_wordnet` describes. Case does not count, as in linking."""
    meaning: dict[str, int] = {}
    for word, place in names.names:
        meaning.setdefault(word.lower(), place)
    for place, synset in enumerate(synsets):
        first = synset.words[0]
        pos, _, _ = synset.type.partition(".")
        sense = names.senses.get((first.lower(), place), 0)
        unique = (word for word in synset.words if meaning[word.lower()] == place)
        yield next(unique, f"{first} ({pos} {sense})")


def _graphs(
    synsets: Sequence[_Synset],
    index: Mapping[str, int],
    options: OntologyOptions,
    letters: set[str],
) -> Graphs:
    """Builds the graphs of the synsets' pointers. letters: of the parts of speech that are read."""
    problems = Problems()
    is_a, other_edges = [], []
    kinds = list(RELATIONS.values())
    for place, synset in enumerate(synsets):
        for symbol, target in synset.pointers:
            is_hypernym = symbol in HYPERNYMS
            is_taken = options.relations == "all" and symbol in RELATIONS and target[0] in letters
            if not is_hypernym and not is_taken:
                continue
            if target not in index:
                problem = f"a pointer '{symbol}' leads to {target}, which is not there"
                problems.add(line_fault(synset.file, synset.line, problem))
                continue
            if is_hypernym or (symbol == "&" and synset.is_satellite):
                is_a.append((place, index[target], synset.line, 0))
            if not is_hypernym:
                kind = kinds.index(RELATIONS[symbol])
                other_edges.append((place, index[target], synset.line, kind))
    problems.raise_if_any()
    edges = ReadEdges(Edges(_without_loop(synsets, is_a)), Edges(other_edges), kinds)
    return graphs(edges, len(synsets), options, lambda child: synsets[child].file)


def _without_loop(
    synsets: Sequence[_Synset], is_a: list[tuple[int, int, int, int]]
) -> list[tuple[int, int, int, int]]:
    """The edges without the wrong one of the known loop, if both of its edges are there."""
    ends = [(synsets[child].words[0], synsets[parent].words[0]) for child, parent, *_ in is_a]
    if _KNOWN_LOOP not in ends or _KNOWN_LOOP[::-1] not in ends:
        return is_a
    child, parent = _KNOWN_LOOP
    say(f"WordNet: left out that {child} is-a {parent}, a known loop of version 3.0")
    return [edge for edge, words in zip(is_a, ends, strict=True) if words != _KNOWN_LOOP]
