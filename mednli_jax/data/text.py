"""From text to token numbers: sentence splitting, tokenisation and the vocabulary; and the places
of tokens in a text."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

from mednli_jax.files.writing import write_atomic

PAD, UNK = 0, 1
SPECIALS = ("<pad>", "<unk>")

_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def binary_parse_tokens(parse: str) -> tuple[str, ...]:
    """Tokens of a binary parse as SNLI, MultiNLI and MedNLI write it: `( ( the patient ) ( is well
    ) )`.

    Escaped brackets of the sentence (-LRB- and five more) are restored, also inside a token
    (`:-RRB-`).
    """
    tokens = [token for token in parse.split() if token not in ("(", ")")]
    if "B-" in parse:
        for escaped, bracket in _BRACKETS.items():
            tokens = [token.replace(escaped, bracket) for token in tokens]
    # Words repeat: with one string per distinct word, SNLI's training split fits into memory.
    return tuple(map(sys.intern, tokens))


# words of letters alone that the tokeniser splits
_CONTRACTED = frozenset(("cannot", "gimme", "gonna", "gotta", "lemme", "wanna"))


@lru_cache(maxsize=64)  # the pairs of a premise stand together
def sentence_tokens(sentence: str) -> tuple[str, ...]:
    """Penn Treebank tokens of one sentence; double quotes become `` and ''.

    Words repeat, and the tokeniser is slow: it reads each word once. Its rules look at one word and
    the blanks beside it, except those for double quotes, other white space, the last word and a
    sentence of one word.
    """
    text = sentence.rstrip()
    if " " not in text or '"' in text or "''" in text or not text.isprintable():
        return _treebank(sentence)
    *words, last = text.split(" ")
    tokens = list(chain.from_iterable(map(_word_tokens, words)))
    return (*tokens, *_last_word_tokens(last + sentence[len(text) :]))


@lru_cache(maxsize=1 << 16)
def _word_tokens(word: str) -> tuple[str, ...]:
    """Tokens of a word that is not the last of its sentence."""
    if word.isascii() and word.isalnum() and word.lower() not in _CONTRACTED:
        return (sys.intern(word),)
    return _treebank(f"x {word} x")[1:-1]


@lru_cache(maxsize=1 << 14)
def _last_word_tokens(word: str) -> tuple[str, ...]:
    """Tokens of the last word of a sentence, with the white space after it."""
    return _treebank(f"x {word}")[1:]


def _treebank(text: str) -> tuple[str, ...]:
    # A slow import that only corpora without parses need.
    from nltk.tokenize import TreebankWordTokenizer

    return tuple(map(sys.intern, TreebankWordTokenizer().tokenize(text)))


def treebank_tokens(text: str) -> tuple[str, ...]:
    """Penn Treebank tokens of the sentences of a text."""
    return tuple(token for sentence in split_sentences(text) for token in sentence_tokens(sentence))


def blank_tokens(text: str) -> tuple[str, ...]:
    """Tokens of a text that is tokenised already: blanks separate them."""
    return tuple(map(sys.intern, text.split()))


# Tokenisers of corpora without parses. A run stores the name, so that new texts are tokenised by
# the same function. A function that gives other tokens for any text needs a new name.
TOKENISERS = {"sentences, treebank": treebank_tokens, "blanks": blank_tokens}

DEIDENTIFIED = re.compile(r"\[\*\*.{0,300}?\*\*\]", re.DOTALL)  # `[** ... **]` of MIMIC's notes
# White space after . ! or ?. The two alternatives at the start keep the search linear in repeated
# stops.
_STOP = re.compile(r"(?:(?<=[^.!?\s])|(?<!\S)(?=[.!?]{2}))[.!?]+[\"')\]}”’»]*(?P<gap>\s+)(?=\S)")
_BEGINNING = re.compile(r"s/p|h/o|c/b|[\"'(\[“‘«]?\s?(?P<first>[^\W_])")
_NEAR = 24  # number of characters read before and after a full stop


# Abbreviations that never end a sentence, because a name, a number or a noun follows.
_TITLES = """
    dr. drs. mr. mrs. ms. prof. st. vs. v. no. nos. approx. ca. e.g. i.e. eg. ie. cf. fig. incl.
"""
# Abbreviations that end a sentence only before one of _OPENINGS.
_ABBREVIATIONS = """
    etc. pt. pts. hx. dx. tx. sx. rx. yr. yrs. mo. mos. wk. wks. hr. hrs. min. tab. tabs. cap. caps.
    mg. mcg. ml. cc. cm. mm. kg. lb. lbs. oz. ft. bid. tid. qid. qd. qhs. prn. po. iv. im. sq. inj.
    sec. temp. resp. dept. hosp. jr. sr. inc. al. med. meds. surg. lat. bilat. post. ant. inf. sup.
    jan. feb. mar. apr. jun. jul. aug. sep. sept. oct. nov. dec. mon. tues. wed. thurs. fri. sat.
    sun.
"""
_OPENINGS = """
    he she the patient pt this it they there his her in on at that these she's he's a an no denies
    however was since after during currently also has had status
"""
TITLES = frozenset(_TITLES.split())
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())
OPENINGS = frozenset(_OPENINGS.split())


def split_sentences(text: str) -> Iterator[str]:
    """The sentences of a text, each with the white space after it. In doubt a sentence continues.

    A full stop ends a sentence before a capital letter, a number or a line break, but not after an
    abbreviation or a list number, nor within `[** ... **]`.
    """
    masked, start = mask_deidentified(text), 0
    for match in _STOP.finditer(masked):
        if _ends_sentence(masked, start, match):
            yield text[start : match.end()]
            start = match.end()
    yield text[start:]


def mask_deidentified(text: str) -> str:
    """The text with `[** ... **]` replaced by as many X, so that they hold no full stops and no
    numbers."""
    return DEIDENTIFIED.sub(lambda mark: "X" * len(mark.group()), text)


def _ends_sentence(masked: str, start: int, match: re.Match[str]) -> bool:
    """Whether the full stop (or ! or ?) of `match` ends the sentence that began at `start`."""
    stop = match.start()
    ahead = masked[match.end() : match.end() + _NEAR]
    beginning = _BEGINNING.match(ahead)
    if "\n" not in match["gap"] and (not beginning or (beginning["first"] or "").islower()):
        return False
    if stop == 0 or masked[stop - 1].isspace():
        return True  # `...` between spaces
    word = masked[max(start, stop - _NEAR) : stop + 1].split()[-1].lstrip("(\"'[").lower()
    if not word[:-1] or word in TITLES:
        return False
    if masked[stop] != ".":
        return True
    if re.fullmatch(r"\d{1,2}\.", word):
        before = masked[start : stop + 1 - len(word)]
        is_list_number = not before.rpartition("\n")[2].strip()
        return not is_list_number
    if word in ABBREVIATIONS or re.fullmatch(r"(?:[a-z]\.)+", word):
        return ahead.split()[0].strip(",.;:").lower() in OPENINGS
    return True


# Tokenisers write some characters of a sentence in another way. The first table keeps the length of
# a text.
_STRAIGHT = str.maketrans("‘’‚“”„–—\u00a0", "'''\"\"\"-- ")
_SPELLED = {"``": '"', "''": '"', "--": "-", "...": "…", "`": "'"}
_AHEAD = 12  # characters by which a token may be later than expected
NOWHERE = (-1, -1)


def token_offsets(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """The position of each token in its text: (first character, last + 1), or NOWHERE.

    Case is ignored. Quotes and dashes may differ. A token that is not found in the text does not
    shift those after it.
    """
    text = text.translate(_STRAIGHT)
    offsets = []
    expected = 0  # where the text after the last token that was found begins
    missed = 0  # characters of the tokens that were not found since
    for token in tokens:
        offset = _offset(text, token, expected, missed)
        offsets.append(offset)
        if offset == NOWHERE:
            missed += len(token) + 1
        else:
            expected, missed = offset[1], 0
    return offsets


def _offset(text: str, token: str, expected: int, missed: int) -> tuple[int, int]:
    while expected < len(text) and text[expected].isspace():
        expected += 1
    spelled = _SPELLED.get(token)
    if spelled is None:
        spelled = token.replace("\\/", "/").replace("\\*", "*").translate(_STRAIGHT)
    if text.startswith(spelled, expected):
        return expected, expected + len(spelled)
    for form in dict.fromkeys((spelled, token)):
        size = len(form)
        latest = min(expected + _AHEAD + missed, len(text) - size)
        for start in range(expected, latest + 1):
            if text[start : start + size].casefold() == form.casefold():
                return start, start + size
    return NOWHERE


@dataclass(frozen=True)
class Vocab:
    """Words and their numbers: PAD is 0, UNK is 1, words of the corpus follow. A text's token
    "<pad>" is unknown."""

    words: tuple[str, ...]
    _number_of: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number_of = {word: number for number, word in enumerate(self.words) if number > UNK}
        object.__setattr__(self, "_number_of", number_of)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._number_of

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The number of each token, UNK for an unknown one."""
        return [self._number_of.get(token, UNK) for token in tokens]

    @classmethod
    def build(cls, token_sequences: Iterable[Iterable[str]]) -> "Vocab":
        """Vocabulary of the sequences: most frequent word first, equally frequent words by code
        point."""
        return cls.of_counts(Counter(token for tokens in token_sequences for token in tokens))

    @classmethod
    def of_counts(cls, counts: Mapping[str, int]) -> "Vocab":
        """As `build`, from {token: number of occurrences}."""
        words = [word for word in counts if word not in SPECIALS]
        words.sort(key=lambda word: (-counts[word], word))
        return cls(SPECIALS + tuple(words))

    def save(self, path: Path) -> None:
        """Writes the words as one JSON array in UTF-8."""
        write_atomic(Path(path), json.dumps(self.words, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Vocab":
        """Reads the file of `save`; the manifest beside it has its digest."""
        return cls(tuple(json.loads(Path(path).read_bytes())))


# -- articles --------------------------------------------------------------------------------------

_LETTER_WITH_VOWEL = frozenset("AEFHILMNORSX")  # an MI, a UTI
# "u" before a consonant and a vowel is read "you": a urinary sign, a unit, a unanimous vote. Not
# after the prefixes un- and up-: an unidentified man, an unable one, an upended cart.
_UN = r"n(?:[aeou](?!nim)|i(?:de|m[pm]|n|ll|rr|ss))"
_YOU = rf"eu|ew|one\b|once|u(?!{_UN}|p)[bcdfghjklmnpqrstvwxz][aeiou]"
_VOWEL_SOUND = re.compile(rf"(?!{_YOU})[aeiou]|hour|honest|heir|8|1[18](?!\d)")  # an 8, an 18


def indefinite_article(word: str) -> str:
    """`a` or `an`, by the sound with which a word begins; capitals are spelled out."""
    if word.split("-")[0].isupper():
        has_vowel = word[0] in _LETTER_WITH_VOWEL
    else:
        has_vowel = _VOWEL_SOUND.match(word.casefold()) is not None
    return "an" if has_vowel else "a"
