"""The labels of a corpus of pairs: their names in order, and which name each label of a file has.

A label is the text in a file ("2", "Yes"); a name is the class that it stands for ("neutral").
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mednli_jax.data.examples import LABELS
from mednli_jax.files.reading import is_name

UNLABELLED = "-"  # the name of no class: SNLI writes it where its annotators disagreed
MOST_LABELS = 100  # of a corpus
LONGEST_LABEL = 64  # characters; a longer cell is a sentence, not a label
_WHOLE = re.compile(r"(-?\d+)\.0+")
# Invisible characters (joiners, fillers, variation selectors) that are not in Unicode's category
# Cf. `appearance` removes those of Cf by their category.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class SettingEntry(NamedTuple):
    """One entry of config.data.labels or config.data.columns: "left:right". A lone "text" is both
    sides."""

    left: str
    right: str


def setting_entries(setting: str) -> list[SettingEntry]:
    """The entries of a setting "left:right,both". A backslash precedes a comma or colon within a
    side."""
    entries = []
    for text in filter(str.strip, re.split(r"(?<!\\),", setting)):
        sides = list(map(_unescape, re.split(r"(?<!\\):", text, maxsplit=1)))
        entries.append(SettingEntry(sides[0], sides[-1]))
    return entries


def _unescape(text: str) -> str:
    return re.sub(r"\\([,:])", r"\1", text).strip()


def setting_of(names: Iterable[str]) -> str:
    """A setting that lists these names, with commas and colons escaped; `setting_entries` reads it
    back."""
    return ",".join(re.sub(r"([,:])", r"\\\1", name) for name in names)


def cell_text(value: object) -> str:
    """The text of a label or id in a file. A whole number loses its zeros after the point: 1.0 is
    "1"."""
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def appearance(label: str) -> str:
    """What a reader sees of a label. Labels that differ only in invisible characters, case, kinds
    of blanks or the encoding of accents have equal appearances."""
    marks = _INVISIBLE.sub("", label)
    visible = "".join(char for char in marks if unicodedata.category(char) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible).casefold().split())


def code_points(label: str) -> str:
    """The characters of a label that are not ASCII: "U+00A0, U+200B"."""
    points = [f"U+{ord(char):04X}" for char in label if not char.isascii()]
    return ", ".join(dict.fromkeys(points)) or "only ASCII characters"


def ordered_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, each once: in the order of LABELS if every name is one of LABELS, else by value if
    all are numbers, else alphabetically."""
    distinct = sorted(set(names), key=lambda name: (name.casefold(), name))
    if set(distinct) <= set(LABELS):
        return tuple(label for label in LABELS if label in distinct)
    if all(map(is_number, distinct)):
        distinct.sort(key=float)
    return tuple(distinct)


def is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _canonical(name: str) -> str:
    """The name itself; in lower case if it is one of LABELS in any case: "Neutral" is "neutral"."""
    return name.casefold() if name.casefold() in LABELS else name


@dataclass(frozen=True)
class Labels:
    """The labels of a corpus.

    Args:
      setting: config.data.labels.
      names: in the order of a model's outputs; () until the training file decides them.
      name_of: label of a file, lower-cased -> its name, or UNLABELLED.
      may_be_mostly_unlabelled: True: a reader leaves out unlabelled pairs, however many there are,
        because the setting gives a label the name UNLABELLED. False: many unlabelled pairs are an
        error.
      repeated: labels of a file to which the setting gives two names.
    """

    setting: str
    names: tuple[str, ...]
    name_of: Mapping[str, str]
    may_be_mostly_unlabelled: bool
    repeated: tuple[str, ...] = ()

    @property
    def from_user_files(self) -> bool:
        """True for labels of the user's own files, where an empty cell means unlabelled; False for
        those of published corpora."""
        return "" in self.name_of

    @property
    def setting_for_messages(self) -> str:
        """A setting of these labels, or the word "LABELS" if a label may be corpus text, which no
        message shows."""
        if not all(map(is_name, filter(None, self.name_of))):
            return "LABELS"
        return self.setting or setting_of(self.names)

    @classmethod
    def of(cls, setting: str) -> "Labels":
        """The labels of a config.data.labels: "a,b,c", or "label:name,label:name".

        If every name is one of LABELS, the names take the order of LABELS. If the names are
        0, 1, ..., n, the label -1 means unlabelled.
        """
        names: list[str] = []
        name_of: dict[str, str] = {}
        repeated: dict[str, None] = {}  # an ordered set
        for entry in setting_entries(setting):
            label, name = entry.left.casefold(), _canonical(entry.right)
            if label in name_of:
                repeated[label] = None
            names.append(name)
            name_of[label] = name
        has_unlabelled = UNLABELLED in names
        names = [name for name in dict.fromkeys(names) if name != UNLABELLED]
        for name in names:  # `predict` and `analyze` write names
            name_of.setdefault(name.casefold(), name)
        if names and set(names) == set(map(str, range(len(names)))):
            name_of.setdefault("-1", UNLABELLED)
        for label in ("", UNLABELLED):
            name_of.setdefault(label, UNLABELLED)
        in_order = ordered_names(names) if set(names) <= set(LABELS) else tuple(names)
        return cls(setting, in_order, name_of, has_unlabelled, tuple(repeated))

    def with_training_labels(self, labels: Iterable[str]) -> "Labels":
        """These labels, and those of a training file that the setting does not mention.

        labels: as the file writes them. Of several spellings of a label, the first is its name.
        """
        names: dict[str, str] = {}
        for label in labels:
            if label.casefold() not in self.name_of:
                names.setdefault(label.casefold(), _canonical(label))
        other_names = set(names.values()) - {"-1"}
        if other_names == set(map(str, range(len(other_names)))):
            names.pop("-1", None)  # beside 0, 1, ..., n it means unlabelled, see `of`
        # The entries of the setting are unchanged, so they keep their meaning. The new names come
        # first in the order of names.
        setting = setting_of(ordered_names(names.values()))
        return Labels.of(f"{setting},{self.setting}" if self.setting else setting)


# Of the published corpora. Pairs with the label "-" are left out; an empty label is a fault of the
# file.
NLI_LABELS = Labels(
    "", LABELS, {name: name for name in (*LABELS, UNLABELLED)}, may_be_mostly_unlabelled=True
)
