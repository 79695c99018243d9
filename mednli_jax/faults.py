"""What goes wrong inside the program, told without the data it went wrong over: types and places, never messages.

The message of an exception nobody expected, a warning, and an exception that a library hands to its log may quote what
was at hand: a word, a sentence, a file's content. $MEDNLI_JAX_TRACEBACK=1 shows all of it, where text may
be shown.
"""

import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent
SHOW = "MEDNLI_JAX_TRACEBACK"
FIRST, LAST = 8, 24  # frames that are told of a deep stack
CHAINED = 4  # exceptions before this one, at most
# How a warning begins whose cause a user can remove -> what is told of it in the place of its name.
KNOWN = {
    "Error reading persistent compilation cache entry": "a compiled program in the cache cannot be read and is "
    "compiled again. Fix: if this is told each time, delete the folder `compiled` in $MEDNLI_JAX_CACHE, by default "
    "~/.cache/mednli_jax, or what $JAX_COMPILATION_CACHE_DIR names.",
}


def install() -> None:
    """From here on whatever Python itself would print of a fault, here or in a thread, is told without its message."""
    if _shows_all():
        return
    sys.excepthook = lambda kind, error, trace: tell(error)
    sys.unraisablehook = _unraisable
    threading.excepthook = lambda fault: tell(fault.exc_value or Exception())
    warnings.formatwarning = _warning
    if not isinstance(logging.getLogRecordFactory(), _Records):
        logging.setLogRecordFactory(_Records(logging.getLogRecordFactory()))


def tell(error: BaseException) -> None:
    """A fault of ours, on stderr."""
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return
    if _shows_all():
        traceback.print_exception(error)
    print("\n".join(lines(error)), file=sys.stderr, flush=True)


def lines(error: BaseException) -> list[str]:
    """`E-BUG-001 KeyError in mednli_jax/corpora/nli/encoding.py:120 (pad). Fix: ...`, then the frames, outermost first.

    Neither messages nor source lines nor values: of exceptions that this one came from types and places alone.
    """
    fix = f"report these lines, which quote no text; {SHOW}=1 shows all, where text may be shown"
    told = [f"E-BUG-001 {summary(error)}. Fix: {fix}."]
    told += [f"  {frame}" for frame in _shortened([_place(frame) for frame in _frames(error)])]
    return told + [f"  after {summary(before)}" for before in _before(error)]


def summary(error: BaseException) -> str:
    """`KeyError in mednli_jax/corpora/nli/encoding.py:120 (encode_pair)`: the innermost frame of ours, or of all."""
    frames = _frames(error)
    own = [frame for frame in frames if Path(frame[0]).is_relative_to(PACKAGE)]
    where = (own or frames)[-1:]
    return f"{type(error).__name__}{''.join(f' in {_place(frame)}' for frame in where)}"


def _shows_all():
    return os.environ.get(SHOW, "") not in ("", "0")


def _frames(error):
    """(file, line, function) of each frame. Not traceback.extract_tb, which reads the source lines."""
    return [
        (frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in traceback.walk_tb(error.__traceback__)
    ]


def _place(frame):
    """`mednli_jax/corpora/nli/encoding.py:120 (encode_pair)`."""
    path, line, function = frame
    return f"{_from_root(path)}:{line} ({function})"


def _from_root(path):
    """The file from its package on, ours or a library's."""
    roots = sorted((root for root in map(os.path.abspath, filter(None, sys.path))), key=len, reverse=True)
    root = next((root for root in (str(PACKAGE.parent), *roots) if path.startswith(root + os.sep)), "")
    return path.removeprefix(root + os.sep) if root else os.path.basename(path)


def _shortened(frames):
    dropped = len(frames) - FIRST - LAST
    return [*frames[:FIRST], f"... {dropped} frames", *frames[-LAST:]] if dropped > 0 else frames


def _before(error) -> Iterator[BaseException]:
    """The exceptions that led to this one, the last first."""
    for _ in range(CHAINED):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is None:
            return
        if error.__traceback__ is not None:
            yield error


def _unraisable(fault):
    if fault.exc_value is not None:  # neither fault.object nor fault.err_msg: a repr may hold anything
        tell(fault.exc_value)


def _warning(message, category, filename, lineno, line=None):
    """In place of warnings.formatwarning: some quote the values they warn of."""
    for beginning, told in KNOWN.items():
        if str(message).startswith(beginning):
            return f"warning: {told}\n"
    return f"warning: {category.__name__} in {_from_root(filename)}:{lineno}\n"


class _Records:
    """Makes logging's records, of any logger and level, without the messages of the exceptions they report."""

    def __init__(self, before):
        self.before = before

    def __call__(self, name, level, path, line, message, arguments, fault, *more, **named):
        if isinstance(arguments, tuple):
            arguments = tuple(summary(value) if isinstance(value, BaseException) else value for value in arguments)
        if isinstance(message, BaseException):
            message, arguments = summary(message), ()
        if fault and isinstance(fault, tuple) and fault[1] is not None:
            message, arguments = f"{name}: {summary(fault[1])}", ()  # what it says besides may quote it, too
        return self.before(name, level, path, line, message, arguments, None, *more, **named)
