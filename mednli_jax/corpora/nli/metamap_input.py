"""A corpus's sentences as MetaMap reads them: one line each, `<uid>-p|sentence` for a premise, `-h` for a hypothesis.

MetaMap reads only ASCII. Every other character is replaced by one ASCII character, so that positions in MetaMap's
output are those of the original sentence. A table beside the lines lists the replaced characters. Run MetaMap with
`metamap -N --sldiID`, and give its output to --config.knowledge.mentions (knowledge.readers.metamap).
"""

import unicodedata
from collections.abc import Iterable
from pathlib import Path

from mednli_jax.errors import UsageError
from mednli_jax.examples import NLIExample
from mednli_jax.files import private_folder, write_atomic

LINES, CHANGES = "metamap.txt", "changed_characters.tsv"
HEADER = "uid\tside\tposition\toriginal\twritten\n"
_SAME_LENGTH = {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "×": "x", "µ": "u", "μ": "u"}


def ascii_of(text: str) -> str:
    """The text with one ASCII character for each of its characters: the letter below an accent, else a space."""
    return "".join(character if " " <= character <= "~" else _ascii(character) for character in text)


def _ascii(character):
    plain = _SAME_LENGTH.get(character) or unicodedata.normalize("NFKD", character)[:1]
    return plain if " " <= plain <= "~" else " "


def write(examples: Iterable[NLIExample], folder: Path) -> dict[str, int]:
    """Writes the lines and the table of changed characters for their owner alone; returns counts.

    The sentences are corpus text: keep the folder private. Raises: UsageError for a uid that MetaMap cannot take.
    """
    lines, changes = [], [HEADER]
    for example in examples:
        if "|" in example.uid or not example.uid.isascii():
            raise UsageError("a uid has a bar or a character that is not ASCII. Fix: give the pairs other uids.")
        for side, text in (("premise", example.premise), ("hypothesis", example.hypothesis)):
            written = ascii_of(text)
            lines.append(f"{example.uid}-{side[0]}|{written}\n")
            changes += [
                f"{example.uid}\t{side}\t{place}\tU+{ord(old):04X}\t{new}\n"
                for place, (old, new) in enumerate(zip(text, written, strict=True))
                if old != new
            ]
    private_folder(folder)
    write_atomic(folder / LINES, "".join(lines))
    write_atomic(folder / CHANGES, "".join(changes))
    return {"sentences": len(lines), "changed_characters": len(changes) - 1}
