"""Every reader of files gets good files that hypothesis mutates. It reads them or raises a UserError.

No other error may come out, no word of the texts may occur in the error, and no input may take more than seconds.
$MEDNLI_JAX_FUZZ_EXAMPLES is the number of inputs for each reader in the slow part (2000 by default).
"""

import contextlib
import io
import json
import os
import re
import struct
import time

import pytest
import test_clicr
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from made_up_files import WORDS, as_bytes, lay_out
from made_up_readers import READERS, gzipped

from mednli_jax.errors import UserError

MANY = int(os.environ.get("MEDNLI_JAX_FUZZ_EXAMPLES", "2000"))
LONGEST = 10.0  # seconds of a slow processor for one input
FEW = 15  # inputs for each reader in the fast part
CANARIES = re.compile(rf"\b({'|'.join((*WORDS, test_clicr.SECRET, 'chest'))})\b", re.IGNORECASE)
BY_ID = re.compile(r"annotated pairs are in no corpus: .*")  # pairs are named by their ids, which may be words

# ---- mutations: strategies of functions from good content to mutated content ----

TOKENS = (
    *("\0", "\ufeff", "\r", "\n", "\t", ",", '"', "'", "{", "}", "[", "]", "|", ":", "\\", "\\ud800", "\u2028", "%s"),
    *("NaN", "-Infinity", "1e999", "-1", "0", "1.5", "true", "null", "[]", "{}", '""', "9" * 5000, "9" * 400, "٣"),
    *("9223372036854775807", "-9223372036854775809", "4294967296", "../../x", "/etc/passwd", "@placeholder", "XXXX"),
    *("BEG__", "__END", "@entity0", " :: ", "[" * 5000, "{[]: 1}", "\ud800", "\x1c", "\x85", "quokka " * 300),
    *("\n\n\n", "21 ", "is_a: ", "[Term]\n", "-" * 3000, "C0000001", "\U0001f600", "PK\3\4"),
)  # fmt: skip
TOKENS = (*(token.encode("utf-8", "surrogatepass") for token in TOKENS), b"\xff", b"\x1f\x8b")
NUMBERS = (0, 1, -1, 127, 255, 1 << 15, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 40)
VALUES = (None, True, -1, 0, 1e308, 10**30, "", "quokka\0", "\ud800", "x" * 5000, [], {}, [[]], {"quokka": []})
FRACTION = st.floats(0, 1, exclude_max=True)  # a share of the content's length, so one example fits any length
LENGTH = st.sampled_from((0, 1, 1, 2, 4, 8, 40, 400))


def spliced(content, place, removed, inserted):
    start = int(place * (len(content) + 1))
    return content[:start] + inserted + content[start + removed :]


def flipped(content, place, bit):
    start = int(place * len(content))
    return content[:start] + bytes([content[start] ^ 1 << bit]) + content[start + 1 :] if content else content


def rearranged(content, places):
    """The lines at these places: some are dropped, some occur twice, and the order changes."""
    rows = content.splitlines(keepends=True)
    return b"".join(rows[int(place * len(rows))] for place in places) if rows else content


def repeated(content, place, length, times):
    start = int(place * (len(content) + 1))
    return content[:start] + content[start : start + length] * times + content[start + length :]


def token_replaced(content, place, token):
    """The text with another token in place of one word or number."""
    words = list(re.finditer(rb"[\w.+-]+", content))
    if not words:
        return token
    word = words[int(place * len(words))]
    return content[: word.start()] + token + content[word.end() :]


def value_replaced(content, place, value):
    """The JSON, or the JSON in one of the lines, with another value in one place."""
    rows = content.splitlines(keepends=True) or [content]
    for number, row in [(None, content), *enumerate(rows)]:
        try:
            tree = json.loads(row)
        except (ValueError, RecursionError):
            continue
        holders = [*of_values({"": tree})]
        holder, key = holders[int(place * len(holders))]
        top = {"": tree} if holder == {"": tree} and key == "" else None
        (holder if top is None else top)[key] = value
        text = json.dumps(tree if top is None else value).encode()
        return text if number is None else b"".join([*rows[:number], text + b"\n", *rows[number + 1 :]])
    return content


def of_values(node):
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield node, key
        if isinstance(value, dict | list):
            yield from of_values(value)


def mutation(function, *strategies):
    return st.tuples(*strategies).map(lambda arguments: lambda content: function(content, *arguments))


MUTATIONS = st.one_of(
    mutation(flipped, FRACTION, st.integers(0, 7)),
    mutation(spliced, FRACTION, LENGTH, st.sampled_from(TOKENS)),
    mutation(spliced, FRACTION, LENGTH, st.binary(max_size=8)),
    mutation(spliced, FRACTION, st.just(1 << 30), st.just(b"")),
    mutation(spliced, FRACTION, st.sampled_from((1, 2, 4, 8)),
             st.builds(lambda n, order, size: struct.pack(f"{order}q", n)[:size], st.sampled_from(NUMBERS),
                       st.sampled_from("<>"), st.sampled_from((1, 2, 4, 8)))),
    mutation(rearranged, st.lists(FRACTION, max_size=8)),
    mutation(repeated, FRACTION, LENGTH, st.sampled_from((2, 50))),
    mutation(token_replaced, FRACTION, st.sampled_from(TOKENS)),
    mutation(value_replaced, FRACTION, st.sampled_from(VALUES)),
    mutation(lambda content, whole: whole, st.sampled_from((b"", b"[" * 100_000, b'{"a":' * 50_000))),
)  # fmt: skip

# ---- the property ----


def message_of(reader, folder):
    """The message of reading, from an error or from stderr. Any other exception is passed on."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            reader(folder)
        except UserError as error:
            text = str(error)
            if any("Fix: " not in line and not line.startswith("... and ") for line in text.splitlines()):
                raise AssertionError("an error without a way out") from error
            said.write(f"{text}\n")
    return said.getvalue()


def check(reader, examples, folder):
    """Reads this many mutated inputs. Returns how many were refused or reported."""
    lay_out(reader.files, folder)
    refused = 0

    @settings(max_examples=examples, deadline=None, database=None, derandomize=examples == FEW,
              suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink])  # fmt: skip
    @given(st.sampled_from(sorted(reader.files.keys() - set(reader.good))), st.lists(MUTATIONS, min_size=1, max_size=4))
    def reads_or_tells(name, mutations):
        nonlocal refused
        content = good = as_bytes(reader.files[name])
        for mutate in mutations:
            content = mutate(content)
        (folder / name).write_bytes(content)
        begun = time.process_time()
        try:
            text = message_of(reader, folder)
        finally:
            (folder / name).write_bytes(good)
        assert time.process_time() - begun < LONGEST, f"too slow: {name}"
        assert not CANARIES.search(BY_ID.sub("", text)), f"a message holds a word of {name}"
        refused += bool(text)

    reads_or_tells()
    return refused


def by_name(readers):
    return pytest.mark.parametrize("reader", readers, ids=lambda reader: reader.name)


@by_name(READERS)
def test_a_few_mutated_files_are_read_or_refused(reader, tmp_path):
    check(reader, FEW, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@by_name(READERS)
def test_mutated_files_are_read_or_refused(reader, tmp_path):
    assert check(reader, MANY, tmp_path) > MANY // 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
@by_name([gzipped(reader) for reader in READERS if reader.gzip])
def test_mutated_gzipped_files_are_read_or_refused(reader, tmp_path):
    check(reader, MANY // 4, tmp_path)
