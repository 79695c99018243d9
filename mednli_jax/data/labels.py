"""The labels of a corpus of pairs: their names in order, and the name that each label of a file
means."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mednli_jax.data.examples import LABELS
from mednli_jax.files.reading import is_name

UNLABELLED = "-"  # of a pair that belongs to no class, as where SNLI's annotators disagreed
MOST = 100  # labels of a corpus
LONGEST = 64  # characters of a label; a longer one is a text
_WHOLE = re.compile(r"(-?\d+)\.0+")
# The characters without an appearance that are no format characters: joiners, fillers, selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class LabelEntry(NamedTuple):
    """A part of a setting: left:right, or one text for both."""

    left: str
    right: str


def label_entries(setting: str) -> list[LabelEntry]:
    """The parts of "left:right,both". A comma or colon within a text follows a backslash."""
    parted = []
    for text in filter(str.strip, re.split(r"(?<!\\),", setting)):
        sides = list(map(_plain, re.split(r"(?<!\\):", text, maxsplit=1)))
        parted.append(LabelEntry(sides[0], sides[-1]))
    return parted


def _plain(text: str) -> str:
    return re.sub(r"\\([,:])", r"\1", text).strip()


def listed(texts: Iterable[str]) -> str:
    """The setting with these parts."""
    return ",".join(re.sub(r"([,:])", r"\\\1", text) for text in texts)


def written(value: object) -> str:
    """A label or an id of a file as a text; 1.0 is 1."""
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def appearance(label: str) -> str:
    """What is seen of a label: equal for labels that differ in invisible characters, in kinds of
    blanks or in how an accent is written."""
    marks = _INVISIBLE.sub("", label)
    visible = "".join(char for char in marks if unicodedata.category(char) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible).casefold().split())


def code_points(label: str) -> str:
    """The characters of a label that are not ASCII: "U+00A0, U+200B"."""
    points = [f"U+{ord(char):04X}" for char in label if not char.isascii()]
    return ", ".join(dict.fromkeys(points)) or "only ASCII characters"


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """The names in the order of LABELS, of their values where all are numbers, or of the
    alphabet."""
    distinct = sorted(sorted(set(names)), key=str.casefold)
    if set(distinct) <= set(LABELS):
        return tuple(label for label in LABELS if label in distinct)
    return tuple(sorted(distinct, key=float) if all(map(is_number, distinct)) else distinct)


def is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _spelled(name: str) -> str:
    """The name; one of LABELS in lower case."""
    return name.casefold() if name.casefold() in LABELS else name


@dataclass(frozen=True)
class Labels:
    """The labels of a corpus.

    Args:
      setting: config.data.labels.
      names: in the order of the outputs of a model; () until the training file decides them.
      name_of: label of a file in lower case -> its name, or UNLABELLED.
      leaves_out: whether any share of the pairs may have no label, because the setting names labels
        that mean UNLABELLED.
      repeated: labels of a file to which the setting gives two names.
    """

    setting: str
    names: tuple[str, ...]
    name_of: Mapping[str, str]
    leaves_out: bool
    repeated: tuple[str, ...] = ()

    @property
    def are_users(self) -> bool:
        """Whether files of the user have them, in which an empty cell is no label."""
        return "" in self.name_of

    @property
    def shown(self) -> str:
        """A setting of these labels for messages; LABELS where one may be a text."""
        if not all(map(is_name, filter(None, self.name_of))):
            return "LABELS"
        return self.setting or listed(self.names)

    @classmethod
    def of(cls, setting: str) -> "Labels":
        """The labels of a config.data.labels: "a,b,c", or "label:name,label:name".

        Names that are all of LABELS have their order. -1 means no label beside the names 0 to n.
        """
        name_of: dict[str, str] = {}
        labels: list[str] = []
        names: dict[str, None] = {}
        for part in label_entries(setting):
            labels.append(part.left.casefold())
            name_of[labels[-1]] = _spelled(part.right)
            names[_spelled(part.right)] = None
        leaves_out = names.pop(UNLABELLED, "") is None
        for name in names:  # `predict` and `analyze` write names
            name_of.setdefault(name.casefold(), name)
        if names and names.keys() == set(map(str, range(len(names)))):
            name_of.setdefault("-1", UNLABELLED)
        for label in ("", UNLABELLED):
            name_of.setdefault(label, UNLABELLED)
        order = ordered(names) if names.keys() <= set(LABELS) else tuple(names)
        repeated = tuple(label for label, count in Counter(labels).items() if count > 1)
        return cls(setting, order, name_of, leaves_out, repeated)

    def with_names(self, labels: Iterable[str]) -> "Labels":
        """These labels with the names of a training file. labels: as the file writes them; of
        several spellings the first is the name."""
        names: dict[str, str] = {}
        for label in labels:
            if label.casefold() not in self.name_of:
                names.setdefault(label.casefold(), _spelled(label))
        without_none = set(names.values()) - {"-1"}
        if without_none == set(map(str, range(len(without_none)))):
            names.pop("-1", None)
        setting = listed(ordered(names.values()))
        return Labels.of(f"{setting},{self.setting}" if self.setting else setting)


# Of the published corpora: a pair without a label is a fault of the file.
NLI_LABELS = Labels("", LABELS, {name: name for name in (*LABELS, UNLABELLED)}, leaves_out=True)
