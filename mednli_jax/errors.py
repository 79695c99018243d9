"""Errors that a user can correct, each in one line, and reports of bugs. Neither quotes the text of a corpus.

UserError, DataError and DataErrors are for bad usage and bad files. The message of a bug, of a warning or of an
exception that a library logs may quote the data. Only its type and place are reported, never its message.
$MEDNLI_JAX_TRACEBACK=1 shows the whole report, for places where text may be shown.
"""

import logging
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

MAX_PROBLEMS = 20
PACKAGE = Path(__file__).parent
SHOW_ALL = "MEDNLI_JAX_TRACEBACK"
FIRST_FRAMES, LAST_FRAMES = 8, 24  # number of frames kept from the start and the end of a long traceback
MOST_CAUSES = 4  # most earlier exceptions of a chain that are reported
# Beginning of a warning that the user can act on -> text that is printed instead of its type and place.
KNOWN_WARNINGS = {
    "Error reading persistent compilation cache entry": "a compiled program in the cache cannot be read and is "
    "compiled again. Fix: if this warning comes each time, delete the folder `compiled` in $MEDNLI_JAX_CACHE, by "
    "default ~/.cache/mednli_jax, or the folder $JAX_COMPILATION_CACHE_DIR.",
}


# Characters that control a terminal or that it cannot show: control characters except TAB and line feed, marks of
# text direction, line separators, halves of surrogate pairs.
_UNPRINTABLE = re.compile("[\0-\b\v-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text for a terminal, a log or a page: unprintable characters are escaped as in JSON, e.g. `\\u001b`."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class PrintableStream:
    """A text stream that writes only `printable` text to `stream`."""

    def __init__(self, stream):
        self.stream = getattr(stream, "stream", stream)

    def write(self, text: str) -> int:
        return self.stream.write(printable(text))

    def __getattr__(self, name):
        return getattr(self.stream, name)


class UserError(Exception):
    """Bad input or usage. A command prints `error: ` and the message in one line and exits with code 2."""

    def __init__(self, message: str = ""):
        super().__init__(printable(message).replace("\n", "\\n"))


class UsageError(UserError):
    """A wrong flag or a wrong use of a command."""


class ConfigError(UserError):
    """A config field with a wrong value."""


class RunError(UserError):
    """A run directory, a checkpoint, a process or the disk is not in the required state."""


class DataError(UserError):
    """One error in one file: `mli_dev_v1.jsonl:18: field 'gold_label' is missing. Fix: ...`.

    Args:
      problem: what is wrong, in terms of fields and counts; never a quotation of the text.
      file: name of the file.
      line: its line, counted from 1.
      field: name of the field, for programs; `problem` names it too.
      fix: what the user can do.
    """

    def __init__(self, problem, *, file=None, line=None, field=None, fix=""):
        self.problem, self.file, self.line, self.field, self.fix = problem, file, line, field, fix
        where = "" if file is None else f"{file}" + ("" if line is None else f":{line}") + ": "
        end = "" if problem.endswith("?") else "."
        super().__init__(f"{where}{problem.rstrip('.')}{end}" + (f" Fix: {fix.rstrip('.')}." if fix else ""))


class DataErrors(UserError):
    """Several errors of one pass over a file: the first 20 and the number of further ones."""

    def __init__(self, errors, total=None):
        self.errors = list(errors)[:MAX_PROBLEMS]
        total = len(errors) if total is None else total
        lines = [str(error) for error in self.errors]
        if total > len(self.errors):
            lines.append(f"... and {total - len(self.errors)} more problems.")
        Exception.__init__(self, "\n".join(lines))


class Problems:
    """Collects the errors of one file, so that the user sees the first 20 at once.

    Usage: `problems.add(DataError(...))` while reading, `problems.raise_if_any()` at the end.
    """

    def __init__(self):
        self.first, self.total = [], 0

    def add(self, error):
        self.total += 1
        if len(self.first) < MAX_PROBLEMS:
            self.first.append(error)

    def raise_if_any(self):
        if self.total == 1:
            raise self.first[0]
        if self.total:
            raise DataErrors(self.first, self.total)


# ---- bugs ----


def hide_messages() -> None:
    """From here on, Python and logging report exceptions and warnings without their messages, in all threads."""
    if _shows_all():
        return
    sys.excepthook = lambda kind, error, trace: report_bug(error)
    sys.unraisablehook = _unraisable
    threading.excepthook = lambda thread: report_bug(thread.exc_value or Exception())
    warnings.formatwarning = _warning
    if not isinstance(logging.getLogRecordFactory(), _Records):
        logging.setLogRecordFactory(_Records(logging.getLogRecordFactory()))


def report_bug(error: BaseException) -> None:
    """Prints the type and place of an unexpected exception on stderr."""
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return
    if _shows_all():
        traceback.print_exception(error)
    print("\n".join(bug_lines(error)), file=sys.stderr, flush=True)


def bug_lines(error: BaseException) -> list[str]:
    """`KeyError in mednli_jax/text.py:120 (pad). Fix: ...`, then the frames, outermost first.

    The lines hold no message, no source code and no value. The exceptions that led to this one follow in the same form.
    """
    fix = f"report these lines, which quote no text; {SHOW_ALL}=1 shows all, where text may be shown"
    result = [f"bug: {summary(error)}. Fix: {fix}."]
    result += [f"  {frame}" for frame in _shortened([_place(frame) for frame in _frames(error)])]
    return result + [f"  after {summary(cause)}" for cause in _causes(error)]


def summary(error: BaseException) -> str:
    """`KeyError in mednli_jax/text.py:120 (pad)`: the innermost frame of this package, else of all frames."""
    frames = _frames(error)
    in_package = [frame for frame in frames if Path(frame[0]).is_relative_to(PACKAGE)]
    innermost = (in_package or frames)[-1:]
    return f"{type(error).__name__}{''.join(f' in {_place(frame)}' for frame in innermost)}"


def _shows_all():
    return os.environ.get(SHOW_ALL, "") not in ("", "0")


def _frames(error):
    """(file, line, function) of each frame. traceback.extract_tb is not used, because it reads the source lines."""
    return [
        (frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in traceback.walk_tb(error.__traceback__)
    ]


def _place(frame):
    """`mednli_jax/text.py:120 (pad)`."""
    path, line, function = frame
    return f"{_from_root(path)}:{line} ({function})"


def _from_root(path):
    """The path of a source file, relative to the folder that holds its package."""
    roots = sorted((root for root in map(os.path.abspath, filter(None, sys.path))), key=len, reverse=True)
    root = next((root for root in (str(PACKAGE.parent), *roots) if path.startswith(root + os.sep)), "")
    return path.removeprefix(root + os.sep) if root else os.path.basename(path)


def _shortened(frames):
    dropped = len(frames) - FIRST_FRAMES - LAST_FRAMES
    return [*frames[:FIRST_FRAMES], f"... {dropped} frames", *frames[-LAST_FRAMES:]] if dropped > 0 else frames


def _causes(error) -> Iterator[BaseException]:
    """The exceptions that led to this one, the last first."""
    for _ in range(MOST_CAUSES):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is None:
            return
        if error.__traceback__ is not None:
            yield error


def is_echo(report) -> bool:
    """Whether a tensorstore thread reports late, after a save or load, to an event loop that is closed already."""
    return report.exc_type is RuntimeError and str(report.exc_value) == "Event loop is closed"


def _unraisable(report):
    # report.object and report.err_msg are left out, because a repr may quote the data.
    if report.exc_value is not None and not is_echo(report):
        report_bug(report.exc_value)


def _warning(message, category, filename, lineno, line=None):
    """Replaces warnings.formatwarning, because some warnings quote values."""
    for beginning, text in KNOWN_WARNINGS.items():
        if str(message).startswith(beginning):
            return f"warning: {text}\n"
    return f"warning: {category.__name__} in {_from_root(filename)}:{lineno}\n"


class _Records:
    """A log record factory that leaves out the messages of exceptions."""

    def __init__(self, factory):
        self.factory = factory

    def __call__(self, name, level, path, line, message, arguments, error, *more, **named):
        if isinstance(arguments, tuple):
            arguments = tuple(summary(value) if isinstance(value, BaseException) else value for value in arguments)
        if isinstance(message, BaseException):
            message, arguments = summary(message), ()
        if error and isinstance(error, tuple) and error[1] is not None:
            message, arguments = f"{name}: {summary(error[1])}", ()  # the text of the log call may also quote the data
        return self.factory(name, level, path, line, message, arguments, None, *more, **named)
