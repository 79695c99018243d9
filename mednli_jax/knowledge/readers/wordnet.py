"""Reader of WordNet's database files (wndb(5WN)): nouns and verbs, their hypernyms and other
pointers.

Read are data.noun, data.verb, index.noun and index.verb of WordNet 3.0, plain or gzipped, as
Princeton's archive has them in dict/ and the Debian package wordnet-base in /usr/share/wordnet;
other versions have the same layout. WordNet 3.0 Copyright 2006 by Princeton University; nothing of
it comes with this package.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from mednli_jax.errors import DataError, Problems
from mednli_jax.files import FRESH_COPY, either_name, empty_file, line_fault, text_lines
from mednli_jax.knowledge.ontology import (
    DROPPED_CYCLES,
    Edges,
    Ontology,
    OntologyOptions,
    ReadEdges,
    graphs,
)
from mednli_jax.knowledge.readers.tables import all_there
from mednli_jax.terminal import say, warn

PARTS = {"noun": "n", "verb": "v"}
FURTHER_PARTS = {"adj": "a", "adv": "r"}
LETTERS = PARTS | FURTHER_PARTS
FILES = tuple(f"{kind}.{part}" for part in PARTS for kind in ("data", "index"))
EXCEPTIONS = {f"{part}.exc": letter for part, letter in LETTERS.items()}  # irregular forms
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
LEXICOGRAPHER_FILES = (
    *(
        "adj.all",
        "adj.pert",
        "adv.all",
        "noun.Tops",
        "noun.act",
        "noun.animal",
        "noun.artifact",
        "noun.attribute",
    ),
    *(
        "noun.body",
        "noun.cognition",
        "noun.communication",
        "noun.event",
        "noun.feeling",
        "noun.food",
        "noun.group",
    ),
    *(
        "noun.location",
        "noun.motive",
        "noun.object",
        "noun.person",
        "noun.phenomenon",
        "noun.plant",
    ),
    *(
        "noun.possession",
        "noun.process",
        "noun.quantity",
        "noun.relation",
        "noun.shape",
        "noun.state",
    ),
    *(
        "noun.substance",
        "noun.time",
        "verb.body",
        "verb.change",
        "verb.cognition",
        "verb.communication",
    ),
    *(
        "verb.competition",
        "verb.consumption",
        "verb.contact",
        "verb.creation",
        "verb.emotion",
        "verb.motion",
    ),
    *(
        "verb.perception",
        "verb.possession",
        "verb.social",
        "verb.stative",
        "verb.weather",
        "adj.ppl",
    ),
)
# Princeton's 3.0 says of these two verbs that each is a kind of the other; Debian's edition has the
# first edge no more.
_KNOWN_LOOP = ("inhibit", "restrain")
_MARKER = re.compile(r"\((?:a|p|ip)\)$")  # where an adjective may stand
_VERSION = re.compile(r"WordNet (\d[\d.]*) Copyright")


@dataclass
class _Synsets:
    """Synsets in the order of the files: concept c is ids[c]."""

    ids: list[str] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    pointers: list[tuple[int, str, str, int, str]] = field(
        default_factory=list
    )  # from, symbol, target, line, file
    satellites: set[int] = field(default_factory=set)
    version: str = ""


def read_wordnet(folder: Path, options: OntologyOptions) -> Ontology:
    """The synsets of nouns and verbs.

    Ids are part of speech and offset ("n00001740"), types the lexicographer's file ("noun.body"),
    so that the prefixes "n" and "v" name the parts of speech. Is-a are hypernyms, those of
    instances (Paris is-a city) included.

    Names stand in the order of the index files, a word's most frequent sense first: a name that
    several synsets have means the first of them. A synset's label is the first of its words that
    means this synset, else its first word with the number of its sense: "cold (noun 3)".

    With relations="all" the other pointers are kept, see RELATIONS, adjectives and adverbs are read
    where their files are there, and irregular forms ("men") become names of the synsets of their
    base form. Pointers between words, such as antonyms, hold here between the synsets of these
    words. A satellite adjective is-a its head: tiny is-a small.

    An official is-a loop of WordNet 3.0, between the verbs inhibit and restrain, is opened whatever
    `options` say.
    """
    paths = wordnet_files(Path(folder)) | (
        further_files(Path(folder)) if options.relations == "all" else {}
    )
    digest = hashlib.sha256(repr((options.relations, DROPPED_CYCLES)).encode())
    parts = {part: letter for part, letter in LETTERS.items() if f"data.{part}" in paths}
    synsets = _Synsets()
    for part in parts:
        _read_data(paths[f"data.{part}"], part, synsets, digest)
    index = {concept: place for place, concept in enumerate(synsets.ids)}
    names, senses = {}, {}
    for part, letter in parts.items():
        _read_index(paths[f"index.{part}"], letter, synsets, index, digest, names, senses)
    for place, words in enumerate(synsets.words):  # a word that the index lacks comes last
        names |= dict.fromkeys((word, place) for word in words if (word, place) not in names)
    labels = tuple(_labels(synsets, names, senses))
    for name, letter in EXCEPTIONS.items():
        if name in paths and letter in parts.values():
            _read_exceptions(paths[name], letter, synsets, digest, names)
    lacking = [
        f"{part}.exc" for part in PARTS if options.relations == "all" and f"{part}.exc" not in paths
    ]
    if lacking:
        warn(
            f"{folder}: without {' and '.join(lacking)}, irregular forms (men) are not found; copy it from dict/"
        )
    is_a, others = _edges(synsets, index, options, tuple(parts.values()))
    return Ontology(
        name="wordnet",
        version=synsets.version or "unknown",
        ids=tuple(synsets.ids),
        labels=labels,
        names=tuple(names),
        parents=is_a,
        sha256=digest.hexdigest(),
        types=tuple(synsets.types),
        relations=others,
    )


def wordnet_files(folder: Path) -> dict[str, Path]:
    """The four files by name."""
    fix = f"install the package wordnet-base, which puts them into {FOLDER}, or unpack WordNet 3.0's dict/ folder"
    found = {
        name: either_name(folder / name) or either_name(folder / "dict" / name) for name in FILES
    }
    return all_there(found, folder, f"{fix} into $MEDNLI_JAX_DATA/wordnet")


def further_files(folder: Path) -> dict[str, Path]:
    """The files of adjectives, adverbs and irregular forms that are there, by name; of a part both
    files or none."""
    pairs = [(f"data.{part}", f"index.{part}") for part in FURTHER_PARTS]
    found = {}
    for names in (*pairs, *((name,) for name in EXCEPTIONS)):
        paths = {
            name: either_name(folder / name) or either_name(folder / "dict" / name)
            for name in names
        }
        found |= paths if all(paths.values()) else {}
    return found


def _read_data(path, part, synsets, digest):
    problems, before = Problems(), len(synsets.ids)
    for number, line in text_lines(path, digest=digest):
        if line.startswith("  "):  # the licence
            if not synsets.version and (match := _VERSION.search(line)):
                synsets.version = match[1]
            continue
        try:
            concept, kind, words, pointers, satellite = _synset(line, part)
        except (ValueError, IndexError):
            problem = "the line is not a synset in the layout of wndb(5WN)"
            problems.add(line_fault(path.name, number, problem))
            continue
        place = len(synsets.ids)
        synsets.ids.append(concept)
        synsets.words.append(words)
        synsets.types.append(kind)
        synsets.satellites |= {place} if satellite else set()
        synsets.pointers += (
            (place, symbol, target, number, path.name) for symbol, target in pointers
        )
    problems.raise_if_any()
    if len(synsets.ids) == before:
        raise empty_file(path, "no synsets")


def _synset(line, part):
    """(id, type, words, [(symbol, id of the target)], whether it is a satellite) of a line;
    ValueError or IndexError where it is none.

    offset lex_filenum ss_type w_cnt {word lex_id} p_cnt {symbol offset pos source/target} [frames]
    | gloss
    """
    given, bar, _ = line.partition(" | ")
    fields, letter = given.split(), LETTERS[part]
    if not bar or fields[2] not in (("a", "s") if letter == "a" else letter):
        raise ValueError
    kind = LEXICOGRAPHER_FILES[int(fields[1])]
    if not kind.startswith(part):
        raise ValueError
    end = 4 + 2 * int(fields[3], 16)
    words = [_MARKER.sub("", word).replace("_", " ") for word in fields[4:end:2]]
    stop = end + 1 + 4 * int(fields[end])
    rest = fields[stop:]
    # Frames of verbs are a number and that many times "+ f_num w_num".
    if (
        not words
        or stop > len(fields)
        or (rest and (letter != "v" or len(rest) != 1 + 3 * int(rest[0])))
    ):
        raise ValueError
    columns = (fields[place:stop:4] for place in (end + 1, end + 2, end + 3))
    pointers = [(symbol, _id(part, offset)) for symbol, offset, part in zip(*columns, strict=True)]
    return _id(letter, fields[0]), kind, words, pointers, fields[2] == "s"


def _id(part, offset):
    if part not in ("n", "v", "a", "s", "r") or not re.fullmatch(r"[0-9]{8}", offset):
        raise ValueError
    return ("a" if part == "s" else part) + offset


def _read_index(path, letter, synsets, index, digest, names, senses):
    """Adds to `names` each (word as its synset spells it, synset), and the number of the sense to
    `senses`.

    lemma pos synset_cnt p_cnt {symbol} sense_cnt tagsense_cnt {offset}
    """
    problems = Problems()
    for number, line in text_lines(path, digest=digest):
        if line.startswith("  "):
            continue
        fields = line.split()
        try:
            count, symbols = int(fields[2]), int(fields[3])
            concepts = [_id(letter, offset) for offset in fields[6 + symbols :]]
            if fields[1] != letter or not count or len(concepts) != count:
                raise ValueError
        except (ValueError, IndexError):
            problem = "the line is not an entry in the layout of wndb(5WN)"
            problems.add(line_fault(path.name, number, problem))
            continue
        lemma = fields[0].replace("_", " ")
        for sense, concept in enumerate(concepts, start=1):
            place = index.get(concept)
            spelled = (
                []
                if place is None
                else [word for word in synsets.words[place] if word.lower() == lemma]
            )
            if not spelled:
                problem = f"the entry names {concept}, " + (
                    "which is not there" if place is None else "which lacks it"
                )
                problems.add(
                    line_fault(
                        path.name, number, problem, "take index and data files from one edition"
                    )
                )
            senses[lemma, place] = sense
            names.update(dict.fromkeys((word, place) for word in spelled))
    problems.raise_if_any()


def _read_exceptions(path, letter, synsets, digest, names):
    """Adds to `names` each (irregular form, synset of its base form), last, for each sense of the
    base form.

    A line is a form and its base forms.
    """
    places = {}
    for word, place in names:
        if synsets.ids[place][0] == letter:
            places.setdefault(word.lower(), []).append(place)
    for _, line in text_lines(path, digest=digest):
        forms = [word.replace("_", " ") for word in line.split()]
        names.update(
            dict.fromkeys((forms[0], place) for base in forms[1:] for place in places.get(base, ()))
        )


def _labels(synsets, names, senses):
    """See `read_wordnet`; case does not count, as linking does not look at it."""
    meant = {}
    for word, place in names:
        meant.setdefault(word.lower(), place)
    for place, words in enumerate(synsets.words):
        unique = next((word for word in words if meant[word.lower()] == place), None)
        part = synsets.types[place].partition(".")[0]
        yield unique or f"{words[0]} ({part} {senses.get((words[0].lower(), place), 0)})"


def _edges(synsets, index, options, letters):
    """The is-a graph and the other relations. letters: of the parts of speech that are read."""
    problems, is_a, others, kinds, file_of = Problems(), [], [], list(RELATIONS.values()), {}
    for place, symbol, target, line, file in synsets.pointers:
        hypernym = symbol in HYPERNYMS
        if not hypernym and (
            options.relations != "all" or symbol not in RELATIONS or target[0] not in letters
        ):
            continue
        to = index.get(target)
        if to is None:
            problem = f"a pointer '{symbol}' leads to {target}, which is not there"
            problems.add(DataError(problem, file=file, line=line, fix=FRESH_COPY))
        elif hypernym:
            is_a.append((place, to, line, 0))
            file_of[place] = file
        else:
            others.append((place, to, line, kinds.index(RELATIONS[symbol])))
            if symbol == "&" and place in synsets.satellites:
                is_a.append((place, to, line, 0))
                file_of[place] = file
    problems.raise_if_any()
    is_a = _opened(synsets, is_a)
    return graphs(
        ReadEdges(Edges(is_a), Edges(others), kinds), len(synsets.ids), options, file_of.__getitem__
    )


def _opened(synsets, is_a):
    """The edges without the wrong one of the known loop, where both are there."""
    both = {(synsets.words[child][0], synsets.words[parent][0]) for child, parent, *_ in is_a}
    if not both.issuperset((_KNOWN_LOOP, _KNOWN_LOOP[::-1])):
        return is_a
    say(
        f"WordNet: left out that {_KNOWN_LOOP[0]} is-a {_KNOWN_LOOP[1]}, a known loop of version 3.0"
    )
    kept = []
    for edge in is_a:
        ends = tuple(synsets.words[end][0] for end in edge[:2])
        if ends != _KNOWN_LOOP or synsets.types[edge[0]][0] != "v":
            kept.append(edge)
    return kept
