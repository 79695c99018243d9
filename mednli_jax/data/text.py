"""From text to token numbers: sentence splitting, tokenisation and the vocabulary; and the places
of tokens in a text."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path

from mednli_jax.files.writing import write_atomic

PAD, UNK = 0, 1
SPECIALS = ("<pad>", "<unk>")  # the words of the numbers PAD and UNK

_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def binary_parse_tokens(parse: str) -> tuple[str, ...]:
    """The tokens of a binary parse as SNLI, MultiNLI and MedNLI write it: `( ( the patient ) ( is
    well ) )`.

    A parse escapes brackets of the sentence: -LRB- is (. They are restored, also inside a token
    (`:-RRB-`).
    """
    tokens = [token for token in parse.split() if token not in ("(", ")")]
    if "B-" in parse:  # as in each of _BRACKETS, and in few parses
        for escaped, bracket in _BRACKETS.items():
            tokens = [token.replace(escaped, bracket) for token in tokens]
    # With one string in memory for each distinct word, SNLI's training split fits.
    return tuple(map(sys.intern, tokens))


# Words of letters alone that NLTK splits: "cannot" becomes "can", "not".
_CONTRACTED = frozenset(("cannot", "gimme", "gonna", "gotta", "lemme", "wanna"))


@lru_cache(maxsize=64)  # rows with one premise stand together in a file
def sentence_tokens(sentence: str) -> tuple[str, ...]:
    """The Penn Treebank tokens of one sentence. Double quotes become `` and ''.

    NLTK is slow, so each distinct word is tokenised once. The result is the same as for
    the whole sentence, because NLTK's rules see only a word and the blanks beside it. Its rules for
    double quotes and for other white space see more, so a sentence that has these is tokenised
    whole. So is a sentence of one word. The last word is tokenised apart (`_last_word_tokens`),
    because NLTK has extra rules for the end of a sentence.
    """
    text = sentence.rstrip()
    has_quotes = '"' in text or "''" in text
    if " " not in text or has_quotes or not text.isprintable():
        return _treebank(sentence)
    *words, last_word = text.split(" ")
    white_space_at_end = sentence[len(text) :]
    tokens = chain.from_iterable(map(_word_tokens, words))
    return (*tokens, *_last_word_tokens(last_word + white_space_at_end))


@lru_cache(maxsize=1 << 16)
def _word_tokens(word: str) -> tuple[str, ...]:
    """The tokens of a word that is not the last of its sentence."""
    if word.isascii() and word.isalnum() and word.lower() not in _CONTRACTED:
        return (sys.intern(word),)
    # Between two plain words, no rule for the start or end of a sentence applies.
    return _treebank(f"x {word} x")[1:-1]


@lru_cache(maxsize=1 << 14)
def _last_word_tokens(word: str) -> tuple[str, ...]:
    """The tokens of the last word of a sentence. word: with the white space after it."""
    return _treebank(f"x {word}")[1:]


def _treebank(text: str) -> tuple[str, ...]:
    # Imported here, as it is slow and only corpora without parses need it.
    from nltk.tokenize import TreebankWordTokenizer

    return tuple(map(sys.intern, TreebankWordTokenizer().tokenize(text)))


def treebank_tokens(text: str) -> tuple[str, ...]:
    """The Penn Treebank tokens of a text, sentence by sentence."""
    return tuple(token for sentence in split_sentences(text) for token in sentence_tokens(sentence))


def blank_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a text that is tokenised already: blanks separate them."""
    return tuple(map(sys.intern, text.split()))


# Tokenisers of corpora without parses. A run stores the name of its tokeniser and tokenises new
# texts by it. So a function that changes the tokens of any text needs a new name.
TOKENISERS = {"sentences, treebank": treebank_tokens, "blanks": blank_tokens}

DEIDENTIFIED = re.compile(r"\[\*\*.{0,300}?\*\*\]", re.DOTALL)  # `[** ... **]` of MIMIC's notes
# Stops (. ! ?), closing quotes and brackets, and the white space after them. A match begins only at
# the first of several stops, so that the search is linear. This stop follows a character that is
# neither a stop nor white space; or no character but white space is before it, and another stop
# follows, as in " ...".
_STOP = re.compile(r"(?:(?<=[^.!?\s])|(?<!\S)(?=[.!?]{2}))[.!?]+[\"')\]}”’»]*(?P<gap>\s+)(?=\S)")
# The beginning of a sentence: a letter or digit (`first`), or a quote or bracket and then that; or
# an abbreviation in lower case with which sentences of clinical notes begin (no `first`).
_BEGINNING = re.compile(r"s/p|h/o|c/b|[\"'(\[“‘«]?\s?(?P<first>[^\W_])")
_NEAR = 24  # characters read before and after a stop


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
    """Yields the sentences of a text, each with the white space after it.

    A full stop ends a sentence before a capital letter, a number or a line break, but not after an
    abbreviation or a list number, nor within `[** ... **]`. Where this is unclear, the sentence
    goes on.
    """
    masked, start = mask_deidentified(text), 0
    for match in _STOP.finditer(masked):
        if _ends_sentence(masked, start, match):
            yield text[start : match.end()]
            start = match.end()
    yield text[start:]


def mask_deidentified(text: str) -> str:
    """The text with each `[** ... **]` replaced by as many X, which hide its stops and numbers."""
    return DEIDENTIFIED.sub(lambda mark: "X" * len(mark.group()), text)


def _ends_sentence(masked: str, start: int, match: re.Match[str]) -> bool:
    """True if the stop at `match` (see _STOP) ends the sentence that begins at `start`."""
    stop = match.start()
    ahead = masked[match.end() : match.end() + _NEAR]
    if "\n" not in match["gap"] and not _may_begin_sentence(ahead):
        return False
    if stop == 0 or masked[stop - 1].isspace():
        return True  # `...` between spaces
    # The word with its first stop, as "smith."
    word = masked[max(start, stop - _NEAR) : stop + 1].split()[-1].lstrip("(\"'[").lower()
    if len(word) == 1 or word in TITLES:  # 1: no word, as in "(." or "'?"
        return False
    if masked[stop] != ".":
        return True
    if re.fullmatch(r"\d{1,2}\.", word):
        line_before = masked[start : stop + 1 - len(word)].rpartition("\n")[2]
        is_list_number = not line_before.strip()  # a number that begins its line
        return not is_list_number
    if word in ABBREVIATIONS or re.fullmatch(r"(?:[a-z]\.)+", word):
        return ahead.split()[0].strip(",.;:").lower() in OPENINGS
    return True


def _may_begin_sentence(text: str) -> bool:
    """True if `text` starts with a number, a letter other than a lower-case one, or one of s/p,
    h/o and c/b."""
    beginning = _BEGINNING.match(text)
    return beginning is not None and not (beginning["first"] or "").islower()


# Tokenisers respell quotes and dashes. So both the text and the token get plain quotes and dashes
# before they are compared. _PLAIN replaces one character by one, which keeps offsets. _TEXT_OF has
# the text for a whole token.
_PLAIN = str.maketrans("‘’‚“”„–—\u00a0", "'''\"\"\"-- ")
_TEXT_OF = {"``": '"', "''": '"', "--": "-", "...": "…", "`": "'"}
_AHEAD = 12  # characters by which a token may begin later than expected
NOWHERE = (-1, -1)


def token_offsets(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """The offsets of each token in a text: (first character, last + 1), or NOWHERE.

    Upper and lower case are equal, and so are kinds of quotes and dashes. After a token that is not
    in the text, the next tokens are still found.
    """
    text = text.translate(_PLAIN)
    offsets = []
    expected = 0  # the end of the last token that was found
    missed = 0  # characters of the tokens after it, which were not found
    for token in tokens:
        offset = _offset(text, token, expected, missed)
        offsets.append(offset)
        if offset == NOWHERE:
            missed += len(token) + 1
        else:
            expected, missed = offset[1], 0
    return offsets


def _offset(text: str, token: str, expected: int, missed: int) -> tuple[int, int]:
    """The offsets of a token that begins at most _AHEAD + `missed` characters after `expected`, or
    NOWHERE. The token is looked for in its plain form, then as it is."""
    while expected < len(text) and text[expected].isspace():
        expected += 1
    plain = _TEXT_OF.get(token)
    if plain is None:
        plain = token.replace("\\/", "/").replace("\\*", "*").translate(_PLAIN)
    for form in dict.fromkeys((plain, token)):
        size = len(form)
        latest = min(expected + _AHEAD + missed, len(text) - size)
        for start in range(expected, latest + 1):
            if text[start : start + size].casefold() == form.casefold():
                return start, start + size
    return NOWHERE


@dataclass(frozen=True)
class Vocab:
    """Words and their numbers: PAD is 0, UNK is 1, words of the corpus follow. A token of a text
    that reads "<pad>" or "<unk>" is an unknown word."""

    words: tuple[str, ...]

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words) if number > UNK}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._number_of

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The number of each token, UNK for an unknown one."""
        return [self._number_of.get(token, UNK) for token in tokens]

    @classmethod
    def build(cls, token_sequences: Iterable[Iterable[str]]) -> "Vocab":
        """The vocabulary of the sequences: the most frequent word first, equally frequent words in
        the order of their code points."""
        return cls.of_counts(Counter(token for tokens in token_sequences for token in tokens))

    @classmethod
    def of_counts(cls, counts: Mapping[str, int]) -> "Vocab":
        """The vocabulary that `build` makes, from counts: {token: number of occurrences}."""
        words = [word for word in counts if word not in SPECIALS]
        words.sort(key=lambda word: (-counts[word], word))
        return cls(SPECIALS + tuple(words))

    def save(self, path: Path) -> None:
        """Writes the words as one JSON array in UTF-8."""
        write_atomic(Path(path), json.dumps(self.words, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Vocab":
        """Reads a file that `save` wrote. The manifest beside the file has its digest."""
        return cls(tuple(json.loads(Path(path).read_bytes())))


# -- articles --------------------------------------------------------------------------------------

_LETTERS_WITH_VOWEL = frozenset("AEFHILMNORSX")  # their names begin with a vowel: an MI, a UTI
# "u" before a consonant and a vowel is read "you": a urinary sign, a unit. The prefixes up- (an
# upended cart) and un- are exceptions. _UN matches what follows the "u" of a word with the prefix
# un-; it matches neither "unanimous" nor "unit".
_UN = (
    r"n(?:[aeou](?!nim)"  # unable, uneven, unopened, unused; but a unanimous vote
    r"|ide|im[pm]|in|ill|irr|iss)"  # unidentified, unimpaired, unimmunised, uninformed, unissued
)
_YOU = rf"eu|ew|one\b|once|u(?!{_UN}|p)[bcdfghjklmnpqrstvwxz][aeiou]"
_VOWEL_SOUND = re.compile(rf"(?!{_YOU})[aeiou]|hour|honest|heir|8|1[18](?!\d)")  # an 8, an 18


def indefinite_article(word: str) -> str:
    """`a` or `an`, by the sound with which a word begins. A word in capitals is read letter by
    letter: an MI, a UTI."""
    if word.split("-")[0].isupper():
        begins_with_vowel = word[0] in _LETTERS_WITH_VOWEL
    else:
        begins_with_vowel = _VOWEL_SOUND.match(word.casefold()) is not None
    return "an" if begins_with_vowel else "a"
