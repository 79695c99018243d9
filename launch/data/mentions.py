"""Converts the concepts that a program found in the sentences of a corpus to a table, which
`--config.knowledge.mentions` and `--spans` read.

  python -m mednli_jax.prepare --config=esim_kd:mednli --metamap=private
  python launch/data/mentions.py --config=esim_kd:mednli --form=mmi --input=private/lite.mmi \\
      --out=private/mentions.tsv

{config}
  --input=FILE   what the program wrote for the lines ID|SENTENCE of private/metamap.txt
  --form=FORM    of the input:
    mmi          MetaMap Lite's output (--inputformat=sldi --outputformat=mmi); MetaMap's through a
                 wrapper that quotes sentences, so that positions count from 1 and move where quotes
                 are escaped
    brat         a folder of ID.ann
    bioc         BioC's XML; a document has the id ID, and a concept is an infon cui or identifier
    quickumls    lines {"id": ID, "matches": MATCHES}, as QuickUMLS.match returns them
    scispacy     lines {"id": ID, "text": SENTENCE, "ents": [...]}, as spaCy's Doc.to_json returns
                 them; an entity may have the kb_id of a linker
  --out=FILE.tsv the table

An entity without a concept has its type in place of it. Of several concepts for the same words the
one of the best score stands first. Entities whose text is not at their position in the corpus's
sentence are left out and counted; where these are most, the input is refused.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from mednli_jax import cli, tasks
from mednli_jax.data.arrays import SIDES
from mednli_jax.errors import DataError, Problems
from mednli_jax.files.reading import json_lines, line_fault, open_binary, text_lines
from mednli_jax.files.writing import write_atomic
from mednli_jax.knowledge import mentions
from mednli_jax.knowledge.mentions import FIELDS, Splits, is_positions, sentence_of

CONCEPT_KEYS = ("cui", "identifier", "type")  # of BioC's infons; case is ignored
# What MetaMap Lite writes of an entity beside its concept, as references of brat.
NOTES = ("Score", "SemanticType", "Source", "Negated", "Temporality")


class Sentence(NamedTuple):
    """A sentence of the corpus, and its pair."""

    split: str
    pair_id: str
    side: str
    text: str


class Entity(NamedTuple):
    """The characters `start` to `end` (exclusive) of a sentence. text: "" if it is not known."""

    sentence_id: str
    start: int
    end: int
    text: str
    concept: str
    score: float = 0.0


def sentences_of(splits: Splits) -> dict[str, Sentence]:
    """The sentences of a corpus by their IDs."""
    sentences = {}
    for name, split in splits.items():
        for example in split.examples:
            pair_id = example.uid.removeprefix(f"{name}:")
            for side in SIDES:
                text = sentence_of(example, side).text
                sentences[f"{example.uid}-{side[0]}"] = Sentence(name, pair_id, side, text)
    return sentences


# -- forms of input --------------------------------------------------------------------------------


def read_mmi(path: Path, problems: Problems) -> Iterator[Entity]:
    """Yields the entities of MMI lines, with or without the location, and a bar at the end."""
    for line, text in text_lines(path, problems):
        fields = text.split("|", 6)
        if len(fields) < 7 or fields[1] != "MMI":
            continue
        fields[0] = fields[0].strip("'\"")
        try:
            places = mentions.occurrences(fields, *triggers_and_positions(fields[6]))
        except DataError as error:
            problems.add(line_fault(path.name, line, error.problem, error.fix))
            continue
        for place in places:
            for start, end in place.pieces:
                yield Entity(fields[0], start, end, place.text, place.concept, place.score)


def triggers_and_positions(ending: str) -> tuple[str, str]:
    """The last two fields of a line of MMI. Positions are the last field of their form."""
    cells = ending.split("|")
    while cells and not is_positions(cells[-1]):
        cells.pop()
    positions = cells.pop() if cells else ""
    if len(cells) > 1 and '"' not in cells[-1]:
        cells.pop()  # the location
    return "|".join(cells), positions


def read_brat(path: Path, problems: Problems) -> Iterator[Entity]:
    """Yields the text-bound annotations of each file, with the references of their
    normalizations."""
    files = sorted(path.glob("*.ann"))
    if not files:
        problem = "is no folder with files that end in .ann"
        raise DataError(problem, file=path.name, fix="check the path")
    for file in files:
        entities: dict[str, list[Entity]] = {}
        concepts = defaultdict(list)
        for _, line in text_lines(file, problems):
            key, _, rest = line.partition("\t")
            about, _, words = rest.partition("\t")
            if key.startswith("T"):
                label, _, places = about.partition(" ")
                pieces = places.split(";")
                words = "" if len(pieces) > 1 else words
                entities[key] = []
                for piece in pieces:
                    start, end = map(int, piece.split())
                    entities[key].append(Entity(file.stem, start, end, words, label))
            elif key.startswith("N"):
                _, target, reference = about.split(" ", 2)
                resource, _, concept = reference.partition(":")
                if resource not in NOTES:
                    concepts[target].append(concept)
        for key, pieces in entities.items():
            for entity in pieces:
                for concept in concepts[key] or [entity.concept]:
                    yield entity._replace(concept=concept)


def read_bioc(path: Path, problems: Problems) -> Iterator[Entity]:
    """Yields the locations of each annotation."""
    with open_binary(path) as stream:
        root = ElementTree.parse(stream).getroot()
    for document in root.iter("document"):
        sentence_id = document.findtext("id", "")
        for annotation in document.iter("annotation"):
            infons = {}
            for infon in annotation.iter("infon"):
                infons[infon.attrib["key"].casefold()] = infon.text
            concept = next((infons[key] for key in CONCEPT_KEYS if infons.get(key)), "")
            locations = annotation.findall("location")
            words = "" if len(locations) > 1 else annotation.findtext("text", "")
            for location in locations:
                start, length = int(location.attrib["offset"]), int(location.attrib["length"])
                yield Entity(sentence_id, start, start + length, words, concept)


def read_quickumls(path: Path, problems: Problems) -> Iterator[Entity]:
    for _, row in json_lines(path, problems):
        for match in chain.from_iterable(row["matches"]):
            place = (match["start"], match["end"], match["ngram"])
            yield Entity(row["id"], *place, match["cui"], match["similarity"])


def read_scispacy(path: Path, problems: Problems) -> Iterator[Entity]:
    for _, row in json_lines(path, problems):
        for entity in row["ents"]:
            start, end = entity["start"], entity["end"]
            concept = entity.get("kb_id") or entity["label"]
            yield Entity(row["id"], start, end, row["text"][start:end], concept)


READERS: dict[str, Callable[[Path, Problems], Iterator[Entity]]] = {
    "mmi": read_mmi,
    "brat": read_brat,
    "bioc": read_bioc,
    "quickumls": read_quickumls,
    "scispacy": read_scispacy,
}
WRONG_FORM = (LookupError, TypeError, ValueError, ElementTree.ParseError)


def read_entities(form: str, path: Path) -> list[Entity]:
    """Reads the entities of an input, those of the best score first."""
    problems = Problems()
    try:
        entities = list(READERS[form](path, problems))
    except WRONG_FORM as error:
        problem = f"it is not of the form {form} ({type(error).__name__})"
        raise DataError(problem, file=path.name, fix="see --help") from None
    problems.raise_if_any()
    return sorted(entities, key=lambda entity: -entity.score)


# -- the table -------------------------------------------------------------------------------------


class Table(NamedTuple):
    """The converted table. rows: of FIELDS. left_out: number of entities whose text is not at their
    position."""

    rows: list[tuple[str | int, ...]]
    left_out: int


def convert(form: str, path: Path, splits: Splits) -> Table:
    """Converts the entities of an input to rows of the table."""
    sentences = sentences_of(splits)
    entities = read_entities(form, path)
    rows: list[tuple[str | int, ...]] = []
    for entity in entities:
        if entity.sentence_id not in sentences:
            problem = "the input names a sentence that the corpus does not have"
            fix = "give the program the lines ID|SENTENCE of prepare --metamap"
            raise DataError(problem, file=path.name, fix=fix)
        *pair, text = sentences[entity.sentence_id]
        moved = nearest(entity, text) if form == "mmi" else entity
        if is_at(moved, text):
            rows.append((*pair, moved.start, moved.end, moved.concept))
    left_out = len(entities) - len(rows)
    if left_out >= len(rows):
        problem = f"of {len(entities)} entities {len(rows)} are at their position in the corpus"
        fix = "run the program on this version of the corpus"
        raise DataError(problem, file=path.name, fix=fix)
    return Table(rows, left_out)


def is_at(entity: Entity, sentence: str) -> bool:
    """Whether a sentence has an entity's text at its position."""
    if not 0 <= entity.start < entity.end <= len(sentence):
        return False
    words = sentence[entity.start : entity.end]
    return not entity.text or mentions.same_text(words, entity.text)


def nearest(entity: Entity, sentence: str) -> Entity:
    """The entity at the place of its text that is nearest to the stated place. Quotes of the text
    may be escaped."""
    if not entity.text or is_at(entity, sentence):
        return entity
    words = mentions.ascii_of(entity.text.replace("\\", ""))
    pattern = rf"(?<!\w){re.escape(words)}(?!\w)"
    matches = re.finditer(pattern, mentions.ascii_of(sentence), re.IGNORECASE)
    spans = [match.span() for match in matches]
    if not spans:
        return entity
    start, end = min(spans, key=lambda span: abs(span[0] - entity.start))
    return entity._replace(start=start, end=end, text=words)


def main(values: cli.Flags) -> None:
    path = cli.required_path(values, "input", "--input=FILE")
    out = cli.required_path(values, "out", "--out=FILE.tsv")
    config = tasks.with_labels(cli.config(values))
    splits = tasks.task_of(config).pairs(config).splits()
    table = convert(values.form, path, splits)
    lines = ["\t".join(map(str, row)) for row in (FIELDS, *table.rows)]
    write_atomic(out, "".join(f"{line}\n" for line in lines))
    print(f"{len(table.rows)} mentions, {table.left_out} left out: {out}")


def define(values: cli.Flags) -> None:
    cli.define(values, config=None, form=tuple(READERS))
    cli.define_paths(values, "input", "out")


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
